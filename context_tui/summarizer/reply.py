"""A model's reply: its events, whatever the wire format, and their validation as a summary."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

from context_tui.summarizer.failures import (
    SHORTEN_REMEDY,
    CallFailed,
    build_web_page_failure,
    format_one_line,
    match_known_failure,
    parse_error_message,
)

if TYPE_CHECKING:  # circular: the decoders of its APIs create these events
    from context_tui.summarizer.endpoint import Endpoint


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the summary's text, in the content block with this index."""

    text: str
    index: int = 0


class ThinkingDelta(NamedTuple):
    """The length in characters of a piece of reasoning; its text is never part of a summary."""

    chars: int


@dataclass(frozen=True, slots=True)
class ReplyUsage:
    """The token counts reported so far; fresh input, cache reads and cache writes do not overlap."""

    input_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    output_tokens: int | None = None

    @property
    def context_tokens(self) -> int:
        """Tokens in the whole prompt: fresh input, cache reads and cache writes."""
        return (self.input_tokens or 0) + (self.cache_read_tokens or 0) + (self.cache_write_tokens or 0)

    def merge(self, newer: ReplyUsage) -> ReplyUsage:
        """Return this report, updated with the counts that the *newer* report states."""
        values = {f.name: getattr(newer, f.name) for f in fields(self)}
        return ReplyUsage(**{name: getattr(self, name) if value is None else value for name, value in values.items()})


class ReplyModel(NamedTuple):
    """The name of the model that replies, which may differ from the requested one."""

    name: str


class StopReason(NamedTuple):
    """The reason why the model stopped, as the server reports it; every kind of refusal is ``refusal``."""

    reason: str


class ReplyFailure(NamedTuple):
    """A failure that makes the reply unusable, at the point of the stream where it was detected.

    Attributes:
        kind: ``error`` (reported by the server), ``malformed``, ``web_page``, ``other_api`` (in the format of another
            API), or ``cut`` (ended early).
        type: the error type that the server reported, or empty; for ``other_api``, the name of that API.
        message: the server's message, not yet made safe to display.
    """

    kind: str
    type: str = ""
    message: str = ""


class ReplyNote(NamedTuple):
    """A note to the user; ``failed`` means that another call replaces a failed one, so that the reply starts over."""

    text: str
    failed: CallFailed | None = None


ReplyEvent = TextDelta | ThinkingDelta | ReplyUsage | ReplyModel | StopReason | ReplyFailure | ReplyNote

CUT_REASONS = frozenset({"max_tokens", "length", "model_context_window_exceeded", "pause_turn", "incomplete"})
"""Stop reasons of an incomplete reply."""

TOOL_REASONS = frozenset({"tool_use", "tool_calls", "function_call"})
"""Stop reasons of a reply that waits for a tool."""


class Summary(NamedTuple):
    """A summary, with the metadata that the reply reported.

    Attributes:
        model: the model that the reply names, else the requested one; empty for an extract.
        usage: reported token counts, each None if the server does not report it.
        thinking_chars: number of characters of reasoning, which are not part of the text.
        notes: notes to the user about changes to the request or the call.
    """

    text: str
    model: str
    usage: ReplyUsage
    stop_reason: str
    seconds: float
    thinking_chars: int = 0
    notes: tuple[str, ...] = ()


