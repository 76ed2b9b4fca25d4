"""What a message of Goose says: content of its own types, in rows and in lines; and which of them the model still has.

From the source of Goose; no real file with messages was seen. A compaction hides what came before from the model
(``agentVisible``), and goes on with a summary that only the model sees.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from context_tui.formats.kit.entry_scanner import Entry, replace_compactions, replace_usage
from context_tui.formats.kit.message_builder import MessageBuilder, MessagePart
from context_tui.formats.kit.values import parse_id, parse_time_ms, parse_tokens, parse_usage_or_note
from context_tui.session.facts import Compaction, Usage, order_at
from context_tui.session.jsontext import is_nested_deeper, loads
from context_tui.session.values import BlockFlag, MessageFlag, Role, Spans

Block = dict[str, Any]

IGNORED_TYPES = frozenset(
    {
        *("toolConfirmationRequest", "actionRequired", "systemNotification"),
        *("conversationCompacted", "contextLengthExceeded", "summarizationRequested"),
    }
)
"""Content that the model is not given."""


class GooseShape:
    """Messages: the text of an entry is one with ``role``, ``created``, ``content`` and ``metadata``."""

    def __init__(self) -> None:
        self._hidden: list[bool] = []  # by message
        self._summaries: list[int] = []
        self._newest_reply = -1
        self._has_visible = False  # whether the model still has a message

    def parse(self, entry: Entry) -> MessagePart:
        """What a message says; the first line of a file says something of the session."""
        value = _parse_entry(entry)
        role = value.get("role")
        if role is None and "working_dir" in value:
            return MessagePart()
        if role not in ("user", "assistant"):
            raise ValueError(f"not a message: unknown role {str(role)[:40]!r}")
        content, notes = value.get("content"), list[str]()
        blocks = []
        for each in content if isinstance(content, list) else []:
            kind = parse_id(each.get("type")) if isinstance(each, dict) else ""
            if kind not in IGNORED_TYPES:
                block = _parse_block(kind, each) if isinstance(each, dict) else None
                blocks += [block] if block else []
                notes += [] if block else [f"content of unknown type {kind[:40]!r}"]
        if not isinstance(content, list):
            notes.append("content that is no list")
        time = parse_time_ms(value.get("created"))
        if role == "assistant":
            return MessagePart(
                Role.ASSISTANT, blocks, flags=0 if blocks else MessageFlag.NOT_SENT, time=time, notes=tuple(notes)
            )
        results = bool(blocks) and all(block["type"] == "tool_result" for block in blocks)
        unseen = not is_visible(value, "userVisible")
        flags = 0 if blocks else MessageFlag.NOT_SENT
        return MessagePart(Role.USER, blocks, results, flags, time, is_injected=unseen, notes=tuple(notes))

    def add_facts(self, entry: Entry, part: MessagePart, messages: range, builder: MessageBuilder) -> None:
        """Note whether the model still has it, and whether it is the summary of all before."""
        if part.role is None:
            return
        value = _parse_entry(entry)
        hidden = not is_visible(value, "agentVisible")
        if (
            messages
            and part.role == Role.USER
            and part.is_injected
            and not part.has_results
            and self._hidden
            and not self._has_visible
        ):
            self._summaries.append(messages.start)
            builder.facts.flags[messages.start] |= MessageFlag.SUMMARY
            for block in builder.facts.blocks_of(messages.start):
                builder.facts.block_flags[block] &= ~BlockFlag.INJECTED
        if messages:
            self._hidden.append(hidden)
        self._has_visible |= not hidden
        if part.role == Role.ASSISTANT and messages and part.blocks:
            self._newest_reply = messages.start

    def finish(self, about: Mapping[str, Any], builder: MessageBuilder) -> list[set[int]]:
        """Take the compactions anew, leave out what is hidden without one, and take the session's tokens."""
        facts = builder.facts
        summaries = ((message, Spans(range(message, message + 1))) for message in self._summaries)
        replace_compactions(facts, (Compaction(message, "full", prefix=prefix) for message, prefix in summaries))
        for message in order_at(facts, len(facts))[1]:
            if self._hidden[message]:
                facts.flags[message] |= MessageFlag.NOT_SENT
        usage, _ = parse_usage_or_note(_parse_usage, about)
        if usage and self._newest_reply >= (self._summaries[-1] if self._summaries else 0):
            replace_usage(facts, usage, self._newest_reply)
        return []


