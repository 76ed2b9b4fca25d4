"""Sessions of whole requests in the inspector: the JSON of a request, and categories that open to their parts."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import Label

from context_tui.formats.opening import open_session
from context_tui.session.session import Session
from context_tui.tui.analysis import compute_context_sizes
from context_tui.tui.controller import CommandRefused, Controller
from context_tui.tui.inspector.breakdown import BreakdownView, build_breakdown_rows
from context_tui.tui.inspector.screen import build_full_screen
from context_tui.tui.options import InspectorOptions
from context_tui.tui.reader.document import DocumentSource, build_document
from context_tui.tui.timeline.marks import RowMarker
from context_tui.tui.timeline.rows import Location
from context_tui.tui.view import View
from context_tui.tui.widgets.reading_pane import ReadingPane
from tests.formats import request_logs
from tests.tui.fakes import Shell, wrapped_text
from tests.tui.tuning import Alone


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return open_session(request_logs.write_folder(tmp_path / "bodies", request_logs.make_run()))


async def test_a_request_as_it_was_sent(session: Session) -> None:
    controller = Controller(session, InspectorOptions())
    app = Shell(build_full_screen("request", controller))
    async with app.run_test(size=(100, 30)):
        assert "Request 5 of 5, answered by message" in str(app.screen.query_one(Label).render())
        text = wrapped_text(app.screen.query_one(ReadingPane))
        assert text.startswith('{\n  "model": "claude-test"') and '"messages"' in text
    controller.change_view(controller.view.with_point(0))
    with pytest.raises(CommandRefused, match="No request before this point"):
        build_full_screen("request", controller)


async def test_system_prompt_and_tools_open_to_their_parts(session: Session) -> None:
    view = BreakdownView(lambda kind, value: None, lambda message, block: None)
    app = Alone(view)
    async with app.run_test(size=(90, 40)) as pilot:
        view.show(session.context_at(), compute_context_sizes(View(session)))
        view.focus()
        await pilot.pause()
        closed = [row.text for row in view.rows]
        view.cursor = next(number for number, row in enumerate(view.rows) if row.value == "tools")
        await pilot.press("enter")
        counts = {row.text: row.count for row in view.rows if row.text.startswith("  ")}
        assert counts["  Bash, last #6"] == "2 ×" and counts["  mcp__github__issues"] == "never"
        notes = [row.text for row in view.rows if row.text.startswith("  ") and row.tokens is None]
        assert len(notes) == 2 and notes[0].startswith("  1 tool, ") and notes[0].endswith(" tokens, never called")
        assert notes[1].startswith("  MCP server github: 1 tool, ") and notes[1].endswith(" tokens, 0 calls")
        await pilot.press("enter")
        assert [row.text for row in view.rows] == closed
    rows = build_breakdown_rows(session.context_at(), compute_context_sizes(View(session)), True, {"system"})
    texts = [row.text for row in rows]
    start = texts.index("  x-header: version=1")
    assert texts[start : start + 3] == ["  x-header: version=1", "  You are a counter.", "  cache breakpoint"]
    assert "cache breakpoint" not in "".join(closed)
    rows = build_breakdown_rows(session.context_at(), compute_context_sizes(View(session)), True, {"injected"})
    assert {"  /src/CLAUDE.md": "1 ×", "  reminder": "1 ×"}.items() <= {row.text: row.count for row in rows}.items()


def test_a_message_says_where_a_prefix_to_cache_ends(session: Session) -> None:
    reply, marker = session.facts.request_message[3], RowMarker(session.context_at(), None)
    for message, is_marked in ((reply - 1, True), (reply, False)):
        blocks = session.content.blocks(message)
        parts = build_document(DocumentSource(session, Location(message), blocks, marker.find_mark(message)))
        assert ("cache breakpoint" in [part.text for part in parts]) == is_marked
