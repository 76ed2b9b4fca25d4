"""What a context is made of: parts that add up to its size, each with a pattern of its own. Pure.

The parts are estimates, as recordings do not say what their tokens were for; only what the first request had beyond the
file is recorded less estimated. What the estimates miss of a recorded size, or have too much, is a part as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from context_tui.text.numbers import format_tokens
from context_tui.tui.widgets.draw import BAD, GOOD, HUE, MUTED, WARN, Run, cells


@dataclass(frozen=True)
class Look:
    """How a category is drawn: its name, also a short one, a pattern that no other part of the bar has, a colour."""

    name: str
    short: str
    pattern: str
    style: str


_PROMPT = "system+tools"
LOOKS = {
    "system": Look("system prompt", _PROMPT, "║", "$text-secondary"),
    "tools": Look("tool schemas", _PROMPT, "║", "$text-secondary"),
    "not_in_file": Look("system prompt and tools, not in the file", _PROMPT, "║", "$text-secondary"),
    "summary": Look("summaries", "summary", "▀", "$text-accent"),
    "user": Look("user", "user", "█", GOOD),
    "injected": Look("injected", "injected", "┼", GOOD),
    "assistant": Look("assistant", "assistant", "▓", HUE),
    "thinking": Look("thinking", "thinking", "═", HUE),
    "tool_use": Look("tool calls", "calls", "▚", HUE),
    "tool_result": Look("tool results", "results", "▒", WARN),
    "image": Look("images", "images", "╬", BAD),
}
"""The categories of a breakdown; those of one short name are one part of the bar."""
MISSED, FREE, REST = "?", "·", "…"


@dataclass(frozen=True)
class Share:
    """A part of a context: its name, its tokens (negative: what the estimates have too much), how it is drawn."""

    name: str
    tokens: int
    pattern: str
    style: str

    @property
    def words(self) -> str:
        """Its name and tokens."""
        return f"{self.name} {'−' if self.tokens < 0 else ''}{format_tokens(abs(self.tokens))}"


def parts_of(by_category: Mapping[str, int], size: int) -> list[Share]:
    """The parts that there are, in the order of a prompt; they add up to *size* tokens."""
    tokens: dict[Look, int] = {}
    for name, look in LOOKS.items():
        first = next((each for each in tokens if each.short == look.short), look)
        tokens[first] = tokens.get(first, 0) + by_category.get(name, 0)
    found = [Share(look.short, count, look.pattern, look.style) for look, count in tokens.items() if count]
    if missed := size - sum(part.tokens for part in found):
        name = "unknown" if missed > 0 else "overestimated"
        found.append(Share(name, missed, MISSED, MUTED if missed > 0 else WARN))
    return found


def parts_line(
    parts: Sequence[Share], free: int, width: int, heads: Sequence[str] = ("estimated parts:", "est.")
) -> list[Run]:
    """The parts with their tokens, and what is *free*, in *width* cells: the smallest are one where they must be.

    *heads* say what they are by, in fewer and fewer words.
    """
    found: list[Run] = []
    for found in _forms(parts, free, heads):
        if cells(found) <= width:
            break
    return found


def _forms(parts: Sequence[Share], free: int, heads: Sequence[str]) -> Iterator[list[Run]]:
    """The line in fewer and fewer words."""
    rest, short = Share("free", free, FREE, MUTED), heads[-1]
    for head in heads:
        yield _line(head, [*parts, rest], 2)
    yield _line(short, [*parts, rest])
    yield _line(short, parts)
    small = sorted((part for part in parts if part.tokens > 0), key=lambda part: part.tokens)
    for count in range(2, len(small) + 1):
        together = Share("rest", sum(part.tokens for part in small[:count]), REST, MUTED)
        yield _line(short, [*(part for part in parts if part not in small[:count]), together])


def _line(head: str, parts: Sequence[Share], wide: int = 1) -> list[Run]:
    """The parts behind a head, each with *wide* cells of its pattern."""
    runs: list[Run] = [(head, MUTED)]
    for part in parts:
        name, _, tokens = part.words.rpartition(" ")
        before = " " * (wide - 1)
        runs += [(" " * wide, ""), (part.pattern * wide, part.style), (f"{before}{name} ", MUTED), (tokens, "")]
    return runs
