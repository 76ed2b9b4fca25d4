"""Everything that policies ask of a context, computed once: token sums, turn starts, tool results by position."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from itertools import accumulate
from typing import TypeVar

from context_tui.session.context import Context, once, removed
from context_tui.session.facts import Kind, MessageFlag, Role, begins_turn
from context_tui.tokens.estimators import BYTES_PER_TOKEN, IMAGE_TOKENS, bytes4

T = TypeVar("T")


@dataclass(frozen=True)
class Results:
    """The tool_results of a context in prompt order: parallel columns, tokens by ``bytes/4``."""

    position: Sequence[int]
    block: Sequence[int]
    tokens: Sequence[int]

    @property
    def columns(self) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
        """All three."""
        return self.position, self.block, self.tokens


class Measured:
    """A context with its sums. Positions count from 0 within the context; tokens are ``bytes/4`` estimates.

    ``reshaped`` says that it differs from the context it was made of by more than other bodies of results. *before* are
    the sums of a context that this one begins with, with the same bodies.
    """

    def __init__(self, context: Context, before: Measured | None = None) -> None:
        # Kept by the context itself, so that a reference back would keep its open file until memory is looked through.
        self.context, self.reshaped = replace(context, content=None, base=None, memo={}), False
        self._base = measured(context.base) if context.base is not None else None
        self.tokens, self.results = self._counted(before) if self._base is None else self._adjusted(self._base)
        self.prefix = list(accumulate(self.tokens, initial=0))

    def _counted(self, before: Measured | None) -> tuple[list[int], Results]:
        """Tokens of each message, and the results, block by block; only of messages that are not in *before*."""
        facts, replaced = self.context.facts, self.context.replaced
        size, kind, first, following = facts.size, facts.kind, facts.first_block, facts.block_next
        use, result, image, other = (int(k) for k in (Kind.TOOL_USE, Kind.TOOL_RESULT, Kind.IMAGE, Kind.OTHER))
        calls, self._use_of_call = facts.call, before._calls_made() if before else dict[int, int]()
        sums: list[int] = list(before.tokens) if before else []
        positions, blocks, sizes = (list(column) for column in before.results.columns) if before else ([], [], [])
        for position, message in enumerate(self.context.order[len(sums) :], len(sums)):
            total, row = 0, first[message]
            while row >= 0:
                what = kind[row]
                if what == result:
                    tokens = size[row] // BYTES_PER_TOKEN if row not in replaced else replaced[row].tokens
                    positions.append(position)
                    blocks.append(row)
                    sizes.append(tokens)
                else:
                    tokens = IMAGE_TOKENS if what == image else 0 if what == other else size[row] // BYTES_PER_TOKEN
                    if what == use:
                        self._use_of_call[calls[row]] = row
                total += tokens
                row = following[row]
            sums.append(total)
        return sums, Results(positions, blocks, sizes)

    def _calls_made(self) -> dict[int, int]:
        """A copy of: call to the block that makes it."""
        made = self
        while made._base is not None:
            made = made._base
        return made._use_of_call.copy()

    def _adjusted(self, base: Measured) -> tuple[list[int], Results]:
        """The same from those of the same messages with fewer bodies replaced."""
        replaced, results = self.context.replaced, base.results
        sums, sizes = base.tokens.copy(), list(results.tokens)
        found = 0
        for number, row in enumerate(results.block):
            if row in replaced:
                found += not replaced[row].removed
                tokens = replaced[row].size // BYTES_PER_TOKEN
                sums[results.position[number]] += tokens - sizes[number]
                sizes[number] = tokens
        self.reshaped = found < len(replaced)
        if not self.reshaped:
            return sums, Results(results.position, results.block, sizes)
        self._adjust_others(base, sums)  # calls, texts and thinking too
        rows = zip(results.position, results.block, sizes, strict=True)
        left = [each for each in rows if each[1] not in replaced or not replaced[each[1]].removed]
        return sums, Results(*zip(*left, strict=True)) if left else Results((), (), ())

    def _adjust_others(self, base: Measured, sums: list[int]) -> None:
        """Take what stands in place of other blocks than results into the sums of their messages."""
        facts, before = self.context.facts, base.context.replaced
        for row, body in self.context.replaced.items():
            position = base.position_of.get(facts.block_message[row])
            if facts.kind[row] != Kind.TOOL_RESULT and position is not None:
                earlier = before.get(row)
                sums[position] += body.tokens - (earlier.tokens if earlier else bytes4(facts, row))

    @property
    def total(self) -> int:
        """Tokens of the whole context."""
        return self.prefix[-1]

    # Other bodies of results change none of these.

    @cached_property
    def turn_starts(self) -> list[int]:
        """Positions at which a turn starts, ascending."""
        if self._base is not None:
            starts = self._base.turn_starts
            return [each for each in starts if self._begins_turn(each)] if self.reshaped else starts
        flags, start = self.context.facts.flags, MessageFlag.TURN_START
        return [position for position, message in enumerate(self.context.order) if flags[message] & start]

    def _begins_turn(self, position: int) -> bool:
        """Whether what was typed in a message is still there."""
        facts = self.context.facts
        return any(begins_turn(facts, row) for row in self.context.blocks_of(self.context.order[position]))

    @cached_property
    def assistants(self) -> list[int]:
        """Positions of the assistant messages, ascending."""
        if self._base is not None:
            return self._base.assistants
        role, assistant = self.context.facts.role, int(Role.ASSISTANT)
        return [position for position, message in enumerate(self.context.order) if role[message] == assistant]

    @cached_property
    def tool_of_call(self) -> dict[int, str]:
        """Per call that is made in this context, the name of its tool; of two calls with one id the last counts."""
        if self._base is not None:
            gone = removed(self.context) if self.reshaped else frozenset()
            calls = {self.context.facts.call[row] for row in gone if self.context.facts.kind[row] == Kind.TOOL_USE}
            found = self._base.tool_of_call
            return {call: tool for call, tool in found.items() if call not in calls} if calls else found
        return {call: self.context.facts.tool_name(block) for call, block in self._use_of_call.items()}

    @cached_property
    def position_of(self) -> dict[int, int]:
        """Message index to position."""
        if self._base is not None:
            return self._base.position_of
        return {message: position for position, message in enumerate(self.context.order)}


@once
def measured(context: Context) -> Measured:
    """The sums of *context*; computed once."""
    return Measured(context)


def measure_grown(context: Context, before: Context) -> None:
    """Measure *context*, which begins with the messages and bodies of *before*, by what it has besides."""
    known = measured(before)
    if not known.reshaped:
        context.memo[measured.__wrapped__] = Measured(context, known)  # type: ignore[attr-defined]


def once_for_messages(compute: Callable[[Context], T]) -> Callable[[Context], T]:
    """*compute*, where it looks at no body of a result: one answer for all contexts that differ by these only."""
    kept = once(compute)

    @wraps(compute)
    def shared(context: Context) -> T:
        while context.base is not None and not measured(context).reshaped:
            context = context.base
        return kept(context)

    return shared
