"""Build messages, branches, compactions and problems from parsed records, and read the messages' blocks again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from operator import is_
from typing import Any, NamedTuple, ParamSpec, TypeVar

from context_tui.app.plugins import format_place, format_renames
from context_tui.errors import Error
from context_tui.formats.kit.blocks import build_text, extract_text
from context_tui.formats.kit.prompts import build_part, get_prompt, join_system, set_system, set_tools
from context_tui.formats.kit.values import parse_block, parse_tokens, parse_usage_or_note
from context_tui.session.facts import Compaction, Facts, PromptPart, Usage
from context_tui.session.problems import Problem
from context_tui.session.token_factors import SizeBasis
from context_tui.session.values import Kind, MessageFlag, RecordKind, Role, Spans
from context_tui.text.sanitize import truncate_name

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class RecordCase:
    """Base class of the parsed records, with the members of every kind.

    In a tree, a record has a ``key``, and ``parent_key`` is the key of the record that it follows (None: the one before
    it in the file). ``notes`` name the parts of a record that were not understood.
    """

    key: str = ""
    parent_key: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class MetadataRecord(RecordCase):
    """Settings of all later requests: model, context window (tokens), system prompt and tools. Any may be missing.

    ``model_window`` is the model's own window if the agent uses only a part of it. ``tools`` are in Anthropic's form.
    ``size_basis`` is the noted size of an exported session with the messages before it.
    """

    model: str = ""
    window: int = 0
    model_window: int | None = None
    system: str | None = None
    tools: list[dict[str, Any]] | None = None
    size_basis: SizeBasis | None = None


@dataclass(frozen=True)
class UsageRecord(RecordCase):
    """Usage of the newest assistant message's request, recorded apart from the message.

    ``time`` is in epoch milliseconds (-1: unknown), ``reasoning`` is the runtime's estimate of hidden reasoning in
    tokens.
    """

    usage: Usage | None
    time: int = -1
    reasoning: int = 0


@dataclass(frozen=True)
class FullCompactionRecord(RecordCase):
    """A full compaction, in which a model's summary replaces earlier messages.

    It is the ``compaction`` of the message that holds the summary, or a separate record if there is no summary.

    Attributes:
        tokens_before: recorded size of the context before it, in tokens.
        kept_messages: number of messages just before the summary that stay in the context and now follow the summary.
        context: a new context of any other form, in prompt order: keys of earlier records, and numbers of messages in
            this record.
        kept_since: the record from which everything stays except earlier summaries, by its key or by its number in the
            file from 0.
        has_summary: False if the message is an ordinary one, not a summary.
    """

    trigger: str | None = None
    tokens_before: int | None = None
    kept_messages: int = 0
    context: tuple[str | int, ...] | None = None
    kept_since: str | int | None = None
    has_summary: bool = True


@dataclass(frozen=True)
class CompactionDetailsRecord(RecordCase):
    """Details of the newest compaction that are recorded after it: its trigger, or the tokens of its summary."""

    trigger: str | None = None
    summary_tokens: int | None = None


@dataclass(frozen=True)
class MicroCompactionRecord(RecordCase):
    """A microcompaction, which clears single blocks from the context.

    ``tokens_before`` and ``saved_tokens`` are as recorded. ``cleared_keys`` are ids of calls whose results were
    cleared, keys of records whose blocks were all cleared, or such keys with the number of one cleared block.
    """

    trigger: str | None = None
    tokens_before: int | None = None
    cleared_keys: tuple[str | tuple[str, int], ...] = ()
    saved_tokens: int | None = None


@dataclass(frozen=True)
class MessageRecord(RecordCase):
    """A message, or further blocks of one: records with the same ``message_id`` form one message.

    With ``has_results``, the blocks are tool results. All results since the last assistant message form one user
    message, unless their ``result_group`` differs. ``is_injected`` marks text that the runtime inserted; if it inserted
    only some blocks, ``injected_blocks`` are their numbers. ``flags`` combines :class:`MessageFlag` values, ``time`` is
    in epoch milliseconds (-1: unknown), and ``reasoning`` is the runtime's estimate of hidden reasoning in tokens.
    ``version`` differs if a later :class:`HistoryRecord` has a changed message with the same key. ``compaction`` is set
    if the message is the summary of a full compaction.
    """

    role: Role
    blocks: list[dict[str, Any]]
    has_results: bool = False
    flags: int = 0
    time: int = -1
    usage: Usage | None = None
    reasoning: int = 0
    result_group: Hashable = None
    message_id: str = ""
    is_injected: bool = False
    injected_blocks: frozenset[int] = frozenset()
    model: str = ""
    version: Hashable = None
    compaction: FullCompactionRecord | None = None


@dataclass(frozen=True)
class OmittedMessage(RecordCase):
    """A message that is left out of a record, such as a repetition. Later messages in the record keep their numbers."""


@dataclass(frozen=True)
class HistoryRecord(RecordCase):
    """A complete context that the runtime has rewritten, with its messages numbered from 1.

    A message is not added again if the context already has one with the same key and version. A message without a key
    is treated like the message before it.
    """

    messages: tuple[MessageRecord | OmittedMessage, ...]
    compaction: FullCompactionRecord | None = None


@dataclass(frozen=True)
class RewindRecord(RecordCase):
    """A rewind, which abandons the record ``target`` and everything after it.

    If the target is unknown, nothing happens. With ``or_start``, the whole context is abandoned if the target is not in
    it.
    """

    target: str
    or_start: bool = False


@dataclass(frozen=True)
class ReplacementRecord(RecordCase):
    """A replacement: the next message takes the place of the record ``target``, or follows the target's descendants."""

    target: str


