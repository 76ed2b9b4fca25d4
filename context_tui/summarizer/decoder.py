"""Decoding of a reply from bytes to events: server-sent events, and the steps common to all wire formats."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, NamedTuple

from context_tui.session.jsontext import loads, try_loads
from context_tui.summarizer.failures import format_one_line
from context_tui.summarizer.reply import ReplyEvent, ReplyFailure, ReplyUsage, TextDelta

_LINE_END = re.compile(rb"\r\n|\n|\r")


class ServerSentEvent(NamedTuple):
    """A server-sent event: its type (``message`` if it has none) and its data lines joined by newlines."""

    event: str
    data: str


class SSEParser:
    """Incremental parser for server-sent events: ``feed`` it bytes as they arrive, and ``finish`` at the end."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._searched = 0  # no line ends before this: a long line is searched only once
        self._first = True
        self._event = ""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """Return the events that *chunk* completes, keeping any incomplete rest for the next call."""
        self._buffer += chunk
        events, start = [], 0
        while (end := _LINE_END.search(self._buffer, max(start, self._searched))) is not None:
            if end.group() == b"\r" and end.end() == len(self._buffer):
                break  # may be the first half of a CRLF
            events += self._parse_line(bytes(self._buffer[start : end.start()]))
            start = end.end()
        del self._buffer[:start]
        self._searched = max(0, len(self._buffer) - 1)
        return events

    def finish(self) -> list[ServerSentEvent]:
        """Return a list of the event that the end of the stream completes, or [] if there is none."""
        last_line = bytes(self._buffer).removesuffix(b"\r")
        self._buffer.clear()
        return (self._parse_line(last_line) if last_line else []) + self._parse_line(b"")

    def _parse_line(self, line: bytes) -> list[ServerSentEvent]:
        if self._first:
            line, self._first = line.removeprefix(b"\xef\xbb\xbf"), False
        if not line:
            event = ServerSentEvent(self._event or "message", "\n".join(self._data))
            complete = bool(self._data)
            self._event, self._data = "", []
            return [event] if complete else []
        name, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        return []  # comments (no name), ids and retry times are ignored


_ANTHROPIC_TYPES = ("message_start", "content_block_start", "content_block_delta", "message_delta", "message")
Redactor = Callable[[str], str]
_SURROGATE = re.compile("[\ud800-\udfff]")


