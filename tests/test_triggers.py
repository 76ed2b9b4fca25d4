"""When a runtime would act: what it believes, against which number, and where along a session that first happens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import context_tui as ct
from context_tui.policies.builtin.defect import format_window_share
from context_tui.policies.parameter_space import build_params
from context_tui.policies.parts.trigger_condition import Size, TriggerCondition
from context_tui.policies.registry import POLICIES
from context_tui.policies.runtime_state import build_runtime_state
from context_tui.policies.trigger_points import find_firing_runs, find_first_firing, find_phases, iterate_runtime_states
from context_tui.session.session import Session
from context_tui.session.values import Role
from context_tui.session.window import Window
from context_tui.tokens import History
from tests.formats.recordings import Recording, call, conversations, reasoning, result, text, usage
from tests.scenarios import NUMBERS, open_scenario

fixtures = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
PHASES = frozenset({"before_call", "after_tools", "user_turn"})


def sized(folder: Path, tokens: int, model: str = "claude-sonnet-4-5", **more: int) -> Session:
    """A session whose runtime believes it has *tokens*, at its end."""
    recording = Recording()
    recording.user()
    recording.assistant(text(""), use=usage(tokens, **more), model=model)
    return recording.open(folder)


# -- along a session


@fixtures
@given(recording=conversations())
def test_moments_are_what_planning_at_each_point_sees(tmp_path: Path, recording: Recording) -> None:
    session = reasoning(recording.open(tmp_path))
    looked = [at for at in range(len(session)) if find_phases(session.facts, at) & PHASES] + [len(session)]
    alone = [build_runtime_state(session.context_at(at), session.window, len(session)) for at in looked]
    assert list(iterate_runtime_states(session, PHASES)) == alone


def test_messages_and_images_that_are_read_meanwhile_are_left_out() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}}
    session = ct.from_messages([{"role": "user", "content": "begin"}, {"role": "assistant", "content": "done"}] * 3)
    states = list(iterate_runtime_states(session, PHASES))

    def grow() -> None:
        message = session.facts.add_message(Role.USER)
        session.facts.add_block(message, {"type": "tool_result", "tool_use_id": "c", "content": "x" * 900})
        session.facts.add_block(message, image)

    assert list(iterate_runtime_states(session, PHASES, grow)) == states and len(session.facts) > len(session)


def test_a_runtime_looks_after_tools_only_where_a_result_came_right_before_the_call() -> None:
    messages: list[dict[str, Any]] = [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "Read", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "x = 1"}]},
        {"role": "assistant", "content": "one"},
        {"role": "user", "content": "thanks"},
        {"role": "assistant", "content": "welcome"},
    ]
    facts = ct.from_messages(messages).facts
    assert [sorted(find_phases(facts, at)) for at in range(5)] == [
        ["before_call"],
        [],
        ["after_tools", "before_call"],
        ["user_turn"],
        ["before_call"],
    ]


@fixtures
@given(recording=conversations(), name=st.sampled_from(sorted(set(POLICIES) - {"manual"})), data=st.data())
def test_firing_equals_planning_everywhere(
    tmp_path: Path, recording: Recording, name: str, data: st.DataObject
) -> None:
    session = recording.open(tmp_path)
    policy = POLICIES[name]
    given: dict[str, Any] = {}
    if "context_budget" in policy.Params.model_fields:
        given["context_budget"] = data.draw(st.integers(1, 180_000))
    params = build_params(policy, given)
    looked = [at for at in range(len(session)) if find_phases(session.facts, at) & policy.phases] + [len(session)]
    triggers = [at for at in looked if ct.plan(session, name, at=at, **given).trigger.fires]
    assert find_first_firing(session, policy, params) == (triggers[0] if triggers else None)
    before = dict(zip(looked, [None, *looked], strict=False))
    begun = [run[0].at for run in find_firing_runs(session, policy, params)]
    assert begun == [at for at in triggers if before[at] not in triggers]


@fixtures
@given(recording=conversations(compactions=False))
def test_believed_is_a_replay_of_the_accounting(tmp_path: Path, recording: Recording) -> None:
    session = recording.open(tmp_path)
    requests = dict(zip(session.facts.request_message, session.facts.requests, strict=True))
    history, believed = History(), {}
    for index in range(len(session)):
        believed[index] = history.tokens or 0
        if index in requests:
            history.record(requests[index].context)
        history.append(session.message(index))
    believed[len(session)] = history.tokens or 0
    series = {state.at: state.believed_tokens for state in iterate_runtime_states(session, frozenset({"before_call"}))}
    assert series == {at: believed[at] for at in series}
    assert len(session) in series


def test_believed_starts_anew_after_a_compaction(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("x" * 400)
    recording.assistant(text("y" * 400), use=usage(150_000))
    recording.boundary()
    recording.summary("z" * 400)
    recording.user("x" * 40)
    recording.assistant(text("y" * 80), use=usage(30_000))
    recording.user("x" * 40)
    session = recording.open(tmp_path)
    believed = [ct.plan(session, "defect-compact", at=at).trigger.value for at in range(len(session) + 1)]
    assert believed == [0, 100, 150_100, 100, 110, 30_020, 30_030]
    sources = [ct.plan(session, "defect-compact", at=at).trigger.source for at in (2, 4, 6)]
    assert sources == [
        "last recorded + estimate since then",
        "estimated: nothing is recorded in this context",
        "last recorded + estimate since then",
    ]


def test_first_fire_may_be_at_the_end_only_or_nowhere(tmp_path: Path) -> None:
    policy = POLICIES["defect-microcompact"]
    assert find_first_firing(sized(tmp_path, 120_000), policy, build_params(policy, {})) == 2
    assert find_first_firing(sized(tmp_path, 119_999), policy, build_params(policy, {})) is None
    assert find_firing_runs(sized(tmp_path, 1), policy, build_params(policy, {})) == []


# -- defect


@pytest.mark.parametrize(
    ("window", "believed", "micro", "soft", "hard"),
    [
        (200_000, 119_999, False, False, False),
        (200_000, 120_000, True, False, False),
        (200_000, 140_000, True, True, False),
        (200_000, 169_999, True, True, False),
        (200_000, 170_000, True, True, True),
        (90_000, 62_998, True, False, False),
        (90_000, 62_999, True, True, False),  # 0.7 × 90,000 in IEEE doubles floors to 62,999
    ],
)
def test_defect_thresholds(tmp_path: Path, window: int, believed: int, micro: bool, soft: bool, hard: bool) -> None:
    session = sized(tmp_path, believed)
    assert ct.plan(session, "defect-microcompact", window=window).trigger.fires is micro
    trigger = ct.plan(session, "defect-compact", window=window).trigger
    assert trigger.fires is (soft or hard)
    assert trigger.threshold == (int(0.85 * window) if hard else int(0.7 * window))
    assert ("background" in trigger.reason) is not hard
    absolute = ct.plan(session, "defect-compact", window=window, threshold=believed).trigger
    assert absolute.fires and absolute.threshold == believed
    early = ct.plan(session, "defect-compact", window=window, threshold=believed + 1 - window // 2).trigger
    assert early.fires and early.threshold == believed + 1 - window // 2


def test_a_threshold_below_the_soft_one_counts(tmp_path: Path) -> None:
    trigger = ct.plan(sized(tmp_path, 40_000), "defect-compact", threshold=50_000).trigger
    assert not trigger.fires and trigger.threshold == 50_000


def test_defect_ratios_are_parameters(tmp_path: Path) -> None:
    session = sized(tmp_path, 100_000)
    assert ct.plan(session, "defect-microcompact", microcompact_ratio=0.5).trigger.fires
    assert not ct.plan(session, "defect-microcompact", microcompact_ratio=0.51).trigger.fires
    assert ct.plan(session, "defect-compact", compact_soft_ratio=0.5).trigger.threshold == 100_000
    assert ct.plan(session, "defect-compact", compact_ratio=0.5).trigger.threshold == 100_000


def test_an_unknown_window_is_128_000_to_defect(tmp_path: Path) -> None:
    session = sized(tmp_path, 76_800, model="of-tomorrow")
    assert (session.window.tokens, session.window.source) == (200_000, "assumed")
    trigger = ct.plan(session, "defect-microcompact").trigger
    assert trigger.fires and trigger.threshold == 76_800
    assert ct.plan(session, "defect-microcompact", window=200_000).trigger.threshold == 120_000


def test_a_microcompact_before_compaction_is_read_again(tmp_path: Path) -> None:
    recording = Recording()
    for turn in range(5):
        recording.user(f"turn {turn}")
        recording.assistant(call(f"t{turn}"), use=usage(180_000))
        recording.results(result(f"t{turn}", "x" * 40_000))
    session = recording.open(tmp_path)
    alone, chain = ct.plan(session, "defect-compact").trigger, ct.plan(session, "chain").trigger
    assert alone.value == 190_001
    assert chain.fires, "microcompact fires"
    assert chain.reason.startswith("defect-microcompact fires: ") and "defect-compact does not fire: " in chain.reason
    cleared = ct.plan(session, "defect-microcompact").tokens_after
    assert f"{cleared:,} tokens < limit" in chain.reason, "what is left is estimated: the baseline is forgotten"


# -- koda


def idle(folder: Path, seconds: int | None, *, replied: bool = True) -> Session:
    recording = Recording()
    recording.user(timestamp="2026-01-01T00:00:00.000Z")
    if replied:
        recording.assistant(text("reply"), timestamp="2026-01-01T00:00:01.000Z")
    minutes, rest = divmod((seconds or 0) + 1, 60)
    stamp = f"2026-01-01T00:{minutes:02}:{rest:02}.000Z" if seconds is not None else "when?"
    recording.user("back", timestamp=stamp)
    return recording.open(folder)


@pytest.mark.parametrize(("seconds", "fired"), [(299, False), (300, True), (3_000, True)])
def test_koda_looks_at_idle_time(tmp_path: Path, seconds: int, fired: bool) -> None:
    trigger = ct.plan(idle(tmp_path, seconds), "koda-microcompact", at=2).trigger
    assert (trigger.fires, trigger.value, trigger.threshold) == (fired, seconds, 300)
    assert trigger.reason == f"idle {seconds:,} s {'≥' if fired else '<'} limit 300 s"


def test_koda_says_what_it_does_not_know(tmp_path: Path) -> None:
    unknown = ct.plan(idle(tmp_path, None), "koda-microcompact", at=2)
    assert not unknown.trigger.fires and "the idle time is not recorded" in unknown.trigger.reason
    assert ct.plan(idle(tmp_path, None), "koda-microcompact", at=2, idle_seconds=300).trigger.fires
    assert not ct.plan(idle(tmp_path, 3_000), "koda-microcompact", at=2, idle_seconds=299).trigger.fires
    nobody = ct.plan(idle(tmp_path, 3_000, replied=False), "koda-microcompact", at=1, idle_seconds=9_999)
    assert not nobody.trigger.fires and "no assistant message" in nobody.trigger.reason
    assert not ct.plan(idle(tmp_path, 3_000, replied=False), "koda-microcompact").trigger.fires


def test_the_end_of_a_recording_counts_as_idle(tmp_path: Path) -> None:
    trigger = ct.plan(idle(tmp_path, 1), "koda-microcompact").trigger
    assert trigger.fires and "end of the recording" in trigger.reason


def test_koda_plans_nothing_below_its_gap_unless_forced(tmp_path: Path) -> None:
    recording = Recording()
    recording.user()
    for number in range(8):
        recording.assistant(call(f"t{number}"))
        recording.results(result(f"t{number}", "x" * 400))
    recording.user("soon")
    session = recording.open(tmp_path)
    at = len(session) - 1
    below = ct.plan(session, "koda-microcompact", at=at)
    assert not below.has_changes and below.edits == [] and " s < limit 300 s" in below.reason
    forced = ct.plan(session, "koda-microcompact", at=at, force=True)
    assert dict(forced.report or {}) == {"cleared": 3, "tokens_saved": 342} and not forced.trigger.fires


# -- agent-sdk


@pytest.mark.parametrize(
    ("fresh", "read", "prunes", "compacts"),
    [
        (112_000, 0, False, False),
        (112_001, 0, True, False),
        (160_000, 0, True, False),
        (160_001, 0, True, True),
        (10, 190_000, False, False),
    ],
)
def test_agent_sdk_reads_fresh_input_only(tmp_path: Path, fresh: int, read: int, prunes: bool, compacts: bool) -> None:
    session = sized(tmp_path, fresh, read=read)
    prune, compact = ct.plan(session, "agent-sdk-prune").trigger, ct.plan(session, "agent-sdk-compact").trigger
    assert (prune.fires, prune.value, prune.threshold) == (prunes, fresh, 112_000)
    assert (compact.fires, compact.value, compact.threshold) == (compacts, fresh, 160_000)
    if read:
        assert "; 190,010 with cached tokens, which would fire" in compact.reason


def test_agent_sdk_looks_at_recorded_usage_only() -> None:
    session = ct.from_messages([{"role": "user", "content": "x" * 4_000_000}])
    trigger = ct.plan(session, "agent-sdk-compact").trigger
    assert not trigger.fires and trigger.value is None and "no recorded usage" in trigger.reason


def test_agent_sdk_divides_integers(tmp_path: Path) -> None:
    session = sized(tmp_path, 5)
    assert ct.plan(session, "agent-sdk-prune", context_budget=9, threshold_pct=61).trigger.threshold == 5
    assert not ct.plan(session, "agent-sdk-prune", context_budget=9, threshold_pct=61).trigger.fires


# -- after rewrites, without usage, and with a window that nothing tells


@pytest.mark.parametrize("number", NUMBERS)
def test_states_after_rewrites_are_what_planning_there_sees(tmp_path: Path, number: int) -> None:
    session = open_scenario(number, tmp_path)
    points = [at for at in range(len(session)) if find_phases(session.facts, at) & PHASES] + [len(session)]
    alone = [build_runtime_state(session.context_at(at), session.window_at(at), len(session)) for at in points]
    assert list(iterate_runtime_states(session, PHASES)) == alone


def test_states_without_usage_are_what_planning_there_sees() -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for number in range(6):
        messages.append({"role": "assistant", "content": [call(f"c{number}", "Read")]})
        messages.append({"role": "user", "content": [result(f"c{number}", "x" * 100)]})
    session = ct.from_messages(messages)
    states = list(iterate_runtime_states(session, PHASES))
    assert states == [build_runtime_state(session.context_at(each.at), session.window, len(session)) for each in states]
    assert {each.reply_tokens for each in states} == {0} and [each.has_assistant for each in states[:3]] == [
        False,
        False,
        True,
    ]
    condition = TriggerCondition(tokens=1)
    trigger = condition.check(Size(count="uncached"), states[-1])
    assert not trigger.fires and "no recorded usage" in trigger.reason


def test_idle_seconds_are_exact(tmp_path: Path) -> None:
    recording = Recording()
    recording.user(timestamp="2026-01-01T00:00:00.000Z")
    recording.assistant(text("done"), use=usage(100), timestamp="2026-01-01T00:00:01.000Z")
    recording.user(timestamp="2026-01-01T00:00:03.500Z")
    session = recording.open(tmp_path)
    assert build_runtime_state(session.context_at(2), session.window, len(session)).idle_seconds == 2.5


@pytest.mark.parametrize(("source", "tokens"), [("given", 200_000), ("assumed", 128_000)])
def test_only_a_window_that_is_assumed_is_said_to_be(tmp_path: Path, source: str, tokens: int) -> None:
    session = sized(tmp_path, 1_000)
    state = build_runtime_state(session.context_at(), Window(200_000, source), len(session))
    said = f"50% of {tokens:,}{', which this agent assumes if it knows no window' * (source == 'assumed')}"
    assert format_window_share(state, 0.5) == said
    condition = TriggerCondition(share=0.5, unknown_window=128_000)
    reason = condition.check(Size(), state).reason
    assert f"({said})" in reason
    without_default = TriggerCondition(share=0.5).check(Size(), state).reason
    assert "knows no window" not in without_default


def test_only_limits_in_tokens_depend_on_the_size() -> None:
    sized_conditions = TriggerCondition(tokens=9), TriggerCondition(share=0.5), TriggerCondition(reserve=9)
    others = TriggerCondition(messages=9), TriggerCondition(tool_uses=9), TriggerCondition(idle_seconds=9)
    assert all(condition.depends_on_size() for condition in sized_conditions)
    assert not any(condition.depends_on_size() for condition in (*others, TriggerCondition(always=True)))
