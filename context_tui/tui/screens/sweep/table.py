"""The table of settings: only the lines in sight are made, so that any number of settings is fine. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from context_tui.lab.sweep.results import Totals
from context_tui.text.numbers import format_tokens
from context_tui.tui.screens.sweep.board import Board, extra_cost, regret_of, value_text
from context_tui.tui.widgets.draw import BOLD, GOOD, HUE, MUTED, WARN, Run, on, pad, safe, short

BEST, CURRENT, BEATEN, HERE = "*", ">", "·", "◆"
"""The signs of settings: nothing beats it, the current one, another beats it; and in the plot the one with the cursor.
"""
NAME, SHORT_NAME, LEAST_NAME = 34, 22, 16
"""Cells for a setting before which numbers are told in short, the less important are left out, and all of these are."""
MANY = 200
"""Settings that are looked at for how long they are, where they are told as they are typed."""
LEAST_VALUE, MOST_VALUE = 5, 18
"""Cells of a parameter's column."""


class Column(NamedTuple):
    """A number of the table: its head, the order it belongs to, how much it matters, and how it is told.

    ``value`` is what it is told of, ``told`` its text in full or in short.
    """

    head: str
    order: str
    rank: int
    value: Callable[[Totals], float]
    told: Callable[[float, bool], str]


def short_amount(tokens: float) -> str:
    """Tokens in short, of millions the tenths too."""
    return f"{tokens / 1_000_000:.1f}M" if tokens >= 9_995_000 else format_tokens(round(tokens))


def amount(tokens: float, full: bool = True) -> str:
    """Tokens with a sign where they are less than none."""
    text = f"{abs(tokens):,.0f}" if full else short_amount(abs(tokens))
    return f"−{text}" if tokens < 0 and text != "0" else text


def money(cost: float, unit: str, *, signed: bool = False, digits: int = 2, full: bool = False) -> str:
    """A cost in its unit: ``$1.23``, or input tokens, in full or in short; with a sign where it is less than nothing.

    Args:
        signed: with a sign where it is more, too.
        digits: behind the point.
    """
    tokens = f"{abs(cost):,.0f}" if full else short_amount(abs(cost))
    text = f"${abs(cost):,.{digits}f}" if unit == "USD" else tokens
    if not any(digit in text for digit in "123456789"):
        return text
    return ("−" if cost < 0 else "+" if signed else "") + text


def share(part: float, whole: float) -> str:
    """A share of a whole with a tenth of a percent."""
    return f"{part / whole:.1%}".replace("-", "−").replace("%", " %") if whole else ""


def columns_of(board: Board) -> list[Column]:
    """The numbers that are known of all settings."""
    made, digits = board.made, board.of.digits
    over = any(each.overflows for each in board.wholes.values())
    cost = Column(
        "cost",
        "cost",
        8 if board.by == "money" else 5,
        extra_cost,
        lambda value, full: money(value, made.cost_unit, signed=True, digits=digits, full=full),
    )
    return [
        Column("saved", "saved", 7 if board.by == "money" else 9, lambda each: each.saved, amount),
        Column("share", "", 6, lambda each: each.saved / each.without if each.without else 0, _share),
        Column("used later" if board.of.used else "dropped", "used later", 9, regret_of, amount),
        *([cost] if board.of.priced else []),
        Column("firings", "firings", 4, lambda each: each.firings, amount),
        Column("peak", "peak", 3, lambda each: each.peak, amount),
        *([Column("over", "", 2, lambda each: each.overflows, amount)] if over else []),
    ]


def _share(value: float, full: bool) -> str:
    return share(value, 1)


class Layout(NamedTuple):
    """What the columns are, each with its cells; ``values`` are those of the swept parameters.

    Attributes:
        name: cells of the setting, those of its values among them.
        values: name and cells of each parameter with a column; none: settings are told as they are typed.
        numbers: the other columns.
        full: whether numbers are told in full.
        beaten: cells for what beats it, at the end of the line; 0: it is not told.
    """

    name: int
    values: Sequence[tuple[str, int]]
    numbers: Sequence[tuple[Column, int]]
    full: bool
    beaten: int

    def order_at(self, x: int) -> str:
        """The order that belongs to the head at a cell; empty where there is none."""
        edge = 3 + self.name
        if 3 <= x < edge:
            return "as given"
        for column, width in self.numbers:
            edge += width
            if x < edge:
                return column.order
        return ""


def layout(board: Board, width: int) -> Layout:
    """The columns that *width* cells have room for."""
    wholes = list(board.wholes.values())
    columns = columns_of(board)
    room = width - 3  # two signs and a blank
    least, wanted = _wanted(board)
    least = max(least, LEAST_NAME)
    numbers, full = _widths(columns, wholes, True), True
    if room - _sum(numbers) < min(wanted, max(least, NAME)):
        numbers, full = _widths(columns, wholes, False), False
    while len(numbers) > 2 and room - _sum(numbers) < least:
        numbers.remove(min(numbers, key=lambda each: each[0].rank))
    left = max(room - _sum(numbers), least)
    name = min(left, max(wanted, LEAST_NAME))
    beaten = left - name - 2
    if beaten < LEAST_NAME:
        name, beaten = left, 0
    return Layout(name, _values(board, name), numbers, full, min(beaten, max(wanted, LEAST_NAME)))


