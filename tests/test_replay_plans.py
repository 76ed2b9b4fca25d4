"""The plans of a replay's firings: stored in compact form, and the same whenever they are asked for."""

from __future__ import annotations

from array import array
from typing import Any

import pytest

import context_tui as ct
from context_tui.compaction.plan import Plan
from context_tui.lab.replay import walk
from context_tui.lab.replay.history import MessageOrder, OrderPrefix
from context_tui.lab.replay.packed_plans import PackedPlan
from context_tui.session.values import Spans

POLICIES: dict[str, dict[str, Any]] = {
    "openhands-masking": {},
    "anthropic-clear-tool-uses": {"trigger_tokens": 1_000},
    "gemini-masking": {"keep_result_tokens": 2_000, "clear_at_least": 100},
    "opencode-prune": {"keep_result_tokens": 2_000, "clear_more_than": 100},
    "swe-agent-last-n": {},
}


def content(plan: Plan) -> tuple[Any, ...]:
    """All that a plan says about its context."""
    context = plan.context
    return (
        *(plan.policy, plan.params, plan.trigger, plan.report, plan.reason, plan.tokens_before, plan.tokens_after),
        *([*plan.iterate_verdicts()], plan.edits, [*plan.changes.items()], plan.dropped_ranges, plan.inserts),
        *(context.at, [*context.order], context.epoch_start, context.last_rewrite, [*context.replacements.items()]),
    )


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("sample", ["coding-session.jsonl", "compacted-session.jsonl"])
def test_plans_in_compact_form_are_those_that_were_made(
    sample: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = ct.open_session(f"sample_sessions/{sample}").with_window(20_000)
    packed = ct.replay.replay(session, name, **POLICIES[name]).firings
    assert sum(isinstance(firing.stored_plan, PackedPlan) for firing in packed) >= len(packed) // 2
    monkeypatch.setattr(walk, "pack_plan", lambda plan, template: plan)
    whole = ct.replay.replay(session, name, **POLICIES[name]).firings
    assert [content(firing.plan) for firing in packed] == [content(firing.plan) for firing in whole]


def test_the_order_of_a_context_outlives_that_of_its_history() -> None:
    numbers = [*range(3, 200), *range(250, 400), 1]
    order = MessageOrder(array("i", numbers))
    contexts = [OrderPrefix(order, length) for length in (0, 5, 200, len(numbers))]
    before = [[*context] for context in contexts]
    order.finish()
    assert isinstance(order.numbers, Spans)
    for context, expected in zip(contexts, before, strict=True):
        assert [*context] == [context[at] for at in range(len(context))] == expected
        assert list(context[-3:]) == expected[-3:] and list(context[::-2]) == expected[::-2]
        assert not expected or context[-1] == expected[-1]
    with pytest.raises(IndexError):
        contexts[1][5]
