"""Request bodies and decoders of both formats, beyond what the recordings hold."""

from __future__ import annotations

import json
from typing import Any

import pytest

from context_tui.summarizer import anthropic, openai
from context_tui.summarizer.anthropic import AnthropicDecoder
from context_tui.summarizer.openai import OpenAIDecoder
from context_tui.summarizer.payload import encode_body
from context_tui.summarizer.reply import (
    ReplyEvent,
    ReplyFailure,
    ReplyModel,
    ReplyUsage,
    StopReason,
    TextDelta,
    ThinkingDelta,
)
from context_tui.summarizer.request import Message, SummaryRequest, declare_tools, sanitize_id

READ = {"name": "Read", "description": "Reads.", "input_schema": {"type": "object", "properties": {"path": {}}}}
HISTORY: list[Message] = [
    {"role": "user", "content": "Fix it."},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "Looking."},
            {"type": "tool_use", "id": "c1", "name": "Read", "input": {"path": "é.py"}, "caller": "x"},
            {"type": "tool_use", "id": "fc|2", "name": "mcp.ls", "input": "raw"},
        ],
    },
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "c1",
                "content": [{"type": "text", "text": "x = 1"}],
                "is_error": False,
            },
            {"type": "tool_result", "tool_use_id": "fc|2", "content": {"code": 1}, "is_error": True},
            {"type": "text", "text": "Go on."},
        ],
    },
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "only", "signature": "s"}]},
    {"role": "user", "content": "Summarise."},
]
REQUEST = SummaryRequest("Be terse.", HISTORY, [READ], 100)


def test_anthropic_body() -> None:
    body = anthropic.build_body(REQUEST)
    assert (body["max_tokens"], body["stream"], body["system"]) == (100, True, "Be terse.")
    assert body["thinking"] == {"type": "disabled"}
    assert body["tool_choice"] == {"type": "none"}
    assert [tool["name"] for tool in body["tools"]] == ["Read", "mcp_ls"]
    assert body["tools"][0] == READ
    user, assistant, answer = body["messages"]
    other = sanitize_id("fc|2")
    assert user == {"role": "user", "content": [{"type": "text", "text": "Fix it."}]}
    assert assistant["content"] == [
        {"type": "text", "text": "Looking."},
        {"type": "tool_use", "id": "c1", "name": "Read", "input": {"path": "é.py"}},
        {"type": "tool_use", "id": other, "name": "mcp_ls", "input": {"input": "raw"}},
    ]
    assert answer["content"] == [
        {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "x = 1"}]},
        {"type": "tool_result", "tool_use_id": other, "content": '{"code":1}', "is_error": True},
        {"type": "text", "text": "Go on."},
        {"type": "text", "text": "Summarise."},  # the empty assistant between is gone, so the two users are one
    ]


def test_openai_body() -> None:
    body = openai.build_body(REQUEST)
    assert (body["max_tokens"], body["stream"]) == (100, True)
    assert body["stream_options"] == {"include_usage": True}
    assert body["tool_choice"] == "none"
    function = {"name": "Read", "description": "Reads.", "parameters": READ["input_schema"]}
    assert body["tools"][0] == {"type": "function", "function": function}
    other = sanitize_id("fc|2")
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "Read", "arguments": '{"path":"é.py"}'}},
        {"id": other, "type": "function", "function": {"name": "mcp_ls", "arguments": '{"input":"raw"}'}},
    ]
    assert body["messages"] == [
        {"role": "system", "content": "Be terse."},
        {"role": "user", "content": "Fix it."},
        {"role": "assistant", "content": "Looking.", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c1", "content": "x = 1"},
        {"role": "tool", "tool_call_id": other, "content": '[error] {"code":1}'},
        {"role": "user", "content": "Go on.\n\nSummarise."},
    ]
    assert "max_tokens" not in openai.build_body(REQUEST, "max_completion_tokens")


def test_no_tools_means_no_tool_fields() -> None:
    plain = SummaryRequest(None, [{"role": "user", "content": "hi"}], [], 5)
    for body in (anthropic.build_body(plain), openai.build_body(plain)):
        assert not {"tools", "tool_choice", "system"} & body.keys()


def test_tools_of_the_history_are_declared_and_noted() -> None:
    tools, notes = declare_tools(SummaryRequest(None, HISTORY, [], 5))
    assert [tool["name"] for tool in tools] == ["Read", "mcp_ls"]
    assert all(tool["input_schema"]["type"] == "object" for tool in tools)
    assert notes == ["no schema in the session for Read, mcp_ls: declared by name only"]


def test_images_and_unknown_blocks() -> None:
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "AA=="},
        "cache_control": 1,
    }
    odd = {"type": "server_tool_use", "name": "web_search", "input": {"q": "x"}}
    request = SummaryRequest(None, [{"role": "user", "content": [image, odd, {"type": "text", "text": " \n"}]}], [], 5)
    assert anthropic.build_body(request)["messages"][0]["content"] == [
        {"type": "image", "source": image["source"]},
        {"type": "text", "text": '[server_tool_use] {"name":"web_search","input":{"q":"x"}}'},
    ]
    parts = openai.build_body(request)["messages"][0]["content"]
    assert parts[0] == {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}


