"""The inspector running: what its keys and widgets do to the view."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from threading import Event

import pytest
from textual.binding import Binding
from textual.command import CommandList
from textual.fuzzy import Matcher
from textual.widgets import ContentSwitcher, Footer, Input, Static
from textual.widgets._footer import FooterKey

from context_tui.compaction.next_request import compute_next_request
from context_tui.session.memory import from_messages
from context_tui.session.session import Session
from context_tui.tokens.measures import build_calibrated_table
from context_tui.tui.analysis import RuntimeSizes, compute_runtime_sizes
from context_tui.tui.app import ContextTuiApp
from context_tui.tui.apply.screen import ApplyScreen
from context_tui.tui.inspector.filter_screen import FilterScreen
from context_tui.tui.inspector.parameters import ParameterPanel
from context_tui.tui.inspector.scoreboard import Scoreboard
from context_tui.tui.inspector.screen import InspectorScreen, build_bindings
from context_tui.tui.inspector.search_bar import SearchBar
from context_tui.tui.inspector.timeline import Timeline
from context_tui.tui.inspector.timeline_frame import ColumnHeads
from context_tui.tui.reader.detail import Detail
from context_tui.tui.reader.document import MAX_SHOWN_CHARS
from context_tui.tui.timeline.rows import TURN_HEAD, Location
from context_tui.tui.widgets.dialogs import ChoicePrompt, InputPrompt
from context_tui.tui.widgets.text_screen import HelpScreen
from tests.tui.fakes import drawn, footer_fits, until, wrapped_text
from tests.tui.inspecting import app, conversation, inspector, session, settled
from tests.tui.test_key_queue import burst

WIDE = (140, 44)


def notice(screen: InspectorScreen) -> str:
    return str(screen.query_one("#status", Static).content)


async def test_it_opens_at_the_end_with_a_plan() -> None:
    running = app()
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        screen = inspector(running)
        assert screen.view.at is None and screen.view.plan is not None
        assert screen.location == Location(len(screen.view.session) - 1)
        text = drawn(running)
        assert "clears 6 of 36 results" in text and "refactor-auth.jsonl" in text and "48 messages" in text
        assert "now, in a copy   Z turns" in notice(screen)


async def test_what_a_format_cannot_tell_is_said_before_anything_else() -> None:
    made = session()
    made = replace(made, info=replace(made.info, note="best effort: no files \x1b[31m of the chat"))
    running = app(made)
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        hint, said = notice(inspector(running)).splitlines()
        assert "all keys" in hint and said.startswith("Best effort: no files ") and "\x1b" not in said


async def test_what_was_asked_for_is_shown() -> None:
    settings = {"agent-sdk-prune": {"max_chars": 100}}
    asked = {"policy": "agent-sdk-prune", "settings": settings, "at": 20, "window": 50_000}
    running = app(**asked)  # type: ignore[arg-type]
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        view = inspector(running).view
        assert (view.policy, view.point, view.session.window.tokens) == ("agent-sdk-prune", 20, 50_000)
        assert view.get_settings("agent-sdk-prune") == {"max_chars": 100}
        assert inspector(running).location.message == 20


async def test_digits_choose_policies_and_arrows_values() -> None:
    running = app()
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        screen = inspector(running)
        await pilot.press("4", "1", "left")
        assert screen.view.get_settings("defect-microcompact") == {"keep_recent_turns": 2}
        await settled(pilot)
        assert "clears 8 of 36 results" in drawn(running)
        await pilot.press("4")
        assert screen.view.policy == "agent-sdk-prune"


async def test_as_of_goes_to_the_selected_message_and_back() -> None:
    running = app()
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        screen = inspector(running)
        screen.query_one(Timeline).select_location(Location(24))
        screen.action_run("toggle_point")
        assert screen.view.point == 24
        await settled(pilot)
        assert "Planned before #24" in notice(screen) and "before #24" in drawn(running)
        screen.query_one(Timeline).select_location(Location(30))
        await pilot.press("full_stop")
        assert screen.view.at is None, "at another message too it goes back, as it says"
        await pilot.press("full_stop")
        assert screen.view.at == 30 and 30 not in screen.view.context.order
        await pilot.press("escape")
        assert screen.view.at is None


@pytest.mark.slow
async def test_what_was_applied_is_told_until_a_policy_is_chosen() -> None:
    running = app()
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        screen = inspector(running)
        plan = screen.view.plan
        assert plan is not None
        row = max(plan.changes)
        here = Location(plan.context.facts.block_message[row], row)
        screen.query_one(Timeline).select_location(here)
        await pilot.press("a")
        await until(pilot, lambda: screen.view.session.origin)
        await settled(pilot)
        assert screen.location == here and screen.controller.marker.find_mark(*here).verdict == "cleared"
        assert "- cleared when the plan was applied" in wrapped_text(screen.query_one(Detail))
        assert "would be" not in wrapped_text(screen.query_one(Detail))
        request = compute_next_request(plan, token_table=build_calibrated_table(plan.context.facts))
        told = (
            f"Applied defect-microcompact: next request ~{request.tokens_before:,} → ~{request.tokens_after:,} tokens"
        )
        assert told in notice(screen) and "6 blocks cleared" in notice(screen)
        assert "applied: next request " in drawn(running) and "u undoes it, e exports it" in drawn(running)
        assert screen.query_one(Scoreboard).current == ""
        await pilot.press("a")
        assert isinstance(running.screen, InspectorScreen) and screen.view.applied, "there is nothing to apply"
        await pilot.press("1")
        assert screen.view.applied is None and screen.view.plan is not None
        await pilot.press("u", "U")
        await settled(pilot)
        assert screen.view.session.origin and screen.view.plan is not None, "the view that was left"


@pytest.mark.slow
async def test_angle_brackets_go_to_what_the_plan_changes() -> None:
    running = app()
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        screen = inspector(running)
        plan = screen.view.plan
        assert plan is not None
        facts = screen.view.session.facts
        places = [Location(facts.block_message[row], row) for row in plan.changes]
        found = []
        for _ in range(len(places) + 1):
            await pilot.press("greater_than_sign")
            found.append(screen.location)
        assert found == [*places, places[0]], "around the end"
        await pilot.press("Z", "less_than_sign")
        assert screen.location == places[-1], "the turn that it stands in is opened"
        await pilot.press("6", "greater_than_sign")
        assert screen.location == places[-1], "by hand nothing is marked yet"


@pytest.mark.slow
async def test_focus_comes_back_when_the_terminal_is_large_enough_again() -> None:
    running = app()
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        screen = inspector(running)
        screen.query_one(ParameterPanel).rows.focus()
        await pilot.pause()
        await pilot.resize_terminal(50, 10)
        await until(pilot, lambda: screen.has_class("-tiny"))
        await pilot.pause()
        await pilot.resize_terminal(40, 10)
        await pilot.resize_terminal(*WIDE)
        await until(pilot, lambda: running.focused is screen.query_one(ParameterPanel).rows)
        await pilot.press("right")
        assert screen.view.get_settings("defect-microcompact") == {"keep_recent_turns": 4}
        screen.query_one(Timeline).focus()
        await pilot.press("backspace")
        assert not screen.view.get_settings("defect-microcompact"), "the hint's key, wherever the focus is"


async def test_jumps_plan_as_of_points_of_interest() -> None:
    running = app(window=30_000)
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        screen = inspector(running)
        assert [point.at for point in screen.controller.jump_points], "the trigger fires somewhere"
        screen.action_run("move_to_jump_point", 1)
        await settled(pilot)
        assert screen.view.at == screen.controller.jump_points[0].at and screen.controller.jump_points[
            0
        ].reason in notice(screen)


async def test_the_whole_screen_is_painted_once_a_notification_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Textual loses the region below a toast that is removed while other widgets are drawn."""
    running, painted = app(), list[int]()
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        compositor = inspector(running)._compositor
        paint = compositor.render_full_update

        def record(simplify: bool = False) -> object:
            painted.append(len(running._notifications))
            return paint(simplify)

        monkeypatch.setattr(compositor, "render_full_update", record)
        running.notify("news", timeout=0.1)
        await until(pilot, lambda: len(running._notifications) == 1)
        await until(pilot, lambda: bool(painted) and painted[-1] == 0)
        assert not inspector(running).query("Toast")


