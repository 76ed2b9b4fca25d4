"""What a policy costs along a recording at cache prices, against the same calls without it, and firing by firing.

What the calls answer is the same in both and is left out. A firing is held against the same run without it, from the
first call that had its context to the next firing, to where a recorded compaction begins the context anew, or to the
end. For one firing in a warm cache this is the usual formula: with S tokens behind the first change that are written
again, C tokens less in each call, and prices w to write and r to read, it costs ``S (w - r)`` and what a summarizer
takes, and saves ``r C`` with each call, its own too: it pays after ``((w - r) S + summarizer) / (r C)`` calls. In a
cold cache everything is written in any case, and it saves ``w C`` at once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal, NamedTuple

from context_tui.price.cache import PromptCache, Sent, Used
from context_tui.price.rates import FIVE_MINUTES, Rates, Table, table_of
from context_tui.price.recorded import NOTHING_CHANGED, Recorded, recorded_calls
from context_tui.replay.result import Firing, Replay
from context_tui.session.facts import Facts

Verdict = Literal["pays", "does not pay", "pays only as the cache was cold", "saves nothing"]


@dataclass(frozen=True)
class FiringPrice:
    """What one firing costs. Costs are in the unit of :class:`Priced`; what is saved is negative.

    Attributes:
        call: number of the first call that had its context.
        message: the message before which it took effect.
        cleared: tokens that each call has less by it, C.
        behind: tokens behind the first change that had been there before, S.
        rewritten: tokens of its first call that were written only because of it; 0 in a cold cache.
        cold: whether that call would have read nothing of what was changed in any case.
        summarizer: what the call to a summarizer costs.
        break_even: calls after which it pays; 0 at once, None where it saves nothing with a call.
        calls_left: calls that had its context: to the next firing, to a recorded compaction, or to the end.
        cost: what these calls and the summarizer cost more than without it.
        verdict: whether it paid; or only because the cache was cold then, or for one of the calls that were left.
    """

    call: int
    message: int
    cleared: int
    behind: int
    rewritten: int
    cold: bool
    summarizer: float
    break_even: float | None
    calls_left: int
    cost: float
    verdict: Verdict


@dataclass(frozen=True)
class Priced:
    """A replay at cache prices; every cost is in ``table.unit``.

    Attributes:
        replay: what was priced.
        table: the prices.
        used: by call, the tokens that were read, written and sent anew with the policy, ``baseline`` without it.
        costs: by call, what its prompt costs with the policy, ``baseline_costs`` without it.
        summarizers: what all calls to a summarizer cost.
        firings: by firing of the replay. Several before the same call are priced as one, and have a part of that each.
        cold: numbers of the calls before which the time of everything in the cache had passed.
        write_and_read: by firing, the prices to write and to read a token at its call.
    """

    replay: Replay
    table: Table
    used: Sequence[Used]
    baseline: Sequence[Used]
    costs: Sequence[float]
    baseline_costs: Sequence[float]
    summarizers: float
    firings: Sequence[FiringPrice]
    cold: Sequence[int]
    write_and_read: Sequence[tuple[float, float]]

    @property
    def cost(self) -> float:
        """What all prompts and the summarizer cost with the policy."""
        return sum(self.costs) + self.summarizers

    @property
    def baseline_cost(self) -> float:
        """What all prompts cost without it."""
        return sum(self.baseline_costs)


def price(
    replay: Replay,
    *,
    recorded: Recorded | None = None,
    shares_prefix: bool = False,
    summarizer: Rates | None = None,
    breakpoints: bool = False,
) -> Priced:
    """What *replay* costs.

    Args:
        recorded: what :func:`~context_tui.price.recorded.recorded_calls` says of its session, where that is there.
        shares_prefix: whether a summarizer is sent the same beginning as the calls, and so reads it from the cache;
            otherwise it pays the full price of its input.
        summarizer: the prices of its model, in the unit of the session's; default: those of the session's model.
        breakpoints: whether a changed prompt is read only up to the end of an earlier call, as recorded ones were,
            which for a change far back is the system prompt at best. Otherwise up to the first change.
    """
    known = recorded or recorded_calls(replay.session)
    run = _Run(replay, known, shares_prefix=shares_prefix, summarizer=summarizer, breakpoints=breakpoints)
    return run.priced()


class _Group(NamedTuple):
    """The firings before one call, taken together: tokens of it ``before`` them and ``after``."""

    call: int
    firings: list[Firing]
    before: int
    after: int
    kept: int


class _Run:
    """One pricing on its way."""

    def __init__(
        self, replay: Replay, recorded: Recorded, *, shares_prefix: bool, summarizer: Rates | None, breakpoints: bool
    ) -> None:
        self.replay, self.shares_prefix, self.summarizer = replay, shares_prefix, summarizer
        self.breakpoints, facts = breakpoints, replay.session.facts
        self.calls = _calls(replay, recorded)
        self.models = [facts.models[row] if row >= 0 else facts.model for row in map(self._model_row, range(len(self)))]
        fee = any(usage.cache_write_5m or usage.cache_write_1h for usage in facts.requests)
        self.table = table_of(self.models, fee=fee)
        by_call = groupby(replay.firings, key=lambda firing: firing.call)
        self.groups = [_group(call, list(firings)) for call, firings in by_call]
        self.fires = {group.call for group in self.groups}

    def __len__(self) -> int:
        return len(self.replay.calls)

    def _model_row(self, number: int) -> int:
        facts, row = self.replay.session.facts, self.replay.calls[number].request
        if row < 0:
            row = _request_before(facts, self.replay.calls[number].message)
        return facts.request_model[row] if row >= 0 else -1

    def priced(self) -> Priced:
        replay, calls = self.replay, self.calls
        plain, cache = list[Used](), PromptCache()
        for number, size in enumerate(replay.baseline):
            plain.append(self._take(cache, number, size))
        found, cache, at = list[Used](), PromptCache(), 0
        firings, rates = list[FiringPrice](), list[tuple[float, float]]()
        paid = 0.0
        for number, group in enumerate(self.groups):
            found.extend(self._run(cache, at, group.call))
            at, without = group.call, cache.copy()
            until = self._until(number)
            with_it = self._run(cache, at, until)
            found.extend(with_it)
            prices, extra = self._prices(group, until, with_it, without)
            firings.extend(prices)
            paid += extra
            write, read = self._write_and_read(group)
            rates.extend([(write, read)] * len(prices))
            at = until
        found.extend(self._run(cache, at, len(self)))
        costs = [self._cost(number, each) for number, each in enumerate(found)]
        plain_costs = [self._cost(number, each) for number, each in enumerate(plain)]
        cold = [number for number in range(1, len(self)) if calls[number].late(calls[number - 1])]
        return Priced(replay, self.table, found, plain, costs, plain_costs, paid, firings, cold, rates)

    def _until(self, number: int) -> int:
        """The call after the last one that has the context of a group: at the next one's, or where it begins anew."""
        end = self.groups[number + 1].call if number + 1 < len(self.groups) else len(self)
        begin = self.groups[number].call + 1
        return next((at for at in range(begin, end) if not self.calls[at].kept), end)

    def _run(self, cache: PromptCache, begin: int, end: int) -> list[Used]:
        """What becomes of some calls with the policy."""
        return [self._with_policy(cache, number) for number in range(begin, end)]

    def _with_policy(self, cache: PromptCache, number: int) -> Used:
        kept = self.replay.kept[number] if number in self.fires else NOTHING_CHANGED
        return self._take(cache, number, self.replay.sizes[number], kept)

    def _take(self, cache: PromptCache, number: int, size: int, kept: int = NOTHING_CHANGED) -> Used:
        """What becomes of a call that has another *size*, and *kept* so many tokens at a firing.

        Where the recording is not as the rules of a cache say, it is as recorded, but for what is gone.
        """
        call = self.calls[number]
        floor, lost = call.floor, call.lost
        if call.seen is not None:
            gone = max(self.replay.baseline[number] - size, 0)
            floor = max(min(floor, call.seen), min(call.seen - gone, kept))
            lost = "as recorded"
        anywhere = call.anywhere or (kept < NOTHING_CHANGED and not self.breakpoints)
        changed = call._replace(size=size, kept=min(call.kept, kept), floor=floor, lost=lost, anywhere=anywhere)
        used = cache.take(changed)
        cache.answered(call.answered)
        return used

    def _prices(
        self, group: _Group, until: int, with_it: Sequence[Used], cache: PromptCache
    ) -> tuple[list[FiringPrice], float]:
        """The price of each firing of a group, and what their summarizers cost.

        Without it *cache* would have seen the same calls, larger by what it cleared.
        """
        cleared, calls = group.before - group.after, self.calls
        without = [
            self._take(cache, number, max(self.replay.sizes[number] + cleared, 0))
            for number in range(group.call, until)
        ]
        now, then = with_it[0], without[0]
        kept = max(group.kept, calls[group.call].floor)
        cold = then.read <= kept
        asked = self._summarizer(group, cold)
        write, read = self._write_and_read(group)
        first = self._cost(group.call, now) - self._cost(group.call, then)
        cost = asked + sum(
            self._cost(group.call + n, a) - self._cost(group.call + n, b)
            for n, (a, b) in enumerate(zip(with_it, without, strict=True))
        )
        last = self.replay.sizes[group.call - 1] if group.call else 0
        behind = max(min(last, group.before) - cleared - kept, 0)
        saving = read * cleared
        left = until - group.call
        even = max((first + saving + asked) / saving, 0.0) if saving > 0 else None
        verdict: Verdict = "saves nothing" if cleared <= 0 else "pays" if cost <= 0 else "does not pay"
        if verdict == "pays" and ((write - read) * behind + asked) / saving > left:
            verdict = "pays only as the cache was cold"
        whole = FiringPrice(
            group.call,
            group.firings[0].message,
            cleared,
            behind,
            max(now.written - then.written, 0),
            cold,
            asked,
            even,
            left,
            cost,
            verdict,
        )
        return _parts(whole, group), asked

    def _summarizer(self, group: _Group, cold: bool) -> float:
        """What the calls to a summarizer cost that a group needed."""
        total = 0.0
        for firing in group.firings:
            rates = self.summarizer or self._rates(group.call, firing.cut.read)
            each = rates.read if self.shares_prefix and not cold and self.summarizer is None else rates.input
            total += each * firing.cut.read + rates.output * firing.cut.written
        return total

    def _write_and_read(self, group: _Group) -> tuple[float, float]:
        rates = self._rates(group.call, group.after)
        return rates.write(self.calls[group.call].lives), rates.read

    def _rates(self, number: int, size: int) -> Rates:
        return self.table.of(self.models[number]).of(size)

    def _cost(self, number: int, used: Used) -> float:
        return self._rates(number, used.size).used(used)


