"""What a policy dropped and the run used later: the tiers, what survives, the sums, and the bound."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import context_tui as ct
from context_tui.compaction.changes import Change
from context_tui.compaction.plan import Plan, Trigger
from context_tui.lab.regret.bound import compute_regret_bound
from context_tui.lab.regret.cases import Regret, RegretCase, compute_regret
from context_tui.lab.regret.index import UseIndex, build_use_index
from context_tui.lab.regret.needles import (
    extract_block_text,
    find_lines,
    find_paths,
    is_name,
    is_number,
)
from context_tui.lab.regret.tool_calls import analyze_call
from context_tui.lab.replay.recording import Recording
from context_tui.lab.replay.result import NEVER_REMOVED, CacheCut, CompactionHandling, Firing, ModelCall, Replay
from context_tui.lab.replay.walk import replay
from context_tui.lab.study import Lab
from context_tui.policies.base import Params
from context_tui.policies.parameter_space import build_params
from context_tui.policies.registry import POLICIES
from context_tui.session.context import Body
from context_tui.session.memory import MemoryContent
from context_tui.session.session import Session
from context_tui.session.values import Kind, Role
from tests.formats import recordings
from tests.formats.recordings import call, conversations, result, text

CORPUS = Path(__file__).parents[2] / "shared" / "corpus" / "claude-code"

CODE = """def read_blocks(self):
    for number in range(self.first_block):
        yield self.blocks[number] + offset_of(number)

def other_function(path):
    return path.open(encoding="utf-8").read()
"""
NUMBERED = "\n".join(f"{number:6}→{line}" for number, line in enumerate(CODE.splitlines(), 1))
DONE = [text("Done.")]


def session(*steps: Any) -> Session:
    """A person asks, then come steps: words of the assistant, or a tool, its input and what it answers."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": [text("Fix it")]}]
    for number, step in enumerate(steps):
        if isinstance(step, str):
            messages.append({"role": "assistant", "content": [text(step)]})
            messages.append({"role": "user", "content": [text("Go on")]})
            continue
        tool, arguments, *answer = step
        messages.append({"role": "assistant", "content": [call(f"c{number}", tool, **arguments)]})
        messages.append({"role": "user", "content": [result(f"c{number}", *answer)]})
    return ct.from_messages([*messages, {"role": "assistant", "content": DONE}])


def answer_of(found: Session, step: int) -> int:
    """The row of the block that answers a step; steps begin at message 1."""
    return next(iter(found.facts.blocks_of(2 + 2 * step)))


def replayed(
    found: Session, gone: Mapping[int, int], recorded: CompactionHandling = "keep", firings: Sequence[Firing] = ()
) -> Replay:
    calls = [ModelCall(message, -1) for message in range(len(found)) if found.facts.role[message] == Role.ASSISTANT]
    nothing = [0] * len(calls)
    return Replay(found, "x", None, recorded, calls, nothing, nothing, nothing, firings, gone, {}, nothing)


def regretted(found: Session, gone: Mapping[int, int]) -> Regret:
    """What is regretted where rows of *gone* go before those messages."""
    return compute_regret(replayed(found, gone), build_use_index(found))


def dropped_first(*steps: Any) -> list[RegretCase]:
    """The cases where the answer of the first step goes right before the third message of the assistant."""
    found = session(*steps)
    return list(regretted(found, {answer_of(found, 0): 5}).cases)


READ = ("Read", {"file_path": "/src/app/blocks.py"}, NUMBERED)
LIST = ("Glob", {"pattern": "**/*"}, "/src/app/blocks.py\n/src/app/tests/test_windows.py\n/src/app/setup.py")
NOTHING = ("Bash", {"command": "true"}, "nothing to see here")
EDIT = (
    "Edit",
    {
        "file_path": "/src/app/blocks.py",
        "old_string": '    return path.open(encoding="utf-8").read()',
        "new_string": "    return path.read_text()",
    },
    "ok",
)
UNRELATED = ("Edit", {"file_path": "/src/app/blocks.py", "old_string": "x = 1", "new_string": "x = 2"}, "ok")
PIPE = "sed -n '/def /,/return/p' /src/app/blocks.py | sed -n 7,12p"
SCRIPT = """python3 - <<'PY'
def change(path, old, new):
    text = open(path).read()
    open(path, "w").write(text.replace(old, new))
change("app/blocks.py", 'path.open(encoding="utf-8").read()', "pass")
PY"""


def _print_lines(lines: str, *more_files: str) -> Any:
    """Return a step that prints lines of a file with sed."""
    return "Bash", {"command": " ".join([f"sed -n '{lines}p' /src/app/blocks.py", *more_files])}, CODE


def _read_lines(**lines: int) -> Any:
    """Return a step that reads lines of a file."""
    return "Read", {"file_path": "/src/app/blocks.py", **lines}, NUMBERED


