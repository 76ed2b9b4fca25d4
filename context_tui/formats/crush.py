"""Read sessions of Crush, a coding agent for the terminal, and of its predecessor, the opencode written in Go.

Sessions are in a SQLite database in the folder of the project, ``.crush/crush.db`` or ``.opencode/opencode.db``. The
schemas differ in a few columns.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from context_tui.formats.base import Claim, Format, Scanner, SessionFile
from context_tui.formats.kit import databases, entry_scanner
from context_tui.formats.kit.blocks import Block, build_text, build_tool_result, build_tool_use, parse_arguments
from context_tui.formats.kit.entry_scanner import Entry, RowSource
from context_tui.formats.kit.message_builder import MessageBuilder, MessageRecord, ParsedRecord
from context_tui.formats.kit.values import parse_id, parse_time_ms, parse_tokens, parse_usage_or_note
from context_tui.session.blocks import bytes_to_tokens
from context_tui.session.facts import Usage
from context_tui.session.jsontext import compact_json, is_nested_deeper, loads
from context_tui.session.session import Session, SessionInfo
from context_tui.session.values import MessageFlag, Role
from context_tui.text.sanitize import truncate_name

ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "tool": Role.USER, "system": Role.SYSTEM}
FAILED_REASONS = ("error", "canceled")


OUTPUT_INCLUDES_CACHE = "output includes cache"
"""Metadata key, true for the Go opencode and Crush up to 2025: their ``completion_tokens`` are output plus cache reads,
and ``prompt_tokens`` are input plus cache writes. Source: TrackUsage of both in ``internal/llm/agent``."""
MIN_CACHE_READ = 1_024
"""Smallest cache read of a provider, in tokens. A smaller difference is an error of the estimated output."""


class CrushShape:
    """Parser for the rows of one session. An entry has two texts: its columns as a JSON object, and its parts."""

    def __init__(self) -> None:
        self._summaries: list[int] = []
        self._newest_reply = -1  # the newest reply that ended

    def parse(self, entry: Entry) -> ParsedRecord:
        row, parts, notes = _parse_entry(entry)
        name = parse_id(row.get("role"))
        if name not in ROLES:
            raise ValueError(f"not a message: unknown role {name[:40]!r}")
        role, time = ROLES[name], parse_time_ms(row.get("created_at"))
        blocks, failed = [], ""
        for kind, data in parts:
            if kind == "finish":
                failed = _format_failure(data)
            elif (block := _parse_block(kind, data)) is not None:
                blocks.append(block)
            else:
                notes.append(f"a part of unknown type {str(kind)[:40]!r}")
        model = truncate_name(parse_id(row.get("model"))) if name == "assistant" else ""
        if row.get("summary"):  # sent as a user message, whatever its role
            flags = MessageFlag.SUMMARY
            return MessageRecord(Role.USER, blocks, flags=flags, time=time, is_injected=True, notes=tuple(notes))
        flags = 0
        if not blocks:
            flags = MessageFlag.NOT_SENT
            blocks = [build_text(failed)] if failed else []
        return MessageRecord(role, blocks, name == "tool", flags, time, notes=tuple(notes), model=model)

    def add_facts(self, entry: Entry, parsed: ParsedRecord, messages: range, builder: MessageBuilder) -> None:
        if not messages or not isinstance(parsed, MessageRecord):
            return
        if parsed.flags & MessageFlag.SUMMARY:
            self._summaries.append(messages.start)
        if parsed.role == Role.ASSISTANT and not parsed.flags & MessageFlag.NOT_SENT:
            self._newest_reply = messages.start

    def finish(self, metadata: Mapping[str, Any], builder: MessageBuilder) -> list[set[int]]:
        """Record the compactions and the newest reply's usage. Return [], as there are no abandoned branches."""
        facts = builder.facts
        entry_scanner.replace_summaries(facts, self._summaries)
        usage, _ = parse_usage_or_note(_parse_usage, metadata)
        if usage and self._newest_reply > max(self._summaries, default=-1):
            read = usage.output - sum(bytes_to_tokens(facts.size[row]) for row in facts.blocks_of(self._newest_reply))
            if metadata.get(OUTPUT_INCLUDES_CACHE) and read >= MIN_CACHE_READ:
                usage.cache_read, usage.output = read, usage.output - read
            entry_scanner.set_only_usage(facts, usage, self._newest_reply)
        return []


def _parse_entry(entry: Entry) -> tuple[dict[str, Any], list[tuple[Any, dict[str, Any]]], list[str]]:
    columns, text = entry.texts
    row, parts = loads(columns), loads(text)
    if not isinstance(row, dict) or not isinstance(parts, list):
        raise ValueError("its parts are no list")
    if is_nested_deeper(parts):
        raise ValueError("nested too deeply")
    typed_parts = [(part.get("type"), part.get("data")) for part in parts if isinstance(part, dict)]
    objects = [(kind, data) for kind, data in typed_parts if isinstance(data, dict)]
    return row, objects, ["a part that is not an object"] * (len(parts) - len(objects))


def _format_failure(finish: dict[str, Any]) -> str:
    if finish.get("reason") not in FAILED_REASONS:
        return ""
    texts = [parse_id(finish.get(name)) for name in ("message", "details")]
    return ": ".join(dict.fromkeys(filter(None, texts))) or parse_id(finish["reason"])


