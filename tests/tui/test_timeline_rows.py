"""The rows of the timeline: which there are, how they grow, which are listed, and what becomes of each."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

from context_tui.compaction.plan import Plan
from context_tui.compaction.verdicts import Code, Kept
from context_tui.policies.base import Params
from context_tui.policies.planning import plan_with
from context_tui.session.facts import Compaction
from context_tui.session.memory import from_messages
from context_tui.session.session import Session
from context_tui.session.values import BlockFlag
from context_tui.tui.cells import clip, fit
from context_tui.tui.document import Subject, pieces
from context_tui.tui.filters import EVERYTHING, Filter
from context_tui.tui.listing import listed
from context_tui.tui.marks import Marker
from context_tui.tui.rows import HEAD, Rows
from context_tui.tui.search import Found, Search, matches
from context_tui.tui.text import Reader, call_line, kind_word, of_unknown_size
from context_tui.tui.view import Location, View
from context_tui.tui.widgets.minimap import stretches
from context_tui.tui.widgets.outcome import does, outcome_of
from tests.test_plans import Tidy, recording
from tests.tui.inspecting import conversation, session


def rows_of(made: Session) -> Rows:
    rows = Rows()
    rows.grow(made)
    return rows


def test_every_message_and_every_result_has_a_row() -> None:
    made = session(2, 2)
    rows = rows_of(made)
    every = range(len(rows))
    kinds = ["head" if rows.block[r] == HEAD else kind_word(made.facts, rows.message[r], rows.block[r]) for r in every]
    assert kinds == ["head", "user", *["asst", "result", "result"] * 2, "asst"] * 2
    assert rows.turn[0] == 1 and rows.turn[-1] == 2
    assert sum(rows.tokens) == rows.sums[-1] > 0


def test_rows_that_grow_in_steps_are_the_same_rows() -> None:
    whole = session(8, 2, compacted=True)
    rng, rows = random.Random(3), Rows()
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
    assert [rows.message[r] for r in range(len(rows)) if rows.event(r)] == [8]


def test_turns_are_gone_through_by_their_starts() -> None:
    rows = rows_of(session(3, 1))
    starts = [rows.row_of(message, HEAD) for message in (0, 4, 8)]
    assert starts == [*rows.heads]
    assert rows.turn_row(0, 1) == starts[1] and rows.turn_row(starts[1], 1) == starts[2]
    assert rows.turn_row(starts[1] + 2, -1) == starts[1] and rows.turn_row(starts[1], -1) == starts[0]
    assert rows.turn_row(starts[2], 1) == len(rows) - 1


def test_every_row_has_the_verdict_of_its_result() -> None:
    view = View(session())
    marker, rows = Marker(view.context, view.plan), rows_of(view.session)
    words = [marker.mark(rows.message[r], rows.block[r]).word for r in range(len(rows))]
    assert view.plan is not None and words.count("cleared") == len(view.plan.changes) == 6
    assert "protected" in words and "kept" in words
    assert marker.mark(0).glyph == " " and "only tool results" in marker.mark(0).reason


def test_a_chain_protects_what_a_step_protects_and_none_changes() -> None:
    def rows_marked(glyphs: str, *policies: str) -> set[int]:
        view = View(session(), policy="chain").with_param("chain", "policies", policies)
        view = view if len(policies) > 1 else view.with_policy(*policies)
        marker, rows = Marker(view.context, view.plan), rows_of(view.session)
        return {r for r in range(len(rows)) if marker.mark(rows.message[r], rows.block[r]).glyph in glyphs}

    micro, prune, compact = "defect-microcompact", "agent-sdk-prune", "defect-compact"
    both = rows_marked("=", micro) | rows_marked("=", prune)
    assert rows_marked("=", micro, prune) == both - rows_marked("~", prune) > rows_marked("=", prune)
    assert rows_marked("=", micro, compact) == rows_marked("=", compact) > set(), "the rest is summarised"


def test_rows_outside_the_context_say_so() -> None:
    view = View(session(compacted=True)).with_point(30)
    marker = Marker(view.context, view.plan)
    assert marker.mark(0).word == "before" and marker.mark(26).word != "before" and marker.mark(30).word == "after"


def test_what_was_cleared_by_the_recording_is_marked() -> None:
    made = session()
    row = made.facts.call_result[made.facts.call_row("r0-0")]
    made.facts.add_compaction(Compaction(10, "micro", cleared_blocks=frozenset({row})))
    view = View(made, policy="manual")
    assert Marker(view.context, view.plan).mark(2, row).word == "gone"


def test_filters_list_what_meets_every_condition() -> None:
    view = View(session())
    rows, marker = rows_of(view.session), Marker(view.context, view.plan)
    assert listed(rows, marker, EVERYTHING, False) == range(len(rows))
    cleared = listed(rows, marker, Filter(verdict="cleared"), False)
    assert len(cleared) == 6
    assert all(marker.mark(rows.message[r], rows.block[r]).word == "cleared" for r in cleared)
    calls = listed(rows, marker, Filter(tool="Bash"), False)
    assert len(calls) == 6 * 3 * 2  # the calls and their results
    big = listed(rows, marker, Filter(category="tool_result", min_tokens=900), True)
    assert len(big) == 12
    assert [rows.tokens[r] for r in big] == sorted((rows.tokens[r] for r in big), reverse=True)
    one = listed(rows, marker, Filter(path="src/auth1.py"), False)
    assert len(one) == 12


def test_the_map_holds_all_tokens_and_the_fates() -> None:
    view = View(session())
    rows = rows_of(view.session)
    map_lines = stretches(rows, view.plan, 0, view.point, 10)
    assert sum(line.tokens for line in map_lines) == rows.sums[-1]
    assert {line.fate for line in map_lines} == {"cleared", "kept"}
    assert len(stretches(rows_of(session(1, 0)), None, 0, 2, 30)) == 3


def test_previews_of_what_nobody_said_or_can_read() -> None:
    hidden = {"type": "compaction", "encrypted_content": "x" * 4_000}
    missing = {"type": "compaction", "note": "the summary is not in this file"}
    given = [[{"type": "text", "text": "one"}, {"type": "text", "text": "two"}], [hidden], [missing]]
    made = from_messages([{"role": "user", "content": blocks} for blocks in given])
    for row in made.facts.blocks_of(0):
        made.facts.block_flags[row] |= BlockFlag.INJECTED
    reader = Reader(made)
    assert [reader.preview(message) for message in range(3)] == [
        "one two",
        "(compaction, encrypted: 4,000 characters)",
        "(compaction: the summary is not in this file)",
    ]
    assert [of_unknown_size(made.facts, message) for message in range(3)] == [False, True, True]


def test_previews_say_what_was_called() -> None:
    made = session(1, 1)
    reader, facts = Reader(made), made.facts
    assert reader.preview(0) == "Step 0: rotate the refresh tokens"
    assert reader.preview(1) == "I look at it. → Read src/auth0.py · Bash pytest -q"
    assert reader.preview(2, facts.call_result[0]) == "Read src/auth0.py"
    assert call_line("Shell", {"command": ["bash", "-lc", "ls"]}) == "Shell ls"
    assert call_line("Shell", {"command": ["/bin/zsh", "-c"]}) == "Shell /bin/zsh -c"
    assert call_line("Shell", {"cmd": "cd /src/app && make"}, "/src/app") == "Shell make"
    assert call_line("Shell", {"cmd": "cd /src/lib/; make"}, "/src/app") == "Shell lib> make"
    assert call_line("Shell", {"cmd": "cd /src/lib"}, "/src/app") == "Shell cd /src/lib"
    assert call_line("Shell", {"cmd": "cd $(pwd) && make"}, "/src/app") == "Shell cd $(pwd) && make"
    assert call_line("run_commands", {"commands": ["git log", "ls"]}) == "run_commands git log ls"
    several = {"files": [{"path": "/src/app/a.py", "start": 1}, {"path": "/src/app/b.py"}]}
    assert call_line("read_files", several, "/src/app") == "read_files a.py b.py"
    assert call_line("read", {"filePath": "/src/app/a.py"}, "/src/app") == "read a.py"
    assert call_line("Read", {"file_path": "/home/dev/project/src/a.py"}, "/home/dev/project") == "Read src/a.py"
    assert call_line("Odd", {"n": 7}) == "Odd 7" and call_line("None", None) == "None"


def test_a_message_that_cannot_be_read_does_not_stop_the_program() -> None:
    made = session(1, 1)

    class Gone:
        def blocks(self, message: int) -> list[dict[str, object]]:
            raise OSError("gone")

    reader = Reader(Session(made.facts, Gone(), made.info, len(made)))  # type: ignore[arg-type]
    assert reader.preview(0) == "(cannot be read)"


def test_a_search_finds_texts_calls_and_results() -> None:
    made = from_messages(conversation(2, 1))
    assert [location for location in matches(made, "rotate") if location] == [Location(0), Location(4)]
    assert [location for location in matches(made, "# 1-0") if location] == [Location(6, made.facts.call_result[2])]
    assert [location for location in matches(made, "pytest") if location] == [Location(1), Location(5)]
    assert not [location for location in matches(made, "ROTATE") if location], "capitals count when there are any"


def test_matches_are_gone_through_around_the_ends() -> None:
    made, search = session(3, 1), Search()
    rows = rows_of(made)
    search.begin(made, "x")
    assert not search.take(Found(0, [Location(0)], 1.0, True)), "an answer to an earlier search"
    assert search.take(Found(1, [Location(0), Location(4), Location(8)], 1.0, True))
    assert search.step(rows, Location(0), 1) == Location(4) and search.step(rows, Location(8), 1) == Location(0)
    assert search.step(rows, Location(0), -1) == Location(8) and search.step(rows, Location(5), -1) == Location(4)
    assert search.count_text() == "3 rows" and search.count_text(Location(4)) == "2 of 3 rows"


def test_texts_are_cut_to_cells() -> None:
    assert fit("abc", 5) == "abc  " and fit("日本語", 5) == "日本 "
    assert clip("abcdef", 4) == "abc…" and clip("abc", 4) == "abc " and clip("日本語", 4) == "日 …"


def test_marks_say_what_becomes_of_any_block(tmp_path: Path) -> None:
    made = recording().open(tmp_path)
    plan = plan_with(made, Tidy(), Params())
    context, facts, rows = made.context_at(), made.facts, rows_of(made)
    marker = Marker(context, plan)
    found = {message: marker.mark(message)[:2] for message in context.order}
    assert (found[0], found[1], found[3], found[9]) == (
        ("=", "protected"),
        ("D", "dropped"),
        ("=", "protected"),
        ("D", "dropped"),
    )
    assert {found[message] for message in (4, 5, 6, 7, 12, 13, 14, 15)} == {("D", "dropped")}
    assert found[8] == found[11] == (" ", "kept")
    assert marker.mark(1).reason == "its thinking, 56 tokens become nothing"
    assert marker.mark(2, facts.call_result[0])[:2] == ("-", "cleared")
    assert marker.mark(5).reason == "one of messages 4 to 7"
    assert {line.fate for line in stretches(rows, plan, 0, len(made), 20)} == {
        "cleared",
        "dropped",
        "kept",
        "truncated",
    }

    def shown(plan: Plan, verdict: str) -> set[int]:
        found = listed(rows, Marker(context, plan), Filter(verdict=verdict), False)
        return {rows.message[row] for row in found or ()}

    assert shown(plan, "cleared") == {2, 10, 18} and shown(plan, "dropped") == {1, *range(4, 8), 9, *range(12, 16), 17}
    only = replace(plan, dropped=(), inserts=())
    assert shown(only, "dropped") == {1, 5, 9, 13, 17} and shown(only, "cleared") == {2, 6, 10, 14, 18}

    subject = Subject(made, Location(1), made.content.blocks(1), marker.mark(1), plan)
    said = [part.text for part in pieces(subject) if part.look == "heading"]
    assert said[:3] == ["after of its thinking, nothing", "after of its call, est. 10 tokens", "before"]
    assert "D part of it would be dropped: its thinking, 56 tokens become nothing" in [
        part.text for part in pieces(subject)
    ]
    assert does(outcome_of(plan)) == (
        "clears 5 of 5 results, changes 10 other blocks, drops 8 of 20 messages, adds 2 messages"
    )
    middle = replace(
        plan, changes={}, kept=lambda position, block: Kept(Code.SMALL, "within the last 3 turns, they say")
    )
    assert Marker(context, middle).mark(0).word == "kept", "the code counts, whatever the words are"
