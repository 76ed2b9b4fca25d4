"""Extraction of needles: identifiers, paths, long numbers and lines by which content is recognised in later messages.

Each kind is found in one pass, in time linear in the text, even if the text is one long line.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, KeysView
from itertools import compress, count
from typing import Any

from context_tui.session.blocks import body_to_text
from context_tui.text.files import read_toml

MIN_NAME_LENGTH, MIN_NUMBER_LENGTH, MIN_HASH_LENGTH, MIN_LINE_LENGTH, MIN_STEM_LENGTH = 8, 5, 6, 24, 4
"""Minimum lengths in characters of an identifier, a number, a hash, a line and the stem of a file name."""
MAX_NAME_LENGTH, MAX_LINE_LENGTH = 80, 400
MIN_CERTAIN_LENGTH, MIN_PHRASE_WORDS = 32, 3
"""Minimum length in characters of a line that counts as named again, and words of a line found in another form."""

_TOKEN = re.compile(r"[A-Za-z0-9_]{5,}")
_ISSUE_ID = re.compile(
    r"\b(?:(?!(?:UTF|ISO|SHA|AES|RFC|GPT)-)[A-Z]{2,10}-[0-9]{2,6}|[a-z]{2,9}-[a-z]{1,4}[0-9]{1,4}[a-z][a-z0-9]{0,4})\b"
)
"""Matches the id of an issue, such as ``ENG-207`` or ``ct-s0b9``, and no name of a standard."""
_PATH = re.compile(r"[A-Za-z0-9_.@~/\\-]{6,}")
_LINE = re.compile(
    r"^(?!$)[ \t]{0,20}(?:((?:(?:[A-Za-z]:)?[\w./\\@~+-]{1,200}[:-])?[0-9]{1,7}) ?[→\t:|-])?"
    r"[ \t]*(?:[+-][ \t]*){0,2}(?:[0-9]{1,7}\.[ \t]+(?:[+-][ \t]*)?)?([^\n]*)",
    re.MULTILINE,
)
"""Matches lines, without the numbers, paths and signs that reads, searches and diffs put before them."""
_FRAME = re.compile(
    r"<(\w{1,40})>-?\d*(?:</\1>)?|</\w{1,40}>|Here's the result of running .*"
    r"|(?:Chunk ID|Wall time|Original token count|Exit code): [\w. ]{1,40}|Process exited with code \d+|Output:"
    r"|\[(?:The command completed|Command finished|Current working directory|Python interpreter)\b.*"
)
"""Matches a line that frames results, such as ``<returncode>0</returncode>``."""
_WORD, _ESCAPE = re.compile(r"\w+|[^\w\s·]"), re.compile(r"\\[ntr]?|\^I")
_CAMEL = re.compile(r"[a-z0-9][A-Z]").search
_SUFFIXES, _COMMON_FILE_STEMS, _COMMON_NAMES = (
    frozenset(words.split()) for words in read_toml("context_tui.lab.regret", "common_words.toml").values()
)
"""Suffixes, and stems and names that occur in most projects, in lower case; the file explains each list."""
_COMMON_NUMBERS = frozenset("65535 65536 86400 131072 262144 524288 1048576".split())
_REMINDER, _REMINDER_END = "<system-reminder>", "</system-reminder>"
_BOILERPLATE_LINE = re.compile(
    r"git [a-z-]+(?: +(?:-[\w=-]+|HEAD[~^\d]*|\d?>&?\d|main|master|origin|&&|\||git [a-z-]+|\d+))*$"
    r"|(?:(?:import|from|use|using|package|require|export)\b|#include|#!|//|co-authored-by|🤖|/\*|\*|@|\"\"\")",
    re.IGNORECASE,
)


def is_name(token: str) -> bool:
    """Return whether a token looks like a name in code, with words joined by ``_`` or in mixed case."""
    can_be_name = MIN_NAME_LENGTH <= len(token) <= MAX_NAME_LENGTH and not token[0].isdigit()
    return can_be_name and ("_" in token.strip("_") or _CAMEL(token) is not None)


def is_number(token: str) -> bool:
    """Return whether a token is a hash, or a long number that is not round."""
    if token.isdigit():
        is_long = MIN_NUMBER_LENGTH <= len(token) <= MAX_NAME_LENGTH
        return is_long and not token.endswith("000") and len(set(token)) > 2 and token not in _COMMON_NUMBERS
    can_be_hash = MIN_HASH_LENGTH <= len(token) <= 64 and any(map(str.isdigit, token))
    return can_be_hash and all(c in "0123456789abcdef" for c in token)


def is_distinctive_token(token: str) -> bool:
    """Return whether a token is a long name that few projects share, a number, a hash or the id of an issue."""
    is_rare_name = is_name(token) and token.lower() not in _COMMON_NAMES
    return is_rare_name or is_number(token) or _ISSUE_ID.fullmatch(token) is not None


def find_tokens(text: str) -> KeysView[str]:
    """Return the distinct tokens in a text that may be names, numbers, hashes or ids of issues."""
    return dict.fromkeys([*_TOKEN.findall(text), *_ISSUE_ID.findall(text)]).keys()


def find_paths(text: str) -> KeysView[str]:
    """Return the names of the distinct files in a text, each with its folder if it is short or many folders have it."""
    tokens = dict.fromkeys(each for each in _PATH.findall(text) if "." in each and len(each) <= MAX_LINE_LENGTH)
    return dict.fromkeys(name for token in tokens for name in _iter_file_names(token)).keys()


def _iter_file_names(token: str) -> Iterator[str]:
    """Yield the names of the files that a token may mean; a backslash separates folders or begins an escape."""
    for path in (token.replace("\\", "/"), *token.split("\\")) if "\\" in token else (token,):
        *folders, name = path.rstrip("./-").split("/")
        stem, _, suffix = name.rpartition(".")
        if stem and suffix.lower() in _SUFFIXES:
            is_common = len(stem) < MIN_STEM_LENGTH or (stem.isupper() and stem.isalpha())
            if not is_common and stem.lower() not in _COMMON_FILE_STEMS:
                yield name
            elif folders and folders[-1].strip(".~"):
                yield f"{folders[-1]}/{name}"


def find_lines(text: str, min_length: int = MIN_LINE_LENGTH) -> list[str]:
    """Return the lines in a text that are neither too short nor too long, without line numbers and diff signs."""
    return [line for _, line in find_numbered_lines(text, min_length)]


def find_numbered_lines(text: str, min_length: int) -> list[tuple[str, str]]:
    """Return the same lines, each after its prefix: a line number, or a path and a number, such as ``app.py:12``."""
    lines = ((number, rest.strip()) for number, rest in _LINE.findall(text))
    lines = (each for each in lines if min_length <= len(each[1]) <= MAX_LINE_LENGTH)
    return [each for each in lines if not (each[1][0] in "<HCWOEP[" and _FRAME.fullmatch(each[1]))]


class PhraseFinder:
    """Search for lines of at least :data:`MIN_PHRASE_WORDS` words in other forms, such as with escapes."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines: dict[tuple[str, ...], list[str]] = defaultdict(list)
        self._lengths: dict[tuple[str, ...], set[int]] = defaultdict(set)
        for line in dict.fromkeys(lines):
            words = tuple(_split_words(line))
            if len(words) >= MIN_PHRASE_WORDS:
                self._lines[words].append(line)
                self._lengths[words[:MIN_PHRASE_WORDS]].add(len(words))

    def find(self, text: str) -> set[str]:
        """Return the lines whose words a text has in the same order, one after the other."""
        words, found = _split_words(text), set[str]()
        starts = zip(*(words[at:] for at in range(MIN_PHRASE_WORDS)), strict=False)
        for start in compress(count(), map(self._lengths.__contains__, starts)):
            for length in self._lengths[tuple(words[start : start + MIN_PHRASE_WORDS])]:
                found.update(self._lines.get(tuple(words[start : start + length]), ()))
        return found