@dataclass(frozen=True)
class ResetRecord(RecordCase):
    """A reset, after which the context is empty."""


class RecordGroup(NamedTuple):
    """Several parsed records, in order, that the file stores as one. Their messages are numbered from 0."""

    records: tuple[RecordCase, ...]


ParsedRecord = RecordCase | RecordGroup
"""Parsed form of one record of a session."""


def list_cases(parsed: ParsedRecord) -> tuple[RecordCase, ...]:
    """Return the parsed records in a group, in order, or a single record as a tuple of one."""
    return parsed.records if isinstance(parsed, RecordGroup) else (parsed,)


def list_messages(parsed: ParsedRecord) -> list[MessageRecord | OmittedMessage]:
    """Return the messages in a record, omitted ones included. The index of a message is its number in the record."""
    return [each for each in list_cases(parsed) if isinstance(each, MessageRecord | OmittedMessage)]


def find_message(parsed: ParsedRecord) -> MessageRecord | None:
    """Return the first message in a record, or None if it contains no message."""
    return next((each for each in list_cases(parsed) if isinstance(each, MessageRecord)), None)


def group_records(*records: RecordCase) -> ParsedRecord:
    """Return a single record unchanged, or several as a group."""
    return records[0] if len(records) == 1 else RecordGroup(records)


def validate_result(parse: Callable[P, ParsedRecord]) -> Callable[P, ParsedRecord]:
    """Wrap *parse* so that the blocks and usage in its result are validated, both in scans and in later reads."""

    @problems_as_value_errors
    @wraps(parse)
    def parse_and_validate(*args: P.args, **kwargs: P.kwargs) -> ParsedRecord:
        parsed = parse(*args, **kwargs)
        if isinstance(parsed, RecordGroup):
            return RecordGroup(tuple(map(_validate, parsed.records)))
        if not isinstance(parsed, RecordCase):
            raise TypeError(f"parse returned {type(parsed).__name__}, not a record")
        return _validate(parsed)

    return parse_and_validate


def problems_as_value_errors(function: Callable[P, T]) -> Callable[P, T]:
    """Wrap *function* so that unexpected exceptions become ValueError, which callers report as a problem."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except (ValueError, Error, OSError, MemoryError):
            raise
        except Exception as error:
            reason = truncate_name(f"not understood: {type(error).__name__}: {error}")
            raise ValueError(f"{reason}{format_place(error, function.__module__)}") from error

    return call


def prepare_shape(shape: object, builder: MessageBuilder) -> None:
    """Copy a shape's settings for tools, paths and side requests to the facts, or raise TypeError for old names."""
    if renames := format_renames(shape, "shape"):
        raise TypeError(f"{type(shape).__name__}: {renames}")
    builder.facts.has_side_requests = getattr(shape, "has_side_requests", False)
    builder.facts.read_tools |= frozenset(getattr(shape, "read_tools", ()))
    builder.facts.path_keys = (*getattr(shape, "path_keys", ()), *builder.facts.path_keys)


