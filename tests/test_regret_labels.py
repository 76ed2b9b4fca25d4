"""What labels taught about regret, one rule at a time on small sessions, and the labels of the development half."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import context_tui as ct
from context_tui.lab.regret.needles import find_lines, find_paths
from context_tui.lab.regret.tool_calls import analyze_call, extract_powershell_script, mentions_file
from context_tui.lab.regret.tools import classify_tool
from context_tui.session.values import Kind
from scripts.regret import HALVES, PAGE, compute_score, format_draws, format_labels, judge_labels, read_labels
from scripts.regret_cases import read_judgements, score_judgements
from tests.formats.recordings import Recording, call, result, text
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


@pytest.mark.parametrize("numbered", ["{}. {}", "{}: {}", "{}. - {}", "+{1}"])
def test_numbers_and_signs_before_a_line_are_no_part_of_it(numbered: str) -> None:
    rows = "\n".join(numbered.format(number, line) for number, line in enumerate(ROWS, 300))
    assert find_lines(rows) == ROWS


def test_a_result_wrapped_in_json_is_read_by_line() -> None:
    wrapped = json.dumps({"output": CODE, "metadata": {"exit_code": 0}})
    shell = ("shell", {"command": ["bash", "-lc", "cat app/blocks.py"]}, wrapped)
    assert [case.tier for case in dropped_first(shell, NOTHING, EDIT)] == ["edit"]


@pytest.mark.parametrize("depth", [900, 3_000, 100_000])
def test_a_result_in_json_that_is_nested_too_deeply_is_read_as_it_is(depth: int) -> None:
    nested = '{"output":' + "[" * depth + "]" * depth + f"}}\n{CODE}"
    shell = ("shell", {"command": ["bash", "-lc", "cat app/blocks.py"]}, nested)
    deep = ("shell", {"command": ["bash", "-lc", "ls"]}, nested.partition("\n")[0])
    assert [case.tier for case in dropped_first(shell, deep, EDIT)] == ["edit"]
    assert dropped_first(deep, NOTHING, EDIT) == []


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
    ("held", "said", "cases"),
    [
        ("sizes = load_block_sizes(path)", "Next is load_block_sizes.", 1),
        ("variant: sidebarText", "It uses the variant sidebarText.", 1),
        ("variant: sideBar", "It uses the variant sideBar.", 0),
        ("style={backgroundColor}", "It sets backgroundColor.", 0),
        ("issue ENG-207: tags", "This is the scenario of ENG-207.", 1),
        ("text is UTF-16 here", "It is UTF-16 indeed.", 0),
        ('"id": "ct-s0b9"', "I close ct-s0b9.", 1),
        ("class grid-7xl", "I use grid-7xl.", 0),
        ("colour #00d7ff", "It prints #00d7ff as it is.", 1),
        ("colour #ffffff", "It prints #ffffff as it is.", 0),
        ("see github.com/kit-org", "That is github.com/kit-org here.", 0),
        ("notes in engine-two/valves.md", "I edit /me/engine-two/valves.md now.", 1),
        ("git diff --stat HEAD~1 HEAD 2>&1 | git log -3", "Run `git diff --stat HEAD~1 HEAD 2>&1 | git log -3`.", 0),
        ("git diff --stat HEAD~1 of every valve", "Run `git diff --stat HEAD~1 of every valve`.", 1),
        ("x.getBoundingClientRect()", "Next is getBoundingClientRect.", 0),
        ("leak at pump_engine.go:584", "The leak in pump_engine.go is mended.", 1),
        ("listening on 127.0.0.1", "It listens on 127.0.0.1.", 0),
        ("   521→x = 1\n   522→y = 2", "The sum is wrong (lines 521-522).", 0),
        ("rows := engine.Captured()", "The call `rows := engine.Captured()` is wrong.", 0),
        ("rows := engine.CapturedRuns(all, first)", "The call `rows := engine.CapturedRuns(all, first)` is wrong.", 1),
    ],
)
def test_single_words_that_nobody_writes_by_chance(held: str, said: str, cases: int) -> None:
    assert len(dropped_first(("Bash", {"command": "./show"}, held), NOTHING, said)) == cases


def test_a_name_in_the_old_text_of_an_edit() -> None:
    edit = ("Edit", {"file_path": "/src/x.py", "old_string": "    ip_variant: str,", "new_string": ""}, "ok")
    assert [case.needle for case in dropped_first(("Bash", {"command": "./show"}, "ip_variant=1"), NOTHING, edit)]


def test_the_working_folder_is_in_every_context() -> None:
    show = ("Bash", {"command": "./show"}, "in /home/me/engine_two_of_all")
    found = session(show, NOTHING, ("Bash", {"command": "cd /home/me/engine_two_of_all"}, ""))
    assert regretted(found, {answer_of(found, 0): 5}).cases
    there = replace(found, info=replace(found.info, cwd="/home/me/engine_two_of_all"))
    assert not regretted(there, {answer_of(there, 0): 5}).cases


def test_the_source_of_a_use_is_a_block_that_the_recording_had_not_dropped(tmp_path: Path) -> None:
    recording = Recording()
    recording.user()
    for step, held in enumerate(("load_base_sum is about load_all_rows", "load_base_sum is open")):
        recording.assistant(call(f"c{step}", "Bash", command="./show"))
        recording.results(result(f"c{step}", held))
        if not step:
            recording.boundary()
            recording.summary()
    recording.assistant(text("Next is load_base_sum with load_all_rows."))
    found = recording.open(tmp_path)
    newer = [row for row in range(len(found.facts.kind)) if found.facts.kind[row] == Kind.TOOL_RESULT][-1]
    assert [case.needle for case in regretted(found, {newer: len(found) - 1}).cases] == ["load_base_sum"]


def test_a_read_that_shows_most_of_the_file_again_after_others_changed_it() -> None:
    changed = NUMBERED + "\n     7→and a line of somebody else"
    assert [case.tier for case in dropped_first(READ, NOTHING, (*READ[:2], changed))] == ["re-fetch"]


def test_a_command_of_unknown_effect_fetches_nothing() -> None:
    loop = ("Bash", {"command": "for f in *.txt; do ./print $f; done"}, "\n".join(["--- rows", *ROWS]))
    read = ("Read", {"file_path": "/src/rows.txt"}, "\n".join(ROWS))
    assert "re-fetch" not in [case.tier for case in dropped_first(read, NOTHING, loop)]
    printed = ("Bash", {"command": "cat rows.txt; printf '\\n--\\n'"}, "\n".join(ROWS))
    assert [case.tier for case in dropped_first(read, NOTHING, printed)] == ["re-fetch"]


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


def test_the_head_of_a_result_is_no_content() -> None:
    head = (
        "Chunk ID: 0f7d7c\nWall time: 0.1723 seconds\nProcess exited with code 0\nOriginal token count: 1\nOutput:\n0"
    )
    search = ("exec_command", {"cmd": "rg -c rows docs"}, head)
    assert not dropped_first(search, NOTHING, search)


@pytest.mark.parametrize(
    ("end", "changed", "tiers"),
    [(4, 9, ["re-fetch"]), (9, 2, ["re-fetch"]), (9, 3, []), (5, 2, [])],
)
def test_another_read_after_an_edit_shows_many_changed_lines_or_few(end: int, changed: int, tiers: list[str]) -> None:
    first = 0 if changed < 9 else end  # else the lines after the read are changed
    new = {line: f"the new {line}" for line in ROWS[first : first + changed]}
    texts = {"old_string": "\n".join(new), "new_string": "\n".join(new.values())}
    edit = ("Edit", {"file_path": "/src/rows.txt", **texts}, "ok")
    part = ("Read", {"file_path": "/src/rows.txt", "limit": end}, "\n".join(new.get(line, line) for line in ROWS[:end]))
    found = session(("Read", {"file_path": "/src/rows.txt"}, "\n".join(ROWS)), edit, part)
    assert [case.tier for case in regretted(found, {answer_of(found, 0): 5}).cases] == tiers


@pytest.mark.parametrize(("end", "tiers"), [(8, ["re-fetch"]), (9, [])])
def test_an_unknown_edit_changes_what_the_same_read_shows(end: int, tiers: list[str]) -> None:
    edit = ("Bash", {"command": "sed -i 5d /src/rows.txt"}, "")
    assert [case.tier for case in dropped_first(read_rows(0, 9), edit, read_rows(0, end))] == tiers


def test_lines_that_identify_a_part_need_not_all_be_lost() -> None:
    bodies = ("\n".join([f"from {at} to the end", *ROWS[:5], f"{at} is before"]) for at in (10, 20))
    early, later = (("Read", {"file_path": "/src/rows.txt", "offset": n}, body) for n, body in enumerate(bodies))
    for remaining, tiers in ((2, ["re-fetch"]), (3, [])):
        found = session(read_rows(0, remaining), early, later)
        assert [case.tier for case in regretted(found, {answer_of(found, 1): 5}).cases] == tiers


def test_a_help_text_that_is_shown_again() -> None:
    shown = ("Bash", {"command": "./tool add --help 2>&1 | head -40"}, "\n".join(ROWS))
    assert [case.tier for case in dropped_first(shown, NOTHING, shown)] == ["re-fetch"]


def test_a_line_that_begins_like_a_frame_is_content() -> None:
    lines = ["Here is the table of rows", "Exit code 0 of all rows", "<rows> of the table", "[The rows] and more"]
    frames = ["Exit code: 0", "<output>", "Output:", "[The command completed with exit code 0.]"]
    assert find_lines("\n".join([*lines, *frames]), 4) == lines


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


MANY_ROWS = [f"the row {number} holds {number * 7919 + 100_003} in all" for number in range(40)]


def fetches(*steps: Any) -> list[str]:
    return [case.tier for case in dropped_first(*steps) if case.is_needed]


def shown(command: str, *lines: str) -> tuple[str, dict[str, Any], str]:
    return "Bash", {"command": command}, "\n".join(lines)


@pytest.mark.parametrize(
    ("common", "at", "found"),
    [
        *[(3, 10, ["re-fetch"]), (2, 10, [])],  # the end of one is the start of the other
        *[(5, 5, ["re-fetch"]), (4, 5, [])],  # in the middle of both, as lines that are alike
    ],
)
def test_a_small_part_of_a_read(common: int, at: int, found: list[str]) -> None:
    others, second = MANY_ROWS[10:20], MANY_ROWS[20:]
    early = "\n".join([*others[:at], *MANY_ROWS[:common], *others[at:]])
    later = "\n".join([*second[: 10 - at], *MANY_ROWS[:common], *second[10 - at :]])
    reads = [("Read", {"file_path": "/src/rows.txt", "offset": n}, body) for n, body in ((1, early), (20, later))]
    assert fetches(reads[0], NOTHING, reads[1]) == found


@pytest.mark.parametrize(("remaining", "found"), [(6, ["re-fetch"]), (7, [])])
def test_three_lines_must_stand_only_in_dropped_blocks(remaining: int, found: list[str]) -> None:
    again = session(read_rows(0, 9), read_rows(0, remaining), read_rows(0, 9))
    tiers = [case.tier for case in regretted(again, {answer_of(again, 0): 5}).cases]
    assert tiers == found


def test_a_short_read_fetches_again_the_lines_that_it_has() -> None:
    assert fetches(read_rows(0, 9), NOTHING, read_rows(4, 6)) == ["re-fetch"]
    assert fetches(read_rows(0, 9), read_rows(4, 6), read_rows(4, 6)) == []


def test_lines_that_a_file_repeats_do_not_identify_a_part_of_it() -> None:
    again = [line for line in MANY_ROWS[:5] for _ in range(2)]
    early = ("Read", {"file_path": "/src/rows.txt", "limit": 20}, "\n".join(MANY_ROWS[10:20] + again))
    later = ("Read", {"file_path": "/src/rows.txt", "offset": 20}, "\n".join(again + MANY_ROWS[20:]))
    assert fetches(early, NOTHING, later) == []


@pytest.mark.parametrize(
    ("name", "common", "found"),
    [("rows.txt", 3, ["re-fetch"]), ("rows.txt", 2, []), ("other.txt", 9, [])],
)
def test_a_read_that_shows_lines_of_a_dropped_diff(name: str, common: int, found: list[str]) -> None:
    diff = shown("git diff", f"+++ b/src/{name}", *(f"+{line}" for line in MANY_ROWS[:common]))
    later = ("Read", {"file_path": "/src/rows.txt"}, "\n".join(MANY_ROWS))
    assert fetches(diff, NOTHING, later) == found
    texts = {"old_string": "\n".join(MANY_ROWS[:2]), "new_string": "none"}
    changed = ("Edit", {"file_path": "/src/rows.txt", **texts}, "ok")
    assert fetches(diff, changed, later) == [], "it reads to see the change"


def test_a_file_that_the_user_pasted_is_read() -> None:
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "This is rows.txt:\n" + "\n".join(ROWS)},
        {"role": "assistant", "content": [call("c0", "Read", file_path="/src/rows.txt")]},
        {"role": "user", "content": [result("c0", "\n".join(ROWS))]},
        {"role": "assistant", "content": "Done."},
    ]
    found = ct.from_messages(messages)
    assert [case.tier for case in regretted(found, {0: 1}).cases] == ["re-fetch"]


def test_two_files_of_one_name_have_lines_of_their_own() -> None:
    other = ("Read", {"file_path": "/old/rows.txt"}, "\n".join(ROWS))
    mine = ("Read", {"file_path": "/src/rows.txt"}, "\n".join(ROWS))
    found = session(mine, other, mine)
    rows = {answer_of(found, step): 5 for step in (0, 1)}
    assert [case.message for case in regretted(found, rows).cases] == [2]


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("awk 'NR>=1 && NR<=9 {print NR\": \"$0}' src/rows.txt", ["re-fetch"]),
        ("awk -F: '{print > \"out.txt\"}' src/rows.txt", []),
        ("awk '{system(\"rm \" $1)}' src/rows.txt", []),
    ],
)
def test_awk_that_only_prints_reads_a_file(command: str, found: list[str]) -> None:
    later = shown(command, *(f"{number}: {line}" for number, line in enumerate(ROWS[:4])))
    assert fetches(read_rows(0, 9), NOTHING, later) == found


def test_a_file_that_a_dropped_patch_added_is_read() -> None:
    added = "\n".join(f"+{line}" for line in ROWS)
    patch = f"*** Begin Patch\n*** Add File: src/rows.txt\n{added}\n*** End Patch"
    found = session(("apply_patch", {"input": patch}, "Done"), NOTHING, shown("cat src/rows.txt", *ROWS))
    (case,) = regretted(found, dict.fromkeys(found.facts.blocks_of(1), 5)).cases
    assert (case.tier, case.message) == ("re-fetch", 1)


def test_lines_in_a_json_result_are_compared_one_by_one() -> None:
    wrapped = json.dumps([{"query": "/src/rows.txt", "result": "\n".join(f"{n} | {ROWS[n]}" for n in range(9))}])
    assert fetches(read_rows(0, 9), NOTHING, ("read_files", {"files": [{"path": "/src/rows.txt"}]}, wrapped)) == [
        "re-fetch"
    ]


@pytest.mark.parametrize(("remaining", "found"), [(3, ["edit"]), (2, [])])
def test_a_rewritten_file_has_three_lines_of_the_dropped_one(remaining: int, found: list[str]) -> None:
    content = "\n".join([*ROWS[:remaining], "and some new line of the file"])
    assert (
        fetches(read_rows(0, 9), NOTHING, ("Write", {"file_path": "/src/rows.txt", "content": content}, "ok")) == found
    )


@pytest.mark.parametrize(("copied", "added", "found"), [(5, 5, ["edit"]), (5, 6, []), (4, 0, [])])
def test_a_copy_under_another_name_is_half_of_the_new_file(copied: int, added: int, found: list[str]) -> None:
    content = "\n".join([*ROWS[:copied], *(f"and the new line {number} of the file" for number in range(added))])
    copy = ("Write", {"file_path": "/src/copy.txt", "content": content}, "ok")
    assert fetches(read_rows(0, 9), NOTHING, copy) == found


SHORT = "\n".join(["{", "  margin: 4px;", "}"])


@pytest.mark.parametrize(
    ("name", "new", "found"),
    [("/src/a.css", "none", ["edit"]), ("/src/b.css", "none", []), ("/src/a.css", "  margin: 4px;\n  top: 0;", [])],
)
def test_a_short_line_that_many_reads_of_its_file_have(name: str, new: str, found: list[str]) -> None:
    reads = [("Read", {"file_path": "/src/a.css", "limit": limit}, f"{SHORT}\n{limit}") for limit in range(3, 8)]
    edit = ("Edit", {"file_path": name, "old_string": "  margin: 4px;", "new_string": new}, "ok")
    again = session(*reads, NOTHING, edit)
    rows = {answer_of(again, step): 12 for step in range(5)}
    assert [case.tier for case in regretted(again, rows).cases] == found


@pytest.mark.parametrize(("name", "found"), [("/src/a.css", ["edit"]), ("/src/b.css", [])])
def test_a_short_line_of_a_file_that_the_user_pasted(name: str, found: list[str]) -> None:
    edit = {"file_path": name, "old_string": "  margin: 4px;", "new_string": "none"}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": f"This is src/a.css:\n{SHORT}"},
        {"role": "assistant", "content": [call("c0", "Edit", **edit)]},
        {"role": "user", "content": [result("c0", "ok")]},
        {"role": "assistant", "content": "Done."},
    ]
    assert [case.tier for case in regretted(ct.from_messages(messages), {0: 1}).cases] == found


def test_short_lines_between_which_an_edit_inserts_one() -> None:
    reads = [("Read", {"file_path": "/src/a.css", "limit": at}, f"{SHORT}\n  padding: 0;\n{at}") for at in range(4, 9)]
    old, new = "  margin: 4px;\n}", "  margin: 4px;\n  top: 0;\n}"
    pair = {"old_string": f"{old}\n  padding: 0;", "new_string": f"{new}\n  padding: 0;"}
    for texts, tiers in (pair, ["edit"]), ({"old_string": old, "new_string": new}, []):
        again = session(*reads, NOTHING, ("Edit", {"file_path": "/src/a.css", **texts}, "ok"))
        rows = {answer_of(again, step): 12 for step in range(5)}
        assert [case.tier for case in regretted(again, rows).cases] == tiers


def test_a_failed_command_shows_lines_of_a_file() -> None:
    output = "\n".join(["src/rows.txt:7: AssertionError", *MANY_ROWS[4:12]])
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Fix the test."},
        {"role": "assistant", "content": [call("c0", "Bash", command="pytest")]},
        {"role": "user", "content": [{**result("c0", output), "is_error": True}]},
        {"role": "assistant", "content": [call("c1", "Read", file_path="/src/rows.txt", offset=5, limit=6)]},
        {"role": "user", "content": [result("c1", numbered("{:6}→", range(5, 11)))]},
        {"role": "assistant", "content": "Done."},
    ]
    found = ct.from_messages(messages)
    assert [case.tier for case in regretted(found, {answer_of(found, 0): 3}).cases] == ["re-fetch"]


def test_a_script_edits_files_that_it_does_not_name() -> None:
    script = "for f in *.css; do python - $f <<'PY'\nwrite(read().replace('  margin: 4px;', ''))\nPY\ndone"
    assert fetches(shown("cat src/a.css", SHORT), NOTHING, shown(script)) == ["edit"]


def test_one_shorter_line_counts_for_nothing() -> None:
    assert not dropped_first(shown("./show", "the first row of two lines"), NOTHING, "the first row of two lines")


def test_what_the_system_prompt_names_is_in_every_context() -> None:
    found = session(shown("./show", "def find_base_rows(): ..."), NOTHING, "I call find_base_rows now.")
    assert regretted(found, {answer_of(found, 0): 5}).cases

    class Prompted:
        def __getattr__(self, name: str) -> Any:
            return (lambda: "Always call find_base_rows.") if name == "system" else getattr(found.content, name)

    prompted = replace(found, content=Prompted())
    assert not regretted(prompted, {answer_of(found, 0): 5}).cases


def test_a_path_that_is_too_long_has_no_key() -> None:
    assert find_paths("/valves/pump_house/valve_plan.txt") and not find_paths("/pump_house/valve_plan" * 30 + ".txt")


def numbered(mark: str, numbers: Iterable[int]) -> str:
    """Lines of the rows' file as a read or a search prints them, after their numbers."""
    return "\n".join(f"{mark.format(number)}{MANY_ROWS[number]}" for number in numbers)


