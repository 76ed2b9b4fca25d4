"""The reader: rendered or as it was written, searched, side by side, selected by mouse, with the room that there is."""

from __future__ import annotations

import base64
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.content import Content
from textual.geometry import Offset
from textual.pilot import Pilot

from benchmarks.pty import Terminal
from context_tui.session.memory import from_messages
from context_tui.session.session import Session
from context_tui.tui.inspector.screen import InspectorScreen
from context_tui.tui.inspector.timeline import Timeline
from context_tui.tui.reader.detail import Detail
from context_tui.tui.reader.document import (
    CHUNK_CHARS,
    MAX_MARKDOWN_CHARS,
    PLAIN_TEXT,
    DocumentSource,
    RenderOptions,
    TextExtent,
    build_document,
)
from context_tui.tui.reader.document import MAX_SHOWN_CHARS as LIMIT_SHOWN
from context_tui.tui.rendering.highlighting import MAX_HIGHLIGHTED_CHARS, HighlightCache, highlight
from context_tui.tui.rendering.languages import (
    detect_language,
    find_fence_language,
    find_path_language,
    measure_line_numbers,
)
from context_tui.tui.rendering.layout import (
    PartLayout,
    StyleSpan,
    TextPart,
    format_copied_text,
    get_column,
    lay_out_part,
    pair_columns,
    sanitize_part,
)
from context_tui.tui.timeline.marks import RowMarker
from context_tui.tui.timeline.rows import Location
from context_tui.tui.view import View
from tests.tui.fakes import drawn, until, wrapped_text
from tests.tui.inspecting import app, file_of, inspector, session, settled
from tests.tui.test_detail import Shows, call, of

WRITTEN = "# The plan\n\nFirst **rotate** the `token`, then [read](https://a.b).\n\n- one\n- two\n"
CODE = "     1→import os\n     2→\n     3→def go(x):\n     4→    return 'home'\n\n<reminder>be kind</reminder>"


def result_of(path: str, content: str, tool: str = "Read") -> DocumentSource:
    """What a tool answered about a file."""
    use = {"type": "tool_use", "id": "1", "name": tool, "input": {"file_path": path}}
    blocks = [{"type": "tool_result", "tool_use_id": "1", "content": content}]
    made = from_messages([{"role": "assistant", "content": [use]}, {"role": "user", "content": blocks}])
    row = next(iter(made.facts.blocks_of(1)))
    return DocumentSource(made, Location(1, row), blocks, RowMarker(made.context_at(), None).find_mark(1, row))


def highlighted(subject: DocumentSource) -> list[TextPart]:
    """The parts once all code in them is known."""
    known = HighlightCache()
    list(build_document(subject, RenderOptions(highlight=known.get_spans)))
    known.store([(code, highlight(*code, lambda: None)) for code in known.pop_queue()])
    return list(build_document(subject, RenderOptions(highlight=known.get_spans)))


def looks(part: TextPart) -> dict[str, str]:
    return {part.text[start:stop]: look for start, stop, look in part.spans}


async def rendering(pilot: Pilot[Any], detail: Detail) -> None:
    """Wait until markdown is rendered and code highlighted."""
    await until(pilot, lambda: detail._markdown)
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()


def text_in_sight(detail: Detail) -> list[str]:
    top = detail.scroll_offset.y
    return [line.drawn_text for line in detail._lines[top : top + detail.size.height]]


# Code


def test_a_file_that_was_read_is_highlighted_behind_the_numbers_of_its_lines() -> None:
    parts = highlighted(result_of("src/a.py", CODE))
    assert [(part.mark, part.text) for part in parts[:4]] == [
        ("     1→", "import os"),
        ("     2→", ""),
        ("     3→", "def go(x):"),
        ("     4→", "    return 'home'"),
    ]
    assert looks(parts[2]) == {"def": "keyword", "go": "name"}
    assert looks(parts[3]) == {"return": "keyword", "'home'": "string"}
    assert not parts[5].spans and parts[5].text.startswith("<reminder>"), "what is not of the file is no code"


