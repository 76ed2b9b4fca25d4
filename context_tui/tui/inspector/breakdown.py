"""Breakdown of the context by category, tool and file, with its largest blocks and repeated reads."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from rich.cells import cell_len
from textual import events
from textual.content import Content
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.visual import Visual

from context_tui.formats.base import KINDS_AFTER_COMPACTION
from context_tui.session.context import Context
from context_tui.session.facts import Facts
from context_tui.session.values import Kind
from context_tui.text.numbers import format_count, format_percent
from context_tui.tokens.breakdown import UNLISTED_CATEGORIES, Breakdown, PromptShares, categorize_block, measure_servers
from context_tui.tokens.context_index import index_context
from context_tui.tokens.estimate_check import Cause, EstimateCheck
from context_tui.tokens.estimators import bytes4
from context_tui.tokens.measures import TokenMeasure, TokenTable
from context_tui.tui.analysis import ContextSizes, format_estimate_error
from context_tui.tui.rendering.columns import ColumnFitter
from context_tui.tui.rendering.formatting import MessageReader, format_token_column, format_token_unit
from context_tui.tui.rendering.layout import wrap_text
from context_tui.tui.terminal.cells import choose_form, shorten_path
from context_tui.tui.terminal.themes import BOLD, MUTED, PRIMARY
from context_tui.tui.timeline.filters import NO_FILTER, RowFilter, build_part_filter
from context_tui.tui.widgets.bindings import read_bindings
from context_tui.tui.widgets.gauge import CATEGORY_STYLES
from context_tui.tui.widgets.styled_text import Run, count_cells, format_bar, format_safe_line, pad_runs, set_background

MAX_LARGEST_BLOCKS, MAX_LISTED_FILES = 12, 20
SHORT_CATEGORY_LABELS = {"not_in_file": "not in the file"}
"""Short names of categories that differ from those in the bar, which has less room."""


@dataclass(frozen=True)
class BreakdownRow:
    """A line in the breakdown: a row with a size, a heading, or plain text.

    Choosing a row filters the timeline by ``kind`` and ``value``. ``share`` is the row's share of the context, and
    ``bar`` its size relative to the largest row in the section. A heading has column titles in ``count`` and ``note``.
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

    @property
    def subject(self) -> tuple[str, str, int, int]:
        """The row's identity, which stays the same when the row moves to another position."""
        return self.kind, self.value, self.message, self.block


BREAKPOINT_ROW = BreakdownRow("  cache breakpoint")
"""Line below a part of the prompt with a cache breakpoint: the provider is asked to cache everything up to there."""


def build_breakdown_rows(
    context: Context, sizes: ContextSizes, by_size: bool = True, opened: Container[str] = ()
) -> list[BreakdownRow]:
    """Return the rows of all sections, by size or in file order; categories in *opened* are followed by their parts."""
    facts, parts, column = context.facts, sizes.breakdown, format_token_column(sizes.token_table)
    total = sum(parts.by_category.values())

    def build_section(
        pairs: Iterable[tuple[int, BreakdownRow]], title: str, count: str, empty_text: str, note: str = column
    ) -> list[BreakdownRow]:
        section_rows = _sort_rows(pairs, total, by_size) or [BreakdownRow(empty_text)]
        return [BreakdownRow(title, count=count, note=note), *section_rows]

    rows = [BreakdownRow("by category", note=column)]
    if not total:
        rows.append(BreakdownRow("no messages in this context"))
    rows += _open_rows(_sort_rows(_build_category_rows(parts), total, by_size), sizes.prompt, opened)
    if parts.by_category.get("not_in_file"):
        counted_apart = KINDS_AFTER_COMPACTION if parts.by_category.get("put_back") else ()
        kinds = ", ".join(kind for kind in sizes.unrecorded if kind not in counted_apart) or "text of unknown kinds"
        source = "the recorded size of the first request, less its content. In the header, it is system+tools"
        rows.append(BreakdownRow(f"not in the file: {kinds}; {source}"))
    if sizes.token_table:
        rows.append(BreakdownRow(f"token measure: {sizes.token_table.describe(context)}; R changes it"))
        if sizes.token_table.measure is TokenMeasure.CALIBRATED:
            rows.append(BreakdownRow("the categories, and the results by tool, add up to the next request"))
    if parts.by_category.get("not_in_file") and sizes.lacks_requests:
        rows.append(BreakdownRow("J: where the whole requests are, or how to get them"))
    rows += _build_cause_rows(sizes.estimate_check) if sizes.estimate_check else []
    rows += build_section(_build_tool_rows(facts, parts), "results by tool", "calls", "no tool calls")
    rows += build_section(_build_file_rows(facts, parts), "results by file", "reads", "no file was read")
    largest = build_largest_block_rows(context, token_table=sizes.token_table)
    rows += build_section(largest, "largest blocks", "message", "no blocks")
    repeated, unit = _build_repeated_read_rows(facts, parts), format_token_unit(sizes.token_table)
    return rows + build_section(repeated, "lines read again", "reads", "no line was read again", f"{unit} repeated")


