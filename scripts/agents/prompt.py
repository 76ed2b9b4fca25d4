"""Requests of the four model APIs as one list of parts, in the order of the prompt."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

Api = Literal["anthropic", "responses", "chat", "gemini"]
PartKind = Literal["tool", "system", "text", "call", "result", "thinking", "image"]
MESSAGE_TOKENS = 3
"""Tokens that frame a message in the prompt."""
IMAGE_TOKENS = 1_500
"""Tokens of an image."""


@dataclass(frozen=True)
class Part:
    """Part of a prompt: a tool schema, a text, a call or a result.

    Attributes:
        kind: kind of part.
        text: the text; of a call, its arguments as canonical JSON.
        role: role of the message that holds it.
        name: name of the tool.
        id: id of the call; empty where the API has none.
        message: number of the message in the request; -1 for system prompts and tools in fields of their own.
        breakpoint: whether the client asks the server to cache the prompt up to here.
    """

    kind: PartKind
    text: str
    role: str = ""
    name: str = ""
    id: str = ""
    message: int = -1
    breakpoint: bool = False

    @property
    def tokens(self) -> int:
        """Tokens of the part."""
        return len(self.token_ids)

    @property
    def token_ids(self) -> tuple[int, ...]:
        """Token ids of the part; an image has fixed ones."""
        if self.kind == "image":
            return (-1,) * IMAGE_TOKENS
        return _encode(f"{self.name} {self.text}" if self.name else self.text)


@dataclass(frozen=True)
class Prompt:
    """Request to a model: its parts in the order of the prompt cache (tools, system, messages)."""

    api: Api
    model: str
    parts: tuple[Part, ...]
    stream: bool
    schema: Mapping[str, Any] | None = None
    """JSON schema of the reply, where the client asks for JSON."""

    @property
    def tokens(self) -> int:
        """Tokens of the whole prompt."""
        messages = {part.message for part in self.parts if part.message >= 0}
        return sum(part.tokens for part in self.parts) + MESSAGE_TOKENS * len(messages)

    def get(self, *kinds: PartKind) -> list[Part]:
        """Return the parts of these kinds."""
        return [part for part in self.parts if part.kind in kinds]


@lru_cache(maxsize=1)
def _load_encoding() -> Any:
    from quicktok import get_encoding

    return get_encoding("o200k_base")


@lru_cache(maxsize=50_000)
def _encode(text: str) -> tuple[int, ...]:
    return tuple(_load_encoding().encode(text.encode("utf-8", "replace").decode()))


def count_tokens(text: str) -> int:
    """Count the tokens of a text by a real tokenizer."""
    return len(_encode(text))


def format_arguments(arguments: Any) -> str:
    """Format the arguments of a call as canonical JSON; a text that is no JSON stays."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return str(arguments)
    return json.dumps(arguments, sort_keys=True, ensure_ascii=False)


def parse_prompt(api: Api, body: dict[str, Any], model: str = "") -> Prompt:
    """Parse the body of a request."""
    parts = tuple(_PARSERS[api](body))
    config = body.get("generationConfig") or {}
    schema = config.get("responseJsonSchema") or config.get("responseSchema")
    return Prompt(api, model or str(body.get("model", "")), parts, bool(body.get("stream")), schema)


def _parse_anthropic(body: dict[str, Any]) -> Iterator[Part]:
    for tool in body.get("tools") or []:
        yield Part("tool", _dump(tool), name=str(tool.get("name", "")), breakpoint="cache_control" in tool)
    for block in _list_blocks(body.get("system") or []):
        yield Part("system", block.get("text", ""), breakpoint="cache_control" in block)
    for number, message in enumerate(body.get("messages") or []):
        for block in _list_blocks(message["content"]):
            yield _parse_anthropic_block(block, message["role"], number)


def _parse_anthropic_block(block: dict[str, Any], role: str, number: int) -> Part:
    cached = "cache_control" in block
    match block.get("type"):
        case "tool_use":
            text = format_arguments(block["input"])
            return Part("call", text, role, block["name"], block["id"], number, cached)
        case "tool_result":
            text = join_texts(block.get("content", ""))
            return Part("result", text, role, "", block["tool_use_id"], number, cached)
        case "thinking" | "redacted_thinking":
            return Part("thinking", block.get("thinking", ""), role, message=number)
        case "image" | "document":
            return Part("image", "", role, message=number, breakpoint=cached)
        case _:
            return Part("text", block.get("text", ""), role, message=number, breakpoint=cached)


