"""The breakdown: its rows in both orders, at any width, and what choosing one posts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_tui.session.memory import from_messages
from context_tui.tokens.breakdown import measure_breakdown
from context_tui.tokens.estimators import bytes4
from context_tui.tui.analysis import ContextSizes, compute_context_sizes
from context_tui.tui.inspector.breakdown import (
    BreakdownRow,
    BreakdownView,
    build_breakdown_rows,
    build_largest_block_rows,
    format_row_line,
)
from context_tui.tui.timeline.filters import build_part_filter
from context_tui.tui.view import View
from context_tui.tui.widgets.styled_text import count_cells
from tests.tui import inspecting
from tests.tui.fakes import drawn
from tests.tui.tuning import Alone, sample

SESSION = sample(40, 8)
CONTEXT = SESSION.context_at()
PARTS = measure_breakdown(CONTEXT)
SIZES = compute_context_sizes(View(SESSION))


class Parts(Alone):
    """The breakdown of the sample."""

    def __init__(self, ascii: bool = False, theme: str = "textual-dark") -> None:
        self.view = BreakdownView(self.filtered, self.went)
        super().__init__(self.view, theme, ascii=ascii)
        self.got: list[tuple[str, Any]] = []

    def on_mount(self) -> None:
        """Show it, ready for keys."""
        super().on_mount()
        self.view.show(CONTEXT, SIZES)
        self.view.focus()

    def filtered(self, kind: str, value: str) -> None:
        """Keep the filter."""
        self.got.append((kind, value))

    def went(self, message: int, block: int) -> None:
        """Keep the place."""
        self.got.append(("goto", (message, block)))


def section(rows: list[BreakdownRow], heading: str) -> list[BreakdownRow]:
    """The rows below a heading."""
    start = next(n for n, row in enumerate(rows) if row.text == heading) + 1
    end = next((n for n in range(start, len(rows)) if rows[n].note), len(rows))
    return [row for row in rows[start:end] if row.tokens is not None]


def test_sections_hold_what_the_breakdown_found() -> None:
    rows = build_breakdown_rows(CONTEXT, SIZES)
    assert sum(row.tokens or 0 for row in section(rows, "by category")) == sum(PARTS.by_category.values())
    tools = section(rows, "results by tool")
    assert [(row.value, row.tokens) for row in tools] == [(each.tool, each.result_tokens) for each in PARTS.by_tool]
    files = section(rows, "results by file")
    assert [(row.value, row.tokens, row.count) for row in files] == [
        (each.path, each.tokens, str(each.reads)) for each in PARTS.by_file
    ]
    assert sum(each.tokens for each in PARTS.by_file) == next(
        t.result_tokens for t in PARTS.by_tool if t.tool == "Read"
    )
    reads = section(rows, "lines read again")
    assert [(row.value, row.tokens) for row in reads] == [
        (each.path, each.wasted) for each in PARTS.duplicate_reads if each.wasted
    ]


@pytest.mark.parametrize(
    "heading", ["by category", "results by tool", "results by file", "largest blocks", "lines read again"]
)
def test_both_orders_hold_the_same_rows(heading: str) -> None:
    by_size, by_file = (section(build_breakdown_rows(CONTEXT, SIZES, order), heading) for order in (True, False))
    assert {row.text for row in by_size} == {row.text for row in by_file}
    sizes = [row.tokens or 0 for row in by_size]
    assert sizes == sorted(sizes, reverse=True)
    if heading == "largest blocks":
        assert [row.message for row in by_file] == sorted(row.message for row in by_file)


@given(st.lists(st.lists(st.integers(0, 400), max_size=4), max_size=30), st.integers(1, 12))
def test_the_largest_blocks_are_the_largest(sizes: list[list[int]], count: int) -> None:
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "x" * size} for size in blocks]} for blocks in sizes
    ]
    context = from_messages(messages).context_at()
    rows = [row.tokens for _, row in build_largest_block_rows(context, count)]
    everything = sorted((bytes4(context.facts, row) for row in range(len(context.facts.kind))), reverse=True)
    assert sorted(rows, key=lambda tokens: -(tokens or 0)) == [tokens for tokens in everything[:count] if tokens]


def test_an_empty_context_has_words() -> None:
    context = from_messages([]).context_at()
    rows = build_breakdown_rows(context, ContextSizes(measure_breakdown(context)))
    assert all(row.tokens is None and not row.kind for row in rows)
    assert {
        "no messages in this context",
        "no tool calls",
        "no file was read",
        "no blocks",
        "no line was read again",
    } <= {row.text for row in rows}


@given(st.sampled_from(build_breakdown_rows(CONTEXT, SIZES)), st.integers(24, 200), st.booleans())
def test_rows_have_the_width(row: BreakdownRow, width: int, here: bool) -> None:
    assert count_cells(format_row_line(row, width, here)) == width


async def test_rows_filter_and_go() -> None:
    app = Parts()
    async with app.run_test(size=(100, 40)) as pilot:
        rows = app.view.rows
        await pilot.press("enter", "down", "enter")
        assert app.got == [("category", "tool_result"), ("category", "assistant")]
        tool = next(n for n, row in enumerate(rows) if row.kind == "tool")
        await pilot.click(app.view, offset=(5, tool))
        block = next(n for n, row in enumerate(rows) if row.kind == "message")
        await pilot.click(app.view, offset=(5, block))
        await pilot.press("end", "enter")
        assert app.got[2:] == [
            ("tool", rows[tool].value),
            ("goto", (rows[block].message, rows[block].block)),
            ("path", rows[-1].value),
        ]


async def test_the_order_can_be_changed() -> None:
    app = Parts()
    async with app.run_test(size=(100, 20)) as pilot:
        before = [row.text for row in app.view.rows]
        await pilot.press("o")
        assert [row.text for row in app.view.rows] != before
        await pilot.press("o")
        assert [row.text for row in app.view.rows] == before


async def test_the_row_that_is_selected_stays_so_when_others_take_its_place() -> None:
    app = Parts()
    async with app.run_test(size=(100, 20)) as pilot:
        number = next(n for n, row in enumerate(app.view.rows) if row.value == "assistant")
        while app.view.cursor < number:
            await pilot.press("down")
        await pilot.press("o")
        assert app.view.rows[app.view.cursor].value == "assistant" and app.view.cursor != number
        earlier = View(SESSION).with_point(4)
        app.view.show(earlier.context, compute_context_sizes(earlier))
        assert app.view.rows[app.view.cursor].value == "assistant"
        nothing = from_messages([]).context_at()
        app.view.show(nothing, compute_context_sizes(View(from_messages([]))))
        app.view.show(CONTEXT, SIZES)
        await pilot.press("enter")
        assert app.got == [("category", app.view.rows[app.view.cursor].value)]


async def test_the_cursor_stays_in_sight() -> None:
    app = Parts()
    async with app.run_test(size=(100, 10)) as pilot:
        await pilot.press("end")
        await pilot.pause()
        assert app.view.scroll_offset.y + 10 >= len(app.view.rows)
        await pilot.press("home")
        await pilot.pause()
        assert app.view.scroll_offset.y == 0


async def test_hostile_names_are_only_text() -> None:
    name = "[/red]\x1b]0;title\x07\u202ename"
    messages = [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": name, "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "x" * 400}]},
    ]
    context = from_messages(messages).context_at()
    app = Parts()
    async with app.run_test(size=(100, 30)):
        app.view.show(context, ContextSizes(measure_breakdown(context)))
        drawn = "".join(app.view.render_line(y).text for y in range(len(app.view.rows)))
        assert "[/red]·name" in drawn and all(character.isprintable() for character in drawn)


async def test_ascii_is_ascii() -> None:
    app = Parts(ascii=True)
    async with app.run_test(size=(120, 40)):
        assert drawn(app).isascii()


@pytest.mark.parametrize("theme", ["textual-light", "nord", "ansi-dark", "ansi-light", "catppuccin-latte"])
async def test_every_theme_can_draw_it(theme: str) -> None:
    app = Parts(theme=theme)
    async with app.run_test(size=(100, 30)):
        assert "tool results" in app.view.render_line(1).text


def test_a_large_block_keeps_the_name_of_its_file_or_its_command() -> None:
    read = BreakdownRow("Read", "message", "/home/dev/context-tui/context_tui/cli/plan.py", "#7", 900, 0.1, 1.0)
    assert "Read …/context_tui/cli/plan.py " in line_text(read, 77) and "Read …/cli/plan.py " in line_text(read, 60)
    run = BreakdownRow("Bash", "message", "", "#9", 800, 0.1, 1.0)
    assert "Bash pytest -q " in line_text(run, 60, call="Bash pytest -q")


def line_text(row: BreakdownRow, width: int, **more: Any) -> str:
    """A row as it is drawn."""
    return "".join(text for text, _ in format_row_line(row, width, False, **more))


@pytest.mark.parametrize("width", [46, 57, 60, 77, 100])
def test_every_column_has_its_name_above_it(width: int) -> None:
    rows = build_breakdown_rows(CONTEXT, SIZES)
    for head, first in (
        (row, next(each for each in rows[n:] if each.tokens)) for n, row in enumerate(rows) if row.note
    ):
        names, numbers = line_text(head, width), line_text(first, width)
        assert head.text in names and "share" in names and "…" not in names
        assert names.index("share") + 5 == numbers.index("%") + 1, "right-aligned"
        assert head.count in names
        if width >= 57:
            assert head.note in names and any(bar in names for bar in ("of the largest", "of largest", "size"))
            assert any(glyph in numbers for glyph in "━█▓▒░"), "a bar beside each row"


def test_what_is_not_in_the_file_is_said_in_plain_words() -> None:
    sizes = replace(SIZES, unrecorded=("instruction files", "reminders"))
    for each, kinds in ((SIZES, "text of unknown kinds"), (sizes, "instruction files, reminders")):
        said = next(row.text for row in build_breakdown_rows(CONTEXT, each) if row.text.startswith("not in the file:"))
        assert said.startswith(f"not in the file: {kinds}; the recorded size of the first request, less its content")
    bare = from_messages([{"role": "user", "content": "hello"}]).context_at()
    assert not any(
        "not in the file" in row.text for row in build_breakdown_rows(bare, ContextSizes(measure_breakdown(bare)))
    )


@pytest.mark.parametrize("width", [60, 80])
async def test_words_are_wrapped_and_not_cut(width: int) -> None:
    app = Parts()
    async with app.run_test(size=(width, 40)) as pilot:
        await pilot.pause()
        told = " ".join(row.text for row in app.view.rows if row.tokens is None and not row.note)
        assert "text of unknown kinds; the recorded size of the first request" in told
        for line, row in enumerate(app.view.rows):
            assert row.tokens is not None or row.note or row.text in app.view.render_line(line).text


async def test_the_part_that_is_listed_is_marked() -> None:
    app = Parts()
    async with app.run_test(size=(100, 40)):
        app.view.show(CONTEXT, SIZES, build_part_filter("tool", "Bash"))
        marked = [row.text for n, row in enumerate(app.view.rows) if "●" in app.view.render_line(n).text]
        assert marked == ["Bash"]
        app.view.show(CONTEXT, SIZES)
        assert not any("●" in app.view.render_line(n).text for n in range(len(app.view.rows)))


def test_snapshot_wide(snap_compare: Any) -> None:
    """Four sections, numbers in columns, bars in the shades of the gauge."""
    assert snap_compare(Parts(), terminal_size=(140, 34))


def test_snapshot_80_light(snap_compare: Any) -> None:
    """80 columns: bars stay, counts stay, the scroll bar covers nothing."""
    assert snap_compare(Parts(theme="textual-light"), terminal_size=(80, 24))


def test_snapshot_60_ascii(snap_compare: Any) -> None:
    """60 columns in ASCII, with a theme of the terminal's own colours."""
    assert snap_compare(Parts(ascii=True, theme="ansi-dark"), terminal_size=(60, 24))


async def test_the_largest_blocks_name_the_calls_that_they_answer() -> None:
    call = {"type": "tool_use", "id": "1", "name": "Bash", "input": {"command": "make it"}}
    result = {"type": "tool_result", "tool_use_id": "1", "content": "done " * 900}
    said = [("user", "go"), ("assistant", [call]), ("user", [result]), ("assistant", "done")]
    running = inspecting.app(from_messages([{"role": role, "content": content} for role, content in said]))
    async with running.run_test(size=(160, 50)) as pilot:
        await inspecting.settled(pilot)
        await pilot.press("b")
        await inspecting.settled(pilot)
        assert "Bash make it" in drawn(running).partition("largest")[2]
