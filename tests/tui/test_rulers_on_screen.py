"""Sizes on screen by the ruler that R takes: everywhere the same one, named; the policies go by their own."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from context_tui.formats.opening import choose_session
from context_tui.library.follow import GrowingSession
from context_tui.session.session import Session
from context_tui.session.values import Kind
from context_tui.tokens.measures import TokenMeasure, TokenTable, build_calibrated_table, build_exact_table
from context_tui.tui.analysis import compute_context_sizes
from context_tui.tui.controller import Controller
from context_tui.tui.inspector.breakdown import BreakdownView, build_breakdown_rows, build_largest_block_rows
from context_tui.tui.inspector.calibration import CalibrationScreen, build_calibration_parts
from context_tui.tui.inspector.header import HeaderBar
from context_tui.tui.inspector.scoreboard import Scoreboard, build_score_rows
from context_tui.tui.inspector.timeline import Timeline
from context_tui.tui.inspector.timeline_frame import ColumnHeads
from context_tui.tui.options import InspectorOptions
from context_tui.tui.rendering.formatting import format_token_column, format_token_unit
from context_tui.tui.timeline.rows import TURN_HEAD, WHOLE_MESSAGE, TimelineRows
from context_tui.tui.timeline.turns import TurnSummaries
from context_tui.tui.view import View
from context_tui.tui.widgets.reading_pane import ReadingPane
from tests.formats.providers import RATES, Provider
from tests.tui.fakes import until
from tests.tui.inspecting import app, eventful, inspector, session, settled


def recording(tmp_path: Path) -> Session:
    """A session of a provider whose tokenizer is known."""
    made = Provider()
    for number in range(6):
        made.user(f"step {number}")
        made.steps(10)
    return made.recording.open(tmp_path)


def ruled(what: Session) -> tuple[Controller, TokenTable]:
    """A session on screen by calibrated sizes."""
    controller = Controller(what, InspectorOptions(policy="agent-sdk-prune"))
    controller.open_session(what)
    assert controller.view.measure is TokenMeasure.CALIBRATED
    sizes = controller.token_table
    assert (
        sizes is not None
        and controller.finish_measuring() == f"Token measure: {sizes.describe(controller.view.context)}"
    )
    return controller, sizes


def test_rows_by_a_ruler_have_its_tokens_and_add_up(tmp_path: Path) -> None:
    what = eventful()
    own = TimelineRows()
    own.grow(what)
    sizes = build_exact_table(what, len, "letters")
    rows = own.with_table(sizes)
    assert rows.token_table is sizes and own.token_table is None and len(rows) == len(own)
    assert sum(rows.tokens) == sum(sizes.messages) == rows.sums[-1] != own.sums[-1]
    for row, (message, block) in enumerate(zip(rows.message, rows.block, strict=True)):
        if block >= 0:
            assert rows.tokens[row] == sizes.blocks[block]
        elif block == WHOLE_MESSAGE:
            results = [b for b in what.facts.blocks_of(message) if what.facts.kind[b] == Kind.TOOL_RESULT]
            assert rows.tokens[row] == sizes.messages[message] - sum(sizes.blocks[b] for b in results)
        elif block == TURN_HEAD:
            assert rows.tokens[row] == 0
    assert rows.largest == max(rows.tokens)
    turns = [
        rows.sums[rows.get_turn_rows(turn).stop] - rows.sums[rows.get_turn_rows(turn).start]
        for turn in range(len(rows.heads))
    ]
    assert rows.largest_turn == max(turns)


def test_every_number_is_by_the_ruler_and_what_the_policy_goes_by_is_not(tmp_path: Path) -> None:
    controller, sizes = ruled(recording(tmp_path))
    view, plan = controller.view, controller.view.plan
    assert plan is not None and plan.changes
    own = Controller(view.session, InspectorOptions(policy="agent-sdk-prune"))
    own.open_session(view.session)
    own.change_view(replace(own.view, measure=TokenMeasure.OWN))
    first = next(row for row in range(len(own.rows)) if own.rows.block[row] in plan.changes)
    message, block = own.rows.message[first], own.rows.block[first]
    assert controller.rows.tokens[first] == sizes.blocks[block] > own.rows.tokens[first]
    became = sizes.count_body(block, plan.changes[block].body)
    assert (
        controller.marker.find_mark(message, block).reason
        == f"{sizes.blocks[block]:,} tokens become {became:,} (calibrated)"
    )
    assert "(calibrated)" not in own.marker.find_mark(message, block).reason
    kept = [
        (m, b)
        for m, b in zip(own.rows.message, own.rows.block, strict=True)
        if b >= WHOLE_MESSAGE and b not in plan.changes
    ]
    assert all(controller.marker.find_mark(m, b) == own.marker.find_mark(m, b) for m, b in kept), (
        "why it is kept is the policy's"
    )
    turn, estimated = (
        TurnSummaries(controller.rows, controller.marker).get_summary(1),
        TurnSummaries(own.rows, own.marker).get_summary(1),
    )
    assert (
        turn.tokens == sum(sizes.messages[m] for m in turn.messages)
        and f"cal. {turn.tokens:,} tokens" in turn.format_summary()
    )
    assert estimated.tokens < turn.tokens and f"est. {estimated.tokens:,} tokens" in estimated.format_summary()
    row, before = (build_score_rows(["agent-sdk-prune"], view.try_plan, token_table=each)[0] for each in (sizes, None))
    assert row.request is not None and before.request is not None and row.runs == before.runs
    assert row.request.removed_tokens == pytest.approx(before.request.removed_tokens * RATES["tool_result"], rel=0.03)
    assert view.plan is own.view.plan or view.plan.tokens_after == own.view.plan.tokens_after  # type: ignore[union-attr]


def test_the_parts_are_by_the_ruler(tmp_path: Path) -> None:
    controller, sizes = ruled(recording(tmp_path))
    parts = compute_context_sizes(controller.view, token_table=sizes)
    rows = build_breakdown_rows(controller.view.context, parts)
    assert {row.note for row in rows if row.note} == {"~tokens", "cal. repeated"}
    assert any(row.text == f"token measure: {sizes.describe(controller.view.context)}; R changes it" for row in rows)
    largest = [row.tokens for _, row in build_largest_block_rows(controller.view.context, token_table=sizes)]
    assert largest == sorted((s for s in sizes.blocks), reverse=True)[: len(largest)]


def test_what_was_cleared_is_told_by_the_ruler() -> None:
    what = eventful()
    controller, sizes = ruled(what)
    controller.plan_before(40)
    context = controller.view.context
    assert context.replacements
    turn = TurnSummaries(controller.rows, controller.marker).get_summary(0)
    tokens = sum(sizes.count_block_tokens(context, row) for m in turn.messages for row in what.facts.blocks_of(m))
    assert turn.tokens == tokens < sum(sizes.messages[m] for m in turn.messages)
    assert turn.share is not None and 0 < turn.share < 1


def test_it_is_said_which_ruler_it_is() -> None:
    sizes = build_exact_table(session(), len, "o200k", "not this model's tokenizer")
    assert (format_token_column(None), format_token_unit(None)) == ("est. tokens", "est.")
    assert (format_token_column(sizes), format_token_unit(sizes)) == ("o200k", "o200k")
    sizes = build_calibrated_table(session().facts)
    assert (format_token_column(sizes), format_token_unit(sizes)) == ("~tokens", "cal.")


def test_a_ruler_stays_when_a_plan_is_applied_and_undone(tmp_path: Path) -> None:
    import context_tui as ct

    controller, sizes = ruled(recording(tmp_path))
    plan = controller.get_applicable_plan()
    controller.show_applied_copy(plan, ct.apply(controller.view.session, plan))
    assert controller.view.measure is TokenMeasure.CALIBRATED and controller.token_table is not sizes
    assert controller.token_table and controller.token_table.label == "cal.", "a copy is measured as its original was"
    controller.undo()
    assert controller.token_table is sizes, "what was measured is kept"


def drawn(widget: Any) -> str:
    """What a widget shows, as text."""
    return "\n".join(widget.render_line(y).text for y in range(widget.size.height))


@pytest.mark.slow
async def test_r_takes_the_next_ruler(tmp_path: Path) -> None:
    pytest.importorskip("quicktok")
    running = app(recording(tmp_path))
    async with running.run_test(size=(190, 44)) as pilot:
        await settled(pilot)
        screen = inspector(running)
        await pilot.press("b")
        for key, unit, by in (("", "~tokens", "calibrated"), ("R", "o200k", "o200k"), ("R", "est. tokens", "")):
            await pilot.press(*key)
            await settled(pilot)
            assert screen.query_one(ColumnHeads).unit == unit
            assert screen.query_one(Scoreboard).measure_label == by
            assert unit in drawn(screen.query_one(ColumnHeads))
            title = str(screen.query_one(BreakdownView).border_title)
            assert {"~tokens": "cal. ", "o200k": "o200k ", "est. tokens": "est. "}[unit] in title
            told = str(screen.query_one(HeaderBar).render())
            assert "▒ tool results" in told and "Full to" in told
            assert screen.query_one(Timeline)._rows is screen.controller.rows
        assert screen.view.measure is TokenMeasure.OWN


async def test_only_a_measure_that_was_chosen_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large session is calibrated in a thread as it is opened, which is no news and leaves the hint of keys."""
    monkeypatch.setattr("context_tui.tui.controller.MAX_BLOCKS_MEASURED_AT_ONCE", 0)
    running = app(recording(tmp_path))
    async with running.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        controller = inspector(running).controller
        await until(pilot, lambda: controller.token_table is not None)
        assert controller.is_fresh and not running._notifications
        await pilot.press("R")
        await until(pilot, lambda: bool(running._notifications))