def _validate(record: RecordCase) -> RecordCase:
    if isinstance(record, MessageRecord):
        return _validate_message(record)
    if isinstance(record, HistoryRecord):
        messages = (_validate_message(each) if isinstance(each, MessageRecord) else each for each in record.messages)
        return replace(record, messages=tuple(messages))
    if isinstance(record, MetadataRecord) and not isinstance(record.system, str | None):
        raise ValueError(f"the system of a MetadataRecord is {type(record.system).__name__}, not str; join its parts")
    if isinstance(record, UsageRecord) and record.usage:
        usage, notes = parse_usage_or_note(_validate_usage, record.usage)
        return replace(record, usage=usage, notes=(*record.notes, *notes)) if notes else record
    return record


def _validate_message(record: MessageRecord) -> MessageRecord:
    kinds = type(record.role), type(record.blocks), type(record.time)
    if kinds != (Role, list, int):
        names = ", ".join(kind.__name__ for kind in kinds)
        raise ValueError(f"its role, blocks, time are {names}, not Role, list, int")
    usage, notes = parse_usage_or_note(_validate_usage, record.usage)
    blocks = [*map(parse_block, record.blocks)]
    if not notes and all(map(is_, blocks, record.blocks)):
        return record
    return replace(record, blocks=blocks, usage=usage, notes=(*record.notes, *notes))


def _validate_usage(usage: Usage | None) -> Usage | None:
    for name in ("fresh", "cache_read", "cache_write_5m", "cache_write_1h", "output") if usage else ():
        parse_tokens(getattr(usage, name), name)
    return usage


class RecordAdder:
    """Parses records with a shape and adds them to a builder. A record that is not understood becomes a problem.

    A shape may have a method ``resolve_in_order(record, parsed)``. It is called once for each record, in order, and
    returns the parsed record completed from earlier records, with the same blocks.
    """

    def __init__(self, shape: Any, builder: MessageBuilder) -> None:
        prepare_shape(shape, builder)
        self._builder, self.parse = builder, validate_result(shape.parse)
        self.resolve = problems_as_value_errors(getattr(shape, "resolve_in_order", lambda record, parsed: parsed))

    def add(
        self, record: Any, location: str, place: int, length: int, *context: Any
    ) -> tuple[ParsedRecord, int] | None:
        """Parse a record, with *context* as further arguments, and add it to the builder.

        Returns the parsed record and the number of its first message (-1 if it has none), or None for a problem.
        """
        try:
            parsed = self.resolve(record, self.parse(record, *context))
        except ValueError as error:
            self._builder.add_problem(place, length, location, str(error))
            return None
        return parsed, self._builder.add(parsed, place, length, location)


