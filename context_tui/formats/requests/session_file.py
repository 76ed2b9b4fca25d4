"""Read the requests that Claude Code (since 2.1.330) records in its own session file by default.

An ``api-request`` lists a request's messages by hash: the first ``keep`` of request ``base``, then ``tail``. An
``api-request-blob`` holds a message that the transcript lacks, an ``api-request-shape`` the system prompt and the
tools. A hash is the SHA-256 of the message as compact JSON with sorted keys, without cache marks.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from context_tui.formats.kit.documents import Element
from context_tui.formats.kit.lines import LineTail
from context_tui.formats.kit.values import parse_id, parse_time_ms
from context_tui.formats.requests.bodies import Exchange, RequestBody, join_elements
from context_tui.formats.requests.folder import FORMAT_NAME, read_session_file
from context_tui.formats.requests.scanner import SessionFacts
from context_tui.session.jsontext import compact_json, loads
from context_tui.session.problems import Problem

SESSION_ID = "requests"
"""Id of the requests in a session file: ``PATH#requests``."""
_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_TYPES = (b'"api-request', b'"assistant"', b'"user"')


class SessionFileRequests:
    """The log of the requests in a Claude Code session file."""

    format_name, generation = FORMAT_NAME, 0

    def __init__(self, path: Path) -> None:
        self.path, self._lines = path, LineTail(path)
        self._reset()

    def _reset(self) -> None:
        self._messages: dict[str, msgspec.Raw] = {}  # by hash
        self._lists: dict[str, list[str]] = {}  # hashes of the messages of each request
        self._shapes: dict[str, dict[str, Any]] = {}
        self._requests: list[dict[str, Any]] = []
        self._replies: dict[str, dict[str, Any]] = {}  # by request
        self._reply: dict[str, Any] | None = None  # the newest, which may be continued
        self._facts: tuple[int, SessionFacts] | None = None
        self._typed: list[Any] = []  # content of the user records since the newest reply

    def list_exchanges(self) -> tuple[list[Exchange], list[Problem]]:
        if self._lines.is_replaced():
            self.generation += 1
            self._reset()
        for _, line in self._lines.read_on():
            if any(kind in line for kind in _TYPES):
                with suppress(ValueError):
                    self._add_record(loads(line))
        exchanges = []
        for number, request in enumerate(self._requests, 1):
            name, time = f"request {number}", parse_time_ms(request.get("timestamp"))
            source = parse_id(request.get("querySource"))
            reply = self._replies.get(parse_id(request.get("id")))
            source = source if source.startswith("agent") else ""
            is_complete = reply is not None and (reply is not self._reply or bool(reply["stop_reason"]))
            read = partial(self._read_body, request, reply if is_complete else None)
            exchanges.append(Exchange(name, time, SESSION_ID, source, read, is_complete))
        return exchanges, []

    def read_session_facts(self, group: str) -> SessionFacts:
        if self._facts is None or self._facts[0] != self._lines.end:
            self._facts = self._lines.end, read_session_file(self.path)
        return self._facts[1]

    def _add_record(self, record: Any) -> None:
        if not isinstance(record, dict):
            return
        message = record.get("message")
        match record.get("type"):
            case "api-request":
                base = self._lists.get(parse_id(record.get("base")), [])
                keep, tail = record.get("keep"), record.get("tail")
                kept_hashes = base[:keep] if isinstance(keep, int) else []
                added_hashes = map(parse_id, tail if isinstance(tail, list) else ())
                self._lists[parse_id(record.get("id"))] = [*kept_hashes, *added_hashes]
                self._requests.append(record)
                self._reply = None
            case "api-request-shape" if isinstance(record.get("shape"), dict):
                self._shapes[parse_id(record.get("shapeHash"))] = record["shape"]
            case "api-request-blob" if isinstance(message, dict):
                self._messages[parse_id(record.get("hash"))] = msgspec.Raw(compact_json(message))
            case "assistant" if isinstance(message, dict):
                self._add_reply(message)
            case "user" if isinstance(message, dict):
                content = message.get("content")
                self._typed += content if isinstance(content, list) else [{"type": "text", "text": content}]
                self._store("user", content)
                self._store("user", self._typed)

    def _add_reply(self, message: dict[str, Any]) -> None:
        """Add blocks to the newest reply, or start one, which answers the newest request if that has no reply yet."""
        self._typed = []
        content, reply = message.get("content"), self._reply
        if reply is None or reply["id"] != message.get("id"):
            reply = self._reply = {"role": "assistant", "id": message.get("id"), "content": []}
            if self._requests:
                self._replies.setdefault(parse_id(self._requests[-1].get("id")), reply)
        reply["content"] = [*reply["content"], *(content if isinstance(content, list) else [])]
        reply["usage"], reply["stop_reason"] = message.get("usage"), message.get("stop_reason")
        self._store("assistant", reply["content"])

    def _store(self, role: str, content: Any) -> None:
        data = _encode_sorted({"role": role, "content": content})
        self._messages.setdefault(sha256(data).hexdigest(), msgspec.Raw(data))

    def _read_body(self, request: dict[str, Any], reply: dict[str, Any] | None) -> RequestBody:
        hashes = self._lists[parse_id(request.get("id"))]
        if missing := sum(each not in self._messages for each in hashes):
            raise ValueError(f"{missing:,} of its {len(hashes):,} messages are not in the file")
        members: dict[str, Element] = {
            name: msgspec.Raw(compact_json(value))
            for part in (request.get("params"), self._shapes.get(parse_id(request.get("shapeHash"))))
            for name, value in (part.items() if isinstance(part, dict) else ())
        }
        members["messages"] = join_elements([self._messages[each] for each in hashes])
        return RequestBody(members, reply)
