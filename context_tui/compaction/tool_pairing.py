"""Find tool calls and results that lack their counterpart, and repair a history so that a provider accepts it.

Providers combine consecutive messages of one role, which therefore count as one message here. A provider accepts a call
only if the next user message has its result, and a result only there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple, TypeVar

from context_tui.session.blocks import body_to_text
from context_tui.session.jsontext import compact_text
from context_tui.session.losses import format_losses

Message = dict[str, Any]
Block = dict[str, Any]
T = TypeVar("T")

MISSING_RESULT_TEXT = "[no result was recorded for this tool call]"
"""Body of a result that ``repair`` adds."""
MISSING_START_TEXT = "[the conversation began before this point]"
"""Text of the user message that ``repair`` puts before a history that begins with the assistant."""
NOTE_CALLS_RENAMED = "calls given a new id, as theirs was missing or taken"
NOTE_RESULTS_AS_TEXT = "results without a call turned into text"
NOTE_RESULTS_ADDED = "placeholder results added for calls without one"
NOTE_MESSAGES_MERGED = "messages merged with the previous one of the same role"


class Orphan(NamedTuple):
    """A tool call without its result, or a result without its call, with its position."""

    kind: str
    message: int
    block: int
    call_id: str


class BlockPosition(NamedTuple):
    """The position of a block: the number of its message, and the number of the block in that message."""

    message: int
    block: int


class MessageSource(NamedTuple):
    """The origin of a repaired message and of each of its blocks in the given history, with None for new ones."""

    message: int | None
    blocks: list[BlockPosition | None]


class RepairedHistory(NamedTuple):
    """A repaired history: its messages, their sources, and notes that count the changes.

    Unchanged messages are the same objects as before.
    """

    messages: list[Message]
    sources: list[MessageSource]
    notes: Counter[str]


class _TracedMessage(NamedTuple):
    message: Message
    source: MessageSource

    @property
    def role(self) -> str:
        return str(self.message["role"])


_PlacedBlock = tuple[Block, BlockPosition | None]


def find_unpaired(messages: list[Message]) -> tuple[Orphan, ...]:
    """Find the calls without a result, except pending ones in the very last message, and the results without a call."""
    calls, results = list[Orphan](), list[Orphan]()
    open_calls: list[Orphan] = []  # of the previous assistant turn
    for role, places in groupby(iterate_block_positions(messages), key=itemgetter(0)):
        turn = [Orphan(kind, message, block, call_id) for _, kind, message, block, call_id in places if kind]
        if role == "assistant":
            open_calls = [orphan for orphan in turn if orphan.kind == "call"]
            results += [orphan for orphan in turn if orphan.kind == "result"]
            continue
        open_by_id = _stack_by_call_id([call.call_id for call in open_calls], open_calls)
        for result in turn:
            if result.kind == "call":
                calls.append(result)
            elif stack := open_by_id.get(result.call_id):
                stack.pop()
            else:
                results.append(result)
        unanswered = frozenset(chain.from_iterable(open_by_id.values()))
        calls += [call for call in open_calls if call in unanswered]
        open_calls = []
    last_nonblank = max((message for message, entry in enumerate(messages) if list_nonblank_blocks(entry)), default=0)
    calls += [call for call in open_calls if call.message != last_nonblank]
    return (*calls, *results)


def compare_orphans(
    before: list[Message], after: list[Message], renamed: Mapping[str, str] | None = None
) -> tuple[list[Orphan], list[Orphan]]:
    """Return the orphans in *after* in two lists: those with the kind and id of one in *before*, and new ones.

    *renamed* maps new ids in *after* to those in *before*.
    """
    counts_before = Counter((orphan.kind, orphan.call_id) for orphan in find_unpaired(before))
    inherited, introduced = list[Orphan](), list[Orphan]()
    for orphan in find_unpaired(after):
        key = (orphan.kind, (renamed or {}).get(orphan.call_id, orphan.call_id))
        (inherited if counts_before[key] > 0 else introduced).append(orphan)
        counts_before[key] -= 1
    return inherited, introduced


def _stack_by_call_id(call_ids: Sequence[str], entries: Sequence[T]) -> dict[str, list[T]]:
    """Return the entries of each call id, the first at the end, from where ``pop`` takes it."""
    stacks: dict[str, list[T]] = {}
    for call_id, entry in zip(reversed(call_ids), reversed(entries), strict=True):
        stacks.setdefault(call_id, []).append(entry)
    return stacks


def iterate_block_positions(messages: list[Message]) -> Iterator[tuple[str, str, int, int, str]]:
    """Yield the role, kind, message number, block number and call id of each block that is not blank."""
    kinds = {"tool_use": ("call", "id"), "tool_result": ("result", "tool_use_id")}
    for index, message in enumerate(messages):
        for number, block in enumerate(get_content_blocks(message)):
            if isinstance(block, dict) and not _is_blank(block):
                kind, key = kinds.get(block.get("type", ""), ("", ""))
                yield get_role(message), kind, index, number, str(block.get(key) or "")


def get_role(message: Message) -> str:
    """Return ``assistant`` for an assistant message, or else ``user``."""
    return "assistant" if message.get("role") == "assistant" else "user"


def get_content_blocks(message: Message) -> list[Any]:
    """Return a message's blocks. A string counts as one text block."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content if isinstance(content, list) else []


