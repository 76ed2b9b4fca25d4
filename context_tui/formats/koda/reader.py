"""Read the rows of koda's ``messages`` table, in any version of the schema, and infer the compactions.

A compaction stamps the rows that it archives and appends two rows: the summary, and a hint to continue. As requests
send rows in the order of their ids, the context after it is the remaining rows, the summary, and the hint.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from context_tui.errors import UnreadableSession
from context_tui.formats.kit.blocks import build_text, build_tool_result, build_tool_use, parse_arguments
from context_tui.formats.kit.databases import Database, decode_text, decode_value, encode_value
from context_tui.formats.kit.entry_scanner import Entry, EntryScanner, RowSource, replace_compactions
from context_tui.formats.kit.message_builder import MessageBuilder, MessageRecord, ParsedRecord
from context_tui.formats.kit.size_note import SIZE_NOTE, parse_size_note
from context_tui.formats.kit.values import parse_time_ms, parse_tokens, parse_usage_or_note
from context_tui.session.facts import Compaction, Facts, Usage, order_at
from context_tui.session.jsontext import is_nested_deeper, try_loads
from context_tui.session.markers import KODA_SUMMARY
from context_tui.session.session import SessionInfo
from context_tui.session.values import Kind, MessageFlag, Role, Spans

Stamp = tuple[int, str]


def find_compactions(facts: Facts, archived: Sequence[str | None]) -> list[Compaction]:
    """Return the compactions of a session. *archived* is the time at which each message was archived, or None."""
    stamps = {time: (parse_time_ms(time), time) for time in dict.fromkeys(archived) if time is not None}
    archive_stamps = [None if time is None else stamps[time] for time in archived]
    summaries = [m for m in range(len(facts)) if facts.flags[m] & MessageFlag.SUMMARY and facts.role[m] == Role.SYSTEM]
    compactions: list[Compaction] = []
    remaining, end = list[int](), 0
    for summary, stamp in zip(summaries, _match_stamps(summaries, archive_stamps), strict=True):
        inserted = range(summary, summary + 1 + _is_hint_next(facts, summary))
        prefix = Spans(range(inserted.stop))
        if stamp is not None:
            times = ((message, archive_stamps[message]) for message in (*remaining, *range(end, summary)))
            remaining, end = [message for message, time in times if time is None or time > stamp], summary
            prefix = Spans.from_numbers((*remaining, *inserted))
        compactions.append(Compaction(summary, "full", prefix=prefix))
    return compactions


def _match_stamps(summaries: Sequence[int], stamps: Sequence[Stamp | None]) -> list[Stamp | None]:
    """Return, for each summary, the stamp of the rows that its compaction archived, or None if it archived none.

    It is the latest stamp that only earlier rows have and that precedes the stamps of this and later summaries.
    """
    last_message_by_stamp = {stamp: message for message, stamp in enumerate(stamps) if stamp is not None}
    possible = sorted(last_message_by_stamp)
    matches: list[Stamp | None] = []
    for summary in reversed(summaries):
        end = start = len(possible)
        if (archived := stamps[summary]) is not None:
            end = start = bisect_left(possible, archived)
        while start and last_message_by_stamp[possible[start - 1]] >= summary:
            start -= 1
        del possible[start:end]  # they belong to no earlier summary either
        matches.append(possible[start - 1] if start else None)
        if start:
            del possible[start - 1 :]
    return matches[::-1]


def _is_hint_next(facts: Facts, summary: int) -> bool:
    """Return whether a hint follows a summary: an assistant message of text alone, without recorded usage."""
    hint = summary + 1
    if hint >= len(facts) or facts.role[hint] != Role.ASSISTANT:
        return False
    row = bisect_left(facts.request_message, hint)
    has_usage = row < len(facts.requests) and facts.request_message[row] == hint
    return not has_usage and all(facts.kind[block] == Kind.TEXT for block in facts.blocks_of(hint))


class KodaSource(RowSource):
    """The rows of one session in ``messages``, in any version of the schema. An entry's ``columns`` are its row."""

    def list_ids(self) -> list[str]:
        rows = self.database.query("SELECT id FROM messages WHERE session_id = ? ORDER BY id", (self.session_id,))
        if not all(isinstance(row[0], int) for row in rows):
            raise UnreadableSession(f"{self.path}: is damaged: the ids of its rows are no numbers")
        return [str(row[0]) for row in rows]

    def read_entries(self, ids: Sequence[str]) -> list[Entry]:
        """Return the rows with the given ids as entries. A row that is too large is measured without reading it."""
        entries = super().read_entries(ids)
        too_large = {each.id: self._measure(each.id) for each in entries if each.problem}
        return [each._replace(unread_bytes=too_large.get(each.id, 0)) for each in entries]

    def query_entries(self, ids: Sequence[str], max_value_bytes: int) -> dict[str, Entry]:
        rows = self.select_messages(KodaRow._fields, [*map(int, ids)], max_value_bytes)
        return {entry.id: entry for entry in map(build_entry, map(KodaRow._make, rows))}

    def read_metadata(self) -> Mapping[str, Any]:
        """Return the session's size note, if an export wrote one, by its name."""
        if not {"session_id", "key", "value"} <= self.database.list_columns("session_metadata"):
            return {}
        sql = "SELECT key, value FROM session_metadata WHERE session_id = ? AND key = ?"
        rows = self.database.query(sql, (self.session_id, SIZE_NOTE))
        return {decode_text(key): try_loads(decode_text(value)) for key, value in rows}

    def _measure(self, row_id: str) -> int:
        columns = self.columns.intersection(KodaRow._fields)
        return sum(self.database.measure_text("messages", name, int(row_id)) for name in columns)


