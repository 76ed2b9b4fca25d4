"""What the lines of agent-sdk and of ``stream-json`` say: the same types, with the message beside or within them.

Both announce a compaction by a ``compact_boundary``. Behind that of Claude Code the summary is said; agent-sdk keeps it
in memory, and its next run, which begins with ``init``, has everything that is in the file again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from context_tui.formats.kit.message_builder import Compacted, Part
from context_tui.formats.kit.usage import anthropic_usage
from context_tui.formats.kit.values import as_blocks, as_id, epoch_ms, recorded_tokens, usage_or_note
from context_tui.formats.kit.writing import tools_of
from context_tui.session.markers import CLAUDE_CODE_SUMMARY
from context_tui.session.validation import truncate_name
from context_tui.session.values import MessageFlag, Role

ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT}
BESIDE = frozenset(
    {
        *("result", "stream_event", "rate_limit_event", "prompt_suggestion", "tool_progress", "tool_use_summary"),
        *("auth_status", "keep_alive", "control_request", "control_response", "control_cancel_request"),
    }
)
"""Types of records that are part of no message: totals, progress, and what is said between the ends of a stream."""
MIN_KEEP = 4
"""Messages that agent-sdk keeps behind a summary unless it is told otherwise."""
NOT_KEPT = "agent-sdk keeps no summary in the file, nor what else it kept: that is taken to be its default, 4 messages"
"""What a user has to know of a file with a compaction."""

Record = dict[str, Any]


def is_line(value: Record) -> bool:
    """Whether a record is of a stream, not of Claude Code's own transcripts."""
    kind, inside = value.get("type"), value.get("message")
    if not isinstance(value.get("session_id"), str) or "parentUuid" in value or "sessionId" in value:
        return False
    if not isinstance(kind, str):
        return False
    if kind in ROLES:
        return "content" in value or isinstance(inside, dict)
    return kind in ("system", "result") and "subtype" in value


def is_own(records: list[Record]) -> bool:
    """Whether records are agent-sdk's, with the content of messages beside their type; else they are a stream's."""
    own = ("content" in each for each in records if each.get("type") in [*ROLES])
    return next(own, any("permission_mode" in each for each in records))


def agent_of(record: Record) -> str:
    """The call that started the sub-agent that a record is of; empty for one of the main session."""
    return as_id(record.get("parent_tool_use_id"))


@dataclass
class _Said:
    """A message of the history of a run: its key, role, and whether it holds calls or results."""

    key: str
    role: Role
    calls: bool
    results: bool


