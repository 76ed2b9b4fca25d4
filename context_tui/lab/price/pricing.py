"""Price a replay at prompt-cache rates: against the unchanged calls, and firing by firing.

The output of the calls is the same in both and is left out. A firing is compared with the same run without it and the
later firings, from the first call with its context to the next reset of the context, or to the end: so the costs of all
firings add up to the cost of the policy. At its own call that is what is read and written with it and without it; the
savings of a later call are shared by the firings before it, by the tokens that each removed.

For one firing in a warm cache this is the usual formula: with S tokens after the first change that are written again, C
tokens fewer in each call, and prices w to write and r to read, it costs ``S (w - r)`` and the summarizer, and saves ``r
C`` with each call, its own included: it breaks even after ``((w - r) S + summarizer) / (r C)`` calls. In a cold cache
everything is written in any case, and it saves ``w C`` at once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from typing import Literal, NamedTuple

from context_tui.lab.price.cache import CacheRequest, CacheReuse, CacheUsage, PromptCache
from context_tui.lab.price.cache_requests import NOTHING_CHANGED, RecordedCalls, reconstruct_recorded_calls
from context_tui.lab.price.rates import FIVE_MINUTES, Rates, RateTable, build_rate_table
from context_tui.lab.replay.result import Firing, Replay

MIN_NET_SHARE_DIVISOR = 10
"""Least share of the net effect in the gross effect of several firings for costs to be shared among them."""

Verdict = Literal["pays", "does not pay", "pays only as the cache was cold", "saves nothing"]


@dataclass(frozen=True)
class FiringPrice:
    """Price of one firing in the unit of :class:`ReplayPrice`; savings are negative.

    Attributes:
        call: number of the first call with its context.
        message: the message before which it took effect.
        cleared: tokens that each call has less because of it, C.
        behind: earlier tokens that a warm cache has to write again, S.
        rewritten: tokens of its first call that were written only because of it; 0 in an expired cache.
        cold: whether that call would have read nothing of the changed part in any case.
        summarizer: cost of the call to a summarizer.
        break_even: calls after which it pays; 0 at once, None where it saves nothing per call.
        calls_left: calls with its context: until a new context begins, or to the end.
        next_change: calls from its first one to the next firing; None where none follows in its context.
        cost: added cost of these calls and the summarizer, compared with the run without it and later firings.
        verdict: whether it paid, and if only because the cache had expired then or for one of the remaining calls.
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
class ReplayPrice:
    """Replay at cache prices; every cost is in ``rate_table.unit``.

    Attributes:
        replay: the priced replay.
        rate_table: the prices.
        cache_usage: by call, tokens read, written and uncached with the policy; ``baseline_usage`` without it.
        costs: by call, cost of its prompt with the policy; ``baseline_costs`` without it.
        summarizer_cost: cost of all calls to a summarizer.
        firings: by firing of the replay. Several before the same call are priced together and share that price.
        unattributed_cost: added cost of the policy that belongs to no firing: what firings of an earlier context left
            in the next one. With it the costs of the firings add up exactly.
        reuse: what a changed prompt was taken to read.
        cold_calls: numbers of the calls before which the whole cache had expired.
        write_read_rates: by firing, the prices to write and to read a token at its call.
    """

    replay: Replay
    rate_table: RateTable
    cache_usage: Sequence[CacheUsage]
    baseline_usage: Sequence[CacheUsage]
    costs: Sequence[float]
    baseline_costs: Sequence[float]
    summarizer_cost: float
    firings: Sequence[FiringPrice]
    unattributed_cost: float
    reuse: CacheReuse
    cold_calls: Sequence[int]
    write_read_rates: Sequence[tuple[float, float]]

    @property
    def cost(self) -> float:
        """Cost of all prompts and the summarizer with the policy."""
        return sum(self.costs) + self.summarizer_cost

    @property
    def baseline_cost(self) -> float:
        """Cost of all prompts without it."""
        return sum(self.baseline_costs)


