"""Gauge of the context window: how much the next request takes, and its parts by category."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from context_tui.session.window import Window
from context_tui.text.numbers import format_percent, format_tokens
from context_tui.tokens.accounting import BelievedSize
from context_tui.tui.widgets.canvas import Canvas, distribute_cells
from context_tui.tui.widgets.styled_text import BAD, BOLD, GOOD, MUTED, PRIMARY, WARN, Run, count_cells


@dataclass(frozen=True)
class CategoryStyle:
    """Style of a category: its name, a short name, a pattern unique in the bar, and a colour."""

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
"""Styles of the categories; those with the same short name are one part of the bar."""
MISSED_PATTERN, FREE_PATTERN, REST_PATTERN = "?", "·", "…"


@dataclass(frozen=True)
class ContextPart:
    """Part of a context with its tokens and style; negative tokens are an overestimate."""

    name: str
    tokens: int
    pattern: str
    style: str

    @property
    def label(self) -> str:
        """Name and tokens."""
        return f"{self.name} {'−' if self.tokens < 0 else ''}{format_tokens(abs(self.tokens))}"


def build_context_parts(by_category: Mapping[str, int], size: int) -> list[ContextPart]:
    """Build the parts of the context in prompt order; they add up to *size* tokens."""
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
    """Format the parts with their tokens and *free* in *width* cells; the smallest are merged if needed. *heads* label
    the line, longest first.

    *heads* say what they are by, in fewer and fewer words.
    """
    found: list[Run] = []
    for found in _format_parts_variants(parts, free, labels):
        if count_cells(found) <= width:
            break
    return found


def _format_parts_variants(parts: Sequence[ContextPart], free: int, labels: Sequence[str]) -> Iterator[list[Run]]:
    """Format the line, longest variant first."""
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
    """Format the parts after a head, each with *wide* cells of its pattern."""
    runs: list[Run] = [(label, MUTED)]
    for part in parts:
        name, _, tokens = part.label.rpartition(" ")
        before = " " * (pattern_width - 1)
        runs += [
            (" " * pattern_width, ""),
            (part.pattern * pattern_width, part.style),
            (f"{before}{name} ", MUTED),
            (tokens, ""),
        ]
    return runs


ZOOM_SHARE = 0.25
"""Share of the window below which the bar shows the used part only."""
GAUGE_GAP = 3


@dataclass(frozen=True)
class WindowLevel:
    """Size of the next request: recorded of the last one, which ended at message ``message``, and estimated since."""

    size: BelievedSize
    window: Window
    message: int = -1

    @property
    def share(self) -> float:
        """Share of the window that the request takes."""
        return self.size.tokens / max(self.window.tokens, 1)

    @property
    def free(self) -> int:
        """Tokens of the window that are free."""
        return max(self.window.tokens - self.size.tokens, 0)


def format_window_size(window: Window) -> str:
    """Format a window's size, and the other sizes that it may have."""
    others = " or ".join(f"{tokens:,}" for tokens in window.alternatives)
    return f"{window.tokens:,} (or {others})" if others else f"{window.tokens:,}"


def draw_gauge(level: WindowLevel, parts: Sequence[ContextPart] | None, width: int) -> list[Run]:
    """Draw the bar in exactly *width* cells: the used part by *parts*, if known, and the free rest."""
    used = min(width, max(round(level.share * width), 1 if level.size.tokens else 0))
    rest = f" {format_tokens(level.free)} free, not to scale" if 0 < level.share < ZOOM_SHARE else ""
    if len(rest) * 2 > width:
        rest = ""
    if rest:
        used = width - len(rest)
    canvas = Canvas(width)
    canvas.write(0, 0, FREE_PATTERN * width, MUTED)
    canvas.write(width - len(rest), 0, rest, MUTED)
    if not parts:
        canvas.write(0, 0, "█" * used, PRIMARY)
    shown = [part for part in parts or () if part.tokens > 0]
    x = 0
    for part, size in zip(shown, distribute_cells([part.tokens for part in shown], used), strict=True):
        canvas.write(x, 0, part.pattern * size, part.style)
        _draw_label(canvas, x, size, part.name, BOLD)
        x += size
    if not rest:
        _draw_label(canvas, used, width - used, f"{format_tokens(level.free)} free", MUTED)
    return canvas.get_line()


def _draw_label(canvas: Canvas, x: int, size: int, name: str, style: str) -> None:
    """Draw a label centred in so many cells, if some are left on both sides."""
    if size >= len(name) + 6:
        canvas.write(x + (size - len(name) - 2) // 2, 0, f" {name} ", style)


def format_level_variants(level: WindowLevel) -> Iterator[list[Run]]:
    """Format how full the window is, longest variant first."""
    recorded, since = level.size
    over = level.share > 1
    share = f"({format_percent(level.share)}{', over' if over else ''})"
    mark = "~" if since else ""
    size: list[Run] = [("Now ", BOLD), (f"{mark}{level.size.tokens:,}", f"bold {BAD}" if over else BOLD)]
    whole: list[Run] = [*size, (f" of {level.window.tokens:,} tokens {share}", BAD if over else "")]
    brief: list[Run] = [*size, (f" of {level.window.tokens:,} {share}", BAD if over else "")]
    if recorded is None:
        yield [*whole, (", all estimated: no size recorded here", MUTED)]
        yield [*whole, (", all estimated", MUTED)]
        yield [*whole, (", est.", MUTED)]
        yield [*brief, (", est.", MUTED)]
        return
    at = f" at #{level.message:,}" if level.message >= 0 else ""
    if since:
        yield [*whole, (f": {recorded:,} recorded{at} + est. {since:,} since", MUTED)]
        yield [*whole, (f": {recorded:,} recorded + est. {since:,}", MUTED)]
    else:
        yield [*whole, (f", recorded{at}", MUTED)]
    yield whole
    yield brief


def format_gauge_line(level: WindowLevel, parts: Sequence[ContextPart] | None, width: int, min_width: int) -> list[Run]:
    """Format how full the window is, with a bar of at least *least* cells if possible, in *width* cells."""
    words, room = list[Run](), 0
    for words in format_level_variants(level):
        room = width - count_cells(words) - GAUGE_GAP
        if room >= min_width:
            break
    return [*words, (" " * GAUGE_GAP, ""), *draw_gauge(level, parts, room)] if room > 0 else words
