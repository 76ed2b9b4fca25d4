"""Codex rollouts for tests, a line at a time; both orders of counts and replies that its versions have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

OWN, PARENT = "019f17a5-6d3f-7470-9097-c70f6cefe936", "019f17a5-0000-7000-8000-000000000001"
SUMMARY = (
    "Another language model started to solve this problem and produced a summary of its thinking process.\n\nDone."
)
AGENTS = "# AGENTS.md instructions for /src\n\n<INSTRUCTIONS>\nBe careful.\n</INSTRUCTIONS>"
SURROUNDINGS = "<environment_context>\n  <cwd>/src</cwd>\n</environment_context>"
RULES = "<permissions instructions>\nAsk.\n</permissions instructions>"

Item = dict[str, Any]


def said(role: str, *texts: str) -> Item:
    """A message item."""
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text} for text in texts]}


def asked(call_id: str, name: str = "shell", arguments: str = '{"cmd":"ls"}') -> Item:
    """A call."""
    return {"type": "function_call", "name": name, "arguments": arguments, "call_id": call_id}


def answered(call_id: str, output: Any = "ok") -> Item:
    """Its result."""
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def thought(summary: str = "", encrypted: str = "gAAAA") -> Item:
    """Reasoning."""
    texts = [{"type": "summary_text", "text": summary}] if summary else []
    return {"type": "reasoning", "summary": texts, "encrypted_content": encrypted}


def sizes(fresh: int, cached: int, output: int) -> dict[str, int]:
    """Usage as Codex records it: cached tokens are part of the input."""
    whole = fresh + cached
    return {
        **{"input_tokens": whole, "cached_input_tokens": cached, "output_tokens": output},
        **{"reasoning_output_tokens": output // 2, "total_tokens": whole + output},
    }


class Rollout:
    """The lines of a rollout; every line is a second behind the one before."""

    def __init__(self) -> None:
        self.records: list[Any] = []
        self._total = 0

    def line(self, kind: str, payload: Any, second: int | None = None) -> None:
        second = len(self.records) if second is None else second
        stamp = f"2026-06-30T08:{second // 60:02}:{second % 60:02}.000Z"
        self.records.append({"timestamp": stamp, "type": kind, "payload": payload})

    def meta(self, session: str = OWN, *, second: int | None = None, **more: Any) -> None:
        base = {"base_instructions": {"text": "You are Codex."}, "cwd": "/src", "model_provider": "openai"}
        self.line("session_meta", {"id": session, **base, **more}, second)

    def turn(self, model: str = "gpt-5.5") -> None:
        self.line("turn_context", {"cwd": "/src", "model": model, "approval_policy": "never"})

    def items(self, *items: Item, second: int | None = None) -> None:
        for item in items:
            self.line("response_item", item, second)

    def typed(self, text: str) -> None:
        self.items(said("user", text))
        self.line("event_msg", {"type": "user_message", "message": text})

    def count(self, fresh: int, cached: int = 0, output: int = 10, *, again: bool = False) -> None:
        last = sizes(fresh, cached, output)
        self._total += 0 if again else last["total_tokens"]
        self.counted({"total_tokens": self._total}, last)

    def counted(self, total: Item, last: Item, second: int | None = None) -> None:
        info = {"total_token_usage": total, "last_token_usage": last, "model_context_window": 258_400}
        self.line("event_msg", {"type": "token_count", "info": info}, second)

    def compacted(self, *history: Item, message: str = "", **more: Any) -> None:
        self.line("compacted", {"message": message, "replacement_history": [*history], **more})
        self.counted({"total_tokens": self._total}, {**sizes(0, 0, 0), "total_tokens": 9_162})

    def write(self, path: Path) -> Path:
        path.write_text("".join(json.dumps(record) + "\n" for record in self.records))
        return path


def begun() -> Rollout:
    """A session that has just begun: instructions, surroundings and the model."""
    rollout = Rollout()
    rollout.meta()
    rollout.items(said("developer", RULES), said("user", AGENTS, SURROUNDINGS))
    rollout.turn()
    return rollout


def whole() -> Rollout:
    """A session with everything in it: calls of all kinds, counts that repeat, a compaction, a rollback, a steer."""
    rollout = begun()
    rollout.line("event_msg", {"type": "task_started", "model_context_window": 258_400})
    rollout.typed("Look around.")
    rollout.items(thought("**Looking**"), said("assistant", "I look."), asked("c1"), asked("c2", arguments="not json"))
    rollout.items(answered("c1", "alpha " * 200))
    picture = {"type": "input_image", "image_url": "data:image/png;base64,eA=="}
    rollout.items(answered("c2", [{"type": "input_text", "text": "beta"}, picture]))
    rollout.count(900, 100)
    rollout.count(900, 100, again=True)
    patch = {"type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin Patch", "call_id": "c3"}
    rollout.items({"type": "ghost_snapshot", "ghost_commit": {"id": "x"}}, thought(), patch)
    rollout.items({"type": "custom_tool_call_output", "call_id": "c3", "output": '{"output":"done"}'})
    rollout.count(300, 1_000)
    rollout.items({"type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "q"}})
    rollout.items(said("assistant", "Done."))
    rollout.count(400, 1_200)
    rollout.typed("And now?")
    rollout.items(asked("c4", "read_wiki") | {"namespace": "mcp__deepwiki"}, answered("c4"))
    rollout.count(100, 1_700)
    rollout.compacted(
        said("user", "Look around."), said("developer", RULES), said("user", "And now?"), said("user", SUMMARY)
    )
    rollout.turn("gpt-5.5-mini")
    rollout.items(said("assistant", "Going on."), asked("c5"), answered("c5", "gamma"))
    rollout.count(700)
    rollout.typed("A mistake.")
    rollout.items(said("assistant", "Oh."))
    rollout.count(750)
    rollout.line("event_msg", {"type": "thread_rolled_back", "num_turns": 1})
    rollout.typed("Go on.")
    rollout.items(said("assistant", "I do."))
    rollout.count(800)
    return rollout


def bare() -> list[Any]:
    """The form of August 2025: no envelopes, no times, no counts."""
    state = {"record_type": "state"}
    return [
        {"id": PARENT, "timestamp": "2025-08-19T08:31:17.621Z", "instructions": None, "git": {}},
        state,
        {**said("user", "Check this."), "id": None},
        state,
        *(thought("**Checking**"), asked("c1"), answered("c1", '{"output":"x"}'), said("assistant", "Fine.")),
        said("user", "Thanks."),
    ]
