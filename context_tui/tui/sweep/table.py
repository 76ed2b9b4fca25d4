"""Lay out and format the table of settings, only the lines in sight."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from context_tui.lab.sweep.results import Totals
from context_tui.text.numbers import format_tokens
from context_tui.tui.rendering.columns import drop_columns
from context_tui.tui.sweep.board import SweepBoard, compute_extra_cost, format_value, get_regret_tokens
from context_tui.tui.terminal.cells import shorten
from context_tui.tui.widgets.styled_text import (
    BOLD,
    GOOD,
    MUTED,
    PRIMARY,
    WARN,
    Run,
    format_safe_line,
    pad_runs,
    set_background,
)

BEST_SIGN, CURRENT_SIGN, BEATEN_SIGN, CURSOR_SIGN = "*", ">", "·", "◆"
"""The signs of settings: nothing beats it, the current one, another beats it; and in the plot the one with the cursor.
"""
FULL_NAME_CELLS, SHORT_NAME_CELLS, MIN_NAME_CELLS = 34, 22, 16
"""Cells for a setting before which numbers are told in short, the less important are left out, and all of these are."""
MAX_INSPECTED_NAMES = 200
"""Settings that are looked at for how long they are, where they are told as they are typed."""
MIN_VALUE_CELLS, MAX_VALUE_CELLS = 5, 18
"""Cells of a parameter's column."""


class SweepColumn(NamedTuple):
    """Column of the table: its head, its order, its weight, and its text.

    ``get_value`` is what it is told of, ``format_value`` its text in full or in short.
    """

    head: str
    order: str
    rank: int
    get_value: Callable[[Totals], float]
    format_value: Callable[[float, bool], str]


def format_short_amount(tokens: float) -> str:
    """Tokens in short, of millions the tenths too."""
    return f"{tokens / 1_000_000:.1f}M" if tokens >= 9_995_000 else format_tokens(round(tokens))


def format_amount(tokens: float, full: bool = True) -> str:
    """Tokens with a sign where they are less than none."""
    text = f"{abs(tokens):,.0f}" if full else format_short_amount(abs(tokens))
    return f"−{text}" if tokens < 0 and text != "0" else text


def format_extra_cost(cost: float, unit: str, digits: int, *, full: bool = False) -> str:
    """Format a cost compared with another: ``saves $1.23`` or ``costs $1.23 more``."""
    text = format_money(abs(cost), unit, digits=digits, full=full)
    if not any(digit in text for digit in "123456789"):
        return "the same"
    return f"saves {text}" if cost < 0 else f"costs {text} more"


def format_money(cost: float, unit: str, *, digits: int = 2, full: bool = False) -> str:
    """Format a cost in its unit: ``$1.23``, or input tokens, in full or abbreviated.

    Args:
        digits: number of decimals.
    """
    tokens = f"{abs(cost):,.0f}" if full else format_short_amount(abs(cost))
    text = f"${abs(cost):,.{digits}f}" if unit == "USD" else tokens
    if not any(digit in text for digit in "123456789"):
        return text
    return ("−" if cost < 0 else "") + text


def format_share(part: float, whole: float) -> str:
    """Return a share of a whole with a tenth of a percent."""
    return f"{part / whole:.1%}".replace("-", "−").replace("%", " %") if whole else ""


def list_columns(board: SweepBoard) -> list[SweepColumn]:
    """List the columns whose numbers are known for all settings."""
    made, digits = board.sweep, board.findings.cost_digits
    over = any(each.overflows for each in board.totals.values())
    cost = SweepColumn(
        "cost",
        "cost",
        8 if board.saving_unit == "money" else 5,
        compute_extra_cost,
        lambda value, full: format_extra_cost(value, made.cost_unit, digits, full=full),
    )
    return [
        SweepColumn("saved", "saved", 7 if board.saving_unit == "money" else 9, lambda each: each.saved, format_amount),
        SweepColumn("share", "", 6, lambda each: each.saved / each.without if each.without else 0, _format_share_cell),
        SweepColumn(
            "needed later" if board.findings.has_regrets else "dropped",
            "used later",
            9,
            get_regret_tokens,
            format_amount,
        ),
        *([cost] if board.findings.has_prices else []),
        SweepColumn("firings", "firings", 4, lambda each: each.firings, format_amount),
        SweepColumn("peak", "peak", 3, lambda each: each.peak, format_amount),
        *([SweepColumn("over", "", 2, lambda each: each.overflows, format_amount)] if over else []),
    ]


