"""The resumable pass over a Claude Code file: records to facts.

Lines of one API message are merged by ``message.id``; all results that answer one assistant message are one user
message; what the runtime injected joins the user message before it; side records are accounted for.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from context_tui.errors import UnreadableSession
from context_tui.formats.base import BRANCH, Advance
from context_tui.formats.claude_code import records
from context_tui.formats.claude_code.content import LinesContent
from context_tui.formats.claude_code.fast_path import AT_ONCE, Line, fast_reader
from context_tui.formats.claude_code.large import Outline, outlined
from context_tui.formats.claude_code.records import Record
from context_tui.formats.lines import STEP, LineFile, objects_on, too_large
from context_tui.session.facts import Branch, Compaction, Facts, MessageFlag, Problem, RecordKind, Role, Usage
from context_tui.session.select import without_messages
from context_tui.session.session import Session, SessionInfo
from context_tui.session.spans import EMPTY, Spans

MAIN = ""
UNNAMED = "sidechain"
"""Id of a sidechain whose records do not name their agent."""


class ClaudeCodeScanner:
    """Reads the main chain of a file, the sidechain whose agent id is asked for, or a branch that was left."""

    def __init__(self, path: Path, info: SessionInfo) -> None:
        self._file = LineFile(path)
        self._info = info
        self._wanted = MAIN if info.id.startswith(BRANCH) else info.id
        self._fast_reader = fast_reader
        self._at_once = True
        self._main_began = False  # after a sidechain was taken for the only one in the file
        self._start(self._wanted)

    def _start(self, chain: str) -> None:
        self._chain = chain
        self._offset = 0
        self._line = 0
        self._torn = False
        self._large: Outline | None = None  # the record that was decoded elsewhere
        self._rest: Iterator[bool] | None = None  # of a line that is read in several steps
        self._first_sidechain: str | None = None
        self.facts = Facts()
        self._by_id: dict[str, int] = {}  # API message id to message
        self._request: dict[int, Usage] = {}
        self._node: dict[str, int] = {}  # record uuid to the message that it is part of or hangs below
        self._results: dict[int, int] = {}  # assistant message to the user message of its results
        self._parent: list[int] = []
        self._typed_below: defaultdict[int, list[int]] = defaultdict(list)
        self._row_of: dict[str, int] = {}  # record uuid to its row, as far as copies had to be looked for
        self._rows_read = 0
        self._anew: Record | None = None  # the boundary or the clear at which the next message begins a context
        self._apart = -1  # what was typed in a record of results, a message of its own
        self._leaf = -1
        self._leaves: list[int] = []  # where each epoch ended

    @property
    def progress(self) -> float:
        return self._offset / self._file.size if self._file.size else 1.0

    def advance(self, budget_s: float | None = None) -> Advance:
        deadline = None if budget_s is None else time.perf_counter() + budget_s
        self._file.refresh()
        self._at_once = budget_s is None  # then nobody waits for anything else
        before, self._revised, steps = len(self.facts), len(self.facts), 0
        if self._torn and self._offset < self._file.size:
            self._untear()
        data, size = self._file.data, self._file.size
        fast_path = self._chain == self._wanted == MAIN
        read_fast = self._fast_reader(self)  # not kept: it holds the scanner, and that the open file
        while self._offset < size:
            if deadline is not None and steps and time.perf_counter() > deadline:
                break
            steps += 1
            if fast_path and self._rest is None:
                self._offset, taken = read_fast(data, self._offset)
                self._line += taken
                if taken == AT_ONCE or self._offset >= size:
                    continue
            self._rest = self._rest or self._slow_path(self._offset)
            if next(self._rest, None) is None:
                self._rest = None
            if self._main_began and self._chain != self._wanted:
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
        facts, left = self.facts, self._branches()
        if self._info.id.startswith(BRANCH):
            facts = without_messages(facts, self._beside(left))
        elif left:
            facts = without_messages(facts, {message for branch in left for message in branch})
            facts.branches = [self._branch(number, branch) for number, branch in enumerate(left, 1)]
        elif self._chain != MAIN and not len(facts):
            raise UnreadableSession(f"{self._file.path}: has no session {self._chain!r}")
        return Session(facts, LinesContent(self._file, facts), self._info, len(facts))

    # -- lines

    def _slow_path(self, start: int) -> Iterator[bool]:
        """Take in the line at *start*, whatever it is, in steps of which each is short; True stands between two."""
        data, size = self._file.data, self._file.size
        searched, end = start, -1
        while end < 0 and searched < size:
            end = data.find(b"\n", searched, searched + STEP)
            searched += STEP
            if end < 0 and searched < size:
                yield True
        whole = end >= 0
        end = end if whole else size
        if what := too_large(end - start):
            self._torn = not whole
            self._problem(start, end - start, what)
        elif end - start > STEP and not self._at_once:
            yield from self._read_large(start, end - start, whole)
        else:
            yield from self._read_line(data[start:end], start, whole)
        self._line += whole
        self._offset = min(end + 1, size)

    def _read_large(self, start: int, length: int, whole: bool) -> Iterator[bool]:
        """A line that takes long to decode, which is done elsewhere; what cannot be decoded there is read here."""
        try:
            outline = yield from outlined(self._file, start, length)
        except ValueError:
            yield from self._read_line(self._file.read(start, length), start, whole)
            return
        self._large = outline
        yield from self._take(outline.record, start, length)
        self._large = None

    def _read_line(self, line: bytes, start: int, whole: bool) -> Iterator[bool]:
        try:
            record = records.decode(line)
        except ValueError as error:
            yield from self._read_odd_line(line, start, whole, str(error))
            return
        yield from self._take(record, start, len(line))

    def _read_odd_line(self, line: bytes, start: int, whole: bool, why: str) -> Iterator[bool]:
        """A line that is not one object: blank, several objects, torn, or broken."""
        if not line.strip():
            return
        several: list[tuple[Record, int, int]] = []
        try:
            for begin, end in objects_on(line):
                several.append((records.decode(line[begin:end]), start + begin, end - begin))
                yield True
        except ValueError:
            self._torn = not whole
            what = "torn last line (still being written, or cut off)" if self._torn else f"unreadable line: {why[:120]}"
            self._problem(start, len(line), what)
            return
        for record, place, length in several:
            yield from self._take(record, place, length)
            yield True

    def _take(self, record: Record, place: int, length: int) -> Iterator[bool]:
        """Take in a record; where it may be a copy, when it is known where all before it are."""
        if record.uuid is not None and record.uuid in self._node:
            content = LinesContent(self._file, self.facts)
            for row in range(self._rows_read, len(self.facts.record_kind)):
                if self.facts.record_kind[row] != RecordKind.PROBLEM:
                    self._row_of.setdefault(records.decode(content.line(row)).uuid or "", row)
                self._rows_read = row + 1
                if row % AT_ONCE == 0:
                    yield True
        self._read(record, place, length)

    def _problem(self, place: int, length: int, what: str) -> None:
        row = self.facts.add_record(place, length, RecordKind.PROBLEM)
        self.facts.problems.append(Problem(f"line {self._line + 1}", what, row))

    def _untear(self) -> None:
        """Take back the torn last line: the file has grown, so it is read again."""
        problem = self.facts.problems.pop()
        self._offset = self.facts.record_place[problem.raw]
        self.facts.drop_last_record()
        self._rows_read = min(self._rows_read, len(self.facts.record_kind))
        self._torn = False

    # -- records

    def _read(self, record: Record, place: int, length: int) -> None:
        facts = self.facts
        message, kind = -1, RecordKind.SIDE
        what = record.type
        if (record.isSidechain or self._chain != MAIN) and self._elsewhere(record):
            facts.add_record(place, length, RecordKind.MESSAGE if what in records.MESSAGE_TYPES else kind)
            return
        twice = record.uuid is not None and record.uuid in self._node and self._is_copy(record, place, length)
        if not twice and records.clears(record):
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
        elif what in records.MESSAGE_TYPES or what not in records.SIDE_TYPES:
            empty = what in records.MESSAGE_TYPES or what == "attachment"
            unknown = f"unknown record type {what!r}" if what is not None else "no record: it has no type"
            self._problem(place, length, f"record of type {what!r} without content" if empty else unknown)
            return
        if message >= 0:
            kind = RecordKind.MESSAGE
        row = facts.add_record(place, length, kind, message)
        if self._apart >= 0:
            message, self._apart = self._apart, -1
            facts.share(message, row)
        if record.uuid and not twice:
            self._node[record.uuid] = message if message >= 0 else self._node.get(record.parentUuid or "", -1)
        if message >= 0:
            self._leaf = message

    def _blocks(self, record: Record) -> list[dict[str, Any]]:
        """The blocks of a record; of one that was decoded elsewhere, what is known of them."""
        return records.blocks(record) if self._large is None else self._large.blocks

    def _add(self, message: int, block: dict[str, Any], *, injected: bool = False) -> int:
        row = self.facts.add_block(message, block, injected=injected)
        if self._large is not None:
            self.facts.remeasure(row, self._large.measures_of(block))
        return row

    def _note_part(self, result: int, place: int, length: int) -> None:
        """Keep which lines of a file the only result of a record holds, where it is of a read."""
        facts = self.facts
        use = facts.call_use[facts.call[result]]
        if use >= 0 and facts.path[use] >= 0:
            part = records.part_shown(self._file.data, place, place + length)
            if part is not None:
                facts.read_range[result] = part

    def _is_copy(self, record: Record, place: int, length: int) -> bool:
        """Whether a record says what one with its uuid has said before."""
        row = self._row_of.get(record.uuid or "", -1)
        if row < 0:
            return False
        line, again = LinesContent(self._file, self.facts).line(row), self._file.read(place, length)
        if line == again:
            return True
        before, now = records.decode(line), records.decode(again)
        known = ("type", "subtype", "compactMetadata", "microcompactMetadata", "isCompactSummary")
        same = all(getattr(before, name) == getattr(now, name) for name in known)
        return same and records.blocks(before) == records.blocks(now)

    def _elsewhere(self, record: Record) -> bool:
        """Whether a record is of another chain than the one that is read."""
        chain = (record.agentId or UNNAMED) if record.isSidechain else MAIN
        if record.isSidechain and self._first_sidechain is None and record.type in records.MESSAGE_TYPES:
            self._first_sidechain = chain
        if chain == MAIN == self._wanted and record.type in records.MESSAGE_TYPES:
            self._main_began = True
        return chain != self._chain

    def _new(self, role: Role, record: Record, flags: int = 0) -> int:
        message = self.facts.add_message(role, flags, records.milliseconds(record.timestamp))
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
            ended = records.milliseconds(record.timestamp)
            self.facts.ended[message] = ended if ended >= 0 else self.facts.ended[message]
            self._revised = min(self._revised, message)
        for block in self._blocks(record):
            self._add(message, block)
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
            self.facts.revise_request(known, usage)

    def _user(self, record: Record, place: int, length: int) -> int:
        found = self._blocks(record)
        if record.isCompactSummary:
            return self._summary(record, found)
        if record.isVisibleInTranscriptOnly:
            return -1
        first = next((block for block in found if records.is_result(block)), None)
        if first is None:
            if found and all(records.injected(record, block) for block in found):
                return self._injected(record)
            return self._typed(record, found)
        message = self._results_message(record, first.get("tool_use_id"))
        shown = records.shown(found, record, typed=False)
        rows = [self._add(message, block, injected=not records.is_result(block)) for block in shown]
        results = [row for row, block in zip(rows, shown, strict=True) if records.is_result(block)]
        if len(results) == 1:
            self._note_part(results[0], place, length)
        if typed := records.shown(found, record, typed=True):
            self._apart = self._typed(record, typed, below=message)
        return message

    def _typed(self, record: Record, found: list[dict[str, Any]], below: int = -1) -> int:
        """What a person typed is a message of its own, below that of the record's results where it has some."""
        message = self._new(Role.USER, record)
        for block in found:
            self._add(message, block, injected=records.injected(record, block))
        if below >= 0:  # beside results nobody goes back to another beginning
            self._parent[message] = below
        else:
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

    def _attached(self, record: Record) -> int:
        """An attachment is put in by the runtime, but for what was typed while the model was at work."""
        if record.attachment is not None and records.typed_attachment(record.attachment):
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
        elif record.subtype == "microcompact_boundary":
            about = record.microcompactMetadata or {}
            calls = about.get("compactedToolIds")
            facts = self.facts
            rows = (facts.call_row(str(call)) for call in (calls if isinstance(calls, list) else []))
            results = (facts.call_result[row] for row in rows if row >= 0)
            facts.add_compaction(
                Compaction(
                    len(facts),
                    "micro",
                    _text(about.get("trigger")),
                    _count(about.get("preTokens")),
                    cleared=frozenset(row for row in results if row >= 0),
                    saved=_count(about.get("tokensSaved")),
                )
            )

    def _begin_epoch(self, message: int, first: Record) -> None:
        """Begin an epoch at *message* because of the record *first*: a clear, or a boundary (or the summary itself)."""
        self._anew = None
        self._leaves.append(self._leaf)
        if records.clears(first):
            self.facts.begin_epoch(message, "clear")
            return
        about = first.compactMetadata or {}
        prefix, missing = self._preserved(about, message)
        if self.facts.flags[message] & MessageFlag.SUMMARY:
            prefix = Spans(range(message, message + 1), *prefix.ranges)
        trigger, tokens = _text(about.get("trigger")), _count(about.get("preTokens"))
        self.facts.add_compaction(Compaction(message, "full", trigger, tokens, prefix, missing=missing))

    def _preserved(self, about: dict[str, object], end: int) -> tuple[Spans, int]:
        """Messages before a boundary that it kept, as far as they are in the file; and how many records are not."""
        kept, segment = about.get("preservedMessages"), about.get("preservedSegment")
        if isinstance(kept, dict) and isinstance(kept.get("uuids"), list):
            found = dict.fromkeys(self._node.get(str(uuid), -1) for uuid in kept["uuids"])
            missing = sum(1 for uuid in kept["uuids"] if str(uuid) not in self._node)
            return Spans.of(message for message in found if 0 <= message < end), missing
        if isinstance(segment, dict):
            ends = [str(segment.get(name)) for name in ("headUuid", "tailUuid")]
            head, tail = (self._node.get(uuid, -1) for uuid in ends)
            missing = len({uuid for uuid in ends if uuid not in self._node})
            return Spans(range(head, min(tail + 1, end)) if head >= 0 else range(0)), missing
        return EMPTY, 0

    # -- branches

    def _branches(self) -> list[set[int]]:
        """The messages of each branch that was left, in the order of the file.

        A fork is where a message has several typed ones below it.
        """
        forks = {below: found for below, found in self._typed_below.items() if below >= 0 and len(found) > 1}
        if not forks:
            return []
        begun = [epoch.message for epoch in self.facts.epochs]
        path = set[int]()
        for at in (*self._leaves, self._leaf):
            while at >= 0 and at not in path:
                path.add(at)
                at = self._parent[at]
        left: dict[int, set[int]] = {}  # message to the branch that it is on
        for found in forks.values():
            for _, group in groupby(found, key=lambda message: bisect_right(begun, message)):
                branches = list(group)
                live = next((message for message in branches if message in path), branches[-1])
                left.update((message, {message}) for message in branches if message != live)
        for message, parent in enumerate(self._parent):
            if parent in left and message not in left and message not in path:
                left[message] = left[parent]
                left[message].add(message)
        return list({id(branch): branch for _, branch in sorted(left.items())}.values())

    def _branch(self, number: int, messages: set[int]) -> Branch:
        """What is said of a branch that was left."""
        return Branch(f"{BRANCH}{number}", len(messages), sum(1 for message in messages if message in self._request))

    def _beside(self, left: list[set[int]]) -> set[int]:
        """The messages that do not belong to the branch that is asked for: it holds what leads to it and itself."""
        number = self._info.id.removeprefix(BRANCH)
        if not number.isdecimal() or not 1 <= int(number) <= len(left):
            raise UnreadableSession(f"{self._file.path}: has no session {self._info.id!r}: {_count_of(len(left))}")
        branch = left[int(number) - 1]
        first = min(branch)
        elsewhere = {message for other in left for message in other}
        at = self._parent[first]
        while at >= 0:  # it may have begun on a branch that was left too
            elsewhere.discard(at)
            at = self._parent[at]
        kept = branch | {message for message in range(first) if message not in elsewhere}
        return set(range(len(self.facts))) - kept


def _count_of(branches: int) -> str:
    if not branches:
        return "no branch of it was left"
    return "there is branch-1" if branches == 1 else f"there are {BRANCH}1 to {BRANCH}{branches}"


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= records.MOST_TOKENS else None
