"""Selection of facts without some of their messages, for the current branch or an abandoned one."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Collection
from dataclasses import replace

from context_tui.session.facts import Compaction, Facts, Usage
from context_tui.session.values import Role, Spans

_SESSION_MEMBERS = (
    *("model", "window", "model_window", "input_includes_cache", "holds_requests", "has_side_requests"),
    *("size_revisions", "system_records", "system_bytes", "tools_bytes", "agent", "size_basis"),
)
"""Facts about the session as a whole, which are the same in every selection."""


class Selection:
    """Facts without the *excluded* messages. Records of excluded messages still count as message records.

    ``facts`` is extended in place as the *source* grows.
    """

    def __init__(
        self, source: Facts, excluded: Collection[int], undone_events: Collection[tuple[str, int]] = ()
    ) -> None:
        """Select from the facts so far; :meth:`update` includes the messages added to the source later.

        *undone_events* are events on abandoned branches: ``micro`` with the row of a compaction, or ``clear`` with the
        first message of an epoch.
        """
        self.source, self.facts = source, Facts()
        self._excluded, self._undone_events = excluded, undone_events
        self._included = array("i")
        self._numbers = array("i")  # by message; -1: excluded
        self._block_rows = array("i")  # by block; -1: excluded
        self._requests, self._last_usage = 0, Usage()
        self._event_state: tuple[object, ...] = ()
        self._has_pending_events = False  # whether an event follows all included messages
        self.facts.problems = source.problems
        self.facts.shared_records = source.shared_records  # shared records are the same in every selection
        self.update()

    def is_current(self) -> bool:
        """Return whether the source was only appended to, with no late request inserted before known ones."""
        return not self._requests or self.source.requests[self._requests - 1] is self._last_usage

    def get_number(self, message: int) -> int:
        """Return a message's number in the selection. For an excluded message, return that of the next one."""
        return bisect_left(self._included, message)

    def update(self) -> None:
        """Add the facts that were added to the source since the last update."""
        first, source, facts = len(self._numbers), self.source, self.facts
        for message in range(first, len(source)):
            is_excluded = message in self._excluded
            self._numbers.append(-1 if is_excluded else len(facts))
            if is_excluded:
                continue
            self._included.append(message)
            index = facts.add_message(Role(source.role[message]), source.flags[message], source.time[message])
            facts.end_time[index] = source.end_time[message]
            if message in source.shared_record:
                facts.shared_record[index] = source.shared_record[message]
            if message in source.shared_ordinal:
                facts.shared_ordinal[index] = source.shared_ordinal[message]
        for message in {*self._copy_blocks(), *self._copy_records()}:
            index = self._numbers[message]
            if index >= 0:
                facts.flags[index], facts.end_time[index] = source.flags[message], source.end_time[message]
                if message in source.cache_misses:
                    facts.cache_misses[index] = source.cache_misses[message]
        self._copy_reasoning()
        self._copy_requests()
        self._copy_compactions()
        facts.prompts = [prompt._replace(message=self.get_number(prompt.message)) for prompt in source.prompts]
        for name in _SESSION_MEMBERS:
            setattr(facts, name, getattr(source, name))

    def _copy_reasoning(self) -> None:
        source, facts = self.source.reasoning, self.facts.reasoning
        for message in reversed(source):  # reasoning is reported before the next reply
            index = self._numbers[message]
            if index >= 0 and facts.get(index) == source[message]:
                break
            if index >= 0:
                facts[index] = source[message]

    def _copy_blocks(self) -> set[int]:
        source, facts, first = self.source, self.facts, len(self._block_rows)
        for row in range(first, len(source.kind)):
            index = self._numbers[source.block_message[row]]
            self._block_rows.append(facts.copy_block(index, source, row) if index >= 0 else -1)
        return set(source.block_message[first:])

    def _copy_records(self) -> set[int]:
        source, facts = self.source, self.facts
        last = len(facts.record_kind) - 1
        if last >= 0 and _get_record_key(source, last) != _get_record_key(facts, last):
            facts.remove_last_record()
        first = len(facts.record_kind)
        for row in range(first, len(source.record_kind)):
            message = source.record_message[row]
            index = self._numbers[message] if message >= 0 else -1
            facts.add_record(source.record_place[row], source.record_length[row], source.record_kind[row], index)
        return {message for message in source.record_message[first:] if message >= 0}

    def _copy_requests(self) -> None:
        source, facts = self.source, self.facts
        for row in range(self._requests, len(source.requests)):
            if (index := self._numbers[source.request_message[row]]) >= 0:
                facts.model = source.models[source.request_model[row]] if source.request_model[row] >= 0 else None
                facts.add_request(index, source.requests[row], source.request_time[row])
        self._requests = len(source.requests)
        self._last_usage = source.requests[-1] if source.requests else self._last_usage

    def _copy_compactions(self) -> None:
        """Copy all compactions and epochs if there is a new one, because they depend on each other."""
        source, end = self.source, self._included[-1] + 1 if self._included else 0
        newest_trigger = source.compactions[-1].trigger if source.compactions else None  # may be recorded later
        known_events = len(source.compactions), len(source.epochs), source.epochs[-1], newest_trigger
        if (*known_events, end if self._has_pending_events else -1) == self._event_state:
            return
        facts, cleared_at = Facts(), [epoch.message for epoch in source.epochs if epoch.cause == "clear"]
        self._has_pending_events = max([-1, *cleared_at, *(each.message - 1 for each in source.compactions)]) >= end
        self._event_state = *known_events, end if self._has_pending_events else -1
        clears = deque(each for each in cleared_at if each < end and ("clear", each) not in self._undone_events)
        for row, compaction in enumerate(source.compactions):
            at, numbers = compaction.message, self._numbers
            is_excluded = compaction.kind == "full" and (at >= len(numbers) or numbers[at] < 0)
            if ("micro", row) in self._undone_events or at > end or is_excluded:
                continue  # on an abandoned branch
            while clears and clears[0] < compaction.message:
                facts.begin_epoch(self.get_number(clears.popleft()), "clear")
            facts.add_compaction(self._renumber(compaction))
        for message in clears:
            facts.begin_epoch(self.get_number(message), "clear")
        self.facts.compactions, self.facts.rewrites, self.facts.epochs = facts.compactions, facts.rewrites, facts.epochs

    def _renumber(self, compaction: Compaction) -> Compaction:
        cleared = frozenset(self._block_rows[row] for row in compaction.cleared_blocks if self._block_rows[row] >= 0)
        ranges = compaction.prefix.ranges
        prefix = Spans(*(range(self.get_number(span.start), self.get_number(span.stop)) for span in ranges))
        return replace(compaction, message=self.get_number(compaction.message), prefix=prefix, cleared_blocks=cleared)


def _get_record_key(facts: Facts, row: int) -> tuple[int, int, int] | None:
    if row >= len(facts.record_kind):
        return None
    return facts.record_place[row], facts.record_length[row], facts.record_kind[row]
