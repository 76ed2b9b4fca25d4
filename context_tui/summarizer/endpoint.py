"""Model endpoints: the supported APIs, and the address and key for each."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from os.path import commonprefix
from typing import Any, NoReturn
from urllib.parse import urlsplit, urlunsplit

from context_tui.summarizer import anthropic, openai
from context_tui.summarizer.decoder import Decoder, Redactor
from context_tui.summarizer.request import SummaryRequest

READ_TIMEOUT = 300.0
"""Seconds without a byte until an endpoint counts as hung; a local server processes a long prompt silently."""

TOTAL_TIMEOUT = 1_800.0
"""Seconds until a call is abandoned, even while keep-alives arrive."""


class ApiKey:
    """API key that prints as ``[key]`` and refuses to be pickled, so that it does not leak."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the key itself, to be sent in a header."""
        return self._value

    def __repr__(self) -> str:
        return "[key]"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an API key cannot be pickled")


@dataclass(frozen=True)
class Proxy:
    """A proxy server, whose URL is not displayed because it may hold a password."""

    url: str = field(repr=False)

    @property
    def host(self) -> str:
        """Host and port of the proxy, for display."""
        return urlsplit(self.url).netloc.rpartition("@")[2]


@dataclass(frozen=True)
class Endpoint:
    """A model and the API, server and key with which it is called.

    Attributes:
        kind: name of the API in ``APIS``.
        base_url: http(s) URL, with or without a trailing ``/v1``.
        key: API key, or None for servers without authentication.
        read_timeout: seconds without a byte until the server counts as hung.
        bearer: whether to send the key in ``Authorization`` even if the API has its own header for it.
        total_timeout: seconds until the call is abandoned.
    """

    kind: str
    base_url: str
    model: str
    key: ApiKey | None = None
    read_timeout: float = READ_TIMEOUT
    bearer: bool = False
    total_timeout: float = TOTAL_TIMEOUT
    proxy: Proxy | None = None

    @property
    def host(self) -> str:
        """Host and port of the server, for display."""
        return urlsplit(self.base_url).netloc.rpartition("@")[2]

    @property
    def destination(self) -> str:
        """Host to which requests go and the proxy on the way, if there is one, for display."""
        return f"{self.host} through the proxy {self.proxy.host}" if self.proxy else self.host

    @property
    def path(self) -> str:
        """Path of the URL to which requests are posted."""
        return urlsplit(self.url).path

    @property
    def api(self) -> Api:
        """API of the endpoint, named by ``kind``."""
        return APIS[self.kind]

    @property
    def other_kind(self) -> str:
        """Name of the other supported API, to suggest in errors."""
        return next(kind for kind in APIS if kind != self.kind)

    @property
    def url(self) -> str:
        """URL to which requests are posted.

        A base URL without a version gets ``/v1``; one with ``/v4`` or ``/v1beta/x`` is unchanged.
        """
        parts = urlsplit(self.base_url)
        path = parts.path.rstrip("/").removesuffix(self.api.path).rstrip("/")
        if not re.search(r"/v\d", path):
            path += "/v1"
        return urlunsplit((parts.scheme, parts.netloc, path + self.api.path, parts.query, ""))

    @property
    def key_name(self) -> str:
        """Name of the environment variable for the key, to suggest in errors."""
        return next(name for name, header in self.api.key_headers.items() if header == self.key_header)

    @property
    def key_header(self) -> str:
        """Name of the HTTP header that carries the key."""
        return BEARER_HEADER if self.bearer else [*self.api.key_headers.values()][-1]

    def redact(self, text: str) -> str:
        """Replace every full or partial copy of the key in a text, plain or in base64, with ``[key]``."""
        if not self.key:
            return text
        key = self.key.reveal()
        for form in (
            key,
            *(base64.b64encode(plain.encode("utf-8", "replace")).decode() for plain in (key, f"Bearer {key}")),
        ):
            head = form[:8] if len(form) >= 16 else form  # of a short key, the beginning may be any word
            first, *tails = text.split(head)
            repeated = [len(commonprefix([tail, form[len(head) :]])) for tail in tails]  # noqa: RUF071 - characters
            text = first + "".join("[key]" + tail[length:] for tail, length in zip(tails, repeated, strict=True))
        return text


BEARER_HEADER = "Authorization"
"""Header that holds the key as a bearer token; other headers hold just the key."""


@dataclass(frozen=True)
class Api:
    """A model API, with the functions that build its requests and decode its replies.

    Attributes:
        build_body: builds a request body without the model, given a name from ``limit_fields``.
        decoder: creates a decoder, given a function that redacts the key.
        limit_fields: names that servers use for the output limit in tokens, in the order in which they are tried.
        key_headers: maps each environment variable for a key to the header that carries it, in order of precedence.
    """

    build_body: Callable[[SummaryRequest, str], dict[str, Any]]
    decoder: Callable[[Redactor], Decoder]
    path: str
    limit_fields: tuple[str, ...]
    key_headers: Mapping[str, str]
    default_model: str
    base_url: str
    headers: Mapping[str, str] = field(default_factory=dict)


APIS: Mapping[str, Api] = {
    "anthropic": Api(
        build_body=anthropic.build_body,
        decoder=anthropic.AnthropicDecoder,
        path="/messages",
        limit_fields=anthropic.LIMIT_FIELDS,
        key_headers={"ANTHROPIC_AUTH_TOKEN": BEARER_HEADER, "ANTHROPIC_API_KEY": "x-api-key"},
        default_model="claude-haiku-4-5",
        base_url="https://api.anthropic.com",
        headers={"anthropic-version": anthropic.API_VERSION},
    ),
    "openai": Api(
        build_body=openai.build_body,
        decoder=openai.OpenAIDecoder,
        path="/chat/completions",
        limit_fields=openai.LIMIT_FIELDS,
        key_headers={"OPENAI_API_KEY": BEARER_HEADER},
        default_model="gpt-5-mini",
        base_url="https://api.openai.com/v1",
    ),
}
