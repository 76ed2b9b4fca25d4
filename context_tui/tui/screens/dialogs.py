"""The screens that the inspector opens, and what it does with their answers."""

from __future__ import annotations

from textual import work

from context_tui.policies.scales import parse
from context_tui.session.session import Session
from context_tui.tui.command_line import command_line
from context_tui.tui.screens.filters import Choice, FilterScreen
from context_tui.tui.screens.help import HelpScreen
from context_tui.tui.screens.problems import ProblemsScreen
from context_tui.tui.screens.prompts import InputPrompt, quit_prompt
from context_tui.tui.screens.steering import Steering
from context_tui.tui.text import result_text
from context_tui.tui.view import Spot
from context_tui.tui.widgets.gauge import window_size
from context_tui.tui.widgets.parameters import ParameterPanel
from context_tui.tui.widgets.timeline import Timeline

_NOTES = (
    "Marks: - cleared, ~ truncated, S summarised, D dropped, = kept as recent, . gone already (cleared before); "
    "< before this context, > after the point that is planned as of.",
    "In the line of recorded sizes: │ a context begins anew, ▾ the recorded context fell, ◆ what is planned as of.",
    "Sizes are estimates (bytes / 4) unless they say recorded. Drag with shift held to select text with the terminal.",
)
SOURCES = {
    "given": "given by you",
    "file": "from the file",
    "model": "by the model",
    "inferred": "inferred from what was recorded",
    "assumed": "assumed",
}
"""Where the size of a window is from."""


class Dialogs(Steering):
    """Actions that ask or tell in a screen of their own."""

    def action_help(self) -> None:
        """List all keys."""
        panel = self.query_one(ParameterPanel)
        self.app.push_screen(HelpScreen([self, self.query_one(Timeline), panel.rows], notes=_NOTES))

    def action_problems(self) -> None:
        """Show what could not be read."""
        if self.view.session.facts.problems:
            self.app.push_screen(ProblemsScreen(self.view.session))
        else:
            self.say("every record could be read")

    def action_filter(self) -> None:
        """Choose what is listed."""
        self.app.push_screen(FilterScreen(self.view.session.facts, self.view.filter), self._filtered)

    def _filtered(self, choice: Choice | None) -> None:
        if choice is not None:
            self.filter_by(*choice)

    @work
    async def action_window(self) -> None:
        """Ask for the size of the window."""
        window = self.view.window
        now = f"now {window_size(window)}, {SOURCES[window.source]}"
        hint = f"{now}; 200k and 1m are understood, empty takes what the file says"
        prompt = InputPrompt("Context window in tokens", hint, str(window.tokens), check=window_tokens)
        answer = await self.app.push_screen_wait(prompt)
        if answer is not None:
            self.show(self.view.with_window(window_tokens(answer)))

    @work
    async def action_go_to(self) -> None:
        """Ask for a message to go to."""
        last = len(self.view.session) - 1

        def check(text: str) -> int:
            number = int(text.replace(",", ""))
            if not 0 <= number <= last:
                raise ValueError(f"there are messages 0 to {last:,}")
            return number

        answer = await self.app.push_screen_wait(InputPrompt("Go to message", f"0 to {last:,}", check=check))
        if answer:
            self.query_one(Timeline).select(Spot(check(answer)))

    @work
    async def action_apply(self) -> None:
        """Carry the plan out; its screen shows what it does and takes the summary."""
        plan = self.view.plan
        if self.busy():
            return
        if plan is None or not plan.changed:
            self.say(self.view.trouble or (plan.reason if plan else "") or "this plan changes nothing", warn=True)
            return
        from context_tui.tui.screens.apply import ApplyScreen

        after: Session | None = await self.app.push_screen_wait(ApplyScreen(self.view.session, plan))
        if after is not None and after is not self.view.session:
            self.show(self.view.applied(after))

    @work
    async def action_export(self) -> None:
        """Write the session, or what was made of it, to a file."""
        if not self.busy():
            await self._export()

    async def _export(self) -> bool:
        from context_tui.tui.screens.export import ExportScreen

        done = await self.app.push_screen_wait(ExportScreen(self.view.session))
        if done is not None:
            self.view = self.view.safe()
        return done is not None

    @work
    async def action_leave(self) -> None:
        """Leave; ask when a result would be lost."""
        if self.view.unexported:
            answer = await self.app.push_screen_wait(quit_prompt())
            if answer == "export":
                if not await self._export():
                    return
            elif answer != "quit":
                return
        self.app.exit()

    def action_copy(self) -> None:
        """Copy the selected message, or on the settings the command."""
        if self.query_one(ParameterPanel).has_focus_within:
            if self.view.session.origin:
                self.say("a command reads a file, and this is a copy: write it to one with e, and open that", warn=True)
                return
            self.app.copy_to_clipboard(command_line(self.view))
            self.say("the command was sent to the clipboard (OSC 52)")
            return
        spot, facts = self.spot, self.view.session.facts
        if not len(self.view.session):
            return
        rows = list(facts.blocks_of(spot.message))
        blocks = zip(rows, self.reader.blocks(spot.message), strict=False)
        wanted = [block for row, block in blocks if spot.block in (-1, row)]
        self.app.copy_to_clipboard("\n\n".join(filter(None, map(_plain, wanted))))
        self.say("the message was sent to the clipboard (OSC 52)")

    def busy(self) -> bool:
        """Whether the session is still being read; says so."""
        if self.reading:
            self.say("the session is still being read", warn=True)
        return self.reading


def window_tokens(text: str) -> int | None:
    """A number of tokens as people write it; None for nothing.

    Raises:
        ValueError: it is no such number.
    """
    number = parse(text, 1, 100_000_000) if text.strip() else None
    return None if number is None else int(number)


def _plain(block: dict[str, object]) -> str:
    kind = block.get("type")
    if kind in ("text", "thinking"):
        return str(block.get(str(kind)) or "")
    if kind == "tool_result":
        return result_text(block.get("content"))
    if kind == "tool_use":
        import json

        return f"{block.get('name')} {json.dumps(block.get('input'), indent=2, ensure_ascii=False, default=str)}"
    return f"({kind})"
