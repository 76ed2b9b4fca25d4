"""Pane that shows the selected message in full, rendered or raw, with the matches of a search."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import ClassVar

from rich.style import Style
from textual.content import Content
from textual.geometry import Size
from textual.reactive import Reactive

from context_tui.tui.reader.document import (
    PLAIN_TEXT,
    DocumentSource,
    RenderOptions,
    TextExtent,
    build_document,
    find_first_match,
)
from context_tui.tui.rendering.highlighting import HighlightCache, HighlightedCode, compute_highlights
from context_tui.tui.rendering.layout import LayoutLine, TextPart
from context_tui.tui.search import find_all_text, find_text, get_searchable_text
from context_tui.tui.threads import ThreadJob, start_work
from context_tui.tui.timeline.rows import WHOLE_MESSAGE, Location
from context_tui.tui.widgets.bindings import read_bindings
from context_tui.tui.widgets.reading_pane import ReadingPane

_STYLE_NAMES = (
    *("quiet", "key", "added", "removed", "warning", "kept", "protected", "gone", "after"),
    *("cleared", "truncated", "summarised", "dropped", "found", "rule"),
    *("h1", "h2", "h3", "fence", "bullet", "strong", "em", "strike", "link", "code"),
    *("mark-added", "mark-removed", "mark-text", "keyword", "string", "comment", "number", "name"),
)

SIDE_BY_SIDE_WIDTH = 100
"""Minimum width in cells at which the texts before and after a change are shown side by side."""
MAX_ANCHOR_DISTANCE = 60
"""Number of lines that are searched for the line at the top after a switch between rendered and raw text."""

_WORDS_PATTERN = re.compile(r"[\w ]+")


class Detail(ReadingPane):
    """A pane that shows one message or tool result in full; its screen has the keys that close it and follow a call."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"reading-pane--{style}" for style in _STYLE_NAMES}
    BINDINGS = read_bindings("detail")

    # Overridden, so that a change updates the scroll bar without a new layout of the whole screen.
    virtual_size = Reactive(Size(0, 0))

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._subject: DocumentSource | None = None
        self._title = self._subtitle = Content()
        self._markdown: Callable[..., Iterator[TextPart]] | None = None  # None until imported
        self._highlights = HighlightCache()
        self._rendering = PLAIN_TEXT  # options of the shown document
        self._is_raw = False
        self._is_raw_here = False  # raw because only the raw text of this subject has the match
        self.needle = ""

    @property
    def location(self) -> Location | None:
        """The location of the message or result that is shown, or None if there is none."""
        return self._subject.location if self._subject else None

    def show_document(self, subject: DocumentSource, title: Content, subtitle: Content) -> None:
        """Show a document, keeping the scroll position if the same message or result was shown before."""
        old = self._subject
        if old and _is_same_document(old, subject):
            return
        self._title, self._subtitle = title, subtitle
        is_same = old is not None and old.location == subject.location and old.session.facts is subject.session.facts
        self._subject = replace(subject, extent=old.extent if is_same and old else TextExtent(needle=self.needle))
        self._is_raw_here = self._is_raw_here and is_same
        if not is_same:
            self._highlights.reset_queue()
        top = self.scroll_offset.y
        self._lay_out()
        if is_same:
            self.scroll_to(y=top, animate=False, force=True)
        else:
            self._scroll_to_needle()
        if self._markdown is None:
            self._import_markdown()

    def set_search_text(self, text: str) -> None:
        """Highlight *text* and scroll to its first occurrence; an empty text ends the search."""
        if text == self.needle:
            return
        self.needle = text
        if text:
            self._show_extent(TextExtent(needle=text))
        self.refresh()

    def _show_extent(self, extent: TextExtent) -> None:
        """Show another part of the texts; scroll to the search match or, without one, keep the scroll position."""
        if self._subject:
            top, self._subject = self.scroll_offset.y, replace(self._subject, extent=extent)
            self._is_raw_here = False
            self._lay_out()
            if not (extent.needle and self._scroll_to_needle()):
                self.scroll_to(y=top, animate=False, force=True)

    # Raw and rendered text

    @property
    def is_raw(self) -> bool:
        """Whether texts are shown as written rather than rendered."""
        return self._is_raw or self._is_raw_here

    def toggle_raw(self) -> None:
        """Switch between raw and rendered text, keeping the top line in place."""
        self._is_raw, self._is_raw_here = not self.is_raw, False
        top, lines = self.scroll_offset.y, self._lines[self.scroll_offset.y :][:MAX_ANCHOR_DISTANCE]
        self._lay_out()
        if top:
            self._scroll_to_first_of([line.text for line in lines if not line.prefix_style], top)

    def _lay_out(self) -> None:
        raw = self.is_raw and self._subject is not None
        self.border_title = self._title + Content("  as written (v)") if raw else self._title
        self.border_subtitle = self._subtitle
        if self._subject:
            self.show(self._rebuild_parts())

    def _rebuild_parts(self) -> Iterator[TextPart]:
        if self._subject is None:
            return super()._rebuild_parts()
        width = self._compute_content_width()
        rendering = RenderOptions(self._markdown, self._highlights.get_spans, width, width >= SIDE_BY_SIDE_WIDTH)
        self._rendering = PLAIN_TEXT if self.is_raw else rendering
        return build_document(self._subject, self._rendering)

    def _scroll_to_first_of(self, texts: list[str], near_line: int) -> None:
        """Scroll so that the first of *texts* that can be found keeps its row; *texts* started at line *near_line*."""
        while len(self._lines) < 2 * near_line + MAX_ANCHOR_DISTANCE and self._wrap_next_part():
            pass
        self._wrap_visible()
        for number, text in enumerate(texts):
            phrase = max(_WORDS_PATTERN.findall(text), key=len, default="")
            if len(phrase) < 4:
                continue
            if matches := [index for index, line in enumerate(self._lines) if phrase in line.text]:
                nearest = min(matches, key=lambda index: abs(index - near_line - number))
                self.scroll_to(y=nearest - number, animate=False, force=True)
                return
        self.scroll_to(y=near_line, animate=False, force=True)

    def _import_markdown(self) -> None:
        def work(_: ThreadJob) -> Callable[..., Iterator[TextPart]]:
            from context_tui.tui.rendering.markdown import render_markdown

            return render_markdown

        if not any(worker.group == "markdown" for worker in self.workers if worker.node is self):
            start_work(self, "markdown", "load the markdown renderer", work, self._set_markdown)

    def _set_markdown(self, markdown: Callable[..., Iterator[TextPart]]) -> None:
        self._markdown = markdown
        if self._subject and not self.is_raw:
            self._show_extent(self._subject.extent)

    def _wrap_visible(self, *, everything: bool = False) -> None:
        super()._wrap_visible(everything=everything)
        if code_texts := self._highlights.pop_queue():
            work = partial(compute_highlights, code_texts)
            start_work(self, "highlights", "highlight code", work, self._store_highlights)

    def _store_highlights(self, highlighted_code: list[HighlightedCode]) -> None:
        self._highlights.store(highlighted_code)
        if self._subject and not self.is_raw:
            self.recolour(build_document(self._subject, self._rendering))
            self._wrap_visible()  # requests the code not yet highlighted

    # Search

    def _scroll_to_needle(self) -> bool:
        line = -1
        if self._subject and self.needle and self._contains_needle(self._subject):
            line = self._find_needle_line()
            if line < 0 and not self.is_raw:  # rendering has removed the match
                self._is_raw_here = True
                self._lay_out()
                line = self._find_needle_line()
        while line >= 0 and len(self._lines) < line + self.size.height and self._wrap_next_part():
            pass  # until there are enough lines to scroll the match to the top
        self._wrap_visible()
        if line >= 0:
            self.scroll_to(y=max(line - 2, 0), animate=False, force=True)
        return line >= 0

    def _contains_needle(self, subject: DocumentSource) -> bool:
        selected = subject.location.block
        blocks = zip(subject.rows, subject.blocks, strict=False)
        forms = (self.needle, json.dumps(self.needle, ensure_ascii=False)[1:-1])  # escaped as in the JSON of a call
        texts = (get_searchable_text(block) for row, block in blocks if selected in (WHOLE_MESSAGE, row))
        return any(find_text(text, form) >= 0 for text in texts for form in forms)

    def _find_needle_line(self) -> int:
        match = find_first_match(self._wrap_remaining_parts(), self.needle)
        if match is None:
            return -1
        number, place = match
        lines = self._lines[self._starts[number] : [*self._starts, len(self._lines)][number + 1]]
        return self._starts[number] + max(sum(line.start <= place for line in lines) - 1, 0)

    def _wrap_remaining_parts(self) -> Iterator[TextPart]:
        number = 0
        while number < len(self._parts) or self._wrap_next_part():
            yield self._parts[number]
            number += 1

    def find_overlays(self, index: int) -> Iterator[tuple[int, int, Style]]:
        """Yield (start, stop, style) for each search match and for the selection in the drawn line *index*."""
        if self.needle and index < len(self._lines):
            style = self.get_component_rich_style("reading-pane--found")
            overlay = Style(bgcolor=style.bgcolor, reverse=style.reverse)
            yield from ((first, stop, overlay) for first, stop in self._find_needle_spans(index))
        yield from super().find_overlays(index)

    def _find_needle_spans(self, index: int) -> list[tuple[int, int]]:
        line: LayoutLine = self._lines[index]
        text, length, offset = self._parts[line.part_number].text, len(self.needle), len(line.prefix) - line.start
        search_start = max(line.start - length + 1, 0)  # a match may begin on the line before
        matches = find_all_text(text[search_start : line.stop + length - 1], self.needle)
        starts = [search_start + match for match in matches]
        spans = [(max(start, line.start), min(start + length, line.stop)) for start in starts]
        return [(offset + first, offset + stop) for first, stop in spans if first < stop]

    def show_loading(self, title: Content, text: str) -> None:
        """Show *text* in place of a message that is still being read."""
        self._subject = None
        self._title, self._subtitle = title, Content()
        self._lay_out()
        self.show([TextPart(text, "muted")])

    def watch_virtual_size(self, size: Size) -> None:
        self._scroll_update(size)

    def action_show_more(self) -> None:
        if self._subject:
            extent = self._subject.extent
            self._show_extent(extent._replace(limit=extent.limit * 10))

    def action_move_to_end(self, last: bool) -> None:
        """Scroll to the end if *last* is true, else to the start, even if a search has left the start out."""
        if not last and self._subject and self._subject.extent.needle:
            self._show_extent(self._subject.extent._replace(needle=""))
        super().action_move_to_end(last)


def _is_same_document(old: DocumentSource, new: DocumentSource) -> bool:
    names = ("session", "location", "mark", "runtime_sizes_note", "events")
    return old.blocks is new.blocks and all(getattr(old, name) == getattr(new, name) for name in names)