@pytest.mark.parametrize(
    ("numbers", "mark", "found"),
    [
        ((11, 15, 19), "src/rows.txt:{}:", ["re-fetch"]),
        ((11, 15), "src/rows.txt:{}:", []),
        ((11, 15, 19), "src/rows.txt:9{}:", []),  # like lines of another part
        ((11, 15, 19), "src/old/rows.txt:{}:", []),
    ],
)
def test_three_lines_of_a_search_are_known_by_their_numbers(numbers: Any, mark: str, found: list[str]) -> None:
    search = shown("grep -rn odd src", numbered(mark, numbers))
    read = ("Read", {"file_path": "/src/rows.txt"}, numbered("{:6}→", range(5, 30)))
    assert fetches(search, NOTHING, read) == found


def test_numbers_say_nothing_of_a_file_that_was_edited() -> None:
    search = shown("grep -n odd src/rows.txt", numbered("{}:", range(10, 16)))
    edit = ("Edit", {"file_path": "/src/rows.txt", "old_string": "\n", "new_string": "\nmore\n"}, "ok")
    moved = "\n".join(f"{number + 1:6}→{MANY_ROWS[number]}" for number in range(5, 30))
    read = ("Read", {"file_path": "/src/rows.txt"}, moved)
    assert fetches(search, edit, read) == ["re-fetch"] and fetches(search, NOTHING, read) == []


