"""`coding-session.jsonl`: an agent works on this very project, with real outputs, until its small window is full.

Built from ``coding-session.toml`` and the results that :mod:`scripts.samples.recording` has stored beside it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from scripts.samples.claude import Block, Call, Recorder, text, thinking
from scripts.samples.recording import CWD, RESULTS, play

SECONDS = {"Read": 0.3, "Grep": 0.4, "Edit": 0.5, "Write": 0.4, "Bash": 4.0}


def build() -> bytes:
    """The session."""
    # A model with a small window, behind a gateway: that is where compaction matters most.
    it = Recorder("coding", datetime(2026, 11, 3, 10, 12, 47), CWD, model="deepseek-chat", branch="largest-results")
    results = iter(json.loads(RESULTS.read_text("utf-8")))
    for turn in play()["turn"]:
        it.prompt(turn["prompt"].strip(), after=turn["after"])
        start = it.now
        for step in turn["step"]:
            calls = [_call(call, results) for call in step.get("call", [])]
            slowest = max(SECONDS[call.tool] for call in calls)
            messages = list(_said(step))
            it.reply(*messages, calls=calls, seconds=4 + 5 * len(messages), tool_seconds=slowest)
        it.reply(text(turn["answer"].strip()), seconds=9)
        it.turn_ended(start)
    it.side(type="last-prompt", lastPrompt=turn["prompt"].strip(), leafUuid=it.parent)
    return it.lines()


def _said(step: dict[str, Any]) -> Iterator[Block]:
    if "think" in step:
        yield thinking(step["think"].strip())
    if "say" in step:
        yield text(step["say"].strip())


def _call(call: dict[str, Any], results: Iterator[dict[str, Any]]) -> Call:
    """A call as the client records it."""
    result = next(results)
    result_text, error = result["told"], result["error"]
    path = f"{CWD}/{call['file']}" if "file" in call else ""
    tool = call["tool"]
    if tool == "Read":
        tool_input = {"file_path": path} | {name: call[name] for name in ("offset", "limit") if name in call}
        return Call(tool, tool_input, result_text, error, {"type": "text", "file": {"filePath": path}})
    if tool == "Bash":
        tool_input = {"command": call["command"], "description": call["about"]}
        tool_result = {"stdout": result_text, "stderr": "", "interrupted": False, "isImage": False}
        return Call(tool, tool_input, result_text, error, None if error else tool_result)
    if tool == "Grep":
        tool_input = {
            "pattern": call["pattern"],
            "path": f"{CWD}/{call['path']}".removesuffix("/."),
            "output_mode": "content",
        }
        return Call(tool, tool_input, result_text, error, {"mode": "content", "content": result_text})
    if tool == "Write":
        tool_input = {"file_path": path, "content": call["content"]}
        return Call(tool, tool_input, result_text, error, {"type": "create", "filePath": path})
    tool_input = {"replace_all": False, "file_path": path, "old_string": call["old"], "new_string": call["new"]}
    return Call(tool, tool_input, result_text, error, None if error else {"filePath": path, "userModified": False})
