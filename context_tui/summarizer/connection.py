"""One HTTP connection to an endpoint: its set-up, and what its failures mean."""

from __future__ import annotations

from collections.abc import Generator

import httpx

from context_tui.summarizer import anthropic
from context_tui.summarizer.endpoint import Endpoint, Key
from context_tui.summarizer.failures import CallFailed, one_line

CONNECT_TIMEOUT = 10.0
"""Seconds until a server that does not take the connection counts as unreachable."""

_UNRESOLVED = ("Name or service", "name resolution", "nodename", "getaddrinfo", "No address")


class _KeyAuth(httpx.Auth):
    """Puts the key into the headers inside httpx, so that no variable of ours ever holds it."""

    def __init__(self, key: Key, bearer: bool) -> None:
        self._key = key
        self._bearer = bearer

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        if self._bearer:
            request.headers["Authorization"] = f"Bearer {self._key.reveal()}"
        else:
            request.headers["x-api-key"] = self._key.reveal()
        yield request


def connect(endpoint: Endpoint, transport: httpx.AsyncBaseTransport | None) -> httpx.AsyncClient:
    """A client for one call. Redirects are never followed: they could lead to a host that nobody named."""
    headers = {"content-type": "application/json", "user-agent": "context-tui"}
    if endpoint.kind == "anthropic":
        headers["anthropic-version"] = anthropic.VERSION
    bearer = endpoint.bearer or endpoint.kind == "openai"
    try:
        return httpx.AsyncClient(
            auth=_KeyAuth(endpoint.key, bearer) if endpoint.key else None,
            headers=headers,
            timeout=httpx.Timeout(endpoint.read_timeout, connect=CONNECT_TIMEOUT),
            follow_redirects=False,
            transport=transport,
        )
    except (OSError, ValueError, ImportError) as error:  # a bad proxy or certificate setting of the environment
        remedy = "check the proxy and certificate variables"
        message = f"no connection to {endpoint.host} can be set up ({one_line(str(error))}); {remedy}"
        raise CallFailed("unreachable", message) from None


def transport_failure(error: Exception, endpoint: Endpoint) -> CallFailed:
    """The failure that an exception of httpx means."""
    host, said = endpoint.host, str(error)
    if isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout):
        what = f"{host} took no connection within {CONNECT_TIMEOUT:.0f} s"
        return CallFailed("unreachable", f"{what}; check the base URL and the network")
    if isinstance(error, httpx.TimeoutException):
        waited = f"{endpoint.read_timeout:g} s"
        remedy = "it may be busy or hung: try again, or raise read_timeout in the configuration file"
        return CallFailed("timeout", f"{host} sent nothing for {waited}; {remedy}")
    if isinstance(error, httpx.ProxyError):
        return CallFailed("unreachable", f"the proxy before {host} failed ({one_line(said)}); check its settings")
    if isinstance(error, httpx.ConnectError):
        if "CERTIFICATE" in said or "SSL" in said:
            return CallFailed("tls", f"no secure connection to {host} ({one_line(said)}); check the base URL")
        if any(words in said for words in _UNRESOLVED):
            return CallFailed("unresolved", f"there is no host {host}; check the base URL and the network")
        return CallFailed("refused", f"{host} refuses the connection; start the server, or check the base URL")
    if isinstance(error, httpx.NetworkError | httpx.RemoteProtocolError):
        return CallFailed("disconnected", f"the connection to {host} broke before the reply was complete; try again")
    if isinstance(error, httpx.DecodingError):
        return CallFailed("malformed", f"the answer of {host} cannot be decompressed; try again")
    # What is left quotes what was sent (URLs, headers): the class alone must do.
    return CallFailed("unreachable", f"the call of {host} failed ({type(error).__name__}); check the base URL")