def _sort_rows(pairs: Iterable[tuple[int, BreakdownRow]], total: int, by_size: bool) -> list[BreakdownRow]:
    """Return rows sorted by size, or by the number paired with each row, with their shares of *total* and bars."""
    sorted_pairs = sorted(pairs, key=lambda pair: pair[0])
    rows = [replace(row, share=(row.tokens or 0) / total if total else 0.0) for _, row in sorted_pairs]
    if by_size:
        rows.sort(key=lambda row: -(row.tokens or 0))
    largest = max((row.tokens or 0 for row in rows), default=0) or 1
    return [replace(row, bar=(row.tokens or 0) / largest) for row in rows]


def _open_rows(rows: list[BreakdownRow], prompt: PromptShares | None, opened: Container[str]) -> Iterator[BreakdownRow]:
    parts: dict[str, list[BreakdownRow]] = {}
    if prompt:
        for each in prompt.system:
            row = BreakdownRow(f"  {each.part}", "open", "system", "", each.tokens)
            parts.setdefault("system", []).extend([row, *([BREAKPOINT_ROW] if each.cache_breakpoint else [])])
        for tool in prompt.tools:
            row = BreakdownRow(f"  {tool.name}", "open", "tools", "never", tool.tokens)
            if tool.calls:
                name = f"{row.text}, last #{tool.last_use:,}"
                row = replace(row, text=name, kind="tool", value=tool.name, count=f"{tool.calls:,} ×")
            parts.setdefault("tools", []).extend([row, *([BREAKPOINT_ROW] if tool.cache_breakpoint else [])])
        if unused := [tool for tool in prompt.tools if not tool.calls]:
            tokens = sum(tool.tokens for tool in unused)
            text = f"  {format_count(len(unused), 'tool')}, {tokens:,} tokens, never called"
            parts["tools"].append(BreakdownRow(text))
        for server in measure_servers(prompt.tools):
            amounts = f"{format_count(server.tools, 'tool')}, {server.tokens:,} tokens"
            text = f"  MCP server {server.name}: {amounts}, {format_count(server.calls, 'call')}"
            parts["tools"].append(BreakdownRow(text))
        parts["injected"] = [
            BreakdownRow(f"  {part.part}", "category", "injected", f"{part.count:,} ×", part.tokens)
            for part in prompt.injected
        ]
    for row in rows:
        part_rows = parts.get(row.value, [])
        yield replace(row, kind="open") if part_rows else row
        if row.value in opened:
            total, largest = row.tokens or 1, max((part.tokens or 0 for part in part_rows), default=0) or 1
            for part in part_rows:
                tokens = part.tokens or 0
                yield replace(part, share=row.share * tokens / total, bar=tokens / largest)


def _build_category_rows(parts: Breakdown) -> Iterable[tuple[int, BreakdownRow]]:
    for place, (name, category_style) in enumerate(CATEGORY_STYLES.items()):
        if tokens := parts.by_category.get(name, 0):
            kind = "" if name in UNLISTED_CATEGORIES else "category"
            yield place, BreakdownRow(category_style.name, kind, name, "", tokens, category=name)


def _build_cause_rows(estimate_check: EstimateCheck) -> list[BreakdownRow]:
    error = format_estimate_error(estimate_check)
    if not error:
        return []
    causes = [*estimate_check.causes, Cause("unexplained", estimate_check.unexplained)]
    largest = max(abs(cause.tokens) for cause in causes) or 1
    rows = [BreakdownRow("why the estimate is off", note="tokens"), BreakdownRow(f"the estimate is {error}; by cause:")]
    for cause in causes:
        tokens, text = abs(cause.tokens), f"{cause.text}: {'less' if cause.tokens > 0 else 'more'}"
        if tokens:
            rows.append(BreakdownRow(text, tokens=tokens, share=tokens / estimate_check.recorded, bar=tokens / largest))
    return rows


