"""Immutable state of the inspector: the view, its restored settings, and the plan applied last."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from context_tui.app.state import InspectorState
from context_tui.compaction.apply import iterate_result_entries
from context_tui.compaction.next_request import NextRequest, compute_current_size
from context_tui.compaction.plan import ACTION_PAST_TENSE, Plan
from context_tui.errors import PlanError
from context_tui.policies.base import Params, Policy, find_nested_field, is_session_bound, list_nested_policies
from context_tui.policies.parameter_space import build_params, find_changed_values
from context_tui.policies.parameters import format_assignments, parse_assignments
from context_tui.policies.registry import DEFAULT_POLICY, MANUAL_POLICY, POLICIES
from context_tui.policies.runtime_state import RuntimeState, build_runtime_state
from context_tui.session.context import Context
from context_tui.session.session import Session
from context_tui.session.values import Kind
from context_tui.session.window import Window
from context_tui.tokens.context_index import index_context
from context_tui.tokens.measures import TokenMeasure
from context_tui.tui.rendering.formatting import format_estimate_sign, pluralize
from context_tui.tui.timeline.filters import NO_FILTER, NO_FOLDS, RowFilter, TurnFolds
from context_tui.tui.timeline.rows import FIRST_LOCATION, Location


@dataclass(frozen=True)
class AppliedPlan:
    """Result of an applied plan: its policy, a summary, and the verdict by row of the copy's changed blocks."""

    policy: str
    summary: str
    marks: Mapping[int, str]


