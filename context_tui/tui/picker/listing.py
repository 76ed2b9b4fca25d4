"""Listing of the picker: its groups, folded subagents, filter, order and cursor. Independent of Textual."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import chain

from context_tui.library.discovery import (
    GROUPS,
    OTHER_PROJECTS,
    THIS_PROJECT,
    SessionEntry,
    SessionKey,
    find_project_name,
)
from context_tui.library.overview import SessionOverview

MAX_UNFOLDED = 5
"""Maximum number of children with which a session is unfolded at first."""


class SessionOrder(Enum):
    """The order in which the picker lists the sessions of each group; the value is its name on screen."""

    AS_FOUND = "newest first"
    SIZE = "largest first"
    CONTEXT = "fullest context first"
    PROJECT = "by project"


@dataclass(eq=False, slots=True)
class SessionItem:
    """A session in the picker's list, with its subagents and branches as ``children``.

    ``is_unfolded`` is set if the children are unfolded, and ``shows_children`` if any of them is listed.
    """

    entry: SessionEntry
    parent: SessionItem | None = None
    children: tuple[SessionItem, ...] = ()
    is_unfolded: bool = False
    shows_children: bool = False
    summary: SessionOverview | None = None
    read_title: str = ""
    search_text: str = ""
    key: SessionKey = field(init=False)

    def __post_init__(self) -> None:
        self.key = self.entry.key

    @property
    def title(self) -> str:
        """The session's title, or "" if it has none."""
        title = self.entry.info.title
        if title and title not in (self.entry.name, self.entry.file_name):
            return title
        return self.read_title or self.entry.about

    @property
    def project_name(self) -> str:
        """The name of the project folder, or "" if unknown."""
        return find_project_name(self.entry, self.summary.cwd if self.summary else "")

    @property
    def agent(self) -> str:
        """The agent that wrote the session, or if unknown, the name of the format."""
        return (self.summary.agent if self.summary else "") or self.entry.agent or self.entry.info.format

    @property
    def bytes(self) -> int:
        """The total size of the session's files in bytes, or 0 if unknown."""
        return (self.summary.bytes if self.summary else 0) or self.entry.info.bytes

    def matches(self, terms: Sequence[str]) -> bool:
        """Return whether every one of *terms*, in lower case, occurs in the name, title, project, agent or path."""
        return all(map(self.get_search_text().__contains__, terms))

    def get_search_text(self) -> str:
        """Return the case-folded text in which filter terms are looked up; it is cached."""
        if not self.search_text:
            texts = self.entry.name, self.title, self.project_name, self.agent, self.entry.info.path
            self.search_text = " ".join(texts).casefold()
        return self.search_text


ListingLine = SessionItem | str