def _format_share_cell(value: float, full: bool) -> str:
    return format_share(value, 1)


class TableLayout(NamedTuple):
    """Layout of the table: columns with their cells; ``value_columns`` are those of the swept parameters.

    Attributes:
        name: cells of the setting, those of its values among them.
        values: name and cells of each parameter with a column; none: settings are told as they are typed.
        numbers: the other columns.
        full: whether numbers are told in full.
        beaten: cells for what beats it, at the end of the line; 0: it is not told.
    """

    name_cells: int
    value_columns: Sequence[tuple[str, int]]
    number_columns: Sequence[tuple[SweepColumn, int]]
    is_full: bool
    beaten_cells: int

    def find_order(self, x: int) -> str:
        """Return the order of the head at a cell; empty where there is none."""
        edge = 3 + self.name_cells
        if 3 <= x < edge:
            return "as given"
        for column, width in self.number_columns:
            edge += width
            if x < edge:
                return column.order
        return ""


def compute_layout(board: SweepBoard, width: int) -> TableLayout:
    """Compute the columns that fit in *width* cells."""
    wholes = list(board.totals.values())
    columns = list_columns(board)
    room = width - 3  # two signs and a blank
    least, wanted = _measure_names(board)
    least = max(least, MIN_NAME_CELLS)
    numbers, full = _measure_numbers(columns, wholes, True), True
    if room - _sum_widths(numbers) < min(wanted, max(least, FULL_NAME_CELLS)):
        numbers, full = _measure_numbers(columns, wholes, False), False
    numbers = drop_columns(numbers, room - least, lambda each: each[1], lambda each: each[0].rank, at_least=2)
    left = max(room - _sum_widths(numbers), least)
    name = min(left, max(wanted, MIN_NAME_CELLS))
    beaten = left - name - 2
    if beaten < MIN_NAME_CELLS:
        name, beaten = left, 0
    return TableLayout(name, _fit_value_columns(board, name), numbers, full, min(beaten, max(wanted, MIN_NAME_CELLS)))


def _measure_names(board: SweepBoard) -> tuple[int, int]:
    """Cells that settings need at least, and for all of their names."""
    if board.parameter_columns:
        sizes = _measure_values(board)
        return sum(least + 2 for _, least, _ in sizes), sum(most + 2 for _, _, most in sizes)
    longest = max((len(board.format_label(each.name)) for each in board.settings[:MAX_INSPECTED_NAMES]), default=0) + 1
    return min(longest, SHORT_NAME_CELLS), longest


def _measure_values(board: SweepBoard) -> list[tuple[str, int, int]]:
    """Return the parameters with a column, the cells of their values, and those of their names too."""
    found = []
    for name, longest in board.parameter_columns.items():
        least = min(max(MIN_VALUE_CELLS, longest), MAX_VALUE_CELLS)
        found.append((name, least, max(least, min(len(name), MAX_VALUE_CELLS))))
    return found


def _fit_value_columns(board: SweepBoard, room: int) -> list[tuple[str, int]]:
    """Return the parameters with a column, and their cells: as wide as their names where there is room."""
    sizes, most = _measure_values(board), MAX_VALUE_CELLS
    while most > MIN_VALUE_CELLS and sum(max(least, min(wide, most)) + 2 for _, least, wide in sizes) > room:
        most -= 1
    return [(name, max(least, min(wide, most)) + 2) for name, least, wide in sizes]


