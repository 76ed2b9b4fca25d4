"""Read sessions of GitHub Copilot CLI, a coding agent for the terminal.

Each session has a folder with ``events.jsonl``, which holds one JSON event per line, including events of sub-agents.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from context_tui.errors import UnreadableSession
from context_tui.formats.base import Claim, Format, Scanner, SessionFile
from context_tui.formats.kit import message_builder
from context_tui.formats.kit.blocks import (
    Block,
    build_image,
    build_text,
    build_tool_result,
    build_tool_use,
    parse_arguments,
)
from context_tui.formats.kit.branches import BRANCH_PREFIX, find_branch
from context_tui.formats.kit.files import find_program_folder, list_entries
from context_tui.formats.kit.heads import parse_first_values, read_first_object, read_first_objects
from context_tui.formats.kit.line_scanner import LineScanner, list_only_session
from context_tui.formats.kit.lines import LineFile, find_matching_lines
from context_tui.formats.kit.usage import parse_usage
from context_tui.formats.kit.values import (
    as_list,
    as_object,
    as_text,
    format_title,
    parse_id,
    parse_time_ms,
    parse_tokens_or_note,
    parse_usage_or_note,
)
from context_tui.session.facts import Usage
from context_tui.session.jsontext import try_loads
from context_tui.session.session import Session, SessionInfo
from context_tui.session.values import Role
from context_tui.text.sanitize import truncate_name

Data = dict[str, Any]
HIDDEN_SUMMARY: Block = {"type": "hidden_summary"}
"""Placeholder of a summary that the file lacks."""


def find_agent_id(record: Data) -> str:
    """Return the id of an event's sub-agent (in older files, of its tool call), or "" for the main agent."""
    return parse_id(record.get("agentId")) or parse_id(as_object(record.get("data")).get("parentToolCallId"))


class CopilotShape:
    """Parser for the events of either the main agent or one sub-agent."""

    def __init__(self, agent: str = "") -> None:
        self._agent = agent

    def parse(self, record: Data) -> message_builder.ParsedRecord:
        """Parse an event. An event of another agent becomes metadata."""
        kind, data = record.get("type"), record.get("data")
        if not isinstance(kind, str) or not isinstance(data, dict):
            raise ValueError("not an event: it has no type or no data")
        key, time = parse_id(record.get("id")), parse_time_ms(record.get("timestamp"))
        if find_agent_id(record) != self._agent:
            return message_builder.MetadataRecord(key=key)
        match kind:
            case "session.start" | "session.resume":
                return message_builder.MetadataRecord(key=key, model=parse_id(data.get("selectedModel")))
            case "session.model_change":
                return message_builder.MetadataRecord(key=key, model=parse_id(data.get("newModel")))
            case "session.usage_info":
                return message_builder.MetadataRecord(key=key, window=_parse_tokens(data, "tokenLimit"))
            case "session.shutdown":  # the size of the context at the end belongs to the newest reply
                size = _parse_tokens(data, "currentTokens")
                return message_builder.UsageRecord(key=key, usage=Usage(size) if size else None)
            case "session.compaction_complete":
                return _parse_compaction(data, key, time)
            case "session.truncation":
                return _parse_truncation(data, key)
            case "session.snapshot_rewind":
                return message_builder.RewindRecord(parse_id(data.get("upToEventId")))
            case "session.context_cleared":
                return message_builder.ResetRecord(key=key)
            case "system.message":  # recorded again for every turn
                return message_builder.MetadataRecord(key=key, system=parse_id(data.get("content")))
            case "system.notification":
                text = build_text(parse_id(data.get("content")))
                return message_builder.MessageRecord(Role.USER, [text], time=time, key=key, is_injected=True)
            case "user.message":
                return _parse_user(data, key, time)
            case "assistant.message":
                return _parse_assistant(data, key, time)
            case "assistant.usage":  # only in logs of other programs
                usage, notes = parse_usage_or_note(_parse_usage, data)
                return message_builder.UsageRecord(key=key, usage=usage, notes=notes)
            case "tool.execution_complete":
                return _parse_result(data, key, time)
        return message_builder.MetadataRecord(key=key)