@pytest.mark.parametrize(
    ("parts", "numbers", "found"), [(3, (6, 16, 26), ["re-fetch"]), (2, (6, 16, 26), []), (2, (6, 16), ["re-fetch"])]
)
def test_a_search_shows_lines_of_several_dropped_reads_again(
    parts: int, numbers: Sequence[int], found: list[str]
) -> None:
    reads = [
        ("Read", {"file_path": "/src/rows.txt", "offset": at}, numbered("{:6}→", range(at, at + 5)))
        for at in (5, 15, 25)[:parts]
    ]
    search = shown("grep -rn rows src", numbered("src/rows.txt:{}:", numbers))
    again = session(*reads, search)
    rows = {answer_of(again, step): 2 * parts + 1 for step in range(parts)}
    assert [case.tier for case in regretted(again, rows).cases] == found


@pytest.mark.parametrize(("end", "found"), [(None, ["re-fetch"]), (20, [])])
def test_long_lines_of_a_search_are_known_without_their_numbers(end: int | None, found: list[str]) -> None:
    reads = [
        shown(f"sed -n '{at},{at + 3}p' src/rows.txt", *(row[:end] for row in MANY_ROWS[at : at + 4]))
        for at in (5, 15, 25)
    ]
    search = shown("grep -n holds src/rows.txt", "\n".join(f"{at}:{MANY_ROWS[at][:end]}" for at in (6, 16, 26)))
    again = session(*reads, search)
    assert [case.tier for case in regretted(again, {answer_of(again, step): 7 for step in range(3)}).cases] == found


