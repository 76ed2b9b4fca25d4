"""Read and write sessions of agent-sdk, and read the similar output of ``claude -p --output-format stream-json``.

A session is a JSON Lines file with messages, system events and results, each with a ``session_id``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from context_tui.errors import UnreadableSession
from context_tui.formats.agent_sdk import writer
from context_tui.formats.base import ALL_FROM_SOURCE, Claim, Format, Scanner
from context_tui.formats.kit import heads, lines, values, writing
from context_tui.formats.kit.blocks import are_results, extract_text
from context_tui.formats.kit.line_scanner import LineScanner, copy_lines, is_whole_file, list_only_session
from context_tui.formats.kit.message_builder import FullCompactionRecord, MessageRecord, MetadataRecord, ParsedRecord
from context_tui.formats.kit.usage import parse_anthropic_usage
from context_tui.session.jsontext import loads
from context_tui.session.markers import CLAUDE_CODE_SUMMARY
from context_tui.session.session import Session, SessionInfo
from context_tui.session.values import MessageFlag, Role
from context_tui.text.sanitize import truncate_name

IGNORED_TYPES = frozenset(
    {
        *("result", "stream_event", "rate_limit_event", "prompt_suggestion", "tool_progress", "tool_use_summary"),
        *("auth_status", "keep_alive", "control_request", "control_response", "control_cancel_request"),
    }
)
"""Types of records outside the conversation: totals, progress, and deltas of a stream."""
KEPT_BEHIND_SUMMARY = 4
"""Number of messages that agent-sdk keeps after a summary by default."""
MISSING_SUMMARY_NOTE = (
    "agent-sdk keeps no summary in the file, nor what else it kept: that is taken to be its default, 4 messages"
)

Record = dict[str, Any]


def is_stream_record(value: Record) -> bool:
    """Return whether a record is from a stream of events, and not from a Claude Code transcript."""
    kind, inner_message = values.as_text(value.get("type")), value.get("message")
    if not isinstance(value.get("session_id"), str) or "parentUuid" in value or "sessionId" in value:
        return False
    if kind in values.SPEAKERS:
        return "content" in value or isinstance(inner_message, dict)
    return kind in ("system", "result") and "subtype" in value


def is_agent_sdk(records: list[Record]) -> bool:
    """Return whether records with ``content`` beside ``type`` are agent-sdk's, and not those of an event stream."""
    has_content = ("content" in each for each in records if each.get("type") in [*values.SPEAKERS])
    return next(has_content, any("permission_mode" in each for each in records))


def find_parent_call(record: Record) -> str:
    """Return the id of the tool call that started the record's sub-agent, or "" for a record of the main session."""
    return values.parse_id(record.get("parent_tool_use_id"))


class _HistoryMessage(NamedTuple):
    key: str
    role: Role
    has_calls: bool
    has_results: bool