def _parse_block(kind: Any, data: dict[str, Any]) -> Block | None:
    match kind:
        case "text":
            return build_text(data.get("text"))
        case "reasoning":
            signature = {"signature": data["signature"]} if isinstance(data.get("signature"), str) else {}
            return {"type": "thinking", "thinking": data.get("thinking"), **signature}
        case "tool_call":
            arguments = parse_arguments(data.get("input"))
            return build_tool_use(parse_id(data.get("id")), parse_id(data.get("name")), arguments)
        case "tool_result":
            content: Any = parse_id(data.get("content"))
            if isinstance(media := data.get("data"), str) and media:
                image = _build_media_block(parse_id(data.get("mime_type")), media)
                content = [*([build_text(content)] if content else []), image]
            return build_tool_result(parse_id(data.get("tool_call_id")), content, is_error=bool(data.get("is_error")))
        case "image_url":
            return {"type": "image", "source": {"type": "url", "url": parse_id(data.get("url"))}}
        case "binary":  # its members have Go's default names
            return _build_media_block(parse_id(data.get("MIMEType")), parse_id(data.get("Data")))
    return None


def _build_media_block(mime: str, data: str) -> Block:
    source = {"type": "base64", "media_type": mime, "data": data}
    return {"type": "image" if mime.startswith("image/") else "document", "source": source}


def _parse_usage(metadata: Mapping[str, Any]) -> Usage | None:
    """Return the usage of a session's newest request, or None right after a summary, when there is none yet."""
    prompt, completion = (parse_tokens(metadata.get(name), name) for name in ("prompt_tokens", "completion_tokens"))
    return Usage(fresh=prompt, output=completion) if prompt else None


SUMMARY_ID = "\0summary"
"""Id assigned to a summary that is in the session's row, where one of the two schemas records it."""
_COLUMNS = ("role", "model", "provider", "created_at", "finished_at", "is_summary_message")


class CrushSource(RowSource):
    """The messages of a session, ordered by creation time (seconds), then in the order in which they were written."""

    metadata_columns = ("summary_message_id", "summary", "summarized_at", "prompt_tokens", "completion_tokens")
    _session_row: Mapping[str, Any] = {}

    def read_metadata(self) -> Mapping[str, Any]:
        return {**super().read_metadata(), OUTPUT_INCLUDES_CACHE: "is_summary_message" not in self.columns}

    def list_ids(self) -> list[str]:
        self._session_row = self.read_metadata()
        order = "created_at, rowid" if "created_at" in self.columns else "rowid"
        time = "created_at" if "created_at" in self.columns else "NULL"
        sql = f"SELECT id, {time} FROM messages WHERE session_id = ? ORDER BY {order}"
        rows = self.database.query(sql, (self.session_id,))
        ids = [databases.decode_text(row[0]) for row in rows]
        summary_time = parse_time_ms(self._session_row.get("summarized_at"))
        if self._session_row.get("summary") and summary_time >= 0:
            times = (parse_time_ms(databases.decode_value(row[1])) for row in rows)
            ids.insert(next((place for place, time in enumerate(times) if time > summary_time), len(ids)), SUMMARY_ID)
        return ids

    def query_entries(self, ids: Sequence[str], max_value_bytes: int) -> dict[str, Entry]:
        entries = {}
        for name, parts, *values in self.select_messages(("id", "parts", *_COLUMNS), ids, max_value_bytes):
            row = dict(zip(_COLUMNS, map(databases.decode_value, values), strict=True))
            message_id, is_summary = databases.decode_text(name), bool(row.pop("is_summary_message", 0))
            members = {key: value for key, value in row.items() if value is not None}
            if is_summary or message_id == self._session_row.get("summary_message_id"):
                members["summary"] = True
            entries[message_id] = Entry(message_id, (compact_json(members), databases.encode_value(parts)))
        if SUMMARY_ID in ids:
            parts = [{"type": "text", "data": {"text": self._session_row.get("summary")}}]
            members = {"role": "user", "created_at": self._session_row.get("summarized_at"), "summary": True}
            entries[SUMMARY_ID] = Entry(SUMMARY_ID, (compact_json(members), compact_json(parts)))
        return entries


DATABASE_PATHS = (Path(".crush") / "crush.db", Path(".opencode") / "opencode.db")
_SIZES_QUERY = "SELECT session_id, sum(length(CAST(parts AS BLOB))) FROM messages GROUP BY session_id"


class CrushFormat(Format):
    """The format of sessions of Crush and of the opencode written in Go."""

    name: ClassVar[str] = "crush"
    about: ClassVar[str] = "Crush's and the Go opencode's databases (SQLite, read-only with the write-ahead log)"
    suffixes: ClassVar[tuple[str, ...]] = (".db",)
    from_source: ClassVar[str] = "the Go opencode's"

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        if not head.startswith(databases.SQLITE_MAGIC):
            return None
        columns, sessions = databases.read_columns(path, "messages", "sessions")
        if not {"id", "session_id", "role", "parts"} <= columns or not sessions:
            return None
        return Claim(97, "Crush's tables (or the Go opencode's)")

    def list_sessions(self, path: Path) -> list[SessionInfo]:
        """Return the sessions that have messages, with the oldest first. Every session has an id, even a single one."""
        columns = ("id", "parent_session_id", "title", "", "", "updated_at", "created_at")
        project = path.absolute().parent
        cwd = str(project.parent) if project.name in (".crush", ".opencode") else ""
        return entry_scanner.list_table_sessions(path, self.name, ("sessions", "messages"), columns, _SIZES_QUERY, cwd)

    def make_scanner(self, path: Path, info: SessionInfo) -> Scanner:
        return entry_scanner.make_entry_scanner(CrushSource(databases.Database(path), info.id), info, CrushShape)

    def subagent_of(self, session: Session, call: int) -> SessionInfo | None:
        """Return the sub-agent's session, whose id is the tool call's id or ends with it, or None if there is none."""
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
