"""Lines around the timeline: status, column heads, and the legend of visible marks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.content import Content
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from context_tui.text.sanitize import sanitize_line
from context_tui.tui.inspector import timeline_strips
from context_tui.tui.rendering.formatting import format_token_column
from context_tui.tui.terminal.cells import HORIZONTAL_BLOCKS, choose_form
from context_tui.tui.terminal.themes import BOLD, MUTED
from context_tui.tui.timeline.marks import VERDICT_GLYPHS, VERDICT_LABELS

DEFAULT_UNIT = format_token_column(None)
SIGN_LABELS = {
    "map": (
        HORIZONTAL_BLOCKS[4],
        "map: all rows, a bar for their tokens, shaded where you are",
        "map: all rows",
        "map",
    ),
    "open": (timeline_strips.OPEN_GLYPH, "turn, z folds it", "z folds"),
    "folded": (timeline_strips.FOLDED_GLYPH, "folded turn, z opens it", "z opens"),
    "bar": (timeline_strips.BAR_GLYPH, DEFAULT_UNIT),
}
"""Signs in the legend other than marks, by style: the sign and its names, longest first."""
MAP_HEADING = " map"
SIGN_WIDTH = 4
"""Cells of a sign in the legend and of the spaces around its name."""


class ColumnHeads(Widget):
    """The line above the timeline with its title and column headings; drawn heavier if the timeline has the focus."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"column-heads--{part}" for part in ("edge", "label", "title")}

    def __init__(self, clear_filter: Callable[[], object], *, id: str | None = None) -> None:
        """Create the line; a click on it calls *clear_filter* while only some rows are listed."""
        super().__init__(id=id)
        self._clear_filter = clear_filter
        self.title = ""
        self.listed_counts: tuple[int, int] | None = None
        self._messages = 0
        self.unit = DEFAULT_UNIT

    def on_mount(self) -> None:
        self.watch(self.screen, "focused", self._redraw, init=False)

    def _redraw(self) -> None:
        self.refresh()

    def show(
        self, title: str, messages: int, listed_counts: tuple[int, int] | None = None, unit: str = DEFAULT_UNIT
    ) -> None:
        """Show a title and the headings; *listed_counts* are the numbers of listed and of all rows, if they differ."""
        if (title, messages, listed_counts, unit) != (self.title, self._messages, self.listed_counts, self.unit):
            self.title, self._messages, self.listed_counts, self.unit = title, messages, listed_counts, unit
            self.refresh()

    def render_line(self, y: int) -> Strip:
        styles = {name.partition("--")[2]: self.get_component_rich_style(name) for name in self.COMPONENT_CLASSES}
        focused = isinstance(self.parent, Widget) and self.parent.has_focus_within
        counts = format_listed_variants(*self.listed_counts, focused) if self.listed_counts else ("",)
        columns = timeline_strips.TimelineColumns.fit(self.size.width - len(MAP_HEADING) + 1, self._messages)
        rule_glyph = timeline_strips.HEAVY_RULE_GLYPH if focused else timeline_strips.RULE_GLYPH
        heads = timeline_strips.paint_column_heads(columns, self.title, styles, rule_glyph, counts, self.unit)
        return Strip([*heads.crop(0, columns.width - 1), Segment(MAP_HEADING, styles["label"])])

    def on_click(self) -> None:
        if self.listed_counts:
            self._clear_filter()


def format_listed_variants(count: int, total: int, focused: bool) -> tuple[str, ...]:
    """Format how many rows are listed, and a key to change that (esc if *focused*, else f), longest variant first."""
    counts = f": {count:,} of {total:,}"
    if focused:
        return f"{counts} rows, esc shows all", f"{counts} rows, esc: all", f"{counts}, esc: all"
    return f"{counts} rows, f changes it", f"{counts} rows", counts


