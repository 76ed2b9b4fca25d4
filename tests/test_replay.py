"""A policy along a recording: its own history, what it believes, what the provider would have reported."""

from __future__ import annotations

import json
from array import array
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import context_tui as ct
from context_tui.compaction.plan import Plan, Trigger
from context_tui.errors import PlanError
from context_tui.lab.price.pricing import price_replay
from context_tui.lab.replay import recording as recording_module
from context_tui.lab.replay.amounts import (
    ZERO_AMOUNT,
    Amount,
    add_amounts,
    resize_context,
    subtract_amounts,
    sum_amounts,
)
from context_tui.lab.replay.recording import Recording
from context_tui.lab.replay.result import CompactionHandling
from context_tui.lab.replay.walk import Walk, replay, replay_recording
from context_tui.lab.sweep.clearing_kernel import SweepTrack
from context_tui.policies.base import BasePolicy, Policy, build_empty_plan
from context_tui.policies.base import Params as AnyParams
from context_tui.policies.builtin.defect import DefectMicrocompact, DefectMicrocompactParams
from context_tui.policies.parameter_space import build_params
from context_tui.policies.registry import POLICIES
from context_tui.policies.runtime_state import RuntimeState, count_context_images
from context_tui.policies.trigger_points import find_phases, iterate_runtime_states
from context_tui.session.context import Body, Context
from context_tui.session.facts import Facts, Usage
from context_tui.session.session import Message, Session
from context_tui.session.values import BlockFlag, Kind
from context_tui.tokens.context_index import index_context
from context_tui.tokens.context_size import find_last_summary
from context_tui.tokens.measures import TokenMeasure, TokenTable
from context_tui.tokens.running_sizes import count_past_reasoning
from tests.formats import recordings, rollouts
from tests.formats.recordings import call, conversations, reasoning, result, text, usage

fixtures = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
PHASES = frozenset({"before_call", "after_tools", "user_turn"})
SUMMARY = 100


class Watching(BasePolicy):
    """Sees every moment, and never fires."""

    name: ClassVar[str] = "watching"
    about: ClassVar[str] = "watches"
    phases: ClassVar[frozenset[str]] = PHASES
    Params: ClassVar[type[AnyParams]] = AnyParams

    def __init__(self) -> None:
        self.seen: list[RuntimeState] = []

    def trigger(self, state: RuntimeState, params: AnyParams) -> Trigger:
        self.seen.append(state)
        return Trigger(False, "never")

    def plan(self, context: Context, params: AnyParams, state: RuntimeState) -> Plan:
        return build_empty_plan(self.name, params, context, Trigger(False, "never"), "never")


def walked(
    session: Session, name: str | Policy, recorded: CompactionHandling = "keep", delay: int = 0, **params: Any
) -> Walk:
    """A replay that is through, with the history that it ended with."""
    policy = POLICIES[name] if isinstance(name, str) else name
    walk = Walk(Recording(session), policy, build_params(policy, params), recorded, SUMMARY, delay)
    walk.run(lambda: None)
    return walk


# -- a policy that never fires


@pytest.mark.slow
@fixtures
@given(recording=conversations())
def test_what_never_fires_reproduces_the_recording(tmp_path: Path, recording: recordings.Recording) -> None:
    session, watching = reasoning(recording.open(tmp_path)), Watching()
    made = replay_recording(Recording(session), watching, AnyParams())
    assert made.sizes == made.baseline
    known = {m: u.context for m, u in zip(session.facts.request_message, session.facts.requests, strict=True)}
    by_call = zip(made.calls, made.sizes, strict=True)
    assert all(size == known[each.message] for each, size in by_call if known.get(each.message))
    assert not made.firings and not made.removed_by_policy
    assert made.totals.saved == 0
    end = made.calls[-1].message if made.calls else -1
    states = [state for state in iterate_runtime_states(session, PHASES) if state.at <= end]
    assert [_essence(state) for state in watching.seen] == [_essence(state) for state in states]


def _essence(state: RuntimeState) -> object:
    size = state.recorded_usage.context if state.recorded_usage else None
    counts = (
        state.estimated_tokens,
        state.message_count,
        state.result_count,
        state.reply_tokens if state.recorded_usage else 0,
        state.reasoning_tokens,
        state.images,
    )
    return state.at, state.believed_tokens, size, state.idle_seconds, state.has_assistant, state.window, counts


