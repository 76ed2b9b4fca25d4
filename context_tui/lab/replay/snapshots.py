"""What a history was at a moment, while it goes on: views that take no room of their own and are never changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, overload

from context_tui.session.context import Body


class ListPrefix(Sequence[int]):
    """The first numbers of a list that is only appended to. It equals any sequence of the same numbers."""

    __slots__ = ("_length", "_numbers")

    def __init__(self, numbers: list[int]) -> None:
        self._numbers, self._length = numbers, len(numbers)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[int]:
        return islice(self._numbers, self._length)

    @overload
    def __getitem__(self, place: int) -> int: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[int]: ...

    def __getitem__(self, place: int | slice) -> int | Sequence[int]:
        if isinstance(place, slice):
            first, end, step = place.indices(self._length)
            return self._numbers[first:end:step] if step > 0 else self._numbers[: self._length][place]
        if not -self._length <= place < self._length:
            raise IndexError(place)
        return self._numbers[place if place >= 0 else self._length + place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(int.__eq__, self, other))

    __hash__ = None  # type: ignore[assignment]


_BodyVersion = tuple[int, Body, Any]
"""A body since the number of a change, and what was there before it: another one, or None."""


class VersionedBodies(dict[int, Body]):
    """Block rows to the bodies in their place, which :meth:`replace_bodies` changes; there can be others later, never none."""

    def __init__(self, bodies: Mapping[int, Body] | None = None) -> None:
        super().__init__(bodies or {})
        self._versions: dict[int, _BodyVersion] = {row: (0, body, None) for row, body in self.items()}
        self._changes = 0

    def replace_bodies(self, bodies: Mapping[int, Body]) -> None:
        """Let bodies stand in place of blocks."""
        self._changes += 1
        self.update(bodies)
        versions, since = self._versions, self._changes
        for row, body in bodies.items():
            versions[row] = since, body, versions.get(row)

    def take_snapshot(self) -> Mapping[int, Body]:
        """What it is now, which stays so."""
        return _BodiesSnapshot(self._versions, self._changes)


class _BodiesSnapshot(Mapping[int, Body]):
    """The bodies after so many changes."""

    __slots__ = ("_changes", "_length", "_versions")

    def __init__(self, versions: dict[int, _BodyVersion], changes: int) -> None:
        self._versions, self._changes, self._length = versions, changes, len(versions)

    def get(self, row: int, default: object = None) -> Body | None:  # type: ignore[override]
        """The body in place of a block; None where that is as it was recorded."""
        version = self._versions.get(row)
        while version is not None and version[0] > self._changes:
            version = version[2]
        return None if version is None else version[1]

    def __getitem__(self, row: int) -> Body:
        body = self.get(row)
        if body is None:
            raise KeyError(row)
        return body

    def __contains__(self, row: object) -> bool:
        return isinstance(row, int) and self.get(row) is not None

    def __iter__(self) -> Iterator[int]:
        return islice(self._versions, self._length)  # those that came later stand behind

    def __len__(self) -> int:
        return self._length
