"""Scan sessions whose messages are separate entries with ids that may change later: files and database rows."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from context_tui.errors import UnreadableSession
from context_tui.formats.base import Advance
from context_tui.formats.kit import files
from context_tui.formats.kit.branches import BRANCH_PREFIX, BranchFacts
from context_tui.formats.kit.databases import Database, ValueTooLarge, compute_checksum, decode_text, decode_value
from context_tui.formats.kit.message_builder import MessageBuilder, ParsedRecord, RecordAdder, RecordContent
from context_tui.formats.kit.values import format_title, parse_time_ms
from context_tui.session.facts import Compaction, Epoch, Facts, Usage
from context_tui.session.session import Session, SessionInfo
from context_tui.session.values import Spans
from context_tui.text.sanitize import truncate_name

BATCH_SIZE, BATCH_BYTES = 64, 1 << 20
"""Maximum number of entries per read. After a batch of more than ``BATCH_BYTES``, entries are read one by one again."""
MISSING_REASON = "it is listed, and not there"
"""Problem of an entry whose id is listed but not found."""


class Entry(NamedTuple):
    """A message as the agent recorded it, with its id.

    ``texts`` begin with the message's own text. ``problem`` is the reason why the entry cannot be a message, or "".
    ``columns`` are further values, which are not displayed. If ``problem`` is ``files.TOO_LARGE``, the texts were not
    read, and ``unread_bytes`` is their size (0 if unknown).
    """

    id: str
    texts: tuple[bytes, ...]
    problem: str = ""
    columns: tuple[Any, ...] = ()
    unread_bytes: int = 0

    @property
    def size(self) -> int:
        """Total size of the texts, in bytes."""
        return self.unread_bytes + sum(map(len, self.texts))

    @property
    def checksum(self) -> int:
        return compute_checksum((self.id, self.unread_bytes, *self.texts, *self.columns))


class EntrySource(Protocol):
    """Interface for reading a session's entries. The methods raise UnreadableSession if that fails."""

    @property
    def path(self) -> Path:
        """The file that error messages name."""

    def read_stamp(self) -> Hashable:
        """Return a value that differs after each write to the session, for comparison with an earlier stamp."""

    def list_ids(self) -> list[str]:
        """Return the ids of the session's entries in order. An id may occur more than once."""

    def read_entries(self, ids: Sequence[str]) -> list[Entry]:
        """Return the entries with the given ids, in the same order but without deleted ones."""

    def read_metadata(self) -> Mapping[str, Any]:
        """Return the members that describe the session as a whole, such as its model."""


class EntryShape(Protocol):
    """Interface of a format's entry parser, which keeps state between entries, so that each scan needs its own.

    A shape may also have ``entry_name``, the word for an entry in messages to users (default: ``message``).
    """

    def parse(self, entry: Entry) -> ParsedRecord:
        """Parse an entry, or raise ValueError if it is not a message. The result must depend on the entry alone."""

    def add_facts(self, entry: Entry, parsed: ParsedRecord, messages: range, builder: MessageBuilder) -> None:
        """Add the facts of an entry other than its messages, which have the numbers *messages* (perhaps none)."""

    def finish(self, metadata: Mapping[str, Any], builder: MessageBuilder) -> list[set[int]]:
        """Complete the facts after the last entry, and return the messages in each abandoned branch.

        The scanner calls this again whenever more entries have been read.
        """
        return []


class EntryContent(RecordContent):
    """The full text of a session, read again from its entries on demand."""

    def __init__(self, entry_pass: _EntryPass, facts: Facts) -> None:
        super().__init__(entry_pass.builder, facts)
        self.entry_pass = entry_pass

    def read_entry(self, record: int) -> Entry:
        """Return the current state of a record's entry, or raise UnreadableSession if it was deleted."""
        entry = self._read_current_entry(record)
        if entry.problem == MISSING_REASON:
            raise UnreadableSession(f"{self._locate(entry)} was deleted since it was read; open it again")
        return entry

    def raw(self, record: int) -> str:
        entry = self._read_current_entry(record)
        if entry.problem == files.TOO_LARGE:
            return f"[{files.TOO_LARGE}]"
        data = b"\n".join(entry.texts)
        return files.format_beginning(data, len(data))

    def is_unchanged(self) -> bool:
        return self.entry_pass.is_unchanged(self.entry_pass.source.list_ids())

    def parse_record(self, row: int) -> ParsedRecord:
        entry = self.read_entry(row)
        try:
            return self.entry_pass.parse(entry)
        except ValueError as error:
            reason = f"has changed since it was read ({error})"
            raise UnreadableSession(f"{self._locate(entry)} {reason}; open it again") from None

    def _locate(self, entry: Entry) -> str:
        return f"{self.entry_pass.source.path}: {self.entry_pass.entry_name} {entry.id}"

    def get_entry_id(self, record: int) -> str:
        """Return the id of a record's entry."""
        return str(self.entry_pass.ids[self.facts.record_place[record]])

    def _read_current_entry(self, record: int) -> Entry:
        return self.entry_pass.read_entries([self.get_entry_id(record)])[0]


