"""Facts that rules extract from a history, to check whether a summary preserves them.

There are five kinds; :mod:`context_tui.summarizer.checks.survival` describes how each kind is matched:

- ``constraint``: an instruction typed by the user, as found by :mod:`context_tui.summarizer.checks.instructions`.
- ``path``: a file or absolute folder that occurs in prose, in the arguments of a call, or in the results of two
  messages. ``src/a.py`` and ``/home/x/src/a.py`` are one path if there is only one such file.
- ``identifier``: a name with an underscore or a capital inside it, in the arguments of a call or in two messages.
- ``error``: the sentence of a failed result that gives the reason, or the last exception line of any other result. Line
  numbers are not part of it.
- ``number``: a number in prose, above 1 with a unit, of at least four digits, or with a decimal point; also a
  hexadecimal name, such as a commit's.

The :data:`MAX_FACTS_PER_KIND` best facts of each kind count. The score of a fact is the sum over its sources (user 8,
assistant or earlier summary 4, call that changes a file 2, other call or failure 1, result 0). Ties are broken by the
number of messages, then by the first occurrence.
Suspected secrets are never facts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any, NamedTuple

from context_tui.session.markers import PLACEHOLDERS
from context_tui.summarizer.checks.instructions import find_instructions
from context_tui.summarizer.checks.summary_checks import PATH_PATTERN, URL_PATTERN
from context_tui.summarizer.secrets import find_secrets, mask_text
from context_tui.summarizer.tool_calls import extract_result_text, parse_call
from context_tui.text.files import read_toml

_TABLES = read_toml("context_tui.summarizer.checks", "facts.toml")

MAX_FACTS_PER_KIND = 30

MAX_BLOCK_CHARS = 100_000
"""Characters of one block that are searched, half at its start and half at its end."""

MAX_QUOTE_CHARS = 160


class FactKind(StrEnum):
    """The kinds of facts, in the order in which reports list them."""

    CONSTRAINT = "constraint"
    PATH = "path"
    ERROR = "error"
    IDENTIFIER = "identifier"
    NUMBER = "number"


class FactSource(StrEnum):
    """Part of a history from which a text comes, such as a user message or a tool call."""

    USER = "user"
    ASSISTANT = "assistant"
    SUMMARY = "summary"
    CHANGE = "change"
    CALL = "call"
    FAILED = "failed"
    RESULT = "result"


_SOURCE_WEIGHTS = {
    FactSource.USER: 8,
    FactSource.ASSISTANT: 4,
    FactSource.SUMMARY: 4,
    FactSource.CHANGE: 2,
    FactSource.CALL: 1,
    FactSource.FAILED: 1,
}
_PROSE_SOURCES = frozenset({FactSource.USER, FactSource.ASSISTANT, FactSource.SUMMARY})
_CALL_SOURCES = frozenset({FactSource.CHANGE, FactSource.CALL})


class TextPiece(NamedTuple):
    """A text in a history: its message, the number of its block in that message, its source, and the text."""

    message: int
    block: int
    source: FactSource
    text: str


class Fact(NamedTuple):
    """A fact in a history, which a summary may preserve or lose.

    Attributes:
        message: number of the first message that has the fact, among those of the best source.
        block: ordinal of the block in that message.
        source: the highest-scoring source in which the fact occurs.
        quote: the line that has the fact in that block, truncated.
        parts: the parts to match: components of a path, the name of an identifier, digits and unit of a number, or
            the words of an error or a constraint.
        required_parts: number of parts that must match: the last ones of a path, or any words of one sentence.
        negated: whether a constraint forbids something, which the matching sentence must then do as well.
    """

    kind: FactKind
    text: str
    message: int
    block: int
    source: FactSource
    messages: int
    quote: str
    parts: tuple[str, ...]
    required_parts: int = 1
    negated: bool = False


def extract_text_pieces(blocks: Iterable[tuple[int, int, str, dict[str, Any], bool]]) -> Iterator[TextPiece]:
    """Yield the texts in the blocks of a history, in order; thinking and images are left out.

    The *blocks*, without those injected by the runtime, have a message number, an ordinal, a role, the Anthropic-shaped
    block, and whether the message is the summary of an earlier compaction.
    """
    for message, ordinal, role, block, summary in blocks:
        match block:
            case {"type": "text", "text": str(text)}:
                speaker = FactSource.ASSISTANT if role == "assistant" else FactSource.USER
                source = FactSource.SUMMARY if summary else speaker
                text = _strip_injected(text)
            case {"type": "tool_use"}:
                source = FactSource.CHANGE if parse_call(block).changed else FactSource.CALL
                text = "\n".join(_find_strings(block.get("input")))
            case {"type": "tool_result"}:
                source = FactSource.FAILED if block.get("is_error") else FactSource.RESULT
                text = extract_result_text(block.get("content"))
            case _:
                continue
        if len(text) > MAX_BLOCK_CHARS:
            text = f"{text[: MAX_BLOCK_CHARS // 2]}\n{text[-MAX_BLOCK_CHARS // 2 :]}"
        yield TextPiece(message, ordinal, source, text)


def extract_facts(pieces: Iterable[TextPiece], tools: frozenset[str] = frozenset()) -> list[Fact]:
    """Extract the facts from a history, sorted by kind and then by score; names of *tools* are not identifiers."""
    occurrences: dict[FactKind, dict[Any, _Occurrences]] = {kind: {} for kind in FactKind}
    for piece in pieces:
        for kind, finder in _FINDERS.items():
            for key, text, at in finder(piece):
                occurrence = _Occurrences(text, piece, at, {piece.source}, {piece.message})
                occurrences[kind].setdefault(key, occurrence).merge(occurrence)
    paths, names = _merge_paths(occurrences[FactKind.PATH]), occurrences[FactKind.IDENTIFIER]
    anywhere = _PROSE_SOURCES | _CALL_SOURCES
    occurrences[FactKind.PATH] = {key: each for key, each in paths.items() if each.is_common(anywhere)}
    named = {key: each for key, each in names.items() if key not in tools and each.is_common(_CALL_SOURCES)}
    occurrences[FactKind.IDENTIFIER] = named
    needs = _compute_required_parts(occurrences[FactKind.PATH])
    return [
        _build_fact(kind, key, each, needs.get(key, 1))
        for kind in FactKind
        for key, each in islice(_rank_facts(occurrences[kind]), MAX_FACTS_PER_KIND)
    ]


@dataclass
class _Occurrences:
    """Occurrences of a fact.

    ``first`` is the first piece of text of the best source that holds the fact, at offset ``at``; ``sources`` and
    ``messages`` are those of all occurrences.
    """

    text: str
    first: TextPiece
    at: int
    sources: set[FactSource]
    messages: set[int]

    def is_common(self, sources: frozenset[FactSource]) -> bool:
        """Return whether the fact occurs in one of *sources*, or in more than one message."""
        return bool(self.sources & sources) or len(self.messages) > 1

    @property
    def sort_key(self) -> tuple[int, int, int]:
        return -_SOURCE_WEIGHTS.get(self.first.source, 0), self.first.message, self.first.block

    def merge(self, other: _Occurrences) -> None:
        if other.sort_key < self.sort_key:
            self.first, self.at = other.first, other.at
        self.sources |= other.sources
        self.messages |= other.messages


def _rank_facts(occurrences: dict[Any, _Occurrences]) -> Iterator[tuple[Any, _Occurrences]]:

    def rank(item: tuple[Any, _Occurrences]) -> tuple[int, int, int, int]:
        each = item[1]
        score = sum(_SOURCE_WEIGHTS.get(source, 0) for source in each.sources)
        return -score, -len(each.messages), each.first.message, each.first.block

    return (item for item in sorted(occurrences.items(), key=rank) if not find_secrets(item[1].text))


def _build_fact(kind: FactKind, key: Any, each: _Occurrences, required_parts: int) -> Fact:
    parts: tuple[str, ...] = key if isinstance(key, tuple) else (key,)
    if kind in (FactKind.CONSTRAINT, FactKind.ERROR):
        required_parts = max(min(2, len(parts)), -(-len(parts) * MIN_WORD_PERCENT // 100))
    negated = kind is FactKind.CONSTRAINT and _NEGATION.search(each.text) is not None
    first = each.first
    quote = mask_text(quote_line(first.text, each.at))[0]
    place = first.message, first.block, first.source
    return Fact(kind, each.text, *place, len(each.messages), quote, parts, required_parts, negated)


def quote_line(text: str, offset: int) -> str:
    """Return the line around *offset* with white space collapsed, truncated to ``MAX_QUOTE_CHARS`` characters."""
    lowest = max(offset - MAX_QUOTE_CHARS // 2, 0)
    start = max(text.rfind("\n", lowest, offset) + 1, lowest)
    return " ".join(text[start : start + MAX_QUOTE_CHARS].partition("\n")[0].split())


# Constraints

MIN_WORD_PERCENT = 60
"""Percentage of the words of an error or a constraint that one sentence must contain."""

_INJECTED = re.compile(r"<(system-reminder|local-command-\w+|command-\w+|task-notification)>")
_LIST_ITEM = re.compile(r"\s*(?:[-*•+]|\d{1,3}[.)]|#{1,6})\s+")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+")
_NEGATION = re.compile(r"\b(?:never|not|no|cannot|avoid|without|forbidden|\w+n['’]t)\b", re.IGNORECASE)


def _find_constraints(piece: TextPiece) -> Iterator[_FactMatch]:
    if piece.source is FactSource.USER:
        for instruction in find_instructions(piece.text):
            if len(key := extract_keywords(instruction.text)) > 1:
                yield key, instruction.text, instruction.start


def build_constraint(text: str, message: int, block: int) -> Fact:
    """Build a fact from a user's instruction in a block, to match the instruction against a summary."""
    piece = TextPiece(message, block, FactSource.USER, text)
    occurrences = _Occurrences(text, piece, 0, {piece.source}, {message})
    return _build_fact(FactKind.CONSTRAINT, extract_keywords(text), occurrences, 1)


