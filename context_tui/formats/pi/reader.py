"""Read the entries in a pi session.

Entries of versions 2 and 3 form a tree, in which the newest entry is the current one. The file lacks the text that pi
adds around summaries and around the output of typed commands, so summaries are shown as recorded.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from context_tui.formats.kit.blocks import (
    Block,
    build_image,
    build_text,
    build_tool_result,
    build_tool_use,
    parse_arguments,
)
from context_tui.formats.kit.message_builder import (
    FullCompactionRecord,
    MessageRecord,
    MetadataRecord,
    ParsedRecord,
    group_records,
)
from context_tui.formats.kit.size_note import parse_size_note
from context_tui.formats.kit.usage import parse_usage
from context_tui.formats.kit.values import as_list, parse_id, parse_time_ms, parse_tokens_or_note, parse_usage_or_note
from context_tui.session.facts import Usage
from context_tui.session.values import MessageFlag, Role

IGNORED_TYPES = frozenset({"thinking_level_change", "active_tools_change", "custom", "label", "session_info"})
"""Types of entries that are in no context."""
UNSENT_STOP_REASONS = ("aborted", "error")
"""Stop reasons of replies that pi keeps but does not send again."""


class PiShape:
    """Parser for entries of all versions."""

    def parse(self, record: dict[str, Any]) -> ParsedRecord:
        kind = record.get("type")
        if kind == "session":
            return MetadataRecord(model=parse_id(record.get("modelId")))
        entry = _PiEntry(record)
        match kind:
            case "message":
                return entry.parse_message()
            case "custom_message":
                return entry.build_message(Role.USER, parse_content_blocks(record.get("content")), is_injected=True)
            case "branch_summary":
                return entry.parse_branch_summary(record.get("summary"))
            case "compaction":
                return entry.parse_compaction()
            case "model_change":
                return entry.build_ignored(model=parse_id(record.get("modelId")))
            case "leaf":  # the next entry has another parent
                return MetadataRecord(key=entry.key, parent_key=parse_id(record.get("targetId")))
            case "custom" if size_basis := parse_size_note(record.get("data")):
                return replace(entry.build_ignored(), size_basis=size_basis)
            case str() if kind in IGNORED_TYPES:
                return entry.build_ignored()
        if not entry.key:
            raise ValueError(f"unknown type of entry {str(kind)[:40]!r}")
        return entry.build_ignored(notes=(f"unknown type of entry {str(kind)[:40]!r}",))  # may have children


class _PiEntry:
    def __init__(self, record: dict[str, Any]) -> None:
        self.record = record
        self.key = parse_id(record.get("id"))
        self.below = parse_id(record["parentId"]) if "parentId" in record else None
        self.time = parse_time_ms(record.get("timestamp"))

    def build_ignored(self, *, model: str = "", notes: tuple[str, ...] = ()) -> MetadataRecord:
        return MetadataRecord(key=self.key, parent_key=self.below, model=model, notes=notes)

    def build_message(self, role: Role, blocks: list[Block], **members: Any) -> MessageRecord:
        return MessageRecord(role, blocks, time=self.time, key=self.key, parent_key=self.below, **members)

    def parse_message(self) -> ParsedRecord:
        message = self.record.get("message")
        if not isinstance(message, dict):
            raise ValueError("an entry without its message")
        if (time := parse_time_ms(message.get("timestamp"))) >= 0:
            self.time = time
        match message.get("role"):
            case "user":
                return self.build_message(Role.USER, parse_content_blocks(message.get("content")))
            case "assistant":
                return self.parse_reply(message)
            case "toolResult":
                return self.build_message(Role.USER, [_parse_result(message)], has_results=True)
            case "bashExecution":
                if message.get("excludeFromContext"):
                    return self.build_ignored()
                return self.build_message(Role.USER, [build_text(format_shell_command(message))], is_injected=True)
            case "custom" | "hookMessage":
                return self.build_message(Role.USER, parse_content_blocks(message.get("content")), is_injected=True)
            case "branchSummary":
                return self.parse_branch_summary(message.get("summary"))
            case "compactionSummary":
                return self.build_message(Role.USER, [build_text(parse_id(message.get("summary")))], is_injected=True)
            case other:
                if not self.key:
                    raise ValueError(f"unknown role {str(other)[:40]!r}")
                return self.build_ignored(notes=(f"unknown role {str(other)[:40]!r}",))

    def parse_reply(self, message: dict[str, Any]) -> ParsedRecord:
        flags = MessageFlag.NOT_SENT if message.get("stopReason") in UNSENT_STOP_REASONS else 0
        usage, notes = parse_usage_or_note(parse_pi_usage, message.get("usage"))
        blocks, model = parse_content_blocks(message.get("content")), parse_id(message.get("model"))
        return self.build_message(Role.ASSISTANT, blocks, flags=flags, usage=usage, notes=notes, model=model)

    def parse_branch_summary(self, summary: Any) -> ParsedRecord:
        if not isinstance(summary, str) or not summary:
            return self.build_ignored()
        return self.build_message(Role.USER, [build_text(summary)], is_injected=True)

    def parse_compaction(self) -> ParsedRecord:
        """Parse a summary and the messages that stay: those since an entry (id, or number in version 1), or copies."""
        record = self.record
        first_kept = record.get("firstKeptEntryId", record.get("firstKeptEntryIndex"))
        if not isinstance(first_kept, str | int) or isinstance(first_kept, bool):
            first_kept = ""
        tail = [] if first_kept else as_list(record.get("retainedTail"))
        copies, copy_notes = _parse_copied_messages(tail)
        tokens_before, notes = parse_tokens_or_note(record, "tokensBefore")
        compaction = FullCompactionRecord("extension" if record.get("fromHook") else None, tokens_before or None)
        numbers = tuple(range(len(copies) + 1))
        compaction = replace(compaction, context=numbers) if copies else replace(compaction, kept_since=first_kept)
        blocks = [build_text(parse_id(record.get("summary")))]
        summary = self.build_message(Role.USER, blocks, compaction=compaction, notes=(*notes, *copy_notes))
        return group_records(summary, *copies)


def _parse_copied_messages(messages: list[Any]) -> tuple[list[MessageRecord], tuple[str, ...]]:
    records, notes = list[MessageRecord](), list[str]()
    for message in messages:
        try:
            record = _PiEntry({"message": message}).parse_message()
        except ValueError as error:
            notes.append(str(error))
            continue
        if not isinstance(record, MessageRecord):
            continue
        if records and record.has_results and records[-1].has_results:
            records[-1] = replace(records[-1], blocks=[*records[-1].blocks, *record.blocks])
        else:
            records.append(replace(record, usage=None))
    return records, tuple(notes)


def parse_pi_usage(value: Any) -> Usage | None:
    """Parse recorded usage, whose input excludes cached tokens for every provider. Returns None if there is none."""
    return parse_usage(value, "input", cache_read="cacheRead", cache_write="cacheWrite", output=("output",))


def parse_content_blocks(content: Any) -> list[Block]:
    """Convert pi's content to blocks. Unknown parts stay unchanged."""
    if content is None:
        return []
    return [_parse_block(each) for each in (content if isinstance(content, list) else [content])]