def _parse_user(data: Data, key: str, time: int) -> message_builder.ParsedRecord:
    typed, model_text = parse_id(data.get("content")), parse_id(data.get("transformedContent"))
    texts, injected = [typed], set[int]()
    if model_text and model_text != typed:
        prefix, separator, suffix = model_text.partition(typed) if typed else ("", "", model_text)
        texts, injected = ([model_text], set()) if typed and not separator else ([prefix, typed, suffix], {0, 2})
    parts = [(number in injected, text) for number, text in enumerate(texts) if text]
    blocks = [build_text(text) for _, text in parts]
    for attached in map(as_object, as_list(data.get("attachments"))):
        media_type = parse_id(attached.get("mimeType"))
        if media_type.startswith("image/") and "data" in attached:
            blocks.append(build_image(media_type, parse_id(attached.get("data"))))
    source = data.get("source")
    by_runtime = bool(data.get("isAutopilotContinuation")) or (isinstance(source, str) and source not in ("", "user"))
    numbers = frozenset(number for number, (is_injected, _) in enumerate(parts) if is_injected)
    return message_builder.MessageRecord(
        Role.USER, blocks, time=time, key=key, is_injected=by_runtime, injected_blocks=numbers
    )


def _parse_assistant(data: Data, key: str, time: int) -> message_builder.ParsedRecord:
    """Parse a reply. Its usage is ignored, as it records only output tokens, not the size of the context."""
    blocks: list[Block] = []
    thought, hidden = parse_id(data.get("reasoningText")), parse_id(data.get("reasoningOpaque"))
    if thought or hidden:
        blocks.append({"type": "thinking", "thinking": thought, "signature": hidden})
    if text := parse_id(data.get("content")):
        blocks.append(build_text(text))
    notes: list[str] = []
    for call in as_list(data.get("toolRequests")):
        if isinstance(call, dict):
            arguments = parse_arguments(call.get("arguments"))
            blocks.append(build_tool_use(parse_id(call.get("toolCallId")), parse_id(call.get("name")), arguments))
        else:
            notes.append("a tool request that is not an object")
    message_id, model = parse_id(data.get("messageId")), parse_id(data.get("model"))
    return message_builder.MessageRecord(
        Role.ASSISTANT, blocks, time=time, notes=tuple(notes), message_id=message_id, model=model, key=key
    )


def _parse_result(data: Data, key: str, time: int) -> message_builder.ParsedRecord:
    """Parse a tool's result, or its error, as the model sees it. The event's text for the user is not sent."""
    result_value, error = data.get("result"), data.get("error")
    body = parse_id(result_value.get("content")) if isinstance(result_value, dict) else parse_id(result_value)
    if not body and error is not None:
        body = parse_id(error.get("message") if isinstance(error, dict) else error)
    if data.get("isUserRequested"):
        return message_builder.MessageRecord(Role.USER, [build_text(body)], time=time, key=key, is_injected=True)
    result = build_tool_result(parse_id(data.get("toolCallId")), body, is_error=data.get("success") is False)
    return message_builder.MessageRecord(Role.USER, [result], has_results=True, time=time, key=key)


def _parse_usage(data: Any) -> Usage | None:
    return parse_usage(
        data,
        "inputTokens",
        cache_read="cacheReadTokens",
        cache_write="cacheWriteTokens",
        output=("outputTokens",),
        includes_cache=True,
    )


def _parse_compaction(data: Data, key: str, time: int) -> message_builder.ParsedRecord:
    """Parse a compaction; a failed one becomes metadata. The messages kept after the summary are not recorded."""
    if not data.get("success"):
        return message_builder.MetadataRecord(key=key)
    summary = data.get("summaryContent")
    block = build_text(summary) if isinstance(summary, str) and summary else HIDDEN_SUMMARY
    trigger = parse_id(data.get("trigger")) or ("manual" if data.get("customInstructions") else None)
    kept_count = _parse_tokens(data, "preCompactionMessagesLength") - _parse_tokens(data, "messagesRemoved")
    return message_builder.MessageRecord(
        Role.USER,
        [block],
        time=time,
        key=key,
        compaction=message_builder.FullCompactionRecord(trigger, _parse_tokens(data, "preCompactionTokens") or None),
        notes=(f"a compaction that kept {kept_count:,} messages, without saying which",) if kept_count > 0 else (),
    )


