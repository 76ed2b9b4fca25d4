"""``context-tui demo``: open the inspector on a bundled sample in which microcompaction and full compaction fire."""

from __future__ import annotations

from collections.abc import Sequence

from context_tui.cli import browse
from context_tui.cli.options import CommandParser
from context_tui.errors import UnreadableSession
from context_tui.library.discovery import find_samples

SAMPLE = "coding-session"
"""Sample opened by the demo; its context ends above both thresholds of the defect runtime."""


def run(arguments: Sequence[str]) -> int:
    """Open the sample in the inspector or, without a terminal, print a report on it; return the exit code."""
    options = CommandParser("demo").parse(arguments)
    path = next((entry.info.path for entry in find_samples() if SAMPLE in entry.info.path), None)
    if path is None:
        raise UnreadableSession("the sample sessions are missing from this installation; reinstall context-tui")
    return browse.open_inspector([path], options, demo=True)
