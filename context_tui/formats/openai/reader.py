"""Read Chat Completions messages, and convert them to blocks in Anthropic's form."""

from __future__ import annotations

from typing import Any

from context_tui.formats.kit import blocks as kit_blocks
from context_tui.formats.kit import values
from context_tui.formats.kit.documents import Run, get_response
from context_tui.formats.kit.message_builder import MessageBuilder, MessageRecord
from context_tui.formats.kit.usage import parse_openai_usage
from context_tui.formats.kit.writing import convert_function_schema, parse_tool_schemas
from context_tui.session.values import Role

ROLES = {
    **{"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM, "developer": Role.SYSTEM},
    **{"tool": Role.USER, "function": Role.USER},
}
TEXT_RESULT_START = "EXECUTION RESULT of ["
"""Start of a tool result that OpenHands writes as text, for models without function calls."""
TEXT_PART_TYPES = ("text", "input_text", "output_text")


def find_reply(run: Run) -> dict[str, Any] | None:
    """Return the first choice in a logged response, with the response's usage and time, or None if there is none."""
    response = get_response(run)
    message = get_first_choice(response)
    if message is None:
        return None
    return {"role": "assistant", **message, "usage": response.get("usage"), "created": response.get("created")}


def get_first_choice(response: dict[str, Any]) -> dict[str, Any] | None:
    """Return the message in a response's first choice, or None if there is none."""
    choices = values.as_list(response.get("choices"))
    message = values.as_object(choices[0] if choices else None).get("message")
    return message if isinstance(message, dict) else None


class OpenAIShape:
    """Parser for the messages in a request. Consecutive tool messages form one user message."""

    def __init__(self) -> None:
        self._function_calls = FunctionCalls()

    def read_metadata(self, run: Run, builder: MessageBuilder) -> None:
        model = run.get("model") or values.as_object(run.get("response")).get("model")
        builder.set_request(model, run.get("context_window"), run.get("tools") or run.get("functions"))
        builder.facts.input_includes_cache = True

    def parse_tools(self, run: Run) -> list[dict[str, Any]]:
        return parse_schemas(run.get("tools") or run.get("functions"))

    parse_response = staticmethod(find_reply)

    def parse(self, value: Any, place: int) -> MessageRecord:
        speaker, role = values.parse_role(value, ROLES), value["role"]
        stamp = next((value[key] for key in ("timestamp", "created_at", "created") if key in value), None)
        usage, unread = values.parse_usage_or_note(parse_openai_usage, value.get("usage"))
        time = values.parse_time_ms(stamp)
        if role in ("tool", "function"):
            is_function, call_id = role == "function", values.parse_id(value.get("tool_call_id"))
            call_id = self._function_calls.find_call_id(place) if is_function else call_id
            block = kit_blocks.build_tool_result(call_id, _parse_result_body(value.get("content")))
            return MessageRecord(Role.USER, [block], has_results=True, time=time)
        blocks = [parse_content_part(part) for part in values.parse_blocks(value.get("content"))]
        if role == "assistant":
            blocks, notes = self._parse_assistant(value, blocks, place)
            return MessageRecord(Role.ASSISTANT, blocks, time=time, usage=usage, notes=(*notes, *unread))
        text = blocks[0].get("text") if blocks else None
        return MessageRecord(speaker, blocks, time=time, is_injected=values.as_text(text).startswith(TEXT_RESULT_START))

    def _parse_assistant(
        self, value: dict[str, Any], blocks: list[dict[str, Any]], place: int
    ) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
        calls, notes = [], []
        listed_calls = value.get("tool_calls")
        for call in values.as_list(listed_calls):
            if isinstance(call, dict):
                calls.append(parse_call(call, values.parse_id(call.get("id"))))
            else:
                notes.append("a tool call that is not an object")
        if listed_calls and not isinstance(listed_calls, list):
            notes.append("tool_calls that are not a list")
        if isinstance(function := value.get("function_call"), dict):
            calls.append(parse_call({"function": function}, self._function_calls.make_call_id(place)))
        if isinstance(refusal := value.get("refusal"), str) and refusal:
            blocks.append({"type": "refusal", "refusal": refusal})
        if calls and blocks == [{"type": "text", "text": ""}]:
            blocks = []
        return [*parse_thinking(value), *blocks, *calls], tuple(notes)


class FunctionCalls:
    """Assigns ids to old-style function calls, which lack them. A result answers the newest call before it.

    Parsing an element again gives the same id.
    """

    def __init__(self) -> None:
        self._newest = -1
        self._newest_call = ""
        self._answers: dict[int, str] = {}  # element with a result -> the call that it answers

    def make_call_id(self, place: int) -> str:
        """Return the id for the call in the element at *place*."""
        call_id = f"function-{place}"
        if place > self._newest:
            self._newest, self._newest_call = place, call_id
        return call_id

    def find_call_id(self, place: int) -> str:
        """Return the id of the call that the result in the element at *place* answers, or "" if there is none."""
        return self._answers.setdefault(place, self._newest_call)


def parse_schemas(tools: Any) -> list[dict[str, Any]]:
    """Convert recorded function schemas to tool schemas in Anthropic's form."""
    schemas = parse_tool_schemas(tools)
    functions = [each["function"] if isinstance(each.get("function"), dict) else each for each in schemas]
    return [*map(convert_function_schema, functions)]


def parse_thinking(value: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the thinking in an assistant message: its blocks in Anthropic's form, one block of text, or [] if none."""
    if thinking := values.parse_blocks(values.list_objects(value.get("thinking_blocks"))):
        return thinking
    texts = (value.get("reasoning_content"), value.get("reasoning"))
    return [{"type": "thinking", "thinking": text} for text in texts if isinstance(text, str) and text][:1]


def parse_call(call: dict[str, Any], call_id: str) -> dict[str, Any]:
    """Convert a recorded tool call to a ``tool_use`` block with the id *call_id*."""
    if isinstance(custom := call.get("custom"), dict):  # a call whose argument is free text
        name, arguments = custom.get("name"), {kit_blocks.RAW_ARGUMENTS_KEY: str(custom.get("input") or "")}
    else:
        function = values.as_object(call.get("function"))
        name, arguments = function.get("name"), kit_blocks.parse_arguments(function.get("arguments"))
    return kit_blocks.build_tool_use(call_id, values.parse_id(name), arguments)


def parse_content_part(part: dict[str, Any]) -> dict[str, Any]:
    """Convert a content part to a block. A part of another type stays unchanged, and its size is unknown."""
    kind = part.get("type")
    if kind in TEXT_PART_TYPES and isinstance(part.get("text"), str):
        return {**part, "type": "text"}
    if kind == "image_url":
        image = part.get("image_url")
        return kit_blocks.parse_image_url(str((image.get("url") if isinstance(image, dict) else image) or ""))
    return part


def _parse_result_body(content: Any) -> Any:
    if isinstance(content, list):
        return [parse_content_part(part) if isinstance(part, dict) else part for part in content]
    return "" if content is None else content
