"""Recordings with the sizes that a provider would have recorded: a tokenizer of its own, and parts that go silently."""

from __future__ import annotations

import json
from itertools import islice

from tests.formats.recordings import Block, Recording, call, result, text, thinking, usage

RATES = {"text": 1.2, "thinking": 0.2, "signature": 0.8, "tool_use": 1.3, "tool_result": 1.3}
FRAME = 70


class Provider:
    """Writes a recording and keeps what its model is sent. ``context`` is the real size in tokens."""

    def __init__(self, base: int = 20_000, model: str = "claude-opus-4-5", rate: float = 1.0) -> None:
        self.recording, self.model, self.rate = Recording(), model, rate
        self.context, self.calls = float(base), 0

    def size(self, block: Block) -> float:
        """Real tokens of a block."""
        match block["type"]:
            case "text":
                tokens = len(block["text"]) // 4 * RATES["text"]
            case "thinking":
                tokens = len(block["thinking"]) // 4 * RATES["thinking"]
                tokens += len(block["signature"]) // 4 * RATES["signature"]
            case "tool_use":
                arguments = json.dumps(block["input"], separators=(",", ":"))
                tokens = (len(block["name"]) + len(arguments)) // 4 * RATES["tool_use"]
            case _:
                tokens = len(block["content"]) // 4 * RATES["tool_result"]
        return tokens * self.rate

    def user(self, words: str) -> None:
        """What a person types."""
        self.recording.user(words)
        self.context += self.size(text(words))

    def reply(self, *blocks: Block, cached: int = 0) -> None:
        """A request, recorded with what the context is and how much of it was *cached*, and its reply."""
        use = usage(fresh=round(self.context) - cached, read=cached)
        self.recording.assistant(*blocks, use=use, model=self.model)
        self.context += sum(map(self.size, blocks)) + FRAME * self.rate

    def step(self, tool: str = "Read", size: int = 2_000, thought: int = 200, **arguments: object) -> str:
        """A request whose reply thinks and calls a tool, and the result of *size* bytes; returns the call's id.

        The result of a call with a ``file_path`` has lines, the same for each read of the file.
        """
        self.calls += 1
        own = f"t{self.calls}"
        self.reply(thinking("x" * (thought // 2), "s" * thought), call(own, tool, number=self.calls, **arguments))
        path = str(arguments.get("file_path", ""))
        lines = (f"{path} has the row {number} in this very place" for number in range(size))
        self.answer(own, "\n".join(islice(lines, size // 30))[:size].ljust(size, "y") if path else "y" * size)
        return own

    def answer(self, call_id: str, body: str) -> None:
        """A result."""
        self.recording.results(result(call_id, body))
        self.context += self.size(result(call_id, body))

    def steps(self, count: int = 12) -> None:
        """Steps of various sizes, as a fit needs them."""
        for number in range(count):
            self.step("Bash" if number % 3 else "Read", 400 + 700 * (number * 7 % 11), 100 + 90 * (number * 5 % 7))

    def clear(self, *sizes: int) -> None:
        """Results of these sizes in bytes go without a record, with a stub in the place of each."""
        self.context -= sum(size // 4 * RATES["tool_result"] * self.rate - 9 for size in sizes)
