"""koda's full compactions, inferred from the rows that they archived.

A compaction stamps the rows it archives and appends two rows: the summary, and a hint to continue. Rows are sent by
id, so the context after it consists of the remaining rows, the summary, and the hint.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from heapq import heappop, heappush

from context_tui.formats.kit.entry_scanner import replace_compactions
from context_tui.formats.kit.values import parse_time_ms
from context_tui.session.facts import Compaction, Facts, order_at
from context_tui.session.values import Kind, MessageFlag, Role, Spans

Stamp = tuple[int, str]


def update_compactions(facts: Facts, archived: Sequence[str | None]) -> None:
    """Replace the compactions of a session, and the contexts after them."""
    replace_compactions(facts, find_compactions(facts, archived))
    mark_archived_unsent(facts, archived)


def find_compactions(facts: Facts, archived: Sequence[str | None]) -> list[Compaction]:
    """Find the compactions of a session; ``archived`` holds the archiving time of each message."""
    stamps = [None if time is None else (parse_time_ms(time), time) for time in archived]
    summaries = [m for m in range(len(facts)) if facts.flags[m] & MessageFlag.SUMMARY and facts.role[m] == Role.SYSTEM]
    compactions: list[Compaction] = []
    remaining = _RemainingRows(stamps)
    for summary, own in zip(summaries, _match_stamps(summaries, stamps), strict=True):
        tail = remaining.compute_remaining(summary, own) if own is not None else Spans(range(summary))
        hint = range(summary, summary + 1 + _is_hint_next(facts, summary))
        compactions.append(Compaction(summary, "full", prefix=Spans(*tail.ranges, hint)))
    return compactions


def _match_stamps(summaries: Sequence[int], stamps: Sequence[Stamp | None]) -> list[Stamp | None]:
    """Match each summary to the stamp of its archived rows, if any.

    It is the latest stamp whose rows are all older than the summary, and that is earlier than the stamp of the summary
    itself and the stamps of later summaries.
    """
    last_with = {stamp: message for message, stamp in enumerate(stamps) if stamp is not None}
    possible = sorted(last_with)
    matches: list[Stamp | None] = []
    for summary in reversed(summaries):
        end = begin = len(possible)
        if (archived := stamps[summary]) is not None:
            end = begin = bisect_left(possible, archived)
        while begin and last_with[possible[begin - 1]] >= summary:
            begin -= 1
        del possible[begin:end]  # they belong to no earlier summary either
        matches.append(possible[begin - 1] if begin else None)
        if begin:
            del possible[begin - 1 :]
    return matches[::-1]


class _RemainingRows:
    """Rows that successive compactions left in the context, since none of them archived these."""

    def __init__(self, stamps: Sequence[Stamp | None]) -> None:
        self._stamps = stamps
        self._next_message = 0
        self._archive_queue: list[tuple[Stamp, int]] = []  # a heap of the rows that will be archived
        self._starts: list[int] = []
        self._stops: list[int] = []

    def compute_remaining(self, summary: int, own: Stamp) -> Spans:
        """Compute the messages before *summary* that remain after *own*'s rows are archived; call in order."""
        for message in range(self._next_message, summary):
            if self._stops and self._stops[-1] == message:
                self._stops[-1] += 1
            else:
                self._starts.append(message)
                self._stops.append(message + 1)
            if (stamp := self._stamps[message]) is not None:
                heappush(self._archive_queue, (stamp, message))
        self._next_message = summary
        while self._archive_queue and self._archive_queue[0][0] <= own:
            self._remove(heappop(self._archive_queue)[1])
        return Spans(*map(range, self._starts, self._stops))

    def _remove(self, message: int) -> None:
        at = bisect_right(self._starts, message) - 1
        parts = [(self._starts[at], message), (message + 1, self._stops[at])]
        parts = [(start, stop) for start, stop in parts if start < stop]
        self._starts[at : at + 1] = [start for start, _ in parts]
        self._stops[at : at + 1] = [stop for _, stop in parts]


def mark_archived_unsent(facts: Facts, archived: Sequence[str | None]) -> None:
    """Mark archived rows of a deleted summary, which the last context would include, as not sent."""
    for message in order_at(facts, len(facts))[1]:
        if archived[message] is not None:
            facts.flags[message] |= MessageFlag.NOT_SENT


def _is_hint_next(facts: Facts, summary: int) -> bool:
    """Return whether a hint follows a summary: a text of the assistant without a model's usage."""
    hint = summary + 1
    if hint >= len(facts) or facts.role[hint] != Role.ASSISTANT:
        return False
    row = bisect_left(facts.request_message, hint)
    if row < len(facts.requests) and facts.request_message[row] == hint:
        return False
    return all(facts.kind[block] == Kind.TEXT for block in facts.blocks_of(hint))