@fixtures
@given(recording=conversations(compactions=False))
def test_undoing_nothing_changes_nothing(tmp_path: Path, recording: recordings.Recording) -> None:
    session = recording.open(tmp_path)
    kept, ignored = Watching(), Watching()
    first = replay_recording(Recording(session), kept, AnyParams())
    second = replay_recording(Recording(session), ignored, AnyParams(), recorded="ignore")
    assert first.sizes == second.sizes == second.baseline
    assert kept.seen == ignored.seen


# -- the same as a loop that puts the whole history together at every moment


WEIGHTS: dict[int, float] = {Kind.TEXT: 1.5, Kind.THINKING: 0.5, Kind.TOOL_USE: 2.0, Kind.TOOL_RESULT: 1.25}


def weigh(facts: Facts, row: int) -> int:
    kind, size, text = facts.kind[row], facts.size[row], facts.text_bytes[row]
    if kind == Kind.IMAGE or facts.block_flags[row] & BlockFlag.HAS_IMAGE:
        return 300
    if kind == Kind.THINKING:
        return round(text // 4 * WEIGHTS[kind] + (size - text) // 4)
    return round(size // 4 * WEIGHTS.get(kind, 0.0))


def simple_table(facts: Facts) -> TokenTable:
    """Simple sizes, without a frame for requests, as the loop below cannot tell which messages answered one."""

    def count_body(row: int, body: Body) -> int:
        return 0 if body.removed else round(body.size // 4 * WEIGHTS.get(facts.kind[row], 0.0))

    blocks = array("l", (weigh(facts, row) for row in range(len(facts.kind))))
    messages = array("l", (sum(blocks[row] for row in facts.blocks_of(message)) for message in range(len(facts))))
    counters = count_body, lambda text: len(text.encode()) // 4, lambda part, is_tool: 0
    table = TokenTable(TokenMeasure.CALIBRATED, "simple", "", blocks, *counters, messages=messages)
    return replace(table, get_factor=lambda kind: WEIGHTS.get(kind, 0.0))


def held(messages: list[Message]) -> int:
    facts = ct.from_messages(messages).facts
    return sum(weigh(facts, row) for row in range(len(facts.kind)))


def identify(message: Message) -> str:
    """Return what stays the same of a message while calls and results in it are cleared."""
    parts = [block.get("id") or block.get("text") or block.get("tool_use_id") for block in message["content"]]
    return f"{message['role']} {parts}"


def naive(
    session: Session, name: str | Policy, **given: Any
) -> tuple[list[int], list[tuple[int, int, int]], list[Message]]:
    """Sizes by call, firings (message, before, after) and the history at the end; everything is made anew each time."""
    policy = POLICIES[name] if isinstance(name, str) else name
    facts, recording = session.facts, Recording(session)
    params = build_params(policy, given)
    messages: list[Message] = []
    sizes, firings = list[int](), list[tuple[int, int, int]]()
    usages = dict(zip(facts.request_message, facts.requests, strict=True))
    guessed = {each.message: size for each, size in zip(recording.calls, recording.sizes, strict=True)}
    fixed = {each.message: size for each, size in zip(recording.calls, recording.fixed_sizes, strict=True)}
    reported: Usage | None = None
    since = 0
    pending: list[tuple[int, list[Message], list[Message]]] = []
    for message in range(recording.calls[-1].message + 1 if recording.calls else 0):
        if policy.phases & find_phases(facts, message):
            now = ct.from_messages(messages)
            believed = ct.tokens.estimate(now) or 0
            if reported is not None:
                believed = reported.context + (ct.tokens.estimate(ct.from_messages(messages[since:])) or 0)
            original = next(state for state in iterate_runtime_states(session, policy.phases) if state.at == message)
            state = replace(original, believed_tokens=believed, recorded_usage=reported)
            state = replace(state, firing_only=True, window=session.window_at(message), message_count=len(messages))
            sums = index_context(now.context_at())
            state = replace(state, estimated_tokens=sums.total, result_count=len(sums.results.block))
            state = replace(state, images=count_context_images(now.context_at()))
            if policy.trigger(state, params).fires:
                plan = policy.plan(now.context_at(), params, state)
                if plan.has_changes:
                    before = messages
                    messages = ct.apply(now, plan, "." * 4 * SUMMARY).to_messages()
                    pending.append((message, before, messages))
                    reported = None
        if message in guessed:

            def of(these: list[Message], at: int, call: int = message) -> int:
                recorded = [session.message(each) for each in range(at)]
                replies = [session.message(each) for each in usages if each < at]
                stay = sum((Counter(map(identify, these)) & Counter(map(identify, replies))).values())
                known, content, least = set(map(identify, recorded)), held(recorded), min(fixed[call], guessed[call])
                unaccounted = max(guessed[call] - least - content, 0)
                removed = round(unaccounted * (1 - stay / len(replies))) if stay < len(replies) else 0
                rest = held([each for each in these if identify(each) in known])
                inserted = held([each for each in these if identify(each) not in known])
                if rest <= content and content:  # what stays has at least most of its share in the size
                    least += int(min(guessed[call] - least, content) * rest / content * (1 - rest / content / 2))
                return max(guessed[call] + rest - content - removed, least) + inserted

            sizes.append(of(messages, message))
            firings += [(at, of(before, message), of(after, message)) for at, before, after in pending]
            pending.clear()
            if message in usages and usages[message].context:
                fresh = min(usages[message].fresh, sizes[-1])
                reported, since = Usage(fresh, sizes[-1] - fresh), len(messages)
        appended = session.message(message)
        messages = [*messages, appended]
        pending = [(at, [*before, appended], [*after, appended]) for at, before, after in pending]
    return sizes, firings, messages


@fixtures
@given(
    recording=conversations(compactions=False),
    name=st.sampled_from(["defect-microcompact", "defect-compact", "koda-microcompact", "agent-sdk-compact"]),
    data=st.data(),
)
def test_it_equals_a_loop_that_makes_everything_anew(
    tmp_path: Path, recording: recordings.Recording, name: str, data: st.DataObject, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = recording.open(tmp_path)
    given: dict[str, Any] = {}
    fields = POLICIES[name].Params.model_fields
    if "context_budget" in fields:
        given["context_budget"] = data.draw(st.integers(1, 180_000))
    if "keep_recent_turns" in fields:
        given |= {"keep_recent_turns": data.draw(st.integers(1, 3)), "min_clear_tokens": data.draw(st.integers(0, 900))}
        given["microcompact_ratio"] = data.draw(st.sampled_from([0.01, 0.2, 0.6]))
    if "threshold" in fields:
        given["threshold"] = data.draw(st.integers(1, 180_000))
        given["assistant_boundary"] = data.draw(st.booleans())
    if "keep_recent" in fields:
        given |= {"keep_recent": data.draw(st.integers(0, 3))}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recording_module, "build_calibrated_table", simple_table)
        walk = walked(session, name, **given)
        sizes, firings, messages = naive(session, name, **given)
    assert walk.sizes == sizes
    assert [(f.message, f.before, f.after) for f in walk.firings] == firings
    walk.history.append_until(walk.history.end_message + bool(walk.recording.calls))
    _assert_same(walk, messages)


def _assert_same(walk: Walk, messages: list[Message]) -> None:
    """The history is these messages, but for the text of summaries."""
    facts = walk.recording.facts
    ours = walk.recording.session.messages_in
    order = walk.history.order
    assert len(order) == len(messages)
    for number, message in zip(order, messages, strict=True):
        if number < len(walk.recording.session):
            assert ours(walk.history.build_context(), [number]) == [message]
        else:
            assert facts.first_block[number] >= 0
            sizes = [facts.size[row] for row in facts.blocks_of(number)]
            assert sizes == [len(block["text"].encode()) for block in message["content"]]


@fixtures
@given(
    recording=conversations(),
    name=st.sampled_from(["defect-microcompact", "chain", "koda-microcompact", "agent-sdk-compact"]),
    recorded=st.sampled_from(["keep", "ignore"]),
    delay=st.integers(0, 3),
)
def test_what_is_kept_count_of_is_what_is_there(
    tmp_path: Path, recording: recordings.Recording, name: str, recorded: CompactionHandling, delay: int
) -> None:
    """Estimate and difference, which grow step by step, are those of the whole history; no event is missed."""
    session = reasoning(recording.open(tmp_path))
    given = {"chain": {"options": {"defect-microcompact": {"microcompact_ratio": 0.05, "keep_recent_turns": 1}}}}
    policy = POLICIES[name]
    params = build_params(policy, given.get(name, {}))
    walk = Walk(Recording(session), policy, params, recorded, SUMMARY, delay)
    checked = 0

    def check() -> None:
        nonlocal checked
        history, at = walk.history, walk.history.end_message
        assert history.estimate == history._estimate_tokens()
        assert history.count_past_reasoning() == count_past_reasoning(walk.recording.facts, history.order)
        there = walk.recording.compute_amount(history.order, history.replaced)
        actual = session.context_at(at)
        recorded_there = walk.recording.compute_amount(actual.order, actual.replacements)
        summary = find_last_summary(actual)
        put_back = walk.recording.put_back.get(summary, 0)
        there = there._replace(put_back=put_back if summary in history.order else 0)
        assert history.excess == subtract_amounts(there, recorded_there._replace(put_back=put_back))
        checked += 1

    walk.run(check)
    assert checked == len(walk.recording.calls)


# -- firings


def growing(turns: int, tokens: int = 10_000, *, cached: bool = True) -> recordings.Recording:
    """Each turn reads a file of 2,000 tokens and answers; each of its two requests records what is there by then."""

    def used(size: int) -> dict[str, Any]:
        return usage(0, read=size) if cached else usage(size)

    made, size = recordings.Recording(), tokens
    for turn in range(turns):
        made.user(f"turn {turn}")
        made.assistant(call(f"c{turn}", "Read", file_path=f"{turn}.py"), use=used(size))
        made.results(result(f"c{turn}", f"{turn} line\n" * 1_000))
        made.assistant(text("done"), use=used(size + 2_000))
        size += 2_020
    return made


@pytest.mark.parametrize("name", ["defect-microcompact", "defect-compact", "koda-microcompact", "agent-sdk-compact"])
def test_the_first_firing_is_the_plan_of_that_point(tmp_path: Path, name: str) -> None:
    session = growing(8, cached=name != "agent-sdk-compact").open(tmp_path).with_window(30_000)
    settings: dict[str, dict[str, Any]] = {
        "agent-sdk-compact": {"context_budget": 15_000},
        "koda-microcompact": {"gap_seconds": 1, "keep_recent": 1},
    }
    given = settings.get(name, {})
    made = replay(session, name, delay=0, **given)
    first = made.firings[0]
    plan = ct.plan(session, name, at=first.message, **given)
    assert first.plan.edits == plan.edits
    assert first.plan.inserts == plan.inserts
    assert [*first.plan.context.order] == [*plan.context.order]
    assert first.reason == plan.trigger.reason


def test_what_was_cleared_is_gone_from_every_later_call(tmp_path: Path) -> None:
    session = growing(8).open(tmp_path).with_window(30_000)
    made = replay(session, "defect-microcompact", keep_recent_turns=1)
    assert [firing.cleared for firing in made.firings] == [4, 3]
    assert [firing.message for firing in made.firings] == sorted(firing.message for firing in made.firings)
    first = made.firings[0]
    assert made.sizes[: first.call] == made.baseline[: first.call]
    assert first.before == made.baseline[first.call]
    assert first.after == made.sizes[first.call]
    assert all(size < was for size, was in zip(made.sizes[first.call :], made.baseline[first.call :], strict=True))
    assert sorted(made.removed_by_policy.values()) == [f.message for f in made.firings for _ in range(f.cleared)]
    assert made.totals.saved == sum(made.baseline) - sum(made.sizes)


@pytest.mark.parametrize("name", ["defect-microcompact", "defect-compact", "codex"])
def test_what_never_fires_says_where_it_came_nearest(tmp_path: Path, name: str) -> None:
    session = growing(8).open(tmp_path).with_window(400_000)
    made = replay(session, name)
    policy = POLICIES[name]
    triggers = [
        (state.at, policy.trigger(state, build_params(policy, {})))
        for state in iterate_runtime_states(session, policy.phases)
    ]
    looked = [each for each in triggers if each[0] <= made.calls[-1].message]
    at, nearest = max(looked, key=lambda each: each[1].value or 0)
    assert not made.firings and made.nearest_miss == (at, nearest.reason)
    assert replay(growing(8).open(tmp_path).with_window(20_000), name, delay=0).nearest_miss is None


@pytest.mark.parametrize("name", [name for name, policy in POLICIES.items() if policy.phases])
def test_a_firing_states_the_size_that_its_reason_names(name: str) -> None:
    session = ct.open_session(Path(__file__).parents[1] / "sample_sessions" / "coding-session.jsonl")
    for firing in replay(session.with_window(40_000), name).firings:
        if firing.plan.trigger.threshold is not None and firing.plan.trigger.unit == "tokens":
            assert f"{firing.believed:,}" in firing.reason


def test_what_fires_and_finds_nothing_to_do_says_so(tmp_path: Path) -> None:
    session = growing(2).open(tmp_path).with_window(10_000)
    made = replay(session, "defect-microcompact")
    assert made.nearest_miss is not None
    assert made.nearest_miss.reason == ct.plan(session, "defect-microcompact", at=made.nearest_miss.message).reason
    assert replay(session, "langchain-summarize").nearest_miss == (None, "it is off until a limit is set")


def test_the_cache_keeps_what_comes_before_the_first_change(tmp_path: Path) -> None:
    session = growing(8).open(tmp_path).with_window(30_000)
    made = replay(session, "defect-microcompact", keep_recent_turns=1)
    first = made.firings[0]
    assert made.unchanged_prefixes[0] == 0
    unchanged = [at for at in range(1, len(made.calls)) if at not in {f.call for f in made.firings}]
    assert all(made.unchanged_prefixes[at] == made.sizes[at - 1] for at in unchanged)
    assert 0 < first.cache_cut.unchanged_prefix < first.after
    assert made.unchanged_prefixes[first.call] == first.cache_cut.unchanged_prefix


def test_a_summary_in_the_background_lands_later_and_keeps_what_came_meanwhile(tmp_path: Path) -> None:
    session = growing(12).open(tmp_path).with_window(40_000)
    soon, later = (replay(session, "defect-compact", delay=delay, compact_ratio=0.95) for delay in (0, 3))
    assert soon.firings[0].decided == soon.firings[0].message
    assert later.firings[0].decided == soon.firings[0].decided
    assert later.firings[0].call == soon.firings[0].call + 3
    assert later.firings[0].summarised == soon.firings[0].summarised
    assert later.sizes[later.firings[0].call] > soon.sizes[soon.firings[0].call]


def test_a_chain_reads_the_state_anew_between_its_steps(tmp_path: Path) -> None:
    """What is left after clearing is no longer enough for the compaction, as the runtime estimates it then."""
    session = growing(10).open(tmp_path).with_window(32_000)
    options: dict[str, Any] = {"defect-compact": {"compact_soft_ratio": 0.6, "compact_ratio": 0.61}}
    alone = replay(session, "defect-compact", delay=0, **options["defect-compact"])
    made = replay(session, "chain", options=options, delay=0)
    assert {firing.policy for firing in made.firings} == {"defect-microcompact"}
    assert alone.firings


# -- what the recording did itself


def test_recorded_compactions_happen_or_do_not(tmp_path: Path) -> None:
    made = growing(4)
    made.boundary(18_000)
    made.summary("This session is being continued from a previous conversation. " + "word " * 400)
    made.assistant(text("going on"), use=usage(0, read=9_000))
    session = made.open(tmp_path)
    watching = Watching()
    kept = replay_recording(Recording(session), watching, AnyParams())
    undone = replay_recording(Recording(session), watching, AnyParams(), recorded="ignore")
    assert kept.sizes[-1] == 9_000
    assert kept.removed_by_recording and not undone.removed_by_recording
    assert undone.sizes[:-1] == kept.sizes[:-1]
    assert 0 < undone.sizes[-1] - undone.sizes[-2] < 200  # nothing went, no summary came, and "done" was appended
    assert undone.baseline == undone.sizes
    assert undone.totals.saved == 0


def test_calls_that_overflow_the_window_are_counted(tmp_path: Path) -> None:
    session = growing(8).open(tmp_path)
    made = replay_recording(Recording(session.with_window(20_000)), Watching(), AnyParams())
    assert made.totals.overflows == sum(size > 20_000 for size in made.sizes) > 0
    assert made.totals.peak == max(made.sizes)


# -- without recorded sizes


def test_a_session_without_usage_is_replayed_by_estimates() -> None:
    messages: list[Message] = []
    for turn in range(6):
        messages.append({"role": "user", "content": [{"type": "text", "text": f"turn {turn}"}]})
        use = {"type": "tool_use", "id": f"c{turn}", "name": "Read", "input": {"file_path": "a"}}
        messages.append({"role": "assistant", "content": [use]})
        body = {"type": "tool_result", "tool_use_id": f"c{turn}", "content": "x" * 8_000}
        messages.append({"role": "user", "content": [body]})
        messages.append({"role": "assistant", "content": [{"type": "text", "text": "done"}]})
    session = ct.from_messages(messages)
    recording = Recording(session.with_window(10_000))
    made = replay(recording, "defect-microcompact", keep_recent_turns=1)
    assert recording.recorded_sizes == [None] * 12
    assert made.baseline == sorted(made.baseline)
    assert made.firings and made.totals.saved > 0


# -- what makes no sense


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        ("manual", {}, "applied by hand"),
        ("defect-compact", {"delay": -1}, "delay"),
        ("defect-compact", {"summary_tokens": 0}, "1 or more"),
        ("defect-compact", {"recorded": "some"}, "keep or ignore"),
        ("no-such", {}, "unknown policy"),
    ],
)
def test_what_makes_no_sense_is_refused(name: str, given: dict[str, Any], says: str) -> None:
    session = ct.from_messages([{"role": "user", "content": "hello"}])
    with pytest.raises(PlanError, match=says):
        replay(session, name, **given)


def test_amounts_add_up() -> None:
    one = Amount(1, 2, 3)
    assert add_amounts(one, subtract_amounts(ZERO_AMOUNT, one)) == ZERO_AMOUNT
    assert sum_amounts([one, one]) == add_amounts(one, one)


@pytest.mark.parametrize(("recorded", "limited"), [(20_000, True), (400_000, False)])
def test_no_more_is_taken_out_than_was_recorded(tmp_path: Path, recorded: int, limited: bool) -> None:
    """Where prompts are recorded as smaller than what they hold by the factors, it is all taken that much smaller."""
    made = recordings.Recording()
    made.user("x" * 400_000)
    for turn in range(8):
        made.assistant(call(f"c{turn}"), use=usage(recorded + 2_500 * turn))
        made.results(result(f"c{turn}", "y" * 8_000))
        made.assistant(text("done"), use=usage(recorded + 2_500 * (turn + 1)))
        made.user("and now?")
    session = made.open(tmp_path).with_window(recorded + 12_000)
    assert (Recording(session).table.calibrations[0].factors.text <= 0.2) == limited
    found = replay(session, "defect-compact", delay=0)
    recording = Recording(session)
    summary = recording.table.convert_estimate(recording.summary_tokens)
    sizes = [*zip(found.sizes, recording.fixed_sizes, strict=True)][found.firings[0].call :]
    assert found.firings and all(size >= fixed + summary for size, fixed in sizes)


def test_a_system_prompt_in_the_file_counts_where_no_size_is_recorded(tmp_path: Path) -> None:
    said = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "yes"}]
    sizes = []
    for system in ("", "x" * 40_000):
        path = tmp_path / "request.json"
        path.write_text(json.dumps({"system": system, "messages": said}))
        made = Recording(ct.open_session(path))
        assert made.recorded_sizes == [None]
        sizes.append(made.sizes[0])
    assert 9_000 < sizes[1] - sizes[0] < 14_000


