"""Aftermath: repeats, failures and corrections in small sessions, matches, extra calls, and the command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import context_tui as ct
from context_tui.cli import main
from context_tui.lab.aftermath.measure import NEAR_CALLS, Aftermath, Course, measure_aftermaths
from context_tui.lab.aftermath.report import (
    MIN_SESSIONS,
    SessionAftermath,
    estimate_extra_calls,
    format_aftermath,
    group_aftermaths,
)
from context_tui.lab.aftermath.steps import Step, build_steps
from tests.formats.recordings import Recording, call, result, text, usage

SAMPLES = Path(ct.__file__).parents[1] / "sample_sessions"
READ = ("Read", {"file_path": "/src/app.py"})
PART = ("Read", {"file_path": "/src/app.py", "offset": 5, "limit": 9})
TEST = ("Bash", {"command": "pytest  -q"})
EDIT = ("Edit", {"file_path": "/src/app.py", "old_string": "a", "new_string": "b"})
OTHER_EDIT = ("Edit", {"file_path": "/src/other.py", "old_string": "a", "new_string": "b"})


def do(made: Recording, *calls: tuple[str, dict[str, Any]], fails: bool = False) -> None:
    """One reply for each call, and its result."""
    for name, arguments in calls:
        use = f"c{made.count}"
        made.assistant(call(use, name, **arguments), use=usage(10, 0, 50_000))
        made.results(result(use, "output", is_error=fails))


def steps_of(folder: Path, *calls: tuple[str, dict[str, Any]], fails: bool = False) -> list[Step]:
    made = Recording()
    made.user("go")
    do(made, *calls, fails=fails)
    return build_steps(made.open(folder))


@pytest.mark.parametrize(
    ("calls", "kinds"),
    [
        ([READ, READ], ["read"]),
        ([READ, PART], ["read"]),
        ([PART, READ], []),
        ([READ, EDIT, READ], []),
        ([READ, OTHER_EDIT, READ], ["read"]),
        ([TEST, ("Bash", {"command": "pytest -q"})], ["command"]),
        ([TEST, OTHER_EDIT, TEST], []),
        ([TEST, READ], []),
    ],
)
def test_a_repeat_has_the_same_target_and_nothing_changed_it(
    tmp_path: Path, calls: list[tuple[str, dict[str, Any]]], kinds: list[str]
) -> None:
    steps = steps_of(tmp_path, *calls)
    assert [repeat.kind for step in steps for repeat in step.repeats] == kinds
    assert all(not step.repeats for step in steps[:-1])
    assert [step.distance for step in steps] == list(range(len(calls)))
    assert [step.has_edit for step in steps] == [name == "Edit" for name, _ in calls]


def test_a_call_that_fails_twice_is_a_failure_again_and_no_repeat(tmp_path: Path) -> None:
    [first, second] = steps_of(tmp_path, TEST, TEST, fails=True)
    assert not first.repeats and [repeat.kind for repeat in second.repeats] == ["failure"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [("No, not like that", True), ("stop", True), ("Nein!", True), ("notice the tests", False), ("now go on", False)],
)
def test_a_correction_begins_with_one_of_the_forms(tmp_path: Path, words: str, expected: bool) -> None:
    made = Recording()
    made.user("no, this is the first message")
    do(made, READ)
    made.user(words)
    do(made, READ)
    assert [step.is_corrected for step in build_steps(made.open(tmp_path))] == [expected, False]


def compacted(turns: int = 4) -> Recording:
    """Turns of three reads and an edit; the last one is compacted after its first call and then takes longer."""
    made = Recording()
    for turn in range(turns):
        made.user(f"turn {turn}")
        do(made, *[("Read", {"file_path": f"/src/{turn}-{number}.py"}) for number in range(3)], EDIT)
        do(made, *[("Read", {"file_path": f"/src/more-{turn}-{number}.py"}) for number in range(NEAR_CALLS)])
    made.user("the last turn")
    do(made, READ, TEST)
    made.boundary(50_000)
    made.summary()
    do(made, READ, TEST, PART, ("Read", {"file_path": "/src/new.py"}), EDIT)
    return made


def test_what_follows_a_compaction_is_held_against_the_same_place_of_other_turns(tmp_path: Path) -> None:
    [found] = measure_aftermaths(compacted().open(tmp_path))
    assert (found.kind, found.distance, found.trigger) == ("full", 2, "auto")
    assert found.after == Course(5, 5 * 50_015, 1, 1, 0, 0)
    assert found.matched is not None and found.matched.calls == 2 and found.matched.reads == 0
    assert found.extra_calls == 3 and len(found.matches) == 4
    expected = "5 calls until the next edit or end of turn (2.0); 1 read again (0.0), 1 run again (0.0); "
    assert format_aftermath(found) == f"{expected}in brackets: the mean of 4 similar points without a compaction"


def test_what_was_not_in_the_context_is_not_read_again(tmp_path: Path) -> None:
    made = compacted()
    made.clear()
    made.user("anew")
    do(made, OTHER_EDIT)
    made.boundary(50_000)
    made.summary()
    do(made, READ, EDIT)
    last = measure_aftermaths(made.open(tmp_path))[-1]
    assert last.after.reads == 0 and "; nothing unchanged read or run again" in format_aftermath(last)


def test_a_course_that_another_compaction_ends_has_no_number_of_calls(tmp_path: Path) -> None:
    made = compacted()
    made.boundary(50_000)
    made.summary()
    do(made, READ)
    first, second = measure_aftermaths(made.open(tmp_path))
    assert first.after.calls == 5 and second.after.calls is None and second.extra_calls is None


def make_rows(extra: list[float], sessions: int) -> list[SessionAftermath]:
    course = Course(1, 0, 0, 0, 0, 0)
    return [
        SessionAftermath(
            f"s{number % sessions}",
            "codex",
            Aftermath(9, "full", "", "m", "1", 3, 10_000, course._replace(calls=value + 1), None, course, (4,)),
        )
        for number, value in enumerate(extra)
    ]


def test_extra_calls_have_an_interval_over_sessions() -> None:
    found = estimate_extra_calls(make_rows([5.0, 6.0, 7.0] * 10, 9))
    assert found is not None and found.value == pytest.approx(0.6) and found.verdict == "more calls"
    assert found.low is not None and found.high is not None and 0.5 < found.low < 0.6 < found.high < 0.7
    assert (found.compactions, found.sessions, found.needed) == (30, 9, None) and "more calls" in found.sentence
    same = estimate_extra_calls(make_rows([-1.0, 1.0] * 10, 20))
    assert same is not None and same.verdict == "no difference found" and same.value == 0
    wide = estimate_extra_calls(make_rows([-90.0, 90.0] * 3, 6))
    assert wide is not None and wide.verdict == "not enough" and wide.needed is not None and wide.needed > 6


def test_few_sessions_are_not_enough() -> None:
    found = estimate_extra_calls(make_rows([5.0] * 4, MIN_SESSIONS - 1))
    assert found is not None and found.low is None
    assert found.sentence == "not enough: 4 compactions in 4 sessions; about 20 would do"
    assert estimate_extra_calls([]) is None


def test_compactions_that_are_not_measured_are_counted_with_the_reason() -> None:
    rows = make_rows([5.0] * 4, 2)
    rows.append(rows[0]._replace(aftermath=replace(rows[0].aftermath, matched=None, matches=())))
    reason = "no call or edit follows, or no point is similar"
    found, more = estimate_extra_calls(rows), estimate_extra_calls(rows, 7)
    assert found is not None and more is not None and (found.left_out, more.left_out) == (1, 3)
    assert found.sentence.startswith(f"not enough: 4 compactions in 2 sessions, 1 of 5 left out: {reason}; about")
    rows += make_rows([5.0] * 90, 30)
    found = estimate_extra_calls(rows)
    assert found is not None and found.low is not None and f"sessions, 1 of 95 left out: {reason})" in found.sentence


def test_groups_have_the_means_of_what_is_known() -> None:
    rows = make_rows([1.0, 3.0], 2)
    unknown = rows[0].aftermath.after._replace(calls=None)
    rows.append(rows[0]._replace(aftermath=Aftermath(9, "full", "", "m", "1", 3, 1, unknown, None, None, ())))
    [group] = group_aftermaths(rows, lambda row: row.agent)
    assert (group.name, group.compactions, group.after.calls) == ("codex", 3, 3.0)
    assert group.matched is not None and group.matched.calls == 1 and group.before is None


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(compacted().write(tmp_path))
    assert main(["aftermath", path]) == 0
    out = capsys.readouterr().out
    assert "1 recorded compaction with a call after it in 1 session" in out and "not enough: 1 compaction" in out
    assert main(["aftermath", path, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    [compaction] = report["compactions"]
    assert report["schema"] == "context-tui.aftermath/1" and compaction["extra_calls"] == 3
    assert (compaction["after"]["calls"], compaction["matched"]["calls"], len(compaction["matches"])) == (5, 2, 4)
    assert report["groups"]["agent"][0]["extra_calls"]["verdict"] == "not enough" and "no" in report["correction_forms"]


def test_a_session_without_a_compaction(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    made = Recording()
    made.user("go")
    made.assistant(text("done"), use=usage(900))
    assert main(["aftermath", str(made.write(tmp_path))]) == 0
    assert capsys.readouterr().out == "0 recorded compactions with a call after it in 1 session\n"
