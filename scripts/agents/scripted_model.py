"""The scripted model: which reply a request gets."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from scripts.agents.prompt import Part, Prompt
from scripts.agents.reply import Call, Reply

RequestKind = Literal["main", "summary", "subagent", "side"]
"""Kinds of requests: of the main conversation, for a summary of it, of a sub-agent, and others (titles, probes)."""

SUMMARY_MARK = "MARK-SUMMARY"
"""Mark in every summary of the scripted model."""
SUBTASK_MARK = "MARK-SUBTASK"
"""Mark in the prompt of a sub-agent."""
PROMPT_MARK = "MARK-PROMPT"
"""Mark in every prompt of a scenario."""
RULES_MARK = "MARK-RULES"
"""Mark in the instruction files of the project."""


@dataclass(frozen=True)
class Action:
    """Call of a tool in the terms of all agents: a shell ``command``, a file to ``read``, a prompt to ``delegate``."""

    kind: Literal["command", "read", "delegate"]
    text: str


Step = tuple[Action, ...]
"""The calls of one reply; none for a final text."""
ToolTranslation = Callable[[Action, frozenset[str]], tuple[str, dict[str, Any]] | None]
"""Returns the tool and arguments for an action, given the names of the tools in the request; None: no such tool."""

_SUMMARY_REQUEST = re.compile(r"summar|compact|handoff|checkpoint|condens|state_snapshot", re.IGNORECASE)


def find_last_texts(prompt: Prompt) -> list[Part]:
    """Return the texts after the last reply and the last result of a prompt."""
    texts = list[Part]()
    for part in reversed(prompt.parts):
        if part.kind in ("call", "result") or part.role == "assistant" or part.message < 0:
            break
        if part.kind == "text":
            texts.append(part)
    return texts[::-1]


def classify_request(prompt: Prompt) -> RequestKind:
    """Return the kind of a request.

    A request for a summary ends with a text that asks for one and is no prompt of a scenario, or, without tools, holds
    the conversation as a text. A sub-agent has no prompt of a scenario.
    """
    texts = [part for part in prompt.get("text") if part.role != "assistant"]
    if not prompt.get("result") and not texts:
        return "side"
    if prompt.schema:
        return "side"
    has_tools = bool(prompt.get("tool"))
    text = "".join(part.text for part in find_last_texts(prompt)[-1:])
    is_own = PROMPT_MARK in text[-400:] or (has_tools and SUMMARY_MARK in text)
    if _SUMMARY_REQUEST.search(text) and not is_own:
        return "summary"
    if not has_tools:
        asks = any(_SUMMARY_REQUEST.search(part.text) for part in prompt.get("system"))
        return "summary" if asks and texts else "side"
    is_subagent = any(SUBTASK_MARK in part.text for part in texts)
    return "subagent" if is_subagent and not any(PROMPT_MARK in part.text for part in texts) else "main"


@dataclass
class ScriptedModel:
    """Model that replies to the main conversation step by step, and to other requests by fixed texts.

    Attributes:
        translate: the agent's tool for an action.
        steps: steps to come; without any left, a reply is a final text.
        classify: the kind of a request.
        final_step: the calls after the last step; none for a final text.
        subagent_step: the step that each sub-agent takes before its final text.
    """

    translate: ToolTranslation
    steps: deque[Step] = field(default_factory=deque)
    classify: Callable[[Prompt], RequestKind] = classify_request
    final_step: Step = ()
    subagent_step: Step = (Action("command", "seq 1 20"),)
    counts: dict[str, int] = field(default_factory=dict)

    def queue(self, steps: Iterable[Step]) -> None:
        """Replace the steps to come."""
        self.steps = deque(steps)

    def reply(self, prompt: Prompt) -> tuple[RequestKind, Reply]:
        """Return the kind of a request, and the reply to it."""
        kind = self.classify(prompt)
        number = self.counts[kind] = self.counts.get(kind, 0) + 1
        reply_id = f"{kind}{number:04}"
        if kind == "summary":
            return kind, Reply(reply_id, self._write_summary(number, prompt))
        if kind == "side":
            return kind, Reply(reply_id, json.dumps(_fill_schema(prompt.schema)) if prompt.schema else "A short title")
        if kind == "subagent":
            is_first = not prompt.get("result")
            step = self.subagent_step if is_first else ()
        else:
            step = self.steps.popleft() if self.steps else self.final_step
        calls = self._build_calls(step, prompt, reply_id)
        text = f"Reply {reply_id}: " + ("next step." if calls else "done.")
        return kind, Reply(reply_id, text, tuple(calls))

    def _build_calls(self, step: Step, prompt: Prompt, reply_id: str) -> list[Call]:
        names = frozenset(part.name for part in prompt.get("tool"))
        tools = (self.translate(action, names) for action in step)
        return [
            Call(f"call_{reply_id}_{index}", *tool)
            for index, tool in enumerate(tool for tool in tools if tool is not None)
        ]

    def _write_summary(self, number: int, prompt: Prompt) -> str:
        facts = f"{len(prompt.get('result'))} results were read."
        text = f"{SUMMARY_MARK}-{number}: the numbers were printed; {facts} Go on with the next ones."
        wrapped = "<analysis>Nothing to add.</analysis>\n<summary>\n" + text + "\n</summary>"
        asks_for_tags = any("<summary>" in part.text for part in find_last_texts(prompt))
        return wrapped if asks_for_tags else text


def _fill_schema(schema: Mapping[str, Any]) -> Any:
    """Return a value that a JSON schema allows: no text, zero, false, an empty list."""
    match str(schema.get("type", "")).lower():
        case "object":
            return {name: _fill_schema(each) for name, each in schema.get("properties", {}).items()}
        case "array":
            return []
        case "boolean":
            return False
        case "number" | "integer":
            return 0
        case _:
            return schema.get("enum", [""])[0]