def is_visible(value: Mapping[str, Any], to: str) -> bool:
    """Whether a message is there for the model (``agentVisible``) or for the user; without a word it is for both."""
    metadata = value.get("metadata")
    return not isinstance(metadata, dict) or metadata.get(to) is not False


def _parse_entry(entry: Entry) -> dict[str, Any]:
    assert entry.texts is not None
    value = loads(entry.texts[0])
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    if is_nested_deeper(value):
        raise ValueError("nested too deeply")
    return value


def _parse_block(kind: str, value: dict[str, Any]) -> Block | None:
    """Content as a block; None where it is of no known type."""
    match kind:
        case "text":
            return {"type": "text", "text": value.get("text")}
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


def _parse_call(value: dict[str, Any]) -> Block:
    """A call; one that the model made badly has no name, and says what was wrong."""
    made: Any = value.get("toolCall")
    made = made if isinstance(made, dict) else {}
    called: Any = made.get("value")
    called = called if isinstance(called, dict) else {}
    given = called.get("arguments")
    arguments = given if isinstance(given, dict) else {}
    if made.get("status") == "error":
        arguments = {"error": parse_id(made.get("error"))}
    return {
        "type": "tool_use",
        "id": parse_id(value.get("id")),
        "name": parse_id(called.get("name")),
        "input": arguments,
    }


def _parse_result(value: dict[str, Any]) -> Block:
    """What a call gave, as far as it is for the model: an older list of content, or an MCP result."""
    result: Block = {"type": "tool_result", "tool_use_id": parse_id(value.get("id"))}
    given: Any = value.get("toolResult")
    given = given if isinstance(given, dict) else {}
    if given.get("status") == "error":
        return {**result, "content": parse_id(given.get("error")), "is_error": True}
    body: Any = given.get("value")
    failed = isinstance(body, dict) and body.get("isError") is True
    body = body.get("content") if isinstance(body, dict) else body
    parts = [_parse_result_content(part) for part in body if _is_for_model(part)] if isinstance(body, list) else []
    return {**result, "content": parts, **({"is_error": True} if failed else {})}


def _is_for_model(part: Any) -> bool:
    annotations = part.get("annotations") if isinstance(part, dict) else None
    audience = annotations.get("audience") if isinstance(annotations, dict) else None
    return not isinstance(audience, list) or not audience or "assistant" in audience


def _parse_result_content(part: Any) -> Any:
    if isinstance(part, dict) and part.get("type") == "image":
        return _parse_image(part)
    resource = part.get("resource") if isinstance(part, dict) else None
    if isinstance(resource, dict) and isinstance(text := resource.get("text"), str):
        return {"type": "text", "text": text}
    if isinstance(part, dict) and part.get("type") == "text":
        return {"type": "text", "text": parse_id(part.get("text"))}
    return part


def _parse_image(value: dict[str, Any]) -> Block:
    source = {"type": "base64", "media_type": parse_id(value.get("mimeType")), "data": parse_id(value.get("data"))}
    return {"type": "image", "source": source}


def _parse_usage(about: Mapping[str, Any]) -> Usage | None:
    """The tokens of the session's newest request; where its parts are not told, all of them are taken for input.

    Raises:
        ValueError: a size is none; the message names it.
    """
    names = ("input_tokens", "output_tokens", "total_tokens")
    given, made, total = (parse_tokens(about.get(name), name) for name in names)
    return Usage(fresh=given or total, output=made if given else 0) if given or total else None
