"""Write conversations that Cline can continue when they are put into a task's folder."""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import Any

from context_tui.formats.anthropic.writer import find_unsupported_reason
from context_tui.formats.cline.reader import find_injected_blocks
from context_tui.formats.kit.blocks import Block
from context_tui.formats.kit.size_note import build_size_note
from context_tui.formats.kit.writing import INJECTED_LOSS, list_injected, note_omitted_request_parts, write_json
from context_tui.session.losses import Losses
from context_tui.session.session import Session
from context_tui.session.values import MessageFlag

RESUME_NOTE = (
    "to resume, replace api_conversation_history.json in the task's folder with this file while the editor is "
    "closed; a range that ui_messages.json there records as deleted is deleted from it too"
)
UNSUPPORTED_BLOCKS = "blocks left out that Cline cannot hold"


def write_conversation(session: Session, path: Path) -> Losses:
    """Write the messages in the context, with summaries marked as Roo Code does, and return the losses."""
    losses, facts = Losses(), session.facts
    messages: list[dict[str, Any]] = []
    next_time = int(time.time() * 1000) - len(session.context_at())
    for index, message in zip(session.context_at().order, session.to_messages(), strict=True):
        role, content = message["role"], message["content"]
        blocks = [*map(_build_block, content)]
        recorded_time = facts.time[index]
        next_time = recorded_time if recorded_time > 0 else next_time + 1
        is_summary = bool(facts.flags[index] & MessageFlag.SUMMARY)
        summary_members = {"isSummary": True, "condenseId": str(uuid.uuid4())} if is_summary else {}
        messages.append({"role": role, "content": blocks, "ts": next_time, **summary_members})
        if role == "user" and not is_summary:
            injected, recognised = list_injected(facts, facts.blocks_of(index)), find_injected_blocks(content)
            losses.add(INJECTED_LOSS, sum(number not in recognised for number, flag in enumerate(injected) if flag))
    messages[-1:] = [message | build_size_note(facts, losses) for message in messages[-1:]]
    write_json(messages, path)
    note_omitted_request_parts(session, losses, "the extension")
    losses.add_note(RESUME_NOTE)
    return losses


def find_unsupported_block_reason(role: str, block: Block) -> str:
    """Return why a message of *role* cannot contain *block*, or "" if it can. Unsigned thinking becomes reasoning."""
    if role == "assistant" and block.get("type") == "thinking":
        return ""
    return UNSUPPORTED_BLOCKS if find_unsupported_reason(role, block) else ""


def _build_block(block: Block) -> Block:
    if block.get("type") == "thinking" and not block.get("signature"):
        return {"type": "reasoning", "text": str(block.get("thinking") or ""), "summary": []}
    return block
