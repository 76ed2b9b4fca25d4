"""OpenAI Chat Completions: the request body, and the decoder of its stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from context_tui.summarizer.decoder import Decoder, Redact, mapping, name, number, string
from context_tui.summarizer.reply import Event, ReplyModel, Stop, Text, Thinking, Usage
from context_tui.summarizer.request import Message, SummaryRequest, cleaned, declared_tools, flattened, json_text

LIMITS = ("max_tokens", "max_completion_tokens")
"""The two names of the output limit: the older one, and the one that OpenAI's newer models insist on."""


def body(request: SummaryRequest, limit: str = LIMITS[0]) -> dict[str, Any]:
    """The request as a JSON object, but for its model: streaming with usage, tools declared but not to be called.

    There is no portable way to turn reasoning off; what a server sends of it is counted and dropped.
    """
    tools, _ = declared_tools(request)
    system = [{"role": "system", "content": request.system}] if request.system else []
    return {
        limit: request.max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
        **({"tools": [_function(tool) for tool in tools], "tool_choice": "none"} if tools else {}),
        "messages": [*system, *(new for message in cleaned(request.messages) for new in _messages(message))],
    }


def _function(tool: dict[str, Any]) -> dict[str, Any]:
    function = {"name": tool["name"], "description": tool["description"], "parameters": tool["input_schema"]}
    return {"type": "function", "function": function}


def _messages(message: Message) -> Iterator[Message]:
    """One cleaned message as Chat Completions messages: each tool result is a message of its own."""
    calls, rest = [], []
    for block in message["content"]:
        if block["type"] == "tool_result":
            label = "[error] " if block.get("is_error") else ""  # there is no flag for it
            yield {"role": "tool", "tool_call_id": block["tool_use_id"], "content": label + flattened(block["content"])}
        elif block["type"] == "tool_use":
            function = {"name": block["name"], "arguments": json_text(block["input"])}
            calls.append({"id": block["id"], "type": "function", "function": function})
        else:
            rest.append(block)
    if calls:
        yield {"role": "assistant", "content": _content(rest), "tool_calls": calls}
    elif rest:
        yield {"role": message["role"], "content": _content(rest)}


def _content(blocks: list[dict[str, Any]]) -> str | list[dict[str, Any]] | None:
    """Text as one string, which every server takes; a list of parts only where there are images."""
    if not blocks:
        return None
    if all(block["type"] == "text" for block in blocks):
        return "\n\n".join(block["text"] for block in blocks)
    return [block if block["type"] == "text" else _image(block["source"]) for block in blocks]


def _image(source: dict[str, Any]) -> dict[str, Any]:
    url = source.get("url") or f"data:{source.get('media_type', 'image/png')};base64,{source.get('data', '')}"
    return {"type": "image_url", "image_url": {"url": url}}


class OpenAIDecoder(Decoder):
    """The reply's events. A finish reason or ``[DONE]`` completes it; usage comes after the finish reason."""

    api = "openai"

    def __init__(self, redact: Redact = str) -> None:
        super().__init__(redact)
        self._model = ""
        self._refused = False

    def _piece(self, data: dict[str, Any]) -> Iterator[Event]:
        yield from self._choice(data, "delta")

    def _reply(self, data: dict[str, Any]) -> Iterator[Event]:
        if not isinstance(data.get("choices"), list):
            yield self._fail("malformed", "", "the reply is not a chat completion")
            return
        yield from self._choice(data, "message")
        self.complete = True

    def _choice(self, data: dict[str, Any], part: str) -> Iterator[Event]:
        """The first choice's delta or message, the model's name, and usage (with which ``choices`` is empty)."""
        if (model := name(data.get("model"))) and model != self._model:
            self._model = model
            yield ReplyModel(model)
        choices = data.get("choices")
        for choice in map(mapping, choices if isinstance(choices, list) else []):
            if choice.get("index", 0) != 0:
                continue
            piece = mapping(choice.get(part))
            for key in ("reasoning_content", "reasoning"):
                if text := piece.get(key):
                    yield Thinking(len(string(text)))
                    break
            yield from self._content(piece.get("content"))
            self._refused = self._refused or bool(piece.get("refusal"))
            if reason := name(choice.get("finish_reason")):
                self.complete = True
                yield Stop("refusal" if self._refused or reason == "content_filter" else reason)
        yield from self._used(_usage(data.get("usage")))

    def _content(self, content: object) -> Iterator[Text]:
        """Content is text, null, or (from some servers) a list of parts."""
        if isinstance(content, list):
            for part in map(mapping, content):
                if part.get("type") == "text":
                    yield from self._text(part.get("text"))
        else:
            yield from self._text(content)


def _usage(value: object) -> Usage:
    """Usage without overlaps: ``prompt_tokens`` includes the cached ones."""
    usage = mapping(value)
    prompt = number(usage.get("prompt_tokens"))
    cached = number(mapping(usage.get("prompt_tokens_details")).get("cached_tokens"))
    return Usage(
        input_tokens=None if prompt is None else max(0, prompt - (cached or 0)),
        cache_read_tokens=cached,
        output_tokens=number(usage.get("completion_tokens")),
    )
