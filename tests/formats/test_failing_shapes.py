"""A shape that fails on one record: a problem of that record in every scanner, and the rest is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from context_tui.formats.base import scan
from context_tui.formats.goose import GooseFormat, GooseShape
from context_tui.formats.kit.document_scanner import DocumentScanner, DocumentShape
from context_tui.formats.kit.documents import Run
from context_tui.formats.kit.line_scanner import LineScanner
from context_tui.formats.kit.message_builder import (
    MessageBuilder,
    MessageRecord,
    MetadataRecord,
    ParsedRecord,
    group_records,
)
from context_tui.formats.koda import KodaFormat
from context_tui.formats.koda.reader import KodaShape
from context_tui.session.session import Session, SessionInfo
from context_tui.session.values import Role
from tests.formats.test_goose import database, message, said
from tests.formats.test_koda import make, reply, user

WORDS = ["one", "bad", "three"]


def problems(session: Session) -> list[tuple[str, str]]:
    return [(each.where, each.what) for each in session.facts.problems]


def fail_on_bad(value: Any) -> None:
    if "bad" in str(value):
        raise KeyError("bad")


FAILURE = f"not understood: KeyError: 'bad' (test_failing_shapes.py:{fail_on_bad.__code__.co_firstlineno + 2})"


class Lines:
    path_keys = ("where",)
    read_tools = ("open",)

    def parse(self, record: dict[str, Any]) -> ParsedRecord:
        fail_on_bad(record)
        blocks = record["content"] if "content" in record else [{"type": "text", "text": record["text"]}]
        return MessageRecord(Role.ASSISTANT if "content" in record else Role.USER, blocks)


class Unplaced(Lines):
    def parse(self, record: dict[str, Any]) -> ParsedRecord:
        return MessageRecord(Role.USER, [{"type": "text", "text": record["text"]}])

    def resolve_in_order(self, record: dict[str, Any], part: ParsedRecord) -> ParsedRecord:
        fail_on_bad(record)
        return part


class Nothing(Lines):
    def parse(self, record: dict[str, Any]) -> Any:
        return None if record["text"] == "bad" else super().parse(record)


class Settings(Lines):
    def parse(self, record: dict[str, Any]) -> Any:
        bad: Any = ["part"] if record["text"] == "bad" else "text"
        text = {"type": "text", "text": record["text"]}
        return group_records(MetadataRecord(system=bad), MessageRecord(Role.USER, [text]))


class Document(DocumentShape):
    def read_metadata(self, run: Run, builder: MessageBuilder) -> None:
        pass

    def parse(self, value: Any, place: int) -> ParsedRecord:
        fail_on_bad(value)
        return MessageRecord(Role.USER, value["content"])


def scan_lines(path: Path, shape: type[Lines], records: list[dict[str, Any]]) -> Session:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return scan(LineScanner(path, SessionInfo(str(path), "failing"), shape))


@pytest.mark.parametrize(
    ("shape", "what"),
    [
        (Lines, FAILURE),
        (Unplaced, FAILURE),
        (Nothing, "not understood: TypeError: parse returned NoneType, not a record"),
        (Settings, "the system of a MetadataRecord is list, not str; join its parts"),
    ],
)
def test_lines(tmp_path: Path, shape: type[Lines], what: str) -> None:
    session = scan_lines(tmp_path / "a.jsonl", shape, [{"text": word} for word in WORDS])
    assert len(session) == 2 and problems(session) == [("line 2", what)]
    assert session.content.blocks(1) == [{"type": "text", "text": "three"}]


def test_elements_of_a_document(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps([{"role": "user", "content": [{"type": "text", "text": word}]} for word in WORDS]))
    session = scan(DocumentScanner(path, SessionInfo(str(path), "failing"), Document))
    assert len(session) == 2 and problems(session) == [("element 1", FAILURE)]


def test_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make(tmp_path / "koda.db", [user("one"), reply("bad"), user("three")])
    whole = KodaShape.parse

    def failing(self: KodaShape, row: Any, *more: Any) -> Any:
        fail_on_bad(row)
        return whole(self, row, *more)

    monkeypatch.setattr(KodaShape, "parse", failing)
    [info] = KodaFormat().list_sessions(path)
    session = scan(KodaFormat().make_scanner(path, info))
    assert problems(session) == [("row 2", FAILURE)]
    assert len(session) == 2


def test_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    messages = [message("user", said("one")), message("assistant", said("bad")), message("user", said("three"))]
    path = database(tmp_path / "sessions.db", messages)
    whole = GooseShape.parse

    def failing(self: GooseShape, entry: Any, *more: Any) -> Any:
        fail_on_bad(entry.texts)
        return whole(self, entry, *more)

    monkeypatch.setattr(GooseShape, "parse", failing)
    [info] = GooseFormat().list_sessions(path)
    session = scan(GooseFormat().make_scanner(path, info))
    assert [each[1] for each in problems(session)] == [FAILURE]
    assert len(session) == 2


def test_a_shape_names_the_tools_that_read_files_and_the_inputs_that_name_them(tmp_path: Path) -> None:
    call = {"type": "tool_use", "id": "c", "name": "open", "input": {"where": "a.py"}}
    session = scan_lines(tmp_path / "a.jsonl", Lines, [{"text": "go"}, {"content": [call]}])
    assert session.facts.paths == ["a.py"]
