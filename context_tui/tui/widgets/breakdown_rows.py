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
from context_tui.tui.widgets.composition import LOOKS

OFFENDERS, FILES = 12, 20
"""How many of the largest blocks are told, and of the files that took most."""
SHORTER = {"not_in_file": "not in the file"}
"""Categories that are called otherwise than in the bar, where there is no room for the name."""
HIDDEN = (
    "not in the file: system prompt and tool definitions as far as the model got them and the session file does not"
    " hold them; "
)
HIDDEN_FIRST = "what the first request recorded, less its estimate"
HIDDEN_BY = "what requests of this model recorded, less what the file measures: the median"
BY_RECORDED = "by recorded sizes: the same parts, by the sizes that the requests recorded"


@dataclass(frozen=True)
class Row:
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


def rows_of(context: Context, sizes: ContextSizes, by_size: bool = True) -> list[Row]:
    """All sections with their headings, each largest first or in the order of the file."""
    facts, parts, column = context.facts, sizes.breakdown, format_token_column(sizes.token_table)
    total = sum(parts.by_category.values())
    real = sizes.suggested_sizes.by_category if sizes.suggested_sizes else None
    rows = [Row("by category", note=column, recorded="by recorded sizes" if real else "")]
    if not total:
        rows.append(Row("no messages in this context"))
    rows += _sorted(_categories(parts, total, real), by_size)
    if parts.by_category.get("not_in_file"):
        rows.append(Row(HIDDEN + (HIDDEN_BY if sizes.token_table else HIDDEN_FIRST)))
    if sizes.token_table:
        rows.append(Row(f"sizes by {sizes.token_table.description}; R takes another ruler"))
    if real:
        rows.append(Row(BY_RECORDED))
    if total and sizes.suggested_sizes and sizes.suggested_sizes.reason:
        rows.append(Row(f"by recorded sizes: unknown, {sizes.suggested_sizes.reason}"))
    if parts.diagnosis:
        rows.append(Row(f"koda's diagnosis: {parts.diagnosis}"))
    rows += _causes(sizes.estimate_check) if sizes.estimate_check else []
    tools = _sorted(_tools(facts, parts, total), by_size)
    rows += [Row("results by tool", count="calls", note=column), *(tools or [Row("no tool calls")])]
    files = _sorted(_files(facts, parts, total), by_size)
    rows += [Row("results by file", count="reads", note=column), *(files or [Row("no file was read")])]
    largest = _sorted(offenders(context, total, sizes=sizes.token_table), by_size)
    rows += [Row("largest blocks", count="message", note=column), *(largest or [Row("no blocks")])]
    reads = _sorted(_reads(facts, parts, total), by_size)
    return [
        *rows,
        Row("lines read again", count="reads", note=f"{format_token_unit(sizes.token_table)} repeated"),
        *(reads or [Row("no line was read again")]),
    ]


def _sorted(rows: Iterable[tuple[int, Row]], by_size: bool) -> list[Row]:
    """Rows by size, or by the place that comes with each."""
    found = sorted(rows, key=lambda each: each[0])
    if by_size:
        found.sort(key=lambda each: -(each[1].tokens or 0))
    largest = max((row.tokens or 0 for _, row in found), default=0) or 1
    return [replace(row, bar=(row.tokens or 0) / largest) for _, row in found]


def _categories(parts: Breakdown, total: int, real: Mapping[str, int | None] | None) -> Iterable[tuple[int, Row]]:
    for place, (name, look) in enumerate(LOOKS.items()):
        tokens = parts.by_category.get(name, 0)
        if tokens or (real and real.get(name)):
            recorded = "" if real is None else "unknown" if real.get(name) is None else f"{real[name]:,}"
            kind = "" if name in ("system", "tools", "not_in_file") else "category"
            share = tokens / total if total else 0.0
            yield place, Row(look.name, kind, name, "", tokens, share, category=name, recorded=recorded)