def test_plain_lines_and_highlighted_ones_are_the_same_lines() -> None:
    subject = result_of("src/a.py", CODE)
    before = list(build_document(subject, RenderOptions(highlight=HighlightCache().get_spans)))
    assert [part._replace(spans=()) for part in highlighted(subject)] == before
    assert "\n".join(part.mark + part.text for part in before) == "\n".join(
        part.text for part in build_document(subject)
    )


@pytest.mark.parametrize(
    "subject",
    [
        result_of("notes", "import os\ndef x(): pass"),
        result_of("a.min.js", "var a = 1;" * 1_000),
        of(call("Bash", {"description": "import os"})),
    ],
    ids=["no suffix", "very long lines", "an argument"],
)
def test_what_is_no_code_that_anybody_reads_is_left_alone(subject: DocumentSource) -> None:
    assert not any(look != "key" for part in highlighted(subject) for _, _, look in part.spans)


def test_json_and_diffs_are_seen_and_long_code_is_highlighted_at_its_beginning() -> None:
    assert looks(highlighted(result_of("?", '{"a": 1}'))[0]) == {'"a"': "name", "1": "number"}
    diff = highlighted(result_of("?", "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n same"))
    assert [(part.style, part.mark, part.text) for part in diff if part.mark] == [
        ("removed", "-", "old"),
        ("added", "+", "new"),
    ]
    parts = highlighted(result_of("a.py", "import os\n" * 10_000))
    coloured = [part for part in parts if part.spans]
    assert MAX_HIGHLIGHTED_CHARS * 0.9 < sum(len(part.text) + 1 for part in coloured) <= MAX_HIGHLIGHTED_CHARS
    assert sum(part.text == "import os" for part in parts) == 10_000


def test_an_edit_is_highlighted_and_keeps_its_marks_where_it_is_wrapped() -> None:
    edit = {"file_path": "a.py", "old_string": "a = 1", "new_string": "    a = 'and so on and on'"}
    parts = highlighted(of(call("Edit", edit)))
    (added,) = (part for part in parts if part.style == "added")
    assert looks(added)["'and so on and on'"] == "string"
    lines = list(lay_out_part(added, 0, 20))
    assert [line.drawn_text for line in lines] == ["+     a = 'and so on", "+┊    and on'"]
    assert {line.prefix_style for line in lines} == {"mark-added"} and {line.style for line in lines} == {"added"}
    written = highlighted(of(call("Write", {"file_path": "a.py", "content": "import os\n" + "x" * 250_000})))
    assert looks(next(part for part in written if part.mark == "+ ")) == {"import": "keyword"}
    assert next(part for part in written if "more characters" in part.text).style == "warning"


def test_calls_are_lines_of_keys_and_values() -> None:
    parts = highlighted(of(call("Bash", {"command": "cd x\nif true; then ls; fi", "timeout": 5, "env": {"A": 1}})))
    assert looks(parts[3])["if"] == "keyword" and parts[3].mark == "  "
    assert looks(parts[4]) == {"timeout:": "key", "5": "number"}


def test_languages() -> None:
    assert [find_path_language(path) for path in ("a/b.PY", "Dockerfile", "x.tar.gz", "", "C:\\a\\b.rs", "py")] == [
        *("python", "docker", "", "", "rust", "python"),
    ]
    assert [find_fence_language(info) for info in ("py", "{.python}", "js title=x", "", "what", "src/a.ts")] == [
        *("python", "python", "javascript", "", "", "typescript"),
    ]
    assert (
        detect_language("[1] warning")
        == detect_language("a\n+ b")
        == detect_language("")
        == detect_language("{x}")
        == ""
    )
    assert detect_language(' [{"a": 1}]') == "json" and detect_language("--- x\n+++ y\n@@ -1 +1 @@") == "diff"


