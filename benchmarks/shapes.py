"""Sessions of awkward shapes, as large as one asks: what a reader or a policy could take quadratic time over."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

Record = dict[str, Any]
encode = msgspec.json.encode


class Chain:
    """Records of a Claude Code file, each below the one before, with as little in them as readers need."""

    def __init__(self, session: str = "s", agent: str = "") -> None:
        self.records: list[Record] = []
        self.session, self.agent = session, agent
        self.parent: str | None = None
        self.context = 20_000
        self.cache_key = "cache_read_input_tokens"  # member of the usage that holds the context

    def add(self, kind: str, *, parent: str | None = None, **rest: Any) -> str:
        """Add a record below the one before, or below *parent*; returns its uuid."""
        number = len(self.records)
        uuid, parent_id = f"{self.agent}u{number}", parent if parent is not None else self.parent
        time = stamp(number)
        record = {
            "parentUuid": parent_id,
            "isSidechain": bool(self.agent),
            "sessionId": self.session,
            "version": "2.1.62",
        }
        record |= {"type": kind, "uuid": uuid, "timestamp": time}
        self.records.append(record | ({"agentId": self.agent} if self.agent else {}) | rest)
        self.parent = uuid
        return uuid

    def typed(self, text: str = "go on", **rest: Any) -> str:
        """What a person typed."""
        return self.add("user", message={"role": "user", "content": text}, **rest)

    def reply(self, *blocks: Record, id: str = "", model: str = "claude-sonnet-4-5", fall: int = 0) -> str:
        """A line of a message of the model, with the usage of a context that grows by 500 tokens, or falls."""
        self.context += 500 - fall
        usage = {"input_tokens": 3, self.cache_key: self.context, "output_tokens": 40}
        content = list(blocks) or [{"type": "text", "text": "done" * 20}]
        message = {"id": id or f"m{len(self.records)}", "model": model, "role": "assistant", "content": content}
        return self.add("assistant", message=message | {"usage": usage, "stop_reason": "end_turn"})

    def results(self, *calls: str, size: int = 2_000) -> str:
        """One record with a result for each call."""
        content = [{"type": "tool_result", "tool_use_id": call, "content": "x" * size} for call in calls]
        return self.add("user", message={"role": "user", "content": content})

    def step(self, number: int, size: int = 2_000, **given: Any) -> None:
        """A call and its result."""
        self.reply(call(f"t{number}"), **given)
        self.results(f"t{number}", size=size)

    def compaction(self, **about: Any) -> None:
        """The boundary and the summary of a full compaction."""
        self.add("system", subtype="compact_boundary", compactMetadata={"trigger": "auto", "preTokens": 9_000, **about})
        self.add("user", message={"role": "user", "content": "This session is being continued"}, isCompactSummary=True)
        self.context = 20_000

    def cleared(self, *calls: str) -> None:
        """The record of a microcompaction."""
        about = {"trigger": "auto", "preTokens": 9_000, "tokensSaved": 500, "compactedToolIds": list(calls)}
        self.add("system", subtype="microcompact_boundary", microcompactMetadata=about)

    def clear(self) -> None:
        """The hook that says that the context begins anew."""
        self.parent = None
        data = {"type": "hook_progress", "hookName": "SessionStart:clear"}
        self.add("progress", data=data)

    def write(self, path: Path, between: bytes = b"\n") -> Path:
        """Write them to a file."""
        path.write_bytes(between.join(map(encode, self.records)) + b"\n")
        return path


def call(call_id: str, path: str = "", **given: Any) -> Record:
    """A call of a tool: a read of *path* where one is given."""
    name, arguments = ("Read", {"file_path": path, **given}) if path else ("Bash", {"command": "make"})
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def result(call_id: str, text: str = "fine") -> Record:
    """The result of a call."""
    return {"type": "tool_result", "tool_use_id": call_id, "content": text}


def database(path: Path, rows: Iterable[tuple[Any, ...]]) -> Path:
    """A koda database; a row is session, role, content, calls, id of the call, when archived, tokens."""
    columns = "session_id, role, content, tool_calls, tool_call_id, compacted_at, prompt_tokens"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT, tool_calls TEXT,"
            " tool_call_id TEXT, compacted_at TEXT, prompt_tokens INTEGER, created_at TEXT DEFAULT '2026-01-01')"
        )
        connection.execute("CREATE TABLE sessions (id TEXT PRIMARY KEY, title TEXT)")
        connection.execute("CREATE TABLE session_metadata (session_id TEXT, key TEXT, value TEXT)")
        connection.execute("CREATE INDEX by_session ON messages(session_id)")
        connection.executemany(f"INSERT INTO messages ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    return path


def stamp(number: int) -> str:
    """A time as koda writes it, later for larger numbers."""
    return f"2026-01-{1 + number // 86_400:02}T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}+00:00"
