"""Format prices of a replay, and advice that follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from statistics import median

from context_tui.lab.price.cache import CacheReuse
from context_tui.lab.price.pricing import FiringPrice, ReplayPrice, Verdict

CACHE_REUSE_TEXTS: dict[CacheReuse, str] = {
    "breakpoints": "up to the end of an earlier call before the change, else the system prompt, as recorded calls did",
    "anywhere": "up to the first change",
}
"""Text of what a call reads from the prompt cache where a policy changed its prompt."""
VERDICT_TEXTS: dict[Verdict, str] = {
    "pays": "pays",
    "does not pay": "not worth it",
    "pays only as the cache was cold": "pays only because the cache had expired",
    "saves nothing": "saves nothing",
}
"""Text of a verdict."""


def format_cache_reuse(reuse: CacheReuse) -> str:
    """Format the assumption about the cache in one line."""
    return f"a call whose prompt a policy changed reads {CACHE_REUSE_TEXTS[reuse]} (assumed)"


def format_amount(cost: float, priced: ReplayPrice) -> str:
    """Format a cost without its unit; below ten cents with hundredths of a cent."""
    if priced.rate_table.unit != "USD":
        return f"{cost:,.0f}"
    digits = 4 if 0.00005 <= abs(cost) < 0.1 else 2
    return f"{round(cost, digits) + 0.0:,.{digits}f}"


def format_cost(cost: float, priced: ReplayPrice) -> str:
    """Format a cost with its unit."""
    unit = "USD" if priced.rate_table.unit == "USD" else "input tokens' worth"
    return f"{format_amount(cost, priced)} {unit}"


def format_extra_cost(extra: float, priced: ReplayPrice) -> str:
    """Format a cost compared with another one: ``saves 2.67`` or ``costs 2.67 more``."""
    amount = format_amount(abs(extra), priced)
    if not any(digit in amount for digit in "123456789"):
        return "the same"
    return f"saves {amount}" if extra < 0 else f"costs {amount} more"


def format_break_even(price: FiringPrice) -> str:
    """Format the number of calls after which a firing breaks even in a warm cache."""
    if price.break_even is None:
        return "never"
    return f"{ceil(price.break_even):,} calls" if price.break_even else "at once"


def format_firing_price(price: FiringPrice, priced: ReplayPrice) -> str:
    """Format a firing in one line: tokens cleared and rewritten, break-even, remaining calls, verdict and cost."""
    written = f"{price.rewritten:,} rewritten{' (the cache had expired)' if price.cold else ''}"
    summary = f", {format_cost(price.summarizer, priced)} for the summary" if price.summarizer else ""
    pays = f"breaks even {'after ' if price.break_even else ''}{format_break_even(price)}"
    sums = f"{'saves' if price.cost <= 0 else 'costs'} {format_cost(abs(price.cost), priced)}"
    outlook = f"{price.calls_left:,} calls remain: {VERDICT_TEXTS[price.verdict]}"
    return f"{price.cleared:,} tokens cleared, {written}{summary}; {pays}, {outlook}, {sums}"


def format_savings(priced: ReplayPrice) -> str:
    """Format the savings of a policy in tokens and money, and how its firings add up to them."""
    saved, cheaper = priced.replay.totals.saved, priced.baseline_cost - priced.cost
    share = f" ({abs(cheaper) / priced.baseline_cost:.1%})" if priced.baseline_cost else ""
    tokens = f"{abs(saved):,} tokens {'fewer' if saved >= 0 else 'more'} sent"
    money = f"{'saves' if cheaper >= 0 else 'costs'} {format_cost(abs(cheaper), priced)}{share}"
    text = f"compared with no policy: {tokens}, {money}{'' if cheaper >= 0 else ' more'}"
    remainder = format_cost(abs(priced.unattributed_cost), priced)
    if not priced.firings or remainder == format_cost(0.0, priced):
        return f"{text}; the sum of its firings" if priced.firings else text
    later = "saved" if priced.unattributed_cost < 0 else "added"
    return f"{text}; the sum of its firings and {remainder} {later} in the contexts that follow theirs"


@dataclass(frozen=True)
class Advice:
    """Suggestion: ``about`` clear_at_least, cold or batch, a number ``value`` in ``unit``, the reason in ``words``.

    ``saving`` is what the firings concerned cost more than they saved, in the unit of the prices.
    """

    about: str
    value: float
    unit: str
    words: str
    saving: float


WarmFiring = tuple[FiringPrice, tuple[float, float]]
"""Firing in a warm cache, with the prices to write and to read."""


def build_advice(priced: ReplayPrice) -> list[Advice]:
    """Derive advice from the prices; empty where nothing would have been better, or where nothing fired."""
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
    """Return the tokens that a firing in a warm cache would have to clear to pay with its remaining calls.

    What stands after the first change is either cleared or written again: with L tokens there, n calls, and prices w
    and r, ``(w - r) (L - C) + summarizer = n r C``.
    """
    tokens = firing.behind + firing.cleared
    return ceil(((write - read) * tokens + firing.summarizer) / (firing.calls_left * read + write - read))


def _advise_clear_at_least(
    priced: ReplayPrice, warm: list[WarmFiring], unprofitable: list[FiringPrice]
) -> Advice | None:
    """Advise a minimum for clearings without a summary."""
    clearings = [(firing, rates) for firing, rates in warm if not firing.summarizer]
    losses = [firing for firing in unprofitable if not firing.summarizer]
    if not losses:
        return None
    value = max(compute_break_even_clearing(firing, *rates) for firing, rates in clearings)
    enough = sum(firing.cleared >= value for firing, _ in clearings)
    cost = sum(firing.cost for firing in losses)
    text = (
        f"{len(losses):,} of {len(clearings):,} clearings in a warm cache cost {format_cost(cost, priced)} more than "
        f"they save: they cleared {_format_range([firing.cleared for firing in losses])} tokens, caused "
        f"{_format_range([firing.rewritten for firing in losses])} to be written again, and had "
        f"{_format_range([firing.calls_left for firing in losses])} calls left. Clearing {value:,} tokens each would "
        f"have paid; {enough or 'none'} cleared that much"
    )
    return Advice("clear_at_least", value, "tokens", text, cost)


def _advise_waiting(priced: ReplayPrice, unprofitable: list[FiringPrice]) -> Advice | None:
    """Advise to clear once the cache has expired, where that costs nothing extra and happens in this session."""
    if not priced.cold_calls:
        return None
    ttl_seconds = max(usage.ttl_ms for usage in priced.cache_usage) // 1000 or 300
    ttl_text = "1 hour" if ttl_seconds >= 3600 else f"{ttl_seconds // 60} minutes"
    soon = [next((at - firing.call for at in priced.cold_calls if at >= firing.call), None) for firing in unprofitable]
    delays = [calls for calls in soon if calls is not None]
    if not delays:
        return None
    cost = sum(firing.cost for firing, calls in zip(unprofitable, soon, strict=True) if calls is not None)
    text = (
        f"the cache had expired ({ttl_text}) before {len(priced.cold_calls):,} of "
        f"{len(priced.cache_usage):,} calls, where clearing causes no extra cache writes. {len(delays):,} of "
        f"{len(unprofitable):,} firings that did not pay came {_format_range(delays)} calls before such a pause; "
        f"they cost {format_cost(cost, priced)} more than they saved"
    )
    return Advice("cold", float(ttl_seconds), "seconds", text, cost)


def _advise_batching(priced: ReplayPrice, warm: list[WarmFiring]) -> Advice | None:
    """Advise to merge clearings that were followed by the next one before they broke even."""
    soon = [(*pair, pair[0].next_change) for pair in warm if pair[0].next_change and not pair[0].summarizer]
    early = [
        (firing, (write - read) * firing.behind - read * firing.cleared * calls, calls)
        for firing, (write, read), calls in soon
    ]
    early = [each for each in early if each[1] > 0]
    if len(early) < 2:
        return None
    value = ceil(median([firing.break_even or 0.0 for firing, _, _ in early]))
    every = median([calls for _, _, calls in early])
    cost = sum(more for _, more, _ in early)
    text = (
        f"{len(early):,} clearings needed {value:,} calls to break even (median), but the next change came after "
        f"{every:g}: clearing more at a time, less often, rewrites the cache less often. Merged into the next one, "
        f"they would have cost {format_cost(cost, priced)} less"
    )
    return Advice("batch", float(value), "calls", text, cost)


def _format_range(values: list[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
