"""What was read of sessions is kept for the next time: private, never wrong, and nothing where that cannot be."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from context_tui.library import cache as details
from context_tui.library.cache import SessionCache, find_cache_path, read_stamps

OLD = 1_600_000_000


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(details, "SETTLE_SECONDS", -60.0)  # the tests wait for no clock
    path = tmp_path / "session.jsonl"
    path.write_text("one\n")
    return path


def kept(cache: Path, file: Path, value: object = "told") -> SessionCache:
    made = SessionCache(cache)
    made.put(str(file), "", "title", value, read_stamps([file]))
    made.close()
    return SessionCache(cache)


def test_it_is_told_again_by_another_run_and_is_private(tmp_path: Path, file: Path) -> None:
    cache = tmp_path / "a" / "b" / "cache.db"
    assert kept(cache, file, ["x", 1]).get(str(file), "", "title") == ["x", 1]
    assert stat.S_IMODE(cache.stat().st_mode) == 0o600
    assert stat.S_IMODE(cache.parent.stat().st_mode) == 0o700
    again = SessionCache(cache)
    assert again.get(str(file), "other", "title") is None and again.get(str(file), "", "look") is None


def test_nothing_is_told_of_a_file_that_changed(tmp_path: Path, file: Path) -> None:
    cache = tmp_path / "cache.db"
    status = file.stat()
    file.write_text("two\n")  # as large as it was
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))  # and of the same time
    assert kept(cache, file).get(str(file), "", "title") == "told"
    file.write_text("one\n")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert SessionCache(cache).get(str(file), "", "title") is None
    assert kept(cache, file).get(str(file), "", "title") == "told"
    Path(f"{file}-wal").write_text("rows")  # a database's log
    assert SessionCache(cache).get(str(file), "", "title") is None
    file.unlink()
    assert SessionCache(cache).get(str(file), "", "title") is None


def test_files_beside_and_in_a_folder_count_too(tmp_path: Path, file: Path) -> None:
    folder, cache = tmp_path / "events", tmp_path / "cache.db"
    folder.mkdir()
    (folder / "1.json").write_text("1")
    made = SessionCache(cache)
    made.put(str(file), "", "look", "told", read_stamps([file, folder]))
    assert made.get(str(file), "", "look") == "told"
    (folder / "1.json").write_text("12")
    assert made.get(str(file), "", "look") is None


def test_what_may_still_change_within_a_tick_is_not_kept(tmp_path: Path, file: Path) -> None:
    details.SETTLE_SECONDS = 2.0  # the fixture puts it back
    assert kept(tmp_path / "cache.db", file).get(str(file), "", "title") is None


def test_another_program_reads_anew(tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = kept(tmp_path / "cache.db", file)
    monkeypatch.setattr(details, "__version__", "another")
    assert store.get(str(file), "", "title") is None


def test_a_damaged_cache_is_nothing_and_made_anew(tmp_path: Path, file: Path) -> None:
    cache = tmp_path / "cache.db"
    kept(cache, file)
    data = cache.read_bytes()
    for damaged in (data[:100] + b"\xff" * 20 + data[120:], data[:4096] + b"\xff" * (len(data) - 4096)):
        cache.write_bytes(damaged)
        assert SessionCache(cache).get(str(file), "", "title") is None
        assert kept(cache, file).get(str(file), "", "title") in ("told", None)
        assert kept(cache, file).get(str(file), "", "title") == "told"


@pytest.mark.parametrize("content", ["text", "signature", "database"])
def test_a_file_of_something_else_is_left_as_it_is(
    tmp_path: Path, file: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    cache = tmp_path / "notes.txt"
    cache.write_bytes(b"SQLite format 3\0" * 99 if content == "signature" else b"my notes\n" * 99)
    if content == "database":
        cache.unlink()
        with closing(sqlite3.connect(cache)) as database, database:
            database.execute("CREATE TABLE notes (text)")
    cache.chmod(0o644)
    before = cache.read_bytes()
    assert kept(cache, file).get(str(file), "", "title") is None
    assert cache.read_bytes() == before and stat.S_IMODE(cache.stat().st_mode) == 0o644
    assert {record.getMessage() for record in caplog.records} == {
        f"{cache}: is not a cache of context-tui, so it is left as it is and nothing is cached;"
        " name another file in CONTEXT_TUI_CACHE"
    }


def test_entries_of_another_kind_are_nothing(tmp_path: Path, file: Path) -> None:
    cache = tmp_path / "cache.db"
    kept(cache, file)
    for told in ("", "[]", "{}", "[1, 2]", "null", '[[1], [[]], "x"]', "[" * 9999):
        with closing(sqlite3.connect(cache)) as database, database:
            database.execute("UPDATE details SET told = ?", (told,))
        assert SessionCache(cache).get(str(file), "", "title") is None


def test_where_nothing_can_be_written_nothing_is_kept(tmp_path: Path, file: Path) -> None:
    (tmp_path / "file").write_text("")
    assert kept(tmp_path / "file" / "cache.db", file).get(str(file), "", "title") is None
    link = tmp_path / "link.db"
    link.symlink_to(file)
    assert kept(link, file).get(str(file), "", "title") is None
    assert file.read_text() == "one\n"
    assert SessionCache(None).get(str(file), "", "title") is None


def test_two_programs_share_it(tmp_path: Path, file: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text("x")
    cache = tmp_path / "cache.db"
    first, second = SessionCache(cache), SessionCache(cache)
    first.put(str(file), "", "title", "one", read_stamps([file]))
    second.put(str(other), "", "title", "two", read_stamps([other]))
    first.flush()
    second.flush()
    assert (first.get(str(other), "", "title"), second.get(str(file), "", "title")) == ("two", "one")
    with closing(sqlite3.connect(cache)) as busy:
        busy.execute("BEGIN EXCLUSIVE")
        first.put(str(file), "", "title", "new", read_stamps([file]))
        first.flush()  # in use: it is not waited for long
    assert SessionCache(cache).get(str(file), "", "title") == "one"


def test_it_is_bounded(tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(details, "MAX_ENTRIES", 3)
    store = SessionCache(tmp_path / "cache.db")
    for number in range(9):
        store.put(str(file), str(number), "title", number, read_stamps([file]))
        store.flush()
    assert [store.get(str(file), str(n), "title") for n in range(9)] == [None] * 6 + [6, 7, 8]
    store.put(str(file), "", "title", "x" * 30_000, read_stamps([file]))
    assert store.get(str(file), "", "title") is None


def test_the_environment_says_where() -> None:
    assert find_cache_path({"CONTEXT_TUI_CACHE": ""}) is None
    assert find_cache_path({"CONTEXT_TUI_CACHE": "/x/y.db"}) == Path("/x/y.db")
    assert find_cache_path({}) is not None