@dataclass(frozen=True, eq=False)
class View:
    """State of the screen: a session, the point to plan for, a policy with its settings, and the listing.

    ``at`` None is the end. ``params`` holds, per policy, the values that differ from the defaults. ``undo_stack`` and
    ``redo_stack`` hold whole views: undo returns to the view before a plan was applied. ``applied`` is shown in place
    of a plan until a policy is chosen again. ``measure`` is the token measure of the sizes.
    """

    session: Session
    at: int | None = None
    policy: str = DEFAULT_POLICY
    params: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    filter: RowFilter = NO_FILTER
    by_size: bool = False
    folds: TurnFolds = NO_FOLDS
    cursor: Location = FIRST_LOCATION
    undo_stack: tuple[View, ...] = ()
    redo_stack: tuple[View, ...] = ()
    applied: AppliedPlan | None = None
    is_exported: bool = False
    measure: TokenMeasure = TokenMeasure.OWN

    @property
    def point(self) -> int:
        """Message index before which the policy plans; the number of messages at the end."""
        return len(self.session) if self.at is None else min(self.at, len(self.session))

    @property
    def context(self) -> Context:
        """Context at the point."""
        return self.session.context_at(self.point)

    @property
    def window(self) -> Window:
        """Context window at the point, which is that of the model in use there."""
        return self.session.window_at(self.point)

    @property
    def plan(self) -> Plan | None:
        """Plan of the chosen policy; None after a plan was applied, or if the settings allow none (``plan_error``)."""
        return None if self.applied else self.get_plan(self.policy)

    @property
    def plan_error(self) -> str:
        """Reason why there is no plan; empty if there is one."""
        return "" if self.applied else self.get_plan_error(self.policy)

    def get_plan(self, policy: str) -> Plan | None:
        """Return the plan of *policy* with its settings, or None."""
        result = self._plan(policy)
        return None if isinstance(result, PlanError) else result

    def get_plan_error(self, policy: str) -> str:
        """Return the reason why *policy* has no plan; empty if it has one."""
        result = self._plan(policy)
        return str(result) if isinstance(result, PlanError) else ""

    def _plan(self, policy: str) -> Plan | PlanError:
        settings = json.dumps(self.get_settings(policy), sort_keys=True)
        return _compute_plan(self.session, self.point, policy, settings)

    @property
    def policy_params(self) -> Params:
        """Parameters of the chosen policy."""
        plan = self.plan
        if plan is not None:
            return plan.params  # type: ignore[return-value]
        try:
            return build_params(POLICIES[self.policy], self.get_settings(self.policy))
        except PlanError:
            return POLICIES[self.policy].Params()

    @property
    def runtime_state(self) -> RuntimeState:
        """State that a runtime would have at the point."""
        return _compute_runtime_state(self.session, self.point)

    def compute_curve(self, name: str, values: Sequence[Any]) -> list[int]:
        """Compute the tokens after the plan for each value of a setting; 0 for a value that allows no plan."""
        try:
            return POLICIES[self.policy].curve(self.context, self.policy_params, self.runtime_state, name, values)
        except PlanError:
            alone = [self.compute_curve(name, [value]) for value in values] if len(values) > 1 else [[0]]
            return [after for each in alone for after in each]

    def get_settings(self, policy: str) -> dict[str, Any]:
        """Return the values of a policy that differ from its defaults, with those of nested policies of a chain."""
        values = dict(self.params.get(policy, {}))
        definition = POLICIES[policy]
        if nested := find_nested_field(definition):
            names = list_nested_policies(definition, build_params(definition, values))
            options = {name: dict(self.params[name]) for name in names if self.params.get(name)}
            if options:
                values[nested] = options
        return values

    @property
    def is_unexported(self) -> bool:
        """Whether an applied result would be lost on quitting."""
        return bool(self.session.origin) and not self.is_exported

    def find_counterpart(self, location: Location) -> Location | None:
        """Find the result of a call, or the call of a result; None for other locations."""
        facts = self.session.facts
        if location.block >= 0:
            use = facts.tool_use_of(location.block)
            return Location(facts.block_message[use]) if use >= 0 else None
        for block in facts.blocks_of(location.message):
            if facts.kind[block] == Kind.TOOL_USE and (result := facts.tool_result_of(block)) >= 0:
                return Location(facts.block_message[result], result)
        return None

    # Commands: each returns a new view.

    def with_policy(self, policy: str) -> View:
        """Choose another policy."""
        return replace(self, policy=policy, applied=None)

    def with_param(self, policy: str, name: str, value: Any) -> View:
        """Change one setting; a value equal to the default is removed. ``A.b`` is setting b of the nested policy A."""
        owner, dot, inner = name.rpartition(".")
        if dot and owner in POLICIES:
            policy, name = owner, inner
        values = {key: old for key, old in self.params.get(policy, {}).items() if key != name}
        if value != POLICIES[policy].Params.model_fields[name].get_default():
            values[name] = value
        return replace(self, params={**self.params, policy: values}, applied=None)

    def with_point(self, at: int | None) -> View:
        """Plan before another message; None or an index past the last message is the end."""
        at = None if at is None or at >= len(self.session) else max(at, 0)
        return replace(self, at=at)

    def with_session(self, session: Session) -> View:
        """Replace the session by a longer snapshot of it; a window set by the user stays."""
        window = self.session.window_override
        return replace(self, session=session if session.window_override == window else session.with_window(window))

    def with_window(self, tokens: int | None) -> View:
        """Set the context window."""
        return replace(self, session=self.session.with_window(tokens))

    def with_copy(self, session: Session, applied: AppliedPlan, cursor: Location) -> View:
        """Return the view of the copy made by applying a plan; this view goes onto its undo stack."""
        params = {name: values for name, values in self.params.items() if not is_session_bound(POLICIES[name])}
        folds = self.folds if len(session) == len(self.session) else replace(self.folds, turns=frozenset())
        copy = View(session, policy=self.policy, params=params, folds=folds, cursor=cursor, measure=self.measure)
        return replace(copy, applied=applied, undo_stack=(*self.undo_stack, self))

    def undo_plan(self) -> View | None:
        """Return the view before the last applied plan, or None."""
        if not self.undo_stack:
            return None
        return replace(self.undo_stack[-1], redo_stack=(*self.redo_stack, self), measure=self.measure)

    def redo_plan(self) -> View | None:
        """Return the view that was undone last, or None."""
        if not self.redo_stack:
            return None
        return replace(self.redo_stack[-1], redo_stack=self.redo_stack[:-1], measure=self.measure)

    def toggle_mark(self, location: Location) -> View:
        """Choose the manual policy and mark a tool result to be cleared, or remove its mark."""
        facts = self.session.facts
        mark = (location.message, list(facts.blocks_of(location.message)).index(location.block))
        marks = tuple(self.params.get(MANUAL_POLICY, {}).get("clear", ()))
        marks = tuple(each for each in marks if each != mark) if mark in marks else (*marks, mark)
        return self.with_param(MANUAL_POLICY, "clear", marks).with_policy(MANUAL_POLICY)

    def toggle_cut(self, message: int) -> View:
        """Choose the manual policy and set the cut before *message*, or remove it."""
        cut = self.params.get(MANUAL_POLICY, {}).get("cut")
        return self.with_param(MANUAL_POLICY, "cut", None if cut == message else message).with_policy(MANUAL_POLICY)


@lru_cache(maxsize=4)
def _compute_runtime_state(session: Session, point: int) -> RuntimeState:
    """Build the state of a runtime for a forced plan; a chain runs only the policies that fire, if any does."""
    return build_runtime_state(
        session.context_at(point), session.window_at(point), len(session), forced=True, firing_only=True
    )


