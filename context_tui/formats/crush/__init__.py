"""Crush, a coding agent for the terminal, and its predecessor, the opencode written in Go.

Sessions are in a SQLite database in the folder of the project, ``.crush/crush.db`` or ``.opencode/opencode.db``; their
schemas differ in a few columns.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import ClassVar

from context_tui.errors import UnreadableSession
from context_tui.formats.base import Claim, Format, Scanner, SessionFile
from context_tui.formats.crush.reader import CrushShape, CrushSource
from context_tui.formats.kit.databases import SQLITE_MAGIC, Database, decode_text, decode_value, read_columns
from context_tui.formats.kit.entry_scanner import EntryScanner, query_session_sizes, query_sessions_with_messages
from context_tui.formats.kit.values import format_title, parse_time_ms
from context_tui.session.session import Session, SessionInfo

__all__ = ["CrushFormat"]

DATABASE_PATHS = (Path(".crush") / "crush.db", Path(".opencode") / "opencode.db")
"""Paths of the databases in the folder of a project."""
_SIZES_QUERY = "SELECT session_id, sum(length(CAST(parts AS BLOB))) FROM messages GROUP BY session_id"


class CrushFormat(Format):
    """Format of Crush's and the Go opencode's sessions."""

    name: ClassVar[str] = "crush"
    about: ClassVar[str] = "Crush's and the Go opencode's databases (SQLite, read-only with the write-ahead log)"
    suffixes: ClassVar[tuple[str, ...]] = (".db",)
    from_source: ClassVar[str] = "the Go opencode's"

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        """Recognise the tables of the database, and the columns of ``messages``."""
        if not head.startswith(SQLITE_MAGIC):
            return None
        columns, sessions = read_columns(path, "messages", "sessions")
        if not {"id", "session_id", "role", "parts"} <= columns or not sessions:
            return None
        return Claim(97, "Crush's tables (or the Go opencode's)")

    def list_sessions(self, path: Path) -> list[SessionInfo]:
        """List the sessions with messages, in the order in which they began; always by id."""
        with closing(Database(path)) as database:
            return _list_sessions(database)

    def make_scanner(self, path: Path, info: SessionInfo) -> Scanner:
        scanner = EntryScanner(CrushSource(Database(path), info.id), info, CrushShape)
        if not scanner.count:
            raise UnreadableSession(f"{path}: unknown session {info.id!r}, or one without messages")
        return scanner

    def subagent_of(self, session: Session, call: int) -> SessionInfo | None:
        """Return the session of a sub-agent, whose id is that of the call or ends with it."""
        call_id = session.facts.call_id(call)
        if session.facts.tool_name(call) not in ("agent", "agentic_fetch") or not call_id:
            return None
        path = Path(session.info.path)
        return next((each for each in self.list_sessions(path) if each.id.rpartition("$$")[2] == call_id), None)

    def find_sessions(self, environ: Mapping[str, str], cwd: Path) -> Iterable[SessionFile]:
        folder = cwd.absolute()
        for project in (folder, *folder.parents):
            for place in DATABASE_PATHS:
                if os.path.isfile(project / place):
                    yield SessionFile(project / place, project.name, True)


def _list_sessions(database: Database) -> list[SessionInfo]:
    path = str(database.path)
    names = ("id", "parent_session_id", "title", "updated_at", "created_at")
    rows = query_sessions_with_messages(database, "sessions", "messages", names)
    ids = {row[0] for row in rows}
    bytes_ = query_session_sizes(database, _SIZES_QUERY)
    project = database.path.absolute().parent
    cwd = str(project.parent) if project.name in (".crush", ".opencode") else ""
    sessions = []
    for name, parent, title, updated, created in rows:
        parent_spec = f"{path}#{decode_text(parent)}" if parent in ids else ""
        time = max(_parse_time(updated) or _parse_time(created), 0)
        info = SessionInfo(
            path,
            "crush",
            decode_text(name),
            format_title(decode_text(title)),
            parent_spec,
            time,
            bytes_.get(name, 0),
            cwd,
        )
        sessions.append((_parse_time(created), info))
    return [info for _, info in sorted(sessions, key=lambda each: (each[0], each[1].id))]


def _parse_time(value: object) -> float:
    return max(parse_time_ms(decode_value(value)), 0) / 1000
