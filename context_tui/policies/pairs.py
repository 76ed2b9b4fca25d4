"""Where a context can be cut without parting a call from its result."""

from __future__ import annotations

from context_tui.session.context import Context
from context_tui.session.values import Kind
from context_tui.tokens.context_index import memoize_by_messages


def find_cut_before_pairs(context: Context, cut: int) -> int:
    """The latest position up to *cut* that splits no call from its result."""
    calls = find_open_calls(context)
    while calls[cut] < cut:
        cut = calls[cut]
    return cut


@memoize_by_messages
def find_open_calls(context: Context) -> list[int]:
    """Per cut, the position of the first call before it whose result is at or behind it; the cut itself where none is.

    Two calls may have one id, and a call several results: a result belongs to the last call before it, and a call is
    answered by its first result.
    """
    facts, use, result = context.facts, int(Kind.TOOL_USE), int(Kind.TOOL_RESULT)
    kind, call = facts.kind, facts.call
    events = [
        (position, call[block], kind[block] == use)
        for position, message in enumerate(context.order)
        for block in context.blocks_of(message)
        if kind[block] == use or kind[block] == result
    ]
    last_result = {which: position for position, which, made in events if not made}
    open_since: dict[int, int] = {}
    spans: list[tuple[int, int]] = []  # from a call to where it is answered, or made again
    for position, which, made in events:
        since = open_since.pop(which, position)
        if since < position:
            spans.append((since, min(position, last_result.get(which, -1))))
        if made:
            open_since[which] = position
    found, covered = list(range(len(context) + 1)), 0
    for since, until in sorted(spans):
        for cut in range(max(since, covered) + 1, until + 1):
            found[cut] = since
        covered = max(covered, until)
    return found
