"""`context-tui formats`: which session files can be read, and which written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from context_tui.cli.options import parse, parser
from context_tui.cli.output import table, write_json
from context_tui.errors import ExitCode
from context_tui.formats.registry import FORMATS

UNSEEN = "; from source, not yet seen on a real file"


def run(arguments: Sequence[str]) -> int:
    """List the formats."""
    options = parser("formats", "List the session formats that can be read, and which of them can be written.")
    options.add_argument("--json", action="store_true", help="print one JSON document")
    given = parse(options, arguments)
    rows = [
        {"name": f.name, "about": f.about, "reads": True, "writes": f.writable, "seen": f.seen}
        for f in FORMATS.values()
    ]
    if given.json:
        broken = [asdict(each) for each in FORMATS.broken]
        write_json({"schema": "context-tui.formats/1", "formats": rows, "broken": broken})
    else:
        table(
            "formats",
            ("format", "can be written", "description"),
            [(r["name"], "yes" if r["writes"] else "no", f"{r['about']}{'' if r['seen'] else UNSEEN}") for r in rows],
        )
    return ExitCode.DONE
