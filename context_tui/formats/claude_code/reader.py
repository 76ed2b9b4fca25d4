"""Scan a Claude Code file in resumable steps, and read the full text of its messages on demand."""

from __future__ import annotations

import json
import time
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import compress, groupby
from pathlib import Path
from typing import Any

from context_tui.errors import UnreadableSession
from context_tui.formats.base import Advance
from context_tui.formats.claude_code import parsing
from context_tui.formats.claude_code.fast_path import make_fast_path
from context_tui.formats.claude_code.large_records import RecordOutline, decode_outline
from context_tui.formats.claude_code.parsing import Record
from context_tui.formats.kit.branches import BRANCH_PREFIX, BranchFacts
from context_tui.formats.kit.lines import FAST_PATH_LINES, LineFile, LineReader
from context_tui.formats.kit.prompts import build_part, get_prompt, join_system, set_system, set_tools
from context_tui.formats.kit.size_note import SIZE_NOTE, parse_size_note
from context_tui.formats.kit.values import parse_blocks, parse_time_ms, parse_tokens_or_note, parse_version
from context_tui.formats.kit.writing import parse_tool_schemas
from context_tui.session.facts import Compaction, Facts, Usage
from context_tui.session.jsontext import is_nested_deeper, utf8_len
from context_tui.session.markers import SKILL_START
from context_tui.session.session import FileState, Session, SessionInfo
from context_tui.session.values import NO_MESSAGES, BlockFlag, Kind, MessageFlag, RecordKind, Role, Spans
from context_tui.text.sanitize import truncate_name


class Forks:
    """The tree that the messages in *facts* form. At a fork, several typed messages follow the same message.

    Attributes:
        parents: the message that each message follows, or -1.
        leaf: the newest message.
        revision: a number that grows whenever a branch may have been abandoned.
    """

    replaced_messages = None
    event_positions: Mapping[tuple[str, int], int] = {}

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self.parents = array("i")
        self.leaf, self.revision = -1, 0
        self._epoch_leaves: list[int] = []  # newest message at the end of each epoch
        self._prompts_below: defaultdict[int, list[int]] = defaultdict(list)
        self.forked: set[int] = set()

    def add_prompt(self, message: int) -> None:
        """Register a typed message. If another typed message follows the same parent, the parent becomes a fork."""
        parent = self.parents[message]
        siblings = self._prompts_below[parent]
        siblings.append(message)
        if parent >= 0 and len(siblings) > 1:
            self.forked.update(siblings)
            self.revision += 1

    def move_to(self, message: int) -> None:
        """Make *message* the newest one. This may abandon the current branch or resume an abandoned one."""
        old, new, parents = self.leaf, message, self.parents
        self.leaf = message
        while self.forked and old != new:
            later = max(old, new)
            if later in self.forked:
                self.revision += 1
                return
            old, new = (parents[old], new) if later == old else (old, parents[new])

    def end_epoch(self) -> None:
        """Note that a new context begins. The branch on which the old context ends does not count as abandoned."""
        self._epoch_leaves.append(self.leaf)

    def find_abandoned_branches(self) -> list[set[int]]:
        if not self.forked:
            return []
        forks = [prompts for parent, prompts in self._prompts_below.items() if parent >= 0 and len(prompts) > 1]
        epoch_starts = [epoch.message for epoch in self._facts.epochs]
        path = set[int]()
        for message in (*self._epoch_leaves, self.leaf):
            while message >= 0 and message not in path:
                path.add(message)
                message = self.parents[message]
        branch_by_message: dict[int, set[int]] = {}  # message to its branch
        for prompts in forks:
            for _, group in groupby(prompts, key=lambda message: bisect_right(epoch_starts, message)):
                branches = list(group)
                live = next((message for message in branches if message in path), branches[-1])
                branch_by_message.update((message, {message}) for message in branches if message != live)
        for message, parent in enumerate(self.parents):
            if parent in branch_by_message and message not in branch_by_message and message not in path:
                branch_by_message[message] = branch_by_message[parent]
                branch_by_message[message].add(message)
        return list({id(branch): branch for _, branch in sorted(branch_by_message.items())}.values())