def price_replay(
    replay: Replay,
    *,
    recorded: RecordedCalls | None = None,
    shares_prefix: bool = False,
    summarizer: Rates | None = None,
    reuse: CacheReuse = "breakpoints",
) -> ReplayPrice:
    """Price *replay*.

    Args:
        recorded: the result of :func:`~context_tui.lab.price.cache_requests.reconstruct_recorded_calls`, if computed.
        shares_prefix: whether a summarizer is sent the same beginning as the calls, and so reads it from the cache;
            otherwise it pays the full price of its input.
        summarizer: the prices of its model, in the unit of the session's; default: those of the session's model.
        reuse: what a changed prompt reads where calls write to the cache explicitly; an automatic cache is read up to
            the first change in any case.
    """
    calls = recorded or reconstruct_recorded_calls(replay.session)
    run = _ReplayPricing(replay, calls, shares_prefix=shares_prefix, summarizer=summarizer, reuse=reuse)
    return run.compute_price()


class _FiringGroup(NamedTuple):
    """Firings before one call, taken together: its tokens ``before`` and ``after`` them."""

    call: int
    firings: list[Firing]
    before: int
    after: int


class _FirstCallCost(NamedTuple):
    """Cost of the first call with a group of firings.

    Added cost, including the ``summarizer_cost``, and ``cost_without_firings``; the tokens that a warm cache writes
    again, those that were written again, and whether the cache had expired.
    """

    added_cost: float
    cost_without_firings: float
    summarizer_cost: float
    behind: int
    rewritten_tokens: int
    is_cold: bool


