"""Write new koda databases with the tables for sessions, and copy a session's rows to one."""

from __future__ import annotations

import re
import sqlite3
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from context_tui.formats.kit.blocks import Block, build_text, format_arguments
from context_tui.formats.kit.databases import Database
from context_tui.formats.kit.entry_scanner import EntryContent
from context_tui.formats.kit.size_note import build_size_note
from context_tui.formats.kit.writing import convert_arguments, convert_body_to_text, count_injected_losses
from context_tui.formats.koda.reader import KodaSource
from context_tui.session import markers
from context_tui.session.facts import Usage
from context_tui.session.jsontext import compact_text
from context_tui.session.losses import Losses
from context_tui.session.memory import collect_usage
from context_tui.session.session import Message, Session
from context_tui.text.files import read_toml

TABLE_COLUMNS: dict[str, dict[str, str]] = read_toml("context_tui.formats.koda", "schema.toml")
"""Columns of each table, with their declarations."""
_FOREIGN_KEY = "FOREIGN KEY(session_id) REFERENCES sessions(id)"
_CONSTRAINTS = {
    "messages": {_FOREIGN_KEY: {"session_id"}},
    "session_metadata": {"PRIMARY KEY(session_id, key)": {"session_id", "key"}, _FOREIGN_KEY: {"session_id"}},
}
"""Table constraints, with the columns that each of them needs."""
BATCH_ROWS = 64


def format_schema(columns: Mapping[str, frozenset[str]] | None = None) -> str:
    """Return SQL statements that create all tables, or only the tables and columns in *columns* if given."""
    tables = []
    for table, declarations in TABLE_COLUMNS.items():
        names = declarations.keys() if columns is None else columns[table]
        declared = [f"{name} {declaration}" for name, declaration in declarations.items() if name in names]
        declared += [constraint for constraint, required in _CONSTRAINTS.get(table, {}).items() if required <= names]
        statement = f"CREATE TABLE {table} ({', '.join(declared)});"
        if declared:
            tables.append(statement if columns is None else statement.replace(" NOT NULL", ""))
    return "\n".join([*tables, "CREATE INDEX idx_messages_session_id ON messages(session_id);"])


def copy_rows(session: Session, path: Path) -> list[str] | None:
    """Copy a session's rows to a new database, and return notes, or None if it has no rows (see ``Format.copy``)."""
    content = session.content
    if not isinstance(content, EntryContent) or not isinstance(source := content.entry_pass.source, KodaSource):
        return None
    database, read_ids = source.database, content.entry_pass.ids[: len(content.entry_pass.checksums)]
    max_id = int(read_ids[-1]) if read_ids else -1
    columns = {table: database.list_columns(table) for table in TABLE_COLUMNS}
    unknown = sum(len(existing - TABLE_COLUMNS[table].keys()) for table, existing in columns.items())
    try:
        with closing(sqlite3.connect(path)) as copy, copy:
            copy.executescript(format_schema(columns))
            for table, declarations in TABLE_COLUMNS.items():
                names = [name for name in declarations if name in columns[table]]
                id_column = "id" if table == "sessions" else "session_id"
                if id_column in names:
                    _copy_table(database, copy, table, names, f"{id_column} = ?", source.session_id, max_id)
    except sqlite3.Error as error:
        raise OSError(str(error)) from None
    return [f"columns left out that koda is not known to have: {unknown:,}"] if unknown else []


def _copy_table(
    source: Database, copy: sqlite3.Connection, table: str, names: list[str], condition: str, session: str, max_id: int
) -> None:
    """Copy the rows of one session in a table, but no messages after *max_id*, the last id that was read."""
    # Text is read as bytes, so that invalid UTF-8 stays unchanged.
    value = "CASE typeof({0}) WHEN 'blob' THEN CAST({0} AS TEXT) ELSE {0} END"
    values, row = ", ".join(map(value.format, names)), ", ".join(f"? AS {name}" for name in names)
    insert = f"INSERT OR IGNORE INTO {table} ({', '.join(names)}) SELECT {values} FROM (SELECT {row})"
    select = f"SELECT {', '.join(names)} FROM {table} WHERE {condition}"
    if table != "messages":
        copy.executemany(insert, source.query(select, (session,)))
        return
    select, last_id = f"{select} AND id > ? AND id <= ? ORDER BY id LIMIT {BATCH_ROWS}", -1
    while batch := source.query(select, (session, last_id, max_id)):
        copy.executemany(insert, batch)
        last_id = batch[-1][0]


