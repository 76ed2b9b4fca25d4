"""Panel of policy settings beside the outcome of the plan and the curve of the selected setting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from context_tui.tui.widgets.styled_text import BAD, BOLD, GOOD, MUTED, Run, build_lines, clip_lines, wrap_parts

MAX_CURVE_POINTS = 60
CURVE_HEIGHT, MIN_CURVE_HEIGHT = 3, 2
"""Lines reserved for a curve (title, bars, values), and the minimum when the texts need room."""
MANUAL_KEYS_HELP: list[Paragraph] = [
    [
        [("m", BOLD), (" clears the selected result", "")],
        [("c", BOLD), (" summarises all before the selected message", "")],
        [("again: takes it back", MUTED)],
    ],
    [[("m", BOLD), (" clears a result, ", ""), ("c", BOLD), (" cuts here", "")], [("again: takes it back", MUTED)]],
    [[("m", BOLD), (" clears, ", ""), ("c", BOLD), (" cuts, again undoes", "")]],
]
_KINDS_WITHOUT_CURVE = ("list", "marks")
NARROW_WIDTH = 72
"""Width in cells below which the outcome is shown under the settings."""


def fit_paragraphs(paragraphs: Sequence[Sequence[Paragraph]], width: int, room: int, below: int = 0) -> list[list[Run]]:
    """Fit paragraphs to *room* lines, each in its longest variant that fits: they are shortened in turn, starting from
    the last, and finally the last one is cut.

    Args:
        below: lines to leave free if the shortest variants do; ``MIN_CURVE_HEIGHT`` of them stay free in any case.
    """
    flown = [[wrap_parts(parts, width) for parts in forms] for forms in paragraphs]
    min_lines = sum(min(map(len, forms)) for forms in flown)
    free = max(room - below, min(min_lines, room - min(below, MIN_CURVE_HEIGHT)), 1)
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
    """Return the next variant with fewer lines than the one at this level."""
    return next((each for each in range(level + 1, len(variants)) if len(variants[each]) < len(variants[level])), None)


class OutcomeText(Widget):
    """Result of the settings, difference from the settings before, and trigger."""

    DEFAULT_CSS = "OutcomeText { height: auto; text-wrap: nowrap; text-overflow: clip; }"

    def __init__(self) -> None:
        super().__init__()
        self.paragraphs: list[list[Paragraph]] = []
        self.reserved_lines = 0
        self._room = 100

    def show(self, paragraphs: list[list[Paragraph]], below: int = 0) -> None:
        """Show paragraphs, each in its longest variant that fits; *below* lines stay free."""
        before = self._count_lines(self.content_size.width)
        self.paragraphs, self.reserved_lines = paragraphs, below
        self.refresh(layout=self._count_lines(self.content_size.width) != before)

    def reserve_lines(self, below: int) -> None:
        """Change the number of free lines."""
        if below != self.reserved_lines:
            self.show(self.paragraphs, below)

    def _count_lines(self, width: int) -> int:
        return len(fit_paragraphs(self.paragraphs, width, self._room, self.reserved_lines))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of lines that the paragraphs take."""
        self._room = container.height
        return max(self._count_lines(width), 1)

    def render(self) -> Content:
        """Draw the paragraphs, each on lines of its own."""
        return build_lines(fit_paragraphs(self.paragraphs, self.content_size.width, self.content_size.height))


class ParameterPanel(Widget):
    """Settings of the policy, outcome of the plan, difference from the settings before, and curve."""

    DEFAULT_CSS = """
    ParameterPanel { height: 7; layout: horizontal; }
    ParameterPanel SettingRows { width: 42%; min-width: 38; max-width: 72; height: 100%; }
    ParameterPanel .outcome { width: 1fr; height: 100%; padding-left: 2; }
    ParameterPanel.-narrow { layout: vertical; height: 10; }
    ParameterPanel.-narrow SettingRows { width: 100%; max-width: 100%; height: auto; max-height: 5; }
    ParameterPanel.-narrow .outcome { width: 100%; height: 1fr; padding-left: 0; }
    """

    @dataclass
    class Selected(Message):
        """Another setting is selected: its curve is needed."""

        policy: str
        name: str

    def __init__(self, change: Callable[[str, str, Any], object], *, id: str | None = None) -> None:
        """Create a panel that calls *change* with policy, name and value; names in a chain are ``POLICY.NAME``."""
        super().__init__(id=id)
        self._change = change
        self.policy = ""
        self._shown_at: Context | None = None
        self._values: dict[str, Any] = {}
        self._outcome: PlanOutcome | None = None
        self._difference: list[Paragraph] = []
        self.rows = SettingRows(lambda name, value: self._change(self.policy, name, value))
        self.outcome = OutcomeText()
        self.curve = CurveView()

    def compose(self) -> ComposeResult:
        """Yield the settings and the outcome."""
        yield self.rows
        with Vertical(classes="outcome"):
            yield self.outcome
            yield self.curve

    @property
    def selected(self) -> str:
        """Name of the selected setting; empty if the policy has none."""
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
            plan: None if there is none: *plan_error* or *applied* is the reason.
            first: message at which the policy first fires in this session; -1 for never, None until computed.
            token_table: token measure of the next request; the policy's own without one.
        """
        definition = POLICIES[policy]
        controls = list_parameters_in_context(definition, params, context, state)
        values = {control.name: get_value(definition, params, control.name) for control in controls}
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
            reason = plan_error.removeprefix(f"{policy}: ") or "not computed yet"
            paragraphs.append([[[("no plan: ", f"bold {BAD}"), (reason, "")]]])
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
        """Format the difference from the settings before; it is shown until the next change."""
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
        control = self.rows.current_parameter
        return CURVE_HEIGHT if control and control.kind not in _KINDS_WITHOUT_CURVE and self._outcome else 0

    def curve_values(self, name: str) -> list[Any]:
        """Return at most 60 values over the range of a setting, whose tokens after are the input of ``show_curve``."""
        control = self._find_parameter(name)
        if control is None or control.kind in _KINDS_WITHOUT_CURVE:
            return []
        if control.scale is None:
            return [False, True]
        values = control.scale.sample_values(MAX_CURVE_POINTS)
        current = control.get_effective_value(self._values[name])
        return sorted({*values[: MAX_CURVE_POINTS - 1], current}) if current is not None else values

    def _find_parameter(self, name: str) -> Parameter | None:
        return next((control for control in self.rows.parameters if control.name == name), None)

    def show_curve(self, name: str, values: Sequence[Any], tokens_after: Sequence[int]) -> None:
        """Draw the curve of a setting, unless another one is selected by now."""
        control = self._find_parameter(name)
        if control and self._outcome and name == self.selected:
            requests = self._outcome.compute_request_sizes(tokens_after)
            self.curve.show(name, values, requests, control.get_effective_value(self._values[name]), control.unit)

    def on_resize(self, event: events.Resize) -> None:
        """Set the layout for the width."""
        self.set_class(event.size.width < NARROW_WIDTH, "-narrow")

    @on(SettingRows.Moved)
    def _handle_moved(self, event: SettingRows.Moved) -> None:
        event.stop()
        self.curve.clear()
        self.outcome.reserve_lines(self._needed_curve_height)
        self.post_message(self.Selected(self.policy, event.name))