def test_lone_surrogates_are_replaced() -> None:
    messages: list[Message] = [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "T", "input": {"x": "cut \ud83d"}}]},
        {"role": "user", "content": "half \ud83d here"},
    ]
    for module in (anthropic, openai):
        data = encode_body(module.build_body(SummaryRequest(None, messages, [], 5)))
        text = json.dumps(json.loads(data), ensure_ascii=False)
        assert "half ? here" in text
        assert "cut ?" in text


# Decoders -----------------------------------------------------------------------------------------------------------


def sse(*events: object, named: bool = False) -> bytes:
    lines = []
    for event in events:
        if named and isinstance(event, dict):
            lines.append(f"event: {event['type']}\n")
        lines.append(f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n")
    return "".join(lines).encode()


def of_anthropic(*events: object) -> list[ReplyEvent]:
    decoder = AnthropicDecoder()
    return decoder.feed(sse(*events, named=True)) + decoder.finish()


def of_openai(*events: object) -> list[ReplyEvent]:
    decoder = OpenAIDecoder()
    return decoder.feed(sse(*events)) + decoder.finish()


def delta(text: str, index: int = 0) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": text}}


STOP = {"type": "message_stop"}


def test_anthropic_without_its_start_and_with_strange_events() -> None:
    strange = [{"type": "ping"}, {"type": "brand_new", "x": 1}, {"type": "content_block_start", "index": None}]
    assert of_anthropic(*strange, delta("a"), delta("b", 3), STOP, delta("late")) == [TextDelta("a"), TextDelta("b", 3)]


def test_anthropic_usage_is_merged() -> None:
    start = {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 5, "output_tokens": 0}}}
    end = {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn"},
        "usage": {"output_tokens": 7, "input_tokens": None, "cache_creation_input_tokens": 2},
    }
    assert of_anthropic(start, end, STOP) == [
        ReplyModel("m"),
        ReplyUsage(5, None, None, 0),
        ReplyUsage(5, None, 2, 7),
        StopReason("end_turn"),
    ]


def test_anthropic_needs_its_stop() -> None:
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    assert of_anthropic(delta("a"), end) == [TextDelta("a"), StopReason("end_turn"), ReplyFailure("cut")]


def test_errors_in_the_stream() -> None:
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    expected = [TextDelta("a"), ReplyFailure("error", "overloaded_error", "Overloaded")]
    assert of_anthropic(delta("a"), overloaded, delta("b"), STOP) == expected
    assert of_openai({"error": {"message": "boom", "code": 500}}) == [ReplyFailure("error", "500", "boom")]
    assert of_openai({"error": "boom"}) == [ReplyFailure("error", "", "boom")]
    assert AnthropicDecoder().feed(b'event: error\ndata: {"message": "boom"}\n\n') == [
        ReplyFailure("error", "", "boom")
    ]
    assert AnthropicDecoder().feed(b'event: error\ndata: "boom"\n\n') == [ReplyFailure("error", "", "boom")]
    assert of_openai("Internal error", {}) == [ReplyFailure("malformed", "", "Internal error")]