class _ReplayPricing:
    """State of one pricing."""

    def __init__(
        self,
        replay: Replay,
        recorded: RecordedCalls,
        *,
        shares_prefix: bool,
        summarizer: Rates | None,
        reuse: CacheReuse,
    ) -> None:
        self.replay, self.shares_prefix, self.summarizer = replay, shares_prefix, summarizer
        facts, self.requests = replay.session.facts, _build_cache_requests(replay, recorded)
        beginnings = recorded.cached_beginnings
        self.cached_beginnings = [beginnings[row] if 0 <= row < len(beginnings) else 0 for _, row in replay.calls]
        self.reuse: CacheReuse = "anywhere" if self.requests and all(call.anywhere for call in self.requests) else reuse
        self.models = [
            facts.models[row] if row >= 0 else facts.model for row in map(self._get_model_row, range(len(self)))
        ]
        fee = any(usage.cache_write_5m or usage.cache_write_1h for usage in facts.requests)
        self.rate_table = build_rate_table(self.models, has_write_fee=fee)
        by_call = groupby(replay.firings, key=lambda firing: firing.call)
        groups = [(call, list(firings)) for call, firings in by_call]
        self.groups = [_FiringGroup(call, each, each[0].before, each[-1].after) for call, each in groups]
        self.firing_calls = {group.call for group in self.groups}

    def __len__(self) -> int:
        return len(self.replay.calls)

    def _get_model_row(self, number: int) -> int:
        facts, row = self.replay.session.facts, self.replay.calls[number].request
        if row < 0:
            row = bisect_left(facts.request_message, self.replay.calls[number].message) - 1  # the last one before it
        return facts.request_model[row] if row >= 0 else -1

    def compute_price(self) -> ReplayPrice:
        replay, calls = self.replay, self.requests
        baseline, cache = list[CacheUsage](), PromptCache()
        for number, size in enumerate(replay.baseline):
            baseline.append(self._update_cache(cache, number, size))
        usages, cache, firsts = list[CacheUsage](), PromptCache(), list[_FirstCallCost]()
        for group in self.groups:
            usages.extend(self._replay_calls(cache, len(usages), group.call))
            without = cache.copy()
            usages.append(self._compute_policy_usage(cache, group.call))
            firsts.append(self._compute_rewrite_cost(group, usages[-1], without))
        usages.extend(self._replay_calls(cache, len(usages), len(self)))
        costs = [self._compute_usage_cost(number, each) for number, each in enumerate(usages)]
        baseline_costs = [self._compute_usage_cost(number, each) for number, each in enumerate(baseline)]
        ends = self._find_group_ends()
        later, unattributed = self._compute_later_costs(firsts, ends, costs, baseline_costs)
        firings, rates = list[FiringPrice](), list[tuple[float, float]]()
        for number, (group, first, end, more) in enumerate(zip(self.groups, firsts, ends, later, strict=True)):
            following = self.groups[number + 1].call if number + 1 < len(self.groups) else end
            parts = self._compute_firing_prices(
                group, first, end, following if following < end else None, first.added_cost + more
            )
            firings.extend(parts)
            rates.extend([self._get_write_read_rates(group)] * len(parts))
        cold = [number for number in range(1, len(self)) if calls[number].is_expired_after(calls[number - 1])]
        summarizer_cost = sum(first.summarizer_cost for first in firsts)
        table, reuse = self.rate_table, self.reuse
        return ReplayPrice(
            replay,
            table,
            usages,
            baseline,
            costs,
            baseline_costs,
            summarizer_cost,
            firings,
            unattributed,
            reuse,
            cold,
            rates,
        )

    def _find_group_ends(self) -> list[int]:
        """Return, by group, the call after the last one that has its context."""
        resets = _find_context_resets(self.replay)
        next_resets = (bisect_right(resets, group.call) for group in self.groups)
        return [resets[at] if at < len(resets) else len(self) for at in next_resets]

    def _compute_later_costs(
        self,
        firsts: Sequence[_FirstCallCost],
        ends: Sequence[int],
        costs: Sequence[float],
        baseline_costs: Sequence[float],
    ) -> tuple[list[float], float]:
        """Compute the added cost of the calls after each group's first one, and the added cost that no group explains.

        The added cost of a call is shared by the groups in effect, by the tokens that each removed; at the first call
        of a group, by what the call would cost without it.
        """
        without = {group.call: first.cost_without_firings for group, first in zip(self.groups, firsts, strict=True)}
        net_steps, gross_steps, unattributed = [0] * (len(self) + 1), [0] * (len(self) + 1), 0.0
        for group, end in zip(self.groups, ends, strict=True):
            cleared = group.before - group.after
            for steps, net in ((net_steps, cleared), (gross_steps, abs(cleared))):
                steps[group.call + 1] += net
                steps[max(end, group.call + 1)] -= net
        by_token = [0.0]  # prefix sums: effect of one token less on the calls before each call
        for number, (net, gross) in enumerate(
            zip(accumulate(net_steps[:-1]), accumulate(gross_steps[:-1]), strict=True)
        ):
            more = without.get(number, costs[number]) - baseline_costs[number]
            is_shared = net * MIN_NET_SHARE_DIVISOR > gross > 0
            by_token.append(by_token[-1] + (more / net if is_shared else 0.0))
            unattributed += 0.0 if is_shared else more
        later_costs = [
            (by_token[max(end, group.call + 1)] - by_token[group.call + 1]) * (group.before - group.after)
            for group, end in zip(self.groups, ends, strict=True)
        ]
        return later_costs, unattributed

    def _replay_calls(self, cache: PromptCache, begin: int, end: int) -> list[CacheUsage]:
        return [self._compute_policy_usage(cache, number) for number in range(begin, end)]

    def _compute_policy_usage(self, cache: PromptCache, number: int) -> CacheUsage:
        unchanged_prefix = self.replay.unchanged_prefixes[number] if number in self.firing_calls else NOTHING_CHANGED
        return self._update_cache(cache, number, self.replay.sizes[number], unchanged_prefix)

    def _update_cache(
        self, cache: PromptCache, number: int, size: int, unchanged_prefix: int = NOTHING_CHANGED
    ) -> CacheUsage:
        """Return the usage of a call of another *size*, of whose prompt a firing left *unchanged_prefix* tokens.

        Where the recording contradicts the cache rules, it is followed, except for removed content.
        """
        call = self.requests[number]
        floor, miss_reason = call.floor, call.miss_reason
        begin = self.cached_beginnings[number]
        if (
            unchanged_prefix < NOTHING_CHANGED
            and miss_reason is None
            and not (number and call.is_expired_after(self.requests[number - 1]))
        ):
            floor = max(floor, begin)
        if call.recorded_read is not None:
            removed = max(self.replay.baseline[number] - size, 0)
            floor = max(min(max(floor, begin), call.recorded_read), min(call.recorded_read - removed, unchanged_prefix))
            miss_reason = "as recorded"
        anywhere = self._reads_up_to_change(call) if unchanged_prefix < NOTHING_CHANGED else call.anywhere
        request = call._replace(
            size=size,
            unchanged_prefix=min(call.unchanged_prefix, unchanged_prefix),
            floor=floor,
            miss_reason=miss_reason,
            anywhere=anywhere,
        )
        usage = cache.update(request)
        cache.append_reply(call.cached_reply_tokens)
        return usage

    def _reads_up_to_change(self, call: CacheRequest) -> bool:
        """Return whether a prompt that a policy changed is read up to the first change."""
        return call.anywhere or self.reuse == "anywhere"

    def _compute_rewrite_cost(self, group: _FiringGroup, usage: CacheUsage, cache: PromptCache) -> _FirstCallCost:
        """Compute the cost of a group's first call, with *usage*; *cache* is in the state before it."""
        warm = cache.copy()
        usage_without = self._update_cache(
            cache, group.call, max(self.replay.sizes[group.call] + group.before - group.after, 0)
        )
        is_cold = usage_without.read <= usage.read
        read = self._compute_warm_usage(group, warm).read if is_cold else usage.read
        last = self.replay.sizes[group.call - 1] if group.call else 0
        behind = max(min(last, group.before) - (group.before - group.after) - read, 0)
        summarizer_cost = self._compute_summarizer_cost(group, is_cold)
        cost_without = self._compute_usage_cost(group.call, usage_without)
        rewritten = max(usage.written - usage_without.written, 0)
        return _FirstCallCost(
            self._compute_usage_cost(group.call, usage) - cost_without + summarizer_cost,
            cost_without,
            summarizer_cost,
            behind,
            rewritten,
            is_cold,
        )

    def _compute_warm_usage(self, group: _FiringGroup, cache: PromptCache) -> CacheUsage:
        """Return the usage of the first call of a group in a cache that has lost nothing."""
        number = group.call
        if not number:
            return CacheUsage(0, 0, 0, 0)
        call = self.requests[number]._replace(
            sent_at=-1, ended_at=-1, miss_reason=None, key=self.requests[number - 1].key
        )
        call = call._replace(floor=max(call.floor, self.cached_beginnings[number]))
        unchanged_prefix = self.replay.unchanged_prefixes[number]
        return cache.update(
            call._replace(
                size=self.replay.sizes[number],
                unchanged_prefix=unchanged_prefix,
                anywhere=self._reads_up_to_change(call),
            )
        )

    def _compute_firing_prices(
        self, group: _FiringGroup, first: _FirstCallCost, end: int, next_change: int | None, cost: float
    ) -> list[FiringPrice]:
        cleared = group.before - group.after
        write, read = self._get_write_read_rates(group)
        saving, calls_left = read * cleared, end - group.call
        break_even = max((first.added_cost + saving) / saving, 0.0) if saving > 0 else None
        verdict: Verdict = "saves nothing" if cleared <= 0 else "pays" if cost <= 0 else "does not pay"
        if verdict == "pays" and ((write - read) * first.behind + first.summarizer_cost) / saving > calls_left:
            verdict = "pays only as the cache was cold"
        group_price = FiringPrice(
            group.call,
            group.firings[0].message,
            cleared,
            first.behind,
            first.rewritten_tokens,
            first.is_cold,
            first.summarizer_cost,
            break_even,
            calls_left,
            next_change - group.call if next_change is not None else None,
            cost,
            verdict,
        )
        return _split_group_price(group_price, group)

    def _compute_summarizer_cost(self, group: _FiringGroup, cold: bool) -> float:
        total = 0.0
        for firing in group.firings:
            rates = self.summarizer or self._get_rates(group.call, firing.cache_cut.summarizer_input)
            each = rates.read if self.shares_prefix and not cold and self.summarizer is None else rates.input
            total += each * firing.cache_cut.summarizer_input + rates.output * firing.cache_cut.summarizer_output
        return total

    def _get_write_read_rates(self, group: _FiringGroup) -> tuple[float, float]:
        rates = self._get_rates(group.call, group.after)
        return rates.get_write_rate(self.requests[group.call].ttl_ms), rates.read

    def _get_rates(self, number: int, size: int) -> Rates:
        return self.rate_table.get_rates(self.models[number]).select_for_prompt(size)

    def _compute_usage_cost(self, number: int, usage: CacheUsage) -> float:
        return self._get_rates(number, usage.size).compute_usage_cost(usage)


