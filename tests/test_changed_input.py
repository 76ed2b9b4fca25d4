"""An export is refused when what was read of the input is no longer there, whatever changed and however well hidden."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import context_tui as ct
from context_tui.errors import ExportError
from context_tui.export.files import export
from context_tui.formats.kit.lines import LineFile
from tests.formats.recordings import Recording, call, result

BEFORE, AFTER = "import os", "import re"


def recording(folder: Path) -> Path:
    made = Recording()
    made.user("read a.py")
    made.assistant(call("c", "Read", file_path="a.py"))
    made.results(result("c", BEFORE))
    made.user("thanks")
    return made.write(folder)


def document(folder: Path) -> Path:
    return export(ct.open_session(recording(folder)), folder / "request.json", "anthropic").path


def database(folder: Path) -> Path:
    return export(ct.open_session(recording(folder)), folder / "koda.db", "koda").path


def in_place(path: Path) -> None:
    """The same length, the same file, the same time."""
    times = path.stat()
    data = path.read_bytes()
    assert BEFORE.encode() in data
    with path.open("r+b") as file:
        file.seek(data.index(BEFORE.encode()))
        file.write(AFTER.encode())
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def in_place_and_grown(path: Path) -> None:
    in_place(path)
    with path.open("ab") as file:
        file.write(b"\n")


def replaced(path: Path) -> None:
    """Another file of the same length and time in its place."""
    times = path.stat()
    other = path.with_name("other")
    other.write_bytes(path.read_bytes().replace(BEFORE.encode(), AFTER.encode()))
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    os.replace(other, path)


@pytest.mark.parametrize("make", [recording, document])
@pytest.mark.parametrize("change", [in_place, in_place_and_grown, replaced])
def test_a_file(tmp_path: Path, make: Callable[[Path], Path], change: Callable[[Path], None]) -> None:
    path = make(tmp_path)
    session = ct.open_session(path)
    change(path)
    with pytest.raises(ExportError, match="has changed since it was read"):
        export(session, tmp_path / "out.json", "openai")
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize("make", [recording, document])
def test_a_change_while_the_export_is_written(
    tmp_path: Path, make: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(tmp_path)
    session = ct.open_session(path)
    before = sorted(os.listdir(tmp_path))
    monkeypatch.setattr("context_tui.export.files.sync", lambda _: in_place(path))
    with pytest.raises(ExportError, match="has changed since it was read"):
        export(session, tmp_path / "out.json", "openai")
    assert sorted(os.listdir(tmp_path)) == before


def test_a_system_prompt_and_tools(tmp_path: Path) -> None:
    path = tmp_path / "request.json"
    tool = {"name": "Read", "description": "opens it", "input_schema": {"type": "object"}}
    messages = [{"role": "user", "content": "hi"}]
    data = json.dumps({"system": "be kind", "tools": [tool], "messages": messages})
    for before, after in (("be kind", "be mean"), ("opens it", "sends it")):
        path.write_text(data)
        session = ct.open_session(path)
        path.write_text(data.replace(before, after))
        with pytest.raises(ExportError, match="has changed since it was read"):
            export(session, tmp_path / "out.json", "openai")


def test_a_response_that_came_is_fine(tmp_path: Path) -> None:
    path = tmp_path / "request.json"
    request = {"system": "be kind", "messages": [{"role": "user", "content": "hi"}]}
    path.write_text(json.dumps(request))
    session = ct.open_session(path)
    usage = {"input_tokens": 9, "output_tokens": 1}
    reply = {"role": "assistant", "content": [{"type": "text", "text": "hello"}], "usage": usage}
    path.write_text(json.dumps({**request, "response": reply}))
    assert len(ct.open_session(export(session, tmp_path / "out.json", "openai").path)) == 1
    done = export(session, tmp_path / "copy.json", "anthropic")
    assert done.losses == ["the copy has 1 more messages, recorded after the session was opened"]


def test_a_database_that_is_updated_in_place(tmp_path: Path) -> None:
    path = database(tmp_path)
    session = ct.open_session(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        changed = connection.execute("UPDATE messages SET content = replace(content, ?, ?)", (BEFORE, AFTER))
        assert changed.rowcount
    with pytest.raises(ExportError, match="has changed since it was read"):
        export(session, tmp_path / "out.json", "openai")


def test_a_row_that_is_gone_from_the_end_of_a_database(tmp_path: Path) -> None:
    path = database(tmp_path)
    session = ct.open_session(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE messages SET id = id + 1 WHERE id = (SELECT max(id) FROM messages)")
    with pytest.raises(ExportError, match="has changed since it was read"):
        export(session, tmp_path / "out.json", "openai")


def test_rows_that_came_are_fine(tmp_path: Path) -> None:
    path = database(tmp_path)
    session = ct.open_session(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "INSERT INTO messages (session_id, role, content) SELECT session_id, 'user', 'more' FROM messages LIMIT 1"
        )
    assert len(ct.open_session(export(session, tmp_path / "out.json", "openai").path)) == len(session)
    assert len(ct.open_session(path)) > len(session)


@pytest.mark.parametrize("make", [recording, document])
def test_a_time_alone_is_no_change(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    path = make(tmp_path)
    session = ct.open_session(path)
    os.utime(path, (1_000, 1_000))
    export(session, tmp_path / "out.json", "openai")


@pytest.mark.parametrize("make", [recording, document, database])
@pytest.mark.parametrize("what", [os.mkfifo, os.mkdir, os.unlink])
def test_a_pipe_a_folder_or_nothing_in_its_place(
    tmp_path: Path, make: Callable[[Path], Path], what: Callable[[Path], None]
) -> None:
    path = make(tmp_path)
    session = ct.open_session(path)
    if what is not os.unlink:
        path.unlink()
    what(path)
    with pytest.raises(ct.Error, match=r"is not a regular file|no such file|has changed"):
        export(session, tmp_path / "out.json", "openai")


@pytest.mark.slow
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    os.mkfifo(path)
    for command in (["inspect"], ["plan", "-P", "manual"], []):
        done = subprocess.run(
            [sys.executable, "-m", "context_tui", *command, path],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 2 and "is not a regular file" in done.stderr and done.stderr.count("\n") == 1


def test_what_was_read_is_remembered_and_not_the_map(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\ntwo\n")
    file = LineFile(path)
    file.save_fingerprint(4)
    with path.open("r+b") as other:
        other.seek(4)
        other.write(b"TWO")
    file.save_fingerprint(4)
    assert file.is_unchanged()  # that part was not read yet
    file.save_fingerprint(8)
    assert file.is_unchanged()
    with path.open("r+b") as other:
        other.write(b"ONE")
    assert file.data[:3] == b"ONE" and not file.is_unchanged()