class _IdList(Sequence[str]):
    """Ids joined to one text, because a list would take as much memory as all columns of their records."""

    def __init__(self, ids: Sequence[str]) -> None:
        self._text: Any = "".join(ids)
        self._ends = array("Q", accumulate(map(len, ids), initial=0))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, place: Any) -> Any:
        places = range(len(self))[place]
        if isinstance(places, range):
            return [*map(self.__getitem__, places)]
        start, end = self._ends[places : places + 2]
        return self._text[start:end]


class _EntryPass:
    """One pass over the entries: ``ids`` are the ids of all entries, ``checksums`` those of the entries read so far."""

    def __init__(self, source: EntrySource, shape: EntryShape) -> None:
        self.source, self.shape, self.builder = source, shape, MessageBuilder()
        self._adder = RecordAdder(shape, self.builder)
        self.parse = self._adder.parse
        self.entry_name: str = getattr(shape, "entry_name", "message")
        self._batch = 1
        self.ids = _IdList(source.list_ids())
        self.checksums = array("I")
        self.abandoned_branches: list[set[int]] = []

    def read_entries(self, ids: Sequence[str]) -> list[Entry]:
        """Return one entry for each id. An entry that is missing has ``MISSING_REASON`` as its problem."""
        entries = {entry.id: entry for entry in self.source.read_entries(ids)}
        return [entries.get(each) or Entry(each, (), MISSING_REASON) for each in ids]

    def read_batch(self) -> None:
        """Read the next entries, and add them to the session."""
        place = len(self.checksums)
        entries = self.read_entries(self.ids[place : place + self._batch])
        is_large = sum(entry.size for entry in entries) > BATCH_BYTES
        self._batch = 1 if is_large else min(2 * self._batch, BATCH_SIZE)
        builder = self.builder
        for place, entry in enumerate(entries, len(self.checksums)):
            location, old_count = f"{self.entry_name} {truncate_name(entry.id)}", len(builder.facts)
            self.checksums.append(entry.checksum)
            if reason := files.format_too_large(entry.size) or entry.problem:
                builder.add_problem(place, entry.size, location, reason)
            elif added := self._adder.add(entry, location, place, entry.size):
                self.shape.add_facts(entry, added[0], range(old_count, len(builder.facts)), builder)

    def is_unchanged(self, ids: Sequence[str]) -> bool:
        """Return whether *ids* (as listed now) begin with the ids read so far, and those entries are unchanged."""
        count = len(self.checksums)
        if [*ids[:count]] != self.ids[:count]:
            return False
        for start in range(0, count, BATCH_SIZE):
            batch = self.ids[start : min(start + BATCH_SIZE, count)]
            checksums = array("I", (entry.checksum for entry in self.read_entries(batch)))
            if checksums != self.checksums[start : start + len(batch)]:
                return False
        return True


class _LinearTree(NamedTuple):
    """A tree in which each message follows the one before it, and some messages are in abandoned branches."""

    find_abandoned_branches: Callable[[], list[set[int]]]
    parents: range
    revision: int = 1
    replaced_messages: None = None
    event_positions: Mapping[tuple[str, int], int] = {}


