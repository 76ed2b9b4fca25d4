"""What was known at a point: a recording that is cut there, and the whole one looked at there, say the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import context_tui as ct
from context_tui.cli.inspect import build_report
from context_tui.cli.plan import build_report as plan_report
from context_tui.compaction.next_request import compute_next_request
from context_tui.session.session import Session
from context_tui.tokens.measures import TokenMeasure
from tests.formats.providers import Provider
from tests.formats.recordings import Recording, conversations, text

CORPUS = Path(__file__).parents[2] / "shared" / "corpus" / "claude-code"
FILES = sorted(CORPUS.rglob("*.jsonl"))
WINDOW = 150_000
PARTS = "window by_category by_tool duplicate_reads diagnosis fit epochs drops".split()
POLICIES = "defect-microcompact defect-compact koda-microcompact agent-sdk-prune agent-sdk-compact chain".split()


def cuts(session: Session) -> Iterator[tuple[int, int]]:
    """Each message whose records all come behind those of the messages before it, and the byte at which it begins."""
    facts, written = session.facts, 0
    for message in range(len(session)):
        rows = [row for row in facts.iterate_records(message) if message not in facts.shared_record]
        places = [facts.record_place[row] for row in rows]
        if message and places and min(places) >= written:
            yield message, min(places)
        written = max([written, *(facts.record_place[row] + facts.record_length[row] for row in rows)])


def known(session: Session, at: int | None = None) -> dict[str, Any]:
    """What is said of a point: the parts of the report that are about it, and every plan."""
    report = build_report(session, at, measure=TokenMeasure.OWN)
    plans = [ct.plan(session, name, at=at, idle_seconds=400, force=True) for name in POLICIES]
    return {part: report[part] for part in PARTS} | {
        plan.policy: plan_report(plan, compute_next_request(plan)) for plan in plans
    }


def compare(path: Path, folder: Path, most: int) -> int:
    """Compare up to *most* points of a file, evenly spread; returns how many there were."""
    data, whole = path.read_bytes(), ct.open_session(path, window=WINDOW)
    points = list(cuts(whole))
    points = points[:: max(1, len(points) // most)]
    for at, place in points:
        part = folder / "cut.jsonl"
        part.write_bytes(data[:place])
        session = ct.open_session(part, window=WINDOW)
        assert len(session) == at
        assert known(session) == known(whole, at), f"before message {at}"
    return len(points)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(recording=conversations(), clears=st.lists(st.integers(1, 30), max_size=2))
def test_random_recordings(tmp_path: Path, recording: Recording, clears: list[int]) -> None:
    made = Recording()
    made.clear()
    root = made.lines[0]
    for place in sorted(clears, reverse=True):
        recording.lines.insert(min(place, len(recording.lines)), root.replace(b'"u1"', f'"clear-{place}"'.encode()))
    compare(recording.write(tmp_path), tmp_path, 20)


def test_a_recording_with_drops(tmp_path: Path) -> None:
    made = Provider(base=90_000)
    made.user("do it")
    made.step(size=100_000)
    made.steps()
    made.user("go on")
    made.clear(100_000)
    made.reply(text("reply"))
    made.user("and on")
    made.steps(3)
    made.context -= 50_000
    made.reply(text("reply"))
    made.user("the end")
    path = made.recording.write(tmp_path)
    assert [drop.explained_by for drop in ct.open_session(path).drops] == ["cleared results", None]
    assert compare(path, tmp_path, 100) > 30


@pytest.mark.slow
@pytest.mark.skipif(not FILES, reason="no real recordings beside the checkout")
@pytest.mark.parametrize("path", [pytest.param(path, id=path.name) for path in FILES if path.stat().st_size > 50_000])
def test_real_recordings(path: Path, tmp_path: Path) -> None:
    assert compare(path, tmp_path, 20) >= min(3, len(ct.open_session(path)) - 1)


@pytest.mark.skipif(not FILES, reason="no real recordings beside the checkout")
def test_a_real_session_has_one_window_however_much_of_it_is_there(tmp_path: Path) -> None:
    lines = (CORPUS / "oh-my-posh__v2.1.219_compact_b.jsonl").read_bytes().splitlines(keepends=True)
    for count in (100, 500, 750, 1_300, len(lines)):
        part = tmp_path / "cut.jsonl"
        part.write_bytes(b"".join(lines[:count]))
        assert ct.open_session(part).window.tokens == 1_000_000
