"""Mutated sessions of every format through everything that is done with one: results, or errors of our own.

More of them, or others: ``python -m tests.fuzz HOW_MANY FIRST``. A failure names its number and its mutations.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from context_tui.formats.registry import FORMATS
from tests.fuzz.mutations import case_of
from tests.fuzz.running import Failure, failures, run
from tests.fuzz.seeds import SEEDS

FEW, MANY, AT_ONCE = 320, 25_000, 1_250
ONCE_BROKEN = (
    585896793899,  # a new context brought back messages whose results were cleared meanwhile
    5901987,  # a record without a message, nested too deeply, was no problem on the fast path
    20261192971,  # a read told of a file with more lines than a number can hold
    20261314820,  # the first record after a resume was a result of a message before the compaction
    6101475,  # many settings at once believed the recorded size of a reply that was not sent
)


def _broken(first: int, count: int, folder: Path) -> tuple[list[str], int]:
    """What breaks among the cases from *first* on, and how many of them could be read."""
    outcomes = [*failures(range(first, first + count), folder)]
    return [str(each) for each in outcomes if isinstance(each, Failure)], sum(map(bool, outcomes))


@pytest.mark.parametrize("first", range(0, FEW, FEW // 4))
def test_a_few_mutations(first: int, tmp_path: Path) -> None:
    broken, read = _broken(first, FEW // 4, tmp_path)
    assert not broken, "\n".join(broken)
    assert read > FEW // 8  # or they are not mutations of sessions any more


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1_000, 1_000 + MANY, AT_ONCE))
def test_many_mutations(first: int, tmp_path: Path) -> None:
    broken, read = _broken(first, AT_ONCE, tmp_path)
    assert not broken, "\n".join(broken)
    assert read > AT_ONCE // 2


@pytest.mark.parametrize("seed", ONCE_BROKEN)
def test_what_was_broken_once(seed: int, tmp_path: Path) -> None:
    broken, _ = _broken(seed, 1, tmp_path)
    assert not broken, "\n".join(broken)


def test_a_number_is_the_same_file_again(tmp_path: Path) -> None:
    requests = next(seed for seed in range(200) if case_of(seed).format == "claude-requests")
    for seed in (*range(40), requests):
        one, two = (tmp_path / f"{name}{seed}" for name in ("one", "two"))
        case_of(seed).write(one)
        case_of(seed).write(two)
        assert _bytes(one) == _bytes(two)


def _bytes(path: Path) -> list[tuple[str, bytes]]:
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return [(file.name if file != path else "", file.read_bytes()) for file in files]


def test_every_format_and_layout_comes_up() -> None:
    assert {case_of(seed).format for seed in range(200)} == set(SEEDS) == set(FORMATS)


def test_sessions_that_nothing_was_done_to(tmp_path: Path) -> None:
    for seed in range(40):
        read, error, _ = run(replace(case_of(seed), steps=()), tmp_path)
        assert read and not error, error