def _wanted(board: Board) -> tuple[int, int]:
    """Cells that settings need at least, and for all of their names."""
    if board.columns:
        sizes = _sizes(board)
        return sum(least + 2 for _, least, _ in sizes), sum(most + 2 for _, _, most in sizes)
    longest = max((len(board.label(each.name)) for each in board.settings[:MANY]), default=0) + 1
    return min(longest, SHORT_NAME), longest


def _sizes(board: Board) -> list[tuple[str, int, int]]:
    """The parameters with a column, the cells of their values, and those of their names too."""
    found = []
    for name, longest in board.columns.items():
        least = min(max(LEAST_VALUE, longest), MOST_VALUE)
        found.append((name, least, max(least, min(len(name), MOST_VALUE))))
    return found


def _values(board: Board, room: int) -> list[tuple[str, int]]:
    """The parameters with a column, and their cells: as wide as their names where there is room."""
    sizes, most = _sizes(board), MOST_VALUE
    while most > LEAST_VALUE and sum(max(least, min(wide, most)) + 2 for _, least, wide in sizes) > room:
        most -= 1
    return [(name, max(least, min(wide, most)) + 2) for name, least, wide in sizes]


def _widths(columns: Sequence[Column], wholes: Sequence[Totals], full: bool) -> list[tuple[Column, int]]:
    """The columns with the cells that their largest and smallest number need."""
    found = []
    for column in columns:
        values = [column.value(each) for each in wholes] or [0]
        texts = [column.told(value, full) for value in (max(values), min(values))]
        found.append((column, max(len(column.head), *map(len, texts)) + 2))
    return found


def _sum(numbers: Sequence[tuple[Column, int]]) -> int:
    return sum(width for _, width in numbers)


# Lines


def head(board: Board, made: Layout, width: int) -> list[Run]:
    """The line above; an arrow is at what it is sorted by."""
    runs: list[Run] = [("   ", "")]
    if made.values:
        runs += [(_ending(name, cells - 1).ljust(cells), MUTED) for name, cells in made.values]
        runs.append((" " * (made.name - sum(cells for _, cells in made.values)), ""))
    else:
        runs.append(("setting".ljust(made.name), MUTED))
    order = _head_of(board)
    for column, cells in made.numbers:
        here = column.order == order
        arrow = ("▼" if board.falls else "▲") if here else ""
        runs.append((f"{arrow}{column.head}".rjust(cells)[-cells:], f"{BOLD} {HUE}" if here else MUTED))
    if made.beaten:
        runs.append(("  beaten by", MUTED))
    return pad(runs, width)


def _head_of(board: Board) -> str:
    """The order of the column that it is sorted by: what is saved in money is told as a cost."""
    by_money = board.by == "money" and board.order == "saved" and board.of.priced
    return "cost" if by_money else board.order or "-"


def _ending(name: str, width: int) -> str:
    """A name in at most *width* cells; its end tells it from others."""
    return name if len(name) <= width else "…" + name[len(name) - width + 1 :].lstrip("_.")


def line(board: Board, made: Layout, name: str, width: int) -> list[Run]:
    """The line of a setting."""
    whole, here = board.wholes[name], name == board.cursor
    best, current = name in board.of.best, name == board.made.current
    beaten = board.standing.dominated_by.get(name)
    style = BOLD if here else "" if best or current else MUTED
    runs: list[Run] = [
        (CURRENT if current else " ", f"{BOLD} {WARN}"),
        (BEST if best else " ", f"{BOLD} {GOOD}"),
        (" ", ""),
        *_name(board, made, name, style),
    ]
    for column, cells in made.numbers:
        text = column.told(column.value(whole), made.full).rjust(cells)
        runs.append((text, style))
    if made.beaten and beaten:
        runs.append((f"  {short(values_of(board, beaten), made.beaten)}", MUTED))
    found = pad(runs, width)
    return on(found) if here else found


def _name(board: Board, made: Layout, name: str, style: str) -> list[Run]:
    setting = board.named[name]
    if not made.values or setting.policy.name != board.current.policy.name:
        text = safe(board.label(name))
        return [(short(text, made.name - 1).ljust(made.name), style)]
    runs = [
        (short(value_text(getattr(setting.params, key)), cells - 1).ljust(cells), style) for key, cells in made.values
    ]
    return [*runs, (" " * (made.name - sum(cells for _, cells in made.values)), "")]


def values_of(board: Board, name: str) -> str:
    """A setting by the values in its columns, else in words."""
    setting = board.named.get(name)
    if setting is None or not board.columns or setting.policy.name != board.current.policy.name:
        return safe(board.label(name))
    return " · ".join(value_text(getattr(setting.params, key)) for key in board.columns)
