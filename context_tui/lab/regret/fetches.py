"""Log of the content that tool calls fetched, which finds calls that fetch the same content again."""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, product
from math import inf
from typing import NamedTuple, TypeVar

from context_tui.lab.regret.needles import MIN_LINE_LENGTH, find_lines, find_numbered_lines
from context_tui.lab.regret.tool_calls import CallEffect, is_same_file

MIN_STORED_LENGTH = 4
"""Minimum length in characters of the lines of a block that are compared."""
MAX_EARLIER_FETCHES = 20
"""Maximum number of earlier results of one call that are compared with a new one."""
SAME_RESULT_SHARE = 0.95
"""Minimum share of a result's lines that an earlier result of the same call contains."""
MIN_SHOWN_LINES, MIN_ADJOINING_LINES, MIN_SHOWN_SHARE = 5, 3, 0.5
"""Minimum number of lines that a read and an earlier block have in common: fewer may occur twice in a file by chance.

If the common lines reach the first or the last line of one of the two blocks, the second number is enough, or in a
short read this share of its lines. Of single lines from several blocks, the second number or all of a read is enough.
"""
MIN_SHOWN_LENGTH = 12
"""Minimum length in characters of such a line. It is more than a path, and stands in both once or at a known number."""
CHANGED_SHARE = 0.3
"""A read after edits is taken to look at the changes if they changed at least this share of the lines in common."""
MAX_FILES = 20
"""Maximum number of files of one name whose lines are stored."""
MAX_SAMPLE_LINES = 24
"""Maximum number of lines of a fetch that are searched for in other blocks."""
MIN_FETCHED_CHARS = 40
"""Minimum length of a result in characters."""


_has_suffix = re.compile(r"[^.]\.+[A-Za-z]").search
_is_path = re.compile(r"[\w./\\@~:+-]+").fullmatch
_PLACE = re.compile(r"(?:(.*)[:-])?([0-9]+)")
_is_search = re.compile(r"\b(?:grep|rg|search\w*|select-string)\b", re.IGNORECASE).search
_T = TypeVar("_T")
_ByFile = dict[str, dict[str, _T]]
"""Items by the name of a file and, as other files may have that name, by its path."""


class Fetch(NamedTuple):
    """Content that a tool call read or wrote, in a block: the effect of the call, and the lines in order.

    ``line_keys`` has the keys that find a line in other blocks: itself if it is here once, and each place with it.
    """

    row: int
    message: int
    effect: CallEffect
    lines: list[str]
    line_keys: Mapping[str, list[str]]

    @classmethod
    def parse(cls, row: int, message: int, effect: CallEffect, text: str) -> Fetch:
        """Return the content of a block with this text."""
        numbered_lines = find_numbered_lines(text, MIN_STORED_LENGTH)
        lines = [line for _, line in numbered_lines]
        specific = ((line, n) for line, n in Counter(lines).items() if len(line) >= MIN_SHOWN_LENGTH)
        keys = {line: [line] if n == 1 else [] for line, n in specific if not _is_path(line)}
        names = {_get_file_name(path) for path in effect.read_paths}
        only_name = names.pop() if len(names) == 1 else ""
        for prefix, line in numbered_lines:
            match = _PLACE.fullmatch(prefix) if line in keys else None
            if match and (name := _get_file_name((match[1] or "").replace("\\", "/")) or only_name):
                keys[line].append(f"{name}:{match[2]}\n{line}")
        return cls(row, message, effect, lines, keys)


class Refetch(NamedTuple):
    """A tool call that fetches the content of an earlier block again.

    It counts if *min_lines* are lost, at least one of the block's *lines*, the others perhaps from other blocks.
    """

    earlier_row: int
    message: int
    block: int
    effect: CallEffect
    lines: Sequence[str]
    min_lines: int
    other_lines: Sequence[str]


@dataclass
class _FileEdits:
    """Edits of a file: the messages of the last one, and of the last one of each line."""

    last: int = -1
    changed: dict[str, int] = field(default_factory=dict)


