"""Find defect's sessions, their descriptions, and the history before a shortened journal.

At the end of each turn, defect writes a snapshot of the history, which loads faster than the journal. A shortened
journal continues a snapshot and is incomplete without it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from context_tui.formats.base import SessionFile
from context_tui.formats.defect.reader import is_journal_line
from context_tui.formats.kit import files
from context_tui.formats.kit.heads import parse_first_values, read_first_objects, read_head, read_json
from context_tui.formats.kit.values import as_object
from context_tui.session.jsontext import is_nested_deeper, try_loads

JOURNAL_FILE, META_FILE, SNAPSHOT_FILE = "journal.jsonl", "meta.json", "snapshot.json"
_MAX_META_BYTES = 1 << 20
Record = dict[str, Any]


def is_meta(value: Record) -> bool:
    """Return whether a JSON object is the description of a session."""
    return "schema_version" in value and isinstance(value.get("session_id"), str) and "cwd" in value


def is_snapshot(value: Record) -> bool:
    """Return whether a JSON object is a snapshot: a history, and the number of the next line in the journal."""
    return "schema_version" in value and "next_seq" in value and "record" not in value


def read_meta(folder: Path) -> Record:
    """Return the description of the session in a folder, or {} if there is none."""
    values = parse_first_values(read_head(folder / META_FILE, _MAX_META_BYTES))
    return values[0] if values and isinstance(values[0], dict) and is_meta(values[0]) else {}


def find_session_file(path: Path) -> Path:
    """Return the file to read for any file of a session's folder: the journal, or else the snapshot."""
    journal, snapshot = path.with_name(JOURNAL_FILE), path.with_name(SNAPSHOT_FILE)
    if path.name not in (META_FILE, SNAPSHOT_FILE, JOURNAL_FILE):
        return path
    if not os.path.isfile(snapshot):
        return journal
    stamp = files.read_file_stamp(journal)
    return journal if stamp and stamp[1] else snapshot  # an empty journal holds no messages yet


def find_sessions_below(folder: Path) -> Iterator[Path]:
    """Yield the session file in each subfolder of *folder*, without opening the files."""
    for entry in files.list_entries(folder):
        meta = Path(entry.path, META_FILE)
        if os.path.isfile(meta) and os.path.isfile(file := find_session_file(meta)):
            yield file


def find_sessions(environ: Mapping[str, str], cwd: Path) -> Iterator[SessionFile]:
    """Yield the sessions of all projects, and those that ``--local`` keeps in the current project's folder."""
    state = files.find_program_folder(environ, "XDG_STATE_HOME", ".local", "state")
    for path in find_sessions_below(state / "defect" / "sessions"):
        yield SessionFile(path, "", False)
    project = next((each for each in (cwd, *cwd.parents) if os.path.exists(each / ".git")), cwd)
    for path in find_sessions_below(project / ".defect" / "sessions"):
        yield SessionFile(path, project.name, True)


def read_journal_base(journal: Path) -> Record | None:
    """Return the history before a shortened journal, in the form of a journal line, or None if the journal is complete.

    The snapshot may include lines that are still in the journal. If these lines only add messages, the messages are
    removed from the snapshot and read from their own lines. Otherwise the lines are ignored.
    """
    first_line = next((value for value in read_first_objects(journal) if is_journal_line(value)), None)
    first_seq = first_line.get("seq") if first_line else None
    if journal.name != JOURNAL_FILE or first_seq == 0 or (first_line is not None and type(first_seq) is not int):
        return None
    snapshot = as_object(read_json(journal.with_name(SNAPSHOT_FILE), files.MAX_RECORD_BYTES))
    if is_nested_deeper(snapshot):
        return None
    state, next_seq = snapshot.get("state"), snapshot.get("next_seq")
    history = as_object(state).get("history")
    if not is_snapshot(snapshot) or not isinstance(history, list) or type(next_seq) is not int:
        return None
    if isinstance(first_seq, int) and first_seq < next_seq:
        added = _read_added_messages(journal, next_seq)
        base_length = len(history) - len(added or ())
        if added is not None and history[max(base_length, 0) :] == added:
            history, next_seq = history[:base_length], first_seq
    return {"schema_version": 1, "seq": next_seq - 1, "record": {"type": "snapshot", "history": history}}


def _read_added_messages(journal: Path, end_seq: int) -> list[Any] | None:
    """Return the messages that lines numbered below *end_seq* add, or None if a line changes the history otherwise."""
    messages: list[Any] = []
    turn_end = 0
    with files.open_regular(journal) as file:
        for line in file:
            value = try_loads(line)
            if not isinstance(value, dict) or not is_journal_line(value) or type(value["seq"]) is not int:
                return None
            if value["seq"] >= end_seq:
                break
            match value["record"].get("type"):
                case "message":
                    messages.append(value["record"].get("message"))
                case "turn_ended":
                    turn_end = len(messages)
                case "turn_aborted":
                    del messages[turn_end:]
                case "snapshot":
                    return None
    return messages
