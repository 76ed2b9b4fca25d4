"""Wire constants that the reproduced systems leave in a history; other programs look for them too."""

from __future__ import annotations

DEFECT_PLACEHOLDER = "[tool output cleared to save context — re-run the tool if its result is needed again]"
"""Body of a tool_result that defect's microcompact has cleared."""

DEFECT_SUMMARY = "[Compacted context summary — earlier conversation was condensed to save context.]"
"""Start of the assistant message that defect's full compaction puts first."""

KODA_STUB = "[Old tool result content cleared]"
"""Body of a tool row that koda (and Claude Code) has cleared."""

SDK_SUMMARY = "[Previous conversation summary]\n"
"""Start of the user message that agent-sdk's compaction puts first."""

SDK_SUMMARY_END = "\n[End of summary — conversation continues below]"
"""End of that message."""

KODA_SUMMARY = "[Compacted conversation summary]"
"""Start of the system row that koda's compaction appends."""

CLAUDE_CODE_SUMMARY = "This session is being continued from a previous conversation"
"""Start of the user message that Claude Code's compaction puts first."""

KODA_COMPACTABLE = (
    *("Read", "read", "Bash", "bash", "Grep", "grep", "Glob", "glob"),
    *("ListFiles", "list_files", "WebSearch", "web_search", "WebFetch", "web_fetch"),
)
"""Tools whose results koda takes to be re-runnable."""
