"""``context-tui sessions``: list the sessions that agents recorded on this machine, or those at given paths."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from context_tui.cli.options import CommandParser, build_choice_type
from context_tui.cli.output import print_lines, print_notice, print_table, write_json
from context_tui.errors import ExitCode
from context_tui.formats.kit.files import find_working_folder
from context_tui.formats.registry import FORMATS
from context_tui.library import discovery
from context_tui.library.cache import SessionCache, find_cache_path
from context_tui.library.discovery import SessionEntry, SessionKey
from context_tui.library.overview import OverviewReader, SessionOverview
from context_tui.text.numbers import format_age, format_bytes, format_count, format_percent, format_tokens
from context_tui.text.sanitize import make_visible

MAX_TITLE_WIDTH = 48


class SessionRow(NamedTuple):
    """A row in the list of sessions: a session with its title, its overview, and its parent session if it has one."""

    entry: SessionEntry
    title: str
    overview: SessionOverview
    parent: SessionEntry | None = None

    @property
    def project(self) -> str:
        """The name of the project folder that the session belongs to."""
        return discovery.find_project_name(self.entry, self.overview.cwd)

    @property
    def agent(self) -> str:
        """The name of the session's format."""
        return self.overview.agent or self.entry.agent


def run(arguments: Sequence[str]) -> int:
    """List sessions from the newest to the oldest, and return the exit code."""
    options = CommandParser("sessions", {"format": build_choice_type("format", list(FORMATS))}).parse(arguments)
    entries = _find_entries(options.paths)
    cache = SessionCache(find_cache_path())
    reader = OverviewReader(cache)
    try:
        matches = _filter_entries(entries, options, reader)
        matches.sort(key=lambda entry: -entry.info.time)
        page = matches[: options.limit or None]
        if options.brief:
            overviews = {entry.key: SessionOverview(entry.agent, cwd=entry.info.cwd) for entry in page}
        else:
            overviews = {entry.key: reader.read_overview(entry) for entry in page}
        rows = list[SessionRow]()
        for nested in _nest_entries(page, overviews):
            rows += _build_rows(nested, overviews, reader, brief=options.brief)
    finally:
        cache.close()
    if options.json:
        sessions = [_build_row_report(row) for row in rows]
        write_json({"schema": "context-tui.sessions/1", "total": len(matches), "sessions": sessions})
    else:
        _print_rows(rows)
        if not rows:
            print_notice("no sessions found" + ("" if entries else "; name a file or folder to list what is in it"))
    if len(page) < len(matches):
        print_notice(f"{len(page):,} of {format_count(len(matches), 'session')}; --limit 0 lists all")
    return ExitCode.DONE


def _find_entries(paths: Sequence[str]) -> list[SessionEntry]:
    if paths:
        return [entry for path in paths for entry in discovery.build_entries(discovery.find_session_infos(path))]
    entries: list[SessionEntry] = []
    for entry in discovery.find_recorded_sessions():
        is_whole_database = discovery.is_database(entry.info.path) and not entry.info.id
        entries += discovery.list_database_sessions(entry) if is_whole_database else [entry]
    return entries


def _filter_entries(entries: Sequence[SessionEntry], options: Any, reader: OverviewReader) -> list[SessionEntry]:
    """Return the entries that match the options; the start of a file is read only if its name is not enough."""
    matches = [entry for entry in entries if options.agent in (None, entry.agent) or not entry.agent]
    if options.here or options.project or (options.agent and not all(entry.agent for entry in matches)):
        matches = [reader.read_place(entry) for entry in matches]
    matches = [entry for entry in matches if options.agent in (None, entry.agent)]
    if options.here:
        matches = [entry for entry in matches if entry.group == discovery.THIS_PROJECT or _is_in_working_folder(entry)]
    if options.project:
        text = options.project.casefold()
        # Some agents name the folder of a session's file after the path of the project.
        places = {entry.key: (entry.place, os.path.basename(os.path.dirname(entry.info.path))) for entry in matches}
        matches = [entry for entry in matches if any(text in each.casefold() for each in places[entry.key])]
    if options.text:
        words = options.text.casefold().split()
        matches = [entry for entry in matches if _has_words(entry, words, reader, brief=options.brief)]
    return matches


