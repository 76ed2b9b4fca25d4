"""Scanning one conversation of a log of requests, and reading its text again."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from context_tui.errors import UnreadableSession
from context_tui.formats.base import Advance
from context_tui.formats.claude_code.parsing import is_markup
from context_tui.formats.kit.branches import BranchFacts
from context_tui.formats.kit.documents import Run, count_element_bytes, decode_element, encode_run, format_element
from context_tui.formats.kit.entry_scanner import split_branch_id
from context_tui.formats.kit.line_scanner import OrderedShape
from context_tui.formats.kit.message_builder import (
    BlockReader,
    FullCompactionRecord,
    MessageBuilder,
    MessageRecord,
    MicroCompactionRecord,
    ParsedRecord,
    RecordCase,
    RecordGroup,
    RewindRecord,
    group_records,
    list_messages,
    prepare_shape,
    validated,
)
from context_tui.formats.kit.values import format_title
from context_tui.formats.requests.bodies import Exchange
from context_tui.formats.requests.conversations import Conversation, RequestLog, Step
from context_tui.session.facts import Facts, Problem
from context_tui.session.prompt_texts import is_tagged
from context_tui.session.session import Session, SessionInfo
from context_tui.session.values import MessageFlag, Role
from context_tui.text.sanitize import truncate_name

NO_PLACE = (1 << 64) - 1
"""Place of a record that stands for no message of a request."""


MAX_WAIT_S = 600
"""Seconds after a request from which on its missing response is a problem."""


@dataclass(frozen=True)
class SessionFacts:
    """Facts of the agent's own file of a run: texts that were typed (None: unknown), times of replies by id (ms),
    title, folder and name of the client.
    """

    typed: frozenset[str] | None = None
    times: Mapping[str, int] = field(default_factory=dict)
    title: str = ""
    cwd: str = ""
    client: str = ""


class LogSource(Protocol):
    """Log of requests on disk."""

    path: Path
    format_name: str

    def list_exchanges(self) -> tuple[list[Exchange], list[Problem]]:
        """Return the exchanges in order, and what else is wrong with the log.

        Raises:
            UnreadableSession: it cannot be read.
        """

    def read_session_facts(self, group: str) -> SessionFacts:
        """Return what the agent's own file says of a run."""


class OpenLog:
    """Log that is read on whenever its files grow; one whose earlier exchanges changed is read again."""

    def __init__(self, source: LogSource) -> None:
        self.source, self.log = source, RequestLog()
        self.problems: list[Problem] = []
        self._names: list[str] = []
        self._lock = threading.Lock()

    def update(self) -> RequestLog:
        """Read what is new."""
        with self._lock:
            exchanges, self.problems = self.source.list_exchanges()
            names = [each.name for each in exchanges]
            if not set(self._names) <= set(names):
                self.log = RequestLog()
            self._names = names
            self.log.update(exchanges)
            return self.log

    def list_sessions(self) -> list[SessionInfo]:
        """Return the conversations as sessions; sub-agents belong to the first conversation of their run.

        Raises:
            UnreadableSession: there is none.
        """
        log, path = self.update(), str(self.source.path)
        listed = list(log.list_conversations())
        if not listed:
            reasons = [f"{each.where}: {each.what}" for each in [*self.problems, *log.problems.values()]]
            raise UnreadableSession(f"{path}: holds no conversation; {'; '.join(reasons[:3]) or 'no request'}")
        found, counts = [], dict[str, int]()
        for each, main in listed:
            facts = self.source.read_session_facts(each.group)
            is_main = each.number == main
            counts[each.group] = counts.get(each.group, -1) + 1
            title = (facts.title if is_main else "") or format_title(_find_prompt(each.prompt))
            others = log.others.get(each.group, 0) if is_main else 0
            found.append(
                SessionInfo(
                    path,
                    self.source.format_name,
                    each.group if is_main else f"{each.group}/agent-{counts[each.group]}",
                    f"{facts.client}: {title}" if facts.client else title,
                    "" if is_main else f"{path}#{each.group}",
                    each.time / 1000,
                    cwd=facts.cwd,
                    note=f"{others} other requests of its run are no part of a conversation" if others else "",
                )
            )
        return found

    def find_conversation(self, session_id: str) -> Conversation:
        """Return the conversation of a session.

        Raises:
            UnreadableSession: there is none.
        """
        listed = list(self.update().list_conversations())
        ids = [info.id for info in self.list_sessions()]
        if session_id not in ids:
            raise UnreadableSession(f"{self.source.path}: unknown session {session_id!r}")
        return listed[ids.index(session_id)][0]


