"""defect's sessions: folders with a journal of what was said."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from context_tui.formats.base import WHOLE, Claim, Format, Found, Scanner
from context_tui.formats.defect import folder
from context_tui.formats.defect.shape import JournalShape, SnapshotShape, is_line, message_of
from context_tui.formats.defect.write import resume_command, write
from context_tui.formats.kit.branches import branch_of
from context_tui.formats.kit.document_scanner import (
    DocumentContent,
    DocumentScanner,
    Runs,
    copy_document,
    documents_in,
    title_in_head,
)
from context_tui.formats.kit.documents import Element, Run, members_of, read_runs, runs_in
from context_tui.formats.kit.heads import first_values, head_values
from context_tui.formats.kit.line_scanner import LineScanner, copy_lines, is_all_lines, only_session
from context_tui.formats.kit.values import text_in, title_of
from context_tui.session.losses import Losses
from context_tui.session.session import Session, SessionInfo
from context_tui.session.values import Role

__all__ = ["DefectFormat"]


class DefectFormat(Format):
    """Journals of defect, and its snapshots where there is no journal."""

    name: ClassVar[str] = "defect"
    about: ClassVar[str] = "defect session folders (meta.json, journal.jsonl, snapshot.json)"
    writable: ClassVar[bool] = True
    copies: ClassVar[bool] = True
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl", ".json")
    from_source: ClassVar[str] = WHOLE

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        """By the sequence of its records; a snapshot by what it stands for; a description by the files beside it."""
        objects = [value for value in first_values(head) if isinstance(value, dict)]
        if objects and is_line(objects[0]):
            return Claim(90, "numbered records of a journal")
        if len(objects) == 1 and folder.is_snapshot(objects[0]):
            return Claim(90, "a snapshot of a history")
        if len(objects) == 1 and folder.is_meta(objects[0]) and os.path.isfile(folder.session_file(path)):
            return Claim(90, "the description of a session beside it")
        return None

    def listed(self, path: Path) -> bool:
        """Whether a file is the one of its folder that the session is read from."""
        return path.name not in (folder.META, folder.SNAPSHOT) or folder.session_file(path) == path

    def folder(self, path: Path) -> list[SessionInfo]:
        """The session of a folder with a description, or those of the folders in it."""
        if not folder.about(path):
            return [info for file in folder.sessions_below(path) for info in self.sessions(file)]
        file = folder.session_file(path / folder.META)
        return self.sessions(file) if os.path.isfile(file) else []

    def sessions(self, path: Path) -> list[SessionInfo]:
        """The only session of a folder."""
        file = folder.session_file(path)
        about = folder.about(file.parent) if file.name in (folder.JOURNAL, folder.SNAPSHOT) else {}
        own, cwd = about.get("session_id"), about.get("cwd")
        known = own if isinstance(own, str) else file.parent.name if file.name == folder.JOURNAL else ""
        found = (
            documents_in(file, self.name, SnapshotShape, runs=_RUNS)
            if _is_snapshot_file(file)
            else only_session(file, self.name, self.title(file) or known)
        )
        return [replace(info, cwd=cwd if isinstance(cwd, str) else "") for info in found]

    def beside(self, path: Path) -> Iterable[Path]:
        """The other files of its folder."""
        names = (folder.META, folder.JOURNAL, folder.SNAPSHOT)
        return [path.with_name(name) for name in names if name != path.name]

    def unlisted(self, main: SessionInfo, session_id: str) -> SessionInfo | None:
        """What a turn that failed had said, which defect takes back."""
        return branch_of(main, session_id)

    def scanner(self, path: Path, info: SessionInfo) -> Scanner:
        """A scanner for it."""
        file = Path(info.path)
        if _is_snapshot_file(file):
            return DocumentScanner(file, info, SnapshotShape, runs=_RUNS)
        before = folder.before_journal(file)
        return LineScanner(file, info, partial(JournalShape, before["seq"] if before else -1), first=before)

    def title(self, path: Path) -> str:
        """What was typed first."""
        for value in head_values(path):
            try:
                part = message_of(value["record"]["message"]) if is_line(value) else None
            except (ValueError, LookupError):
                continue
            if part and part.role == Role.USER and (title := title_of(text_in(part.blocks))):
                return title
        return title_in_head(path, SnapshotShape(), _find)

    def kept(self, environ: Mapping[str, str], cwd: Path) -> Iterable[Found]:
        """In the folder of defect's state, one for each session, and in that of the project."""
        return folder.kept(environ, cwd)

    def write(self, session: Session, path: Path) -> Losses:
        """Write the context as a journal."""
        return write(session, path)

    def can_copy(self, session: Session) -> bool:
        """Not a branch, which is only some of the lines."""
        return isinstance(session.content, DocumentContent) or is_all_lines(session)

    def copy(self, session: Session, path: Path) -> list[str] | None:
        """Write the journal as it is, or the snapshot where there is none."""
        notes = copy_document(session, path)
        return copy_lines(session, path) if notes is None else notes

    def resume(self, session: Session, written: Path, out: Path) -> str:
        """The commands that put it where defect looks for sessions, and go on with it."""
        return resume_command(session, written, out)


def _is_snapshot_file(path: Path) -> bool:
    """Whether a file is a snapshot, whatever it is called."""
    return any(map(folder.is_snapshot, head_values(path)[:1]))


def _find(values: list[Element]) -> list[Run]:
    """The history in the state of a snapshot."""
    states = [(members_of(each) or {}).get("state") for each in values]
    return runs_in([each for each in states if each is not None], lists=SnapshotShape.lists)


_RUNS: Runs = partial(read_runs, find=_find)
