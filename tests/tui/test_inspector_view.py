"""The view: commands make new ones, and nothing of it knows Textual."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from context_tui.cli import main
from context_tui.compaction.apply import apply, apply_with_measure, iterate_result_entries
from context_tui.compaction.next_request import compute_next_request
from context_tui.compaction.plan import Plan, Trigger
from context_tui.formats.opening import open_session
from context_tui.policies.registry import POLICIES, list_policy_names
from context_tui.policies.trigger_points import find_firing_runs
from context_tui.session.problems import Problem
from context_tui.tokens.measures import build_calibrated_table
from context_tui.tui.analysis import find_first_effect
from context_tui.tui.command_line import format_plan_command
from context_tui.tui.inspector.notices import fit_notice, format_key_hint, format_next_step, format_notice
from context_tui.tui.inspector.scoreboard import build_score_rows
from context_tui.tui.jump_points import JumpPoint, find_jump_points, find_next_jump, find_peak
from context_tui.tui.threads import Cancelled
from context_tui.tui.timeline.filters import NO_FILTER, RowFilter
from context_tui.tui.timeline.marks import RowMarker
from context_tui.tui.timeline.rows import FIRST_LOCATION, Location
from context_tui.tui.view import AppliedPlan, View, describe_applied_plan
from context_tui.tui.widgets.dialogs import parse_window_tokens
from tests.formats.recordings import Recording, call, result
from tests.tui.inspecting import conversation, file_of, session

SAMPLES = Path(__file__).parents[2] / "sample_sessions"


def test_a_default_is_no_setting() -> None:
    view = View(session()).with_param("defect-microcompact", "keep_recent_turns", 5)
    assert view.get_settings("defect-microcompact") == {"keep_recent_turns": 5}
    assert view.with_param("defect-microcompact", "keep_recent_turns", 3).get_settings("defect-microcompact") == {}


def test_a_plan_is_made_once_for_the_same_settings() -> None:
    view = View(session())
    assert view.plan is view.with_policy("defect-compact").with_policy("defect-microcompact").plan
    assert view.plan is not view.with_param("defect-microcompact", "min_clear_tokens", 0).plan


def test_a_chain_runs_its_policies_as_they_are_set() -> None:
    view = View(session(), policy="chain").with_param("chain", "defect-microcompact.keep_recent_turns", 1)
    assert view.get_settings("defect-microcompact") == {"keep_recent_turns": 1}
    assert view.get_settings("chain")["options"] == {"defect-microcompact": {"keep_recent_turns": 1}}
    plan = view.plan
    assert plan is not None and len(plan.changes) > len(View(session(), policy="chain").plan.changes)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("policy", "name", "values"),
    [
        ("defect-microcompact", "keep_recent_turns", range(1, 20)),
        ("claude-code-auto", "keep_messages", range(0, 80, 4)),
        ("koda-microcompact", "keep_recent", range(0, 60, 3)),
        ("chain", "defect-microcompact.keep_recent_turns", range(1, 12)),
        ("chain", "defect-compact.threshold", range(1, 90_002, 30_000)),
    ],
)
@pytest.mark.parametrize("sample", ["coding-session.jsonl", "images-and-languages.jsonl"])
def test_a_curve_shows_the_sizes_that_the_plans_state(sample: str, policy: str, name: str, values: range) -> None:
    opened = open_session(SAMPLES / sample)
    table, view = build_calibrated_table(opened.facts), View(opened, policy=policy)
    sizes = view.compute_curve(name, values, table)
    for value, size in zip(values, sizes, strict=True):
        plan = view.with_param(policy, name, value).plan
        assert plan is not None
        stated = compute_next_request(plan, token_table=table).after
        assert size == stated.tokens, value


def test_a_curve_of_a_large_session_interpolates(monkeypatch: pytest.MonkeyPatch) -> None:
    view, values = View(open_session(SAMPLES / "coding-session.jsonl")), range(0, 9_000, 150)
    table = build_calibrated_table(view.session.facts)
    exact = view.compute_curve("min_clear_tokens", values, table)
    monkeypatch.setattr("context_tui.tui.view.MAX_MEASURED_MESSAGES", 0)
    sizes = view.compute_curve("min_clear_tokens", values, table)
    assert sizes != exact and (min(sizes), max(sizes)) == (min(exact), max(exact))
    assert all(abs(size - stated) < stated // 20 for size, stated in zip(sizes, exact, strict=True))


def test_a_curve_is_0_where_no_plan_is_possible() -> None:
    manual = View(session(compacted=True), policy="manual")
    plan = manual.toggle_cut(40).plan
    assert plan is not None
    size = compute_next_request(plan).tokens_after
    assert manual.compute_curve("cut", [0, 40], None) == [0, size]


def test_the_point_past_the_last_message_is_the_end() -> None:
    view = View(session())
    assert view.with_point(10).point == 10
    assert view.with_point(10_000).at is None


def test_undo_and_redo_go_through_whole_views() -> None:
    view = View(session())
    plan = view.plan
    assert plan is not None
    made = apply(view.session, plan)
    after = view.with_copy(made, *describe_applied_plan(plan, made, view.cursor, None))
    assert after.is_unexported and not replace(after, is_exported=True).is_unexported
    before = after.undo_plan()
    assert before is not None and before.session is view.session
    again = before.redo_plan()
    assert again is not None and again.session is after.session
    assert view.undo_plan() is None and view.redo_plan() is None


@pytest.mark.parametrize("calibrated", [True, False])
def test_a_copy_tells_what_was_applied_until_a_policy_is_chosen(calibrated: bool) -> None:
    view = View(session()).with_param("defect-microcompact", "keep_recent_turns", 1)
    plan = view.plan
    assert plan is not None and len(plan.changes) > 6
    table = build_calibrated_table(view.session.facts) if calibrated else None
    made = apply_with_measure(view.session, plan, None, table)
    told, cursor = describe_applied_plan(plan, made, Location(24), table)
    after = view.with_copy(made, told, cursor)
    assert after.plan is None and not after.plan_error and after.cursor == Location(24)
    request, count = compute_next_request(plan, token_table=table), len(plan.changes)
    assert (
        told.summary
        == f"next request ~{request.tokens_before:,} → ~{request.tokens_after:,} tokens, {count} blocks cleared"
    )
    marker = RowMarker(after.context, after.plan, told.marks)
    cleared = [row for row in plan.changes if marker.find_mark(made.facts.block_message[row], row).verdict == "cleared"]
    assert cleared == list(plan.changes), "nothing moved: rows are what they were"
    assert Counter(told.marks.values()) == {"cleared": len(plan.changes)}
    again = after.with_policy("defect-microcompact")
    assert again.applied is None and again.plan is not None
    assert after.with_param("defect-microcompact", "keep_recent_turns", 2).plan is not None
    undone = after.undo_plan()
    assert undone is not None and undone.plan is plan


@pytest.mark.parametrize("policy", list(POLICIES))
def test_the_cursor_stays_with_its_message_in_the_copy(policy: str) -> None:
    view = View(session(10)).with_param("defect-compact", "threshold", 9_000).with_param("manual", "cut", 40)
    view = view.with_param("koda-microcompact", "keep_recent", 1).with_policy(policy)
    plan = view.plan
    assert plan is not None
    made = apply(view.session, plan, "A summary.")
    for message in range(len(view.session)):
        before = view.session.content.blocks(message)
        for ordinal, row in enumerate([-1, *view.session.facts.blocks_of(message)]):
            _, there = describe_applied_plan(plan, made, Location(message, row), None)
            assert 0 <= there.message < len(made)
            if any(message == place for place in iterate_result_entries(plan)):
                blocks = made.content.blocks(there.message)
                assert [block["type"] for block in blocks] == [block["type"] for block in before]
                assert there.block == (-1 if row < 0 else list(made.facts.blocks_of(there.message))[ordinal - 1])
            elif plan.needs_summary:
                assert "A summary." in made.content.blocks(there.message)[0]["text"]


def test_marks_toggle_and_choose_the_manual_policy() -> None:
    view = View(session())
    row = next(iter(view.session.facts.blocks_of(2)))
    marked = view.toggle_mark(Location(2, row))
    assert marked.policy == "manual" and marked.get_settings("manual") == {"clear": ((2, 0),)}
    assert marked.plan is not None and list(marked.plan.changes) == [row]
    assert marked.toggle_mark(Location(2, row)).get_settings("manual") == {}
    cut = marked.toggle_cut(8)
    assert cut.plan is not None and cut.plan.boundary == 8
    assert cut.toggle_cut(8).get_settings("manual") == {"clear": ((2, 0),)}


def test_the_command_line_says_what_is_on_screen() -> None:
    view = View(session()).with_window(64_000).with_param("defect-microcompact", "keep_recent_turns", 1).with_point(20)
    words = "context-tui plan /tmp/refactor-auth.jsonl -P defect-microcompact -p keep_recent_turns=1 --at 20"
    assert format_plan_command(view) == f"{words} --window 64000"
    manual = View(session()).with_param("manual", "clear", ((2, 0), (4, 1)))
    assert "-p clear=2:0,4:1" in format_plan_command(manual.with_policy("manual"))


SETTINGS: dict[str, dict[str, Any]] = {
    "defect-microcompact": {"keep_recent_turns": 1, "min_clear_tokens": 400, "microcompact_ratio": 0.07},
    "defect-compact": {"threshold": 9_000, "assistant_boundary": True},
    "koda-microcompact": {"keep_recent": 1, "compactable_tools": ("Read, all", "Bash ")},
    "agent-sdk-prune": {"max_chars": 900, "preserve_tail": 1},
    "agent-sdk-compact": {"min_keep": 7},
    "manual": {"clear": ((2, 0), (4, 1)), "cut": 8},
    "chain": {"policies": ("agent-sdk-prune", "koda-microcompact", "agent-sdk-compact")},
}


@pytest.mark.parametrize("at", [None, 24])
@pytest.mark.parametrize("policy", list_policy_names())
def test_the_command_line_gives_what_is_on_screen(
    policy: str, at: int | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {"Read": "Read, all", "Bash": "Bash "}
    path = tmp_path / "a #1 'b' $HOME.jsonl"
    text = json.dumps(conversation())
    for old, new in names.items():
        text = text.replace(f'"name": "{old}"', f'"name": "{new}"')
    made = open_session(f"{file_of(path, json.loads(text)).path}")
    plain = View(made, policy=policy).with_point(at)
    view = View(made, policy=policy, params=SETTINGS).with_point(at).with_window(64_000)
    assert view.plan and plain.plan and view.plan.has_changes and view.plan.tokens_after != plain.plan.tokens_after
    for each in (plain, view):
        report = planned_by(format_plan_command(each), capsys)
        assert each.plan is not None and each.plan.tokens_after == report["tokens"]["after"]
        assert len(each.plan.edits) == len(report["edits"]) and each.point == report["at"]
        assert replace(each.plan.trigger, by_hand=False) == Trigger(**report["trigger"])


def test_a_chain_on_screen_is_what_runs_here_and_its_command_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    view = View(open_session(SAMPLES / "coding-session.jsonl"), policy="chain")
    plan, micro = view.plan, view.try_plan("defect-microcompact")
    assert plan and isinstance(micro, Plan) and [step.policy for step in plan.steps] == ["defect-microcompact"]
    assert plan.edits == micro.edits and not plan.needs_summary
    rows = {row.policy: row for row in build_score_rows(list_policy_names(), view.try_plan)}
    assert rows["chain"].request == rows["defect-microcompact"].request
    assert rows["chain"].effect == "only defect-microcompact: clears 23 of 105 results"
    assert format_plan_command(view).endswith("-P chain --firing-only")
    report = planned_by(format_plan_command(view), capsys)
    assert report["tokens"]["after"] == plan.tokens_after and Trigger(**report["trigger"]) == plan.trigger
    early = view.with_point(20)
    assert early.plan and len(early.plan.steps) == 2 and "--firing-only" not in format_plan_command(early)
    (row,) = [row for row in build_score_rows(list_policy_names(), early.try_plan) if row.policy == "chain"]
    assert row.runs is False and row.limit == "at 39.3k"


def planned_by(command: str, capsys: pytest.CaptureFixture[str]) -> Any:
    """What a copied command reports."""
    assert main([*shlex.split(command)[1:], "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_command_line_names_one_of_several_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = Recording()
    recording.user("go")
    recording.assistant(call("t1"))
    recording.user("aside", isSidechain=True, agentId="abc")
    recording.assistant(call("t2"), isSidechain=True, agentId="abc")
    recording.results(result("t2", "x" * 4_000), isSidechain=True, agentId="abc")
    recording.write(tmp_path).rename(tmp_path / "-p #2.jsonl")
    monkeypatch.chdir(tmp_path)
    view = View(open_session("./-p #2.jsonl#abc"), policy="agent-sdk-prune").with_param(
        "agent-sdk-prune", "preserve_tail", 0
    )
    report = planned_by(format_plan_command(view), capsys)
    assert view.plan is not None and view.plan.has_changes and report["tokens"]["after"] == view.plan.tokens_after


def test_settings_that_allow_no_plan_say_why() -> None:
    view = View(session()).with_param("manual", "cut", 99_999).with_policy("manual")
    assert view.plan is None and "99,999" in view.plan_error
    assert format_notice(view, []) == view.plan_error
    other = view.with_policy("chain")
    assert other.plan_error == "" and str(other.try_plan("manual")) == view.plan_error
    (row,) = [row for row in build_score_rows(list_policy_names(), other.try_plan) if row.plan_error]
    assert (row.policy, row.plan_error) == ("manual", view.plan_error)


def test_a_filter_condition_set_again_is_taken_away() -> None:
    only = NO_FILTER.toggle_condition("tool", "Read").toggle_condition("min_tokens", 500)
    assert only == RowFilter(tool="Read", min_tokens=500) and only.describe() == "Read, 500 tokens or more"
    assert only.toggle_condition("tool", "Read") == RowFilter(min_tokens=500)
    assert not NO_FILTER and only


def test_jumps_go_through_peak_fires_and_compactions_and_around() -> None:
    made = session(compacted=True)
    peak = find_peak(made)
    assert peak is not None and peak[0] == len(made) - 1
    points = find_jump_points(made, "defect-microcompact", [9])
    assert [point.at for point in points] == [9, 24, 47]
    assert find_next_jump(points, 9, 1) == points[1] and find_next_jump(points, 48, 1) == points[0]
    assert find_next_jump(points, 9, -1) == points[-1] and find_next_jump([JumpPoint(9, "")], 9, 1) is None


def test_where_it_first_changes_something_is_a_point_too() -> None:
    made = session(usage=False).with_window(4_000)
    view = View(made, params={"defect-microcompact": {"min_clear_tokens": 500}})
    policy = POLICIES[view.policy]
    fired = [state for run in find_firing_runs(made, policy, view.policy_params) for state in run]
    acts = find_first_effect(view, fired, lambda: None)
    first = next(
        each.at for each in fired if policy.plan(made.context_at(each.at), view.policy_params, each).has_changes
    )
    assert acts == first and fired[0].at < first

    def stop() -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        find_first_effect(view, fired, stop)
    points = {point.at: point.reason for point in find_jump_points(made, view.policy, [fired[0].at], acts)}
    assert points[fired[0].at] == "defect-microcompact first fires here, but changes nothing yet"
    assert points[first] == "defect-microcompact acts here"


@pytest.mark.parametrize(("text", "tokens"), [("200k", 200_000), ("1m", 1_000_000), ("8,192", 8_192), ("", None)])
def test_windows_are_written_as_people_write_them(text: str, tokens: int | None) -> None:
    assert parse_window_tokens(text) == tokens


def test_odd_states_have_words() -> None:
    empty = View(session(0))
    assert format_notice(empty, []) == "No messages in this session"
    one = View(session(1))
    assert "A single turn" in format_notice(one, [])
    assert RowFilter(tool="Nope").format_no_match("manual") == "No rows match: Nope; f changes it, esc shows all"
    bare = View(session(4, 0), policy="koda-microcompact")
    assert format_notice(bare, []).startswith("koda-microcompact: nothing to clear: 0 eligible results")
    summarising = bare.with_policy("codex")
    assert summarising.plan and summarising.plan.has_changes and format_notice(summarising, []) == ""
    assert "Planned before #10" in format_notice(View(session(), at=10), [])


def test_what_could_not_be_read_is_told_before_the_rest() -> None:
    samples = Path(__file__).parents[2] / "sample_sessions"
    broken = View(open_session(samples / "broken-on-purpose.jsonl"))
    assert format_notice(broken, []) == "5 of 20 records could not be read   p lists them"
    made = session()
    made.facts.problems.append(Problem("the file", "ends too soon"))
    assert format_notice(View(made), []) == "1 problem: not all of the file could be read   p lists it"


@pytest.mark.parametrize(
    ("room", "expected"),
    [
        (71, "Planned before #93: peak of 27,810 tokens   . or esc returns to the end"),
        (70, "Planned before #93   . or esc returns to the end"),
        (47, "Planned before #…   . or esc returns to the end"),
    ],
)
def test_a_notice_loses_its_reason_before_its_keys(room: int, expected: str) -> None:
    text = "Planned before #93: peak of 27,810 tokens   . or esc returns to the end"
    assert fit_notice(text, room) == expected and len(expected) <= room
    assert fit_notice("No results: there is nothing to clear", 12) == "No results"
    assert fit_notice("", 0) == ""


def test_one_next_step_is_named_for_each_state() -> None:
    made = session()
    idle = View(made)
    firing = idle.with_param("defect-microcompact", "microcompact_ratio", 0.01)
    assert idle.plan and firing.plan and firing.plan.trigger.fires and firing.plan.has_changes
    assert not idle.plan.trigger.fires and idle.plan.has_changes
    assert format_next_step(firing, None) == "Next: a clears what is old, in a copy"
    compacting = firing.with_policy("defect-compact").with_param("defect-compact", "threshold", 1)
    assert format_next_step(compacting, 0) == "Next: a summarises, in a copy"
    assert format_next_step(idle, None) == "", "where it first fires is not known yet"
    assert format_next_step(idle, 12) == "Next: ! goes to #12, where it would have fired"
    assert format_next_step(idle, 12, 78) == "Next: ! goes to #12, where it fires"
    assert format_next_step(idle, -1) == "Next: b shows what fills it, a clears what is old now, in a copy"
    assert format_next_step(idle, -1, 78) == "Next: b shows what fills it"
    unchanged = firing.with_param("defect-microcompact", "min_clear_tokens", 100_000)
    assert unchanged.plan and not unchanged.plan.has_changes
    assert format_next_step(unchanged, -1) == "Next: P chooses another policy"
    never = idle.with_param("defect-microcompact", "min_clear_tokens", 100_000)
    assert format_next_step(never, -1) == "Next: b shows what fills it"


def test_every_hint_and_notice_fits_where_there_is_least_room() -> None:
    for demo in (True, False):
        assert all(len(format_key_hint(demo=demo, width=width)) <= width for width in (58, 64, 78, 90, 118))
    made = session()
    start, at = View(made), View(made).with_point(24)
    assert start.plan is not None
    after = apply(made, start.plan)
    copy = start.with_copy(
        after, AppliedPlan("defect-microcompact", "next request ~58,592 → ~35,094 tokens", {}), FIRST_LOCATION
    )
    for view in (
        start,
        at,
        at.with_point(0),
        copy,
        View(session(1)),
        View(session(), filter=RowFilter(tool="Nope" * 20)),
    ):
        for progress in (0.36, 1.0):
            assert len(format_notice(view, [JumpPoint(24, "why " * 20)], width=58, progress=progress)) <= 58
    assert format_notice(copy, [], width=58) == "Applied defect-microcompact   u undoes it   e exports it"
    assert "35,094 tokens" in format_notice(copy, [], width=58, lines=2)
