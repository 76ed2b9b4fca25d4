"""Regret screen: each dropped block beside its later use."""

from __future__ import annotations

from functools import partial

from textual import events
from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content

from context_tui.lab.study import Study
from context_tui.tui.comparison import InspectorCommand, PolicyComparison
from context_tui.tui.controller import Controller
from context_tui.tui.reader.detail import Detail
from context_tui.tui.reader.document import DocumentSource
from context_tui.tui.rendering.formatting import format_row_kind
from context_tui.tui.replay import regret_cases
from context_tui.tui.replay.regret_cases import CaseSelection
from context_tui.tui.terminal.cells import shorten_at_word
from context_tui.tui.terminal.themes import BOLD, MUTED, PRIMARY
from context_tui.tui.threads import WorkErrorHandler, start_work
from context_tui.tui.timeline.marks import NO_MARK
from context_tui.tui.widgets.bindings import KeyFooter, read_bindings
from context_tui.tui.widgets.guarded_screens import WaitingScreen, when_ready
from context_tui.tui.widgets.styled_text import ClickableLines, LinesPane, Run, justify_runs

SIDES = ("dropped", "used")


class RegretsScreen(WorkErrorHandler, WaitingScreen[InspectorCommand | None]):
    """A screen that shows one regret case at a time; keys pressed while the cases are computed take effect later."""

    CSS_PATH = "regrets.tcss"
    AUTO_FOCUS = "ClickableLines"
    BINDING_GROUP_TITLE = "Needed later"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-low"), (36, "-high")]
    BINDINGS = read_bindings("regrets")

    def __init__(self, controller: Controller, comparison: PolicyComparison, *, all_firings: bool = False) -> None:
        """Create a screen for the firing under the cursor or, with *all_firings*, for all firings."""
        super().__init__()
        self.controller, self.comparison = controller, comparison
        has_firing = bool(comparison.get_firings(comparison.call)) and not all_firings
        self.call = comparison.call if has_firing else None
        self.case_selection: CaseSelection | None = None
        self.case_index = 0
        self.side = "dropped"

    @property
    def is_ready(self) -> bool:
        return self.case_selection is not None

    @property
    def is_failed(self) -> bool:
        return bool(self.comparison.selected_lane.error)

    # Drawing

    def compose(self) -> ComposeResult:
        yield LinesPane(self._draw_head, id="regrets-head")
        yield ClickableLines(self._draw_list, self._click_list, id="regrets-list")
        yield LinesPane(self._draw_evidence, id="regrets-evidence")
        with Container(id="regrets-sides"):
            for side in SIDES:
                yield Detail(id=f"regrets-{side}")
        yield KeyFooter()

    def on_mount(self) -> None:
        """Show the regret cases as soon as the panes have a size, if the cases are already computed."""
        self.call_after_refresh(self.update_regrets)

    def update_regrets(self) -> None:
        """Show the regret cases once they are computed, and run the actions of keys pressed in the meantime."""
        study = self._study
        if self.case_selection is None and study is not None:
            self.case_selection = regret_cases.select_cases(study, self.call)
            if not self.case_selection and self.call is not None:
                self.call, self.case_selection = None, regret_cases.select_cases(study)
        self.draw()
        self.run_waiting_actions()

    @property
    def _study(self) -> Study | None:
        lane = self.comparison.selected_lane
        return lane.result.study if lane.result and not self.comparison.is_outdated(lane) else None

    def draw(self) -> None:
        """Draw every pane on the screen."""
        selection = self.case_selection
        self.query_one("#regrets-list").styles.height = self._list_height
        for part in ("#regrets-head", "#regrets-list", "#regrets-evidence"):
            self.query_one(part).refresh()
        self.set_class(not selection, "-nothing")
        self.set_class(self.side == "used", "-used")
        if selection:
            for name in SIDES:
                self._show_block(selection, name)
            self.call_after_refresh(self._scroll_to_evidence)  # the layout may change the size of the two sides

    @property
    def _list_height(self) -> int:
        """Height in lines of the list with its headings: as many as the cases need, at most a fifth of the screen."""
        return 2 + min(len(self.case_selection or ()), max(self.size.height // 5, 3))

    def on_resize(self) -> None:
        self.query_one("#regrets-list").styles.height = self._list_height
        self.call_after_refresh(self._scroll_to_evidence)

    def _scroll_to_evidence(self) -> None:
        for detail in self.query(Detail):
            needle, detail.needle = detail.needle, ""
            detail.set_search_text(needle)

    def _select_side(self, side: str) -> None:
        self.side = side
        self.set_class(side == "used", "-used")
        if not self.query_one(f"#regrets-{side}").size:
            self.call_after_refresh(self._scroll_to_evidence)

    def _draw_head(self, width: int, _: int) -> list[list[Run]]:
        label = shorten_at_word(self.comparison.selected_lane.label, max(width - 30, 12))
        selection = self.case_selection
        if selection is None:
            status = self.comparison.selected_lane.error or "Searching for later uses…"
            head = [("Needed later", f"{BOLD} {PRIMARY}"), (f"  {label}", BOLD)]
            return [head, [(shorten_at_word(status, width), MUTED)]]
        if self.call is None:
            scope = "all firings"
        else:
            scope = f"dropped before #{selection.study.replay.calls[self.call].message:,}"
        count = f"case {self.case_index + 1:,} of {len(selection):,}, " if selection else ""
        parts = [(9, ("Needed later", f"{BOLD} {PRIMARY}")), (8, (label, BOLD))]
        title = justify_runs(parts, [(count + scope, MUTED)], width)
        call = selection.get_firing(self.case_index)[1].call if selection else self.comparison.call
        bound = regret_cases.format_regret_bound(selection, call, width)
        return [title, regret_cases.format_summary(selection, width), bound]

    def _draw_list(self, width: int, height: int) -> list[list[Run]]:
        selection = self.case_selection
        if selection is None:
            return []
        if not selection:
            return [[(shorten_at_word(regret_cases.explain_no_cases(selection), width), MUTED)]]
        return regret_cases.format_case_table(selection, self.case_index, width, height)

    def _draw_evidence(self, width: int, _: int) -> list[list[Run]]:
        selection = self.case_selection
        return regret_cases.format_evidence(selection, self.case_index, width) if selection else []

    def _show_block(self, selection: CaseSelection, name: str) -> None:
        side, reader = regret_cases.find_side(selection, self.case_index, name), self.controller.reader
        detail, session, message = self.query_one(f"#regrets-{name}", Detail), self.comparison.session, side.location[0]
        is_large = reader.is_huge(message) and not reader.is_cached(message)
        preview = "" if is_large else reader.format_preview(*side.location)
        label = f"{format_row_kind(session.facts, *side.location)} {preview}"
        title = Content(regret_cases.format_side_title(selection, self.case_index, name, label))
        if is_large:
            detail.show_loading(title, "reading the message…")
            read = partial(reader.read_blocks, message)
            start_work(self, f"read-{name}", "read a large message", lambda _: read(), lambda _: self.draw())
            return
        case, block = selection.cases[self.case_index], reader.read_block(side.row)
        source = DocumentSource(session, side.location, reader.read_blocks(message), NO_MARK)
        detail.show_document(source, title, Content())
        detail.set_search_text(regret_cases.choose_needle(case, block, name))

    # Keys

    @when_ready
    def action_move_to_case(self, step: int) -> None:
        self._select_case(self.case_index + step)

    def _select_case(self, index: int) -> None:
        if self.case_selection:
            self.case_index = min(max(index, 0), len(self.case_selection) - 1)
            self.draw()

    def _click_list(self, line: int, _: int, is_double: bool) -> None:
        if self.case_selection and line >= 1:
            count, height = len(self.case_selection), self.query_one(ClickableLines).content_size.height
            number = regret_cases.compute_first_row(count, self.case_index, height) + line - 1
            if number < count:
                self._select_case(number)

    @when_ready
    def action_focus_side(self, step: int) -> None:
        """Focus the dropped block (-1), its later use (+1), or whichever of the two is not focused (0)."""
        if not self.case_selection:
            return
        if step == 0:
            is_list_focused = self.query_one(ClickableLines).has_focus
            step = 1 if self.side == "dropped" and not is_list_focused else -1
        self._select_side("used" if step > 0 else "dropped")
        self.query_one(f"#regrets-{self.side}").focus()

    def action_focus_cases(self) -> None:
        self.query_one(ClickableLines).focus()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Remember which side has the focus, so that enter opens that side."""
        if (side := (event.widget.id or "").removeprefix("regrets-")) in SIDES:
            self._select_side(side)

    @when_ready
    def action_toggle_scope(self) -> None:
        selection, study = self.case_selection, self._study
        if selection is None or study is None:
            return
        number = selection.case_numbers[self.case_index] if selection else -1
        if self.call is not None:
            self.call = None
        elif selection:
            self.call = selection.get_firing(self.case_index)[1].call
        self.case_selection = regret_cases.select_cases(study, self.call)
        numbers = self.case_selection.case_numbers
        self.case_index = numbers.index(number) if number in numbers else 0
        self.draw()

    def action_raw(self) -> None:
        for detail in self.query(Detail):
            detail.toggle_raw()

    def action_close_detail(self) -> None:
        self.dismiss(None)

    @when_ready
    def action_inspect(self) -> None:
        selection, comparison = self.case_selection, self.comparison
        if not selection:
            return
        side = regret_cases.find_side(selection, self.case_index, self.side)
        policy, params = comparison.selected_lane.policy, comparison.policy_params
        self.dismiss(partial(self.controller.adopt_settings, policy, params, side.point, side.location))

    action_follow_call = action_inspect
