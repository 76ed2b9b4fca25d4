"""Request body and stream decoder for Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from context_tui.summarizer.decoder import Decoder, parse_mapping, parse_name, parse_string, parse_token_count
from context_tui.summarizer.reply import ReplyEvent, ReplyModel, ReplyUsage, StopReason, ThinkingDelta
from context_tui.summarizer.request import SummaryRequest, clean_messages, declare_tools

API_VERSION = "2023-06-01"

LIMIT_FIELDS = ("max_tokens",)


def build_body(request: SummaryRequest, limit_field: str = LIMIT_FIELDS[0]) -> dict[str, Any]:
    """Build the body of a streaming request without the model; its tools must not be called, and thinking is off."""
    tools, _ = declare_tools(request)
    return {
        limit_field: request.max_tokens,
        "stream": True,
        "thinking": {"type": "disabled"},  # explicit, since some compatible servers think by default
        **({"system": request.system} if request.system else {}),
        **({"tools": tools, "tool_choice": {"type": "none"}} if tools else {}),
        "messages": clean_messages(request.messages),
    }


class AnthropicDecoder(Decoder):
    """Decoder for a stream from the Messages API, which is complete only after ``message_stop``.

    Blocks may overlap, events may be missing at the start, and unknown events may occur at any time. A delta is
    therefore interpreted by its own type, and assigned to a block by its index.
    """

    api = "anthropic"

    def _decode_chunk(self, data: dict[str, Any]) -> Iterator[ReplyEvent]:
        match data.get("type"):
            case "message_start":
                message = parse_mapping(data.get("message"))
                if model := parse_name(message.get("model")):
                    yield ReplyModel(model)
                yield from self._update_usage(_parse_usage(message.get("usage")))
            case "content_block_start" | "content_block_delta":
                piece = parse_mapping(data.get("content_block") or data.get("delta"))
                yield from self._decode_block(piece, parse_token_count(data.get("index")) or 0)
            case "message_delta":
                yield from self._update_usage(_parse_usage(data.get("usage")))
                if reason := parse_name(parse_mapping(data.get("delta")).get("stop_reason")):
                    yield StopReason(reason)
            case "message_stop":
                self.complete = self.ended = True

    def _decode_reply(self, data: dict[str, Any]) -> Iterator[ReplyEvent]:
        content = data.get("content")
        if data.get("type") != "message" and not isinstance(content, list):
            yield self._build_failure("malformed", "", "the reply is not a message")
            return
        if model := parse_name(data.get("model")):
            yield ReplyModel(model)
        for index, block in enumerate(content if isinstance(content, list) else []):
            yield from self._decode_block(parse_mapping(block), index)
        yield from self._update_usage(_parse_usage(data.get("usage")))
        if reason := parse_name(data.get("stop_reason")):
            yield StopReason(reason)
        self.complete = True

    def _decode_block(self, piece: dict[str, Any], index: int) -> Iterator[ReplyEvent]:
        """Yield the text, or the length of the thinking, in a block start or delta; ignore everything else."""
        match piece.get("type"):
            case "text" | "text_delta":
                yield from self._build_text(piece.get("text"), index)
            case "thinking" | "thinking_delta":
                if text := parse_string(piece.get("thinking")):
                    yield ThinkingDelta(len(text))


def _parse_usage(value: object) -> ReplyUsage:
    usage = parse_mapping(value)
    return ReplyUsage(
        input_tokens=parse_token_count(usage.get("input_tokens")),
        cache_read_tokens=parse_token_count(usage.get("cache_read_input_tokens")),
        cache_write_tokens=parse_token_count(usage.get("cache_creation_input_tokens")),
        output_tokens=parse_token_count(usage.get("output_tokens")),
    )
