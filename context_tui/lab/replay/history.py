"""The history of a runtime along a recording: what it holds at a point, after what it did itself before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress

from context_tui.compaction.apply import order_after
from context_tui.compaction.changes import bodies_of
from context_tui.compaction.plan import Insert, Plan
from context_tui.lab.replay.amounts import NOTHING, Amount, minus, of_block, of_body, plus, total
from context_tui.lab.replay.recording import Event, Recording
from context_tui.lab.replay.result import Recorded, rows_of
from context_tui.lab.replay.snapshots import Beginning, Replaced
from context_tui.session.context import Body, Context
from context_tui.session.values import Kind, Role
from context_tui.tokens.context_index import ContextIndex, index_context
from context_tui.tokens.estimators import bytes4, count_message_tokens
from context_tui.tokens.running_sizes import PastReasoning

_ASSISTANT = int(Role.ASSISTANT)


class History:
    """Messages in prompt order with the bodies that stand in place of blocks, grown along a recording.

    Attributes:
        order: messages before ``at``, in prompt order.
        at: the message up to which it has grown.
        sums: estimated tokens of what the recording appends before each message.
        replaced: block rows to the bodies in their place.
        gone: block row to the message before which the policy took its content; ``recorded_gone`` the recording.
        estimate: estimated tokens (``bytes/4``).
        results: how many tool results it holds, cleared ones too.
        more: what it holds more than the recorded context does (less: negative).
        floor: the message before which recorded sizes no longer hold for a runtime that forgets them at a rewrite.
        generation: how often it was changed by more than growing.
        changed_from: position of the first message that is another one than at the last call; None: none is.
    """

    def __init__(self, recording: Recording, recorded: Recorded) -> None:
        self.recording, self.recorded = recording, recorded
        self.order: list[int] = []
        self.at = 0
        self.replaced = Replaced()
        self.gone: dict[int, int] = {}
        self.recorded_gone: dict[int, int] = {}
        self.estimate = self.results = 0
        self.more: Amount = NOTHING
        self.floor = 0
        self.generation = 0
        self.changed_from: int | None = None
        self._rows = len(recording.session.facts.kind)
        self._dropped: set[int] = set()
        self._epoch_start = 0
        self._cleared: dict[int, Body] = {}  # by the recording, also of contexts that came before
        self._recorded_from = 0  # the recorded context are the messages from here on,
        self._recorded_before = frozenset[int]()  # and these
        self._amounts: dict[int, Amount] = {}  # of messages with other bodies
        self._anew = 0  # messages of the order that were not appended one after another
        self._besides: Amount = NOTHING  # what it holds besides all that was appended, by other bodies and messages
        self._split = (0, 0, 0), (NOTHING, NOTHING)  # what was asked for last, and the answer
        self._where: tuple[dict[int, int], int] = {}, 0  # positions of so many messages
        self._reasoned = 0, 0, PastReasoning(recording.facts)  # the generation, so many messages, and what they hold
        self._context: Context | None = None  # that was given away last,
        self._sums: ContextIndex | None = None  # and its sums, which go on with the history
        self._appended = recording.appended(recorded)
        self.sums = self._appended.tokens

    def grow(self, at: int) -> None:
        """Append what was recorded up to message *at*."""
        first, (there, tokens, results, _) = self.at, self._appended
        if at <= first:
            return
        self.order += compress(range(first, at), there[first:at])  # the same list, of which contexts have the beginning
        self.estimate += tokens[at] - tokens[first]
        self.results += results[at] - results[first]
        self.at = at

    def context(self) -> Context:
        """The context as a policy is given it."""
        self._forget()
        facts, content = self.recording.facts, self.recording.content
        order, replaced = Beginning(self.order), self.replaced.now()
        context = Context(facts, self.at, order, self._epoch_start, replaced, last_rewrite=self.floor, content=content)
        if self._sums is None:
            self._sums = index_context(context)
        else:
            self._sums.extend(context, self.order, self.replaced)
        self._context = context
        return context

    def _forget(self) -> None:
        """Let the last context forget what was computed of it, which goes on with the history."""
        if self._context is not None:
            self._context.memo.clear()
            self._context = None

    def reasoning(self) -> int:
        """Tokens that the runtime takes the hidden reasoning of ended turns to be."""
        if not self.recording.facts.reasoning:
            return 0
        generation, taken, made = self._reasoned
        if generation != self.generation:
            taken, made = 0, PastReasoning(self.recording.facts)
        made.update(self.order[taken:])
        self._reasoned = self.generation, len(self.order), made
        return made.tokens

    def last_assistant(self) -> int:
        """The last message of the model in prompt order, or -1."""
        role = self.recording.facts.role
        for message in reversed(self.order):
            if role[message] == _ASSISTANT:
                return message
        return -1

    # What the recording did

    def take(self, event: Event) -> bool:
        """Let what the recording did to its own context happen, or not happen, and grow up to there.

        Returns:
            Whether it happened.
        """
        self.grow(event.at)
        kept = self.recorded == "keep" or not event.compaction
        if event.order is not None:
            self._begin_epoch(event, kept)
        for row, body in event.cleared.items():
            self._clear(event, row, body, kept)
        if kept and event.rewrote:
            self.floor = max(self.floor, event.at)
        return kept

    def _begin_epoch(self, event: Event, kept: bool) -> None:
        recording, order = self.recording, list(event.order or ())
        if kept:
            stays = set(order)
            left = self._rows_of(message for message in self.order if message not in stays)
            self._mark(self.recorded_gone, left, event.at)
            self.order = [message for message in order if message not in self._dropped]
            owner = recording.facts.block_message
            self.replaced = Replaced({row: body for row, body in self.replaced.items() if owner[row] in stays})
            self._amounts = {message: held for message, held in self._amounts.items() if message in stays}
            self._epoch_start = self.floor = event.start
            self.estimate = self._estimated()
            self._change(0)
            self._count_anew()
        self._recorded_from, self._recorded_before = event.start, frozenset(order)
        self.more = minus(recording.content_of(self.order, self.replaced), recording.content_of(order, self._cleared))

    def moves(self, event: Event, plans: Sequence[Plan]) -> list[Amount]:
        """By what results that *event* clears move :attr:`more` when it happens, had the policy stopped before each of
        *plans*, which are the last that were carried out: what they took is there to be cleared by the recording.
        """
        facts = self.recording.facts
        rows = {row: body for row, body in event.cleared.items() if self._had(row, event)}
        there: dict[int, Amount] = {}
        for row in rows:
            if facts.block_message[row] not in self._dropped:
                now = self.replaced.get(row)
                there[row] = of_body(facts, row, now) if now else of_block(facts, row)
        found: list[Amount] = []
        for plan in reversed(plans):
            for row in rows.keys() & rows_of(plan):
                before = plan.context.replacements.get(row)
                there[row] = of_body(facts, row, before) if before else of_block(facts, row)
            stay = total(minus(there[row], of_body(facts, row, rows[row])) for row in there)
            lost = total(minus(of_block(facts, row), of_body(facts, row, body)) for row, body in rows.items())
            found.append(minus(lost, stay))
        return found[::-1]

    def _had(self, row: int, event: Event) -> bool:
        """Whether the recorded context held the whole of a result until *event*."""
        owner = self.recording.facts.block_message[row]
        there = self._recorded_from <= owner < event.at or owner in self._recorded_before
        return there and row not in self._cleared

    def _clear(self, event: Event, row: int, body: Body, kept: bool) -> None:
        facts = self.recording.facts
        owner = facts.block_message[row]
        had = self._had(row, event)
        self._cleared[row] = body
        if not had:
            return
        lost = minus(of_block(facts, row), of_body(facts, row, body))
        if not kept or owner in self._dropped:
            self.more = plus(self.more, lost)
        elif (position := self._position_of(owner)) < len(self.order):
            before = self.replaced.get(row)
            held = of_body(facts, row, before) if before else of_block(facts, row)
            self._put({row: body})
            self.estimate += body.tokens - (before.tokens if before else bytes4(facts, row))
            self.more = plus(self.more, minus(lost, minus(held, of_body(facts, row, body))))
            self._mark(self.recorded_gone, (row,), event.at)
            self._change(position)

    # What the policy does

    def carry_out(self, plan: Plan, summary_tokens: int, decided: int) -> int:
        """Change what *plan* changes, which was made when this had grown up to message *decided*.

        Returns:
            The position of the first message that changed.
        """
        facts = self.recording.facts
        bodies = bodies_of(plan.changes)
        first = len(self.order)
        if bodies:
            owner, replaced = facts.block_message, self.replaced
            where = self._sums.position_of if self._sums is not None else self._positions
            for row, body in bodies.items():
                first = min(first, where.get(owner[row], first))
                before = replaced.get(row)
                self.estimate += body.tokens - (before.tokens if before else bytes4(facts, row))
            self.more = plus(self.more, self._put(bodies))
            self._mark(self.gone, bodies, self.at)
        if plan.dropped or plan.inserts:
            first = min(first, self._reorder(plan, summary_tokens, decided))
        self.floor = self.at
        self._change(first)
        return first

    def _reorder(self, plan: Plan, summary_tokens: int, decided: int) -> int:
        """Leave out what *plan* drops and put in what it puts in; returns the position of the first change."""
        recording = self.recording
        there = set(self.order)
        made = [
            recording.inserted(each, summary_tokens, there) if isinstance(each, Insert) else each
            for each in order_after(plan)
            if isinstance(each, Insert) or each in there
        ]
        known = set(plan.context.order)
        order = made + [message for message in self.order if message not in known]
        lost = there.difference(order)
        come = [message for message in order if message not in there]
        changed = plus(recording.content_of(come, {}), self.more)
        self.more = minus(changed, recording.content_of(lost, self.replaced))
        first = next((at for at, (a, b) in enumerate(zip(order, self.order, strict=False)) if a != b), len(order))
        self._mark(self.gone, self._rows_of(lost), self.at)
        self._dropped |= lost
        self.order = order
        self._epoch_start = self.at
        self._count_anew()
        self.estimate = self._estimated()
        return first

    def split(self, position: int) -> tuple[Amount, Amount]:
        """What it holds before a position, and from there on."""
        asked = self.generation, len(self.order), position
        if self._split[0] != asked:
            held = plus(self._appended.held[self.at], self._besides)
            if position > len(self.order) // 2:
                behind = self._holding(position, len(self.order))
                ahead = minus(held, behind)
            else:
                ahead = self._holding(0, position)
                behind = minus(held, ahead)
            self._split = asked, (ahead, behind)
        return self._split[1]

    def _holding(self, first: int, end: int) -> Amount:
        """What the messages from one position to another hold."""
        order, known, amount = self.order[first:end], self._amounts, self.recording.amount
        if first < self._anew or not order:
            return total(known[message] if message in known else amount(message) for message in order)
        held = self._appended.held
        found = minus(held[order[-1] + 1], held[order[0]])
        for message in order:
            if message in known:
                found = plus(found, minus(known[message], amount(message)))
        return found

    def _position_of(self, message: int) -> int:
        """Where a message is; the length where it is not there."""
        return self._positions.get(message, len(self.order))

    @property
    def _positions(self) -> dict[int, int]:
        """Where the messages are."""
        found, known = self._where
        if known < len(self.order):
            found.update(zip(self.order[known:], range(known, len(self.order)), strict=True))
            self._where = found, len(self.order)
        return found

    def _put(self, bodies: Mapping[int, Body]) -> Amount:
        """Let bodies stand in place of blocks; returns what it holds more by that."""
        self._forget()
        if self._sums is not None and not self._sums.replace_bodies(bodies, self.replaced):
            self._sums = None
        self.replaced.put(bodies)
        more = NOTHING
        for message in {self.recording.facts.block_message[row] for row in bodies}:
            before = self._amounts.get(message) or self.recording.amount(message)
            after = self._amounts[message] = self.recording.amount_with(message, self.replaced)
            more = plus(more, minus(after, before))
        self._besides = plus(self._besides, more)
        return more

    def _count_anew(self) -> None:
        kind, result = self.recording.facts.kind, int(Kind.TOOL_RESULT)
        self.results = sum(kind[row] == result for row in self._rows_of(self.order))
        self._anew, self._where = len(self.order), ({}, 0)
        self._besides = minus(self._holding(0, len(self.order)), self._appended.held[self.at])
        self._forget()
        self._sums = None

    def _estimated(self) -> int:
        """Estimated tokens of everything, counted anew."""
        facts, owner = self.recording.facts, self.recording.facts.block_message
        there = set(self.order)
        tokens = sum(count_message_tokens(facts, message) for message in self.order)
        return tokens + sum(
            body.tokens - bytes4(facts, row) for row, body in self.replaced.items() if owner[row] in there
        )

    def _change(self, position: int) -> None:
        self.generation += 1
        self.changed_from = position if self.changed_from is None else min(self.changed_from, position)

    def _rows_of(self, messages: Iterable[int]) -> Iterator[int]:
        first, following = self.recording.facts.first_block, self.recording.facts.block_next
        for message in messages:
            row = first[message]
            while row >= 0:
                yield row
                row = following[row]

    def _mark(self, gone: dict[int, int], rows: Iterable[int], at: int) -> None:
        """Note when blocks of the session went; summaries that a policy put in are none of these."""
        for row in rows:
            if row < self._rows:
                gone.setdefault(row, at)
