"""The rows of the breakdown: what stands in each section, in which order, and what choosing a row would do.

Pure, without Textual.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from operator import sub

from context_tui.session.context import Context
from context_tui.session.facts import Facts
from context_tui.session.values import Kind
from context_tui.tokens.breakdown import Breakdown, categorize_block
from context_tui.tokens.context_index import index_context
from context_tui.tokens.estimate_check import Cause, EstimateCheck
from context_tui.tokens.estimators import bytes4
from context_tui.tokens.measures import TokenTable
from context_tui.tui.context_sizes import ContextSizes, format_estimate_error
from context_tui.tui.numbers import format_token_column, format_token_unit
from context_tui.tui.widgets.composition import CATEGORY_STYLES

MAX_LARGEST_BLOCKS, MAX_LISTED_FILES = 12, 20
"""How many of the largest blocks are told, and of the files that took most."""
SHORT_CATEGORY_LABELS = {"not_in_file": "not in the file"}
"""Categories that are called otherwise than in the bar, where there is no room for the name."""
NOT_IN_FILE_NOTE = (
    "not in the file: system prompt and tool definitions as far as the model got them and the session file does not"
    " hold them; "
)
NOT_IN_FILE_BY_FIRST_REQUEST = "what the first request recorded, less its estimate"
NOT_IN_FILE_BY_MODEL = "what requests of this model recorded, less what the file measures: the median"
RECORDED_SIZES_NOTE = "by recorded sizes: the same parts, by the sizes that the requests recorded"


@dataclass(frozen=True)
class BreakdownRow:
    """A row: ``kind`` and ``value`` are what choosing it filters by; a heading has neither, nor have lines of words.

    ``tokens`` are estimates but where the text says otherwise; ``share`` is of the context, ``bar`` of the largest row.
    ``recorded`` is what stands in the column of recorded sizes, where a section has one. A heading is a row with a
    ``note``, which names the column of tokens; its ``count`` and ``recorded`` name those columns.
    """

    text: str
    kind: str = ""
    value: str = ""
    count: str = ""
    tokens: int | None = None
    share: float = 0.0
    bar: float = 0.0
    note: str = ""
    category: str = ""
    message: int = -1
    block: int = -1
    recorded: str = ""

    @property
    def subject(self) -> tuple[str, str, int, int]:
        """What it is about, wherever it stands."""
        return self.kind, self.value, self.message, self.block


def build_breakdown_rows(context: Context, sizes: ContextSizes, by_size: bool = True) -> list[BreakdownRow]:
    """All sections with their headings, each largest first or in the order of the file."""
    facts, parts, column = context.facts, sizes.breakdown, format_token_column(sizes.token_table)
    total = sum(parts.by_category.values())
    real = sizes.suggested_sizes.by_category if sizes.suggested_sizes else None
    rows = [BreakdownRow("by category", note=column, recorded="by recorded sizes" if real else "")]
    if not total:
        rows.append(BreakdownRow("no messages in this context"))
    rows += _sort_rows(_build_category_rows(parts, total, real), by_size)
    if parts.by_category.get("not_in_file"):
        rows.append(BreakdownRow(NOT_IN_FILE_NOTE + (NOT_IN_FILE_BY_MODEL if sizes.token_table else NOT_IN_FILE_BY_FIRST_REQUEST)))
    if sizes.token_table:
        rows.append(BreakdownRow(f"sizes by {sizes.token_table.description}; R takes another ruler"))
    if real:
        rows.append(BreakdownRow(RECORDED_SIZES_NOTE))
    if total and sizes.suggested_sizes and sizes.suggested_sizes.reason:
        rows.append(BreakdownRow(f"by recorded sizes: unknown, {sizes.suggested_sizes.reason}"))
    if parts.diagnosis:
        rows.append(BreakdownRow(f"koda's diagnosis: {parts.diagnosis}"))
    rows += _build_cause_rows(sizes.estimate_check) if sizes.estimate_check else []
    tools = _sort_rows(_build_tool_rows(facts, parts, total), by_size)
    rows += [BreakdownRow("results by tool", count="calls", note=column), *(tools or [BreakdownRow("no tool calls")])]
    files = _sort_rows(_build_file_rows(facts, parts, total), by_size)
    rows += [BreakdownRow("results by file", count="reads", note=column), *(files or [BreakdownRow("no file was read")])]
    largest = _sort_rows(build_largest_block_rows(context, total, token_table=sizes.token_table), by_size)
    rows += [BreakdownRow("largest blocks", count="message", note=column), *(largest or [BreakdownRow("no blocks")])]
    reads = _sort_rows(_build_repeated_read_rows(facts, parts, total), by_size)
    return [
        *rows,
        BreakdownRow("lines read again", count="reads", note=f"{format_token_unit(sizes.token_table)} repeated"),
        *(reads or [BreakdownRow("no line was read again")]),
    ]


def _sort_rows(rows: Iterable[tuple[int, BreakdownRow]], by_size: bool) -> list[BreakdownRow]:
    """Rows by size, or by the place that comes with each."""
    found = sorted(rows, key=lambda each: each[0])
    if by_size:
        found.sort(key=lambda each: -(each[1].tokens or 0))
    largest = max((row.tokens or 0 for _, row in found), default=0) or 1
    return [replace(row, bar=(row.tokens or 0) / largest) for _, row in found]


def _build_category_rows(parts: Breakdown, total: int, recorded_sizes: Mapping[str, int | None] | None) -> Iterable[tuple[int, BreakdownRow]]:
    for place, (name, look) in enumerate(CATEGORY_STYLES.items()):
        tokens = parts.by_category.get(name, 0)
        if tokens or (recorded_sizes and recorded_sizes.get(name)):
            recorded = "" if recorded_sizes is None else "unknown" if recorded_sizes.get(name) is None else f"{recorded_sizes[name]:,}"
            kind = "" if name in ("system", "tools", "not_in_file") else "category"
            share = tokens / total if total else 0.0
            yield place, BreakdownRow(look.name, kind, name, "", tokens, share, category=name, recorded=recorded)


def _build_cause_rows(estimate_check: EstimateCheck) -> list[BreakdownRow]:
    """What the difference between the estimate and the recorded size comes from, where that is large."""
    off = format_estimate_error(estimate_check)
    if not off:
        return []
    causes = [*estimate_check.causes, Cause("unexplained", estimate_check.unexplained)]
    most = max(abs(cause.tokens) for cause in causes) or 1
    found = [BreakdownRow("why the estimate is off", note="tokens"), BreakdownRow(f"the estimate is {off}; by cause:")]
    for cause in causes:
        tokens, text = abs(cause.tokens), f"{cause.label}: {'less' if cause.tokens > 0 else 'more'}"
        if tokens:
            found.append(BreakdownRow(text, tokens=tokens, share=tokens / estimate_check.recorded, bar=tokens / most))
    return found


def _build_tool_rows(facts: Facts, parts: Breakdown, total: int) -> Iterable[tuple[int, BreakdownRow]]:
    places = {name: place for place, name in enumerate(facts.tools)}
    for each in parts.by_tool:
        name, calls = each.tool or "(call not in the file)", f"{each.calls:,}"
        share = each.result_tokens / total if total else 0.0
        kind = "tool" if each.tool else ""
        yield places.get(each.tool, -1), BreakdownRow(name, kind, each.tool, calls, each.result_tokens, share)


def _build_file_rows(facts: Facts, parts: Breakdown, total: int) -> Iterable[tuple[int, BreakdownRow]]:
    places = {path: place for place, path in enumerate(facts.paths)}
    for each in parts.by_file[:MAX_LISTED_FILES]:
        share = each.tokens / total if total else 0.0
        yield places[each.path], BreakdownRow(each.path, "path", each.path, f"{each.reads:,}", each.tokens, share)


def build_largest_block_rows(
    context: Context, total: int, count: int = MAX_LARGEST_BLOCKS, token_table: TokenTable | None = None
) -> Iterable[tuple[int, BreakdownRow]]:
    """The largest blocks of a context, by a ruler or by ``bytes/4``."""
    facts, replaced, totals = context.facts, context.replacements, index_context(context).tokens
    if token_table:
        totals = [*map(sub, islice(token_table.prefix_sums_in(context), 1, None), token_table.prefix_sums_in(context))]
    largest: list[tuple[int, int, int, int]] = []
    for place in sorted(range(len(totals)), key=totals.__getitem__, reverse=True):
        if len(largest) == count and totals[place] <= largest[0][0]:
            break  # no block of the other messages is larger than those that were found
        message = context.order[place]
        for row in facts.blocks_of(message):
            estimated = replaced[row].tokens if row in replaced else bytes4(facts, row)
            tokens = token_table.block_tokens(context, row) if token_table else estimated
            heapq.heappush(largest, (tokens, -place, message, row))
            if len(largest) > count:
                heapq.heappop(largest)
    for tokens, place, message, row in sorted(largest, reverse=True):
        if tokens:
            category = categorize_block(facts, message, row)
            share = tokens / total if total else 0.0
            (text, path), at = _describe_block(facts, row, category), f"#{message:,}"
            found = BreakdownRow(text, "message", path, at, tokens, share, category=category, message=message, block=row)
            yield -place, found


def _describe_block(facts: Facts, row: int, category: str) -> tuple[str, str]:
    """What a block is: its tool or its category; and the path that it read."""
    if facts.kind[row] == Kind.TOOL_RESULT:
        use = facts.tool_use_of(row)
        path = facts.path[use] if use >= 0 else -1
        return facts.tool_name(row) or "result", facts.paths[path] if path >= 0 else ""
    name = CATEGORY_STYLES[category].name
    return f"{name}: {facts.tool_name(row)}" if facts.kind[row] == Kind.TOOL_USE else name, ""


def _build_repeated_read_rows(facts: Facts, parts: Breakdown, total: int) -> Iterable[tuple[int, BreakdownRow]]:
    places = {path: place for place, path in enumerate(facts.paths)}
    for read in (each for each in parts.duplicate_reads if each.wasted):
        share = read.wasted / total if total else 0.0
        yield places[read.path], BreakdownRow(read.path, "path", read.path, f"{read.count:,}", read.wasted, share)
