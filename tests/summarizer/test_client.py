"""Calls through a mock transport: headers and bodies sent, and each failure as one clear line."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import logging
import os
import re
import time
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any, cast

import httpx
import pytest

from context_tui.errors import ExitCode, SummarizerError
from context_tui.summarizer.client import open_client, stream_events, summarize, summarize_with_fallback
from context_tui.summarizer.endpoint import APIS, Api, ApiKey, Endpoint
from context_tui.summarizer.failures import CallFailed
from context_tui.summarizer.payload import count_suspected_secrets
from context_tui.summarizer.reply import ReplyEvent, ReplyModel, ReplyNote, Summary, TextDelta
from context_tui.summarizer.request import SummaryRequest
from context_tui.summarizer.settings import resolve_endpoint

SECRET = "sk-test-0123456789abcdef"
ANTHROPIC = Endpoint("anthropic", "http://claude.test", "asked", ApiKey(SECRET))
OPENAI = Endpoint("openai", "http://gpt.test/v1", "asked", ApiKey(SECRET))
REQUEST = SummaryRequest("Be terse.", [{"role": "user", "content": "Summarise."}], [], 1000)

Respond = Callable[[httpx.Request], httpx.Response]


def anthropic_reply(text: str, stop: str = "end_turn", output: int = 5) -> bytes:
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"model": "real", "usage": {"input_tokens": 3, "output_tokens": 0}}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": output}},
        {"type": "message_stop"},
    ]
    return b"".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in events)


def openai_reply(text: str, stop: str = "stop") -> bytes:
    chunks: list[dict[str, Any]] = [
        {"model": "real", "choices": [{"index": 0, "delta": {"content": text}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": stop}]},
    ]
    return b"".join(f"data: {json.dumps(c)}\n\n".encode() for c in chunks) + b"data: [DONE]\n\n"


def call(respond: Respond, endpoint: Endpoint = ANTHROPIC, request: SummaryRequest = REQUEST) -> Summary:
    return asyncio.run(summarize(endpoint, request, transport=httpx.MockTransport(respond)))


def fails(respond: Respond, endpoint: Endpoint = ANTHROPIC) -> CallFailed:
    """The failure, which is one line that names the host, gives a remedy, and does not hold the key."""
    with pytest.raises(CallFailed) as caught:
        call(respond, endpoint)
    message = str(caught.value)
    assert "\n" not in message
    assert endpoint.host in message
    assert ";" in message
    assert SECRET not in message + repr(caught.value)
    assert len(message) < 500
    assert caught.value.exit_code == ExitCode.ENDPOINT
    return caught.value


def status(code: int, body: object = b"", **headers: str) -> Respond:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda request: httpx.Response(code, content=content, headers=headers)


def raising(error: Exception) -> Respond:
    def respond(request: httpx.Request) -> httpx.Response:
        raise error

    return respond


# What is sent --------------------------------------------------------------------------------------------------------


def test_anthropic_call() -> None:
    sent: list[httpx.Request] = []

    def respond(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(200, content=anthropic_reply(" the summary \n"))

    summary = call(respond)
    assert (summary.text, summary.model, summary.stop_reason) == ("the summary", "real", "end_turn")
    assert (summary.usage.input_tokens, summary.usage.output_tokens) == (3, 5)
    assert 0 <= summary.seconds < 10
    assert str(sent[0].url) == "http://claude.test/v1/messages"
    assert sent[0].headers["x-api-key"] == SECRET
    assert "authorization" not in sent[0].headers
    assert sent[0].headers["anthropic-version"] == "2023-06-01"
    body = json.loads(sent[0].content)
    assert (body["model"], body["max_tokens"], body["system"]) == ("asked", 1000, "Be terse.")
    assert SECRET.encode() not in sent[0].content


def test_openai_call() -> None:
    sent: list[httpx.Request] = []

    def respond(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(200, content=openai_reply("the summary"))

    assert call(respond, OPENAI).text == "the summary"
    assert str(sent[0].url) == "http://gpt.test/v1/chat/completions"
    assert sent[0].headers["authorization"] == f"Bearer {SECRET}"
    assert "x-api-key" not in sent[0].headers


def test_bearer_and_no_key() -> None:
    headers: list[httpx.Headers] = []

    def respond(request: httpx.Request) -> httpx.Response:
        headers.append(request.headers)
        return httpx.Response(200, content=anthropic_reply("x"))

    call(respond, Endpoint("anthropic", "http://claude.test", "m", ApiKey(SECRET), bearer=True))
    call(respond, Endpoint("anthropic", "http://claude.test", "m"))
    assert headers[0]["authorization"] == f"Bearer {SECRET}"
    assert not {"authorization", "x-api-key"} & set(headers[1])


def test_the_other_name_of_the_limit_is_tried_when_asked_for() -> None:
    bodies: list[dict[str, Any]] = []

    def respond(request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(request.content))
        if "max_tokens" in bodies[-1]:
            message = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
            return httpx.Response(400, json={"error": {"message": message}})
        return httpx.Response(200, content=openai_reply("fine"))

    assert call(respond, OPENAI).text == "fine"
    assert [("max_tokens" in body, "max_completion_tokens" in body) for body in bodies] == [
        (True, False),
        (False, True),
    ]


def test_events_are_told_as_they_come() -> None:
    released: list[int] = []

    async def slow() -> AsyncIterator[bytes]:
        reply = anthropic_reply("abc")
        for place in range(0, len(reply), 50):
            released.append(place)
            yield reply[place : place + 50]
            await asyncio.sleep(0.001)

    seen: list[tuple[ReplyEvent, int]] = []
    transport = httpx.MockTransport(lambda request: httpx.Response(200, content=slow()))
    asyncio.run(summarize(ANTHROPIC, REQUEST, lambda e: seen.append((e, len(released))), transport=transport))
    places = [count for event, count in seen if isinstance(event, TextDelta)]
    assert places
    assert places[0] < len(released)  # not only at the end


def test_notes_reach_the_summary() -> None:
    used = {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "Read", "input": {}}]}
    request = SummaryRequest(None, [used], [], 10)
    summary = call(lambda r: httpx.Response(200, content=anthropic_reply("x")), request=request)
    assert summary.notes == ("no schema in the session for Read: declared by name only",)


OPENAI_TOO_LONG = "This model's maximum context length is 8192 tokens. Your messages resulted in 9001 tokens."
ANTHROPIC_TOO_LONG = "prompt is too long: 208310 tokens > 200000 maximum"

# What fails before a reply -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (httpx.ConnectError("[Errno 111] Connection refused"), "refused"),
        (httpx.ConnectError("All connection attempts failed"), "refused"),
        (httpx.ConnectError("[Errno -2] Name or service not known"), "unresolved"),
        (httpx.ConnectError("[Errno 8] nodename nor servname provided, or not known"), "unresolved"),
        (httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed"), "tls"),
        (httpx.ConnectTimeout("timed out"), "unreachable"),
        (httpx.ReadTimeout("timed out"), "timeout"),
        (httpx.WriteTimeout("timed out"), "timeout"),
        (httpx.ProxyError("407"), "unreachable"),
        (httpx.RemoteProtocolError("Server disconnected"), "disconnected"),
        (httpx.ReadError("reset"), "disconnected"),
        (httpx.LocalProtocolError(f"Illegal header value {SECRET}"), "unreachable"),
        (httpx.UnsupportedProtocol("ftp"), "unreachable"),
        (httpx.InvalidURL("odd"), "unreachable"),
    ],
)
def test_transport_failures(error: Exception, kind: str) -> None:
    assert fails(raising(error)).kind == kind


def test_timeouts() -> None:
    async def timeout() -> httpx.Timeout:
        async with open_client(Endpoint("openai", "http://gpt.test", "m", read_timeout=2.5), None) as client:
            return client.timeout

    assert asyncio.run(timeout()) == httpx.Timeout(2.5, connect=10)


def test_timeout_tells_how_long() -> None:
    endpoint = Endpoint("openai", "http://gpt.test", "m", read_timeout=2.5)
    assert "nothing for 2.5 s" in str(fails(raising(httpx.ReadTimeout("")), endpoint))


@pytest.mark.parametrize(
    ("code", "body", "kind", "words"),
    [
        (401, {"error": {"message": f"Incorrect key {SECRET}."}}, "auth", "key [key].); check ANTHROPIC_API_KEY"),
        (403, {"type": "error", "error": {"type": "permission_error", "message": "no"}}, "auth", "403: no"),
        (
            404,
            {"error": {"code": 404, "message": "File Not Found", "type": "not_found_error"}},
            "not_found",
            "/v1/messages",
        ),
        (
            404,
            {"error": {"type": "not_found_error", "message": "model: asked"}},
            "not_found",
            "does not know the model asked",
        ),
        (405, b"", "not_found", "nothing at /v1/messages (405)"),
        (400, {"error": "odd"}, "rejected", "400: odd"),
        (
            400,
            {"type": "error", "error": {"message": ANTHROPIC_TOO_LONG}},
            "too_long",
            "208310 tokens, its limit is 200000",
        ),
        (
            400,
            {"error": {"code": "context_length_exceeded", "message": OPENAI_TOO_LONG}},
            "too_long",
            "9001 tokens, its limit is 8192",
        ),
        (
            400,
            {
                "error": {
                    "code": 400,
                    "type": "exceed_context_size_error",
                    "message": "x",
                    "n_prompt_tokens": 5031,
                    "n_ctx": 2048,
                }
            },
            "too_long",
            "5031 tokens, its limit is 2048",
        ),
        (413, {"error": {"type": "request_too_large", "message": "too big"}}, "too_long", "too long"),
        (413, b"<html>", "too_long", "413"),
        (429, {"error": {"type": "rate_limit_error", "message": "slow down"}}, "rate_limited", "429: slow down"),
        (
            503,
            {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}},
            "overloaded",
            "Loading model",
        ),
        (
            529,
            {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
            "overloaded",
            "Overloaded",
        ),
        (500, b"Internal Server Error", "server", "500: Internal Server Error"),
        (500, b"", "server", "(500)"),
        (502, b"\xff\xfe\x1b[31mred\x07\nsecond line" + b"x" * 5000, "server", "502: "),
        (418, [1, 2], "rejected", "418: [1, 2]"),
    ],
)
def test_status_failures(code: int, body: object, kind: str, words: str) -> None:
    failed = fails(status(code, body))
    assert (failed.kind, words in str(failed)) == (kind, True), failed
    assert str(failed).isprintable()


def test_a_missing_key_is_not_a_wrong_key() -> None:
    without = Endpoint("openai", "http://gpt.test", "m")
    assert "requires a key (401); set OPENAI_API_KEY" in str(fails(status(401), without))
    assert "refused the key (401); check OPENAI_API_KEY" in str(fails(status(401), OPENAI))


def test_retry_after_is_told() -> None:
    assert "try again in 30 s" in str(fails(status(429, **{"retry-after": "30"})))
    assert "try again later" in str(fails(status(429, **{"retry-after": "Wed, 21 Oct"})))


def test_redirects_are_not_followed() -> None:
    asked: list[str] = []

    def respond(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        return httpx.Response(307, headers={"location": "http://elsewhere.test/v1/messages"})

    failed = fails(respond)
    assert failed.kind == "redirect"
    assert "http://elsewhere.test" in str(failed)
    assert asked == ["claude.test"]


def test_compressed_errors_are_read() -> None:
    body = gzip.compress(json.dumps({"error": {"message": "Invalid model name"}}).encode())
    assert "400: Invalid model name" in str(fails(status(400, body, **{"content-encoding": "gzip"})))


def test_endless_error_bodies_are_cut() -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 1000
            await asyncio.sleep(0)

    assert fails(lambda request: httpx.Response(500, content=endless())).kind == "server"


def in_stream(type_: str, message: str) -> bytes:
    """An error inside a stream."""
    error = {"type": "error", "error": {"type": type_, "message": message}}
    return f"event: error\ndata: {json.dumps(error)}\n\n".encode()


# What fails inside a reply -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        (anthropic_reply("half", "max_tokens"), "cut", "after 5 tokens (max_tokens)"),
        (anthropic_reply("half", "end_turn", 1000), "cut", "after 1000 tokens"),
        (anthropic_reply("half", "model_context_window_exceeded"), "cut", "model_context_window_exceeded"),
        (anthropic_reply("I cannot", "refusal"), "refusal", "refused"),
        (anthropic_reply("Let me look", "tool_use"), "tool_call", "called a tool"),
        (anthropic_reply(" \n\t"), "empty", "returned no text"),
        (anthropic_reply("<think>hm</think>\n"), "thinking_only", "wrote only thinking"),
        (anthropic_reply("<think>hm"), "thinking_only", "wrote only thinking"),
        (b"", "empty", "empty reply"),
        (b": ping\n\n", "empty", "empty reply"),
        (in_stream("overloaded_error", "Overloaded"), "overloaded", "Overloaded"),
        (in_stream("api_error", f"{SECRET}\x1b]0;x\n"), "error", "[key]"),
        (in_stream("", "prompt is too long: 9 tokens > 8 maximum"), "too_long", "9 tokens"),
        (b'{"choices": []}', "malformed", "not a message"),
        (b"data: nonsense\n\ndata: {}\n\n", "malformed", "nonsense"),
    ],
)
def test_replies_that_are_no_summary(body: bytes, kind: str, words: str) -> None:
    failed = fails(lambda request: httpx.Response(200, content=body))
    assert (failed.kind, words in str(failed)) == (kind, True), failed
    assert str(failed).isprintable()


def test_blocks_that_are_written_at_the_same_time() -> None:
    pieces = [(1, "second "), (0, "first, "), (1, "block"), (0, "then ")]
    events = [
        {"type": "content_block_delta", "index": i, "delta": {"type": "text_delta", "text": t}} for i, t in pieces
    ]
    body = b"".join(f"data: {json.dumps(event)}\n\n".encode() for event in [*events, {"type": "message_stop"}])
    assert call(lambda request: httpx.Response(200, content=body)).text == "first, then second block"


def test_endless_replies_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b": ping\n\n" * 100
            await asyncio.sleep(0)

    monkeypatch.setattr("context_tui.summarizer.client.MAX_REPLY_BYTES", 10_000)
    assert fails(lambda request: httpx.Response(200, content=endless())).kind == "malformed"


def test_thinking_left_in_the_text_is_not_part_of_it() -> None:
    summary = call(lambda request: httpx.Response(200, content=anthropic_reply("<think>\nhm\n</think>\n\nThe summary")))
    assert (summary.text, summary.thinking_chars) == ("The summary", 4)


def test_a_web_page_is_no_reply() -> None:
    page = httpx.Response(
        200, content=b"<html>data: {}\n\n</html>", headers={"content-type": "text/html; charset=utf-8"}
    )
    assert fails(lambda request: page).kind == "malformed"


def test_bad_compression() -> None:
    assert fails(status(200, b"not gzip", **{"content-encoding": "gzip"})).kind == "malformed"


def compressed(body: bytes, coding: str, code: int = 200) -> Respond:
    """A reply whose body arrives in pieces, as from a socket."""

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 100):
            yield body[start : start + 100]

    return lambda request: httpx.Response(code, content=pieces(), headers={"content-encoding": coding})


@pytest.mark.parametrize(("coding", "compress"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_compressed_replies_are_read(coding: str, compress: Callable[[bytes], bytes]) -> None:
    text = "".join(f"{n:x}" for n in range(50_000))  # more than one piece
    assert call(compressed(compress(anthropic_reply(text)), coding)).text == text
    body = compress(json.dumps({"error": {"message": "Invalid model name"}}).encode())
    assert "400: Invalid model name" in str(fails(compressed(body, coding, 400)))
    assert call(compressed(anthropic_reply("plain"), "identity")).text == "plain"
    assert fails(compressed(b"not compressed", coding)).kind == "malformed"


@pytest.mark.slow
@pytest.mark.parametrize("code", [200, 400])
def test_a_small_reply_cannot_fill_the_memory(code: int) -> None:
    once = gzip.compress(b"\n" * 200_000_000, 1)
    tracemalloc.start()
    try:
        failed = fails(compressed(gzip.compress(once), "gzip, gzip", code))
        assert failed.kind == "malformed" and "cannot be decompressed" in str(failed)
        fails(compressed(once, "gzip", code))
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


def test_the_time_limit_holds_while_a_reply_is_decompressed() -> None:
    once = gzip.compress(b"\n" * 60_000_000, 1)
    assert fails(compressed(once, "gzip"), replace(ANTHROPIC, total_timeout=0.01)).kind == "timeout"


def test_a_broken_connection_keeps_the_draft() -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield anthropic_reply("so far")[:-40]
        raise httpx.ReadError("reset")

    failed = fails(lambda request: httpx.Response(200, content=broken()))
    assert (failed.kind, failed.partial) == ("disconnected", "so far")


def test_a_connection_broken_after_the_end_does_not_matter() -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield openai_reply("whole").removesuffix(b"data: [DONE]\n\n")
        raise httpx.RemoteProtocolError("incomplete chunked read")

    assert call(lambda request: httpx.Response(200, content=broken()), OPENAI).text == "whole"


@pytest.mark.parametrize("breaks", [False, True])
def test_the_key_is_not_shown_by_an_event_that_the_end_leaves_unfinished(breaks: bool) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield openai_reply("whole").removesuffix(b"data: [DONE]\n\n")
        yield f'data: {{"error": {{"type": "of {SECRET}", "message": "no credit left for {SECRET}"}}}}'.encode()
        if breaks:
            raise httpx.ReadError("reset")

    seen: list[ReplyEvent] = []
    transport = httpx.MockTransport(lambda request: httpx.Response(200, content=body()))
    with pytest.raises(CallFailed, match=re.escape("no credit left for [key]")) as failed:
        asyncio.run(summarize(OPENAI, REQUEST, seen.append, transport=transport))
    assert SECRET not in f"{seen}{failed.value}"


def test_nothing_is_read_after_the_end() -> None:
    async def hanging() -> AsyncIterator[bytes]:
        yield anthropic_reply("whole")
        await asyncio.sleep(60)

    started = time.monotonic()
    assert call(lambda request: httpx.Response(200, content=hanging())).text == "whole"
    assert time.monotonic() - started < 5


def test_cancelling_at_any_moment() -> None:
    async def hanging() -> AsyncIterator[bytes]:
        yield anthropic_reply("so far")[:-40]
        await asyncio.sleep(60)

    async def respond(request: httpx.Request) -> httpx.Response:
        if request.url.host == "silent.test":
            await asyncio.sleep(60)
        return httpx.Response(200, content=hanging())

    async def cancelled(endpoint: Endpoint) -> None:
        task = asyncio.create_task(summarize(endpoint, REQUEST, transport=httpx.MockTransport(respond)))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 2)

    asyncio.run(cancelled(ANTHROPIC))
    asyncio.run(cancelled(Endpoint("anthropic", "http://silent.test", "m")))


def test_leaving_the_stream_early_closes_it() -> None:
    closed: list[bool] = []

    async def body() -> AsyncIterator[bytes]:
        try:
            yield anthropic_reply("so far")[:-40]
            await asyncio.sleep(60)
        finally:
            closed.append(True)

    async def first() -> ReplyEvent:
        events = stream_events(
            ANTHROPIC, REQUEST, transport=httpx.MockTransport(lambda r: httpx.Response(200, content=body()))
        )
        event = await anext(events)
        await events.aclose()
        return event

    assert asyncio.run(first()) == ReplyModel("real")
    assert closed


# Several endpoints ---------------------------------------------------------------------------------------------------


def test_fallback() -> None:
    def respond(request: httpx.Request) -> httpx.Response:
        if request.url.host == "claude.test":
            return httpx.Response(529)
        return httpx.Response(200, content=openai_reply("from the second"))

    seen: list[ReplyEvent] = []
    transport = httpx.MockTransport(respond)
    summary = asyncio.run(summarize_with_fallback([ANTHROPIC, OPENAI], REQUEST, seen.append, transport=transport))
    assert summary.text == "from the second"
    assert "claude.test is overloaded" in summary.notes[0]
    note = next(event for event in seen if isinstance(event, ReplyNote))
    assert note.failed
    assert "now asking asked at gpt.test" in note.text


def test_all_fail() -> None:
    transport = httpx.MockTransport(lambda r: httpx.Response(529 if r.url.host == "claude.test" else 401))
    with pytest.raises(CallFailed) as caught:
        asyncio.run(summarize_with_fallback([ANTHROPIC, OPENAI], REQUEST, transport=transport))
    assert caught.value.kind == "auth"
    assert "claude.test is overloaded" in str(caught.value)
    assert "gpt.test refused the key" in str(caught.value)
    with pytest.raises(SummarizerError, match="no model to ask"):
        asyncio.run(summarize_with_fallback([], REQUEST))


# The key -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plain", [SECRET, f"Bearer {SECRET}"])
def test_no_part_of_the_key_is_shown(plain: str) -> None:
    encoded = base64.b64encode(plain.encode()).decode()
    for echo in (SECRET[:18] + "…", SECRET[:14] + "****", encoded, encoded[:24] + "..."):
        body = json.dumps({"error": {"message": f"Incorrect API key: {echo}"}})
        failed = str(fails(status(401, body.encode())))
        assert "[key]" in failed and SECRET[8:14] not in failed and encoded[12:22] not in failed
    assert ANTHROPIC.redact("keys begin with sk-") == "keys begin with sk-"
    assert replace(ANTHROPIC, key=ApiKey("local")).redact("a loc, a local model") == "a loc, a [key] model"


def test_the_key_is_never_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        call(lambda request: httpx.Response(200, content=anthropic_reply("x")))
    assert SECRET not in caplog.text


@pytest.mark.parametrize("name", ["HTTP_PROXY", "ALL_PROXY"])
def test_bad_proxy_settings(name: str) -> None:
    environ = {name: "nonsense://bob:hush@x"}
    with pytest.raises(SummarizerError, match=f"{name} is not the address of a proxy") as caught:
        asyncio.run(
            summarize_with_fallback([resolve_endpoint("openai", None, "http://gpt.test", environ=environ)], REQUEST)
        )
    assert "hush" not in str(caught.value)


def test_nobody_listens() -> None:
    with pytest.raises(CallFailed) as caught:
        asyncio.run(summarize_with_fallback([Endpoint("openai", "http://127.0.0.1:9", "m")], REQUEST))
    assert caught.value.kind == "refused"
    assert "127.0.0.1:9" in str(caught.value)


def test_an_api_is_one_record(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[httpx.Request] = []

    def respond(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(200, content=openai_reply("the summary"))

    made_up = replace(
        APIS["openai"],
        path="/ask",
        limit_fields=("most",),
        key_headers={"THIRD_KEY": "x-key"},
        default_model="third-1",
        base_url="http://third.test",
        headers={"x-version": "3"},
    )
    monkeypatch.setitem(cast(dict[str, Api], APIS), "third", made_up)
    endpoint = resolve_endpoint("third", environ={"THIRD_KEY": SECRET, "CONTEXT_TUI_CONFIG": os.devnull})
    assert call(respond, endpoint).text == "the summary"
    assert str(sent[0].url) == "http://third.test/v1/ask"
    assert (sent[0].headers["x-key"], sent[0].headers["x-version"]) == (SECRET, "3")
    assert "authorization" not in sent[0].headers and "anthropic-version" not in sent[0].headers
    body = json.loads(sent[0].content)
    assert (body["model"], body["most"]) == ("third-1", 1000)
    assert count_suspected_secrets("third", REQUEST) == {}
    assert "third" in fails(status(401), endpoint).args[0] and endpoint.key_name == "THIRD_KEY"
    with pytest.raises(SummarizerError, match=r"no key for http://third\.test; set THIRD_KEY"):
        resolve_endpoint("third", environ={"CONTEXT_TUI_CONFIG": os.devnull})
