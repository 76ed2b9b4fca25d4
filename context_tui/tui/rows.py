"""The lines of the timeline, as columns of numbers: one for each message, one for each tool result, one for each rule
between them. They grow with the session and hold no text.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from itertools import accumulate, zip_longest

from context_tui.session.facts import Kind, MessageFlag
from context_tui.session.session import Session
from context_tui.tokens.estimators import BYTES_PER_TOKEN, IMAGE_TOKENS
from context_tui.tui.rules import Rule, rules_of

WHOLE = -1
"""In ``block``: the message itself, without its tool results."""


class Rows:
    """Parallel columns: ``message``, ``block`` (a row of facts, or ``WHOLE``, or a separator) and ``tokens``.

    A separator has ``block`` -2 - n for ``rules[n]``. ``first`` is the first row of each message, ``turn`` the
    number of the turn that it belongs to (from 1; 0 before the first). ``largest`` is the most tokens that a row has.
    """

    def __init__(self) -> None:
        self.message = array("l")
        self.block = array("l")
        self.tokens = array("l")
        self.first = array("l")
        self.turn = array("l")
        self.largest = 1
        self.rules: list[Rule] = []
        self._sums = array("q")

    def __len__(self) -> int:
        return len(self.message)

    def copy(self) -> Rows:
        """The rows as they are now, for another thread."""
        other = Rows()
        for name in ("message", "block", "tokens", "first", "turn"):
            setattr(other, name, getattr(self, name)[:])
        other.largest, other.rules = self.largest, self.rules
        return other

    @property
    def sums(self) -> array[int]:
        """Tokens of all rows before each one, and of all at the end."""
        if len(self._sums) != len(self) + 1:
            self._sums = array("q", accumulate(self.tokens, initial=0))
        return self._sums

    def grow(self, session: Session, revised_from: int | None = None) -> None:
        """Follow a session that has grown, and changed from *revised_from* on."""
        facts, start, rules = session.facts, len(self.first), rules_of(session)
        pairs = (pair for pair in zip_longest(self.rules, rules) if pair[0] != pair[1])
        changed = min((rule.message for rule in next(pairs, ()) if rule), default=session.length)
        if start == session.length and revised_from is None and changed >= start:
            return
        self.rules = rules
        self._cut(min(start, changed, start if revised_from is None else revised_from))
        at: dict[int, list[int]] = {}
        for number, rule in enumerate(rules):
            if rule.message >= len(self.first):
                at.setdefault(rule.message, []).append(number)

        kind, size, following = facts.kind, facts.size, facts.block_next
        result, image, other, turn_start = Kind.TOOL_RESULT, Kind.IMAGE, Kind.OTHER, MessageFlag.TURN_START
        turn = self.turn[-1] if self.turn else 0
        largest = self.largest
        add_message, add_block, add_tokens = self.message.append, self.block.append, self.tokens.append
        for message in range(len(self.first), session.length):
            turn += bool(facts.flags[message] & turn_start)
            self.turn.append(turn)
            for number in at.get(message, ()):
                add_message(message)
                add_block(-2 - number)
                add_tokens(0)
            self.first.append(len(self.message))
            row, rest, has_rest, results = facts.first_block[message], 0, False, []
            while row >= 0:
                what = kind[row]
                if what == result:
                    results.append(row)
                else:
                    has_rest = True
                    rest += IMAGE_TOKENS if what == image else 0 if what == other else size[row] // BYTES_PER_TOKEN
                row = following[row]
            for row in results:  # a provider wants them before whatever else the message says
                tokens = size[row] // BYTES_PER_TOKEN
                add_message(message)
                add_block(row)
                add_tokens(tokens)
                largest = max(largest, tokens)
            if has_rest or not results:
                add_message(message)
                add_block(WHOLE)
                add_tokens(rest)
                largest = max(largest, rest)
        self.largest = largest

    def _cut(self, message: int) -> None:
        """Forget the rows from *message* on."""
        if message < len(self.first):
            row = self.first[message]
            while row and self.block[row - 1] < WHOLE:
                row -= 1
            for column in (self.message, self.block, self.tokens):
                del column[row:]
            self._sums = array("q")
            del self.first[message:], self.turn[message:]

    def rules_at(self, message: int) -> list[Rule]:
        """The rules above a message."""
        start = bisect_left(self.rules, message, key=lambda rule: rule.message)
        return self.rules[start : bisect_right(self.rules, message, key=lambda rule: rule.message)]

    def row_of(self, message: int, block: int = WHOLE) -> int:
        """The row of a message, or of one of its blocks where that has a row of its own."""
        if not self.first:
            return 0
        message = min(max(message, 0), len(self.first) - 1)
        row = start = self.first[message]
        while row < len(self.message) and self.message[row] == message:
            if self.block[row] == block:
                return row
            row += 1
        return start

    def turn_row(self, row: int, step: int) -> int:
        """The row where the next (+1) or this or the previous (-1) turn starts."""
        if not self.first:
            return 0
        here = self.message[row]
        if step > 0:
            message = bisect_left(self.turn, self.turn[here] + 1)
            return self.first[message] if message < len(self.first) else len(self) - 1
        start = bisect_left(self.turn, self.turn[here])
        if self.first[start] >= row:
            start = bisect_left(self.turn, self.turn[here] - 1)
        return self.first[start]
