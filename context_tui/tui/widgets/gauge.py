"""The gauge of the window: how much of it the next request takes, and of what.

Pure. The bar is to the scale of the window, or where little of that is used and there is room to say so, of what is
used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from context_tui.session.window import Window
from context_tui.text.numbers import format_percent, format_tokens
from context_tui.tokens.accounting import BelievedSize
from context_tui.tui.widgets.canvas import Canvas, distribute_cells
from context_tui.tui.widgets.composition import FREE_PATTERN, ContextPart
from context_tui.tui.widgets.draw import BAD, BOLD, MUTED, PRIMARY, Run, count_cells

ZOOM_SHARE = 0.25
"""The share of the window below which the bar is of what is used."""
GAUGE_GAP = 3


@dataclass(frozen=True)
class WindowLevel:
    """The next request as things are: recorded of the last one, that ended at message ``message``, and estimated since."""

    size: BelievedSize
    window: Window
    message: int = -1

    @property
    def share(self) -> float:
        """The part of the window that it takes."""
        return self.size.tokens / max(self.window.tokens, 1)

    @property
    def free(self) -> int:
        """Tokens of the window that it leaves."""
        return max(self.window.tokens - self.size.tokens, 0)


def format_window_size(window: Window) -> str:
    """A window's size, and the others that it could have as well."""
    others = " or ".join(f"{tokens:,}" for tokens in window.alternatives)
    return f"{window.tokens:,} (or {others})" if others else f"{window.tokens:,}"


def draw_gauge(level: WindowLevel, parts: Sequence[ContextPart] | None, width: int) -> list[Run]:
    """The bar in exactly *width* cells: the used part by *parts*, as far as these are known, and the free rest."""
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
    """A name in the middle of so many cells, where some of them are left on both sides."""
    if size >= len(name) + 6:
        canvas.write(x + (size - len(name) - 2) // 2, 0, f" {name} ", style)


def format_level_variants(level: WindowLevel) -> Iterator[list[Run]]:
    """How full the window is, in fewer and fewer words; each number says what it is."""
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
    """How full it is, and the bar, of *least* cells where that can be, in *width* cells."""
    words, room = list[Run](), 0
    for words in format_level_variants(level):
        room = width - count_cells(words) - GAUGE_GAP
        if room >= min_width:
            break
    return [*words, (" " * GAUGE_GAP, ""), *draw_gauge(level, parts, room)] if room > 0 else words
