"""Writer of requests of the Responses API."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from context_tui.formats.codex.rollout import RolloutItems
from context_tui.formats.kit.document_scanner import DocumentContent
from context_tui.formats.kit.response_items import (
    HOSTED_TYPES,
    THINKING_LOSS,
    Block,
    Item,
    ItemWriter,
    build_thinking,
    filter_known_items,
)
from context_tui.formats.kit.writing import write_json
from context_tui.session.losses import Losses
from context_tui.session.memory import Origin
from context_tui.session.session import Session

SENDABLE_MEMBERS = frozenset(
    {
        *("type", "role", "content", "phase", "name", "namespace", "arguments", "input", "call_id", "output"),
        *("summary", "encrypted_content", "action", "operation", "status", "execution", "tools", "result"),
    }
)
"""Members of items that may be sent; ids refer to the provider's storage, other members are the client's own."""
_WITH_STATUS = ("local_shell_call", "tool_search_call", "tool_search_output", "web_search_call", "shell_call")


def find_items(origin: Origin, rollout: RolloutItems) -> list[Item] | None:
    """Return the items of a message that was read from a request, a response or a rollout; None for other messages."""
    content = origin.session.content
    if not isinstance(content, DocumentContent) or origin.session.info.format != "openai-responses":
        return rollout.find_items(origin)
    values = [content.decode_element(row) for row in content.facts.records_of(origin.message)]
    item_lists = (
        filter_known_items(value["output"])[0] if value.get("type") == "response" else [value] for value in values
    )
    return [item for items in item_lists for item in items]


def write_request(session: Session, path: Path) -> Losses:
    """Write model, instructions, items and tools; return the losses."""
    losses = Losses()
    writer = ItemWriter(session, losses, partial(find_items, rollout=RolloutItems()))
    items = [each.item for message in session.context_at().order for each in writer.write_message(message)]
    tools = session.content.tools()
    request = {
        **({"model": session.facts.model} if session.facts.model else {}),
        "instructions": session.content.system(),
        "input": [sendable for item in items if (sendable := _build_sendable_item(item, losses)) is not None],
        **({"tools": [*map(_build_tool, tools)]} if tools else {}),
        "store": False,
    }
    write_json(request, path)
    return losses


def _build_sendable_item(item: Item, losses: Losses) -> Item | None:
    """Build an item that may be sent; None for reasoning without its complete encrypted content."""
    kind = item.get("type")
    if kind == "reasoning" and not item.get("encrypted_content"):
        losses.omit(THINKING_LOSS, build_thinking(item))
        return None
    if kind in HOSTED_TYPES:
        return item
    status = kind in _WITH_STATUS
    return {name: value for name, value in item.items() if name in SENDABLE_MEMBERS and (status or name != "status")}


def _build_tool(tool: Block) -> Item:
    if not isinstance(tool.get("input_schema"), dict):
        return tool
    described = {"description": tool["description"]} if isinstance(tool.get("description"), str) else {}
    return {"type": "function", "name": str(tool.get("name") or ""), **described, "parameters": tool["input_schema"]}
