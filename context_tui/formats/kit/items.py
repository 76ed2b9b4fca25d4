"""Items of OpenAI's Responses API as parts of messages: requests, responses and Codex rollouts are made of them."""

from __future__ import annotations

from typing import Any

from context_tui.formats.kit.arguments import RAW, input_of
from context_tui.formats.kit.message_builder import Part
from context_tui.formats.kit.values import as_id, image_of
from context_tui.session.jsontext import compact_text
from context_tui.session.validation import truncate_name
from context_tui.session.values import MessageFlag, Role

Item = dict[str, Any]
Block = dict[str, Any]

ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM, "developer": Role.SYSTEM}
CALLS = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "tool_search_call": "arguments",
    "local_shell_call": "action",
    "shell_call": "action",
    "computer_call": "action",
    "apply_patch_call": "operation",
}
"""Types of calls that the client answers, and the member that says what is asked for."""
OUTPUTS = {
    "function_call_output": "output",
    "custom_tool_call_output": "output",
    "tool_search_output": "tools",
    "local_shell_call_output": "output",
    "shell_call_output": "output",
    "computer_call_output": "output",
    "apply_patch_call_output": "output",
}
"""Types of answers, and the member that holds them."""
HOSTED = frozenset(
    {
        *("web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call"),
        *("mcp_list_tools", "mcp_approval_request", "item_reference"),
    }
)
"""What the provider did or keeps itself: the size of what the model has of it is unknown."""
COMPACTIONS = frozenset({"compaction", "compaction_summary", "context_compaction"})
"""What stands, encrypted, for everything before it."""
METADATA = frozenset({"ghost_snapshot", "compaction_trigger"})
"""What clients keep among the items and no model sees."""
TEXT_PARTS = ("input_text", "output_text", "text", "summary_text", "reasoning_text")


def is_item(value: Any) -> bool:
    """Whether a value is an item that nothing but this API has."""
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(kind, str):
        return False
    content = value.get("content")
    if kind == "message":
        parts = content if isinstance(content, list) else []
        return any(isinstance(part, dict) and part.get("type") in ("input_text", "output_text") for part in parts)
    return "role" not in value and (kind == "reasoning" or kind in (*CALLS, *OUTPUTS, "web_search_call"))


def item_part(item: Any) -> Part:
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
            raise ValueError(f"not a message: unknown role {truncate_name(as_id(role), 40)!r}")
        return Part(ROLES[role], _blocks(item.get("content")))
    if kind == "reasoning":
        return Part(Role.ASSISTANT, [_thinking(item)])
    if kind in CALLS and (call_id := item.get("call_id") or (item.get("id") if kind == "local_shell_call" else None)):
        return Part(Role.ASSISTANT, [_call(item, kind, as_id(call_id))])
    if kind in OUTPUTS and item.get("call_id"):
        return Part(Role.USER, [_result(item, kind)], results=True)
    if kind in HOSTED or kind in CALLS or kind in OUTPUTS:
        return Part(Role.ASSISTANT, [item])
    if kind in COMPACTIONS:
        return Part(Role.USER, [item], injected=True, flags=MessageFlag.SUMMARY)
    if kind == "additional_tools":
        return Part(Role.SYSTEM, [{"type": "text", "text": compact_text(item.get("tools"))}], injected=True)
    if kind == "agent_message":
        return Part(Role.USER, _blocks(item.get("content")), injected=True)
    if kind in METADATA:
        return Part()
    raise ValueError(f"unknown type of item {truncate_name(kind, 40)!r}")


def known_items(items: Any) -> tuple[list[Item], list[str]]:
    """The items of a response that are known, and what is wrong with the others."""
    known, wrong = list[Item](), list[str]()
    for item in items if isinstance(items, list) else []:
        try:
            item_part(item)
            known.append(item)
        except ValueError as error:
            wrong.append(str(error))
    return known, wrong


def reply_part(items: Any) -> Part:
    """What the items of a response say together; notes say which are not known."""
    known, notes = known_items(items)
    blocks = [block for item in known for block in item_part(item).blocks]
    return Part(Role.ASSISTANT if blocks else None, blocks, notes=tuple(notes))


class Replies:
    """Puts the items of one response together: those of the assistant with nothing else between them."""

    def __init__(self) -> None:
        self._number = 0
        self._open = False

    def id_of(self, part: Part) -> str:
        """The id of the response that a part is of; nothing for one of a user. Parts are asked for in their order."""
        if part.role == Role.ASSISTANT:
            self._number += not self._open
            self._open = True
            return f"response {self._number}"
        self._open &= part.role is None
        return ""

    def end(self) -> None:
        """The response is at its end."""
        self._open = False


def _blocks(content: Any) -> list[Block]:
    parts = content if isinstance(content, list) else [] if content is None else [content]
    return [_block(part) for part in parts]


def _block(part: Any) -> Block:
    """A content part as a block; what has no counterpart stays as it is, unknown to every estimator."""
    if not isinstance(part, dict):
        return {"type": "text", "text": part} if isinstance(part, str) else {"type": "unknown", "value": part}
    kind = part.get("type")
    if kind in TEXT_PARTS and isinstance(text := part.get("text"), str):
        return {"type": "text", "text": text}
    if kind in ("input_image", "image_url", "computer_screenshot"):
        url = part.get("image_url")
        if isinstance(url := url.get("url") if isinstance(url, dict) else url, str):
            return image_of(url)
        return {"type": "image", "source": {"type": "file", "file_id": as_id(part.get("file_id"))}}
    return part


def _thinking(item: Item) -> Block:
    """Reasoning as thinking: its text, where it is open, and its summary; nothing where all of it is encrypted."""
    texts = (block.get("text") for name in ("content", "summary") for block in _blocks(item.get(name)))
    return {"type": "thinking", "thinking": "\n\n".join(text for text in texts if isinstance(text, str))}


def _call(item: Item, kind: str, call_id: str) -> Block:
    given = item.get(CALLS[kind])
    arguments = {RAW: given} if kind == "custom_tool_call" and isinstance(given, str) else input_of(given)
    return {"type": "tool_use", "id": call_id, "name": _name(item, kind), "input": arguments}


def _name(item: Item, kind: str) -> str:
    name, space = item.get("name"), item.get("namespace")
    if not isinstance(name, str) or not name:
        return kind.removesuffix("_call")
    return f"{space.removesuffix('__')}__{name}" if isinstance(space, str) and space else name


def _result(item: Item, kind: str) -> Block:
    body, failed = item.get(OUTPUTS[kind]), False
    if isinstance(body, dict) and "content" in body:  # as Codex once kept it, with whether it went well
        body, failed = body["content"], body.get("success") is False
    if isinstance(body, list) and kind != "tool_search_output":
        content: Any = _blocks(body)
    elif isinstance(body, dict) and body.get("type") == "computer_screenshot":
        content = [_block(body)]
    else:
        content = body if isinstance(body, str) else "" if body is None else compact_text(body)
    block = {"type": "tool_result", "tool_use_id": as_id(item.get("call_id")), "content": content}
    return {**block, "is_error": True} if failed else block