SAMPLES = ["coding-session.jsonl", "compacted-session.jsonl", "images-and-languages.jsonl", "agent-sdk-request.json"]
amounts = st.builds(Amount, *[st.integers(0, 50_000)] * 4)


@given(size=st.integers(0, 200_000), outside=st.integers(0, 60_000), before=amounts, after=amounts)
def test_a_resized_context_keeps_what_is_outside_its_messages(
    size: int, outside: int, before: Amount, after: Amount
) -> None:
    assert resize_context(size, outside, before, before) == size
    inserted = after.inserted - before.inserted
    assert resize_context(size, outside, before, after) >= min(size, outside) + inserted


def test_tokens_of_no_message_go_with_the_requests_that_brought_them() -> None:
    """2,000 of 10,000 tokens are outside, 6,000 in messages; the other 2,000 came with four requests."""
    before = Amount(6_000, 4, 0)
    assert resize_context(10_000, 2_000, before, Amount(3_000, 4, 0)) == 7_000
    assert resize_context(10_000, 2_000, before, Amount(3_000, 1, 0)) == 5_500
    assert resize_context(10_000, 2_000, before, Amount(500, 0, 0)) == 2_500


def test_what_is_inserted_comes_on_top_of_what_stays() -> None:
    """The content measures more than the request recorded: a summary is not offset by what is removed too much."""
    assert resize_context(10_000, 2_000, Amount(9_500, 4, 0), Amount(0, 0, 700)) == 2_700


