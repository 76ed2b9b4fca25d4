"""Amounts of content in a history, and the size of a request whose content changes from one amount to another."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import NamedTuple

from context_tui.tokens.context_size import limit_put_back, resize


class Amount(NamedTuple):
    """Content of a context.

    Attributes:
        tokens: calibrated tokens of recorded content.
        requests: number of replies to requests.
        inserted: tokens that policies inserted.
        put_back: tokens that the last recorded compaction put back and the file lacks; no message has them.
    """

    tokens: int
    requests: int
    inserted: int
    put_back: int = 0

    @property
    def total(self) -> int:
        """All tokens."""
        return self.tokens + self.inserted + self.put_back


ZERO_AMOUNT = Amount(0, 0, 0)


def add_amounts(first: Amount, second: Amount) -> Amount:
    """Add two amounts."""
    tokens, requests, inserted, put_back = first
    more_tokens, more_requests, more_inserted, more_put_back = second
    return Amount(tokens + more_tokens, requests + more_requests, inserted + more_inserted, put_back + more_put_back)


def subtract_amounts(first: Amount, second: Amount) -> Amount:
    """Subtract the second amount from the first."""
    tokens, requests, inserted, put_back = first
    less_tokens, less_requests, less_inserted, less_put_back = second
    return Amount(tokens - less_tokens, requests - less_requests, inserted - less_inserted, put_back - less_put_back)


def sum_amounts(amounts: Iterable[Amount]) -> Amount:
    """Return the sum of any number of amounts."""
    return reduce(add_amounts, amounts, ZERO_AMOUNT)


def resize_context(size: int, fixed: int, before: Amount, after: Amount) -> int:
    """Return the new size of a context with *size* tokens when its content changes from *before* to *after*.

    The *fixed* tokens always stay. Tokens that are neither these nor content belong to the requests, and are removed in
    proportion to the removed requests.
    """
    removed_share = 1 - after.requests / before.requests if after.requests < before.requests else 0.0
    put_back = limit_put_back(before.put_back, size, fixed, before.tokens)
    rest = resize(size - put_back, fixed, before.tokens, after.tokens - before.tokens, removed_share)
    return rest + (put_back if after.put_back else 0) + after.inserted - before.inserted
