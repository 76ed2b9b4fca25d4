"""What a policy costs along a recording at cache prices, against the same calls without it, and firing by firing.

What the calls answer is the same in both and is left out. A firing is held against the same run without it and without
those behind it, from the first call that had its context to where the context begins anew, or to the end: so the costs
of all firings add up to what the whole policy costs more than none. At its own call that is what is read and written
with it and without it; what a later call costs less is shared by the firings before it, by the tokens of each.

For one firing in a warm cache this is the usual formula: with S tokens that are written again, from the first change
on, C tokens less in each call, and prices w to write and r to read, it costs ``S (w - r)`` and what a summarizer takes,
and saves ``r C`` with each call, its own too: it pays after ``((w - r) S + summarizer) / (r C)`` calls. In a cold cache
everything is written in any case, and it saves ``w C`` at once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from typing import Literal, NamedTuple

from context_tui.lab.price.cache import PromptCache, Reuse, Sent, Used
from context_tui.lab.price.rates import FIVE_MINUTES, Rates, Table, table_of
from context_tui.lab.price.recorded import NOTHING_CHANGED, Recorded, recorded_calls
from context_tui.lab.replay.result import Firing, Replay
from context_tui.session.facts import Facts

EVEN_OUT = 10
"""Of firings that make the context smaller and larger, the sum must be this share of all, for costs to be shared."""

Verdict = Literal["pays", "does not pay", "pays only as the cache was cold", "saves nothing"]


@dataclass(frozen=True)
class FiringPrice:
    """What one firing costs. Costs are in the unit of :class:`Priced`; what is saved is negative.

    Attributes:
        call: number of the first call that had its context.
        message: the message before which it took effect.
        cleared: tokens that each call has less by it, C.
        behind: tokens that had been there before and that a warm cache has to write again, S.
        rewritten: tokens of its first call that were written only because of it; 0 in a cold cache.
        cold: whether that call would have read nothing of what was changed in any case.
        summarizer: what the call to a summarizer costs.
        break_even: calls after which it pays; 0 at once, None where it saves nothing with a call.
        calls_left: calls that had its context: until that begins anew, or to the end.
        next_change: calls from its first one to the next firing; None where none follows in its context.
        cost: what these calls and the summarizer cost more than without it (and without those behind it).
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
    next_change: int | None
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
        rest: what the policy costs more than none and no firing stands for: what firings of a context that is gone
            left in the next one. With it the costs of the firings add up exactly.
        reuse: what a prompt that changed was taken to read.
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
    rest: float
    reuse: Reuse
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
    reuse: Reuse = "breakpoints",
) -> Priced:
    """What *replay* costs.

    Args:
        recorded: what :func:`~context_tui.lab.price.recorded.recorded_calls` says of its session, where that is there.
        shares_prefix: whether a summarizer is sent the same beginning as the calls, and so reads it from the cache;
            otherwise it pays the full price of its input.
        summarizer: the prices of its model, in the unit of the session's; default: those of the session's model.
        reuse: what a changed prompt reads where calls write to the cache themselves; a cache that fills itself is read
            up to the first change in any case.
    """
    known = recorded or recorded_calls(replay.session)
    run = _Run(replay, known, shares_prefix=shares_prefix, summarizer=summarizer, reuse=reuse)
    return run.priced()


class _Group(NamedTuple):
    """The firings before one call, taken together: tokens of it ``before`` them and ``after``."""

    call: int
    firings: list[Firing]
    before: int
    after: int


class _First(NamedTuple):
    """The first call with a group of firings: what it costs more than without them, the ``summarizer`` too, and what it
    costs ``without``; the tokens that a warm cache writes again, and those that were; whether it was cold.
    """

    cost: float
    without: float
    summarizer: float
    behind: int
    rewritten: int
    cold: bool