@pytest.mark.parametrize("recorded", ["keep", "ignore"])
@pytest.mark.parametrize("spec", SAMPLES)
def test_no_replay_removes_what_no_policy_can(spec: str, recorded: CompactionHandling) -> None:
    recording = Recording(ct.open_session(Path(__file__).parents[1] / "sample_sessions" / spec))
    for name, policy in POLICIES.items():
        if not policy.phases:
            continue
        made = replay_recording(recording, policy, build_params(policy, {}), recorded=recorded)
        floors = map(min, recording.fixed_sizes, made.baseline)
        assert all(size >= floor for size, floor in zip(made.sizes, floors, strict=True)), name
        assert all(min(each.dropped, each.summarised, each.after) >= 0 for each in made.firings), name


def test_instructions_before_the_first_typed_message_stay(tmp_path: Path) -> None:
    """Codex inserts its instructions (about 4,000 tokens here) anew into every context, also after a compaction."""
    rollout = rollouts.Rollout()
    rollout.meta()
    rollout.items(rollouts.said("user", "<user_instructions>" + "Be careful. " * 1_300 + "</user_instructions>"))
    rollout.turn()
    rollout.typed("go on")
    for number in range(16):
        rollout.items(rollouts.asked(f"c{number}"), rollouts.answered(f"c{number}", "line\n" * 1_600))
        rollout.count(9_000 + 2_100 * number)
    session = ct.open_session(rollout.write(tmp_path / "rollout.jsonl")).with_window(30_000)
    made = replay(session, "defect-compact", delay=0)
    assert made.firings and min(each.after for each in made.firings) > 8_000


