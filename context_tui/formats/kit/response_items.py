"""Parse and write the items that OpenAI's Responses API uses in requests, responses and Codex rollouts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from context_tui.formats.kit import blocks as kit_blocks
from context_tui.formats.kit.message_builder import MessageRecord, MetadataRecord, ParsedRecord
from context_tui.formats.kit.values import as_list, as_object, as_text, list_objects, parse_id
from context_tui.formats.kit.writing import convert_arguments, convert_body_blocks, list_injected
from context_tui.session.blocks import is_block_list, replace_texts
from context_tui.session.jsontext import compact_text
from context_tui.session.losses import Losses
from context_tui.session.memory import Origin, find_origin
from context_tui.session.session import Session
from context_tui.session.values import MessageFlag, Role
from context_tui.text.sanitize import truncate_name

Item = dict[str, Any]

ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM, "developer": Role.SYSTEM}
CALL_ARGUMENT_KEYS = {
    **dict.fromkeys(("function_call", "tool_search_call"), "arguments"),
    **dict.fromkeys(("local_shell_call", "shell_call", "computer_call"), "action"),
    **{"custom_tool_call": "input", "apply_patch_call": "operation"},
}
"""Member with the arguments, keyed by the type of a call that the client answers."""
CALL_OUTPUT_KEYS = {f"{kind}_output": "output" for kind in CALL_ARGUMENT_KEYS if kind != "tool_search_call"}
CALL_OUTPUT_KEYS["tool_search_output"] = "tools"
"""Member with the content, keyed by the type of a result."""
HOSTED_TYPES = frozenset(
    {
        *("web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call"),
        *("mcp_list_tools", "mcp_approval_request", "item_reference"),
    }
)
"""Types of items that the provider executes or stores: their size in the context is unknown."""
COMPACTION_TYPES = frozenset({"compaction", "compaction_summary", "context_compaction"})
"""Types of items that are encrypted summaries of all items before them."""
METADATA_TYPES = frozenset({"ghost_snapshot", "compaction_trigger"})
"""Types of items that clients record and that the model never sees."""
TEXT_PART_TYPES = ("input_text", "output_text", "text", "summary_text", "reasoning_text")


def is_item(value: Any) -> bool:
    """Return whether a value is an item in a form that occurs only in the Responses API."""
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(kind, str):
        return False
    if kind == "message":
        return any(part.get("type") in ("input_text", "output_text") for part in list_objects(value.get("content")))
    own_kinds = ("reasoning", *CALL_ARGUMENT_KEYS, *CALL_OUTPUT_KEYS, "web_search_call")
    return "role" not in value and kind in own_kinds


def parse_item(item: Any) -> MessageRecord | MetadataRecord:
    """Parse a single item, or raise ValueError if its type is unknown. A developer message gets the role system."""
    kind = item.get("type", "message" if "role" in item else None) if isinstance(item, dict) else None
    if not isinstance(kind, str):
        raise ValueError("not an item: no type and no role")
    if kind == "message":
        role = item.get("role")
        if not isinstance(role, str) or role not in ROLES:
            raise ValueError(f"not a message: unknown role {truncate_name(parse_id(role), 40)!r}")
        return MessageRecord(ROLES[role], _parse_blocks(item.get("content")))
    if kind == "reasoning":
        return MessageRecord(Role.ASSISTANT, [build_thinking(item)])
    call_id = item.get("call_id") or (item.get("id") if kind == "local_shell_call" else None)
    if kind in CALL_ARGUMENT_KEYS and call_id:
        return MessageRecord(Role.ASSISTANT, [_build_tool_use(item, kind, parse_id(call_id))])
    if kind in CALL_OUTPUT_KEYS and item.get("call_id"):
        return MessageRecord(Role.USER, [_build_tool_result(item, kind)], has_results=True)
    if kind in HOSTED_TYPES or kind in CALL_ARGUMENT_KEYS or kind in CALL_OUTPUT_KEYS:
        return MessageRecord(Role.ASSISTANT, [item])
    if kind in COMPACTION_TYPES:
        return MessageRecord(Role.USER, [item], is_injected=True, flags=MessageFlag.SUMMARY)
    if kind == "additional_tools":
        return MessageRecord(Role.SYSTEM, [kit_blocks.build_text(compact_text(item.get("tools")))], is_injected=True)
    if kind == "agent_message":
        return MessageRecord(Role.USER, _parse_blocks(item.get("content")), is_injected=True)
    if kind in METADATA_TYPES:
        return MetadataRecord()
    raise ValueError(f"unknown type of item {truncate_name(kind, 40)!r}")


def filter_known_items(items: Any) -> tuple[list[Item], list[str]]:
    """Return the items in a response whose type is known, and one problem for each other item."""
    known_items, problems = list[Item](), list[str]()
    for item in as_list(items):
        try:
            parse_item(item)
            known_items.append(item)
        except ValueError as error:
            problems.append(str(error))
    return known_items, problems


def parse_response_items(items: Any) -> MessageRecord | MetadataRecord:
    """Return a response's items as one assistant message, or as metadata if they have no blocks, with notes."""
    known_items, notes = filter_known_items(items)
    parsed = map(parse_item, known_items)
    blocks = [block for each in parsed if isinstance(each, MessageRecord) for block in each.blocks]
    return MessageRecord(Role.ASSISTANT, blocks, notes=tuple(notes)) if blocks else MetadataRecord(notes=tuple(notes))


