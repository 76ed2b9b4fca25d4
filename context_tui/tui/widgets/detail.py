"""The selected message in full: a reading pane with looks for diffs, fates and headings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from rich.style import Style
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message

from context_tui.tui.document import Subject, pieces
from context_tui.tui.screens.reading import Part, ReadingPane
from context_tui.tui.view import Spot

_LOOKS = (
    *("quiet", "key", "added", "removed", "warning", "kept", "protected", "gone", "after"),
    *("cleared", "truncated", "summarised", "dropped"),
)


class Detail(ReadingPane):
    """Shows one subject. It is told what to show, and tells what is wanted next."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"reading-pane--{look}" for look in _LOOKS}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "enter", "Call / result", show=False, id="detail-enter", tooltip="From a call to its result"),
        Binding("o", "more", "Show more", show=False, id="detail-more", tooltip="Show more of a long text"),
        Binding("left", "screen.value(-1)", "Lower value", show=False, id="detail-less", tooltip="Lower the setting"),
        Binding("right", "screen.value(1)", "Raise value", show=False, id="detail-more-value", tooltip="Raise it"),
        Binding("escape", "close", "Back", show=False, id="detail-close", tooltip="Back to the timeline"),
    ]

    @dataclass
    class Entered(Message):
        """Enter was pressed: from a call to its result, or back."""

        spot: Spot

    class Closed(Message):
        """The timeline is wanted again."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._subject: Subject | None = None

    @property
    def spot(self) -> Spot | None:
        """What is shown."""
        return self._subject.spot if self._subject else None

    def read(self, subject: Subject, title: Content, subtitle: Content) -> None:
        """Show a subject; the place in it is kept where only its fate has changed."""
        old = self._subject
        self.border_title, self.border_subtitle = title, subtitle
        if old and _same(old, subject):
            return
        stays = old is not None and old.spot == subject.spot and old.session is subject.session
        if stays and old is not None:
            subject = replace(subject, limit=old.limit)
        self._subject = subject
        top = self.scroll_offset.y
        self.show(pieces(subject))
        if stays:
            self.scroll_to(y=top, animate=False, force=True)

    def wait(self, title: Content, what: str) -> None:
        """Say that something is being read."""
        self._subject = None
        self.border_title, self.border_subtitle = title, None
        self.show([Part(what, "muted")])

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
            self.post_message(self.Entered(self._subject.spot))

    def action_close(self) -> None:
        """Go back to the timeline."""
        self.post_message(self.Closed())

    def _style(self, look: str) -> Style:
        style = self._styles.get(look)
        if style is None:  # not partial: colours with an opacity are blended with the background here
            style = self._styles[look] = self.get_component_rich_style(f"reading-pane--{look}")
        return style


def _same(old: Subject, new: Subject) -> bool:
    return (old.session, old.spot, old.mark) == (new.session, new.spot, new.mark) and old.blocks is new.blocks
