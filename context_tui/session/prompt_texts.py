"""Names of injected parts of a prompt: instruction files, skills, reminders, notices of a client."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest

from context_tui.text.sanitize import truncate_name

MAX_NAME_CHARACTERS = 48
_SECTIONS = (
    (r"^#+ *(?:MCP Server Instructions|MCP servers?)\b", "MCP instructions"),
    (r"^The following deferred tools\b|^<available-deferred-tools>", "deferred tools"),
    (r"^Available agent types\b", "agent types"),
    (r"^The following skills\b|^#+ *Skills\b|^<(?:available_)?skills[\w-]*>", "skills"),
    (r"^#+ *gitStatus\b|^gitStatus:", "git status"),
    (r"^#+ *Environment\b|^<environment_context>|^<env>|^<session_context>", "environment"),
    (r"^#+ *(?:currentDate|userEmail)\b|^Today's date is\b", "date"),
    (r"^Contents of \S+\.md\b|^#+ *\w+\.md instructions\b|^Instructions from: ", ""),  # named by the file
)
_SECTION = re.compile("|".join(f"({pattern})" for pattern, _ in _SECTIONS), re.MULTILINE)
_TAG = re.compile(r"<([a-z][\w-]*)[ >]", re.IGNORECASE)


def split_text(text: str) -> Iterator[tuple[str, str]]:
    """Yield name and text of the known sections of an injected text; if there are none, of the complete text."""
    matches = list(_SECTION.finditer(text))
    if not matches:
        yield name_text(text), text
    for number, (match, next_match) in enumerate(zip_longest(matches, matches[1:])):
        start, end = match.start(), next_match.start() if next_match else len(text)
        section = text[start if number else 0 : end]
        yield _SECTIONS[(match.lastindex or 1) - 1][1] or _name_file(text[start:end]), section


def name_text(text: str) -> str:
    """Return a short name of a text: its known section, its tag, or its first line."""
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


def is_tagged(text: str) -> bool:
    """Return whether a text begins with a tag that it also closes, as markup of clients does."""
    match = _TAG.match(text.lstrip())
    return match is not None and f"</{match[1]}>" in text