async def test_turns_are_gone_through() -> None:
    running = app()
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        screen = inspector(running)
        screen.action_run("move_to_turn", -1)
        assert screen.location == Location(40, TURN_HEAD)
        screen.action_run("move_to_turn", -1)
        assert screen.location == Location(32, TURN_HEAD)
        screen.action_run("move_to_turn", 1)
        assert screen.location == Location(40, TURN_HEAD)


@pytest.mark.slow
async def test_one_key_sorts_wherever_the_focus_is_and_another_shows_more() -> None:
    running = app(from_messages([{"role": "user", "content": "x" * (MAX_SHOWN_CHARS + 1)}]))
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        screen = inspector(running)
        detail = screen.query_one(Detail)
        await pilot.press("space", "o")
        assert screen.view.by_size and isinstance(screen.focused, Detail)
        await pilot.press("o", "x", "end")
        assert not screen.view.by_size and "press x" not in wrapped_text(detail)
        assert wrapped_text(detail).count("x") == MAX_SHOWN_CHARS + 1


async def test_enter_goes_from_a_call_to_its_result_and_back() -> None:
    running = app()
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        screen = inspector(running)
        timeline = screen.query_one(Timeline)
        timeline.select_location(Location(1))
        await pilot.press("enter")
        assert screen.location.message == 2 and screen.location.block >= 0
        await pilot.press("enter")
        assert screen.location == Location(1)
        timeline.select_location(Location(0))
        await pilot.press("enter")
        assert isinstance(screen.focused, Detail), "a message without a call is opened"


