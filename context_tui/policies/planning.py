"""Planning of a policy on a session: ``plan`` takes names, ``build_plan`` objects."""

from __future__ import annotations

from math import inf
from typing import Any

from context_tui.compaction.plan import Plan
from context_tui.errors import PlanError
from context_tui.policies.base import Params, Policy
from context_tui.policies.registry import find_policy
from context_tui.policies.runtime_state import build_runtime_state
from context_tui.policies.versions import build_recorded_params
from context_tui.session.session import Session


def plan(
    session: Session,
    policy: str,
    *,
    at: int | None = None,
    window: int | None = None,
    idle_seconds: float | None = None,
    force: bool = False,
    firing_only: bool = False,
    **params: Any,
) -> Plan:
    """Plan the changes of *policy* to the context before message *at* (default: at the end).

    Args:
        window: the context window in tokens (default: that of the file).
        idle_seconds: for koda, the idle time (default: as recorded).
        force: plan even if koda's idle trigger does not fire.
        firing_only: if any policies of a chain fire, run only these.

    Raises:
        PlanError: no such policy, parameter or message.
    """
    found_policy = find_policy(policy)
    if window is not None:
        session = session.with_window(window)
    policy_params = build_recorded_params(found_policy, params, session.facts)
    return build_plan(
        session, found_policy, policy_params, at=at, idle_seconds=idle_seconds, force=force, firing_only=firing_only
    )


def build_plan(
    session: Session,
    policy: Policy,
    params: Params,
    *,
    at: int | None = None,
    idle_seconds: float | None = None,
    force: bool = False,
    firing_only: bool = False,
) -> Plan:
    """Plan with objects for policy and parameters; other arguments and errors are those of :func:`plan`."""
    if idle_seconds is not None and not 0 <= idle_seconds < inf:
        raise PlanError(f"idle_seconds={idle_seconds}: must be a number of seconds, 0 or more")
    context = session.context_at(at)
    state = build_runtime_state(context, session.window_at(context.at), len(session), idle_seconds, force, firing_only)
    return policy.plan(context, params, state)
