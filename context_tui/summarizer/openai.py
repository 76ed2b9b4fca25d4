"""Request body and stream decoder for OpenAI's Chat Completions API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from context_tui.summarizer.decoder import Decoder, Redactor, parse_mapping, parse_name, parse_string, parse_token_count
from context_tui.summarizer.reply import ReplyEvent, ReplyModel, ReplyUsage, StopReason, TextDelta, ThinkingDelta
from context_tui.summarizer.request import (
    Message,
    SummaryRequest,
    clean_messages,
    declare_tools,
    flatten_result_body,
    format_json,
)

LIMIT_FIELDS = ("max_tokens", "max_completion_tokens")
"""Names of the output limit: the original one, and the one that newer OpenAI models require."""


def build_body(request: SummaryRequest, limit_field: str = LIMIT_FIELDS[0]) -> dict[str, Any]:
    """Build the body of a streaming request without the model; usage is reported, and tools must not be called.

    No field disables reasoning on all servers, so reasoning in the reply is counted and dropped.
    """
    tools, _ = declare_tools(request)
    system = [{"role": "system", "content": request.system}] if request.system else []
    return {
        limit_field: request.max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
        **({"tools": [_build_function(tool) for tool in tools], "tool_choice": "none"} if tools else {}),
        "messages": [
            *system,
            *(new for message in clean_messages(request.messages) for new in _build_messages(message)),
        ],
    }


def _build_function(tool: dict[str, Any]) -> dict[str, Any]:
    function = {"name": tool["name"], "description": tool["description"], "parameters": tool["input_schema"]}
    return {"type": "function", "function": function}


def _build_messages(message: Message) -> Iterator[Message]:
    """Yield the Chat Completions messages for a cleaned message; each tool result becomes a separate message."""
    calls, content = [], []
    for block in message["content"]:
        if block["type"] == "tool_result":
            label = "[error] " if block.get("is_error") else ""  # the format has no error flag
            text = label + flatten_result_body(block["content"])
            yield {"role": "tool", "tool_call_id": block["tool_use_id"], "content": text}
        elif block["type"] == "tool_use":
            function = {"name": block["name"], "arguments": format_json(block["input"])}
            calls.append({"id": block["id"], "type": "function", "function": function})
        else:
            content.append(block)
    if calls:
        yield {"role": "assistant", "content": _build_content(content), "tool_calls": calls}
    elif content:
        yield {"role": message["role"], "content": _build_content(content)}


def _build_content(blocks: list[dict[str, Any]]) -> str | list[dict[str, Any]] | None:
    """Build content as a string, which every server accepts, as a list of parts if it has images, or None if empty."""
    if not blocks:
        return None
    if all(block["type"] == "text" for block in blocks):
        return "\n\n".join(block["text"] for block in blocks)
    return [block if block["type"] == "text" else _build_image_part(block["source"]) for block in blocks]


def _build_image_part(source: dict[str, Any]) -> dict[str, Any]:
    url = source.get("url") or f"data:{source.get('media_type', 'image/png')};base64,{source.get('data', '')}"
    return {"type": "image_url", "image_url": {"url": url}}


class OpenAIDecoder(Decoder):
    """Decoder for a Chat Completions stream, complete after a finish reason or ``[DONE]``; usage may still follow."""

    api = "openai"

    def __init__(self, redact: Redactor = str) -> None:
        super().__init__(redact)
        self._model = ""
        self._is_refused = False

    def _decode_chunk(self, data: dict[str, Any]) -> Iterator[ReplyEvent]:
        yield from self._decode_choice(data, "delta")

    def _decode_reply(self, data: dict[str, Any]) -> Iterator[ReplyEvent]:
        if not isinstance(data.get("choices"), list):
            yield self._build_failure("malformed", "", "the reply is not a chat completion")
            return
        yield from self._decode_choice(data, "message")
        self.complete = True

    def _decode_choice(self, data: dict[str, Any], part: str) -> Iterator[ReplyEvent]:
        if (model := parse_name(data.get("model"))) and model != self._model:
            self._model = model
            yield ReplyModel(model)
        choices = data.get("choices")
        for choice in map(parse_mapping, choices if isinstance(choices, list) else []):
            if choice.get("index", 0) != 0:
                continue
            piece = parse_mapping(choice.get(part))
            for key in ("reasoning_content", "reasoning"):
                if text := piece.get(key):
                    yield ThinkingDelta(len(parse_string(text)))
                    break
            yield from self._decode_content(piece.get("content"))
            self._is_refused = self._is_refused or bool(piece.get("refusal"))
            if reason := parse_name(choice.get("finish_reason")):
                self.complete = True
                yield StopReason("refusal" if self._is_refused or reason == "content_filter" else reason)
        yield from self._update_usage(_parse_usage(data.get("usage")))

    def _decode_content(self, content: object) -> Iterator[TextDelta]:
        if isinstance(content, list):
            for part in map(parse_mapping, content):
                if part.get("type") == "text":
                    yield from self._build_text(part.get("text"))
        else:
            yield from self._build_text(content)


def _parse_usage(value: object) -> ReplyUsage:
    """Return the usage with the cached tokens subtracted from ``prompt_tokens``, which includes them."""
    usage = parse_mapping(value)
    prompt = parse_token_count(usage.get("prompt_tokens"))
    cached = parse_token_count(parse_mapping(usage.get("prompt_tokens_details")).get("cached_tokens"))
    fresh = None if prompt is None else max(0, prompt - (cached or 0))
    output = parse_token_count(usage.get("completion_tokens"))
    return ReplyUsage(input_tokens=fresh, cache_read_tokens=cached, output_tokens=output)