def list_nonblank_blocks(message: Message) -> list[Block]:
    """Return a message's blocks without blank texts."""
    return [block for block in get_content_blocks(message) if isinstance(block, dict) and not _is_blank(block)]


def _is_blank(block: Block) -> bool:
    return block.get("type") == "text" and not str(block.get("text") or "").strip()


def assign_unique_ids(messages: list[Message]) -> tuple[list[Message], dict[str, str]]:
    """Give each call a unique id. Return the messages, and a mapping of new ids to the original ones.

    Recordings of several runs may repeat ids, which providers refuse. The second call with an id and its result then
    get a new id derived from the old one. Unchanged messages are the same objects as before.
    """
    present = {call_id for _, kind, _, _, call_id in iterate_block_positions(messages) if kind}
    assigned: set[str] = set()
    suffixes: dict[str, int] = {}
    renamed: dict[str, str] = {}
    ids: dict[tuple[int, int], str] = {}
    old_ids, new_ids = list[str](), list[str]()  # of the calls in the previous assistant turn
    for role, turn in groupby(iterate_block_positions(messages), key=itemgetter(0)):
        new_by_old, old_ids, new_ids = _stack_by_call_id(old_ids, new_ids), [], []
        for _, kind, message, block, old_id in turn:
            if kind == "call" and role == "assistant":
                new_id = _make_unique_id(old_id, assigned, present, suffixes)
                old_ids.append(old_id)
                new_ids.append(new_id)
            elif kind == "result" and role == "user" and (stack := new_by_old.get(old_id)):
                new_id = stack.pop()
            else:
                continue
            if new_id != old_id:
                ids[message, block], renamed[new_id] = new_id, old_id
    changed = {message for message, _ in ids}
    return [_rename_call_ids(m, at, ids) if at in changed else m for at, m in enumerate(messages)], renamed


def _rename_call_ids(message: Message, at: int, ids: dict[tuple[int, int], str]) -> Message:
    content = list(message["content"])
    for number, block in enumerate(content):
        if new_id := ids.get((at, number)):
            content[number] = {**block, "id" if block.get("type") == "tool_use" else "tool_use_id": new_id}
    return {**message, "content": content}


def _make_unique_id(call_id: str, assigned: set[str], present: set[str], suffixes: dict[str, int]) -> str:
    """Return *call_id* if it is free, else an id with the next free number after the last one in *suffixes*."""
    new_id, number = call_id, suffixes.get(call_id, 1)
    while not new_id or new_id in assigned or (new_id != call_id and new_id in present):
        number += 1
        new_id = f"{call_id}-{number}" if call_id else f"call-{number - 1}"
    suffixes[call_id] = number
    assigned.add(new_id)
    return new_id


def repair(messages: list[Message]) -> tuple[list[Message], list[str]]:
    """Return a history that a provider accepts, and notes that count the changes.

    In it, roles alternate and the user begins; no message or text is blank; each call has a unique id; and its result
    is at the start of the next message. Missing results are added as labelled errors, and results without a call become
    labelled text. The input is not modified, and unchanged messages are the same objects.
    """
    repaired = _repair_history(messages)
    return repaired.messages, format_losses(repaired.notes)


