"""What the entries of a pi session mean.

Entries of versions 2 and 3 are a tree; the newest is where it stands. What pi puts around summaries and around the
output of a command that was typed is not in the file: summaries are shown as they are recorded.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from context_tui.formats.kit.arguments import input_of
from context_tui.formats.kit.message_builder import Compacted, Part
from context_tui.formats.kit.usage import usage_from
from context_tui.formats.kit.values import as_id, epoch_ms, recorded_tokens, usage_or_note
from context_tui.session.facts import Usage
from context_tui.session.values import MessageFlag, Role

Block = dict[str, Any]
BESIDE = frozenset({"thinking_level_change", "active_tools_change", "custom", "label", "session_info"})
"""Entries that are in no context."""
UNSENT = ("aborted", "error")
"""Why replies stopped that pi keeps, and does not send again."""


class PiShape:
    """Entries of all versions."""

    def part(self, record: dict[str, Any]) -> Part:
        """What an entry says."""
        kind = record.get("type")
        if kind == "session":
            return Part(model=as_id(record.get("modelId")))
        told = _Entry(record)
        match kind:
            case "message":
                return told.message()
            case "custom_message":
                return told.user(blocks_of(record.get("content")), injected=True)
            case "branch_summary":
                return told.summary_of_branch(record.get("summary"))
            case "compaction":
                return told.compaction()
            case "model_change":
                return told.beside(model=as_id(record.get("modelId")))
            case "leaf":  # what comes next hangs below another entry
                return Part(key=told.key, below=as_id(record.get("targetId")))
            case str() if kind in BESIDE:
                return told.beside()
        if not told.key:
            raise ValueError(f"unknown type of entry {str(kind)[:40]!r}")
        return told.beside(notes=(f"unknown type of entry {str(kind)[:40]!r}",))  # others hang below it


class _Entry:
    """One entry, with its place in the tree."""

    def __init__(self, record: dict[str, Any]) -> None:
        self.record = record
        self.key = as_id(record.get("id"))
        self.below = as_id(record["parentId"]) if "parentId" in record else None
        self.time = epoch_ms(record.get("timestamp"))

    def beside(self, *, model: str = "", notes: tuple[str, ...] = ()) -> Part:
        return Part(key=self.key, below=self.below, model=model, notes=notes)

    def user(self, blocks: list[Block], *, injected: bool = False) -> Part:
        return Part(Role.USER, blocks, time=self.time, injected=injected, key=self.key, below=self.below)

    def message(self) -> Part:
        """A message of any role.

        Raises:
            ValueError: it is none.
        """
        message = self.record.get("message")
        if not isinstance(message, dict):
            raise ValueError("an entry without its message")
        if (time := epoch_ms(message.get("timestamp"))) >= 0:
            self.time = time
        match message.get("role"):
            case "user":
                return self.user(blocks_of(message.get("content")))
            case "assistant":
                return self.reply(message)
            case "toolResult":
                result = _result(message)
                return Part(Role.USER, [result], results=True, time=self.time, key=self.key, below=self.below)
            case "bashExecution":
                if message.get("excludeFromContext"):
                    return self.beside()
                return self.user([{"type": "text", "text": shown_command(message)}], injected=True)
            case "custom" | "hookMessage":
                return self.user(blocks_of(message.get("content")), injected=True)
            case "branchSummary":
                return self.summary_of_branch(message.get("summary"))
            case "compactionSummary":
                return self.user([{"type": "text", "text": as_id(message.get("summary"))}], injected=True)
            case other:
                if not self.key:
                    raise ValueError(f"unknown role {str(other)[:40]!r}")
                return self.beside(notes=(f"unknown role {str(other)[:40]!r}",))

    def reply(self, message: dict[str, Any]) -> Part:
        unsent = message.get("stopReason") in UNSENT
        usage, notes = (None, ()) if unsent else usage_or_note(usage_of, message.get("usage"))
        return Part(
            Role.ASSISTANT,
            blocks_of(message.get("content")),
            flags=MessageFlag.NOT_SENT if unsent else 0,
            time=self.time,
            usage=usage,
            notes=notes,
            model=as_id(message.get("model")),
            key=self.key,
            below=self.below,
        )

    def summary_of_branch(self, summary: Any) -> Part:
        return (
            self.user([{"type": "text", "text": summary}], injected=True)
            if isinstance(summary, str) and summary
            else self.beside()
        )

    def compaction(self) -> Part:
        """A summary, and what is kept behind it: from an entry on, by its id, or by its number among the entries (v1);
        or, where none is told, copies of messages.
        """
        record = self.record
        since, tail = record.get("firstKeptEntryId", record.get("firstKeptEntryIndex")), record.get("retainedTail")
        if not isinstance(since, str | int) or isinstance(since, bool):
            since = ""
        before, notes = 0, tuple[str, ...]()
        kept, unknown = _copied(tail) if not since and isinstance(tail, list) else ([], ())
        try:
            before = recorded_tokens(record.get("tokensBefore"), "tokensBefore")
        except ValueError as error:
            notes = (str(error),)
        trigger = "extension" if record.get("fromHook") else None
        copies = Compacted(trigger, before or None, context=tuple(range(len(kept) + 1)))
        return Part(
            Role.USER,
            [{"type": "text", "text": as_id(record.get("summary"))}],
            time=self.time,
            compacted=copies if kept else Compacted(trigger, before or None, since=since),
            notes=(*notes, *unknown),
            key=self.key,
            below=self.below,
            then=tuple(kept),
        )


def _copied(messages: list[Any]) -> tuple[list[Part], tuple[str, ...]]:
    """Messages that stand in a compaction, results that follow each other as one; and what of them is not known.

    What their requests took tells nothing of the context that they are in now.
    """
    kept, notes = list[Part](), list[str]()
    for message in messages:
        try:
            part = replace(_Entry({"message": message}).message(), usage=None)
        except ValueError as error:
            notes.append(str(error))
            continue
        if kept and part.results and kept[-1].results:
            kept[-1] = replace(kept[-1], blocks=[*kept[-1].blocks, *part.blocks])
        elif part.role is not None:
            kept.append(part)
    return kept, tuple(notes)


def usage_of(value: Any) -> Usage | None:
    """Recorded usage; the input leaves cached tokens out, whoever the provider is."""
    return usage_from(value, "input", cache_read="cacheRead", cache_write="cacheWrite", output=("output",))


def blocks_of(content: Any) -> list[Block]:
    """pi's content as blocks; what is not known stays as it is."""
    if content is None:
        return []
    return [_block(each) for each in (content if isinstance(content, list) else [content])]


