"""An agent's own policies, as the version had them that wrote the recording, held against its compactions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from context_tui.policies.base import Params, Policy
from context_tui.policies.registry import POLICIES
from context_tui.replay.backtest import Backtested, Threshold, backtest, explaining
from context_tui.replay.recording import Recording
from context_tui.replay.words import changed
from context_tui.session.facts import Compaction

OWN = {
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


class Once(NamedTuple):
    """What an agent once had in place of a policy's defaults: from a version on, and before another one."""

    since: tuple[int, ...]
    before: tuple[int, ...]
    params: Mapping[str, Any]


ONCE = {
    # 32,000 tokens of the reply were left free and 13,000 more, until "auto-compact triggering too early on models with
    # large output token limits" was mended (changelog of Claude Code, 2.1.21).
    "claude-code-auto": (Once((2, 0), (2, 1, 21), {"trigger_reserve": 45_000}),),
}
"""By policy, what its versions differ in."""


class Back(NamedTuple):
    """The agent's own policy held against the recorded compactions of one kind.

    ``tested`` is by its own thresholds, ``params`` by compaction what these come from; ``fitted`` is with the threshold
    that explains most, which lies within ``threshold``.
    """

    policy: str
    params: list[Params]
    tested: list[Backtested]
    threshold: Threshold | None
    fitted: list[Backtested]

    @property
    def once(self) -> list[str]:
        """What its version had otherwise than the policy has now, as assignments."""
        return list(dict.fromkeys(each for params in self.params for each in changed(params)))


def backtests(recording: Recording) -> list[Back]:
    """The agent's own policies held against what the recording did."""
    found = list[Back]()
    for kind, name in OWN.get(recording.session.info.format, {}).items():
        compactions = [each for each in recording.session.facts.compactions if each.kind == kind]
        if not compactions or name not in POLICIES:
            continue
        policy = POLICIES[name]
        params = [_params(policy, each) for each in compactions]
        tested = backtest(recording, policy, params, compactions)
        best = explaining(tested)
        fitted = backtest(recording, policy, params, compactions, best.most) if best else []
        found.append(Back(name, params, tested, best, fitted))
    return found


def _params(policy: Policy, compaction: Compaction) -> Params:
    version = _numbers(compaction.version)
    once = (each.params for each in ONCE.get(policy.name, ()) if version and each.since <= version < each.before)
    return policy.Params(**next(once, {}))


def _numbers(version: str) -> tuple[int, ...]:
    """A version as numbers; none for what is no such."""
    parts = version.split(".")
    return tuple(map(int, parts)) if all(part.isdecimal() and len(part) < 10 for part in parts) else ()
