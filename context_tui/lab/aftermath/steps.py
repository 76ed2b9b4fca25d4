"""Steps of a recorded run: for each call to the model, its edits, its repeats, and whether a person corrected it.

A *repeat* is a call of a tool with the same target as an earlier call, although nothing changed the target since: lines
of a file are read again and no edit in the session changed the file, or a command line is run again and no file was
edited at all. A *repeated failure* is a failed call with the same target as an earlier failed call. A *correction* is a
message that a person typed and that begins with one of ``CORRECTION_FORMS``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from context_tui.lab.regret.tool_calls import CallEffect, analyze_call, get_command_line
from context_tui.lab.regret.tools import classify_tool
from context_tui.session.jsontext import compact_text
from context_tui.session.session import Session
from context_tui.session.values import BlockFlag, Checkpoint, Kind, MessageFlag, Role
from context_tui.text.files import read_toml

RepeatKind = Literal["read", "command", "failure"]

CORRECTION_FORMS: list[str] = read_toml("context_tui.lab.aftermath", "corrections.toml")["forms"]
"""Beginnings of typed messages that negate or redirect, in lower case."""
_CORRECTION = re.compile(rf"(?:{'|'.join(map(re.escape, CORRECTION_FORMS))})(?!\w)")


class Repeat(NamedTuple):
    """A call that repeats an earlier one: its kind, its target, and the message of the earlier result."""

    kind: RepeatKind
    target: str
    earlier: int


@dataclass
class Step:
    """A call to the model, with the effects of its reply.

    Attributes:
        message: the reply.
        distance: number of calls since the turn began; 0 for the first.
        tokens: recorded tokens that the call sent and received; 0 if unknown.
        has_edit: whether the reply changes a file.
        is_corrected: whether this is the last call before a typed message that corrects the agent.
    """

    message: int
    distance: int
    tokens: int = 0
    has_edit: bool = False
    repeats: list[Repeat] = field(default_factory=list)
    is_corrected: bool = False


class _Target(NamedTuple):
    """The last call with a target: the message of its result, and the number of edits before it."""

    message: int
    edits: int


def build_steps(session: Session, checkpoint: Checkpoint = lambda: None) -> list[Step]:
    """Return a step for each reply of the model, in order, reading all text of the session."""
    return _StepBuilder(session, checkpoint).build()


class _StepBuilder:
    def __init__(self, session: Session, checkpoint: Checkpoint) -> None:
        self.session, self.facts, self.checkpoint = session, session.facts, checkpoint
        sizes = (usage.context + usage.output for usage in self.facts.requests)
        self.tokens = dict(zip(self.facts.request_message, sizes, strict=True))
        self.steps: list[Step] = []
        self.edits: list[CallEffect] = []
        self.fetched: dict[tuple[RepeatKind, str], _Target] = {}
        self.calls: dict[int, tuple[Step, RepeatKind, str, CallEffect]] = {}  # by row of the tool_use

    def build(self) -> list[Step]:
        facts, distance = self.facts, 0
        for message in range(len(self.session)):
            self.checkpoint()
            flags = facts.flags[message]
            if flags & MessageFlag.NOT_SENT:
                continue
            if flags & MessageFlag.TURN_START:
                distance = 0
                if self.steps and self._is_correction(message):
                    self.steps[-1].is_corrected = True
            if facts.role[message] == Role.ASSISTANT:
                if not flags & MessageFlag.SYNTHETIC:
                    self.steps.append(Step(message, distance, self.tokens.get(message, 0)))
                    distance += 1
                    self._read_reply(message)
            else:
                self._read_results(message)
        return self.steps

    def _is_correction(self, message: int) -> bool:
        facts = self.facts
        for row, block in zip(facts.blocks_of(message), self.session.content.blocks(message), strict=False):
            if facts.kind[row] == Kind.TEXT and not facts.block_flags[row] & BlockFlag.INJECTED:
                return _CORRECTION.match(str(block.get("text") or "").lstrip(" \n\"'([").lower()) is not None
        return False

    def _read_reply(self, message: int) -> None:
        facts, step = self.facts, self.steps[-1]
        for row, block in zip(facts.blocks_of(message), self.session.content.blocks(message), strict=False):
            if facts.kind[row] != Kind.TOOL_USE:
                continue
            tool, arguments = facts.tool_name(row), block.get("input")
            effect = analyze_call(tool, arguments)
            if effect.changed_paths:
                step.has_edit = True
            kind, target = _find_target(tool, arguments, effect)
            self.calls[row] = step, kind, target, effect

    def _read_results(self, message: int) -> None:
        facts = self.facts
        for row in facts.blocks_of(message):
            if facts.kind[row] != Kind.TOOL_RESULT or (call := self.calls.pop(facts.find_tool_use(row), None)) is None:
                continue
            step, kind, target, effect = call
            if facts.block_flags[row] & BlockFlag.ERROR:
                self._add_repeat(step, "failure", target, message, self.fetched.get(("failure", target)))
            elif effect.changed_paths:
                self.edits.append(effect)
            elif target:
                known = self._find_fetched(kind, target, effect)
                edits = self.edits[known.edits :] if known else []
                if kind == "read":
                    edits = [edit for edit in edits if edit.concerns(effect.read_paths)]
                self._add_repeat(step, kind, target, message, None if edits else known)

    def _find_fetched(self, kind: RepeatKind, target: str, effect: CallEffect) -> _Target | None:
        whole_file = f"read {effect.read_paths[0]}" if len(effect.read_paths) == 1 else target
        known = [found for key in (target, whole_file) if (found := self.fetched.get((kind, key)))]
        return max(known, default=None)

    def _add_repeat(self, step: Step, kind: RepeatKind, target: str, message: int, known: _Target | None) -> None:
        if target and known is not None:
            step.repeats.append(Repeat(kind, target, known.message))
        self.fetched[kind, target] = _Target(message, len(self.edits))


def _find_target(tool: str, arguments: Any, effect: CallEffect) -> tuple[RepeatKind, str]:
    """Return the kind of repeat that a call can be, and a text that identifies its target, empty if it has none."""
    inputs = arguments if isinstance(arguments, dict) else {"input": arguments}
    verb = classify_tool(tool, inputs)
    if verb == "run":
        command = " ".join(get_command_line(inputs).split())
        return ("read", effect.fetch_key) if effect.read_paths and effect.fetch_key else ("command", command)
    if verb in ("read", "search") and effect.fetch_key:
        return ("read", effect.fetch_key) if effect.read_paths else ("command", effect.fetch_key)
    return "command", compact_text([tool, inputs]) if effect.changed_paths else ""
