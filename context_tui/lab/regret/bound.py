"""The bound: the most that could have been dropped at each call without regret, by one who knows what comes.

A block may go before a call if its content was sent at least once, if no use of it comes at that call or later
(:mod:`~.index`), and if the recording still had it. Each use is served by the newest block that held
what is used, so that older copies may go. Dropping all these blocks is without regret; keeping an older, smaller copy
instead of the newest might allow a little more, so it is a bound of what one policy could have reached, not a proof
that none could drop more. All are estimated tokens (``bytes/4``) of the blocks as recorded.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from context_tui.lab.regret.cases import Left
from context_tui.lab.regret.index import Uses
from context_tui.lab.replay.result import NEVER, Call, Recorded, Replay
from context_tui.session.values import Kind
from context_tui.tokens.estimators import bytes4


@dataclass(frozen=True)
class Share:
    """Of some blocks, by call and in tokens: the ``most`` that could be gone without regret, and what was ``taken``.

    What a policy dropped too early counts as taken from where nothing uses it any more; ``dropped`` has it at once.
    """

    most: Sequence[int]
    taken: Sequence[int]
    dropped: Sequence[int]

    @property
    def left(self) -> list[int]:
        """By call, the tokens that were sent and that nothing used any more."""
        return [most - taken for most, taken in zip(self.most, self.taken, strict=True)]

    @property
    def sent_for_nothing(self) -> int:
        """The sum of :attr:`left` over all calls: what tuning leaves on the table, in tokens sent."""
        return sum(self.most) - sum(self.taken)

    @property
    def reached(self) -> float | None:
        """The share of the most, summed over all calls, that was taken; None where nothing could be dropped."""
        return sum(self.taken) / sum(self.most) if sum(self.most) else None


@dataclass(frozen=True)
class Bound:
    """The bound for tool results alone, as most policies drop nothing else, and for all blocks."""

    results: Share
    everything: Share


@dataclass(frozen=True)
class _Best:
    """What could be dropped: by row the message from which on, and by call how many tokens."""

    since: Sequence[int]
    results: Sequence[int]
    everything: Sequence[int]


def bound(replay: Replay, uses: Uses) -> Bound:
    """What the policy of *replay* took of what could have been dropped without regret.

    Takes time linear in what was dropped and in the calls, but for the first replay of a session.
    """
    best, left, facts = _best(replay, uses), Left(replay, uses), uses.session.facts
    results, everything = _Took(replay.calls), _Took(replay.calls)
    lost = uses.lost[replay.recorded]
    for row, gone in replay.gone.items():
        since, until, tokens = max(best.since[row], gone), lost.get(row, NEVER), left.tokens(row)
        for each in (results, everything) if facts.kind[row] == Kind.TOOL_RESULT else (everything,):
            each.taken.add(since, until, tokens)
            each.dropped.add(gone, until, tokens)
    return Bound(results.share(best.results), everything.share(best.everything))


class _Took:
    """What a policy took, by call."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self.taken, self.dropped = _Sums(calls), _Sums(calls)

    def share(self, most: Sequence[int]) -> Share:
        return Share(most, self.taken.by_call(), self.dropped.by_call())


class _Sums:
    """Tokens by call, of what is added from one message to another."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self.messages = [call.message for call in calls]
        self.steps = [0] * (len(calls) + 1)

    def add(self, since: int, until: int, tokens: int) -> None:
        """So many tokens at every call from message *since* on, before message *until*."""
        first, end = bisect_left(self.messages, since), bisect_left(self.messages, until)
        if first < end:
            self.steps[first] += tokens
            self.steps[end] -= tokens

    def by_call(self) -> list[int]:
        return list(accumulate(self.steps[:-1]))


def _best(replay: Replay, uses: Uses) -> _Best:
    key = "bound", replay.recorded
    if key not in uses.memo:
        uses.memo[key] = _find_best(replay.calls, uses, replay.recorded)
    found: _Best = uses.memo[key]
    return found


def _find_best(calls: Sequence[Call], uses: Uses, recorded: Recorded) -> _Best:
    facts, lost = uses.session.facts, uses.lost[recorded]
    messages = [call.message for call in calls]
    results, everything, since = _Sums(calls), _Sums(calls), []
    for row in range(uses.rows):
        sent = bisect_right(messages, facts.block_message[row])
        first = messages[sent] + 1 if sent < len(messages) else NEVER
        since.append(max(first, uses.last(row) + 1))
        until, tokens = lost.get(row, NEVER), bytes4(facts, row)
        everything.add(since[row], until, tokens)
        if facts.kind[row] == Kind.TOOL_RESULT:
            results.add(since[row], until, tokens)
    return _Best(since, results.by_call(), everything.by_call())
