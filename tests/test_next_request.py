"""What the next request would be: recorded - what goes + what comes in, checked against what recordings show."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import context_tui as ct
from context_tui.compaction.changes import Change, UniformChanges
from context_tui.compaction.next_request import compute_next_request
from context_tui.compaction.recorded_compactions import find_recorded_compactions
from context_tui.session.context import Body
from context_tui.session.drops import find_drops
from context_tui.session.facts import Prompt, PromptPart, Usage
from context_tui.session.session import Session
from context_tui.session.values import Kind
from context_tui.tokens.accounting import BelievedSize, estimate_prompt
from context_tui.tokens.context_index import index_context
from context_tui.tokens.context_size import (
    MAX_PROMPT_TOKENS,
    SizeSource,
    find_standing_tokens,
    measure_context,
    resize,
)
from context_tui.tokens.measures import build_calibrated_table
from tests.formats.recordings import Recording, call, conversations, result, text, usage
from tests.test_plans import plans

CORPUS = Path(__file__).parents[2] / "shared" / "corpus"
fixtures = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)


@fixtures
@given(recording=conversations(), data=st.data())
def test_it_adds_up_for_any_plan_at_any_point(tmp_path: Path, recording: Recording, data: st.DataObject) -> None:
    session = recording.open(tmp_path)
    plan = data.draw(plans(session, data.draw(st.none() | st.integers(0, len(session)))))
    for table in (None, build_calibrated_table(session.facts)):
        account = measure_context(plan.context, table)
        for summary in (None, "", "The summary."):
            request = compute_next_request(plan, summary, table)
            assert request.tokens_before == account.tokens and request.inserted_tokens >= 0
            least = min(account.fixed, account.tokens) + request.inserted_tokens
            assert request.tokens_after >= least, "what no plan removes stays"
            assert request.tokens_before - request.removed_tokens + request.inserted_tokens == request.tokens_after
            for size in (request.account.size, request.after):
                assert 0 <= size.low <= size.tokens <= size.high
            assert 0.0 <= request.saved_share <= 1.0
            assert request.summary_pending == (plan.needs_summary and summary is None)
            if summary and table and plan.has_changes and account.has_prompt:
                copy = ct.apply(session, plan, summary, table)
                for measure in (None, build_calibrated_table(copy.facts)):
                    assert measure_context(copy.context_at(), measure).tokens == request.tokens_after


@pytest.mark.slow
@fixtures
@given(recording=conversations(compactions=False))
def test_it_is_recorded_plus_what_came_after(tmp_path: Path, recording: Recording) -> None:
    session = recording.open(tmp_path)
    facts = session.facts
    for at in range(len(session) + 1):
        account, row = measure_context(session.context_at(at)), bisect_left(facts.request_message, at) - 1
        if row < 0:
            content = index_context(session.context_at(at)).total + estimate_prompt(facts)
            assert account.recorded is None and account.origin is SizeSource.ESTIMATED
            assert account.tokens == content
        else:
            since = sum(ct.tokens.estimate(session.message(m)) or 0 for m in range(facts.request_message[row], at))
            assert account.parts == BelievedSize(facts.requests[row].context, since)
            assert account.origin is (SizeSource.PARTLY if since else SizeSource.RECORDED)


@given(
    size=st.integers(0, 10**6),
    fixed=st.integers(0, 10**6),
    content=st.integers(0, 10**6),
    removed=st.lists(st.integers(-1_000, 10**6), min_size=2),
    shares=st.lists(st.floats(0, 1), min_size=2),
)
def test_the_more_goes_the_less_is_left(
    size: int, fixed: int, content: int, removed: list[int], shares: list[float]
) -> None:
    """Also where the content measures several times the recorded size, as after a clearing that nothing explains."""
    steps = [*zip(sorted(removed), sorted(shares), strict=False)]
    sizes = [resize(size, fixed, content, -each, share) for each, share in steps]
    assert all(less >= more for less, more in pairwise(sizes))
    assert min(sizes) >= min(fixed, size)
    assert all(left <= size for (each, _), left in zip(steps, sizes, strict=True) if each >= 0)
    assert resize(size, fixed, content, -content, 1.0) == min(size, fixed), "of nothing, nothing is left"


def test_content_that_measures_more_than_the_size_has_its_share_of_the_size() -> None:
    assert resize(60_000, 20_000, 80_000, -1_000, 0.0) == 59_000, "a little counts in full"
    assert resize(60_000, 20_000, 80_000, -40_000, 0.5) == 35_000, "of 40,000 half, less a quarter of it"
    assert resize(60_000, 20_000, 80_000, -78_000, 1.0) == 20_987


def test_what_is_recorded_but_not_measured_goes_with_the_requests_that_brought_it() -> None:
    assert resize(63_000, 42_000, 2_000, -2_000, 1.0) == 42_000, "all requests: the system prompt and tools stay"
    assert resize(63_000, 42_000, 2_000, -1_000, 0.5) == 63_000 - 1_000 - 9_500
    assert resize(63_000, 42_000, 2_000, -1_000, 0.0) == 62_000, "a result that is cleared takes no request along"


def small(folder: Path) -> Session:
    """A session of 15,681 recorded tokens, of which the file holds about a tenth."""
    recording = Recording()
    recording.user("x" * 400)
    recording.assistant(call("t0"), use=usage(14_105))
    recording.results(result("t0", "y" * 4_000))
    recording.user("and now?")
    recording.assistant(call("t1"), use=usage(15_681))
    recording.results(result("t1", "z" * 400))
    return recording.open(folder)


def test_what_is_not_in_the_file_stays(tmp_path: Path) -> None:
    plan = ct.plan(small(tmp_path), "manual", clear="2:0")
    request = compute_next_request(plan)
    assert plan.tokens_after < plan.tokens_before * 0.5, "most of what is in the file goes"
    assert request.account.recorded == 15_681
    assert request.tokens_before == 15_681 + index_context(plan.context).tokens[-1] + 1
    assert request.removed_tokens == 1_000 - 21
    assert request.tokens_after == request.tokens_before - 979
    assert request.saved_share == pytest.approx(0.062, abs=0.001)


def test_a_copy_is_as_large_as_was_said_before_it_was_made(tmp_path: Path) -> None:
    session = small(tmp_path)
    table = build_calibrated_table(session.facts)
    marks: list[dict[str, Any]] = [{"clear": "2:0"}, {"cut": 3}, {"clear": "5:0"}]
    for marked, summary in zip(marks, [None, "The summary.", None], strict=True):
        plan = ct.plan(session, "manual", **marked)
        size, copy = compute_next_request(plan, summary, table).tokens_after, ct.apply(session, plan, summary)
        for measure in (None, build_calibrated_table(copy.facts)):
            assert measure_context(copy.context_at(), measure).tokens == size
        again = compute_next_request(ct.plan(copy, "manual", cut=1))
        assert again.tokens_before == size and again.saved_share < 0.2
    unrecorded = ct.from_messages([session.message(message) for message in range(len(session))])
    plan = ct.plan(unrecorded, "manual", clear="2:0")
    typical = build_calibrated_table(unrecorded.facts)
    size = compute_next_request(plan, token_table=typical).tokens_after
    assert measure_context(ct.apply(unrecorded, plan).context_at(), typical).tokens == size


def test_nothing_unmeasured_survives_a_summary_of_everything(tmp_path: Path) -> None:
    """A size that its content does not explain is no part of the context that stays."""
    recording = Recording()
    for turn in range(12):
        recording.user(f"turn {turn} " + "x" * 400)
        recording.assistant(text("So. " * 20), use=usage(20_000 + 6_000 * turn))
    session = recording.open(tmp_path)
    plan = ct.plan(session, "manual", cut=len(session))
    request = compute_next_request(plan, "The summary.", build_calibrated_table(session.facts))
    assert request.tokens_before > 86_000 and 19_000 < request.tokens_after < 21_000


@pytest.mark.parametrize(
    ("row", "size"), [(0, 0), (1, 0), (5, 0), (5, 300), (10, 300)], ids=["first", "second", "none", "small", "late"]
)
def test_a_request_smaller_than_its_content_does_not_show_what_every_context_holds(row: int, size: int) -> None:
    """An aborted call records no tokens, and a title or a check of a command another conversation's."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "do it"}]
    for number in range(12):
        messages.append({"role": "assistant", "content": [call(f"t{number}")]})
        messages.append({"role": "user", "content": [result(f"t{number}", "y" * 4_000)]})
    session = ct.from_messages(messages)
    for number in range(12):
        recorded = 12_000 + 1_020 * number
        session.facts.add_request(1 + 2 * number, Usage(fresh=size if number == row else recorded, output=20))
    account = measure_context(session.context_at(), build_calibrated_table(session.facts))
    assert account.not_in_file == pytest.approx(12_000, rel=0.05)
    plan = ct.plan(session, "manual", cut=len(session))
    after = compute_next_request(plan).after
    assert 11_000 < after.low < account.fixed <= after.tokens < after.high, "the measured first request has an error"
    assert all(drop.tokens < 40_000 for drop in find_drops(session.facts) if size == 0), "no size is no drop"


