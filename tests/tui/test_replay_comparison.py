"""Policies side by side: what is computed next, what is shown meanwhile, the cursor, the words, and the way back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import context_tui as ct
from context_tui.errors import PlanError
from context_tui.lab.replay.recording import Recording
from context_tui.lab.replay.walk import replay
from context_tui.lab.study import Lab, StudySettings
from context_tui.policies.registry import POLICIES
from context_tui.session.facts import Drop
from context_tui.session.session import Session
from context_tui.tui.command_line import format_replay_command
from context_tui.tui.comparison import (
    MAX_POLICIES,
    LaneResult,
    PolicyComparison,
    ReplayTask,
    format_limits,
    run_replay,
)
from context_tui.tui.replay import formatting
from context_tui.tui.replay.charts import draw_charts
from context_tui.tui.replay.sawtooth import TRACE
from context_tui.tui.replay.texts import build_firing_parts
from context_tui.tui.timeline.context_events import ContextEvent
from context_tui.tui.view import View
from tests.formats import recordings
from tests.formats.recordings import usage
from tests.tui.inspecting import conversation
from tests.tui.tuning import sample

WINDOW = 60_000


def recorded(**asked: Any) -> Session:
    """A session in whose window two policies fire, with a compaction half way."""
    return sample(**asked).with_window(WINDOW)


def computed(wanted: ReplayTask, recording: Recording) -> LaneResult | str:
    """What the thread computes."""
    try:
        return run_replay(recording, wanted)
    except PlanError as error:
        return str(error)


def finish(comparison: PolicyComparison) -> list[str]:
    """Compute all that is wanted; returns the policies in the order of that."""
    if comparison.recording is None:
        comparison.recording = Recording(comparison.session)
    done = list[str]()
    assert comparison.recording is not None
    while (wanted := comparison.choose_replay_task()) is not None:
        done.append(wanted.key.policy)
        comparison.update(wanted, computed(wanted, comparison.recording))
    return done


def studied(result: LaneResult, lab: Lab, settings: StudySettings) -> LaneResult:
    return replace(result, study=lab.study_replay(result.replay, settings))


def compared(*policies: str, session: Session | None = None, **params: Any) -> PolicyComparison:
    """A comparison of these, computed; *params* are those of the first."""
    first, *others = policies or ("defect-microcompact",)
    made = PolicyComparison(View(session or recorded(), policy=first, params={first: params}))
    for name in others:
        made.add_policy(name)
    made.select_lane(0)
    finish(made)
    return made


def text(lines: Sequence[Sequence[tuple[str, str]]]) -> list[str]:
    return ["".join(part for part, _ in line).rstrip() for line in lines]


# What is computed


def test_the_selected_policy_is_computed_first_and_each_once() -> None:
    made = PolicyComparison(View(recorded(), policy="defect-microcompact"))
    made.add_policy("defect-compact")
    made.add_policy("defect-compact")
    made.select_lane(1)
    assert finish(made) == ["defect-compact", "defect-microcompact"], "two with the same settings share one replay"
    assert made.lanes[1].result is made.lanes[2].result
    assert finish(made) == []


def test_the_same_numbers_as_by_the_python_api() -> None:
    made = compared("defect-microcompact", "defect-compact", keep_recent_turns=2)
    made.toggle_recorded_compactions()
    finish(made)
    session = recorded()
    for lane, params in zip(made.lanes, ({"keep_recent_turns": 2}, {}), strict=True):
        again = replay(session, lane.policy, recorded="ignore", **params)
        assert lane.result is not None
        assert list(lane.result.replay.sizes) == list(again.sizes)
        assert lane.result.totals == again.totals
        assert [firing.message for firing in lane.result.replay.firings] == [firing.message for firing in again.firings]


def test_what_was_computed_for_the_last_value_is_shown_until_the_next_is_there() -> None:
    made = compared()
    made.set_param("defect-microcompact", "microcompact_ratio", 0.5)
    late = made.choose_replay_task()
    before = made.replay
    made.set_param("defect-microcompact", "microcompact_ratio", 0.4)
    assert late is not None and made.replay is before
    assert made.recording is not None
    assert made.update(late, computed(late, made.recording)), "it moves while the value is dragged"
    assert made.replay is not before and made.choose_replay_task() is not None
    finish(made)
    assert made.replay is not None and made.replay.params.microcompact_ratio == 0.4


@pytest.mark.parametrize("change", ["policy", "recorded", "removed"])
def test_what_is_of_something_else_is_not_shown(change: str) -> None:
    made = compared("defect-microcompact", "defect-compact")
    made.set_param("defect-microcompact", "microcompact_ratio", 0.5)
    late = made.choose_replay_task()
    assert late is not None and made.recording is not None
    if change == "policy":
        made.choose_policy("koda-microcompact")
    elif change == "recorded":
        made.toggle_recorded_compactions()
    else:
        made.remove_selected()
    assert not made.update(late, computed(late, made.recording))


def test_a_policy_that_cannot_be_replayed_says_why() -> None:
    made = compared("manual")
    assert made.replay is None and "by hand" in made.selected_lane.error
    why, remedy = formatting.explain_missing_chart(made)
    assert "by hand" in why and "digit" in remedy
    assert any("by hand" in line for line in text(formatting.format_policy_table(made, 80, 4)))
    made.choose_policy("chain")
    made.set_param("chain", "policies", ("nonesuch",))
    finish(made)
    assert "nonesuch" in made.selected_lane.error


def test_without_a_call_there_is_nothing_to_replay() -> None:
    made = compared(session=ct.from_messages([{"role": "user", "content": "Hello"}]))
    assert "nothing to replay" in formatting.explain_missing_chart(made)[0]
    assert made.inspector_point is None
    assert draw_charts(made, 0, 80, 20).lines == []
    made.move_to_firing(1)
    made.move_cursor(5)
    assert made.call == 0


# The cursor


def test_the_cursor_goes_from_firing_to_firing_around_the_ends() -> None:
    made = compared(microcompact_ratio=0.3, keep_recent_turns=1)
    found = made.firing_calls
    assert len(found) >= 3
    made.move_to_call(0)
    seen = [made.move_to_firing(1) and made.call for _ in range(len(found) + 1)]
    assert seen == [*found, found[0]]
    assert made.move_to_firing(-1) and made.call == found[-1]
    made.move_to_call(10**9)
    assert made.call == made.call_count - 1
    made.move_cursor(-(10**9))
    assert made.call == 0
    never = compared("agent-sdk-prune")
    assert not never.move_to_firing(1) and never.call == 0
    assert "never fires" in text(formatting.format_nearest_firings(never, 80))[0]


def test_the_point_in_the_inspector_is_where_the_firing_was_decided() -> None:
    made = compared("defect-compact")
    assert made.move_to_firing(1)
    [firing] = made.get_firings(made.call)
    assert made.inspector_point == firing.decided
    planned = ct.plan(made.session, "defect-compact", at=made.inspector_point)
    assert planned.has_changes and planned.boundary == firing.plan.boundary
    made.move_cursor(1)
    assert made.recording is not None and made.inspector_point == made.recording.calls[made.call].message


# Words


def test_a_call_is_told_in_words() -> None:
    made = compared()
    assert made.recording is not None and made.replay is not None
    made.move_to_firing(1)
    [line] = text([formatting.format_call_line(made, 120)])
    at, under = made.recording.calls[made.call].message, made.replay.sizes[made.call]
    assert line.startswith(
        f"call {made.call + 1} of {made.call_count}, #{at}  recorded {made.recording.sizes[made.call]:,}"
    )
    assert f"under the policy {under:,}" in line and " fewer (" in line and " %)" in line
    [firing] = made.get_firings(made.call)
    first, why, *largest = text(
        list(formatting.format_firing_lines(made, firing, 120, lambda message, row: "Read a file"))
    )
    assert first.startswith(f"▲ firing 1 of {len(made.replay.firings)} before #{firing.message}")
    assert f"{firing.before:,} → {firing.after:,}" in first and f"{firing.cleared} cleared" in first
    assert firing.reason in why
    assert len(largest) == min(firing.cleared, formatting.MAX_ITEM_LINES) and "cleared Read a file" in largest[0]


def test_the_largest_of_what_a_firing_took_come_first() -> None:
    made = compared("defect-compact")
    assert made.replay is not None
    items = formatting.find_largest_items(made.replay.firings[0], 100)
    assert [item.tokens for item in items] == sorted((item.tokens for item in items), reverse=True)
    assert len(items) == made.replay.firings[0].summarised
    assert {item.outcome for item in items} == {"summarised"}


def test_recorded_compactions_are_told_and_whether_they_happen() -> None:
    made = compared()
    [(call, _)] = made.context_events.items()
    made.move_to_call(call)
    assert any(line.startswith("│ full compaction") for line in text(list(formatting.format_event_lines(made, 100))))
    assert "1 recorded compaction kept" in text([formatting.format_header(made, 1.0, 120)])[0]
    assert made.replay is not None
    kept = list(made.replay.baseline)
    made.toggle_recorded_compactions()
    finish(made)
    assert all("(undone)" in line for line in text(list(formatting.format_event_lines(made, 100))))
    assert "1 recorded compaction undone" in text([formatting.format_header(made, 1.0, 120)])[0]
    assert max(made.replay.baseline) > max(kept)
    assert TRACE in draw_charts(made, 0, 80, 20).signs, "what was recorded is drawn besides"
    assert "without a policy" in text([formatting.format_call_line(made, 160)])[0]
    assert "recorded compactions undone" in text(formatting.format_policy_table(made, 100, 4))[-1]


def test_sizes_that_nobody_recorded_are_called_estimated() -> None:
    made = compared(session=ct.from_messages(conversation()))
    assert "all sizes estimated" in text([formatting.format_header(made, 1.0, 120)])[0]
    assert "estimated" in text([formatting.format_call_line(made, 120)])[0]
    assert "recorded " not in text([formatting.format_call_line(made, 120)])[0]
    some = compared(session=recorded())
    assert "all sizes recorded" in text([formatting.format_header(some, 1.0, 140)])[0]


def test_the_table_has_the_numbers_of_each_and_of_none() -> None:
    made = compared("defect-microcompact", "agent-sdk-prune")
    assert made.selected_lane.result is not None and made.replay is not None
    head, first, second, last = text(formatting.format_policy_table(made, 120, 4))
    sums = made.selected_lane.result.totals
    assert head.split() == ["policy", "firings", "peak", "sent", "tokens", "cost", "needed", "over"]
    count = str(len(made.replay.firings))
    assert first.split()[:5] == ["▸", "defect-microcompact", count, f"{sums.peak:,}", f"{sums.sent:,}"]
    assert second.split() == ["agent-sdk-prune", "0", *last.split()[3:5], "the", "same", "…", "…", last.split()[-1]]
    assert last.split()[:3] == ["as", "recorded", "–"]
    small = text(formatting.format_policy_table(made, 58, 4))
    assert all(len(line) <= 58 for line in small) and "defect-microcomp" in small[1]
    assert small[0].split() == ["policy", "firings", "sent", "tokens", "cost", "needed"], "what the chart shows goes"


def test_prices_and_regrets_follow_the_replays() -> None:
    made = compared("defect-microcompact", "defect-microcompact", "defect-compact")
    assert made.recording is not None and made.choose_study_task() is None, "not before what they share is known"
    lab = made.lab = Lab(made.session, made.recording)
    order = list[str]()
    while (wanted := made.choose_study_task()) is not None:
        assert wanted.result is not None
        order.append(wanted.key.policy)
        assert made.update(wanted, studied(wanted.result, lab, wanted.key.settings))
    assert order == ["defect-microcompact", "defect-compact"], "two with the same settings share one"
    assert made.selected_lane.result is not None and made.selected_lane.result.study is not None
    study, lab = made.selected_lane.result.study, Lab(made.session)
    again = lab.run_study(POLICIES["defect-microcompact"], made.selected_lane.params)
    assert study.price.cost == pytest.approx(again.price.cost)
    assert (study.regret.used_later, study.regret.dropped) == (again.regret.used_later, again.regret.dropped)
    row = text(formatting.format_policy_table(made, 140, 5))[1]
    assert f"${study.price.cost:,.2f}" in row and f"{study.regret.used_later:,} of {study.regret.dropped:,}" in row
    whole = "\n".join(part.text for part in build_firing_parts(made))
    assert "without the policy" in whole and "needed later: " in whole
    assert made.move_to_firing(1)
    [firing] = made.get_firings(made.call)
    lines = text(list(formatting.format_firing_lines(made, firing, 120, lambda message, row: "Read a file")))
    assert any(line.startswith("  price") and " needed later" in line for line in lines)
    late = ReplayTask(
        made.selected_lane, made.build_key(made.selected_lane), made.selected_lane.params, made.selected_lane.result
    )
    made.set_param("defect-microcompact", "microcompact_ratio", 0.4)
    finish(made)
    assert not made.update(late, studied(late.result, lab, late.key.settings)) if late.result else False, (
        "of an earlier replay"
    )


def test_a_regret_is_told_with_its_evidence() -> None:
    body = "".join(f"rare_identifier_{number} = compute_{number * 7}(4711)\n" for number in range(300))
    call = {"type": "tool_use", "id": "a", "name": "Read", "input": {"file_path": "src/one.py"}}
    talk: list[dict[str, Any]] = [
        {"role": "user", "content": "Look"},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": body}]},
        {"role": "assistant", "content": "Seen."},
        *conversation(4),
        {"role": "user", "content": "Again"},
        {"role": "assistant", "content": [{**call, "id": "b"}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "b", "content": body}]},
        {"role": "assistant", "content": "Seen."},
    ]
    made = compared(session=ct.from_messages(talk).with_window(10_000), keep_recent_turns=1)
    assert made.recording is not None
    lab = made.lab = Lab(made.session, made.recording)
    wanted = made.choose_study_task()
    assert wanted is not None and wanted.result is not None
    made.update(wanted, studied(wanted.result, lab, wanted.key.settings))
    assert made.replay is not None
    told = [
        line
        for firing in made.replay.firings
        for line in text(list(formatting.format_firing_lines(made, firing, 100, lambda message, row: "")))
    ]
    assert any("needed later #2" in line and "(re-fetch)" in line for line in told), told


def test_the_selected_policy_is_in_sight_in_a_small_table() -> None:
    made = compared("defect-microcompact", "defect-compact", "koda-microcompact", "agent-sdk-prune")
    for number, lane in enumerate(made.lanes):
        made.select_lane(number)
        lines = text(formatting.format_policy_table(made, 80, 4))
        assert len(lines) == 4 and any(line.startswith("▸") and lane.policy in line for line in lines)
        assert "2 more" in lines[-1]


def test_settings_stand_beside_the_name_and_session_text_is_safe() -> None:
    made = compared(keep_recent_turns=7)
    assert "defect-microcompact keep_recent_turns=7" in text(formatting.format_policy_table(made, 120, 3))[1]
    nasty = replace(made.session.info, path="/tmp/\x1b[31m[/]x.jsonl")
    made.session = replace(made.session, info=nasty)
    assert "\x1b" not in text([formatting.format_header(made, 1.0, 120)])[0]


def test_the_list_of_firings_has_them_all() -> None:
    made = compared("defect-microcompact", "manual")
    assert made.replay is not None
    whole = "\n".join(part.text for part in build_firing_parts(made))
    assert whole.count("  before #") == len(made.replay.firings) > 0
    assert "by hand" in whole and "not what an agent" in whole


@pytest.mark.parametrize("width", [20, 58, 78, 118, 198])
def test_limits_are_told_at_any_width(width: int) -> None:
    words = format_limits(width)
    assert words and len(words) <= width


# What is compared, and the way back


def test_adding_and_removing() -> None:
    made = compared(keep_recent_turns=5)
    made.add_policy("defect-microcompact")
    assert made.selected_number == 1 and made.selected_lane.values == {"keep_recent_turns": 5}, (
        "the same again: its settings"
    )
    made.set_param("defect-microcompact", "keep_recent_turns", 1)
    assert [lane.values for lane in made.lanes] == [{"keep_recent_turns": 5}, {"keep_recent_turns": 1}]
    assert made.remove_selected() and made.selected_number == 0
    assert not made.remove_selected(), "one stays"
    while len(made.lanes) < MAX_POLICIES:
        assert made.add_policy("koda-microcompact")
    assert not made.add_policy("koda-microcompact") and len(made.lanes) == MAX_POLICIES


def test_going_there_again_finds_what_was_compared() -> None:
    made = compared("defect-microcompact", "defect-compact")
    made.select_lane(1)
    view = View(made.session, policy="defect-compact", at=40)
    again = PolicyComparison(view, made)
    assert [lane.policy for lane in again.lanes] == ["defect-microcompact", "defect-compact"]
    assert again.selected_number == 1 and again.recording is made.recording and again.choose_replay_task() is None
    other = PolicyComparison(replace(view, policy="koda-microcompact"), again)
    assert [lane.policy for lane in other.lanes] == ["defect-microcompact", "koda-microcompact"], "what was selected"
    assert [wanted.key.policy] == ["koda-microcompact"] if (wanted := other.choose_replay_task()) else False
    larger = PolicyComparison(replace(view, session=view.session.with_window(100_000)), other)
    assert larger.recording is None and all(lane.result is None for lane in larger.lanes), (
        "another window, other replays"
    )
    assert [lane.view.session for lane in larger.lanes] == [larger.session] * 2


def test_the_settings_that_go_back_are_those_that_were_compared() -> None:
    made = compared("defect-microcompact", "defect-compact", keep_recent_turns=5)
    made.add_policy("defect-microcompact")
    made.set_param("defect-microcompact", "keep_recent_turns", 1)
    made.select_lane(2)
    made.set_param("defect-compact", "compact_ratio", 0.9)
    made.select_lane(0)
    assert made.policy_params == {
        "defect-microcompact": {"keep_recent_turns": 5},
        "defect-compact": {"compact_ratio": 0.9},
    }
    made.select_lane(1)
    assert made.policy_params["defect-microcompact"] == {"keep_recent_turns": 1}, "of two the selected one's"


def test_the_command_replays_the_same() -> None:
    made = compared("defect-microcompact", "defect-compact", keep_recent_turns=2)
    line = format_replay_command([lane.view for lane in made.lanes], StudySettings(recorded="ignore"))
    path = made.session.info.path
    policies = "-P defect-microcompact -p keep_recent_turns=2 -P defect-compact"
    assert line == f"context-tui replay {path} {policies} --recorded undo --window {WINDOW}"


def test_settings_are_offered_for_the_whole_recording() -> None:
    made = compared()
    assert len(made.full_context) == len(made.session) > len(made.selected_lane.view.context)


def test_a_policy_that_never_fires_says_what_came_first() -> None:
    with_compaction, without = (
        compared("agent-sdk-prune"),
        compared("agent-sdk-prune", session=ct.from_messages(conversation())),
    )
    assert formatting.count_compactions(with_compaction) == 1 and formatting.count_compactions(without) == 0
    words = formatting.format_never_fires(without)
    assert words == "agent-sdk-prune never fires; no recorded usage, which is all that it looks at"
    first = formatting.format_never_fires(with_compaction)
    assert first.startswith("agent-sdk-prune never fires; ")
    assert first.endswith(", where recorded compactions come first: i undoes them")


def test_a_policy_that_counts_less_than_there_is_says_so(tmp_path: Path) -> None:
    """agent-sdk leaves cached tokens out: the chart passes its threshold, and nothing happens."""
    made = recordings.Recording()
    made.user("Go on.")
    made.assistant(recordings.text("I go on."), use=usage(7, read=100_000))
    unlooked = compared("agent-sdk-prune", session=made.open(tmp_path))
    reason = "never fires: the recording has no point at which its runtime decides"
    assert formatting.format_never_fires(unlooked) == f"agent-sdk-prune {reason}"
    made.assistant(recordings.call("t1"), use=usage(7, read=150_000))
    made.results(recordings.result("t1", "long"))
    made.assistant(recordings.text("I go on."), use=usage(7, read=150_000))
    begun = compared("agent-sdk-prune", session=made.open(tmp_path))
    assert "never fires; nearest before #4: 7 recorded input tokens ≤ limit " in formatting.format_never_fires(begun)


def test_a_policy_that_would_fire_behind_the_last_call_says_so(tmp_path: Path) -> None:
    made = recordings.Recording()
    made.user("Go on.")
    made.assistant(recordings.call("t1"), use=usage(7))
    made.results(recordings.result("t1", "long " * 1_000))
    for size in (8, 150_000):
        made.assistant(recordings.text("I go on."), use=usage(size))
        made.user("Go on.")
    told = formatting.format_never_fires(compared("agent-sdk-prune", session=made.open(tmp_path)))
    assert re.fullmatch(
        r"agent-sdk-prune never fires; nearest before #\d+: .*; it would fire after the last call", told
    )


def test_a_compaction_that_the_file_begins_with_is_no_reason(tmp_path: Path) -> None:
    made = recordings.Recording()
    made.boundary(6_100)
    made.summary()
    for _ in range(3):
        made.assistant(recordings.text("I go on."), use=usage(3_000))
        made.user("Go on.")
    begun = compared("agent-sdk-prune", session=made.open(tmp_path))
    assert formatting.count_compactions(begun) == 1
    assert "compactions come first" not in formatting.format_never_fires(begun)


def test_a_drop_is_no_compaction() -> None:
    made = compared("agent-sdk-prune")
    drop = ContextEvent(3, Drop(3, 900, 900))
    made._context_events = {1: [drop]}
    assert (
        formatting.count_compactions(made) == 0
        and "compaction" not in text([formatting.format_header(made, 1.0, 120)])[0]
    )
