"""A reply as it comes in, and the verdict at its end: a summary, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass

from context_tui.summarizer.events import (
    CUT_REASONS,
    TOOL_REASONS,
    Event,
    Failure,
    Note,
    ReplyModel,
    Stop,
    Text,
    Thinking,
    Usage,
)
from context_tui.summarizer.failures import SHORTEN, CallFailed, described, in_words, one_line


@dataclass(frozen=True)
class Summary:
    """A whole summary.

    Attributes:
        text: without surrounding white space.
        model: the model that answered, by its own account, else the one asked for.
        usage: tokens as reported; all None when the server reports nothing.
        stop_reason: in the server's words, empty when it gave none.
        seconds: from sending to the end.
        thinking_chars: characters of reasoning that came with it and are not part of it.
        notes: what was done to the request or the call that the user should know.
    """

    text: str
    model: str
    usage: Usage
    stop_reason: str
    seconds: float
    thinking_chars: int = 0
    notes: tuple[str, ...] = ()


class Reply:
    """Collects a reply's events."""

    def __init__(self) -> None:
        self._blocks: dict[int, list[str]] = {}
        self._model = ""
        self._usage = Usage()
        self._stop = ""
        self._thinking = 0
        self._failure: Failure | None = None
        self._notes: list[str] = []

    def add(self, event: Event) -> None:
        """Take in the next event."""
        match event:
            case Text():
                self._blocks.setdefault(event.index, []).append(event.text)
            case Thinking():
                self._thinking += event.chars
            case Usage():
                self._usage = event
            case ReplyModel():
                self._model = event.name
            case Stop():
                self._stop = event.reason
            case Failure():
                self._failure = event
            case Note():
                self._notes.append(event.text)

    @property
    def text(self) -> str:
        """The text so far, block after block."""
        return "".join(piece for _, pieces in sorted(self._blocks.items()) for piece in pieces)

    def summary(self, host: str, model: str, max_tokens: int, seconds: float) -> Summary:
        """The summary that the whole reply is.

        Args:
            host: where it came from, for messages.
            model: the model that was asked for.
            max_tokens: the limit that was asked for; servers have called replies that reached it complete.
            seconds: how long it took.

        Raises:
            CallFailed: the reply broke, was refused, is empty, or is cut.
        """
        text, hidden = _without_thinking(self.text.strip())
        thinking = self._thinking + hidden
        if self._failure is not None:
            raise self._broken(host, self._failure, text)
        if self._stop == "refusal":
            raise CallFailed("refusal", f"the model at {host} refused to summarise this; try another model", text)
        if self._stop in TOOL_REASONS:
            remedy = "try again, or another model"
            raise CallFailed("tool_call", f"the model at {host} called a tool instead of summarising; {remedy}", text)
        output = self._usage.output_tokens
        cut = self._stop in CUT_REASONS or (output is not None and output >= max_tokens)
        after = f" within {max_tokens if output is None else output} tokens" if cut else ""
        if not text and thinking:
            remedy = "allow more tokens, or turn its thinking off"
            raise CallFailed("thinking_only", f"the model at {host} only thought and wrote nothing{after}; {remedy}")
        if not text:
            raise CallFailed("empty", f"the model at {host} answered with nothing; try again, or another model")
        if cut:
            count = f" after {output} tokens" if output is not None else ""
            remedy = "allow more tokens, or use a model with a larger window"
            raise CallFailed("cut", f"the summary from {host} was cut at a limit{count} ({self._stop}); {remedy}", text)
        return Summary(text, self._model or model, self._usage, self._stop, seconds, thinking, tuple(self._notes))

    def _broken(self, host: str, failure: Failure, text: str) -> CallFailed:
        said = f": {one_line(failure.message)}" if failure.message.strip() else ""
        if failure.kind == "error":
            told = in_words(host, described(failure.type, failure.message), text)
            return told or CallFailed("error", f"{host} reported an error in its reply{said}; try again", text)
        if failure.kind == "malformed":
            remedy = "check the base URL and the kind of endpoint"
            return CallFailed("malformed", f"the answer of {host} is not what was asked for{said}; {remedy}", text)
        if not text and not self._model and not self._thinking:
            return CallFailed("empty", f"{host} sent an empty answer; the prompt may be too long for it: {SHORTEN}")
        return CallFailed("cut", f"the reply of {host} ended before it was complete; try again", text)


def _without_thinking(text: str) -> tuple[str, int]:
    """The text without reasoning that a server left in it, and how many characters that was."""
    if not text.startswith("<think>"):
        return text, 0
    thought, closed, rest = text.partition("</think>")
    return (rest.strip() if closed else ""), len(thought) - len("<think>")
