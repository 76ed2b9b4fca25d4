"""What calls fetched, and what of it was fetched again later."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from context_tui.lab.regret.calls import Doing, same_file
from context_tui.lab.regret.needles import LEAST_LINE

LOOK_BACK = 20
"""Fetches of the same, newest first, that are looked at for what is fetched again."""
SAME, PARTLY = 0.95, 0.5
"""Shares of a result's lines that stood in an earlier one: of the same call, and of a read of the same file."""
LEAST_PART = 3
"""Lines that a read of the same file must at least get again, where it gets others too."""
LEAST_FETCHED = 40
"""Characters of a result from which on fetching it again says something."""


class Fetched(NamedTuple):
    """What a block got or wrote: its row and message, its call, and its lines, in order."""

    row: int
    message: int
    call: Doing
    lines: Mapping[str, None]


class Again(NamedTuple):
    """A call of *message*, its block's row *block*, that gets again what the block *held* and its *copies* held.

    ``line`` is one of the lines that are fetched again: of those that the fewest hold, and of some length if there are
    such, the one in the middle.
    """

    held: int
    message: int
    block: int
    call: Doing
    line: str
    copies: tuple[int, ...]


class Fetches:
    """Everything that was fetched so far.

    ``again`` is what was fetched again. ``stale`` maps rows of blocks to messages whose calls read the same file after
    the agent had changed it: these get what is new.
    """

    def __init__(self) -> None:
        self.again: list[Again] = []
        self.stale: dict[int, list[int]] = defaultdict(list)
        newest = partial(deque[Fetched], maxlen=LOOK_BACK)
        self._by_key: dict[str, deque[Fetched]] = defaultdict(newest)
        self._by_name: dict[str, deque[Fetched]] = defaultdict(newest)
        self._edits: dict[str, list[tuple[int, str]]] = defaultdict(list)

    def wrote(self, written: Fetched) -> None:
        """A call wrote a file."""
        for path in written.call.changes:
            self._by_name[_name(path)].append(written)

    def changed(self, call: Doing, message: int) -> None:
        """A call that changes files has succeeded."""
        for path in call.changes:
            self._edits[_name(path)].append((message, path))

    def fetched(self, new: Fetched, asked: int, block: int) -> None:
        """A result has come; ``asked`` is the message of its call, ``block`` the row of that."""
        if sum(map(len, new.lines)) < LEAST_FETCHED:
            return
        earlier = self._earlier(new)
        holder = next((each for each in earlier if self._is_again(new, each)), None)
        if holder is not None:
            if self._changed_since(holder, new):
                self.stale[holder.row].append(asked)
            else:
                self.again.append(_again(new, holder, earlier, asked, block))
        self._by_key[new.call.key].append(new)
        for path in new.call.reads:
            self._by_name[_name(path)].append(new)

    def _earlier(self, new: Fetched) -> list[Fetched]:
        """The earlier fetches of the same call or file, newest first."""
        found = {each.row: each for each in self._by_key[new.call.key]}
        for path in new.call.reads:
            for each in self._by_name[_name(path)]:
                if any(same_file(path, one) for one in (*each.call.reads, *each.call.changes)):
                    found[each.row] = each
        return sorted((each for each in found.values() if each.message < new.message), key=lambda each: -each.row)

    @staticmethod
    def _is_again(new: Fetched, earlier: Fetched) -> bool:
        again = sum(line in earlier.lines for line in new.lines)
        if again >= SAME * len(new.lines):
            return True
        return new.call.key != earlier.call.key and again >= max(PARTLY * len(new.lines), LEAST_PART)

    def _changed_since(self, held: Fetched, new: Fetched) -> bool:
        """Whether a file that is read anew was changed by the agent since."""
        for path in new.call.reads:
            edits = self._edits[_name(path)]
            since = bisect_right(edits, held.message, key=lambda edit: edit[0])
            if any(same_file(path, changed) for _, changed in edits[since:]):
                return True
        return False


def _again(new: Fetched, holder: Fetched, earlier: list[Fetched], asked: int, block: int) -> Again:
    lines = [line for line in new.lines if line in holder.lines]
    holders = Counter(line for each in earlier for line in lines if line in each.lines)
    fewest = min(holders.values())
    rare = [line for line in lines if holders[line] == fewest]
    rare = [line for line in rare if len(line) >= LEAST_LINE] or rare
    line = rare[len(rare) // 2]
    copies = tuple(each.row for each in earlier if each is not holder and line in each.lines)
    return Again(holder.row, asked, block, new.call, line, copies)


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]
