"""Why a context is full, and what can go, in words."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import context_tui as ct
from context_tui.cli.inspect import build_report
from context_tui.export.files import export
from context_tui.lab.fullness import (
    ContextPart,
    Fullness,
    PolicyEffect,
    compute_fullness,
    split_context,
)
from context_tui.session.facts import Compaction, Usage
from context_tui.session.session import Session, SessionInfo
from context_tui.session.window import Window
from context_tui.tokens.breakdown import CATEGORIES, Breakdown, ToolShare, measure_breakdown
from context_tui.tokens.context_size import SizeSource, measure_context
from context_tui.tokens.measures import build_calibrated_table
from tests.formats.recordings import Recording, text, usage
from tests.tui.tuning import sample

SAMPLES = Path("sample_sessions")


def answer(session: Session, at: int | None = None) -> Fullness:
    """The answer by calibrated sizes."""
    context, table = session.context_at(at), build_calibrated_table(session.facts)
    return compute_fullness(session, context, measure_breakdown(context, table), table)


def test_the_answer_in_words() -> None:
    session = ct.open_session(SAMPLES / "coding-session.jsonl")
    assert " ".join(answer(session).sentences) == (
        "Full to 89 % (~58.6k of 65.5k). Tool results 39.2k (Read 24.9k, Bash 9.2k, Grep 4.1k), tool calls 10.8k, "
        "system and tools 6.0k, assistant text 1.8k, other 894. Compacts at the next call. "
        "Summarising 168 messages leaves 10 % (system and tools) + summary. "
        "Clearing 100 old results leaves 36 %, due now."
    )
    report = build_report(session)
    assert report["answer"]["sentences"] == answer(session).sentences
    assert sum(part["tokens"] for part in report["answer"]["parts"]) == report["answer"]["tokens"]
    assert report["answer"]["tokens"] == report["window"]["next_request_tokens"]
    assert json.loads(json.dumps(report["answer"]))["effects"][1]["policy"] == "claude-code-micro"


def test_an_effect_names_what_the_agent_puts_back_if_it_is_much_of_the_rest() -> None:
    effect = PolicyEffect("claude-code-auto", "full", 0, 44, 67_941, 0.34, True, 26_028, messages_kept=1)
    assert effect.format() == "Summarising 44 messages leaves 34 % (26.0k restored) + summary."
    assert effect._replace(tokens_put_back=280).format() == "Summarising 44 messages leaves 34 % + summary."
    small = effect._replace(tokens_put_back=280, tokens_after=9_300, share_after=0.034, due="at 380k")
    assert small.format() == "Summarising 44 messages leaves 3 % (9.3k) + summary, due at 380k."
    whole = effect._replace(messages_kept=0)
    assert whole.format() == "Summarising 44 messages leaves 34 % (system and tools, 26.0k restored) + summary."
    assert whole.format(brief=True) == effect.format()
    assert small.format(brief=True) == "Summarising 44 messages leaves 3 % (9.3k) + summary."


def test_an_effect_names_the_policy_of_no_agent() -> None:
    session = ct.open_session(SAMPLES / "coding-session.jsonl")
    unknown = Session(session.facts, session.content, replace(session.info, format="openai"), len(session))
    effects = answer(unknown).effects
    assert [effect.is_own for effect in effects] == [False]
    assert effects[0].format() == (
        "Clearing 23 old results leaves 50 % (defect-microcompact: no rule of this agent is known), due now."
    )
    assert all(effect.is_own for effect in answer(session).effects)


@given(st.dictionaries(st.sampled_from(CATEGORIES), st.integers(0, 100_000)), st.integers(0, 900_000))
def test_the_parts_add_up_to_the_size(by_category: dict[str, int], size: int) -> None:
    parts = split_context(Breakdown(by_category, [], [], None, []), size)
    assert sum(part.tokens for part in parts) == (size if any(by_category.values()) else 0)
    assert parts == sorted(parts, key=lambda part: -part.tokens)


def test_tools_share_the_results() -> None:
    tools = [ToolShare("Read", 3, 300), ToolShare("", 1, 75), ToolShare("\x1b[31m" + "x" * 90, 1, 25)]
    part, _ = split_context(Breakdown({"tool_result": 400, "user": 4}, tools, [], None, []), 404)
    assert part.format() == "tool results 400 (Read 300, call missing 75, ␛[31mxxxxxxxxxxxxxxxxxxx 25)"
    assert part.format(1) == "tool results 400 (Read 300)" and part.format(0, "results") == "results 400"


def test_small_parts_are_told_as_one() -> None:
    parts = tuple(
        ContextPart(name, tokens) for name, tokens in (("user", 900), ("image", 95), ("summary", 4), ("thinking", 1))
    )
    fullness = Fullness(1_000, Window(2_000, "file"), SizeSource.RECORDED, parts, None, ())
    assert fullness.sentences == ["Full to 50 % (1.0k of 2.0k).", "User text 900, images 95, other 5."]
    assert [part.tokens for part in fullness.list_parts(1)] == [900, 100]


def growing(steps: list[int], window: int = 200_000, window_source: str = "file") -> Session:
    """A session of Claude Code whose recorded size grows by *steps*."""
    made = sample(len(steps) + 1, 1, usage=False, compact=False)
    facts, size = made.facts, 100_000
    facts.model = "claude-sonnet-4-5" if window_source == "file" else "a-local-model"
    replies = [message for message, role in enumerate(facts.role) if role == 1][: len(steps) + 1]
    for reply, step in zip(replies, [0, *steps], strict=True):
        size += step
        facts.add_request(reply, Usage(fresh=size, output=10))
    return Session(facts, made.content, SessionInfo("s.jsonl", "claude-code"), replies[-1] + 1)


def test_when_it_compacts_is_told_by_the_mean_growth() -> None:
    even = answer(growing([2_000, 2_000, 2_000, 2_000, 2_000]))
    assert even.calls_left == 29 and even.calls_range == (29, 29)  # 57,000 tokens from 110,000 to 167,000
    assert "Compacts in about 29 calls." in even.sentences
    bursts = answer(growing([500, 500, 500, 500, 500, 500, 500, 500, 500, 25_500]))
    assert bursts.calls_left == 16, "a large result every ten calls, not 500 tokens a call"
    assert bursts.calls_range == (8, 32) and "Compacts in about 8 to 32 calls." in bursts.sentences
    assert answer(growing([20_000, 30_000, 30_000])).sentences[2] == "Compacts at the next call."


def test_results_that_were_cleared_are_no_growth() -> None:
    even, cleared = (answer(growing([2_000, 2_000, *fall, 2_000, 2_000])) for fall in ([], [-1_000]))
    assert even.calls_left == 30 and cleared.calls_left == 30  # 59,000 and 60,000 tokens


def test_a_recorded_compaction_is_told_in_place_of_a_forecast() -> None:
    session = growing([2_000, 2_000, 2_000, 2_000])
    session.facts.add_compaction(Compaction(len(session), "full", "auto", 176_700))
    told = answer(session)
    assert told.calls_left is None and "Compacted here, at 176,700 tokens by the agent's count." in told.sentences
    assert not any(each.startswith("Compacts ") for each in told.sentences)
    assert "Compacted here" not in " ".join(answer(session, len(session) - 2).sentences)


@pytest.mark.parametrize(
    "session",
    [
        growing([1_000, 1_000]),
        growing([1_000, -2_000, -3_000, -1_000]),
        growing([1, 1, 1, 1]),
        growing([2_000, 2_000, 2_000, 2_000], window_source="assumed"),
    ],
    ids=["few sizes", "falling", "never", "no window"],
)
def test_nothing_is_claimed_without_evidence(session: Session) -> None:
    assert answer(session).calls_left is None and "Compacts" not in " ".join(answer(session).sentences)


def test_a_session_of_no_known_agent_is_answered_by_a_general_policy() -> None:
    told = answer(sample(40, 8, compact=False))
    assert [effect.policy for effect in told.effects] == ["defect-microcompact"] and told.calls_left is None
    assert told.effects[0].format().startswith("Clearing ")


def compacted(folder: Path, put_back: int, *, is_clear: bool = False) -> Session:
    """A session of 20,000 tokens beyond its messages, and of *put_back* more since a compaction (or ``/clear``)."""
    recording = Recording()
    size = 20_000
    for step in range(8):
        for characters in (400, 4_000 + 400 * step):
            recording.user("b" * characters)
            size += characters // 4
        recording.assistant(text("c" * 800), use=usage(size, output=200))
        size += 200
    if is_clear:
        recording.clear()
        recording.user("s" * 8_000)
    else:
        recording.boundary()
        recording.summary("s" * 8_000)
    size = 20_000 + 2_000 + put_back
    for _ in range(3):
        recording.assistant(text("d" * 800), use=usage(size, output=200))
        recording.user("e" * 2_000)
        size += 200 + 500
    return recording.open(folder)


@pytest.mark.parametrize("put_back", [0, 900, 1_500, 9_000])
def test_what_a_compaction_put_back_is_a_part_of_its_own(tmp_path: Path, put_back: int) -> None:
    session = compacted(tmp_path, put_back)
    context, table = session.context_at(None), build_calibrated_table(session.facts)
    parts = measure_breakdown(context, table).by_category
    assert sum(parts.values()) == measure_context(context, table).tokens
    assert parts["put_back"] == pytest.approx(put_back if put_back >= 1_000 else 0, abs=150)
    if put_back >= 1_000:
        assert parts["summary"] == pytest.approx(table.messages[context.order[0]], rel=0.15), "the size of its row"
    names = [part.category for part in split_context(measure_breakdown(context, table), sum(parts.values()))]
    assert ("put_back" in names) == (put_back >= 1_000)


def test_only_a_compaction_puts_back(tmp_path: Path) -> None:
    for session in (compacted(tmp_path, 9_000, is_clear=True), ct.open_session(SAMPLES / "coding-session.jsonl")):
        table = build_calibrated_table(session.facts)
        assert measure_breakdown(session.context_at(None), table).by_category["put_back"] == 0
    session = compacted(tmp_path, 9_000)
    [compaction] = session.facts.compactions
    before_a_call = measure_breakdown(session.context_at(compaction.message + 1), build_calibrated_table(session.facts))
    assert before_a_call.by_category["put_back"] == 0, "not known yet"


def test_a_size_without_the_system_prompt_is_stated(tmp_path: Path) -> None:
    sentence = "The system prompt and the tools are not in the file."
    recorded = ct.open_session(SAMPLES / "coding-session.jsonl")
    assert sentence not in answer(recorded).sentences
    copy = ct.apply(recorded, ct.plan(recorded, "manual", cut=80), "What was done.")
    assert sentence not in answer(copy).sentences
    done = export(copy, tmp_path / "request.json", "anthropic")
    hidden = measure_context(copy.context_at(), build_calibrated_table(copy.facts)).not_in_file
    assert f"left out: ~{hidden:,} tokens that the agent adds to each request (prompt, tools)" in done.losses
    assert sentence in answer(ct.open_session(done.path)).sentences
