"""Screen that recommends a setting of an agent's policy from sessions of the picker."""

from __future__ import annotations

import sys
from asyncio import create_task
from asyncio.subprocess import DEVNULL, PIPE, create_subprocess_exec
from collections.abc import Sequence

from context_tui.library.discovery import SessionEntry
from context_tui.policies.registry import POLICIES
from context_tui.policies.versions import list_own_policies
from context_tui.text.numbers import format_count
from context_tui.text.sanitize import sanitize
from context_tui.tui.rendering.layout import TextPart
from context_tui.tui.widgets.bindings import read_bindings
from context_tui.tui.widgets.reading_pane import ReadingPane
from context_tui.tui.widgets.text_screen import TextScreen

MAX_SESSIONS = 2_000
"""Maximum number of sessions; a command line cannot name many more."""

NO_POLICY_TEXT = """no policy of its own is known, so that there are no settings of its own to recommend.

Go back with esc, open a session with enter, choose a policy with P, then press s: it sweeps the policy's settings."""


class TuneScreen(TextScreen[None]):
    """A screen that runs ``context-tui tune`` over sessions in a child process, and shows the answer."""

    BINDINGS = read_bindings("tune")

    def __init__(self, agent: str, entries: Sequence[SessionEntry]) -> None:
        self._agent = agent
        self._specs = [entry.info.spec for entry in entries[:MAX_SESSIONS]]
        sessions = format_count(len(self._specs), "session")
        self._waiting = f"Replaying many settings over {sessions}; this can take a minute. Press esc to stop.\n"
        super().__init__(sanitize(f"Tune {agent} over {sessions}"), [TextPart(self._waiting, "muted")])
        self._answer = ""

    def on_mount(self) -> None:
        if list_own_policies(self._agent).get("full") in POLICIES:
            self.run_worker(self._tune(), group="tune")
        else:
            self.query_one(ReadingPane).show([TextPart(sanitize(f"{self._agent}: {NO_POLICY_TEXT}"))])

    async def _tune(self) -> None:
        arguments = ("-m", "context_tui", "tune", *self._specs)
        process = await create_subprocess_exec(sys.executable, *arguments, stdin=DEVNULL, stdout=PIPE, stderr=PIPE)
        assert process.stdout and process.stderr
        pane, notices, reader = self.query_one(ReadingPane), "", create_task(process.stdout.read())
        try:
            async for line in process.stderr:
                notices = sanitize(line.decode("utf-8", "replace"))
                pane.show([TextPart(self._waiting, "muted"), TextPart(notices, "muted")])
            self._answer = sanitize((await reader).decode("utf-8", "replace"))
            await process.wait()
        finally:
            if process.returncode is None:
                process.terminate()
        pane.show([TextPart(self._answer or notices)])

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(self._answer)
