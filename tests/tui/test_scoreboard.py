"""The scoreboard: a line for each policy, at any width, and choosing one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_tui.compaction.plan import Plan
from context_tui.policies.planning import plan
from context_tui.policies.registry import POLICIES
from context_tui.tui.screens.inspector_keys import digits, keys
from context_tui.tui.widgets.draw import cells
from context_tui.tui.widgets.scoreboard import Scoreboard, ScoreRow, columns_for, heading, score_line, score_rows
from tests.tui.fakes import drawn
from tests.tui.inspecting import app, inspector, settled
from tests.tui.tuning import Alone, sample

SESSION = sample()
PLANS: dict[str, Plan | None] = {policy: plan(SESSION, policy, force=True) for policy in POLICIES}


class Scores(Alone):
    """The scoreboard of the sample."""

    def __init__(self, current: str = "defect-compact", ascii: bool = False, theme: str = "textual-dark") -> None:
        self.chosen: list[str] = []
        self.board = Scoreboard(self.chosen.append, ascii=ascii)
        super().__init__(self.board, theme)
        self.current = current

    def on_mount(self) -> None:
        """Show it, ready for keys."""
        super().on_mount()
        self.board.show(score_rows(PLANS.get), self.current)
        self.board.focus()


def test_a_line_for_every_policy_from_its_plan() -> None:
    rows = {row.policy: row for row in score_rows(PLANS.get)}
    assert list(rows) == list(POLICIES)
    micro = rows["defect-microcompact"]
    made = PLANS["defect-microcompact"]
    assert made and (micro.before, micro.after) == (made.tokens_before, made.tokens_after)
    assert micro.does == "clears 9 of 29 results" and not micro.waits and micro.fires is False
    assert rows["defect-compact"].waits and rows["manual"].fires is None and not rows["manual"].does


def test_what_has_no_plan_says_why() -> None:
    rows = score_rows({**PLANS, "chain": None}.get, {"chain": "chain: no policies are named"}.__getitem__)
    assert rows[-1].trouble == "chain: no policies are named" and rows[-1].policy == "chain"


ROWS = st.builds(
    ScoreRow,
    st.sampled_from(list(POLICIES)),
    st.sampled_from([True, False, None]),
    st.sampled_from(["", "clears 9 of 29 results", "clears 9 of 29 results, summarises 44 of 68 messages"]),
    st.integers(0, 10_000_000),
    st.integers(0, 10_000_000),
    st.booleans(),
    st.sampled_from(["", "chain: no policies are named"]),
)


@given(st.lists(ROWS, min_size=1, max_size=7), st.integers(36, 200))
def test_lines_have_the_width(rows: list[ScoreRow], width: int) -> None:
    columns = columns_for(rows, width)
    assert cells(heading(columns, width)) == width
    assert all(cells(score_line(n, row, n == 2, columns, width)) == width for n, row in enumerate(rows))


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
        lines = app.board.render().plain.splitlines()
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
        assert app.board.render().plain.isascii()


def test_snapshot_wide(snap_compare: Any) -> None:
    """Columns that line up, bars of what is left, the current policy marked by a sign too."""
    assert snap_compare(Scores(), terminal_size=(160, 9))


def test_snapshot_80_ascii(snap_compare: Any) -> None:
    """80 columns, light, ASCII."""
    assert snap_compare(Scores("chain", ascii=True, theme="textual-light"), terminal_size=(80, 9))


def test_snapshot_44(snap_compare: Any) -> None:
    """As a side bar: name, fires, less."""
    assert snap_compare(Scores(), terminal_size=(44, 9))


@pytest.fixture
def twelve(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Twelve policies: those there are, and copies of one under other names."""
    prune = type(POLICIES["agent-sdk-prune"])
    for number in range(len(POLICIES), 12):
        name = f"another-{number + 1}"
        monkeypatch.setitem(POLICIES._added[0], name, type("Another", (prune,), {"name": name})())
    return list(POLICIES)


def test_only_nine_policies_have_a_digit(twelve: list[str]) -> None:
    rows = [ScoreRow(name) for name in twelve]
    columns = columns_for(rows, 80)
    lines = ["".join(text for text, _ in score_line(n, row, False, columns, 80)) for n, row in enumerate(rows, 1)]
    assert [line[:3] for line in lines] == [*(f" {digit} " for digit in range(1, 10)), *["   "] * 3]
    bound = [binding.key for binding in keys(POLICIES) if (binding.id or "").startswith("policy-")]
    assert bound == list("123456789") and digits(12) == "1–9" and digits(7) == "1–7"


async def test_policies_beyond_the_ninth_are_reached_by_arrows_and_the_palette(twelve: list[str]) -> None:
    running = app()
    async with running.run_test(size=(140, 50)) as pilot:
        await settled(pilot)
        screen = inspector(running)
        assert "1–9 choose a policy" in drawn(running) and "another-12" in drawn(running)
        await pilot.press("9")
        assert screen.view.policy == "another-9"
        await settled(pilot)
        screen.query_one(Scoreboard).focus()
        await pilot.press("down", "down", "down")
        assert screen.view.policy == "another-12"
        titles = [each.title for each in running.get_system_commands(screen) if each.title.startswith("Policy: ")]
        assert [each.split(":")[1].strip() for each in titles][-3:] == twelve[9:]


async def test_the_chosen_policy_is_in_sight_where_not_all_are(twelve: list[str]) -> None:
    board = Scores(twelve[-1])
    async with board.run_test(size=(80, 6)) as pilot:
        board.board.styles.height = 6
        board.board.show([ScoreRow(name) for name in twelve], twelve[-1])
        await pilot.pause()
        assert "another-12" in drawn(board) and twelve[0] not in drawn(board)
        await pilot.click(board.board, offset=(10, 1))
        assert board.chosen == [twelve[7]]
