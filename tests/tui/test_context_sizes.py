"""What is told about sizes: the window at a point, how the estimate fits, branches, and what recorded sizes suggest."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from textual.widgets import Label, Static

from context_tui.compaction.apply import apply
from context_tui.formats.opening import open_session
from context_tui.policies.planning import plan
from context_tui.session.facts import Branch, Usage
from context_tui.session.memory import from_messages
from context_tui.session.session import Session
from context_tui.session.values import Role
from context_tui.tokens.breakdown import DuplicateRead
from context_tui.tokens.context_size import measure_context
from context_tui.tokens.estimate_check import Cause, EstimateCheck
from context_tui.tui.analysis import ContextSizes, compute_context_sizes, format_estimate_error
from context_tui.tui.inspector import notices
from context_tui.tui.inspector.breakdown import BreakdownRow, BreakdownView, build_breakdown_rows, format_row_line
from context_tui.tui.inspector.header import HeaderBar
from context_tui.tui.inspector.notices import format_branches, format_notice
from context_tui.tui.view import View
from context_tui.tui.widgets.dialogs import InputPrompt
from context_tui.tui.widgets.styled_text import count_cells
from tests.formats.recordings import Recording, text, usage
from tests.tui.fakes import until
from tests.tui.inspecting import app, conversation, inspector, opened, session, settled

SAMPLES = Path(__file__).parents[2] / "sample_sessions"
OFF = EstimateCheck(
    515_912,
    419_385,
    (
        Cause("tokenizer", -123_682),
        Cause("thinking", 31_908),
        Cause("frames of requests", -16_306),
        Cause("images", 14_000),
    ),
    -2_447,
)


def switching() -> Session:
    """A session that begins with one model and goes on with another, whose windows differ."""
    made = from_messages(conversation(6, 3))
    for message in range(len(made)):
        if made.facts.role[message] == Role.ASSISTANT:
            made.facts.model = "gpt-4o" if message < 20 else "claude-sonnet-4-5"
            made.facts.add_request(message, Usage(fresh=9_000 + 400 * message))
    return made


def test_the_window_is_that_of_the_model_at_the_point() -> None:
    made = switching()
    views = [View(made, at=at) for at in (10, None)]
    assert [view.window.tokens for view in views] == [128_000, 200_000]
    assert [view.runtime_state.window for view in views] == [view.window for view in views]
    assert [view.with_window(64_000).window.tokens for view in views] == [64_000, 64_000]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("at", "size", "said"),
    [(10, "128k", "Now 128,000, by the model"), (None, "200k", "Now 200,000 (or 1,000,000), by the model")],
)
async def test_the_header_and_the_question_have_the_window_of_the_point(at: int | None, size: str, said: str) -> None:
    running = app(switching(), at=at)
    async with running.run_test(size=(160, 50)) as pilot:
        await settled(pilot)
        header = running.screen.query_one(HeaderBar).render().plain
        assert f"of {size})" in header and ("the window may be 1,000,000: w sets it" in header) == (at is None)
        await pilot.press("w")
        await until(pilot, lambda: isinstance(running.screen, InputPrompt))
        assert said in str(running.screen.query_one("#prompt-hint", Label).content)


def test_a_near_estimate_is_not_worth_words() -> None:
    near = OFF._replace(expected=460_000)
    assert format_estimate_error(near) == ""
    assert format_estimate_error(OFF._replace(expected=700_000)) == "36 % above the 515,912 recorded"


@pytest.mark.slow
async def test_the_fit_is_told_in_the_details_and_is_computed_by_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: list[threading.Thread] = []

    def sizes(view: View, checkpoint: Callable[[], object], ruler: object) -> ContextSizes:
        threads.append(threading.current_thread())
        return replace(compute_context_sizes(view), estimate_check=OFF)

    monkeypatch.setattr("context_tui.tui.inspector.workers.compute_context_sizes", sizes)
    running = app()
    async with running.run_test(size=(160, 44)) as pilot:
        await settled(pilot)
        told = str(running.screen.query_one("#status", Static).content)
        assert "Z turns with their tokens" in told and "Estimate" not in told
        rows = running.screen.query_one(BreakdownView).rows
        assert any(row.text.startswith("the estimate is 19 %") for row in rows)
        await pilot.press("left", "2")
        await settled(pilot)
        assert len(threads) == 1, "settings change nothing of it"
        await pilot.press("home", "full_stop")
        await settled(pilot)
        assert len(threads) == 2 and threading.main_thread() not in threads
        screen = inspector(running)
        assert screen.controller.analysis.get_context_sizes(screen.view) is not None


def test_the_notice_computes_no_fit() -> None:
    assert not hasattr(notices, "check_estimate")


def test_left_branches_are_told_with_what_opens_one() -> None:
    made = open_session(SAMPLES / "compacted-session.jsonl")
    said = [format_branches(made, width) for width in (118, 78, 60)]
    assert said[0].endswith("on a rewound branch   open it: context-tui compacted-session.jsonl#branch-1")
    assert said[1:] == [
        "5 messages, 2 requests on a rewound branch: compacted-session.jsonl#branch-1",
        "5 messages, 2 requests on a rewound branch: #branch-1",
    ]
    assert format_notice(View(made), [], 118) == said[0]
    assert open_session(f"{SAMPLES / 'compacted-session.jsonl'}#branch-1").length == 23
    made.facts.branches.append(Branch("branch-2", 3, 1))
    assert format_branches(made, 200).startswith("8 messages, 3 requests on 2 rewound branches   open the first: ")
    assert format_branches(session(), 80) == ""


async def test_the_header_counts_left_branches() -> None:
    running = app(open_session(SAMPLES / "compacted-session.jsonl"))
    async with running.run_test(size=(160, 44)) as pilot:
        await opened(pilot)
        assert "1 rewound branch" in running.screen.query_one(HeaderBar).render().plain


def text_of(row: BreakdownRow, width: int) -> str:
    """A row as it is drawn."""
    runs = format_row_line(row, width, False)
    assert count_cells(runs) == width
    return "".join(text for text, _ in runs)


def shown(**sizes: object) -> list[BreakdownRow]:
    """The rows of the breakdown of the usual session, with other sizes."""
    view = View(session())
    return build_breakdown_rows(view.context, replace(compute_context_sizes(view), **sizes))  # type: ignore[arg-type]


def test_every_cause_is_listed_with_its_tokens() -> None:
    rows = shown(estimate_check=OFF)
    start = next(n for n, row in enumerate(rows) if row.text == "why the estimate is off")
    assert rows[start + 1].text.startswith("the estimate is 19 %")
    assert [(row.text, row.tokens) for row in rows[start + 2 : start + 7]] == [
        ("tokenizer: more", 123_682),
        ("thinking: less", 31_908),
        ("per-request overhead: more", 16_306),
        ("images: less", 14_000),
        ("unattributed: more", 2_447),
    ]
    assert not any(
        row.text == "why the estimate is off" for row in shown(estimate_check=OFF._replace(expected=515_000))
    )


def test_only_paths_of_which_lines_were_read_again_are_listed() -> None:
    view = View(session())
    parts = compute_context_sizes(view).breakdown
    reads = [DuplicateRead("src/auth0.py", 6, 900, 700), DuplicateRead("src/auth1.py", 4, 800, 0)]
    rows = build_breakdown_rows(view.context, ContextSizes(parts._replace(duplicate_reads=reads, by_file=[])))
    assert [(row.value, row.tokens) for row in rows if row.kind == "path"] == [("src/auth0.py", 700)]


async def test_the_breakdown_adds_up_to_the_next_request_as_the_gauge_does() -> None:
    running = app()
    async with running.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await pilot.press("b")
        await settled(pilot)
        screen = inspector(running)
        account = measure_context(screen.view.context, screen.controller.token_table)
        rows = [row for row in running.screen.query_one(BreakdownView).rows if row.category and row.kind != "message"]
        fullness = screen.query_one(HeaderBar)._fullness
        assert fullness and sum(row.tokens or 0 for row in rows) == account.tokens == fullness.tokens
        assert [row.tokens for row in rows if row.category == "not_in_file"] == [account.not_in_file]


def test_what_is_unknown_of_a_recording_is_in_a_copy_of_it_too(tmp_path: Path) -> None:
    recording = Recording()
    for number in range(6):
        recording.user(f"Question {number}. " * 60)
        recording.assistant(text("So. " * 60), use=usage(9_000 * (number + 1)))
    made = recording.open(tmp_path)
    parts = compute_context_sizes(View(made)).breakdown.by_category
    copy = apply(made, plan(made, "manual", cut=6), "What was done.")
    again = compute_context_sizes(View(copy)).breakdown.by_category
    assert again["not_in_file"] > 0 and again["not_in_file"] == pytest.approx(parts["not_in_file"], rel=0.05)