class EntryScanner:
    """A resumable scan of one session. It reads only appended entries, and starts again after any other change.

    If the session has an id, the ids of its branches begin with it: ``SESSION/branch-1``.
    """

    def __init__(self, source: EntrySource, info: SessionInfo, shape: Callable[[], EntryShape]) -> None:
        self._source, self._info, self._new_shape = source, info, shape
        self._is_finished = False
        self._stamp = source.read_stamp()
        self._pass = _EntryPass(source, shape())

    @property
    def count(self) -> int:
        """Number of entries in the session."""
        return len(self._pass.ids)

    @property
    def progress(self) -> float:
        return len(self._pass.checksums) / self.count if self.count else 1.0

    def advance(self, budget_s: float | None = None) -> Advance:
        deadline = None if budget_s is None else time.monotonic() + budget_s
        restarted = self._is_finished and self._refresh()
        if self._is_finished:
            return Advance(0, None, True)
        entry_pass = self._pass
        facts = entry_pass.builder.facts
        old_count = 0 if restarted else len(facts)
        while len(entry_pass.checksums) < len(entry_pass.ids):
            entry_pass.read_batch()
            if deadline is not None and time.monotonic() >= deadline:
                break
        self._is_finished = len(entry_pass.checksums) == len(entry_pass.ids)
        if self._is_finished:
            entry_pass.abandoned_branches = entry_pass.shape.finish(self._source.read_metadata(), entry_pass.builder)
        changed = entry_pass.builder.pop_first_changed(old_count)
        return Advance(len(facts) - old_count, 0 if restarted else changed, self._is_finished)

    def session(self) -> Session:
        builder = self._pass.builder
        session_id, branch_id = split_branch_id(self._info.id)
        tree = _LinearTree(lambda: self._pass.abandoned_branches, range(-1, len(builder.facts) - 1))
        facts = BranchFacts(builder.facts, tree, replace(self._info, id=branch_id), session_id).select_facts()
        return Session(facts, EntryContent(self._pass, facts), self._info, len(facts))

    def _refresh(self) -> bool:
        stamp = self._source.read_stamp()
        if stamp == self._stamp:
            return False
        ids = self._source.list_ids()
        self._is_finished, self._stamp = False, stamp
        if self._pass.is_unchanged(ids):
            self._pass.ids = _IdList(ids)
            return False
        self._pass = _EntryPass(self._source, self._new_shape())
        return True


def make_entry_scanner(source: EntrySource, info: SessionInfo, shape: Callable[[], EntryShape]) -> EntryScanner:
    """Return a scanner of a session, or raise UnreadableSession if it has no entries."""
    scanner = EntryScanner(source, info, shape)
    if not scanner.count:
        raise UnreadableSession(f"{source.path}: unknown session {info.id!r}, or one without messages")
    return scanner


def replace_compactions(facts: Facts, compactions: Iterable[Compaction]) -> None:
    """Replace a session's compactions, and derive its contexts (epochs) from the new compactions."""
    facts.compactions, facts.rewrites, facts.epochs = [], [], [Epoch(0, "start")]
    for compaction in compactions:
        facts.add_compaction(compaction)


def replace_summaries(facts: Facts, summaries: Iterable[int]) -> None:
    """Replace a session's compactions with full ones, each of which leaves one of *summaries* as the whole context."""
    prefixes = (Spans(range(message, message + 1)) for message in summaries)
    replace_compactions(facts, (Compaction(prefix[0], "full", prefix=prefix) for prefix in prefixes))


def set_only_usage(facts: Facts, usage: Usage, message: int) -> None:
    """Set the usage of the session's only request, which is added if it is missing; *message* is its reply."""
    time = facts.end_time[message]
    if facts.requests:
        facts.revise_request(facts.requests[0], usage)
        facts.request_message[0], facts.request_time[0] = message, time
    else:
        facts.add_request(message, usage, time)


def split_branch_id(session_id: str) -> tuple[str, str]:
    """Split ``SESSION/branch-1`` into the session's id and the branch's id, with "" for a missing one."""
    parent_id, _, branch = session_id.rpartition("/")
    return (parent_id, branch) if branch.startswith(BRANCH_PREFIX) else (session_id, "")


def find_branch_in(main: SessionInfo, session_id: str, sessions: Sequence[SessionInfo]) -> SessionInfo | None:
    """Return the branch named *session_id*, or None if that names no branch of one of *sessions*."""
    parent_id, branch = split_branch_id(session_id)
    session = next((each for each in sessions if each.id == parent_id), None)
    return replace(session, id=session_id, title=branch, parent=main.path) if session and branch else None


MAX_SIZED_DATABASE_BYTES = 64 << 20
"""Largest database, in bytes, that is scanned for the sizes of its sessions."""


