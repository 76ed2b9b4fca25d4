"""Parse a line of a Claude Code file into a record, and find the blocks that the model sees.

The faster :mod:`~context_tui.formats.claude_code.fast_path` parses nine of ten lines instead. As the vendor calls the
format unstable, every field is optional and unknown fields are ignored. Based on 749 published snapshots of CLI 1.0.24
to 2.1.219.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from mmap import mmap
from typing import Annotated, Any

import msgspec

from context_tui.formats.kit.blocks import Block, build_text
from context_tui.formats.kit.values import as_object, as_text, list_objects, parse_blocks, parse_tokens, parse_version
from context_tui.session.facts import Usage
from context_tui.session.jsontext import OversizedRecord, compact_json, is_nested_deeper, loads, try_loads, utf8_len
from context_tui.session.session import FileState
from context_tui.session.validation import MAX_DEPTH, MAX_TOKENS, STRING_MEMBERS
from context_tui.text.sanitize import MAX_NAME_LENGTH, truncate_name

TokenSize = Annotated[int, msgspec.Meta(ge=0, le=MAX_TOKENS // 3)] | None
"""Size in tokens, limited so that the sum of three is still a valid size."""
BoundedName = Annotated[str, msgspec.Meta(max_length=MAX_NAME_LENGTH)] | None


class CacheCreation(msgspec.Struct):
    """The tokens written to the prompt cache with a lifetime of one hour."""

    ephemeral_1h_input_tokens: TokenSize = None


class ApiUsage(msgspec.Struct):
    """Usage as the API reported it. Its ``input_tokens`` exclude cached tokens."""

    input_tokens: TokenSize = None
    cache_read_input_tokens: TokenSize = None
    cache_creation_input_tokens: TokenSize = None
    output_tokens: TokenSize = None
    cache_creation: CacheCreation | None = None


class ApiMessage(msgspec.Struct):
    """The API message in a record, which may hold only some of its blocks. Usage and diagnostics are not validated."""

    id: str | None = None
    role: str | None = None
    model: BoundedName = None
    content: msgspec.Raw = msgspec.Raw(b"null")
    stop_reason: str | None = None
    usage: Any = None
    diagnostics: Any = None


class Record(msgspec.Struct):
    """The decoded fields of a line. ``toolUseResult`` is not among them, as Claude Code only displays it."""

    type: str | None = None
    subtype: str | None = None
    uuid: str | None = None
    parentUuid: str | None = None
    timestamp: str | None = None
    sessionId: str | None = None
    agentId: str | None = None
    version: str | None = None
    cwd: str | None = None
    data: msgspec.Raw = msgspec.Raw(b"null")
    isSidechain: bool = False
    isMeta: bool = False
    isCompactSummary: bool = False
    isVisibleInTranscriptOnly: bool = False
    isApiErrorMessage: bool = False
    message: ApiMessage | None = None
    attachment: dict[str, Any] | None = None
    rendered: list[Any] | None = None
    compactMetadata: dict[str, Any] | None = None
    microcompactMetadata: dict[str, Any] | None = None
    origin: dict[str, Any] | None = None
    leafUuid: str | None = None
    shape: dict[str, Any] | None = None
    shapeHash: str | None = None
    querySource: str | None = None
    context_tui: Any = None


MESSAGE_TYPES = frozenset({"user", "assistant"})
METADATA_TYPES = frozenset(
    {
        *("progress", "system", "file-history-snapshot", "file-history-delta", "last-prompt", "custom-title"),
        *("ai-title", "mode", "permission-mode", "pr-link", "frame-link", "queue-operation", "summary", "agent-name"),
        *("content-replacement", "tag", "relocated", "attribution-snapshot", "worktree-state", "agent-color"),
        *("api-request", "api-request-shape", "api-request-blob", "atis-latch", "tools-used", "cost-state"),
    }
)
UNSENT_ATTACHMENTS = frozenset(
    {"hook_success", "hook_system_message", "hook_non_blocking_error", "hook_cancelled", "command_permissions"}
)
"""Types of attachments that only the user sees."""
CLEAR_HOOK = "SessionStart:clear"
"""Name of the hook that runs when ``/clear`` begins a new context."""

MEASURED_MEMBERS = STRING_MEMBERS | {
    "tool_use": ("id", "name", "input"),
    "tool_result": ("tool_use_id", "content", "is_error"),
}
"""Members of blocks that become facts, keyed by the block's type. A client may add others, which are ignored."""
READ_RANGE_TAIL_BYTES = 2_000
"""Bytes at the end of a record that are searched for the range of lines that a Read returned."""

