"""The policies there are, their parameters from text or keywords, and planning by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from math import inf
from typing import Any

from pydantic import ValidationError

from context_tui.compaction.plan import Plan
from context_tui.errors import PlanError
from context_tui.policies.agent_sdk_compact import AgentSdkCompact
from context_tui.policies.agent_sdk_prune import AgentSdkPrune
from context_tui.policies.base import Params, Policy
from context_tui.policies.chain import Chain
from context_tui.policies.defect_compact import DefectCompact
from context_tui.policies.defect_microcompact import DefectMicrocompact
from context_tui.policies.koda_microcompact import KodaMicrocompact
from context_tui.policies.manual import Manual
from context_tui.policies.runtime_state import runtime_state_of
from context_tui.session.session import Session

_SINGLE: list[Policy] = [
    DefectMicrocompact(),
    DefectCompact(),
    KodaMicrocompact(),
    AgentSdkPrune(),
    AgentSdkCompact(),
    Manual(),
]
POLICIES: dict[str, Policy] = {policy.name: policy for policy in _SINGLE}
POLICIES[Chain.name] = Chain(dict(POLICIES))


def policy_named(name: str) -> Policy:
    """The policy of this name.

    Raises:
        PlanError: there is none; the message names the nearest.
    """
    if name in POLICIES:
        return POLICIES[name]
    near = get_close_matches(name, POLICIES, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(POLICIES)}"
    raise PlanError(f"no policy {name!r}: {hint}")


def params_for(policy: Policy, values: Mapping[str, Any], elsewhere: Mapping[str, str] | None = None) -> Params:
    """Parameters from keywords or text; ``POLICY.KEY`` sets one of a chain's.

    Args:
        elsewhere: names that are no parameters, and what the caller's user would set them by.

    Raises:
        PlanError: a name is unknown or a value is out of its range; the message says which and what is allowed.
    """
    given: dict[str, Any] = {}
    steps: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        owner, dot, name = key.rpartition(".")
        if dot and policy.name == Chain.name:
            steps.setdefault(owner, {})[name] = value
        else:
            given[key] = value
    try:
        params = policy.Params(**given)
        if policy.name != Chain.name:
            return params
        options: dict[str, dict[str, Any]] = dict(params.options)  # type: ignore[attr-defined]
        for owner, each in steps.items():
            options[owner] = {**options.get(owner, {}), **each}
        for owner, each in options.items():
            params_for(policy_named(owner), each, elsewhere)
        return params.model_copy(update={"options": options})
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"]) or "?"
        if first["type"] == "extra_forbidden":
            near = (elsewhere or {}).get(name) or next(iter(get_close_matches(name, policy.Params.model_fields, 1)), "")
            hint = f"did you mean {near}?" if near else f"it has {', '.join(policy.Params.model_fields)}"
            raise PlanError(f"{policy.name} has no parameter {name!r}: {hint}") from None
        raise PlanError(f"{policy.name}: {name}={first['input']!r}: {_in_words(policy, name, first)}") from None


_KINDS = {"int": "a whole number", "float": "a number", "bool": "true or false"}


def _in_words(policy: Policy, name: str, error: Any) -> str:
    """What is wrong with a value, in our words where the library's are about code."""
    field = policy.Params.model_fields.get(name)
    kind = str(error["type"]).partition("_")[0]
    if field is not None and error["type"] in ("greater_than_equal", "less_than_equal", "finite_number"):
        bounds = {end: next((getattr(m, end) for m in field.metadata if hasattr(m, end)), None) for end in ("ge", "le")}
        low, high = bounds["ge"], bounds["le"]
        return f"must be {low:,} or more" if high is None else f"must be {low:,} to {high:,}"
    if kind in _KINDS:
        return f"must be {_KINDS[kind]}"
    return str(error["msg"]).removeprefix("Value error, ")


def plan(
    session: Session,
    policy: str,
    *,
    at: int | None = None,
    window: int | None = None,
    idle_seconds: float | None = None,
    force: bool = False,
    **params: Any,
) -> Plan:
    """What *policy* would do to the context before message *at* (default: at the end).

    Args:
        window: the context window in tokens, where the user knows better than the file.
        idle_seconds: for koda, instead of what the recording shows.
        force: plan even where koda's idle trigger does not fire.

    Raises:
        PlanError: no such policy, parameter or message.
    """
    chosen = policy_named(policy)
    if window is not None:
        session = session.with_window(window)
    return plan_with(session, chosen, params_for(chosen, params), at=at, idle_seconds=idle_seconds, force=force)


def plan_with(
    session: Session,
    policy: Policy,
    params: Params,
    *,
    at: int | None = None,
    idle_seconds: float | None = None,
    force: bool = False,
) -> Plan:
    """:func:`plan` with parameters that are made already, whose names may therefore be anything.

    Raises:
        PlanError: no such message, or the policy cannot plan with these parameters.
    """
    if idle_seconds is not None and not 0 <= idle_seconds < inf:
        raise PlanError(f"idle_seconds={idle_seconds}: has to be a number of seconds, 0 or more")
    context = session.context_at(at)
    state = runtime_state_of(context, session.window_at(context.at), len(session), idle_seconds, force)
    return replace(policy.plan(context, params, state), session=session)
