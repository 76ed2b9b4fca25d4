"""Sizes by calibrated factors and by a tokenizer: they add up, and come near what was recorded."""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

import context_tui as ct
from context_tui.cli import main
from context_tui.cli.inspect import build_report
from context_tui.compaction.changes import UniformChanges
from context_tui.compaction.next_request import compute_next_request
from context_tui.errors import ExitCode, MeasureError
from context_tui.lab.replay.recording import Recording
from context_tui.session.context import REMOVED_BODY, Body
from context_tui.session.session import Session
from context_tui.session.token_factors import PRIOR
from context_tui.session.values import Kind
from context_tui.tokens.breakdown import UNLISTED_CATEGORIES, measure_breakdown
from context_tui.tokens.context_index import index_context
from context_tui.tokens.context_size import measure_context
from context_tui.tokens.measures import (
    INSTALL_COMMAND,
    TYPICAL_IMAGE_TOKENS,
    TokenMeasure,
    TokenTable,
    build_calibrated_table,
    build_exact_table,
    find_encoding,
    load_tokenizer,
    measure_exactly,
)
from tests.formats.histories import histories
from tests.formats.providers import FRAME, RATES, Provider


def recording(tmp_path: Path, steps: int = 40, base: int = 20_000) -> Session:
    """A session of a provider whose tokenizer is known."""
    made = Provider(base=base)
    made.user("do it")
    made.steps(steps)
    return made.recording.open(tmp_path)


def check_sums(session: Session, sizes: TokenTable) -> None:
    """Blocks add up to messages, these to contexts, and categories to contexts or, if calibrated, to requests."""
    facts, context = session.facts, session.context_at()
    assert list(sizes.messages) == [sum(sizes.blocks[row] for row in facts.blocks_of(m)) for m in range(len(facts))]
    assert sum(sizes.messages) == sum(sizes.blocks)
    content = sum(sizes.count_block_tokens(context, row) for each in context.order for row in facts.blocks_of(each))
    assert content == sizes.compute_prefix_sums(context)[-1]
    parts = measure_breakdown(context, sizes).by_category
    if sizes.measure is TokenMeasure.CALIBRATED:
        assert sum(parts.values()) == measure_context(context, sizes).tokens
    else:
        assert sum(parts[name] for name in parts if name not in UNLISTED_CATEGORIES) == content


def test_calibrated_sizes_are_those_of_the_provider(tmp_path: Path) -> None:
    session = recording(tmp_path)
    sizes, facts = build_calibrated_table(session.facts), session.facts
    check_sums(session, sizes)
    off = []
    for message, usage in list(zip(facts.request_message, facts.requests, strict=True))[1:]:
        context = session.context_at(message)
        off.append(
            abs(
                sizes.compute_prefix_sums(context)[-1]
                + (measure_context(context, sizes).not_in_file or 0)
                - usage.context
            )
            / usage.context
        )
    assert median(off) < 0.01 and max(off) < 0.02, "the content and what is not in the file are what was recorded"
    assert measure_context(session.context_at(), sizes).not_in_file == pytest.approx(20_000, abs=300)
    assert sizes.measure is TokenMeasure.CALIBRATED and sizes.note.startswith("±0.") and sizes.label == "cal."


def test_a_block_is_its_bytes_by_the_factor_of_its_kind_and_a_reply_has_a_frame(tmp_path: Path) -> None:
    session = recording(tmp_path)
    facts, sizes = session.facts, build_calibrated_table(session.facts)
    (found,) = sizes.calibrations
    for row in range(len(facts.kind)):
        estimated = facts.size[row] // 4
        if facts.kind[row] == Kind.TOOL_RESULT:
            assert sizes.blocks[row] == round(estimated * found.factors.result)
        if facts.kind[row] == Kind.TOOL_USE:  # the last block of its reply
            assert sizes.blocks[row] == round(estimated * found.factors.call + found.factors.request_overhead)
            assert abs(sizes.blocks[row] - estimated * RATES["tool_use"] - FRAME) < 12
    result = next(row for row in range(len(facts.kind)) if facts.kind[row] == Kind.TOOL_RESULT)
    assert sizes.count_body(result, REMOVED_BODY) == 0
    assert sizes.count_body(result, Body.from_text("x" * 400)) == round(100 * found.factors.result)


