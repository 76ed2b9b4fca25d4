"""OpenAI's Responses API: requests, responses, logs of both, or bare lists of items (JSON)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from context_tui.formats.base import ALL_FROM_SOURCE, Claim
from context_tui.formats.codex.rollout import mark_injected
from context_tui.formats.codex.writer import RolloutItems
from context_tui.formats.kit import blocks, document_scanner, documents, response_items, writing
from context_tui.formats.kit.message_builder import MessageBuilder, MessageRecord, ParsedRecord, UsageRecord
from context_tui.formats.kit.response_items import Item
from context_tui.formats.kit.usage import parse_openai_usage
from context_tui.formats.kit.values import parse_blocks, parse_time_ms, parse_usage_or_note
from context_tui.session.losses import Losses
from context_tui.session.memory import Origin
from context_tui.session.session import Session
from context_tui.session.values import Role

CONTINUATION_NOTE = "it goes on with an earlier response (previous_response_id), whose items are not in this file"
ITEM_LISTS = documents.MessageLists(("input", "output"), ("type", "role"), excluded_keys=("object",), accepts_text=True)
_RESPONSE = "response"


def find_response(run: documents.Run) -> dict[str, Any] | None:
    """Return the response logged with a request, or the run itself if it is a response, or None if there is none."""
    if run.key == "output":
        return {name: run.get(name) for name in run.members}
    response = documents.get_response(run)
    return response if isinstance(response.get("output"), list) else None


class ResponsesShape:
    """Parser for the items in a run. A response's items form one message, as do the results between two responses."""

    lists: ClassVar[documents.MessageLists] = ITEM_LISTS

    def __init__(self) -> None:
        self._replies = response_items.ResponseGrouping()
        self._has_instructions = False  # a system prompt was read, or is no longer possible

    @staticmethod
    def note(run: documents.Run) -> str:
        return CONTINUATION_NOTE if run.get("previous_response_id") else ""

    def read_metadata(self, run: documents.Run, builder: MessageBuilder) -> None:
        model = run.get("model") or (find_response(run) or {}).get("model")
        builder.set_request(model, run.get("context_window"), run.get("tools"))
        builder.facts.input_includes_cache = True
        self._has_instructions = run.get("instructions") is not None
        builder.append_system(blocks.extract_text(parse_blocks(run.get("instructions"))))

    def parse_tools(self, run: documents.Run) -> list[dict[str, Any]]:
        """Return the tool schemas in Anthropic's form. Those of hosted tools stay unchanged."""
        tools = writing.parse_tool_schemas(run.get("tools"))
        return [writing.convert_function_schema(tool) if tool.get("type") == "function" else tool for tool in tools]

    def parse_response(self, run: documents.Run) -> dict[str, Any] | None:
        """Return the response, if there is one, as one more element (without its items if the run holds these)."""
        response = find_response(run)
        if response is None:
            return None
        items = [] if run.key == "output" else response["output"]
        stamp = response.get("completed_at") or response.get("created_at")
        return {"type": _RESPONSE, "output": items, "usage": response.get("usage"), "created_at": stamp}

    def parse(self, value: Any, place: int) -> ParsedRecord:
        if isinstance(value, dict) and value.get("type") == _RESPONSE:
            record = response_items.parse_response_items(value.get("output"))
            usage, notes = parse_usage_or_note(parse_openai_usage, value.get("usage"))
            notes, time = (*record.notes, *notes), parse_time_ms(value.get("created_at"))
            if isinstance(record, MessageRecord):
                return replace(record, usage=usage, time=time, notes=notes)
            return UsageRecord(usage, time, notes=notes)
        record = response_items.parse_item(value)
        return mark_injected(record) if isinstance(record, MessageRecord) and record.role != Role.SYSTEM else record

    def resolve_in_order(self, value: Any, parsed: ParsedRecord) -> ParsedRecord:
        """Return *parsed* with the id of its response, which consecutive assistant items share.

        If there is no system prompt, developer messages at the start form one. Later developer messages are injected.
        """
        if isinstance(value, dict) and value.get("type") == _RESPONSE:
            self._replies.end_response()
        response_id = self._replies.assign_response_id(parsed)
        if not isinstance(parsed, MessageRecord):
            return parsed
        if parsed.role == Role.SYSTEM and self._has_instructions:
            parsed = replace(parsed, role=Role.USER, is_injected=True)
        self._has_instructions |= parsed.role != Role.SYSTEM
        return replace(parsed, message_id=response_id)


