"""Clearing results in koda's own database: what koda would write, all or nothing, and only while nobody else has it."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from context_tui.cli import main
from context_tui.export.files import apply_in_place
from context_tui.formats.opening import open_session
from context_tui.policies.planning import plan
from context_tui.session.markers import RESULT_STUB
from context_tui.text.files import find_leftovers
from tests.formats.test_koda import SCHEMA, calls, insert, make, reply, tool, user
from tests.test_koda_vectors import VECTORS, database_of

ROOT = Path(__file__).parents[2]
NAMES = [f"c{number}" for number in range(230)]
ROWS = [
    {"role": "system", "content": "Prompt."},
    user("go"),
    *(row for name in NAMES for row in (reply("ok", calls(name)), tool(f"{name} says, at length\n" * 150, name))),
    tool("x" * 400, "no-call"),
    reply("done"),
]
TO_CLEAR = len(NAMES) - 5


@pytest.fixture(params=["WAL", "DELETE"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A database in either journal mode, with another session and a table that is not ours to read."""
    made = make(
        tmp_path / "koda.db", ROWS, SCHEMA.replace("agent_name TEXT, compacted_at", "compacted_at, full_content")
    )
    with closing(sqlite3.connect(made)) as database:
        database.execute(f"PRAGMA journal_mode = {request.param}")
        database.execute("UPDATE messages SET full_content = content || ' and more' WHERE role = 'tool'")
        insert(database, [user("other"), reply(None, calls("c0")), tool("c0 says\n" * 90, "c0")] * 9, "t")
    return made