def test_each_message_is_measured_by_the_model_that_first_had_it(tmp_path: Path) -> None:
    made = Provider(rate=1.0)
    made.user("do it")
    made.steps(30)
    made.model, made.rate = "claude-fable-5", 1.5
    made.steps(30)
    facts = made.recording.open(tmp_path).facts
    sizes = build_calibrated_table(facts)
    results = [row for row in range(len(facts.kind)) if facts.kind[row] == Kind.TOOL_RESULT]
    first, second = ([sizes.blocks[r] / (facts.size[r] // 4) for r in part] for part in (results[:25], results[35:]))
    assert median(second) / median(first) == pytest.approx(1.5, abs=0.05)
    calls = [row for row in range(len(facts.kind)) if facts.kind[row] == Kind.TOOL_USE]
    factors = sizes.calibrations[0].factors, sizes.calibrations[1].factors
    for row, mine in zip(calls, [factors[0]] * 30 + [factors[1]] * 30, strict=True):
        assert sizes.blocks[row] == round(facts.size[row] // 4 * mine.call + mine.request_overhead), (
            "a reply is of its own request"
        )
    assert not sizes.uniform


def test_without_recorded_sizes_typical_factors_are_used_and_it_says_so() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "eA=="}}
    session = ct.from_messages(
        [
            {"role": "user", "content": [{"type": "text", "text": "x" * 4_000}, image]},
            {"role": "assistant", "content": "y"},
        ]
    )
    sizes = build_calibrated_table(session.facts)
    assert list(sizes.blocks)[:2] == [round(1_000 * PRIOR.text), TYPICAL_IMAGE_TOKENS]
    assert sizes.note == "typical factors: no request recorded a size"
    assert measure_context(session.context_at(), sizes).not_in_file is None


def test_too_few_requests_name_the_reason(tmp_path: Path) -> None:
    sizes = build_calibrated_table(recording(tmp_path, steps=5).facts)
    assert sizes.note == "factors of few requests: only 5 of the model's requests recorded a size; 12 are needed"
    sizes = build_calibrated_table(recording(tmp_path, steps=3).facts)
    assert sizes.note == "typical factors: only 3 of the model's requests recorded a size; 12 are needed"


def test_a_new_model_takes_the_factors_of_another_and_its_share_of_what_always_stays(tmp_path: Path) -> None:
    """The new model counts a fifth of the tokens, so that its requests are smaller than the other's system prompt."""
    made = Provider(base=20_000)
    made.user("do it")
    made.steps(30)
    made.model, made.rate, made.context = "claude-fable-5", 0.2, made.context / 5
    made.steps(2)
    session = made.recording.open(tmp_path)
    table = build_calibrated_table(session.facts)
    first, second = table.calibrations
    assert second.is_borrowed and second.factors is first.factors and not second.usable
    earlier, later = session.context_at(session.facts.request_message[20]), session.context_at()
    assert table.note_at(earlier).startswith("±0.")
    assert table.note_at(later) == f"factors of another model: {second.reason}"
    assert measure_context(later, table).measure == "factors of another model"
    assert measure_context(earlier, table).fixed == pytest.approx(20_000, abs=300)
    assert measure_context(later, table).fixed == pytest.approx(4_000, abs=100)
    assert Recording(session).fixed_sizes[-1] == measure_context(later, table).fixed


def test_what_was_cleared_before_takes_what_stands_in_its_place(tmp_path: Path) -> None:
    made = Provider(base=90_000)
    made.user("do it")
    made.step(size=40_000)
    made.step(size=30_000)
    made.steps(30)
    made.clear(40_000, 30_000)
    made.steps(50)
    session = made.recording.open(tmp_path)
    context, sizes = session.context_at(), build_calibrated_table(session.facts)
    assert len(context.replacements) == 2
    check_sums(session, sizes)
    freed = sum(sizes.blocks[row] - sizes.count_block_tokens(context, row) for row in context.replacements)
    assert freed == pytest.approx(70_000 // 4 * RATES["tool_result"], rel=0.03)
    hidden = measure_context(context, sizes).not_in_file
    assert hidden == pytest.approx(90_000, rel=0.01), "what was cleared is not missing"


def test_thinking_that_was_dropped_is_not_missing_from_what_is_not_in_the_file(tmp_path: Path) -> None:
    made = Provider()
    made.user("do it")
    made.steps(12)
    for _ in range(6):
        made.step(size=800, thought=20_000)
    made.context -= 60_000 // 4 * RATES["thinking"] + 120_000 // 4 * RATES["signature"]  # as the turn ends
    made.user("go on")
    made.steps(60)
    session = made.recording.open(tmp_path)
    (drop,) = session.drops
    assert drop.explained_by == "dropped thinking"
    sizes = build_calibrated_table(session.facts)
    assert measure_context(session.context_at(), sizes).not_in_file == pytest.approx(20_000, rel=0.1)


def test_the_next_request_frees_what_goes_by_the_ruler(tmp_path: Path) -> None:
    session = recording(tmp_path)
    sizes = build_calibrated_table(session.facts)
    plan = ct.plan(session, "agent-sdk-prune")
    own, ruled = compute_next_request(plan), compute_next_request(plan, token_table=sizes)
    assert plan.changes and ruled.account.measure == "calibrated" and own.account.measure == "bytes/4"
    assert ruled.removed_tokens == pytest.approx(own.removed_tokens * RATES["tool_result"], rel=0.02)
    assert (
        ruled.tokens_before
        == measure_context(session.context_at(), sizes).tokens
        == pytest.approx(own.tokens_before, rel=0.01)
    )
    cleared = ct.plan(session, "koda-microcompact")
    assert isinstance(cleared.changes, UniformChanges) and cleared.changes
    gone = sum(sizes.blocks[row] - sizes.count_body(row, each.body) for row, each in cleared.changes.items())
    assert compute_next_request(cleared, token_table=sizes).removed_tokens == gone
    cut = ct.plan(session, "manual", cut=21)
    assert compute_next_request(cut, token_table=sizes).removed_tokens == pytest.approx(
        sum(sizes.messages[:21]), rel=0.01
    )
    both = ct.plan(session, "manual", cut=21, clear=((2, 0), (30, 0)))
    (row,) = session.facts.blocks_of(30)
    less = sizes.blocks[row] - sizes.count_body(row, both.changes[row].body)
    removed = [compute_next_request(each, token_table=sizes).removed_tokens for each in (cut, both)]
    assert removed[1] == removed[0] + less, "what is dropped is not cleared too"


@pytest.mark.slow
@given(histories())
def test_they_always_add_up(messages: list[dict[str, object]]) -> None:
    session = ct.from_messages(messages)
    check_sums(session, build_calibrated_table(session.facts))
    check_sums(session, build_exact_table(session, len, "letters"))


@given(st.text(st.characters(exclude_categories=()), max_size=200))
def test_any_text_is_counted(words: str) -> None:
    pytest.importorskip("quicktok")
    assert load_tokenizer("gpt-5").count(words) >= bool(words)


def test_long_lines_and_halves_of_characters_are_counted() -> None:
    pytest.importorskip("quicktok")
    count = load_tokenizer("gpt-4o").count
    assert count("hello world") == 2 and count("") == 0
    assert count("<|endoftext|>") > 1, "of a session's text nothing is special"
    assert count("a\ud800b") == count("a?b")
    for piece in (" ", "a", "\n", "汉"):
        assert 0 < count(piece * 1_000_000) <= 1_000_000
    assert count("word " * 1_000_000) == pytest.approx(1_000_000, abs=3), "in pieces"


def test_the_encoding_is_that_of_the_model() -> None:
    for model in ("gpt-4o-mini", "gpt-4.1", "gpt-5.2-codex", "o3", "o4-mini", "openai/gpt-5", "codex-mini-latest"):
        assert find_encoding(model) == ("o200k_base", True), model
    assert find_encoding("gpt-4-0613") == find_encoding("gpt-3.5-turbo") == ("cl100k_base", True)
    assert find_encoding("gpt-oss-120b") == ("o200k_harmony", True)
    for model in ("", "claude-opus-4-5", "deepseek-chat", "ollama/qwen3", "gemini-2.5-pro"):
        assert find_encoding(model) == ("o200k_base", False), model


def test_exact_sizes_are_those_of_the_texts() -> None:
    pytest.importorskip("quicktok")
    call = {"type": "tool_use", "id": "a", "name": "Read", "input": {"path": "x.py"}}
    answer = {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "hello world"}]}
    session = ct.from_messages(
        [
            {"role": "user", "content": "hello world"},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hello", "signature": "s" * 400}, call]},
            {"role": "user", "content": [answer]},
        ]
    )
    sizes, count = measure_exactly(session), load_tokenizer("").count
    assert list(sizes.blocks) == [2, 1, count('Read{"path":"x.py"}'), 2]
    assert sizes.describe(session.context_at()) == "o200k (not this model's tokenizer)" and sizes.label == "o200k"
    assert sizes.count_body(3, Body.from_text("hello world hello")) == 3 and sizes.count_text("hello") == 1
    check_sums(session, sizes)


