"""Panel of policy settings beside the outcome of the plan and the curve of the selected setting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pydantic import BaseModel
from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget

from context_tui.compaction.plan import Plan
from context_tui.policies.parameter_space import get_value, list_parameters_in_context
from context_tui.policies.parameters import Parameter
from context_tui.policies.registry import POLICIES
from context_tui.policies.runtime_state import RuntimeState
from context_tui.session.context import Context
from context_tui.tokens.measures import TokenTable
from context_tui.tui.inspector.curve import CurveView
from context_tui.tui.inspector.outcome import (
    Paragraph,
    PlanOutcome,
    compute_outcome,
    format_difference_variants,
    format_result_variants,
    format_trigger_variants,
)
from context_tui.tui.widgets.setting_rows import SettingRows
from context_tui.tui.widgets.styled_text import BAD, BOLD, GOOD, MUTED, Run, build_content, clip_lines, wrap_parts

MAX_CURVE_POINTS = 60
CURVE_HEIGHT, MIN_CURVE_HEIGHT = 3, 2
"""Lines that stay free for a curve: its title, its bars and its values; the title goes before what is said is cut."""
MANUAL_KEYS_HELP: list[Paragraph] = [
    [
        [("m", BOLD), (" clears the selected result", "")],
        [("c", BOLD), (" summarises all before the selected message", "")],
        [("again: takes it back", MUTED)],
    ],
    [[("m", BOLD), (" clears a result, ", ""), ("c", BOLD), (" cuts here", "")], [("again: takes it back", MUTED)]],
    [[("m", BOLD), (" clears, ", ""), ("c", BOLD), (" cuts, again undoes", "")]],
]
"""The keys of a policy whose plan is marked by hand."""
_KINDS_WITHOUT_CURVE = ("list", "marks")
NARROW_WIDTH = 72
"""Cells under which the outcome stands below the settings instead of beside them."""


def fit_paragraphs(paragraphs: Sequence[Sequence[Paragraph]], width: int, room: int, below: int = 0) -> list[list[Run]]:
    """Paragraphs in *room* lines, each as long as it can be: they are shortened in turns, from the last one on, and the
    last one is cut in the end.

    Args:
        below: lines that are left free where the shortest forms leave them; ``MIN_CURVE_HEIGHT`` of them are in any case.
    """
    flown = [[wrap_parts(parts, width) for parts in forms] for forms in paragraphs]
    least = sum(min(map(len, forms)) for forms in flown)
    free = max(room - below, min(least, room - min(below, MIN_CURVE_HEIGHT)), 1)
    levels = [0] * len(flown)
    while sum(len(forms[level]) for forms, level in zip(flown, levels, strict=True)) > free:
        shorter = [_find_shorter_variant(forms, level) for forms, level in zip(flown, levels, strict=True)]
        open_ones = [number for number in reversed(range(len(flown))) if shorter[number] is not None]
        if not open_ones:
            break
        number = min(open_ones, key=lambda each: levels[each])
        levels[number] = shorter[number] or 0
    lines: list[list[Run]] = []
    for forms, level in zip(flown, levels, strict=True):
        lines += clip_lines(forms[level], free - len(lines), width)
    return lines


def _find_shorter_variant(variants: list[list[list[Run]]], level: int) -> int | None:
    """The next form that takes fewer lines than the one of this level."""
    return next((each for each in range(level + 1, len(variants)) if len(variants[each]) < len(variants[level])), None)


class OutcomeText(Widget):
    """What the settings would do: result, the difference from the settings before, and trigger."""

    DEFAULT_CSS = "OutcomeText { height: auto; text-wrap: nowrap; text-overflow: clip; }"

    def __init__(self, *, ascii: bool = False) -> None:
        super().__init__()
        self.ascii = ascii
        self.paragraphs: list[list[Paragraph]] = []
        self.reserved_lines = 0
        self._room = 100

    def show(self, paragraphs: list[list[Paragraph]], below: int = 0) -> None:
        """Show paragraphs, each in the longest of its forms that fits; *below* is what to leave free below them."""
        before = self._count_lines(self.content_size.width)
        self.paragraphs, self.reserved_lines = paragraphs, below
        self.refresh(layout=self._count_lines(self.content_size.width) != before)

    def reserve_lines(self, below: int) -> None:
        """Leave another number of lines free."""
        if below != self.reserved_lines:
            self.show(self.paragraphs, below)

    def _count_lines(self, width: int) -> int:
        return len(fit_paragraphs(self.paragraphs, width, self._room, self.reserved_lines))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many lines as the paragraphs take in the room there is."""
        self._room = container.height
        return max(self._count_lines(width), 1)

    def render(self) -> Content:
        """The paragraphs, each on lines of its own."""
        lines = fit_paragraphs(self.paragraphs, self.content_size.width, self.content_size.height)
        return Content("\n").join(build_content(line, self.ascii) for line in lines)


