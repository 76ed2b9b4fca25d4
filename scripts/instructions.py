"""Compare the instructions that rules find with labels made by reading the sessions.

``python scripts/instructions.py FOLDER`` prints the page, ``--write`` writes ``docs/instructions.md``. The labels
(``tests/data/instruction_labels.jsonl``) are positions and kinds.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import context_tui as ct  # noqa: E402
from context_tui.summarizer.checks.instruction_survival import find_message_instructions  # noqa: E402
from scripts.pages import build_page_parser, print_or_write_page  # noqa: E402

PAGE = ROOT / "docs" / "instructions.md"
LABELS = ROOT / "tests" / "data" / "instruction_labels.jsonl"

Place = tuple[int, int, int, int]
"""Message, block, start and end of an instruction."""


TEXT = """\
# Instructions

Rules that the user typed ("never touch X", "use Z"), and those of files that a runtime inserts, such as CLAUDE.md,
AGENTS.md and skills, are followed through compactions: by `context-tui aftermath`, on the screen `B` (key `i`), and on
the apply screen, which counts the typed ones that a draft lacks and puts them back (key `i`).

## What counts

An instruction is a sentence, an item of a list or a cell of a table that holds from then on. Rules of English find it,
without a model:

- Typed: a sentence with the words of a rule (must, never, always, do not, only, make sure, avoid, prefer…), one that
  begins with a verb that sets a rule (use, keep, follow…), or an imperative after a condition ("if it fails, …").
  Imperatives count, too, below a heading such as "Rules", and in the lists of a text with four rules or more; every
  item counts in a list after a sentence such as "Each response must include:".
- In a file of rules: every imperative, also in tables, lists of checks, and blocks of code without a language, and
  every item below a heading such as "Code style" that is no statement.
- Not: questions, code, quotations, headings, reports ("it never returns"), and all other languages.

Instructions in the system prompt are not followed, since no compaction removes them.

## What becomes of them

| outcome | meaning |
| --- | --- |
| in the context | its message stayed |
| in the summary | word for word in the summary |
| put back | word for word in another message of the new context, such as a skill that the agent loads again |
| in other words | a sentence of the summary has 60 % of its distinctive words; it is quoted, for a person to judge |
| absent | none of these |

An instruction is *contradicted* by the first later call that runs a command, or changes a file, that it forbids by
name: "do not run `make deploy`", "never push", "never touch src/gen.py". Bans with an exception (unless, without,
until…) are not checked. A contradiction is for a person to judge, too: the user may have allowed it since.

`context-tui aftermath SESSIONS… --max-absent N` exits with 1 if more than N typed instructions are absent after a
recorded compaction, and with 4 if no session has a typed instruction before one.

## How well the rules find them

67 sessions were labelled by reading, by people who had not seen the rules: positions and kinds, in
`tests/data/instruction_labels.jsonl`. `make instructions` computes the table. A place is right if half of its
characters are labelled, and a label is found if half of its characters are. Doubtful labels count for neither. The goal
is precision 90 % and recall 75 %.

- *second held-out*: **blind**. Labelled by somebody else while the rules of today were made, and scored once with
  them: precision **91.8 %**, recall **86.6 %**. Two of its sessions hold the same AGENTS.md; if that counts once, 207
  labels remain, with 88.1 % and 85.0 %. The rules fare well in such a file (96.3 % and 88.5 %) and worse in the 22
  other sessions (33 labels, 55.0 % and 66.7 %): chats have few instructions, what they ask to be delivered looks like
  rules, and the prompts of slash commands are not read as rules. No rule was changed since.
- *development*, *opened* and *held-out* were open when the rules of today were made, so the table shows how well the
  rules fit them. The first rules had precision 86.0 % and recall 52.2 % on the 25 sessions of the last two, blind.
"""


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


def find_places(session: ct.Session) -> list[Place]:
    """Return the place of every instruction in the messages of a session."""
    context = session.context_at()
    return [
        (message, each.block, each.instruction.start, each.instruction.end)
        for message in range(len(session))
        for each in find_message_instructions(context, message)
    ]


def compute_score(labels: Sequence[Place], doubtful: Sequence[Place], found: Sequence[Place]) -> Score:
    """Score what was found: a place is the same if half of its characters are covered by the other side's."""
    certain = [place for place in found if not _is_covered(place, doubtful) or _is_covered(place, labels)]
    hits = sum(_is_covered(place, certain) for place in labels)
    return Score(len(labels), hits, len(certain), sum(_is_covered(place, labels) for place in certain))


def _is_covered(place: Place, others: Iterable[Place]) -> bool:
    message, block, start, end = place
    spans = [(max(start, s), min(end, e)) for m, b, s, e in others if (m, b) == (message, block)]
    return sum(max(e - s, 0) for s, e in spans) * 2 >= max(end - start, 1)


@dataclass(frozen=True)
class SessionScore:
    """The score of the instructions in a session, and the half of the labels that it belongs to."""

    session: str
    half: str
    score: Score


def read_labels() -> list[dict[str, Any]]:
    """Read the labels of all sessions."""
    return [json.loads(line) for line in LABELS.read_text(encoding="utf-8").splitlines()]


def score_sessions(folder: Path) -> list[SessionScore]:
    """Score all labelled sessions in a folder."""
    scores = []
    for row in read_labels():
        places = find_places(ct.open_session(f"{folder}/{row['session']}"))
        labels, doubtful = ([tuple(each[:4]) for each in row[name]] for name in ("labels", "doubtful"))
        scores.append(SessionScore(row["session"], row["half"], compute_score(labels, doubtful, places)))
    return scores


def format_page(scores: Sequence[SessionScore]) -> str:
    """Format the page with a table by half and one by agent."""
    return "\n".join(
        [
            TEXT,
            *_format_table("part", scores, lambda each: each.half),
            "",
            "By agent:",
            "",
            *_format_table("agent", scores, lambda each: each.session.partition("/")[0]),
            "",
        ]
    )


def _format_table(title: str, scores: Sequence[SessionScore], get_name: Callable[[SessionScore], str]) -> list[str]:
    lines = [f"| {title} | sessions | labels | found | precision | recall |", "|---|--:|--:|--:|--:|--:|"]
    for name in dict.fromkeys(map(get_name, scores)):
        group = [each.score for each in scores if get_name(each) == name]
        total = Score(*map(sum, zip(*group, strict=True)))
        if total.labelled:
            lines.append(
                f"| {name} | {len(group)} | {total.labelled} | {total.found} "
                f"| {total.precision:.1%} | {total.recall:.1%} |"
            )
    return lines


def main() -> int:
    """Print or write the page."""
    options = build_page_parser(__doc__, PAGE).parse_args()
    print_or_write_page(PAGE, format_page(score_sessions(options.folder)), options.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
