"""The lab on what only Codex records: a summary that nobody can read, and instructions behind a typed message."""

from __future__ import annotations

from pathlib import Path

import pytest

import context_tui as ct
from context_tui.export.files import export
from context_tui.lab.replay.recording import Recording
from context_tui.session.facts import Compaction
from context_tui.session.values import Kind, MessageFlag, Spans
from context_tui.tokens.breakdown import measure_breakdown
from context_tui.tokens.context_size import DEFAULT_SUMMARY_TOKENS
from context_tui.tokens.measures import build_calibrated_table
from tests.formats.rollouts import AGENTS, RULES, SUMMARY, Rollout, answered, asked, said


def test_an_encrypted_summary_says_nothing_about_the_size_of_others() -> None:
    hidden = {"type": "compaction", "encrypted_content": "x" * 4_000}
    session = ct.from_messages(
        [
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": "yes"},
            {"role": "user", "content": [hidden]},
            {"role": "assistant", "content": "on"},
        ]
    )
    session.facts.flags[2] |= MessageFlag.SUMMARY
    session.facts.add_compaction(Compaction(2, "full", prefix=Spans(range(2, 3))))
    assert Recording(session).summary_tokens == DEFAULT_SUMMARY_TOKENS


def test_a_copy_made_after_a_compaction_counts_the_instructions_once(tmp_path: Path) -> None:
    """The new context begins with a typed message, and the instructions follow it."""
    rules, agents = said("developer", RULES + "Ask. " * 2_000), said("user", AGENTS + "Be kind. " * 2_000)
    rollout = Rollout()
    rollout.meta()
    rollout.items(rules, agents)
    rollout.turn()
    rollout.typed("Look.")
    sizes = [20_000 + 3_000 * number for number in range(14)]
    for size in sizes:
        rollout.items(asked(f"c{size}"), answered(f"c{size}", "line of data\n" * 750))
        rollout.count(size)
    rollout.compacted(said("user", "Look."), rules, agents, said("user", f"{SUMMARY} All well."))
    for size in sizes[:4]:
        rollout.items(asked(f"d{size}"), answered(f"d{size}", "line of data\n" * 750))
        rollout.count(size)
    session = ct.open_session(rollout.write(tmp_path / "rollout.jsonl"))
    newest = max(row for row in range(len(session.facts.kind)) if session.facts.kind[row] == Kind.TOOL_RESULT)
    copy = ct.apply(session, ct.plan(session, "manual", clear=f"{session.facts.block_message[newest]}:0"))
    export(copy, tmp_path / "out.jsonl", "codex")
    [before, *after] = [
        measure_breakdown(each.context_at(), build_calibrated_table(each.facts)).by_category
        for each in (session, copy, ct.open_session(tmp_path / "out.jsonl"))
    ]
    assert before["injected"] > 5_000
    for parts in after:
        assert parts["injected"] == pytest.approx(before["injected"], rel=0.05)
        assert parts["not_in_file"] == pytest.approx(before["not_in_file"], rel=0.05)