class ParameterPanel(Widget):
    """One row a setting, the outcome, the difference from the setting before, and a curve."""

    DEFAULT_CSS = """
    ParameterPanel { height: 7; layout: horizontal; }
    ParameterPanel SettingRows { width: 42%; min-width: 38; max-width: 72; height: 100%; }
    ParameterPanel .outcome { width: 1fr; height: 100%; padding-left: 2; }
    ParameterPanel.-narrow { layout: vertical; height: 10; }
    ParameterPanel.-narrow SettingRows { width: 100%; max-width: 100%; height: auto; max-height: 5; }
    ParameterPanel.-narrow .outcome { width: 100%; height: 1fr; padding-left: 0; }
    """

    class Selected(Message):
        """Another setting's row was chosen: its curve is wanted."""

        def __init__(self, policy: str, name: str) -> None:
            super().__init__()
            self.policy, self.name = policy, name

    def __init__(
        self, change: Callable[[str, str, Any], object], *, ascii: bool = False, id: str | None = None
    ) -> None:
        """A panel that hands on each change as policy, name and value; a chain's names are ``POLICY.NAME``."""
        super().__init__(id=id)
        self._change = change
        self.ascii = ascii
        self.policy = ""
        self._shown_at: Context | None = None
        self._values: dict[str, Any] = {}
        self._outcome: PlanOutcome | None = None
        self._difference: list[Paragraph] = []
        self.rows = SettingRows(lambda name, value: self._change(self.policy, name, value), ascii=ascii)
        self.outcome = OutcomeText(ascii=ascii)
        self.curve = CurveView(ascii=ascii)

    def compose(self) -> ComposeResult:
        """Settings, and beside them what they do."""
        yield self.rows
        with Vertical(classes="outcome"):
            yield self.outcome
            yield self.curve

    @property
    def selected(self) -> str:
        """Name of the setting whose row is chosen; empty when the policy has none."""
        return self.rows.current_parameter.name if self.rows.current_parameter else ""

    def show(
        self,
        policy: str,
        params: BaseModel,
        context: Context,
        state: RuntimeState,
        plan: Plan | None,
        *,
        first: int | None = None,
        plan_error: str = "",
        applied: str = "",
        token_table: TokenTable | None = None,
    ) -> None:
        """Show a policy at its settings.

        Args:
            plan: what it would do; None where *trouble* says why there is no plan, or *applied* what was done.
            first: the message at which it first fires in this session, -1 for nowhere, None while that is not known.
            sizes: the ruler that the next request is by; the policy's own without one.
        """
        chosen = POLICIES[policy]
        controls = list_parameters_in_context(chosen, params, context, state)
        values = {control.name: get_value(chosen, params, control.name) for control in controls}
        outcome = compute_outcome(plan, token_table) if plan else None
        self._update_difference(policy, context, values, outcome)
        self.policy, self._shown_at, self._values, self._outcome = policy, context, values, outcome
        self.rows.show(controls, values)
        paragraphs: list[list[Paragraph]] = []
        if outcome:
            paragraphs.append(format_result_variants(outcome, by_hand=plan is not None and plan.trigger.by_hand))
        elif applied:
            paragraphs.append([[[("applied: ", f"bold {GOOD}"), (applied, "")]]])
            paragraphs.append([[[("u undoes it, e exports it; choose a policy to plan again", MUTED)]]])
        else:
            paragraphs.append(
                [[[("no plan: ", f"bold {BAD}"), (plan_error.removeprefix(f"{policy}: ") or "not computed yet", "")]]]
            )
        if self._difference:
            paragraphs.append(self._difference)
        if plan:
            paragraphs.append(MANUAL_KEYS_HELP if plan.trigger.by_hand else format_trigger_variants(plan, first))
        self.outcome.show(paragraphs, self._needed_curve_height)
        if self.rows.current_parameter and self.curve.setting_name == self.selected:
            self.curve.set_current(self.rows.current_parameter.get_effective_value(values[self.selected]))

    def _update_difference(
        self, policy: str, context: Context, values: dict[str, Any], outcome: PlanOutcome | None
    ) -> None:
        """Name the difference from the last setting; it stands until there is another one."""
        if policy != self.policy or context is not self._shown_at:
            self._difference = []
            self.curve.clear()
        elif values != self._values:
            changes = [(name, old, values[name]) for name, old in self._values.items() if name in values]
            changes = [(name.rpartition(".")[2], old, new) for name, old, new in changes if old != new]
            both = self._outcome and outcome and changes
            self._difference = format_difference_variants(changes, self._outcome, outcome) if both else []  # type: ignore[arg-type]

    @property
    def _needed_curve_height(self) -> int:
        """The lines that the curve of the selected setting needs."""
        control = self.rows.current_parameter
        return CURVE_HEIGHT if control and control.kind not in _KINDS_WITHOUT_CURVE and self._outcome else 0

    def curve_values(self, name: str) -> list[Any]:
        """At most 60 values over the range of a setting, for which ``show_curve`` is to be given the tokens after."""
        control = self._find_parameter(name)
        if control is None or control.kind in _KINDS_WITHOUT_CURVE:
            return []
        if control.scale is None:
            return [False, True]
        values = control.scale.sample_values(MAX_CURVE_POINTS)
        now = control.get_effective_value(self._values[name])
        return sorted({*values[: MAX_CURVE_POINTS - 1], now}) if now is not None else values

    def _find_parameter(self, name: str) -> Parameter | None:
        return next((control for control in self.rows.parameters if control.name == name), None)

    def show_curve(self, name: str, values: Sequence[Any], tokens_after: Sequence[int]) -> None:
        """Draw the curve of a setting; one that is no longer selected is ignored."""
        control = self._find_parameter(name)
        if control and self._outcome and name == self.selected:
            requests = self._outcome.compute_request_sizes(tokens_after)
            self.curve.show(name, values, requests, control.get_effective_value(self._values[name]), control.unit)

    def on_resize(self, event: events.Resize) -> None:
        """Side by side where there is room for it."""
        self.set_class(event.size.width < NARROW_WIDTH, "-narrow")

    @on(SettingRows.Moved)
    def _handle_moved(self, event: SettingRows.Moved) -> None:
        event.stop()
        self.curve.clear()
        self.outcome.reserve_lines(self._needed_curve_height)
        self.post_message(self.Selected(self.policy, event.name))