def _strip_injected(text: str) -> str:
    parts, kept_start, open_ended = list[str](), 0, set[str]()
    for match in _INJECTED.finditer(text):
        if match.start() < kept_start or match[1] in open_ended:
            continue
        closing_tag = text.find(f"</{match[1]}>", match.end())
        if closing_tag < 0:
            open_ended.add(match[1])
            continue
        parts.append(text[kept_start : match.start()])
        kept_start = closing_tag + len(match[1]) + 3
    return " ".join([*parts, text[kept_start:]]) if parts else text


def split_sentences(text: str) -> Iterator[str]:
    """Split a text into sentences, joining wrapped lines and keeping headings and list items apart."""
    open_lines: list[str] = []
    heading = False
    for line in [*text.splitlines(), ""]:
        item = _LIST_ITEM.match(line)
        if (item or heading or not line.strip()) and open_lines:
            yield from (part for part in _SENTENCE_END.split(" ".join(open_lines)) if part)
            open_lines = []
        if text_part := line[item.end() if item else 0 :].strip():
            open_lines.append(text_part)
        heading = item is not None and "#" in item[0]
    yield from (part for part in _SENTENCE_END.split(" ".join(open_lines)) if part)


_WORD = re.compile(r"[^\W\d_][\w'’-]*|\d[\d.,]*\d|\d|_\w+")
_STOP_WORDS = frozenset[str](_TABLES["stop_words"])
_ENDINGS = ("ing", "ed", "es", "s", "e")


