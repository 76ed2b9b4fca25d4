"""Which events a model was shown: OpenHands' view, which condensations take events out of and put summaries into."""

from __future__ import annotations

from collections.abc import Callable


class EventView:
    """The events that a model is shown, by key, in order; what was asked once is answered the same way again.

    Source: OpenHands software-agent-sdk, context/view/view.py; OpenHands V0, memory/view.py.
    """

    def __init__(self) -> None:
        self._shown: list[tuple[str, bool]] = []  # key, and whether it is a message (else it only counts)
        self._seen: set[str] = set()
        self._context_by_condensation: dict[str, tuple[str | int, ...]] = {}

    def append(self, key: str, *, message: bool = True) -> None:
        """Take an event; one that was taken before stays where it is."""
        if key and key not in self._seen:
            self._seen.add(key)
            self._shown.append((key, message))

    def condense(
        self, key: str, is_forgotten: Callable[[str], bool], *, summary: bool, offset: int | None
    ) -> tuple[str | int, ...]:
        """The context that a condensation leaves, as :class:`CompactionRecord` tells it: keys, and 0 for its own summary.

        Args:
            key: of the condensation; its summary goes by it from now on.
            forgets: whether an event is taken out, by its key.
            summary: whether it puts one in.
            offset: in front of how many of the events that are left; None: behind them.
        """
        if key not in self._context_by_condensation:
            self._seen.add(key)
            left = [each for each in self._shown if not is_forgotten(each[0])]
            if summary:
                left.insert(len(left) if offset is None else min(offset, len(left)), (key, True))
            self._shown = left
            self._context_by_condensation[key] = tuple(0 if each == key else each for each, message in left if message)
        return self._context_by_condensation[key]
