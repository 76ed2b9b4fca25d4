"""Placeholder and summary texts that runtimes write into a history."""

from __future__ import annotations

START_LENGTH = 160
"""Characters that facts keep of a text that begins with a bracket."""

DEFECT_PLACEHOLDER = "[tool output cleared to save context — re-run the tool if its result is needed again]"
"""Body of a tool_result that defect's microcompact has cleared."""

DEFECT_SUMMARY = "[Compacted context summary — earlier conversation was condensed to save context.]"
"""Start of the assistant message that defect's full compaction puts first."""

RESULT_STUB = "[Old tool result content cleared]"
"""Body of a tool_result that Claude Code or koda has cleared."""

SDK_SUMMARY = "[Previous conversation summary]\n"
"""Start of the user message that agent-sdk's compaction puts first."""

SDK_SUMMARY_END = "\n[End of summary — conversation continues below]"
"""End of that message."""

KODA_SUMMARY = "[Compacted conversation summary]"
"""Start of the system row that koda's compaction appends."""

CLAUDE_CODE_SUMMARY = "This session is being continued from a previous conversation"
"""Start of the user message that Claude Code's compaction puts first."""

PLACEHOLDERS = frozenset({DEFECT_PLACEHOLDER, RESULT_STUB})
"""Bodies of cleared results."""


def is_summary_start(text: str, *, by_assistant: bool, first_block: bool, first_message: bool) -> bool:
    """Return whether the first words of a text mark it as the summary of an earlier compaction.

    Args:
        by_assistant: whether it is in a message of the assistant.
        first_block: whether it is the first block of its message.
        first_message: whether that is the first message of the history. Claude Code's marker is ordinary text, so it
            counts only there.
    """
    if text.startswith(DEFECT_SUMMARY):
        return by_assistant
    starts = (SDK_SUMMARY, KODA_SUMMARY, *((CLAUDE_CODE_SUMMARY,) if first_message else ()))
    return first_block and text.startswith(starts)


def strip_summary_marker(text: str) -> str:
    """Return a summary without the marker around it. Claude Code's marker is the first sentence, and stays."""
    mark = next((mark for mark in (DEFECT_SUMMARY, SDK_SUMMARY, KODA_SUMMARY) if text.startswith(mark)), "")
    return text.removeprefix(mark).removesuffix(SDK_SUMMARY_END if mark == SDK_SUMMARY else "").strip()
