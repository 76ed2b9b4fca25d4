"""Sessions that live in memory: from Anthropic-shaped messages, and derived from another session."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from context_tui.session.facts import Facts, RecordKind, Role
from context_tui.session.session import Message, Session, SessionInfo
from context_tui.session.validation import validate_messages


def get_blocks(message: Message) -> list[dict[str, Any]]:
    """The blocks of an Anthropic-shaped message; a plain string is one text block."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content or [] if isinstance(block, dict)]


def build_facts(messages: Iterable[Message]) -> Facts:
    """Facts of Anthropic-shaped messages, one record each."""
    facts = Facts()
    for number, message in enumerate(messages):
        index = facts.add_message(Role.ASSISTANT if message.get("role") == "assistant" else Role.USER)
        for block in get_blocks(message):
            facts.add_block(index, block)
        facts.add_record(number, 0, RecordKind.MESSAGE, index)
    return facts


class MemoryContent:
    """Content of a session whose messages are at hand."""

    def __init__(self, messages: list[Message], system: str = "", tools: list[dict[str, Any]] | None = None) -> None:
        self._messages, self._system, self._tools = messages, system, tools or []

    def blocks(self, message: int) -> list[dict[str, Any]]:
        return [dict(block) for block in get_blocks(self._messages[message])]

    def raw(self, record: int) -> str:
        return repr(self._messages[record])

    def system(self) -> str:
        return self._system

    def tools(self) -> list[dict[str, Any]]:
        return self._tools

    def is_unchanged(self) -> bool:
        return True


def from_messages(messages: Iterable[Message]) -> Session:
    """A session of Anthropic-shaped messages (``role`` and ``content``).

    Raises:
        UnreadableSession: one of them is of another shape; the error names it by its number.
    """
    found = validate_messages(messages)
    return Session(build_facts(found), MemoryContent(found), SessionInfo("", "messages"), len(found))