class AgentSdkShape:
    """Parser for the messages of a single agent. It ignores totals, progress, and messages from other agents.

    *agent_sdk* states that the file is agent-sdk's own, not a stream; *agent* is an id from :func:`find_parent_call`.
    """

    def __init__(self, agent_sdk: bool = False, agent: str = "") -> None:
        self._is_agent_sdk, self._agent = agent_sdk, agent
        self._boundary: Record | None = None  # in a stream, until its summary is read
        self._history: list[_HistoryMessage] = []  # only for agent-sdk's own file
        self._results_open = False  # whether further results belong to the newest message
        self._is_compacted = self._is_resumed = False

    def parse(self, record: Record) -> ParsedRecord:
        kind = record.get("type")
        if not isinstance(kind, str):
            raise ValueError("a record without a type")
        if kind not in values.SPEAKERS and kind != "system" and kind not in IGNORED_TYPES:
            raise ValueError(f"a record of unknown type {kind[:40]!r}")
        if kind in IGNORED_TYPES or find_parent_call(record) != self._agent:
            return MetadataRecord()
        if kind == "system":
            return self._parse_system(record)
        inner_message = record.get("message")
        message = inner_message if isinstance(inner_message, dict) else record
        if "content" not in message:
            raise ValueError(f"{kind} without content")
        return _parse_message(record, message, values.SPEAKERS[kind])

    def resolve_in_order(self, record: Record, parsed: ParsedRecord) -> ParsedRecord:
        """Return *parsed*, completed from earlier records, which determine the context after a compaction or resume."""
        if self._is_agent_sdk:
            return self._place_in_file(record, parsed)
        if record.get("subtype") == "compact_boundary" and record.get("type") == "system":
            self._boundary = record
        elif isinstance(parsed, MessageRecord) and (parsed.compaction or self._boundary):
            trigger, tokens_before, notes = _parse_boundary(self._boundary or {})
            has_summary, self._boundary = parsed.compaction is not None, None
            compaction = FullCompactionRecord(trigger, tokens_before, context=(0,), has_summary=has_summary)
            return replace(parsed, compaction=compaction, notes=(*parsed.notes, *notes))
        return parsed

    def _parse_system(self, record: Record) -> ParsedRecord:
        """Parse a system event. A compaction in agent-sdk's own file becomes a message, any other event metadata."""
        if record.get("subtype") == "compact_boundary":
            if not self._is_agent_sdk:
                return MetadataRecord()
            trigger, tokens_before, notes = _parse_boundary(record)
            placeholder = {"type": "summary", "note": "of what was said before; it is not in the file"}
            compaction = FullCompactionRecord(trigger, tokens_before, context=(0,))
            return MessageRecord(Role.USER, [placeholder], is_injected=True, compaction=compaction, notes=notes)
        tools = writing.parse_tool_schemas(record.get("tools"))
        return MetadataRecord(model=truncate_name(values.as_text(record.get("model"))), tools=tools or None)

    def _place_in_file(self, record: Record, parsed: ParsedRecord) -> ParsedRecord:
        if not isinstance(parsed, MessageRecord):
            self._is_resumed |= record.get("subtype") == "init" and self._is_compacted
            return parsed
        history = self._history
        if parsed.compaction:
            tail = history[_find_split_point(history) :]
            summary = _HistoryMessage(f"summary before message {len(history)}", Role.USER, False, False)
            self._history, self._is_compacted, self._results_open = [*history, summary], True, False
            tail_keys = tuple(each.key for each in tail)
            return replace(parsed, key=summary.key, compaction=replace(parsed.compaction, context=(0, *tail_keys)))
        if parsed.has_results and self._results_open:
            return replace(parsed, key=history[-1].key)
        kinds = {str(block.get("type")) for block in parsed.blocks}
        message = _HistoryMessage(f"message {len(history)}", parsed.role, "tool_use" in kinds, "tool_result" in kinds)
        history.append(message)
        self._results_open = parsed.has_results or (self._results_open and parsed.role == Role.USER)
        if self._is_resumed:
            self._is_resumed = self._is_compacted = False
            keys = tuple(each.key for each in history[:-1] if not each.key.startswith("summary"))
            parsed = replace(parsed, compaction=FullCompactionRecord("resume", context=(*keys, 0), has_summary=False))
        return replace(parsed, key=message.key)


def _find_split_point(history: list[_HistoryMessage]) -> int:
    """Return the index of the first message that agent-sdk keeps after a summary, as its ``find_split_point`` does."""
    for count in range(KEPT_BEHIND_SUMMARY, 0, -1):
        cut = len(history) - count
        while cut > 0 and history[cut].role == Role.USER and history[cut].has_results and history[cut - 1].has_calls:
            cut -= 1
        if cut > 0:
            return cut
    return len(history)


def _parse_message(record: Record, message: Record, role: Role) -> MessageRecord:
    blocks = values.parse_blocks(message.get("content"))
    time = values.parse_time_ms(record.get("timestamp"))
    if role == Role.USER:
        results = are_results(blocks)
        synthetic = any(record.get(name) is True for name in ("is_synthetic", "isSynthetic"))
        text = blocks[0].get("text") if synthetic and blocks and blocks[0].get("type") == "text" else None
        summary = isinstance(text, str) and text.startswith(CLAUDE_CODE_SUMMARY)
        compacted = FullCompactionRecord(context=(0,)) if summary else None
        flags = int(MessageFlag.SUMMARY) if summary else 0
        injected = synthetic and not results
        return MessageRecord(role, blocks, results, flags, time, is_injected=injected, compaction=compacted)
    usage, notes = values.parse_usage_or_note(parse_anthropic_usage, message.get("usage") or record.get("usage"))
    model = values.as_text(message.get("model"))
    model = "" if model == "<synthetic>" else truncate_name(model)
    message_id = values.parse_id(message.get("id"))
    return MessageRecord(role, blocks, time=time, usage=usage, notes=notes, message_id=message_id, model=model)


