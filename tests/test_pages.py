"""A session as a page of Markdown: everything of the context is there, and nothing in it breaks the page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

import context_tui as ct
from context_tui.cli import main
from context_tui.errors import ExportError
from context_tui.export.files import (
    OutputExists,
    export,
    list_export_formats,
    list_writable_formats,
    suggest_path,
)
from context_tui.text.sanitize import sanitize
from tests.formats.histories import few, histories

FENCE = re.compile(r"(`{3,})(\w*)$")
SAMPLE = Path(__file__).parents[1] / "sample_sessions" / "coding-session.jsonl"


def page(session: ct.Session, folder: Path) -> str:
    export(session, folder / "page.md", "markdown", force=True)
    return (folder / "page.md").read_text("utf-8")


def parts(text: str) -> tuple[list[str], list[str]]:
    """The lines that stand in no fence, and what stands in each; every fence has its end."""
    fence, lines, fenced = "", list[str](), list[str]()
    for line in text.split("\n"):
        if not fence:
            found = FENCE.match(line)
            fence = found[1] if found else ""
            (fenced if found else lines).append("" if found else line)
        elif line == fence:
            fence = ""
        else:
            fenced[-1] += line + "\n"
    assert not fence
    return lines, fenced


def block(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, **more}


def test_what_a_page_holds(tmp_path: Path) -> None:
    session = ct.from_messages(
        [
            {"role": "user", "content": "# Look\n```\nan open fence"},
            {
                "role": "assistant",
                "content": [
                    block("thinking", thinking="", signature="x"),
                    block("thinking", thinking="Where?"),
                    block("text", text="I read <b>it</b>."),
                    block("tool_use", id="a", name="Read", input={"path": "a.md"}),
                ],
            },
            {
                "role": "user",
                "content": [
                    block("tool_result", tool_use_id="a", content="````\n# Not a heading\x1b[31m\n", is_error=True),
                    block("image", source={"type": "base64", "media_type": "image/png", "data": "AAAA"}),
                ],
            },
            {"role": "assistant", "content": [block("compaction", encrypted_content="zzz")]},
        ]
    )
    lines, fenced = parts(page(session, tmp_path))
    assert [line for line in lines if line.startswith("#")] == [
        "# Session",
        "## Turn 1",
        "### #0 user",
        "### #1 assistant",
        "## Turn 2",
        "### #2 user",
        "### #3 assistant",
    ]
    assert [line for line in lines if line.startswith(">")] == ["> # Look", "> ```", "> an open fence", "> Where?"]
    assert fenced == [
        "I read <b>it</b>.\n",
        '{\n  "path": "a.md"\n}\n',
        "````\n# Not a heading\n",
        '{\n  "type": "compaction",\n  "encrypted_content": "zzz"\n}\n',
    ]
    for said in (
        "*thinking, hidden by the provider*",
        "**call** `Read`",
        "**result** of `Read`, an error",
        "*image: image/png*",
        "*compaction, of unknown size:*",
    ):
        assert said in lines
    result = export(session, tmp_path / "other.md", "markdown")
    assert (result.losses, result.format, result.check.introduced) == (["images named, not shown: 1"], "markdown", ())
    with pytest.raises(OutputExists):
        export(session, tmp_path / "other.md", "markdown")


@few
@given(histories())
def test_every_history_is_a_page(tmp_path_factory: pytest.TempPathFactory, messages: list[dict[str, Any]]) -> None:
    session = ct.from_messages(messages)
    folder = tmp_path_factory.mktemp("p")
    if not any(message["content"] for message in messages):
        with pytest.raises(ExportError, match="no messages to write"):
            page(session, folder)
        return
    text = page(session, folder)
    lines, fenced = parts(text)
    assert sum(line.startswith("### #") for line in lines) == len(messages)
    assert sum(line.startswith("**call** ") for line in lines) == sum(
        each["type"] == "tool_use" for message in messages for each in message["content"]
    )
    everything = "\n".join(line.removeprefix("> ").removeprefix(">") for line in [*lines, *fenced])
    for message in messages:
        for each in message["content"]:
            if each["type"] == "text":
                assert all(line.rstrip() in everything or line in text for line in sanitize(each["text"]).split("\n"))


def test_an_applied_plan_as_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "page.md"
    arguments = ["apply", str(SAMPLE), "-P", "defect-microcompact", "-p", "keep_recent_turns=1", "-o", str(out)]
    assert main([*arguments, "--to", "markdown"]) == 0
    assert f"written: {out} (markdown)" in capsys.readouterr().out
    text = out.read_text("utf-8")
    lines, _ = parts(text)
    assert "- applied: defect-microcompact" in lines
    session = ct.open_session(SAMPLE)
    assert sum(line.startswith("### #") for line in lines) == len(session.context_at())
    assert out.stat().st_mode & 0o777 == 0o600
    with pytest.raises(ct.UnreadableSession):
        ct.open_session(out)


def test_it_is_offered_where_sessions_are_written() -> None:
    assert list_export_formats() == [*list_writable_formats(), "markdown"]
    assert suggest_path(ct.open_session(SAMPLE), "markdown").name == "coding-session.copy.md"
