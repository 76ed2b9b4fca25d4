"""Lookup of policies by name; built-in policies are imported on first use, and installed packages can add others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from context_tui.app.plugins import Guard, Plugins, QuietMember, format_renames
from context_tui.compaction.changes import Change, LazyChanges
from context_tui.compaction.plan import KeepReason, Plan, Trigger
from context_tui.errors import PlanError
from context_tui.policies.base import PHASES, Belief, Params, Policy
from context_tui.policies.parameters import validate_params
from context_tui.policies.runtime_state import RuntimeState
from context_tui.session.context import Context
from context_tui.text.files import read_text

P = ParamSpec("P")
T = TypeVar("T")

PRESETS = (
    *("none", "defect", "koda", "agent-sdk", "claude-code-auto", "claude-code-micro", "claude-code-micro-by-size"),
    *("claude-code-idle", "anthropic-clear-tool-uses", "anthropic-compact", "codex", "opencode-prune"),
    *("opencode-compact", "gemini-compress", "gemini-masking", "langchain-clear", "langchain-summarize", "deepagents"),
    *("openhands-masking", "openhands-condenser", "swe-agent-last-n", "cline", "roo-condense", "roo-truncate"),
    *("goose", "crush", "pi", "letta", "hermes", "aider", "agent-framework"),
)
"""Policies that are TOML files in the folder ``presets``: the rules of known runtimes."""

DEFAULT_POLICY, MANUAL_POLICY, NO_POLICY = "defect-microcompact", "manual", "none"
"""The initial policy, the policy for marks set by hand, and the one that changes nothing."""


def _find_policy_error(name: str, policy: Any) -> str:
    if renames := format_renames(policy, "policy"):
        return renames
    missing = [each for each in _REQUIRED_MEMBERS if getattr(policy, each, None) is None]
    missing += [each for each in ("trigger", "plan") if getattr(type(policy), each, None) is getattr(Policy, each)]
    has_defaults = all(hasattr(policy, each) for each in vars(Policy) if not each.startswith("_"))
    if missing or not has_defaults:
        remedy = "" if has_defaults else "; derive from policies.base.BasePolicy"
        return f"it lacks {', '.join(missing) or 'the defaults of optional members'}{remedy}"
    if policy.name != name:
        return f"it calls itself {policy.name!r}; rename it or its entry point {name!r}"
    if not isinstance(policy.phases, frozenset) or not policy.phases.issubset(PHASES):
        return f"its phases are {policy.phases!r}, not a frozenset of {', '.join(PHASES)}"
    if not (isinstance(policy.Params, type) and issubclass(policy.Params, Params)):
        return "its Params is not a subclass of policies.base.Params"
    defaults = validate_params(policy, policy.Params().model_dump())
    wrong = (f"{name} is {type(value).__name__}" for name, value in defaults if not isinstance(value, _VALUE_TYPES))
    return next((f"its parameter {text}, not a number, true or false, or tuple[str, ...]" for text in wrong), "")


_VALUE_TYPES = (int, float, tuple, Mapping, type(None))
_REQUIRED_MEMBERS = ("name", "about", "phases", "Params", "trigger", "plan")
_QUIET_MEMBERS = {
    "implied_value": QuietMember(int),
    "slider_max": QuietMember(int),
    "believed_size": QuietMember(Belief),
    "runs_in_background": QuietMember(bool, False),
    "hint": QuietMember(str, ""),
}
"""Members whose failure is ignored, with the types of their results."""


class GuardedPolicy(Guard):
    """A policy from another package, wrapped so that its exceptions become one-line errors."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy, "policy", _QUIET_MEMBERS)
        self._policy = policy

    def trigger(self, state: RuntimeState, params: Any) -> Trigger:
        return self._check_own(self.call(PlanError, "", self._policy.trigger, state, params), Trigger, "trigger")

    def plan(self, context: Context, params: Any, state: RuntimeState) -> Plan:
        plan = self._check_own(self.call(PlanError, "", self._policy.plan, context, params, state), Plan, "plan")
        self._check_own(plan.trigger, Trigger, "trigger")
        if error := _find_plan_error(plan, self._policy.name, context):
            raise self.fail(PlanError, error)

        def find_reason(position: int, block: int | None) -> KeepReason:
            return self._check_own(self.call(PlanError, "", plan.keep_reason, position, block), KeepReason, "reason")

        return replace(plan, keep_reason=find_reason)

    def curve(self, context: Context, params: Any, state: RuntimeState, name: str, values: Sequence[Any]) -> list[int]:
        sizes: object = self.call(PlanError, "", self._policy.curve, context, params, state, name, values)
        if not (isinstance(sizes, list) and len(sizes) == len(values) and all(isinstance(size, int) for size in sizes)):
            raise self.fail(PlanError, "its curve is not a number for each value")
        return sizes

    def steps(self, params: Any) -> Sequence[tuple[Policy, Any]]:
        return self.call(PlanError, "", self._policy.steps, params)

    def _check_own(self, answer: object, kind: type[T], label: str) -> T:
        return self.check(PlanError, answer, kind, f"its {label} is {{}}, not a {kind.__name__}")


