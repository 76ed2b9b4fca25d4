"""Read and write requests to Anthropic's Messages API (JSON): with a logged response, or as a bare message list."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from context_tui.formats.anthropic.writer import find_unsupported_reason, write_request
from context_tui.formats.base import Claim
from context_tui.formats.kit import document_scanner, documents, message_builder, prompts, values, writing
from context_tui.formats.kit.usage import parse_anthropic_usage
from context_tui.session.values import Role

ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM}
OWN_BLOCKS = {"tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document", "server_tool_use"}


def find_reply(run: documents.Run) -> dict[str, Any] | None:
    """Return the response logged with a request, or None if there is none or it is not a message."""
    response = documents.get_response(run)
    return response if response.get("role") == "assistant" and "content" in response else None


class AnthropicShape:
    """Parser for the messages in a request. It keeps their blocks unchanged."""

    def read_metadata(self, run: documents.Run, builder: message_builder.MessageBuilder) -> None:
        model = run.get("model") or (find_reply(run) or {}).get("model")
        builder.set_request(model, run.get("context_window"), run.get("tools"))
        builder.set_system([*map(prompts.build_part, values.parse_blocks(run.get("system")))])

    def parse_tools(self, run: documents.Run) -> list[dict[str, Any]]:
        return writing.parse_tool_schemas(run.get("tools"))

    parse_response = staticmethod(find_reply)

    def parse(self, value: Any, place: int) -> message_builder.MessageRecord:
        """Parse a message. A ``system`` message after the first message counts as injected by a runtime."""
        role = values.parse_role(value, ROLES)
        stamp = next((value[key] for key in ("timestamp", "created_at") if key in value), None)
        usage, notes = values.parse_usage_or_note(parse_anthropic_usage, value.get("usage"))
        blocks, time = values.parse_blocks(value.get("content")), values.parse_time_ms(stamp)
        return message_builder.MessageRecord(role, blocks, time=time, usage=usage, notes=notes)


class AnthropicFormat(document_scanner.DocumentFormat):
    """The format of requests to the Messages API, and of bare message lists."""

    name: ClassVar[str] = "anthropic"
    about: ClassVar[str] = "Anthropic Messages request or message list (JSON, JSONL), with its response if logged"
    shape = AnthropicShape

    unsupported_reason = staticmethod(find_unsupported_reason)
    write = staticmethod(write_request)
    copy = staticmethod(document_scanner.copy_document)

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        """Return a claim based on tools, response, block types, system prompt or model, else a weak claim, or None."""
        run = documents.read_head_run(head)
        if run is None or not (run.elements or run.members):
            return None
        if any("input_schema" in tool for tool in values.list_objects(run.get("tools"))):
            return Claim(85, "a Messages request: tools with input_schema")
        reply = find_reply(run)
        if reply and values.parse_usage_or_note(parse_anthropic_usage, reply.get("usage"))[0]:
            return Claim(85, "a Messages request with its response")
        messages = values.list_objects(run.elements)
        kinds = {block["type"] for message in messages for block in values.parse_blocks(message.get("content"))}
        if anthropic_kinds := sorted(OWN_BLOCKS & kinds):
            return Claim(75, f"messages with blocks of type {anthropic_kinds[0]}")
        if "system" in run.members:
            return Claim(70, "a Messages request: a system prompt beside the messages")
        if isinstance(model := run.get("model"), str) and model.startswith("claude"):
            return Claim(60, "a request to a Claude model")
        return Claim(20, "a list of messages, of any provider")
