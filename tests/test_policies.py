"""What holds for the plan of any policy, on any session: sums, verdicts, pairs, and what carrying it out gives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import context_tui as ct
from context_tui.compaction.plan import Plan
from context_tui.compaction.tool_pairing import compare_orphans, find_unpaired
from context_tui.policies.base import is_session_bound
from context_tui.policies.builtin.defect import find_earlier_summary_row
from context_tui.policies.parameter_space import build_params, list_parameters_in_context
from context_tui.policies.parameters import format_assignments, parse_assignments
from context_tui.policies.parts.cut_position import Cut, find_head_end
from context_tui.policies.parts.protection import Keep
from context_tui.policies.planning import build_plan
from context_tui.policies.registry import POLICIES, find_policy
from context_tui.policies.runtime_state import build_runtime_state
from context_tui.session.session import Session
from context_tui.session.values import Kind
from context_tui.session.window import Window
from context_tui.tokens.context_index import index_context
from tests.formats.histories import histories
from tests.formats.recordings import Recording, call, conversations, result, text, usage

PLANS: list[tuple[str, dict[str, Any]]] = [
    ("defect-microcompact", {}),
    ("defect-microcompact", {"keep_recent_turns": 1, "min_clear_tokens": 0}),
    ("defect-compact", {"threshold": 1_000}),
    ("defect-compact", {"threshold": 0, "assistant_boundary": True}),
    ("koda-microcompact", {"keep_recent": 1, "min_tokens": 0, "idle_seconds": 300}),
    ("agent-sdk-prune", {"max_chars": 700, "preserve_tail": 1}),
    ("agent-sdk-compact", {"min_keep": 2}),
    ("chain", {"defect-microcompact.keep_recent_turns": 1, "defect-compact.threshold": 1}),
    ("chain", {"policies": "koda-microcompact,agent-sdk-prune,agent-sdk-compact", "agent-sdk-prune.max_chars": 10}),
]
policies = st.sampled_from(PLANS)
fixtures = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)


def check_sums(session: Session, plan: Plan) -> None:
    """Edits and tokens add up; what is carried out measures what the plan said; nothing is introduced."""
    edits = plan.edits
    assert plan.tokens_before - sum(edit.tokens_before - edit.tokens_after for edit in edits) == plan.tokens_after
    assert plan.has_changes == bool(edits) and bool(plan.reason) != plan.has_changes
    after = ct.apply(session, plan, "s") if plan.has_changes else session
    summary = ct.tokens.estimate(after.message(0)) if plan.needs_summary else 0
    if plan.has_changes:
        assert ct.tokens.estimate(after) == plan.tokens_after + (summary or 0)
    assert ct.tokens.estimate(ct.from_messages(after.to_messages())) == ct.tokens.estimate(after.context_at())
    before = session.messages_in(plan.context)
    if not find_unpaired(before) and not (plan.prompt and plan.prompt.sends_messages and cuts_at_results(plan)):
        assert compare_orphans(before, after.to_messages())[1] == []


def cuts_at_results(plan: Plan) -> bool:
    """Whether a plan cuts where results and typed text share a message: defect takes that for a turn, and splits it."""
    if plan.boundary is None or plan.boundary >= len(plan.context.facts):
        return False
    kinds = [plan.context.facts.kind[row] for row in plan.context.facts.blocks_of(plan.boundary)]
    return Kind.TOOL_RESULT in kinds and any(kind != Kind.TOOL_RESULT for kind in kinds)


def check_verdicts(plan: Plan) -> None:
    """Every message and result has one verdict with a reason, and it agrees with the edits."""
    facts = plan.context.facts
    verdicts = {(message, block): verdict for message, block, verdict in plan.iterate_verdicts()}
    for message in plan.context.order:
        results = [n for n, row in enumerate(facts.blocks_of(message)) if facts.kind[row] == Kind.TOOL_RESULT]
        for block in [None, *results]:
            verdict = verdicts.pop((message, block))
            assert verdict.reason.startswith(f"{verdict.outcome}: ") and len(verdict.reason) > len(verdict.outcome) + 2
            assert plan.find_verdict(message, block) == verdict
    assert not verdicts
    said = {"clear": "cleared", "truncate": "truncated", "summarise": "summarised"}
    for edit in plan.edits:
        found = plan.find_verdict(edit.message, edit.block).outcome
        assert found in (said[edit.action], "summarised")


@fixtures
@given(messages=histories(), policy=policies)
def test_plans_of_histories(messages: list[dict[str, Any]], policy: tuple[str, dict[str, Any]]) -> None:
    session = ct.from_messages(messages)
    plan = ct.plan(session, policy[0], **policy[1])
    check_sums(session, plan)
    check_verdicts(plan)


@fixtures
@given(recording=conversations(), policy=policies, data=st.data())
def test_plans_of_recordings(
    tmp_path: Path, recording: Recording, policy: tuple[str, dict[str, Any]], data: st.DataObject
) -> None:
    session = recording.open(tmp_path)
    plan = ct.plan(session, policy[0], at=data.draw(st.integers(0, len(session))), **policy[1])
    check_sums(session, plan)
    check_verdicts(plan)


@fixtures
@given(recording=conversations(), data=st.data())
def test_plans_by_hand_split_no_pair(tmp_path: Path, recording: Recording, data: st.DataObject) -> None:
    session = recording.open(tmp_path)
    context, facts = session.context_at(), session.facts
    results = [
        f"{message}:{ordinal}"
        for message in context.order
        for ordinal, row in enumerate(facts.blocks_of(message))
        if facts.kind[row] == Kind.TOOL_RESULT
    ]
    clear = data.draw(st.lists(st.sampled_from(results), unique=True)) if results else []
    cut = data.draw(st.sampled_from([*context.order, context.at]))
    plan = ct.plan(session, "manual", clear=",".join(clear), cut=cut)
    check_sums(session, plan)
    check_verdicts(plan)
    assert {f"{edit.message}:{edit.block}" for edit in plan.edits if edit.action == "clear"} == set(clear)


@fixtures
@given(recording=conversations())
def test_clearing_twice_does_nothing(tmp_path: Path, recording: Recording) -> None:
    session = recording.open(tmp_path)
    clearing: list[tuple[str, dict[str, Any]]] = [
        ("defect-microcompact", {"keep_recent_turns": 1}),
        ("koda-microcompact", {"keep_recent": 0}),
    ]
    for name, params in clearing:
        plan = ct.plan(session, name, idle_seconds=999, **params)
        if plan.has_changes:
            assert not ct.plan(ct.apply(session, plan), name, idle_seconds=999, **params).has_changes


@pytest.mark.slow
@fixtures
@given(
    recording=conversations(), first=st.sampled_from(["defect-microcompact", "koda-microcompact", "agent-sdk-prune"])
)
def test_a_chain_is_one_policy_after_the_other(tmp_path: Path, recording: Recording, first: str) -> None:
    session = recording.open(tmp_path)
    params: dict[str, Any] = {"agent-sdk-prune": {"max_chars": 800}}.get(first, {})
    for second in ("defect-compact", "agent-sdk-compact", "defect-microcompact", "koda-microcompact"):
        if second == first:
            continue
        both = {f"{first}.{key}": value for key, value in params.items()}
        chain = ct.plan(session, "chain", policies=f"{first},{second}", idle_seconds=300, **both)
        middle = ct.apply(session, ct.plan(session, first, idle_seconds=300, **params))
        last = ct.plan(middle, second, idle_seconds=300)
        assert chain.tokens_after == last.tokens_after
        assert ct.apply(session, chain, "s").to_messages() == ct.apply(middle, last, "s").to_messages()


@given(
    names=st.lists(st.text(max_size=6) | st.sampled_from(["a, b", " Read", "[1]", "", '["x"]', "\ud800"])),
    keep=st.integers(0, 99),
)
def test_parameters_are_read_back_from_their_text(names: list[str], keep: int) -> None:
    koda: dict[str, Any] = {"compactable_tools": tuple(names), "keep_recent": keep}
    policy = find_policy("koda-microcompact")
    texts = format_assignments(koda)
    assert build_params(policy, parse_assignments(texts)) == policy.Params(**koda) and all(
        text.isprintable() for text in texts
    )
    chain = build_params(find_policy("chain"), parse_assignments(format_assignments({"options": {policy.name: koda}})))
    assert policy.Params(**chain.options[policy.name]) == policy.Params(**koda)  # type: ignore[attr-defined]


def test_lists_are_written_with_commas_where_that_is_enough() -> None:
    assert format_assignments({"clear": ((2, 0), (40, 1)), "cut": 7}) == ["clear=2:0,40:1", "cut=7"]
    assert format_assignments({"tools": ["Read", "a, b"]}) == ['tools=["Read", "a, b"]']


def busy(turns: int = 6) -> Session:
    """A session of turns with one big Read each, the summary of an earlier compaction first."""
    messages: list[dict[str, Any]] = []
    for turn in range(turns):
        messages += [
            {"role": "user", "content": [text(f"turn {turn}")]},
            {"role": "assistant", "content": [call(f"t{turn}", "Read", file_path="a.py")]},
            {"role": "user", "content": [result(f"t{turn}", f"line {turn}\n" * 400)]},
            {"role": "assistant", "content": [text("done")]},
        ]
    return ct.from_messages(messages)


def test_a_chain_clears_before_it_summarises() -> None:
    options: dict[str, Any] = {"defect-compact.threshold": 1}
    session = busy()
    plan = ct.plan(session, "chain", **options)
    check_sums(session, plan)
    assert plan.boundary == 16
    actions = [(edit.action, edit.source) for edit in plan.edits]
    assert ("clear", "defect-microcompact") in actions and ("summarise", "defect-compact") in actions
    placeholder = "[tool output cleared to save context"
    cleared = [
        m["content"][0]["content"] for m in plan.messages_to_summarise if m["content"][0]["type"] == "tool_result"
    ]
    assert [body.startswith(placeholder) for body in cleared[:3]] == [True] * 3


@fixtures
@given(recording=conversations(), data=st.data())
def test_of_a_chain_those_run_that_fire_on_what_the_others_left(
    tmp_path: Path, recording: Recording, data: st.DataObject
) -> None:
    session = recording.open(tmp_path)
    ratio, threshold = data.draw(st.sampled_from([0.01, 1.0])), data.draw(st.sampled_from([0, 100, 10_000_000]))
    given: dict[str, Any] = {
        "defect-microcompact.microcompact_ratio": ratio,
        "defect-microcompact.min_clear_tokens": 0,
        "defect-compact.threshold": threshold,
        "defect-compact.compact_soft_ratio": 1.0,
    }
    at = data.draw(st.integers(0, len(session)))
    every, firing = (
        ct.plan(session, "chain", at=at, window=20_000, firing_only=only, **given) for only in (False, True)
    )
    assert firing.trigger.fires == every.trigger.fires
    if not firing.trigger.fires:
        assert firing.edits == every.edits and len(firing.steps) == 2, "planned all the same"
        return
    assert firing.steps and all(step.trigger.fires for step in firing.steps)
    for step in ("defect-microcompact", "defect-compact"):
        if step not in [each.policy for each in firing.steps]:
            assert f"{step} does not fire: " in firing.trigger.reason
    only = {key: value for key, value in given.items() if key.rpartition(".")[0] in {s.policy for s in firing.steps}}
    names = ",".join(step.policy for step in firing.steps)
    same = ct.plan(session, "chain", at=at, window=20_000, policies=names, **only)
    assert same.edits == firing.edits and same.tokens_after == firing.tokens_after


def test_a_chains_curve_falls_only_where_something_fires() -> None:
    session, chain, name = busy(), find_policy("chain"), "defect-microcompact.microcompact_ratio"
    context = session.context_at()
    state = build_runtime_state(context, Window(7_000, "given"), len(session), forced=True, firing_only=True)
    total = ct.tokens.estimate(context)
    after = chain.curve(context, build_params(chain, {}), state, name, [0.5, 1.0])
    assert after[0] < after[1] == total
    unlikely = build_params(chain, {name: 1.0, "defect-compact.threshold": 9_000})
    assert chain.curve(context, unlikely, state, "defect-compact.compact_ratio", [0.9]) < [total], "if forced"


def test_reports_in_a_chain_stay_apart() -> None:
    options: dict[str, Any] = {"koda-microcompact.keep_recent": 1}
    plan = ct.plan(busy(9), "chain", policies="defect-microcompact,koda-microcompact", **options)
    report = dict(plan.report or {})
    assert report["defect-microcompact.cleared"] == 6 and report["koda-microcompact.cleared"] == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"policies": "defect-compact,defect-microcompact"}, "nothing runs after it; name it last"),
        ({"policies": "agent-sdk-prune,agent-sdk-prune"}, "twice"),
        ({"policies": "chain"}, "unknown policy 'chain'"),
        ({"policies": ""}, "no policies"),
        ({"policies": "nonsense"}, "unknown policy 'nonsense'"),
        ({"koda-microcompact.keep_recent": 1}, "parameters for koda-microcompact, which it does not run"),
        ({"defect-compact.treshold": 1}, "did you mean threshold"),
        ({"nonsense.x": 1}, "unknown policy 'nonsense'"),
    ],
)
def test_chains_that_cannot_be(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ct.PlanError, match=message):
        ct.plan(busy(), "chain", **given)


# -- by hand


def test_by_hand() -> None:
    session = busy()
    plan = ct.plan(session, "manual", clear="2:0,6:0", cut=4)
    assert [(edit.action, edit.message, edit.block) for edit in plan.edits] == [
        ("summarise", 0, None),
        ("summarise", 1, None),
        ("clear", 2, 0),
        ("summarise", 2, None),
        ("summarise", 3, None),
        ("clear", 6, 0),
    ]
    assert plan.boundary == 4
    assert not plan.trigger.fires


def test_a_cut_moves_before_the_pair_it_would_split() -> None:
    plan = ct.plan(busy(), "manual", cut=6)
    assert plan.boundary == 5
    assert plan.find_verdict(5).reason == "kept: the call or result of a pair that the cut would split"
    crossed = ct.from_messages(
        [
            {"role": "user", "content": [text("go")]},
            {"role": "assistant", "content": [call("a")]},
            {"role": "assistant", "content": [call("b")]},
            {"role": "user", "content": [result("a")]},
            {"role": "user", "content": [result("b")]},
        ]
    )
    assert ct.plan(crossed, "manual", cut=4).boundary == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"cut": 99}, "message 99 is not in the context"),
        ({"cut": -1}, "must be 0 or more"),
        ({"clear": "0:0"}, "message 0 has no tool result at block 0"),
        ({"clear": "2:1"}, "message 2 has no tool result at block 1"),
        ({"clear": "2:-1"}, "no tool result at block -1"),
        ({"clear": "99:0"}, "message 99 is not in the context"),
        ({"clear": "two"}, "write MESSAGE:BLOCK"),
        ({"clear": "1:2:3"}, "write MESSAGE:BLOCK"),
        ({"cut": "4.5"}, "cut"),
    ],
)
def test_marks_that_cannot_be(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ct.PlanError, match=message) as caught:
        ct.plan(busy(), "manual", **given)
    assert "\n" not in str(caught.value)


def test_nothing_by_hand() -> None:
    assert ct.plan(busy(), "manual").reason == "nothing is marked"
    assert ct.plan(busy(), "manual", cut=0).reason == "nothing comes before message 0"
    whole_pair = ct.from_messages(busy(1).to_messages()[1:])
    assert "belongs to a pair that the cut would split" in ct.plan(whole_pair, "manual", cut=1).reason


def test_everything_by_hand() -> None:
    session = busy()
    plan = ct.plan(session, "manual", cut=len(session))
    assert plan.tokens_after == 0 and plan.boundary == len(session)
    assert len(ct.apply(session, plan, "all of it").to_messages()) == 1


# -- defect's later version


def test_assistant_boundary_cuts_a_long_single_turn() -> None:
    session = ct.from_messages(
        [{"role": "user", "content": "go"}] + [{"role": "assistant", "content": "x" * 4_000} for _ in range(6)]
    )
    whole = ct.plan(session, "defect-compact", threshold=8_000)
    assert not whole.has_changes and "assistant_boundary" in whole.reason
    plan = ct.plan(session, "defect-compact", threshold=8_000, assistant_boundary=True)
    assert plan.boundary == 5, "two messages of 1,000 tokens fit the tail of 2,000"
    with_turn = ct.from_messages([*session.to_messages(), {"role": "user", "content": "next"}])
    assert ct.plan(with_turn, "defect-compact", threshold=8_000, assistant_boundary=True).boundary == 7


# -- parameters


@pytest.mark.parametrize("name", list(POLICIES))
def test_parameters_say_what_they_are(name: str) -> None:
    policy = find_policy(name)
    for key, field in policy.Params.model_fields.items():
        extra = field.json_schema_extra
        assert field.description and isinstance(extra, dict) and "unit" in extra, key
    build_params(policy, {})


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("defect-micro", {}, "did you mean defect-microcompact"),
        ("quite another", {}, "available: defect-microcompact"),
        ("defect-microcompact", {"keep_recent_turn": 3}, "did you mean keep_recent_turns"),
        ("defect-microcompact", {"zzz": 3}, "available: keep_recent_turns, min_clear_tokens"),
        ("defect-microcompact", {"keep_recent_turns": "three"}, "keep_recent_turns='three'"),
        ("defect-microcompact", {"keep_recent_turns": 0}, "keep_recent_turns=0"),
        ("defect-microcompact", {"microcompact_ratio": float("nan")}, "microcompact_ratio"),
        ("koda-microcompact", {"idle_seconds": float("nan")}, "idle_seconds"),
        ("koda-microcompact", {"idle_seconds": float("inf")}, "idle_seconds"),
        ("koda-microcompact", {"idle_seconds": -1}, "idle_seconds"),
        ("defect-compact", {"window": 0}, "window"),
        ("defect-compact", {"window": -5}, "window"),
        ("defect-compact", {"at": 99}, "message 99 is not in the session; it has messages 0 to 23"),
        ("defect-compact", {"at": -1}, "message -1 is not in the session"),
    ],
)
def test_what_is_refused(name: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(ct.PlanError, match=message) as caught:
        ct.plan(busy(), name, **given)
    assert "\n" not in str(caught.value)


def test_what_a_short_context_is_told_holds_for_every_setting() -> None:
    session = busy(1)
    hint = POLICIES["defect-microcompact"].hint(session.context_at())
    assert hint.startswith("A single turn here: ") and "keep_recent_turns" in hint and "never" not in hint


def test_a_chain_does_not_fire_on_what_a_step_would_leave_that_does_not_run(tmp_path: Path) -> None:
    """The recorded size is under both limits, the estimate of what a forced first step leaves is over the second's."""
    recording = Recording()
    for turn in range(5):
        recording.user(f"go on {turn}")
        recording.assistant(call(f"t{turn}", "Read"), use=usage(fresh=40))
        recording.results(result(f"t{turn}", "x" * 4_000))
        recording.assistant(text("done"), use=usage(fresh=50))
    session = recording.open(tmp_path)
    given: dict[str, Any] = {"defect-compact.threshold": 100, "defect-compact.compact_soft_ratio": 1.0}
    for only in (False, True):
        plan = ct.plan(session, "chain", window=20_000, firing_only=only, **given)
        assert len(plan.steps) == 2 and plan.steps[1].trigger.fires and not plan.trigger.fires
        assert plan.trigger.reason.count("does not fire") == 2


