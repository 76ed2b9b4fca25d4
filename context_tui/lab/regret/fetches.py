"""Log of the content that tool calls fetched, which finds calls that fetch the same content again."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from context_tui.lab.regret.needles import MIN_LINE_LENGTH, find_lines
from context_tui.lab.regret.tool_calls import CallEffect, is_same_file

MAX_EARLIER_FETCHES = 20
"""Maximum number of earlier fetches of one call or file that are compared with a new one."""
SAME_CALL_SHARE, SAME_FILE_SHARE = 0.95, 0.5
"""Minimum shares of a result's lines that an earlier result contains: any result, or a different read of the file."""
UNCHANGED_SHARE = 0.9
"""Minimum share of the lines of another read of an edited file that are known, so that it shows no change."""
MIN_REPEATED_LINES = 3
"""Minimum number of lines that a different read of the same file has in common with the earlier one."""
SHOWN_SHARE, MIN_SHOWN_LINES = 0.8, 5
"""Minimum share and number of the long lines of a read of a file that the output of another command shows again.

So many long lines, each once in both, also identify a small part of a read, or an output that a read shows again.
"""
MAX_SAMPLE_LINES = 9
"""Maximum number of lines of a fetch that are searched for in other blocks."""
MIN_FETCHED_CHARS = 40
"""Minimum length of a result in characters."""


class Fetch(NamedTuple):
    """Content that a tool call read or wrote: its block and message, the effect of the call, and its lines in order."""

    row: int
    message: int
    effect: CallEffect
    lines: Mapping[str, int]


class Refetch(NamedTuple):
    """A tool call that fetches the content of an earlier block again, with a sample of the repeated lines."""

    earlier_row: int
    message: int
    block: int
    effect: CallEffect
    lines: Sequence[str]


class _Edit(NamedTuple):
    """Edit of a file, and the lines that it replaced or inserted; empty if unknown."""

    message: int
    path: str
    lines: set[str]


