"""Numbers as the screen has them."""

from __future__ import annotations

from context_tui.compaction.next_request import NextRequest, SizeSource
from context_tui.tokens.measures import TokenMeasure, TokenTable


def format_token_unit(token_table: TokenTable | None) -> str:
    """What stands before tokens: ``est.`` for estimates by ``bytes/4``, else what the ruler is called in short."""
    return token_table.label if token_table else "est."


def format_token_column(token_table: TokenTable | None) -> str:
    """What a column of tokens is called."""
    return (
        token_table.name
        if token_table and token_table.measure is TokenMeasure.EXACT
        else f"{format_token_unit(token_table)} tokens"
    )


def format_estimate_sign(request: NextRequest) -> str:
    """What stands before the size of the request without the plan: nothing where all of it was recorded."""
    return "" if request.source_before is SizeSource.RECORDED else "~"


def format_difference(tokens: int) -> str:
    """A difference with its sign."""
    return f"{'+' if tokens > 0 else '−'}{abs(tokens):,}"