MAIN_CHAIN = ""
UNNAMED_SIDECHAIN = "sidechain"
"""Id of a sidechain whose records name no agent."""
VERSION_RECORDS, MAX_VERSION_RECORD_BYTES = 20, 100_000
"""Number of the newest records in which the version is looked up, and their maximum size in bytes."""


class ClaudeCodeScanner:
    """Scanner for one session in a file: the main chain, an agent's sidechain, or an abandoned branch."""

    def __init__(self, path: Path, info: SessionInfo) -> None:
        self._file = LineFile(path)
        self._info = info
        self._requested_chain = MAIN_CHAIN if info.id.startswith(BRANCH_PREFIX) else info.id
        self._fast_path = make_fast_path
        self._has_main_begun = False  # after a sidechain that seemed the only chain of the file
        self._reset(self._requested_chain)

    def _reset(self, chain: str) -> None:
        self._chain = chain
        self._outline: RecordOutline | None = None  # of the record that another process decoded
        self._first_sidechain: str | None = None
        self.facts = Facts()
        self._lines = LineReader(self._file, self.facts, parsing.parse_line)
        self._message_by_api_id: dict[str, int] = {}  # API message id to message
        self._usage_by_message: dict[int, Usage] = {}
        self._message_by_uuid: dict[int, int] = {}  # hash of a record's uuid to its message, or to the one above it
        self._results_by_reply: dict[int, int] = {}  # assistant message to the user message of its results
        self._forks = Forks(self.facts)
        self._parents = self._forks.parents
        self._live_branch = BranchFacts(self.facts, self._forks, self._info)
        self._row_by_uuid: dict[str, int] = {}  # record uuid to its row, for the first _rows_read rows
        self._rows_read = 0
        self._epoch_start: Record | None = None  # the boundary or clear after which the next message begins a context
        self._shapes: dict[str, dict[str, Any]] = {}  # system prompt and tools of requests (since 2.1.330), by hash
        self._reminders = -1  # message of the texts injected between a boundary and its summary
        self._notes: list[str] = []  # problems of the current record
        self._separate_prompt = -1  # typed text in a record of results, a separate message

    @property
    def progress(self) -> float:
        return self._lines.progress

    def advance(self, budget_s: float | None = None) -> Advance:
        deadline = None if budget_s is None else time.perf_counter() + budget_s
        old_count, self._first_revised = len(self.facts), len(self.facts)
        if self._lines.torn:  # the row of an incomplete line may become another record's
            self._rows_read = min(self._rows_read, len(self.facts.record_kind) - 1)
        fast_path = self._fast_path(self) if self._chain == self._requested_chain == MAIN_CHAIN else None
        end = self._lines.advance(self._append_record, deadline, fast_path, self._append_large_record)
        if self._has_main_begun and self._chain != self._requested_chain:
            self._reset(MAIN_CHAIN)
            return self.advance(budget_s)._replace(revised_from=0)
        has_no_main_chain = len(self.facts) == 0 and self._chain == MAIN_CHAIN and not self._has_main_begun
        if end and has_no_main_chain and self._first_sidechain is not None:
            self._reset(self._first_sidechain)
            return self.advance(budget_s)
        if end and not any(kind != RecordKind.PROBLEM for kind in self.facts.record_kind):
            raise UnreadableSession(f"{self._file.path}: holds no known record")
        revised = self._live_branch.find_first_changed(self._first_revised if self._first_revised < old_count else None)
        return Advance(len(self.facts) - old_count, revised, end)

    def session(self) -> Session:
        if self._chain != MAIN_CHAIN and not len(self.facts):
            raise UnreadableSession(f"{self._file.path}: unknown session {self._chain!r}")
        facts = self._live_branch.select_facts()
        facts.agent_version = self._find_version()
        return Session(facts, ClaudeCodeContent(self._file, facts), self._info, len(facts))

    def _find_version(self) -> tuple[int, ...]:
        lengths = self.facts.record_length
        for row in reversed(range(max(len(lengths) - VERSION_RECORDS, 0), len(lengths))):
            if self.facts.record_kind[row] != RecordKind.PROBLEM and lengths[row] <= MAX_VERSION_RECORD_BYTES:
                with suppress(ValueError):
                    line = ClaudeCodeContent(self._file, self.facts).read_line(row)
                    if version := parse_version(parsing.parse_line(line).version):
                        return version
        return ()

    # -- lines

    def _append_record(self, record: Record, place: int, length: int) -> Iterator[bool]:
        """Append a record. If its uuid is known, it may be a copy, so first find the rows of all earlier records."""
        if hash(record.uuid) in self._message_by_uuid:
            content = ClaudeCodeContent(self._file, self.facts)
            for row in range(self._rows_read, len(self.facts.record_kind)):
                if self.facts.record_kind[row] != RecordKind.PROBLEM:
                    self._row_by_uuid.setdefault(parsing.parse_line(content.read_line(row)).uuid or "", row)
                self._rows_read = row + 1
                if row % FAST_PATH_LINES == 0:
                    yield True
        self._process_record(record, place, length)

    def _append_large_record(self, start: int, length: int) -> Iterator[bool]:
        self._outline = yield from decode_outline(self._file, start, length)
        yield from self._append_record(self._outline.record, start, length)
        self._outline = None

    # -- records

    def _process_record(self, record: Record, place: int, length: int) -> None:
        facts, message, record_type = self.facts, -1, record.type
        if (record.isSidechain or self._chain != MAIN_CHAIN) and self._is_other_chain(record):
            is_message = record_type in parsing.MESSAGE_TYPES
            facts.add_record(place, length, RecordKind.MESSAGE if is_message else RecordKind.METADATA)
            return
        is_copy = hash(record.uuid) in self._message_by_uuid and self._is_copy(record, place, length)
        if not is_copy and parsing.is_clear(record):
            self._epoch_start = record
        if is_copy:
            pass  # a copy of a known record
        elif record_type == "assistant" and record.message is not None:
            message = self._append_assistant(record)
        elif record_type == "user" and record.message is not None:
            message = self._append_user(record, place, length)
        elif record_type == "attachment" and record.attachment is not None:
            if blocks := self._extract_blocks(record):
                typed = parsing.is_typed_attachment(record.attachment)
                message = self._append_prompt(record, blocks) if typed else self._append_injected(record)
        elif record_type == "system":
            self._process_system(record)
        elif record_type == "api-request-shape" and record.shape is not None:
            self._shapes[record.shapeHash or ""] = record.shape
        elif record_type == "api-request" and not (record.querySource or "").startswith("agent"):
            shape = self._shapes.get(record.shapeHash or "")
            if shape is not None and not is_nested_deeper(shape):
                set_system(self.facts, [*map(build_part, parse_blocks(shape.get("system")))])
                set_tools(self.facts, parse_tool_schemas(shape.get("tools")))
        elif record_type == SIZE_NOTE:
            facts.set_size_basis(parse_size_note({SIZE_NOTE: record.context_tui}))
        elif record_type in parsing.MESSAGE_TYPES or record_type not in parsing.METADATA_TYPES:
            problem = f"unknown record type {truncate_name(repr(record_type), 80)}"
            if record_type in parsing.MESSAGE_TYPES or record_type == "attachment":
                problem = f"record of type {record_type!r} without content"
            elif record_type is None:
                problem = "not a record: it has no type"
            self._lines.add_problem(place, length, problem)
            return
        row = facts.add_record(place, length, RecordKind.MESSAGE if message >= 0 else RecordKind.METADATA, message)
        for note in self._notes:
            self._lines.add_note(row, note)
        self._notes.clear()
        if self._separate_prompt >= 0:
            message, self._separate_prompt = self._separate_prompt, -1
            facts.share_record(message, row)
        if record.uuid and not is_copy:
            above = self._message_by_uuid.get(hash(record.parentUuid), -1)
            self._message_by_uuid[hash(record.uuid)] = message if message >= 0 else above
        if message >= 0:
            self._forks.move_to(message)

    def _extract_blocks(self, record: Record) -> list[dict[str, Any]]:
        """Return the blocks of a record, truncated if another process decoded the record."""
        return parsing.extract_blocks(record) if self._outline is None else self._outline.blocks

    def _add_block(self, message: int, block: dict[str, Any], *, injected: bool = False) -> int:
        row = self.facts.add_block(message, block, injected=injected)
        if self._outline is not None:
            self.facts.set_block_size(row, self._outline.sizes[id(block)])
        return row

    def _note_read_range(self, result: int, place: int, length: int) -> None:
        """Record the range of lines that a Read returned. *result* must be the only tool result in its record."""
        facts = self.facts
        call_block = facts.call_use[facts.call[result]]
        if call_block >= 0 and facts.path[call_block] >= 0:
            read_range = parsing.find_read_range(self._file.data, place, place + length)
            if read_range is not None:
                facts.read_range[result] = read_range

    def _is_copy(self, record: Record, place: int, length: int) -> bool:
        row = self._row_by_uuid.get(record.uuid or "", -1)
        if row < 0:
            return False
        line = ClaudeCodeContent(self._file, self.facts).read_line(row)
        repeated_line = self._file.read_range(place, length)
        if line == repeated_line:
            return True
        earlier, repeated = parsing.parse_line(line), parsing.parse_line(repeated_line)
        names = ("type", "subtype", "compactMetadata", "microcompactMetadata", "isCompactSummary")
        is_same = all(getattr(earlier, name) == getattr(repeated, name) for name in names)
        return is_same and parsing.extract_blocks(earlier) == parsing.extract_blocks(repeated)

    def _is_other_chain(self, record: Record) -> bool:
        chain = (record.agentId or UNNAMED_SIDECHAIN) if record.isSidechain else MAIN_CHAIN
        if record.isSidechain and self._first_sidechain is None and record.type in parsing.MESSAGE_TYPES:
            self._first_sidechain = chain
        if chain == MAIN_CHAIN == self._requested_chain and record.type in parsing.MESSAGE_TYPES:
            self._has_main_begun = True
        return chain != self._chain

    def _add_message(self, role: Role, record: Record, flags: int = 0) -> int:
        message = self.facts.add_message(role, flags, parse_time_ms(record.timestamp))
        self._parents.append(self._message_by_uuid.get(hash(record.parentUuid), -1))
        if self._epoch_start is not None:
            self._begin_epoch(message, self._epoch_start)
        return message

    def _append_assistant(self, record: Record) -> int:
        api_message = record.message
        assert api_message is not None
        key = api_message.id or record.uuid or ""
        message = self._message_by_api_id.get(key, -1) if key else -1
        synthetic = api_message.model == "<synthetic>"
        if message < 0:
            flags = MessageFlag.SYNTHETIC if synthetic else 0
            if record.isApiErrorMessage:
                flags = MessageFlag.SYNTHETIC | MessageFlag.NOT_SENT
            message = self._add_message(Role.ASSISTANT, record, flags)
            self._message_by_api_id[key] = message
        else:
            time = parse_time_ms(record.timestamp)
            self.facts.end_time[message] = time if time >= 0 else self.facts.end_time[message]
            self._first_revised = min(self._first_revised, message)
        for block in self._extract_blocks(record):
            self._add_block(message, block)
        if api_message.model and not synthetic:
            self.facts.model = api_message.model
        if reason := parsing.find_cache_miss_reason(api_message.diagnostics):
            self.facts.cache_misses[message] = reason
        if api_message.usage is not None and not synthetic:
            try:
                is_finished = api_message.stop_reason is not None
                self._update_usage(message, parsing.parse_usage(api_message.usage, is_finished, record.version))
            except ValueError as error:
                self._notes.append(str(error))
        return message

    def _update_usage(self, message: int, usage: Usage | None) -> None:
        """Update a reply's usage from one of its lines. The last line with the most output tokens counts."""
        previous = self._usage_by_message.get(message)
        if usage is None or (previous is not None and usage.output <= previous.output and previous.output_trusted):
            return
        if previous is None:
            self._usage_by_message[message] = usage
            self.facts.add_request(message, usage, self.facts.time[message])
        elif usage.output >= previous.output:
            self.facts.revise_request(previous, usage)

    def _append_user(self, record: Record, place: int, length: int) -> int:
        blocks = self._extract_blocks(record)
        if record.isCompactSummary:
            return self._append_summary(record, blocks)
        if record.isVisibleInTranscriptOnly:
            return -1
        answers = [block.get("tool_use_id") for block in blocks if parsing.is_result(block)]
        if not answers:
            if blocks and all(parsing.is_injected(record, block) for block in blocks):
                return self._append_injected(record)
            return self._append_prompt(record, blocks)
        message = self._find_results_message(record, answers)
        selected = parsing.select_blocks(blocks, record, typed=False)
        rows = [self._add_block(message, block, injected=not parsing.is_result(block)) for block in selected]
        results = [row for row, block in zip(rows, selected, strict=True) if parsing.is_result(block)]
        if len(results) == 1:
            self._note_read_range(results[0], place, length)
        if typed := parsing.select_blocks(blocks, record, typed=True):
            self._separate_prompt = self._append_prompt(record, typed, below=message)
        return message

    def _append_prompt(self, record: Record, blocks: list[dict[str, Any]], below: int = -1) -> int:
        """Append typed text as a separate message. *below* is the message of the results in the same record, if any."""
        message = self._add_message(Role.USER, record)
        for block in blocks:
            self._add_block(message, block, injected=parsing.is_injected(record, block))
        if below >= 0:  # a record with results never begins another branch
            self._parents[message] = below
        else:
            self._forks.add_prompt(message)
        return message

    def find_answered_call(self, ids: list[str]) -> int:
        """Return the call whose reply the results follow: the first of *ids* without a result, or else the first.

        A record may repeat results of earlier calls, and these say less about its place than new results.
        """
        calls = [self.facts.find_call_row(call_id) for call_id in ids]
        return next((call for call in calls if call >= 0 and self.facts.call_result[call] < 0), calls[0])

    def _find_results_message(self, record: Record, answers: list[object]) -> int:
        facts = self.facts
        call = self.find_answered_call([call_id if isinstance(call_id, str) else "" for call_id in answers])
        call_block = facts.call_use[call] if call >= 0 else -1
        reply = facts.block_message[call_block] if call_block >= 0 else -1
        message = self._results_by_reply.get(reply, -1) if reply >= 0 else -1
        if message < 0:
            message = self._add_message(Role.USER, record)
            if reply >= 0:
                self._results_by_reply[reply] = message
                self._parents[message] = reply
        self._first_revised = min(self._first_revised, message)
        return message

    def _append_injected(self, record: Record) -> int:
        """Append injected text to the newest message, or (after a reply or a boundary) as a separate message."""
        message = len(self.facts) - 1
        if self._epoch_start is not None and self._epoch_start.subtype == "compact_boundary":
            if self._reminders < 0:
                boundary, self._epoch_start = self._epoch_start, None
                self._reminders = self._add_message(Role.USER, record)
                self._epoch_start = boundary
            message = self._reminders
        elif message < 0 or self.facts.role[message] != Role.USER or self._epoch_start is not None:
            message = self._add_message(Role.USER, record)
        self._first_revised = min(self._first_revised, message)
        for block in self._extract_blocks(record):
            self._add_block(message, block, injected=True)
        return message

    def _append_summary(self, record: Record, blocks: list[dict[str, object]]) -> int:
        boundary, self._epoch_start = self._epoch_start or record, None
        message = self._add_message(Role.USER, record, MessageFlag.SUMMARY)
        for block in blocks:
            self._add_block(message, block)
        self._begin_epoch(message, boundary)
        return message

    # -- epochs

    def _process_system(self, record: Record) -> None:
        if record.subtype == "compact_boundary":
            self._epoch_start = record
            self._notes += _parse_size(record.compactMetadata or {}, "preTokens")[1]
        elif record.subtype == "microcompact_boundary":
            metadata = record.microcompactMetadata or {}
            (before, notes), (saved, more) = (_parse_size(metadata, name) for name in ("preTokens", "tokensSaved"))
            self._notes += (*notes, *more)
            facts, trigger = self.facts, _parse_text(metadata.get("trigger"))
            rows = (facts.find_call_row(call) for call in _parse_ids(metadata.get("compactedToolIds")))
            results = (facts.call_result[row] for row in rows if row >= 0)
            cleared = frozenset(row for row in results if row >= 0)
            compaction = Compaction(len(facts), "micro", trigger, before, version=parse_version(record.version))
            facts.add_compaction(replace(compaction, cleared_blocks=cleared, saved_tokens=saved))

    def _begin_epoch(self, message: int, cause: Record) -> None:
        """Begin a new context at *message*. Its *cause* is the record of a clear, a boundary, or the summary itself."""
        self._epoch_start = None
        self._forks.end_epoch()
        if parsing.is_clear(cause):
            self.facts.begin_epoch(message, "clear")
            return
        metadata = cause.compactMetadata or {}
        start = self._reminders if self._reminders >= 0 else message
        prefix, missing = self._find_preserved(metadata, start)
        if leading := range(start, message + bool(self.facts.flags[message] & MessageFlag.SUMMARY)):
            prefix = Spans(leading, *prefix.ranges)
        self._reminders = -1
        trigger, tokens = _parse_text(metadata.get("trigger")), _parse_size(metadata, "preTokens")[0]
        version = parse_version(cause.version)
        compaction = Compaction(message, "full", trigger, tokens, prefix, missing_messages=missing, version=version)
        self.facts.add_compaction(compaction)

    def _find_preserved(self, metadata: dict[str, object], end: int) -> tuple[Spans, int]:
        """Return the messages that a compaction boundary keeps, and the number of kept records that the file lacks."""
        preserved, segment = metadata.get("preservedMessages"), metadata.get("preservedSegment")
        if isinstance(preserved, dict) and isinstance(preserved.get("uuids"), list):
            uuids = _parse_ids(preserved["uuids"])
            messages = dict.fromkeys(self._message_by_uuid.get(hash(uuid), -1) for uuid in uuids)
            missing = sum(1 for uuid in uuids if hash(uuid) not in self._message_by_uuid)
            return Spans.from_numbers(message for message in messages if 0 <= message < end), missing
        if isinstance(segment, dict):
            ends = _parse_ids([segment.get(name) for name in ("headUuid", "tailUuid")])
            head, tail = (self._message_by_uuid.get(hash(uuid), -1) for uuid in ends)
            missing = len({uuid for uuid in ends if hash(uuid) not in self._message_by_uuid})
            return Spans(range(head, min(tail + 1, end)) if head >= 0 else range(0)), missing
        return NO_MESSAGES, 0


