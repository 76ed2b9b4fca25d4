"""Where the messages of a Goose session stand: rows of ``messages``, or lines of a file of its own (up to 1.9)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from context_tui.formats.kit.databases import decode_text, decode_value
from context_tui.formats.kit.entry_scanner import Entry
from context_tui.formats.kit.files import read_file_stamp, read_whole_file
from context_tui.formats.kit.row_entries import RowSource, format_placeholders
from context_tui.session.jsontext import compact_json, find_value_ranges, loads


class GooseRows(RowSource):
    """Messages by the second in which they were made, then by id."""

    metadata_columns = ("total_tokens", "input_tokens", "output_tokens", "working_dir", "description", "name")

    def list_ids(self) -> list[str]:
        """The ids of the messages."""
        order = "created_timestamp, id" if "created_timestamp" in self.columns else "id"
        rows = self.database.query(f"SELECT id FROM messages WHERE session_id = ? ORDER BY {order}", (self.session_id,))
        return [decode_text(row[0]) for row in rows]

    def query_entries(self, ids: Sequence[str], max_value_bytes: int) -> dict[str, Entry]:
        names = ("id", "role", "content_json", "created_timestamp", "metadata_json")
        wanted = ", ".join(name if name in self.columns else "NULL" for name in names)
        rows = self.database.query(
            f"SELECT {wanted} FROM messages WHERE id IN ({format_placeholders(ids)})",
            tuple(ids),
            max_value_bytes=max_value_bytes,
        )
        return {decode_text(row[0]): Entry(decode_text(row[0]), (_format_line(*row[1:]),)) for row in rows}


class LinesSource:
    """The lines of a file. Goose writes it anew for a compaction, so all of it is kept at hand."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines: list[bytes] = []
        self._stamp: Hashable = None

    def read_stamp(self) -> Hashable:
        """Time and size of the file."""
        return read_file_stamp(self.path)

    def list_ids(self) -> list[str]:
        """The numbers of the records, from 1."""
        stamp = self.read_stamp()
        if stamp != self._stamp:
            data = read_whole_file(self.path)
            self._lines, self._stamp = [each for line in data.split(b"\n") for each in _split_records(line)], stamp
        return [str(number) for number in range(1, len(self._lines) + 1)]

    def read_entries(self, ids: Sequence[str]) -> list[Entry]:
        """Records with these numbers."""
        return [Entry(each, (self._lines[int(each) - 1],)) for each in ids if int(each) <= len(self._lines)]

    def read_metadata(self) -> Mapping[str, Any]:
        """What the first line tells, if it is of the session."""
        with suppress(ValueError):
            first = loads(self._lines[0]) if self._lines else None
            if isinstance(first, dict) and "role" not in first:
                return first
        return {}


def _split_records(line: bytes) -> list[bytes]:
    """The objects on a line: one, or several that were written at once."""
    if not line.strip():
        return []
    with suppress(ValueError):
        return [line[start:end] for start, end in find_value_ranges(line)] if b"}{" in line else [line]
    return [line]


def _format_line(role: Any, content: Any, created: Any, metadata: Any) -> bytes:
    """A row as the line that it would be."""
    about = {"role": decode_value(role), "created": decode_value(created)}
    raw = content if isinstance(content, bytes) else compact_json(decode_value(content))
    own = metadata if isinstance(metadata, bytes) and metadata.strip() else b"null"
    return b'%s,"content":%s,"metadata":%s}' % (compact_json(about)[:-1], raw or b"null", own)
