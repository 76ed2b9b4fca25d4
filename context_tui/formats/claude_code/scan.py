"""The resumable pass over a Claude Code file: records to facts.

Lines of one API message are merged by ``message.id``; all results that answer one assistant message are one user
message; what the runtime injected joins the user message before it; side records are accounted for.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import defaultdict
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from context_tui.errors import UnreadableSession
from context_tui.formats.base import Advance
from context_tui.formats.claude_code import records
from context_tui.formats.claude_code.content import LinesContent
from context_tui.formats.claude_code.records import Record
from context_tui.formats.claude_code.usual import AT_ONCE, Line, usual_reader
from context_tui.formats.lines import LineFile, objects_on
from context_tui.session.facts import Compaction, Facts, MessageFlag, Problem, RecordKind, Role, Usage
from context_tui.session.select import without_messages
from context_tui.session.session import Session, SessionInfo

MAIN = ""
UNNAMED = "sidechain"
"""Id of a sidechain whose records do not name their agent."""


class ClaudeCodeScanner:
    """Reads the main chain of a file, or the sidechain whose agent id is asked for."""

    def __init__(self, path: Path, info: SessionInfo) -> None:
        self._file = LineFile(path)
        self._info = info
        self._main_began = False  # after a sidechain was taken for the only one in the file
        self._start(info.id)

    def _start(self, chain: str) -> None:
        self._chain = chain
        self._offset = 0
        self._line = 0
        self._torn = False
        self._first_sidechain: str | None = None
        self.facts = Facts()
        self._by_id: dict[str, int] = {}  # API message id to message
        self._request: dict[int, Usage] = {}
        self._node: dict[str, int] = {}  # record uuid to the message that it is part of or hangs below
        self._results: dict[int, int] = {}  # assistant message to the user message of its results
        self._parent: list[int] = []
        self._typed_below: defaultdict[int, list[int]] = defaultdict(list)
        self._boundary: Record | None = None
        self._leaf = -1
        self._leaves: list[int] = []  # where each epoch ended
        self._read_usual = usual_reader(self)

    @property
    def progress(self) -> float:
        return self._offset / self._file.size if self._file.size else 1.0

    def advance(self, budget_s: float | None = None) -> Advance:
        deadline = None if budget_s is None else time.perf_counter() + budget_s
        self._file.refresh()
        before, self._revised, steps = len(self.facts), len(self.facts), 0
        if self._torn and self._offset < self._file.size:
            self._untear()
        data, size = self._file.data, self._file.size
        usual = self._chain == self._info.id == MAIN
        while self._offset < size:
            if deadline is not None and steps and time.perf_counter() > deadline:
                break
            steps += 1
            if usual:
                self._offset, taken = self._read_usual(data, self._offset)
                self._line += taken
                if taken == AT_ONCE or self._offset >= size:
                    continue
            start = self._offset
            end = data.find(b"\n", start)
            whole = end >= 0
            if not whole:
                end = size
            self._read_line(data[start:end], start, whole)
            self._line += whole
            self._offset = min(end + 1, size)
            if self._main_began and self._chain != self._info.id:
                self._start(MAIN)
                return replace(self.advance(budget_s), revised_from=0)
        ended = self._offset >= size
        alone = len(self.facts) == 0 and self._chain == MAIN and not self._main_began
        if ended and alone and self._first_sidechain is not None:
            self._start(self._first_sidechain)
            return self.advance(budget_s)
        if ended and not any(kind != RecordKind.PROBLEM for kind in self.facts.record_kind):
            raise UnreadableSession(f"{self._file.path}: no known record in it")
        revised = self._revised if self._revised < before else None
        return Advance(len(self.facts) - before, revised, ended)

    def session(self) -> Session:
        facts = self.facts
        gone = self._rewound()
        content = LinesContent(self._file, facts)
        if gone:
            facts = without_messages(facts, gone)
            content = LinesContent(self._file, facts)
        elif self._chain != MAIN and not len(facts):
            raise UnreadableSession(f"{self._file.path}: has no session {self._chain!r}")
        return Session(facts, content, self._info, len(facts))

    # -- lines

    def _read_line(self, line: bytes, start: int, whole: bool) -> None:
        try:
            record = records.decode(line)
        except ValueError as error:
            self._read_odd_line(line, start, whole, str(error))
            return
        self._read(record, start, len(line))

    def _read_odd_line(self, line: bytes, start: int, whole: bool, why: str) -> None:
        """A line that is not one object: blank, several objects, torn, or broken."""
        if not line.strip():
            return
        try:
            ranges = objects_on(line)
            several = [records.decode(line[begin:end]) for begin, end in ranges]
        except ValueError:
            self._torn = not whole
            what = "torn last line (still being written, or cut off)" if self._torn else f"unreadable line: {why[:120]}"
            self._problem(start, len(line), what)
            return
        for record, (begin, end) in zip(several, ranges, strict=True):
            self._read(record, start + begin, end - begin)

    def _problem(self, place: int, length: int, what: str) -> None:
        row = self.facts.add_record(place, length, RecordKind.PROBLEM)
        self.facts.problems.append(Problem(f"line {self._line + 1}", what, row))

    def _untear(self) -> None:
        """Take back the torn last line: the file has grown, so it is read again."""
        problem = self.facts.problems.pop()
        self._offset = self.facts.record_place[problem.raw]
        self.facts.drop_last_record()
        self._torn = False

    # -- records

    def _read(self, record: Record, place: int, length: int) -> None:
        facts = self.facts
        message, kind = -1, RecordKind.SIDE
        what = record.type
        if (record.isSidechain or self._chain != MAIN) and self._elsewhere(record):
            facts.add_record(place, length, RecordKind.MESSAGE if what in records.MESSAGE_TYPES else kind)
            return
        if what == "assistant" and record.message is not None:
            message = self._assistant(record)
        elif what == "user" and record.message is not None:
            message = self._user(record)
        elif what == "attachment" and record.attachment is not None:
            message = self._injected(record) if records.attachment_text(record.attachment) else -1
        elif what == "system":
            self._system(record)
        elif what in records.MESSAGE_TYPES or what not in records.SIDE_TYPES:
            empty = what in records.MESSAGE_TYPES or what == "attachment"
            unknown = f"unknown record type {what!r}" if what is not None else "no record: it has no type"
            self._problem(place, length, f"record of type {what!r} without content" if empty else unknown)
            return
        if message >= 0:
            kind = RecordKind.MESSAGE
        facts.add_record(place, length, kind, message)
        if record.uuid:
            self._node[record.uuid] = message if message >= 0 else self._node.get(record.parentUuid or "", -1)
        if message >= 0:
            self._leaf = message

    def _elsewhere(self, record: Record) -> bool:
        """Whether a record is of another chain than the one that is read."""
        chain = (record.agentId or UNNAMED) if record.isSidechain else MAIN
        if record.isSidechain and self._first_sidechain is None and record.type in records.MESSAGE_TYPES:
            self._first_sidechain = chain
        if chain == MAIN == self._info.id and record.type in records.MESSAGE_TYPES:
            self._main_began = True
        return chain != self._chain

    def _new(self, role: Role, record: Record, flags: int = 0) -> int:
        message = self.facts.add_message(role, flags, records.milliseconds(record.timestamp))
        self._parent.append(self._node.get(record.parentUuid or "", -1))
        if self._boundary is not None:
            self._compacted(message, self._boundary)
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
        elif message < self._revised:
            self._revised = message
        for block in records.blocks(record):
            self.facts.add_block(message, block)
        if api.model and not synthetic:
            self.facts.model = api.model
        if api.usage is not None and not synthetic:
            self._usage(message, record, api.usage.output_tokens or 0)
        return message

    def _usage(self, message: int, record: Record | Line, output: int) -> None:
        """Once per API message: of its lines, the last with the most output counts."""
        known = self._request.get(message)
        if known is not None and output <= known.output and known.output_trusted:
            return
        api = record.message
        usage = records.usage_of(api.usage, api.stop_reason is not None, record.version) if api and api.usage else None
        if usage is None:
            return
        if known is None:
            self._request[message] = usage
            self.facts.add_request(message, usage, self.facts.time[message])
        elif output >= known.output:
            known.take(usage)

    def _user(self, record: Record) -> int:
        found = records.blocks(record)
        if record.isCompactSummary:
            return self._summary(record, found)
        if record.isVisibleInTranscriptOnly:
            return -1
        first = next((block for block in found if records.is_result(block)), None)
        if first is not None:
            message = self._results_message(record, first.get("tool_use_id"))
            for block in found:
                text = str(block.get("text") or "")
                put_in = block.get("type") == "text" and records.is_markup(text)
                self.facts.add_block(message, block, injected=put_in)
            return message
        typed = records.typed_by_person(record)
        injected = [
            not typed if typed is not None else records.is_markup(str(block.get("text") or "")) for block in found
        ]
        if found and all(injected):
            return self._injected(record)
        message = self._new(Role.USER, record)
        for block, put_in in zip(found, injected, strict=True):
            self.facts.add_block(message, block, injected=put_in)
        self._typed_below[self._parent[message]].append(message)
        return message

    def _results_message(self, record: Record, call_id: object) -> int:
        """All results that answer one assistant message are one user message."""
        facts = self.facts
        call = facts.call_row(call_id if isinstance(call_id, str) else "")
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

    def _injected(self, record: Record) -> int:
        """What the runtime put in joins the user message before it, or is one of its own after an assistant."""
        last = len(self.facts) - 1
        if last < 0 or self.facts.role[last] != Role.USER or self._boundary is not None:
            last = self._new(Role.USER, record)
        elif last < self._revised:
            self._revised = last
        for block in records.blocks(record):
            self.facts.add_block(last, block, injected=True)
        return last

    def _summary(self, record: Record, found: list[dict[str, object]]) -> int:
        boundary, self._boundary = self._boundary, None
        message = self._new(Role.USER, record, MessageFlag.SUMMARY)
        for block in found:
            self.facts.add_block(message, block)
        self._compacted(message, boundary or record)
        return message

    # -- compactions

    def _system(self, record: Record) -> None:
        if record.subtype == "compact_boundary":
            self._boundary = record
        elif record.subtype == "microcompact_boundary":
            about = record.microcompactMetadata or {}
            cleared = about.get("compactedToolIds")
            self.facts.compactions.append(
                Compaction(
                    len(self.facts),
                    "micro",
                    _text(about.get("trigger")),
                    _count(about.get("preTokens")),
                    cleared=frozenset(str(call) for call in cleared) if isinstance(cleared, list) else frozenset(),
                )
            )

    def _compacted(self, message: int, boundary: Record) -> None:
        """Begin an epoch at *message*: its summary, or the first message where there is none."""
        self._boundary = None
        self._leaves.append(self._leaf)
        about = boundary.compactMetadata or {}
        prefix = self._preserved(about, message)
        if self.facts.flags[message] & MessageFlag.SUMMARY:
            prefix = (message, *prefix)
        trigger, tokens = _text(about.get("trigger")), _count(about.get("preTokens"))
        self.facts.compactions.append(Compaction(message, "full", trigger, tokens, prefix))

    def _preserved(self, about: dict[str, object], end: int) -> tuple[int, ...]:
        """Messages before a boundary that it kept, as far as they are in the file."""
        kept, segment = about.get("preservedMessages"), about.get("preservedSegment")
        found: list[int] = []
        if isinstance(kept, dict) and isinstance(kept.get("uuids"), list):
            found = [self._node.get(str(uuid), -1) for uuid in kept["uuids"]]
        elif isinstance(segment, dict):
            head, tail = (self._node.get(str(segment.get(name)), -1) for name in ("headUuid", "tailUuid"))
            found = list(range(head, tail + 1)) if head >= 0 else []
        return tuple(dict.fromkeys(message for message in found if 0 <= message < end))

    # -- branches

    def _rewound(self) -> set[int]:
        """Messages on branches that were left: a fork is where a message has several typed ones below it."""
        forks = {below: found for below, found in self._typed_below.items() if below >= 0 and len(found) > 1}
        if not forks:
            return set()
        full = [compaction.message for compaction in self.facts.compactions if compaction.kind == "full"]
        path = set[int]()
        for at in (*self._leaves, self._leaf):
            while at >= 0 and at not in path:
                path.add(at)
                at = self._parent[at]
        left: set[int] = set()
        for found in forks.values():
            for _, group in groupby(found, key=lambda message: bisect_right(full, message)):
                branches = list(group)
                live = next((message for message in branches if message in path), branches[-1])
                left.update(message for message in branches if message != live)
        for message in range(len(self._parent)):
            if self._parent[message] in left and message not in path:
                left.add(message)
        return left


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) else None