def test_a_large_session_that_grows_keeps_its_factors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("context_tui.tui.controller.MAX_BLOCKS_MEASURED_AT_ONCE", 0)
    made = Provider()
    made.user("do it")
    made.steps(40)
    path = tmp_path / "s.jsonl"
    size = Path(made.recording.open(tmp_path).info.path).stat().st_size
    made.steps(3)
    data = Path(made.recording.open(tmp_path).info.path).read_bytes()
    path.write_bytes(data[:size])
    growing = GrowingSession(choose_session(str(path)))
    growing.advance()
    session = growing.session()
    controller = Controller(session, InspectorOptions())
    controller.open_session(session)
    assert controller.token_table is None, "it is measured in a thread"
    first = controller.analysis.measure_session(controller.view, controller.estimated_rows).token_table
    path.write_bytes(data)
    growing.advance()
    assert growing.session().facts is session.facts and len(growing.session()) > len(session)
    controller.open_session(growing.session())
    table = controller.token_table
    assert table is not None and table.calibrations is first.calibrations
    assert table.blocks[: len(first.blocks)] == first.blocks and all(table.blocks[len(first.blocks) :])
    measured = controller.analysis.get_measured_rows(controller.view)
    assert measured is not None and measured.is_provisional and sum(measured.rows.tokens) == sum(table.messages)
    controller.analysis.measure_session(controller.view, controller.estimated_rows)
    assert controller.token_table is not table and controller.token_table.calibrations != first.calibrations


