"""HTTP calls to a model endpoint; import this module only to make a call, because it loads httpx."""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import aclosing

import httpx

from context_tui.errors import SummarizerError
from context_tui.summarizer.decoder import Decoder
from context_tui.summarizer.endpoint import BEARER_HEADER, ApiKey, Endpoint
from context_tui.summarizer.failures import (
    CallFailed,
    build_speaks_tls_failure,
    build_status_failure,
    format_one_line,
    is_web_page,
    parse_error_body,
)
from context_tui.summarizer.payload import build_payload
from context_tui.summarizer.reply import Reply, ReplyEvent, ReplyFailure, ReplyNote, Summary
from context_tui.summarizer.request import SummaryRequest, declare_tools

CONNECT_TIMEOUT = 10.0
"""Seconds until a server that does not accept the connection counts as unreachable."""

_DNS_ERRORS = ("Name or service", "name resolution", "nodename", "getaddrinfo", "No address")
_TLS_ERRORS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "record layer failure", "PACKET_LENGTH_TOO_LONG")

MAX_ERROR_BYTES = 64 * 1024
_PIECE_BYTES = 64 * 1024
MAX_REPLY_BYTES = 64 * 1024 * 1024
"""Limit on an endless reply: more than any summary needs, keep-alives and envelopes included."""

EventListener = Callable[[ReplyEvent], None]


async def stream_events(
    endpoint: Endpoint, request: SummaryRequest, *, transport: httpx.AsyncBaseTransport | None = None
) -> AsyncGenerator[ReplyEvent, None]:
    """Send the request and yield the events of the reply, the last one a ``ReplyFailure`` if the reply is incomplete.

    Closing the iterator or cancelling the task closes the connection immediately, without waiting for the server.

    Raises CallFailed if there was no reply, or the connection broke before its end.
    """
    for note in declare_tools(request)[1]:
        yield ReplyNote(note)
    # Compatible servers disagree on the name of the output limit; an error names the one that they expect.
    limit_fields = list(endpoint.api.limit_fields)
    while limit_fields:
        limit_field = limit_fields.pop(0)
        has_response = False
        decoder = endpoint.api.decoder(endpoint.redact)
        # In a thread, as masking a long history is slow.
        payload = await asyncio.to_thread(build_payload, endpoint, request, limit_field)
        try:
            async with (
                open_client(endpoint, transport) as client,
                client.stream("POST", endpoint.url, content=payload) as response,
            ):
                has_response = True
                _bound_decompression(response)
                if response.status_code == 200:
                    async with aclosing(_decode_events(response, decoder)) as events:
                        async for event in events:
                            yield event
                    return
                text = endpoint.redact((await _read_error_body(response)).decode("utf-8", "replace"))
                if not (limit_fields and limit_fields[0] in parse_error_body(text).message):
                    raise _build_refusal(response, endpoint, text)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            if decoder.complete:  # the reply was complete before the connection broke
                for event in decoder.finish():
                    yield event
                return
            raise build_transport_failure(error, endpoint, has_response) from None


async def summarize(
    endpoint: Endpoint,
    request: SummaryRequest,
    on_event: EventListener | None = None,
    *,
    transport: httpx.AsyncBaseTransport | None = None,
) -> Summary:
    """Request a summary from one endpoint, and wait until it is complete.

    Raises CallFailed if the summary is missing or incomplete; ``partial`` holds the text received so far.

    Args:
        on_event: called with each event as it arrives, to show progress and a live draft.
        transport: replacement for the network, for tests.
    """
    started = time.monotonic()
    reply = Reply()
    try:
        async with (
            asyncio.timeout(endpoint.total_timeout),
            aclosing(stream_events(endpoint, request, transport=transport)) as events,
        ):
            async for event in events:
                reply.add(event)
                if on_event is not None:
                    on_event(event)
    except TimeoutError:
        reason = f"{endpoint.host} did not finish within {endpoint.total_timeout:g} s"
        remedy = "raise total_timeout in the configuration file, or use a faster model"
        raise CallFailed("timeout", f"{reason}; {remedy}", reply.text) from None
    except CallFailed as failure:
        failure.partial = reply.text
        raise
    return reply.build_summary(endpoint, request.max_tokens, time.monotonic() - started)


