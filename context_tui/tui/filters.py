"""Which rows of the timeline are listed: the conditions of a filter, and what it says of itself. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from context_tui.session.facts import Facts
from context_tui.session.values import BlockFlag, Kind
from context_tui.tokens.breakdown import categorize_block
from context_tui.tui.marks import VERDICT_LABELS

ROW_KINDS = ("user", "assistant", "thinking", "tool_use", "tool_result", "error", "injected", "summary", "image")
"""What a row can be: the categories of the breakdown, and a result that is an error."""
KIND_LABELS = {
    "user": "user",
    "system": "system prompt",
    "tool_use": "calls",
    "tool_result": "results",
    "error": "errors",
    "summary": "summaries",
    "image": "images",
}
"""What is called otherwise than by its name."""
SIZE_STEPS = (500, 1_000, 5_000, 20_000)
"""Tokens that a row can be asked to have at least."""
_KIND_BITS = {kind: 1 << number for number, kind in enumerate(ROW_KINDS)}


@dataclass(frozen=True)
class RowFilter:
    """Conditions that a row must meet all of; an empty one is no condition.

    ``category`` is one of ``ROW_KINDS``, ``verdict`` the word of a mark, ``path`` a file that was read; ``in_context`` asks
    for the messages of the context only.
    """

    category: str = ""
    tool: str = ""
    path: str = ""
    verdict: str = ""
    min_tokens: int = 0
    in_context: bool = False

    def __bool__(self) -> bool:
        return self != NO_FILTER

    def toggle_condition(self, kind: str, value: str | int) -> RowFilter:
        """The same with one condition set; setting it to what it is takes it away again."""
        empty = getattr(NO_FILTER, kind)
        return replace(self, **{kind: empty if getattr(self, kind) == value else value})  # type: ignore[arg-type]

    def toggle_part(self, kind: str, value: str) -> RowFilter:
        """The rows of a part of the context and no others, or everything where these are listed already."""
        only = build_part_filter(kind, value)
        return NO_FILTER if self == only else only

    def describe(self) -> str:
        """The filter in words, for a title."""
        found = [get_kind_label(self.category)] if self.category else []
        found += [self.tool] if self.tool else []
        found += [self.path] if self.path else []
        found += [get_kind_label(self.verdict)] if self.verdict else []
        found += [f"{self.min_tokens:,} tokens or more"] if self.min_tokens else []
        found += ["in context"] if self.in_context else []
        return ", ".join(found)

    def format_no_match(self, policy: str) -> str:
        """What to say where it lists no row; a verdict is one by *policy*, and another may have rows of it."""
        by = f" by {policy}" if self.verdict else ""
        return f"No rows match: {self.describe()}{by}; f changes it, esc shows all"


NO_FILTER = RowFilter()


def build_part_filter(kind: str, value: str) -> RowFilter:
    """What lists a part of the context: a ``category``, a ``tool`` or a ``path``."""
    return NO_FILTER.toggle_condition(kind, value).toggle_condition("in_context", True)


def get_kind_label(name: str) -> str:
    """What a kind of row or a verdict is called."""
    return KIND_LABELS.get(name) or VERDICT_LABELS.get(name) or name.replace("_", " ")


def get_kind_bit(kind: str) -> int:
    """The bit of a kind in what ``find_row_traits`` gives."""
    return _KIND_BITS.get(kind, 0)


def find_tool_number(facts: Facts, tool: str) -> int:
    """The number of a tool; -2 for one that is never used."""
    return facts.tools.index(tool) if tool in facts.tools else -2


def find_row_traits(facts: Facts, message: int, block: int, path: str = "") -> tuple[int, tuple[int, ...]]:
    """What a row is, a bit for each kind, and the numbers of the tools that it calls or is a result of: of a result (a
    row of facts), or of a message without its results.

    Args:
        path: leave out the tools that do not read this file.
    """
    if block >= 0:
        kinds = _KIND_BITS[categorize_block(facts, message, block)]
        if facts.block_flags[block] & BlockFlag.ERROR and facts.kind[block] == Kind.TOOL_RESULT:
            kinds |= _KIND_BITS["error"]
        return kinds, (facts.tool[block],) if facts.call[block] >= 0 and _reads_path(facts, block, path) else ()
    kinds, tools, kind = 0, list[int](), facts.kind
    for each in facts.blocks_of(message):
        if kind[each] != Kind.TOOL_RESULT:
            kinds |= _KIND_BITS[categorize_block(facts, message, each)]
            if kind[each] == Kind.TOOL_USE and facts.call[each] >= 0 and _reads_path(facts, each, path):
                tools.append(facts.tool[each])
    return kinds, tuple(tools)


def _reads_path(facts: Facts, block: int, path: str) -> bool:
    """Whether a call, or that of a result, reads a file; without a path, anyway."""
    if not path:
        return True
    use = facts.tool_use_of(block) if facts.kind[block] == Kind.TOOL_RESULT else block
    return use >= 0 and facts.path[use] >= 0 and facts.paths[facts.path[use]] == path
