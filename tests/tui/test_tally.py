"""What is told of the marks of a whole context: as many as the timeline would show, and from where to where."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from context_tui.policies.base import Params
from context_tui.policies.planning import build_plan
from context_tui.tui.inspector.mark_totals import JUMP_KEYS, MAX_MARKED_ROWS, format_mark_totals
from context_tui.tui.inspector.timeline_frame import fit_legend
from context_tui.tui.timeline.marks import RowMarker
from context_tui.tui.timeline.rows import WHOLE_MESSAGE
from context_tui.tui.view import View
from tests.test_plans import Tidy, recording
from tests.tui.inspecting import session
from tests.tui.test_timeline_rows import rows_of

POLICIES = (
    "defect-microcompact",
    "defect-compact",
    "koda-microcompact",
    "agent-sdk-prune",
    "agent-sdk-compact",
    "chain",
)


def number(words: str) -> int:
    """How many are told of."""
    return int(words.split(": ")[1].split()[0].replace(",", ""))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("at", [None, 30])
def test_as_many_are_told_as_there_are_marks(policy: str, at: int | None) -> None:
    view = View(session(12, compacted=True), at=at, policy=policy)
    rows, marker = rows_of(view.session), RowMarker(view.context, view.plan)
    marks = [
        (m, b, marker.find_mark(m, b).verdict)
        for m, b in zip(rows.message, rows.block, strict=True)
        if b >= WHOLE_MESSAGE
    ]
    told = format_mark_totals(rows, marker)
    assert set(told) == {word for _, _, word in marks if word != "kept"}
    for word, (long, *_) in told.items():
        found = [(m, b) for m, b, each in marks if each == word]
        whole = word in ("summarised", "dropped", "before", "after")
        assert number(long) == len({m for m, _ in found} if whole else found)
        if "#" in long:
            first, last = (f"#{at(m for m, _ in found)}" for at in (min, max))
            assert (f"{first} to {last}" if first != last else first) in long


def test_what_goes_with_its_message_is_told_once(tmp_path: Path) -> None:
    made = recording().open(tmp_path)
    rows, marker = rows_of(made), RowMarker(made.context_at(), build_plan(made, Tidy(), Params()))
    told = format_mark_totals(rows, marker)
    assert told["dropped"][:2] == (
        f"would be dropped: 11 parts, #1 to #17 ({JUMP_KEYS})",
        "would be dropped: 11 parts, #1 to #17",
    )
    assert told["cleared"] == (
        "would be cleared: 3 results, #2 to #18",
        "cleared 3, #2 to #18",
        "cleared 3",
    )


def test_what_was_applied_is_told_as_done() -> None:
    made = session(2)
    results = [row for row in range(len(made.facts.kind)) if made.facts.call[row] >= 0][1:3]
    done = Counter({row: 1 for row in results})
    told = format_mark_totals(rows_of(made), RowMarker(made.context_at(None), None, dict.fromkeys(done, "cleared")))
    assert told["cleared"][0].startswith("cleared: 2 results, #1 to #2")


def test_where_there_are_very_many_rows_only_the_changes_are_counted() -> None:
    view = View(session(MAX_MARKED_ROWS // 10))
    rows = rows_of(view.session)
    assert len(rows) > MAX_MARKED_ROWS
    assert set(format_mark_totals(rows, RowMarker(view.context, view.plan))) == {"cleared"}


def test_a_narrow_legend_says_less_of_what_comes_last() -> None:
    cleared = ("would be cleared: 23 results, #2 to #126 (< > go there)", "would be cleared: 23 results", "cleared 23")
    marks = {"cleared": cleared, "protected": ("protected: 46 rows", "kept 46")}
    shown = ("cleared", "protected", "map", "open", "bar")
    said = [[words for _, words in fit_legend(shown, marks, width)] for width in (200, 95, 60, 40, 12)]
    assert said[0][:3] == [
        cleared[0],
        marks["protected"][0],
        "map: all rows, a bar for their tokens, shaded where you are",
    ]
    assert len(said[0]) == 5
    assert said[1] == [cleared[0], marks["protected"][0], "map"]
    assert said[2] == [cleared[1], "kept 46", "map: all rows"]
    assert said[3] == ["cleared 23", "kept 46", "map"]
    assert said[4] == ["kept 46"]


def test_steps_of_a_chain_are_told_from_the_first_to_the_last_message() -> None:
    params = {"chain": {"policies": ("defect-microcompact", "koda-microcompact")}}
    view = View(session(12).with_window(20_000), policy="chain", params=params)
    plan, facts = view.plan, view.session.facts
    assert plan is not None
    places = [facts.block_message[row] for row in plan.changes]
    assert places != sorted(places), "not in the order of the prompt"
    words = format_mark_totals(rows_of(view.session), RowMarker(view.context, plan))["cleared"][0]
    assert f"#{min(places)} to #{max(places)}" in words
