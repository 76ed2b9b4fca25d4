"""Numbers as the screen has them."""

from __future__ import annotations

from context_tui.compaction.next_request import Known, NextRequest
from context_tui.tokens.measures import TokenMeasure, TokenTable


def unit_of(sizes: TokenTable | None) -> str:
    """What stands before tokens: ``est.`` for estimates by ``bytes/4``, else what the ruler is called in short."""
    return sizes.label if sizes else "est."


def column_of(sizes: TokenTable | None) -> str:
    """What a column of tokens is called."""
    return sizes.name if sizes and sizes.measure is TokenMeasure.EXACT else f"{unit_of(sizes)} tokens"


def sign(request: NextRequest) -> str:
    """What stands before the size of the request without the plan: nothing where all of it was recorded."""
    return "" if request.before_known is Known.RECORDED else "~"


def signed(tokens: int) -> str:
    """A difference with its sign."""
    return f"{'+' if tokens > 0 else '−'}{abs(tokens):,}"
