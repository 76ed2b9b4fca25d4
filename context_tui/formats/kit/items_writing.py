"""Messages as items again: those that were read from items as they were, others as new ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from context_tui.formats.kit.arguments import RAW_ARGUMENTS_KEY, format_arguments
from context_tui.formats.kit.items import COMPACTION_TYPES, HOSTED_TYPES, Block, Item, parse_item
from context_tui.session.blocks import is_block_list, replace_texts
from context_tui.session.jsontext import compact_text
from context_tui.session.losses import Losses
from context_tui.session.memory import Origin, find_origin
from context_tui.session.session import Session
from context_tui.session.values import BlockFlag, Role

ItemReader = Callable[[Origin], list[Item] | None]
"""The items that a recorded message was read from; None where it was read from something else."""

UNSUPPORTED_BLOCKS_LOSS = "blocks left out that the Responses API cannot hold"
THINKING_LOSS = "thinking left out, which only its own provider can read"
SUMMARY_LOSS = "summaries left out that were not in the file"


class WrittenItem(NamedTuple):
    """An item, and whether it is a message that a person typed."""

    item: Item
    is_typed: bool


class ItemWriter:
    """Writes the messages of one session in their order."""

    def __init__(self, session: Session, losses: Losses, read_items: ItemReader) -> None:
        self._session, self._losses, self._read_items = session, losses, read_items
        self._custom: set[str] = set()  # ids of calls whose argument is free text

    def write_message(self, message: int, *, as_user: bool = False) -> list[WrittenItem]:
        """A message as items; new ones of a user, whoever it is from, where that is asked for."""
        origin = find_origin(self._session, message)
        items = self._read_items(origin) if isinstance(origin, Origin) else None
        injected = self._find_injected(message)
        blocks = self._session.content.blocks(message)
        spoken = self._session.facts.role[message] == Role.ASSISTANT and not as_user
        if items is None or not isinstance(origin, Origin):
            return list(self._build_items(blocks, injected, spoken))
        return list(self._reuse_items(origin, items, injected, spoken))

    def _find_injected(self, message: int) -> list[bool]:
        facts = self._session.facts
        return [bool(facts.block_flags[row] & BlockFlag.INJECTED) for row in facts.blocks_of(message)]

    def _reuse_items(
        self, origin: Origin, items: list[Item], injected: list[bool], spoken: bool
    ) -> Iterator[WrittenItem]:
        """Recorded items as they are, but for those of which a block was changed or removed."""
        first = at = 0
        for item in items:
            blocks = parse_item(item).blocks
            own = range(first, first + len(blocks))
            first += len(blocks)
            bodies = {each - own.start: origin.texts[each] for each in own if each in origin.texts}
            left = replace_texts(blocks, bodies)
            flags = injected[at : at + len(left)]
            at += len(left)
            if not bodies:
                if item.get("type") == "custom_tool_call":
                    self._custom.add(str(item.get("call_id")))
                typed = parse_item(item).role == Role.USER and not all(flags)
                yield WrittenItem(item, typed and blocks[0].get("type") != "tool_result")
            elif left:
                yield from self._build_items(left, flags, spoken)

    def _build_items(self, blocks: list[Block], injected: list[bool], spoken: bool) -> Iterator[WrittenItem]:
        """Items for blocks of other formats: results first, as they were given, and texts of one kind together."""
        results = [block for block in blocks if block.get("type") == "tool_result"]
        rest = [(block, put_in) for block, put_in in zip(blocks, injected, strict=True) if block not in results]
        for block in results:
            yield WrittenItem(self._build_call_output(block), False)
        if results and rest:
            self._losses.add("messages with results and text split into two")
        content: list[Item] = []
        role = ""
        for block, put_in in rest:
            now = "assistant" if spoken else "developer" if put_in else "user"
            part = self._build_content_part(block, spoken)
            if content and (now != role or part is None):
                yield WrittenItem(_build_message(role, content), role == "user")
                content = []
            role = now
            if part is not None:
                content.append(part)
            elif (item := self._build_item(block)) is not None:
                yield WrittenItem(item, False)
        if content:
            yield WrittenItem(_build_message(role, content), role == "user")

    def _build_content_part(self, block: Block, spoken: bool) -> Item | None:
        """A block as a part of a message, where it can be one."""
        kind = block.get("type")
        if kind == "text":
            return {"type": "output_text" if spoken else "input_text", "text": str(block.get("text") or "")}
        if kind == "refusal" and spoken:
            return {"type": "refusal", "refusal": block.get("refusal")}
        if kind in ("image", "input_file") and not spoken:
            return build_image_part(block) if kind == "image" else block
        return None

    def _build_item(self, block: Block) -> Item | None:
        """A block as an item of its own, where it can be one."""
        kind = block.get("type")
        if kind == "tool_use":
            return self._build_call(block)
        if kind in HOSTED_TYPES or (kind in COMPACTION_TYPES and block.get("encrypted_content")):
            return block
        words = THINKING_LOSS if kind in ("thinking", "redacted_thinking") else UNSUPPORTED_BLOCKS_LOSS
        self._losses.omit(SUMMARY_LOSS if kind in COMPACTION_TYPES else words, block)
        return None

    def _build_call(self, block: Block) -> Item:
        call_id, name, given = str(block.get("id") or ""), str(block.get("name") or ""), block.get("input")
        called = {"name": name, "call_id": call_id}
        if (
            isinstance(given, dict)
            and list(given) == [RAW_ARGUMENTS_KEY]
            and isinstance(text := given[RAW_ARGUMENTS_KEY], str)
        ):
            self._custom.add(call_id)
            return {"type": "custom_tool_call", **called, "input": text}
        return {"type": "function_call", **called, "arguments": format_arguments(given)}

    def _build_call_output(self, block: Block) -> Item:
        body, call_id = block.get("content"), str(block.get("tool_use_id") or "")
        if block.get("is_error"):
            self._losses.add("results no longer marked as errors")
        output: Any = "" if body is None else body
        if is_block_list(body):
            output = [part for each in body if (part := self._build_content_part(each, spoken=False)) is not None]
            if len(output) < len(body):
                kept = [each for each in body if self._build_content_part(each, spoken=False) is not None]
                self._losses.replace(block, {**block, "content": kept}, UNSUPPORTED_BLOCKS_LOSS)
        elif not isinstance(output, str):
            output = compact_text(output)
            self._losses.add("JSON results turned into text")
        kind = "custom_tool_call_output" if call_id in self._custom else "function_call_output"
        return {"type": kind, "call_id": call_id, "output": output}


def unsupported_reason(role: str, block: Block) -> str:
    """Why a request cannot hold *block* in a message of *role*; empty where it can. Thinking may be encrypted items."""
    kind, spoken = block.get("type"), role == "assistant"
    match kind:
        case "text" | "tool_use" | "tool_result" | "thinking":
            return ""
        case "redacted_thinking":
            return THINKING_LOSS
        case "refusal" if spoken:
            return ""
        case "image" | "input_file" if not spoken and (kind != "image" or build_image_part(block)):
            return ""
    if kind in COMPACTION_TYPES:
        return "" if block.get("encrypted_content") else SUMMARY_LOSS
    return "" if kind in HOSTED_TYPES and kind != "item_reference" else UNSUPPORTED_BLOCKS_LOSS


def build_image_part(block: Block) -> Item | None:
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


def _build_message(role: str, content: list[Item]) -> Item:
    return {"type": "message", "role": role, "content": content}
