"""The scoreboard: a line for each policy, at any width, and choosing one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.binding import Binding
from textual.command import CommandList

from context_tui.compaction.next_request import compute_next_request
from context_tui.compaction.plan import Plan
from context_tui.errors import PlanError
from context_tui.policies.planning import plan
from context_tui.policies.registry import POLICIES, PRESETS, list_policy_names
from context_tui.policies.versions import find_own_policies
from context_tui.session.session import SessionInfo
from context_tui.tui.inspector.dialogs import list_policy_commands
from context_tui.tui.inspector.scoreboard import (
    Scoreboard,
    ScoreRow,
    build_score_row,
    build_score_rows,
    fit_score_columns,
    format_policy_title,
    format_score_heading,
    format_score_line,
)
from context_tui.tui.inspector.screen import build_bindings
from context_tui.tui.view import View, find_initial_policy
from context_tui.tui.widgets.styled_text import count_cells
from tests.sizes import build_request
from tests.tui.fakes import drawn, until
from tests.tui.inspecting import app, eventful, inspector, settled
from tests.tui.tuning import Alone, sample

SESSION = sample()
PLANS: dict[str, Plan] = {policy: plan(SESSION, policy, force=True) for policy in list_policy_names()}


def try_plan(policy: str) -> Plan | PlanError:
    return PLANS.get(policy) or PlanError("no plan")


class Scores(Alone):
    """The scoreboard of the sample."""

    def __init__(self, current: str = "defect-compact", ascii: bool = False, theme: str = "textual-dark") -> None:
        self.chosen: list[str] = []
        self.board = Scoreboard(self.chosen.append)
        super().__init__(self.board, theme, ascii=ascii)
        self.current = current

    def on_mount(self) -> None:
        """Show it, ready for keys."""
        super().on_mount()
        self.board.show(build_score_rows(list_policy_names(), try_plan), self.current)
        self.board.focus()


def test_a_line_for_every_policy_from_its_plan() -> None:
    rows = {row.policy: row for row in build_score_rows(list_policy_names(), try_plan)}
    assert list(rows) == list_policy_names()
    micro = rows["defect-microcompact"]
    made = PLANS["defect-microcompact"]
    assert micro.request == compute_next_request(made) and not micro.request.summary_pending
    assert micro.effect == "if forced: clears 9 of 29 results" and micro.runs is False
    compact, manual = rows["defect-compact"], rows["manual"]
    assert compact.request and compact.request.summary_pending and manual.run_label == "by hand" and not manual.changes


def test_what_does_not_run_says_its_limit() -> None:
    words = {row.policy: row.run_label for row in build_score_rows(list_policy_names(), try_plan)}
    assert words["defect-microcompact"] == "no (at 120k)" and words["agent-sdk-prune"] == "no (at 112k)"
    assert words["koda-microcompact"] == "yes" and words["manual"] == "by hand"
    idle = plan(SESSION, "koda-microcompact", at=len(SESSION) - 8, idle_seconds=5, force=True)
    assert build_score_row(idle).run_label == "no (at 300 s)"


def chain_at(window: int) -> ScoreRow:
    """The row of a chain in a window of so many tokens."""
    return build_score_row(plan(SESSION, "chain", window=window, force=True, firing_only=True))


def test_a_chain_says_which_of_its_policies_run_here_and_what_they_leave() -> None:
    (none, one) = chain_at(500_000), chain_at(70_000)
    assert none.runs is False and none.effect.startswith("if forced: clears 9 of 29 results, summarises ")
    assert one.runs and one.effect == "only defect-microcompact: clears 9 of 29 results"
    micro = plan(SESSION, "defect-microcompact")
    assert one.request == compute_next_request(micro), "what the one that runs leaves"
    all_run = chain_at(15_000)
    assert all_run.runs and all_run.effect.startswith("clears 9 of 29 results, summarises ")
    told = build_score_row(plan(SESSION, "chain", window=70_000))
    assert "; if forced: summarises " in told.effect, "planned all the same"


def drawn_at(width: int, *rows: ScoreRow) -> list[str]:
    """The lines of the board in so many cells."""
    columns = fit_score_columns(rows, width)
    lines = [
        format_score_heading(columns, width),
        *(format_score_line(n, row, False, columns, width) for n, row in enumerate(rows, 1)),
    ]
    return ["".join(text for text, _ in line).rstrip() for line in lines]


def test_the_columns_are_named_and_where_it_is_narrow_the_next_request_stays() -> None:
    micro = ScoreRow("microcompact", True, "", "clears 23 of 105 results", True, build_request(58_472, 120, 23_580))
    prune = ScoreRow(
        "prune",
        False,
        "at 112k",
        "if forced: truncates 26",
        True,
        build_request(58_472, 0, 16_000, summary_pending=True),
    )
    assert drawn_at(100, micro, prune) == [
        "   policy        would it fire  what it would do          next request",
        " 1 microcompact  yes            clears 23 of 105 results  ~58.6k → ~35.0k            −40 %",
        " 2 prune         no (at 112k)   if forced: truncates 26    58.5k → ~42.5k + summary  −27 %",
    ]
    assert drawn_at(60, micro, prune) == [
        "   policy        would it fire  next request",
        " 1 microcompact  yes            ~58.6k → ~35.0k   −40 %",
        " 2 prune         no (at 112k)    58.5k → ~42.5k+  −27 %",
    ]
    assert drawn_at(38, micro, prune) == [
        "   policy        now  next request",
        " 1 microcompact  yes   ~35.0k   −40 %",
        " 2 prune         no    ~42.5k+  −27 %",
    ]
    nothing = "nothing: the only message is short, and so is the rest"
    [_, _, line] = drawn_at(100, micro, ScoreRow("compact", False, "", nothing, False, micro.request))
    assert "nothing: the only message is short" in line, "a reason keeps its nouns"


def test_bars_have_a_head_and_words_are_left_out_whole() -> None:
    rows = [ScoreRow("a-policy", True, "", "clears 9 of 29 results", True, build_request(9_000, 0, 3_000))]
    head, line, *_ = drawn_at(120, *rows, ScoreRow("chain", plan_error="chain: no policies are named"))
    assert head.endswith("  what is left") and line.index("━") == head.index("what is left")
    assert (
        drawn_at(30, ScoreRow("chain", plan_error="chain: no policies are named"))[1] == " 1 chain   no policies are…"
    )


@pytest.mark.parametrize(
    ("name", "width", "title"),
    [
        (
            "defect-compact",
            99,
            '2 defect-compact   compact as in the runtime "defect": summarise all but the last turns',
        ),
        ("defect-microcompact", 76, "1 defect's microcompact: clear big tool results of all but the last turns"),
        ("agent-sdk-prune", 76, "4 agent-sdk's prune: truncate long tool results, keeping both ends"),
        ("koda-microcompact", 76, "3 koda's microcompact: clear old results of re-runnable tools once idle"),
        ("koda-microcompact", 56, "3 koda's microcompact: clear old results of re-runnable…"),
        ("manual", 76, "6 manual   by hand: clear single results, summarise all before a message"),
        ("chain", 76, "7 chain   several policies in order"),
    ],
)
def test_a_policy_says_whose_rule_it_is_and_what_that_does(name: str, width: int, title: str) -> None:
    assert format_policy_title(name, list_policy_names().index(name) + 1, width) == title
    assert all(
        len(format_policy_title(each, 1, cells)) <= cells for each in list_policy_names() for cells in range(20, 130)
    )


ROWS = st.builds(
    ScoreRow,
    st.sampled_from(list_policy_names()),
    st.sampled_from([True, False, None]),
    st.sampled_from(["", "at 112k"]),
    st.sampled_from(["changes nothing", "clears 9 of 29 results", "if forced: summarises 44 of 68 messages"]),
    st.booleans(),
    st.none()
    | st.builds(
        build_request,
        st.none() | st.integers(0, 10_000_000),
        st.integers(0, 10_000_000),
        st.integers(-1_000, 10_000_000),
        st.integers(0, 10_000),
        summary_pending=st.booleans(),
    ),
    st.sampled_from(["", "chain: no policies are named"]),
)


@given(st.lists(ROWS, min_size=1, max_size=7), st.integers(36, 200))
def test_lines_have_the_width(rows: list[ScoreRow], width: int) -> None:
    columns = fit_score_columns(rows, width)
    assert count_cells(format_score_heading(columns, width)) == width
    assert all(count_cells(format_score_line(n, row, n == 2, columns, width)) == width for n, row in enumerate(rows))


@pytest.mark.parametrize(
    ("keys", "chosen"),
    [(["1"], ["defect-microcompact"]), (["down", "up"], ["koda-microcompact", "defect-compact"]), (["2", "9"], [])],
    ids=["digit", "arrows", "same"],
)
async def test_keys_choose(keys: list[str], chosen: list[str]) -> None:
    app = Scores()
    async with app.run_test(size=(80, 10)) as pilot:
        await pilot.press(*keys)
        assert app.chosen == chosen


async def test_digits_choose_the_first_nine_of_any_number() -> None:
    app = Scores()
    async with app.run_test(size=(120, 14)) as pilot:
        app.board.show([ScoreRow(f"policy-{number}-of-a-very-long-name") for number in range(1, 13)], "")
        await pilot.press("9", "0")
        assert app.chosen == ["policy-9-of-a-very-long-name"]
        *lines, last = app.board.render().plain.splitlines()
        assert "P: all" in last
        assert lines[9].startswith("▸9 policy-9-of") and lines[10].startswith("   policy-10-of")
        assert len({line.index("changes") for line in lines[1:]}) == 1, "long names are cut"


async def test_a_click_chooses() -> None:
    app = Scores()
    async with app.run_test(size=(80, 10)) as pilot:
        await pilot.click(app.board, offset=(10, 0))
        await pilot.click(app.board, offset=(10, 7))
        assert app.chosen == ["chain"]


@pytest.mark.parametrize("width", [44, 80, 160])
async def test_ascii_is_ascii(width: int) -> None:
    app = Scores(ascii=True)
    async with app.run_test(size=(width, 10)):
        assert drawn(app).isascii()


def test_snapshot_wide(snap_compare: Any) -> None:
    """Columns that line up, bars of what is left, the current policy marked by a sign too."""
    assert snap_compare(Scores(), terminal_size=(160, 9))


def test_snapshot_80_ascii(snap_compare: Any) -> None:
    """80 columns, light, ASCII."""
    assert snap_compare(Scores("chain", ascii=True, theme="textual-light"), terminal_size=(80, 9))


def test_snapshot_44(snap_compare: Any) -> None:
    """As a side bar: name, whether it would run, the next request."""
    assert snap_compare(Scores(), terminal_size=(44, 9))


@pytest.fixture
def twelve(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Twelve policies: those there are, and copies of one under other names."""
    prune = type(POLICIES["agent-sdk-prune"])
    for number in range(len(list_policy_names()), 12):
        name = f"another-{number + 1}"
        monkeypatch.setitem(POLICIES._extensions[0], name, type("Another", (prune,), {"name": name})())
    return list_policy_names()