class AgentSdkShape:
    """Messages as they were sent; totals and progress are beside the conversation, and so is what other agents said.

    ``own`` says that the lines are agent-sdk's, ``agent`` whose messages these are (:func:`agent_of`).
    """

    def __init__(self, own: bool = False, agent: str = "") -> None:
        self._own, self._agent = own, agent
        self._boundary: Record | None = None  # of a stream, whose summary has not been said yet
        self._history: list[_Said] = []  # of agent-sdk's file
        self._results = False  # whether results that come are more of those that were said last
        self._compacted = self._resumed = False

    def part(self, record: Record) -> Part:
        """What a record says."""
        kind = record.get("type")
        if not isinstance(kind, str):
            raise ValueError("a record without a type")
        if kind not in ROLES and kind != "system" and kind not in BESIDE:
            raise ValueError(f"a record of unknown type {kind[:40]!r}")
        if kind in BESIDE or agent_of(record) != self._agent:
            return Part()
        if kind == "system":
            return self._system(record)
        inside = record.get("message")
        message = inside if isinstance(inside, dict) else record
        if "content" not in message:
            raise ValueError(f"{kind} without content")
        return _message(record, message, ROLES[kind])

    def placed(self, record: Record, part: Part) -> Part:
        """What a record says behind those before it: what the context is from a compaction on, or from a new run."""
        if self._own:
            return self._in_file(record, part)
        if record.get("subtype") == "compact_boundary" and record.get("type") == "system":
            self._boundary = record
        elif part.role is not None and (part.compacted or self._boundary):
            trigger, before, notes = _told(self._boundary or {})
            summarises, self._boundary = part.compacted is not None, None
            what = Compacted(trigger, before, context=(0,), summarises=summarises)
            return replace(part, compacted=what, notes=(*part.notes, *notes))
        return part

    def _system(self, record: Record) -> Part:
        """How a run begins, or that what was said before was compacted; other events are progress."""
        if record.get("subtype") == "compact_boundary":
            if not self._own:
                return Part()
            trigger, before, notes = _told(record)
            stands = {"type": "summary", "note": "of what was said before; it is not in the file"}
            what = Compacted(trigger, before, context=(0,))
            return Part(Role.USER, [stands], injected=True, compacted=what, notes=notes)
        model, tools = record.get("model"), tools_of(record.get("tools"))
        return Part(model=truncate_name(model) if isinstance(model, str) else "", tools=tools or None)

    def _in_file(self, record: Record, part: Part) -> Part:
        if part.role is None:
            self._resumed |= record.get("subtype") == "init" and self._compacted
            return part
        history = self._history
        if part.compacted:
            kept = history[_split(history) :]
            summary = _Said(f"summary before message {len(history)}", Role.USER, False, False)
            self._history, self._compacted, self._results = [*history, summary], True, False
            own = tuple(each.key for each in kept)
            return replace(part, key=summary.key, compacted=replace(part.compacted, context=(0, *own)))
        if part.results and self._results:
            return replace(part, key=history[-1].key)
        kinds = {str(block.get("type")) for block in part.blocks}
        said = _Said(f"message {len(history)}", part.role, "tool_use" in kinds, "tool_result" in kinds)
        history.append(said)
        self._results = part.results or (self._results and part.role == Role.USER)
        if self._resumed:
            self._resumed = self._compacted = False
            every = tuple(each.key for each in history[:-1] if not each.key.startswith("summary"))
            return replace(part, key=said.key, compacted=Compacted("resume", context=(*every, 0), summarises=False))
        return replace(part, key=said.key)


def _split(history: list[_Said]) -> int:
    """The first message of a history that agent-sdk keeps (its ``find_split_point``); less where that is nothing."""
    for keep in range(MIN_KEEP, 0, -1):
        at = len(history) - keep
        while at > 0 and history[at].role == Role.USER and history[at].results and history[at - 1].calls:
            at -= 1
        if at > 0:
            return at
    return len(history)


def _message(record: Record, message: Record, role: Role) -> Part:
    blocks = as_blocks(message.get("content"))
    time = epoch_ms(record.get("timestamp"))
    if role == Role.USER:
        results = bool(blocks) and all(block.get("type") == "tool_result" for block in blocks)
        synthetic = any(record.get(name) is True for name in ("is_synthetic", "isSynthetic"))
        text = blocks[0].get("text") if synthetic and blocks and blocks[0].get("type") == "text" else None
        summary = isinstance(text, str) and text.startswith(CLAUDE_CODE_SUMMARY)
        compacted = Compacted(context=(0,)) if summary else None
        flags = int(MessageFlag.SUMMARY) if summary else 0
        injected = synthetic and not results
        return Part(role, blocks, results, flags, time, injected=injected, compacted=compacted)
    usage, notes = usage_or_note(anthropic_usage, message.get("usage") or record.get("usage"))
    model = message.get("model")
    said = "" if model == "<synthetic>" or not isinstance(model, str) else truncate_name(model)
    return Part(role, blocks, time=time, usage=usage, notes=notes, message_id=as_id(message.get("id")), model=said)


def _told(boundary: Record) -> tuple[str | None, int | None, tuple[str, ...]]:
    """What a boundary tells of its compaction: the trigger and the tokens before, and what is wrong with them."""
    about = boundary.get("compact_metadata")
    about = about if isinstance(about, dict) else {}
    trigger = about.get("trigger")
    told = truncate_name(trigger) if isinstance(trigger, str) else None
    try:
        return told, recorded_tokens(about.get("pre_tokens"), "pre_tokens") or None, ()
    except ValueError as error:
        return told, None, (str(error),)
