"""Following a session: what one appended line costs where ten times as much stands before it.

    python -m benchmarks.run following

The time of a line is that of the processor, the median of several, each of them read on and looked at by itself. A
session of every kind of file is followed, with and without rewinds, and in the end its facts are held against those of
a new scan.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import msgspec

from benchmarks.measures import Row
from context_tui.cli.inspect import format_status_line
from context_tui.formats.base import scan
from context_tui.formats.opening import choose_session, make_scanner
from context_tui.library.follow import GrowingSession
from context_tui.session.facts import Facts
from context_tui.session.session import Session
from context_tui.tui.timeline.rows import TimelineRows

Record = dict[str, Any]
SIZES = 1_000, 10_000
LINES, TIMES = 20, 4
"""Lines whose median counts, and how often that is taken: the least of these is the work, not the neighbours."""
BUDGETS = {"read": 2.0, "report": 13.0, "rows": 13.0}
"""By how much ten times the session may make a line dearer: to read it on, not at all. To tell the size of the context,
which here is all of the session, is linear in that; the columns of rows are copied for the screen.
"""
WHEN = "2026-03-01T10:00:00.000Z"


class Writer:
    """What a program writes, record by record: a prompt, then replies with a call and its result; and rewinds."""

    first: tuple[Record, ...] = ()

    def typed(self, number: int) -> Iterator[Record]:
        """The records of what a person typed."""
        raise NotImplementedError

    def step(self, number: int) -> Iterator[Record]:
        """The records of a reply with a call, and of its result."""
        raise NotImplementedError

    def rewind(self, number: int) -> Iterator[Record]:
        """The records that leave the last prompt and all behind it, up to the next prompt."""
        raise NotImplementedError


class ClaudeCode(Writer):
    def __init__(self) -> None:
        self.parent: str | None = None
        self.before: str | None = None
        self.count = itertools.count()

    def _record(self, kind: str, message: Record, **more: Any) -> Record:
        uuid = f"u{next(self.count)}"
        record = {"parentUuid": self.parent, "isSidechain": False, "sessionId": "s", "version": "2.1.62", "type": kind}
        self.parent = uuid
        return {**record, "uuid": uuid, "timestamp": WHEN, "message": message, **more}

    def typed(self, number: int) -> Iterator[Record]:
        self.before = self.parent
        yield self._record("user", {"role": "user", "content": f"go on {number}"})

    def step(self, number: int) -> Iterator[Record]:
        usage = {"input_tokens": 3, "cache_read_input_tokens": 20_000 + number, "output_tokens": 40}
        call = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": "make"}}
        message = {"id": f"m{number}", "model": "claude-sonnet-4-5", "role": "assistant", "stop_reason": "tool_use"}
        yield self._record("assistant", {**message, "content": [call], "usage": usage})
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "fine " * 40}
        yield self._record("user", {"role": "user", "content": [result]})

    def rewind(self, number: int) -> Iterator[Record]:
        self.parent = self.before
        yield from ()


class Pi(Writer):
    first = ({"type": "session", "version": 3, "id": "0196f0a0", "timestamp": WHEN, "cwd": "/src/app"},)

    def __init__(self) -> None:
        self.parent: str | None = None
        self.before: str | None = None
        self.count = itertools.count()

    def _record(self, role: str, content: Any, **more: Any) -> Record:
        record_id, above = f"e{next(self.count)}", self.parent
        self.parent = record_id
        message = {"role": role, "content": content, "timestamp": 1772359200000, **more}
        return {"type": "message", "id": record_id, "parentId": above, "timestamp": WHEN, "message": message}

    def typed(self, number: int) -> Iterator[Record]:
        self.before = self.parent
        yield self._record("user", f"go on {number}")

    def step(self, number: int) -> Iterator[Record]:
        usage = {"input": 30, "output": 5, "cacheRead": 400 + number, "cacheWrite": 20}
        call = {"type": "toolCall", "id": f"t{number}", "name": "bash", "arguments": {"command": "make"}}
        message = {"api": "anthropic-messages", "provider": "anthropic", "model": "claude-sonnet-4-5"}
        yield self._record("assistant", [call], **message, usage=usage, stopReason="toolUse")
        body = [{"type": "text", "text": "fine " * 40}]
        yield self._record("toolResult", body, toolCallId=f"t{number}", toolName="bash", isError=False)

    def rewind(self, number: int) -> Iterator[Record]:
        self.parent = self.before
        yield from ()


class Codex(Writer):
    first = (
        {"timestamp": WHEN, "type": "session_meta", "payload": {"id": "019f17a5-6d3f", "cwd": "/src"}},
        {"timestamp": WHEN, "type": "turn_context", "payload": {"cwd": "/src", "model": "gpt-5.5"}},
    )

    def _line(self, kind: str, **payload: Any) -> Record:
        return {"timestamp": WHEN, "type": kind, "payload": payload}

    def typed(self, number: int) -> Iterator[Record]:
        text = {"type": "input_text", "text": f"go on {number}"}
        yield self._line("response_item", type="message", role="user", content=[text])
        yield self._line("event_msg", type="user_message", message=text["text"])

    def step(self, number: int) -> Iterator[Record]:
        call = {"type": "function_call", "name": "shell", "arguments": '{"cmd":"ls"}', "call_id": f"t{number}"}
        yield self._line("response_item", **call)
        yield self._line("response_item", type="function_call_output", call_id=f"t{number}", output="fine " * 40)
        last = {"input_tokens": 900 + number, "cached_input_tokens": 600, "output_tokens": 10}
        total = {"total_tokens": 1_000 * (number + 1)}
        yield self._line("event_msg", type="token_count", info={"total_token_usage": total, "last_token_usage": last})

    def rewind(self, number: int) -> Iterator[Record]:
        yield self._line("event_msg", type="thread_rolled_back", num_turns=1)


class Gemini(Writer):
    first = ({"sessionId": "abc-1", "projectHash": "f" * 64, "startTime": WHEN, "lastUpdated": WHEN},)

    def __init__(self) -> None:
        self.before = ""

    def typed(self, number: int) -> Iterator[Record]:
        self.before = f"p{number}"
        yield {"id": self.before, "timestamp": WHEN, "type": "user", "content": f"go on {number}"}

    def step(self, number: int) -> Iterator[Record]:
        record_id = f"t{number}"
        answer = [{"functionResponse": {"id": record_id, "name": "read_file", "response": {"output": "fine " * 40}}}]
        call = {"id": record_id, "name": "read_file", "args": {"path": "a"}, "status": "success", "result": answer}
        tokens = {"input": 900 + number, "output": 10, "cached": 600, "thoughts": 30, "tool": 5, "total": 945 + number}
        message = {"id": f"m{number}", "timestamp": WHEN, "type": "gemini", "content": "", "model": "gemini-2.5-pro"}
        yield {**message, "toolCalls": [call], "tokens": tokens}

    def rewind(self, number: int) -> Iterator[Record]:
        yield {"$rewindTo": self.before}


class Copilot(Writer):
    def __init__(self) -> None:
        self.before = ""

    def _event(self, kind: str, record_id: str, **data: Any) -> Record:
        return {"type": kind, "data": data, "id": record_id, "timestamp": WHEN, "parentId": None}

    @property
    def first(self) -> tuple[Record, ...]:  # type: ignore[override]
        about = {"sessionId": "s", "version": 1, "selectedModel": "gpt-5", "context": {"cwd": "/"}}
        return (self._event("session.start", "0", **about),)

    def typed(self, number: int) -> Iterator[Record]:
        self.before = f"p{number}"
        text = f"go on {number}"
        yield self._event("user.message", self.before, content=text, transformedContent=text, attachments=[])

    def step(self, number: int) -> Iterator[Record]:
        call = {"toolCallId": f"t{number}", "name": "bash", "arguments": {"command": "make"}}
        record_id = f"m{number}"
        yield self._event(
            "assistant.message", record_id, messageId=record_id, model="gpt-5.3", content="", toolRequests=[call]
        )
        message = {"toolCallId": f"t{number}", "success": True, "result": {"content": "fine " * 40}}
        yield self._event("tool.execution_complete", f"d{number}", **message)

    def rewind(self, number: int) -> Iterator[Record]:
        yield self._event("session.snapshot_rewind", f"r{number}", upToEventId=self.before, eventsRemoved=3)


WRITERS: dict[str, Callable[[], Writer]] = {
    "claude-code": ClaudeCode,
    "pi": Pi,
    "codex": Codex,
    "gemini-cli": Gemini,
    "copilot-cli": Copilot,
}


def records(writer: Writer, rewinds: bool) -> Iterator[Record]:
    """A session that never ends, in turns of five steps; with *rewinds*, three of the first turns are left."""
    yield from writer.first
    for number in itertools.count():
        if number % 5 == 0:
            if rewinds and number in (10, 15, 25):
                yield from writer.rewind(number)
            yield from writer.typed(number)
        yield from writer.step(number)


class Cost(NamedTuple):
    """Milliseconds of processor time for a line: to read it, to report it as ``inspect --follow`` does, and to update
    the rows of the screen.
    """

    read: float
    report: float
    rows: float


def columns(facts: Facts) -> dict[str, Any]:
    """Return the facts for a comparison, without the results of searches, which are computed on first use."""
    columns = {name: value for name, value in vars(facts).items() if name[0] != "_" and not name.endswith("_known")}
    del columns["peak_search"], columns["drop_search"]
    return {name: [*value] if isinstance(value, array) else value for name, value in columns.items()}


def cost(name: str, size: int, rewinds: bool) -> Cost:
    """What a line costs behind so many messages.

    Raises:
        AssertionError: the facts are not those of a new scan.
    """
    lines = (msgspec.json.encode(record) + b"\n" for record in records(WRITERS[name](), rewinds))
    with tempfile.TemporaryDirectory(prefix="context-tui-following-") as folder:
        path, rows, times = Path(folder, "session.jsonl"), TimelineRows(), list[float]()
        with path.open("ab", buffering=0) as file:
            file.write(b"".join(itertools.islice(lines, 40)))
            growing = GrowingSession(choose_session(str(path)))
            while not growing.advance().end:
                pass
            while len(session := growing.session()) < size:
                file.write(b"".join(itertools.islice(lines, size // 20)))
                growing.advance()
            assert bool(session.facts.branches) == rewinds
            rows.grow(session)
            for action in (None, tell, show):  # one after the other: each leaves the processor's caches as it likes
                medians = []
                for _ in range(TIMES):
                    spent = []
                    for _ in range(LINES):
                        file.write(next(lines))
                        start = time.process_time()
                        revised = growing.advance().revised_from
                        session = growing.session()
                        if action:
                            start = time.process_time()
                            action(session, rows, revised)
                        spent.append(time.process_time() - start)
                    medians.append(median(spent))
                times.append(1000 * min(medians))
        fresh = scan(make_scanner(growing.info))
        fresh.drops  # noqa: B018  they are looked for when they are asked for
        assert columns(session.facts) == columns(fresh.facts)
    return Cost(*times)


def tell(session: Session, rows: TimelineRows, revised: int | None) -> None:
    """Say how the session is now."""
    format_status_line(session)


def show(session: Session, rows: TimelineRows, revised: int | None) -> None:
    """Bring the rows of the timeline up to date, and hand them to the screen."""
    rows.grow(session, revised)
    rows.copy()


def following() -> list[Row]:
    """A row for each kind of file and each thing that is done with a line."""
    rows = []
    for name in WRITERS:
        for rewinds in (False, True):
            costs = [cost(name, size, rewinds) for size in SIZES]
            for step, small, large in zip(Cost._fields, *costs, strict=True):
                detail = f"{small:.2f} ms at {SIZES[0]:,} messages, {large:.2f} ms at {SIZES[1]:,}"
                title = f"{step} {name}{', rewinds' * rewinds}"
                rows.append(Row(title, large / small, BUDGETS[step], "times", detail))
    return rows
