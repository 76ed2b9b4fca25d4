"""Instructions in a text: rules that hold from then on, as opposed to a task that is done once.

Rules of English find them, without a model. A typed sentence is an instruction if it has the words of a rule (must,
never, always, do not, only, make sure, avoid, prefer…), or begins with a verb that sets a rule (use, keep, follow…). In
a file of rules, such as CLAUDE.md, AGENTS.md or a skill, every sentence that begins with an imperative counts, too.
Questions, code, tables, quotations, headings and reports ("it never returns") do not count. None are found in other
languages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from itertools import islice, repeat
from typing import NamedTuple

from context_tui.session.markers import SKILL_START


class InstructionKind(StrEnum):
    """The kinds of instructions."""

    REQUIREMENT = "requirement"
    PROHIBITION = "prohibition"
    PREFERENCE = "preference"


class Instruction(NamedTuple):
    """An instruction and its place in a text, as offsets of characters."""

    start: int
    end: int
    kind: InstructionKind
    text: str


MIN_RULES = 4
"""A typed text with at least this many words of rules, such as "must", counts as a prompt, and its lists as rules."""

_MAX_WORDS, _MAX_CHARS = 70, 1_000  # a longer sentence or row of a table is pasted text, not a rule

_START = r"(?:^|[,;:.!?—–(*-]\s*|\b(?:please|and|but|or|then|also|so|just|must|should|shall|may|can|to be)\s+)"
_RULE = re.compile(
    rf"\bmust(?:n['’]?t)?\b|\b(?:shall|you (?:cannot|can['’]t|can only|may not|have to|need to)|must only|may only"
    r"|(?:is|are) (?:not allowed|forbidden|prohibited|required|mandatory)|under no circumstances|without asking)\b"
    rf"|{_START}(?:never|always|do not|don['’]?t|no longer|make sure|be sure|ensure|avoid|stick to"
    r"|only (?:use|change|touch|edit|modify|run|add|commit|fix|write|read|do|keep|include|when|if|after|enter|match"
    r"|mark))\b|\byou should\b|[,;.!]\s+(?:use|keep|stick)\s"
    r"|\b(?:your|each|every) (?:response|answer|message|command|commit|change|file|function|test) should\b"
    r"|\bshould (?:stay|remain|never|always)\b|\bplease (?:keep|use|stick|follow)\b|\bone and only one\b"
    r"|^(?:at most|at least|no more than)\b|\bshould(?: not|n['’]t)\b"
    r"|\bI (?:don['’]?t|do not) want\b|\blet['’]?s not\b|^Your task is\b|\bexactly the following\b",
    re.IGNORECASE,
)
_FILE_RULE = re.compile(
    r"\b(?:always|never)\b|\bonly (?:at|for|when|if|in|on)\b"
    r"|\b(?:code|tests?|names?|messages?|files?|commits?|comments?) should\b"
    r"|\b(?:each|every|all|any) [^.;]{0,60}\b(?:requires?|needs?)\b",
    re.IGNORECASE,
)
_SHORT_BAN = re.compile(r"no (?!longer|need|problem|worries|idea|such|one|more\b)\w[^.,;:]{2,60}[.!]?$", re.IGNORECASE)
_STATEMENT = re.compile(r"\b(?:is|are|was|were|exists?|found|has|have|had)\b", re.IGNORECASE)
_PREFERENCE = re.compile(
    r"\b(?:prefer(?:red|ably)?|rather than|ideally|if possible|when possible|favou?r)\b", re.IGNORECASE
)
_NEGATION = re.compile(
    rf"{_START}(?:never|do not|don['’]?t|avoid)\b|\b(?:(?:don['’]?t|do not) want|let['’]?s not|must not|mustn['’]t"
    r"|may not|cannot|can['’]t|should not|shouldn['’]t|shall not|forbidden|prohibited|not allowed|without asking"
    r"|under no circumstances)\b",
    re.IGNORECASE,
)
_REPORT = re.compile(
    r"^\W*(?:problem|example|why|wrong|bad|note)\b[^.]{0,20}:|^[^\w\"“]*[\"“]|^\s*\[|^(?:is|are) "
    r"|^let me\b|\bnote that\b|\b(?:it|there|I) must\b|\bshould know\b"
    r"|\b(?:it|this|that|there|which|who|he|she|they|we|I)\s+(?:also\s+|just\s+|still\s+)?"
    r"(?:only|never|always|do not|don['’]?t|cannot|can['’]t|must have)\b(?! want\b)"
    r"|\b(?:I|we)\s+(?:was|were|am|have|had|see|saw|think|guess|wonder|tried)\b"
    r"|\b(?:\w+n['’]t|do not|never) (?:seem|work|exist|know|understand|believe|think)\b",
    re.IGNORECASE,
)
_CODE_LINE = re.compile(r"[{};=]\s*$|^\s*(?:>|\||\$ |def |class |import |from \S+ import )|=>|\(\)\s*[:;{]")
_RULE_VERBS = "use keep follow stick respect preserve remember respond reply answer limit treat assume"
_VERBS = (
    f"{_RULE_VERBS}"
    " accept acknowledge add adopt aim allow announce apply ask assign attach audit avoid await base be begin"
    " break bring build bump bundle cache call call-out cancel capture catch change check choose clarify"
    " classify clean close combine commit communicate compare complete confirm consider consult convert copy"
    " count cover create cut debug declare define delegate delete deliver deploy describe design detect"
    " disable discard discuss dispatch distinguish document double double-check drop duplicate edit embed"
    " emphasize enable encapsulate end enforce ensure enter escape establish evaluate examine exclude execute"
    " expand expect explain explore export expose express extend factor fail favor favour fetch fill filter"
    " finalize find finish fit fix flag focus format gather generate get give go grep group guarantee guard"
    " handle have hide highlight hold identify ignore implement import include increase increment infer"
    " inform inherit initialize inject inline inspect install integrate interrupt introduce investigate"
    " invoke involve isolate iterate join kill lead learn leave let leverage link lint list load lock log"
    " look lower lowercase maintain make map mark match meet merge migrate minimize mock monitor move name"
    " narrow nest normalize note notify number obtain offer omit only open optimize order organize output"
    " override own package parse pass paste patch pause perform persist pick pin pipe place plan point poll"
    " populate post practice prefer prefix preload prepare present prevent preview print prioritize proceed"
    " process produce profile propose prove provide publish pull purge push put quit quote raise randomize"
    " re-read re-run read rebase rebuild reconcile record redirect reduce refactor refer reference regenerate"
    " regroup reject release rely remove rename render reorder repair repeat rephrase replace report request"
    " require rerun reserve reset resolve restart restate restore restrict retain retry return reuse revert"
    " review rewrite rotate round route run sanitize save say scan schedule search see select send separate"
    " serve set share shorten show sign simplify skip solve sort specify split squash stage start stash state"
    " stay step stop store strip structure study submit substitute suggest summarize supply support switch"
    " sync tag take target tell test think throw tidy time title track translate traverse trim truncate trust"
    " try turn type uncomment understand undo unify update upload validate verify version view visit wait"
    " warn watch weigh wrap write"
)
_CLAUSE = re.compile(
    r"(?:if|when|whenever|before|after|for|once|while|to|in|on|with|by|as|unless|until|where|at|during|from)\b[^,;:]*,\s+"
    r"|(?:then|also|first|next|finally|please|always|just|and|instead|otherwise|again)\b,?\s+",
    re.IGNORECASE,
)
_MARKUP = re.compile(r"(?:\*\*|__|[*_`\"'(\[]|[^\w\s`*]+\s+)+")
_LABEL = re.compile(r"[A-Z](?:[^.:!?]{0,60}:[*_]*|[^.:!?,]{0,40} [-–—])\s+")
_TYPED_VERB = re.compile(rf"(?:{'|'.join(_RULE_VERBS.split())})\b", re.IGNORECASE)
_VERB = re.compile(rf"(?:{'|'.join(_VERBS.split())})\b(?!\s*[=(]|\w*-)", re.IGNORECASE)

_LIST_ITEM = re.compile(r"\s*(?:>\s*)?(?:[-*•+]\s+(?:\[[ xX]?\]\s+)?|\d{1,3}[.)]\s+|[a-z][.)]\s+)")
_HEADING = re.compile(r"\s*(?:#{1,6}\s|\*\*[^*]+\*\*:?\s*$)")
_RULE_HEADING = re.compile(
    r"\b(?:rules?|guidelines?|constraints?|requirements?|conventions?|boundar(?:y|ies)|policy|policies|important|notes?"
    r"|critical|do not|don['’]t|must|always|never|style|standards?|practices?|principles?|instructions?)\b",
    re.IGNORECASE,
)
_LEAD = re.compile(
    r"\b(?:(?:each|every) (?:response|message|command)|always|must|should|rules?|follow)\b", re.IGNORECASE
)
_COMPLETE_LEAD = re.compile(r"\b(?:include|contain|have|provide)\s*:$", re.IGNORECASE)
_BAN_HEADING = re.compile(r"^[\s#*]*(?:never|do not|don['’]t|avoid|forbidden|prohibited|red flags)\b", re.IGNORECASE)
_SKIPPED_LINE = re.compile(r"\s*(?:#{1,6}\s|>|\d+\s*\||" + SKILL_START + r"|[-=*_]{3,}\s*$|</?[A-Za-z][^>]*>\s*$)")
_FENCE = re.compile(r"\s*(```|~~~)\s*(\w*)")
_TABLE_ROW = re.compile(r"\s*\|")
_CELL = re.compile(r"\|\s*([^|\s][^|]*?)\s*(?=\|)")
_SENTENCE_END = re.compile(r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!etc\.)(?<!vs\.)[\"'*)\]]*\s+(?=[\"'`*(\[]*\w)")


class _Sentence(NamedTuple):
    """A sentence with its offsets, the heading above it, and whether it is in an item of a list."""

    start: int
    end: int
    heading: str
    is_item: bool


def find_instructions(text: str, *, is_rule_file: bool = False) -> Iterator[Instruction]:
    """Yield the instructions in a text, in order.

    In a list after a sentence such as "Each response must include:", every item is an instruction, and the sentence
    itself is none.

    Args:
        is_rule_file: whether the text is a file of rules, in which imperatives are rules. In other texts they are rules
            below a heading such as "Rules", in a list of steps to follow, or in the lists of a text with many rules.
    """
    has_many_rules = not is_rule_file and len(list(islice(_RULE.finditer(text), MIN_RULES))) == MIN_RULES
    lead = ""  # the sentence before a list
    pending: Instruction | None = None  # it, as long as a list may follow that says the same in full
    for sentence in _split_sentences(text, is_rule_file):
        words = " ".join(text[sentence.start : sentence.end].split())
        if not sentence.is_item:
            lead = words if words.endswith(":") else ""
            if pending is not None:
                yield pending
        pending = None
        allows_imperatives = (
            is_rule_file
            or (has_many_rules and sentence.is_item)
            or bool(_LEAD.search(lead) or _RULE_HEADING.search(sentence.heading))
        )
        kind = _classify(words, allows_imperatives)
        if kind is None and sentence.is_item and len(words.split()) > 2:
            if _COMPLETE_LEAD.search(lead):
                kind = _classify(lead, allows_imperatives)
            elif is_rule_file and text.endswith(("[ ] ", "[] "), 0, sentence.start):  # a list of checks
                kind = InstructionKind.REQUIREMENT
        if kind is None:
            continue
        kind = InstructionKind.PROHIBITION if _BAN_HEADING.search(sentence.heading) else kind
        instruction = Instruction(sentence.start, sentence.end, kind, words)
        if not sentence.is_item and _COMPLETE_LEAD.search(words):
            pending = instruction
        else:
            yield instruction
    if pending is not None:
        yield pending


def _classify(sentence: str, allows_imperatives: bool) -> InstructionKind | None:
    """Return the kind of the instruction that a sentence is, or None if it is none."""
    if len(sentence) > _MAX_CHARS or not 2 < len(sentence.split()) <= _MAX_WORDS:
        return None
    markup = _MARKUP.match(sentence)
    clause = sentence[markup.end() if markup else 0 :]
    verb = _VERB if allows_imperatives else _TYPED_VERB
    is_short_ban = _SHORT_BAN.match(clause) is not None and not _STATEMENT.search(clause)
    match = _RULE.search(sentence) or verb.match(clause) or _PREFERENCE.match(clause)
    if not match and not is_short_ban:
        for pattern in (_LABEL, *repeat(_CLAUSE, 3)):
            if prefix := pattern.match(clause):
                clause = clause[prefix.end() :].lstrip("*_ ")
        match = verb.match(clause) or _PREFERENCE.match(clause)
        if not match and allows_imperatives:
            match = _FILE_RULE.search(sentence) or _PREFERENCE.search(sentence)
    is_question = sentence.rstrip("\"')* ").endswith("?") and not verb.match(clause)
    if not (match or is_short_ban) or is_question or _CODE_LINE.search(sentence) or _REPORT.search(sentence):
        return None
    if is_short_ban or _NEGATION.search(sentence):
        return InstructionKind.PROHIBITION
    return InstructionKind.PREFERENCE if _PREFERENCE.search(sentence) else InstructionKind.REQUIREMENT


def _split_sentences(text: str, is_rule_file: bool) -> Iterator[_Sentence]:
    """Yield the sentences of a text, without code blocks, tables and marks of lists.

    In a file of rules, the cells of tables and the lines of blocks without a language are sentences, too.
    """
    start, at, fence, heading, is_item, holds_prose = -1, 0, "", "", False, False
    for line in [*text.splitlines(keepends=True), ""]:
        fence_match, item, row = _FENCE.match(line), _LIST_ITEM.match(line), _TABLE_ROW.match(line)
        is_skipped = bool(fence or fence_match or row or _SKIPPED_LINE.match(line) or not line.strip())
        if start >= 0 and (is_skipped or item):
            yield from (_Sentence(*span, heading, is_item) for span in _split_paragraph(text, start, at))
            start = -1
        if is_rule_file and row and not fence and len(line) <= _MAX_CHARS:
            cells = islice(_CELL.finditer(line), 1, None)  # the first column names the topic
            yield from (_Sentence(at + each.start(1), at + each.end(1), heading, True) for each in cells)
        elif fence and not fence_match and holds_prose and line.strip():
            indent = item.end() if item else len(line) - len(line.lstrip())
            yield _Sentence(at + indent, at + len(line.rstrip()), heading, True)
        if fence_match:
            fence = "" if fence == fence_match[1] else fence or fence_match[1]
            holds_prose = is_rule_file and fence_match[2] in ("", "text", "md", "markdown")
        elif not fence and _HEADING.match(line):
            heading = line
        if not is_skipped and start < 0:
            start = at + (item.end() if item else len(line) - len(line.lstrip()))
            is_item = item is not None
        at += len(line)


def _split_paragraph(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    for match in _SENTENCE_END.finditer(text, start, end):
        yield start, match.start() + len(match[0].rstrip())
        start = match.end()
    if last := text[start:end].rstrip():
        yield start, start + len(last)