def _parse_size(metadata: dict[str, object], name: str) -> tuple[int | None, tuple[str, ...]]:
    size, notes = parse_tokens_or_note(metadata, name)
    return None if metadata.get(name) is None or notes else size, notes


def _parse_ids(value: object) -> list[str]:
    """Return a list of ids. Anything but text becomes an empty id, which matches no record."""
    return [item if isinstance(item, str) else "" for item in value] if isinstance(value, list) else []


def _parse_text(value: object) -> str | None:
    return truncate_name(value) if isinstance(value, str) else None


class ClaudeCodeContent:
    """The full text of a session, read again from its lines on demand."""

    def __init__(self, file: LineFile, facts: Facts) -> None:
        self.file, self.facts = file, facts
        self._file_states: dict[int, list[tuple[str, FileState]]] = {}  # by message
        self._skills: dict[int, list[tuple[str, int]]] = {}  # by message: first line and bytes of each skill

    def read_line(self, record: int) -> bytes:
        return self.file.read_range(self.facts.record_place[record], self.facts.record_length[record])

    def blocks(self, message: int) -> list[dict[str, Any]]:
        blocks: list[dict[str, Any]] = []
        for row in self.facts.iterate_records(message):
            try:
                record = parsing.parse_line(self.read_line(row))
            except ValueError as error:
                raise UnreadableSession(f"{self.file.path}: message {message:,} cannot be read: {error}") from None
            selected = self.select_message_blocks(message, row, record)
            blocks.extend(parsing.extract_blocks(record) if selected is None else selected)
        return blocks

    def select_message_blocks(self, message: int, row: int, record: parsing.Record) -> list[dict[str, Any]] | None:
        """Return the blocks of *message* if its record holds two messages (results and typed text), else None."""
        if row not in self.facts.shared_records:
            return None
        return parsing.select_blocks(parsing.extract_blocks(record), record, typed=message in self.facts.shared_record)

    def raw(self, record: int) -> str:
        return self.file.format_line(self.facts.record_place[record], self.facts.record_length[record])

    def read_file_states(self, messages: Iterable[int]) -> dict[str, FileState]:
        states: dict[str, FileState] = {}
        for message in messages:
            if message not in self._file_states:
                self._file_states[message] = list(self._iter_file_states(message))
            for path, state in self._file_states[message]:
                earlier = states.get(path)
                if earlier and earlier.is_written and not state.is_written:
                    state = state._replace(is_written=True, message=earlier.message)
                states[path] = state
        return states

    def _iter_file_states(self, message: int) -> Iterator[tuple[str, FileState]]:
        facts = self.facts
        if message < len(facts) and any(facts.tool_name(row) in parsing.FILE_TOOLS for row in facts.blocks_of(message)):
            for row in facts.iterate_records(message):
                if found := parsing.parse_file_state(self.read_line(row), message):
                    yield found

    def read_skill_sizes(self, end: int) -> list[int]:
        sizes: dict[str, int] = {}
        for message in range(min(end, len(self.facts))):
            if message not in self._skills:
                self._skills[message] = list(self._iter_skills(message))
            sizes.update(self._skills[message])
        return [*sizes.values()]

    def _iter_skills(self, message: int) -> Iterator[tuple[str, int]]:
        """Yield the first line and the size in bytes of each skill whose text is injected into *message*."""
        facts = self.facts
        rows = [*facts.blocks_of(message)]
        injected = [facts.kind[row] == Kind.TEXT and facts.block_flags[row] & BlockFlag.INJECTED for row in rows]
        for block in compress(self.blocks(message), injected) if any(injected) else ():
            text = str(block.get("text") or "")
            if text.startswith(SKILL_START):
                yield text.partition("\n")[0], utf8_len(text)

    def system(self) -> str:
        return join_system(self.facts)

    def tools(self) -> list[dict[str, Any]]:
        return [json.loads(part.text) for part in get_prompt(self.facts).tools]

    def is_unchanged(self) -> bool:
        return self.file.is_unchanged()
