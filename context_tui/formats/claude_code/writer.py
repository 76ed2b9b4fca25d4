"""Write sessions that Claude Code can resume, or copy their recorded lines."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from context_tui.errors import Error
from context_tui.formats.claude_code import parsing
from context_tui.formats.claude_code.reader import UNNAMED_SIDECHAIN, ClaudeCodeContent
from context_tui.formats.claude_code.subagents import AgentFiles, list_sessions
from context_tui.formats.kit.blocks import build_text
from context_tui.formats.kit.branches import BRANCH_PREFIX
from context_tui.formats.kit.line_scanner import copy_read_lines
from context_tui.formats.kit.size_note import SIZE_NOTE, build_size_note
from context_tui.formats.kit.values import list_objects, parse_time_ms
from context_tui.formats.kit.writing import INJECTED_LOSS, format_iso_time, list_injected, write_lines
from context_tui.session.blocks import replace_texts
from context_tui.session.facts import Usage
from context_tui.session.jsontext import is_nested_deeper, loads
from context_tui.session.losses import Losses
from context_tui.session.memory import Origin, collect_models, collect_usage, find_origin
from context_tui.session.session import Session
from context_tui.session.validation import MAX_DEPTH
from context_tui.session.values import Kind, MessageFlag, RecordKind, Role

VERSION = "2.1.219"
"""Version of Claude Code whose records are reproduced, unless the session's own version is known."""
MAX_RECORD_DEPTH = MAX_DEPTH + 8
"""Nesting limit of a record: the limit of its blocks, plus the levels around them."""
_SUMMARY_FLAGS = ("isCompactSummary", "isVisibleInTranscriptOnly")
"""Members that mark a record as the summary that begins a context."""
_USAGE_FIELDS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")


def write(session: Session, path: Path) -> Losses:
    """Write the session's context to the new file *path*, and return the losses."""
    writer = _Writer(session)
    write_lines(writer.build_records(), path)
    if session.content.system():
        writer.losses.add_note("the system prompt is left out; Claude Code adds its own")
    return writer.losses


