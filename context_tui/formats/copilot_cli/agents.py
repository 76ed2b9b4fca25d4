"""The sub-agents whose events stand among those of a session."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from context_tui.formats.kit.lines import LineFile, lines_with
from context_tui.formats.kit.values import as_id
from context_tui.session.jsontext import loads

_STARTED = re.compile(rb'"subagent\.started"')


class Agent(NamedTuple):
    """A sub-agent: what its events name, the call that started it, and its own name."""

    id: str
    call: str
    name: str


def agents_in(path: Path) -> Iterator[Agent]:
    """The sub-agents that were started, in the order of the file.

    Raises:
        UnreadableSession: it cannot be read.
    """
    file, known = LineFile(path), set[str]()
    try:
        for line in lines_with(file, _STARTED):
            try:
                record = loads(line)
            except ValueError:
                continue
            data = record.get("data") if isinstance(record, dict) else None
            if not isinstance(data, dict) or record.get("type") != "subagent.started":
                continue
            call = as_id(data.get("toolCallId"))
            own = as_id(record.get("agentId")) or call
            if own and own not in known:
                known.add(own)
                yield Agent(own, call, as_id(data.get("agentDisplayName") or data.get("agentName")))
    finally:
        file.close()
