"""What a policy would do to a context, compactly: results with another body, a dropped head, and what is inserted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from context_tui.compaction.changes import Change as Change
from context_tui.compaction.changes import Changes
from context_tui.session.context import Context
from context_tui.session.facts import Kind
from context_tui.tokens.estimators import bytes4
from context_tui.tokens.measured import measured

if TYPE_CHECKING:
    from context_tui.session.session import Message, Session


@dataclass(frozen=True)
class Trigger:
    """Whether a runtime would act here: what it looks at, against what, and which number that is."""

    fires: bool
    reason: str
    value: int | None = None
    threshold: int | None = None
    source: str = ""


@dataclass(frozen=True)
class Insert:
    """The message that takes the place of a dropped head: prefix + summary + suffix in one text block."""

    role: str
    prefix: str
    suffix: str = ""

    def text(self, summary: str) -> str:
        """The whole text of the message."""
        return self.prefix + summary + self.suffix


@dataclass(frozen=True)
class Verdict:
    """What becomes of a message or tool_result: kept, cleared, truncated, dropped or summarised, and why."""

    verdict: str
    reason: str


@dataclass(frozen=True)
class Edit:
    """One change: ``block`` is the ordinal within the message, None for the whole message; tokens by ``bytes/4``."""

    action: str
    message: int
    block: int | None
    tool: str
    call_id: str
    tokens_before: int
    tokens_after: int
    source: str


Why = Callable[[int, int | None], str]
"""Why something is kept: position in the context, and block row (None for the message)."""
Prepare = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]
"""Turns the head's messages into what the summarizer is sent."""

GONE = {
    "recorded": "kept: cleared before, recorded",
    "inferred": "kept: cleared before, inferred from a drop of the recorded size",
}
"""The reason for a result that is out of the context already, by how that is known."""
PAST = {"clear": "cleared", "truncate": "truncated", "drop": "dropped", "summarise": "summarised"}


@dataclass(frozen=True, eq=False)
class Plan:
    """A policy's plan for a context; nothing is carried out by making one.

    ``changes`` maps block rows to new bodies; the first ``cut`` positions are dropped, for a summary where ``insert``
    says so; ``reason`` says why nothing would change. The trigger stands beside the plan and does not empty it.
    ``saved`` are the tokens that would be gone, where the policy has sums of them; without it they are counted.
    ``steps`` are the plans that it is made of, in order, where several policies run one after another.
    """

    policy: str
    params: BaseModel
    context: Context
    trigger: Trigger
    changes: Mapping[int, Change] = field(default_factory=dict)
    cut: int = 0
    insert: Insert | None = None
    reason: str = ""
    report: Mapping[str, int] | None = None
    kept: Why = lambda position, block: "kept"
    prepare: Prepare | None = None
    previous: int = -1  # block row of an earlier summary that the new one is to update
    session: Session | None = None
    saved: int | None = None
    cut_by: str = ""  # the policy that cuts, where it is one of several
    steps: tuple[Plan, ...] = ()

    @property
    def head(self) -> list[Message]:
        """The messages that it summarises, as the summarizer is to see them (before pair repair)."""
        from context_tui.compaction.apply import head_of

        return head_of(self.session, self) if self.session else []

    @property
    def previous_summary(self) -> str | None:
        """The body of an earlier summary that the new one is to update, or None."""
        from context_tui.compaction.apply import previous_summary_of

        return previous_summary_of(self.session, self) if self.session else None

    @property
    def changed(self) -> bool:
        """Whether carrying it out would change anything."""
        return bool(self.changes) or self.cut > 0

    @property
    def summarises(self) -> bool:
        """Whether it needs a summary to be carried out."""
        return self.insert is not None and self.cut > 0

    @property
    def tokens_before(self) -> int:
        """Estimated tokens of the context (``bytes/4``)."""
        return measured(self.context).total

    @property
    def tokens_after(self) -> int:
        """Estimated tokens of what would be left, without the summary that has yet to be written."""
        sums, facts, cut = measured(self.context), self.context.facts, self.cut
        if self.saved is not None:
            return sums.total - self.saved
        saved = sums.prefix[cut]
        position_of = sums.position_of if cut and self.changes else {}
        for block, change in self.changes.items():
            if not cut or position_of[facts.block_message[block]] >= cut:
                saved += self.tokens_of(block) - change.body.size // 4
        return sums.total - saved

    @property
    def boundary(self) -> int | None:
        """Message number of the first kept message; None for a plan that only clears."""
        if not self.cut:
            return None
        return self.context.order[self.cut] if self.cut < len(self.context.order) else self.context.at

    def tokens_of(self, block: int) -> int:
        """Estimated tokens of a block as it stands in the context."""
        body = self.context.replaced.get(block)
        return body.size // 4 if body else bytes4(self.context.facts, block)

    @property
    def edits(self) -> list[Edit]:
        """Every single change, in prompt order; what is cleared in a head is cleared before the head is dropped."""
        return list(self._edits())

    def _edits(self) -> Iterator[Edit]:
        facts, sums = self.context.facts, measured(self.context)
        action, by = "summarise" if self.insert else "drop", self.cut_by or self.policy
        for position, message in enumerate(self.context.order):
            if position >= self.cut and not self.changes:
                return
            left = sums.tokens[position]
            for ordinal, block in enumerate(facts.blocks_of(message)) if self.changes else ():
                change = self.changes.get(block)
                if change:
                    before, after = self.tokens_of(block), change.body.size // 4
                    left -= before - after
                    tool, call_id = facts.tool_name(block), facts.call_id(block)
                    yield Edit(change.action, message, ordinal, tool, call_id, before, after, change.policy)
            if position < self.cut:
                yield Edit(action, message, None, "", "", left, 0, by)

    def verdict_at(self, position: int, block: int | None = None) -> Verdict:
        """The verdict on the message at a position of the context, or on one of its blocks (a row)."""
        change = self.changes.get(block) if block is not None else None
        if position < self.cut:
            what = PAST["summarise" if self.insert else "drop"]
            first = f", {PAST[change.action]} first" if change else ""
            return Verdict(what, f"{what}: before the boundary at message {self.boundary}{first}")
        if change:
            what = PAST[change.action]
            return Verdict(what, f"{what}: {self.tokens_of(block or 0):,} tokens become {change.body.size // 4:,}")
        body = self.context.replaced.get(block) if block is not None else None
        return Verdict("kept", GONE[body.known] if body and body.known else self.kept(position, block))

    def verdict(self, message: int, block: int | None = None) -> Verdict:
        """The verdict on a message of the context, or on its block with this ordinal."""
        position = measured(self.context).position_of.get(message)
        if position is None:
            return Verdict("kept", "not in the context at this point")
        rows = list(self.context.facts.blocks_of(message))
        return self.verdict_at(position, None if block is None else rows[block])

    def verdicts(self) -> Iterator[tuple[int, int | None, Verdict]]:
        """Every message and tool_result of the context: message, block ordinal (None: the message), verdict."""
        facts = self.context.facts
        for position, message in enumerate(self.context.order):
            yield message, None, self.verdict_at(position)
            for ordinal, block in enumerate(facts.blocks_of(message)):
                if facts.kind[block] == Kind.TOOL_RESULT:
                    yield message, ordinal, self.verdict_at(position, block)

    def after(self) -> Context:
        """The context with the changed bodies, for a policy that works on what this one leaves; nothing is dropped."""
        changes = self.changes
        bodies = changes.bodies() if isinstance(changes, Changes) else {row: c.body for row, c in changes.items()}
        return self.context.replacing(bodies)
