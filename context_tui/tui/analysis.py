"""Results that are computed in threads: context sizes, runtime sizes and trigger firings, with their cache."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from context_tui.errors import PlanError
from context_tui.formats.opening import describe_request_source
from context_tui.lab.fullness import Fullness, compute_fullness
from context_tui.policies.base import Policy
from context_tui.policies.parameter_space import build_params
from context_tui.policies.registry import POLICIES, find_runtimes
from context_tui.policies.runtime_state import RuntimeState
from context_tui.policies.trigger_points import iterate_runtime_states
from context_tui.session.context import context_at
from context_tui.session.facts import Facts
from context_tui.session.session import Session
from context_tui.session.values import Checkpoint
from context_tui.text.numbers import format_percent
from context_tui.tokens.breakdown import Breakdown, PromptShares, measure_breakdown, measure_prompt
from context_tui.tokens.estimate_check import EstimateCheck, check_estimate
from context_tui.tokens.measures import TokenMeasure, TokenTable, build_calibrated_table, measure_exactly
from context_tui.tui.timeline.rows import TimelineRows
from context_tui.tui.view import View


@dataclass(frozen=True)
class ContextSizes:
    """Sizes computed for a context: a breakdown by category and a check of the estimate against recorded sizes.

    With a ``token_table`` (a measure other than ``bytes/4``), only the breakdown and the prompt's parts are computed.
    ``lacks_requests`` is set if the session holds no complete requests but could get them from a known source.
    """

    breakdown: Breakdown
    estimate_check: EstimateCheck | None = None
    token_table: TokenTable | None = None
    prompt: PromptShares | None = None
    lacks_requests: bool = False
    fullness: Fullness | None = None


def compute_context_sizes(
    view: View, checkpoint: Checkpoint = lambda: None, token_table: TokenTable | None = None
) -> ContextSizes:
    """Compute sizes for a view's context, using *token_table* or else ``bytes/4``; *checkpoint* may raise to stop."""
    session, context = view.session, view.context
    lacks_requests = not session.facts.holds_requests and bool(describe_request_source(session))
    parts = measure_breakdown(context, token_table, checkpoint)
    checkpoint()
    check = None if token_table else check_estimate(session, context)
    prompt, fullness = (
        measure_prompt(session, context, token_table),
        compute_fullness(session, context, parts, token_table),
    )
    return ContextSizes(parts, check, token_table, prompt, lacks_requests, fullness)


def format_estimate_error(check: EstimateCheck) -> str:
    """Format how far the estimate is off, as in ``19 % below the 515,912 recorded``; empty if the error is small."""
    if not check.is_far_off:
        return ""
    side = "below" if check.relative_error < 0 else "above"
    return f"{format_percent(abs(check.relative_error))} {side} the {check.recorded:,} recorded"


class RuntimeSizeSeries:
    """The tokens that one runtime assumes in the context before each message, or -1 if unknown or not computed."""

    def __init__(self, length: int) -> None:
        self.tokens, self._source_index = array("q", [-1]) * length, array("i", [-1]) * length
        self._sources: list[str] = []

    def append(self, policy: Policy, state: RuntimeState) -> None:
        """Store the size assumed before the message ``state.at``; a policy that assumes no size stores nothing."""
        try:
            size = policy.believed_size(state)
        except PlanError:
            return
        if size is not None:
            if size.source not in self._sources:
                self._sources.append(size.source)
            self._source_index[state.at] = self._sources.index(size.source)
            self.tokens[state.at] = -1 if size.tokens is None else size.tokens

    def format_size(self, runtime: str, message: int) -> str:
        """Format the size assumed before *message* and its source; empty if no size was stored for the message."""
        if self._source_index[message] < 0:
            return ""
        amount = f"{self.tokens[message]:,}" if self.tokens[message] >= 0 else "unknown"
        return f"{runtime} {amount} ({self._sources[self._source_index[message]]})"


@dataclass(frozen=True)
class RuntimeSizes:
    """The context sizes that each runtime assumes before the messages of a session."""

    facts: Facts
    length: int
    by_runtime: dict[str, RuntimeSizeSeries] = field(default_factory=dict)

    def covers(self, session: Session, message: int) -> bool:
        """Return whether the sizes at a message have been computed. They stay valid when the session grows."""
        return self.facts is session.facts and message < self.length

    def format_sizes(self, message: int) -> str:
        """Format the size that each runtime assumes before *message*; empty if no size was computed there."""
        if not 0 <= message < self.length:
            return ""
        sizes = (series.format_size(runtime, message) for runtime, series in self.by_runtime.items())
        text = ", ".join(filter(None, sizes))
        return f"context size before this message, by runtime: {text}" if text else ""


def compute_runtime_sizes(session: Session, checkpoint: Checkpoint = lambda: None) -> RuntimeSizes:
    """Compute the sizes that the session's runtime assumed; the result is empty if that runtime is not known."""
    length = len(session)
    policies = {name: policy for name, policy in find_runtimes().items() if name == session.info.format}
    by_runtime = {runtime: RuntimeSizeSeries(length) for runtime in policies}
    states = iterate_runtime_states(session, frozenset({"before_call"}), checkpoint) if policies else ()
    for state in states:
        if state.at < length:
            for runtime, series in by_runtime.items():
                series.append(policies[runtime], state)
    return RuntimeSizes(session.facts, length, by_runtime)