async def summarize_with_fallback(
    endpoints: Sequence[Endpoint],
    request: SummaryRequest,
    on_event: EventListener | None = None,
    *,
    transport: httpx.AsyncBaseTransport | None = None,
) -> Summary:
    """Request a summary from each endpoint in turn until one succeeds.

    agent-sdk, for example, tries a small model and then the session's own. A ``ReplyNote`` with ``failed`` announces
    each further attempt.

    Raises CallFailed if every endpoint failed; the message states all failures in order.
    """
    failures: list[CallFailed] = []
    for endpoint in endpoints:
        if failures and on_event is not None:
            on_event(ReplyNote(f"{failures[-1]}; now asking {endpoint.model} at {endpoint.host}", failures[-1]))
        try:
            summary = await summarize(endpoint, request, on_event, transport=transport)
        except CallFailed as failure:
            failures.append(failure)
        else:
            return summary._replace(notes=(*map(str, failures), *summary.notes))
    if not failures:
        raise SummarizerError("no model to ask; choose a summarizer")
    last_failure = failures[-1]
    text = " | then: ".join(str(failure) for failure in failures)
    raise CallFailed(last_failure.kind, text, last_failure.partial)


async def _decode_events(response: httpx.Response, decoder: Decoder) -> AsyncGenerator[ReplyEvent, None]:
    """Yield the events of the body, decoded in a thread, until the reply ends, even if the connection stays open."""
    size = 0
    page = "text/html" in response.headers.get("content-type", "")
    async for chunk in response.aiter_bytes():
        if page or (size == 0 and is_web_page(chunk[:1000].decode("utf-8", "replace"))):
            yield ReplyFailure("web_page")
            return
        size += len(chunk)
        for event in await asyncio.to_thread(decoder.feed, chunk):
            yield event
        if decoder.ended:
            return
        if size > MAX_REPLY_BYTES:
            yield ReplyFailure("malformed", "", f"more than {MAX_REPLY_BYTES} bytes")
            return
    for event in await asyncio.to_thread(decoder.finish):
        yield event


