"""Changes to single blocks, mappings of many changes, and the texts that result from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from context_tui.session.blocks import get_text
from context_tui.session.context import REMOVED_BODY, Body, Context
from context_tui.session.facts import Facts
from context_tui.session.jsontext import compact_json, utf8_len
from context_tui.session.session import Content

TextRenderer = Callable[[Any], str]
"""Function that returns the new text of a block, given a result's content, a call's input, or another block's text."""


@dataclass(frozen=True)
class Change:
    """A change that ``policy`` makes to a block. ``render`` returns the new text if ``body`` has none.

    For a ``tool_use``, the text is the new input as compact JSON (see :func:`build_input_body`).
    """

    action: Literal["clear", "truncate", "drop"]
    body: Body
    policy: str
    render: TextRenderer | None = None


def build_removal(policy: str) -> Change:
    """Return a change that removes a block."""
    return Change("drop", REMOVED_BODY, policy)


def build_input_body(facts: Facts, row: int, arguments: Mapping[str, Any]) -> Body:
    """Return a body that replaces the input of the tool call in block *row* with *arguments*."""
    encoded = compact_json(dict(arguments))
    return Body(encoded.decode("utf-8", "surrogatepass"), utf8_len(facts.tool_name(row)) + len(encoded))


class LazyChanges(Mapping[int, Change]):
    """Changes keyed by block row, in prompt order, built only when looked up, as there may be tens of thousands."""

    def __init__(self, rows: Sequence[int], build_change: Callable[[int], Change]) -> None:
        self.rows, self._build_change = rows, build_change

    def build_bodies(self) -> dict[int, Body]:
        """Map the row of every changed block to its new body."""
        return {row: self._build_change(row).body for row in self.rows}

    @cached_property
    def _row_set(self) -> frozenset[int]:
        return frozenset(self.rows)

    def __contains__(self, row: object) -> bool:
        return row in self._row_set

    def __getitem__(self, row: int) -> Change:
        if row not in self._row_set:
            raise KeyError(row)
        return self._build_change(row)

    def __iter__(self) -> Iterator[int]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


class UniformChanges(LazyChanges):
    """The same change to many blocks."""

    def __init__(self, rows: Sequence[int], change: Change) -> None:
        self.rows, self.change = rows, change

    def _build_change(self, row: int) -> Change:
        return self.change

    def build_bodies(self) -> dict[int, Body]:
        return dict.fromkeys(self.rows, self.change.body)


class StackedChanges(Mapping[int, Change]):
    """Newer changes on top of older ones. If both change a block, the newer one applies to the older one's result."""

    def __init__(self, newer: Mapping[int, Change], older: Mapping[int, Change]) -> None:
        self._newer, self._older = newer, older
        self._rows = [*older, *(row for row in newer if row not in older)]

    def __getitem__(self, row: int) -> Change:
        newer, older = self._newer.get(row), self._older.get(row)
        if newer is None or older is None:
            return newer or self._older[row]
        if older.body.removed:
            return older
        if newer.render is None or newer.body.text is not None:
            return newer
        render, older_render, text = newer.render, older.render, older.body.text
        return replace(
            newer, render=lambda value: render(older_render(value) if text is None and older_render else text)
        )

    def __contains__(self, row: object) -> bool:
        return row in self._newer or row in self._older

    def __iter__(self) -> Iterator[int]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def count_actions(changes: Mapping[int, Change]) -> tuple[int, int]:
    """Return the number of changes that clear a block and the number of those that truncate one."""
    if isinstance(changes, UniformChanges):
        count, action = len(changes.rows), changes.change.action
        return (count if action == "clear" else 0), (count if action == "truncate" else 0)
    actions = Counter(change.action for change in changes.values())
    return actions["clear"], actions["truncate"]


def collect_bodies(changes: Mapping[int, Change]) -> dict[int, Body]:
    """Map the row of every changed block to its new body."""
    if isinstance(changes, LazyChanges):
        return changes.build_bodies()
    return {row: change.body for row, change in changes.items()}


def build_new_texts(
    content: Content, context: Context, changes: Mapping[int, Change], message: int
) -> dict[int, str | None]:
    """Map the ordinals of a message's changed blocks to their new texts, or None for a removed block."""
    texts: dict[int, str | None] = {}
    blocks: list[dict[str, Any]] | None = None
    for ordinal, row in enumerate(context.facts.blocks_of(message)):
        earlier, change = context.replacements.get(row), changes.get(row)
        body = change.body if change else earlier
        if body is None:
            continue
        if change and change.render and body.text is None and not body.removed:
            blocks = blocks or content.blocks(message)
            texts[ordinal] = change.render(earlier.text if earlier else get_text(blocks[ordinal]))
        elif body.removed or body.text is not None:
            texts[ordinal] = body.text
    return texts