def _find_prompt(texts: str) -> str:
    """Return the first line that was not injected, for a title."""
    outside, depth = [], 0
    for line in texts.splitlines():
        if line.startswith("<") and not line.startswith("</") and f"</{line[1:].split('>')[0]}>" not in line:
            depth += 1
        elif line.startswith("</"):
            depth = max(depth - 1, 0)
        elif not depth and line.strip():
            outside.append(line)
    return "\n".join(outside)


class RequestContent:
    """Full text of a conversation, from the requests that had each message first."""

    def __init__(self, reader: _MessageReader, builder: MessageBuilder, facts: Facts, log: OpenLog) -> None:
        self._reader, self._builder, self._log, self._facts = reader, builder, log, facts
        self._state = log.log
        self._block_reader = BlockReader(facts)

    def blocks(self, message: int) -> list[dict[str, Any]]:
        """Blocks of a message."""
        places = self._facts.record_place
        return self._block_reader.read_blocks(message, lambda row: self._reader.parse(places[row]))

    def raw(self, record: int) -> str:
        """Return the message of a record as it was sent, or the beginning of a long one."""
        place = self._facts.record_place[record]
        return "" if place == NO_PLACE else self._reader.format_place(place)

    def system(self) -> str:
        """Return the system prompt of the newest request."""
        return self._builder.system

    def tools(self) -> list[dict[str, Any]]:
        """Tool schemas of the newest request, Anthropic-shaped."""
        return self._builder.tools

    def is_unchanged(self) -> bool:
        """Return whether the requests that were read are still there."""
        return self._log.update() is self._state

    def format_request(self, message: int) -> str:
        """Return the request that message *message* was first part of, or answered, as it was sent (JSON)."""
        row = next(self._facts.records_of(message))
        return self._reader.format_request(self._facts.record_place[row])


class _MessageReader:
    """Messages of a conversation by place."""

    def __init__(self, conversation: Conversation, facts: SessionFacts) -> None:
        self.conversation, self._session_facts = conversation, facts
        self.shape = conversation.api.shape()
        self.parse = validated(self._parse)

    def format_place(self, place: int) -> str:
        """Return the text at a place."""
        return "\n".join(map(format_element, self.conversation.places[place].elements))

    def format_request(self, place: int) -> str:
        """Return the whole request that a place is in."""
        exchange = self.conversation.exchanges[self.conversation.places[place].exchange]
        return encode_run(Run(exchange.read().members)).decode("utf-8", "replace")

    def _parse(self, place: int) -> ParsedRecord:
        found = self.conversation.places[place]
        parts = [self._mark_injected(self.shape.parse(decode_element(each), place)) for each in found.elements]
        if (skip := found.skip) and isinstance(first := parts[0], MessageRecord):
            return MessageRecord(first.role, first.blocks[skip:], is_injected=True)
        return group_records(*parts)

    def _mark_injected(self, part: ParsedRecord) -> RecordCase:
        """Mark the texts of a user message that nobody typed."""
        if isinstance(part, RecordGroup):
            raise ValueError("several messages in one")
        if not isinstance(part, MessageRecord) or part.role != Role.USER or part.is_injected:
            return part
        texts = {n: str(block.get("text")) for n, block in enumerate(part.blocks) if block.get("type") == "text"}
        return replace(part, injected_blocks=frozenset(n for n, text in texts.items() if not self._is_typed(text)))

    def _is_typed(self, text: str) -> bool:
        typed = self._session_facts.typed
        return text.strip() in typed if typed is not None else not (is_markup(text) or is_tagged(text))


