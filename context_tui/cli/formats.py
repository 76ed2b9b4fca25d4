"""`context-tui formats`: which session files can be read, and which written."""

from __future__ import annotations

from collections.abc import Sequence

from context_tui.cli.options import parse, parser
from context_tui.cli.output import broken_report, table, write_json
from context_tui.errors import ExitCode
from context_tui.formats.base import WHOLE
from context_tui.formats.registry import FORMATS

UNSEEN = "; from source, not yet seen on a real file"


def run(arguments: Sequence[str]) -> int:
    """List the formats."""
    options = parser("formats", "List the session formats that can be read, and which of them can be written.")
    options.add_argument("--json", action="store_true", help="print one JSON document")
    given = parse(options, arguments)
    known = list(FORMATS.values())
    if given.json:
        rows = [
            {"name": f.name, "about": f.about, "reads": True, "writes": f.writable, "from_source": f.from_source}
            for f in known
        ]
        broken = [broken_report(each) for each in FORMATS.broken]
        write_json({"schema": "context-tui.formats/1", "formats": rows, "broken": broken})
    else:
        table(
            "formats",
            ("format", "can be written", "description"),
            [(f.name, "yes" if f.writable else "no", f"{f.about}{_unseen(f.from_source)}") for f in known],
        )
    return ExitCode.DONE


def _unseen(part: str) -> str:
    return f"{UNSEEN}{'' if part == WHOLE else f': {part}'}" if part else ""
