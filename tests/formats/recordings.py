"""Claude Code files as they are written: records chained one below the other, for tests to bend."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

import context_tui as ct
from context_tui.formats.base import scan
from context_tui.formats.claude_code import ClaudeCodeFormat
from context_tui.session.session import Session, SessionInfo
from context_tui.session.values import Role

Record = dict[str, Any]
Block = dict[str, Any]
IMAGE: Block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0K" * 300}}


def text(words: str) -> Block:
    return {"type": "text", "text": words}


def thinking(words: str, signature: str = "") -> Block:
    return {"type": "thinking", "thinking": words, "signature": signature}


def call(call_id: str, name: str = "Bash", **arguments: Any) -> Block:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def result(call_id: str, body: Any = "ok", **more: Any) -> Block:
    return {"type": "tool_result", "tool_use_id": call_id, "content": body, **more}


def usage(fresh: int = 10, read: int = 0, written: int = 0, output: int = 5, **more: Any) -> dict[str, Any]:
    return {
        "input_tokens": fresh,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
        "output_tokens": output,
        **more,
    }


class Recording:
    """A file that grows record by record; each method returns the uuid of its record."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.last: str | None = None
        self.count = 0

    def add(self, kind: str | None, **fields: Any) -> str:
        """Any record of the chain; ``parent`` is the last one unless it is given."""
        self.count += 1
        own = f"u{self.count}"
        parent = fields.pop("parent", self.last)
        record: Record = {
            "parentUuid": parent,
            "isSidechain": False,
            "sessionId": "s",
            "version": "2.1.100",
            "cwd": "/project",
            "type": kind,
            "uuid": own,
            "timestamp": f"2026-01-01T00:{self.count // 60 % 60:02}:{self.count % 60:02}.000Z",
        }
        self.line(record | fields)
        if not record.get("isSidechain") and not fields.get("isSidechain"):
            self.last = fields.get("uuid", own)
        return str(fields.get("uuid", own))

    def line(self, record: Any) -> None:
        """A line outside the chain: bytes as they are, anything else as JSON."""
        self.lines.append(record if isinstance(record, bytes) else json.dumps(record, separators=(",", ":")).encode())

    def user(self, content: Any = "do it", **fields: Any) -> str:
        return self.add("user", message={"role": "user", "content": content}, **fields)

    def results(self, *blocks: Block, **fields: Any) -> str:
        return self.user(list(blocks), **{"toolUseResult": {"stdout": "as displayed"}, **fields})

    def assistant(self, *blocks: Block, id: str | None = None, use: Any = None, **fields: Any) -> str:
        message: Record = {
            "id": id or f"msg{self.count + 1}",
            "type": "message",
            "role": "assistant",
            "model": fields.pop("model", "claude-sonnet-4-5"),
            "content": list(blocks),
            "stop_reason": fields.pop("stop_reason", None),
            "usage": use if use is not None else usage(),
        }
        return self.add("assistant", message=message, **fields)

    def attachment(self, kind: str, **fields: Any) -> str:
        return self.add("attachment", attachment={"type": kind, **fields})

    def boundary(self, tokens: int = 1_000, trigger: str = "auto", **metadata: Any) -> str:
        about = {"trigger": trigger, "preTokens": tokens, **metadata}
        return self.add("system", subtype="compact_boundary", parent=None, compactMetadata=about, isMeta=False)

    def summary(self, words: str = "This session is being continued from a previous conversation.") -> str:
        return self.user(words, isCompactSummary=True, isVisibleInTranscriptOnly=True)

    def clear(self) -> str:
        """The root that a ``/clear`` leaves."""
        hook = {"type": "hook_progress", "hookEvent": "SessionStart", "hookName": "SessionStart:clear"}
        return self.add("progress", parent=None, data=hook)

    def microcompact(self, *cleared: str, tokens: int = 900) -> str:
        about = {"trigger": "auto", "preTokens": tokens, "compactedToolIds": list(cleared)}
        return self.add("system", subtype="microcompact_boundary", microcompactMetadata=about)

    @property
    def data(self) -> bytes:
        return b"".join(line + b"\n" for line in self.lines)

    def write(self, folder: Path, name: str = "s.jsonl") -> Path:
        path = folder / name
        path.write_bytes(self.data)
        return path

    def open(self, folder: Path) -> Session:
        return ct.open_session(self.write(folder))


