"""Bound of regret-free dropping: the most that could be dropped at each call if all later uses were known.

A block may be dropped before a call if its content was sent at least once, if no use of it comes at that call or later
(:mod:`~.index`), and if the recording still had it. Each use is served by the newest block that held the needle, so
that older copies may be dropped. Keeping an older, smaller copy instead might allow a little more, so this bounds what
one policy could have reached, and is no proof that none could drop more. All sizes are estimated tokens (``bytes/4``)
of the blocks as recorded.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from context_tui.lab.regret.cases import RemainingContext
from context_tui.lab.regret.index import UseIndex
from context_tui.lab.replay.result import NEVER_REMOVED, CompactionHandling, ModelCall, Replay
from context_tui.session.values import Kind
from context_tui.tokens.estimators import bytes4


@dataclass(frozen=True)
class BoundShare:
    """Tokens by call, of some blocks: ``droppable`` without regret, and ``dropped_unused`` by the policy.

    What a policy dropped too early counts from where nothing uses it any more; ``dropped`` counts it at once.
    """

    droppable: Sequence[int]
    dropped_unused: Sequence[int]
    dropped: Sequence[int]

    @property
    def remaining(self) -> list[int]:
        """Tokens by call that were still sent although nothing used them any more."""
        return [droppable - dropped for droppable, dropped in zip(self.droppable, self.dropped_unused, strict=True)]

    @property
    def wasted_tokens(self) -> int:
        """Sum of :attr:`remaining` over all calls: the tokens sent that tuning could save."""
        return sum(self.droppable) - sum(self.dropped_unused)

    @property
    def achieved_share(self) -> float | None:
        """Share of the maximum that was dropped, over all calls; None where nothing could be dropped."""
        return sum(self.dropped_unused) / sum(self.droppable) if sum(self.droppable) else None


@dataclass(frozen=True)
class RegretBound:
    """Bound for tool results alone, as most policies drop nothing else, and for all blocks."""

    results: BoundShare
    everything: BoundShare


@dataclass(frozen=True)
class _ZeroRegretDrops:
    """Possible drops without regret: by row the first message, and by call the tokens."""

    droppable_from: Sequence[int]
    results: Sequence[int]
    everything: Sequence[int]


def compute_regret_bound(replay: Replay, uses: UseIndex) -> RegretBound:
    """Compute how much the policy of *replay* dropped of what could have been dropped without regret.

    Takes time linear in what was dropped and in the calls, apart from the first replay of a session.
    """
    best, remaining, facts = _get_zero_regret_drops(replay, uses), RemainingContext(replay, uses), uses.session.facts
    results, everything = _PolicyDrops(replay.calls), _PolicyDrops(replay.calls)
    removed_by_recording = uses.removed_by_recording[replay.recorded]
    for row, removed_at in replay.removed_by_policy.items():
        since = max(best.droppable_from[row], removed_at)
        until = removed_by_recording.get(row, NEVER_REMOVED)
        tokens = remaining.count_removed_tokens(row)
        for each in (results, everything) if facts.kind[row] == Kind.TOOL_RESULT else (everything,):
            each.dropped_unused.add(since, until, tokens)
            each.dropped.add(removed_at, until, tokens)
    return RegretBound(results.build_share(best.results), everything.build_share(best.everything))


class _PolicyDrops:
    """Drops of a policy, by call."""

    def __init__(self, calls: Sequence[ModelCall]) -> None:
        self.dropped_unused, self.dropped = _TokensByCall(calls), _TokensByCall(calls)

    def build_share(self, droppable: Sequence[int]) -> BoundShare:
        return BoundShare(droppable, self.dropped_unused.accumulate_by_call(), self.dropped.accumulate_by_call())


class _TokensByCall:
    """Tokens by call, added over ranges of messages."""

    def __init__(self, calls: Sequence[ModelCall]) -> None:
        self.messages = [call.message for call in calls]
        self.deltas = [0] * (len(calls) + 1)

    def add(self, since: int, until: int, tokens: int) -> None:
        """Add tokens to every call from message *since* on, before message *until*."""
        first, end = bisect_left(self.messages, since), bisect_left(self.messages, until)
        if first < end:
            self.deltas[first] += tokens
            self.deltas[end] -= tokens

    def accumulate_by_call(self) -> list[int]:
        return list(accumulate(self.deltas[:-1]))


def _get_zero_regret_drops(replay: Replay, uses: UseIndex) -> _ZeroRegretDrops:
    key = "bound", replay.recorded
    if key not in uses.memo:
        uses.memo[key] = _compute_zero_regret_drops(replay.calls, uses, replay.recorded)
    drops: _ZeroRegretDrops = uses.memo[key]
    return drops


def _compute_zero_regret_drops(
    calls: Sequence[ModelCall], uses: UseIndex, recorded: CompactionHandling
) -> _ZeroRegretDrops:
    facts, removed_by_recording = uses.session.facts, uses.removed_by_recording[recorded]
    messages = [call.message for call in calls]
    results, everything, droppable_from = _TokensByCall(calls), _TokensByCall(calls), []
    for row in range(uses.block_count):
        next_call = bisect_right(messages, facts.block_message[row])
        first = messages[next_call] + 1 if next_call < len(messages) else NEVER_REMOVED
        droppable_from.append(max(first, uses.find_last_use(row) + 1))
        until, tokens = removed_by_recording.get(row, NEVER_REMOVED), bytes4(facts, row)
        everything.add(droppable_from[row], until, tokens)
        if facts.kind[row] == Kind.TOOL_RESULT:
            results.add(droppable_from[row], until, tokens)
    return _ZeroRegretDrops(droppable_from, results.accumulate_by_call(), everything.accumulate_by_call())