def dump(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as database:
        return list(database.iterdump())


def apply(path: Path, *more: str) -> int:
    return main(["apply", f"{path}#s", "-P", "koda-microcompact", "--in-place", *more])


def as_koda_does(path: Path, ids: list[int]) -> None:
    with closing(sqlite3.connect(path)) as database:
        for start in range(0, len(ids), 100):
            some = ids[start : start + 100]
            marks = ",".join("?" * len(some))
            database.execute(f"UPDATE messages SET content = ? WHERE id IN ({marks})", [RESULT_STUB, *some])
        database.commit()


def test_what_is_written_is_what_koda_writes(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, twin = dump(path), Path(shutil.copy(path, path.with_name("twin.db")))
    made = plan(open_session(f"{path}#s"), "koda-microcompact")
    assert apply(path, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    backup = path.with_name("koda.db.backup")
    assert (report["out"], report["format"], report["backup"]) == (str(path), "koda", str(backup))
    as_koda_does(twin, [4 + 2 * number for number in range(TO_CLEAR)])
    assert dump(path) == dump(twin) != before
    assert dump(backup) == before and backup.stat().st_mode & 0o777 == 0o600
    again = open_session(f"{path}#s")
    assert plan(again, "koda-microcompact").tokens_before == made.tokens_after == report["tokens"]["after"]
    assert sorted(each.name for each in path.parent.iterdir()) == ["koda.db", "koda.db.backup", "twin.db"]


@pytest.mark.parametrize(
    "vector", [each for each in VECTORS if each["expect"]["koda_micro"]], ids=lambda each: each["name"]
)
def test_the_vectors(vector: dict[str, Any], tmp_path: Path) -> None:
    path = database_of(vector["koda_rows"], tmp_path / "koda.db")
    twin = Path(shutil.copy(path, tmp_path / "twin.db"))
    session = open_session(path)
    apply_in_place(session, plan(session, "koda-microcompact", idle_seconds=vector["koda_gap_seconds"]))
    as_koda_does(twin, vector["expect"]["koda_micro"]["ids"])
    assert dump(path) == dump(twin)


def test_a_log_that_was_left_is_in_the_backup_and_in_the_result(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "left"
    folder.mkdir()
    with closing(sqlite3.connect(path)) as database:
        if database.execute("PRAGMA journal_mode").fetchone() != ("wal",):
            pytest.skip("it has no log")
        insert(database, [user("late"), reply("written to the log")])
        for each in ("koda.db", "koda.db-wal"):
            shutil.copy(path.with_name(each), folder)
    assert (folder / "koda.db-wal").stat().st_size
    assert apply(folder / "koda.db") == 0
    assert "written to the log" in str(dump(folder / "koda.db")) and "late" in str(dump(folder / "koda.db.backup"))


def test_an_older_backup_is_never_replaced(path: Path) -> None:
    path.with_name("koda.db.backup").write_text("mine")
    path.with_name("koda.db.backup-2").symlink_to("nowhere")
    assert apply(path) == 0
    assert path.with_name("koda.db.backup").read_text() == "mine" and path.with_name("koda.db.backup-3").is_file()


def test_where_there_is_nothing_to_clear_there_is_no_backup(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = path.read_bytes()
    assert apply(path, "-p", "keep_recent=300") == 0
    assert "nothing to clear" in capsys.readouterr().err
    assert path.read_bytes() == before and [each.name for each in path.parent.iterdir()] == ["koda.db"]


HOLDS = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
for statement in sys.argv[2:]:
    database.execute(statement).fetchall()
print("holding", flush=True)
sys.stdin.read()
"""


@contextmanager
def holding(path: Path, *statements: str) -> Iterator[None]:
    """Another process has the database open."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(path), *statements],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "holding\n"
    try:
        yield
    finally:
        process.communicate("")


READS = "SELECT count(*) FROM messages"


@pytest.mark.slow
@pytest.mark.parametrize(
    "statements",
    [("PRAGMA journal_mode = WAL", READS), ("BEGIN", READS), ("BEGIN IMMEDIATE", "UPDATE messages SET role = role")],
    ids=["idle, in WAL mode", "reading", "writing"],
)
def test_it_is_refused_while_another_process_has_it(
    path: Path, statements: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    session = open_session(f"{path}#s")
    before = dump(path)
    with holding(path, *statements):
        assert apply(path) == 1
        assert capsys.readouterr().err == (
            f"context-tui: {path}: is in use by another program; quit that and try again; nothing was changed\n"
        )
    assert dump(path) == before and not path.with_name("koda.db.backup").exists()
    made = plan(session, "koda-microcompact")
    assert apply_in_place(session, made).backup, "and it can be once that is gone"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE messages SET content = 'other' WHERE id = 4",
        "INSERT INTO messages (session_id, role, content) VALUES ('s', 'user', 'more')",
        "DELETE FROM messages WHERE id = 3",
        "UPDATE messages SET compacted_at = '2026-03-01 11:00:00' WHERE id = 4",
    ],
)
def test_rows_that_changed_since_they_were_read_are_left_alone(path: Path, statement: str) -> None:
    session = open_session(f"{path}#s")
    made = plan(session, "koda-microcompact")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(statement)
    before = dump(path)
    with pytest.raises(Exception, match=r"has changed since|no result in the context"):
        apply_in_place(session, made)
    assert dump(path) == before and not path.with_name("koda.db.backup").exists()


@pytest.mark.parametrize(
    "does",
    ["UPDATE messages SET content = 'mine' WHERE id = 2", "INSERT INTO kv_store VALUES ('a', 'b')"],
)
def test_what_a_trigger_would_change_besides_undoes_it(path: Path, does: str) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"CREATE TRIGGER more AFTER UPDATE ON messages WHEN old.id = 4 BEGIN {does}; END")
    before, session = dump(path), open_session(f"{path}#s")
    with pytest.raises(Exception, match="more would change"):
        apply_in_place(session, plan(session, "koda-microcompact"))
    assert dump(path) == before


def test_numbers_that_do_not_come_out_undo_it(path: Path) -> None:
    before, session = dump(path), open_session(f"{path}#s")
    made = plan(session, "koda-microcompact")
    made.__dict__["tokens_after"] = made.tokens_after + 1
    with pytest.raises(Exception, match="tokens instead of"):
        apply_in_place(session, made)
    assert dump(path) == before


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("-P", "agent-sdk-prune", "-p", "max_chars=1000"), "does more than clear results"),
        (("-P", "manual", "-p", "clear=2:0"), "koda clears results to"),
        (("-P", "koda-microcompact", "--at", "400", "--ignore-trigger"), "only the context at the end"),
        (("-P", "koda-microcompact", "--to", "koda"), "--to applies to a new file"),
        (("-P", "koda-microcompact", "--force"), "--force applies to a new file"),
        (("-P", "koda-microcompact", "-o", "x.db"), "not allowed with argument"),
    ],
)
def test_other_plans_and_options_are_refused(
    path: Path, more: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = dump(path)
    assert main(["apply", f"{path}#s", "--in-place", *more]) != 0
    assert says in capsys.readouterr().err
    assert dump(path) == before


def test_other_formats_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    sample = ROOT / "sample_sessions" / "coding-session.jsonl"
    assert main(["apply", str(sample), "-P", "koda-microcompact", "--in-place"]) == 2
    assert "is not changed in place (only koda); write a new file with -o OUT" in capsys.readouterr().err


def test_what_a_kill_left_half_done_is_told_until_koda_undoes_it(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = DELETE")
    before = dump(path)
    Path(f"{path}.backup").write_bytes(path.read_bytes())
    change = (
        f"import os, sqlite3\ndatabase = sqlite3.connect({str(path)!r})\ndatabase.execute('PRAGMA cache_size = 1')\n"
    )
    change += "database.execute(\"UPDATE messages SET content = 'half'\")\nos.kill(os.getpid(), 9)"
    assert subprocess.run([sys.executable, "-c", change], check=False).returncode == -9
    for command in (["inspect", str(path)], ["sessions", str(path)], ["inspect", f"{path}#s"]):
        assert main(command) == 2
        error = capsys.readouterr().err
        assert error.startswith(f"context-tui: {path}: a program was ended while it changed this database")
        assert f"the backup from before the change is {path}.backup; " in error and "koda" in error
    assert dump(path) == before, "SQLite undoes it for koda"
    assert main(["inspect", f"{path}#s"]) == 0


STOPS = """
import sys, time
from context_tui import cli
from context_tui.formats.kit.databases import LockedDatabase
from context_tui.formats.koda import in_place
def stop(*_):
    print("stopped", flush=True)
    time.sleep(600)
if sys.argv[1] == "before":
    LockedDatabase.transaction = stop
elif sys.argv[1] == "within":
    in_place.scan = stop
elif sys.argv[1] == "backup":
    in_place.move_to_free_name = stop
else:
    LockedDatabase.close = stop
sys.exit(cli.main(sys.argv[2:]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("when", ["backup", "before", "within", "after"])
def test_a_kill_leaves_the_old_or_the_new(path: Path, when: str) -> None:
    before, twin = dump(path), Path(shutil.copy(path, path.with_name("twin.db")))
    as_koda_does(twin, [4 + 2 * number for number in range(TO_CLEAR)])
    process = subprocess.Popen(
        [sys.executable, "-c", STOPS, when, "apply", f"{path}#s", "-P", "koda-microcompact", "--in-place"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert process.stdout is not None and process.stdout.readline() == "stopped\n"
    process.kill()
    process.communicate()
    assert dump(path) == (dump(twin) if when == "after" else before)
    backup = path.with_name("koda.db.backup")
    assert backup.exists() == (when != "backup") and bool(find_leftovers(path.parent)) == (when == "backup")
    assert not backup.exists() or dump(backup) == before