MAX_MEASURED_ROWS = 4
"""Number of measured sessions in the cache, so that undo or another measure need not compute them again."""


@dataclass(frozen=True)
class TriggerFirings:
    """The points in a session at which a trigger begins to fire.

    ``first_effect`` is the first point at which the plan changes something. It is None if that is ``points[0]``, if
    there is no such point, or if none was searched for.
    """

    points: list[int]
    first_effect: int | None = None


MeasureKey = tuple[Facts, int, TokenMeasure]
"""Facts and length of a session, and a token measure."""


class MeasuredRows(NamedTuple):
    """Token sizes for a session by one token measure, and the timeline rows that show these sizes.

    ``is_provisional`` is set if the session has grown since the factors of the measure were computed.
    """

    token_table: TokenTable
    rows: TimelineRows
    is_provisional: bool = False


class AnalysisCache:
    """Cache of measured sessions, context sizes, trigger firings and runtime sizes; each is None until computed."""

    def __init__(self) -> None:
        self._measured_rows: list[tuple[MeasureKey, MeasuredRows]] = []  # the newest last
        self._context_sizes: tuple[object, ContextSizes] | None = None
        self._firings: tuple[object, TriggerFirings] | None = None
        self.runtime_sizes: RuntimeSizes | None = None

    def get_measured_rows(self, view: View) -> MeasuredRows | None:
        """Return the session's sizes by the view's measure; None if not yet measured or the measure is ``bytes/4``."""
        if view.measure is TokenMeasure.OWN:
            return None
        key = _get_measure_key(view)
        return next((rows for stored_key, rows in reversed(self._measured_rows) if stored_key == key), None)

    def measure_session(self, view: View, rows: TimelineRows, checkpoint: Checkpoint = lambda: None) -> MeasuredRows:
        """Measure the view's session and store the result with *rows*; raises MeasureError if it cannot be measured."""
        if view.measure is TokenMeasure.EXACT:
            token_table = measure_exactly(view.session, checkpoint)
        else:
            token_table = build_calibrated_table(view.session.facts, checkpoint)
        return self._store_measured_rows(view, MeasuredRows(token_table, rows.with_table(token_table, checkpoint)))

    def extend_measured_rows(self, view: View, rows: TimelineRows) -> MeasuredRows | None:
        """Measure a session that has grown by reusing earlier factors; return None if there are none to reuse."""
        facts, _, measure = _get_measure_key(view)
        earlier = next(
            (rows for key, rows in reversed(self._measured_rows) if (key[0], key[2]) == (facts, measure)), None
        )
        if earlier is None or measure is not TokenMeasure.CALIBRATED or facts.holds_requests:
            return None
        token_table = build_calibrated_table(facts, earlier=earlier.token_table)
        return self._store_measured_rows(view, MeasuredRows(token_table, rows.with_table(token_table), True))

    def _store_measured_rows(self, view: View, measured: MeasuredRows) -> MeasuredRows:
        # The oldest session is dropped.
        self._measured_rows = [*self._measured_rows, (_get_measure_key(view), measured)][-MAX_MEASURED_ROWS:]
        return measured

    def get_context_sizes(self, view: View) -> ContextSizes | None:
        """Return the stored sizes, or None if none are stored for the view's context and measure."""
        key, sizes = self._context_sizes or (None, None)
        return sizes if key == _get_context_key(view) else None

    def store_context_sizes(self, view: View, sizes: ContextSizes) -> None:
        """Store the sizes for the view's context, replacing those for any other view."""
        self._context_sizes = _get_context_key(view), sizes

    def get_firings(self, view: View) -> TriggerFirings | None:
        """Return the stored firings, or None if none are stored for the view's session, policy and settings."""
        return self._firings[1] if self._firings and self._firings[0] == _get_trigger_key(view) else None

    def store_firings(self, view: View, firings: TriggerFirings) -> None:
        """Store the firings for the view's policy and settings, replacing those for any others."""
        self._firings = _get_trigger_key(view), firings


def find_first_effect(view: View, states: Sequence[RuntimeState], checkpoint: Checkpoint) -> int | None:
    """Return the first message in *states* at which the plan changes something, or None if there is none.

    The trigger must fire in all *states*. An exponential search, then a binary one, finds the message, assuming that
    the plan also changes something in every later state.
    """
    policy = POLICIES[view.policy]
    try:
        params = build_params(policy, view.get_settings(view.policy))
    except PlanError:
        return None

    def has_changes(row: int) -> bool:
        checkpoint()
        # session.context_at would drop the contexts on screen from its small cache.
        context = context_at(view.session.facts, states[row].at)
        try:
            return policy.plan(context, params, replace(states[row], firing_only=True)).has_changes
        except PlanError:
            return False

    low, high = -1, 0
    while not has_changes(high):
        if high == len(states) - 1:
            return None
        low, high = high, min(2 * high + 1, len(states) - 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if has_changes(middle) else (middle, high)
    return states[high].at


def _get_context_key(view: View) -> object:
    return view.session, view.point, view.measure


def _get_measure_key(view: View) -> MeasureKey:
    return view.session.facts, len(view.session), view.measure


def _get_trigger_key(view: View) -> object:
    return view.session, view.policy, repr(view.get_settings(view.policy))
