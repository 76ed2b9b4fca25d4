"""Runs of styled text, fitted to lines of exact widths, and the pane that shows such lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from rich.cells import cell_len, set_cell_size
from textual.content import Content
from textual.widget import Widget

from context_tui.text.sanitize import sanitize_line
from context_tui.tui.terminal.cells import ASCII_GLYPHS

Run = tuple[str, str]
"""Text and its style."""

CURSOR_BACKGROUND = "$block-cursor-blurred-background"
"""Background of the current row."""
MUTED, BOLD = "$foreground-muted", "bold"
GOOD, WARN, BAD, PRIMARY = "$text-success", "$text-warning", "$text-error", "$text-primary"
_WORD_PATTERN = re.compile(r" *[^ ]+ *| +")  # a no-break space keeps words together


def build_content(runs: Iterable[Run], ascii: bool = False) -> Content:
    """Build content from runs; with *ascii*, our glyphs are replaced by ASCII ones."""
    return Content.assemble(*((text.translate(ASCII_GLYPHS) if ascii else text, style) for text, style in runs))


def build_choice_strip(labels: Mapping[str, str], chosen: str, width: int = 0) -> Content:
    """Build choices side by side with the chosen one marked; a click calls the screen's ``choose`` with a name.

    Args:
        labels: what stands on each, by its name.
        width: cells in a line, where none is to be split over two; 0: as it comes.
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
    """Format session text as one safe line, cut to *width* cells if given."""
    clean = sanitize_line(text[:2_000])
    return shorten(clean, width) if width else clean


def shorten(text: str, width: int) -> str:
    """Shorten text to at most *width* cells, with an ellipsis if cut."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + "…" if width > 0 else ""


def shorten_at_word(text: str, width: int) -> str:
    """Shorten text to at most *width* cells at a word boundary, with an ellipsis if cut."""
    if cell_len(text) <= width:
        return text
    return "".join(part for part, _ in _shorten_line([(text, "")], width)) if width > 0 else ""


def shorten_path(path: str, width: int) -> str:
    """Shorten a path to at most *width* cells by dropping its start."""
    clean = format_safe_line(path)
    if cell_len(clean) <= width:
        return clean
    while clean and cell_len(clean) > width - 1:
        clean = clean[max(1, (cell_len(clean) - width + 1) // 2) :]
    whole = clean.find("/")  # not the end of a folder's name
    clean = clean[whole:] if 0 <= whole < len(clean) - 1 else clean
    return "…" + clean if width > 0 else ""


def clip_runs(runs: Sequence[Run], width: int) -> list[Run]:
    """Clip the runs to at most *width* cells."""
    if count_cells(runs) <= width:
        return list(runs)
    found: list[Run] = []
    for text, style in runs:
        room = width - count_cells(found)
        if cell_len(text) >= room:
            return [*found, (shorten(text + " " * room, room), style)]
        found.append((text, style))
    return found


def clip_lines(lines: Sequence[Sequence[Run]], height: int, width: int) -> list[list[Run]]:
    """Return the first *height* lines, with an ellipsis if more follow."""
    found = [list(line) for line in lines[:height]]
    if found and len(lines) > height:
        found[-1] = _shorten_line(found[-1], width)
    return found


def _shorten_line(line: Sequence[Run], width: int) -> list[Run]:
    """End a line with an ellipsis if there is room, dropping its last words."""
    text = "".join(text for text, _ in line).rstrip()
    end = len(text)
    while cell_len(text[:end]) >= width and (space := text.rfind(" ", 0, end)) > 0:
        end = len(text[:space].rstrip())
    found: list[Run] = []
    for part, style in line:
        found.append((part[:end], style))
        end -= len(found[-1][0])
    kept = [run for run in found if run[0]]
    return clip_runs([*kept, ("…", kept[-1][1] if kept else "")], width)


def pad_runs(runs: Sequence[Run], width: int, style: str = "") -> list[Run]:
    """Pad or clip the runs to exactly *width* cells."""
    found = clip_runs(runs, width)
    return [*found, (" " * (width - count_cells(found)), style)]


def set_background(runs: Iterable[Run], background: str = CURSOR_BACKGROUND) -> list[Run]:
    """Set the background of the runs; by default that of the current row."""
    return [(text, f"{style} on {background}" if style else f"on {background}") for text, style in runs]


def justify_runs(left: Sequence[tuple[int, Run]], right: Sequence[Run], width: int, gap: int = 2) -> list[Run]:
    """Align parts to the left and *right* to the right; parts of the lowest rank are dropped first.

    The last part to stay is cut short where even that is too long.
    """
    parts, end = list(left), list(right)
    room = width - count_cells(end) - (gap if end else 0)
    while len(parts) > 1 and sum(cell_len(run[0]) for _, run in parts) + gap * (len(parts) - 1) > room:
        parts.remove(min(parts, key=lambda part: part[0]))
    runs: list[Run] = []
    for number, (_, run) in enumerate(parts):
        runs += [(" " * gap, "")] if number else []
        runs.append(run)
    return clip_runs([*pad_runs(runs, max(room, 0)), (" " * gap if end else "", ""), *end], width)


def format_bar(share: float, width: int, full: str = "█", rest: str = "░") -> tuple[str, str]:
    """Format a bar as its filled part, at least a cell if positive, and the rest."""
    filled = min(width, max(round(share * width), 1 if share > 0 else 0))
    return full * filled, rest * (width - filled)


def wrap_parts(parts: Sequence[Sequence[Run]], width: int, gap: int = 3) -> list[list[Run]]:
    """Wrap parts to lines of at most *width* cells; a part is kept whole if it fits on a line."""
    lines: list[list[Run]] = [[]]
    for part in parts:
        size, used = count_cells(part), count_cells(lines[-1])
        if used and used + gap + size > width:
            lines.append([])
        elif used:
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
    """Pane of lines that a function builds for a width and a height in cells."""

    DEFAULT_CSS = "LinesPane { text-wrap: nowrap; text-overflow: clip; padding: 0 1; }"

    def __init__(self, build_lines: Callable[[int, int], Lines], *, ascii: bool = False, id: str | None = None) -> None:
        super().__init__(id=id)
        self._build_lines, self.ascii = build_lines, ascii

    def render(self) -> Content:
        """Draw the lines."""
        width, height = self.content_size
        lines = self._build_lines(width, height)[:height] if width and height else []
        return Content("\n").join(build_content(clip_runs(line, width), self.ascii) for line in lines)
