"""Breakdown of a context: tokens by category, tool and file, duplicate reads, and koda's diagnosis line."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf

from context_tui.session.blocks import bytes_to_tokens
from context_tui.session.context import Context
from context_tui.session.facts import Facts, prompt_at
from context_tui.session.values import BlockFlag, Kind, MessageFlag, Role
from context_tui.tokens.accounting import estimate_prompt_parts
from context_tui.tokens.context_index import index_context
from context_tui.tokens.estimators import bytes_to_tokens35, count_block_tokens
from context_tui.tokens.measures import TokenTable

CATEGORIES = (
    *("system", "tools", "not_in_file", "user", "assistant", "thinking", "tool_use", "tool_result"),
    *("injected", "summary", "image"),
)
RERUNNABLE_TOOLS = (
    *("Read", "read", "Bash", "bash", "Grep", "grep", "Glob", "glob"),
    *("ListFiles", "list_files", "WebSearch", "web_search", "WebFetch", "web_fetch"),
)
"""Tools whose results can be had again by another call, as koda lists them."""
MIN_DIAGNOSIS_TOKENS = 500
"""Tokens of results (bytes / 3.5) under which koda says nothing."""


@dataclass(frozen=True)
class ToolShare:
    """A tool's calls in the context, and the estimated tokens of their results (``bytes/4``)."""

    tool: str
    calls: int
    result_tokens: int


@dataclass(frozen=True)
class FileShare:
    """Path read in the context: number of reads, and estimated tokens of their results (``bytes/4``)."""

    path: str
    reads: int
    tokens: int


@dataclass(frozen=True)
class DuplicateRead:
    """Path read more than once, and the tokens of it that the context already held.

    ``wasted`` sums, over its reads, the share of lines that an earlier read had too, and is at most floor(tokens /
    count) x (count - 1). Ranges that do not overlap waste nothing.
    """

    path: str
    count: int
    tokens: int
    wasted: int


@dataclass(frozen=True)
class ToolSchema:
    """Tool that a request offers: tokens of its schema, calls so far, and the message of the last one (None: never)."""

    name: str
    tokens: int
    calls: int
    last_use: int | None


@dataclass(frozen=True)
class PromptShares:
    """Parts of what a request begins with: the system prompt, by name and tokens, and the tools, largest first."""

    system: list[tuple[str, int]]
    tools: list[ToolSchema]


@dataclass(frozen=True)
class FileRead:
    """Read of ``lines`` lines from ``first`` on (0: to the end); if failed or cleared, not ``is_complete``."""

    tokens: int
    first: int
    lines: int
    is_complete: bool

    @property
    def end(self) -> float:
        """Line after the last one."""
        return self.first + self.lines if self.lines else inf


@dataclass(frozen=True)
class Breakdown:
    """Context in parts; tokens are by the requested measure, except ``not_in_file`` (recorded - these)."""

    by_category: dict[str, int]
    by_tool: list[ToolShare]
    duplicate_reads: list[DuplicateRead]
    diagnosis: str | None
    by_file: list[FileShare]


def categorize_block(facts: Facts, message: int, block: int) -> str:
    """Return the category of a block."""
    return _categorize(facts.kind[block], facts.block_flags[block], facts.flags[message], facts.role[message])


@lru_cache(maxsize=512)
def _categorize(kind: int, block_flags: int, flags: int, role: int) -> str:
    if kind == Kind.IMAGE:
        return "image"
    if block_flags & BlockFlag.INJECTED:
        return "injected"
    if flags & MessageFlag.SUMMARY:
        return "summary"
    if kind in (Kind.TOOL_RESULT, Kind.TOOL_USE, Kind.THINKING):
        return Kind(kind).name.lower()
    return "assistant" if role == Role.ASSISTANT else "user"


