"""What a recorded compaction took away and later messages came back to: the run went on without it, and used it."""

from __future__ import annotations

from typing import NamedTuple

from context_tui.compaction.recorded import RecordedCompaction
from context_tui.lab.regret.index import BlockUse, UseIndex
from context_tui.lab.replay.result import NEVER_REMOVED


class ReusedBlock(NamedTuple):
    """A block (its row) that a compaction took away, and the first use of what it held, of the highest tier.

    ``row_copies`` are the rows of blocks that still had in the context what was used then: the summary's, where that told it;
    none where nothing there did, so that it was guessed, fetched again or typed anew.
    """

    row: int
    use: BlockUse
    row_copies: tuple[int, ...]


def find_reused_blocks(compaction: RecordedCompaction, uses: UseIndex) -> list[ReusedBlock]:
    """The blocks that were lost by *found* and used later by the recorded run, in prompt order.

    Args:
        uses: :func:`context_tui.lab.compute_regret.index.build_use_index` its session.
    """
    gone, facts = uses.removed_by_recording["keep"], compaction.session.facts
    made = []
    for row in compaction.removed_blocks:
        later = (use for use in uses.by_row.get(row, ()) if use.message >= compaction.message)
        use = next(later, None)
        if use is None:
            continue
        had = tuple(
            copy
            for copy in use.copies
            if facts.block_message[copy] < use.message and gone.get(copy, NEVER_REMOVED) > use.message
        )
        made.append(ReusedBlock(row, use, had))
    return made
