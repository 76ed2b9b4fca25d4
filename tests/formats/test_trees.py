"""What the kit does with records of a tree, records that hold several messages, and usage told beside them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from context_tui.errors import UnreadableSession
from context_tui.formats.base import scan
from context_tui.formats.kit.blocks import build_text
from context_tui.formats.kit.branches import find_branch
from context_tui.formats.kit.line_scanner import LineScanner, list_only_session
from context_tui.formats.kit.message_builder import (
    FullCompactionRecord,
    HistoryRecord,
    MessageBuilder,
    MessageRecord,
    MetadataRecord,
    MicroCompactionRecord,
    OmittedMessage,
    ParsedRecord,
    RecordCase,
    RecordGroup,
    ResetRecord,
    RewindRecord,
    UsageRecord,
    group_records,
    list_cases,
)
from context_tui.session.facts import Usage
from context_tui.session.session import Session
from context_tui.session.values import Role

ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "result": Role.USER}


class Tree:
    """{"id", "below", "role", "text"}, or {"rewind": id}, {"tokens": n}, {"replace": [id or text, ...]}, {"note"}."""

    def parse(self, record: dict[str, Any]) -> ParsedRecord:
        if "rewind" in record:
            return RewindRecord(record["rewind"])
        if "clears" in record:
            return MicroCompactionRecord(cleared_keys=tuple(record["clears"]))
        if "anew" in record:
            return ResetRecord()
        if "tokens" in record:
            return UsageRecord(usage=Usage(record["tokens"]))
        if "replace" in record:
            texts = [each for each in record["replace"] if each.startswith("=")]
            own = {text: number for number, text in enumerate(texts)}
            first, *more = [MessageRecord(Role.USER, [{"type": "text", "text": text}]) for text in texts]
            context = tuple(own.get(each, each) for each in record["replace"])
            return group_records(replace(first, compaction=FullCompactionRecord("auto", context=context)), *more)
        key, below = record.get("id", ""), record.get("below")
        if "note" in record:
            return MetadataRecord(key=key, parent_key=below)
        text = {"type": "text", "text": record["text"]}
        if record["role"] == "result":
            text = {"type": "tool_result", "tool_use_id": record["text"], "content": record["text"]}
        return MessageRecord(
            ROLES[record["role"]], [text], has_results=record["role"] == "result", key=key, parent_key=below
        )


def said(key: str, role: str = "user", below: str | None = None) -> dict[str, Any]:
    return {"id": key, "role": role, "text": key, "below": below}


def scanner(path: Path, *records: dict[str, Any], session: str = "") -> LineScanner:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    [info] = list_only_session(path, "tree")
    return LineScanner(path, find_branch(info, session) or info, Tree)


def texts(session: Session) -> list[str]:
    return ["".join(b.get("text") or b.get("content") for b in m["content"]) for m in session.to_messages()]


def test_what_hangs_below_an_earlier_record_leaves_a_branch(tmp_path: Path) -> None:
    records = [said("a"), said("b", "assistant"), said("c"), said("d", "assistant"), said("e", below="b")]
    session = scan(scanner(tmp_path / "f", *records))
    assert texts(session) == ["a", "b", "e"]
    assert [(each.id, each.messages) for each in session.facts.branches] == [("branch-1", 2)]
    assert texts(scan(scanner(tmp_path / "f", *records, session="branch-1"))) == ["a", "b", "c", "d"]
    with pytest.raises(UnreadableSession, match="available: branch-1"):
        scan(scanner(tmp_path / "f", *records, session="branch-2"))


def test_a_branch_may_be_gone_on_with(tmp_path: Path) -> None:
    records = [said("a"), said("b", "assistant"), said("c"), said("d", below="a"), said("e", "assistant", below="c")]
    session = scan(scanner(tmp_path / "f", *records))
    assert texts(session) == ["a", "b", "c", "e"]
    assert texts(scan(scanner(tmp_path / "f", *records, session="branch-1"))) == ["a", "d"]


def test_a_record_beside_the_conversation_is_a_part_of_the_chain(tmp_path: Path) -> None:
    records = [
        said("a"),
        {"note": 1, "id": "n"},
        said("b", "assistant", below="n"),
        {"note": 1, "id": "m", "below": "a"},
    ]
    assert texts(scan(scanner(tmp_path / "f", *records[:3]))) == ["a", "b"]
    assert texts(scan(scanner(tmp_path / "f", *records))) == ["a"]
    assert texts(scan(scanner(tmp_path / "f", *records, said("c", below="m")))) == ["a", "c"]


def test_a_rewind_leaves_a_record_and_all_behind_it(tmp_path: Path) -> None:
    records = [said("a"), said("b", "assistant"), said("c"), {"rewind": "b"}]
    assert texts(scan(scanner(tmp_path / "f", *records))) == ["a"]
    assert texts(scan(scanner(tmp_path / "f", *records, said("d", "assistant")))) == ["a", "d"]
    assert texts(scan(scanner(tmp_path / "f", *records, {"rewind": "gone"}, said("d")))) == ["a", "d"]
    assert texts(scan(scanner(tmp_path / "f", *records, {"rewind": "a"}, said("d")))) == ["d"]


def test_results_of_one_reply_are_one_message_wherever_they_hang(tmp_path: Path) -> None:
    results = [said("r", "result", "b"), said("s", "result", "b"), said("t", "result", "s")]
    session = scan(scanner(tmp_path / "f", said("a"), said("b", "assistant"), *results))
    assert texts(session) == ["a", "b", "rst"]
    apart = [said("a"), said("b", "assistant"), said("r", "result", "b"), said("u"), said("s", "result", "a")]
    assert texts(scan(scanner(tmp_path / "f", *apart))) == ["a", "s"]


def test_a_record_may_hold_the_whole_new_context(tmp_path: Path) -> None:
    kept = [said("a"), said("b", "assistant"), said("c"), said("d", "assistant")]
    records = [*kept, {"replace": ["a", "=summary", "c", "=env"]}, said("e")]
    session = scan(scanner(tmp_path / "f", *records))
    assert texts(session) == ["a", "=summary", "c", "=env", "e"]
    assert [(each.message, [*each.prefix]) for each in session.facts.compactions] == [(4, [0, 4, 2, 5])]
    assert len(session.facts.record_kind) == len(records)
    left = scan(scanner(tmp_path / "f", *records, said("f", below="d")))  # its record stays one
    assert texts(left) == ["a", "b", "c", "d", "f"]
    assert texts(scan(scanner(tmp_path / "f", *records, said("f", below="d"), session="branch-1")))[-2:] == [
        "=env",
        "e",
    ]


def test_usage_may_be_told_behind_the_reply(tmp_path: Path) -> None:
    records = [{"tokens": 5}, said("a"), said("b", "assistant"), {"tokens": 70}, {"tokens": 90}, said("c")]
    facts = scan(scanner(tmp_path / "f", *records)).facts
    assert [(each.context, facts.request_message[row]) for row, each in enumerate(facts.requests)] == [(90, 1)]


def test_a_tree_grows_to_the_same_facts(tmp_path: Path) -> None:
    records = [said("a"), said("b", "assistant"), said("r", "result", "b"), said("c", below="a"), {"rewind": "c"}]
    records += [said("d", "assistant", "r"), {"replace": ["a", "=s", "=t"]}, {"tokens": 9}, said("e", "assistant")]
    path = tmp_path / "f"
    lines = [json.dumps(record) + "\n" for record in records]
    path.write_text(lines[0])
    [info] = list_only_session(path, "tree")
    growing = LineScanner(path, info, Tree)
    for number, line in enumerate(lines[1:], 2):
        with path.open("a") as file:
            file.write(line)
        growing.advance()
        fresh = scan(LineScanner(path, info, Tree))
        assert texts(growing.session()) == texts(fresh), number
        assert growing.session().facts.branches == fresh.facts.branches
        assert [*growing.session().facts.request_message] == [*fresh.facts.request_message]


def test_a_line_behind_a_rewind_is_added_to_the_facts_that_were_there(tmp_path: Path) -> None:
    path = tmp_path / "f"
    growing = scanner(path, said("a"), said("b", "assistant"), {"rewind": "b"}, said("c", "assistant"))
    growing.advance()
    facts = growing.session().facts
    steps = [
        (said("r", "result"), None, True),
        (said("s", "result"), 2, True),  # by its number without the branch
        ({"tokens": 7}, 1, True),
        (said("n", below="c"), 0, False),
    ]
    for record, revised, grown in steps:
        with path.open("a") as file:
            file.write(json.dumps(record) + "\n")
        assert growing.advance().revised_from == revised
        assert (growing.session().facts is facts) == grown


class Placed:
    """{"text"} is a message; {"again": [text, ...]} a compaction that leaves these, those before as they were."""

    def __init__(self) -> None:
        self.keys: dict[str, str] = {}

    def parse(self, record: dict[str, Any]) -> ParsedRecord:
        first, *more = [
            MessageRecord(Role.USER, [{"type": "text", "text": t}]) for t in record.get("again", [record.get("text")])
        ]
        if "again" not in record:
            return first
        return RecordGroup((replace(first, compaction=FullCompactionRecord()), *more))

    def resolve_in_order(self, record: dict[str, Any], part: ParsedRecord) -> ParsedRecord:
        context: list[str | int] = [0]
        first, *more = [each for each in list_cases(part) if isinstance(each, MessageRecord)]
        if not first.compaction:
            return replace(first, key=self._key(first))
        then = list[RecordCase]()
        for number, each in enumerate(more, 1):
            known = self.keys.get(each.blocks[0]["text"])
            context.append(known or number)
            then.append(OmittedMessage() if known else replace(each, key=self._key(each)))
        return group_records(replace(first, compaction=FullCompactionRecord(context=tuple(context))), *then)

    def _key(self, part: MessageRecord) -> str:
        return self.keys.setdefault(part.blocks[0]["text"], f"key {len(self.keys)}")


def test_a_record_may_say_another_thing_by_where_it_stands(tmp_path: Path) -> None:
    """Messages that are here already are left out of a record; those behind them keep their numbers and their keys."""
    path = tmp_path / "f"
    records = [{"text": "a"}, {"text": "b"}, {"again": ["s", "a", "new", "b"]}, {"again": ["t", "new", "a"]}]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    [info] = list_only_session(path, "tree")
    session = scan(LineScanner(path, info, Placed))
    assert len(session) == 5 and texts(session) == ["t", "new", "a"]
    assert [session.content.blocks(message)[0]["text"] for message in range(5)] == ["a", "b", "s", "new", "t"]


def test_what_happened_on_a_branch_that_was_left_is_undone(tmp_path: Path) -> None:
    records = [said("a"), said("b", "assistant"), said("r", "result"), said("c", "assistant"), said("d")]
    cleared = [*records, {"clears": ["r"]}, said("e", "assistant")]
    for what, shown in ((cleared, "[Old tool result content cleared]"), ([*cleared, {"rewind": "d"}], None)):
        found = texts(scan(scanner(tmp_path / "f", *what, said("g"))))
        assert found[2] == (shown or "r")
    rewound = [*cleared, {"rewind": "d"}, said("g")]
    left = scan(scanner(tmp_path / "f", *rewound, session="branch-1"))
    assert texts(left)[2:] == ["[Old tool result content cleared]", "c", "d", "e"]
    anew = [*records, {"anew": 1}, said("e")]
    assert texts(scan(scanner(tmp_path / "f", *anew))) == ["e"]
    assert texts(scan(scanner(tmp_path / "f", *anew, {"rewind": "e"}, said("g")))) == ["g"]
    assert texts(scan(scanner(tmp_path / "f", *anew, {"rewind": "c"}, said("g")))) == ["a", "b", "r", "g"]


class Holding:
    """{"id", "text"} is a message; {"holds": [{"id", "text", "version"}, ...]} a context that is told whole."""

    def parse(self, record: dict[str, Any]) -> ParsedRecord:
        if "holds" not in record:
            return self._said(record)
        context = tuple(each["id"] if each.get("id") else number for number, each in enumerate(record["holds"], 1))
        then = tuple(self._said(each) if "text" in each else OmittedMessage() for each in record["holds"])
        return HistoryRecord(then, FullCompactionRecord("told", context=context))

    def _said(self, each: dict[str, Any]) -> MessageRecord:
        block = {"type": "text", "text": each["text"]}
        return MessageRecord(Role.USER, [block], key=each.get("id", ""), version=each.get("version"))


def test_a_record_beside_the_conversation_may_hold_a_whole_context(tmp_path: Path) -> None:
    """What is there already in the same version is not said again; what a record leaves out counts in its numbers."""
    path = tmp_path / "f"
    said = [{"id": name, "text": name, "version": 1} for name in "abc"]
    holds = [{"text": "new"}, {}, said[0], {"id": "b", "text": "B", "version": 2}, {"text": "behind b"}]
    for more, context in (([], ["new", "a", "B", "behind b"]), ([{"holds": said[:1]}], ["a"])):
        path.write_text("".join(json.dumps(record) + "\n" for record in [*said, {"holds": holds}, *more]))
        [info] = list_only_session(path, "tree")
        session = scan(LineScanner(path, info, Holding))
        assert texts(session) == context
        assert len(session) == 6 and len(session.facts.compactions) == 1 + len(more)


def test_a_compaction_without_messages_right_after_a_clear_is_ignored() -> None:
    builder = MessageBuilder()
    removal = FullCompactionRecord(context=(), has_summary=False)
    one, two = (MessageRecord(Role.USER, [build_text(words)]) for words in ("one", "two"))
    for place, record in enumerate((one, ResetRecord(), removal, two)):
        builder.add(record, place, 1, f"line {place}")
    assert not builder.facts.compactions
    assert [(epoch.message, epoch.cause) for epoch in builder.facts.epochs] == [(0, "start"), (1, "clear")]
