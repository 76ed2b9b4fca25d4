"""Styles as a terminal shows them, and the table of plain characters."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.color import ColorSystem
from rich.color_triplet import ColorTriplet
from rich.segment import Segment
from rich.style import Style
from textual._border import BORDER_CHARS
from textual.binding import Binding
from textual.color import Color
from textual.keys import KEY_DISPLAY_ALIASES

import context_tui
from context_tui.tui.app import ContextTuiApp
from context_tui.tui.options import InspectorOptions
from context_tui.tui.terminal.cells import ASCII_GLYPHS
from context_tui.tui.terminal.output_filter import (
    MIN_DIM_CONTRAST,
    MIN_TEXT_CONTRAST,
    ContrastAdjuster,
    OutputFilter,
    compute_contrast,
)
from context_tui.tui.terminal.themes import DARK, choose_theme, has_few_colours
from tests.tui.cells import Cells

BLACK = Color(0, 0, 0)
shades = st.builds("#{:02x}{:02x}{:02x}".format, *[st.integers(0, 255)] * 3)
palette = st.integers(0, 255).map("color({})".format)


def sent(style: Style, system: ColorSystem) -> Cells:
    """A terminal that was sent text in this style."""
    cells = Cells(4, 1)
    cells.read(style.render("text", color_system=system).encode())
    return cells


def test_contrast_is_wcags() -> None:
    black, white, grey = ColorTriplet(0, 0, 0), ColorTriplet(255, 255, 255), ColorTriplet(0x77, 0x77, 0x77)
    assert compute_contrast(black, white) == compute_contrast(white, black) == pytest.approx(21)
    assert compute_contrast(grey, white) == pytest.approx(4.48, abs=0.01)


@given(
    st.one_of(shades, palette, st.just("default")),
    st.one_of(shades, palette),
    st.booleans(),
    st.booleans(),
    st.sampled_from([ColorSystem.TRUECOLOR, ColorSystem.EIGHT_BIT, ColorSystem.STANDARD]),
)
def test_every_style_can_be_read(ink: str, ground: str, dim: bool, reverse: bool, system: ColorSystem) -> None:
    style = Style(color=ink, bgcolor=ground, dim=dim, reverse=reverse)
    readable = ContrastAdjuster(system, dark=True)
    cells = sent(readable(style, "text", BLACK), system)
    cells._default = (ColorTriplet(229, 229, 229), ColorTriplet(0, 0, 0))
    assert not cells.unreadable(MIN_TEXT_CONTRAST, MIN_DIM_CONTRAST)
    assert readable(style, "text", BLACK).reverse == reverse


def test_what_can_be_read_stays_as_it_is() -> None:
    style = Style(color="#d5d8df", bgcolor="#14161b", bold=True)
    assert ContrastAdjuster(ColorSystem.TRUECOLOR, dark=True)(style, "text", BLACK) is style


def test_drawing_keeps_its_shade_and_text_keeps_its_hue() -> None:
    readable, faint = ContrastAdjuster(ColorSystem.TRUECOLOR, dark=True), Style(color="#400000", bgcolor="#000000")
    assert readable(faint, " ▇▇─ ", BLACK) is faint
    moved = readable(faint, "▇ 12", BLACK).color
    assert moved is not None and moved.triplet is not None
    assert moved.triplet.red > moved.triplet.green == moved.triplet.blue


def test_without_colours_a_ground_of_its_own_is_reversed() -> None:
    readable = ContrastAdjuster(None, dark=True)
    bar = readable(Style(color="black", bgcolor="white", bold=True), "text", BLACK)
    assert (bar.color, bar.bgcolor, bar.bold, bar.reverse) == (None, None, True, True)
    plain = readable(Style(color="cyan", bgcolor="black", dim=True, meta={"@click": "x"}), "text", BLACK)
    assert (plain.color, plain.bgcolor, plain.dim, plain.reverse) == (None, None, True, None)
    assert plain.meta == {"@click": "x"}, "what a click does is no colour"


def test_sixteen_colours_have_a_ground_of_their_own() -> None:
    for dark, expected in ((True, b"37;40"), (False, b"30;107")):
        style = ContrastAdjuster(ColorSystem.STANDARD, dark=dark)(Style(), "text", Color.parse("ansi_default"))
        assert expected in style.render("x", color_system=ColorSystem.STANDARD).encode()


@pytest.mark.parametrize(
    ("term", "colorterm", "no_color", "few"),
    [
        ("xterm", "", "", True),
        ("xterm-256color", "", "", False),
        ("xterm-256color", "truecolor", "", False),
        ("xterm-256color", "truecolor", "1", True),
        ("xterm", "truecolor", "", False),
    ],
)
def test_few_colours(monkeypatch: pytest.MonkeyPatch, term: str, colorterm: str, no_color: str, few: bool) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("COLORTERM", colorterm)
    assert has_few_colours({"NO_COLOR": no_color}) == few
    assert choose_theme(None, {"NO_COLOR": no_color}, [DARK.name]) == DARK.name


def _drawn(file: Path) -> set[str]:
    """Characters outside ASCII in the strings of a module; its docstrings are not drawn."""
    tree = ast.parse(file.read_text())
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    strings = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in said)
    return {char for node in strings if isinstance(node.value, str) for char in node.value if not char.isascii()}


READ_CHARACTERS = {("secrets.py", "\x9b"), ("secrets.py", "ü")}
"""Characters that the search for secrets reads and never draws."""


@pytest.mark.slow
def test_every_glyph_has_a_plain_one_as_wide() -> None:
    package = Path(context_tui.__file__).parent
    # Formats, the decoder of replies and what looks for uses name characters that they read, not such as are drawn.
    folders = ("formats", "lab/regret", "summarizer")
    reading = {file for folder in folders for file in (package / folder).rglob("*.py")}
    missing = {
        (file.name, char)
        for file in {*package.rglob("*.py")} - reading | {package / "summarizer" / "secrets.py"}
        for char in _drawn(file)
        if ord(char) not in ASCII_GLYPHS and (file.name, char) not in READ_CHARACTERS
    }
    borders = {char for lines in BORDER_CHARS.values() for line in lines for char in line if not char.isascii()}
    missing |= {("a border", char) for char in borders if ord(char) not in ASCII_GLYPHS}
    assert not missing
    for code, plain in ASCII_GLYPHS.items():
        assert plain.isascii() and cell_len(plain) == cell_len(chr(code)), f"U+{code:04x}"


def test_keys_that_have_signs_have_names_where_only_ascii_is_wanted() -> None:
    app, signs = ContextTuiApp([], InspectorOptions(ascii=True)), ContextTuiApp([])
    shown = {key: app.get_key_display(Binding(key, "")).translate(ASCII_GLYPHS) for key in KEY_DISPLAY_ALIASES}
    assert all(map(str.isascii, shown.values()))
    assert (shown["enter"], shown["backspace"], shown["up"]) == ("enter", "backspace", "^")
    assert signs.get_key_display(Binding("enter", "")) == "⏎"


def test_what_was_drawn_before_is_not_looked_at_again() -> None:
    looked: list[str] = []

    class Looking(ContrastAdjuster):
        def __call__(self, style: Style, text: str, ground: Color) -> Style:
            looked.append(text)
            return super().__call__(style, text, ground)

    drawn = OutputFilter(Looking(ColorSystem.TRUECOLOR, dark=True), ascii=True)
    faint = Style(color="#111111")
    row = [Segment("a\x1b b", faint), Segment("▇ 12", faint), Segment("▇ 12", faint)]
    once, again = drawn.apply(row, BLACK), drawn.apply(row, BLACK)
    assert [each.text for each in once] == ["a. b", "# 12", "# 12"] and once == again
    assert looked == ["a. b", "# 12"]
    (on_white,) = drawn.apply([Segment("▇ 12", faint)], Color(255, 255, 255))
    assert on_white.style != once[1].style and len(looked) == 3, "another ground is another question"
