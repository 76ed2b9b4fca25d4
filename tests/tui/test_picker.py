"""The picker: order, filter, choosing by key and mouse, and odd contents."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Input, Label

from context_tui.discovery import ELSEWHERE, HERE, SAMPLES, Entry
from context_tui.session.session import SessionInfo
from context_tui.tui.screens.picker import PickerScreen
from context_tui.tui.screens.picker_list import PickerList, age, size
from tests.tui.fakes import NASTY, Shell, drawn, footer_fits, until

NOW = 1_800_000_000.0


def entry(name: str, group: str, title: str = "", *, place: str = "project", known: str = "x") -> Entry:
    return Entry(SessionInfo(f"/s/{name}.jsonl", known, title=title, time=NOW - 7_300, bytes=45_600), group, place)


ENTRIES = [
    entry("sample-one", SAMPLES, "A sample"),
    entry("other-one", ELSEWHERE, "Rotate tokens", place="elsewhere"),
    entry("3f2a91bc-1111-2222-3333-444444444444", HERE, "Fix the build"),
    entry("second", HERE, NASTY),
]


def picker(entries: list[Entry] | None = None, **arguments: object) -> PickerScreen:
    return PickerScreen(ENTRIES if entries is None else entries, now=NOW, **arguments)  # type: ignore[arg-type]


def names(app: Shell[PickerScreen]) -> list[str]:
    return [row if isinstance(row, str) else row.name for row in app.screen.query_one(PickerList).rows]


async def test_groups_stand_under_headings_this_project_first() -> None:
    app = Shell(picker())
    async with app.run_test():
        assert names(app) == [
            *(HERE, "3f2a91bc-1111-2222-3333-444444444444", "second"),
            *(ELSEWHERE, "other-one", SAMPLES, "sample-one"),
        ]
        shown = drawn(app)
    assert "> 3f2a91bc  " in shown
    assert "Fix the build" in shown
    assert "45.6 kB" in shown
    assert "2 h" in shown


async def test_enter_opens_and_the_cursor_passes_headings() -> None:
    app = Shell(picker())
    async with app.run_test() as pilot:
        await pilot.press("down", "j", "up", "down", "enter")
        await until(pilot, lambda: app.answers)
    assert app.answers[0].path == "/s/other-one.jsonl"


async def test_ends_and_pages_stay_on_sessions() -> None:
    app = Shell(picker([entry(f"s{n:03}", HERE if n < 50 else SAMPLES) for n in range(100)]))
    async with app.run_test(size=(80, 24)) as pilot:
        rows = app.screen.query_one(PickerList)
        for key, name in [("end", "s099"), ("home", "s000"), ("pagedown", "s018"), ("up", "s017"), ("pageup", "s000")]:
            await pilot.press(key)
            assert rows.chosen is not None
            assert rows.chosen.name == name
            assert rows.scroll_offset.y <= rows.cursor < rows.scroll_offset.y + rows.size.height
        assert "this project" in drawn(app)


async def test_typing_filters_by_every_word_in_name_title_or_project() -> None:
    app = Shell(picker())
    async with app.run_test() as pilot:
        await pilot.press("slash", *"ELSE tok")
        await until(pilot, lambda: names(app) == [ELSEWHERE, "other-one"])
        assert "1 of 4" in str(app.screen.query_one("#picker-heading", Label).content)
        await pilot.press("enter")
        await until(pilot, lambda: app.answers)
    assert app.answers[0].path == "/s/other-one.jsonl"


async def test_escape_clears_the_filter_before_it_leaves() -> None:
    app = Shell(picker())
    async with app.run_test() as pilot:
        await pilot.press("slash", "z", "q")
        await until(pilot, lambda: "No session matches" in drawn(app))
        await pilot.press("enter", "escape")
        assert len(names(app)) == 7
        assert not app.answers
        await pilot.press("escape")
        await until(pilot, lambda: app.answers)
    assert app.answers == [None]


async def test_q_leaves() -> None:
    app = Shell(picker())
    async with app.run_test() as pilot:
        await pilot.press("q")
        await until(pilot, lambda: app.answers)
    assert app.answers == [None]


async def test_a_second_click_opens() -> None:
    app = Shell(picker())
    async with app.run_test() as pilot:
        await pilot.click(PickerList, offset=(20, 2))
        assert not app.answers
        await pilot.click(PickerList, offset=(20, 0))  # a heading
        await pilot.click(PickerList, offset=(20, 2))
        await until(pilot, lambda: app.answers)
    assert app.answers[0].path == "/s/second.jsonl"


async def test_without_sessions_it_says_what_to_do() -> None:
    app = Shell(picker([]))
    async with app.run_test() as pilot:
        assert "context-tui demo" in drawn(app)
        await pilot.press("enter", "down", "end", "q")
        await until(pilot, lambda: app.answers)


async def test_titles_are_read_beside_and_can_be_filtered_by() -> None:
    app = Shell(picker([entry("a", HERE), entry("b", HERE)], titles=lambda info: f"title of {Path(info.path).stem}"))
    async with app.run_test() as pilot:
        await until(pilot, lambda: "title of b" in drawn(app))
        app.screen.query_one(Input).value = "of b"
        await until(pilot, lambda: names(app) == [HERE, "b"])


async def test_a_session_beside_others_in_its_file_does_not_get_the_title_of_the_file() -> None:
    infos = [SessionInfo("/s/a.jsonl", "x", title="a"), SessionInfo("/s/a.jsonl", "x", "side", title="side")]
    app = Shell(PickerScreen(infos, titles=lambda info: "what was asked", now=NOW))
    async with app.run_test() as pilot:
        await until(pilot, lambda: "what was asked" in drawn(app))
        assert drawn(app).count("what was asked") == 1


async def test_what_cannot_be_read_says_so_and_the_picker_stays(tmp_path: Path) -> None:
    path = tmp_path / "[red]broken.jsonl"
    path.write_bytes(b"\0\1\2")
    app = Shell(picker([Entry(SessionInfo(str(path), ""), HERE)]))
    async with app.run_test(size=(160, 24)) as pilot:
        await pilot.press("enter")
        await until(pilot, lambda: "binary data" in drawn(app))
        assert not app.answers


async def test_a_found_file_is_opened_by_its_real_format(tmp_path: Path) -> None:
    path = tmp_path / "messages.json"
    path.write_text('[{"role": "user", "content": "hello"}]')
    app = Shell(picker([Entry(SessionInfo(str(path), ""), HERE)]))
    async with app.run_test() as pilot:
        await pilot.press("enter")
        await until(pilot, lambda: app.answers)
    assert app.answers[0].format == "anthropic"


async def test_a_file_of_several_sessions_lists_them() -> None:
    koda = Path(__file__).parents[2] / "sample_sessions" / "koda.db"
    app = Shell(picker([Entry(SessionInfo(str(koda), ""), HERE)]))
    async with app.run_test() as pilot:
        await pilot.press("enter")
        await until(pilot, lambda: len(names(app)) > 2)
        await pilot.press("enter")
        await until(pilot, lambda: app.answers)
    assert app.answers[0].id


@pytest.mark.parametrize("width", [40, 60, 80, 160])
async def test_it_fits_and_draws_nothing_a_terminal_acts_on(width: int) -> None:
    app = Shell(picker())
    async with app.run_test(size=(width, 20)):
        assert footer_fits(app)
        shown = drawn(app)
        assert app.screen.query_one(PickerList).virtual_size.width <= width
    assert not {c for c in shown.replace("\n", "") if unicodedata.category(c) in ("Cc", "Cf", "Cs")}
    assert "[/] [red]" in shown or width < 80


def test_sizes_and_ages_are_short() -> None:
    assert [size(n) for n in (0, 900, 45_600, 1_234_567)] == ["", "0.9 kB", "45.6 kB", "1.2 MB"]
    assert [age(n) for n in (-5, 0, 61, 7_300, 90_000, 40 * 86_400, 800 * 86_400, NOW)] == [
        *("now", "now", "1 min", "2 h", "1 d", "1 mo", "2 y", ""),
    ]


def test_snapshot_80_light(snap_compare: Any) -> None:
    """Three groups under headings, this project first; the cursor on the first session; columns in line."""
    assert snap_compare(Shell(picker(), light=True), terminal_size=(80, 16))


def test_snapshot_empty(snap_compare: Any) -> None:
    """Words on what to do where there is nothing to choose."""
    assert snap_compare(Shell(picker([])), terminal_size=(60, 14))
