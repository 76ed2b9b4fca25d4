"""Files without a conversation are named, with what to open; none that can be read is taken for one of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from context_tui.errors import UnreadableSession
from context_tui.formats.base import HEAD_BYTES
from context_tui.formats.kit.heads import parse_first_values
from context_tui.formats.opening import detect_format
from context_tui.formats.unsupported import detect_side_file

TEXT = [{"type": "text", "text": "hello"}]
CONVERSATION = "the api_conversation_history.json of the same session"
DOCUMENTS: list[tuple[str, Any]] = [
    (
        f"what Cline or Roo showed of a task, not what was sent; open {CONVERSATION}",
        [{"ts": 1, "type": "say", "say": "text", "text": "hello"}],
    ),
    (
        f"what Cline left out of the messages of a task; open {CONVERSATION}",
        [[1, [1, [[0, [[1, "text", ["[duplicate]"], []]]]]]]],
    ),
    (f"a list of the files of a Cline or Roo task; open {CONVERSATION}", {"files_in_context": []}),
    (
        "the description of a Cline session, without its messages; open the <id>.messages.json of the same session",
        {"version": 1, "session_id": "x", "workspace_root": "/src"},
    ),
]


def refusal(path: Path) -> str:
    with pytest.raises(UnreadableSession) as raised:
        detect_format(path)
    return str(raised.value)


@pytest.mark.parametrize(("what", "document"), DOCUMENTS)
@pytest.mark.parametrize("indent", [None, 2])
def test_documents(what: str, document: Any, indent: int | None, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(document, indent=indent))
    assert refusal(path) == f"{path}: is {what}"


@pytest.mark.parametrize(
    ("name", "document", "conversation"),
    [
        ("ui_messages.json", [{"ts": 1, "type": "ask"}], "api_conversation_history.json"),
        ("ui_messages.json", [{"ts": 1, "type": "ask"}], "claude_messages.json"),
        ("a1.json", {"version": 1, "session_id": "a1", "workspace_root": "/src"}, "a1.messages.json"),
    ],
)
def test_what_to_open_is_named_as_it_lies_there(name: str, document: Any, conversation: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(json.dumps(document))
    (tmp_path / conversation).write_text("[]")
    assert refusal(tmp_path / name).endswith(f"; open {conversation} beside it")


def test_a_long_first_line_does_not_hide_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"files_in_context": [], "note": "x" * 3 * HEAD_BYTES}))
    assert "a list of the files of a Cline or Roo task" in refusal(path)


@pytest.mark.parametrize("length", range(1, 60))
def test_the_head_of_a_document_gives_what_is_there(length: int) -> None:
    text = json.dumps({"a": [1, {"b": 'cé\\ "d'}], "e": {"f": None, "g": "last"}})[: length + 1]
    (value,) = parse_first_values(text.encode())
    assert isinstance(value, dict)
    if length > 40:
        assert value["a"] == [1, {"b": 'cé\\ "d'}]


def test_recordings(shared: Path) -> None:
    """Every file of the corpus is one of ours, is named, or is no session at all."""
    readable = {
        "aider": "aider",
        **{"claude-code": "claude-code", "openai-chat": "openai", "roo": "cline"},
        **{name: name for name in ("cline-sdk", "codex", "mini-swe-agent", "openhands", "swe-agent")},
        **{name: name for name in ("copilot-cli", "crush", "gemini-cli", "goose", "pi")},
        "opencode/storage/session/": "opencode",
    }
    named = {"opencode": "is one message of an opencode session"}
    no_session = ("opencode/storage/project", "opencode/storage/session_diff", "INDEX.tsv")
    corpus = shared / "corpus"
    for path in sorted(each for each in corpus.rglob("*") if each.is_file()):
        inside = str(path.relative_to(corpus))
        folder = next((name for name in readable if inside.startswith(name)), inside.partition("/")[0])
        if inside.startswith(no_session):
            what = "an empty list" if path.read_bytes().strip() == b"[]" else "unknown session format"
            assert what in refusal(path)
        elif inside.startswith("roo/") and "__api_" not in inside:
            assert "Cline or Roo" in refusal(path)
        elif inside == "cline-sdk/cline__session.json":
            assert refusal(path).endswith("; open cline__session.messages.json beside it")
        elif folder in readable:
            assert detect_format(path).name == readable[folder], inside
            assert detect_side_file(path.read_bytes()[:HEAD_BYTES], path) is None
        else:
            assert named[folder] in refusal(path), inside
