"""Breakdown of a context's tokens by category, tool and file, with duplicate reads and koda's diagnosis line."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from math import inf
from typing import NamedTuple

from context_tui.session.blocks import bytes_to_tokens
from context_tui.session.context import Context
from context_tui.session.facts import Facts, prompt_at
from context_tui.session.markers import split_text
from context_tui.session.session import Session
from context_tui.session.values import BlockFlag, Checkpoint, Kind, MessageFlag, Role
from context_tui.tokens.context_index import index_context
from context_tui.tokens.context_size import measure_context, measure_prompt_parts
from context_tui.tokens.estimators import bytes4, bytes_to_tokens35, count_block_tokens
from context_tui.tokens.measures import TokenMeasure, TokenTable

CATEGORIES = (
    *("system", "tools", "not_in_file", "user", "assistant", "thinking", "tool_use", "tool_result"),
    *("injected", "summary", "image", "put_back"),
)
UNLISTED_CATEGORIES = ("system", "tools", "not_in_file", "put_back")
"""Categories whose content is in no message of the file; ``put_back`` is what the last compaction inserted again."""
RERUNNABLE_TOOLS = (
    *("Read", "read", "Bash", "bash", "Grep", "grep", "Glob", "glob"),
    *("ListFiles", "list_files", "WebSearch", "web_search", "WebFetch", "web_fetch"),
)
"""Tools whose calls can be repeated to get the result again, according to koda."""
MIN_DIAGNOSIS_TOKENS = 500
"""Minimum tokens of results (bytes / 3.5) for koda to write a diagnosis."""


class ToolShare(NamedTuple):
    """A tool's share of the context: the number of calls to it, and the tokens in their results."""

    tool: str
    calls: int
    result_tokens: int


class FileShare(NamedTuple):
    """A file's share of the context: the number of times it was read, and the tokens in the results of these reads."""

    path: str
    reads: int
    tokens: int


@dataclass(frozen=True)
class DuplicateRead:
    """A file that was read more than once in the context.

    ``wasted`` estimates the tokens of lines that an earlier read had already returned. It is at most
    floor(tokens / count) x (count - 1), and 0 for ranges that do not overlap.
    """

    path: str
    count: int
    tokens: int
    wasted: int


@dataclass(frozen=True)
class ToolSchema:
    """A tool that a request offers: its schema's tokens, the calls to it, and the message of the last call, or None."""

    name: str
    tokens: int
    calls: int
    last_use: int | None
    cache_breakpoint: bool


@dataclass(frozen=True)
class SystemPart:
    """A part of a request's system prompt, with its size in tokens."""

    part: str
    tokens: int
    cache_breakpoint: bool


@dataclass(frozen=True)
class InjectedPart:
    """One kind of text that the runtime injects, with the tokens and the number of its occurrences."""

    part: str
    tokens: int
    count: int


@dataclass(frozen=True)
class PromptShares:
    """The parts of the system prompt, the offered tools and injected texts; the last two are sorted, largest first."""

    system: list[SystemPart]
    tools: list[ToolSchema]
    injected: list[InjectedPart]


class ServerShare(NamedTuple):
    """Tools of an MCP server: their number, the tokens of their schemas, and the number of calls to them."""

    name: str
    tools: int
    tokens: int
    calls: int


class FileRead(NamedTuple):
    """A read of a file: tokens, first line, number of lines (0: all), and whether it neither failed nor was cleared."""

    tokens: int
    first: int
    lines: int
    is_complete: bool

    @property
    def end(self) -> float:
        """Number of the line after the last line that was read, or infinity for a read of all lines."""
        return self.first + self.lines if self.lines else inf


class Breakdown(NamedTuple):
    """The tokens in a context by category (``not_in_file``: only known from recorded sizes), by tool and by file."""

    by_category: dict[str, int]
    by_tool: list[ToolShare]
    duplicate_reads: list[DuplicateRead]
    diagnosis: str | None
    by_file: list[FileShare]


def categorize_block(facts: Facts, message: int, block: int) -> str:
    """Return the category that a block counts towards, such as ``user`` or ``tool_result``."""
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