SENDABLE_MEMBERS = frozenset(
    {
        *("type", "role", "content", "phase", "name", "namespace", "arguments", "input", "call_id", "output"),
        *("summary", "encrypted_content", "action", "operation", "status", "execution", "tools", "result"),
    }
)
"""Members of items that may be sent. Ids refer to the provider's storage; other members are the client's own."""
_WITH_STATUS = ("local_shell_call", "tool_search_call", "tool_search_output", "web_search_call", "shell_call")


def find_items(origin: Origin, rollout: RolloutItems) -> list[Item] | None:
    """Return the items from which a message was read (request, response or rollout), or None if it has none."""
    content = origin.session.content
    if not isinstance(content, document_scanner.DocumentContent) or origin.session.info.format != "openai-responses":
        return rollout.find_items(origin)
    values = [content.decode_element(row) for row in content.facts.iterate_records(origin.message)]
    item_lists = (
        response_items.filter_known_items(value["output"])[0] if value.get("type") == "response" else [value]
        for value in values
    )
    return [item for items in item_lists for item in items]


def write_request(session: Session, path: Path) -> Losses:
    """Write a request with the model, the instructions, the items and the tools, and return the losses."""
    losses = Losses()
    writer = response_items.ItemWriter(session, losses, partial(find_items, rollout=RolloutItems()))
    items = [each.item for message in session.context_at().order for each in writer.write_message(message)]
    tools = session.content.tools()
    request = {
        **({"model": session.facts.model} if session.facts.model else {}),
        "instructions": session.content.system(),
        "input": [sendable for item in items if (sendable := _build_sendable_item(item, losses)) is not None],
        **({"tools": [*map(_build_tool, tools)]} if tools else {}),
        "store": False,
    }
    writing.write_json(request, path)
    return losses


def _build_sendable_item(item: Item, losses: Losses) -> Item | None:
    """Return an item that may be sent, or None for reasoning without its encrypted content."""
    kind = item.get("type")
    if kind == "reasoning" and not item.get("encrypted_content"):
        losses.omit(response_items.THINKING_LOSS, response_items.build_thinking(item))
        return None
    if kind in response_items.HOSTED_TYPES:
        return item
    status = kind in _WITH_STATUS
    return {name: value for name, value in item.items() if name in SENDABLE_MEMBERS and (status or name != "status")}


def _build_tool(tool: blocks.Block) -> Item:
    if not isinstance(tool.get("input_schema"), dict):
        return tool
    described = {"description": tool["description"]} if isinstance(tool.get("description"), str) else {}
    return {"type": "function", "name": str(tool.get("name") or ""), **described, "parameters": tool["input_schema"]}


class ResponsesFormat(document_scanner.DocumentFormat):
    """The format of requests and responses of the Responses API, and of bare lists of items."""

    name: ClassVar[str] = "openai-responses"
    about: ClassVar[str] = "OpenAI Responses request, response or list of items (JSON, JSONL)"
    from_source: ClassVar[str] = ALL_FROM_SOURCE
    shape = ResponsesShape

    unsupported_reason = staticmethod(response_items.unsupported_reason)
    write = staticmethod(write_request)
    copy = staticmethod(document_scanner.copy_document)

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        run = documents.read_head_run(head, ITEM_LISTS)
        if run is None or run.get("messages") is not None:
            return None
        if run.key == "output":
            return Claim(90, "a response") if run.get("object") == "response" else None
        if any(map(response_items.is_item, run.elements)):
            return Claim(90, "items of the Responses API")
        is_described = isinstance(run.get("model"), str) or isinstance(run.get("instructions"), str)
        is_request = is_described or run.get("previous_response_id") is not None
        return Claim(88, "a request with input") if run.key == "input" and run.elements and is_request else None
