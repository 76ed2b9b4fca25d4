"""What a replay keeps from one look to the next, against everything made anew; and that a look costs what is new."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_tui.lab.replay.history import History
from context_tui.lab.replay.recording import Recording
from context_tui.lab.replay.result import CompactionHandling
from context_tui.lab.replay.walk import Walk
from context_tui.policies.base import Policy
from context_tui.policies.parameter_space import build_params
from context_tui.policies.parts.rules import PolicySpec
from context_tui.policies.registry import POLICIES, find_policy
from context_tui.policies.rule_policy import build_rule_policy
from context_tui.session.context import Context
from context_tui.tokens.context_index import ContextIndex, index_context
from tests.formats import recordings
from tests.formats.recordings import conversations
from tests.test_replay import SUMMARY, fixtures, naive, walked, weights_of

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
        return build_rule_policy(
            PolicySpec.model_validate({"name": "drawn", "about": "drawn", "rules": named}), find_policy
        )

    return st.lists(rules(timed), min_size=1, max_size=most).map(made)


@fixtures
@given(recording=conversations(compactions=False), policy=policies(1, timed=False))
def test_rules_of_parts_equal_a_loop_that_makes_everything_anew(
    tmp_path: Path, recording: recordings.Recording, policy: Policy
) -> None:
    session = recording.open(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recording, "get_weights", weights_of)
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
    session, context_of = recording.open(tmp_path).with_window(6_000), History.build_context

    def context(history: History) -> Context:
        made = context_of(history)
        assert _columns(index_context(made)) == _columns(ContextIndex(_alone(made)))
        assert index_context(made).total == history.estimate
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(History, "build_context", context)
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