def _build_tool_rows(facts: Facts, parts: Breakdown) -> Iterable[tuple[int, BreakdownRow]]:
    places = {name: place for place, name in enumerate(facts.tools)}
    for tool in parts.by_tool:
        name, kind = tool.tool or "(call not in the file)", "tool" if tool.tool else ""
        yield places.get(tool.tool, -1), BreakdownRow(name, kind, tool.tool, f"{tool.calls:,}", tool.result_tokens)


def _build_file_rows(facts: Facts, parts: Breakdown) -> Iterable[tuple[int, BreakdownRow]]:
    places = {path: place for place, path in enumerate(facts.paths)}
    for file in parts.by_file[:MAX_LISTED_FILES]:
        yield places[file.path], BreakdownRow(file.path, "path", file.path, f"{file.reads:,}", file.tokens)


def build_largest_block_rows(
    context: Context, count: int = MAX_LARGEST_BLOCKS, token_table: TokenTable | None = None
) -> Iterable[tuple[int, BreakdownRow]]:
    """Yield (position, row) for up to *count* of the largest blocks, largest first; positions rise in file order."""
    facts, replaced, totals = context.facts, context.replacements, index_context(context).tokens
    if token_table:
        totals = [after - before for before, after in pairwise(token_table.compute_prefix_sums(context))]
    largest: list[tuple[int, int, int, int]] = []
    for place in sorted(range(len(totals)), key=totals.__getitem__, reverse=True):
        if len(largest) == count and totals[place] <= largest[0][0]:
            break  # no other message has a larger block
        message = context.order[place]
        for row in facts.blocks_of(message):
            estimated = replaced[row].tokens if row in replaced else bytes4(facts, row)
            tokens = token_table.count_block_tokens(context, row) if token_table else estimated
            heapq.heappush(largest, (tokens, -place, message, row))
            if len(largest) > count:
                heapq.heappop(largest)
    for tokens, place, message, row in sorted(largest, reverse=True):
        if tokens:
            category = categorize_block(facts, message, row)
            text, path = _describe_block(facts, row, category)
            values = text, "message", path, f"#{message:,}", tokens
            yield -place, BreakdownRow(*values, category=category, message=message, block=row)


def _describe_block(facts: Facts, row: int, category: str) -> tuple[str, str]:
    if facts.kind[row] == Kind.TOOL_RESULT:
        use = facts.find_tool_use(row)
        path = facts.path[use] if use >= 0 else -1
        return facts.tool_name(row) or "result", facts.paths[path] if path >= 0 else ""
    name = CATEGORY_STYLES[category].name
    return f"{name}: {facts.tool_name(row)}" if facts.kind[row] == Kind.TOOL_USE else name, ""


def _build_repeated_read_rows(facts: Facts, parts: Breakdown) -> Iterable[tuple[int, BreakdownRow]]:
    places = {path: place for place, path in enumerate(facts.paths)}
    for read in parts.duplicate_reads:
        if read.wasted:
            yield places[read.path], BreakdownRow(read.path, "path", read.path, f"{read.count:,}", read.wasted)


COUNT_WIDTH = 8
NUMBERS_WIDTH = 17
"""Width in cells of the token count and the share."""
MIN_NAME_WIDTH, MIN_BAR_WIDTH, BAR_GAP = 16, 3, 2
"""Cells reserved for the name before a bar is drawn, length of the shortest bar, and cells before it."""


def _format_row_text(row: BreakdownRow, width: int, call: str) -> str:
    if row.kind == "path":
        return shorten_path(row.value, width)
    if row.kind == "message" and row.value:
        tool = format_safe_line(row.text, width)
        return f"{tool} {shorten_path(row.value, width - cell_len(tool) - 1)}".rstrip()
    if row.category and cell_len(row.text) > width and not call:
        return format_safe_line(SHORT_CATEGORY_LABELS.get(row.category, CATEGORY_STYLES[row.category].short), width)
    return format_safe_line(call or row.text, width)


