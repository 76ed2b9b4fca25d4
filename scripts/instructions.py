"""Compare the instructions that rules find with labels made by reading the sessions.

``python scripts/instructions.py FOLDER`` prints the page, ``--write`` writes ``docs/instructions.md``. The labels
(``tests/data/instruction_labels.jsonl``) are positions and kinds.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import context_tui as ct  # noqa: E402
from context_tui.summarizer.checks.instruction_survival import find_message_instructions  # noqa: E402

LABELS = ROOT / "tests" / "data" / "instruction_labels.jsonl"

Place = tuple[int, int, int, int]
"""Message, block, start and end of an instruction."""


class Score(NamedTuple):
    """Numbers of instructions: labelled, found among the labelled, and found in all; without doubtful ones."""

    labelled: int
    hits: int
    found: int
    correct: int

    @property
    def precision(self) -> float:
        """Share of the instructions found that are labelled."""
        return self.correct / self.found if self.found else 1.0

    @property
    def recall(self) -> float:
        """Share of the labelled instructions that are found."""
        return self.hits / self.labelled if self.labelled else 1.0


def find_places(session: ct.Session) -> list[tuple[Place, str]]:
    """Return the place and the source of every instruction in the messages of a session."""
    context = session.context_at()
    return [
        ((message, each.block, each.instruction.start, each.instruction.end), each.source.value)
        for message in range(len(session))
        for each in find_message_instructions(context, message)
    ]


def compute_score(labels: Sequence[Place], doubtful: Sequence[Place], found: Sequence[Place]) -> Score:
    """Score what was found: a place is the same if half of its characters are covered by the other side's."""
    certain = [place for place in found if not _is_covered(place, doubtful) or _is_covered(place, labels)]
    hits = sum(_is_covered(place, found) for place in labels)
    return Score(len(labels), hits, len(certain), sum(_is_covered(place, labels) for place in certain))


def _is_covered(place: Place, others: Iterable[Place]) -> bool:
    message, block, start, end = place
    spans = [(max(start, s), min(end, e)) for m, b, s, e in others if (m, b) == (message, block)]
    return sum(max(e - s, 0) for s, e in spans) * 2 >= max(end - start, 1)


def read_labels() -> list[dict[str, Any]]:
    """Read the labels of all sessions."""
    return [json.loads(line) for line in LABELS.read_text(encoding="utf-8").splitlines()]


def main() -> int:
    folder = Path(sys.argv[1])
    totals: dict[str, list[int]] = {}
    for row in read_labels():
        session = ct.open_session(f"{folder}/{row['session']}")
        labels = [tuple(each[:4]) for each in row["labels"]]
        doubtful = [tuple(each[:4]) for each in row["doubtful"]]
        found = find_places(session)
        score = compute_score(labels, doubtful, [place for place, _ in found])
        total = totals.setdefault(row["half"], [0, 0, 0, 0])
        totals[row["half"]] = [a + b for a, b in zip(total, score)]
        print(f"{row['session'][:60]:60} {score} {score.precision:.2f} {score.recall:.2f}")
    for half, total in totals.items():
        score = Score(*total)
        print(half, score, f"precision {score.precision:.1%} recall {score.recall:.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
