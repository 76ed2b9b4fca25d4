"""Tool pairing: which calls and results of a history lack their counterpart, and making it one a provider accepts.

Consecutive messages of one role count as one, as providers combine them. Within that, every call of an assistant is
answered in the user message right behind it, and nowhere else.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

from context_tui.losses import losses_in
from context_tui.session.bodies import body_text
from context_tui.session.jsontext import compact_text

Message = dict[str, Any]
Block = dict[str, Any]
T = TypeVar("T")

NO_RESULT = "[no result was recorded for this tool call]"
"""Body of a result that ``repair`` adds."""
NO_START = "[the conversation began before this point]"
"""Text of the user message that ``repair`` puts before a history that begins with the assistant."""
RENAMED = "calls given a new id, as theirs was missing or taken"
BECAME_TEXT = "results without a call turned into text"
ADDED = "placeholder results added for calls without one"


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
    for role, places in groupby(places_of(messages), key=lambda place: place[0]):
        turn = [Orphan(kind, message, block, call_id) for _, kind, message, block, call_id in places if kind]
        if role == "assistant":
            open_calls = [orphan for orphan in turn if orphan.kind == "call"]
            results += [orphan for orphan in turn if orphan.kind == "result"]
            continue
        waiting = _queues((call.call_id, call) for call in open_calls)
        for result in turn:
            if result.kind == "call":
                calls.append(result)
            elif of_id := waiting.get(result.call_id):
                of_id.popleft()
            else:
                results.append(result)
        unanswered = frozenset(call for of_id in waiting.values() for call in of_id)
        calls += [call for call in open_calls if call in unanswered]
        open_calls = []
    last = max((message for message, entry in enumerate(messages) if nonblank_blocks(entry)), default=0)
    calls += [call for call in open_calls if call.message != last]
    return Pairs(tuple(calls), tuple(results))


def compare(
    before: list[Message], after: list[Message], renamed: Mapping[str, str] | None = None
) -> tuple[list[Orphan], list[Orphan]]:
    """The orphans of *after*: those inherited from *before* (same kind and id there), and those introduced.

    Args:
        renamed: ids that calls of *after* have now, with those that they had before.
    """
    had, has = problems(before), problems(after)
    known = Counter((orphan.kind, orphan.call_id) for orphan in (*had.orphan_calls, *had.orphan_results))
    inherited: list[Orphan] = []
    introduced: list[Orphan] = []
    for orphan in (*has.orphan_calls, *has.orphan_results):
        key = (orphan.kind, (renamed or {}).get(orphan.call_id, orphan.call_id))
        (inherited if known[key] > 0 else introduced).append(orphan)
        known[key] -= 1
    return inherited, introduced


def _queues(entries: Iterable[tuple[str, T]]) -> dict[str, deque[T]]:
    """What there is of each id, in order: ids may come again, and each answer takes the first that waits."""
    found: dict[str, deque[T]] = {}
    for call_id, entry in entries:
        found.setdefault(call_id, deque()).append(entry)
    return found


def places_of(messages: list[Message]) -> list[tuple[str, str, int, int, str]]:
    """Role, kind, message, block and call id of every block that is not blank; what is blank is as good as absent."""
    kinds = {"tool_use": ("call", "id"), "tool_result": ("result", "tool_use_id")}
    places = []
    for index, message in enumerate(messages):
        for number, block in enumerate(content_of(message)):
            if isinstance(block, dict) and not _blank(block):
                kind, key = kinds.get(block.get("type", ""), ("", ""))
                places.append((role_of(message), kind, index, number, str(block.get(key) or "")))
    return places


def role_of(message: Message) -> str:
    """Whose message it is: what is no assistant's is a user's."""
    return "assistant" if message.get("role") == "assistant" else "user"


def content_of(message: Message) -> list[Any]:
    """The blocks as they stand; a string is one text block."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content if isinstance(content, list) else []


def nonblank_blocks(message: Message) -> list[Block]:
    """The blocks that are not blank."""
    return [block for block in content_of(message) if isinstance(block, dict) and not _blank(block)]


def _blank(block: Block) -> bool:
    return block.get("type") == "text" and not str(block.get("text") or "").strip()


