"""Goose, Block's open agent for terminal and desktop.

Sessions are in a SQLite database, ``sessions.db``; up to 1.9 each was a JSON Lines file with a message per line.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

from context_tui.errors import UnreadableSession
from context_tui.formats.base import ALL_FROM_SOURCE, Claim, Format, Scanner, SessionFile
from context_tui.formats.goose.reader import GooseRows, GooseShape, LinesSource
from context_tui.formats.kit.databases import SQLITE_MAGIC, Database, decode_text, is_database, read_columns
from context_tui.formats.kit.entry_scanner import EntryScanner, query_session_sizes, query_sessions_with_messages
from context_tui.formats.kit.files import (
    ALL_PROJECTS,
    find_data_home,
    list_entries,
    parse_first_values,
    read_first_objects,
)
from context_tui.formats.kit.line_scanner import list_only_session
from context_tui.formats.kit.values import format_title, parse_id, parse_time_ms
from context_tui.session.session import SessionInfo

__all__ = ["GooseFormat"]

OWN_CONTENT_TYPES = frozenset({"toolRequest", "toolResponse", "frontendToolRequest", "conversationCompacted"})
"""Types of content that no other format has."""
_SIZES_QUERY = "SELECT session_id, sum(length(CAST(content_json AS BLOB))) FROM messages GROUP BY session_id"


class GooseFormat(Format):
    """Format of Goose's sessions."""

    name: ClassVar[str] = "goose"
    about: ClassVar[str] = "Goose's database (SQLite, read-only), and its session files up to 1.9 (JSONL)"
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl", ".db")
    from_source: ClassVar[str] = ALL_FROM_SOURCE

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        """Recognise the columns of the tables; lines by the first one, or by types of content."""
        if head.startswith(SQLITE_MAGIC):
            [columns] = read_columns(path, "messages")
            own = {"id", "session_id", "role", "content_json"} <= columns
            return Claim(97, "Goose's tables") if own else None
        objects = [value for value in parse_first_values(head) if isinstance(value, dict)]
        if objects and "working_dir" in objects[0] and ("message_count" in objects[0] or "description" in objects[0]):
            return Claim(90, "a line with the folder and the tokens of a Goose session")
        return Claim(90, "messages of Goose") if any(map(_is_goose_message, objects)) else None

    def list_sessions(self, path: Path) -> list[SessionInfo]:
        """List the sessions with messages of a database, always by id, or the only session of a file."""
        if not is_database(path):
            source = LinesSource(path)
            source.list_ids()
            about = source.read_metadata()
            return list_only_session(path, self.name, format_title(parse_id(about.get("description"))))
        with closing(Database(path)) as database:
            return _list_sessions(database)

    def make_scanner(self, path: Path, info: SessionInfo) -> Scanner:
        source = GooseRows(Database(path), info.id) if info.id else LinesSource(path)
        scanner = EntryScanner(source, info, GooseShape)
        if not scanner.count:
            raise UnreadableSession(f"{path}: unknown session {info.id!r}, or one without messages")
        return scanner

    def read_title(self, path: Path) -> str:
        """Return the description on the first line of a file, else the first message."""
        for value in read_first_objects(path):
            if value.get("description"):
                return format_title(parse_id(value["description"]))
            content = value.get("content") if value.get("role") == "user" else None
            for part in content if isinstance(content, list) else ():
                if isinstance(part, dict) and part.get("type") == "text":
                    return format_title(parse_id(part.get("text")))
        return ""

    def find_sessions(self, environ: Mapping[str, str], cwd: Path) -> Iterable[SessionFile]:
        """Yield the database, or without one the files, which Goose migrates to the database."""
        for folder in _list_session_folders(environ):
            if os.path.isfile(folder / "sessions.db"):
                yield SessionFile(folder / "sessions.db", ALL_PROJECTS, False)
            else:
                for entry in list_entries(folder):
                    if entry.name.endswith(".jsonl"):
                        yield SessionFile(Path(entry.path), ALL_PROJECTS, False)


def _list_session_folders(environ: Mapping[str, str]) -> list[Path]:
    """List the session folders: below a named root, in the data folder, and on Windows."""
    folders = [find_data_home(environ) / "goose" / "sessions"]
    if root := environ.get("GOOSE_PATH_ROOT"):
        folders.insert(0, Path(root) / "data" / "sessions")
    if roaming := environ.get("APPDATA"):
        folders.append(Path(roaming) / "Block" / "goose" / "data" / "sessions")
    return list(dict.fromkeys(folders))


def _is_goose_message(value: dict[str, Any]) -> bool:
    """Return whether an object is a message of Goose, by a type of content or by members of its messages only."""
    content = value.get("content")
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    if "created" not in value or "role" not in value or not parts:
        return False
    metadata = value.get("metadata")
    flags = isinstance(metadata, dict) and ("agentVisible" in metadata or "userVisible" in metadata)
    return flags or any(str(part.get("type")) in OWN_CONTENT_TYPES for part in parts)


def _list_sessions(database: Database) -> list[SessionInfo]:
    path = str(database.path)
    names = ("id", "name", "description", "working_dir", "updated_at", "created_at")
    rows = query_sessions_with_messages(database, "sessions", "messages", names)
    bytes_ = query_session_sizes(database, _SIZES_QUERY)
    sessions = []
    for name, title_text, description, folder, updated, created in rows:
        title = format_title(decode_text(title_text)) or format_title(decode_text(description))
        time = max(parse_time_ms(decode_text(updated or created)), 0) / 1000
        size = bytes_.get(name, 0)
        info = SessionInfo(path, "goose", decode_text(name), title, time=time, bytes=size, cwd=decode_text(folder))
        sessions.append((parse_time_ms(decode_text(created)), info))
    return [info for _, info in sorted(sessions, key=lambda each: (each[0], each[1].id))]
