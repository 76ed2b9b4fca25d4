"""Cut position of a rule: how many messages it removes, and where the context may be cut."""

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
"""Before which messages a cut may be: any, one that starts a turn, where no call is parted from its result, one that is
no tool result, one of the assistant, one that follows one of the assistant.
"""
CutFallback = Literal["pair", "message", "newest_turn", "all", "all_if_answered"]


class Cut(Part):
    """Place of the cut: the nearest one ``back`` or ``forward`` from the protected end.

    With ``newest_turn`` the whole newest turn is kept, if anything comes before it. If at most ``few`` messages would
    be removed by the cut, everything is removed. If there is no such place, ``otherwise`` lists the fallbacks: another
    kind of place, the start of the newest turn, everything, or everything if the last message is a reply without calls.
    """

    prefix: ClassVar[str] = "cut"

    at: CutPlace = "pair"
    move: Literal["back", "forward"] = "back"
    newest_turn: bool = False
    few: int | None = Field(default=None, ge=0, le=1_000)
    otherwise: tuple[CutFallback, ...] = ()


class Head(Part):
    """Number of messages to remove from the front, for runtimes that count these and not those that they keep.

    It is a ``share`` of the messages, raised by ``step`` until at most ``until`` of the window remains; with ``even``
    an even number.
    """

    prefix: ClassVar[str] = "head"

    share: float = param(0.5, "share of the messages that go", "of messages", 0.01, 1.0)
    step: float | None = param(None, "how much more goes while too much is left", "of messages", 0.01, 1.0)
    until: float | None = param(None, "share of the window that may be left", "of window", 0.01, 1.0)
    even: bool = Field(default=False)


def find_head_end(context: Context, keep: Keep, cut: Cut) -> int:
    """Return the position after the kept beginning, including the results of its calls if cut by pairs."""
    first = min(keep.first or 0, len(context))
    if first and cut.at == "pair":
        calls = find_open_calls(context)
        return next((at for at in range(first, len(context)) if calls[at] == at), len(context))
    return first


def find_cut(context: Context, keep: Keep, head: Head | None, cut: Cut, first: int, limits: SizeLimits) -> int:
    """Return the position of the first message kept at the end; the context's length where none is, 0: no cut.

    Args:
        first: the position behind what is kept at the beginning.
    """
    length = len(context)
    if head is not None:
        return _find_cut_by_share(context, head, cut, first, limits)
    start = keep.find_protected_start(context, limits)
    if start >= length and not _protects_end(keep):
        return length
    if cut.newest_turn and (turns := index_context(context).turn_starts) and turns[-1] > first:
        start = min(start, turns[-1])
    return _find_cut_place(context, start, cut, first)


def _protects_end(keep: Keep) -> bool:
    of_end = (keep.turns, keep.messages, keep.tokens, keep.share, keep.share_of_trigger)
    return any(of_end) or any((keep.share_of_context, keep.share_of_messages))


def _find_cut_by_share(context: Context, head: Head, cut: Cut, first: int, limits: SizeLimits) -> int:
    sums, length, share = index_context(context), len(context), head.share
    while True:
        count = int((length - first) * share) if head.even else round((length - first) * share)
        start = first + (count - count % 2 if head.even else count)
        at = _find_cut_place(context, start, cut, first)
        enough = head.until is None or head.step is None
        if enough or sums.total - sums.prefix[at] + sums.prefix[first] <= (head.until or 1.0) * limits.window:
            return at
        if share >= 1.0:
            return length
        share = min(share + (head.step or 1.0), 1.0)


def _find_cut_place(context: Context, start: int, cut: Cut, first: int) -> int:
    """Return the nearest place of the right kind, or what is tried otherwise; 0 where there is none."""
    if start <= first:  # everything fits in what is kept
        return 0
    at = _find_nearest_cut(context, start, cut.at, cut.move, first)
    for each in cut.otherwise if at is None else ():
        at = _find_fallback_cut(context, start, each, first)
        if at is not None:
            break
    if at is None or at <= first:
        return 0
    return len(context) if cut.few is not None and at - first <= cut.few else at


def _find_fallback_cut(context: Context, start: int, fallback: CutFallback, first: int) -> int | None:
    length, turns = len(context), index_context(context).turn_starts
    if fallback == "newest_turn":
        return turns[-1] if turns and turns[-1] > first else None
    if fallback == "all":
        return length
    if fallback == "all_if_answered":
        facts, last = context.facts, context.order[-1]
        is_answered = facts.role[last] == Role.ASSISTANT and not context.has_kind(last, Kind.TOOL_USE)
        return length if is_answered else None
    return _find_nearest_cut(context, start, fallback, "forward", first)


def _find_nearest_cut(context: Context, start: int, kind: CutPlace, move: str, first: int) -> int | None:
    """Return the nearest position of a kind at *start* or to one side of it, behind *first* and within the context."""
    length = len(context)
    if kind == "turn":
        turns = index_context(context).turn_starts
        at = bisect_left(turns, start) if move == "forward" else bisect_right(turns, start) - 1
        nearest = turns[at:] if move == "forward" else reversed(turns[: at + 1])
        calls = find_open_calls(context)  # what was typed may stand between a call and its result
        return next((turn for turn in nearest if turn > first and calls[turn] == turn), None)
    fits = _CUT_TESTS[kind](context)
    if move == "forward":
        return next((at for at in range(start, length) if fits(at)), None)
    return next(
        (at for at in range(min(start, length), first, -1) if (at == length and kind == "any") or fits(at)), None
    )


def _build_message_test(context: Context) -> Callable[[int], bool]:
    facts, order = context.facts, context.order

    def fits(at: int) -> bool:
        if at == len(order):
            return False
        typed = facts.flags[order[at]] & MessageFlag.TURN_START
        return bool(typed) or not context.has_kind(order[at], Kind.TOOL_RESULT)

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
