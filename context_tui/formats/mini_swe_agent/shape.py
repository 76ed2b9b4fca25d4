"""What the elements of mini-swe-agent's message list say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from context_tui.formats.kit.document_scanner import DocumentShape
from context_tui.formats.kit.documents import Run
from context_tui.formats.kit.items import is_item, item_part, reply_part
from context_tui.formats.kit.message_builder import MessageBuilder, Part
from context_tui.formats.kit.usage import openai_usage
from context_tui.formats.kit.values import epoch_ms, title_of, usage_or_note
from context_tui.formats.openai.shape import OpenAIShape
from context_tui.session.validation import truncate_name
from context_tui.session.values import Role

TYPED = (
    "Interrupted by user: ",
    "The user added a new task: ",
    "Command not executed. The user rejected your command",
    "Commands not executed. The user rejected your commands",
)
"""How texts begin that a person typed at the agent's prompt; the other texts of the user are its observations."""


_ALIKE = (
    "<pr_description>",
    "Consider the following PR description:",
    "We're currently solving the following ",
    "ISSUE:",
)
"""How lines begin that templates of SWE-agent and mini-swe-agent put before a task."""
_BEFORE = "Please solve this issue: "
"""What they put before one on its line."""


def task_title(text: str) -> str:
    """The title of a task, without what a template says before each; what it says where that is all."""
    lines = [line.strip() for line in text[:4_000].splitlines()]
    own = next((line for line in lines if line and not line.startswith(_ALIKE)), text)
    return title_of(own.removeprefix(_BEFORE))


class MiniSweAgentShape(DocumentShape):
    """Messages of Chat Completions with what the agent knows of them in ``extra``, or items of the Responses API."""

    def __init__(self) -> None:
        self._chat = OpenAIShape()
        self._task = -1  # the element that holds the task

    def title(self, text: str) -> str:
        """The title of the task."""
        return task_title(text)

    def begin(self, run: Run, builder: MessageBuilder) -> None:
        """Take the model that was asked for."""
        builder.facts.input_includes_cache = True
        info = run.get("info")
        for each in ("config", "model"):
            info = info.get(each) if isinstance(info, dict) else None
        if isinstance(info, dict) and isinstance(name := info.get("model_name"), str):
            builder.facts.model = truncate_name(name)

    def part(self, value: Any, place: int) -> Part:
        """A message; the last one of role ``exit`` was never sent."""
        if not isinstance(value, dict):
            raise ValueError("not a message: not a JSON object")
        extra = value.get("extra")
        extra = extra if isinstance(extra, dict) else {}
        if value.get("role") == "exit":
            return Part(time=epoch_ms(extra.get("timestamp")))
        response = value if value.get("object") == "response" else extra.get("response")
        response = response if isinstance(response, dict) else {}
        part = self._said(value, place)
        time = epoch_ms(extra.get("timestamp", response.get("created", response.get("created_at"))))
        part = replace(part, time=time if time >= 0 else part.time)
        if part.role == Role.ASSISTANT:
            usage, unread = usage_or_note(openai_usage, response.get("usage"))
            model = truncate_name(name) if isinstance(name := response.get("model"), str) else ""
            return replace(part, usage=usage, notes=(*part.notes, *unread), model=model)
        if part.role == Role.USER and not part.results:
            return replace(part, injected=self._observed(value, extra, place))
        return part

    def _said(self, value: dict[str, Any], place: int) -> Part:
        if "role" not in value:
            if value.get("object") == "response":
                return reply_part(value.get("output"))
            if is_item(value):
                return item_part(value)
        return self._chat.part(value, place)

    def _observed(self, value: dict[str, Any], extra: dict[str, Any], place: int) -> bool:
        """Whether a text of the user was put in by the agent: all but the task and what a person typed."""
        if self._task < 0 or place == self._task:
            self._task = place
            return False
        content = value.get("content")
        typed = isinstance(content, str) and content.startswith(TYPED)
        return not typed and not str(extra.get("interrupt_type")).startswith("User")
