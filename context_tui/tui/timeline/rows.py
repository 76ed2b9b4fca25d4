"""Rows of the timeline, stored as columns of numbers that grow with the session."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate, islice, zip_longest
from operator import sub
from typing import NamedTuple

from context_tui.session.blocks import BYTES_PER_TOKEN
from context_tui.session.session import Session
from context_tui.session.values import Checkpoint, Kind, MessageFlag
from context_tui.tokens.estimators import IMAGE_TOKENS
from context_tui.tokens.measures import TokenTable
from context_tui.tui.timeline.context_events import ContextEvent, find_context_events

WHOLE_MESSAGE, TURN_HEAD = -1, -2
"""Values of ``block``: the message without its tool results, and the head of the turn that begins with the message."""


class Location(NamedTuple):
    """A place in the timeline: a message, its tool result with the number ``block``, or the heading of its turn."""

    message: int
    block: int = WHOLE_MESSAGE


FIRST_LOCATION = Location(0)


class TimelineRows:
    """All rows of the timeline, stored as parallel columns of numbers.

    Attributes:
        block: number of a tool result's block, ``WHOLE_MESSAGE``, ``TURN_HEAD``, or -3 - n for ``events[n]``.
        tokens: tokens of each row; ``sums`` are their prefix sums.
        turn: number of the turn of each message, from 1; 0 before the first turn.
        heads: rows of the headings of all turns, and of the messages before the first turn. A turn extends from its
            heading to the next one.
    """

    def __init__(self) -> None:
        self.message = array("l")
        self.block = array("l")
        self.tokens = array("l")
        self.first = array("l")
        self.turn = array("l")
        self.heads = array("l")
        self.largest = self.largest_turn = 1
        self.events: list[ContextEvent] = []
        self.sums = array("q", (0,))
        self.token_table: TokenTable | None = None

    def __len__(self) -> int:
        return len(self.message)

    def copy(self) -> TimelineRows:
        """Return a copy that another thread may read while this object grows."""
        rows = TimelineRows()
        for name in ("message", "block", "tokens", "first", "turn", "heads", "sums"):
            setattr(rows, name, getattr(self, name)[:])
        rows.largest, rows.largest_turn, rows.events = self.largest, self.largest_turn, self.events
        rows.token_table = self.token_table
        return rows

    def with_table(self, token_table: TokenTable, checkpoint: Checkpoint = lambda: None) -> TimelineRows:
        """Return a copy with the sizes of *token_table*; *checkpoint* is called for each row and may raise to stop."""
        rows = self.copy()
        rows.token_table = token_table
        tokens, blocks, messages = rows.tokens, token_table.blocks, token_table.messages
        remaining = 0  # tokens of the message without its results
        for row, (message, block) in enumerate(zip(self.message, self.block, strict=True)):
            checkpoint()
            if self.first[message] == row:
                remaining = messages[message]
            if block >= 0:
                tokens[row] = blocks[block]
                remaining -= blocks[block]
            elif block == WHOLE_MESSAGE:
                tokens[row] = remaining
        rows.largest = max(tokens, default=1) or 1
        rows.sums = array("q", accumulate(tokens, initial=0))
        rows._update_largest_turn()
        return rows

    def grow(self, session: Session, revised_from: int | None = None) -> None:
        """Add rows for new messages; rebuild those from *revised_from* or from the first changed event to the end."""
        facts, start, events = session.facts, len(self.first), find_context_events(session)
        differing_events = (pair for pair in zip_longest(self.events, events) if pair[0] != pair[1])
        first_pair = next(differing_events, ())
        changed_from = min((event.message for event in first_pair if event), default=session.length)
        self.events = events
        if start == session.length and revised_from is None and changed_from >= start:
            return
        self._truncate(min(start, changed_from, start if revised_from is None else revised_from))
        event_numbers: dict[int, list[int]] = {}
        for number, event in enumerate(events):
            if event.message >= len(self.first):
                event_numbers.setdefault(event.message, []).append(number)

        kind, size, next_row = facts.kind, facts.size, facts.block_next
        result, image, unknown, turn_start = Kind.TOOL_RESULT, Kind.IMAGE, Kind.OTHER, int(MessageFlag.TURN_START)
        turn = self.turn[-1] if self.turn else 0
        largest = self.largest
        add_message, add_block, add_tokens = self.message.append, self.block.append, self.tokens.append
        for message in range(len(self.first), session.length):
            starts_turn = facts.flags[message] & turn_start
            turn += bool(starts_turn)
            self.turn.append(turn)
            for number in event_numbers.get(message, ()):
                add_message(message)
                add_block(_convert_event_number(number))
                add_tokens(0)
            if starts_turn or not message:
                self.heads.append(len(self.message))
                add_message(message)
                add_block(TURN_HEAD)
                add_tokens(0)
            self.first.append(len(self.message))
            row, other_tokens, has_other, results = facts.first_block[message], 0, False, []
            while row >= 0:
                block_kind = kind[row]
                if block_kind == result:
                    results.append(row)
                else:
                    has_other = True
                    if block_kind == image:
                        other_tokens += IMAGE_TOKENS
                    elif block_kind != unknown:
                        other_tokens += size[row] // BYTES_PER_TOKEN
                row = next_row[row]
            for row in results:  # providers require results before the other blocks of a message
                tokens = size[row] // BYTES_PER_TOKEN
                add_message(message)
                add_block(row)
                add_tokens(tokens)
                largest = max(largest, tokens)
            if has_other or not results:
                add_message(message)
                add_block(WHOLE_MESSAGE)
                add_tokens(other_tokens)
                largest = max(largest, other_tokens)
        self.largest = largest
        self.sums.extend(islice(accumulate(self.tokens[len(self.sums) - 1 :], initial=self.sums[-1]), 1, None))
        self._update_largest_turn()

    def _update_largest_turn(self) -> None:
        sums = [*map(self.sums.__getitem__, self.heads), self.sums[-1]]
        self.largest_turn = max(map(sub, sums[1:], sums), default=1) or 1

    def _truncate(self, message: int) -> None:
        if message < len(self.first):
            row = self._find_group_start(message)
            largest_removed = max(self.tokens[row:], default=0)
            for column in (self.message, self.block, self.tokens):
                del column[row:]
            del self.sums[row + 1 :], self.heads[bisect_left(self.heads, row) :]
            del self.first[message:], self.turn[message:]
            if largest_removed == self.largest:
                self.largest = max(self.tokens, default=1) or 1

    def get_location(self, row: int) -> Location:
        """Return the location of a row; for an event, that of the message below it."""
        return Location(self.message[row], self.block[row] if self.block[row] >= TURN_HEAD else WHOLE_MESSAGE)

    def find_events(self, message: int) -> list[ContextEvent]:
        """Return the events just before *message*; empty if there are none."""
        start = bisect_left(self.events, message, key=lambda event: event.message)
        return self.events[start : bisect_right(self.events, message, key=lambda event: event.message)]

    def get_event(self, row: int) -> ContextEvent | None:
        """Return the event that a row shows, or None for a row that shows no event."""
        number = _convert_event_number(self.block[row])
        return self.events[number] if number >= 0 else None

    def iterate_event_rows(self) -> Iterator[tuple[int, ContextEvent]]:
        """Yield (row, event) for each event that has a row, in timeline order."""
        row = -1
        for event in self.events:
            if event.message < len(self.first):
                row = max(row + 1, self._find_group_start(event.message))
                yield row, event

    @property
    def listable_count(self) -> int:
        """The number of rows that a filter can list, which are the messages and tool results."""
        return len(self.message) - len(self.heads) - sum(event.message < len(self.first) for event in self.events)

    def _find_group_start(self, message: int) -> int:
        row = self.first[message]
        while row and self.block[row - 1] < WHOLE_MESSAGE:
            row -= 1
        return row

    def find_row(self, message: int, block: int = WHOLE_MESSAGE) -> int:
        """Return the row at a location or, if there is none, the first row of the message nearest to *message*."""
        if not self.first:
            return 0
        message = min(max(message, 0), len(self.first) - 1)
        row = start = self.first[message]
        if block == TURN_HEAD:
            return start - 1 if start and self.block[start - 1] == TURN_HEAD else start
        while row < len(self.message) and self.message[row] == message:
            if self.block[row] == block:
                return row
            row += 1
        return start

    # Turns, by index in ``heads``

    def find_turn_of_row(self, row: int) -> int:
        """Return the index in ``heads`` of a row's turn; events above a heading belong to the previous turn."""
        return max(bisect_right(self.heads, row) - 1, 0)

    def find_turn_of_message(self, message: int) -> int:
        """Return the index in ``heads`` of the turn that contains *message*."""
        return self.turn[message] - self.turn[0] if message < len(self.turn) else 0

    def get_turn_number(self, turn: int) -> int:
        """Return the number of a turn on screen, from 1; 0 stands for the messages before the first turn."""
        return turn + self.turn[0]

    def get_turn_rows(self, turn: int) -> range:
        """Return the rows of a turn, including its heading."""
        stop = self.heads[turn + 1] if turn + 1 < len(self.heads) else len(self)
        return range(self.heads[turn], stop)

    def get_turn_messages(self, turn: int) -> range:
        """Return the messages in a turn."""
        stop = self.message[self.heads[turn + 1]] if turn + 1 < len(self.heads) else len(self.first)
        return range(self.message[self.heads[turn]], stop)

    def find_turn_head(self, row: int, step: int) -> int:
        """Return the row of the next heading, or the last row without one (+1), or of the last heading above (-1)."""
        if not self.heads:
            return 0
        turn = self.find_turn_of_row(row)
        if step > 0:
            return self.heads[turn + 1] if turn + 1 < len(self.heads) else len(self) - 1
        return self.heads[turn if self.heads[turn] < row else max(turn - 1, 0)]


def _convert_event_number(number: int) -> int:
    """Convert an index in ``events`` to its value in ``block``, or back."""
    return TURN_HEAD - 1 - number
