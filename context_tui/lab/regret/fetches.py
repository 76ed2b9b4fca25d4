"""Log of the content that calls fetched, which finds calls that fetch it again."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from context_tui.lab.regret.needles import MIN_LINE_LENGTH
from context_tui.lab.regret.tool_calls import CallEffect, is_same_file

MAX_EARLIER_FETCHES = 20
"""Maximum number of earlier fetches of one call or file that are compared with a new one."""
SAME_CALL_SHARE, SAME_FILE_SHARE = 0.95, 0.5
"""Minimum shares of a result's lines that an earlier result has, too: of any call, and of a read of the same file."""
MIN_REPEATED_LINES = 3
"""Minimum number of lines that a different read of the same file has in common with the earlier one."""
MIN_FETCHED_CHARS = 40
"""Minimum length of a result in characters."""


class Fetch(NamedTuple):
    """Content that a call read or wrote: row and message of the block, effect of the call, and lines in order."""

    row: int
    message: int
    effect: CallEffect
    lines: Mapping[str, None]


class Refetch(NamedTuple):
    """Call (*block* of *message*) that fetches content again which an earlier block and its *copies* contain.

    ``line`` is one of the lines fetched again, preferably a rare and long one.
    """

    earlier_row: int
    message: int
    block: int
    effect: CallEffect
    line: str
    copies: tuple[int, ...]


class FetchLog:
    """Log of the fetches so far.

    ``refetches`` lists the calls that fetched content again. ``stale`` maps rows of blocks to the messages that read
    the same file after the agent had changed it.
    """

    def __init__(self) -> None:
        self.refetches: list[Refetch] = []
        self.stale: dict[int, list[int]] = defaultdict(list)
        make_queue = partial(deque[Fetch], maxlen=MAX_EARLIER_FETCHES)
        self._by_key: dict[str, deque[Fetch]] = defaultdict(make_queue)
        self._by_name: dict[str, deque[Fetch]] = defaultdict(make_queue)
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
        """Add a result, given the message and the block row of its call."""
        if sum(map(len, fetch.lines)) < MIN_FETCHED_CHARS:
            return
        earlier = self._find_earlier(fetch)
        holder = next((candidate for candidate in earlier if self._is_refetch(fetch, candidate)), None)
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
        by_row = {fetch.row: fetch for fetch in self._by_key[new.effect.fetch_key]}
        for path in new.effect.read_paths:
            for fetch in self._by_name[_get_file_name(path)]:
                if fetch.effect.concerns([path]):
                    by_row[fetch.row] = fetch
        earlier = (fetch for fetch in by_row.values() if fetch.message < new.message)
        return sorted(earlier, key=lambda fetch: -fetch.row)

    @staticmethod
    def _is_refetch(fetch: Fetch, earlier: Fetch) -> bool:
        repeated = sum(line in earlier.lines for line in fetch.lines)
        if repeated >= SAME_CALL_SHARE * len(fetch.lines):
            return True
        return fetch.effect.fetch_key != earlier.effect.fetch_key and repeated >= max(
            SAME_FILE_SHARE * len(fetch.lines), MIN_REPEATED_LINES
        )

    def _was_edited_since(self, earlier: Fetch, fetch: Fetch) -> bool:
        for path in fetch.effect.read_paths:
            edits = self._edits[_get_file_name(path)]
            start = bisect_right(edits, earlier.message, key=lambda edit: edit[0])
            if any(is_same_file(path, changed_path) for _, changed_path in edits[start:]):
                return True
        return False


def _build_refetch(new: Fetch, holder: Fetch, earlier: list[Fetch], call_message: int, call_row: int) -> Refetch:
    lines = [line for line in new.lines if line in holder.lines]
    holder_counts = Counter(line for fetch in earlier for line in lines if line in fetch.lines)
    lowest_count = min(holder_counts.values())
    rare_lines = [line for line in lines if holder_counts[line] == lowest_count]
    rare_lines = [line for line in rare_lines if len(line) >= MIN_LINE_LENGTH] or rare_lines
    line = rare_lines[len(rare_lines) // 2]
    copies = tuple(fetch.row for fetch in earlier if fetch is not holder and line in fetch.lines)
    return Refetch(holder.row, call_message, call_row, new.effect, line, copies)


def _get_file_name(path: str) -> str:
    return path.rsplit("/", 1)[-1]
