"""Position at which a rule cuts the context: the allowed place that is nearest to the content to keep."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import ClassVar, Literal

from pydantic import Field

from context_tui.policies.base import param
from context_tui.policies.block_index import find_open_calls
from context_tui.policies.parts.part import Part
from context_tui.policies.parts.protection import Keep, SizeLimits
from context_tui.session.context import Context
from context_tui.session.values import Kind, MessageFlag, Role
from context_tui.tokens.context_index import index_context

CutPlace = Literal["any", "turn", "pair", "message", "assistant", "after_assistant"]
"""Messages before which a cut is allowed: any, the first of a turn, any that separates no call from its result, any but
a tool result, an assistant message, a message after an assistant message.
"""
CutFallback = Literal["pair", "message", "newest_turn", "all", "all_if_answered"]


class Cut(Part):
    """A rule's choice of where to cut the context: the allowed place nearest to the start of the protected end.

    ``move`` is the direction of the search. With ``newest_turn``, the newest turn is kept if a message precedes it. If
    the cut would remove at most ``few`` messages, all are removed. If no place is allowed, ``otherwise`` is tried:
    another kind of place, the start of the newest turn, all messages, or all messages if the last one is a reply
    without calls.
    """

    prefix: ClassVar[str] = "cut"

    at: CutPlace = "pair"
    move: Literal["back", "forward"] = "back"
    newest_turn: bool = False
    few: int | None = Field(default=None, ge=0, le=1_000)
    otherwise: tuple[CutFallback, ...] = ()


class Head(Part):
    """Number of messages to remove from the start, for runtimes that do not count the messages to keep.

    A ``share`` of the messages is removed, raised by ``step`` until the context fits in the share ``until`` of the
    window. With ``even``, an even number is removed.
    """

    prefix: ClassVar[str] = "head"

    share: float = param(0.5, "share of the messages that are removed", "of messages", 0.01, 1.0)
    step: float | None = param(
        None, "additional share that is removed while too much is left", "of messages", 0.01, 1.0
    )
    until: float | None = param(None, "share of the window that the context may still fill", "of window", 0.01, 1.0)
    even: bool = Field(default=False)


def find_head_end(context: Context, keep: Keep, cut: Cut) -> int:
    """Return the position after the messages kept at the start, extended so that a cut by pairs splits no call."""
    first = min(keep.first or 0, len(context))
    if first and cut.at == "pair":
        calls = find_open_calls(context)
        return next((at for at in range(first, len(context)) if calls[at] == at), len(context))
    return first


def find_cut(context: Context, keep: Keep, head: Head | None, cut: Cut, first: int, limits: SizeLimits) -> int:
    """Return the position of the first message kept at the end, or 0 for no cut.

    If no message is kept, this is the context's length. *first* is the position after the messages kept at the start.
    """
    length = len(context)
    if head is not None:
        return _find_cut_by_share(context, head, cut, first, limits)
    start = keep.find_protected_start(context, limits)
    shares = (keep.share, keep.share_of_trigger, keep.share_of_context, keep.share_of_messages)
    if start >= length and not any((keep.turns, keep.messages, keep.tokens, *shares)):
        return length
    if cut.newest_turn and (turns := index_context(context).turn_starts) and turns[-1] > first:
        start = min(start, turns[-1])
    return _find_cut_place(context, start, cut, first)


def _find_cut_by_share(context: Context, head: Head, cut: Cut, first: int, limits: SizeLimits) -> int:
    index, length, share = index_context(context), len(context), head.share
    while True:
        count = int((length - first) * share) if head.even else round((length - first) * share)
        start = first + (count - count % 2 if head.even else count)
        position = _find_cut_place(context, start, cut, first)
        rest = index.total - index.prefix[position] + index.prefix[first]
        if head.until is None or head.step is None or rest <= head.until * limits.window:
            return position
        if share >= 1.0:
            return length
        share = min(share + head.step, 1.0)


def _find_cut_place(context: Context, start: int, cut: Cut, first: int) -> int:
    """Return the nearest allowed position, if necessary of a fallback, or 0 for no cut."""
    if start <= first:  # all messages are kept
        return 0
    position = _find_nearest_cut(context, start, cut.at, cut.move, first)
    for fallback in cut.otherwise:
        if position is None:
            position = _find_fallback_cut(context, start, fallback, first)
    if position is None or position <= first:
        return 0
    return len(context) if cut.few is not None and position - first <= cut.few else position


def _find_fallback_cut(context: Context, start: int, fallback: CutFallback, first: int) -> int | None:
    length, turns = len(context), index_context(context).turn_starts
    if fallback == "newest_turn":
        return turns[-1] if turns and turns[-1] > first else None
    if fallback == "all":
        return length
    if fallback == "all_if_answered":
        is_reply = _is_assistant(context, length - 1)
        return length if is_reply and not context.has_kind(context.order[-1], Kind.TOOL_USE) else None
    return _find_nearest_cut(context, start, fallback, "forward", first)


def _find_nearest_cut(context: Context, start: int, kind: CutPlace, move: str, first: int) -> int | None:
    """Return the allowed position nearest to *start* in the given direction and after *first*, or None."""
    length = len(context)
    if kind == "turn":
        turns = index_context(context).turn_starts
        later_turns, earlier_turns = turns[bisect_left(turns, start) :], turns[: bisect_right(turns, start)]
        nearest = later_turns if move == "forward" else reversed(earlier_turns)
        calls = find_open_calls(context)  # a turn may start between a call and its result
        return next((turn for turn in nearest if turn > first and calls[turn] == turn), None)
    fits = _CUT_TESTS[kind](context)
    positions = range(start, length) if move == "forward" else range(min(start, length), first, -1)
    return next(filter(fits, positions), None)


def _build_message_test(context: Context) -> Callable[[int], bool]:
    facts, order = context.facts, context.order

    def fits(position: int) -> bool:
        if position == len(order):
            return False
        is_typed = facts.flags[order[position]] & MessageFlag.TURN_START
        return bool(is_typed) or not context.has_kind(order[position], Kind.TOOL_RESULT)

    return fits


def _build_pair_test(context: Context) -> Callable[[int], bool]:
    calls = find_open_calls(context)
    return lambda at: calls[at] == at


def _is_assistant(context: Context, at: int) -> bool:
    return 0 <= at < len(context) and context.facts.role[context.order[at]] == Role.ASSISTANT


_CUT_TESTS: dict[str, Callable[[Context], Callable[[int], bool]]] = {
    "any": lambda context: lambda at: True,
    "pair": _build_pair_test,
    "message": _build_message_test,
    "assistant": lambda context: lambda at: _is_assistant(context, at),
    "after_assistant": lambda context: lambda at: _is_assistant(context, at - 1),
}
