"""Reader of requests, responses and bare lists of items of OpenAI's Responses API."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from context_tui.formats.codex.rollout import mark_injected
from context_tui.formats.kit.documents import MessageLists, Run
from context_tui.formats.kit.message_builder import MessageBuilder, MessageRecord, ParsedRecord, UsageRecord
from context_tui.formats.kit.response_items import ResponseGrouping, parse_item, parse_response_items
from context_tui.formats.kit.usage import parse_openai_usage
from context_tui.formats.kit.values import extract_text, parse_blocks, parse_id, parse_time_ms, parse_usage_or_note
from context_tui.formats.kit.writing import parse_tool_schemas
from context_tui.session.values import Role
from context_tui.text.sanitize import truncate_name

CONTINUATION_NOTE = "it goes on with an earlier response (previous_response_id), whose items are not in this file"
ITEM_LISTS = MessageLists(("input", "output"), ("type", "role"), excluded_keys=("object",), accepts_text=True)
_RESPONSE = "response"


def find_response(run: Run) -> dict[str, Any] | None:
    """Return the response of a run: logged next to its input, or the run itself."""
    if run.key == "output":
        return {name: run.get(name) for name in run.members}
    response = run.get(_RESPONSE)
    if isinstance(response, dict) and isinstance(response.get("body"), dict):
        response = response["body"]
    return response if isinstance(response, dict) and isinstance(response.get("output"), list) else None


class ResponsesShape:
    """Items of a run: those of one response form a message, and results between two responses form another."""

    lists: ClassVar[MessageLists] = ITEM_LISTS

    def __init__(self) -> None:
        self._replies = ResponseGrouping()
        self._has_instructions = False  # a system prompt was read, or can no longer follow

    @staticmethod
    def note(run: Run) -> str:
        """Return a note if a run continues an earlier response; else an empty string."""
        return CONTINUATION_NOTE if run.get("previous_response_id") else ""

    def read_metadata(self, run: Run, builder: MessageBuilder) -> None:
        """Read the model, the window, the instructions and the size of the tools."""
        facts, response = builder.facts, find_response(run) or {}
        model = run.get("model") or response.get("model")
        facts.model = truncate_name(model) if isinstance(model, str) else None
        facts.input_includes_cache = True
        builder.set_window(run.get("context_window"))
        self._has_instructions = run.get("instructions") is not None
        builder.append_system(extract_text(parse_blocks(run.get("instructions"))))
        if tools := run.get("tools"):
            builder.set_tools(tools)

    def parse_tools(self, run: Run) -> list[dict[str, Any]]:
        """Parse tool schemas, Anthropic-shaped; those of hosted tools stay unchanged."""
        return [
            {
                "name": parse_id(tool.get("name")),
                **({"description": tool["description"]} if "description" in tool else {}),
                "input_schema": tool.get("parameters") or {"type": "object"},
            }
            if tool.get("type") == "function"
            else tool
            for tool in parse_tool_schemas(run.get("tools"))
        ]

    def parse_response(self, run: Run) -> dict[str, Any] | None:
        """Parse the response as a further element: its items, or only its usage if the run consists of them."""
        response = find_response(run)
        if response is None:
            return None
        made = [] if run.key == "output" else response["output"]
        stamp = response.get("completed_at") or response.get("created_at")
        return {"type": _RESPONSE, "output": made, "usage": response.get("usage"), "created_at": stamp}

    def parse(self, value: Any, place: int) -> ParsedRecord:
        """Parse an item, or the response at the end."""
        if isinstance(value, dict) and value.get("type") == _RESPONSE:
            part = parse_response_items(value.get("output"))
            usage, notes = parse_usage_or_note(parse_openai_usage, value.get("usage"))
            notes, time = (*part.notes, *notes), parse_time_ms(value.get("created_at"))
            if isinstance(part, MessageRecord):
                return replace(part, usage=usage, time=time, notes=notes)
            return UsageRecord(usage, time, notes=notes)
        part = parse_item(value)
        return mark_injected(part) if isinstance(part, MessageRecord) and part.role != Role.SYSTEM else part

    def resolve_in_order(self, value: Any, part: ParsedRecord) -> ParsedRecord:
        """Resolve an item by those before it: consecutive items of the assistant belong to one response.

        A developer message is the system prompt at the start of a list without one, else an injected message.
        """
        if isinstance(value, dict) and value.get("type") == _RESPONSE:
            self._replies.end_response()
        response_id = self._replies.assign_response_id(part)
        if not isinstance(part, MessageRecord):
            return part
        if part.role == Role.SYSTEM and self._has_instructions:
            part = replace(part, role=Role.USER, is_injected=True)
        self._has_instructions |= part.role != Role.SYSTEM
        return replace(part, message_id=response_id)
