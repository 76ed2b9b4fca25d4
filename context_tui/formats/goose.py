"""Read sessions of Goose, Block's open agent for terminal and desktop.

Sessions are in a SQLite database, ``sessions.db``. Up to 1.9, each was a JSON Lines file with one message per line.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from context_tui.formats.base import ALL_FROM_SOURCE, Claim, Format, Scanner, SessionFile
from context_tui.formats.kit import blocks as kit_blocks
from context_tui.formats.kit import databases, entry_scanner, values
from context_tui.formats.kit.entry_scanner import Entry, RowSource
from context_tui.formats.kit.files import ALL_PROJECTS, find_data_home, list_files, read_file_stamp, read_whole_file
from context_tui.formats.kit.heads import parse_first_values, read_first_objects
from context_tui.formats.kit.line_scanner import list_only_session, parse_object
from context_tui.formats.kit.message_builder import MessageBuilder, MessageRecord, MetadataRecord, ParsedRecord
from context_tui.session.facts import Usage, order_at
from context_tui.session.jsontext import compact_json, find_value_ranges, try_loads
from context_tui.session.session import SessionInfo
from context_tui.session.values import BlockFlag, MessageFlag, Role

IGNORED_TYPES = frozenset(
    {
        *("toolConfirmationRequest", "actionRequired", "systemNotification"),
        *("conversationCompacted", "contextLengthExceeded", "summarizationRequested"),
    }
)
"""Types of content that are not sent."""


class GooseShape:
    """Parser for messages. An entry's text is an object with ``role``, ``created``, ``content`` and ``metadata``."""

    def __init__(self) -> None:
        self._hidden: list[bool] = []  # by message
        self._summaries: list[int] = []
        self._newest_reply = -1
        self._has_visible = False  # whether any message is visible to the model

    def parse(self, entry: Entry) -> ParsedRecord:
        """Parse a message. In a file, the first line describes the session and becomes metadata."""
        value = _parse_entry(entry)
        if value.get("role") is None and "working_dir" in value:
            return MetadataRecord()
        speaker = values.parse_role(value)
        content, notes = value.get("content"), list[str]()
        blocks = []
        for each in map(values.as_object, values.as_list(content)):
            kind = values.parse_id(each.get("type"))
            if block := _parse_block(kind, each):
                blocks.append(block)
            elif kind not in IGNORED_TYPES:
                notes.append(f"content of unknown type {kind[:40]!r}")
        if not isinstance(content, list):
            notes.append("content that is no list")
        time, flags = values.parse_time_ms(value.get("created")), 0 if blocks else MessageFlag.NOT_SENT
        if speaker == Role.ASSISTANT:
            return MessageRecord(speaker, blocks, flags=flags, time=time, notes=tuple(notes))
        unseen = not is_visible(value, "userVisible")
        results = kit_blocks.are_results(blocks)
        return MessageRecord(speaker, blocks, results, flags, time, is_injected=unseen, notes=tuple(notes))

    def add_facts(self, entry: Entry, parsed: ParsedRecord, messages: range, builder: MessageBuilder) -> None:
        """Record whether a message is visible to the model, and whether it is a summary of all messages before it."""
        if not isinstance(parsed, MessageRecord):
            return
        value = _parse_entry(entry)
        hidden = not is_visible(value, "agentVisible")
        is_unseen_text = parsed.role == Role.USER and parsed.is_injected and not parsed.has_results
        if messages and is_unseen_text and self._hidden and not self._has_visible:
            self._summaries.append(messages.start)
            builder.facts.flags[messages.start] |= MessageFlag.SUMMARY
            for block in builder.facts.blocks_of(messages.start):
                builder.facts.block_flags[block] &= ~BlockFlag.INJECTED
        if messages:
            self._hidden.append(hidden)
        self._has_visible |= not hidden
        if parsed.role == Role.ASSISTANT and messages and parsed.blocks:
            self._newest_reply = messages.start

    def finish(self, metadata: Mapping[str, Any], builder: MessageBuilder) -> list[set[int]]:
        """Record compactions, hidden messages and the newest reply's usage. Return [], as no branches are abandoned."""
        facts = builder.facts
        entry_scanner.replace_summaries(facts, self._summaries)
        for message in order_at(facts, len(facts))[1]:
            if self._hidden[message]:
                facts.flags[message] |= MessageFlag.NOT_SENT
        usage, _ = values.parse_usage_or_note(_parse_usage, metadata)
        if usage and self._newest_reply > max(self._summaries, default=-1):
            entry_scanner.set_only_usage(facts, usage, self._newest_reply)
        return []


def is_visible(value: Mapping[str, Any], to: str) -> bool:
    """Return whether a message is visible to the model (if *to* is ``agentVisible``) or the user (``userVisible``)."""
    metadata = value.get("metadata")
    return not isinstance(metadata, dict) or metadata.get(to) is not False


