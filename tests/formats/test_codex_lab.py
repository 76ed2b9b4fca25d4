"""The lab on what only Codex records: a summary that nobody can read."""

from __future__ import annotations

import context_tui as ct
from context_tui.lab.replay.recording import Recording
from context_tui.session.facts import Compaction
from context_tui.session.values import MessageFlag, Spans
from context_tui.tokens.context_size import DEFAULT_SUMMARY_TOKENS


def test_an_encrypted_summary_says_nothing_about_the_size_of_others() -> None:
    hidden = {"type": "compaction", "encrypted_content": "x" * 4_000}
    session = ct.from_messages(
        [
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": "yes"},
            {"role": "user", "content": [hidden]},
            {"role": "assistant", "content": "on"},
        ]
    )
    session.facts.flags[2] |= MessageFlag.SUMMARY
    session.facts.add_compaction(Compaction(2, "full", prefix=Spans(range(2, 3))))
    assert Recording(session).summary_tokens == DEFAULT_SUMMARY_TOKENS
