"""Policies that are TOML: what they do, what can be set, and what is said of one that is wrong."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

import context_tui as ct
from context_tui.compaction.plan import Edit, Plan, Trigger
from context_tui.errors import PlanError
from context_tui.policies.base import Policy
from context_tui.policies.parameter_space import build_params
from context_tui.policies.parts.rules import Rule
from context_tui.policies.planning import build_plan
from context_tui.policies.registry import POLICIES, PRESETS, find_policy, list_policy_names
from context_tui.policies.rule_policy import RulePolicy
from context_tui.policies.runtime_state import RuntimeState, build_runtime_state
from context_tui.policies.toml import parse_policy, read_policy
from context_tui.session.facts import Usage
from context_tui.session.session import Session
from context_tui.session.values import MessageFlag
from context_tui.session.window import Window
from context_tui.text.files import MAX_SETTINGS_BYTES
from context_tui.tokens.estimators import Images
from tests.formats.recordings import Recording, call, result, text
from tests.test_added_policies import installed
from tests.test_vectors import VECTORS
from tests.worked_examples import conversation, left_by, recorded, rounds, spoke, told, typed, used, words_of

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "sample_sessions" / "coding-session.jsonl"

TWIN = """\
name = "twin"
about = "defect: clear big tool results of all but the last turns"

[[rules]]

[rules.trigger]
share = 0.60
unknown_window = 128_000

[rules.keep]
turns = 3

[rules.select]
larger_than = 512

