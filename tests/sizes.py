"""Sizes of made-up requests, for tests of what is drawn of them."""

from __future__ import annotations

from context_tui.compaction.next_request import NextRequest
from context_tui.tokens.context_size import ContextAccount, ContextSize


def build_request(
    recorded: int | None, appended: int, removed: int, inserted: int = 0, *, summary_pending: bool = False
) -> NextRequest:
    """Build the next request of a context of *recorded* and *appended* tokens under a plan that removes some."""
    content = (recorded or 0) + appended
    errors, source = (0.02, 0.002), "calibrated"
    account = ContextAccount(recorded, appended, 0, content, 1, 0, *errors, source, source, False, 0, True)
    after = max(content - removed, 0) + inserted
    return NextRequest(account, ContextSize(after, after, after, "calibrated"), inserted, summary_pending)