def test_numbers_of_lines_are_told_from_lines_that_begin_with_numbers() -> None:
    assert measure_line_numbers(["  9→a", " 10→b", "c", " 12→d"]) == [4, 4, 0, 0]
    assert (
        measure_line_numbers(["1 apple", "7 pears"]) == [0, 0]
        and measure_line_numbers(["1 apple"]) == [0]
        and measure_line_numbers(["1→a"]) == [2]
    )


# Rendered, or as it was written


def test_a_long_text_is_rendered_at_its_beginning_and_shown_to_its_end() -> None:
    text = "Some **bold** words.\n" * 3_000
    module = __import__("context_tui.tui.rendering.markdown", fromlist=["render_markdown"])
    rendering = RenderOptions(module.render_markdown, HighlightCache().get_spans)
    parts = list(build_document(of({"type": "text", "text": text}), rendering))
    shown = [part.text for part in parts]
    assert 0.9 * MAX_MARKDOWN_CHARS < 21 * shown.count("Some bold words.") <= MAX_MARKDOWN_CHARS
    assert shown.count("Some bold words.") + shown.count("Some **bold** words.") == 3_000
    assert "raw text from here on" in shown


async def test_v_shows_what_was_written_and_back() -> None:
    subject = of({"type": "text", "text": WRITTEN})
    running = Shows(subject)
    async with running.run_test(size=(80, 20)) as pilot:
        detail = running.detail
        await rendering(pilot, detail)
        assert "First rotate the token, then read (https://a.b)." in wrapped_text(detail) and "• one" in wrapped_text(
            detail
        )
        detail.toggle_raw()
        assert wrapped_text(detail) == "\n".join(part.text for part in build_document(subject, PLAIN_TEXT))
        assert "**rotate**" in drawn(running) and "as written" in str(detail.border_title)
        detail.toggle_raw()
        assert "**rotate**" not in wrapped_text(detail) and "as written" not in str(detail.border_title)


async def test_v_counts_while_a_large_message_is_being_read() -> None:
    running = Shows(of({"type": "text", "text": "short"}))
    async with running.run_test(size=(80, 20)) as pilot:
        detail = running.detail
        await rendering(pilot, detail)
        detail.show_loading(Content("7"), "reading the message…")
        detail.toggle_raw()
        await pilot.pause()
        assert wrapped_text(detail) == "reading the message…"
        detail.show_document(of({"type": "text", "text": WRITTEN}), Content("7"), Content(""))
        assert "**rotate**" in wrapped_text(detail)


async def test_what_is_on_top_stays_when_it_is_shown_as_it_was_written() -> None:
    text = "".join(
        f"## Part {n}\n\n|a|b|\n|-|-|\n|c|d|\n\nHere **stands** paragraph number {n} of many.\n\n" for n in range(90)
    )
    running = Shows(of({"type": "text", "text": text}))
    async with running.run_test(size=(80, 20)) as pilot:
        detail = running.detail
        await rendering(pilot, detail)
        top = next(n for n, line in enumerate(detail._lines) if "paragraph number 9 " in line.text)
        detail.scroll_to(y=top, animate=False)
        await pilot.pause()
        for _ in range(3):
            detail.toggle_raw()
            await pilot.pause()
            assert "paragraph number 9 " in text_in_sight(detail)[0]


