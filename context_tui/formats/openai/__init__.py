"""OpenAI's Chat Completions API: requests, perhaps logged with their responses, or bare lists of messages (JSON)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from context_tui.formats.base import Claim
from context_tui.formats.kit.document_scanner import DocumentFormat, copy_document
from context_tui.formats.kit.documents import Run, read_head_run
from context_tui.formats.kit.values import list_objects
from context_tui.formats.openai.reader import OpenAIShape, find_reply
from context_tui.formats.openai.writer import find_unsupported_reason, write_request


class OpenAIFormat(DocumentFormat):
    """The format of requests to Chat Completions, and of bare message lists."""

    name: ClassVar[str] = "openai"
    about: ClassVar[str] = "OpenAI Chat Completions request, message list or runs (JSON, JSONL), with logged responses"
    shape = OpenAIShape

    unsupported_reason = staticmethod(find_unsupported_reason)
    write = staticmethod(write_request)
    copy = staticmethod(copy_document)

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        run = read_head_run(head)
        if run is None or not (run.elements or run.members):
            return None
        if any("function" in tool for tool in list_objects(run.get("tools"))) or isinstance(run.get("functions"), list):
            return Claim(85, "a Chat Completions request: function schemas")
        if find_reply(run):
            return Claim(85, "a Chat Completions request with its response")
        messages = list_objects(run.elements)
        if any(message.get("role") in ("tool", "function") for message in messages):
            return Claim(85, "messages of role tool")
        if any(message.get("tool_calls") or message.get("function_call") for message in messages):
            return Claim(85, "messages with tool_calls")
        parts = (part for message in messages for part in list_objects(message.get("content")))
        if any(part.get("type") in ("image_url", "input_audio") for part in parts):
            return Claim(76, "messages with OpenAI's content parts")
        return _make_weak_claim(run, messages)


def _make_weak_claim(run: Run, messages: list[dict[str, Any]]) -> Claim:
    roles = {message.get("role") for message in messages if isinstance(message.get("role"), str)}
    if "developer" in roles:
        return Claim(72, "a developer message in the list")
    if "system" in roles:
        return Claim(50, "a system message in the list")
    if isinstance(model := run.get("model"), str) and model.startswith(("gpt-", "o1", "o3", "o4")):
        return Claim(60, "a request to an OpenAI model")
    return Claim(10, "a list of messages, of any provider")
