"""A model behind an API, and the key that must never be seen."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NoReturn
from urllib.parse import urlsplit, urlunsplit

from context_tui.summarizer.proxy import Proxy

Kind = Literal["anthropic", "openai"]
"""The wire format of an endpoint."""

READ_TIMEOUT = 300.0
"""Seconds without a byte until an endpoint counts as hung: a local server may read a long prompt in silence."""

TOTAL_TIMEOUT = 1_800.0
"""Seconds until a call is given up, however alive its server seems: keep-alives can go on for ever."""

KEY_NAMES: Mapping[Kind, tuple[str, ...]] = {
    "anthropic": ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY"),
    "openai": ("OPENAI_API_KEY",),
}
"""The environment variables that a key may come from, the one that wins first."""

_PATHS: Mapping[Kind, str] = {"anthropic": "/messages", "openai": "/chat/completions"}


class Key:
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
        kind: the wire format.
        base_url: http(s), with or without the trailing ``/v1``.
        model: the model to ask for.
        key: what authorises us, or None for servers that want nothing.
        read_timeout: seconds without a byte until the server counts as hung.
        total_timeout: seconds until the call is given up.
        bearer: whether an Anthropic key goes in ``Authorization`` rather than ``x-api-key``.
        proxy: what requests go through, or None; nothing else of the environment decides it.
    """

    kind: Kind
    base_url: str
    model: str
    key: Key | None = None
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
        """Where requests go, for display: the host, and the proxy before it."""
        return f"{self.host} through the proxy {self.proxy.host}" if self.proxy else self.host

    @property
    def path(self) -> str:
        """The path of the address to post to."""
        return urlsplit(self.url).path

    @property
    def other_kind(self) -> Kind:
        """The other wire format, for advice."""
        return "openai" if self.kind == "anthropic" else "anthropic"

    @property
    def url(self) -> str:
        """The address to post to. A base without a version gets ``/v1``; ``/v4`` or ``/v1beta/x`` stays as it is."""
        parts = urlsplit(self.base_url)
        path = parts.path.rstrip("/").removesuffix(_PATHS[self.kind]).rstrip("/")
        if not re.search(r"/v\d", path):
            path += "/v1"
        return urlunsplit((parts.scheme, parts.netloc, path + _PATHS[self.kind], parts.query, ""))

    @property
    def key_name(self) -> str:
        """The environment variable to name in advice about the key."""
        return KEY_NAMES[self.kind][0 if self.bearer or self.kind == "openai" else 1]

    def redacted(self, text: str) -> str:
        """*text* without the key: some servers repeat it in their errors."""
        return text.replace(self.key.reveal(), "[key]") if self.key else text