def test_the_other_lines_of_a_search_do_not_count_for_a_block_that_lost_none() -> None:
    reads = [
        ("Read", {"file_path": "/src/rows.txt", "offset": at}, numbered("{:6}→", range(at, at + 3 + at // 15)))
        for at in (5, 15)
    ]
    search = shown("grep -rn rows src", numbered("src/rows.txt:{}:", (6, 7, 15, 16)))
    again = session(*reads, (*reads[1],), search)
    assert not regretted(again, {answer_of(again, 1): 7}).cases


def test_a_search_in_a_folder_shows_a_file_that_was_read() -> None:
    search = (
        "Grep",
        {"pattern": "row", "path": "/src", "output_mode": "content"},
        numbered("/src/rows.txt:{}:", range(10, 16)),
    )
    read = ("Read", {"file_path": "/src/rows.txt"}, numbered("{:6}→", range(5, 30)))
    assert fetches(read, NOTHING, search) == ["re-fetch"]
    other = ("Read", {"file_path": "/old/rows.txt"}, numbered("{:6}→", range(5, 30)))
    assert fetches(other, NOTHING, search) == []


def test_a_search_without_a_folder_shows_a_file_that_was_read() -> None:
    read = ("Read", {"file_path": "/src/rows.txt"}, numbered("{:6}→", range(5, 30)))
    found = shown("rg -n holds", numbered("src/rows.txt:{}:", range(10, 16)))
    assert fetches(read, NOTHING, found) == ["re-fetch"]
    assert fetches(read, NOTHING, shown("./report", numbered("src/rows.txt:{}:", range(10, 16)))) == []


@pytest.mark.parametrize(("numbers", "found"), [((10, 20), ["re-fetch"]), ((10,), [])])
def test_a_short_search_fetches_again_all_that_it_shows(numbers: Sequence[int], found: list[str]) -> None:
    read = ("Read", {"file_path": "/src/rows.txt"}, numbered("{:6}→", range(5, 30)))
    assert fetches(read, NOTHING, shown("grep -rn odd src", numbered("src/rows.txt:{}:", numbers))) == found


def test_a_search_in_a_folder_finds_lines_that_an_edit_moved() -> None:
    read = ("Read", {"file_path": "/src/rows.txt"}, numbered("{:6}→", range(5, 30)))
    edit = ("Edit", {"file_path": "/src/rows.txt", "old_string": "\n", "new_string": "\nmore\n"}, "ok")
    search = shown("grep -rn odd src", "\n".join(f"src/rows.txt:{at + 1}:{MANY_ROWS[at]}" for at in (10, 15, 20)))
    assert fetches(read, edit, search) == ["re-fetch"] and fetches(read, NOTHING, search) == []


def test_lines_that_the_agent_wrote_since_are_not_fetched_again() -> None:
    reads = [
        ("Read", {"file_path": "/src/rows.txt", "offset": at}, numbered("{:6}→", (at, at + 1))) for at in (5, 15, 25)
    ]
    texts = {"old_string": "none", "new_string": MANY_ROWS[25]}
    steps = [*reads, NOTHING, ("Edit", {"file_path": "/src/rows.txt", **texts}, "ok")]
    search = shown("grep -n holds src/rows.txt", numbered("{}:", (5, 15, 25)))
    for again, cases in (session(*steps, search), 0), (session(*reads, NOTHING, search), 1):
        rows = {answer_of(again, step): 9 for step in range(3)}
        assert regretted(again, rows).used_later == cases


def test_the_range_of_a_pipe_is_of_the_results_of_a_search() -> None:
    search = shown("grep -n holds src/rows.txt | sed -n '1,9p'", numbered("{}:", range(20, 29)))
    read = ("Read", {"file_path": "/src/rows.txt", "offset": 19, "limit": 10}, "\n".join(MANY_ROWS[19:29]))
    assert fetches(search, NOTHING, read) == ["re-fetch"]
    assert fetches(shown("cat src/rows.txt | sed -n '1,9p'", *MANY_ROWS[1:10]), NOTHING, read) == []


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("git show HEAD:src/rows.txt", ["re-fetch"]),
        ("git show 0f7d7c -- src/rows.txt", ["re-fetch"]),
        ("git show HEAD:src/other.txt", []),
        ("git diff HEAD -- src/rows.txt", []),
    ],
)
def test_git_shows_a_file(command: str, found: list[str]) -> None:
    assert fetches(read_rows(0, 9), NOTHING, shown(command, *ROWS[:9])) == found


@pytest.mark.parametrize(
    ("remaining", "found"),
    [
        ("nothing", ["edit"]),
        (f"   5\t{ROWS[4]}$", []),  # as cat -A prints it
        (f'assert "first\\n{ROWS[4]}\\n" in text', []),
        (f"E   AssertionError: {ROWS[4]} is not in the table", []),
        (ROWS[4].replace(" ", "·"), []),
        (ROWS[4].replace(" ", ", "), ["edit"]),
    ],
)
def test_the_old_text_of_an_edit_remains_in_another_form(remaining: str, found: list[str]) -> None:
    edit = ("Edit", {"file_path": "/src/rows.txt", "old_string": ROWS[4], "new_string": "none"}, "ok")
    assert fetches(read_rows(0, 9), shown("./check", remaining), edit) == found


def test_a_script_that_replaces_texts_edits_a_file() -> None:
    script = "python - <<'PY'\nfrom pathlib import Path\npath = Path('src/rows.txt')\nold = {!r}\n{}\nPY"
    write = "path.write_text(path.read_text().replace(old, 'no row'))"
    assert fetches(read_rows(0, 9), NOTHING, shown(script.format(ROWS[4], write))) == ["edit"]
    assert fetches(read_rows(0, 9), NOTHING, shown(script.format(ROWS[4], "print(old in path.read_text())"))) == []
    assert fetches(read_rows(0, 9), NOTHING, shown("python - <<'PY'\nwrite(\nPY")) == []


def test_an_escape_in_a_script_of_the_session_warns_nobody() -> None:
    script = "python - <<'PY'\nwrite(open('src/rows.txt').read().replace('the \\d row', ''))\nPY"
    effect = analyze_call("Bash", {"command": script})
    assert (effect.changed_paths, effect.replaced_texts) == (("src/rows.txt",), ("the \\d row",))


def test_a_line_that_was_added_elsewhere_is_no_change_of_a_part() -> None:
    texts = {"old_string": "", "new_string": "\n".join(ROWS[:6])}
    edit = ("Edit", {"file_path": "/src/rows.txt", **texts}, "ok")
    found = session(read_rows(0, 9), edit, ("Read", {"file_path": "/src/rows.txt", "limit": 9}, "\n".join(ROWS[:9])))
    edited = next(iter(found.facts.blocks_of(3)))
    cases = regretted(found, {answer_of(found, 0): 5, edited: 5}).cases
    assert [(case.tier, case.message) for case in cases] == [("re-fetch", 3)]


@pytest.mark.parametrize(("path", "found"), [("D:\\src\\rows.txt", ["re-fetch"]), ("D:\\old\\rows.txt", [])])
def test_a_path_may_be_written_with_its_drive_or_as_on_unix(path: str, found: list[str]) -> None:
    assert (
        fetches(("Read", {"file_path": path}, "\n".join(ROWS)), NOTHING, shown("cat /d/src/rows.txt", *ROWS)) == found
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        *[("see src/rows.txt:4", True), ("rows.txt", True), ("+++ b/src/rows.txt", True), ("src\\rows.txt", True)],
        *[("see old/rows.txt", False), ("rows.txt.orig in src", True), ("arrows", False), ("../src/rows.txt", True)],
    ],
)
def test_a_text_mentions_a_file(text: str, found: bool) -> None:
    assert mentions_file(text, "/home/me/src/rows.txt") is found


