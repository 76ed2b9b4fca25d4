"""Messages of LangChain in its three spellings, wherever they are kept: plain JSON, of which nothing is ever loaded.

``{"type", "data"}`` of ``messages_to_dict``, ``{"lc", "type": "constructor", "kwargs"}`` of ``dumpd``, and flat ones of
``model_dump``. A constructor's id is only read for the kind of its message. They stand alone, in a list, in a state or
checkpoint of LangGraph, or in a run of LangSmith, where the reply is the output.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from context_tui.formats.base import WHOLE, Claim, Format, Scanner
from context_tui.formats.kit.document_scanner import DocumentScanner, Runs, documents_in
from context_tui.formats.kit.documents import (
    FIRST,
    Element,
    Lists,
    Run,
    items_of,
    members_of,
    read_runs,
    runs_in,
    value_of,
)
from context_tui.formats.kit.heads import first_values
from context_tui.formats.kit.message_builder import Compacted, MessageBuilder, Part
from context_tui.formats.kit.usage import anthropic_usage, openai_usage, size_of, with_cache
from context_tui.formats.kit.values import as_blocks, as_id, image_of, usage_or_note
from context_tui.formats.openai.shape import FunctionCalls, call_of, content_block
from context_tui.session.facts import Usage
from context_tui.session.session import SessionInfo
from context_tui.session.validation import truncate_name
from context_tui.session.values import MessageFlag, Role

KINDS = {
    **{"human": Role.USER, "HumanMessage": Role.USER, "HumanMessageChunk": Role.USER},
    **{"ai": Role.ASSISTANT, "AIMessage": Role.ASSISTANT, "AIMessageChunk": Role.ASSISTANT},
    **{"system": Role.SYSTEM, "SystemMessage": Role.SYSTEM, "SystemMessageChunk": Role.SYSTEM},
    **{"tool": Role.USER, "ToolMessage": Role.USER, "ToolMessageChunk": Role.USER},
    **{"function": Role.USER, "FunctionMessage": Role.USER, "FunctionMessageChunk": Role.USER},
    **{"chat": Role.USER, "ChatMessage": Role.USER, "ChatMessageChunk": Role.USER},
}
ANSWERS = ("tool", "ToolMessage", "ToolMessageChunk", "function", "FunctionMessage", "FunctionMessageChunk")
REMOVALS = ("remove", "RemoveMessage")
WRAPPERS = ("values", "checkpoint", "channel_values", "outputs", "output")
"""Members of states, checkpoints and runs that messages stand in, if not beside them."""
MOST_WRAPPED = 5
Block = dict[str, Any]
LISTS = Lists(keys=("messages",), members=("type",), never=("messages", "parentUuid", "sessionId"))


class LangChainFormat(Format):
    """Dumps of LangChain messages."""

    name: ClassVar[str] = "langchain"
    about: ClassVar[str] = "LangChain messages, LangGraph states, LangSmith runs (JSON, JSONL), parsed and never loaded"
    suffixes: ClassVar[tuple[str, ...]] = (".json", ".jsonl")
    from_source: ClassVar[str] = WHOLE

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        """By messages of LangChain's types, alone, in a list or in a state."""
        value = next(iter(first_values(head)), None)
        if isinstance(value, list) and value and not LISTS.is_element(value[0]):
            value = value[0]  # the newest of several states
        found = _held(value)
        if isinstance(found, dict) and "messages" in found:
            held = found["messages"]
            first = next(iter(held), None) if isinstance(held, list) else None
        else:
            first = found
        first = (first[0] if first else None) if isinstance(first, list) else first
        return Claim(90, "messages of LangChain") if isinstance(first, dict) and _is_message(first) else None

    def sessions(self, path: Path) -> list[SessionInfo]:
        """The message lists in a file."""
        return documents_in(path, self.name, LangChainShape, runs=_RUNS)

    def scanner(self, path: Path, info: SessionInfo) -> Scanner:
        """A scanner for one of them."""
        return DocumentScanner(path, info, LangChainShape, runs=_RUNS, ahead=True)


