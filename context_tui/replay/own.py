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
    """What an agent once had in place of a policy, or of its defaults: from a version on, and before another one."""

    since: tuple[int, ...]
    before: tuple[int, ...]
    policy: str
    params: Mapping[str, Any]


ONCE = {
    # 32,000 tokens of the reply were left free and 13,000 more, until "auto-compact triggering too early on models with
    # large output token limits" was mended (changelog of Claude Code, 2.1.21).
    "claude-code-auto": (Once((2, 0), (2, 1, 21), "claude-code-auto", {"trigger_reserve": 45_000}),),
    "claude-code-micro": (Once((2, 1), (2, 1, 21), "claude-code-micro-by-size", {}),),
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
        by_policy: dict[str, list[tuple[Compaction, Params]]] = {}
        for each in recording.session.facts.compactions:
            if each.kind == kind and (own := _own(name, each)) is not None:
                by_policy.setdefault(own[0].name, []).append((each, own[1]))
        for policy, these in by_policy.items():
            found.append(_held(recording, POLICIES[policy], *map(list, zip(*these, strict=True))))
    return found


def _own(name: str, compaction: Compaction) -> tuple[Policy, Params] | None:
    """The policy, and what is set of it, in the version that compacted."""
    version = _numbers(compaction.version)
    once = (each for each in ONCE.get(name, ()) if version and each.since <= version < each.before)
    _, _, name, values = next(once, ((), (), name, {}))
    return (POLICIES[name], POLICIES[name].Params(**values)) if name in POLICIES else None


def _held(recording: Recording, policy: Policy, compactions: list[Compaction], params: list[Params]) -> Back:
    tested = backtest(recording, policy, params, compactions)
    best = explaining(tested)
    fitted = backtest(recording, policy, params, compactions, best.most) if best else []
    return Back(policy.name, params, tested, best, fitted)


def _numbers(version: str) -> tuple[int, ...]:
    """A version as numbers; none for what is no such."""
    parts = version.split(".")
    return tuple(map(int, parts)) if all(part.isdecimal() and len(part) < 10 for part in parts) else ()