@pytest.mark.parametrize("has_tools", [False, True])
def test_a_size_without_any_record_allows_for_unknown_tools(has_tools: bool) -> None:
    """Before its first request, a session's system prompt may be known, and its tools not."""
    session = ct.from_messages([{"role": "user", "content": "do it"}])
    tools = (PromptPart("Read", 800, "{}".ljust(800)),) if has_tools else ()
    session.facts.prompts.append(Prompt(0, (PromptPart("system", 4_000, "x" * 4_000),), tools))
    session.facts.system_bytes, session.facts.tools_bytes = 4_000, 800 * has_tools
    assert (measure_context(session.context_at()).size.high > 60_000) is not has_tools


def test_a_size_without_any_record_allows_for_an_unknown_prompt() -> None:
    session = ct.from_messages([{"role": "user", "content": "x" * 4_000}, {"role": "assistant", "content": "y"}])
    size = measure_context(session.context_at(), build_calibrated_table(session.facts)).size
    assert size.source == "estimated" and size.high > size.tokens + MAX_PROMPT_TOKENS > size.low


def test_after_a_compaction_it_is_an_estimate_with_what_is_not_in_the_file(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("x" * 400)
    recording.assistant(text("y" * 400), use=usage(14_100))
    recording.boundary()
    recording.summary("z" * 4_000)
    recording.user("x" * 40)
    session = recording.open(tmp_path)
    assert measure_context(session.context_at()).parts == BelievedSize(None, 14_000 + 1_000 + 10)
    first = measure_context(session.context_at(1))
    assert first.parts == BelievedSize(None, 100) and first.size.high > 14_100, (
        "before it nothing is known of a request"
    )


RECORDED = sorted((CORPUS / "claude-code").glob("cli__*compact*.jsonl"))


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in RECORDED])
def test_it_is_near_the_request_after_each_recorded_compaction(path: Path) -> None:
    session = ct.open_session(path)
    table = build_calibrated_table(session.facts)
    for compaction in find_recorded_compactions(session):
        if compaction.kind == "full" and compaction.recorded_tokens_after:
            before = measure_context(compaction.context_before, table)
            after = measure_context(compaction.context_after, table)
            size = before.resize(before.content - after.content, before.requests - after.requests)
            assert size.tokens == pytest.approx(compaction.recorded_tokens_after, rel=0.33)


