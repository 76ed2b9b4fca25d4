"""Split the bodies of logged requests into system prompt, tools, messages and reply, for several APIs.

Members and messages stay bytes of the log until they are needed, as a body repeats nearly all of the previous body.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from context_tui.formats.anthropic import AnthropicShape
from context_tui.formats.gemini_cli.reader import parse_content
from context_tui.formats.kit.blocks import Block, are_results
from context_tui.formats.kit.document_scanner import DocumentShape
from context_tui.formats.kit.documents import Element, Run, decode_element, decode_items, get_element_text
from context_tui.formats.kit.message_builder import MessageRecord, ParsedRecord, find_message, validate_result
from context_tui.formats.kit.prompts import build_part
from context_tui.formats.kit.usage import parse_usage
from context_tui.formats.kit.values import as_list, as_object, list_objects, parse_blocks, parse_id, parse_usage_or_note
from context_tui.formats.kit.writing import parse_tool_schemas
from context_tui.formats.openai.reader import OpenAIShape
from context_tui.formats.responses import ResponsesShape
from context_tui.session.blocks import body_to_text
from context_tui.session.facts import PromptPart
from context_tui.session.jsontext import compact_text
from context_tui.session.values import Role

Signature = tuple[tuple[Any, ...], ...]
"""Parts that are equal in two logs of one message: role, texts, calls and results; no cache marks or thinking."""


class OtherRequest(ValueError):
    """Raised for a logged request that does not ask a model for a reply, such as one that counts tokens."""


class RequestBody(NamedTuple):
    """A request's body as undecoded members, and the response's body.

    ``path`` is the request's address, ``source`` the part of the run that sent it, and ``note`` a problem to report.
    """

    members: dict[str, Element]
    response: Any = None
    path: str = ""
    source: str = ""
    note: str = ""


class Exchange(NamedTuple):
    """A logged request: its name in the log, time (epoch milliseconds), run and sender, and a reader of its body.

    ``group`` is the run that it belongs to, and ``source`` the part of the run that sent it, such as a sub-agent; both
    are "" if unknown. ``version`` changes when more of it is logged.
    """

    name: str
    time: int
    group: str
    source: str
    read: Callable[[], RequestBody]
    version: object = None


class GeminiShape(DocumentShape):
    """Parser for the contents of a Gemini request. A result without an id answers the preceding call by name."""

    def __init__(self) -> None:
        self._calls: dict[int, list[Block]] = {}

    def parse(self, value: Any, place: int) -> ParsedRecord:
        if not isinstance(value, dict) or not isinstance(value.get("parts"), list):
            raise ValueError("not a content: no parts")
        blocks = list(parse_content(value["parts"]))
        answers = (as_object(part).get("functionResponse") for part in value["parts"])
        names = (parse_id(answer.get("name")) for answer in answers if isinstance(answer, dict))
        if value.get("role") == "model":
            calls = [block for block in blocks if block.get("type") == "tool_use"]
            for number, call in enumerate(calls):
                call["id"] = call["id"] or f"call-{place}-{number}"
            self._calls[place] = calls
            usage, notes = parse_usage_or_note(parse_gemini_api_usage, value.get("usageMetadata"))
            return MessageRecord(Role.ASSISTANT, blocks, usage=usage, notes=notes)
        waiting = [*self._calls.get(place - 1, ())]
        results = (block for block in blocks if block.get("type") == "tool_result")
        for result, name in zip(results, names, strict=False):
            matches = [each for each in waiting if each["id"] == result["tool_use_id"]]
            if matches := matches or [each for each in waiting if each["name"] == name]:
                waiting.remove(matches[0])
                result["tool_use_id"] = matches[0]["id"]
        return MessageRecord(Role.USER, blocks, has_results=are_results(blocks))

    def parse_tools(self, run: Run) -> list[dict[str, Any]]:
        declarations = (tool.get("functionDeclarations") for tool in parse_tool_schemas(run.get("tools")))
        schemas = []
        for function in (each for declared in declarations for each in parse_tool_schemas(declared)):
            parameters = function.get("parametersJsonSchema") or function.get("parameters") or {"type": "object"}
            name, description = parse_id(function.get("name")), function.get("description")
            schemas.append({"name": name, "description": description, "input_schema": parameters})
        return schemas

    def parse_response(self, run: Run) -> dict[str, Any] | None:
        response = as_object(run.get("response"))
        candidate = next(iter(as_list(response.get("candidates"))), None)
        content = as_object(candidate).get("content")
        if not isinstance(content, dict):
            return None
        return {"parts": [], **content, "role": "model", "usageMetadata": response.get("usageMetadata")}


def parse_gemini_api_usage(value: Any) -> Any:
    cached, output = "cachedContentTokenCount", ("candidatesTokenCount", "thoughtsTokenCount")
    return parse_usage(value, "promptTokenCount", cache_read=cached, output=output, includes_cache=True)


class ProviderApi(NamedTuple):
    """A provider's API: name, member with the messages, their parser, and member with the system prompt."""

    name: str
    key: str
    shape: Callable[[], DocumentShape]
    system_key: str
    input_includes_cache: bool = True


