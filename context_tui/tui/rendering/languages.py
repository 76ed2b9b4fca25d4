"""Languages of code, by path, fence or content, and widths of line numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence

_LANGUAGE_ALIASES = {
    "python": "py pyi pyw python3 ipython",
    "javascript": "js mjs cjs",
    "jsx": "",
    "typescript": "ts mts cts",
    "tsx": "",
    "json": "json5 jsonc jsonl ndjson ipynb webmanifest",
    "html": "htm vue svelte jinja",
    "xml": "svg xsd xsl plist",
    "css": "",
    "scss": "",
    "rust": "rs",
    "go": "golang",
    "c": "h",
    "cpp": "c++ cc cxx hpp hh",
    "csharp": "cs c#",
    "java": "",
    "kotlin": "kt kts",
    "swift": "",
    "ruby": "rb gemfile rakefile",
    "php": "",
    "lua": "",
    "bash": "sh zsh shell bashrc zshrc profile",
    "fish": "",
    "powershell": "ps1",
    "yaml": "yml",
    "toml": "",
    "ini": "cfg conf editorconfig properties",
    "sql": "",
    "makefile": "make mk",
    "docker": "dockerfile containerfile",
    "markdown": "md mdx",
    "diff": "patch",
    "elixir": "ex exs",
    "haskell": "hs",
    "scala": "",
    "r": "",
    "julia": "jl",
    "protobuf": "proto",
    "graphql": "gql",
    "terraform": "tf hcl",
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
    """Return the language named after a code fence; empty if unknown."""
    word = info.strip().partition(" ")[0].strip("{}.").lower()
    return _LANGUAGE_BY_ALIAS.get(word, "") or find_path_language(word)


def detect_language(text: str) -> str:
    """Return ``json`` or ``diff`` if a text is almost certainly that, else an empty string."""
    head = text[:2_000].lstrip()
    if head.startswith(("diff --git ", "--- a/", "Index: ")) or ("\n+++ " in head and "\n@@ " in head):
        return "diff"
    return "json" if re.match(r'\{\s*("|\}$)|\[\s*(\{\s*"|"|\]$|-?\d+\s*,|\[\s*["\d])', head) else ""


def measure_line_numbers(lines: Sequence[str]) -> list[int]:
    """Count the characters of each line that are its number, if lines are numbered consecutively; else 0."""
    widths, last = [0] * len(lines), -1
    for index, line in enumerate(lines):
        number = _LINE_NUMBER.match(line)
        if number is None or (last >= 0 and int(number[1]) != last + 1):
            break
        widths[index], last = number.end(), int(number[1])
    # A single line that begins with a number is not numbered.
    is_numbered = sum(map(bool, widths)) > 1 or (len(lines) == 1 and "→" in lines[0][: widths[0]])
    return widths if is_numbered else [0] * len(lines)
