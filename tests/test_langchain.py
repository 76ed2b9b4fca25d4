"""LangChain's own middleware as a policy, against what it does in a request of its own."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

import context_tui as ct
from context_tui.lab.replay.recording import Recording
from context_tui.lab.replay.walk import replay_recording
from context_tui.policies.command.policy import PolicyCommand, read_command
from context_tui.policies.planning import build_plan
from context_tui.session.values import Kind

pytest.importorskip("langchain", reason="needs LangChain: pip install -r requirements-langchain.txt")

ROOT = Path(__file__).parents[1]
SAMPLE = str(ROOT / "sample_sessions" / "coding-session.jsonl")
ADAPTER = ROOT / "docs" / "examples" / "policy-command" / "langchain_policy.py"
MODULE = """
from langchain.agents.middleware import ClearToolUsesEdit, ContextEditingMiddleware, SummarizationMiddleware
from langchain_core.language_models.fake_chat_models import FakeListChatModel

def clear_uses(trigger=20_000, keep=3, clear_tool_inputs=False):
    edit = ClearToolUsesEdit(trigger=trigger, keep=keep, clear_tool_inputs=clear_tool_inputs)
    return ContextEditingMiddleware(edits=[edit])

def summarize(trigger=20_000, keep=6):
    model = FakeListChatModel(responses=["{summary}"])
    options = {"trigger": ("tokens", trigger), "keep": ("messages", keep), "trim_tokens_to_summarize": None}
    return SummarizationMiddleware(model, **options)
"""


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that makes a policy of what a function of the module builds."""
    (tmp_path / "middleware_of_mine.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)

    def read(name: str) -> Any:
        command = [sys.executable, str(ADAPTER), f"middleware_of_mine:{name}"]
        return read_command(PolicyCommand(shlex.join(command), 300.0))

    return read


def test_context_editing_clears_what_it_would_clear_in_the_request(build: Any) -> None:
    session, policy = ct.open_session(SAMPLE), build("clear_uses")
    replay = replay_recording(Recording(session), policy, policy.Params(trigger=20_000, keep=5))
    kinds, owner = session.facts.kind, session.facts.block_message
    results = [row for row, kind in enumerate(kinds) if kind == Kind.TOOL_RESULT]
    assert sorted(replay.removed_by_policy) == [row for row in results if owner[row] < replay.calls[-1].message][:-5]
    assert len(replay.firings) > 10  # it clears a copy of each request, so that the newest results go one by one
    assert {change.body.text for firing in replay.firings for change in firing.plan.changes.values()} == {"[cleared]"}


def test_inputs_are_cleared_too(build: Any) -> None:
    session, policy = ct.open_session(SAMPLE), build("clear_uses")
    plan = build_plan(session, policy, policy.Params(trigger=20_000, clear_tool_inputs=True))
    facts = session.facts
    calls = {row for row in plan.changes if facts.kind[row] == Kind.TOOL_USE}
    assert calls == {facts.find_tool_use(row) for row in plan.changes if facts.kind[row] == Kind.TOOL_RESULT} != set()
    assert {plan.changes[row].body.text for row in calls} == {"{}"}


def test_summarization_drops_what_it_summarises_and_leaves_the_summary_to_context_tui(build: Any) -> None:
    session, policy = ct.open_session(SAMPLE), build("summarize")
    plan = build_plan(session, policy, policy.Params())
    assert plan.needs_summary and plan.messages_dropped > 100 and plan.summary_insert is not None
    assert plan.summary_insert.format_text("DONE").endswith("DONE")
    replay = replay_recording(Recording(session), policy, policy.Params())
    assert len(replay.firings) >= 2 and all(firing.summarised for firing in replay.firings)
