"""Results of a replay: the size of the context at each call, and the firings.

Sizes are tokens as the provider would have reported them: the recorded size of the call, and the calibrated size of
what the policy has taken out of or put into the context. Without a policy that fires they are the recorded ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from context_tui.compaction.plan import Plan
from context_tui.session.session import Session
from context_tui.session.values import value_class

CompactionHandling = Literal["keep", "ignore"]
"""What becomes of the compactions that the recording holds: they happen as recorded, or not at all."""

NEVER_REMOVED = 1 << 60
"""The message at which what never went went."""


class ModelCall(NamedTuple):
    """One call to the model: ``message`` is its reply, ``request`` the row of its recorded usage (-1: none)."""

    message: int
    request: int


class CacheCut(NamedTuple):
    """Where a context stops being the one that the call before it had, for a prompt cache.

    ``unchanged_prefixes`` are the tokens before the first change; ``summarizer_input`` and ``summarizer_output`` are those of a call to a summarizer, 0
    where there was none.
    """

    unchanged_prefix: int
    summarizer_input: int = 0
    summarizer_output: int = 0


@value_class()
class Firing:
    """One time that a policy changed the context.

    Attributes:
        call: number of the first call that had the changed context, in ``Replay.calls``.
        message: the message before which it took effect.
        decided: the message before which it was decided; earlier than ``message`` for a summary in the background.
        policy: the policy that did it, of a chain the step.
        plan: its plan, made at ``decided``: what it changes, and why the rest is kept.
        before: tokens of the call without it.
        after: tokens of the call with it, the summary too.
        cut: what a prompt cache is left with.
        cleared: results that were cleared; ``truncated`` likewise.
        dropped: messages that went without a summary; ``summarised`` those that a summary stands for.
        believed: tokens that the runtime believed the context to have; None where it looks at none.
        reason: why it fired, in words.
    """

    call: int
    message: int
    decided: int
    policy: str
    plan: Plan
    before: int
    after: int
    cache_cut: CacheCut
    cleared: int
    truncated: int
    dropped: int
    summarised: int
    believed: int | None
    reason: str


def find_changed_rows(plan: Plan) -> frozenset[int]:
    """The rows of the blocks that a plan changes or drops."""
    facts, order = plan.context.facts, plan.context.order
    dropped = (order[position] for each in plan.dropped_ranges for position in each)
    return frozenset(plan.changes) | {row for message in dropped for row in facts.blocks_of(message)}


class ReplayTotals(NamedTuple):
    """Sums over all calls, in tokens: ``sent`` by the policy, ``saved`` against the recording, and the ``peak``.

    ``overflows`` are the calls whose context is larger than the window.
    """

    sent: int
    saved: int
    peak: int
    overflows: int


class NearestMiss(NamedTuple):
    """Why a policy never did anything, in words, and before which message it came nearest to it; None: nowhere."""

    message: int | None
    reason: str


@dataclass(frozen=True, eq=False)
class Replay:
    """A policy with its parameters along a session.

    Attributes:
        session: the recording.
        policy: the policy's name.
        params: its parameters (a pydantic model).
        recorded: what became of recorded compactions.
        calls: every call to the model, in order.
        sizes: by call, tokens of its context under the policy.
        baseline: by call, tokens of the same context without the policy (with recorded compactions kept or undone).
        kept: by call, tokens at its beginning that are the same as those of the call before it; 0 for the first.
        firings: what the policy did, in order.
        gone: row of a block of the session to the message before which the policy took its content away (cleared,
            truncated, dropped or summarised). What is not in it never went, or went with a recorded compaction: see
            ``removed_by_recording``.
        recorded_gone: the same for what recorded compactions took, where these are kept.
        windows: by call, the context window in tokens.
        missed: why there are no firings; None where there are, and where the policy never looked.
    """

    session: Session
    policy: str
    params: Any
    recorded: CompactionHandling
    calls: Sequence[ModelCall]
    sizes: Sequence[int]
    baseline: Sequence[int]
    unchanged_prefixes: Sequence[int]
    firings: Sequence[Firing]
    removed_by_policy: Mapping[int, int]
    removed_by_recording: Mapping[int, int]
    windows: Sequence[int]
    nearest_miss: NearestMiss | None = None

    @property
    def totals(self) -> ReplayTotals:
        """Sums over all calls."""
        sent = sum(self.sizes)
        over = sum(size > window for size, window in zip(self.sizes, self.windows, strict=True))
        return ReplayTotals(sent, sum(self.baseline) - sent, max(self.sizes, default=0), over)
