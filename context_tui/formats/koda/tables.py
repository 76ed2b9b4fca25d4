"""koda's session tables, created in a new database, with the rows of one session copied to it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from context_tui.formats.kit.databases import Database
from context_tui.formats.kit.row_scanner import RowContent
from context_tui.session.session import Session

TABLE_COLUMNS = {
    "sessions": {
        "id": "TEXT PRIMARY KEY",
        "created_at": "DATETIME DEFAULT CURRENT_TIMESTAMP",
        "agent_name": "TEXT NOT NULL",
        "project_root": "TEXT",
        "last_accessed_at": "TEXT",
        "title": "TEXT",
        "mode": "TEXT",
    },
    "messages": {
        "id": "INTEGER PRIMARY KEY AUTOINCREMENT",
        "session_id": "TEXT NOT NULL",
        "role": "TEXT NOT NULL",
        "content": "TEXT",
        "full_content": "TEXT",
        "tool_calls": "TEXT",
        "tool_call_id": "TEXT",
        "prompt_tokens": "INTEGER",
        "completion_tokens": "INTEGER",
        "cache_read_tokens": "INTEGER",
        "cache_creation_tokens": "INTEGER",
        "thinking_tokens": "INTEGER",
        "thinking_content": "TEXT",
        "agent_name": "TEXT",
        "compacted_at": "TEXT",
        "completed_at": "DATETIME",
        "created_at": "DATETIME DEFAULT CURRENT_TIMESTAMP",
    },
    "session_metadata": {
        "session_id": "TEXT NOT NULL",
        "key": "TEXT NOT NULL",
        "value": "TEXT NOT NULL",
        "updated_at": "DATETIME DEFAULT CURRENT_TIMESTAMP",
    },
}
"""Columns of each table, with their declarations. koda's database has other tables, one of which holds API keys."""
_FOREIGN_KEY = "FOREIGN KEY(session_id) REFERENCES sessions(id)"
_CONSTRAINTS = {
    "messages": {_FOREIGN_KEY: {"session_id"}},
    "session_metadata": {"PRIMARY KEY(session_id, key)": {"session_id", "key"}, _FOREIGN_KEY: {"session_id"}},
}
"""Table constraints, with the columns that each needs."""
BATCH_ROWS = 64
"""Rows copied at once."""


def format_schema(columns: Mapping[str, frozenset[str]] | None = None) -> str:
    """Format the statements that create the tables: all of them, or with the columns and gaps of a database.

    Args:
        columns: The columns of each table of that database.
    """
    tables = []
    for table, declarations in TABLE_COLUMNS.items():
        names = declarations.keys() if columns is None else columns[table]
        declared = [f"{name} {declaration}" for name, declaration in declarations.items() if name in names]
        declared += [constraint for constraint, needed in _CONSTRAINTS.get(table, {}).items() if needed <= names]
        statement = f"CREATE TABLE {table} ({', '.join(declared)});"
        if declared:
            tables.append(statement if columns is None else statement.replace(" NOT NULL", ""))
    return "\n".join([*tables, "CREATE INDEX idx_messages_session_id ON messages(session_id);"])


def copy_rows(session: Session, path: Path) -> list[str] | None:
    """Write a database with the rows of *session* in all tables of sessions.

    Returns:
        Notes on what is left out; None for a session that was not read from a database.

    Raises:
        OSError: the database cannot be written.
    """
    if not isinstance(session.content, RowContent):
        return None
    rows = session.content.rows
    columns = {table: rows.database.list_columns(table) for table in TABLE_COLUMNS}
    unknown = sum(len(existing - TABLE_COLUMNS[table].keys()) for table, existing in columns.items())
    try:
        with closing(sqlite3.connect(path)) as copied, copied:
            copied.executescript(format_schema(columns))
            for table, declarations in TABLE_COLUMNS.items():
                names = [name for name in declarations if name in columns[table]]
                whose = "id" if table == "sessions" else "session_id"
                if whose in names:
                    _copy_table(rows.database, copied, table, names, f"{whose} = ?", rows.session, rows.last)
    except sqlite3.Error as error:
        raise OSError(str(error)) from None
    return [f"columns left out that koda is not known to have: {unknown:,}"] if unknown else []


def _copy_table(
    source: Database, copied: sqlite3.Connection, table: str, names: list[str], condition: str, session: str, last: int
) -> None:
    """Copy the rows of one session from a table; of messages only those up to the id *last*, which were read."""
    # Text is read as bytes, so that invalid UTF-8 stays unchanged.
    value = "CASE typeof(?{0}) WHEN 'blob' THEN CAST(?{0} AS TEXT) ELSE ?{0} END"
    values = ", ".join(value.format(number) for number in range(1, len(names) + 1))
    insert = f"INSERT OR IGNORE INTO {table} ({', '.join(names)}) VALUES ({values})"
    select = f"SELECT {', '.join(names)} FROM {table} WHERE {condition}"
    if table != "messages":
        copied.executemany(insert, source.query(select, (session,)))
        return
    for batch in _read_batches(
        source, f"{select} AND id > ? AND id <= ? ORDER BY id LIMIT {BATCH_ROWS}", session, last
    ):
        copied.executemany(insert, batch)


def _read_batches(source: Database, select: str, session: str, last: int) -> Iterator[list[tuple[Any, ...]]]:
    last_id = -1
    while batch := source.query(select, (session, last_id, last)):
        yield batch
        last_id = batch[-1][0]