def _causes(fit: EstimateCheck) -> list[Row]:
    """What the difference between the estimate and the recorded size comes from, where that is large."""
    off = format_estimate_error(fit)
    if not off:
        return []
    causes = [*fit.causes, Cause("unexplained", fit.unexplained)]
    most = max(abs(cause.tokens) for cause in causes) or 1
    found = [Row("why the estimate is off", note="tokens"), Row(f"the estimate is {off}; by cause:")]
    for cause in causes:
        tokens, text = abs(cause.tokens), f"{cause.label}: {'less' if cause.tokens > 0 else 'more'}"
        if tokens:
            found.append(Row(text, tokens=tokens, share=tokens / fit.recorded, bar=tokens / most))
    return found


def _tools(facts: Facts, parts: Breakdown, total: int) -> Iterable[tuple[int, Row]]:
    places = {name: place for place, name in enumerate(facts.tools)}
    for each in parts.by_tool:
        name, calls = each.tool or "(call not in the file)", f"{each.calls:,}"
        share = each.result_tokens / total if total else 0.0
        kind = "tool" if each.tool else ""
        yield places.get(each.tool, -1), Row(name, kind, each.tool, calls, each.result_tokens, share)


def _files(facts: Facts, parts: Breakdown, total: int) -> Iterable[tuple[int, Row]]:
    places = {path: place for place, path in enumerate(facts.paths)}
    for each in parts.by_file[:FILES]:
        share = each.tokens / total if total else 0.0
        yield places[each.path], Row(each.path, "path", each.path, f"{each.reads:,}", each.tokens, share)


def offenders(
    context: Context, total: int, count: int = OFFENDERS, sizes: TokenTable | None = None
) -> Iterable[tuple[int, Row]]:
    """The largest blocks of a context, by a ruler or by ``bytes/4``."""
    facts, replaced, totals = context.facts, context.replacements, index_context(context).tokens
    if sizes:
        totals = [*map(sub, islice(sizes.prefix_sums_in(context), 1, None), sizes.prefix_sums_in(context))]
    largest: list[tuple[int, int, int, int]] = []
    for place in sorted(range(len(totals)), key=totals.__getitem__, reverse=True):
        if len(largest) == count and totals[place] <= largest[0][0]:
            break  # no block of the other messages is larger than those that were found
        message = context.order[place]
        for row in facts.blocks_of(message):
            estimated = replaced[row].tokens if row in replaced else bytes4(facts, row)
            tokens = sizes.block_tokens(context, row) if sizes else estimated
            heapq.heappush(largest, (tokens, -place, message, row))
            if len(largest) > count:
                heapq.heappop(largest)
    for tokens, place, message, row in sorted(largest, reverse=True):
        if tokens:
            category = categorize_block(facts, message, row)
            share = tokens / total if total else 0.0
            (text, path), at = _named(facts, row, category), f"#{message:,}"
            found = Row(text, "message", path, at, tokens, share, category=category, message=message, block=row)
            yield -place, found


def _named(facts: Facts, row: int, category: str) -> tuple[str, str]:
    """What a block is: its tool or its category; and the path that it read."""
    if facts.kind[row] == Kind.TOOL_RESULT:
        use = facts.tool_use_of(row)
        path = facts.path[use] if use >= 0 else -1
        return facts.tool_name(row) or "result", facts.paths[path] if path >= 0 else ""
    name = LOOKS[category].name
    return f"{name}: {facts.tool_name(row)}" if facts.kind[row] == Kind.TOOL_USE else name, ""


def _reads(facts: Facts, parts: Breakdown, total: int) -> Iterable[tuple[int, Row]]:
    places = {path: place for place, path in enumerate(facts.paths)}
    for read in (each for each in parts.duplicate_reads if each.wasted):
        share = read.wasted / total if total else 0.0
        yield places[read.path], Row(read.path, "path", read.path, f"{read.count:,}", read.wasted, share)