def _repair_history(
    messages: list[Message], unmerged: Collection[int] = (), *, keeps_pending: bool = False
) -> RepairedHistory:
    notes = Counter[str]()
    unique_messages, renamed = assign_unique_ids(messages)
    notes[NOTE_CALLS_RENAMED] = len(renamed)
    entries = _remove_blanks(_trace_messages(unique_messages), notes)
    history = _ensure_user_first(_merge_same_roles(entries, notes), notes)
    needs_answer = bool(history) and history[-1].role == "assistant" and not keeps_pending
    if needs_answer and any(block.get("type") == "tool_use" for block in list_nonblank_blocks(history[-1].message)):
        history.append(_build_user_message([]))
    for position, entry in enumerate(history):
        if entry.role == "assistant":
            following = history[position + 1] if position + 1 < len(history) else None
            history[position], answers = _answer_calls(entry, following, notes)
            if following is not None:
                history[position + 1] = answers
        elif position == 0:
            history[0] = _answer_calls(_build_user_message([]), entry, notes)[1]
    if unmerged:
        history = _split_merged_messages(history, {entry.source.message: entry for entry in entries}, unmerged, notes)
    return _build_repaired_history(history, +notes)


def _trace_messages(messages: list[Message]) -> list[_TracedMessage]:
    counts = enumerate(len(get_content_blocks(message)) for message in messages)
    sources = (MessageSource(at, [BlockPosition(at, number) for number in range(count)]) for at, count in counts)
    return list(map(_TracedMessage, messages, sources))


def _split_merged_messages(
    history: list[_TracedMessage],
    originals: Mapping[int | None, _TracedMessage],
    unmerged: Collection[int],
    notes: Counter[str],
) -> list[_TracedMessage]:
    """Split the *unmerged* messages from those that they were merged with, except between a call and its result.

    An added result moves to a new message directly after its call.
    """

    def get_unmerged_number(placed: _PlacedBlock) -> int:
        place = placed[1]
        return place.message if place and place.message in unmerged else -1

    split_history: list[_TracedMessage] = []
    for position, entry in enumerate(history):
        pieces = [list(piece) for _, piece in groupby(_list_placed_blocks(entry), key=get_unmerged_number)]
        if len(pieces) < 2:
            split_history.append(entry)
            continue
        following = history[position + 1] if position + 1 < len(history) else None
        new = [block for block, place in (_list_placed_blocks(following) if following else ()) if place is None]
        added = {block.get("tool_use_id"): block for block in new if block.get("type") == "tool_result"}
        uses_by_piece = ([block for block, _ in piece if block.get("type") == "tool_use"] for piece in pieces[:-1])
        calls_by_piece = [[str(block.get("id")) for block in uses] for uses in uses_by_piece]
        calls_by_piece.append([])  # the results of the last piece follow in the next message
        moved_calls = {call for calls in calls_by_piece for call in calls}
        if following is not None and not moved_calls <= added.keys():
            split_history.append(entry)
            continue
        notes[NOTE_MESSAGES_MERGED] -= len(pieces) - 1
        for piece, calls in zip(pieces, calls_by_piece, strict=True):
            number = next((place.message for _, place in piece if place), None)
            split_history.append(_replace_blocks(originals.get(number, entry), piece))
            if calls:
                results = [added[call] if call in added else _build_missing_result(call, notes) for call in calls]
                split_history.append(_build_user_message(results))
        if following is not None and moved_calls:
            placed = _list_placed_blocks(following)
            remaining = [(block, at) for block, at in placed if at or block.get("tool_use_id") not in moved_calls]
            history[position + 1] = _replace_blocks(following, remaining)
    return [entry for entry in split_history if get_content_blocks(entry.message)]


def _build_repaired_history(history: list[_TracedMessage], notes: Counter[str]) -> RepairedHistory:
    return RepairedHistory([entry.message for entry in history], [entry.source for entry in history], notes)


def _build_user_message(blocks: list[Block]) -> _TracedMessage:
    return _TracedMessage({"role": "user", "content": blocks}, MessageSource(None, [None] * len(blocks)))