def _find_plan_error(plan: Plan, name: str, context: Context) -> str:
    if plan.policy != name or plan.context is not context:
        return "its plan is of another policy or context"
    if not all(number is None or isinstance(number, int) for number in (plan.tokens_saved, plan.tokens_freed)):
        return "what its plan saved is no number"
    report: list[tuple[object, object]] = [*(plan.report or {}).items()]
    if not all(isinstance(key, str) and isinstance(value, int) for key, value in report):
        return "the report of its plan is not numbers by name"
    if wrong := next((insert.role for insert in plan.inserts if insert.role not in ("user", "assistant")), None):
        return f"its plan inserts a message of role {wrong!r}, not user or assistant"
    # Lazy changes are not checked: there may be tens of thousands.
    changes = {} if isinstance(plan.changes, LazyChanges) else plan.changes
    rows = range(len(context.facts.kind))
    for row, change in changes.items():
        if row not in rows:
            return f"its plan changes {row!r}, which is no block row of the session"
        if not isinstance(change, Change):
            return f"its plan changes block row {row} to {type(change).__name__}, not to a Change"
    return ""


def _load_preset(name: str) -> Policy:
    from context_tui.policies.toml import parse_policy  # slow to import

    return parse_policy(read_text("context_tui.policies", f"presets/{name}.toml"), name, find_policy)


def _load_entry_point(loaded: Any) -> Any:
    """Build the policy of an entry point: a class, or the text or the path of a TOML policy."""
    policy = loaded() if callable(loaded) else loaded
    if not isinstance(policy, str | PathLike):
        return policy
    from context_tui.policies.toml import parse_policy, read_policy

    if isinstance(policy, str) and "\n" in policy:
        return parse_policy(policy, "its TOML", find_policy)
    return read_policy(Path(policy), find_policy)


def _find_policy_files() -> Iterator[tuple[str, Callable[[], Policy]]]:
    from context_tui.app.config import find_config_path

    paths: list[Path] = []
    with suppress(OSError, RuntimeError):  # no home folder, or no permission
        paths = sorted(find_config_path().with_name("policies").glob("*.toml"))
    for path in paths:
        yield str(path), partial(_load_entry_point, path)


POLICIES: Plugins[Policy] = Plugins(
    "policy",
    "context_tui.policies",
    {
        "defect-microcompact": "context_tui.policies.builtin.defect:DefectMicrocompact",
        "defect-compact": "context_tui.policies.builtin.defect:DefectCompact",
        "koda-microcompact": "context_tui.policies.builtin.koda:KodaMicrocompact",
        "agent-sdk-prune": "context_tui.policies.builtin.agent_sdk:AgentSdkPrune",
        "agent-sdk-compact": "context_tui.policies.builtin.agent_sdk:AgentSdkCompact",
        "manual": "context_tui.policies.builtin.manual:Manual",
        "chain": "context_tui.policies.builtin.chain:Chain",
        **dict.fromkeys(PRESETS, _load_preset),
    },
    _find_policy_error,
    lambda policy: cast(Policy, GuardedPolicy(policy)),
    _load_entry_point,
    _find_policy_files,
)


def find_policy(name: str) -> Policy:
    """Return the policy with this name, raising PlanError with a similar name as a suggestion if there is none."""
    if name in POLICIES:
        return POLICIES[name]
    matches = get_close_matches(name, POLICIES, 1)
    presets_hint = "and presets that `context-tui policies` lists"
    hint = f"did you mean {matches[0]}?" if matches else f"available: {', '.join(list_policy_names())}, {presets_hint}"
    raise PlanError(f"unknown policy {name!r}; {hint}")


def list_policy_names() -> list[str]:
    """List the names of all policies but the presets; these policies have a key and are planned side by side."""
    return [name for name in POLICIES if name not in PRESETS]


def find_runtimes() -> dict[str, Policy]:
    """Map each runtime to the first listed policy that belongs to it."""
    runtimes: dict[str, Policy] = {}
    for policy in map(POLICIES.__getitem__, list_policy_names()):
        if policy.runtime:
            runtimes.setdefault(policy.runtime, policy)
    return runtimes
