"""The vendors' own types, as what a provider's JSON has to be of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Generic, Literal, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import TypedDict

Block = TypeVar("Block")


class _Message(TypedDict, Generic[Block]):
    role: Literal["user", "assistant"]
    content: str | list[Block]


@cache
def _types(name: str) -> tuple[TypeAdapter[Any], TypeAdapter[Any]]:
    """Of messages and of tools; members that the vendor does not name are refused."""
    strict = ConfigDict(extra="forbid")
    if name == "anthropic":
        from anthropic.types import ContentBlockParam, ToolUnionParam

        # Not MessageParam: its content may also be objects of responses, which take any member.
        return TypeAdapter(_Message[ContentBlockParam], config=strict), TypeAdapter(ToolUnionParam, config=strict)
    from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolUnionParam

    return TypeAdapter(ChatCompletionMessageParam, config=strict), TypeAdapter(
        ChatCompletionToolUnionParam, config=strict
    )


def refused(name: str, request: dict[str, Any]) -> list[str]:
    """What of a request is not of the vendor's types: one line for each message or tool."""
    messages, tools = _types(name)
    return [*_wrong("message", messages, request["messages"]), *_wrong("tool", tools, request.get("tools", ()))]


def _wrong(what: str, adapter: TypeAdapter[Any], values: Iterable[Any]) -> Iterator[str]:
    for number, value in enumerate(values):
        try:
            _all_of(adapter.validate_python(value))
        except ValidationError as error:
            yield f"{what} {number}: {[e['type'] for e in error.errors()][:3]}: {str(value)[:300]}"


def _all_of(value: Any) -> None:
    """Walk through everything: what is iterable is only validated when it is taken."""
    if isinstance(value, dict):
        for inner in value.values():
            _all_of(inner)
    elif isinstance(value, Iterable) and not isinstance(value, str | bytes):
        for inner in value:
            _all_of(inner)
