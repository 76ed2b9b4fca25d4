"""Appending to the columns of the facts, with everything that takes looked up once: a large session does it 100,000
times a second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from context_tui.session.facts import Facts


def record_appender(facts: Facts) -> Callable[[int, int, int, int], int]:
    """What appends a record: place, length, kind, and the message that it is part of or -1."""
    first, last, following = facts.first_record, facts.last_record, facts.record_next
    place_, length_, kind_ = facts.record_place.append, facts.record_length.append, facts.record_kind.append
    message_, following_ = facts.record_message.append, following.append

    def append(place: int, length: int, kind: int, message: int) -> int:
        row = len(following)
        place_(place)
        length_(length)
        kind_(kind)
        message_(message)
        following_(-1)
        if message >= 0:
            before = last[message]
            if before < 0:
                first[message] = row
            else:
                following[before] = row
            last[message] = row
        return row

    return append


def message_appender(facts: Facts) -> Callable[[int, int, int], int]:
    """What begins a message: role, flags, time."""
    roles = facts.role
    role_, flags_, time_ = roles.append, facts.flags.append, facts.time.append
    first_block_, last_block_ = facts.first_block.append, facts.last_block.append
    first_record_, last_record_ = facts.first_record.append, facts.last_record.append

    def append(role: int, flags: int, time: int) -> int:
        message = len(roles)
        role_(role)
        flags_(flags)
        time_(time)
        first_block_(-1)
        last_block_(-1)
        first_record_(-1)
        last_record_(-1)
        return message

    return append


def block_appender(facts: Facts) -> Callable[[int, int, int, int, int, int, int, int, int, int], int]:
    """What appends a block: message, kind, flags, size, text bytes, JSON bytes, cut, tool, call, path."""
    first, last, following = facts.first_block, facts.last_block, facts.block_next
    message_, following_, kind_, flags_ = (
        column.append for column in (facts.block_message, following, facts.kind, facts.block_flags)
    )
    size_, text_, json_, cut_ = (
        column.append for column in (facts.size, facts.text_bytes, facts.json_bytes, facts.cut)
    )
    tool_, call_, path_ = facts.tool.append, facts.call.append, facts.path.append

    def append(
        message: int,
        kind: int,
        flags: int,
        size: int,
        text: int,
        json_size: int,
        cut: int,
        tool: int,
        call: int,
        path: int,
    ) -> int:
        row = len(following)
        message_(message)
        following_(-1)
        kind_(kind)
        flags_(flags)
        size_(size)
        text_(text)
        json_(json_size)
        cut_(cut)
        tool_(tool)
        call_(call)
        path_(path)
        before = last[message]
        if before < 0:
            first[message] = row
        else:
            following[before] = row
        last[message] = row
        return row

    return append