def scanned(data: bytes, folder: Path) -> Session:
    """A session of these bytes, read by Claude Code's reader whatever they look like."""
    path = folder / "raw.jsonl"
    path.write_bytes(data)
    return scan(ClaudeCodeFormat().make_scanner(path, SessionInfo(str(path), "claude-code")))


def shape(session: Session) -> list[str]:
    """Each message as its role and the kinds of its blocks: ``user text``, ``assistant thinking tool_use``."""
    return [" ".join((message["role"], *(block["type"] for block in message["content"]))) for message in every(session)]


def every(session: Session) -> list[Record]:
    """All messages of a session, also those outside its context."""
    return [session.message(index) for index in range(len(session))]


def words(session: Session) -> list[str]:
    """The first text of each message of the context."""
    found = []
    for message in session.to_messages():
        block = message["content"][0] if message["content"] else {}
        found.append(str(block.get("text") or block.get("content") or block.get("id") or ""))
    return found


@st.composite
def conversations(draw: st.DrawFn, *, compactions: bool = True) -> Recording:
    """Recordings whose pairs are whole, with usage, idle times, and compactions and clears between turns."""
    recording = Recording()
    clock, calls = datetime(2026, 1, 1, tzinfo=UTC), list[str]()

    def later(seconds: int) -> dict[str, str]:
        nonlocal clock
        clock += timedelta(seconds=seconds)
        return {"timestamp": clock.isoformat(timespec="milliseconds").replace("+00:00", "Z")}

    bodies = ["short", "long \n" * 500, "é" * 1_500, [text("part ")] * 300, {"k": "v" * 2_500}, [text("a"), IMAGE]]
    for turn in range(draw(st.integers(1, 6))):
        if compactions and turn and draw(st.integers(0, 3)) == 0:
            recording.boundary(draw(st.integers(1, 200_000)))
            recording.summary()
            recording.attachment("file", content="attached")
        elif compactions and turn and draw(st.integers(0, 5)) == 0:
            recording.clear()
        typed = f"turn {turn} " + "x" * draw(st.integers(0, 60))
        content = [text(typed), IMAGE] if draw(st.integers(0, 7)) == 0 else typed
        recording.user(content, **later(draw(st.sampled_from([1, 299, 300]))))
        for step in range(draw(st.integers(0, 4))):
            own = [f"t{turn}-{step}-{number}" for number in range(draw(st.integers(1, 3)))]
            use = draw(st.sampled_from([{}, usage(fresh=draw(st.integers(1, 180_000)), read=draw(st.integers(0, 9)))]))
            for call_id in own:
                name = draw(st.sampled_from(["Read", "Bash", "Edit"]))
                recording.assistant(call(call_id, name, path="é" * step), id=f"m{turn}-{step}", use=use, **later(2))
            if compactions and calls and draw(st.integers(0, 5)) == 0:
                recording.microcompact(*draw(st.lists(st.sampled_from(calls), max_size=3)))
            for call_id in own:
                body = draw(st.sampled_from(bodies))
                recording.results(result(call_id, body), **later(3))
            calls += own
        if draw(st.booleans()):
            recording.assistant(text("reply"), use=usage(fresh=draw(st.integers(1, 180_000))), **later(1))
    return recording


def four_turns(folder: Path) -> Path:
    """A session of four turns, each with a read whose result is large enough to be cleared."""
    recording = Recording()
    for turn in range(4):
        recording.user(f"turn {turn}")
        recording.assistant(call(f"c{turn}", "Read", file_path="a.py"))
        recording.results(result(f"c{turn}", "line\n" * 900))
    return recording.write(folder)


def reasoning(session: Session) -> Session:
    """The same session, with hidden reasoning behind each reply, each of another size."""
    replies = (message for message, role in enumerate(session.facts.role) if role == Role.ASSISTANT)
    session.facts.reasoning.update((message, 1 << number) for number, message in enumerate(replies))
    return session
