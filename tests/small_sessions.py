"""Many short sessions by name with everything that the pure layers look for, each of another mix of rare events.

``run N`` are Claude Code recordings whose sizes, caches and times are those that a server would report; ``FORMAT N``
are the sessions with everything in them from which the fuzzer starts; ``requests N`` are logs of whole requests.
"""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import context_tui as ct
from context_tui.session.memory import from_messages
from context_tui.session.session import Session
from tests.formats import request_logs
from tests.formats.recordings import IMAGE, Block, Recording, call, result, text, thinking
from tests.fuzz.mutations import Case
from tests.fuzz.seeds import SEEDS
from tests.scenarios import open_scenario

PAUSES = (2, 40, 299, 300, 301, 304, 306, 900, 3_500, 3_599, 3_603, 3_606, 7_300)
MODELS = ("claude-sonnet-4-5-20250929", "claude-opus-4-1", "claude-haiku-4-5", "a-model-without-a-price")
MISSES = ("system_changed", "tools_changed", "model_changed", "messages_changed", "previous_message_not_found", "other")
WORDS = "session window policy prompt cache token record reader branch parser index needle report budget".split()
RUNS = range(36)
CACHES = ("5m", "1h", "5m", "automatic", "both", "none")


class Run:
    """A short run of an agent: the tokens of its context and of the cache, and the record of both."""

    def __init__(self, number: int) -> None:
        self.dice = random.Random(f"small {number}")
        self.number = number
        self.recording = Recording()
        self.clock = datetime(2026, 2, 1, 9, tzinfo=UTC)
        self.cache = CACHES[number % len(CACHES)]
        self.base = self.dice.choice([3_000, 12_000, 40_000])
        self.shared = self.base * 2 // 3
        self.context, self.cached, self.thinking = self.base, 0, 0
        self.model = MODELS[0] if number % 4 else self.dice.choice(MODELS)
        self.thinks = self.dice.random() < 0.6
        self.factors = {"text": 0.26, "thinking": 0.31, "call": 0.4, "result": self.dice.choice([0.22, 0.33])}
        self.results: list[tuple[str, int]] = []
        self.calls = 0
        self.body = 900 if number % 16 == 15 else self.dice.choice([200, 3_000, 24_000])

    def later(self, seconds: float) -> dict[str, str]:
        """The time of the next record."""
        self.clock += timedelta(seconds=seconds)
        return {"timestamp": self.clock.isoformat(timespec="milliseconds").replace("+00:00", "Z")}

    def add(self, kind: str, words: str) -> int:
        """Add what a server counts for a text to the context."""
        tokens = round(len(words) * self.factors[kind])
        self.context += tokens
        return tokens

    def words(self, count: int) -> str:
        """Words with names that are rare enough to be recognised later."""
        parts = (
            f"{self.dice.choice(WORDS)}_{self.dice.choice(WORDS)}_{self.dice.randrange(9_999)}" for _ in range(count)
        )
        return " ".join(parts)

    def usage(self) -> dict[str, Any]:
        """The usage of the next request."""
        size = max(self.context + self.dice.randrange(-9, 9), 1)
        fresh = min(self.dice.choice([3, 3, 8]), size)
        if self.cache == "none":
            return {"input_tokens": size, "output_tokens": self.dice.randrange(1, 90)}
        if self.cache == "automatic":
            read = min(self.cached, size) // 128 * 128
            self.cached = size
            return {"input_tokens": size - read, "cache_read_input_tokens": read, "output_tokens": 12}
        read = min(self.cached, size - fresh)
        written = size - fresh - read
        hour = {"5m": 0, "1h": written, "both": written // 3}[self.cache]
        self.cached = size - fresh
        return {
            "input_tokens": fresh,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": written,
            "cache_creation": {"ephemeral_5m_input_tokens": written - hour, "ephemeral_1h_input_tokens": hour},
            "output_tokens": self.dice.randrange(1, 900),
        }

    def user(self) -> None:
        """What a person types, after a pause that may be longer than a cache lives."""
        pause = self.dice.choice(PAUSES)
        if pause > (3_605 if self.cache == "1h" else 305):
            self.cached = self.shared if self.dice.random() < 0.5 else 0
        words = f"Next: {self.words(self.dice.choice([1, 9, 60]))} in /src/{self.dice.choice(WORDS)}.py"
        blocks: list[Block] = [text(words)]
        self.add("text", words)
        if self.dice.random() < 0.25:
            blocks.append(IMAGE)
            self.context += 1_300
        if self.dice.random() < 0.3:
            blocks.append(text("<system-reminder>\nThe date has changed to 2026-02-03.\n</system-reminder>"))
            self.context += 20
        if self.dice.random() < 0.2:
            self.recording.user(self.words(9), isMeta=True, **self.later(1))
        self.recording.user(blocks if len(blocks) > 1 else words, **self.later(pause))

    def reply(self, *blocks: Block, stop: str = "tool_use", miss: bool = False) -> None:
        """A reply of the model, in as many records as it has blocks."""
        use, own = self.usage(), f"m{self.recording.count}"
        for block in blocks:
            seconds = self.dice.choice([1, 4, 20])
            self.recording.assistant(block, id=own, use=use, model=self.model, stop_reason=stop, **self.later(seconds))
            if miss:
                record = json.loads(self.recording.lines[-1])
                record["message"]["diagnostics"] = {"cache_miss_reason": {"type": self.dice.choice(MISSES)}}
                self.recording.lines[-1] = json.dumps(record, separators=(",", ":")).encode()
            kind = {"thinking": "thinking", "tool_use": "call"}.get(block["type"], "text")
            tokens = self.add(kind, str(block.get("text") or block.get("thinking") or block.get("input") or ""))
            self.thinking += tokens if kind == "thinking" else 0

    def step(self) -> None:
        """One or several calls with their results."""
        blocks: list[Block] = []
        if self.thinks and self.dice.random() < 0.7:
            words = self.words(self.dice.choice([5, 60, 300]))
            blocks.append(thinking(words if self.dice.random() < 0.8 else "", "c2ln" * self.dice.choice([1, 90])))
        if self.dice.random() < 0.3:
            blocks.append(text(self.words(6)))
        answers = []
        for _ in range(self.dice.choice([1, 1, 1, 2, 3])):
            self.calls += 1
            own, path = f"t{self.calls}", f"/src/{self.dice.choice(WORDS[:4])}.py"
            name = self.dice.choice(["Read", "Read", "Bash", "Edit", "Grep", "mcp__db__query"])
            arguments: dict[str, Any] = {"command": f"cat {path}"} if name == "Bash" else {"file_path": path}
            if name == "Read" and self.dice.random() < 0.4:
                arguments |= {"offset": self.dice.choice([1, 2, 40]), "limit": self.dice.choice([1, 30, 80])}
            blocks.append(call(own, name, **arguments))
            body: Any = "\n".join(
                self.words(4) for _ in range(max(self.dice.choice([1, self.body, self.body]) // 90, 1))
            )
            content: Any = self.dice.choice([body, body, [text(body)], [text(body), IMAGE]])
            answers.append((result(own, content, is_error=self.dice.random() < 0.1), body))
        self.reply(*blocks, miss=self.dice.random() < 0.06)
        together = self.dice.random() < 0.4
        if together:
            self.recording.results(*(answer for answer, _ in answers), **self.later(3))
        for answer, body in answers:
            if not together:
                self.recording.results(answer, **self.later(self.dice.choice([1, 9, 60])))
            self.results.append((answer["tool_use_id"], self.add("result", body)))
            self.context += 1_300 if isinstance(answer["content"], list) and len(answer["content"]) > 1 else 0

    def clear(self, is_recorded: bool) -> None:
        """The oldest results are cleared, with or without a record."""
        old = self.results[: max(len(self.results) - self.dice.choice([1, 3]), 0)]
        self.results = self.results[len(old) :]
        if is_recorded:
            self.recording.microcompact(*(own for own, _ in old), tokens=self.context)
        self.context -= sum(max(size - 9, 0) for _, size in old)
        self.cached = min(self.cached, self.base)

    def compact(self) -> None:
        """A full compaction, which may keep messages."""
        own, last = self.words(40), self.recording.last
        more = {"preservedSegment": {"headUuid": last, "tailUuid": last, "anchorUuid": last}}
        kept = more if self.dice.random() < 0.3 else {}
        self.recording.boundary(self.context, self.dice.choice(["auto", "manual"]), **kept)
        self.recording.summary(f"This session is being continued from a previous conversation. {own}")
        self.context, self.cached, self.results, self.thinking = self.base, self.shared, [], 0
        self.add("text", own)
        if self.dice.random() < 0.5:
            content = {"type": "text", "file": {"filePath": "/src/cache.py", "content": self.words(90)}}
            self.recording.attachment("file", filename="/src/cache.py", content=content)
            self.context += 1_000

    def event(self) -> None:
        """Something rare between two turns."""
        match self.dice.randrange(14):
            case 0 | 1:
                self.compact()
            case 2:
                self.clear(is_recorded=True)
            case 3 | 4:
                self.clear(is_recorded=False)
            case 5:
                self.model = self.dice.choice(MODELS)
                self.cached = 0
            case 6:
                self.thinks = not self.thinks
                self.cached = min(self.cached, self.base)
            case 7 if self.recording.count > 3:
                self.recording.last = f"u{max(self.recording.count - self.dice.randrange(1, 6), 1)}"
            case 8:
                self.recording.clear()
                self.context, self.cached, self.results, self.thinking = self.base, self.shared, [], 0
            case 9:
                own = self.words(30)
                self.recording.user(own, isSidechain=True, agentId="a")
                self.recording.assistant(text(own), isSidechain=True, agentId="a", use={"input_tokens": 900})
            case 10:
                self.recording.assistant(text("API Error: overloaded"), isApiErrorMessage=True, model="<synthetic>")
            case 11:
                self.recording.assistant(id="empty", use=self.usage(), model=self.model, **self.later(1))
            case 12:
                self.cached = self.dice.choice([0, self.shared, self.base, max(self.cached - 6_000, 0)])
            case _:
                self.context, self.thinking = self.context - self.thinking, 0

    def make(self) -> Recording:
        """Turns with rare events between them."""
        is_long = self.number % 16 == 15  # factors are then fitted to fewer requests than there are
        for turn in range(9 if is_long else self.dice.choice([2, 3, 5])):
            if turn:
                for _ in range(self.dice.choice([0, 1, 1, 2])):
                    self.event()
            self.user()
            for _ in range(9 if is_long else self.dice.choice([0, 1, 2, 4])):
                self.step()
            if self.dice.random() < 0.8:
                self.reply(text(f"Done: {self.words(3)}"), stop="end_turn", miss=self.dice.random() < 0.1)
        if self.number % 7 == 6:  # no request records its size
            lines = [json.loads(line) for line in self.recording.lines]
            for line in lines:
                line.get("message", {}).pop("usage", None)
            self.recording.lines = [json.dumps(line, separators=(",", ":")).encode() for line in lines]
        return self.recording


def make_files(number: int) -> Recording:
    """A run that reads files whole and in part, changes them, and shows, writes and mentions their lines again."""
    run = Run(number)
    dice, made = random.Random(f"files {number}"), run.recording
    files = {f"/src/{name}.py": [run.words(5) for _ in range(dice.choice([4, 12, 30]))] for name in WORDS[:3]}
    for turn in range(dice.choice([2, 4])):
        run.user()
        for step in range(dice.choice([3, 6])):
            path = dice.choice(sorted(files))
            lines, own = files[path], f"f{turn}-{step}"
            first = dice.randrange(len(lines))
            part, line = lines[first : first + dice.choice([2, 4, 9])], lines[first]
            match dice.randrange(10):
                case 0 | 1:
                    block, body = call(own, "Read", file_path=path), "\n".join(lines)
                case 2:
                    block = call(own, "Read", file_path=path, offset=first + 1, limit=len(part))
                    body = "\n".join(f"{at:>6}\t{each}" for at, each in enumerate(part, first + 1))
                case 3:
                    command = dice.choice([f"cat {path}", f"sed -n '{first + 1},{first + 9}p' {path}", f"make {path}"])
                    block, body = call(own, "Bash", command=command), "\n".join(lines if "cat" in command else part)
                case 4:
                    lines[first] = run.words(5)
                    block = call(own, "Edit", file_path=path, old_string=line, new_string=lines[first])
                    body = f"The file {path} has been updated."
                case 5:
                    files[path] = [*part, run.words(5)]
                    block = call(own, "Write", file_path=path, content="\n".join(files[path]))
                    body = f"File created successfully at: {path}"
                case 6:
                    block = call(own, "Grep", pattern=line.split(" ")[0], path=dice.choice(["/src", path]))
                    body = "\n".join(f"{path}:{at}:{each}" for at, each in enumerate(part, first + 1))
                case 7:
                    block, body = call(own, "mcp__web__fetch_page", url=f"https://host/{first}"), "\n".join(part)
                case 8:
                    block, body = call(own, "run_tests", module=path), "\n".join(dice.sample(lines, len(lines) // 2))
                case _:
                    block, body = call(own, "TodoWrite", todos=[{"content": line}]), "ok"
            words = [text(f"I look at {line.split(' ')[1]} in {path}.")] if dice.random() < 0.5 else []
            run.reply(*words, block)
            made.results(result(own, body, is_error=dice.random() < 0.1), **run.later(3))
            run.add("result", body)
        if dice.random() < 0.3:
            run.compact()
        run.reply(text(f"Done: {dice.choice(files['/src/session.py'])}"), stop="end_turn")
    return made


def _tool(name: str, size: int) -> dict[str, Any]:
    return {"name": name, "description": "d" * size, "input_schema": {"type": "object"}}


def make_requests(number: int) -> list[dict[str, Any]]:
    """A log of whole requests in which the prompt, the tools and the model change."""
    dice = random.Random(f"requests {number}")
    tools = [_tool(name, 300 * (at + 1)) for at, name in enumerate(("Read", "Bash", "mcp__db__query", "mcp__db__list"))]
    system = [text("You are an agent. " * 60), text("The folder is /src. " * 30)]
    model, messages, exchanges, cached = "claude-sonnet-4-5", list[dict[str, Any]](), list[dict[str, Any]](), 0
    clock = datetime(2026, 2, 1, 9, tzinfo=UTC)
    for turn in range(dice.choice([4, 7, 9])):
        reminder = (
            "<system-reminder>\nContents of /src/CLAUDE.md (project instructions):\n\nUse tabs.\n</system-reminder>"
        )
        blocks = [text(reminder)] if dice.random() < 0.4 else []
        blocks = [*blocks, text(f"Step {turn}: " + "look at it " * dice.choice([1, 40, 400]))]
        if messages and messages[-1]["content"][-1]["type"] == "tool_use":
            blocks = [
                result(messages[-1]["content"][-1]["id"], "line of a file\n" * dice.choice([9, 900])),
                *blocks[:-1],
            ]
        messages.append({"role": "user", "content": blocks})
        match dice.randrange(9):
            case 0:
                tools = tools[::-1]
            case 1:
                tools = [*tools[1:], _tool(f"New{turn}", 90)]
            case 2:
                tools = [_tool(f"Other{at}", 200) for at in range(dice.choice([3, 4, 5]))]
            case 3:
                system = [*system, text(f"It is turn {turn}.")]
            case 4:
                system = [text(f"You are an agent of turn {turn}."), *system[1:]]
            case 5:
                model = dice.choice(["claude-sonnet-4-5", "claude-opus-4-1"])
        size = len(json.dumps([tools, system, messages])) * 3 // 10
        read = dice.choice([min(cached, size), min(cached, size), 0])
        clock += timedelta(seconds=dice.choice([9, 200, 400]))
        reply = [call(f"t{turn}", "Read", file_path="/src/a.py")] if dice.random() < 0.6 else [text("Seen. " * 9)]
        request = {"model": model, "max_tokens": 900, "system": system, "tools": tools, "messages": [*messages]}
        use = {"input_tokens": 3, "cache_read_input_tokens": read, "output_tokens": 40}
        use["cache_creation_input_tokens"] = max(size - read - 3, 0)
        response = {"id": f"m{turn}", "type": "message", "role": "assistant", "model": model, "content": reply}
        exchange = request_logs.record(turn, "/v1/messages", request, {**response, "usage": use})
        exchanges.append({**exchange, "timestamp": clock.isoformat()})
        messages.append({"role": "assistant", "content": reply})
        cached = size - 3
    return exchanges


TINY: tuple[list[dict[str, Any]], ...] = (
    [],
    [{"role": "user", "content": "Hello."}],
    [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": [text("Yes?")]}],
    [{"role": "assistant", "content": [call("a", "Read", file_path="/a")]}],
    [{"role": "user", "content": [result("a", "of nothing " * 90)]}],
)


def make_odd(number: int) -> list[dict[str, Any]]:
    """Messages as no agent writes them: ids that come again, calls and results without another, blanks, long bodies."""
    dice, ids = random.Random(f"odd {number}"), ["a", "b", "c", ""]
    messages = list[dict[str, Any]]()
    for _ in range(dice.choice([3, 6, 12, 20])):
        role, blocks = dice.choice(["user", "assistant"]), list[Block]()
        for _ in range(dice.choice([1, 1, 2, 3])):
            words = dice.choice(["", " ", "a word", "[Old tool result content cleared]", "é" * 400, "words " * 900])
            kinds = [
                text(words),
                IMAGE,
                result(dice.choice(ids), words),
                result(dice.choice(ids), [text(words), IMAGE]),
            ]
            if role == "assistant":
                path = dice.choice(["/a.py", "/b.py"])
                read = call(dice.choice(ids), "Read", file_path=path, offset=dice.choice([1, 2, 90]), limit=40)
                kinds = [text(words), thinking(words, "c2ln"), read, call(dice.choice(ids), "Bash", command=words)]
            blocks.append(dice.choice(kinds))
        messages.append({"role": role, "content": blocks})
    return messages


FORMATS = [name for name in SEEDS if name not in ("claude-requests", "langchain")]
"""Without a folder, which the logs of requests stand for, and without a format whose names are made anew each time."""
NAMES = (
    *(f"run {number}" for number in RUNS),
    *(f"requests {number}" for number in range(9)),
    *(f"odd {number}" for number in range(12)),
    *(f"tiny {number}" for number in range(len(TINY))),
    *(f"{name} {number}" for name in FORMATS for number in range(min(len(SEEDS[name]), 3))),
)

FILE_NAMES = tuple(f"files {number}" for number in range(20))
LONG_NAMES = ("scenario 4", "scenario 8", "scenario 15")


def open_small(name: str, folder: Path) -> Session:
    """Open the session with a name."""
    kind, _, digits = name.partition(" ")
    number, path = int(digits), folder / "session"
    if kind == "run":
        return Run(number).make().open(folder)
    if kind == "files":
        return make_files(number).open(folder)
    if kind == "odd":
        return from_messages(make_odd(number))
    if kind == "scenario":
        return open_scenario(number, folder)
    if kind == "tiny":
        return from_messages(TINY[number])
    if kind == "requests":
        path.write_text("".join(json.dumps(each) + "\n" for each in make_requests(number)))
    else:
        Case((3, 0, 2)[number], kind, ()).write(path)  # numbers that choose the first layouts of a format
    ids = [info.id for info in ct.sessions_in(path)]
    return ct.open_session(path if "" in ids else f"{path}#{ids[-1]}")