# Beginnings of user records that the client wrote: commands, their output, notices.
_MARKUP_STARTS = (
    *("<command-", "<local-command-", "<bash-", "<ide_", "<task-notification", "<system-reminder", "<user-memory"),
    *("<user-prompt-submit-hook", "Caveat: The messages below", "[Request interrupted"),
)
COMMAND_START = re.compile(
    r"\s*<command-message>[^<]*</command-message>\s*<command-name>[^<]*</command-name>\s*"
    r"<command-args>(?!\s*</command-args>)"
)
"""Start of a typed prompt command with arguments. Records of client commands, such as /model, begin with the name."""
MAX_CONTAINERS = 50_000
"""Maximum number of arrays and objects in a message, each of which may take forty times its bytes in memory."""
_JSON_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_decoder = msgspec.json.Decoder(Record)
_READ_RANGE = re.compile(rb'"numLines":(\d{1,9}),"startLine":(\d{1,9})')


def parse_line(line: bytes | memoryview) -> Record:
    """Parse a record of any type.

    Raises ValueError if the line is not a JSON object or is nested too deeply, OversizedRecord if it holds too much.
    """
    try:
        record = _decoder.decode(line)
        if record.message is not None:
            str(memoryview(record.message.content), "utf-8")  # msgspec does not validate the bytes of Raw
    except (ValueError, RecursionError, UnicodeError):
        record = build_record(loads(line))
    if _is_nested_too_deeply(record):
        raise ValueError("nested too deeply")
    return record


def _is_nested_too_deeply(record: Record) -> bool:
    if record.message is not None:
        raw = bytes(record.message.content)
        brackets = raw.count(b"[") + raw.count(b"{")
        if brackets > MAX_CONTAINERS:
            structure = _JSON_STRING.sub(b"", raw)
            if structure.count(b"[") + structure.count(b"{") > MAX_CONTAINERS:
                raise OversizedRecord(f"a message of more than {MAX_CONTAINERS:,} arrays and objects")
        return brackets > MAX_DEPTH and _is_content_nested_too_deeply(loads(raw))
    return is_nested_deeper(record.attachment) or is_nested_deeper(record.rendered)


def _is_content_nested_too_deeply(content: Any) -> bool:
    for item in content if isinstance(content, list) else [content]:
        kind = item.get("type") if isinstance(item, dict) else None
        if isinstance(kind, str) and kind in MEASURED_MEMBERS:
            if any(is_nested_deeper(item.get(name)) for name in MEASURED_MEMBERS[kind]):
                return True
        elif is_nested_deeper(item):
            return True
    return False


def remove_deep_members(content: Any) -> Any:
    """Return a message's content without the members of its blocks that are nested too deeply."""
    if not is_nested_deeper(content):
        return content
    items = content if isinstance(content, list) else [content]
    return [remove_deep_values(item) if isinstance(item, dict) else item for item in items]


def remove_deep_values(members: dict[str, Any], depth: int = MAX_DEPTH) -> dict[str, Any]:
    """Return an object without its members that are nested deeper than *depth*."""
    return {name: value for name, value in members.items() if not is_nested_deeper(value, depth)}


def build_record(value: Any) -> Record:
    """Build a record from a decoded value; omit fields of wrong types. Raises ValueError like :func:`parse_line`."""
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    fields = {name: value[name] for name in _FIELD_TYPES if isinstance(value.get(name), _FIELD_TYPES[name])}
    if isinstance(message := value.get("message"), dict):
        parts = {name: message[name] for name in _MESSAGE_TEXTS if isinstance(message.get(name), str)}
        if "model" in parts:
            parts["model"] = truncate_name(parts["model"])
        content = message.get("content")
        if _is_content_nested_too_deeply(content):
            raise ValueError("nested too deeply")
        raw = msgspec.Raw(compact_json(remove_deep_members(content)))
        other = {"usage": message.get("usage"), "diagnostics": message.get("diagnostics")}
        fields["message"] = ApiMessage(**parts, **other, content=raw)
    return Record(**fields)


