"""Sessions in memory, made from messages of the Messages API or derived from another session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from context_tui.session.blocks import replace_texts
from context_tui.session.facts import Facts, Usage
from context_tui.session.session import ContentOverlay, Message, Session, SessionInfo
from context_tui.session.validation import validate_messages
from context_tui.session.values import RecordKind, Role


def get_blocks(message: Message) -> list[dict[str, Any]]:
    """Return a message's blocks. A string counts as one text block."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content or [] if isinstance(block, dict)]


def build_facts(messages: Iterable[Message]) -> Facts:
    """Build facts from messages of the Messages API, with one record for each message."""
    facts = Facts()
    for number, message in enumerate(messages):
        index = facts.add_message(Role.ASSISTANT if message.get("role") == "assistant" else Role.USER)
        for block in get_blocks(message):
            facts.add_block(index, block)
        facts.add_record(number, 0, RecordKind.MESSAGE, index)
    return facts


class MemoryContent:
    """The content of a session whose messages are in memory."""

    def __init__(self, messages: list[Message], system: str = "") -> None:
        self._messages, self._system = messages, system

    def blocks(self, message: int) -> list[dict[str, Any]]:
        return [dict(block) for block in get_blocks(self._messages[message])]

    def raw(self, record: int) -> str:
        return repr(self._messages[record])

    def system(self) -> str:
        return self._system

    def tools(self) -> list[dict[str, Any]]:
        return []

    def is_unchanged(self) -> bool:
        return True


def from_messages(messages: Iterable[Message]) -> Session:
    """Create a session from messages of the Messages API. Raises UnreadableSession if one is malformed."""
    valid_messages = validate_messages(messages)
    facts, content = build_facts(valid_messages), MemoryContent(valid_messages)
    return Session(facts, content, SessionInfo("", "messages"), len(valid_messages))


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Origin:
    """The recorded message that a message in a derived session comes from, and the new texts of its changed blocks."""

    session: Session
    message: int
    texts: Mapping[int, str | None] = field(default_factory=dict)  # block ordinal to text; None: removed

    @property
    def remaining_blocks(self) -> list[int]:
        """The blocks that were not removed, by their ordinal in the recorded message."""
        recorded = range(sum(1 for _ in self.session.facts.blocks_of(self.message)))
        return [ordinal for ordinal in recorded if self.texts.get(ordinal, "") is not None]


class DerivedContent(ContentOverlay):
    """The content of a derived session. Its messages are recorded ones (see :class:`Origin`) or new."""

    def __init__(self, parent: Session, entries: list[Origin | Message]) -> None:
        super().__init__(parent.content)
        self.parent, self.entries = parent, entries

    def blocks(self, message: int) -> list[dict[str, Any]]:
        entry = self.entries[message]
        if not isinstance(entry, Origin):
            return [dict(block) for block in entry["content"]]
        return replace_texts(entry.session.content.blocks(entry.message), entry.texts)

    def raw(self, record: int) -> str:
        return repr(self.entries[record])


def find_origin(session: Session, message: int, texts: Mapping[int, str | None] | None = None) -> Origin | Message:
    """Return *message* as an origin with new *texts* (by block ordinal), or as a changed copy if it is not recorded."""
    new_texts = dict(texts or {})
    if isinstance(session.content, DerivedContent):
        entry = session.content.entries[message]
        if isinstance(entry, Origin):
            ordinals = entry.remaining_blocks
            return replace(entry, texts={**entry.texts, **{ordinals[at]: text for at, text in new_texts.items()}})
        return {**entry, "content": replace_texts(entry["content"], new_texts)}
    return Origin(session, message, new_texts)


def find_recording(session: Session) -> Session:
    """Return the recording from which a session was derived, through any number of applied plans."""
    while isinstance(session.content, DerivedContent):
        session = session.content.parent
    return session


def collect_usage(session: Session) -> dict[int, Usage]:
    """Map each reply since the last rewrite to its recorded usage, or return {} for a derived session."""
    return {} if session.origin else _map_replies(session, _map_usage_by_reply)


def collect_models(session: Session) -> dict[int, str]:
    """Map each reply in the session's context to the model that wrote it, if the model is recorded."""
    return _map_replies(session, _map_models_by_reply)


def _map_replies(session: Session, read: Callable[[Session], Mapping[int, T]]) -> dict[int, T]:
    """Map each message in the context of *session* that is a recorded reply to the value that *read* gives for it."""
    by_message: dict[int, T] = {}
    by_reply: Mapping[int, T] | None = None
    for message in session.context_at().order:
        if isinstance(entry := find_origin(session, message), Origin):
            by_reply = read(entry.session) if by_reply is None else by_reply
            if entry.message in by_reply:
                by_message[message] = by_reply[entry.message]
    return by_message


def _map_usage_by_reply(recording: Session) -> dict[int, Usage]:
    context, facts = recording.context_at(), recording.facts
    first = max(context.epoch_start, context.last_rewrite)
    return {reply: usage for reply, usage in zip(facts.request_message, facts.requests, strict=True) if reply >= first}


def _map_models_by_reply(recording: Session) -> dict[int, str]:
    facts = recording.facts
    requests = zip(facts.request_message, facts.request_model, strict=True)
    return {reply: facts.models[row] for reply, row in requests if row >= 0}
