"""opencode, a coding agent for the terminal.

Sessions are kept in a SQLite database. Before 1.2 they were in a tree of JSON files, one for each session, message and
part. ``opencode export`` writes a session as one JSON document, which ``opencode import`` reads.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from context_tui.errors import UnreadableSession
from context_tui.formats.base import Claim, Format, Scanner
from context_tui.formats.kit import databases, entry_scanner, files, heads, writing
from context_tui.formats.kit.entry_scanner import EntryContent, EntrySource
from context_tui.formats.kit.values import as_object, format_title, parse_id
from context_tui.formats.opencode.parts import get_call_state, parse_time
from context_tui.formats.opencode.paths import find_folder_files, find_session_file, find_sessions, list_session_files
from context_tui.formats.opencode.reader import OpencodeShape, parse_entry
from context_tui.formats.opencode.sources import ExportSource, TableSource, TreeSource, read_session_object
from context_tui.formats.opencode.writer import copy_session, is_copyable, write_export
from context_tui.session.session import Session, SessionInfo

_SIZES_QUERY = """
SELECT session_id, sum(size) FROM (
    SELECT session_id, length(CAST(data AS BLOB)) AS size FROM message
    UNION ALL SELECT session_id, length(CAST(data AS BLOB)) FROM part
) GROUP BY session_id
"""


class OpencodeFormat(Format):
    """The format of opencode's sessions: in the database, in a tree of files, or exported."""

    name: ClassVar[str] = "opencode"
    about: ClassVar[str] = "opencode's database (SQLite, read-only), session files before 1.2, and exports (JSON)"
    suffixes: ClassVar[tuple[str, ...]] = (".json", ".db")
    checked_with: ClassVar[str] = "1.18.33"
    unrecorded: ClassVar[tuple[str, ...]] = (
        *("system prompt", "environment", "instruction files", "skills", "tool schemas"),
    )
    request_recording: ClassVar[str] = "claude-tap --tap-client opencode"

    find_sessions = staticmethod(find_sessions)
    write = staticmethod(write_export)
    can_copy = staticmethod(is_copyable)
    copy = staticmethod(copy_session)

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        """Return a claim based on tables or ids, or None. A lone message raises an error with its session's file."""
        if head.startswith(databases.SQLITE_MAGIC):
            messages, parts = databases.read_columns(path, "message", "part")
            is_own = "data" in messages and {"message_id", "data"} <= parts
            return Claim(97, "opencode's tables") if is_own else None
        value = as_object(heads.parse_only_value(head))
        name, info = str(value.get("id")), value.get("info")
        if isinstance(info, dict) and str(info.get("id")).startswith("ses_"):
            return Claim(95, "an opencode export")
        if name.startswith("ses_") and ("projectID" in value or "directory" in value or "version" in value):
            return Claim(95, "an opencode session file")
        if name.startswith(("msg_", "prt_")) and isinstance(session := value.get("sessionID"), str):
            remedy = f"open {find_session_file(path, session) or 'its session file'}"
            raise UnreadableSession(f"{path}: is one message of an opencode session, or a part of one; {remedy}")
        return None

    def list_sessions(self, path: Path) -> list[SessionInfo]:
        if databases.is_database(path):
            columns = ("id", "parent_id", "title", "", "directory", "time_updated", "time_created")
            return entry_scanner.list_table_sessions(path, self.name, ("session", "message"), columns, _SIZES_QUERY)
        value = heads.read_first_object(path)
        if isinstance(exported := value.get("info"), dict):
            return [_build_session_info(path, exported, files.read_status(path).st_size)]
        session = read_session_object(path)
        return [_build_session_info(path, session, TreeSource(path, parse_id(session.get("id"))).compute_size())]

    def make_scanner(self, path: Path, info: SessionInfo) -> Scanner:
        source = _open_source(path, info)
        scanner = entry_scanner.EntryScanner(source, info, OpencodeShape)
        if not scanner.count:
            searched = f"; none are in {source.messages}" if isinstance(source, TreeSource) else ""
            raise UnreadableSession(f"{info.spec}: holds no messages{searched}")
        return scanner

    def find_unlisted(self, main: SessionInfo, session_id: str) -> SessionInfo | None:
        sessions = self.list_sessions(Path(main.path)) if main.id else [main]
        return entry_scanner.find_branch_in(main, session_id, sessions)

    def subagent_of(self, session: Session, call: int) -> SessionInfo | None:
        """Return the session that a ``task`` call started, or None for other calls (see ``Format.subagent_of``)."""
        session_id = _find_subagent_id(session, call)
        if not session_id:
            return None
        path = Path(session.info.path)
        if session.info.id and databases.is_database(path):
            subagent = next((each for each in self.list_sessions(path) if each.id == session_id), None)
        else:
            file = find_session_file(path, session_id)
            subagent = self.list_sessions(file)[0] if file else None
        if subagent is None:
            raise UnreadableSession(f"{path.name}#{session_id}: the session of this sub-agent is not here")
        return subagent

    def list_folder_sessions(self, path: Path) -> list[SessionInfo]:
        """Return the sessions in a storage tree, or the session whose messages are in the folder, or []."""
        sessions = []
        for file in find_folder_files(path):
            with suppress(UnreadableSession):
                sessions += self.list_sessions(file)
        return sessions

    def reads_all_siblings(self, path: Path) -> bool:
        """Return whether *path* is a session file in a storage tree, as opencode loads all files there."""
        return path.absolute() in list_session_files(path.absolute().parent.parent.parent)

    def read_title(self, path: Path) -> str:
        """Return the title in a session file or at the start of an export, or "" for a database."""
        if databases.is_database(path):
            return ""
        value = heads.read_first_object(path)
        info = value.get("info")
        return parse_id((info if isinstance(info, dict) else value).get("title"))

    def related_files(self, path: Path) -> Iterable[Path]:
        """Return the folders in which a storage tree keeps the session's messages and parts, or [] for other files."""
        if databases.is_database(path) or "info" in (head := heads.read_first_object(path)):
            return []
        return TreeSource(path, parse_id(head.get("id"))).list_folders()

    def build_resume_command(self, session: Session, written_session: Path, out_path: Path) -> str:
        session_id = parse_id(as_object(heads.read_first_object(written_session).get("info")).get("id"))
        if not session_id.isascii() or not session_id.removeprefix("ses_").isalnum():
            return ""
        change_folder, file = writing.build_change_folder(session.info.cwd), shlex.quote(str(out_path.absolute()))
        return f"{change_folder}opencode import {file} && opencode --session {session_id}"


