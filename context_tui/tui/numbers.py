"""Numbers as the screen has them."""

from __future__ import annotations

from context_tui.compaction.next_request import Known, NextRequest
from context_tui.tokens.rulers import Ruler, Sizes


def unit_of(sizes: Sizes | None) -> str:
    """What stands before tokens: ``est.`` for estimates by ``bytes/4``, else what the ruler is called in short."""
    return sizes.unit if sizes else "est."


def column_of(sizes: Sizes | None) -> str:
    """What a column of tokens is called."""
    return sizes.name if sizes and sizes.ruler is Ruler.EXACT else f"{unit_of(sizes)} tokens"


def in_short(tokens: int) -> str:
    """Tokens in at most five cells: ``812``, ``58.5k``, ``112k``, ``1.25M``."""
    if tokens < 1_000:
        return str(tokens)
    if tokens < 999_500:
        return f"{tokens / 1_000:.1f}k" if tokens < 99_950 else f"{tokens / 1_000:.0f}k"
    return f"{tokens / 1_000_000:.2f}M" if tokens < 9_995_000 else f"{tokens / 1_000_000:.0f}M"


def percent(share: float) -> str:
    """A share as it is read: ``<1 %`` for what is there but rounds to nothing, ``>99 %`` for what is not quite all."""
    if 0 < share < 0.005:
        return "<1 %"
    return ">99 %" if 0.995 <= share < 1 else f"{share:.0%}".replace("%", " %")


def sign(request: NextRequest) -> str:
    """What stands before the size of the request without the plan: nothing where all of it was recorded."""
    return "" if request.before_known is Known.RECORDED else "~"


def signed(tokens: int) -> str:
    """A difference with its sign."""
    return f"{'+' if tokens > 0 else '−'}{abs(tokens):,}"
