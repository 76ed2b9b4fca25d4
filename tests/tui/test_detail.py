"""The detail: what is said about a message, and that long ones do not hold up anything."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import App, ComposeResult
from textual.content import Content

from context_tui.session.memory import from_messages
from context_tui.tui.analysis import compute_runtime_sizes
from context_tui.tui.reader.detail import Detail
from context_tui.tui.reader.document import (
    MAX_SHOWN_CHARS,
    DocumentSource,
    build_document,
    compute_diff,
    describe_request,
    find_edits,
    find_patch,
    parse_patch,
)
from context_tui.tui.rendering.formatting import describe_image, read_image_size
from context_tui.tui.search import find_all_text, find_text
from context_tui.tui.timeline.marks import RowMark, RowMarker
from context_tui.tui.timeline.rows import Location
from context_tui.tui.view import View
from tests.tui.fakes import drawn, wrapped_text
from tests.tui.inspecting import session

Block = dict[str, Any]


def of(*blocks: Block, role: str = "assistant") -> DocumentSource:
    made = from_messages([{"role": role, "content": list(blocks)}])
    return DocumentSource(made, Location(0), list(blocks), RowMarker(made.context_at(), None).find_mark(0))


def lines(subject: DocumentSource) -> list[tuple[str, str]]:
    return [(part.style, part.mark + part.text) for part in build_document(subject)]


def call(name: str, arguments: Any) -> Block:
    return {"type": "tool_use", "id": "1", "name": name, "input": arguments}


def test_arguments_are_lines_and_texts_keep_their_lines() -> None:
    found = lines(of(call("Bash", {"command": "cd src\npytest", "timeout": 5, "env": {"A": 1}})))
    assert found[0] == ("heading", "call Bash cd src pytest")
    assert found[1:4] == [("key", "command:"), ("text", "  cd src"), ("text", "  pytest")]
    assert ("text", "timeout: 5") in found and ("text", '    "A": 1') in found


def test_an_edit_is_a_diff() -> None:
    found = lines(of(call("Edit", {"file_path": "a.py", "old_string": "a\nb\nc", "new_string": "a\nB\nc"})))
    assert found[-5:-1] == [("text", "  a"), ("removed", "- b"), ("added", "+ B"), ("text", "  c")]


def test_a_written_file_and_a_patch_have_marks_too() -> None:
    assert ("added", "+ x = 1") in lines(of(call("Write", {"file_path": "a.py", "content": "x = 1\ny = 2"})))
    patch = "*** Begin Patch\n*** Update File: a.py\n@@\n-old\n+new\n*** End Patch"
    found = lines(of(call("apply_patch", {"input": patch})))
    assert ("removed", "-old") in found and ("added", "+new") in found


def test_long_edits_are_not_compared() -> None:
    many = "\n".join(map(str, range(3_000)))
    assert {line.mark for line in compute_diff(many, many)} == {"-", "+"}
    assert find_edits({"edits": [{"old_string": "a", "new_string": "b"}, {"oldText": "c", "newText": "d"}]}) == [
        ("a", "b"),
        ("c", "d"),
    ]
    assert find_patch({"x": 1}) is None and find_edits("text") == [] and next(parse_patch("+a")).mark == "+"


def test_hidden_thinking_says_so() -> None:
    (part,) = [text for look, text in lines(of({"type": "thinking", "thinking": "", "signature": "abcd"})) if text]
    assert part == "thinking, hidden by the provider: 4 encrypted characters"


def png(width: int, height: int) -> str:
    head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + width.to_bytes(4) + height.to_bytes(4) + b"\x08\2\0\0\0"
    return base64.b64encode(head).decode()


def test_images_are_described() -> None:
    block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": png(640, 480)}}
    assert describe_image(block) == "image/png, 0 KB, 640 × 480 pixels"
    jpeg = b"\xff\xd8\xff\xe0\0\4\0\0\xff\xc0\0\x11\x08" + (480).to_bytes(2) + (640).to_bytes(2) + b"\0\0\0"
    assert read_image_size(base64.b64encode(jpeg).decode()) == (640, 480)
    assert read_image_size("AAAA") is None and read_image_size("not base64 é") is None
    assert describe_image({"source": {"url": "https://a/\x1b[31m"}}) == "image, https://a/"


def test_an_unknown_block_is_shown_as_it_is() -> None:
    found = lines(of({"type": "server_tool_use", "x": [1]}))
    assert found[0] == ("heading", "server_tool_use; not estimated") and ("quiet", "    1") in found


def test_a_cleared_result_shows_before_and_after() -> None:
    view = View(session())
    assert view.plan is not None
    row = next(iter(view.plan.changes))
    location = Location(view.session.facts.block_message[row], row)
    mark = RowMarker(view.context, view.plan).find_mark(*location)
    subject = DocumentSource(view.session, location, view.session.content.blocks(location.message), mark, view.plan)
    found = lines(subject)
    assert found[0][0] == "cleared" and "would be cleared: 900 tokens become" in found[0][1]
    assert found[2][1].startswith("[tool output cleared to save context")
    assert ("heading", "before") in found and any(text.startswith("import jwt") for _, text in found)
    told = [text for _, text in lines(replace(subject, request_note="recorded"))]
    assert told[1] == "recorded" and told[told.index("before") + 1].startswith("import jwt")


def test_only_the_selected_result_is_shown() -> None:
    made = session()
    row = list(made.facts.blocks_of(2))[1]
    mark = RowMarker(made.context_at(), None).find_mark(2, row)
    found = lines(DocumentSource(made, Location(2, row), made.content.blocks(2), mark))
    assert [text for _, text in found if text] == ["0 passed"]


def test_the_request_is_told() -> None:
    made = session()
    assert (
        describe_request(made, Location(1))
        == "recorded: 9,410 tokens in (9,400 from the cache, 0 written to it), 20 out"
    )
    assert describe_request(made, Location(0)) == ""


def test_deep_nesting_is_no_crash() -> None:
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    subject = replace(of(call("X", {})), blocks=[call("X", {"a": deep})])
    assert any("nested too deeply" in text for _, text in lines(subject))


class Shows(App[None]):
    """Only the detail."""

    CSS_PATH = "../../context_tui/tui/app.tcss"

    def __init__(self, subject: DocumentSource) -> None:
        super().__init__()
        self.subject = subject

    def compose(self) -> ComposeResult:
        yield Detail()

    def on_mount(self) -> None:
        self.detail = self.query_one(Detail)
        self.detail.show_document(self.subject, Content("0  [/]title"), Content("est. 5"))
        self.detail.focus()


async def test_ten_megabytes_are_cut_with_a_note_and_paged_on() -> None:
    app = Shows(of({"type": "text", "text": "x" * 10_000_000}))
    async with app.run_test(size=(80, 20)) as pilot:
        await pilot.pause()
        assert len(app.detail._lines) < 300, "wrapped as far as it is looked at"
        app.detail.action_move_to_end(True)
        await pilot.pause()
        assert "9,800,000 more characters; press x to show more" in drawn(app)
        await pilot.press("x")
        assert app.detail._subject is not None and app.detail._subject.extent.limit == MAX_SHOWN_CHARS * 10


async def test_the_place_stays_when_only_the_fate_changes() -> None:
    subject = of({"type": "text", "text": "\n".join(f"line {n}" for n in range(300))})
    app = Shows(subject)
    async with app.run_test(size=(80, 20)) as pilot:
        await pilot.pause()
        app.detail.scroll_to(y=100, animate=False)
        await pilot.pause()
        app.detail.show_document(
            replace(subject, mark=RowMark("=", "protected", "kept: recent")), Content("0"), Content("")
        )
        await pilot.pause()
        assert app.detail.scroll_offset.y == 100


@pytest.mark.parametrize(("needle", "shown"), [("line 250", "line 250"), ("LINE", "line 0")])
async def test_what_was_found_is_shown(needle: str, shown: str) -> None:
    app = Shows(of({"type": "text", "text": "\n".join(f"line {n}" for n in range(300))}))
    async with app.run_test(size=(80, 20)) as pilot:
        await pilot.pause()
        app.detail.set_search_text(needle)
        await pilot.pause()
        assert shown in drawn(app)


def test_what_the_runtime_believed_is_said_where_a_model_was_called() -> None:
    made = session()
    assert compute_runtime_sizes(made).format_size(1) == "", "other runtimes are not told"
    made = replace(made, info=replace(made.info, format="defect"))
    runtime_sizes = compute_runtime_sizes(made)
    assert runtime_sizes.format_size(0) == runtime_sizes.format_size(2) == runtime_sizes.format_size(len(made)) == ""
    assert runtime_sizes.format_size(1).endswith(" (an estimate, as nothing was recorded before it)")
    believed = runtime_sizes.by_message[3].tokens or 0
    added = believed - made.facts.requests[0].context
    assert 0 < added < 2_000
    assert runtime_sizes.format_size(3) == (
        f"context size before this message, by runtime: defect {believed:,} (last recorded + estimate)"
    )
    assert not runtime_sizes.covers(session(), 3)


def test_what_was_believed_stands_below_what_was_recorded() -> None:
    subject = replace(
        of({"type": "text", "text": "Hi."}),
        request_note="recorded: 9,410 tokens in",
        runtime_sizes_note="believed: 9,000",
    )
    assert [text for _, text in lines(subject)][:3] == ["recorded: 9,410 tokens in", "believed: 9,000", ""]


LONG = "".join(f"line {n}\n" for n in range(600_000))


BEFORE = {
    "lines": "line of it\n" * 500_000,
    "one": "x" * 5_000_000,
    "edge": "y" * 199_995,
    "none": "",
    "wide": "İ" * 2_000_000,
}


def seen(detail: Detail) -> str:
    """The text in sight, as if it were not wrapped."""
    top = detail.scroll_offset.y
    return "".join(line.text for line in detail._lines[top : top + detail.size.height])


@pytest.mark.slow
@pytest.mark.parametrize("ends", ["\n", ""])
@pytest.mark.parametrize("before", BEFORE)
async def test_a_match_beyond_what_is_shown_is_opened_there(before: str, ends: str) -> None:
    app = Shows(of({"type": "text", "text": BEFORE[before] + "TheNeedle" + ends + "z" * 1_000_000}))
    async with app.run_test(size=(80, 20)) as pilot:
        await pilot.pause()
        for needle in ("needle", "Needle"):
            app.detail.set_search_text(needle)
            await pilot.pause()
            assert "TheNeedle" in seen(app.detail)
            assert sum(len(line.text) for line in app.detail._lines) < 60_000 or before == "edge", "not megabytes"
        if before != "none":
            app.detail.action_move_to_end(False)
            await pilot.pause()
            assert "Needle" not in seen(app.detail) and BEFORE[before][:10] in seen(app.detail), "it is one key away"


async def test_a_match_that_is_wrapped_is_marked_on_both_lines() -> None:
    app = Shows(of({"type": "text", "text": "x" * 70 + "needle" * 2 + "\n" + "y" * 70 + " a longer text to find"}))
    async with app.run_test(size=(80, 20)) as pilot:
        await pilot.pause()
        for needle in ("needle", "y a longer text to"):
            app.detail.set_search_text(needle)
            await pilot.pause()
            lines = [number for number in range(len(app.detail._lines)) if app.detail._find_needle_spans(number)]
            first, second = (app.detail._find_needle_spans(number) for number in lines)
            assert first[-1][1] == len(app.detail._lines[lines[0]].text) and min(second)[0] == 0


async def test_a_match_in_a_message_that_is_opened_later_is_shown() -> None:
    app = Shows(of({"type": "text", "text": "something else"}))
    async with app.run_test(size=(80, 20)) as pilot:
        await pilot.pause()
        app.detail.set_search_text("line 523456")
        other = of({"type": "text", "text": "short"}, {"type": "text", "text": LONG})
        app.detail.show_document(other, Content("1"), Content(""))
        await pilot.pause()
        assert "line 523456" in drawn(app) and "characters before this" in wrapped_text(app.detail)
        await pilot.press("x")
        await pilot.pause()
        assert "line 523456" in drawn(app), "more of it is shown, at the same place"


async def test_what_is_said_about_a_message_is_no_match() -> None:
    subject = replace(
        of({"type": "text", "text": "line\n" * 100 + "recorded at last"}), request_note="recorded: 9 tokens in"
    )
    app = Shows(subject)
    async with app.run_test(size=(80, 20)) as pilot:
        await pilot.pause()
        app.detail.set_search_text("recorded")
        await pilot.pause()
        assert "recorded at last" in drawn(app)


@given(st.text("aAbİß\n", max_size=60), st.text("abA", min_size=1, max_size=3))
def test_a_text_is_found_in_parts_as_in_the_whole(text: str, needle: str) -> None:
    exact = needle != needle.lower()
    expected = next(
        (at for at in range(len(text)) if (text[at:] if exact else text[at:].lower()).startswith(needle)), -1
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("context_tui.tui.search.LOWERCASE_CHUNK", 5)
        assert find_text(text, needle) == expected
        found = [*find_all_text(text, needle)]
    assert found[:1] == ([expected] if expected >= 0 else []) and found == sorted(set(found))
