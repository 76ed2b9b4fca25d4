"""Replies of the scripted model, as each of the four APIs returns them: as JSON, and as server-sent events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from scripts.agents.prompt import Api, count_tokens
from scripts.agents.prompt_cache import CacheUse

Json = dict[str, Any]
CREATED = 1_750_000_000
"""Time in the replies of APIs that state one, in epoch seconds."""


@dataclass(frozen=True)
class Call:
    """Call of a tool; the name of one in a namespace is ``NAMESPACE.NAME``."""

    id: str
    name: str
    arguments: Json


@dataclass(frozen=True)
class Reply:
    """Reply of the model: a text, and calls of tools."""

    id: str
    text: str
    calls: tuple[Call, ...] = ()

    @property
    def tokens(self) -> int:
        """Tokens of the output."""
        return count_tokens(self.text) + sum(
            count_tokens(f"{call.name} {json.dumps(call.arguments)}") for call in self.calls
        )


@dataclass(frozen=True)
class Answer:
    """A reply with what it is the reply to: the model's name, and the use of the prompt cache."""

    reply: Reply
    model: str
    use: CacheUse

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt."""
        return sum(self.use)


def build_usage(api: Api, answer: Answer) -> Json:
    """Build the ``usage`` of a reply."""
    fresh, read, written = answer.use
    output = answer.reply.tokens
    if api == "anthropic":
        return {
            "input_tokens": fresh,
            "cache_creation_input_tokens": written,
            "cache_read_input_tokens": read,
            "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0},
            "output_tokens": output,
        }
    prompt = answer.prompt_tokens
    if api == "responses":
        return {
            "input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": read},
            "output_tokens": output,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": prompt + output,
        }
    if api == "chat":
        return {
            "prompt_tokens": prompt,
            "completion_tokens": output,
            "total_tokens": prompt + output,
            "prompt_tokens_details": {"cached_tokens": read},
            "completion_tokens_details": {"reasoning_tokens": 0},
        }
    usage = {"promptTokenCount": prompt, "candidatesTokenCount": output, "totalTokenCount": prompt + output}
    return {**usage, "cachedContentTokenCount": read} if read else usage


def build_json(api: Api, answer: Answer) -> Json:
    """Build the reply as one JSON document."""
    return _BUILDERS[api](answer)


def iterate_events(api: Api, answer: Answer, include_usage: bool = True) -> Iterator[tuple[str, Json | str]]:
    """Yield the reply as server-sent events: name (may be empty) and data.

    Args:
        include_usage: whether a chat stream ends with the usage.
    """
    if api == "anthropic":
        yield from _iterate_anthropic(answer)
    elif api == "responses":
        yield from _iterate_responses(answer)
    elif api == "chat":
        yield from _iterate_chat(answer, include_usage)
    else:
        yield "", _build_gemini(answer)


def _build_anthropic(answer: Answer) -> Json:
    reply = answer.reply
    content: list[Json] = [{"type": "text", "text": reply.text}] if reply.text else []
    content += [{"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments} for call in reply.calls]
    return {
        "id": f"msg_{reply.id}",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": content,
        "stop_reason": "tool_use" if reply.calls else "end_turn",
        "stop_sequence": None,
        "usage": build_usage("anthropic", answer),
    }


def _iterate_anthropic(answer: Answer) -> Iterator[tuple[str, Json]]:
    message = _build_anthropic(answer)
    usage, content = message["usage"], message["content"]
    start = {**message, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    events: list[Json] = [{"type": "message_start", "message": start}]
    for index, block in enumerate(content):
        if block["type"] == "text":
            empty: Json = {"type": "text", "text": ""}
            delta: Json = {"type": "text_delta", "text": block["text"]}
        else:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    stop = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    events.append({"type": "message_delta", "delta": stop, "usage": usage})
    events.append({"type": "message_stop"})
    yield from ((event["type"], event) for event in events)


def _build_responses(answer: Answer) -> Json:
    reply = answer.reply
    output: list[Json] = []
    if reply.text:
        text = {"type": "output_text", "text": reply.text, "annotations": []}
        item = {"type": "message", "id": f"msg_{reply.id}", "status": "completed", "role": "assistant"}
        output.append({**item, "content": [text]})
    for number, call in enumerate(reply.calls):
        namespace, _, name = call.name.rpartition(".")
        item = {"type": "function_call", "id": f"fc_{reply.id}_{number}", "status": "completed", "call_id": call.id}
        item |= {"namespace": namespace} if namespace else {}
        output.append({**item, "name": name, "arguments": json.dumps(call.arguments)})
    return {
        "id": f"resp_{reply.id}",
        "object": "response",
        "created_at": CREATED,
        "status": "completed",
        "model": answer.model,
        "output": output,
        "usage": build_usage("responses", answer),
    }


def _iterate_responses(answer: Answer) -> Iterator[tuple[str, Json]]:
    response = _build_responses(answer)
    pending = {**response, "status": "in_progress", "output": [], "usage": None}
    events: list[Json] = [{"type": "response.created", "response": pending}]
    for index, item in enumerate(response["output"]):
        place = {"output_index": index, "item_id": item["id"]}
        is_text = item["type"] == "message"
        empty = {**item, "status": "in_progress", **({"content": []} if is_text else {"arguments": ""})}
        events.append({"type": "response.output_item.added", "output_index": index, "item": empty})
        if is_text:
            text = item["content"][0]
            place["content_index"] = 0
            events.append({"type": "response.content_part.added", **place, "part": {**text, "text": ""}})
            events.append({"type": "response.output_text.delta", **place, "delta": text["text"]})
            events.append({"type": "response.output_text.done", **place, "text": text["text"]})
            events.append({"type": "response.content_part.done", **place, "part": text})
        else:
            arguments = item["arguments"]
            events.append({"type": "response.function_call_arguments.delta", **place, "delta": arguments})
            events.append({"type": "response.function_call_arguments.done", **place, "arguments": arguments})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": "response.completed", "response": response})
    yield from ((event["type"], {**event, "sequence_number": number}) for number, event in enumerate(events))


def _build_chat(answer: Answer) -> Json:
    reply = answer.reply
    message: Json = {"role": "assistant", "content": reply.text or None}
    if reply.calls:
        message["tool_calls"] = _build_tool_calls(reply)
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if reply.calls else "stop"}
    return {**_build_chat_head(answer, "chat.completion"), "choices": [choice], "usage": build_usage("chat", answer)}


def _build_tool_calls(reply: Reply) -> list[Json]:
    return [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": json.dumps(call.arguments)}}
        for call in reply.calls
    ]


def _build_chat_head(answer: Answer, kind: str) -> Json:
    return {"id": f"chatcmpl-{answer.reply.id}", "object": kind, "created": CREATED, "model": answer.model}


def _iterate_chat(answer: Answer, include_usage: bool) -> Iterator[tuple[str, Json | str]]:
    reply, head = answer.reply, _build_chat_head(answer, "chat.completion.chunk")
    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    if reply.text:
        deltas.append({"content": reply.text})
    deltas += [{"tool_calls": [{"index": index, **call}]} for index, call in enumerate(_build_tool_calls(reply))]
    for delta in deltas:
        yield "", {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    reason = "tool_calls" if reply.calls else "stop"
    yield "", {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    if include_usage:
        yield "", {**head, "choices": [], "usage": build_usage("chat", answer)}
    yield "", "[DONE]"


def _build_gemini(answer: Answer) -> Json:
    reply = answer.reply
    parts: list[Json] = [{"text": reply.text}] if reply.text else []
    parts += [{"functionCall": {"name": call.name, "args": call.arguments}} for call in reply.calls]
    return {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": build_usage("gemini", answer),
        "modelVersion": answer.model,
        "responseId": reply.id,
    }


_BUILDERS = {
    "anthropic": _build_anthropic,
    "responses": _build_responses,
    "chat": _build_chat,
    "gemini": _build_gemini,
}
