"""The history that a runtime with a policy would have: messages, replaced bodies, and their sizes."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress, islice
from typing import Any

from context_tui.compaction.apply import iterate_result_entries
from context_tui.compaction.changes import collect_bodies
from context_tui.compaction.plan import Insert, Plan
from context_tui.lab.replay.amounts import ZERO_AMOUNT, Amount, add_amounts, subtract_amounts, sum_amounts
from context_tui.lab.replay.recording import RecordedEvent, Recording
from context_tui.lab.replay.result import CompactionHandling, find_changed_rows
from context_tui.session.context import Body, Context
from context_tui.session.values import Kind, Role, Spans
from context_tui.tokens.context_index import ContextIndex, index_context
from context_tui.tokens.estimators import Images, bytes4, count_images, count_message_tokens
from context_tui.tokens.running_sizes import PastReasoning


class MessageOrder:
    """The order of a history until its next rearrangement: an array that grows, or at the end perhaps spans."""

    __slots__ = ("numbers",)

    def __init__(self, numbers: array[int]) -> None:
        self.numbers: array[int] | Spans = numbers

    def finish(self) -> None:
        """Store the numbers as spans if that takes less memory; none is appended any more."""
        spans = Spans.from_numbers(self.numbers)
        if len(spans.ranges) * 50 < len(spans):  # a range with its numbers takes as much as 50 numbers of an array
            self.numbers = spans


class OrderPrefix(Sequence[int]):
    """A read-only view of the numbers that an order has now; numbers appended later are not part of it."""

    __slots__ = ("length", "shared")

    def __init__(self, shared: MessageOrder, length: int) -> None:
        self.shared, self.length = shared, length

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[int]:
        return islice(self.shared.numbers, self.length)

    def __getitem__(self, place: Any) -> Any:
        numbers, places = self.shared.numbers, range(self.length)[place]
        return [*map(numbers.__getitem__, places)] if isinstance(places, range) else numbers[places]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(int.__eq__, self, other))

    __hash__ = None  # type: ignore[assignment]


class FirstRemovals(Mapping[int, int]):
    """Recorded block rows mapped to the message before which their content was first removed, in one array."""

    def __init__(self, block_count: int) -> None:
        self._messages = array("i", [-1]) * block_count

    def __len__(self) -> int:
        return len(self._messages) - self._messages.count(-1)

    def __iter__(self) -> Iterator[int]:
        return (row for row, message in enumerate(self._messages) if message >= 0)

    def __getitem__(self, row: int) -> int:
        message = self._messages[row] if 0 <= row < len(self._messages) else -1
        if message < 0:
            raise KeyError(row)
        return message

    def add(self, rows: Iterable[int], message: int) -> None:
        """Note that blocks were removed before *message*. Blocks of summaries that a policy inserted are ignored."""
        messages, length = self._messages, len(self._messages)
        for row in rows:
            if row < length and messages[row] < 0:
                messages[row] = message


class VersionedBodies(dict[int, Body]):
    """Replacements for block bodies, keyed by row, which may change but not disappear; snapshots keep old states."""

    def __init__(self, bodies: Mapping[int, Body] | None = None) -> None:
        super().__init__(bodies or {})
        self._changes = 0
        self.changed_at = dict.fromkeys(self, 0)  # by row: number of its last change
        self.earlier_bodies: dict[int, list[tuple[int, Body]]] = {}  # by row: those that were replaced

    def replace_bodies(self, bodies: Mapping[int, Body]) -> None:
        """Replace the bodies of these blocks, or change their earlier replacements."""
        self._changes += 1
        for row in bodies.keys() & self.keys():
            self.earlier_bodies.setdefault(row, []).append((self.changed_at[row], self[row]))
        self.changed_at.update(dict.fromkeys(bodies, self._changes))
        self.update(bodies)

    def take_snapshot(self) -> Mapping[int, Body]:
        """Return a view of the current replacements that later changes do not affect."""
        return BodiesSnapshot(self, self._changes, len(self))


class BodiesSnapshot(Mapping[int, Body]):
    """Read-only view of the replaced bodies as they were after a number of changes."""

    __slots__ = ("changes", "length", "versions")

    def __init__(self, versions: VersionedBodies, changes: int, length: int) -> None:
        self.versions, self.changes, self.length = versions, changes, length

    @property
    def version(self) -> tuple[int, int]:
        """Two values that identify the bodies of the snapshot: the id of the table, and its number of changes."""
        return id(self.versions), self.changes

    def get(self, row: int, default: object = None) -> Body | None:  # type: ignore[override]
        """Return the body in place of a block; None if the block is as recorded."""
        body = self.versions.get(row)
        if body is None or self.versions.changed_at[row] <= self.changes:
            return body
        earlier_bodies = reversed(self.versions.earlier_bodies.get(row, ()))
        return next((earlier for change, earlier in earlier_bodies if change <= self.changes), None)

    def __getitem__(self, row: int) -> Body:
        body = self.get(row)
        if body is None:
            raise KeyError(row)
        return body

    def __contains__(self, row: object) -> bool:
        return isinstance(row, int) and self.get(row) is not None

    def __iter__(self) -> Iterator[int]:
        return islice(self.versions, self.length)  # a dict keeps the order of insertion

    def __len__(self) -> int:
        return self.length


_ASSISTANT = int(Role.ASSISTANT)


class ReplayHistory:
    """The messages that a policy's runtime would have, in prompt order, as the recording proceeds.

    Attributes:
        order: messages before ``end_message``, in prompt order.
        tokens_before: estimated tokens that the recording appends before each message.
        replaced: replacements of block bodies, keyed by block row.
        removed_by_policy, removed_by_recording: block rows mapped to the message before which the content was removed.
        estimate: estimated tokens (``bytes/4``).
        results: number of tool results, including cleared ones.
        excess: amount of content in the history minus that in the recorded context.
        floor: message at which the context was last rewritten; sizes recorded before it no longer apply.
        generation: number of changes other than appended messages.
        changed_from: position of the first message that differs from the last call, or None if none does.
    """

    def __init__(self, recording: Recording, recorded: CompactionHandling) -> None:
        self.recording, self.recorded = recording, recorded
        self.order = array("i")  # replayed contexts hold many orders, and a list takes nine times as much
        self._shared_order = MessageOrder(self.order)  # that of the contexts
        self.end_message = 0
        self.replaced = VersionedBodies()
        self.estimate = self.results = 0
        self.excess: Amount = ZERO_AMOUNT
        self.floor = 0
        self.generation = 0
        self.changed_from: int | None = None
        self.removed_by_policy = FirstRemovals(recording.session.block_count)
        self.removed_by_recording = FirstRemovals(recording.session.block_count)
        self._dropped: set[int] = set()
        self._epoch_start = 0
        self._cleared: dict[int, Body] = {}  # by the recording, including earlier contexts
        # The summary of the last compaction; -1 once a policy removed it, and with it the tokens that were put back.
        self._summary = recording.first_summary
        self._recorded_from = 0  # first message appended to the recorded context
        self._recorded_before = frozenset[int]()  # messages with which the recorded context began
        self._amounts: dict[int, Amount] = {}  # by message with replaced bodies
        self._reordered_length = 0  # number of messages at the start of the order that may be rearranged
        # The amount of the history less that of the appended messages.
        self._non_appended: Amount = recording.get_put_back(recording.first_summary)
        self._split_cache = (0, 0, 0), (ZERO_AMOUNT, ZERO_AMOUNT)  # last key and value
        self._position_cache: tuple[dict[int, int], int] = {}, 0  # positions, and the number of indexed messages
        self._reasoning_cache = 0, 0, PastReasoning(recording.facts)  # generation, number of messages, their reasoning
        self._image_cache = 0, 0, Images()  # generation, number of image rows passed, images among them
        self._context: Context | None = None  # the last context that was built
        self._context_index: ContextIndex | None = None  # an index that grows with the history
        self._appended = recording.get_appended(recorded)
        self.tokens_before = self._appended.tokens

    def append_until(self, at: int) -> None:
        """Append the recorded messages up to but not including message *at*."""
        first, (is_appended, tokens, results, _) = self.end_message, self._appended
        if at <= first:
            return
        # Extended in place: contexts hold prefixes of this array.
        self.order.extend(compress(range(first, at), is_appended[first:at]))
        self.estimate += tokens[at] - tokens[first]
        self.results += results[at] - results[first]
        self.end_message = at

    def build_context(self) -> Context:
        """Build the context that the policy sees at this point."""
        self._clear_context_memo()
        facts, content = self.recording.facts, self.recording.content
        order, replaced = OrderPrefix(self._shared_order, len(self.order)), self.replaced.take_snapshot()
        context = Context(
            facts, self.end_message, order, self._epoch_start, replaced, last_rewrite=self.floor, content=content
        )
        if self._context_index is None:
            self._context_index = index_context(context)
        else:
            self._context_index.extend(context, self.order, self.replaced)
        self._context = context
        return context

    def _set_order(self, order: Iterable[int]) -> None:
        self._shared_order.finish()
        self.order = array("i", order)
        self._shared_order = MessageOrder(self.order)

    def _clear_context_memo(self) -> None:
        """Forget the last context and clear its cached results, which would keep the index in memory."""
        if self._context is not None:
            self._context.memo.clear()
            self._context = None

    def count_past_reasoning(self) -> int:
        """Return the tokens that the runtime counts for the model's hidden reasoning in finished turns."""
        if not self.recording.facts.reasoning:
            return 0
        generation, length, reasoning = self._reasoning_cache
        if generation != self.generation:
            length, reasoning = 0, PastReasoning(self.recording.facts)
        reasoning.update(self.order[length:])
        self._reasoning_cache = self.generation, len(self.order), reasoning
        return reasoning.tokens

    def count_images(self) -> Images:
        """Count the images in the history, without those in blocks whose body is replaced."""
        facts = self.recording.facts
        if not facts.image_rows:
            return Images()
        generation, seen, images = self._image_cache
        if generation != self.generation:
            seen, images = 0, Images()
        owner, positions, rows = facts.block_message, self._positions, list[int]()
        while seen < len(facts.image_rows) and owner[facts.image_rows[seen]] < self.end_message:
            rows.append(facts.image_rows[seen])
            seen += 1
        new = count_images(facts, (row for row in rows if owner[row] in positions and row not in self.replaced))
        images = Images(images.blocks + new.blocks, images.tokens + new.tokens)
        self._image_cache = self.generation, seen, images
        return images

    def find_last_assistant(self) -> int:
        """Return the last assistant message in prompt order, or -1 if there is none."""
        role = self.recording.facts.role
        return next((message for message in reversed(self.order) if role[message] == _ASSISTANT), -1)

    # Changes by the recording

    def update(self, event: RecordedEvent) -> bool:
        """Append messages up to *event* and apply it, or return False if it is a compaction that is ignored."""
        self.append_until(event.at)
        takes_effect = self.recorded == "keep" or not event.compaction
        if event.order is not None:
            self._start_epoch(event, takes_effect)
        for row, body in event.cleared.items():
            self._clear_result(event, row, body, takes_effect)
        if takes_effect and event.rewrote:
            self.floor = max(self.floor, event.at)
        return takes_effect

    def _start_epoch(self, event: RecordedEvent, takes_effect: bool) -> None:
        recording, order = self.recording, list(event.order or ())
        if takes_effect:
            present = set(order)
            removed_rows = self._iter_rows(message for message in self.order if message not in present)
            self.removed_by_recording.add(removed_rows, event.at)
            self._set_order(message for message in order if message not in self._dropped)
            owner = recording.facts.block_message
            if any(owner[row] not in present for row in self.replaced):
                bodies = {row: body for row, body in self.replaced.items() if owner[row] in present}
                self.replaced = VersionedBodies(bodies)
            self._amounts = {message: amount for message, amount in self._amounts.items() if message in present}
            # A new context may bring back messages whose results were cleared while they were not in the context.
            present.intersection_update(self.order)
            rows = (row for row in self._cleared if owner[row] in present and row not in self.replaced)
            if missing := {row: self._cleared[row] for row in rows}:
                self._replace_bodies(missing)
            self._epoch_start = self.floor = event.start
            self._summary = event.summary if event.summary in present else -1
            self.estimate = self._estimate_tokens()
            self._mark_changed(0)
            self._recount()
        self._recorded_from, self._recorded_before = event.start, frozenset(order)
        content = recording.compute_amount(order, self._cleared)
        self.excess = subtract_amounts(self.amount, add_amounts(content, recording.get_put_back(event.summary)))

    def compute_event_shifts(self, event: RecordedEvent, plans: Sequence[Plan]) -> list[Amount]:
        """Return, for each plan, how *event* would shift :attr:`excess` without that plan and those after it.

        *plans* are the last applied plans. Without a plan, the event also clears results that the plan removed.
        """
        facts, count = self.recording.facts, self.recording.count_block_amount
        rows = {row: body for row, body in event.cleared.items() if self._is_recorded_whole(row, event)}
        amounts = {
            row: count(row, self.replaced.get(row)) for row in rows if facts.block_message[row] not in self._dropped
        }
        recorded_loss = sum_amounts(self._count_loss(row, body) for row, body in rows.items())
        shifts: list[Amount] = []
        for plan in reversed(plans):
            for row in rows.keys() & find_changed_rows(plan):
                amounts[row] = count(row, plan.context.replacements.get(row))
            losses = (subtract_amounts(now, count(row, rows[row])) for row, now in amounts.items())
            loss = sum_amounts(losses)
            shifts.append(subtract_amounts(recorded_loss, loss))
        return shifts[::-1]

    def _is_recorded_whole(self, row: int, event: RecordedEvent) -> bool:
        owner = self.recording.facts.block_message[row]
        in_context = self._recorded_from <= owner < event.at or owner in self._recorded_before
        return in_context and row not in self._cleared

    def _count_loss(self, row: int, body: Body) -> Amount:
        count = self.recording.count_block_amount
        return subtract_amounts(count(row), count(row, body))

    def _clear_result(self, event: RecordedEvent, row: int, body: Body, takes_effect: bool) -> None:
        facts = self.recording.facts
        owner = facts.block_message[row]
        was_whole = self._is_recorded_whole(row, event)
        self._cleared[row] = body
        if not was_whole:
            return
        if not takes_effect or owner in self._dropped:
            self.excess = add_amounts(self.excess, self._count_loss(row, body))
        elif (position := self._positions.get(owner)) is not None:
            body_before = self.replaced.get(row)
            self._replace_bodies({row: body})
            self.estimate += body.tokens - (body_before.tokens if body_before else bytes4(facts, row))
            # The recorded context loses the block as recorded, this history the block as it was here.
            before, whole = (self.recording.count_block_amount(row, each) for each in (body_before, None))
            self.excess = add_amounts(self.excess, subtract_amounts(whole, before))
            self.removed_by_recording.add((row,), event.at)
            self._mark_changed(position)

    # Changes by the policy

    def apply_plan(self, plan: Plan, summary_tokens: int) -> int:
        """Apply *plan* to the history, and return the position of the first changed message."""
        facts = self.recording.facts
        bodies = collect_bodies(plan.changes)
        first_changed = len(self.order)
        if bodies:
            owner, replaced = facts.block_message, self.replaced
            positions = self._context_index.position_of if self._context_index is not None else self._positions
            for row, body in bodies.items():
                first_changed = min(first_changed, positions.get(owner[row], first_changed))
                earlier_body = replaced.get(row)
                self.estimate += body.tokens - (earlier_body.tokens if earlier_body else bytes4(facts, row))
            self.excess = add_amounts(self.excess, self._replace_bodies(bodies))
            self.removed_by_policy.add(bodies, self.end_message)
        if plan.dropped_ranges or plan.inserts:
            first_changed = min(first_changed, self._reorder_messages(plan, summary_tokens))
        self.floor = self.end_message
        self._mark_changed(first_changed)
        return first_changed

    def _reorder_messages(self, plan: Plan, summary_tokens: int) -> int:
        recording = self.recording
        earlier_messages = set(self.order)
        if plan.restoration is not None:
            summary_tokens += recording.count_restored_tokens(plan)
        entries = [
            recording.insert_message(entry, summary_tokens, earlier_messages) if isinstance(entry, Insert) else entry
            for entry in iterate_result_entries(plan)
            if isinstance(entry, Insert) or entry in earlier_messages
        ]
        planned = set(plan.context.order)
        order = entries + [message for message in self.order if message not in planned]
        removed = earlier_messages.difference(order)
        inserted = [message for message in order if message not in earlier_messages]
        changed = add_amounts(recording.compute_amount(inserted, {}), self.excess)
        self.excess = subtract_amounts(changed, recording.compute_amount(removed, self.replaced))
        if self._summary in removed:
            self.excess, self._summary = subtract_amounts(self.excess, self.recording.get_put_back(self._summary)), -1
        pairs = enumerate(zip(order, self.order, strict=False))
        first_changed = next((at for at, (a, b) in pairs if a != b), len(order))
        self.removed_by_policy.add(self._iter_rows(removed), self.end_message)
        self._dropped |= removed
        self._set_order(order)
        self._epoch_start = self.end_message
        self._recount()
        self.estimate = self._estimate_tokens()
        return first_changed

    @property
    def amount(self) -> Amount:
        """Amount of content in the history."""
        return add_amounts(self._appended.amounts[self.end_message], self._non_appended)

    def split_amount(self, position: int) -> tuple[Amount, Amount]:
        """Return the amounts of content before *position* and from it on."""
        key = self.generation, len(self.order), position
        if self._split_cache[0] != key:
            put_back = self.recording.get_put_back(self._summary)
            listed = subtract_amounts(self.amount, put_back)
            if position > len(self.order) // 2:
                after = self._sum_span(position, len(self.order))
                before = subtract_amounts(listed, after)
            else:
                before = self._sum_span(0, position)
                after = subtract_amounts(listed, before)
            if self._summary >= 0 and self._positions[self._summary] < position:
                before = add_amounts(before, put_back)
            else:
                after = add_amounts(after, put_back)
            self._split_cache = key, (before, after)
        return self._split_cache[1]

    def _sum_span(self, first: int, end: int) -> Amount:
        order, amounts, amount = self.order[first:end], self._amounts, self.recording.get_message_amount
        if first < self._reordered_length or not order:
            return sum_amounts(amounts[message] if message in amounts else amount(message) for message in order)
        prefix_sums = self._appended.amounts
        total = subtract_amounts(prefix_sums[order[-1] + 1], prefix_sums[order[0]])
        for message in order:
            if message in amounts:
                total = add_amounts(total, subtract_amounts(amounts[message], amount(message)))
        return total

    @property
    def _positions(self) -> dict[int, int]:
        positions, start = self._position_cache
        if start < len(self.order):
            positions.update(zip(self.order[start:], range(start, len(self.order)), strict=True))
            self._position_cache = positions, len(self.order)
        return positions

    def _replace_bodies(self, bodies: Mapping[int, Body]) -> Amount:
        self._clear_context_memo()
        if self._context_index is not None and not self._context_index.replace_bodies(bodies, self.replaced):
            self._context_index = None
        self.replaced.replace_bodies(bodies)
        added_amount = ZERO_AMOUNT
        for message in {self.recording.facts.block_message[row] for row in bodies}:
            before = self._amounts.get(message) or self.recording.get_message_amount(message)
            after = self._amounts[message] = self.recording.compute_message_amount(message, self.replaced)
            added_amount = add_amounts(added_amount, subtract_amounts(after, before))
        self._non_appended = add_amounts(self._non_appended, added_amount)
        return added_amount

    def _recount(self) -> None:
        kind, result = self.recording.facts.kind, int(Kind.TOOL_RESULT)
        self.results = sum(kind[row] == result for row in self._iter_rows(self.order))
        self._reordered_length, self._position_cache = len(self.order), ({}, 0)
        everything = add_amounts(self._sum_span(0, len(self.order)), self.recording.get_put_back(self._summary))
        self._non_appended = subtract_amounts(everything, self._appended.amounts[self.end_message])
        self._clear_context_memo()
        self._context_index = None

    def _estimate_tokens(self) -> int:
        facts, owner = self.recording.facts, self.recording.facts.block_message
        messages = set(self.order)
        tokens = sum(count_message_tokens(facts, message) for message in self.order)
        bodies = [(row, body) for row, body in self.replaced.items() if owner[row] in messages]
        return tokens + sum(body.tokens - bytes4(facts, row) for row, body in bodies)

    def _mark_changed(self, position: int) -> None:
        self.generation += 1
        self.changed_from = position if self.changed_from is None else min(self.changed_from, position)

    def _iter_rows(self, messages: Iterable[int]) -> Iterator[int]:
        first, following = self.recording.facts.first_block, self.recording.facts.block_next
        for message in messages:
            row = first[message]
            while row >= 0:
                yield row
                row = following[row]
