"""A threshold pulled by the mouse: which parameter sets it, which value puts it nearest, and what a drag does."""

from __future__ import annotations

from typing import Any

import pytest

from context_tui.policies.parameter_space import list_parameters_in_context
from context_tui.policies.registry import POLICIES
from context_tui.tui.comparison import compute_step_thresholds
from context_tui.tui.replay.panes import ChartsView
from context_tui.tui.replay.sawtooth import ChartScale, compute_line, compute_size_at_line
from context_tui.tui.replay.screen import ReplayScreen
from context_tui.tui.replay.setting_controls import ThresholdDrag
from context_tui.tui.view import View
from tests.tui.fakes import drawn
from tests.tui.test_replay_screen import alone, along, known
from tests.tui.tuning import sample


def pulling(name: str, at: int | None = None, **values: Any) -> tuple[list[ThresholdDrag], tuple[int, ...], View]:
    """One drag from each threshold, or from *at*."""
    view = View(sample().with_window(200_000), policy=name, params={name: values})
    controls = list_parameters_in_context(POLICIES[name], view.policy_params, view.context, view.runtime_state)
    sizes = thresholds(view)
    return [ThresholdDrag(view, controls, size) for size in (sizes if at is None else (at,))], sizes, view


def thresholds(view: View) -> tuple[int, ...]:
    found = compute_step_thresholds(POLICIES[view.policy], view.policy_params, view.runtime_state)
    return tuple(sorted({each for each in found if each is not None}))


SETS = {
    "defect-microcompact": ["microcompact_ratio"],
    "defect": ["microcompact_ratio", "compact_soft_ratio"],
    "chain": ["defect-microcompact.microcompact_ratio", "defect-compact.compact_soft_ratio"],
    "agent-sdk-prune": ["threshold_pct"],
    "claude-code-auto": ["trigger_reserve"],
    "anthropic-compact": ["trigger_tokens"],
    "codex": ["trigger_share"],
    "roo-truncate": ["trigger_share"],
    "koda": ["trigger_share"],
}


@pytest.mark.parametrize("name", SETS)
def test_the_parameter_of_each_line_and_the_value_nearest_to_a_size(name: str) -> None:
    drags, _, view = pulling(name)
    assert [drag.control.name if drag.control else "" for drag in drags] == SETS[name]
    for drag in drags:
        for wanted in (60_000, 100_400, 130_000):
            value = drag.compute_value(wanted)
            assert drag.control is not None
            after = view.with_param(name, drag.control.name, value)
            moved = thresholds(after)
            assert min(abs(size - wanted) for size in moved) <= 2_000, (name, wanted, value, moved)


def test_a_line_stays_within_the_bounds_of_its_parameter() -> None:
    (drag,), (size,), _ = pulling("defect-microcompact")
    assert drag.control is not None and drag.control.scale is not None
    assert drag.compute_value(0) == drag.control.scale.low
    assert drag.compute_value(10**9) == drag.control.scale.high
    assert drag.compute_value(size) == 0.6, "where it is, it stays"


@pytest.mark.parametrize("name", ["none", "koda-microcompact", "swe-agent-last-n"])
def test_what_has_no_line_has_no_handle(name: str) -> None:
    (drag,), sizes, _ = pulling(name, 50_000)
    assert sizes == () and drag.control is None


def test_every_policy_has_a_handle_for_each_of_its_lines() -> None:
    for name, policy in POLICIES.items():
        if policy.phases:
            assert all(drag.control for drag in pulling(name)[0]), name


def test_the_size_of_a_line_is_on_that_line() -> None:
    scale = ChartScale(0, 10, 10, 200_000)
    assert [compute_line(compute_size_at_line(y, scale, 30), scale, 30) for y in range(30)] == list(range(30))
    assert compute_size_at_line(-5, scale, 30) == 200_000 and compute_size_at_line(99, scale, 30) == 0


async def test_a_threshold_is_dragged_up_and_down_and_the_cursor_elsewhere() -> None:
    running = alone()
    async with running.run_test(size=(100, 40)) as pilot:
        screen = await along(pilot)
        charts = screen.query_one(ChartsView)
        (line,), cursor = charts.charts.thresholds, screen.comparison.call
        assert "36.0k↕" in drawn(running), "it can be pulled"

        def at(x: int, y: int) -> tuple[int, int]:
            return charts.gutter.left + 7 + x, charts.gutter.top + y

        await pilot.mouse_down(ChartsView, offset=at(40, line.y))
        for y in range(line.y + 1, line.y + 5):
            await pilot.hover(ChartsView, offset=at(41, y))
        await known(pilot)
        values = screen.comparison.selected_lane.values
        assert values.keys() == {"microcompact_ratio"} and values["microcompact_ratio"] < 0.5
        assert [each.y for each in charts.charts.thresholds] == [line.y + 4], "it is where the mouse is"
        made = screen.comparison.replay
        assert made is not None and made.params.microcompact_ratio == values["microcompact_ratio"]
        assert screen.comparison.call == cursor, "the cursor stays"
        await pilot.mouse_up(ChartsView, offset=at(41, line.y + 4))
        await pilot.hover(ChartsView, offset=at(41, line.y))
        assert screen.comparison.selected_lane.values == values, "it was let go"

        await pilot.mouse_down(ChartsView, offset=at(20, 1))
        await pilot.hover(ChartsView, offset=at(30, 1))
        await pilot.mouse_up(ChartsView, offset=at(30, 1))
        await pilot.pause()
        assert (
            screen.comparison.call == charts.charts.find_call(37) and screen.comparison.selected_lane.values == values
        )
        (line,) = charts.charts.thresholds
        await pilot.mouse_down(ChartsView, offset=at(50, line.y))
        await pilot.hover(ChartsView, offset=at(60, line.y))
        await pilot.mouse_up(ChartsView, offset=at(60, line.y))
        await pilot.pause()
        assert screen.comparison.call == charts.charts.find_call(67), "along the line the cursor is dragged"
        await pilot.click(ChartsView, offset=at(10, line.y))
        await pilot.pause()
        assert (
            screen.comparison.call == charts.charts.find_call(17) and screen.comparison.selected_lane.values == values
        )


async def test_a_line_of_another_policy_selects_that() -> None:
    running = alone()
    async with running.run_test(size=(100, 50)) as pilot:
        screen: ReplayScreen = await along(pilot)
        screen.comparison.add_policy("anthropic-compact")
        screen.comparison.set_param("anthropic-compact", "trigger_tokens", 40_000)
        screen.comparison.select_lane(0)
        screen.draw()
        await known(pilot)
        charts = screen.query_one(ChartsView)
        await pilot.pause(0.1)
        line = next(each for each in charts.charts.thresholds if each.number == 1)
        x, y = charts.gutter.left + 40, charts.gutter.top + line.y
        await pilot.mouse_down(ChartsView, offset=(x, y))
        await pilot.hover(ChartsView, offset=(x, y + 1))
        await pilot.mouse_up(ChartsView, offset=(x, y + 1))
        await known(pilot)
        assert screen.comparison.selected_number == 1
        assert 1_000 <= screen.comparison.selected_lane.values["trigger_tokens"] < 40_000
        assert screen.comparison.lanes[0].values == {}
