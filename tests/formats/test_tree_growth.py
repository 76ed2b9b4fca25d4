"""Sessions of formats with rewinds that grow line by line tell at every step what a fresh reading tells."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.following import WRITERS, Writer
from context_tui.formats.base import scan
from context_tui.formats.opening import choose_session, make_scanner
from context_tui.tui.timeline.rows import TimelineRows
from tests.formats import tree_seeds
from tests.formats.growth import check_growth
from tests.formats.histories import columns


@pytest.mark.parametrize(
    "made", [tree_seeds.pi, tree_seeds.pi_first_version, tree_seeds.gemini_lines, tree_seeds.copilot]
)
def test_the_same_report_at_every_step(made: Callable[[], list[Any]], tmp_path: Path) -> None:
    check_growth(tmp_path / "x.jsonl", *made())


def _said(writer: Writer, steps: list[str]) -> list[bytes]:
    """The lines of what a program writes, in this order; it begins with a prompt, and rewinds go to one."""
    records = [*writer.first, *writer.typed(0)]
    for number, step in enumerate(steps, 1):
        if step == "rewind":
            records += writer.rewind(number)
        records += writer.step(number) if step == "step" else writer.typed(number)
    return [json.dumps(record).encode() + b"\n" for record in records]


@pytest.mark.parametrize("name", WRITERS)
@settings(max_examples=15, deadline=None)
@given(steps=st.lists(st.sampled_from(["step", "step", "step", "typed", "rewind"]), max_size=25), data=st.data())
def test_rewinds_at_random_and_looks_at_random(name: str, steps: list[str], data: st.DataObject) -> None:
    whole = b"".join(_said(WRITERS[name](), steps))
    first = whole.index(b"\n", whole.index(b"go on 0")) + 1
    cuts = sorted(data.draw(st.lists(st.integers(first, len(whole)), max_size=6)))
    with tempfile.TemporaryDirectory() as folder:
        path, rows = Path(folder, "x.jsonl"), TimelineRows()
        path.write_bytes(whole[:first])
        growing = make_scanner(info := choose_session(str(path)))
        session = scan(growing)
        rows.grow(session)
        for start, end in zip([first, *cuts], [*cuts, len(whole)], strict=True):
            with path.open("ab") as file:
                file.write(whole[start:end])
            revised = growing.advance().revised_from
            session, fresh = growing.session(), scan(make_scanner(info))
            assert columns(session.facts) == columns(fresh.facts)
            rows.grow(session, revised)
            assert session.to_messages() == fresh.to_messages()
        expected = TimelineRows()
        expected.grow(session)
        assert vars(rows) == vars(expected)
