"""Results that are computed in threads (context sizes, runtime sizes and trigger firings), and their cache."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from context_tui.errors import PlanError
from context_tui.formats.opening import describe_request_source, list_unrecorded
from context_tui.lab.fullness import Fullness, compute_fullness
from context_tui.policies.base import Belief
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

    ``estimate_check`` is None if there is a ``token_table``, that is, if the measure is not ``bytes/4``.
    ``unrecorded`` names kinds of text that were sent in requests but are not in the file; ``lacks_requests`` is set if
    the session holds no complete requests but could get them from a known source.
    """

    breakdown: Breakdown
    estimate_check: EstimateCheck | None = None
    token_table: TokenTable | None = None
    prompt: PromptShares | None = None
    unrecorded: tuple[str, ...] = ()
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
    prompt = measure_prompt(session, context, token_table)
    fullness = compute_fullness(session, context, parts, token_table)
    unrecorded = list_unrecorded(session, context.at)
    return ContextSizes(parts, check, token_table, prompt, unrecorded, lacks_requests, fullness)


def format_estimate_error(check: EstimateCheck) -> str:
    """Format how far the estimate is off, as in ``19 % below the 515,912 recorded``; empty if the error is small."""
    if not check.is_far_off:
        return ""
    side = "below" if check.relative_error < 0 else "above"
    return f"{format_percent(abs(check.relative_error))} {side} the {check.recorded:,} recorded"


@dataclass(frozen=True)
class RuntimeSizes:
    """The context sizes that a session's runtime assumes, as far as known, keyed by the message that follows."""

    facts: Facts
    length: int
    runtime: str
    by_message: dict[int, Belief] = field(default_factory=dict)

    def covers(self, session: Session, message: int) -> bool:
        """Return whether the size before *message* has been computed; sizes stay valid when the session grows."""
        return self.facts is session.facts and message < self.length

    def format_size(self, message: int) -> str:
        """Format the size that the runtime assumes before *message*, and its source, or "" if there is none."""
        size = self.by_message.get(message)
        if size is None:
            return ""
        amount = "unknown" if size.tokens is None else f"{size.tokens:,}"
        return f"context size before this message, by runtime: {self.runtime} {amount} ({size.source})"


def compute_runtime_sizes(session: Session, checkpoint: Checkpoint = lambda: None) -> RuntimeSizes:
    """Compute the context sizes that the session's runtime assumed; the result is empty for an unknown runtime."""
    sizes = RuntimeSizes(session.facts, len(session), session.info.format)
    if policy := find_runtimes().get(sizes.runtime):
        for state in iterate_runtime_states(session, frozenset({"before_call"}), checkpoint):
            with suppress(PlanError):
                size = policy.believed_size(state)
                if size is not None and state.at < sizes.length:
                    sizes.by_message[state.at] = size
    return sizes


MAX_MEASURED_ROWS = 4
"""Maximum number of measured sessions in the cache, so that undo or a change of measure need not recompute them."""


class TriggerFirings(NamedTuple):
    """The points in a session at which a trigger begins to fire.

    ``first_effect`` is the first point at which the plan changes something, or None if it is ``points[0]``, if there is
    no such point, or if it was not searched for.
    """

    points: list[int]
    first_effect: int | None = None


MeasureKey = tuple[Facts, int, int, TokenMeasure]


class MeasuredRows(NamedTuple):
    """Token sizes of a session and its rows; provisional if the session has grown since factors were computed."""

    token_table: TokenTable
    rows: TimelineRows
    is_provisional: bool = False


class AnalysisCache:
    """Cache of measured sessions, context sizes, trigger firings and runtime sizes; None for what is not computed."""

    def __init__(self) -> None:
        self._measured_rows: list[tuple[MeasureKey, MeasuredRows]] = []  # the newest last
        self._context_sizes: tuple[object, ContextSizes] | None = None
        self._firings: tuple[object, TriggerFirings] | None = None
        self.runtime_sizes: RuntimeSizes | None = None

    def get_measured_rows(self, view: View) -> MeasuredRows | None:
        """Return the session's sizes by the view's measure, or None if that is ``bytes/4`` or not computed yet."""
        if view.measure is TokenMeasure.OWN:
            return None
        key = _get_measure_key(view)
        return next((rows for stored_key, rows in reversed(self._measured_rows) if stored_key == key), None)

    def measure_session(self, view: View, rows: TimelineRows, checkpoint: Checkpoint = lambda: None) -> MeasuredRows:
        """Measure the view's session and *rows*, and store and return the result; raises MeasureError on failure."""
        if view.measure is TokenMeasure.EXACT:
            token_table = measure_exactly(view.session, checkpoint)
        else:
            token_table = build_calibrated_table(view.session.facts, checkpoint)
        return self._store_measured_rows(view, MeasuredRows(token_table, rows.with_table(token_table, checkpoint)))

    def extend_measured_rows(self, view: View, rows: TimelineRows) -> MeasuredRows | None:
        """Measure a session that has grown, using factors computed earlier; return None if there are none to reuse."""
        facts, measure = view.session.facts, view.measure
        same_facts = (rows for key, rows in reversed(self._measured_rows) if (key[0], key[-1]) == (facts, measure))
        earlier = next(same_facts, None)
        if earlier is None or measure is not TokenMeasure.CALIBRATED or facts.holds_requests:
            return None
        token_table = build_calibrated_table(facts, earlier=earlier.token_table)
        return self._store_measured_rows(view, MeasuredRows(token_table, rows.with_table(token_table), True))

    def _store_measured_rows(self, view: View, measured: MeasuredRows) -> MeasuredRows:
        # The oldest session is dropped.
        self._measured_rows = [*self._measured_rows, (_get_measure_key(view), measured)][-MAX_MEASURED_ROWS:]
        return measured

    def get_context_sizes(self, view: View) -> ContextSizes | None:
        """Return the sizes stored for the view's context and measure, or None if there are none."""
        key, sizes = self._context_sizes or (None, None)
        return sizes if key == _get_context_key(view) else None

    def store_context_sizes(self, view: View, sizes: ContextSizes) -> None:
        """Store the sizes for the view's context, replacing those for any other view."""
        self._context_sizes = _get_context_key(view), sizes

    def get_firings(self, view: View) -> TriggerFirings | None:
        """Return the firings stored for the view's session, policy and settings, or None if there are none."""
        return self._firings[1] if self._firings and self._firings[0] == _get_trigger_key(view) else None

    def store_firings(self, view: View, firings: TriggerFirings) -> None:
        """Store the firings for the view's policy and settings, replacing those for any others."""
        self._firings = _get_trigger_key(view), firings


def find_first_effect(view: View, states: Sequence[RuntimeState], checkpoint: Checkpoint) -> int | None:
    """Return the first message in *states* at which the plan changes something, or None if there is none.

    The trigger must fire in all *states*. The message is found by exponential and binary search, which assume that the
    plan also changes something in every later state.
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
    return states[low + 1 + bisect_left(range(low + 1, high), True, key=has_changes)].at


def _get_context_key(view: View) -> object:
    return view.session, view.point, view.measure


def _get_measure_key(view: View) -> MeasureKey:
    return view.session.facts, len(view.session), view.session.block_count, view.measure


def _get_trigger_key(view: View) -> object:
    return view.session, view.policy, repr(view.get_settings(view.policy))
