"""Writes a Claude Code session record by record, as the program would: ids, times, the chain and usage are kept here.

Everything is drawn from a seed, so that the same calls give the same bytes.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

Block = dict[str, Any]

BYTES_A_TOKEN = 3.6
CACHE_LIFETIME = 300.0  # seconds
IMAGE_TOKENS = 40  # of the tiny pictures in here, as the service counts: width x height / 750, and some for the frame


def text(value: str) -> Block:
    """A text block."""
    return {"type": "text", "text": value}


def thinking(value: str) -> Block:
    """A thinking block; its signature is as long as a short real one and says that it is none."""
    return {"type": "thinking", "thinking": value, "signature": "c2FtcGxlLXNpZ25hdHVyZS0=" * 8}


def image(data: str) -> Block:
    """An image block with a PNG in base64."""
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


@dataclass
class Call:
    """A tool call with its result: what the model is told, and what the client keeps for its screen."""

    tool: str
    tool_input: dict[str, Any]
    result: str | list[Block]
    error: bool = False
    client_result: Any = None
    id: str = ""


@dataclass
class Recorder:
    """One session while it is written. ``context`` is what the next request will hold, in tokens."""

    name: str
    start: datetime
    cwd: str
    model: str = "claude-sonnet-4-5-20250929"
    version: str = "2.1.62"
    branch: str = "main"
    slug: str = "quiet-mending-heron"
    hidden: int = 6_000
    records: list[dict[str, Any]] = field(default_factory=list)
    parent: str | None = None
    sidechain: str = ""

    def __post_init__(self) -> None:
        self.rng = random.Random(f"context-tui sample {self.name}")
        self.session = self.uuid()
        self.now = self.start
        self.context = float(self.hidden)
        self.cached, self.cached_at = 0, self.start - timedelta(days=1)

    # -- ids and time

    def uuid(self) -> str:
        """An id in the shape of a UUID."""
        digits = f"{self.rng.getrandbits(128):032x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def id(self, prefix: str) -> str:
        """An id in the shape of the service's."""
        letters = "0123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
        return f"{prefix}_01" + "".join(letters[int(self.rng.random() * len(letters))] for _ in range(22))

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += timedelta(milliseconds=round(seconds * 1000))

    def stamp(self) -> str:
        """The time as records hold it."""
        return self.now.isoformat(timespec="milliseconds") + "Z"

    # -- records

    def add(self, *, late: dict[str, Any] | None = None, **rest: Any) -> str:
        """Append a record to the chain, below the one before; returns its uuid."""
        uuid = self.uuid()
        head = {"parentUuid": self.parent, "isSidechain": bool(self.sidechain), "userType": "external"}
        head |= {"cwd": self.cwd, "sessionId": self.session, "version": self.version, "gitBranch": self.branch}
        if self.sidechain:
            head["agentId"] = self.sidechain
        head["slug"] = self.slug
        self.records.append(head | rest | {"uuid": uuid, "timestamp": self.stamp()} | (late or {}))
        self.parent = uuid
        return uuid

    def side(self, **record: Any) -> None:
        """Append a record that is not of the chain."""
        self.records.append(record)

    def prompt(self, content: str | list[Block], after: float = 30.0) -> str:
        """What a person typed, some time after the last answer."""
        self.wait(after)
        uuid, stamp = self.uuid(), self.stamp()
        self.side(
            type="file-history-snapshot",
            messageId=uuid,
            snapshot={"messageId": uuid, "trackedFileBackups": {}, "timestamp": stamp},
            isSnapshotUpdate=False,
        )
        self.count(content)
        return self.add(type="user", message={"role": "user", "content": content})

    def reply(
        self, *blocks: Block, calls: Sequence[Call] = (), seconds: float = 6.0, tool_seconds: float = 0.8
    ) -> None:
        """One answer of the model, a line for each block; then a line for the result of each call."""
        uses: list[Block] = []
        for call in calls:
            call.id = call.id or self.id("toolu")
            uses.append({"type": "tool_use", "id": call.id, "name": call.tool, "input": call.tool_input})
        uuids = self._answer([*blocks, *uses], seconds)
        for call in calls:
            self.wait(tool_seconds * (0.5 + self.rng.random()))
            result: Block = {"tool_use_id": call.id, "type": "tool_result", "content": call.result}
            if call.error or call.tool == "Bash":
                result["is_error"] = call.error
            tool_result = f"Error: {call.result}" if call.error and call.client_result is None else call.client_result
            late = {"toolUseResult": tool_result, "sourceToolAssistantUUID": uuids[call.id]}
            self.add(type="user", message={"role": "user", "content": [result]}, late=late)
            self.count(call.result)

    def _answer(self, blocks: list[Block], seconds: float) -> dict[str, str]:
        usage = self._usage(blocks, seconds)
        head = {"model": self.model, "id": self.id("msg"), "type": "message", "role": "assistant"}
        uuids = {}
        for block in blocks:
            self.wait(seconds / len(blocks) * (0.5 + self.rng.random()))
            last = block is blocks[-1]
            stop = None if not last else "tool_use" if block["type"] == "tool_use" else "end_turn"
            message = head | {"content": [block], "stop_reason": stop, "stop_sequence": None, "usage": usage}
            uuid = self.add(message=message, type="assistant")
            uuids[block.get("id", "")] = uuid
        self.cached_at = self.now
        return uuids

    def _usage(self, blocks: list[Block], seconds: float) -> dict[str, Any]:
        """The request's: what an earlier one left in the cache is read, the rest is written to it."""
        total, fresh = int(self.context), 3 + int(self.rng.random() * 9)
        warm = (self.now - self.cached_at).total_seconds() < CACHE_LIFETIME
        read = min(self.cached, total - fresh) if warm else 0
        written = total - fresh - read
        self.cached = total - fresh
        output = max(4, int(_size(json.dumps(blocks, ensure_ascii=False)) / BYTES_A_TOKEN))
        self.count([block for block in blocks if block["type"] != "thinking"])
        return {
            "input_tokens": fresh,
            "cache_creation_input_tokens": written,
            "cache_read_input_tokens": read,
            "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0},
            "output_tokens": output,
            "service_tier": "standard",
        }

    def count(self, content: str | list[Block]) -> None:
        """Add what the model will be given to the context."""
        if isinstance(content, str):
            self.context += _size(content) / BYTES_A_TOKEN
            return
        for block in content:
            if block["type"] == "image":
                self.context += IMAGE_TOKENS
            elif block["type"] == "text":
                self.count(block["text"])
            else:
                self.count(json.dumps(block, ensure_ascii=False))

    def turn_ended(self, start: datetime) -> None:
        """The client's own note of how long a turn took."""
        spent = int((self.now - start).total_seconds() * 1000)
        self.add(type="system", subtype="turn_duration", durationMs=spent, isMeta=False)

    def lines(self) -> bytes:
        """The file."""
        return b"".join(line(record) for record in self.records)


def _size(value: str) -> int:
    return len(value.encode("utf-8", "surrogatepass"))


def tokens(value: object) -> int:
    """Tokens of all texts in a request, with a few for each object around them."""
    if isinstance(value, str):
        return int(_size(value) / BYTES_A_TOKEN)
    if isinstance(value, dict):
        return 3 + sum(tokens(part) for part in value.values())
    return sum(tokens(part) for part in value) if isinstance(value, list) else 0


def line(record: object) -> bytes:
    """A record as its line; half a surrogate pair is escaped, as the client does."""
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace") + b"\n"
