"""What a recording did to its own context, and policies that change theirs at the same time."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings

from context_tui.compaction.plan import Plan, Trigger
from context_tui.lab.price.pricing import price_replay
from context_tui.lab.regret.cases import RegretCase
from context_tui.lab.replay.recording import Recording
from context_tui.lab.replay.result import CompactionHandling
from context_tui.lab.replay.walk import replay, replay_recording
from context_tui.lab.study import Lab
from context_tui.policies.base import BasePolicy, build_empty_plan
from context_tui.policies.base import Params as AnyParams
from context_tui.policies.parameter_space import build_params
from context_tui.policies.registry import POLICIES
from context_tui.policies.runtime_state import RuntimeState
from context_tui.session.context import Context
from tests.formats import recordings
from tests.formats.recordings import call, conversations, result, text, usage
from tests.test_drops import cleared
from tests.test_replay import growing

fixtures = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)
CONTINUED = "This session is being continued from a previous conversation. " + "word " * 400


class Never(BasePolicy):
    """Looks before each call, and never fires."""

    name: ClassVar[str] = "never"
    about: ClassVar[str] = "never fires"
    phases: ClassVar[frozenset[str]] = frozenset({"before_call"})
    Params: ClassVar[type[AnyParams]] = AnyParams

    def trigger(self, state: RuntimeState, params: AnyParams) -> Trigger:
        return Trigger(False, "never")

    def plan(self, context: Context, params: AnyParams, state: RuntimeState) -> Plan:
        return build_empty_plan(self.name, params, context, Trigger(False, "never"), "never")


def went_on(made: recordings.Recording, size: int) -> recordings.Recording:
    """A compaction that the recording holds, and one call behind it."""
    made.boundary(18_000)
    made.summary(CONTINUED)
    made.assistant(text("going on"), use=usage(0, read=size))
    return made


def test_a_summary_that_is_being_written_outlives_a_compaction_that_is_undone(tmp_path: Path) -> None:
    made = went_on(growing(8), 9_000)
    for turn in range(3):
        made.user(f"later {turn}")
        made.assistant(text("done"), use=usage(0, read=9_100 + 100 * turn))
    session = made.open(tmp_path).with_window(36_000)
    undone = replay(session, "defect-compact", recorded="ignore", compact_ratio=1.0, delay=2)
    (boundary,) = (each.message for each in session.facts.compactions)
    flying = [each for each in undone.firings if each.decided < boundary < each.message]
    assert [
        each.call - next(n for n, c in enumerate(undone.calls) if c.message == each.decided) for each in flying
    ] == [2]


def test_what_is_cleared_just_before_the_context_begins_anew_saves_nothing(tmp_path: Path) -> None:
    """The runtime looks as a person's message comes, and that message begins the next context."""
    made = growing(4)
    made.clear()
    made.user("something else")
    made.assistant(text("done"), use=usage(0, read=11_000))
    session = made.open(tmp_path)
    replayed = replay(session, "koda-microcompact", gap_seconds=0, keep_recent=0)
    last = replayed.firings[-1]
    assert last.call == len(replayed.calls) - 1 and last.cleared
    assert last.before == last.after == replayed.sizes[-1] == 11_000


# -- results that went silently


def test_what_went_silently_is_gone_from_the_call_in_which_it_shows(tmp_path: Path) -> None:
    """A policy that has dropped these results already saves nothing there: the recorded size is without them, too."""
    session = cleared(tmp_path)
    (drop,) = session.drops
    clears: dict[str, Any] = {"gap_seconds": 0, "keep_recent": 0, "compactable_tools": ["Bash", "Read", "Task", "Grep"]}
    made = replay(session, "koda-microcompact", **clears)
    assert set(drop.cleared_blocks) <= set(made.removed_by_policy)
    number = next(at for at, each in enumerate(made.calls) if each.message == drop.message)
    saved = made.baseline[number] - made.sizes[number]
    also_gone = [row for row in made.removed_by_policy if row not in drop.cleared_blocks]
    most = 2 * sum(session.facts.size[row] for row in also_gone) // 4
    assert 0 <= saved <= most < drop.tokens
    assert all(firing.after == made.sizes[firing.call] for firing in made.firings)