async def test_the_place_stays_when_the_plan_changes_the_pane_is_resized_or_the_session_grows() -> None:
    subject = of(
        {"type": "text", "text": "".join(f"**line** {n} of a text that is wrapped somewhere\n" for n in range(300))}
    )
    running = Shows(subject)
    async with running.run_test(size=(80, 20)) as pilot:
        detail = running.detail
        await rendering(pilot, detail)
        detail.scroll_to(y=100, animate=False)
        await pilot.pause()
        assert text_in_sight(detail)[0].startswith("line 100 ")
        detail.show_document(replace(subject, runtime_sizes_note="now known"), Content("0"), Content(""))
        await pilot.pause()
        assert detail.scroll_offset.y == 100
        old = subject.session
        grown = Session(old.facts, old.content, old.info, old.length)
        detail.show_document(replace(subject, session=grown), Content("0"), Content(""))
        await pilot.pause()
        assert detail.scroll_offset.y == 100
        before = text_in_sight(detail)[0]
        await pilot.resize_terminal(30, 20)
        await pilot.pause()
        assert text_in_sight(detail)[0].startswith(before[:8])
        await pilot.resize_terminal(80, 20)
        await pilot.pause()
        assert text_in_sight(detail)[0] == before


async def test_code_is_highlighted_after_it_was_painted() -> None:
    running = Shows(of({"type": "text", "text": "```py\nimport os\n```"}))
    async with running.run_test(size=(80, 20)) as pilot:
        detail = running.detail
        await rendering(pilot, detail)
        await until(pilot, lambda: any(part.spans for part in detail._parts))
        (line,) = (line for line in detail._lines if line.style == "fence")
        assert line.spans == (StyleSpan(0, 6, "keyword"),)
        styles = {segment.text: segment.style for segment in detail._build_segments(line)}
        assert styles["import"] != styles[" os"]


async def test_code_whose_highlighting_was_broken_off_is_highlighted_later() -> None:
    running = Shows(of({"type": "text", "text": "```py\nimport os\n```"}))
    async with running.run_test(size=(80, 20)) as pilot:
        detail = running.detail
        await rendering(pilot, detail)
        await until(pilot, lambda: detail._highlights._spans_by_code)
        detail._highlights._spans_by_code.clear()
        detail.call_later(detail._store_highlights, [])  # of something else
        await until(
            pilot, lambda: detail._highlights._spans_by_code and any(part.spans for part in detail._parts), seconds=5
        )


async def test_code_that_is_known_is_not_highlighted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[str] = []

    def counted(text: str, language: str, checkpoint: Callable[[], object]) -> list[tuple[StyleSpan, ...]]:
        found.append(text)
        return highlight(text, language, checkpoint)

    monkeypatch.setattr("context_tui.tui.rendering.highlighting.highlight", counted)
    fences = "".join(f"```py\nimport m{n}\n```\n" for n in range(150))
    running = Shows(of({"type": "text", "text": fences}))
    async with running.run_test(size=(80, 20)) as pilot:
        await rendering(pilot, running.detail)
        running.detail.action_move_to_end(True)
        await until(pilot, lambda: len(found) >= 150)
        for _ in range(3):
            running.detail.toggle_raw()
            await pilot.pause(0.05)
        await running.workers.wait_for_complete()
        assert sorted(found) == sorted(f"import m{n}" for n in range(150))


# What is searched for


@pytest.mark.parametrize(
    ("needle", "raw"),
    [(", then", False), ("**rotate", True), ("[read]", True), ("two", False), ("a.b)", False)],
)
async def test_a_match_is_shown_where_it_is_rendered_or_else_as_it_was_written(needle: str, raw: bool) -> None:
    before = "A paragraph of *words*.\n\n" * 60
    running = Shows(of({"type": "text", "text": before + WRITTEN + before}))
    async with running.run_test(size=(80, 20)) as pilot:
        detail = running.detail
        await rendering(pilot, detail)
        detail.set_search_text(needle)
        await pilot.pause()
        assert detail.is_raw == raw
        top = detail.scroll_offset.y
        marked = [
            detail._lines[n].drawn_text[first:last]
            for n in range(top, top + detail.size.height)
            for first, last in detail._find_needle_spans(n)
        ]
        assert marked == [needle]
        if raw:
            detail.toggle_raw()
            assert not detail.is_raw, "v shows it rendered all the same"
        detail.show_document(of({"type": "text", "text": WRITTEN.replace("token", "key")}), Content("1"), Content(""))
        assert detail.is_raw == raw, "another message is looked at anew"