@pytest.mark.slow
async def test_an_applied_plan_is_undone_and_redone() -> None:
    running = app()
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        screen = inspector(running)
        before = screen.view.session
        await screen.run_action("dialog('apply_plan')")
        await until(pilot, lambda: screen.view.session is not before)
        await settled(pilot)
        after = screen.view.session
        assert after.origin == "defect-microcompact" and "u undoes it" in notice(screen)
        assert screen.view.plan is None and screen.view.applied, "it is not planned anew at once"
        screen.action_run("undo")
        assert screen.view.session is before
        screen.action_run("redo")
        assert screen.view.session is after


@pytest.mark.slow
async def test_what_was_told_goes_with_the_view_that_it_was_about() -> None:
    running = app()
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        screen = inspector(running)
        await screen.run_action("dialog('apply_plan')")
        await until(pilot, lambda: screen.view.session.origin)
        screen.action_run("undo")
        await pilot.pause()
        assert ["Back to 48 messages" in each.message for each in running._notifications] == [True]
        screen.action_run("redo")
        await pilot.pause()
        assert not len(running._notifications)


async def test_one_point_to_jump_to_is_told() -> None:
    running = app(window=10_000_000)
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        screen = inspector(running)
        screen.action_run("move_to_jump_point", 1)
        await settled(pilot)
        assert "peak of 27,810 tokens recorded by the request of message 47" in notice(screen)
        screen.action_run("move_to_jump_point", 1)
        await pilot.pause()
        assert "No other jump points: peak of 27,810 tokens" in next(iter(running._notifications)).message


async def test_a_plan_that_changes_nothing_is_not_applied() -> None:
    running = app(session(1))
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        await inspector(running).run_action("dialog('apply_plan')")
        await settled(pilot)
        assert not isinstance(running.screen, ApplyScreen) and not inspector(running).view.undo_stack


