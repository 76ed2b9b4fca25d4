"""The gauge of the window: how much of it is used, and by what.

Pure. The bar is as long as the recorded size (the estimated one where nothing was recorded); its parts are the shares
that the estimator finds, as recordings do not say what their tokens were for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from context_tui.session.window import Window
from context_tui.tokens.fit import Fit
from context_tui.tui.widgets.draw import BAD, BOLD, GOOD, HUE, MUTED, WARN, Run, percent
from context_tui.tui.widgets.recorded_line import TICKS


@dataclass(frozen=True)
class Look:
    """How a category is drawn: its name, also a short one, a shade unlike its neighbours', a letter, a colour."""

    name: str
    short: str
    shade: str
    letter: str
    style: str


LOOKS = {
    "system": Look("system prompt", "system", "█", "S", "$text-secondary"),
    "tools": Look("tool schemas", "tools", "▓", "D", "$text-secondary"),
    "not_in_file": Look("not in the file", "not in file", "▒", "?", "$text-secondary"),
    "summary": Look("summaries", "summary", "█", "Z", "$text-accent"),
    "user": Look("user", "user", "▓", "U", GOOD),
    "injected": Look("injected", "injected", "░", "i", GOOD),
    "assistant": Look("assistant", "assistant", "█", "A", HUE),
    "thinking": Look("thinking", "thinking", "░", "t", HUE),
    "tool_use": Look("tool calls", "calls", "▓", "c", HUE),
    "tool_result": Look("tool results", "results", "▒", "R", WARN),
    "image": Look("images", "images", "█", "I", BAD),
}


@dataclass(frozen=True)
class Level:
    """The sizes at a point: what was recorded (None: nothing), what is estimated, and what is not in the file."""

    recorded: int | None
    estimated: int
    not_in_file: int | None
    window: Window
    fit: Fit | None = None
    ever: bool = True  # whether the session has any recorded usage

    @property
    def used(self) -> int:
        """What the bar shows: what was recorded, else the estimate with what is not in the file."""
        return self.estimated + (self.not_in_file or 0) if self.recorded is None else self.recorded


def window_size(window: Window) -> str:
    """A window's size, and the others that it could have as well."""
    others = " or ".join(f"{tokens:,}" for tokens in window.others)
    return f"{window.tokens:,} (or {others})" if others else f"{window.tokens:,}"


def segments(parts: Mapping[str, int], cells: int) -> list[tuple[str, int]]:
    """Categories with their cells, which add up to *cells*; what is too small for a cell lends it to its neighbour."""
    total = sum(parts.get(name, 0) for name in LOOKS)
    found, done, drawn = [], 0, 0
    for name in LOOKS:
        done += parts.get(name, 0)
        end = round(done * cells / total) if total else 0
        if end > drawn:
            found.append((name, end - drawn))
        drawn = end
    return found


def gauge(level: Level, parts: Mapping[str, int] | None, width: int, ascii: bool = False) -> list[Run]:
    """The bar in exactly *width* cells: used parts, the free rest, ticks where runtimes act."""
    size = max(level.window.tokens, 1)
    used = min(width, max(round(level.used * width / size), 1 if level.used else 0))
    line: list[Run] = []
    for name, cells in segments(parts, used) if parts else []:
        look = LOOKS[name]
        short = look.short
        glyph = look.letter if ascii else look.shade
        if cells >= len(short) + 6 and not ascii:
            left = (cells - len(short) - 2) // 2
            line += [(glyph, look.style)] * left
            line += [(character, BOLD) for character in f" {short} "]
            line += [(glyph, look.style)] * (cells - left - len(short) - 2)
        else:
            line += [(glyph, look.style)] * cells
    line += [("█" if not ascii else "#", HUE)] * (used - len(line))
    line += [("·", MUTED)] * (width - used)
    for tick in TICKS:
        cell = min(width - 1, round(tick * width / 100))
        if line[cell][0] in "·█▓▒░" or ascii:
            line[cell] = ("┊", WARN if cell >= used else BOLD)
    return _joined(line)


def _joined(line: list[Run]) -> list[Run]:
    """Neighbours of one style as one run."""
    found: list[Run] = []
    for text, style in line:
        if found and found[-1][1] == style:
            found[-1] = (found[-1][0] + text, style)
        else:
            found.append((text, style))
    return found


def numbers(level: Level, detail: int, others: bool = False, off: bool = True) -> list[Run]:
    """What stands beside the bar, shorter with each *detail* from 0 to 3; it says of each number what it is.

    Args:
        others: also say which other sizes the window could have.
        off: also say how far the estimate is off.
    """
    size = window_size(level.window) if others else f"{level.window.tokens:,}"
    short = detail >= 2
    if level.recorded is None:
        estimate: list[Run] = [("estimated " if not short else "est. ", MUTED), (f"{level.used:,}", BOLD)]
        estimate.append((f" of {size}", MUTED))
        if level.not_in_file and not short:
            estimate.append((f", {level.not_in_file:,} not in file", MUTED))
        if detail < 3 and level.ever:
            estimate.append(("   nothing recorded" if not short else "  none rec.", MUTED))
        return estimate
    over = level.recorded > level.window.tokens
    runs: list[Run] = [(f"{level.recorded:,}", f"bold {BAD}" if over else BOLD), (f" of {size} recorded", MUTED)]
    if over:
        runs.append((", over", BAD))
    if detail == 3:
        return runs
    if not short:
        runs[1] = (f" of {size} recorded ({percent(level.recorded / max(level.window.tokens, 1))})", MUTED)
    runs += [("   estimated " if not short else "  est. ", MUTED), (f"{level.estimated:,}", "")]
    if off and level.fit and level.fit.far and detail <= 1:
        side = "above" if level.fit.off > 0 else "below"
        runs.append((f" ({percent(abs(level.fit.off))} {side} recorded)", WARN))
    if level.not_in_file is not None and detail <= 1:
        runs += [("   not in file ", MUTED), (f"{level.not_in_file:,}", "")]
    return runs
