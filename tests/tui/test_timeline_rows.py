"""The rows of the timeline: which there are, how they grow, which are listed, and what becomes of each."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

from context_tui.compaction.plan import KeepReason, Plan, VerdictCode
from context_tui.policies.base import Params
from context_tui.policies.planning import build_plan
from context_tui.session.facts import Compaction
from context_tui.session.memory import from_messages
from context_tui.session.session import Session
from context_tui.session.values import BlockFlag
from context_tui.tui.inspector.minimap import build_map_segments
from context_tui.tui.inspector.outcome import compute_outcome, format_effect
from context_tui.tui.reader.document import DocumentSource, build_document
from context_tui.tui.rendering.formatting import MessageReader, format_call, format_row_kind, has_unknown_size
from context_tui.tui.search import Search, SearchReport, find_matches
from context_tui.tui.terminal.cells import clip_to_width, fit_to_width
from context_tui.tui.timeline.filters import NO_FILTER, RowFilter, list_rows
from context_tui.tui.timeline.marks import RowMarker
from context_tui.tui.timeline.rows import TURN_HEAD, Location, TimelineRows
from context_tui.tui.view import View
from tests.test_plans import Tidy, recording
from tests.tui.inspecting import conversation, session


def rows_of(made: Session) -> TimelineRows:
    rows = TimelineRows()
    rows.grow(made)
    return rows


def test_a_slash_command_is_previewed_without_its_markup() -> None:
    words = "<command-message>plan</command-message>\n<command-name>/plan</command-name>\n"
    made = from_messages([{"role": "user", "content": f"{words}<command-args>a < b</command-args>"}])
    assert MessageReader(made).format_preview(0) == "/plan a < b"


def test_every_message_and_every_result_has_a_row() -> None:
    made = session(2, 2)
    rows = rows_of(made)
    every = range(len(rows))
    kinds = [
        "head" if rows.block[r] == TURN_HEAD else format_row_kind(made.facts, rows.message[r], rows.block[r])
        for r in every
    ]
    assert kinds == ["head", "user", *["asst", "result", "result"] * 2, "asst"] * 2
    assert rows.turn[0] == 1 and rows.turn[-1] == 2
    assert sum(rows.tokens) == rows.sums[-1] > 0


def test_rows_that_grow_in_steps_are_the_same_rows() -> None:
    whole = session(8, 2, compacted=True)
    rng, rows = random.Random(3), TimelineRows()
    length = 0
    while length < len(whole):
        revised = rng.choice([None, max(length - 2, 0)])
        length = min(length + rng.randrange(1, 7), len(whole))
        rows.grow(Session(whole.facts, whole.content, whole.info, length), revised)
    wanted = rows_of(whole)
    for name in ("message", "block", "tokens", "first", "turn", "heads", "sums", "largest_turn"):
        assert getattr(rows, name) == getattr(wanted, name), name
    assert rows.copy().message == wanted.message


def test_a_compaction_that_becomes_known_late_gets_its_separator() -> None:
    made = session(4, 1)
    rows = rows_of(made)
    made.facts.add_compaction(Compaction(8, "full"))
    rows.grow(made, len(made))
    assert [rows.message[r] for r in range(len(rows)) if rows.get_event(r)] == [8]


def test_turns_are_gone_through_by_their_starts() -> None:
    rows = rows_of(session(3, 1))
    starts = [rows.find_row(message, TURN_HEAD) for message in (0, 4, 8)]
    assert starts == [*rows.heads]
    assert rows.find_turn_head(0, 1) == starts[1] and rows.find_turn_head(starts[1], 1) == starts[2]
    assert rows.find_turn_head(starts[1] + 2, -1) == starts[1] and rows.find_turn_head(starts[1], -1) == starts[0]
    assert rows.find_turn_head(starts[2], 1) == len(rows) - 1


def test_every_row_has_the_verdict_of_its_result() -> None:
    view = View(session())
    marker, rows = RowMarker(view.context, view.plan), rows_of(view.session)
    words = [marker.find_mark(rows.message[r], rows.block[r]).verdict for r in range(len(rows))]
    assert view.plan is not None and words.count("cleared") == len(view.plan.changes) == 6
    assert "protected" in words and "kept" in words
    assert marker.find_mark(0).glyph == " " and "only tool results" in marker.find_mark(0).reason


def test_a_chain_protects_what_a_step_protects_and_none_changes() -> None:
    def rows_marked(glyphs: str, *policies: str) -> set[int]:
        view = View(session(), policy="chain").with_param("chain", "policies", policies)
        view = view if len(policies) > 1 else view.with_policy(*policies)
        marker, rows = RowMarker(view.context, view.plan), rows_of(view.session)
        return {r for r in range(len(rows)) if marker.find_mark(rows.message[r], rows.block[r]).glyph in glyphs}

    micro, prune, compact = "defect-microcompact", "agent-sdk-prune", "defect-compact"
    both = rows_marked("=", micro) | rows_marked("=", prune)
    assert rows_marked("=", micro, prune) == both - rows_marked("~", prune) > rows_marked("=", prune)
    assert rows_marked("=", micro, compact) == rows_marked("=", compact) > set(), "the rest is summarised"


def test_rows_outside_the_context_say_so() -> None:
    view = View(session(compacted=True)).with_point(30)
    marker = RowMarker(view.context, view.plan)
    assert (
        marker.find_mark(0).verdict == "before"
        and marker.find_mark(26).verdict != "before"
        and marker.find_mark(30).verdict == "after"
    )


def test_what_was_cleared_by_the_recording_is_marked() -> None:
    made = session()
    row = made.facts.call_result[made.facts.find_call_row("r0-0")]
    made.facts.add_compaction(Compaction(10, "micro", cleared_blocks=frozenset({row})))
    view = View(made, policy="manual")
    assert RowMarker(view.context, view.plan).find_mark(2, row).verdict == "gone"


def test_filters_list_what_meets_every_condition() -> None:
    view = View(session())
    rows, marker = rows_of(view.session), RowMarker(view.context, view.plan)
    assert list_rows(rows, marker, NO_FILTER, False) == range(len(rows))
    cleared = list_rows(rows, marker, RowFilter(verdict="cleared"), False)
    assert len(cleared) == 6
    assert all(marker.find_mark(rows.message[r], rows.block[r]).verdict == "cleared" for r in cleared)
    calls = list_rows(rows, marker, RowFilter(tool="Bash"), False)
    assert len(calls) == 6 * 3 * 2  # the calls and their results
    big = list_rows(rows, marker, RowFilter(category="tool_result", min_tokens=900), True)
    assert len(big) == 12
    assert [rows.tokens[r] for r in big] == sorted((rows.tokens[r] for r in big), reverse=True)
    one = list_rows(rows, marker, RowFilter(path="src/auth1.py"), False)
    assert len(one) == 12


def test_the_map_holds_all_tokens_and_the_fates() -> None:
    view = View(session())
    rows = rows_of(view.session)
    map_lines = build_map_segments(rows, view.plan, 0, view.point, 10)
    assert sum(line.tokens for line in map_lines) == rows.sums[-1]
    assert {line.verdict for line in map_lines} == {"cleared", "kept"}
    assert len(build_map_segments(rows_of(session(1, 0)), None, 0, 2, 30)) == 3


def test_previews_of_what_nobody_said_or_can_read() -> None:
    hidden = {"type": "compaction", "encrypted_content": "x" * 4_000}
    missing = {"type": "compaction", "note": "the summary is not in this file"}
    given = [[{"type": "text", "text": "one"}, {"type": "text", "text": "two"}], [hidden], [missing]]
    made = from_messages([{"role": "user", "content": blocks} for blocks in given])
    for row in made.facts.blocks_of(0):
        made.facts.block_flags[row] |= BlockFlag.INJECTED
    reader = MessageReader(made)
    assert [reader.format_preview(message) for message in range(3)] == [
        "one two",
        "(compaction, encrypted: 4,000 characters)",
        "(compaction: the summary is not in this file)",
    ]
    assert [has_unknown_size(made.facts, message) for message in range(3)] == [False, True, True]


def test_previews_say_what_was_called() -> None:
    made = session(1, 1)
    reader, facts = MessageReader(made), made.facts
    assert reader.format_preview(0) == "Step 0: rotate the refresh tokens"
    assert reader.format_preview(1) == "I look at it. → Read src/auth0.py · Bash pytest -q"
    assert reader.format_preview(2, facts.call_result[0]) == "Read src/auth0.py"
    assert format_call("Shell", {"command": ["bash", "-lc", "ls"]}) == "Shell ls"
    assert format_call("Shell", {"command": ["/bin/zsh", "-c"]}) == "Shell /bin/zsh -c"
    assert format_call("Shell", {"cmd": "cd /src/app && make"}, "/src/app") == "Shell make"
    assert format_call("Shell", {"cmd": "cd /src/lib/; make"}, "/src/app") == "Shell lib> make"
    assert format_call("Shell", {"cmd": "cd /src/lib"}, "/src/app") == "Shell cd /src/lib"
    assert format_call("Shell", {"cmd": "cd $(pwd) && make"}, "/src/app") == "Shell cd $(pwd) && make"
    assert format_call("run_commands", {"commands": ["git log", "ls"]}) == "run_commands git log ls"
    several = {"files": [{"path": "/src/app/a.py", "start": 1}, {"path": "/src/app/b.py"}]}
    assert format_call("read_files", several, "/src/app") == "read_files a.py b.py"
    assert format_call("read", {"filePath": "/src/app/a.py"}, "/src/app") == "read a.py"
    assert format_call("Read", {"file_path": "/home/dev/project/src/a.py"}, "/home/dev/project") == "Read src/a.py"
    assert format_call("Odd", {"n": 7}) == "Odd 7" and format_call("None", None) == "None"


def test_a_message_that_cannot_be_read_does_not_stop_the_program() -> None:
    made = session(1, 1)

    class Gone:
        def blocks(self, message: int) -> list[dict[str, object]]:
            raise OSError("gone")

    reader = MessageReader(Session(made.facts, Gone(), made.info, len(made)))  # type: ignore[arg-type]
    assert reader.format_preview(0) == "(cannot be read)"


def test_a_search_finds_texts_calls_and_results() -> None:
    made = from_messages(conversation(2, 1))
    assert [location for location in find_matches(made, "rotate") if location] == [Location(0), Location(4)]
    assert [location for location in find_matches(made, "# 1-0") if location] == [
        Location(6, made.facts.call_result[2])
    ]
    assert [location for location in find_matches(made, "pytest") if location] == [Location(1), Location(5)]
    assert not [location for location in find_matches(made, "ROTATE") if location], "capitals count when there are any"


def test_matches_are_gone_through_around_the_ends() -> None:
    made, search = session(3, 1), Search()
    rows = rows_of(made)
    search.start(made, "x")
    assert not search.update(SearchReport(0, [Location(0)], 1.0, True)), "an answer to an earlier search"
    assert search.update(SearchReport(1, [Location(0), Location(4), Location(8)], 1.0, True))
    assert search.find_next_match(rows, Location(0), 1) == Location(4) and search.find_next_match(
        rows, Location(8), 1
    ) == Location(0)
    assert search.find_next_match(rows, Location(0), -1) == Location(8) and search.find_next_match(
        rows, Location(5), -1
    ) == Location(4)
    assert search.format_count() == "3 rows" and search.format_count(Location(4)) == "2 of 3 rows"


def test_texts_are_cut_to_cells() -> None:
    assert fit_to_width("abc", 5) == "abc  " and fit_to_width("日本語", 5) == "日本 "
    assert (
        clip_to_width("abcdef", 4) == "abc…"
        and clip_to_width("abc", 4) == "abc "
        and clip_to_width("日本語", 4) == "日 …"
    )


def test_marks_say_what_becomes_of_any_block(tmp_path: Path) -> None:
    made = recording().open(tmp_path)
    plan = build_plan(made, Tidy(), Params())
    context, facts, rows = made.context_at(), made.facts, rows_of(made)
    marker = RowMarker(context, plan)
    found = {message: marker.find_mark(message)[:2] for message in context.order}
    assert (found[0], found[1], found[3], found[9]) == (
        ("=", "protected"),
        ("D", "dropped"),
        ("=", "protected"),
        ("D", "dropped"),
    )
    assert {found[message] for message in (4, 5, 6, 7, 12, 13, 14, 15)} == {("D", "dropped")}
    assert found[8] == found[11] == (" ", "kept")
    assert marker.find_mark(1).reason == "its thinking, 56 tokens become nothing"
    assert marker.find_mark(2, facts.call_result[0])[:2] == ("-", "cleared")
    assert marker.find_mark(5).reason == "one of messages 4 to 7"
    assert {line.verdict for line in build_map_segments(rows, plan, 0, len(made), 20)} == {
        "cleared",
        "dropped",
        "kept",
        "truncated",
    }

    def shown(plan: Plan, verdict: str) -> set[int]:
        found = list_rows(rows, RowMarker(context, plan), RowFilter(verdict=verdict), False)
        return {rows.message[row] for row in found or ()}

    assert shown(plan, "cleared") == {2, 10, 18} and shown(plan, "dropped") == {1, *range(4, 8), 9, *range(12, 16), 17}
    only = replace(plan, dropped_ranges=(), inserts=())
    assert shown(only, "dropped") == {1, 5, 9, 13, 17} and shown(only, "cleared") == {2, 6, 10, 14, 18}

    subject = DocumentSource(made, Location(1), made.content.blocks(1), marker.find_mark(1), plan)
    said = [part.text for part in build_document(subject) if part.style == "heading"]
    assert said[:3] == ["after of its thinking, nothing", "after of its call, est. 10 tokens", "before"]
    assert "D part of it would be dropped: its thinking, 56 tokens become nothing" in [
        part.text for part in build_document(subject)
    ]
    assert format_effect(compute_outcome(plan)) == (
        "clears 5 of 5 results, changes 10 other blocks, drops 8 of 20 messages, adds 2 messages"
    )
    middle = replace(
        plan,
        changes={},
        keep_reason=lambda position, block: KeepReason(VerdictCode.SMALL, "within the last 3 turns, they say"),
    )
    assert RowMarker(context, middle).find_mark(0).verdict == "kept", "the code counts, whatever the words are"