def _build_cache_requests(replay: Replay, recorded: RecordedCalls) -> list[CacheRequest]:
    """Build every call as the cache saw it without the policy; without recorded usage, from the file."""
    facts, requests = replay.session.facts, list[CacheRequest]()
    ttl_ms = recorded.requests[0].ttl_ms if recorded.requests else FIVE_MINUTES
    for number, (message, row) in enumerate(replay.calls):
        if 0 <= row < len(recorded.requests):
            call = recorded.requests[row]
        else:
            time, last = facts.time[message], requests[-1] if requests else None
            call = CacheRequest(
                0,
                NOTHING_CHANGED if requests else 0,
                sent_at=time,
                ended_at=facts.end_time[message],
                ttl_ms=ttl_ms,
                key=last.key if last else None,
            )
            if last is not None:
                call = call._replace(floor=last.floor, new_blocks=1, anywhere=last.anywhere)
        has_grown = number > 0 and replay.baseline[number] >= replay.baseline[number - 1]
        if replay.recorded == "ignore" and has_grown and call.unchanged_prefix < NOTHING_CHANGED:
            call = call._replace(unchanged_prefix=NOTHING_CHANGED, recorded_read=None)
        ttl_ms = call.ttl_ms or ttl_ms
        requests.append(call)
    return requests


def _find_context_resets(replay: Replay) -> list[int]:
    facts, messages = replay.session.facts, [call.message for call in replay.calls]
    epochs = (epoch for epoch in facts.epochs if epoch.cause != "start")
    if replay.recorded == "ignore":
        epochs = (epoch for epoch in epochs if epoch.cause != "compaction" or not epoch.message)
    return sorted({bisect_left(messages, max(epoch.message + 1, epoch.start)) for epoch in epochs})


def _split_group_price(group_price: FiringPrice, group: _FiringGroup) -> list[FiringPrice]:
    """Split the price of a group among its firings by the tokens that each removed."""
    if len(group.firings) == 1:
        return [group_price]
    parts = []
    for firing in group.firings:
        cleared = firing.before - firing.after
        share = cleared / group_price.cleared if group_price.cleared else 1 / len(group.firings)
        parts.append(
            replace(
                group_price,
                cleared=cleared,
                behind=round(group_price.behind * share),
                rewritten=round(group_price.rewritten * share),
                summarizer=group_price.summarizer * share,
                cost=group_price.cost * share,
            )
        )
    return parts
