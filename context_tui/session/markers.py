"""Recognise texts that runtimes and clients write into a history: placeholders, summaries, and injected parts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest

from context_tui.text.sanitize import truncate_name

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

SKILL_START = "Base directory for this skill:"
"""Start of the text of a skill that Claude Code loads."""

PLACEHOLDERS = frozenset({DEFECT_PLACEHOLDER, RESULT_STUB})
"""Bodies of cleared results."""


def is_summary_start(text: str, *, by_assistant: bool, first_block: bool, first_message: bool) -> bool:
    """Return whether a text begins like the summary of an earlier compaction.

    Claude Code's marker, an ordinary sentence, is accepted only in the first message.
    """
    if text.startswith(DEFECT_SUMMARY):
        return by_assistant
    starts = (SDK_SUMMARY, KODA_SUMMARY, *((CLAUDE_CODE_SUMMARY,) if first_message else ()))
    return first_block and text.startswith(starts)


def strip_summary_marker(text: str) -> str:
    """Return a summary without the runtime's marker. Claude Code's marker is kept as part of the first sentence."""
    marker = next((marker for marker in (DEFECT_SUMMARY, SDK_SUMMARY, KODA_SUMMARY) if text.startswith(marker)), "")
    return text.removeprefix(marker).removesuffix(SDK_SUMMARY_END if marker == SDK_SUMMARY else "").strip()


MAX_NAME_CHARACTERS = 48
_FILE_START = r"^Contents of \S+\.md\b|^#+ *\w+\.md instructions\b|^Instructions from: "
_SECTIONS = (
    (r"^#+ *(?:MCP Server Instructions|MCP servers?)\b", "MCP instructions"),
    (r"^The following deferred tools\b|^<available-deferred-tools>", "deferred tools"),
    (r"^Available agent types\b", "agent types"),
    (r"^The following skills\b|^#+ *Skills\b|^<(?:available_)?skills[\w-]*>", "skills"),
    (r"^#+ *gitStatus\b|^gitStatus:", "git status"),
    (r"^#+ *Environment\b|^<environment_context>|^<env>|^<session_context>", "environment"),
    (r"^#+ *(?:currentDate|userEmail)\b|^Today's date is\b", "date"),
    (_FILE_START, ""),  # named by the file
)
_COMMAND_TAGS = re.compile(r"<command-message>[^<]*</command-message>|</?command-(?:name|args)>")
_RULE_FILE = re.compile(
    rf"{_FILE_START}|^{SKILL_START} |^--- Context from: |^<(?:INSTRUCTIONS|user_instructions)>", re.MULTILINE
)
_SECTION = re.compile("|".join(f"({pattern})" for pattern, _ in _SECTIONS), re.MULTILINE)
_TAG = re.compile(r"<([a-z][\w-]*)[ >]", re.IGNORECASE)


def split_text(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each known section in an injected text, or of the whole text if it has none."""
    matches = list(_SECTION.finditer(text))
    if not matches:
        yield name_text(text), text
    for number, (match, next_match) in enumerate(zip_longest(matches, matches[1:])):
        start, end = match.start(), next_match.start() if next_match else len(text)
        section = text[start if number else 0 : end]
        yield _SECTIONS[(match.lastindex or 1) - 1][1] or _name_file(text[start:end]), section


def name_text(text: str) -> str:
    """Return a short name for an injected text: its known section, its tag, or its first line."""
    text = text.strip()
    match = _SECTION.search(text[:2_000])
    if match and (not match.start() or text.startswith("<")):
        return _SECTIONS[(match.lastindex or 1) - 1][1] or _name_file(text[match.start() :])
    if tag := _TAG.match(text):
        return "reminder" if tag[1] == "system-reminder" else tag[1]
    return truncate_name(text.partition("\n")[0].lstrip("# "), MAX_NAME_CHARACTERS)


def _name_file(text: str) -> str:
    line = text.partition("\n")[0]
    match = re.search(r"\S+\.md\b", line)
    return truncate_name(match[0] if match else line, MAX_NAME_CHARACTERS)


def is_rule_file(text: str) -> bool:
    """Return whether an injected text is a file of rules for an agent: CLAUDE.md, AGENTS.md, a skill or the like."""
    return _RULE_FILE.search(text[:400]) is not None


def strip_command_tags(text: str) -> str:
    """Remove Claude Code's markup around a slash command, and keep its name and arguments."""
    return _COMMAND_TAGS.sub(" ", text)


def is_tagged(text: str) -> bool:
    """Return whether a text begins with a tag and also closes it, as markup added by clients does."""
    match = _TAG.match(text.lstrip())
    return match is not None and f"</{match[1]}>" in text