[rules.clear]
marker = "[tool output cleared to save context — re-run the tool if its result is needed again]"
"""
CLEAR = (
    'name = "mine"\nabout = "mine: clear"\n[[rules]]\n[rules.trigger]\nalways = true\n[rules.clear]\nmarker = "[x]"\n'
)


def policy(rule: str) -> Policy:
    """A policy of one rule, which always runs where it says nothing else."""
    trigger = "" if "[rules.trigger]" in rule else "[rules.trigger]\nalways = true\n"
    return parse_policy(f'name = "mine"\nabout = "mine: it"\n[[rules]]\n{trigger}{rule}', "mine.toml", find_policy)


def planned(session: Session, chosen: Policy, **values: Any) -> Plan:
    """Its plan, whatever its trigger says."""
    return build_plan(session, chosen, build_params(chosen, values), force=True)


# -- the same as the code that it stands for


@pytest.mark.parametrize("keep, least", [(3, 512), (1, 512), (2, 0)])
def test_a_twin_of_defects_microcompact_plans_the_same_on_every_vector(keep: int, least: int) -> None:
    twin, code = parse_policy(TWIN, "twin.toml", find_policy), POLICIES["defect-microcompact"]
    mine = build_params(twin, {"keep_turns": keep, "larger_than": least})
    its = build_params(code, {"keep_recent_turns": keep, "min_clear_tokens": least})
    for vector in VECTORS:
        session = ct.from_messages(vector["messages"])
        for at in (None, len(session) // 2):
            made, plan = build_plan(session, twin, mine, at=at), build_plan(session, code, its, at=at)
            assert [edit_of(each) for each in made.edits] == [edit_of(each) for each in plan.edits]
            assert (made.tokens_after, made.has_changes, made.report) == (
                plan.tokens_after,
                plan.has_changes,
                plan.report,
            )
            assert list(made.iterate_verdicts()) == list(plan.iterate_verdicts()), vector["name"]
            assert bool(made.reason) == bool(plan.reason) and trigger_of(made) == trigger_of(plan)
            assert at is not None or ct.apply(session, made).to_messages() == ct.apply(session, plan).to_messages()


def trigger_of(plan: Plan) -> Trigger:
    """What a trigger goes by, without its words."""
    return replace(plan.trigger, reason="")


def edit_of(edit: Edit) -> Edit:
    """An edit, whoever does it."""
    return edit._replace(source="")


def test_what_goes_by_turns_waits_for_one() -> None:
    for rule, waits in (("turns = 2", True), ("turns = 2\nresults = 3", False), ("messages = 2", False)):
        chosen = policy(f'[rules.keep]\n{rule}\n[rules.clear]\nmarker = "[x]"')
        assert chosen.replan_on == (MessageFlag.TURN_START if waits else 0)
    assert POLICIES["opencode-prune"].replan_on and not POLICIES["codex"].replan_on


# -- triggers


def state(**values: Any) -> RuntimeState:
    """A moment in a window of 100,000 tokens."""
    given: dict[str, Any] = {
        "at": 9,
        "believed_tokens": 50_000,
        "recorded_usage": Usage(10_000, 30_000, output=2_000),
        "idle_seconds": 60.0,
        "at_end": False,
        "has_assistant": True,
        "window": Window(100_000, "given"),
        "estimated_tokens": 35_000,
        "message_count": 100,
        "result_count": 20,
        "images": Images(3, 7_000),
        "reply_tokens": 1_500,
        "reasoning_tokens": 0,
    }
    return RuntimeState(**{**given, **values})


def test_a_name_with_nul_is_one_line() -> None:
    with pytest.raises(PlanError, match="cannot be read: the name contains NUL"):
        read_policy(Path("a\0.toml"), find_policy)


def test_a_file_that_is_far_too_large_for_a_policy_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.toml"
    path.write_bytes(b"#" * (MAX_SETTINGS_BYTES + 1))
    with pytest.raises(PlanError, match=r"large\.toml: cannot be read: larger than 4 MB"):
        read_policy(path, find_policy)


@pytest.mark.parametrize(
    "trigger, value, limit, fires",
    [
        ("share = 0.5", 50_000, 50_000, True),
        ("share = 0.5\nabove = true", 50_000, 50_000, False),
        ("reserve = 40_000", 50_000, 60_000, False),
        ("share = 0.9\nreserve = 45_000", 50_000, 45_000, True),
        ("share = 0.9\nat_most = 49_999", 50_000, 49_999, True),
        ("share = 0.1\nat_least = 50_001", 50_000, 50_001, False),
        ("tokens = 50_000", 50_000, 50_000, True),
        ("tokens = 0", None, None, False),
        ("messages = 100", 100, 100, True),
        ("messages = 100\nabove = true", 100, 100, False),
        ("tool_uses = 21", 20, 21, False),
        ("idle_seconds = 60", 60, 60, True),
        ("always = true", None, None, True),
        ("never = true", None, None, False),
        ("share = 0.1\nmin_window = 100_001", None, None, False),
        ("any = [{share = 0.9}, {messages = 100}]", 100, 100, True),
        ("all = [{share = 0.9}, {messages = 100}]", 50_000, 90_000, False),
    ],
)
def test_triggers(trigger: str, value: int | None, limit: int | None, fires: bool) -> None:
    chosen = policy(f'[rules.trigger]\n{trigger}\n[rules.clear]\nmarker = "[x]"')
    found = chosen.trigger(state(), chosen.Params())
    assert (found.fires, found.value, found.threshold) == (fires, value, limit) and found.reason and found.source


@pytest.mark.parametrize(
    "size, tokens",
    [
        ('count = "recorded+new"', 50_000),
        ('count = "recorded+new"\noutput = true', 40_000 + 2_000 + 8_500),
        ('count = "recorded+new"\nbytes_per_token = 2', 40_000 + 20_000),
        ('count = "recorded"', 40_000),
        ('count = "recorded"\noutput = true', 42_000),
        ('count = "uncached"', 10_000),
        ('count = "estimate"\nbytes_per_token = 3.5\nper_message = 10', 40_000 + 1_000),
        ('count = "estimate"\nper_result = 30', 35_000 + 20 * 30),
        ('count = "estimate"\nper_image = 85', 35_000 - 7_000 + 3 * 85),
    ],
)
def test_sizes(size: str, tokens: int) -> None:
    chosen = policy(f'[rules.size]\n{size}\n[rules.trigger]\nshare = 1.0\n[rules.clear]\nmarker = "[x]"')
    assert chosen.trigger(state(), chosen.Params()).value == tokens
    belief = chosen.believed_size(state())
    assert belief and belief.tokens == tokens
    rewritten = chosen.trigger(
        state(context_rewritten=True, estimated_tokens=9_000, believed_tokens=9_000), chosen.Params()
    ).value
    assert (rewritten == tokens) == ("recorded+new" not in size and "estimate" not in size)


def test_an_unknown_window_is_what_the_rule_says() -> None:
    chosen = policy('[rules.trigger]\nshare = 0.5\nunknown_window = 8_000\n[rules.clear]\nmarker = "[x]"')
    assert chosen.trigger(state(window=Window(200_000, "assumed")), chosen.Params()).threshold == 4_000
    assert chosen.trigger(state(), chosen.Params()).threshold == 50_000


# -- what is changed


def cleared(chosen: Policy, session: Session, **values: Any) -> list[int]:
    """The messages whose results are cleared."""
    return [edit.message for edit in planned(session, chosen, **values).edits]


BODIES = told(
    typed(), used("a" * 400, tool="Read"), used("b" * 40, tool="Edit"), typed(), *(used("c" * 800) for _ in range(3))
)  # results are messages 2, 4, 7, 9, 11


@pytest.mark.parametrize(
    "rule, changed",
    [
        ("", [2, 4, 7, 9, 11]),
        ("[rules.keep]\nturns = 1", [2, 4]),
        ("[rules.keep]\nmessages = 3", [2, 4, 7]),
        ("[rules.keep]\nfirst = 4", [4, 7, 9, 11]),
        ("[rules.keep]\nresults = 2", [2, 4, 7]),
        ('[rules.keep]\nresults = 1\ncount = "eligible"\n[rules.select]\nexcept_tools = ["Read"]', []),
        ('[rules.keep]\nresults = 1\ncount = "eligible"\n[rules.select]\ntools = ["Read"]', [2, 7, 9]),
        ("[rules.keep]\nresults = 1\nevery = 3", [2, 4, 7, 9]),
        ("[rules.keep]\nresults = 2\nevery = 4", [2]),
        ("[rules.keep]\nresult_tokens = 400", [2, 4, 7]),
        ("[rules.keep]\nresult_tokens = 399", [2, 4, 7, 9]),
        ("[rules.keep]\nresults = 1\nresult_tokens = 400", [2, 4, 7]),
        ("[rules.keep]\nresults = 3\nresult_tokens = 200", [2, 4]),
        ("[rules.keep]\ntokens = 420", [2, 4, 7]),
        ("[rules.select]\nlarger_than = 100", [7, 9, 11]),
        ("[rules.select]\nat_least = 100", [2, 7, 9, 11]),
        ("[rules.select]\nlonger_than = 40", [2, 7, 9, 11]),
        ("[rules.select]\nuntil = 150", [2, 4, 7]),
        ("[rules.only_if]\nclear_at_least = 710", [2, 4, 7, 9, 11]),
        ("[rules.only_if]\nclear_at_least = 711", []),
        ("[rules.only_if]\nclear_more_than = 710", []),
    ],
)
def test_which_results_are_cleared(rule: str, changed: list[int]) -> None:
    chosen = policy(f'{rule}\n[rules.clear]\nmarker = "[x]"')
    plan = planned(BODIES, chosen)
    assert [edit.message for edit in plan.edits] == changed and plan.has_changes == bool(changed) != bool(plan.reason)
    verdicts = {(message, block): verdict for message, block, verdict in plan.iterate_verdicts()}
    assert all(verdict.reason for verdict in verdicts.values())
    for message in (2, 4, 7, 9, 11):
        assert (verdicts[message, 0].outcome == "cleared") == (message in changed)
    after = ct.apply(BODIES, plan)
    assert plan.tokens_after == ct.tokens.estimate(after)
    assert not planned(after, chosen).has_changes or "until" in rule


def test_a_result_without_a_call_can_be_left_alone() -> None:
    orphan = {"role": "user", "content": [result("nobodys", "x" * 400)]}
    session = told([orphan], used("y" * 400), typed())
    marker = '[rules.clear]\nmarker = "[x]"'
    assert cleared(policy(marker), session) == [0, 2]
    assert cleared(policy(f"[rules.select]\npaired = true\n{marker}"), session) == [2]


def test_what_is_older_than_so_many_seconds(tmp_path: Path) -> None:
    recording = Recording()
    for minute in range(4):
        clock = f"2026-01-01T00:0{minute}:00.000Z"
        recording.user("do it", timestamp=clock)
        recording.assistant(call(f"c{minute}", "Read"), timestamp=clock)
        recording.results(result(f"c{minute}", "x" * 900), timestamp=clock)
    recording.assistant(text("done"), timestamp="2026-01-01T00:03:00.000Z")
    chosen = policy('[rules.select]\nolder_than = 60\n[rules.clear]\nmarker = "[x]"')
    session = recording.open(tmp_path)
    assert cleared(chosen, session) == [2, 5] and cleared(chosen, session, older_than=59) == [2, 5, 8]


def test_inputs_and_thinking() -> None:
    thinking = {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm " * 50, "signature": "s"}]}
    session = told(typed(), used("a" * 400, path="x" * 400), [thinking], spoke("well"), typed())
    both = planned(session, policy('[rules.clear]\nmarker = "[x]"\ninputs = true'))
    assert [(edit.message, edit.tool) for edit in both.edits] == [(1, "Read"), (2, "Read")]
    left = left_by(session, both)
    assert left[1]["content"][0]["input"] == {} and both.tokens_after == ct.tokens.estimate(ct.apply(session, both))
    inputs = planned(session, policy('[rules.clear]\nof = "inputs"'))
    assert [edit.message for edit in inputs.edits] == [1]
    assert inputs.tokens_after == ct.tokens.estimate(ct.apply(session, inputs))
    thoughts = planned(session, policy('[rules.clear]\nof = "thinking"'))
    assert [(edit.message, edit.action) for edit in thoughts.edits] == [(3, "drop")]
    assert thoughts.tokens_after == ct.tokens.estimate(ct.apply(session, thoughts))


@pytest.mark.parametrize("body", ["x" * 1_000, "é" * 500, "a" + "🙂" * 300, "aé" * 400, "\ud800" * 300])
def test_truncated_results_are_as_long_as_was_said(body: str) -> None:
    session = told(typed(), used(body), typed())
    for head in range(10, 15):
        rule = f'[rules.truncate]\nhead = {head}\ntail = {head + 3}\nbefore = "<"\nmiddle = "…"\nafter = ">"'
        plan = planned(session, policy(rule))
        left = left_by(session, plan)[2]["content"][0]["content"]
        assert len(left.encode("utf-8", "surrogatepass")) == 2 * head + 3 + 5 and left[0] == "<" and "…" in left
        assert plan.tokens_after == ct.tokens.estimate(ct.apply(session, plan))
        assert not planned(ct.apply(session, plan), policy(rule)).has_changes


# -- where messages go


@pytest.mark.parametrize(
    "rule, kept",
    [
        ("", []),
        ("[rules.keep]\nmessages = 3", [6, 7, 8, 9]),  # no call is parted from its result
        ('[rules.keep]\nmessages = 3\n[rules.cut]\nmove = "forward"', [8, 9]),
        ('[rules.keep]\nmessages = 3\n[rules.cut]\nat = "any"', [7, 8, 9]),
        ('[rules.keep]\nmessages = 4\n[rules.cut]\nat = "turn"', [5, 6, 7, 8, 9]),
        ('[rules.keep]\nmessages = 6\n[rules.cut]\nat = "turn"\nmove = "forward"', [5, 6, 7, 8, 9]),
        ('[rules.keep]\nmessages = 4\n[rules.cut]\nat = "turn"\nmove = "forward"', [9]),
        ('[rules.keep]\nmessages = 3\n[rules.cut]\nat = "message"', [6, 7, 8, 9]),
        ('[rules.keep]\nmessages = 1\n[rules.cut]\nat = "assistant"', [8, 9]),
        ('[rules.keep]\nmessages = 2\n[rules.cut]\nat = "after_assistant"', [7, 8, 9]),
        ("[rules.keep]\nfirst = 1\nmessages = 2", [0, 8, 9]),
        ("[rules.keep]\nuser_messages = 2", [5, 9]),
        ("[rules.head]\nshare = 0.5", [5, 6, 7, 8, 9]),
        ('[rules.head]\nshare = 0.35\neven = true\n[rules.cut]\nat = "any"', [2, 3, 4, 5, 6, 7, 8, 9]),
        ("[rules.keep]\nmessages = 7\n[rules.cut]\nfew = 3", []),
        ("[rules.keep]\nmessages = 8\n[rules.only_if]\nprogress = 0.2", None),
        ("[rules.keep]\nmessages = 10", None),
        ("[rules.only_if]\nmessages = 11", None),
    ],
)
def test_what_is_summarised(rule: str, kept: list[int] | None) -> None:
    session = told(typed("0"), used("1"), spoke("3"), spoke("4"), typed("5"), used("6"), spoke("8"), typed("9"))
    assert len(session) == 10
    plan = planned(session, policy(f'{rule}\n[rules.summarise]\nbefore = "So far: "'))
    if kept is None:
        assert not plan.has_changes and plan.reason
        return
    left, before = left_by(session, plan), session.to_messages()
    assert [message for message in left if not words_of(message).startswith("So far: ")] == [before[at] for at in kept]
    assert len(left) == len(kept) + 1 and all(verdict.reason for *_, verdict in plan.iterate_verdicts())
    asked = plan.summarised_message_numbers
    assert asked == [number for number in range(10) if number not in kept or "user_messages" in rule]


def test_nothing_is_summarised_while_a_call_is_open() -> None:
    chosen, session = policy("[rules.only_if]\nno_open_call = true\n[rules.summarise]"), told(typed(), used("x"))
    opened, answered = (build_plan(session, chosen, chosen.Params(), at=at) for at in (2, 3))
    assert not opened.has_changes and "call without a result" in opened.reason and answered.messages_dropped == 3


def test_what_was_dropped_is_noted() -> None:
    session, note = conversation([40] * 6), '{role = "user", text = "{messages} are gone", at = "end"}'
    plan = planned(session, policy(f"[rules.keep]\nmessages = 2\n[rules.drop]\nnotes = [{note}]"))
    left = left_by(session, plan)
    assert left == [*session.to_messages()[4:], *typed("4 are gone")] and not plan.needs_summary
    assert plan.tokens_after == ct.tokens.estimate(ct.apply(session, plan))


def test_more_goes_until_little_enough_is_left() -> None:
    head = '[rules.head]\nshare = 0.2\nstep = 0.2\nuntil = 0.5\n[rules.cut]\nat = "any"\n[rules.summarise]'
    session = conversation([4_000] * 10)  # 1,000 tokens each
    for window, kept in ((20_000, 8), (12_000, 6), (2_000, 0), (1_000, 0)):
        assert len(session) - planned(session.with_window(window), policy(head)).messages_dropped == kept


# -- several rules


LADDER = """\
name = "ladder"
about = "mine: clear, then summarise"
[[rules]]
name = "first"
[rules.trigger]
share = 0.5
[rules.keep]
messages = 2
[rules.clear]
marker = "[x]"
[[rules]]
[rules.trigger]
share = 0.8
[rules.keep]
messages = 2
[rules.summarise]
"""


def test_a_name_that_rules_share_is_one_parameter_where_they_agree() -> None:
    ladder = parse_policy(LADDER, "ladder.toml", find_policy)
    assert set(ladder.Params.model_fields) == {"first_trigger_share", "summarise_trigger_share", "keep_messages"}
    session = told(typed(), rounds(3, 400), spoke())
    plan = planned(session, ladder, keep_messages=5)
    assert [step.policy for step in plan.steps] == ["ladder-first", "ladder-summarise"]
    assert plan.steps[1].messages_dropped == len(session) - 5 and len(plan.steps[0].edits) == 1
    [(_, its), (_, other)] = ladder.steps(build_params(ladder, {"keep_messages": 5}))
    assert (its.keep_messages, other.keep_messages, other.trigger_share) == (5, 5, 0.8)


def test_where_one_fires_only_those_run_that_do() -> None:
    ladder, session = parse_policy(LADDER, "ladder.toml", find_policy), told(typed(), rounds(3, 40_000), spoke())
    for window, ran in ((100_000, ["ladder-first", "ladder-summarise"]), (50_000, ["ladder-first"])):
        plan = planned(session.with_window(window), ladder)
        assert [step.policy for step in plan.steps] == ran
        assert plan.trigger.fires == (window == 50_000)
    full = planned(session.with_window(31_000), ladder)
    assert [step.policy for step in full.steps] == ["ladder-first"], "what is left after clearing is small"


def test_rules_can_be_policies_with_other_defaults(tmp_path: Path) -> None:
    text = 'name = "mine"\nabout = "mine: both"\n[[rules]]\npolicy = "agent-sdk-prune"\nparams = {max_chars = 900}\n'
    mine = parse_policy(text + '[[rules]]\npolicy = "agent-sdk-compact"\n', "mine.toml", find_policy)
    fields = mine.Params.model_fields
    assert mine.phases == {"after_tools"}
    assert fields["max_chars"].default == 900 and fields["context_budget"].default == 160_000
    for tokens, ran in ((120_000, 1), (170_000, 2)):
        session = recorded(tmp_path, tokens, typed(), rounds(4, 1_000), spoke(""))
        plan = planned(session, mine)
        alone = ct.plan(session, "agent-sdk-prune", max_chars=900)
        assert len(plan.steps) == ran and plan.steps[0].edits == alone.edits and len(alone.edits) == 2


def test_a_summary_in_the_background() -> None:
    chosen = policy("[rules.trigger]\nshare = 0.5\n[rules.summarise]\nbackground = true")
    assert chosen.runs_in_background(state(), chosen.Params())
    assert POLICIES["defect"].runs_in_background(state(believed_tokens=75_000), POLICIES["defect"].Params())
    assert not POLICIES["defect"].runs_in_background(state(believed_tokens=90_000), POLICIES["defect"].Params())
    assert not POLICIES["codex"].runs_in_background(state(believed_tokens=99_000), POLICIES["codex"].Params())


# -- what is wrong

DROPS = 'name = "mine"\nabout = "a"\n' + 2 * "[[rules]]\ntrigger = {always = true}\ndrop = {}\n"


@pytest.mark.parametrize(
    "text, line, words",
    [
        ("x = [", 1, "is not valid TOML"),
        ('name = "mine"\nabout = "a"\nabout = "b"', 3, "is not valid TOML"),
        ('about = "a"', 1, "name: is missing"),
        ('name = "Mine"\nabout = "a"', 1, "name: must be 1 to 40 lower-case"),
        (CLEAR + "[rules.keep]\nturn = 3", 9, "rule 1, keep.turn: unknown key; did you mean turns?"),
        (CLEAR + "[rules.keep]\nxyz = 3", 9, "rule 1, keep.xyz: unknown key; allowed: first, turns"),
        (CLEAR + "[rules.keep]\nturns = 1_001", 9, "rule 1, keep.turns: 1001 is out of range; allowed: 1 to 1,000"),
        (CLEAR + '[rules.keep]\nturns = "x"', 9, "rule 1, keep.turns: 'x' is not a whole number"),
        (CLEAR + '[rules.keep]\nmessages = 1\ncount = "some"', 10, "rule 1, keep.count: 'some' is not allowed; use"),
        (CLEAR + "[rules.cut]\nfew = 3", 3, "rule 1: cut means nothing to clear"),
        (CLEAR + "[rules.drop]", 3, "rule 1: needs one action: clear, truncate, drop, summarise"),
        (CLEAR.replace("always = true", "share = 0.5\ntokens = 3"), 4, "rule 1, trigger: needs one of share"),
        (CLEAR.replace("[rules.trigger]\nalways = true\n", ""), 3, "rule 1, trigger: is missing"),
        (CLEAR + "[[rules]]\ntrigger = 3", 9, "rule 2, trigger: 3 is not a table"),
        (CLEAR + CLEAR[CLEAR.index("[[rules]]") :] * 200, 1, "rules: there are too many"),
        (DROPS, 1, "nothing runs after a rule that says drop; put it last"),
        ('name = "mine"\nabout = "a"\n\n[[rules]]\npolicy = "codec"', 5, "unknown policy 'codec'; did you mean codex?"),
        (
            'name = "mine"\nabout = "a"\n[[rules]]\npolicy = "codex"\nparams = {x = 1}',
            4,
            "codex: unknown parameter 'x'",
        ),
        ('name = "mine"\nabout = "a"\n[[rules]]\npolicy = "chain"', 4, "chain cannot be a rule"),
        (CLEAR + '[[rules]]\npolicy = "chain"', 9, "chain cannot be a rule"),
        ('name = "mine"\nabout = """\nkeep = 3\n"""\nphases = ["soon"]', 5, "phases.0: 'soon' is not allowed; use"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(PlanError) as caught:
        parse_policy(text, "mine.toml", find_policy)
    said = str(caught.value)
    assert said.startswith(f"mine.toml:{line}: {words}" if line else words) and "\n" not in said, said


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_bytes(b'name = "x"\nabout = "\xff"')
    for path, words in ((bad, "bad.toml:2: is not UTF-8"), (tmp_path, "cannot be read"), (tmp_path / "no", "No such")):
        with pytest.raises(PlanError, match=re.escape(words)):
            read_policy(path, find_policy)


# -- where they come from


def run(*arguments: str | Path, config: Path, site: Path | None = None) -> tuple[int, str, str]:
    """The program in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "context_tui", *map(str, arguments)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={
            **os.environ,
            "CONTEXT_TUI_CONFIG": str(config / "config.toml"),
            "PYTHONPATH": os.pathsep.join(map(str, filter(None, (site, ROOT)))),
        },
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_a_file_is_planned_applied_and_listed(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(TWIN.replace('"twin"', '"mine"'))
    code, out, err = run("plan", SAMPLE, "--policy-file", file, "-p", "keep_turns=2", "--json", config=tmp_path)
    made = json.loads(out)
    assert (code, err, made["policy"]) == (0, "", "mine") and made["params"]["keep_turns"] == 2
    expected = ct.plan(ct.open_session(SAMPLE), "defect-microcompact", keep_recent_turns=2)
    assert made["tokens"]["after"] == expected.tokens_after
    copy = tmp_path / "out.jsonl"
    assert run("apply", SAMPLE, "--policy-file", file, "-o", copy, config=tmp_path)[0] == 0 and copy.exists()
    code, out, _ = run("policies", "--policy-file", file, "mine", config=tmp_path)
    assert code == 0 and f"from: {file}" in out and "keep_turns" in out
    code, _, err = run("plan", SAMPLE, config=tmp_path)
    own = "claude-code-auto, claude-code-micro"
    assert code == 2
    assert (
        err == f"context-tui: no policy is named; give -P POLICY (this session's agent: {own}) or --policy-file FILE\n"
    )
    code, out, _ = run("sweep", SAMPLE, "--policy-file", file, "-p", "keep_turns=1..3", "--json", config=tmp_path)
    assert code == 0 and {row["params"]["keep_turns"] for row in json.loads(out)["rows"]} >= {1, 2, 3}
    code, _, err = run("sweep", SAMPLE, "-p", "keep_turns=1..3", config=tmp_path)
    assert (code == 2 and "is for no policy; name it first" in err) or "no policy is named" in err
    code, out, _ = run("replay", SAMPLE, "--policy-file", file, "-P", "codex", "--json", config=tmp_path)
    assert [each["policy"] for each in json.loads(out)["policies"]] == ["codex", "mine"]
    file.write_text(TWIN.replace('"twin"', '"codex"'))
    code, _, err = run("plan", SAMPLE, "--policy-file", file, config=tmp_path)
    assert (code, err) == (2, f"context-tui: {file}: codex is built in; give it another name\n")


@pytest.mark.slow
def test_a_folder_beside_the_configuration_and_packages(tmp_path: Path) -> None:
    folder, site = tmp_path / "policies", tmp_path / "site"
    folder.mkdir()
    site.mkdir()
    (folder / "a.toml").write_text(TWIN)
    (folder / "b.toml").write_text(TWIN)
    (folder / "c.toml").write_text(CLEAR + "[rules.keep]\nturn = 3\n")
    (folder / "d.toml").write_text(TWIN.replace('"twin"', '"codex"'))
    (folder / "e.txt").write_text("no policy")
    source = f"from pathlib import Path\nTEXT = {TWIN.replace('twin', 'packed')!r}\n"
    source += "PATH = Path(__file__).with_name('p.toml')\n"
    installed(site, "pack", "pack", source, {"packed": "pack:TEXT", "placed": "pack:PATH"})
    (site / "p.toml").write_text(TWIN.replace('"twin"', '"placed"'))
    code, out, err = run("policies", "--json", config=tmp_path, site=site)
    listed = {each["name"]: each for each in json.loads(out)["policies"]}
    assert code == 0 and list(listed)[-3:] == ["packed", "placed", "twin"]
    assert listed["twin"]["origin"] == str(folder / "a.toml") and listed["packed"]["origin"] == "package pack"
    assert listed["codex"]["origin"] == "preset" and listed["manual"]["origin"] == "built in"
    assert [line.split(" is not used: ") for line in err.splitlines()] == [
        [f"policy {folder / 'b.toml'}", f"the name twin is taken: {folder / 'a.toml'}"],
        [f"policy {folder / 'c.toml'}", "9: rule 1, keep.turn: unknown key; did you mean turns?"],
        [f"policy {folder / 'd.toml'}", "the name codex is taken: built in"],
    ]
    code, out, _ = run("plan", SAMPLE, "-P", "twin", "--json", config=tmp_path)
    assert code == 0 and json.loads(out)["policy"] == "twin"
    code, out, _ = run("plan", SAMPLE, "-P", "chain", "-p", "policies=twin,codex", "--json", config=tmp_path)
    assert code == 0 and json.loads(out)["boundary"] is not None


def test_the_documented_example(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "policies.md").read_text()
    [text] = [block for block in re.findall(r"```toml\n(.*?)```", page, re.DOTALL) if block.startswith("name =")]
    frugal = parse_policy(text, "frugal.toml", find_policy)
    for name in re.findall(r"`(keep_turns|\w*trigger_share)`", page):
        assert name in frugal.Params.model_fields or name == "trigger_share"
    session = ct.open_session(SAMPLE)
    plan = planned(session, frugal, keep_turns=1)
    assert plan.trigger.fires and plan.has_changes and [step.policy for step in plan.steps] == ["frugal-clear"]
    wrong = re.search(r"`frugal.toml:(\d+): (rule 1, keep.turn: [^`]*)`", page)
    assert wrong
    with pytest.raises(PlanError, match=re.escape(f"frugal.toml:{wrong[1]}: {wrong[2]}")):
        parse_policy(text.replace("turns = 2", "turn = 2"), "frugal.toml", find_policy)
    parts = re.findall(r"^\| `(\w+)` \| (.*) \|$", page, re.MULTILINE)
    rule = {part: Rule.model_fields[part].annotation for part, _ in parts if part in Rule.model_fields}
    assert set(rule) == {"trigger", "size", "keep", "select", "cut", "head", "only_if"}
    for part, keys in parts:
        if part in rule:
            kind = next(each for each in (*get_args(rule[part]), rule[part]) if hasattr(each, "model_fields"))
            assert set(kind.model_fields) <= set(re.findall(r"`(\w+)`", keys)), part


# -- the presets


def test_the_presets_are_the_files_there_are() -> None:
    folder = ROOT / "context_tui" / "policies" / "presets"
    assert sorted(PRESETS) == sorted(path.stem for path in folder.glob("*.toml")) and not set(PRESETS) & set(
        list_policy_names()
    )
    for name in PRESETS:
        chosen = POLICIES[name]
        assert isinstance(chosen, RulePolicy)
        spec = chosen.spec
        assert chosen.name == name and spec.source and spec.version and (spec.limits or name == "none"), name
        assert all(limit.endswith(".") for limit in spec.limits)
        assert chosen.about.count(":") == 1 and chosen.phases


def test_a_preset_is_read_when_it_is_asked_for() -> None:
    code = """
import sys
from context_tui.policies.registry import POLICIES
assert "codex" in POLICIES and list(POLICIES)[7] == "none"
POLICIES["defect-compact"]
assert not [name for name in sys.modules if "policies.parts" in name or name.endswith(("tomllib", "policies.toml"))]
POLICIES["codex"]
assert "context_tui.policies.parts.rules" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_look_at_no_text_and_once_at_each_message(name: str) -> None:
    """Twice as long a context is planned with about twice as much looked at, and no content at all."""
    counts = []
    for turns in (40, 80):
        session = told(*(part for _ in range(turns) for part in (typed("x" * 900), used("y" * 3_000), spoke("z" * 90))))
        context = session.context_at()
        looked = Counted(context.order)
        object.__setattr__(context, "order", looked)
        object.__setattr__(context, "content", None)
        chosen = POLICIES[name]
        at = build_runtime_state(context, session.window_at(len(session)), len(session), 4_000.0, True)
        chosen.plan(context, chosen.Params(), at)
        counts.append(looked.asked)
    assert counts[1] <= 2.5 * counts[0] + 50, counts


class Counted(Sequence[int]):
    """Messages, and how often one of them was asked for."""

    def __init__(self, messages: Sequence[int]) -> None:
        self.messages, self.asked = messages, 0

    def __len__(self) -> int:
        return len(self.messages)

    def __getitem__(self, at: Any) -> Any:
        self.asked += 1
        return self.messages[at]
