"""Index of a context by position: token sums, turn starts and tool results, computed once."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, wraps
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

from context_tui.session.blocks import BYTES_PER_TOKEN
from context_tui.session.context import Body, Context, memoize
from context_tui.session.facts import Facts, is_turn_start
from context_tui.session.values import Kind, MessageFlag, Role
from context_tui.tokens.estimators import IMAGE_TOKENS, bytes4

T = TypeVar("T")


class ToolResults(NamedTuple):
    """The tool results in a context, in prompt order, as parallel columns with tokens by ``bytes/4``."""

    position: list[int]
    block: list[int]
    tokens: list[int]


class ContextIndex:
    """Token sums and lookups for one context, with positions from 0 and tokens by ``bytes/4``.

    :meth:`extend` and :meth:`replace_bodies` update the index of a growing history in place.

    Attributes:
        tokens: tokens of the message at each position; ``total`` is their sum.
        results: the tool results that were not removed.
        structure_changed: whether the context differs from its base in more than the bodies of results.
        changed_ranges: first and last position of each change by :meth:`replace_bodies`.
        memo: cached results of other modules, which read ``changed_ranges`` and lengths to find new content.
    """

    def __init__(self, context: Context) -> None:
        # The context refers to its index. A reference back would keep the file open until the next garbage collection.
        self._facts, self._order, self._replaced = context.facts, context.order, context.replacements
        self.structure_changed, self.changed_in_place = False, False
        self.changed_ranges: list[tuple[int, int]] = []
        self.memo: dict[Any, Any] = {}
        self._uses: list[int] = []
        self._positions_cache: dict[object, tuple[list[int], int]] = {}
        self._tools_cache: tuple[dict[int, str], int] = {}, 0
        self._position_cache: tuple[dict[int, int], int] = {}, 0
        self._prefix: list[int] | None = None
        self._base: ContextIndex | None = None  # index of the context that this one derives from; it never changes
        if context.base is not None:
            index = index_context(context.base)
            self._base = ContextIndex(context.base) if index.changed_in_place else index
        if self._base is None:
            self.tokens, self.results, self.total = list[int](), ToolResults([], [], []), 0
            self._count_new()
        else:
            self.tokens, self.results = self._adjust_results(self._base)
            self.total = sum(self.tokens)

    def _count_new(self) -> None:
        facts, replaced, results = self._facts, self._replaced, self.results
        size, kind, first, following = facts.size, facts.kind, facts.first_block, facts.block_next
        tool_use, result, image, unsized = _USE, _RESULT, _IMAGE, _UNSIZED_KINDS
        sums, uses, start = self.tokens, self._uses, len(self.tokens)
        for position, message in enumerate(self._order[start:] if start else self._order, start):
            total, row = 0, first[message]
            while row >= 0:
                block_kind, body = kind[row], replaced.get(row)
                if body is not None:
                    tokens = body.size // BYTES_PER_TOKEN
                else:
                    tokens = size[row] // BYTES_PER_TOKEN
                    if block_kind in unsized:
                        tokens = IMAGE_TOKENS if block_kind == image else 0
                if body is None or not body.removed:
                    if block_kind == result:
                        results.position.append(position)
                        results.block.append(row)
                        results.tokens.append(tokens)
                    elif block_kind == tool_use:
                        uses.append(row)
                total += tokens
                row = following[row]
            sums.append(total)
        self.total += sum(sums[start:]) if start else sum(sums)

    def _adjust_results(self, base: ContextIndex) -> tuple[list[int], ToolResults]:
        """Derive tokens and results from *base*, the index of the same messages with fewer replaced bodies."""
        replaced, results = self._replaced, base.results
        sums, sizes = base.tokens.copy(), results.tokens.copy()
        result_count = 0
        for number, row in enumerate(results.block):
            if row in replaced:
                result_count += not replaced[row].removed
                tokens = replaced[row].size // BYTES_PER_TOKEN
                sums[results.position[number]] += tokens - sizes[number]
                sizes[number] = tokens
        self.structure_changed = result_count < len(replaced)
        if not self.structure_changed:
            return sums, ToolResults(results.position, results.block, sizes)
        facts = self._facts
        for row, body in replaced.items():  # calls, texts and thinking
            position = base.position_of.get(facts.block_message[row])
            if facts.kind[row] != Kind.TOOL_RESULT and position is not None:
                sums[position] += body.tokens - _count_block_tokens(facts, row, base._replaced)
        rows = zip(results.position, results.block, sizes, strict=True)
        remaining = [row for row in rows if row[1] not in replaced or not replaced[row[1]].removed]
        return sums, ToolResults(*map(list, zip(*remaining, strict=True))) if remaining else ToolResults([], [], [])

    # Growth

    def extend(self, context: Context, order: Sequence[int], replaced: Mapping[int, Body]) -> None:
        """Extend the index to *context*, which consists of the indexed messages and later ones.

        *order* and *replaced* are the history's messages and bodies, which may grow and change later.
        """
        self.changed_in_place, self._prefix = True, None
        self._order, self._replaced = order, replaced
        self._count_new()
        context.memo[index_context.__wrapped__] = self  # type: ignore[attr-defined]

    def replace_bodies(self, bodies: Mapping[int, Body], earlier_bodies: Mapping[int, Body]) -> bool:
        """Replace bodies; return False if a removal of calls, results or turn starts requires a new index."""
        facts, results, positions = self._facts, self.results, self.position_of
        self.changed_in_place, self._prefix = True, None
        changed_positions: list[int] = []
        for row, body in bodies.items():
            message, kind = facts.block_message[row], facts.kind[row]
            position = positions.get(message)
            if position is None:
                continue
            if body.removed and (kind in _STRUCTURAL_KINDS or facts.flags[message] & MessageFlag.TURN_START):
                return False
            tokens = body.tokens
            growth = tokens - _count_block_tokens(facts, row, earlier_bodies)
            self.tokens[position] += growth
            self.total += growth
            changed_positions.append(position)
            if kind == _RESULT:
                number = results.block.index(row, bisect_left(results.position, position))
                results.tokens[number] = tokens
        if changed_positions:
            self.changed_ranges.append((min(changed_positions), max(changed_positions)))
        return True

    # Positions, which do not depend on the bodies of results

    @property
    def prefix(self) -> list[int]:
        """Number of tokens before each position, with the total at the end."""
        if self._prefix is None:
            self._prefix = list(accumulate(self.tokens, initial=0))
        return self._prefix

    @property
    def turn_starts(self) -> list[int]:
        """Positions where a turn starts, in ascending order."""
        if self._base is not None:
            return self._remaining_turn_starts if self.structure_changed else self._base.turn_starts
        return self._find_flagged(MessageFlag.TURN_START)

    @cached_property
    def _remaining_turn_starts(self) -> list[int]:
        return [position for position in self._base.turn_starts if self._is_turn_start(position)] if self._base else []

    @property
    def summaries(self) -> list[int]:
        """Positions of summaries, in ascending order."""
        return self._base.summaries if self._base is not None else self._find_flagged(MessageFlag.SUMMARY)

    def _find_flagged(self, flag: int) -> list[int]:
        order, flags, starts = self._order, self._facts.flags, flag == MessageFlag.TURN_START
        return self._find_positions(
            flag,
            lambda at: bool(flags[order[at]] & flag) and (not starts or not self._replaced or self._is_turn_start(at)),
        )

    def _is_turn_start(self, position: int) -> bool:
        facts, replaced = self._facts, self._replaced
        rows = facts.blocks_of(self._order[position])
        return any(is_turn_start(facts, row) and not ((body := replaced.get(row)) and body.removed) for row in rows)

    @property
    def assistants(self) -> list[int]:
        """Positions of assistant messages, in ascending order."""
        if self._base is not None:
            return self._base.assistants
        order, role, assistant = self._order, self._facts.role, int(Role.ASSISTANT)
        return self._find_positions("assistants", lambda at: role[order[at]] == assistant)

    def _find_positions(self, key: object, matches: Callable[[int], bool]) -> list[int]:
        """Return the positions that match, testing only those added since the last call."""
        positions, start = self._positions_cache.get(key, ([], 0))
        if start < len(self.tokens):
            positions += [at for at in range(start, len(self.tokens)) if matches(at)]
            self._positions_cache[key] = positions, len(self.tokens)
        return positions

    @property
    def tool_of_call(self) -> dict[int, str]:
        """Tool names keyed by call id; of several calls with the same id, the last counts."""
        if self._base is not None:
            return self._remaining_tools if self.structure_changed else self._base.tool_of_call
        facts, (tools, start) = self._facts, self._tools_cache
        if start < len(self._uses):
            tools.update((facts.call[row], facts.tool_name(row)) for row in self._uses[start:])
            self._tools_cache = tools, len(self._uses)
        return tools

    @cached_property
    def _remaining_tools(self) -> dict[int, str]:
        facts = self._facts
        removed = {facts.call[row] for row, body in self._replaced.items() if body.removed and facts.kind[row] == _USE}
        tools = self._base.tool_of_call if self._base else {}
        return {call: tool for call, tool in tools.items() if call not in removed}

    @property
    def position_of(self) -> dict[int, int]:
        """Position of each message in the context."""
        if self._base is not None:
            return self._base.position_of
        positions, start = self._position_cache
        if start < len(self.tokens):
            length = len(self.tokens)
            positions.update(zip(self._order[start:length], range(start, length), strict=True))
            self._position_cache = positions, length
        return positions


_USE, _RESULT, _IMAGE, _OTHER = (int(kind) for kind in (Kind.TOOL_USE, Kind.TOOL_RESULT, Kind.IMAGE, Kind.OTHER))
_STRUCTURAL_KINDS, _UNSIZED_KINDS = frozenset({_RESULT, _USE}), frozenset({_IMAGE, _OTHER})


def _count_block_tokens(facts: Facts, row: int, replaced: Mapping[int, Body]) -> int:
    body = replaced.get(row)
    return bytes4(facts, row) if body is None else body.tokens


@memoize
def index_context(context: Context) -> ContextIndex:
    """Return the index of *context*, computing it only the first time."""
    return ContextIndex(context)


def memoize_by_messages(compute: Callable[[Context], T]) -> Callable[[Context], T]:
    """Wrap *compute* so that contexts that differ only in the bodies of tool results share one cached result.

    *compute* must not read the bodies of tool results.
    """
    memoized = memoize(compute)

    @wraps(compute)
    def get_shared(context: Context) -> T:
        while context.base is not None and not index_context(context).structure_changed:
            context = context.base
        return memoized(context)

    return get_shared
