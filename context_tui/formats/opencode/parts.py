"""Parse opencode's messages, whose body and parts are the same in the database, the storage tree and an export.

The module reproduces opencode's conversion to requests (``toModelMessages`` in ``session/message-v2.ts``). Ignored text
and plain files are left out, unfinished calls get a result that says so, and failed replies are not sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from context_tui.formats.kit import values
from context_tui.formats.kit.blocks import Block, build_text, build_tool_use
from context_tui.formats.kit.message_builder import MessageRecord, ParsedRecord, group_records
from context_tui.session.facts import Usage
from context_tui.session.values import MessageFlag, Role
from context_tui.text.sanitize import truncate_name

Value = dict[str, Any]

COMPACTION_PROMPT = "What did we do so far?"
"""Text sent in place of a ``compaction`` part."""
SUBTASK_PROMPT = "The following tool was executed by the user"
"""Text sent in place of a ``subtask`` part, which is a command that the user ran."""
INTERRUPTED_RESULT = "[Tool execution was interrupted]"
"""Result of a call that never ended."""
TEXT_FILE_TYPES = ("text/plain", "application/x-directory")
"""Types of files that were read when they were attached; a synthetic text holds their content."""
IGNORED_PARTS = frozenset({"step-start", "step-finish", "snapshot", "patch", "agent", "retry"})
"""Types of parts that are not sent."""
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)(?:;[^,;]*)*;base64,(.*)", re.DOTALL)


@dataclass
class RequestStep:
    """One request within a message: the blocks of its reply, the tool results, and the recorded usage."""

    reply_blocks: list[Block] = field(default_factory=list)
    results: list[Block] = field(default_factory=list)
    usage: Any = None


def parse_message(info: Value, parts: Sequence[Any]) -> ParsedRecord:
    """Parse a message from its body and parts. Raises ValueError if its role is unknown."""
    parse = _parse_assistant if values.parse_role(info) == Role.ASSISTANT else _parse_user
    objects = [part for part in parts if isinstance(part, dict)]
    return parse(info, objects, ["a part that is not an object"] * (len(parts) - len(objects)))


def parse_opencode_usage(value: Any) -> Usage | None:
    """Parse recorded usage, or return None if there is none.

    ``input`` excludes cached tokens. ``total`` shows whether ``output`` includes reasoning.
    """
    if not isinstance(value, dict):
        return None
    cache = values.as_object(value.get("cache"))
    fresh, output, reasoning = (_parse_size(value, name) for name in ("input", "output", "reasoning"))
    read, written = _parse_size(cache, "read"), _parse_size(cache, "write")
    if value.get("total") == fresh + read + written + output + reasoning:
        output += reasoning
    return Usage(fresh, read, written, 0, output) if fresh or read or written or output else None


def is_summary(info: Value) -> bool:
    """Return whether a message is a summary that ended without an error. Old versions record only its end."""
    is_finished = bool(info.get("finish")) or parse_time(info, "completed") >= 0
    return info.get("role") == "assistant" and info.get("summary") is True and not info.get("error") and is_finished


def find_compaction_part(parts: Sequence[Any]) -> Value | None:
    """Return the part that requests a compaction, or None if there is none."""
    return next((part for part in parts if isinstance(part, dict) and part.get("type") == "compaction"), None)


def parse_time(value: Value, name: str) -> int:
    """Return a member of a message's ``time`` in epoch milliseconds, or -1 if it is missing."""
    return values.parse_time_ms(values.as_object(value.get("time")).get(name))


def get_call_state(part: Value) -> Value:
    """Return the state of a tool call, or {} if it has none."""
    return values.as_object(part.get("state"))


def _parse_size(members: Value, name: str) -> int:
    value = members.get(name)
    return values.parse_tokens(int(value) if isinstance(value, float) and value.is_integer() else value, name)


def _parse_user(info: Value, parts: list[Value], notes: list[str]) -> ParsedRecord:
    blocks: list[Block] = []
    injects = set[int]()
    for part in parts:
        kind = values.parse_id(part.get("type"))
        if kind == "text":
            if part.get("ignored"):
                continue
            if part.get("synthetic"):
                injects.add(len(blocks))
            blocks.append(build_text(part.get("text")))
        elif kind == "file":
            if part.get("mime") not in TEXT_FILE_TYPES:
                blocks.append(_parse_file(part))
        elif kind == "compaction":
            injects.add(len(blocks))
            blocks.append(build_text(COMPACTION_PROMPT))
        elif kind == "subtask":
            blocks.append(build_text(SUBTASK_PROMPT))
        elif kind not in IGNORED_PARTS:
            notes.append(_format_unknown_part(kind))
    flags, time, injected = 0 if blocks else MessageFlag.NOT_SENT, parse_time(info, "created"), frozenset(injects)
    return MessageRecord(Role.USER, blocks, flags=flags, time=time, injected_blocks=injected, notes=tuple(notes))


