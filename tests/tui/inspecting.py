"""Sessions for the inspector's tests, and the inspector on them."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import fields
from pathlib import Path
from typing import Any

from textual.app import App
from textual.pilot import Pilot

from context_tui.session.facts import Compaction, Usage
from context_tui.session.memory import from_messages
from context_tui.session.session import Session, SessionInfo
from context_tui.session.values import Kind, Role
from context_tui.tui.app import ContextTuiApp
from context_tui.tui.inspector.screen import InspectorScreen
from context_tui.tui.options import InspectorOptions
from tests.tui.fakes import until

Message = dict[str, Any]


def conversation(turns: int = 6, steps: int = 3, lines: int = 100) -> list[Message]:
    """Turns with *steps* calls of two tools each, their results in one message, and an answer.

    The first result of a turn has as many *lines*, the next twice and three times as many.
    """
    found: list[Message] = []
    for turn in range(turns):
        found.append({"role": "user", "content": f"Step {turn}: rotate the refresh tokens"})
        for step in range(steps):
            name = f"{turn}-{step}"
            read = {"type": "tool_use", "id": f"r{name}", "name": "Read", "input": {"file_path": f"src/auth{step}.py"}}
            run = {"type": "tool_use", "id": f"b{name}", "name": "Bash", "input": {"command": "pytest -q"}}
            found.append({"role": "assistant", "content": [{"type": "text", "text": "I look at it."}, read, run]})
            code = f"import jwt  # {name}\n" * (lines * (step + 1))
            results = [
                {"type": "tool_result", "tool_use_id": f"r{name}", "content": code},
                {"type": "tool_result", "tool_use_id": f"b{name}", "content": f"{step} passed"},
            ]
            found.append({"role": "user", "content": results})
        found.append({"role": "assistant", "content": f"Step {turn} is done."})
    return found


def session(turns: int = 6, steps: int = 3, *, usage: bool = True, compacted: bool = False) -> Session:
    """The conversation with recorded usage and, when asked for, a compaction before the last turn but two."""
    made = from_messages(conversation(turns, steps))
    facts = made.facts
    facts.model = "claude-sonnet-4-5"
    begun = (turns - 3) * (2 + 2 * steps) if compacted else 0
    if compacted:
        facts.add_compaction(Compaction(begun, "full", "auto", 120_000))
    if usage:
        for message in range(1, len(made), 2):
            size = 9_500 + (message - begun) * 400 if message > begun > 0 else 9_000 + message * 400
            facts.add_request(message, Usage(fresh=10, cache_read=size, output=20))
    info = SessionInfo("/tmp/refactor-auth.jsonl", "anthropic")
    return Session(facts, made.content, info, len(made))


DROP, CLEAR = 33, 56
"""The reply at which the eventful session's recorded context falls, and the message at which its context is cleared."""


def eventful() -> Session:
    """Ten turns: the first eleven results vanish without a record, at the fifth turn's first reply; then a /clear."""
    made = from_messages(conversation(10, 3, 400))
    facts = made.facts
    facts.model = "claude-sonnet-4-5"
    facts.begin_epoch(CLEAR, "clear")
    results = [row for row in range(len(facts.kind)) if facts.kind[row] == Kind.TOOL_RESULT]
    size = 9_000.0
    for message in range(len(made)):
        if message == CLEAR:
            size = 9_000.0
        if message == DROP:
            size -= sum(1.2 * (facts.size[row] // 4) - 9 for row in results[:11])
        if facts.role[message] == Role.ASSISTANT:
            cached = 9_000 if message == DROP else round(size) - 10
            facts.add_request(message, Usage(fresh=round(size) - cached, cache_read=cached, output=20))
            size += 60
        size += sum(1.2 * (facts.size[row] // 4) for row in facts.blocks_of(message))
    return Session(facts, made.content, SessionInfo("/tmp/refactor-auth.jsonl", "anthropic"), len(made))


def file_of(path: Path, messages: list[Message]) -> SessionInfo:
    """A file of messages on disk, and what names it."""
    from context_tui.formats.opening import choose_session

    path.write_text("".join(json.dumps(message) + "\n" for message in messages))
    return choose_session(path)


def app(what: Session | SessionInfo | None = None, **asked: Any) -> ContextTuiApp:
    """The application on a session, with options of the inspector and others."""
    names = {each.name for each in fields(InspectorOptions)} & asked.keys()
    options = InspectorOptions(**{name: asked.pop(name) for name in names})
    return ContextTuiApp(session() if what is None else what, options, **asked)


def inspector(running: App[Any]) -> InspectorScreen:
    """Its inspector."""
    return next(screen for screen in running.screen_stack if isinstance(screen, InspectorScreen))


async def opened(pilot: Pilot[Any]) -> InspectorScreen:
    """Wait for the inspector; it is imported after the first paint."""
    await until(pilot, lambda: any(isinstance(s, InspectorScreen) and s.is_mounted for s in pilot.app.screen_stack))
    return inspector(pilot.app)


async def settled(pilot: Pilot[Any]) -> None:
    """Wait until everything that follows from the last change is drawn."""
    await opened(pilot)
    await pilot.pause(0.1)
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()
    await pilot.app.workers.wait_for_complete()  # code is highlighted once it has been laid out
    await pilot.pause()


def unsafe(text: str) -> set[str]:
    """Characters of a drawn text that a terminal might act on."""
    bidi = {chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x61C)}
    return {char for char in text if unicodedata.category(char) in ("Cc", "Cs") or char in bidi}
