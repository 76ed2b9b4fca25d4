"""The APIs that a summary can be asked of: all that differs between them, one record for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from context_tui.summarizer import anthropic, openai
from context_tui.summarizer.decoder import Decoder, Redactor
from context_tui.summarizer.request import SummaryRequest

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