def _parse_responses(body: dict[str, Any]) -> Iterator[Part]:
    for tool in body.get("tools") or []:
        name = str(tool.get("name", tool.get("type", "")))
        if tool.get("type") == "namespace":
            yield from (Part("tool", _dump(each), name=f"{name}.{each['name']}") for each in tool["tools"])
        else:
            yield Part("tool", _dump(tool), name=name)
    if body.get("instructions"):
        yield Part("system", body["instructions"])
    items = body.get("input") or []
    for number, item in enumerate([{"role": "user", "content": items}] if isinstance(items, str) else items):
        kind = item.get("type", "message")
        if kind == "reasoning":
            summary = "".join(each.get("text", "") for each in item.get("summary") or [])
            yield Part("thinking", summary or item.get("encrypted_content") or "", "assistant", message=number)
        elif kind.endswith("_output"):
            yield Part("result", join_texts(item.get("output", "")), "user", "", item.get("call_id", ""), number)
        elif kind.endswith("_call"):
            arguments = format_arguments(item.get("arguments", item.get("input", item.get("action", ""))))
            name = "__".join(filter(None, (item.get("namespace"), item.get("name", kind))))
            yield Part("call", arguments, "assistant", name, item.get("call_id", ""), number)
        else:
            role = item.get("role", "")
            for part in _parse_texts(item.get("content") or "", role, number):
                is_prompt = number == 0 and role in ("system", "developer")
                yield replace(part, kind="system") if is_prompt else part


def _parse_chat(body: dict[str, Any]) -> Iterator[Part]:
    for tool in body.get("tools") or []:
        yield Part("tool", _dump(tool), name=str(tool.get("function", {}).get("name", "")))
    for number, message in enumerate(body.get("messages") or []):
        role = message["role"]
        if role == "tool":
            text = join_texts(message.get("content") or "")
            yield Part("result", text, "user", "", message.get("tool_call_id", ""), number)
            continue
        if message.get("reasoning_content"):
            yield Part("thinking", message["reasoning_content"], role, message=number)
        leading = number == 0 and role in ("system", "developer")
        for part in _parse_texts(message.get("content") or "", role, number):
            yield Part("system", part.text, role, message=number) if leading else part
        for call in message.get("tool_calls") or []:
            function = call["function"]
            arguments = format_arguments(function["arguments"])
            yield Part("call", arguments, role, function["name"], call["id"], number)


def _parse_gemini(body: dict[str, Any]) -> Iterator[Part]:
    for tool in body.get("tools") or []:
        for declaration in tool.get("functionDeclarations") or []:
            yield Part("tool", _dump(declaration), name=declaration.get("name", ""))
    system = body.get("systemInstruction") or {}
    for part in system.get("parts") or []:
        yield Part("system", part.get("text", ""))
    contents = body.get("contents") or []
    for number, content in enumerate(contents if isinstance(contents, list) else [contents]):
        role = "assistant" if content.get("role") == "model" else "user"
        for part in content.get("parts") or []:
            if call := part.get("functionCall"):
                arguments = format_arguments(call.get("args") or {})
                yield Part("call", arguments, role, call["name"], call.get("id") or "", number)
            elif response := part.get("functionResponse"):
                text = _format_gemini_response(response.get("response"))
                yield Part("result", text, role, response["name"], response.get("id") or "", number)
            elif "inlineData" in part or "fileData" in part:
                yield Part("image", "", role, message=number)
            else:
                yield Part("thinking" if part.get("thought") else "text", part.get("text", ""), role, message=number)


def _format_gemini_response(response: Any) -> str:
    """Return the text of a function response: its one text member, else all of it as JSON."""
    if isinstance(response, dict) and len(response) == 1:
        (value,) = response.values()
        if isinstance(value, str):
            return value
    return _dump(response)


def _parse_texts(content: Any, role: str, number: int) -> Iterator[Part]:
    for block in _list_blocks(content):
        if "image" in str(block.get("type", "")):
            yield Part("image", "", role, message=number)
        else:
            yield Part("text", block.get("text", ""), role, message=number)


def _list_blocks(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def join_texts(content: Any) -> str:
    """Join the texts of a result, which is a text or a list of blocks."""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and any("text" in block for block in content):
        return "\n".join(block.get("text", "") for block in content if "text" in block)
    return _dump(content)


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


_PARSERS = {
    "anthropic": _parse_anthropic,
    "responses": _parse_responses,
    "chat": _parse_chat,
    "gemini": _parse_gemini,
}
