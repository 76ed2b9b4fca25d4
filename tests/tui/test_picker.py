"""The picker: order, filter, choosing by key and mouse, and odd contents."""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from textual import events
from textual.widgets import Label

from context_tui.formats.registry import FORMATS
from context_tui.library.discovery import OTHER_PROJECTS, SAMPLES, THIS_PROJECT, SessionEntry, build_entries
from context_tui.session.session import SessionInfo
from context_tui.text.numbers import format_age, format_bytes
from context_tui.tui.picker.listing import SessionItem, SessionListing
from context_tui.tui.picker.screen import EARLY_S, PickerScreen
from context_tui.tui.picker.session_list import PickerList, fit_picker_columns
from context_tui.tui.terminal.cells import shorten_middle
from tests.tui.fakes import NASTY, Shell, drawn, footer_fits, until

NOW = 1_800_000_000.0


def entry(
    name: str, group: str, title: str = "", *, place: str = "project", known: str = "claude-code"
) -> SessionEntry:
    return SessionEntry(
        SessionInfo(f"/s/{name}.jsonl", known, title=title, time=NOW - 7_300, bytes=45_600), group, place
    )


ENTRIES = [
    entry("sample-one", SAMPLES, "A sample"),
    entry("other-one", OTHER_PROJECTS, "Rotate tokens", place="elsewhere"),
    entry("3f2a91bc-1111-2222-3333-444444444444", THIS_PROJECT, "Fix the build"),
    entry("second", THIS_PROJECT, NASTY),
]


def write(path: Path, prompt: str, *, tokens: int = 0, agent: str = "", session: str = "") -> str:
    """A small Claude Code session, or with *agent* a sidechain, and its path."""
    more = {"sessionId": session or path.stem, "isSidechain": bool(agent)} | ({"agentId": agent} if agent else {})
    user = {"type": "user", "uuid": "u1", "message": {"role": "user", "content": prompt}, **more}
    usage = {"input_tokens": 10, "cache_read_input_tokens": tokens - 10, "output_tokens": 5} if tokens else None
    reply = {"id": "m1", "role": "assistant", "model": "claude-opus-4-5", "content": [{"type": "text", "text": "Yes."}]}
    said = {"type": "assistant", "uuid": "a1", "parentUuid": "u1", "message": reply | {"usage": usage}, **more}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in (user, said)))
    return str(path)


def picker(entries: list[SessionEntry] | None = None, **arguments: object) -> PickerScreen:
    return PickerScreen(ENTRIES if entries is None else entries, now=NOW, **arguments)  # type: ignore[arg-type]


def names(app: Shell[PickerScreen]) -> list[str]:
    return [line if isinstance(line, str) else line.entry.name for line in app.first.listing.lines]


async def test_groups_stand_under_headings_this_project_first() -> None:
    app = Shell(picker())
    async with app.run_test():
        assert names(app) == [
            *(THIS_PROJECT, "3f2a91bc-1111-2222-3333-444444444444", "second"),
            *(OTHER_PROJECTS, "other-one", SAMPLES, "sample-one"),
        ]
        shown = drawn(app)
    assert ">  3f2a91bc  " in shown
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
    app = Shell(picker([entry(f"s{n:03}", THIS_PROJECT if n < 50 else SAMPLES) for n in range(100)]))
    async with app.run_test(size=(80, 24)) as pilot:
        rows = app.screen.query_one(PickerList)
        for key, name in [("end", "s099"), ("home", "s000"), ("pagedown", "s017"), ("up", "s016"), ("pageup", "s000")]:
            await pilot.press(key)
            row, cursor = rows.listing.selected_session, rows.listing.cursor
            assert row is not None
            assert row.entry.name == name
            assert rows.scroll_offset.y <= cursor < rows.scroll_offset.y + rows.size.height
        assert "this project" in drawn(app)


async def test_typing_filters_by_every_word_in_name_title_or_project() -> None:
    app = Shell(picker())
    async with app.run_test() as pilot:
        await pilot.press("slash", *"ELSE tok")
        await until(pilot, lambda: names(app) == [OTHER_PROJECTS, "other-one"])
        assert "1 of 4" in str(app.screen.query_one("#picker-heading", Label).content)
        await pilot.press("tab")
        await until(pilot, lambda: isinstance(app.focused, PickerList))
        assert names(app) == [OTHER_PROJECTS, "other-one"] and not app.answers, "the keys of the list work again"
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
        await pilot.pause(EARLY_S)  # in which an escape may be meant for another program
        await pilot.press("escape")
        await until(pilot, lambda: app.answers)
    assert app.answers == ["back"]


async def test_q_leaves() -> None:
    app = Shell(picker())
    async with app.run_test() as pilot:
        await pilot.press("q")
        await until(pilot, lambda: app.answers)
    assert app.answers == ["quit"]


async def test_a_double_click_opens() -> None:
    app = Shell(picker())
    async with app.run_test() as pilot:
        await pilot.click(PickerList, offset=(20, 2))
        assert not app.answers
        await pilot.double_click(PickerList, offset=(20, 0))  # a heading
        assert not app.answers
        await pilot.double_click(PickerList, offset=(20, 2))
        await until(pilot, lambda: app.answers)
    assert app.answers[0].path == "/s/second.jsonl"


