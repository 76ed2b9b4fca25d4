"""The apply screen against a real model server: a summary to accept, cancelling, a killed server, a wrong key."""

from __future__ import annotations

import signal
import time

import pytest
from textual.widgets import Static

from context_tui.policies.builtin.defect import SUMMARY_SECTIONS as DEFECT_SECTIONS
from context_tui.policies.planning import plan
from context_tui.session.memory import from_messages
from context_tui.tui.apply.screen import ApplyScreen, Phase
from context_tui.tui.drafts import DraftEnding, Drafts, RequestedServer
from context_tui.tui.widgets.reading_pane import ReadingPane
from tests.tui.fakes import Shell, messages, until, wrapped_text

from .conftest import KEY, LiveServer, StartServer

pytestmark = pytest.mark.live

SECTIONS = " ".join(f'"## {name}\\n- " [a-z ] [a-z ] [a-z ] [a-z ] "\\n"' for name in DEFECT_SECTIONS)


def screen(server: LiveServer, kind: str = "anthropic", key: str = "") -> ApplyScreen:
    """The screen for a small plan, asking *server*."""
    session = from_messages([*messages(1)[:1], *messages(1)[3:], *messages(1)[:1]])
    names = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}
    environ = {"CONTEXT_TUI_CONFIG": ""} | ({names[kind]: key} if key else {})
    made = plan(session, "manual", cut=2)
    drafts = Drafts()
    drafts.requested_server = RequestedServer("any", server.url)
    return ApplyScreen(session, made, kind=kind, drafts=drafts, environ=environ)


def status(app: Shell[ApplyScreen]) -> str:
    return str(app.screen.query_one("#apply-status", Static).content)


def summary(app: Shell[ApplyScreen]) -> str:
    return wrapped_text(app.screen.query_one("#apply-summary", ReadingPane))


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
async def test_a_real_summary_is_accepted(start: StartServer, kind: str) -> None:
    app = Shell(screen(start("--grammar", f"root ::= {SECTIONS}"), kind))
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.first.phase is Phase.READY)
        await pilot.press("enter")
        await until(pilot, lambda: app.first.phase is Phase.DONE, 60)
        assert summary(app).startswith("## Goal\n- ")
        await pilot.press("a")
        if not app.answers:  # four letters at random may fail a check
            await pilot.press("y")
        await until(pilot, lambda: app.answers)
    assert "## Relevant Files" in app.answers[0].to_messages()[0]["content"][0]["text"]


async def test_cancelling_is_at_once(endless: LiveServer) -> None:
    app = Shell(screen(endless))
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.first.phase is Phase.READY)
        await pilot.press("enter")
        await until(pilot, lambda: len(summary(app)) > 20, 60)
        began = time.monotonic()
        await app.run_action("screen.cancel")
        assert time.monotonic() - began < 0.1
        await until(pilot, lambda: not app.workers._workers)
        assert "Stopped" in status(app)
        assert app.first.shown_draft is not None and app.first.shown_draft.ending is DraftEnding.STOPPED


async def test_a_server_that_is_killed_is_a_failure_that_can_be_looked_at(start: StartServer) -> None:
    server = start("--ctx", "512", "--grammar", "root ::= [a-z ] root")
    app = Shell(screen(server))
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.first.phase is Phase.READY)
        await pilot.press("enter")
        await until(pilot, lambda: len(summary(app)) > 20, 60)
        server.send(signal.SIGKILL)
        await until(pilot, lambda: app.first.phase is Phase.FAILED)
        assert "broke before" in status(app)
        assert app.first.shown_draft is not None and app.first.shown_draft.cause == "the server closed the connection"
        assert len(summary(app)) > 20
        await pilot.press("enter")
        await until(pilot, lambda: "refused the connection" in status(app))
        assert len(app.first.drafts) == 1


async def test_a_wrong_key_is_told(plain: LiveServer) -> None:
    app = Shell(screen(plain, key=f"{KEY}x"))
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.first.phase is Phase.READY)
        await pilot.press("enter")
        await until(pilot, lambda: app.first.phase is Phase.FAILED)
        assert "refused the key" in status(app)
        assert KEY not in status(app)
