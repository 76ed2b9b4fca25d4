"""A policy for context-tui: above a share of the window, drop the turns between the first and the newest ones."""

import json
import sys
from typing import Any

PARAMS = {
    "share": {"default": 0.5, "min": 0.01, "max": 1, "unit": "of window", "about": "size at which it acts"},
    "keep_turns": {"default": 4, "min": 1, "max": 1000, "unit": "turns", "about": "turns at the end that are kept"},
}
NOTE = {"role": "user", "content": [{"type": "text", "text": "[Earlier messages were left out to save context.]"}]}


messages: list[dict[str, Any]] = []
params: dict[str, Any] = {}


def is_turn_start(message: dict[str, Any]) -> bool:
    return message["role"] == "user" and all(block["type"] != "tool_result" for block in message["content"])


for line in sys.stdin:
    question, answer = json.loads(line), {}
    if question["type"] == "describe":
        answer = {"protocol": 1, "name": "drop-turns", "about": "example: drop old turns", "params": PARAMS}
    else:
        if question.get("reset"):
            messages, params = [], question["params"]
        messages += question["messages"]
        turns = [place for place, message in enumerate(messages) if is_turn_start(message)]
        is_full = question["believed_tokens"] >= params["share"] * question["window"]
        if is_full and len(turns) > params["keep_turns"] + 1:
            messages = [*messages[: turns[1]], NOTE, *messages[turns[-params["keep_turns"]] :]]
            answer = {"messages": messages, "reason": "the context has reached the share of the window"}
    print(json.dumps(answer), flush=True)
