"""Calls of a model endpoint. This and ``connection`` load httpx: import them where a call is made, not before."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import httpx

from context_tui.errors import SummarizerError
from context_tui.summarizer import anthropic, openai
from context_tui.summarizer.connection import connect, transport_failure
from context_tui.summarizer.decoder import Decoder
from context_tui.summarizer.endpoint import Endpoint
from context_tui.summarizer.events import Event, Failure, Note
from context_tui.summarizer.failures import CallFailed, server_error, status_failure
from context_tui.summarizer.reply import Reply, Summary
from context_tui.summarizer.request import SummaryRequest
from context_tui.summarizer.wire import declared_tools, encode

MAX_ERROR_BYTES = 64 * 1024
MAX_REPLY_BYTES = 64 * 1024 * 1024
"""More than any summary takes, keep-alives and envelopes included: an endless reply must not fill the memory."""

OnEvent = Callable[[Event], None]


async def stream(
    endpoint: Endpoint, request: SummaryRequest, *, transport: httpx.AsyncBaseTransport | None = None
) -> AsyncGenerator[Event, None]:
    """Send the request and yield the reply's events as they come; the last is a ``Failure`` if the reply is not whole.

    Closing the iterator or cancelling the task closes the connection at once; nothing waits for the server.

    Raises:
        CallFailed: there was no reply, or the connection broke inside it.
    """
    for note in declared_tools(request)[1]:
        yield Note(note)
    # The limit's name is the one thing that compatible servers disagree on: asked wrongly, they say which they want.
    limits = list(openai.LIMITS if endpoint.kind == "openai" else ("",))
    while limits:
        limit = limits.pop(0)
        decoder = anthropic.AnthropicDecoder() if endpoint.kind == "anthropic" else openai.OpenAIDecoder()
        try:
            async with (
                connect(endpoint, transport) as client,
                client.stream("POST", endpoint.url, content=_body(endpoint, request, limit)) as response,
            ):
                if response.status_code == 200:
                    async with aclosing(_events(response, decoder, endpoint)) as events:
                        async for event in events:
                            yield event
                    return
                text = endpoint.redacted((await _read(response)).decode("utf-8", "replace"))
                if not (limits and limits[0] in server_error(text).message):
                    raise _refused(response, endpoint, text)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            if decoder.complete:  # all was said before the connection broke
                for event in decoder.finish():
                    yield event
                return
            raise transport_failure(error, endpoint) from None


async def summarize(
    endpoint: Endpoint,
    request: SummaryRequest,
    on_event: OnEvent | None = None,
    *,
    transport: httpx.AsyncBaseTransport | None = None,
) -> Summary:
    """One call of one endpoint.

    Args:
        endpoint: who is asked.
        request: what is asked.
        on_event: told each event as it comes, for progress and a live draft.
        transport: another way to carry requests, for tests.

    Raises:
        CallFailed: there is no whole summary; ``kind`` says why, ``partial`` holds the text that came.
    """
    started = time.monotonic()
    reply = Reply()
    try:
        async with aclosing(stream(endpoint, request, transport=transport)) as events:
            async for event in events:
                reply.add(event)
                if on_event is not None:
                    on_event(event)
    except CallFailed as failed:
        failed.partial = reply.text
        raise
    return reply.summary(endpoint.host, endpoint.model, request.max_tokens, time.monotonic() - started)


async def summarize_with_fallback(
    endpoints: Sequence[Endpoint],
    request: SummaryRequest,
    on_event: OnEvent | None = None,
    *,
    transport: httpx.AsyncBaseTransport | None = None,
) -> Summary:
    """Ask the first endpoint and, when that fails, the next: agent-sdk asks a small model, then the session's own.

    A ``Note`` with ``restart`` tells of each change of endpoint.

    Raises:
        CallFailed: all of them failed; the last one's failure, with the earlier ones in its text.
    """
    failures: list[CallFailed] = []
    for endpoint in endpoints:
        if failures and on_event is not None:
            on_event(Note(f"{failures[-1]}; now asking {endpoint.model} at {endpoint.host}", restart=True))
        try:
            summary = await summarize(endpoint, request, on_event, transport=transport)
        except CallFailed as failed:
            failures.append(failed)
        else:
            return replace(summary, notes=(*map(str, failures), *summary.notes))
    if not failures:
        raise SummarizerError("no endpoint to ask; name a summarizer")
    last = failures[-1]
    text = " | then: ".join(str(failed) for failed in failures)
    raise CallFailed(last.kind, text, last.partial)


def _body(endpoint: Endpoint, request: SummaryRequest, limit: str) -> bytes:
    body: dict[str, Any]
    if endpoint.kind == "anthropic":
        body = anthropic.body(request, endpoint.model)
    else:
        body = openai.body(request, endpoint.model, limit)
    return encode(body)


async def _events(response: httpx.Response, decoder: Decoder, endpoint: Endpoint) -> AsyncGenerator[Event, None]:
    """The decoded body; reading stops at the reply's own end."""
    if "text/html" in response.headers.get("content-type", ""):
        yield Failure("malformed", "", "a web page")
        return
    size = 0
    async for chunk in response.aiter_bytes():
        size += len(chunk)
        for event in decoder.feed(chunk):
            yield _clean(event, endpoint)
        if decoder.ended:
            return
        if size > MAX_REPLY_BYTES:
            yield Failure("malformed", "", f"more than {MAX_REPLY_BYTES} bytes")
            return
    for event in decoder.finish():
        yield _clean(event, endpoint)


def _clean(event: Event, endpoint: Endpoint) -> Event:
    return replace(event, message=endpoint.redacted(event.message)) if isinstance(event, Failure) else event


async def _read(response: httpx.Response) -> bytes:
    """The body of an error, decompressed, as far as it matters."""
    body = b""
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > MAX_ERROR_BYTES:
            break
    return body[:MAX_ERROR_BYTES]


def _refused(response: httpx.Response, endpoint: Endpoint, text: str) -> CallFailed:
    headers = response.headers
    location = endpoint.redacted(headers.get("location", ""))
    return status_failure(
        endpoint, response.status_code, text, retry_after=headers.get("retry-after", ""), location=location
    )