class _Writer:
    def __init__(self, session: Session) -> None:
        self.session = session
        self.losses = Losses()
        self._session_id = str(uuid.uuid4())
        self._last_uuid: str | None = None
        self._uuids: set[str] = set()
        self._cwd = ""
        own_version = session.facts.agent_version if session.info.format == "claude-code" else ()
        self._version = ".".join(map(str, own_version)) or VERSION
        self._time = -1
        self._usages, self._models = collect_usage(session), collect_models(session)

    def build_records(self) -> Iterator[dict[str, Any]]:
        facts, order = self.session.facts, self.session.context_at().order
        origins = [find_origin(self.session, message) for message in order]
        self._cwd = self._find_recorded_cwd(origins)
        self._time = next((facts.time[m] for m in order if facts.time[m] >= 0), parse_time_ms(datetime.now(UTC)))
        last_role: Role | None = None
        for message, origin in zip(order, origins, strict=True):
            summary = message == order[0] and self._is_only_summary(message)
            role = Role.ASSISTANT if facts.role[message] == Role.ASSISTANT and not summary else Role.USER
            if summary:
                yield self._build_boundary()
            if isinstance(origin, Origin) and isinstance(origin.session.content, ClaudeCodeContent):
                yield from self._copy_records(origin, origin.session.content, summary)
            elif summary:
                yield self._build_summary(message)
            else:
                self.losses.add("messages without Claude Code records, written as new ones")
                yield from self._build_message_records(message)
            if last_role == role == Role.USER and not summary and all(list_injected(facts, facts.blocks_of(message))):
                self.losses.add("injected messages merged with the user message before them")
            last_role = role
        if note := build_size_note(facts, self.losses):
            yield {"type": SIZE_NOTE, "sessionId": self._session_id, **note}

    def _is_only_summary(self, message: int) -> bool:
        facts = self.session.facts
        kinds = {facts.kind[row] for row in facts.blocks_of(message)}
        return bool(facts.flags[message] & MessageFlag.SUMMARY) and not kinds & {Kind.TOOL_USE, Kind.TOOL_RESULT}

    def _find_recorded_cwd(self, origins: list[Any]) -> str:
        for origin in reversed(origins):
            content = origin.session.content if isinstance(origin, Origin) else None
            if isinstance(content, ClaudeCodeContent):
                for row in content.facts.iterate_records(origin.message):
                    if cwd := parsing.parse_line(content.read_line(row)).cwd:
                        return cwd
        return self.session.info.cwd

    def _chain_record(self, record: dict[str, Any]) -> dict[str, Any]:
        """Link *record* to the previous record and return it. Times never go back: an earlier time is raised."""
        time = parse_time_ms(record["timestamp"]) if isinstance(record.get("timestamp"), str) else self._time
        if time < self._time:
            record["timestamp"] = format_iso_time(self._time)
        self._time = max(self._time, time)
        record_id = record.get("uuid")
        if not isinstance(record_id, str) or record_id in self._uuids:
            record_id = str(uuid.uuid4())
        record["uuid"], record["parentUuid"], record["sessionId"] = record_id, self._last_uuid, self._session_id
        self._uuids.add(record_id)
        self._last_uuid = record_id
        return record

    def _build_envelope(self, kind: str) -> dict[str, Any]:
        return {
            "parentUuid": None,
            "isSidechain": False,
            "userType": "external",
            "cwd": self._cwd,
            "sessionId": self._session_id,
            "version": self._version,
            "gitBranch": "",
            "type": kind,
            "uuid": str(uuid.uuid4()),
            "timestamp": format_iso_time(self._time),
        }

    def _build_boundary(self) -> dict[str, Any]:
        record = self._build_envelope("system") | {
            "subtype": "compact_boundary",
            "content": "Conversation compacted",
            "isMeta": False,
            "level": "info",
            "compactMetadata": {"trigger": "manual", "preTokens": self._find_tokens_before()},
        }
        return self._chain_record(record)

    def _find_tokens_before(self) -> int:
        """Return the last recorded context size in tokens, or 0 if there is none, as Claude Code expects a number."""
        session = self.session
        while not session.facts.requests and hasattr(session.content, "parent"):
            session = session.content.parent
        return session.facts.requests[-1].context if session.facts.requests else 0

    def _build_summary(self, message: int) -> dict[str, Any]:
        blocks = self.session.content.blocks(message)
        is_single_text = len(blocks) == 1 and blocks[0].get("type") == "text"
        if self.session.facts.role[message] != Role.USER:
            self.losses.add_note("the summary is written as a user message, as Claude Code does")
        message_record = {"message": {"role": "user", "content": blocks[0]["text"] if is_single_text else blocks}}
        flags = {"isVisibleInTranscriptOnly": True, "isCompactSummary": True}
        return self._chain_record(self._build_envelope("user") | flags | message_record)

    def _copy_records(self, origin: Origin, content: ClaudeCodeContent, summary: bool) -> Iterator[dict[str, Any]]:
        next_block = 0
        for row in content.facts.iterate_records(origin.message):
            record = self._parse_recorded_line(content.read_line(row))
            parsed, message = parsing.build_record(record), record.get("message")
            selected = content.select_message_blocks(origin.message, row, parsed)
            if selected is not None and isinstance(message, dict):
                message["content"] = selected
                if not any(map(parsing.is_result, selected)):
                    record.pop("toolUseResult", None)
            count = len(parsing.extract_blocks(parsed) if selected is None else selected)
            ordinals = range(next_block, next_block + count)
            bodies = {n - next_block: origin.texts[n] for n in ordinals if n in origin.texts} if origin.texts else {}
            first_block, next_block = next_block, next_block + count
            if bodies and all(bodies.get(number, "") is None for number in range(count)):
                continue  # all of the record was dropped
            if bodies and not isinstance(message, dict):  # an attachment: written as a new user message
                message = {"role": "user", "content": content.blocks(origin.message)[first_block:next_block]}
                record = self._build_envelope("user") | {"isMeta": True, "message": message}
            if isinstance(message, dict):
                if isinstance(message.get("usage"), dict):
                    message["usage"] = _zero_usage(message["usage"])
                if bodies:
                    text_or_blocks = message["content"]
                    blocks = [build_text(text_or_blocks)] if isinstance(text_or_blocks, str) else text_or_blocks
                    message["content"] = replace_texts(list_objects(blocks), bodies)
                    if "toolUseResult" in record:
                        record["toolUseResult"] = next((text for text in bodies.values() if text is not None), "")
            # A summary that is not the first message would begin a new context.
            for name in ("isSidechain", "agentId", *(() if summary else _SUMMARY_FLAGS)):
                record.pop(name, None)
            yield self._chain_record(record | {"isSidechain": False})

    def _parse_recorded_line(self, line: bytes) -> dict[str, Any]:
        try:
            record: dict[str, Any] = loads(line)
        except ValueError as error:
            raise Error(f"claude-code: a record cannot be read again: {error}; choose another format") from None
        if not is_nested_deeper(record, MAX_RECORD_DEPTH):
            return record
        self.losses.add("records written without fields that are nested too deeply")
        if isinstance(message := record.get("message"), dict):
            message["content"] = parsing.remove_deep_members(message.get("content"))
            record["message"] = parsing.remove_deep_values(message, MAX_RECORD_DEPTH)
        return parsing.remove_deep_values(record, MAX_RECORD_DEPTH)

    def _build_message_records(self, message: int) -> Iterator[dict[str, Any]]:
        facts, blocks = self.session.facts, self.session.content.blocks(message)
        self._time = max(self._time, facts.time[message])
        if facts.role[message] == Role.ASSISTANT:
            api = self._build_api_message(message)
            for part in [[block] for block in blocks] or [[]]:
                yield self._chain_record(self._build_envelope("assistant") | {"message": {**api, "content": part}})
            return
        injected = list_injected(facts, facts.blocks_of(message))
        typed_end = max((number for number, is_injected in enumerate(injected, 1) if not is_injected), default=0)
        self.losses.add(INJECTED_LOSS, sum(injected[:typed_end]))
        for part, meta in ((blocks[:typed_end], {}), (blocks[typed_end:], {"isMeta": True})):
            if part or not (blocks or meta):
                message_record = {"message": {"role": "user", "content": part}}
                yield self._chain_record(self._build_envelope("user") | meta | message_record)

    def _build_api_message(self, message: int) -> dict[str, Any]:
        """Return a reply's API message without content. Its usage is 0 if the context before the reply has changed."""
        usage = self._usages.get(message)
        return {
            "id": f"msg_{uuid.uuid4().hex[:24]}",
            "type": "message",
            "role": "assistant",
            "model": self._models.get(message) or self.session.facts.model or "unknown",
            "stop_reason": None,
            "stop_sequence": None,
            "usage": dict.fromkeys(_USAGE_FIELDS, 0) if usage is None else _format_usage(usage),
        }