@pytest.mark.slow
async def test_leaving_with_a_result_asks_once() -> None:
    running = app()
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        screen = inspector(running)
        await screen.run_action("dialog('apply_plan')")
        await until(pilot, lambda: bool(screen.view.undo_stack))
        await pilot.press("q")
        await until(pilot, lambda: isinstance(running.screen, ChoicePrompt))
        await pilot.press("s")
        await until(pilot, lambda: running.screen is screen)
        await pilot.press("q")
        await until(pilot, lambda: isinstance(running.screen, ChoicePrompt))
        await pilot.press("q")
        await until(pilot, lambda: not running.is_running)


async def test_leaving_without_one_asks_nothing() -> None:
    running = app()
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        await pilot.press("q")
        await until(pilot, lambda: not running.is_running)
    assert not running.return_code


async def test_leaving_before_there_is_a_screen() -> None:
    running = app()
    running.open_first_screen = lambda: None  # type: ignore[method-assign]
    async with running.run_test(size=WIDE) as pilot:
        await pilot.press("q")
        await until(pilot, lambda: not running.is_running)


async def test_marks_by_hand() -> None:
    running = app()
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        screen = inspector(running)
        timeline = screen.query_one(Timeline)
        screen.action_run("toggle_mark")
        assert screen.view.policy != "manual", "the last message is no result"
        timeline.select_location(Location(2, next(iter(screen.view.session.facts.blocks_of(2)))))
        screen.action_run("toggle_mark")
        assert screen.view.get_settings("manual") == {"clear": ((2, 0),)}
        timeline.select_location(Location(24))
        screen.action_run("toggle_cut")
        assert screen.view.plan is not None and screen.view.plan.boundary == 24


@pytest.mark.slow
async def test_finding_counts_and_goes_through() -> None:
    running = app()
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        screen = inspector(running)
        await pilot.press("slash")
        screen.query_one(Input).value = "rotate"
        await until(pilot, lambda: screen.controller.search.is_finished)
        await settled(pilot)
        assert len(screen.controller.search.locations) == 6 and "6 rows" in drawn(running)
        await pilot.press("enter")
        assert screen.location == Location(0)
        screen.action_match(1)
        assert screen.location == Location(8)
        screen.action_match(-1)
        await settled(pilot)
        assert "1 of 6 rows" in drawn(running)
        await pilot.press("escape")
        assert not screen.query_one(SearchBar).display and screen.query_one(Timeline).has_focus


@pytest.mark.slow
async def test_what_is_hidden_for_want_of_room_gives_the_focus_to_the_timeline() -> None:
    running = app()
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        screen = inspector(running)
        screen.query_one(Scoreboard).focus()
        for size in ((60, 20), (40, 10), (60, 20)):
            await pilot.pause()
            await pilot.resize_terminal(*size)
        await until(pilot, lambda: screen.query_one(Timeline).has_focus)


@pytest.mark.slow
async def test_entering_a_text_before_it_was_found_goes_to_the_first_match() -> None:
    running = app()
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        screen = inspector(running)
        burst(running, "slash", *"Step 3", "enter")
        await until(pilot, lambda: screen.location == Location(24))
        assert not running._notifications and screen.controller.search.pending_step == 0
        burst(running, "slash", *"no such", "enter")
        await until(pilot, lambda: any("No matches" in each.message for each in running._notifications))


@pytest.mark.slow
async def test_a_search_is_about_the_session_that_is_shown() -> None:
    running = app()
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        screen = inspector(running)
        await pilot.press("slash", *"Step 5", "enter")
        await until(pilot, lambda: screen.location == Location(40))
        before = screen.view.session
        after = from_messages(conversation(6)[32:])
        screen.run_command(screen.controller.change_view, screen.view.with_session(after))
        await until(pilot, lambda: screen.controller.search.is_finished)
        assert screen.controller.search.locations == [Location(8), Location(15)]
        screen.run_command(screen.controller.change_view, screen.view.with_session(before))
        await until(pilot, lambda: screen.controller.search.is_finished)
        assert screen.controller.search.locations == [Location(40), Location(47)]