async def test_a_match_that_is_not_in_a_message_leaves_it_rendered() -> None:
    running = Shows(of({"type": "text", "text": WRITTEN}))
    async with running.run_test(size=(80, 20)) as pilot:
        await rendering(pilot, running.detail)
        running.detail.set_search_text("nowhere")
        await pilot.pause()
        assert not running.detail.is_raw and "• one" in wrapped_text(running.detail)


# Before and after


def cleared() -> DocumentSource:
    view = View(session())
    assert view.plan is not None
    row = next(iter(view.plan.changes))
    location = Location(view.session.facts.block_message[row], row)
    blocks = view.session.content.blocks(location.message)
    return DocumentSource(
        view.session, location, blocks, RowMarker(view.context, view.plan).find_mark(*location), view.plan
    )


async def test_before_and_after_stand_side_by_side_where_there_is_room() -> None:
    running = Shows(cleared())
    async with running.run_test(size=(130, 20)) as pilot:
        detail = running.detail
        await rendering(pilot, detail)
        heading = next(line for line in drawn(running).split("\n") if "before" in line)
        assert "│ after, est. 21 tokens" in heading
        first = next(line for line in drawn(running).split("\n") if "import jwt" in line)
        assert "│ [tool output cleared to save context" in first
        assert sum(bool(line.text) for line in detail._lines[2:7]) == 5, "neither column waits for the other"
        assert all(len(line) == 130 for line in drawn(running).split("\n"))
        await pilot.resize_terminal(80, 20)
        await pilot.pause()
        shown = wrapped_text(detail)
        assert shown.index("after, est. 21 tokens") < shown.index("before") < shown.index("import jwt")
        detail.toggle_raw()
        await pilot.resize_terminal(130, 20)
        await pilot.pause()
        assert not any(line.right_line for line in detail._lines), "as it was written, one below the other"


@pytest.mark.parametrize(("left", "right"), [(3, 1), (1, 3), (2, 2), (0, 2)])
def test_each_column_is_laid_out_for_itself(left: int, right: int) -> None:
    layout = PartLayout(23)
    parts = [
        TextPart("above"),
        *pair_columns([TextPart("left left left")] * left, [TextPart("right right")] * right),
        TextPart("below"),
    ]
    lines = [line for number, part in enumerate(parts) for line in layout.lay_out(part, number)] + layout.flush_right()
    shown = [(line.text, line.right_line.text if line.right_line else None) for line in lines]
    first = [("left left", "right")] if left else [("", "right")]
    assert shown[0] == ("above", None) and shown[-1] == ("below", None) and shown[1:2] == first
    assert [text for text, _ in shown[1:-1] if text] == ["left left", "left"] * left
    assert [text for _, text in shown[1:-1] if text] == ["right", "right"] * right
    assert len(shown) == 2 + 2 * max(left, right)


def test_side_by_side_nothing_is_read_before_it_is_looked_at() -> None:
    subject = cleared()
    text = "line\n" * 400_000
    subject = replace(subject, blocks=[{"type": "tool_result", "content": text}] * len(subject.blocks))
    document = build_document(subject, RenderOptions(highlight=HighlightCache().get_spans, side_by_side=True))
    taken = [next(document) for _ in range(50)]
    assert taken[1].right_part is not None and taken[40].right_part is not None


# Copying


def all_copied(subject: DocumentSource, width: int) -> str:
    """What is copied where everything is selected."""
    layout, parts = (
        PartLayout(width),
        [sanitize_part(part) for part in build_document(subject, RenderOptions(highlight=HighlightCache().get_spans))],
    )
    lines = [line for number, part in enumerate(parts) for line in layout.lay_out(part, number)]
    chosen = [get_column(line, width, is_right=False) for line in lines]
    return format_copied_text(parts, ((each, *each.clip_selection(0, 1 << 30)) for each in chosen))


