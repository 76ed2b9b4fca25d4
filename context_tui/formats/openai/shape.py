"""Chat Completions messages as Anthropic-shaped blocks."""

from __future__ import annotations

import re
from typing import Any

from context_tui.formats.kit.arguments import RAW, input_of
from context_tui.formats.kit.documents import Run
from context_tui.formats.kit.message_builder import MessageBuilder, Part
from context_tui.formats.kit.values import as_blocks, as_id, epoch_ms, recorded_tokens, usage_or_note
from context_tui.formats.kit.writing import tools_of
from context_tui.session.facts import Role, Usage
from context_tui.session.jsontext import compact_json
from context_tui.session.limits import short

ROLES = {
    **{"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM, "developer": Role.SYSTEM},
    **{"tool": Role.USER, "function": Role.USER},
}
TEXT_PARTS = ("text", "input_text", "output_text")
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,(.*)", re.DOTALL)


def usage_of(value: Any) -> Usage | None:
    """Recorded usage; cached tokens are part of ``prompt_tokens``, unless there are more of them (older proxies).

    Raises:
        ValueError: a size is none; the message names it.
    """
    if not isinstance(value, dict) or not ("prompt_tokens" in value or "completion_tokens" in value):
        return None
    details = value.get("prompt_tokens_details")
    cached = max(
        _size(details, "cached_tokens") if isinstance(details, dict) else 0,
        _size(value, "cache_read_input_tokens"),
        _size(value, "prompt_cache_hit_tokens"),
    )
    written, prompt = _size(value, "cache_creation_input_tokens"), _size(value, "prompt_tokens")
    fresh = prompt - cached - written if cached + written <= prompt else prompt
    return Usage(fresh, cached, written, 0, _size(value, "completion_tokens"))


def _size(members: dict[str, Any], name: str) -> int:
    return recorded_tokens(members.get(name), name)


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
        self._newest = -1
        self._function = ""
        self._answered: dict[int, str] = {}  # element of role function -> the call it answers

    def begin(self, run: Run, builder: MessageBuilder) -> None:
        """Take the model, the window and the size of the tools."""
        facts, response = builder.facts, run.get("response")
        model = run.get("model") or (response.get("model") if isinstance(response, dict) else None)
        facts.model = short(model) if isinstance(model, str) else None
        builder.say_window(run.get("context_window"))
        facts.input_includes_cache = True
        if tools := run.get("tools") or run.get("functions"):
            facts.tools_bytes = len(compact_json(tools))

    def tools(self, run: Run) -> list[dict[str, Any]]:
        """Function schemas, Anthropic-shaped."""
        tools = tools_of(run.get("tools") or run.get("functions"))
        functions = [tool["function"] if isinstance(tool.get("function"), dict) else tool for tool in tools]
        return [
            {
                "name": as_id(function.get("name")),
                **({"description": function["description"]} if "description" in function else {}),
                "input_schema": function.get("parameters") or {"type": "object"},
            }
            for function in functions
        ]

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
        (usage, unread), time = usage_or_note(usage_of, value.get("usage")), epoch_ms(stamp)
        if role in ("tool", "function"):
            call_id = self._answer(place) if role == "function" else as_id(value.get("tool_call_id"))
            block = {"type": "tool_result", "tool_use_id": call_id, "content": _body(value.get("content"))}
            return Part(Role.USER, [block], results=True, time=time)
        blocks = [_block(part) for part in as_blocks(value.get("content"))]
        if role == "assistant":
            blocks, notes = self._spoken(value, blocks, place)
            return Part(Role.ASSISTANT, blocks, time=time, usage=usage, notes=(*notes, *unread))
        return Part(ROLES[role], blocks, time=time)

    def _spoken(
        self, value: dict[str, Any], blocks: list[dict[str, Any]], place: int
    ) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
        """Blocks of an assistant message: thinking, text, refusal, calls; and what was not understood."""
        calls, notes = [], []
        given = value.get("tool_calls")
        for call in given if isinstance(given, list) else []:
            if isinstance(call, dict):
                calls.append(_call(call, as_id(call.get("id"))))
            else:
                notes.append("a tool call that is not an object")
        if given and not isinstance(given, list):
            notes.append("tool_calls that are not a list")
        if isinstance(function := value.get("function_call"), dict):
            calls.append(_call({"function": function}, self._ask(place)))
        if isinstance(refusal := value.get("refusal"), str) and refusal:
            blocks.append({"type": "refusal", "refusal": refusal})
        if calls and blocks == [{"type": "text", "text": ""}]:
            blocks = []
        return [*_thinking(value), *blocks, *calls], tuple(notes)

    def _ask(self, place: int) -> str:
        """The id of the old-style call at *place*, which has none of its own; later answers are to the newest call."""
        call_id = f"function-{place}"
        if place > self._newest:
            self._newest, self._function = place, call_id
        return call_id

    def _answer(self, place: int) -> str:
        return self._answered.setdefault(place, self._function)


def _thinking(value: dict[str, Any]) -> list[dict[str, Any]]:
    blocks = value.get("thinking_blocks")
    if isinstance(blocks, list) and (kept := as_blocks([block for block in blocks if isinstance(block, dict)])):
        return kept
    texts = (value.get("reasoning_content"), value.get("reasoning"))
    return [{"type": "thinking", "thinking": text} for text in texts if isinstance(text, str) and text][:1]


def _call(call: dict[str, Any], call_id: str) -> dict[str, Any]:
    if isinstance(custom := call.get("custom"), dict):  # a call whose argument is free text
        name, given = custom.get("name"), {RAW: str(custom.get("input") or "")}
    else:
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
        name, given = function.get("name"), input_of(function.get("arguments"))
    return {"type": "tool_use", "id": call_id, "name": as_id(name), "input": given}


def _block(part: dict[str, Any]) -> dict[str, Any]:
    """A content part as a block; what has no counterpart stays as it is, unknown to every estimator."""
    kind = part.get("type")
    if kind in TEXT_PARTS and isinstance(part.get("text"), str):
        return {**part, "type": "text"}
    if kind == "image_url":
        image = part.get("image_url")
        url = str((image.get("url") if isinstance(image, dict) else image) or "")
        if data := _DATA_URL.fullmatch(url):
            return {"type": "image", "source": {"type": "base64", "media_type": data[1], "data": data[2]}}
        return {"type": "image", "source": {"type": "url", "url": url}}
    return part


def _body(content: Any) -> Any:
    """A tool message's content as a tool_result's."""
    if isinstance(content, list):
        return [_block(part) if isinstance(part, dict) else part for part in content]
    return "" if content is None else content
