"""Small histories for worked examples of policies, and what to look at in a plan and in what it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import context_tui as ct
from context_tui.compaction.plan import Plan
from context_tui.session.session import Session
from tests.formats.recordings import Recording, call, result, text, usage

Message = dict[str, Any]
Place = tuple[int, int]
"""Number of a message, ordinal of a block in it."""

SUMMARY = "What was done before."
"""The summary that is handed in wherever one is wanted."""

_ids = count()


def typed(words: str = "go on") -> list[Message]:
    """What a person typed: the start of a turn."""
    return [{"role": "user", "content": [text(words)]}]


def spoke(words: str = "ok") -> list[Message]:
    """A reply without calls."""
    return [{"role": "assistant", "content": [text(words)]}]


def used(*bodies: Any, tool: str = "Read", **arguments: Any) -> list[Message]:
    """One reply with a call for each of *bodies*, and the message with their results."""
    names = [f"call-{next(_ids)}" for _ in bodies]
    results = [result(name, body) for name, body in zip(names, bodies, strict=True)]
    calls = [call(name, tool, **arguments) for name in names]
    return [{"role": "assistant", "content": calls}, {"role": "user", "content": results}]


def rounds(number: int, size: int, tool: str = "Read") -> list[Message]:
    """So many calls, each with a result of so many characters: two messages each."""
    return [message for _ in range(number) for message in used("x" * size, tool=tool)]


def told(*parts: list[Message]) -> Session:
    """A session of these messages, in which nothing is recorded."""
    return ct.from_messages([message for part in parts for message in part])


def conversation_of(sizes: Sequence[int]) -> list[Message]:
    """Texts of so many characters, by the user and the assistant in turn; each is made of a letter of its own."""
    bodies = (chr(ord("a") + number % 26) * size for number, size in enumerate(sizes))
    parts = (spoke(body) if number % 2 else typed(body) for number, body in enumerate(bodies))
    return [message for part in parts for message in part]


def conversation(sizes: Sequence[int]) -> Session:
    """A session of nothing but :func:`conversation_of` these sizes."""
    return told(conversation_of(sizes))


def recorded(folder: Path, tokens: int, *parts: list[Message], fresh: int | None = None, output: int = 0) -> Session:
    """A Claude Code session in which each request has a recorded context of *tokens*.

    Args:
        fresh: how many of them are neither read from the cache nor written to it; by default all.
    """
    new = tokens if fresh is None else fresh
    read = (tokens - new) // 2
    use = usage(new, read, tokens - new - read, output)
    recording = Recording()
    for message in [message for part in parts or (typed(), spoke("")) for message in part]:
        if message["role"] == "assistant":
            recording.assistant(*message["content"], use=use)
        elif any(block["type"] == "tool_result" for block in message["content"]):
            recording.results(*message["content"])
        else:
            recording.user(message["content"])
    return ct.open_session(recording.write(folder, f"{next(_ids)}.jsonl"))


def bodies_changed(plan: Plan) -> list[Place]:
    """The blocks that get another body."""
    return [(edit.message, edit.block) for edit in plan.edits if edit.block is not None]


def messages_gone(plan: Plan) -> list[int]:
    """The messages that go as a whole, summarised or not."""
    return [edit.message for edit in plan.edits if edit.block is None]


def body(messages: list[Message], place: Place) -> str:
    """The text of a tool_result."""
    content = messages[place[0]]["content"][place[1]]["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def words_of(message: Message) -> str:
    """All texts of a message."""
    return "".join(block.get("text", "") for block in message["content"])


def roles(messages: list[Message]) -> list[str]:
    """Who speaks, message by message."""
    return [message["role"] for message in messages]


def left_by(session: Session, plan: Plan) -> list[Message]:
    """The history after *plan*, with :data:`SUMMARY` where it wants one."""
    return ct.apply(session, plan, summary=SUMMARY).to_messages()


def checked_range(session: Session, plan: Plan, boundary: int) -> list[Message]:
    """What is left by a plan that puts a summary in place of all messages before *boundary*: the tail is as it was."""
    assert plan.boundary == boundary and messages_gone(plan) == list(range(boundary))
    left = left_by(session, plan)
    before = session.to_messages()
    kept = len(before) - boundary
    assert kept == 0 or any(left[at : at + kept] == before[boundary:] for at in range(len(left)))
    return left


def fires(session: Session, policy: str, window: int | None = None) -> bool:
    """Whether the trigger of a policy holds at the end of a session."""
    return ct.plan(session, policy, window=window).trigger.fires
