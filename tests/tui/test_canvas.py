"""The canvas that charts are drawn on: blocks by eighths, shares that add up, lines of exact widths."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from context_tui.tui.terminal.cells import HORIZONTAL_BLOCKS, VERTICAL_BLOCKS
from context_tui.tui.widgets.canvas import Canvas, count_eighths, distribute_cells
from context_tui.tui.widgets.styled_text import count_cells

CELL = st.integers(-3, 12)


def drawn(canvas: Canvas) -> list[str]:
    return ["".join(text for text, _ in line) for line in canvas.get_lines()]


def test_a_value_is_to_scale_and_never_lost() -> None:
    assert [count_eighths(value, 100, 2) for value in (0, 1, 25, 50, 100, 200)] == [0, 1, 4, 8, 16, 16]
    assert count_eighths(5, 0) == 0


@given(st.lists(st.integers(0, 1_000_000)), st.integers(0, 200))
def test_shares_add_up(amounts: list[int], width: int) -> None:
    found = distribute_cells(amounts, width)
    assert len(found) == len(amounts) and min(found, default=0) >= 0
    assert sum(found) == (width if sum(amounts) else 0)


def test_columns_stand_on_a_line_and_rows_begin_at_a_cell() -> None:
    canvas = Canvas(6, 3)
    for x, tall in enumerate((0, 1, 8, 9, 16, 24)):
        canvas.draw_column(x, 2, tall, "bar")
    assert drawn(canvas) == ["     █", "   ▁██", " ▁████"]
    canvas = Canvas(4, 2)
    canvas.draw_bar(1, 0, 12, "bar")
    canvas.draw_column(0, 0, 8, "other", 9)
    canvas.write(2, 1, "words", "text")
    assert canvas.get_lines() == [[("████", "other")], [("  ", ""), ("wo", "text")]]
    assert len(VERTICAL_BLOCKS) == len(HORIZONTAL_BLOCKS) == 9


@given(st.lists(st.tuples(st.sampled_from("wcr"), CELL, CELL, st.integers(0, 40), st.integers(1, 4)), max_size=12))
def test_what_lies_outside_is_left_out(strokes: list[tuple[str, int, int, int, int]]) -> None:
    canvas = Canvas(8, 3)
    for what, x, y, size, width in strokes:
        if what == "w":
            canvas.write(x, y, "x" * size, "text")
        elif what == "c":
            canvas.draw_column(x, min(max(y, 0), 2), size, "column", width)
        else:
            canvas.draw_bar(x, y, size, "row")
    assert [count_cells(line) for line in canvas.get_lines()] == [8, 8, 8]
