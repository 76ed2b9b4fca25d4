"""From records to messages, the same for every format: merging, the leading system prompt, problems."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from context_tui.formats.values import recorded_tokens, text_in
from context_tui.session.facts import Facts, MessageFlag, Problem, RecordKind, Role, Usage
from context_tui.session.jsontext import utf8_len


@dataclass(frozen=True)
class Part:
    """What one record says: blocks of a message.

    ``results`` are answers of tools: those since the last assistant message are one user message, as long as they are
    of one ``group``. ``notes`` are what could not be understood in a record whose rest could.
    """

    role: Role
    blocks: list[dict[str, Any]] = field(default_factory=list)
    results: bool = False
    flags: int = 0
    time: int = -1
    usage: Usage | None = None
    group: Hashable = None
    notes: tuple[str, ...] = ()


class Assembly:
    """Facts of messages that are put together from parts; ``system`` is the session's system prompt."""

    def __init__(self) -> None:
        self.facts = Facts()
        self.system = ""
        self._changed: list[int] = []
        self._results = -1
        self._group: Hashable = None

    def add(self, part: Part, place: int, length: int, where: str) -> int:
        """Take the part that the record at *place* says; returns the message it went to, -1 for the system prompt."""
        facts = self.facts
        if part.role == Role.SYSTEM and not len(facts) and not part.flags & MessageFlag.SUMMARY:
            self.say_system(text_in(part.blocks))
            self._note(part, facts.add_record(place, length, RecordKind.SIDE), where)
            return -1
        if part.results and self._results >= 0 and self._group == part.group:
            message = self._results
            self._changed.append(message)
        else:
            message = facts.add_message(part.role, part.flags, part.time)
            if part.results:
                self._results, self._group = message, part.group
            elif part.role == Role.ASSISTANT:
                self._results = -1
        for block in part.blocks:
            facts.add_block(message, block, injected=part.role == Role.SYSTEM)
        self._note(part, facts.add_record(place, length, RecordKind.MESSAGE, message), where)
        if part.usage:
            facts.add_request(message, part.usage, part.time)
        return message

    def first_changed(self, before: int) -> int | None:
        """The lowest message below *before* that was added to since this was last asked."""
        changed, self._changed = min(self._changed, default=before), []
        return changed if changed < before else None

    def add_problem(self, place: int, length: int, where: str, what: str) -> None:
        """Take a record that cannot be read or understood."""
        row = self.facts.add_record(place, length, RecordKind.PROBLEM)
        self.facts.problems.append(Problem(where, what, row))

    def say_window(self, value: Any) -> None:
        """Take the context window that a request names."""
        try:
            self.facts.window = recorded_tokens(value, "context_window") or None
        except ValueError as error:
            self.facts.problems.append(Problem("request", str(error)))

    def say_system(self, text: str) -> None:
        """Add to the session's system prompt."""
        self.system = f"{self.system}\n\n{text}" if self.system and text else self.system or text
        self.facts.system_bytes = utf8_len(self.system)

    def _note(self, part: Part, row: int, where: str) -> None:
        self.facts.problems.extend(Problem(where, note, row) for note in part.notes)