def test_a_chain_runs_neither_chains_nor_policies_with_marks_of_one_session() -> None:
    session, chain = busy(), find_policy("chain")
    context = session.context_at()
    state = build_runtime_state(context, session.window, len(session))
    parameters = list_parameters_in_context(chain, build_params(chain, {}), context, state)
    [policies] = [each for each in parameters if each.label == "policies"]
    names = {entry.name for entry in policies.entries}
    assert "defect-microcompact" in names and names.isdisjoint({"chain", "manual"})
    assert [name for name, policy in POLICIES.items() if is_session_bound(policy)] == ["manual"]


def test_messages_kept_at_the_start_are_more_only_where_a_cut_by_pairs_would_split_a_call() -> None:
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [call("c", "Read")]},
        {"role": "user", "content": [result("c", "x")]},
        {"role": "assistant", "content": "done"},
    ]
    context = ct.from_messages(messages).context_at()
    assert [find_head_end(context, Keep(first=first), Cut(at="pair")) for first in range(6)] == [0, 1, 3, 3, 4, 4]
    assert [find_head_end(context, Keep(first=first), Cut(at="message")) for first in range(6)] == [0, 1, 2, 3, 4, 4]


def test_a_reply_that_is_no_summary_is_not_updated_as_one() -> None:
    context = busy().context_at()
    assert find_earlier_summary_row(context, len(context)) == -1