def _parse_truncation(data: Data, key: str) -> message_builder.ParsedRecord:
    names = ("preTruncationTokensInMessages", "tokensRemovedDuringTruncation")
    tokens_before, removed = (_parse_tokens(data, name) or None for name in names)
    sizes = message_builder.MetadataRecord(key=key, window=_parse_tokens(data, "tokenLimit"))
    clearing = message_builder.MicroCompactionRecord("truncation", tokens_before, saved_tokens=removed)
    return message_builder.group_records(sizes, clearing) if removed else sizes


def _parse_tokens(data: Data, name: str) -> int:
    return parse_tokens_or_note(data, name)[0]


_SUBAGENT_STARTED = re.compile(rb'"subagent\.started"')


class Subagent(NamedTuple):
    """A sub-agent: the id in its events, the id of the tool call that started it, and its name."""

    id: str
    call: str
    name: str


def find_subagents(path: Path) -> Iterator[Subagent]:
    """Yield each sub-agent that was started, in file order."""
    known_ids = set[str]()
    with closing(LineFile(path)) as file:
        for line in find_matching_lines(file, _SUBAGENT_STARTED):
            record = as_object(try_loads(line))
            data = record.get("data")
            if not isinstance(data, dict) or record.get("type") != "subagent.started":
                continue
            call = parse_id(data.get("toolCallId"))
            agent_id = parse_id(record.get("agentId")) or call
            if agent_id and agent_id not in known_ids:
                known_ids.add(agent_id)
                yield Subagent(agent_id, call, parse_id(data.get("agentDisplayName") or data.get("agentName")))


EVENTS_FILE = "events.jsonl"


class CopilotCliFormat(Format):
    """The format of GitHub Copilot CLI's sessions and sub-agents."""

    name: ClassVar[str] = "copilot-cli"
    about: ClassVar[str] = "GitHub Copilot CLI sessions (events.jsonl), with compactions, rewinds and sub-agents"
    from_source: ClassVar[str] = "compactions, rewinds"

    find_unlisted = staticmethod(find_branch)

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        first = as_object(next(iter(parse_first_values(head)), None))
        if first.get("type") == "session.start" and isinstance(first.get("data"), dict):
            return Claim(95, "an event that starts a session of Copilot CLI")
        return None

    def list_sessions(self, path: Path) -> list[SessionInfo]:
        main = _read_main_info(path)
        return [main, *(_build_subagent_info(main, agent) for agent in find_subagents(path))]

    def make_scanner(self, path: Path, info: SessionInfo) -> Scanner:
        if not info.id or info.id.startswith(BRANCH_PREFIX):
            return LineScanner(path, info, CopilotShape)
        if all(agent.id != info.id for agent in find_subagents(path)):
            raise UnreadableSession(f"{path}: unknown session {info.id!r}")
        return LineScanner(path, info, lambda: CopilotShape(info.id))

    def subagent_of(self, session: Session, call: int) -> SessionInfo | None:
        path, call_id = Path(session.info.path), session.facts.call_id(call)
        started = next((agent for agent in find_subagents(path) if call_id and agent.call == call_id), None)
        return _build_subagent_info(_read_main_info(path), started) if started else None

    def read_title(self, path: Path) -> str:
        for record in read_first_objects(path):
            data = record.get("data")
            if record.get("type") == "user.message" and isinstance(data, dict) and not find_agent_id(record):
                return format_title(parse_id(data.get("content")))
        return ""

    def find_sessions(self, environ: Mapping[str, str], cwd: Path) -> Iterable[SessionFile]:
        """Yield the session file in each folder. Projects stay unknown, as only the content of the files names them."""
        for entry in list_entries(find_program_folder(environ, "COPILOT_HOME", ".copilot") / "session-state"):
            if entry.name.endswith(".jsonl"):
                yield SessionFile(Path(entry.path), "", False)
            elif (events := Path(entry.path, EVENTS_FILE)).is_file():
                yield SessionFile(events, "", False)


def _read_main_info(path: Path) -> SessionInfo:
    [main] = list_only_session(path, CopilotCliFormat.name)
    data = as_object(read_first_object(path).get("data"))
    return replace(main, cwd=as_text(as_object(data.get("context")).get("cwd")))


def _build_subagent_info(main: SessionInfo, agent: Subagent) -> SessionInfo:
    return replace(main, id=agent.id, title=truncate_name(agent.name or agent.id), parent=main.path)