def _calls(replay: Replay, recorded: Recorded) -> list[Sent]:
    """Every call as a cache saw it without the policy; of one that recorded no usage as far as the file tells."""
    facts, found = replay.session.facts, list[Sent]()
    lives = recorded.calls[0].lives if recorded.calls else FIVE_MINUTES
    for number, (message, row) in enumerate(replay.calls):
        if 0 <= row < len(recorded.calls):
            call = recorded.calls[row]
        else:
            time, last = facts.time[message], found[-1] if found else None
            call = Sent(
                0,
                NOTHING_CHANGED if found else 0,
                sent=time,
                ended=facts.ended[message],
                lives=lives,
                key=last.key if last else None,
            )
            if last is not None:
                call = call._replace(floor=last.floor, blocks=1, anywhere=last.anywhere)
        grew = number > 0 and replay.baseline[number] >= replay.baseline[number - 1]
        if replay.recorded == "ignore" and grew and call.kept < NOTHING_CHANGED:
            call = call._replace(kept=NOTHING_CHANGED, seen=None)
        lives = call.lives or lives
        found.append(call)
    return found


def _request_before(facts: Facts, message: int) -> int:
    """Row of the last request that was answered before *message*, or -1."""
    return bisect_left(facts.request_message, message) - 1


def _group(call: int, firings: list[Firing]) -> _Group:
    kept = min(firing.cut.kept for firing in firings)
    return _Group(call, firings, firings[0].before, firings[-1].after, kept)


def _parts(whole: FiringPrice, group: _Group) -> list[FiringPrice]:
    """The price of a group, split among its firings by what each took away."""
    if len(group.firings) == 1:
        return [whole]
    parts = []
    for firing in group.firings:
        cleared = firing.before - firing.after
        share = cleared / whole.cleared if whole.cleared else 1 / len(group.firings)
        parts.append(
            replace(
                whole,
                cleared=cleared,
                behind=round(whole.behind * share),
                rewritten=round(whole.rewritten * share),
                summarizer=whole.summarizer * share,
                cost=whole.cost * share,
            )
        )
    return parts
