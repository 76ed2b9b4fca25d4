"""Instructions: what the rules find, what became of it after a compaction, and what forbids a later call."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_tui.cli import main
from context_tui.session.memory import from_messages
from context_tui.summarizer.checks.instruction_survival import (
    RESTORED_HEADING,
    InstructionSource,
    Outcome,
    PlacedInstruction,
    _read_summary,
    check_instructions,
    find_ban,
    follow_instructions,
    restore_instructions,
    trace_instructions,
)
from context_tui.summarizer.checks.instructions import Instruction, InstructionKind, find_instructions
from context_tui.summarizer.tool_calls import parse_call
from tests.formats.recordings import Recording, call, result, text, usage

REQUIREMENT, PROHIBITION, PREFERENCE = (
    InstructionKind.REQUIREMENT,
    InstructionKind.PROHIBITION,
    InstructionKind.PREFERENCE,
)
SENTENCES = [
    ("Never touch the files in vendor/.", PROHIBITION),
    ("Fix the parser, but do not change its tests.", PROHIBITION),
    ("no console logs in the library!", PROHIBITION),
    ("let's not leave the tests to the end", PROHIBITION),
    ("You must answer in German.", REQUIREMENT),
    ("Use pnpm for every script.", REQUIREMENT),
    ("When you rename something, make sure the docs follow.", REQUIREMENT),
    ("Prefer small commits over large ones.", PREFERENCE),
    ("Fix the parser.", None),
    ("Can you never use tabs?", None),
    ("It never returns a value here.", None),
    ("The cache should be faster after this change.", None),
    ("I don't know why it fails.", None),
    ("if (x) { never(); }", None),
    ("> never quote me on that one", None),
    ("from now on answer in German", REQUIREMENT),
    ("I want you to keep the old API working", REQUIREMENT),
    ("whenever you finish a step, commit it", REQUIREMENT),
    ("After every edit, run the formatter.", REQUIREMENT),
    ("If it needs a file such as a.png, b.png or c.png, search for it first.", REQUIREMENT),
    ("When you think that it is done, please carefully read the task again.", REQUIREMENT),
    ("it's important that we stay compatible with python 3.9", REQUIREMENT),
    ("Ask before you delete anything.", REQUIREMENT),
    ("The reply should only contain the diff.", REQUIREMENT),
    ("We recommend that you write a script for it.", PREFERENCE),
    ("I'd prefer small commits", PREFERENCE),
    ("Do not start the server yourself, I have it running already.", PROHIBITION),
    ("stop adding comments everywhere", PROHIBITION),
    ("we don't want any breaking changes in this release", PROHIBITION),
    ("Just give me the code, no explanations.", PROHIBITION),
    ("<args>never push to main</args>", PROHIBITION),
    ("stop the server", None),
    ("when I click save, nothing happens", None),
    ("before we go on, can you commit it and push?", None),
    ("If you want to disable the cache, set the variable below.", None),
    ("can you collect all that you need to begin with this?", None),
    ("There was a crash, that should never happen.", None),
    ("The manual says that a name is required.", None),
    ("opk: error: the following arguments are required: cmd", None),
    ("No idea why, no error in the log", None),
    ("fix(cache): always store the time", None),
]
FILE_SENTENCES = [
    ("Error messages should start with a lowercase letter.", REQUIREMENT),
    ("Non-trivial work needs a plan.", REQUIREMENT),
    ("Public changes have to be announced.", REQUIREMENT),
    ("IMPORTANT: the lockfile comes from the pipeline only", REQUIREMENT),
    ("Verify that the docs build.", REQUIREMENT),
    ("Keep lines that are short.", REQUIREMENT),
    ("❌ Catching bare exceptions", PROHIBITION),
    ("Use of global state is discouraged.", PROHIBITION),
    ("Release notes are generated automatically.", None),
    ("Support for IPv6 is planned.", None),
    ("The parser never allocates on the hot path.", None),
    ("`make build` compiles everything into `dist/`.", None),
    ("The installer requires Python 3.10.", None),
    ("ARGUMENTS: Analyze the gradient of the segments", None),
]


@pytest.mark.parametrize(("sentence", "kind"), SENTENCES)
def test_a_typed_sentence_is_an_instruction_if_it_sets_a_rule(sentence: str, kind: InstructionKind | None) -> None:
    assert [each.kind for each in find_instructions(f"Here is more.\n\n{sentence}\n\nThat is all.")] == [kind][
        : bool(kind)
    ]


@pytest.mark.parametrize(("sentence", "kind"), FILE_SENTENCES)
def test_a_sentence_in_a_file_of_rules_is_an_instruction_unless_it_describes(
    sentence: str, kind: InstructionKind | None
) -> None:
    found = find_instructions(f"# AGENTS.md\n\n{sentence}\n", is_rule_file=True)
    assert [each.kind for each in found] == [kind][: bool(kind)]


def test_items_below_a_heading_of_rules_need_no_verb() -> None:
    items = "- Tabs, not spaces.\n- Branch names follow the ticket.\n- The server is in Go.\n"
    found = find_instructions(f"## Code style\n{items}\n## Stack\n{items}", is_rule_file=True)
    assert [each.text for each in found] == ["Tabs, not spaces.", "Branch names follow the ticket."]


def test_a_line_ends_a_sentence_if_it_was_broken_on_purpose() -> None:
    source = "- the functions that you changed\n  Make sure that the tests pass\n  with your changes"
    [found] = find_instructions(source)
    assert found.text == "Make sure that the tests pass with your changes"
    wrapped = f"Make sure that {'all of the ' * 5}tests of\nParser pass"
    assert [each.text for each in find_instructions(wrapped)] == [" ".join(wrapped.split())]


RULES = """# AGENTS.md instructions for /src