@given(
    results=st.lists(st.integers(1, 3), min_size=1, max_size=5),
    sizes=st.lists(st.sampled_from([10, 4_000, 9_000]), min_size=15, max_size=15),
    first=st.integers(0, 2),
)
def test_kodas_curve_is_what_its_plans_leave_however_few_rows(results: list[int], sizes: list[int], first: int) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for turn, count in enumerate(results):
        names = [f"c{turn}-{number}" for number in range(count)]
        messages.append({"role": "assistant", "content": [call(name, "Bash") for name in names]})
        messages.append({"role": "user", "content": [result(name, "x" * sizes.pop()) for name in names]})
    session, policy = ct.from_messages(messages), find_policy("koda-microcompact")
    recorded = session.context_at()
    context = replace(recorded, order=recorded.order[first:], memo={})  # the calls may have been compacted away
    state = build_runtime_state(context, session.window, len(session), forced=True)
    for name, values, fixed in (
        ("keep_recent", range(9), {}),
        *(("min_tokens", (0, 1_000, 2_000, 9_000), {"keep_recent": keep}) for keep in range(4)),
    ):
        params = build_params(policy, {"compactable_tools": "Bash", **fixed})
        settings = [params.model_copy(update={name: value}) for value in values]
        plans = [policy.plan(context, setting, state).tokens_after for setting in settings]
        assert policy.curve(context, params, state, name, [*values]) == plans