async def test_without_the_extra_r_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from context_tui.tokens import measures

    measures._load_counter.cache_clear()
    monkeypatch.setitem(sys.modules, "quicktok", None)
    running = app()
    async with running.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await pilot.press("R")
        await settled(pilot)
        said = [str(each.message) for each in running._notifications]
        assert any(measures.INSTALL_COMMAND in each for each in said), said
        assert inspector(running).view.measure is TokenMeasure.OWN


@pytest.mark.slow
async def test_the_calibration_is_a_view(tmp_path: Path) -> None:
    running = app(recording(tmp_path))
    async with running.run_test(size=(100, 40)) as pilot:
        await settled(pilot)
        await pilot.press("C")
        await settled(pilot)
        assert isinstance(running.screen, CalibrationScreen)
        told = drawn(running.screen.query_one(ReadingPane))
        assert "claude-opus-4-5: 60 requests with a size" in told and "× 1.30" in told
        assert "error of bytes / 4" in told
        await pilot.press("escape")
        assert not isinstance(running.screen_stack[-1], CalibrationScreen)


def test_where_there_is_no_calibration_the_reason_is_told() -> None:
    told = [part.text for part in build_calibration_parts(build_calibrated_table(session(usage=False).facts))]
    assert told[0] == "not calibrated: no request recorded a size; typical factors are used"
    few = [part.text for part in build_calibration_parts(build_calibrated_table(session(1).facts))]
    assert "12 are needed; typical factors are used" in few[1]
    assert View(session()).measure is TokenMeasure.CALIBRATED
