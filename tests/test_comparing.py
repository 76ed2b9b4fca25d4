"""Summarizers on the same head: how one is named, what each is asked, and what is left after several rounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from context_tui.compaction.apply import apply
from context_tui.compaction.plan import Plan
from context_tui.errors import PlanError, SummarizerError
from context_tui.policies.builtin.agent_sdk import SUMMARY_SECTIONS as SDK_SECTIONS
from context_tui.policies.planning import plan
from context_tui.session.blocks import bytes_to_tokens
from context_tui.session.memory import from_messages
from context_tui.session.session import Session
from context_tui.summarizer import plan_summary
from context_tui.summarizer.comparison import (
    Contender,
    SummaryCost,
    compare_summarizers,
    compute_cost,
    continue_after_compaction,
    extract_head_facts,
    find_compaction_points,
    parse_contender,
)
from context_tui.summarizer.plan_summary import prepare_summary
from context_tui.summarizer.reply import ReplyUsage, Summary
from tests.formats.recordings import Recording, call, result, text


def history(turns: int = 12) -> list[dict[str, Any]]:
    """Turns that each have a rule, a file and a failure of their own; each is about 600 tokens."""
    found: list[dict[str, Any]] = []
    for turn in range(turns):
        call = {"type": "tool_use", "id": f"c{turn}", "name": "Read", "input": {"file_path": f"src/part{turn}.py"}}
        body = f"fatal: part{turn} cannot load gadget{turn}" + "\nfiller words" * 180
        result = {"type": "tool_result", "tool_use_id": f"c{turn}", "content": body, "is_error": True}
        found += [
            {"role": "user", "content": f"Never remove gadget{turn} of machine{turn}. See src/part{turn}.py"},
            {"role": "assistant", "content": [{"type": "text", "text": "Looking."}, call]},
            {"role": "user", "content": [result]},
            {"role": "assistant", "content": [{"type": "text", "text": f"It takes {turn + 2} seconds."}]},
        ]
    return found


def planner(policy: str = "defect-compact", **params: Any) -> Any:
    """The policy's plan, with a tail of 2,000 tokens where it has one."""
    if policy == "defect-compact":
        params.setdefault("threshold", 8_000)
    return lambda session, at: plan(session, policy, at=at, force=True, **params)


EXTRACTS = (parse_contender("extract"), parse_contender("extract,bytes=900"))


