"""Upper bound for dropping without regret: the tokens that each call could omit if all later uses were known.

A block may be dropped before a call if its content was sent at least once, if no use of it follows (:mod:`~.index`),
and if the recording still had it. Each use is attributed to the newest block that held the needle; older copies may be
dropped. Another choice of copies might allow slightly more drops. All sizes are estimated tokens (``bytes/4``) of the
blocks as recorded.
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
    """Tokens that could be dropped from a set of blocks, and those that a policy dropped, for each call.

    Attributes:
        droppable: tokens that could be dropped without regret in each call.
        dropped: tokens that the policy had dropped in each call.
        dropped_unused: like ``dropped``, but a block counts only after its last use.
    """

    droppable: Sequence[int]
    dropped_unused: Sequence[int]
    dropped: Sequence[int]

    @property
    def remaining(self) -> list[int]:
        """Droppable tokens that each call still sent."""
        return [droppable - dropped for droppable, dropped in zip(self.droppable, self.dropped_unused, strict=True)]

    @property
    def wasted_tokens(self) -> int:
        """Tokens sent after their last use, summed over all calls."""
        return sum(self.droppable) - sum(self.dropped_unused)

    @property
    def achieved_share(self) -> float | None:
        """Share of the droppable tokens that the policy dropped, over all calls, or None if nothing was droppable."""
        return sum(self.dropped_unused) / sum(self.droppable) if sum(self.droppable) else None


@dataclass(frozen=True)
class RegretBound:
    """Bounds for dropping without regret, one for tool results (most policies drop only these), one for all blocks."""

    results: BoundShare
    everything: BoundShare


@dataclass(frozen=True)
class _ZeroRegretDrops:
    """Possible drops without regret: first message without each block, and tokens by call."""

    droppable_from: Sequence[int]
    results: Sequence[int]
    everything: Sequence[int]


def compute_regret_bound(replay: Replay, uses: UseIndex) -> RegretBound:
    """Compare the tokens that a replay's policy dropped with those that could be dropped without regret.

    Takes time linear in the dropped blocks and calls and, for the first replay of a session, in all of its blocks.
    """
    key = "bound", replay.recorded
    if key not in uses.memo:
        uses.memo[key] = _compute_zero_regret_drops(replay.calls, uses, replay.recorded)
    possible: _ZeroRegretDrops = uses.memo[key]
    remaining, facts = RemainingContext(replay, uses), uses.session.facts
    results, everything = _PolicyDrops(replay.calls), _PolicyDrops(replay.calls)
    removed_by_recording = uses.removed_by_recording[replay.recorded]
    for row, removed_at in replay.removed_by_policy.items():
        unused_from = max(possible.droppable_from[row], removed_at)
        end = removed_by_recording.get(row, NEVER_REMOVED)
        tokens = remaining.count_removed_tokens(row)
        for drops in (results, everything) if facts.kind[row] == Kind.TOOL_RESULT else (everything,):
            drops.dropped_unused.add(unused_from, end, tokens)
            drops.dropped.add(removed_at, end, tokens)
    return RegretBound(results.build_share(possible.results), everything.build_share(possible.everything))


class _PolicyDrops:
    def __init__(self, calls: Sequence[ModelCall]) -> None:
        self.dropped_unused, self.dropped = _TokensByCall(calls), _TokensByCall(calls)

    def build_share(self, droppable: Sequence[int]) -> BoundShare:
        return BoundShare(droppable, self.dropped_unused.accumulate_by_call(), self.dropped.accumulate_by_call())


class _TokensByCall:
    """Tokens by call, to which ranges of messages are added."""

    def __init__(self, calls: Sequence[ModelCall]) -> None:
        self.messages = [call.message for call in calls]
        self.deltas = [0] * (len(calls) + 1)

    def add(self, start: int, end: int, tokens: int) -> None:
        """Add tokens to every call from message *start* up to message *end*."""
        first_call, end_call = bisect_left(self.messages, start), bisect_left(self.messages, end)
        if first_call < end_call:
            self.deltas[first_call] += tokens
            self.deltas[end_call] -= tokens

    def accumulate_by_call(self) -> list[int]:
        return list(accumulate(self.deltas[:-1]))


def _compute_zero_regret_drops(
    calls: Sequence[ModelCall], uses: UseIndex, recorded: CompactionHandling
) -> _ZeroRegretDrops:
    facts, removed_by_recording = uses.session.facts, uses.removed_by_recording[recorded]
    messages = [call.message for call in calls]
    results, everything, droppable_from = _TokensByCall(calls), _TokensByCall(calls), []
    for row in range(uses.block_count):
        next_call = bisect_right(messages, facts.block_message[row])
        sent_before = messages[next_call] + 1 if next_call < len(messages) else NEVER_REMOVED
        droppable_from.append(max(sent_before, uses.find_last_use(row) + 1))
        end, tokens = removed_by_recording.get(row, NEVER_REMOVED), bytes4(facts, row)
        everything.add(droppable_from[row], end, tokens)
        if facts.kind[row] == Kind.TOOL_RESULT:
            results.add(droppable_from[row], end, tokens)
    return _ZeroRegretDrops(droppable_from, results.accumulate_by_call(), everything.accumulate_by_call())