def shown_command(message: dict[str, Any]) -> str:
    """What a command that was typed with ``!`` adds to the context: its line, its output, and how it ended."""
    said = [f"Ran `{as_id(message.get('command'))}`", as_id(message.get("output")) or "(no output)"]
    if message.get("cancelled"):
        said.append("(command cancelled)")
    elif code := message.get("exitCode"):
        said.append(f"Command exited with code {as_id(code)}")
    return "\n".join(said)


def _block(part: Any) -> Any:
    if not isinstance(part, dict):
        return part
    match part.get("type"):
        case "toolCall":
            return {
                "type": "tool_use",
                "id": as_id(part.get("id")),
                "name": as_id(part.get("name")),
                "input": input_of(part.get("arguments")),
            }
        case "thinking":
            signature = part.get("thinkingSignature")
            if part.get("redacted") is True and isinstance(signature, str):
                return {"type": "redacted_thinking", "data": signature}
            told = {"type": "thinking", "thinking": part.get("thinking") or ""}
            return {**told, "signature": signature} if isinstance(signature, str) else told
        case "image":
            source = {"type": "base64", "media_type": as_id(part.get("mimeType")), "data": as_id(part.get("data"))}
            return {"type": "image", "source": source}
    return part


def _result(message: dict[str, Any]) -> Block:
    content = blocks_of(message.get("content"))
    only = content[0] if len(content) == 1 and isinstance(content[0], dict) else {}
    text = only.get("text") if only.get("type") == "text" else None
    result = {
        "type": "tool_result",
        "tool_use_id": as_id(message.get("toolCallId")),
        "content": text if isinstance(text, str) else content,
    }
    return {**result, "is_error": True} if message.get("isError") else result
