"""No character that a terminal acts on gets through, and nothing readable is lost on the way."""

from __future__ import annotations

import unicodedata
from pathlib import PurePath

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from context_tui.text.sanitize import make_visible, sanitize, sanitize_line

# Text as hostile as it gets: pieces of escape sequences, invisible characters and ordinary ones, in any order.
PIECES = st.sampled_from(
    [
        *("\x1b", "\x1b[", "\x1b]", "\x1bP", "\x1b_", "\x1b^", "\x1bX", "\x1b\\", "\x9b", "\x9d", "\x90", "\x9c"),
        *("\x07", "0;", "31", "m", "(", "B", " ", "\n", "\r", "\r\n", "\t", "a", "é", "漢", "👍", "🏽"),
        *("\u200d", "\ufe0f", "\u202e", "\u2066", "\u061c", "\u2028", "\x85", "\ud800", "\udfff"),
        *("\U000e0041", "\U000e0100", "\x00", "\x7f"),
    ]
)
HOSTILE = st.one_of(st.text(st.characters()), st.lists(PIECES).map("".join))


@given(HOSTILE)
def test_nothing_gets_through_that_is_not_drawn(text: str) -> None:
    hidden = ("Cc", "Cf", "Cs", "Zl", "Zp")
    assert [ascii(c) for c in sanitize(text) if c != "\n" and unicodedata.category(c) in hidden] == []
    assert [ascii(c) for c in sanitize_line(text) if unicodedata.category(c) in hidden] == []


@given(HOSTILE)
@example("\x1b\x1b[0m[31m")  # removing the inner sequence must not make one of what is around it
def test_a_second_pass_changes_nothing(text: str) -> None:
    once = sanitize(text)
    assert sanitize(once) == once
    assert sanitize_line(sanitize_line(text)) == sanitize_line(text)


@given(HOSTILE)
def test_lines_stay_lines(text: str) -> None:
    shown = sanitize(text)
    assert shown.count("\n") == text.count("\n")
    assert shown.splitlines() == (shown.removesuffix("\n").split("\n") if shown else [])


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"], exclude_characters="\u115f\u1160\u3164\uffa0")))
def test_readable_text_is_left_alone(text: str) -> None:
    skin_tones = {chr(code) for code in range(0x1F3FB, 0x1F400)}
    assert sanitize(text) == "".join(character for character in text if character not in skin_tones)


def test_every_code_point_that_is_not_drawn_is_covered() -> None:
    everything = map(chr, range(0x110000))
    hidden = [c for c in everything if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") and c != "\n"]
    assert [ascii(c) for c in hidden if sanitize(f"a{c}") == f"a{c}"] == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[38;2;1;2;3mrgb\x1b[K", "rgb"),
        ("\x9b31mred", "red"),
        ("\x1b[?2004hpaste", "paste"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]0;title\x1b\\text", "text"),
        ("\x1b]52;c;aGVsbG8=\x07clip", "clip"),
        ("\x9d0;title\x9ctext", "text"),
        ("\x1b]8;;http://a.example\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq#0;2;0\x1b\\sixel", "sixel"),
        ("\x1b_Gf=100;AAAA\x1b\\image", "image"),
        ("\x1b^private\x1b\\pm", "pm"),
        ("\x1bXstart\x1b\\sos", "sos"),
        ("\x1b(Bplain\x1b=\x1bc", "plain"),
    ],
)
def test_whole_sequences_disappear(text: str, shown: str) -> None:
    assert sanitize(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cut \x1b[38;5", "cut "),
        ("cut \x1b", "cut ␛"),
        ("\x1b[31\nnext", "\nnext"),
        ("\x1b]0;title\nnext line\x07", "\nnext line␇"),
        ("\x1b]0;" + "x" * 10_000, "x" * 9_802),
        ("\x1b[" + "1" * 10_000, "1" * 9_800),
    ],
)
def test_a_sequence_without_an_end_takes_little_with_it(text: str, shown: str) -> None:
    assert sanitize(text) == shown


def test_wrongly_decoded_quotation_marks_are_no_sequences() -> None:
    quoted = "“one” and “two”".encode().decode("latin-1")
    assert sanitize(quoted) == "â��oneâ�� and â��twoâ��"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x00b\x07c\x7f", "a␀b␇c␡"),
        ("50%\r100%", "50%␍100%"),
        ("dos\r\nlines\r\n", "dos\nlines\n"),
        ("a\x85b\u2028c\u2029d", "a␤b␤c␤d"),
        ("user\u202egnp.exe", "user·gnp.exe"),
        ("\ufeffbom", "·bom"),
        ("hidden\U000e0068\U000e0069", "hidden··"),
        ("\ud83d alone", "� alone"),
        ("❤\ufe0f 👨\u200d👩 👍🏽", "❤ 👨👩 👍"),
    ],
)
def test_what_is_left_becomes_visible(text: str, shown: str) -> None:
    assert sanitize(text) == shown