def test_every_step_of_a_chain_is_planned_unless_only_those_that_fire_are_wanted() -> None:
    session, chain = busy(), find_policy("chain")
    params = build_params(
        chain, {"defect-compact.threshold": 10_000_000, "defect-microcompact.microcompact_ratio": 0.01}
    )
    steps = {
        firing_only: [step.policy for step in build_plan(session, chain, params, firing_only=firing_only).steps]
        for firing_only in (False, True)
    }
    assert steps == {False: ["defect-microcompact", "defect-compact"], True: ["defect-microcompact"]}
    assert [step.policy for step in build_plan(session, chain, params).steps] == steps[False]


def test_kodas_sliders_reach_beyond_every_large_result_and_its_pause_is_the_triggers() -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for number, size in enumerate((10, 4_000, 9_000, 12_000, 5_000)):
        messages.append({"role": "assistant", "content": [call(f"c{number}", "Bash")]})
        messages.append({"role": "user", "content": [result(f"c{number}", "x" * size)]})
    session, policy = ct.from_messages(messages), find_policy("koda-microcompact")
    context = session.context_at()
    params = build_params(policy, {"compactable_tools": "Bash", "min_tokens": 1_000, "keep_recent": 1})
    largest = policy.slider_max("min_tokens", params, context)
    assert policy.slider_max("keep_recent", params, context) == 4 and largest is not None
    tokens = index_context(context).total

    def count_after(**changes: Any) -> int:
        forced = build_runtime_state(context, session.window, len(session), forced=True)
        return policy.plan(context, params.model_copy(update=changes), forced).tokens_after

    assert count_after(min_tokens=largest, keep_recent=0) == tokens > count_after(min_tokens=largest - 1, keep_recent=0)
    idle = replace(build_runtime_state(context, session.window, len(session), 1_000.0), at_end=False)
    late = params.model_copy(update={"gap_seconds": 9_000})
    assert policy.curve(context, late, idle, "gap_seconds", [500, 1_000, 2_000]) == [
        count_after(),
        count_after(),
        tokens,
    ]


def test_a_chain_of_no_policies_never_fires() -> None:
    session, chain = busy(), find_policy("chain")
    state = build_runtime_state(session.context_at(), session.window, len(session))
    assert not chain.trigger(state, build_params(chain, {"policies": ""})).fires


def test_a_chain_says_which_policy_it_names_twice() -> None:
    session = ct.from_messages([{"role": "user", "content": "Go on"}])
    twice = "defect-microcompact,koda-microcompact,koda-microcompact,defect-microcompact"
    with pytest.raises(ct.PlanError, match="chain: defect-microcompact is named twice; name it once"):
        ct.plan(session, "chain", policies=twice)
