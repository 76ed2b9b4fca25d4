"""Formatting of a replay's prices, and advice that follows from them."""

from __future__ import annotations

from math import ceil
from statistics import median
from typing import NamedTuple

from context_tui.lab.price.cache import CacheReuse
from context_tui.lab.price.pricing import FiringPrice, ReplayPrice, Verdict
from context_tui.text.numbers import format_cost, format_count, format_saving

CACHE_REUSE_TEXTS: dict[CacheReuse, str] = {
    "breakpoints": "up to the end of the last call before the change, or if there is none, the system prompt",
    "anywhere": "up to the first change",
}
"""Part of a prompt that a call reads from the cache after a policy changed the prompt."""
VERDICT_TEXTS: dict[Verdict, str] = {
    "pays": "pays",
    "does not pay": "not worth it",
    "pays only as the cache was cold": "pays only because the cache had expired",
    "saves nothing": "saves nothing",
}


def format_cache_reuse(reuse: CacheReuse) -> str:
    """Format, in one line, how much of the cache a changed prompt is assumed to reuse."""
    return f"assumed: after a policy changes a prompt, the cache is read {CACHE_REUSE_TEXTS[reuse]}"


def format_price_reuse(priced: ReplayPrice) -> str:
    """Format how much of the cache is reused, noting where an automatic cache overrides the choice."""
    reason = ", whatever is chosen: no cache writes are recorded, so the cache is automatic"
    return f"{format_cache_reuse(priced.reuse)}{reason if priced.is_automatic else ''}"


def format_price(cost: float, priced: ReplayPrice) -> str:
    """Format a cost with its unit, as in ``$2.67`` or ``8,095 input tokens``."""
    return format_cost(cost, priced.rate_table.unit, with_unit=True)


def format_break_even(price: FiringPrice) -> str:
    """Describe after how many calls a firing breaks even in a warm cache."""
    if price.break_even is None:
        return "never"
    return f"after {format_count(ceil(price.break_even), 'call')}" if price.break_even else "at once"


def format_firing_price(price: FiringPrice, priced: ReplayPrice) -> str:
    """Format a firing's tokens cleared and rewritten, break-even, remaining calls, verdict and cost in one line."""
    written = f"{price.rewritten:,} rewritten{' (the cache had expired)' if price.cold else ''}"
    summary = f", {format_price(price.summarizer, priced)} for the summary" if price.summarizer else ""
    remain = "remains" if price.calls_left == 1 else "remain"
    outlook = f"{format_count(price.calls_left, 'call')} {remain}: {VERDICT_TEXTS[price.verdict]}"
    saving = format_saving(-price.cost, priced.rate_table.unit, with_unit=True)
    return (
        f"{format_count(price.cleared, 'token')} cleared, {written}{summary}; "
        f"breaks even {format_break_even(price)}, {outlook}, {saving}"
    )


def format_break_even_calls(calls: float | None) -> str:
    """Format as a sentence the extra calls that would cost all that a policy saves; empty if nothing was removed."""
    if calls is None:
        return ""
    if calls <= 0:
        return "does not pay even if the agent needs no extra call"
    return f"pays unless the agent needs more than {calls:.2g} extra calls per 1,000 tokens removed"


def format_savings(priced: ReplayPrice) -> str:
    """Describe the savings of a policy in tokens and money, and how its firings add up to them."""
    tokens = format_saving(priced.replay.totals.saved, "tokens", with_unit=True)
    saved, total = priced.baseline_cost - priced.cost, priced.baseline_cost
    money = format_saving(saved, priced.rate_table.unit, total=total, with_unit=True)
    is_undone = priced.replay.recorded == "ignore" and priced.replay.session.facts.compactions
    hypothetical_text = " and without the recorded compactions (hypothetical)" if is_undone else ""
    text = f"compared with no policy{hypothetical_text}: {tokens}, {money}"
    if not priced.firings:
        return text
    outlook = format_break_even_calls(priced.break_even_calls)
    outlook = f" It {outlook}." if outlook else ""
    remainder = format_price(abs(priced.unattributed_cost), priced)
    if remainder == format_price(0.0, priced):
        return f"{text}. This is the sum of its firings.{outlook}"
    later = "saved" if priced.unattributed_cost < 0 else "added"
    sums = f"This is the sum of its firings, and {remainder} {later} in the contexts that follow theirs."
    return f"{text}. {sums}{outlook}"


class Advice(NamedTuple):
    """A suggested ``value`` in ``unit`` for clear_at_least, cold or batch, with the reason as ``text``.

    ``about`` names the subject, and ``avoidable_cost`` is the loss from the firings concerned, in the prices' unit.
    """

    about: str
    value: float
    unit: str
    text: str
    avoidable_cost: float


WarmFiring = tuple[FiringPrice, tuple[float, float]]
"""Firing in a warm cache, with the prices to write and to read."""


