"""Losses of an export: counts of the content that a writer could not keep, and its weight by kind of block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from context_tui.session.context import Context
from context_tui.session.facts import Facts
from context_tui.session.values import Kind, RecordKind, Role

UnsupportedReason = Callable[[str, dict[str, Any]], str]
"""Function that returns the loss if a message of a role cannot contain a block, else an empty text."""

_COUNTED_KINDS = (Kind.IMAGE, Kind.OTHER)


def format_losses(counts: Counter[str]) -> list[str]:
    """Return one line for each loss, with its count."""
    return [f"{loss}: {number:,}" for loss, number in counts.items()]


def list_unreadable(facts: Facts) -> list[str]:
    """Return a list with one line that counts the unreadable records (left out of plans and exports), or [] if none."""
    count = facts.record_kind.count(RecordKind.PROBLEM)
    return format_losses(Counter({"unreadable records of the session left out": count})) if count else []


class Losses:
    """The losses that a writer declares. ``removed`` is the lost weight (:func:`weigh_context`) by kind of block."""

    def __init__(self) -> None:
        self._counts = Counter[str]()
        self._notes: list[str] = []
        self.removed = Counter[int]()

    def __add__(self, later: Losses) -> Losses:
        """Return the combined losses of two exports; counts with the same text are added up."""
        total = Losses()
        total._counts = self._counts + later._counts
        total._notes = [*self._notes, *later._notes]
        total.removed = self.removed + later.removed
        return total

    @property
    def lines(self) -> list[str]:
        """The losses with their counts, then the notes, one per line."""
        return [*format_losses(self._counts), *self._notes]

    def add(self, loss: str, number: int = 1) -> None:
        """Count *number* changes that are described by *loss* and removed no content; 0 adds nothing."""
        if number:
            self._counts[loss] += number

    def add_note(self, text: str) -> None:
        """Add a note that has no count."""
        self._notes.append(text)

    def omit(self, loss: str, block: dict[str, Any]) -> None:
        """Count a block that is left out, and add its weight to ``removed``."""
        self.add(loss)
        kind, weight = weigh_block(block)
        self.removed[kind] += weight

    def replace(self, before: dict[str, Any], after: dict[str, Any], loss: str = "") -> None:
        """Add the weight lost by writing block *after* instead of *before*, and count *loss* unless it is empty."""
        if loss:
            self.add(loss)
        (kind, weight), (new_kind, new_weight) = weigh_block(before), weigh_block(after)
        self.removed[kind] += weight if kind != new_kind else max(weight - new_weight, 0)


def weigh_context(context: Context) -> Counter[int]:
    """Return the weight of a context's blocks by kind: their bytes, or for images and unknown blocks their number."""
    facts, weights = context.facts, Counter[int]()
    for message in context.order:
        for row in facts.blocks_of(message):
            replaced = context.replacements.get(row)
            weights[facts.kind[row]] += replaced.size if replaced else _weigh_row(facts, row)
    return weights


def weigh_block(block: dict[str, Any]) -> tuple[int, int]:
    """Return the kind of a block, and its weight as in :func:`weigh_context`."""
    facts = Facts()
    row = facts.add_block(facts.add_message(Role.ASSISTANT), block)
    return facts.kind[row], _weigh_row(facts, row)


def _weigh_row(facts: Facts, row: int) -> int:
    return 1 if facts.kind[row] in _COUNTED_KINDS else facts.size[row]
