"""Content that calls fetched, and its later fetches."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from context_tui.lab.regret.needles import MIN_LINE_LENGTH
from context_tui.lab.regret.tool_calls import CallEffect, is_same_file

MAX_EARLIER_FETCHES = 20
"""Fetches of the same, newest first, that are looked at for what is fetched again."""
SAME_CALL_SHARE, SAME_FILE_SHARE = 0.95, 0.5
"""Shares of a result's lines that stood in an earlier one: of the same call, and of a read of the same file."""
MIN_REPEATED_LINES = 3
"""Lines that a read of the same file must at least get again, where it gets others too."""
MIN_FETCHED_CHARS = 40
"""Characters of a result from which on fetching it again says something."""


class Fetch(NamedTuple):
    """Content that a block read or wrote: its row and message, its call, and its lines, in order."""

    row: int
    message: int
    effect: CallEffect
    lines: Mapping[str, None]


class Refetch(NamedTuple):
    """Call of *message* (its block's row is *block*) that fetches again what an earlier block and its *copies* held.

    ``line`` is one of the lines fetched again: the middle one of those in the fewest blocks, preferably of some length.
    """

    earlier_row: int
    message: int
    block: int
    effect: CallEffect
    line: str
    copies: tuple[int, ...]


class FetchLog:
    """Log of everything fetched so far.

    ``refetches`` lists what was fetched again. ``stale`` maps rows of blocks to messages whose calls read the same file
    after the agent had changed it.
    """

    def __init__(self) -> None:
        self.refetches: list[Refetch] = []
        self.stale: dict[int, list[int]] = defaultdict(list)
        newest = partial(deque[Fetch], maxlen=MAX_EARLIER_FETCHES)
        self._by_key: dict[str, deque[Fetch]] = defaultdict(newest)
        self._by_name: dict[str, deque[Fetch]] = defaultdict(newest)
        self._edits: dict[str, list[tuple[int, str]]] = defaultdict(list)

    def add_write(self, write: Fetch) -> None:
        """Add a call that wrote a file."""
        for path in write.effect.changed_paths:
            self._by_name[_get_file_name(path)].append(write)

    def add_edit(self, effect: CallEffect, message: int) -> None:
        """Add a successful call that changes files."""
        for path in effect.changed_paths:
            self._edits[_get_file_name(path)].append((message, path))

    def add_fetch(self, fetch: Fetch, call_message: int, call_row: int) -> None:
        """Add a result; ``call_message`` is the message of its call, ``call_row`` the row of that."""
        if sum(map(len, fetch.lines)) < MIN_FETCHED_CHARS:
            return
        earlier = self._find_earlier(fetch)
        holder = next((each for each in earlier if self._is_refetch(fetch, each)), None)
        if holder is not None:
            if self._was_edited_since(holder, fetch):
                self.stale[holder.row].append(call_message)
            else:
                self.refetches.append(_build_refetch(fetch, holder, earlier, call_message, call_row))
        self._by_key[fetch.effect.fetch_key].append(fetch)
        for path in fetch.effect.read_paths:
            self._by_name[_get_file_name(path)].append(fetch)

    def _find_earlier(self, new: Fetch) -> list[Fetch]:
        """Return the earlier fetches of the same call or file, newest first."""
        by_row = {each.row: each for each in self._by_key[new.effect.fetch_key]}
        for path in new.effect.read_paths:
            for each in self._by_name[_get_file_name(path)]:
                if any(is_same_file(path, one) for one in (*each.effect.read_paths, *each.effect.changed_paths)):
                    by_row[each.row] = each
        return sorted((each for each in by_row.values() if each.message < new.message), key=lambda each: -each.row)

    @staticmethod
    def _is_refetch(new: Fetch, earlier: Fetch) -> bool:
        repeated = sum(line in earlier.lines for line in new.lines)
        if repeated >= SAME_CALL_SHARE * len(new.lines):
            return True
        return new.effect.fetch_key != earlier.effect.fetch_key and repeated >= max(
            SAME_FILE_SHARE * len(new.lines), MIN_REPEATED_LINES
        )

    def _was_edited_since(self, earlier: Fetch, new: Fetch) -> bool:
        for path in new.effect.read_paths:
            edits = self._edits[_get_file_name(path)]
            since = bisect_right(edits, earlier.message, key=lambda edit: edit[0])
            if any(is_same_file(path, changed) for _, changed in edits[since:]):
                return True
        return False


def _build_refetch(new: Fetch, holder: Fetch, earlier: list[Fetch], call_message: int, call_row: int) -> Refetch:
    lines = [line for line in new.lines if line in holder.lines]
    holders = Counter(line for each in earlier for line in lines if line in each.lines)
    fewest = min(holders.values())
    rare = [line for line in lines if holders[line] == fewest]
    rare = [line for line in rare if len(line) >= MIN_LINE_LENGTH] or rare
    line = rare[len(rare) // 2]
    copies = tuple(each.row for each in earlier if each is not holder and line in each.lines)
    return Refetch(holder.row, call_message, call_row, new.effect, line, copies)


def _get_file_name(path: str) -> str:
    return path.rsplit("/", 1)[-1]