def compute_breakdown(
    context: Context,
    not_in_file: int | None = None,
    checkpoint: Callable[[], object] = lambda: None,
    table: TokenTable | None = None,
) -> Breakdown:
    """Return the context in parts.

    Args:
        not_in_file: the result of :func:`context_tui.tokens.accounting.compute_not_in_file`.
        checkpoint: called at every message; it may raise to stop.
        table: the token measure (default: ``bytes/4``).
    """
    facts, sums = context.facts, index_context(context)
    categories = dict.fromkeys(CATEGORIES, 0)
    prompt = estimate_prompt_parts(facts, context.at) if table is None else table.prompt_at(context)
    categories["system"], categories["tools"] = prompt
    categories["not_in_file"] = not_in_file or 0
    calls: dict[str, int] = defaultdict(int)
    result_tokens: dict[str, int] = defaultdict(int)
    koda_tokens: dict[str, int] = defaultdict(int)
    reads: dict[int, list[FileRead]] = defaultdict(list)
    open_calls: dict[int, deque[int]] = {}  # call to the blocks that made it and have no result yet; ids may come again

    for message in context.order:
        checkpoint()
        for block in facts.blocks_of(message):
            tokens = count_block_tokens(context, block) if table is None else table.block_tokens(context, block)
            categories[categorize_block(facts, message, block)] += tokens
            if facts.kind[block] == Kind.TOOL_USE:
                calls[facts.tool_name(block)] += 1
                unanswered = open_calls.setdefault(facts.call[block], deque())
                while unanswered and facts.block_message[unanswered[0]] != message:
                    unanswered.popleft()
                unanswered.append(block)
            elif facts.kind[block] == Kind.TOOL_RESULT:
                call = facts.call[block]
                unanswered = open_calls.get(call, deque())
                use = unanswered.popleft() if len(unanswered) > 1 else unanswered[0] if unanswered else -1
                result_tokens[facts.tool_name(use) if use >= 0 else ""] += tokens
                body = context.replacements.get(block)
                size = body.size if body else facts.text_bytes[block]
                koda_tokens[sums.tool_of_call.get(call, "")] += bytes_to_tokens35(size)
                if use >= 0 and facts.path[use] >= 0:
                    is_complete = body is None and not facts.block_flags[block] & BlockFlag.ERROR
                    read_range = facts.read_range.get(block) or facts.read_range.get(use, (1, 0))
                    reads[facts.path[use]].append(FileRead(tokens, *read_range, is_complete))

    tools = [ToolShare(tool, calls[tool], result_tokens[tool]) for tool in {**calls, **result_tokens}]
    duplicates = [
        DuplicateRead(
            facts.paths[path],
            len(file_reads),
            sum(read.tokens for read in file_reads),
            count_wasted([read for read in file_reads if read.is_complete]),
        )
        for path, file_reads in reads.items()
        if len(file_reads) > 1
    ]
    files = [
        FileShare(facts.paths[path], len(file_reads), sum(read.tokens for read in file_reads))
        for path, file_reads in reads.items()
    ]
    return Breakdown(
        categories,
        sorted(tools, key=lambda share: (-share.result_tokens, share.tool)),
        sorted(duplicates, key=lambda read: (-read.wasted, read.path)),
        format_diagnosis(koda_tokens),
        sorted(files, key=lambda share: (-share.tokens, share.path)),
    )


def measure_prompt(context: Context, table: TokenTable | None = None) -> PromptShares:
    """Return the parts of the system prompt and the tools at the point of a context, as far as they are in the file.

    Args:
        table: the token measure; ``bytes/4`` without one.
    """
    facts, prompt = context.facts, prompt_at(context.facts, context.at)
    count = table.count_part if table else lambda part, is_tool: bytes_to_tokens(part.size)
    calls: dict[str, int] = defaultdict(int)
    last_use: dict[str, int] = {}
    if prompt.tools:
        for row, kind in enumerate(facts.kind):
            if kind == Kind.TOOL_USE and facts.block_message[row] < context.at:
                calls[facts.tool_name(row)] += 1
                last_use[facts.tool_name(row)] = facts.block_message[row]
    tools = [
        ToolSchema(part.name, count(part, True), calls[part.name], last_use.get(part.name)) for part in prompt.tools
    ]
    return PromptShares(
        [(part.name, count(part, False)) for part in prompt.system],
        sorted(tools, key=lambda tool: (-tool.tokens, tool.name)),
    )


def count_wasted(reads: Sequence[FileRead]) -> int:
    """Count the tokens of reads of one path, in order, whose lines an earlier read had too.

    An estimate: the lines of a read are taken to be equally long, and a read to the end of the file to have all lines
    that other reads had after its first one.
    """
    starts, ends, tokens = list[float](), list[float](), list[float]()  # ranges of lines, disjoint and ascending
    total = 0.0
    for read in reads:
        at = slice(bisect_right(ends, read.first), bisect_left(starts, read.end))
        within = list(zip(starts[at], ends[at], tokens[at], strict=True))
        if read.end != inf:
            repeated = sum(min(until, read.end) - max(since, read.first) for since, until, _ in within)
            repeated *= read.tokens / (read.end - read.first)
        else:
            repeated = sum(_count_tokens_from(read.first, *span) for span in within)
        repeated = min(repeated, read.tokens)
        total += repeated
        starts[at] = [min([read.first, *starts[at]])]
        ends[at] = [max([read.end, *ends[at]])]
        tokens[at] = [sum(tokens[at]) + read.tokens - repeated]
    return min(int(total), sum(read.tokens for read in reads) // len(reads) * (len(reads) - 1)) if reads else 0


def _count_tokens_from(first: float, since: float, until: float, tokens: float) -> float:
    """Return the tokens that lines *since* to *until* have from line *first* on."""
    return tokens if since >= first or until == inf else tokens * (until - first) / (until - since)


def format_diagnosis(result_tokens: dict[str, int]) -> str | None:
    """Format koda's line about the three re-runnable tools with the most result tokens (system 5)."""
    if sum(result_tokens.values()) < MIN_DIAGNOSIS_TOKENS:
        return None
    compactable = [(tool, tokens) for tool, tokens in result_tokens.items() if tool in RERUNNABLE_TOOLS and tokens]
    top = sorted(compactable, key=lambda share: (-share[1], share[0]))[:3]
    return ", ".join(f"{tool}: ~{tokens} tok" for tool, tokens in top) or None
