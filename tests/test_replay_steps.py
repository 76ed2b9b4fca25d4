"""What a replay keeps from one look to the next, against everything made anew; and that a look costs what is new."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import context_tui as ct
from context_tui.lab.replay import recording as recording_module
from context_tui.lab.replay.history import ReplayHistory, VersionedBodies
from context_tui.lab.replay.recording import Recording
from context_tui.lab.replay.result import CompactionHandling
from context_tui.lab.replay.walk import Walk
from context_tui.policies.base import Policy
from context_tui.policies.block_index import find_blocks_of_kind
from context_tui.policies.parameter_space import build_params
from context_tui.policies.parts.rules import PolicySpec
from context_tui.policies.registry import POLICIES, find_policy
from context_tui.policies.rule_policy import RulePolicy
from context_tui.session.context import Body, Context
from context_tui.session.values import Kind
from context_tui.tokens.context_index import ContextIndex, index_context
from tests.formats import recordings
from tests.formats.recordings import conversations
from tests.test_replay import SUMMARY, fixtures, naive, simple_table, walked

SOMETIMES: dict[str, dict[str, list[Any]]] = {
    "keep": {
        "turns": [1, 2],
        "messages": [1, 4],
        "tokens": [900, 3_000],
        "share_of_context": [0.4],
        "first": [1, 3],
        "results": [1, 3],
        "count": ["eligible"],
        "every": [2],
        "result_tokens": [900, 2_500],
    },
    "select": {
        "tools": [["Read"], ["Read", "Bash"]],
        "except_tools": [["Edit"]],
        "larger_than": [10, 700],
        "at_least": [700],
        "longer_than": [1_000],
        "older_than": [30],
        "until": [800],
        "stop_at": [["summary"], ["cleared"], ["summary", "cleared"]],
        "paired": [True],
    },
    "only_if": {"clear_at_least": [700, 2_000]},
}
ACTIONS: list[dict[str, Any]] = [
    {"clear": {}},
    {"clear": {"marker": "gone", "inputs": True}},
    {"clear": {"of": "inputs"}},
    {"truncate": {"head": 300, "tail": 100}},
    {"truncate": {"head": 0, "tail": 20, "before": "<", "after": ">"}},
]


@st.composite
def rules(draw: st.DrawFn, timed: bool) -> dict[str, Any]:
    """A rule of parts that changes bodies; one that is *timed* may go by their age."""
    rule: dict[str, Any] = {"trigger": draw(st.sampled_from([{"always": True}, {"tokens": 3_000}, {"tool_uses": 3}]))}
    for part, values in SOMETIMES.items():
        names = sorted(name for name in values if timed or name != "older_than")
        chosen = draw(st.lists(st.sampled_from(names), max_size=2, unique=True))
        rule[part] = {name: draw(st.sampled_from(values[name])) for name in chosen}
    return {**rule, **draw(st.sampled_from(ACTIONS))}


def policies(most: int, *, timed: bool = True) -> st.SearchStrategy[Policy]:
    """Policies of so many rules at most."""

    def made(found: list[dict[str, Any]]) -> Policy:
        named = [{"name": f"rule{number}"} | rule for number, rule in enumerate(found)]
        return RulePolicy(PolicySpec.model_validate({"name": "drawn", "about": "drawn", "rules": named}), find_policy)

    return st.lists(rules(timed), min_size=1, max_size=most).map(made)


@pytest.mark.slow
@fixtures
@given(recording=conversations(compactions=False), policy=policies(1, timed=False))
def test_rules_of_parts_equal_a_loop_that_makes_everything_anew(
    tmp_path: Path, recording: recordings.Recording, policy: Policy
) -> None:
    session = recording.open(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recording_module, "build_calibrated_table", simple_table)
        walk = walked(session, policy)
        sizes, firings, _ = naive(session, policy)
    assert walk.sizes == sizes
    assert [(each.message, each.before, each.after) for each in walk.firings] == firings


@fixtures
@given(
    recording=conversations(),
    policy=policies(2)
    | st.sampled_from([POLICIES[name] for name in ("defect", "codex", "hermes", "openhands-masking")]),
    recorded=st.sampled_from(["keep", "ignore"]),
)
def test_what_is_measured_step_by_step_is_what_is_there(
    tmp_path: Path, recording: recordings.Recording, policy: Policy, recorded: CompactionHandling
) -> None:
    """Every plan that is made on the way is the plan that is made of the same messages and bodies alone."""
    session, context_of = recording.open(tmp_path).with_window(6_000), ReplayHistory.build_context

    def context(history: ReplayHistory) -> Context:
        made = context_of(history)
        assert _columns(index_context(made)) == _columns(ContextIndex(_alone(made)))
        assert index_context(made).total == history.estimate
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ReplayHistory, "build_context", context)
        walk = Walk(Recording(session), policy, build_params(policy, {}), recorded, SUMMARY, 0)
        made = walk.run(lambda: None)
    for firing in made.firings:
        then = firing.plan.context
        assert _columns(index_context(then)) == _columns(ContextIndex(_alone(then)))
        step = next(step for step in walk.steps if step.policy.name == firing.policy)
        state = walk._build_state(firing.message)
        anew = step.policy.plan(_alone(then), step.params, state)
        if not anew.needs_summary:  # its budget may go by the window at the end
            assert anew.edits == firing.plan.edits
            assert list(anew.iterate_verdicts()) == list(firing.plan.iterate_verdicts())


def _alone(context: Context) -> Context:
    """The same messages and bodies, with nothing known of them."""
    replaced, at = dict(context.replacements.items()), context.at
    return Context(
        context.facts, at, tuple(context.order), context.epoch_start, replaced, last_rewrite=context.last_rewrite
    )


def _columns(sums: ContextIndex) -> object:
    results = sums.results.position, sums.results.block, sums.results.tokens
    places = sums.turn_starts, sums.assistants, sums.summaries, sums.position_of, sums.tool_of_call
    return sums.tokens, sums.total, sums.prefix, results, places


@given(st.lists(st.dictionaries(st.integers(0, 6), st.integers(0, 9), max_size=3), max_size=6))
def test_a_snapshot_of_bodies_stays_what_it_was(changes: list[dict[int, int]]) -> None:
    bodies, states = VersionedBodies(), list[Any]()
    for change in changes:
        bodies.replace_bodies({row: Body(None, size) for row, size in change.items()})
        states.append((bodies.take_snapshot(), dict(bodies)))
    for snapshot, copy in states:
        assert dict(snapshot) == copy and len(snapshot) == len(copy)
        assert [row in snapshot for row in range(8)] == [row in copy for row in range(8)] and "1" not in snapshot
        assert [snapshot.get(row) for row in range(8)] == [copy.get(row) for row in range(8)]


@fixtures
@given(recording=conversations())
def test_blocks_of_a_kind_are_all_of_it_in_the_order_of_the_prompt(
    tmp_path: Path, recording: recordings.Recording
) -> None:
    context = recording.open(tmp_path).context_at()
    for kind in Kind:
        blocks = find_blocks_of_kind(context, kind)
        places = [
            (position, row)
            for position, message in enumerate(context.order)
            for row in context.facts.blocks_of(message)
            if context.facts.kind[row] == kind
        ]
        assert list(zip(blocks.position, blocks.block, strict=True)) == places


def test_contexts_without_recorded_sizes_are_estimated_with_their_first_message() -> None:
    def measure(length: int) -> list[int]:
        turns = [{"role": role, "content": "word " * 9} for role in ("assistant", "user", "assistant")]
        session = ct.from_messages([{"role": "user", "content": "word " * length}, *turns])
        return Recording(session).sizes

    short, long = measure(10), measure(1_010)
    assert (
        len(short) == 2
        and long[0] - short[0] == pytest.approx(long[1] - short[1], abs=1)
        and long[0] - short[0] > 1_000
    )
