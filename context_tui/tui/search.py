"""Full-text search over a session: every block's text, in order, and going through what was found. Knows no widget."""

from __future__ import annotations

import json
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from context_tui.session.facts import Facts
from context_tui.session.session import Session
from context_tui.session.values import Kind
from context_tui.text.numbers import format_percent
from context_tui.tui.finding import find
from context_tui.tui.rows import Rows
from context_tui.tui.text import plural, result_text
from context_tui.tui.view import Location

PACE = 0.2
"""Seconds between two reports."""


@dataclass
class Found:
    """Locations that were found since the last report of the search with this number."""

    number: int
    locations: list[Location]
    progress: float
    end: bool


@dataclass
class Search:
    """One search at a time, and what it has found so far: its number tells late answers of an earlier one.

    ``wanted`` is the step to a match that was asked for before there was any, 0 where none was.
    """

    text: str = ""
    number: int = 0
    locations: list[Location] = field(default_factory=list)
    progress: float = 0.0
    ended: bool = False
    wanted: int = 0
    looked_in: tuple[Facts, int] | None = None

    def begin(self, session: Session, text: str) -> None:
        """Look for another text, or in another session."""
        self.text, self.number, self.locations, self.progress, self.ended = text, self.number + 1, [], 0.0, False
        self.wanted, self.looked_in = 0, (session.facts, session.length)

    def is_about(self, session: Session) -> bool:
        """Whether what is found is all that stands in that session; so it is where nothing is looked for."""
        if not self.text or self.looked_in is None:
            return True
        return self.looked_in[0] is session.facts and self.looked_in[1] == session.length

    def take(self, found: Found) -> bool:
        """Take an answer; whether it was one to this search."""
        if found.number != self.number:
            return False
        self.locations += found.locations
        self.progress, self.ended = found.progress, found.end
        return True

    def shown(self, rows: Rows, among: Collection[int] | None = None) -> list[Location]:
        """What was found in some rows; None for all of them."""
        if among is None:
            return self.locations
        return [location for location in self.locations if rows.row_of(*location) in among]

    def step(self, rows: Rows, here: Location, step: int, among: Collection[int] | None = None) -> Location | None:
        """The next (+1) or previous (-1) match from *here* in some rows, around the ends; None when there is none."""
        locations = self.shown(rows, among)
        if not locations:
            return None
        places = [rows.row_of(*location) for location in locations]
        row = rows.row_of(*here)
        at = bisect_right(places, row) if step > 0 else bisect_left(places, row) - 1
        return locations[at % len(places)]

    def count_text(self, here: Location | None = None, shown: Sequence[Location] | None = None) -> str:
        """How many were found, and which of them is shown; of those that are not listed only that there are some."""
        listed = self.locations if shown is None else shown
        count = plural(len(listed), "row")
        if here is not None and here in listed:
            count = f"{listed.index(here) + 1:,} of {count}"
        if hidden := len(self.locations) - len(listed):
            count = f"{count}, {hidden:,} not shown"
        return count if self.ended else f"{count}, {format_percent(self.progress)} searched"


def searchable(block: dict[str, Any]) -> str:
    """The text of a block that a search looks at."""
    kind = block.get("type")
    if kind == "text":
        return str(block.get("text") or "")
    if kind == "thinking":
        return str(block.get("thinking") or "")
    if kind == "tool_use":
        try:
            return f"{block.get('name')} {json.dumps(block.get('input'), ensure_ascii=False, default=str)}"
        except (ValueError, RecursionError):
            return str(block.get("name"))
    return result_text(block.get("content")) if kind == "tool_result" else ""


def matches(session: Session, text: str) -> Iterator[Location | None]:
    """Each location that holds *text*, and None after every message; capitals count when *text* has any."""
    facts = session.facts
    for message in range(session.length):
        whole = False
        try:
            blocks = session.content.blocks(message)
        except Exception:  # what cannot be read holds nothing
            blocks = []
        for row, block in zip(facts.blocks_of(message), blocks, strict=False):
            of_result = facts.kind[row] == Kind.TOOL_RESULT
            if whole and not of_result:
                continue
            if find(searchable(block), text) >= 0:
                if of_result:
                    yield Location(message, row)
                else:
                    whole = True
                    yield Location(message)
        yield None


def search(
    session: Session,
    text: str,
    number: int,
    post: Callable[[Found], object],
    checkpoint: Callable[[], object] = lambda: None,
) -> None:
    """Report every match, now and then; *checkpoint* is called after every message, and may raise to stop."""
    locations: list[Location] = []
    done, told = 0, time.monotonic()
    for location in matches(session, text):
        if location is not None:
            locations.append(location)
            continue
        done += 1
        checkpoint()
        if time.monotonic() - told >= PACE:
            post(Found(number, locations, done / session.length, False))
            locations, told = [], time.monotonic()
    post(Found(number, locations, 1.0, True))