def _format_usage(usage: Usage) -> dict[str, Any]:
    written = usage.cache_write_5m, usage.cache_write_1h
    names = ("ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")
    sizes = (usage.fresh, sum(written), usage.cache_read, usage.output)
    return {**dict(zip(_USAGE_FIELDS, sizes, strict=True)), "cache_creation": dict(zip(names, written, strict=True))}


def _zero_usage(usage: dict[str, Any]) -> dict[str, Any]:
    """Return recorded usage with all numbers set to 0, at any depth, and with ``iterations`` emptied."""
    zeroed_usage: dict[str, Any] = {}
    for name, value in usage.items():
        if isinstance(value, dict):
            zeroed_usage[name] = _zero_usage(value)
        elif name == "iterations":
            zeroed_usage[name] = []
        else:
            zeroed_usage[name] = 0 if isinstance(value, int | float) and not isinstance(value, bool) else value
    return zeroed_usage


def copy(session: Session, path: Path) -> list[str] | None:
    """Copy the session's lines to the new file *path*. Returns notes, or None if it was not read from lines."""
    content, source = session.content, Path(session.info.path)
    if not isinstance(content, ClaudeCodeContent):
        return None
    sessions = list_sessions(source, AgentFiles())
    if session.info.id and session.info.id != sessions[0].id:
        with path.open("xb") as out:
            out.writelines(content.read_line(row) + b"\n" for row in _find_own_records(session, content))
        return []
    agents = sum(1 for each in sessions if each.path != str(source))
    note = f"not in the copy: sub-agents that have files of their own: {agents:,}"
    return [*copy_read_lines(content.file, content.facts, path), *([note] if agents else [])]


def _find_own_records(session: Session, content: ClaudeCodeContent) -> Iterator[int]:
    """Yield the rows of a sidechain's or branch's records, and of unreadable records, which may belong to it."""
    facts, chain = content.facts, session.info.id
    branch = chain.startswith(BRANCH_PREFIX)
    for row, kind in enumerate(facts.record_kind):
        if kind == RecordKind.PROBLEM or facts.record_message[row] >= 0:
            yield row
        elif branch:
            if kind != RecordKind.MESSAGE:
                yield row
        else:
            record = parsing.parse_line(content.read_line(row))
            if record.isSidechain and (record.agentId or UNNAMED_SIDECHAIN) == chain:
                yield row
