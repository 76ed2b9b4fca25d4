"""What a look through the bytes of a file tells: sub-agents, whose records name the call that started them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from context_tui.formats.agent_sdk.shape import AgentSdkShape, find_parent_call
from context_tui.formats.kit.lines import MAX_SEARCHED_BYTES, LineFile, find_matching_lines
from context_tui.formats.kit.values import extract_text, format_title
from context_tui.session.jsontext import loads
from context_tui.session.values import Role

_PARENT_CALL = re.compile(rb'"parent_tool_use_id"\s*:\s*"([^"\\]+)"')


class Subagent(NamedTuple):
    """A sub-agent: the id of the call that started it, and what it was asked first, where that is said."""

    id: str
    title: str


def find_subagents(path: Path) -> Iterator[Subagent]:
    """The sub-agents that say something, in the order of the file.

    Raises:
        UnreadableSession: it cannot be read.
    """
    file, known = LineFile(path), set[bytes]()
    try:
        for line in find_matching_lines(file, _PARENT_CALL, known):
            try:
                record = loads(line)
                own = find_parent_call(record) if isinstance(record, dict) else ""
                part = AgentSdkShape(agent=own).parse(record)
            except ValueError:
                continue
            if own and (name := own.encode("utf-8", "replace")) not in known:
                known.add(name)
                asked = part.role == Role.USER and not part.has_results
                yield Subagent(own, (format_title(extract_text(part.blocks)) if asked else "") or own)
    finally:
        file.close()


def is_compacted(path: Path) -> bool:
    """Whether a file tells of a compaction.

    Raises:
        UnreadableSession: it cannot be read.
    """
    file = LineFile(path)
    try:
        return file.data.find(b'"compact_boundary"', 0, MAX_SEARCHED_BYTES) >= 0
    finally:
        file.close()