def build_advice(priced: ReplayPrice) -> list[Advice]:
    """Return the advice that follows from the prices; empty if nothing fired or no alternative would have cost less."""
    pairs = zip(priced.firings, priced.write_read_rates, strict=True)
    warm = [(firing, rates) for firing, rates in pairs if not firing.cold and firing.cleared > 0]
    unprofitable = [firing for firing, _ in warm if firing.cost > 0]
    advice = [
        _advise_clear_at_least(priced, warm, unprofitable),
        _advise_waiting(priced, unprofitable),
        _advise_batching(priced, warm),
    ]
    return [each for each in advice if each is not None]


def compute_break_even_clearing(firing: FiringPrice, write: float, read: float) -> int:
    """Return how many tokens a firing in a warm cache must clear to break even within its remaining calls.

    Of the L tokens after the first change, C are cleared and the others written again. With n calls left and the
    prices w to write and r to read, the firing breaks even at ``(w - r) (L - C) + summarizer = n r C``.
    """
    tokens = firing.behind + firing.cleared
    return ceil(((write - read) * tokens + firing.summarizer) / (firing.calls_left * read + write - read))


def _advise_clear_at_least(
    priced: ReplayPrice, warm: list[WarmFiring], unprofitable: list[FiringPrice]
) -> Advice | None:
    clearings = [(firing, rates) for firing, rates in warm if not firing.summarizer]
    losses = [firing for firing in unprofitable if not firing.summarizer]
    if not losses:
        return None
    value = max(compute_break_even_clearing(firing, *rates) for firing, rates in clearings)
    large_enough = sum(firing.cleared >= value for firing, _ in clearings)
    cost = sum(firing.cost for firing in losses)
    pronoun = "it" if len(losses) == 1 else "they"
    text = (
        f"{len(losses):,} of {format_count(len(clearings), 'clearing')} in a warm cache cost "
        f"{format_price(cost, priced)} more than {pronoun} saved: {pronoun} cleared "
        f"{_format_range([firing.cleared for firing in losses], 'token')}, caused "
        f"{_format_range([firing.rewritten for firing in losses], 'token')} to be written again, and had "
        f"{_format_range([firing.calls_left for firing in losses], 'call')} left; clearing at least "
        f"{format_count(value, 'token')} would have paid, which {large_enough or 'none'} did"
    )
    return Advice("clear_at_least", value, "tokens", text, cost)


def _advise_waiting(priced: ReplayPrice, unprofitable: list[FiringPrice]) -> Advice | None:
    if not priced.cold_calls:
        return None
    ttl_seconds = max(usage.ttl_ms for usage in priced.cache_usage) // 1000 or 300
    ttl_text = "1 hour" if ttl_seconds >= 3600 else f"{ttl_seconds // 60} minutes"
    before_pause = [firing for firing in unprofitable if firing.call <= max(priced.cold_calls)]
    if not before_pause:
        return None
    delays = [min(call - firing.call for call in priced.cold_calls if call >= firing.call) for firing in before_pause]
    cost = sum(firing.cost for firing in before_pause)
    pronoun = "it" if len(delays) == 1 else "they"
    text = (
        f"the cache had expired ({ttl_text}) before {len(priced.cold_calls):,} of "
        f"{format_count(len(priced.cache_usage), 'call')}, where clearing causes no extra cache writes. "
        f"{len(delays):,} of {format_count(len(unprofitable), 'firing')} that did not pay came "
        f"{_format_range(delays, 'call')} before such a pause; "
        f"{pronoun} cost {format_price(cost, priced)} more than {pronoun} saved"
    )
    return Advice("cold", float(ttl_seconds), "seconds", text, cost)


def _advise_batching(priced: ReplayPrice, warm: list[WarmFiring]) -> Advice | None:
    losses = []
    for firing, (write, read) in warm:
        loss = (write - read) * firing.behind - read * firing.cleared * (firing.next_change or 0)
        if firing.next_change and not firing.summarizer and loss > 0:
            losses.append((firing, loss))
    if len(losses) < 2:
        return None
    value = ceil(median([firing.break_even or 0.0 for firing, _ in losses]))
    interval = median([firing.next_change or 0 for firing, _ in losses])
    cost = sum(loss for _, loss in losses)
    text = (
        f"{len(losses):,} clearings needed {format_count(value, 'call')} to break even (median), but the next change "
        f"came after {interval:g}: clearing more at a time, less often, rewrites the cache less often. Merged into the "
        f"next one, they would have cost {format_price(cost, priced)} less"
    )
    return Advice("batch", float(value), "calls", text, cost)


def _format_range(values: list[int], noun: str) -> str:
    low, high = min(values), max(values)
    return format_count(low, noun) if low == high else f"{low:,} to {format_count(high, noun)}"
