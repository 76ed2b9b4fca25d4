"""Languages of code, by path, fence or content, and widths of line numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from context_tui.text.files import read_toml

_LANGUAGE_BY_ALIAS: dict[str, str] = {
    name: language
    for language, names in read_toml("context_tui.tui.rendering", "languages.toml").items()
    for name in (language, *names.split())
}
_LINE_NUMBER = re.compile(r" *(\d{1,9})(?:→| {1,4}|\| ?|: )")


def find_path_language(path: str) -> str:
    """Return the language of the code in a file, judged by its suffix or name, or "" if unknown."""
    name = path[-300:].replace("\\", "/").rpartition("/")[2].lower()
    return _LANGUAGE_BY_ALIAS.get(name.rpartition(".")[2], "")


def find_fence_language(info: str) -> str:
    """Return the language that a code fence's info string names, or "" if unknown."""
    word = info.strip().partition(" ")[0].strip("{}.").lower()
    return _LANGUAGE_BY_ALIAS.get(word, "") or find_path_language(word)


def detect_language(text: str) -> str:
    """Return ``json`` or ``diff`` if *text* looks like it, or else ""."""
    head = text[:2_000].lstrip()
    if head.startswith(("diff --git ", "--- a/", "Index: ")) or ("\n+++ " in head and "\n@@ " in head):
        return "diff"
    return "json" if re.match(r'\{\s*("|\}$)|\[\s*(\{\s*"|"|\]$|-?\d+\s*,|\[\s*["\d])', head) else ""


def measure_line_numbers(lines: Sequence[str]) -> list[int]:
    """Return the width in characters of each line's number, or 0 for lines that are not numbered consecutively."""
    widths, last_number = [0] * len(lines), -1
    for index, line in enumerate(lines):
        match = _LINE_NUMBER.match(line)
        if match is None or (last_number >= 0 and int(match[1]) != last_number + 1):
            break
        widths[index], last_number = match.end(), int(match[1])
    # A number at the start of a single line is not a line number, unless an arrow follows it.
    is_numbered = sum(map(bool, widths)) > 1 or (len(lines) == 1 and "→" in lines[0][: widths[0]])
    return widths if is_numbered else [0] * len(lines)
