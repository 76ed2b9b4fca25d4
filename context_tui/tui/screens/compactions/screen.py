"""A recorded compaction before and after: both sides in one timeline, and the summary beside what it stands for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Static
from textual.worker import Worker

from context_tui.compaction.recorded import RecordedCompaction, find_recorded_compactions
from context_tui.lab.regret.index import build_use_index
from context_tui.lab.regret.returns import ReusedBlock, find_reused_blocks
from context_tui.session.session import Session
from context_tui.text.sanitize import make_visible
from context_tui.tui.controller import Controller
from context_tui.tui.parts import TextPart, pair_columns
from context_tui.tui.screens.compactions import sides as told
from context_tui.tui.screens.compactions.sides import Sides
from context_tui.tui.screens.help import HelpScreen
from context_tui.tui.text import MessageReader, format_block, pluralize
from context_tui.tui.threads import ThreadJob, format_worker_error, start_work
from context_tui.tui.view import Location
from context_tui.tui.widgets.draw import MUTED, Run
from context_tui.tui.widgets.drawn import Drawn
from context_tui.tui.widgets.footer import KeyFooter
from context_tui.tui.widgets.reading_pane import ReadingPane

Command = Callable[[], str]
SHOWN = 20_000
"""Characters of a message that are shown; the inspector has the rest."""
NOTES = (
    "Before is the context of the last request before the compaction, after that of the first one behind it; both are "
    "in one list, in the order of the session.",
    "Used later: the first message that fetches again, edits or names what was lost; where the context still told it "
    "(the summary, say), it is muted. Sizes are estimates (bytes / 4) unless called recorded.",
)


@dataclass
class Known(Message):
    """The compactions are known."""

    found: Sequence[RecordedCompaction]


@dataclass
class Returned(Message):
    """It is known what was used later, by compaction."""

    back: Sequence[Sequence[ReusedBlock]]


class RowsView(Drawn, can_focus=True):
    """The rows of both sides; a click selects one, the wheel moves the cursor."""

    BINDING_GROUP_TITLE = "Both sides"

    @dataclass
    class Clicked(Message):
        """A line, counted from the first in sight."""

        line: int

    def on_click(self, event: events.Click) -> None:
        """Hand on the line."""
        self.post_message(self.Clicked(event.y - self.gutter.top))

    def on_mouse_scroll_down(self, _: events.MouseScrollDown) -> None:
        """Three rows on."""
        self.post_message(self.Wheeled(3))

    def on_mouse_scroll_up(self, _: events.MouseScrollUp) -> None:
        """Three rows back."""
        self.post_message(self.Wheeled(-3))

    @dataclass
    class Wheeled(Message):
        """The wheel was turned by so many rows."""

        step: int


def _key(keys: str, action: str, description: str, name: str, tooltip: str, display: str | None = None) -> Binding:
    shown = display is not None
    return Binding(keys, action, description, show=shown, key_display=display, id=f"cuts-{name}", tooltip=tooltip)


class CompactionsScreen(Screen[Command | None]):
    """The compactions of a recording, one at a time."""

    CSS_PATH = "compactions.tcss"
    AUTO_FOCUS = "RowsView"
    BINDING_GROUP_TITLE = "Before and after"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-low"), (32, "-high")]
    BINDINGS: ClassVar[list[BindingType]] = [
        _key("question_mark,f1", "help", "help", "help", "List all keys", "?"),
        _key(
            "left_square_bracket,left_parenthesis,p",
            "other(-1)",
            "compaction",
            "previous",
            "Go to the compaction before",
            "[]",
        ),
        _key(
            "right_square_bracket,right_parenthesis,n",
            "other(1)",
            "Next compaction",
            "next",
            "Go to the next compaction",
        ),
        _key("up,k", "move(-1)", "row", "up", "The row above", "↑↓"),
        _key("down,j", "move(1)", "Row below", "down", "The row below"),
        _key("u", "returned(1)", "used later", "used-next", "Go to the next lost message that was used later", "u"),
        _key("U", "returned(-1)", "Previous used later", "used-previous", "Go to the previous one"),
        _key("enter", "inspect", "inspect", "inspect", "Go there in the inspector, as of this compaction", "enter"),
        _key("g", "use", "its use", "use", "Go to the later use in the inspector"),
        _key("escape,q", "leave", "back", "back", "Back to the inspector", "esc"),
        _key("pageup", "move(-20)", "Page up", "page-up", "Twenty rows up"),
        _key("pagedown", "move(20)", "Page down", "page-down", "Twenty rows down"),
        _key("home", "move(-1000000000)", "First row", "first", "The first row"),
        _key("end", "move(1000000000)", "Last row", "last", "The last row"),
        _key("tab", "app.focus_next", "pane", "pane", "Go to the text, or back to the rows", "tab"),
        _key("shift+tab", "app.focus_previous", "Previous pane", "pane-previous", "Go to the pane before"),
    ]

    def __init__(self, controller: Controller, session: Session) -> None:
        super().__init__()
        self.controller, self.session = controller, session
        self.reader = MessageReader(session)
        self.all: list[Sides] = []
        self.shown = 0
        self._read: tuple[int, int] | None = None
        self._later: list[Callable[[], object]] = []

    @property
    def sides(self) -> Sides:
        """The compaction that is shown."""
        return self.all[self.shown]

    def compose(self) -> ComposeResult:
        """Header, what it came to, categories beside the rows, text, footer."""
        plain = self.controller.options.ascii
        yield Drawn(self._header, ascii=plain, id="cuts-header")
        yield Drawn(self._words, ascii=plain, id="cuts-words")
        with Horizontal(id="cuts-top"):
            with Vertical(id="cuts-both"):
                yield Drawn(lambda width, _: [told.heads(width)], ascii=plain, id="cuts-heads")
                yield RowsView(self._rows, ascii=plain, id="cuts-rows")
            yield Drawn(self._categories, ascii=plain, id="cuts-categories")
        yield ReadingPane(id="cuts-text")
        yield KeyFooter()
        yield Static("context-tui needs 60 columns and 20 lines; enlarge the terminal", id="cuts-tiny", markup=False)

    def _header(self, width: int, _: int) -> list[list[Run]]:
        return [told.header(self.sides, width)] if self.all else [[("Before and after", "bold")]]

    def _words(self, width: int, _: int) -> list[list[Run]]:
        return told.words(self.sides, width) if self.all else [[("reading the compactions…", MUTED)]]

    def _rows(self, width: int, height: int) -> list[list[Run]]:
        return told.rows(self.sides, self.reader.format_preview, width, height) if self.all else []

    def _categories(self, width: int, _: int) -> list[list[Run]]:
        return told.categories(self.sides, width) if self.all else []

    def on_mount(self) -> None:
        """Find the compactions, then what was used later."""

        def work(job: ThreadJob) -> None:
            found = find_recorded_compactions(self.session)
            self.post_message(Known(found))
            uses = build_use_index(self.session, job.checkpoint)
            self.post_message(Returned([find_reused_blocks(each, uses) for each in found]))

        start_work(self, "compactions", "read the compactions", work)

    def on_resize(self, event: events.Resize) -> None:
        """Say so where there is too little room."""
        self.set_class(event.size.width < 60 or event.size.height < 20, "-tiny")
        self._read = None
        self.call_after_refresh(self.draw)

    @on(Known)
    def _known(self, event: Known) -> None:
        count = len(event.found)
        self.all = [Sides(each, number, count) for number, each in enumerate(event.found)]
        here = self.controller.view.cursor.message
        self.shown = max((number for number, each in enumerate(event.found) if each.message <= here), default=0)
        later, self._later = self._later, []
        for act in later:
            act()
        self.draw()

    @on(Returned)
    def _returned(self, event: Returned) -> None:
        for each, back in zip(self.all, event.back, strict=True):
            each.tell(back)
        self.draw()

    @on(Worker.StateChanged)
    def _worker_failed(self, event: Worker.StateChanged) -> None:
        if words := format_worker_error(event):
            self.say(words, warn=True)

    def draw(self) -> None:
        """Draw what there is."""
        words = self.query_one("#cuts-words")
        words.styles.height = len(self._words(words.content_size.width or self.size.width - 2, 0))
        for each in self.query(Drawn):
            each.refresh()
        if self.all and self._read != (self.shown, self.sides.at):
            self._read = (self.shown, self.sides.at)
            self.query_one(ReadingPane).show(self._text())

    def _text(self) -> Iterator[TextPart]:
        """The message under the cursor, and beside it the summary that stands for it."""
        sides, summary = self.sides, self.sides.found.summary_message
        if sides.message < 0:
            return iter([TextPart("The context before it is not in the file.", "muted")])
        own = self._parts(sides.message)
        if summary is None or summary == sides.message:
            return own
        if self.size.width >= 100:
            return pair_columns(own, self._parts(summary))
        return (each for parts in (own, self._parts(summary)) for each in parts)

    def _parts(self, message: int) -> Iterator[TextPart]:
        facts, sides = self.session.facts, self.sides
        lost = set(sides.found.removed_blocks)
        yield TextPart(
            f"#{message:,} " + " ".join(told.what(facts, message, self.reader.format_preview))[:200], "heading"
        )
        for back in sides.returned.get(message, ()):
            had = ", ".join(f"#{facts.block_message[row]:,}" for row in back.row_copies)
            where = f", which the context still told in {had}" if had else ""
            yield TextPart(f"used at #{back.use.message:,} ({back.use.tier}){where}: {back.use.evidence}", "muted")
        if self.reader.is_huge(message):
            yield TextPart("(a large message; press enter to read it in the inspector)", "muted")
            return
        for row, block in zip(facts.blocks_of(message), self.reader.read_blocks(message), strict=False):
            if row in lost:
                yield TextPart(f"lost, {sides.found.count_block_tokens(row):,} est. tokens", "muted")
            text = format_block(block)
            more = f"\n… {len(text) - SHOWN:,} more characters" if len(text) > SHOWN else ""
            yield TextPart(text[:SHOWN] + more + "\n")

    def say(self, text: str, *, warn: bool = False) -> None:
        """Notify in passing."""
        self.app.clear_notifications()
        self.notify(make_visible(text), severity="warning" if warn else "information", markup=False, timeout=4)

    # Keys

    def _once_known(self, act: Callable[[], object]) -> None:
        """Do something now, or as soon as the compactions are known."""
        if self.all:
            act()
            self.draw()
        else:
            self._later.append(act)

    def action_help(self) -> None:
        """List all keys."""
        self.app.push_screen(HelpScreen([self, self.query_one(ReadingPane)], notes=NOTES))

    def action_move(self, step: int) -> None:
        """Move the cursor."""
        self._once_known(lambda: self.sides.move(step))

    def action_other(self, step: int) -> None:
        """Go to another compaction."""
        self._once_known(partial(self._other, step))

    def _other(self, step: int) -> None:
        number = self.shown + step
        if 0 <= number < len(self.all):
            self.shown = number
        else:
            self.say(f"There {'is' if len(self.all) == 1 else 'are'} {pluralize(len(self.all), 'compaction')}")

    def action_returned(self, step: int) -> None:
        """Go to a lost message that was used later."""
        self._once_known(partial(self._to_returned, step))

    def _to_returned(self, step: int) -> None:
        if not self.sides.known:
            self.say("Still looking for what was used later")
        elif not self.sides.to_returned(step):
            self.say("Nothing of what this compaction took was used later, as far as the recording shows")

    @on(RowsView.Clicked)
    def _clicked(self, event: RowsView.Clicked) -> None:
        if self.all:
            height = self.query_one(RowsView).content_size.height
            top = min(max(self.sides.at - height // 2, 0), max(len(self.sides.rows) - height, 0))
            if 0 <= event.line < min(height, len(self.sides.rows)):
                self.sides.at = top + event.line
                self.draw()

    @on(RowsView.Wheeled)
    def _wheeled(self, event: RowsView.Wheeled) -> None:
        self.action_move(event.step)

    def action_inspect(self) -> None:
        """Close, and select the message in the inspector as of the compaction."""
        self._once_known(lambda: self._close(self.sides.message, self.sides.found.message))

    def action_use(self) -> None:
        """Close, and select the later use of the message under the cursor."""
        self._once_known(self._to_use)

    def _to_use(self) -> None:
        back = self.sides.returned.get(self.sides.message)
        if not back:
            self.say("This message was not used later, as far as the recording shows")
        else:
            self._close(back[0].use.message, back[0].use.message)

    def _close(self, message: int, at: int) -> None:
        def go() -> str:
            if at:
                self.controller.plan_before(at)
            return self.controller.select_location(Location(message, -1)) if message >= 0 else ""

        self.dismiss(go)

    def action_leave(self) -> None:
        """Back to the inspector."""
        self.dismiss(None)
