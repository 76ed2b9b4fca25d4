"""Strips of the timeline: its rows, turn heads and rules, painted in columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from context_tui.text.numbers import format_count
from context_tui.tui.rendering.columns import ColumnFitter
from context_tui.tui.terminal.cells import choose_form, clip_to_width, fit_to_width
from context_tui.tui.timeline.marks import VERDICT_GLYPHS, RowMark
from context_tui.tui.timeline.turns import TurnSummary

OPEN_GLYPH, FOLDED_GLYPH, BAR_GLYPH, RULE_GLYPH, HEAVY_RULE_GLYPH = "▾", "▸", "▇", "─", "━"
MAX_BAR_WIDTH, KIND_WIDTH, TOKENS_WIDTH = 8, 8, 9
MIN_PREVIEW_WIDTH = 17
"""Cells reserved for the gap and the preview of a folded turn; the count of messages is left out first."""


@dataclass(frozen=True)
class TimelineColumns:
    """Column widths for the timeline in cells; ``bar`` is 0 in a timeline too narrow for bars."""

    width: int
    index: int
    bar: int

    @classmethod
    def fit(cls, width: int, last_index: int) -> TimelineColumns:
        """Return the columns for *width* cells and message numbers up to *last_index*."""
        fitter = ColumnFitter(width)
        fitter.fit("bar", MAX_BAR_WIDTH // 2, from_width=48)
        fitter.fit("bar", MAX_BAR_WIDTH, from_width=64)
        return cls(width, max(len(str(last_index)), 3), fitter["bar"])

    @property
    def kind_start(self) -> int:
        """The cell at which the message's kind starts, after the mark and the message number."""
        return 2 + self.index + 2

    @property
    def tokens_start(self) -> int:
        """The cell at which the token count starts, before the bar."""
        return max(self.width - TOKENS_WIDTH - (self.bar + 1 if self.bar else 0), 0)

    def format_bar(self, tokens: int, largest: int) -> str:
        """Format a bar whose full length stands for *largest* tokens; blank if *tokens* is too small to show."""
        if tokens * self.bar * 3 <= largest:
            return " " * (self.bar + 1)
        return (BAR_GLYPH * min(-(-tokens * self.bar // largest), self.bar)).ljust(self.bar + 1)


@dataclass(frozen=True)
class RowCells:
    """The content of one timeline row, column by column; ``tokens`` is None if the size is unknown."""

    index: str
    starts_turn: bool
    kind: str
    preview: str
    tokens: int | None
    mark: RowMark


Styles = Mapping[str, Style]


def paint_row(row: RowCells, columns: TimelineColumns, largest: int, styles: Styles, overlay: Style) -> Strip:
    """Paint a row; *overlay* is laid over the style of every segment, for example to highlight the cursor."""
    is_outside = row.mark.verdict in ("before", "after")
    dim = styles["outside"]
    kind = dim if is_outside else styles.get(row.kind, styles["text"])
    text = dim if is_outside else styles["turn"] if row.starts_turn else styles["text"]
    quiet_style = dim if is_outside else styles["quiet"]
    verdict_style = styles.get(row.mark.verdict, quiet_style)
    is_removed = row.mark.verdict in ("cleared", "summarised", "dropped")
    tokens = row.tokens or 0
    count = "?" if row.tokens is None else f"{tokens:,}"
    preview_width = max(columns.tokens_start - columns.kind_start - KIND_WIDTH, 0)
    parts = [
        (" " + row.mark.glyph, verdict_style),
        (" " + row.index.rjust(columns.index) + " ", quiet_style),
        (fit_to_width(row.kind, KIND_WIDTH), kind),
        (clip_to_width(row.preview, preview_width), verdict_style if is_removed else text),
        (f"{count:>8} ", quiet_style if tokens < largest // 50 else text),
        (columns.format_bar(tokens, largest), verdict_style if is_removed else dim if is_outside else styles["bar"]),
    ]
    return _build_strip(parts, columns.width, styles["text"], overlay)


def paint_head(
    turn: TurnSummary, preview: str | None, columns: TimelineColumns, largest: int, styles: Styles, overlay: Style
) -> Strip:
    """Paint a turn's heading: a rule with its name or, for a folded turn, its name, its *preview* and a bar."""
    dim = styles["outside"] if turn.outside else None
    head, text, quiet_style = (dim or styles[name] for name in ("head", "text", "about"))
    verdict_style = styles.get(turn.verdict, quiet_style)
    name = f" {OPEN_GLYPH if preview is None else FOLDED_GLYPH} {turn.name}"
    room = columns.tokens_start - 2 - len(name)
    tokens = (f"{turn.tokens:>8,} ", text)
    if preview is None:
        count = f" · {format_count(len(turn.messages), 'message')}"
        suffix = "" if turn.inside is not None else " of the context"
        forms = (f"{count} · {turn.place}{suffix} ", f"{count} · {turn.place} ") if turn.place else (f"{count} ", " ")
        about = choose_form((*forms, ""), room)
        rule = about + RULE_GLYPH * (room - len(about))
        glyph = (f" {VERDICT_GLYPHS[turn.outside or 'kept']}", verdict_style)
        parts = [glyph, (name, head), (rule, quiet_style), tokens, (" " * (columns.bar + 1), quiet_style)]
        return _build_strip(parts, columns.width, styles["text"], overlay)
    effects, about = _format_turn_effects(turn, room - min(MIN_PREVIEW_WIDTH, cell_len(preview) + 2))
    parts = [
        (" " + VERDICT_GLYPHS[turn.verdict], verdict_style),
        (name, head),
        ("  " + clip_to_width(preview, max(room - 2 - len(effects) - len(about), 0)), text),
        (effects, verdict_style),
        (about, quiet_style),
        tokens,
        (columns.format_bar(turn.tokens, largest), dim or styles["bar"]),
    ]
    return _build_strip(parts, columns.width, styles["text"], overlay)


def _format_turn_effects(turn: TurnSummary, room: int) -> tuple[str, str]:
    count = len(turn.messages)
    full, short = (", ".join(map(format_effect, turn.effects)) for format_effect in (str, attrgetter("short")))
    share = f" {turn.place:>5}" if turn.place else ""
    count_text, short_count = f"{format_count(count, 'message'):>15}", f"{count:>6,} msg"
    forms = [(full, count_text + share), (short, count_text + share), (short, short_count + share)]
    for effects, about in (*forms, (short, share), ("", share)):
        if len(effects) + len(about) + 2 <= room:
            return f"  {effects}" if effects else "", about
    return "", ""


def _build_strip(parts: Sequence[tuple[str, Style]], width: int, text: Style, overlay: Style) -> Strip:
    return Strip([Segment(part, style + overlay) for part, style in parts]).adjust_cell_length(width, text + overlay)


def paint_column_heads(
    columns: TimelineColumns, title: str, styles: Styles, rule_glyph: str, listed_variants: Sequence[str], unit: str
) -> Strip:
    """Paint the title, the first of *listed_variants* that fits, and the headings for which there is room."""
    preview_start, tokens = columns.kind_start + KIND_WIDTH, columns.tokens_start + TOKENS_WIDTH - 1 - len(unit)
    heads = [(columns.kind_start - 2, "#"), (columns.kind_start, "kind"), (preview_start, "first words")]
    all_end = preview_start + len("first words") + 3
    places = (heads, all_end), (heads[:2], preview_start), (heads[:1], columns.kind_start)
    forms = [(labels, start, suffix) for suffix in listed_variants for labels, start in places[: 3 if suffix else 2]]
    fitting = (form for form in forms if form[1] + cell_len(title + form[2]) + 3 <= tokens)
    labels, title_start, suffix = next(fitting, forms[-1])
    title = clip_to_width(title, max(tokens - title_start - 3 - cell_len(suffix), 0)).rstrip() + suffix
    labels = [*labels, (tokens, unit)]
    parts: list[tuple[str, Style]] = []
    end = 0
    for place, label in sorted([*labels, (title_start, title)]):
        edge = (rule_glyph * (place - end - 2)).center(place - end) if end else rule_glyph * (place - 1) + " "
        parts += [(edge, styles["edge"]), (label, styles["title" if label == title else "label"])]
        end = place + cell_len(label)
    parts.append((" " + rule_glyph * (columns.width - end - 1), styles["edge"]))
    return _build_strip(parts, columns.width, styles["edge"], Style())


def paint_rule(labels: Sequence[str], width: int, style: Style) -> Strip:
    """Paint a rule across the timeline with the first of *labels* that fits, or with the last one cut to fit."""
    texts = [f" {RULE_GLYPH * 2} {label} " for label in labels]
    text = choose_form(texts, width)
    return Strip([Segment(clip_to_width(text + RULE_GLYPH * max(width - cell_len(text), 0), width), style)])
