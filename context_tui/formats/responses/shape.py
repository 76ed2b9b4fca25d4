"""Requests, responses and bare lists of items of OpenAI's Responses API."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from context_tui.formats.codex.items import put_in
from context_tui.formats.kit.documents import Lists, Run
from context_tui.formats.kit.items import Replies, item_part, reply_part
from context_tui.formats.kit.message_builder import MessageBuilder, Part
from context_tui.formats.kit.usage import openai_usage
from context_tui.formats.kit.values import as_blocks, as_id, epoch_ms, text_in, usage_or_note
from context_tui.formats.kit.writing import tools_of
from context_tui.session.jsontext import compact_json
from context_tui.session.validation import truncate_name
from context_tui.session.values import Role

CONTINUES = "it goes on with an earlier response (previous_response_id), whose items are not in this file"
LISTS = Lists(("input", "output"), ("type", "role"), never=("object",), texts=True)
_RESPONSE = "response"


def response_of(run: Run) -> dict[str, Any] | None:
    """The response of a run: what was logged beside its input, or the run itself."""
    if run.key == "output":
        return {name: run.get(name) for name in run.members}
    response = run.get(_RESPONSE)
    if isinstance(response, dict) and isinstance(response.get("body"), dict):
        response = response["body"]
    return response if isinstance(response, dict) and isinstance(response.get("output"), list) else None


class ResponsesShape:
    """A run of items: those of one response are one message, and answers between two of them another."""

    lists: ClassVar[Lists] = LISTS

    def __init__(self) -> None:
        self._replies = Replies()
        self._instructed = False  # a prompt of the system is there, or no longer can be

    @staticmethod
    def note(run: Run) -> str:
        """That a run is incomplete by design, where it is."""
        return CONTINUES if run.get("previous_response_id") else ""

    def begin(self, run: Run, builder: MessageBuilder) -> None:
        """Take the model, the window, the instructions and the size of the tools."""
        facts, response = builder.facts, response_of(run) or {}
        model = run.get("model") or response.get("model")
        facts.model = truncate_name(model) if isinstance(model, str) else None
        facts.input_includes_cache = True
        builder.say_window(run.get("context_window"))
        self._instructed = run.get("instructions") is not None
        builder.say_system(text_in(as_blocks(run.get("instructions"))))
        if tools := run.get("tools"):
            facts.tools_bytes = len(compact_json(tools))

    def tools(self, run: Run) -> list[dict[str, Any]]:
        """Tool schemas, Anthropic-shaped; those of a provider's own tools as they are."""
        return [
            {
                "name": as_id(tool.get("name")),
                **({"description": tool["description"]} if "description" in tool else {}),
                "input_schema": tool.get("parameters") or {"type": "object"},
            }
            if tool.get("type") == "function"
            else tool
            for tool in tools_of(run.get("tools"))
        ]

    def reply(self, run: Run) -> dict[str, Any] | None:
        """The response as one more element, with all its items; where they are the run's own, what it used."""
        response = response_of(run)
        if response is None:
            return None
        made = [] if run.key == "output" else response["output"]
        stamp = response.get("completed_at") or response.get("created_at")
        return {"type": _RESPONSE, "output": made, "usage": response.get("usage"), "created_at": stamp}

    def part(self, value: Any, place: int) -> Part:
        """An item, or the response at the end."""
        if isinstance(value, dict) and value.get("type") == _RESPONSE:
            part = reply_part(value.get("output"))
            usage, notes = usage_or_note(openai_usage, value.get("usage"))
            return replace(part, usage=usage, time=epoch_ms(value.get("created_at")), notes=(*part.notes, *notes))
        part = item_part(value)
        return part if part.role == Role.SYSTEM else put_in(part)

    def placed(self, value: Any, part: Part) -> Part:
        """Items in their order: those of the assistant that follow each other are of one response.

        What a developer says is the system prompt where a list without one begins, else a message that was put in.
        """
        if isinstance(value, dict) and value.get("type") == _RESPONSE:
            self._replies.end()
        if part.role == Role.SYSTEM and self._instructed:
            part = replace(part, role=Role.USER, injected=True)
        self._instructed |= part.role not in (None, Role.SYSTEM)
        return replace(part, message_id=self._replies.id_of(part))
