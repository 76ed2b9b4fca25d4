"""Textual application: screens, themes and the options of the command line."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import PurePath
from subprocess import Popen
from threading import Thread, Timer
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from rich.console import COLOR_SYSTEMS
from textual import events, on, work
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import ActiveBinding, Binding, BindingType
from textual.filter import LineFilter, Monochrome, NoColor
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.theme import Theme
from textual.widgets import Static

from context_tui.app.config import Config, ConfigError, save_theme
from context_tui.app.signals import TERMINATION_SIGNALS, get_exit_code, handle_termination
from context_tui.app.state import EMPTY_STATE, find_state_path, read_state, write_state
from context_tui.formats.kit.files import find_working_folder
from context_tui.session.session import Session, SessionInfo
from context_tui.text.files import remove_open_folders
from context_tui.text.sanitize import make_visible
from context_tui.tui.drafts import Drafts
from context_tui.tui.options import InspectorOptions
from context_tui.tui.saving import save_picture
from context_tui.tui.terminal import themes
from context_tui.tui.terminal.cells import ASCII_KEY_NAMES
from context_tui.tui.terminal.clipboard import cancel_copy, start_copy, wait_for_copy
from context_tui.tui.terminal.key_queue import KeyBarrier, KeyQueue, UserInput
from context_tui.tui.terminal.output_filter import ContrastAdjuster, OutputFilter
from context_tui.tui.threads import join_threads
from context_tui.tui.widgets.bindings import check_keymap

if TYPE_CHECKING:
    from context_tui.lab.study import StudySettings
    from context_tui.lab.sweep.results import Sweep
    from context_tui.library.discovery import SessionEntry
    from context_tui.policies.base import Params
    from context_tui.tui.early_answer import EarlyAnswer, EarlyAnswerProcess
    from context_tui.tui.inspector.screen import InspectorScreen
    from context_tui.tui.sweep.sessions import SessionsScreen


DEFAULT_CONFIG, DEFAULT_OPTIONS = Config(), InspectorOptions()

NEWEST_INTERVAL_S = 3.0

EXIT_TIMEOUT_S = 2.0
TOAST_REMOVED_S = 0.3
"""Seconds in which the toast of a notification that ended is removed."""
TERMINAL_INTERVAL_S = 1.0
"""Seconds between checks that the terminal is still there."""


class SweepToOpen(NamedTuple):
    """A sweep, the swept sessions by name, the command line that ran it, and how it handled recorded compactions."""

    sweep: Sweep
    infos: Mapping[str, SessionInfo]
    command: str
    handling: str


class ContextTuiApp(App[None]):
    """The terminal application; it opens on a session, on a picker of sessions, or on a sweep over sessions."""

    TITLE = "context-tui"
    CSS_PATH = "app.tcss"
    ENABLE_COMMAND_PALETTE = True
    PAUSE_GC_ON_SCROLL = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit_early", "Quit", show=False, system=True, id="quit-early", tooltip="Quit without asking"),
        Binding("ctrl+q", "quit", "Quit", show=False, priority=True, id="quit-now", tooltip="Quit without asking"),
        Binding("ctrl+e", "report", "Report", show=False, id="report", tooltip="Write a report of the session as HTML"),
    ]

    def __init__(
        self,
        target: Session | SessionInfo | Sequence[SessionInfo],
        options: InspectorOptions = DEFAULT_OPTIONS,
        *,
        theme: str | None = None,
        config: Config = DEFAULT_CONFIG,
        follow_newest: bool = False,
        sweep: SweepToOpen | None = None,
        early_answer: EarlyAnswerProcess | None = None,
    ) -> None:
        self._has_few_colours = themes.has_few_colours(os.environ)  # before Textual asks for the first theme
        self._has_begun = self._has_imported_inspector = False
        super().__init__()
        self.no_color = bool(os.environ.get("NO_COLOR"))
        self.target, self.options, self.sweep = target, options, sweep
        self._follows_newest, self._followed_keys = follow_newest, set[tuple[str, str]]()
        self.last_state = EMPTY_STATE
        self._early_answer_process = early_answer
        self._early_answer: EarlyAnswer | None = None
        self.drafts = Drafts()
        self._output_filter: OutputFilter | None = None
        self._copy_process: Popen[bytes] | None = None
        self._key_queue = KeyQueue(self, super().on_event)
        self.exit_signal: int | None = None
        self._running_loop: asyncio.AbstractEventLoop | None = None
        self.register_theme(themes.DARK)
        self.register_theme(themes.LIGHT)
        self.theme = themes.choose_theme(theme, os.environ, self.available_themes, config.theme)
        keymap, self._key_warnings = check_keymap(config.keys) if config.keys else ({}, [])
        self.set_keymap(keymap)

    def compose(self) -> ComposeResult:
        """Yield the widgets shown until the first screen is imported."""
        if self._needs_picker:
            return
        yield Static(self._opening_name, id="opening", markup=False)

    @property
    def _opening_name(self) -> str:
        target = self.target if isinstance(self.target, Session | SessionInfo) else next(iter(self.target), None)
        info = target.info if isinstance(target, Session) else target
        return make_visible(PurePath(info.path).name if info else self.TITLE)

    def on_mount(self) -> None:
        """Import the inspector in a thread after the first paint, so that keys work meanwhile.

        The picker, which does not need the inspector, opens first; the import then begins when all sessions are listed.
        """
        self._running_loop = asyncio.get_running_loop()
        if not self.is_headless and os.isatty(0):
            self.set_interval(TERMINAL_INTERVAL_S, self._exit_without_terminal)
        if self._early_answer_process:
            self._running_loop.add_reader(self._early_answer_process.pipe, self._receive_early_answer)
        if self.exit_signal:
            self.exit()
        elif self._needs_picker:
            self.open_first_screen()
        else:
            self.call_after_refresh(self._start_import)

    def _receive_early_answer(self) -> None:
        process = self._early_answer_process
        if process is None or not process.receive():
            return
        self._early_answer = process.answer
        self._end_early_answer()
        if self._early_answer:
            for opening in self.query("#opening").results(Static):
                opening.update(f"{self._opening_name}\n{' '.join(self._early_answer.sentences)}")
            for inspector in self._list_inspectors():
                inspector.show_early_answer(self._early_answer)

    def _end_early_answer(self) -> None:
        if self._early_answer_process:
            if self._running_loop:
                self._running_loop.remove_reader(self._early_answer_process.pipe)
            self._early_answer_process.close()
            self._early_answer_process = None

    def _start_import(self) -> None:
        Thread(target=self._import_inspector, name="import", daemon=True).start()

    def _import_inspector(self) -> None:
        with suppress(Exception):  # the import on the main thread raises it again
            import context_tui.tui.inspector.screen  # noqa: F401
        self.call_later(self._handle_imported)

    def _handle_imported(self) -> None:
        self._freeze_imported()
        if not self._has_begun:
            self.open_first_screen()

    def _freeze_imported(self) -> None:
        if not self._has_imported_inspector:
            self._has_imported_inspector = True
            gc.freeze()  # a collection that visits all imported objects would pause the screen
            gc.enable()

    def on_picker_screen_all_found(self) -> None:
        """Import the inspector while the user chooses a session."""
        if not self._has_imported_inspector:
            self._start_import()

    @property
    def _needs_picker(self) -> bool:
        return self.sweep is None and not isinstance(self.target, Session | SessionInfo) and len(self.target) != 1

    async def on_event(self, event: events.Event) -> None:
        """Queue keys, pastes and mouse events; handle everything else at once."""
        if isinstance(event, UserInput) and not event.is_forwarded:
            await self._key_queue.enqueue(event)
        else:
            await super().on_event(event)

    @on(KeyBarrier)
    async def _handle_key_barrier(self, event: KeyBarrier) -> None:
        await self._key_queue.handle_barrier(event)

    def get_key_display(self, binding: Binding) -> str:
        """Return the key name to show in the footer and the help, in ASCII if ``--ascii`` was given."""
        key = super().get_key_display(binding)
        return key.translate(ASCII_KEY_NAMES) if self.options.ascii else key

    def get_theme(self, theme_name: str) -> Theme | None:
        """Return the named theme, or an ANSI theme if the terminal has few colours; None if the name is unknown."""
        theme = super().get_theme(theme_name)
        if theme is None or not self._has_few_colours:
            return theme
        return themes.ANSI_DARK if theme.dark else themes.ANSI_LIGHT

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return one output filter that applies Textual's filters, except those that turn colours grey for NO_COLOR."""
        inner = tuple(each for each in super().get_line_filters() if not isinstance(each, Monochrome | NoColor))
        dark, current = self.current_theme.dark, self._output_filter
        if current is None or inner != current.inner_filters or dark != current.contrast.dark:
            system = None if self.no_color else COLOR_SYSTEMS[self.console.color_system or "truecolor"]
            contrast = ContrastAdjuster(system, dark=dark)
            current = self._output_filter = OutputFilter(contrast, inner, ascii=self.options.ascii)
        return [current]

    def watch_theme(self, theme: str) -> None:
        """Save the chosen theme, but not the one set at startup."""
        if self._has_begun:
            try:
                save_theme(theme)
            except ConfigError as error:
                self.notify(make_visible(str(error)), severity="warning", markup=False)

    def copy_to_clipboard(self, text: str) -> None:
        """Copy *text* to the system clipboard, or else through the terminal (OSC 52); lone surrogates become ``?``."""
        self._clipboard = text = text.encode("utf-8", "replace").decode("utf-8")
        if self._copy_process is not None:
            cancel_copy(self._copy_process)
        self._copy_process = start_copy(text, os.environ)
        self.run_worker(self._finish_copy(text, self._copy_process), group="clipboard", exclusive=True)

    async def _finish_copy(self, text: str, program: Popen[bytes] | None) -> None:
        if program is not None and await wait_for_copy(program):
            self.notify("Copied", markup=False, timeout=4)
        else:
            super().copy_to_clipboard(text)
            self.notify("Sent to the clipboard (OSC 52)", markup=False, timeout=4)

    def exit_on_signal(self, signum: int, _frame: object = None) -> None:
        """Handle a termination signal: restore the terminal and exit with the exit code for that signal.

        If Textual hangs while writing to a closed terminal, a timer ends the process.
        """
        self.exit_signal = signum
        timer = Timer(EXIT_TIMEOUT_S, _exit_process, [get_exit_code(signum)])
        timer.daemon = True
        timer.start()
        if self._running_loop is not None:  # otherwise ``on_mount`` exits
            with suppress(RuntimeError):  # the loop is closed
                self._running_loop.call_soon_threadsafe(self.exit)

    def _exit_without_terminal(self) -> None:
        """Exit as on SIGHUP if the terminal is closed, as the signal may have gone only to a parent, such as make."""
        if not os.isatty(0):
            self.exit_on_signal(TERMINATION_SIGNALS[-1])

    def exit(self, result: None = None, return_code: int = 0, message: Any = None) -> None:
        """Exit, keeping the policy and settings for the next run unless the command line named a policy."""
        if not self.options.policy and self.sweep is None:
            self.last_state = next((each.saved_state for each in self._list_inspectors()), self.last_state)
        super().exit(result, return_code, message)

    def _list_inspectors(self) -> list[InspectorScreen]:
        if not self._has_imported_inspector:
            return []
        from context_tui.tui.inspector.screen import InspectorScreen

        return [screen for screen in self.screen_stack if isinstance(screen, InspectorScreen)]

    def _build_inspector(self, target: Session | SessionInfo, options: InspectorOptions) -> InspectorScreen:
        from context_tui.tui.inspector.screen import InspectorScreen

        return InspectorScreen(target, options, self.drafts)

    def action_help(self) -> None:
        from context_tui.tui.widgets.text_screen import show_help

        show_help(self)

    def action_save_picture(self) -> None:
        """Save the screen as a picture in the working directory, named after the session and the screen."""
        inspector = next(reversed(self._list_inspectors()), None)
        path = inspector.controller.recorded_session.info.path if inspector else "sessions"
        title = self.screen.BINDING_GROUP_TITLE or type(self.screen).__name__.removesuffix("Screen")
        save_picture(self.screen, path, title.lower().replace(" ", "-"))

    def _refresh_notifications(self) -> None:
        """Also paint the whole screen soon: Textual may forget to paint below a toast that goes while much is drawn."""
        super()._refresh_notifications()
        self.set_timer(TOAST_REMOVED_S, lambda: self.screen.refresh() if self.screen_stack else None)

    def action_help_quit(self) -> None:
        self.notify("Nothing is selected to copy: drag over a message first; ctrl+q quits", markup=False, timeout=4)

    def action_quit_early(self) -> None:
        """Exit without asking if no screen has opened yet; do nothing otherwise."""
        if len(self.screen_stack) == 1:
            self.exit()

    def action_report(self) -> None:
        """Write an HTML report on the open session, using the replay screen's policies or else the agent's own."""
        inspector = next(reversed(self._list_inspectors()), None)
        if inspector is None or inspector.controller.is_reading:
            self.notify("A report needs a session that has been read", severity="warning", markup=False)
            return
        from context_tui.lab.study import StudySettings
        from context_tui.tui.replay.screen import ReplayScreen

        comparison = self.screen.comparison if isinstance(self.screen, ReplayScreen) else None
        requests = [(lane.policy, lane.params) for lane in comparison.lanes] if comparison else []
        self.notify("Writing the report", markup=False, timeout=3)
        settings = comparison.settings if comparison else StudySettings("ignore")
        self._write_report(inspector.controller.recorded_session, requests, settings)

    @work(thread=True, exclusive=True, group="report")
    def _write_report(self, session: Session, requests: Sequence[tuple[str, Params]], settings: StudySettings) -> None:
        from context_tui.errors import Error
        from context_tui.export.report import list_own_policies
        from context_tui.export.report_page import write_session_report
        from context_tui.lab.study import Lab
        from context_tui.policies.registry import POLICIES
        from context_tui.summarizer.secrets import mask_text

        lab = Lab(session)
        pairs = [(POLICIES[name], params) for name, params in requests] or list_own_policies(session)
        severity: SeverityLevel = "information"
        try:
            studies = [lab.run_study(*pair, settings) for pair in pairs]
            path = write_session_report(lab, studies, find_working_folder(), lambda text: mask_text(text)[0])
            message = f"Report written: {path}"
        except Error as error:
            message, severity = str(error), "error"
        self.call_from_thread(self.notify, make_visible(message), severity=severity, markup=False, timeout=10)

    def open_first_screen(self) -> None:
        """Open the inspector, the picker if a session must be chosen, or a sweep."""
        self._has_begun = True
        for warning in self._key_warnings:
            self.notify(make_visible(warning), severity="warning", markup=False, timeout=10)
        if self.sweep is not None:
            from context_tui.tui.sweep.screen import build_sessions_screen

            screen = build_sessions_screen(self.sweep.sweep, self.sweep.command, self.sweep.handling)
            self.push_screen(screen, lambda _: self.exit())
        elif isinstance(self.target, Session | SessionInfo):
            self.open_inspector(self.target)
        elif len(self.target) == 1:
            self.open_inspector(self.target[0])
        else:
            from context_tui.library.discovery import find_choices
            from context_tui.tui.picker.screen import PickerScreen

            choices = find_choices(self.target)
            self.push_screen(PickerScreen(next(choices), find=choices), self._handle_picked)

    def on_sessions_screen_opened(self, event: SessionsScreen.Opened) -> None:
        from context_tui.policies.parameter_space import find_changed_values

        info = self.sweep.infos.get(event.name) if self.sweep else None
        if info is None:
            self.notify(f"{make_visible(event.name)} is not there any more", severity="warning", markup=False)
            return
        policy = event.setting.policy
        settings = find_changed_values(policy, event.setting.params)
        self.push_screen(self._build_inspector(info, replace(self.options, policy=policy.name, settings=settings)))
        self.notify(f"{make_visible(event.setting.name)}; ctrl+o goes back to the sweep", markup=False, timeout=6)

    def _handle_picked(self, answer: object) -> None:
        if isinstance(answer, SessionInfo):
            self.open_inspector(answer)
        else:
            self.exit()

    def action_sessions(self) -> None:
        """Show the picker over the open session; from a subagent or a sweep's session, go back one screen instead."""
        from context_tui.library.discovery import find_choices
        from context_tui.library.overview import build_overview
        from context_tui.tui.picker.screen import PickerScreen

        inspector = next((each for each in self._list_inspectors() if each is self.screen), None)
        if inspector is None:
            return
        if self._find_caller_screen() is not None:
            self._replace_session(None)
            return
        target, session = self.target, inspector.controller.recorded_session
        if isinstance(target, Session | SessionInfo):
            target = [target.info if isinstance(target, Session) else target]
        overview = None if inspector.controller.is_reading else build_overview(session)
        choices = find_choices(target, session.info)
        picker = PickerScreen(next(choices), find=choices, current=session.info, overview=overview)
        self.push_screen(picker, self._handle_other_picked)

    def _handle_other_picked(self, answer: object) -> None:
        from context_tui.library.discovery import build_session_key

        inspector = self._list_inspectors()[-1]
        current_key = build_session_key(inspector.controller.recorded_session.info)
        if answer == "quit":
            inspector.action_dialog("leave")
        elif isinstance(answer, SessionInfo) and build_session_key(answer) != current_key:
            self._replace_session(answer)

    @work
    async def _replace_session(self, info: SessionInfo | None) -> None:
        """Replace the open session with *info*, or close it if None; ask first if a copy would be lost."""
        from context_tui.tui.inspector.dialogs import confirm_close
        from context_tui.tui.widgets.dialogs import Answer, ChoicePrompt

        inspector = self._list_inspectors()[-1]
        answers = [Answer("e", "export", "export"), Answer("o", "quit", "open anyway"), Answer("s", "stay", "stay")]
        loss = "The compacted session is not exported; it would be lost."
        prompt = ChoicePrompt("Open another session?", loss, answers)
        if inspector.view.is_unexported and not await confirm_close(inspector, prompt):
            return
        if self.screen is not inspector:
            return
        self.clear_notifications()
        if info is None:
            await self.pop_screen()
        else:
            await self.switch_screen(self._build_inspector(info, self._derive_options(inspector)))

    def _derive_options(self, inspector: InspectorScreen) -> InspectorOptions:
        return replace(self.options, at=None, demo=False, policy=None, settings={}, last_state=inspector.saved_state)

    def _find_caller_screen(self) -> Screen[Any] | None:
        below = self.screen_stack[-2] if len(self.screen_stack) > 1 else None
        return below if below in self._list_inspectors() or self.sweep else None

    def on_inspector_screen_subagents_requested(self, event: InspectorScreen.SubagentsRequested) -> None:
        """Open a subagent above the session that called it; if there are several, let the user choose."""
        from context_tui.library.discovery import IN_THIS_FILE, SessionEntry
        from context_tui.library.overview import SUB_AGENT
        from context_tui.tui.picker.screen import PickerScreen

        if event.screen is not self.screen:  # something else was opened meanwhile
            return
        if len(event.infos) == 1:
            self._open_subagent(event.infos[0])
            return
        entries = [SessionEntry(info, IN_THIS_FILE, SUB_AGENT, info.format) for info in event.infos]
        self.push_screen(PickerScreen(entries, heading="Open a sub-agent", current=event.infos[0]), self._open_subagent)

    def _open_subagent(self, answer: object) -> None:
        if isinstance(answer, SessionInfo):
            options = self._derive_options(self._list_inspectors()[-1])
            self.push_screen(self._build_inspector(answer, options))
            self.notify(f"Sub-agent {make_visible(answer.id)}; esc goes back to its call", markup=False, timeout=6)

    def on_inspector_screen_back_requested(self) -> None:
        if self._find_caller_screen() is not None:
            self._replace_session(None)

    def open_inspector(self, target: Session | SessionInfo) -> None:
        """Open a session in the inspector; if the newest session is to be followed, start to look for newer ones."""
        self._freeze_imported()
        inspector = self._build_inspector(target, self.options)
        if self._early_answer:
            inspector.show_early_answer(self._early_answer)
        self.push_screen(inspector)
        if self._follows_newest:
            self.set_interval(NEWEST_INTERVAL_S, self._find_newest_session)

    @work(thread=True, exclusive=True, group="newest")
    def _find_newest_session(self) -> None:
        from context_tui.library.discovery import find_newest_session

        if (entry := find_newest_session()) is not None:
            self.call_from_thread(self._follow_newest, entry)

    def _follow_newest(self, entry: SessionEntry) -> None:
        from context_tui.library.discovery import build_session_key

        inspector = next((each for each in self._list_inspectors() if each is self.screen), None)
        if inspector is None or not inspector.controller.is_following:
            return
        self._followed_keys.add(build_session_key(inspector.controller.recorded_session.info))
        if entry.key not in self._followed_keys:
            self._followed_keys.add(entry.key)
            self._replace_session(entry.info)

    def _fatal_error(self) -> None:
        """Exit without Textual's traceback, which would print session text from local variables."""
        self._close_messages_no_wait()

    def on_unmount(self) -> None:
        self._end_early_answer()

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Yield palette commands for the screen's keys, for its actions without a key, and for choosing a theme."""
        bindings: dict[str, list[ActiveBinding]] = {}
        for active in screen.active_bindings.values():
            if active.binding.id and active.enabled and not active.binding.system:  # Textual's bindings have no id
                bindings.setdefault(active.binding.id, []).append(active)
        for same_bindings in bindings.values():  # first, as the palette lists equal matches in this order
            binding, node = same_bindings[0].binding, same_bindings[0].node
            name = binding.description[:1].upper() + binding.description[1:]
            keys = ", ".join(self.get_key_display(replace(each.binding, key_display=None)) for each in same_bindings)
            yield SystemCommand(
                f"{name}: {binding.tooltip}" if binding.tooltip else name,
                f"Key: {keys}",
                lambda action=binding.action, node=node: self.call_later(self.run_action, action, node),
            )
        for inspector in self._list_inspectors():
            if inspector is screen:
                from context_tui.tui.inspector.dialogs import list_policy_commands

                for name, choose, about in list_policy_commands(inspector):
                    yield SystemCommand(f"Plan with policy {name}: {about}", "No key", choose)
        if "picture" not in bindings:
            about = "Screenshot: Save the screen as a picture (SVG) in the working directory"
            # Later, when the palette has closed.
            yield SystemCommand(about, "No key", lambda: self.set_timer(0.1, self.action_save_picture))
        for command in super().get_system_commands(screen):
            if command.title == "Theme":
                yield command


def _exit_process(code: int) -> None:
    remove_open_folders()
    os._exit(code)


def run(app: ContextTuiApp, *, mouse: bool = True) -> int:
    """Run the application, restoring and saving its state; return the exit code, or raise the error of a crash."""
    path = None if app.options.demo else find_state_path()
    last_state = read_state(path)
    app.options, app.last_state = replace(app.options, last_state=last_state), last_state
    sys.setswitchinterval(0.001)  # so that threads that read give way to the screen sooner
    with handle_termination(app.exit_on_signal):
        app.run(mouse=mouse)
    if app.last_state != last_state:
        write_state(app.last_state, path)
    join_threads(0.05)
    gc.freeze()  # no collection as the process ends
    if app._exception is not None:
        raise app._exception
    return get_exit_code(app.exit_signal) if app.exit_signal else app.return_code or 0
