"""What a picker lists: sessions in groups, with what belongs to them folded below, as a filter lets them through.

Nothing here knows Textual: a key changes the listing at once, and what is painted follows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import Enum

from context_tui.library.discover import ELSEWHERE, GROUPS, HERE, Entry, Key, project
from context_tui.library.summary import Look

FEW = 5
"""Sessions below another up to which they are listed without being asked for."""


class Order(Enum):
    """What the sessions of a group are sorted by; ``AS_FOUND`` is newest first where that is how they were found."""

    AS_FOUND = "newest first"
    SIZE = "largest first"
    CONTEXT = "fullest context first"
    PROJECT = "by project"


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

    @property
    def place(self) -> str:
        """The project: the name of the folder that it was in, where its head told that."""
        return project(self.entry, self.look.cwd if self.look else "")

    @property
    def agent(self) -> str:
        """The format."""
        return (self.look.agent if self.look else "") or self.entry.agent or self.entry.info.format

    @property
    def bytes(self) -> int:
        """The size of its file; of all of them, once that is known."""
        return (self.look.bytes if self.look else 0) or self.entry.info.bytes

    def matches(self, words: Sequence[str]) -> bool:
        """Whether every word is in its name, title, project, agent or path."""
        return all(map(self.searched().__contains__, words))

    def searched(self) -> str:
        """What a filter looks at; made once for what is known."""
        if not self.text:
            self.text = f"{self.entry.name} {self.title} {self.place} {self.agent} {self.entry.info.path}".casefold()
        return self.text


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
        self.order = Order.AS_FOUND
        self.lines: list[Line] = []
        self.cursor = -1
        self.count = 0
        self._by_key: dict[Key, Item] = {}
        self._told: dict[Key, Key] = {}  # what sessions belong to, by their own heads
        self._begin, self._touched = selected, False
        self._take(entries)
        self._list(self._go_home())

    def _take(self, entries: Iterable[Entry]) -> None:
        listed = self._entries = list(entries)
        keys = {entry.key for entry in listed}
        found: dict[Key, Entry] = {}
        for entry in listed:
            if entry.key not in found or _parent(entry) in keys:  # what is told by its own file names no other
                found[entry.key] = entry
        told = self._told
        parents = {
            key: parent
            for key, entry in found.items()
            if (key in told or entry.info.parent)
            and (parent := told.get(key) or _parent(entry)) in found
            and parent is not None
        }
        inner: dict[Key, list[Entry]] = {}
        outer: dict[str, list[Item]] = {group: [] for group in GROUPS}
        for key, entry in found.items():
            if key in parents and (owner := _outermost(key, parents)) != key:
                inner.setdefault(owner, []).append(entry)
            else:
                outer[entry.group].append(Item(entry))
        self._found = [item for items in outer.values() for item in items]
        self.items = self._found
        self._by_key |= {item.key: item for item in self.items}
        for key, several in inner.items():
            if item := self._by_key.get(key):
                self._put_below(item, several)
                item.is_open = len(several) <= FEW

    def _go_home(self) -> Item | None:
        """What the cursor begins on, if it is there; what it belongs to lists it."""
        self._home = self._by_key.get(self._begin) if self._begin else None
        if self._home and self._home.outer and not self._touched:
            self._home.outer.is_open = True
        return self._home

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
            item = self._by_key.get(key)
            if item is None:  # its file turned out to hold many
                continue
            item.read_title, item.text = title, ""
        if self.words:
            self._list(self.selected)

    def learn(self, looks: Mapping[Key, Look]) -> None:
        """Take in what reading sessions told. What belongs to them stays folded, so that no line moves under a key."""
        for key, look in looks.items():
            item = self._by_key.get(key)
            if item is None:  # its file turned out to hold many
                continue
            if item.look and look.tokens is None:  # it was read before, and is too large to be read for this
                look = replace(look, tokens=item.look.tokens, window=item.look.window)
            item.look, item.text = look, ""
            if look.parent:
                self._put_below_its_parent(item, (os.path.abspath(look.parent), ""))
            if not (item.is_open and self._touched):
                self._put_below(item, look.below)
            if self._home and item in (self._home, self._home.outer) and not self._touched:
                item.is_open = item.is_open or len(item.below) <= FEW
                self._list(self._home)

    def _put_below_its_parent(self, item: Item, key: Key) -> None:
        """List a session below the one that it turned out to belong to; where the cursor is on it, that is unfolded."""
        parent = self._by_key.get(key)
        owner = parent.outer or parent if parent else None
        if item.outer or owner is None or owner is item:
            return
        self._told[item.key], item.outer = key, owner
        for each in item.below:
            each.outer = owner
        owner.below, item.below = (*owner.below, item, *item.below), ()
        self._found = [each for each in self._found if each is not item]
        self.items = [each for each in self.items if each is not item]
        owner.is_open = owner.is_open or self.selected is item
        self._list(self.selected)

    # What is listed

    def _list(self, wanted: Item | None, *, first: bool = False) -> None:
        """List anew; the cursor goes to the *first* match, or to what is *wanted* while that is listed."""
        words = self.words.casefold().split()
        lines, group, match = list[Line](), None, -1
        items = self.items
        for word in words:  # a word at a time, as there are many items; what is below one may match where it does not
            items = [item for item in items if item.below or word in (item.text or item.searched())]
        self.count = 0
        for item in items:
            shown = item.below if item.is_open else ()
            if words:
                own = not item.below or item.matches(words)
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

    def sort(self, order: Order) -> None:
        """Sort the sessions of each group; those of which it is not known go last, as they were found."""
        self.order, self._touched = order, True
        keys: dict[Order, Callable[[Item], tuple[object, ...]]] = {
            Order.AS_FOUND: lambda item: (),
            Order.SIZE: lambda item: (-item.bytes,),
            Order.CONTEXT: lambda item: (-((item.look and item.look.tokens) or 0),),
            Order.PROJECT: lambda item: (not item.place, item.place.casefold()),
        }
        key = keys[order]
        self.items = sorted(self._found, key=lambda item: (GROUPS.index(item.entry.group), *key(item)))
        self._list(self.selected)

    def replace(self, several: Mapping[Key, Sequence[Entry]]) -> None:
        """List the sessions of files that hold many in place of those files, each at its time; all else stays."""
        self.put([new for entry in self._entries for new in several.get(entry.key, (entry,))])

    def put(self, entries: list[Entry]) -> None:
        """List these, the newest of those that were found first; what is known of any of them stays known."""
        known, selected = self._by_key, self.selected
        found = (HERE, ELSEWHERE)
        entries.sort(key=lambda entry: -entry.info.time if entry.group in found else 0.0)
        self._by_key = {}
        self._take(entries)
        for key, item in list(self._by_key.items()):
            if (old := known.get(key)) and (old.entry is item.entry or old.entry.info == item.entry.info):
                item.look, item.read_title, item.is_open = old.look, old.read_title, old.is_open
                if old.below and not item.below:
                    self._put_below(item, [each.entry for each in old.below])
        touched, wanted = self._touched, self._go_home()
        if touched:
            wanted = self._by_key.get(selected.key) if selected else None
        self.items = self._found
        self._list(wanted)
        if self.order is not Order.AS_FOUND:
            self.sort(self.order)
        self._touched = touched

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


def _outermost(key: Key, parents: Mapping[Key, Key]) -> Key:
    """What a session belongs to in the end: below that it is listed. Itself where they belong to each other."""
    seen, above = {key}, parents[key]
    while above in parents and above not in seen:
        seen.add(above)
        above = parents[above]
    return key if above in seen else above


def _parent(entry: Entry) -> Key | None:
    """The session that one belongs to: that of a file, or another one of its own file."""
    parent, own = entry.info.parent, f"{entry.info.path}#"
    if not parent:
        return None
    if parent.startswith(own) and not os.path.exists(parent):
        return entry.key[0], parent.removeprefix(own)
    return os.path.abspath(parent), ""
