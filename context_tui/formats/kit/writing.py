"""Helpers for writers: JSON, tool schemas, injected blocks, tool results as text, and counts of losses."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from context_tui.formats.kit.blocks import Block, parse_arguments
from context_tui.formats.kit.values import list_objects, parse_id
from context_tui.session.blocks import body_to_text, is_block_list
from context_tui.session.facts import Facts
from context_tui.session.losses import Losses
from context_tui.session.session import Session
from context_tui.session.validation import MAX_TIME_MS
from context_tui.session.values import BlockFlag, MessageFlag

T = TypeVar("T")


def encode_json(value: Any) -> bytes:
    """Return a value as compact UTF-8 JSON. Lone surrogates are escaped."""
    try:
        return msgspec.json.encode(value)
    except (RecursionError, ValueError, TypeError):
        return json.dumps(value, separators=(",", ":"), default=str).encode()


def format_json_line(value: Any) -> bytes:
    """Return a value as one line of compact JSON that ends with a newline."""
    return encode_json(value) + b"\n"


def write_json(value: Any, path: Path) -> None:
    """Write a value to *path* as one line of JSON."""
    path.write_bytes(format_json_line(value))


def write_lines(records: Iterable[Any], path: Path) -> None:
    """Write records to *path*, which must not exist yet, as JSON lines."""
    with path.open("xb") as file:
        file.writelines(map(format_json_line, records))


def parse_tool_schemas(value: Any) -> list[dict[str, Any]]:
    """Return the tool schemas in a recorded list, with each name as text. Items that are not objects are left out."""
    return [
        tool if isinstance(tool.get("name", ""), str) else {**tool, "name": parse_id(tool["name"])}
        for tool in list_objects(value)
    ]


def convert_function_schema(function: dict[str, Any]) -> dict[str, Any]:
    """Convert the schema of one of OpenAI's functions to a tool schema in Anthropic's form."""
    description = {"description": function["description"]} if "description" in function else {}
    parameters = function.get("parameters") or {"type": "object"}
    return {"name": parse_id(function.get("name")), **description, "input_schema": parameters}


def format_iso_time(time: int) -> str:
    """Format epoch milliseconds as JavaScript does. An impossible time such as -1 becomes the current time."""
    moment = datetime.fromtimestamp(time / 1000, UTC) if 0 <= time <= MAX_TIME_MS else datetime.now(UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03}Z"


def list_injected(facts: Facts, rows: Iterable[int]) -> list[bool]:
    """Return, for each block row, whether the runtime injected the block."""
    return [bool(facts.block_flags[row] & BlockFlag.INJECTED) for row in rows]


def note_omitted_request_parts(session: Session, losses: Losses, program: str) -> None:
    """Add notes that the system prompt and the tool schemas are left out, as *program* adds its own."""
    if session.content.system():
        losses.add_note(f"the system prompt is left out; {program} adds its own")
    if session.content.tools():
        losses.add_note(f"the tool schemas are left out; {program} adds its own")


def convert_arguments(call: Block, losses: Losses) -> dict[str, Any]:
    """Return a call's arguments as an object, and count a loss if they were anything else."""
    arguments = parse_arguments(call.get("input"))
    if not isinstance(call.get("input"), dict):
        losses.replace(call, {**call, "input": arguments}, "calls whose arguments were not an object")
    return arguments


def split_results(blocks: list[Block]) -> tuple[list[Block], list[Block]]:
    """Split a message's blocks into tool results and all other blocks."""
    results = [block for block in blocks if block.get("type") == "tool_result"]
    return results, [block for block in blocks if block.get("type") != "tool_result"]


def build_change_folder(cwd: object) -> str:
    """Return ``cd FOLDER && `` for the start of a shell command, or "" if *cwd* is not a path."""
    return f"cd {shlex.quote(cwd)} && " if isinstance(cwd, str) and cwd else ""


def count_injected_losses(session: Session, losses: Losses) -> None:
    """Count the injected blocks in the context, which after an export will look as if they had been typed."""
    facts, order = session.facts, session.context_at().order
    # A summary is recognised by its first words.
    messages = (message for message in order if not facts.flags[message] & MessageFlag.SUMMARY)
    losses.add(INJECTED_LOSS, sum(sum(list_injected(facts, facts.blocks_of(message))) for message in messages))


INJECTED_LOSS = "injected blocks that look typed now"


def convert_body_blocks(result: Block, convert: Callable[[Block], T | None], losses: Losses, loss: str) -> list[T]:
    """Return the converted blocks of a tool result's body. Those for which *convert* returns None count as *loss*."""
    body = result["content"]
    pairs = [(block, new) for block in body if (new := convert(block))]
    if len(pairs) < len(body):
        losses.replace(result, {**result, "content": [block for block, _ in pairs]}, loss)
    return [new for _, new in pairs]


def convert_blocks(blocks: list[Block], convert: Callable[[Block], T | None], losses: Losses, program: str) -> list[T]:
    """Return a message's converted blocks. Those for which *convert* returns None are losses: *program* lacks them."""
    pairs = [(block, convert(block)) for block in blocks]
    for block, new in pairs:
        if new is None:
            losses.omit(f"blocks of type {block.get('type')} left out, which {program} cannot hold", block)
    return [new for _, new in pairs if new is not None]


def convert_body_to_text(result: dict[str, Any], losses: Losses) -> str:
    """Return a tool result's body as text, and count the images and structures that get lost."""
    body = result.get("content")
    text = body_to_text(body)
    if is_block_list(body):
        if images := sum(1 for block in body if block["type"] == "image"):
            losses.add("images left out", images)
            losses.replace(result, {**result, "content": text})
    elif body is not None and not isinstance(body, str):
        losses.add("JSON results turned into text")
    return text
