"""Amounts of content in a history, and the size of a request whose content changes from one amount to another."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import NamedTuple

from context_tui.tokens.context_size import resize


class Amount(NamedTuple):
    """Calibrated tokens of content in the file, number of replies to requests, and tokens of content outside it.

    ``inserted`` counts what policies inserted and what recorded compactions put back.
    """

    tokens: int
    requests: int
    inserted: int


ZERO_AMOUNT = Amount(0, 0, 0)


def add_amounts(first: Amount, second: Amount) -> Amount:
    """Add two amounts."""
    tokens, requests, inserted = first
    more_tokens, more_requests, more_inserted = second
    return Amount(tokens + more_tokens, requests + more_requests, inserted + more_inserted)


def subtract_amounts(first: Amount, second: Amount) -> Amount:
    """Subtract the second amount from the first."""
    tokens, requests, inserted = first
    less_tokens, less_requests, less_inserted = second
    return Amount(tokens - less_tokens, requests - less_requests, inserted - less_inserted)


def sum_amounts(amounts: Iterable[Amount]) -> Amount:
    """Return the sum of any number of amounts."""
    return reduce(add_amounts, amounts, ZERO_AMOUNT)


def resize_context(size: int, fixed: int, before: Amount, after: Amount) -> int:
    """Return the new size of a context with *size* tokens when its content changes from *before* to *after*.

    The *fixed* tokens always stay. Tokens that are neither these nor content belong to the requests, and are removed in
    proportion to the removed requests.
    """
    removed_share = 1 - after.requests / before.requests if after.requests < before.requests else 0.0
    put_back = min(before.inserted, max(size - fixed, 0))
    rest = resize(size - put_back, fixed, before.tokens, after.tokens - before.tokens, removed_share)
    return rest + max(put_back + after.inserted - before.inserted, 0)