RowValues = dict[str, Any]

THINKING_TYPES = ("thinking", "redacted_thinking")
ASSISTANT_TYPES = ("text", "tool_use", *THINKING_TYPES)
USER_TYPES = ("text", "tool_result")
"""Types of blocks that a row can hold. Images become the text ``[image]``."""
JOINED_TEXTS = "messages whose texts were merged into one"
SUMMARY_MARKED = "summaries written as koda's system row, with koda's marker"

_LONE_SURROGATES = re.compile("[\ud800-\udfff]")

_INSERT = """
INSERT INTO messages (session_id, role, content, tool_calls, tool_call_id, thinking_content, prompt_tokens,
completion_tokens, cache_read_tokens, cache_creation_tokens, completed_at, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


def write_database(session: Session, path: Path) -> Losses:
    """Write a new database with the session's context, and return the losses."""
    losses = Losses()
    times = [time for time in session.facts.time if time >= 0]
    moment = datetime.fromtimestamp(times[-1] / 1000, UTC) if times else datetime.now(UTC)
    now, new_id = _format_time(moment), str(uuid.uuid4())
    cwd, title = map(_replace_surrogates, (session.info.cwd, session.info.title))
    try:
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("PRAGMA cache_size = -64")  # in KB; the operating system keeps the file at hand
            database.executescript(format_schema())
            columns = "id, created_at, agent_name, project_root, last_accessed_at, title"
            values = new_id, now, cwd or None, now, title or None
            database.execute(f"INSERT INTO sessions ({columns}) VALUES (?, ?, 'koda', ?, ?, ?)", values)
            rows = _iter_rows(session, losses)
            database.executemany(_INSERT, (_build_values(row, new_id, now, losses) for row in rows))
            notes = build_size_note(session.facts, losses).items()
            metadata = [(new_id, name, compact_text(note), now) for name, note in notes]
            database.executemany("INSERT INTO session_metadata VALUES (?, ?, ?, ?)", metadata)
    except sqlite3.Error as error:
        raise OSError(str(error)) from None  # as for any file, reported with the named path
    count_injected_losses(session, losses)
    if session.content.system() and not session.facts.system_records:
        losses.add_note("the system prompt is left out; koda adds its own")
    if session.content.tools():
        losses.add_note("the tool schemas are left out; koda adds its own")
    return losses


def _iter_rows(session: Session, losses: Losses) -> Iterator[RowValues]:
    context, usages, facts = session.context_at(), collect_usage(session), session.facts
    if facts.system_records and (system := session.content.system()):
        yield {"role": "system", "content": system}
    for index in context.order:
        (message,) = session.messages_in(context, (index,))
        *rows, last_row = _build_rows(message, losses)
        usage = _format_usage(usages[index]) if index in usages and last_row["role"] == "assistant" else {}
        for row in (*rows, last_row | usage):
            yield row | {"time": facts.time[index]}


def _build_values(row: RowValues, session_id: str, now: str, losses: Losses) -> tuple[Any, ...]:
    values = [row.get(name) for name in ("content", "tool_calls", "tool_call_id", "thinking_content")]
    texts = [_replace_surrogates(text) for text in values]
    replaced_count = sum(a != b for a, b in zip(values, texts, strict=True))
    losses.add("texts with lone surrogates, which were replaced", replaced_count)
    time = row.get("time", -1)
    created = _format_time(datetime.fromtimestamp(time / 1000, UTC)) if time >= 0 else now
    return (
        session_id,
        row["role"],
        *texts,
        *map(row.get, ("prompt_tokens", "completion_tokens", "cache_read_tokens", "cache_creation_tokens")),
        created if row["role"] == "assistant" else None,
        created,
    )


def _format_time(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S}"


