"""What a picker lists: sorted, filtered by agent, and the sessions of a database in its place."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest

from context_tui.library.discovery import OTHER_PROJECTS, THIS_PROJECT, SessionEntry, list_database_sessions
from context_tui.library.overview import SUB_AGENT, OverviewReader, SessionOverview
from context_tui.session.session import SessionInfo
from context_tui.tui.app import ContextTuiApp
from context_tui.tui.picker.listing import SessionListing, SessionOrder
from context_tui.tui.picker.screen import PickerScreen
from tests.tui.fakes import Shell, drawn, until

SAMPLES = Path(__file__).parents[2] / "sample_sessions"


def entry(name: str, time: float, size: int, place: str = "", group: str = OTHER_PROJECTS, **more: str) -> SessionEntry:
    return SessionEntry(SessionInfo(f"/s/{name}.jsonl", "", time=time, bytes=size, **more), group, place, "claude-code")


def names(listing: SessionListing) -> list[str]:
    return [line if isinstance(line, str) else line.entry.name for line in listing.lines]


ENTRIES = [entry("here", 1, 1, "z", THIS_PROJECT), entry("a", 9, 5, "two"), entry("b", 8, 7), entry("c", 7, 6, "One")]


def test_it_sorts_within_groups_and_keeps_the_cursor() -> None:
    listing = SessionListing(ENTRIES)
    listing.select(names(listing).index("b"))
    found = {SessionOrder.SIZE: "bca", SessionOrder.PROJECT: "cab", SessionOrder.AS_FOUND: "abc"}
    for order, expected in found.items():
        listing.sort(order)
        assert names(listing) == [THIS_PROJECT, "here", OTHER_PROJECTS, *expected]
        assert listing.selected_session and listing.selected_session.entry.name == "b"
    fuller = SessionOverview(tokens=8, window=10)
    listing.update_summaries({ENTRIES[3].key: SessionOverview(tokens=9, window=90), ENTRIES[2].key: fuller})
    listing.sort(SessionOrder.CONTEXT)
    assert names(listing)[3:] == ["b", "c", "a"], "8 of 10 is fuller than 9 of 90"


def test_agents_and_folders_that_were_read_are_filtered_by() -> None:
    listing = SessionListing(ENTRIES)
    listing.update_summaries({ENTRIES[2].key: SessionOverview("codex", cwd="/home/me/thing")})
    listing.filter("codex")
    assert names(listing) == [OTHER_PROJECTS, "b"]
    listing.filter("thing")
    assert names(listing) == [OTHER_PROJECTS, "b"]
    assert listing.selected_session and listing.selected_session.project_name == "thing"


def test_the_sessions_of_a_database_take_its_place_at_their_times() -> None:
    database = SessionEntry(SessionInfo("/s/x.db", "", time=5), OTHER_PROJECTS, "", "koda")
    listing = SessionListing([*ENTRIES[:3], database, ENTRIES[3]])
    listing.update_summaries({ENTRIES[1].key: SessionOverview("claude-code", 7)})
    listing.select(names(listing).index("c"))
    path = database.info.path
    new, old = SessionInfo(path, "koda", "new", time=8.5), SessionInfo(path, "koda", "old", time=2)
    inner = SessionInfo(path, "koda", "inner", time=1, parent=f"{path}#new")
    below = SessionEntry(inner, OTHER_PROJECTS, SUB_AGENT, "koda")
    listing.replace_files({database.key: [SessionEntry(new, OTHER_PROJECTS), SessionEntry(old, OTHER_PROJECTS), below]})
    assert names(listing) == [THIS_PROJECT, "here", OTHER_PROJECTS, "a", "new", "inner", "b", "c", "old"]
    assert listing.selected_session and listing.selected_session.entry.name == "c"
    assert listing._by_key[ENTRIES[1].key].summary == SessionOverview("claude-code", 7)
    listing.update_summaries({database.key: SessionOverview("koda")})  # told of what is not listed any more
    listing.update_titles({database.key: "gone"})


def test_what_belongs_to_a_sub_agent_stands_below_its_session() -> None:
    def inside(name: str, parent: str) -> SessionEntry:
        return SessionEntry(SessionInfo("/s/x.db", "koda", name, time=1, parent=f"/s/x.db#{parent}"), OTHER_PROJECTS)

    outer = SessionEntry(SessionInfo("/s/x.db", "koda", "outer", time=2), OTHER_PROJECTS)
    circle = [inside("left", "right"), inside("right", "left")]
    listing = SessionListing([inside("deep", "inner"), inside("inner", "outer"), outer, *circle])
    assert names(listing) == [OTHER_PROJECTS, "outer", "deep", "inner", "left", "right"]
    assert [len(item.children) for item in listing.items] == [2, 0, 0]


def test_a_session_whose_head_tells_that_it_belongs_to_another_goes_below_that() -> None:
    listing = SessionListing(ENTRIES)
    a, b, c = ENTRIES[1:]
    listing.update_summaries({c.key: SessionOverview("codex", parent=b.info.path)})
    assert names(listing) == [THIS_PROJECT, "here", OTHER_PROJECTS, "a", "b"], "folded: it was not asked for"
    listing.select(names(listing).index("b"))
    listing.update_summaries(
        {b.key: SessionOverview("codex", parent=a.info.path), c.key: SessionOverview("codex", 9, parent=b.info.path)}
    )
    assert names(listing) == [THIS_PROJECT, "here", OTHER_PROJECTS, "a", "b", "c"]
    assert listing.selected_session is listing._by_key[b.key], "the cursor stays where it was"
    listing.update_summaries({a.key: SessionOverview("codex", parent=c.info.path)})  # nobody belongs to himself
    listing.set_entries([*ENTRIES])
    assert listing.selected_session is listing._by_key[b.key]
    listing.sort(SessionOrder.SIZE)
    assert names(listing) == [THIS_PROJECT, "here", OTHER_PROJECTS, "a", "b", "c"] and listing.session_count == 2
    assert listing._by_key[c.key].summary == SessionOverview("codex", 9, parent=b.info.path)


def test_a_database_is_listed_by_its_sessions() -> None:
    path = SAMPLES / "koda.db"
    found = list_database_sessions(SessionEntry(SessionInfo(str(path), "", time=5), OTHER_PROJECTS, "", "koda"))
    assert len(found) == 3 and all(each.info.id and each.info.title and each.info.time > 5 for each in found)
    gone = SessionEntry(SessionInfo("/nowhere/x.db", "", time=5), OTHER_PROJECTS, "", "koda")
    assert list_database_sessions(gone) == [gone]


async def test_the_picker_is_painted_first_and_lists_what_is_found(tmp_path: Path) -> None:
    odd = tmp_path / "odd.jsonl"
    odd.write_bytes(b"\0\1")
    record = {"type": "user", "uuid": "u", "sessionId": "s", "message": {"role": "user", "content": "Good morning."}}
    (tmp_path / "good.jsonl").write_text(json.dumps(record) + "\n")
    database = SessionEntry(SessionInfo(str(SAMPLES / "koda.db"), "", time=5), THIS_PROJECT, "", "koda")
    files = [
        SessionEntry(SessionInfo(str(tmp_path / name), ""), THIS_PROJECT, "", "claude-code")
        for name in ("odd.jsonl", "good.jsonl")
    ]
    app = Shell(PickerScreen([], find=[[*files, database]], now=10))
    async with app.run_test(size=(160, 24)) as pilot:
        await until(pilot, lambda: "Write an importer" in drawn(app) and "Good morning." in drawn(app))
        listing = app.first.listing
        assert [len(listing.items), listing.order] == [5, SessionOrder.AS_FOUND]
        await pilot.press("end", "up" if listing.lines[-1] is not listing._by_key[files[0].key] else "end")
        while listing.selected_session and listing.selected_session.key != files[0].key:
            await pilot.press("up")
        await until(pilot, lambda: "cannot be read" in drawn(app) and "binary data" in drawn(app))
        await pilot.press("o")
        await until(pilot, lambda: "largest first" in drawn(app))
        assert "compactions" in drawn(app) and "model" in drawn(app)


async def test_more_is_looked_for_while_what_was_found_is_listed() -> None:
    gate, first = Event(), [entry("a", 9, 5), entry("b", 8, 7)]

    def find() -> Iterator[list[SessionEntry]]:
        yield first[:1]
        gate.wait(20)
        yield first

    app = Shell(PickerScreen([], find=find(), read_title=lambda info: "", now=10))
    async with app.run_test(size=(120, 24)) as pilot:
        await until(pilot, lambda: "1 session, looking for more" in drawn(app))
        assert app.first.is_finding
        gate.set()
        await until(pilot, lambda: not app.first.is_finding)
        assert names(app.first.listing) == [OTHER_PROJECTS, "a", "b"] and "2 sessions" in drawn(app)


async def test_the_picker_comes_before_the_inspector_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ContextTuiApp, "_start_import", lambda self: None)
    given = [SessionInfo("/s/a.jsonl", "claude-code"), SessionInfo("/s/b.jsonl", "claude-code")]
    app = ContextTuiApp(given)
    async with app.run_test(size=(120, 24)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, PickerScreen) and "2 sessions" in drawn(app))
        await pilot.press("q")
        await until(pilot, lambda: not app.is_running)


async def test_what_is_in_sight_is_read_first_and_what_was_scrolled_past_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read, go = list[str](), Event()
    many = [entry(f"s{number:03}", 1_000 - number, 1) for number in range(300)]

    def look(self: OverviewReader, each: SessionEntry, checkpoint: Callable[[], object]) -> SessionOverview:
        read.append(each.name)
        while not go.wait(0.01):
            checkpoint()
        return SessionOverview("claude-code", 7)

    monkeypatch.setattr(OverviewReader, "read_overview", look)
    app = Shell(PickerScreen(many, read_title=lambda info: "", now=2_000))
    async with app.run_test(size=(120, 24)) as pilot:
        await until(pilot, lambda: read == ["s000"])
        await pilot.press(*["pagedown"] * 5)
        seen = [item.entry.name for item in app.first.rows.get_visible_sessions()]
        await until(pilot, lambda: read[-1] == seen[0])
        go.set()
        await until(pilot, lambda: seen[-1] in read)
        assert seen[0] == "s085" and seen[1:] == sorted(seen[1:]), "the selected one, and then from the top"
        assert read[-len(seen) :] == seen and len(read) <= len(seen) + 6, "of other pages no more than was begun"