@pytest.mark.slow
@fixtures
@given(recording=conversations(), data=st.data())
def test_one_change_to_many_blocks_removes_what_as_many_changes_remove(
    tmp_path: Path, recording: Recording, data: st.DataObject
) -> None:
    session = recording.open(tmp_path)
    facts, plan = session.facts, data.draw(plans(session, None))
    rows = [row for message in plan.context.order for row in facts.blocks_of(message)]
    kinds = data.draw(st.sampled_from([(Kind.TOOL_RESULT,), (Kind.TOOL_RESULT, Kind.TEXT)]))
    uniform = UniformChanges([row for row in rows if facts.kind[row] in kinds], Change("clear", Body("", 0), "test"))
    for ranges in (plan.dropped_ranges, ()):
        many = replace(plan, changes=dict(uniform), dropped_ranges=ranges, inserts=())
        table = build_calibrated_table(facts)
        sizes = [
            compute_next_request(each, "", table).removed_tokens for each in (many, replace(many, changes=uniform))
        ]
        assert sizes[0] == sizes[1]


def test_what_two_ranges_remove_adds_up() -> None:
    messages: list[dict[str, Any]] = []
    for number in range(9):
        messages.append({"role": "user", "content": f"question {number} " * 40 * (number + 1)})
        messages.append({"role": "assistant", "content": f"answer {number} " * 30 * (number + 2)})
    session = ct.from_messages(messages)
    plan, table = ct.plan(session, "manual", force=True), build_calibrated_table(session.facts)

    def count_removed(*ranges: range) -> int:
        return compute_next_request(replace(plan, dropped_ranges=ranges), "", table).removed_tokens

    assert count_removed(range(3, 5)) + count_removed(range(5, 11)) == count_removed(range(3, 11)) > 0
    assert count_removed(range(3, 4), range(7, 9)) == count_removed(range(3, 4)) + count_removed(range(7, 9))


def test_what_an_agent_inserts_into_every_context_is_not_removed(tmp_path: Path) -> None:
    recording = Recording()
    recording.attachment("file", filename="/p/rules.md", content="a rule of the project " * 200)
    for number in range(4):
        recording.user(f"question {number} " * 50)
        recording.assistant(text("answer " * 50), use=usage(9_000 + 200 * number))
    session = recording.open(tmp_path)
    plan = ct.plan(session, "manual", force=True)
    for table in (None, build_calibrated_table(session.facts)):
        standing = find_standing_tokens(plan.context, table)
        assert [*standing] == [0] and standing[0] > 500
        sizes = [
            compute_next_request(replace(plan, dropped_ranges=(range(first, 3),)), "", table).removed_tokens
            for first in (0, 1)
        ]
        assert 0 < sizes[1] <= sizes[0] < sizes[1] + standing[0]