@pytest.mark.slow
async def test_filters_are_chosen_and_taken_away() -> None:
    running = app()
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        screen = inspector(running)
        await pilot.press("f")
        assert isinstance(running.screen, FilterScreen)
        running.screen.dismiss(("verdict", "cleared"))
        await settled(pilot)
        timeline = screen.query_one(Timeline)
        assert timeline.listed_count == 6 and "cleared" in screen.query_one(ColumnHeads).title
        screen.action_run("toggle_sort")
        assert timeline.listed_count == 6
        await pilot.press("escape")
        assert timeline.listed_count == len(screen.controller.rows)


@pytest.mark.slow
async def test_the_breakdown_filters_the_timeline() -> None:
    running = app()
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        screen = inspector(running)
        screen.action_breakdown()
        await settled(pilot)
        assert screen.query_one(ContentSwitcher).current == "breakdown"
        screen._filter_by_part("tool", "Bash")
        await settled(pilot)
        assert screen.view.filter.tool == "Bash" and screen.query_one(Timeline).listed_count == 36
        screen.action_back()
        assert screen.query_one(ContentSwitcher).current == "detail"


@pytest.mark.slow
async def test_the_window_is_asked_for() -> None:
    running = app()
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        screen = inspector(running)
        await pilot.press("w")
        await until(pilot, lambda: isinstance(running.screen, InputPrompt))
        running.screen.query_one(Input).value = "64k"
        await pilot.press("enter")
        await until(pilot, lambda: screen.view.session.window.tokens == 64_000)


async def test_what_was_believed_is_counted_once_while_the_cursor_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go = [], Event()

    def slowly(session: Session, checkpoint: Callable[[], object]) -> RuntimeSizes:
        begun.append(session)
        assert go.wait(20)
        return compute_runtime_sizes(session, checkpoint)

    monkeypatch.setattr("context_tui.tui.inspector.workers.compute_runtime_sizes", slowly)
    recording = session()
    running = app(replace(recording, info=replace(recording.info, format="defect")))
    async with running.run_test(size=WIDE) as pilot:
        await until(pilot, lambda: begun)
        screen = inspector(running)
        detail = screen.query_one(Detail)

        def shows(message: int) -> bool:
            return detail.location == Location(message)

        for message in (43, 45, 3):
            screen.query_one(Timeline).select_location(Location(message))
            await until(pilot, partial(shows, message))
            assert "context size before this message" not in wrapped_text(detail)
        go.set()
        await until(pilot, lambda: "context size before this message" in wrapped_text(detail))
        assert begun == [screen.view.session]
        screen.query_one(Timeline).select_location(Location(5))
        await until(pilot, partial(shows, 5))
        assert "context size before this message" in wrapped_text(detail)
    assert len(begun) == 1


@pytest.mark.slow
async def test_copies_are_the_logical_text(monkeypatch: pytest.MonkeyPatch) -> None:
    running = app()
    sent: list[str] = []
    monkeypatch.setattr(running, "copy_to_clipboard", sent.append)
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        screen = inspector(running)
        screen.query_one(Timeline).select_location(Location(0))
        screen.action_copy()
        screen.query_one(ParameterPanel).rows.focus()
        await pilot.pause()
        screen.action_copy()
        await pilot.press("a")
        await until(pilot, lambda: screen.view.session.origin)
        screen.action_copy()
    assert sent[0] == "Step 0: rotate the refresh tokens"
    assert sent[1:] == ["context-tui plan /tmp/refactor-auth.jsonl -P defect-microcompact"], "a copy is in no file"


async def test_half_a_surrogate_pair_can_be_copied() -> None:
    running = app(from_messages([{"role": "user", "content": "a \ud800 b"}]))
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        await pilot.press("y")
        assert running.clipboard == "a \ufffd b"


async def test_help_and_the_palette_know_every_key() -> None:
    running = app()
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        screen = inspector(running)
        offered = {command.title for command in running.get_system_commands(screen)}
        for key in build_bindings():
            assert isinstance(key, Binding)
            assert key.system or f"{key.description[0].upper()}{key.description[1:]}: {key.tooltip}" in offered
        await pilot.press("question_mark")
        assert isinstance(running.screen, HelpScreen)