async def test_without_sessions_it_says_what_to_do() -> None:
    app = Shell(picker([]))
    async with app.run_test() as pilot:
        assert "context-tui demo" in drawn(app)
        await pilot.press("enter", "down", "end", "q")
        await until(pilot, lambda: app.answers)


async def test_titles_are_read_beside_and_can_be_filtered_by() -> None:
    app = Shell(
        picker(
            [entry("a", THIS_PROJECT), entry("b", THIS_PROJECT)],
            read_title=lambda info: f"title of {Path(info.path).stem}",
        )
    )
    async with app.run_test() as pilot:
        await until(pilot, lambda: "title of b" in drawn(app))
        await pilot.press("slash", *"of b")
        await until(pilot, lambda: names(app) == [THIS_PROJECT, "b"])


async def test_a_session_beside_others_in_its_file_does_not_get_the_title_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", "what was asked")
    infos = [SessionInfo(path, "claude-code", title="a"), SessionInfo(path, "claude-code", "side", title="side")]
    app = Shell(PickerScreen(build_entries(infos), now=NOW))
    async with app.run_test() as pilot:
        await until(pilot, lambda: "what was asked" in drawn(app))
        assert drawn(app).count("what was asked") == 1


async def test_what_cannot_be_read_says_so_and_the_picker_stays(tmp_path: Path) -> None:
    path = tmp_path / "[red]broken.jsonl"
    path.write_bytes(b"\0\1\2")
    app = Shell(picker([SessionEntry(SessionInfo(str(path), ""), THIS_PROJECT)]))
    async with app.run_test(size=(160, 24)) as pilot:
        await pilot.press("enter")
        await until(pilot, lambda: "binary data" in drawn(app))
        assert not app.answers


async def test_a_found_file_is_opened_by_its_real_format(tmp_path: Path) -> None:
    path = tmp_path / "messages.json"
    path.write_text('[{"role": "user", "content": "hello"}]')
    app = Shell(picker([SessionEntry(SessionInfo(str(path), ""), THIS_PROJECT)]))
    async with app.run_test() as pilot:
        await pilot.press("enter")
        await until(pilot, lambda: app.answers)
    assert app.answers[0].format == "anthropic"


async def test_a_file_of_several_sessions_lists_them() -> None:
    koda = Path(__file__).parents[2] / "sample_sessions" / "koda.db"
    app = Shell(picker([SessionEntry(SessionInfo(str(koda), ""), THIS_PROJECT)]))
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
    assert [format_bytes(n) for n in (0, 900, 45_600, 1_234_567)] == ["", "0.9 kB", "45.6 kB", "1.2 MB"]
    assert [format_age(n) for n in (-5, 0, 61, 7_300, 90_000, 40 * 86_400, 800 * 86_400, NOW)] == [
        *("now", "now", "1 min", "2 h", "1 d", "1 mo", "2 y", ""),
    ]


def test_snapshot_80_light(snap_compare: Any, tmp_path: Path) -> None:
    """Three groups under headings, this project first; the cursor on the first session; columns in line."""
    there = [
        replace(each, info=replace(each.info, path=write(tmp_path / Path(each.info.path).name, "Hi")))
        for each in ENTRIES
    ]
    assert snap_compare(Shell(picker(there), light=True), terminal_size=(80, 16))


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="the same picture, with blanks in other pieces, from 3.12 on")
def test_snapshot_empty(snap_compare: Any) -> None:
    """Words on what to do where there is nothing to choose."""
    assert snap_compare(Shell(picker([])), terminal_size=(60, 14))


async def test_typing_goes_to_the_first_match_which_stays_selected() -> None:
    app = Shell(picker())
    async with app.run_test() as pilot:
        await pilot.press("end", "slash", *"sec")
        assert app.first.listing.selected_session is not None
        assert app.first.listing.selected_session.entry.name == "second"
        await pilot.press("escape")
        assert app.first.listing.selected_session.entry.name == "second"
        assert "4 sessions" in drawn(app)


async def test_a_paste_is_a_filter_and_shows_no_control_characters() -> None:
    app = Shell(picker())
    async with app.run_test() as pilot:
        app.post_message(events.Paste(f"rotate\n{NASTY}"))
        await until(pilot, lambda: "0 of 4 sessions" in drawn(app))
        assert not {c for c in drawn(app).replace("\n", "") if unicodedata.category(c) in ("Cc", "Cf", "Cs")}


def family(tmp_path: Path, agents: int) -> list[SessionEntry]:
    """A session with sub-agents, and another one after it."""
    path = write(tmp_path / "main.jsonl", "What was asked", tokens=150_000)
    for number in range(agents):
        below = tmp_path / "main" / "subagents" / f"agent-a{number}.jsonl"
        write(below, f"Look at part {number}", tokens=20_000, agent=f"a{number}", session="main")
    other = write(tmp_path / "other.jsonl", "Another thing")
    return [
        SessionEntry(SessionInfo(each, "", bytes=900, time=NOW - 60), THIS_PROJECT, "project") for each in (path, other)
    ]


