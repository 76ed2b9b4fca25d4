"""`koda.db`: a koda database with three sessions, one of them compacted, and a table of keys that nobody may read."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from scripts.samples.ledger import IMPORTER, MODEL, README, TESTS, numbered

SCHEMA = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, created_at TEXT NOT NULL, agent_name TEXT NOT NULL, project_root TEXT,
    last_accessed_at TEXT);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL REFERENCES sessions(id),
    role TEXT NOT NULL, content TEXT, tool_calls TEXT, tool_call_id TEXT, prompt_tokens INTEGER,
    completion_tokens INTEGER, cache_read_tokens INTEGER, cache_creation_tokens INTEGER, thinking_tokens INTEGER,
    agent_name TEXT, compacted_at TEXT, completed_at TEXT, created_at TEXT NOT NULL);
CREATE INDEX idx_messages_session ON messages(session_id, id);
CREATE TABLE session_metadata (session_id TEXT NOT NULL, key TEXT NOT NULL, value TEXT,
    PRIMARY KEY (session_id, key));
CREATE TABLE owned_files (session_id TEXT NOT NULL, path TEXT NOT NULL, PRIMARY KEY (session_id, path));
CREATE TABLE kv_store (key TEXT PRIMARY KEY, value TEXT NOT NULL);
"""

ROOT = "/home/dev/ledger"
FAKE_KEY = "sk-FAKE-this-key-opens-nothing-0000000000000000"
"""Stands in for the keys that a real database holds; it must show up nowhere."""


@dataclass
class Chat:
    """One session while it is written."""

    db: sqlite3.Connection
    id: str
    now: datetime
    calls: int = 0
    context: float = 2_400.0
    rows: list[int] = field(default_factory=list)

    def begin(self, agent: str, title: str) -> None:
        """Write the session's own row."""
        stamp = self.stamp()
        self.db.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?)", (self.id, stamp, agent, ROOT, stamp))
        self.db.execute("INSERT INTO session_metadata VALUES (?, 'title', ?)", (self.id, title))

    def stamp(self) -> str:
        """The time as koda writes it."""
        return self.now.strftime("%Y-%m-%d %H:%M:%S")

    def row(self, role: str, content: str | None, after: float, **rest: object) -> int:
        """Append a row, some seconds after the last."""
        self.now += timedelta(seconds=after)
        values = {"session_id": self.id, "role": role, "content": content, "created_at": self.stamp(), **rest}
        names = ", ".join(values)
        marks = ", ".join("?" * len(values))
        cursor = self.db.execute(f"INSERT INTO messages ({names}) VALUES ({marks})", tuple(values.values()))
        self.context += len((content or "") + str(rest.get("tool_calls") or "")) / 3.6
        assert cursor.lastrowid is not None
        self.rows.append(cursor.lastrowid)
        return cursor.lastrowid

    def user(self, content: str, after: float = 40) -> None:
        """What a person typed."""
        self.row("user", content, after)

    def reply(self, content: str, *calls: tuple[str, dict[str, str], str]) -> None:
        """An answer with tool calls (name, arguments, result), and a row for each result."""
        rows = []
        for name, arguments, _ in calls:
            self.calls += 1
            arguments_text = json.dumps(arguments, ensure_ascii=False)
            rows.append(
                {"id": f"call_{self.id[:4]}_{self.calls:03}", "function_name": name, "arguments": arguments_text}
            )
        context = int(self.context)
        self.row(
            "assistant",
            content,
            7,
            tool_calls=json.dumps(rows, ensure_ascii=False) if rows else None,
            prompt_tokens=context,
            completion_tokens=20 + len(content) // 3,
            cache_read_tokens=context * 9 // 10,
            completed_at=(self.now + timedelta(seconds=7)).strftime("%Y-%m-%d %H:%M:%S"),
        )
        for call, (_, _, result) in zip(rows, calls, strict=True):
            self.row("tool", result, 1, tool_call_id=call["id"])

    def compact(self, summary: str, keep: int) -> None:
        """Archive all but the last rows, then append the summary and what the assistant is told."""
        old = self.rows[:-keep]
        self.now += timedelta(seconds=20)
        marks = ", ".join("?" * len(old))
        self.db.execute(f"UPDATE messages SET compacted_at = ? WHERE id IN ({marks})", (self.stamp(), *old))
        self.context = 3_000.0
        self.row("system", "[Compacted conversation summary]\n\n" + summary, 0)
        reply_text = "Your context was compacted. I have the summary above and continue from there."
        self.row("assistant", reply_text, 0, completed_at=self.stamp())


def build() -> bytes:
    """The database."""
    db = sqlite3.connect(":memory:")
    db.executescript(SCHEMA)
    _monthly(Chat(db, "5b1f0c9e-27d4-4a83-9d61-0e7a4c2f8b15", datetime(2026, 7, 3, 9, 14, 22)))
    _compacted(Chat(db, "c3a94d70-6e1b-4f58-8b02-d95e13a7f604", datetime(2026, 7, 9, 16, 31, 5)))
    _short(Chat(db, "e80d2f46-91c5-4b7a-a3fe-6c14b70d9e28", datetime(2026, 7, 10, 8, 0, 41)))
    db.execute("INSERT INTO kv_store VALUES ('api_key:example', ?)", (FAKE_KEY,))
    db.commit()
    data = bytearray(db.serialize())
    db.close()
    # The header names the SQLite that wrote it; that must not make two files differ.
    data[96:100] = (3_040_000).to_bytes(4, "big")
    return bytes(data)


