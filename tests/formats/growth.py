"""A session that grows line by line tells at every step what a fresh reading tells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from context_tui.cli.inspect import build_report
from context_tui.formats.base import scan
from context_tui.formats.opening import choose_session, make_scanner
from context_tui.session.session import Session
from context_tui.tokens.restored_files import Restoration
from tests.formats.histories import columns


def list_restored(session: Session) -> list[int]:
    """The tokens that an agent would put back after a summary of each context; what was read is kept for the next."""
    return [Restoration().estimate(session.context_at(at)) for at in range(len(session) + 1)]


def check_growth(path: Path, first: Any, *records: Any) -> None:
    """Write the *first* record to *path* and then the others, in halves, and hold each step against a new scan."""
    path.write_text(json.dumps(first) + "\n")
    info = choose_session(path)
    growing = make_scanner(info)
    for record in records:
        growing.advance()
        growing.session()
        line = json.dumps(record) + "\n"
        for half in (line[: len(line) // 2], line[len(line) // 2 :]):  # a torn line stands there for a while
            with path.open("a") as file:
                file.write(half)
            growing.advance()
        session, fresh = growing.session(), scan(make_scanner(info))
        assert build_report(session, timeline=True) == build_report(fresh, timeline=True)
        assert session.to_messages() == fresh.to_messages()
        assert list_restored(session) == list_restored(fresh)
        assert columns(session.facts) == columns(fresh.facts)