@dataclass(eq=False)
class _Part:
    """The lines of an earlier block, which may show a file of a read, that the read shows, certainly or by chance."""

    source: Fetch
    concerns: bool
    lines: list[str] = field(default_factory=list)
    certain_lines: list[str] = field(default_factory=list)
    other_lines: list[str] = field(default_factory=list)


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
        self._by_key: dict[str, deque[Fetch]] = defaultdict(partial(deque, maxlen=MAX_EARLIER_FETCHES))
        self._sources: _ByFile[dict[str, Fetch]] = defaultdict(dict)
        self._source_of_line: dict[str, Fetch] = {}
        self._any_source: dict[str, Fetch] = {}
        self._last_edit = -1
        self._edits: _ByFile[_FileEdits] = defaultdict(dict)

    def add_file_lines(self, fetch: Fetch) -> None:
        """Add what a call read or wrote of files, so that later reads are compared with it."""
        sources = dict.fromkeys(chain.from_iterable(fetch.line_keys.values()), fetch)
        self._any_source |= sources
        for path in (*fetch.effect.read_paths, *fetch.effect.changed_paths):
            _get_file(self._sources, path, dict[str, Fetch]).update(sources)

    def add_edit(self, effect: CallEffect, message: int) -> None:
        """Record a successful tool call that changed files, so that reading them later is not counted as a re-fetch."""
        self._last_edit = message
        new_text = effect.inserted_text or effect.written_text
        texts = "\n".join(effect.replaced_texts), new_text
        replaced, inserted = (set(find_lines(text, MIN_SHOWN_LENGTH)) for text in texts)
        for path in effect.changed_paths:
            edits = _get_file(self._edits, path, _FileEdits)
            edits.last = message
            edits.changed |= dict.fromkeys(replaced ^ inserted if new_text else (), message)

    def add_source(self, source: Fetch) -> None:
        """Add a block that may show parts of files, so that later reads are compared with its content."""
        self._source_of_line |= dict.fromkeys(chain.from_iterable(source.line_keys.values()), source)

    def add_fetch(self, fetch: Fetch, call_message: int, call_row: int) -> None:
        """Add a tool result, given the message and row of its call, and record whether it repeats an earlier fetch."""
        if sum(map(len, fetch.lines)) < MIN_FETCHED_CHARS:
            return
        edits = _find_files(self._edits, fetch.effect.read_paths)
        last_edit = self._last_edit if _is_folder_search(fetch) else max((each.last for each in edits), default=-1)
        line_count = sum(len(line) >= MIN_SHOWN_LENGTH for line in fetch.lines)
        min_lines = min(MIN_ADJOINING_LINES, max(2, round(MIN_SHOWN_SHARE * line_count)))
        shows_files = fetch.effect.read_paths or _is_search(fetch.effect.fetch_key)
        parts = [*self._match_lines(fetch, last_edit)] if shows_files else []
        changes = _find_changes(fetch, edits) if parts else {}
        whole_parts = _find_whole_parts(parts, fetch, line_count, min_lines)
        if not whole_parts and (same := self._find_same_result(fetch)):
            whole_parts, min_lines = [_Part(same, True, list(dict.fromkeys(fetch.lines)))], 1
        unchanged_parts = list[_Part]()
        for part in whole_parts:
            source, is_edited = part.source, last_edit > part.source.message
            if not is_edited and _count_lines_read_by_both(source, fetch) < min(min_lines, len(part.lines)):
                continue  # two parts of a file have like lines
            if self._has_changed_since(part, fetch, changes, is_edited=is_edited):
                self.stale[source.row].append(call_message)
            else:
                unchanged_parts.append(part)
        if not unchanged_parts:
            min_lines = max(2, min(MIN_ADJOINING_LINES, line_count))
            unchanged_parts = _join_certain_lines([part for part in parts if part not in whole_parts], min_lines)
        for part in unchanged_parts:
            lines, others = _draw_sample(part.lines), _draw_sample(part.other_lines)
            call = call_message, call_row, fetch.effect
            self.refetches.append(Refetch(part.source.row, *call, lines, min_lines, others))
        self._by_key[fetch.effect.fetch_key].append(fetch)
        self.add_file_lines(fetch)
        if _is_folder_search(fetch):
            self.add_source(fetch)

    def _match_lines(self, read: Fetch, last_edit: int) -> Iterable[_Part]:
        """Return the newest earlier blocks with lines of a read; other blocks only up to the newest of its files."""
        sources_by_line = [*_find_files(self._sources, read.effect.read_paths), self._source_of_line]
        if _is_folder_search(read):
            sources_by_line.append(self._any_source)
        is_search = _is_search(read.effect.fetch_key) is not None
        parts: dict[int, _Part] = {}
        for line, keys in read.line_keys.items():
            places = {*keys} - {line}
            found = (by_line.get(key) for by_line in sources_by_line for key in keys)
            candidates = {source.row: source for source in found if source}
            for row, source in sorted(candidates.items(), reverse=True):
                source_keys = source.line_keys[line]
                is_same_place = not places.isdisjoint(source_keys)
                if places and source_keys != [line] and not is_same_place and source.message > last_edit:
                    continue  # two parts of a file have like lines
                part = parts.get(row) or parts.setdefault(row, _Part(source, self._concerns(source, read)))
                part.lines.append(line)
                if part.concerns:
                    if is_same_place or (is_search and len(line) >= MIN_LINE_LENGTH):
                        part.certain_lines.append(line)
                    break
        return parts.values()

    def _concerns(self, source: Fetch, read: Fetch) -> bool:
        """Return whether an earlier block may show a file that a read shows."""
        paths = read.effect.read_paths
        if source.effect.concerns(paths) or any(self._mentions(source.row, path) for path in paths):
            return True
        files = (*source.effect.read_paths, *source.effect.changed_paths)
        return _is_folder_search(read) and any(self._mentions(read.row, file) for file in files)

    def _find_same_result(self, new: Fetch) -> Fetch | None:
        """Return the newest earlier result of the same call that has the lines of a new one."""
        lines, earlier = set(new.lines), reversed(self._by_key[new.effect.fetch_key])
        enough = SAME_RESULT_SHARE * len(lines)
        return next((each for each in earlier if len(lines.intersection(each.lines)) >= enough), None)

    def _has_changed_since(self, part: _Part, new: Fetch, changes: Mapping[str, int], *, is_edited: bool) -> bool:
        """Return whether edits since an earlier block changed many of the lines that a new result shows.

        The same read is taken to show any change of its file. A result that shows no file is taken to change with any
        edit, unless it is the same.
        """
        if not new.effect.read_paths:
            return self._last_edit > part.source.message and set(new.lines) != set(part.source.lines)
        if is_edited and part.source.effect.fetch_key == new.effect.fetch_key:
            return True
        lines = set(part.source.lines)
        changed = sum(message > part.source.message for line, message in changes.items() if line not in lines)
        return changed >= max(CHANGED_SHARE * len(part.lines), 1)


