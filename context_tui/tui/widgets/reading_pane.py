"""A pane for long texts: wrapped as far as it has been scrolled to, drawn line by line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from context_tui.sanitize import sanitize
from context_tui.tui.wrapping import wrap

AHEAD = 100
"""Lines that are wrapped beyond the visible ones, so that scrolling finds them there."""


class Part(NamedTuple):
    """A piece of text and how it is drawn: ``text``, ``heading`` or ``muted``."""

    text: str
    look: str = "text"


class ReadingPane(ScrollView, can_focus=True):
    """Text of any length. What it is given is made safe here; nothing in it is ever taken for markup."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "reading-pane--text",
        "reading-pane--heading",
        "reading-pane--muted",
    }
    DEFAULT_CSS = """
    ReadingPane {
        overflow-x: hidden;
        scrollbar-gutter: stable;
        scrollbar-size-vertical: 1;
        .reading-pane--heading { text-style: bold; color: $accent; }
        .reading-pane--muted { color: $foreground 60%; }
    }
    """
    # The inherited ones animate.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "down", show=False, id="read-down", tooltip="One line down"),
        Binding("up,k", "move(-1)", "up", show=False, id="read-up", tooltip="One line up"),
        Binding("pagedown,space", "page(1)", "page down", show=False, id="read-page-down", tooltip="One page down"),
        Binding("pageup", "page(-1)", "page up", show=False, id="read-page-up", tooltip="One page up"),
        Binding("home,g", "ends(False)", "start", show=False, id="read-start", tooltip="To the first line"),
        Binding("end,G", "ends(True)", "end", show=False, id="read-end", tooltip="To the last line"),
    ]

    def __init__(self, parts: Iterable[Part] = (), *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.given = ""
        """The plain text that is shown, as it was given."""
        self._source: Iterator[Part] = iter(parts)
        self._parts: list[Part] = []
        self._lines: list[Part] = []
        self._starts: list[int] = []  # of the parts, the line that each begins with
        self._width = 0
        self._styles: dict[str, Style] = {}

    def show(self, parts: Iterable[Part], *, follow: bool = False) -> None:
        """Show other text, from its start; with *follow*, stay at the end if the end was in sight."""
        at_end = self.scroll_offset.y >= self.max_scroll_y
        self._source, self._parts, self._lines, self._starts, self.given = iter(parts), [], [], [], ""
        self._fill()
        if follow:
            self._fill(everything=True)
            if at_end:
                self.scroll_to(y=len(self._lines), animate=False, force=True)
        else:
            self.scroll_to(y=0, animate=False, force=True)
        self.refresh()

    def show_text(self, text: str, *, follow: bool = False) -> None:
        """Show a plain text."""
        self.show([Part(text)] if text else [], follow=follow)
        self.given = text

    @property
    def shown(self) -> str:
        """The text as far as it has been wrapped."""
        return "\n".join(line.text for line in self._lines)

    def on_resize(self, event: Resize) -> None:
        """Wrap anew when the width has changed."""
        if self._content_width() != self._width:
            known, self._parts, self._lines, self._starts = self._parts, [], [], []
            rest = self._source
            self._source = (part for parts in (known, rest) for part in parts)
        self._fill()

    def watch_scroll_y(self, old: float, new: float) -> None:
        """Wrap on before the end comes into sight."""
        super().watch_scroll_y(old, new)
        self._fill()

    def notify_style_update(self) -> None:
        """Forget the colours of the old theme."""
        super().notify_style_update()
        self._styles.clear()

    def render_line(self, y: int) -> Strip:
        """One visible line."""
        width, index = self.size.width, y + self.scroll_offset.y
        if index >= len(self._lines):
            return Strip.blank(width, self.rich_style)
        line = self._lines[index]
        style = self._style(line.look)
        return Strip([Segment(line.text, style)]).adjust_cell_length(width, style)

    def action_move(self, lines: int) -> None:
        """Scroll by lines."""
        self.scroll_to(y=self.scroll_offset.y + lines, animate=False)

    def action_page(self, pages: int) -> None:
        """Scroll by pages."""
        self.scroll_to(y=self.scroll_offset.y + pages * max(self.size.height - 1, 1), animate=False)

    def action_ends(self, last: bool) -> None:
        """Scroll to the start, or to the end: then everything has to be wrapped."""
        if last:
            self._fill(everything=True)
        self.scroll_to(y=len(self._lines) if last else 0, animate=False)

    def jump(self, look: str, step: int) -> None:
        """Scroll to the next part of this look, or (``step`` -1) to the one before."""
        if step > 0:
            self._fill(everything=len(self._lines) < 50_000)
        here = self.scroll_offset.y
        # Only the first line of a part that takes several is where it starts.
        starts = [n for n, line in enumerate(self._lines) if line.look == look and not self._continues(n)]
        found = [n for n in starts if (n > here if step > 0 else n < here)]
        if found:
            self.scroll_to(y=found[0] if step > 0 else found[-1], animate=False)

    def _continues(self, line: int) -> bool:
        return line > 0 and self._lines[line - 1].look == self._lines[line].look

    def _content_width(self) -> int:
        return self.scrollable_content_region.width or self.size.width

    def _fill(self, *, everything: bool = False) -> None:
        self._width = self._content_width()
        if not self._width:
            return
        wanted = self.scroll_offset.y + self.size.height + AHEAD
        before = len(self._lines)
        while (everything or len(self._lines) < wanted) and self._take():
            pass
        size = Size(self._width, len(self._lines))
        if size != self.virtual_size or len(self._lines) != before:
            self.virtual_size = size

    def _take(self) -> bool:
        """Wrap one more part; False where there is none."""
        part = next(self._source, None)
        if part is None:
            return False
        self._parts.append(part)
        self._starts.append(len(self._lines))
        self._lines += [Part(line, part.look) for line in wrap(sanitize(part.text), self._width)]
        return True

    def _style(self, look: str) -> Style:
        style = self._styles.get(look)
        if style is None:
            # Not partial: colours with an opacity are blended with the background here.
            style = self._styles[look] = self.get_component_rich_style(f"reading-pane--{look}")
        return style