def test_a_chosen_preset_keeps_a_row_and_no_other_is_planned() -> None:
    asked: list[str] = []

    def plan_of(policy: str) -> Plan:
        asked.append(policy)
        return plan(SESSION, policy, force=True)

    view = View(SESSION).with_policy("codex")
    rows = build_score_rows(view.listed_policies, plan_of)
    assert [row.policy for row in rows] == asked == [*list_policy_names(), "codex"] and rows[-1].effect.startswith(
        "if forced"
    )
    assert view.with_policy("chain").listed_policies == [*list_policy_names(), "codex"]
    assert format_policy_title("codex", 8, 90).startswith("8 codex   Codex: ")
    limits = {row.policy: row.limit for row in build_score_rows(["openhands-condenser"], plan_of)}
    assert limits["openhands-condenser"] == "at 80 messages"


@pytest.mark.slow
async def test_a_preset_is_chosen_in_the_palette() -> None:
    running = app()
    async with running.run_test(size=(140, 50)) as pilot:
        await settled(pilot)
        screen = inspector(running)
        [choose] = [each for each in running.get_system_commands(screen) if " codex: " in each.title]
        choose.callback()
        await settled(pilot)
        board = screen.query_one(Scoreboard)
        assert screen.view.policy == "codex" and [row.policy for row in board.rows] == [*list_policy_names(), "codex"]
        await pilot.press("1")
        await settled(pilot)
        assert screen.view.policy == list_policy_names()[0] and len(board.rows) == len(list_policy_names()) + 1
        await pilot.press("P", *"letta")
        await until(pilot, lambda: bool(running.screen.query(CommandList)))
        await pilot.pause(0.3)
        await pilot.press("down", "enter")
        await until(pilot, lambda: screen.view.policy == "letta")


