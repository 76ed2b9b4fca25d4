"""Where a context went: estimated tokens by category and tool, duplicate reads, and the diagnosis line."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from context_tui.session.context import Context
from context_tui.session.facts import BlockFlag, Facts, Kind, MessageFlag, Role
from context_tui.session.markers import KODA_COMPACTABLE
from context_tui.tokens.measured import measured
from context_tui.tokens.rulers import bytes4

CATEGORIES = (
    *("system", "tools", "not_in_file", "user", "assistant", "thinking", "tool_use", "tool_result"),
    *("injected", "summary", "image"),
)
DIAGNOSIS_FLOOR = 500
"""Tokens of results (bytes / 3.5) under which koda says nothing."""


@dataclass(frozen=True)
class ToolShare:
    """A tool's calls in the context, and the estimated tokens of their results (``bytes/4``)."""

    tool: str
    calls: int
    result_tokens: int


@dataclass(frozen=True)
class DuplicateRead:
    """A path that was read more than once: ``wasted`` tokens are floor(tokens / count) x (count - 1)."""

    path: str
    count: int
    tokens: int
    wasted: int


@dataclass(frozen=True)
class Breakdown:
    """A context in parts; tokens are ``bytes/4`` estimates, but for ``not_in_file`` (recorded - estimated)."""

    by_category: dict[str, int]
    by_tool: list[ToolShare]
    duplicate_reads: list[DuplicateRead]
    diagnosis: str | None


def category_of(facts: Facts, message: int, block: int) -> str:
    """The category of a block."""
    kind = facts.kind[block]
    if kind == Kind.IMAGE:
        return "image"
    if facts.block_flags[block] & BlockFlag.INJECTED:
        return "injected"
    if facts.flags[message] & MessageFlag.SUMMARY:
        return "summary"
    if kind in (Kind.TOOL_RESULT, Kind.TOOL_USE, Kind.THINKING):
        return Kind(kind).name.lower()
    return "assistant" if facts.role[message] == Role.ASSISTANT else "user"


def breakdown(context: Context, not_in_file: int | None = None) -> Breakdown:
    """The context in parts; *not_in_file* is what :func:`context_tui.tokens.recorded.not_in_file` found."""
    facts, sums = context.facts, measured(context)
    categories = dict.fromkeys(CATEGORIES, 0)
    categories["system"], categories["tools"] = facts.system_bytes // 4, facts.tools_bytes // 4
    categories["not_in_file"] = not_in_file or 0
    calls: dict[str, int] = defaultdict(int)
    result_tokens: dict[str, int] = defaultdict(int)
    koda_tokens: dict[str, int] = defaultdict(int)
    reads: dict[int, list[int]] = defaultdict(list)
    read_of_call: dict[int, int] = {}

    for message in context.order:
        for block in facts.blocks_of(message):
            body = context.replaced.get(block)
            tokens = body.size // 4 if body else bytes4(facts, block)
            categories[category_of(facts, message, block)] += tokens
            if facts.kind[block] == Kind.TOOL_USE:
                calls[facts.tool_name(block)] += 1
                if facts.path[block] >= 0:
                    read_of_call[facts.call[block]] = facts.path[block]
            elif facts.kind[block] == Kind.TOOL_RESULT:
                call = facts.call[block]
                tool = sums.tool_of_call.get(call, "")
                result_tokens[tool] += tokens
                koda_tokens[tool] += (body.size if body else facts.text_bytes[block]) * 2 // 7
                if call in read_of_call:
                    reads[read_of_call[call]].append(tokens)

    tools = [ToolShare(tool, calls[tool], result_tokens[tool]) for tool in {**calls, **result_tokens}]
    duplicates = [
        DuplicateRead(facts.paths[path], len(found), sum(found), sum(found) // len(found) * (len(found) - 1))
        for path, found in reads.items()
        if len(found) > 1
    ]
    return Breakdown(
        categories,
        sorted(tools, key=lambda share: (-share.result_tokens, share.tool)),
        sorted(duplicates, key=lambda read: (-read.wasted, read.path)),
        diagnosis(koda_tokens),
    )


def diagnosis(result_tokens: dict[str, int]) -> str | None:
    """koda's line about the three compactable tools with the most result tokens (system 5); None where it is silent."""
    if sum(result_tokens.values()) < DIAGNOSIS_FLOOR:
        return None
    compactable = [(tool, tokens) for tool, tokens in result_tokens.items() if tool in KODA_COMPACTABLE and tokens]
    top = sorted(compactable, key=lambda share: (-share[1], share[0]))[:3]
    return ", ".join(f"{tool}: ~{tokens} tok" for tool, tokens in top) or None
