"""The lines of a rollout: in envelopes since September 2025, bare items before that."""

from __future__ import annotations

from typing import Any, NamedTuple

from context_tui.formats.kit.values import as_id, epoch_ms

Record = dict[str, Any]

META, ITEM = "session_meta", "response_item"
TYPES = frozenset({META, ITEM, "turn_context", "event_msg", "compacted"})
BESIDE = frozenset(
    {
        *("world_state", "inter_agent_communication", "inter_agent_communication_metadata", "token_usage_record"),
        *("security_risk_score", "realtime_item", "state"),
    }
)
"""Types of records that say nothing of the context: what the model sees of them is told by items."""
_OLD_META = ("id", "timestamp", "instructions")


class Line(NamedTuple):
    """What a line is: its type, what it says, and when (epoch milliseconds, -1: unknown)."""

    kind: str
    payload: Any
    time: int = -1


def line_of(record: Record) -> Line:
    """What a record is, in either form; of no type where it is neither."""
    kind = record.get("type")
    if "payload" in record and isinstance(kind, str):
        return Line(kind, record["payload"], epoch_ms(record.get("timestamp")))
    if isinstance(state := record.get("record_type"), str):
        return Line(state, record)
    if isinstance(kind, str):
        return Line(ITEM, record)
    if all(name in record for name in _OLD_META):
        return Line(META, record, epoch_ms(record.get("timestamp")))
    return Line("", record)


def members(value: Any) -> Record:
    """An object's members; of anything else none."""
    return value if isinstance(value, dict) else {}


class Meta(NamedTuple):
    """What ``session_meta`` tells of a session; what it was forked from and by whom it was started, by their ids."""

    id: str
    cwd: str
    forked_from: str
    parent: str
    referenced: str

    @property
    def note(self) -> str:
        """What a user has to know about where its history is from, in words."""
        if self.referenced:
            return f"it goes on with session {self.referenced}, whose messages are not in this file"
        if self.forked_from:
            return f"forked from session {self.forked_from}, whose messages are repeated here without their usage"
        return ""


def meta_of(payload: Any) -> Meta:
    """The ids and the folder of a session; what is not told is empty."""
    told = members(payload)
    source = members(told.get("source"))
    spawned = members(members(source.get("subagent")).get("thread_spawn"))
    parent = told.get("parent_thread_id") or spawned.get("parent_thread_id")
    base = members(told.get("history_base"))
    given = (told.get("id"), told.get("cwd"), told.get("forked_from_id"), parent, base.get("thread_id"))
    return Meta(*map(as_id, given))
