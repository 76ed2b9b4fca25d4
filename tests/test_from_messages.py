"""Messages handed over in Python: whatever they are, there is a session that anything can be done with, or an Error."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import context_tui as ct
from context_tui.export.files import export, list_writable_formats
from context_tui.policies.registry import POLICIES

WORDS = st.sampled_from(
    ["user", "assistant", "system", "text", "tool_use", "tool_result", "thinking", "image", "", "x", "\ud800", "é"]
)
NAMES = st.sampled_from(
    ["role", "content", "type", "text", "id", "name", "input", "tool_use_id", "is_error", "source", "signature", "x"]
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([10**399, -(10**400), 2**64, 10**3_999, 10**4_200]),
    st.floats(),
    WORDS,
)
ODD = st.one_of(
    st.binary(max_size=3),
    st.sampled_from([object(), datetime.date(2026, 1, 1), {1, 2}, (1, 2), 1j, range(3), int, len]),
    st.builds(bytearray),
)


def nested(inside: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(inside, max_size=4),
        st.dictionaries(NAMES, inside, max_size=4),
        st.dictionaries(WORDS, inside, max_size=2),
    )


JSON = st.recursive(SCALARS, nested, max_leaves=12)
ANYTHING = st.recursive(
    SCALARS | ODD,
    lambda inside: nested(inside) | st.dictionaries(st.sampled_from([1, None, (1, 2), b"x"]), inside, max_size=2),
    max_leaves=12,
)
BLOCKS = st.fixed_dictionaries(
    {"type": WORDS | JSON},
    optional={
        "text": WORDS | JSON,
        "id": WORDS | JSON,
        "name": WORDS | JSON,
        "input": JSON,
        "tool_use_id": WORDS | JSON,
        "content": JSON | st.lists(st.fixed_dictionaries({"type": WORDS | JSON}, optional={"text": JSON}), max_size=3),
        "is_error": JSON,
        "source": JSON,
        "thinking": WORDS | JSON,
        "signature": JSON,
    },
)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant"]), "content": WORDS | st.lists(BLOCKS, max_size=3)}
    ),
    max_size=5,
)


def deep(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


def circle() -> Any:
    value: list[Any] = []
    value += [value, value]
    return value


def done_with(messages: Any) -> None:
    """Everything that is done with a session, where there is one."""
    try:
        session = ct.from_messages(messages)
    except ct.Error as error:
        assert type(error) is ct.UnreadableSession
        assert "\n" not in str(error) and str(error).startswith("message")
        return
    assert session.to_messages() is not None
    ct.tokens.estimate(session)
    for name in POLICIES:
        if name == "chain":
            continue
        plan = ct.plan(session, name, cut=len(session)) if name == "manual" else ct.plan(session, name)
        ct.apply(session, plan, "## Goal\n- all" if plan.needs_summary else None).to_messages()


@pytest.mark.slow
@given(ANYTHING | JSON | st.lists(ANYTHING, max_size=3) | MESSAGES)
@example(None)
@example("messages")
@example({"role": "user", "content": "x"})
@example([None])
@example([{"role": "user"}])
@example([{"role": ["user"], "content": "x"}])
@example([{"role": "user", "content": ["x"]}])
@example([{"role": "user", "content": [{"type": ["text"]}]}])
@example([{"role": "user", "content": [{"type": "tool_use", "name": "Read", "input": ["file_path"]}]}])
@example([{"role": "user", "content": [{"type": "tool_result", "content": {1: 2}}]}])
@example([{"role": "user", "content": [{"type": "tool_result", "content": {"a": b"bytes"}}]}])
def test_anything_is_a_session_or_an_error(messages: Any) -> None:
    done_with(messages)


@pytest.mark.parametrize(
    "content", [deep(150), deep(198), deep(5_000), circle()], ids=["150", "198", "5,000", "circle"]
)
def test_nesting_has_an_end(content: Any) -> None:
    done_with([{"role": "user", "content": [{"type": "tool_result", "content": content}]}])


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        (None, "messages: a value of type NoneType, not a list"),
        ({"role": "user"}, "messages: a value of type dict, not a list"),
        (["x"], "message 0: a value of type str, not an object"),
        (
            [{"role": "user", "content": "x"}, {"content": "x"}],
            "message 1: its role is missing; give user or assistant",
        ),
        ([{"role": "tool", "content": "x"}], "message 0: its role is 'tool'; give user or assistant"),
        ([{"role": "user", "content": 3}], "message 0: its content is a value of type int; give a string or a list"),
        ([{"role": "user", "content": [3]}], "message 0: block 0: a value of type int, not an object"),
        ([{"role": "user", "content": [{"type": 3}]}], "message 0: block 0: its type is a value of type int"),
        (
            [{"role": "user", "content": [{"type": "text", "text": 3}]}],
            "message 0: block 0: its text is a value of type",
        ),
        (
            [{"role": "user", "content": "x", "more": {1}}],
            "message 0: holds a value of type set, which JSON cannot hold",
        ),
        ([{"role": "user", "content": "x", "more": 10**4_100}], "message 0: holds an integer of over 4,000 digits"),
    ],
)
def test_the_error_names_what_is_wrong_where(messages: Any, said: str) -> None:
    with pytest.raises(ct.UnreadableSession) as caught:
        ct.from_messages(messages)
    assert str(caught.value).startswith(said)


def test_what_an_iterator_gives_is_kept() -> None:
    session = ct.from_messages({"role": "user", "content": str(number)} for number in range(3))
    assert [message["content"][0]["text"] for message in session.to_messages()] == ["0", "1", "2"]


@pytest.mark.slow
@given(MESSAGES)
def test_what_is_a_session_can_be_written(tmp_path_factory: pytest.TempPathFactory, messages: Any) -> None:
    try:
        session = ct.from_messages(messages)
    except ct.Error:
        return
    folder: Path = tmp_path_factory.mktemp("out")
    for name in list_writable_formats():
        try:
            export(session, folder / name, name)
        except ct.Error as error:
            assert json.dumps(str(error))
