"""The apply screen: what is sent when, what a draft survives, and that a failure changes nothing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Static, TextArea

from context_tui.policies.planning import plan
from context_tui.session.memory import from_messages
from context_tui.summarizer.checks.summary_checks import SummaryCheck
from context_tui.summarizer.plan_summary import choose_summarizer
from context_tui.tokens.context_size import measure_context
from context_tui.tui.apply import screen as module
from context_tui.tui.apply.screen import ApplyScreen, Phase
from context_tui.tui.apply.texts import format_checks, format_destination, format_draft_ending, format_progress
from context_tui.tui.drafts import Drafts
from context_tui.tui.widgets.reading_pane import ReadingPane
from tests.tui.fakes import ENVIRONMENT, GOOD, SECRET, Server, Shell, drawn, footer_fits, planned, until, wrapped_text


def screen(server: Server | None = None, *, policy: str = "defect-compact", **arguments: object) -> ApplyScreen:
    session, plan = planned(policy)
    given = {"kind": "anthropic", "environ": ENVIRONMENT, "transport": server or Server(), **arguments}
    return ApplyScreen(session, plan, **given)  # type: ignore[arg-type]


def status(app: Shell[ApplyScreen]) -> str:
    return str(app.screen.query_one("#apply-status", Static).content)


def summary(app: Shell[ApplyScreen]) -> str:
    return wrapped_text(app.screen.query_one("#apply-summary", ReadingPane))


async def test_an_extract_is_made_at_once_and_sends_nothing() -> None:
    server = Server()
    app = Shell(screen(server, kind="extract"))
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.first.phase is Phase.DONE)
        assert "extract" in str(app.screen.query_one("#apply-summary").border_title)
        assert "nothing is sent" in str(app.screen.query_one("#apply-where", Static).content)
        await pilot.press("a")
        await until(pilot, lambda: app.answers)
    assert not server.bodies
    after = app.answers[0]
    assert len(after) == 9
    assert after.origin == "defect-compact"
    assert len(app.first.session) == 48


async def test_a_plan_is_applied_by_the_measure_on_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """By bytes / 4, nothing is calibrated, which would stop the screen for a moment."""
    monkeypatch.setattr("context_tui.compaction.apply.build_calibrated_table", None)
    app = Shell(screen(kind="extract"))
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.first.phase is Phase.DONE)
        await pilot.press("a")
        await until(pilot, lambda: app.answers)
    assert app.answers[0].origin == "defect-compact"


async def test_the_next_request_is_told_with_the_draft_that_is_shown_and_so_large_it_is() -> None:
    app = Shell(screen(kind="extract"))
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.first.phase is Phase.DONE)
        pane = app.screen.query_one("#apply-summary")
        shortly = str(pane.border_subtitle)
        await pilot.press("equals_sign")
        app.screen.query_one(TextArea).text += "\nand more of it" * 100
        await pilot.press("escape")
        told = str(pane.border_subtitle)
        assert told.startswith("next request ~") and told != shortly
        await pilot.press("a")
        await until(pilot, lambda: app.answers)
    assert told.endswith(f"→ ~{measure_context(app.answers[0].context_at()).tokens:,}")


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_an_edited_summary_is_on_screen_at_once(size: tuple[int, int]) -> None:
    app = Shell(screen(kind="extract"))
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: app.first.phase is Phase.DONE)
        await pilot.press("equals_sign")
        await pilot.pause(0.1)
        await pilot.press("W", "o", "W", "space", "escape")
        await until(pilot, lambda: "WoW [Extract" in drawn(app))


async def test_nothing_is_sent_before_enter() -> None:
    server = Server()
    app = Shell(screen(server))
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.first.phase is Phase.READY)
        for key in ("a", "e", "r", "m", "m", "space", "tab"):
            await pilot.press(key)
        where = str(app.screen.query_one("#apply-where", Static).content)
        assert "asked at localhost:9" in where
        assert "est. " in where
        assert not server.bodies
        await pilot.press("enter")
        await until(pilot, lambda: app.first.phase is Phase.DONE)
        assert len(server.bodies) == 1
        assert summary(app) == GOOD.strip()
        await pilot.press("a")
        await until(pilot, lambda: app.answers)
    assert app.answers[0].to_messages()[0]["content"][0]["text"].endswith(GOOD.strip())


@pytest.mark.parametrize("masked", [True, False])
async def test_secrets_are_counted_and_masked_unless_told_otherwise(masked: bool) -> None:
    server = Server()
    app = Shell(screen(server))
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.first.phase is Phase.READY)
        assert "10 AWS key id" in str(app.screen.query_one("#apply-secrets", Static).content)
        if not masked:
            await pilot.press("m")
            assert "NOT masked" in str(app.screen.query_one("#apply-secrets", Static).content)
        await pilot.press("enter")
        await until(pilot, lambda: app.first.phase is Phase.DONE)
    assert (SECRET in json.dumps(server.bodies[0])) is not masked


def test_the_proxy_is_told_before_anything_is_sent() -> None:
    _, made = planned()
    environ = {"ANTHROPIC_BASE_URL": "http://far.test", "HTTP_PROXY": "proxy.test:3128"}
    assert "at far.test through the proxy proxy.test:3128" in format_destination(
        choose_summarizer(made, "anthropic", environ=environ), None
    )


async def test_cancelling_closes_the_connection_and_changes_nothing() -> None:
    server = Server(until=4)
    app = Shell(screen(server))
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.first.phase is Phase.READY)
        await pilot.press("enter")
        await until(pilot, lambda: summary(app).startswith("## Goal"))
        assert "est. " in str(app.screen.query_one("#apply-summary").border_title)
        await pilot.press("escape")
        assert app.first.phase is Phase.DONE
        assert re.search(r"Stopped after \d+ s; the session is unchanged", status(app))
        await until(pilot, lambda: server.closed)
        assert not app.answers
        await pilot.press("escape")
        await until(pilot, lambda: app.answers)
    assert app.answers == [None]


@pytest.mark.slow
async def test_a_summarizer_that_cannot_be_asked_says_so_and_the_edited_extract_stays() -> None:
    app = Shell(screen(kind="extract", environ={}))
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.first.phase is Phase.DONE)
        await pilot.press("equals_sign", "W", "X", "Y", "escape")
        assert summary(app).startswith("WXY")
        await pilot.press("3")
        assert "Cannot use openai: no key" in summary(app)
        assert "2 drafts  ○ 2 finished" in drawn(app)
        await pilot.press("enter")
        assert status(app).startswith("✗ no key for") and "OPENAI" in status(app)
        await pilot.press("1")
        assert summary(app).startswith("WXY")
        assert not status(app)


async def test_a_slow_first_token_is_said() -> None:
    app = Shell(screen(Server(until=0)))
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.first.phase is Phase.READY)
        await pilot.press("enter")
        title = app.screen.query_one("#apply-summary")
        await until(pilot, lambda: "waiting for the first token" in str(title.border_title))
    assert format_progress("", 120, 3) == "3 s · thinking, 120 characters"


async def test_a_failure_says_why_and_can_be_retried() -> None:
    server = Server(fail=1)
    app = Shell(screen(server))
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.first.phase is Phase.READY)
        await pilot.press("enter")
        await until(pilot, lambda: app.first.phase is Phase.FAILED)
        assert "localhost:9" in status(app)
        assert "the session is unchanged" in summary(app)
        await pilot.press("a", "equals_sign")
        assert app.first.phase is Phase.FAILED
        await pilot.press("enter")
        await until(pilot, lambda: app.first.phase is Phase.DONE)
        assert not app.answers


@pytest.mark.parametrize(
    ("text", "stop", "said"),
    [
        ("", "end_turn", ""),
        (
            "## Goal\n- half",
            "max_tokens",
            "cut off after est. 3 tokens: the limit on its length was reached (max_tokens)",
        ),
        ("no", "refusal", "cut off after est. 0 tokens: the model refused"),
    ],
)
async def test_a_reply_that_is_no_summary_is_a_failure(text: str, stop: str, said: str) -> None:
    app = Shell(screen(Server(text, stop=stop)))
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.first.phase is Phase.READY)
        await pilot.press("enter")
        await until(pilot, lambda: app.first.phase is Phase.FAILED)
        assert status(app).startswith("✗ ")
        assert [format_draft_ending(draft) for draft in app.first.drafts] == ([said] if said else [])
        assert summary(app) == text or not text


@pytest.mark.slow
async def test_a_draft_survives_closing_and_reopening() -> None:
    drafts = Drafts()
    first = Shell(screen(drafts=drafts))
    async with first.run_test() as pilot:
        await until(pilot, lambda: first.first.phase is Phase.READY)
        await pilot.press("enter")
        await until(pilot, lambda: first.first.phase is Phase.DONE)
        await pilot.press("equals_sign")
        editor = first.screen.query_one(TextArea)
        editor.text = "## Goal\n- by hand"
        await pilot.press("escape", "escape")
        await until(pilot, lambda: first.answers)
    again = Shell(ApplyScreen(first.first.session, first.first.plan, drafts=drafts, kind="extract", transport=Server()))
    async with again.run_test() as pilot:
        await until(pilot, lambda: again.first.phase is Phase.DONE)
        assert again.first.kind == "anthropic"
        assert summary(again) == "## Goal\n- by hand"
        assert "edited" in str(again.screen.query_one("#apply-summary").border_title)


@pytest.mark.slow
async def test_a_summary_that_fails_a_check_is_asked_about() -> None:
    app = Shell(screen(Server("- the same line\n" * 5)))
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.first.phase is Phase.READY)
        await pilot.press("enter")
        await until(pilot, lambda: app.first.phase is Phase.DONE)
        assert "✗ repetition" in drawn(app)
        await pilot.press("a", "a")
        assert "Accept a summary that fails a check?" in drawn(app)
        assert "repetition: 5 times: - the same line" in drawn(app)
        await pilot.press("enter")
        assert app.screen is app.first
        assert not app.answers
        await pilot.press("a", "y")
        await until(pilot, lambda: app.answers)
    assert app.answers[0] is not None


async def test_typed_instructions_that_a_summary_lacks_are_counted_and_put_back() -> None:
    said = [("user", "Never touch the ledger. Use pnpm for every script. Go."), ("assistant", "ok"), ("user", "on")]
    messages = [{"role": role, "content": text} for role, text in said]
    messages += [{"role": "assistant", "content": "ok"}, {"role": "user", "content": "and on"}] * 12
    session = from_messages(messages)
    server = Server("The user works on a ledger and wants pnpm for every script.")
    app = Shell(
        ApplyScreen(
            session,
            plan(session, "defect-compact"),
            kind="anthropic",
            environ=ENVIRONMENT,
            transport=server,
        )
    )
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: app.first.phase is Phase.READY)
        await pilot.press("i", "enter")
        await until(pilot, lambda: app.first.phase is Phase.DONE)
        checks = app.screen.query_one("#apply-checks", Static)
        expected = "instructions: 1 of 2 are not in the summary; 1 may be there in other words"
        assert str(checks.content).endswith(expected) or f"{expected}\n" in str(checks.content)
        await pilot.press("i", "i")
        assert "put back word for word" in summary(app) and summary(app).count("Never touch the ledger.") == 1
        assert "instructions:" not in str(checks.content)
        assert [draft.is_edited for draft in app.first.drafts] == [True, False]


@pytest.mark.parametrize("edited", [False, True])
async def test_an_extract_that_fails_a_check_is_accepted_at_once(edited: bool) -> None:
    said = [{"role": "user", "content": "never touch the database in /srv/data/production.db"}]
    session = from_messages([*said, {"role": "assistant", "content": "understood"}] * 12)
    app = Shell(ApplyScreen(session, plan(session, "agent-sdk-compact", min_keep=1)))
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.first.phase is Phase.DONE)
        if edited:
            await pilot.press("equals_sign", "X", "escape")
        assert "! repetition" in drawn(app)
        await pilot.press("a")
        await until(pilot, lambda: app.answers)
    assert app.answers[0] is not None


async def test_an_emptied_summary_is_never_accepted() -> None:
    app = Shell(screen(kind="extract"))
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.first.phase is Phase.DONE)
        await pilot.press("equals_sign")
        app.screen.query_one(TextArea).text = "  \n"
        await pilot.press("escape", "a", "a")
        assert "empty" in status(app)
        assert not app.answers


async def test_agent_sdk_asks_the_sessions_own_model_when_the_first_fails() -> None:
    session, plan = planned("agent-sdk-compact", min_keep=4)
    session.facts.model = "own-model"
    server = Server("## Decisions\n- none", fail=1)
    app = Shell(ApplyScreen(session, plan, kind="anthropic", environ=ENVIRONMENT, transport=server))
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.first.phase is Phase.READY)
        assert "fallback own-model" in str(app.screen.query_one("#apply-where", Static).content)
        await pilot.press("enter")
        await until(pilot, lambda: app.first.phase is Phase.DONE)
        assert [body["model"] for body in server.bodies] == ["asked", "own-model"]
        assert "overloaded" in status(app)
        assert "own-model" in str(app.screen.query_one("#apply-summary").border_title)


async def test_a_summarizer_without_a_key_says_what_it_lacks() -> None:
    server = Server()
    app = Shell(screen(server, environ={"CONTEXT_TUI_CONFIG": ""}))
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.first.phase is Phase.READY)
        assert "ANTHROPIC_API_KEY" in str(app.screen.query_one("#apply-where", Static).content)
        await pilot.press("enter")
        assert not server.bodies
        await pilot.press("1")
        await until(pilot, lambda: app.first.phase is Phase.DONE)
        assert app.first.kind == "extract"


async def test_another_model_and_server_can_be_named() -> None:
    app = Shell(screen())
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.first.phase is Phase.READY)
        await pilot.press("n")
        app.screen.query_one(Input).value = "other"
        await pilot.press("enter", "b")
        app.screen.query_one(Input).value = "http://127.0.0.1:7777"
        await pilot.press("enter")
        assert "other at 127.0.0.1:7777" in str(app.screen.query_one("#apply-where", Static).content)


async def test_a_click_chooses_the_summarizer() -> None:
    app = Shell(screen())
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.first.phase is Phase.READY)
        await pilot.click("#apply-choices", offset=(16, 0))
        await until(pilot, lambda: app.first.kind == "extract")


@pytest.mark.parametrize("pieces", [0, 4])
async def test_quitting_does_not_wait_for_the_server(pieces: int) -> None:
    server = Server(until=pieces)
    app = Shell(screen(server))
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.first.phase is Phase.READY)
        await pilot.press("enter")
        await until(pilot, lambda: server.bodies)
        began = time.monotonic()
        app.exit()
    assert time.monotonic() - began < 10


async def test_quitting_does_not_wait_for_a_long_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "prepare_summary", lambda plan: time.sleep(5))
    app = Shell(screen())
    async with app.run_test() as pilot:
        await pilot.pause()
        assert app.first.phase is Phase.READING
        assert "Reading the messages" in summary(app)
        began = time.monotonic()
        app.exit()
    assert time.monotonic() - began < 10


@pytest.mark.slow
def test_the_client_is_imported_only_when_a_model_is_asked() -> None:
    code = "import sys, context_tui.tui.apply; raise SystemExit('httpx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2]).returncode == 0


async def test_a_plan_without_a_summary_is_carried_out_at_once() -> None:
    session, plan = planned("defect-microcompact")
    app = Shell(ApplyScreen(session, plan))
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.answers)
    assert app.answers[0].origin == "defect-microcompact"


@pytest.mark.slow
@pytest.mark.parametrize("size", [(60, 20), (80, 24), (160, 50)])
async def test_it_fits_and_draws_nothing_a_terminal_acts_on(size: tuple[int, int]) -> None:
    app = Shell(screen(Server(GOOD + "\x1b[31m[/] \x9b \u202e")))
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: app.first.phase is Phase.READY)
        assert footer_fits(app)
        await pilot.press("enter")
        await until(pilot, lambda: app.first.phase is Phase.DONE)
        assert footer_fits(app)
        await pilot.press("equals_sign")
        shown = drawn(app)
        assert min(app.first.query_one(f"#apply-{pane}").size.height for pane in ("head", "right")) >= 2
    assert not {c for c in shown.replace("\n", "") if unicodedata.category(c) in ("Cc", "Cf", "Cs")}


def test_failed_checks_come_first_and_errors_before_warnings() -> None:
    checks = [
        SummaryCheck("a", True, "error", ""),
        SummaryCheck("b", False, "warning", "w"),
        SummaryCheck("c", False, "error", "[/]"),
    ]
    assert format_checks(checks).plain.splitlines() == ["✗ c: [/]", "! b: w", "✓ a"]


def ready(pilot: Pilot[Any]) -> Any:
    """Before a snapshot: until there is a summary."""
    return until(pilot, lambda: pilot.app.first.phase is Phase.DONE)  # type: ignore[attr-defined]


def test_snapshot_extract_80(snap_compare: Any) -> None:
    """Head on the left, extract on the right with its checks below; extract is chosen; secrets are masked."""
    assert snap_compare(Shell(screen(kind="extract")), terminal_size=(80, 24), run_before=ready)


def test_snapshot_extract_60_light(snap_compare: Any) -> None:
    """Head above, extract below, everything legible on a light ground."""
    assert snap_compare(Shell(screen(kind="extract"), light=True), terminal_size=(60, 20), run_before=ready)


def test_snapshot_failed(snap_compare: Any) -> None:
    """The failure is one clear line below; the pane says that the session is as it was; retry is offered."""

    async def fail(pilot: Pilot[Any]) -> None:
        first: ApplyScreen = pilot.app.first  # type: ignore[attr-defined]
        await until(pilot, lambda: first.phase is Phase.READY)
        await pilot.press("enter")
        await until(pilot, lambda: first.phase is Phase.FAILED)

    assert snap_compare(Shell(screen(Server(fail=1))), terminal_size=(80, 24), run_before=fail)
