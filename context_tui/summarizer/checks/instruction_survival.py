"""Follow the instructions of a session through its compactions, or through one that is only planned.

The outcome of an instruction is certain only where its words are found again. If a sentence of the summary has 60 % of
its distinctive words, the instruction may be there *in other words*: the sentence is quoted, for a person to judge.
Instructions in the system prompt cannot be removed and are not followed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from context_tui.compaction.plan import Plan
from context_tui.compaction.recorded_compactions import find_recorded_compactions
from context_tui.session.context import Context
from context_tui.session.markers import is_rule_file, split_text
from context_tui.session.session import Session
from context_tui.session.values import BlockFlag, Checkpoint, Kind, MessageFlag, Role
from context_tui.summarizer.checks.facts import build_constraint
from context_tui.summarizer.checks.instructions import Instruction, InstructionKind, find_instructions
from context_tui.summarizer.checks.summary_checks import PATH_PATTERN, SummaryCheck
from context_tui.summarizer.checks.survival import FactMatcher
from context_tui.summarizer.tool_calls import AnsweredCall, parse_call

MAX_INSTRUCTIONS = 2_000
"""Maximum number of instructions that are followed through the compactions of a session."""
INSTRUCTIONS_CHECK = "instructions"
"""Name of the check of a summary for the instructions of the user."""
RESTORED_HEADING = "## Instructions of the user, put back word for word"


class InstructionSource(StrEnum):
    """The author of an instruction: the user, who typed it, or a file of rules that a runtime inserted."""

    USER = "user"
    RULE_FILE = "rule file"


class PlacedInstruction(NamedTuple):
    """An instruction in a message: the message, its block number, its source, and its text and offsets in the block."""

    message: int
    block: int
    source: InstructionSource
    instruction: Instruction


class Outcome(StrEnum):
    """The outcome of a compaction for an instruction, from certain survival to absence."""

    IN_CONTEXT = "in the context"
    IN_SUMMARY = "in the summary"
    PUT_BACK = "put back"
    IN_OTHER_WORDS = "in other words"
    ABSENT = "absent"


class InstructionTrace(NamedTuple):
    """An instruction with the outcome of a compaction for it.

    Attributes:
        evidence: the sentence of the summary with similar words, or an empty string.
        contradicted_at: message of the first later call that does what the instruction forbids, or None. Only bans of
            a command or of changes to a named file are checked.
    """

    placed: PlacedInstruction
    outcome: Outcome
    evidence: str = ""
    contradicted_at: int | None = None


class CompactionInstructions(NamedTuple):
    """The full compaction at ``message``, and the instructions before it with their outcomes."""

    message: int
    traces: tuple[InstructionTrace, ...]

    def count(self, outcome: Outcome, source: InstructionSource | None = None) -> int:
        """Count the instructions with an outcome, optionally only those of one source."""
        return sum(each.outcome is outcome and source in (None, each.placed.source) for each in self.traces)

    @property
    def contradictions(self) -> list[InstructionTrace]:
        """The instructions that a later call contradicts."""
        return [each for each in self.traces if each.contradicted_at is not None]


def find_message_instructions(context: Context, message: int) -> Iterator[PlacedInstruction]:
    """Yield the instructions in a message that a user typed or a runtime inserted; a summary yields none."""
    facts = context.facts
    if facts.role[message] == Role.ASSISTANT or facts.flags[message] & MessageFlag.SUMMARY:
        return
    for number, text, is_injected in _iterate_texts(context, message):
        if not is_injected:
            for each in find_instructions(text):
                yield PlacedInstruction(message, number, InstructionSource.USER, each)
            continue
        at = 0
        for _, section in split_text(text):
            if is_rule_file(section):
                for each in find_instructions(section, is_rule_file=True):
                    moved = each._replace(start=each.start + at, end=each.end + at)
                    yield PlacedInstruction(message, number, InstructionSource.RULE_FILE, moved)
            at += len(section)


def _iterate_texts(context: Context, message: int) -> Iterator[tuple[int, str, bool]]:
    """Yield the number and text of each text block of a message, and whether a runtime inserted the block."""
    facts, content = context.facts, context.content
    rows = [*facts.blocks_of(message)]
    if content is None or all(facts.kind[row] != Kind.TEXT for row in rows):
        return
    for number, (row, block) in enumerate(zip(rows, content.blocks(message), strict=False)):
        if facts.kind[row] == Kind.TEXT:
            yield number, str(block.get("text") or ""), bool(facts.block_flags[row] & BlockFlag.INJECTED)


def trace_instructions(
    instructions: Iterable[PlacedInstruction],
    summary: str,
    remaining: Container[int] = (),
    other_texts: Iterable[str] = (),
) -> list[InstructionTrace]:
    """Return the outcome of a compaction for each instruction.

    Args:
        summary: text of the summary, or a draft of it.
        remaining: numbers of the messages that remain in the context.
        other_texts: the texts of users and runtimes in the context after the compaction.
    """
    matcher, summary_words, other_words = FactMatcher(summary), _WordIndex([summary]), _WordIndex(other_texts)

    def trace(placed: PlacedInstruction) -> InstructionTrace:
        if placed.message in remaining:
            return InstructionTrace(placed, Outcome.IN_CONTEXT)
        words = _split_words(placed.instruction.text)
        if words in summary_words:
            return InstructionTrace(placed, Outcome.IN_SUMMARY)
        if words in other_words:
            return InstructionTrace(placed, Outcome.PUT_BACK)
        fact = build_constraint(placed.instruction.text, placed.message, placed.block)
        if (survival := matcher.match_fact(fact)).preserved:
            return InstructionTrace(placed, Outcome.IN_OTHER_WORDS, survival.evidence)
        return InstructionTrace(placed, Outcome.ABSENT)

    return [trace(placed) for placed in instructions]


def find_removed_instructions(plan: Plan) -> list[PlacedInstruction]:
    """Return the instructions that a plan removes and that only its summary can preserve, without duplicates."""
    context, removed = plan.context, set(plan.summarised_message_numbers)
    remaining_words = _WordIndex(_iterate_user_texts(context, removed))
    instructions: dict[tuple[str, ...], PlacedInstruction] = {}
    for message in sorted(removed):
        for placed in find_message_instructions(context, message):
            words = _split_words(placed.instruction.text)
            if words not in remaining_words:
                instructions.setdefault(words, placed)
    return list(instructions.values())


def check_instructions(instructions: Sequence[PlacedInstruction], summary: str) -> SummaryCheck:
    """Check whether a summary preserves *instructions*, which are removed with the messages that it replaces."""
    traces = trace_instructions(instructions, summary)
    counts = Counter(trace.outcome for trace in traces)
    absent, uncertain = counts[Outcome.ABSENT], counts[Outcome.IN_OTHER_WORDS]
    missing = f"{absent:,} of {len(traces):,} are not in the summary"
    detail = missing if absent else f"none of {len(traces):,} is missing"
    detail += f"; {uncertain:,} may be there in other words" if uncertain else ""
    return SummaryCheck(INSTRUCTIONS_CHECK, not absent, "warning", detail)


def restore_instructions(instructions: Sequence[PlacedInstruction], summary: str) -> str:
    """Return the summary with the absent instructions appended below a heading, or unchanged if none is absent."""
    traces = trace_instructions(instructions, summary)
    absent = [trace.placed.instruction.text for trace in traces if trace.outcome is Outcome.ABSENT]
    items = "\n".join(f"- {text}" for text in absent)
    return f"{summary.rstrip()}\n\n{RESTORED_HEADING}\n{items}\n" if absent else summary


def follow_instructions(session: Session, checkpoint: Checkpoint = lambda: None) -> list[CompactionInstructions]:
    """Follow the instructions of a session through its recorded full compactions, reading the text of all messages.

    An instruction that is absent after a compaction is not followed further, unless it is given again. At most
    :data:`MAX_INSTRUCTIONS` are followed at a time.
    """
    compactions = [each for each in find_recorded_compactions(session) if each.kind == "full"]
    known: dict[tuple[str, ...], PlacedInstruction] = {}
    seen = set[int]()
    results = list[CompactionInstructions]()
    for number, compaction in enumerate(compactions):
        for message in compaction.context_before.order:
            if message in seen:
                continue
            seen.add(message)
            checkpoint()
            for placed in find_message_instructions(compaction.context_before, message):
                if len(known) < MAX_INSTRUCTIONS:
                    known.setdefault(_split_words(placed.instruction.text), placed)
        if not known:
            continue
        after = compaction.context_after
        summary = _read_summary(after, compaction.summary_message)
        traces = trace_instructions(known.values(), summary, set(after.order), _iterate_user_texts(after))
        end = compactions[number + 1].message if number + 1 < len(compactions) else len(session)
        results.append(CompactionInstructions(compaction.message, _check_calls(session, traces, after.at, end)))
        for trace in traces:
            if trace.outcome is Outcome.ABSENT:
                del known[_split_words(trace.placed.instruction.text)]
    return results


def _read_summary(context: Context, message: int | None) -> str:
    if message is None:
        return ""
    return "\n".join(text for _, text, is_injected in _iterate_texts(context, message) if not is_injected)


def _iterate_user_texts(context: Context, excluded: Container[int] = ()) -> Iterator[str]:
    """Yield the texts of user messages, and those that the runtime inserts beside a summary, but no summaries."""
    facts = context.facts
    for message in context.order:
        if message not in excluded and facts.role[message] != Role.ASSISTANT:
            is_summary = facts.flags[message] & MessageFlag.SUMMARY
            for _, text, is_injected in _iterate_texts(context, message):
                if is_injected or not is_summary:
                    yield text


_WORD = re.compile(r"\w+")


def _split_words(text: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(text.casefold()))


_NEGATIONS = frozenset("never not no don t without".split())


class _WordIndex:
    """An index of the words in texts, to find a sequence of words regardless of spaces, punctuation and case."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._words = _split_words("\n".join(texts))
        self._places: dict[tuple[str, ...], list[int]] = {}
        for place in range(len(self._words) - 1):
            self._places.setdefault(self._words[place : place + 2], []).append(place)

    def __contains__(self, words: tuple[str, ...]) -> bool:
        """Return whether the words occur in sequence and without a negation before them, which would reverse them."""
        places = self._places.get(words[:2], ())
        found = (place for place in places if self._words[place : place + len(words)] == words)
        return len(words) > 1 and any(not place or self._words[place - 1] not in _NEGATIONS for place in found)


