"""Token prices for each model, from the dated table ``prices.toml`` or as multiples of the price of an input token."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any, Literal, NamedTuple

from context_tui.lab.price.cache import CacheUsage
from context_tui.session.facts import Usage
from context_tui.session.window import normalize_model_name
from context_tui.text.files import read_toml

CostUnit = Literal["USD", "input tokens"]
FIVE_MINUTES, ONE_HOUR = 300_000, 3_600_000
"""Times to live of a prompt cache since its last read, in milliseconds."""

_MODEL_VERSION_SUFFIX = re.compile(r"(?:[-@]?(?:latest|20\d\d-?\d\d-?\d\d))?(?:-v\d+(?::\d+)?)?(?:\[1m\])?")
_MILLION = 1_000_000


class Rates(NamedTuple):
    """Prices in ``unit`` for one token: input, cache read, cache write for 5 minutes or 1 hour, and output.

    ``date`` (ISO) and ``source`` are empty for multiples of an input token. ``long`` has the rates for prompts of more
    than ``above`` tokens.
    """

    input: float
    read: float
    write_5m: float
    write_1h: float
    output: float
    unit: CostUnit
    date: str = ""
    source: str = ""
    above: int | None = None
    long: Rates | None = None

    def select_for_prompt(self, size: int) -> Rates:
        """Return the rates that apply to a prompt of *size* tokens, which may be higher for long prompts."""
        return self.long if self.long is not None and self.above is not None and size > self.above else self

    def get_write_rate(self, ttl_ms: int) -> float:
        """Return the price of a token written with this time to live in milliseconds, or of an input token for 0."""
        return self.write_1h if ttl_ms > FIVE_MINUTES else self.write_5m if ttl_ms else self.input

    def compute_usage_cost(self, usage: CacheUsage) -> float:
        """Return the cost of a prompt, given its use of the cache."""
        return self.read * usage.read + self.get_write_rate(usage.ttl_ms) * usage.written + self.input * usage.fresh

    def compute_recorded_cost(self, usage: Usage) -> float:
        """Return the cost of a prompt, given its recorded usage."""
        written = self.write_5m * usage.cache_write_5m + self.write_1h * usage.cache_write_1h
        return self.input * usage.fresh + self.read * usage.cache_read + written


DEFAULT_RATES_WITH_WRITE_FEE = Rates(1.0, 0.1, 1.25, 2.0, 5.0, "input tokens")
"""Usual multiples if cache writes have a fee, as with the Claude models."""
DEFAULT_RATES_WITHOUT_WRITE_FEE = Rates(1.0, 0.1, 1.0, 1.0, 5.0, "input tokens")
"""Usual multiples if cache writes have no fee."""


def find_rates(model: str | None) -> Rates | None:
    """Return the rates of *model*, whose name may have a gateway prefix and a date, in USD, or None if unknown."""
    name = normalize_model_name(model or "")
    table = _load_price_table()
    prefix = max(filter(name.startswith, table), key=len, default=None)
    if prefix is None or not _MODEL_VERSION_SUFFIX.fullmatch(name, len(prefix)):
        return None
    return table[prefix]


class RateTable(NamedTuple):
    """The rates of a session's models in a single ``unit``: USD or, if a model has no price, input tokens."""

    unit: CostUnit
    unpriced_models: tuple[str, ...]
    by_model: dict[str, Rates]
    default_rates: Rates

    def get_rates(self, model: str | None) -> Rates:
        """Return the rates of one of the session's models."""
        return self.by_model.get(model or "", self.default_rates)

    @property
    def note(self) -> str:
        """Text that states the unit of the costs and why it is used."""
        if self.unit == "USD":
            return f"USD, at prices as of {min((rates.date for rates in self.by_model.values()), default='')}"
        names = ", ".join(self.unpriced_models) or "a model without a name"
        return f"input tokens, because no price of {names} is known (1 = the price of one uncached input token)"


def build_rate_table(models: Iterable[str | None], *, has_write_fee: bool) -> RateTable:
    """Build the rates for *models* in USD or, if any of them has no price, in multiples of an input token.

    Without *has_write_fee*, the multiples for cache writes are those of plain input.
    """
    names = list(dict.fromkeys(model or "" for model in models))
    by_name = {name: find_rates(name) for name in names}
    known_rates = {name: rates for name, rates in by_name.items() if rates is not None}
    other = DEFAULT_RATES_WITH_WRITE_FEE if has_write_fee else DEFAULT_RATES_WITHOUT_WRITE_FEE
    if names and len(known_rates) == len(names):
        return RateTable("USD", (), known_rates, other)
    return RateTable("input tokens", tuple(name for name in names if name and name not in known_rates), {}, other)


@cache
def _load_price_table() -> dict[str, Rates]:
    return {
        name: _parse_rates(entry)
        for entry in read_toml("context_tui.lab.price", "prices.toml")["price"]
        for name in map(normalize_model_name, entry["models"])
    }


def _parse_rates(entry: dict[str, Any]) -> Rates:
    prices = {name: entry[name] / _MILLION for name in ("input", "read", "write_5m", "write_1h", "output")}
    rates = Rates(**prices, unit="USD", date=entry["date"].isoformat(), source=entry["source"])
    if "long" not in entry:
        return rates
    prompt, reply = entry["long"]["input"], entry["long"]["output"]
    prompt_prices = {name: price * prompt for name, price in prices.items() if name != "output"}
    long = rates._replace(**prompt_prices, output=rates.output * reply)
    return rates._replace(above=entry["above"], long=long)
