"""The selected message in full: a reading pane with looks for diffs, fates and headings."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.reactive import Reactive
from textual.strip import Strip

from context_tui.sanitize import sanitize
from context_tui.tui.document import CHUNK, Extent, Subject, pieces
from context_tui.tui.finding import find, places
from context_tui.tui.view import Location
from context_tui.tui.widgets.reading_pane import Part, ReadingPane

_LOOKS = (
    *("quiet", "key", "added", "removed", "warning", "kept", "protected", "gone", "after"),
    *("cleared", "truncated", "summarised", "dropped", "found", "rule"),
)

_OF_THE_SESSION = frozenset({"text", "quiet", "key", "added", "removed", "heading"})
"""The looks of what is searched; other lines say something about it."""


class Detail(ReadingPane):
    """Shows one subject. It is told what to show, and tells what is wanted next."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"reading-pane--{look}" for look in _LOOKS}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "enter", "Call / result", show=False, id="detail-enter", tooltip="From a call to its result"),
        Binding("x", "more", "Show more", show=False, id="detail-more", tooltip="Show more of a long text"),
        Binding("left", "screen.value(-1)", "Lower value", show=False, id="detail-less", tooltip="Lower the parameter"),
        Binding(
            "right", "screen.value(1)", "Raise value", show=False, id="detail-more-value", tooltip="Raise the parameter"
        ),
        Binding("escape", "close", "Back", show=False, id="detail-close", tooltip="Back to the timeline"),
    ]

    # Other lines need another scroll bar, but no new layout of the whole screen.
    virtual_size = Reactive(Size(0, 0))

    @dataclass
    class Entered(Message):
        """Enter was pressed: from a call to its result, or back."""

        location: Location

    class Closed(Message):
        """The timeline is wanted again."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._subject: Subject | None = None
        self.needle = ""

    @property
    def location(self) -> Location | None:
        """What is shown."""
        return self._subject.location if self._subject else None

    def read(self, subject: Subject, title: Content, subtitle: Content) -> None:
        """Show a subject; the place in it is kept where only its fate has changed."""
        old = self._subject
        if old and _same(old, subject):
            return
        self.border_title, self.border_subtitle = title, subtitle
        stays = old is not None and old.location == subject.location and old.session is subject.session
        if stays and old is not None:
            subject = replace(subject, extent=old.extent)
        else:
            subject = replace(subject, extent=Extent(needle=self.needle))
        self._subject = subject
        top = self.scroll_offset.y
        self.show(pieces(subject))
        if stays:
            self.scroll_to(y=top, animate=False, force=True)
        else:
            self._go_to_needle()

    def seek(self, text: str) -> None:
        """Show where *text* stands, and the first place where it does; nothing shows it no more."""
        if text == self.needle:
            return
        self.needle = text
        if text:
            self._open(Extent(needle=text))
        self.refresh()

    def _open(self, extent: Extent) -> None:
        """Show another extent of the subject, at what is looked for where it stands there, else where it was."""
        if self._subject:
            top, self._subject = self.scroll_offset.y, replace(self._subject, extent=extent)
            self.show(pieces(self._subject))
            if not (extent.needle and self._go_to_needle()):
                self.scroll_to(y=top, animate=False, force=True)

    def _go_to_needle(self) -> bool:
        """Scroll to the first place of what is looked for; whether there is one in what is shown."""
        line = self._line_of_needle() if self.needle else -1
        self._fill()
        if line >= 0:
            self.scroll_to(y=max(line - 2, 0), animate=False, force=True)
        return line >= 0

    def _line_of_needle(self) -> int:
        """The first line with what is looked for, or where it begins when it goes on in the next one; else -1."""
        number, before = 0, ""
        while number < len(self._parts) or self._take():
            text = before + sanitize(self._parts[number].text)
            place = find(text, self.needle) if self._parts[number].look in _OF_THE_SESSION else -1
            if place >= 0:
                start, stop = self._starts[number - bool(before)], [*self._starts, len(self._lines)][number + 1]
                return _line_at(self._lines[start:stop], text, place) + start
            # What has no line breaks comes in chunks: it may begin in one and end in the next.
            before = text[len(before) :] if len(self._parts[number].text) == CHUNK else ""
            number += 1
        return -1

    def render_line(self, y: int) -> Strip:
        """One line, with what is looked for marked in it."""
        strip, index = super().render_line(y), y + self.scroll_offset.y
        if not self.needle or index >= len(self._lines):
            return strip
        text = self._lines[index].text
        found = self.get_component_rich_style("reading-pane--found")
        over = Style(bgcolor=found.bgcolor, reverse=found.reverse)
        for first, stop in self._found_in(index):
            start, end = cell_len(text[:first]), cell_len(text[:stop])
            marked = Strip([Segment(s.text, (s.style or Style()) + over) for s in strip.crop(start, end)])
            strip = Strip.join([strip.crop(0, start), marked, strip.crop(end, strip.cell_length)])
        return strip

    def _found_in(self, line: int) -> list[tuple[int, int]]:
        """From where to where a line holds what is looked for, or a part of it that was wrapped."""
        text, long = self._lines[line].text, len(self.needle)
        spans = [(place, place + long) for place in places(text, self.needle)]
        for above, here in ((line - 1, line), (line, line + 1)):
            if not self._goes_on(above):
                continue
            head, tail = self._lines[above].text, self._lines[here].text[: long - 1]
            for gap in ("", " "):  # a blank at which a line is broken is not drawn
                edge = max(len(head) - long + 1, 0)
                for place in places(head[edge:] + gap + tail, self.needle):
                    first, stop = edge + place, edge + place + long - len(head) - len(gap)
                    if first < len(head) and stop > 0:
                        spans.append((first, len(head)) if above == line else (0, stop))
        return spans

    def _goes_on(self, line: int) -> bool:
        """Whether a line is wrapped, so that the next one goes on with it."""
        following = bisect_left(self._starts, line + 1)
        starts = following < len(self._starts) and self._starts[following] == line + 1
        return 0 <= line < len(self._lines) - 1 and not starts

    def wait(self, title: Content, what: str) -> None:
        """Say that something is being read."""
        self._subject = None
        self.border_title, self.border_subtitle = title, None
        self.show([Part(what, "muted")])

    def watch_virtual_size(self, size: Size) -> None:
        """Fit the scroll bar to the lines."""
        self._scroll_update(size)

    def action_more(self) -> None:
        """Show ten times as much of each long text."""
        if self._subject:
            extent = self._subject.extent
            self._open(extent._replace(limit=extent.limit * 10))

    def action_ends(self, last: bool) -> None:
        """Scroll to the start of the text, also where it was opened further on, or to the end of what is shown."""
        if not last and self._subject and self._subject.extent.needle:
            self._open(self._subject.extent._replace(needle=""))
        super().action_ends(last)

    def action_enter(self) -> None:
        """Go to the other half of the call."""
        if self._subject:
            self.post_message(self.Entered(self._subject.location))

    def action_close(self) -> None:
        """Go back to the timeline."""
        self.post_message(self.Closed())


def _line_at(lines: Sequence[Part], text: str, place: int) -> int:
    """Which of the lines that a text was broken into holds this place of it."""
    end = 0
    for number, each in enumerate(lines):
        end = max(text.find(each.text, end), end) + len(each.text)
        if place < end:
            return number
    return max(len(lines) - 1, 0)


def _same(old: Subject, new: Subject) -> bool:
    before, after = ((each.session, each.location, each.mark, each.belief, each.events) for each in (old, new))
    return before == after and old.blocks is new.blocks
