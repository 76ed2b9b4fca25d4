"""Read opencode's messages, and the compactions and reverts that they record."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from context_tui.formats.kit.entry_scanner import Entry, replace_compactions
from context_tui.formats.kit.line_scanner import parse_object
from context_tui.formats.kit.message_builder import (
    MessageBuilder,
    MetadataRecord,
    ParsedRecord,
    group_records,
    list_cases,
)
from context_tui.formats.kit.size_note import parse_size_note
from context_tui.formats.kit.values import as_object, parse_id, parse_usage_or_note
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
from context_tui.session.values import Kind, Spans

REVERTED_NOTE = "parts of this message that were reverted are left out: "
"""Start of the text that states how many parts were reverted; it follows the parts of an entry."""

MAX_STAMP_GAP_MS = 1_000
"""Maximum time (ms) between two stamps of one pruning, which saves each stamp before it sets the next."""

ParsedEntry = tuple[dict[str, Any], Sequence[Any], tuple[str, ...]]


class CompactionRequest(NamedTuple):
    """A request for a compaction: its messages, whether it was automatic, and the id of the first kept message."""

    messages: range
    auto: bool
    tail_start: str


class CompactionSummary(NamedTuple):
    """A summary: its messages, its request's id, the context before it in tokens, and whether it was finished."""

    messages: range
    parent: str
    tokens: int | None
    finished: bool


class OpencodeShape:
    """Parser for messages. The texts of an entry are the message's body, then its parts."""

    def __init__(self) -> None:
        self._newest: tuple[Entry | None, ParsedEntry] = (None, ({}, (), ()))
        self._messages: dict[str, range] = {}
        self._created: list[int] = []  # of each message with a time, in session order, never decreasing
        self._first_message: list[int] = []  # the first message built from each of these
        self._compaction_requests: dict[str, CompactionRequest] = {}
        self._summaries: list[CompactionSummary] = []
        self._cleared_results: list[tuple[int, int]] = []  # time of the clearing, and the row of the result

    def parse(self, entry: Entry) -> ParsedRecord:
        info, parts, notes = parsed = parse_entry(entry)
        self._newest = entry, parsed
        record = parse_message(info, parts)
        return group_records(*list_cases(record), MetadataRecord(notes=tuple(notes))) if notes else record

    def add_facts(self, entry: Entry, parsed_record: ParsedRecord, messages: range, builder: MessageBuilder) -> None:
        """Record a message's time, its role in a compaction, and which of its results were cleared."""
        newest, parsed = self._newest  # the newest result of parse(), if no text was read meanwhile
        info, parts, _ = parsed if newest is entry else parse_entry(entry)
        name = parse_id(info.get("id")) or entry.id
        self._messages[name] = messages
        if (created := parse_time(info, "created")) >= 0 and messages:
            self._created.append(max(created, self._created[-1] if self._created else 0))
            self._first_message.append(messages.start)
        if (request := find_compaction_part(parts)) is not None and info.get("role") == "user":
            auto, tail_start = request.get("auto") is True, parse_id(request.get("tail_start_id"))
            self._compaction_requests[name] = CompactionRequest(messages, auto, tail_start)
        if is_summary(info):
            usage, _ = parse_usage_or_note(parse_opencode_usage, info.get("tokens"))
            finished = bool(info.get("finish"))
            parent = parse_id(info.get("parentID"))
            self._summaries.append(CompactionSummary(messages, parent, usage.context if usage else None, finished))
        facts, rows_by_call = builder.facts, defaultdict[str, deque[int]](deque)  # a provider may repeat an id
        for row in (row for message in messages for row in facts.blocks_of(message)):
            if facts.kind[row] == Kind.TOOL_RESULT:
                rows_by_call[facts.call_id(row)].append(row)
        for members in map(as_object, parts):
            rows = rows_by_call[parse_id(members.get("callID"))] if members.get("type") == "tool" else None
            if rows and (time := parse_time(get_call_state(members), "compacted")) >= 0:
                self._cleared_results.append((time, rows[0]))
            if rows:
                rows.popleft()

    def finish(self, metadata: Mapping[str, Any], builder: MessageBuilder) -> list[set[int]]:
        """Record the compactions in order of time, and return the reverted messages as an abandoned branch."""
        facts = builder.facts
        compactions = [*self._find_compactions(), *self._find_microcompactions(facts)]
        replace_compactions(facts, sorted(compactions, key=lambda each: (each.message, each.kind == "full")))
        facts.set_size_basis(parse_size_note(metadata))
        return self._find_reverted(metadata.get("revert"), len(facts))

    def _find_compactions(self) -> Iterator[Compaction]:
        for summary in self._summaries:
            if (request := self._compaction_requests.get(summary.parent)) is None:
                if summary.messages:
                    yield Compaction(summary.messages.start, "full", None, summary.tokens, Spans(summary.messages))
            elif summary.finished and summary.messages:
                tail_messages = self._messages.get(request.tail_start, range(0))
                tail = range(tail_messages.start, request.messages.start) if tail_messages else range(0)
                prefix = Spans(request.messages, summary.messages, tail)
                trigger = "auto" if request.auto else "manual"
                yield Compaction(summary.messages.start, "full", trigger, summary.tokens, prefix)

    def _find_microcompactions(self, facts: Facts) -> Iterator[Compaction]:
        """Yield a microcompaction for each pruning, whose results opencode stamps in quick succession."""
        prunings: list[list[tuple[int, int]]] = []
        for time, row in sorted(self._cleared_results):
            if not prunings or time - prunings[-1][-1][0] > MAX_STAMP_GAP_MS:
                prunings.append([])
            prunings[-1].append((time, row))
        for pruning in prunings:
            rows = frozenset(row for _, row in pruning)
            place = bisect_right(self._created, pruning[0][0])
            start = self._first_message[place] if place < len(self._first_message) else len(facts)
            message = max(start, *(facts.block_message[row] + 1 for row in rows))
            yield Compaction(message, "micro", "auto", cleared_blocks=rows)

    def _find_reverted(self, revert: Any, length: int) -> list[set[int]]:
        """Return the reverted messages as one branch: from the named one on, or after it if a part is named."""
        revert = as_object(revert)
        messages = self._messages.get(parse_id(revert.get("messageID"))) if revert else None
        if messages is None:
            return []
        reverted = set(range(messages.stop if revert.get("partID") else messages.start, length))
        return [reverted] if reverted else []


def parse_entry(entry: Entry) -> ParsedEntry:
    """Decode an entry into the body of a message, its parts, and notes on unreadable parts."""
    body, *texts = entry.texts
    info = parse_object(body)
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
    """Return the texts of *parts* (ids and texts), or only those before a reverted part, with a note on the rest."""
    part_id = as_object(revert).get("partID")
    ids = [name for name, _ in parts]
    count = ids.index(part_id) if part_id and part_id in ids else len(parts)
    texts = [text for _, text in parts[:count]]
    return texts if count == len(parts) else [*texts, f"{REVERTED_NOTE}{len(parts) - count:,}".encode()]
