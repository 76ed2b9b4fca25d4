"""A replay without a policy is the recording: the sizes that a separate reader finds in the raw file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import context_tui as ct
from context_tui.cli.inspect import build_report
from context_tui.compaction.next_request import compute_next_request
from context_tui.export.files import export
from context_tui.session.session import SessionInfo
from context_tui.tokens.context_size import measure_context
from context_tui.tokens.measures import build_calibrated_table
from tests.raw_usage import READERS

ROOT = Path(__file__).parents[1]
CORPUS = ROOT.parent / "shared" / "corpus"


def find_sessions() -> Iterator[SessionInfo]:
    """The sessions of every file that has a reader, each once."""
    known = set[tuple[str, str]]()
    for path in sorted([*CORPUS.rglob("*"), *(ROOT / "sample_sessions").iterdir()]):
        try:
            infos = ct.sessions_in(path) if path.is_file() else []
        except ct.UnreadableSession:
            continue
        for info in infos:
            if (info.path, info.id) not in known:
                known.add((info.path, info.id))
                yield info


@pytest.mark.parametrize(
    "info", find_sessions(), ids=lambda info: f"{info.format}:{Path(info.path).name}{info.id and '#'}{info.id}"
)
def test_a_replay_without_a_policy_is_the_recording(info: SessionInfo) -> None:
    session = ct.open_session(f"{info.path}#{info.id}" if info.id else info.path)
    recorded = READERS[info.format](Path(info.path)).get(info.id, [])
    for branch in session.facts.branches:  # abandoned by a rewind: not in this session, but in its file
        for usage in ct.open_session(f"{info.path}#{branch.id}").facts.requests[-branch.requests :]:
            recorded.remove(usage.context)
    assert [usage.context for usage in session.facts.requests] == recorded
    made, reported = ct.replay.replay(session, "none"), build_report(session)["requests"]
    assert reported == len(made.calls)
    assert not recorded or list(made.sizes) == recorded


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["claude-code-auto", "codex", "gemini-compress", "opencode-compact"])
def test_no_summary_takes_a_call_far_below_the_first_request_of_the_file(policy: str) -> None:
    """The first request is read from the raw file: system prompt, tools and a prompt, which stay or come back."""
    firings = 0
    for info in find_sessions():
        session = ct.open_session(f"{info.path}#{info.id}" if info.id else info.path)
        recorded = READERS[info.format](Path(info.path)).get(info.id, [])
        for handling in ("keep", "ignore") if any(recorded) else ():
            made = ct.replay.replay(session, policy, recorded=handling)
            first = next(filter(None, recorded))
            for firing in made.firings:
                assert firing.after >= 0.6 * min(first, firing.before), (info.path, firing)
                assert firing.plan.messages_dropped >= 0
            firings += len(made.firings)
    assert firings


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real sessions is not here")
@pytest.mark.parametrize(
    ("name", "policy", "first", "recorded"),
    [
        ("claude-code/cli__compact3.jsonl", "claude-code-auto", 42_454, 66_549),
        ("codex/agentv__2026-06-26_spark_compact2.jsonl", "codex", 15_889, 16_879),
    ],
)
def test_what_a_summary_leaves_is_between_the_first_request_and_what_was_recorded(
    name: str, policy: str, first: int, recorded: int, tmp_path: Path
) -> None:
    """Once a replay left 19,526 and 2,622 tokens here, a plan 56,713, and a copy had four sizes."""
    session = ct.open_session(CORPUS / name)
    made = ct.replay.replay(session, policy, recorded="ignore")
    assert made.firings and all(first <= firing.after <= 1.05 * recorded for firing in made.firings)
    plan = ct.plan(session, policy, force=True)
    copy = ct.apply(session, plan, "What was done. " * 100)
    export(copy, tmp_path / "out", session.info.format)
    written = ct.open_session(tmp_path / "out")
    size = compute_next_request(plan, "What was done. " * 100, build_calibrated_table(session.facts)).after
    assert first <= size.tokens <= 1.1 * first + 5_000
    for each in (copy, written):
        assert measure_context(each.context_at(), build_calibrated_table(each.facts)).tokens == size.tokens
