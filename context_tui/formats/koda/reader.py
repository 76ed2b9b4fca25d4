"""Reader of rows of koda's ``messages`` table, in any version of the schema."""

from __future__ import annotations

from typing import Any, NamedTuple

from context_tui.formats.kit.databases import Database, decode_text
from context_tui.formats.kit.message_builder import MessageBuilder, MessageRecord, ParsedRecord
from context_tui.formats.kit.values import parse_arguments, parse_time_ms, parse_tokens, parse_usage_or_note
from context_tui.formats.koda.compactions import update_compactions
from context_tui.session.facts import Usage
from context_tui.session.jsontext import is_nested_deeper, loads
from context_tui.session.markers import KODA_SUMMARY
from context_tui.session.values import MessageFlag, Role


class KodaShape:
    """Rows of ``messages``, of any version of the schema."""

    session_column = "session_id"
    id_column = "id"

    def __init__(self, database: Database) -> None:
        self._database, columns = database, database.list_columns("messages")
        self._columns = columns.intersection(KodaRow._fields)
        self.select_sql = f"SELECT {format_column_list(columns)} FROM messages"
        self._has_completion = "completed_at" in columns
        self._archive_times: list[str | None] = []  # by message

    def parse_row(self, values: tuple[Any, ...]) -> KodaRow:
        """Convert a selected row."""
        return KodaRow(*values)

    def parse(self, row: KodaRow) -> ParsedRecord:
        """Parse a row."""
        return parse_message_row(row, has_completion=self._has_completion)

    def query_row_size(self, row_id: int) -> int:
        """Query the size of a row, in bytes, without reading it."""
        return sum(self._database.measure_text("messages", name, row_id) for name in self._columns)

    def format_row(self, row: KodaRow) -> str:
        """Return a row's texts."""
        return "\n".join(decode_text(value) for value in row.texts)

    def add_facts(self, row: KodaRow, message: int, usage: Usage | None, builder: MessageBuilder) -> None:
        """Record whether prompt tokens include cached ones, rows of the system prompt, and the archiving time."""
        if usage and usage.fresh != row.prompt_tokens:
            builder.facts.input_includes_cache = True
        if message < 0:
            builder.facts.system_records += 1
        elif message == len(self._archive_times):
            self._archive_times.append(None if row.compacted_at is None else decode_text(row.compacted_at))

    def finish(self, builder: MessageBuilder) -> None:
        """Infer the compactions from the archived rows."""
        update_compactions(builder.facts, self._archive_times)


ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM, "tool": Role.USER}


class KodaRow(NamedTuple):
    """Row of ``messages``; older schemas lack most columns, which are then NULL."""

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

    @property
    def size(self) -> int:
        """Size of the row's texts in bytes, as counted by the database."""
        return sum(len(_as_bytes(value)) for value in self.texts)

    @property
    def texts(self) -> list[Any]:
        """Texts of the row."""
        return [value for value in (self.content, self.tool_calls) if value is not None]


def format_column_list(columns: frozenset[str]) -> str:
    """Format the columns of :class:`KodaRow` for a SELECT from a table that may lack some."""
    return ", ".join(name if name in columns else f"NULL AS {name}" for name in KodaRow._fields)


def parse_message_row(row: KodaRow, *, has_completion: bool) -> MessageRecord:
    """Parse a row. koda treats an unknown role as the user's.

    With ``has_completion`` the schema marks replies as complete; incomplete ones are never sent.
    """
    role = ROLES.get(decode_text(row.role), Role.USER)
    content = None if row.content is None else decode_text(row.content)
    time = parse_time_ms(decode_text(row.created_at))
    archived = None if row.compacted_at is None else decode_text(row.compacted_at)
    if decode_text(row.role) == "tool":
        call_id = f"row-{row.id}" if row.tool_call_id is None else decode_text(row.tool_call_id)
        block = {"type": "tool_result", "tool_use_id": call_id, "content": content or ""}
        return MessageRecord(role, [block], has_results=True, time=time, result_group=archived)
    blocks = [] if content is None else [{"type": "text", "text": content}]
    if role == Role.SYSTEM:
        flags = MessageFlag.SUMMARY if (content or "").startswith(KODA_SUMMARY) else 0
        return MessageRecord(role, blocks, flags=flags, time=time, result_group=archived)
    if role == Role.USER:
        return MessageRecord(role, blocks, time=time, result_group=archived)
    calls, notes = _parse_calls(row)
    thinking = [{"type": "thinking", "thinking": decode_text(row.thinking_content)}] if row.thinking_content else []
    flags = MessageFlag.NOT_SENT if has_completion and row.completed_at is None else 0
    spoken = blocks if content or not (calls or thinking) else []
    usage, unread = parse_usage_or_note(_parse_usage, row)
    made, notes = [*thinking, *spoken, *calls], (*notes, *unread)
    return MessageRecord(role, made, flags=flags, time=time, usage=usage, result_group=archived, notes=notes)


def _parse_calls(row: KodaRow) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Parse the calls of an assistant row; an unreadable list is ignored, as koda does."""
    if not row.tool_calls:
        return [], ()
    try:
        calls = loads(decode_text(row.tool_calls))
    except ValueError:
        calls = None
    if not isinstance(calls, list) or is_nested_deeper(calls):
        return [], ("its list of tool calls cannot be read",)
    return [
        {
            "type": "tool_use",
            "id": call["id"] if isinstance(call.get("id"), str) else f"row-{row.id}-call-{number}",
            "name": _get_call_name(call),
            "input": parse_arguments(call.get("arguments")),
        }
        for number, call in enumerate(calls)
        if isinstance(call, dict)
    ], ()


def _get_call_name(call: dict[str, Any]) -> str:
    return next((call[key] for key in ("function_name", "name") if isinstance(call.get(key), str)), "")


def _parse_usage(row: KodaRow) -> Usage | None:
    """Parse recorded usage, as the provider reported it to koda.

    Anthropic's prompt tokens exclude cached tokens, those of other providers include them, and the row does not state
    the provider. Cache writes, or more cache reads than prompt tokens, indicate Anthropic.

    Raises:
        ValueError: a size is invalid; the message names it.
    """
    if row.prompt_tokens is None:
        return None
    names = ("prompt_tokens", "cache_read_tokens", "cache_creation_tokens", "completion_tokens")
    prompt, read, written, output = (parse_tokens(_as_number(getattr(row, name)), name) for name in names)
    fresh = prompt if written or read > prompt else prompt - read
    return Usage(fresh, read, written, 0, output)


def _as_number(value: Any) -> Any:
    """Convert a column's number; text in an untyped column is invalid."""
    return decode_text(value) if isinstance(value, bytes) else value


def _as_bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()
