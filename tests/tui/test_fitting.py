"""Texts and columns fitted to a width in cells."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

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
def test_a_cut_text_fits_and_a_text_that_fits_is_not_cut(cut, text: str, width: int) -> None:
    assert cell_len(cut(text, width)) <= width
    if cell_len(text) <= width:
        assert cut(text, width) == text


@pytest.mark.parametrize("fit", [fit_to_width, clip_to_width])
@given(text=TEXTS, width=WIDTHS)
def test_a_fitted_text_has_exactly_its_width(fit, text: str, width: int) -> None:
    assert cell_len(fit(text, width)) == width


def test_words_and_folders_stay_whole_where_they_can() -> None:
    assert shorten_at_word("three short words", 13) == "three short…"
    assert shorten_path("/home/someone/project/file.py", 18) == "…/project/file.py"
