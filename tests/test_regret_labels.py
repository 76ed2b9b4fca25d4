"""What labels taught about regret, one rule at a time on small sessions, and the labels of the development half."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scripts.regret import compute_score, judge_labels, read_labels
from tests.test_regret import (
    CODE,
    EDIT,
    NOTHING,
    NUMBERED,
    READ,
    UNRELATED,
    answer_of,
    dropped_first,
    regretted,
    session,
)

CORPUS = Path(__file__).parents[2] / "shared" / "corpus"
ROWS = [f"the row {number} holds {number * 7919 + 100_003} in all" for number in range(9)]


def read_rows(first: int, end: int) -> tuple[str, dict[str, Any], str]:
    return "Read", {"file_path": "/src/rows.txt", "offset": first, "limit": end - first}, "\n".join(ROWS[first:end])


def test_slices_that_together_are_most_of_a_file_read_later() -> None:
    whole = ("Read", {"file_path": "/src/rows.txt"}, "\n".join(ROWS))
    found = session(read_rows(0, 3), read_rows(3, 6), whole)
    both = {answer_of(found, 0): 5, answer_of(found, 1): 5}
    assert [(case.tier, case.message) for case in regretted(found, both).cases] == [("re-fetch", 2), ("re-fetch", 4)]


def test_a_part_that_no_edit_of_the_file_touched() -> None:
    part = ("Read", {"file_path": "/src/app/blocks.py", "offset": 5}, "\n".join(NUMBERED.splitlines()[4:]))
    assert [case.tier for case in dropped_first(READ, UNRELATED, part)] == ["re-fetch"]


def test_the_read_with_most_of_the_lines_is_what_is_fetched_again() -> None:
    part = ("Read", {"file_path": "/src/app/blocks.py", "limit": 3}, "\n".join(NUMBERED.splitlines()[:3]))
    whole = ("Bash", {"command": "cat /src/app/blocks.py"}, CODE)
    assert [case.tier for case in dropped_first(READ, part, whole)] == ["re-fetch"]


@pytest.mark.parametrize(
    "kept",
    [
        ("Bash", {"command": "git diff"}, CODE),
        ("Edit", {"file_path": "/src/app/other.py", "old_string": "x = 1", "new_string": CODE}, "ok"),
    ],
)
def test_a_fetched_line_that_a_kept_block_has_is_no_case(kept: Any) -> None:
    assert not dropped_first(READ, kept, READ)


def test_a_result_wrapped_in_json_is_read_by_line() -> None:
    wrapped = json.dumps({"output": CODE, "metadata": {"exit_code": 0}})
    shell = ("shell", {"command": ["bash", "-lc", "cat app/blocks.py"]}, wrapped)
    assert [case.tier for case in dropped_first(shell, NOTHING, EDIT)] == ["edit"]


def test_an_edit_of_lines_that_many_dropped_blocks_have() -> None:
    shows = [("Bash", {"command": f"./show {number}"}, CODE) for number in range(5)]
    found = session(*shows, EDIT)
    rows = {answer_of(found, step): 11 for step in range(5)}
    assert [case.tier for case in regretted(found, rows).cases] == ["edit"]


def test_an_item_of_a_list_is_the_same_in_a_patch() -> None:
    item = "- Tools: the preview, the check and the list"
    patch = f"apply_patch <<'X'\n*** Begin Patch\n*** Update File: other.md\n@@\n+{item}\n*** End Patch\nX"
    edit = ("Edit", {"file_path": "/src/README.md", "old_string": item, "new_string": "-"}, "ok")
    read = ("Read", {"file_path": "/src/README.md"}, f"     1\t{item}")
    assert dropped_first(read, NOTHING, edit)
    assert not dropped_first(read, ("Bash", {"command": patch}, "ok"), edit)


@pytest.mark.parametrize(
    ("held", "cases"),
    [
        ("async def blockSizes(path):", 1),
        ("func (s *Store) blockSizes() int {", 1),
        ("\tstatic blockSizes(path: string): number {", 1),
        ("BLOCK_SIZES=1", 1),
        ("sizes = blockSizes(path)", 0),
    ],
)
def test_a_single_name_counts_where_it_is_defined(held: str, cases: int) -> None:
    said = f"Next is {'BLOCK_SIZES' if held[0] == 'B' else 'blockSizes'}."
    assert len(dropped_first(("Bash", {"command": "./show"}, held), NOTHING, said)) == cases


@pytest.mark.parametrize(
    ("held", "said", "cases"),
    [
        ("sizes = load_block_sizes(path)", "Next is load_block_sizes.", 1),
        ("x.getBoundingClientRect()", "Next is getBoundingClientRect.", 0),
        ('"id": "ct-s0b9"', "I close ct-s0b9.", 1),
        ("class grid-7xl", "I use grid-7xl.", 0),
        ("authors: ada@lovelace.org", "__email__ = 'ada@lovelace.org'", 1),
        ("authors: you@example.com", "__email__ = 'you@example.com'", 0),
        ("(tag: v4.41.0-next.1)", "npm has 4.41.0-next.1 already.", 1),
        ("listening on 127.0.0.1", "It listens on 127.0.0.1.", 0),
        ("  -n, --append-notes string   Notes", "I pass --append-notes to it.", 1),
        ("I ran x --append-notes", "I pass --append-notes to it.", 0),
        (
            "origin git@host:a.git (https://github.com/ada/engine.git)",
            "Clone https://github.com/ada/engine.git first.",
            1,
        ),
        ("xmlns=http://www.w3.org/2000/svg", "Use http://www.w3.org/2000/svg here.", 0),
        ("see http://localhost:3000/ now", "It runs at http://localhost:3000/ again.", 0),
        ("sent ^[[38;2;171;249;252;49m", "It sends 38;2;171;249;252;49m again.", 1),
        ("on branch ada/add-second-rows-of-engine", "Back to add-second-rows-of-engine.", 1),
        ("with end-to-end tests", "I add end-to-end tests.", 0),
        ("engine.go:584: is never closed", "The leak at engine.go:584 is mended.", 1),
        ("   521→x = 1\n   522→y = 2", "The sum is wrong (line 522).", 1),
        ("   85→x = 1\n   91→y = 2", "The sum is wrong (lines 85-91).", 1),
        ("   85→x = 1\n   91→y = 2", "The sum is wrong (line 85).", 0),
        ("there are 522 of them", "The sum is wrong (line 522).", 0),
        ("rows := engine.Captured()", "The call `rows := engine.Captured()` is wrong.", 0),
        ("rows := engine.CapturedRuns(all, first)", "The call `rows := engine.CapturedRuns(all, first)` is wrong.", 1),
    ],
)
def test_single_words_that_nobody_writes_by_chance(held: str, said: str, cases: int) -> None:
    assert len(dropped_first(("Bash", {"command": "./show"}, held), NOTHING, said)) == cases


@pytest.mark.parametrize(("command", "cases"), [("grep -rn blockSizes src", 1), ("./run blockSizes", 0)])
def test_a_single_name_counts_where_it_is_searched_for(command: str, cases: int) -> None:
    show = ("Bash", {"command": "./show"}, "the value of blockSizes is odd")
    assert len(dropped_first(show, NOTHING, ("Bash", {"command": command}, "none"))) == cases


def test_a_path_that_many_dropped_blocks_name() -> None:
    runs = [("Bash", {"command": f"./run {number}"}, f"{number} of tests/test_engine.py pass") for number in range(9)]
    found = session(*runs, "Next I read tests/test_engine.py again.")
    rows = {answer_of(found, step): 19 for step in range(9)}
    assert [case.needle for case in regretted(found, rows).cases] == ["test_engine.py"]
    del rows[answer_of(found, 4)]  # one of them stays
    assert not regretted(found, rows).cases


def test_a_name_that_the_agent_defined_itself() -> None:
    write = ("Write", {"file_path": "/src/rows.py", "content": "def count_rows(path):\n    return 1\n"}, "ok")
    found = session(write, NOTHING, "Next is count_rows.")
    call = next(iter(found.facts.blocks_of(1)))
    assert [case.needle for case in regretted(found, {call: 5, answer_of(found, 0): 5}).cases] == ["count_rows"]


def test_a_step_of_a_plan_that_is_written_again() -> None:
    plan = ("update_plan", {"plan": [{"step": "Measure how long the first read of a large file takes"}]}, "ok")
    found = session(plan, NOTHING, plan)
    assert regretted(found, {next(iter(found.facts.blocks_of(1))): 5}).cases


def test_the_same_result_of_another_command() -> None:
    record = "\n".join(ROWS)
    shown = ("Bash", {"command": "git show main:rows.json | jq ."}, record)
    again = ("Bash", {"command": "git show main:rows.json"}, record)
    assert [case.tier for case in dropped_first(shown, NOTHING, again)] == ["re-fetch"]


def test_the_head_of_a_result_is_no_content() -> None:
    head = (
        "Chunk ID: 0f7d7c\nWall time: 0.1723 seconds\nProcess exited with code 0\nOriginal token count: 1\nOutput:\n0"
    )
    search = ("exec_command", {"cmd": "rg -c rows docs"}, head)
    assert not dropped_first(search, NOTHING, search)


@pytest.mark.parametrize(("shown", "tiers"), [(range(4), ["re-fetch"]), (range(8), [])])
def test_another_read_after_an_edit_shows_the_changed_line_or_not(shown: range, tiers: list[str]) -> None:
    edit = ("Edit", {"file_path": "/src/rows.txt", "old_string": ROWS[6], "new_string": "the row 6 is no more"}, "ok")
    lines = [line.replace(ROWS[6], "the row 6 is no more") for line in ROWS]
    part = ("Read", {"file_path": "/src/rows.txt", "limit": len(shown)}, "\n".join(lines[number] for number in shown))
    found = session(("Read", {"file_path": "/src/rows.txt"}, "\n".join(ROWS)), edit, part)
    assert [case.tier for case in regretted(found, {answer_of(found, 0): 5}).cases] == tiers


def test_a_help_text_that_is_shown_again() -> None:
    shown = ("Bash", {"command": "./tool add --help 2>&1 | head -40"}, "\n".join(ROWS))
    assert [case.tier for case in dropped_first(shown, NOTHING, shown)] == ["re-fetch"]


def test_the_frame_of_a_result_is_no_content() -> None:
    empty = ("Bash", {"command": "ls build"}, "<returncode>0</returncode>\n<output>\n</output>")
    assert not dropped_first(empty, NOTHING, empty)


@pytest.mark.parametrize(
    "command", ["cat > /src/app/blocks.py <<'EOF'\nx = 2\nEOF", "./generate --all > /src/app/blocks.py"]
)
def test_a_command_that_writes_a_file_changes_it(command: str) -> None:
    found = session(READ, ("Bash", {"command": command}, ""), READ)
    assert regretted(found, {answer_of(found, 0): 5}).refetched_after_edit == 1


def test_a_search_with_another_result_after_a_change() -> None:
    paths = [f"/src/app/part_{number}.py" for number in range(40)]
    search = ("Glob", {"pattern": "**/*.py"})
    found = session((*search, "\n".join(paths)), UNRELATED, (*search, "\n".join([*paths, "/src/app/parts.py"])))
    assert regretted(found, {answer_of(found, 0): 5}).refetched_after_edit == 1


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason="no recordings beside the checkout")
def test_the_development_half_of_the_labels() -> None:
    score = compute_score(list(judge_labels(read_labels("development"), CORPUS)))
    assert score.precision is not None and score.precision >= 0.97
    assert score.recall is not None and score.recall >= 0.95
