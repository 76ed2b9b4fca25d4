"""One row of the timeline as a strip: columns laid out for a width, text cut to cells, styles from the CSS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from context_tui.tui.marks import Mark

TURN, FILLED, RULE, MORE = "▶", "▇", "─", "…"
BAR = 8
KIND = 8


def fit(text: str, width: int) -> str:
    """*text* in exactly *width* cells."""
    if width <= 0:
        return ""
    if text.isascii():
        return text[:width].ljust(width)
    return set_cell_size(text, width)


def clip(text: str, width: int) -> str:
    """*text* in exactly *width* cells, with a sign where some of it is cut off."""
    if width <= 0:
        return ""
    if text.isascii() and len(text) <= width:
        return text.ljust(width)
    cut = fit(text, width)
    if cut.rstrip() == text.rstrip() or width < 2:
        return cut
    return fit(text, width - 1) + MORE


@dataclass(frozen=True)
class Columns:
    """Widths of the columns at a width of the timeline: narrow ones lose the bar first, then the turn number."""

    width: int
    index: int
    turn: int
    bar: int

    @classmethod
    def of(cls, width: int, last_index: int, last_turn: int) -> Columns:
        """The columns that fit."""
        index = max(len(str(last_index)), 3)
        turn = max(len(str(last_turn)), 2)
        return cls(width, index, turn if width >= 56 else 0, BAR if width >= 64 else 4 if width >= 48 else 0)

    @property
    def preview(self) -> int:
        """Cells that are left for the preview."""
        used = (
            2 + self.index + 1 + (self.turn + 1 if self.turn else 0) + 2 + KIND + 9 + (self.bar + 1 if self.bar else 0)
        )
        return max(self.width - used, 0)


@dataclass(frozen=True)
class Row:
    """What stands in a row."""

    index: str
    turn: str
    starts: bool
    kind: str
    preview: str
    tokens: int
    mark: Mark


def paint_row(row: Row, columns: Columns, largest: int, styles: Mapping[str, Style], over: Style) -> Strip:
    """The strip of a row; *over* lies on top of every segment, as the cursor does."""
    outside = row.mark.word in ("before", "after")
    dim = styles["outside"]
    kind = dim if outside else styles.get(row.kind, styles["text"])
    text = dim if outside else styles["turn"] if row.starts else styles["text"]
    quiet = dim if outside else styles["quiet"]
    fate = styles.get(row.mark.word, quiet)
    struck = row.mark.word in ("cleared", "summarised", "dropped")
    parts = [
        (" " + row.mark.glyph, fate),
        (" " + row.index.rjust(columns.index) + " ", quiet),
    ]
    if columns.turn:
        parts.append((row.turn.rjust(columns.turn) + " ", styles["turn"] if row.starts and not outside else quiet))
    parts += [
        ((TURN if row.starts else " ") + " ", fate if outside else styles["turn"]),
        (fit(row.kind, KIND), kind),
        (clip(row.preview, columns.preview), fate if struck else text),
        (f"{row.tokens:>8,} ", quiet if row.tokens < largest // 50 else text),
    ]
    if columns.bar:
        filled = (
            min(-(-row.tokens * columns.bar // largest), columns.bar) if row.tokens * columns.bar * 3 > largest else 0
        )
        parts.append(
            ((FILLED * filled).ljust(columns.bar) + " ", fate if struck else dim if outside else styles["bar"])
        )
    strip = Strip([Segment(part, style + over) for part, style in parts])
    return strip.adjust_cell_length(columns.width, styles["text"] + over)


def paint_rule(labels: Sequence[str], width: int, style: Style) -> Strip:
    """A labelled rule across the timeline, with the first of *labels* that fits; the last is cut off."""
    texts = [f" {RULE * 2} {label} " for label in labels]
    text = next((each for each in texts if cell_len(each) <= width), texts[-1])
    return Strip([Segment(clip(text + RULE * max(width - cell_len(text), 0), width), style)])
