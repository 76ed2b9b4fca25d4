"""The timeline widget: what is drawn, what is selected, and that its cost is what is in sight."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import pytest
from rich.style import Style
from textual.app import App, ComposeResult
from textual.message import Message
from textual.strip import Strip

from context_tui.tui.inspector.timeline import Timeline
from context_tui.tui.inspector.timeline_strips import RULE_GLYPH, TimelineColumns, paint_column_heads
from context_tui.tui.rendering.formatting import MessageReader
from context_tui.tui.timeline.filters import ALL_FOLDED, NO_FOLDS, TurnFolds, fold_rows
from context_tui.tui.timeline.marks import RowMarker
from context_tui.tui.timeline.rows import TURN_HEAD, Location, TimelineRows
from context_tui.tui.view import View
from tests.tui.fakes import drawn
from tests.tui.inspecting import app, inspector, session, settled

LONG = session(900, 2)
FRAME = dict.fromkeys(("edge", "label", "title"), Style())


def paint_heads(width: int, title: str, listed_variants: Sequence[str] = ("",)) -> Strip:
    columns = TimelineColumns.fit(width, 99)
    return paint_column_heads(columns, title, FRAME, RULE_GLYPH, listed_variants, "est. tokens")


class Shows(App[None]):
    """Only a timeline."""

    CSS_PATH = "../../context_tui/tui/app.tcss"

    def __init__(self, view: View, listed: Sequence[int] | None = None) -> None:
        super().__init__()
        self.view, self.listed, self.rows = view, listed, TimelineRows()
        self.rows.grow(view.session)
        self.messages: list[Message] = []

    def compose(self) -> ComposeResult:
        yield Timeline()

    def on_mount(self) -> None:
        view = self.view
        self.timeline = self.query_one(Timeline)
        listed = range(len(self.rows)) if self.listed is None else self.listed
        self.timeline.show(self.rows, MessageReader(view.session), RowMarker(view.context, view.plan), listed)
        self.timeline.focus()

    def on_event_sent(self, message: Any) -> None:
        if type(message).__module__.endswith("timeline"):
            self.messages.append(message)


def text(shown: App[Any]) -> list[str]:
    return drawn(shown).split("\n")


async def test_a_row_has_mark_number_turn_kind_preview_and_tokens() -> None:
    shown = Shows(View(session()))
    async with shown.run_test(size=(100, 20)) as pilot:
        await pilot.pause()
        found = text(shown)
        assert found[1].split()[:2] == ["0", "user"] and "rotate the refresh tokens" in found[1]
        assert found[2].split()[:2] == ["1", "asst"] and "→ Read src/auth0.py · Bash pytest -q" in found[2]
        assert "result  Read src/auth0.py" in found[3] and "450" in found[3]
        cleared = next(line for line in found if line.startswith(" -"))
        assert "Read src/auth1.py" in cleared and "▇" in cleared


async def test_a_recorded_compaction_is_a_labelled_rule() -> None:
    shown = Shows(View(session(compacted=True)))
    async with shown.run_test(size=(100, 60)) as pilot:
        await pilot.pause()
        (rule,) = [line for line in text(shown) if "full compaction" in line]
        assert rule.startswith(
            " ── full compaction by the runtime (auto), 120,000 tokens before by the agent's count ──"
        )
        assert text(shown)[0].startswith(" <"), "what came before it is not in the context"


async def test_only_what_is_in_sight_is_drawn_and_read() -> None:
    shown = Shows(View(LONG))
    drawn_rows: list[int] = []
    async with shown.run_test(size=(100, 20)) as pilot:
        await pilot.pause()
        assert len(shown.rows) > 7_000
        paint = shown.timeline._paint_row

        def counting(reader: MessageReader, row: int, width: int, here: bool) -> Strip:
            drawn_rows.append(row)
            return paint(reader, row, width, here)

        shown.timeline._paint_row = counting  # type: ignore[method-assign,assignment]
        shown.timeline.action_go(-1)
        await pilot.pause()
        assert 20 <= len(drawn_rows) <= 45, "a screenful, wherever the cursor goes"
        drawn_rows.clear()
        shown.timeline.action_move(-1)
        await pilot.pause()
        assert len(drawn_rows) <= 2, "a step redraws two lines"


async def test_moving_keeps_the_cursor_on_a_row_and_tells() -> None:
    shown = Shows(View(session()))
    async with shown.run_test(size=(100, 20), message_hook=lambda message: shown.on_event_sent(message)) as pilot:
        await pilot.press("up")
        assert shown.timeline.cursor == 0
        await pilot.press("down", "j", "k", "pagedown")
        assert shown.timeline.cursor == 1 + 19
        shown.timeline.action_go(-1)
        assert shown.timeline.cursor == shown.timeline.listed_count - 1
        await pilot.press("home")
        await pilot.pause()
        moved = [message for message in shown.messages if isinstance(message, Timeline.Moved)]
        assert moved[-1].location == Location(0, TURN_HEAD)


async def test_end_does_not_animate() -> None:
    shown = Shows(View(LONG))
    async with shown.run_test(size=(100, 20)) as pilot:
        await pilot.pause()
        shown.timeline.action_go(-1)
        assert shown.timeline.scroll_offset.y == shown.timeline.listed_count - 20


async def test_a_click_selects_and_a_second_one_opens() -> None:
    shown, opened = Shows(View(session())), list[Location]()
    async with shown.run_test(size=(100, 20)) as pilot:
        setattr(shown.screen, "action_open_detail", lambda: opened.append(shown.timeline.location))  # noqa: B010
        await pilot.click(Timeline, offset=(20, 3))
        assert shown.timeline.cursor == 3
        await pilot.click(Timeline, offset=(20, 3), times=2)
        await pilot.pause()
        assert opened == [shown.timeline.location]


async def test_a_list_of_rows_is_shown_in_its_order() -> None:
    shown = Shows(View(session()), array("l", [7, 2, 5]))
    async with shown.run_test(size=(100, 20)) as pilot:
        await pilot.pause()
        assert shown.timeline.listed_count == 3
        for line, row in enumerate((7, 2, 5)):
            shown.timeline.select_location(shown.rows.get_location(row))
            assert shown.timeline.cursor == line


async def test_the_cursor_comes_back_to_a_row_that_was_not_listed() -> None:
    """From the head of a turn, which is not listed when filtered; a row that was gone to meanwhile stays."""
    running = app()
    async with running.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        screen = inspector(running)

        async def choose() -> None:
            screen.run_command(screen.controller.toggle_filter, "category", "tool_result")
            await settled(pilot)

        await pilot.press("left_square_bracket", "left_square_bracket")
        await settled(pilot)
        head = screen.location
        assert head.block == TURN_HEAD
        await choose()
        first = screen.location
        assert abs(first.message - head.message) < 3, "the nearest row that is listed"
        await pilot.press("1", "escape")
        await settled(pilot)
        assert screen.location == head == screen.view.cursor
        await choose()
        await pilot.press("down" if screen.query_one(Timeline).cursor == 0 else "up")
        moved = screen.location
        await pilot.press("escape")
        await settled(pilot)
        assert screen.location == moved != head


async def test_narrow_rows_lose_the_bar_before_the_text() -> None:
    shown = Shows(View(session()))
    async with shown.run_test(size=(46, 20)) as pilot:
        await pilot.pause()
        assert not any("▇" in line for line in text(shown)) and "Step 0" in drawn(shown)
        await pilot.resize_terminal(100, 20)
        await pilot.pause()
        assert any("▇" in line for line in text(shown))


async def test_the_map_goes_where_it_is_clicked() -> None:
    running = app(LONG)
    async with running.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await pilot.mouse_down("#minimap", offset=(0, 0))
        await pilot.pause()
        assert inspector(running).query_one(Timeline).cursor == 0
        await pilot.mouse_up("#minimap", offset=(0, 0))


@pytest.mark.slow
@pytest.mark.parametrize("folds", [NO_FOLDS, ALL_FOLDED], ids=["open", "folded"])
async def test_lines_are_as_wide_as_there_is_room(folds: TurnFolds) -> None:
    view = View(session(12), policy="chain")
    rows = TimelineRows()
    rows.grow(view.session)
    shown = Shows(view, fold_rows(rows, folds))
    async with shown.run_test(size=(120, 20)) as pilot:
        for width in (20, 30, 47, 58, 63, 64, 70, 78, 94, 120):
            await pilot.resize_terminal(width, 20)
            await pilot.pause(0.1)
            strips = [shown.timeline.render_line(line) for line in range(shown.timeline.listed_count)]
            assert {strip.cell_length for strip in strips} == {width}
            heads = paint_heads(width, "timeline: largest first, results")
            assert heads.cell_length == width
            if width >= 60:
                assert "turn 1" in strips[0].text and "2,768 " in strips[0].text
                assert "# kind" in heads.text and "est. tokens" in heads.text and "timeline" in heads.text