DIFF = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old one\n+new one\n same"


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("?", DIFF),
        ("a.diff", DIFF + "\n+" + "x" * 9_000 + "\n " + "y" * 3_999 + "-tail"),
        ("fruit.py", "10 apples\n11 pears\n12 plums, and so on"),
        ("fruit.py", "1: apples\n2: pears"),
        ("fruit.py", "1→apples\n2→pears"),
        ("fruit.py", " " * 60 + "10 apples\n11 pears"),
    ],
)
@pytest.mark.parametrize("width", [12, 80])
def test_what_a_tool_answered_is_copied_as_it_was_written(path: str, content: str, width: int) -> None:
    assert all_copied(result_of(path, content), width) == content + "\n"


@given(st.lists(st.text("+-@ x1", max_size=12), max_size=6).map("\n".join), st.sampled_from([DIFF + "\n", ""]))
def test_any_answer_is_copied_as_it_was_written(text: str, before: str) -> None:
    text = before + text + "."
    assert all_copied(result_of("a.py", text), 20) == text + "\n"


def test_what_the_program_or_the_tool_has_added_is_not_copied() -> None:
    assert all_copied(result_of("a.py", CODE), 80).startswith("import os\n\ndef go(x):\n    return 'home'\n\n<")
    assert all_copied(result_of("a.py", "     9\timport os\n    10\timport re"), 80) == "import os\nimport re\n"
    written = of(call("Write", {"file_path": "a.py", "content": "10 apples\n11 pears"}))
    assert all_copied(written, 80).endswith("\n10 apples\n11 pears\n")
    assert [part.mark + part.text for part in highlighted(written)][-3:-1] == ["+ 10 apples", "+ 11 pears"]
    edited = of(call("Edit", {"file_path": "a.py", "old_string": "a\nb", "new_string": "a\nc"}))
    assert all_copied(edited, 80).endswith("\na\nb\nc\n")


def test_a_patch_is_copied_with_its_marks() -> None:
    patch = "*** Begin Patch\n*** Update File: a.py\n@@\n as it was\n-old\n+new\n*** End Patch"
    assert all_copied(of(call("apply_patch", {"input": patch})), 80).endswith(patch + "\n")


def test_a_long_line_of_a_diff_is_one_line() -> None:
    subject = result_of(
        "a.diff", f"{DIFF}\n {'x' * (CHUNK_CHARS - 1)}+tail\n+{'y' * (CHUNK_CHARS - 1)}-{'z' * CHUNK_CHARS}\n-"
    )
    found = [(part.style, part.mark, part.text) for part in highlighted(subject)[6:-1]]
    assert [(look, mark, text[:1], len(text)) for look, mark, text in found] == [
        ("text", "", " ", 5),
        ("text", "", " ", CHUNK_CHARS),
        ("text", "", "+", 5),
        ("added", "+", "y", CHUNK_CHARS - 1),
        ("added", "┊", "-", CHUNK_CHARS),
        ("added", "┊", "z", 1),
        ("removed", "-", "", 0),
    ]


