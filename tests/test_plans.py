"""A plan says any compaction: dropped ranges, inserted messages, changes to any block; and all it says agrees."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import context_tui as ct
from context_tui.compaction.changes import Change, StackedChanges, build_input_body, build_removal
from context_tui.compaction.plan import (
    ACTION_PAST_TENSE,
    Insert,
    KeepReason,
    Plan,
    SummaryPrompt,
    Trigger,
    VerdictCode,
    merge_ranges,
)
from context_tui.export.files import export, list_writable_formats
from context_tui.policies.base import BasePolicy, Params
from context_tui.policies.planning import build_plan
from context_tui.policies.registry import POLICIES
from context_tui.policies.runtime_state import RuntimeState
from context_tui.session.context import Body, Context
from context_tui.session.facts import Facts
from context_tui.session.jsontext import compact_json, utf8_len
from context_tui.session.session import Session
from context_tui.session.values import Kind
from context_tui.tokens.context_index import ContextIndex
from tests.exports import wrong_with
from tests.formats.histories import histories
from tests.formats.recordings import Recording, call, conversations, result, text, thinking, usage

fixtures = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
NOTE = "[Eight messages were left out here.]"
TRUNCATED = "...(argument truncated)"


def every_change(context: Context, policy: str) -> dict[int, Change]:
    """Thinking goes, calls lose their arguments, results their text."""
    facts, changes = context.facts, dict[int, Change]()
    for message in context.order:
        for row in facts.blocks_of(message):
            if facts.kind[row] == Kind.THINKING:
                changes[row] = build_removal(policy)
            elif facts.kind[row] == Kind.TOOL_USE:
                changes[row] = Change("truncate", build_input_body(facts, row, {"content": TRUNCATED}), policy)
            elif facts.kind[row] == Kind.TOOL_RESULT:
                changes[row] = Change("clear", Body.from_text("[gone]"), policy)
    return changes


class Tidy(BasePolicy):
    """Drops two ranges in the middle with a note in place of each, and changes blocks of every kind."""

    name: ClassVar[str] = "tidy"
    about: ClassVar[str] = "made up: two ranges, a note, and every kind of change"
    phases: ClassVar[frozenset[str]] = frozenset({"before_call"})
    Params: ClassVar[type[Params]] = Params

    def trigger(self, state: RuntimeState, params: Any) -> Trigger:
        return Trigger(True, "always")

    def plan(self, context: Context, params: Any, state: RuntimeState) -> Plan:
        return Plan(
            self.name,
            params,
            context,
            self.trigger(state, params),
            every_change(context, self.name),
            dropped_ranges=(range(12, 16), range(4, 8)),
            inserts=(Insert("user", 12, NOTE, holds_summary=False), Insert("user", 4, NOTE, holds_summary=False)),
            keep_reason=lambda position, block: KeepReason(
                VerdictCode.PROTECTED if position < 4 else VerdictCode.KEPT, "its place"
            ),
        )


def recording() -> Recording:
    """Five turns of four messages: a question, a call with thinking, its result, and an answer."""
    made = Recording()
    for turn in range(5):
        made.user(f"question {turn} " * 9)
        write = call(f"c{turn}", "Write", file_path=f"{turn}.py", content="line\n" * 99)
        made.assistant(thinking("let me see " * 20, "signed"), id=f"m{turn}")
        made.assistant(write, id=f"m{turn}")
        made.results(result(f"c{turn}", f"secret {turn} " * 60))
        made.assistant(text(f"answer {turn} " * 7))
    return made


def test_a_policy_that_does_everything(tmp_path: Path) -> None:
    session = recording().open(tmp_path)
    plan = build_plan(session, Tidy(), Params())
    assert (plan.dropped_ranges, plan.boundary, plan.needs_summary) == ((range(4, 8), range(12, 16)), 8, False)
    assert plan.messages_dropped == 8 and plan.messages_to_summarise == [] and plan.previous_summary is None

    seen = {(message, block): verdict for message, block, verdict in plan.iterate_verdicts()}
    assert (seen[0, None].outcome, seen[0, None].code) == ("kept", VerdictCode.PROTECTED)
    assert (seen[9, None].outcome, seen[9, None].code) == ("kept", VerdictCode.KEPT)
    assert seen[1, 0].reason == "dropped: 56 tokens become nothing"
    assert (seen[1, 1].outcome, seen[1, 1].code) == ("truncated", VerdictCode.SELECTED)
    assert seen[2, 0].outcome == "cleared"
    assert (seen[5, None].outcome, seen[5, None].code) == ("dropped", VerdictCode.DROPPED_RANGE)
    assert seen[5, None].reason == "dropped: one of messages 4 to 7"
    assert seen[6, 0].reason == "dropped: one of messages 4 to 7, cleared first"
    assert seen[13, None].explanation == "one of messages 12 to 15"

    after = ct.apply(session, plan)
    messages = after.to_messages()
    assert [message["content"][0].get("text", "")[:10] for message in messages if message["role"] == "user"] == [
        "question 0",
        "",
        NOTE[:10],
        "question 2",
        "",
        NOTE[:10],
        "question 4",
        "",
    ]
    assert messages[1]["content"] == [call("c0", "Write", content=TRUNCATED)]
    assert [block["content"] for message in messages for block in message["content"] if "content" in block] == [
        "[gone]"
    ] * 3
    assert ct.tokens.estimate(after) == plan.tokens_after
    assert ct.apply(session, plan).to_messages() == messages and session.to_messages()[1]["content"][0]["thinking"]

    for name in list_writable_formats():
        assert list(wrong_with(session, len(session), after, name, tmp_path / "out")) == []
    written = (tmp_path / "lines.jsonl", export(after, tmp_path / "lines.jsonl", "claude-code"))[0].read_text()
    assert all(json.loads(line)["message"]["content"] for line in written.splitlines() if '"message"' in line)
    assert "secret" not in written and "let me see" not in written and "line\\nline" not in written
    assert ct.open_session(tmp_path / "lines.jsonl").to_messages() == messages


@pytest.mark.parametrize("policy", list(POLICIES))
def test_a_recording_is_closed_with_its_last_plan(tmp_path: Path, policy: str) -> None:
    session = recording().open(tmp_path)
    reader = weakref.ref(session.content)
    gc.disable()
    try:
        plan = ct.plan(session, policy, force=True)
        assert (
            plan.tokens_after <= plan.tokens_before
            and list(plan.iterate_verdicts())
            and plan.messages_to_summarise is not None
        )
        del session
        assert reader() is not None
        del plan
        assert reader() is None, "something that a context keeps refers back to it"
    finally:
        gc.enable()


def test_a_summary_in_the_middle_is_of_what_is_summarised() -> None:
    turns = [{"role": role, "content": f"{role} {turn}"} for turn in range(6) for role in ("user", "assistant")]
    session = ct.from_messages(turns)
    context = session.context_at()
    prompt = SummaryPrompt("system", lambda head, previous: head, sections=("Goal",))
    insert = Insert("user", 2, "<summary>", "</summary>")
    ranges = (range(2, 4), range(4, 8), range(9, 9))
    plan = Plan("pinned", Params(), context, Trigger(True, ""), dropped_ranges=ranges, inserts=(insert,), prompt=prompt)
    assert plan.dropped_ranges == plan.summarised_ranges == (range(2, 8),) and plan.boundary == 8 and plan.needs_summary
    assert [message["content"][0]["text"] for message in plan.messages_to_summarise] == [
        turn["content"] for turn in turns[2:8]
    ]
    assert {verdict.outcome for *_, verdict in plan.iterate_verdicts()} == {"kept", "summarised"}
    with pytest.raises(ct.PlanError, match="the summary is missing or empty"):
        ct.apply(session, plan)
    texts = [message["content"][0]["text"] for message in ct.apply(session, plan, "so far").to_messages()]
    assert texts == [
        "user 0",
        "assistant 0",
        "<summary>so far</summary>",
        "user 4",
        "assistant 4",
        "user 5",
        "assistant 5",
    ]

    # What is summarised need not be what goes: here all is, and only the middle goes, of which a part for nothing.
    whole = Plan(
        "whole",
        Params(),
        context,
        Trigger(True, ""),
        dropped_ranges=(range(0, 3), range(5, 8)),
        inserts=(insert,),
        summarised_ranges=(range(0, 6),),
        prompt=prompt,
    )
    assert [whole.find_action(position) for position in range(9)] == [
        *("summarise", "summarise", "summarise", "", "", "summarise", "drop", "drop", "")
    ]
    assert len(whole.messages_to_summarise) == 6 and whole.boundary == 3
    assert {(edit.action, edit.message) for edit in whole.edits} == {
        *(("summarise", message) for message in (0, 1, 2, 5)),
        ("drop", 6),
        ("drop", 7),
    }


def test_an_insert_begins_no_turn() -> None:
    session = ct.from_messages([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])
    inserts = (Insert("user", 0, "note", holds_summary=False), Insert("user", 2, "<s>", "</s>"))
    plan = Plan("p", Params(), session.context_at(), Trigger(True, ""), inserts=inserts)
    after = ct.apply(session, plan, "text")
    assert [message["content"][0]["text"] for message in after.to_messages()] == ["note", "a", "b", "<s>text</s>"]
    assert after.turns == 1


def test_a_message_that_loses_what_was_typed_begins_no_turn_any_more() -> None:
    both = {"role": "user", "content": [result("c", "done"), text("and now?")]}
    session = ct.from_messages([{"role": "user", "content": "go"}, {"role": "assistant", "content": [call("c")]}, both])
    row = list(session.facts.blocks_of(2))[1]
    plan = Plan("p", Params(), session.context_at(), Trigger(True, ""), {row: build_removal("p")})
    after = ct.apply(session, plan)
    assert (session.turns, after.turns) == (2, 1) and after.to_messages()[2]["content"] == [result("c", "done")]
    # A second plan finds the blocks where they are now, and the recording behind both stays as it was.
    (first,) = after.facts.blocks_of(2)
    clear = {first: Change("clear", Body.from_text("x"), "p")}
    again = ct.apply(after, Plan("p", Params(), after.context_at(), Trigger(True, ""), clear))
    assert again.to_messages()[2]["content"] == [result("c", "x")] and len(session.to_messages()[2]["content"]) == 2


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda ends: range(*ends)), max_size=6))
def test_ranges_are_in_order_and_apart(ranges: list[range]) -> None:
    found = merge_ranges(ranges)
    assert {position for each in found for position in each} == {position for each in ranges for position in each}
    assert all(first.stop < second.start for first, second in pairwise(found)) and all(found)


def changed(draw: st.DrawFn, facts: Facts, row: int) -> Change:
    """Any change to a block."""
    if draw(st.booleans()):
        return build_removal("random")
    words = draw(st.sampled_from(["", "short", "é" * 30, "long " * 50]))
    if facts.kind[row] == Kind.TOOL_USE:
        return Change("truncate", build_input_body(facts, row, {"what": words}), "random")
    if draw(st.booleans()):
        size = utf8_len(words) + 1
        return Change(
            "truncate",
            Body(None, size),
            "random",
            lambda value: f"{words}{compact_json(value)[:1].decode()}"[:-1] + "!",
        )
    return Change("clear", Body.from_text(words), "random")


@st.composite
def plans(draw: st.DrawFn, session: Session, at: int | None) -> Plan:
    """Any plan for a session."""
    context = session.context_at(at)
    facts, places = context.facts, st.integers(0, len(context))
    ends = st.tuples(places, places).map(lambda pair: range(min(pair), max(pair)))
    rows = [row for message in context.order for row in facts.blocks_of(message)]
    chosen = draw(st.lists(st.sampled_from(rows), unique=True)) if rows else []
    inserts = [
        Insert(
            draw(st.sampled_from(["user", "assistant"])),
            draw(places),
            draw(st.sampled_from(["", "<", "note " * 9])),
            ">",
            draw(st.booleans()),
        )
        for _ in range(draw(st.integers(0, 3)))
    ]
    changes = {row: changed(draw, facts, row) for row in chosen}
    ranges = draw(st.lists(ends, max_size=3))
    return Plan(
        "random", Params(), context, Trigger(True, ""), changes, dropped_ranges=tuple(ranges), inserts=tuple(inserts)
    )


def check(session: Session, plan: Plan) -> None:
    """Totals, edits and verdicts agree with what carrying the plan out makes."""
    context, facts = plan.context, session.facts
    after = ct.apply(session, plan, "The summary.")
    if not plan.has_changes:
        assert after is session
        return
    total = sum(ct.tokens.estimate(message) or 0 for message in after.to_messages())
    notes, waiting = ([each for each in plan.inserts if each.holds_summary == kind] for kind in (False, True))
    waits = sum(utf8_len(each.format_text("The summary.")) // 4 for each in waiting)
    said = sum(utf8_len(each.format_text()) // 4 for each in notes)
    assert (ct.tokens.estimate(after) or 0) == total == plan.tokens_after + waits
    edits = plan.edits
    assert (
        plan.tokens_before - sum(edit.tokens_before - edit.tokens_after for edit in edits) == plan.tokens_after - said
    )

    verdicts: Mapping[tuple[int, int | None], str] = {(m, b): each.outcome for m, b, each in plan.iterate_verdicts()}
    kept = [message for message in context.order if verdicts[message, None] == "kept"]
    assert len(kept) == len(context) - plan.messages_dropped and len(after) == len(kept) + len(plan.inserts)
    assert {edit.message for edit in edits if edit.block is None} == set(context.order) - set(kept)
    by_edit = {(edit.message, edit.block): ACTION_PAST_TENSE[edit.action] for edit in edits if edit.block is not None}
    assert {place: verdict for place, verdict in verdicts.items() if place in by_edit and place[0] in kept} == {
        place: verdict for place, verdict in by_edit.items() if place[0] in kept
    }
    gone = sum(1 for (message, block), verdict in by_edit.items() if message in kept and verdict == "dropped")
    blocks = sum(1 for message in kept for _ in facts.blocks_of(message))
    assert blocks - gone + len(plan.inserts) == sum(len(message["content"]) for message in after.to_messages())
    if not plan.dropped_ranges and not plan.inserts:
        assert ContextIndex(plan.build_context_after()).total == plan.tokens_after
    assert all(
        plan.find_verdict(message) == plan.find_verdict_at(position) for position, message in enumerate(context.order)
    )


@fixtures
@given(recording=conversations(), data=st.data())
def test_any_plan_of_any_recording_adds_up(tmp_path: Path, recording: Recording, data: st.DataObject) -> None:
    session = recording.open(tmp_path)
    check(session, data.draw(plans(session, data.draw(st.none() | st.integers(0, len(session))))))


@fixtures
@given(messages=histories(), data=st.data())
def test_any_plan_of_any_history_adds_up(messages: list[dict[str, Any]], data: st.DataObject) -> None:
    session = ct.from_messages(messages)
    plan = data.draw(plans(session, None))
    check(session, plan)
    after = ct.apply(session, plan, "s")
    check(after, data.draw(plans(after, None)))


@pytest.mark.slow
@fixtures
@given(recording=conversations(), data=st.data())
def test_what_any_plan_leaves_can_be_written(tmp_path: Path, recording: Recording, data: st.DataObject) -> None:
    session = recording.open(tmp_path)
    plan = data.draw(plans(session, None))
    after = ct.apply(session, plan, "The summary.") if plan.has_changes else session
    for name in list_writable_formats():
        wrong = list(wrong_with(session, len(session), after, name, tmp_path / "out")) if len(after) else []
        assert not [each for each in wrong if "no messages to write" not in each]


@pytest.mark.parametrize("name", list_writable_formats())
@pytest.mark.parametrize(
    "gone", [(1, 4), (3,), *(pytest.param(rows, marks=pytest.mark.slow) for rows in ((1,), (3, 2), (3, 4)))], ids=str
)
def test_a_pair_that_is_split_among_messages_that_are_put_in(tmp_path: Path, name: str, gone: tuple[int, ...]) -> None:
    """Of two calls (rows 1 and 2) and their results (3 and 4) some go, with messages before, between and after."""
    made = Recording()
    made.user("go")
    made.assistant(call("a"), call("b"))
    made.results(result("a"), result("b"))
    made.user("and now?")
    session = made.open(tmp_path)
    assert [session.facts.kind[row] for row in (1, 2, 3, 4)] == [Kind.TOOL_USE] * 2 + [Kind.TOOL_RESULT] * 2
    changes = {row: build_removal("p") for row in gone}
    notes = [
        Insert(role, position, NOTE, holds_summary=False) for role in ("user", "assistant") for position in (1, 2, 3)
    ]
    for inserts in (*((note,) for note in notes), notes[:3], notes[3:], notes, notes[::-1]):
        plan = Plan("p", Params(), session.context_at(), Trigger(True, ""), changes, inserts=tuple(inserts))
        after = ct.apply(session, plan)
        assert not [*wrong_with(session, len(session), after, name, tmp_path / "out")]


def test_a_change_on_top_of_another_works_on_what_that_one_left() -> None:
    def upper(value: str) -> str:
        return value.upper()

    def twice(value: str) -> str:
        return value * 2

    made = {
        "render": Change("truncate", Body(None, 9), "p", upper),
        "text": Change("clear", Body.from_text("stub"), "p"),
        "gone": build_removal("p"),
    }
    older = dict(enumerate(made.values()))
    newer = dict.fromkeys([0, 1, 2, 3], Change("truncate", Body(None, 9), "q", twice))
    stacked = StackedChanges(newer, older)
    texts = [change.render("a") if change.render else change.body.text for change in stacked.values()]
    assert texts == ["AA", "stubstub", None, "aa"] and stacked[2].body.removed and list(stacked) == [0, 1, 2, 3]
    assert 4 not in stacked and stacked.get(4) is None and len(stacked) == 4
    assert StackedChanges({0: made["text"]}, older)[0].body.text == "stub"


class Strip(Tidy):
    """Every kind of change, some results and texts removed, and no message."""

    name: ClassVar[str] = "strip"

    def plan(self, context: Context, params: Any, state: RuntimeState) -> Plan:
        facts, changes = context.facts, every_change(context, self.name)
        rows = [row for message in context.order for row in facts.blocks_of(message)]
        results = [row for row in rows if facts.kind[row] == Kind.TOOL_RESULT]
        cut = Change("truncate", Body(None, 3), self.name, lambda value: str(type(value))[:3])
        changes |= dict.fromkeys(results[::3], build_removal(self.name)) | dict.fromkeys(results[1::3], cut)
        changes = {row: each for row, each in changes.items() if row not in results[2::3]}
        texts = [row for row in rows if facts.kind[row] == Kind.TEXT]
        changes |= dict.fromkeys(texts[::4], build_removal(self.name))
        return Plan(self.name, params, context, self.trigger(state, params), changes)


@fixtures
@given(messages=histories(), second=st.sampled_from(["defect-compact", "koda-microcompact", "agent-sdk-prune"]))
def test_what_runs_after_any_change_works_on_what_it_left(messages: list[dict[str, Any]], second: str) -> None:
    session = ct.from_messages(messages)
    given: dict[str, Any] = {
        "defect-compact": {"threshold": 0},
        "koda-microcompact": {"min_tokens": 0, "keep_recent": 0},
        "agent-sdk-prune": {"max_chars": 0},
    }[second]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(POLICIES, "_extensions", ({"strip": Strip()}, []))
        own = {f"{second}.{name}": value for name, value in given.items()}
        chain = ct.plan(session, "chain", policies=f"strip,{second}", idle_seconds=999, **own)
        first = ct.apply(session, ct.plan(session, "strip"))
    last = ct.plan(first, second, idle_seconds=999, **given)
    after = ct.apply(session, chain, "s")
    assert after.to_messages() == ct.apply(first, last, "s").to_messages()
    assert chain.tokens_after == last.tokens_after


def test_a_summarizer_gets_injected_content_but_nothing_is_quoted_from_it(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("Fix it.")
    recording.attachment("file", filename="/p/a.py", content="INSERTED = 1")
    for number in range(9):
        recording.assistant(text(f"answer {number} " * 400), use=usage(5_000 + number * 3_000))
        recording.user(f"question {number}")
    plan = ct.plan(recording.open(tmp_path), "defect-compact", force=True)
    assert "INSERTED" in str(plan.messages_to_summarise) and "INSERTED" not in str(plan.quotable_messages)
    assert "answer 0" in str(plan.messages_to_summarise) and "answer 0" in str(plan.quotable_messages)
