"""The resumable pass over a Claude Code file: records to facts.

Lines of one API message are merged by ``message.id``; all results that answer one assistant message are one user
message; what the runtime injected joins the user message before it; side records are accounted for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from context_tui.errors import UnreadableSession
from context_tui.formats.base import Advance
from context_tui.formats.claude_code import parsing
from context_tui.formats.claude_code.content import ClaudeCodeContent
from context_tui.formats.claude_code.fast_path import fast_path
from context_tui.formats.claude_code.forks import Forks
from context_tui.formats.claude_code.large import Outline, outlined
from context_tui.formats.claude_code.parsing import Record
from context_tui.formats.kit.branches import BRANCH, LiveBranch
from context_tui.formats.kit.lines import FEW, LineFile, LineReader
from context_tui.formats.kit.values import epoch_ms, recorded_tokens
from context_tui.session.facts import Compaction, Facts, Usage
from context_tui.session.session import Session, SessionInfo
from context_tui.session.validation import truncate_name
from context_tui.session.values import NO_MESSAGES, MessageFlag, RecordKind, Role, Spans

MAIN = ""
UNNAMED = "sidechain"
"""Id of a sidechain whose records do not name their agent."""


class ClaudeCodeScanner:
    """Reads the main chain of a file, the sidechain whose agent id is asked for, or a branch that was left."""

    def __init__(self, path: Path, info: SessionInfo) -> None:
        self._file = LineFile(path)
        self._info = info
        self._wanted = MAIN if info.id.startswith(BRANCH) else info.id
        self._fast_path = fast_path
        self._main_began = False  # after a sidechain was taken for the only one in the file
        self._start(self._wanted)

    def _start(self, chain: str) -> None:
        self._chain = chain
        self._large: Outline | None = None  # the record that was decoded elsewhere
        self._first_sidechain: str | None = None
        self.facts = Facts()
        self._lines = LineReader(self._file, self.facts, parsing.parse_line)
        self._by_id: dict[str, int] = {}  # API message id to message
        self._request: dict[int, Usage] = {}
        self._node: dict[str, int] = {}  # record uuid to the message that it is part of or hangs below
        self._results: dict[int, int] = {}  # assistant message to the user message of its results
        self._forks = Forks(self.facts)
        self._parent = self._forks.parents
        self._live = LiveBranch(self.facts, self._forks, self._info)
        self._row_of: dict[str, int] = {}  # record uuid to its row, as far as copies had to be looked for
        self._rows_read = 0
        self._anew: Record | None = None  # the boundary or the clear at which the next message begins a context
        self._notes: list[str] = []  # what could not be understood in the record that is read
        self._apart = -1  # what was typed in a record of results, a message of its own

    @property
    def progress(self) -> float:
        return self._lines.progress

    def advance(self, budget_s: float | None = None) -> Advance:
        deadline = None if budget_s is None else time.perf_counter() + budget_s
        before, self._revised = len(self.facts), len(self.facts)
        if self._lines.torn:  # its row may become another record's
            self._rows_read = min(self._rows_read, len(self.facts.record_kind) - 1)
        usual = self._chain == self._wanted == MAIN
        ended = self._lines.advance(self._take, deadline, self._fast_path(self) if usual else None, self._take_large)
        if self._main_began and self._chain != self._wanted:
            self._start(MAIN)
            return replace(self.advance(budget_s), revised_from=0)
        alone = len(self.facts) == 0 and self._chain == MAIN and not self._main_began
        if ended and alone and self._first_sidechain is not None:
            self._start(self._first_sidechain)
            return self.advance(budget_s)
        if ended and not any(kind != RecordKind.PROBLEM for kind in self.facts.record_kind):
            raise UnreadableSession(f"{self._file.path}: holds no known record")
        revised = self._live.first_changed(self._revised if self._revised < before else None)
        return Advance(len(self.facts) - before, revised, ended)

    def session(self) -> Session:
        if self._chain != MAIN and not len(self.facts):
            raise UnreadableSession(f"{self._file.path}: unknown session {self._chain!r}")
        facts = self._live.facts()
        return Session(facts, ClaudeCodeContent(self._file, facts), self._info, len(facts))

    # -- lines

    def _take(self, record: Record, place: int, length: int) -> Iterator[bool]:
        """Take in a record; where it may be a copy, when it is known where all before it are."""
        if record.uuid is not None and record.uuid in self._node:
            content = ClaudeCodeContent(self._file, self.facts)
            for row in range(self._rows_read, len(self.facts.record_kind)):
                if self.facts.record_kind[row] != RecordKind.PROBLEM:
                    self._row_of.setdefault(parsing.parse_line(content.line(row)).uuid or "", row)
                self._rows_read = row + 1
                if row % FEW == 0:
                    yield True
        self._read(record, place, length)

    def _take_large(self, start: int, length: int) -> Iterator[bool]:
        """Take in a record that takes long to decode, which is done elsewhere.

        Raises:
            ValueError: it cannot be decoded there.
        """
        self._large = yield from outlined(self._file, start, length)
        yield from self._take(self._large.record, start, length)
        self._large = None

    # -- records

    def _read(self, record: Record, place: int, length: int) -> None:
        facts = self.facts
        message, kind = -1, RecordKind.METADATA
        what = record.type
        if (record.isSidechain or self._chain != MAIN) and self._elsewhere(record):
            facts.add_record(place, length, RecordKind.MESSAGE if what in parsing.MESSAGE_TYPES else kind)
            return
        twice = record.uuid is not None and record.uuid in self._node and self._is_copy(record, place, length)
        if not twice and parsing.clears(record):
            self._anew = record
        if twice:
            pass  # a copy of what is there already
        elif what == "assistant" and record.message is not None:
            message = self._assistant(record)
        elif what == "user" and record.message is not None:
            message = self._user(record, place, length)
        elif what == "attachment" and record.attachment is not None:
            message = self._attached(record) if self._blocks(record) else -1
        elif what == "system":
            self._system(record)
        elif what in parsing.MESSAGE_TYPES or what not in parsing.METADATA_TYPES:
            empty = what in parsing.MESSAGE_TYPES or what == "attachment"
            unknown = (
                f"unknown record type {truncate_name(repr(what), 80)}"
                if what is not None
                else "not a record: it has no type"
            )
            self._lines.problem(place, length, f"record of type {what!r} without content" if empty else unknown)
            return
        if message >= 0:
            kind = RecordKind.MESSAGE
        row = facts.add_record(place, length, kind, message)
        for note in self._notes:
            self._lines.note(row, note)
        self._notes.clear()
        if self._apart >= 0:
            message, self._apart = self._apart, -1
            facts.share_record(message, row)
        if record.uuid and not twice:
            self._node[record.uuid] = message if message >= 0 else self._node.get(record.parentUuid or "", -1)
        if message >= 0:
            self._forks.go_on(message)

    def _blocks(self, record: Record) -> list[dict[str, Any]]:
        """The blocks of a record; of one that was decoded elsewhere, what is known of them."""
        return parsing.blocks(record) if self._large is None else self._large.blocks

    def _add(self, message: int, block: dict[str, Any], *, injected: bool = False) -> int:
        row = self.facts.add_block(message, block, injected=injected)
        if self._large is not None:
            self.facts.set_block_size(row, self._large.measures_of(block))
        return row

    def _note_part(self, result: int, place: int, length: int) -> None:
        """Keep which lines of a file the only result of a record holds, where it is of a read."""
        facts = self.facts
        use = facts.call_use[facts.call[result]]
        if use >= 0 and facts.path[use] >= 0:
            part = parsing.part_shown(self._file.data, place, place + length)
            if part is not None:
                facts.read_range[result] = part

    def _is_copy(self, record: Record, place: int, length: int) -> bool:
        """Whether a record says what one with its uuid has said before."""
        row = self._row_of.get(record.uuid or "", -1)
        if row < 0:
            return False
        line, again = ClaudeCodeContent(self._file, self.facts).line(row), self._file.read(place, length)
        if line == again:
            return True
        before, now = parsing.parse_line(line), parsing.parse_line(again)
        known = ("type", "subtype", "compactMetadata", "microcompactMetadata", "isCompactSummary")
        same = all(getattr(before, name) == getattr(now, name) for name in known)
        return same and parsing.blocks(before) == parsing.blocks(now)

    def _elsewhere(self, record: Record) -> bool:
        """Whether a record is of another chain than the one that is read."""
        chain = (record.agentId or UNNAMED) if record.isSidechain else MAIN
        if record.isSidechain and self._first_sidechain is None and record.type in parsing.MESSAGE_TYPES:
            self._first_sidechain = chain
        if chain == MAIN == self._wanted and record.type in parsing.MESSAGE_TYPES:
            self._main_began = True
        return chain != self._chain

    def _new(self, role: Role, record: Record, flags: int = 0) -> int:
        message = self.facts.add_message(role, flags, epoch_ms(record.timestamp))
        self._parent.append(self._node.get(record.parentUuid or "", -1))
        if self._anew is not None:
            self._begin_epoch(message, self._anew)
        return message

    def _assistant(self, record: Record) -> int:
        api = record.message
        assert api is not None
        key = api.id or record.uuid or ""
        message = self._by_id.get(key, -1) if key else -1
        synthetic = api.model == "<synthetic>"
        if message < 0:
            flags = MessageFlag.SYNTHETIC if synthetic else 0
            if record.isApiErrorMessage:
                flags = MessageFlag.SYNTHETIC | MessageFlag.NOT_SENT
            message = self._new(Role.ASSISTANT, record, flags)
            self._by_id[key] = message
        else:
            ended = epoch_ms(record.timestamp)
            self.facts.end_time[message] = ended if ended >= 0 else self.facts.end_time[message]
            self._revised = min(self._revised, message)
        for block in self._blocks(record):
            self._add(message, block)
        if api.model and not synthetic:
            self.facts.model = api.model
        if why := parsing.cache_miss_in(api.diagnostics):
            self.facts.cache_misses[message] = why
        if api.usage is not None and not synthetic:
            try:
                self._usage(message, parsing.usage_in(api.usage, api.stop_reason is not None, record.version))
            except ValueError as error:
                self._notes.append(str(error))
        return message

    def _usage(self, message: int, usage: Usage | None) -> None:
        """Once per API message: of its lines, the last with the most output counts."""
        known = self._request.get(message)
        if usage is None or (known is not None and usage.output <= known.output and known.output_trusted):
            return
        if known is None:
            self._request[message] = usage
            self.facts.add_request(message, usage, self.facts.time[message])
        elif usage.output >= known.output:
            self.facts.revise_request(known, usage)

    def _user(self, record: Record, place: int, length: int) -> int:
        found = self._blocks(record)
        if record.isCompactSummary:
            return self._summary(record, found)
        if record.isVisibleInTranscriptOnly:
            return -1
        answers = [block.get("tool_use_id") for block in found if parsing.is_result(block)]
        if not answers:
            if found and all(parsing.injected(record, block) for block in found):
                return self._injected(record)
            return self._typed(record, found)
        message = self._results_message(record, answers)
        shown = parsing.shown(found, record, typed=False)
        rows = [self._add(message, block, injected=not parsing.is_result(block)) for block in shown]
        results = [row for row, block in zip(rows, shown, strict=True) if parsing.is_result(block)]
        if len(results) == 1:
            self._note_part(results[0], place, length)
        if typed := parsing.shown(found, record, typed=True):
            self._apart = self._typed(record, typed, below=message)
        return message

    def _typed(self, record: Record, found: list[dict[str, Any]], below: int = -1) -> int:
        """What a person typed is a message of its own, below that of the record's results where it has some."""
        message = self._new(Role.USER, record)
        for block in found:
            self._add(message, block, injected=parsing.injected(record, block))
        if below >= 0:  # beside results nobody goes back to another beginning
            self._parent[message] = below
        else:
            self._forks.typed(message)
        return message

    def call_answered(self, ids: list[str]) -> int:
        """The call that says where a record with results for these *ids* belongs: the first that still waits for one.

        Ids may come again in a record, and what answers a call a second time says less. The first, where none waits.
        """
        calls = [self.facts.call_row(call_id) for call_id in ids]
        return next((call for call in calls if call >= 0 and self.facts.call_result[call] < 0), calls[0])

    def _results_message(self, record: Record, answers: list[object]) -> int:
        """All results that answer one assistant message are one user message."""
        facts = self.facts
        call = self.call_answered([call_id if isinstance(call_id, str) else "" for call_id in answers])
        use = facts.call_use[call] if call >= 0 else -1
        owner = facts.block_message[use] if use >= 0 else -1
        message = self._results.get(owner, -1) if owner >= 0 else -1
        if message < 0:
            message = self._new(Role.USER, record)
            if owner >= 0:
                self._results[owner] = message
                self._parent[message] = owner
        elif message < self._revised:
            self._revised = message
        return message

    def _attached(self, record: Record) -> int:
        """An attachment is put in by the runtime, but for what was typed while the model was at work."""
        if record.attachment is not None and parsing.typed_attachment(record.attachment):
            return self._typed(record, self._blocks(record))
        return self._injected(record)

    def _injected(self, record: Record) -> int:
        """What the runtime put in joins the user message before it, or is one of its own after an assistant."""
        last = len(self.facts) - 1
        if last < 0 or self.facts.role[last] != Role.USER or self._anew is not None:
            last = self._new(Role.USER, record)
        elif last < self._revised:
            self._revised = last
        for block in self._blocks(record):
            self._add(last, block, injected=True)
        return last

    def _summary(self, record: Record, found: list[dict[str, object]]) -> int:
        boundary, self._anew = self._anew or record, None
        message = self._new(Role.USER, record, MessageFlag.SUMMARY)
        for block in found:
            self._add(message, block)
        self._begin_epoch(message, boundary)
        return message

    # -- epochs

    def _system(self, record: Record) -> None:
        if record.subtype == "compact_boundary":
            self._anew = record
            self._notes += filter(None, [_size(record.compactMetadata or {}, "preTokens")[1]])
        elif record.subtype == "microcompact_boundary":
            about = record.microcompactMetadata or {}
            self._notes += filter(None, [_size(about, name)[1] for name in ("preTokens", "tokensSaved")])
            calls = about.get("compactedToolIds")
            facts = self.facts
            rows = (facts.call_row(call) for call in _texts(calls))
            results = (facts.call_result[row] for row in rows if row >= 0)
            facts.add_compaction(
                Compaction(
                    len(facts),
                    "micro",
                    _text(about.get("trigger")),
                    _size(about, "preTokens")[0],
                    cleared_blocks=frozenset(row for row in results if row >= 0),
                    saved_tokens=_size(about, "tokensSaved")[0],
                    version=parsing.version_of(record.version),
                )
            )

    def _begin_epoch(self, message: int, first: Record) -> None:
        """Begin an epoch at *message* because of the record *first*: a clear, or a boundary (or the summary itself)."""
        self._anew = None
        self._forks.end_epoch()
        if parsing.clears(first):
            self.facts.begin_epoch(message, "clear")
            return
        about = first.compactMetadata or {}
        prefix, missing = self._preserved(about, message)
        if self.facts.flags[message] & MessageFlag.SUMMARY:
            prefix = Spans(range(message, message + 1), *prefix.ranges)
        trigger, tokens = _text(about.get("trigger")), _size(about, "preTokens")[0]
        version = parsing.version_of(first.version)
        self.facts.add_compaction(
            Compaction(message, "full", trigger, tokens, prefix, missing_messages=missing, version=version)
        )

    def _preserved(self, about: dict[str, object], end: int) -> tuple[Spans, int]:
        """Messages before a boundary that it kept, as far as they are in the file; and how many records are not."""
        kept, segment = about.get("preservedMessages"), about.get("preservedSegment")
        if isinstance(kept, dict) and isinstance(kept.get("uuids"), list):
            uuids = _texts(kept["uuids"])
            found = dict.fromkeys(self._node.get(uuid, -1) for uuid in uuids)
            missing = sum(1 for uuid in uuids if uuid not in self._node)
            return Spans.from_numbers(message for message in found if 0 <= message < end), missing
        if isinstance(segment, dict):
            ends = _texts([segment.get(name) for name in ("headUuid", "tailUuid")])
            head, tail = (self._node.get(uuid, -1) for uuid in ends)
            missing = len({uuid for uuid in ends if uuid not in self._node})
            return Spans(range(head, min(tail + 1, end)) if head >= 0 else range(0)), missing
        return NO_MESSAGES, 0


def _size(about: dict[str, object], name: str) -> tuple[int | None, str]:
    """A size that a boundary tells, None where it tells none; and what is wrong with it."""
    try:
        return recorded_tokens(about[name], name) if about.get(name) is not None else None, ""
    except ValueError as error:
        return None, str(error)


def _texts(value: object) -> list[str]:
    """A list of ids; what is no text in it is the id of nothing."""
    return [item if isinstance(item, str) else "" for item in value] if isinstance(value, list) else []


def _text(value: object) -> str | None:
    return truncate_name(value) if isinstance(value, str) else None
