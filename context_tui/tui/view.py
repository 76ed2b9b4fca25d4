"""Immutable state of the inspector: the view, its saved settings, and the last applied plan."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from context_tui.app.state import InspectorState
from context_tui.compaction.apply import iterate_result_entries
from context_tui.compaction.next_request import compute_next_request
from context_tui.compaction.plan import ACTION_PAST_TENSE, Plan
from context_tui.errors import PlanError
from context_tui.policies.base import Params, Policy, find_nested_field, is_session_bound, list_nested_policies
from context_tui.policies.parameter_space import build_params, find_changed_values
from context_tui.policies.parameters import format_assignments, parse_assignments
from context_tui.policies.registry import DEFAULT_POLICY, MANUAL_POLICY, POLICIES, list_policy_names
from context_tui.policies.runtime_state import RuntimeState, build_runtime_state
from context_tui.policies.versions import find_own_policies, find_recorded_params
from context_tui.session.context import Context
from context_tui.session.session import Session
from context_tui.session.values import Checkpoint, Kind
from context_tui.session.window import Window
from context_tui.text.numbers import format_count
from context_tui.tokens.context_index import index_context
from context_tui.tokens.context_size import measure_context
from context_tui.tokens.measures import TokenMeasure, TokenTable
from context_tui.tui.rendering.formatting import format_estimate_sign
from context_tui.tui.timeline.filters import NO_FILTER, NO_FOLDS, RowFilter, TurnFolds
from context_tui.tui.timeline.rows import FIRST_LOCATION, Location

CURVE_SLICE = 10
"""Number of values of a setting whose plans are estimated at once."""
MIN_MEASURED_PLANS = 7
"""Minimum number of plans over the range of a setting whose next request is measured, if there are as many."""
MAX_MEASURED_MESSAGES = 200_000
"""Maximum number of messages in the contexts of all these plans, unless there are fewer plans than the minimum."""


class AppliedPlan(NamedTuple):
    """Record of an applied plan; ``marks`` has verdicts such as ``cleared``, keyed by the block's row in the copy."""

    policy: str
    summary: str
    marks: Mapping[int, str]


class PlanCache:
    """Plans and runtime states that views have computed, freed together with the last of these views."""

    def __init__(self) -> None:
        self.compute_runtime_state = lru_cache(maxsize=4)(_compute_forced_state)
        self.compute_plan = lru_cache(maxsize=24)(self._compute_plan)

    def _compute_plan(self, session: Session, point: int, policy: str, settings: str) -> Plan | PlanError:
        definition, context = POLICIES[policy], session.context_at(point)
        try:
            params = build_params(definition, json.loads(settings))
            return definition.plan(context, params, self.compute_runtime_state(session, point))
        except PlanError as error:
            return error


def _compute_forced_state(session: Session, point: int) -> RuntimeState:
    """Build the runtime state for a forced plan at *point*; if a step of a chain fires, only firing steps run."""
    context, window = session.context_at(point), session.window_at(point)
    return build_runtime_state(context, window, len(session), forced=True, firing_only=True)


