"""Scan one conversation in a log of requests, and read its full text again."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from context_tui.errors import UnreadableSession
from context_tui.formats.base import Advance
from context_tui.formats.claude_code.parsing import is_markup
from context_tui.formats.kit.branches import BranchFacts
from context_tui.formats.kit.documents import count_element_bytes, decode_element, format_element, get_element_text
from context_tui.formats.kit.entry_scanner import split_branch_id
from context_tui.formats.kit.message_builder import (
    FullCompactionRecord,
    MessageBuilder,
    MessageRecord,
    MicroCompactionRecord,
    ParsedRecord,
    RecordAdder,
    RecordCase,
    RecordContent,
    RecordGroup,
    RewindRecord,
    group_records,
    list_messages,
    validate_result,
)
from context_tui.formats.kit.values import format_title
from context_tui.formats.requests.bodies import Exchange
from context_tui.formats.requests.conversations import Conversation, ConversationStep, RequestLog
from context_tui.session.jsontext import compact_text
from context_tui.session.markers import is_tagged
from context_tui.session.problems import Problem, ProblemList
from context_tui.session.session import Session, SessionInfo
from context_tui.session.values import MessageFlag, Role
from context_tui.text.numbers import format_count
from context_tui.text.sanitize import truncate_name

NO_PLACE = (1 << 64) - 1
"""Place of a record that does not come from a message of a request."""


MAX_WAIT_S = 600
"""Seconds after a request at which a missing response becomes a problem."""


@dataclass(frozen=True)
class SessionFacts:
    """Facts about a run from the agent's own session file.

    Attributes:
        typed: the typed texts, or None if unknown.
        times: times in epoch milliseconds, keyed by the reply's id.
    """

    typed: frozenset[str] | None = None
    times: Mapping[str, int] = field(default_factory=dict)
    title: str = ""
    cwd: str = ""
    client: str = ""


class LogSource(Protocol):
    """Interface for reading a log of requests from disk."""

    path: Path
    format_name: str
    generation: int
    """Number that grows when the log's file is emptied or replaced."""

    def list_exchanges(self) -> tuple[list[Exchange], list[Problem]]:
        """Return the exchanges in order, and any problems with the log as a whole."""

    def read_session_facts(self, group: str) -> SessionFacts:
        """Return facts about the run *group* from the agent's own session file."""


class OpenLog:
    """A log whose files may grow. It is read again from the start if it was replaced or lacks old exchanges."""

    def __init__(self, source: LogSource) -> None:
        self.source, self.log = source, RequestLog()
        self.problems: list[Problem] = []
        self._names: list[str] = []
        self._generation = source.generation
        self._lock = threading.Lock()

    def update(self) -> RequestLog:
        """Read new exchanges, and return the log, which is a new object if all of it had to be read again."""
        with self._lock:
            exchanges, self.problems = self.source.list_exchanges()
            names = [each.name for each in exchanges]
            if not set(self._names) <= set(names) or self._generation != self.source.generation:
                self.log = RequestLog()
            self._names, self._generation = names, self.source.generation
            self.log.update(exchanges)
            return self.log

    def list_sessions(self) -> list[SessionInfo]:
        """Return the conversations as sessions. The parent of a sub-agent's session is the first one in its run."""
        log, path = self.update(), str(self.source.path)
        sessions = []
        for name, conversation in log.list_by_id().items():
            is_main = name == conversation.group
            facts = self.source.read_session_facts(conversation.group)
            title = (facts.title if is_main else "") or format_title(conversation.prompt)
            other_count = log.count_others(conversation.group) if is_main else 0
            note = f"{format_count(other_count, 'other request')} of its run, in no conversation" if other_count else ""
            title = f"{facts.client}: {title}" if facts.client else title
            parent, time_s = "" if is_main else f"{path}#{conversation.group}", max(conversation.time, 0) / 1000
            info = SessionInfo(path, self.source.format_name, name, title, parent, time_s, cwd=facts.cwd, note=note)
            sessions.append(info)
        if not sessions:
            reasons = [f"{each.where}: {each.what}" for each in [*self.problems, *log.problems.values()]]
            raise UnreadableSession(f"{path}: holds no conversation; {'; '.join(reasons[:3]) or 'no request'}")
        return sessions

    def find_conversation(self, session_id: str) -> Conversation:
        """Return the conversation of a session, or raise UnreadableSession if there is none."""
        conversation = self.update().list_by_id().get(session_id)
        if conversation is None:
            self.list_sessions()  # if there is no conversation, this raises the reason
            raise UnreadableSession(f"{self.source.path}: unknown session {session_id!r}")
        return conversation


