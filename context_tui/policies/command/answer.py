"""Reading and checking of a program's answer: edits, or the messages that remain, as changes to a context."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeGuard

from context_tui.compaction.apply import replace_entries
from context_tui.compaction.changes import Change, build_input_body, build_removal
from context_tui.compaction.plan import Insert
from context_tui.policies.command.program import ProgramError
from context_tui.session.blocks import TEXT_MEMBERS, get_text
from context_tui.session.context import Body
from context_tui.session.facts import Facts
from context_tui.session.values import Kind
from context_tui.text.sanitize import sanitize_line, truncate_name

Block = dict[str, Any]
SUMMARY_PLACE = "{summary}"
"""Place of the summary in the text of an inserted message that has ``"summary": true``."""


@dataclass
class ContextCopy:
    """A copy of the context as the program knows it.

    Attributes:
        order: numbers of the messages, or inserts of the last answer, which have no numbers yet.
        rows, blocks: the block rows of each message, and its blocks as the program knows them.
        names: numbers of inserted messages, keyed by the program's id for them or else by role and text.
    """

    facts: Facts
    order: list[int | Insert] = field(default_factory=list)
    roles: dict[int, str] = field(default_factory=dict)
    rows: dict[int, list[int]] = field(default_factory=dict)
    blocks: dict[int, list[Block]] = field(default_factory=dict)
    names: dict[Hashable, int] = field(default_factory=dict)
    pending: list[tuple[Hashable, Block]] = field(default_factory=list)

    def bind_inserts(self, facts: Facts, order: list[int]) -> bool:
        """Assign numbers to the inserts of the last answer, or return False if *order* does not begin with the copy."""
        if len(order) < len(self.order):
            return False
        self.facts = facts  # those that include the inserts
        pending = iter(self.pending)
        for place, entry in enumerate(self.order if self.pending else ()):
            if isinstance(entry, Insert):
                name, block = next(pending)
                number = order[place]
                if number in self.rows:
                    return False
                self.order[place] = self.names[name] = number
                self.roles[number], self.blocks[number] = entry.role, [block]
                self.rows[number] = list(self.facts.blocks_of(number))
        self.pending = []
        return self.order == order[: len(self.order)]


class AnswerReader:
    """Converts an answer to changes keyed by block row, dropped positions and inserts, and applies these to the copy.

    If the answer is invalid, raises ProgramError, which names the message at fault, and leaves the copy unchanged.
    """

    def __init__(self, copy: ContextCopy, policy: str) -> None:
        self._copy, self._policy = copy, policy
        self._new_blocks: dict[int, list[Block | None]] = {}
        self.changes: dict[int, Change] = {}
        self.dropped: set[int] = set()
        self.inserts: list[Insert] = []
        self._pending: list[tuple[Hashable, Block]] = []

    @cached_property
    def _position_of(self) -> dict[int | Insert, int]:
        return {number: place for place, number in enumerate(self._copy.order)}

    def read(self, answer: Mapping[str, Any]) -> None:
        """Read an answer with ``edits`` or ``messages``, or with neither, which changes nothing."""
        edits, messages = answer.get("edits"), answer.get("messages")
        if unknown := set(answer) - {"edits", "messages", "reason"}:
            raise ProgramError(f"unknown key {_show(min(unknown))} in its answer; use edits, messages and reason")
        for name, value in (("edits", edits), ("messages", messages)):
            if value is not None and not is_list_of_objects(value):
                raise ProgramError(f"{name} is not a list of objects")
        if edits and messages is not None:
            raise ProgramError("it gives both edits and messages; give one of them")
        for edit in edits or ():
            self._read_edit(edit)
        if messages is not None:
            self._read_messages(messages)
        if self.dropped or self.changes:
            self._check_pairs()
        if self.dropped or self.changes or self.inserts:
            self._update_copy()

    # Edits

    def _read_edit(self, edit: Block) -> None:
        kinds = [kind for kind in ("drop", "clear", "remove", "insert") if kind in edit]
        allowed = {"drop": {"to"}, "clear": {"block", "text", "input"}, "remove": {"block"}, "insert": {"before"}}
        if len(kinds) != 1 or set(edit) - allowed[kinds[0]] - {kinds[0]}:
            raise ProgramError(f"{_show(edit)} is not an edit; see docs/policy-command.md")
        kind = kinds[0]
        if kind == "insert":
            before = edit.get("before")
            self._insert(edit["insert"], len(self._copy.order) if before is None else self._find_place(before))
            return
        place = self._find_place(edit[kind])
        if kind == "drop":
            end = self._find_place(edit.get("to", edit["drop"])) + 1
            if end <= place:
                raise ProgramError(f"{_show(edit)} ends before it starts")
            self.dropped.update(range(place, end))
            return
        number, ordinal = self._get_number(place), edit.get("block", 0)
        blocks = self._get_new_blocks(number)
        if type(ordinal) is not int or not 0 <= ordinal < len(blocks) or (block := blocks[ordinal]) is None:
            raise ProgramError(f"message {number:,} has no block {_show(ordinal)}")
        part = TEXT_MEMBERS.get(str(block.get("type")), "")
        new = None if kind == "remove" else {**block, part: edit.get("input" if part == "input" else "text")}
        self._change_block(number, ordinal, new)

    # Messages

    def _read_messages(self, messages: Sequence[Block]) -> None:
        place, order = 0, self._copy.order
        for message in messages:
            name = message.get("id")
            found = self._find_number(name if name is not None else _name_insert(message))
            if found is None and (name is None or isinstance(name, str)):
                self._insert(message, place)
                continue
            next_place = self._find_place(name if found is None else found)
            if next_place < place:
                raise ProgramError(f"message {_show(name)} comes twice, or after a later one")
            self.dropped.update(range(place, next_place))
            self._compare_message(self._get_number(next_place), message)
            place = next_place + 1
        self.dropped.update(range(place, len(order)))

    def _compare_message(self, number: int, message: Block) -> None:
        content, old = message.get("content"), self._copy.blocks[number]
        if content == old or "content" not in message:
            return
        new = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if message.get("role", self._copy.roles[number]) != self._copy.roles[number]:
            raise ProgramError(f"the role of message {number:,} is not the one that was sent")
        if not is_list_of_objects(new):
            raise ProgramError(f"the content of message {number:,} is neither text nor a list of blocks")
        at = 0
        for ordinal, block in enumerate(old):
            if at < len(new) and _is_same_block(block, new[at], exactly=len(new) != len(old)):
                self._change_block(number, ordinal, new[at])
                at += 1
            else:
                self._change_block(number, ordinal, None)
        if at < len(new):
            raise ProgramError(f"block {at} of message {number:,} is not one that was sent")

    # Changes

    def _find_number(self, name: object) -> int | None:
        number = self._copy.names.get(name) if isinstance(name, str | tuple) else None
        if number is None and type(name) is int:
            number = name
        return number if number in self._position_of else None

    def _find_place(self, name: object) -> int:
        number = self._find_number(name)
        if number is None:
            raise ProgramError(f"there is no message {_show(name)} in the context")
        return self._position_of[number]

    def _get_number(self, place: int) -> int:
        number = self._copy.order[place]
        assert isinstance(number, int)
        return number

    def _get_new_blocks(self, number: int) -> list[Block | None]:
        return self._new_blocks.setdefault(number, list(self._copy.blocks[number]))

    def _change_block(self, number: int, ordinal: int, new: Block | None) -> None:
        old, row = self._copy.blocks[number][ordinal], self._copy.rows[number][ordinal]
        if old == new:
            return
        place, facts = f"block {ordinal} of message {number:,}", self._copy.facts
        self._get_new_blocks(number)[ordinal] = new
        if new is None:
            self.changes[row] = build_removal(self._policy)
            return
        kind, before, value = str(old.get("type")), get_text(old), get_text(new)
        if kind not in TEXT_MEMBERS:
            raise ProgramError(f"{place} is of type {_show(kind)}, which can only be removed")
        if kind == "tool_use":
            if not isinstance(value, dict) or new.get("name") != old.get("name"):
                raise ProgramError(f"{place} is a call whose input is no object, or whose name was changed")
            body = build_input_body(facts, row, value)
        else:
            text = _join_text(value)
            if text is None:
                raise ProgramError(f"{place} is given no text")
            body = Body.from_text(text)
        if before != value:
            start = (body.text or "")[:16]
            is_start = bool(start) and isinstance(before, str) and before.startswith(start)
            self.changes[row] = Change("truncate" if is_start else "clear", body, self._policy)

    def _insert(self, message: object, place: int) -> None:
        text = _get_only_text(message) if isinstance(message, dict) else None
        if not isinstance(message, dict) or text is None or message.get("role") not in ("user", "assistant"):
            reason = "is no single text of user or assistant; calls and results must have been sent"
            raise ProgramError(f"a new message {reason}")
        prefix, mark, suffix = text.partition(SUMMARY_PLACE)
        holds_summary = message.get("summary") is True
        if holds_summary and not mark:
            raise ProgramError(f"a summary has no {SUMMARY_PLACE} in its text")
        prefix, suffix = (prefix, suffix) if holds_summary else (text, "")
        self.inserts.append(Insert(message["role"], place, prefix, suffix, holds_summary))
        name = message.get("id")
        self._pending.append((name if isinstance(name, str) else _name_insert(message), {"type": "text", "text": text}))

    def _check_pairs(self) -> None:
        """Check that no message becomes empty, and that no call loses its result or a result its call."""
        copy, facts = self._copy, self._copy.facts
        for number, blocks in self._new_blocks.items():
            if blocks and not any(blocks) and self._position_of[number] not in self.dropped:
                raise ProgramError(f"message {number:,} is left without blocks; drop it")
        removed = {row for row, change in self.changes.items() if change.body.removed}
        removed.update(row for place in self.dropped for row in copy.rows[self._get_number(place)])
        for row in removed:
            is_call = facts.kind[row] == Kind.TOOL_USE
            if is_call or facts.kind[row] == Kind.TOOL_RESULT:
                other = facts.find_tool_result(row) if is_call else facts.find_tool_use(row)
                owner = facts.block_message[other] if other >= 0 else -1
                if other >= 0 and other not in removed and owner in self._position_of and other in copy.rows[owner]:
                    lost_name, other_name = ("call", "result") if is_call else ("result", "call")
                    name = f"{lost_name} {truncate_name(sanitize_line(facts.call_id(row)))}"
                    place = f"message {facts.block_message[row]:,}, not the {other_name} in {owner:,}"
                    raise ProgramError(f"it drops the {name} in {place}")

    def _update_copy(self) -> None:
        copy = self._copy
        for number, blocks in self._new_blocks.items():
            rows = zip(copy.rows[number], blocks, strict=True)
            copy.rows[number] = [row for row, block in rows if block is not None]
            copy.blocks[number] = [block for block in blocks if block is not None]
        for place in self.dropped:
            number = self._get_number(place)
            del copy.rows[number], copy.blocks[number]
        copy.order = list(replace_entries(copy.order, self.dropped, self.inserts))
        sorted_pairs = sorted(zip(self.inserts, self._pending, strict=True), key=lambda pair: pair[0].position)
        copy.pending = [pending for _, pending in sorted_pairs]


def is_list_of_objects(value: object) -> TypeGuard[list[Block]]:
    """Return whether a value is a list that holds only JSON objects."""
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


def _name_insert(message: Block) -> Hashable:
    return str(message.get("role")), _get_only_text(message)


def _get_only_text(message: Block) -> str | None:
    content = message.get("content")
    text = content[0].get("text") if is_list_of_objects(content) and len(content) == 1 else content
    return text if isinstance(text, str) else None


def _is_same_block(old: Block, new: Block, *, exactly: bool) -> bool:
    """Return whether two blocks are the same, judged by id or kind or, for texts with *exactly*, by content."""
    kind = old.get("type")
    if kind != new.get("type"):
        return False
    if kind in ("tool_use", "tool_result"):
        name = "id" if kind == "tool_use" else "tool_use_id"
        return old.get(name) == new.get(name)
    return old == new or not exactly


def _join_text(value: object) -> str | None:
    if isinstance(value, str):
        return value
    if is_list_of_objects(value) and all(part.get("type") == "text" for part in value):
        return "".join(str(part.get("text") or "") for part in value)
    return None


def _show(value: object) -> str:
    return truncate_name(sanitize_line(repr(value)), 80)
