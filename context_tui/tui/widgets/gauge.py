"""Gauge of the context window: the size of the next request and its parts, by category."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from context_tui.session.window import Window
from context_tui.text.numbers import format_percent, format_tokens
from context_tui.tokens.accounting import BelievedSize
from context_tui.tui.widgets.canvas import Canvas, distribute_cells
from context_tui.tui.widgets.styled_text import BAD, BOLD, GOOD, MUTED, PRIMARY, WARN, Run, count_cells


@dataclass(frozen=True)
class CategoryStyle:
    """Name of a category, its short name, and the pattern and colour of its part of the bar."""

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
"""Styles of the categories of a breakdown; categories with the same short name are one part of the bar."""
MAX_SPREAD_SHARE = 0.05
"""Share of a context that its parts may lack for the difference to be their error, and not content that is missing."""
MISSED_PATTERN, FREE_PATTERN, REST_PATTERN = "?", "·", "…"


@dataclass(frozen=True)
class ContextPart:
    """Part of a context."""

    name: str
    tokens: int
    pattern: str
    style: str

    @property
    def label(self) -> str:
        """Name and tokens of the part."""
        return f"{self.name} {format_tokens(self.tokens)}"


def build_context_parts(by_category: Mapping[str, int], size: int) -> list[ContextPart]:
    """Build the nonempty parts, in the order of a prompt; their tokens add up to *size*."""
    tokens: dict[CategoryStyle, int] = {}
    for name, category_style in CATEGORY_STYLES.items():
        first = next((style for style in tokens if style.short == category_style.short), category_style)
        tokens[first] = tokens.get(first, 0) + by_category.get(name, 0)
    parts = [ContextPart(style.short, count, style.pattern, style.style) for style, count in tokens.items() if count]
    difference = size - sum(part.tokens for part in parts)
    if difference > MAX_SPREAD_SHARE * size:
        return [*parts, ContextPart("not in file", difference, MISSED_PATTERN, MUTED)]
    measured = [part for part in parts if part.name != _PROMPT_LABEL]
    if sum(part.tokens for part in measured) + difference <= 0:
        measured = parts
    amounts = [part.tokens for part in measured]
    spread = distribute_cells(amounts, sum(amounts) + difference)
    by_name = {part.name: tokens for part, tokens in zip(measured, spread, strict=True)}
    fitted = (replace(part, tokens=by_name.get(part.name, part.tokens)) for part in parts)
    return [part for part in fitted if part.tokens]


def format_parts_line(
    parts: Sequence[ContextPart], free: int, width: int, labels: Sequence[str] = ("estimated parts:", "est.")
) -> list[Run]:
    """Format the parts and the *free* tokens in *width* cells; the smallest parts are combined if necessary.

    *labels* are names of the token measure, the longest first.
    """
    runs: list[Run] = []
    for runs in _format_parts_variants(parts, free, labels):
        if count_cells(runs) <= width:
            break
    return runs


def _format_parts_variants(parts: Sequence[ContextPart], free: int, labels: Sequence[str]) -> Iterator[list[Run]]:
    free_part, short_label = ContextPart("free", free, FREE_PATTERN, MUTED), labels[-1]
    for head in labels:
        yield _format_parts(head, [*parts, free_part], 2)
    yield _format_parts(short_label, [*parts, free_part])
    yield _format_parts(short_label, parts)
    small = sorted(parts, key=lambda part: part.tokens)
    for count in range(2, len(small) + 1):
        small_parts = ContextPart("rest", sum(part.tokens for part in small[:count]), REST_PATTERN, MUTED)
        yield _format_parts(short_label, [*(part for part in parts if part not in small[:count]), small_parts])


def _format_parts(label: str, parts: Sequence[ContextPart], pattern_width: int = 1) -> list[Run]:
    runs: list[Run] = [(label, MUTED)]
    for part in parts:
        name, _, tokens = part.label.rpartition(" ")
        gap = " " * (pattern_width - 1)
        runs += [(" " * pattern_width, ""), (part.pattern * pattern_width, part.style)]
        runs += [(f"{gap}{name} ", MUTED), (tokens, "")]
    return runs


ZOOM_SHARE = 0.25
"""Used share of the window below which the bar shows only the used part."""
GAUGE_GAP = 3


@dataclass(frozen=True)
class WindowLevel:
    """Size of the next request in a window; the last recorded request ended at ``message``, -1 for none."""

    size: BelievedSize
    window: Window
    message: int = -1

    @property
    def share(self) -> float:
        """Used share of the window."""
        return self.size.tokens / max(self.window.tokens, 1)

    @property
    def free(self) -> int:
        """Free tokens of the window."""
        return max(self.window.tokens - self.size.tokens, 0)


def format_window_size(window: Window) -> str:
    """Format the size of a window with its alternatives."""
    alternatives = " or ".join(f"{tokens:,}" for tokens in window.alternatives)
    return f"{window.tokens:,} (or {alternatives})" if alternatives else f"{window.tokens:,}"


def draw_gauge(level: WindowLevel, parts: Sequence[ContextPart] | None, width: int) -> list[Run]:
    """Draw the bar in exactly *width* cells: the used part, divided into *parts* if given, and the free part."""
    used_cells = min(width, max(round(level.share * width), 1 if level.size.tokens else 0))
    free_text = f" {format_tokens(level.free)} free, not to scale" if 0 < level.share < ZOOM_SHARE else ""
    if len(free_text) * 2 > width:
        free_text = ""
    if free_text:
        used_cells = width - len(free_text)
    canvas = Canvas(width)
    canvas.write(0, 0, FREE_PATTERN * width, MUTED)
    canvas.write(width - len(free_text), 0, free_text, MUTED)
    if not parts:
        canvas.write(0, 0, "█" * used_cells, PRIMARY)
    sizes = distribute_cells([part.tokens for part in parts or ()], used_cells)
    x = 0
    for part, size in zip(parts or (), sizes, strict=True):
        canvas.write(x, 0, part.pattern * size, part.style)
        _draw_label(canvas, x, size, part.name, BOLD)
        x += size
    if not free_text:
        _draw_label(canvas, used_cells, width - used_cells, f"{format_tokens(level.free)} free", MUTED)
    return canvas.get_line()


def _draw_label(canvas: Canvas, x: int, size: int, name: str, style: str) -> None:
    """Write a name in the middle of *size* cells, if there are cells left on both sides."""
    if size >= len(name) + 6:
        canvas.write(x + (size - len(name) - 2) // 2, 0, f" {name} ", style)


def format_level_variants(level: WindowLevel) -> Iterator[list[Run]]:
    """Yield the texts of the window's level, the longest first."""
    recorded, estimated = level.size
    is_over = level.share > 1
    share = f"({format_percent(level.share)}{', over' if is_over else ''})"
    sign = "~" if estimated else ""
    size: list[Run] = [("Now ", BOLD), (f"{sign}{level.size.tokens:,}", f"bold {BAD}" if is_over else BOLD)]
    long: list[Run] = [*size, (f" of {level.window.tokens:,} tokens {share}", BAD if is_over else "")]
    short: list[Run] = [*size, (f" of {level.window.tokens:,} {share}", BAD if is_over else "")]
    if recorded is None:
        for suffix in (", all estimated: no size recorded here", ", all estimated", ", est."):
            yield [*long, (suffix, MUTED)]
        yield [*short, (", est.", MUTED)]
        return
    place = f" at #{level.message:,}" if level.message >= 0 else ""
    if estimated:
        yield [*long, (f": {recorded:,} recorded{place} + est. {estimated:,} since", MUTED)]
        yield [*long, (f": {recorded:,} recorded + est. {estimated:,}", MUTED)]
    else:
        yield [*long, (f", recorded{place}", MUTED)]
    yield long
    yield short


def format_gauge_line(level: WindowLevel, parts: Sequence[ContextPart] | None, width: int, min_width: int) -> list[Run]:
    """Format the level and the bar in *width* cells, at least *min_width* of them for the bar if possible."""
    level_runs, room = list[Run](), 0
    for level_runs in format_level_variants(level):
        room = width - count_cells(level_runs) - GAUGE_GAP
        if room >= min_width:
            break
    return [*level_runs, (" " * GAUGE_GAP, ""), *draw_gauge(level, parts, room)] if room > 0 else level_runs