def _list_placed_blocks(entry: _TracedMessage) -> list[_PlacedBlock]:
    pairs = zip(get_content_blocks(entry.message), entry.source.blocks, strict=True)
    return [(block, place) for block, place in pairs if isinstance(block, dict) and not _is_blank(block)]


def _replace_blocks(entry: _TracedMessage, placed: list[_PlacedBlock]) -> _TracedMessage:
    is_same = [block for block, _ in placed] == list_nonblank_blocks(entry.message)
    return entry if is_same else _with_blocks(entry, placed)


def _with_blocks(entry: _TracedMessage, placed: list[_PlacedBlock]) -> _TracedMessage:
    source = MessageSource(entry.source.message, [place for _, place in placed])
    return _TracedMessage({**entry.message, "content": [block for block, _ in placed]}, source)


def repair_minimally(messages: list[Message], unmerged: Collection[int] = ()) -> RepairedHistory:
    """Repair a history with as few changes as possible so that a provider accepts it.

    Consecutive messages of one role are merged only if pairs are broken, or a block stands between a call and its
    result; *unmerged* messages, given by their numbers, only if they stand between a call and its result. The ids must
    be those of :func:`assign_unique_ids`. Calls in the very last message stay pending.
    """
    notes = Counter[str]()
    history = _ensure_user_first(_remove_blanks(_trace_messages(messages), notes), notes)
    repaired = _build_repaired_history(history, notes)
    if find_unpaired(repaired.messages) or _has_late_results(repaired.messages):
        return _repair_history(messages, unmerged, keeps_pending=True)
    return repaired


def repair_orphans(messages: list[Message], orphans: Iterable[Orphan]) -> RepairedHistory:
    """Repair the given orphans, and change nothing else.

    A result becomes labelled text. A call by the assistant gets a labelled result, after the other results in the next
    user message or, if there is none, in a new message before the very last one. A call in a user message stays.
    """
    notes = Counter[str]()
    texts = {(orphan.message, orphan.block) for orphan in orphans if orphan.kind == "result"}
    calls: dict[int, list[str]] = {}
    for orphan in orphans:
        if orphan.kind == "call":
            calls.setdefault(orphan.message, []).append(orphan.call_id)
    history: list[_TracedMessage] = []
    missing_results: list[_PlacedBlock] = []  # for calls of the assistant's turn
    last_nonblank = 0  # index of the last message that is not blank
    for at, entry in enumerate(_trace_messages(messages)):
        message, source = entry
        is_blank, is_user = not list_nonblank_blocks(message), get_role(message) == "user"
        placed: list[_PlacedBlock] = []
        for block, place in zip(get_content_blocks(message), source.blocks, strict=True):
            placed += _convert_result_to_text(block, notes) if place in texts else [(block, place)]
        changed = any(place in texts for place in source.blocks)
        if missing_results and is_user and not is_blank:
            index = max((n + 1 for n, (block, _) in enumerate(placed) if block.get("type") == "tool_result"), default=0)
            placed[index:index], missing_results, changed = missing_results, [], True
        if changed:
            entry = _with_blocks(entry, placed)
        if not is_user:
            missing_results += [(_build_missing_result(call_id, notes), None) for call_id in calls.get(at, ())]
        last_nonblank = last_nonblank if is_blank else len(history)
        history.append(entry)
    if missing_results:  # before the very last message, whose calls are pending
        history.insert(last_nonblank, _build_user_message([block for block, _ in missing_results]))
    return _build_repaired_history(history, notes)


def _remove_blanks(messages: list[_TracedMessage], notes: Counter[str]) -> list[_TracedMessage]:
    """Remove blank texts and empty messages, and set the role of each message to user or assistant."""
    history: list[_TracedMessage] = []
    for entry in messages:
        message, source = entry
        role, placed, content = get_role(message), _list_placed_blocks(entry), message.get("content")
        if not placed:
            notes["empty messages left out"] += 1
            continue
        if message.get("role") != role:
            entry = _TracedMessage({**message, "role": role}, source)
        if isinstance(content, list) and len(content) != len(placed):
            entry = _with_blocks(entry, placed)
            notes["empty texts left out"] += len(content) - len(placed)
        history.append(entry)
    return history


