"""What the sweep screen shows, without a screen: proposals for every policy, the table, the plot, and what is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_tui.errors import PlanError
from context_tui.formats.opening import open_session
from context_tui.lab.replay.result import CompactionHandling
from context_tui.lab.sweep.grids import (
    MAX_PROPOSED,
    SweepSetting,
    build_grid,
    build_setting,
    build_settings,
    count_settings,
    parse_grid,
    propose_grid,
)
from context_tui.lab.sweep.results import Sweep, sweep
from context_tui.lab.sweep.rows import (
    ParetoPoint,
    SettingCost,
    SettingDrops,
    SweepRow,
    build_row_report,
    compute_dominance,
    flatten_row,
    parse_row_report,
)
from context_tui.lab.sweep.session_sweep import SweepOptions, sweep_session
from context_tui.policies.agent_settings import AgentSettings, format_agent_settings
from context_tui.policies.base import Params, Policy
from context_tui.policies.parameter_space import build_params, get_value, list_parameters_in_context
from context_tui.policies.registry import POLICIES
from context_tui.session.session import Session
from context_tui.session.window import Window
from context_tui.tui.comparison import PolicyComparison
from context_tui.tui.sweep import formatting, table
from context_tui.tui.sweep.board import SweepBoard, SweepRowCache, build_board
from context_tui.tui.sweep.plot import GUTTER, PlotPoint, build_frame, build_scatter, draw_plot
from context_tui.tui.sweep.report import build_project_parts, build_report_parts
from context_tui.tui.sweep.screen import merge_params
from context_tui.tui.sweep.sessions import format_session_lines, sort_sessions
from context_tui.tui.view import View
from context_tui.tui.widgets.styled_text import count_cells
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
    text = propose_grid(
        policy, params, list_parameters_in_context(policy, params, view.context, view.runtime_state), calls
    )
    parts = parse_grid(text, policy)
    settings = build_settings(parts, build_setting(policy, params), session.facts)
    assert settings[0] == build_setting(policy, params), "the current one is the first"
    assert len(settings) <= (MAX_PROPOSED if not calls else 100) + 2
    assert len(settings) > 5 or name == "none"
    for each in parts[0].value_texts:
        assert len(each.partition("=")[2].split(",")) <= 12


@given(turns=st.integers(1, 1_000), tokens=st.integers(0, 1_000_000), ratio=st.floats(0.01, 1.0))
def test_a_proposal_is_around_the_present_setting(turns: int, tokens: int, ratio: float) -> None:
    params = of(MICRO, keep_recent_turns=turns, min_clear_tokens=tokens, microcompact_ratio=round(ratio, 4))
    view = View(SAMPLE)
    text = propose_grid(MICRO, params, list_parameters_in_context(MICRO, params, view.context, view.runtime_state))
    assert params in [each.params for each in build_grid(MICRO, parse_grid(text, MICRO)[0].value_texts)], text
    assert count_settings(parse_grid(text, MICRO)) <= MAX_PROPOSED


SAMPLE = sample().with_window(60_000)


def test_what_is_set_besides_stays_set(session: Session) -> None:
    policy = POLICIES["koda-microcompact"]
    params = of(policy, compactable_tools=("Read", "my tool"), keep_recent=9)
    view = View(session, policy=policy.name)
    text = propose_grid(policy, params, list_parameters_in_context(policy, params, view.context, view.runtime_state))
    found = build_settings(parse_grid(text, policy), build_setting(policy, params), SAMPLE.facts)
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
        build_settings(parse_grid(text, MICRO), build_setting(MICRO, of(MICRO)), SAMPLE.facts)
    assert "\n" not in str(error.value)


def test_a_name_begins_the_grid_of_another_policy() -> None:
    parts = parse_grid("keep_recent_turns=1..2 defect-compact compact_ratio=0.7,0.8", MICRO)
    names = [each.name for each in build_settings(parts, build_setting(MICRO, of(MICRO)), SAMPLE.facts)]
    assert names == [
        "defect-microcompact",
        "defect-microcompact keep_recent_turns=1",
        "defect-microcompact keep_recent_turns=2",
        "defect-compact",
        "defect-compact compact_ratio=0.7",
        "defect-compact compact_ratio=0.8",
    ]


# The board


def board(session: Session, grid_: str = "", **values: Any) -> SweepBoard:
    """All settings of a grid, measured."""
    comparison = PolicyComparison(View(session, params={"defect-microcompact": values}))
    made = build_board(comparison)
    if grid_:
        made.set_grid(grid_)
    made.update(sweep_session(session, made.missing_settings, SweepOptions(), name=session.info.path))
    return made


def test_the_rows_are_those_of_the_python_interface(session: Session) -> None:
    values = {"keep_recent_turns": "1..4", "min_clear_tokens": "100,512,2000"}
    made = board(session, " ".join(f"{key}={text}" for key, text in values.items()))
    there = sweep([session], {"defect-microcompact": values})
    assert [build_row_report(row) for row in made.sweep.sorted_rows] == [
        build_row_report(row) for row in there.sorted_rows
    ]
    dominance = made.sweep.dominance
    assert dominance.frontier == there.dominance.frontier and dominance.best == there.dominance.best


def test_another_grid_keeps_what_is_known(session: Session) -> None:
    made = board(session, "keep_recent_turns=1..3")
    known = made.row_cache
    assert known is not None
    made.set_grid("keep_recent_turns=2..5")
    assert [each.name for each in made.missing_settings] == [
        f"defect-microcompact keep_recent_turns={n}" for n in (4, 5)
    ]
    assert len(made.totals) == 2 and len(known.rows) == 3, "the default and 2 turns are listed, 1 turn is kept"


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


def made_up(*points: tuple[int, int, float | None]) -> SweepBoard:
    """A board of settings that save so many tokens, regret so many, and save so much money; the default is current."""
    settings = [build_setting(MICRO, of(MICRO, keep_recent_turns=3 + number)) for number in range(len(points))]
    rows = [row(each, saved, regret, cost=cost) for each, (saved, regret, cost) in zip(settings, points, strict=True)]
    known = SweepRowCache(SAMPLE, SweepOptions(), {each.setting: each for each in rows})
    made = SweepBoard(Sweep(settings, [], current=settings[0].name), known, grid_text="keep_recent_turns=3..9")
    made.update(())
    return made


def test_orders_and_the_cursor_that_stays_on_its_setting() -> None:
    made = made_up((10, 5, 3.0), (30, 9, 1.0), (20, 2, 2.0))

    def turns() -> list[int]:
        return [get_value(MICRO, made.settings_by_name[name].params, "keep_recent_turns") for name in made.listed_names]

    assert turns() == [4, 5, 3] and made.cursor == made.sweep.current and made.cursor_index == 2
    made.cycle_order(1)
    assert made.order == "needed later" and turns() == [5, 3, 4] and made.cursor_index == 1
    made.set_order("needed later")
    assert turns() == [4, 3, 5]
    assert made.toggle_saving_unit() and made.saving_unit == "money"
    made.set_order("saved")
    assert turns() == [3, 5, 4], "what saves most money first"
    made.cycle_order(-1)
    assert made.order == "as given" and turns() == [3, 4, 5]
    made.toggle_only_best()
    assert turns() == [3, 5], "4 is beaten in money and regret"
    made.move_to_index(99)
    assert made.cursor_index == 1
    made.move_to_setting(next(name for name in made.settings_by_name if name.endswith("=4")))
    assert len(made.listed_names) == 3, "what is pointed at is listed"


def test_money_needs_prices() -> None:
    made = made_up((10, 5, None), (30, 9, None))
    assert not made.toggle_saving_unit() and made.saving_unit == "tokens"


def test_a_setting_replaces_those_of_its_policies_only() -> None:
    before = {"defect-microcompact": {"keep_recent_turns": 5}, "koda-microcompact": {"keep_recent": 2}}
    assert merge_params(before, build_setting(MICRO, of(MICRO))) == {"koda-microcompact": {"keep_recent": 2}}
    chain = POLICIES["chain"]
    one = of(chain, options={"defect-microcompact": {"min_clear_tokens": 7}})
    assert merge_params(before, build_setting(chain, one)) == {
        "koda-microcompact": {"keep_recent": 2},
        "defect-microcompact": {"min_clear_tokens": 7},
    }


# The table


@given(width=st.integers(58, 220), full=st.booleans())
def test_lines_are_as_wide_as_the_table(width: int, full: bool) -> None:
    big = 40_000_000 if full else 10
    made = made_up((10, 5, 3.0), (big, 9, -1_000.0), (-20, 2, 0.01))
    layout = table.compute_layout(made, width)
    lines = [
        table.format_head(made, layout, width),
        *(table.format_setting_line(made, layout, name, width) for name in made.listed_names),
    ]
    assert {count_cells(line) for line in lines} == {width}
    assert "tokens" in text_of(lines[0]) and "needed later" in text_of(lines[0])
    numbers = [text_of(line) for line in lines[1:]]
    assert all("…" not in line for line in numbers), numbers


def test_the_signs_the_numbers_and_what_beats_a_setting() -> None:
    made = made_up((10, 5, 3.0), (30, 9, 1.0), (20, 2, 2.0))
    layout = table.compute_layout(made, 160)
    first, second, third = (text_of(table.format_setting_line(made, layout, name, 160)) for name in made.listed_names)
    assert first.startswith(" * 4") and second.startswith(" * 5") and third.startswith(">  3")
    assert "3.0 %" in first and "saves $1.00" in first and "50,030" in first
    assert third.rstrip().endswith("5"), "5 turns beat 3"
    assert layout.find_order(4) == "as given" and "needed later" in {layout.find_order(x) for x in range(160)}


def placed(points: dict[str, ParetoPoint]) -> dict[str, PlotPoint]:
    return {name: PlotPoint(*point) for name, point in points.items()}


# The plot

POINTS = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=3),
    st.builds(ParetoPoint, st.integers(-1_000, 100_000), st.integers(0, 50_000)),
    min_size=1,
    max_size=40,
)


@pytest.mark.slow
@given(points=POINTS, width=st.integers(8, 120), height=st.integers(2, 40))
def test_every_point_is_in_the_frame_and_the_best_are_on_the_upper_left(
    points: dict[str, ParetoPoint], width: int, height: int
) -> None:
    found = compute_dominance(points)
    made = build_scatter(placed(points), found.frontier, next(iter(points)), width, height)
    for point in made.points.values():
        x, y = made.frame.compute_cell(point)
        assert 0 <= x < width and 0 <= y < height
    cursor = min(points)
    lines = draw_plot(made, next(iter(points)), cursor, str, str)
    assert len(lines) == height + 1 and {count_cells(line) for line in lines} == {GUTTER + width}
    column, line = made.frame.compute_cell(made.points[cursor])
    assert text_of(lines[line])[GUTTER + column] == "◆"
    here = [made.frame.compute_cell(made.points[name]) for name in found.frontier]
    assert here == sorted(here, key=lambda cell: (cell[0], -cell[1])), "from the lower left to the upper right"


@given(points=POINTS, data=st.data())
def test_the_nearest_point_to_its_own_cell_is_one_of_that_cell(
    points: dict[str, ParetoPoint], data: st.DataObject
) -> None:
    made = build_scatter(placed(points), compute_dominance(points).frontier, "", 60, 20)
    name = data.draw(st.sampled_from(sorted(points)))
    cell = made.frame.compute_cell(made.points[name])
    found = made.find_nearest(*cell)
    assert found is not None and made.frame.compute_cell(made.points[found]) == cell


def test_signs_and_steps() -> None:
    points = {"now": ParetoPoint(10, 5), "a": ParetoPoint(10, 0), "b": ParetoPoint(20, 10), "bad": ParetoPoint(0, 10)}
    made = build_scatter(placed(points), compute_dominance(points, "now").frontier, "now", 11, 5)
    lines = [text_of(line)[GUTTER:] for line in draw_plot(made, "now", "bad", str, str)]
    assert lines == [
        "          *",
        "          │",
        "*────>────┘",
        "           ",
        "┈┈┈┈┈┈┈┈┈┈◆",
        "0 ───── 10 ",
    ]


def test_a_frame_of_nothing_and_of_one_point() -> None:
    assert build_frame([], 10, 5).compute_cell(PlotPoint(0, 0)) == (0, 4)
    assert build_frame([PlotPoint(0, 0)], 10, 5).compute_cell(PlotPoint(0, 0)) == (0, 4)
    assert build_frame([PlotPoint(-5, 3)], 10, 5).compute_cell(PlotPoint(-5, 3)) == (9, 4)


# What is said


def said(made: SweepBoard, width: int = 160) -> str:
    return "\n".join(text_of(line) for line in formatting.format_setting(made, width))


@pytest.mark.parametrize("recorded, word", [("keep", "kept"), ("ignore", "undone")])
def test_the_heading_and_the_report_say_what_becomes_of_recorded_compactions(
    recorded: CompactionHandling, word: str
) -> None:
    compacted = open_session(Path(__file__).parents[2] / "sample_sessions" / "compacted-session.jsonl")
    comparison = PolicyComparison(View(compacted, policy="defect-microcompact"))
    comparison.settings = replace(comparison.settings, recorded=recorded)
    made = build_board(comparison)
    options = SweepOptions(recorded=recorded)
    made.update(sweep_session(compacted, made.missing_settings, options, name=compacted.info.path))
    for width in (80, 160):
        assert f"recorded compactions {word}" in text_of(formatting.format_header(made, width))
    parts = "\n".join(part.text for part in build_report_parts(made))
    assert f"Recorded compactions {word}: a setting is judged" in parts
    assert "compactions" not in text_of(formatting.format_header(made_up((10, 5, 3.0)), 160))


def test_the_setting_under_the_cursor_is_explained() -> None:
    made = made_up((10, 5, 3.0), (30, 9, 1.0), (20, 2, 2.0))
    assert "dominated by keep_recent_turns=5" in said(made)
    assert "saves 10 tokens more, with 3 fewer needed later" in said(made)
    assert "the current setting" in said(made)
    made.move_to_index(1)
    text = said(made)
    assert "on the Pareto front" in text and "saves 10 tokens, 3 fewer needed later, costs $1.00 more" in text
    assert "keep_recent_turns 3 → 5" in text
    assert "microcompact_ratio = 0.6" in text and "not configurable: keep_recent_turns" in text


@given(width=st.integers(58, 200))
def test_what_is_said_fits(width: int) -> None:
    made = made_up((10, 5, 3.0), (30_000_000, 9, 1.0), (20, 2, 2.0))
    for number in range(3):
        made.move_to_index(number)
        for line in (
            *formatting.format_setting(made, width),
            formatting.format_header(made, width),
            formatting.format_status(made, "", False, width),
            formatting.format_status(made, "wrong " * 60, False, width),
            formatting.format_legend(made, width),
        ):
            assert count_cells(line) <= width, text_of(line)


def test_the_configuration_is_copied_with_its_file_and_notes() -> None:
    made = made_up((10, 5, 3.0))
    auto = POLICIES["claude-code-auto"]
    [(_, native)] = made.list_native(build_setting(auto, of(auto, trigger_reserve=50_000)))
    text = format_agent_settings(native)
    assert "# ~/.claude/settings.json" in text and "\nautoCompactWindow = " in text and "reported to ignore it" in text
    micro = POLICIES["claude-code-micro"]
    [(_, own)] = made.list_native(build_setting(micro, of(micro)))
    assert isinstance(own, AgentSettings) and not own.settings


def test_the_configuration_uses_the_windows_of_the_sessions() -> None:
    codex, known = POLICIES["codex"], Window(258_400, "file", full_tokens=272_000)
    settings = build_grid(codex, ["trigger_share=0.9"])

    def say(*windows: Window) -> str:
        rows = [
            row(settings[0], 5, 1, session=str(number))._replace(window=window) for number, window in enumerate(windows)
        ]
        return said(SweepBoard(Sweep(settings, rows, current=settings[0].name)))

    one = say(known, known)
    assert "model_auto_compact_token_limit = 244800" in one and "context window" not in one
    several = say(Window(200_000, "model"), known, Window(272_000, "model"))
    assert "with a context window of 272,000 (2 of 3 sessions):" in several and "limit = 244800" in several
    assert "with a context window of 200,000 (1 of 3 sessions):" in several and "limit = 180000" in several
    assert "with an assumed context window of 200,000:" in say(Window(200_000, "assumed"))


def test_the_rows_of_a_sweep_state_the_window(session: Session) -> None:
    (first,) = sweep_session(session, [build_setting(MICRO, of(MICRO))])
    assert build_row_report(first)["window"] == {"tokens": 60_000, "source": "given", "full_tokens": None}
    assert parse_row_report(build_row_report(first)) == first and flatten_row(first)["window"] == 60_000


def test_a_session_priced_in_tokens_has_no_dollars() -> None:
    setting = build_setting(MICRO, of(MICRO))
    rows = [row(setting, 10, 0, cost=3.0, session=each) for each in ("a", "b")]
    rows.append(row(setting, 9, 0, session="c")._replace(cost=SettingCost(1_000, 2_974_315.6, "input tokens")))
    made = SweepBoard(Sweep([setting], [*rows, row(setting, 7, 0, session="d")], current=setting.name))
    lines = [
        text_of(line) for line in format_session_lines(made, sort_sessions(made.sweep.rows, "saved"), "saved", 160)
    ]
    assert made.sweep.cost_unit == "USD" and "saves $3.00" in lines[1] and "saves $3.00" in lines[2]
    assert "saves 2,973,316 input tokens" in lines[3] and "$" not in lines[3]
    assert "no price" in lines[4]


def test_sessions_without_a_price_are_counted() -> None:
    made = made_up((0, 0, 0.0), (50, 10, -1.0))
    assert "no price" not in said(made)
    rows = [
        *made.sweep.rows,
        *(each._replace(session="t", cost=SettingCost(1, 1, "input tokens"), without=1) for each in made.sweep.rows),
    ]
    assert "costs of 1 of 2 sessions; 1 has no price" in said(SweepBoard(replace(made.sweep, rows=rows)))


def test_a_change_is_from_what_the_recording_version_had() -> None:
    policy = POLICIES["claude-code-auto"]
    unset, *grid = [build_setting(policy, of(policy)), *build_grid(policy, ["trigger_reserve=33000,60000"])]
    rows = [row(each, 10, 0) for each in grid]
    rows.append(row(unset, 5, 0)._replace(params={**unset.param_values, "trigger_reserve": 45_000}))
    made = SweepBoard(Sweep([unset, *grid], rows, current=unset.name))
    assert "the current setting" in said(made)
    for each, value in zip(grid, ("33,000", "60,000"), strict=True):
        made.move_to_setting(each.name)
        assert f"trigger_reserve 45,000 → {value}" in said(made)


def test_the_defaults_of_the_recording_version_are_listed_once() -> None:
    session = sample()
    session.facts.agent_version = (2, 1, 17)
    made = build_board(PolicyComparison(View(session, policy="claude-code-auto")))
    made.update(sweep_session(session, made.missing_settings))
    params = [str(row.params) for row in made.sweep.rows]
    assert len(params) == len({*params}) > 3
    assert said(made).startswith("> trigger_reserve=45000 keep_messages=0 (default)")
    labels = [made.format_label(name) for name in made.listed_names]
    assert "defaults" not in " ".join(labels) and sum("45000 keep_messages=0" in label for label in labels) == 1
    made.set_grid("trigger_reserve=33000,60000")
    assert [made.format_label(each.name) for each in made.sweep.settings] == [
        "trigger_reserve=45000 keep_messages=0 (default)",
        "trigger_reserve=33000",
        "trigger_reserve=60000",
    ]


def test_projects_and_sessions_of_a_sweep_over_many() -> None:
    settings = build_grid(MICRO, ["keep_recent_turns=2..3"])
    two, three = settings
    rows = [row(two, 10, 0, session="a"), row(two, 50, 7, session="b"), row(three, 5, 0, session="a")]
    made = SweepBoard(Sweep(settings, [*rows, row(three, 5, 9, session="b")], current=three.name))
    assert not made.is_live and not made.missing_settings and made.listed_names[0] == two.name
    assert [part.text for part in build_project_parts(made)][1:] == ["p", "   keep_recent_turns=2: saves 60 tokens", ""]
    found = sort_sessions([each for each in rows if each.setting == two.name], "needed later")
    assert [each.session for each, _ in found] == ["b", "a"]
    assert {count_cells(line) for line in format_session_lines(made, found, "needed later", 90)} == {90}