@pytest.mark.parametrize(
    ("spec", "read"),
    [
        ("extract", Contender("", "extract")),
        ("extract,bytes=900", Contender("", "extract", extract_bytes=900)),
        ("anthropic", Contender("", "anthropic")),
        ("openai:qwen2.5:7b", Contender("", "openai", "qwen2.5:7b")),
        ("openai:m@20250514", Contender("", "openai", "m@20250514")),
        ("openai:m@1@http://127.0.0.1:8080/v1", Contender("", "openai", "m@1", "http://127.0.0.1:8080/v1")),
        ("openai@http://h/v1,timeout=2.5", Contender("", "openai", "", "http://h/v1", timeout=2.5)),
        (
            "anthropic:m@https://h/a,b,prompt=a=b.txt,max_tokens=99",
            Contender("", "anthropic", "m", "https://h/a,b", "a=b.txt", 99),
        ),
    ],
)
def test_a_summarizer_is_named_in_one_text(spec: str, read: Contender) -> None:
    assert parse_contender(spec) == read._replace(spec=spec)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("", "unknown summarizer ''"),
        ("gpt:4", "unknown summarizer 'gpt'; available: extract, anthropic, openai"),
        ("extract:m", "uses no model"),
        ("extract@http://h", "uses no model"),
        ("openai:", "no model after the colon"),
        ("openai:m,temperature=1", "unknown setting 'temperature'; available: prompt, max_tokens, timeout"),
        ("extract,prompt=f", "unknown setting 'prompt'; available: bytes"),
        ("openai,prompt=", "prompt is empty"),
        ("openai,max_tokens=0", "max_tokens=0 is not a positive number"),
        ("openai,max_tokens=1.5", "max_tokens=1.5 is not"),
        ("openai,timeout=inf", "timeout=inf is not"),
        ("openai,timeout=soon", "timeout=soon is not"),
    ],
)
def test_a_bad_name_says_why(spec: str, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        parse_contender(spec)


def test_all_get_the_same_head_and_its_facts_are_looked_for_in_each() -> None:
    session, told = from_messages(history()), list[str]()
    found = compare_summarizers(session, planner(), EXTRACTS, notify=told.append)
    assert told == []  # an extract sends nothing
    head = found.plan.summarised_message_numbers
    assert found.points == (48,) and head == list(range(found.plan.boundary or 0))
    assert found.head_tokens == found.plan.tokens_before - found.plan.tokens_after
    large, small = (run.rounds[0] for run in found.runs)
    assert [run.name for run in found.runs] == ["A", "B"]
    assert large.head_messages == small.head_messages == len(head)
    assert large.preserved_count > small.preserved_count > 0
    texts = {fact.text for fact in found.facts}
    assert {"Never remove gadget0 of machine0.", "src/part0.py", "2 seconds"} <= texts
    assert "fatal: part0 cannot load gadget0" in texts
    assert not any("gadget11" in text for text in texts)  # in the tail
    for fact, kept in zip(found.facts, large.survivals, strict=True):
        assert fact.message in head
        assert kept.preserved == (kept.evidence in " ".join((large.summary.text if large.summary else "").split()))
    assert (large.cost, large.error, large.request_tokens) == (SummaryCost(0.0), "", 0)


def test_what_a_policy_cuts_before_it_asks_is_told() -> None:
    messages = history()
    messages[2]["content"][0]["content"] = "filler words\n" * 300 + "fatal: last words of the log"
    found = compare_summarizers(from_messages(messages), planner(), EXTRACTS)
    shown = {fact.text: shown for fact, shown in zip(found.facts, found.facts_in_request, strict=True)}
    assert shown["fatal: last words of the log"] is False
    assert shown["src/part0.py"] is True


def test_what_a_runtime_put_in_is_no_fact() -> None:
    from context_tui.session.values import BlockFlag

    session = from_messages(history())
    session.facts.block_flags[0] |= BlockFlag.INJECTED
    texts = [fact.text for fact in extract_head_facts(planner()(session, 48))]
    assert "Never remove gadget0 of machine0." not in texts
    assert "Never remove gadget1 of machine1." in texts
    places = {fact.text: (fact.message, fact.block) for fact in extract_head_facts(planner()(session, 48))}
    assert places["src/part1.py"] == (4, 0) and places["fatal: part1 cannot load gadget1"] == (6, 0)


@pytest.mark.parametrize("policy", ["defect-compact", "agent-sdk-compact"])
def test_a_prompt_of_ones_own_takes_the_place_of_the_policys(policy: str) -> None:
    made = planner(policy)(from_messages(history()), 48)
    usual = prepare_summary(made).request
    other = Contender("", "openai", prompt="p.txt", max_tokens=77).customize_plan(made, "Be brief.")
    request = prepare_summary(other).request
    assert (request.system, request.sections, request.max_tokens) == ("Be brief.", (), 77)
    assert usual.system != request.system and usual.max_tokens != 77 and usual.sections
    if policy == "defect-compact":
        assert request.messages[:-1] == usual.messages[:-1]
        assert request.messages[-1]["content"][0]["text"] == "Write the summary of the conversation above."
    else:
        assert usual.sections == SDK_SECTIONS
        assert request.messages == usual.messages
    assert Contender("", "openai").customize_plan(made, "") is made


def test_an_earlier_summary_goes_along_with_ones_own_prompt() -> None:
    session = from_messages(history())
    again = planner()(apply(session, planner()(session, 24), "THE OLD ONE"), 10)
    asked = prepare_summary(Contender("", "openai", prompt="p").customize_plan(again, "Be brief.")).request.messages[-1]
    assert "THE OLD ONE\n</previous-summary>" in asked["content"][0]["text"]


def test_there_is_no_fallback_among_those_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    session = from_messages(history())
    session.facts.model = "own"
    made = planner("agent-sdk-compact")(session, 48)
    summarizer = parse_contender("openai:m,timeout=5").build_summarizer(made)
    assert [each.model for each in summarizer.endpoints] == ["m"]
    assert (summarizer.endpoints[0].total_timeout, summarizer.endpoints[0].read_timeout) == (5.0, 5.0)


def test_nothing_is_sent_when_one_of_them_cannot_be_used() -> None:
    told = list[str]()
    with pytest.raises(SummarizerError, match="no key"):
        compare_summarizers(
            from_messages(history()),
            planner(),
            [parse_contender("openai:m@http://127.0.0.1:9/v1"), parse_contender("anthropic")],
            notify=told.append,
        )
    assert told == []


@pytest.mark.parametrize("rounds", [1, 2, 4])
def test_points_are_apart_by_the_same_tokens_and_before_the_assistant(rounds: int) -> None:
    session = from_messages(history())
    points = find_compaction_points(session, 48, rounds)
    assert len(points) == rounds and points[-1] == 48
    sizes = [sum(bytes_to_tokens(len(str(session.message(m)))) for m in range(point)) for point in points]
    for place, (point, size) in enumerate(zip(points[:-1], sizes, strict=False)):
        assert session.message(point)["role"] == "assistant"
        assert size / sizes[-1] == pytest.approx((place + 1) / rounds, abs=0.1)


def test_there_are_no_more_points_than_messages_of_the_assistant() -> None:
    session = from_messages(history(2))
    assert find_compaction_points(session, 8, 50) == (3, 5, 7, 8)
    for rounds in (0, 51):
        with pytest.raises(PlanError, match="must be 1 to 50"):
            find_compaction_points(session, 8, rounds)


@pytest.mark.parametrize("policy", ["defect-compact", "agent-sdk-compact"])
def test_a_compaction_is_carried_on_with_what_was_recorded_behind_it(policy: str) -> None:
    session = from_messages(history())
    made: Plan = planner(policy)(session, 25)
    later, points = continue_after_compaction(session, made, "SUMMARY", [33, 48])
    there = apply(session, made, "SUMMARY")
    assert later.to_messages()[: len(there)] == there.to_messages()
    assert later.to_messages()[len(there) :] == [session.message(number) for number in range(25, 48)]
    assert points == [33 - (48 - len(later)), len(later)]
    assert later.message(points[0]) == session.message(33)


def test_each_round_summarises_the_summary_before_it() -> None:
    session = from_messages(history(16))
    found = compare_summarizers(session, planner(), EXTRACTS, rounds=4)
    assert len(found.points) == 4 and found.plan.context.at == found.points[0]
    for run in found.runs:
        assert [each.at for each in run.rounds] == list(found.points)
        assert all(each.summary and not each.error for each in run.rounds)
        kept = [each.preserved_count for each in run.rounds]
        assert kept[0] > 0 and kept == sorted(kept, reverse=True), kept  # nothing of the first head comes again
        assert "Earlier summary" in (run.rounds[1].summary or run.rounds[0].summary).text  # type: ignore[union-attr]
    assert found.runs[1].rounds[-1].preserved_count < found.runs[1].rounds[0].preserved_count
    assert not any(any(each) for each in found.facts_in_tail)


def test_what_is_said_again_later_is_told() -> None:
    messages = history()
    messages[40]["content"] = "Never remove gadget0 of machine0. And mind src/part1.py"
    found = compare_summarizers(from_messages(messages), planner(), EXTRACTS, rounds=2)
    again = {fact.text for fact, too in zip(found.facts, found.facts_in_tail[-1], strict=True) if too}
    assert again == {"Never remove gadget0 of machine0.", "src/part1.py"}
    assert not any(found.facts_in_tail[0])


def test_points_with_nothing_to_summarise_are_passed_over_or_skipped() -> None:
    early = compare_summarizers(from_messages(history()), planner(), EXTRACTS, rounds=24)
    assert early.points[0] > find_compaction_points(from_messages(history()), 48, 24)[0] and early.plan.has_changes
    single = from_messages(history(1))
    nothing = compare_summarizers(single, planner(), EXTRACTS)
    assert (nothing.facts, nothing.runs) == ([], []) and "nothing to summarise" in nothing.plan.reason
    with pytest.raises(PlanError, match="nothing to summarise here"):
        compare_summarizers(from_messages(history()), planner("defect-microcompact", keep_recent_turns=1), EXTRACTS)


def test_interrupted_it_keeps_what_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[str]()
    real = plan_summary.write_summary_blocking

    def second_is_interrupted(*args: Any) -> Any:
        asked.append("")
        if len(asked) == 2:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr("context_tui.summarizer.comparison.write_summary_blocking", second_is_interrupted)
    found = compare_summarizers(from_messages(history()), planner(), EXTRACTS)
    assert found.interrupted
    assert [len(run.rounds) for run in found.runs] == [1, 0]


@pytest.mark.parametrize(
    ("model", "usage", "usd"),
    [
        ("claude-haiku-4-5-20251001", ReplyUsage(1_000_000, None, None, 0), 1.0),
        ("claude-haiku-4-5", ReplyUsage(0, 1_000_000, 1_000_000, 1_000_000), 0.1 + 1.25 + 5.0),
        ("claude-haiku-4-5", ReplyUsage(100, None, None, None), None),
        ("claude-haiku-4-5", ReplyUsage(None, None, None, 10), None),
        ("any", ReplyUsage(100, None, None, 10), None),
    ],
)
def test_a_summary_costs_what_its_tokens_cost_where_that_is_known(
    model: str, usage: ReplyUsage, usd: float | None
) -> None:
    cost = compute_cost(Summary("text", model, usage, "", 1.0))
    assert (cost is None) == (usd is None)
    assert cost is None or (cost.usd == pytest.approx(usd) and cost.date and cost.source)
    assert compute_cost(Summary("text", "", ReplyUsage(), "", 0.0)) == SummaryCost(0.0)


def test_a_session_is_left_as_it_was() -> None:
    session: Session = from_messages(history())
    before = session.to_messages()
    compare_summarizers(session, planner(), EXTRACTS, rounds=3)
    assert session.to_messages() == before and len(session) == 48


def recorded(recording: Recording, turns: range) -> list[str]:
    """Turns of about 600 tokens, in a recording of Claude Code; the ids of their calls."""
    for turn in turns:
        recording.user(f"Never remove gadget{turn} of machine{turn}. See src/part{turn}.py")
        recording.assistant(call(f"c{turn}", "Read", file_path=f"src/part{turn}.py"))
        recording.results(result(f"c{turn}", f"fatal: part{turn} cannot load" + "\nfiller words" * 180, is_error=True))
        recording.assistant(text(f"It takes {turn + 2} seconds."))
    return [f"c{turn}" for turn in turns]


def test_rounds_stay_within_the_context_that_a_recorded_compaction_began(tmp_path: Path) -> None:
    recording = Recording()
    recorded(recording, range(6))
    recording.boundary()
    recording.summary("This session is being continued from a previous conversation. It was about src/early.py")
    recorded(recording, range(6, 18))
    session = recording.open(tmp_path)
    found = compare_summarizers(session, planner(), EXTRACTS, rounds=3)
    begins = session.context_at().order[0]
    assert min(found.points) > begins == 24 and found.plan.summarised_message_numbers[0] == begins
    assert [len(run.rounds) for run in found.runs] == [3, 3]
    assert all(each.summary for run in found.runs for each in run.rounds)
    (early,) = (fact for fact in found.facts if fact.text == "src/early.py")
    assert (early.message, early.source) == (begins, "summary")
    assert not any("gadget0" in fact.text for fact in found.facts)


def test_results_that_the_recording_cleared_are_no_facts_later(tmp_path: Path) -> None:
    recording = Recording()
    calls = recorded(recording, range(10))
    recording.microcompact(*calls[:4])
    recorded(recording, range(10, 16))
    session = recording.open(tmp_path)
    errors = {fact.message for fact in compare_summarizers(session, planner(), EXTRACTS).facts if fact.kind == "error"}
    assert not errors & {2, 6, 10, 14} and 18 in errors
    found = compare_summarizers(session, planner(), EXTRACTS, rounds=4)  # the first point is before the clearing
    assert 2 in {fact.message for fact in found.facts if fact.kind == "error"}
    assert all(each.summary for run in found.runs for each in run.rounds)


def test_no_point_is_among_messages_that_a_compaction_preserved(tmp_path: Path) -> None:
    recording = Recording()
    recorded(recording, range(2))
    tail = [recording.assistant(text("words " * 4_000)) for _ in range(2)]
    recording.boundary(5_400, preservedMessages={"anchorUuid": "u9", "uuids": tail, "allUuids": tail})
    recording.summary()
    parent = recording.user("<local-command-caveat>c</local-command-caveat>", parent=tail[-1], isMeta=True)
    recording.user("two", parent=parent)
    recorded(recording, range(2, 10))
    session = recording.open(tmp_path)
    context = session.context_at()
    assert context.order[1] < context.epoch_start  # preserved, and most of what there is
    points = find_compaction_points(session, len(session), 4)
    assert len(points) > 1 and min(points) >= context.epoch_start
    found = compare_summarizers(session, planner(), EXTRACTS, rounds=4)
    assert all(each.summary for run in found.runs for each in run.rounds)
