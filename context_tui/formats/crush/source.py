"""The rows of one session in Crush's or the Go opencode's database: ``sessions`` and ``messages``, nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from context_tui.formats.kit.databases import Database, decode_text, decode_value
from context_tui.formats.kit.entry_scanner import Entry
from context_tui.formats.kit.row_entries import RowSource, format_placeholders
from context_tui.formats.kit.values import parse_time_ms
from context_tui.session.jsontext import compact_json

SUMMARY_ID = "\0summary"
"""The id of the summary that one dialect keeps in the session's row."""
_COLUMNS = ("role", "model", "provider", "created_at", "finished_at", "is_summary_message")


class CrushSource(RowSource):
    """Messages by the second in which they were made, and as they were written within one."""

    metadata_columns = (
        "summary_message_id",
        "summary",
        "summarized_at",
        "prompt_tokens",
        "completion_tokens",
        "updated_at",
    )

    def __init__(self, database: Database, session_id: str) -> None:
        super().__init__(database, session_id)
        self._session_row: Mapping[str, Any] = {}

    def list_ids(self) -> list[str]:
        """The ids of the messages."""
        self._session_row = self.read_metadata()
        order = "created_at, rowid" if "created_at" in self.columns else "rowid"
        time = "created_at" if "created_at" in self.columns else "NULL"
        rows = self.database.query(
            f"SELECT id, {time} FROM messages WHERE session_id = ? ORDER BY {order}", (self.session_id,)
        )
        ids = [decode_text(row[0]) for row in rows]
        if self._session_row.get("summary") and (when := parse_time_ms(self._session_row.get("summarized_at"))) >= 0:
            times = (parse_time_ms(decode_value(row[1])) for row in rows)
            ids.insert(next((place for place, time in enumerate(times) if time > when), len(ids)), SUMMARY_ID)
        return ids

    def query_entries(self, ids: Sequence[str], max_value_bytes: int) -> dict[str, Entry]:
        names = [name for name in _COLUMNS if name in self.columns]
        rows = self.database.query(
            f"SELECT id, parts, {', '.join(names)} FROM messages WHERE id IN ({format_placeholders(ids)})",
            tuple(ids),
            max_value_bytes=max_value_bytes,
        )
        found = {}
        for name, parts, *values in rows:
            row = dict(zip(names, map(decode_value, values), strict=True))
            summary = bool(row.pop("is_summary_message", 0)) or decode_text(name) == self._session_row.get(
                "summary_message_id"
            )
            known = {key: value for key, value in row.items() if value is not None} | (
                {"summary": True} if summary else {}
            )
            found[decode_text(name)] = Entry(
                decode_text(name),
                (compact_json(known), parts if isinstance(parts, bytes) else decode_text(parts).encode()),
            )
        if SUMMARY_ID in ids:
            parts = [{"type": "text", "data": {"text": self._session_row.get("summary")}}]
            known = {"role": "user", "created_at": self._session_row.get("summarized_at"), "summary": True}
            found[SUMMARY_ID] = Entry(SUMMARY_ID, (compact_json(known), compact_json(parts)))
        return found
