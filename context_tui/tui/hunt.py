"""What a search has found so far, and going through it. Knows no widget."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

from context_tui.tui.rows import Rows
from context_tui.tui.searching import Found
from context_tui.tui.text import plural
from context_tui.tui.view import Spot


@dataclass
class Hunt:
    """One search at a time: its number tells late answers of an earlier one."""

    text: str = ""
    number: int = 0
    spots: list[Spot] = field(default_factory=list)
    progress: float = 0.0
    ended: bool = False

    def begin(self, text: str) -> None:
        """Look for another text."""
        self.text, self.number, self.spots, self.progress, self.ended = text, self.number + 1, [], 0.0, False

    def take(self, found: Found) -> bool:
        """Take an answer; whether it was one to this search."""
        if found.number != self.number:
            return False
        self.spots += found.spots
        self.progress, self.ended = found.progress, found.end
        return True

    def step(self, rows: Rows, here: Spot, step: int) -> Spot | None:
        """The next (+1) or previous (-1) match from *here*, around the ends; None when there is none."""
        if not self.spots:
            return None
        places = [rows.row_of(*spot) for spot in self.spots]
        row = rows.row_of(*here)
        at = bisect_right(places, row) if step > 0 else bisect_left(places, row) - 1
        return self.spots[at % len(places)]

    def words(self, here: Spot | None = None) -> str:
        """How many were found, and which of them is shown."""
        count = plural(len(self.spots), "row")
        if here is not None and here in self.spots:
            count = f"{self.spots.index(here) + 1:,} of {count}"
        return count if self.ended else f"{count}, {self.progress:.0%} searched"
