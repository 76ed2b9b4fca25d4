"""From records to messages, the same for every format: merging, the leading system prompt, problems."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, ParamSpec

from context_tui.formats.kit.values import block_of, recorded_tokens, text_in, usage_or_note
from context_tui.session.facts import Compaction, Facts, MessageFlag, Problem, RecordKind, Role, Usage
from context_tui.session.jsontext import utf8_len
from context_tui.session.spans import Spans

P = ParamSpec("P")


@dataclass(frozen=True)
class Compacted:
    """A compaction that a record tells of: a full one, whose summary it is, or a micro one, beside the conversation.

    ``keeps`` is how many messages right before a full one stay in the context, behind its summary; ``clears`` are the
    ids of the calls whose results a micro one cleared. ``tokens_before`` and ``saved`` are tokens as recorded.
    """

    trigger: str | None = None
    tokens_before: int | None = None
    keeps: int = 0
    clears: tuple[str, ...] = ()
    saved: int | None = None


@dataclass(frozen=True)
class Part:
    """What one record says: blocks of a message, or with no ``role`` something beside the conversation.

    ``results`` are answers of tools: those since the last assistant message are one user message, as long as they are
    of one ``group``. Parts with the same ``message_id`` are one message. ``injected`` says that the runtime put it in,
    ``model`` and ``window`` are what is in use from here on, and ``notes`` what could not be understood in a record
    whose rest could.
    """

    role: Role | None = None
    blocks: list[dict[str, Any]] = field(default_factory=list)
    results: bool = False
    flags: int = 0
    time: int = -1
    usage: Usage | None = None
    group: Hashable = None
    notes: tuple[str, ...] = ()
    message_id: str = ""
    injected: bool = False
    model: str = ""
    window: int = 0
    compacted: Compacted | None = None


def checking(understand: Callable[P, Part]) -> Callable[P, Part]:
    """How a format understands a record, with blocks that are what they have to be, and sizes that may have been.

    A scan and what reads its text again are given this same one, so that they cannot differ.
    """

    @wraps(understand)
    def checked(*args: P.args, **more: P.kwargs) -> Part:
        part = understand(*args, **more)
        usage, notes = usage_or_note(_bounded, part.usage)
        return replace(part, blocks=[*map(block_of, part.blocks)], usage=usage, notes=(*part.notes, *notes))

    return checked


def _bounded(usage: Usage | None) -> Usage | None:
    """Usage that may have been.

    Raises:
        ValueError: one of its sizes may not.
    """
    for name in ("fresh", "cache_read", "cache_write_5m", "cache_write_1h", "output") if usage else ():
        recorded_tokens(getattr(usage, name), name)
    return usage


class MessageBuilder:
    """Facts of messages that are put together from parts; ``system`` is the session's system prompt."""

    def __init__(self) -> None:
        self.facts = Facts()
        self.system = ""
        self._changed: list[int] = []
        self._results = -1
        self._group: Hashable = None
        self._by_id: dict[str, int] = {}
        self._requests: dict[int, Usage] = {}  # of messages that more may be said of

    def add(self, part: Part, place: int, length: int, where: str) -> int:
        """Take the part that the record at *place* says; returns the message it went to, -1 for none of them."""
        facts = self.facts
        facts.model, facts.window = part.model or facts.model, part.window or facts.window
        if part.role is None:
            if part.compacted:
                self._cleared(part.compacted)
            self._note(part, facts.add_record(place, length, RecordKind.METADATA), where)
            return -1
        if part.role == Role.SYSTEM and not len(facts) and not part.flags & MessageFlag.SUMMARY:
            self.say_system(text_in(part.blocks))
            self._note(part, facts.add_record(place, length, RecordKind.METADATA), where)
            return -1
        message = self._results if part.results and self._group == part.group else self._by_id.get(part.message_id, -1)
        if message >= 0:
            self._changed.append(message)
            if part.time >= 0 and part.role == Role.ASSISTANT:
                facts.ended[message] = part.time
        else:
            summary = MessageFlag.SUMMARY if part.compacted else 0
            message = facts.add_message(part.role, part.flags | summary, part.time)
            if part.message_id:
                self._by_id[part.message_id] = message
            if part.results:
                self._results, self._group = message, part.group
            elif part.role == Role.ASSISTANT:
                self._results = -1
        for block in part.blocks:
            facts.add_block(message, block, injected=part.injected or part.role == Role.SYSTEM)
        self._note(part, facts.add_record(place, length, RecordKind.MESSAGE, message), where)
        if part.usage and (known := self._requests.get(message)):
            facts.revise_request(known, part.usage)
        elif part.usage:
            facts.add_request(message, part.usage, part.time)
            if part.message_id:
                self._requests[message] = part.usage
        if part.compacted:
            self._summarised(part.compacted, message)
        return message

    def _cleared(self, what: Compacted) -> None:
        """Take a micro compaction, before the next message."""
        facts = self.facts
        calls = (facts.call_row(call) for call in what.clears)
        rows = frozenset(row for call in calls if call >= 0 and (row := facts.call_result[call]) >= 0)
        facts.add_compaction(
            Compaction(len(facts), "micro", what.trigger, what.tokens_before, cleared=rows, saved=what.saved)
        )

    def _summarised(self, what: Compacted, summary: int) -> None:
        """Take a full compaction with its summary."""
        prefix = Spans(range(summary, summary + 1), range(max(summary - what.keeps, 0), summary))
        self.facts.add_compaction(Compaction(summary, "full", what.trigger, what.tokens_before, prefix))

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
