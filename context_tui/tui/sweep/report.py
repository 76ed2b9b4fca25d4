"""Report on a sweep as text: every setting with its numbers, and the best setting of each project."""

from __future__ import annotations

from collections.abc import Iterator

from context_tui.lab.replay.result import REPLAY_LIMITS_TEXT
from context_tui.text.numbers import format_count
from context_tui.tui.rendering.layout import TextPart
from context_tui.tui.sweep.board import SweepBoard
from context_tui.tui.sweep.formatting import format_board_saving, format_native_lines, format_setting, format_status
from context_tui.tui.sweep.table import BEST_SIGN, CURRENT_SIGN, list_columns
from context_tui.tui.widgets.bindings import read_bindings
from context_tui.tui.widgets.styled_text import format_safe_line
from context_tui.tui.widgets.text_screen import TextScreen

UNWRAPPED_CELLS = 1_000


def build_report_parts(board: SweepBoard) -> Iterator[TextPart]:
    """Yield the sweep's result, the setting under the cursor, and all settings with their numbers."""
    if board.grid_text:
        yield TextPart(f"{board.current_setting.policy.name} {board.grid_text}\n", "muted")
    yield TextPart("".join(text for text, _ in format_status(board, "", False, UNWRAPPED_CELLS)).strip() + "\n")
    yield TextPart(f"The setting under the cursor: {board.cursor}", "heading")
    lines = ("".join(text for text, _ in line).strip() for line in format_setting(board, UNWRAPPED_CELLS))
    yield TextPart("\n".join(lines) + "\n")
    count = format_count(len(board.listed_names), "setting")
    yield TextPart(f"{count} (* on the Pareto front, > current), sizes in tokens", "heading")
    for name in board.listed_names:
        yield from _build_setting_parts(board, name)
    yield TextPart("")
    setting = board.settings_by_name[board.cursor]
    yield TextPart(f"As the agent's own configuration: {board.cursor}", "heading")
    yield TextPart("\n".join(format_native_lines(board, setting)) + "\n")
    if not board.is_live:
        yield from build_project_parts(board)
    if board.handling:
        yield TextPart(f"Recorded compactions {board.handling}", "muted")
    yield TextPart(" ".join(REPLAY_LIMITS_TEXT), "muted")


def _build_setting_parts(board: SweepBoard, name: str) -> Iterator[TextPart]:
    totals, dominator = board.totals[name], board.sweep.dominance.dominated_by.get(name)
    signs = (CURRENT_SIGN if name == board.sweep.current else "") + (BEST_SIGN if name in board.sweep.best else "")
    yield TextPart(f"{signs:2} {board.format_label(name)}")
    numbers = [f"{each.head}: {each.format_value(each.get_value(totals), True)}" for each in list_columns(board)]
    numbers += [f"dominated by {board.format_label(dominator)}"] if dominator else []
    yield TextPart("   " + ", ".join(numbers), "muted")


def build_project_parts(board: SweepBoard) -> Iterator[TextPart]:
    """Yield the best setting for each project with its savings."""
    heading = "Best in each project: saves most, with no more needed later than with the current setting"
    yield TextPart(heading, "heading")
    by_project = board.sweep.dominance_by_project
    for project, each in by_project.items():
        if each.best is not None:
            saving = format_board_saving(board, each.points[each.best].saved)
            yield TextPart(format_safe_line(project))
            yield TextPart(f"   {format_safe_line(board.format_label(each.best))}: {saving}", "muted")
    yield TextPart("" if any(each.best is not None for each in by_project.values()) else "no project\n")


class SweepTextScreen(TextScreen[None]):
    """A screen that shows a sweep's report, or the best setting for each project, as text."""

    BINDINGS = read_bindings("sweep-text")
