"""Markdown as parts: what each mark becomes, that nothing written is lost, and that only what is looked at is read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from context_tui.text.sanitize import sanitize
from context_tui.tui.rendering.layout import StyleSpan, TextPart, lay_out_part, sanitize_part
from context_tui.tui.rendering.markdown import MAX_PAIRED_MARKS, MAX_SECTION_CHARS, render_markdown, split_sections


def no_looks(lines: Sequence[str], _language: str) -> list[tuple[StyleSpan, ...]]:
    return [()] * len(lines)


def parts(text: str, width: int = 40) -> list[TextPart]:
    return list(render_markdown(text, "text", width, no_looks))


def drawn(text: str, width: int = 40) -> list[str]:
    return [line.drawn_text for part in parts(text, width) for line in lay_out_part(sanitize_part(part), 0, width)]


def looks(part: TextPart) -> list[tuple[str, str]]:
    return [(part.text[start:stop], look) for start, stop, look in part.spans]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("# One\ntext\n## Two", ["One", "text", "Two"]),
        ("- a\n- b\n  - c\n\n1. d\n2. e", ["• a", "• b", "  • c", "", "1. d", "2. e"]),
        ("3) a\n4) b", ["3) a", "4) b"]),
        ("- a\n\n  more of a\n- b", ["• a", "", "  more of a", "• b"]),
        ("-\n- b", ["•", "• b"]),
        ("> said\n> twice\n>\n> - a\n\nafter", ["│ said", "│ twice", "│", "│ • a", "", "after"]),
        ("a\n\n\n\nb", ["a", "", "b"]),
        ("```sh\nls  -l\n\n  x\n```\nb", ["  ls  -l", "  ", "    x", "b"]),
        ("a\n  indented\n    more", ["a", "  indented", "    more"]),
        ("one **two** *three* `four` ~~five~~", ["one two three four five"]),
        ("[a](https://b.c) <https://d.e> ![f](g.png)", ["a (https://b.c) https://d.e image: f", "(g.png)"]),
        ("__init__.py 2*3*4 a_b_c &lt; &#27; <b>x</b>", ["__init__.py 2*3*4 a_b_c &lt; &#27;", "<b>x</b>"]),
        ("a\n\n---\n\nb", ["a", "", "─" * 24, "", "b"]),
        ("|a|bc|\n|-|-|\n|d|e|\n", ["a │ bc", "──┼───", "d │ e"]),
        ("|a|b|\n|-|-|\n|c|d|e|\n", ["|a|b|", "|-|-|", "|c|d|e|"]),
        ("> |a|b|\n> |-|-|\n> c|d|e", ["│ |a|b|", "│ |-|-|", "│ c|d|e"]),
        ("1. |a|\n   |-|\n   |b|c|", ["1. |a|", "   |-|", "   |b|c|"]),
        ("```ts src/app.ts\nx\n```", ["  ts src/app.ts", "  x"]),
        ("```src/app.ts\nx\n```", ["  src/app.ts", "  x"]),
        ("``` Note: run this first\n```\nb", ["  Note: run this first", "b"]),
        ("~~~ prose", ["  prose"]),
        ("~~~~ c++\n~~~\n```\n~~~~", ["  ~~~", "  ```"]),
        ("- ~~~~ one two\n  x\n  ~~~~", ["•   one two", "    x"]),
        ('[a](https://bücher.d/%20ä "the title")', ['a (https://bücher.d/%20ä "the title")']),
        ("[a](javascript:b) <javascript:c>", ["a (javascript:b) javascript:c"]),
        ("![a](b.png 'of c') [d](<e f>)", ["image: a (b.png 'of c') d (e f)"]),
        (r"[a](b\_c&copy;) [d](#e (f&lt;))", [r"a (b\_c&copy;) d (#e (f&lt;))"]),
    ],
)
def test_marks_are_drawn_and_lines_stay(text: str, shown: list[str]) -> None:
    assert drawn(text) == shown


def test_looks_are_places_in_the_text() -> None:
    (part,) = parts("a **b *c*** `d` [e](f)")
    assert part.text == "a b c d e (f)"
    assert sorted(looks(part)) == [(" (f)", "muted"), ("b c", "strong"), ("c", "em"), ("d", "code"), ("e", "link")]
    first, second = parts("**over two\nlines**")
    assert looks(first) == [("over two", "strong")] and looks(second) == [("lines", "strong")]
    assert [part.style for part in parts("# a\n## b\n### c\n#### d")] == ["h1", "h2", "h3", "h3"]


def test_a_table_is_fitted_into_the_pane() -> None:
    text = "|name|meaning|\n|-|-|\n|keep|how many turns are kept, **all** of them|\n|x|y|\n"
    assert drawn(text, 30) == [
        "name │ meaning",
        "─────┼────────────────────────",
        "keep │ how many turns are",
        "     │ kept, all of them",
        "x    │ y",
    ]
    bold = [look for part in parts(text, 30) for look in looks(part) if look[1] == "strong"]
    assert bold == [("name │ meaning", "strong"), ("all", "strong")]
    many = "|a" * 30 + "|\n" + "|-" * 30 + "|\n"
    assert drawn(many, 40)[0].startswith("|a|a"), "too many columns stay as they were written"


@pytest.mark.parametrize("width", [1, 2, 5, 20])
def test_nothing_is_wider_than_the_pane(width: int) -> None:
    text = (
        "> > - 1. a long text that has to be wrapped\n\n|a|b|\n|-|-|\n|long text here|more|\n\n# 日本語 の 文章です\n"
    )
    for part in parts(text, width):
        for line in lay_out_part(sanitize_part(part), 0, max(width, 2)):
            assert len(line.drawn_text) <= max(width, 2)


PIECES = [
    *("```", "~~~~", "|a|1|\n|-|-|\n|b|", "|a|\n|-|\n|b|1|", '[a](b "1")', "<a:b>", "<a@b.b>", "![", "](", "\n\n"),
    *("    ", "- ", "1. ", "> ", "\n   ", "&lt;"),
]


@given(
    st.text("ab1 \n*_>-#|[]!.\\", max_size=80)
    | st.lists(st.text("ab1é \n*_>-#|[]!.\\`~()<\"'&;:%/{}=+", max_size=8) | st.sampled_from(PIECES)).map("".join)
)
def test_no_word_is_lost(text: str) -> None:
    text = re.sub(r"!+(?=\[)", "", text)  # an image is called one
    wide, narrow = ("".join(part.mark + part.text for part in parts(text, width)) for width in (10_000, 20))
    written = [char for char in text if char.isalnum()]
    assert [char for char in wide if char.isalnum()] == written
    assert sorted(filter(str.isalnum, narrow)) == sorted(written), "cells are wrapped beside each other"


@given(st.text(max_size=200))
def test_what_is_rendered_is_safe_and_looks_stay_in_their_text(text: str) -> None:
    for part in parts(sanitize(text)):
        assert sanitize_part(part) == part
        assert all(0 <= start <= stop <= len(part.text) for start, stop, _ in part.spans)


def test_only_what_is_looked_at_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    parse = MarkdownIt.parse

    def counted(self: MarkdownIt, text: str) -> list[Token]:
        parsed.append(text)
        return parse(self, text)

    monkeypatch.setattr(MarkdownIt, "parse", counted)
    text = "Some **words** in a paragraph.\n\n" * 20_000
    assert len(list(islice(render_markdown(text, "text", 40, no_looks), 100))) == 100
    assert sum(map(len, parsed)) < 10_000


def test_sections_end_between_blocks_and_fences_are_opened_again() -> None:
    text = "Some text.\n\n" * 1_000 + "```py\n" + "line\n" * 6_000 + "```\nend\n"
    found = list(split_sections(text))
    assert all(len(each) <= MAX_SECTION_CHARS + 100 for each in found)
    assert "".join(found).replace("```python\n", "").replace("```py\n", "") == text.replace("```py\n", "") + "\n"
    fenced = [part for part in parts(text) if part.style == "fence"]
    assert len(fenced) == 6_000 and {part.text for part in fenced} == {"line"}
    assert parts(text)[-1].text == "end"
    told = parts("```py src/a.py\n" + "line\n" * 6_000)
    assert [part.text for part in told if part.text != "line"] == ["py src/a.py"]


@pytest.mark.parametrize("mark", ["[", "![", "*a ", "**a*b"])
def test_what_could_take_very_long_to_pair_is_shown_as_it_was_written(mark: str) -> None:
    text = mark * (MAX_PAIRED_MARKS + 1)
    assert [part.text for part in parts(text)] == [text]


def test_code_is_asked_for_by_its_language() -> None:
    asked: list[tuple[tuple[str, ...], str]] = []

    def looks_of(lines: Sequence[str], language: str) -> list[tuple[StyleSpan, ...]]:
        asked.append((tuple(lines), language))
        return [(StyleSpan(0, 3, "keyword"),)] * len(lines)

    found: Iterator[TextPart] = render_markdown("```py\ndef a\ndef b\n```\n\n```\nplain\n```", "text", 40, looks_of)
    assert next(part.spans for part in found if part.style == "fence") == (StyleSpan(0, 3, "keyword"),)
    assert list(found)
    assert asked == [(("def a", "def b"), "python"), (("plain",), "")]
