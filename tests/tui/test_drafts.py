"""Drafts: what a model wrote is kept however the call ends, says how it ended, and waits until the screen is back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import httpx
import pytest
from textual.binding import Binding
from textual.pilot import Pilot
from textual.widgets import Static, TextArea

from context_tui.summarizer.reply import ReplyUsage, Summary
from context_tui.tui.apply.screen import APPLY_BINDINGS, ApplyScreen, Phase
from context_tui.tui.apply.texts import format_draft_ending, format_drafts
from context_tui.tui.drafts import Draft, DraftEnding, Drafts, compute_plan_key, find_initial_draft
from context_tui.tui.widgets.dialogs import ChoicePrompt
from context_tui.tui.widgets.reading_pane import ReadingPane
from tests.tui.fakes import ENVIRONMENT, GOOD, Server, Shell, drawn, footer_fits, planned, until, wrapped_text
from tests.tui.inspecting import app as application
from tests.tui.inspecting import inspector, settled

pytestmark = pytest.mark.slow


class Unsteady(Server):
    """A server that answers each call as the next word says, and from then on as the last one does.

    ``whole``; ``hangs`` or ``breaks`` off after a few pieces; ``silent`` before the first; ``dead``: nobody is there.
    """

    def __init__(self, *moods: str, text: str = GOOD) -> None:
        super().__init__(text)
        self._moods, self._mood = list(moods), ""

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self._mood = self._moods.pop(0) if len(self._moods) > 1 else self._moods[0]
        if self._mood == "dead":
            self.bodies.append({})
            raise httpx.ConnectError("[Errno 111] Connection refused")
        self._until = {"hangs": 4, "silent": 0}.get(self._mood)
        return super()._answer(request)

    async def pieces(self) -> AsyncIterator[bytes]:
        """The reply, as far as it goes."""
        sent = 0
        async for piece in super().pieces():
            yield piece
            sent += 1
            if self._mood == "breaks" and sent == 6:
                raise httpx.RemoteProtocolError("peer closed connection without sending complete message body")


def screen(server: Server, drafts: Drafts | None = None, **arguments: Any) -> ApplyScreen:
    session, plan = planned(arguments.pop("policy", "defect-compact"))
    given = {"kind": "anthropic", "environ": ENVIRONMENT, "transport": server, **arguments}
    return ApplyScreen(session, plan, drafts=drafts, **given)


def status(app: Shell[ApplyScreen]) -> str:
    return str(app.screen.query_one("#apply-status", Static).content)


def summary(app: Shell[ApplyScreen]) -> str:
    return app.first.query_one("#apply-summary", ReadingPane).source_text


def listed(app: Shell[ApplyScreen]) -> str:
    return str(app.first.query_one("#apply-drafts", Static).content)


def footer(app: Shell[ApplyScreen]) -> list[str]:
    return [str(getattr(key, "description", "")) for key in app.screen.query("FooterKey")]


async def begun(pilot: Pilot[Any], app: Shell[ApplyScreen]) -> None:
    """Send, and wait until something has come."""
    await until(pilot, lambda: app.first.phase is Phase.READY)
    await pilot.press("enter")
    await until(pilot, lambda: summary(app).startswith("## Goal"))


async def failed(pilot: Pilot[Any], app: Shell[ApplyScreen]) -> None:
    await until(pilot, lambda: app.first.phase is Phase.FAILED)


async def test_stopping_in_the_middle_keeps_what_came() -> None:
    server = Unsteady("hangs", "whole")
    app = Shell(screen(server))
    async with app.run_test(size=(80, 24)) as pilot:
        await begun(pilot, app)
        written = summary(app)
        assert footer(app) == ["help", "stop", "pane"]
        await pilot.press("escape")
        assert summary(app) == written.strip()
        assert "● 1 stopped by you after est. 20 tokens · asked" in drawn(app)
        assert "✗ incomplete: stopped by you" in drawn(app)
        assert footer(app) == ["send again", "accept", "edit", "help", "close", "pane"]
        await pilot.press("enter")
        await until(pilot, lambda: summary(app) == GOOD.strip())
        await until(pilot, lambda: app.first.phase is Phase.DONE)
        assert [each.ending for each in app.first.drafts] == [DraftEnding.FINISHED, DraftEnding.STOPPED]
        assert app.first.drafts[1].text == written.strip()
        assert footer(app) == ["accept", "edit", "write again", "draft", "help", "close", "pane"]


async def test_stopping_and_sending_again_in_one_burst() -> None:
    server = Unsteady("hangs", "whole")
    app = Shell(screen(server))
    async with app.run_test() as pilot:
        await begun(pilot, app)
        for key in ("escape", "enter"):
            app.simulate_key(key)
        await until(pilot, lambda: app.first.phase is Phase.DONE and len(server.bodies) == 2)
        assert [each.ending for each in app.first.drafts] == [DraftEnding.FINISHED, DraftEnding.STOPPED]
        assert summary(app) == GOOD.strip()


async def test_stopping_before_anything_came_leaves_no_draft() -> None:
    server = Unsteady("silent")
    app = Shell(screen(server))
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.first.phase is Phase.READY)
        await pilot.press("enter")
        await until(pilot, lambda: server.bodies)
        await pilot.press("escape")
        assert not app.first.drafts
        assert app.first.phase is Phase.READY
        said = wrapped_text(app.first.query_one("#apply-summary", ReadingPane)).replace("\n", " ")
        assert "the messages were sent to localhost:9. Press enter to send them again." in said


async def test_a_server_that_dies_in_the_middle_leaves_a_draft_and_enter_sends_again() -> None:
    app = Shell(screen(Unsteady("breaks", "whole")))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.first.phase is Phase.READY)
        await pilot.press("enter")
        await failed(pilot, app)
        assert summary(app).startswith("## Goal\n- about src/auth.py")
        assert "the connection to localhost:9 broke before the reply was complete" in status(app)
        assert "The text so far is kept as draft 1." in status(app)
        assert "cut off after est. 20 tokens: the server closed the connection" in listed(app)
        assert "send again" in footer(app)
        await pilot.press("enter")
        await until(pilot, lambda: app.first.phase is Phase.DONE)
        assert summary(app) == GOOD.strip()
        assert [each.ending for each in app.first.drafts] == [DraftEnding.FINISHED, DraftEnding.CUT_OFF]


async def test_failing_again_in_one_burst_of_keys() -> None:
    server = Unsteady("dead")
    app = Shell(screen(server))
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.first.phase is Phase.READY)
        await pilot.press("enter")
        await failed(pilot, app)
        for key in ("a", "e", "enter", "enter"):  # nothing to accept or edit; sent once
            app.simulate_key(key)
        await until(pilot, lambda: len(server.bodies) == 2)
        await failed(pilot, app)
        await pilot.pause()
        assert len(server.bodies) == 2
        assert not app.first.drafts
        assert not app.answers
        said = wrapped_text(app.first.query_one("#apply-summary", ReadingPane)).replace("\n", " ")
        assert "Press enter to send the messages to localhost:9 again." in said


async def test_a_retry_against_a_dead_server_keeps_the_finished_summary() -> None:
    app = Shell(screen(Unsteady("whole", "dead")))
    async with app.run_test() as pilot:
        await begun(pilot, app)
        await until(pilot, lambda: app.first.phase is Phase.DONE)
        await pilot.press("r")
        await failed(pilot, app)
        assert "localhost:9 refused the connection" in status(app)
        assert summary(app) == GOOD.strip()
        assert "● 1 finished" in listed(app)
        await pilot.press("a")
        await until(pilot, lambda: app.answers)
    assert app.answers[0] is not None


async def test_stopping_a_retry_before_it_began_shows_the_finished_summary() -> None:
    server = Unsteady("whole", "silent")
    app = Shell(screen(server))
    async with app.run_test() as pilot:
        await begun(pilot, app)
        await until(pilot, lambda: app.first.phase is Phase.DONE)
        await pilot.press("r")
        await until(pilot, lambda: len(server.bodies) == 2)
        await pilot.press("escape")
        assert summary(app) == GOOD.strip()
        assert len(app.first.drafts) == 1


async def test_what_a_first_model_wrote_is_kept_when_another_is_asked() -> None:
    app = Shell(screen(Unsteady("breaks", "whole", text="## Decisions\n- none\n" * 9), policy="agent-sdk-compact"))
    app.first.session.facts.model = "own-model"
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.first.phase is Phase.READY)
        await pilot.press("enter")
        await until(pilot, lambda: app.first.phase is Phase.DONE)
        assert [(each.author, each.ending) for each in app.first.drafts] == [
            ("own-model", DraftEnding.FINISHED),
            ("asked", DraftEnding.CUT_OFF),
        ]
        assert app.first.drafts[1].cause == "the server closed the connection"


async def test_a_screen_that_is_taken_away_keeps_what_came() -> None:
    drafts = Drafts()
    app = Shell(screen(Unsteady("hangs"), drafts))
    async with app.run_test() as pilot:
        await begun(pilot, app)
        await app.pop_screen()
    assert [each.ending for each in drafts.list_drafts(compute_plan_key(*planned()))] == [DraftEnding.STOPPED]


async def test_a_draft_that_is_not_whole_is_accepted_only_after_a_question() -> None:
    app = Shell(screen(Unsteady("breaks")))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.first.phase is Phase.READY)
        await pilot.press("enter")
        await failed(pilot, app)
        written = summary(app)
        for key in ("a", "a", "enter"):  # the safe answer has the focus
            app.simulate_key(key)
        await pilot.pause()
        await until(pilot, lambda: app.screen is app.first)
        assert not app.answers
        await pilot.press("a")
        assert isinstance(app.screen, ChoicePrompt)
        assert "Accept a summary that is incomplete?" in drawn(app)
        assert "Draft 1 by asked was cut off after est. 20 tokens" in drawn(app)
        await pilot.press("n")
        assert not app.answers
        for key in ("a", "y"):
            app.simulate_key(key)
        await until(pilot, lambda: app.answers)
    assert app.answers[0].to_messages()[0]["content"][0]["text"].endswith(written)


async def test_editing_a_cut_draft_keeps_the_models_text_and_still_asks() -> None:
    app = Shell(screen(Unsteady("breaks")))
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.first.phase is Phase.READY)
        await pilot.press("enter")
        await failed(pilot, app)
        written = summary(app)
        await pilot.press("equals_sign")
        app.first.query_one(TextArea).text = GOOD
        await pilot.press("escape")
        assert [each.is_edited for each in app.first.drafts] == [True, False]
        assert app.first.drafts[1].text == written
        await pilot.press("a")
        assert isinstance(app.screen, ChoicePrompt)
        await pilot.press("y")
        await until(pilot, lambda: app.answers)
    assert app.answers[0] is not None


async def test_keys_and_clicks_go_between_drafts() -> None:
    app = Shell(screen(Unsteady("hangs", "whole"), kind="extract"))
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.first.phase is Phase.DONE)
        await pilot.press("2")
        await begun(pilot, app)
        await pilot.press("escape", "enter")
        await until(pilot, lambda: app.first.phase is Phase.DONE)
        assert [each.number for each in app.first.drafts] == [3, 2, 1]
        seen = []
        for key in ("d", "d", "d", "D"):
            await pilot.press(key)
            assert app.first.shown_draft is not None
            seen.append((app.first.shown_draft.number, app.first.kind))
            assert summary(app) == app.first.shown_draft.text
        assert seen == [(2, "anthropic"), (1, "extract"), (3, "anthropic"), (1, "extract")]
        await pilot.click("#apply-drafts", offset=(16, 1))
        await until(pilot, lambda: app.first.shown_draft and app.first.shown_draft.number == 2)
        for key in ("D", "a"):  # what is accepted is what the key before went to
            app.simulate_key(key)
        await until(pilot, lambda: app.answers)
    assert app.answers[0].to_messages()[0]["content"][0]["text"].endswith(GOOD.strip())


async def test_an_extract_that_comes_out_the_same_is_one_draft() -> None:
    app = Shell(screen(Server(), kind="extract"))
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.first.phase is Phase.DONE)
        await pilot.press("r")
        await until(pilot, lambda: app.first.phase is Phase.DONE)
        assert len(app.first.drafts) == 1


async def test_a_draft_is_not_written_again_by_another_server_than_before() -> None:
    drafts = Drafts()
    environ = {**ENVIRONMENT, "ANTHROPIC_API_KEY": "k"}
    app = Shell(screen(Unsteady("hangs"), drafts, environ=environ))
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.first.phase is Phase.READY)
        await pilot.press("b", *["backspace"] * 30, *"http://localhost:7", "enter")
        await begun(pilot, app)
        await pilot.press("escape", "escape")
        await until(pilot, lambda: app.answers)
    again = Shell(screen(Server(), drafts, kind="extract", environ=environ))
    async with again.run_test() as pilot:
        await until(pilot, lambda: again.first.prepared)
        assert again.first.shown_draft is not None and again.first.shown_draft.ending is DraftEnding.STOPPED
        assert "asked at localhost:7" in drawn(again)


def is_ready(opened: ApplyScreen) -> bool:
    return opened.phase is Phase.DONE and opened.prepared is not None


async def test_the_inspector_finds_the_drafts_of_a_plan_again() -> None:
    running = application(policy="defect-compact", settings={"defect-compact": {"threshold": 8_000}})
    async with running.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        for keys in (["equals_sign", "W", "X", "escape"], []):
            await inspector(running).run_action("dialog('apply_plan')")
            await until(pilot, lambda: isinstance(running.screen, ApplyScreen))
            opened = running.screen
            assert isinstance(opened, ApplyScreen)
            await until(pilot, partial(is_ready, opened))
            await pilot.press(*keys)
            assert opened.shown_draft is not None and opened.shown_draft.text.startswith("WX")
            assert "2 drafts  ● 2 finished" in drawn(running)
            assert running.drafts.list_drafts(compute_plan_key(opened.session, opened.plan)) == opened.drafts
            await pilot.press("escape")
            await until(pilot, lambda: running.screen is inspector(running))


async def test_what_is_edited_while_the_messages_are_read_is_not_lost() -> None:
    drafts = Drafts()
    drafts.add(compute_plan_key(*planned()), "anthropic", "m", written("whole"))
    app = Shell(screen(Server(), drafts))
    async with app.run_test() as pilot:
        app.first.prepared, app.first.phase = None, Phase.DONE
        await pilot.press("equals_sign", "X")
        await app.first._prepare_summary().wait()
        await pilot.press("Y", "escape")
        assert app.first.shown_draft is not None and app.first.shown_draft.text == "XYwhole"


def test_each_key_has_words_for_the_palette() -> None:
    assert all(key.description and key.tooltip for key in APPLY_BINDINGS if isinstance(key, Binding) and key.id)


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (160, 50)])
async def test_every_state_fits_and_shows_its_focus(size: tuple[int, int]) -> None:
    app = Shell(screen(Unsteady("hangs", "breaks", "dead", "whole")))
    async with app.run_test(size=size) as pilot:

        def check(*words: str) -> None:
            assert footer_fits(app), footer(app)
            assert set(words) <= set(footer(app))
            shown_panes = [pane for pane in app.first.query("#apply-panes ReadingPane, TextArea") if pane.display]
            assert len(shown_panes) == 2
            assert all(pane.size.height >= 2 for pane in shown_panes), [pane.size for pane in shown_panes]
            shown = app.focused
            assert shown is not None
            accent = app.theme_variables["accent"].lower()
            assert shown.styles.border_top[1].hex.lower() == accent
            assert shown.styles.border_top[0] == "double"

        await until(pilot, lambda: app.first.phase is Phase.READY)
        check("send", "close", "pane")
        await begun(pilot, app)
        check("stop")
        await pilot.press("escape")
        await pilot.pause()
        check("send again", "accept", "edit", "close")
        for _ in range(2):
            await pilot.press("enter")
            await failed(pilot, app)
            await pilot.pause()
            check("send again", "accept", "edit", "close")
        await pilot.press("enter")
        await until(pilot, lambda: app.first.phase is Phase.DONE)
        await pilot.pause()
        check("accept", "edit", "write again", "draft", "close")
        await pilot.press("tab")
        check("accept")
        await pilot.press("equals_sign")
        await pilot.pause()
        check("finish editing")


def test_snapshot_drafts(snap_compare: Any) -> None:
    """Three drafts, the newest cut off and shown: why, what is missing, what the keys do; the summary has the focus."""

    async def fail(pilot: Pilot[Any]) -> None:
        app: Any = pilot.app
        await begun(pilot, app)
        await until(pilot, lambda: app.first.phase is Phase.DONE)
        await pilot.press("equals_sign", "X", "escape", "d", "r")
        await failed(pilot, app)

    assert snap_compare(Shell(screen(Unsteady("whole", "breaks"))), terminal_size=(80, 24), run_before=fail)


def written(text: str, model: str = "m") -> Summary:
    return Summary(text, model, ReplyUsage(), "", 1.0)


def test_drafts_are_numbered_newest_first_and_each_once() -> None:
    drafts = Drafts()
    first = drafts.add("p", "anthropic", "m", written("half"), DraftEnding.CUT_OFF, "the server closed the connection")
    second = drafts.add("p", "anthropic", "m", written("whole"))
    assert drafts.add("p", "anthropic", "m", written("whole")) is second
    assert drafts.list_drafts("p") == [second, first]
    assert not drafts.list_drafts("q")
    edited = drafts.edit("p", second, "by hand")
    assert drafts.edit("p", edited, "by hand, twice").number == edited.number == 3
    assert [each.text for each in drafts.list_drafts("p")] == ["by hand, twice", "whole", "half"]
    assert format_draft_ending(first) == "cut off after est. 1 token: the server closed the connection"


def test_a_models_draft_is_shown_first_and_an_extract_only_when_edited() -> None:
    drafts = Drafts()
    extract = drafts.add("p", "extract", "extract", written("quoted", ""))
    assert find_initial_draft(drafts.list_drafts("p")) is None
    edited = drafts.edit("p", extract, "by hand")
    assert find_initial_draft(drafts.list_drafts("p")) is edited


def test_the_list_shows_the_drafts_around_the_shown_one() -> None:
    all_of_them = [Draft(number, "anthropic", "m[/]\x1b", written("text"), "text") for number in range(9, 0, -1)]
    lines = format_drafts(all_of_them, all_of_them[5], 3).plain.splitlines()
    assert [line.strip() for line in lines] == [
        "9 drafts  ○ 5 finished, est. 1 token · m[/]␛",
        "● 4 finished, est. 1 token · m[/]␛",
        "○ 3 finished, est. 1 token · m[/]␛",
    ]
    assert "●" not in format_drafts(all_of_them, None, 3).plain
    assert not format_drafts([], None, 3).plain


async def test_quitting_asks_where_a_draft_would_be_lost() -> None:
    running = application()
    async with running.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        running.drafts.add("a plan", "anthropic", "m", Summary("What was done.", "m", ReplyUsage(), "end_turn", 1.0))
        running.drafts.add("a plan", "extract", "extract", Summary("What was said.", "", ReplyUsage(), "end_turn", 1.0))
        assert running.drafts.unaccepted_count == 1, "an extract is made again in no time"
        await pilot.press("q")
        await until(pilot, lambda: isinstance(running.screen, ChoicePrompt))
        assert "1 summary that was written is not accepted" in drawn(running)
        await pilot.press("s")
        await until(pilot, lambda: not isinstance(running.screen, ChoicePrompt))
        running.drafts.accept("a plan")
        await pilot.press("q")
        await until(pilot, lambda: not running.is_running)
