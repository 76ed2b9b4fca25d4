"""The context at a point, and sessions in memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

import context_tui as ct
from context_tui.policies.parts.selection import is_already_cleared
from context_tui.session.context import Body, restore_inferred
from context_tui.session.token_factors import PRIOR
from context_tui.session.values import Role
from context_tui.tokens.accounting import find_last_usage
from context_tui.tokens.calibration import Calibration, ErrorStats
from context_tui.tokens.context_index import index_context
from context_tui.tokens.context_size import measure_context
from context_tui.tokens.estimate_check import check_estimate
from context_tui.tokens.measures import format_calibration
from tests.formats.histories import histories
from tests.formats.recordings import Recording, call, conversations, result, text, usage

fixtures = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)


@fixtures
@given(messages=histories())
def test_messages_come_back_as_they_were(messages: list[dict[str, Any]]) -> None:
    session = ct.from_messages(messages)
    assert session.to_messages() == messages
    assert len(session) == len(messages)
    for at in range(len(messages) + 1):
        assert session.to_messages(at) == messages[:at]


def test_a_string_is_one_text_block() -> None:
    session = ct.from_messages([{"role": "user", "content": "hello"}, {"role": "assistant", "content": None}])
    assert session.to_messages() == [
        {"role": "user", "content": [text("hello")]},
        {"role": "assistant", "content": []},
    ]


def test_from_messages_leaves_what_it_is_given_alone() -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": [result("t", "x" * 9_000)]}] * 2
    session = ct.from_messages(messages)
    session.to_messages()[0]["content"][0]["content"] = "changed"
    ct.apply(session, ct.plan(session, "manual", clear="0:0"))
    assert messages[0]["content"][0]["content"] == "x" * 9_000 == session.to_messages()[0]["content"][0]["content"]


def test_points_outside_a_session() -> None:
    session = ct.from_messages([{"role": "user", "content": "x"}])
    assert len(session.context_at(0)) == 0 and len(session.context_at(1)) == 1
    for at in (-1, 2):
        with pytest.raises(ct.PlanError, match="is not in the session"):
            session.context_at(at)


def test_an_empty_session() -> None:
    session = ct.from_messages([])
    assert session.to_messages() == [] and ct.tokens.estimate(session) is None
    for name in ("defect-microcompact", "defect-compact", "koda-microcompact", "agent-sdk-prune", "agent-sdk-compact"):
        plan = ct.plan(session, name, force=True)
        assert not plan.has_changes and plan.reason and plan.tokens_before == plan.tokens_after == 0
        assert ct.apply(session, plan) is session
    with pytest.raises(ct.PlanError, match="it has no messages"):
        session.context_at(1)


@fixtures
@given(recording=conversations())
def test_a_context_is_what_came_before_it_in_its_epoch(tmp_path: Path, recording: Recording) -> None:
    session = recording.open(tmp_path)
    starts = [epoch.message for epoch in session.facts.epochs]
    for at in range(len(session) + 1):
        begin = max((start for start in starts if start < at), default=0)
        assert list(session.context_at(at).order) == list(range(begin, at))
        rows = session.facts.request_message
        forgotten = max((c.message for c in session.facts.compactions if c.is_rewrite and c.message <= at), default=0)
        own = [row for row, message in enumerate(rows) if max(begin, forgotten) <= message < at]
        use = find_last_usage(session.context_at(at))
        assert (use.context if use else None) == (session.facts.requests[own[-1]].context if own else None)


# -- sizes


def test_not_in_the_file_is_taken_at_the_first_request(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("x" * 400)
    recording.assistant(text("y" * 4_000), use=usage(1_000, 9_000, 500))
    recording.user("x" * 40_000)
    recording.assistant(text("z"), use=usage(99_000))
    assert measure_context(recording.open(tmp_path).context_at()).not_in_file == 10_500 - 100


@pytest.mark.parametrize("recorded", [1, 100])
def test_not_in_the_file_is_never_negative(tmp_path: Path, recorded: int) -> None:
    recording = Recording()
    recording.user("x" * 400)
    recording.assistant(text("y"), use=usage(recorded))
    assert measure_context(recording.open(tmp_path).context_at()).not_in_file == 0
    unrecorded = ct.from_messages([{"role": "user", "content": "x"}])
    assert measure_context(unrecorded.context_at()).not_in_file is None


def test_an_estimate_that_is_far_off_has_a_cause(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("x" * 400)
    recording.assistant(call("t1"), use=usage(100))
    recording.results(result("t1", "y" * 40_000))
    recording.assistant(text("z"), use=usage(25_000))
    session = recording.open(tmp_path)
    fit = check_estimate(session, session.context_at())
    assert fit and fit.expected == 10_101 and fit.relative_error == pytest.approx(-0.596, abs=0.001)
    assert fit.causes_text == "unattributed +14,899 tokens"


@pytest.mark.parametrize(
    ("model", "recorded", "expected"),
    [
        ("claude-sonnet-4-5-20250929", 10, (200_000, "model")),
        ("claude-sonnet-4-5[1m]", 10, (1_000_000, "model")),
        ("claude-sonnet-4-5", 200_001, (1_000_000, "inferred")),
        ("claude-sonnet-4-5", 450_000, (1_000_000, "inferred")),
        ("claude-sonnet-4-5", 1_200_000, (1_200_000, "inferred")),
        ("anthropic/claude-opus-4", 10, (200_000, "model")),
        ("glm-4.6", 10, (128_000, "model")),
        ("of-tomorrow", 10, (200_000, "assumed")),
    ],
)
def test_windows(tmp_path: Path, model: str, recorded: int, expected: tuple[int, str]) -> None:
    recording = Recording()
    recording.assistant(text("x"), model=model, use=usage(recorded))
    session = recording.open(tmp_path)
    assert (session.window.tokens, session.window.source) == expected
    given = session.with_window(50_000).window
    assert (given.tokens, given.source) == (50_000, "given")
    session.facts.window = 64_000
    inferred = replace(session, _windows={}).window
    assert inferred.source == ("file" if recorded <= 64_000 else "inferred")


@pytest.mark.parametrize("window", [0, -1])
def test_windows_are_positive(tmp_path: Path, window: int) -> None:
    recording = Recording()
    recording.user()
    with pytest.raises(ct.PlanError, match=f"window={window}"):
        ct.open_session(recording.write(tmp_path), window=window)


def test_an_id_that_is_used_again_is_that_of_the_last_call_before() -> None:
    """As some agents number the calls of each reply anew, and models repeat an id that they have seen."""
    ids, turns = ["a", "b", "a", "a", "b"], list[dict[str, Any]]()
    for number, name in enumerate(ids):
        turns.append({"role": "assistant", "content": [call(name, "Read", file_path=f"{number}.py")]})
        if number != 2:
            turns.append({"role": "user", "content": [result(name, f"text {number}")]})
    facts = ct.from_messages(
        [{"role": "user", "content": "go"}, *turns, {"role": "user", "content": [result("c", "")]}]
    ).facts
    for known in (facts, facts.copy()):
        rows = [next(known.blocks_of(message)) for message in range(1, len(known))]
        uses, results = [rows[at] for at in (0, 2, 4, 5, 7)], [rows[at] for at in (1, 3, 6, 8)]
        assert [known.find_tool_use(row) for row in results] == [uses[at] for at in (0, 1, 3, 4)]
        assert [known.find_tool_result(row) for row in uses] == [results[0], results[1], -1, results[2], results[3]]
        assert known.find_tool_use(rows[-1]) == -1
        assert known.find_tool_result(next(known.blocks_of(0))) == -1, "a text is no call"
    more = facts.copy()
    more.add_call(more.add_message(Role.ASSISTANT), "a", "Read", {})
    assert facts.repeated_calls != more.repeated_calls


def test_ids_of_another_type_than_text_pair_by_their_value(tmp_path: Path) -> None:
    recording, ids = Recording(), [5, 6]
    recording.user()
    recording.assistant(*[call("", "Read") | {"id": each} for each in ids])
    recording.results(*[result("", "text") | {"tool_use_id": each} for each in reversed(ids)])
    facts = recording.open(tmp_path).facts
    assert [facts.find_tool_use(row) for row in facts.blocks_of(2)] == [*facts.blocks_of(1)][::-1]


@pytest.mark.parametrize("removed", [True, False])
def test_a_turn_starts_where_its_first_text_remains(removed: bool) -> None:
    turns = [{"role": role, "content": f"text {number}"} for number in range(3) for role in ("user", "assistant")]
    context = ct.from_messages(turns).context_at()
    row = next(context.facts.blocks_of(2))
    other = context.with_bodies({row: Body(None, 0, removed=True) if removed else Body.from_text("another text")})
    assert index_context(other).turn_starts == ([0, 4] if removed else [0, 2, 4])


def test_a_result_of_the_size_of_a_marker_is_not_cleared_already() -> None:
    marker = "[cleared 1]"
    bodies = [marker, "[cleared 2]", "cleared: no"]
    answers = [result(f"c{number}", body) for number, body in enumerate(bodies)]
    calls = [call(f"c{number}", "Read", file_path=body) for number, body in enumerate(bodies)]
    context = ct.from_messages([{"role": "assistant", "content": calls}, {"role": "user", "content": answers}])
    rows = context.facts.blocks_of(1)
    assert [is_already_cleared(context.context_at(), row, "results", marker) for row in rows] == [True, False, False]


def test_only_what_is_inferred_is_restored() -> None:
    answers = [result(f"c{number}", f"text {number}") for number in range(3)]
    calls = [call(f"c{number}", "Read", file_path=f"{number}.py") for number in range(3)]
    session = ct.from_messages([{"role": "assistant", "content": calls}, {"role": "user", "content": answers}])
    sources = dict(zip(session.facts.blocks_of(1), ("", "recorded", "inferred"), strict=True))
    context = session.context_at().with_bodies({row: Body("[gone]", 6, source) for row, source in sources.items()})
    restored = restore_inferred(context)
    assert [body.source for body in restored.replacements.values()] == ["", "recorded"]


@pytest.mark.parametrize(("median", "text"), [(0.0, "±0.1 %"), (0.0004, "±0.1 %"), (0.021, "±2.1 %")])
def test_no_calibration_is_without_error(median: float, text: str) -> None:
    error = ErrorStats(median, median)
    assert format_calibration(Calibration("m", 9, PRIOR, error, error, True, "")) == text
