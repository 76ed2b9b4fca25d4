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
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple

from context_tui.lab.price.cache import CacheReuse, CacheUsage
from context_tui.lab.price.cache_costs import CacheCosts, FiringGroup, RewriteCost
from context_tui.lab.price.cache_requests import RecordedCalls, reconstruct_recorded_calls
from context_tui.lab.price.rates import RateTable
from context_tui.lab.replay.result import Replay

MIN_NET_SHARE_DIVISOR = 10
"""Costs are shared among firings if their net effect is more than the gross effect divided by this."""

Verdict = Literal["pays", "does not pay", "pays only as the cache was cold", "saves nothing"]


class FiringPrice(NamedTuple):
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
    cache_costs = CacheCosts(replay, calls, shares_prefix=shares_prefix, reuse=reuse)
    requests, groups, count = cache_costs.requests, cache_costs.groups, len(replay.calls)
    baseline, (usages, rewrites) = cache_costs.compute_baseline_usages(), cache_costs.compute_policy_usages()
    costs = list(map(cache_costs.compute_usage_cost, range(count), usages))
    baseline_costs = list(map(cache_costs.compute_usage_cost, range(count), baseline))
    resets = _find_context_resets(replay)
    next_resets = (bisect_right(resets, group.call) for group in groups)
    end_calls = [resets[index] if index < len(resets) else count for index in next_resets]
    later_costs, unattributed = _compute_later_costs(groups, rewrites, end_calls, costs, baseline_costs)
    firings, all_rates = list[FiringPrice](), list[tuple[float, float]]()
    priced_groups = zip(groups, rewrites, end_calls, later_costs, strict=True)
    for number, (group, rewrite, end, later_cost) in enumerate(priced_groups):
        next_call = groups[number + 1].call if number + 1 < len(groups) else end
        next_change = next_call if next_call < end else None
        rates = cache_costs.get_write_read_rates(group)
        prices = _compute_firing_prices(group, rewrite, rates, end, next_change, rewrite.added_cost + later_cost)
        firings += prices
        all_rates += [rates] * len(prices)
    return ReplayPrice(
        replay,
        cache_costs.rate_table,
        usages,
        baseline,
        costs,
        baseline_costs,
        sum(rewrite.summarizer_cost for rewrite in rewrites),
        firings,
        unattributed,
        cache_costs.reuse,
        [number for number in range(1, count) if requests[number].is_expired_after(requests[number - 1])],
        all_rates,
        cache_costs.is_automatic,
    )


def _compute_later_costs(
    groups: Sequence[FiringGroup],
    rewrites: Sequence[RewriteCost],
    end_calls: Sequence[int],
    costs: Sequence[float],
    baseline_costs: Sequence[float],
) -> tuple[list[float], float]:
    """Compute for each group the added cost of calls after its first one, and the cost that belongs to no group.

    The added cost of a call is shared among the earlier groups by the tokens that each removed. For the first call
    of a later group, it is the added cost without that group.
    """
    costs_without = (rewrite.cost_without_firings for rewrite in rewrites)
    without_group = dict(zip((group.call for group in groups), costs_without, strict=True))
    net_steps, gross_steps, unattributed = [0] * (len(costs) + 1), [0] * (len(costs) + 1), 0.0
    for group, end in zip(groups, end_calls, strict=True):
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
    for group, end in zip(groups, end_calls, strict=True):
        cost_by_token = by_token[max(end, group.call + 1)] - by_token[group.call + 1]
        later_costs.append(cost_by_token * (group.before - group.after))
    return later_costs, unattributed


def _compute_firing_prices(
    group: FiringGroup, rewrite: RewriteCost, rates: tuple[float, float], end: int, next_change: int | None, cost: float
) -> list[FiringPrice]:
    cleared, (write_rate, read_rate) = group.before - group.after, rates
    saving_per_call, calls_left = read_rate * cleared, end - group.call
    break_even = max((rewrite.added_cost + saving_per_call) / saving_per_call, 0.0) if saving_per_call > 0 else None
    verdict: Verdict = "saves nothing" if cleared <= 0 else "pays" if cost <= 0 else "does not pay"
    warm_cost = (write_rate - read_rate) * rewrite.rewritten_if_warm + rewrite.summarizer_cost
    if verdict == "pays" and warm_cost / saving_per_call > calls_left:
        verdict = "pays only as the cache was cold"
    group_price = FiringPrice(
        group.call,
        group.firings[0].message,
        cleared,
        rewrite.rewritten_if_warm,
        rewrite.rewritten,
        rewrite.is_cold,
        rewrite.summarizer_cost,
        break_even,
        calls_left,
        next_change - group.call if next_change is not None else None,
        cost,
        verdict,
    )
    return _split_group_price(group_price, group)


def _find_context_resets(replay: Replay) -> list[int]:
    facts, messages = replay.session.facts, [call.message for call in replay.calls]
    epochs = (epoch for epoch in facts.epochs if epoch.cause != "start")
    if replay.recorded == "ignore":
        epochs = (epoch for epoch in epochs if epoch.cause != "compaction" or not epoch.message)
    return sorted({bisect_left(messages, max(epoch.message + 1, epoch.start)) for epoch in epochs})


def _split_group_price(group_price: FiringPrice, group: FiringGroup) -> list[FiringPrice]:
    """Split the price of a group among its firings by the tokens that each removed."""
    prices = []
    for firing in group.firings:
        cleared = firing.before - firing.after
        share = cleared / group_price.cleared if group_price.cleared else 1 / len(group.firings)
        prices.append(
            group_price._replace(
                cleared=cleared,
                behind=round(group_price.behind * share),
                rewritten=round(group_price.rewritten * share),
                summarizer=group_price.summarizer * share,
                cost=group_price.cost * share,
            )
        )
    return prices
