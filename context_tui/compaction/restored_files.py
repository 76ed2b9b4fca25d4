"""Estimate the files that Claude Code puts back after a full compaction, which older session files do not record.

Claude Code reads the last five files used since the previous compaction from disk, written ones first, and appends them
as results of Read. A file of more than 5,000 tokens becomes a reference. Source: tests of versions 2.1.120 to 2.1.330
with files of 400 to 60,000 characters (docs/agents.md).
"""

from __future__ import annotations

from pathlib import PurePath

from context_tui.session.blocks import bytes_to_tokens
from context_tui.session.context import Context
from context_tui.session.session import FileStates
from context_tui.tokens.measures import TokenTable

MAX_FILES = 5
MAX_FILE_TOKENS = 5_000
"""Maximum tokens of a file that is put back as a whole."""
CALL_TOKENS = 55
"""Tokens of the reminder that names the call of a file that is put back."""
REFERENCE_TOKENS = 62
"""Tokens of the reminder that refers to a larger file."""
LINE_NUMBER_BYTES = 6
"""Bytes of a line number in a result of Read."""
_MEMORY_FILES = ("CLAUDE.md", "CLAUDE.local.md", "AGENTS.md")


def estimate_restored_tokens(context: Context, table: TokenTable) -> int:
    """Estimate the tokens of the files that are put back after *context* is compacted.

    Returns 0 if the session's format does not record which files were read and written.
    """
    if not isinstance(context.content, FileStates):
        return 0
    states = context.content.read_file_states(context.order)
    candidates = [(path, state) for path, state in states.items() if PurePath(path).name not in _MEMORY_FILES]
    candidates.sort(key=lambda item: (item[1].is_written, item[1].message), reverse=True)
    total = 0
    for _, state in candidates[:MAX_FILES]:
        if table.convert_estimate(bytes_to_tokens(state.size)) > MAX_FILE_TOKENS:
            total += REFERENCE_TOKENS
        else:
            size = state.size + LINE_NUMBER_BYTES * state.lines
            total += table.convert_estimate(bytes_to_tokens(size)) + CALL_TOKENS
    return total
