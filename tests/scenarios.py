"""Long recordings by number with everything that the pure layers look for: the same number gives the same session.

Sizes, caches and times are consistent with each other, as a server would report them: what a request reads from the
cache is what the one before sent, silent clearing and dropped thinking make the next request smaller, and compactions
start a new context.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from context_tui.session.session import Session
from tests.formats.recordings import Block, Recording, call, result, text, thinking

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
NOUNS = (
    "session window policy prompt cache token record reader branch parser index needle report budget trigger".split()
)
VERBS = "load scan merge split count build apply write read check find drop keep move sort".split()
NUMBERS = (0, 1, 4, 6, 7, 8, 12, 15, 23)
"""Scenarios that have every kind of drop and compaction between them."""


class Scenario:
    """A run of an agent: its files, the tokens of its context, and the record of both."""

    def __init__(self, number: int) -> None:
        self.dice = random.Random(f"scenario {number}")
        self.number = number
        self.recording = Recording()
        self.clock = datetime(2026, 2, 1, 9, tzinfo=UTC)
        self.files: dict[str, list[str]] = {}
        self.factor = self.dice.choice([0.25, 0.3, 0.36])  # tokens per character
        self.base = self.dice.choice([9_000, 18_000, 33_000])
        self.context, self.cached = self.base, 0
        self.results: list[tuple[str, int, str]] = []
        self.thinking = 0
        self.model = self.dice.choice(["claude-sonnet-4-5", "claude-opus-4-1", "claude-sonnet-4-5"])
        self.calls = 0

    def later(self, seconds: float) -> dict[str, str]:
        """The time of the next record."""
        self.clock += timedelta(seconds=seconds)
        return {"timestamp": self.clock.isoformat(timespec="milliseconds").replace("+00:00", "Z")}

    def tokens(self, characters: int) -> int:
        """What a server counts."""
        return round(characters * self.factor)

    def line_of_code(self) -> str:
        """A line with names that are long and rare enough to be recognised later."""
        verb, noun, other = self.dice.choice(VERBS), self.dice.choice(NOUNS), self.dice.choice(NOUNS)
        number = self.dice.randrange(1_000, 99_999)
        return f"    {noun}_{other}_{number} = {verb}_{noun}(self.{other}s, limit={number}, name='{verb} the {other}')"

    def file(self, path: str) -> list[str]:
        """The lines of a file."""
        count = self.dice.choice([30, 90, 200, 420])
        return self.files.setdefault(path, [f"def {path[-9:-3]}():", *(self.line_of_code() for _ in range(count))])

    def usage(self) -> dict[str, Any]:
        """The usage of a request with the context as it is, and of a reply."""
        output = self.dice.randrange(20, 900)
        noise = self.dice.randrange(-30, 30)
        size = max(self.context + noise, 1)
        read = min(self.cached, size)
        fresh = self.dice.choice([3, 8])
        written = max(size - read - fresh, 0)
        hour = written if self.number % 3 == 1 else 0
        self.cached = size
        return {
            "input_tokens": fresh,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": written,
            "cache_creation": {"ephemeral_5m_input_tokens": written - hour, "ephemeral_1h_input_tokens": hour},
            "output_tokens": output,
        }

    def user(self, words: str) -> None:
        """What a person types, after a pause that may be longer than a cache lives."""
        pause = self.dice.choice([5, 40, 200, 400, 4_000])
        if pause > (3_600 if self.number % 3 == 1 else 300):
            self.cached = 0
        content: Any = words
        if self.dice.random() < 0.2:
            content = [
                text(words),
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
            ]
            self.context += 1_400
        self.recording.user(content, **self.later(pause))
        self.context += self.tokens(len(words)) + 5

    def reply(self, *blocks: Block, stop: str = "tool_use") -> None:
        """A reply of the model."""
        use, own = self.usage(), f"m{self.recording.count}"
        for block in blocks:
            self.recording.assistant(
                block, id=own, use=use, model=self.model, stop_reason=stop, **self.later(self.dice.choice([1, 4, 20]))
            )
            size = len(str(block.get("text") or block.get("thinking") or block.get("input") or ""))
            self.context += self.tokens(size)
            self.thinking += self.tokens(size) if block["type"] == "thinking" else 0

    def step(self) -> None:
        """One or two calls with their results."""
        blocks: list[Block] = []
        if self.dice.random() < 0.4:
            words = " ".join(self.dice.choice(NOUNS + VERBS) for _ in range(self.dice.choice([20, 90, 600])))
            blocks.append(thinking(words, "c2lnbmF0dXJl" * self.dice.choice([1, 9])))
        if self.dice.random() < 0.3:
            blocks.append(text(f"Next I {self.dice.choice(VERBS)} the {self.dice.choice(NOUNS)}."))
        answers = [self.tool_call(blocks) for _ in range(self.dice.choice([1, 1, 2]))]
        self.reply(*blocks)
        for answer in answers:
            self.recording.results(answer, **self.later(self.dice.choice([1, 9, 60])))
            size = len(str(answer["content"]))
            self.context += self.tokens(size)
            self.results.append((answer["tool_use_id"], self.tokens(size), str(answer["content"])))

    def tool_call(self, blocks: list[Block]) -> Block:
        """Append a call of one of the usual tools to a reply, and return its result."""
        self.calls += 1
        own, dice = f"toolu_{self.number}_{self.calls}", self.dice
        path = f"/project/src/{dice.choice(NOUNS)}/{dice.choice(VERBS)}_{dice.choice(NOUNS[:4])}.py"
        if self.files and dice.random() < 0.5:
            path = dice.choice(sorted(self.files))
        lines = self.file(path)
        match dice.randrange(8):
            case 0 | 1 | 2:
                part = slice(None) if dice.random() < 0.6 else slice(dice.randrange(len(lines) // 2), None)
                arguments = {} if part.start is None else {"offset": part.start + 1, "limit": len(lines)}
                blocks.append(call(own, "Read", file_path=path, **arguments))
                numbered = [f"{number:>6}\t{line}" for number, line in enumerate(lines, 1)][part]
                return result(own, "\n".join(numbered))
            case 3:
                number = dice.randrange(1, len(lines))
                fresh = self.line_of_code()
                blocks.append(call(own, "Edit", file_path=path, old_string=lines[number], new_string=fresh))
                lines[number] = fresh
                return result(own, f"The file {path} has been updated.")
            case 4:
                blocks.append(call(own, "Bash", command=f"cd /project && python -m pytest {path} -x -q"))
                failure = f"{path}:{dice.randrange(9, 99)}: AssertionError: {dice.choice(lines).strip()}\n"
                output = failure + "\n".join(dice.choice(lines) for _ in range(dice.choice([3, 30, 150])))
                return result(own, output, is_error=dice.random() < 0.4)
            case 5:
                name = dice.choice(lines).strip().split(" ")[0]
                blocks.append(call(own, "Grep", pattern=name, path="/project/src"))
                hits = [
                    f"{each}:{n}:{line}" for each in sorted(self.files) for n, line in enumerate(self.files[each][:9])
                ]
                body = "\n".join(hits)
                return result(own, [text(body), text("(truncated)")] if dice.random() < 0.5 else body)
            case 6:
                source = [self.line_of_code() for _ in range(dice.choice([5, 40]))]
                self.files[path] = source
                blocks.append(call(own, "Write", file_path=path, content="\n".join(source)))
                return result(own, f"File created successfully at: {path}")
            case _:
                blocks.append(
                    call(own, "mcp__db__query", sql=f"select {dice.choice(NOUNS)} from {dice.choice(NOUNS)}s")
                )
                rows = [
                    {"id": dice.randrange(10**6), "name": "é" * dice.randrange(9)} for _ in range(dice.choice([2, 90]))
                ]
                return result(own, {"rows": rows} if dice.random() < 0.5 else str(rows))

    def clear_silently(self, is_recorded: bool) -> None:
        """The oldest results are cleared, with or without a record."""
        old = self.results[: max(len(self.results) - 5, 0)]
        if sum(size for _, size, _ in old) < 20_000:
            return
        self.results = self.results[len(old) :]
        if is_recorded:
            self.recording.microcompact(*(own for own, _, _ in old), tokens=self.context)
        self.context -= sum(max(size - 9, 0) for _, size, _ in old)
        self.cached = min(self.cached, self.base)

    def compact(self) -> None:
        """A full compaction, sometimes with messages that are kept."""
        self.recording.boundary(self.context, self.dice.choice(["auto", "manual"]))
        words = "This session is being continued from a previous conversation. " + " ".join(
            self.line_of_code() for _ in range(30)
        )
        self.recording.summary(words)
        self.context, self.cached, self.results, self.thinking = self.base + self.tokens(len(words)), self.base, [], 0
        if self.files and self.dice.random() < 0.5:
            path = self.dice.choice(sorted(self.files))
            content = {"type": "text", "file": {"filePath": path, "content": "\n".join(self.files[path])}}
            self.recording.attachment("file", filename=path, content=content)
            self.context += self.tokens(len("\n".join(self.files[path])))

    def run(self) -> Recording:
        """Several turns, in each of which the context grows, and shrinks now and then."""
        for turn in range(self.dice.choice([5, 8, 10])):
            self.user(
                f"Turn {turn}: {self.dice.choice(VERBS)} the {self.dice.choice(NOUNS)}, never touch /project/secret.py"
            )
            for _ in range(self.dice.choice([4, 7, 10])):
                self.step()
                if self.context > 60_000 and self.dice.random() < 0.2:
                    self.clear_silently(is_recorded=self.dice.random() < 0.4)
            self.reply(text(f"Done: {self.line_of_code().strip()}."), stop="end_turn")
            if self.dice.random() < 0.5 and self.thinking > 2_200:
                self.context, self.thinking = self.context - self.thinking, 0
            if self.context > 150_000 or self.dice.random() < 0.06:
                self.compact()
            elif self.dice.random() < 0.1:
                self.model = self.dice.choice(["claude-haiku-4-5", "claude-sonnet-4-5"])
                self.cached = 0
        return self.recording


def open_scenario(number: int, folder: Path) -> Session:
    """The session of a number."""
    return Scenario(number).run().open(folder)
