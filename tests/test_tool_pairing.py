"""Pairs of calls and results: what is orphaned, and histories made acceptable."""

from __future__ import annotations

import copy
import itertools
import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_tui.compaction.tool_pairing import (
    MISSING_RESULT_TEXT,
    MISSING_START_TEXT,
    NOTE_MESSAGES_MERGED,
    NOTE_RESULTS_ADDED,
    Orphan,
    assign_unique_ids,
    compare_orphans,
    find_unpaired,
    get_content_blocks,
    repair,
    repair_minimally,
    repair_orphans,
)
from context_tui.formats.kit.writing import convert_body_to_text
from context_tui.session.blocks import body_to_text, is_block_list
from context_tui.session.losses import Losses
from context_tui.summarizer.request import clean_messages

Message = dict[str, Any]


def call(call_id: str, name: str = "Read") -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {}}


def result(call_id: str, content: Any = "ok", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def user(*content: Any) -> Message:
    return {"role": "user", "content": list(content)}


def assistant(*content: Any) -> Message:
    return {"role": "assistant", "content": list(content)}


GO: Message = {"role": "user", "content": "go"}
FINE = [GO, assistant(text("a"), call("1"), call("2")), user(result("2"), result("1")), assistant(text("b"))]


def test_a_fine_history_has_no_problems_and_stays_as_it_is() -> None:
    assert not find_unpaired(FINE)
    repaired, notes = repair(FINE)
    assert notes == []
    assert all(a is b for a, b in zip(repaired, FINE, strict=True))
    assert repair([]) == ([], [])
    assert not find_unpaired([])


def test_orphans() -> None:
    history = [user(result("0")), assistant(call("1"), call("2")), user(result("1"), result("3"), result("1"))]
    found = find_unpaired(history)
    assert found == (
        Orphan("call", 1, 1, "2"),
        Orphan("result", 0, 0, "0"),
        Orphan("result", 2, 1, "3"),
        Orphan("result", 2, 2, "1"),
    )


def test_a_late_result_is_no_answer() -> None:
    history = [GO, assistant(call("1")), user(text("wait")), assistant(text("?")), user(result("1"))]
    assert [orphan.kind for orphan in find_unpaired(history)] == ["call", "result"]


def test_pending_calls_at_the_very_end_are_fine() -> None:
    assert not find_unpaired([GO, assistant(call("1"), call("2"))])
    for others in ([user(text("never mind"))], [assistant(text("never mind"))]):
        assert find_unpaired([GO, assistant(call("1")), *others]) == (Orphan("call", 1, 0, "1"),)
    assert find_unpaired([GO, assistant(call("1"), call("2")), user(result("1"))]) == (Orphan("call", 1, 1, "2"),)


def test_neighbours_of_one_role_count_as_one() -> None:
    assert not find_unpaired([GO, assistant(call("1")), assistant(call("2")), user(result("1")), user(result("2"))])


def test_compare() -> None:
    before = [GO, assistant(call("1")), GO, assistant(call("2")), user(result("2"))]
    after = [{"role": "assistant", "content": "summary"}, assistant(call("1")), user(result("2")), user(result("2"))]
    inherited, introduced = compare_orphans(before, after)
    assert inherited == [Orphan("call", 1, 0, "1")]
    assert introduced == [Orphan("result", 2, 0, "2"), Orphan("result", 3, 0, "2")]
    # As often as before, no more.
    twice = [*before, assistant(call("1")), GO]
    assert compare_orphans(before, twice)[1] == [Orphan("call", 5, 0, "1")]


def test_missing_results_are_added_first() -> None:
    repaired, notes = repair([GO, assistant(call("1"), call("2")), user(text("stop"), result("2"))])
    added = result("1", MISSING_RESULT_TEXT, is_error=True)
    assert repaired[2]["content"] == [result("2"), added, text("stop")]
    assert notes == [
        "placeholder results added for calls without one: 1",
        "user messages reordered to begin with their results: 1",
    ]


def test_pending_calls_are_answered_in_a_request_and_kept_in_an_export() -> None:
    history = [GO, assistant(call("0")), user(text("on")), assistant(call("1"))]
    missing = [user(result(name, MISSING_RESULT_TEXT, is_error=True)) for name in ("0", "1")]
    missing[0]["content"].append(text("on"))
    assert repair(history)[0] == [*history[:2], missing[0], history[3], missing[1]]
    assert repair_minimally(history).messages == [*history[:2], missing[0], history[3]]


def test_orphan_results_become_labelled_text() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
    bodies: list[tuple[dict[str, Any], str]] = [
        (result("9", "body"), "[tool result without its call, id 9]\nbody"),
        (result("9", {"a": 1.0}, is_error=True), '[tool error without its call, id 9]\n{"a":1.0}'),
        (result("9", [text("x"), text("y")]), "[tool result without its call, id 9]\nxy"),
    ]
    for block, expected in bodies:
        repaired, notes = repair([user(block, text("and"))])
        assert repaired == [user(text(expected), text("and"))]
        assert len(notes) == 1
    assert repair([user(result("9", [text("x"), image]))])[0][0]["content"][1] == image


def test_the_user_begins() -> None:
    repaired, notes = repair([assistant(text("summary")), GO])
    assert repaired[0] == user(text(MISSING_START_TEXT))
    assert notes == ["user messages added at the start: 1"]


def test_blanks_go_and_roles_alternate() -> None:
    history = [GO, user(text(" ")), user(text("more"), text("")), {"role": "assistant", "content": None}, GO]
    repaired, notes = repair(history)
    assert repaired == [user(text("go"), text("more"), text("go"))]
    assert [note.rsplit(": ")[1] for note in notes] == ["2", "1", "2"]


def test_equal_ids_get_ids_of_their_own() -> None:
    history = [GO, assistant(call("1")), user(result("1", "a")), assistant(call("1")), user(result("1", "b"))]
    repaired, notes = repair(history)
    assert repaired[3:] == [assistant(call("1-2")), user(result("1-2", "b"))]
    assert len(notes) == 1


def test_blocks_on_the_wrong_side() -> None:
    repaired, _ = repair([user(call("1")), assistant(result("2"))])
    assert not find_unpaired(repaired)
    assert [block["type"] for message in repaired for block in message["content"]] == ["text", "text"]


ids = st.sampled_from(["1", "2", "3", ""])
blocks = st.one_of(
    st.builds(call, ids),
    st.builds(result, ids, st.sampled_from(["ok", "", None, [], [{"type": "text", "text": "x"}], {"k": [1]}, 7])),
    st.builds(text, st.sampled_from(["hi", "", " \n"])),
    st.just({"type": "thinking", "thinking": "hm"}),
    st.just({"type": "tool_use"}),
    st.just({"type": "tool_result"}),
)
contents = st.one_of(st.sampled_from(["hello", "", " ", None, 3]), st.lists(blocks, max_size=4))
histories = st.lists(
    st.builds(
        lambda role, content: {"role": role, "content": content}, st.sampled_from(["user", "assistant"]), contents
    ),
    max_size=8,
)


@given(histories)
def test_repaired_histories_are_acceptable(history: list[Message]) -> None:
    original = copy.deepcopy(history)
    repaired, notes = repair(history)
    assert history == original
    assert not find_unpaired(repaired)
    assert find_unpaired(history) == find_unpaired(original)
    assert bool(notes) or repaired == history
    assert all(a["role"] != b["role"] for a, b in itertools.pairwise(repaired))
    called: list[Any] = []
    for message in repaired:
        assert message["content"]
        kinds = [block["type"] for block in message["content"]] if isinstance(message["content"], list) else ["text"]
        assert kinds == sorted(kinds, key=lambda kind: kind != "tool_result")
        assert ("tool_result" if message["role"] == "assistant" else "tool_use") not in kinds
        called += [b["id"] for b in message["content"] if b["type"] == "tool_use"] if "tool_use" in kinds else []
    assert len(called) == len(set(called))
    if repaired:
        assert repaired[0]["role"] == "user"
        assert "tool_use" not in [b["type"] for b in repaired[-1]["content"] if isinstance(b, dict)]
    assert repair(repaired) == (repaired, [])


@given(histories)
def test_nothing_said_is_lost(history: list[Message]) -> None:
    def said(messages: list[Message]) -> list[str]:
        return sorted(
            block["text"]
            for message in messages
            for block in (
                message["content"] if isinstance(message["content"], list) else [text(str(message["content"]))]
            )
            if block["type"] == "text" and block["text"] in ("hi", "hello")
        )

    assert said(repair(history)[0]) == said(history)


@given(histories)
def test_compare_splits_the_problems(history: list[Message]) -> None:
    inherited, introduced = compare_orphans(history, history)
    assert inherited == [*find_unpaired(history)]
    assert introduced == []
    assert len(compare_orphans([], history)[1]) == len(inherited)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("words", "words"),
        (None, ""),
        ([], ""),
        ([{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}], "ab"),
        ([{"type": "text"}, {"type": "other"}], '[{"type":"text"},{"type":"other"}]'),
        (["a"], '["a"]'),
        ({"type": "text"}, '{"type":"text"}'),
    ],
)
def test_a_body_is_the_same_text_wherever_it_becomes_text(body: Any, text: str) -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": body}
    mended = repair([{"role": "user", "content": [result]}])[0][0]["content"][0]["text"]
    assert mended.partition("\n")[2] == convert_body_to_text(result, Losses()) == body_to_text(body) == text
    sent = clean_messages([{"role": "user", "content": [result]}])[0]["content"][0]["content"]
    assert isinstance(sent, list) == is_block_list(body)


