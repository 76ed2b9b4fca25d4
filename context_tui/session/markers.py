"""Placeholder and summary texts that runtimes write into a history."""

from __future__ import annotations

START_LENGTH = 160
"""Number of leading characters that facts store of a text that begins with a bracket."""

DEFECT_PLACEHOLDER = "[tool output cleared to save context — re-run the tool if its result is needed again]"
"""Body of a tool_result that defect's microcompact cleared."""

DEFECT_SUMMARY = "[Compacted context summary — earlier conversation was condensed to save context.]"
"""Start of the assistant message that defect's full compaction inserts at the start."""

RESULT_STUB = "[Old tool result content cleared]"
"""Body of a tool_result that Claude Code or koda cleared."""

SDK_SUMMARY = "[Previous conversation summary]\n"
"""Start of the user message that agent-sdk's compaction inserts at the start."""

SDK_SUMMARY_END = "\n[End of summary — conversation continues below]"
"""End of the user message that agent-sdk's compaction inserts."""

KODA_SUMMARY = "[Compacted conversation summary]"
"""Start of the system row that koda's compaction appends."""

CLAUDE_CODE_SUMMARY = "This session is being continued from a previous conversation"
"""Start of the user message that Claude Code's compaction inserts at the start."""

PLACEHOLDERS = frozenset({DEFECT_PLACEHOLDER, RESULT_STUB})
"""Bodies of cleared results."""


def is_summary_start(text: str, *, by_assistant: bool, first_block: bool, first_message: bool) -> bool:
    """Return whether a text begins like the summary of an earlier compaction.

    Args:
        first_message: whether the message is the first; Claude Code's marker, ordinary text, counts only there.
    """
    if text.startswith(DEFECT_SUMMARY):
        return by_assistant
    starts = (SDK_SUMMARY, KODA_SUMMARY, *((CLAUDE_CODE_SUMMARY,) if first_message else ()))
    return first_block and text.startswith(starts)


def strip_summary_marker(text: str) -> str:
    """Return a summary without its marker, except Claude Code's, which is part of the first sentence."""
    marker = next((marker for marker in (DEFECT_SUMMARY, SDK_SUMMARY, KODA_SUMMARY) if text.startswith(marker)), "")
    return text.removeprefix(marker).removesuffix(SDK_SUMMARY_END if marker == SDK_SUMMARY else "").strip()