async def test_a_session_opens_on_the_policies_of_its_own_agent() -> None:
    recording = replace(eventful(), info=SessionInfo("/tmp/refactor-auth.jsonl", "claude-code"))
    running = app(recording, policy="aider")
    async with running.run_test(size=(140, 50)) as pilot:
        await settled(pilot)
        screen = inspector(running)
        own = ["claude-code-auto", "claude-code-micro"]
        board = screen.query_one(Scoreboard)
        assert [row.policy for row in board.rows] == [*own, "aider"] and screen.view.policy == "aider"
        await pilot.press("2")
        await settled(pilot)
        assert screen.view.policy == own[1] and [row.policy for row in board.rows] == [*own, "aider"]
        await pilot.press("9")
        assert screen.view.policy == own[1] and f"P: all {len(POLICIES)} policies" in drawn(running)
        assert [name for name, _, _ in list_policy_commands(screen)][:4] == [
            "1 claude-code-auto",
            "2 claude-code-micro",
            "3 aider",
            "4 defect-microcompact",
        ]
        assert len({*list_policy_commands(screen)}) == len(POLICIES)
    assert View(recording).listed_policies == [*own, "defect-microcompact"]
    assert find_initial_policy(recording) == own[0]
    recording.facts.agent_version = (2, 1, 17)
    assert find_own_policies(recording) == {"full": "claude-code-auto", "micro": "claude-code-micro-by-size"}