async def test_what_belongs_to_a_session_is_folded_below_it(tmp_path: Path) -> None:
    app = Shell(picker(family(tmp_path, 2)))
    async with app.run_test(size=(120, 24)) as pilot:
        await until(pilot, lambda: "(2)" in drawn(app))
        assert names(app) == [THIS_PROJECT, "main", "other"], "no line moves under a key"
        await pilot.press("right")
        assert names(app) == [THIS_PROJECT, "main", "a0", "a1", "other"]
        await until(pilot, lambda: "Look at part 1" in drawn(app) and drawn(app).count("20.0k") == 2)
        assert "sub-agent" in drawn(app)
        await pilot.press("down", "left")
        assert names(app) == [THIS_PROJECT, "main", "other"]
        assert app.first.listing.selected_session is not None
        assert app.first.listing.selected_session.entry.name == "main"
        await pilot.press("z", "down", "down", "enter")
        await until(pilot, lambda: app.answers)
    assert app.answers[0].id == "a1"


async def test_a_click_on_the_sign_folds(tmp_path: Path) -> None:
    app = Shell(picker(family(tmp_path, 2)))
    async with app.run_test(size=(120, 24)) as pilot:
        await until(pilot, lambda: "(2)" in drawn(app))
        await pilot.click(PickerList, offset=(1, 1))
        assert names(app) == [THIS_PROJECT, "main", "a0", "a1", "other"]
        await pilot.click(PickerList, offset=(1, 1))
        assert names(app) == [THIS_PROJECT, "main", "other"]
        assert not app.answers


async def test_how_full_the_context_was_is_read_for_what_is_in_sight(tmp_path: Path) -> None:
    app = Shell(picker(family(tmp_path, 0)))
    async with app.run_test(size=(120, 24)) as pilot:
        await until(pilot, lambda: "150k  75 %" in drawn(app))
        line = next(line for line in drawn(app).splitlines() if "other" in line)
        assert "%" not in line, "what is not known is not guessed"
        await pilot.resize_terminal(60, 20)
        await until(pilot, lambda: "75 %" in drawn(app) and "150k" not in drawn(app))


@pytest.mark.parametrize("width", [60, 80, 120, 160])
async def test_the_column_heads_stand_over_their_columns(width: int, tmp_path: Path) -> None:
    app = Shell(picker(family(tmp_path, 0)))
    async with app.run_test(size=(width, 20)) as pilot:
        await until(pilot, lambda: "75 %" in drawn(app))
        lines = drawn(app).splitlines()
        heads = next(line for line in lines if "session" in line and "age" in line)
        row = next(line for line in lines if "What was" in line)
    assert row.index("main") == heads.index("session")
    assert row.index("What was") == heads.index("title")
    assert row.index("1 min") + 5 == re.search(r"age\b", heads).end()  # type: ignore[union-attr]
    end = heads.index("context") + 7 if width >= 100 else heads.index("full") + 4
    assert row.rindex("%") + 1 == end
    assert width < 76 or row.index("project") == heads.index("project")


def test_names_keep_both_ends() -> None:
    assert shorten_middle("checkout-api-retries-of-tuesday", 16) == "checkout…tuesday"
    assert shorten_middle("short", 16) == "short"
    assert cell_len(shorten_middle("会議の議事録をまとめるセッション", 11)) <= 11
    assert shorten_middle("会議の議事録をまとめるセッション", 11).endswith("ン")
    assert [shorten_middle("abcdef", width) for width in (0, 1, 2, 3)] == ["", "a", "ab", "a…f"]


def test_many_sessions_are_listed_and_filtered_at_once() -> None:
    listing = SessionListing(entry(f"session-{n:05}", OTHER_PROJECTS) for n in range(10_000))
    assert listing.session_count == 10_000
    listing.filter("session-09999")
    assert listing.session_count == 1
    assert listing.selected_session is not None
    assert listing.selected_session.entry.name == "session-09999"
    listing.filter("")
    assert listing.selected_session.entry.name == "session-09999"


def test_children_that_match_are_listed_below_their_session() -> None:
    main = SessionEntry(SessionInfo("/s/m.jsonl", "x"), THIS_PROJECT)
    inner = [
        SessionEntry(SessionInfo(f"/s/m/{n}.jsonl", "x", f"a{n}", parent="/s/m.jsonl"), THIS_PROJECT, "sub-agent")
        for n in range(9)
    ]
    listing = SessionListing([main, *inner, entry("z", THIS_PROJECT)])
    assert [line if isinstance(line, str) else len(line.children) for line in listing.lines] == [THIS_PROJECT, 9, 0]
    listing.filter("a7")
    assert [line.entry.name for line in listing.lines if isinstance(line, SessionItem)] == ["m", "a7"]
    assert listing.selected_session is not None
    assert listing.selected_session.entry.name == "a7"
    assert listing.session_count == 1


def test_where_there_is_room_no_agent_is_cut() -> None:
    columns = fit_picker_columns(160, 30)
    assert columns["agent"] > max(map(len, FORMATS)) and columns["title"] > 10
