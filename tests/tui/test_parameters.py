"""The parameter panel in an app: keys, typing, the mouse, what it posts and how it looks."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from textual.events import MouseScrollDown, Paste
from textual.pilot import Pilot

from context_tui.policies.planning import plan
from context_tui.policies.registry import POLICIES, list_policy_names
from context_tui.tui.comparison import Lane
from context_tui.tui.inspector.parameters import ParameterPanel
from context_tui.tui.view import View
from tests.tui.fakes import drawn
from tests.tui.tuning import Alone, sample

SESSION = sample()
MICRO, FULL, KODA = "defect-microcompact", "defect-compact", "koda-microcompact"


def show(panel: ParameterPanel, policy: str, first: int | None = None, **values: Any) -> None:
    """Show a policy at these settings on the sample, and the curve of the chosen one."""
    view = View(SESSION, policy=policy, params={policy: values})
    panel.show(view, next_firing=first)
    points = panel.curve_values
    if points:
        panel.show_curve(panel.selected_name, points, view.compute_curve(panel.selected_name, points, None))


class Tuner(Alone):
    """An app that does what the inspector does: a changed setting comes back as a new plan."""

    def __init__(self, policy: str, ascii: bool = False, theme: str = "textual-dark", **values: Any) -> None:
        self.panel = ParameterPanel(self.change, self.selected_one)
        super().__init__(self.panel, theme, ascii=ascii)
        self.policy, self.values = policy, values
        self.changed: list[tuple[str, Any]] = []

    def on_mount(self) -> None:
        """Show the policy, ready for keys."""
        super().on_mount()
        show(self.panel, self.policy, **self.values)
        self.panel.rows.focus()

    def change(self, policy: str, name: str, value: Any) -> None:
        """Plan again."""
        assert policy == self.policy
        self.changed.append((name, value))
        self.values[name] = value
        show(self.panel, self.policy, 44, **self.values)

    def selected_one(self) -> None:
        """Give it the curve that it asks for."""
        show(self.panel, self.policy, 44, **self.values)


def text_of(app: Tuner) -> str:
    """What the outcome says."""
    return app.panel.outcome.render().plain


@pytest.mark.parametrize(
    ("policy", "keys", "changed"),
    [
        (MICRO, ["right"], [("keep_recent_turns", 4)]),
        (MICRO, ["shift+right", "left"], [("keep_recent_turns", 6), ("keep_recent_turns", 5)]),
        (MICRO, ["down", "right", "backspace"], [("min_clear_tokens", 768), ("min_clear_tokens", 512)]),
        (MICRO, ["down", "=", "2", "k", "enter"], [("min_clear_tokens", 2_000)]),
        (MICRO, ["down", "enter", "2", "k", "enter"], [("min_clear_tokens", 2_000)]),
        (MICRO, ["down", "=", "7", "7", "backspace", "enter"], [("min_clear_tokens", 7)]),
        (MICRO, ["down", "=", "7", "escape", "enter"], []),
        (MICRO, ["=", "9", "9", "9", "9", "enter"], []),
        (MICRO, ["down", "7", "7"], []),
        (MICRO, ["down", "=", "7", "down"], [("min_clear_tokens", 7)]),
        (MICRO, ["=", "4", "right"], [("keep_recent_turns", 4), ("keep_recent_turns", 5)]),
        (MICRO, ["=", "9", "right", "left"], [("keep_recent_turns", 9), ("keep_recent_turns", 8)]),
        (MICRO, ["=", "0", "right"], []),
        (MICRO, ["=", "right"], [("keep_recent_turns", 4)]),
        (MICRO, ["down", "down", "=", "5", "5", "%", "enter"], [("microcompact_ratio", 0.55)]),
        (FULL, ["left"], [("threshold", 150_000)]),
        (FULL, ["down", "space", "left"], [("assistant_boundary", True), ("assistant_boundary", False)]),
    ],
    ids=[
        *("step", "ten", "default", "typed", "typed after enter", "corrected", "cancelled", "refused", "no entry"),
        *(
            "taken by another key",
            "taken, then stepped",
            "beyond the slider",
            "refused, not stepped",
            "nothing typed",
            "ratio",
            "derived",
        ),
        "switch",
    ],
)
async def test_keys_set_values(policy: str, keys: list[str], changed: list[tuple[str, Any]]) -> None:
    app = Tuner(policy)
    async with app.run_test(size=(120, 8)) as pilot:
        await pilot.press(*keys)
        await pilot.pause()
        assert app.changed == changed


async def test_a_tool_is_ticked_off_and_on() -> None:
    app = Tuner(KODA)
    async with app.run_test(size=(120, 8)) as pilot:
        await pilot.press("down", "down", "down", "right", "space")
        await pilot.pause()
        (_, tools), *_ = app.changed
        assert "mcp__jira__search" in tools
        await pilot.press("space")
        assert "mcp__jira__search" not in app.changed[1][1]


async def test_keys_in_one_burst_are_not_lost() -> None:
    app = Tuner(MICRO)
    async with app.run_test(size=(120, 8)) as pilot:
        await pilot.press("right", "right", "right")
        await pilot.pause()
        assert [value for _, value in app.changed] == [4, 5, 6]


async def test_a_wrong_value_is_answered_in_words() -> None:
    app = Tuner(MICRO)
    async with app.run_test(size=(120, 8)) as pilot:
        await pilot.press("=", "0", "enter")
        await pilot.pause()
        said = " ".join(app.panel.rows.render().plain.split())
        assert "invalid: keep_recent_turns: it must be at least 1" in said
        await pilot.press("escape")
        assert "not taken" not in app.panel.rows.render().plain


async def test_while_a_value_is_typed_the_footer_can_name_the_keys_that_end_it() -> None:
    app = Tuner(MICRO)
    async with app.run_test(size=(120, 8)) as pilot:
        await pilot.press("=", "7")
        shown = {key: each.binding.description for key, each in app.screen.active_bindings.items() if each.binding.show}
        assert (shown["enter"], shown["escape"]) == ("set", "cancel")
        await pilot.press("escape")
        assert "escape" not in app.screen.active_bindings and app.changed == []


async def test_a_number_can_be_pasted_and_nothing_else() -> None:
    app = Tuner(MICRO)
    async with app.run_test(size=(120, 8)) as pilot:
        await pilot.press("down", "=")
        for text in ("not a number", "2k"):
            app.focused.post_message(Paste(text))  # type: ignore[union-attr]
            await pilot.pause()
        await pilot.press("enter")
        assert app.changed == [("min_clear_tokens", 2_000)]


async def test_values_of_the_recording_version_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SESSION.facts, "agent_version", (2, 1, 20))
    name = "claude-code-auto"
    defaults = POLICIES[name].Params().model_dump()
    panel = ParameterPanel(lambda policy, name, value: None, lambda: None)
    async with Alone(panel).run_test(size=(240, 12)) as pilot:
        await pilot.pause()
        panel.show(View(SESSION, policy=name))
        await pilot.pause()
        told = " ".join(text.strip() for text in panel.outcome.render().plain.splitlines())
        assert "trigger_reserve=45000" in told and ": as in version 2.1.20, which recorded this session" in told
        panel.show(View(SESSION, policy=name, params={name: defaults}))
        await pilot.pause()
        assert "2.1.20" not in panel.outcome.render().plain.replace("keep_messages=0", "")


@pytest.mark.parametrize(
    ("width", "told"), [(240, "yours: trigger_reserve=80000; backspace resets"), (80, "yours; backspace")]
)
async def test_values_of_the_user_are_not_called_those_of_the_version(
    monkeypatch: pytest.MonkeyPatch, width: int, told: str
) -> None:
    monkeypatch.setattr(SESSION.facts, "agent_version", (2, 1, 20))
    name = "claude-code-auto"
    view = View(SESSION, policy=name)
    assert Lane(view).label.endswith("(as in version 2.1.20)")
    view = view.with_param(name, "trigger_reserve", 80_000)
    assert Lane(view).label == f"{name} trigger_reserve=80000 keep_messages=0 (yours)"
    panel = ParameterPanel(lambda policy, name, value: None, lambda: None)
    async with Alone(panel).run_test(size=(width, 7)) as pilot:
        await pilot.pause()
        panel.show(view)
        await pilot.pause()
        shown = " ".join(text.strip() for text in panel.outcome.render().plain.splitlines())
        assert told in shown and "2.1.20" not in shown


async def test_the_difference_is_named_and_stays_until_the_next() -> None:
    app = Tuner(MICRO, min_clear_tokens=512)
    async with app.run_test(size=(160, 8)) as pilot:
        await pilot.press("down", "right")
        await pilot.pause()
        assert "min_clear_tokens 512 → 768: " in text_of(app)
        show(app.panel, MICRO, -1, **app.values)
        assert "min_clear_tokens 512 → 768: " in text_of(app)
        assert "nor so far" in text_of(app)
        show(app.panel, KODA)
        assert "512" not in text_of(app)


async def test_the_mouse_sets_steps_and_drags() -> None:
    app = Tuner(MICRO)
    async with app.run_test(size=(120, 8)) as pilot:
        columns = app.panel.rows.columns
        await pilot.click(app.panel.rows, offset=(columns.track_start + columns.track - 2, 1))
        assert app.panel.selected_name == "min_clear_tokens"
        assert app.changed[-1][1] == app.panel.rows.parameters[1].scale.track_end  # type: ignore[union-attr]
        await pilot.mouse_down(app.panel.rows, offset=(columns.track_start + 1, 0))
        await pilot.hover(app.panel.rows, offset=(columns.track_start + 9, 0))
        await pilot.mouse_up(app.panel.rows, offset=(columns.track_start + 9, 0))
        dragged = [value for name, value in app.changed if name == "keep_recent_turns"]
        assert dragged[0] == 1 and dragged[-1] > 3
        count = len(app.changed)
        await pilot.hover(app.panel.rows, offset=(columns.track_start + 2, 0))
        assert len(app.changed) == count


async def test_the_wheel_goes_through_the_rows_and_sets_nothing() -> None:
    app = Tuner(MICRO)
    async with app.run_test(size=(120, 8)) as pilot:
        rows = app.panel.rows
        for scroll in (rows.on_mouse_scroll_down, rows.on_mouse_scroll_down, rows.on_mouse_scroll_up):
            scroll(MouseScrollDown(rows, 40, 0, 0, 0, 0, False, False, False))  # type: ignore[arg-type]
        await pilot.pause()
        assert rows.row == 1 and not app.changed


async def test_a_tool_can_be_clicked() -> None:
    app = Tuner(KODA)
    async with app.run_test(size=(120, 8)) as pilot:
        await pilot.click(app.panel.rows, offset=(4, 3))
        await pilot.click(app.panel.rows, offset=(4, 5))
        await pilot.pause()
        assert [name for name, _ in app.changed] == ["compactable_tools"]
        assert "Read" not in app.changed[0][1]


FIRST, SECOND = "defect-microcompact", "defect-compact"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "orders"),
    [
        (["shift+right"], [(SECOND, FIRST)]),
        (["shift+right", "shift+left"], [(SECOND, FIRST), (FIRST, SECOND)]),
        (["shift+left"], []),
        (["right", "shift+left"], [(SECOND, FIRST)]),
        (["space"], [(SECOND,)]),
        (["space", "space"], [(SECOND,), (SECOND, FIRST)]),
        (["right", "right", "space", "shift+left"], [(FIRST, SECOND, KODA), (FIRST, KODA, SECOND)]),
        (["right", "right", "shift+left"], []),
        (["shift+right", "backspace"], [(SECOND, FIRST), (FIRST, SECOND)]),
        (["space", "left", "space"], [(SECOND,), ()]),
    ],
    ids=[
        *("later", "and back", "first already", "the second earlier", "removed", "and added", "another in between"),
        *("one that does not run", "default", "none is left"),
    ],
)
async def test_keys_order_the_policies_of_a_chain(keys: list[str], orders: list[tuple[str, ...]]) -> None:
    app = Tuner("chain")
    async with app.run_test(size=(120, 8)) as pilot:
        await pilot.press(*keys)
        await pilot.pause()
        assert app.changed == [("policies", order) for order in orders]


async def test_arrows_of_a_chain_are_clicked() -> None:
    app = Tuner("chain")
    async with app.run_test(size=(120, 9)) as pilot:
        rows = app.panel.rows

        async def click(glyph: str) -> None:
            lines = rows.render().plain.splitlines()
            y = next(y for y, line in enumerate(lines) if glyph in line and "[" in line)
            await pilot.click(rows, offset=(lines[y].index(glyph), y))
            await pilot.pause()

        await click("▶")
        await click("◀")
        await click("[ ]")
        assert [value for _, value in app.changed[:2]] == [(SECOND, FIRST), (FIRST, SECOND)]
        assert app.changed[2][1] == (FIRST, SECOND, KODA)
        assert "1 defect-microcompact" in rows.render().plain.splitlines()[1], "the heading of its settings"


@pytest.mark.slow
async def test_no_name_is_cut_in_80_columns() -> None:
    for policy in list_policy_names():
        app = Tuner(policy)
        async with app.run_test(size=(80, 14)) as pilot:
            for control in app.panel.rows.parameters:
                assert f"▸ {control.label} " in app.panel.rows.render().plain.replace("▸▾", "▸ ").replace("▸▴", "▸ ")
                await pilot.press("down")


@pytest.mark.parametrize(
    "size", [(78, 7), *(pytest.param(size, marks=pytest.mark.slow) for size in ((58, 10), (70, 10), (158, 7)))], ids=str
)
@pytest.mark.parametrize("policy", list_policy_names())
async def test_nothing_is_cut(policy: str, size: tuple[int, int]) -> None:
    app = Tuner(policy)
    async with app.run_test(size=size) as pilot:
        for _ in app.panel.rows.parameters:
            for widget in (app.panel.rows, app.panel.outcome, app.panel.curve):
                assert "…" not in widget.render().plain, widget.render().plain
            await pilot.press("down")
            await pilot.pause()


async def test_by_hand_the_keys_are_named_and_what_is_marked() -> None:
    for size in ((160, 7), (80, 7)):
        app = Tuner("manual")
        async with app.run_test(size=size):
            said = text_of(app)
            assert "nothing is marked" in said and "next request ~59,492, as it is" in said
            assert "m clears" in said and "c " in said and "again" in said
            marked = [(each.message, each.block) for each in plan(SESSION, MICRO).edits[:2]]
            app.values["clear"] = tuple(marked)
            show(app.panel, "manual", **app.values)
            said, rows = text_of(app), " ".join(app.panel.rows.render().plain.split())
            assert "clears 2 of 29 results" in said and "m clears" in said
            assert f"2 marked: #{marked[0][0]}, #{marked[1][0]}" in rows and "backspace unmarks all" in rows


async def test_no_plan_says_why() -> None:
    app = Tuner(MICRO)
    async with app.run_test(size=(120, 8)):
        app.panel.show(View(SESSION, policy="chain", params={"chain": {"policies": ()}}))
        assert text_of(app) == "no plan: no policies are named"


async def test_curve_values_hold_the_current_one_and_are_at_most_sixty() -> None:
    for policy in list_policy_names():
        app = Tuner(policy)
        async with app.run_test(size=(120, 8)):
            for number, control in enumerate(app.panel.rows.parameters):
                app.panel.rows.choose_row(number)
                values = app.panel.curve_values
                assert len(values) <= 60
                shown = control.get_effective_value(app.panel.rows.values[control.name])
                if control.kind == "number" and shown is not None:
                    assert shown in values


async def test_an_answer_for_another_setting_is_ignored() -> None:
    app = Tuner(MICRO)
    async with app.run_test(size=(120, 8)):
        app.panel.show_curve("min_clear_tokens", [1, 2], [3, 4])
        assert app.panel.curve.setting_name == "keep_recent_turns"


@pytest.mark.parametrize(
    "policy", [MICRO, *(pytest.param(name, marks=pytest.mark.slow) for name in list_policy_names() if name != MICRO)]
)
async def test_ascii_is_ascii(policy: str) -> None:
    app = Tuner(policy, ascii=True)
    async with app.run_test(size=(120, 16)) as pilot:
        for _ in range(12):
            assert drawn(app).isascii()
            await pilot.press("down", "1")


Press = Callable[[Pilot[None]], Coroutine[Any, Any, None]]


def press(*keys: str) -> Press:
    """Press these keys before the picture is taken."""

    async def run(pilot: Pilot[None]) -> None:
        await pilot.press(*keys)
        await pilot.pause()

    return run


async def test_the_footer_says_what_digits_do_on_the_chosen_row() -> None:
    app = Tuner(FULL)
    async with app.run_test(size=(120, 8)) as pilot:

        def told() -> set[str]:
            bindings = (each.binding for each in app.screen.active_bindings.values())
            return {f"{each.key_display} {each.description}" for each in bindings if each.show and each.key_display}

        assert {"←→ value", "= type"} <= told()
        await pilot.press("down")
        assert "= type" not in told() and "←→ value" in told()


async def test_the_curve_keeps_its_lines_when_the_difference_comes() -> None:
    app = Tuner(MICRO)
    async with app.run_test(size=(80, 7)) as pilot:
        await pilot.press("right")
        await pilot.pause()
        assert app.panel.curve.size.height >= 3
        assert app.panel.curve.render().plain.startswith("next request by keep_recent_turns")
        assert "Δ 3 → 4: " in text_of(app)


def test_snapshot_wide(snap_compare: Any) -> None:
    """Sliders left, result, difference, trigger and curve right; numbers in columns, a tick at the default."""
    assert snap_compare(Tuner(MICRO), run_before=press("down", "right", "right"), terminal_size=(160, 8))


def test_snapshot_80_light(snap_compare: Any) -> None:
    """The same in 80 columns on a light theme: nothing runs into its neighbour."""
    app = Tuner(MICRO, theme="textual-light")
    assert snap_compare(app, run_before=press("down", "right"), terminal_size=(80, 8))


def test_snapshot_60(snap_compare: Any) -> None:
    """Settings above, outcome below."""
    assert snap_compare(Tuner(FULL), run_before=press("down"), terminal_size=(60, 11))


def test_snapshot_ascii(snap_compare: Any) -> None:
    """Nothing but ASCII, the typed number with its cursor."""
    assert snap_compare(Tuner(MICRO, ascii=True), run_before=press("down", "=", "1", "5"), terminal_size=(100, 8))


def test_snapshot_tools(snap_compare: Any) -> None:
    """Tools with boxes and tokens, the one under the cursor reversed."""
    assert snap_compare(Tuner(KODA), run_before=press("down", "down", "down", "right"), terminal_size=(120, 8))


def test_snapshot_chain(snap_compare: Any) -> None:
    """Settings below the policy that they belong to, marks where rows are out of sight."""
    assert snap_compare(Tuner("chain"), run_before=press(*["down"] * 5), terminal_size=(120, 8))