async def test_the_palette_finds_commands_by_their_names_once() -> None:
    running = app()
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        offered = list(running.get_system_commands(inspector(running)))
        assert len({command.title for command in offered}) == len(offered)
        assert not {"Keys", "Maximize"} & {command.title for command in offered}
        (redo,) = [command for command in offered if command.title.startswith("Redo")]
        assert "," in redo.help
        for word in "export undo redo filter apply problems where find help window copy jump quit".split():
            scored = [(Matcher(word).match(command.title), command.title) for command in offered]
            best = max(scored, key=lambda each: each[0])[1]  # of equal ones the first, as the palette does
            assert best.casefold().startswith((f"{word}: ", "sweep: ")), (word, best)


def test_every_binding_has_an_id_a_description_and_a_tooltip() -> None:
    for owner in (Timeline, Detail, SearchBar, FilterScreen):
        for binding in owner.BINDINGS:
            assert binding.id and binding.description and binding.tooltip, binding  # type: ignore[union-attr]
    bindings = [binding for binding in build_bindings() if isinstance(binding, Binding)]
    assert len(bindings) == len(build_bindings())
    assert len({binding.id for binding in bindings}) == len(bindings)
    for binding in bindings:
        assert binding.id and binding.description and binding.tooltip, binding
        target = ContextTuiApp if binding.action.startswith("app.") else InspectorScreen
        assert hasattr(target, f"action_{binding.action.removeprefix('app.').partition('(')[0]}"), binding


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (60, 20), (100, 30), (160, 50)], ids=str)
async def test_it_fits(size: tuple[int, int]) -> None:
    running = app()
    async with running.run_test(size=size) as pilot:
        await settled(pilot)
        assert running.screen.query_one(Timeline).region.height >= 4
        if size[0] >= 80:
            assert footer_fits(running)
        assert running.screen.query_one(Footer).region.bottom == size[1]


@pytest.mark.slow
async def test_too_small_a_terminal_is_told() -> None:
    running = app()
    async with running.run_test(size=(50, 15)) as pilot:
        await settled(pilot)
        assert "needs 60 columns" in drawn(running)
        await pilot.resize_terminal(100, 30)
        await settled(pilot)
        assert "needs 60 columns" not in drawn(running) and "timeline" in drawn(running)


async def test_narrow_terminals_show_the_detail_in_place_of_the_timeline() -> None:
    running = app()
    async with running.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        screen = inspector(running)
        assert not screen.query_one("#side").region
        await pilot.press("space")
        assert screen.query_one("#side").region and not screen.query_one("#left").region
        await pilot.press("escape")
        assert screen.query_one("#left").region and screen.query_one(Timeline).has_focus


async def test_an_empty_session_has_words() -> None:
    running = app(session(0))
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        assert "No messages" in notice(inspector(running))
        for command in ("toggle_point", "move_to_turn, 1", "move_to_jump_point, 1", "toggle_sort", "undo"):
            name, *arguments = command.split(", ")
            inspector(running).action_run(name, *map(int, arguments))
        for action in ("breakdown", "copy", "apply", "match(1)"):
            await inspector(running).run_action(action)
        await settled(pilot)
        await pilot.press("t")
        await settled(pilot)
        assert running.screen is inspector(running)
        assert "No messages in this session" in [each.message for each in running._notifications]


async def test_nothing_but_plain_characters_is_drawn_when_asked_for() -> None:
    running = app(session(compacted=True), ascii=True)
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        inside = "".join(strip.text for strip in running.screen._compositor.render_strips())
        assert not {char for char in inside if ord(char) > 126}


async def test_a_detail_that_was_hidden_is_there_when_it_is_shown() -> None:
    running = app()
    async with running.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        inspector(running).query_one(Timeline).select_location(Location(1))
        await settled(pilot)
        await pilot.press("space")
        await pilot.pause()
        assert "call Read src/auth0.py" in drawn(running)