def _parse_entry(entry: Entry) -> dict[str, Any]:
    return parse_object(entry.texts[0])


def _parse_block(kind: str, value: dict[str, Any]) -> kit_blocks.Block | None:
    match kind:
        case "text":
            return kit_blocks.build_text(value.get("text"))
        case "image":
            return _parse_image(value)
        case "thinking":
            signature = {"signature": value["signature"]} if isinstance(value.get("signature"), str) else {}
            return {"type": "thinking", "thinking": value.get("thinking"), **signature}
        case "reasoning":
            return {"type": "thinking", "thinking": value.get("text")}
        case "redactedThinking":
            return {"type": "redacted_thinking", "data": value.get("data")}
        case "toolRequest" | "frontendToolRequest":
            return _parse_call(value)
        case "toolResponse":
            return _parse_result(value)
    return None


def _parse_call(value: dict[str, Any]) -> kit_blocks.Block:
    """Return a call as a ``tool_use`` block. An invalid call has no name, and the error as its input."""
    outcome = values.as_object(value.get("toolCall"))
    call, failed = values.as_object(outcome.get("value")), outcome.get("status") == "error"
    arguments = {"error": values.parse_id(outcome.get("error"))} if failed else values.as_object(call.get("arguments"))
    return kit_blocks.build_tool_use(values.parse_id(value.get("id")), values.parse_id(call.get("name")), arguments)


def _parse_result(value: dict[str, Any]) -> kit_blocks.Block:
    call_id, outcome = values.parse_id(value.get("id")), values.as_object(value.get("toolResult"))
    if outcome.get("status") == "error":
        return kit_blocks.build_tool_result(call_id, values.parse_id(outcome.get("error")), is_error=True)
    body: Any = outcome.get("value")
    failed = isinstance(body, dict) and body.get("isError") is True
    parts = values.as_list(body.get("content") if isinstance(body, dict) else body)
    content = []
    for part in parts:
        audience = values.as_list(values.as_object(values.as_object(part).get("annotations")).get("audience"))
        if not audience or "assistant" in audience:
            content.append(_parse_result_content(part))
    return kit_blocks.build_tool_result(call_id, content, is_error=failed)


def _parse_result_content(part: Any) -> Any:
    members = values.as_object(part)
    if members.get("type") == "image":
        return _parse_image(members)
    if isinstance(text := values.as_object(members.get("resource")).get("text"), str):
        return kit_blocks.build_text(text)
    return kit_blocks.build_text(values.parse_id(members.get("text"))) if members.get("type") == "text" else part


def _parse_image(value: dict[str, Any]) -> kit_blocks.Block:
    return kit_blocks.build_image(values.parse_id(value.get("mimeType")), values.parse_id(value.get("data")))


def _parse_usage(metadata: Mapping[str, Any]) -> Usage | None:
    """Return the usage of the newest request, or None. If only a total is recorded, all of it counts as input."""
    names = ("input_tokens", "output_tokens", "total_tokens")
    fresh, output, total = (values.parse_tokens(metadata.get(name), name) for name in names)
    return Usage(fresh=fresh or total, output=output if fresh else 0) if fresh or total else None


class GooseRows(RowSource):
    """The messages of a session in the database, ordered by creation time (seconds), then by id."""

    metadata_columns = ("total_tokens", "input_tokens", "output_tokens", "working_dir", "description", "name")

    def list_ids(self) -> list[str]:
        order = "created_timestamp, id" if "created_timestamp" in self.columns else "id"
        rows = self.database.query(f"SELECT id FROM messages WHERE session_id = ? ORDER BY {order}", (self.session_id,))
        return [databases.decode_text(row[0]) for row in rows]

    def query_entries(self, ids: Sequence[str], max_value_bytes: int) -> dict[str, Entry]:
        names = ("id", "role", "content_json", "created_timestamp", "metadata_json")
        rows = self.select_messages(names, ids, max_value_bytes)
        entries = (Entry(databases.decode_text(row[0]), (_format_line(*row[1:]),)) for row in rows)
        return {entry.id: entry for entry in entries}


