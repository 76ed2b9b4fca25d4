"""Cost of a replay's calls at prompt-cache prices, and of rewriting the cache where a policy fires."""

from __future__ import annotations

from bisect import bisect_left
from itertools import groupby
from typing import NamedTuple

from context_tui.lab.price.cache import CacheRequest, CacheReuse, CacheUsage, PromptCache
from context_tui.lab.price.cache_requests import NOTHING_CHANGED, RecordedCalls
from context_tui.lab.price.rates import FIVE_MINUTES, Rates, build_rate_table
from context_tui.lab.replay.result import Firing, Replay
from context_tui.session.token_factors import is_other_conversation


class FiringGroup(NamedTuple):
    """Firings before the same call, and the size of the context before the first and after the last of them."""

    call: int
    firings: list[Firing]
    before: int
    after: int


class RewriteCost(NamedTuple):
    """Cost that a group of firings adds to its first call, which writes again what follows the change.

    Attributes:
        added_cost: cost of the call and the summarizer, minus ``cost_without_firings``.
        rewritten: tokens that the call wrote to the cache only because of the firings.
        rewritten_if_warm: tokens that it would have written if no cache entry had expired.
        is_cold: whether the call would not have read the changed part even without the firings.
    """

    added_cost: float
    cost_without_firings: float
    summarizer_cost: float
    rewritten_if_warm: int
    rewritten: int
    is_cold: bool


class CacheCosts:
    """The prompt cache and the rates of each call in a replay, with and without its policy."""

    def __init__(self, replay: Replay, recorded: RecordedCalls, *, shares_prefix: bool, reuse: CacheReuse) -> None:
        self.replay, self.shares_prefix = replay, shares_prefix
        facts, self.requests = replay.session.facts, _build_cache_requests(replay, recorded)
        self.side_calls = {number for number, (_, row) in enumerate(replay.calls) if is_other_conversation(facts, row)}
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
        self.groups = [FiringGroup(call, firings, firings[0].before, firings[-1].after) for call, firings in groups]
        self.firing_calls = {group.call for group in self.groups}

    def __len__(self) -> int:
        return len(self.replay.calls)

    def _get_model_row(self, number: int) -> int:
        facts, row = self.replay.session.facts, self.replay.calls[number].request
        if row < 0:
            row = bisect_left(facts.request_message, self.replay.calls[number].message) - 1  # of the previous request
        return facts.request_model[row] if row >= 0 else -1

    def compute_baseline_usages(self) -> list[CacheUsage]:
        """Return the cache usage of each call without the policy."""
        cache = PromptCache()
        return [self._update_cache(cache, number, size) for number, size in enumerate(self.replay.baseline)]

    def compute_policy_usages(self) -> tuple[list[CacheUsage], list[RewriteCost]]:
        """Return the cache usage of each call with the policy, and the cost of the rewrite by each group of firings."""
        usages, cache, rewrites = list[CacheUsage](), PromptCache(), list[RewriteCost]()
        for group in self.groups:
            usages += (self._compute_policy_usage(cache, number) for number in range(len(usages), group.call))
            cache_before = cache.copy()
            usages.append(self._compute_policy_usage(cache, group.call))
            rewrites.append(self.compute_rewrite_cost(group, usages[-1], cache_before))
        usages += (self._compute_policy_usage(cache, number) for number in range(len(usages), len(self)))
        return usages, rewrites

    def _compute_policy_usage(self, cache: PromptCache, number: int) -> CacheUsage:
        unchanged_prefix = self.replay.unchanged_prefixes[number] if number in self.firing_calls else NOTHING_CHANGED
        return self._update_cache(cache, number, self.replay.sizes[number], unchanged_prefix)

    def _update_cache(
        self, cache: PromptCache, number: int, size: int, unchanged_prefix: int = NOTHING_CHANGED
    ) -> CacheUsage:
        """Add a call with this *size* and unchanged prefix to the cache; return the cache usage.

        A recorded read that contradicts the cache rules is kept, minus the removed content.
        """
        cache = cache.copy() if number in self.side_calls else cache  # which has no entry of it
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

    def compute_rewrite_cost(self, group: FiringGroup, usage: CacheUsage, cache: PromptCache) -> RewriteCost:
        """Return the cost of rewriting the cache in a group's first call, given its *usage* and the cache before it."""
        warm_cache, cleared = cache.copy(), group.before - group.after
        usage_without = self._update_cache(cache, group.call, max(self.replay.sizes[group.call] + cleared, 0))
        is_cold = usage_without.read <= usage.read
        read = self._compute_warm_usage(group, warm_cache).read if is_cold else usage.read
        last_size = self.replay.sizes[group.call - 1 - (group.call - 1 in self.side_calls)] if group.call else 0
        rewritten_if_warm = max(min(last_size, group.before) - cleared - read, 0)
        summarizer_cost = self._compute_summarizer_cost(group, is_cold)
        cost_without = self.compute_usage_cost(group.call, usage_without)
        added_cost = self.compute_usage_cost(group.call, usage) - cost_without + summarizer_cost
        rewritten = max(usage.written - usage_without.written, 0)
        return RewriteCost(added_cost, cost_without, summarizer_cost, rewritten_if_warm, rewritten, is_cold)

    def _compute_warm_usage(self, group: FiringGroup, cache: PromptCache) -> CacheUsage:
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

    def _compute_summarizer_cost(self, group: FiringGroup, is_cold: bool) -> float:
        total = 0.0
        for cut in (firing.cache_cut for firing in group.firings):
            rates = self._get_rates(group.call, cut.summarizer_input)
            total += (rates.read if self.shares_prefix and not is_cold else rates.input) * cut.summarizer_input
            total += rates.output * cut.summarizer_output
        return total

    def get_write_read_rates(self, group: FiringGroup) -> tuple[float, float]:
        """Return the prices to write and to read a token at the first call of a group."""
        rates = self._get_rates(group.call, group.after)
        return rates.get_write_rate(self.requests[group.call].ttl_ms), rates.read

    def _get_rates(self, number: int, size: int) -> Rates:
        return self.rate_table.get_rates(self.models[number]).select_for_prompt(size)

    def compute_usage_cost(self, number: int, usage: CacheUsage) -> float:
        """Return the cost of call *number*, given its use of the cache."""
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