class ResponseGrouping:
    """Assigns items to responses: consecutive assistant items belong to the same response."""

    def __init__(self) -> None:
        self._number = 0
        self._open = False

    def assign_response_id(self, record: ParsedRecord) -> str:
        """Return the id of a record's response, or "" if it is not from the assistant. Pass the records in order."""
        if isinstance(record, MessageRecord) and record.role == Role.ASSISTANT:
            self._number += not self._open
            self._open = True
            return f"response {self._number}"
        self._open &= not isinstance(record, MessageRecord)
        return ""

    def end_response(self) -> None:
        """End the current response, so that the next assistant item starts a new one."""
        self._open = False


def _parse_blocks(content: Any) -> list[kit_blocks.Block]:
    parts = content if isinstance(content, list) else [] if content is None else [content]
    return [_parse_block(part) for part in parts]


def _parse_block(part: Any) -> kit_blocks.Block:
    """Convert a content part to a block. A part of another type stays unchanged, and its size is unknown."""
    if not isinstance(part, dict):
        return kit_blocks.build_text(part) if isinstance(part, str) else {"type": "unknown", "value": part}
    kind = part.get("type")
    if kind in TEXT_PART_TYPES and isinstance(text := part.get("text"), str):
        return kit_blocks.build_text(text)
    if kind in ("input_image", "image_url", "computer_screenshot"):
        url = part.get("image_url")
        if isinstance(url := url.get("url") if isinstance(url, dict) else url, str):
            return kit_blocks.parse_image_url(url)
        return {"type": "image", "source": {"type": "file", "file_id": parse_id(part.get("file_id"))}}
    return part


def build_thinking(item: Item) -> kit_blocks.Block:
    """Build a thinking block from a reasoning item's text and summary, with "" as text if all of it is encrypted."""
    texts = (block.get("text") for name in ("content", "summary") for block in _parse_blocks(item.get(name)))
    return {"type": "thinking", "thinking": "\n\n".join(text for text in texts if isinstance(text, str))}


def _build_tool_use(item: Item, kind: str, call_id: str) -> kit_blocks.Block:
    value, name, namespace = item.get(CALL_ARGUMENT_KEYS[kind]), item.get("name"), item.get("namespace")
    is_free_text = kind == "custom_tool_call" and isinstance(value, str)
    arguments = {kit_blocks.RAW_ARGUMENTS_KEY: value} if is_free_text else kit_blocks.parse_arguments(value)
    if not isinstance(name, str) or not name:
        name = kind.removesuffix("_call")
    elif isinstance(namespace, str) and namespace:
        name = f"{namespace.removesuffix('__')}__{name}"
    return kit_blocks.build_tool_use(call_id, name, arguments)


