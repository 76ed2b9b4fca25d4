"""Write a Claude Code session of any size, as the program itself would have recorded it.

    python -m benchmarks.generate OUT --bytes 500MB
    python -m benchmarks.generate OUT --messages 100000

The same seed gives the same bytes. A message takes about five kilobytes, so that both of these are one session.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.text import Text

Record = dict[str, Any]

COMPACTS_AT = 167_000  # recorded tokens, of a window of 200,000
NOT_IN_FILE = 18_000  # the system prompt and the tools
CHARACTERS_A_TOKEN = 3.6
SUMMARY = "This session is being continued from a previous conversation that ran out of context."


class Recorder:
    """The state of a session while it is written: its chain of records, its clock and its context."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = random.Random(seed)
        self.text = Text.make(self.rng)
        self.session = self.uuid()
        self.parent: str | None = None
        self.now = datetime(2026, 2, 2, 9, tzinfo=UTC)
        self.messages = 0
        self.cached = 0  # tokens that the last request left in the cache
        self.context = NOT_IN_FILE
        # Each file has its own lines, so that reading it again gives the same text.
        paths = [f"/home/dev/project/src/module_{number:03}.py" for number in range(200)]
        self.files = [(path, self.rng.randrange(30_000), self.size(20, 500)) for path in paths]

    def uuid(self) -> str:
        """A random id in the shape of a UUID."""
        digits = f"{self.rng.getrandbits(128):032x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def id(self, prefix: str) -> str:
        """A random id in the shape of the service's."""
        return f"{prefix}_01{self.rng.getrandbits(100):025x}"

    def size(self, low: int, high: int) -> int:
        """A size between the two, with small ones far more common."""
        return int(low * (high / low) ** (self.rng.random() ** 1.5))

    def stamp(self, seconds: float = 1.0) -> str:
        """The time, which passes by being asked for."""
        self.now += timedelta(seconds=self.rng.random() * 2 * seconds)
        return self.now.isoformat(timespec="milliseconds")[:-6] + "Z"

    def record(self, seconds: float = 1.0, **rest: Any) -> Record:
        """A record of the chain, below the one before."""
        uuid = self.uuid()
        head = {"parentUuid": self.parent, "isSidechain": False, "userType": "external", "cwd": "/home/dev/project"}
        head |= {"sessionId": self.session, "version": "2.1.62", "gitBranch": "main", "slug": "patient-tuning-otter"}
        # The id and the time come late in a record, but before what only some have.
        late = {key: rest.pop(key) for key in ("toolUseResult", "sourceToolAssistantUUID", "isMeta") if key in rest}
        self.parent = uuid
        return head | rest | {"uuid": uuid, "timestamp": self.stamp(seconds)} | late

    def add(self, *texts: str) -> None:
        """Count what the model will see."""
        self.context += int(sum(map(len, texts)) / CHARACTERS_A_TOKEN)

    def prompt(self) -> Iterator[Record]:
        """What a person typed, some time after the last answer."""
        text = self.text.cut(self.rng, self.size(30, 1500))
        self.add(text)
        self.messages += 1
        record = self.record(self.size(20, 900), type="user", message={"role": "user", "content": text})
        snapshot = {"messageId": record["uuid"], "trackedFileBackups": {}, "timestamp": record["timestamp"]}
        snapshot_fields = {"messageId": record["uuid"], "snapshot": snapshot, "isSnapshotUpdate": False}
        yield {"type": "file-history-snapshot"} | snapshot_fields
        yield record

    def answer(self, blocks: list[Record]) -> Iterator[Record]:
        """One message of the model: a line for each block, all with the same id and usage."""
        expired = self.rng.random() < 0.03
        read = 0 if expired else self.cached
        written = self.context - read
        self.cached = self.context
        size = len(msgspec.json.encode(blocks))
        output = int(size / CHARACTERS_A_TOKEN)
        self.context += output
        self.messages += 1
        usage = {
            "input_tokens": self.rng.randrange(2, 12),
            "cache_creation_input_tokens": written,
            "cache_read_input_tokens": read,
            "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0},
            "output_tokens": output,
            "service_tier": "standard",
        }
        head = {"model": "claude-sonnet-4-5-20250929", "id": self.id("msg"), "type": "message", "role": "assistant"}
        request = self.id("req")
        for block in blocks:
            stop = None if block is not blocks[-1] else "tool_use" if block["type"] == "tool_use" else "end_turn"
            message = head | {"content": [block], "stop_reason": stop, "stop_sequence": None, "usage": usage}
            yield self.record(3, message=message, requestId=request, type="assistant")

    def call(self) -> tuple[Record, str, Any]:
        """A call of a tool: its block, what the model is told, and what the screen is."""
        name = self.rng.choices(("Read", "Bash", "Edit", "Grep"), (45, 30, 15, 10))[0]
        path, first, count = self.rng.choice(self.files)
        plain, numbered = self.text.file(first, count)
        tool_input: Record
        tool_result: Any
        if name == "Read":
            tool_input, result_text = {"file_path": path}, numbered
            file = {"filePath": path, "content": plain, "numLines": count, "startLine": 1, "totalLines": count}
            tool_result = {"type": "text", "file": file}
        elif name == "Bash":
            result_text = self.text.cut(self.rng, self.size(40, 9000))
            tool_input = {"command": f"pytest -q {path} 2>&1 | tail -50", "description": "Run the tests of one module"}
            tool_result = {"stdout": result_text, "stderr": "", "interrupted": False, "isImage": False}
        elif name == "Edit":
            old, new = plain[: self.size(40, 1200)], self.text.cut(self.rng, self.size(40, 1500))
            tool_input = {"replace_all": False, "file_path": path, "old_string": old, "new_string": new}
            result_text = f"The file {path} has been updated successfully."
            tool_result = {"filePath": path, "oldString": old, "newString": new, "originalFile": plain}
            hunk = {"oldStart": 1, "oldLines": 3, "newStart": 1, "newLines": 4, "lines": new.splitlines()[:20]}
            tool_result |= {"structuredPatch": [hunk], "userModified": False, "replaceAll": False}
        else:
            matches = enumerate(self.text.lines[first : first + 30], 1)
            result_text = "".join(f"{path}:{number}:{line}" for number, line in matches)
            tool_input = {
                "pattern": self.rng.choice(self.text.lines).strip()[:20],
                "path": path,
                "output_mode": "content",
            }
            tool_result = {"mode": "content", "numFiles": 0, "filenames": [], "content": result_text, "numLines": 30}
        return {"type": "tool_use", "id": self.id("toolu"), "name": name, "input": tool_input}, result_text, tool_result

    def step(self) -> Iterator[Record]:
        """The model thinks, says something, calls a tool or three; the results come back."""
        blocks: list[Record] = []
        if self.rng.random() < 0.25:
            thinking = self.text.cut(self.rng, self.size(80, 3000))
            blocks.append({"type": "thinking", "thinking": thinking, "signature": "EqQBCkYIBxgCIkAx" * 30})
        if self.rng.random() < 0.5:
            blocks.append({"type": "text", "text": self.text.cut(self.rng, self.size(40, 800))})
        calls = [self.call() for _ in range(self.rng.choices((1, 2, 3), (80, 14, 6))[0])]
        call_ids: dict[str, str] = {}
        for record in self.answer(blocks + [block for block, _, _ in calls]):
            call_ids[record["message"]["content"][0].get("id", "")] = record["uuid"]
            yield record
        for block, result_text, tool_result in calls:
            if block["name"] == "Bash" and self.rng.random() < 0.1:
                data = {"type": "bash_progress", "output": "", "fullOutput": "", "elapsedTimeSeconds": 2}
                yield self.record(type="progress", data=data, toolUseID="bash-progress-0", parentToolUseID=block["id"])
            result: Record = {"tool_use_id": block["id"], "type": "tool_result", "content": result_text}
            if block["name"] == "Bash":
                result["is_error"] = False
            message = {"role": "user", "content": [result]}
            source = call_ids[block["id"]]
            yield self.record(
                4, type="user", message=message, toolUseResult=tool_result, sourceToolAssistantUUID=source
            )
            self.add(result_text)
        self.messages += 1
        if self.rng.random() < 0.02:
            attachment = {"type": "task_reminder", "content": [], "itemCount": 0}
            yield self.record(attachment=attachment, type="attachment")

    def compaction(self) -> Iterator[Record]:
        """The boundary and the summary; the context starts anew with them."""
        before, self.parent = self.parent, None
        metadata = {"trigger": "auto", "preTokens": self.context}
        head = {"parentUuid": None, "logicalParentUuid": before}
        boundary = self.record(90, type="system", subtype="compact_boundary", content="Conversation compacted")
        yield head | boundary | {"isMeta": False, "level": "info", "compactMetadata": metadata}
        text = f"{SUMMARY} The conversation is summarized below:\n{self.text.cut(self.rng, self.size(8000, 20000))}"
        message = {"role": "user", "content": text}
        record = self.record(type="user", message=message, isVisibleInTranscriptOnly=True, isCompactSummary=True)
        yield record
        self.messages += 1
        self.cached, self.context = 0, NOT_IN_FILE
        self.add(text)

    def turn(self) -> Iterator[Record]:
        """One prompt and all that the model does about it."""
        start = self.now
        yield from self.prompt()
        for _ in range(self.size(1, 40)):
            if self.context > COMPACTS_AT:
                yield from self.compaction()
            yield from self.step()
        yield from self.answer([{"type": "text", "text": self.text.cut(self.rng, self.size(100, 2500))}])
        duration = int((self.now - start).total_seconds() * 1000)
        yield self.record(type="system", subtype="turn_duration", durationMs=duration, isMeta=False)


