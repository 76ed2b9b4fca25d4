"""Copying a session as it was recorded: the lines themselves, with usage, metadata, sidechains and branches.

A sidechain or a branch is copied as a file of its own: the lines that it was read from, in the order of the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from context_tui.formats.claude_code import parsing
from context_tui.formats.claude_code.content import ClaudeCodeContent
from context_tui.formats.claude_code.scan import UNNAMED_SIDECHAIN
from context_tui.formats.claude_code.siblings import AgentFiles, list_sessions
from context_tui.formats.kit.branches import BRANCH_PREFIX
from context_tui.session.session import Session
from context_tui.session.values import RecordKind


def copy(session: Session, path: Path) -> list[str] | None:
    """Write the lines of *session* to the new file *path*.

    Returns:
        What stays behind, in words; None for a session that was not read from lines.
    """
    content, source = session.content, Path(session.info.path)
    if not isinstance(content, ClaudeCodeContent):
        return None
    facts, file = content.facts, content.file
    listed = list_sessions(source, AgentFiles())
    beside = sum(1 for each in listed if each.path != str(source))
    with path.open("xb") as out:
        if session.info.id and session.info.id != listed[0].id:
            out.writelines(content.read_line(row) + b"\n" for row in _find_own_records(session, content))
            return []
        ends = (place + length for place, length in zip(facts.record_place, facts.record_length, strict=True))
        file.copy_to(max(ends, default=0), out)
        left = os.stat(file.descriptor).st_size - out.tell()
    return [
        *([f"not in the copy: {left:,} bytes at the end of the file that were not read"] if left else []),
        *([f"not in the copy: sub-agents that have files of their own: {beside:,}"] if beside else []),
    ]


def _find_own_records(session: Session, content: ClaudeCodeContent) -> Iterator[int]:
    """The records of a sidechain or branch, and those that cannot be read, which may be anyone's."""
    facts, chain = content.facts, session.info.id
    branch = chain.startswith(BRANCH_PREFIX)
    for row, kind in enumerate(facts.record_kind):
        if kind == RecordKind.PROBLEM or facts.record_message[row] >= 0:
            yield row
        elif branch:
            if kind != RecordKind.MESSAGE:
                yield row
        else:
            record = parsing.parse_line(content.read_line(row))
            if record.isSidechain and (record.agentId or UNNAMED_SIDECHAIN) == chain:
                yield row
