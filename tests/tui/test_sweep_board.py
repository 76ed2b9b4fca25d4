"""What the sweep screen shows, without a screen: proposals for every policy, the table, the plot, and what is said."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_tui.errors import PlanError
from context_tui.lab.sweep.frontier import ParetoPoint, compute_dominance
from context_tui.lab.sweep.measure import SweepOptions, sweep_session
from context_tui.lab.sweep.results import Sweep, sweep
from context_tui.lab.sweep.rows import SettingCost, SettingDrops, SweepRow, build_row_report
from context_tui.lab.sweep.settings import SweepSetting, build_grid, build_setting
from context_tui.policies.base import Params, Policy
from context_tui.policies.native import AgentSettings
from context_tui.policies.parameters import build_params, get_value, list_parameters_in_context
from context_tui.policies.registry import POLICIES
from context_tui.session.session import Session
from context_tui.tui.screens.replay.comparison import Comparison
from context_tui.tui.screens.sweep import params_with, table, telling
from context_tui.tui.screens.sweep.board import Board, Known, board_of
from context_tui.tui.screens.sweep.grids import PROPOSED, count_of, parts_of, proposal, settings_of
from context_tui.tui.screens.sweep.plot import GUTTER, frame_of, plot, scatter
from context_tui.tui.view import View
from context_tui.tui.widgets.draw import cells
from tests.tui.tuning import sample

MICRO = POLICIES["defect-microcompact"]


@pytest.fixture(scope="module")
def session() -> Session:
    return sample().with_window(60_000)


def of(policy: Policy, **values: Any) -> Params:
    return build_params(policy, values)


def text_of(runs: Any) -> str:
    return "".join(text for text, _ in runs)


# Grids


@pytest.mark.parametrize("name", [name for name, policy in POLICIES.items() if policy.phases])
@pytest.mark.parametrize("calls", [0, 5_000])
def test_what_is_proposed_is_allowed_and_bounded(name: str, calls: int, session: Session) -> None:
    view, policy = View(session, policy=name), POLICIES[name]
    params = of(policy)
    text = proposal(policy, params, list_parameters_in_context(policy, params, view.context, view.runtime_state), calls)
    parts = parts_of(text, policy)
    settings = settings_of(parts, build_setting(policy, params))
    assert settings[0] == build_setting(policy, params), "the current one is the first"
    assert len(settings) <= (PROPOSED if not calls else 100) + 2
    assert len(settings) > 5 or name == "none"
    for each in parts[0].texts:
        assert len(each.partition("=")[2].split(",")) <= 12


@given(turns=st.integers(1, 1_000), tokens=st.integers(0, 1_000_000), ratio=st.floats(0.01, 1.0))
def test_a_proposal_is_around_the_present_setting(turns: int, tokens: int, ratio: float) -> None:
    params = of(MICRO, keep_recent_turns=turns, min_clear_tokens=tokens, microcompact_ratio=round(ratio, 4))
    view = View(SAMPLE)
    text = proposal(MICRO, params, list_parameters_in_context(MICRO, params, view.context, view.runtime_state))
    assert params in [each.params for each in build_grid(MICRO, parts_of(text, MICRO)[0].texts)], text
    assert count_of(parts_of(text, MICRO)) <= PROPOSED


SAMPLE = sample().with_window(60_000)


def test_what_is_set_besides_stays_set(session: Session) -> None:
    policy = POLICIES["koda-microcompact"]
    params = of(policy, compactable_tools=("Read", "my tool"), keep_recent=9)
    view = View(session, policy=policy.name)
    text = proposal(policy, params, list_parameters_in_context(policy, params, view.context, view.runtime_state))
    found = settings_of(parts_of(text, policy), build_setting(policy, params))
    defaults = of(policy)
    assert {get_value(policy, each.params, "compactable_tools") for each in found if each.params != defaults} == {
        ("Read", "my tool")
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("keep_recent_turns=0..3", "at least 1"),
        ("keep_recent_turn=1..3", "did you mean keep_recent_turns"),
        ("keep_recent_turns=5..1", "range is empty"),
        ("min_clear_tokens=0..900:1 keep_recent_turns=1..100", "at most 20,000"),
        ("defect-compat", "did you mean defect-compact"),
        ('min_clear_tokens="1', "quote is not closed"),
    ],
)
def test_a_line_that_means_nothing_is_told_in_one_line(text: str, words: str) -> None:
    with pytest.raises(PlanError, match=words) as error:
        settings_of(parts_of(text, MICRO), build_setting(MICRO, of(MICRO)))
    assert "\n" not in str(error.value)


def test_a_name_begins_the_grid_of_another_policy() -> None:
    parts = parts_of("keep_recent_turns=1..2 defect-compact compact_ratio=0.7,0.8", MICRO)
    names = [each.name for each in settings_of(parts, build_setting(MICRO, of(MICRO)))]
    assert names == [
        "defect-microcompact",
        "defect-microcompact keep_recent_turns=1",
        "defect-microcompact keep_recent_turns=2",
        "defect-compact",
        "defect-compact compact_ratio=0.7",
        "defect-compact compact_ratio=0.8",
    ]


# The board


def board(session: Session, grid_: str = "", **values: Any) -> Board:
    """All settings of a grid, measured."""
    comparison = Comparison(View(session, params={"defect-microcompact": values}))
    made = board_of(comparison)
    if grid_:
        made.regrid(grid_)
    made.take(sweep_session(session, made.missing, SweepOptions(), name=session.info.path))
    return made


def test_the_rows_are_those_of_the_python_interface(session: Session) -> None:
    values = {"keep_recent_turns": "1..4", "min_clear_tokens": "100,512,2000"}
    made = board(session, " ".join(f"{key}={text}" for key, text in values.items()))
    there = sweep([session], {"defect-microcompact": values})
    assert [build_row_report(row) for row in made.made.sorted_rows] == [
        build_row_report(row) for row in there.sorted_rows
    ]
    assert made.standing.frontier == there.dominance.frontier and made.standing.best == there.dominance.best


def test_another_grid_keeps_what_is_known(session: Session) -> None:
    made = board(session, "keep_recent_turns=1..3")
    known = made.known
    assert known is not None
    made.regrid("keep_recent_turns=2..5")
    assert [each.name for each in made.missing] == [f"defect-microcompact keep_recent_turns={n}" for n in (4, 5)]
    assert made.done == 2 and len(known.rows) == 3, "the default and 2 turns are listed, 1 turn is kept"


def row(name: SweepSetting, saved: int, regret: int, *, cost: float | None = None, session: str = "s") -> SweepRow:
    price = SettingCost(100 - cost, 100, "USD") if cost is not None else None
    lost = SettingDrops(3, regret + 5, 1, regret, {})
    return SweepRow(
        session,
        "p",
        name.name,
        name.policy.name,
        name.param_values,
        9,
        2,
        900,
        saved,
        50_000 + saved,
        0,
        1_000,
        lost,
        price,
    )


def made_up(*points: tuple[int, int, float | None]) -> Board:
    """A board of settings that save so many tokens, regret so many, and save so much money; the default is current."""
    settings = [build_setting(MICRO, of(MICRO, keep_recent_turns=3 + number)) for number in range(len(points))]
    rows = [row(each, saved, regret, cost=cost) for each, (saved, regret, cost) in zip(settings, points, strict=True)]
    known = Known(SAMPLE, SweepOptions(), {each.setting: each for each in rows})
    made = Board(Sweep(settings, [], current=settings[0].name), known, text="keep_recent_turns=3..9")
    made.take(())
    return made


def test_orders_and_the_cursor_that_stays_on_its_setting() -> None:
    made = made_up((10, 5, 3.0), (30, 9, 1.0), (20, 2, 2.0))

    def turns() -> list[int]:
        return [get_value(MICRO, made.named[name].params, "keep_recent_turns") for name in made.listed]

    assert turns() == [4, 5, 3] and made.cursor == made.made.current and made.at == 2
    made.sort(1)
    assert made.order == "used later" and turns() == [5, 3, 4] and made.at == 1
    made.sort_by("used later")
    assert turns() == [4, 3, 5]
    assert made.toggle_money() and made.by == "money"
    made.sort_by("saved")
    assert turns() == [3, 5, 4], "what saves most money first"
    made.sort(-1)
    assert made.order == "as given" and turns() == [3, 4, 5]
    made.toggle_best()
    assert turns() == [3, 5], "4 is beaten in money and regret"
    made.go(99)
    assert made.at == 1
    made.point_at(next(name for name in made.named if name.endswith("=4")))
    assert len(made.listed) == 3, "what is pointed at is listed"


def test_money_needs_prices() -> None:
    made = made_up((10, 5, None), (30, 9, None))
    assert not made.toggle_money() and made.by == "tokens"


def test_a_setting_replaces_those_of_its_policies_only() -> None:
    before = {"defect-microcompact": {"keep_recent_turns": 5}, "koda-microcompact": {"keep_recent": 2}}
    assert params_with(before, build_setting(MICRO, of(MICRO))) == {"koda-microcompact": {"keep_recent": 2}}
    chain = POLICIES["chain"]
    one = of(chain, options={"defect-microcompact": {"min_clear_tokens": 7}})
    assert params_with(before, build_setting(chain, one)) == {
        "koda-microcompact": {"keep_recent": 2},
        "defect-microcompact": {"min_clear_tokens": 7},
    }


# The table


@given(width=st.integers(58, 220), full=st.booleans())
def test_lines_are_as_wide_as_the_table(width: int, full: bool) -> None:
    big = 40_000_000 if full else 10
    made = made_up((10, 5, 3.0), (big, 9, -1_000.0), (-20, 2, 0.01))
    layout = table.layout(made, width)
    lines = [table.head(made, layout, width), *(table.line(made, layout, name, width) for name in made.listed)]
    assert {cells(line) for line in lines} == {width}
    assert "saved" in text_of(lines[0]) and "used later" in text_of(lines[0])
    numbers = [text_of(line) for line in lines[1:]]
    assert all("…" not in line for line in numbers), numbers


def test_the_signs_the_numbers_and_what_beats_a_setting() -> None:
    made = made_up((10, 5, 3.0), (30, 9, 1.0), (20, 2, 2.0))
    layout = table.layout(made, 160)
    first, second, third = (text_of(table.line(made, layout, name, 160)) for name in made.listed)
    assert first.startswith(" * 4") and second.startswith(" * 5") and third.startswith(">  3")
    assert "3.0 %" in first and "−$1.00" in first and "50,030" in first
    assert third.rstrip().endswith("5"), "5 turns beat 3"
    assert layout.order_at(4) == "as given" and "used later" in {layout.order_at(x) for x in range(160)}


# The plot

POINTS = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=3),
    st.builds(ParetoPoint, st.integers(-1_000, 100_000), st.integers(0, 50_000)),
    min_size=1,
    max_size=40,
)


@given(points=POINTS, width=st.integers(8, 120), height=st.integers(2, 40))
def test_every_point_is_in_the_frame_and_the_best_are_on_the_upper_left(
    points: dict[str, ParetoPoint], width: int, height: int
) -> None:
    found = compute_dominance(points)
    made = scatter(points, found.frontier, next(iter(points)), width, height)
    for point in points.values():
        x, y = made.frame.cell(point)
        assert 0 <= x < width and 0 <= y < height
    cursor = min(points)
    lines = plot(made, next(iter(points)), cursor, str)
    assert len(lines) == height + 1 and {cells(line) for line in lines} == {GUTTER + width}
    column, line = made.frame.cell(points[cursor])
    assert text_of(lines[line])[GUTTER + column] == "◆"
    here = [made.frame.cell(points[name]) for name in found.frontier]
    assert here == sorted(here, key=lambda cell: (cell[0], -cell[1])), "from the lower left to the upper right"


@given(points=POINTS, data=st.data())
def test_the_nearest_point_to_its_own_cell_is_one_of_that_cell(
    points: dict[str, ParetoPoint], data: st.DataObject
) -> None:
    made = scatter(points, compute_dominance(points).frontier, "", 60, 20)
    name = data.draw(st.sampled_from(sorted(points)))
    cell = made.frame.cell(points[name])
    found = made.nearest(*cell)
    assert found is not None and made.frame.cell(points[found]) == cell


def test_signs_and_steps() -> None:
    points = {"now": ParetoPoint(10, 5), "a": ParetoPoint(10, 0), "b": ParetoPoint(20, 10), "bad": ParetoPoint(0, 10)}
    made = scatter(points, compute_dominance(points, "now").frontier, "now", 11, 5)
    lines = [text_of(line)[GUTTER:] for line in plot(made, "now", "bad", str)]
    assert lines == [
        "          *",
        "          │",
        "*────>────┘",
        "           ",
        "┈┈┈┈┈┈┈┈┈┈◆",
        "0 ───── 10 ",
    ]


def test_a_frame_of_nothing_and_of_one_point() -> None:
    assert frame_of([], 10, 5).cell(ParetoPoint(0, 0)) == (0, 4)
    assert frame_of([ParetoPoint(0, 0)], 10, 5).cell(ParetoPoint(0, 0)) == (0, 4)
    assert frame_of([ParetoPoint(-5, 3)], 10, 5).cell(ParetoPoint(-5, 3)) == (9, 4)


# What is said


def said(made: Board, width: int = 160) -> str:
    return "\n".join(text_of(line) for line in telling.words(made, width))


def test_the_setting_under_the_cursor_is_explained() -> None:
    made = made_up((10, 5, 3.0), (30, 9, 1.0), (20, 2, 2.0))
    assert "beaten by 5" in said(made) and "saves 10 more and has 3 less used later" in said(made)
    assert "the current setting" in said(made)
    made.go(1)
    text = said(made)
    assert "nothing beats it" in text and "+10 saved, −3 used later, +$1.00 cost" in text
    assert "keep_recent_turns 3 → 5" in text
    assert "microcompact_ratio = 0.6" in text and "nothing sets: keep_recent_turns" in text


@given(width=st.integers(58, 200))
def test_what_is_said_fits(width: int) -> None:
    made = made_up((10, 5, 3.0), (30_000_000, 9, 1.0), (20, 2, 2.0))
    for number in range(3):
        made.go(number)
        for line in (
            *telling.words(made, width),
            telling.header(made, width),
            telling.status(made, "", False, width),
            telling.status(made, "wrong " * 60, False, width),
            telling.legend(made, width),
        ):
            assert cells(line) <= width, text_of(line)


def test_the_configuration_is_copied_with_its_file_and_notes() -> None:
    made = made_up((10, 5, 3.0))
    auto = POLICIES["claude-code-auto"]
    text = telling.native_text(made, build_setting(auto, of(auto, trigger_reserve=50_000)))
    assert "# ~/.claude/settings.json" in text and "\nautoCompactWindow = " in text and "reported to ignore it" in text
    micro = POLICIES["claude-code-micro"]
    assert telling.native_text(made, build_setting(micro, of(micro))) == ""
    assert isinstance(telling.native_of(made, build_setting(micro, of(micro))), AgentSettings)


def test_projects_and_sessions_of_a_sweep_over_many() -> None:
    settings = build_grid(MICRO, ["keep_recent_turns=2..3"])
    two, three = settings
    rows = [row(two, 10, 0, session="a"), row(two, 50, 7, session="b"), row(three, 5, 0, session="a")]
    made = Board(Sweep(settings, [*rows, row(three, 5, 9, session="b")], current=three.name), command="x")
    assert not made.is_live and not made.missing and made.listed[0] == two.name
    assert telling.best_in_projects(made) == [("p", "keep_recent_turns=2", "60")]
    from context_tui.tui.screens.sweep.sessions import lines, ordered

    found = ordered([each for each in rows if each.setting == two.name], "used later")
    assert [each.session for each, _ in found] == ["b", "a"]
    assert {cells(line) for line in lines(made, found, "used later", 90)} == {90}