class _DecompressedStream(httpx.AsyncByteStream):
    """Body decompressed in a thread, in small pieces, so that a reply of a few bytes cannot fill the memory."""

    def __init__(self, stream: httpx.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        decompressor = zlib.decompressobj(zlib.MAX_WBITS | 32)  # gzip or zlib, by the header
        async for data in self._stream:
            try:
                while piece := await asyncio.to_thread(decompressor.decompress, data, _PIECE_BYTES):
                    data = decompressor.unconsumed_tail
                    yield piece
            except zlib.error as error:
                raise httpx.DecodingError(str(error)) from None
            if decompressor.eof:
                return

    async def aclose(self) -> None:
        await self._stream.aclose()


def _bound_decompression(response: httpx.Response) -> None:
    """Decompress the body in small pieces, raising httpx.DecodingError if it is compressed more than once."""
    codings = [name.lower() for name in response.headers.get_list("content-encoding", split_commas=True)]
    layers = [name for name in codings if name in ("gzip", "x-gzip", "deflate")]
    if len(layers) > 1:
        raise httpx.DecodingError("compressed several times")
    if layers and isinstance(response.stream, httpx.AsyncByteStream) and not response.is_stream_consumed:
        del response.headers["content-encoding"]
        response.stream = _DecompressedStream(response.stream)


async def _read_error_body(response: httpx.Response) -> bytes:
    body = b""
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > MAX_ERROR_BYTES:
            break
    return body[:MAX_ERROR_BYTES]


def _build_refusal(response: httpx.Response, endpoint: Endpoint, text: str) -> CallFailed:
    retry_after = response.headers.get("retry-after", "")
    location = endpoint.redact(response.headers.get("location", ""))
    return build_status_failure(endpoint, response.status_code, text, retry_after=retry_after, location=location)


class _KeyAuth(httpx.Auth):
    """Authentication that adds the key inside httpx, so that no variable of this program holds it."""

    def __init__(self, key: ApiKey, header: str) -> None:
        self._key = key
        self._header = header

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        scheme = "Bearer " if self._header == BEARER_HEADER else ""
        request.headers[self._header] = f"{scheme}{self._key.reveal()}"
        yield request


def open_client(endpoint: Endpoint, transport: httpx.AsyncBaseTransport | None) -> httpx.AsyncClient:
    """Create a client for one call, which follows no redirects so that nothing goes to a host the user did not name."""
    headers = {
        "content-type": "application/json",
        "accept-encoding": "gzip",
        "user-agent": "context-tui",
        **endpoint.api.headers,
    }
    try:
        return httpx.AsyncClient(
            auth=_KeyAuth(endpoint.key, endpoint.key_header) if endpoint.key else None,
            headers=headers,
            timeout=httpx.Timeout(endpoint.read_timeout, connect=CONNECT_TIMEOUT),
            follow_redirects=False,
            trust_env=False,  # only the proxy that was displayed to the user
            verify=transport is not None or httpx.create_ssl_context(trust_env=True),  # honours SSL_CERT_FILE
            proxy=endpoint.proxy.url if endpoint.proxy and transport is None else None,
            transport=transport,
        )
    except (OSError, ValueError, ImportError) as error:  # a bad proxy or certificate setting of the environment
        remedy = "check the proxy and certificate variables"
        message = f"cannot set up a connection to {endpoint.host} ({format_one_line(str(error))}); {remedy}"
        raise CallFailed("unreachable", message) from None


def build_transport_failure(error: Exception, endpoint: Endpoint, has_response: bool) -> CallFailed:
    """Convert an httpx exception to a failure; *has_response* says whether a response had begun."""
    host, message = endpoint.host, endpoint.redact(str(error))
    if isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout):
        reason = f"{endpoint.destination} did not accept a connection within {CONNECT_TIMEOUT:.0f} s"
        hint = " (a port without TLS needs http://)" if endpoint.url.startswith("https://") else ""
        return CallFailed("unreachable", f"{reason}; check the base URL{hint} and the network")
    if isinstance(error, httpx.TimeoutException):
        remedy = "it may be busy or hung: try again, or raise read_timeout in the configuration file"
        return CallFailed("timeout", f"{host} sent nothing for {endpoint.read_timeout:g} s; {remedy}")
    if isinstance(error, httpx.ProxyError) or (endpoint.proxy and isinstance(error, httpx.ConnectError)):
        proxy = f"the proxy {endpoint.proxy.host}" if endpoint.proxy else "the proxy"
        remedy = "check the proxy variables, or add the host to NO_PROXY"
        reason = f"{host} cannot be reached through {proxy} ({format_one_line(message)})"
        return CallFailed("unreachable", f"{reason}; {remedy}")
    if isinstance(error, httpx.ConnectError):
        if any(phrase in message for phrase in _TLS_ERRORS):
            return CallFailed("tls", f"{host} does not speak TLS; use http:// in the base URL")
        if "CERTIFICATE" in message:
            remedy = "check the base URL, or name the certificates to trust in SSL_CERT_FILE"
            return CallFailed("tls", f"the certificate of {host} is not trusted ({format_one_line(message)}); {remedy}")
        if "SSL" in message:
            return CallFailed("tls", f"no secure connection to {host} ({format_one_line(message)}); check the base URL")
        if any(phrase in message for phrase in _DNS_ERRORS):
            return CallFailed("unresolved", f"host {host} not found; check the base URL and the network")
        return CallFailed("refused", f"{host} refused the connection; start the server, or check the base URL")
    if isinstance(error, httpx.NetworkError | httpx.RemoteProtocolError):
        plain = endpoint.url.startswith("http://") and not has_response
        if plain and message == "illegal request line":  # the response begins with a TLS alert
            return build_speaks_tls_failure(endpoint)
        hint = ", or use https:// in the base URL if this port speaks TLS" if plain else ""
        reason = f"the connection to {host} broke before the reply was complete"
        return CallFailed("disconnected", f"{reason}; try again{hint}")
    if isinstance(error, httpx.DecodingError):
        return CallFailed("malformed", f"the reply of {host} cannot be decompressed; try again")
    # Other messages may quote URLs and headers: report the class only.
    return CallFailed("unreachable", f"the request to {host} failed ({type(error).__name__}); check the base URL")