def extract_keywords(text: str) -> tuple[str, ...]:
    """Return the distinct stems of a sentence's words with three letters or more, and its numbers."""
    keywords: dict[str, None] = {}
    for word in _WORD.findall(text.lower().replace("’", "'")):
        if word[0].isdigit() or (len(word) > 2 and word not in _STOP_WORDS):
            keywords[_stem_word(word)] = None
    return tuple(keywords)


def _stem_word(word: str) -> str:
    """Strip the ending of a word, so that ``changes`` and ``changing`` match ``change``; keep at least four letters."""
    return next((word[: -len(end)] for end in _ENDINGS if word.endswith(end) and len(word) - len(end) >= 4), word)


def is_negated(sentence: str) -> bool:
    """Return whether a sentence forbids or excludes something, as in "never" or "do not"."""
    return _NEGATION.search(sentence) is not None or _EXCLUDED.search(sentence) is not None


_EXCLUDED = re.compile(
    r"\b(?:only|except|none|neither|nor|unchanged|untouched|as is|read-only|prohibit\w*|ban\w*)\b", re.I
)


# Errors

_EXCEPTION = re.compile(r"^(?:E[ \t]+)?((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): \S.*)$", re.MULTILINE)
_ERROR_WORDS = re.compile(
    r"\b(?:error|exception|failed|failure|fatal|cannot|can't|could not|not found|no such|denied|refused|invalid"
    r"|unexpected|undefined|missing|timed out|timeout|panic\w*)\b",
    re.IGNORECASE,
)
_TAG = re.compile(r"</?[a-z_]{1,30}>")
_EXIT = re.compile(r"(?:exit code|exited with|process exited).{0,40}", re.IGNORECASE)
_LINE_NUMBER = re.compile(r":\d+(?::\d+)?")  # line and column
_REFUSALS = ("The user doesn't want to", "[Request interrupted")
_MAX_ERROR_CHARS = 300


