"""The agents' own policies in each version, and the parameters that a policy had when a session was recorded."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any, NamedTuple

from pydantic import BaseModel

from context_tui.policies.parameters import format_assignments
from context_tui.policies.registry import POLICIES
from context_tui.session.facts import Facts
from context_tui.session.session import Session
from context_tui.text.files import read_toml
from context_tui.text.numbers import format_count

_TABLES = read_toml("context_tui.policies", "versions.toml")

OWN_POLICIES: Mapping[str, Mapping[str, str]] = _TABLES["own"]
"""Policies of the agents themselves, by format or agent and kind of compaction; a session opens on the first."""


class FormerPolicy(NamedTuple):
    """The policy and parameters of an agent from version ``since`` up to but not including version ``before``."""

    since: tuple[int, ...]
    before: tuple[int, ...]
    policy: str
    params: Mapping[str, Any]


FORMER_POLICIES = {
    name: [FormerPolicy(tuple(each["since"]), tuple(each["before"]), each["policy"], each["params"]) for each in rows]
    for name, rows in _TABLES["former"].items()
}
"""Policies of former versions, keyed by the current policy."""


def find_policy_of_version(name: str, version: tuple[int, ...]) -> tuple[str, Mapping[str, Any]]:
    """Return the policy and parameters that this version of the agent had, or the current policy if none are known."""
    for former_policy in FORMER_POLICIES.get(name, ()):
        if former_policy.since <= version < former_policy.before:
            return former_policy.policy, former_policy.params
    return name, {}


def list_version_params(name: str) -> frozenset[str]:
    """Return the names of a policy's parameters whose values have differed between versions of the agent."""
    return frozenset(chain.from_iterable(former_policy.params for former_policy in FORMER_POLICIES.get(name, ())))


def list_own_policies(form: str) -> Mapping[str, str]:
    """Return the own policies of the agent that records in a format, by kind: built-in ones, or those of packages."""
    if form in OWN_POLICIES:
        return OWN_POLICIES[form]
    added = (POLICIES[name] for name in POLICIES if name not in POLICIES.built_in)
    return {policy.kind: policy.name for policy in added if policy.runtime == form}


def find_own_policies(session: Session) -> dict[str, str]:
    """Return the policies of the agent version that recorded a session, keyed by kind of compaction."""
    names, version = list_own_policies(session.facts.agent or session.info.format), session.facts.agent_version
    return {kind: find_policy_of_version(name, version)[0] for kind, name in names.items()}


def format_no_firing(policy: str, session: Session) -> str:
    """Say that a policy never fires or, if it is the agent's own, that it adds no firing to the recorded ones."""
    count = sum(each.kind == "full" and each.trigger != "manual" for each in session.facts.compactions)
    if not count or find_own_policies(session).get("full") != policy:
        return "never fires"
    return f"adds no firing to the {format_count(count, 'recorded full compaction')}"


def find_recorded_params(name: str, facts: Facts) -> Mapping[str, Any]:
    """Return the parameters that differed from today's defaults in the agent version that recorded the session."""
    policy, params = find_policy_of_version(name, facts.agent_version)
    return params if policy == name else {}


def format_recorded_params(policy: str, params: BaseModel, facts: Facts) -> str:
    """Describe the parameters that come from the agent version that recorded the session, or return an empty string."""
    recorded = find_recorded_params(policy, facts)
    texts = format_assignments({name: value for name, value in recorded.items() if getattr(params, name) == value})
    version = ".".join(map(str, facts.agent_version))
    return f"{policy} {' '.join(texts)}: as in version {version}, which recorded this session" if texts else ""


def format_recording_version(policy: str, params: BaseModel, facts: Facts) -> str:
    """Format the version that recorded the session if *params* agree with it, else return an empty string."""
    recorded = find_recorded_params(policy, facts)
    is_same = recorded and all(getattr(params, name) == value for name, value in recorded.items())
    return f"as in version {'.'.join(map(str, facts.agent_version))}" if is_same else ""
