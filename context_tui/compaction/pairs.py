"""Pairs of tool calls and results: what is wrong with a history, and how to make it one that a provider accepts.

Consecutive messages of one role count as one, as providers combine them. Within that, every call of an assistant is
answered in the user message right behind it, and nowhere else.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from context_tui.session.jsontext import compact_json

Message = dict[str, Any]
Block = dict[str, Any]

NO_RESULT = "[no result was recorded for this tool call]"
"""Body of a result that ``repair`` adds."""

NO_START = "[the conversation began before this point]"
"""Text of the user message that ``repair`` puts before a history that begins with the assistant."""


class Orphan(NamedTuple):
    """A call without its result, or a result without its call; indexes count messages and the blocks in them."""

    kind: str
    message: int
    block: int
    call_id: str


@dataclass(frozen=True)
class Pairs:
    """What is unpaired in a history."""

    orphan_calls: tuple[Orphan, ...] = ()
    orphan_results: tuple[Orphan, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.orphan_calls or self.orphan_results)


def problems(messages: list[Message]) -> Pairs:
    """The calls and results without their counterpart. Calls of the very last message are pending, which is fine."""
    calls: list[Orphan] = []
    results: list[Orphan] = []
    open_calls: list[Orphan] = []  # of the assistant turn before
    for role, places in groupby(_places(messages), key=lambda place: place[0]):
        turn = [Orphan(kind, message, block, call_id) for _, kind, message, block, call_id in places if kind]
        if role == "assistant":
            open_calls = [orphan for orphan in turn if orphan.kind == "call"]
            results += [orphan for orphan in turn if orphan.kind == "result"]
            continue
        for result in turn:
            match = next((call for call in open_calls if call.call_id == result.call_id), None)
            if result.kind == "call" or match is None:
                (calls if result.kind == "call" else results).append(result)
            else:
                open_calls.remove(match)
        calls += open_calls
        open_calls = []
    last = max((message for message, entry in enumerate(messages) if _blocks(entry)), default=0)
    calls += [call for call in open_calls if call.message != last]
    return Pairs(tuple(calls), tuple(results))


def compare(before: list[Message], after: list[Message]) -> tuple[list[Orphan], list[Orphan]]:
    """The orphans of *after*: those inherited from *before* (same kind and id there), and those introduced."""
    had, has = problems(before), problems(after)
    known = Counter((orphan.kind, orphan.call_id) for orphan in (*had.orphan_calls, *had.orphan_results))
    inherited: list[Orphan] = []
    introduced: list[Orphan] = []
    for orphan in (*has.orphan_calls, *has.orphan_results):
        key = (orphan.kind, orphan.call_id)
        (inherited if known[key] > 0 else introduced).append(orphan)
        known[key] -= 1
    return inherited, introduced


def repair(messages: list[Message], *, keep_pending: bool = False) -> tuple[list[Message], list[str]]:
    """A history that a provider accepts, and a note on each thing that was changed for it.

    Roles alternate and the user begins; no message or text is blank; each call has an id of its own and its result in
    the next message, before anything else there. Missing results are added as labelled errors, results without a call
    become labelled text. The input is not changed, and messages that need nothing are passed on as they are.

    Args:
        messages: the history.
        keep_pending: leave calls of the very last message unanswered, where the history will be continued by a runtime.
    """
    notes: list[str] = []
    history = _alternating(messages, notes)
    if history and history[0]["role"] == "assistant":
        history.insert(0, {"role": "user", "content": [{"type": "text", "text": NO_START}]})
        notes.append("a user message was added at the start")
    if history and history[-1]["role"] == "assistant" and _calls(history[-1]) and not keep_pending:
        history.append({"role": "user", "content": []})
    seen: set[str] = set()
    for position, message in enumerate(history):
        if message["role"] == "assistant":
            following = history[position + 1] if position + 1 < len(history) else None
            history[position], answers = _answered(message, following, seen, notes)
            if following is not None:
                history[position + 1] = answers
        elif position == 0:
            history[0] = _answered({"content": []}, message, seen, notes)[1]
    return history, notes


def mend(messages: list[Message]) -> tuple[list[Message], list[str]]:
    """The least that makes a history one that a provider accepts: a user message in front, where it lacks one.

    Neighbours of one role stay apart, as providers take them; a history with broken pairs or blank text needs
    :func:`repair`. Calls of the very last message stay pending.
    """
    notes: list[str] = []
    history = list(messages)
    if history and _role(history[0]) == "assistant":
        history.insert(0, {"role": "user", "content": [{"type": "text", "text": NO_START}]})
        notes.append("a user message was added at the start")
    if problems(history) or any(len(_blocks(message)) != _count(message) for message in history):
        return repair(messages, keep_pending=True)
    return history, notes


def _count(message: Message) -> int:
    """Blocks of a message as they stand; an empty one counts, so that it is not taken for a whole one."""
    content = message.get("content")
    return len(content) or -1 if isinstance(content, list) else 1


def _places(messages: list[Message]) -> list[tuple[str, str, int, int, str]]:
    """Role, kind, message, block and call id of every block; empty messages are as good as absent."""
    kinds = {"tool_use": ("call", "id"), "tool_result": ("result", "tool_use_id")}
    places = []
    for index, message in enumerate(messages):
        for number, block in enumerate(_blocks(message)):
            kind, key = kinds.get(block.get("type", ""), ("", ""))
            places.append((_role(message), kind, index, number, str(block.get(key, ""))))
    return places


def _role(message: Message) -> str:
    return "assistant" if message.get("role") == "assistant" else "user"


def _blocks(message: Message) -> list[Block]:
    """The blocks that are not blank; a string is one text block."""
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return [b for b in blocks if isinstance(b, dict) and not _blank(b)] if isinstance(blocks, list) else []


def _blank(block: Block) -> bool:
    return block.get("type") == "text" and not str(block.get("text") or "").strip()


def _calls(message: Message) -> list[Block]:
    return [block for block in _blocks(message) if block.get("type") == "tool_use"]


def _alternating(messages: list[Message], notes: list[str]) -> list[Message]:
    """The messages without blanks, neighbours of one role merged; those that need nothing are the same objects."""
    history: list[Message] = []
    for index, message in enumerate(messages):
        role, blocks, content = _role(message), _blocks(message), message.get("content")
        if not blocks:
            notes.append(f"message {index} was empty and is left out")
        elif history and history[-1]["role"] == role:
            history[-1] = {**history[-1], "content": [*_blocks(history[-1]), *blocks]}
            notes.append(f"message {index} was merged into the {role} message before it")
        elif isinstance(content, list) and len(content) != len(blocks):
            history.append({**message, "role": role, "content": blocks})
            notes.append(f"empty text of message {index} is left out")
        else:
            history.append(message if message.get("role") == role else {**message, "role": role})
    return history


def _answered(assistant: Message, user: Message | None, seen: set[str], notes: list[str]) -> tuple[Message, Message]:
    """An assistant message whose calls have ids of their own, and the user message that answers exactly these."""
    spoken: list[Block] = []
    results: list[tuple[int, Block]] = []  # with their place among the given blocks, added ones behind
    given = _blocks(user) if user is not None else []
    unused = [block for block in given if block.get("type") == "tool_result"]
    for block in _blocks(assistant):
        if block.get("type") == "tool_result":
            spoken += _as_text(block, notes)
            continue
        spoken.append(block)
        if block.get("type") != "tool_use":
            continue
        old = str(block.get("id") or "")
        new = _fresh(old, seen)
        if new != block.get("id"):
            spoken[-1] = {**block, "id": new}
            notes.append(f"a second call with the id {old!r} is now {new!r}")
        result = next((r for r in unused if str(r.get("tool_use_id") or "") == old), None)
        if result is not None:
            unused = [r for r in unused if r is not result]
            place = next(place for place, block in enumerate(given) if block is result)
            results.append((place, result if result.get("tool_use_id") == new else {**result, "tool_use_id": new}))
        elif user is not None:
            added = {"type": "tool_result", "tool_use_id": new, "content": NO_RESULT, "is_error": True}
            results.append((len(given), added))
            notes.append(f"a result was added for the call {new!r}, which had none")
    rest: list[Block] = []
    for block in given:
        match block.get("type"):
            case "tool_result" if any(block is orphan for orphan in unused):
                rest += _as_text(block, notes)
            case "tool_use":
                rest.append({"type": "text", "text": f"[tool call by the user] {_json(block)}"})
                notes.append(f"the call {block.get('id', '')!r} of a user message became text")
            case "tool_result":
                pass
            case _:
                rest.append(block)
    ordered = [result for _, result in sorted(results, key=lambda entry: entry[0])]
    return _with(assistant, spoken), _with(user or {}, [*ordered, *rest])


def _with(message: Message, blocks: list[Block]) -> Message:
    """The message with these blocks; itself, when it has them already."""
    return message if blocks == _blocks(message) else {**message, "content": blocks}


def _fresh(call_id: str, seen: set[str]) -> str:
    """*call_id* if no earlier call has it, else the next free one made from it."""
    base, new, number = call_id or "call", call_id or "call", 2
    while new in seen:
        new, number = f"{base}-{number}", number + 1
    seen.add(new)
    return new


def _as_text(result: Block, notes: list[str]) -> list[Block]:
    """A result without its call as labelled text; its images stay images."""
    call_id = str(result.get("tool_use_id") or "")
    notes.append(f"the result for {call_id!r}, which has no call, became text")
    label = "tool error" if result.get("is_error") else "tool result"
    body = result.get("content", "")
    parts = body if isinstance(body, list) and all(isinstance(part, dict) for part in body) else []
    images = [part for part in parts if part.get("type") == "image"]
    if parts and all(part.get("type") in ("text", "image") for part in parts):
        body = "".join(str(part.get("text") or "") for part in parts)
    text = body if isinstance(body, str) else _json(body)
    return [{"type": "text", "text": f"[{label} without its call, id {call_id}]\n{text}"}, *images]


def _json(value: Any) -> str:
    return compact_json(value).decode("utf-8", "surrogatepass")
