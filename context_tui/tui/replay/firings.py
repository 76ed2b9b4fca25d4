"""Firings of the compared policies, as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import Label

from context_tui.lab.price.report import (
    build_advice,
    format_cache_reuse,
    format_cost,
    format_firing_price,
    format_savings,
)
from context_tui.lab.replay.result import REPLAY_LIMITS_TEXT, format_firing
from context_tui.lab.study import Study
from context_tui.tui.comparison import Comparison, InspectorCommand, Lane
from context_tui.tui.controller import Controller
from context_tui.tui.rendering.formatting import format_difference, pluralize
from context_tui.tui.rendering.layout import TextPart
from context_tui.tui.replay.formatting import BASELINE_NAMES, format_saved_share
from context_tui.tui.replay.regrets import RegretsScreen
from context_tui.tui.widgets.footer import KeyFooter
from context_tui.tui.widgets.reading_pane import ReadingPane


def build_firing_parts(comparison: Comparison) -> Iterator[TextPart]:
    """Yield the policies one under the other, each with its numbers and its firings; sizes are in tokens."""
    known = next((lane.result for lane in comparison.lanes if lane.result), None)
    if known is not None:
        peak = max(known.replay.baseline, default=0)
        words = f"{BASELINE_NAMES[comparison.recorded_mode]}: peak {peak:,}, sent {known.baseline_tokens:,}"
        yield TextPart(f"{pluralize(comparison.call_count, 'call')}, sizes in tokens; {words}\n", "muted")
    for lane in comparison.lanes:
        yield TextPart(lane.label, "heading")
        yield TextPart("\n".join(_format_lane(lane)) + "\n")
    yield TextPart(" ".join(REPLAY_LIMITS_TEXT), "muted")


def _format_lane(lane: Lane) -> Iterator[str]:
    made = lane.result
    if made is None:
        yield lane.error or "not replayed yet"
        return
    sums = made.totals
    yield (
        f"{pluralize(len(made.replay.firings), 'firing')}, peak {sums.peak:,}, sent {sums.sent:,}, "
        f"saved {sums.saved:,} ({format_saved_share(made)}), {pluralize(sums.overflows, 'call')} over the window"
    )
    prices = made.study.price if made.study is not None else None
    for number, firing in enumerate(made.replay.firings):
        sizes = f"{firing.before:,} → {firing.after:,} ({format_difference(firing.after - firing.before)})"
        whose = f"{firing.policy}: " if firing.policy != lane.policy else ""
        yield f"  before #{firing.message:,}: {sizes}, {format_firing(firing)}; {whose}{firing.reason}"
        if prices is not None:
            yield f"    {format_firing_price(prices.firings[number], prices)}"
    if made.study is not None:
        yield from _format_study(made.study)


def _format_study(study: Study) -> Iterator[str]:
    """Yield the cost of the policy, advice, and the dropped content that was needed later."""
    priced, found = study.price, study.regret
    yield f"cost: {format_cost(priced.cost, priced)}, without the policy {format_cost(priced.baseline_cost, priced)}"
    if priced.firings:
        yield f"  {format_savings(priced)}"
        yield f"  {format_cache_reuse(priced.reuse)}"
    yield from (f"  {each.words}" for each in build_advice(priced))
    of = f"{pluralize(found.dropped, 'block')} dropped, {found.tokens_dropped:,} tokens by bytes/4"
    yield f"needed later: {found.used_later:,} of {of}; needed later: {found.tokens_used_later:,} tokens"
    for case in found.cases:
        yield f"  #{case.message:,}, {case.tokens:,} tokens, needed at #{case.later:,} ({case.tier}): {case.evidence}"


class FiringsScreen(ModalScreen[InspectorCommand | None]):
    """The list, to read and to select text in."""

    CSS_PATH = "firings.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,t", "dismiss", "close", key_display="esc", id="firings-close", tooltip="Back"),
        Binding("n", "jump(1)", "next policy", id="firings-next", tooltip="Next policy"),
        Binding("p,N", "jump(-1)", "previous", id="firings-previous", tooltip="Previous policy"),
        Binding("u", "regrets", "regrets", id="firings-regrets", tooltip="Show dropped content and its later use"),
    ]

    def __init__(self, controller: Controller, comparison: Comparison) -> None:
        super().__init__()
        self._controller = controller
        self._comparison = comparison

    def compose(self) -> ComposeResult:
        """Return a title and the list."""
        yield Label("Firings in the replay", id="firings-title", markup=False)
        yield ReadingPane(build_firing_parts(self._comparison), id="firings-list")
        yield KeyFooter()

    def action_regrets(self) -> None:
        """Show the regrets of the selected policy, of all its firings."""

        def leave(command: InspectorCommand | None) -> None:
            if command is not None:
                self.dismiss(command)

        self.app.push_screen(RegretsScreen(self._controller, self._comparison, all_firings=True), leave)

    def action_jump(self, step: int) -> None:
        """Scroll to the next policy, or the one before."""
        self.query_one(ReadingPane).jump_to_style("heading", step)
