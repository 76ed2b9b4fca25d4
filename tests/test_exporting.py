"""Exports: what is refused, what is left behind (nothing), and that what was written reads back the same."""

from __future__ import annotations

import json
import os
import shutil
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import context_tui as ct
from context_tui.errors import ExitCode, ExportError
from context_tui.export import files
from context_tui.export.files import (
    OutputExists,
    OutputIsInput,
    export,
    list_writable_formats,
    suggest_path,
)
from context_tui.formats.registry import FORMATS
from context_tui.session.losses import Losses
from context_tui.session.session import Session
from context_tui.text import files as text_files

SAMPLES = Path(__file__).parents[1] / "sample_sessions"


def record(number: int, kind: str, content: Any, **more: Any) -> bytes:
    """A Claude Code line."""
    message = {"role": kind, "content": content, **more}
    envelope = {"type": kind, "uuid": f"u{number}", "parentUuid": f"u{number - 1}" if number else None}
    place = {"sessionId": "s", "cwd": "/home/dev/it's here", "timestamp": "2026-01-01T00:00:00.000Z"}
    return json.dumps({**envelope, **place, "message": message}).encode() + b"\n"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A small Claude Code session in a folder of its own."""
    call = {"type": "tool_use", "id": "c1", "name": "Read", "input": {"file_path": "a.py"}}
    lines = [
        record(0, "user", "read a.py"),
        record(1, "assistant", [call], id="m1", model="claude-x"),
        record(2, "user", [{"type": "tool_result", "tool_use_id": "c1", "content": "import os"}]),
        record(3, "assistant", [{"type": "text", "text": "It imports os."}], id="m2", model="claude-x"),
        record(4, "user", "thanks"),
    ]
    path = tmp_path / "in" / "session.jsonl"
    path.parent.mkdir()
    path.write_bytes(b"".join(lines))
    return path


def left(folder: Path) -> list[str]:
    """The names in a folder, hidden ones too."""
    return sorted(os.listdir(folder))


def said(session: Session) -> list[tuple[str, list[Any]]]:
    """Roles and blocks, without the fields that formats drop."""
    messages = session.to_messages()
    return [(m["role"], [b.get("text", b.get("content", b.get("input"))) for b in m["content"]]) for m in messages]


@pytest.mark.parametrize("name", list_writable_formats())
def test_what_is_written_reads_back_the_same(source: Path, tmp_path: Path, name: str) -> None:
    session = ct.open_session(source)
    before = source.read_bytes()
    result = export(session, tmp_path / "out.any", name)
    again = ct.open_session(result.path)
    assert again.info.format == name
    assert said(again) == said(session)
    assert source.read_bytes() == before
    assert stat.S_IMODE(result.path.stat().st_mode) == 0o600
    assert left(tmp_path) == ["in", "out.any"]


@pytest.mark.parametrize("name", ["hard", "link", "direct", "dots"])
def test_the_input_is_never_written_to(source: Path, name: str) -> None:
    out = {"direct": source, "dots": source.parent / ".." / "in" / source.name}.get(name, source.parent / "other.jsonl")
    if name == "hard":
        os.link(source, out)
    elif name == "link":
        out.symlink_to(source)
    before, names = source.read_bytes(), left(source.parent)
    with pytest.raises(OutputIsInput) as caught:
        export(ct.open_session(source), out, "anthropic", force=True)
    assert caught.value.exit_code == ExitCode.USAGE
    assert source.read_bytes() == before
    assert left(source.parent) == names


def test_an_existing_file_is_replaced_only_when_told(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    out.write_text("mine")
    session = ct.open_session(source)
    with pytest.raises(OutputExists) as caught:
        export(session, out, "anthropic")
    assert caught.value.exit_code == ExitCode.FAILED
    assert out.read_text() == "mine"
    export(session, out, "anthropic", force=True)
    assert len(ct.open_session(out)) == 5


def test_a_file_that_appears_while_writing_is_not_replaced(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.json"
    sync = text_files.sync
    monkeypatch.setattr(files, "sync", lambda path: (sync(path), out.write_text("mine")))
    with pytest.raises(OutputExists):
        export(ct.open_session(source), out, "anthropic")
    assert out.read_text() == "mine"
    assert left(tmp_path) == ["in", "out.json"]


def test_growth_of_the_input_is_fine(source: Path, tmp_path: Path) -> None:
    session = ct.open_session(source)
    with source.open("ab") as file:
        file.write(record(5, "assistant", [{"type": "text", "text": "later"}], id="m3"))
    assert len(ct.open_session(export(session, tmp_path / "o.json", "anthropic").path)) == 5


def rewritten(source: Path) -> None:
    source.write_bytes(source.read_bytes().replace(b"import os", b"import re"))
    os.utime(source, (2_000_000_000, 2_000_000_000))


def longer(source: Path) -> None:
    source.write_bytes(source.read_bytes().replace(b"import os", b"import sys"))


def shorter(source: Path) -> None:
    source.write_bytes(source.read_bytes()[:-40])


def gone(source: Path) -> None:
    source.unlink()


@pytest.mark.parametrize("change", [rewritten, longer, shorter, gone])
def test_a_changed_input_is_refused(source: Path, tmp_path: Path, change: Any) -> None:
    session = ct.open_session(source)
    # Beside the old file, so that a mapped one is not cut short under the reader.
    other = source.with_name("other")
    shutil.copy2(source, other)
    change(other)
    source.unlink()
    if other.exists():
        other.rename(source)
    with pytest.raises(ExportError, match=r"has changed|no such file"):
        export(session, tmp_path / "o.json", "anthropic")
    assert left(tmp_path) == ["in"]


def test_a_failing_writer_leaves_nothing(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(self: object, session: object, path: Path) -> Losses:
        path.write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(FORMATS["anthropic"]), "write", write)
    with pytest.raises(ExportError, match="No space left"):
        export(ct.open_session(source), tmp_path / "o.json", "anthropic")
    assert left(tmp_path) == ["in"]


@pytest.mark.parametrize("wrong", ["", "nothing a reader knows", '{"messages": [{"role": "user", "content": "one"}]}'])
def test_what_does_not_read_back_is_not_kept(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    def write(self: object, session: object, path: Path) -> Losses:
        path.write_text(wrong)
        return Losses()

    monkeypatch.setattr(type(FORMATS["anthropic"]), "write", write)
    with pytest.raises(ExportError, match="nothing was written"):
        export(ct.open_session(source), tmp_path / "o.json", "anthropic")
    assert left(tmp_path) == ["in"]


def test_a_writer_that_leaves_a_call_without_its_result_is_refused(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(self: object, session: Session, path: Path) -> Losses:
        losses, messages = Losses(), session.to_messages()
        for block in messages[2]["content"]:
            losses.omit("results left out", block)
        path.write_text(json.dumps({"messages": [*messages[:2], *messages[3:]]}))
        return losses

    monkeypatch.setattr(type(FORMATS["anthropic"]), "write", write)
    with pytest.raises(ExportError, match="1 calls or results would be unpaired; nothing was written"):
        export(ct.open_session(source), tmp_path / "o.json", "anthropic")
    assert left(tmp_path) == ["in"]


def test_odd_places_are_refused(source: Path, tmp_path: Path) -> None:
    session = ct.open_session(source)
    os.mkfifo(tmp_path / "pipe")
    for out, words in [
        (tmp_path, "is a folder"),
        (tmp_path / "missing" / "o.json", "no such folder"),
        (tmp_path / "pipe", "is not a regular file"),
    ]:
        with pytest.raises(ExportError, match=words):
            export(session, out, "anthropic", force=True)
    assert left(tmp_path) == ["in", "pipe"]


def test_pairs_are_repaired_and_it_is_said(tmp_path: Path) -> None:
    call = {"type": "tool_use", "id": "c1", "name": "Read", "input": {}}
    session = ct.from_messages(
        [
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [{"type": "text", "text": "never mind"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "fine"}]},
        ]
    )
    result = export(session, tmp_path / "o.json", "anthropic")
    assert "placeholder results added for calls without one: 1" in result.losses
    assert len(ct.open_session(result.path)) == 4


def test_a_compacted_session_can_be_resumed(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
    session = ct.open_session(source)
    after = ct.apply(session, ct.plan(session, "manual", cut=4), "## Goal\n- all of it")
    result = export(after, tmp_path / "out.jsonl", "claude-code")
    command = result.resume_command
    assert "claude --resume " in command
    assert "cp -n " in command
    assert "projects/-home-dev-it-s-here/" in command
    assert "cd '/home/dev/it'\"'\"'s here'" in command
    again = ct.open_session(result.path)
    assert len(again.context_at()) == 2
    assert not any(usage.context for usage in again.facts.requests)
    session_id = command.split("--resume ")[1]
    home = tmp_path / "config" / "projects" / "-home-dev-it-s-here"
    home.mkdir(parents=True)
    os.replace(result.path, home / f"{session_id}.jsonl")


@pytest.mark.slow
@pytest.mark.parametrize("sample", sorted(p.name for p in SAMPLES.iterdir() if p.suffix in (".json", ".jsonl", ".db")))
@pytest.mark.parametrize("name", list_writable_formats())
def test_every_sample_can_be_exported(sample: str, name: str, tmp_path: Path) -> None:
    info = next(info for info in ct.sessions_in(SAMPLES / sample) if not info.parent)
    session = ct.open_session(f"{info.path}#{info.id}" if info.id else info.path)
    result = export(session, tmp_path / "o", name)
    assert len(ct.open_session(result.path)) > 0


@pytest.mark.parametrize("change", [rewritten, longer, shorter, gone])
def test_a_changed_document_is_refused(source: Path, tmp_path: Path, change: Any) -> None:
    document = export(ct.open_session(source), tmp_path / "in" / "document.json", "anthropic").path
    session = ct.open_session(document)
    change(document)
    with pytest.raises(ct.Error):
        export(session, tmp_path / "o.json", "claude-code")
    assert left(tmp_path) == ["in"]


@pytest.mark.parametrize(
    ("path", "own", "name", "expected"),
    [
        ("/a/b.copy.jsonl", "claude-code", "claude-code", "/a/b.compacted.jsonl"),
        ("/a/b.jsonl", "claude-code", "claude-code", "/a/b.compacted.jsonl"),
        ("/a/b.compacted.jsonl", "claude-code", "anthropic", "/a/b.compacted.json"),
        ("/a/koda.db", "koda", "koda", "/a/koda.compacted.db"),
        ("/a/noext", "openai", "openai", "/a/noext.compacted.json"),
        ("/a/b.traj", "openai", "openai", "/a/b.compacted.traj"),
        ("", "messages", "claude-code", "session.compacted.jsonl"),
        ("/tmp/.context-tui.abcd_123.tmp/new/standard-input", "openai", "openai", "session.compacted.json"),
    ],
)
def test_a_name_beside_the_input_is_suggested(path: str, own: str, name: str, expected: str) -> None:
    session = ct.from_messages([])
    session = replace(session, info=type(session.info)(path, own), origin="manual")
    assert str(suggest_path(session, name)) == expected
    assert str(suggest_path(replace(session, origin=""), name)) == expected.replace(".compacted.", ".copy.")


def test_no_name_among_the_agents_own_sessions_is_suggested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    path = tmp_path / "projects" / "-home-me" / "a.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text('{"type":"user","uuid":"u","sessionId":"s","message":{"role":"user","content":"Hi"}}\n')
    assert suggest_path(ct.open_session(path), "claude-code") == Path("a.copy.jsonl")
    other = path.rename(tmp_path / "b.jsonl")
    assert suggest_path(ct.open_session(other), "claude-code") == tmp_path / "b.copy.jsonl"


def test_a_document_that_is_written_anew_as_lines_is_called_so() -> None:
    session = ct.from_messages([])
    session = replace(session, info=type(session.info)("/a/session-1.json", "gemini-cli"), origin="manual")
    assert suggest_path(session, "gemini-cli").name == "session-1.compacted.jsonl"
    assert suggest_path(replace(session, origin=""), "gemini-cli").name == "session-1.copy.json", "as it is"


@pytest.mark.parametrize("name", ["claude-code", "pi", "cline", "koda"])
def test_a_system_prompt_that_a_format_has_no_place_for_is_told(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.json"
    said = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "gone"}]
    path.write_text(json.dumps({"model": "claude-x", "max_tokens": 9, "system": "Be brief.", "messages": said}))
    done = export(ct.open_session(path), tmp_path / "out", name)
    assert [each for each in done.losses if each.startswith("the system prompt is left out")]
