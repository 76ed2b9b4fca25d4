"""Failures of a call to a model, each described in one line: the place, the problem and the remedy.

Error bodies of real servers come in five shapes (an ``error`` object, with or without an enclosing ``type``, an
``error`` string, plain text, empty), and the shape is independent of the API that was called.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from context_tui.errors import SummarizerError
from context_tui.session.jsontext import try_loads
from context_tui.text.sanitize import sanitize_line, truncate_name

if TYPE_CHECKING:  # circular: the decoders of its APIs create failures
    from context_tui.summarizer.endpoint import Endpoint

MAX_QUOTE_CHARS = 200

SHORTEN_REMEDY = "summarise a smaller part, or use a model with a larger window"

_CONTEXT_LIMIT_PATTERNS = (  # "too long" in the words of servers, with the tokens of the prompt and the limit if given
    re.compile(r"request \((?P<prompt>\d+) tokens\) exceeds the available context size \((?P<limit>\d+) tokens\)"),
    re.compile(r"prompt is too long(?:: (?P<prompt>\d+) tokens > (?P<limit>\d+))?"),
    re.compile(r"exceed context limit: (?P<prompt>\d+ \+ \d+) > (?P<limit>\d+)"),
    re.compile(r"maximum context length is (?P<limit>\d+) tokens(?:.{0,60}?(?P<prompt>\d+) tokens)?"),
    re.compile(r"exceed the configured limit of (?P<limit>\d+) tokens(?:.{0,60}?(?P<prompt>\d+) tokens)?"),
)
_TOO_LONG_TYPES = frozenset({"exceed_context_size_error", "context_length_exceeded", "request_too_large"})
_HTTP_TO_TLS = ("plain http request was sent to https port", "http request to an https server")  # nginx, Go
_OVERLOADED_TYPES = frozenset({"overloaded_error", "unavailable_error"})
_RATE_LIMIT_TYPES = frozenset({"rate_limit_error", "rate_limit_exceeded"})


class CallFailed(SummarizerError):
    """A failed call to a model; ``partial`` holds the text received before the failure.

    Attributes:
        kind: name of the failure: refused, unresolved, unreachable, tls, timeout, disconnected, redirect, auth,
            not_found, wrong_api, too_long, rate_limited, overloaded, rejected, server, error, malformed, cut, empty,
            thinking_only, refusal, tool_call.
    """

    def __init__(self, kind: str, message: str, partial: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.partial = partial


class ServerError(NamedTuple):
    """An error that a server reported: its type or code, its message and, if stated, the prompt's size and limit."""

    type: str = ""
    message: str = ""
    prompt_tokens: str = ""
    limit_tokens: str = ""
    too_long: bool = False


def format_one_line(text: str, length: int = MAX_QUOTE_CHARS) -> str:
    """Return text from a server as one printable line of at most *length* characters, for an error message."""
    return truncate_name(sanitize_line(" ".join(text[: 20 * length].split())), length)


def parse_error_body(body: str) -> ServerError:
    """Parse the body of an error response in any of the known shapes."""
    data = try_loads(body)
    if not isinstance(data, dict):
        return parse_error_message("", body)
    error = data.get("error")
    details: dict[str, Any] = error if isinstance(error, dict) else data
    message = error if isinstance(error, str) else details.get("message") or details.get("detail") or ""
    # A code can be more specific than a type (context_length_exceeded), but is often just the status.
    code = details.get("code")
    kind = code if isinstance(code, str) and not code.isdigit() else details.get("type")
    server_error = parse_error_message(str(kind or ""), str(message))
    match details:
        case {"n_prompt_tokens": int(prompt), "n_ctx": int(limit)} if (
            0 <= min(prompt, limit) <= max(prompt, limit) < 10**12
        ):
            return server_error._replace(prompt_tokens=str(prompt), limit_tokens=str(limit), too_long=True)
    return server_error


def parse_error_message(type_: str, message: str) -> ServerError:
    """Build an error from its type and message, extracting the token counts that the message states."""
    for pattern in _CONTEXT_LIMIT_PATTERNS:
        if match := pattern.search(message):
            # A number reported by a server may have any length.
            numbers = {name: format_one_line(value or "", 30) for name, value in match.groupdict().items()}
            return ServerError(type_, message, numbers.get("prompt", ""), numbers.get("limit", ""), True)
    return ServerError(type_, message, too_long=type_ in _TOO_LONG_TYPES)


