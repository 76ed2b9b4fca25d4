"""Names for the parts of a prompt that nobody typed: instruction files, skills, reminders, notices of a client."""

from __future__ import annotations

import re
from collections.abc import Iterator

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
    """Yield the sections of an injected text that are known by how they begin, each with its name; else all of it."""
    begins = [(match.start(), match) for match in _SECTION.finditer(text)]
    if not begins:
        yield name_text(text), text
        return
    for number, (start, match) in enumerate(begins):
        end = begins[number + 1][0] if number + 1 < len(begins) else len(text)
        section = text[start if number else 0 : end]
        yield _SECTIONS[(match.lastindex or 1) - 1][1] or _name_file(text[start:end]), section


def name_text(text: str) -> str:
    """Return a short name of a text: that of its only known section, its tag, or its first line."""
    text = text.strip()
    match = _SECTION.search(text[:2_000])
    if match and (not match.start() or text.startswith("<")):
        return _SECTIONS[(match.lastindex or 1) - 1][1] or _name_file(text[match.start() :])
    if tag := _TAG.match(text):
        return "reminder" if tag[1] == "system-reminder" else tag[1]
    return truncate_name(text.partition("\n")[0].lstrip("# "), MAX_NAME_CHARACTERS)


def _name_file(text: str) -> str:
    """Return the path of the instruction file that a text quotes."""
    line = text.partition("\n")[0]
    match = re.search(r"\S+\.md\b", line)
    return truncate_name(match[0] if match else line, MAX_NAME_CHARACTERS)


def is_tagged(text: str) -> bool:
    """Return whether a text is markup of a client: it begins with a tag that it also closes."""
    match = _TAG.match(text.lstrip())
    return match is not None and f"</{match[1]}>" in text
