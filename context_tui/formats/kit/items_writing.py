"""Messages as items again: those that were read from items as they were, others as new ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from context_tui.formats.kit.arguments import RAW, arguments_of
from context_tui.formats.kit.items import COMPACTIONS, HOSTED, Block, Item, item_part
from context_tui.session.blocks import is_block_list, replace_texts
from context_tui.session.jsontext import compact_text
from context_tui.session.losses import Losses
from context_tui.session.memory import Origin, find_origin
from context_tui.session.session import Session
from context_tui.session.values import BlockFlag, Role

Read = Callable[[Origin], list[Item] | None]
"""The items that a recorded message was read from; None where it was read from something else."""

NO_PLACE = "blocks left out that the Responses API cannot hold"
THINKING = "thinking left out, which only its own provider can read"
NO_SUMMARY = "summaries left out that were not in the file"


class Written(NamedTuple):
    """An item, and whether it is a message that a person typed."""

    item: Item
    typed: bool


class ItemWriter:
    """Writes the messages of one session in their order."""

    def __init__(self, session: Session, losses: Losses, read: Read) -> None:
        self._session, self._losses, self._read = session, losses, read
        self._custom: set[str] = set()  # ids of calls whose argument is free text

    def items(self, message: int, *, as_user: bool = False) -> list[Written]:
        """A message as items; new ones of a user, whoever it is from, where that is asked for."""
        origin = find_origin(self._session, message)
        items = self._read(origin) if isinstance(origin, Origin) else None
        injected = self._injected(message)
        blocks = self._session.content.blocks(message)
        spoken = self._session.facts.role[message] == Role.ASSISTANT and not as_user
        if items is None or not isinstance(origin, Origin):
            return list(self._new(blocks, injected, spoken))
        return list(self._kept(origin, items, injected, spoken))

    def _injected(self, message: int) -> list[bool]:
        facts = self._session.facts
        return [bool(facts.block_flags[row] & BlockFlag.INJECTED) for row in facts.blocks_of(message)]

    def _kept(self, origin: Origin, items: list[Item], injected: list[bool], spoken: bool) -> Iterator[Written]:
        """Recorded items as they are, but for those of which a block was changed or removed."""
        first = at = 0
        for item in items:
            blocks = item_part(item).blocks
            own = range(first, first + len(blocks))
            first += len(blocks)
            bodies = {each - own.start: origin.texts[each] for each in own if each in origin.texts}
            left = replace_texts(blocks, bodies)
            flags = injected[at : at + len(left)]
            at += len(left)
            if not bodies:
                if item.get("type") == "custom_tool_call":
                    self._custom.add(str(item.get("call_id")))
                typed = item_part(item).role == Role.USER and not all(flags)
                yield Written(item, typed and blocks[0].get("type") != "tool_result")
            elif left:
                yield from self._new(left, flags, spoken)

    def _new(self, blocks: list[Block], injected: list[bool], spoken: bool) -> Iterator[Written]:
        """Items for blocks of other formats: results first, as they were given, and texts of one kind together."""
        results = [block for block in blocks if block.get("type") == "tool_result"]
        rest = [(block, put_in) for block, put_in in zip(blocks, injected, strict=True) if block not in results]
        for block in results:
            yield Written(self._result(block), False)
        if results and rest:
            self._losses.add("messages with results and text split into two")
        content: list[Item] = []
        role = ""
        for block, put_in in rest:
            now = "assistant" if spoken else "developer" if put_in else "user"
            part = self._part(block, spoken)
            if content and (now != role or part is None):
                yield Written(_message(role, content), role == "user")
                content = []
            role = now
            if part is not None:
                content.append(part)
            elif (item := self._item(block)) is not None:
                yield Written(item, False)
        if content:
            yield Written(_message(role, content), role == "user")

    def _part(self, block: Block, spoken: bool) -> Item | None:
        """A block as a part of a message, where it can be one."""
        kind = block.get("type")
        if kind == "text":
            return {"type": "output_text" if spoken else "input_text", "text": str(block.get("text") or "")}
        if kind == "refusal" and spoken:
            return {"type": "refusal", "refusal": block.get("refusal")}
        if kind in ("image", "input_file") and not spoken:
            return image_part(block) if kind == "image" else block
        return None

    def _item(self, block: Block) -> Item | None:
        """A block as an item of its own, where it can be one."""
        kind = block.get("type")
        if kind == "tool_use":
            return self._call(block)
        if kind in HOSTED or (kind in COMPACTIONS and block.get("encrypted_content")):
            return block
        words = THINKING if kind in ("thinking", "redacted_thinking") else NO_PLACE
        self._losses.omit(NO_SUMMARY if kind in COMPACTIONS else words, block)
        return None

    def _call(self, block: Block) -> Item:
        call_id, name, given = str(block.get("id") or ""), str(block.get("name") or ""), block.get("input")
        called = {"name": name, "call_id": call_id}
        if isinstance(given, dict) and list(given) == [RAW] and isinstance(text := given[RAW], str):
            self._custom.add(call_id)
            return {"type": "custom_tool_call", **called, "input": text}
        return {"type": "function_call", **called, "arguments": arguments_of(given)}

    def _result(self, block: Block) -> Item:
        body, call_id = block.get("content"), str(block.get("tool_use_id") or "")
        if block.get("is_error"):
            self._losses.add("results no longer marked as errors")
        output: Any = "" if body is None else body
        if is_block_list(body):
            output = [part for each in body if (part := self._part(each, spoken=False)) is not None]
            if len(output) < len(body):
                kept = [each for each in body if self._part(each, spoken=False) is not None]
                self._losses.replace(block, {**block, "content": kept}, NO_PLACE)
        elif not isinstance(output, str):
            output = compact_text(output)
            self._losses.add("JSON results turned into text")
        kind = "custom_tool_call_output" if call_id in self._custom else "function_call_output"
        return {"type": kind, "call_id": call_id, "output": output}


def refused(role: str, block: Block) -> str:
    """Why a request cannot hold *block* in a message of *role*; empty where it can. Thinking may be encrypted items."""
    kind, spoken = block.get("type"), role == "assistant"
    match kind:
        case "text" | "tool_use" | "tool_result" | "thinking":
            return ""
        case "redacted_thinking":
            return THINKING
        case "refusal" if spoken:
            return ""
        case "image" | "input_file" if not spoken and (kind != "image" or image_part(block)):
            return ""
    if kind in COMPACTIONS:
        return "" if block.get("encrypted_content") else NO_SUMMARY
    return "" if kind in HOSTED and kind != "item_reference" else NO_PLACE


def image_part(block: Block) -> Item | None:
    """An image as a part of a message; None for one that is nowhere."""
    source = block.get("source")
    source = source if isinstance(source, dict) else {}
    if isinstance(data := source.get("data"), str):
        return {"type": "input_image", "image_url": f"data:{source.get('media_type') or 'image/png'};base64,{data}"}
    if isinstance(url := source.get("url"), str) and url:
        return {"type": "input_image", "image_url": url}
    if isinstance(file := source.get("file_id"), str) and file:
        return {"type": "input_image", "file_id": file}
    return None


def _message(role: str, content: list[Item]) -> Item:
    return {"type": "message", "role": role, "content": content}
