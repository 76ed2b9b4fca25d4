"""Upper bound for dropping without regret: the tokens that each call could omit if all later uses were known.

A block may be dropped before a call if its content was sent at least once, if no use of it follows (:mod:`~.index`),
and if the recording still had it. Each use is attributed to the newest block that held the needle; older copies may be
dropped. Another choice of copies might allow slightly more drops. All sizes are estimated tokens (``bytes/4``) of the
blocks as recorded.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from context_tui.lab.regret.cases import RemainingContext
from context_tui.lab.regret.index import UseIndex
from context_tui.lab.replay.result import NEVER_REMOVED, CompactionHandling, Replay
from context_tui.session.values import Kind
from context_tui.tokens.estimators import bytes4


class BoundShare(NamedTuple):
    """Tokens that could be dropped from a set of blocks, and those that a policy dropped, for each call.

    Attributes:
        droppable: tokens that could be dropped without regret in each call.
        dropped_unused: tokens that the policy had dropped in each call, of blocks after their last use only.
        dropped: tokens that the policy had dropped in each call.
    """

    droppable: Sequence[int]
    dropped_unused: Sequence[int]
    dropped: Sequence[int]

    @property
    def wasted_tokens(self) -> int:
        """Tokens sent after their last use, summed over all calls."""
        return sum(self.droppable) - sum(self.dropped_unused)

    @property
    def achieved_share(self) -> float | None:
        """Share of the droppable tokens that the policy dropped, over all calls, or None if nothing was droppable."""
        return sum(self.dropped_unused) / sum(self.droppable) if sum(self.droppable) else None


class RegretBound(NamedTuple):
    """Bounds for dropping without regret, one for tool results (most policies drop only these), one for all blocks."""

    results: BoundShare
    everything: BoundShare


def compute_regret_bound(replay: Replay, uses: UseIndex) -> RegretBound:
    """Compare the tokens that a replay's policy dropped with those that could be dropped without regret.

    Takes time linear in the dropped blocks and calls and, for the first replay of a session, in all of its blocks.
    """
    key = "bound", replay.recorded
    messages = [call.message for call in replay.calls]
    if key not in uses.memo:
        uses.memo[key] = _find_droppable(messages, uses, replay.recorded)
    droppable_from, droppable = uses.memo[key]
    remaining, facts = RemainingContext(replay, uses), uses.session.facts
    removed_by_recording = uses.removed_by_recording[replay.recorded]
    dropped, unused = _TokensByCall(messages), _TokensByCall(messages)
    for row, removed_at in replay.removed_by_policy.items():
        end, tokens = removed_by_recording.get(row, NEVER_REMOVED), remaining.count_removed_tokens(row)
        is_result = facts.kind[row] == Kind.TOOL_RESULT
        unused.add(max(droppable_from[row], removed_at), end, tokens, is_result=is_result)
        dropped.add(removed_at, end, tokens, is_result=is_result)
    return RegretBound(*map(BoundShare, droppable.sum_by_call(), unused.sum_by_call(), dropped.sum_by_call()))


class _TokensByCall:
    """Sums of tokens for each call, one for tool results and one for all blocks."""

    def __init__(self, messages: Sequence[int]) -> None:
        self.messages = messages
        self.results, self.everything = ([0] * (len(messages) + 1) for _ in range(2))

    def add(self, start: int, end: int, tokens: int, *, is_result: bool) -> None:
        """Add the tokens of a block to every call from message *start* up to message *end*."""
        first_call, end_call = bisect_left(self.messages, start), bisect_left(self.messages, end)
        if first_call < end_call:
            for deltas in (self.results, self.everything) if is_result else (self.everything,):
                deltas[first_call] += tokens
                deltas[end_call] -= tokens

    def sum_by_call(self) -> list[list[int]]:
        return [list(accumulate(deltas[:-1])) for deltas in (self.results, self.everything)]


def _find_droppable(
    messages: Sequence[int], uses: UseIndex, recorded: CompactionHandling
) -> tuple[list[int], _TokensByCall]:
    """Return the first message before which each block may be dropped, and the tokens that this saves in each call."""
    facts, removed_by_recording = uses.session.facts, uses.removed_by_recording[recorded]
    droppable, droppable_from = _TokensByCall(messages), list[int]()
    for row in range(uses.block_count):
        next_call = bisect_right(messages, facts.block_message[row])
        sent_before = messages[next_call] + 1 if next_call < len(messages) else NEVER_REMOVED
        droppable_from.append(max(sent_before, uses.find_last_use(row) + 1))
        end, is_result = removed_by_recording.get(row, NEVER_REMOVED), facts.kind[row] == Kind.TOOL_RESULT
        droppable.add(droppable_from[row], end, bytes4(facts, row), is_result=is_result)
    return droppable_from, droppable