class Decoder(ABC):
    """Incremental decoder for one reply: ``feed`` it bytes as they arrive, and ``finish`` at the end.

    Args:
        redact: removes secrets from the server's messages, because some servers repeat the key in their errors.

    Attributes:
        complete: whether the end of the reply was received.
        ended: whether the rest of the stream need not be read.
    """

    api: ClassVar[str]

    def __init__(self, redact: Redactor = str) -> None:
        self._redact = redact
        self.complete = False
        self.ended = False
        self._parser = SSEParser()
        self._whole: bytearray | None = None  # the body, if it is a single JSON object
        self._started = False
        self._usage = ReplyUsage()
        self._half_pair = ""  # first half of a split surrogate pair

    def feed(self, chunk: bytes) -> list[ReplyEvent]:
        """Return the events that *chunk* completes."""
        if self.ended:
            return []
        if not self._started:
            chunk = chunk.lstrip()
            if not chunk:
                return []
            self._started = True
            if chunk.startswith(b"{"):  # not an event stream
                self._whole = bytearray()
        if self._whole is not None:
            self._whole += chunk
            return []
        return list(self._decode_events(self._parser.feed(chunk)))

    def finish(self) -> list[ReplyEvent]:
        """Return the events that the end of the body completes, and a ``ReplyFailure`` if the reply is incomplete."""
        if self.ended:
            return []
        events: list[ReplyEvent] = []
        if self._whole is not None:
            events += self._decode_body(bytes(self._whole))
        else:
            events += self._decode_events(self._parser.finish(), is_final=True)
        if self._half_pair:
            events.append(TextDelta("\ufffd"))
            self._half_pair = ""
        if not self.complete and not self.ended:
            events.append(ReplyFailure("cut"))
        self.ended = True
        return events

    @abstractmethod
    def _decode_chunk(self, data: dict[str, Any]) -> Iterator[ReplyEvent]:
        """Yield the events of one object of the stream, setting ``complete`` and ``ended`` at its end."""

    @abstractmethod
    def _decode_reply(self, data: dict[str, Any]) -> Iterator[ReplyEvent]:
        """Yield the events of a complete reply from a server that does not stream."""

    def _decode_events(self, received: Iterable[ServerSentEvent], is_final: bool = False) -> Iterator[ReplyEvent]:
        for event in received:
            if self.ended:
                return
            if event.data.strip() == "[DONE]":
                self.complete = self.ended = True
                return
            try:
                data = loads(event.data)
            except ValueError:
                if is_final:
                    return  # truncated by the end of the stream
                yield self._build_failure("malformed", "", event.data)
                return
            if isinstance(data, dict):
                yield from self._decode_object(data, self._decode_chunk, is_error=event.event == "error")
            elif event.event == "error":
                yield self._build_failure("error", "", parse_string(data))

    def _decode_object(
        self, data: dict[str, Any], decode: Callable[[dict[str, Any]], Iterator[ReplyEvent]], *, is_error: bool = False
    ) -> Iterator[ReplyEvent]:
        """Yield the events of an object by *decode*, or a failure if it is an error or belongs to another API."""
        error = data.get("error")
        if error or is_error or data.get("type") == "error":
            details = error if isinstance(error, dict) else {}
            message = details.get("message") or data.get("message") or (error if isinstance(error, str) else "")
            kind = parse_string(details.get("type") or details.get("code"))
            yield self._build_failure("error", kind, parse_string(message))
        elif (api := _detect_api(data)) not in ("", self.api):
            yield self._build_failure("other_api", api, "")
        else:
            yield from decode(data)

    def _decode_body(self, body: bytes) -> Iterator[ReplyEvent]:
        if (data := try_loads(body)) is not None:
            yield from self._decode_object(data, self._decode_reply)
        elif body.rstrip().endswith(b"}"):  # not truncated
            yield self._build_failure("malformed", "", body.decode("utf-8", "replace"))

    def _build_failure(self, kind: str, type_: str, message: str) -> ReplyFailure:
        self.ended = True
        return ReplyFailure(kind, self._redact(type_), self._redact(message))

    def _build_text(self, text: object, index: int = 0) -> Iterator[TextDelta]:
        """Yield *text* as an event, with lone surrogates replaced, or nothing if *text* is empty or not a string."""
        if not isinstance(text, str) or not text:
            return
        text, self._half_pair = self._half_pair + text, ""
        if "\ud800" <= text[-1] <= "\udbff":
            text, self._half_pair = text[:-1], text[-1]
        if _SURROGATE.search(text):
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if text:
            yield TextDelta(text, index)

    def _update_usage(self, report: ReplyUsage) -> Iterator[ReplyUsage]:
        if (merged := self._usage.merge(report)) != self._usage:
            self._usage = merged
            yield merged


def _detect_api(data: dict[str, Any]) -> str:
    if data.get("type") in _ANTHROPIC_TYPES:
        return "anthropic"
    if data.get("choices") and isinstance(data["choices"], list):
        return "openai"
    return "openai" if parse_string(data.get("object")).startswith("chat.completion") else ""


def parse_mapping(value: object) -> dict[str, Any]:
    """Return *value* if it is a JSON object, else an empty one, because servers send null in place of objects."""
    return value if isinstance(value, dict) else {}


def parse_token_count(value: object) -> int | None:
    """Return *value* if it can be a token count, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def parse_name(value: object) -> str:
    """Return a model's name or a stop reason as text that is safe to display, or an empty string."""
    return format_one_line(parse_string(value), 100)


def parse_string(value: object) -> str:
    """Return *value* as text, or an empty string for null."""
    return "" if value is None else str(value)
