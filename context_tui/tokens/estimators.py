"""Token estimators that agents use: bytes / 4, bytes / 3.5, and characters / 4."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from context_tui.errors import PlanError
from context_tui.session.blocks import BYTES_PER_TOKEN, bytes_to_tokens
from context_tui.session.context import Context
from context_tui.session.facts import Facts
from context_tui.session.jsontext import utf8_len
from context_tui.session.values import BlockFlag, Kind

Estimator = Callable[[Facts, int], int]

IMAGE_TOKENS = 2_000
"""Tokens that defect counts for an image."""
_IMAGE, _OTHER = int(Kind.IMAGE), int(Kind.OTHER)
_FULL_SIZE_KINDS = frozenset({int(Kind.TOOL_USE), int(Kind.THINKING)})  # their size includes more than text


def bytes4(facts: Facts, block: int) -> int:
    """Estimate the tokens in a block by defect's rule: bytes / 4 rounded down, 2,000 for an image, 0 for ``OTHER``."""
    kind = facts.kind[block]
    if kind == _IMAGE:
        return IMAGE_TOKENS
    return 0 if kind == _OTHER else facts.size[block] // BYTES_PER_TOKEN


class Images(NamedTuple):
    """Blocks that are or contain images: their number, and their tokens by ``bytes/4``, including encoded data."""

    blocks: int = 0
    tokens: int = 0


def count_images(facts: Facts, rows: Iterable[int]) -> Images:
    """Return the number and the tokens of the blocks in *rows*, all of which must be or contain images."""
    tokens = [bytes4(facts, row) for row in rows]
    return Images(len(tokens), sum(tokens))


def estimate_text(text: str) -> int:
    """Estimate the tokens in a text by ``bytes/4``."""
    return bytes_to_tokens(utf8_len(text))


def bytes_to_tokens35(size: int) -> int:
    """Estimate the tokens in *size* UTF-8 bytes: bytes / 3.5, rounded down."""
    return size * 2 // 7


def bytes35(facts: Facts, block: int) -> int:
    """Estimate the tokens in a block as koda does: bytes of text / 3.5, rounded down; images have no text."""
    kind = facts.kind[block]
    size = facts.size[block] if kind in _FULL_SIZE_KINDS else facts.text_bytes[block]
    return bytes_to_tokens35(size)


def count_result_by_characters(facts: Facts, block: int) -> int:
    """Estimate the tokens in a tool result as Claude Code does: JavaScript characters / 4, and 2,000 for an image.

    The ``preTokens`` and ``tokensSaved`` that Claude Code records for a clearing are sums of these numbers.
    """
    characters = facts.text_bytes[block] - facts.wide_bytes.get(block, 0)
    return (characters + 2) // 4 + (IMAGE_TOKENS if facts.block_flags[block] & BlockFlag.HAS_IMAGE else 0)


ESTIMATORS: dict[str, Estimator] = {"bytes/4": bytes4, "bytes/3.5": bytes35}
_BYTES_RULES: dict[Estimator, Callable[[int], int]] = {bytes4: bytes_to_tokens, bytes35: bytes_to_tokens35}


def get_estimator(name: str) -> Estimator:
    """Return the estimator with this name, raising PlanError if there is none."""
    try:
        return ESTIMATORS[name]
    except KeyError:
        raise PlanError(f"unknown estimator {name!r}; available: {', '.join(ESTIMATORS)}") from None


def count_block_tokens(context: Context, row: int) -> int:
    """Return the tokens (``bytes/4``) that a block has in a context, where its body may be replaced."""
    body = context.replacements.get(row)
    return bytes4(context.facts, row) if body is None else body.tokens


def count_message_tokens(facts: Facts, message: int, estimator: Estimator = bytes4) -> int:
    """Return the estimated tokens in a message, summed over its blocks."""
    return sum(estimator(facts, block) for block in facts.blocks_of(message))


def count_context_tokens(context: Context, estimator: Estimator = bytes4) -> int:
    """Return the estimated tokens in a context, counting replaced bodies instead of the recorded ones."""
    facts, replaced, share = context.facts, context.replacements, _BYTES_RULES[estimator]
    blocks = (block for message in context.order for block in facts.blocks_of(message))
    return sum(share(replaced[block].size) if block in replaced else estimator(facts, block) for block in blocks)