def test_a_diff_that_is_shown_from_the_middle_of_a_line_has_no_mark_there() -> None:
    long = "x" * (LIMIT_SHOWN - LIMIT_SHOWN // 20) + "+" * LIMIT_SHOWN + "needle"
    subject = replace(result_of("a.diff", f"{DIFF}\n {long}\n+new"), extent=TextExtent(needle="needle"))
    parts = [part for part in highlighted(subject) if part.style != "warning"]
    assert not parts[0].mark and [part.text for part in parts if part.style == "added"] == ["new"]


# Selecting


async def select(pilot: Pilot[Any], first: Offset, last: Offset) -> None:
    await pilot.mouse_down(offset=first)
    await pilot.hover(offset=last)
    await pilot.mouse_up(offset=last)
    await pilot.pause()


class Copies(Shows):
    """The detail, on a clipboard of its own."""

    copied: str | None = None

    def copy_to_clipboard(self, text: str) -> None:
        self.copied = text


def place(detail: Detail, text: str, end: bool = False) -> Offset:
    """Where a text is drawn on the screen."""
    index, line = next((n, line.drawn_text) for n, line in enumerate(detail._lines) if text in line.drawn_text)
    x = line.index(text) + (len(text) - 1 if end else 0)
    return detail.content_region.offset + Offset(x, index - detail.scroll_offset.y)


async def test_what_is_selected_by_mouse_is_copied_without_the_breaks_of_wrapping() -> None:
    running = Copies(
        of({"type": "text", "text": "- one **long** item that has to be wrapped in a pane\n- two\n\n```\ncode\n```"})
    )
    async with running.run_test(size=(40, 20)) as pilot:
        detail = running.detail
        await rendering(pilot, detail)
        await select(pilot, place(detail, "long"), place(detail, "two"))
        await pilot.press("ctrl+c")
        assert running.copied == "long item that has to be wrapped in a pane\n• t"
        await select(pilot, place(detail, "wrapped"), place(detail, "pane", end=True))
        await pilot.press("ctrl+c")
        assert running.copied == "wrapped in a pane"
        await select(pilot, place(detail, "  code"), place(detail, "code", end=True))
        await pilot.press("ctrl+c")
        assert running.copied == "code"


async def test_what_is_selected_is_drawn_selected_and_gone_with_another_message() -> None:
    running = Copies(of({"type": "text", "text": "some words\nmore"}))
    async with running.run_test(size=(40, 20)) as pilot:
        detail = running.detail
        await rendering(pilot, detail)
        await select(pilot, place(detail, "words"), place(detail, "words", end=True))
        (first, last, _) = next(iter(detail.find_overlays(0)))
        assert detail._lines[0].drawn_text[first:last] == "words" and not list(detail.find_overlays(1))
        detail.show_document(of({"type": "text", "text": "other"}), Content("1"), Content(""))
        assert running.screen.get_selected_text() is None


async def test_in_two_columns_only_one_is_selected() -> None:
    running = Copies(cleared())
    async with running.run_test(size=(130, 20)) as pilot:
        detail = running.detail
        await rendering(pilot, detail)
        y = next(n for n, line in enumerate(detail._lines) if line.text.startswith("import jwt"))
        begin = detail.content_region.offset + Offset(0, y - detail.scroll_offset.y)
        await select(pilot, begin, begin + Offset(10, 1))
        await pilot.press("ctrl+c")
        assert running.copied == "import jwt  # 0-1\nimport jwt "
        await select(pilot, begin + Offset(70, 0), begin + Offset(110, 1))
        await pilot.press("ctrl+c")
        assert running.copied == " output cleared to save context — re-run the tool if its result is needed again]"


async def test_ctrl_c_with_nothing_selected_says_what_it_does() -> None:
    running = app()
    async with running.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await pilot.press("ctrl+c")
        assert running.is_running
        assert any("Nothing is selected to copy" in each.message for each in running._notifications)


# The inspector


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (60, 20)])
async def test_on_a_small_terminal_what_is_read_has_all_of_it(size: tuple[int, int]) -> None:
    running = app()
    async with running.run_test(size=size) as pilot:
        await settled(pilot)
        screen = inspector(running)
        screen.query_one(Timeline).select_location(Location(7))
        await pilot.press("enter")
        await settled(pilot)
        assert screen.query_one("#side").region.height == size[1] - 1, "all but the keys"
        assert drawn(running).startswith("━7"), "its border tells that the keys go to it"
        assert " v raw" in " " + drawn(running).split("\n")[-1]
        view = screen.view
        await pilot.press("left")
        assert screen.view is view, "what is not in sight does not change"
        await pilot.press("escape")
        await settled(pilot)
        assert screen.query_one("#tuning").region and screen.query_one(Timeline).has_focus
        await pilot.press("left")
        assert screen.view is not view