def test_only_nine_policies_have_a_digit(twelve: list[str]) -> None:
    rows = [ScoreRow(name) for name in twelve]
    columns = fit_score_columns(rows, 80)
    lines = [
        "".join(text for text, _ in format_score_line(n, row, False, columns, 80)) for n, row in enumerate(rows, 1)
    ]
    assert [line[:3] for line in lines] == [*(f" {digit} " for digit in range(1, 10)), *["   "] * 3]
    bindings = [binding for binding in build_bindings() if isinstance(binding, Binding)]
    bound = [binding.key for binding in bindings if (binding.id or "").startswith("policy-")]
    assert bound == list("123456789")


async def test_policies_beyond_the_ninth_are_reached_by_arrows_and_the_palette(twelve: list[str]) -> None:
    running = app()
    async with running.run_test(size=(140, 50)) as pilot:
        await settled(pilot)
        screen = inspector(running)
        assert "P policy" in drawn(running).replace("\xa0", " ") and "another-12" in drawn(running)
        await pilot.press("9")
        assert screen.view.policy == "another-9"
        await settled(pilot)
        screen.query_one(Scoreboard).focus()
        await pilot.press("down", "down", "down")
        assert screen.view.policy == "another-12"
        titles = [
            each.title for each in running.get_system_commands(screen) if each.title.startswith("Plan with policy ")
        ]
        assert {each.split(":")[1].split()[-1] for each in titles} >= {*twelve, *PRESETS}


async def test_the_chosen_policy_is_in_sight_where_not_all_are(twelve: list[str]) -> None:
    board = Scores(twelve[-1])
    async with board.run_test(size=(80, 6)) as pilot:
        board.board.styles.height = 6
        board.board.show([ScoreRow(name) for name in twelve], twelve[-1])
        await pilot.pause()
        assert "another-12" in drawn(board) and twelve[0] not in drawn(board)
        await pilot.click(board.board, offset=(10, 1))
        assert board.chosen == [twelve[7]]
