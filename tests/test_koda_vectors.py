"""koda's microcompact on koda's own rows: every vector as a real database, read through the format."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from context_tui.formats.base import scan
from context_tui.formats.kit.entry_scanner import EntryContent
from context_tui.formats.koda import KodaFormat
from context_tui.policies.builtin.koda import count_result_tokens
from context_tui.policies.planning import plan
from context_tui.session.session import Session
from context_tui.session.values import Kind

DATA = Path(__file__).parent / "data"
VECTORS = [
    json.loads(line)
    for name in ("vectors.jsonl", "edges.jsonl")
    for line in (DATA / name).read_text(encoding="utf-8").split("\n")
    if line
]
SCHEMA = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, created_at DATETIME, agent_name TEXT NOT NULL);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, role TEXT NOT NULL, content TEXT, tool_calls TEXT,
    tool_call_id TEXT, compacted_at TEXT, completed_at DATETIME, created_at DATETIME DEFAULT CURRENT_TIMESTAMP
);
"""


def database_of(rows: list[dict[str, Any]], path: Path) -> Path:
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(SCHEMA)
        database.execute("INSERT INTO sessions VALUES ('s', '2026-01-01 00:00:00', 'koda')")
        database.executemany(
            "INSERT INTO messages (id, session_id, role, content, tool_calls, tool_call_id, completed_at)"
            " VALUES (:id, 's', :role, :content, :tool_calls, :tool_call_id, '2026-01-01 00:00:01')",
            rows,
        )
    return path


def open_koda(path: Path) -> Session:
    form = KodaFormat()
    (info,) = form.list_sessions(path)
    return scan(form.make_scanner(path, info))


def results_and_records(session: Session) -> Iterator[tuple[int, int]]:
    """The tool_results of a session with the record of each: of a message of results, one a block."""
    facts = session.facts
    for message in range(len(session)):
        blocks, records = list(facts.blocks_of(message)), list(facts.iterate_records(message))
        if blocks and facts.kind[blocks[0]] == Kind.TOOL_RESULT:
            yield from zip(blocks, records, strict=True)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector["name"]))
def test_koda_microcompact(vector: dict[str, Any], tmp_path: Path) -> None:
    rows, gap, expect = vector["koda_rows"], vector["koda_gap_seconds"], vector["expect"]["koda_micro"]
    session = open_koda(database_of(rows, tmp_path / "koda.db"))
    facts = session.facts
    assert len(facts.record_kind) == len(rows)
    # No gap means that there is no reply to measure it from, whatever the rows hold: it never fires.
    made = plan(session, "koda-microcompact", idle_seconds=gap or 0)
    if expect is None:
        assert not made.has_changes
        return
    content = session.content
    assert isinstance(content, EntryContent)
    rows_of = {block: int(content.get_entry_id(record)) for block, record in results_and_records(session)}
    assert [rows_of[block] for block in made.changes] == expect["ids"]
    assert [count_result_tokens(made.context, block) for block in made.changes] == expect["tokens"]
    assert made.report == {"cleared": len(expect["ids"]), "tokens_saved": sum(expect["tokens"])}