_FIELD_TYPES: dict[str, type] = {
    **dict.fromkeys(("type", "subtype", "uuid", "parentUuid", "timestamp", "sessionId"), str),
    **dict.fromkeys(("agentId", "version", "cwd", "leafUuid", "shapeHash", "querySource"), str),
    **dict.fromkeys(("isSidechain", "isMeta", "isCompactSummary", "isVisibleInTranscriptOnly"), bool),
    **{"isApiErrorMessage": bool, "rendered": list},
    **dict.fromkeys(("attachment", "compactMetadata", "microcompactMetadata", "origin", "shape"), dict),
}
_MESSAGE_TEXTS = ("id", "role", "model", "stop_reason")


def extract_blocks(record: Record) -> list[Block]:
    """Return the blocks that the model sees in a record, in Anthropic's form. An attachment becomes text and images."""
    if record.attachment is not None and record.type == "attachment":
        attachment, content = record.attachment, None
        is_sent = as_text(attachment.get("type")) not in UNSENT_ATTACHMENTS
        if is_sent:
            names = ("content", "snippet", "addedLines", "addedBlocks", "prompt")
            content = next(filter(None, map(attachment.get, names)), None)
        if record.rendered and not is_typed_attachment(attachment):
            texts = [*map(_extract_text, record.rendered)]  # as sent, in 2.1.330
        else:
            name = str(attachment.get("filename") or "") if is_sent else ""
            texts = [*filter(None, [_extract_text(content) if content else name])]
        return [*map(build_text, texts), *_extract_images(content)]
    return parse_blocks(remove_deep_members(loads(memoryview(record.message.content)))) if record.message else []


def _extract_images(content: Any) -> Iterator[Block]:
    for item in list_objects(content if isinstance(content, list) else [content]):
        if item.get("type") == "image":
            file, source = as_object(item.get("file")), item.get("source")
            if isinstance(file.get("base64"), str):
                source = {"type": "base64", "media_type": str(file.get("type") or ""), "data": file["base64"]}
            yield {"type": "image", "source": as_object(source)}


def _extract_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(filter(None, map(_extract_text, value)))
    if isinstance(value, dict):
        if value.get("type") == "image":
            return ""
        for name in ("content", "text", "file"):
            if value.get(name):
                return _extract_text(value[name])
    return compact_json(value).decode("utf-8", "replace")


def is_clear(record: Record) -> bool:
    """Return whether a record is the first after ``/clear``: it has no parent, and names the hook that runs then."""
    if record.parentUuid is not None:
        return False
    if record.type == "progress":
        return CLEAR_HOOK.encode() in bytes(record.data)
    return record.attachment is not None and record.attachment.get("hookName") == CLEAR_HOOK


def is_typed_attachment(attachment: dict[str, Any]) -> bool:
    """Return whether an attachment is a prompt that a person typed while the model was working."""
    origin = attachment.get("origin")
    return attachment.get("type") == "queued_command" and isinstance(origin, dict) and origin.get("kind") == "human"


def is_markup(text: str) -> bool:
    """Return whether the client, not a person, wrote the text of a user record."""
    return text.lstrip().startswith(_MARKUP_STARTS) and not COMMAND_START.match(text)


def is_typed_by_person(record: Record) -> bool | None:
    """Return whether the record states that a person typed it, or None if only its text can tell."""
    if record.isMeta:
        return False
    kind = record.origin.get("kind") if record.origin else None
    return None if kind is None else kind == "human"


def find_read_range(data: bytes | mmap, start: int, end: int) -> tuple[int, int] | None:
    """Return the first line number and the number of lines that a Read returned, or None if they are not recorded."""
    position = data.rfind(b'"numLines":', max(start, end - READ_RANGE_TAIL_BYTES), end)
    match = _READ_RANGE.match(data, position, end) if position >= 0 else None
    return (int(match[2]), int(match[1])) if match else None


