"""opencode's messages one by one, and the compactions and reverts that follow from all of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from context_tui.formats.kit.entry_scanner import Entry, replace_compactions
from context_tui.formats.kit.message_builder import (
    MessageBuilder,
    MetadataRecord,
    ParsedRecord,
    group_records,
    list_cases,
)
from context_tui.formats.kit.values import parse_id, parse_time_ms, parse_usage_or_note
from context_tui.formats.opencode.parts import (
    find_compaction_part,
    get_call_state,
    is_summary,
    parse_message,
    parse_opencode_usage,
    parse_time,
)
from context_tui.session.facts import Compaction, Facts
from context_tui.session.jsontext import is_nested_deeper, loads
from context_tui.session.values import Spans

REVERTED_NOTE = "parts of this message that were reverted are left out: "
"""Begins a text that stands behind the parts of an entry, with how many there are."""


ParsedEntry = tuple[dict[str, Any], Sequence[Any], tuple[str, ...]]


class CompactionRequest(NamedTuple):
    """A user message that asks for a compaction: its messages, and where the tail begins that stays."""

    messages: range
    auto: bool
    tail_start: str


class CompactionSummary(NamedTuple):
    """A summary: its messages, the message that asked for it, and the tokens that it was made from."""

    messages: range
    parent: str
    tokens: int | None
    finished: bool


class OpencodeShape:
    """Messages with their parts: the texts of an entry are the body of the message and those of its parts."""

    def __init__(self) -> None:
        self._newest: tuple[Entry | None, ParsedEntry] = (None, ({}, (), ()))
        self._messages: dict[str, range] = {}
        self._created: list[int] = []  # of each message that says when, in the order of the session, never falling
        self._first_message: list[int] = []  # the first message of each of these
        self._compaction_requests: dict[str, CompactionRequest] = {}
        self._summaries: list[CompactionSummary] = []
        self._cleared_calls: list[tuple[int, str]] = []  # when, and the call

    def parse(self, entry: Entry) -> ParsedRecord:
        """Parse a message."""
        info, parts, notes = found = parse_entry(entry)
        self._newest = entry, found
        part = parse_message(info, parts)
        return group_records(*list_cases(part), MetadataRecord(notes=tuple(notes))) if notes else part

    def add_facts(self, entry: Entry, part: ParsedRecord, messages: range, builder: MessageBuilder) -> None:
        """Note when it was written, what it asks for or sums up, and which of its results were cleared."""
        newest, found = self._newest  # what was understood right before, if no text was read meanwhile
        info, parts, _ = found if newest is entry else parse_entry(entry)
        name = parse_id(info.get("id")) or entry.id
        self._messages[name] = messages
        if (created := parse_time(info, "created")) >= 0 and messages:
            self._created.append(max(created, self._created[-1] if self._created else 0))
            self._first_message.append(messages.start)
        if (asked := find_compaction_part(parts)) is not None and info.get("role") == "user":
            self._compaction_requests[name] = CompactionRequest(
                messages, asked.get("auto") is True, parse_id(asked.get("tail_start_id"))
            )
        if is_summary(info):
            usage, _ = parse_usage_or_note(parse_opencode_usage, info.get("tokens"))
            finished = bool(info.get("finish"))
            parent = parse_id(info.get("parentID"))
            self._summaries.append(CompactionSummary(messages, parent, usage.context if usage else None, finished))
        for each in parts:
            if isinstance(each, dict) and each.get("type") == "tool":
                times = get_call_state(each).get("time")
                when = parse_time_ms(times.get("compacted")) if isinstance(times, dict) else -1
                if when >= 0:
                    self._cleared_calls.append((when, parse_id(each.get("callID"))))

    def finish(self, about: Mapping[str, Any], builder: MessageBuilder) -> list[set[int]]:
        """Replace the compactions, in the order in which they happened; returns the reverted messages."""
        facts = builder.facts
        found = [*self._find_compactions(), *self._find_microcompactions(facts)]
        replace_compactions(facts, sorted(found, key=lambda each: (each.message, each.kind == "full")))
        return self._find_reverted(about.get("revert"), len(facts))

    def _find_compactions(self) -> Iterator[Compaction]:
        """Find full compactions: the request, the summary, and the tail that was kept; in old versions the summary
        alone.
        """
        for each in self._summaries:
            marker = self._compaction_requests.get(each.parent)
            if marker is None:
                if each.messages:
                    yield Compaction(each.messages.start, "full", None, each.tokens, Spans(each.messages))
            elif each.finished and each.messages:
                kept = self._messages.get(marker.tail_start, range(0))
                tail = range(kept.start, marker.messages.start) if kept else range(0)
                prefix = Spans(marker.messages, each.messages, tail)
                trigger = "auto" if marker.auto else "manual"
                yield Compaction(each.messages.start, "full", trigger, each.tokens, prefix)

    def _find_microcompactions(self, facts: Facts) -> Iterator[Compaction]:
        """Microcompactions: results that were cleared before the next message was begun are one."""
        found: dict[int, set[int]] = {}
        for when, call_id in self._cleared_calls:
            call = facts.call_row(call_id)
            row = facts.call_result[call] if call >= 0 else -1
            if row >= 0:
                place = bisect_right(self._created, when)
                at = self._first_message[place] if place < len(self._first_message) else len(facts)
                found.setdefault(max(at, facts.block_message[row] + 1), set()).add(row)
        for at, rows in found.items():
            yield Compaction(at, "micro", "auto", cleared_blocks=frozenset(rows))

    def _find_reverted(self, revert: Any, length: int) -> list[set[int]]:
        """Find the messages from the reverted one on; with a part named, those after it."""
        if not isinstance(revert, dict):
            return []
        at = self._messages.get(parse_id(revert.get("messageID")))
        if at is None:
            return []
        left = set(range(at.stop if revert.get("partID") else at.start, length))
        return [left] if left else []


def parse_entry(entry: Entry) -> ParsedEntry:
    """The body of a message, its parts, and what of them cannot be read.

    Raises:
        ValueError: the body is no object.
    """
    assert entry.texts is not None
    body, *texts = entry.texts
    info = loads(body)
    if not isinstance(info, dict):
        raise ValueError("not a JSON object")
    if is_nested_deeper(info):
        raise ValueError("nested too deeply")
    parts, notes = [], []
    for text in texts:
        if text.startswith(REVERTED_NOTE.encode()):
            notes.append(text.decode())
            continue
        try:
            part = loads(text)
        except ValueError as error:
            notes.append(f"a part that cannot be read: {error}")
            continue
        if is_nested_deeper(part):
            notes.append("a part that is nested too deeply")
        else:
            parts.append(part)
    return info, parts, tuple(notes)


def remove_reverted(parts: Sequence[tuple[str, bytes]], revert: Any) -> list[bytes]:
    """The texts of *parts*, given with their ids, up to the one that a session was taken back to."""
    named = revert.get("partID") if isinstance(revert, dict) else None
    ids = [name for name, _ in parts]
    cut = ids.index(named) if named and named in ids else len(parts)
    texts = [text for _, text in parts[:cut]]
    return texts if cut == len(parts) else [*texts, f"{REVERTED_NOTE}{len(parts) - cut:,}".encode()]
