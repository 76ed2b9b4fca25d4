"""Regret of a replay or of a recorded compaction: the removed blocks whose content was used later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, groupby
from typing import Any, NamedTuple

from context_tui.compaction.changes import Change
from context_tui.compaction.plan import Plan
from context_tui.compaction.recorded_compactions import RecordedCompaction
from context_tui.lab.regret.index import MIN_USE_WEIGHT, TIERS, BlockUse, UseIndex, UseTier
from context_tui.lab.replay.result import NEVER_REMOVED, Replay
from context_tui.session.blocks import get_text
from context_tui.session.jsontext import compact_text
from context_tui.tokens.estimators import bytes4


class RegretCase(NamedTuple):
    """A block that the policy dropped and the recorded run needed or named later.

    Attributes:
        tier: highest tier among the later uses of the block.
        message, block, row: message of the dropped block, number of the block in that message, and row of the block.
        dropped: the message before which the policy removed its content.
        later, later_block: the first assistant message with a use of that tier, and the number of the block in it.
        needle: the text that both blocks contain.
        evidence: the call or line that shows the use.
        tokens: estimated tokens (``bytes/4``) dropped from the block.
    """

    tier: UseTier
    message: int
    block: int
    row: int
    dropped: int
    later: int
    later_block: int
    needle: str
    evidence: str
    tokens: int

    @property
    def is_needed(self) -> bool:
        """True if the content was fetched again or edited, and not only named."""
        return self.tier != "reference"


class Regret(NamedTuple):
    """The blocks that a policy removed from the context, with a case for each that the recorded run used later.

    A removed block was needed later if the recorded run fetched its content again or edited it, and the policy's
    context held it nowhere else. Repeated fetches are a lower bound, because the recorded agent still had the content.
    A block of which the run only names something again is a case, too, but does not count as needed: that is too often
    a coincidence (``docs/regret.md``).

    Attributes:
        dropped, used_later: number of dropped blocks, and of those that were needed later.
        tokens_dropped, tokens_used_later: estimated tokens (``bytes/4``) dropped from these blocks.
        by_tier, tokens_by_tier: number of cases and their tokens, by tier.
        refetched_after_edit: number of dropped blocks read again after the agent changed the file; not cases.
        cases: in the order of the dropped blocks.
    """

    dropped: int
    used_later: int
    tokens_dropped: int
    tokens_used_later: int
    by_tier: Mapping[UseTier, int]
    tokens_by_tier: Mapping[UseTier, int]
    refetched_after_edit: int
    cases: tuple[RegretCase, ...]


@dataclass
class RemainingContext:
    """Lookup of the content that is still in a replay's context at a given message."""

    replay: Replay
    uses: UseIndex
    removed_by_recording: Mapping[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self.removed_by_recording = self.uses.removed_by_recording[self.replay.recorded]

    @cached_property
    def truncations(self) -> dict[int, tuple[Plan, Change]]:
        """First truncation of each truncated block, keyed by row: the plan and its change."""
        truncations: dict[int, tuple[Plan, Change]] = {}
        for plan in (firing.plan for firing in self.replay.firings if firing.truncated):
            for row, change in plan.changes.items():
                if change.action == "truncate":
                    truncations.setdefault(row, (plan, change))
        return truncations

    @cached_property
    def removal_by_row(self) -> dict[int, int]:
        """Messages before which the policy removed whole blocks, keyed by row; empty if it truncated none."""
        removals: dict[int, int] = {}
        for firing in self.replay.firings if self.truncations else ():
            order, facts = firing.plan.context.order, firing.plan.context.facts
            dropped = (order[position] for span in firing.plan.dropped_ranges for position in span)
            rows = [row for message in dropped for row in facts.blocks_of(message)]
            if firing.cleared:
                rows += (row for row, change in firing.plan.changes.items() if change.action != "truncate")
            for row in rows:
                removals.setdefault(row, firing.message)
        return removals

    def contains(self, row: int, needle: str, message: int) -> bool:
        """Return whether the policy's context still holds *needle* from a block just before *message*."""
        if self.removed_by_recording.get(row, NEVER_REMOVED) <= message:
            return False
        if self.replay.removed_by_policy.get(row, NEVER_REMOVED) > message:
            return True
        truncation = self.truncations.get(row)
        if truncation is None or self.removal_by_row.get(row, NEVER_REMOVED) <= message:
            return False
        text = self._render_truncated(row, *truncation)
        return needle in text or compact_text(needle)[1:-1] in text or needle in text.lower()

    def _render_truncated(self, row: int, plan: Plan, change: Change) -> str:
        if change.body.text is not None or change.render is None:
            return change.body.text or ""
        earlier = plan.context.replacements.get(row)
        return change.render(earlier.text if earlier else self._read_body(row))

    def _read_body(self, row: int) -> Any:
        bodies: dict[int, Any] = self.uses.memo.setdefault("bodies", {})
        if row not in bodies:
            session = self.uses.session
            block = session.content.blocks(session.facts.block_message[row])[session.facts.ordinal(row)]
            bodies[row] = get_text(block)
        return bodies[row]

    def find_unsatisfied_use(self, row: int) -> BlockUse | None:
        """Return the first use whose needle the context no longer holds, in the highest tier that has one, or None."""
        groups = groupby(self.uses.by_row.get(row, ()), key=lambda use: (use.tier, use.message))
        return next((use for _, uses in groups if (use := self.find_lost_use(row, uses))), None)

    def find_lost_use(self, row: int, uses: Iterable[BlockUse]) -> BlockUse | None:
        """Return the first lost use of those in one message and tier, or None if too few of their needles are lost."""
        lost_uses = [use for use in uses if self.is_unsatisfied(row, use)]
        is_lost = sum(use.weight for use in lost_uses) >= MIN_USE_WEIGHT
        return next((use for use in lost_uses if not use.is_other), None) if is_lost else None

    def is_unsatisfied(self, row: int, use: BlockUse) -> bool:
        """Return whether neither the block nor a copy still holds the needle in the context at the time of the use."""
        if use.message >= self.removed_by_recording.get(row, NEVER_REMOVED):
            return False
        holders = chain((row,), reversed(use.copies))
        return not any(self.contains(holder, use.needle, use.message) for holder in holders)

    def count_removed_tokens(self, row: int) -> int:
        """Return how many estimated tokens the policy removed from a block."""
        truncation = self.truncations.get(row)
        remaining = truncation[1].body.tokens if truncation is not None and row not in self.removal_by_row else 0
        return max(bytes4(self.uses.session.facts, row) - remaining, 0)


def compute_regret(replay: Replay, uses: UseIndex) -> Regret:
    """Find the blocks that a replay removed and the session needed later, in time linear in the removed blocks.

    Args:
        uses: the index (:func:`context_tui.lab.regret.index.build_use_index`) of the same session.
    """
    remaining, facts = RemainingContext(replay, uses), uses.session.facts
    cases, refetched_after_edit, tokens_dropped = [], 0, 0
    for row in sorted(replay.removed_by_policy):
        tokens = remaining.count_removed_tokens(row)
        tokens_dropped += tokens
        if (use := remaining.find_unsatisfied_use(row)) is not None:
            place = facts.block_message[row], facts.ordinal(row), row, replay.removed_by_policy[row]
            later = use.message, facts.ordinal(use.block)
            cases.append(RegretCase(use.tier, *place, *later, use.needle, use.evidence, tokens))
        elif any(message >= replay.removed_by_policy[row] for message in uses.stale_refetches.get(row, ())):
            refetched_after_edit += 1
    tokens_by_tier = {tier: sum(case.tokens for case in cases if case.tier == tier) for tier in TIERS}
    needed = [case.tokens for case in cases if case.is_needed]
    return Regret(
        len(replay.removed_by_policy),
        len(needed),
        tokens_dropped,
        sum(needed),
        {tier: sum(case.tier == tier for case in cases) for tier in TIERS},
        tokens_by_tier,
        refetched_after_edit,
        tuple(cases),
    )


class ReusedBlock(NamedTuple):
    """A block that a recorded compaction removed, with the first later use of its content in the highest tier.

    ``row`` is the block's row, and ``row_copies`` are the rows of blocks, such as the summary, that still held the
    content.
    """

    row: int
    use: BlockUse
    row_copies: tuple[int, ...]


def find_reused_blocks(compaction: RecordedCompaction, uses: UseIndex) -> list[ReusedBlock]:
    """Return the blocks that *compaction* removed and the recorded run used or named later, in prompt order.

    Args:
        uses: the index (:func:`context_tui.lab.regret.index.build_use_index`) of its session.
    """
    removals, facts = uses.removed_by_recording["keep"], compaction.session.facts
    blocks = []
    for row in compaction.removed_blocks:
        use = next((use for use in uses.by_row.get(row, ()) if use.message >= compaction.message), None)
        if use is None:
            continue
        earlier = (copy for copy in use.copies if facts.block_message[copy] < use.message)
        row_copies = tuple(copy for copy in earlier if removals.get(copy, NEVER_REMOVED) > use.message)
        blocks.append(ReusedBlock(row, use, row_copies))
    return blocks
