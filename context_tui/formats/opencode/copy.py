"""A session as it was recorded, in the document that ``opencode export`` makes of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from context_tui.formats.kit.databases import Database, decode_text
from context_tui.formats.kit.entry_scanner import BATCH_SIZE, EntryContent
from context_tui.formats.kit.files import open_regular
from context_tui.formats.kit.row_entries import format_placeholders
from context_tui.formats.kit.writing import write_json
from context_tui.formats.opencode.shape import parse_entry
from context_tui.formats.opencode.sources import ExportSource, TableSource, TreeSource
from context_tui.session.jsontext import loads
from context_tui.session.session import Session

TEXT_COLUMNS = {
    "id": "id",
    "slug": "slug",
    "project_id": "projectID",
    "parent_id": "parentID",
    "directory": "directory",
} | {name: name for name in ("path", "title", "version", "agent")}
"""Columns of ``session`` with text, and what an export calls them."""
TIME_COLUMNS = {"time_created": "created", "time_updated": "updated"}


def is_copyable(session: Session) -> bool:
    """Whether a session was read from opencode's files, is no branch, and is all JSON."""
    is_branch = bool(session.info.id.rpartition("/")[0])
    return isinstance(session.content, EntryContent) and not is_branch and not session.facts.problems


def copy_session(session: Session, path: Path) -> list[str] | None:
    """Write the messages that *session* was read from, each as it is, with what was recorded.

    Returns:
        Nothing to be known about it; None where :func:`is_copyable` does not hold.
    """
    content = session.content
    if not isinstance(content, EntryContent) or not is_copyable(session):
        return None
    source = content.entry_pass.source
    if isinstance(source, ExportSource):
        with open_regular(source.path) as file, path.open("xb") as out:
            shutil.copyfileobj(file, out)
        return []
    if isinstance(source, TreeSource):
        info = dict(source.read_metadata())
        entries = (parse_entry(entry) for entry in source.read_entries(content.entry_pass.ids))
        messages = [{"info": body, "parts": parts} for body, parts, _ in entries]
    elif isinstance(source, TableSource):
        info = _read_session_row(source.database, session.info.id)
        messages = [*_read_message_rows(source.database, session.info.id, content.entry_pass.ids)]
    else:
        return None
    write_json({"info": info, "messages": messages}, path)
    return []


def _read_session_row(database: Database, session_id: str) -> dict[str, Any]:
    """The row of a session as an export has it."""
    columns = database.list_columns("session")
    names = [name for name in (*TEXT_COLUMNS, *TIME_COLUMNS, "revert") if name in columns]
    rows = database.query(f"SELECT {', '.join(names)} FROM session WHERE id = ?", (session_id,))
    row = {name: value for name, value in zip(names, rows[0] if rows else (), strict=False) if value is not None}
    texts = {own: decode_text(row[name]) for name, own in TEXT_COLUMNS.items() if name in row}
    times = {own: row[name] for name, own in TIME_COLUMNS.items() if name in row}
    return {"id": session_id, **texts, **({"revert": loads(row["revert"])} if "revert" in row else {}), "time": times}


def _read_message_rows(database: Database, session_id: str, ids: list[str]) -> Iterator[dict[str, Any]]:
    """Messages with their parts, and with the ids that stand in columns."""
    for begin in range(0, len(ids), BATCH_SIZE):
        some = ids[begin : begin + BATCH_SIZE]
        found: dict[str, dict[str, Any]] = {}
        for name, data in database.query(
            f"SELECT id, data FROM message WHERE id IN ({format_placeholders(some)})", some
        ):
            own = {"id": decode_text(name), "sessionID": session_id}
            found[decode_text(name)] = {"info": {**own, **loads(data)}, "parts": []}
        for name, message, data in database.query(
            f"SELECT id, message_id, data FROM part WHERE message_id IN ({format_placeholders(some)}) ORDER BY message_id, id",
            some,
        ):
            own = {"id": decode_text(name), "sessionID": session_id, "messageID": decode_text(message)}
            found[decode_text(message)]["parts"].append({**own, **loads(data)})
        yield from (found[name] for name in some if name in found)
