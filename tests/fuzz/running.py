"""Running mutated sessions by number, and telling what breaks in as few mutations as break it."""

from __future__ import annotations

import shutil
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations, count
from pathlib import Path

from tests.fuzz.journey import travel
from tests.fuzz.mutations import Case, case_of

_NUMBERS = count()


@dataclass(frozen=True)
class Failure:
    """What broke: the fewest mutations of the case that still break it, and how it ended."""

    case: Case
    words: list[str]
    error: str

    def __str__(self) -> str:
        return f"seed {self.case.seed} ({self.case.format}): {'; '.join(self.words)}\n{self.error}"


def run(case: Case, folder: Path) -> tuple[int, str, list[str]]:
    """Write a case and do everything with it: how many sessions could be read, how it broke if it did, its words."""
    path = folder / f"case{next(_NUMBERS)}{case.suffix}"  # logs of requests stay open by their paths
    words = case.write(path)
    try:
        return travel(path, case.seed), "", words
    except Exception as error:
        return 0, _told(error), words
    finally:
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)


def failures(seeds: Iterable[int], folder: Path) -> Iterator[Failure | int]:
    """Run the cases of these numbers: of each how many sessions could be read, or how it failed."""
    for seed in seeds:
        case = case_of(seed)
        read, error, words = run(case, folder)
        yield read if not error else smallest(Failure(case, words, error), folder)


def smallest(failure: Failure, folder: Path) -> Failure:
    """The same failure with as few of its mutations as still make one."""
    steps = failure.case.steps
    for number in range(len(steps)):
        for fewer in combinations(steps, number):
            case = replace(failure.case, steps=fewer)
            _, error, words = run(case, folder)
            if error:
                return Failure(case, words, error)
    return failure


def _told(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/context_tui/" in frame.filename] or frames
    where = " < ".join(f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in own[:-7:-1])
    return f"{type(error).__name__}: {str(error)[:300]}\n  at {where}"
