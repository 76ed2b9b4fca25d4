"""Everything that policies ask of a context, computed once: token sums, turn starts, tool results by position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate

from context_tui.session.context import Context
from context_tui.session.facts import Kind, MessageFlag
from context_tui.tokens.rulers import IMAGE_TOKENS


@dataclass(frozen=True)
class Results:
    """The tool_results of a context in prompt order: parallel columns, tokens by ``bytes/4``."""

    position: Sequence[int]
    block: Sequence[int]
    tokens: Sequence[int]


class Measured:
    """A context with its sums. Positions count from 0 within the context; tokens are ``bytes/4`` estimates."""

    def __init__(self, context: Context) -> None:
        self.context = context
        facts, replaced = context.facts, context.replaced
        size, kind, first, following = facts.size, facts.kind, facts.first_block, facts.block_next
        result, image, other = int(Kind.TOOL_RESULT), int(Kind.IMAGE), int(Kind.OTHER)
        self.tokens: list[int] = []
        positions: list[int] = []
        blocks: list[int] = []
        sizes: list[int] = []
        for position, message in enumerate(context.order):
            total, row = 0, first[message]
            while row >= 0:
                what = kind[row]
                if what == result:
                    tokens = size[row] // 4 if row not in replaced else replaced[row].size // 4
                    positions.append(position)
                    blocks.append(row)
                    sizes.append(tokens)
                else:
                    tokens = IMAGE_TOKENS if what == image else 0 if what == other else size[row] // 4
                total += tokens
                row = following[row]
            self.tokens.append(total)
        self.results = Results(positions, blocks, sizes)
        self.prefix = [0, *accumulate(self.tokens)]

    @property
    def total(self) -> int:
        """Tokens of the whole context."""
        return self.prefix[-1]

    @cached_property
    def turn_starts(self) -> list[int]:
        """Positions at which a turn starts, ascending."""
        flags, start = self.context.facts.flags, MessageFlag.TURN_START
        return [position for position, message in enumerate(self.context.order) if flags[message] & start]

    @cached_property
    def tool_of_call(self) -> dict[int, str]:
        """Per call that is made in this context, the name of its tool; of two calls with one id the last counts."""
        facts = self.context.facts
        use = int(Kind.TOOL_USE)
        return {
            facts.call[block]: facts.tool_name(block)
            for message in self.context.order
            for block in facts.blocks_of(message)
            if facts.kind[block] == use
        }

    @cached_property
    def position_of(self) -> dict[int, int]:
        """Message index to position."""
        return {message: position for position, message in enumerate(self.context.order)}


@lru_cache(maxsize=16)
def measured(context: Context) -> Measured:
    """The sums of *context*; computed once for each context that is in use."""
    return Measured(context)