@dataclass(frozen=True, eq=False)
class View:
    """State of the screen: a session, the point to plan for, a policy with its settings, and the listing.

    Attributes:
        at: message before which the policy plans; None means the end of the session.
        params: values that differ from the defaults, keyed by policy.
        named_policies: policies that the user has named or chosen; they stay listed.
        undo_stack, redo_stack: views from before each applied plan, and views that were undone; newest last.
        applied: plan that was just applied; None once a policy or setting is chosen.
    """

    session: Session
    at: int | None = None
    policy: str = DEFAULT_POLICY
    params: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    named_policies: tuple[str, ...] = ()
    filter: RowFilter = NO_FILTER
    by_size: bool = False
    folds: TurnFolds = NO_FOLDS
    cursor: Location = FIRST_LOCATION
    undo_stack: tuple[View, ...] = ()
    redo_stack: tuple[View, ...] = ()
    applied: AppliedPlan | None = None
    is_exported: bool = False
    measure: TokenMeasure = TokenMeasure.CALIBRATED
    cache: PlanCache = field(default_factory=PlanCache, repr=False)

    @property
    def point(self) -> int:
        """Message before which the policy plans; equal to the number of messages when planning at the end."""
        return len(self.session) if self.at is None else min(self.at, len(self.session))

    @property
    def context(self) -> Context:
        """The messages in the model's context just before ``point``."""
        return self.session.context_at(self.point)

    @property
    def window(self) -> Window:
        """The model's context window at ``point``."""
        return self.session.window_at(self.point)

    @property
    def plan(self) -> Plan | None:
        """The chosen policy's plan, or None if a plan was just applied or ``plan_error`` is not empty."""
        plan = None if self.applied else self.try_plan(self.policy)
        return None if isinstance(plan, PlanError) else plan

    @property
    def plan_error(self) -> str:
        """Reason why the chosen policy cannot plan here; empty if it can, or if a plan was just applied."""
        plan = None if self.applied else self.try_plan(self.policy)
        return str(plan) if isinstance(plan, PlanError) else ""

    @property
    def listed_policies(self) -> list[str]:
        """Policies shown side by side: the agent's own, or else general ones, then those that the user has named."""
        names = [*find_own_policies(self.session).values()] or list_policy_names()
        return [*dict.fromkeys((*names, *self.named_policies, self.policy))]

    def try_plan(self, policy: str) -> Plan | PlanError:
        """Return the plan that *policy* makes with its present settings, or the error if it cannot plan here."""
        settings = json.dumps(self.get_settings(policy), sort_keys=True)
        return self.cache.compute_plan(self.session, self.point, policy, settings)

    @property
    def policy_params(self) -> Params:
        """The chosen policy's parameters; the defaults if the present settings are not valid."""
        if (plan := self.plan) is not None:
            return plan.params  # type: ignore[return-value]
        try:
            return build_params(POLICIES[self.policy], self.get_settings(self.policy))
        except PlanError:
            return POLICIES[self.policy].Params()

    @property
    def runtime_state(self) -> RuntimeState:
        """State that an agent's runtime would have at ``point`` if it were asked to compact there."""
        return self.cache.compute_runtime_state(self.session, self.point)

    def compute_curve(
        self, name: str, values: Sequence[Any], table: TokenTable | None, checkpoint: Checkpoint = lambda: None
    ) -> list[int]:
        """Return the size of the next request for each value of the setting *name*; 0 where no plan is possible.

        The present plan and those of other values are measured by *table*. Of a large session these are only a few;
        the other sizes are interpolated between them, by the size that the policy computes (``bytes/4``).
        """
        tokens_after = list[int]()
        for start in range(0, len(values), CURVE_SLICE):
            tokens_after += self._estimate_curve(name, values[start : start + CURVE_SLICE])
            checkpoint()
        view, value_by_tokens = replace(self, cache=PlanCache()), dict(zip(tokens_after, values, strict=True))
        distinct = sorted(tokens for tokens in value_by_tokens if tokens >= 0)
        count = max(MAX_MEASURED_MESSAGES // max(len(self.context), 1), MIN_MEASURED_PLANS)
        places = {number * (len(distinct) - 1) // (count - 1) for number in range(count)} if distinct else ()
        others = (view.with_param(self.policy, name, value_by_tokens[distinct[place]]) for place in places)
        known = dict[int, int]()
        for plan in (each.plan for each in (*others, self)):
            checkpoint()
            if plan:
                known[plan.tokens_after] = compute_next_request(plan, token_table=table).tokens_after
        points = sorted(known.items())
        return [_interpolate(points, tokens) if tokens >= 0 else 0 for tokens in tokens_after]

    def _estimate_curve(self, name: str, values: Sequence[Any]) -> list[int]:
        """Return the tokens that each plan leaves by the policy's estimate; -1 where no plan is possible."""
        try:
            return POLICIES[self.policy].curve(self.context, self.policy_params, self.runtime_state, name, values)
        except PlanError:
            if len(values) == 1:
                return [-1]
            return [tokens for value in values for tokens in self._estimate_curve(name, [value])]

    def get_settings(self, policy: str) -> dict[str, Any]:
        """Return the settings that differ from a policy's defaults, including those of policies nested in a chain.

        An agent's preset takes the values of the version that recorded the session, unless the user changed them.
        """
        values = {**find_recorded_params(policy, self.session.facts), **self.params.get(policy, {})}
        definition = POLICIES[policy]
        if nested := find_nested_field(definition):
            names = list_nested_policies(definition, build_params(definition, values))
            if options := {name: dict(self.params[name]) for name in names if self.params.get(name)}:
                values[nested] = options
        return values

    @property
    def is_unexported(self) -> bool:
        """Whether the session is a compacted copy that would be lost because it was not exported."""
        return bool(self.session.origin) and not self.is_exported

    def find_counterpart(self, location: Location) -> Location | None:
        """Return the location of a call's tool result, or of a tool result's call; None if there is no counterpart."""
        facts = self.session.facts
        if location.block >= 0:
            call = facts.find_tool_use(location.block)
            return Location(facts.block_message[call]) if call >= 0 else None
        for block in facts.blocks_of(location.message):
            if facts.kind[block] == Kind.TOOL_USE and (result := facts.find_tool_result(block)) >= 0:
                return Location(facts.block_message[result], result)
        return None

    # Commands: each returns a new view.

    def with_policy(self, policy: str) -> View:
        """Return a view that plans with *policy* and keeps it in the list of policies."""
        return replace(self, policy=policy, named_policies=(*self.named_policies, policy), applied=None)

    def with_param(self, policy: str, name: str, value: Any) -> View:
        """Return a view with a changed setting; the *name* ``A.b`` means setting ``b`` of the nested policy ``A``."""
        nested_policy, dot, nested_name = name.rpartition(".")
        if dot and nested_policy in POLICIES:
            policy, name = nested_policy, nested_name
        values = {key: old_value for key, old_value in self.params.get(policy, {}).items() if key != name}
        default = POLICIES[policy].Params.model_fields[name].get_default()
        if value != find_recorded_params(policy, self.session.facts).get(name, default):
            values[name] = value
        return replace(self, params={**self.params, policy: values}, applied=None)

    def with_point(self, at: int | None) -> View:
        """Return a view that plans before message *at*; None, or a number past the last message, means the end."""
        at = None if at is None or at >= len(self.session) else max(at, 0)
        return replace(self, at=at)

    def with_session(self, session: Session) -> View:
        """Return a view of *session*, which continues the present one, keeping the window size set by the user."""
        window = self.session.window_override
        return replace(self, session=session if session.window_override == window else session.with_window(window))

    def with_window(self, tokens: int | None) -> View:
        """Return a view with a context window of *tokens*, or of the session's own size if *tokens* is None."""
        return replace(self, session=self.session.with_window(tokens))

    def with_copy(self, session: Session, applied: AppliedPlan, cursor: Location) -> View:
        """Return a view of *session*, the copy made by applying a plan; its ``undo_plan`` returns to this view."""
        params = {name: values for name, values in self.params.items() if not is_session_bound(POLICIES[name])}
        folds = self.folds if len(session) == len(self.session) else replace(self.folds, turns=frozenset())
        copy = View(session, policy=self.policy, params=params, folds=folds, cursor=cursor, measure=self.measure)
        return replace(copy, named_policies=self.named_policies, applied=applied, undo_stack=(*self.undo_stack, self))

    def undo_plan(self) -> View | None:
        """Return the view from before the last applied plan, or None if there is nothing to undo."""
        if not self.undo_stack:
            return None
        return replace(self.undo_stack[-1], redo_stack=(*self.redo_stack, self), measure=self.measure)

    def redo_plan(self) -> View | None:
        """Return the view that was undone last, or None if there is nothing to redo."""
        if not self.redo_stack:
            return None
        return replace(self.redo_stack[-1], redo_stack=self.redo_stack[:-1], measure=self.measure)

    def toggle_mark(self, location: Location) -> View:
        """Return a view with the manual policy that marks a tool result for clearing, or removes its mark."""
        facts = self.session.facts
        result = (location.message, list(facts.blocks_of(location.message)).index(location.block))
        results = tuple(self.params.get(MANUAL_POLICY, {}).get("clear", ()))
        results = tuple(each for each in results if each != result) if result in results else (*results, result)
        return self.with_param(MANUAL_POLICY, "clear", results).with_policy(MANUAL_POLICY)

    def toggle_cut(self, message: int) -> View:
        """Return a view with the manual policy that cuts before *message*, or removes the cut if it is there."""
        cut = self.params.get(MANUAL_POLICY, {}).get("cut")
        return self.with_param(MANUAL_POLICY, "cut", None if cut == message else message).with_policy(MANUAL_POLICY)


def _interpolate(known: list[tuple[int, int]], tokens: int) -> int:
    """Return the value at *tokens* of the line through the two nearest *known* points, which ascend, or 0 if none."""
    if len(known) < 2:
        return known[0][1] if known else 0
    end = min(max(bisect_left(known, (tokens, 0)), 1), len(known) - 1)
    (left, low), (right, high) = known[end - 1 : end + 1]
    return low + round((high - low) * (tokens - left) / (right - left))


PolicySettings = Mapping[str, Mapping[str, Any]]


def find_initial_policy(session: Session) -> str:
    """Return the policy to show first for a session: its agent's first own policy, or the default if it has none."""
    return next(iter(find_own_policies(session).values()), DEFAULT_POLICY)


def restore_settings(state: InspectorState, session: Session) -> tuple[str, PolicySettings]:
    """Return the policy saved for the session's agent, and all saved settings that are still valid."""
    settings: dict[str, Mapping[str, Any]] = {}
    for name, texts in state.settings.items():
        if name in POLICIES:
            try:
                settings |= find_changed_values(POLICIES[name], build_params(POLICIES[name], parse_assignments(texts)))
            except PlanError:
                continue
    policy = state.policies.get(session.info.format, "")
    return (policy if policy in POLICIES else find_initial_policy(session)), settings


def build_inspector_state(view: View, policies: Mapping[str, str], *, breakdown: bool) -> InspectorState:
    """Build the state to save, without session-bound settings; *policies* are those saved earlier, keyed by agent."""
    agent = view.session.info.format
    policies = {name: policy for name, policy in policies.items() if name != agent}
    if view.policy != find_initial_policy(view.session):
        policies[agent] = view.policy
    settings = {
        name: tuple(format_assignments(values))
        for name, values in view.params.items()
        if values and not is_session_bound(POLICIES[name])
    }
    return InspectorState(policies, settings, breakdown)


def format_settings(settings: PolicySettings) -> str:
    """Format the changed settings of all policies on one line, or return "" if there are none."""
    # Formatted like the nested settings of a chain, which include the names of policies.
    return ", ".join(format_assignments({"": settings}))


def describe_applied_plan(
    plan: Plan, copy: Session, cursor: Location, token_table: TokenTable | None
) -> tuple[AppliedPlan, Location]:
    """Return a record of an applied plan, and the location in the compacted *copy* that corresponds to *cursor*."""
    entries = list(iterate_result_entries(plan))
    order = [entry if isinstance(entry, int) else -1 for entry in entries]
    new_message = {message: index for index, message in enumerate(order) if message >= 0}
    changed_messages = {plan.context.facts.block_message[row] for row in plan.changes}
    marks: dict[int, str] = {}
    for message in changed_messages & new_message.keys():
        for old_row, new_row in _map_rows(plan, copy, message, new_message[message]).items():
            if old_row in plan.changes:
                marks[new_row] = ACTION_PAST_TENSE[plan.changes[old_row].action]
    applied = AppliedPlan(plan.policy, _format_summary(plan, marks, copy, token_table), MappingProxyType(marks))
    if cursor.message in new_message:
        message = new_message[cursor.message]
        new_rows = _map_rows(plan, copy, cursor.message, message)
        return applied, Location(message, new_rows.get(cursor.block, min(cursor.block, -1)))
    position = index_context(plan.context).position_of.get(cursor.message, -1)
    if plan.find_action(position) == "summarise" and plan.summary_insert in entries:
        return applied, Location(entries.index(plan.summary_insert))
    next_message = next((index for index, message in enumerate(order) if message > cursor.message), len(order))
    return applied, Location(max(next_message - 1, 0))


def _map_rows(plan: Plan, copy: Session, message: int, new_message: int) -> dict[int, int]:
    kept_rows = []
    for row in plan.context.facts.blocks_of(message):
        change = plan.changes.get(row)
        body = change.body if change else plan.context.replacements.get(row)
        if body is None or not body.removed:
            kept_rows.append(row)
    return dict(zip(kept_rows, copy.facts.blocks_of(new_message), strict=True))


def _format_summary(plan: Plan, marks: Mapping[int, str], copy: Session, token_table: TokenTable | None) -> str:
    effects = [f"{format_count(count, 'block')} {verdict}" for verdict, count in Counter(marks.values()).items()]
    if plan.messages_dropped:
        verb = "summarised" if plan.needs_summary else "dropped"
        effects.append(f"{format_count(plan.messages_dropped, 'message')} {verb}")
    request = compute_next_request(plan, token_table=token_table)
    sizes = f"{format_estimate_sign(request)}{request.tokens_before:,} → ~{measure_context(copy.context_at()).tokens:,}"
    return ", ".join([f"next request {sizes} tokens", *effects])


def format_policy_tooltip(name: str, policy: Policy) -> str:
    """Format a sentence on the effect of choosing a policy, for the help and the command palette."""
    return f"Plan with {name}: {policy.about.partition(': ')[2] or policy.about}"