def unique_ids(messages: list[Message]) -> tuple[list[Message], dict[str, str]]:
    """The messages with an id of its own for each call, and each new id with the one it stands for.

    Recordings of several runs count calls anew in each, and providers refuse a second call with an id. It gets one made
    from the old one, as does the result that answers it. Messages that need nothing are the same objects.
    """
    places = places_of(messages)
    present = {call_id for _, kind, _, _, call_id in places if kind}
    seen: set[str] = set()
    tried: dict[str, int] = {}
    renamed: dict[str, str] = {}
    ids: dict[tuple[int, int], str] = {}
    waiting: dict[str, deque[str]] = {}  # new ids by the old one, of the assistant turn before
    for role, turn in groupby(places, key=lambda place: place[0]):
        if role == "assistant":
            waiting = {}
        for _, kind, message, block, old in turn:
            if kind == "call" and role == "assistant":
                new = _fresh(old, seen, present, tried)
                waiting.setdefault(old, deque()).append(new)
            elif kind == "result" and role == "user" and waiting.get(old):
                new = waiting[old].popleft()
            else:
                continue
            if new != old:
                ids[message, block], renamed[new] = new, old
    changed = {message for message, _ in ids}
    return [_renamed(m, at, ids) if at in changed else m for at, m in enumerate(messages)], renamed


def _renamed(message: Message, at: int, ids: dict[tuple[int, int], str]) -> Message:
    content = list(message["content"])
    for number, block in enumerate(content):
        if new := ids.get((at, number)):
            content[number] = {**block, "id" if block.get("type") == "tool_use" else "tool_use_id": new}
    return {**message, "content": content}


def _fresh(call_id: str, seen: set[str], present: set[str], tried: dict[str, int]) -> str:
    """*call_id* if no earlier call has it, else the next one made from it that nothing in the history has.

    Args:
        tried: per id, the last number that was looked at; none before it is free.
    """
    new, number = call_id, tried.get(call_id, 1)
    while not new or new in seen or (new != call_id and new in present):
        number += 1
        new = f"{call_id}-{number}" if call_id else f"call-{number - 1}"
    tried[call_id] = number
    seen.add(new)
    return new


def repair(messages: list[Message], *, keep_pending: bool = False) -> tuple[list[Message], list[str]]:
    """A history that a provider accepts, and notes on what was changed for it, each with how often.

    Roles alternate and the user begins; no message or text is blank; each call has an id of its own and its result in
    the next message, before anything else there. Missing results are added as labelled errors, results without a call
    become labelled text. The input is not changed, and messages that need nothing are passed on as they are.

    Args:
        messages: the history.
        keep_pending: leave calls of the very last message unanswered, where the history will be continued by a runtime.
    """
    notes = Counter[str]()
    history, renamed = unique_ids(messages)
    notes[RENAMED] = len(renamed)
    history = _user_first(_alternating(_without_blanks(history, notes), notes), notes)
    if history and history[-1]["role"] == "assistant" and _calls(history[-1]) and not keep_pending:
        history.append({"role": "user", "content": []})
    for position, message in enumerate(history):
        if message["role"] == "assistant":
            following = history[position + 1] if position + 1 < len(history) else None
            history[position], answers = _answered(message, following, notes)
            if following is not None:
                history[position + 1] = answers
        elif position == 0:
            history[0] = _answered({"content": []}, message, notes)[1]
    return history, losses_in(+notes)


def repair_minimally(messages: list[Message]) -> tuple[list[Message], list[str]]:
    """The least that makes a history one that a provider accepts, and notes on it.

    Neighbours of one role stay apart, as providers take them, unless pairs are broken or something is said between a
    call and its result: that needs :func:`repair`. Ids are taken for those that :func:`unique_ids` gave. Calls of the
    very last message stay pending.
    """
    notes = Counter[str]()
    history = _user_first(_without_blanks(messages, notes), notes)
    if problems(history) or _results_late(history):
        return repair(messages, keep_pending=True)
    return history, losses_in(notes)


def repair_orphans(messages: list[Message], orphans: Iterable[Orphan]) -> tuple[list[Message], list[str]]:
    """The messages with these orphans mended and all else as it was, and notes on it.

    A result becomes labelled text in its place. A call gets a labelled result in the user message behind it, behind the
    results there, or in a message of its own.
    """
    notes = Counter[str]()
    texts = {(orphan.message, orphan.block) for orphan in orphans if orphan.kind == "result"}
    missing: dict[int, list[Block]] = {}
    for orphan in orphans:
        if orphan.kind == "call":
            missing.setdefault(orphan.message, []).append(_no_result(orphan.call_id, notes))
    history: list[Message] = []
    due: list[Block] = []  # for calls of the message before
    for at, message in enumerate(messages):
        blocks = content_of(message)
        made = [
            part
            for number, block in enumerate(blocks)
            for part in (_as_text(block, notes) if (at, number) in texts else [block])
        ]
        if due and role_of(message) == "user":
            behind = max((n + 1 for n, block in enumerate(made) if block.get("type") == "tool_result"), default=0)
            made[behind:behind] = due
        elif due:
            history.append({"role": "user", "content": due})
        changed = bool(due and role_of(message) == "user") or len(made) != len(blocks) or made != blocks
        history.append({**message, "content": made} if changed else message)
        due = missing.get(at, [])
    return [*history, *([{"role": "user", "content": due}] if due else [])], losses_in(notes)