def test_what_went_silently_comes_back_where_compactions_are_undone(tmp_path: Path) -> None:
    session = cleared(tmp_path)
    (drop,) = session.drops
    kept = replay_recording(Recording(session), Never(), AnyParams())
    undone = replay_recording(Recording(session), Never(), AnyParams(), recorded="ignore")
    number = next(at for at, each in enumerate(kept.calls) if each.message == drop.message)
    assert undone.baseline[:number] == kept.baseline[:number]
    assert undone.baseline[number] >= undone.baseline[number - 1] > kept.baseline[number]


# -- several changes before one call


class AtTheTurn(Never):
    """Does what is marked by hand as a certain message comes."""

    phases: ClassVar[frozenset[str]] = frozenset({"user_turn"})

    def __init__(self, at: int, **marks: Any) -> None:
        self.at, self.marks = at, POLICIES["manual"].Params(**marks)

    def trigger(self, state: RuntimeState, params: AnyParams) -> Trigger:
        return Trigger(state.at == self.at, "now")

    def plan(self, context: Context, params: AnyParams, state: RuntimeState) -> Plan:
        return POLICIES["manual"].plan(context, self.marks, state)


class InTurn(Never):
    """Several policies, one after the other."""

    phases: ClassVar[frozenset[str]] = frozenset({"user_turn"})

    def __init__(self, *policies: AtTheTurn) -> None:
        self.policies = policies

    def steps(self, params: AnyParams) -> list[tuple[Any, AnyParams]]:
        return [(policy, params) for policy in self.policies]


def clearing_besides(folder: Path, *cleared: tuple[str, ...]) -> Recording:
    """Four turns with a result each, and microcompactions between the fifth turn's beginning and its call."""
    made = growing(4)
    made.user("turn 4")
    for calls in cleared:
        made.microcompact(*calls)
    made.assistant(text("done"), use=usage(0, read=10_000))
    return Recording(made.open(folder))


@pytest.mark.parametrize("cleared", [(("c0",), ("c1", "c2")), (("c2", "c0"), ("c1",)), (("c3",), ("c0", "c1", "c2"))])
def test_each_of_several_changes_is_held_against_what_is_recorded_without_it(
    tmp_path: Path, cleared: tuple[tuple[str, ...], ...]
) -> None:
    """What the recording clears too, is saved by none of them; each firing's sizes are those of a run up to it."""
    recording = clearing_besides(tmp_path, *cleared)
    turn = recording.calls[-1].message - 1
    marks: list[dict[str, Any]] = [{"clear": "2:0"}, {"cut": 4}, {"clear": "6:0,10:0"}]
    policies = [AtTheTurn(turn, **each) for each in marks]
    made = replay_recording(recording, InTurn(*policies), AnyParams())
    assert len(made.firings) == 3 and {firing.call for firing in made.firings} == {len(made.calls) - 1}
    sizes = [made.baseline[-1]]
    for count in (1, 2, 3):
        sizes.append(replay_recording(recording, InTurn(*policies[:count]), AnyParams()).sizes[-1])
    assert [(firing.before, firing.after) for firing in made.firings] == list(pairwise(sizes))
    assert len(set(sizes)) > 1


def test_what_a_replay_lost_are_blocks_of_the_session(tmp_path: Path) -> None:
    """Summaries of its own, which the next one stands for, are none."""
    session = growing(16).open(tmp_path).with_window(30_000)
    made = replay(session, "defect-compact", delay=0, compact_soft_ratio=0.8, summary_tokens=3_000)
    assert len(made.firings) > 1 and max(made.removed_by_policy) < len(session.facts.kind)


# -- sizes that were not recorded


@fixtures
@given(recording=conversations())
def test_no_size_is_negative(tmp_path: Path, recording: recordings.Recording) -> None:
    assert min(Recording(recording.open(tmp_path)).sizes, default=0) >= 0


def test_a_result_of_a_context_that_is_gone_is_not_taken_out_of_the_next_one(tmp_path: Path) -> None:
    def made(*late: str) -> recordings.Recording:
        found = recordings.Recording()
        found.user("do it")
        found.assistant(call("c1", "Read", file_path="a"), use={})
        found.results(result("c1", "line\n" * 4_000))
        found.assistant(text("done"), use={})
        found.clear()
        found.user("something else")
        found.assistant(call("c2", "Read", file_path="b"), use={})
        found.microcompact(*late)
        found.results(result("c2", "short"))
        found.assistant(text("done"), use={})
        return found

    plain, late = Recording(made().open(tmp_path)).sizes, Recording(made("c1").open(tmp_path)).sizes
    assert late == plain


