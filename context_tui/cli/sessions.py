"""`context-tui sessions`: the sessions of every agent on this machine, or those at some paths."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from context_tui.cli.options import named, one_of, parse, parser
from context_tui.cli.output import counted, say, table, talk, write_json
from context_tui.errors import ExitCode
from context_tui.formats.registry import FORMATS
from context_tui.library.cache import Details, cache_path
from context_tui.library.discover import (
    HERE,
    Entry,
    Key,
    entries_at,
    is_database,
    project,
    recorded_sessions,
    title_of,
    unfolded,
)
from context_tui.library.summary import Look, Reader
from context_tui.text.numbers import format_age, format_bytes, format_percent, format_tokens
from context_tui.text.sanitize import make_visible

SHOWN = 50
"""How many are listed where no number is given."""
TITLE = 48
"""Characters of a title in the table."""


@dataclass(frozen=True)
class Listed:
    """A session, what is known of it, and how far below another it stands."""

    entry: Entry
    title: str
    look: Look
    parent: Entry | None = None

    @property
    def project(self) -> str:
        """The name of its project's folder."""
        return project(self.entry, self.look.cwd)

    @property
    def agent(self) -> str:
        """Its format."""
        return self.look.agent or self.entry.agent


def run(arguments: Sequence[str]) -> int:
    """List sessions, newest first."""
    options = parser("sessions", "List the sessions of every agent on this machine, newest first.")
    options.add_argument("paths", nargs="*", type=named, metavar="PATH", help="list those of a file, folder, database")
    options.add_argument("--agent", type=one_of("format", list(FORMATS)), metavar="FORMAT", help="only of this format")
    options.add_argument("--project", type=named, metavar="TEXT", help="only of projects with TEXT in their name")
    options.add_argument("--text", type=named, metavar="TEXT", help="only with every word in name, title or project")
    options.add_argument("--here", action="store_true", help="only those of the current folder's project")
    options.add_argument(
        "--limit", type=_limit, default=SHOWN, metavar="N", help=f"how many at most; 0 for all (default: {SHOWN})"
    )
    options.add_argument("--brief", action="store_true", help="read no session: names, times and sizes only")
    options.add_argument("--json", action="store_true", help="print one JSON document")
    given = parse(options, arguments)
    found = _found(given.paths)
    details = Details(cache_path())
    reader = Reader(details)
    try:
        wanted = _matching(found, given, reader)
        wanted.sort(key=lambda entry: -entry.info.time)
        shown = wanted[: given.limit or None]
        looks = {entry.key: _look(entry, reader, brief=given.brief) for entry in shown}
        rows = [row for nested in _nested(shown, looks) for row in _rows(nested, looks, reader, brief=given.brief)]
    finally:
        details.close()
    if given.json:
        sessions = [_json(row) for row in rows]
        write_json({"schema": "context-tui.sessions/1", "total": len(wanted), "sessions": sessions})
    else:
        _print(rows)
        if not rows:
            talk("no sessions found" + ("" if found else "; name a file or folder to list what is in it"))
    if len(shown) < len(wanted):
        talk(f"{len(shown):,} of {counted(len(wanted), 'session')}; --limit 0 lists all")
    return ExitCode.DONE


def _limit(text: str) -> int:
    from argparse import ArgumentTypeError

    if not text.isascii() or not text.isdigit():
        raise ArgumentTypeError(f"{text!r} is not a number of sessions; give 0 or more")
    return int(text)


def _found(paths: Sequence[str]) -> list[Entry]:
    if paths:
        return [entry for path in paths for entry in entries_at(path)]
    return [
        each
        for entry in recorded_sessions()
        for each in (unfolded(entry) if is_database(entry.info.path) and not entry.info.id else [entry])
    ]


def _matching(found: Sequence[Entry], given: Any, reader: Reader) -> list[Entry]:
    """Those that were asked for. What their names do not tell is read from their heads."""
    entries = [entry for entry in found if given.agent in (None, entry.agent) or not entry.agent]
    if given.here or given.project or (given.agent and not all(entry.agent for entry in entries)):
        entries = [reader.placed(entry) for entry in entries]
    entries = [entry for entry in entries if given.agent in (None, entry.agent)]
    if given.here:
        entries = [entry for entry in entries if entry.group == HERE or _is_here(entry)]
    if given.project:
        text = given.project.casefold()
        entries = [entry for entry in entries if text in entry.place.casefold() or text in _folder(entry).casefold()]
    if given.text:
        words = given.text.casefold().split()
        entries = [entry for entry in entries if _holds(entry, words, reader, brief=given.brief)]
    return entries