def _format_usage(usage: Usage) -> RowValues:
    """Format usage for koda's columns. Prompt tokens include cached ones unless there are cache writes."""
    written = usage.cache_write_5m + usage.cache_write_1h
    return {
        "prompt_tokens": usage.fresh if written else usage.fresh + usage.cache_read,
        "completion_tokens": usage.output,
        "cache_read_tokens": usage.cache_read,
        "cache_creation_tokens": written,
    }


def _replace_surrogates(value: str | None) -> str | None:
    return value and _LONE_SURROGATES.sub("\ufffd", value)


def _build_rows(message: Message, losses: Losses) -> list[RowValues]:
    blocks: list[Block] = message["content"]
    if summary := _format_summary(blocks):
        losses.add(JOINED_TEXTS, len(blocks) > 1)
        if not str(blocks[0].get("text") or "").startswith(markers.KODA_SUMMARY):
            recorded = "".join(str(block.get("text") or "") for block in blocks)
            losses.replace(build_text(recorded), build_text(summary), SUMMARY_MARKED)
        return [{"role": "system", "content": summary}]
    by_assistant = message["role"] == "assistant"
    for block in blocks:
        if block.get("type") not in (ASSISTANT_TYPES if by_assistant else USER_TYPES):
            is_image = block.get("type") == "image"
            losses.omit("images left out" if is_image else "blocks left out that koda cannot hold", block)
    content = _join_texts(blocks, losses)
    if by_assistant:
        reply: RowValues = {"role": "assistant", "content": content}
        return [reply | _format_calls(blocks, losses) | _format_thinking(blocks, losses)]
    results: list[RowValues] = []
    for block in (block for block in blocks if block.get("type") == "tool_result"):
        call_id, text = str(block.get("tool_use_id") or ""), convert_body_to_text(block, losses)
        results.append({"role": "tool", "tool_call_id": call_id, "content": text})
    losses.add("results no longer marked as errors", sum(bool(block.get("is_error")) for block in blocks))
    losses.add("messages with results and text split into two", bool(results) and content is not None)
    return results if results and content is None else [*results, {"role": "user", "content": content}]


def _format_summary(blocks: list[Block]) -> str:
    texts = [str(block.get("text") or "") for block in blocks if block.get("type") == "text"]
    if len(texts) != len(blocks) or not texts:
        return ""
    body = "\n\n".join(texts)
    if body.startswith(markers.KODA_SUMMARY):
        return body
    is_summary = body.startswith((markers.DEFECT_SUMMARY, markers.SDK_SUMMARY, markers.CLAUDE_CODE_SUMMARY))
    return f"{markers.KODA_SUMMARY}\n\n{markers.strip_summary_marker(body)}" if is_summary else ""


def _join_texts(blocks: list[Block], losses: Losses) -> str | None:
    readable = [block for block in blocks if block.get("type") in ("text", "image")]
    texts = ["[image]" if block["type"] == "image" else str(block.get("text") or "") for block in readable]
    losses.add(JOINED_TEXTS, len(texts) > 1)
    return "\n\n".join(texts) if texts else None


def _format_calls(blocks: list[Block], losses: Losses) -> RowValues:
    calls = []
    for block in (block for block in blocks if block.get("type") == "tool_use"):
        call_id, name = str(block.get("id") or ""), str(block.get("name") or "")
        arguments = format_arguments(convert_arguments(block, losses))
        calls.append({"id": call_id, "function_name": name, "arguments": arguments})
    return {"tool_calls": compact_text(calls)} if calls else {}


def _format_thinking(blocks: list[Block], losses: Losses) -> RowValues:
    thoughts = [block for block in blocks if block.get("type") in THINKING_TYPES]
    texts = [text for block in thoughts if (text := str(block.get("thinking") or ""))]
    if any("signature" in block or block.get("type") == "redacted_thinking" for block in thoughts) or len(texts) > 1:
        losses.add("replies whose thinking lost its signature or its parts")
        for block in thoughts:
            losses.replace(block, {"type": "thinking", "thinking": block.get("thinking")})
    return {"thinking_content": "\n\n".join(texts)} if texts else {}
