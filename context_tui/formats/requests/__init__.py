"""Logs of complete requests: Claude Code's raw bodies, and recordings made with claude-tap."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from context_tui.formats.base import Claim, Format, SessionFile
from context_tui.formats.kit import databases, entry_scanner, files, values
from context_tui.formats.requests import folder, tap
from context_tui.formats.requests.scanner import LogSource, OpenLog, RequestScanner, find_subagent
from context_tui.formats.requests.session_file import SessionFileRequests
from context_tui.session.session import Session, SessionInfo

__all__ = ["ClaudeCodeRequestsFormat", "ClaudeTapFormat"]

_FIRST_RECORD = re.compile(rb'\[?\s*\{([^{\[]*)"(request|messages)":')
"""Matches the start of a record, and the members before its first object or list."""


@lru_cache(maxsize=4)
def _open_log(kind: Callable[..., LogSource], path: Path, *arguments: str) -> OpenLog:
    """Return the log at a path. The log stays open, and later calls read only what was added."""
    return OpenLog(kind(path, *arguments))


class RequestLogFormat(Format):
    """Base class for formats whose files are logs of requests."""

    def _open(self, path: Path, session_id: str = "") -> OpenLog:
        raise NotImplementedError

    def list_sessions(self, path: Path) -> list[SessionInfo]:
        return self._open(path).list_sessions()

    def make_scanner(self, path: Path, info: SessionInfo) -> RequestScanner:
        return RequestScanner(self._open(path, info.id), info)

    def find_unlisted(self, main: SessionInfo, session_id: str) -> SessionInfo | None:
        """Return the branch or unlisted conversation that *session_id* names, or None for an unknown id."""
        listed = self._open(Path(main.path), session_id).list_sessions()
        found = next((each for each in listed if each.id == session_id), None)
        return found or entry_scanner.find_branch_in(main, session_id, listed)

    def subagent_of(self, session: Session, call: int) -> SessionInfo | None:
        return find_subagent(self._open(Path(session.info.path), session.info.id), session, call)


class ClaudeCodeRequestsFormat(RequestLogFormat):
    """The format of Claude Code's requests: folders of raw bodies, and the requests in its own session files."""

    name: ClassVar[str] = folder.FORMAT_NAME
    about: ClassVar[str] = "Claude Code's requests: a folder of raw bodies, or FILE#requests of newer session files"
    checked_with: ClassVar[str] = "2.1.330"
    suffixes: ClassVar[tuple[str, ...]] = (folder.REQUEST_SUFFIX,)

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        """Return None, as only folders have this format. A single body is a request to the Messages API."""
        return None

    def list_folder_sessions(self, path: Path) -> list[SessionInfo]:
        return self.list_sessions(path) if folder.has_requests(path) else []

    def _open(self, path: Path, session_id: str = "") -> OpenLog:
        return _open_log(folder.RequestFolder if path.is_dir() else SessionFileRequests, path)


class ClaudeTapFormat(RequestLogFormat):
    """The format of recordings that claude-tap makes of many clients."""

    name: ClassVar[str] = tap.FORMAT_NAME
    about: ClassVar[str] = "claude-tap's recordings of 17 clients: its database (SQLite), bundles, JSONL, exported JSON"
    checked_with: ClassVar[str] = "0.1.146"
    suffixes: ClassVar[tuple[str, ...]] = (".sqlite3", ".jsonl", ".json")

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        if head.startswith(databases.SQLITE_MAGIC):
            records, sessions = databases.read_columns(path, "records", "sessions")
            is_own = {"session_id", "record_index", "payload_json"} <= records and "client" in sessions
            return Claim(97, "claude-tap's tables") if is_own else None
        start = head.lstrip()[:4_000]
        if tap.TRACE_MARK.encode() in start[:100]:
            return Claim(97, "a bundle of claude-tap")
        first = _FIRST_RECORD.match(start)
        if first and b'"turn":' in first[1] and b'"duration_ms":' in first[1]:
            return Claim(96, "records of claude-tap" if first[2] == b"request" else "turns exported by claude-tap")
        return None

    def list_sessions(self, path: Path) -> list[SessionInfo]:
        """Return the conversations or, without reading them, only the recordings of a large database."""
        if not databases.is_database(path) or os.stat(path).st_size <= entry_scanner.MAX_SIZED_DATABASE_BYTES:
            return super().list_sessions(path)
        rows = tap.TapDatabase(path).list_rows()
        return [
            SessionInfo(str(path), self.name, session, client, time=max(values.parse_time_ms(updated), 0) / 1000)
            for session, client, updated in rows
        ]

    def find_sessions(self, environ: Mapping[str, str], cwd: Path) -> Iterable[SessionFile]:
        configured = environ.get("CLOUDTAP_DB")
        path = Path(configured) if configured else files.find_data_home(environ) / "claude-tap" / "traces.sqlite3"
        if path.is_file():
            yield SessionFile(path, "claude-tap", False)

    def _open(self, path: Path, session_id: str = "") -> OpenLog:
        if databases.is_database(path):
            recording = entry_scanner.split_branch_id(session_id)[0].partition("/")[0]
            return _open_log(tap.TapDatabase, path, *([recording] if recording else []))
        return _open_log(tap.TapFile, path)
