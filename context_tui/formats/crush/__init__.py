"""The databases of Crush and of the Go opencode before it, which differ in a few columns."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import ClassVar

from context_tui.errors import UnreadableSession
from context_tui.formats.base import Claim, Format, Found, Scanner
from context_tui.formats.crush.shape import CrushShape
from context_tui.formats.crush.source import CrushSource
from context_tui.formats.kit.databases import MAGIC, Database, columns_in, plain, text
from context_tui.formats.kit.entry_scanner import EntryScanner
from context_tui.formats.kit.row_entries import sessions_with_messages, sizes
from context_tui.formats.kit.values import epoch_ms, title_of
from context_tui.session.session import Session, SessionInfo

__all__ = ["CrushFormat"]

PLACES = (Path(".crush") / "crush.db", Path(".opencode") / "opencode.db")
"""Where the databases are in the folder of a project."""
_SIZES = "SELECT session_id, sum(length(CAST(parts AS BLOB))) FROM messages GROUP BY session_id"


class CrushFormat(Format):
    """Crush's and the Go opencode's sessions."""

    name: ClassVar[str] = "crush"
    about: ClassVar[str] = "Crush's and the Go opencode's databases (SQLite, read-only with the write-ahead log)"
    suffixes: ClassVar[tuple[str, ...]] = (".db",)
    from_source: ClassVar[str] = "the Go opencode's"

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        """By their tables and the columns of the one with messages."""
        if not head.startswith(MAGIC):
            return None
        columns, sessions = columns_in(path, "messages", "sessions")
        if not {"id", "session_id", "role", "parts"} <= columns or not sessions:
            return None
        return Claim(97, "Crush's tables (or the Go opencode's)")

    def sessions(self, path: Path) -> list[SessionInfo]:
        """The sessions that have messages, in the order in which they were begun; always by their own ids."""
        with closing(Database(path)) as database:
            return _sessions(database)

    def scanner(self, path: Path, info: SessionInfo) -> Scanner:
        """A scanner for one of them."""
        scanner = EntryScanner(CrushSource(Database(path), info.id), info, CrushShape)
        if not scanner.count:
            raise UnreadableSession(f"{path}: unknown session {info.id!r}, or one without messages")
        return scanner

    def called(self, session: Session, call: int) -> SessionInfo | None:
        """The session of an agent: its id is that of the call, or ends with it."""
        call_id = session.facts.call_id(call)
        if session.facts.tool_name(call) not in ("agent", "agentic_fetch") or not call_id:
            return None
        path = Path(session.info.path)
        return next((each for each in self.sessions(path) if each.id.rpartition("$$")[2] == call_id), None)

    def kept(self, environ: Mapping[str, str], cwd: Path) -> Iterable[Found]:
        """The databases of the current project."""
        folder = cwd.absolute()
        for project in (folder, *folder.parents):
            for place in PLACES:
                if os.path.isfile(project / place):
                    yield Found(project / place, project.name, True)


def _sessions(database: Database) -> list[SessionInfo]:
    path = str(database.path)
    names = ("id", "parent_session_id", "title", "updated_at", "created_at")
    known = sessions_with_messages(database, "sessions", "messages", names)
    listed = {row[0] for row in known}
    bytes_ = sizes(database, _SIZES)
    project = database.path.absolute().parent
    cwd = str(project.parent) if project.name in (".crush", ".opencode") else ""
    found = []
    for name, parent, title, updated, created in known:
        above = f"{path}#{text(parent)}" if parent in listed else ""
        time = max(_time(updated) or _time(created), 0)
        info = SessionInfo(path, "crush", text(name), title_of(text(title)), above, time, bytes_.get(name, 0), cwd)
        found.append((_time(created), info))
    return [info for _, info in sorted(found, key=lambda each: (each[0], each[1].id))]


def _time(value: object) -> float:
    return max(epoch_ms(plain(value)), 0) / 1000