# Contradictions

_CODE_SPAN = re.compile(r"`([^`\n]{3,80})`")
_BAN = re.compile(r"\b(?:never|do not|don['’]?t|avoid|must not|mustn['’]t|cannot|no)\b", re.IGNORECASE)
_CLAUSE_END = re.compile(r"[;:—]|,? \b(?:use|but|instead|rather)\b|, (?=\w+ (?:`|\S+\.\w))", re.IGNORECASE)
_BANNED_VERB = re.compile(
    r"^\W*\w+(?:['’]t| not)?(?: ever)? (push|force[- ]push|commit|stash|rebase|merge|amend)"
    r"(?=\s*(?:[.,!)]|$|to (?:the )?(?:remote|origin)\b|(?:any|anything|it|this|that|directly|changes?|yet)\b))",
    re.IGNORECASE,
)
_CHANGE_VERB = re.compile(
    r"\b(?:touch|edit|modif\w+|chang\w+|delet\w+|remov\w+|rewrit\w+|overwrit\w+|writ\w+)\b", re.IGNORECASE
)
_EXCEPTION = re.compile(r"\b(?:unless|without|until|except|before|after|if|when|only|while)\b", re.IGNORECASE)
_COMMAND_START = r"(?:^|[;&|\n(]\s*)(?:sudo )?(?:\w+=\S+\s+)*"
_AMEND = r"git commit\b[^;&|\n]*\s--amend\b"
_FORCE_PUSH = r"git push\b[^;&|\n]*\s(?:--force|-f)\b"


