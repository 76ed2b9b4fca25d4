"""Parse the usage recorded for one request, in the forms of several providers.

Anthropic's input tokens exclude cached tokens; those of OpenAI, Google and LiteLLM (for all providers) include them. An
invalid token count raises a ValueError that names it.
"""

from __future__ import annotations

from typing import Any

from context_tui.formats.kit.values import as_object, parse_tokens
from context_tui.session.facts import Usage


def parse_openai_usage(value: Any) -> Usage | None:
    """Parse usage from Chat Completions, the Responses API or Codex, or return None if there is none.

    The input tokens include cached tokens, unless there are more of the latter, as some older proxies report.
    """
    if not isinstance(value, dict):
        return None
    input_name, output_name, details = (
        ("prompt_tokens", "completion_tokens", "prompt_tokens_details")
        if "prompt_tokens" in value or "completion_tokens" in value
        else ("input_tokens", "output_tokens", "input_tokens_details")
    )
    if input_name not in value and output_name not in value:
        return None
    cached_names = ("cache_read_input_tokens", "prompt_cache_hit_tokens", "cached_input_tokens")
    counts = [parse_token_count(as_object(value.get(details)), "cached_tokens")]
    counts += [parse_token_count(value, name) for name in cached_names]
    names = (input_name, "cache_creation_input_tokens", output_name)
    input_tokens, written, output = (parse_token_count(value, name) for name in names)
    return make_cached_usage(input_tokens, max(counts), written, output)


def parse_anthropic_usage(value: Any) -> Usage | None:
    """Parse usage from the Messages API, or return None if *value* has neither input nor output tokens."""
    if not isinstance(value, dict) or not ("input_tokens" in value or "output_tokens" in value):
        return None
    hour_tokens = parse_token_count(as_object(value.get("cache_creation")), "ephemeral_1h_input_tokens")
    names = ("cache_creation_input_tokens", "input_tokens", "cache_read_input_tokens", "output_tokens")
    written, fresh, read, output = (parse_token_count(value, name) for name in names)
    return Usage(fresh, read, max(written - hour_tokens, 0), hour_tokens, output)


def parse_usage(
    value: Any,
    fresh: str,
    *,
    cache_read: str = "",
    cache_write: str = "",
    output: tuple[str, ...] = (),
    includes_cache: bool = False,
) -> Usage | None:
    """Parse usage whose members have the given names, or return None if they are all missing or 0.

    The members in *output* are added up, as reasoning is often recorded separately. With *includes_cache*, the tokens
    in *fresh* include cached ones, as OpenAI's and Google's do.
    """
    if not isinstance(value, dict):
        return None
    counts = (parse_token_count(value, name) if name else 0 for name in (fresh, cache_read, cache_write))
    input_tokens, read, written = counts
    output_tokens = sum(parse_token_count(value, name) for name in output)
    if not (input_tokens or read or written or output_tokens):
        return None
    if includes_cache:
        return make_cached_usage(input_tokens, read, written, output_tokens)
    return Usage(input_tokens, read, written, 0, output_tokens)


def make_cached_usage(input_tokens: int, cache_read: int, cache_write: int, output: int) -> Usage:
    """Return usage for input tokens that include cached ones, unless there are more cached than input tokens."""
    cached = cache_read + cache_write
    fresh = input_tokens - cached if cached <= input_tokens else input_tokens
    return Usage(fresh, cache_read, cache_write, 0, output)


def parse_token_count(members: dict[str, Any], name: str) -> int:
    """Return the token count in the member *name*, or 0 if it is missing. Raises ValueError if it is invalid."""
    return parse_tokens(members.get(name), name)