class TestRefetch:
    def test_the_same_file_is_read_again(self) -> None:
        (case,) = dropped_first(READ, NOTHING, READ)
        assert (case.tier, case.message, case.block, case.later, case.dropped) == ("re-fetch", 2, 0, 5, 5)
        assert case.evidence == "read /src/app/blocks.py"
        assert case.needle in CODE
        assert case.tokens == len(NUMBERED.encode()) // 4

    def test_what_went_after_it_was_read_again_is_no_case(self) -> None:
        found = session(READ, NOTHING, READ, NOTHING)
        assert not regretted(found, {answer_of(found, 0): 6}).cases

    def test_an_older_copy_that_is_still_there_is_no_case(self) -> None:
        found = session(READ, NOTHING, READ, NOTHING, READ)
        newer = {answer_of(found, 2): 8}
        assert not regretted(found, newer).cases
        (case,) = regretted(found, newer | {answer_of(found, 0): 8}).cases
        assert (case.message, case.later) == (6, 9)  # of two copies the newer one counts, once

    def test_what_the_agent_changed_meanwhile_is_read_anew(self) -> None:
        found = session(READ, UNRELATED, READ)
        told = regretted(found, {answer_of(found, 0): 5})
        assert (told.used_later, told.refetched_after_edit, told.dropped) == (0, 1, 1)

    def test_an_edit_of_another_file_of_that_name_changed_nothing_here(self) -> None:
        other = ("Edit", {"file_path": "/src/old/blocks.py", "old_string": "x = 1", "new_string": "x = 2"}, "ok")
        assert [case.tier for case in dropped_first(READ, other, READ)] == ["re-fetch"]

    def test_an_edit_that_failed_changed_nothing(self) -> None:
        found = session(READ, NOTHING, READ)
        messages = found.to_messages()
        messages[3]["content"] = [call("c1", *UNRELATED[:1], **UNRELATED[1])]
        messages[4]["content"] = [result("c1", "not found", is_error=True)]
        failed = ct.from_messages(messages)
        assert [case.tier for case in regretted(failed, {answer_of(failed, 0): 5}).cases] == ["re-fetch"]

    @pytest.mark.parametrize(
        "again",
        [
            ("Bash", {"command": "cat /src/app/blocks.py"}, CODE),
            ("Bash", {"command": "cd /src && sed -n '1,3p' app/blocks.py | head -3"}, "\n".join(CODE.splitlines()[:3])),
            (
                "Read",
                {"file_path": "/src/app/blocks.py", "offset": 5, "limit": 2},
                "\n".join(NUMBERED.splitlines()[4:]),
            ),
            ("shell", {"command": ["bash", "-lc", "cat app/blocks.py"]}, CODE),
            (
                "Grep",
                {"pattern": "def", "path": "app/blocks.py"},
                "\n".join(NUMBERED.splitlines()[n].replace("→", ":").strip() for n in (0, 4)),
            ),
        ],
    )
    def test_part_of_the_same_file_is_read_again_in_another_way(self, again: Any) -> None:
        assert [case.tier for case in dropped_first(READ, NOTHING, again)] == ["re-fetch"]

    @pytest.mark.parametrize(
        ("tool", "arguments", "first", "second"),
        [
            ("Bash", {"command": "git status"}, CODE, CODE),  # how things stand, not what there is
            ("Bash", {"command": "make test"}, CODE, CODE),
            ("Bash", {"command": "cat blocks.py > copy.py"}, CODE, CODE),
            ("Bash", {"command": "cat $(ls)"}, CODE, CODE),
            ("TaskList", {}, CODE, CODE),
            ("BashOutput", {"id": "1"}, CODE, CODE),
            ("Grep", {"pattern": "x"}, CODE, CODE + "and something that has come to it since\n"),
            ("Glob", {"pattern": "*.q"}, "none", "none"),
            (
                "Read",
                {"file_path": "/src/app/blocks.py"},
                "a line of it, as long as others",
                "another line\nof the file",
            ),
        ],
    )
    def test_a_call_for_another_reason_is_no_fetch(self, tool: str, arguments: Any, first: str, second: str) -> None:
        assert not dropped_first((tool, arguments, first), NOTHING, (tool, arguments, second))

    def test_two_lines_of_many_do_not_make_a_read_of_the_same_file(self) -> None:
        mixed = "\n".join([*CODE.splitlines()[:2], *(f"{number} is done, too" for number in range(4))])
        assert not dropped_first(READ, NOTHING, ("Bash", {"command": "cat app/blocks.py; echo done"}, mixed))
        assert dropped_first(READ, NOTHING, ("Bash", {"command": "cat app/blocks.py; echo done"}, CODE + "done"))

    def test_a_read_that_gets_mostly_more_fetches_what_was_there(self) -> None:
        part = ("Read", {"file_path": "/src/app/blocks.py", "limit": 3}, "\n".join(NUMBERED.splitlines()[:3]))
        whole = ("Read", {"file_path": "/src/app/blocks.py"}, NUMBERED + "\n     7→and this\n     8→and that")
        assert [case.tier for case in dropped_first(part, NOTHING, whole)] == ["re-fetch"]

    @pytest.mark.parametrize(
        ("first", "second", "cases"),
        [
            (_print_lines("1,6"), _print_lines("7,12"), 0),
            (_print_lines("1,6"), _print_lines("6,12"), 0),  # one line of six is not enough
            (_print_lines("1,6"), _print_lines("4,12"), 1),
            (_print_lines("1,3p;20,26"), _print_lines("7,12p;24,40"), 1),
            (_print_lines("1,3p;20,26"), _print_lines("7,12p;30,40"), 0),
            (_print_lines("1,6"), _print_lines("7,9p' /src/app/blocks.py; sed -n '20,30"), 0),
            (_print_lines("1,6"), ("Bash", {"command": PIPE}, CODE), 1),  # it is not known which lines of the file
            (_read_lines(offset=1, limit=6), _print_lines("7,12"), 0),
            (_read_lines(limit=6), _read_lines(offset=7, limit=6), 0),
            (_read_lines(offset=1, limit=6), _read_lines(offset=3), 1),  # to the end of the file
            (_read_lines(), _read_lines(offset=7, limit=6), 1),
            (_print_lines("1,6", "a.py"), _print_lines("7,12", "a.py"), 1),  # it is not known of which file
        ],
    )
    def test_another_part_of_a_file_may_have_like_lines(self, first: Any, second: Any, cases: int) -> None:
        assert len(dropped_first(first, NOTHING, second)) == cases

    @pytest.mark.parametrize("folder", ["/src/app", "src", ".", "/src/blocks-8.5.1"])
    def test_a_search_in_a_folder_shows_lines_of_its_files(self, folder: str) -> None:
        found = "\n".join(f"app/blocks.py:{number}:{line}" for number, line in enumerate(CODE.splitlines(), 1))
        search = ("Grep", {"pattern": "e", "path": folder, "output_mode": "content"}, found)
        assert [case.tier for case in dropped_first(search, NOTHING, READ)] == ["re-fetch"]
        assert not dropped_first(search, NOTHING, ("Read", {"file_path": "/src/app/names.py"}, NUMBERED))

    def test_an_edit_may_have_moved_the_lines_of_a_file(self) -> None:
        assert dropped_first(_print_lines("1,6"), UNRELATED, _print_lines("7,12"))

    def test_another_file_of_that_name_is_another_file(self) -> None:
        assert not dropped_first(READ, NOTHING, ("Read", {"file_path": "/src/old/blocks.py"}, NUMBERED))

    def test_a_search_with_the_same_result_is_a_fetch(self) -> None:
        (case,) = dropped_first(LIST, NOTHING, LIST)
        assert (case.tier, case.evidence) == ("re-fetch", 'Glob {"pattern":"**/*"}')


