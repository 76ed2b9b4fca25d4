"""Chat Completions messages as Anthropic-shaped blocks."""

from __future__ import annotations

from typing import Any

from context_tui.formats.kit.arguments import RAW, input_of
from context_tui.formats.kit.documents import Run
from context_tui.formats.kit.message_builder import MessageBuilder, Part
from context_tui.formats.kit.usage import openai_usage
from context_tui.formats.kit.values import as_blocks, as_id, epoch_ms, image_of, usage_or_note
from context_tui.formats.kit.writing import tools_of
from context_tui.session.jsontext import compact_json
from context_tui.session.validation import truncate_name
from context_tui.session.values import Role

ROLES = {
    **{"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM, "developer": Role.SYSTEM},
    **{"tool": Role.USER, "function": Role.USER},
}
RESULT = "EXECUTION RESULT of ["
"""How OpenHands begins the result of a call as text, for models that call no functions: typed by nobody."""
TEXT_PARTS = ("text", "input_text", "output_text")


def reply_in(run: Run) -> dict[str, Any] | None:
    """The first choice of the response that was logged with a request, with its usage and time."""
    response = run.get("response")
    if isinstance(response, dict) and isinstance(response.get("body"), dict):
        response = response["body"]
    choices = response.get("choices") if isinstance(response, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(message, dict):
        return None
    return {"role": "assistant", **message, "usage": response.get("usage"), "created": response.get("created")}


class OpenAIShape:
    """Chat Completions requests: tool messages become one user message, tool calls blocks of the assistant's."""

    def __init__(self) -> None:
        self._functions = FunctionCalls()

    def begin(self, run: Run, builder: MessageBuilder) -> None:
        """Take the model, the window and the size of the tools."""
        facts, response = builder.facts, run.get("response")
        model = run.get("model") or (response.get("model") if isinstance(response, dict) else None)
        facts.model = truncate_name(model) if isinstance(model, str) else None
        builder.say_window(run.get("context_window"))
        facts.input_includes_cache = True
        if tools := run.get("tools") or run.get("functions"):
            facts.tools_bytes = len(compact_json(tools))

    def tools(self, run: Run) -> list[dict[str, Any]]:
        """Function schemas, Anthropic-shaped."""
        return schemas_of(run.get("tools") or run.get("functions"))

    def reply(self, run: Run) -> dict[str, Any] | None:
        """The logged response as a message."""
        return reply_in(run)

    def part(self, value: Any, place: int) -> Part:
        """A message. Results of tools are marked as such, for they are put together."""
        if not isinstance(value, dict):
            raise ValueError("not a message: not a JSON object")
        role = value.get("role")
        if not isinstance(role, str) or role not in ROLES:
            raise ValueError(f"not a message: unknown role {str(role)[:40]!r}")
        stamp = next((value[key] for key in ("timestamp", "created_at", "created") if key in value), None)
        (usage, unread), time = usage_or_note(openai_usage, value.get("usage")), epoch_ms(stamp)
        if role in ("tool", "function"):
            call_id = self._functions.answered(place) if role == "function" else as_id(value.get("tool_call_id"))
            block = {"type": "tool_result", "tool_use_id": call_id, "content": _body(value.get("content"))}
            return Part(Role.USER, [block], results=True, time=time)
        blocks = [content_block(part) for part in as_blocks(value.get("content"))]
        if role == "assistant":
            blocks, notes = self._spoken(value, blocks, place)
            return Part(Role.ASSISTANT, blocks, time=time, usage=usage, notes=(*notes, *unread))
        text = blocks[0].get("text") if blocks else None
        return Part(ROLES[role], blocks, time=time, injected=isinstance(text, str) and text.startswith(RESULT))

    def _spoken(
        self, value: dict[str, Any], blocks: list[dict[str, Any]], place: int
    ) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
        """Blocks of an assistant message: thinking, text, refusal, calls; and what was not understood."""
        calls, notes = [], []
        given = value.get("tool_calls")
        for call in given if isinstance(given, list) else []:
            if isinstance(call, dict):
                calls.append(call_of(call, as_id(call.get("id"))))
            else:
                notes.append("a tool call that is not an object")
        if given and not isinstance(given, list):
            notes.append("tool_calls that are not a list")
        if isinstance(function := value.get("function_call"), dict):
            calls.append(call_of({"function": function}, self._functions.asked(place)))
        if isinstance(refusal := value.get("refusal"), str) and refusal:
            blocks.append({"type": "refusal", "refusal": refusal})
        if calls and blocks == [{"type": "text", "text": ""}]:
            blocks = []
        return [*thinking_of(value), *blocks, *calls], tuple(notes)


class FunctionCalls:
    """Ids for calls of the old style, which have none; a result, which has none either, is of the newest before it.

    What was asked about an element is answered the same way again.
    """

    def __init__(self) -> None:
        self._newest = -1
        self._call = ""
        self._answered: dict[int, str] = {}  # element with a result -> the call that it answers

    def asked(self, place: int) -> str:
        """The id of the call in the element at *place*."""
        call_id = f"function-{place}"
        if place > self._newest:
            self._newest, self._call = place, call_id
        return call_id

    def answered(self, place: int) -> str:
        """The id of the call that the element at *place* answers; empty where there is none."""
        return self._answered.setdefault(place, self._call)


def schemas_of(tools: Any) -> list[dict[str, Any]]:
    """Function schemas, Anthropic-shaped."""
    functions = [tool["function"] if isinstance(tool.get("function"), dict) else tool for tool in tools_of(tools)]
    return [
        {
            "name": as_id(function.get("name")),
            **({"description": function["description"]} if "description" in function else {}),
            "input_schema": function.get("parameters") or {"type": "object"},
        }
        for function in functions
    ]


def thinking_of(value: dict[str, Any]) -> list[dict[str, Any]]:
    """The thinking in a message of the assistant: blocks as Anthropic's, or one text."""
    blocks = value.get("thinking_blocks")
    if isinstance(blocks, list) and (kept := as_blocks([block for block in blocks if isinstance(block, dict)])):
        return kept
    texts = (value.get("reasoning_content"), value.get("reasoning"))
    return [{"type": "thinking", "thinking": text} for text in texts if isinstance(text, str) and text][:1]


def call_of(call: dict[str, Any], call_id: str) -> dict[str, Any]:
    """A tool call as a block."""
    if isinstance(custom := call.get("custom"), dict):  # a call whose argument is free text
        name, given = custom.get("name"), {RAW: str(custom.get("input") or "")}
    else:
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
        name, given = function.get("name"), input_of(function.get("arguments"))
    return {"type": "tool_use", "id": call_id, "name": as_id(name), "input": given}


def content_block(part: dict[str, Any]) -> dict[str, Any]:
    """A content part as a block; what has no counterpart stays as it is, unknown to every estimator."""
    kind = part.get("type")
    if kind in TEXT_PARTS and isinstance(part.get("text"), str):
        return {**part, "type": "text"}
    if kind == "image_url":
        image = part.get("image_url")
        return image_of(str((image.get("url") if isinstance(image, dict) else image) or ""))
    return part


def _body(content: Any) -> Any:
    """A tool message's content as a tool_result's."""
    if isinstance(content, list):
        return [content_block(part) if isinstance(part, dict) else part for part in content]
    return "" if content is None else content