class MessageBuilder:
    """Builds a session's facts from parsed records. ``tools`` are those of the next request."""

    def __init__(self) -> None:
        self.facts = Facts()
        self.tools: list[dict[str, Any]] = []
        self._changed: list[int] = []
        self._results_message = -1
        self._result_group: Hashable = None
        self._messages_by_id: dict[str, int] = {}
        self._usage_by_message: dict[int, Usage] = {}  # of messages whose usage may be recorded again
        self._last_assistant = -1  # the newest message of the assistant
        self._message_by_key: dict[str, int] = {}  # key of a record to its message, or to the message above it
        self._out_of_band_keys: set[str] = set()  # keys of records without a message
        self.parents = array("i")
        self._current = -1  # the parent of the next message
        self._version_by_key: dict[str, Hashable] = {}
        self._further_messages: dict[int, list[int]] = {}  # further messages of a record, keyed by its first message
        self.event_positions: dict[tuple[str, int], int] = {}  # a microcompaction or clear to the message before it
        self._trailing_compaction: Compaction | None = None  # one without a message, at the message before it
        self.replaced_messages: set[int] = set()
        """The messages that were replaced by others."""
        self._summary_messages: set[int] = set()
        self.revision = 0
        """Number that grows whenever a branch is abandoned or a record is replaced."""

    def add(self, parsed: ParsedRecord, place: int, length: int, location: str) -> int:
        """Add the record at *place*, and return the number of its first message, or -1 if it has none."""
        facts = self.facts
        message = row = owner = number = -1
        numbers: dict[int, int] = {}  # messages of this record, by their number in it
        notes, compaction = list[str](), None
        for record in list_cases(parsed):
            notes += record.notes
            if isinstance(record, MessageRecord | OmittedMessage):
                number += 1
            if isinstance(record, MessageRecord):
                if number == 0:
                    facts.model = truncate_name(record.model) or facts.model
                    if record.role == Role.SYSTEM and not len(facts) and not record.flags & MessageFlag.SUMMARY:
                        self.append_system(extract_text(record.blocks))
                        self._attach_key(record)
                        continue
                    numbers[0] = message = self._add_message(record)
                    row = facts.add_record(place, length, RecordKind.MESSAGE, message)
                    compaction = record.compaction
                    if record.key:
                        self._assign_key(record, message)
                        owner = message
                    self._add_reasoning(record.reasoning)
                else:
                    row = row if row >= 0 else facts.add_record(place, length, RecordKind.MESSAGE)
                    owner = self._add_further_message(record, row, number, numbers, owner)
            elif isinstance(record, HistoryRecord):
                row = facts.add_record(place, length, RecordKind.METADATA)
                notes += self._add_history(record, row, numbers)
                compaction = record.compaction
                self._attach_key(record)
            elif isinstance(record, FullCompactionRecord):
                compaction = record
                self._attach_key(record)
            else:
                self._add_other(record)
        row = row if row >= 0 else facts.add_record(place, length, RecordKind.METADATA)
        facts.problems.extend(Problem(location, note, row) for note in notes)
        if compaction and len(facts):
            self._add_full_compaction(compaction, numbers)
        return message

    def _add_other(self, record: RecordCase) -> None:
        facts = self.facts
        if isinstance(record, RewindRecord):
            self._rewind(record.target, or_start=record.or_start)
        elif isinstance(record, ReplacementRecord):
            self._replace_record(record.target)
        self._attach_key(record)
        if isinstance(record, MetadataRecord):
            facts.model = truncate_name(record.model) or facts.model
            facts.set_size_basis(record.size_basis)
            if record.window:
                facts.window, facts.model_window = record.window, record.model_window
            if record.tools is not None:
                self.tools = record.tools
                self.set_tools(record.tools)
            if record.system is not None:
                self.set_system([build_part(build_text(record.system))])
        elif isinstance(record, UsageRecord):
            self._add_reasoning(record.reasoning)
            if record.usage and self._last_assistant >= 0:
                self._add_usage(record, self._last_assistant)
                self._changed.append(self._last_assistant)
        elif isinstance(record, CompactionDetailsRecord) and facts.compactions:
            compaction = facts.compactions[-1]
            compaction.trigger = record.trigger or compaction.trigger
            compaction.summary_tokens = record.summary_tokens or compaction.summary_tokens
            self._changed.append(compaction.message)
        elif isinstance(record, MicroCompactionRecord):
            self._add_microcompaction(record)
        elif isinstance(record, ResetRecord):
            self.event_positions["clear", len(facts)] = self._current
            facts.begin_epoch(len(facts), "clear")

    def _attach_key(self, record: RecordCase) -> None:
        """Assign the key of a record without a message to the message before it."""
        if record.key:
            self._move_to(self._find_parent_of_record(record))
            self._message_by_key[record.key] = self._current
            self._out_of_band_keys.add(record.key)

    def _add_reasoning(self, tokens: int) -> None:
        if tokens and self._last_assistant >= 0:
            self.facts.reasoning[self._last_assistant] = self.facts.reasoning.get(self._last_assistant, 0) + tokens

    def _add_history(self, history: HistoryRecord, row: int, numbers: dict[int, int]) -> list[str]:
        path, is_known, owner = self._find_current_path(), False, -1
        notes: list[str] = []
        for number, record in enumerate(history.messages, 1):
            if record.key:
                version = record.version if isinstance(record, MessageRecord) else None
                is_current = self._message_by_key.get(record.key, -1) in path
                is_known = is_current and self._version_by_key.get(record.key) == version
            if is_known:
                continue
            notes += record.notes
            if isinstance(record, MessageRecord):
                owner = self._add_further_message(record, row, number, numbers, owner)
        if numbers:
            self.facts.record_kind[row] = RecordKind.MESSAGE
        return notes

    def _add_further_message(
        self, record: MessageRecord, row: int, number: int, numbers: dict[int, int], owner: int
    ) -> int:
        """Add message *number* of a record, and return the record's last message with a key (*owner* so far), or -1."""
        numbers[number] = message = self._add_message(record, starts_message=True)
        self.facts.share_record(message, row, number)
        if record.key:
            self._assign_key(record, message)
            return message
        if owner >= 0:
            self._further_messages.setdefault(owner, []).append(message)
        return owner

    def _add_message(self, record: MessageRecord, *, starts_message: bool = False) -> int:
        """Add a message, or further blocks of an open one (unless *starts_message*), and return its number."""
        facts, parent = self.facts, self._find_parent_of_record(record)
        message = -1 if starts_message else self._find_open_message(record, parent)
        if message >= 0:
            self._changed.append(message)
            if record.parent_key is not None:
                self._move_to(message)
            if record.time >= 0 and record.role == Role.ASSISTANT:
                facts.end_time[message] = record.time
        else:
            summary = MessageFlag.SUMMARY if record.compaction and record.compaction.has_summary else 0
            message = facts.add_message(record.role, record.flags | summary, record.time)
            self._move_trailing_compaction(parent, message)
            self._move_to(parent)
            self.parents.append(parent)
            self._current = message
            if record.message_id:
                self._messages_by_id[record.message_id] = message
            if record.has_results:
                self._results_message, self._result_group = message, record.result_group
            elif record.role == Role.ASSISTANT:
                self._results_message = -1
        summary = record.flags & MessageFlag.SUMMARY  # which already implies that it was not typed
        injected = (record.is_injected or record.role == Role.SYSTEM) and not summary
        for number, block in enumerate(record.blocks):
            facts.add_block(message, block, injected=injected or number in record.injected_blocks)
        if record.role == Role.ASSISTANT:
            self._last_assistant = message
        self._add_usage(record, message)
        return message

    def _find_open_message(self, record: MessageRecord, parent: int) -> int:
        message, results = self._messages_by_id.get(record.message_id, -1), self._results_message
        if message >= 0 or not record.has_results or results < 0 or self._result_group != record.result_group:
            return message
        return results if record.parent_key is None or parent in (results, self.parents[results]) else -1

    def _add_usage(self, record: MessageRecord | UsageRecord, message: int) -> None:
        if record.usage is None:
            return
        if previous := self._usage_by_message.get(message):
            self.facts.revise_request(previous, record.usage)
            return
        self.facts.add_request(message, record.usage, record.time)
        if isinstance(record, UsageRecord) or record.message_id:
            self._usage_by_message[message] = record.usage

    # -- branches

    def _find_parent_of_record(self, record: RecordCase) -> int:
        if record.parent_key is None:
            return self._current
        parent = self._message_by_key.get(record.parent_key, -1 if not record.parent_key else self._current)
        return self._further_messages[parent][-1] if parent in self._further_messages else parent

    def _move_to(self, message: int) -> None:
        self.revision += message != self._current
        self._current = message

    def _assign_key(self, record: MessageRecord, message: int) -> None:
        self._message_by_key[record.key] = message
        self._out_of_band_keys.discard(record.key)
        if record.version is not None:
            self._version_by_key[record.key] = record.version

    def _rewind(self, key: str, *, or_start: bool) -> None:
        """Abandon a record with its descendants, so that the next message follows the one before the record."""
        message = self._message_by_key.get(key, -1)
        is_in_context = key in self._message_by_key and message in (-1, *self._find_current_path(message))
        if or_start and not is_in_context:
            self._move_to(-1)
        elif key in self._message_by_key:
            self._move_to(message if key in self._out_of_band_keys else self.parents[message])
        self._results_message = -1

    def _find_current_path(self, since: int = 0) -> set[int]:
        path, message = set[int](), self._current
        while message >= max(since, 0):
            path.add(message)
            message = self.parents[message]
        return path

    def _replace_record(self, key: str) -> None:
        """Remove a record. If nothing was added since, the next record takes its place in the tree."""
        message = self._message_by_key.get(key, -1)
        if message < 0 or key in self._out_of_band_keys or message in self.replaced_messages:
            return
        messages = {message, *self._further_messages.get(message, ())}
        self.replaced_messages |= messages
        self.revision += 1
        if self._current in messages:
            self._current, self._results_message = self.parents[message], -1

    def find_abandoned_branches(self) -> list[set[int]]:
        """Return the messages in each abandoned branch, in file order. A fork inside a branch starts another branch."""
        if not self.revision:
            return []
        path = self._find_current_path()
        branches: list[set[int]] = []
        tips: dict[int, set[int]] = {}
        for message, parent in enumerate(self.parents):
            if message in path or message in self.replaced_messages:
                continue
            branch = tips.pop(parent, None)
            if branch is None:
                branches.append(branch := set())
            branch.add(message)
            tips[message] = branch
        return branches

    # -- compactions

    def _add_microcompaction(self, record: MicroCompactionRecord) -> None:
        facts, rows = self.facts, set[int]()
        self.event_positions["micro", len(facts.compactions)] = self._current
        for cleared_key in record.cleared_keys:
            key, number = cleared_key if isinstance(cleared_key, tuple) else (cleared_key, -1)
            if number < 0 and (call := facts.find_call_row(key)) >= 0:
                rows.add(facts.call_result[call])
            elif (message := self._message_by_key.get(key, -1)) >= 0:
                blocks = [*facts.blocks_of(message)]
                rows.update(blocks if number < 0 else blocks[number : number + 1])
        cleared = frozenset(row for row in rows if row >= 0 and facts.kind[row] in (Kind.TEXT, Kind.TOOL_RESULT))
        size, saved = record.tokens_before, record.saved_tokens
        compaction = Compaction(len(facts), "micro", record.trigger, size, cleared_blocks=cleared, saved_tokens=saved)
        facts.add_compaction(compaction)

    def _add_full_compaction(self, record: FullCompactionRecord, messages: dict[int, int]) -> None:
        """Add a full compaction. *messages*, keyed by number, are those of its record, and the first is the summary.

        A compaction without messages stands at the newest message until another follows.
        """
        has_message, messages = bool(messages), messages or {0: len(self.facts) - 1}
        summary = next(iter(messages.values()))
        if summary < self.facts.epochs[-1].message:  # its record belongs to a message before the last compaction
            return
        if record.kept_since is not None:
            prefix = Spans.from_numbers([summary, *self._find_kept_since(record.kept_since, summary)])
        elif record.context is None:
            prefix = Spans(range(summary, summary + 1), range(max(summary - record.kept_messages, 0), summary))
        else:
            found = (each for part in record.context for each in self._find_context_messages(part, messages))
            prefix = Spans.from_numbers(dict.fromkeys(each for each in found if 0 <= each < len(self.facts)))
        if record.has_summary:
            self._summary_messages.add(summary)
        self.facts.add_compaction(Compaction(summary, "full", record.trigger, record.tokens_before, prefix))
        if not has_message:  # the newest message may not be in the context any more
            self.facts.epochs[-1] = replace(self.facts.epochs[-1], start=len(self.facts))
            self._trailing_compaction = self.facts.compactions[-1]

    def _move_trailing_compaction(self, parent: int, message: int) -> None:
        """Move a compaction without a message from the message before it to the new one, if that is its child."""
        compaction, self._trailing_compaction = self._trailing_compaction, None
        if compaction and parent == compaction.message == self.facts.epochs[-1].message == message - 1:
            self._changed.append(parent)
            compaction.message = message
            self.facts.epochs[-1] = replace(self.facts.epochs[-1], message=message)

    def _find_context_messages(self, key_or_number: str | int, messages: dict[int, int]) -> tuple[int, ...]:
        """Return the messages that an element of a new context names: a record's key, or a number in this record."""
        if isinstance(key_or_number, int):
            return (messages.get(key_or_number, -1),)
        message = self._message_by_key.get(key_or_number, -1)
        return (message, *self._further_messages.get(message, ()))

    def _find_kept_since(self, since: str | int, summary: int) -> list[int]:
        """Return a summary's ancestors from record *since* on, without earlier summaries; [] if *since* is not one."""
        if isinstance(since, str):
            first = self._message_by_key.get(since, -1)
        else:
            record_messages = self.facts.record_message
            rows = range(max(since, 0), len(record_messages))
            first = next((record_messages[row] for row in rows if record_messages[row] >= 0), -1)
        parent = self.parents[first] if first >= 0 else len(self.parents)
        parent = first if since in self._out_of_band_keys else parent
        ancestors: list[int] = []
        ancestor = self.parents[summary]
        while ancestor > parent:  # parents precede their children
            ancestors.append(ancestor)
            ancestor = self.parents[ancestor]
        if ancestor != parent or (since not in self._out_of_band_keys and ancestors[-1:] != [first]):
            return []  # it is on another branch, or not in the file
        return [message for message in reversed(ancestors) if message not in self._summary_messages]

    def pop_first_changed(self, count: int) -> int | None:
        """Return the first message below *count* that changed since the last call, or None if none did."""
        changed, self._changed = min(self._changed, default=count), []
        return changed if changed < count else None

    def add_problem(self, place: int, length: int, location: str, reason: str) -> None:
        """Add a record that cannot be read or understood, with the *reason* shown to users."""
        row = self.facts.add_record(place, length, RecordKind.PROBLEM)
        self.facts.problems.append(Problem(location, reason, row))

    def set_request(self, model: Any, window: Any, tools: Any) -> None:
        """Set the model, the context window and the tools of a recorded request. An invalid window adds a problem."""
        self.facts.model = truncate_name(model) if isinstance(model, str) else None
        try:
            self.facts.window = parse_tokens(window, "context_window") or None
        except ValueError as error:
            self.facts.problems.append(Problem("request", str(error)))
        if tools:
            self.set_tools(tools)

    def append_system(self, text: str) -> None:
        """Append a paragraph to the session's system prompt."""
        if text:
            self.set_system([*get_prompt(self.facts).system, build_part(build_text(text))])

    def set_system(self, parts: Sequence[PromptPart]) -> None:
        """Set the system prompt of all later requests, in parts."""
        set_system(self.facts, parts)

    def set_tools(self, tools: Any) -> None:
        """Set the tool schemas of all later requests, in any provider's form."""
        set_tools(self.facts, tools)


