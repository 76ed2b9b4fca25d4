"""A session: an immutable view of facts, with a reader that fetches text on demand."""

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
    """Interface for reading a session's text on demand. Blocks come in the same order as in the facts."""

    def blocks(self, message: int) -> list[dict[str, Any]]:
        """Return a message's blocks, in the form of the Messages API."""

    def raw(self, record: int) -> str:
        """Return a record's stored text, for display next to a problem."""

    def system(self) -> str:
        """Return the system prompt, or "" if it is not in the file."""

    def tools(self) -> list[dict[str, Any]]:
        """Return the tool schemas in the form of the Messages API, or [] if the file has none."""

    def is_unchanged(self) -> bool:
        """Return whether the data read so far is unchanged, apart from appended data.

        Raises Error if the file was deleted or can no longer be read.
        """


class FileState(NamedTuple):
    """A whole file as the agent last knew it: its size in bytes and lines, and the message that read or wrote it."""

    size: int
    lines: int
    message: int
    is_written: bool


@runtime_checkable
class FileStates(Protocol):
    """Interface of content that records which files the agent read or wrote as a whole."""

    def read_file_states(self, messages: Iterable[int]) -> dict[str, FileState]:
        """Map the path of each file to its last state that is recorded with the results in *messages*."""

    def read_skill_sizes(self, end: int) -> list[int]:
        """Return the sizes in bytes of the skills that were loaded before message *end*."""


class ContentOverlay:
    """Content that replaces the messages of other content, and keeps its system prompt and tools."""

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
    """A list entry for a session, which need not have been read.

    Attributes:
        id: the part of the session's name after ``PATH#``, or "".
        parent: file of the parent session, or ``PATH#ID`` if it is in the same file.
        time: time of the last change, in epoch seconds.
        note: a note to the user about a choice that the reader made, or "".
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

    @property
    def spec(self) -> str:
        """Name of the session on the command line: ``PATH``, or ``PATH#ID``."""
        return f"{self.path}#{self.id}" if self.id else self.path


@dataclass(frozen=True, eq=False)
class Session:
    """A session that was recorded, or derived from another one by a plan.

    ``length`` and ``block_count`` are the numbers of messages and blocks, while the facts, which grow with the file,
    may contain more. ``origin`` names the policies of applied plans, and ``peaks_before`` are the peaks of the session
    that this one was derived from.
    """

    facts: Facts
    content: Content
    info: SessionInfo
    length: int
    window_override: int | None = None
    origin: str = ""
    peaks_before: Peaks | None = field(default=None, repr=False)
    block_count: int = field(init=False, repr=False)
    _contexts: dict[int, Context] = field(default_factory=dict, repr=False)
    _windows: dict[tuple[int | None, str | None], Window] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "block_count", len(self.facts.kind))

    def __len__(self) -> int:
        return self.length

    @cached_property
    def peaks(self) -> Peaks:
        """The largest recorded context of each model."""
        return Peaks(self.facts, self.peaks_before)

    @property
    def window(self) -> Window:
        """The context window at the end of the session."""
        return self.window_at(self.length)

    def window_at(self, at: int) -> Window:
        """Return the context window of the model that is in use at message *at*."""
        key = (self.window_override, model_at(self.facts, at))
        if key not in self._windows:
            self._windows[key] = window_at(self.facts, at, self.peaks, self.window_override)
        return self._windows[key]

    @property
    def drops(self) -> list[Drop]:
        """The falls of the recorded context size between requests, each with its explanation if one was found."""
        return [drop for drop in find_drops(self.facts) if drop.message < self.length]

    def with_window(self, tokens: int | None) -> Session:
        """Return the session with a context window given by the user, or with its own if *tokens* is None.

        Raises PlanError if *tokens* is not positive.
        """
        if tokens is not None and tokens <= 0:
            raise PlanError(f"window={tokens}: must be a positive number of tokens")
        return replace(self, window_override=tokens)

    def context_at(self, at: int | None = None) -> Context:
        """Return the context before message *at* (default: the end), or raise PlanError if the session lacks it."""
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
        """Return message *index* with its full text, in the form of the Messages API."""
        role = "assistant" if self.facts.role[index] == Role.ASSISTANT else "user"
        return {"role": role, "content": self.content.blocks(index)}

    def to_messages(self, at: int | None = None) -> list[Message]:
        """Return the context before message *at* (default: the end) as Messages API messages with their full text."""
        return self.messages_in(self.context_at(at))

    def messages_in(self, context: Context, order: Sequence[int] | None = None) -> list[Message]:
        """Return the messages in *order* (default: all) with their full text and the replacements in *context*."""
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
        """The number of turns in the session."""
        return sum(bool(flags & MessageFlag.TURN_START) for flags in self.facts.flags[: self.length])