def is_result(block: dict[str, Any]) -> bool:
    """Return whether a block is a ``tool_result``."""
    return block.get("type") == "tool_result"


def is_injected(record: Record, block: dict[str, Any]) -> bool:
    """Return whether the runtime, not a person, added a block to a user record."""
    typed = is_typed_by_person(record)
    return not typed if typed is not None else is_markup(str(block.get("text") or ""))


def select_blocks(blocks: list[dict[str, Any]], record: Record, *, typed: bool) -> list[dict[str, Any]]:
    """Return the blocks that a person typed if *typed*, or else the record's tool results and injected blocks."""
    return [block for block in blocks if typed != (is_result(block) or is_injected(record, block))]


def parse_usage(value: Any, finished: bool, version: str | None) -> Usage | None:
    """Return validated and normalized usage, or None if nothing was sent. A ValueError names an invalid size."""
    if not isinstance(value, dict):
        raise ValueError("usage is not an object; left out")
    split = value.get("cache_creation")
    hour_tokens = parse_tokens(split.get(_ONE_HOUR_WRITES), _ONE_HOUR_WRITES) if isinstance(split, dict) else None
    sizes = {name: parse_tokens(value.get(name), name) for name in _USAGE_FIELDS}
    parse_tokens(sum(sizes[name] for name in _USAGE_FIELDS[:3]), "the sum of input tokens")
    return normalize_usage(ApiUsage(**sizes, cache_creation=CacheCreation(hour_tokens)), finished, version)


def find_cache_miss_reason(diagnostics: Any) -> str:
    """Return the reason for a prompt cache miss from unvalidated diagnostics, or "" if there is none."""
    return truncate_name(as_text(as_object(as_object(diagnostics).get("cache_miss_reason")).get("type")))


_ONE_HOUR_WRITES = "ephemeral_1h_input_tokens"
_OUTPUT_ON_EVERY_LINE_SINCE = 2, 1, 62
"""First version of the client that records final output tokens on every line of a message."""
_USAGE_FIELDS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")


def normalize_usage(usage: ApiUsage, finished: bool, version: str | None) -> Usage | None:
    """Return usage for the facts, or None if nothing was sent. Its output is final if *finished*, or since 2.1.62."""
    fresh, read = usage.input_tokens or 0, usage.cache_read_input_tokens or 0
    written, split = usage.cache_creation_input_tokens or 0, usage.cache_creation
    hour_tokens = min((split.ephemeral_1h_input_tokens or 0) if split is not None else 0, written)
    if not fresh + read + written:
        return None
    is_trusted = finished or parse_version(version) >= _OUTPUT_ON_EVERY_LINE_SINCE
    return Usage(fresh, read, written - hour_tokens, hour_tokens, usage.output_tokens or 0, is_trusted)


FILE_TOOLS = frozenset({"Read", "Edit", "MultiEdit", "Write"})
"""Tools whose results record the state of a file."""


def parse_file_state(line: bytes, message: int) -> tuple[str, FileState] | None:
    """Return a file's path and state from the ``toolUseResult`` of a Read, Edit or Write, or None if there is none.

    A partial Read states the total number of lines, from which the file's size is estimated.
    """
    result = as_object(as_object(try_loads(line)).get("toolUseResult"))
    file = as_object(result.get("file"))
    path, content = file.get("filePath"), str(file.get("content") or "")
    if path:
        lines, total = file.get("numLines"), file.get("totalLines")
        if type(lines) is not int or type(total) is not int or not 0 < lines <= total <= MAX_TOKENS:
            lines = total = content.count("\n") + 1
        return str(path), FileState(utf8_len(content) * total // lines, total, message, False)
    path, old, new = result.get("filePath"), str(result.get("oldString") or ""), str(result.get("newString") or "")
    content = str(result.get("originalFile") or result.get("content") or "")
    if not path or not content:
        return None
    size = max(utf8_len(content) - utf8_len(old) + utf8_len(new), 0)
    return str(path), FileState(size, content.count("\n") + 1, message, True)
