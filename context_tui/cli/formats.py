"""``context-tui formats``: list the session formats and whether each can be written."""

from __future__ import annotations

from collections.abc import Sequence

from context_tui.cli.options import CommandParser
from context_tui.cli.output import build_plugin_report, print_table, write_json
from context_tui.errors import ExitCode
from context_tui.formats.base import ALL_FROM_SOURCE, Format
from context_tui.formats.registry import FORMATS


def run(arguments: Sequence[str]) -> int:
    """Print the session formats, as a table or as JSON, and return the exit code."""
    options = CommandParser("formats").parse(arguments)
    formats = list(FORMATS.values())
    if options.json:
        rows = [
            {"name": f.name, "about": f.about, "reads": True, "writes": f.writable}
            | {"from_source": f.from_source, "checked_with": f.checked_with}
            for f in formats
        ]
        broken = [build_plugin_report(each) for each in FORMATS.broken]
        write_json({"schema": "context-tui.formats/1", "formats": rows, "broken": broken})
    else:
        lines = [(f.name, "yes" if f.writable else "no", f.checked_with, f.about + _format_unseen(f)) for f in formats]
        print_table("formats", ("format", "can be written", "checked with version", "description"), lines)
    return ExitCode.DONE


def _format_unseen(definition: Format) -> str:
    part = definition.from_source
    note = "; from source, not yet verified on a real file" if part else ""
    return note if part in ("", ALL_FROM_SOURCE) else f"{note}: {part}"