class _Run:
    """One pricing on its way."""

    def __init__(
        self, replay: Replay, recorded: Recorded, *, shares_prefix: bool, summarizer: Rates | None, reuse: Reuse
    ) -> None:
        self.replay, self.shares_prefix, self.summarizer = replay, shares_prefix, summarizer
        facts, self.calls = replay.session.facts, _calls(replay, recorded)
        known = recorded.begins
        self.begins = [known[row] if 0 <= row < len(known) else 0 for _, row in replay.calls]
        self.reuse: Reuse = "anywhere" if self.calls and all(call.anywhere for call in self.calls) else reuse
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
        found, cache, firsts = list[Used](), PromptCache(), list[_First]()
        for group in self.groups:
            found.extend(self._run(cache, len(found), group.call))
            without = cache.copy()
            found.append(self._with_policy(cache, group.call))
            firsts.append(self._first(group, found[-1], without))
        found.extend(self._run(cache, len(found), len(self)))
        costs = [self._cost(number, each) for number, each in enumerate(found)]
        plain_costs = [self._cost(number, each) for number, each in enumerate(plain)]
        ends = self._ends()
        later, rest = self._later(firsts, ends, costs, plain_costs)
        firings, rates = list[FiringPrice](), list[tuple[float, float]]()
        for number, (group, first, end, more) in enumerate(zip(self.groups, firsts, ends, later, strict=True)):
            following = self.groups[number + 1].call if number + 1 < len(self.groups) else end
            parts = self._prices(group, first, end, following if following < end else None, first.cost + more)
            firings.extend(parts)
            rates.extend([self._write_and_read(group)] * len(parts))
        cold = [number for number in range(1, len(self)) if calls[number].late(calls[number - 1])]
        paid = sum(first.summarizer for first in firsts)
        table, reuse = self.table, self.reuse
        return Priced(replay, table, found, plain, costs, plain_costs, paid, firings, rest, reuse, cold, rates)

    def _ends(self) -> list[int]:
        """By group, the call after the last one that has its context."""
        begins = _begins(self.replay)
        behind = (bisect_right(begins, group.call) for group in self.groups)
        return [begins[at] if at < len(begins) else len(self) for at in behind]

    def _later(
        self, firsts: Sequence[_First], ends: Sequence[int], costs: Sequence[float], plain: Sequence[float]
    ) -> tuple[list[float], float]:
        """What the calls behind each group's first one cost more by it, and what they cost more by none.

        What a call costs more is shared by the groups that are in effect, by the tokens that each took; at the first
        call of a group, what it would cost more without it is.
        """
        without = {group.call: first.without for group, first in zip(self.groups, firsts, strict=True)}
        taken, size, rest = [0] * (len(self) + 1), [0] * (len(self) + 1), 0.0
        for group, end in zip(self.groups, ends, strict=True):
            cleared = group.before - group.after
            for steps, tokens in ((taken, cleared), (size, abs(cleared))):
                steps[group.call + 1] += tokens
                steps[max(end, group.call + 1)] -= tokens
        by_token = [0.0]  # a sum: what a token less made the calls before each call cost more
        for number, (tokens, most) in enumerate(zip(accumulate(taken[:-1]), accumulate(size[:-1]), strict=True)):
            more = without.get(number, costs[number]) - plain[number]
            shared = tokens * EVEN_OUT > most > 0
            by_token.append(by_token[-1] + (more / tokens if shared else 0.0))
            rest += 0.0 if shared else more
        found = [
            (by_token[max(end, group.call + 1)] - by_token[group.call + 1]) * (group.before - group.after)
            for group, end in zip(self.groups, ends, strict=True)
        ]
        return found, rest

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
        begin = self.begins[number]
        if kept < NOTHING_CHANGED and lost is None and not (number and call.late(self.calls[number - 1])):
            floor = max(floor, begin)
        if call.seen is not None:
            gone = max(self.replay.baseline[number] - size, 0)
            floor = max(min(max(floor, begin), call.seen), min(call.seen - gone, kept))
            lost = "as recorded"
        anywhere = self._anywhere(call) if kept < NOTHING_CHANGED else call.anywhere
        changed = call._replace(size=size, kept=min(call.kept, kept), floor=floor, lost=lost, anywhere=anywhere)
        used = cache.take(changed)
        cache.answered(call.answered)
        return used

    def _anywhere(self, call: Sent) -> bool:
        """Whether a prompt that a policy changed is read up to the first change."""
        return call.anywhere or self.reuse == "anywhere"

    def _first(self, group: _Group, now: Used, cache: PromptCache) -> _First:
        """The first call of a group, which is *now*; without it *cache* would have seen one that is larger."""
        warm = cache.copy()
        then = self._take(cache, group.call, max(self.replay.sizes[group.call] + group.before - group.after, 0))
        cold = then.read <= now.read
        read = self._warm(group, warm).read if cold else now.read
        last = self.replay.sizes[group.call - 1] if group.call else 0
        behind = max(min(last, group.before) - (group.before - group.after) - read, 0)
        asked, without = self._summarizer(group, cold), self._cost(group.call, then)
        rewritten = max(now.written - then.written, 0)
        return _First(self._cost(group.call, now) - without + asked, without, asked, behind, rewritten, cold)

    def _warm(self, group: _Group, cache: PromptCache) -> Used:
        """What would become of the first call of a group in a cache that has lost nothing."""
        number = group.call
        if not number:
            return Used(0, 0, 0, 0)
        call = self.calls[number]._replace(sent=-1, ended=-1, lost=None, key=self.calls[number - 1].key)
        call = call._replace(floor=max(call.floor, self.begins[number]))
        kept = self.replay.kept[number]
        return cache.take(call._replace(size=self.replay.sizes[number], kept=kept, anywhere=self._anywhere(call)))

    def _prices(self, group: _Group, first: _First, end: int, following: int | None, cost: float) -> list[FiringPrice]:
        """The price of each firing of a group."""
        cleared = group.before - group.after
        write, read = self._write_and_read(group)
        saving, left = read * cleared, end - group.call
        even = max((first.cost + saving) / saving, 0.0) if saving > 0 else None
        verdict: Verdict = "saves nothing" if cleared <= 0 else "pays" if cost <= 0 else "does not pay"
        if verdict == "pays" and ((write - read) * first.behind + first.summarizer) / saving > left:
            verdict = "pays only as the cache was cold"
        whole = FiringPrice(
            group.call,
            group.firings[0].message,
            cleared,
            first.behind,
            first.rewritten,
            first.cold,
            first.summarizer,
            even,
            left,
            following - group.call if following is not None else None,
            cost,
            verdict,
        )
        return _parts(whole, group)

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
                ended=facts.end_time[message],
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


def _begins(replay: Replay) -> list[int]:
    """The calls with which the context begins anew, in order."""
    facts, messages = replay.session.facts, [call.message for call in replay.calls]
    kept = (epoch for epoch in facts.epochs if epoch.cause != "start")
    if replay.recorded == "ignore":
        kept = (epoch for epoch in kept if epoch.cause != "compaction" or not epoch.message)
    return sorted({bisect_left(messages, max(epoch.message + 1, epoch.start)) for epoch in kept})


def _group(call: int, firings: list[Firing]) -> _Group:
    return _Group(call, firings, firings[0].before, firings[-1].after)


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
