"""The event-stream parser against the standard's rules, split anywhere."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from context_tui.summarizer.decoder import ServerSentEvent, SSEParser


def parsed(*chunks: bytes) -> list[ServerSentEvent]:
    parser = SSEParser()
    return [event for chunk in chunks for event in parser.feed(chunk)] + parser.finish()


def test_fields() -> None:
    stream = b": a comment\n\nevent: x\ndata: one\ndata:two\nid: 7\nretry: 1\n\n"
    stream += b"data\n\nevent: alone\n\ndata:  kept space\n\n"
    assert parsed(stream) == [("x", "one\ntwo"), ("message", ""), ("message", " kept space")]


def test_line_ends_are_those_of_the_standard_only() -> None:
    for end in (b"\n", b"\r\n", b"\r"):
        stream = end.join([b"event: a", b"data: 1", b"", b"data: 2", b"", b""])
        for place in range(len(stream)):
            assert parsed(stream[:place], stream[place:]) == [("a", "1"), ("message", "2")], (end, place)
    odd = "a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg"
    assert parsed(f"data: {odd}\n\n".encode()) == [("message", odd)]


def test_characters_may_be_split() -> None:
    stream = "data: prêt 🦊 \u2028 終\n\n".encode()
    assert parsed(*(stream[i : i + 1] for i in range(len(stream)))) == [("message", "prêt 🦊 \u2028 終")]


def test_the_end_of_the_stream_completes() -> None:
    assert parsed(b"data: x") == [("message", "x")]
    assert parsed(b"data: x\n") == [("message", "x")]
    assert parsed(b"data: x\r") == [("message", "x")]
    assert parsed(b"data: x\n\n") == [("message", "x")]
    assert parsed(b"") == []
    assert parsed(b": ping\n\n") == []


def test_a_byte_order_mark_is_skipped() -> None:
    assert parsed(b"\xef\xbb\xbfdata: x\n\n") == [("message", "x")]


def test_events_come_as_soon_as_they_are_complete() -> None:
    parser = SSEParser()
    assert parser.feed(b"data: 1\n") == []
    assert parser.feed(b"\nda") == [("message", "1")]
    assert parser.feed(b"ta: 2\n\n") == [("message", "2")]


def test_a_long_line_in_small_pieces_is_linear() -> None:
    parser = SSEParser()
    parser.feed(b"data: ")
    for _ in range(50_000):
        parser.feed(b"x" * 40)
    assert len(parser.finish()[0].data) == 2_000_000


lines = st.lists(
    st.sampled_from([b"data: a", b"data:", b"event: e", b"", b":", b"data: \xc3\xa9", b"id: 1"]), max_size=12
)


@given(lines, st.sampled_from([b"\n", b"\r\n", b"\r"]), st.lists(st.integers(0, 120), max_size=6))
def test_splits_change_nothing(lines: list[bytes], end: bytes, cuts: list[int]) -> None:
    stream = end.join(lines)
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    assert parsed(*(stream[a:b] for a, b in itertools.pairwise(places))) == parsed(stream)