def test_openai_pieces() -> None:
    def chunk(piece: object, **more: object) -> dict[str, Any]:
        return {"model": "m", "choices": [{"index": 0, "delta": piece, **more}]}

    events = of_openai(
        chunk({"role": "assistant", "content": None}),
        chunk(None),
        {"choices": None},
        chunk({"reasoning_content": "hmm"}),
        chunk({"reasoning": "hm"}),
        chunk({"content": "a"}),
        chunk({"content": [{"type": "text", "text": "b"}, {"type": "x"}]}),
        {"choices": [{"index": 1, "delta": {"content": "other"}}]},
        chunk({}, finish_reason="stop"),
        {
            "choices": [],
            "usage": {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}},
        },
        "[DONE]",
        chunk({"content": "late"}),
    )
    assert events == [
        ReplyModel("m"),
        ThinkingDelta(3),
        ThinkingDelta(2),
        TextDelta("a"),
        TextDelta("b"),
        StopReason("stop"),
        ReplyUsage(5, 4, None, 2),
    ]


def test_openai_ends_by_reason_or_by_done() -> None:
    text = {"choices": [{"delta": {"content": "a"}}]}
    assert of_openai(text) == [TextDelta("a"), ReplyFailure("cut")]
    assert of_openai(text, "[DONE]") == [TextDelta("a")]
    assert of_openai(text, {"choices": [{"delta": {}, "finish_reason": "stop"}]}) == [
        TextDelta("a"),
        StopReason("stop"),
    ]


def test_openai_refusals() -> None:
    refused = {"choices": [{"delta": {"refusal": "No."}}]}
    stop = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
    assert of_openai(refused, stop) == [StopReason("refusal")]
    assert of_openai({"choices": [{"delta": {}, "finish_reason": "content_filter"}]}) == [StopReason("refusal")]


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_reply_that_is_not_streamed(size: int) -> None:
    def fed(decoder: AnthropicDecoder | OpenAIDecoder, reply: object) -> list[ReplyEvent]:
        data = b"\n " + json.dumps(reply, indent=1).encode()
        pieces = [data[i : i + size] for i in range(0, len(data), size)]
        return [event for piece in pieces for event in decoder.feed(piece)] + decoder.finish()

    message = {
        "type": "message",
        "model": "m",
        "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "a\n\nb"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 2},
    }
    expected = [
        ReplyModel("m"),
        ThinkingDelta(2),
        TextDelta("a\n\nb", 1),
        ReplyUsage(1, None, None, 2),
        StopReason("end_turn"),
    ]
    assert fed(AnthropicDecoder(), message) == expected
    choice = {"index": 0, "message": {"role": "assistant", "content": "a"}, "finish_reason": "stop"}
    completion = {"model": "m", "choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}
    assert fed(OpenAIDecoder(), completion) == [
        ReplyModel("m"),
        TextDelta("a"),
        StopReason("stop"),
        ReplyUsage(1, None, None, 2),
    ]
    error = {"type": "error", "error": {"type": "x", "message": "boom"}}
    assert fed(AnthropicDecoder(), error) == [ReplyFailure("error", "x", "boom")]
    assert fed(OpenAIDecoder(), {"detail": "what"}) == [
        ReplyFailure("malformed", "", "the reply is not a chat completion")
    ]
    torn = OpenAIDecoder()
    assert [*torn.feed(b'{"choices": [{"mess'), *torn.finish()] == [ReplyFailure("cut")]


def test_a_surrogate_pair_split_over_two_deltas() -> None:
    fox = json.dumps(["\ud83e", "\udd8a!"])
    high, low = fox[1:-1].split(", ")
    events = AnthropicDecoder().feed(
        b"".join(
            f'data: {{"type":"content_block_delta","delta":{{"type":"text_delta","text":{half}}}}}\n\n'.encode()
            for half in (high, low)
        )
    )
    assert events == [TextDelta("🦊!")]
    lone = AnthropicDecoder()
    assert lone.feed(b'data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"a\\udd8ab"}}\n\n') == [
        TextDelta("a\ufffdb")
    ]


def test_an_event_torn_by_the_end_is_a_cut() -> None:
    whole = sse(delta("a"), delta("b"))
    for end in range(len(sse(delta("a"))) + 6, len(whole) - 3):
        decoder = AnthropicDecoder()
        assert [*decoder.feed(whole[:end]), *decoder.finish()] == [TextDelta("a"), ReplyFailure("cut")]
