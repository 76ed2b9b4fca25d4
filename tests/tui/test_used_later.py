"""What was dropped beside its later use: the cases, the two sides at the evidence, the bound, keys, and pictures."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from textual.pilot import Pilot

import context_tui as ct
from context_tui.lab.regret.index import TIERS
from context_tui.lab.study import Lab, Study
from context_tui.session.session import Session
from context_tui.tui.app import ContextTuiApp
from context_tui.tui.comparison import PolicyComparison
from context_tui.tui.inspector.screen import InspectorScreen
from context_tui.tui.options import InspectorOptions
from context_tui.tui.reader.detail import Detail
from context_tui.tui.replay import regret_cases
from context_tui.tui.replay.regrets import RegretsScreen
from context_tui.tui.replay.screen import ReplayScreen
from context_tui.tui.replay.texts import FiringsScreen
from context_tui.tui.widgets.styled_text import ClickableLines, Run
from tests.tui.fakes import NASTY, Shell, drawn, footer_fits, until
from tests.tui.inspecting import conversation, inspector, settled, unsafe
from tests.tui.test_replay_comparison import compared
from tests.tui.test_replay_screen import alone

Snap = Callable[..., bool]
WINDOW = 10_000


def turn(number: int, name: str, arguments: dict[str, Any], body: str) -> list[dict[str, Any]]:
    call = {"type": "tool_use", "id": f"u{number}", "name": name, "input": arguments}
    return [
        {"role": "user", "content": f"Step {number}"},
        {"role": "assistant", "content": [{"type": "text", "text": "Looking."}, call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"u{number}", "content": body}]},
        {"role": "assistant", "content": "Seen."},
    ]


def code(name: str, lines: int = 80) -> str:
    return "".join(f'    {name}_value_{line:03} = load_{name}("{line}")\n' for line in range(lines))


EDITED = 'rotate_value_041 = load_rotate("41")'


def talk(filler: int = 0) -> Session:
    """Three files are read; after four turns one is read again, one is edited, and one is spoken of."""
    told = 'The limit is the one that refresh_value_007 = load_refresh("7") has set.'
    found = [
        *turn(0, "Read", {"file_path": "src/token.py"}, code("token")),
        *turn(1, "Read", {"file_path": "src/rotate.py"}, f"{NASTY}\n{'#' * 99}\n" * (filler // 150) + code("rotate")),
        *turn(2, "Read", {"file_path": "src/refresh.py"}, code("refresh")),
        *conversation(4),
        *turn(3, "Read", {"file_path": "src/token.py"}, code("token")),
        *turn(4, "Edit", {"file_path": "src/rotate.py", "old_string": EDITED, "new_string": "rotate = 41"}, "done"),
        {"role": "user", "content": "Which limit?"},
        {"role": "assistant", "content": told},
    ]
    return ct.from_messages(found).with_window(WINDOW)


def study_of(made: PolicyComparison) -> Study:
    assert made.recording is not None and made.selected_lane.result is not None
    made.lab = Lab(made.session, made.recording)
    study = made.lab.study_replay(made.selected_lane.result.replay, made.settings)
    made.selected_lane.result = replace(made.selected_lane.result, study=study)
    return study


@pytest.fixture(scope="module")
def study() -> Study:
    return study_of(compared(session=talk(), keep_recent_turns=1))


def words(lines: list[list[Run]]) -> list[str]:
    return ["".join(text for text, _ in line).rstrip() for line in lines]


# Without a screen


def test_all_cases_and_those_of_one_firing(study: Study) -> None:
    found = regret_cases.select_cases(study)
    assert {case.tier for case in found.cases} == set(TIERS) and len(found.cases) == 3
    assert sorted(found.case_numbers) == list(range(len(study.regret.cases)))
    for call in {firing.call for firing in study.replay.firings}:
        here = regret_cases.select_cases(study, call)
        assert {found.study.replay.firings[here.firing_numbers[n]].call for n in here.case_numbers} <= {call}
    each = [regret_cases.select_cases(study, firing.call).case_numbers for firing in study.replay.firings]
    assert sorted(number for numbers in each for number in numbers) == sorted(found.case_numbers)


def test_both_sides_hold_the_evidence(study: Study) -> None:
    found, facts = regret_cases.select_cases(study), study.replay.session.facts
    content = study.replay.session.content
    for at, case in enumerate(found.cases):
        dropped, used = (regret_cases.find_side(found, at, name) for name in ("dropped", "used"))
        assert dropped.location == (case.message, case.row) and used.location == (case.later, -1)
        assert used.point == case.later and dropped.point == found.get_firing(at)[1].decided == case.dropped
        blocks = [content.blocks(side.location.message) for side in (dropped, used)]
        rows = [list(facts.blocks_of(side.location.message)) for side in (dropped, used)]
        left, right = (here[own.index(side.row)] for here, own, side in zip(blocks, rows, (dropped, used), strict=True))
        assert regret_cases.choose_needle(case, left, "dropped") == case.needle in str(left["content"])
        wanted = "src/token.py" if case.tier == "re-fetch" else case.needle
        assert regret_cases.choose_needle(case, right, "used") == wanted
        assert regret_cases.choose_needle(case, {}, "used") == "", "a message that cannot be read any more"


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({"command": "cat a.py\nls"}, "cat a.py"),
        ({"command": ["bash", "-lc", "rg needle src"]}, "rg needle src"),
        ({"offset": 3, "file_path": "src/a.py"}, "src/a.py"),
        ({"command": "view", "path": "src/a.py"}, "src/a.py"),
        ({"pattern": "needle", "a": "b"}, "needle"),
        ({"n": 1}, ""),
        ("text", ""),
    ],
)
def test_a_call_is_known_by_what_it_asks_for(study: Study, arguments: object, wanted: str) -> None:
    case = next(case for case in study.regret.cases if case.tier == "re-fetch")
    block = {"type": "tool_use", "name": "Any", "input": arguments}
    assert regret_cases.choose_needle(case, block, "used") == wanted


def test_the_bound_stands_beside_what_was_dropped(study: Study) -> None:
    found, replay = regret_cases.select_cases(study), study.replay
    last = len(replay.calls) - 1
    told = words([regret_cases.format_regret_bound(found, last, 200)])[0]
    assert f"at #{replay.calls[last].message}, {study.bound.everything.droppable[last]:,} tokens" in told
    assert f"had dropped {study.regret.tokens_dropped:,}, {study.regret.tokens_used_later:,} of them" in told
    first = replay.firings[0].call
    assert study.bound.everything.dropped[first - 1] == 0 < study.bound.everything.dropped[first]
    assert regret_cases.format_regret_bound(found, last + 1, 200) == [], "there is no such call"
    for width in (200, 100, 60):
        assert len(words([regret_cases.format_regret_bound(found, last, width)])[0]) <= width


def test_the_list_fits_with_the_selected_case_in_sight(study: Study) -> None:
    found = regret_cases.select_cases(study)
    assert [case.is_needed for case in found.cases] == [True, True, False], "what counts comes first"
    for selected in range(3):
        lines = words(regret_cases.format_case_table(found, selected, 80, 2))
        case = found.cases[selected]
        assert len(lines) == 2 and lines[1].startswith(f"▸ {case.tier if case.is_needed else 'named again'}")
        assert all(len(line) <= 80 for line in lines)
    assert len(regret_cases.format_case_table(found, 0, 80, 9)) == 4
    told = words(regret_cases.format_evidence(found, 0, 120))
    assert found.cases[0].tier in told[0] and "later" in told[0] and found.cases[0].evidence[:20] in told[1]


# On screen


def app(session: Session | None = None, **params: Any) -> ContextTuiApp:
    settings = {"defect-microcompact": {"keep_recent_turns": 1, **params}}
    return ContextTuiApp(session or talk(), InspectorOptions(window=WINDOW, settings=settings))


def shell(session: Session | None = None, **params: Any) -> Shell[ReplayScreen]:
    """The replay screen without the inspector."""
    return alone(session or talk(), window=WINDOW, settings={"defect-microcompact": {"keep_recent_turns": 1, **params}})


async def opened(pilot: Pilot[Any], *keys: str) -> RegretsScreen:
    """From the inspector where there is one, all keys in one burst."""
    if isinstance(pilot.app, Shell):
        await until(pilot, lambda: isinstance(pilot.app.screen, ReplayScreen))
        await pilot.press(*keys)
    else:
        await settled(pilot)
        await pilot.press("l", *keys)
    await until(pilot, lambda: isinstance(pilot.app.screen, RegretsScreen))
    screen = pilot.app.screen
    assert isinstance(screen, RegretsScreen)
    await until(pilot, lambda: screen.case_selection is not None)
    await pilot.pause(0.1)
    return screen


def in_sight(detail: Detail) -> list[str]:
    top = detail.scroll_offset.y
    return [line.drawn_text for line in detail._lines[top : top + detail.size.height]]


async def scrolled(pilot: Pilot[Any], detail: Detail, needle: str) -> None:
    """Wait until a text is in sight."""
    await until(pilot, lambda: any(needle in line for line in in_sight(detail)))


async def test_each_case_is_shown_at_its_evidence_on_both_sides() -> None:
    running = shell()
    async with running.run_test(size=(150, 40)) as pilot:
        screen = await opened(pilot, "l")
        tiers = []
        for _ in range(3):
            assert screen.case_selection is not None
            case = screen.case_selection.cases[screen.case_index]
            tiers.append(case.tier)
            left, right = (screen.query_one(f"#regrets-{side}", Detail) for side in ("dropped", "used"))
            await scrolled(pilot, left, case.needle)
            await scrolled(pilot, right, "src/token.py" if case.tier == "re-fetch" else case.needle.split()[0])
            assert left.needle == case.needle and right.needle
            assert list(
                left.find_overlays(next(n for n, line in enumerate(left._lines) if case.needle in line.drawn_text))
            )
            text = drawn(running)
            assert (
                f"{case.tokens:,} tokens" in text
                and f"dropped at #{case.dropped}" in text
                and ("needed later: #" if case.is_needed else "named again: #") in text
            )
            await pilot.press("n")
        assert sorted(tiers) == sorted(TIERS) and screen.case_index == 2, "n stops at the last"
        await pilot.press("escape")
        assert isinstance(running.screen, ReplayScreen)


@pytest.mark.slow
async def test_keys_in_one_burst_before_anything_is_known() -> None:
    running = app()
    async with running.run_test(size=(150, 40)) as pilot:
        await settled(pilot)
        await pilot.press("l", "l", "n", "n", "right", "enter")
        await until(pilot, lambda: isinstance(running.screen, InspectorScreen))
        await settled(pilot)
        view = inspector(running).view
        study = study_of(compared(session=talk(), keep_recent_turns=1))
        case = regret_cases.select_cases(study).cases[2]
        assert view.at == case.later and view.cursor.message == case.later


@pytest.mark.slow
async def test_enter_goes_to_the_dropped_block_as_of_the_firing() -> None:
    running = app()
    async with running.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot, "l")
        assert screen.case_selection is not None
        side = regret_cases.find_side(screen.case_selection, 0, "dropped")
        assert screen.query_one("#regrets-dropped").display and not screen.query_one("#regrets-used").display
        await pilot.press("tab", "tab")
        await pilot.pause()
        assert screen.query_one("#regrets-used").has_focus and not screen.query_one("#regrets-dropped").display
        await pilot.press("tab", "enter")
        await until(pilot, lambda: isinstance(running.screen, InspectorScreen))
        view = inspector(running).view
        assert (view.at, view.cursor) == (side.point, side.location)
        assert view.plan is not None and side.row in view.plan.changes, "the plan there clears it"


@pytest.mark.slow
async def test_from_a_firing_its_cases_from_the_list_all() -> None:
    running = shell(microcompact_ratio=0.3)
    async with running.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, "right_square_bracket", "l")
        assert screen.case_selection is not None
        here, call = list(screen.case_selection.case_numbers), screen.call
        everything = regret_cases.select_cases(screen.case_selection.study)
        expected = regret_cases.select_cases(screen.case_selection.study, screen.comparison.call).case_numbers
        assert here == (list(expected) or list(everything.case_numbers))
        assert (call is None) == (not expected)
        await pilot.press("escape", "t", "l")
        await until(pilot, lambda: isinstance(running.screen, RegretsScreen))
        again = running.screen
        assert isinstance(again, RegretsScreen)
        await until(pilot, lambda: again.case_selection is not None)
        assert again.case_selection is not None and list(again.case_selection.case_numbers) == list(
            everything.case_numbers
        )
        await pilot.press("f")
        assert again.call == everything.get_firing(0)[1].call
        assert list(again.case_selection.case_numbers) == list(
            regret_cases.select_cases(again.case_selection.study, again.call).case_numbers
        )
        await pilot.press("escape")
        assert isinstance(running.screen, FiringsScreen)
        await pilot.press("l", "enter")
        await until(pilot, lambda: bool(running.answers))


async def test_evidence_far_into_a_long_block_is_found_and_nothing_unsafe_is_drawn() -> None:
    running = shell(talk(600_000))
    async with running.run_test(size=(150, 40)) as pilot:
        screen = await opened(pilot, "l")
        assert screen.case_selection is not None
        at = next(n for n, case in enumerate(screen.case_selection.cases) if case.tier == "edit")
        screen._select_case(at)
        left = screen.query_one("#regrets-dropped", Detail)
        await until(pilot, lambda: any(EDITED in line for line in in_sight(left)))
        assert sum(len(line.drawn_text) for line in left._lines) < 300_000, "a part of it is laid out"
        assert not unsafe(drawn(running).replace("\n", ""))


async def test_where_nothing_was_used_later_it_says_so() -> None:
    running = alone(talk(), window=10_000_000)
    async with running.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot, "l", "n", "enter", "f", "tab")
        assert isinstance(running.screen, RegretsScreen) and screen.case_selection is not None
        assert "drops nothing" in drawn(running) and not screen.query_one("#regrets-sides").display


@pytest.mark.slow
async def test_every_size_has_its_parts_and_the_mouse_selects_a_case() -> None:
    running = shell()
    async with running.run_test(size=(100, 32)) as pilot:
        screen = await opened(pilot, "l")
        for size in ((60, 20), (80, 50), (120, 24)):
            await pilot.resize_terminal(*size)
            await pilot.pause(0.1)
            text = drawn(running)
            assert footer_fits(running)
            assert "evidence" in text and "removable" in text and "case 1 of 3" in text, size
            sides = [screen.query_one(f"#regrets-{side}") for side in ("dropped", "used")]
            assert [side.display for side in sides] == [True, size[0] >= 110 or size[1] >= 36], size
            assert all(side.region.height >= 4 and side.region.bottom <= size[1] for side in sides if side.display)
            listed = screen.query_one(ClickableLines)
            await pilot.click(ClickableLines, offset=(10, listed.gutter.top + 3))
            await pilot.click(ClickableLines, offset=(10, listed.gutter.top))
            assert screen.case_index == 2, "the third case, and the head is none"
            await pilot.press("p", "p")


# Pictures


def steps(*keys: str) -> Callable[[Pilot[Any]], Awaitable[None]]:
    async def run(pilot: Pilot[Any]) -> None:
        await opened(pilot, "l")
        await pilot.press(*keys)
        await pilot.pause(0.4)

    return run


@pytest.mark.slow
def test_snapshot_side_by_side(snap_compare: Snap) -> None:
    """160 x 44: the edit; the old text on both sides, highlighted."""
    assert snap_compare(app(), terminal_size=(160, 44), run_before=steps("n"))


@pytest.mark.slow
def test_snapshot_80(snap_compare: Snap) -> None:
    """80 x 24: the file that is read again, the later call alone in sight."""
    assert snap_compare(app(), terminal_size=(80, 24), run_before=steps("right"))