def generate(out: Path, *, size: int | None = None, messages: int | None = None, seed: int = 0) -> int:
    """Write a session of at least ``size`` bytes or ``messages`` messages to ``out``; return its messages."""
    recorder = Recorder(seed)
    encode = msgspec.json.Encoder().encode
    written = 0
    with out.open("wb", buffering=1 << 20) as file:
        while (size is None or written < size) and (messages is None or recorder.messages < messages):
            for record in recorder.turn():
                written += file.write(encode(record) + b"\n")
        file.write(encode({"type": "last-prompt", "lastPrompt": "", "leafUuid": recorder.parent}) + b"\n")
    return recorder.messages


def parse_size(text: str) -> int:
    """``500MB`` in bytes."""
    match = re.fullmatch(r"(\d+)\s*([kMG]?)B?", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size like 500MB")
    return int(match[1]) * {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}[match[2]]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.generate", description="Write a session of any size.")
    parser.add_argument("out", type=Path)
    amount = parser.add_mutually_exclusive_group(required=True)
    amount.add_argument("--bytes", type=parse_size, metavar="SIZE", help="for example 500MB")
    amount.add_argument("--messages", type=int, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    messages = generate(options.out, size=options.bytes, messages=options.messages, seed=options.seed)
    print(f"{options.out}: {messages:,} messages, {options.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
