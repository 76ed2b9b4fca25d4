"""Random trees of records against a simple model: the context where they end, the branches that were left, growth."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from context_tui.formats.base import scan
from context_tui.formats.kit.branches import find_branch
from context_tui.formats.kit.line_scanner import LineScanner, list_only_session
from context_tui.formats.kit.message_builder import (
    FullCompactionRecord,
    MessageRecord,
    MetadataRecord,
    ParsedRecord,
    ReplacementRecord,
    RewindRecord,
    group_records,
)
from context_tui.session.facts import Usage
from context_tui.session.session import Session
from context_tui.session.values import Role
from tests.formats.histories import columns

Record = dict[str, Any]
KEYS = "abcdefghijklmnop"


class Tree:
    """{"id", "below", "kind": say | note | summary, "since"}, or {"rewind": id}."""

    def parse(self, record: Record) -> ParsedRecord:
        if "rewind" in record:
            return RewindRecord(record["rewind"])
        key, below = record["id"], record["below"]
        if record["kind"] == "note":
            return MetadataRecord(key=key, parent_key=below)
        text = [{"type": "text", "text": key}]
        if record["kind"] == "summary":
            return MessageRecord(
                Role.USER,
                text,
                key=key,
                parent_key=below,
                compaction=FullCompactionRecord("auto", kept_since=record["since"]),
            )
        role = Role.ASSISTANT if record["kind"] == "reply" else Role.USER
        usage = Usage(1) if role == Role.ASSISTANT else None
        message = MessageRecord(role, text, key=key, parent_key=below, usage=usage)
        return group_records(ReplacementRecord(key), message) if record["kind"] == "again" else message


class Model:
    """What the tree is, by walking it from the end every time."""

    def __init__(self, records: list[Record]) -> None:
        self.above: list[int] = []
        self.kind: list[str] = []
        self.text: list[str] = []
        self.since: list[int] = []
        self.at: dict[str, int] = {}
        self.leaf = -1
        for record in records:
            self._take(record)

    def _take(self, record: Record) -> None:
        if "rewind" in record:
            at = self.at.get(record["rewind"], -1)
            if at >= 0:
                self.leaf = at if self.kind[at] == "note" else self.above[at]
            return
        below = record["below"]
        parent = self.leaf if below is None or (below and below not in self.at) else self.at.get(below, -1)
        self.above.append(parent)
        self.kind.append(record["kind"])
        self.text.append(record["id"])
        since = self.at.get(record.get("since", ""), -2)
        if since >= 0 and self.kind[since] == "note" and since not in (path := self.path(parent)):
            while since >= 0 and self.kind[since] == "note":
                since = self.above[since]
            if since < 0 or since in path:
                record["since"] = "gone"  # a note beside the chain is taken for one on it, which no program writes
            since = -2
        self.since.append(since)
        self.leaf = self.at[record["id"]] = len(self.above) - 1

    def path(self, leaf: int) -> list[int]:
        found = []
        while leaf >= 0:
            found.append(leaf)
            leaf = self.above[leaf]
        return found[::-1]

    def context(self, leaf: int) -> list[str]:
        path = self.path(leaf)
        last = max((place for place, node in enumerate(path) if self.kind[node] == "summary"), default=-1)
        said = [node for node in path if self.kind[node] in ("user", "reply")]
        if last < 0:
            return [self.text[node] for node in said]
        summary, since = path[last], self.since[path[last]]
        before = path[:last]
        kept = before[before.index(since) :] if since in before else []
        after = path[last + 1 :]
        return [self.text[node] for node in (summary, *kept, *after) if node in (summary, *said)]

    def is_message(self, node: int) -> bool:
        return self.kind[node] != "note"

    def branches(self) -> list[list[str]]:
        """The messages of each branch that was left, with all that leads there, in the order in which each began."""
        path = set(self.path(self.leaf))
        ends: list[int] = []
        begun: dict[int, int] = {}  # newest message of a branch to its number
        for node in range(len(self.above)):
            if not self.is_message(node) or node in path:
                continue
            parent = self.above[node]
            while parent >= 0 and not self.is_message(parent):
                parent = self.above[parent]
            if parent in begun:
                number = begun.pop(parent)
                ends[number] = node
            else:
                number = len(ends)
                ends.append(node)
            begun[node] = number
        return [[self.text[node] for node in self.path(end) if self.is_message(node)] for end in ends]


def _records(kinds: list[str]) -> st.SearchStrategy[list[Record]]:
    number = st.integers(0, len(KEYS) - 1)

    def made(drawn: list[tuple[str, int, int, int]]) -> list[Record]:
        records: list[Record] = []
        said = 0
        for kind, where, choice, since in drawn:
            keys = [*KEYS[:said]]
            if kind == "rewind":
                records.append({"rewind": keys[choice % said] if said and where else "gone"})
                continue
            if said == len(KEYS):
                continue
            below = {0: None, 1: None, 2: "", 3: "gone"}.get(where, keys[choice % said] if said else None)
            record = {"id": KEYS[said], "kind": kind, "below": below}
            if kind == "summary":
                record["since"] = keys[since % said] if said and since < 14 else "gone"
            records.append(record)
            said += 1
        return records

    return st.lists(st.tuples(st.sampled_from(kinds), st.integers(0, 6), number, number), max_size=20).map(made)


TREES = _records(["user", "user", "reply", "reply", "note", "rewind", "summary"])


def _say(key: str, below: str | None = None, kind: str = "user") -> Record:
    return {"id": key, "kind": kind, "below": below}


def _texts(session: Session, order: Any) -> list[str]:
    return [session.message(index)["content"][0]["text"] for index in order]


@settings(max_examples=150, deadline=None)
@given(TREES)
@example([_say("a"), _say("b"), _say("c"), _say("d", "b"), _say("e", "a")])  # a branch that forks
@example([_say("a"), _say("b"), {"rewind": "b"}, _say("c"), {"rewind": "b"}, _say("d"), {"rewind": "b"}])
@example([_say("a"), _say("n", kind="note"), _say("b"), {"rewind": "n"}, _say("c")])
@example([_say("a"), _say("b"), {**_say("s", kind="summary"), "since": "b"}, _say("c"), _say("d", "a")])
@example([_say("a"), _say("b", ""), _say("c", "a")])  # a second root is no earlier context
@example([_say("a"), _say("n", kind="note"), _say("b"), {**_say("s", kind="summary"), "since": "n"}])
@example([_say("a"), _say("b"), _say("n", kind="note"), _say("c", "a"), {**_say("s", kind="summary"), "since": "n"}])
def test_contexts_and_branches(records: list[Record]) -> None:
    model = Model(records)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "f")
        path.write_text("".join(json.dumps(record) + "\n" for record in [*records, {"rewind": ""}]))
        [info] = list_only_session(path, "tree")
        session = scan(LineScanner(path, info, Tree))
        assert _texts(session, session.context_at().order) == model.context(model.leaf)
        expected = model.branches()
        assert len(session.facts.branches) == len(expected)
        assert len(session) == sum(map(model.is_message, model.path(model.leaf)))
        for branch, texts in zip(session.facts.branches, expected, strict=True):
            left = find_branch(info, branch.id)
            assert left is not None
            found = scan(LineScanner(path, left, Tree))
            assert _texts(found, range(len(found))) == texts
            assert _texts(found, found.context_at().order) == model.context(model.at[texts[-1]])


@settings(max_examples=60, deadline=None)
@given(_records(["user", "reply", "note", "rewind", "summary", "again"]), st.data())
def test_growing_is_as_reading_afresh(records: list[Record], data: st.DataObject) -> None:
    for record in records:
        if record.get("kind") == "again":
            record["id"] = data.draw(st.sampled_from(KEYS[:4]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "f")
        path.write_text('{"rewind": ""}\n')
        [info] = list_only_session(path, "tree")
        growing = LineScanner(path, info, Tree)
        growing.advance()
        shown = _texts(growing.session(), range(len(growing.session())))
        for record in records:
            with path.open("a") as file:
                file.write(json.dumps(record) + "\n")
            changed = growing.advance().revised_from
            session, fresh = growing.session(), scan(LineScanner(path, info, Tree))
            now = _texts(session, range(len(session)))
            assert now == _texts(fresh, range(len(fresh)))
            assert [*session.context_at().order] == [*fresh.context_at().order]
            assert columns(session.facts) == columns(fresh.facts)
            same = len(shown) if changed is None else changed
            assert now[:same] == shown[:same]  # what is not said to have changed has not
            shown = now


def test_a_record_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    again = {**_say("b", kind="again")}
    for records, expected, left in (
        ([_say("a"), _say("b"), again], ["a", "b"], []),
        ([_say("a"), _say("b"), again, _say("c"), again], ["a", "c", "b"], []),
        ([_say("a"), _say("b"), again, again, {"rewind": "b"}, _say("c")], ["a", "c"], [1]),
        ([_say("a"), _say("x"), _say("b"), again, {"rewind": "x"}, _say("c")], ["a", "c"], [2]),
    ):
        path = tmp_path / "f"
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        [info] = list_only_session(path, "tree")
        session = scan(LineScanner(path, info, Tree))
        assert _texts(session, session.context_at().order) == expected
        assert [branch.messages for branch in session.facts.branches] == left
        assert len(session.facts.record_kind) == len(records)