@pytest.mark.parametrize(
    ("tool", "arguments", "verb"),
    [
        ("run_report", {"command": "ls"}, "run"),
        ("run_report", {"title": "ls"}, ""),
        ("deploy", {"command": "ls"}, ""),
    ],
)
def test_an_unknown_tool_runs_a_command_line_by_its_name_and_arguments(tool: str, arguments: Any, verb: str) -> None:
    assert classify_tool(tool, arguments) == verb


@pytest.mark.parametrize(
    ("command", "script"), [('pwsh -c "gc a.txt"', "gc a.txt"), ('pwsh -c ""', ""), ("pwsh -c '", "'")]
)
def test_the_quotes_around_a_script_are_no_part_of_it(command: str, script: str) -> None:
    assert extract_powershell_script(command) == script


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason="no recordings beside the checkout")
def test_the_development_half_of_the_labels() -> None:
    score = compute_score(list(judge_labels(read_labels("development"), CORPUS)))
    assert score.precision is not None and score.precision >= 0.97
    assert score.recall is not None and score.recall >= 0.95


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason="no recordings beside the checkout")
def test_the_draws_of_the_page_are_up_to_date() -> None:
    outcomes = list(score_judgements(read_judgements(), CORPUS))
    assert PAGE.read_text("utf-8").startswith(format_draws(outcomes)), "run make regret"


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason="no recordings beside the checkout")
def test_the_labels_of_the_page_are_up_to_date() -> None:
    verdicts = list(judge_labels(read_labels(*HALVES), CORPUS))
    assert PAGE.read_text("utf-8").endswith(format_labels(verdicts)), "run make regret"