def format_shell_command(message: dict[str, Any]) -> str:
    """Return the text that a command typed with ``!`` adds to the context: command, output and exit status."""
    lines = [f"Ran `{parse_id(message.get('command'))}`", parse_id(message.get("output")) or "(no output)"]
    if message.get("cancelled"):
        lines.append("(command cancelled)")
    elif code := message.get("exitCode"):
        lines.append(f"Command exited with code {parse_id(code)}")
    return "\n".join(lines)


def _parse_block(part: Any) -> Any:
    if not isinstance(part, dict):
        return part
    match part.get("type"):
        case "toolCall":
            arguments = parse_arguments(part.get("arguments"))
            return build_tool_use(parse_id(part.get("id")), parse_id(part.get("name")), arguments)
        case "thinking":
            signature = part.get("thinkingSignature")
            if part.get("redacted") is True and isinstance(signature, str):
                return {"type": "redacted_thinking", "data": signature}
            block = {"type": "thinking", "thinking": part.get("thinking") or ""}
            return {**block, "signature": signature} if isinstance(signature, str) else block
        case "image":
            return build_image(parse_id(part.get("mimeType")), parse_id(part.get("data")))
    return part


def _parse_result(message: dict[str, Any]) -> Block:
    content = parse_content_blocks(message.get("content"))
    only = content[0] if len(content) == 1 and isinstance(content[0], dict) else {}
    text = only.get("text") if only.get("type") == "text" else None
    body = text if isinstance(text, str) else content
    return build_tool_result(parse_id(message.get("toolCallId")), body, is_error=bool(message.get("isError")))