def _has_late_results(messages: list[Message]) -> bool:
    """Return whether a result follows another block within messages of one role, which providers refuse."""
    for _, turn in groupby(iterate_block_positions(messages), key=itemgetter(0)):
        results = [kind == "result" for _, kind, *_ in turn]
        if any(results[results.index(False) :] if False in results else ()):
            return True
    return False


def _merge_same_roles(messages: list[_TracedMessage], notes: Counter[str]) -> list[_TracedMessage]:
    history: list[_TracedMessage] = []
    for _, neighbours in groupby(messages, key=attrgetter("role")):
        first, *others = group = list(neighbours)
        if others:
            first = _replace_blocks(first, list(chain.from_iterable(map(_list_placed_blocks, group))))
            notes[NOTE_MESSAGES_MERGED] += len(others)
        history.append(first)
    return history


def _ensure_user_first(messages: list[_TracedMessage], notes: Counter[str]) -> list[_TracedMessage]:
    if messages and messages[0].role == "assistant":
        notes["user messages added at the start"] += 1
        return [_build_user_message([{"type": "text", "text": MISSING_START_TEXT}]), *messages]
    return messages


def _answer_calls(
    assistant: _TracedMessage, user: _TracedMessage | None, notes: Counter[str]
) -> tuple[_TracedMessage, _TracedMessage]:
    """Pair the calls of an assistant message with the results in the next user message; return both messages."""
    assistant_blocks: list[_PlacedBlock] = []
    results: list[tuple[int, _PlacedBlock]] = []  # by number in the user message, added ones last
    user_blocks = _list_placed_blocks(user) if user is not None else []
    answers = [(number, block) for number, (block, _) in enumerate(user_blocks) if block.get("type") == "tool_result"]
    answered_ids = [str(block.get("tool_use_id") or "") for _, block in answers]
    unused = _stack_by_call_id(answered_ids, [number for number, _ in answers])
    for block, place in _list_placed_blocks(assistant):
        if block.get("type") == "tool_result":
            assistant_blocks += _convert_result_to_text(block, notes)
            continue
        assistant_blocks.append((block, place))
        if block.get("type") != "tool_use":
            continue
        call_id = str(block.get("id") or "")
        if stack := unused.get(call_id):
            number = stack.pop()
            results.append((number, user_blocks[number]))
        elif user is not None:
            results.append((len(user_blocks), (_build_missing_result(call_id, notes), None)))
    result_numbers = {number for number, _ in results}
    other_blocks: list[_PlacedBlock] = []
    for number, (block, place) in enumerate(user_blocks):
        if number in result_numbers:
            continue
        match block.get("type"):
            case "tool_result":
                other_blocks += _convert_result_to_text(block, notes)
            case "tool_use":
                other_blocks.append(({"type": "text", "text": f"[tool call by the user] {compact_text(block)}"}, None))
                notes["calls in user messages turned into text"] += 1
            case _:
                other_blocks.append((block, place))
    ordered = [result for _, result in sorted(results, key=itemgetter(0))]
    count = len(user_blocks)
    first_other = next((number for number in range(count) if number not in result_numbers), count)
    if any(first_other < number < count for number in result_numbers):
        notes["user messages reordered to begin with their results"] += 1
    answered = _replace_blocks(user or _build_user_message([]), [*ordered, *other_blocks])
    return _replace_blocks(assistant, assistant_blocks), answered


def _build_missing_result(call_id: str, notes: Counter[str]) -> Block:
    notes[NOTE_RESULTS_ADDED] += 1
    return {"type": "tool_result", "tool_use_id": call_id, "content": MISSING_RESULT_TEXT, "is_error": True}


def _convert_result_to_text(result: Block, notes: Counter[str]) -> list[_PlacedBlock]:
    """Convert a result without its call to a labelled text block; images follow as blocks of their own."""
    notes[NOTE_RESULTS_AS_TEXT] += 1
    label, body = "tool error" if result.get("is_error") else "tool result", result.get("content")
    parts = body if isinstance(body, list) else []
    images = [part for part in parts if isinstance(part, dict) and part.get("type") == "image"]
    text = f"[{label} without its call, id {result.get('tool_use_id') or ''}]\n{body_to_text(body)}"
    return [(block, None) for block in ({"type": "text", "text": text}, *images)]
