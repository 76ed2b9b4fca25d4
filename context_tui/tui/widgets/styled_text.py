"""Runs of styled text, fitted to lines of exact widths, and panes that show such lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from rich.cells import cell_len
from textual import events
from textual.content import Content
from textual.widget import Widget

from context_tui.text.sanitize import sanitize_line
from context_tui.tui.rendering.columns import drop_columns
from context_tui.tui.terminal.cells import ELLIPSIS, MAX_LINE_SOURCE, find_word_end, shorten

Run = tuple[str, str]

_WORD_PATTERN = re.compile(r" *[^ ]+ *| +")  # a no-break space keeps words together


def build_lines(lines: Iterable[Iterable[Run]]) -> Content:
    """Join lines, each given as runs, into one Textual ``Content`` with line breaks in between."""
    return Content("\n").join(Content.assemble(*line) for line in lines)


def build_choice_strip(labels: Mapping[str, str], chosen: str, width: int = 0) -> Content:
    """Build lines of *width* cells (0: one line) with labels that can be clicked, and a mark on the chosen one."""
    parts: list[Content | str] = []
    line_cells = 0
    for name, label in labels.items():
        glyph, style = ("●", "bold $accent") if name == chosen else ("○", "")
        cells = 2 + cell_len(label)
        if parts:
            is_full = 0 < width < line_cells + 3 + cells
            parts.append("\n" if is_full else "   ")
            line_cells = 0 if is_full else line_cells + 3
        line_cells += cells
        parts.append(Content.styled(f"{glyph} {label}", style).stylize(f"@click=screen.choose('{name}')"))
    return Content.assemble(*parts)


def count_cells(runs: Iterable[Run]) -> int:
    """Return the width of the runs in cells."""
    return sum(cell_len(text) for text, _ in runs)


def format_safe_line(text: str, width: int = 0) -> str:
    """Return text of a session, made safe to show on one line and cut to *width* cells unless *width* is 0."""
    clean = sanitize_line(text[:MAX_LINE_SOURCE])
    return shorten(clean, width) if width else clean


def clip_runs(runs: Sequence[Run], width: int) -> list[Run]:
    """Return the runs shortened to at most *width* cells, with an ellipsis where text is cut."""
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
    """Return the first *height* lines; if there are more, the last returned line ends with an ellipsis."""
    clipped = [list(line) for line in lines[:height]]
    if clipped and len(lines) > height:
        clipped[-1] = _shorten_line(clipped[-1], width)
    return clipped


def _shorten_line(line: Sequence[Run], width: int) -> list[Run]:
    """Return a line that ends with an ellipsis, dropping words that leave no room for it; a single long word is cut."""
    room = find_word_end("".join(text for text, _ in line).rstrip(), width)
    runs: list[Run] = []
    for text, style in line:
        runs += [(text[:room], style)] if text[:room] else []
        room -= len(text[:room])
    return clip_runs([*runs, (ELLIPSIS, runs[-1][1] if runs else "")], width)


def pad_runs(runs: Sequence[Run], width: int) -> list[Run]:
    """Return the runs cut or padded to exactly *width* cells."""
    clipped = clip_runs(runs, width)
    return [*clipped, (" " * (width - count_cells(clipped)), "")]


def set_background(runs: Iterable[Run]) -> list[Run]:
    """Return the runs with the background that marks the current row."""
    return [(text, f"{style} on $block-cursor-blurred-background".lstrip()) for text, style in runs]


def justify_runs(left: Sequence[tuple[int, Run]], right: Sequence[Run], width: int) -> list[Run]:
    """Build a line with *right* at the right edge and as many of the (rank, run) pairs in *left* as fit before it.

    If the line is too narrow, the runs of the lowest rank are dropped first, and the last remaining run may be cut.
    """
    gap = 2
    room = width - count_cells(right) - (gap if right else 0)
    parts = drop_columns(left, room + gap, lambda part: cell_len(part[1][0]) + gap, lambda part: part[0])
    runs: list[Run] = []
    for number, (_, run) in enumerate(parts):
        runs += [(" " * gap, "")] if number else []
        runs.append(run)
    return clip_runs([*pad_runs(runs, max(room, 0)), (" " * gap if right else "", ""), *right], width)


def format_bar(share: float, width: int, glyph: str = "█", empty: str = "░") -> tuple[str, str]:
    """Return the filled and the empty part of a bar as two strings; any positive share fills at least one cell."""
    filled = min(width, max(round(share * width), 1 if share > 0 else 0))
    return glyph * filled, empty * (width - filled)


def wrap_parts(parts: Sequence[Sequence[Run]], width: int, gap: int = 3) -> list[list[Run]]:
    """Return the parts on lines of *width* cells; a part is split between words only if it is longer than a line."""
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
    """A pane that shows the lines that *draw* returns for its width and height in cells."""

    DEFAULT_CSS = "LinesPane { text-wrap: nowrap; text-overflow: clip; padding: 0 1; }"

    def __init__(self, draw: Callable[[int, int], Lines], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._draw = draw

    def render(self) -> Content:
        width, height = self.content_size
        lines = self._draw(width, height)[:height] if width and height else []
        return build_lines(clip_runs(line, width) for line in lines)


WHEEL_LINES = 3


class ClickableLines(LinesPane, can_focus=True):
    """A pane that shows lines of its screen, and reports clicks and turns of the mouse wheel to it."""

    def __init__(
        self,
        draw: Callable[[int, int], Lines],
        click: Callable[[int, int, bool], object],
        scroll: Callable[[int], object] = lambda lines: None,
        *,
        is_focusable: bool = True,
        id: str | None = None,
    ) -> None:
        """Create a pane; *click* receives the line and cell of a click, and whether it is a double click."""
        super().__init__(draw, id=id)
        self._click, self._scroll, self.can_focus = click, scroll, is_focusable

    def on_click(self, event: events.Click) -> None:
        self._click(event.y - self.gutter.top, event.x - self.gutter.left, event.chain > 1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self._scroll(WHEEL_LINES)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self._scroll(-WHEEL_LINES)
