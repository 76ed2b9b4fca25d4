"""Data about a session that all of its replays share: calls, sizes, events, and the summaries that replays insert."""

from __future__ import annotations

from array import array
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from context_tui.compaction.plan import Insert, Plan
from context_tui.lab.replay.amounts import ZERO_AMOUNT, Amount, add_amounts, subtract_amounts, sum_amounts
from context_tui.lab.replay.result import CompactionHandling, ModelCall
from context_tui.lab.replay.tuple_list import TupleList
from context_tui.policies.trigger_points import find_phases
from context_tui.session.blocks import BYTES_PER_TOKEN
from context_tui.session.calls import find_inserted, iterate_calls
from context_tui.session.context import CLEARED_BODIES, Body
from context_tui.session.facts import spans_at
from context_tui.session.session import Content, ContentOverlay, Session
from context_tui.session.token_factors import is_other_conversation, is_recorded_reply
from context_tui.session.values import Kind, MessageFlag, Role
from context_tui.session.window import Window
from context_tui.tokens.accounting import find_fixed_blocks
from context_tui.tokens.context_size import (
    estimate_summary,
    find_last_summary,
    find_request_after,
    find_summary,
    measure_fixed,
    measure_put_back,
    measure_unaccounted_in_copy,
)
from context_tui.tokens.estimators import bytes4
from context_tui.tokens.measures import build_calibrated_table


class RecordedEvent(NamedTuple):
    """A recorded change to the context that takes effect from message ``at`` on.

    Attributes:
        order: messages with which a new context begins, in prompt order; None if the context continues.
        start: first message appended after those in ``order``.
        cleared: replacements for cleared results, keyed by row.
        rewrote: whether runtimes ignore the sizes that were recorded before it.
        compaction: whether a replay can ignore the event, because the file holds the removed content and no user
            removed it.
        summary: the summary with which a new context begins, or -1.
        silent: whether only the recorded size of the call with reply ``at`` reveals the event. The checkpoint before
            that call precedes the event.
    """

    at: int
    order: Sequence[int] | None = None
    start: int = 0
    cleared: Mapping[int, Body] = {}
    rewrote: bool = False
    compaction: bool = False
    summary: int = -1
    silent: bool = False


class _SummaryContent(ContentOverlay):
    """Content of a session, and of the messages that replays insert."""

    def __init__(self, recorded: Content) -> None:
        super().__init__(recorded)
        self.texts: dict[int, str] = {}

    def blocks(self, message: int) -> list[dict[str, Any]]:
        if message in self.texts:
            return [{"type": "text", "text": self.texts[message]}]
        return self.recorded.blocks(message)


class AppendedContent(NamedTuple):
    """The messages that a session appends to its context, with running totals of their content.

    Attributes:
        is_appended: for each message, whether the session appends it.
        tokens, results, amounts: for each message, the totals before it: tokens (``bytes/4``), results, and amounts.
    """

    is_appended: bytes
    tokens: array[int]
    results: array[int]
    amounts: TupleList[Amount]


