"""Estimate the content that an agent puts back after it has summarised a context, where its session does not record it.

Claude Code reads the last files used since the previous compaction from disk, written ones first, and appends them as
results of Read. A file above a limit becomes a reference. The plan and the loaded skills are appended too. Source:
tests of versions 2.1.120 to 2.1.330 with files of 400 to 60,000 characters (docs/agents.md), and recorded sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import PurePath

from pydantic import BaseModel, ConfigDict, Field

from context_tui.session.blocks import bytes_to_tokens
from context_tui.session.context import Context
from context_tui.session.session import ContentOverlay, FileStates
from context_tui.session.values import Kind

CALL_TOKENS = 55
"""Tokens of the reminder that names the call of a file that is put back."""
REFERENCE_TOKENS = 62
"""Tokens of the reminder that refers to a larger file."""
LINE_NUMBER_BYTES = 6
"""Bytes of a line number in a result of Read."""
LIMIT_ERROR = 0.15
"""Error of the estimate that is compared with the limit of a file, as a share: texts have more or fewer tokens."""
RESTORED_ERROR = 0.4
"""Error of the estimate of all content that is put back, as a share."""
MAX_SKILLS_TOKENS = 25_000
"""Maximum estimated tokens (``bytes/4``) of all skills."""
_MEMORY_FILES = ("CLAUDE.md", "CLAUDE.local.md", "AGENTS.md")


def use_estimate(tokens: int, kind: Kind) -> float:
    """Return *tokens* unchanged: the conversion for callers that want estimated tokens (``bytes/4``)."""
    return tokens


class Restoration(BaseModel):
    """A rule for what an agent puts back after a summary.

    Attributes:
        files: maximum number of files.
        file_tokens: maximum tokens of a file that is put back as a whole.
        skill_tokens: maximum estimated tokens (``bytes/4``) of a skill; a longer skill is cut.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    files: int = Field(default=5, ge=0, le=1_000)
    file_tokens: int = Field(default=5_000, ge=1, le=10_000_000)
    skill_tokens: int = Field(default=5_000, ge=0, le=10_000_000)

    def estimate(
        self, context: Context, convert: Callable[[int, Kind], float] = use_estimate, kept: Collection[int] = ()
    ) -> int:
        """Estimate the tokens that are put back after *context* is summarised, except its *kept* messages.

        *convert* converts estimated tokens (``bytes/4``) of a kind of block to those of a measure. The result is an
        expected value: a file whose size is near the limit counts in part. It is 0 if the session's format does not
        record which files were read and written.
        """
        content = context.content
        while isinstance(content, ContentOverlay):
            content = content.recorded
        if not isinstance(content, FileStates) or not self.files:
            return 0
        states = content.read_file_states(context.order)
        total = 0.0
        candidates = []
        for path, state in states.items():
            if state.message in kept or PurePath(path).name in _MEMORY_FILES:
                continue
            if PurePath(path).parent.parts[-2:] == (".claude", "plans"):
                total += convert(bytes_to_tokens(state.size), Kind.TEXT) + CALL_TOKENS
            else:
                candidates.append(state)
        candidates.sort(key=lambda state: (state.is_written, state.message), reverse=True)
        for state in candidates[: self.files]:
            excess = convert(bytes_to_tokens(state.size), Kind.TEXT) / self.file_tokens - 1
            share = min(max((LIMIT_ERROR - excess) / (2 * LIMIT_ERROR), 0.0), 1.0)
            size = bytes_to_tokens(state.size + LINE_NUMBER_BYTES * state.lines)
            total += share * (convert(size, Kind.TOOL_RESULT) + CALL_TOKENS) + (1 - share) * REFERENCE_TOKENS
        skills = content.read_skill_sizes(context.at)
        skill_tokens = sum(min(bytes_to_tokens(size), self.skill_tokens) for size in skills)
        total += convert(min(skill_tokens, MAX_SKILLS_TOKENS), Kind.TEXT)
        return round(total)