class FetchLog:
    """The fetches of a session so far, in which repeated fetches are found.

    ``refetches`` lists the calls that fetched content again. ``stale`` maps rows of blocks to the messages that read
    the same file after the agent had changed it.
    """

    def __init__(self) -> None:
        self.refetches: list[Refetch] = []
        self.stale: dict[int, list[int]] = defaultdict(list)
        make_queue = partial(deque[Fetch], maxlen=MAX_EARLIER_FETCHES)
        self._by_key: dict[str, deque[Fetch]] = defaultdict(make_queue)
        self._by_name: dict[str, deque[Fetch]] = defaultdict(make_queue)
        self._by_lines: dict[frozenset[str], deque[Fetch]] = defaultdict(make_queue)
        self._read_of_line: dict[str, Fetch] = {}
        self._output_of_line: dict[str, Fetch] = {}
        self._last_edit = -1
        self._edits: dict[str, list[_Edit]] = defaultdict(list)

    def add_write(self, write: Fetch) -> None:
        """Add a tool call that wrote a file, so that later reads are compared with its content."""
        for path in write.effect.changed_paths:
            self._by_name[_get_file_name(path)].append(write)

    def add_edit(self, effect: CallEffect, message: int) -> None:
        """Record a successful tool call that changed files, so that reading them later is not counted as a re-fetch."""
        self._last_edit = message
        texts = "\n".join(effect.replaced_texts), effect.inserted_text
        replaced, inserted = (set(find_lines(text, 4)) for text in texts)
        lines = replaced ^ inserted if inserted else set()
        for path in effect.changed_paths:
            self._edits[_get_file_name(path)].append(_Edit(message, path, lines))

    def add_fetch(self, fetch: Fetch, call_message: int, call_row: int) -> None:
        """Add a tool result, given the message and row of its call, and record whether it repeats an earlier fetch."""
        if sum(map(len, fetch.lines)) < MIN_FETCHED_CHARS:
            return
        earlier = self._find_earlier(fetch)
        best = max(earlier, key=lambda candidate: len(fetch.lines.keys() & candidate.lines), default=None)
        if best is None or not self._is_refetch(fetch, best):
            parts = self._find_slices(fetch, earlier)
        elif self._was_edited_since(best, fetch) and not self._is_unchanged_part(fetch, best):
            self.stale[best.row].append(call_message)
            parts = {}
        else:
            parts = {best.row: fetch.lines.keys() & best.lines}
        if not parts and fetch.effect.read_paths:
            parts = self._find_shown_part(fetch)
        for row, lines in parts.items():
            sample = _sample_lines([line for line in fetch.lines if line in lines])
            self.refetches.append(Refetch(row, call_message, call_row, fetch.effect, sample))
        self._by_key[fetch.effect.fetch_key].append(fetch)
        if not fetch.effect.read_paths and len(fetch.lines) >= MIN_REPEATED_LINES:
            self._by_lines[frozenset(fetch.lines)].append(fetch)
        for path in fetch.effect.read_paths:
            self._by_name[_get_file_name(path)].append(fetch)
        source_of_line = self._read_of_line if fetch.effect.read_paths else self._output_of_line
        source_of_line |= dict.fromkeys(_find_long_lines(fetch.lines), fetch)

    def add_output(self, output: Fetch, call_message: int, call_row: int) -> None:
        """Add the result of a command of unknown effect, and record whether it repeats most of an earlier read."""
        shown: dict[int, list[str]] = defaultdict(list)
        for line in _find_long_lines(output.lines):
            if read := self._read_of_line.get(line):
                shown[read.row].append(line)
        for row, lines in shown.items():
            read = self._read_of_line[lines[0]]
            is_mostly_shown = len(lines) >= max(SHOWN_SHARE * len(_find_long_lines(read.lines)), MIN_SHOWN_LINES)
            if is_mostly_shown and not self._was_edited_since(read, output._replace(effect=read.effect)):
                self.refetches.append(Refetch(row, call_message, call_row, output.effect, _sample_lines(lines)))
        self._output_of_line |= dict.fromkeys(_find_long_lines(output.lines), output)

    def _find_shown_part(self, read: Fetch) -> dict[int, set[str]]:
        """Map the row of an earlier output, such as a diff, to its lines that a read shows; empty if these are few."""
        shown: dict[int, set[str]] = defaultdict(set)
        for line in _find_long_lines(read.lines):
            if output := self._output_of_line.get(line):
                shown[output.row].add(line)
        parts: dict[int, set[str]] = {}
        for row, lines in shown.items():
            output = self._output_of_line[next(iter(lines))]
            unique = _find_unique_lines(lines, output, read)
            if len(unique) >= MIN_SHOWN_LINES and not self._was_edited_since(output, read):
                parts[row] = unique
        return parts

    def _find_earlier(self, new: Fetch) -> list[Fetch]:
        by_row = {fetch.row: fetch for fetch in self._by_key[new.effect.fetch_key]}
        if not new.effect.read_paths:
            by_row |= {fetch.row: fetch for fetch in self._by_lines.get(frozenset(new.lines), ())}
        for path in new.effect.read_paths:
            for fetch in self._by_name[_get_file_name(path)]:
                if fetch.effect.concerns([path]):
                    by_row[fetch.row] = fetch
        earlier = (fetch for fetch in by_row.values() if fetch.message < new.message)
        return sorted(earlier, key=lambda fetch: -fetch.row)

    @staticmethod
    def _is_refetch(fetch: Fetch, earlier: Fetch) -> bool:
        repeated, count = len(fetch.lines.keys() & earlier.lines), len(fetch.lines)
        is_file = bool(fetch.effect.read_paths) or fetch.effect.fetch_key != earlier.effect.fetch_key
        is_same_content = is_file and repeated >= max(SAME_FILE_SHARE * count, MIN_REPEATED_LINES)
        return is_same_content or repeated >= SAME_CALL_SHARE * count

    def _find_slices(self, new: Fetch, earlier: Sequence[Fetch]) -> dict[int, set[str]]:
        """Map the rows of earlier partial reads to the lines that a read repeats; empty if these lines are few."""
        slices: dict[int, set[str]] = {}
        pending = set(new.lines)
        for fetch in earlier:
            lines = pending & fetch.lines.keys()
            is_slice = fetch.effect.fetch_key != new.effect.fetch_key and len(lines) >= MIN_REPEATED_LINES
            if is_slice and not self._was_edited_since(fetch, new):
                slices[fetch.row] = lines
                pending -= lines
        if len(new.lines) - len(pending) >= SAME_FILE_SHARE * len(new.lines):
            return slices
        unique = {f.row: _find_unique_lines(slices[f.row], f, new) for f in earlier if f.row in slices}
        return {row: lines for row, lines in unique.items() if len(lines) >= MIN_SHOWN_LINES}

    @staticmethod
    def _is_unchanged_part(fetch: Fetch, earlier: Fetch) -> bool:
        """Return whether a different read of a file shows almost only known lines, and thus none of the changes."""
        repeated = len(fetch.lines.keys() & earlier.lines)
        return fetch.effect.fetch_key != earlier.effect.fetch_key and repeated >= UNCHANGED_SHARE * len(fetch.lines)

    def _was_edited_since(self, earlier: Fetch, fetch: Fetch) -> bool:
        """Return whether an edit since an earlier fetch changed lines of a new one, or may have.

        Another read may leave out the changed lines, so these are compared; the same read is taken to show them.
        """
        if not fetch.effect.read_paths:
            return self._last_edit > earlier.message and fetch.lines.keys() != earlier.lines.keys()
        for path in fetch.effect.read_paths:
            edits = self._edits[_get_file_name(path)]
            start = bisect_right(edits, earlier.message, key=lambda edit: edit.message)
            is_same_read = fetch.effect.fetch_key == earlier.effect.fetch_key
            for edit in edits[start:]:
                is_in_sight = is_same_read or not edit.lines or edit.lines & fetch.lines.keys()
                if is_in_sight and is_same_file(path, edit.path):
                    return True
        return False


def _sample_lines(lines: list[str]) -> list[str]:
    lines = _find_long_lines(lines) or lines
    return lines[:: len(lines) // MAX_SAMPLE_LINES + 1]


def _find_unique_lines(lines: Iterable[str], one: Fetch, other: Fetch) -> set[str]:
    """Return the long lines that stand once in each of two fetches, which generic lines rarely do."""
    return {line for line in _find_long_lines(lines) if one.lines[line] == other.lines[line] == 1}


def _find_long_lines(lines: Iterable[str]) -> list[str]:
    return [line for line in lines if len(line) >= MIN_LINE_LENGTH]


def _get_file_name(path: str) -> str:
    return path.rsplit("/", 1)[-1]