def _read(path: str, body: str) -> tuple[str, dict[str, str], str]:
    return "Read", {"file_path": path}, numbered(body)


def _bash(command: str, out: str) -> tuple[str, dict[str, str], str]:
    return "Bash", {"command": command}, out


def _monthly(chat: Chat) -> None:
    chat.begin("default", "A report by month")
    chat.row(
        "system", "You are koda, a coding agent. (A sample of context-tui: written by hand, nobody's real work.)", 0
    )
    chat.user("The report shows one total. I want one line per month.", 1)
    chat.reply(
        "I'll read the model and the report.", _read("ledger/model.py", MODEL), _read("ledger/report.py", _REPORT)
    )
    chat.reply("", _bash("python -m ledger report", "total       1,234.50\n"), _read("tests/test_model.py", TESTS))
    chat.reply(
        "",
        ("Grep", {"pattern": "def total", "path": "."}, "ledger/report.py:8:def total(ledger: Ledger) -> Decimal:\n"),
    )
    chat.reply("", _read("ledger/importer.py", IMPORTER), _read("README.md", README), _bash("git log -8", _LOG))
    chat.reply("", _read("ledger/model.py", MODEL), _read("tests/test_importer.py", TESTS))
    edited = "<old>def total(ledger</old><new>def by_month(ledger</new>"
    chat.reply("", ("Edit", {"file_path": "ledger/report.py", "diff": edited}, "ok, 14 lines added"))
    chat.reply("", _bash("python -m pytest -q", "..........                         [100%]\n10 passed in 0.31s\n"))
    chat.reply("`python -m ledger report` prints a line per month now, oldest first, and the total last.")
    # Half an hour later: koda clears old results before it answers.
    chat.user("Months without an entry should be there too, with 0.00.", 1_860)
    chat.reply("", _read("ledger/report.py", _REPORT_BY_MONTH), _read("README.md", README))
    chat.reply("", ("Edit", {"file_path": "ledger/report.py", "diff": "<old>months =</old><new>months = all_"}, "ok"))
    chat.reply("", _bash("python -m pytest -q", "...........                        [100%]\n11 passed in 0.33s\n"))
    chat.reply("Done: every month between the first and the last entry has a line.")


def _compacted(chat: Chat) -> None:
    chat.begin("default", "Import bank statements")
    chat.row(
        "system", "You are koda, a coding agent. (A sample of context-tui: written by hand, nobody's real work.)", 0
    )
    chat.user("Write an importer for my bank's CSV.", 1)
    chat.reply(
        "",
        _read("ledger/model.py", MODEL),
        _bash("head -2 s.csv", "Buchungstag;Betrag;Text\n02.09.2026;-12,40;BAECKEREI\n"),
    )
    chat.reply("", ("Write", {"file_path": "ledger/importer.py", "content": IMPORTER}, "written: 44 lines"))
    chat.reply("", ("Write", {"file_path": "tests/test_importer.py", "content": TESTS}, "written: 30 lines"))
    chat.reply("", _bash("python -m pytest -q", "...F\nFAILED tests/test_importer.py::test_thousands_dot\n"))
    chat.reply("The importer is there; amounts above a thousand fail still.")
    chat.user("Fix that, then compact.")
    chat.reply("", ("Edit", {"file_path": "ledger/importer.py", "diff": "replace('.', '')"}, "ok, 1 line changed"))
    chat.reply("All four tests pass.")
    chat.compact(
        "- Goal: import bank statements from CSV without duplicates.\n"
        "- Done: ledger/importer.py (`parse_amount`, `read_statement`, `import_statement`), four tests.\n"
        "- Fixed: InvalidOperation for 1.234,50 (thousands dot removed first).\n- Next: a dry run.",
        keep=3,
    )
    chat.user("Now the dry run.")
    chat.reply("", _read("ledger/importer.py", IMPORTER))
    chat.reply("`--dry-run` prints what would be added.")


def _short(chat: Chat) -> None:
    chat.begin("scout", "What is in here?")
    chat.user("What is in this folder?", 0)
    chat.reply("", ("ListFiles", {"path": "."}, "LICENSE\nREADME.md\nledger/\nstatements/\ntests/\n"))
    chat.reply("A small ledger in Python, with tests.")


_LOG = """\
9c1e0b7 Importer: the thousands dot
41d2aa8 Importer: nothing twice
e0f3c52 Read a bank's export
77b19d4 Amounts have two places, or are refused
1f5e6c3 Save in one go, so that a full disk loses nothing
b8a02f9 Report: one total
5d7713e Entries and the ledger
0a4c1d2 First commit
"""
_REPORT = '''\
"""What the ledger adds up to."""

from decimal import Decimal

from ledger.model import Ledger


def total(ledger: Ledger) -> Decimal:
    """All amounts together."""
    return sum((entry.amount for entry in ledger), Decimal(0))


def show(ledger: Ledger) -> str:
    return f"total  {total(ledger):>14,}"
'''
_REPORT_BY_MONTH = (
    _REPORT
    + '''

def by_month(ledger: Ledger) -> dict[str, Decimal]:
    """A total for each month that has an entry, oldest first."""
    months: dict[str, Decimal] = {}
    for entry in ledger:
        month = entry.day.strftime("%Y-%m")
        months[month] = months.get(month, Decimal(0)) + entry.amount
    return dict(sorted(months.items()))
'''
)
