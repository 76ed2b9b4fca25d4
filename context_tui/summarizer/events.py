"""What a streamed reply consists of, in any wire format."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of the summary; ``index`` is the content block it belongs to."""

    text: str
    index: int = 0


@dataclass(frozen=True, slots=True)
class Thinking:
    """A piece of reasoning: only its length in characters, as it never becomes part of a summary."""

    chars: int


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as far as the server has told so far. Fresh input, cache reads and cache writes do not overlap."""

    input_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    output_tokens: int | None = None

    @property
    def context_tokens(self) -> int:
        """The whole prompt: fresh input + cache reads + cache writes."""
        return (self.input_tokens or 0) + (self.cache_read_tokens or 0) + (self.cache_write_tokens or 0)

    def merged(self, newer: Usage) -> Usage:
        """Both reports as one: the newer number wins wherever there is one."""
        values = {f.name: getattr(newer, f.name) for f in fields(self)}
        return Usage(**{name: getattr(self, name) if value is None else value for name, value in values.items()})


@dataclass(frozen=True, slots=True)
class ReplyModel:
    """The model that answers, by its own account; not always the one asked for."""

    name: str


@dataclass(frozen=True, slots=True)
class Stop:
    """Why the model stopped, in the server's words (``refusal`` for every kind of refusal)."""

    reason: str


@dataclass(frozen=True, slots=True)
class Failure:
    """The reply broke: an ``error`` was reported in it, it is ``malformed``, or it was ``cut``: it just ended.

    Attributes:
        kind: one of the three.
        type: the server's name for the error, if it gave one.
        message: the server's text, unsanitised.
    """

    kind: str
    type: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """Something the user should know; ``restart`` means that what was received so far is void."""

    text: str
    restart: bool = False


Event = Text | Thinking | Usage | ReplyModel | Stop | Failure | Note

CUT_REASONS = frozenset({"max_tokens", "length", "model_context_window_exceeded", "pause_turn", "incomplete"})
"""Stop reasons of a reply that is not whole."""

TOOL_REASONS = frozenset({"tool_use", "tool_calls", "function_call"})
"""Stop reasons of a reply that waits for a tool."""