ANTHROPIC = ProviderApi("Anthropic Messages", "messages", AnthropicShape, "system", False)
CHAT = ProviderApi("OpenAI Chat Completions", "messages", OpenAIShape, "")
RESPONSES = ProviderApi("OpenAI Responses", "input", ResponsesShape, "instructions")
GEMINI = ProviderApi("Gemini", "contents", GeminiShape, "systemInstruction")


def detect_api(body: RequestBody) -> ProviderApi | None:
    """Return the API of a request, judged by its members, or None if it has no messages."""
    members = body.members
    if "contents" in members:
        return GEMINI
    if "messages" in members:
        return CHAT if "completions" in body.path or "choices" in as_object(body.response) else ANTHROPIC
    return RESPONSES if "input" in members else None


@dataclass
class Request:
    """A request, split into parts. Its first ``lead`` messages belong to the system prompt."""

    api: ProviderApi
    run: Run
    lead: int
    reply: dict[str, Any] | None

    @property
    def elements(self) -> list[Element]:
        """The messages as sent."""
        return self.run.elements

    def parse_system(self, shape: DocumentShape) -> list[PromptPart]:
        """Return the parts of the system prompt."""
        system = self.run.get(self.api.system_key)
        if self.api is GEMINI and isinstance(system, dict):
            system = [*parse_content(system.get("parts"))]
        parts = [*map(build_part, parse_blocks(system))]
        for element in self.elements[: self.lead]:
            with contextlib.suppress(ValueError):  # the message itself becomes a problem
                message = find_message(validate_result(shape.parse)(decode_element(element), -1))
                parts += [build_part(*message.blocks)] if message else []
        return parts

    def parse_tools(self) -> Any:
        """Return the tool schemas as sent. Gemini's are split so that there is one for each function."""
        tools = self.run.get("tools")
        if self.api is GEMINI:
            tools = parse_tool_schemas(tools)
            return [each for tool in tools for each in list_objects(tool.get("functionDeclarations")) or [tool]]
        return tools


def split_request(body: RequestBody) -> Request:
    """Split a request's body into its parts. Raises ValueError if it has no messages."""
    api = detect_api(body)
    if api is None:
        raise ValueError("a JSON body of another API: no messages, input or contents")
    elements = decode_items(body.members[api.key])
    if elements is None:  # a text may stand for the only message
        elements = [{"role": "user", "content": decode_element(body.members[api.key])}]
    run = Run({**body.members, "response": body.response}, elements, key=api.key)
    lead = 0
    while api in (CHAT, RESPONSES) and lead < len(elements) and _is_system(elements[lead]):
        lead += 1
    return Request(api, run, lead, api.shape().parse_response(run))


def _is_system(element: Element) -> bool:
    start = bytes(memoryview(element)[:200]) if isinstance(element, msgspec.Raw) else b""
    if b'"system"' not in start and b'"developer"' not in start and len(start) == 200:
        return False
    value = decode_element(element)
    return isinstance(value, dict) and value.get("role") in ("system", "developer")


def join_elements(elements: Sequence[Element]) -> msgspec.Raw:
    """Join undecoded messages into the JSON text of a list."""
    return msgspec.Raw(b"[%s]" % b",".join(bytes(memoryview(each)) for each in elements))


def copy_element(element: Element) -> Element:
    """Return a copy of an undecoded message, which does not keep the whole body in memory."""
    return element.copy() if isinstance(element, msgspec.Raw) else element


def sign_element(shape: DocumentShape, element: Element, place: int) -> Signature:
    """Return a message's signature, or () for a message that contains only thinking."""
    try:
        message = find_message(shape.parse(decode_element(element), place))
    except (ValueError, TypeError, KeyError, AttributeError):
        return (("unknown", hash(get_element_text(element))),)
    has_ids = not isinstance(shape, GeminiShape)  # its clients give ids to calls without one
    parts = tuple(sign for block in message.blocks if (sign := _sign_block(block, has_ids))) if message else ()
    return ((Role(message.role).name,), *parts) if message and parts else ()


def _sign_block(block: Block, has_ids: bool) -> tuple[Any, ...]:
    kind = block.get("type")
    if kind in ("thinking", "redacted_thinking"):
        return ()
    if kind == "text":
        text = str(block.get("text") or "").strip()
        return ("text", hash(text), len(text)) if text else ()
    if kind == "tool_use":
        call_id = block.get("id") if has_ids else ""
        return ("call", call_id or hash(compact_text([block.get("name"), block.get("input")])))
    if kind == "tool_result":
        text = body_to_text(block.get("content"))
        return ("result", block.get("tool_use_id") if has_ids else "", hash(text), len(text))
    return ("other", hash(compact_text({name: value for name, value in block.items() if name != "cache_control"})))


def strip_results(signature: Signature) -> Signature:
    """Return a signature without the parts that depend on the content of tool results."""
    return tuple(sign[:2] if sign[0] == "result" else sign for sign in signature)
