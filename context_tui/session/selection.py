"""Facts without some of their messages, for the live branch and for abandoned ones."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Collection
from dataclasses import replace

from context_tui.session.facts import Compaction, Facts, Usage
from context_tui.session.values import Role, Spans


class Selection:
    """Facts without the *excluded* messages, whose records still count as message records.

    ``facts`` are updated in place as the *source* grows.
    """

    def __init__(
        self, source: Facts, excluded: Collection[int], undone_events: Collection[tuple[str, int]] = ()
    ) -> None:
        """Select from the facts known so far.

        Args:
            source: the facts to select from.
            excluded: the excluded messages; later ones are included.
            undone_events: events on abandoned branches: ``micro`` and the row of a compaction, or ``clear`` and the
                message of an epoch.
        """
        self.source, self.facts = source, Facts()
        self._excluded, self._undone_events = excluded, undone_events
        self._included = array("l")
        self._numbers = array("l")  # by message; -1: excluded
        self._block_rows = array("l")  # by block; -1: excluded
        self._requests, self._last_usage = 0, Usage()
        self._event_state: tuple[object, ...] = ()
        self._has_pending_events = False  # whether an event follows all included messages
        self.facts.problems = source.problems
        self.facts.shared_records = source.shared_records  # shared records are the same in every selection
        self.update()

    def is_current(self) -> bool:
        """Return whether the facts taken so far are unchanged and the rest only follows them: requests may be reported
        late.
        """
        return not self._requests or self.source.requests[self._requests - 1] is self._last_usage

    def number_of(self, message: int) -> int:
        """Return the number of a message here; of a removed message, the number of the next one."""
        return bisect_left(self._included, message)

    def update(self) -> None:
        """Add the new facts of the source."""
        before, of, found = len(self._numbers), self.source, self.facts
        for message in range(before, len(of)):
            gone = message in self._excluded
            self._numbers.append(-1 if gone else len(found))
            if gone:
                continue
            self._included.append(message)
            index = found.add_message(Role(of.role[message]), of.flags[message], of.time[message])
            found.end_time[index] = of.end_time[message]
            if message in of.shared_record:
                found.shared_record[index] = of.shared_record[message]
            if message in of.shared_ordinal:
                found.shared_ordinal[index] = of.shared_ordinal[message]
        for message in {*self._copy_blocks(), *self._copy_records()}:
            index = self._numbers[message]
            if index >= 0:
                found.flags[index], found.end_time[index] = of.flags[message], of.end_time[message]
                if message in of.cache_misses:
                    found.cache_misses[index] = of.cache_misses[message]
        self._copy_reasoning()
        self._copy_requests()
        self._copy_compactions()
        found.model, found.window, found.model_window = of.model, of.window, of.model_window
        found.input_includes_cache, found.size_revisions = of.input_includes_cache, of.size_revisions
        found.system_rows, found.system_bytes, found.tools_bytes = of.system_rows, of.system_bytes, of.tools_bytes
        found.prompts = [replace(each, message=bisect_left(self._included, each.message)) for each in of.prompts]
        found.holds_requests = of.holds_requests

    def _copy_reasoning(self) -> None:
        of, found = self.source.reasoning, self.facts.reasoning
        for message in reversed(of):  # reasoning is reported before the next reply
            index = self._numbers[message]
            if index >= 0 and found.get(index) == of[message]:
                break
            if index >= 0:
                found[index] = of[message]

    def _copy_blocks(self) -> set[int]:
        """Copy the new blocks and return their messages."""
        of, found, first = self.source, self.facts, len(self._block_rows)
        for row in range(first, len(of.kind)):
            index = self._numbers[of.block_message[row]]
            self._block_rows.append(found.copy_block(index, of, row) if index >= 0 else -1)
        return set(of.block_message[first:])

    def _copy_records(self) -> set[int]:
        """Copy the new records, and the last one again if it was incomplete; return their messages."""
        of, found = self.source, self.facts
        last = len(found.record_kind) - 1
        if last >= 0 and _record_key(of, last) != _record_key(found, last):
            found.remove_last_record()
        first = len(found.record_kind)
        for row in range(first, len(of.record_kind)):
            message = of.record_message[row]
            index = self._numbers[message] if message >= 0 else -1
            found.add_record(of.record_place[row], of.record_length[row], of.record_kind[row], index)
        return {message for message in of.record_message[first:] if message >= 0}

    def _copy_requests(self) -> None:
        of, found = self.source, self.facts
        for row in range(self._requests, len(of.requests)):
            index = self._numbers[of.request_message[row]]
            if index >= 0:
                found.model = of.models[of.request_model[row]] if of.request_model[row] >= 0 else None
                found.add_request(index, of.requests[row], of.request_time[row])
        self._requests, self._last_usage = len(of.requests), of.requests[-1] if of.requests else self._last_usage

    def _copy_compactions(self) -> None:
        """Copy all compactions and epochs if there is a new one, since they depend on each other."""
        of, end = self.source, self._included[-1] + 1 if self._included else 0
        happened = (len(of.compactions), len(of.epochs), of.epochs[-1], end if self._has_pending_events else -1)
        if happened == self._event_state:
            return
        made, cleared_at = Facts(), [epoch.message for epoch in of.epochs if epoch.cause == "clear"]
        self._has_pending_events = max([-1, *cleared_at, *(each.message - 1 for each in of.compactions)]) >= end
        self._event_state = (*happened[:3], end if self._has_pending_events else -1)
        clears = deque(each for each in cleared_at if each < end and ("clear", each) not in self._undone_events)
        for row, compaction in enumerate(of.compactions):
            if ("micro", row) in self._undone_events or compaction.message > end or self._is_excluded(compaction):
                continue  # on an abandoned branch
            while clears and clears[0] < compaction.message:
                made.begin_epoch(self.number_of(clears.popleft()), "clear")
            made.add_compaction(self._renumber(compaction))
        for message in clears:
            made.begin_epoch(self.number_of(message), "clear")
        self.facts.compactions, self.facts.rewrites, self.facts.epochs = made.compactions, made.rewrites, made.epochs

    def _is_excluded(self, what: Compaction) -> bool:
        return what.kind == "full" and not (what.message < len(self._numbers) and self._numbers[what.message] >= 0)

    def _renumber(self, what: Compaction) -> Compaction:
        """Renumber a compaction for the selected messages."""
        cleared = frozenset(self._block_rows[row] for row in what.cleared_blocks if self._block_rows[row] >= 0)
        prefix = Spans(*(range(self.number_of(each.start), self.number_of(each.stop)) for each in what.prefix.ranges))
        return replace(what, message=self.number_of(what.message), prefix=prefix, cleared_blocks=cleared)


def _record_key(facts: Facts, row: int) -> tuple[int, int, int] | None:
    """Return a record without its message; None if it does not exist."""
    if row >= len(facts.record_kind):
        return None
    return facts.record_place[row], facts.record_length[row], facts.record_kind[row]
