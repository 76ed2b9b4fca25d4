"""What a rule does: clear or truncate bodies, drop or summarise a range of messages; and when it leaves it."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from context_tui.policies.base import param
from context_tui.policies.parts.part import Part
from context_tui.policies.parts.selecting import BodyKind

Role = Literal["user", "assistant"]


class Clear(Part):
    """``marker`` stands in place of each body, ``{lines}`` in it for how many lines went; the inputs of calls become
    empty, and thinking goes.

    With ``inputs`` the inputs of the calls whose results are cleared are emptied too.
    """

    prefix: ClassVar[str] = "clear"

    of: BodyKind = "results"
    marker: str = "[cleared]"
    inputs: bool = param(False, "empty the inputs of the calls whose results are cleared too", "")


class Truncate(Part):
    """The first ``head`` and last ``tail`` bytes of each result, with texts before, between and behind them."""

    prefix: ClassVar[str] = "truncate"

    head: int = param(250, "bytes that are kept of the beginning", "bytes", 0, 1_000_000)
    tail: int = param(250, "bytes that are kept of the end", "bytes", 0, 1_000_000)
    before: str = ""
    middle: str = "\n...\n"
    after: str = ""


class Note(Part):
    """A message that is put in: before or behind the summary (or where messages went), or at the end.

    ``{messages}`` in the text is how many messages went.
    """

    role: Role
    text: str
    at: Literal["before", "after", "end"] = "after"


class Drop(Part):
    """The messages go without a summary."""

    prefix: ClassVar[str] = "drop"

    notes: tuple[Note, ...] = ()


class Summarise(Part):
    """A summary stands in place of the messages, or at the end: a message of ``role``, prefix and suffix around it.

    ``background`` says that it is written while the agent goes on.
    """

    prefix: ClassVar[str] = "summary"

    role: Role = "user"
    at: Literal["head", "end"] = "head"
    before: str = ""
    after: str = ""
    notes: tuple[Note, ...] = ()
    sections: tuple[str, ...] = ()
    max_tokens: int = param(8_192, "most tokens that the summary may have", "tokens", 1, 100_000, of_window=True)
    background: bool = False


class OnlyIf(Part):
    """What has to be so, or nothing is done.

    ``clear_at_least`` and ``clear_more_than`` are tokens of the bodies that would be changed; ``messages`` how many
    there are, ``progress`` the share of them that would go; ``no_open_call`` that the last message has no call without
    a result.
    """

    clear_at_least: int | None = param(
        None, "do nothing unless so much would be cleared", "tokens", 0, 10_000_000, of_window=True
    )
    clear_more_than: int | None = param(
        None, "do nothing unless more than this would be cleared", "tokens", 0, 10_000_000, of_window=True
    )
    messages: int | None = Field(default=None, ge=0, le=100_000)
    progress: float | None = param(None, "do nothing unless this share of messages goes", "of messages", 0.0, 1.0)
    no_open_call: bool = False
