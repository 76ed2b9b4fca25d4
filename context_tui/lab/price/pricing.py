"""Pricing of a replay at prompt-cache rates, compared with the same session without a policy, in total and by firing.

Output tokens are the same with and without the policy, and are left out. A firing is compared with the same run without
it and without the later firings, from the first call with its context to the next reset of the context or the end. The
costs of all firings therefore add up to the cost of the policy. The savings of a later call are shared among the
firings before it, by the tokens that each removed.

For one firing in a warm cache, the usual formula results. With S tokens after the first change that are written again,
C tokens fewer in each call, and prices w to write and r to read, the firing costs ``S (w - r)`` and the summarizer, and
saves ``r C`` with each call, the first one included. It breaks even after ``((w - r) S + summarizer) / (r C)`` calls.
In a cold cache everything is written in any case, and the firing saves ``w C`` at once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, pairwise
from typing import Literal, NamedTuple

from context_tui.lab.price.cache import CacheRequest, CacheReuse, CacheUsage, PromptCache
from context_tui.lab.price.cache_requests import NOTHING_CHANGED, RecordedCalls, reconstruct_recorded_calls
from context_tui.lab.price.rates import FIVE_MINUTES, Rates, RateTable, build_rate_table
from context_tui.lab.replay.result import Firing, Replay

MIN_NET_SHARE_DIVISOR = 10
"""Costs are shared among firings if their net effect is more than the gross effect divided by this."""

Verdict = Literal["pays", "does not pay", "pays only as the cache was cold", "saves nothing"]


@dataclass(frozen=True)
class FiringPrice:
    """Costs and savings of one firing, in the unit of :class:`ReplayPrice`; savings are negative costs.

    Attributes:
        call: number of the first call with the changed context.
        message: the message before which it took effect.
        cleared: tokens that the firing removes from each later call (C).
        behind: unchanged tokens after the first change, which a warm cache has to write again (S).
        rewritten: tokens that the first call wrote only because of it; 0 if the cache had expired.
        cold: whether the first call would not have read the changed part even without the firing.
        break_even: number of calls after which the firing pays; 0 if at once, None if it saves nothing per call.
        calls_left: number of calls until a new context begins, or to the end.
        next_change: number of calls until the next firing, or None if none follows before a new context.
        cost: added cost of these calls and the summarizer, compared with a run without this firing and later ones.
        verdict: whether the firing paid, or paid only because the cache had expired at its first or a later call.
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


