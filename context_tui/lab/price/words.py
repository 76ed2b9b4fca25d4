"""What prices tell in words, on the command line and on screen."""

from __future__ import annotations

from math import ceil

from context_tui.lab.price.cache import CacheReuse
from context_tui.lab.price.priced import FiringPrice, ReplayPrice

CACHE_REUSE_TEXTS: dict[CacheReuse, str] = {
    "breakpoints": "up to the end of an earlier call before the change, else the system prompt, as recorded calls did",
    "anywhere": "up to the first change",
}
"""What a call reads from the prompt cache where a policy changed its prompt."""


def format_cache_reuse(reuse: CacheReuse) -> str:
    """What is assumed of the cache, in a line."""
    return f"a call whose prompt a policy changed reads {CACHE_REUSE_TEXTS[reuse]} (assumed)"


def format_amount(cost: float, priced: ReplayPrice) -> str:
    """A cost in the unit of the prices, without its name: of what is less than ten cents, the hundredths of a cent."""
    if priced.rate_table.unit != "USD":
        return f"{cost:,.0f}"
    digits = 4 if 0.00005 <= abs(cost) < 0.1 else 2
    return f"{round(cost, digits) + 0.0:,.{digits}f}"


def format_cost(cost: float, priced: ReplayPrice) -> str:
    """A cost in the unit of the prices, as it is shown."""
    unit = "USD" if priced.rate_table.unit == "USD" else "input tokens' worth"
    return f"{format_amount(cost, priced)} {unit}"


def format_break_even(price: FiringPrice) -> str:
    """After how many calls a firing pays in a cache that stays warm."""
    if price.break_even is None:
        return "never"
    return f"{ceil(price.break_even):,} calls" if price.break_even else "at once"


def format_firing_price(price: FiringPrice, priced: ReplayPrice) -> str:
    """A firing in a line: tokens cleared and rewritten, calls until it pays, calls that were left, the verdict."""
    written = f"{price.rewritten:,} rewritten{' (the cache was cold)' if price.cold else ''}"
    asked = f", {format_cost(price.summarizer, priced)} for the summary" if price.summarizer else ""
    pays = f"pays after {format_break_even(price)}" if price.break_even else f"pays {format_break_even(price)}"
    sums = f"{'saves' if price.cost <= 0 else 'costs'} {format_cost(abs(price.cost), priced)}"
    left = f"{price.calls_left:,} calls left: {price.verdict}"
    return f"{price.cleared:,} tokens cleared, {written}{asked}; {pays}, {left}, {sums}"


def format_savings(priced: ReplayPrice) -> str:
    """A whole policy against none, in tokens and money, and how the firings add up to that."""
    saved, cheaper = priced.replay.totals.saved, priced.baseline_cost - priced.cost
    share = f" ({abs(cheaper) / priced.baseline_cost:.1%})" if priced.baseline_cost else ""
    tokens = f"{abs(saved):,} tokens {'fewer' if saved >= 0 else 'more'} sent"
    money = f"{format_cost(abs(cheaper), priced)}{share} {'less' if cheaper >= 0 else 'more'}"
    words = f"against no policy: {tokens}, {money}"
    rest = format_cost(abs(priced.unattributed_cost), priced)
    if not priced.firings or rest == format_cost(0.0, priced):
        return f"{words}, the sum of its firings" if priced.firings else words
    behind = "saved" if priced.unattributed_cost < 0 else "cost"
    return f"{words}: the sum of its firings, and {rest} {behind} in contexts that began anew after them"
