"""Items of OpenAI's Responses API as parts of messages: requests, responses and Codex rollouts are made of them."""

from __future__ import annotations

from typing import Any

from context_tui.formats.kit.arguments import RAW_ARGUMENTS_KEY, parse_arguments
from context_tui.formats.kit.message_builder import MessagePart
from context_tui.formats.kit.values import parse_id, parse_image_url
from context_tui.session.jsontext import compact_text
from context_tui.session.validation import truncate_name
from context_tui.session.values import MessageFlag, Role

Item = dict[str, Any]
Block = dict[str, Any]

ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM, "developer": Role.SYSTEM}
CALL_ARGUMENT_KEYS = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "tool_search_call": "arguments",
    "local_shell_call": "action",
    "shell_call": "action",
    "computer_call": "action",
    "apply_patch_call": "operation",
}
"""Types of calls that the client answers, and the member that says what is asked for."""
CALL_OUTPUT_KEYS = {
    "function_call_output": "output",
    "custom_tool_call_output": "output",
    "tool_search_output": "tools",
    "local_shell_call_output": "output",
    "shell_call_output": "output",
    "computer_call_output": "output",
    "apply_patch_call_output": "output",
}
"""Types of answers, and the member that holds them."""
HOSTED_TYPES = frozenset(
    {
        *("web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call"),
        *("mcp_list_tools", "mcp_approval_request", "item_reference"),
    }
)
"""What the provider did or keeps itself: the size of what the model has of it is unknown."""
COMPACTION_TYPES = frozenset({"compaction", "compaction_summary", "context_compaction"})
"""What stands, encrypted, for everything before it."""
METADATA_TYPES = frozenset({"ghost_snapshot", "compaction_trigger"})
"""What clients keep among the items and no model sees."""
TEXT_PART_TYPES = ("input_text", "output_text", "text", "summary_text", "reasoning_text")


def is_item(value: Any) -> bool:
    """Whether a value is an item that nothing but this API has."""
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(kind, str):
        return False
    content = value.get("content")
    if kind == "message":
        parts = content if isinstance(content, list) else []
        return any(isinstance(part, dict) and part.get("type") in ("input_text", "output_text") for part in parts)
    return "role" not in value and (
        kind == "reasoning" or kind in (*CALL_ARGUMENT_KEYS, *CALL_OUTPUT_KEYS, "web_search_call")
    )


def parse_item(item: Any) -> MessagePart:
    """What an item says, wherever it stands. A message of system or developer has that role.

    Raises:
        ValueError: it is no item, or of a type that is not known.
    """
    kind = item.get("type", "message" if "role" in item else None) if isinstance(item, dict) else None
    if not isinstance(kind, str):
        raise ValueError("not an item: no type and no role")
    if kind == "message":
        role = item.get("role")
        if not isinstance(role, str) or role not in ROLES:
            raise ValueError(f"not a message: unknown role {truncate_name(parse_id(role), 40)!r}")
        return MessagePart(ROLES[role], _parse_blocks(item.get("content")))
    if kind == "reasoning":
        return MessagePart(Role.ASSISTANT, [_build_thinking(item)])
    if kind in CALL_ARGUMENT_KEYS and (
        call_id := item.get("call_id") or (item.get("id") if kind == "local_shell_call" else None)
    ):
        return MessagePart(Role.ASSISTANT, [_build_tool_use(item, kind, parse_id(call_id))])
    if kind in CALL_OUTPUT_KEYS and item.get("call_id"):
        return MessagePart(Role.USER, [_build_tool_result(item, kind)], has_results=True)
    if kind in HOSTED_TYPES or kind in CALL_ARGUMENT_KEYS or kind in CALL_OUTPUT_KEYS:
        return MessagePart(Role.ASSISTANT, [item])
    if kind in COMPACTION_TYPES:
        return MessagePart(Role.USER, [item], is_injected=True, flags=MessageFlag.SUMMARY)
    if kind == "additional_tools":
        return MessagePart(Role.SYSTEM, [{"type": "text", "text": compact_text(item.get("tools"))}], is_injected=True)
    if kind == "agent_message":
        return MessagePart(Role.USER, _parse_blocks(item.get("content")), is_injected=True)
    if kind in METADATA_TYPES:
        return MessagePart()
    raise ValueError(f"unknown type of item {truncate_name(kind, 40)!r}")


