"""Lists among the settings: their order, what a click on them means, and their words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_tui.policies.parameters import ListEntry, Parameter
from context_tui.tui.widgets.parameter_lines import (
    format_entries,
    format_list_keys,
    format_list_value,
    list_entries,
    move_entry,
    toggle_entry,
)
from context_tui.tui.widgets.styled_text import count_cells

NAMES = ("micro", "prune", "compact", "koda")
TOOLS = Parameter("tools", "list", "", "tools", (), entries=tuple(map(ListEntry, NAMES)))
ORDER = Parameter("policies", "list", "", "policies", (), ordered=True, entries=tuple(map(ListEntry, NAMES)))


def lines(control: Parameter, chosen: tuple[str, ...], width: int) -> list[str]:
    """The items as they are drawn, none under the cursor."""
    return ["".join(text for text, _ in line).rstrip() for line in format_entries(control, chosen, width, -1)[0]]


def test_what_runs_stands_first_in_its_order_with_arrows_to_where_it_can_go() -> None:
    assert [entry.name for entry in list_entries(ORDER, ("koda", "micro"))] == ["koda", "micro", "prune", "compact"]
    assert [entry.name for entry in list_entries(TOOLS, ("koda", "micro"))] == list(NAMES)
    assert list_entries(ORDER, ("elsewhere",))[0].name == "elsewhere", "also what cannot be ticked"
    assert lines(ORDER, ("koda", "prune", "micro"), 90) == [
        "[1] koda  ▶  [2] prune ◀▶  [3] micro ◀   [ ] compact",
    ]
    assert lines(ORDER, ("koda",), 24) == ["[1] koda  [ ] micro", "[ ] prune  [ ] compact"]
    assert lines(TOOLS, ("koda",), 60) == ["[ ] micro  [ ] prune  [ ] compact  [x] koda"]


@pytest.mark.parametrize(
    ("name", "places", "after"),
    [("micro", 1, "prune micro compact"), ("micro", -1, "micro prune compact"), ("compact", -2, "compact micro prune")],
)
def test_an_item_is_moved_within_the_list(name: str, places: int, after: str) -> None:
    assert move_entry(("micro", "prune", "compact"), name, places) == tuple(after.split())


@given(st.lists(st.sampled_from(NAMES), unique=True), st.sampled_from(NAMES), st.integers(-5, 5))
def test_moving_loses_nothing(chosen: list[str], name: str, places: int) -> None:
    after = move_entry(chosen, name, places)
    assert sorted(after) == sorted(chosen)
    assert [each for each in after if each != name] == [each for each in chosen if each != name]
    assert move_entry(after, name, chosen.index(name) - after.index(name) if name in chosen else 0) == tuple(chosen)
    assert set(toggle_entry(chosen, name)) ^ set(chosen) == {name}


@given(st.lists(st.sampled_from(NAMES), unique=True), st.integers(16, 90), st.integers(0, 3))
def test_each_cell_that_can_be_clicked_is_one_thing(chosen: list[str], width: int, at: int) -> None:
    drawn, spots = format_entries(ORDER, chosen, width, at)
    assert all(count_cells(line) <= width for line in drawn)
    places = [(spot.line, cell) for spot in spots for cell in range(spot.start, spot.end)]
    assert len(places) == len(set(places)) and {spot.item for spot in spots} == set(range(len(NAMES)))
    for spot in spots:
        text = "".join(text for text, _ in drawn[spot.line])[spot.start : spot.end]
        assert text in {-1: "◀ ", 1: "▶ "}[spot.moves] if spot.moves else text.startswith("[")


def test_the_row_tells_the_order_where_that_fits() -> None:
    assert format_list_value(ORDER, ("koda", "micro"), 40) == "1 koda, 2 micro"
    assert format_list_value(ORDER, ("koda", "micro"), 10) == "2 of 4"
    assert format_list_value(ORDER, (), 10) == "none"
    assert format_list_value(TOOLS, ("koda", "Read"), 40) == "1 of 4, 1 not here"
    assert "shift+←→ moves it" in format_list_keys(ORDER, 60) and "shift+←→ moves it" in format_list_keys(ORDER, 34)
    assert format_list_keys(TOOLS, 30) == "space on or off"