async def test_v_works_from_the_timeline_and_in_a_burst() -> None:
    running = app(from_messages([{"role": "user", "content": WRITTEN}, {"role": "assistant", "content": WRITTEN}]))
    async with running.run_test(size=(140, 44)) as pilot:
        await settled(pilot)
        screen: InspectorScreen = inspector(running)
        detail = screen.query_one(Detail)
        await rendering(pilot, detail)
        assert not detail.is_raw
        await pilot.press("v")
        assert detail.is_raw and "**rotate**" in drawn(running)
        await pilot.press("up", "v", "v", "down", "v", "up", "space", "v", "v", "escape")
        await settled(pilot)
        assert not detail.is_raw and detail.location == screen.location and "First rotate" in wrapped_text(detail)


# In a terminal, and as pictures


@pytest.mark.slow
def test_what_is_dragged_over_is_sent_to_the_clipboard(tmp_path: Path) -> None:
    said = "one two three four five six seven eight nine ten"
    file_of(tmp_path / "session.jsonl", [{"role": "user", "content": said}])
    with Terminal(
        [sys.executable, "-m", "context_tui", str(tmp_path / "session.jsonl")],
        columns=80,
        rows=24,
        env={"SSH_TTY": "/dev/pts/0"},
    ) as terminal:
        terminal.wait_for("est. tokens")
        terminal.settle(0.5)
        terminal.send(" ")
        terminal.settle(0.5)
        for row in range(2, 8):  # wherever the text stands
            terminal.send(f"\x1b[<0;2;{row}M\x1b[<32;9;{row}M\x1b[<32;14;{row}M\x1b[<0;14;{row}m\x03")
            terminal.settle(0.3)
        copied = re.findall(rb"\x1b\]52;c;([^\x07]*)\x07", terminal.output)
        assert b"one two three" in [base64.b64decode(each) for each in copied]
        assert terminal.alive()


def reading(key: str, location: Location) -> Any:
    async def steps(pilot: Pilot[Any]) -> None:
        await settled(pilot)
        inspector(pilot.app).query_one(Timeline).select_location(location)
        await settled(pilot)
        await pilot.press(key)
        await settled(pilot)

    return steps


REPLY = """# The plan

The token is **never** rotated, see `src/auth.py`:

1. read the file, and what stands around it in a list whose items are wrapped where the pane ends
   - a nested one
2. ~~guess~~ test

> quoted

| name | meaning |
|---|---|
| `keep` | how many turns are kept |

```python
def rotate(token: str) -> None:
    return store.put(token, 3)  # once
```
"""


def a_reply() -> Session:
    edit = {"file_path": "src/auth.py", "old_string": "a = 1\nb = 2", "new_string": "a = 'one'\nb = 2"}
    blocks = [{"type": "text", "text": REPLY}, call("Edit", edit)]
    return from_messages([{"role": "user", "content": "Go on."}, {"role": "assistant", "content": blocks}])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("theme", "size"), [("dark", (160, 50)), ("light", (80, 24)), ("ansi-dark", (80, 24))], ids=str
)
def test_snapshot_reply(snap_compare: Any, theme: str, size: tuple[int, int]) -> None:
    """Markdown without its marks, code and an edit in colours; on the small terminal all of it is the message."""
    assert snap_compare(app(a_reply(), theme=theme), terminal_size=size, run_before=reading("space", Location(1)))


@pytest.mark.slow
def test_snapshot_side_by_side(snap_compare: Any) -> None:
    """A cleared result before and after, in two columns; the timeline has become narrow and can still be read."""
    assert snap_compare(app(), terminal_size=(160, 50), run_before=reading("space", Location(4, 7)))