def _folder(entry: Entry) -> str:
    """The name of the folder that a session's file is in: some agents name it after the path of the project."""
    return os.path.basename(os.path.dirname(entry.info.path))


def _is_here(entry: Entry) -> bool:
    return bool(entry.info.cwd) and os.path.abspath(entry.info.cwd) == os.getcwd()


def _holds(entry: Entry, words: Sequence[str], reader: Reader, *, brief: bool) -> bool:
    text = f"{entry.name} {entry.info.title} {entry.place} {entry.agent} {entry.info.path}".casefold()
    if not all(word in text for word in words) and not brief:
        text = f"{text} {reader.title(entry.info)}".casefold()
    return all(word in text for word in words)


def _look(entry: Entry, reader: Reader, *, brief: bool) -> Look:
    return Look(entry.agent, cwd=entry.info.cwd) if brief else reader.look(entry)


def _nested(entries: Sequence[Entry], looks: Mapping[Key, Look]) -> Iterator[tuple[Entry, Entry | None]]:
    """Each with the one of them that it belongs to, right behind that."""
    by_name = {entry.spec: entry for entry in entries}
    parents = {entry.key: by_name.get(entry.info.parent or looks[entry.key].parent) for entry in entries}
    inner: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        if parent := parents[entry.key]:
            inner.setdefault(parent.key, []).append(entry)
    seen = set()
    for outer in (each for each in entries if parents[each.key] is None):
        pending = [outer]
        while pending:
            entry = pending.pop()
            if entry.key not in seen:
                seen.add(entry.key)
                yield entry, parents[entry.key]
                pending += reversed(inner.get(entry.key, ()))
    yield from ((entry, None) for entry in entries if entry.key not in seen)  # each other's: a file may say so


def _rows(
    nested: tuple[Entry, Entry | None], looks: Mapping[Key, Look], reader: Reader, *, brief: bool
) -> Iterator[Listed]:
    """A session, and what belongs to it and is not listed for itself."""
    entry, parent = nested
    look = looks[entry.key]
    yield Listed(entry, entry.info.title if brief else reader.title(entry.info), look, parent)
    for below in look.below:
        if below.key not in looks:
            told = Look(below.agent, cwd=look.cwd)
            yield Listed(replace(below, place=entry.place), title_of(below.info) or below.about, told, entry)


def _json(row: Listed) -> dict[str, Any]:
    info, look = row.entry.info, row.look
    return {
        "path": info.path,
        "id": info.id,
        "parent": row.parent.spec if row.parent else info.parent or None,
        "agent": row.agent,
        "project": row.project,
        "cwd": look.cwd or info.cwd or None,
        "here": row.entry.group == HERE or _is_here(row.entry),
        "title": row.title,
        "model": look.model or None,
        "time": info.time or None,
        "age_seconds": max(round(time.time() - info.time), 0) if info.time else None,
        "bytes": look.bytes or info.bytes or None,
        "context": {"recorded_tokens": look.tokens, "window": look.window},
        "compactions": look.compactions,
        "problem": look.problem or None,
    }


def _print(rows: Sequence[Listed]) -> None:
    now, lines = time.time(), []
    for row in rows:
        info, look = row.entry.info, row.look
        title = " ".join((row.title or ("cannot be read" if look.problem else "")).split())
        mark = "└ " if row.parent else ""
        lines.append(
            (
                format_age(now - info.time) if info.time else "",
                format_bytes(look.bytes or info.bytes),
                make_visible(row.agent),
                make_visible(row.project),
                look.model,
                "" if look.tokens is None else format_tokens(look.tokens),
                "" if look.tokens is None or not look.window else format_percent(look.tokens / look.window),
                "" if look.compactions is None else str(look.compactions),
                mark + (title if len(title) <= TITLE else f"{title[: TITLE - 1]}…"),
                make_visible(row.entry.spec),
            )
        )
    heads = ("age", "size", "agent", "project", "model", "context", "full", "compactions", "title", "session")
    used = [n for n, head in enumerate(heads) if head in ("age", "title", "session") or any(line[n] for line in lines)]
    table("sessions", [heads[n] for n in used], [[line[n] for n in used] for line in lines])
    for row in rows:
        if row.look.problem:
            say(row.look.problem)
