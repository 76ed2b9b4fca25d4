"""Score reported cases of regret, and calls that read again or edit, against the judgement of two readers.

The judgements (``tests/data/regret_cases.jsonl``) are positions and reasons; ``docs/regret.md`` explains them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import context_tui as ct
from context_tui.lab.regret.cases import RemainingContext
from context_tui.lab.regret.index import UseTier, build_use_index
from context_tui.lab.replay.recording import Recording
from context_tui.lab.replay.result import NEVER_REMOVED
from context_tui.lab.replay.walk import replay

JUDGEMENTS = Path(__file__).resolve().parents[1] / "tests" / "data" / "regret_cases.jsonl"
_NUMBERS = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split()
DRAWS = tuple(f"{number} draw" for number in _NUMBERS)


@dataclass(frozen=True)
class Judgement:
    """What readers said of a reported case, or of a call.

    Attributes:
        session: path of the file in the folder, with the id of the session.
        kind: ``case`` that the program reported, ``decoy`` whose content remained, or ``call`` of the recorded agent.
        tier: tier of a case; for a call, ``read``, ``edit`` or ``other``.
        message, block: position of the dropped block; None for a call.
        later, later_block: the message that uses it, and the number of the block if it is a call.
        needed: whether both readers (in the first draw, the one reader) said that dropped content was needed.
        window: the context window in tokens that the policy was given; None for that of the file.
        sure: whether neither reader was in doubt; None if they were not asked.
    """

    session: str
    draw: str
    policy: str
    kind: str
    tier: str
    message: int | None
    block: int | None
    later: int
    later_block: int | None
    needed: bool
    reason: str
    window: int | None = None
    sure: bool | None = None


@dataclass(frozen=True)
class Outcome:
    """A judgement, and whether the program of today says that dropped content was needed there."""

    judgement: Judgement
    found: bool


def read_judgements() -> list[Judgement]:
    """Read the judgements, ordered by session."""
    lines = JUDGEMENTS.read_text("utf-8").splitlines()
    return sorted((Judgement(**json.loads(line)) for line in lines), key=lambda each: each.session)


def score_judgements(judgements: Sequence[Judgement], folder: Path) -> Iterator[Outcome]:
    """Yield an outcome for each judgement, in order."""
    for name, group in groupby(judgements, lambda each: each.session):
        recording = Recording(ct.open_session(f"{folder}/{name}"))
        uses, contexts = build_use_index(recording), dict[tuple[str, int | None], RemainingContext]()
        for each in group:
            key = each.policy, each.window
            if key not in contexts:
                run = replay(recording.session if each.window else recording, each.policy, window=each.window)
                contexts[key] = RemainingContext(run, uses)
            found = _find_lost_rows(contexts[key], each.later)
            facts = recording.session.facts
            if each.message is None or each.block is None:
                yield Outcome(each, any(tier != "reference" for tier, _ in found))
            else:
                row = list(facts.blocks_of(each.message))[each.block]
                yield Outcome(each, any((tier, row) in found for tier in (each.tier, "re-fetch", "edit")))


def _find_lost_rows(context: RemainingContext, later: int) -> set[tuple[UseTier, int]]:
    """Return the tiers and rows of the dropped blocks whose content a message uses and the context lacks."""
    removed, keys = context.replay.removed_by_policy, set[tuple[UseTier, int]]()
    for row, uses in context.uses.by_row.items():
        for tier, group in groupby((use for use in uses if use.message == later), lambda use: use.tier):
            if removed.get(row, NEVER_REMOVED) <= later and context.find_lost_use(row, group):
                keys.add((tier, row))
    return keys


def format_tables(outcomes: Sequence[Outcome]) -> list[str]:
    """Format the tables as lines of Markdown: cases by tier, and calls by what they do."""
    lines = ["| draw | tier | cases read | still reported | needed | precision |", "|---|---|--:|--:|--:|--:|"]
    for draw in DRAWS:
        for tier in ("re-fetch", "edit", "reference"):
            cases = [each for each in _select(outcomes, draw, "case") if each.judgement.tier == tier]
            reported = [each for each in cases if each.found]
            hits = sum(each.judgement.needed for each in reported)
            if reported:
                label = "reference (not counted)" if tier == "reference" else tier
                lines.append(
                    f"| {draw} | {label} | {len(cases)} | {len(reported)} | {hits} | {hits / len(reported):.1%} |"
                )
    lines += ["", "| draw | calls | read | needed | found | recall | sure | found | recall |"]
    lines.append("|---|---|--:|--:|--:|--:|--:|--:|--:|")
    for draw in DRAWS:
        for kind in ("read", "edit"):
            calls = [each for each in _select(outcomes, draw, "call") if each.judgement.tier == kind]
            needed = [each for each in calls if each.judgement.needed]
            if needed:
                label = {"read": "read again", "edit": "edit"}[kind]
                sure = [each for each in needed if each.judgement.sure]
                lines.append(f"| {draw} | {label} | {len(calls)} {_format_recall(needed)} {_format_recall(sure)} |")
    return lines


def _format_recall(needed: Sequence[Outcome]) -> str:
    hits = sum(each.found for each in needed)
    return f"| {len(needed)} | {hits} | {hits / len(needed):.1%}" if needed else "| | |"


def _select(outcomes: Sequence[Outcome], draw: str, kind: str) -> list[Outcome]:
    return [each for each in outcomes if each.judgement.draw == draw and each.judgement.kind == kind]
