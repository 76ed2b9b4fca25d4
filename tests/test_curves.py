"""A curve is what planning for each of its values gives, and sums are what counting one by one gives."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_tui.compaction.apply import apply
from context_tui.policies.parameter_space import build_params
from context_tui.policies.registry import POLICIES, list_policy_names
from context_tui.policies.runtime_state import RuntimeState, build_runtime_state
from context_tui.session.blocks import bytes_to_tokens
from context_tui.session.context import Body, Context
from context_tui.session.jsontext import utf8_len
from context_tui.session.markers import DEFECT_PLACEHOLDER, DEFECT_SUMMARY, RESULT_STUB
from context_tui.session.memory import from_messages
from context_tui.session.session import Session
from context_tui.tokens import estimate
from context_tui.tokens.context_index import ContextIndex, index_context

TOOLS = ("Read", "Bash", "Edit", "bash")
BODIES = (
    st.sampled_from(["", DEFECT_PLACEHOLDER, RESULT_STUB, "short", "x" * 160, "é" * 400, "y" * 3_000, "ü" * 1_300])
    | st.integers(0, 4_000).map(lambda size: "z\n" * (size // 2))
    | st.just([{"type": "text", "text": "w" * 1_000}])
    | st.just([{"type": "other", "n": 1}])
)
CALLS = st.integers(0, 6).map("c{}".format)  # few, so that some are made or answered twice, or never
TEXT = st.sampled_from(["hello", "a longer text " * 40, DEFECT_SUMMARY + "\nbefore"])


def blocks(role: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    text = TEXT.map(lambda text: {"type": "text", "text": text})
    if role == "assistant":
        call = st.builds(
            lambda call, name: {"type": "tool_use", "id": call, "name": name, "input": {}},
            CALLS,
            st.sampled_from(TOOLS),
        )
        return st.lists(text | call, min_size=1, max_size=3)
    result = st.builds(lambda call, body: {"type": "tool_result", "tool_use_id": call, "content": body}, CALLS, BODIES)
    return st.lists(result, min_size=1, max_size=3) | st.lists(text | result, min_size=1, max_size=3)


MESSAGES = st.lists(
    st.sampled_from(["user", "assistant"]).flatmap(
        lambda role: st.fixed_dictionaries({"role": st.just(role), "content": blocks(role)})
    ),
    max_size=24,
)


def ways(session: Session) -> list[tuple[Context, RuntimeState]]:
    """The context as it is and after another policy, idle and not."""
    context = session.context_at()
    idle = build_runtime_state(context, session.window, len(session))
    busy = build_runtime_state(context, session.window, len(session), 200)
    prune = POLICIES["agent-sdk-prune"]
    pruned = prune.plan(context, build_params(prune, {"max_chars": 900}), idle).build_context_after()
    return [(context, idle), (context, busy), (pruned, idle)]


VALUES: dict[tuple[str, str], list[Any]] = {
    ("defect-microcompact", "keep_recent_turns"): [1, 2, 3, 4, 9, 1_000],
    ("defect-microcompact", "min_clear_tokens"): [0, 1, 21, 40, 41, 512, 750, 10_000],
    ("defect-microcompact", "microcompact_ratio"): [0.01, 0.6, 1.0],
    ("defect-compact", "threshold"): [None, 0, 8_000, 20_000, 40_000, 10_000_000],
    ("defect-compact", "assistant_boundary"): [False, True],
    ("defect-compact", "compact_ratio"): [0.01, 0.05, 0.5, 1.0],
    ("defect-compact", "compact_soft_ratio"): [0.01, 0.7, 1.0],
    ("koda-microcompact", "gap_seconds"): [0, 199, 200, 201, 300],
    ("koda-microcompact", "keep_recent"): [0, 1, 2, 5, 10, 100],
    ("koda-microcompact", "min_tokens"): [0, 1, 9, 10, 50, 286, 10_000],
    ("koda-microcompact", "compactable_tools"): [(), ("Read",), ("bash", "Edit"), TOOLS],
    ("agent-sdk-prune", "context_budget"): [1, 160_000],
    ("agent-sdk-prune", "threshold_pct"): [0, 100],
    ("agent-sdk-prune", "max_chars"): [0, 700, 1_000, 2_402, 3_000, 5_000],
    ("agent-sdk-prune", "preserve_tail"): [0, 1, 2, 4, 12, 100],
    ("agent-sdk-compact", "context_budget"): [1, 160_000],
    ("agent-sdk-compact", "min_keep"): [1, 2, 4, 12, 100],
    ("agent-sdk-compact", "summary_max_tokens"): [1, 4_096],
    ("manual", "cut"): [None, 0],
    ("manual", "clear"): [()],
    ("chain", "policies"): [("defect-microcompact", "defect-compact"), ("koda-microcompact", "agent-sdk-prune")],
    ("chain", "options"): [{}, {"defect-microcompact": {"min_clear_tokens": 100, "keep_recent_turns": 1}}],
}


EAGER = {"keep_recent_turns": 1, "min_clear_tokens": 0, "keep_recent": 1, "min_tokens": 0, "max_chars": 720}


def test_every_parameter_is_here() -> None:
    assert set(VALUES) == {(name, key) for name in list_policy_names() for key in POLICIES[name].Params.model_fields}


@pytest.mark.parametrize("name, key", VALUES)
@settings(max_examples=20)
@given(messages=MESSAGES, others=st.sampled_from(["default", "eager"]))
def test_curve_is_planning_for_each_value(name: str, key: str, messages: list[dict[str, Any]], others: str) -> None:
    session, policy = from_messages(messages), POLICIES[name]
    given = {k: v for k, v in EAGER.items() if k in policy.Params.model_fields and others == "eager"}
    params = build_params(policy, given)
    for context, state in ways(session):
        values = [*VALUES[name, key], *((len(context) // 2, len(context)) if key == "cut" else ())]
        plans = [policy.plan(context, params.model_copy(update={key: value}), state) for value in values]
        assert policy.curve(context, params, state, key, values) == [plan.tokens_after for plan in plans]


STEPS = {pair: values for pair, values in VALUES.items() if pair[0] not in ("manual", "chain")}


@pytest.mark.slow
@pytest.mark.parametrize("name, key", STEPS)
@settings(max_examples=20)
@given(messages=MESSAGES, others=st.sampled_from(["default", "eager"]))
def test_a_chains_curve_over_a_parameter_of_a_step(
    name: str, key: str, messages: list[dict[str, Any]], others: str
) -> None:
    session, chain = from_messages(messages), POLICIES["chain"]
    cuts = name if name.endswith("-compact") else "defect-compact"
    given: dict[str, Any] = {"policies": ("agent-sdk-prune", "defect-microcompact", "koda-microcompact", cuts)}
    if others == "eager":
        fields = POLICIES[name].Params.model_fields
        given |= {f"{name}.{k}": v for k, v in EAGER.items() if k in fields} | {"agent-sdk-prune.max_chars": 720}
    params = build_params(chain, given)
    for context, state in ways(session):
        plans = [
            chain.plan(context, build_params(chain, given | {f"{name}.{key}": value}), state)
            for value in STEPS[name, key]
        ]
        assert chain.curve(context, params, state, f"{name}.{key}", STEPS[name, key]) == [
            plan.tokens_after for plan in plans
        ]


@given(messages=MESSAGES, name=st.sampled_from(list(POLICIES)), cut=st.integers(0, 24))
def test_tokens_after_are_those_of_the_session_that_it_leaves(
    messages: list[dict[str, Any]], name: str, cut: int
) -> None:
    session, policy = from_messages(messages), POLICIES[name]
    eager: dict[str, Any] = dict(EAGER)
    eager |= {"cut": min(cut, len(messages))} if name == "manual" else {}
    eager |= {"min_keep": 2, "assistant_boundary": True, "threshold": 8_000}
    if name == "chain":
        order = ("koda-microcompact", "defect-microcompact", "agent-sdk-prune", "defect-compact")
        eager = {"policies": order, "options": {"agent-sdk-prune": {"max_chars": 720, "preserve_tail": 1}}}
    params = build_params(policy, {k: v for k, v in eager.items() if k in policy.Params.model_fields})
    context = session.context_at()
    plan = policy.plan(context, params, build_runtime_state(context, session.window, len(session)))
    after = apply(session, plan, "in short")
    summary = bytes_to_tokens(utf8_len(plan.summary_insert.format_text("in short"))) if plan.summary_insert else 0
    off = (
        len(plan.changes) if name == "swe-agent-last-n" else 0
    )  # it tells the number of lines, taken to be of two digits
    assert abs(plan.tokens_after - (estimate(after) or 0) + summary) <= off
    gone = sum(edit.tokens_before - edit.tokens_after for edit in plan.edits)
    assert plan.tokens_before - plan.tokens_after == gone - plan.tokens_inserted


@pytest.mark.slow
@given(messages=MESSAGES, data=st.data())
def test_sums_after_other_bodies_are_those_of_counting_anew(
    messages: list[dict[str, Any]], data: st.DataObject
) -> None:
    context = from_messages(messages).context_at()
    rows = index_context(context).results.block
    chosen = data.draw(st.lists(st.sampled_from(rows), unique=True) if rows else st.just([]))
    other = context.with_bodies({row: Body.from_text("another body " * (row % 5)) for row in chosen})
    anew = ContextIndex(Context(other.facts, other.at, other.order, other.epoch_start, other.replacements))
    for name in ("tokens", "prefix", "total", "results", "turn_starts", "assistants", "tool_of_call", "position_of"):
        assert getattr(index_context(other), name) == getattr(anew, name), name


@given(messages=MESSAGES, cut=st.integers(0, 24))
def test_a_cut_by_hand_splits_no_pair(messages: list[dict[str, Any]], cut: int) -> None:
    session = from_messages(messages)
    wanted = min(cut, len(messages))
    policy = POLICIES["manual"]
    context = session.context_at()
    plan = policy.plan(
        context, build_params(policy, {"cut": wanted}), build_runtime_state(context, session.window, len(session))
    )

    def splits(at: int) -> bool:
        made = set[str]()
        for message in messages[:at]:
            for block in message["content"]:
                made |= {block["id"]} if block["type"] == "tool_use" else set()
                made -= {block["tool_use_id"]} if block["type"] == "tool_result" else set()
        later = [block for message in messages[at:] for block in message["content"]]
        return any(block["type"] == "tool_result" and block["tool_use_id"] in made for block in later)

    assert plan.messages_dropped == max(at for at in range(wanted + 1) if not splits(at))
