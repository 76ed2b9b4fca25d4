"""What becomes of tool results: one change, and very many of them without an object for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from context_tui.session.context import Body


@dataclass(frozen=True)
class Change:
    """Another body for a tool_result: ``action`` is clear or truncate, ``policy`` who does it."""

    action: str
    body: Body
    policy: str
    render: Callable[[Any], str] | None = None  # makes the text from the recorded body, where ``body.text`` is None


class Changes(Mapping[int, Change]):
    """Changes by block row, in prompt order; each is made when it is asked for, as tens of thousands take too long."""

    def __init__(self, rows: Sequence[int], make: Callable[[int], Change]) -> None:
        self.rows, self._make = rows, make

    def bodies(self) -> dict[int, Body]:
        """The new bodies by block row."""
        return {row: self._make(row).body for row in self.rows}

    @cached_property
    def _members(self) -> frozenset[int]:
        return frozenset(self.rows)

    def __contains__(self, row: object) -> bool:
        return row in self._members

    def __getitem__(self, row: int) -> Change:
        if row not in self._members:
            raise KeyError(row)
        return self._make(row)

    def __iter__(self) -> Iterator[int]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


class AlikeChanges(Changes):
    """The same change for all of many results."""

    def __init__(self, rows: Sequence[int], change: Change) -> None:
        super().__init__(rows, lambda row: change)
        self.change = change

    def bodies(self) -> dict[int, Body]:
        return dict.fromkeys(self.rows, self.change.body)
