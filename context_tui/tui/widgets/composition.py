"""What a context is made of: parts that add up to its size, each with a pattern of its own. Pure.

The parts are estimates, as recordings do not say what their tokens were for; only what the first request had beyond the
file is recorded less estimated. What the estimates miss of a recorded size, or have too much, is a part as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from context_tui.text.numbers import format_tokens
from context_tui.tui.widgets.draw import BAD, GOOD, MUTED, PRIMARY, WARN, Run, count_cells


@dataclass(frozen=True)
class CategoryStyle:
    """How a category is drawn: its name, also a short one, a pattern that no other part of the bar has, a colour."""

    name: str
    short: str
    pattern: str
    style: str


_PROMPT_LABEL = "system+tools"
CATEGORY_STYLES = {
    "system": CategoryStyle("system prompt", _PROMPT_LABEL, "║", "$text-secondary"),
    "tools": CategoryStyle("tool schemas", _PROMPT_LABEL, "║", "$text-secondary"),
    "not_in_file": CategoryStyle("system prompt and tools, not in the file", _PROMPT_LABEL, "║", "$text-secondary"),
    "summary": CategoryStyle("summaries", "summary", "▀", "$text-accent"),
    "user": CategoryStyle("user", "user", "█", GOOD),
    "injected": CategoryStyle("injected", "injected", "┼", GOOD),
    "assistant": CategoryStyle("assistant", "assistant", "▓", PRIMARY),
    "thinking": CategoryStyle("thinking", "thinking", "═", PRIMARY),
    "tool_use": CategoryStyle("tool calls", "calls", "▚", PRIMARY),
    "tool_result": CategoryStyle("tool results", "results", "▒", WARN),
    "image": CategoryStyle("images", "images", "╬", BAD),
}
"""The categories of a breakdown; those of one short name are one part of the bar."""
MISSED_PATTERN, FREE_PATTERN, REST_PATTERN = "?", "·", "…"


@dataclass(frozen=True)
class ContextPart:
    """A part of a context: its name, its tokens (negative: what the estimates have too much), how it is drawn."""

    name: str
    tokens: int
    pattern: str
    style: str

    @property
    def label(self) -> str:
        """Its name and tokens."""
        return f"{self.name} {'−' if self.tokens < 0 else ''}{format_tokens(abs(self.tokens))}"


def build_context_parts(by_category: Mapping[str, int], size: int) -> list[ContextPart]:
    """The parts that there are, in the order of a prompt; they add up to *size* tokens."""
    tokens: dict[CategoryStyle, int] = {}
    for name, look in CATEGORY_STYLES.items():
        first = next((each for each in tokens if each.short == look.short), look)
        tokens[first] = tokens.get(first, 0) + by_category.get(name, 0)
    found = [ContextPart(look.short, count, look.pattern, look.style) for look, count in tokens.items() if count]
    if missed := size - sum(part.tokens for part in found):
        name = "unknown" if missed > 0 else "overestimated"
        found.append(ContextPart(name, missed, MISSED_PATTERN, MUTED if missed > 0 else WARN))
    return found


def format_parts_line(
    parts: Sequence[ContextPart], free: int, width: int, labels: Sequence[str] = ("estimated parts:", "est.")
) -> list[Run]:
    """The parts with their tokens, and what is *free*, in *width* cells: the smallest are one where they must be.

    *heads* say what they are by, in fewer and fewer words.
    """
    found: list[Run] = []
    for found in _format_parts_variants(parts, free, labels):
        if count_cells(found) <= width:
            break
    return found


def _format_parts_variants(parts: Sequence[ContextPart], free: int, labels: Sequence[str]) -> Iterator[list[Run]]:
    """The line in fewer and fewer words."""
    rest, short = ContextPart("free", free, FREE_PATTERN, MUTED), labels[-1]
    for head in labels:
        yield _format_parts(head, [*parts, rest], 2)
    yield _format_parts(short, [*parts, rest])
    yield _format_parts(short, parts)
    small = sorted((part for part in parts if part.tokens > 0), key=lambda part: part.tokens)
    for count in range(2, len(small) + 1):
        together = ContextPart("rest", sum(part.tokens for part in small[:count]), REST_PATTERN, MUTED)
        yield _format_parts(short, [*(part for part in parts if part not in small[:count]), together])


def _format_parts(label: str, parts: Sequence[ContextPart], pattern_width: int = 1) -> list[Run]:
    """The parts behind a head, each with *wide* cells of its pattern."""
    runs: list[Run] = [(label, MUTED)]
    for part in parts:
        name, _, tokens = part.label.rpartition(" ")
        before = " " * (pattern_width - 1)
        runs += [(" " * pattern_width, ""), (part.pattern * pattern_width, part.style), (f"{before}{name} ", MUTED), (tokens, "")]
    return runs