@pytest.mark.parametrize("mark", ["\u0301", "\u20dd", "\u0e49", "\u064b", "\U0001e8d0"])
def test_few_marks_stand_on_a_character(mark: str) -> None:
    assert sanitize(f"a{mark * 4}b") == f"a{mark * 4}b"
    assert sanitize(f"a{mark * 99}b{mark * 99}") == f"a{mark * 4}b{mark * 4}"
    assert sanitize(f"\x1b[31ma{mark * 3}\u200d{mark * 3}b") == f"a{mark * 4}b"
    assert make_visible(f"a{mark * 6}") == f"a{mark * 4}··"
    assert sanitize("──────\u3000「「「「「「 ······ 🎉🎉🎉🎉🎉🎉") == "──────\u3000「「「「「「 ······ 🎉🎉🎉🎉🎉🎉"


def test_tabs_can_be_kept() -> None:
    assert sanitize("\x1b[1ma\tb\x1b[0m\r\n", tab_width=0) == "a\tb\n"


def test_tabs_reach_the_next_stop() -> None:
    assert sanitize("a\tb\n\tc") == "a   b\n    c"
    assert sanitize("\x1b[1ma\tb", tab_width=8) == "a       b"


def test_one_line() -> None:
    assert sanitize_line("a\n\tb\r\nc") == "a⏎ b⏎c"


UNITS = ["\x1b", "\x1b[", "\x1b]", "\x1b]a", "\x9d", "\x9da", "\x90", "\x1bP1", "\x1b ", "\x9b1", "\r"]


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("prefix", ["", "\x1b]", "\x1b["])
def test_hostile_input_ends(unit: str, prefix: str) -> None:
    """A megabyte of openings ends in a text that can be drawn; a quadratic pattern would take minutes over it."""
    text = prefix + unit * (1_000_000 // len(unit))
    shown = sanitize(text)
    assert "\x1b" not in shown and "\x9b" not in shown and len(shown) <= len(text)


def test_clean_text_is_the_same_object() -> None:
    for text in ("", "plain\nlines\n", "naïve 漢字 — ok\n"):
        assert sanitize(text) is text


@given(HOSTILE)
def test_a_name_hides_nothing(name: str) -> None:
    shown = make_visible(name)
    assert len(shown) == len(name) and make_visible(shown) == shown == sanitize_line(shown)
    assert [ascii(c) for c in shown if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")] == []
    assert all(
        before == after for before, after in zip(name, shown, strict=True) if before.isprintable() and before.isascii()
    )


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("plain name.jsonl", "plain name.jsonl"),
        ("naïve-日本-👍.jsonl", "naïve-日本-👍.jsonl"),
        ("a\u200db\u200cc\ufe0fd\u202ee\u3164f", "a·b·c·d·e·f"),
        ("\x1b]52;c;QQ==\x07\t\r\n", "␛]52;c;QQ==␇␉␍⏎"),
        ("lone\udcff", "lone�"),
    ],
)
def test_names_of_files(name: str, shown: str) -> None:
    assert make_visible(name) == shown and make_visible(PurePath(name)) == shown
