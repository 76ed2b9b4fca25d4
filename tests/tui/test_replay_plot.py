"""The charts of the replay screen: calls and columns, blocks and shade, signs, and where each chart is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_tui.tui.replay.charts import OTHER_CHART_LINES, SELECTED_CHART_LINES, place_charts
from context_tui.tui.replay.sawtooth import (
    COMPACTION_SIGN,
    FIRING_SIGN,
    GUTTER,
    SHADE,
    ChartScale,
    Sawtooth,
    build_scale,
    compute_max_tokens,
    compute_zoom_range,
    draw_axis,
    draw_sawtooth,
)

TOOTH = [10, 20, 30, 40, 50, 60, 15, 25, 35, 45]
SAW = Sawtooth(TOOTH, [10, 20, 30, 40, 50, 60, 70, 80, 90, 100], (), [100] * 10, (60,), {6}, {3: COMPACTION_SIGN})


def drawn(saw: Sawtooth, width: int, height: int, cursor: int = -1, calls: range | None = None) -> list[str]:
    """The lines of a chart, without the numbers beside it."""
    scale = build_scale([saw], width + GUTTER, calls or range(len(saw.sizes)))
    return ["".join(text for text, _ in line)[GUTTER:] for line in draw_sawtooth(saw, scale, height, cursor)]


def height_of(lines: list[str], x: int) -> int:
    """How many cells of a column are filled by the policy."""
    return sum(line[x] in "▁▂▃▄▅▆▇█" for line in lines[:-1])


@given(count=st.integers(1, 400), width=st.integers(1, 200))
def test_every_call_has_columns_and_every_column_its_calls(count: int, width: int) -> None:
    scale = ChartScale(0, count, width, 1)
    assert {call for x in range(width) for call in scale.get_calls(x)} == set(range(count)) or count > width
    for call in {0, count // 3, count // 2, count - 1}:
        columns = scale.get_columns(call)
        assert columns and 0 <= columns.start < columns.stop <= width
        assert all(call in scale.get_calls(x) for x in columns)
    assert scale.get_columns(count) == range(0)


@given(st.lists(st.integers(0, 200_000), min_size=1, max_size=300), st.integers(1, 120), st.integers(3, 20))
def test_the_peak_is_the_highest_column_at_any_width(sizes: list[int], width: int, height: int) -> None:
    saw = Sawtooth(sizes, sizes, (), [200_000] * len(sizes), (), (), {})
    lines = drawn(saw, width, height)
    assert len(lines) == height and {len(line) for line in lines} == {width}
    scale = build_scale([saw], width + GUTTER, range(len(sizes)))
    peak = max(range(len(sizes)), key=sizes.__getitem__)
    heights = [height_of(lines, x) for x in range(width)]
    assert heights[scale.get_columns(peak).start] == max(heights)


def test_blocks_are_the_policy_and_shade_is_what_it_spares() -> None:
    lines = drawn(SAW, 10, 11)
    assert [height_of(lines, x) for x in range(10)] == [1, 2, 3, 4, 5, 6, 2, 3, 4, 5]
    assert [sum(line[x] == SHADE for line in lines) for x in range(6)] == [0] * 6
    assert [sum(line[x] in (SHADE, "┈") for line in lines) for x in range(6, 10)] == [5, 5, 5, 5]


def test_signs_stand_below_the_calls_they_are_about() -> None:
    assert drawn(SAW, 10, 6)[-1] == "   │  ▲   "
    assert drawn(SAW, 20, 6)[-1].rstrip() == " " * 6 + COMPACTION_SIGN + " " * 5 + FIRING_SIGN, (
        "once, where the call begins"
    )
    over = replace(SAW, windows=[55] * 10)
    assert drawn(over, 10, 6)[-1] == "   │ !▲   "
    both = replace(SAW, event_signs={6: COMPACTION_SIGN})
    assert FIRING_SIGN in drawn(both, 5, 6)[-1] and COMPACTION_SIGN not in drawn(both, 5, 6)[-1], (
        "a firing matters more"
    )


def test_window_and_threshold_are_lines_with_their_numbers() -> None:
    scale = build_scale([SAW], 60 + GUTTER, range(10))
    lines = ["".join(text for text, _ in line) for line in draw_sawtooth(SAW, scale, 12)]
    assert any(line.startswith("   100 ┈ window ┈") for line in lines)
    assert any(line.startswith("    60↕┈ threshold ┈") for line in lines)
    assert lines[-2].startswith("     0 █")


def test_a_window_far_above_is_left_out_of_the_scale() -> None:
    assert compute_max_tokens([SAW]) == 100
    assert compute_max_tokens([replace(SAW, windows=[1_000_000] * 10)]) == 100
    assert compute_max_tokens([replace(SAW, windows=[200] * 10)]) == 200
    assert compute_max_tokens([replace(SAW, sizes=[180], baseline_sizes=[180], windows=[200])]) == 200


def test_the_cursor_is_a_line_that_breaks_no_word() -> None:
    lines = drawn(SAW, 60, 12, cursor=0)
    assert [line[0] for line in lines[:-3]] == ["│"] * 9, "from the top down to the blocks"
    assert height_of(drawn(SAW, 5, 11, cursor=6), 3) == 2, "the call under it, and not the largest beside that"
    lines = drawn(SAW, 60, 12, cursor=1)
    assert any("window" in line for line in lines), "but not through a word"
    assert drawn(SAW, 10, 6, cursor=1)[-1][1] == "┴"
    assert drawn(SAW, 10, 6, cursor=6)[-1][6] == FIRING_SIGN, "what happened there stays in sight"


def test_overflows_are_marked_in_the_chart_without_colour() -> None:
    over = replace(SAW, windows=[40] * 10, firing_calls=(), event_signs={})
    assert drawn(over, 10, 6)[-1] == "    !!   !"


def test_the_axis_names_the_ends_and_the_call_under_the_cursor() -> None:
    messages = [2 * call + 1 for call in range(100)]
    scale = ChartScale(0, 100, 50, 1)

    def line(cursor: int) -> str:
        return "".join(text for text, _ in draw_axis(messages, scale, cursor))

    assert line(50).split() == ["#1", "#101", "#199"]
    assert line(0).split() == ["#1", "#199"] and line(99).split() == ["#1", "#199"]
    assert line(3).split() == ["#7", "#199"], "no two numbers in one place"
    few = ChartScale(0, 3, 50, 1)
    assert ["".join(text for text, _ in draw_axis(messages, few, each)).split() for each in range(3)] == [
        ["#1", "#5"],
        ["#1", "#3", "#5"],
        ["#1", "#5"],
    ]


@given(count=st.integers(0, 5_000), level=st.integers(0, 12), data=st.data())
def test_zooming_keeps_the_cursor_in_sight(count: int, level: int, data: st.DataObject) -> None:
    cursor = data.draw(st.integers(0, max(count - 1, 0)))
    seen = compute_zoom_range(count, cursor, level)
    assert 0 <= seen.start <= seen.stop <= count
    assert cursor in seen or not count
    assert len(seen) == count or level
    assert len(seen) >= min(count, 8)


@pytest.mark.parametrize("height", [3, 8, SELECTED_CHART_LINES + OTHER_CHART_LINES, 40, 90])
@pytest.mark.parametrize("selected", [0, 2, 4])
def test_charts_share_the_height_and_the_selected_one_is_among_them(height: int, selected: int) -> None:
    places = place_charts(range(5), selected, height)
    assert sum(place.height for place in places) == height
    assert [place.top for place in places] == [sum(each.height for each in places[:n]) for n in range(len(places))]
    assert selected in [place.number for place in places]
    chosen = next(place for place in places if place.number == selected)
    assert chosen.height == max(place.height for place in places)
    assert len(places) == 1 or chosen.height >= SELECTED_CHART_LINES
    assert len(places) == min(1 + max(height - SELECTED_CHART_LINES, 0) // OTHER_CHART_LINES, 5)
