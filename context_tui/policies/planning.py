"""Planning of one policy for one session: ``plan`` takes names and values, ``build_plan`` takes objects."""

from __future__ import annotations

from math import inf
from typing import Any

from context_tui.compaction.plan import Plan
from context_tui.errors import PlanError
from context_tui.policies.base import Params, Policy
from context_tui.policies.parameter_space import build_recorded_params
from context_tui.policies.registry import find_policy
from context_tui.policies.runtime_state import build_runtime_state
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
    """Plan the changes that *policy* would make to the context before message *at* (default: at the end).

    Args:
        window: the context window in tokens (default: that of the file).
        idle_seconds: for koda, the idle time (default: as recorded).
        force: plan even if koda's idle time is too short to fire.
        firing_only: in a chain, run only the policies that fire, if any of them do.

    Raises PlanError if the policy, a parameter or the message does not exist.
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
    """Plan with policy and parameter objects; see :func:`plan` for the other arguments and the errors."""
    if idle_seconds is not None and not 0 <= idle_seconds < inf:
        raise PlanError(f"idle_seconds={idle_seconds}: must be a number of seconds, 0 or more")
    context = session.context_at(at)
    state = build_runtime_state(context, session.window_at(context.at), len(session), idle_seconds, force, firing_only)
    return policy.plan(context, params, state)
