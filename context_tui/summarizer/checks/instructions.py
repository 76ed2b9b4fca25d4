"""Instructions in a text: lasting rules, as opposed to tasks that are done once.

Rules of English find them, without a model. A typed sentence is an instruction if it has the words of a rule (must,
never, always, do not, only, make sure, avoid, prefer…), begins with a verb that sets a rule (use, keep, follow…), or is
an imperative after a condition ("if it fails, …"). In a file of rules, such as CLAUDE.md, AGENTS.md or a skill, every
imperative counts, too, and every item below a heading such as "Code style" that is no statement. Questions, code,
quotations, headings and reports ("it never returns") do not count. None are found in other languages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from itertools import islice
from typing import NamedTuple

from context_tui.session.markers import SKILL_START
from context_tui.text.files import read_toml


class InstructionKind(StrEnum):
    """The kind of an instruction: to do something, not to do it, or to prefer it."""

    REQUIREMENT = "requirement"
    PROHIBITION = "prohibition"
    PREFERENCE = "preference"


class Instruction(NamedTuple):
    """An instruction in a text: its start and end as offsets in characters, its kind, and its words."""

    start: int
    end: int
    kind: InstructionKind
    text: str


MIN_RULES = 4
"""A typed text with at least this many words of rules, such as "must", counts as a prompt, and its lists as rules."""

_MAX_WORDS, _MAX_CHARS = 70, 1_000  # a longer sentence or row of a table is pasted text, not a rule
_MIN_WIDTH = 60  # a line ends a sentence if the next word would have fit within this number of characters

_START = r"(?:^|[,;:.!?—–(*>-]\s*|\b(?:please|and|but|or|then|also|so|just|must|should|shall|may|can|to be)\s+)"
_BAN = (
    rf"{_START}(?:never|do not|don['’]?t|avoid|no longer)\b|^(?:stop|quit|refrain from) \w+ing\b|\b(?:mustn['’]?t"
    r"|(?:must|should|shall) not|shouldn['’]t|(?:(?:I|we) (?:don['’]?t|do not)) want|let['’]?s not|without asking"
    r"|under no circumstances|(?:is|are|it['’]s) (?:not allowed|forbidden|prohibited|discouraged)"
    r"|you (?:cannot|can['’]t|may not))\b"
)
_RULE = re.compile(
    rf"{_BAN}|\b(?:must|shall|may only|you (?:can only|should)|from now on|(?:is|are) (?:required|mandatory)"
    r"|it(?:['’]s| is) (?:important|essential|crucial|critical|mandatory|required) (?:that|to)"
    r"|you(?:['’]re| are) (?:expected|required|supposed) to|should (?:stay|remain|never|always)|exactly the following"
    r"|ask (?:me )?(?:first|before|if|when|whenever)|we (?:strongly )?recommend|your (?:\w+ ){1,3}should"
    r"|(?:each|every) (?:response|answer|message|command|commit|change) should"
    r"|the (?:\w+ )?(?:response|answer|output|reply|report|summary) (?:should|needs to|has to))\b"
    rf"|{_START}(?:always|make sure|be sure|ensure|stick to|you (?:have|need) to|only (?:use|change|touch|edit|modify"
    r"|run|add|commit|fix|write|read|do|keep|include|when|if|after|enter|match|mark))\b"
    r"|(?:[,;.!]|\b(?:but|and|please))\s+(?:use|keep|stick)\s|^(?:at most|at least|no more than|Your task is)\b",
    re.IGNORECASE,
)
_FILE_RULE = re.compile(
    r"\b(?:always|never|(?<!that )should|(?:has|have) to|only (?:at|for|when|if|in|on))\b|^❌"
    r"|^\W*(?:important|critical|rule)\b[^.:]{0,20}:"
    r"|^(?!\W*(?:the|this|it|I|you|we|an?|our|if|when)\b)[^.;:]{1,60} (?:requires?|needs?)\b",
    re.IGNORECASE,
)
_SHORT_BAN = re.compile(
    r"(?:^(?:and |but |so )?no (?!longer|need|problem|worries|idea|such|one|more\b)[\w`][^.,;:]{2,60}"
    r"|^(?!(?:no|there|I|it|we|the|this)\b).*[,;] (?:and |so )?no (?!problem|worries)[\w-]+(?: [\w-]+){0,4})[.!]?$",
    re.IGNORECASE,
)
_STATEMENT = re.compile(r"\b(?:is|are|was|were|exists?|found|has|have|had)\b", re.IGNORECASE)
_PREFERENCE = re.compile(
    r"(?:I (?:would )?|I['’]d )?\b(?:prefer(?:red|ably)?|rather than|ideally|(?:if|when) possible|favou?r"
    r"|we (?:strongly )?recommend)\b",
    re.IGNORECASE,
)
_NEGATION = re.compile(
    rf"^❌|{_BAN}|\b(?:(?:don['’]?t|do not) want|may not|cannot|can['’]t|forbidden|prohibited)\b", re.IGNORECASE
)
_REPORT = re.compile(
    r"^\W*(?:problem|example|why|wrong|bad|note)\b[^.]{0,20}:|^[^\w\"“]*[\"“]|^\s*\[|^(?:is|are) |^ARGUMENTS:|^let me\b"
    r"|\b\w*(?:error|exception|warning):|\b(?:says|said|note that|(?:it|there|I) must|(?:you )?should know)\b"
    r"|(?<=\w )(?:never|always|only) \w+[^\Ws]s\b"
    r"|\b(?:it|this|that|there|which|who|he|she|they|we|I)\s+(?:also\s+|just\s+|still\s+)?"
    r"(?:only|never|always|do not|don['’]?t|cannot|can['’]t|must have|should have)\b(?! want\b)"
    r"|\b(?:I|we)\s+(?:was|were|am|have|had|need|see|saw|think|guess|wonder|tried)\b"
    r"|\b(?:\w+n['’]t|do not|(?:should )?never) (?:seem|work|exist|know|understand|believe|think|happen)\b",
    re.IGNORECASE,
)
_CODE_LINE = re.compile(
    r"[{};=]\s*$|^\s*(?:>|\||\$ |def |class |import |from \S+ import )|=>|\(\)\s*[:;{]|^[a-z]+\(\S+\)!?: "
)
_VERBS = read_toml("context_tui.summarizer.checks", "verbs.toml")
_MARKUP = re.compile(r"(?:</?[\w-]+>|\*\*|__|[*_\"'(\[]|[^\w\s`*]+\s+)+")
_LABEL = r"(?-i:[A-Z])(?:[^.:!?]{0,60}:[*_]*|[^.:!?,]{0,40} [-–—])\s+[*_]*"
_CONDITION = (
    r"(?:if|when|whenever|(?:before|after)(?= (?:\w+ing|you|each|every|any)\b)|once|unless|until|where|as soon as"
    r"|whatever|for (?:each|every|any)|(?:each|every) time)\b(?! you (?:want|need|wish))[^;:]{0,300}?,\s+"
)
_PURPOSE = r"(?:to|in|on|with|by|as|for|at|during|from|while|before|after)\b[^,;:]*,\s+"
_ADVERB = r"(?:then|also|first|next|finally|please|always|just|and|but|instead|otherwise|again|still|only|\w+ly)\b,?\s+"
_VERB, _RULE_VERB = (
    rf"(?:{'|'.join(verbs.split())})\b(?!\s*[=(→]|\w*-)"
    for verbs in (f"{_VERBS['rule_verbs']} {_VERBS['other_verbs']}", _VERBS["rule_verbs"])
)
_TYPED_RULE = re.compile(
    rf"(?:{_LABEL})?(?:(?:{_ADVERB}|I want you to ){{0,3}}{_RULE_VERB}"
    rf"|(?:{_ADVERB})?{_CONDITION}(?:{_ADVERB}){{0,3}}{_VERB})",
    re.IGNORECASE,
)
_IMPERATIVE = re.compile(rf"(?:{_LABEL})?(?:{_ADVERB}|{_CONDITION}|{_PURPOSE}){{0,3}}{_VERB}", re.IGNORECASE)
# a statement that begins like an imperative, such as "Release notes are"
_SUBJECT = re.compile(
    r"(?!(?:ensure|verify|make|confirm|assume|remember|say|state|see)\b)\w+(?: for| of)?(?: (?!(?:the|an?|all|any|every"
    r"|each|your|that|what|which|who|how|if|when|where|it|this|these|those|there|and|or|to|not)\b)[\w-]+){1,2}"
    r" (?:is|are|was|were|has|have)\b",
    re.IGNORECASE,
)

_LIST_ITEM = re.compile(r"\s*(?:>\s*)?(?:[-*•+]\s+(?:\[[ xX]?\]\s+)?|\d{1,3}[.)]\s+|[a-z][.)]\s+)")
_HEADING = re.compile(r"\s*(?:#{1,6}\s|\*\*[^*]+\*\*:?\s*$)")
_RULE_HEADING = re.compile(
    r"\b(?:rules?|guidelines?|constraints?|requirements?|conventions?|boundar(?:y|ies)|policy|policies|important"
    r"|critical|do not|don['’]t|must|always|never|avoid|style|standards?|practices?|principles?|instructions?)\b",
    re.IGNORECASE,
)
_LEAD = re.compile(
    r"\b(?:(?:each|every) (?:response|message|command)|always|must|should|rules?|follow)\b", re.IGNORECASE
)
_COMPLETE_LEAD = re.compile(
    r"\b(?:include|contain|have|provide|avoid|never|always|do not|don['’]t|must|should)(?: (?:be|use|do))?\s*:$",
    re.IGNORECASE,
)
_BAN_HEADING = re.compile(r"^[\s#*]*(?:never|do not|don['’]t|avoid|forbidden|prohibited|red flags)\b", re.IGNORECASE)
_SKIPPED_LINE = re.compile(r"\s*(?:#{1,6}\s|>|\d+\s*\||" + SKILL_START + r"|[-=*_]{3,}\s*$|</?[A-Za-z][^>]*>\s*$)")
_FENCE = re.compile(r"\s*(```|~~~)\s*(\w*)")
_TABLE_ROW = re.compile(r"\s*\|")
_CELL = re.compile(r"\|\s*([^|\s](?:[^|\\]|\\.)*?)\s*(?=\|)")
_SENTENCE_END = re.compile(r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!etc\.)(?<!vs\.)[\"'*)\]]*\s+(?=[\"'`*(\[]*\w)")


class _Sentence(NamedTuple):
    """A sentence with its offsets, the heading above it, and whether it is in an item of a list."""

    start: int
    end: int
    heading: str
    is_item: bool


def find_instructions(text: str, *, is_rule_file: bool = False) -> Iterator[Instruction]:
    """Yield the instructions in a text, in order.

    In a list after a sentence such as "Each response must include:" or "Never:", every item is an instruction, and the
    sentence itself is not. With *is_rule_file*, imperatives are rules. In other texts they are rules below a heading
    such as "Rules", in a list of steps to follow, or in the lists of a text with many rules.
    """
    has_many_rules = not is_rule_file and len(list(islice(_RULE.finditer(text), MIN_RULES))) == MIN_RULES
    lead = ""  # the sentence before a list
    pending: Instruction | None = None  # its instruction, withheld while list items may replace it
    for sentence in _split_sentences(text, is_rule_file):
        words = " ".join(text[sentence.start : sentence.end].split())
        if not sentence.is_item:
            lead = words.strip("*_ ") if words.endswith((":", ":**")) else ""
            if pending is not None:
                yield pending
        pending = None
        allows_imperatives = (
            is_rule_file
            or (has_many_rules and sentence.is_item)
            or bool(_LEAD.search(lead) or _RULE_HEADING.search(sentence.heading))
        )
        kind = _classify(words, allows_imperatives)
        if kind is None and sentence.is_item and len(words.split()) > 1 + (not lead):
            if _COMPLETE_LEAD.search(lead):
                kind = _get_kind(lead)
            elif is_rule_file and _RULE_HEADING.search(sentence.heading) and not _STATEMENT.search(words):
                kind = _get_kind(sentence.heading)
            elif is_rule_file and text.endswith(("[ ] ", "[] "), 0, sentence.start):  # a list of checks
                kind = InstructionKind.REQUIREMENT
        if kind is None:
            continue
        kind = InstructionKind.PROHIBITION if _BAN_HEADING.search(sentence.heading) else kind
        instruction = Instruction(sentence.start, sentence.end, kind, words)
        if not sentence.is_item and _COMPLETE_LEAD.search(lead):
            pending = instruction
        else:
            yield instruction
    if pending is not None:
        yield pending


def _classify(sentence: str, allows_imperatives: bool) -> InstructionKind | None:
    if len(sentence) > _MAX_CHARS or not 2 < len(sentence.split()) <= _MAX_WORDS:
        return None
    markup = _MARKUP.match(sentence)
    at = markup.end() if markup else 0
    is_short_ban = _SHORT_BAN.search(sentence[at:]) is not None and not _STATEMENT.search(sentence, at)
    imperative = (_IMPERATIVE if allows_imperatives else _TYPED_RULE).match(sentence, at)
    has_condition = imperative is not None and "," in imperative[0]
    if not has_condition and _SUBJECT.match(sentence, at):
        imperative = None
    match = imperative or _RULE.search(sentence) or _PREFERENCE.match(sentence, at)
    if not match and allows_imperatives:
        match = _FILE_RULE.search(sentence) or _PREFERENCE.search(sentence)
    is_question = sentence.rstrip("\"')* ").endswith("?") and (has_condition or not imperative)
    if not (match or is_short_ban) or is_question or _CODE_LINE.search(sentence):
        return None
    report = _REPORT.search(sentence)
    if report and not (match and match.start() < report.start()):
        return None
    return InstructionKind.PROHIBITION if is_short_ban else _get_kind(sentence)


def _get_kind(sentence: str) -> InstructionKind:
    if _NEGATION.search(sentence):
        return InstructionKind.PROHIBITION
    return InstructionKind.PREFERENCE if _PREFERENCE.search(sentence) else InstructionKind.REQUIREMENT


def _split_sentences(text: str, is_rule_file: bool) -> Iterator[_Sentence]:
    """Yield the sentences of a text, without code blocks, tables and list markers.

    In a file of rules, the cells of tables and the lines of code blocks without a language are sentences, too.
    """
    start, at, fence, heading, is_item, holds_prose, previous = -1, 0, "", "", False, False, ""
    for line in [*text.splitlines(keepends=True), ""]:
        fence_match, item, row = _FENCE.match(line), _LIST_ITEM.match(line), _TABLE_ROW.match(line)
        is_skipped = bool(fence or fence_match or row or _SKIPPED_LINE.match(line) or not line.strip())
        if start >= 0 and (is_skipped or item or _has_room_for_word(previous, line)):
            yield from (_Sentence(*span, heading, is_item) for span in _split_paragraph(text, start, at))
            start = -1
        if is_rule_file and row and not fence and len(line) <= _MAX_CHARS:
            cells = islice(_CELL.finditer(line), 1, None)  # the first column names the topic
            yield from (_Sentence(at + each.start(1), at + each.end(1), heading, True) for each in cells)
        elif fence and not fence_match and holds_prose and line.strip():
            indent = item.end() if item else len(line) - len(line.lstrip())
            yield _Sentence(at + indent, at + len(line.rstrip()), heading, item is not None)
        if fence_match:
            fence = "" if fence == fence_match[1] else fence or fence_match[1]
            holds_prose = is_rule_file and fence_match[2] in ("", "text", "md", "markdown")
        elif not fence and _HEADING.match(line):
            heading = line
        if not is_skipped and start < 0:
            start = at + (item.end() if item else len(line) - len(line.lstrip()))
            is_item = item is not None
        at, previous = at + len(line), line


def _has_room_for_word(line: str, next_line: str) -> bool:
    """Return whether a line had room for the capitalized first word of the next line, which then begins a sentence."""
    word = next_line.split(maxsplit=1)[:1]
    return bool(word) and word[0].strip("*_`")[:1].isupper() and len(line) + len(word[0]) < _MIN_WIDTH


def _split_paragraph(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    for match in _SENTENCE_END.finditer(text, start, end):
        yield start, match.start() + len(match[0].rstrip())
        start = match.end()
    if last := text[start:end].rstrip():
        yield start, start + len(last)