def is_web_page(text: str) -> bool:
    """Return whether a response begins like an HTML page, which no API sends."""
    return text.lstrip("\ufeff \t\r\n")[:14].lower().startswith(("<!doctype html", "<html", "<head"))


def build_web_page_failure(endpoint: Endpoint, status: int = 200) -> CallFailed:
    """Build the failure for a server that answered with a web page instead of a reply."""
    code = "" if status == 200 else f" ({status})"
    remedy = f"is {format_one_line(endpoint.path, 100)} the path of its API? check the base URL"
    return CallFailed("malformed", f"{endpoint.host} answered with a web page{code}; {remedy}")


def build_speaks_tls_failure(endpoint: Endpoint) -> CallFailed:
    """Build the failure for a plain HTTP request to a port that expects TLS."""
    return CallFailed("tls", f"{endpoint.host} requires TLS; use https:// in the base URL")


def match_known_failure(host: str, error: ServerError, partial: str = "") -> CallFailed | None:
    """Return the failure that a server's message identifies, whatever the status, or None if it identifies none."""
    if error.too_long:
        tokens = f": {error.prompt_tokens} tokens" if error.prompt_tokens else ""
        limit = f", its limit is {error.limit_tokens}" if error.limit_tokens else ""
        reason = f"the prompt is too long for the model at {host}{tokens}{limit}"
        return CallFailed("too_long", f"{reason}; {SHORTEN_REMEDY}", partial)
    quote = f" ({format_one_line(error.message)})" if error.message.strip() else ""
    if error.type in _RATE_LIMIT_TYPES:
        return CallFailed("rate_limited", f"rate limit of {host} reached{quote}; try again later", partial)
    if error.type in _OVERLOADED_TYPES:
        return CallFailed("overloaded", f"{host} is overloaded or not ready{quote}; try again later", partial)
    return None


def build_status_failure(
    endpoint: Endpoint, status: int, body: str, *, retry_after: str = "", location: str = ""
) -> CallFailed:
    """Build the failure for a status other than 200; *body* and *location* must not contain the key."""
    host, error = endpoint.host, parse_error_body(body)
    is_page = is_web_page(body)
    quoted = "a web page" if is_page else format_one_line(error.message)
    reply = f"{status}: {quoted}" if quoted else f"{status}"
    wait_remedy = f"try again in {retry_after[:9]} s" if retry_after.isdecimal() else "try again later"
    if any(phrase in body.lower() for phrase in _HTTP_TO_TLS):
        return build_speaks_tls_failure(endpoint)
    if 300 <= status < 400:
        target = f" to {format_one_line(location)}" if location else ""
        return CallFailed("redirect", f"{host} redirects{target} ({status}); give the final address as the base URL")
    if status == 407 and endpoint.proxy:
        reason = f"the proxy {endpoint.proxy.host} requires a user and a password ({reply})"
        return CallFailed("auth", f"{reason} for requests to {host}; set them in the proxy variable")
    if is_page and 400 <= status < 500 and status not in (404, 405, 413, 429):
        return build_web_page_failure(endpoint, status)
    if status in (401, 403):
        reason, remedy = ("refused the key", "check") if endpoint.key else ("requires a key", "set")
        return CallFailed("auth", f"{host} {reason} ({reply}); {remedy} {endpoint.key_name}")
    if status == 404 and "model" in error.message.lower() and not is_page:
        model = format_one_line(endpoint.model, 100)
        return CallFailed("not_found", f"{host} does not know the model {model} ({reply}); name another one")
    if status in (404, 405):
        path = format_one_line(endpoint.path, 100)
        remedy = f"check the base URL, or use the summarizer {endpoint.other_kind}"
        return CallFailed("not_found", f"{host} has nothing at {path} ({reply}); {remedy}")
    if status == 429:
        return CallFailed("rate_limited", f"rate limit of {host} reached ({reply}); {wait_remedy}")
    if failure := match_known_failure(host, error):
        return failure
    if status == 413:
        return CallFailed("too_long", f"the prompt is too long for {host} ({reply}); {SHORTEN_REMEDY}")
    if status in (503, 529):
        return CallFailed("overloaded", f"{host} is overloaded or not ready ({reply}); {wait_remedy}")
    if status >= 500:
        return CallFailed("server", f"{host} failed ({reply}); try again, or check the server's log")
    return CallFailed("rejected", f"{host} rejected the request ({reply}); check the model and the parameters")