class TestEdit:
    @pytest.mark.parametrize(
        ("tool", "arguments"),
        [
            EDIT[:2],
            ("MultiEdit", {"file_path": "/src/app/blocks.py", "edits": [{"old_string": CODE[-45:], "new_string": ""}]}),
            ("str_replace_based_edit_tool", {"command": "str_replace", "path": "app/blocks.py", "old_str": CODE[-45:]}),
            (
                "replace_in_file",
                {"path": "app/blocks.py", "diff": f"<<<<<<< SEARCH\n{CODE}=======\nnothing\n>>>>>>> REPLACE"},
            ),
            (
                "apply_patch",
                {
                    "input": "*** Begin Patch\n*** Update File: app/blocks.py\n@@\n"
                    '-    return path.open(encoding="utf-8").read()\n+    pass\n*** End Patch'
                },
            ),
            ("Bash", {"command": "sed -i 's|path.open(encoding=\"utf-8\").read()|pass|' app/blocks.py"}),
            ("Bash", {"command": "sed -i 's|^path.open(encoding=\"utf-8\")|pass|' app/blocks.py"}),
            ("Bash", {"command": SCRIPT}),
            ("Write", {"file_path": "/src/app/blocks.py", "content": CODE.replace("offset_of(number)", "0")}),
        ],
    )
    def test_old_text_that_only_dropped_content_held(self, tool: str, arguments: Any) -> None:
        if tool == "Bash":  # a part of a line is no line
            whole = ("Bash", {"command": "cat app/blocks.py"}, 'path.open(encoding="utf-8").read()\n' + CODE)
            cases = dropped_first(whole, NOTHING, (tool, arguments, "ok"))
        else:
            cases = dropped_first(READ, NOTHING, (tool, arguments, "ok"))
        assert [(case.tier, case.later) for case in cases] == [("edit", 5)]
        assert "blocks.py" in cases[0].evidence

    def test_old_text_that_stands_elsewhere_too_is_no_case(self) -> None:
        found = session(READ, READ, EDIT)
        assert not regretted(found, {answer_of(found, 0): 5}).cases
        assert [case.message for case in regretted(found, {answer_of(found, 0): 5, answer_of(found, 1): 5}).cases] == [
            4
        ]

    def test_old_text_that_the_agent_wrote_itself_is_no_case(self) -> None:
        write = ("Write", {"file_path": "/src/app/blocks.py", "content": CODE}, NUMBERED)
        assert not dropped_first(write, NOTHING, EDIT)

    def test_a_short_line_says_nothing(self) -> None:
        short = ("Edit", {"file_path": "/src/app/blocks.py", "old_string": "    pass\n", "new_string": ""}, "ok")
        assert not dropped_first(("Read", READ[1], "    1→    pass\n"), NOTHING, short)

    def test_what_is_written_anew_counts_for_the_same_file_only(self) -> None:
        other = ("Write", {"file_path": "/src/app/other.py", "content": CODE}, "ok")
        assert [case.tier for case in dropped_first(READ, NOTHING, other)] == ["reference"]


class TestReference:
    @pytest.mark.parametrize(
        ("held", "said"),
        [
            ("the commit is 3485b12f now", "I take 3485b12f as the base."),
            ("listening, pid 482913", "Now I stop process 482913."),
            ("a: src/deep/window_sizes.py", "Next is `src/deep/window_sizes.py`."),
            ("a: D:\\src\\deep\\window_sizes.py", "Next is src/deep/window_sizes.py"),
            (
                "  12→    total = sum(each.size for each in self.parts)",
                "So:\n\n    total = sum(each.size for each in self.parts)\n",
            ),
            ("def firstRow(x): return lastColumn(x)", "Both firstRow and lastColumn are wrong."),
            ("rows = first_row(x)", "Now first_row is wrong."),
            ("a CommandParser ignores it", "I look for the CommandParser."),
            ("rules/L036.py", "I read src/rules/L036.py"),
            ("the image is flash.zip, then fl4c8429.img", "strings on fl4c8429.img"),
        ],
    )
    def test_something_rare_that_only_dropped_content_held(self, held: str, said: str) -> None:
        (case,) = dropped_first(("Bash", {"command": "./show"}, held), NOTHING, said)
        assert (case.tier, case.message, case.later) == ("reference", 2, 5)
        assert case.needle in said
        assert case.evidence in said

    @pytest.mark.parametrize(
        ("held", "said"),
        [
            ("rows = rowOne(x)", "Now rowOne is wrong."),  # one short name alone may be anyone's
            ("it took 52000 steps", "That is 52000 steps."),
            ("it took 11211 steps", "That is 11211 steps."),
            ("the answer is 1234", "So 1234 it is."),
            ("from package.module import something", "from package.module import something"),
            ("raised a ValueError for session_id", "That is a ValueError for session_id."),
            ("the day has 86400 seconds", "So 86400 it is."),
            ("called write_to_file and read_file", "I use write_to_file and read_file."),
            ("see README.md and ROADMAP.md", "I look at README.md and ROADMAP.md"),
            ("implementation of everything", "The implementation of everything is done."),
            ("either and/or both", "It is and/or both."),
        ],
    )
    def test_what_anybody_may_say_is_no_case(self, held: str, said: str) -> None:
        assert not dropped_first(("Bash", {"command": "./show"}, held), NOTHING, said)

    def test_what_many_blocks_hold_is_lost_where_all_are_dropped(self) -> None:
        commit, name, path = "the commit is 3485b12f now", "def find_base_rows(): ...", "see conf/settings.py"
        for line, said, copies, cases in (
            (commit, "I take 3485b12f as the base.", 50, 1),
            (commit, "I take 3485b12f as the base.", 51, 1),
            (name, "I take find_base_rows as the base.", 50, 1),
            (name, "I take find_base_rows as the base.", 51, 1),
            (path, ("Bash", {"command": "./take conf/settings.py"}, ""), 3, 1),
            (path, "I take conf/settings.py as the base.", 4, 1),
        ):
            found = session(*[("Bash", {"command": "./show"}, line)] * copies, said)
            rows = {answer_of(found, step): 1 + 2 * copies for step in range(copies)}
            assert len(regretted(found, rows).cases) == cases

    def test_what_the_agent_said_before_is_still_there(self) -> None:
        show = ("Bash", {"command": "./show"}, "the commit is 3485b12f now")
        found = session(show, "I take 3485b12f as the base.", "Again 3485b12f.")
        assert not regretted(found, {answer_of(found, 0): 5}).cases
        spoken = next(iter(found.facts.blocks_of(3)))
        assert [case.message for case in regretted(found, {answer_of(found, 0): 5, spoken: 5}).cases] == [3]

    def test_a_phrase_that_the_agent_repeats_is_no_case(self) -> None:
        phrase = "Now let me run the tests once more to see whether they pass."
        found = session(phrase, NOTHING, phrase)
        assert not regretted(found, {next(iter(found.facts.blocks_of(1))): 5}).cases

    def test_what_the_system_prompt_says_is_never_lost(self) -> None:
        show = ("Bash", {"command": "./show"}, "the commit is 3485b12f now")
        plain = session(show, NOTHING, "I take 3485b12f as the base.")
        told = replace(plain, content=MemoryContent(plain.to_messages(), "Work on 3485b12f."))
        gone = {answer_of(plain, 0): 5}
        assert len(regretted(plain, gone).cases) == 1
        assert not regretted(told, gone).cases

    def test_what_two_blocks_can_be_from_is_from_the_one_with_more_of_it(self) -> None:
        more = ("Bash", {"command": "./a"}, "first_row last_column middle_cell")
        less = ("Bash", {"command": "./b"}, "last_column middle_cell")
        found = session(more, less, "All of first_row, last_column, middle_cell.")
        both = {answer_of(found, 0): 5, answer_of(found, 1): 5}
        assert [case.message for case in regretted(found, both).cases] == [2]

    def test_what_an_edit_takes_out_counts_as_that_alone(self) -> None:
        diff = ("Bash", {"command": "./diff"}, CODE)
        found = session(READ, diff, EDIT)
        both = {answer_of(found, 0): 5, answer_of(found, 1): 5}
        assert [(case.tier, case.message) for case in regretted(found, both).cases] == [("edit", 2)]


