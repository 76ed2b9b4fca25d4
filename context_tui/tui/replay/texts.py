"""Texts about a replay: the agent's configuration for a policy, and the firings of the compared policies."""

from __future__ import annotations

from collections.abc import Iterator

from context_tui.errors import PlanError
from context_tui.lab.price import report
from context_tui.lab.replay.result import REPLAY_LIMITS_TEXT, format_firing, format_policy_label
from context_tui.lab.study import Study
from context_tui.policies.agent_settings import (
    UNKNOWN_SETTINGS_TEXT,
    AgentSettings,
    build_agent_settings,
    format_agent_settings,
)
from context_tui.policies.base import find_nested_field
from context_tui.policies.registry import POLICIES
from context_tui.text.numbers import format_count, format_saving
from context_tui.tui.comparison import InspectorCommand, Lane, PolicyComparison
from context_tui.tui.controller import Controller
from context_tui.tui.rendering.formatting import format_difference
from context_tui.tui.rendering.layout import TextPart
from context_tui.tui.replay.formatting import BASELINE_NAMES
from context_tui.tui.replay.regrets import RegretsScreen
from context_tui.tui.saving import save_and_report
from context_tui.tui.widgets.bindings import read_bindings
from context_tui.tui.widgets.text_screen import TextScreen

SOURCES_NOTE = "As of November 2026, from documentation, source code and user reports. Showing it changes nothing."


def list_configurations(lane: Lane) -> list[tuple[str, AgentSettings | None]]:
    """Return (label, agent's settings or None) for a policy, or for each step of a chain; may raise PlanError."""
    policy, params, window = POLICIES[lane.policy], lane.params, lane.view.session.window
    settings = build_agent_settings(lane.policy, params, window)
    if settings is None and find_nested_field(policy) and (steps := policy.steps(params)):
        return [
            (format_policy_label(step.name, values), build_agent_settings(step.name, values, window))
            for step, values in steps
        ]
    return [(lane.label, settings)]


def format_configuration(lane: Lane) -> str:
    """Format the agent's configuration as a text to show, copy or save; everything but the settings is a comment."""
    window, lines = lane.view.session.window, list[str]()
    try:
        configurations = list_configurations(lane)
    except PlanError as error:
        return f"# {error}\n"
    for label, settings in configurations:
        lines.append(f"# {label}")
        if settings and settings.settings:
            lines.append(f"#   for a window of {window.tokens:,} tokens ({window.source})")
        lines += [format_agent_settings(settings), ""]
    return "\n".join([*lines, f"# {SOURCES_NOTE}"]) + "\n"


def build_configuration_parts(lane: Lane) -> Iterator[TextPart]:
    """Yield each line of the agent's configuration as a part; comments are muted."""
    for line in format_configuration(lane).splitlines():
        remedy = "; y on the previous screen copies a command" if line.endswith(UNKNOWN_SETTINGS_TEXT) else ""
        yield TextPart(line + remedy, "muted" if line.startswith("#") else "text")


class ConfigurationScreen(TextScreen[None]):
    """A screen that shows the agent's configuration for a policy, with keys to copy or save it."""

    BINDINGS = read_bindings("configuration")

    def __init__(self, lane: Lane) -> None:
        super().__init__("Configuration of the agent", build_configuration_parts(lane))
        self._lane = lane

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(format_configuration(self._lane))

    def action_save(self) -> None:
        save_and_report(self, format_configuration(self._lane), f"{self._lane.policy}-configuration", "txt")


def build_firing_parts(comparison: PolicyComparison) -> Iterator[TextPart]:
    """Yield the totals and firings for each compared policy, with sizes in tokens."""
    if (result := next((lane.result for lane in comparison.lanes if lane.result), None)) is not None:
        calls, baseline = format_count(comparison.call_count, "call"), BASELINE_NAMES[comparison.settings.recorded]
        peak = max(result.replay.baseline, default=0)
        text = f"{calls}, sizes in tokens; {baseline}: peak {peak:,}, sent {result.baseline_tokens:,}\n"
        yield TextPart(text, "muted")
    for lane in comparison.lanes:
        yield TextPart(lane.label, "heading")
        yield TextPart("\n".join(_format_lane(lane)) + "\n")
    yield TextPart(" ".join(REPLAY_LIMITS_TEXT), "muted")


def _format_lane(lane: Lane) -> Iterator[str]:
    result = lane.result
    if result is None:
        yield lane.error or "not replayed yet"
        return
    totals = result.totals
    saving = format_saving(totals.saved, "tokens", total=result.baseline_tokens)
    yield (
        f"{format_count(len(result.replay.firings), 'firing')}, peak {totals.peak:,}, sent {totals.sent:,}, {saving}, "
        f"{format_count(totals.overflows, 'call')} over the window"
    )
    price = result.study.price if result.study is not None else None
    for number, firing in enumerate(result.replay.firings):
        sizes = f"{firing.before:,} → {firing.after:,} ({format_difference(firing.after - firing.before)})"
        step = f"{firing.policy}: " if firing.policy != lane.policy else ""
        yield f"  before #{firing.message:,}: {sizes}, {format_firing(firing)}; {step}{firing.reason}"
        if price is not None:
            yield f"    {report.format_firing_price(price.firings[number], price)}"
    if result.study is not None:
        yield from _format_study(result.study)


def _format_study(study: Study) -> Iterator[str]:
    price, regret = study.price, study.regret
    cost, baseline_cost = (report.format_price(each, price) for each in (price.cost, price.baseline_cost))
    yield f"cost: {cost}, without the policy {baseline_cost}"
    if price.firings:
        yield f"  {report.format_savings(price)}"
        yield f"  {report.format_price_reuse(price)}"
    yield from (f"  {each.text}" for each in report.build_advice(price))
    yield (
        f"needed later: {regret.used_later:,} of {format_count(regret.dropped, 'dropped block')}, "
        f"{regret.tokens_used_later:,} of {regret.tokens_dropped:,} tokens (bytes/4); "
        f"only named again: {regret.by_tier['reference']:,}"
    )
    for case in regret.cases:
        verb = "needed" if case.is_needed else "named"
        yield f"  #{case.message:,}, {case.tokens:,} tokens, {verb} at #{case.later:,} ({case.tier}): {case.evidence}"


class FiringsScreen(TextScreen[InspectorCommand | None]):
    """A screen that lists the firings of all compared policies as text that can be selected and copied."""

    BINDINGS = read_bindings("firings")

    def __init__(self, controller: Controller, comparison: PolicyComparison) -> None:
        super().__init__("Firings in the replay", build_firing_parts(comparison))
        self._controller, self._comparison = controller, comparison

    def action_regrets(self) -> None:

        def leave(command: InspectorCommand | None) -> None:
            if command is not None:
                self.dismiss(command)

        self.app.push_screen(RegretsScreen(self._controller, self._comparison, all_firings=True), leave)
