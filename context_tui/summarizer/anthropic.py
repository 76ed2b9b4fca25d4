"""Anthropic Messages: the request body, and the decoder of its stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from context_tui.summarizer.decoder import Decoder, mapping, name, number, string
from context_tui.summarizer.reply import Event, ReplyModel, Stop, Thinking, Usage
from context_tui.summarizer.request import SummaryRequest, cleaned, declared_tools

VERSION = "2023-06-01"
"""Value of the ``anthropic-version`` header."""

LIMITS = ("max_tokens",)
"""The name of the output limit."""


def body(request: SummaryRequest, limit: str = LIMITS[0]) -> dict[str, Any]:
    """The request as a JSON object, but for its model: streaming, tools declared but not to be called, thinking off."""
    tools, _ = declared_tools(request)
    return {
        limit: request.max_tokens,
        "stream": True,
        "thinking": {"type": "disabled"},  # said outright: some compatible servers think by default
        **({"system": request.system} if request.system else {}),
        **({"tools": tools, "tool_choice": {"type": "none"}} if tools else {}),
        "messages": cleaned(request.messages),
    }


class AnthropicDecoder(Decoder):
    """The reply's events. Only ``message_stop`` completes it.

    Blocks may be open at the same time, events may be missing at the start and unknown ones come at any time, so a
    delta is taken for what it says of itself, and its index says where it belongs.
    """

    api = "anthropic"

    def _piece(self, data: dict[str, Any]) -> Iterator[Event]:
        match data.get("type"):
            case "message_start":
                message = mapping(data.get("message"))
                if model := name(message.get("model")):
                    yield ReplyModel(model)
                yield from self._used(_usage(message.get("usage")))
            case "content_block_start":
                yield from self._block(mapping(data.get("content_block")), number(data.get("index")) or 0)
            case "content_block_delta":
                yield from self._block(mapping(data.get("delta")), number(data.get("index")) or 0)
            case "message_delta":
                yield from self._used(_usage(data.get("usage")))
                if reason := name(mapping(data.get("delta")).get("stop_reason")):
                    yield Stop(reason)
            case "message_stop":
                self.complete = self.ended = True

    def _reply(self, data: dict[str, Any]) -> Iterator[Event]:
        content = data.get("content")
        if data.get("type") != "message" and not isinstance(content, list):
            yield self._fail("malformed", "", "the reply is not a message")
            return
        if model := name(data.get("model")):
            yield ReplyModel(model)
        for index, block in enumerate(content if isinstance(content, list) else []):
            yield from self._block(mapping(block), index)
        yield from self._used(_usage(data.get("usage")))
        if reason := name(data.get("stop_reason")):
            yield Stop(reason)
        self.complete = True

    def _block(self, piece: dict[str, Any], index: int) -> Iterator[Event]:
        """A block, its start, or a delta: text is passed on, thinking counted, tool input and signatures ignored."""
        match piece.get("type"):
            case "text" | "text_delta":
                yield from self._text(piece.get("text"), index)
            case "thinking" | "thinking_delta":
                if text := string(piece.get("thinking")):
                    yield Thinking(len(text))


def _usage(value: object) -> Usage:
    usage = mapping(value)
    return Usage(
        input_tokens=number(usage.get("input_tokens")),
        cache_read_tokens=number(usage.get("cache_read_input_tokens")),
        cache_write_tokens=number(usage.get("cache_creation_input_tokens")),
        output_tokens=number(usage.get("output_tokens")),
    )
