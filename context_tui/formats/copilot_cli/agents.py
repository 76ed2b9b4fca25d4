"""The sub-agents whose events stand among those of a session."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from context_tui.formats.kit.lines import LineFile, find_matching_lines
from context_tui.formats.kit.values import parse_id
from context_tui.session.jsontext import loads

_SUBAGENT_STARTED = re.compile(rb'"subagent\.started"')


class Subagent(NamedTuple):
    """A sub-agent: what its events name, the call that started it, and its own name."""

    id: str
    call: str
    name: str


def find_subagents(path: Path) -> Iterator[Subagent]:
    """The sub-agents that were started, in the order of the file.

    Raises:
        UnreadableSession: it cannot be read.
    """
    file, known = LineFile(path), set[str]()
    try:
        for line in find_matching_lines(file, _SUBAGENT_STARTED):
            try:
                record = loads(line)
            except ValueError:
                continue
            data = record.get("data") if isinstance(record, dict) else None
            if not isinstance(data, dict) or record.get("type") != "subagent.started":
                continue
            call = parse_id(data.get("toolCallId"))
            own = parse_id(record.get("agentId")) or call
            if own and own not in known:
                known.add(own)
                yield Subagent(own, call, parse_id(data.get("agentDisplayName") or data.get("agentName")))
    finally:
        file.close()
