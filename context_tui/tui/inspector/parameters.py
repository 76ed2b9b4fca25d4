"""Panel of a policy: its parameters, which keys change, the outcome of its plan, and a curve over one parameter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.geometry import Size
from textual.widget import Widget

from context_tui.policies.base import is_session_bound
from context_tui.policies.parameter_space import get_value, list_parameters_in_context
from context_tui.policies.parameters import format_assignments
from context_tui.policies.registry import POLICIES
from context_tui.policies.versions import format_recorded_params, format_recording_version
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
from context_tui.tui.terminal.themes import BAD, BOLD, GOOD, MUTED
from context_tui.tui.view import View
from context_tui.tui.widgets.parameter_rows import ParameterRows
from context_tui.tui.widgets.styled_text import LinesPane, Run, clip_lines, wrap_parts

MAX_CURVE_POINTS = 60
CURVE_HEIGHT, MIN_CURVE_HEIGHT = 3, 2
"""Lines of the curve (title, bars, values), and its minimum if the texts need the room."""
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
    """Return at most *room* lines with one variant of each paragraph, whose variants are given longest first.

    The paragraphs are shortened in turn, from last to first, then cut. If possible, *below* lines stay free.
    """
    wrapped = [[wrap_parts(parts, width) for parts in variants] for variants in paragraphs]
    min_lines = sum(min(map(len, variants)) for variants in wrapped)
    line_count = max(room - below, min(min_lines, room - min(below, MIN_CURVE_HEIGHT)), 1)
    levels = [0] * len(wrapped)
    while sum(len(variants[level]) for variants, level in zip(wrapped, levels, strict=True)) > line_count:
        next_levels = [_find_shorter_variant(*pair) for pair in zip(wrapped, levels, strict=True)]
        candidates = [number for number in reversed(range(len(wrapped))) if next_levels[number] is not None]
        if not candidates:
            break
        number = min(candidates, key=levels.__getitem__)
        levels[number] = next_levels[number] or 0
    lines: list[list[Run]] = []
    for variants, level in zip(wrapped, levels, strict=True):
        lines += clip_lines(variants[level], line_count - len(lines), width)
    return lines


def _find_shorter_variant(variants: list[list[list[Run]]], level: int) -> int | None:
    line_count = len(variants[level])
    return next((later for later in range(level + 1, len(variants)) if len(variants[later]) < line_count), None)


class OutcomeText(LinesPane):
    """A text about a plan: its result, the difference that the last change of settings made, and its trigger."""

    DEFAULT_CSS = "OutcomeText { height: auto; padding: 0; }"

    def __init__(self) -> None:
        super().__init__(lambda width, height: fit_paragraphs(self.paragraphs, width, height))
        self.paragraphs: list[list[Paragraph]] = []
        self.reserved_lines = 0
        self._room = 100

    def show(self, paragraphs: list[list[Paragraph]], below: int = 0) -> None:
        """Show each of *paragraphs* in the longest variant that fits, leaving *below* lines free."""
        before = self._count_lines(self.content_size.width)
        self.paragraphs, self.reserved_lines = paragraphs, below
        self.refresh(layout=self._count_lines(self.content_size.width) != before)

    def _count_lines(self, width: int) -> int:
        return len(fit_paragraphs(self.paragraphs, width, self._room, self.reserved_lines))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        self._room = container.height
        return max(self._count_lines(width), 1)


class ParameterPanel(Widget):
    """A panel with a policy's settings, the plan's outcome, and a curve for the selected setting."""

    DEFAULT_CSS = """
    ParameterPanel { height: 7; layout: horizontal; }
    ParameterPanel ParameterRows { width: 42%; min-width: 38; max-width: 72; height: 100%; }
    ParameterPanel .outcome { width: 1fr; height: 100%; padding-left: 2; }
    ParameterPanel.-narrow { layout: vertical; height: 10; }
    ParameterPanel.-narrow ParameterRows { width: 100%; max-width: 100%; height: auto; max-height: 5; }
    ParameterPanel.-narrow .outcome { width: 100%; height: 1fr; padding-left: 0; }
    """

    def __init__(self, change: Callable[[str, str, Any], object], request_curve: Callable[[], object]) -> None:
        """Create a panel; *change* receives the policy, the name of a setting and its new value."""
        super().__init__(id="panel")
        self._change, self._request_curve = change, request_curve
        self.policy = ""
        self._shown_at: Context | None = None
        self._outcome: PlanOutcome | None = None
        self._difference: list[Paragraph] = []
        self.rows = ParameterRows(lambda name, value: self._change(self.policy, name, value))
        self.outcome = OutcomeText()
        self.curve = CurveView()

    def compose(self) -> ComposeResult:
        yield self.rows
        with Vertical(classes="outcome"):
            yield self.outcome
            yield self.curve

    @property
    def selected_name(self) -> str:
        """The name of the selected setting, or "" if the policy has none."""
        return self.rows.current_parameter.name if self.rows.current_parameter else ""

    def show(self, view: View, *, next_firing: int | None = None, token_table: TokenTable | None = None) -> None:
        """Show the settings in effect at the view's point and the outcome of its plan, measured by *token_table*.

        *next_firing* is the message before which the policy next fires, -1 for never, or None until that is known.
        """
        policy, params, context, plan = view.policy, view.policy_params, view.context, view.plan
        definition = POLICIES[policy]
        parameters = list_parameters_in_context(definition, params, context, view.runtime_state)
        values = {parameter.name: get_value(definition, params, parameter.name) for parameter in parameters}
        outcome = compute_outcome(plan, token_table) if plan else None
        self._update_difference(policy, context, values, outcome)
        self.policy, self._shown_at, self._outcome = policy, context, outcome
        self.rows.show(parameters, values)
        paragraphs: list[list[Paragraph]] = []
        if outcome:
            paragraphs.append(format_result_variants(outcome, by_hand=plan is not None and plan.trigger.by_hand))
        elif view.applied:
            paragraphs.append([[[("applied: ", f"bold {GOOD}"), (view.applied.summary, "")]]])
            paragraphs.append([[[("u undoes it, e exports it; choose a policy to plan again", MUTED)]]])
        else:
            reason = view.plan_error.removeprefix(f"{policy}: ") or "not computed yet"
            paragraphs.append([[[("no plan: ", f"bold {BAD}"), (reason, "")]]])
        if self._difference:
            paragraphs.append(self._difference)
        own = {} if is_session_bound(definition) else view.params.get(policy)
        if own and outcome and not self._difference:
            text = f"yours: {' '.join(format_assignments(own))}; backspace resets the selected one"
            paragraphs.append([[[(form, MUTED)]] for form in (text, "yours; backspace resets")])
        elif not own and (recorded := format_recorded_params(policy, params, context.facts)):
            version = format_recording_version(policy, params, context.facts)
            paragraphs.append([[[(text, MUTED)]] for text in (recorded.removeprefix(f"{policy} "), version)])
        if plan:
            paragraphs.append(MANUAL_KEYS_HELP if plan.trigger.by_hand else format_trigger_variants(plan, next_firing))
        self.outcome.show(paragraphs, self._needed_curve_height)
        if self.rows.current_parameter and self.curve.setting_name == self.selected_name:
            self.curve.set_current(self.rows.current_parameter.get_effective_value(values[self.selected_name]))

    def _update_difference(
        self, policy: str, context: Context, values: dict[str, Any], outcome: PlanOutcome | None
    ) -> None:
        """Update the text on what the last change of settings did; clear it if the policy or context changed."""
        if policy != self.policy or context is not self._shown_at:
            self._difference = []
            self.curve.clear()
        elif values != self.rows.values:
            changes = [(name, old, values[name]) for name, old in self.rows.values.items() if name in values]
            changes = [(name.rpartition(".")[2], old, new) for name, old, new in changes if old != new]
            self._difference = []
            if self._outcome and outcome and changes:
                self._difference = format_difference_variants(changes, self._outcome, outcome)

    @property
    def _needed_curve_height(self) -> int:
        parameter = self.rows.current_parameter
        return CURVE_HEIGHT if parameter and parameter.kind not in _KINDS_WITHOUT_CURVE and self._outcome else 0

    @property
    def curve_values(self) -> list[Any]:
        """Up to ``MAX_CURVE_POINTS`` values across the range of the selected setting, or [] if it has no curve."""
        parameter = self.rows.current_parameter
        if parameter is None or parameter.kind in _KINDS_WITHOUT_CURVE:
            return []
        if parameter.scale is None:
            return [False, True]
        values = parameter.scale.sample_values(MAX_CURVE_POINTS)
        current = parameter.get_effective_value(self.rows.values[parameter.name])
        return sorted({*values[: MAX_CURVE_POINTS - 1], current}) if current is not None else values

    def show_curve(self, name: str, values: Sequence[Any], sizes: Sequence[int]) -> None:
        """Draw the curve if setting *name* is still selected; *sizes* are those of the next request with each plan."""
        parameter = self.rows.current_parameter
        if parameter and self._outcome and name == parameter.name:
            current = parameter.get_effective_value(self.rows.values[name])
            self.curve.show(name, values, sizes, current, parameter.unit)

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width < NARROW_WIDTH, "-narrow")

    @on(ParameterRows.Moved)
    def _handle_moved(self, event: ParameterRows.Moved) -> None:
        event.stop()
        self.curve.clear()
        self.outcome.show(self.outcome.paragraphs, self._needed_curve_height)
        self._request_curve()
