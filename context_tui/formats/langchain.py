"""Read LangChain messages in three notations. Their JSON is parsed, but the objects it describes are not created.

The notations are ``{"type", "data"}`` of ``messages_to_dict``, ``{"lc", "type": "constructor", "kwargs"}`` of ``dumpd``
(``id`` names the type of the message), and flat objects of ``model_dump``. A file may hold single messages, a list,
states or checkpoints of LangGraph, or a run of LangSmith, whose output is the reply.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from context_tui.formats.base import ALL_FROM_SOURCE, Claim
from context_tui.formats.kit import documents
from context_tui.formats.kit.blocks import Block, build_tool_result, build_tool_use, parse_image_url
from context_tui.formats.kit.document_scanner import DocumentFormat, DocumentShape
from context_tui.formats.kit.heads import parse_first_values
from context_tui.formats.kit.message_builder import (
    FullCompactionRecord,
    MessageBuilder,
    MessageRecord,
    MetadataRecord,
    ParsedRecord,
)
from context_tui.formats.kit.usage import (
    make_cached_usage,
    parse_anthropic_usage,
    parse_openai_usage,
    parse_token_count,
)
from context_tui.formats.kit.values import (
    as_list,
    as_object,
    as_text,
    list_objects,
    parse_blocks,
    parse_id,
    parse_usage_or_note,
)
from context_tui.formats.openai.reader import FunctionCalls, parse_call, parse_content_part
from context_tui.session.facts import Usage
from context_tui.session.values import MessageFlag, Role
from context_tui.text.sanitize import truncate_name

ROLES = {
    **{"human": Role.USER, "HumanMessage": Role.USER, "HumanMessageChunk": Role.USER},
    **{"ai": Role.ASSISTANT, "AIMessage": Role.ASSISTANT, "AIMessageChunk": Role.ASSISTANT},
    **{"system": Role.SYSTEM, "SystemMessage": Role.SYSTEM, "SystemMessageChunk": Role.SYSTEM},
    **{"tool": Role.USER, "ToolMessage": Role.USER, "ToolMessageChunk": Role.USER},
    **{"function": Role.USER, "FunctionMessage": Role.USER, "FunctionMessageChunk": Role.USER},
    **{"chat": Role.USER, "ChatMessage": Role.USER, "ChatMessageChunk": Role.USER},
}
TOOL_MESSAGE_TYPES = ("tool", "ToolMessage", "ToolMessageChunk", "function", "FunctionMessage", "FunctionMessageChunk")
REMOVAL_TYPES = ("remove", "RemoveMessage")
WRAPPER_KEYS = ("values", "checkpoint", "channel_values", "outputs", "output")
"""Members of states, checkpoints and runs that may hold the messages."""
MAX_WRAPPING_DEPTH = 5
MESSAGE_LISTS = documents.MessageLists(
    keys=("messages",), required_keys=("type",), excluded_keys=("messages", "parentUuid", "sessionId")
)


class LangChainShape(DocumentShape):
    """Parser for LangChain messages in any of the three notations. A tool call that is recorded twice counts once."""

    def __init__(self) -> None:
        self._keys: dict[str, None] = {}  # keys of the messages in the context, in order
        self._functions = FunctionCalls()
        self._elements: list[documents.Element] = []

    def read_metadata(self, run: documents.Run, builder: MessageBuilder) -> None:
        """Record that input tokens include cached ones for every provider. A dump has no other metadata."""
        builder.facts.input_includes_cache = True
        self._elements = run.elements

    def parse(self, value: Any, place: int) -> ParsedRecord:
        if not isinstance(value, dict):
            raise ValueError("not a message: not a JSON object")
        kind, data = _normalize_message(value)
        key = parse_id(data.get("id")) or f"place {place}"
        if kind in REMOVAL_TYPES:
            if self._is_removal(place + 1):
                return MetadataRecord()
            return FullCompactionRecord("RemoveMessage", context=(), has_summary=False)
        if kind not in ROLES:
            raise ValueError(f"not a message: unknown type {kind[:40]!r}")
        if kind in TOOL_MESSAGE_TYPES:
            function = kind.lower().startswith("function")
            call_id = self._functions.find_call_id(place) if function else parse_id(data.get("tool_call_id"))
            content = _parse_result_body(data.get("content"))
            block = build_tool_result(call_id, content, is_error=data.get("status") == "error")
            return MessageRecord(Role.USER, [block], has_results=True, key=key)
        blocks = [new_block for each in parse_blocks(data.get("content")) if (new_block := _parse_block(each))]
        additional_members = as_object(data.get("additional_kwargs"))
        role = ROLES[kind]
        if kind.lower().startswith("chat") and data.get("role") in ("assistant", "ai"):
            role = Role.ASSISTANT
        if role != Role.ASSISTANT:
            summary = additional_members.get("lc_source") == "summarization"
            flags = int(MessageFlag.SUMMARY) if summary else 0
            return MessageRecord(role, blocks, flags=flags, is_injected=summary, key=key)
        metadata = as_object(data.get("response_metadata"))
        usage, notes = parse_usage_or_note(_parse_usage_metadata, data.get("usage_metadata"))
        if usage is None and not notes:  # as reported by the provider
            usage, notes = parse_usage_or_note(parse_openai_usage, metadata.get("token_usage"))
        if usage is None and not notes:
            usage, notes = parse_usage_or_note(_parse_provider_usage, metadata.get("usage"))
        model = truncate_name(as_text(metadata.get("model_name") or metadata.get("model")))
        reply_blocks = self._build_assistant_blocks(blocks, data, additional_members, place)
        return MessageRecord(role, reply_blocks, usage=usage, notes=notes, model=model, key=key)

    def resolve_in_order(self, value: Any, parsed: ParsedRecord) -> ParsedRecord:
        """Return *parsed*. The last of consecutive removals begins a new context without the removed messages."""
        if isinstance(parsed, MessageRecord):
            self._keys[parsed.key] = None
            return parsed
        removed_id = parse_id(_normalize_message(value)[1].get("id"))
        if removed_id == "__remove_all__":
            self._keys.clear()
        self._keys.pop(removed_id, None)
        return replace(parsed, context=tuple(self._keys)) if isinstance(parsed, FullCompactionRecord) else parsed

    def _is_removal(self, place: int) -> bool:
        try:
            value = documents.decode_element(self._elements[place]) if place < len(self._elements) else None
            return isinstance(value, dict) and _normalize_message(value)[0] in REMOVAL_TYPES
        except ValueError:
            return False

    def _build_assistant_blocks(
        self, blocks: list[Block], data: dict[str, Any], additional_members: dict[str, Any], place: int
    ) -> list[Block]:
        known_ids = {parse_id(block.get("id")) for block in blocks if block.get("type") == "tool_use"}
        thought = additional_members.get("reasoning_content")
        if isinstance(thought, str) and thought and all(block.get("type") != "thinking" for block in blocks):
            blocks = [{"type": "thinking", "thinking": thought}, *blocks]
        calls: list[Block] = []
        sources = ((data, "tool_calls"), (data, "invalid_tool_calls"), (additional_members, "tool_calls"))
        listed = (call for members, name in sources for call in list_objects(members.get(name)) if "lc" not in call)
        for call in listed:
            call_id = parse_id(call.get("id"))
            if call_id not in known_ids or not call_id:
                if call in calls or (not call_id and calls):  # the provider's copy of a call without an id
                    continue
                known_ids.add(call_id)
                calls.append(parse_call(call, call_id) if "function" in call else _build_tool_use(call, call_id))
        if isinstance(function := additional_members.get("function_call"), dict) and not calls:
            calls = [parse_call({"function": function}, self._functions.make_call_id(place))]
        texts = [block for block in blocks if block != {"type": "text", "text": ""}] if calls else blocks
        return [*texts, *calls]


def _normalize_message(value: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    if value.get("type") == "constructor":
        path, members = value.get("id"), value.get("kwargs")
        kind = path[-1] if isinstance(path, list) and path else ""
        if not (isinstance(kind, str) and "Message" in kind):  # a class, not one of the short names
            raise ValueError(f"not a message: a constructor of {str(kind)[:40]!r}")
    else:
        kind, members = value.get("type"), value.get("data", value)
    return as_text(kind), as_object(members)


def _is_message(value: dict[str, Any]) -> bool:
    if value.get("type") == "constructor":
        path = value.get("id")
        return value.get("lc") == 1 and isinstance(path, list) and bool(path) and "Message" in str(path[-1])
    kind, data = _normalize_message(value)
    is_own_type = kind in ROLES and kind != "chat" and not {"session_id", "sessionId", "uuid", "role"} & value.keys()
    return is_own_type and "content" in data


def _build_tool_use(call: dict[str, Any], call_id: str) -> Block:
    arguments = call.get("args")
    return build_tool_use(call_id, parse_id(call.get("name")), {} if arguments is None else arguments)


def _parse_block(part: Block) -> Block | None:
    match part:
        case {"type": "tool_call"}:
            return _build_tool_use(part, parse_id(part.get("id")))
        case {"type": "function_call"} | {"type": "invalid_tool_call"} | {"type": "tool_call_chunk"}:
            return None
        case {"type": "reasoning", "reasoning": str() as thought}:
            return {"type": "thinking", "thinking": thought}
        case {"base64": str() as data} | {"source_type": "base64", "data": str() as data} if (
            part.get("type") == "image"
        ):
            kind = part.get("mime_type")
            return parse_image_url(f"data:{kind if isinstance(kind, str) else 'image/png'};base64,{data}")
        case {"type": "image", "url": str() as url}:
            return parse_image_url(url)
    return parse_content_part(part)


def _parse_result_body(content: Any) -> Any:
    if isinstance(content, list):
        return [_parse_block(each) or each if isinstance(each, dict) else each for each in content]
    return content


def _parse_provider_usage(value: Any) -> Usage | None:
    if isinstance(value, dict) and "prompt_tokens" in value:
        return parse_openai_usage(value)
    return parse_anthropic_usage(value)


def _parse_usage_metadata(value: Any) -> Usage | None:
    if not isinstance(value, dict) or "input_tokens" not in value:
        return None
    details = as_object(value.get("input_token_details"))
    read, written = parse_token_count(details, "cache_read"), parse_token_count(details, "cache_creation")
    input_tokens, output = (parse_token_count(value, name) for name in ("input_tokens", "output_tokens"))
    return make_cached_usage(input_tokens, read, written, output)


def _unwrap_state(element: documents.Element) -> documents.Element:
    for _ in range(MAX_WRAPPING_DEPTH):
        members = documents.decode_members(element)
        name = next((each for each in WRAPPER_KEYS if each in (members or {})), None)
        if members is None or "messages" in members or name is None or documents.decode_members(members[name]) is None:
            break
        if name == "outputs" and (replied := _parse_run_messages(members)) is not None:
            return {"messages": replied}
        element = members[name]
    members = documents.decode_members(element) or {}
    batch = documents.decode_items(members.get("messages")) or []
    inner = documents.decode_items(batch[0]) if len(batch) == 1 else None  # messages in a batch of one
    return {**members, "messages": inner} if inner is not None else element


def _parse_run_messages(run: dict[str, documents.Element]) -> list[documents.Element] | None:
    """Return the messages in a run's input, then its reply, or None if its output is not a model's reply."""
    batch = documents.decode_items((documents.decode_members(run["outputs"]) or {}).get("generations"))
    state = documents.decode_members(_unwrap_state(run.get("inputs"))) or {}
    messages = documents.decode_items(state.get("messages"))
    if not batch or messages is None:
        return None
    replies = documents.decode_items(batch[0]) or []
    reply_messages = [(documents.decode_members(each) or {}).get("message") for each in replies[:1]]
    return [*messages, *(each for each in reply_messages if each is not None)]


class LangChainFormat(DocumentFormat):
    """The format of dumped LangChain messages."""

    name: ClassVar[str] = "langchain"
    about: ClassVar[str] = "LangChain messages, LangGraph states, LangSmith runs (JSON, JSONL), parsed and never loaded"
    from_source: ClassVar[str] = ALL_FROM_SOURCE
    shape = LangChainShape
    needs_lookahead: ClassVar[bool] = True

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        value = next(iter(parse_first_values(head)), None)
        if isinstance(value, list) and value and not MESSAGE_LISTS.is_element(value[0]):
            value = value[0]  # the newest of several states
        message = _unwrap_state(value)
        if isinstance(message, dict) and "messages" in message:
            message = next(iter(as_list(message["messages"])), None)
        message = next(iter(message), None) if isinstance(message, list) else message
        return Claim(90, "messages of LangChain") if isinstance(message, dict) and _is_message(message) else None

    def find_runs(self, values: list[documents.Element]) -> list[documents.Run]:
        if len(values) == 1 and (elements := documents.decode_items(values[0])) is not None:
            if any(map(MESSAGE_LISTS.is_element, elements[: documents.MAX_CHECKED_ELEMENTS])):
                return documents.find_runs(elements, MESSAGE_LISTS)
            values = elements  # several states, newest first
        states = [_unwrap_state(each) for each in values]
        if len(states) == 1 and "messages" not in (documents.decode_members(states[0]) or {"messages": 0}):
            states = [states]  # a single message
        return documents.find_runs(states, MESSAGE_LISTS)
