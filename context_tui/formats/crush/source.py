"""The rows of one session in Crush's or the Go opencode's database: ``sessions`` and ``messages``, nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from context_tui.formats.kit.databases import Database, plain, text
from context_tui.formats.kit.entry_scanner import Entry
from context_tui.formats.kit.row_entries import RowSource, marks
from context_tui.formats.kit.values import epoch_ms
from context_tui.session.jsontext import compact_json

SUMMARY = "\0summary"
"""The id of the summary that one dialect keeps in the session's row."""
_COLUMNS = ("role", "model", "provider", "created_at", "finished_at", "is_summary_message")


class CrushSource(RowSource):
    """Messages by the second in which they were made, and as they were written within one."""

    told = ("summary_message_id", "summary", "summarized_at", "prompt_tokens", "completion_tokens", "updated_at")

    def __init__(self, database: Database, session_id: str) -> None:
        super().__init__(database, session_id)
        self._about: Mapping[str, Any] = {}

    def ids(self) -> list[str]:
        """The ids of the messages."""
        self._about = self.about()
        order = "created_at, rowid" if "created_at" in self.columns else "rowid"
        time = "created_at" if "created_at" in self.columns else "NULL"
        rows = self.database.query(
            f"SELECT id, {time} FROM messages WHERE session_id = ? ORDER BY {order}", (self.session_id,)
        )
        ids = [text(row[0]) for row in rows]
        if self._about.get("summary") and (when := epoch_ms(self._about.get("summarized_at"))) >= 0:
            times = (epoch_ms(plain(row[1])) for row in rows)
            ids.insert(next((place for place, time in enumerate(times) if time > when), len(ids)), SUMMARY)
        return ids

    def ask(self, ids: Sequence[str], longest: int) -> dict[str, Entry]:
        names = [name for name in _COLUMNS if name in self.columns]
        rows = self.database.query(
            f"SELECT id, parts, {', '.join(names)} FROM messages WHERE id IN ({marks(ids)})",
            tuple(ids),
            longest=longest,
        )
        found = {}
        for name, parts, *values in rows:
            row = dict(zip(names, map(plain, values), strict=True))
            summary = bool(row.pop("is_summary_message", 0)) or text(name) == self._about.get("summary_message_id")
            known = {key: value for key, value in row.items() if value is not None} | (
                {"summary": True} if summary else {}
            )
            found[text(name)] = Entry(
                text(name), (compact_json(known), parts if isinstance(parts, bytes) else text(parts).encode())
            )
        if SUMMARY in ids:
            parts = [{"type": "text", "data": {"text": self._about.get("summary")}}]
            known = {"role": "user", "created_at": self._about.get("summarized_at"), "summary": True}
            found[SUMMARY] = Entry(SUMMARY, (compact_json(known), compact_json(parts)))
        return found