def _build_tool_result(item: Item, kind: str) -> kit_blocks.Block:
    body, failed = item.get(CALL_OUTPUT_KEYS[kind]), False
    if isinstance(body, dict) and "content" in body:  # as recorded by old versions of Codex
        body, failed = body["content"], body.get("success") is False
    if isinstance(body, list) and kind != "tool_search_output":
        content: Any = _parse_blocks(body)
    elif isinstance(body, dict) and body.get("type") == "computer_screenshot":
        content = [_parse_block(body)]
    else:
        content = body if isinstance(body, str) else "" if body is None else compact_text(body)
    return kit_blocks.build_tool_result(parse_id(item.get("call_id")), content, is_error=failed)


ItemReader = Callable[[Origin], list[Item] | None]
"""Function that returns the items from which a message was read; None for a message of another format."""

UNSUPPORTED_BLOCKS_LOSS = "blocks left out that the Responses API cannot hold"
THINKING_LOSS = "thinking left out, which only its own provider can read"
SUMMARY_LOSS = "summaries left out that were not in the file"


class WrittenItem(NamedTuple):
    """An item to write, and whether it is a message that a person typed."""

    item: Item
    is_typed: bool


class ItemWriter:
    """Converts one session's messages to items, in order."""

    def __init__(self, session: Session, losses: Losses, read_items: ItemReader) -> None:
        self._session, self._losses, self._read_items = session, losses, read_items
        self._custom: set[str] = set()  # ids of calls whose argument is free text

    def write_message(self, message: int, *, as_user: bool = False) -> list[WrittenItem]:
        """Return the items for a message. With *as_user*, none of its text is attributed to the assistant."""
        origin = find_origin(self._session, message)
        facts = self._session.facts
        injected = list_injected(facts, facts.blocks_of(message))
        by_assistant = facts.role[message] == Role.ASSISTANT and not as_user
        if isinstance(origin, Origin) and (items := self._read_items(origin)) is not None:
            return list(self._reuse_items(origin, items, injected, by_assistant))
        return list(self._build_items(self._session.content.blocks(message), injected, by_assistant))

    def _reuse_items(
        self, origin: Origin, items: list[Item], injected: list[bool], by_assistant: bool
    ) -> Iterator[WrittenItem]:
        """Yield the recorded items; an item with a changed or removed block is built again from its blocks."""
        first_block = first_remaining = 0
        for item in items:
            record = parse_item(item)
            blocks = record.blocks if isinstance(record, MessageRecord) else []
            numbers = range(len(blocks))
            bodies = {n: origin.texts[first_block + n] for n in numbers if first_block + n in origin.texts}
            first_block += len(blocks)
            remaining = replace_texts(blocks, bodies)
            flags = injected[first_remaining : first_remaining + len(remaining)]
            first_remaining += len(remaining)
            if not bodies:
                if item.get("type") == "custom_tool_call":
                    self._custom.add(str(item.get("call_id")))
                typed = isinstance(record, MessageRecord) and record.role == Role.USER and not all(flags)
                yield WrittenItem(item, typed and blocks[0].get("type") != "tool_result")
            elif remaining:
                yield from self._build_items(remaining, flags, by_assistant)

    def _build_items(
        self, blocks: list[kit_blocks.Block], injected: list[bool], by_assistant: bool
    ) -> Iterator[WrittenItem]:
        """Yield items built from blocks: first the results, then the rest, with adjacent content of one role merged."""
        results = [block for block in blocks if block.get("type") == "tool_result"]
        flagged = zip(blocks, injected, strict=True)
        other_blocks = [(block, is_injected) for block, is_injected in flagged if block not in results]
        for block in results:
            yield WrittenItem(self._build_call_output(block), False)
        self._losses.add("messages with results and text split into two", bool(results and other_blocks))
        content: list[Item] = []
        role = ""
        for block, is_injected in other_blocks:
            next_role = "assistant" if by_assistant else "developer" if is_injected else "user"
            part = self._build_content_part(block, by_assistant)
            if content and (next_role != role or part is None):
                yield WrittenItem(_build_message(role, content), role == "user")
                content = []
            role = next_role
            if part is not None:
                content.append(part)
            elif (item := self._build_item(block)) is not None:
                yield WrittenItem(item, False)
        if content:
            yield WrittenItem(_build_message(role, content), role == "user")

    def _build_content_part(self, block: kit_blocks.Block, by_assistant: bool) -> Item | None:
        kind = block.get("type")
        if kind == "text":
            return {"type": "output_text" if by_assistant else "input_text", "text": str(block.get("text") or "")}
        if kind == "refusal" and by_assistant:
            return {"type": "refusal", "refusal": block.get("refusal")}
        if kind in ("image", "input_file") and not by_assistant:
            return build_image_part(block) if kind == "image" else block
        return None

    def _build_item(self, block: kit_blocks.Block) -> Item | None:
        kind = block.get("type")
        if kind == "tool_use":
            return self._build_call(block)
        if kind in HOSTED_TYPES or (kind in COMPACTION_TYPES and block.get("encrypted_content")):
            return block
        loss = THINKING_LOSS if kind in ("thinking", "redacted_thinking") else UNSUPPORTED_BLOCKS_LOSS
        self._losses.omit(SUMMARY_LOSS if kind in COMPACTION_TYPES else loss, block)
        return None

    def _build_call(self, block: kit_blocks.Block) -> Item:
        call_id, name = str(block.get("id") or ""), str(block.get("name") or "")
        members, value = {"name": name, "call_id": call_id}, convert_arguments(block, self._losses)
        if (text := kit_blocks.get_raw_arguments(value)) is not None:
            self._custom.add(call_id)
            return {"type": "custom_tool_call", **members, "input": text}
        return {"type": "function_call", **members, "arguments": kit_blocks.format_arguments(value)}

    def _build_call_output(self, block: kit_blocks.Block) -> Item:
        body, call_id = block.get("content"), str(block.get("tool_use_id") or "")
        self._losses.add("results no longer marked as errors", bool(block.get("is_error")))
        output: Any = "" if body is None else body
        if is_block_list(body):
            convert = partial(self._build_content_part, by_assistant=False)
            output = convert_body_blocks(block, convert, self._losses, UNSUPPORTED_BLOCKS_LOSS)
        elif not isinstance(output, str):
            output = compact_text(output)
            self._losses.add("JSON results turned into text")
        kind = "custom_tool_call_output" if call_id in self._custom else "function_call_output"
        return {"type": kind, "call_id": call_id, "output": output}