class RowSource(ABC):
    """Base class for sources in databases that have a table of messages and a table of sessions with metadata."""

    message_table: ClassVar[str] = "messages"
    session_table: ClassVar[str] = "sessions"
    metadata_columns: ClassVar[tuple[str, ...]] = ()
    """Columns of the session's row that are read as metadata."""

    def __init__(self, database: Database, session_id: str) -> None:
        self.database, self.path, self.session_id = database, database.path, session_id
        self.columns = database.list_columns(self.message_table)

    def read_stamp(self) -> Hashable:
        return self.database.read_stamp()

    @abstractmethod
    def list_ids(self) -> list[str]:
        """Return the session's message ids, in order."""

    def read_entries(self, ids: Sequence[str]) -> list[Entry]:
        """Return the entries with the given ids, in the same order. If a value is too large, query row by row."""
        try:
            entries = self.query_entries(ids, files.MAX_RECORD_BYTES)
        except ValueTooLarge:
            if len(ids) == 1:
                return [Entry(ids[0], (), files.TOO_LARGE)]
            return [entry for each in ids for entry in RowSource.read_entries(self, [each])]
        return [entries[each] for each in ids if each in entries]

    @abstractmethod
    def query_entries(self, ids: Sequence[str], max_value_bytes: int) -> dict[str, Entry]:
        """Return the entries with the given ids, keyed by id, or raise ValueTooLarge if a value is too large."""

    def select_messages(self, names: Sequence[str], ids: Sequence[Any], max_value_bytes: int) -> list[tuple[Any, ...]]:
        """Return the columns *names* of the messages with the given ids, in any order. A missing column is None."""
        columns = ", ".join(name if name in self.columns else "NULL" for name in names)
        sql = f"SELECT {columns} FROM {self.message_table} WHERE id IN ({format_placeholders(ids)})"
        return self.database.query(sql, ids, max_value_bytes=max_value_bytes)

    def read_metadata(self) -> Mapping[str, Any]:
        columns = self.database.list_columns(self.session_table)
        names = [name for name in self.metadata_columns if name in columns]
        if not names or "id" not in columns:
            return {}
        sql = f"SELECT {', '.join(names)} FROM {self.session_table} WHERE id = ?"
        rows = self.database.query(sql, (self.session_id,))
        return dict(zip(names, map(decode_value, rows[0]), strict=True)) if rows else {}


def format_placeholders(ids: Sequence[str]) -> str:
    """Return SQL placeholders for a list of ids, such as ``?, ?, ?``."""
    return ", ".join("?" * len(ids))


def list_table_sessions(
    path: Path, format_name: str, tables: tuple[str, str], columns: Sequence[str], sizes_sql: str, cwd: str = ""
) -> list[SessionInfo]:
    """Return the sessions in a database that have messages, oldest first.

    A session that has messages but no row of its own is listed with only its id. *tables* are the tables of sessions
    and of messages. *columns* name the id, parent, title, alternative title, folder (default: *cwd*), time of the last
    change and time of creation, with "" for a column that the format lacks. *sizes_sql* selects ids and sizes.
    """
    with closing(Database(path)) as database:
        size_rows = database.query(sizes_sql) if path.stat().st_size <= MAX_SIZED_DATABASE_BYTES else []
        sizes = {row[0]: row[1] for row in size_rows if isinstance(row[1], int)}
        existing = database.list_columns(tables[0])
        selected = ", ".join(name if name in existing else "NULL" for name in columns)
        all_rows = database.query(f"SELECT {selected} FROM {tables[0]}") if columns[0] in existing else []
        ids = {row[0] for row in database.query(f"SELECT DISTINCT session_id FROM {tables[1]}")}
    if not ids:
        raise UnreadableSession(f"{path}: holds no session with messages")
    rows = [row for row in all_rows if row[0] in ids]
    missing_ids = sorted(ids - {row[0] for row in rows}, key=decode_text)
    rows += [(session_id, *[None] * (len(columns) - 1)) for session_id in missing_ids]
    sessions = []
    for session_id, parent, title, second_title, folder, updated, created in rows:
        created_ms = _parse_column_time(created)
        time, size = (_parse_column_time(updated) or created_ms) / 1000, sizes.get(session_id, 0)
        name = format_title(decode_text(title)) or format_title(decode_text(second_title))
        parent_name = f"{path}#{decode_text(parent)}" if parent is not None and parent in ids else ""
        info = SessionInfo(str(path), format_name, decode_text(session_id), name, parent_name, time, size)
        sessions.append((created_ms, info.id, replace(info, cwd=decode_text(folder) or cwd)))
    return [info for *_, info in sorted(sessions, key=lambda each: each[:2])]


def _parse_column_time(value: Any) -> int:
    return max(parse_time_ms(decode_value(value)), 0)
