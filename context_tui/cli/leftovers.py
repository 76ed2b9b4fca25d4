"""What killed runs left behind: offered for removal on a terminal, named with the remedy anywhere else."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from context_tui.cli.output import format_count, print_notice
from context_tui.text.private_files import find_leftovers, remove_leftover
from context_tui.text.sanitize import make_visible


def offer_leftover_removal(folder: Path) -> None:
    """Tell of the leftovers in *folder*, and remove them if that is wanted."""
    found = find_leftovers(folder)
    if not found:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        for each in found:
            name = shlex.quote(str(each))
            print_notice(
                f"{each}: left by a run that was killed, with a copy of a session in it; remove it with: rm -r {name}"
            )
        return
    what = format_count(len(found), "folder")
    print_notice(f"{folder}: {what} left by runs that were killed, each with a copy of a session in it:")
    for each in found:
        print(f"  {make_visible(each.name)}", file=sys.stderr)
    print("remove them? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        gone = sum(map(remove_leftover, found))
        print_notice(f"{gone:,} of {what} removed")
