"""The sessions screen of a sweep: the totals of one setting in each session, and a key to open the session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.app import ComposeResult
from textual.message import Message
from textual.screen import Screen

from context_tui.lab.sweep.grids import SweepSetting
from context_tui.lab.sweep.results import Totals, compute_totals
from context_tui.lab.sweep.rows import SweepRow
from context_tui.text.numbers import format_count, format_saving
from context_tui.tui.comparison import format_limits
from context_tui.tui.rendering.columns import drop_columns
from context_tui.tui.sweep.board import SORT_ORDERS, SweepBoard
from context_tui.tui.sweep.table import SweepColumn, list_columns
from context_tui.tui.terminal.cells import shorten_path
from context_tui.tui.terminal.themes import BOLD, MUTED, PRIMARY
from context_tui.tui.widgets import styled_text
from context_tui.tui.widgets.bindings import KeyFooter, read_bindings
from context_tui.tui.widgets.text_screen import HELP_NOTES

FULL_NAME_CELLS = 30
"""Cells for the name of a session below which numbers are abbreviated."""


def sort_sessions(rows: Sequence[SweepRow], order: str) -> list[tuple[SweepRow, Totals]]:
    """Return each session's row with its totals, sorted by the column *order*, then by savings, the largest first."""
    key = next(each.key for each in SORT_ORDERS if each.name == order)
    totals = [(row, compute_totals([row], row.cost.unit if row.cost else "")) for row in rows]
    return sorted(totals, key=lambda each: (-key(each[1]), -each[1].saved))


def format_session_lines(
    board: SweepBoard, session_rows: Sequence[tuple[SweepRow, Totals]], order: str, width: int
) -> list[list[styled_text.Run]]:
    """Format the column headings and one line for each session."""
    columns, totals = list_columns(board), [each for _, each in session_rows]
    full = width - sum(_measure_column(board, each, totals, True) for each in columns) >= FULL_NAME_CELLS
    cells = [_measure_column(board, each, totals, full) for each in columns]
    visible = drop_columns(
        zip(columns, cells, strict=True),
        width - FULL_NAME_CELLS // 2,
        lambda each: each[1],
        lambda each: -columns.index(each[0]),
        at_least=2,
    )
    name_cells = width - sum(cells for _, cells in visible)
    head: list[styled_text.Run] = [("  session".ljust(name_cells), MUTED)]
    head += [
        (f"{'▼' if each.order == order else ''}{each.head}".rjust(cell), PRIMARY if each.order == order else MUTED)
        for each, cell in visible
    ]
    lines = [head]
    for row, each in session_rows:
        path = shorten_path(row.session, name_cells - 3)
        numbers = [(_format_cell(board, column, each, full).rjust(cell), "") for column, cell in visible]
        lines.append([(f"  {path}".ljust(name_cells), ""), *numbers])
    return [styled_text.pad_runs(line, width) for line in lines]


def _format_cell(board: SweepBoard, column: SweepColumn, totals: Totals, full: bool) -> str:
    unit = totals.cost.unit if totals.cost else ""
    if column.order != "cost" or unit == board.sweep.cost_unit:
        return column.format_value(column.get_value(totals), full)
    return format_saving(-totals.extra_cost, unit, brief=not full, with_unit=True) if unit else "no price"


def _measure_column(board: SweepBoard, column: SweepColumn, all_totals: Sequence[Totals], full: bool) -> int:
    texts = (_format_cell(board, column, totals, full) for totals in all_totals)
    return 2 + max(len(column.head) + 1, *map(len, texts))


class SessionsScreen(Screen[None]):
    """A screen that lists the sessions of a sweep with the numbers of one setting."""

    CSS_PATH = "sweep.tcss"
    AUTO_FOCUS = "ClickableLines"
    BINDING_GROUP_TITLE = "Sessions of a setting"
    help_notes = HELP_NOTES["sweep"]
    BINDINGS = read_bindings("setting-sessions")

    @dataclass
    class Opened(Message):
        """Posted to open a session in the inspector, with a policy and its settings."""

        name: str
        setting: SweepSetting

    def __init__(self, board: SweepBoard, setting: SweepSetting) -> None:
        super().__init__()
        self._board, self._setting = board, setting
        self._rows = [row for row in board.sweep.rows if row.setting == setting.name]
        self.order, self.cursor_index, self._first_row = "needed later", 0, 0
        self.session_rows = sort_sessions(self._rows, self.order)

    def compose(self) -> ComposeResult:
        yield styled_text.LinesPane(self._draw_header, id="sessions-header")
        yield styled_text.ClickableLines(self._draw_lines, self._click, self.action_move, id="sweep-sessions")
        yield styled_text.LinesPane(lambda width, _: [[(format_limits(width), MUTED)]], id="sessions-limits")
        yield KeyFooter()

    def _draw_header(self, width: int, _: int) -> list[list[styled_text.Run]]:
        parts: list[tuple[int, styled_text.Run]] = [
            (8, (styled_text.format_safe_line(self._setting.name), BOLD)),
            (9, (f"on {format_count(len(self.session_rows), 'session')}", "")),
        ]
        return [styled_text.justify_runs(parts, [(f"most {self.order} first", MUTED)], width)]

    def _draw_lines(self, width: int, height: int) -> list[list[styled_text.Run]]:
        room = height - 1
        self._first_row = max(min(max(self._first_row, self.cursor_index - room + 1), self.cursor_index), 0)
        head, *lines = format_session_lines(self._board, self.session_rows, self.order, width)
        lines[self.cursor_index] = styled_text.set_background(lines[self.cursor_index])
        return [head, *lines[self._first_row : self._first_row + room]]

    def action_move(self, rows: int) -> None:
        self.cursor_index = min(max(self.cursor_index + rows, 0), len(self.session_rows) - 1)
        self.query_one(styled_text.ClickableLines).refresh()

    def action_sort(self) -> None:
        current = self.session_rows[self.cursor_index][0]
        self.order = "saved" if self.order == "needed later" else "needed later"
        self.session_rows = sort_sessions(self._rows, self.order)
        self.cursor_index = next(index for index, (row, _) in enumerate(self.session_rows) if row is current)
        for pane in self.query(styled_text.LinesPane):
            pane.refresh()

    def _click(self, line: int, _: int, is_double: bool) -> None:
        place = self._first_row + line - 1
        if line > 0 and place < len(self.session_rows):
            self.cursor_index = place
            self.query_one(styled_text.ClickableLines).refresh()
            if is_double:
                self.action_open()

    def action_open(self) -> None:
        row, _ = self.session_rows[self.cursor_index]
        self.post_message(self.Opened(row.session, self._setting))
