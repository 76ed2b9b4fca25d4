"""Read and write sessions of defect, a coding agent for the terminal.

A session is a folder with ``meta.json`` (its description), ``journal.jsonl`` (its messages, one JSON object per line)
and ``snapshot.json`` (the history after the last turn).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from context_tui.formats.base import ALL_FROM_SOURCE, Claim, Format, Scanner
from context_tui.formats.defect import paths, writer
from context_tui.formats.defect.reader import JournalShape, SnapshotShape, is_journal_line, parse_message
from context_tui.formats.kit import blocks, branches, document_scanner, documents, heads, line_scanner
from context_tui.formats.kit.document_scanner import RunReader
from context_tui.formats.kit.values import as_text, format_title
from context_tui.session.session import Session, SessionInfo
from context_tui.session.values import Role


class DefectFormat(Format):
    """The format of defect's journals, and of its snapshots if there is no journal."""

    name: ClassVar[str] = "defect"
    about: ClassVar[str] = "defect session folders (meta.json, journal.jsonl, snapshot.json)"
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl", ".json")
    from_source: ClassVar[str] = ALL_FROM_SOURCE

    find_unlisted = staticmethod(branches.find_branch)
    find_sessions = staticmethod(paths.find_sessions)
    write = staticmethod(writer.write)
    build_resume_command = staticmethod(writer.build_resume_command)

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        """Return a claim if the file is a journal, a snapshot, or a description beside one of these, else None."""
        objects = [value for value in heads.parse_first_values(head) if isinstance(value, dict)]
        if objects and is_journal_line(objects[0]):
            return Claim(90, "numbered records of a journal")
        if len(objects) == 1 and paths.is_snapshot(objects[0]):
            return Claim(90, "a snapshot of a history")
        if len(objects) == 1 and paths.is_meta(objects[0]) and os.path.isfile(paths.find_session_file(path)):
            return Claim(90, "the description of a session beside it")
        return None

    def is_standalone(self, path: Path) -> bool:
        """Return False for a file whose session is read from another file in the same folder."""
        return path.name not in (paths.META_FILE, paths.SNAPSHOT_FILE) or paths.find_session_file(path) == path

    def list_folder_sessions(self, path: Path) -> list[SessionInfo]:
        """Return the session in a folder that has a description, or else the sessions in its subfolders."""
        if not paths.read_meta(path):
            return [info for file in paths.find_sessions_below(path) for info in self.list_sessions(file)]
        file = paths.find_session_file(path / paths.META_FILE)
        return self.list_sessions(file) if os.path.isfile(file) else []

    def list_sessions(self, path: Path) -> list[SessionInfo]:
        file = paths.find_session_file(path)
        meta = paths.read_meta(file.parent) if file.name in (paths.JOURNAL_FILE, paths.SNAPSHOT_FILE) else {}
        meta_id, cwd = meta.get("session_id"), meta.get("cwd")
        folder_id = file.parent.name if file.name == paths.JOURNAL_FILE else ""
        session_id = meta_id if isinstance(meta_id, str) else folder_id
        if _is_snapshot_file(file):
            sessions = document_scanner.list_document_sessions(file, self.name, SnapshotShape, _SNAPSHOT_RUNS(file))
        else:
            sessions = line_scanner.list_only_session(file, self.name, self.read_title(file) or session_id)
        return [replace(info, cwd=as_text(cwd)) for info in sessions]

    def related_files(self, path: Path) -> Iterable[Path]:
        names = (paths.META_FILE, paths.JOURNAL_FILE, paths.SNAPSHOT_FILE)
        return [path.with_name(name) for name in names if name != path.name]

    def make_scanner(self, path: Path, info: SessionInfo) -> Scanner:
        file = Path(info.path)
        if _is_snapshot_file(file):
            return document_scanner.DocumentScanner(file, info, SnapshotShape, read_runs=_SNAPSHOT_RUNS)
        base = paths.read_journal_base(file)
        return line_scanner.LineScanner(file, info, partial(JournalShape, base["seq"] if base else -1), first=base)

    def read_title(self, path: Path) -> str:
        for value in heads.read_first_objects(path):
            try:
                message = parse_message(value["record"]["message"]) if is_journal_line(value) else None
            except (ValueError, LookupError):
                continue
            if message and message.role == Role.USER and (title := format_title(blocks.extract_text(message.blocks))):
                return title
        return document_scanner.read_document_title(path, SnapshotShape(), _find_history)

    def can_copy(self, session: Session) -> bool:
        """Return whether the session is the whole file, and not a branch, whose lines are only a part of the file."""
        return isinstance(session.content, document_scanner.DocumentContent) or line_scanner.is_whole_file(session)

    def copy(self, session: Session, path: Path) -> list[str] | None:
        notes = document_scanner.copy_document(session, path)
        return line_scanner.copy_lines(session, path) if notes is None else notes


def _is_snapshot_file(path: Path) -> bool:
    return any(map(paths.is_snapshot, heads.read_first_objects(path)[:1]))


def _find_history(values: list[documents.Element]) -> list[documents.Run]:
    states = [(documents.decode_members(each) or {}).get("state") for each in values]
    return documents.find_runs([each for each in states if each is not None], lists=SnapshotShape.lists)


_SNAPSHOT_RUNS: RunReader = partial(documents.read_runs, finder=_find_history)