class TestSums:
    def test_each_block_counts_once_in_its_highest_tier(self) -> None:
        found = session(READ, LIST, EDIT, READ, ("Read", {"file_path": "/src/app/tests/test_windows.py"}, "empty"))
        rows = {answer_of(found, 0): 5, answer_of(found, 1): 5}
        told = regretted(found, rows)
        assert [(case.tier, case.later) for case in told.cases] == [("edit", 5), ("reference", 9)]
        assert (told.dropped, told.used_later) == (2, 1)
        assert told.by_tier == {"re-fetch": 0, "edit": 1, "reference": 1}
        sizes = [found.facts.size[row] // 4 for row in rows]
        assert told.tokens_dropped == sum(sizes) and told.tokens_used_later == sizes[0]
        assert told.tokens_by_tier == {"re-fetch": 0, "edit": sizes[0], "reference": sizes[1]}

    def test_the_highest_tier_counts_though_another_is_earlier(self) -> None:
        (case,) = dropped_first(READ, NOTHING, "Both other_function and read_blocks are wrong.", READ)
        assert (case.tier, case.later) == ("re-fetch", 7)

    def test_the_denominator_is_everything_that_went(self) -> None:
        found = session(READ, NOTHING, READ)
        rows = [0, answer_of(found, 0), answer_of(found, 1)]
        told = regretted(found, dict.fromkeys(rows, 5))
        assert (told.dropped, told.used_later) == (3, 1)
        assert told.tokens_dropped == sum(found.facts.size[row] // 4 for row in rows)

    def test_what_the_recording_lost_itself_is_not_charged(self) -> None:
        found = session(READ, NOTHING, READ)
        row, uses = answer_of(found, 0), build_use_index(found)
        for lost, cases in ((5, 0), (6, 1)):
            told = compute_regret(
                replayed(found, {row: 4}), replace(uses, removed_by_recording={"keep": {row: lost}, "ignore": {}})
            )
            assert told.used_later == cases
        undone = compute_regret(
            replayed(found, {row: 4}, "ignore"), replace(uses, removed_by_recording={"keep": {row: 5}, "ignore": {}})
        )
        assert undone.used_later == 1


class TestTruncated:
    LONG = "\n".join(f"the row {number} of it holds {number * 7919 + 100_003} in all" for number in range(60))

    def cut(self, said: str, *more: tuple[int, str], given: str = "") -> Regret:
        """A long result is cut to its first and last rows, or to *given*, before message 5; *more* happens to it."""
        found = session(("Bash", {"command": "./rows"}, self.LONG), NOTHING, said, NOTHING, said)
        row, lines = answer_of(found, 0), self.LONG.splitlines()
        left = "\n".join([*lines[:5], "[...]", *lines[-5:]])
        body = Body.from_text(given) if given else Body(None, len(left))
        changes = [(5, Change("truncate", body, "x", None if given else lambda content: left))]
        changes += [(at, Change("clear", Body.from_text(words), "x")) for at, words in more]
        firings = [self.firing(found, at, {row: change}) for at, change in changes]
        return compute_regret(replayed(found, {row: 5}, firings=firings), build_use_index(found))

    @staticmethod
    def firing(found: Session, at: int, changes: dict[int, Change]) -> Firing:
        plan = Plan("x", Params(), found.context_at(at), Trigger(True, ""), changes)
        count = {action: sum(each.action == action for each in changes.values()) for action in ("clear", "truncate")}
        return Firing(0, at, at, "x", plan, 0, 0, CacheCut(0), count["clear"], count["truncate"], 0, 0, 0, "")

    def test_what_is_left_at_both_ends_is_no_case(self) -> None:
        assert not self.cut(f"It was {3 * 7919 + 100_003}.").cases
        assert not self.cut(f"It was {58 * 7919 + 100_003}.").cases

    def test_a_cut_whose_text_is_given_leaves_that_text(self) -> None:
        given = f"the row 30 of it holds {30 * 7919 + 100_003} in all"
        assert not self.cut(f"It was {30 * 7919 + 100_003}.", given=given).cases
        assert self.cut(f"It was {3 * 7919 + 100_003}.", given=given).cases

    def test_what_went_from_the_middle_is_one(self) -> None:
        told = self.cut(f"It was {30 * 7919 + 100_003}.")
        (case,) = told.cases
        assert (case.needle, case.later) == (str(30 * 7919 + 100_003), 5)
        assert case.tokens == told.tokens_dropped < len(self.LONG) // 4 - 50

    def test_of_several_things_one_may_be_left_and_another_gone(self) -> None:
        (case,) = self.cut(f"It was {3 * 7919 + 100_003} and {30 * 7919 + 100_003}.").cases
        assert case.needle == str(30 * 7919 + 100_003)

    def test_what_is_cleared_later_is_gone_altogether(self) -> None:
        told = self.cut(f"It was {3 * 7919 + 100_003}.", (8, "[cleared]"))
        assert told.tokens_dropped == len(self.LONG) // 4
        assert not told.cases  # the agent has said it itself before message 9

    def test_what_stands_in_json_is_found(self) -> None:
        line = 'print("the total is", total_of("parts"), "in all of them")'
        content = [{"type": "text", "text": "x" * 3_000 + "\n" + line}]
        found = session(("Bash", {"command": "./x"}, content), NOTHING, f"So:\n{line}")
        cut = replay(found, "agent-sdk-prune", context_budget=1, threshold_pct=0, preserve_tail=0)
        assert not cut.firings  # it looks at recorded sizes alone
        plan = ct.plan(found, "agent-sdk-prune", at=5, max_chars=2_000, preserve_tail=0)
        row = answer_of(found, 0)
        fired = self.firing(found, 5, dict(plan.changes))
        assert not compute_regret(replayed(found, {row: 5}, firings=[fired]), build_use_index(found)).cases


class TestBound:
    def test_a_worked_example(self) -> None:
        found = session(READ, NOTHING, READ, NOTHING)
        first, second, third = (answer_of(found, step) for step in range(3))
        size = found.facts.size[first] // 4
        small = found.facts.size[second] // 4
        told = compute_regret_bound(replayed(found, {first: 7, third: 9}), build_use_index(found))
        # Calls are 1, 3, 5, 7, 9. The first read is used again at 5; each other result until it was seen.
        assert told.results.droppable == [0, 0, 0, small + size, small + 2 * size]
        assert told.results.dropped_unused == [0, 0, 0, size, 2 * size]
        assert told.results.wasted_tokens == 2 * small
        assert told.results.achieved_share == pytest.approx(3 * size / (3 * size + 2 * small))

    def test_without_anything_to_drop_there_is_no_share(self) -> None:
        assert compute_regret_bound(replayed(session(), {}), build_use_index(session())).results.achieved_share is None

    def test_dropping_too_early_is_taken_from_where_it_does_no_harm(self) -> None:
        found = session(READ, NOTHING, READ, NOTHING)
        row, uses = answer_of(found, 0), build_use_index(found)
        early, late = (compute_regret_bound(replayed(found, {row: at}), uses).results.dropped_unused for at in (3, 6))
        assert early == late != [0] * 5

    def test_what_the_recording_lost_cannot_be_dropped(self) -> None:
        found = session(READ, NOTHING, NOTHING, NOTHING)
        row = answer_of(found, 0)
        uses = replace(build_use_index(found), removed_by_recording={"keep": {row: 7}, "ignore": {}})
        kept, undone = (
            compute_regret_bound(replayed(found, {}, mode), uses).results.droppable for mode in ("keep", "ignore")
        )
        size = found.facts.size[row] // 4
        assert [b - a for a, b in zip(kept, undone, strict=True)] == [0, 0, 0, size, size]


STEPS: list[Any] = [
    *(
        READ,
        LIST,
        NOTHING,
        EDIT,
        UNRELATED,
        "The other_function and read_blocks are in /src/app/tests/test_windows.py.",
    ),
    ("Bash", {"command": "cat /src/app/blocks.py"}, CODE),
    ("Bash", {"command": "./show"}, "the commit is 3485b12f, pid 482913"),
    *("I take 3485b12f and stop 482913.", '    return path.open(encoding="utf-8").read()'),
    ("Write", {"file_path": "/src/app/blocks.py", "content": CODE}, "ok"),
]
runs = st.lists(st.sampled_from(STEPS), min_size=1, max_size=12).map(lambda steps: session(*steps))


@st.composite
def drops(draw: st.DrawFn, found: Session) -> dict[int, int]:
    """Any blocks, each gone some time after it came."""
    facts, end = found.facts, len(found)
    rows = draw(st.sets(st.sampled_from(range(len(facts.kind)))))
    return {row: draw(st.integers(min(facts.block_message[row] + 1, end - 1), end - 1)) for row in rows}


class TestAlways:
    @given(st.data())
    @settings(max_examples=60, deadline=None)
    def test_dropping_more_or_earlier_regrets_no_less_and_takes_no_less(self, data: st.DataObject) -> None:
        found = data.draw(runs)
        uses = build_use_index(found)
        less, other = data.draw(drops(found)), data.draw(drops(found))
        more = {
            row: min(less.get(row, NEVER_REMOVED), other.get(row, NEVER_REMOVED)) for row in less.keys() | other.keys()
        }
        small, large = compute_regret(replayed(found, less), uses), compute_regret(replayed(found, more), uses)
        assert {case.row for case in small.cases} <= {case.row for case in large.cases}
        assert small.tokens_used_later <= small.tokens_dropped <= large.tokens_dropped
        assert small.by_tier["re-fetch"] + small.by_tier["edit"] == small.used_later <= small.dropped == len(less)
        assert sum(small.by_tier.values()) == len(small.cases) <= small.dropped
        few, many = compute_regret_bound(replayed(found, less), uses), compute_regret_bound(replayed(found, more), uses)
        for a, b in ((few.results, many.results), (few.everything, many.everything)):
            assert list(a.droppable) == list(b.droppable)
            assert all(
                0 <= x <= y <= most for x, y, most in zip(a.dropped_unused, b.dropped_unused, b.droppable, strict=True)
            )
        assert all(x <= y for x, y in zip(few.results.droppable, few.everything.droppable, strict=True))

    @given(runs)
    @settings(max_examples=60, deadline=None)
    def test_the_bound_is_reached_without_regret(self, found: Session) -> None:
        uses = build_use_index(found)
        calls = [m for m in range(len(found)) if found.facts.role[m] == Role.ASSISTANT]
        gone = {}
        for row in range(len(found.facts.kind)):
            seen = next((message for message in calls if message > found.facts.block_message[row]), NEVER_REMOVED)
            gone[row] = max(seen, uses.find_last_use(row)) + 1
        told = compute_regret(replayed(found, gone), uses)
        assert not told.cases
        best = compute_regret_bound(replayed(found, gone), uses)
        assert list(best.everything.dropped_unused) == list(best.everything.droppable)
        assert list(best.results.dropped_unused) == list(best.results.droppable)

    @given(st.data())
    @settings(max_examples=60, deadline=None)
    def test_what_a_case_shows_is_in_the_dropped_block_and_in_nothing_that_is_left(self, data: st.DataObject) -> None:
        found = data.draw(runs)
        gone = data.draw(drops(found))
        blocks = [(message, block) for message in range(len(found)) for block in found.content.blocks(message)]
        for case in regretted(found, gone).cases:
            assert case.message < case.later
            assert gone[case.row] == case.dropped <= case.later
            assert case.needle in extract_block_text(found.content.blocks(case.message)[case.block])
            if case.tier != "re-fetch":
                assert case.needle in extract_block_text(found.content.blocks(case.later)[case.later_block])
                left = (
                    block
                    for row, (message, block) in enumerate(blocks)
                    if message < case.later and gone.get(row, NEVER_REMOVED) > case.later
                )
                assert not any(case.needle in extract_block_text(block) for block in left)

    @pytest.mark.slow
    @given(recording=conversations(), mode=st.sampled_from(["keep", "ignore"]))
    @settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_any_recording_has_its_regret(
        self, tmp_path: Path, recording: recordings.Recording, mode: CompactionHandling
    ) -> None:
        shared = Recording(recording.open(tmp_path))
        uses = build_use_index(shared)
        run = replay(shared, "koda-microcompact", recorded=mode, gap_seconds=0, keep_recent=0, min_tokens=0)
        told = compute_regret(run, uses)
        assert 0 <= told.used_later <= told.dropped
        share = compute_regret_bound(run, uses).everything
        assert all(0 <= taken <= most for taken, most in zip(share.dropped_unused, share.droppable, strict=True))
        still = Recording(recording.open(tmp_path))
        never = replay(still, "defect-microcompact", recorded=mode, microcompact_ratio=1.0, window=10**8)
        assert never.removed_by_recording.items() <= uses.removed_by_recording[mode].items()


class TestText:
    def test_names_and_numbers(self) -> None:
        names = ["read_blocks", "readBlocks", "HTTPServer", "MAX_LINES", "implementation", "_private", "a_b"]
        assert [name for name in names if is_name(name)] == ["read_blocks", "readBlocks", "MAX_LINES"]
        numbers = ["12345", "1234", "100000", "11111", "3485b12f", "deadbeef", "3485b12", "v3485b12"]
        assert [number for number in numbers if is_number(number)] == ["12345", "3485b12f", "3485b12"]

    def test_paths(self) -> None:
        told = "see src/deep/window_sizes.py, /a/b/index.ts: self.items.append and ./setup.py, C:\\x\\y\\drawing.rs\\n"
        assert find_paths(told) >= {"window_sizes.py", "b/index.ts", "drawing.rs"}
        assert not find_paths("../setup.py no/suffix README.md /usr/local/bin github.com/org-two")
        assert find_paths("src/Main.css ./Pump.css docs/README.md") == {"src/Main.css", "Pump.css", "docs/README.md"}
        assert not find_paths("/home/me/engine-two/src/x @kit/eval@1.2.3")

    def test_lines_are_compared_without_what_readers_put_before_them(self) -> None:
        line = "total = sum(each.size for each in self.parts)"
        before = [
            "   12→\t",
            "12:  ",
            "12-",
            "src/app.py:12:",
            "src\\app.py-12-\t",
            "D:\\app.py:12:",
            "+",
            "-    ",
            "    ",
        ]
        assert find_lines("\n".join(each + line for each in before)) == [line] * len(before)

    def test_what_the_runtime_adds_to_a_result_is_left_out(self) -> None:
        body = "one<system-reminder>\nnothing of this\n</system-reminder>two"
        assert extract_block_text(result("c", body)) == "onetwo"

    @pytest.mark.slow
    @pytest.mark.parametrize("part", ["a", "/", " ", "\t", "1", "\\", ":", "-", "a/", "x-1", "a.py", "\n", "1:", "'"])
    def test_a_long_line_of_anything(self, part: str) -> None:
        many = part * (200_000 // len(part))
        found = session(("Bash", {"command": many}, many), ("Read", {"file_path": many}, many), many)
        assert build_use_index(found).block_count == len(found.facts.kind)


PATCH = "*** Begin Patch\n*** Update File: a/b.py\n@@\n-old\n+new\n*** End Patch"
OTHER_AGENTS: list[tuple[str, Any, str, tuple[str, ...], tuple[str, ...]]] = [
    ("shell", {"command": ["bash", "-lc", "cat a.py"], "workdir": "/x"}, "$ cat a.py", ("a.py",), ()),  # Codex
    ("exec_command", {"cmd": "sed -n 1,5p a.py", "yield_time_ms": 1}, "$ sed -n 1,5p a.py", ("a.py",), ()),
    ("apply_patch", PATCH, "", (), ("a/b.py",)),
    ("shell", {"command": ["apply_patch", PATCH]}, "", (), ("a/b.py",)),
    ("write_stdin", {"session_id": 1, "chars": ""}, "", (), ()),
    ("read", {"filePath": "/a.py", "offset": 2, "limit": 3}, "read /a.py (2, 3)", ("/a.py",), ()),  # opencode
    ("edit", {"filePath": "/a.py", "oldString": "x", "newString": "y"}, "", (), ("/a.py",)),
    ("run_shell_command", {"command": "cat a", "description": "d"}, "$ cat a", ("a",), ()),  # Gemini CLI
    ("read_file", {"absolute_path": "/a.py"}, "read /a.py", ("/a.py",), ()),
    ("read_many_files", {"paths": ["a.py", "b.py"]}, "read a.py b.py", ("a.py", "b.py"), ()),
    ("replace", {"file_path": "a.py", "old_string": "x", "new_string": "y"}, "", (), ("a.py",)),
    ("read_file", {"path": "a.py", "start_line": 3, "end_line": 4}, "read a.py (3, 2)", ("a.py",), ()),  # Cline, Roo
    ("read_file", {"args": {"file": [{"path": "a.py"}]}}, "read a.py", ("a.py",), ()),
    ("read_files", {"files": [{"path": "a.py", "start_line": 2}]}, "read a.py (2, 0)", ("a.py",), ()),
    ("run_commands", {"commands": ["cat a.py", "ls b"]}, "$ cat a.py ls b", ("a.py",), ()),
    ("execute_command", {"command": "cat a.py"}, "$ cat a.py", ("a.py",), ()),
    ("editor", {"path": "a.py", "old_text": "x", "new_text": "y"}, "", (), ("a.py",)),
    ("write_to_file", {"path": "a.py", "content": "x"}, "", (), ("a.py",)),
    ("bash", {"command": "cat a.py", "timeout": 60}, "$ cat a.py", ("a.py",), ()),  # pi, Crush, Copilot CLI
    ("edit", {"path": "a.py", "oldText": "x", "newText": "y"}, "", (), ("a.py",)),
    ("view", {"path": "a.py", "view_range": [1, 9]}, "read a.py (1, 9)", ("a.py",), ()),
    ("create", {"path": "a.py", "file_text": "x"}, "", (), ("a.py",)),
    ("read_bash", {"shellId": "30", "delay": 2}, "", (), ()),
    ("view", {"file_path": "a.py", "offset": 5}, "read a.py (5, 0)", ("a.py",), ()),
    ("execute_bash", {"command": "cat a.py"}, "$ cat a.py", ("a.py",), ()),  # OpenHands
    ("str_replace_editor", {"command": "view", "path": "a.py"}, "read a.py", ("a.py",), ()),
    ("str_replace_editor", {"command": "str_replace", "path": "a.py", "old_str": "x"}, "", (), ("a.py",)),
    ("open", {"path": "a.py", "line_number": 7}, "read a.py 7", ("a.py",), ()),  # SWE-agent
    ("developer__text_editor", {"command": "view", "path": "a.py"}, "read a.py", ("a.py",), ()),  # Goose
    ("developer__text_editor", {"command": "str_replace", "path": "a.py", "old_str": "x"}, "", (), ("a.py",)),
    ("developer__shell", {"command": "cat a.py"}, "$ cat a.py", ("a.py",), ()),
    ("mcp__files__read_file", {"path": "a.py"}, "read a.py", ("a.py",), ()),
]


def powershell(command: str, *reads: str) -> tuple[str, Any, str, tuple[str, ...], tuple[str, ...]]:
    return "PowerShell", {"command": command}, f"$ {command}", reads, ()


def unsafe(command: str) -> tuple[str, Any, str, tuple[str, ...], tuple[str, ...]]:
    return "PowerShell", {"command": command}, "", (), ()


POWERSHELL = [
    powershell("Get-Content C:\\a\\b.py", "C:/a/b.py"),
    powershell("Get-Content -Path src\\b.py -TotalCount 20 | Select-Object -First 5", "src/b.py"),
    powershell("get-content 'a b.txt' -Raw; Get-ChildItem -Recurse", "a b.txt"),
    powershell("Set-Location C:\\x; Get-Content .\\b.py", "C:/x/b.py"),
    powershell("Select-String -Pattern 'def x' -Path a.py,b.py -Context 2", "a.py", "b.py"),
    powershell("Select-String needle a.py", "a.py"),
    powershell("Select-String -Path a.py needle", "a.py"),
    powershell("Select-String -Context 2 needle a.py", "a.py"),
    powershell("gc a.py", "a.py"),
    unsafe("python a.py"),
    ("shell", {"command": ["powershell.exe", "-Command", "gc a.py"]}, "$ gc a.py", ("a.py",), ()),
    ("shell", {"command": ["pwsh", "-NoProfile", "-Command", "type a.py"]}, "$ type a.py", ("a.py",), ()),
    ("bash", {"command": 'powershell -NoProfile -Command "Get-Content a.py"'}, "$ Get-Content a.py", ("a.py",), ()),
    ("shell", {"command": ["cmd.exe", "/c", "type sub\\a.py"]}, "$ type sub\\a.py", ("sub/a.py",), ()),
    ("Bash", {"command": "type a.py"}, "", (), ()),
    unsafe("Get-Content a.py | Set-Content b.py"),
    unsafe("Get-Content a.py > b.py"),
    unsafe("Get-Content a.py | ForEach-Object { Remove-Item $_ }"),
    unsafe("Get-Content $(Get-Date)"),
    unsafe("Get-Content log.txt -Wait"),
    unsafe("Get-Content 'a.py"),
]


@pytest.mark.parametrize(
    ("diff", "old"),
    [
        ("<<<<<<< SEARCH\nold line\n=======\nnew\n>>>>>>> REPLACE", ("old line",)),
        ("<<<<<<< SEARCH\n:start_line:12\n-------\nold line\n=======\nnew\n>>>>>>> REPLACE", ("old line",)),
        ("------- SEARCH\nold\nline\n=======\nnew\n+++++++ REPLACE\n", ("old\nline",)),
    ],
)
def test_the_old_text_of_search_and_replace_blocks(diff: str, old: tuple[str, ...]) -> None:
    assert analyze_call("replace_in_file", {"path": "a.py", "diff": diff}).replaced_texts == old
    assert analyze_call("apply_diff", {"path": "a.py", "diff": diff}).changed_paths == ("a.py",)


def test_a_command_may_be_of_any_type() -> None:
    for command in (["view"], {"view": 1}, 7, None):
        assert analyze_call("helper", {"command": command}) == analyze_call("helper", {})


@pytest.mark.parametrize(
    ("tool", "arguments", "key", "reads", "changes"),
    [
        ("Read", {"file_path": "/a/b.py", "offset": 3, "limit": 4}, "read /a/b.py (3, 4)", ("/a/b.py",), ()),
        ("Read", {"file_path": "C:\\a\\b.py"}, "read C:/a/b.py", ("C:/a/b.py",), ()),
        ("view_file", {"path": "b.py"}, "read b.py", ("b.py",), ()),
        ("mcp__db__list_tables", {"db": "x"}, 'mcp__db__list_tables {"db":"x"}', (), ()),
        ("Bash", {"command": "cat a.py | head -5"}, "$ cat a.py | head -5", ("a.py",), ()),
        (
            "Bash",
            {"command": "cd /x; head -n 5 a.py b.py 2>/dev/null"},
            "$ cd /x; head -n 5 a.py b.py",
            ("/x/a.py", "/x/b.py"),
            (),
        ),
        ("Bash", {"command": "grep -n foo -A 3 a.py"}, "$ grep -n foo -A 3 a.py", ("a.py",), ()),
        ("Bash", {"command": "git log --oneline -3"}, "$ git log --oneline -3", (), ()),
        ("Bash", {"command": "sed -i s/a/b/ a.py"}, "", (), ("a.py",)),
        ("Bash", {"command": "rm -rf a.py"}, "", (), ()),
        ("Bash", {"command": "cat 'a.py"}, "", (), ()),
        ("Bash", {"command": "find . -name x -delete"}, "", (), ()),
        ("Bash", {"command": "cat a.py && make"}, "", (), ()),
        ("Edit", {"file_path": "/a/b.py", "old_string": "x", "new_string": "y"}, "", (), ("/a/b.py",)),
        ("TodoWrite", {"todos": []}, "", (), ()),
        ("Task", {"prompt": "read a.py"}, "", (), ()),
        ("Read", {}, "", (), ()),
        ("anything", "no arguments at all", "", (), ()),
        *OTHER_AGENTS,
        *POWERSHELL,
    ],
)
def test_what_a_call_does(
    tool: str, arguments: Any, key: str, reads: tuple[str, ...], changes: tuple[str, ...]
) -> None:
    found = analyze_call(tool, arguments)
    assert (found.fetch_key, found.read_paths, found.changed_paths) == (key, reads, changes)


def test_the_recorded_compaction_of_a_sample_is_known() -> None:
    found = ct.open_session(Path(__file__).parents[1] / "sample_sessions" / "compacted-session.jsonl")
    recording = Recording(found)
    uses = build_use_index(recording)
    still = replay(recording, "defect-microcompact", microcompact_ratio=1.0, window=10**6)
    assert not still.firings
    assert dict(uses.removed_by_recording["keep"]) == {
        **still.removed_by_recording,
        **uses.removed_by_recording["keep"],
    }
    assert still.removed_by_recording
    assert len(uses.removed_by_recording["ignore"]) < len(uses.removed_by_recording["keep"])


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason="no recordings beside the checkout")
@pytest.mark.parametrize("name", ["cli__compact2_micro1", "oh-my-posh__v2.1.219_compact_b", "cli__image_compact"])
def test_real_recordings(name: str) -> None:
    found = ct.open_session(CORPUS / f"{name}.jsonl").with_window(60_000)
    recording, facts = Recording(found), found.facts
    uses = build_use_index(recording)
    texts = {
        row: extract_block_text(block)
        for message in range(len(found))
        for row, block in zip(facts.blocks_of(message), found.content.blocks(message), strict=True)
    }
    settings: list[tuple[str, dict[str, Any]]] = [
        ("defect-microcompact", {"keep_recent_turns": 1, "min_clear_tokens": 64}),
        ("agent-sdk-prune", {"context_budget": 1, "threshold_pct": 0, "max_chars": 1_000, "preserve_tail": 2}),
    ]
    for policy, params in settings:
        run = replay(recording, policy, **params)
        told, lost = compute_regret(run, uses), uses.removed_by_recording["keep"]
        assert 0 < told.used_later < told.dropped
        for case in told.cases:
            if case.tier != "re-fetch":
                # Part of a longer name is another name, and part of a longer line is another line.
                start = r"^[^A-Za-z]*" if " " in case.needle else r"(?<!\w)"
                needle = re.compile(rf"{start}{re.escape(case.needle)}(?!\w)", re.MULTILINE)
                left = [
                    row
                    for row, each in texts.items()
                    if facts.block_message[row] < case.later
                    and needle.search(each)
                    and min(run.removed_by_policy.get(row, NEVER_REMOVED), lost.get(row, NEVER_REMOVED)) > case.later
                ]
                assert not left
        share = compute_regret_bound(run, uses).results
        assert 0 < sum(share.dropped_unused) < sum(share.droppable)
        assert all(taken <= most for taken, most in zip(share.dropped_unused, share.droppable, strict=True))
        assert any(facts.kind[case.row] == Kind.TOOL_RESULT for case in told.cases)


def test_an_index_is_of_one_session() -> None:
    assert isinstance(build_use_index(session(READ)), UseIndex)


@pytest.mark.parametrize(
    ("use", "tier", "evidence"),
    [
        (READ, "re-fetch", "read /src/app/blocks.py"),
        (EDIT, "edit", 'Edit /src/app/blocks.py: return path.open(encoding="utf-8").read()'),
        ("other_function opens what read_blocks yields.", "reference", "other_function opens what read_blocks yields."),
    ],
)
def test_a_replay_regrets_one_case_of_each_tier(use: Any, tier: str, evidence: str) -> None:
    found = session(READ, "The file is read.", NOTHING, use)
    lab, policy = Lab(found.with_window(100)), POLICIES["defect-microcompact"]
    params = build_params(policy, {"keep_recent_turns": 1, "min_clear_tokens": 30, "microcompact_ratio": 0.5})
    regret = lab.run_study(policy, params).regret
    assert [(case.tier, case.message, case.dropped, case.later) for case in regret.cases] == [(tier, 2, 5, 7)]
    assert regret.cases[0].evidence == evidence and regret.cases[0].needle in NUMBERED
    assert regret.by_tier == {each: int(each == tier) for each in ("re-fetch", "edit", "reference")}
    assert regret.tokens_by_tier[regret.cases[0].tier] == len(NUMBERED.encode()) // 4 > 30
    counted = 0 if tier == "reference" else len(NUMBERED.encode()) // 4  # a name that is said again is no need
    assert (regret.tokens_used_later, regret.used_later, regret.cases[0].is_needed) == (
        counted,
        counted > 0,
        counted > 0,
    )