def _measure_numbers(
    columns: Sequence[SweepColumn], wholes: Sequence[Totals], full: bool
) -> list[tuple[SweepColumn, int]]:
    """Measure the cells that the largest and smallest number of each column need."""
    found = []
    for column in columns:
        values = [column.get_value(each) for each in wholes] or [0]
        texts = [column.format_value(value, full) for value in (max(values), min(values))]
        found.append((column, max(len(column.head), *map(len, texts)) + 2))
    return found


def _sum_widths(numbers: Sequence[tuple[SweepColumn, int]]) -> int:
    return sum(width for _, width in numbers)


# Lines


def format_head(board: SweepBoard, layout: TableLayout, width: int) -> list[Run]:
    """Return the line above; an arrow is at what it is sorted by."""
    runs: list[Run] = [("   ", "")]
    if layout.value_columns:
        runs += [(_truncate_start(name, cells - 1).ljust(cells), MUTED) for name, cells in layout.value_columns]
        runs.append((" " * (layout.name_cells - sum(cells for _, cells in layout.value_columns)), ""))
    else:
        runs.append(("setting".ljust(layout.name_cells), MUTED))
    order = _find_sorted_order(board)
    for column, cells in layout.number_columns:
        here = column.order == order
        arrow = ("▼" if board.is_column_descending else "▲") if here else ""
        runs.append((f"{arrow}{column.head}".rjust(cells)[-cells:], f"{BOLD} {PRIMARY}" if here else MUTED))
    if layout.beaten_cells:
        runs.append(("  dominated by", MUTED))
    return pad_runs(runs, width)


def _find_sorted_order(board: SweepBoard) -> str:
    """Return the order of the sorted column: savings in money are shown as a cost."""
    by_money = board.saving_unit == "money" and board.order == "saved" and board.findings.has_prices
    return "cost" if by_money else board.order or "-"


def _truncate_start(name: str, width: int) -> str:
    """Truncate the start of a name to *width* cells; its end distinguishes it."""
    return name if len(name) <= width else "…" + name[len(name) - width + 1 :].lstrip("_.")


def format_setting_line(board: SweepBoard, layout: TableLayout, name: str, width: int) -> list[Run]:
    """Return the line of a setting."""
    whole, here = board.totals[name], name == board.cursor
    best, current = name in board.findings.best, name == board.sweep.current
    beaten = board.dominance.dominated_by.get(name)
    style = BOLD if here else "" if best or current else MUTED
    runs: list[Run] = [
        (CURRENT_SIGN if current else " ", f"{BOLD} {WARN}"),
        (BEST_SIGN if best else " ", f"{BOLD} {GOOD}"),
        (" ", ""),
        *_format_name(board, layout, name, style),
    ]
    for column, cells in layout.number_columns:
        text = column.format_value(column.get_value(whole), layout.is_full).rjust(cells)
        runs.append((text, style))
    if layout.beaten_cells and beaten:
        runs.append((f"  {shorten(format_setting_values(board, beaten), layout.beaten_cells)}", MUTED))
    found = pad_runs(runs, width)
    return set_background(found) if here else found


def _format_name(board: SweepBoard, layout: TableLayout, name: str, style: str) -> list[Run]:
    setting = board.settings_by_name[name]
    if not layout.value_columns or setting.policy.name != board.current_setting.policy.name:
        text = format_safe_line(board.format_label(name))
        return [(shorten(text, layout.name_cells - 1).ljust(layout.name_cells), style)]
    runs = [
        (shorten(format_value(getattr(setting.params, key)), cells - 1).ljust(cells), style)
        for key, cells in layout.value_columns
    ]
    return [*runs, (" " * (layout.name_cells - sum(cells for _, cells in layout.value_columns)), "")]


def format_setting_values(board: SweepBoard, name: str) -> str:
    """Return a setting by the values in its columns, else in words."""
    setting = board.settings_by_name.get(name)
    if setting is None or not board.parameter_columns or setting.policy.name != board.current_setting.policy.name:
        return format_safe_line(board.format_label(name))
    return " · ".join(format_value(getattr(setting.params, key)) for key in board.parameter_columns)