def format_row_line(
    row: BreakdownRow, width: int, is_current: bool, call: str = "", *, is_chosen: bool = False
) -> list[Run]:
    """Format a row in *width* cells; *call* is a result's tool call, *is_chosen* marks it as the timeline's filter."""
    if row.tokens is None:
        if row.note:
            return _format_heading(row, width)
        return pad_runs([("  ", ""), (format_safe_line(row.text, width - 2), MUTED)], width)
    columns = _fit_columns(row, width)
    category_style = CATEGORY_STYLES.get(row.category)
    runs: list[Run] = [("▸" if is_current else " ", f"bold {PRIMARY}"), ("●" if is_chosen else " ", f"bold {PRIMARY}")]
    text = _format_row_text(row, columns["name"] - 1, call)
    runs += pad_runs([(text, BOLD if is_current or is_chosen else "")], columns["name"])
    runs += [(row.count.rjust(columns["count"]), MUTED)] if columns["count"] else []
    runs += [(f"{row.tokens:>10,}", BOLD), (f"{format_percent(row.share):>7}", MUTED)]
    if columns["bar"]:
        glyph = category_style.pattern if category_style else "━"
        filled, unfilled = format_bar(row.bar, columns["bar"] - BAR_GAP, glyph, "·" if category_style else "─")
        runs += [(" " * BAR_GAP, ""), (filled, category_style.style if category_style else PRIMARY), (unfilled, MUTED)]
    return pad_runs(runs, width)


