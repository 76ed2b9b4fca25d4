"""Layout and lines of the table of settings; only visible lines are formatted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from context_tui.lab.sweep.results import Totals
from context_tui.text.numbers import format_saving, format_tokens
from context_tui.tui.rendering.columns import drop_columns
from context_tui.tui.sweep.board import SweepBoard, format_value
from context_tui.tui.terminal.cells import shorten
from context_tui.tui.terminal.themes import BOLD, GOOD, MUTED, PRIMARY, WARN
from context_tui.tui.widgets.styled_text import Run, format_safe_line, pad_runs, set_background

BEST_SIGN, KNEE_SIGN, CURRENT_SIGN, BEATEN_SIGN, CURSOR_SIGN = "*", "k", ">", "·", "◆"
"""Signs of settings: on the Pareto front, at its knee, current, dominated, and in the plot under the cursor."""
FULL_NAME_CELLS, SHORT_NAME_CELLS, MIN_NAME_CELLS = 34, 22, 16
"""Cells for a setting: with all numbers in full, usual minimum, absolute minimum."""
MAX_INSPECTED_NAMES = 200
"""Number of settings whose names determine the width of their column."""
MIN_VALUE_CELLS, MAX_VALUE_CELLS = 5, 18


class SweepColumn(NamedTuple):
    """A column of numbers: heading, sort order, rank (the lowest is dropped first), and functions for its texts."""

    head: str
    order: str
    rank: int
    get_value: Callable[[Totals], float]
    format_value: Callable[[float, bool], str]


def format_amount(number: float, full: bool = True) -> str:
    """Format a number in full, or abbreviated if *full* is False."""
    return f"{number:,.0f}" if full else format_tokens(round(number))


def format_calls(number: float, full: bool = True) -> str:
    """Format a number of extra calls per 1,000 removed tokens with two significant digits."""
    return f"{number:.2g}"


def _format_share(saved: float, full: bool = True) -> str:
    return f"{abs(saved):.1%}".replace("%", " %") + (" more" if saved < 0 else "")


def list_columns(board: SweepBoard) -> list[SweepColumn]:
    """Return the columns whose numbers are known for all settings."""
    sweep = board.sweep
    has_overflows = any(each.overflows for each in board.totals.values())
    by_money = board.saving_unit == "money"

    def format_cost(value: float, full: bool) -> str:
        return format_saving(-value, sweep.cost_unit, digits=sweep.cost_digits, brief=not full)

    def format_saved(value: float, full: bool) -> str:
        return format_saving(value, "tokens", brief=not full)

    has_prices = sweep.has_prices
    cost = SweepColumn("cost", "cost", 8 if by_money else 5, lambda each: each.extra_cost, format_cost)
    calls = SweepColumn("extra calls", "extra calls", 3, lambda each: each.break_even_calls, format_calls)
    return [
        SweepColumn("tokens", "saved", 7 if by_money else 9, lambda each: each.saved, format_saved),
        SweepColumn("share", "", 6, lambda each: each.saved / each.without if each.without else 0, _format_share),
        SweepColumn(sweep.regret_name, "needed later", 9, lambda each: each.regret_tokens, format_amount),
        *([cost] if has_prices else []),
        SweepColumn("firings", "firings", 4, lambda each: each.firings, format_amount),
        *([] if board.is_live else [SweepColumn("fires in", "", 4, lambda each: each.fired_in, format_amount)]),
        SweepColumn("peak", "peak", 3, lambda each: each.peak, format_amount),
        *([calls] if has_prices else []),
        *([SweepColumn("over", "", 2, lambda each: each.overflows, format_amount)] if has_overflows else []),
    ]


class TableLayout(NamedTuple):
    """The layout of the table of settings at one width.

    Attributes:
        name_cells: width of the setting column in cells, including the columns of values.
        value_columns: swept parameters that have a column, with its width; empty if settings are shown as typed.
        is_full: whether numbers are written in full rather than abbreviated.
        dominator_cells: width of the dominating setting at the end of the line; 0 if it is not shown.
    """

    name_cells: int
    value_columns: Sequence[tuple[str, int]]
    number_columns: Sequence[tuple[SweepColumn, int]]
    is_full: bool
    dominator_cells: int

    def find_order(self, x: int) -> str:
        """Return the sort order for the heading at cell *x*, or "" if no heading is there."""
        edge = 3 + self.name_cells
        if 3 <= x < edge:
            return "as given"
        for column, width in self.number_columns:
            edge += width
            if x < edge:
                return column.order
        return ""


def compute_layout(board: SweepBoard, width: int) -> TableLayout:
    """Return the layout with as many columns as fit in *width* cells."""
    totals = list(board.totals.values())
    columns = list_columns(board)
    room = width - 3  # two signs and a blank
    min_cells, all_cells = _measure_names(board)
    min_cells = max(min_cells, MIN_NAME_CELLS)
    numbers, is_full = _measure_numbers(columns, totals, True), True
    if room - _sum_widths(numbers) < min(all_cells, max(min_cells, FULL_NAME_CELLS)):
        numbers, is_full = _measure_numbers(columns, totals, False), False
    numbers = drop_columns(numbers, room - min_cells, lambda each: each[1], lambda each: each[0].rank, at_least=2)
    room = max(room - _sum_widths(numbers), min_cells)
    name_cells = min(room, max(all_cells, MIN_NAME_CELLS))
    dominators = {*board.sweep.dominance.dominated_by.values()}
    dominator_cells = max((len(format_setting_values(board, name)) for name in dominators), default=MIN_NAME_CELLS)
    if dominator_cells > room - name_cells - 2:
        name_cells, dominator_cells = room, 0
    value_columns = _fit_value_columns(board, name_cells)
    return TableLayout(name_cells, value_columns, numbers, is_full, dominator_cells)


def _measure_names(board: SweepBoard) -> tuple[int, int]:
    """Return the minimum width of the setting column, and the width at which all names fit in full."""
    if board.parameter_columns:
        sizes = _measure_values(board)
        return sum(value_cells + 2 for _, value_cells, _ in sizes), sum(full_cells + 2 for _, _, full_cells in sizes)
    labels = (board.format_label(each.name) for each in board.sweep.settings[:MAX_INSPECTED_NAMES])
    longest = max(map(len, labels), default=0) + 1
    return min(longest, SHORT_NAME_CELLS), longest


def _measure_values(board: SweepBoard) -> list[tuple[str, int, int]]:
    """Return (parameter, width of its values, width including its heading) for each parameter that has a column."""
    sizes = []
    for name, longest in board.parameter_columns.items():
        last_word = name.rsplit("_", 1)[-1]  # so that a truncated heading begins with a word
        value_cells = min(max(MIN_VALUE_CELLS, longest, len(last_word) + 1), MAX_VALUE_CELLS)
        sizes.append((name, value_cells, max(value_cells, min(len(name), MAX_VALUE_CELLS))))
    return sizes


def _fit_value_columns(board: SweepBoard, room: int) -> list[tuple[str, int]]:
    """Return (parameter, width) for each column of values; a column is as wide as its heading if there is room."""
    sizes, max_cells = _measure_values(board), MAX_VALUE_CELLS
    while (
        max_cells > MIN_VALUE_CELLS
        and sum(max(value_cells, min(full_cells, max_cells)) + 2 for _, value_cells, full_cells in sizes) > room
    ):
        max_cells -= 1
    return [(name, max(value_cells, min(full_cells, max_cells)) + 2) for name, value_cells, full_cells in sizes]


def _measure_numbers(columns: list[SweepColumn], totals: list[Totals], full: bool) -> list[tuple[SweepColumn, int]]:
    sizes = []
    for column in columns:
        values = [column.get_value(each) for each in totals] or [0]
        texts = [column.format_value(value, full) for value in (max(values), min(values))]
        sizes.append((column, max(len(column.head), *map(len, texts)) + 2))
    return sizes


def _sum_widths(numbers: Sequence[tuple[SweepColumn, int]]) -> int:
    return sum(width for _, width in numbers)


# Lines


def format_head(board: SweepBoard, layout: TableLayout, width: int) -> list[Run]:
    """Format the column headings, with an arrow at the column by which the table is sorted."""
    runs: list[Run] = [("   ", "")]
    if layout.value_columns:
        runs += [(_truncate_start(name, cells - 1).ljust(cells), MUTED) for name, cells in layout.value_columns]
        runs.append((" " * (layout.name_cells - sum(cells for _, cells in layout.value_columns)), ""))
    else:
        runs.append(("setting".ljust(layout.name_cells), MUTED))
    by_money = board.saving_unit == "money" and board.order == "saved"
    # Savings in money are shown as a cost, which is smallest first where they are largest first.
    order = "cost" if by_money and board.sweep.has_prices else board.order or "-"
    for column, cells in layout.number_columns:
        is_sorted = column.order == order
        arrow = ("▼" if board.is_largest_first != by_money else "▲") if is_sorted else ""
        runs.append((f"{arrow}{column.head}".rjust(cells)[-cells:], f"{BOLD} {PRIMARY}" if is_sorted else MUTED))
    if layout.dominator_cells:
        runs.append(("  dominated by", MUTED))
    return pad_runs(runs, width)


def _truncate_start(name: str, width: int) -> str:
    """Truncate the start of a name to fit *width* cells, if possible before a word; names differ at their ends."""
    if len(name) <= width:
        return name
    end = name[len(name) - width + 1 :]
    return "…" + (end if name[-width] in "_." else end.partition("_")[2] or end).lstrip("_.")


def format_setting_line(board: SweepBoard, layout: TableLayout, name: str, width: int) -> list[Run]:
    """Format one setting's values and totals in *width* cells, highlighted if the cursor is on it."""
    totals, is_selected = board.totals[name], name == board.cursor
    is_best, is_current = name in board.sweep.best, name == board.sweep.current
    dominator = board.sweep.dominance.dominated_by.get(name)
    style = BOLD if is_selected else "" if is_best or is_current else MUTED
    runs: list[Run] = [
        (CURRENT_SIGN if is_current else " ", f"{BOLD} {WARN}"),
        (KNEE_SIGN if name == board.sweep.knee else BEST_SIGN if is_best else " ", f"{BOLD} {GOOD}"),
        (" ", ""),
        *_format_name(board, layout, name, style),
    ]
    for column, cells in layout.number_columns:
        text = column.format_value(column.get_value(totals), layout.is_full).rjust(cells)
        runs.append((text, style))
    if layout.dominator_cells and dominator:
        runs.append((f"  {shorten(format_setting_values(board, dominator), layout.dominator_cells)}", MUTED))
    runs = pad_runs(runs, width)
    return set_background(runs) if is_selected else runs


def _format_name(board: SweepBoard, layout: TableLayout, name: str, style: str) -> list[Run]:
    setting = board.settings_by_name[name]
    if not layout.value_columns or setting.policy.name != board.current_setting.policy.name:
        text = format_safe_line(board.format_label(name))
        return [(shorten(text, layout.name_cells - 1).ljust(layout.name_cells), style)]
    values = board.sweep.find_param_values(setting)
    runs = [(shorten(format_value(values[key]), cells - 1).ljust(cells), style) for key, cells in layout.value_columns]
    return [*runs, (" " * (layout.name_cells - sum(cells for _, cells in layout.value_columns)), "")]


def format_setting_values(board: SweepBoard, name: str) -> str:
    """Format a setting by those of its parameters that have a column, or by its label if none has."""
    setting = board.settings_by_name.get(name)
    if setting is None or not board.parameter_columns or setting.policy.name != board.current_setting.policy.name:
        return format_safe_line(board.format_label(name))
    values = board.sweep.find_param_values(setting)
    return " ".join(f"{key}={format_value(values[key])}" for key in board.parameter_columns)