class Reply:
    """The part of a reply that has arrived so far, collected from its events."""

    def __init__(self) -> None:
        self._blocks: dict[int, list[str]] = {}
        self._model = ""
        self._usage = ReplyUsage()
        self._stop = ""
        self._thinking = 0
        self._failure: ReplyFailure | None = None
        self._notes: list[str] = []

    def add(self, event: ReplyEvent) -> None:
        """Add the next event of the reply."""
        match event:
            case TextDelta():
                self._blocks.setdefault(event.index, []).append(event.text)
            case ThinkingDelta():
                self._thinking += event.chars
            case ReplyUsage():
                self._usage = event
            case ReplyModel():
                self._model = event.name
            case StopReason():
                self._stop = event.reason
            case ReplyFailure():
                self._failure = event
            case ReplyNote():
                self._notes.append(event.text)

    @property
    def text(self) -> str:
        """Text received so far, in the order of the content blocks."""
        return "".join(piece for _, pieces in sorted(self._blocks.items()) for piece in pieces)

    def build_partial_summary(self, model: str, seconds: float) -> Summary:
        """Build a summary of the text received so far, by the model that the reply names, or else by *model*."""
        text, hidden = _strip_thinking(self.text.strip())
        return Summary(
            text, self._model or model, self._usage, self._stop, seconds, self._thinking + hidden, tuple(self._notes)
        )

    def build_summary(self, endpoint: Endpoint, max_tokens: int, seconds: float) -> Summary:
        """Return the complete reply as a summary, raising CallFailed if it is broken, refused, empty or cut off."""
        host = endpoint.host
        summary = self.build_partial_summary(endpoint.model, seconds)
        text, thinking = summary.text, summary.thinking_chars
        if self._failure is not None:
            raise self._build_failure(endpoint, self._failure, text)
        if self._stop == "refusal":
            raise CallFailed("refusal", f"the model at {host} refused to summarise this; try another model", text)
        if self._stop in TOOL_REASONS:
            remedy = "try again, or use another model"
            raise CallFailed("tool_call", f"the model at {host} called a tool instead of summarising; {remedy}", text)
        output = self._usage.output_tokens
        is_cut = self._stop in CUT_REASONS or (output is not None and output >= max_tokens)
        limit_phrase = f" within {max_tokens if output is None else output} tokens" if is_cut else ""
        if not text and thinking:
            remedy = "allow more tokens, or turn its thinking off"
            reason = f"the model at {host} wrote only thinking and no summary{limit_phrase}"
            raise CallFailed("thinking_only", f"{reason}; {remedy}")
        if not text:
            raise CallFailed("empty", f"the model at {host} returned no text; try again, or use another model")
        if is_cut:
            count = f" after {output} tokens" if output is not None else ""
            remedy = "allow more tokens, or use a model with a larger window"
            raise CallFailed("cut", f"the summary from {host} was cut off{count} ({self._stop}); {remedy}", text)
        return summary

    def _build_failure(self, endpoint: Endpoint, failure: ReplyFailure, text: str) -> CallFailed:
        host = endpoint.host
        quote = f": {format_one_line(failure.message)}" if failure.message.strip() else ""
        if failure.kind == "error":
            known_failure = match_known_failure(host, parse_error_message(failure.type, failure.message), text)
            reason = f"{host} reported an error in its reply{quote}"
            return known_failure or CallFailed("error", f"{reason}; try again", text)
        if failure.kind == "web_page":
            return build_web_page_failure(endpoint)
        if failure.kind == "other_api":
            remedy = f"use the summarizer {failure.type}, or check the base URL"
            return CallFailed("wrong_api", f"{host} answers in the format of the other API; {remedy}", text)
        if failure.kind == "malformed":
            remedy = f"check the base URL, or use the summarizer {endpoint.other_kind}"
            return CallFailed("malformed", f"the reply of {host} is not a valid API response{quote}; {remedy}", text)
        if not text and not self._model and not self._thinking:
            reason = f"{host} sent an empty reply; the prompt may be too long for it"
            return CallFailed("empty", f"{reason}: {SHORTEN_REMEDY}")
        return CallFailed("cut", f"the reply of {host} ended before it was complete; try again", text)


def _strip_thinking(text: str) -> tuple[str, int]:
    if not text.startswith("<think>"):
        return text, 0
    thinking, end_tag, answer = text.partition("</think>")
    return (answer.strip() if end_tag else ""), len(thinking) - len("<think>")
