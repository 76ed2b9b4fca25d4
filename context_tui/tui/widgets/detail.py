"""The selected message in full: a reading pane with looks for diffs, fates and headings."""

from __future__ import annotations

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

from context_tui.tui.document import Subject, pieces
from context_tui.tui.view import Location
from context_tui.tui.widgets.reading_pane import Part, ReadingPane

_LOOKS = (
    *("quiet", "key", "added", "removed", "warning", "kept", "protected", "gone", "after"),
    *("cleared", "truncated", "summarised", "dropped", "found", "rule"),
)


class Detail(ReadingPane):
    """Shows one subject. It is told what to show, and tells what is wanted next."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"reading-pane--{look}" for look in _LOOKS}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "enter", "Call / result", show=False, id="detail-enter", tooltip="From a call to its result"),
        Binding("o", "more", "Show more", show=False, id="detail-more", tooltip="Show more of a long text"),
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
            subject = replace(subject, limit=old.limit)
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
        self._go_to_needle()
        self.refresh()

    def _go_to_needle(self) -> None:
        if not self.needle:
            return
        self._fill(everything=True)
        for number, each in enumerate(self._lines):
            if _places(each.text, self.needle):
                self.scroll_to(y=max(number - 2, 0), animate=False, force=True)
                return

    def render_line(self, y: int) -> Strip:
        """One line, with what is looked for marked in it."""
        strip, index = super().render_line(y), y + self.scroll_offset.y
        if not self.needle or index >= len(self._lines):
            return strip
        text = self._lines[index].text
        found = self.get_component_rich_style("reading-pane--found")
        over = Style(bgcolor=found.bgcolor, reverse=found.reverse)
        for place in _places(text, self.needle):
            start = cell_len(text[:place])
            end = start + cell_len(text[place : place + len(self.needle)])
            marked = Strip([Segment(s.text, (s.style or Style()) + over) for s in strip.crop(start, end)])
            strip = Strip.join([strip.crop(0, start), marked, strip.crop(end, strip.cell_length)])
        return strip

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
            top = self.scroll_offset.y
            self._subject = replace(self._subject, limit=self._subject.limit * 10)
            self.show(pieces(self._subject))
            self.scroll_to(y=top, animate=False, force=True)

    def action_enter(self) -> None:
        """Go to the other half of the call."""
        if self._subject:
            self.post_message(self.Entered(self._subject.location))

    def action_close(self) -> None:
        """Go back to the timeline."""
        self.post_message(self.Closed())


def _places(text: str, needle: str) -> list[int]:
    """Where *needle* stands in a line; capitals count when it has any."""
    if needle == needle.lower():
        text = text.lower()
    found, at = [], text.find(needle)
    while at >= 0:
        found.append(at)
        at = text.find(needle, at + len(needle))
    return found


def _same(old: Subject, new: Subject) -> bool:
    before, after = ((each.session, each.location, each.mark, each.belief, each.events) for each in (old, new))
    return before == after and old.blocks is new.blocks
