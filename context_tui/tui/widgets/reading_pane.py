"""Pane for long texts, which wraps lines only when they scroll into view, with selection by mouse."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice, pairwise
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.events import Resize
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from context_tui.tui.rendering import layout
from context_tui.tui.rendering.layout import LayoutLine, TextPart
from context_tui.tui.widgets.bindings import read_bindings

WRAP_AHEAD_LINES = 100
"""Number of lines below the visible ones that are wrapped in advance."""


class ReadingPane(ScrollView, can_focus=True):
    """A scrollable pane for text of any length; the text is sanitized and never interpreted as markup."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"reading-pane--{style}" for style in ("text", "heading", "muted")}
    DEFAULT_CSS = """
    ReadingPane {
        overflow-x: hidden;
        scrollbar-gutter: stable;
        scrollbar-size-vertical: 1;
        .reading-pane--heading { text-style: bold; color: $accent; }
        .reading-pane--muted { color: $foreground 60%; }
    }
    """
    # These replace inherited bindings, which animate the scrolling.
    BINDINGS = read_bindings("reading-pane")

    def __init__(self, parts: Iterable[TextPart] = (), *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.source_text = ""
        """Plain text passed to ``show_text``."""
        self._source: Iterator[TextPart] = iter(parts)
        self._parts: list[TextPart] = []
        self._lines: list[LayoutLine] = []
        self._starts: list[int] = []  # first line of each part
        self._width = 0
        self._layout = layout.PartLayout(0)
        self._is_painted = False

    def show(self, parts: Iterable[TextPart], *, follow: bool = False) -> None:
        """Show *parts* from the start; with *follow*, keep the scroll position or, if it was the end, go to the end."""
        at_end = self.scroll_offset.y >= self.max_scroll_y
        self._start_layout(parts)
        self.source_text = ""
        if self.is_attached and self.text_selection is not None:
            self.screen.clear_selection()
        self._wrap_visible()
        if follow:
            self._wrap_visible(everything=True)
            if at_end:
                self.scroll_to(y=len(self._lines), animate=False, force=True)
        else:
            self.scroll_to(y=0, animate=False, force=True)
        self.refresh()

    def show_text(self, text: str, *, follow: bool = False) -> None:
        """Show a plain text and keep it in ``source_text``; *follow* is as in ``show``."""
        self.show([TextPart(text)] if text else [], follow=follow)
        self.source_text = text

    def on_resize(self, event: Resize) -> None:
        """Wrap the text again if the width has changed, keeping the same part at the top of the pane."""
        if self._compute_content_width() == self._width:
            self._wrap_visible()
        else:
            top = self._find_top_part()
            self._start_layout(self._rebuild_parts())
            self._wrap_visible()
            self._scroll_to_part(top)
        self.refresh()  # lines that were drawn before the pane had a size are cached as blank

    def _start_layout(self, parts: Iterable[TextPart]) -> None:
        self._width = self._compute_content_width()
        self._layout = layout.PartLayout(self._width)
        self._source, self._parts, self._lines, self._starts = iter(parts), [], [], []

    def _rebuild_parts(self) -> Iterator[TextPart]:
        return chain(self._parts, self._source)

    def recolour(self, parts: Iterable[TextPart]) -> None:
        """Restyle the text without wrapping it again; *parts* must be the current parts in other styles."""
        self._source = iter(parts)
        for number, part in enumerate(map(layout.sanitize_part, islice(self._source, len(self._parts)))):
            if part != self._parts[number]:
                start, stop = [*self._starts[number : number + 2], len(self._lines)][:2]
                lines = self._layout.restyle(part, number, self._lines[start:stop])
                self._parts[number], self._lines[start : start + len(lines)] = part, lines
        self.refresh()

    def _find_top_part(self) -> int:
        top = self.scroll_offset.y
        return self._lines[min(top, len(self._lines) - 1)].part_number if self._lines and top else 0

    def _scroll_to_part(self, number: int) -> None:
        while number >= len(self._parts) and self._wrap_next_part():
            pass
        self._wrap_visible()
        if self._parts:
            line = self._starts[min(number, len(self._parts) - 1)] if number else 0
            self.scroll_to(y=line, animate=False, force=True)

    def watch_scroll_y(self, old: float, new: float) -> None:
        """Wrap more text as the user scrolls towards the last wrapped line."""
        super().watch_scroll_y(old, new)
        self._wrap_visible()

    # Drawing

    def render_lines(self, crop: Region) -> list[Strip]:
        self._is_painted = True
        try:
            return super().render_lines(crop)
        finally:
            self._is_painted = False

    def render_line(self, y: int) -> Strip:
        index = y + self.scroll_offset.y
        strip = self._build_strip(index)
        # Offsets are needed for the mouse only; when painted, they would make all styles different.
        return strip if self._is_painted else strip.apply_offsets(0, index)

    def _build_strip(self, index: int) -> Strip:
        width = self.size.width
        if index >= len(self._lines):
            return Strip.blank(width, self.rich_style)
        line = self._lines[index]
        segments = self._build_segments(line)
        if line.right_line is not None:
            padding = layout.compute_column_width(self._width) - cell_len(line.drawn_text)
            segments += [
                Segment(" " * padding, self._resolve_style(line.style)),
                Segment(layout.COLUMN_GAP, self._resolve_style("muted")),
                *self._build_segments(line.right_line),
            ]
        strip = Strip(segments).adjust_cell_length(width, self._resolve_style((line.right_line or line).style))
        for first, last, style in self.find_overlays(index):
            start, end = cell_len(strip.text[:first]), cell_len(strip.text[:last])
            overlay = Strip([Segment(s.text, (s.style or Style()) + style) for s in strip.crop(start, end)])
            strip = Strip.join([strip.crop(0, start), overlay, strip.crop(end, strip.cell_length)])
        return strip

    def find_overlays(self, index: int) -> Iterator[tuple[int, int, Style]]:
        """Yield (start, end, style) for each overlay on line *index*, such as the selection, counted in characters."""
        selection = self.text_selection
        if selection is None or (span := selection.get_span(index)) is None:
            return
        _, first, last = self._find_selected_span(selection, index, span)
        if first < last:
            style = self.screen.get_component_rich_style("screen--selection")
            yield first, last, Style(color=style.color, bgcolor=style.bgcolor, reverse=style.reverse)

    def _build_segments(self, line: LayoutLine) -> list[Segment]:
        style = self._resolve_style(line.style)
        prefix_style = self._resolve_style(line.prefix_style) if line.prefix_style else style
        segments = [Segment(line.prefix, prefix_style)] if line.prefix else []
        if not line.spans:
            return [*segments, Segment(line.text, style)]
        edges = sorted({0, len(line.text), *(place for first, last, _ in line.spans for place in (first, last))})
        for first, last in pairwise(edges):
            span_style = style
            for begin, end, style_name in line.spans:
                if begin <= first and last <= end:
                    span_style += self._resolve_style(style_name, is_overlay=True)
            segments.append(Segment(line.text[first:last], span_style))
        return segments

    def _resolve_style(self, style_name: str, *, is_overlay: bool = False) -> Style:
        # A style that is not partial has its colours blended with the background.
        style = self.get_component_rich_style(f"reading-pane--{style_name}")
        if not is_overlay:
            return style
        partial_style = self.get_component_rich_style(f"reading-pane--{style_name}", partial=True)
        return partial_style + Style(color=style.color) if partial_style.color else partial_style

    # Selection

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text, without the line breaks of wrapping, and the newline to put after it."""
        if selection.end is None:
            self._wrap_visible(everything=True)
        spans = ((index, selection.get_span(index)) for index in range(len(self._lines)))
        selections = (self._find_selected_span(selection, index, span) for index, span in spans if span is not None)
        return layout.format_copied_text(self._parts, selections), "\n"

    def _find_selected_span(
        self, selection: Selection, index: int, span: tuple[int, int]
    ) -> tuple[layout.LineColumn, int, int]:
        line, start = self._lines[min(index, len(self._lines) - 1)], selection.start
        is_right = False
        if start is not None and start.y < len(self._lines):
            is_right = layout.is_in_right_column(self._lines[start.y], start.x, self._width)
        column = layout.get_column(line, self._width, is_right=is_right)
        return column, *column.clip_selection(span[0], span[1] if span[1] >= 0 else 1 << 30)

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    # Scrolling

    def action_move(self, lines: int) -> None:
        self.scroll_to(y=self.scroll_offset.y + lines, animate=False)

    def action_page(self, pages: int) -> None:
        self.scroll_to(y=self.scroll_offset.y + pages * max(self.size.height - 1, 1), animate=False)

    def action_move_to_end(self, last: bool) -> None:
        """Scroll to the start or, if *last* is true, wrap all the text and scroll to the end."""
        if last:
            self._wrap_visible(everything=True)
        self.scroll_to(y=len(self._lines) if last else 0, animate=False)

    def jump_to_heading(self, step: int) -> None:
        """Scroll to the next (+1) or previous (-1) heading; stay in place if there is none."""
        if step > 0:
            self._wrap_visible(everything=len(self._lines) < 50_000)
        top = self.scroll_offset.y
        are_headings = [line.style == "heading" for line in self._lines]
        # Only the first line of a heading counts.
        starts = [n for n, is_heading in enumerate(are_headings) if is_heading and not (n and are_headings[n - 1])]
        if targets := [n for n in starts if (n > top if step > 0 else n < top)]:
            self.scroll_to(y=targets[0] if step > 0 else targets[-1], animate=False)

    def _compute_content_width(self) -> int:
        return self.scrollable_content_region.width or self.size.width

    def _wrap_visible(self, *, everything: bool = False) -> None:
        if not self._width:
            return
        line_count = self.scroll_offset.y + self.size.height + WRAP_AHEAD_LINES
        before = len(self._lines)
        while (everything or len(self._lines) < line_count) and self._wrap_next_part():
            pass
        size = Size(self._width, len(self._lines))
        if size != self.virtual_size or len(self._lines) != before:
            self.virtual_size = size

    def _wrap_next_part(self) -> bool:
        part = next(self._source, None)
        if part is None:
            right_lines = self._layout.flush_right()
            self._lines += right_lines
            return bool(right_lines)
        part = layout.sanitize_part(part)
        lines = self._layout.lay_out(part, len(self._parts))
        # Lines with a right column belong to the part before, whose right column may be longer than its left one.
        self._starts.append(len(self._lines) + next((n for n, line in enumerate(lines) if not line.right_line), 0))
        self._lines += lines
        self._parts.append(part)
        return True
