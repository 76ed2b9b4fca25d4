"""A session as it was recorded, in the document that ``opencode export`` makes of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from context_tui.formats.kit.databases import Database, text
from context_tui.formats.kit.entry_scanner import BATCH, EntryContent
from context_tui.formats.kit.files import open_regular
from context_tui.formats.kit.row_entries import marks
from context_tui.formats.kit.writing import write_json
from context_tui.formats.opencode.shape import parsed
from context_tui.formats.opencode.sources import ExportSource, TableSource, TreeSource
from context_tui.session.jsontext import loads
from context_tui.session.session import Session

TEXTS = {"id": "id", "slug": "slug", "project_id": "projectID", "parent_id": "parentID", "directory": "directory"} | {
    name: name for name in ("path", "title", "version", "agent")
}
"""Columns of ``session`` with text, and what an export calls them."""
TIMES = {"time_created": "created", "time_updated": "updated"}


def is_whole(session: Session) -> bool:
    """Whether a session was read from opencode's files, is no branch, and is all JSON."""
    is_branch = bool(session.info.id.rpartition("/")[0])
    return isinstance(session.content, EntryContent) and not is_branch and not session.facts.problems


def copy_session(session: Session, path: Path) -> list[str] | None:
    """Write the messages that *session* was read from, each as it is, with what was recorded.

    Returns:
        Nothing to be known about it; None where :func:`is_whole` does not hold.
    """
    content = session.content
    if not isinstance(content, EntryContent) or not is_whole(session):
        return None
    source = content.read.source
    if isinstance(source, ExportSource):
        with open_regular(source.path) as file, path.open("xb") as out:
            shutil.copyfileobj(file, out)
        return []
    if isinstance(source, TreeSource):
        info = dict(source.about())
        entries = (parsed(entry) for entry in source.entries(content.read.ids))
        messages = [{"info": body, "parts": parts} for body, parts, _ in entries]
    elif isinstance(source, TableSource):
        info = _row(source.database, session.info.id)
        messages = [*_rows(source.database, session.info.id, content.read.ids)]
    else:
        return None
    write_json({"info": info, "messages": messages}, path)
    return []


def _row(database: Database, session_id: str) -> dict[str, Any]:
    """The row of a session as an export has it."""
    columns = database.columns("session")
    names = [name for name in (*TEXTS, *TIMES, "revert") if name in columns]
    rows = database.query(f"SELECT {', '.join(names)} FROM session WHERE id = ?", (session_id,))
    row = {name: value for name, value in zip(names, rows[0] if rows else (), strict=False) if value is not None}
    texts = {own: text(row[name]) for name, own in TEXTS.items() if name in row}
    times = {own: row[name] for name, own in TIMES.items() if name in row}
    return {"id": session_id, **texts, **({"revert": loads(row["revert"])} if "revert" in row else {}), "time": times}


def _rows(database: Database, session_id: str, ids: list[str]) -> Iterator[dict[str, Any]]:
    """Messages with their parts, and with the ids that stand in columns."""
    for begin in range(0, len(ids), BATCH):
        some = ids[begin : begin + BATCH]
        found: dict[str, dict[str, Any]] = {}
        for name, data in database.query(f"SELECT id, data FROM message WHERE id IN ({marks(some)})", some):
            own = {"id": text(name), "sessionID": session_id}
            found[text(name)] = {"info": {**own, **loads(data)}, "parts": []}
        for name, message, data in database.query(
            f"SELECT id, message_id, data FROM part WHERE message_id IN ({marks(some)}) ORDER BY message_id, id", some
        ):
            own = {"id": text(name), "sessionID": session_id, "messageID": text(message)}
            found[text(message)]["parts"].append({**own, **loads(data)})
        yield from (found[name] for name in some if name in found)