class LinesSource:
    """The lines of a file, all kept in memory, as Goose rewrites the file at a compaction."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines: list[bytes] = []
        self._stamp: Hashable = None

    def read_stamp(self) -> Hashable:
        return read_file_stamp(self.path)

    def list_ids(self) -> list[str]:
        """Return the numbers of the records as ids, starting with "1"."""
        if (stamp := self.read_stamp()) != self._stamp:
            data = read_whole_file(self.path)
            self._lines, self._stamp = [each for line in data.split(b"\n") for each in _split_records(line)], stamp
        return [str(number) for number in range(1, len(self._lines) + 1)]

    def read_entries(self, ids: Sequence[str]) -> list[Entry]:
        return [Entry(each, (self._lines[int(each) - 1],)) for each in ids if int(each) <= len(self._lines)]

    def read_metadata(self) -> Mapping[str, Any]:
        """Return the first line if it describes the session, else {}."""
        first_line = values.as_object(try_loads(self._lines[0]) if self._lines else None)
        return {} if "role" in first_line else first_line


def _split_records(line: bytes) -> list[bytes]:
    if not line.strip():
        return []
    with suppress(ValueError):
        return [line[start:end] for start, end in find_value_ranges(line)] if b"}{" in line else [line]
    return [line]


def _format_line(role: Any, content: Any, created: Any, metadata: Any) -> bytes:
    members = {"role": databases.decode_value(role), "created": databases.decode_value(created)}
    raw = content if isinstance(content, bytes) else compact_json(databases.decode_value(content))
    metadata_json = metadata if isinstance(metadata, bytes) and metadata.strip() else b"null"
    return b'%s,"content":%s,"metadata":%s}' % (compact_json(members)[:-1], raw or b"null", metadata_json)


OWN_CONTENT_TYPES = frozenset({"toolRequest", "toolResponse", "frontendToolRequest", "conversationCompacted"})
"""Types of content that no other format has."""
_SIZES_QUERY = "SELECT session_id, sum(length(CAST(content_json AS BLOB))) FROM messages GROUP BY session_id"


class GooseFormat(Format):
    """The format of Goose's sessions."""

    name: ClassVar[str] = "goose"
    about: ClassVar[str] = "Goose's database (SQLite, read-only), and its session files up to 1.9 (JSONL)"
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl", ".db")
    from_source: ClassVar[str] = ALL_FROM_SOURCE

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        if head.startswith(databases.SQLITE_MAGIC):
            [columns] = databases.read_columns(path, "messages")
            is_own = {"id", "session_id", "role", "content_json"} <= columns
            return Claim(97, "Goose's tables") if is_own else None
        objects = values.list_objects(parse_first_values(head))
        if objects and "working_dir" in objects[0] and ("message_count" in objects[0] or "description" in objects[0]):
            return Claim(90, "a line with the folder and the tokens of a Goose session")
        return Claim(90, "messages of Goose") if any(map(_is_goose_message, objects)) else None

    def list_sessions(self, path: Path) -> list[SessionInfo]:
        if not databases.is_database(path):
            source = LinesSource(path)
            source.list_ids()
            metadata = source.read_metadata()
            return list_only_session(path, self.name, values.format_title(values.parse_id(metadata.get("description"))))
        columns = ("id", "", "name", "description", "working_dir", "updated_at", "created_at")
        return entry_scanner.list_table_sessions(path, self.name, ("sessions", "messages"), columns, _SIZES_QUERY)

    def make_scanner(self, path: Path, info: SessionInfo) -> Scanner:
        source = GooseRows(databases.Database(path), info.id) if info.id else LinesSource(path)
        return entry_scanner.make_entry_scanner(source, info, GooseShape)

    def read_title(self, path: Path) -> str:
        for value in read_first_objects(path):
            if value.get("description"):
                return values.format_title(values.parse_id(value["description"]))
            for part in values.list_objects(value.get("content") if value.get("role") == "user" else None):
                if part.get("type") == "text":
                    return values.format_title(values.parse_id(part.get("text")))
        return ""

    def find_sessions(self, environ: Mapping[str, str], cwd: Path) -> Iterable[SessionFile]:
        """Yield the database in each folder, or else its session files, which Goose would migrate to a database."""
        for folder in _list_session_folders(environ):
            if os.path.isfile(folder / "sessions.db"):
                yield SessionFile(folder / "sessions.db", ALL_PROJECTS, False)
            else:
                yield from (SessionFile(path, ALL_PROJECTS, False) for path in list_files(folder, ".jsonl"))


def _list_session_folders(environ: Mapping[str, str]) -> list[Path]:
    folders = [find_data_home(environ) / "goose" / "sessions"]
    if root := environ.get("GOOSE_PATH_ROOT"):
        folders.insert(0, Path(root) / "data" / "sessions")
    if app_data := environ.get("APPDATA"):
        folders.append(Path(app_data) / "Block" / "goose" / "data" / "sessions")
    return list(dict.fromkeys(folders))


def _is_goose_message(value: dict[str, Any]) -> bool:
    parts = values.list_objects(value.get("content"))
    has_flags = bool(values.as_object(value.get("metadata")).keys() & {"agentVisible", "userVisible"})
    has_own_content = any(str(part.get("type")) in OWN_CONTENT_TYPES for part in parts)
    return "created" in value and "role" in value and bool(parts) and (has_flags or has_own_content)