def _find_errors(piece: TextPiece) -> Iterator[_FactMatch]:
    if piece.source not in (FactSource.FAILED, FactSource.RESULT):
        return
    line = ""
    for match in _EXCEPTION.finditer(piece.text):
        line = match[1]
    if piece.source is FactSource.FAILED and not line:
        line = _find_error_line(_TAG.sub("", piece.text))
    sentences = list(split_sentences(" ".join(line[:_MAX_ERROR_CHARS].split())))
    line = next(filter(_ERROR_WORDS.search, sentences), sentences[0] if sentences else "")
    keywords = extract_keywords(line)  # excludes the parts of a number that blanking split
    blanked_line = _LINE_NUMBER.sub(" ", blank_matches(line, PATH_PATTERN))
    key = tuple(word for word in extract_keywords(blanked_line) if word in keywords)
    if len(key) > 1 and not line.startswith(_REFUSALS) and line not in PLACEHOLDERS:
        yield key, line, max(piece.text.find(line[:20]), 0)


def _find_error_line(text: str) -> str:
    """Return the first line that names an error, or else the first line of a text of up to three lines, or ""."""
    lines = [line for line in text.splitlines() if line.strip() and not _EXIT.fullmatch(line.strip())]
    return next((line for line in lines if _ERROR_WORDS.search(line)), lines[0] if 0 < len(lines) < 4 else "")


# Paths

_TRUNCATED_ENDINGS = ("*", "…", "$", "}")  # a match after one of these is only part of a path
_SYSTEM_FOLDERS = ("/dev/", "/proc/", "/usr/bin/", "/bin/")


def _find_paths(piece: TextPiece) -> Iterator[_FactMatch]:
    for match in PATH_PATTERN.finditer(blank_matches(piece.text, URL_PATTERN)):
        path, previous_char = match[0].rstrip("."), piece.text[max(match.start() - 1, 0) : match.start()]
        if previous_char not in _TRUNCATED_ENDINGS and not path.startswith(_SYSTEM_FOLDERS) and split_path(path):
            yield split_path(path), path, match.start()


def blank_matches(text: str, *patterns: re.Pattern[str]) -> str:
    """Replace the matches of *patterns* with blanks of the same length, so that offsets in the text stay valid."""
    for pattern in patterns:
        text = pattern.sub(lambda match: " " * len(match[0]), text)
    return text


def split_path(path: str) -> tuple[str, ...]:
    """Split a path into its folders and its name, leaving out the root."""
    return tuple(part for part in path.split("/") if part not in ("", ".", "...", "~"))


def is_folder(parts: tuple[str, ...]) -> bool:
    """Return whether a path looks like a folder because its last part has no suffix."""
    return "." not in parts[-1][1:]


def _merge_paths(paths: dict[Any, _Occurrences]) -> dict[Any, _Occurrences]:
    by_name: dict[str, list[tuple[str, ...]]] = {}
    for parts in paths:
        by_name.setdefault(parts[-1], []).append(parts)
    merged: dict[Any, _Occurrences] = {}
    for candidates in by_name.values():
        ending: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
        for parts in sorted(candidates, key=len, reverse=True):
            longer = ending.get(parts, [])
            if len(longer) == 1:
                merged[longer[0]].merge(paths[parts])
                continue
            merged[parts] = paths[parts]
            for length in range(1, len(parts)):
                ends = ending.setdefault(parts[-length:], [])
                if len(ends) < 2:
                    ends.append(parts)
    return merged


