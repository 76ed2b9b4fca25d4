"""Languages of code, by path, fence or content, and widths of line numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence

_LANGUAGE_ALIASES = {
    "python": "py pyi pyw python3 ipython",
    "javascript": "js mjs cjs",
    "typescript": "ts mts cts",
    "json": "json5 jsonc jsonl ndjson ipynb webmanifest",
    "html": "htm vue svelte jinja",
    "xml": "svg xsd xsl plist",
    "rust": "rs",
    "go": "golang",
    "c": "h",
    "cpp": "c++ cc cxx hpp hh",
    "csharp": "cs c#",
    "kotlin": "kt kts",
    "ruby": "rb gemfile rakefile",
    "bash": "sh zsh shell bashrc zshrc profile",
    "powershell": "ps1",
    "yaml": "yml",
    "ini": "cfg conf editorconfig properties",
    "makefile": "make mk",
    "docker": "dockerfile containerfile",
    "markdown": "md mdx",
    "diff": "patch",
    "elixir": "ex exs",
    "haskell": "hs",
    "julia": "jl",
    "protobuf": "proto",
    "graphql": "gql",
    "terraform": "tf hcl",
    **dict.fromkeys("jsx tsx css scss java swift php lua fish toml sql scala r".split(), ""),
}
_LANGUAGE_BY_ALIAS = {
    name: language for language, names in _LANGUAGE_ALIASES.items() for name in (language, *names.split())
}
_LINE_NUMBER = re.compile(r" *(\d{1,9})(?:→| {1,4}|\| ?|: )")


def find_path_language(path: str) -> str:
    """Return the language of a file by its suffix or name; empty if unknown."""
    name = path[-300:].replace("\\", "/").rpartition("/")[2].lower()
    return _LANGUAGE_BY_ALIAS.get(name.rpartition(".")[2], "")


def find_fence_language(info: str) -> str:
    """Return the language in the info string of a code fence; empty if unknown."""
    word = info.strip().partition(" ")[0].strip("{}.").lower()
    return _LANGUAGE_BY_ALIAS.get(word, "") or find_path_language(word)


def detect_language(text: str) -> str:
    """Return ``json`` or ``diff`` if a text looks like one, else an empty string."""
    head = text[:2_000].lstrip()
    if head.startswith(("diff --git ", "--- a/", "Index: ")) or ("\n+++ " in head and "\n@@ " in head):
        return "diff"
    return "json" if re.match(r'\{\s*("|\}$)|\[\s*(\{\s*"|"|\]$|-?\d+\s*,|\[\s*["\d])', head) else ""


def measure_line_numbers(lines: Sequence[str]) -> list[int]:
    """Count the characters of the number of each line; 0 for lines that are not numbered consecutively."""
    widths, last_number = [0] * len(lines), -1
    for index, line in enumerate(lines):
        match = _LINE_NUMBER.match(line)
        if match is None or (last_number >= 0 and int(match[1]) != last_number + 1):
            break
        widths[index], last_number = match.end(), int(match[1])
    # A number at the start of a single line is not a line number, unless an arrow follows it.
    is_numbered = sum(map(bool, widths)) > 1 or (len(lines) == 1 and "→" in lines[0][: widths[0]])
    return widths if is_numbered else [0] * len(lines)