class SessionListing:
    """The picker's filtered list of sessions; ``cursor`` is the index of the selected one in ``lines``, or -1 for none.

    Args:
        entries: sessions; those whose ``parent`` is among them are listed below it.
    """

    def __init__(self, entries: Iterable[SessionEntry], selected: SessionKey | None = None) -> None:
        self.filter_text = ""
        self.order = SessionOrder.AS_FOUND
        self.lines: list[ListingLine] = []
        self.cursor = -1
        self.session_count = 0
        self._by_key: dict[SessionKey, SessionItem] = {}
        self._known_parents: dict[SessionKey, SessionKey] = {}  # read from the heads of the files
        self._initial_key, self._has_input = selected, False
        self._set_entries(entries)
        self._update_lines(self._find_home())

    def _set_entries(self, entries: Iterable[SessionEntry]) -> None:
        self._entries = list(entries)
        keys = {entry.key for entry in self._entries}
        unique_entries: dict[SessionKey, SessionEntry] = {}
        for entry in self._entries:
            # Of two entries for a session, the one that names a listed parent is preferred.
            if entry.key not in unique_entries or _find_parent_key(entry) in keys:
                unique_entries[entry.key] = entry
        parents = {
            key: parent
            for key, entry in unique_entries.items()
            if (parent := self._known_parents.get(key) or _find_parent_key(entry)) and parent in unique_entries
        }
        children: dict[SessionKey, list[SessionEntry]] = {}
        items_by_group: dict[str, list[SessionItem]] = {group: [] for group in GROUPS}
        for key, entry in unique_entries.items():
            if key in parents and (owner := _find_outermost(key, parents)) != key:
                children.setdefault(owner, []).append(entry)
            else:
                items_by_group[entry.group].append(SessionItem(entry))
        self.items = self._unsorted_items = [item for items in items_by_group.values() for item in items]
        self._by_key |= {item.key: item for item in self.items}
        for key, child_entries in children.items():
            if item := self._by_key.get(key):
                self._add_children(item, child_entries)
                item.is_unfolded = len(child_entries) <= MAX_UNFOLDED

    def _find_home(self) -> SessionItem | None:
        self._home = self._by_key.get(self._initial_key) if self._initial_key else None
        if self._home and self._home.parent and not self._has_input:
            self._home.parent.is_unfolded = True
        return self._home

    def _add_children(self, item: SessionItem, entries: Iterable[SessionEntry]) -> None:
        children = {child.key: child for child in item.children}
        for entry in entries:
            if child := children.get(entry.key):  # the name of its entry as a child may differ
                child.entry, child.search_text = entry, ""
            else:
                children[entry.key] = self._by_key[entry.key] = SessionItem(entry, item)
        item.children = tuple(children.values())

    # Titles and overviews

    def update_titles(self, titles: Mapping[SessionKey, str]) -> None:
        """Store titles read from the session files, and apply the filter again if there is one."""
        for key, title in titles.items():
            if item := self._by_key.get(key):  # else it was replaced by the sessions in its file
                item.read_title, item.search_text = title, ""
        if self.filter_text:
            self._update_lines(self.selected_session)

    def update_summaries(self, summaries: Mapping[SessionKey, SessionOverview]) -> None:
        """Store session overviews; new children stay folded, so that lines do not move under the cursor."""
        for key, overview in summaries.items():
            item = self._by_key.get(key)
            if item is None:  # replaced by the sessions in its file
                continue
            if item.summary and overview.tokens is None:  # the file is too large, but its size was known before
                overview = replace(overview, tokens=item.summary.tokens, window=item.summary.window)
            item.summary, item.search_text = overview, ""
            if overview.parent:
                self._move_below_parent(item, (os.path.abspath(overview.parent), ""))
            if not (item.is_unfolded and self._has_input):
                self._add_children(item, overview.children)
            if self._home and item in (self._home, self._home.parent) and not self._has_input:
                item.is_unfolded = item.is_unfolded or len(item.children) <= MAX_UNFOLDED
                self._update_lines(self._home)

    def _move_below_parent(self, item: SessionItem, key: SessionKey) -> None:
        """Move *item* and its children below session *key* or its parent, which is unfolded if *item* is selected."""
        parent = self._by_key.get(key)
        owner = parent.parent or parent if parent else None
        if item.parent or owner is None or owner is item:
            return
        self._known_parents[item.key], item.parent = key, owner
        for child in item.children:
            child.parent = owner
        owner.children, item.children = (*owner.children, item, *item.children), ()
        self._unsorted_items = [other for other in self._unsorted_items if other is not item]
        self.items = [other for other in self.items if other is not item]
        owner.is_unfolded = owner.is_unfolded or self.selected_session is item
        self._update_lines(self.selected_session)

    # Listing

    def _update_lines(self, target: SessionItem | None, *, first: bool = False) -> None:
        """Rebuild the lines; move the cursor to *target*, or to the first match if *first* or if *target* is hidden."""
        terms = self.filter_text.casefold().split()
        lines, group, match = list[ListingLine](), None, -1
        items = self.items
        for term in terms:  # term by term, which is faster for many items; children may match without their session
            items = [item for item in items if item.children or term in (item.search_text or item.get_search_text())]
        self.session_count = 0
        for item in items:
            children = item.children if item.is_unfolded else ()
            if terms:
                is_match = not item.children or item.matches(terms)
                if not (is_match and children):
                    children = tuple(child for child in item.children if child.matches(terms))
                if not is_match and not children:
                    continue
                if match < 0:
                    match = len(lines) + (item.entry.group != group) + (not is_match)
            if item.entry.group != group:
                group = item.entry.group
                lines.append(group)
            item.shows_children = bool(children)
            lines.append(item)
            lines += children
            self.session_count += 1
        self.lines = lines
        self.cursor = match if terms else 1 if lines else -1
        for item_to_select in () if first or target is None else (target, target.parent):
            if item_to_select is not None and item_to_select in lines:
                self.cursor = lines.index(item_to_select)
                break

    @property
    def selected_session(self) -> SessionItem | None:
        """The session under the cursor, or None if there is none."""
        line = self.lines[self.cursor] if 0 <= self.cursor < len(self.lines) else ""
        return line if isinstance(line, SessionItem) else None

    # Commands

    def filter(self, filter_text: str) -> None:
        """List only sessions that match every word in *filter_text*, and move the cursor to the first match."""
        if filter_text != self.filter_text:
            self.filter_text, self._has_input = filter_text, True
            self._update_lines(self.selected_session, first=bool(filter_text.strip()))

    def sort(self, order: SessionOrder) -> None:
        """Sort each group by *order*; sessions with an unknown value come last, in the order they were found."""
        self.order, self._has_input = order, True
        keys: dict[SessionOrder, Callable[[SessionItem], tuple[object, ...]]] = {
            SessionOrder.AS_FOUND: lambda item: (),
            SessionOrder.SIZE: lambda item: (-item.bytes,),
            SessionOrder.CONTEXT: lambda item: _rank_fullness(item.summary),
            SessionOrder.PROJECT: lambda item: (not item.project_name, item.project_name.casefold()),
        }
        key = keys[order]
        self.items = sorted(self._unsorted_items, key=lambda item: (GROUPS.index(item.entry.group), *key(item)))
        self._update_lines(self.selected_session)

    def replace_files(self, sessions_by_file: Mapping[SessionKey, Sequence[SessionEntry]]) -> None:
        """Replace each of the given files in the list with the sessions that it holds."""
        entries = (sessions_by_file.get(entry.key, (entry,)) for entry in self._entries)
        self.set_entries([*chain.from_iterable(entries)])

    def set_entries(self, entries: list[SessionEntry]) -> None:
        """List *entries*, newest first, keeping what is already known about sessions listed before."""
        old_items, selected = self._by_key, self.selected_session
        local_groups = (THIS_PROJECT, OTHER_PROJECTS)
        entries.sort(key=lambda entry: -entry.info.time if entry.group in local_groups else 0.0)
        self._by_key = {}
        self._set_entries(entries)
        for key, item in list(self._by_key.items()):
            if (old := old_items.get(key)) and (old.entry is item.entry or old.entry.info == item.entry.info):
                item.summary, item.read_title, item.is_unfolded = old.summary, old.read_title, old.is_unfolded
                if old.children and not item.children:
                    self._add_children(item, [child.entry for child in old.children])
        had_input, item_to_select = self._has_input, self._find_home()
        if had_input:
            item_to_select = self._by_key.get(selected.key) if selected else None
        self._update_lines(item_to_select)
        if self.order is not SessionOrder.AS_FOUND:
            self.sort(self.order)
        self._has_input = had_input

    def select(self, line: int) -> bool:
        """Move the cursor to a line, or return False if the line is a heading or does not exist."""
        self._has_input = True
        if 0 <= line < len(self.lines) and isinstance(self.lines[line], SessionItem):
            self.cursor = line
            return True
        return False

    def move(self, lines: int) -> None:
        """Move the cursor by *lines* lines, skipping group headings."""
        if not self.lines:
            return
        target = min(max(self.cursor + lines, 0), len(self.lines) - 1)
        forward = range(target, len(self.lines)) if lines > 0 else range(target, -1, -1)
        backward = range(target, self.cursor, -1 if lines > 0 else 1)
        for line in (*forward, *backward):
            if self.select(line):
                return

    def fold(self, is_open: bool | None = None) -> bool:
        """Unfold (True), fold (False) or toggle (None) the selected session's children; return False if it has none."""
        self._has_input = True
        item = self.selected_session
        if item is None or not (item.parent or item.children):
            return False
        owner = item.parent or item
        owner.is_unfolded = not (item.parent or item.shows_children) if is_open is None else is_open
        self._update_lines(item if owner.is_unfolded else owner)
        return True

    def unfold_sessions(self, key: SessionKey, entries: Sequence[SessionEntry]) -> None:
        """List the sessions in a file below the file, and move the cursor to the first of them."""
        item = self._by_key[key]
        self._add_children(item, entries)
        item.is_unfolded = True
        self._update_lines(item.children[0] if item.children else item)


def _rank_fullness(overview: SessionOverview | None) -> tuple[float, int]:
    """Return a sort key for the fullest context windows first, then the largest contexts in windows of unknown size."""
    return (-(overview.share or 0.0), -(overview.tokens or 0)) if overview else (0.0, 0)


def _find_outermost(key: SessionKey, parents: Mapping[SessionKey, SessionKey]) -> SessionKey:
    visited, ancestor = {key}, parents[key]
    while ancestor in parents and ancestor not in visited:
        visited.add(ancestor)
        ancestor = parents[ancestor]
    return key if ancestor in visited else ancestor


def _find_parent_key(entry: SessionEntry) -> SessionKey | None:
    if not (parent := entry.info.parent):
        return None
    file_prefix = f"{entry.info.path}#"
    if parent.startswith(file_prefix) and not os.path.exists(parent):
        return entry.key[0], parent.removeprefix(file_prefix)
    return os.path.abspath(parent), ""
