"""Follow the instructions of a session through its compactions, or through one that is only planned.

The outcome of an instruction is certain only where its words are found again. If a sentence of the summary has 60 % of
its distinctive words, the instruction may be there *in other words*: the sentence is quoted, for a person to judge.
Instructions in the system prompt cannot be removed and are not followed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from context_tui.compaction.recorded_compactions import find_recorded_compactions
from context_tui.session.context import Context
from context_tui.session.markers import is_rule_file, split_text
from context_tui.session.session import Session
from context_tui.session.values import BlockFlag, Checkpoint, Kind, MessageFlag, Role
from context_tui.summarizer.checks.facts import build_constraint
from context_tui.summarizer.checks.instructions import Instruction, InstructionKind, find_instructions
from context_tui.summarizer.checks.summary_checks import PATH_PATTERN
from context_tui.summarizer.checks.survival import FactMatcher
from context_tui.summarizer.tool_calls import AnsweredCall, parse_call


class InstructionSource(StrEnum):
    """The author of an instruction: the user, who typed it, or a file of rules that a runtime inserted."""

    USER = "user"
    RULE_FILE = "rule file"


class PlacedInstruction(NamedTuple):
    """An instruction with its message, the number of its block there, and its source; offsets are within the block."""

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


@dataclass(frozen=True)
class CompactionInstructions:
    """The instructions of a session up to the full compaction before *message*, with their outcomes."""

    message: int
    traces: tuple[InstructionTrace, ...]

    def count(self, outcome: Outcome) -> int:
        """Count the instructions with an outcome."""
        return sum(trace.outcome is outcome for trace in self.traces)

    @property
    def absent(self) -> list[InstructionTrace]:
        """The instructions that are absent afterwards."""
        return [trace for trace in self.traces if trace.outcome is Outcome.ABSENT]


def find_message_instructions(context: Context, message: int) -> Iterator[PlacedInstruction]:
    """Yield the instructions in a message that a user typed or that a runtime inserted; summaries have none."""
    facts, content = context.facts, context.content
    if content is None or facts.role[message] == Role.ASSISTANT or facts.flags[message] & MessageFlag.SUMMARY:
        return
    rows = [*facts.blocks_of(message)]
    if not any(facts.kind[row] == Kind.TEXT for row in rows):
        return
    for number, (row, block) in enumerate(zip(rows, content.blocks(message), strict=False)):
        if facts.kind[row] != Kind.TEXT:
            continue
        text = str(block.get("text") or "")
        if not facts.block_flags[row] & BlockFlag.INJECTED:
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


def trace_instructions(
    instructions: Iterable[PlacedInstruction], context_after: Context, summary: str
) -> list[InstructionTrace]:
    """Return the outcome of each instruction in the context after a compaction.

    Args:
        summary: text of the summary; that of a message in *context_after*, or a draft.
    """
    remaining = set(context_after.order)
    matcher, summary_words = FactMatcher(summary), _normalize(summary)
    texts = [_normalize(text) for text in _iterate_user_texts(context_after)]

    def trace(placed: PlacedInstruction) -> InstructionTrace:
        text = placed.instruction.text
        words = _normalize(text)
        if placed.message in remaining:
            return InstructionTrace(placed, Outcome.IN_CONTEXT)
        if words in summary_words:
            return InstructionTrace(placed, Outcome.IN_SUMMARY)
        if any(words in each for each in texts):
            return InstructionTrace(placed, Outcome.PUT_BACK)
        survival = matcher.match_fact(build_constraint(text, placed.message, placed.block))
        if survival.preserved:
            return InstructionTrace(placed, Outcome.IN_OTHER_WORDS, survival.evidence)
        return InstructionTrace(placed, Outcome.ABSENT)

    return [trace(placed) for placed in instructions]


def follow_instructions(session: Session, checkpoint: Checkpoint = lambda: None) -> list[CompactionInstructions]:
    """Follow all instructions through the recorded full compactions of a session; reads the text of its messages."""
    compactions = [each for each in find_recorded_compactions(session) if each.kind == "full"]
    known: dict[str, PlacedInstruction] = {}
    seen = set[int]()
    results = list[CompactionInstructions]()
    for number, compaction in enumerate(compactions):
        for message in compaction.context_before.order:
            if message in seen:
                continue
            seen.add(message)
            checkpoint()
            for placed in find_message_instructions(compaction.context_before, message):
                known.setdefault(_normalize(placed.instruction.text), placed)
        if not known:
            continue
        after = compaction.context_after
        traces = trace_instructions(known.values(), after, _read_summary(after, compaction.summary_message))
        end = compactions[number + 1].message if number + 1 < len(compactions) else len(session)
        results.append(CompactionInstructions(compaction.message, _check_calls(session, traces, after.at, end)))
    return results


def _read_summary(context: Context, message: int | None) -> str:
    if message is None or context.content is None:
        return ""
    blocks = zip(context.facts.blocks_of(message), context.content.blocks(message), strict=False)
    flags = context.facts.block_flags
    return "\n".join(str(block.get("text") or "") for row, block in blocks if not flags[row] & BlockFlag.INJECTED)


def _iterate_user_texts(context: Context) -> Iterator[str]:
    """Yield the texts of user messages and of what the runtime inserts beside a summary, but no summary."""
    facts, content = context.facts, context.content
    if content is None:
        return
    for message in context.order:
        rows = facts.blocks_of(message)
        if facts.role[message] == Role.ASSISTANT or not any(facts.kind[row] == Kind.TEXT for row in rows):
            continue
        is_summary = facts.flags[message] & MessageFlag.SUMMARY
        for row, block in zip(rows, content.blocks(message), strict=False):
            if facts.kind[row] == Kind.TEXT and (facts.block_flags[row] & BlockFlag.INJECTED or not is_summary):
                yield str(block.get("text") or "")


def _normalize(text: str) -> str:
    return " ".join(text.replace("*", "").replace("`", "").split()).casefold()


# Contradictions

_CODE_SPAN = re.compile(r"`([^`\n]{3,80})`")
_BANNED_VERB = re.compile(
    r"\b(?:never|do not|don['’]?t)(?: ever)? (push|force[- ]push|commit|stash|rebase|merge|amend)\b", re.IGNORECASE
)
_CHANGE_VERB = re.compile(
    r"\b(?:touch|edit|modif\w+|chang\w+|delet\w+|remov\w+|rewrit\w+|overwrit\w+|writ\w+)\b", re.IGNORECASE
)
_EXCEPTION = re.compile(r"\b(?:unless|without|until|except|before|after|if|when|only|while)\b", re.IGNORECASE)
_GIT_COMMANDS = {"force-push": "git push --force", "force push": "git push --force", "amend": "git commit --amend"}


class Ban(NamedTuple):
    """Commands and files (by the end of their path) that an instruction forbids to run or to change."""

    commands: tuple[str, ...]
    files: tuple[str, ...]

    def is_violated_by(self, call: AnsweredCall) -> bool:
        """Return whether a call runs such a command, or changes such a file."""
        if any(re.search(rf"(?<![\w-]){re.escape(each)}(?![\w-])", call.command) for each in self.commands):
            return True
        return any(path == each or path.endswith(f"/{each}") for path in call.changed for each in self.files)


def find_ban(instruction: Instruction) -> Ban | None:
    """Return what an instruction forbids, or None if calls cannot show it; bans with exceptions are not checked."""
    text = instruction.text
    if instruction.kind is not InstructionKind.PROHIBITION or _EXCEPTION.search(text):
        return None
    spans = _CODE_SPAN.findall(text)
    files = [match[0] for match in PATH_PATTERN.finditer(text)] if _CHANGE_VERB.search(text) else []
    commands = [span for span in spans if " " in span and not PATH_PATTERN.fullmatch(span)]
    commands += [_GIT_COMMANDS.get(verb, f"git {verb}") for verb in map(str.lower, _BANNED_VERB.findall(text))]
    return Ban(tuple(commands), tuple(files)) if commands or files else None


def _check_calls(
    session: Session, traces: Sequence[InstructionTrace], start: int, end: int
) -> tuple[InstructionTrace, ...]:
    """Add to each trace the first call in the messages from *start* to *end* that does what the instruction forbids."""
    bans = [(number, ban) for number, trace in enumerate(traces) if (ban := find_ban(trace.placed.instruction))]
    checked = list(traces)
    if bans:
        for message, call in _iterate_calls(session, start, end):
            for number, ban in bans:
                if checked[number].contradicted_at is None and ban.is_violated_by(call):
                    checked[number] = checked[number]._replace(contradicted_at=message)
    return tuple(checked)


def _iterate_calls(session: Session, start: int, end: int) -> Iterator[tuple[int, AnsweredCall]]:
    facts = session.facts
    for message in range(start, end):
        if any(facts.kind[row] == Kind.TOOL_USE for row in facts.blocks_of(message)):
            blocks: list[dict[str, Any]] = session.message(message)["content"]
            yield from ((message, parse_call(block)) for block in blocks if block.get("type") == "tool_use")
