"""Small opencode sessions: messages with parts as opencode 1.x writes them, in a database, a tree or an export."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.formats.histories import IMAGE

SESSION = "ses_1"
START = 1_770_000_000_000
SCHEMA = """
CREATE TABLE session (id TEXT PRIMARY KEY, project_id TEXT DEFAULT 'p', slug TEXT DEFAULT 'calm-otter', parent_id TEXT,
    directory TEXT, title TEXT, version TEXT DEFAULT '1.2.0', revert TEXT, time_created INTEGER, time_updated INTEGER);
CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, time_updated INTEGER, data TEXT);
CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER, time_updated INTEGER,
    data TEXT);
CREATE INDEX part_message ON part (message_id, id);
CREATE TABLE account (id TEXT, access_token TEXT);
CREATE TABLE credential (id TEXT, value TEXT);
CREATE TABLE control_account (email TEXT, refresh_token TEXT);
INSERT INTO account VALUES ('a', 'secret-token');
"""
Message = dict[str, Any]


class Recording:
    """Messages of one session, a second apart; ids ascend."""

    def __init__(self, session: str = SESSION) -> None:
        self.session = session
        self.messages: list[Message] = []
        self._parts = 0

    @property
    def now(self) -> int:
        """The time of the next message."""
        return START + 1_000 * len(self.messages)

    def user(self, *parts: dict[str, Any], **more: Any) -> str:
        """A user's message."""
        model = {"providerID": "anthropic", "modelID": "claude-sonnet-4-5"}
        return self._add(
            {"role": "user", "time": {"created": self.now}, "agent": "build", "model": model, **more}, parts
        )

    def assistant(self, *parts: dict[str, Any], tokens: dict[str, Any] | None = None, **more: Any) -> str:
        """A reply to the newest user's message."""
        parent = next((m["info"]["id"] for m in reversed(self.messages) if m["info"]["role"] == "user"), "")
        info = {
            "role": "assistant",
            "parentID": parent,
            "time": {"created": self.now, "completed": self.now + 500},
            "modelID": "claude-sonnet-4-5",
            "providerID": "anthropic",
            "mode": "build",
            "agent": "build",
            "path": {"cwd": "/src", "root": "/src"},
            "cost": 0,
            "tokens": tokens or used(0),
            "finish": "stop",
        }
        return self._add({**info, **more}, parts)

    def _add(self, info: dict[str, Any], parts: tuple[dict[str, Any], ...]) -> str:
        name = f"msg_{len(self.messages):04}"
        own = []
        for part in parts:
            self._parts += 1
            own.append({"id": f"prt_{self._parts:05}", "sessionID": self.session, "messageID": name, **part})
        self.messages.append({"info": {"id": name, "sessionID": self.session, **info}, "parts": own})
        return name

    def about(self, **more: Any) -> dict[str, Any]:
        """The body of the session."""
        times = {"created": START, "updated": self.now}
        about = {"id": self.session, "slug": "calm-otter", "version": "1.2.0", "projectID": "p", "directory": "/src"}
        return {**about, "title": "Reading", "time": times, **more}

    def export(self, path: Path, **about: Any) -> Path:
        """Write what ``opencode export`` does."""
        path.write_text(json.dumps({"info": self.about(**about), "messages": self.messages}))
        return path

    def tree(self, storage: Path, **about: Any) -> Path:
        """Write the files of a storage tree; returns that of the session."""
        own = storage / "session" / "p" / f"{self.session}.json"
        files = {own: self.about(**about)}
        for message in self.messages:
            info = message["info"]
            files[storage / "message" / self.session / f"{info['id']}.json"] = info
            for part in message["parts"]:
                files[storage / "part" / info["id"] / f"{part['id']}.json"] = part
        for file, value in files.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(value, indent=2))
        return own

    def insert(self, database: sqlite3.Connection, **about: Any) -> None:
        """Put the rows into a database, in the place of what is there of them."""
        value = self.about(**about)
        revert = json.dumps(value["revert"]) if "revert" in value else None
        database.execute(
            "INSERT OR REPLACE INTO session (id, parent_id, directory, title, revert, time_created, time_updated)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (self.session, value.get("parentID"), "/src", value["title"], revert, START, value["time"]["updated"]),
        )
        for message in self.messages:
            put(database, message)
        database.commit()