class ReplayPrice(NamedTuple):
    """A replay's calls and firings at prompt-cache prices; every cost is in ``rate_table.unit``.

    Attributes:
        cache_usage, baseline_usage: tokens read, written and uncached in each call, with the policy and without it.
        costs, baseline_costs: cost of each call's prompt, with the policy and without it.
        firings: price of each firing; firings before the same call share one price.
        unattributed_cost: added cost of calls after the context was reset, which belongs to no firing.
        reuse: how much of the cache a changed prompt is assumed to reuse.
        cold_calls: numbers of the calls before which the cache had expired.
        write_read_rates: for each firing, the prices to write and to read a token at its first call.
        is_automatic: whether no cache writes are recorded, so that the cache is read up to the change in any case.
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
    is_automatic: bool = False

    @property
    def cost(self) -> float:
        """Cost of all prompts and of the summarizer with the policy."""
        return sum(self.costs) + self.summarizer_cost

    @property
    def extra_call_cost(self) -> float:
        """Cost of one extra call for every 1,000 tokens that the firings removed from a call.

        An extra call after a firing costs as much as the mean call until the next firing.
        """
        prices = {price.call: price for price in self.firings}
        total = 0.0
        for call, end in pairwise([*sorted(prices), len(self.costs)]):
            costs = self.costs[call:end]
            total += max(prices[call].cleared, 0) / 1_000 * sum(costs) / max(len(costs), 1)
        return total

    @property
    def break_even_calls(self) -> float | None:
        """Extra calls per 1,000 removed tokens that would cost all that was saved, or None if nothing was removed."""
        return compute_break_even_calls(self.baseline_cost - self.cost, self.extra_call_cost)

    @property
    def baseline_cost(self) -> float:
        """Cost of all prompts without the policy."""
        return sum(self.baseline_costs)


def compute_break_even_calls(saved: float, extra_call_cost: float) -> float | None:
    """Return the extra calls per 1,000 removed tokens that cost all that was saved, or None if nothing was removed."""
    return saved / extra_call_cost if extra_call_cost else None


def price_replay(
    replay: Replay,
    *,
    recorded: RecordedCalls | None = None,
    shares_prefix: bool = False,
    reuse: CacheReuse = "breakpoints",
) -> ReplayPrice:
    """Price the prompts of a replay with and without its policy, and the effect of each firing.

    Args:
        recorded: the result of ``cache_requests.reconstruct_recorded_calls``, if it is computed already.
        shares_prefix: whether the summarizer's prompt begins as the calls do, and is therefore read from the cache.
        reuse: how much of an explicit cache a changed prompt reuses; an automatic one is always read up to the change.
    """
    calls = recorded or reconstruct_recorded_calls(replay.session)
    return _ReplayPricing(replay, calls, shares_prefix=shares_prefix, reuse=reuse).compute_price()


class _FiringGroup(NamedTuple):
    call: int
    firings: list[Firing]
    before: int
    after: int


class _FirstCallCost(NamedTuple):
    """Cost of the first call with a group of firings; ``added_cost`` includes the ``summarizer_cost``."""

    added_cost: float
    cost_without_firings: float
    summarizer_cost: float
    rewritten_if_warm: int
    rewritten: int
    is_cold: bool


class _ReplayPricing:
    def __init__(self, replay: Replay, recorded: RecordedCalls, *, shares_prefix: bool, reuse: CacheReuse) -> None:
        self.replay, self.shares_prefix = replay, shares_prefix
        facts, self.requests = replay.session.facts, _build_cache_requests(replay, recorded)
        beginnings = recorded.cached_beginnings
        self.cached_beginnings = [beginnings[row] if 0 <= row < len(beginnings) else 0 for _, row in replay.calls]
        self.is_automatic = bool(self.requests) and all(call.anywhere for call in self.requests)
        self.reuse: CacheReuse = "anywhere" if self.is_automatic else reuse
        rows = map(self._get_model_row, range(len(self)))
        self.models = [facts.models[row] if row >= 0 else facts.model for row in rows]
        fee = any(usage.cache_write_5m or usage.cache_write_1h for usage in facts.requests)
        self.rate_table = build_rate_table(self.models, has_write_fee=fee)
        by_call = groupby(replay.firings, key=lambda firing: firing.call)
        groups = [(call, list(firings)) for call, firings in by_call]
        self.groups = [_FiringGroup(call, firings, firings[0].before, firings[-1].after) for call, firings in groups]
        self.firing_calls = {group.call for group in self.groups}

    def __len__(self) -> int:
        return len(self.replay.calls)

    def _get_model_row(self, number: int) -> int:
        facts, row = self.replay.session.facts, self.replay.calls[number].request
        if row < 0:
            row = bisect_left(facts.request_message, self.replay.calls[number].message) - 1  # of the previous request
        return facts.request_model[row] if row >= 0 else -1

    def compute_price(self) -> ReplayPrice:
        replay, calls = self.replay, self.requests
        cache = PromptCache()
        baseline = [self._update_cache(cache, number, size) for number, size in enumerate(replay.baseline)]
        usages, cache, first_costs = list[CacheUsage](), PromptCache(), list[_FirstCallCost]()
        for group in self.groups:
            usages += (self._compute_policy_usage(cache, number) for number in range(len(usages), group.call))
            cache_before = cache.copy()
            usages.append(self._compute_policy_usage(cache, group.call))
            first_costs.append(self._compute_rewrite_cost(group, usages[-1], cache_before))
        usages += (self._compute_policy_usage(cache, number) for number in range(len(usages), len(self)))
        costs = list(map(self._compute_usage_cost, range(len(self)), usages))
        baseline_costs = list(map(self._compute_usage_cost, range(len(self)), baseline))
        resets = _find_context_resets(self.replay)
        next_resets = (bisect_right(resets, group.call) for group in self.groups)
        end_calls = [resets[index] if index < len(resets) else len(self) for index in next_resets]
        later_costs, unattributed = self._compute_later_costs(first_costs, end_calls, costs, baseline_costs)
        firings, rates = list[FiringPrice](), list[tuple[float, float]]()
        for number, (group, first, end, later_cost) in enumerate(
            zip(self.groups, first_costs, end_calls, later_costs, strict=True)
        ):
            next_call = self.groups[number + 1].call if number + 1 < len(self.groups) else end
            next_change = next_call if next_call < end else None
            prices = self._compute_firing_prices(group, first, end, next_change, first.added_cost + later_cost)
            firings += prices
            rates += [self._get_write_read_rates(group)] * len(prices)
        return ReplayPrice(
            replay,
            self.rate_table,
            usages,
            baseline,
            costs,
            baseline_costs,
            sum(first.summarizer_cost for first in first_costs),
            firings,
            unattributed,
            self.reuse,
            [number for number in range(1, len(self)) if calls[number].is_expired_after(calls[number - 1])],
            rates,
            self.is_automatic,
        )

    def _compute_later_costs(
        self,
        first_costs: Sequence[_FirstCallCost],
        end_calls: Sequence[int],
        costs: Sequence[float],
        baseline_costs: Sequence[float],
    ) -> tuple[list[float], float]:
        """Compute for each group the added cost of calls after its first one, and the cost that belongs to no group.

        The added cost of a call is shared among the earlier groups by the tokens that each removed. For the first call
        of a later group, it is the added cost without that group.
        """
        groups = list(zip(self.groups, end_calls, strict=True))
        costs_without = (first.cost_without_firings for first in first_costs)
        without_group = dict(zip((group.call for group in self.groups), costs_without, strict=True))
        net_steps, gross_steps, unattributed = [0] * (len(self) + 1), [0] * (len(self) + 1), 0.0
        for group, end in groups:
            cleared = group.before - group.after
            for steps, net in ((net_steps, cleared), (gross_steps, abs(cleared))):
                steps[group.call + 1] += net
                steps[max(end, group.call + 1)] -= net
        by_token = [0.0]  # by call, added cost per removed token of all calls before it
        totals = zip(accumulate(net_steps[:-1]), accumulate(gross_steps[:-1]), strict=True)
        for number, (net, gross) in enumerate(totals):
            added_cost = without_group.get(number, costs[number]) - baseline_costs[number]
            is_shared = net * MIN_NET_SHARE_DIVISOR > gross > 0
            by_token.append(by_token[-1] + (added_cost / net if is_shared else 0.0))
            unattributed += 0.0 if is_shared else added_cost
        later_costs = []
        for group, end in groups:
            cost_by_token = by_token[max(end, group.call + 1)] - by_token[group.call + 1]
            later_costs.append(cost_by_token * (group.before - group.after))
        return later_costs, unattributed

    def _compute_policy_usage(self, cache: PromptCache, number: int) -> CacheUsage:
        unchanged_prefix = self.replay.unchanged_prefixes[number] if number in self.firing_calls else NOTHING_CHANGED
        return self._update_cache(cache, number, self.replay.sizes[number], unchanged_prefix)

    def _update_cache(
        self, cache: PromptCache, number: int, size: int, unchanged_prefix: int = NOTHING_CHANGED
    ) -> CacheUsage:
        """Add a call with this *size* and unchanged prefix to the cache; return the cache usage.

        A recorded read that contradicts the cache rules is kept, minus the removed content.
        """
        call, beginning = self.requests[number], self.cached_beginnings[number]
        floor, miss_reason = call.floor, call.miss_reason
        is_expired = number > 0 and call.is_expired_after(self.requests[number - 1])
        if unchanged_prefix < NOTHING_CHANGED and miss_reason is None and not is_expired:
            floor = max(floor, beginning)
        if (recorded := call.recorded_read) is not None:
            removed = max(self.replay.baseline[number] - size, 0)
            floor = max(min(max(floor, beginning), recorded), min(recorded - removed, unchanged_prefix))
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
        return call.anywhere or self.reuse == "anywhere"

    def _compute_rewrite_cost(self, group: _FiringGroup, usage: CacheUsage, cache: PromptCache) -> _FirstCallCost:
        """Compute the cost that a group of firings adds to its first call, given the *cache* before that call."""
        warm_cache, cleared = cache.copy(), group.before - group.after
        usage_without = self._update_cache(cache, group.call, max(self.replay.sizes[group.call] + cleared, 0))
        is_cold = usage_without.read <= usage.read
        read = self._compute_warm_usage(group, warm_cache).read if is_cold else usage.read
        last_size = self.replay.sizes[group.call - 1] if group.call else 0
        rewritten_if_warm = max(min(last_size, group.before) - cleared - read, 0)
        summarizer_cost = self._compute_summarizer_cost(group, is_cold)
        cost_without = self._compute_usage_cost(group.call, usage_without)
        added_cost = self._compute_usage_cost(group.call, usage) - cost_without + summarizer_cost
        rewritten = max(usage.written - usage_without.written, 0)
        return _FirstCallCost(added_cost, cost_without, summarizer_cost, rewritten_if_warm, rewritten, is_cold)

    def _compute_warm_usage(self, group: _FiringGroup, cache: PromptCache) -> CacheUsage:
        """Compute the usage of a group's first call as if no cache entry had expired or been lost."""
        number = group.call
        if not number:
            return CacheUsage(0, 0, 0, 0)
        call = self.requests[number]
        return cache.update(
            call._replace(
                size=self.replay.sizes[number],
                unchanged_prefix=self.replay.unchanged_prefixes[number],
                sent_at=-1,
                ended_at=-1,
                key=self.requests[number - 1].key,
                floor=max(call.floor, self.cached_beginnings[number]),
                miss_reason=None,
                anywhere=self._reads_up_to_change(call),
            )
        )

    def _compute_firing_prices(
        self, group: _FiringGroup, first: _FirstCallCost, end: int, next_change: int | None, cost: float
    ) -> list[FiringPrice]:
        cleared = group.before - group.after
        write_rate, read_rate = self._get_write_read_rates(group)
        saving_per_call, calls_left = read_rate * cleared, end - group.call
        break_even = max((first.added_cost + saving_per_call) / saving_per_call, 0.0) if saving_per_call > 0 else None
        verdict: Verdict = "saves nothing" if cleared <= 0 else "pays" if cost <= 0 else "does not pay"
        warm_cost = (write_rate - read_rate) * first.rewritten_if_warm + first.summarizer_cost
        if verdict == "pays" and warm_cost / saving_per_call > calls_left:
            verdict = "pays only as the cache was cold"
        group_price = FiringPrice(
            group.call,
            group.firings[0].message,
            cleared,
            first.rewritten_if_warm,
            first.rewritten,
            first.is_cold,
            first.summarizer_cost,
            break_even,
            calls_left,
            next_change - group.call if next_change is not None else None,
            cost,
            verdict,
        )
        return _split_group_price(group_price, group)

    def _compute_summarizer_cost(self, group: _FiringGroup, is_cold: bool) -> float:
        total = 0.0
        for cut in (firing.cache_cut for firing in group.firings):
            rates = self._get_rates(group.call, cut.summarizer_input)
            total += (rates.read if self.shares_prefix and not is_cold else rates.input) * cut.summarizer_input
            total += rates.output * cut.summarizer_output
        return total

    def _get_write_read_rates(self, group: _FiringGroup) -> tuple[float, float]:
        rates = self._get_rates(group.call, group.after)
        return rates.get_write_rate(self.requests[group.call].ttl_ms), rates.read

    def _get_rates(self, number: int, size: int) -> Rates:
        return self.rate_table.get_rates(self.models[number]).select_for_prompt(size)

    def _compute_usage_cost(self, number: int, usage: CacheUsage) -> float:
        return self._get_rates(number, usage.size).compute_usage_cost(usage)