@lru_cache(maxsize=24)
def _compute_plan(session: Session, point: int, policy: str, settings: str) -> Plan | PlanError:
    """Compute the plan for settings, given as JSON, or the error that prevents it."""
    definition, context = POLICIES[policy], session.context_at(point)
    try:
        params = build_params(definition, json.loads(settings))
        return definition.plan(context, params, _compute_runtime_state(session, point))
    except PlanError as error:
        return error


def clear_plan_cache() -> None:
    """Clear the caches, which hold references to sessions."""
    _compute_plan.cache_clear()
    _compute_runtime_state.cache_clear()


PolicySettings = Mapping[str, Mapping[str, Any]]


def restore_settings(state: InspectorState) -> tuple[str, PolicySettings]:
    """Return the saved policy and the settings by policy, without unknown policies and invalid settings."""
    settings: dict[str, Mapping[str, Any]] = {}
    for name, texts in state.settings.items():
        if name in POLICIES:
            try:
                settings |= find_changed_values(POLICIES[name], build_params(POLICIES[name], parse_assignments(texts)))
            except PlanError:
                continue
    return (state.policy if state.policy in POLICIES else DEFAULT_POLICY), settings


def build_inspector_state(view: View, *, breakdown: bool) -> InspectorState:
    """Build the state to save; settings bound to one session, such as manual marks, are left out."""
    settings = {
        name: tuple(format_assignments(values))
        for name, values in view.params.items()
        if values and not is_session_bound(POLICIES[name])
    }
    return InspectorState(view.policy, settings, breakdown)


def format_settings(settings: PolicySettings) -> str:
    """Format settings on one line; empty if all are defaults."""
    # In the form of a chain's settings, with the names of the policies.
    return ", ".join(format_assignments({"": settings}))


def describe_applied_plan(plan: Plan, copy: Session, cursor: Location) -> tuple[AppliedPlan, Location]:
    """Describe *plan*, which made *copy*, and find the location in the copy that corresponds to *cursor*."""
    entries = list(iterate_result_entries(plan))
    order = [each if isinstance(each, int) else -1 for each in entries]
    place = {message: index for index, message in enumerate(order) if message >= 0}
    changed_messages = {plan.context.facts.block_message[row] for row in plan.changes}
    marks: dict[int, str] = {}
    for message in changed_messages & place.keys():
        for old, new in _map_rows(plan, copy, message, place[message]).items():
            if old in plan.changes:
                marks[new] = ACTION_PAST_TENSE[plan.changes[old].action]
    applied = AppliedPlan(plan.policy, _format_summary(plan, marks, copy), MappingProxyType(marks))
    if cursor.message in place:
        index = place[cursor.message]
        rows = _map_rows(plan, copy, cursor.message, index)
        return applied, Location(index, rows.get(cursor.block, min(cursor.block, -1)))
    position = index_context(plan.context).position_of.get(cursor.message, -1)
    if plan.find_action(position) == "summarise" and plan.summary_insert in entries:
        return applied, Location(entries.index(plan.summary_insert))
    following = next((at for at, message in enumerate(order) if message > cursor.message), len(order))
    return applied, Location(max(following - 1, 0))


def _map_rows(plan: Plan, copy: Session, message: int, index: int) -> dict[int, int]:
    """Map the rows of a message's blocks that remain to their rows in the copy."""
    remaining, new = [], copy.facts.blocks_of(index)
    for row in plan.context.facts.blocks_of(message):
        change = plan.changes.get(row)
        body = change.body if change else plan.context.replacements.get(row)
        if body is None or not body.removed:
            remaining.append(row)
    return dict(zip(remaining, new, strict=True))


def _format_summary(plan: Plan, marks: Mapping[int, str], copy: Session) -> str:
    effects = [f"{pluralize(count, 'block')} {word}" for word, count in Counter(marks.values()).items()]
    if plan.messages_dropped:
        verb = "summarised" if plan.needs_summary else "dropped"
        effects.append(f"{pluralize(plan.messages_dropped, 'message')} {verb}")
    before, now = NextRequest(compute_current_size(plan.context)), compute_current_size(copy.context_at()).tokens
    sizes = f"{format_estimate_sign(before)}{before.tokens_before:,} → ~{now:,}"
    return ", ".join([f"next request {sizes} tokens", *effects])


MAX_POLICY_DIGIT = 9
"""Number of policies that a digit chooses; others are chosen by arrows, clicks or in the command palette."""


def format_policy_digits(count: int) -> str:
    """Format the digits that choose one of *count* policies."""
    return f"1–{min(count, MAX_POLICY_DIGIT)}"


def format_policy_tooltip(name: str, policy: Policy) -> str:
    """Describe the choice of a policy, for help and the command palette."""
    return f"Plan with {name}: {policy.about.partition(': ')[2] or policy.about}"