class LangChainShape:
    """Messages by whatever spelling; calls are counted once, and ``RemoveMessage`` takes out what it names."""

    def __init__(self) -> None:
        self._keys: dict[str, None] = {}  # of what is in the context, in order
        self._functions = FunctionCalls()
        self._elements: list[Element] = []

    def begin(self, run: Run, builder: MessageBuilder) -> None:
        """Input tokens have cached ones in, whoever the provider is."""
        builder.facts.input_includes_cache = True
        self._elements = run.elements

    def tools(self, run: Run) -> list[dict[str, Any]]:
        """None: schemas are not dumped."""
        return []

    def reply(self, run: Run) -> dict[str, Any] | None:
        """None: every reply is an element."""
        return None

    def part(self, value: Any, place: int) -> Part:
        """A message."""
        if not isinstance(value, dict):
            raise ValueError("not a message: not a JSON object")
        kind, data = _spelled(value)
        key = as_id(data.get("id")) or f"place {place}"
        if kind in REMOVALS:
            gone = None if self._is_removal(place + 1) else Compacted("RemoveMessage", context=(), summarises=False)
            return Part(compacted=gone)
        if kind not in KINDS:
            raise ValueError(f"not a message: unknown type {kind[:40]!r}")
        if kind in ANSWERS:
            error = {"is_error": True} if data.get("status") == "error" else {}
            function = kind.lower().startswith("function")
            answered = self._functions.answered(place) if function else as_id(data.get("tool_call_id"))
            block = {"type": "tool_result", "tool_use_id": answered, "content": _body(data.get("content")), **error}
            return Part(Role.USER, [block], results=True, key=key)
        blocks = [made for each in as_blocks(data.get("content")) if (made := _block(each))]
        more = data.get("additional_kwargs")
        more = more if isinstance(more, dict) else {}
        role = KINDS[kind]
        if kind.lower().startswith("chat") and data.get("role") in ("assistant", "ai"):
            role = Role.ASSISTANT
        if role != Role.ASSISTANT:
            summary = more.get("lc_source") == "summarization"
            return Part(role, blocks, flags=int(MessageFlag.SUMMARY) if summary else 0, injected=summary, key=key)
        about = data.get("response_metadata")
        about = about if isinstance(about, dict) else {}
        usage, notes = usage_or_note(_usage, data.get("usage_metadata"))
        if usage is None and not notes:  # as the provider told it
            usage, notes = usage_or_note(openai_usage, about.get("token_usage"))
        if usage is None and not notes:
            usage, notes = usage_or_note(_provider_usage, about.get("usage"))
        model = about.get("model_name") or about.get("model")
        return Part(
            role,
            self._spoken(blocks, data, more, place),
            usage=usage,
            notes=notes,
            model=truncate_name(model) if isinstance(model, str) else "",
            key=key,
        )

    def placed(self, value: Any, part: Part) -> Part:
        """The last of some removals: the context is what is left."""
        if part.role is not None:
            self._keys[part.key] = None
            return part
        gone = as_id(_spelled(value)[1].get("id"))
        if gone == "__remove_all__":
            self._keys.clear()
        self._keys.pop(gone, None)
        if part.compacted is None:
            return part
        return replace(part, compacted=replace(part.compacted, context=tuple(self._keys)))

    def _is_removal(self, place: int) -> bool:
        """Whether the element at *place* takes out a message too."""
        try:
            value = value_of(self._elements[place]) if place < len(self._elements) else None
            return isinstance(value, dict) and _spelled(value)[0] in REMOVALS
        except ValueError:
            return False

    def _spoken(self, blocks: list[Block], data: dict[str, Any], more: dict[str, Any], place: int) -> list[Block]:
        """Blocks of an assistant, with the reasoning and those calls that are not among them already."""
        known = {as_id(block.get("id")) for block in blocks if block.get("type") == "tool_use"}
        thought = more.get("reasoning_content")
        if isinstance(thought, str) and thought and all(block.get("type") != "thinking" for block in blocks):
            blocks = [{"type": "thinking", "thinking": thought}, *blocks]
        calls: list[Block] = []
        for call in (*_calls(data, "tool_calls"), *_calls(data, "invalid_tool_calls"), *_calls(more, "tool_calls")):
            own = as_id(call.get("id"))
            if own not in known or not own:
                if call in calls or (not own and calls):  # the provider's copy of one without an id
                    continue
                known.add(own)
                calls.append(call_of(call, own) if "function" in call else _call(call, own))
        if isinstance(function := more.get("function_call"), dict) and not calls:
            calls = [call_of({"function": function}, self._functions.asked(place))]
        said = [block for block in blocks if block != {"type": "text", "text": ""}] if calls else blocks
        return [*said, *calls]