class Ban(NamedTuple):
    """Commands that an instruction forbids to run (as patterns), and files that it forbids to change (as path ends)."""

    commands: tuple[re.Pattern[str], ...]
    files: tuple[str, ...]

    def is_violated_by(self, call: AnsweredCall) -> bool:
        """Return whether a call runs a forbidden command or changes a forbidden file."""
        if any(pattern.search(call.command) for pattern in self.commands):
            return True
        return any(path == each or path.endswith(f"/{each}") for path in call.changed for each in self.files)


def find_ban(instruction: Instruction) -> Ban | None:
    """Return the ban in an instruction, or None if it names no command or file, or has an exception."""
    start = _BAN.search(instruction.text)
    if instruction.kind is not InstructionKind.PROHIBITION or start is None or _EXCEPTION.search(instruction.text):
        return None
    clause = _CLAUSE_END.split(instruction.text[start.start() :], maxsplit=1)[0]
    files = [match[0] for match in PATH_PATTERN.finditer(clause)] if _CHANGE_VERB.search(clause) else []
    spans = _CODE_SPAN.findall(clause)
    commands = [f"{re.escape(span)}(?![\\w-])" for span in spans if " " in span and not PATH_PATTERN.fullmatch(span)]
    if verb := _BANNED_VERB.match(clause):
        name = verb[1].lower()
        patterns_by_verb = {"amend": _AMEND, "force push": _FORCE_PUSH, "force-push": _FORCE_PUSH}
        commands.append(patterns_by_verb.get(name, rf"git {name}(?![\w-])"))
    patterns = tuple(re.compile(f"{_COMMAND_START}{each}") for each in commands)
    return Ban(patterns, tuple(files)) if patterns or files else None


def _check_calls(
    session: Session, traces: Sequence[InstructionTrace], start: int, end: int
) -> tuple[InstructionTrace, ...]:
    """Add to each trace the first call in the messages from *start* to *end* that does what the instruction forbids."""
    bans = [(number, ban) for number, trace in enumerate(traces) if (ban := find_ban(trace.placed.instruction))]
    result = list(traces)
    if bans:
        for message, call in _iterate_calls(session, start, end):
            for number, ban in bans:
                if result[number].contradicted_at is None and ban.is_violated_by(call):
                    result[number] = result[number]._replace(contradicted_at=message)
    return tuple(result)


def _iterate_calls(session: Session, start: int, end: int) -> Iterator[tuple[int, AnsweredCall]]:
    facts = session.facts
    for message in range(start, end):
        if any(facts.kind[row] == Kind.TOOL_USE for row in facts.blocks_of(message)):
            blocks: list[dict[str, Any]] = session.message(message)["content"]
            yield from ((message, parse_call(block)) for block in blocks if block.get("type") == "tool_use")
