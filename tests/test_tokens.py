"""Rulers and the breakdown (systems 1, 2 and 5 of the seed systems)."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import context_tui as ct
from context_tui.session.blocks import bytes_to_tokens
from context_tui.tokens.breakdown import measure_breakdown
from context_tui.tokens.context_index import index_context
from context_tui.tokens.estimators import bytes_to_tokens35
from tests.formats.histories import histories
from tests.formats.recordings import call, result, text, thinking

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 401}}
LINK = {"type": "image", "source": {"type": "url", "url": "https://example.org/é.png"}}


@given(st.integers(0, 10**9))
def test_tokens_of_bytes(size: int) -> None:
    assert bytes_to_tokens(size) == math.floor(size / 4)
    assert bytes_to_tokens35(size) == math.floor(Fraction(size) / Fraction(7, 2))


@pytest.mark.parametrize(
    ("block", "tokens"),
    [
        (text("seven b"), 1),
        (text("é" * 10), 5),
        (text("\ud800" * 4), 3),
        (thinking("abc", "d" * 5), 2),
        ({"type": "thinking", "thinking": "abcd", "signature": None}, 1),
        ({"type": "redacted_thinking", "data": "x" * 400}, 0),
        (call("a-very-long-id", "Bash"), (4 + 2) // 4),
        (call("t", "Bash", n=1.0, s="é", c="\x01\n"), (4 + len('{"n":1.0,"s":"é","c":"\\u0001\\n"}'.encode())) // 4),
        (call("t", "B", big=1e16, small=1e-6), (1 + len('{"big":1e16,"small":1e-6}')) // 4),
        (result("t", "x" * 11), 2),
        (result("t", None), 0),
        ({"type": "tool_result", "tool_use_id": "t"}, 0),
        (result("t", {"a": [1, "é"]}), len('{"a":[1,"é"]}'.encode()) // 4),
        (result("t", [text("abc"), text("abc")]), 1),
        (result("t", [text("abc"), IMAGE]), 101),
        (result("t", [text("abc"), LINK]), 7),
        (result("t", [text("abc"), {"type": "other"}]), len('[{"type":"text","text":"abc"},{"type":"other"}]') // 4),
        (result("t", []), 0),
        (IMAGE, 2_000),
        ({"type": "server_tool_use", "input": "x" * 4_000}, 0),
        ({}, 0),
    ],
)
def test_bytes_4(block: dict[str, Any], tokens: int) -> None:
    assert ct.tokens.estimate(block) == tokens
    assert ct.tokens.estimate({"role": "user", "content": [block, block]}) == 2 * tokens


def test_what_can_be_estimated() -> None:
    session = ct.from_messages([{"role": "user", "content": "x" * 35}, {"role": "assistant", "content": []}])
    assert ct.tokens.estimate(session) == ct.tokens.estimate(session.context_at()) == 8
    assert ct.tokens.estimate(session, "bytes/3.5") == ct.tokens.estimate(session.context_at(), "bytes/3.5") == 10
    assert ct.tokens.estimate(session.context_at(0)) is None
    assert ct.tokens.estimate({"role": "user", "content": "x" * 35}, "bytes/3.5") == 10
    with pytest.raises(ct.PlanError, match=r"bytes/4, bytes/3\.5"):
        ct.tokens.estimate(session, "bytes/5")


@settings(max_examples=30)
@given(messages=histories())
def test_a_session_is_the_sum_of_its_messages(messages: list[dict[str, Any]]) -> None:
    session = ct.from_messages(messages)
    for name in ("bytes/4", "bytes/3.5"):
        assert ct.tokens.estimate(session, name) == sum(ct.tokens.estimate(m, name) or 0 for m in messages)


def test_histories() -> None:
    history = ct.tokens.History()
    assert [history.tokens] == [None]
    history.append({"role": "user", "content": "x" * 40})
    assert [history.tokens] == [10]
    history.record(5_000)
    assert history.tokens == 5_000
    history.append({"role": "assistant", "content": "x" * 80})
    assert history.tokens == 5_020, "the reply is the first message of the delta"
    history.truncate(2)
    history.truncate(9)
    assert history.tokens == 5_020, "truncating to the same or a longer length changes nothing"
    history.truncate(1)
    assert history.tokens == 10
    history.record(7_000)
    history.splice(5, "s" * 20)
    assert [history.tokens, len(history)] == [5, 1]
    history.record(9)
    history.replace([])
    assert history.tokens is None
    history.record(0)
    assert history.tokens == 0, "an empty history with a real count has it"
    history.splice(0, {"role": "assistant", "content": "s" * 8})
    assert [history.tokens, len(history)] == [2, 1]


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 99)),
        st.tuples(st.just("record"), st.integers(0, 99)),
        st.tuples(st.just("truncate"), st.integers(0, 9)),
        st.tuples(st.just("splice"), st.integers(0, 9)),
    ),
    max_size=30,
)


@given(operations=OPERATIONS)
def test_histories_against_the_definition(operations: list[tuple[str, int]]) -> None:
    history, tokens, baseline, since = ct.tokens.History(), list[int](), None, 0
    for name, number in operations:
        match name:
            case "append":
                history.append({"role": "user", "content": "x" * 4 * number})
                tokens.append(number)
            case "record":
                history.record(number)
                baseline, since = number, len(tokens)
            case "truncate":
                history.truncate(number)
                if number < len(tokens):
                    tokens, baseline, since = tokens[:number], None, 0
            case "splice":
                history.splice(number, "s" * 12)
                tokens, baseline, since = [3, *tokens[number:]], None, 0
        expected = sum(tokens) if baseline is None else baseline + sum(tokens[since:])
        assert history.tokens == (expected if tokens or baseline is not None else None)


# -- where it went


def where(*messages: dict[str, Any]) -> Any:
    return measure_breakdown(ct.from_messages(list(messages)).context_at())


@settings(max_examples=30)
@given(messages=histories())
def test_categories_add_up(messages: list[dict[str, Any]]) -> None:
    context = ct.from_messages(messages).context_at()
    parts = measure_breakdown(context)
    assert sum(parts.by_category.values()) == index_context(context).total
    assert sum(share.result_tokens for share in parts.by_tool) == parts.by_category["tool_result"]
    assert list(parts.by_category) == (
        "system tools not_in_file user assistant thinking tool_use tool_result injected summary image put_back".split()
    )


def read(number: int, path: str, size: int, tool: str = "Read") -> list[dict[str, Any]]:
    return [
        {"role": "assistant", "content": [call(f"t{number}", tool, file_path=path)]},
        {"role": "user", "content": [result(f"t{number}", "x" * size)]},
    ]


def test_duplicate_reads() -> None:
    parts = where(
        *read(1, "a", 400), *read(2, "b", 400), *read(3, "a", 404), *read(4, "a", 401), *read(5, "b", 0, "Edit")
    )
    assert [(r.path, r.count, r.tokens, r.wasted) for r in parts.duplicate_reads] == [("a", 3, 301, 200)]
    assert [(s.tool, s.calls, s.result_tokens) for s in parts.by_tool] == [("Read", 4, 401), ("Edit", 1, 0)]


@pytest.mark.parametrize(
    ("tool", "first", "again", "wasted"),
    [
        ("view", {"path": "a"}, {"path": "a"}, 100),  # Copilot CLI
        ("view", {"path": "a", "view_range": [1, 50]}, {"path": "a", "view_range": [51, -1]}, 0),
        ("view", {"file_path": "a"}, {"file_path": "a"}, 100),  # Crush
        ("read", {"filePath": "a"}, {"filePath": "a"}, 100),  # opencode
        ("read_file", {"absolute_path": "a"}, {"absolute_path": "a"}, 100),  # Gemini CLI
    ],
)
def test_reads_of_other_agents(tool: str, first: dict[str, Any], again: dict[str, Any], wasted: int) -> None:
    messages = [
        message
        for number, given in enumerate((first, again))
        for message in (
            {"role": "assistant", "content": [call(f"t{number}", tool, **given)]},
            {"role": "user", "content": [result(f"t{number}", "x" * 400)]},
        )
    ]
    assert [(r.path, r.wasted) for r in where(*messages).duplicate_reads if r.wasted] == [("a", wasted)] * bool(wasted)


def test_the_diagnosis_line() -> None:
    assert where(*read(1, "a", 1_749)).diagnosis is None, "499 tokens of bytes / 3.5"
    assert where(*read(1, "a", 1_750)).diagnosis == "Read: ~500 tok"
    four = [*read(1, "a", 350), *read(2, "a", 700, "Bash"), *read(3, "a", 1_050, "Grep"), *read(4, "a", 1_400, "Glob")]
    assert where(*four, *read(5, "a", 35_000, "Edit")).diagnosis == "Glob: ~400 tok, Grep: ~300 tok, Bash: ~200 tok"
    assert where(*read(1, "a", 35_000, "Edit")).diagnosis is None, "no compactable tool"
    only_together = [*read(1, "a", 350), *read(2, "a", 1_400, "Edit")]
    assert where(*only_together).diagnosis == "Read: ~100 tok", "every tool counts for the floor"


def test_summaries_are_told_apart() -> None:
    parts = where(
        {
            "role": "assistant",
            "content": "[Compacted context summary — earlier conversation was condensed to save context.]\nx",
        },
        {"role": "user", "content": "y" * 40},
    )
    assert parts.by_category["summary"] > 0 and parts.by_category["user"] == 10 and parts.by_category["assistant"] == 0
