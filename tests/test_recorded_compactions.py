"""Recorded compactions, before and after: what was there, what was lost, and what later messages came back to."""

from __future__ import annotations

import json
from pathlib import Path

from context_tui.cli.inspect import build_report
from context_tui.compaction.recorded_compactions import count_tokens_by_category, find_recorded_compactions
from context_tui.lab.regret.cases import find_reused_blocks
from context_tui.lab.regret.index import build_use_index
from context_tui.session.facts import Facts
from context_tui.tokens.context_index import index_context
from tests.formats.providers import Provider
from tests.formats.recordings import Recording, call, result, text, usage

RARE = "the flux capacitor wants 1.21 gigawatts in relay_seventeen.py"
FOUND = "def reticulate_splines_carefully(amount_of_splines, threshold=0.0173): pass"


def ids(facts: Facts, rows: object) -> list[str]:
    return [facts.call_id(row) or facts.kind[row].__str__() for row in rows]  # type: ignore[attr-defined]


def compacted() -> Recording:
    """A micro compaction before message 5, and a full one that keeps two messages and attaches a file."""
    made = Recording()
    made.user("Fix it.")
    made.assistant(call("t1", "Read", file_path="/p/a.py"), use=usage(5_000))
    made.results(result("t1", f"x = 1\n{FOUND}\n" * 20))
    made.assistant(call("t2", "Bash", command="make"), use=usage(6_000))
    made.results(result("t2", RARE + "\nok " * 100))
    made.microcompact("t1", tokens=5_500)
    head = made.assistant(text("Made."), use=usage(5_200))
    tail = made.user("And the other?")
    made.boundary(6_100, preservedSegment={"headUuid": head, "tailUuid": tail, "anchorUuid": tail})
    made.summary()
    made.attachment("file", filename="/p/b.py", content="y = 2")
    made.assistant(text(f"I remember: {RARE}"), use=usage(3_000))
    made.assistant(call("t3", "Edit", file_path="/p/a.py", old_string=FOUND, new_string="pass"), use=usage(3_100))
    made.results(result("t3", "edited"))
    return made


def test_both_sides_of_a_cut(tmp_path: Path) -> None:
    session = compacted().open(tmp_path)
    micro, full = find_recorded_compactions(session)
    facts = session.facts
    assert (micro.kind, micro.message, full.kind, full.message) == ("micro", 5, "full", 7)
    assert (len(micro.context_before), len(micro.context_after), micro.summary_message) == (5, 5, None)
    assert (
        ids(facts, micro.removed_blocks) == ["t1"]
        and micro.remaining_messages == [*range(5)]
        and not micro.added_messages
    )
    assert [*full.context_before.order] == [*range(7)] and [*full.context_after.order][:3] == [7, 5, 6]
    assert full.summary_message == 7 and full.added_messages == [7] and full.remaining_messages == [5, 6]
    # What the micro one had cleared is not lost again.
    assert {facts.block_message[row] for row in full.removed_blocks} == {0, 1, 3, 4} and "t1" not in ids(
        facts, full.removed_blocks
    )[2:]
    assert (full.believed_tokens_before, full.believed_is_recorded, full.recorded_tokens_after) == (
        5_200 + 1 + 3,
        True,
        3_000,
    )
    for side in (micro.context_before, micro.context_after, full.context_before, full.context_after):
        assert sum(count_tokens_by_category(side).values()) == index_context(side).total


def test_a_silent_one_is_told_by_what_was_inferred(tmp_path: Path) -> None:
    made = Provider(base=90_000)
    made.user("do it")
    for tool, size in (("Read", 40_000), ("Task", 4_000), ("Read", 30_000), ("Grep", 20_000)):
        made.step(tool, size=size)
    made.steps()
    made.user("go on")
    made.clear(40_000, 30_000, 20_000)
    made.reply(text("reply"))
    session = made.recording.open(tmp_path)
    [silent] = find_recorded_compactions(session)
    [drop] = session.drops
    assert (
        silent.kind == "silent"
        and tuple(silent.removed_blocks) == drop.cleared_blocks
        and silent.message == drop.message
    )
    assert silent.believed_tokens_before == silent.recorded_tokens_after + drop.tokens  # type: ignore[operator]
    assert (
        sum(count_tokens_by_category(silent.context_before).values())
        > sum(count_tokens_by_category(silent.context_after).values()) + 15_000
    )
    [told] = build_report(session, compactions=True)["drops"]
    assert told["lost"]["blocks"] == 3 and told["came_back"] == [] and told["summary"] is None


def test_what_came_back_is_told_with_what_still_had_it(tmp_path: Path) -> None:
    session = compacted().open(tmp_path)
    micro, full = find_recorded_compactions(session)
    uses = build_use_index(session)
    [edit] = find_reused_blocks(micro, uses)
    assert (edit.use.tier, edit.row_copies) == ("edit", ()) and FOUND in edit.use.evidence
    path, reference = find_reused_blocks(full, uses)  # the path stood in the call that the micro one left
    assert [session.facts.call_id(each.row) for each in (path, reference)] == ["t1", "t2"]
    assert path.use.evidence == "/p/a.py" and RARE in reference.use.evidence
    told = build_report(session, compactions=True)
    assert [len(each["came_back"]) for each in told["compactions"]] == [1, 2]
    [back] = told["compactions"][0]["came_back"]
    assert (back["message"], back["block"], back["still_in_context"]) == (2, 0, [])
    assert "came_back" not in build_report(session)["compactions"][0]
    json.dumps(told)


def test_a_summary_that_still_tells_it_is_named(tmp_path: Path) -> None:
    made = Recording()
    made.user("Fix it.")
    made.assistant(call("t1", "Bash", command="make"), use=usage(5_000))
    made.results(result("t1", f"{RARE}\nok"))
    made.boundary(6_100)
    made.summary(f"So far: {RARE}")
    made.assistant(text(f"I remember: {RARE}"), use=usage(3_000))
    session = made.open(tmp_path)
    [full] = find_recorded_compactions(session)
    [back] = find_reused_blocks(full, build_use_index(session))
    assert [session.facts.block_message[row] for row in back.row_copies] == [3]


def test_history_that_is_not_in_the_file_has_no_before(tmp_path: Path) -> None:
    made = Recording()
    made.boundary(998_659)
    made.summary()
    made.user("on")
    [full] = find_recorded_compactions(made.open(tmp_path))
    assert (
        full.believed_tokens_before,
        len(full.context_before),
        [*full.context_after.order],
        full.removed_blocks,
    ) == (None, 0, [0, 1], [])


def test_a_compaction_that_ends_the_recording_is_one(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("Fix it.")
    recording.assistant(call("t1", "Read", file_path="/p/a.py"), use=usage(5_000))
    recording.results(result("t1", "x = 1\n" * 400))
    recording.assistant(text("Read."), use=usage(6_000))
    recording.microcompact("t1", tokens=5_500)
    session = recording.open(tmp_path)
    [micro] = find_recorded_compactions(session)
    assert (micro.kind, micro.message) == ("micro", len(session)) and ids(session.facts, micro.removed_blocks) == ["t1"]