@given(histories, st.data())
def test_only_these_orphans_are_mended(history: list[Message], data: st.DataObject) -> None:
    named = [{**message, "content": get_content_blocks(message)} for message in assign_unique_ids(history)[0]]
    orphans = find_unpaired(named)
    chosen = data.draw(st.lists(st.sampled_from(orphans), unique=True)) if orphans else []
    messages, sources, _ = repair_orphans(named, chosen)
    # Nobody can answer a call that the user made.
    stay = {each[1:3] for each in orphans if each not in chosen or is_of_the_user(named, each)}
    places = [sources[each.message].blocks[each.block] for each in find_unpaired(messages)]
    assert len(places) == len(stay) and set(places) == stay


def is_of_the_user(messages: list[Message], orphan: Orphan) -> bool:
    return orphan.kind == "call" and messages[orphan.message]["role"] == "user"


def test_a_call_is_answered_behind_the_whole_turn() -> None:
    history = [GO, assistant(call("1"), call("2")), user(text("")), assistant(text("a note")), user(result("2"), GO)]
    messages, _, notes = repair_orphans(history, [Orphan("call", 1, 0, "1")])
    added = result("1", MISSING_RESULT_TEXT, is_error=True)
    assert messages == [*history[:-1], user(result("2"), added, GO)]
    assert notes == {NOTE_RESULTS_ADDED: 1}


