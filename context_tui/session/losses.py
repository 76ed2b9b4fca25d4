"""Losses of an export: what a writer could not keep, counted and weighed by kind of block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from context_tui.session.context import Context
from context_tui.session.facts import Facts
from context_tui.session.values import Kind, Role

UnsupportedReason = Callable[[str, dict[str, Any]], str]
"""Why a message of a role cannot hold a block, in words for a list of losses; empty when it can."""

_COUNTED_KINDS = (Kind.IMAGE, Kind.OTHER)


def format_losses(counts: Counter[str]) -> list[str]:
    """Format losses with their counts."""
    return [f"{loss}: {number:,}" for loss, number in counts.items()]


class Losses:
    """Losses of an export. ``removed`` is the loss by kind of block, in the unit of :func:`weigh_context`.

    A loss that is not declared here is an error of the writer.
    """

    def __init__(self) -> None:
        self._counts = Counter[str]()
        self._notes: list[str] = []
        self.removed = Counter[int]()

    def __add__(self, later: Losses) -> Losses:
        """Combine the losses of two exports; a loss that both count in the same words is one."""
        total = Losses()
        total._counts = self._counts + later._counts
        total._notes = [*self._notes, *later._notes]
        total.removed = self.removed + later.removed
        return total

    @property
    def lines(self) -> list[str]:
        """Losses as lines, with their counts."""
        return [*format_losses(self._counts), *self._notes]

    def add(self, loss: str, number: int = 1) -> None:
        """Count changes that removed nothing."""
        if number:
            self._counts[loss] += number

    def add_counts(self, counts: Mapping[str, int]) -> None:
        """Add several counts."""
        for loss, number in counts.items():
            self.add(loss, number)

    def add_note(self, text: str) -> None:
        """Add a note without a count."""
        self._notes.append(text)

    def omit(self, loss: str, block: dict[str, Any]) -> None:
        """Count a block that is not written."""
        self.add(loss)
        kind, weight = weigh_block(block)
        self.removed[kind] += weight

    def replace(self, before: dict[str, Any], after: dict[str, Any], loss: str = "") -> None:
        """Declare the loss of weight from *before* to its replacement *after*; count it as *loss* if given."""
        if loss:
            self.add(loss)
        (kind, old), (new_kind, new) = weigh_block(before), weigh_block(after)
        self.removed[kind] += old if kind != new_kind else max(old - new, 0)


def weigh_context(context: Context) -> Counter[int]:
    """Measure how much of each kind of block a context holds: bytes that estimators see, else blocks."""
    facts, weights = context.facts, Counter[int]()
    for message in context.order:
        for row in facts.blocks_of(message):
            replaced = context.replacements.get(row)
            weights[facts.kind[row]] += replaced.size if replaced else _weigh_row(facts, row)
    return weights


def weigh_block(block: dict[str, Any]) -> tuple[int, int]:
    """Return the kind and the weight of an Anthropic-shaped block."""
    facts = Facts()
    row = facts.add_block(facts.add_message(Role.ASSISTANT), block)
    return facts.kind[row], _weigh_row(facts, row)


def _weigh_row(facts: Facts, row: int) -> int:
    return 1 if facts.kind[row] in _COUNTED_KINDS else facts.size[row]
