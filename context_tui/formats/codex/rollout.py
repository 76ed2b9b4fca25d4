"""Parse the records and items in a rollout: envelopes, session metadata and injected text."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, NamedTuple

from context_tui.formats.kit.message_builder import MessageRecord, MetadataRecord
from context_tui.formats.kit.response_items import parse_item
from context_tui.formats.kit.values import as_object, parse_id, parse_time_ms
from context_tui.session.values import MessageFlag, Role

Record = dict[str, Any]

META, ITEM = "session_meta", "response_item"
RECORD_TYPES = frozenset({META, ITEM, "turn_context", "event_msg", "compacted"})
IGNORED_TYPES = frozenset(
    {
        *("world_state", "inter_agent_communication", "inter_agent_communication_metadata", "token_usage_record"),
        *("security_risk_score", "realtime_item", "state"),
    }
)
"""Types of records outside the context. Any content that the model sees is also recorded as items."""
_OLD_META_MEMBERS = ("id", "timestamp", "instructions")


class RolloutLine(NamedTuple):
    """A line of a rollout: its type, its payload, and its time in epoch milliseconds (-1 if unknown)."""

    kind: str
    payload: Any
    time: int = -1


def parse_rollout_line(record: Record) -> RolloutLine:
    """Parse a line of a new or an old rollout. Any other line gets the type ""."""
    kind = record.get("type")
    if "payload" in record and isinstance(kind, str):
        return RolloutLine(kind, record["payload"], parse_time_ms(record.get("timestamp")))
    if isinstance(state := record.get("record_type"), str):
        return RolloutLine(state, record)
    if isinstance(kind, str):
        return RolloutLine(ITEM, record)
    if all(name in record for name in _OLD_META_MEMBERS):
        return RolloutLine(META, record, parse_time_ms(record.get("timestamp")))
    return RolloutLine("", record)


class SessionMeta(NamedTuple):
    """Metadata of a session, which begins with the first ``base_bytes`` bytes of the rollout ``continued_from``.

    Further fields are the session's id, its folder, and the ids of the session it was forked from and of its parent.
    """

    base_bytes: int

    id: str
    cwd: str
    forked_from: str
    parent: str
    continued_from: str


def parse_session_meta(payload: Any) -> SessionMeta:
    """Parse the metadata of a session. A missing id or folder becomes ""."""
    meta = as_object(payload)
    source = as_object(meta.get("source"))
    thread_spawn = as_object(as_object(source.get("subagent")).get("thread_spawn"))
    parent = meta.get("parent_thread_id") or thread_spawn.get("parent_thread_id")
    base = as_object(meta.get("history_base"))
    members = (meta.get("id"), meta.get("cwd"), meta.get("forked_from_id"), parent, base.get("thread_id"))
    base_bytes = base.get("end_byte_offset")
    return SessionMeta(base_bytes if type(base_bytes) is int else 0, *map(parse_id, members))


def parse_rollout_item(item: Any) -> MessageRecord | MetadataRecord:
    """Parse an item of the conversation. Developer messages and text from Codex are marked as injected."""
    record = parse_item(item)
    if not isinstance(record, MessageRecord):
        return record
    return mark_injected(replace(record, role=Role.USER, is_injected=True) if record.role == Role.SYSTEM else record)


def mark_injected(record: MessageRecord) -> MessageRecord:
    """Return a record, marked as injected text or as a compaction's summary if it is user text that Codex wrote."""
    if record.role != Role.USER or record.has_results or not record.blocks:
        return record
    are_texts = [block.get("type") == "text" for block in record.blocks]
    if are_texts[0] and _get_text(record.blocks[0]).startswith(SUMMARY_PREFIX):
        return replace(record, flags=record.flags | MessageFlag.SUMMARY)
    is_only_scaffolding = all(are_texts) and all(is_scaffolding(_get_text(block)) for block in record.blocks)
    return replace(record, is_injected=record.is_injected or is_only_scaffolding)


SUMMARY_PREFIX = "Another language model started to solve this problem and produced a summary of its thinking process"
"""First words of the user message that holds the summary of a compaction."""
INSTRUCTIONS_START = "# AGENTS.md instructions"
_ELEMENT_NAME = re.compile(r"[a-z][a-z0-9]*[_ ][a-z0-9_ ]*")
"""Name of an XML element that Codex writes: unlike HTML's, it consists of several words."""
_SINGLE_WORD_ELEMENTS = ("skill", "hook", "recommended")
MAX_TAG_LENGTH = 200


def is_scaffolding(text: str) -> bool:
    """Return whether Codex wrote a text in a user message: project instructions, or an XML element of Codex."""
    text = text.strip()
    if text.startswith(INSTRUCTIONS_START):
        return True
    end = text.find(">", 0, MAX_TAG_LENGTH) if text.startswith("<") else -1
    tag = text[1:end] if end > 0 else ""
    names = (tag, tag.partition(" ")[0])  # it may have attributes
    known = (name for name in names if name in _SINGLE_WORD_ELEMENTS or _ELEMENT_NAME.fullmatch(name))
    return any(text.endswith(f"</{name}>") for name in known)


def _get_text(block: dict[str, Any]) -> str:
    return str(block.get("text") or "")