def _parse_assistant(info: Value, parts: list[Value], notes: list[str]) -> ParsedRecord:
    error = info.get("error")
    has_content = any(part.get("type") not in ("step-start", "reasoning") for part in parts)
    is_sent = not error or (values.as_object(error).get("name") == "MessageAbortedError" and has_content)
    flags = 0 if is_sent else MessageFlag.NOT_SENT
    is_finished = bool(error) or parse_time(info, "completed") >= 0
    steps = [*_split_steps(parts, notes, is_finished=is_finished)]
    if not is_sent:
        steps[-1].reply_blocks.append(build_text(_format_error(error)))
    if not any(step.reply_blocks or step.results for step in steps):
        flags |= MessageFlag.NOT_SENT
    if is_summary(info):
        flags |= MessageFlag.SUMMARY
    messages: list[MessageRecord] = []
    time = parse_time(info, "created")
    for number, step in enumerate(steps):
        recorded = step.usage if len(steps) > 1 else info.get("tokens")
        usage, unread = values.parse_usage_or_note(parse_opencode_usage, recorded)
        notes += unread
        if info.get("summary") is True:  # the usage is of the previous context, even if the summary failed
            usage = None
        if step.reply_blocks or not number:
            messages.append(MessageRecord(Role.ASSISTANT, step.reply_blocks, flags=flags, time=time, usage=usage))
        if step.results:
            unsent = flags & MessageFlag.NOT_SENT
            messages.append(MessageRecord(Role.USER, step.results, has_results=True, flags=unsent, time=time))
    first_message, *other_messages = messages
    model = truncate_name(values.parse_id(info.get("modelID")))
    return group_records(replace(first_message, notes=tuple(notes), model=model), *other_messages)


def _split_steps(parts: list[Value], notes: list[str], *, is_finished: bool) -> Iterator[RequestStep]:
    step = RequestStep()
    for part in parts:
        kind, text = values.parse_id(part.get("type")), part.get("text")
        if kind == "step-start":
            if step.reply_blocks or step.results:
                yield step
                step = RequestStep()
        elif kind == "step-finish":
            step.usage = part.get("tokens")
        elif kind == "text":
            step.reply_blocks.append(build_text(text))
        elif kind == "reasoning":
            step.reply_blocks.append(_parse_reasoning(part))
        elif kind == "tool":
            state, call_id = get_call_state(part), values.parse_id(part.get("callID"))
            arguments = values.as_object(state.get("input"))
            step.reply_blocks.append(build_tool_use(call_id, values.parse_id(part.get("tool")), arguments))
            if (result := _parse_result(state, is_finished=is_finished)) is not None:
                step.results.append({"type": "tool_result", "tool_use_id": call_id, **result})
        elif kind == "file":
            step.reply_blocks.append(_parse_file(part))
        elif kind not in IGNORED_PARTS:
            notes.append(_format_unknown_part(kind))
    yield step


def _parse_reasoning(part: Value) -> Block:
    block: Block = {"type": "thinking", "thinking": part.get("text")}
    for provider_metadata in values.as_object(part.get("metadata")).values():
        if isinstance(provider_metadata, dict):
            if isinstance(signature := provider_metadata.get("signature"), str):
                return {**block, "signature": signature}
            hidden = provider_metadata.get("reasoningEncryptedContent") or provider_metadata.get("redactedData")
            if isinstance(hidden, str) and not part.get("text"):
                return {"type": "redacted_thinking", "data": hidden}
    return block


def _parse_result(state: Value, *, is_finished: bool) -> Block | None:
    """Return the result of a call (output with attachments, error or interruption), or None while it runs."""
    match state.get("status"):
        case "completed":
            files = [*map(_parse_file, values.list_objects(state.get("attachments")))]
            output = "" if state.get("output") is None else state["output"]
            return {"content": [build_text(values.parse_id(output)), *files] if files else output}
        case "error":
            metadata = values.as_object(state.get("metadata"))
            if metadata.get("interrupted") is True and isinstance(output := metadata.get("output"), str):
                return {"content": output}
            return {"content": values.parse_id(state.get("error")), "is_error": True}
    return {"content": INTERRUPTED_RESULT, "is_error": True} if is_finished else None


def _parse_file(part: Value) -> Block:
    mime, url = values.parse_id(part.get("mime")), values.parse_id(part.get("url"))
    data = _DATA_URL.fullmatch(url)
    source = {"type": "base64", "media_type": mime or data[1], "data": data[2]} if data else {"type": "url", "url": url}
    if mime.startswith("image/"):
        return {"type": "image", "source": source}
    title = {"title": part["filename"]} if isinstance(part.get("filename"), str) else {}
    return {"type": "document", "source": source, **title}


def _format_error(error: Any) -> str:
    if not isinstance(error, dict):
        return truncate_name(values.parse_id(error))
    data = error.get("data")
    message = data.get("message") if isinstance(data, dict) else error.get("message")
    return f"{values.parse_id(error.get('name'))}: {values.parse_id(message)}"


def _format_unknown_part(kind: str) -> str:
    return f"a part of unknown type {kind[:40]!r}"
