"""Results of a replay: the size of the context at each call, the firings, and texts that describe them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from context_tui.compaction.plan import Plan
from context_tui.lab.replay.tuple_list import TupleList
from context_tui.policies.base import Params
from context_tui.policies.parameters import format_assignments
from context_tui.policies.versions import format_no_firing
from context_tui.session.session import Session
from context_tui.session.values import value_class

CompactionHandling = Literal["keep", "ignore"]
"""Handling of recorded compactions in a replay: they happen, or are ignored."""

NEVER_REMOVED = 1 << 60
"""Message number for content that is never removed."""


class ModelCall(NamedTuple):
    """A model call: ``message`` is the reply, and ``request`` the row of its recorded usage, or -1 if it has none."""

    message: int
    request: int


class CacheCut(NamedTuple):
    """The token counts that decide a firing's cost: the prefix before the first change, and the summarizer's call."""

    unchanged_prefix: int
    summarizer_input: int = 0
    summarizer_output: int = 0


@value_class()
class Firing:
    """One change that a policy makes to the context.

    Attributes:
        call: number of the first call with the changed context, in ``Replay.calls``.
        message: the message before which it took effect.
        decided: the message before which the trigger fired; earlier than ``message`` for a background summary.
        policy: the policy that fired, or the step of a chain.
        stored_plan: its plan, perhaps in compact form; ``plan`` is the plan itself, made at ``decided``.
        before, after: tokens of the call without the firing, and with it (including the summary).
        cache_cut: tokens that decide the cost.
        cleared, truncated: numbers of cleared and of truncated results.
        dropped, summarised: numbers of messages removed without a summary, and replaced by one.
        believed: the size in tokens that the trigger compared, or else the believed size of the context.
    """

    call: int
    message: int
    decided: int
    policy: str
    stored_plan: Plan | Callable[[], Plan]
    before: int
    after: int
    cache_cut: CacheCut
    cleared: int
    truncated: int
    dropped: int
    summarised: int
    believed: int
    reason: str

    @property
    def plan(self) -> Plan:
        return self.stored_plan if isinstance(self.stored_plan, Plan) else self.stored_plan()


class Firings(Sequence[Firing]):
    """The firings of a replay, with their numbers in an array, because there may be one for every call."""

    def __init__(self) -> None:
        self._numbers: TupleList[tuple[int, ...]] = TupleList(tuple, 13)
        self._others: list[tuple[str, Plan | Callable[[], Plan], str]] = []

    def __len__(self) -> int:
        return len(self._others)

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[each] for each in range(len(self))[number]]
        numbers, (policy, plan, reason) = self._numbers[number], self._others[number]
        call, message, decided, before, after, *cut, cleared, truncated, dropped, summarised, believed = numbers
        counts = cleared, truncated, dropped, summarised, believed
        return Firing(call, message, decided, policy, plan, before, after, CacheCut(*cut), *counts, reason)

    def append(self, firing: Firing) -> None:
        """Append a firing."""
        sizes = firing.before, firing.after, *firing.cache_cut
        counts = firing.cleared, firing.truncated, firing.dropped, firing.summarised, firing.believed
        self._numbers.append((firing.call, firing.message, firing.decided, *sizes, *counts))
        self._others.append((firing.policy, firing.stored_plan, firing.reason))


def find_changed_rows(plan: Plan) -> frozenset[int]:
    """Return the rows of all blocks that a plan changes or drops."""
    facts, order = plan.context.facts, plan.context.order
    dropped = (order[position] for span in plan.dropped_ranges for position in span)
    return frozenset(plan.changes) | {row for message in dropped for row in facts.blocks_of(message)}


class ReplayTotals(NamedTuple):
    """Tokens ``sent`` in all calls and ``saved`` compared with no policy, and tokens in the largest call (``peak``).

    ``overflows`` counts calls whose context is larger than the window.
    """

    sent: int
    saved: int
    peak: int
    overflows: int


class NearestMiss(NamedTuple):
    """Message before which a policy came closest to firing (None if it was never close), and why it never fired."""

    message: int | None
    reason: str


@dataclass(frozen=True, eq=False)
class Replay:
    """The result of replaying a policy along a session.

    Attributes:
        policy, params: the policy's name and its parameters (a pydantic model).
        recorded: whether recorded compactions were kept or ignored.
        calls: every call to the model, in order.
        sizes, baseline: size of the context in tokens at each call, with the policy and without one.
        unchanged_prefixes: tokens at the start of each call that are the same as in the previous one.
        removed_by_policy, removed_by_recording: block rows mapped to the message before which the content was removed
            (cleared, truncated, dropped or summarised) by the policy, or by a kept recorded compaction.
        windows: context window in tokens at each call.
        nearest_miss: why the policy never fired, or None if it fired or no checkpoint was reached.
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
        """Token totals over all calls."""
        tokens_sent = sum(self.sizes)
        overflow_count = sum(size > window for size, window in zip(self.sizes, self.windows, strict=True))
        return ReplayTotals(tokens_sent, sum(self.baseline) - tokens_sent, max(self.sizes, default=0), overflow_count)


REPLAY_LIMITS_TEXT = (
    "A replay shows what would have been dropped and whether the recorded run needed it later, not what an agent with",
    "that context would have done. Re-fetches are a lower bound: the recorded agent still had the content.",
)


def format_replay_label(replay: Replay) -> str:
    """Format the name of a replay's policy, followed by the parameters that differ from the defaults."""
    return format_policy_label(replay.policy, replay.params)


def format_policy_label(policy: str, params: Params) -> str:
    """Format a policy's name, followed by the parameters that differ from the defaults."""
    return " ".join([policy, *format_assignments(find_changed_params(params))])


def find_changed_params(params: Params) -> dict[str, Any]:
    """Map the names of the parameters that differ from the defaults to their JSON values."""
    values, defaults = params.model_dump(mode="json"), type(params)().model_dump(mode="json")
    return {name: value for name, value in values.items() if value != defaults.get(name)}


def format_never_fired(replay: Replay | None) -> str:
    """Explain why a policy never fires in a session."""
    if replay is None or replay.nearest_miss is None:
        return "never fires: the recording has no point at which its runtime decides"
    number, reason = replay.nearest_miss
    never_text = format_no_firing(replay.policy, replay.session) if replay.recorded == "keep" else "never fires"
    return f"{never_text};{'' if number is None else f' nearest before #{number:,}:'} {reason}"


def format_firing(firing: Firing, with_policy: bool = False) -> str:
    """Describe how many blocks and messages a firing changed, optionally preceded by the policy's name."""
    counts = ((getattr(firing, action), action) for action in ("cleared", "truncated", "dropped", "summarised"))
    text = ", ".join(f"{count:,} {action}" for count, action in counts if count)
    return f"{text} ({firing.policy})" if with_policy else text