def build_entry(row: KodaRow) -> Entry:
    """Return a row as an entry, whose texts are the content and the tool calls."""
    texts = (encode_value(value) for value in (row.content, row.tool_calls) if value is not None)
    return Entry(str(row.id), tuple(texts), columns=row)


class KodaShape:
    """Parser for rows of ``messages``. With *has_completion*, the schema marks complete replies."""

    entry_name = "row"

    def __init__(self, *, has_completion: bool) -> None:
        self._has_completion = has_completion
        self._archive_times: list[str | None] = []  # by message

    def parse(self, entry: Entry) -> MessageRecord:
        return parse_message_row(KodaRow._make(entry.columns), has_completion=self._has_completion)

    def add_facts(self, entry: Entry, parsed: ParsedRecord, messages: range, builder: MessageBuilder) -> None:
        """Record whether prompt tokens include cached ones, how many system prompts there are, and archive times."""
        assert isinstance(parsed, MessageRecord)
        row = KodaRow._make(entry.columns)
        if parsed.usage and parsed.usage.fresh != row.prompt_tokens:
            builder.facts.input_includes_cache = True
        if messages:
            times = self._archive_times
            archived = None if row.compacted_at is None else decode_text(row.compacted_at)
            times.append(times[-1] if times and times[-1] == archived else archived)  # one text for neighbours
        elif parsed.role == Role.SYSTEM:
            builder.facts.system_records += 1

    def finish(self, metadata: Mapping[str, Any], builder: MessageBuilder) -> list[set[int]]:
        facts = builder.facts
        facts.set_size_basis(parse_size_note(metadata))
        replace_compactions(facts, find_compactions(facts, self._archive_times))
        for message in order_at(facts, len(facts))[1]:
            if self._archive_times[message] is not None:  # archived for a summary that was deleted
                facts.flags[message] |= MessageFlag.NOT_SENT
        return []


def make_koda_scanner(database: Database, info: SessionInfo) -> EntryScanner:
    """Return a scanner of the session *info* in a database."""
    source = KodaSource(database, info.id)
    return EntryScanner(source, info, partial(KodaShape, has_completion="completed_at" in source.columns))


ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM, "tool": Role.USER}


class KodaRow(NamedTuple):
    """A row of ``messages``. Columns that an older schema lacks are None."""

    id: Any
    role: Any
    content: Any
    tool_calls: Any
    tool_call_id: Any
    prompt_tokens: Any
    completion_tokens: Any
    cache_read_tokens: Any
    cache_creation_tokens: Any
    thinking_content: Any
    compacted_at: Any
    completed_at: Any
    created_at: Any


def parse_message_row(row: KodaRow, *, has_completion: bool) -> MessageRecord:
    """Parse a row as a message. As in koda, an unknown role counts as the user.

    With *has_completion*, the schema marks complete replies, and any other reply is flagged as not sent, as in koda.
    """
    role = ROLES.get(decode_text(row.role), Role.USER)
    content = None if row.content is None else decode_text(row.content)
    time = parse_time_ms(decode_text(row.created_at))
    archived = None if row.compacted_at is None else decode_text(row.compacted_at)
    if decode_text(row.role) == "tool":
        call_id = f"row-{row.id}" if row.tool_call_id is None else decode_text(row.tool_call_id)
        block = build_tool_result(call_id, content or "")
        return MessageRecord(role, [block], has_results=True, time=time, result_group=archived)
    blocks = [] if content is None else [build_text(content)]
    if role == Role.SYSTEM:
        flags = MessageFlag.SUMMARY if (content or "").startswith(KODA_SUMMARY) else 0
        return MessageRecord(role, blocks, flags=flags, time=time, result_group=archived)
    if role == Role.USER:
        return MessageRecord(role, blocks, time=time, result_group=archived)
    calls, notes = _parse_calls(row)
    thinking = [{"type": "thinking", "thinking": decode_text(row.thinking_content)}] if row.thinking_content else []
    flags = MessageFlag.NOT_SENT if has_completion and row.completed_at is None else 0
    texts = blocks if content or not (calls or thinking) else []
    usage, unread = parse_usage_or_note(_parse_usage, row)
    reply, notes = [*thinking, *texts, *calls], (*notes, *unread)
    return MessageRecord(role, reply, flags=flags, time=time, usage=usage, result_group=archived, notes=notes)


def _parse_calls(row: KodaRow) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Return the tool calls of an assistant row, and notes. As in koda, an unreadable list is ignored."""
    if not row.tool_calls:
        return [], ()
    calls = try_loads(decode_text(row.tool_calls))
    if not isinstance(calls, list) or is_nested_deeper(calls):
        return [], ("its list of tool calls cannot be read",)
    blocks = []
    for number, call in enumerate(calls):
        if isinstance(call, dict):
            call_id = call["id"] if isinstance(call.get("id"), str) else f"row-{row.id}-call-{number}"
            name = next((call[key] for key in ("function_name", "name") if isinstance(call.get(key), str)), "")
            blocks.append(build_tool_use(call_id, name, parse_arguments(call.get("arguments"))))
    return blocks, ()


def _parse_usage(row: KodaRow) -> Usage | None:
    """Parse usage, which koda records as the provider reports it, or return None if there is none.

    Prompt tokens of Anthropic exclude cached tokens, those of other providers include them, and the row does not name
    the provider. Cache writes, or more cache reads than prompt tokens, indicate Anthropic.
    """
    if row.prompt_tokens is None:
        return None
    names = ("prompt_tokens", "cache_read_tokens", "cache_creation_tokens", "completion_tokens")
    prompt, read, written, output = (parse_tokens(decode_value(getattr(row, name)), name) for name in names)
    fresh = prompt if written or read > prompt else prompt - read
    return Usage(fresh, read, written, 0, output)