def _spelled(value: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The kind of a message and its members, whatever the spelling.

    Raises:
        ValueError: it is made by a constructor of something else.
    """
    if value.get("type") == "constructor":
        path, members = value.get("id"), value.get("kwargs")
        kind = path[-1] if isinstance(path, list) and path else ""
        if not (isinstance(kind, str) and "Message" in kind):  # a class, not one of the short names
            raise ValueError(f"not a message: a constructor of {str(kind)[:40]!r}")
    else:
        kind, members = value.get("type"), value.get("data", value)
    return (kind if isinstance(kind, str) else ""), (members if isinstance(members, dict) else {})


def _is_message(value: dict[str, Any]) -> bool:
    if value.get("type") == "constructor":
        path = value.get("id")
        return value.get("lc") == 1 and isinstance(path, list) and bool(path) and "Message" in str(path[-1])
    kind, data = _spelled(value)
    own = kind in KINDS and kind != "chat" and not {"session_id", "sessionId", "uuid", "role"} & value.keys()
    return own and "content" in data


def _calls(members: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """The calls in a member; what could not be dumped is none."""
    found = members.get(name)
    return [each for each in found if isinstance(each, dict) and "lc" not in each] if isinstance(found, list) else []


def _call(call: dict[str, Any], own: str) -> Block:
    """A call whose arguments are an object; or, where the model failed to write one, their text."""
    given = call.get("args")
    return {"type": "tool_use", "id": own, "name": as_id(call.get("name")), "input": {} if given is None else given}


def _block(part: Block) -> Block | None:
    """A part of a content as a block; None for a call that stands among the calls of its message too."""
    match part:
        case {"type": "tool_call"}:
            return _call(part, as_id(part.get("id")))
        case {"type": "function_call"} | {"type": "invalid_tool_call"} | {"type": "tool_call_chunk"}:
            return None
        case {"type": "reasoning", "reasoning": str() as thought}:
            return {"type": "thinking", "thinking": thought}
        case {"type": "image", "base64": str() as data} | {
            "type": "image",
            "source_type": "base64",
            "data": str() as data,
        }:
            kind = part.get("mime_type")
            return image_of(f"data:{kind if isinstance(kind, str) else 'image/png'};base64,{data}")
        case {"type": "image", "url": str() as url}:
            return image_of(url)
    return content_block(part)


def _body(content: Any) -> Any:
    """What a tool answered."""
    if isinstance(content, list):
        return [_block(each) or each if isinstance(each, dict) else each for each in content]
    return content


def _provider_usage(value: Any) -> Usage | None:
    """Usage as a provider told it: Anthropic's names say whether tokens were cached, OpenAI's are of prompts."""
    if isinstance(value, dict) and "prompt_tokens" in value:
        return openai_usage(value)
    return anthropic_usage(value)


def _usage(value: Any) -> Usage | None:
    """``usage_metadata``, whose input has cached tokens in."""
    if not isinstance(value, dict) or "input_tokens" not in value:
        return None
    more = value.get("input_token_details")
    more = more if isinstance(more, dict) else {}
    read, written = size_of(more, "cache_read"), size_of(more, "cache_creation")
    return with_cache(size_of(value, "input_tokens"), read, written, size_of(value, "output_tokens"))


def _find(values: list[Element]) -> list[Run]:
    if len(values) == 1 and (listed := items_of(values[0])) is not None:
        if any(map(LISTS.is_element, listed[:FIRST])):
            return runs_in(listed, LISTS)
        values = listed  # several states, the newest first
    held = [_held(each) for each in values]
    return runs_in([[held[0]] if len(held) == 1 and _lone(held[0]) else each for each in held], LISTS)


def _held(element: Element) -> Element:
    """What holds messages in a state, a checkpoint or a run, as an object with ``messages``; anything else as it is."""
    for _ in range(MOST_WRAPPED):
        members = members_of(element)
        name = next((each for each in WRAPPERS if each in (members or {})), None)
        if members is None or "messages" in members or name is None or members_of(members[name]) is None:
            break
        if name == "outputs" and (replied := _replied(members)) is not None:
            return {"messages": replied}
        element = members[name]
    members = members_of(element) or {}
    asked = items_of(members.get("messages")) or []
    inner = items_of(asked[0]) if len(asked) == 1 else None  # of a batch of one
    return {**members, "messages": inner} if inner is not None else element


def _replied(run: dict[str, Element]) -> list[Element] | None:
    """What a model was asked in a run, and what it replied; None where the output is no reply of a model."""
    batch = items_of((members_of(run["outputs"]) or {}).get("generations"))
    asked = items_of((members_of(_held(run.get("inputs"))) or {}).get("messages"))
    if not batch or asked is None:
        return None
    replies = items_of(batch[0]) or []
    said = [(members_of(each) or {}).get("message") for each in replies[:1]]
    return [*asked, *(each for each in said if each is not None)]


def _lone(element: Element) -> bool:
    """Whether a document is one message."""
    return "messages" not in (members_of(element) or {"messages": 0})


_RUNS: Runs = partial(read_runs, find=_find)