def _parse_boundary(boundary: Record) -> tuple[str | None, int | None, tuple[str, ...]]:
    """Return a compaction's trigger and the tokens before it (None if unknown), and notes on invalid values."""
    metadata = values.as_object(boundary.get("compact_metadata"))
    trigger = metadata.get("trigger")
    tokens_before, notes = values.parse_tokens_or_note(metadata, "pre_tokens")
    return truncate_name(trigger) if isinstance(trigger, str) else None, tokens_before or None, notes


_PARENT_CALL = re.compile(rb'"parent_tool_use_id"\s*:\s*"([^"\\]+)"')


class Subagent(NamedTuple):
    """A sub-agent: the id of the tool call that started it, and its title (the first prompt, or else the id)."""

    id: str
    title: str


def find_subagents(path: Path) -> Iterator[Subagent]:
    """Yield each sub-agent that has records in the file, in file order."""
    known_ids = set[bytes]()
    with closing(lines.LineFile(path)) as file:
        for line in lines.find_matching_lines(file, _PARENT_CALL, known_ids):
            try:
                record = loads(line)
                if not isinstance(record, dict):
                    continue
                agent_id = find_parent_call(record)
                parsed = AgentSdkShape(agent=agent_id).parse(record)
            except ValueError:
                continue
            if agent_id and (name := agent_id.encode("utf-8", "replace")) not in known_ids:
                known_ids.add(name)
                title = ""
                if isinstance(parsed, MessageRecord) and parsed.role == Role.USER and not parsed.has_results:
                    title = values.format_title(extract_text(parsed.blocks))
                yield Subagent(agent_id, title or agent_id)


class AgentSdkFormat(Format):
    """The format of agent-sdk's sessions, and of streams with the same types of events."""

    name: ClassVar[str] = "agent-sdk"
    about: ClassVar[str] = "agent-sdk sessions, and output of claude -p --output-format stream-json (JSONL)"
    from_source: ClassVar[str] = ALL_FROM_SOURCE

    write = staticmethod(writer.write)
    can_copy = staticmethod(is_whole_file)
    copy = staticmethod(copy_lines)

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        if any(is_stream_record(value) for value in heads.parse_first_values(head) if isinstance(value, dict)):
            return Claim(88, "lines of a stream with a session_id")
        return None

    def list_sessions(self, path: Path) -> list[SessionInfo]:
        main = self._read_main_info(path)
        return [main, *(_build_subagent_info(main, agent) for agent in find_subagents(path))]

    def make_scanner(self, path: Path, info: SessionInfo) -> Scanner:
        if info.id and all(agent.id != info.id for agent in find_subagents(path)):
            raise UnreadableSession(f"{path}: unknown session {info.id!r}")
        return LineScanner(path, info, partial(AgentSdkShape, is_agent_sdk(heads.read_first_objects(path)), info.id))

    def subagent_of(self, session: Session, call: int) -> SessionInfo | None:
        path, call_id = Path(session.info.path), session.facts.call_id(call)
        started = next((agent for agent in find_subagents(path) if call_id and agent.id == call_id), None)
        return _build_subagent_info(self._read_main_info(path), started) if started else None

    def read_title(self, path: Path) -> str:
        custom = ""
        for value in heads.read_first_objects(path):
            name = value.get("custom_title") or value.get("customTitle")
            custom = values.format_title(name) if isinstance(name, str) else custom
            try:
                parsed = AgentSdkShape().parse(value)
            except ValueError:
                continue
            if not isinstance(parsed, MessageRecord):
                continue
            typed = parsed.role == Role.USER and not (parsed.has_results or parsed.is_injected)
            if typed and (title := values.format_title(extract_text(parsed.blocks))):
                return custom or title
        return custom

    def _read_main_info(self, path: Path) -> SessionInfo:
        [main] = list_only_session(path, self.name, self.read_title(path))
        records = heads.read_first_objects(path)
        note = MISSING_SUMMARY_NOTE if is_agent_sdk(records) and _is_compacted(path) else ""
        init = next((each for each in records if each.get("subtype") == "init"), {})
        return replace(main, cwd=values.as_text(init.get("cwd")), note=note)


def _is_compacted(path: Path) -> bool:
    with closing(lines.LineFile(path)) as file:
        return file.data.find(b'"compact_boundary"', 0, lines.MAX_SEARCHED_BYTES) >= 0


def _build_subagent_info(main: SessionInfo, agent: Subagent) -> SessionInfo:
    return replace(main, id=agent.id, title=truncate_name(agent.title), parent=main.path)