class Recording:
    """A session with the data that all of its replays share.

    Attributes:
        facts: the session's facts or, once a replay has inserted a summary, a copy with them after its messages.
        calls: every model call with recorded usage, in order, or every reply if the file records no usage.
        side_calls: numbers of the calls that belong to another conversation; no policy changes them.
        checkpoints: messages before which a runtime may check its trigger, with their phases, in order.
        is_sent: for each message, whether a model ever received it.
        undoable_messages: messages that recorded compactions inserted: summaries, and hints to continue.
        summary_tokens: usual size of a summary in tokens (``bytes/4``); see :func:`.context_size.estimate_summary`.
        table: the calibrated sizes of the session's blocks.
        fixed_sizes: for each call, the calibrated tokens that no policy removes.
        recorded_sizes: for each call, the recorded size of its context in tokens, or None if it is not recorded.
        windows: for each call, the context window.
        put_back: tokens that recorded compactions put back and the file lacks, by the message of their summary.
        first_summary: the summary with which a compacted copy begins, or -1.
    """

    def __init__(self, session: Session) -> None:
        facts, length = session.facts, len(session)
        self.session, self.facts = session, facts
        self.table = build_calibrated_table(facts)
        self.is_sent = bytes(not flags & MessageFlag.NOT_SENT for flags in facts.flags[:length])
        self.events = _find_events(session)
        self.undoable_messages = find_inserted(facts)
        self.calls = TupleList(ModelCall._make, 2, "i")
        for call in iterate_calls(facts, length):
            self.calls.append(call)
        self.side_calls = {number for number, (_, row) in enumerate(self.calls) if is_other_conversation(facts, row)}
        end, answered = self.calls[-1].message if self.calls else -1, {call.message for call in self.calls}
        checkpoints = (message for message in range(end + 1) if self.is_sent[message] or message in answered)
        phases_at = ((message, find_phases(facts, message)) for message in checkpoints)
        self.checkpoints = [(message, phases) for message, phases in phases_at if phases or message in answered]
        self.summary_tokens = estimate_summary(session.context_at())
        self.content = _SummaryContent(session.content)
        self._fixed_blocks = frozenset(find_fixed_blocks(facts))
        self.first_summary = find_last_summary(session.context_at()) if facts.size_basis else -1
        self.put_back = self._measure_put_back(length)
        self._amounts = TupleList(Amount._make, len(ZERO_AMOUNT), "i")  # by message of the session
        for message in range(length):
            self._amounts.append(self.compute_message_amount(message, {}))
        self._appended: dict[CompactionHandling, AppendedContent] = {}
        self._inserted: dict[tuple[Insert, int], list[int]] = {}
        usages = (facts.requests[call.request] if call.request >= 0 else None for call in self.calls)
        self.recorded_sizes = [usage.context or None if usage else None for usage in usages]
        self.fixed_sizes = [*measure_fixed(facts, self.table, (call.message for call in self.calls))]
        self.memo: dict[Any, Any] = {}
        self.windows: list[Window] = [session.window_at(call.message) for call in self.calls]

    def _measure_put_back(self, length: int) -> dict[int, int]:
        facts = self.facts
        if facts.size_basis is not None:
            return {self.first_summary: facts.size_basis.put_back}
        rows = {find_summary(facts, epoch): find_request_after(facts, epoch, length) for epoch in facts.epochs}
        rows = {summary: row for summary, row in rows.items() if summary >= 0 and row >= 0}
        fixed = measure_fixed(facts, self.table, (facts.request_message[row] for row in rows.values()))
        measured = zip(rows.items(), fixed, strict=True)
        return {summary: measure_put_back(facts, row, size, self.table) for (summary, row), size in measured}

    def get_put_back(self, summary: int) -> Amount:
        """Return the amount that the compaction with this summary put back, which is zero for -1."""
        return Amount(0, 0, 0, self.put_back.get(summary, 0))

    @cached_property
    def sizes(self) -> list[int]:
        """Size of the recorded context in tokens at each call, estimated where no usage was recorded."""
        if None not in self.recorded_sizes:
            return [*filter(None, self.recorded_sizes)]
        amounts, requests = self.recorded_amounts, [amount.requests for amount in self.recorded_amounts]
        unaccounted = measure_unaccounted_in_copy(self.session.facts, self.table, requests)
        calls = zip(self.recorded_sizes, amounts, self.fixed_sizes, unaccounted, strict=True)
        return [size or fixed + amount.total + more for size, amount, fixed, more in calls]

    @cached_property
    def recorded_amounts(self) -> list[Amount]:
        """Amount of content in the recorded context at each call."""
        return [*self._iter_recorded_amounts()]

    def _iter_recorded_amounts(self) -> Iterator[Amount]:
        sums = self.get_appended("keep").amounts
        amount, end, events = self.get_put_back(self.first_summary), 0, iter(self.events)
        cleared: dict[int, Body] = {}
        owner, prefix, start = self.facts.block_message, frozenset[int](), 0
        event = next(events, None)
        for call in self.calls:
            while event is not None and event.at <= call.message:
                amount, end = add_amounts(amount, subtract_amounts(sums[event.at], sums[end])), event.at
                if event.order is not None:
                    amount = add_amounts(self.compute_amount(event.order, cleared), self.get_put_back(event.summary))
                    prefix = frozenset(event.order)
                    start = event.start
                in_context = (row for row in event.cleared if start <= owner[row] < end or owner[row] in prefix)
                for row in in_context:
                    if row not in cleared:
                        amount = subtract_amounts(amount, self.count_block_amount(row))
                        amount = add_amounts(amount, self.count_block_amount(row, event.cleared[row]))
                cleared.update(event.cleared)
                event = next(events, None)
            amount, end = add_amounts(amount, subtract_amounts(sums[call.message], sums[end])), call.message
            yield amount

    def get_appended(self, recorded: CompactionHandling) -> AppendedContent:
        """Return the messages that the session appends, with recorded compactions kept or ignored."""
        if recorded not in self._appended:
            facts, result = self.facts, int(Kind.TOOL_RESULT)
            undone = self.undoable_messages if recorded == "ignore" else frozenset[int]()
            is_appended = bytes(is_sent and message not in undone for message, is_sent in enumerate(self.is_sent))
            amounts = TupleList(Amount._make, len(ZERO_AMOUNT))
            tokens, results, amount = array("q", [0]), array("q", [0]), ZERO_AMOUNT
            amounts.append(amount)
            for message, is_new in enumerate(is_appended):
                rows = [*facts.blocks_of(message)] if is_new else []
                tokens.append(tokens[-1] + sum(bytes4(facts, row) for row in rows))
                results.append(results[-1] + sum(facts.kind[row] == result for row in rows))
                amount = add_amounts(amount, self.get_message_amount(message)) if is_new else amount
                amounts.append(amount)
            self._appended[recorded] = AppendedContent(is_appended, tokens, results, amounts)
        return self._appended[recorded]

    def get_message_amount(self, message: int) -> Amount:
        """Return the amount of content in a recorded or inserted message."""
        is_recorded = message < len(self.is_sent)
        return self._amounts[message] if is_recorded else self.compute_message_amount(message, {})

    def count_block_amount(self, row: int, body: Body | None = None) -> Amount:
        """Return the amount of content in a block, or in the body that replaces it; blocks that always stay have none.

        The calibrated size of a reply's call includes the overhead of its request.
        """
        if row in self._fixed_blocks:
            return ZERO_AMOUNT
        if self.facts.block_message[row] >= len(self.is_sent):
            tokens = body.tokens if body is not None else bytes4(self.facts, row)
            return Amount(0, 0, self.table.convert_estimate(tokens))
        return Amount(self.table.count_body(row, body) if body is not None else self.table.blocks[row], 0, 0)

    def compute_message_amount(self, message: int, replaced: Mapping[int, Body]) -> Amount:
        """Return the amount of content in a message, with the bodies of some blocks *replaced*."""
        amount = Amount(0, int(message < len(self.is_sent) and is_recorded_reply(self.session.facts, message)), 0)
        for row in self.facts.blocks_of(message):
            amount = add_amounts(amount, self.count_block_amount(row, replaced.get(row)))
        return amount

    def compute_amount(self, order: Iterable[int], replaced: Mapping[int, Body]) -> Amount:
        """Return the amount of content in several messages, with the bodies of some blocks *replaced*."""
        owner = self.facts.block_message
        changed = {owner[row] for row in replaced}
        return sum_amounts(
            self.compute_message_amount(message, replaced) if message in changed else self.get_message_amount(message)
            for message in order
        )

    def count_restored_tokens(self, plan: Plan) -> int:
        """Return the size of the content that the agent puts back after a plan's summary, in tokens (``bytes/4``)."""
        factor = self.table.get_factor(Kind.TEXT)
        return round(plan.estimate_restored(self.table.convert_estimate) / factor) if factor else 0

    def insert_message(self, insert: Insert, summary_tokens: int, messages: Container[int]) -> int:
        """Return the number of a message for *insert* that is not in *messages*, adding a message if there is none.

        A summary is *summary_tokens* long.
        """
        inserted = self._inserted.setdefault((insert, summary_tokens), [])
        number = next((number for number in inserted if number not in messages), None)
        if number is None:
            if self.facts is self.session.facts:
                self.facts = self.facts.copy()
            role = Role.ASSISTANT if insert.role == "assistant" else Role.USER
            number = self.facts.add_message(role, MessageFlag.SUMMARY if insert.holds_summary else 0)
            text = insert.format_text("." * summary_tokens * BYTES_PER_TOKEN)
            self.facts.add_block(number, {"type": "text", "text": text}, injected=not insert.holds_summary)
            inserted.append(number)
            self.content.texts[number] = insert.format_text("(the summary is not written)")
        return number


def _find_events(session: Session) -> list[RecordedEvent]:
    facts, length = session.facts, len(session)
    events = list[RecordedEvent]()
    for epoch in facts.epochs:
        if epoch.cause != "start":
            at = max(epoch.message + 1, epoch.start)
            if at <= length:
                undoable = epoch.cause == "compaction" and epoch.message > 0
                summary = find_summary(facts, epoch) if epoch.cause == "compaction" else -1
                event = RecordedEvent(at, spans_at(facts, at), epoch.start, compaction=undoable, summary=summary)
                events.append(event)
    for compaction in facts.compactions:
        if compaction.is_rewrite and compaction.message <= length:
            cleared = dict.fromkeys(sorted(compaction.cleared_blocks), CLEARED_BODIES["recorded"])
            events.append(RecordedEvent(compaction.message, cleared=cleared, rewrote=True, compaction=True))
    for drop in session.drops:
        if drop.cleared_blocks and drop.message < length:
            cleared = dict.fromkeys(drop.cleared_blocks, CLEARED_BODIES["inferred"])
            events.append(RecordedEvent(drop.message, cleared=cleared, compaction=True, silent=True))
    return sorted(events, key=lambda event: (event.at, event.silent, event.order is None))
