"""Results computed off the paint path: context sizes, runtime sizes and trigger firings, with their cache."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from context_tui.errors import PlanError
from context_tui.policies.base import Policy
from context_tui.policies.parameter_space import build_params
from context_tui.policies.registry import POLICIES, find_runtimes
from context_tui.policies.runtime_state import RuntimeState
from context_tui.policies.trigger_points import iterate_runtime_states
from context_tui.session.context import context_at
from context_tui.session.facts import Facts
from context_tui.session.session import Session
from context_tui.text.numbers import format_percent
from context_tui.tokens.accounting import compute_prompt_not_in_file
from context_tui.tokens.breakdown import Breakdown, compute_breakdown
from context_tui.tokens.estimate_check import EstimateCheck, SuggestedSizes, check_estimate, suggest_sizes
from context_tui.tokens.measures import TokenMeasure, TokenTable
from context_tui.tui.timeline.rows import TimelineRows
from context_tui.tui.view import View


@dataclass(frozen=True)
class ContextSizes:
    """Context in parts, by estimates and as recorded sizes suggest, with its estimate beside the recorded size.

    By another ruler (``token_table``) there are only the parts.
    """

    breakdown: Breakdown
    suggested_sizes: SuggestedSizes | None = None
    estimate_check: EstimateCheck | None = None
    token_table: TokenTable | None = None


def compute_context_sizes(
    view: View, checkpoint: Callable[[], object] = lambda: None, token_table: TokenTable | None = None
) -> ContextSizes:
    """Compute the sizes of a view's context, by another token measure where given; *checkpoint* is called meanwhile,
    and may raise to stop.
    """
    session, context = view.session, view.context
    if token_table is not None:
        return ContextSizes(
            compute_breakdown(context, token_table.not_in_file_at(context), checkpoint, token_table),
            token_table=token_table,
        )
    parts = compute_breakdown(context, compute_prompt_not_in_file(context), checkpoint)
    checkpoint()
    fit = check_estimate(session, context)
    checkpoint()
    return ContextSizes(parts, suggest_sizes(session, context), fit)


def format_estimate_error(check: EstimateCheck) -> str:
    """Format the error of the estimate: ``19 % below the 515,912 recorded``; empty where it is near enough."""
    if not check.is_far_off:
        return ""
    side = "below" if check.relative_error < 0 else "above"
    return f"{format_percent(abs(check.relative_error))} {side} the {check.recorded:,} recorded"


def format_estimate_check(check: EstimateCheck | None, width: int) -> str:
    """Format the error of the estimate and its causes, as many as fit in *width* cells."""
    off = format_estimate_error(check) if check else ""
    if check is None or not off:
        return ""
    causes = check.format_causes()
    for count in range(len(causes), 0, -1):
        words = f"Estimate {off}: " + ", ".join([*causes[:count], *(["…"] if count < len(causes) else [])])
        if len(words) <= width:
            return words
    return f"Estimate {off}: {causes[0]}" if causes else ""


class RuntimeSizeSeries:
    """Sizes that one runtime believes, by message: tokens (-1: unknown), and their source (-1: not asked)."""

    def __init__(self, length: int) -> None:
        self.tokens, self._source_index = array("q", [-1]) * length, array("i", [-1]) * length
        self._sources: list[str] = []

    def append(self, policy: Policy, state: RuntimeState) -> None:
        """Ask what it believes at a moment."""
        try:
            belief = policy.believed_size(state)
        except PlanError:
            return
        if belief is not None:
            if belief.source not in self._sources:
                self._sources.append(belief.source)
            self._source_index[state.at] = self._sources.index(belief.source)
            self.tokens[state.at] = -1 if belief.tokens is None else belief.tokens

    def format_size(self, runtime: str, message: int) -> str:
        """Format the size believed before a message; empty where the runtime was not asked."""
        if self._source_index[message] < 0:
            return ""
        much = f"{self.tokens[message]:,}" if self.tokens[message] >= 0 else "unknown"
        return f"{runtime} {much} ({self._sources[self._source_index[message]]})"


@dataclass(frozen=True)
class RuntimeSizes:
    """The series of each runtime."""

    facts: Facts
    length: int
    by_runtime: dict[str, RuntimeSizeSeries] = field(default_factory=dict)

    def covers(self, session: Session, message: int) -> bool:
        """Return whether the sizes cover a message; a session that has grown since has the same beginning."""
        return self.facts is session.facts and message < self.length

    def format_sizes(self, message: int) -> str:
        """Format the sizes believed before a message; empty where no model was called."""
        if not 0 <= message < self.length:
            return ""
        each = filter(None, (series.format_size(runtime, message) for runtime, series in self.by_runtime.items()))
        words = ", ".join(each)
        return f"what each runtime takes the context's size to be here: {words}" if words else ""


def compute_runtime_sizes(session: Session, checkpoint: Callable[[], object] = lambda: None) -> RuntimeSizes:
    """Compute all series, in time linear in the session; *checkpoint* is called at every message."""
    length, policies = len(session), find_runtimes()
    found = {runtime: RuntimeSizeSeries(length) for runtime in policies}
    for state in iterate_runtime_states(session, frozenset({"before_call"}), checkpoint):
        if state.at < length:
            for runtime, series in found.items():
                series.append(policies[runtime], state)
    return RuntimeSizes(session.facts, length, found)


MAX_MEASURED_ROWS = 4
"""Tables of sizes that are kept: going back to a ruler, or undoing, makes none anew."""


@dataclass(frozen=True)
class TriggerFirings:
    """Points where a trigger starts to fire, and the first one at which it changes something, if not the first of
    these.

    ``first_effect`` is None where such a point was not found, or not looked for.
    """

    points: list[int]
    first_effect: int | None = None


class MeasuredRows(NamedTuple):
    """Sizes of a session by a token measure, and the timeline rows with these tokens."""

    token_table: TokenTable
    rows: TimelineRows


class AnalysisCache:
    """Cache of sizes, firings and runtime sizes: each None until known."""

    def __init__(self) -> None:
        self._measured_rows: list[tuple[object, MeasuredRows]] = []  # of the sessions and rulers that were used last
        self._context_sizes: tuple[object, ContextSizes] | None = None
        self._firings: tuple[object, TriggerFirings] | None = None
        self._runtime_sizes: RuntimeSizes | None = None

    def get_measured_rows(self, view: View) -> MeasuredRows | None:
        """Return the sizes by a view's measure; None by ``bytes/4`` too, which needs no table."""
        if view.measure is TokenMeasure.OWN:
            return None
        key = _get_measure_key(view)
        return next((sized for known, sized in self._measured_rows if known == key), None)

    def store_measured_rows(self, view: View, measured_rows: MeasuredRows) -> None:
        """Store the sizes by a view's measure."""
        self._measured_rows = [*self._measured_rows, (_get_measure_key(view), measured_rows)][-MAX_MEASURED_ROWS:]

    def get_context_sizes(self, view: View) -> ContextSizes | None:
        """The sizes of a view's context."""
        return (
            self._context_sizes[1] if self._context_sizes and self._context_sizes[0] == _get_context_key(view) else None
        )

    def store_context_sizes(self, view: View, sizes: ContextSizes) -> None:
        """Store the sizes of a view's context."""
        self._context_sizes = _get_context_key(view), sizes

    def get_firings(self, view: View) -> TriggerFirings | None:
        """Return where the trigger of a view's policy fires."""
        return self._firings[1] if self._firings and self._firings[0] == _get_trigger_key(view) else None

    def store_firings(self, view: View, firings: TriggerFirings) -> None:
        """Store where the trigger of a view's policy fires."""
        self._firings = _get_trigger_key(view), firings

    def get_runtime_sizes(self, session: Session, message: int) -> RuntimeSizes | None:
        """Return the size that each runtime believed before a message of a session."""
        known = self._runtime_sizes
        return known if known is not None and known.covers(session, message) else None

    def store_runtime_sizes(self, sizes: RuntimeSizes) -> None:
        """Store the sizes that runtimes believed."""
        self._runtime_sizes = sizes


def find_first_effect(view: View, states: Sequence[RuntimeState], checkpoint: Callable[[], object]) -> int | None:
    """Return the first of the firing points whose plan changes something, if the later ones do as well.

    What can be cleared grows with the context, so that steps that double are taken to one, and halved on the way back.
    """
    policy = POLICIES[view.policy]
    try:
        params = build_params(policy, view.get_settings(view.policy))
    except PlanError:
        return None

    def changes(row: int) -> bool:
        checkpoint()
        # Not by the session: it keeps few contexts, and those on screen would go.
        context = context_at(view.session.facts, states[row].at)
        try:
            return policy.plan(context, params, replace(states[row], firing_only=True)).has_changes
        except PlanError:
            return False

    low, high = -1, 0
    while not changes(high):
        if high == len(states) - 1:
            return None
        low, high = high, min(2 * high + 1, len(states) - 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if changes(middle) else (middle, high)
    return states[high].at


def _get_context_key(view: View) -> object:
    return view.session, view.point, view.measure


def _get_measure_key(view: View) -> object:
    return view.session.facts, len(view.session), view.measure


def _get_trigger_key(view: View) -> object:
    return view.session, view.policy, repr(view.get_settings(view.policy))