class RecordContent(ABC):
    """Base class for the full text of a session, whose blocks are read again from the records that contain them.

    The last record with several messages is cached, as its messages are usually read one after another.
    """

    def __init__(self, builder: MessageBuilder, facts: Facts) -> None:
        self.builder, self.facts = builder, facts
        self._newest_row = -1
        self._newest: ParsedRecord = MetadataRecord()

    @abstractmethod
    def parse_record(self, row: int) -> ParsedRecord:
        """Read the record in a row again, and parse it."""

    def blocks(self, message: int) -> list[dict[str, Any]]:
        rows = self.facts.iterate_records(message)
        parsed = ((self._parse_cached(row), self.facts.find_ordinal_in_record(message, row)) for row in rows)
        return [dict(block) for record, number in parsed for block in _list_blocks(record, number)]

    def system(self) -> str:
        return join_system(self.builder.facts)

    def tools(self) -> list[dict[str, Any]]:
        return self.builder.tools

    def _parse_cached(self, row: int) -> ParsedRecord:
        if self._newest_row == row:
            return self._newest
        parsed = self.parse_record(row)
        if isinstance(parsed, RecordGroup | HistoryRecord):
            self._newest_row, self._newest = row, parsed
        return parsed


def _list_blocks(parsed: ParsedRecord, number: int) -> list[dict[str, Any]]:
    message = parsed
    if isinstance(parsed, HistoryRecord):
        message = parsed.messages[number - 1]
    elif isinstance(parsed, RecordGroup):
        message = list_messages(parsed)[number]
    return message.blocks if isinstance(message, MessageRecord) else []
