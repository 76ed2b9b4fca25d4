"""What a picker lists: sessions in groups, with what belongs to them folded below, as a filter lets them through.

Nothing here knows Textual: a key changes the listing at once, and what is painted follows.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from context_tui.discovery import GROUPS, Entry, Key
from context_tui.looking import Look

FEW = 5
"""Sessions below another up to which they are listed without being asked for."""


class Item:
    """A session of a listing, and what is known of it: ``below`` are the sessions that belong to it.

    ``is_open`` is whether these were asked for, ``shows_below`` whether any of them is listed now.
    """

    __slots__ = ("below", "entry", "is_open", "key", "look", "outer", "read_title", "shows_below", "text")

    def __init__(self, entry: Entry, outer: Item | None = None) -> None:
        self.entry, self.key, self.outer = entry, entry.key, outer
        self.below: tuple[Item, ...] = ()
        self.is_open = self.shows_below = False
        self.look: Look | None = None
        self.read_title = ""
        self.text = ""

    @property
    def title(self) -> str:
        """The title; empty while it has none."""
        title = self.entry.info.title
        if title and title not in (self.entry.name, self.entry.file_name):
            return title
        return self.read_title or self.entry.about

    def matches(self, words: Sequence[str]) -> bool:
        """Whether every word is in its name, title, project or path."""
        if not self.text:
            self.text = f"{self.entry.name} {self.title} {self.entry.place} {self.entry.info.path}".casefold()
        return all(word in self.text for word in words)


Line = Item | str
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
        self._by_key: dict[Key, Item] = {}
        self._take(entries)
        self._home = self._by_key.get(selected) if selected else None
        self._touched = False
        if self._home and self._home.outer:
            self._home.outer.is_open = True
        self._list(self._home)

    def _take(self, entries: Iterable[Entry]) -> None:
        listed = list(entries)
        keys = {entry.key for entry in listed}
        found: dict[Key, Entry] = {}
        for entry in listed:
            if entry.key not in found or _parent(entry) in keys:  # what is told by its own file names no other
                found[entry.key] = entry
        inner: dict[Key, list[Entry]] = {}
        outer: list[Entry] = []
        for entry in found.values():
            parent = _parent(entry)
            if parent in found and parent is not None:
                inner.setdefault(parent, []).append(entry)
            else:
                outer.append(entry)
        self.items = [Item(entry) for entry in sorted(outer, key=lambda entry: GROUPS.index(entry.group))]
        self._by_key |= {item.key: item for item in self.items}
        for key, several in inner.items():
            if item := self._by_key.get(key):
                self._put_below(item, several)
                item.is_open = len(several) <= FEW

    def _put_below(self, item: Item, entries: Iterable[Entry]) -> None:
        known = {each.key: each for each in item.below}
        for entry in entries:
            if entry.key in known:  # it was opened: its place is what it is called by here
                known[entry.key].entry, known[entry.key].text = entry, ""
            else:
                known[entry.key] = self._by_key[entry.key] = Item(entry, item)
        item.below = tuple(known.values())

    # What is known

    def item(self, key: Key) -> Item:
        """The session of this key.

        Raises:
            KeyError: there is none.
        """
        return self._by_key[key]

    def learn_titles(self, titles: Mapping[Key, str]) -> None:
        """Take in titles; those that match a filter are listed."""
        for key, title in titles.items():
            item = self._by_key[key]
            item.read_title, item.text = title, ""
        if self.words:
            self._list(self.selected)

    def learn(self, looks: Mapping[Key, Look]) -> None:
        """Take in what reading sessions told. What belongs to them stays folded, so that no line moves under a key."""
        for key, look in looks.items():
            item = self._by_key[key]
            if item.look and look.tokens is None:  # it was read before, and is too large to be read for this
                look = replace(look, tokens=item.look.tokens, window=item.look.window)
            item.look = look
            if not (item.is_open and self._touched):
                self._put_below(item, look.below)
            if self._home and item in (self._home, self._home.outer) and not self._touched:
                item.is_open = item.is_open or len(item.below) <= FEW
                self._list(self._home)

    # What is listed

    def _list(self, wanted: Item | None, *, first: bool = False) -> None:
        """List anew; the cursor goes to the *first* match, or to what is *wanted* while that is listed."""
        words = self.words.casefold().split()
        lines, group, match = list[Line](), None, -1
        self.count = 0
        for item in self.items:
            shown = item.below if item.is_open else ()
            if words:
                own = item.matches(words)
                shown = shown if own and shown else tuple(each for each in item.below if each.matches(words))
                if not own and not shown:
                    continue
                if match < 0:
                    match = len(lines) + (item.entry.group != group) + (not own)
            if item.entry.group != group:
                group = item.entry.group
                lines.append(group)
            item.shows_below = bool(shown)
            lines.append(item)
            lines += shown
            self.count += 1
        self.lines = lines
        self.cursor = match if words else 1 if lines else -1
        for each in () if first or wanted is None else (wanted, wanted.outer):
            if each is not None and each in lines:
                self.cursor = lines.index(each)
                break

    @property
    def selected(self) -> Item | None:
        """What the cursor is on."""
        line = self.lines[self.cursor] if 0 <= self.cursor < len(self.lines) else ""
        return line if isinstance(line, Item) else None

    # What keys do

    def filter(self, words: str) -> None:
        """List only what holds every word; the cursor goes to the first that does."""
        if words != self.words:
            self.words, self._touched = words, True
            self._list(self.selected, first=bool(words.strip()))

    def select(self, line: int) -> bool:
        """Put the cursor on a line; whether there is a session on it."""
        self._touched = True
        if 0 <= line < len(self.lines) and isinstance(self.lines[line], Item):
            self.cursor = line
            return True
        return False

    def move(self, lines: int) -> None:
        """Move the cursor, passing headings."""
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
        self._touched = True
        item = self.selected
        if item is None or not (item.outer or item.below):
            return False
        owner = item.outer or item
        owner.is_open = not (item.outer or item.shows_below) if is_open is None else is_open
        self._list(item if owner.is_open else owner)
        return True

    def unfold_with(self, key: Key, entries: Sequence[Entry]) -> None:
        """List *entries* below a session that has turned out to be several, with the cursor on the first."""
        item = self._by_key[key]
        self._put_below(item, entries)
        item.is_open = True
        self._list(item.below[0] if item.below else item)


def _parent(entry: Entry) -> Key | None:
    """The session that one belongs to, if its reader named a file; none of that name is there where it did not."""
    return (os.path.abspath(entry.info.parent), "") if entry.info.parent else None
