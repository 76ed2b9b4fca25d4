"""Fast functions to append rows to the columns of facts, which a scan calls for every record."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from context_tui.session.facts import Facts

NO_ROW = array("i", [-1])
"""Column with the value for no row; extending by an array is faster than appending -1."""


def make_record_appender(facts: Facts) -> Callable[[int, int, int, int], int]:
    """Return a function that appends a record (its place, length, kind, and message or -1) and returns its row."""
    first, last, following = facts.first_record, facts.last_record, facts.record_next
    place_, length_, kind_ = facts.record_place.append, facts.record_length.append, facts.record_kind.append
    message_, following_ = facts.record_message.append, following.extend

    def append(place: int, length: int, kind: int, message: int) -> int:
        row = len(following)
        place_(place)
        length_(length)
        kind_(kind)
        message_(message)
        following_(NO_ROW)
        if message >= 0:
            previous = last[message]
            if previous < 0:
                first[message] = row
            else:
                following[previous] = row
            last[message] = row
        return row

    return append


def make_message_appender(facts: Facts) -> Callable[[int, int, int], int]:
    """Return a function that appends a message (its role, flags and time) and returns its number."""
    roles = facts.role
    role_, flags_, time_, ended_ = roles.append, facts.flags.append, facts.time.append, facts.end_time.append
    first_block_, last_block_ = facts.first_block.extend, facts.last_block.extend
    first_record_, last_record_ = facts.first_record.extend, facts.last_record.extend

    def append(role: int, flags: int, time: int) -> int:
        message = len(roles)
        role_(role)
        flags_(flags)
        time_(time)
        ended_(time)
        first_block_(NO_ROW)
        last_block_(NO_ROW)
        first_record_(NO_ROW)
        last_record_(NO_ROW)
        return message

    return append


def make_block_appender(facts: Facts) -> Callable[[int, int, int, int, int, int, int, int, int, int], int]:
    """Return a function that appends a block (its message and other columns) and returns its row."""
    first, last, following = facts.first_block, facts.last_block, facts.block_next
    message_, following_, kind_ = facts.block_message.append, following.extend, facts.kind.append
    flags_, size_, text_ = facts.block_flags.append, facts.size.append, facts.text_bytes.append
    json_, shifts_ = facts.json_bytes.append, facts.boundary_shifts.append
    tool_, call_, path_ = facts.tool.append, facts.call.append, facts.path.append

    def append(
        message: int,
        kind: int,
        flags: int,
        size: int,
        text: int,
        json_size: int,
        shifts: int,
        tool: int,
        call: int,
        path: int,
    ) -> int:
        row = len(following)
        message_(message)
        following_(NO_ROW)
        kind_(kind)
        flags_(flags)
        size_(size)
        text_(text)
        json_(json_size)
        shifts_(shifts)
        tool_(tool)
        call_(call)
        path_(path)
        previous = last[message]
        if previous < 0:
            first[message] = row
        else:
            following[previous] = row
        last[message] = row
        return row

    return append