# -- one summary after another


def test_the_second_summary_is_another_text_for_the_cache(tmp_path: Path) -> None:
    """The first message of the context, the summary, has changed: nothing of what is in the file is kept."""
    session = growing(16).open(tmp_path).with_window(30_000)
    made = replay(session, "defect-compact", delay=0, compact_soft_ratio=0.8, summary_tokens=3_000)
    assert len(made.firings) > 1
    recording = Recording(session)
    prefixes = [(firing.cache_cut.unchanged_prefix, recording.fixed_sizes[firing.call]) for firing in made.firings]
    assert all(prefix <= fixed for prefix, fixed in prefixes)


# -- cases and firings


CHAIN: dict[str, Any] = {
    "policies": ["agent-sdk-prune", "agent-sdk-compact"],
    "options": {
        "agent-sdk-prune": {"context_budget": 20_000, "preserve_tail": 0},
        "agent-sdk-compact": {"context_budget": 15_000, "min_keep": 1},
    },
}


def test_each_case_is_of_one_firing(tmp_path: Path) -> None:
    """A result that is truncated and then summarised before the same call went with the first of the two."""
    lab = Lab(growing(10, cached=False).open(tmp_path))
    study = lab.run_study(POLICIES["chain"], build_params(POLICIES["chain"], CHAIN))
    facts, made = lab.session.facts, study.replay
    gone = list(made.removed_by_policy.items())
    cases = [RegretCase("reference", facts.block_message[row], 0, row, at, at, 0, "x", "x", 1) for row, at in gone]
    study = study._replace(regret=study.regret._replace(cases=tuple(cases)))
    first, second = (firing for firing in made.firings if firing.message == made.firings[-1].message)
    assert set(first.plan.changes) <= {row for row, at in gone if at == first.message}
    assert sorted(number for cases in study.group_cases_by_firing() for number in cases) == list(range(len(cases)))
    assert [cases[number].row for number in study.find_cases(first)] == list(first.plan.changes)
    assert study.find_cases(second) == study.group_cases_by_firing()[-1] != []


# -- what it costs


def test_undoing_nothing_costs_what_keeping_does(tmp_path: Path) -> None:
    """The first call is read from the cache as it was recorded, whatever becomes of compactions."""
    session = growing(4).open(tmp_path)
    kept, undone = (
        price_replay(replay_recording(Recording(session), Never(), AnyParams(), recorded=each))
        for each in ("keep", "ignore")
    )
    assert undone.baseline_costs == kept.baseline_costs


STEPS: dict[str, Any] = {
    "policies": ["defect-microcompact", "defect-compact"],
    "options": {
        "defect-microcompact": {"keep_recent_turns": 2, "microcompact_ratio": 0.28},
        "defect-compact": {"compact_soft_ratio": 0.25, "compact_ratio": 0.95},
    },
}


@pytest.mark.parametrize("recorded", ["keep", "ignore"])
def test_firings_are_in_the_order_of_their_effect(tmp_path: Path, recorded: CompactionHandling) -> None:
    """A summary begun at call 5 takes six calls: results are cleared meanwhile; a recorded compaction discards it."""
    made = went_on(growing(4), 9_000)
    for turn in range(4):
        made.user(f"later {turn}")
        made.assistant(text("done"), use=usage(0, read=9_100 + 100 * turn))
    session = made.open(tmp_path).with_window(60_000)
    found = replay(session, "chain", recorded=recorded, delay=6, **STEPS)
    firings = [(each.policy, each.decided, each.message, each.call) for each in found.firings]
    cleared = ("defect-microcompact", 15, 15, 7)
    summarised = ("defect-compact", 11, 22, 11)
    assert firings == ([cleared] if recorded == "keep" else [cleared, summarised])
    (boundary,) = (each.message for each in session.facts.compactions)
    assert boundary == 16 and [found.calls[number].message for number in (5, 7, 8, 11)] == [11, 15, 17, 23]
    changed = [number for number, size in enumerate(found.sizes) if size != found.baseline[number]]
    assert changed == ([7] if recorded == "keep" else [*range(7, 13)])
    assert found.baseline[8] == found.sizes[8] == 9_000 if recorded == "keep" else found.baseline[8] > 18_000
    assert set(found.removed_by_recording.values()) == ({17} if recorded == "keep" else set())