def test_a_call_in_the_last_turn_is_answered_before_calls_that_are_pending() -> None:
    history = [GO, assistant(call("1")), assistant(call("2"))]
    messages, _, _ = repair_orphans(history, [Orphan("call", 1, 0, "1")])
    assert messages == [*history[:2], user(result("1", MISSING_RESULT_TEXT, is_error=True)), history[2]]
    assert not find_unpaired(messages)


@given(histories, st.sets(st.integers(0, 8)))
def test_what_stays_apart_breaks_no_pair(history: list[Message], apart: set[int]) -> None:
    named, _ = assign_unique_ids(history)
    messages, sources, _ = repair_minimally(named, apart)
    assert not find_unpaired(messages)
    assert Counter(said_in(messages)) == Counter(said_in(repair_minimally(named).messages))
    for message, source in zip(messages, sources, strict=True):
        of = {place.message if place.message in apart else -1 for place in source.blocks if place}
        assert len(of) < 2 or "tool_use" in [block["type"] for block in get_content_blocks(message)]


def said_in(messages: list[Message]) -> list[str]:
    blocks = (block for message in messages for block in get_content_blocks(message))
    return [json.dumps(block, sort_keys=True) for block in blocks if block.get("content") != MISSING_RESULT_TEXT]


def test_a_message_apart_is_the_very_one_that_was_given() -> None:
    summary = assistant(text("summary"))
    history = [GO, assistant(call("1")), summary, assistant(text("on")), user(text("and")), assistant(call("2"))]
    messages, _, notes = repair_minimally(history, {2})
    added = user(result("1", MISSING_RESULT_TEXT, is_error=True))
    assert messages == [GO, history[1], added, summary, history[3], history[4], history[5]]
    assert messages[3] is summary
    assert notes == {NOTE_RESULTS_ADDED: 1}


def test_a_message_apart_stays_between_a_call_and_its_result() -> None:
    history = [GO, assistant(call("1")), assistant(text("summary")), user(text("and"), result("1"))]
    messages, _, notes = repair_minimally(history, {2})
    assert messages == [GO, assistant(call("1"), text("summary")), user(result("1"), text("and"))]
    assert notes[NOTE_MESSAGES_MERGED] == 1


@given(histories, st.sets(st.integers(0, 8)))
def test_repairs_say_where_each_block_was(history: list[Message], apart: set[int]) -> None:
    named, _ = assign_unique_ids(history)
    whole = [{**message, "content": get_content_blocks(message)} for message in named]
    for messages, sources, _ in (
        repair_minimally(named, apart),
        repair_orphans(whole, find_unpaired(named)),
    ):
        assert len(messages) == len(sources)
        places = [place for source in sources for place in source.blocks if place]
        assert len(set(places)) == len(places)
        for message, source in zip(messages, sources, strict=True):
            blocks = get_content_blocks(message)
            assert len(blocks) == len(source.blocks)
            for block, place in zip(blocks, source.blocks, strict=True):
                was = get_content_blocks(named[place.message])[place.block] if place else {}
                if block.get("type") in ("tool_use", "thinking") or block in (text("hi"), text("hello")):
                    assert place and {**was, "id": 0} == {**block, "id": 0}
                elif place:
                    assert block == was or block["type"] == "tool_result"


def test_a_result_belongs_to_the_call_of_the_turn_before_it_although_an_earlier_one_has_its_id() -> None:
    def build_message(role: str, **block: Any) -> dict[str, Any]:
        return {"role": role, "content": [block]}

    messages = [
        build_message("assistant", type="tool_use", id="same", name="Read", input={}),
        {"role": "user", "content": "Never mind."},
        build_message("assistant", type="tool_use", id="same", name="Read", input={}),
        build_message("user", type="tool_result", tool_use_id="same", content="x"),
    ]
    changed, renamed = assign_unique_ids(messages)
    [new_id] = renamed
    assert [changed[0]["content"][0]["id"], changed[2]["content"][0]["id"]] == ["same", new_id]
    assert changed[3]["content"][0]["tool_use_id"] == new_id