def _split_words(text: str) -> list[str]:
    return _WORD.findall(_ESCAPE.sub(" ", text))


def is_distinctive_line(line: str) -> bool:
    """Return whether a line is unlikely to be repeated by chance: it has several words and is no import or comment."""
    is_long_phrase = len(line) >= MIN_LINE_LENGTH and " " in line and not _BOILERPLATE_LINE.match(line)
    return is_long_phrase and sum(map(str.isalpha, line)) * 2 > len(line)


def extract_block_text(block: dict[str, Any]) -> str:
    """Return the text of a block or, for a tool call, the strings in its arguments, one per line."""
    match block.get("type"):
        case "tool_result":
            return _strip_reminders(_unwrap_output(body_to_text(block.get("content"))))
        case "tool_use":
            return "\n".join(collect_strings(block.get("input")))
        case "thinking":
            return str(block.get("thinking") or "")
        case "text":
            return str(block.get("text") or "")
    return ""


def _unwrap_output(text: str) -> str:
    """Return the strings in a result that is JSON with lines of text in it, or any other text unchanged."""
    if text[:1] not in ("{", "[") or "\\n" not in text:
        return text
    try:
        return "\n".join(collect_strings(json.loads(text)))
    except (ValueError, RecursionError):
        return text


def _strip_reminders(text: str) -> str:
    first, *parts = text.split(_REMINDER)
    return first + "".join(part.partition(_REMINDER_END)[2] for part in parts)


def collect_strings(value: object) -> list[str]:
    """Return the strings and numbers in a JSON value, in order, with numbers as text."""
    strings: list[str] = []
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            strings.append(item)
        elif isinstance(item, dict):
            pending += reversed(item.values())
        elif isinstance(item, list):
            pending += reversed(item)
        elif item is not None and not isinstance(item, bool):
            strings.append(str(item))
    return strings


def cut_excerpt(text: str, needle: str, length: int = 160) -> str:
    """Return the line in which *needle* first occurs, cut to about *length* characters."""
    at = max(text.find(needle), 0)
    first, last = max(at - max(length - len(needle), 0) // 2, 0), at + max(length, len(needle))
    line_start, line_end = text.rfind("\n", first, at) + 1, text.find("\n", at, last)
    return text[line_start or first : last if line_end < 0 else line_end].strip()