def glitched(folder: Path, *, clears: bool = False) -> Session:
    """A rollout with one call of another conversation, and perhaps a compaction before it."""
    rollout = rollouts.begun()
    rollout.typed("Look.")
    sizes = [20_000 + 2_500 * number for number in range(12)]
    for size in [*sizes, *([47_000, 18_000] if clears else []), 50_086, 12_546, 53_043, 54_000, 56_500]:
        if size == 18_000:
            rollout.compacted(rollouts.said("user", "Look."), rollouts.said("user", rollouts.SUMMARY))
        rollout.items(rollouts.asked(f"c{size}"), rollouts.answered(f"c{size}", "line of data\n" * 750))
        rollout.count(2_600, size - 2_600)
    return ct.open_session(rollout.write(folder / "rollout.jsonl"))


def test_a_call_beside_the_conversation_stays_as_recorded(tmp_path: Path) -> None:
    """A firing that is due there shows in the next call of the conversation, which reads its cache."""
    session = glitched(tmp_path)
    recording = Recording(session)
    made = replay(recording, "codex", trigger_at_most=52_000)
    beside = made.baseline.index(12_546)
    [firing] = made.firings
    assert made.sizes[beside] == 12_546 and firing.message == made.calls[beside].message
    assert (firing.call, firing.before, firing.after) == (beside + 1, 53_043, made.sizes[beside + 1])
    assert firing.after < 25_000 and made.unchanged_prefixes[beside + 1] < firing.after
    price = price_replay(made)
    [paid] = price.firings
    assert paid.behind > 0 and paid.verdict != "saves nothing"
    assert price.cost - price.baseline_cost == pytest.approx(paid.cost + price.unattributed_cost)
    assert made.totals.saved == sum(made.baseline) - sum(made.sizes) > 80_000
    rule = DefectMicrocompact().clearing_rule(DefectMicrocompactParams())
    assert not SweepTrack(recording, rule).is_known, "a sweep replays such a session, setting by setting"


@pytest.mark.parametrize("recorded", ["keep", "ignore"])
@pytest.mark.parametrize("window", [None, 20_000])
def test_no_policy_changes_a_call_beside_the_conversation(
    tmp_path: Path, recorded: CompactionHandling, window: int | None
) -> None:
    session = glitched(tmp_path, clears=True)
    recording = Recording(session.with_window(window) if window else session)
    for name, policy in POLICIES.items():
        if policy.phases:
            made = replay_recording(recording, policy, build_params(policy, {}), recorded=recorded)
            beside = [usage.context for usage in session.facts.requests].index(12_546)
            assert made.sizes[beside] == made.baseline[beside] == 12_546, name
            assert all(each.call != beside for each in made.firings), name
            assert recorded == "keep" or made.baseline[beside + 1] > 70_000
            assert made.baseline[beside - 1] <= made.baseline[beside + 1] < made.baseline[beside - 1] + 4_000