class RequestContent(RecordContent):
    """The full text of a conversation. Each message is read from the request in which it first occurred."""

    def __init__(self, log: OpenLog, conversation: Conversation, typed: frozenset[str] | None) -> None:
        builder = MessageBuilder()
        super().__init__(builder, builder.facts)
        self.log, self.state, self.conversation = log, log.log, conversation
        self.shape, self._typed = conversation.api.shape(), typed
        self.resolve, self.parse_place = RecordAdder(self.shape, builder).resolve, validate_result(self._parse_place)

    def parse_record(self, row: int) -> ParsedRecord:
        return self.parse_place(self.facts.record_place[row])

    def raw(self, record: int) -> str:
        place = self.facts.record_place[record]
        return "" if place == NO_PLACE else "\n".join(map(format_element, self.conversation.places[place].elements))

    def is_unchanged(self) -> bool:
        return self.log.update() is self.state

    def format_request(self, message: int) -> str:
        """Return the complete request, as JSON, that first held *message* or that *message* answers."""
        place = self.facts.record_place[next(self.facts.iterate_records(message))]
        exchange = self.conversation.exchanges[self.conversation.places[place].exchange]
        members = exchange.read().members.items()
        return f"{{{','.join(f'{compact_text(name)}:{get_element_text(value)}' for name, value in members)}}}"

    def _parse_place(self, place: int) -> ParsedRecord:
        record_place = self.conversation.places[place]
        parts = [self._mark_injected(self.shape.parse(decode_element(each), place)) for each in record_place.elements]
        if (skip := record_place.skip) and isinstance(first := parts[0], MessageRecord):
            return MessageRecord(first.role, first.blocks[skip:], is_injected=True)
        return group_records(*parts)

    def _mark_injected(self, parsed: ParsedRecord) -> RecordCase:
        if isinstance(parsed, RecordGroup):
            raise ValueError("several messages in one")
        if not isinstance(parsed, MessageRecord) or parsed.role != Role.USER or parsed.is_injected:
            return parsed
        texts = {n: str(block.get("text")) for n, block in enumerate(parsed.blocks) if block.get("type") == "text"}
        return replace(parsed, injected_blocks=frozenset(n for n, text in texts.items() if not self._is_typed(text)))

    def _is_typed(self, text: str) -> bool:
        return text.strip() in self._typed if self._typed is not None else not (is_markup(text) or is_tagged(text))