def filter_known_items(items: Any) -> tuple[list[Item], list[str]]:
    """The items of a response that are known, and what is wrong with the others."""
    known, wrong = list[Item](), list[str]()
    for item in items if isinstance(items, list) else []:
        try:
            parse_item(item)
            known.append(item)
        except ValueError as error:
            wrong.append(str(error))
    return known, wrong


def parse_response_items(items: Any) -> MessagePart:
    """What the items of a response say together; notes say which are not known."""
    known, notes = filter_known_items(items)
    blocks = [block for item in known for block in parse_item(item).blocks]
    return MessagePart(Role.ASSISTANT if blocks else None, blocks, notes=tuple(notes))


class ResponseGrouping:
    """Puts the items of one response together: those of the assistant with nothing else between them."""

    def __init__(self) -> None:
        self._number = 0
        self._open = False

    def assign_response_id(self, part: MessagePart) -> str:
        """The id of the response that a part is of; nothing for one of a user. Parts are asked for in their order."""
        if part.role == Role.ASSISTANT:
            self._number += not self._open
            self._open = True
            return f"response {self._number}"
        self._open &= part.role is None
        return ""

    def end_response(self) -> None:
        """The response is at its end."""
        self._open = False


def _parse_blocks(content: Any) -> list[Block]:
    parts = content if isinstance(content, list) else [] if content is None else [content]
    return [_parse_block(part) for part in parts]


def _parse_block(part: Any) -> Block:
    """A content part as a block; what has no counterpart stays as it is, unknown to every estimator."""
    if not isinstance(part, dict):
        return {"type": "text", "text": part} if isinstance(part, str) else {"type": "unknown", "value": part}
    kind = part.get("type")
    if kind in TEXT_PART_TYPES and isinstance(text := part.get("text"), str):
        return {"type": "text", "text": text}
    if kind in ("input_image", "image_url", "computer_screenshot"):
        url = part.get("image_url")
        if isinstance(url := url.get("url") if isinstance(url, dict) else url, str):
            return parse_image_url(url)
        return {"type": "image", "source": {"type": "file", "file_id": parse_id(part.get("file_id"))}}
    return part


def _build_thinking(item: Item) -> Block:
    """Reasoning as thinking: its text, where it is open, and its summary; nothing where all of it is encrypted."""
    texts = (block.get("text") for name in ("content", "summary") for block in _parse_blocks(item.get(name)))
    return {"type": "thinking", "thinking": "\n\n".join(text for text in texts if isinstance(text, str))}


def _build_tool_use(item: Item, kind: str, call_id: str) -> Block:
    given = item.get(CALL_ARGUMENT_KEYS[kind])
    arguments = (
        {RAW_ARGUMENTS_KEY: given} if kind == "custom_tool_call" and isinstance(given, str) else parse_arguments(given)
    )
    return {"type": "tool_use", "id": call_id, "name": _parse_call_name(item, kind), "input": arguments}


def _parse_call_name(item: Item, kind: str) -> str:
    name, space = item.get("name"), item.get("namespace")
    if not isinstance(name, str) or not name:
        return kind.removesuffix("_call")
    return f"{space.removesuffix('__')}__{name}" if isinstance(space, str) and space else name


def _build_tool_result(item: Item, kind: str) -> Block:
    body, failed = item.get(CALL_OUTPUT_KEYS[kind]), False
    if isinstance(body, dict) and "content" in body:  # as Codex once kept it, with whether it went well
        body, failed = body["content"], body.get("success") is False
    if isinstance(body, list) and kind != "tool_search_output":
        content: Any = _parse_blocks(body)
    elif isinstance(body, dict) and body.get("type") == "computer_screenshot":
        content = [_parse_block(body)]
    else:
        content = body if isinstance(body, str) else "" if body is None else compact_text(body)
    block = {"type": "tool_result", "tool_use_id": parse_id(item.get("call_id")), "content": content}
    return {**block, "is_error": True} if failed else block