def unsupported_reason(role: str, block: kit_blocks.Block) -> str:
    """Return why *block* cannot be sent in a message of *role*, or "" if it can."""
    kind, by_assistant = block.get("type"), role == "assistant"
    match kind:
        case "text" | "tool_use" | "tool_result" | "thinking":
            return ""
        case "redacted_thinking":
            return THINKING_LOSS
        case "refusal" if by_assistant:
            return ""
        case "image" | "input_file" if not by_assistant and (kind != "image" or build_image_part(block)):
            return ""
    if kind in COMPACTION_TYPES:
        return "" if block.get("encrypted_content") else SUMMARY_LOSS
    return "" if kind in HOSTED_TYPES and kind != "item_reference" else UNSUPPORTED_BLOCKS_LOSS


def build_image_part(block: kit_blocks.Block) -> Item | None:
    """Convert an image block to a content part, or return None if the image has no data, URL or file id."""
    source = as_object(block.get("source"))
    if isinstance(data := source.get("data"), str):
        return {"type": "input_image", "image_url": f"data:{source.get('media_type') or 'image/png'};base64,{data}"}
    for name, key in (("url", "image_url"), ("file_id", "file_id")):
        if text := as_text(source.get(name)):
            return {"type": "input_image", key: text}
    return None


def _build_message(role: str, content: list[Item]) -> Item:
    return {"type": "message", "role": role, "content": content}