def _calls(message: Message) -> list[Block]:
    return [block for block in nonblank_blocks(message) if block.get("type") == "tool_use"]


def _without_blanks(messages: list[Message], notes: Counter[str]) -> list[Message]:
    """The messages without blank texts, and without those that are nothing else; the rest are the same objects."""
    history: list[Message] = []
    for message in messages:
        role, blocks, content = role_of(message), nonblank_blocks(message), message.get("content")
        if not blocks:
            notes["empty messages left out"] += 1
        elif isinstance(content, list) and len(content) != len(blocks):
            history.append({**message, "role": role, "content": blocks})
            notes["empty texts left out"] += len(content) - len(blocks)
        else:
            history.append(message if message.get("role") == role else {**message, "role": role})
    return history


def _results_late(messages: list[Message]) -> bool:
    """Whether a result stands behind anything else in its turn, which providers refuse."""
    for _, turn in groupby(places_of(messages), key=lambda place: place[0]):
        results = [kind == "result" for _, kind, *_ in turn]
        if any(results[results.index(False) :] if False in results else ()):
            return True
    return False


def _alternating(messages: list[Message], notes: Counter[str]) -> list[Message]:
    """The messages with neighbours of one role merged."""
    history: list[Message] = []
    for _, group in groupby(messages, key=lambda message: message["role"]):
        first, *others = group
        if others:
            blocks = [block for message in (first, *others) for block in nonblank_blocks(message)]
            first = {**first, "content": blocks}
            notes["messages merged with the previous one of the same role"] += len(others)
        history.append(first)
    return history


def _user_first(messages: list[Message], notes: Counter[str]) -> list[Message]:
    if messages and messages[0]["role"] == "assistant":
        notes["user messages added at the start"] += 1
        return [{"role": "user", "content": [{"type": "text", "text": NO_START}]}, *messages]
    return messages


def _answered(assistant: Message, user: Message | None, notes: Counter[str]) -> tuple[Message, Message]:
    """An assistant message, and the user message that answers exactly its calls."""
    spoken: list[Block] = []
    results: list[tuple[int, Block]] = []  # with their place among the given blocks, added ones behind
    given = nonblank_blocks(user) if user is not None else []
    unused = _queues(
        (str(block.get("tool_use_id") or ""), place)
        for place, block in enumerate(given)
        if block.get("type") == "tool_result"
    )
    for block in nonblank_blocks(assistant):
        if block.get("type") == "tool_result":
            spoken += _as_text(block, notes)
            continue
        spoken.append(block)
        if block.get("type") != "tool_use":
            continue
        call_id = str(block.get("id") or "")
        if of_id := unused.get(call_id):
            place = of_id.popleft()
            results.append((place, given[place]))
        elif user is not None:
            results.append((len(given), _no_result(call_id, notes)))
    places = {place for place, _ in results}
    rest: list[Block] = []
    for place, block in enumerate(given):
        match block.get("type"):
            case "tool_result" if place not in places:
                rest += _as_text(block, notes)
            case "tool_use":
                rest.append({"type": "text", "text": f"[tool call by the user] {compact_text(block)}"})
                notes["calls in user messages turned into text"] += 1
            case "tool_result":
                pass
            case _:
                rest.append(block)
    ordered = [result for _, result in sorted(results, key=lambda entry: entry[0])]
    said = min((place for place in range(len(given)) if place not in places), default=len(given))
    if any(said < place < len(given) for place in places):
        notes["user messages reordered to begin with their results"] += 1
    return _with(assistant, spoken), _with(user or {}, [*ordered, *rest])


def _with(message: Message, blocks: list[Block]) -> Message:
    """The message with these blocks; itself, when it has them already."""
    return message if blocks == nonblank_blocks(message) else {**message, "content": blocks}


def _no_result(call_id: str, notes: Counter[str]) -> Block:
    """A labelled result for a call that has none."""
    notes[ADDED] += 1
    return {"type": "tool_result", "tool_use_id": call_id, "content": NO_RESULT, "is_error": True}


def _as_text(result: Block, notes: Counter[str]) -> list[Block]:
    """A result without its call as labelled text; its images stay images."""
    call_id = str(result.get("tool_use_id") or "")
    notes[BECAME_TEXT] += 1
    label = "tool error" if result.get("is_error") else "tool result"
    body = result.get("content")
    parts = body if isinstance(body, list) else []
    images = [part for part in parts if isinstance(part, dict) and part.get("type") == "image"]
    return [{"type": "text", "text": f"[{label} without its call, id {call_id}]\n{body_text(body)}"}, *images]
