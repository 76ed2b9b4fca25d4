"""Facts of a history: what counts as one, where it is from, and what does not count."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from context_tui.summarizer.checks.facts import (
    MAX_BLOCK_CHARS,
    MAX_FACTS_PER_KIND,
    Fact,
    FactKind,
    FactSource,
    extract_facts,
    extract_text_pieces,
)
from context_tui.summarizer.checks.survival import FactMatcher

Blocks = list[tuple[int, int, str, dict[str, Any], bool]]


def typed(*texts: str, at: int = 0) -> Blocks:
    """Texts of a person, each a message."""
    return [(at + place, 0, "user", {"type": "text", "text": text}, False) for place, text in enumerate(texts)]


def said(text: str, at: int = 10, summary: bool = False) -> Blocks:
    return [(at, 0, "assistant", {"type": "text", "text": text}, summary)]


def called(name: str, at: int = 20, **given: Any) -> Blocks:
    return [(at, 1, "assistant", {"type": "tool_use", "id": "c", "name": name, "input": given}, False)]


def answered(text: Any, at: int = 30, failed: bool = False) -> Blocks:
    block = {"type": "tool_result", "tool_use_id": "c", "content": text, "is_error": failed}
    return [(at, 2, "user", block, False)]


def found(kind: str, *blocks: Blocks, tools: tuple[str, ...] = ()) -> list[Fact]:
    pieces = extract_text_pieces(block for each in blocks for block in each)
    return [fact for fact in extract_facts(pieces, frozenset(tools)) if fact.kind == kind]


def texts(kind: str, *blocks: Blocks, tools: tuple[str, ...] = ()) -> list[str]:
    return [fact.text for fact in found(kind, *blocks, tools=tools)]


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("Add a retry. Never change the public API of the client!", ["Never change the public API of the client!"]),
        ("Please keep\nthe old field names as aliases", ["Please keep the old field names as aliases"]),
        ("- you must run the linter\n- the exporter is slow", ["you must run the linter"]),
        ("Don’t touch vendor code", ["Don’t touch vendor code"]),
        ("Only use the standard library.", ["Only use the standard library."]),
        ("At most 3 retries for the exporter", ["At most 3 retries for the exporter"]),
        ("The export should not lock the database", ["The export should not lock the database"]),
        ("Why must the exporter lock the database?", []),
        ("I don't know which exporter is used here", []),
        ("it only happens with the large exporter", []),
        ("the exporter is slow", []),
        ("don't", []),
        ("```\nif never: must not run the exporter\n```\nthanks", []),
        ("<system-reminder>You must never mention the exporter.</system-reminder>Hello", []),
        ("word " * 70 + "must not lock the database", []),
        ("const must = (exporter) => never(exporter)", []),
    ],
)
def test_a_constraint_is_a_rule_in_what_a_person_typed(text: str, rules: list[str]) -> None:
    assert texts("constraint", typed(text)) == rules
    assert texts("constraint", said(text), answered(text), answered(text, failed=True)) == []


def test_a_constraint_says_where_it_is_from() -> None:
    (rule,) = found("constraint", typed("Hello", "Add a retry.\n\nNever change the wire format."))
    assert (rule.message, rule.block, rule.source, rule.messages) == (1, 0, FactSource.USER, 1)
    assert rule.quote == "Never change the wire format."
    assert (rule.parts, rule.required_parts, rule.negated) == (("chang", "wire", "format"), 2, True)


def test_a_wish_is_no_constraint() -> None:
    rules = texts("constraint", typed("The exporter should be quick.", "It is red. The exporter must be quick today."))
    assert rules == ["The exporter must be quick today."]


def test_paths_of_speech_and_calls_count_those_of_results_when_in_two() -> None:
    listing = "a/listed.py\nb/other.py"
    paths = texts(
        "path",
        typed("Look at src/export.py, please."),
        called("Bash", command="pytest tests/test_export.py"),
        answered(listing),
        answered("b/other.py: 3 lines", at=40),
        said("See https://example.com/docs/guide.html and /dev/null, and all *_test.go or ${x}/b.py"),
    )
    assert paths == ["src/export.py", "tests/test_export.py", "b/other.py"]


def test_one_file_is_one_path_two_of_a_name_are_two() -> None:
    (path,) = found(
        "path", typed("Look at export.py."), called("Edit", file_path="/home/x/src/export.py", new_string="")
    )
    assert (path.parts, path.required_parts, path.messages) == (("home", "x", "src", "export.py"), 1, 2)
    both = found("path", typed("See a/init.py and b/init.py, and init.py"))
    assert [(each.text, each.required_parts) for each in both] == [("a/init.py", 2), ("b/init.py", 2), ("init.py", 1)]


def test_identifiers_are_names_in_calls_or_in_two_messages() -> None:
    names = texts(
        "identifier",
        typed("Rename maxRetries in src/my_file.py; JavaScript too."),
        answered("once_only in a result"),
        answered("HttpClient here", at=31),
        answered("HttpClient there", at=32),
        called(
            "Edit", file_path="a.py", old_string="def run_export(): ...", new_string="def run_export(max_tries): ..."
        ),
        called("TodoWrite", at=21, todos=[{"content": "use TodoWrite"}]),
        said("maxRetries is renamed; __init__ is not; toolu_01AbCdEf is an id, and toolu_01AbCdEf is again", at=50),
        said("toolu_01AbCdEf", at=51),
        tools=("TodoWrite",),
    )
    assert names == ["maxRetries", "run_export", "max_tries", "HttpClient"]


@pytest.mark.parametrize(
    ("result", "failed", "line"),
    [
        (
            "Exit code 1\n+ make\nmake: *** No rule to make target 'lint': not found\nbye",
            True,
            "make: *** No rule to make target 'lint': not found",
        ),
        (
            "Traceback (most recent call last):\n  File x\nValueError: bad magic number",
            True,
            "ValueError: bad magic number",
        ),
        (
            "ok\nE   app.errors.ApiError: quota exceeded today\n1 failed",
            False,
            "app.errors.ApiError: quota exceeded today",
        ),
        (
            "<tool_use_error>String to replace not found in file.</tool_use_error>",
            True,
            "String to replace not found in file.",
        ),
        ("1 passed\nlint warnings here\nmore\nand more", True, ""),
        ("It ended. The server refused the connection. Bye.", True, "The server refused the connection."),
        ("an error is told here", False, ""),
        ("The user doesn't want to proceed with this tool use.", True, ""),
        ("[Old tool result content cleared]", True, ""),
        ([{"type": "text", "text": "fatal: not a git repository"}], True, "fatal: not a git repository"),
    ],
)
def test_an_error_is_the_line_that_says_why(result: Any, failed: bool, line: str) -> None:
    assert texts("error", answered(result, failed=failed)) == ([line] if line else [])


def test_places_in_files_are_no_part_of_what_an_error_says() -> None:
    (error,) = found("error", answered("cmd/strategy/main.go:141:21: undefined: baseCommit", failed=True))
    assert error.parts == ("undefin", "basecommit")


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("wait 30 seconds, or 250ms", ["30 seconds", "250ms"]),
        ("port 8080 and 1,048,576 rows", ["8080", "1,048,576 rows"]),
        ("Python 3.11.4 takes 98.5%", ["3.11.4", "98.5%"]),
        ("fixed in 36ff9a9 today", ["36ff9a9"]),
        ("in 2026, step 3 of 12, line a.py:120, 1 file, issue #4521, v2", []),
    ],
)
def test_numbers_are_said_and_exact_or_with_a_unit(text: str, numbers: list[str]) -> None:
    assert sorted(texts("number", said(text))) == sorted(numbers)
    assert texts("number", answered(text), called("Bash", command=text)) == []


def test_a_fact_is_from_the_weightiest_voice_and_ranks_by_all() -> None:
    blocks = [answered("see src/low.py and src/high.py", at=1), answered("src/low.py src/high.py", at=2)]
    first, second = found("path", *blocks, typed("Mind src/high.py", at=7))
    assert (first.text, first.message, first.source, first.messages) == ("src/high.py", 7, FactSource.USER, 3)
    assert (second.text, second.message, second.source, second.messages) == ("src/low.py", 1, FactSource.RESULT, 2)


def test_an_earlier_summary_is_no_person() -> None:
    block = {"type": "text", "text": "The user must never lock the database in src/a.py"}
    facts = extract_facts(extract_text_pieces([(0, 0, "user", block, True)]))
    assert [(fact.kind, fact.source) for fact in facts] == [(FactKind.PATH, FactSource.SUMMARY)]


def test_so_many_of_a_kind_count() -> None:
    many = typed(" ".join(f"src/file{number}.py" for number in range(MAX_FACTS_PER_KIND + 20)))
    assert len(found("path", many)) == MAX_FACTS_PER_KIND
    assert found("path", many)[0].text == "src/file0.py"


def test_what_looks_like_a_secret_is_no_fact() -> None:
    secret = "AKIAABCDEFGHIJKLMNOP"
    (rule,) = found("constraint", typed(f"You must use the key {secret} for uploads. You must keep uploads small."))
    assert rule.text == "You must keep uploads small."
    (path,) = found("path", typed(f"{secret} is in src/keys.py"))
    assert secret not in path.quote and "[masked" in path.quote


def test_of_a_long_block_both_ends_are_looked_at() -> None:
    middle = "word " * MAX_BLOCK_CHARS
    assert texts("path", typed(f"src/first.py {middle} src/middle.py {middle} src/last.py")) == [
        "src/first.py",
        "src/last.py",
    ]


def growing() -> Iterator[str]:
    yield from (
        "\n",
        "<system-reminder>",
        "+a/",
        "-",
        "...",
        "a",
        "1",
        "1,",
        "E\n",
        "aB",
        "a_",
        "```\n",
        '."',
        "/a",
        "a1",
    )
    yield from ("never ", "must not do it. ", "a/b/c.py ")


@pytest.mark.slow
@pytest.mark.parametrize("unit", growing())
def test_awkward_texts_end(unit: str) -> None:
    text = unit * (60_000 // len(unit))
    extract_facts(extract_text_pieces([*typed(text), *said(text), *answered(text, failed=True)]))
    FactMatcher(text)
