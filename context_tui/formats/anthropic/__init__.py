"""Anthropic's Messages API: a request, alone or logged with its response, or a bare list of messages (JSON)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from context_tui.formats.anthropic.writer import find_unsupported_reason, write_request
from context_tui.formats.base import Claim, Format, Scanner
from context_tui.formats.kit.document_scanner import DocumentScanner, copy_document, list_document_sessions
from context_tui.formats.kit.documents import Run, read_head_run
from context_tui.formats.kit.message_builder import MessageBuilder, MessageRecord
from context_tui.formats.kit.usage import parse_anthropic_usage
from context_tui.formats.kit.values import extract_text, parse_blocks, parse_time_ms, parse_usage_or_note
from context_tui.formats.kit.writing import parse_tool_schemas
from context_tui.session.losses import Losses
from context_tui.session.session import Session, SessionInfo
from context_tui.session.values import Role
from context_tui.text.sanitize import truncate_name

ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM}
OWN_BLOCKS = {"tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document", "server_tool_use"}


def find_reply(run: Run) -> dict[str, Any] | None:
    """Return the logged response of a request, if it is a message."""
    response = run.get("response")
    if isinstance(response, dict) and isinstance(response.get("body"), dict):
        response = response["body"]
    if isinstance(response, dict) and response.get("role") == "assistant" and "content" in response:
        return response
    return None


class AnthropicShape:
    """Messages of a request, which stay unchanged."""

    def read_metadata(self, run: Run, builder: MessageBuilder) -> None:
        """Read the model, the window, the system prompt and the size of the tools."""
        facts, reply = builder.facts, find_reply(run) or {}
        model = run.get("model") or reply.get("model")
        facts.model = truncate_name(model) if isinstance(model, str) else None
        builder.set_window(run.get("context_window"))
        builder.set_system([extract_text([block]) for block in parse_blocks(run.get("system"))])
        if tools := run.get("tools"):
            builder.set_tools(tools)

    def parse_tools(self, run: Run) -> list[dict[str, Any]]:
        """Return the tool schemas of the request, unchanged."""
        return parse_tool_schemas(run.get("tools"))

    def parse_response(self, run: Run) -> dict[str, Any] | None:
        """Parse the logged response as a message."""
        return find_reply(run)

    def parse(self, value: Any, place: int) -> MessageRecord:
        """Parse a message; one of role ``system`` after the first was injected by a runtime."""
        if not isinstance(value, dict):
            raise ValueError("not a message: not a JSON object")
        given = value.get("role")
        role = ROLES.get(given) if isinstance(given, str) else None
        if role is None:
            raise ValueError(f"not a message: unknown role {str(given)[:40]!r}")
        stamp = next((value[key] for key in ("timestamp", "created_at") if key in value), None)
        usage, notes = parse_usage_or_note(parse_anthropic_usage, value.get("usage"))
        return MessageRecord(
            role, parse_blocks(value.get("content")), time=parse_time_ms(stamp), usage=usage, notes=notes
        )


class AnthropicFormat(Format):
    """Format of Messages requests and message lists."""

    name: ClassVar[str] = "anthropic"
    about: ClassVar[str] = "Anthropic Messages request or message list (JSON, JSONL), with its response if logged"
    suffixes: ClassVar[tuple[str, ...]] = (".json", ".jsonl")

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        """Recognise tool schemas, block types, a system member or a response; plain texts are ambiguous."""
        run = read_head_run(head)
        if run is None or not (run.elements or run.members):
            return None
        tools = run.get("tools")
        if isinstance(tools, list) and any(isinstance(tool, dict) and "input_schema" in tool for tool in tools):
            return Claim(85, "a Messages request: tools with input_schema")
        reply = find_reply(run)
        if reply and parse_usage_or_note(parse_anthropic_usage, reply.get("usage"))[0]:
            return Claim(85, "a Messages request with its response")
        kinds = {block["type"] for message in run.elements for block in _list_blocks(message)}
        if own := sorted(OWN_BLOCKS & kinds):
            return Claim(75, f"messages with blocks of type {own[0]}")
        if "system" in run.members:
            return Claim(70, "a Messages request: a system prompt beside the messages")
        model = run.get("model")
        if isinstance(model, str) and model.startswith("claude"):
            return Claim(60, "a request to a Claude model")
        return Claim(20, "a list of messages, of any provider")

    def list_sessions(self, path: Path) -> list[SessionInfo]:
        """List the message lists in a file."""
        return list_document_sessions(path, self.name, AnthropicShape)

    def make_scanner(self, path: Path, info: SessionInfo) -> Scanner:
        """Return a scanner of a session."""
        return DocumentScanner(path, info, AnthropicShape)

    def unsupported_reason(self, role: str, block: dict[str, Any]) -> str:
        """Return why a Messages request cannot hold a block."""
        return find_unsupported_reason(role, block)

    def write(self, session: Session, path: Path) -> Losses:
        """Write a Messages request without limits: model, system, tools and messages, if known."""
        return write_request(session, path)

    def copy(self, session: Session, path: Path) -> list[str] | None:
        """Write the unchanged input: a request with its response, members of other programs and recorded usage."""
        return copy_document(session, path)


def _list_blocks(message: Any) -> list[dict[str, Any]]:
    return parse_blocks(message.get("content")) if isinstance(message, dict) else []