class Legend(Widget):
    """The line below the timeline that explains the visible signs and totals the marks in the context."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"timeline--{part}" for part in ("about", *VERDICT_LABELS, "head", "bar")}

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.shown: tuple[str, ...] = ()
        self._totals: Mapping[str, Sequence[str]] = {}
        self._style_names: Collection[str] = ()
        self._unit = DEFAULT_UNIT

    def show(self, style_names: Collection[str], unit: str = DEFAULT_UNIT) -> None:
        """Explain the signs drawn in the styles *style_names*; *unit* says what the bars measure."""
        if unit != self._unit:
            self._unit, self.shown = unit, ()
        self._style_names = style_names
        self._update_labels()

    def show_totals(self, totals: Mapping[str, Sequence[str]]) -> None:
        """Show *totals*, which holds variants of the text with each mark's total, longest first, keyed by style."""
        if totals != self._totals:
            self._totals, self.shown = totals, ()
            self._update_labels()

    def _update_labels(self) -> None:
        names = {*self._style_names, *self._totals, *(("map",) if self._style_names else ())}
        labels = tuple(name for name in (*VERDICT_LABELS, *SIGN_LABELS) if name in names)
        if labels != self.shown:
            self.shown = labels
            self.refresh()

    def render_line(self, y: int) -> Strip:
        about, width = self._get_label_style("about"), self.size.width
        segments: list[Segment] = []
        for name, label in fit_legend(self.shown, self._totals, width, self._unit):
            glyph = VERDICT_GLYPHS[name] if name in VERDICT_GLYPHS else SIGN_LABELS[name][0]
            style = self._get_label_style({"open": "head", "folded": "head", "map": "bar"}.get(name, name))
            segments += [Segment(f" {glyph}", style), Segment(f" {label} ", about)]
        return Strip(segments).adjust_cell_length(width, about)

    def _get_label_style(self, name: str) -> Style:
        return self.get_component_rich_style(f"timeline--{name}")


def fit_legend(
    style_names: Sequence[str], totals: Mapping[str, Sequence[str]], width: int, unit: str = DEFAULT_UNIT
) -> list[tuple[str, str]]:
    """Return (style, text) pairs that fit in *width* cells; open turns and bars come last, and are left out first."""
    forms = {
        name: totals.get(name) or ((VERDICT_LABELS[name],) if name in VERDICT_LABELS else SIGN_LABELS[name][1:])
        for name in style_names
    }
    if "bar" in forms:
        forms["bar"] = (unit,)
    optional = [name for name in style_names if name in ("open", "bar")]
    order = [name for name in style_names if name not in optional] + optional
    labels: list[tuple[str, str]] = []
    for position, name in enumerate(order, 1):
        reserved = sum(len(forms[later][-1]) + SIGN_WIDTH for later in order[position:] if later not in optional)
        room = width - (0 if name in optional else reserved) - SIGN_WIDTH
        label = choose_form(forms[name], room)
        if len(label) + SIGN_WIDTH <= width:
            labels.append((name, label))
            width -= len(label) + SIGN_WIDTH
    return labels


class StatusLine(Static):
    """A notice of one or two lines, below a line with the next step and the first keys; hidden if all are empty."""

    DEFAULT_CSS = "StatusLine { display: none; &.-said { display: block; } }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self._texts = ("", "", "")

    def show(self, text: str, step: str = "", keys: str = "") -> None:
        """Show *text*, without parsing markup, below a line with the next *step* and the first *keys*."""
        old_text, old_step, old_keys = self._texts
        if (text, step, keys) != self._texts:  # a line that comes or goes moves everything below it
            is_resized = bool(old_step or old_keys) != bool(step or keys) or not (old_text and text)
            one_line = not is_resized and max(len(old_text), len(text)) < self.size.width
            gap = "   " if step and keys else ""
            hint = Content.styled(step, BOLD) + Content.styled(gap + keys, MUTED)
            lines = filter(None, (hint, Content(sanitize_line(text))))
            self.update(Content("\n").join(lines), layout=not one_line)
            self._texts = text, step, keys
            self.set_class(bool(text or step or keys), "-said")
