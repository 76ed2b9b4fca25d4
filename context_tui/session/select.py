"""Facts without some of their messages, for branches that were left."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Collection
from dataclasses import replace

from context_tui.session.facts import Compaction, Facts, Role, Usage
from context_tui.session.spans import Spans


class Selection:
    """Facts without the messages *gone*; their records stay accounted for as message records.

    ``facts`` are those: as the ones that they are ``of`` grow, they grow in their place, by what is new.
    """

    def __init__(self, of: Facts, gone: Collection[int], undone: Collection[tuple[str, int]] = ()) -> None:
        """Begin with what there is.

        Args:
            of: what is selected from.
            gone: the messages that are left out. Those that come later are not.
            undone: what happened where the conversation does not lead any more: ``micro`` and the row of a compaction,
                or ``clear`` and the message of an epoch.
        """
        self.of, self.facts = of, Facts()
        self._gone, self._undone = gone, undone
        self._kept = array("l")
        self._number = array("l")  # of each message, -1 of one that is gone
        self._block = array("l")  # of each block, as well
        self._requests, self._newest = 0, Usage()
        self._happened: tuple[object, ...] = ()
        self._waits = False  # whether something happened behind all that is here
        self.facts.problems = of.problems
        self.facts.shared_rows = of.shared_rows  # what is kept of such a record does not depend on who has the rest
        self.grow()

    def holds(self) -> bool:
        """Whether what was taken is still what there is, and the rest stands behind it: requests may be told late."""
        return not self._requests or self.of.requests[self._requests - 1] is self._newest

    def number(self, message: int) -> int:
        """The number of a message here; of one that is gone that of the next."""
        return bisect_left(self._kept, message)

    def grow(self) -> None:
        """Take what is new."""
        before, of, found = len(self._number), self.of, self.facts
        for message in range(before, len(of)):
            gone = message in self._gone
            self._number.append(-1 if gone else len(found))
            if gone:
                continue
            self._kept.append(message)
            index = found.add_message(Role(of.role[message]), of.flags[message], of.time[message])
            found.ended[index] = of.ended[message]
            if message in of.shared:
                found.shared[index] = of.shared[message]
            if message in of.shared_number:
                found.shared_number[index] = of.shared_number[message]
        for message in {*self._take_blocks(), *self._take_records()}:
            index = self._number[message]
            if index >= 0:
                found.flags[index], found.ended[index] = of.flags[message], of.ended[message]
                if message in of.cache_misses:
                    found.cache_misses[index] = of.cache_misses[message]
        self._take_reasoning()
        self._take_requests()
        self._take_compactions()
        found.model, found.window, found.whole_window = of.model, of.window, of.whole_window
        found.input_includes_cache, found.sizes_revised = of.input_includes_cache, of.sizes_revised
        found.system_rows, found.system_bytes, found.tools_bytes = of.system_rows, of.system_bytes, of.tools_bytes

    def _take_reasoning(self) -> None:
        of, found = self.of.reasoning, self.facts.reasoning
        for message in reversed(of):  # what is told of a reply is told before the next one comes
            index = self._number[message]
            if index >= 0 and found.get(index) == of[message]:
                break
            if index >= 0:
                found[index] = of[message]

    def _take_blocks(self) -> set[int]:
        """Take the blocks that are new; returns the messages that they are of."""
        of, found, first = self.of, self.facts, len(self._block)
        for row in range(first, len(of.kind)):
            index = self._number[of.block_message[row]]
            self._block.append(found.copy_block(index, of, row) if index >= 0 else -1)
        return set(of.block_message[first:])

    def _take_records(self) -> set[int]:
        """Take the records that are new, and the last one again where it was torn; the messages that they are of."""
        of, found = self.of, self.facts
        last = len(found.record_kind) - 1
        if last >= 0 and _record(of, last) != _record(found, last):
            found.drop_last_record()
        first = len(found.record_kind)
        for row in range(first, len(of.record_kind)):
            message = of.record_message[row]
            index = self._number[message] if message >= 0 else -1
            found.add_record(of.record_place[row], of.record_length[row], of.record_kind[row], index)
        return {message for message in of.record_message[first:] if message >= 0}

    def _take_requests(self) -> None:
        of, found = self.of, self.facts
        for row in range(self._requests, len(of.requests)):
            index = self._number[of.request_message[row]]
            if index >= 0:
                found.model = of.models[of.request_model[row]] if of.request_model[row] >= 0 else None
                found.add_request(index, of.requests[row], of.request_time[row])
        self._requests, self._newest = len(of.requests), of.requests[-1] if of.requests else self._newest

    def _take_compactions(self) -> None:
        """Take the compactions and epochs: all of them where there is another one, as each decides what others are."""
        of, end = self.of, self._kept[-1] + 1 if self._kept else 0
        happened = (len(of.compactions), len(of.epochs), of.epochs[-1], end if self._waits else -1)
        if happened == self._happened:
            return
        made, cleared_at = Facts(), [epoch.message for epoch in of.epochs if epoch.cause == "clear"]
        self._waits = max([-1, *cleared_at, *(each.message - 1 for each in of.compactions)]) >= end
        self._happened = (*happened[:3], end if self._waits else -1)
        clears = deque(each for each in cleared_at if each < end and ("clear", each) not in self._undone)
        for row, compaction in enumerate(of.compactions):
            if ("micro", row) in self._undone or compaction.message > end or self._is_gone(compaction):
                continue  # it was on what is gone
            while clears and clears[0] < compaction.message:
                made.begin_epoch(self.number(clears.popleft()), "clear")
            made.add_compaction(self._moved(compaction))
        for message in clears:
            made.begin_epoch(self.number(message), "clear")
        self.facts.compactions, self.facts.rewrites, self.facts.epochs = made.compactions, made.rewrites, made.epochs

    def _is_gone(self, what: Compaction) -> bool:
        return what.kind == "full" and not (what.message < len(self._number) and self._number[what.message] >= 0)

    def _moved(self, what: Compaction) -> Compaction:
        """A compaction with the numbers that are here."""
        cleared = frozenset(self._block[row] for row in what.cleared if self._block[row] >= 0)
        prefix = Spans(*(range(self.number(each.start), self.number(each.stop)) for each in what.prefix.ranges))
        return replace(what, message=self.number(what.message), prefix=prefix, cleared=cleared)


def _record(facts: Facts, row: int) -> tuple[int, int, int] | None:
    """A record but for the message that it is of; None where there is none."""
    if row >= len(facts.record_kind):
        return None
    return facts.record_place[row], facts.record_length[row], facts.record_kind[row]
