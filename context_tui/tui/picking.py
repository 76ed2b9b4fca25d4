"""What a picker lists: sessions in groups, with what belongs to them folded below, as a filter lets them through.

Nothing here knows Textual: a key changes the listing at once, and what is painted follows.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from context_tui.discovery import GROUPS, Entry, Key
from context_tui.looking import Look

FEW = 5
"""Sessions below another up to which they are listed without being asked for."""


@dataclass(frozen=True)
class Row:
    """A session as it is listed: ``below`` is how many belong to it, as far as that is known."""

    entry: Entry
    inner: bool = False
    below: int = 0
    is_open: bool = False


Line = Row | str
"""A session, or the heading of a group."""


class Listing:
    """Sessions, a filter and a cursor; ``lines`` is what is listed, ``cursor`` a line of it (-1: there is none).

    Args:
        entries: what there is; a session whose ``parent`` is there too is listed below that one.
        selected: what the cursor begins on; what belongs to it is listed at once where it is little.
    """

    def __init__(self, entries: Iterable[Entry], selected: Key | None = None) -> None:
        self.words = ""
        self.lines: list[Line] = []
        self.cursor = -1
        self.count = 0
        self.moved = False
        self._home = selected
        self._titles: dict[Key, str] = {}
        self._looks: dict[Key, Look] = {}
        self._below: dict[Key, tuple[Entry, ...]] = {}
        self._open: set[Key] = set()
        self._texts: dict[Key, str] = {}
        self._take(entries)
        self._list(select=selected)

    def _take(self, entries: Iterable[Entry]) -> None:
        listed = list(entries)
        keys = {entry.key for entry in listed}
        found: dict[Key, Entry] = {}
        for entry in listed:
            if entry.key not in found or _parent(entry) in keys:  # what is told by its own file names no other
                found[entry.key] = entry
        inner: dict[Key, list[Entry]] = {}
        for entry in found.values():
            if (parent := _parent(entry)) in keys:
                inner.setdefault(parent, []).append(entry)
        outer = [entry for entry in found.values() if _parent(entry) not in keys]
        self.entries = sorted(outer, key=lambda entry: GROUPS.index(entry.group))
        for key, several in inner.items():
            self._below[key] = tuple(several)
            if len(several) <= FEW or self._home in {entry.key for entry in several}:
                self._open.add(key)

    # What is known

    def title(self, entry: Entry) -> str:
        """The title of a session; empty while it has none."""
        title = entry.info.title
        if title and title not in (entry.name, Path(entry.info.path).stem):
            return title
        return self._titles.get(entry.key, "") or entry.about

    def look(self, entry: Entry) -> Look | None:
        """What reading a session told; None while it has not been read."""
        return self._looks.get(entry.key)

    def learn_titles(self, titles: Mapping[Key, str]) -> None:
        """Take in titles."""
        self._titles |= titles
        for key in titles:
            self._texts.pop(key, None)
        if self.words:
            self._list()

    def learn(self, looks: Mapping[Key, Look]) -> None:
        """Take in what reading sessions told. What belongs to them stays folded, so that no line moves under a key."""
        for key, look in looks.items():
            old = self._looks.get(key)
            if old and look.tokens is None:  # too large to be read again
                look = replace(look, tokens=old.tokens, window=old.window)
            self._looks[key] = look
            if look.below and not (key in self._open and self.moved):
                self._put_below(key, look.below)
        home = self._home
        if home in looks and home is not None and not self.moved:
            if len(self._below.get(home, ())) <= FEW:
                self._open.add(home)
            self._list()
        for at, line in enumerate(self.lines):
            if isinstance(line, Row) and line.entry.key in looks:
                self.lines[at] = replace(line, below=len(self._below.get(line.entry.key, ())))

    def _put_below(self, key: Key, entries: Sequence[Entry]) -> None:
        known = {entry.key: entry for entry in self._below.get(key, ())}
        self._below[key] = tuple(({entry.key: entry for entry in entries} | known).values())

    # What is listed

    def _list(self, *, select: Key | None = None, first: bool = False) -> None:
        """List anew; the cursor stays on its session while that is listed, or goes to the *first* match."""
        was, parent = select, None
        if was is None and (row := self.row) is not None:
            was, parent = row.entry.key, _parent(row.entry)
        words = self.words.casefold().split()
        self.lines, self.count = [], 0
        group = None
        match, places = -1, dict[Key, int]()
        for entry in self.entries:
            below, is_open = self._below.get(entry.key, ()), entry.key in self._open
            if words:
                own = self._matches(entry, words)
                shown = below if own and is_open else tuple(each for each in below if self._matches(each, words))
                if not own and not shown:
                    continue
            else:
                own, shown = True, below if is_open else ()
            if entry.group != group:
                self.lines.append(entry.group)
                group = entry.group
            if match < 0:
                match = len(self.lines) + (not own)
            if entry.key in (was, parent):
                places[entry.key] = len(self.lines)
            self.lines.append(Row(entry, below=len(below), is_open=bool(shown)))
            self.count += 1
            for each in shown:
                if each.key == was:
                    places[each.key] = len(self.lines)
                self.lines.append(Row(each, inner=True))
        kept = next((places[key] for key in (was, parent) if key in places), match)
        self.cursor = match if first else kept

    def _matches(self, entry: Entry, words: Sequence[str]) -> bool:
        text = self._texts.get(entry.key)
        if text is None:
            text = f"{entry.name} {self.title(entry)} {entry.place} {entry.info.path}".casefold()
            self._texts[entry.key] = text
        return all(word in text for word in words)

    @property
    def row(self) -> Row | None:
        """What the cursor is on."""
        line = self.lines[self.cursor] if 0 <= self.cursor < len(self.lines) else ""
        return line if isinstance(line, Row) else None

    # What keys do

    def filter(self, words: str) -> None:
        """List only what holds every word; the cursor goes to the first that does."""
        if words != self.words:
            self.words, self.moved = words, True
            self._list(first=bool(words.strip()))

    def select(self, line: int) -> bool:
        """Put the cursor on a line; whether there is a session on it."""
        if 0 <= line < len(self.lines) and isinstance(self.lines[line], Row):
            self.cursor, self.moved = line, True
            return True
        return False

    def move(self, lines: int) -> None:
        """Move the cursor, passing headings."""
        self.moved = True
        if not self.lines:
            return
        target = min(max(self.cursor + lines, 0), len(self.lines) - 1)
        onward = range(target, len(self.lines)) if lines > 0 else range(target, -1, -1)
        back = range(target, self.cursor, -1 if lines > 0 else 1)
        for line in (*onward, *back):
            if self.select(line):
                return

    def fold(self, is_open: bool | None = None) -> bool:
        """List what belongs to the session under the cursor, or no longer; the other of the two where that is None.

        Returns:
            Whether there is anything to fold.
        """
        self.moved = True
        row = self.row
        key = None if row is None else _parent(row.entry) if row.inner else row.entry.key
        if row is None or key is None or not self._below.get(key):
            return False
        want = not (row.inner or row.is_open) if is_open is None else is_open
        if want:
            self._open.add(key)
            self._list()
        else:
            self._open.discard(key)
            self._list(select=key)
        return True

    def unfold_with(self, entry: Entry, entries: Sequence[Entry]) -> None:
        """List *entries* below a session that has turned out to be several, with the cursor on the first."""
        self._put_below(entry.key, entries)
        self._open.add(entry.key)
        self._list(select=entries[0].key)


def _parent(entry: Entry) -> Key | None:
    """The session that one belongs to, if its reader named a file; none of that name is there where it did not."""
    return (os.path.abspath(entry.info.parent), "") if entry.info.parent else None