async def test_a_huge_message_is_read_beside_the_screen() -> None:
    call = {"type": "tool_use", "id": "1", "name": "Bash", "input": {"command": "cat huge"}}
    result = {"type": "tool_result", "tool_use_id": "1", "content": "0123456789\n" * 600_000}
    made = from_messages([{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}])
    running = app(made)
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        screen = inspector(running)
        assert "Bash cat huge" in drawn(running) and "2,062,500" in drawn(running)
        await until(pilot, lambda: screen.query_one(Detail).location == Location(1, 1))
        await settled(pilot)
        assert "0123456789" in drawn(running)


async def test_the_demo_begins_where_something_is_cleared() -> None:
    running = app(demo=True)
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        screen = inspector(running)
        assert screen.controller.marker.find_mark(*screen.location).verdict == "cleared"
        assert "Sample session" in notice(screen)


async def test_a_dialog_is_not_covered_by_what_was_said_before() -> None:
    running = app()
    async with running.run_test(size=(60, 20)) as pilot:
        await settled(pilot)
        await pilot.press("p")
        assert running._notifications
        await pilot.press("w")
        await until(pilot, lambda: "Context window in tokens" in drawn(running))
        await pilot.pause()
        assert not running._notifications


@pytest.mark.slow
async def test_what_is_said_fits_when_the_terminal_gets_smaller() -> None:
    running = app()
    async with running.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        assert "Next: b shows what fills it" in notice(inspector(running))
        await pilot.resize_terminal(60, 26)
        await settled(pilot)
        assert len(notice(inspector(running))) <= 58 and "? help" in drawn(running)
        await pilot.press("full_stop")
        await settled(pilot)
        await pilot.resize_terminal(40, 10)
        await settled(pilot)
        shown = drawn(running)
        assert "enlarge" in shown and "Planned before" not in shown


@pytest.mark.slow
async def test_a_value_is_typed_from_anywhere_and_what_takes_none_says_so() -> None:
    running = app()
    async with running.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        screen = inspector(running)
        await pilot.press("equals_sign", "5", "enter")
        assert screen.view.get_settings("defect-microcompact") == {"keep_recent_turns": 5}
        await pilot.press("escape", "6", "equals_sign")
        assert "no value to type" in "".join(each.message for each in running._notifications)


@pytest.mark.slow
async def test_the_policies_are_gone_through_by_the_mouse() -> None:
    running = app(policy="manual")
    async with running.run_test(size=(160, 40)) as pilot:
        await settled(pilot)
        await pilot.click(next(each for each in running.screen.query(FooterKey) if each.description == "policy"))
        await until(pilot, lambda: bool(running.screen.query(CommandList)))
        await until(pilot, lambda: "1 defect-microcompact" in drawn(running))
        await pilot.click(CommandList, offset=(10, 1))
        await until(pilot, lambda: inspector(running).view.policy == "defect-microcompact")


@pytest.mark.slow
async def test_what_was_applied_in_the_reader_is_told_at_once() -> None:
    running = app(window=20_000)
    async with running.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await pilot.press("v")
        assert "No message is open" in "".join(each.message for each in running._notifications)
        await pilot.press("space", "a")
        await until(pilot, lambda: inspector(running).view.applied is not None)
        await until(pilot, lambda: "Applied defect-microcompact" in drawn(running))
        await settled(pilot)
        assert running.focused is inspector(running).query_one(Timeline)


@pytest.mark.slow
async def test_quitting_where_a_plan_is_applied_before_the_export() -> None:
    """It ends at once and without a traceback, though the export waits for what is applied."""
    running = app()
    async with running.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await pilot.press("2", "e")
        await until(pilot, lambda: isinstance(running.screen, ChoicePrompt))
        await pilot.press("a")
        await until(pilot, lambda: isinstance(running.screen, ApplyScreen))
        running.exit()
    assert running.return_code == 0
