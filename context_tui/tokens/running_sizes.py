"""Sizes of the context at successive points in a session, and the tokens of hidden reasoning in past turns."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

from context_tui.session.context import CLEARED_BODIES
from context_tui.session.drops import find_drops
from context_tui.session.facts import Epoch, Facts
from context_tui.session.values import BlockFlag, Checkpoint, Kind, MessageFlag, Role
from context_tui.tokens.accounting import BelievedSize
from context_tui.tokens.estimators import Images, bytes4, count_message_tokens


class RunningSizes:
    """Size of the context in estimated tokens (``bytes/4``) at successive points in a session.

    A cleared result counts as its replacement. ``is_sent`` states for each message whether a model ever received it.
    Messages and blocks that another thread appends to the facts meanwhile are left out.
    """

    def __init__(self, facts: Facts, checkpoint: Checkpoint = lambda: None) -> None:
        find_drops(facts)
        self._facts = facts
        unsent, assistant = MessageFlag.NOT_SENT, Role.ASSISTANT
        self.is_sent = [not flags & unsent for flags in facts.flags]
        tokens: list[int] = []
        for message, is_sent in enumerate(self.is_sent):
            checkpoint()
            tokens.append(count_message_tokens(facts, message) if is_sent else 0)
        self._tokens, self._message_counts = _RunningSum(tokens), _RunningSum(self.is_sent)
        count, owners = len(self.is_sent), facts.block_message[:]
        results, answers = [0] * count, Kind.TOOL_RESULT
        for kind, message in zip(facts.kind, owners, strict=False):
            if kind == answers and message < count and self.is_sent[message]:
                results[message] += 1
        self._result_counts = _RunningSum(results)
        image_counts, image_tokens = [0] * count, [0] * count
        for row in facts.image_rows:
            if row < len(owners) and (message := owners[row]) < count and self.is_sent[message]:
                image_counts[message] += 1
                image_tokens[message] += bytes4(facts, row)
        self._image_counts, self._image_tokens = _RunningSum(image_counts), _RunningSum(image_tokens)
        self._cleared: set[int] = set()
        self._compaction = self._drop = 0
        replies = (m if is_sent and facts.role[m] == assistant else -1 for m, is_sent in enumerate(self.is_sent))
        self._last_assistant = list(accumulate(replies, max, initial=-1))

    def move_to(self, at: int, until: int | None = None) -> None:
        """Count results as cleared by drops before message *at*, and by microcompactions up to message *until*.

        *until* defaults to *at*. Points must ascend from one call to the next.
        """
        facts = self._facts
        while self._compaction < len(facts.compactions):
            compaction = facts.compactions[self._compaction]
            if compaction.message > (at if until is None else until):
                break
            if compaction.kind == "micro":
                self._clear(compaction.cleared_blocks)
            self._compaction += 1
        while self._drop < len(facts.drops) and facts.drops[self._drop].message < at:
            self._clear(facts.drops[self._drop].cleared_blocks)
            self._drop += 1

    def count_between(self, first: int, end: int) -> int:
        """Count the tokens in the messages from *first* up to but not including *end*."""
        return self._tokens.sum_between(first, end)

    def count_context(self, epoch: Epoch, at: int) -> int:
        """Count the tokens in the context that *epoch* has before message *at*."""
        return _sum_ranges(self._tokens, epoch, at)

    def believed_size(self, epoch: Epoch, at: int, request: int) -> BelievedSize:
        """Return the believed size of a context; *request* is the row of its last request, or -1 if it has none."""
        reply = self._facts.request_message[request] if request >= 0 else -1
        if reply < 0 or not self.is_sent[reply]:
            return BelievedSize(None, self.count_context(epoch, at))
        return BelievedSize(self._facts.requests[request].context, self.count_between(reply, at))

    def count_messages(self, epoch: Epoch, at: int) -> int:
        """Return the number of messages in the context that *epoch* has before message *at*."""
        return _sum_ranges(self._message_counts, epoch, at)

    def count_results(self, epoch: Epoch, at: int) -> int:
        """Return the number of tool results in the context before message *at*, including cleared ones."""
        return _sum_ranges(self._result_counts, epoch, at)

    def count_images(self, epoch: Epoch, at: int) -> Images:
        """Count the images in the context before message *at*, without those in cleared results."""
        counts = (self._image_counts, self._image_tokens) if self._facts.image_rows else ()
        return Images(*(_sum_ranges(each, epoch, at) for each in counts))

    def find_last_assistant(self, epoch: Epoch, at: int) -> int:
        """Return the last assistant message in the context before message *at*, or -1 if there is none."""
        for messages in reversed(_list_ranges(epoch, at)):
            if messages and self._last_assistant[messages.stop] >= messages.start:
                return self._last_assistant[messages.stop]
        return -1

    def _clear(self, rows: frozenset[int] | tuple[int, ...]) -> None:
        facts = self._facts
        for row in rows:
            message = facts.block_message[row]
            if row not in self._cleared and self.is_sent[message] and facts.kind[row] == Kind.TOOL_RESULT:
                self._cleared.add(row)
                self._tokens.add(message, CLEARED_BODIES["recorded"].tokens - bytes4(facts, row))
                if facts.block_flags[row] & BlockFlag.HAS_IMAGE:
                    self._image_counts.add(message, -1)
                    self._image_tokens.add(message, -bytes4(facts, row))


def _list_ranges(epoch: Epoch, at: int) -> tuple[range, ...]:
    return (*epoch.prefix.ranges, range(epoch.start, at))


def _sum_ranges(counts: _RunningSum, epoch: Epoch, at: int) -> int:
    return sum(counts.sum_between(messages.start, messages.stop) for messages in _list_ranges(epoch, at))


class _RunningSum:
    """A number per message, with range sums in constant time, or logarithmic time after a change (Fenwick tree)."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self._sums = list(accumulate(numbers, initial=0))
        self._changes: list[int] = []

    def add(self, message: int, amount: int) -> None:
        if not self._changes:
            self._changes = [0] * len(self._sums)
        place = message + 1
        while place < len(self._changes):
            self._changes[place] += amount
            place += place & -place

    def sum_between(self, first: int, end: int) -> int:
        if first >= end:
            return 0
        total = self._sums[end] - self._sums[first]
        return total + self._sum_changes(end) - self._sum_changes(first) if self._changes else total

    def _sum_changes(self, end: int) -> int:
        total = 0
        while end:
            total += self._changes[end]
            end &= end - 1
        return total


_TURN_START, _ASSISTANT = int(MessageFlag.TURN_START), int(Role.ASSISTANT)


class PastReasoning:
    """Tokens of the hidden reasoning in finished turns, for a context that grows message by message.

    The reasoning of a turn counts from the first reply of the next turn on. Source: codex-rs/core,
    ContextManager.get_non_last_reasoning_items_tokens, and its callers.
    """

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._current = self._pending = 0  # of the current turn, and of finished ones that do not count yet
        self.tokens = 0

    def update(self, messages: Iterable[int]) -> None:
        """Add the next messages in prompt order."""
        flags, role, reasoning = self._facts.flags, self._facts.role, self._facts.reasoning
        if not reasoning:
            return
        for message in messages:
            if flags[message] & _TURN_START:
                self._pending, self._current = self._pending + self._current, 0
            elif role[message] == _ASSISTANT:
                self.tokens, self._pending = self.tokens + self._pending, 0
                self._current += reasoning.get(message, 0)


def count_past_reasoning(facts: Facts, order: Iterable[int]) -> int:
    """Count the tokens of hidden reasoning in a context's finished turns, given its messages in prompt order."""
    reasoning = PastReasoning(facts)
    reasoning.update(order)
    return reasoning.tokens