def _compute_required_parts(paths: dict[Any, _Occurrences]) -> dict[Any, int]:
    """Map each path to the number of final parts that identify it: for a folder at least two, as names can be words."""
    ends: dict[tuple[str, ...], int] = {}
    for parts in paths:
        for length in range(1, len(parts) + 1):
            ends[parts[-length:]] = ends.get(parts[-length:], 0) + 1

    def count_parts(parts: tuple[str, ...]) -> int:
        lengths = range(1 + is_folder(parts), len(parts))
        return next((length for length in lengths if ends[parts[-length:]] == 1), len(parts))

    return {parts: count_parts(parts) for parts in paths}


# Identifiers

_IDENTIFIER = re.compile(
    r"(?<![\w/.@-])(?=[A-Za-z_]\w{3,59}(?!\w))"
    r"(?:\w*[A-Za-z0-9]_[A-Za-z0-9]\w*|\w*[a-z][A-Z]\w*)(?![\w/-])"
)
_GENERATED_ID = re.compile(r"__\w+__|(?:toolu|call|msg|req|chatcmpl|fc|rs)_\w+|\w*\d\w*\d\w*\d\w*\d\w*")
_BRANDS = frozenset[str](_TABLES["brands"])


def _find_identifiers(piece: TextPiece) -> Iterator[_FactMatch]:
    offsets: dict[str, int] = {}
    for match in _IDENTIFIER.finditer(blank_matches(piece.text, URL_PATTERN, PATH_PATTERN)):
        offsets.setdefault(match[0], match.start())
    for name, at in offsets.items():
        if name not in _BRANDS and not _GENERATED_ID.fullmatch(name):
            yield name, name, at


# Numbers

_UNIT_OF = {name: unit for unit, names in _TABLES["units"].items() for name in names}
_NUMBER = re.compile(
    r"(?<![\w.$/:#-])(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+){0,3})"
    rf"(?:[ -]?({'|'.join(sorted(map(re.escape, _UNIT_OF), key=len, reverse=True))})(?!\w))?(?![\w/]|[.:,]\d)"
)
_HASH = re.compile(r"(?<![\w/.-])(?=[0-9a-f]{0,40}\d)(?=[0-9a-f]{0,40}[a-f])[0-9a-f]{7,40}(?![\w-])")
_YEAR = re.compile(r"(?:19|20)\d\d")
HASH = "hash"
"""Unit that stands for a hexadecimal name."""


class NumberMention(NamedTuple):
    """A number in a text: its digits without separators, its unit or an empty string, its text, and its offset."""

    digits: str
    unit: str
    text: str
    at: int


def find_numbers(text: str) -> Iterator[NumberMention]:
    """Yield the numbers in a text, with their units."""
    for match in _NUMBER.finditer(text):
        yield NumberMention(match[1].replace(",", ""), _UNIT_OF.get(match[2] or "", ""), match[0], match.start())
    for match in _HASH.finditer(text):
        yield NumberMention(match[0][:7], HASH, match[0], match.start())


def is_exact(digits: str) -> bool:
    """Return whether a number is distinctive without a unit: it has four digits or more, or a decimal point."""
    return "." in digits or len(digits) > 3


def _find_number_facts(piece: TextPiece) -> Iterator[_FactMatch]:
    if piece.source not in _PROSE_SOURCES:
        return
    for digits, unit, text, at in find_numbers(blank_matches(piece.text, URL_PATTERN)):
        if (unit and digits not in ("0", "1")) or (is_exact(digits) and not _YEAR.fullmatch(digits)):
            yield (digits, unit), text, at


_FactMatch = tuple[Any, str, int]
"""Key of a fact, its text, and its offset in the piece."""

_FINDERS: dict[FactKind, Callable[[TextPiece], Iterator[_FactMatch]]] = {
    FactKind.CONSTRAINT: _find_constraints,
    FactKind.PATH: _find_paths,
    FactKind.ERROR: _find_errors,
    FactKind.IDENTIFIER: _find_identifiers,
    FactKind.NUMBER: _find_number_facts,
}


def _find_strings(value: Any) -> Iterator[str]:
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            pending += reversed(each.values())
        elif isinstance(each, list):
            pending += reversed(each)
