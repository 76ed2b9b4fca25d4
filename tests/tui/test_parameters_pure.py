"""The pure parts of the parameter panel: scales, steps, typed values, tracks, controls, words."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_tui.cli import main
from context_tui.policies.base import find_nested_field
from context_tui.policies.parameter_space import build_params, get_value, list_parameters_in_context
from context_tui.policies.parameters import Parameter
from context_tui.policies.planning import plan
from context_tui.policies.registry import POLICIES
from context_tui.policies.runtime_state import build_runtime_state
from context_tui.policies.scales import Scale, build_scale, format_number, parse_number
from context_tui.session.facts import Compaction
from context_tui.tokens.breakdown import RERUNNABLE_TOOLS
from context_tui.tokens.context_index import index_context
from context_tui.tui.inspector.curve import compute_bar_heights, draw_curve
from context_tui.tui.inspector.outcome import (
    Paragraph,
    PlanOutcome,
    compute_outcome,
    format_difference_variants,
    format_effect,
    format_result_variants,
    format_trigger_variants,
)
from context_tui.tui.inspector.parameters import fit_paragraphs
from context_tui.tui.terminal.cells import shorten, shorten_at_word, shorten_path, to_ascii
from context_tui.tui.view import View
from context_tui.tui.widgets.parameter_lines import (
    build_parameter_details,
    draw_track,
    find_knob_cell,
    find_value_at_cell,
    fit_parameter_columns,
    format_entries,
    format_parameter_row,
)
from context_tui.tui.widgets.styled_text import (
    Run,
    clip_runs,
    count_cells,
    format_bar,
    justify_runs,
    pad_runs,
    wrap_parts,
)
from tests.sizes import build_request
from tests.tui.inspecting import session
from tests.tui.tuning import sample

UNITS = ("tokens", "bytes", "seconds", "turns", "results", "%")


@st.composite
def scales(draw: st.DrawFn) -> tuple[Scale, int | None]:
    """A scale of whole numbers with its default."""
    low = draw(st.integers(0, 10))
    high = draw(st.integers(low + 1, 10_000_000))
    default = draw(st.none() | st.integers(low, high))
    unit = draw(st.sampled_from(UNITS))
    return build_scale(low, high, default, draw(st.integers(0, 10_000_000)), unit), default


@given(scales(), st.data())
def test_steps_move_and_come_to_an_end(given: tuple[Scale, int | None], data: st.DataObject) -> None:
    scale, _ = given
    value = data.draw(st.integers(int(scale.low), int(scale.high)))
    steps = data.draw(st.sampled_from((1, -1, 10, -10)))
    after = scale.step_value(value, steps)
    assert scale.low <= after <= scale.high and isinstance(after, int)
    if steps > 0:
        assert after <= max(value, scale.track_end) and (after > value or value >= scale.track_end)
    else:
        assert after < value or value == scale.low
    while scale.round_values and value < scale.track_end:
        value = int(scale.step_value(value, 10))
    assert not scale.round_values or value >= scale.track_end


@given(scales(), st.data(), st.integers(0, 60))
def test_a_track_has_its_width_and_one_knob(given: tuple[Scale, int | None], data: st.DataObject, width: int) -> None:
    scale, default = given
    value = data.draw(st.integers(int(scale.low), int(scale.high)))
    drawn = "".join(text for text, _ in draw_track(scale, value, default, width, ""))
    assert len(drawn) == width and drawn.count("●") == min(width, 1)
    if width >= 3:
        assert drawn[find_knob_cell(scale, value, width)] == "●"


@given(scales(), st.integers(3, 60), st.data())
def test_a_click_sets_what_is_under_it(given: tuple[Scale, int | None], width: int, data: st.DataObject) -> None:
    scale, _ = given
    cell = data.draw(st.integers(-3, width + 3))
    value = find_value_at_cell(scale, cell, width)
    assert scale.low <= value <= scale.high
    if not scale.log and 1 <= cell < width - 1 and scale.track_end - scale.low >= width:
        assert abs(find_knob_cell(scale, value, width) - cell) <= 1


@given(scales(), st.integers(2, 60))
def test_curve_values_ascend_and_are_allowed(given: tuple[Scale, int | None], count: int) -> None:
    scale, _ = given
    values = scale.sample_values(count)
    assert 1 <= len(values) <= count and values == sorted(set(values))
    assert all(scale.low <= value <= scale.high for value in values)


def test_token_steps_are_round_and_meet_the_default() -> None:
    scale = build_scale(0, 1_000_000, 512, 6_000, "tokens")
    assert [scale.step_value(512, steps) for steps in (1, 2, -1, -2)] == [768, 1_024, 384, 256]
    budget = build_scale(1, 10_000_000, 160_000, 1_000_000, "tokens")
    assert [budget.step_value(160_000, steps) for steps in (1, 2, -1, 10)] == [200_000, 300_000, 150_000, 1_000_000]
    assert budget.step_value(155_555, 1) == 160_000


def test_a_slider_ends_where_nothing_changes_and_what_is_beyond_can_be_typed() -> None:
    turns = build_scale(1, 1_000, 3, 10, "turns")
    assert turns.track_end == 10 and turns.step_value(10, 1) == 10 and turns.step_value(4, 10) == 10
    assert turns.step_value(500, 1) == 500 and turns.step_value(500, -1) == 499, "typed"
    assert turns.sample_values(60) == list(range(1, 11))
    assert build_scale(1, 1_000, 3, 1, "turns").track_end == 3, "the default has a place"
    assert build_scale(0, 100, 70, 100, "%").track_end == 100
    results = build_scale(0, 1_000_000, 512, 6_000, "tokens")
    assert results.track_end == 6_144 and results.step_value(6_144, 1) == 6_144


def test_sliders_end_where_nothing_changes_in_this_context() -> None:
    session = sample(10, 3)
    context = session.context_at()
    state = build_runtime_state(context, session.window, len(session))
    ends = {
        each.name: each.scale.track_end
        for policy in POLICIES.values()
        for each in list_parameters_in_context(policy, policy.Params(), context, state)
        if each.scale is not None
    }
    turns = len(index_context(context).turn_starts)
    assert turns > 3 and ends["keep_recent_turns"] == turns
    results, koda = index_context(context).results, RERUNNABLE_TOOLS
    of_tools = [index_context(context).tool_of_call[context.facts.call[block]] in koda for block in results.block]
    assert ends["keep_recent"] == sum(of_tools) < len(results.block), "koda clears only what these tools gave"
    assert ends["cut"] == len(session)
    assert ends["preserve_tail"] == ends["min_keep"] == len(context)
    assert ends["context_budget"] == ends["threshold"] == session.window.tokens
    assert ends["threshold_pct"] == 100 and ends["microcompact_ratio"] == 1.0
    assert ends["summary_max_tokens"] == 100_000
    policy = POLICIES["defect-microcompact"]
    beyond = [
        policy.plan(context, build_params(policy, {"keep_recent_turns": value}), state)
        for value in (turns, turns + 1, 500)
    ]
    assert len({plan.tokens_after for plan in beyond}) == 1


def test_the_default_in_a_recording_is_that_of_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    session = sample(3, 1)
    session.facts.agent_version = (2, 1, 17)
    context, policy = session.context_at(), POLICIES["claude-code-auto"]
    parameters = list_parameters_in_context(
        policy, policy.Params(), context, build_runtime_state(context, session.window, len(session))
    )
    defaults = {each.name: each.default for each in parameters}
    assert (defaults["trigger_reserve"], defaults["keep_messages"]) == (45_000, 0)
    assert any("default 45,000" in each.format_range() for each in parameters)
    main(["policies", "claude-code-auto"])
    words = " ".join(capsys.readouterr().out.split())
    assert "trigger_reserve 33000 in the newest version" in words and "summary_max_tokens 20000 1 to" in words


@pytest.mark.parametrize("policy", [name for name, policy in POLICIES.items() if not find_nested_field(policy)])
@pytest.mark.parametrize(("turns", "steps"), [(10, 3), (1, 2), (3, 9)])
def test_beyond_its_slider_no_parameter_changes_anything(policy: str, turns: int, steps: int) -> None:
    session, chosen = sample(turns, steps, compact=False), POLICIES[policy]
    context = session.context_at()
    state = build_runtime_state(context, session.window, len(session), forced=True)
    for each in list_parameters_in_context(chosen, chosen.Params(), context, state):
        if each.scale is None:
            continue
        params = [chosen.Params(**{each.name: min(value, each.scale.high)}) for value in _beyond(each.scale.track_end)]
        plans = [chosen.plan(context, param, state) for param in params]
        assert len({(made.tokens_after, made.trigger.fires) for made in plans}) == 1, each.name


def _beyond(reach: float) -> list[float]:
    return [reach, reach + 1, reach * 2, reach * 100]


def test_counts_step_by_one_and_ratios_by_a_hundredth() -> None:
    assert build_scale(1, 1_000, 3, 37, "turns").step_value(3, 1) == 4
    ratio = build_scale(0.01, 1.0, 0.6, 0, "of window")
    assert (
        ratio.step_value(0.6, 1) == 0.61 and ratio.step_value(0.6, -10) == 0.5 and ratio.step_value(0.05, -10) == 0.01
    )


@given(st.integers(0, 10_000_000))
def test_a_shown_number_can_be_typed_back(value: int) -> None:
    assert parse_number(format_number(value), 0, 10_000_000) == value
    assert parse_number(format_number(value / 10_000_000), 0.0, 1.0) == round(value / 10_000_000, 4)


@given(st.text(max_size=12))
def test_any_text_gives_an_allowed_value_or_words(text: str) -> None:
    try:
        value = parse_number(text, 1, 1_000)
    except ValueError as problem:
        assert str(problem).startswith(("it must be", f"{text!r} is not a number"))
    else:
        assert value is not None and 1 <= value <= 1_000


@pytest.mark.parametrize(
    ("text", "value"), [("1_500", 1_500), ("1.5k", 1_500), ("2M", 2_000_000), ("none", None), (" 7 ", 7)]
)
def test_typed_values(text: str, value: int | None) -> None:
    assert parse_number(text, 0, 10_000_000, optional=True) == value


@pytest.mark.parametrize(
    ("text", "words"),
    [("0", "at least 1"), ("1001", "at most 1,000"), ("2.5", "whole"), ("1e999", "not a number"), ("nan", "not a")],
)
def test_what_is_wrong_is_said_in_words(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_number(text, 1, 1_000)


def test_a_percentage_is_a_ratio_where_one_is_wanted() -> None:
    assert parse_number("60%", 0.01, 1.0) == 0.6
    assert parse_number("60%", 0, 100) == 60


RUNS = st.lists(st.tuples(st.text(st.sampled_from("ab 漢字é…→"), max_size=9), st.just("")), max_size=6)


@given(RUNS, st.integers(0, 40))
def test_lines_have_the_width_that_was_asked_for(runs: list[Run], width: int) -> None:
    assert count_cells(clip_runs(runs, width)) <= width
    assert count_cells(pad_runs(runs, width)) == width
    assert count_cells(justify_runs([(n, run) for n, run in enumerate(runs)], [("end", "")], width)) <= width
    text = "".join(text for text, _ in runs)
    assert (
        count_cells([(shorten(text, width), "")]) <= width and count_cells([(shorten_path(text, width), "")]) <= width
    )


@given(st.lists(RUNS, max_size=4), st.integers(4, 40))
def test_flowing_text_keeps_its_words(parts: list[list[Run]], width: int) -> None:
    lines = wrap_parts(parts, width)
    assert all(count_cells(line) <= width for line in lines)
    lines = wrap_parts([[("ab", ""), (" cd ef ", ""), ("gh", "")]], width)
    assert "\n".join("".join(text for text, _ in line) for line in lines).split() == ["ab", "cd", "ef", "gh"]


@given(st.floats(0, 1), st.integers(0, 30))
def test_a_bar_shows_what_is_there(share: float, width: int) -> None:
    full, rest = format_bar(share, width)
    assert len(full) + len(rest) == width and (bool(full) == (share > 0) or not width)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_setting_of_every_policy_has_a_control(policy: str) -> None:
    session = sample()
    context = session.context_at()
    params = build_params(POLICIES[policy], {})
    controls = list_parameters_in_context(
        POLICIES[policy], params, context, build_runtime_state(context, session.window, len(session))
    )
    names = {control.name for control in controls}
    if policy == "chain":
        assert {"policies", "defect-microcompact.min_clear_tokens", "defect-compact.threshold"} <= names
    else:
        assert names == set(type(params).model_fields)
    values = {control.name: get_value(POLICIES[policy], params, control.name) for control in controls}
    for control in controls:
        value = values[control.name]
        assert value == control.default or policy == "chain"
        for width in (20, 40, 90):
            drawn = format_parameter_row(
                control, value, fit_parameter_columns(controls, values, width), width, True, None
            )
            assert count_cells(drawn) == width


def test_what_is_not_set_shows_what_is_derived() -> None:
    session = sample()
    context = session.context_at()
    state = build_runtime_state(context, session.window, len(session))
    control = list_parameters_in_context(
        POLICIES["defect-compact"], build_params(POLICIES["defect-compact"], {}), context, state
    )[0]
    assert (control.name, control.default, control.implied_value, control.get_effective_value(None)) == (
        "threshold",
        None,
        170_000,
        170_000,
    )


def test_a_chain_reads_the_settings_of_its_policies() -> None:
    params = build_params(POLICIES["chain"], {"defect-microcompact.min_clear_tokens": 99})
    assert get_value(POLICIES["chain"], params, "defect-microcompact.min_clear_tokens") == 99
    assert get_value(POLICIES["chain"], params, "defect-compact.compact_ratio") == 0.85


def test_tools_are_listed_with_their_tokens_largest_first() -> None:
    session = sample()
    context = session.context_at()
    state = build_runtime_state(context, session.window, len(session))
    controls = list_parameters_in_context(
        POLICIES["koda-microcompact"], build_params(POLICIES["koda-microcompact"], {}), context, state
    )
    tools = next(control for control in controls if control.kind == "list")
    assert [int(entry.note.replace(",", "")) for entry in tools.entries] == [15_367, 6_943, 4_981, 2_355, 1_270]
    lines, spots = format_entries(tools, tools.default, 30, 2)
    assert all(count_cells(line) <= 30 for line in lines) and len(spots) == 5
    assert [spot.line for spot in spots] == sorted(spot.line for spot in spots)


def outcome(results: int = 14, cut: int = 0, after: int = 79_876, fires: bool = True) -> PlanOutcome:
    """The outcome of the picture."""
    request = build_request(118_000, 900, 118_900 - after, summary_pending=bool(cut))
    return PlanOutcome({"clears": results} if results else {}, 61, cut, 100, request, fires)


def test_each_thing_that_is_done_to_results_is_counted() -> None:
    made = plan(sample(), "chain", policies=("defect-microcompact", "agent-sdk-prune"))
    assert {edit.action for edit in made.edits} == {"clear", "truncate"}
    assert format_effect(compute_outcome(made)) == "clears 9 and truncates 5 of 29 results"


def text(parts: Paragraph) -> str:
    """Parts as they read."""
    return "   ".join("".join(text for text, _ in part) for part in parts).replace("\u00a0", " ")


def test_the_result_reads_as_in_the_picture() -> None:
    words = "clears 14 of 61 results   next request ~118,900 → ~79,876   (−39,024, −33 %)"
    assert text(format_result_variants(outcome())[0]) == words
    shorter = "clears 14 of 61 results   next request ~118,900 → ~79,876 (−33 %)"
    assert text(format_result_variants(outcome())[1]) == shorter
    assert text(format_result_variants(outcome())[2]) == "clears 14 of 61 results   next ~119k → ~79.9k (−33 %)"
    summarised = "summarises 88 of 100 messages   next request ~118,900 → ~79,876 + summary"
    assert summarised in text(format_result_variants(outcome(0, 88))[0])
    recorded = PlanOutcome({"clears": 1}, 1, 0, 2, build_request(5_000, 0, -40), True)
    assert (
        text(format_result_variants(recorded)[0]) == "clears 1 of 1 result   next request 5,000 → ~5,040   (+40, +1 %)"
    )
    assert text(format_result_variants(outcome(0))[0]) == "changes nothing: no reason given"
    why = replace(outcome(0), reason="nothing to clear: only 2 turns")
    assert text(format_result_variants(why)[0]) == "nothing to clear: only 2 turns"
    by_hand = text(format_result_variants(replace(why, reason="nothing is marked"), by_hand=True)[0])
    assert by_hand == "nothing is marked   next request ~118,900, as it is"


@pytest.mark.parametrize(
    ("change", "old", "new", "words"),
    [
        (
            ("min_clear_tokens", 512, 1024),
            outcome(),
            outcome(11, after=81_986),
            "512 → 1,024: 3 fewer results, +2,110 tokens",
        ),
        (("threshold", None, 90_000), outcome(0, 80), outcome(0, 81), "none → 90,000: 1 more message summarised"),
        (("assistant_boundary", False, True), outcome(), outcome(), "off → on: no difference"),
        (("ratio", 0.6, 0.9), outcome(), outcome(fires=False), "0.60 → 0.90: would no longer fire"),
        (("tools", ("Read", "Bash"), ("Bash",)), outcome(), outcome(13), "tools −Read: 1 fewer result"),
        (
            ("clear", (), ((12, 0),)),
            outcome(0),
            outcome(1, after=118_899),
            "clear +12:0: 1 more result, +39,023 tokens",
        ),
        (("policies", ("a", "b"), ("b", "a")), outcome(), outcome(), "policies now b, a: no difference"),
    ],
    ids=["tokens", "none", "switch", "trigger", "list", "marks", "order"],
)
def test_the_difference_is_named(change: tuple[str, Any, Any], old: PlanOutcome, new: PlanOutcome, words: str) -> None:
    whole, short_form = format_difference_variants([change], old, new)
    assert words in text(whole) and change[0] in text(whole)
    assert change[0] not in text(short_form)


def test_the_trigger_says_where_it_would_have_fired() -> None:
    made = plan(sample(), "defect-microcompact")
    begun = "would not fire now (fires at #1,204, press !)"
    source, why, numbers, verdict, least = map(text, format_trigger_variants(made, 1_204))
    assert source.startswith(f"{begun}: ") and " tokens < limit 120,000" in source and source.endswith(" since then)")
    assert why.startswith(f"{begun}: ") and " tokens < limit 120,000" in why
    assert numbers.startswith(f"{begun}: counts ") and numbers.endswith(", limit 120k") and verdict == begun
    assert (
        least == "fires at #1,204, press !"
        and text(format_trigger_variants(made, -1)[-1]) == "would not have fired so far"
    )
    assert " (nor so far): " in text(format_trigger_variants(made, -1)[0])
    compacted = sample()
    compacted.facts.add_compaction(Compaction(len(compacted), "full", "auto", 50_000))
    idle_forms = [text(form) for form in format_trigger_variants(plan(compacted, "defect-microcompact"), -1)]
    assert " (the recording compacts here): " in idle_forms[0]
    limited = plan(sample(), "agent-sdk-prune", context_budget=10_000_000)
    assert " ≤ limit 7,000,000 (" in text(format_trigger_variants(limited, None)[0])
    assert " <=limit 7,000,000 (" in to_ascii(text(format_trigger_variants(limited, None)[0]))
    assert "message" not in text(format_trigger_variants(made, None)[0])
    assert compute_outcome(made).fires is False
    idle = plan(sample(), "koda-microcompact")
    assert idle.trigger.source and idle.trigger.value is None, "a source is that of a value"
    assert text(format_trigger_variants(idle, None)[0]) == "would fire now: the end of the recording counts as idle"
    unchanged = plan(sample(), "koda-microcompact", min_tokens=100_000)
    assert text(format_trigger_variants(unchanged, None)[-1]) == "its trigger is met, but it changes nothing now"


@given(st.lists(st.integers(0, 200_000), min_size=1, max_size=60), st.integers(0, 100), st.integers(0, 6), st.data())
def test_a_curve_fits_and_marks_the_value(tokens: list[int], width: int, height: int, data: st.DataObject) -> None:
    values = list(range(len(tokens)))
    current = data.draw(st.sampled_from(values))
    lines = draw_curve("x", values, tokens, current, width, height)
    assert len(lines) <= height and all(count_cells(line) <= width for line in lines)
    if len(set(tokens)) > 1 and height >= 2 and width >= 40:
        assert len(lines) == height and f"▲ {current}" in "".join(text for text, _ in lines[-1])


def test_at_its_end_a_slider_says_that_nothing_changes_any_more() -> None:
    turns = Parameter("turns", "number", "turns that are kept", "turns", 3, scale=build_scale(1, 1_000, 3, 10, "turns"))

    def told(value: int, width: int, room: int = 9) -> str:
        return text(
            [run for line in build_parameter_details(turns, value, 0, "", width, room).fixed_lines for run in [line]]
        )

    assert told(9, 99) == "turns that are kept (1 to 1,000 turns, default 3)"
    assert told(10, 99) == "turns that are kept (beyond 10 nothing changes; = types more)"
    assert told(10, 40) == "turns that are kept   (beyond 10 nothing changes)"
    assert told(9, 24, 1) == "turns that are kept" and told(9, 30, 2) == "turns that are kept   (default 3)"


def test_a_list_has_no_range() -> None:
    assert Parameter("tools", "list", "", "tools", ()).format_range() == ""


def test_small_differences_are_flat_and_large_ones_are_to_scale() -> None:
    assert set(compute_bar_heights([10_000, 9_900, 9_801], 1)) == {8}
    assert compute_bar_heights([10_000, 5_000, 1], 1) == [8, 4, 1]


def test_text_gives_way_to_what_is_before_it_and_is_cut_with_an_ellipsis() -> None:
    long, short_one = [[("would fire: because (of that)", "")]], [[("would fire: because", "")]]
    first: list[list[list[Run]]] = [[[("result", "")]]]

    def words(width: int, room: int) -> list[str]:
        return [
            "".join(text for text, _ in line).rstrip()
            for line in fit_paragraphs([first, [long, short_one]], width, room)
        ]

    assert words(40, 2) == ["result", "would fire: because (of that)"]
    assert words(20, 2) == ["result", "would fire: because"]
    assert words(12, 2) == ["result", "would fire:…"]
    assert words(40, 1) == ["result"]
    two: list[Paragraph] = [[[("a result", "")], [("of two lines", "")]], [[("a result", "")]]]
    said = [two, [long, short_one]]
    assert len(fit_paragraphs(said, 14, 9)) == 5 and len(fit_paragraphs(said, 14, 4)) == 4, (
        "the last one is shortened first"
    )
    assert len(fit_paragraphs(said, 14, 3)) == 3, "then those before it"
    assert len(fit_paragraphs(said, 14, 9, below=4)) == 5 and len(fit_paragraphs(said, 14, 6, below=3)) == 3
    assert len(fit_paragraphs(said, 14, 5, below=3)) == 3, "a curve loses its title before what is said is cut"


@given(
    st.lists(st.lists(st.lists(RUNS, max_size=2), min_size=1, max_size=3), max_size=3),
    st.integers(4, 40),
    st.integers(1, 8),
)
def test_what_is_said_fits(paragraphs: list[list[Paragraph]], width: int, room: int) -> None:
    for free in (0, 3):
        lines = fit_paragraphs(paragraphs, width, room, free)
        assert len(lines) <= room and all(count_cells(line) <= width for line in lines)


def test_words_are_left_out_whole() -> None:
    assert shorten_at_word("clear big results of all turns", 20) == "clear big results…"
    assert (
        shorten_at_word("clear big results", 17) == "clear big results"
        and shorten_at_word("microcompact", 6) == "micro…"
    )


def test_a_curve_has_a_title_and_its_axes_a_unit() -> None:
    def drawn(width: int, height: int, *tokens: int) -> list[str]:
        curve = draw_curve("chain.keep", [1, 2, 3, 4], tokens, 2, width, height, "turns")
        return ["".join(text for text, _ in line).rstrip() for line in curve]

    assert drawn(60, 4, 900, 800, 700, 600) == [
        "next request by keep: ~600 to ~900 tokens",
        "900 ██████▆▆▆▆▆▆▄▄▄▄▄▄▃▃▃▃▃▃",
        "  0 " + "█" * 24,
        "    1        ▲ 2     4 turns",
    ]
    at_the_end = draw_curve("keep", [1, 2], [9, 5], 2, 60, 4, "turns")[-1]
    assert "".join(text for text, _ in at_the_end).split() == ["1", "▲", "2", "turns"]
    assert drawn(30, 3, 900, 800, 700, 600)[0] == "next request by keep, tokens"
    assert "next request" not in drawn(30, 2, 900, 800, 700, 600)[0], "no title in two lines"
    assert drawn(60, 4, 7, 7, 7, 7) == ["keep does not change the next request"]


def test_a_chain_tells_in_few_words_which_step_runs_and_on_what() -> None:
    made = View(session(12).with_window(20_000), policy="chain").plan
    assert made is not None
    told = [text(form) for form in format_trigger_variants(made, None)]
    assert any(re.search(r"defect-microcompact, counts [\d.]+k, limit 12\.0k", words) for words in told), told
    assert sorted(map(len, told), reverse=True) == [*map(len, told)], "shorter and shorter"