class RequestScanner:
    """A resumable scan of one conversation; as requests are logged, what is new is read."""

    def __init__(self, log: OpenLog, info: SessionInfo) -> None:
        self._log, self._info = log, info
        self._restart()

    @property
    def progress(self) -> float:
        """Share of the requests that have been read."""
        steps = len(self._conversation.steps)
        return self._next / steps if steps else 1.0

    def advance(self, budget_s: float | None = None) -> Advance:
        """Read on for about *budget_s* seconds, or to the end when None."""
        deadline = None if budget_s is None else time.monotonic() + budget_s
        restarted, steps = False, self._conversation.steps
        if self._next == len(steps) and self._log.update() is not self._state:
            self._restart()
            restarted, steps = True, self._conversation.steps
        facts = self._builder.facts
        before = 0 if restarted else len(facts)
        while self._next < len(steps):
            if self._next and (late := steps[self._next - 1]).reply >= 0 and not self._has_reply:
                self._scan_reply(late)
            self._scan_step(steps[self._next])
            self._next += 1
            if deadline is not None and time.monotonic() >= deadline:
                break
        if steps and self._next == len(steps) and not self._has_reply and steps[-1].reply >= 0:
            self._scan_reply(steps[-1])
        facts.problems = [*self._problems, *self._list_log_problems()]
        changed = self._live.find_first_changed(self._builder.pop_first_changed(before))
        return Advance(len(facts) - before, 0 if restarted else changed, self._next == len(steps))

    def session(self) -> Session:
        """Return a view of what has been read so far."""
        facts = self._live.select_facts()
        facts.problems = self._builder.facts.problems
        return Session(facts, RequestContent(self._reader, self._builder, facts, self._log), self._info, len(facts))

    def _restart(self) -> None:
        own, branch = split_branch_id(self._info.id)
        self._conversation = self._log.find_conversation(own)
        self._state = self._log.log
        session_facts = self._log.source.read_session_facts(self._conversation.group)
        self._times = session_facts.times
        is_main = "/" not in own
        self._reader = _MessageReader(self._conversation, session_facts if is_main else SessionFacts())
        self._builder = MessageBuilder()
        prepare_shape(self._reader.shape, self._builder)
        facts = self._builder.facts
        facts.holds_requests, facts.input_includes_cache = True, self._conversation.api.input_includes_cache
        self._live = BranchFacts(facts, self._builder, replace(self._info, id=branch))
        self._next, self._has_reply, self._cleared = 0, True, 0
        self._problems: list[Problem] = []

    def _list_log_problems(self) -> Iterator[Problem]:
        """Return what is wrong with the log: of the requests of this conversation, and in a main one of the others."""
        names = {each.name for each in self._conversation.exchanges}
        newest = self._conversation.exchanges[-1]
        if self._conversation.is_awaiting and time.time() - newest.time / 1000 < MAX_WAIT_S:
            names.discard(newest.name)  # its response is on the way
        owned = {each.name for one in self._state.conversations for each in one.exchanges}
        for name, problem in self._state.problems.items():
            if name in names or (name not in owned and "/" not in self._info.id):
                yield problem
        if "/" not in self._info.id:
            yield from self._log.problems

    def _scan_step(self, step: Step) -> None:
        exchange = self._conversation.exchanges[step.exchange]
        if step.system is not None:
            self._builder.set_system(step.system)
            self._builder.set_tools(step.tools)
            self._builder.tools = step.schemas
        self._builder.facts.model = truncate_name(step.model) or self._builder.facts.model
        before: list[RecordCase] = []
        if step.rewound:
            before.append(RewindRecord(step.rewound))
        if step.cleared:
            before.append(MicroCompactionRecord("changed by the client", cleared_keys=tuple(step.cleared)))
        compaction = None
        if step.order is not None:
            numbers = iter(range(len(step.order)))
            context = tuple(next(numbers) if key is None else key for key in step.order)
            compaction = FullCompactionRecord(context=context, has_summary=False)
            if None not in step.order:
                key = f"step {step.exchange}"
                before.append(replace(compaction, key=key, parent_key=step.parent or None))
                compaction = None
        if before:
            self._builder.add(group_records(*before), NO_PLACE, 0, exchange.name)
        for place in step.places:
            self._add_place(place, exchange, compaction, step)
            compaction = None
        self._has_reply = step.reply >= 0
        if self._has_reply:
            self._scan_reply(step)

    def _scan_reply(self, step: Step) -> None:
        """Add the reply of a step, and before it what the server took out of the request."""
        self._has_reply = True
        exchange = self._conversation.exchanges[step.exchange]
        if step.cleared_calls > self._cleared:
            facts = self._builder.facts
            calls = [call for call, row in zip(facts.calls, facts.call_result, strict=True) if row >= 0]
            keys = tuple(calls[self._cleared : step.cleared_calls])
            self._builder.add(
                MicroCompactionRecord("edited by the server", cleared_keys=keys), NO_PLACE, 0, exchange.name
            )
            self._cleared = step.cleared_calls
        self._add_place(step.reply, exchange, None, step)

    def _add_place(self, place: int, exchange: Exchange, compaction: FullCompactionRecord | None, step: Step) -> None:
        found, shape = self._conversation.places[place], self._reader.shape
        size = sum(map(count_element_bytes, found.elements))
        try:
            parsed = self._reader.parse(place)
            if len(found.elements) == 1 and isinstance(shape, OrderedShape):
                parsed = shape.resolve_in_order(decode_element(found.elements[0]), parsed)
        except ValueError as error:
            self._builder.add_problem(place, size, exchange.name, str(error))
            self._problems.append(self._builder.facts.problems[-1])
            return
        time = self._find_time(exchange, found.elements[0] if found.is_reply else None)
        parent = step.parent if place == step.places.start else ""
        parts: list[RecordCase] = []
        for number, part in enumerate(list_messages(parsed)):
            if isinstance(part, MessageRecord):
                if compaction and number == step.summary:  # the summary itself is not typed, and not injected either
                    tagged = frozenset(find_tagged_texts(part))
                    part = replace(
                        part, flags=part.flags | MessageFlag.SUMMARY, injected_blocks=tagged, is_injected=False
                    )
                part = replace(
                    part,
                    key=f"{place}.{number}" if number else str(place),
                    parent_key=None if number else parent or None,
                    time=part.time if part.time >= 0 else time,
                    compaction=None if number else compaction,
                )
            parts.append(part)
        self._builder.add(group_records(*parts) if parts else parsed, place, size, exchange.name)

    def _find_time(self, exchange: Exchange, reply: Any) -> int:
        if isinstance(reply, dict) and (known := self._times.get(str(reply.get("id")))):
            return known
        return exchange.time


def find_tagged_texts(part: MessageRecord) -> Iterator[int]:
    """Yield the numbers of the texts of a message that are markup of a client."""
    for number, block in enumerate(part.blocks):
        if block.get("type") == "text" and is_tagged(str(block.get("text"))):
            yield number


def find_subagent(log: OpenLog, session: Session, call: int) -> SessionInfo | None:
    """Return the session of the sub-agent whose first message has the prompt of the call in a block row."""
    message = session.facts.block_message[call]
    block = session.content.blocks(message)[session.facts.ordinal(call)]
    given = block.get("input")
    prompts = [text for text in given.values() if isinstance(text, str) and text] if isinstance(given, dict) else []
    wanted = max(prompts, key=len, default="")
    agents: Sequence[SessionInfo] = [each for each in log.list_sessions() if each.parent]
    return next((each for each in agents if wanted and wanted in log.find_conversation(each.id).prompt), None)
