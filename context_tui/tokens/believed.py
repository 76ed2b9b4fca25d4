"""The size of a context by baseline and delta: what was recorded of it last, and an estimate of what came after."""

from __future__ import annotations

from typing import NamedTuple

from context_tui.session.context import Context
from context_tui.tokens.measured import index_context
from context_tui.tokens.recorded import find_last_request


class BelievedSize(NamedTuple):
    """Tokens of a context: ``recorded`` of its last request (None: nothing was recorded in it), and ``estimated`` of
    what was appended since (``bytes/4``), or of all of it where nothing was recorded.
    """

    recorded: int | None
    estimated: int

    @property
    def tokens(self) -> int:
        """Baseline and delta together."""
        return (self.recorded or 0) + self.estimated


def compute_believed_size(context: Context) -> BelievedSize:
    """What a runtime that keeps count believes the size of *context* to be (system 2 of the seed systems).

    The reply of the last request is the first that counts as appended. :meth:`RunningSizes.believed` says the same at
    one point after another.
    """
    sums, request = index_context(context), find_last_request(context)
    reply = sums.position_of.get(context.facts.request_message[request]) if request >= 0 else None
    if reply is None:
        return BelievedSize(None, sums.total)
    return BelievedSize(context.facts.requests[request].context, sums.total - sums.prefix[reply])
