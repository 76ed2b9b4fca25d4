"""Export of a session to a file: its format, path and losses, and the command that resumes it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from rich.highlighter import Highlighter
from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Label, Static

from context_tui.errors import Error
from context_tui.export import files
from context_tui.session.session import Session
from context_tui.text.files import find_leftovers, remove_leftover
from context_tui.text.numbers import format_count
from context_tui.text.sanitize import make_visible, sanitize_line
from context_tui.tui.threads import WorkErrorHandler, run_in_thread
from context_tui.tui.widgets.bindings import KeyFooter, read_bindings
from context_tui.tui.widgets.dialogs import Answer, ChoicePrompt
from context_tui.tui.widgets.guarded_screens import RefusingScreen
from context_tui.tui.widgets.styled_text import build_choice_strip

MAX_NAMED_LOSSES = 2
DEFAULT_FORMAT = "anthropic"
"""Default format of sessions whose own format cannot be written."""


class ExportScreen(RefusingScreen[files.ExportResult | None], WorkErrorHandler, ModalScreen[files.ExportResult | None]):
    """A screen that writes a session to a file; returns the result, or None if nothing was written."""

    CSS_PATH = "export.tcss"
    VERTICAL_BREAKPOINTS = [(0, "-low"), (26, "-high")]
    BINDINGS = read_bindings("export")

    def __init__(self, session: Session, *, path: Path | None = None) -> None:
        super().__init__()
        self.session = session
        self.formats = files.list_export_formats()
        self.format = session.info.format if session.info.format in self.formats else DEFAULT_FORMAT
        self.result: files.ExportResult | None = None
        self._suggested_path = str(path or files.suggest_path(session, self.format))
        self._is_writing = False
        self._leftovers: list[Path] = []
        self._loss_texts: dict[str, str] = {}  # losses by format
        # Attributes, since results of threads may arrive while the screen is being removed and queries fail.
        self._formats_label = Static("", id="export-formats", markup=False)
        self._status = Static("", id="export-status", markup=False)
        self._leftovers_label = Static("", id="export-leftovers", markup=False)

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="export", can_focus=False):
            subject = f"the copy with {self.session.origin}" if self.session.origin else "the session, nothing"
            yield Label(sanitize_line(f"Export {subject} applied"), id="export-title", markup=False)
            yield self._formats_label
            yield Label("File:", id="export-file", markup=False)
            path = Input(self._suggested_path, id="export-path", select_on_focus=False, compact=True)
            path.highlighter = FileNameHighlighter(path)
            yield path
            yield self._status
            yield self._leftovers_label
        yield KeyFooter()

    def on_mount(self) -> None:
        self._show_formats()
        self.query_one(Input).focus()
        self._find_leftovers(Path(self._suggested_path).parent)

    def on_resize(self) -> None:
        self.call_after_refresh(self._show_formats)
        self.call_after_refresh(self._scroll_to_file_name)

    def _scroll_to_file_name(self) -> None:
        """Scroll to the end of the path, unless it was edited."""
        path = self.query_one(Input)
        if path.value == self._suggested_path and path.cursor_at_end:
            path.action_home()
            path.action_end()

    def _show_formats(self) -> None:
        about = Content.styled(f"\n{files.describe_format(self.format)}", "$foreground 60%")
        width = self._formats_label.content_size.width
        strip = build_choice_strip({name: name for name in self.formats}, self.format, width)
        self._formats_label.update(strip + about + Content(f"\n\n{self._describe_session()}"))
        is_described = self.format in self._loss_texts or files.is_copied(self.session, self.format)
        if self.result is None and not is_described:
            self._find_losses(self.format)

    def _describe_session(self) -> str:
        if files.is_copied(self.session, self.format):
            return "The session's own format: every record stays as it was recorded."
        count = format_count(len(self.session.context_at()), "message")
        content = f"{count}, the current context" if self.session.origin else f"{count}, the context at the end"
        return f"{content}. {self._loss_texts.get(self.format, f'Checking what {self.format} cannot hold…')}"

    @work(group="losses", description="find what the format cannot hold", exclusive=True, exit_on_error=False)
    async def _find_losses(self, name: str) -> None:
        try:
            losses = (await run_in_thread(lambda job: files.try_export(self.session, name))).losses
        except (Error, OSError, ValueError) as error:
            self._loss_texts[name] = f"This session cannot be written: {error}"
        else:
            suffix = f"; {len(losses) - MAX_NAMED_LOSSES:,} more" if len(losses) > MAX_NAMED_LOSSES else ""
            loss_list = "; ".join(map(sanitize_line, losses[:MAX_NAMED_LOSSES]))
            self._loss_texts[name] = f"Notes: {loss_list}{suffix}." if losses else f"{name} holds all of it."
        if self.result is None:
            self._show_formats()

    def find_refusal(self, action: str) -> str:
        writing = "The file is being written" if self._is_writing else ""
        match action:
            case "write" | "format":
                return writing or ("The file is written; press esc" if self.result else "")
            case "remove_leftovers":
                return "" if self._leftovers else "No folder of a killed run is left here"
            case "copy":
                has_command = self.result and self.result.resume_command
                return "" if has_command else "No command is known that resumes this file"
        return writing if action == "close" else ""

    def action_format(self, step: int) -> None:
        self.action_choose(self.formats[(self.formats.index(self.format) + step) % len(self.formats)])

    def action_choose(self, name: str) -> None:
        """Choose a format by name, and adapt the path to it unless the user has edited the path."""
        if self.result is not None or self._is_writing:
            return
        self.format = name
        path = self.query_one(Input)
        if path.value == self._suggested_path:
            self._suggested_path = str(files.suggest_path(self.session, name))
            path.value = self._suggested_path
            path.action_end()
            self.call_after_refresh(self._scroll_to_file_name)
        self._show_formats()
        self._set_status("")

    def action_write(self) -> None:
        if not self._is_writing:
            self._write(force=False)

    def _write(self, force: bool) -> None:
        name = self.query_one(Input).value.strip()
        if not name:
            self._set_status("✗ no file name; type one", is_error=True)
            return
        self._is_writing = True
        self._set_status("Writing…")
        self._export(Path(os.path.expanduser(name)), force)

    def show_work_error(self, message: str, group: str) -> None:
        self._set_status(f"✗ {message}", is_error=True)

    @work(group="export", description="write the file", exit_on_error=False)
    async def _export(self, path: Path, force: bool) -> None:
        session, name = self.session, self.format
        try:
            self.result = await run_in_thread(lambda job: files.export(session, path, name, force=force))
        except files.OutputExists:
            question = ChoicePrompt("Replace the file?", f"{path} already exists.", _REPLACE_ANSWERS)
            self.app.push_screen(question, self._handle_replace_answer)
            self._set_status("")
        except (Error, OSError, ValueError) as error:
            self._set_status(f"✗ {error}", is_error=True)
        else:
            self._show_result(self.result)
        finally:
            self._is_writing = False
            self.refresh_bindings()

    def _handle_replace_answer(self, answer: str | None) -> None:
        if answer == "replace":
            self._write(force=True)
        else:
            self._set_status("Nothing was written; type another file name")

    def _show_result(self, result: files.ExportResult) -> None:
        parts: list[Any] = [("✓ ", "$success"), make_visible(f"written: {result.path}")]
        for loss in result.losses:
            parts += [("\n! ", "$warning"), sanitize_line(loss)]
        if result.resume_command:
            parts += [("\n\nresume with:\n", "$foreground 60%"), make_visible(result.resume_command)]
        self._status.update(Content.assemble(*parts))
        self._status.remove_class("wrong")
        for selector in ("#export-path", "#export-file", "#export-formats"):
            self.query_one(selector).display = False
        scroll = self.query_one("#export")
        scroll.can_focus = True  # so that its keys scroll a long result
        scroll.focus()
        self.call_after_refresh(scroll.scroll_home, animate=False)  # after the scrolls that were requested before
        self._find_leftovers(result.path.parent)

    def _set_status(self, text: str, is_error: bool = False) -> None:
        self._status.update(make_visible(text))
        self._status.set_class(is_error, "wrong")
        self.call_after_refresh(self._status.scroll_visible, animate=False)

    @work(group="leftovers", description="look for leftover folders", exclusive=True, exit_on_error=False)
    async def _find_leftovers(self, folder: Path) -> None:
        self._leftovers = await run_in_thread(lambda job: find_leftovers(folder))
        count = format_count(len(self._leftovers), "folder")
        label = f"! {count} left by killed runs, each with a copy of a session; press ctrl+r to remove"
        self._leftovers_label.update("\n  ".join([label, *(make_visible(each.name) for each in self._leftovers)]))
        self._leftovers_label.display = bool(self._leftovers)
        self.refresh_bindings()

    def action_remove_leftovers(self) -> None:
        """Remove the leftover folders that have not changed since they were found."""
        removed_count = sum(map(remove_leftover, self._leftovers))
        self.notify(f"Removed {removed_count:,} of {format_count(len(self._leftovers), 'folder')}", markup=False)
        self._find_leftovers(self._leftovers[0].parent)

    def action_copy(self) -> None:
        if self.result:
            self.app.copy_to_clipboard(self.result.resume_command)

    def action_close(self) -> None:
        self.dismiss(self.result)


class FileNameHighlighter(Highlighter):
    """A highlighter for an input that makes every character of a path visible."""

    def __init__(self, path: Input) -> None:
        self._path = path

    def __call__(self, text: str | Text) -> Text:
        """Return the text to draw instead of *text*, in which Textual has already dropped control characters."""
        return Text(make_visible(self._path.value), no_wrap=True, overflow="ignore", end="")

    def highlight(self, text: Text) -> None:
        """Do nothing, because ``__call__`` replaces the whole text."""


_REPLACE_ANSWERS = [Answer("k", "keep", "keep"), Answer("r", "replace", "replace")]
