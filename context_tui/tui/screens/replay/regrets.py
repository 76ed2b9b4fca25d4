"""What a policy dropped and the recorded run used later, case by case: the dropped block beside the later use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget
from textual.worker import Worker

from context_tui.lab.study import Study
from context_tui.text.sanitize import make_visible
from context_tui.tui.controller import Controller
from context_tui.tui.document import DocumentSource
from context_tui.tui.marks import NO_MARK
from context_tui.tui.screens.replay import used_later
from context_tui.tui.screens.replay.comparison import Comparison
from context_tui.tui.screens.replay.used_later import Shown, Side
from context_tui.tui.text import format_row_kind
from context_tui.tui.threads import ThreadJob, format_worker_error, start_work
from context_tui.tui.widgets.detail import Detail
from context_tui.tui.widgets.draw import BOLD, HUE, MUTED, Run, short_words, spread
from context_tui.tui.widgets.drawn import Drawn
from context_tui.tui.widgets.footer import KeyFooter

Command = Callable[[], str]
"""What the inspector is to do when the screen was closed: it returns what to say."""

SIDES = ("dropped", "used")


@dataclass
class Read(Message):
    """A large message was read."""

    message: int


class CaseList(Drawn, can_focus=True):
    """The cases: a click selects one."""

    BINDING_GROUP_TITLE = "Cases"

    @dataclass
    class Clicked(Message):
        """A line of the list, counted from its head."""

        line: int

    def on_click(self, event: events.Click) -> None:
        """Hand on the line."""
        self.post_message(self.Clicked(event.y - self.gutter.top))

    def on_focus(self) -> None:
        """It is drawn where the keys go."""
        self.refresh()


class RegretsScreen(Screen[Command | None]):
    """One case at a time. What is pressed before the regrets are known is done when they are."""

    CSS_PATH = "regrets.tcss"
    AUTO_FOCUS = "CaseList"
    BINDING_GROUP_TITLE = "Used later"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-low"), (36, "-high")]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "case(1)", "next", key_display="n/p", id="regrets-next", tooltip="Next case"),
        Binding("p,N", "case(-1)", "Previous case", show=False, id="regrets-previous", tooltip="Previous case"),
        Binding("down,j", "case(1)", "Next case", show=False, id="regrets-down", tooltip="Next case"),
        Binding("up,k", "case(-1)", "Previous case", show=False, id="regrets-up", tooltip="Previous case"),
        Binding("tab", "side(0)", "other side", key_display="tab", id="regrets-side", tooltip="Go to the other side"),
        Binding("left", "side(-1)", "Dropped", show=False, id="regrets-dropped", tooltip="Go to the dropped block"),
        Binding("right", "side(1)", "Used", show=False, id="regrets-used", tooltip="Go to the later use"),
        Binding("shift+tab", "cases", "Cases", show=False, id="regrets-cases", tooltip="Go to the list of cases"),
        Binding("f", "scope", "this firing/all", id="regrets-scope", tooltip="Cases of this firing, or of all"),
        Binding("enter", "inspect", "inspect", key_display="enter", id="regrets-inspect", tooltip="Go to that message"),
        Binding("v", "raw", "raw", id="regrets-raw", tooltip="As it was written, or rendered"),
        Binding("escape", "dismiss", "back", key_display="esc", id="regrets-close", tooltip="Back"),
        Binding("q,u", "dismiss", "Back", show=False, id="regrets-leave", tooltip="Back"),
    ]

    def __init__(self, controller: Controller, comparison: Comparison, *, everywhere: bool = False) -> None:
        """The regrets of the selected policy: of the firing under the cursor, or *everywhere*."""
        super().__init__()
        self.controller, self.comparison = controller, comparison
        here = bool(comparison.firings_at(comparison.call)) and not everywhere
        self.call = comparison.call if here else None
        self.found: Shown | None = None
        self.at = 0
        self.side = "dropped"
        self._later: list[Callable[[], object]] = []

    # What is seen

    def compose(self) -> ComposeResult:
        """How much, the cases, the selected one in words, its two sides."""
        plain = self.controller.options.ascii
        yield Drawn(self._head, ascii=plain, id="regrets-head")
        yield CaseList(self._list, ascii=plain, id="regrets-list")
        yield Drawn(self._evidence, ascii=plain, id="regrets-evidence")
        with Container(id="regrets-sides"):
            for side in SIDES:
                yield Detail(id=f"regrets-{side}")
        yield KeyFooter()

    def on_mount(self) -> None:
        """Show what is known by now, once there are lines to show it in."""
        self.call_after_refresh(self.take)

    def take(self) -> None:
        """Show the regrets as soon as they are known, and do what was pressed before."""
        study = self._study
        if self.found is None and study is not None:
            self.found = used_later.shown(study, self.call)
            if not self.found.numbers and self.call is not None:
                self.call, self.found = None, used_later.shown(study)
        self.draw()
        if self.found is not None:
            later, self._later = self._later, []
            for act in later:
                act()

    @property
    def _study(self) -> Study | None:
        """The regrets of the selected policy as it is set now, once they are known."""
        comparison = self.comparison
        return comparison.lane.made.study if comparison.lane.made and not comparison.waits else None

    def draw(self) -> None:
        """Draw everything."""
        found = self.found
        self.query_one("#regrets-list").styles.height = self._lines
        for part in ("#regrets-head", "#regrets-list", "#regrets-evidence"):
            self.query_one(part).refresh()
        self.set_class(found is None or not found.numbers, "-nothing")
        self.set_class(self.side == "used", "-used")
        if found is not None and found.numbers:
            self._read("dropped", used_later.dropped_side(found, self.at))
            self._read("used", used_later.used_side(found, self.at))
            self.call_after_refresh(self._seek_again)  # the two sides may have another size by then

    @property
    def _lines(self) -> int:
        """Lines of the list with border and head: those it needs, as far as the two sides leave room."""
        count = len(self.found.numbers) if self.found else 0
        return 2 + min(count, max(self.size.height // 5, 3))

    def on_resize(self) -> None:
        """The list takes as many lines as there is room for; the evidence stays in sight."""
        self.query_one("#regrets-list").styles.height = self._lines
        self.call_after_refresh(self._seek_again)

    def _seek_again(self) -> None:
        """Scroll both sides to the evidence: in another width it is on another line, on a hidden side on none."""
        for detail in self.query(Detail):
            needle, detail.needle = detail.needle, ""
            detail.seek(needle)

    def _turn_to(self, side: str) -> None:
        """Go to one of the two sides."""
        self.side = side
        self.set_class(side == "used", "-used")
        if not self.query_one(f"#regrets-{side}").size:
            self.call_after_refresh(self._seek_again)

    def _head(self, width: int, _: int) -> list[list[Run]]:
        label = short_words(self.comparison.lane.label, max(width - 30, 12))
        found = self.found
        if found is None:
            trouble = self.comparison.lane.trouble
            words = trouble or "Looking for what was used later…"
            return [[("Used later", f"{BOLD} {HUE}"), (f"  {label}", BOLD)], [(short_words(words, width), MUTED)]]
        if self.call is None:
            which = "all firings"
        else:
            which = f"dropped before #{found.study.replay.calls[self.call].message:,}"
        count = f"case {self.at + 1:,} of {len(found.numbers):,}, " if found.numbers else ""
        title = spread([(9, ("Used later", f"{BOLD} {HUE}")), (8, (label, BOLD))], [(count + which, MUTED)], width)
        call = found.firing(self.at)[1].call if found.numbers else self.comparison.call
        bound = used_later.bound_words(found, call, width)
        return [title, used_later.summary(found, width), bound]

    def _list(self, width: int, height: int) -> list[list[Run]]:
        found = self.found
        if found is None:
            return []
        if not found.numbers:
            return [[(short_words(used_later.nothing(found), width), MUTED)]]
        return used_later.table(found, self.at, width, height)

    def _evidence(self, width: int, _: int) -> list[list[Run]]:
        return used_later.evidence(self.found, self.at, width) if self.found and self.found.numbers else []

    def _read(self, name: str, side: Side) -> None:
        """Show one side, at the evidence."""
        found, reader, used = self.found, self.controller.reader, name == "used"
        if found is None:
            return
        detail, session, message = self.query_one(f"#regrets-{name}", Detail), self.comparison.session, side.location[0]
        word = format_row_kind(session.facts, *side.location)
        large = reader.is_huge(message) and not reader.is_cached(message)
        preview = "" if large else reader.format_preview(*side.location)
        title = used_later.side_title(found, self.at, f"{word} {preview}", used=used)
        if large:
            detail.wait(Content(title), "reading the message…")
            start_work(self, f"read-{name}", "read a large message", partial(self._read_large, message))
            return
        block = reader.read_block(side.row)
        needle = used_later.evidence_in(found.cases[self.at], block, used=used)
        subject = DocumentSource(session, side.location, reader.read_blocks(message), NO_MARK)
        detail.read(subject, Content(title), Content())
        detail.seek(needle)

    def _read_large(self, message: int, _: ThreadJob) -> None:
        self.controller.reader.read_blocks(message)
        self.post_message(Read(message))

    @on(Read)
    def _was_read(self) -> None:
        self.draw()

    @on(Worker.StateChanged)
    def _worker_failed(self, event: Worker.StateChanged) -> None:
        if words := format_worker_error(event):
            self.notify(make_visible(words), severity="warning", markup=False)

    # Keys

    def _once_known(self, act: Callable[[], object]) -> None:
        if self.found is not None:
            act()
        elif not self.comparison.lane.trouble:
            self._later.append(act)

    def action_case(self, step: int) -> None:
        """Go to the next or previous case."""
        self._once_known(lambda: self._go(self.at + step))

    def _go(self, at: int) -> None:
        if self.found is not None and self.found.numbers:
            self.at = min(max(at, 0), len(self.found.numbers) - 1)
            self.draw()

    @on(CaseList.Clicked)
    def _clicked(self, event: CaseList.Clicked) -> None:
        if self.found is not None and event.line >= 1:
            height = self.query_one(CaseList).content_size.height
            number = used_later.first_row(len(self.found.numbers), self.at, height) + event.line - 1
            if number < len(self.found.numbers):
                self._go(number)

    def action_side(self, step: int) -> None:
        """Go to the dropped block (-1), to the later use (+1), or to the one of them that has not the keys (0)."""
        self._once_known(lambda: self._focus(step))

    def _focus(self, step: int) -> None:
        if self.found is None or not self.found.numbers:
            return
        listed = self.query_one(CaseList).has_focus
        other = "used" if self.side == "dropped" and not listed else "dropped"
        self._turn_to(other if not step else "dropped" if step < 0 else "used")
        self.query_one(f"#regrets-{self.side}").focus()

    def action_cases(self) -> None:
        """Go to the list of cases."""
        self.query_one(CaseList).focus()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """The side that has the keys is the one that enter is about."""
        widget: Widget = event.widget
        if widget.id in ("regrets-dropped", "regrets-used"):
            self._turn_to(widget.id.removeprefix("regrets-"))

    def action_scope(self) -> None:
        """Show the cases of the firing under the cursor, or those of all; the selected case stays where it can."""
        self._once_known(self._scope)

    def _scope(self) -> None:
        study = self._study
        if self.found is None or study is None:
            return
        number = self.found.numbers[self.at] if self.found.numbers else -1
        if self.call is not None:
            self.call = None
        elif self.found.numbers:
            self.call = self.found.firing(self.at)[1].call
        self.found = used_later.shown(study, self.call)
        self.at = self.found.numbers.index(number) if number in self.found.numbers else 0
        self.draw()

    def action_raw(self) -> None:
        """Show texts as they were written, or rendered."""
        for detail in self.query(Detail):
            detail.toggle_raw()

    def action_value(self, step: int) -> None:
        """Of a pane: the one to the left, or to the right."""
        self.action_side(step)

    @on(Detail.Closed)
    def _pane_closed(self) -> None:
        self.dismiss(None)

    @on(Detail.Entered)
    def _entered(self) -> None:
        self.action_inspect()

    def action_inspect(self) -> None:
        """Go to the message of the side in the inspector, as of the firing, or as of the use."""
        self._once_known(self._inspect)

    def _inspect(self) -> None:
        found, comparison = self.found, self.comparison
        if found is None or not found.numbers:
            return
        side = (used_later.used_side if self.side == "used" else used_later.dropped_side)(found, self.at)
        policy, params = comparison.lane.policy, comparison.params
        self.dismiss(partial(self.controller.adopt_settings, policy, params, side.at, side.location))