def _find_whole_parts(parts: Iterable[_Part], read: Fetch, line_count: int, min_lines: int) -> list[_Part]:
    """Return the parts of earlier blocks that a read of *line_count* long lines shows again, if it shows any."""
    whole_parts = list[_Part]()
    for part in parts:
        is_pasted = part.source.effect == CallEffect()
        enough = max(MIN_SHOWN_LINES, 0 if part.concerns else MIN_SHOWN_SHARE * line_count if is_pasted else inf)
        has_few = part.concerns and min_lines <= len(part.lines) < enough
        if len(part.lines) >= enough or (has_few and _reach_end(part.lines, part.source.lines, read.lines)):
            whole_parts.append(part)
    return whole_parts


def _join_certain_lines(parts: Sequence[_Part], min_lines: int) -> list[_Part]:
    """Return the block with most of the certain lines that a read shows, with those of other blocks."""
    lines = dict.fromkeys(line for part in parts for line in part.certain_lines)
    if len(lines) < min_lines:
        return []
    largest = max(parts, key=lambda part: len(part.certain_lines))
    largest.lines = largest.certain_lines
    largest.other_lines = [line for line in lines if line not in largest.lines]
    return [largest]


def _find_changes(read: Fetch, edits: Sequence[_FileEdits]) -> dict[str, int]:
    """Return the message of the last change of each line that a read shows and an edit changed."""
    changes = {line: max(each.changed.get(line, -1) for each in edits) for line in read.line_keys if edits}
    return {line: message for line, message in changes.items() if message >= 0}


def _count_lines_read_by_both(one: Fetch, other: Fetch) -> float:
    """Return how many lines of a file two reads ask for, or infinity if that is unknown."""
    pairs = [*product(one.effect.lines_read, other.effect.lines_read)]
    overlaps = (min(lines[1], others[1]) - max(lines[0], others[0]) + 1 for lines, others in pairs)
    return sum(overlap for overlap in overlaps if overlap > 0) if pairs else inf


def _draw_sample(lines: Sequence[str]) -> Sequence[str]:
    return lines[:: len(lines) // MAX_SAMPLE_LINES + 1]


def _reach_end(lines: Iterable[str], one: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether the equal lines around one of *lines* reach the first or the last line of one of two blocks."""
    for at, there in ((one.index(line), other.index(line)) for line in lines):
        before, after = min(at, there), min(len(one) - at, len(other) - there)
        is_equal_before = one[at - before : at] == other[there - before : there]
        if is_equal_before or one[at : at + after] == other[there : there + after]:
            return True
    return False


def _is_folder_search(fetch: Fetch) -> bool:
    """Return whether a call may show files that it does not name."""
    return not all(_has_suffix(_get_file_name(path)) for path in fetch.effect.read_paths or [""])


def _get_file_name(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _get_file(files: _ByFile[_T], path: str, make: Callable[[], _T]) -> _T:
    """Return the item of a path, a new one if there is none. Of too many files with one name, the oldest is removed."""
    by_path = files[_get_file_name(path)]
    if path not in by_path:
        by_path[path] = make()
        if len(by_path) > MAX_FILES:
            del by_path[next(iter(by_path))]
    return by_path[path]


def _find_files(files: _ByFile[_T], paths: Iterable[str]) -> list[_T]:
    """Return the items of the files that may be one of *paths*."""
    found = ((path, files.get(_get_file_name(path), {})) for path in dict.fromkeys(paths))
    return [item for path, by_path in found for other, item in by_path.items() if is_same_file(path, other)]
