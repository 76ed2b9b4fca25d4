"""Content by kind, as an amount that is added and taken away, and what a model makes of it in tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from context_tui.session.blocks import BYTES_PER_TOKEN, bytes_to_tokens
from context_tui.session.context import Body
from context_tui.session.facts import Facts
from context_tui.session.token_factors import PRIOR, Factors
from context_tui.session.values import BlockFlag, Kind
from context_tui.tokens.measures import TYPICAL_IMAGE_TOKENS

Amount = tuple[int, int, int, int, int, int, int]
"""Estimated tokens (``bytes/4``) of text, thinking, signatures, calls and results; images; requests."""

NOTHING: Amount = (0, 0, 0, 0, 0, 0, 0)
TEXT, THINKING, SIGNATURE, CALL, RESULT, IMAGES, REQUESTS = range(7)

_PLACE = {int(Kind.TEXT): TEXT, int(Kind.THINKING): THINKING, int(Kind.TOOL_USE): CALL, int(Kind.TOOL_RESULT): RESULT}
_IMAGE, _THINKING = int(Kind.IMAGE), int(Kind.THINKING)


def one(place: int, tokens: int) -> Amount:
    """So much of one kind."""
    found = [0] * 7
    found[place] = tokens
    return tuple(found)  # type: ignore[return-value]


def of_block(facts: Facts, row: int) -> Amount:
    """What a block holds, as :mod:`context_tui.session.token_factors` takes it."""
    kind = facts.kind[row]
    if kind == Kind.IMAGE or facts.block_flags[row] & BlockFlag.HAS_IMAGE:
        return one(IMAGES, 1)
    if kind == Kind.THINKING:
        shown = facts.text_bytes[row]
        return (0, bytes_to_tokens(shown), bytes_to_tokens(facts.size[row] - shown), 0, 0, 0, 0)
    place = _PLACE.get(kind, -1)
    return one(place, facts.size[row] // BYTES_PER_TOKEN) if place >= 0 else NOTHING


def of_body(facts: Facts, row: int, body: Body) -> Amount:
    """What stands in place of a block."""
    place = _PLACE.get(facts.kind[row], -1)
    return one(place, body.tokens) if place >= 0 and not body.removed else NOTHING


def of_message(facts: Facts, message: int, replaced: Mapping[int, Body]) -> list[int]:
    """What the blocks of a message hold, with these bodies in place of some."""
    found, kinds, flags = [0] * 7, facts.kind, facts.block_flags
    for row in facts.blocks_of(message):
        body = replaced.get(row)
        kind = kinds[row]
        if body is not None:
            place = _PLACE.get(kind, -1)
            if place >= 0 and not body.removed:
                found[place] += body.tokens
        elif kind == _IMAGE or flags[row] & BlockFlag.HAS_IMAGE:
            found[IMAGES] += 1
        elif kind == _THINKING:
            shown = facts.text_bytes[row]
            found[THINKING] += shown // BYTES_PER_TOKEN
            found[SIGNATURE] += (facts.size[row] - shown) // BYTES_PER_TOKEN
        elif (place := _PLACE.get(kind, -1)) >= 0:
            found[place] += facts.size[row] // BYTES_PER_TOKEN
    return found


def plus(first: Amount, second: Amount) -> Amount:
    """Both together."""
    text, thinking, signatures, calls, results, images, requests = first
    a, b, c, d, e, f, g = second
    return text + a, thinking + b, signatures + c, calls + d, results + e, images + f, requests + g


def minus(first: Amount, second: Amount) -> Amount:
    """What the first has more than the second."""
    text, thinking, signatures, calls, results, images, requests = first
    a, b, c, d, e, f, g = second
    return text - a, thinking - b, signatures - c, calls - d, results - e, images - f, requests - g


def without_thinking(amount: Amount) -> Amount:
    """All but thinking and what it is signed with, which a runtime may leave out of a request."""
    text, _, _, calls, results, images, requests = amount
    return text, 0, 0, calls, results, images, requests


def total(amounts: Iterable[Amount]) -> Amount:
    """All together."""
    found = NOTHING
    for amount in amounts:
        found = plus(found, amount)
    return found


def weights(factors: Factors | None) -> tuple[float, ...]:
    """Recorded tokens per unit of each kind, by the factors of a model; typical ones where there are none."""
    found = factors or PRIOR
    image = float(TYPICAL_IMAGE_TOKENS) if found.image is None else found.image
    return (found.text, found.thinking, found.signature, found.call, found.result, image, found.request_overhead)


def tokens_of(amount: Amount, by: tuple[float, ...]) -> int:
    """Tokens that a model with these :func:`weights` makes of an amount; negative for what is taken away."""
    text, thinking, signatures, calls, results, images, requests = amount
    a, b, c, d, e, f, g = by
    return round(text * a + thinking * b + signatures * c + calls * d + results * e + images * f + requests * g)
