"""What the next request would be: recorded - what goes + what comes in, checked against what recordings show."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import context_tui as ct
from context_tui.cli.plan import format_request
from context_tui.compaction.next_request import NextRequest, SizeSource, compute_current_size, compute_next_request
from context_tui.policies.registry import POLICIES
from context_tui.session.context import Context, context_at
from context_tui.session.facts import Compaction
from context_tui.session.session import Session
from context_tui.tokens.accounting import BelievedSize, compute_not_in_file, estimate_prompt
from context_tui.tokens.context_index import index_context
from context_tui.tokens.estimators import ESTIMATORS, count_context_tokens
from tests.formats.recordings import Recording, call, conversations, result, text, usage
from tests.test_plans import plans

CORPUS = Path(__file__).parents[2] / "shared" / "corpus"
fixtures = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
AUTOMATIC = sorted(set(POLICIES) - {"manual", "chain"})


@fixtures
@given(recording=conversations(), data=st.data())
def test_it_adds_up_for_any_plan_at_any_point(tmp_path: Path, recording: Recording, data: st.DataObject) -> None:
    session = recording.open(tmp_path)
    plan = data.draw(plans(session, data.draw(st.none() | st.integers(0, len(session)))))
    for summary in (None, "", "The summary."):
        request = compute_next_request(plan, summary)
        assert request.tokens_before == request.current_size.tokens and request.inserted_tokens >= plan.tokens_inserted
        prompt = estimate_prompt(session.facts)
        least = prompt + (compute_not_in_file(plan.context) or 0)
        least = least if least <= request.tokens_before else prompt
        assert (
            request.tokens_after
            == max(request.tokens_before - request.removed_tokens, min(least, request.tokens_before), 0)
            + request.inserted_tokens
        )
        assert 0.0 <= request.saved_share <= 1.0
        assert request.summary_pending == (plan.needs_summary and summary is None)
        assert plan.tokens_before - request.removed_tokens + plan.tokens_inserted == plan.tokens_after
    written = compute_next_request(plan, "The summary.")
    left = ct.tokens.estimate(ct.apply(session, plan, "The summary.")) or 0
    if plan.has_changes:
        assert written.removed_tokens - written.inserted_tokens == plan.tokens_before - left, (
            "what goes is what applying it takes away"
        )


@fixtures
@given(recording=conversations(compactions=False))
def test_it_is_recorded_plus_what_came_after(tmp_path: Path, recording: Recording) -> None:
    session = recording.open(tmp_path)
    facts = session.facts
    for at in range(len(session) + 1):
        context = session.context_at(at)
        request, row = NextRequest(compute_current_size(context)), bisect_left(facts.request_message, at) - 1
        if row < 0:
            assert request.current_size == BelievedSize(None, index_context(context).total + estimate_prompt(facts))
            assert request.source_before is SizeSource.ESTIMATED
        else:
            since = sum(ct.tokens.estimate(session.message(m)) or 0 for m in range(facts.request_message[row], at))
            assert request.current_size == BelievedSize(facts.requests[row].context, since)
            assert request.source_before is (SizeSource.PARTLY if since else SizeSource.RECORDED)


@given(
    now=st.builds(BelievedSize, st.none() | st.integers(0, 10**6), st.integers(0, 10**6)),
    goes=st.lists(st.integers(-1_000, 10**6), min_size=2),
    comes=st.integers(0, 10**5),
)
def test_the_more_goes_the_less_is_left(now: BelievedSize, goes: list[int], comes: int) -> None:
    requests = [NextRequest(now, each, comes) for each in sorted(goes)]
    for less, more in pairwise(requests):
        assert more.tokens_after <= less.tokens_after and more.saved_share >= less.saved_share
    assert all(each.tokens_after >= 0 and 0 <= each.saved_share <= 1 for each in requests)


@fixtures
@given(recording=conversations(), name=st.sampled_from(AUTOMATIC))
def test_what_goes_is_estimated_by_the_policy_that_takes_it(tmp_path: Path, recording: Recording, name: str) -> None:
    session = recording.open(tmp_path)
    plan = ct.plan(session, name, force=True)
    request = compute_next_request(plan)
    assert request.estimator == ("bytes/3.5" if name.startswith("koda") and plan.has_changes else "bytes/4")
    if not plan.dropped_ranges:
        estimator = ESTIMATORS[request.estimator]
        assert request.removed_tokens == count_context_tokens(plan.context, estimator) - count_context_tokens(
            plan.build_context_after(), estimator
        )


@fixtures
@given(recording=conversations(), second=st.sampled_from(AUTOMATIC[:-1]))
def test_of_a_chain_all_goes_that_its_policies_take(tmp_path: Path, recording: Recording, second: str) -> None:
    session = recording.open(tmp_path)
    first = "koda-microcompact" if second == "agent-sdk-prune" else "agent-sdk-prune"
    chain = ct.plan(session, "chain", policies=f"{first},{second}", force=True)
    goes = [compute_next_request(step).removed_tokens for step in chain.steps]
    assert compute_next_request(chain).removed_tokens == sum(goes) and compute_next_request(
        chain
    ).current_size == compute_current_size(chain.context)


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
    assert (
        request.current_size.recorded == 15_681
        and request.tokens_before == 15_681 + index_context(plan.context).tokens[-1] + 1
    )
    assert request.removed_tokens == 1_000 - 21
    assert request.tokens_after == request.tokens_before - 979 and request.saved_share == pytest.approx(
        0.062, abs=0.001
    )


def test_a_copy_is_as_large_as_was_said_before_it_was_made(tmp_path: Path) -> None:
    session = small(tmp_path)
    marks: list[dict[str, Any]] = [{"clear": "2:0"}, {"cut": 3}, {"clear": "5:0"}]
    for marked, summary in zip(marks, [None, "The summary.", None], strict=True):
        plan = ct.plan(session, "manual", **marked)
        said, copy = compute_next_request(plan, summary), ct.apply(session, plan, summary)
        assert compute_current_size(copy.context_at()) == BelievedSize(None, said.tokens_after)
        again = ct.plan(copy, "manual", cut=1)
        assert (
            compute_next_request(again).tokens_before == said.tokens_after
            and compute_next_request(again).saved_share < 0.2
        )
    over = Recording()
    for turn in range(4):
        over.user(f"turn {turn} " + "x" * 8_000)
        over.assistant(text("So."), use=usage(600 * turn + 900))
    (tmp_path / "over").mkdir()
    large = over.open(tmp_path / "over")
    made = ct.plan(large, "manual", cut=4)
    said, copy = compute_next_request(made, "The summary."), ct.apply(large, made, "The summary.")
    assert compute_current_size(copy.context_at()) == BelievedSize(None, said.tokens_after)
    assert said.tokens_after < index_context(copy.context_at()).total, "which is estimated too large, as before"
    unrecorded = ct.from_messages([session.message(message) for message in range(len(session))])
    plan = ct.plan(unrecorded, "manual", clear="2:0")
    assert (
        compute_current_size(ct.apply(unrecorded, plan).context_at()).tokens
        == compute_next_request(plan).tokens_after
        == plan.tokens_after
    )


def test_after_a_compaction_it_is_an_estimate_with_what_is_not_in_the_file(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("x" * 400)
    recording.assistant(text("y" * 400), use=usage(14_100))
    recording.boundary()
    recording.summary("z" * 4_000)
    recording.user("x" * 40)
    session = recording.open(tmp_path)
    assert compute_current_size(session.context_at()) == BelievedSize(None, 14_000 + 1_000 + 10)
    assert compute_current_size(session.context_at(1)) == BelievedSize(None, 100), (
        "before the first request nothing is known of it"
    )


RECORDED = sorted((CORPUS / "claude-code").glob("cli__*compact*.jsonl"))


def compactions(session: Session) -> Iterator[tuple[Compaction, int]]:
    """Recorded compactions with the row of the request after each, where no other compaction comes before that."""
    facts = session.facts
    full = {each.message for each in facts.compactions if each.kind == "full"}
    for each in facts.compactions:
        row = bisect_left(facts.request_message, each.message)
        if row < len(facts.requests) and (each.kind == "full" or each.message not in full):
            yield each, row


def sizes_of(context: Context, messages: range) -> int:
    sums = index_context(context)
    return sum(sums.tokens[sums.position_of[message]] for message in messages if message in sums.position_of)


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in RECORDED])
def test_it_is_nearer_to_the_next_recorded_request_than_what_is_in_the_file(path: Path) -> None:
    session = ct.open_session(path)
    facts = session.facts
    for compaction, row in compactions(session):
        at, recorded = facts.request_message[row], facts.requests[row].context
        before, follows = context_at(facts, compaction.message, after_micro=False), session.context_at(at)
        left = index_context(follows).total
        if compaction.kind == "micro":
            cleared = index_context(context_at(facts, compaction.message)).total
            left = cleared + sizes_of(follows, range(compaction.message, at))
        request = NextRequest(compute_current_size(before), index_context(before).total, left)
        real, of_file = 1 - recorded / request.tokens_before, 1 - left / index_context(before).total
        sizes = f"{request.tokens_before:,} -> {request.tokens_after:,}, was {recorded:,}"
        print(f"{compaction.kind} at {compaction.message}: {sizes}")
        assert abs(request.saved_share - real) < 0.2
        assert compaction.kind == "micro" or abs(request.saved_share - real) < abs(of_file - real)


def test_a_first_request_that_was_larger_than_the_last_says_nothing_of_what_stays(tmp_path: Path) -> None:
    """As where another model counts otherwise, or tools were taken away."""
    recording = Recording()
    for turn, size in enumerate((40_000, 41_000, 42_000, 12_000)):
        recording.user(f"turn {turn} " + "x" * 4_000)
        recording.assistant(text("So."), use=usage(size))
    session = recording.open(tmp_path)
    made = ct.plan(session, "manual", cut=4)
    assert (compute_not_in_file(made.context) or 0) > 30_000
    request = compute_next_request(made)
    assert (
        9_900 < request.tokens_after < 10_100 and request.removed_tokens == request.tokens_before - request.tokens_after
    )
    said = format_request(compute_next_request(made, "word " * 3_000))
    assert ", 15% more (" in said and "at least" not in said