class RequestScanner:
    """A resumable scan of one conversation, which also reads requests that are logged later."""

    def __init__(self, log: OpenLog, info: SessionInfo) -> None:
        self._log, self._info = log, info
        self._restart()

    @property
    def progress(self) -> float:
        return self._next / max(len(self._conversation.steps), 1)

    def advance(self, budget_s: float | None = None) -> Advance:
        deadline = None if budget_s is None else time.monotonic() + budget_s
        # The id names another conversation once the log is new, or a request for a title was all it had.
        is_new = self._next == len(self._conversation.steps) and self._find_conversation() is not self._conversation
        if is_new:
            self._restart()
        facts, steps = self._content.facts, self._conversation.steps
        old_count = 0 if is_new else len(facts)
        while self._next < len(steps):
            self._scan_step(steps[self._next])
            self._next += 1
            if deadline is not None and time.monotonic() >= deadline:
                break
        facts.problems = ProblemList([*self._problems, *self._list_log_problems()])
        changed = self._live.find_first_changed(self._content.builder.pop_first_changed(old_count))
        return Advance(len(facts) - old_count, 0 if is_new else changed, self._next == len(steps))

    def session(self) -> Session:
        facts, content = self._live.select_facts(), copy(self._content)
        facts.problems = self._content.facts.problems
        content.facts = facts
        return Session(facts, content, self._info, len(facts))

    def _find_conversation(self) -> Conversation:
        return self._log.find_conversation(split_branch_id(self._info.id)[0])

    def _restart(self) -> None:
        conversation_id, branch = split_branch_id(self._info.id)
        self._conversation = self._find_conversation()
        session_facts = self._log.source.read_session_facts(self._conversation.group)
        self._is_main, self._times = conversation_id == self._conversation.group, session_facts.times
        self._content = RequestContent(self._log, self._conversation, session_facts.typed if self._is_main else None)
        facts = self._content.facts
        facts.holds_requests, facts.input_includes_cache = True, self._conversation.api.input_includes_cache
        self._live = BranchFacts(facts, self._content.builder, replace(self._info, id=branch), conversation_id)
        self._next, self._cleared = 0, 0
        self._problems: list[Problem] = []

    def _list_log_problems(self) -> Iterator[Problem]:
        """Yield the problems of this conversation's requests; for the main one, also those outside any conversation."""
        newest = self._conversation.exchanges[-1]
        is_waiting = self._conversation.steps[-1].reply < 0 and time.time() - newest.time / 1000 < MAX_WAIT_S
        for name, problem in self._content.state.problems.items():
            owner = self._content.state.owners.get(name)
            is_own = owner is self._conversation and not (is_waiting and name == newest.name)
            if is_own or (owner is None and self._is_main):
                yield problem
        if self._is_main:
            yield from self._log.problems

    def _scan_step(self, step: ConversationStep) -> None:
        exchange, builder = self._conversation.exchanges[step.exchange], self._content.builder
        if step.system is not None:
            builder.set_system(step.system)
            builder.set_tools(step.tools)
            builder.tools = step.schemas
        builder.facts.model = truncate_name(step.model) or builder.facts.model
        preceding_records: list[RecordCase] = []
        if step.rewound:
            preceding_records.append(RewindRecord(step.rewound))
        if step.cleared:
            preceding_records.append(MicroCompactionRecord("changed by the client", cleared_keys=tuple(step.cleared)))
        compaction = None
        if step.order is not None:
            numbers = iter(range(len(step.order)))
            context = tuple(next(numbers) if key is None else key for key in step.order)
            compaction = FullCompactionRecord(context=context, has_summary=False)
            if None not in step.order:
                key = f"step {step.exchange}"
                preceding_records.append(replace(compaction, key=key, parent_key=step.parent or None))
                compaction = None
        if preceding_records:
            builder.add(group_records(*preceding_records), NO_PLACE, 0, exchange.name)
        for place in step.places:
            self._add_place(place, exchange, compaction, step)
            compaction = None
        if step.cleared_calls > self._cleared:
            calls = [call for call, row in zip(builder.facts.calls, builder.facts.call_result, strict=True) if row >= 0]
            keys = tuple(calls[self._cleared : step.cleared_calls])
            builder.add(MicroCompactionRecord("edited by the server", cleared_keys=keys), NO_PLACE, 0, exchange.name)
            self._cleared = step.cleared_calls
        if step.reply >= 0:
            self._add_place(step.reply, exchange, None, step)

    def _add_place(
        self, place: int, exchange: Exchange, compaction: FullCompactionRecord | None, step: ConversationStep
    ) -> None:
        builder = self._content.builder
        elements = self._conversation.places[place].elements
        size = sum(map(count_element_bytes, elements))
        try:
            parsed = self._content.parse_place(place)
            if len(elements) == 1 and hasattr(self._content.shape, "resolve_in_order"):
                parsed = self._content.resolve(decode_element(elements[0]), parsed)
        except ValueError as error:
            builder.add_problem(place, size, exchange.name, str(error))
            self._problems.append(builder.facts.problems[-1])
            return
        reply = elements[0] if place == step.reply else None
        time = self._times.get(str(reply.get("id")), exchange.time) if isinstance(reply, dict) else exchange.time
        records: list[RecordCase] = []
        for number, record in enumerate(list_messages(parsed)):
            if isinstance(record, MessageRecord):
                if compaction and number == step.summary:  # the summary itself is neither typed nor injected
                    texts = enumerate(str(block.get("text")) for block in record.blocks)
                    tagged_blocks = frozenset(n for n, text in texts if n in record.injected_blocks and is_tagged(text))
                    flags = record.flags | MessageFlag.SUMMARY
                    record = replace(record, flags=flags, injected_blocks=tagged_blocks, is_injected=False)
                record = replace(
                    record,
                    key=f"{place}.{number}" if number else str(place),
                    parent_key=step.parent or None if place == step.places.start and not number else None,
                    time=record.time if record.time >= 0 else time,
                    compaction=None if number else compaction,
                )
            records.append(record)
        builder.add(group_records(*records) if records else parsed, place, size, exchange.name)


def find_subagent(log: OpenLog, session: Session, call: int) -> SessionInfo | None:
    """Return the sub-agent session whose first message contains the prompt of the call in block row *call*, or None."""
    message = session.facts.block_message[call]
    arguments = session.content.blocks(message)[session.facts.ordinal(call)].get("input")
    texts = [text for text in arguments.values() if isinstance(text, str)] if isinstance(arguments, dict) else []
    prompt = max(texts, key=len, default="")
    agents = {name: each for name, each in log.update().list_by_id().items() if name != each.group}
    match = next((name for name, each in agents.items() if prompt and prompt in each.prompt), None)
    return next((each for each in log.list_sessions() if each.id == match), None)
