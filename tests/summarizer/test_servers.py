"""Servers on this machine that misbehave: what is asked of whom, how long it may take, and what the error advises."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from context_tui.errors import SummarizerError
from context_tui.summarizer.client import summarize
from context_tui.summarizer.endpoint import Endpoint, Proxy
from context_tui.summarizer.failures import CallFailed
from context_tui.summarizer.reply import Summary
from context_tui.summarizer.request import SummaryRequest
from context_tui.summarizer.settings import resolve_endpoint

from .test_client import anthropic_reply, openai_reply

REQUEST = SummaryRequest(None, [{"role": "user", "content": "Summarise."}], [], 1000)

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def call(serve: Serve, kind: str = "anthropic", scheme: str = "http", **more: Any) -> Summary:
    """Ask a server on this machine, within 20 seconds."""

    async def guarded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def main() -> Summary:
        server = await asyncio.start_server(guarded, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        if "through" in more:
            more.pop("through")
            more["proxy"] = Proxy(f"http://bob:hush@127.0.0.1:{port}")
            url = "http://far.test/v1"
        else:
            url = f"{scheme}://127.0.0.1:{port}"
        endpoint = Endpoint("openai" if kind == "openai" else "anthropic", url, "m", **more)
        try:
            return await asyncio.wait_for(summarize(endpoint, REQUEST), 20)
        finally:
            server.close()

    return asyncio.run(main())


def fails(serve: Serve, kind: str = "anthropic", scheme: str = "http", **more: Any) -> CallFailed:
    """The failure: one line of bounded length, with what to do."""
    with pytest.raises(CallFailed) as caught:
        call(serve, kind, scheme, **more)
    message = str(caught.value)
    assert message.isprintable() and len(message) < 500 and ";" in message
    return caught.value


async def asked(reader: asyncio.StreamReader) -> bytes:
    """The head of the request, once all of it has come."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    await reader.readexactly(length)
    return head


def answering(body: bytes, status: int = 200, content_type: str = "text/event-stream") -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asked(reader)
        head = f"HTTP/1.1 {status} X\r\ncontent-type: {content_type}\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()

    return serve


def test_an_endless_reply_has_a_time_limit() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asked(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + anthropic_reply("so far")[:-40])
        while True:
            writer.write(b": ping\n\n")
            await writer.drain()
            await asyncio.sleep(0.01)

    failed = fails(serve, total_timeout=0.5)
    assert (failed.kind, failed.partial) == ("timeout", "so far")
    assert "did not finish within 0.5 s; raise total_timeout" in str(failed)


@pytest.mark.parametrize("content_type", ["text/html; charset=utf-8", "text/plain"])
def test_a_web_page(content_type: str) -> None:
    failed = fails(answering(b"\n<!DOCTYPE html><html><body>Welcome</body></html>", 200, content_type))
    assert failed.kind == "malformed"
    assert "answered with a web page; is /v1/messages the path of its API?" in str(failed)
    failed = fails(answering(b"<html>no entry</html>", 403, content_type))
    assert "answered with a web page (403); is /v1/messages" in str(failed)
    failed = fails(answering(b"<html>no entry</html>", 404, content_type), "openai")
    assert "has nothing at /v1/chat/completions (404: a web page)" in str(failed)
    assert "use the summarizer anthropic" in str(failed)
    assert "failed (502: a web page)" in str(fails(answering(b"<html>oh</html>", 502, content_type)))


@pytest.mark.parametrize("streamed", [True, False])
def test_the_other_api(streamed: bool) -> None:
    message = json.dumps({"type": "message", "content": [{"type": "text", "text": "x"}]}).encode()
    completion = json.dumps({"object": "chat.completion", "choices": [{"message": {"content": "x"}}]}).encode()
    failed = fails(answering(openai_reply("x") if streamed else completion), "anthropic")
    assert failed.kind == "wrong_api"
    assert "in the format of the other API; use the summarizer openai" in str(failed)
    failed = fails(answering(anthropic_reply("x") if streamed else message), "openai")
    assert failed.kind == "wrong_api"
    assert "in the format of the other API; use the summarizer anthropic" in str(failed)


def test_tls_to_a_plain_port() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()

    failed = fails(serve, scheme="https")
    assert failed.kind == "tls" and "does not speak TLS; use http:// in" in str(failed)


@pytest.mark.parametrize(
    "answer",
    [
        b"\x15\x03\x01\x00\x02\x02\x46",  # an alert, as TLS has it
        b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n",
        b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/html\r\n\r\n"
        b"<html><center>The plain HTTP request was sent to HTTPS port</center></html>",
    ],
)
def test_plain_http_to_a_port_of_tls(answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asked(reader)
        writer.write(answer)
        await writer.drain()

    failed = fails(serve)
    assert failed.kind == "tls" and "requires TLS; use https:// in" in str(failed)


def test_a_port_that_says_nothing_may_be_one_of_tls() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asked(reader)

    failed = fails(serve)
    assert failed.kind == "disconnected" and "try again, or use https:// in the base URL" in str(failed)

    async def begins(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asked(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\ndata: {")
        await writer.drain()

    assert "https" not in str(fails(begins))


@pytest.mark.parametrize("status", [400, 404, 418, 500, 503])
def test_what_a_server_says_is_cut_to_a_line(status: int) -> None:
    body = json.dumps({"error": {"message": "\x1b]0;x\x07model\r\n" + "long " * 9000, "type": "x" * 9000}}).encode()
    failed = fails(answering(body, status))
    assert "…" in str(failed)
    huge = f"prompt is too long: {'9' * 5000} tokens > {'8' * 5000} maximum"
    assert fails(answering(json.dumps({"error": {"message": huge}}).encode(), 400)).kind == "too_long"


def test_a_proxy_is_used_where_it_is_named() -> None:
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await asked(reader))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + anthropic_reply("by way of a proxy"))
        await writer.drain()

    assert call(serve, through=True).text == "by way of a proxy"
    assert heads[0].startswith(b"POST http://far.test/v1/messages ")
    failed = fails(answering(b"", 407), through=True)
    assert "the proxy 127.0.0.1:" in str(failed) and "hush" not in str(failed)


def test_the_environment_changes_nothing_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert call(answering(anthropic_reply("straight"))).text == "straight"


@pytest.mark.parametrize("empty", ["", "  "])
def test_an_empty_address_is_not_the_services_own(empty: str) -> None:
    key = {"OPENAI_API_KEY": "x"}
    with pytest.raises(SummarizerError, match="--base-url is empty; give an address"):
        resolve_endpoint("openai", base_url=empty, environ=key)
    with pytest.raises(SummarizerError, match="OPENAI_BASE_URL is empty; give an address"):
        resolve_endpoint("openai", environ={**key, "OPENAI_BASE_URL": empty})
    with pytest.raises(SummarizerError, match="the name of the model is empty"):
        resolve_endpoint("openai", empty, environ=key)
