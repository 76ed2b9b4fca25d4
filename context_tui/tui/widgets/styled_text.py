"""Runs of styled text, fitted to lines of exact widths, and the pane that shows such lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from rich.cells import cell_len
from textual.content import Content
from textual.widget import Widget

from context_tui.text.sanitize import sanitize_line
from context_tui.tui.rendering.columns import drop_columns
from context_tui.tui.terminal.cells import ELLIPSIS, MAX_LINE_SOURCE, find_word_end, shorten

Run = tuple[str, str]
"""Text with its style."""

CURSOR_BACKGROUND = "$block-cursor-blurred-background"
"""Background of the current row."""
MUTED, BOLD = "$foreground-muted", "bold"
GOOD, WARN, BAD, PRIMARY = "$text-success", "$text-warning", "$text-error", "$text-primary"
_WORD_PATTERN = re.compile(r" *[^ ]+ *| +")  # a no-break space keeps words together


def build_lines(lines: Iterable[Iterable[Run]]) -> Content:
    """Build content from the runs of each line."""
    return Content("\n").join(Content.assemble(*line) for line in lines)


def build_choice_strip(labels: Mapping[str, str], chosen: str, width: int = 0) -> Content:
    """Build a row of choices with the chosen one marked; a click calls the screen's ``choose`` with a name.

    Args:
        labels: label of each choice, by name.
        width: cells of a line, to start a new line before a choice that does not fit; 0 for a single line.
    """
    parts: list[Content | str] = []
    at = 0
    for name, label in labels.items():
        glyph, style = ("●", "bold $accent") if name == chosen else ("○", "")
        wide = 2 + cell_len(label)
        if parts:
            ends = 0 < width < at + 3 + wide
            parts.append("\n" if ends else "   ")
            at = 0 if ends else at + 3
        at += wide
        parts.append(Content.styled(f"{glyph} {label}", style).stylize(f"@click=screen.choose('{name}')"))
    return Content.assemble(*parts)


def count_cells(runs: Iterable[Run]) -> int:
    """Count the cells of the runs."""
    return sum(cell_len(text) for text, _ in runs)


def format_safe_line(text: str, width: int = 0) -> str:
    """Sanitize session text into one line, cut to *width* cells if given."""
    clean = sanitize_line(text[:MAX_LINE_SOURCE])
    return shorten(clean, width) if width else clean


def clip_runs(runs: Sequence[Run], width: int) -> list[Run]:
    """Cut the runs to at most *width* cells."""
    if count_cells(runs) <= width:
        return list(runs)
    clipped: list[Run] = []
    for text, style in runs:
        room = width - count_cells(clipped)
        if cell_len(text) >= room:
            return [*clipped, (shorten(text + " " * room, room), style)]
        clipped.append((text, style))
    return clipped


def clip_lines(lines: Sequence[Sequence[Run]], height: int, width: int) -> list[list[Run]]:
    """Cut the lines to the first *height*, with an ellipsis if more would follow."""
    clipped = [list(line) for line in lines[:height]]
    if clipped and len(lines) > height:
        clipped[-1] = _shorten_line(clipped[-1], width)
    return clipped


def _shorten_line(line: Sequence[Run], width: int) -> list[Run]:
    """End a line with an ellipsis; drop its last words if there is no room, and cut a single long word."""
    end = find_word_end("".join(text for text, _ in line).rstrip(), width)
    parts: list[Run] = []
    for part, style in line:
        parts.append((part[:end], style))
        end -= len(parts[-1][0])
    runs = [run for run in parts if run[0]]
    return clip_runs([*runs, (ELLIPSIS, runs[-1][1] if runs else "")], width)


def pad_runs(runs: Sequence[Run], width: int, style: str = "") -> list[Run]:
    """Cut or pad the runs to exactly *width* cells."""
    clipped = clip_runs(runs, width)
    return [*clipped, (" " * (width - count_cells(clipped)), style)]


def set_background(runs: Iterable[Run], background: str = CURSOR_BACKGROUND) -> list[Run]:
    """Set the background of the runs, by default that of the current row."""
    return [(text, f"{style} on {background}" if style else f"on {background}") for text, style in runs]


def justify_runs(left: Sequence[tuple[int, Run]], right: Sequence[Run], width: int, gap: int = 2) -> list[Run]:
    """Return a line with the ranked parts of *left* at its left edge and *right* at its right edge.

    On a narrow line the parts of the lowest rank are dropped; the last one is cut if even that is too long.
    """
    end = list(right)
    room = width - count_cells(end) - (gap if end else 0)
    parts = drop_columns(left, room + gap, lambda part: cell_len(part[1][0]) + gap, lambda part: part[0])
    runs: list[Run] = []
    for number, (_, run) in enumerate(parts):
        runs += [(" " * gap, "")] if number else []
        runs.append(run)
    return clip_runs([*pad_runs(runs, max(room, 0)), (" " * gap if end else "", ""), *end], width)


def format_bar(share: float, width: int, glyph: str = "█", empty: str = "░") -> tuple[str, str]:
    """Return the filled part of a bar, at least one cell for a positive share, and its rest."""
    filled = min(width, max(round(share * width), 1 if share > 0 else 0))
    return glyph * filled, empty * (width - filled)


def wrap_parts(parts: Sequence[Sequence[Run]], width: int, gap: int = 3) -> list[list[Run]]:
    """Wrap parts on lines of at most *width* cells; a part is split between words only if it is wider than a line."""
    lines: list[list[Run]] = [[]]
    for part in parts:
        size, cells = count_cells(part), count_cells(lines[-1])
        if cells and cells + gap + size > width:
            lines.append([])
        elif cells:
            lines[-1].append((" " * gap, ""))
        if size <= width:
            lines[-1] += part
            continue
        for text, style in part:
            for word in _WORD_PATTERN.findall(text):
                if count_cells(lines[-1]) + cell_len(word.rstrip()) > width and lines[-1]:
                    lines.append([])
                    word = word.lstrip()
                room = width - count_cells(lines[-1])
                lines[-1] += [(word, style)] if cell_len(word) <= room else clip_runs([(word.rstrip(), style)], room)
    return lines if lines[0] else []


Lines = Sequence[Sequence[Run]]


class LinesPane(Widget):
    """Pane that shows the lines returned by a function of its width and height in cells."""

    DEFAULT_CSS = "LinesPane { text-wrap: nowrap; text-overflow: clip; padding: 0 1; }"

    def __init__(self, draw: Callable[[int, int], Lines], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._draw = draw

    def render(self) -> Content:
        """Render the lines."""
        width, height = self.content_size
        lines = self._draw(width, height)[:height] if width and height else []
        return build_lines(clip_runs(line, width) for line in lines)
