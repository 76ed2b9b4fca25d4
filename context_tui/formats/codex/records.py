"""The lines of a rollout: in envelopes since September 2025, bare items before that."""

from __future__ import annotations

from typing import Any, NamedTuple

from context_tui.formats.kit.values import parse_id, parse_time_ms

Record = dict[str, Any]

META, ITEM = "session_meta", "response_item"
RECORD_TYPES = frozenset({META, ITEM, "turn_context", "event_msg", "compacted"})
IGNORED_TYPES = frozenset(
    {
        *("world_state", "inter_agent_communication", "inter_agent_communication_metadata", "token_usage_record"),
        *("security_risk_score", "realtime_item", "state"),
    }
)
"""Types of records that say nothing of the context: what the model sees of them is told by items."""
_OLD_META_MEMBERS = ("id", "timestamp", "instructions")


class RolloutLine(NamedTuple):
    """What a line is: its type, what it says, and when (epoch milliseconds, -1: unknown)."""

    kind: str
    payload: Any
    time: int = -1


def parse_rollout_line(record: Record) -> RolloutLine:
    """What a record is, in either form; of no type where it is neither."""
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


def as_object(value: Any) -> Record:
    """An object's members; of anything else none."""
    return value if isinstance(value, dict) else {}


class SessionMeta(NamedTuple):
    """What ``session_meta`` tells of a session; what it was forked from and by whom it was started, by their ids."""

    id: str
    cwd: str
    forked_from: str
    parent: str
    continued_from: str

    @property
    def note(self) -> str:
        """What a user has to know about where its history is from, in words."""
        if self.continued_from:
            return f"it goes on with session {self.continued_from}, whose messages are not in this file"
        if self.forked_from:
            return f"forked from session {self.forked_from}, whose messages are repeated here without their usage"
        return ""


def parse_session_meta(payload: Any) -> SessionMeta:
    """The ids and the folder of a session; what is not told is empty."""
    told = as_object(payload)
    source = as_object(told.get("source"))
    spawned = as_object(as_object(source.get("subagent")).get("thread_spawn"))
    parent = told.get("parent_thread_id") or spawned.get("parent_thread_id")
    base = as_object(told.get("history_base"))
    given = (told.get("id"), told.get("cwd"), told.get("forked_from_id"), parent, base.get("thread_id"))
    return SessionMeta(*map(parse_id, given))
