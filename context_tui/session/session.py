"""Session: an immutable view of facts, with a reader that fetches text on demand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol, runtime_checkable

from context_tui.errors import PlanError
from context_tui.session.blocks import replace_texts
from context_tui.session.context import Context, context_at
from context_tui.session.drops import find_drops
from context_tui.session.facts import Drop, Facts
from context_tui.session.values import MessageFlag, Role
from context_tui.session.window import Peaks, Window, model_at, window_at

Message = dict[str, Any]
"""Message as in the Messages API: ``role`` and ``content``."""


class Content(Protocol):
    """Full text on demand, in the order of the blocks in the facts."""

    def blocks(self, message: int) -> list[dict[str, Any]]:
        """Return the blocks of a message, as in the Messages API."""

    def raw(self, record: int) -> str:
        """Return the text of a record, to display a problem."""

    def system(self) -> str:
        """Return the system prompt; empty if it is not in the file."""

    def tools(self) -> list[dict[str, Any]]:
        """Return the tool schemas in the file, as in the Messages API."""

    def is_unchanged(self) -> bool:
        """Return whether the data that was read is unchanged, appended data aside; raises Error if it is gone."""


class FileState(NamedTuple):
    """Whole file as an agent's program last knew it: its bytes and lines, and the message that read or wrote it."""

    size: int
    lines: int
    message: int
    is_written: bool


@runtime_checkable
class FileStates(Protocol):
    """Content that records the files that an agent read or wrote as a whole."""

    def read_file_states(self, messages: Iterable[int]) -> dict[str, FileState]:
        """Return the last state of each file, by path, as the results in *messages* record it."""


class ContentOverlay:
    """Content that overrides the messages of another content."""

    def __init__(self, recorded: Content) -> None:
        self.recorded = recorded

    def raw(self, record: int) -> str:
        return self.recorded.raw(record)

    def system(self) -> str:
        return self.recorded.system()

    def tools(self) -> list[dict[str, Any]]:
        return self.recorded.tools()

    def is_unchanged(self) -> bool:
        return self.recorded.is_unchanged()


@dataclass(frozen=True)
class SessionInfo:
    """Description of a session that may be unread.

    Attributes:
        id: follows ``PATH#`` in the name of the session.
        parent: file of the parent session, or ``PATH#ID`` in the same file.
        time: in epoch seconds.
        note: a choice that the reader made about the file.
    """

    path: str
    format: str
    id: str = ""
    title: str = ""
    parent: str = ""
    time: float = 0.0
    bytes: int = 0
    cwd: str = ""
    note: str = ""


@dataclass(frozen=True, eq=False)
class Session:
    """Recorded session, or a session derived from it by a plan.

    ``length`` is the number of messages; the facts may contain more. ``origin`` names the policies of the plans, and
    ``peaks_before`` are the peaks of the session that it derives from.
    """

    facts: Facts
    content: Content
    info: SessionInfo
    length: int
    window_override: int | None = None
    origin: str = ""
    peaks_before: Peaks | None = field(default=None, repr=False)
    _contexts: dict[int, Context] = field(default_factory=dict, repr=False)
    _windows: dict[tuple[int | None, str | None], Window] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return self.length

    @cached_property
    def peaks(self) -> Peaks:
        """Largest recorded contexts."""
        return Peaks(self.facts, self.peaks_before)

    @property
    def window(self) -> Window:
        """Context window at the end of the session."""
        return self.window_at(self.length)

    def window_at(self, at: int) -> Window:
        """Return the context window of the model in use at message *at*."""
        key = (self.window_override, model_at(self.facts, at))
        if key not in self._windows:
            self._windows[key] = window_at(self.facts, at, self.peaks, self.window_override)
        return self._windows[key]

    @property
    def drops(self) -> list[Drop]:
        """Falls of the recorded size that no recorded compaction explains."""
        return [drop for drop in find_drops(self.facts) if drop.message < self.length]

    def with_window(self, tokens: int | None) -> Session:
        """Return the session with a window given by the user, or None; raises PlanError if it is not positive."""
        if tokens is not None and tokens <= 0:
            raise PlanError(f"window={tokens}: must be a positive number of tokens")
        return replace(self, window_override=tokens)

    def context_at(self, at: int | None = None) -> Context:
        """Return the context before message *at* (default: the end); raises PlanError if that is outside."""
        point = self.length if at is None else at
        if not 0 <= point <= self.length:
            bounds = f"messages 0 to {self.length - 1:,}" if self.length else "no messages"
            raise PlanError(f"message {point:,} is not in the session; it has {bounds}")
        context = self._contexts.get(point)
        if context is None:
            if len(self._contexts) > 8:
                self._contexts.clear()
            context = self._contexts[point] = context_at(self.facts, point, content=self.content)
        return context

    def message(self, index: int) -> Message:
        """Return message *index* with its full text, as in the Messages API."""
        role = "assistant" if self.facts.role[index] == Role.ASSISTANT else "user"
        return {"role": role, "content": self.content.blocks(index)}

    def to_messages(self, at: int | None = None) -> list[Message]:
        """Return the context before message *at* (default: the end) with its full text, as in the Messages API."""
        return self.messages_in(self.context_at(at))

    def messages_in(self, context: Context, order: Sequence[int] | None = None) -> list[Message]:
        """Return the messages of *context* (or of *order*) with its replaced bodies."""
        messages = []
        for index in context.order if order is None else order:
            message = self.message(index)
            if context.replacements:
                bodies = enumerate(map(context.replacements.get, self.facts.blocks_of(index)))
                message["content"] = replace_texts(message["content"], {at: body.text for at, body in bodies if body})
            messages.append(message)
        return messages

    @property
    def turns(self) -> int:
        """Number of turns in the session."""
        return sum(bool(flags & MessageFlag.TURN_START) for flags in self.facts.flags[: self.length])