def test_without_the_extra_one_line_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from context_tui.tokens import measures as tokenizers

    tokenizers._load_counter.cache_clear()
    monkeypatch.setitem(sys.modules, "quicktok", None)
    session = recording(tmp_path, steps=2)
    with pytest.raises(MeasureError, match="not installed"):
        measure_exactly(session)
    assert main(["inspect", "--ruler", "exact", session.info.path]) == ExitCode.USAGE
    told = capsys.readouterr()
    assert INSTALL_COMMAND in told.err and told.err.count("\n") == 1 and not told.out


def test_inspect_by_a_ruler(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = recording(tmp_path)
    own, cal = (
        build_report(session, timeline=True, measure=TokenMeasure.OWN),
        build_report(session, timeline=True),
    )
    assert own["ruler"] == {"kind": "own", "name": "bytes/4", "note": None} and own["window"]["estimator"] == "bytes/4"
    assert own["window"]["estimated_tokens"] == index_context(session.context_at()).total
    assert cal["ruler"]["kind"] == "calibrated" and cal["ruler"]["note"].startswith("±0.")
    assert sum(each["tokens"] for each in cal["timeline"]) == cal["window"]["estimated_tokens"]
    assert sum(cal["by_category"].values()) == cal["window"]["next_request_tokens"]
    assert cal["by_category"]["not_in_file"] == cal["window"]["not_in_file_tokens"] == pytest.approx(20_000, abs=300)
    assert cal["window"]["recorded_tokens"] == own["window"]["recorded_tokens"]
    assert cal["window"]["believed_tokens"] == own["window"]["believed_tokens"], "what a runtime believes stays"
    assert main(["inspect", "--ruler", "calibrated", "--messages", session.info.path]) == 0
    told = capsys.readouterr().out
    assert "token measure: calibrated (±0." in told and "calibrated tokens" in told and "est. tokens" not in told
    assert main(["inspect", "--ruler", "exactly", session.info.path]) == ExitCode.USAGE
    assert main(["inspect", "--json", session.info.path]) == 0
    capsys.readouterr()


def test_the_recordings_measure_what_they_recorded(shared: Path) -> None:
    """Content by the fit, and the model's part that is not in the file, are the recorded size, within 3 % mostly."""
    off = []
    for path in sorted((shared / "corpus" / "claude-code").glob("*.jsonl")):
        session = ct.open_session(str(path))
        sizes, facts = build_calibrated_table(session.facts), session.facts
        for message, usage in list(zip(facts.request_message, facts.requests, strict=True))[-20:]:
            context = session.context_at(message)
            found = sizes.calibration_at(context)
            hidden = measure_context(context, sizes).not_in_file
            if found and found.usable and usage.context and hidden:
                off.append(abs(sizes.compute_prefix_sums(context)[-1] + hidden - usage.context) / usage.context)
    assert len(off) > 100 and median(off) < 0.03
