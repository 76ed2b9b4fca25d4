"""Planning: ``build_plan`` takes a session, a policy and its parameters; ``plan`` takes them by name."""

from __future__ import annotations

from math import inf
from typing import Any

from context_tui.compaction.plan import Plan
from context_tui.errors import PlanError
from context_tui.policies.base import Params, Policy
from context_tui.policies.parameter_space import build_params
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
    """Plan what *policy* would do to the context before message *at* (default: at the end).

    Args:
        window: the context window in tokens, where the user knows better than the file.
        idle_seconds: for koda, instead of what the recording shows.
        force: plan even where koda's idle trigger does not fire.
        firing_only: of the policies of a chain, run only those that fire, where one does.

    Raises:
        PlanError: no such policy, parameter or message.
    """
    chosen = find_policy(policy)
    if window is not None:
        session = session.with_window(window)
    return build_plan(
        session,
        chosen,
        build_params(chosen, params),
        at=at,
        idle_seconds=idle_seconds,
        force=force,
        firing_only=firing_only,
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
    """:func:`plan` with parameters that are made already, whose names may therefore be anything.

    Raises:
        PlanError: no such message, or the policy cannot plan with these parameters.
    """
    if idle_seconds is not None and not 0 <= idle_seconds < inf:
        raise PlanError(f"idle_seconds={idle_seconds}: must be a number of seconds, 0 or more")
    context = session.context_at(at)
    state = build_runtime_state(context, session.window_at(context.at), len(session), idle_seconds, force, firing_only)
    return policy.plan(context, params, state)
