"""An agent's own policies, as the version had them that wrote the recording, held against its compactions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from context_tui.lab.replay.backtest import (
    BacktestCase,
    BacktestResult,
    ThresholdInterval,
    backtest_policy,
    find_explaining_threshold,
)
from context_tui.lab.replay.recording import Recording
from context_tui.lab.replay.words import find_changed_params
from context_tui.policies.base import Policy
from context_tui.policies.parameters import format_assignments
from context_tui.policies.registry import POLICIES
from context_tui.session.facts import Compaction

OWN_POLICIES = {
    "claude-code": {"full": "claude-code-auto", "micro": "claude-code-micro"},
    "codex": {"full": "codex"},
    "cline": {"full": "cline"},
    "cline-sdk": {"full": "cline"},
    "gemini-cli": {"full": "gemini-compress", "micro": "gemini-masking"},
    "goose": {"full": "goose"},
    "koda": {"full": "koda"},
    "opencode": {"full": "opencode-compact", "micro": "opencode-prune"},
    "openhands": {"full": "openhands-condenser"},
    "pi": {"full": "pi"},
}
"""By format and kind of compaction, the agent's own policy."""


class FormerPolicy(NamedTuple):
    """What an agent once had in place of a policy, or of its defaults: from a version on, and before another one."""

    since: tuple[int, ...]
    before: tuple[int, ...]
    policy: str
    params: Mapping[str, Any]


FORMER_POLICIES = {
    # 32,000 tokens of the reply were left free and 13,000 more, until "auto-compact triggering too early on models with
    # large output token limits" was mended (changelog of Claude Code, 2.1.21).
    "claude-code-auto": (FormerPolicy((2, 0), (2, 1, 21), "claude-code-auto", {"trigger_reserve": 45_000}),),
    "claude-code-micro": (FormerPolicy((2, 1), (2, 1, 21), "claude-code-micro-by-size", {}),),
}
"""By policy, what its versions differ in."""


class PolicyBacktest(NamedTuple):
    """The agent's own policy held against the recorded compactions of one kind.

    ``results`` is by its own thresholds, as it was in each of the ``cases``; ``fitted_results`` is with the threshold that
    explains most, which lies within ``threshold``.
    """

    policy: str
    cases: list[BacktestCase]
    results: list[BacktestResult]
    threshold: ThresholdInterval | None
    fitted_results: list[BacktestResult]

    @property
    def former_settings(self) -> list[str]:
        """What its version had otherwise than the policy has now, as assignments."""
        return list(
            dict.fromkeys(text for case in self.cases for text in format_assignments(find_changed_params(case.params)))
        )


def run_backtests(recording: Recording, checkpoint: Callable[[], object] = lambda: None) -> list[PolicyBacktest]:
    """The agent's own policies held against what the recording did.

    *checkpoint* is called at every message, and may raise to stop.
    """
    found = list[PolicyBacktest]()
    for kind, name in OWN_POLICIES.get(recording.session.info.format, {}).items():
        cases: dict[str, list[BacktestCase]] = {}
        for each in recording.session.facts.compactions:
            if each.kind == kind:
                policy, params = _find_own_policy(name, each)
                cases.setdefault(policy, []).append(BacktestCase(each, POLICIES[policy].Params(**params)))
        found += (
            _backtest_own_policy(recording, POLICIES[policy], these, checkpoint) for policy, these in cases.items()
        )
    return found


def _find_own_policy(name: str, compaction: Compaction) -> tuple[str, Mapping[str, Any]]:
    """What the version that compacted had in place of a policy; the policy as it is now where that is not known."""
    once = FORMER_POLICIES.get(name, ())
    return next(((had.policy, had.params) for had in once if had.since <= compaction.version < had.before), (name, {}))


def _backtest_own_policy(
    recording: Recording, policy: Policy, cases: list[BacktestCase], checkpoint: Callable[[], object]
) -> PolicyBacktest:
    tested = backtest_policy(recording, policy, cases, checkpoint=checkpoint)
    best = find_explaining_threshold(tested)
    fitted = backtest_policy(recording, policy, cases, best.most, checkpoint) if best else []
    return PolicyBacktest(policy.name, cases, tested, best, fitted)