def put(database: sqlite3.Connection, message: Message) -> None:
    """Put a message with its parts into a database, in the place of what is there of it."""
    info = message["info"]
    name, session, time = info["id"], info["sessionID"], info["time"]["created"]
    data = {key: value for key, value in info.items() if key not in ("id", "sessionID")}
    database.execute(
        "INSERT OR REPLACE INTO message VALUES (?, ?, ?, ?, ?)", (name, session, time, time, json.dumps(data))
    )
    for part in message["parts"]:
        body = {key: value for key, value in part.items() if key not in ("id", "sessionID", "messageID")}
        row = (part["id"], name, session, time, time, json.dumps(body))
        database.execute("INSERT OR REPLACE INTO part VALUES (?, ?, ?, ?, ?, ?)", row)


def database(path: Path, *recordings: Recording, **about: Any) -> Path:
    """Write a database with these sessions."""
    with closing(sqlite3.connect(path)) as made:
        made.executescript(SCHEMA)
        for recording in recordings:
            recording.insert(made, **about)
    return path


def used(
    fresh: int, read: int = 0, written: int = 0, output: int = 0, reasoning: int = 0, **more: int
) -> dict[str, Any]:
    """Recorded tokens."""
    return {"input": fresh, "output": output, "reasoning": reasoning, "cache": {"read": read, "write": written}, **more}


def text(words: str, **more: Any) -> dict[str, Any]:
    """A text part."""
    return {"type": "text", "text": words, **more}


def tool(call: str, output: str, name: str = "read", *, compacted: int = 0, **state: Any) -> dict[str, Any]:
    """A call that ended."""
    times = {"start": START, "end": START + 1, **({"compacted": compacted} if compacted else {})}
    own = {"status": "completed", "input": {"filePath": "/src/a"}, "output": output, "title": "a", "metadata": {}}
    return {"type": "tool", "tool": name, "callID": call, "state": {**own, "time": times, **state}}


STEP = {"type": "step-start", "snapshot": "s"}
PNG = f"data:image/png;base64,{IMAGE['source']['data']}"


def finish(tokens: dict[str, Any]) -> dict[str, Any]:
    """The part that ends a request."""
    return {"type": "step-finish", "reason": "stop", "cost": 0, "tokens": tokens}


def rich() -> Recording:
    """A session with parts of every kind, a pruning, a compaction with a tail, and what went on after it."""
    recording = Recording()
    recording.user(text("Read a and b."), text("Called the Read tool", synthetic=True), {"type": "agent", "name": "x"})
    recording.assistant(
        STEP,
        {"type": "reasoning", "text": "hm", "time": {"start": 1}, "metadata": {"anthropic": {"signature": "sig"}}},
        text("Reading."),
        tool("c1", "alpha " * 400, compacted=START + 6_500),
        tool("c2", "beta", attachments=[{"type": "file", "mime": "image/png", "url": PNG}]),
        finish(used(20, 900, 100, 40)),
        tokens=used(20, 900, 100, 40, total=1_060),
        finish="tool-calls",
    )
    recording.assistant(STEP, text("Both read."), finish(used(5)), tokens=used(5, 1_500, 90, 9))
    recording.user(text("Look."), {"type": "file", "mime": "image/png", "filename": "a.png", "url": PNG})
    recording.assistant(STEP, tool("c3", "gamma " * 50, "task", metadata={"sessionId": "ses_2"}), tokens=used(4, 1_600))
    recording.assistant(STEP, text("Seen."), tokens=used(4, 1_900, 30, 7))
    tail = recording.user(text("More."))
    recording.assistant(STEP, text("More it is."), tokens=used(3, 1_400, 30, 7))
    recording.user({"type": "compaction", "auto": True, "tail_start_id": tail})
    recording.assistant(
        STEP, text("## Goal\nRead."), tokens=used(2_000, 0, 0, 300), summary=True, mode="compaction", agent="compaction"
    )
    recording.user(text("Continue if you have next steps", synthetic=True))
    recording.assistant(STEP, text("Going on."), tool("c4", "delta"), tokens=used(9, 600, 40, 8))
    return recording