def measure_breakdown(
    context: Context, table: TokenTable | None = None, checkpoint: Checkpoint = lambda: None
) -> Breakdown:
    """Measure a context by category, tool and file, using *table* or else ``bytes/4``.

    With calibrated sizes, the categories are scaled to the size of the next request, and the tool results with them.
    """
    facts, sums, account = context.facts, index_context(context), measure_context(context, table)
    is_fitted = table is not None and table.measure is TokenMeasure.CALIBRATED
    categories = dict.fromkeys(CATEGORIES, 0)
    categories["system"], categories["tools"] = measure_prompt_parts(facts, table, context.at)
    categories["not_in_file"] = account.not_in_file or 0
    categories["put_back"] = account.put_back if is_fitted or account.recorded is None else 0
    calls: dict[str, int] = defaultdict(int)
    result_tokens: dict[str, int] = defaultdict(int)
    koda_tokens: dict[str, int] = defaultdict(int)
    reads: dict[int, list[FileRead]] = defaultdict(list)
    open_calls: dict[int, deque[int]] = {}  # unanswered tool_use blocks by call id, which may repeat

    for message in context.order:
        checkpoint()
        for block in facts.blocks_of(message):
            tokens = count_block_tokens(context, block) if table is None else table.count_block_tokens(context, block)
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
                call_block = unanswered.popleft() if len(unanswered) > 1 else unanswered[0] if unanswered else -1
                result_tokens[facts.tool_name(call_block) if call_block >= 0 else ""] += tokens
                body = context.replacements.get(block)
                size = body.size if body else facts.text_bytes[block]
                koda_tokens[sums.tool_of_call.get(call, "")] += bytes_to_tokens35(size)
                if call_block >= 0 and facts.path[call_block] >= 0:
                    is_complete = body is None and not facts.block_flags[block] & BlockFlag.ERROR
                    read_range = facts.read_range.get(block) or facts.read_range.get(call_block, (1, 0))
                    reads[facts.path[call_block]].append(FileRead(tokens, *read_range, is_complete))

    if is_fitted:
        categories = fit_categories(categories, account.tokens)
        result_tokens.update(scale_tokens(result_tokens, categories["tool_result"]))
    tools = [ToolShare(tool, calls[tool], result_tokens[tool]) for tool in {**calls, **result_tokens}]
    files, duplicates = list[FileShare](), list[DuplicateRead]()
    for path, file_reads in reads.items():
        share = FileShare(facts.paths[path], len(file_reads), sum(read.tokens for read in file_reads))
        files.append(share)
        if share.reads > 1:
            wasted = count_wasted([read for read in file_reads if read.is_complete])
            duplicates.append(DuplicateRead(share.path, share.reads, share.tokens, wasted))
    return Breakdown(
        categories,
        sorted(tools, key=lambda share: (-share.result_tokens, share.tool)),
        sorted(duplicates, key=lambda read: (-read.wasted, read.path)),
        format_diagnosis(koda_tokens),
        sorted(files, key=lambda share: (-share.tokens, share.path)),
    )


def fit_categories(categories: Mapping[str, int], size: int) -> dict[str, int]:
    """Scale the listed categories so that all categories add up to *size*; scale all if the others exceed it."""
    listed = {name: tokens for name, tokens in categories.items() if name not in UNLISTED_CATEGORIES}
    unlisted = {name: tokens for name, tokens in categories.items() if name in UNLISTED_CATEGORIES}
    remainder = size - sum(unlisted.values())
    is_scalable = remainder >= 0 and any(listed.values())
    fitted = unlisted | scale_tokens(listed, remainder) if is_scalable else scale_tokens(categories, size)
    return {name: fitted[name] for name in categories}


def scale_tokens(tokens: Mapping[str, int], total: int) -> dict[str, int]:
    """Scale token counts so that their sum is *total*, leaving them unchanged if all are 0."""
    scale = total / (sum(tokens.values()) or 1)
    ends = [round(end * scale) for end in accumulate(tokens.values(), initial=0)]
    return {name: after - before for name, (before, after) in zip(tokens, pairwise(ends), strict=True)}


