"""koda, a coding agent for the terminal.

One SQLite database, ``koda.db``, holds all sessions, with a row per message. Rows that a compaction archived stay in
it. Only the tables of sessions are read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import ClassVar

from context_tui.errors import UnreadableSession
from context_tui.formats.base import ALL_FROM_SOURCE, Claim, Format, Scanner, SessionFile
from context_tui.formats.kit.databases import SQLITE_MAGIC, Database, decode_text, read_columns
from context_tui.formats.kit.files import ALL_PROJECTS, find_home_folder
from context_tui.formats.kit.values import format_title, parse_time_ms
from context_tui.formats.koda.in_place import clear_rows
from context_tui.formats.koda.reader import make_koda_scanner
from context_tui.formats.koda.writer import copy_rows, write_database
from context_tui.session.session import SessionInfo


class KodaFormat(Format):
    """The format of koda's SQLite database."""

    name: ClassVar[str] = "koda"
    about: ClassVar[str] = "koda's database (SQLite, opened read-only with its write-ahead log)"
    suffixes: ClassVar[tuple[str, ...]] = (".db", ".sqlite")
    from_source: ClassVar[str] = ALL_FROM_SOURCE

    write = staticmethod(write_database)
    copy = staticmethod(copy_rows)
    edit_in_place = staticmethod(clear_rows)

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        if not head.startswith(SQLITE_MAGIC):
            return None
        columns, metadata = read_columns(path, "messages", "session_metadata")
        if not {"id", "session_id", "role", "content", "tool_calls", "tool_call_id"} <= columns:
            return None
        is_certain = "compacted_at" in columns or metadata
        return Claim(99 if is_certain else 80, "koda's tables")

    def list_sessions(self, path: Path) -> list[SessionInfo]:
        """Return the sessions that have messages, oldest first. Even a single session has an id."""
        with closing(Database(path)) as database:
            return _list_sessions(database)

    def make_scanner(self, path: Path, info: SessionInfo) -> Scanner:
        scanner = make_koda_scanner(Database(path), info)
        if not scanner.count and info.id not in {each.id for each in self.list_sessions(path)}:
            raise UnreadableSession(f"{path}: unknown session {info.id!r}")
        return scanner

    def find_sessions(self, environ: Mapping[str, str], cwd: Path) -> Iterable[SessionFile]:
        """Return the databases found at koda's two paths, one from its code and one from its documentation."""
        folder = Path(environ.get("XDG_CONFIG_HOME") or find_home_folder(environ) / ".config") / "koda"
        places = (folder / "db" / "koda.db", folder / "koda.db")
        return [SessionFile(path, ALL_PROJECTS, False) for path in places if os.path.isfile(path)]


def _list_sessions(database: Database) -> list[SessionInfo]:
    columns = database.list_columns("sessions")
    names = ("title", "project_root", "last_accessed_at", "created_at")
    selected = [name if name in columns else "NULL" for name in names]
    rows = {}
    if "id" in columns:
        query = f"SELECT id, {', '.join(selected)} FROM sessions"
        rows = {decode_text(row[0]): row[1:] for row in database.query(query)}
    # SQLite takes `content` from the row that has the minimum.
    query = "SELECT session_id, substr(content, 1, 4000), min(id) FROM messages WHERE role = 'user' GROUP BY session_id"
    prompts = {decode_text(row[0]): decode_text(row[1]) for row in database.query(query)}
    ids_query = "SELECT session_id FROM messages GROUP BY session_id ORDER BY min(id)"
    ids = [decode_text(row[0]) for row in database.query(ids_query)]
    size = database.path.stat().st_size
    sessions = []
    for session_id in ids or list(rows):
        title, root, accessed, created = rows.get(session_id, (None, None, None, None))
        time = max(parse_time_ms(decode_text(accessed or created)), 0) / 1000
        name = format_title(decode_text(title)) or format_title(prompts.get(session_id, ""))
        bytes_ = size if len(ids) == 1 else 0
        path = str(database.path)
        sessions.append(SessionInfo(path, "koda", session_id, name, time=time, bytes=bytes_, cwd=decode_text(root)))
    return sessions
