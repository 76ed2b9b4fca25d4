"""Output of commands: ASCII JSON and tables on stdout, notices and questions to the user on stderr."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterable, Sequence
from itertools import compress
from pathlib import Path
from typing import Any

from context_tui.app.plugins import BrokenPlugin
from context_tui.session.session import Session
from context_tui.text.files import find_leftovers, remove_leftover
from context_tui.text.numbers import format_count
from context_tui.text.sanitize import make_visible, sanitize_line


def write_json(value: Any, indent: int | None = 2) -> None:
    """Print a value as an ASCII JSON document, on one line if *indent* is None."""
    json.dump(value, sys.stdout, ensure_ascii=True, indent=indent)
    sys.stdout.write("\n")


def print_lines(*lines: str) -> None:
    """Print lines to stdout without any characters that a terminal would interpret."""
    for line in lines:
        print(sanitize_line(line))


def print_notice(text: str, about: str = "context-tui") -> None:
    """Print an error or notice to stderr, with *about* before it and with control characters made visible."""
    print(f"{about}: {make_visible(text)}", file=sys.stderr)


def pick_fields(value: object, names: Iterable[str]) -> dict[str, Any]:
    """Return the named attributes of a value as a dictionary, in the order of *names*."""
    return {name: getattr(value, name) for name in names}


def build_session_name(session: Session) -> dict[str, Any]:
    """Build the ``session`` member of a JSON report: the session's path, format and id."""
    return pick_fields(session.info, ("path", "format", "id"))


def build_plugin_report(plugin: BrokenPlugin) -> dict[str, str]:
    """Build the JSON report on a format or policy plug-in that cannot be used."""
    return {"name": plugin.name, "package": plugin.package, "why": plugin.reason}


def shorten_names(names: Iterable[str]) -> dict[str, str]:
    """Return each session name mapped to a path relative to the folder that all of them have in common."""
    names = list(names)
    folder = os.path.commonpath([os.path.dirname(os.path.abspath(name)) for name in names]) if names else ""
    return {name: os.path.relpath(os.path.abspath(name), folder) for name in names}


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    limit: int | None = None,
    hint: str = "",
    optional: Sequence[str] = (),
) -> None:
    """Print a table, ruled on a terminal, and below it the number of rows beyond *limit*, with a *hint*.

    An *optional* column is left out if all of its cells are empty or None. Without rows, nothing is printed.
    """
    rows = list(rows)
    if not rows:
        return
    filled = [head not in optional or any(row[n] not in ("", None) for row in rows) for n, head in enumerate(columns)]
    columns = list(compress(columns, filled))
    texts = [[_format_cell(value) for value in compress(row, filled)] for row in rows[:limit]]
    right_aligned = [all(_is_number(row[column]) for row in texts) for column in range(len(columns))]
    if sys.stdout.isatty():
        _draw_table(title, columns, texts, right_aligned)
    else:
        if title:
            print(f"\n{title}")
        widths = [max(len(line[column]) for line in [columns, *texts]) for column in range(len(columns))]
        for line in [columns, *texts]:
            cells = [
                cell.rjust(width) if is_right_aligned else cell.ljust(width)
                for cell, width, is_right_aligned in zip(line, widths, right_aligned, strict=True)
            ]
            print("  " + "  ".join(cells).rstrip())
    if len(rows) > len(texts):
        print_lines(f"  {len(rows) - len(texts):,} more; --json lists all{hint}")


def _draw_table(title: str, columns: Sequence[str], rows: list[list[str]], right_aligned: list[bool]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    heading = Text(title, style="bold") if title else None
    table = Table(title=heading, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for name, is_right_aligned in zip(columns, right_aligned, strict=True):
        table.add_column(name, justify="right" if is_right_aligned else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console(highlight=False).print(table)


def _format_cell(value: object) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return sanitize_line(str(value))


def _is_number(text: str) -> bool:
    return text in ("", "unknown") or text.rstrip("%").strip().replace(",", "").replace("-", "").isdigit()


def offer_leftover_removal(folder: Path) -> None:
    """Report folders that killed runs left in *folder* and, on a terminal, offer to remove them."""
    leftovers = find_leftovers(folder)
    if not leftovers:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        for each in leftovers:
            remedy = f"remove it with: rm -r {shlex.quote(str(each))}"
            print_notice(f"{each}: left by a run that was killed, with a copy of a session in it; {remedy}")
        return
    count = format_count(len(leftovers), "folder")
    print_notice(f"{folder}: {count} left by runs that were killed, each with a copy of a session in it:")
    for each in leftovers:
        print(f"  {make_visible(each.name)}", file=sys.stderr)
    print("remove them? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        removed_count = sum(map(remove_leftover, leftovers))
        print_notice(f"{removed_count:,} of {count} removed")
