"""Model endpoints: the APIs that can be asked, the address, and the key that must never be seen."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn
from urllib.parse import urlsplit, urlunsplit

from context_tui.summarizer import anthropic, openai
from context_tui.summarizer.decoder import Decoder, Redactor
from context_tui.summarizer.proxy import Proxy
from context_tui.summarizer.request import SummaryRequest

READ_TIMEOUT = 300.0
"""Seconds without a byte until an endpoint counts as hung: a local server may read a long prompt in silence."""

TOTAL_TIMEOUT = 1_800.0
"""Seconds until a call is given up, however alive its server seems: keep-alives can go on for ever."""


class ApiKey:
    """A secret that prints as ``[key]`` wherever it is shown, and cannot be pickled."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The secret itself, for a header."""
        return self._value

    def __repr__(self) -> str:
        return "[key]"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is not written anywhere")


@dataclass(frozen=True)
class Endpoint:
    """A model behind an API.

    Attributes:
        kind: the API, by its name in ``APIS``.
        base_url: http(s), with or without the trailing ``/v1``.
        model: the model to ask for.
        key: what authorises us, or None for servers that want nothing.
        read_timeout: seconds without a byte until the server counts as hung.
        total_timeout: seconds until the call is given up.
        bearer: whether the key goes in ``Authorization``, even where the API has a header of its own for it.
        proxy: what requests go through, or None; nothing else of the environment decides it.
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
        """Host and port, for display."""
        return urlsplit(self.base_url).netloc.rpartition("@")[2]

    @property
    def destination(self) -> str:
        """Destination of requests, for display: the host, with the proxy before it."""
        return f"{self.host} through the proxy {self.proxy.host}" if self.proxy else self.host

    @property
    def path(self) -> str:
        """The path of the address to post to."""
        return urlsplit(self.url).path

    @property
    def api(self) -> Api:
        """API of the endpoint."""
        return APIS[self.kind]

    @property
    def other_kind(self) -> str:
        """The kind of another API, for advice."""
        return next(kind for kind in APIS if kind != self.kind)

    @property
    def url(self) -> str:
        """The address to post to. A base without a version gets ``/v1``; ``/v4`` or ``/v1beta/x`` stays as it is."""
        parts = urlsplit(self.base_url)
        path = parts.path.rstrip("/").removesuffix(self.api.path).rstrip("/")
        if not re.search(r"/v\d", path):
            path += "/v1"
        return urlunsplit((parts.scheme, parts.netloc, path + self.api.path, parts.query, ""))

    @property
    def key_name(self) -> str:
        """The environment variable to name in advice about the key."""
        return next(name for name, header in self.api.key_headers.items() if header == self.key_header)

    @property
    def key_header(self) -> str:
        """Header of the key."""
        return BEARER_HEADER if self.bearer else [*self.api.key_headers.values()][-1]

    def redact(self, text: str) -> str:
        """*text* without the key: some servers repeat it in their errors."""
        return text.replace(self.key.reveal(), "[key]") if self.key else text


BEARER_HEADER = "Authorization"
"""The header that a key goes in as a bearer token; in any other it stands alone."""


@dataclass(frozen=True)
class Api:
    """An API and its wire format.

    Attributes:
        body: a request, but for its model, with one of ``limits`` as the name of the reply's limit.
        decoder: a new decoder of a reply, with what takes the key out of a server's words.
        path: behind the version in the address.
        limits: names of the limit of a reply in tokens, the one to try first first; a server says which it wants.
        keys: the environment variables that a key may come from, the one that wins first, each with its key's header.
        model: asked where none is named.
        base_url: the service's own address.
        headers: sent with every request.
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
"""By the name that a summarizer of this kind has."""
