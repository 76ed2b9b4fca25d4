"""The session on screen without a screen: every command is a call, and no event loop runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest

import context_tui as ct
from context_tui.lab.fullness import ContextPart, Fullness
from context_tui.session.session import SessionInfo
from context_tui.session.values import Kind
from context_tui.session.window import Window
from context_tui.tokens.context_size import SizeSource
from context_tui.tui.analysis import TriggerFirings, compute_context_sizes
from context_tui.tui.controller import CommandRefused, Controller
from context_tui.tui.inspector.breakdown import build_breakdown_rows
from context_tui.tui.inspector.outcome import format_trigger_variants
from context_tui.tui.loading import ReadFailure, SessionLoader, SessionSnapshot
from context_tui.tui.options import InspectorOptions
from context_tui.tui.timeline.rows import TURN_HEAD, Location, TimelineRows
from context_tui.tui.widgets.bindings import read_default_keys
from tests.formats.recordings import Recording, call, text, usage
from tests.tui.inspecting import file_of, session


def opened(window: int | None = None) -> Controller:
    controller = Controller(session(), InspectorOptions(window=window))
    controller.open_session(controller.view.session)
    return controller


def read(controller: Controller) -> None:
    def take(report: SessionSnapshot | ReadFailure) -> None:
        assert isinstance(report, SessionSnapshot)
        controller.update_session(report)

    assert isinstance(controller.loader, SessionLoader)
    controller.loader.read(take, Event(), lambda: None)


def results(controller: Controller) -> list[Location]:
    facts = controller.view.session.facts
    rows = range(len(facts.kind))
    return [Location(facts.block_message[row], row) for row in rows if facts.kind[row] == Kind.TOOL_RESULT]


def refused(command: Callable[[], object]) -> str:
    with pytest.raises(CommandRefused) as why:
        command()
    return str(why.value)


def test_the_cursor_stays_at_the_end_of_what_grows_in_several_steps(tmp_path: Path) -> None:
    messages = session().to_messages()

    def grow(number: int, end: bool) -> None:
        rows, longer = TimelineRows(), ct.from_messages(messages[:number])
        rows.grow(longer)
        controller.update_session(SessionSnapshot(longer, rows, 1.0 if end else 0.5, end))

    controller = Controller(file_of(tmp_path / "s.jsonl", messages[:2]), InspectorOptions())
    read(controller)
    controller.has_moved_cursor = True
    controller.select_location(Location(1))
    controller.toggle_following()
    grow(4, end=False)
    grow(5, end=False)
    grow(6, end=True)
    assert controller.view.cursor.message == 5
    grow(7, end=False)
    controller.select_location(Location(2))
    grow(8, end=True)
    assert controller.view.cursor.message == 2, "it was moved meanwhile"


def test_a_reply_that_grows_by_a_block_is_measured_again(tmp_path: Path) -> None:
    recording = Recording()
    for turn in range(12):
        recording.user(f"turn {turn} " * 20)
        recording.assistant(text("found " * 50 * turn), use=usage(fresh=2_000 + 300 * turn))
    recording.user("and now?")
    recording.assistant(text("I read it."), id="last", use=usage(fresh=9_000))
    path = recording.write(tmp_path)
    controller = Controller(SessionInfo(str(path), "claude-code"), InspectorOptions())
    read(controller)
    before, table = controller.view, controller.token_table
    assert table is not None
    recording.assistant(call("c", "Read", path="a.py" * 200), id="last", use=usage(fresh=9_000))
    recording.write(tmp_path)
    controller.toggle_following()
    read(controller)
    view, grown = controller.view, controller.token_table
    assert len(view.session) == len(before.session) and view.session.block_count == before.session.block_count + 1
    [*_, new_row] = view.session.facts.blocks_of(len(view.session) - 1)
    assert grown is not None and grown.count_block_tokens(view.context, new_row) > 200
    sizes = compute_context_sizes(view, token_table=grown)
    rows = build_breakdown_rows(view.context, sizes, by_size=True)
    assert any(row.message == len(view.session) - 1 and row.block == new_row for row in rows)
    stale = compute_context_sizes(before, token_table=table)  # a thread may still have the table of before
    assert build_breakdown_rows(before.context, stale, by_size=True)


def test_a_followed_session_is_warned_of_its_compaction_once(tmp_path: Path) -> None:
    controller = Controller(file_of(tmp_path / "s.jsonl", session().to_messages()), InspectorOptions())
    read(controller)
    window, parts = Window(20_000, "file"), (ContextPart("user", 18_000),)
    fullness = Fullness(18_000, window, SizeSource.RECORDED, parts, 2, (), 1_500)
    assert controller.collect_compaction_warning(fullness) == "", "it is not followed"
    controller.toggle_following()
    assert controller.collect_compaction_warning(fullness._replace(calls_left=3)) == "", "it is not near"
    warning = controller.collect_compaction_warning(fullness)
    assert warning == "The agent compacts in about 2 calls at this rate, 1.5k tokens from now"
    assert controller.collect_compaction_warning(fullness) == "", "it has been said"


def test_each_compaction_is_announced_though_the_file_is_read_faster_than_it_is_shown(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("begin")
    recording.assistant(text("found " * 500), use=usage(fresh=9_000))
    path = recording.write(tmp_path)
    controller = Controller(SessionInfo(str(path), "claude-code"), InspectorOptions())
    read(controller)
    controller.toggle_following()
    reports, announced = list[SessionSnapshot | ReadFailure](), list[str]()
    assert controller.loader is not None
    for number in range(3):
        recording.user(f"more {number}")
        recording.write(tmp_path)
        controller.loader.read(reports.append, Event(), lambda: None)
        recording.assistant(text("found " * 500), use=usage(fresh=9_000))
        recording.boundary()
        recording.summary()
        recording.write(tmp_path)
        controller.loader.read(reports.append, Event(), lambda: None)
        for report in reports:  # the first is shown when the second has been read
            assert isinstance(report, SessionSnapshot)
            controller.update_session(report)
            announced += controller.collect_news()
        reports.clear()
    assert len(announced) == 3 and all(each.startswith("Full compaction (auto) at ") for each in announced)


def test_a_session_is_read_planned_applied_and_taken_back(tmp_path: Path) -> None:
    controller = Controller(
        file_of(tmp_path / "s.jsonl", session().to_messages()), InspectorOptions(policy="agent-sdk-prune")
    )
    controller.is_reading = True
    assert refused(controller.get_applicable_plan).startswith("The session is still being read")
    read(controller)
    assert controller.progress == 1 and not controller.is_reading and controller.loader is not None
    assert controller.view.cursor == Location(len(controller.view.session) - 1), "at the end, where nobody moved it"
    controller.choose_policy("defect-microcompact")
    controller.set_param("defect-microcompact", "keep_recent_turns", 1)
    plan = controller.get_applicable_plan()
    controller.move_to_changed(1)
    assert controller.view.cursor.block in plan.changes
    controller.show_applied_copy(plan, ct.apply(controller.view.session, plan))
    assert controller.view.applied and controller.recorded_session is controller.view.undo_stack[0].session
    assert refused(controller.get_applicable_plan) == "A plan was just applied; choose a policy to plan again"
    assert refused(controller.format_command).startswith("No command for a copy")
    assert controller.undo() == f"Back to {len(controller.view.session)} messages; press U to redo"
    assert refused(controller.undo).startswith("Nothing to undo")
    assert "keep_recent_turns=1" in controller.format_command()


def test_what_was_not_read_to_its_end_is_not_exported(tmp_path: Path) -> None:
    controller = Controller(file_of(tmp_path / "s.jsonl", session().to_messages()), InspectorOptions())
    read(controller)
    assert refused(controller.resume_reading) == "All of the session has been read"
    controller.progress = 0.4
    assert refused(controller.get_exportable_session) == "Only 40 % has been read; press r to read on"
    assert controller.resume_reading() is controller.loader
    assert refused(controller.resume_reading) == "The session is being read"


def test_the_cursor_is_back_when_its_row_is_listed_again() -> None:
    controller = opened()

    def hide(each: Controller) -> None:
        each.toggle_filter("tool", "Bash")

    controller.select_location(Location(0, TURN_HEAD))  # which is neither sorted nor a tool's
    hide(controller)
    assert controller.view.cursor != Location(0, TURN_HEAD)
    assert controller.rows.find_row(*controller.view.cursor) in controller.listed_rows, "what is selected is on screen"
    controller.clear_filter()
    assert controller.view.cursor == Location(0, TURN_HEAD)
    hide(controller)
    controller.select_location(results(controller)[-1])
    controller.clear_filter()
    assert controller.view.cursor == results(controller)[-1], "it was moved meanwhile"


def test_only_what_has_to_be_drawn_anew_counts() -> None:
    controller = opened()
    revision = controller.revision
    controller.select_location(Location(3))
    controller.move_to_turn(1)
    assert controller.revision == revision and controller.view.cursor.block == TURN_HEAD
    controller.toggle_fold()
    assert controller.revision == revision + 1
    turn = controller.rows.get_turn_messages(controller.rows.find_turn_of_message(controller.view.cursor.message))
    controller.select_location(Location(turn[2]))
    assert controller.revision == revision + 2 and not controller.view.folds, "a folded turn opens for what is in it"


def test_commands_that_do_nothing_here_say_why() -> None:
    controller = opened(window=1_000_000)
    controller.select_location(Location(0))
    assert refused(controller.toggle_mark) == "Only tool results can be cleared; select one"
    assert refused(lambda: controller.move_to_match(1)) == "Press / to search first"
    assert refused(controller.redo) == "Nothing to redo"
    controller.toggle_sort()
    assert refused(controller.toggle_fold).startswith("Filtered and sorted rows have no turns")
    controller.clear_filter()
    controller.choose_policy("manual")
    assert refused(controller.get_applicable_plan).startswith("Nothing to apply")
    assert refused(lambda: controller.move_to_changed(1)) == "The plan changes no row"
    controller.select_location(Location(4))
    controller.toggle_point()
    assert controller.view.at == 4
    controller.select_location(results(controller)[-1])
    assert refused(controller.toggle_mark) == "This result is not in the context; select another one"
    assert refused(controller.toggle_cut) == "This message is not in the context; select another one"
    controller.toggle_point()
    assert controller.view.at is None


def test_the_key_of_the_hint_goes_to_the_firing_that_it_names() -> None:
    controller = opened()
    assert controller.next_firing is None and "Still finding" in refused(controller.move_to_firing)
    controller.analysis.store_firings(controller.view, TriggerFirings([]))
    assert controller.next_firing == -1 and "never fires" in refused(controller.move_to_firing)
    controller.analysis.store_firings(controller.view, TriggerFirings([7, 11]))
    controller.plan_before(1)
    for at in (7, 11, 7):
        panel = format_trigger_variants(controller.view.plan, controller.next_firing) if controller.view.plan else []
        assert f"fires at #{at}, press" in str(panel)
        controller.move_to_firing()
        assert controller.view.at == at
    assert read_default_keys()["firing-next"] == ["!"]


def test_the_text_of_what_is_selected_is_copied() -> None:
    controller = opened()
    facts = controller.view.session.facts
    bash = next(at for at in results(controller) if facts.tool_name(at.block) == "Bash")
    controller.select_location(bash)
    assert controller.format_selected_text() == "0 passed"
    controller.select_location(Location(bash.message - 1))
    assert (
        controller.format_selected_text().startswith("I look at it.")
        and "pytest -q" in controller.format_selected_text()
    )


def test_sorting_by_size_selects_the_largest_row() -> None:
    controller = opened()
    turn = controller.rows.get_turn_messages(2)
    controller.select_location(Location(turn.start, TURN_HEAD))
    controller.toggle_sort()
    largest = controller.listed_rows[0]
    assert controller.rows.find_row(*controller.view.cursor) == largest
    controller.toggle_sort()
    assert controller.rows.find_row(*controller.view.cursor) == largest
