"""Log of the content that tool calls fetched, which finds calls that fetch the same content again."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from context_tui.lab.regret.needles import find_lines
from context_tui.lab.regret.tool_calls import CallEffect, is_same_file

MAX_EARLIER_FETCHES = 20
"""Maximum number of earlier results of one call that are compared with a new one."""
SAME_RESULT_SHARE = 0.95
"""Minimum share of a result's lines that an earlier result of the same call contains."""
MIN_SHOWN_LINES, MIN_SHOWN_SHARE = 3, 0.5
"""Number of lines of an earlier block that a read shows again; for a short read, at least this share of its lines."""
MIN_SHOWN_LENGTH = 12
"""Minimum length in characters of such a line, which has several words and stands once in each of the two."""
CHANGED_SHARE, UNCHANGED_SHARE = 0.4, 0.9
"""Share of the shown lines that edits changed from which on a read looks at the changes.

After an edit whose lines are unknown, a read of which this share is known shows no change.
"""
MAX_FILES = 20
"""Maximum number of files of one name whose lines are stored."""
MAX_SAMPLE_LINES = 24
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
    """A tool call that fetches the content of an earlier block again.

    Attributes:
        lines: sample of the repeated lines.
        min_lines: how many of them must be lost, so that the call fetches lost content.
    """

    earlier_row: int
    message: int
    block: int
    effect: CallEffect
    lines: Sequence[str]
    min_lines: int


class _Edit(NamedTuple):
    """Edit of a file, and the lines that it replaced or inserted, or None if unknown."""

    message: int
    path: str
    lines: set[str] | None