def _fit_columns(row: BreakdownRow, width: int) -> ColumnFitter:
    fitter = ColumnFitter(width, 2 + NUMBERS_WIDTH)
    fitter.fit("count", COUNT_WIDTH if row.count else 0, spare=COUNT_WIDTH + 1)
    fitter.fit("bar", BAR_GAP + MIN_BAR_WIDTH, fitter.room - max(MIN_NAME_WIDTH, fitter.room * 2 // 3))
    fitter.reserve("name", fitter.room)
    return fitter


def _format_heading(row: BreakdownRow, width: int) -> list[Run]:
    columns = _fit_columns(row, width)
    tokens, bar = 2 + columns["name"] + columns["count"] + 10, columns["bar"] - BAR_GAP
    labels = [(tokens, row.note), (tokens + 7, "share")]
    if columns["count"]:  # the name of the next column may be wider than its numbers
        labels.insert(0, (min(tokens - 10, tokens - len(row.note) - 1), row.count))
    if name := next((each for each in ("of the largest", "of largest", "size") if len(each) <= bar), ""):
        labels.append((width - bar + len(name), name))
    runs: list[Run] = [(f" {format_safe_line(row.text, max(width - 2, 0))}", f"bold {PRIMARY}")]
    for end, text in labels:
        gap = end - len(text) - count_cells(runs)
        if gap > 0:
            runs += [(f" {'─' * (gap - 2)} " if gap > 2 else " " * gap, MUTED), (text, MUTED)]
    room = width - count_cells(runs)
    return pad_runs([*runs, (f" {'─' * (room - 1)}" if room > 1 else "", MUTED)], width)


class BreakdownView(ScrollView, can_focus=True):
    """A list that breaks the context down into shares; choosing a row filters the timeline or goes to a message."""

    BINDING_GROUP_TITLE = "Where the context went"
    DEFAULT_CSS = "BreakdownView { overflow-x: hidden; text-wrap: nowrap; text-overflow: clip; }"
    BINDINGS = read_bindings("breakdown")
    cursor = reactive(0, repaint=False)

    def __init__(self, filter_by: Callable[[str, str], object], go_to: Callable[[int, int], object]) -> None:
        """Create a list; choosing a row calls *filter_by* (with kind and value) or *go_to* (with message and block)."""
        super().__init__(id="breakdown")
        self._filter_by, self._go_to = filter_by, go_to
        self.by_size = True
        self._opened: frozenset[str] = frozenset()
        self._width = 0
        self.rows: list[BreakdownRow] = []
        self.listed = NO_FILTER
        self._context_and_sizes: tuple[Context, ContextSizes] | None = None
        self._reader: MessageReader | None = None

    def show(
        self,
        context: Context,
        sizes: ContextSizes,
        row_filter: RowFilter = NO_FILTER,
        reader: MessageReader | None = None,
    ) -> None:
        """Show a context's breakdown, marking the row of *row_filter*; *reader* reads the tool calls of results."""
        self._reader = reader
        shown_context, shown_sizes = self._context_and_sizes or (None, None)
        if context is not shown_context or sizes is not shown_sizes:
            self._context_and_sizes = context, sizes
            self._update_rows()
        if row_filter != self.listed:
            self.listed = row_filter
            self.refresh()

    def _update_rows(self) -> None:
        if self._context_and_sizes is None:
            return
        subject = self.rows[self.cursor].subject if self.rows else None
        self.rows = list(self._wrap_rows(build_breakdown_rows(*self._context_and_sizes, self.by_size, self._opened)))
        order = "largest first (o)" if self.by_size else "in the order of the file (o)"
        total = sum(self._context_and_sizes[1].breakdown.by_category.values())
        title = f"where the context went: {format_token_unit(self._context_and_sizes[1].token_table)} {total:,} tokens"
        forms = (f"{title}, {order}", f"{title}, o sorts", title)
        self.border_title = Content(choose_form(forms, self._width - 4))
        self.virtual_size = Size(0, len(self.rows))
        same = (number for number, row in enumerate(self.rows) if row.kind and row.subject == subject)
        self.cursor = next(same, self._find_choosable_row(min(self.cursor, len(self.rows) - 1), 1))
        self.refresh()

    def _wrap_rows(self, rows: list[BreakdownRow]) -> Iterator[BreakdownRow]:
        for row in rows:
            if row.tokens is None and not row.note:
                yield from map(BreakdownRow, wrap_text(format_safe_line(row.text), max(self._width - 3, 20)))
            else:
                yield row

    def _find_choosable_row(self, number: int, step: int) -> int:
        later, earlier = range(number, len(self.rows)), range(number, -1, -1)
        candidates = (*later, *earlier) if step > 0 else (*earlier, *later)
        choosable = (row for row in candidates if 0 <= row < len(self.rows) and self.rows[row].kind)
        return next(choosable, 0)

    def on_resize(self) -> None:
        if self._width != self.scrollable_content_region.width:
            self._width = self.scrollable_content_region.width
            self._update_rows()

    def render_line(self, y: int) -> Strip:
        number, width = y + self.scroll_offset.y, self.scrollable_content_region.width
        style = self.visual_style
        if number >= len(self.rows) or not width:
            return Strip.blank(width, style.rich_style)
        is_current = number == self.cursor and bool(self.rows[number].kind)
        row = self.rows[number]
        is_chosen = row.kind not in ("", "message", "open") and self.listed == build_part_filter(row.kind, row.value)
        runs = format_row_line(row, width, is_current, self._format_call(row), is_chosen=is_chosen)
        content = Content.assemble(*(set_background(runs) if is_current else runs))
        strips = Visual.to_strips(self, content, width, 1, style, apply_selection=False)
        return strips[0].adjust_cell_length(width, style.rich_style)

    def _format_call(self, row: BreakdownRow) -> str:
        context, reader = self._context_and_sizes[0] if self._context_and_sizes else None, self._reader
        if row.kind != "message" or row.value or context is None or reader is None:
            return ""
        if reader.session.facts is not context.facts or context.facts.kind[row.block] != Kind.TOOL_RESULT:
            return ""
        return reader.format_preview(row.message, row.block)

    def watch_cursor(self, old: int, new: int) -> None:
        self.refresh_line(old)
        self.refresh_line(new)
        self.scroll_to_region(Region(0, new, 1, 1), animate=False)

    def action_move(self, rows: int) -> None:
        """Move the cursor by *rows* rows, then on to the nearest row that can be chosen."""
        if self.rows:
            target = min(max(self.cursor + rows, 0), len(self.rows) - 1)
            self.cursor = self._find_choosable_row(target, 1 if rows > 0 else -1)
            if self.cursor == self._find_choosable_row(0, 1):
                self.scroll_to(y=0, animate=False)  # with the heading above it

    def action_choose(self) -> None:
        row = self.rows[self.cursor] if self.rows else None
        if row and row.kind == "message":
            self._go_to(row.message, row.block)
        elif row and row.kind == "open":
            self._opened ^= {row.value}
            self._update_rows()
        elif row and row.kind:
            self._filter_by(row.kind, row.value)

    def action_toggle_order(self) -> None:
        self.by_size = not self.by_size
        self._update_rows()

    def on_click(self, event: events.Click) -> None:
        number = event.y - self.gutter.top + self.scroll_offset.y
        if 0 <= number < len(self.rows) and self.rows[number].kind:
            self.cursor = number
            self.action_choose()
