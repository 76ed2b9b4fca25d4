"""Texts and columns fitted to a width in cells."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from context_tui.tui.rendering.columns import ColumnFitter, drop_columns
from context_tui.tui.terminal.cells import (
    choose_form,
    clip_to_width,
    fit_to_width,
    shorten,
    shorten_at_word,
    shorten_middle,
    shorten_path,
)

TEXTS = st.text("ab /日本…", max_size=40)
WIDTHS = st.integers(0, 50)


@given(st.lists(TEXTS, min_size=1, max_size=5), WIDTHS)
def test_the_first_form_that_fits_is_chosen(forms: list[str], width: int) -> None:
    chosen = choose_form(forms, width)
    if cell_len(chosen) > width:
        assert chosen == forms[-1] and all(cell_len(form) > width for form in forms)
    else:
        assert all(cell_len(form) > width for form in forms[: forms.index(chosen)])


@pytest.mark.parametrize("cut", [shorten, shorten_at_word, shorten_middle, shorten_path])
@given(text=TEXTS, width=WIDTHS)
def test_a_cut_text_fits_and_a_text_that_fits_is_not_cut(cut: Callable[[str, int], str], text: str, width: int) -> None:
    assert cell_len(cut(text, width)) <= width
    if cell_len(text) <= width:
        assert cut(text, width) == text


@pytest.mark.parametrize("fit", [fit_to_width, clip_to_width])
@given(text=TEXTS, width=WIDTHS)
def test_a_fitted_text_has_exactly_its_width(fit: Callable[[str, int], str], text: str, width: int) -> None:
    assert cell_len(fit(text, width)) == width


def test_words_and_folders_stay_whole_where_they_can() -> None:
    assert shorten_at_word("three short words", 13) == "three short…"
    assert shorten_path("/home/someone/project/file.py", 18) == "…/project/file.py"


OFFERS = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 20), st.integers(0, 30)), max_size=8)


@given(WIDTHS, OFFERS, st.integers(0, 9))
def test_columns_are_never_wider_than_the_line(width: int, offers: list[tuple[str, int, int]], spare: int) -> None:
    fitter = ColumnFitter(width)
    for column, least, more in offers:
        fitter.fit(column, least, least + more, spare=spare)
    assert sum(fitter[column] for column in "abcd") + fitter.room == width
    assert fitter.room >= 0


@given(WIDTHS, st.integers(1, 20), OFFERS)
def test_the_most_important_column_stays(width: int, least: int, offers: list[tuple[str, int, int]]) -> None:
    fitter = ColumnFitter(width)
    assert fitter.fit("first", least) == (width >= least)
    before = fitter["first"]
    for column, cells, more in offers:
        fitter.fit(column, cells, cells + more)
    assert fitter["first"] == before


def test_a_second_offer_widens_a_column_and_spare_cells_stay_free() -> None:
    fitter = ColumnFitter(20, reserved=2)
    assert fitter.fit("name", 8) and fitter.fit("name", 8, 30, spare=4)
    assert (fitter["name"], fitter.room) == (14, 4)
    assert not fitter.fit("bar", 5) and not fitter.fit("bar", 4, from_width=21) and fitter.fit("bar", 4)


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 12)), max_size=8), WIDTHS, st.integers(0, 2))
def test_columns_of_the_lowest_rank_are_dropped(columns: list[tuple[int, int]], width: int, at_least: int) -> None:
    fitting = drop_columns(columns, width, lambda each: each[1], lambda each: each[0], at_least=at_least)
    assert sum(cells for _, cells in fitting) <= width or len(fitting) == min(at_least, len(columns))
    ranks = sorted((rank for rank, _ in columns), reverse=True)
    assert sorted((rank for rank, _ in fitting), reverse=True) == ranks[: len(fitting)]
