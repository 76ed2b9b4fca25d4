"""Real recordings, where they lie beside the checkout: records accounted for, sums right, exports whole."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

import context_tui as ct
from context_tui.cli.inspect import build_report
from context_tui.export.files import export, list_writable_formats
from context_tui.session.session import Session
from context_tui.tokens.estimate_check import LARGE_ERROR, check_estimate
from scripts.recordings import PAGE, find_rows, format_page

CORPUS = Path(__file__).parents[2] / "shared" / "corpus"


def claimed() -> Iterator[Path]:
    """The files that a reader finds sessions in."""
    for path in sorted(CORPUS.rglob("*")):
        if path.is_file():
            try:
                ct.sessions_in(path)
            except ct.UnreadableSession:
                continue
            yield path


FILES = list(claimed())
BIG = 1_500_000
"""Bytes above which a file is only read where the time does not matter."""


def opened(path: Path) -> list[Session]:
    return [ct.open_session(f"{info.path}#{info.id}" if info.id else info.path) for info in ct.sessions_in(path)]


@pytest.fixture(params=[pytest.param(path, id=str(path.relative_to(CORPUS))) for path in FILES])
def path(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


def lines(path: Path) -> int:
    """Lines with anything on them; a line is one record but for the few that hold two objects."""
    return sum(1 for line in path.read_bytes().split(b"\n") if line.strip())


@pytest.mark.slow
def test_records_and_sums(path: Path) -> None:
    for session in opened(path):
        report = build_report(session, timeline=True)
        records = report["records"]
        assert records["total"] == records["messages"] + records["side"] + records["problems"] > 0
        assert len(report["problems"]) == records["problems"]
        if session.info.format == "claude-code":
            assert records["total"] - lines(Path(session.info.path)) == (1 if "badlines" in path.name else 0)
        parts, window = report["by_category"], report["window"]
        assert sum(parts.values()) == window["next_request_tokens"]
        assert sum(tool["result_tokens"] for tool in report["by_tool"]) == parts["tool_result"]
        assert len(report["timeline"]) == report["messages"]
        assert all(entry["tokens"] == sum(b["tokens"] for b in entry["blocks"]) for entry in report["timeline"])
        assert [entry["index"] for entry in report["timeline"] if entry["in_context"]] == sorted(window["indices"])
        assert max((entry["turn"] for entry in report["timeline"]), default=0) == report["turns"]


# A microcompact's preTokens is the size of the results that it looked at, not of the context.
@pytest.mark.slow
def test_tokens_before_compactions(path: Path) -> None:
    for session in opened(path):
        for found in build_report(session)["compactions"]:
            told, believed = found["tokens_before_in_file"], found["tokens_before"]
            if found["kind"] == "full" and told and found["message"] and found["tokens_before_source"] != "estimated":
                assert believed == pytest.approx(told, rel=0.05)


@pytest.mark.skipif(not FILES, reason="no real recordings beside the checkout")
def test_beliefs_are_near_what_was_recorded() -> None:
    found = list(find_rows(CORPUS / "claude-code"))
    assert median(row.median for row in found if row.median is not None) <= 0.003
    assert all(row.far and all(off.why for off in row.far) for row in found if (row.p95 or 0) > 0.1)
    assert PAGE.read_text(encoding="utf-8") == format_page(found), "make recordings"


@pytest.mark.skipif(not FILES, reason="no real recordings beside the checkout")
def test_what_a_recorded_microcompaction_cleared_is_inferred_without_its_record(tmp_path: Path) -> None:
    recorded = CORPUS / "claude-code" / "cli__compact2_micro1.jsonl"
    path = tmp_path / "silent.jsonl"
    lines = recorded.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line for line in lines if b'"microcompact_boundary"' not in line))
    whole, silent = ct.open_session(recorded), ct.open_session(path)
    [drop] = silent.drops
    assert drop.explained_by == "cleared results"
    assert {silent.facts.call_id(row) for row in drop.cleared_blocks} == {
        whole.facts.call_id(row) for row in whole.facts.compactions[0].cleared_blocks
    }


# Causes are sized one by one: only together can they be seen to make the whole difference.
@pytest.mark.slow
def test_causes_add_up(path: Path) -> None:
    for session in opened(path):
        for at in sorted({len(session) * part // 8 for part in range(1, 9)}):
            fit = check_estimate(session, session.context_at(at))
            if fit is None or abs(fit.relative_error) < LARGE_ERROR:
                continue
            gap = fit.expected - fit.recorded
            assert sum(cause.tokens for cause in fit.causes) + fit.unexplained == gap
            if fit.causes and session.info.format == "claude-code" and len(fit.causes) > 1:
                assert abs(fit.unexplained) <= 0.5 * max(abs(gap), 0.1 * fit.recorded), fit.causes_text


def test_text_measures_what_the_facts_say(path: Path) -> None:
    if path.stat().st_size > BIG:
        pytest.skip("only its facts are looked at")
    for session in opened(path):
        context = session.context_at()
        if not len(context):
            continue
        assert ct.tokens.estimate(ct.from_messages(session.to_messages())) == ct.tokens.estimate(context)


@pytest.mark.slow
def test_exports(path: Path, tmp_path: Path) -> None:
    if path.stat().st_size > BIG:
        pytest.skip("smaller ones show the same")
    before = hashlib.sha256(path.read_bytes()).digest()
    for number, session in enumerate(opened(path)):
        plan = ct.plan(session, "agent-sdk-compact", min_keep=6)
        done = ct.apply(session, plan, "the summary") if plan.has_changes else session
        if not len(done.context_at()):
            continue
        for name in list_writable_formats():
            out = tmp_path / f"{number}-{name}"
            losses = export(done, out, name).losses
            after = ct.open_session(out)
            if not losses:
                assert ct.tokens.estimate(after.context_at()) == ct.tokens.estimate(done.context_at())
                assert len(after.context_at()) == len(done.context_at())
            os.unlink(out)
    assert hashlib.sha256(path.read_bytes()).digest() == before
    assert not list(tmp_path.iterdir())