The service is written in Go.

## Style
- Wrap lines at 100 characters.
- **Names**: choose short ones.

| mistake | remedy |
| --- | --- |
| long functions | Split them by task |

```python
do_not("count me")
```

## Never:
- Commit without a test
"""


def test_a_file_of_rules_has_imperatives_in_lists_and_tables() -> None:
    found = [(each.text, each.kind) for each in find_instructions(RULES, is_rule_file=True)]
    assert found == [
        ("Wrap lines at 100 characters.", REQUIREMENT),
        ("**Names**: choose short ones.", REQUIREMENT),
        ("Split them by task", REQUIREMENT),
        ("Commit without a test", PROHIBITION),
    ]
    assert list(find_instructions("Some steps:\n- Wrap lines at 100 characters.\n- Commit it")) == []


def test_items_say_in_full_what_the_sentence_before_a_list_begins() -> None:
    source = "Each response must include:\n- a plan of two lines\n- exactly one command\n\nGo on."
    assert [each.text for each in find_instructions(source)] == ["a plan of two lines", "exactly one command"]
    banned = list(find_instructions('**NEVER:**\n- "You are right!" (praise)\n- **Puffery:** pivotal, vital'))
    assert [each.kind for each in banned] == [PROHIBITION] * 2
    assert [each.text for each in find_instructions("Each response must include:\n\nnothing")] == [
        "Each response must include:"
    ]


@given(st.text(alphabet="never do not use `a`.\n-|# !?:\"'", max_size=200), st.booleans())
def test_instructions_are_parts_of_the_text_in_order(source: str, is_rule_file: bool) -> None:
    found = list(find_instructions(source, is_rule_file=is_rule_file))
    assert all(" ".join(source[each.start : each.end].split()) == each.text for each in found)
    assert all(first.end <= second.start for first, second in pairwise(found))


def place(words: str, message: int = 0) -> PlacedInstruction:
    [found] = find_instructions(words)
    return PlacedInstruction(message, 0, InstructionSource.USER, found)


NEVER_VENDOR = place("Never touch the files in vendor/.")


@pytest.mark.parametrize(
    ("summary", "outcome"),
    [
        ("The user said: never touch the files  in `vendor/`. Go on.", Outcome.IN_SUMMARY),
        ("Files in vendor must not be touched.", Outcome.IN_OTHER_WORDS),
        ("The files in vendor were touched.", Outcome.ABSENT),
        ("Never touch the files in vendor", Outcome.IN_SUMMARY),
        ("", Outcome.ABSENT),
    ],
)
def test_the_outcome_is_certain_only_if_the_words_are_there(summary: str, outcome: Outcome) -> None:
    [trace] = trace_instructions([NEVER_VENDOR], summary)
    assert trace.outcome is outcome and bool(trace.evidence) == (outcome is Outcome.IN_OTHER_WORDS)
    assert check_instructions([NEVER_VENDOR], summary).ok == (outcome is not Outcome.ABSENT)


@pytest.mark.parametrize("summary", ["The user said: never use pnpm for every script.", "Use pnpm2 for every script."])
def test_other_words_with_the_same_letters_are_not_the_instruction(summary: str) -> None:
    [trace] = trace_instructions([place("Use pnpm for every script.")], summary)
    assert trace.outcome is not Outcome.IN_SUMMARY


def test_absent_instructions_can_be_put_back() -> None:
    others = place("Use pnpm for every script."), NEVER_VENDOR
    restored = restore_instructions(others, "Use pnpm for every script. Done.")
    assert restored.endswith(f"{RESTORED_HEADING}\n- Never touch the files in vendor/.\n")
    assert check_instructions(others, restored).ok
    assert restore_instructions(others, restored) == restored


@pytest.mark.parametrize(
    ("words", "tool", "arguments", "is_violated"),
    [
        ("Never touch the file src/gen.py at all.", "Edit", {"file_path": "/w/src/gen.py"}, True),
        ("Never touch the file src/gen.py at all.", "Read", {"file_path": "/w/src/gen.py"}, False),
        ("Never touch the file src/gen.py at all.", "Edit", {"file_path": "/w/src/gen.pyx"}, False),
        ("Do not run `make deploy` here.", "Bash", {"command": "cd x && make deploy"}, True),
        ("Do not run `make deploy` here.", "Bash", {"command": "make deploy-docs"}, False),
        ("Never push to the remote.", "Bash", {"command": "git push origin main"}, True),
        ("Never force push.", "Bash", {"command": "git push origin main --force"}, True),
        ("Never force push.", "Bash", {"command": "echo 'git push --force'"}, False),
        ("Never run `pip install x`; use `uv add x` instead.", "Bash", {"command": "uv add x"}, False),
        ("Never run `pip install x`; use `uv add x` instead.", "Bash", {"command": "cd y && pip install x"}, True),
    ],
)
def test_a_call_that_does_what_is_forbidden_contradicts(
    words: str, tool: str, arguments: dict[str, str], is_violated: bool
) -> None:
    ban = find_ban(place(words).instruction)
    assert ban is not None
    assert ban.is_violated_by(parse_call({"name": tool, "input": arguments})) == is_violated


@pytest.mark.parametrize("words", ["Never push without asking me.", "Use `make deploy x`.", "Never do that again."])
def test_only_a_ban_without_exception_can_be_contradicted(words: str) -> None:
    assert find_ban(Instruction(0, len(words), PROHIBITION if "Never" in words else REQUIREMENT, words)) is None


def build_recording() -> Recording:
    """Three instructions: one in the summary, one sent again after it, one that is nowhere, and is contradicted."""
    made = Recording()
    made.user("Answer in German. Use pnpm for every script. Never push to the remote. Now fix it.")
    made.assistant(text("ok"), use=usage(10, 0, 50_000))
    made.boundary(50_000)
    made.summary("This session is being continued from a previous conversation. The user: use pnpm for every script.")
    made.user("Answer in German. Go on.")
    made.assistant(call("c1", "Bash", command="git push"), use=usage(10, 0, 9_000))
    made.results(result("c1", "pushed"))
    return made


def test_instructions_are_followed_through_a_recorded_compaction(tmp_path: Path) -> None:
    session = build_recording().open(tmp_path)
    [found] = follow_instructions(session)
    by_text = {trace.placed.instruction.text: (trace.outcome, trace.contradicted_at) for trace in found.traces}
    assert by_text == {
        "Answer in German.": (Outcome.PUT_BACK, None),
        "Use pnpm for every script.": (Outcome.IN_SUMMARY, None),
        "Never push to the remote.": (Outcome.ABSENT, 4),
    }
    assert found.count(Outcome.ABSENT, InstructionSource.RULE_FILE) == 0


@pytest.mark.parametrize(("limit", "code"), [("0", 1), ("1", 0)])
def test_the_command_holds_compactions_to_a_limit(
    limit: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build_recording().open(tmp_path)
    assert main(["aftermath", str(tmp_path), "--max-absent", limit]) == code
    out, err = capsys.readouterr()
    assert "instructions after full compactions" in out and "Never push to the remote." in out
    assert ("1 typed instruction absent; limit 0" in err) == bool(code)
    main(["aftermath", str(tmp_path), "--json"])
    [report] = json.loads(capsys.readouterr().out)["instructions"]
    assert {each["outcome"] for each in report["instructions"]} == {"put back", "in the summary", "absent"}
    assert report["instructions"][-1]["contradicted_at"] == 4


def test_an_instruction_that_was_lost_is_not_lost_again(tmp_path: Path) -> None:
    made = build_recording()
    made.user("Answer in German. Stop.")
    made.assistant(text("ok"), use=usage(10, 0, 50_000))
    made.boundary(50_000)
    made.summary()
    made.assistant(text("ok"), use=usage(10, 0, 9_000))
    first, second = follow_instructions(made.open(tmp_path))
    texts = [[trace.placed.instruction.text for trace in each.traces] for each in (first, second)]
    assert texts[1] == ["Answer in German.", "Use pnpm for every script."] != texts[0]


def test_a_summary_may_be_a_reply() -> None:
    """OpenCode's is a message of the assistant."""
    messages = [
        {"role": "user", "content": "Never touch src/gen.py. Go."},
        {"role": "assistant", "content": "## Goal\nNever touch src/gen.py."},
    ]
    context = from_messages(messages).context_at()
    assert "Never touch src/gen.py." in _read_summary(context, 1)


def test_no_typed_instruction_is_no_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = Recording()
    made.user("fix it")
    made.assistant(text("ok"), use=usage(10, 0, 50_000))
    made.boundary(50_000)
    made.summary()
    made.assistant(text("done"), use=usage(10, 0, 9_000))
    made.open(tmp_path)
    assert main(["aftermath", str(tmp_path), "--max-absent", "0"]) == 4
    assert "too little evidence" in capsys.readouterr().err