def _open_source(path: Path, info: SessionInfo) -> EntrySource:
    session_id, _ = entry_scanner.split_branch_id(info.id)
    if databases.is_database(path):
        return TableSource(databases.Database(path), session_id)
    if "info" in heads.read_first_object(path):
        return ExportSource(path)
    return TreeSource(path, parse_id(read_session_object(path).get("id")))


def _build_session_info(path: Path, value: dict[str, Any], size: int) -> SessionInfo:
    updated = parse_time(value, "updated")
    parent = parse_id(value.get("parentID"))
    parent_file = find_session_file(path, parent) if parent else None
    time = updated / 1000 if updated >= 0 else files.read_status(path).st_mtime
    title, cwd = format_title(parse_id(value.get("title"))) or path.stem, parse_id(value.get("directory"))
    return SessionInfo(str(path), "opencode", "", title, str(parent_file or ""), time, size, cwd)


def _find_subagent_id(session: Session, call: int) -> str:
    content, facts = session.content, session.facts
    if not isinstance(content, EntryContent):
        return ""
    call_id = facts.call_id(call)
    for record in facts.iterate_records(facts.block_message[call]):
        entry = content.read_entry(record)
        if call_id.encode() not in b"".join(entry.texts):
            continue
        for part in parse_entry(entry)[1]:
            if isinstance(part, dict) and part.get("callID") == call_id:
                metadata = as_object(get_call_state(part).get("metadata"))
                session_id = metadata.get("sessionId") or metadata.get("sessionID")
                if isinstance(session_id, str):
                    return session_id
    return ""
