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
        ("async def load_block_sizes(path):", 1),
        ("func (s *Store) load_block_sizes() int {", 1),
        ("LOAD_BLOCK_SIZES=1", 1),
        ("sizes = load_block_sizes(path)", 0),
    ],
)
def test_a_single_name_counts_where_it_is_defined(held: str, cases: int) -> None:
    said = f"Next is {'LOAD_BLOCK_SIZES' if held[0] == 'L' else 'load_block_sizes'}."
    assert len(dropped_first(("Bash", {"command": "./show"}, held), NOTHING, said)) == cases


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


@pytest.mark.skipif(not CORPUS.is_dir(), reason="no recordings beside the checkout")
def test_the_development_half_of_the_labels() -> None:
    score = compute_score(list(judge_labels(read_labels("development"), CORPUS)))
    assert score.precision is not None and score.precision >= 0.97
    assert score.recall is not None and score.recall >= 0.9