class FetchLog:
    """The fetches of a session so far, in which repeated fetches are found.

    ``refetches`` lists the calls that fetched content again. ``stale`` maps rows of blocks to the messages that read
    the same file after the agent had changed it.

    Args:
        mentions: return whether a block, or the call that it answers, names a file.
    """

    def __init__(self, mentions: Callable[[int, str], bool]) -> None:
        self.refetches: list[Refetch] = []
        self.stale: dict[int, list[int]] = defaultdict(list)
        self._mentions = mentions
        make_queue = partial(deque[Fetch], maxlen=MAX_EARLIER_FETCHES)
        self._by_key: dict[str, deque[Fetch]] = defaultdict(make_queue)
        self._by_lines: dict[frozenset[str], deque[Fetch]] = defaultdict(make_queue)
        self._by_file: dict[str, dict[str, dict[str, Fetch]]] = defaultdict(dict)
        self._output_of_line: dict[str, Fetch] = {}
        self._last_edit = -1
        self._edits: dict[str, list[_Edit]] = defaultdict(list)

    def add_write(self, write: Fetch) -> None:
        """Add a tool call that wrote to files, so that later reads are compared with its content."""
        self._add_lines(write, write.effect.changed_paths)

    def _add_lines(self, fetch: Fetch, paths: Sequence[str]) -> None:
        for path in paths:
            files = self._by_file[_get_file_name(path)]
            files.setdefault(path, {}).update(dict.fromkeys(_find_specific_lines(fetch), fetch))
            if len(files) > MAX_FILES:
                del files[next(iter(files))]

    def add_edit(self, effect: CallEffect, message: int) -> None:
        """Record a successful tool call that changed files, so that reading them later is not counted as a re-fetch."""
        self._last_edit = message
        texts = "\n".join(effect.replaced_texts), effect.inserted_text or effect.written_text
        replaced, inserted = (set(find_lines(text, MIN_SHOWN_LENGTH)) for text in texts)
        lines = replaced ^ inserted if texts[1] else None
        for path in effect.changed_paths:
            self._edits[_get_file_name(path)].append(_Edit(message, path, lines))

    def add_output(self, output: Fetch) -> None:
        """Add a block that may show parts of files, so that later reads are compared with its content."""
        self._output_of_line |= dict.fromkeys(_find_specific_lines(output), output)

    def add_fetch(self, fetch: Fetch, call_message: int, call_row: int) -> None:
        """Add a tool result, given the message and row of its call, and record whether it repeats an earlier fetch."""
        if sum(map(len, fetch.lines)) < MIN_FETCHED_CHARS:
            return
        self._record_refetches(fetch, call_message, call_row)
        self._by_key[fetch.effect.fetch_key].append(fetch)
        if fetch.effect.read_paths:
            self._add_lines(fetch, fetch.effect.read_paths)
        else:
            self.add_output(fetch)
            if len(fetch.lines) >= MIN_SHOWN_LINES:
                self._by_lines[frozenset(fetch.lines)].append(fetch)

    def _record_refetches(self, fetch: Fetch, call_message: int, call_row: int) -> None:
        parts = list(self._find_shown_parts(fetch)) if fetch.effect.read_paths else []
        if not parts and (same := self._find_same_result(fetch)):
            parts = [(same, [line for line in fetch.lines if line in same.lines], 1)]
        for source, lines, min_lines in parts:
            if self._was_edited_since(source, fetch, len(lines)):
                self.stale[source.row].append(call_message)
            else:
                sample = lines[:: len(lines) // MAX_SAMPLE_LINES + 1]
                refetch = Refetch(source.row, call_message, call_row, fetch.effect, sample, min_lines)
                self.refetches.append(refetch)

    def _find_shown_parts(self, read: Fetch) -> Iterator[tuple[Fetch, list[str], int]]:
        """Yield earlier blocks with lines of the files that a read shows again, these lines, and how many are enough."""
        paths = read.effect.read_paths
        files = [(path, self._by_file[_get_file_name(path)]) for path in paths]
        by_file = [lines for path, of_name in files for other, lines in of_name.items() if is_same_file(path, other)]
        shown: dict[int, list[str]] = defaultdict(list)
        sources: dict[int, Fetch] = {}
        is_source: dict[int, bool] = {}
        for line in _find_specific_lines(read):
            candidates = [source for lines in (*by_file, self._output_of_line) if (source := lines.get(line))]
            for source in sorted(candidates, key=lambda each: -each.row):
                if source.row not in is_source:
                    is_source[source.row] = self._concerns(source, paths)
                if is_source[source.row]:
                    shown[source.row].append(line)
                    sources[source.row] = source
                    break
        line_count = sum(len(line) >= MIN_SHOWN_LENGTH for line in read.lines)
        min_lines = min(MIN_SHOWN_LINES, max(1, round(MIN_SHOWN_SHARE * line_count)))
        for row, lines in shown.items():
            if len(lines) >= min_lines:
                yield sources[row], lines, min_lines

    def _concerns(self, source: Fetch, paths: Iterable[str]) -> bool:
        if source.effect.concerns(paths):
            return True
        return any(self._mentions(source.row, _get_file_name(path)) for path in paths)

    def _find_same_result(self, new: Fetch) -> Fetch | None:
        """Return the newest earlier result of the same call, or of another with the same lines, that has its lines."""
        earlier = [*self._by_key[new.effect.fetch_key], *self._by_lines.get(frozenset(new.lines), ())]
        repeats = (
            each
            for each in earlier
            if each.message < new.message and len(new.lines.keys() & each.lines) >= SAME_RESULT_SHARE * len(new.lines)
        )
        return max(repeats, key=lambda each: each.row, default=None)

    def _was_edited_since(self, source: Fetch, new: Fetch, shown: int) -> bool:
        """Return whether edits since an earlier block changed many lines of a new result, or may have.

        A result that shows no file is taken to change with any edit, unless it is the same.
        """
        if not new.effect.read_paths:
            return self._last_edit > source.message and new.lines.keys() != source.lines.keys()
        changed, in_sight = set[str](), set(_find_specific_lines(new))
        for path in new.effect.read_paths:
            edits = self._edits[_get_file_name(path)]
            start = bisect_right(edits, source.message, key=lambda edit: edit.message)
            for edit in edits[start:]:
                if is_same_file(path, edit.path):
                    if source.effect.fetch_key == new.effect.fetch_key:
                        return True
                    if edit.lines is None and shown < UNCHANGED_SHARE * len(new.lines):
                        return True
                    changed |= (edit.lines or set()) & in_sight
        return len(changed) >= CHANGED_SHARE * shown


def _find_specific_lines(fetch: Fetch) -> Iterator[str]:
    """Yield the lines with several words that stand once in a block."""
    return (line for line, n in fetch.lines.items() if n == 1 and len(line) >= MIN_SHOWN_LENGTH and " " in line)


def _get_file_name(path: str) -> str:
    return path.rsplit("/", 1)[-1]