def _build_cache_requests(replay: Replay, recorded: RecordedCalls) -> list[CacheRequest]:
    """Build the cache request of every call without the policy; calls without recorded usage are estimated."""
    facts, requests = replay.session.facts, list[CacheRequest]()
    ttl_ms = recorded.requests[0].ttl_ms if recorded.requests else FIVE_MINUTES
    for number, (message, row) in enumerate(replay.calls):
        if 0 <= row < len(recorded.requests):
            call = recorded.requests[row]
        else:
            call = CacheRequest(0, 0, sent_at=facts.time[message], ended_at=facts.end_time[message], ttl_ms=ttl_ms)
            if requests:
                previous = requests[-1]
                call = call._replace(unchanged_prefix=NOTHING_CHANGED, key=previous.key, new_blocks=1)
                call = call._replace(floor=previous.floor, anywhere=previous.anywhere)
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
    prices = []
    for firing in group.firings:
        cleared = firing.before - firing.after
        share = cleared / group_price.cleared if group_price.cleared else 1 / len(group.firings)
        prices.append(
            replace(
                group_price,
                cleared=cleared,
                behind=round(group_price.behind * share),
                rewritten=round(group_price.rewritten * share),
                summarizer=group_price.summarizer * share,
                cost=group_price.cost * share,
            )
        )
    return prices
