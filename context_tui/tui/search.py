"""Full-text search in a session, and the matches of the current search."""

from __future__ import annotations

import json
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

from context_tui.session.facts import Facts
from context_tui.session.session import Session
from context_tui.session.values import Checkpoint, Kind
from context_tui.text.numbers import format_count, format_percent
from context_tui.tui.rendering.formatting import format_block
from context_tui.tui.timeline.rows import Location, TimelineRows

LOWERCASE_CHUNK = 1 << 20
"""Number of characters that are converted to lower case at once, to avoid a copy of a long text."""


def find_text(text: str, needle: str, start: int = 0) -> int:
    """Return the index of *needle* at or after *start*, or -1; case is ignored unless *needle* contains capitals."""
    if needle != needle.lower():
        return text.find(needle, start)
    for offset in range(start, len(text), LOWERCASE_CHUNK):
        chunk = text[offset : offset + LOWERCASE_CHUNK + len(needle) - 1]
        lower = chunk.lower()
        if (index := lower.find(needle)) >= 0:
            if len(lower) != len(chunk):  # the lower case of some letters has two characters
                index = sum(end <= index for end in accumulate(len(char.lower()) for char in chunk))
            return offset + index
    return -1


def find_all_text(text: str, needle: str) -> Iterator[int]:
    """Yield the index of each non-overlapping occurrence of *needle*, ignoring case as ``find_text`` does."""
    at = find_text(text, needle)
    while at >= 0:
        yield at
        at = find_text(text, needle, at + len(needle))


REPORT_INTERVAL_S = 0.2


class SearchReport(NamedTuple):
    """Matches found since the previous report of the search that has this ``number``."""

    number: int
    locations: list[Location]
    progress: float
    is_end: bool


@dataclass
class Search:
    """The current search and the matches found so far; ``number`` grows by one with each new search.

    ``pending_step`` is a move (+1 or -1) that the user requested before the first match was found, or 0 for none.
    """

    text: str = ""
    number: int = 0
    locations: list[Location] = field(default_factory=list)
    progress: float = 0.0
    is_finished: bool = False
    pending_step: int = 0
    searched_extent: tuple[Facts, int] | None = None

    def start(self, session: Session, text: str) -> None:
        """Reset all fields for a new search for *text*, discarding the previous matches."""
        self.text, self.number, self.locations, self.progress, self.is_finished = text, self.number + 1, [], 0.0, False
        self.pending_step, self.searched_extent = 0, (session.facts, session.length)

    def covers(self, session: Session) -> bool:
        """Return whether the search includes all messages of *session*, or there is nothing to search for."""
        if not self.text or self.searched_extent is None:
            return True
        return self.searched_extent[0] is session.facts and self.searched_extent[1] == session.length

    def update(self, report: SearchReport) -> bool:
        """Add the matches from a report; return False, changing nothing, if the report is from an earlier search."""
        if report.number != self.number:
            return False
        self.locations += report.locations
        self.progress, self.is_finished = report.progress, report.is_end
        return True

    def list_matches(self, rows: TimelineRows, listed_rows: Collection[int] | None = None) -> list[Location]:
        """Return the matches whose rows are in *listed_rows*, or all matches if *listed_rows* is None."""
        if listed_rows is None:
            return self.locations
        return [location for location in self.locations if rows.find_row(*location) in listed_rows]

    def find_next_match(
        self, rows: TimelineRows, cursor: Location, step: int, listed_rows: Collection[int] | None = None
    ) -> Location | None:
        """Return the next (+1) or previous (-1) match in *listed_rows*, wrapping around, or None if there is none."""
        locations = self.list_matches(rows, listed_rows)
        if not locations:
            return None
        places = [rows.find_row(*location) for location in locations]
        row = rows.find_row(*cursor)
        index = bisect_right(places, row) if step > 0 else bisect_left(places, row) - 1
        return locations[index % len(places)]

    def format_count(self, cursor: Location | None = None, listed_matches: Sequence[Location] | None = None) -> str:
        """Format the number of matches, the cursor's position among them, and how many of them a filter hides."""
        matches = self.locations if listed_matches is None else listed_matches
        count = format_count(len(matches), "row")
        if cursor is not None and cursor in matches:
            count = f"{matches.index(cursor) + 1:,} of {count}"
        if hidden_count := len(self.locations) - len(matches):
            count = f"{count}, {hidden_count:,} not shown"
        return count if self.is_finished else f"{count}, {format_percent(self.progress)} searched"


def get_searchable_text(block: dict[str, Any]) -> str:
    """Return the text to search in a block, such as the name and input of a tool call; "" for an image."""
    kind = block.get("type")
    if kind == "tool_use":
        try:
            return f"{block.get('name')} {json.dumps(block.get('input'), ensure_ascii=False, default=str)}"
        except (ValueError, RecursionError):
            return str(block.get("name"))
    return format_block(block) if kind in ("text", "thinking", "tool_result") else ""


def find_matches(session: Session, text: str) -> Iterator[Location | None]:
    """Yield each location whose text contains *text*, as ``find_text`` defines it, and None after each message."""
    facts = session.facts
    for message in range(session.length):
        has_match = False
        try:
            blocks = session.content.blocks(message)
        except Exception:  # a message that cannot be read has no matches
            blocks = []
        for row, block in zip(facts.blocks_of(message), blocks, strict=False):
            is_result = facts.kind[row] == Kind.TOOL_RESULT
            if (is_result or not has_match) and find_text(get_searchable_text(block), text) >= 0:
                has_match = has_match or not is_result
                yield Location(message, row) if is_result else Location(message)
        yield None


def search_session(
    session: Session, text: str, number: int, post: Callable[[SearchReport], object], checkpoint: Checkpoint
) -> None:
    """Search a session and *post* reports at intervals; *checkpoint* is called per message and may raise to stop."""
    locations: list[Location] = []
    searched, reported_at = 0, time.monotonic()
    for location in find_matches(session, text):
        if location is not None:
            locations.append(location)
            continue
        searched += 1
        checkpoint()
        if time.monotonic() - reported_at >= REPORT_INTERVAL_S:
            post(SearchReport(number, locations, searched / session.length, False))
            locations, reported_at = [], time.monotonic()
    post(SearchReport(number, locations, 1.0, True))
