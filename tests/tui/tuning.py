"""A made-up session for the tuning widgets, the same on every machine, and tiny apps that show one widget."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from textual.app import App, ComposeResult
from textual.filter import LineFilter
from textual.widget import Widget

from context_tui.session.facts import Compaction, Facts, Usage
from context_tui.session.memory import MemoryContent, build_facts
from context_tui.session.session import Session, SessionInfo
from context_tui.session.values import Spans
from tests.tui.fakes import AsciiFilter

PATHS = ["src/auth.py", "src/tokens/refresh.py", "tests/test_auth.py", "src/web/[/red]routes.py"]
TOOLS = ["Read", "Read", "Bash", "Bash", "Grep", "Edit", "mcp__jira__search"]


def sample(turns: int = 14, steps: int = 5, seed: int = 7, *, usage: bool = True, compact: bool = True) -> Session:
    """A session of *turns* turns with *steps* calls each, recorded usage and, half way, a compaction."""
    rng = random.Random(seed)
    messages: list[dict[str, Any]] = []
    call = 0
    for turn in range(turns):
        messages.append({"role": "user", "content": f"Turn {turn}: " + "please do it. " * rng.randrange(4, 40)})
        for _ in range(steps):
            tool, call = rng.choice(TOOLS), call + 1
            path = rng.choice(PATHS)
            arguments = {"file_path": path} if tool == "Read" else {"command": "pytest -q"}
            body = "x" * int(200 * 60 ** rng.random() * (4 if tool == "Read" else 1))
            use = {"type": "tool_use", "id": f"c{call}", "name": tool, "input": arguments}
            text = {"type": "text", "text": "I look at it. " * rng.randrange(1, 20)}
            result = {"type": "tool_result", "tool_use_id": f"c{call}", "content": body}
            messages += [{"role": "assistant", "content": [text, use]}, {"role": "user", "content": [result]}]
        messages.append({"role": "assistant", "content": "Done. " * rng.randrange(5, 60)})
    facts = build_facts(messages)
    facts.system_bytes, facts.tools_bytes, facts.model = 9_000, 22_000, "claude-sonnet-4-5"
    middle = next(m for m in range(len(messages) * 6 // 10, len(messages)) if messages[m]["role"] == "user")
    if compact:
        facts.add_compaction(Compaction(middle, "full", "auto", 150_000, Spans(range(middle, middle + 1))))
    if usage:
        _record(facts, middle if compact else len(messages))
    for message in range(len(messages)):
        facts.time[message] = 1_760_000_000_000 + message * 40_000
    info = SessionInfo("/home/me/sessions/refactor-auth.jsonl", "anthropic")
    return Session(facts, MemoryContent(messages), info, len(messages))


def _record(facts: Facts, middle: int) -> None:
    """Usage of every request, as if a token were three and a half bytes and the prompt 14,000 tokens."""
    size = 14_000
    for message in range(len(facts)):
        if message == middle:
            size = 22_000
        if facts.role[message] == 1:
            facts.add_request(message, Usage(fresh=12, cache_read=size - 12, output=300))
        size += sum(facts.size[block] for block in facts.blocks_of(message)) * 2 // 7


class Alone(App[None]):
    """One widget on a screen; what it posts is kept in ``posted``."""

    def __init__(self, widget: Widget, theme: str = "textual-dark", *, ascii: bool = False) -> None:
        super().__init__()
        self.widget, self.posted, self.theme_wanted, self.ascii = widget, list[Any](), theme, ascii

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Replace glyphs if that is asked for."""
        return [*super().get_line_filters(), *([AsciiFilter()] if self.ascii else [])]

    def compose(self) -> ComposeResult:
        """Nothing but the widget."""
        yield self.widget

    def on_mount(self) -> None:
        """Set the theme."""
        self.theme = self.theme_wanted
