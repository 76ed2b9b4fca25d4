"""Recorded usage of one request in the forms of the providers, normalised.

Anthropic's input tokens leave cached ones out; OpenAI's, Google's, and LiteLLM's of every provider, have them in.
"""

from __future__ import annotations

from typing import Any

from context_tui.formats.kit.values import parse_tokens
from context_tui.session.facts import Usage


def parse_openai_usage(value: Any) -> Usage | None:
    """Usage of Chat Completions, of the Responses API or as Codex records it; None where *value* is none.

    Cached tokens are part of the prompt's, unless there are more of them (older proxies).

    Raises:
        ValueError: a size is none; the message names it.
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
    more = value.get(details)
    cached = max(
        parse_token_count(more, "cached_tokens") if isinstance(more, dict) else 0,
        parse_token_count(value, "cache_read_input_tokens"),
        parse_token_count(value, "prompt_cache_hit_tokens"),
        parse_token_count(value, "cached_input_tokens"),
    )
    return make_cached_usage(
        parse_token_count(value, input_name),
        cached,
        parse_token_count(value, "cache_creation_input_tokens"),
        parse_token_count(value, output_name),
    )


def parse_anthropic_usage(value: Any) -> Usage | None:
    """Usage of the Messages API; None where *value* is none.

    Raises:
        ValueError: a size is none; the message names it.
    """
    if not isinstance(value, dict) or not ("input_tokens" in value or "output_tokens" in value):
        return None
    split = value.get("cache_creation")
    hour = parse_token_count(split, "ephemeral_1h_input_tokens") if isinstance(split, dict) else 0
    written = parse_token_count(value, "cache_creation_input_tokens")
    return Usage(
        fresh=parse_token_count(value, "input_tokens"),
        cache_read=parse_token_count(value, "cache_read_input_tokens"),
        cache_write_5m=max(written - hour, 0),
        cache_write_1h=hour,
        output=parse_token_count(value, "output_tokens"),
    )


def parse_usage(
    value: Any,
    fresh: str,
    *,
    cache_read: str = "",
    cache_write: str = "",
    output: tuple[str, ...] = (),
    includes_cache: bool = False,
) -> Usage | None:
    """Parse the members of an object with these names; None where it has none, or all are null.

    Args:
        output: members that add up to what the model wrote; reasoning often stands apart.
        includes_cache: whether the input counts cached tokens too, as OpenAI's and Google's does and Anthropic's does
            not.

    Raises:
        ValueError: a size is none; the message names it.
    """
    if not isinstance(value, dict):
        return None
    input_tokens, read, written = (
        parse_token_count(value, name) if name else 0 for name in (fresh, cache_read, cache_write)
    )
    output_tokens = sum(parse_token_count(value, name) for name in output)
    if not (input_tokens or read or written or output_tokens):
        return None
    return (
        make_cached_usage(input_tokens, read, written, output_tokens)
        if includes_cache
        else Usage(input_tokens, read, written, 0, output_tokens)
    )


def make_cached_usage(input_tokens: int, cache_read: int, cache_write: int, output: int) -> Usage:
    """Usage of a request whose *given* tokens include those *read* from the cache and *written* to it.

    Where there are more of these than of those, they do not.
    """
    return Usage(
        input_tokens - cache_read - cache_write if cache_read + cache_write <= input_tokens else input_tokens,
        cache_read,
        cache_write,
        0,
        output,
    )


def parse_token_count(members: dict[str, Any], name: str) -> int:
    """Return the number of tokens in a member; 0 where there is none.

    Raises:
        ValueError: it is none that ever was; the message names it.
    """
    return parse_tokens(members.get(name), name)