def _is_in_working_folder(entry: SessionEntry) -> bool:
    working_folder = find_working_folder()
    return bool(entry.info.cwd) and os.path.normpath(working_folder / entry.info.cwd) == str(working_folder)


def _has_words(entry: SessionEntry, words: Sequence[str], reader: OverviewReader, *, brief: bool) -> bool:
    text = f"{entry.name} {entry.info.title} {entry.place} {entry.agent} {entry.info.path}".casefold()
    if not all(word in text for word in words) and not brief:
        text = f"{text} {reader.read_title(entry.info)}".casefold()
    return all(word in text for word in words)


def _nest_entries(
    entries: Sequence[SessionEntry], overviews: Mapping[SessionKey, SessionOverview]
) -> Iterator[tuple[SessionEntry, SessionEntry | None]]:
    by_name = {entry.info.spec: entry for entry in entries}
    parents = {entry.key: by_name.get(entry.info.parent or overviews[entry.key].parent) for entry in entries}
    children: dict[tuple[str, str], list[SessionEntry]] = {}
    for entry in entries:
        if parent := parents[entry.key]:
            children.setdefault(parent.key, []).append(entry)
    seen_keys = set()
    for root in (each for each in entries if parents[each.key] is None):
        pending = [root]
        while pending:
            entry = pending.pop()
            if entry.key not in seen_keys:
                seen_keys.add(entry.key)
                yield entry, parents[entry.key]
                pending += reversed(children.get(entry.key, ()))
    # Files may name each other as parents.
    yield from ((entry, None) for entry in entries if entry.key not in seen_keys)


def _build_rows(
    nested: tuple[SessionEntry, SessionEntry | None],
    overviews: Mapping[SessionKey, SessionOverview],
    reader: OverviewReader,
    *,
    brief: bool,
) -> Iterator[SessionRow]:
    entry, parent = nested
    overview = overviews[entry.key]
    yield SessionRow(entry, entry.info.title if brief else reader.read_title(entry.info), overview, parent)
    for child in overview.children:
        if child.key not in overviews:
            child_overview = SessionOverview(child.agent, cwd=overview.cwd)
            title = discovery.find_title(child.info) or child.about
            yield SessionRow(replace(child, place=entry.place), title, child_overview, entry)


def _build_row_report(row: SessionRow) -> dict[str, Any]:
    info, overview = row.entry.info, row.overview
    return {
        "path": info.path,
        "id": info.id,
        "parent": row.parent.info.spec if row.parent else info.parent or None,
        "agent": row.agent,
        "project": row.project,
        "cwd": overview.cwd or info.cwd or None,
        "here": row.entry.group == discovery.THIS_PROJECT or _is_in_working_folder(row.entry),
        "title": row.title,
        "model": overview.model or None,
        "time": info.time or None,
        "age_seconds": max(round(time.time() - info.time), 0) if info.time else None,
        "bytes": overview.bytes or info.bytes or None,
        "context": {"recorded_tokens": overview.tokens, "window": overview.window},
        "compactions": overview.compactions,
        "problem": overview.problem or None,
    }


def _print_rows(rows: Sequence[SessionRow]) -> None:
    now, lines = time.time(), []
    for row in rows:
        info, overview = row.entry.info, row.overview
        title = " ".join((row.title or ("cannot be read" if overview.problem else "")).split())
        branch_sign = "└ " if row.parent else ""
        lines.append(
            (
                format_age(now - info.time) if info.time else "",
                format_bytes(overview.bytes or info.bytes),
                make_visible(row.agent),
                make_visible(row.project),
                overview.model,
                "" if overview.tokens is None else format_tokens(overview.tokens),
                "" if overview.share is None else format_percent(overview.share),
                "" if overview.compactions is None else str(overview.compactions),
                branch_sign + (title if len(title) <= MAX_TITLE_WIDTH else f"{title[: MAX_TITLE_WIDTH - 1]}…"),
                make_visible(info.spec),
            )
        )
    heads = ("age", "size", "agent", "project", "model", "context", "full", "compactions", "title", "session")
    print_table("sessions", heads, lines, optional=heads[1:-2])
    for row in rows:
        if row.overview.problem:
            print_lines(row.overview.problem)