def measure_prompt(session: Session, context: Context, table: TokenTable | None = None) -> PromptShares:
    """Measure the system prompt and the tools of a context, as far as the file contains them.

    Injected texts are measured only if the file holds whole requests.
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
        ToolSchema(part.name, count(part, True), calls[part.name], last_use.get(part.name), part.cache_breakpoint)
        for part in prompt.tools
    ]
    tools.sort(key=lambda tool: (-tool.tokens, tool.name))
    system = [SystemPart(part.name, count(part, False), part.cache_breakpoint) for part in prompt.system]
    return PromptShares(system, tools, _measure_injected_texts(session, context, table) if facts.holds_requests else [])


def _measure_injected_texts(session: Session, context: Context, table: TokenTable | None) -> list[InjectedPart]:
    facts = session.facts
    tokens: dict[str, int] = defaultdict(int)
    counts: dict[str, int] = defaultdict(int)
    for message in context.order:
        rows = list(facts.blocks_of(message))
        texts = {row for row in rows if facts.kind[row] == Kind.TEXT and facts.block_flags[row] & BlockFlag.INJECTED}
        for row, block in zip(rows, session.content.blocks(message) if texts else (), strict=False):
            if row not in texts:
                continue
            text = str(block.get("text") or "")
            size = table.count_block_tokens(context, row) if table else bytes4(facts, row)
            for name, section in split_text(text):
                tokens[name] += round(size * len(section) / max(len(text), 1))
                counts[name] += 1
    parts = [InjectedPart(name, size, counts[name]) for name, size in tokens.items()]
    return sorted(parts, key=lambda each: (-each.tokens, each.part))


def measure_servers(tools: Iterable[ToolSchema]) -> list[ServerShare]:
    """Return the totals of each MCP server's tools, which are named ``mcp__SERVER__TOOL``."""
    servers: dict[str, list[ToolSchema]] = defaultdict(list)
    for tool in tools:
        if tool.name.startswith("mcp__"):
            servers[tool.name.split("__")[1]].append(tool)
    return [
        ServerShare(name, len(each), sum(tool.tokens for tool in each), sum(tool.calls for tool in each))
        for name, each in servers.items()
    ]


def count_wasted(reads: Sequence[FileRead]) -> int:
    """Estimate the tokens in lines that an earlier read of the same file had already returned.

    All lines of a read are assumed to be equally long. A read to the end of the file is assumed to contain all lines
    after its first one that other reads returned.
    """
    starts, ends, tokens = list[float](), list[float](), list[float]()  # ranges of lines, disjoint and ascending
    total = 0.0
    for read in reads:
        overlap = slice(bisect_right(ends, read.first), bisect_left(starts, read.end))
        spans = list(zip(starts[overlap], ends[overlap], tokens[overlap], strict=True))
        if read.end != inf:
            repeated = sum(min(end, read.end) - max(start, read.first) for start, end, _ in spans)
            repeated *= read.tokens / (read.end - read.first)
        else:
            repeated = sum(_count_tokens_from(read.first, *span) for span in spans)
        repeated = min(repeated, read.tokens)
        total += repeated
        starts[overlap] = [min([read.first, *starts[overlap]])]
        ends[overlap] = [max([read.end, *ends[overlap]])]
        tokens[overlap] = [sum(tokens[overlap]) + read.tokens - repeated]
    return min(int(total), sum(read.tokens for read in reads) // len(reads) * (len(reads) - 1)) if reads else 0


def _count_tokens_from(first: float, start: float, end: float, tokens: float) -> float:
    return tokens if start >= first or end == inf else tokens * (end - first) / (end - start)


def format_diagnosis(result_tokens: dict[str, int]) -> str | None:
    """Format koda's line on the re-runnable tools with the most result tokens, or return None if results are small."""
    if sum(result_tokens.values()) < MIN_DIAGNOSIS_TOKENS:
        return None
    compactable = [(tool, tokens) for tool, tokens in result_tokens.items() if tool in RERUNNABLE_TOOLS and tokens]
    top = sorted(compactable, key=lambda share: (-share[1], share[0]))[:3]
    return ", ".join(f"{tool}: ~{tokens} tok" for tool, tokens in top) or None
