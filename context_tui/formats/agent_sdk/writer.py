"""Write sessions for agent-sdk: JSON Lines with one line for the start and one line for each message."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

from context_tui.formats.kit.blocks import Block, are_results
from context_tui.formats.kit.writing import INJECTED_LOSS, write_lines
from context_tui.session.facts import Usage
from context_tui.session.losses import Losses
from context_tui.session.markers import is_summary_start
from context_tui.session.memory import collect_models, collect_usage
from context_tui.session.session import Session
from context_tui.session.values import BlockFlag, MessageFlag


def write(session: Session, path: Path) -> Losses:
    """Write the messages in the context, with the recorded usage of replies, and return the losses."""
    losses, facts, session_id = Losses(), session.facts, str(uuid.uuid4())
    usages, models = collect_usage(session), collect_models(session)
    start = {"subtype": "init", "model": facts.model, "cwd": session.info.cwd, "tools": session.content.tools()}
    records: list[dict[str, Any]] = [{"type": "system", **{name: value for name, value in start.items() if value}}]
    for index, message in zip(session.context_at().order, session.to_messages(), strict=True):
        blocks = [new_block for block in message["content"] if (new_block := _build_block(block, losses))]
        record = {"type": message["role"], "content": blocks}
        if message["role"] == "user":
            rows = [*facts.blocks_of(index)]
            typed = [row for row in rows if not facts.block_flags[row] & BlockFlag.INJECTED]
            if are_results(blocks) or not typed:
                record["is_synthetic"] = True
            elif not facts.flags[index] & MessageFlag.SUMMARY:
                losses.add(INJECTED_LOSS, len(rows) - len(typed))
            text, is_first = str(blocks[0].get("text") or "") if blocks else "", len(records) == 1
            looks_typed = not is_summary_start(text, by_assistant=False, first_block=True, first_message=is_first)
            losses.add("summaries that look typed now", bool(facts.flags[index] & MessageFlag.SUMMARY) and looks_typed)
        else:
            record |= {"model": models.get(index) or facts.model or ""}
            if usage := usages.get(index):
                record["usage"] = format_usage(usage)
        records.append(record)
    heads = ({"type": record["type"], "uuid": str(uuid.uuid4()), "session_id": session_id} for record in records)
    write_lines((head | record for head, record in zip(heads, records, strict=True)), path)
    if session.content.system():
        losses.add_note("the system prompt is left out; agent-sdk adds its own")
    return losses


def format_usage(usage: Usage) -> dict[str, Any]:
    """Return *usage* as a ``usage`` object of the Messages API."""
    return {
        "input_tokens": usage.fresh,
        "output_tokens": usage.output,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_write_5m + usage.cache_write_1h,
        **({"cache_creation": {"ephemeral_1h_input_tokens": usage.cache_write_1h}} if usage.cache_write_1h else {}),
    }


def _build_block(block: Block, losses: Losses) -> Block | None:
    """Return *block* as agent-sdk stores it, or None if agent-sdk would silently ignore it when resuming."""
    match block:
        case {"type": "text" | "thinking" | "tool_use"} | {"type": "image", "source": {"type": "base64"}}:
            return block
        case {"type": "tool_result"}:
            return block if "content" in block else {**block, "content": ""}
    losses.omit(f"blocks of type {block.get('type')} left out, which agent-sdk cannot hold", block)
    return None
