"""Replaying a policy along a recording, from one call to the model to the next.

The policy sees its own history, cut by what it did before; it looks in the phases in which its runtime looks, believes
the size that its runtime would believe, and forgets the last reported size where its runtime does, at a rewrite. What
the provider would have reported is the recorded size and what the history holds more or less than the recorded context,
by the calibrated size of each kind of content.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

from context_tui.compaction.changes import counts_of
from context_tui.compaction.plan import Plan, Trigger
from context_tui.errors import PlanError
from context_tui.lab.replay.amounts import NOTHING, TEXT, Amount, minus, one, plus, tokens_of
from context_tui.lab.replay.history import History
from context_tui.lab.replay.recording import Recording
from context_tui.lab.replay.result import NEVER, Call, Cut, Firing, Missed, Recorded, Replay
from context_tui.policies.base import Params, Policy
from context_tui.policies.parameters import params_for
from context_tui.policies.registry import policy_named
from context_tui.policies.runtime_state import RuntimeState
from context_tui.session.facts import Usage
from context_tui.session.session import Session

SUMMARY_DELAY = 2
"""Calls that are made while a summary is written in the background, by default."""


def replay(
    session: Session | Recording,
    policy: str,
    *,
    recorded: Recorded = "keep",
    summary_tokens: int | None = None,
    delay: int = SUMMARY_DELAY,
    window: int | None = None,
    **params: Any,
) -> Replay:
    """*policy* along *session*.

    Args:
        recorded: whether the compactions that the recording holds happen (``keep``) or not (``ignore``).
        summary_tokens: estimated tokens of a summary; default: the median of the recorded ones, else 2,000.
        delay: calls that are made while a summary is written in the background.
        window: the context window in tokens, where the user knows better than the file.

    Raises:
        PlanError: no such policy or parameter, or a number that makes no sense.
    """
    chosen = policy_named(policy)
    if isinstance(session, Session):
        session = Recording(session.with_window(window) if window is not None else session)
    return replay_with(
        session, chosen, params_for(chosen, params), recorded=recorded, summary_tokens=summary_tokens, delay=delay
    )


def replay_with(
    recording: Recording,
    policy: Policy,
    params: Params,
    *,
    recorded: Recorded = "keep",
    summary_tokens: int | None = None,
    delay: int = SUMMARY_DELAY,
    checkpoint: Callable[[], object] = lambda: None,
) -> Replay:
    """:func:`replay` with parameters that are made already, along what all replays of a session share.

    *checkpoint* is called at every call, and may raise to stop.

    Raises:
        PlanError: the policy cannot be replayed, or a number makes no sense.
    """
    if not policy.phases:
        raise PlanError(f"{policy.name} is applied by hand: it has nothing to do along a recording")
    if recorded not in ("keep", "ignore"):
        raise PlanError(f"recorded={recorded}: must be keep or ignore")
    if delay < 0 or (summary_tokens is not None and summary_tokens <= 0):
        raise PlanError("the delay of a summary must be 0 or more calls, its size 1 or more tokens")
    walk = Walk(recording, policy, params, recorded, summary_tokens or recording.summary_tokens, delay)
    return walk.run(checkpoint)


class _Step(NamedTuple):
    """A policy with its parameters, as one of several that run in order."""

    policy: Policy
    params: Params


@dataclass
class _Change:
    """What a policy did before the next call, whose size is not known yet."""

    step: _Step
    plan: Plan
    trigger: Trigger
    decided: int
    message: int
    before: Amount
    after: Amount
    ahead: Amount
    behind: Amount
    head: Amount | None  # of what is summarised
    believed: int | None


class _Flight(NamedTuple):
    """A summary that is being written in the background."""

    step: _Step
    plan: Plan
    trigger: Trigger
    believed: int | None
    decided: int
    lands: int  # number of the call before which it is there


class Walk:
    """One replay on its way."""

    def __init__(
        self,
        recording: Recording,
        policy: Policy,
        params: Params,
        recorded: Recorded,
        summary_tokens: int,
        delay: int,
    ) -> None:
        self.recording, self.policy, self.params, self.recorded = recording, policy, params, recorded
        self.summary_tokens, self.delay = summary_tokens, delay
        self.steps = [_Step(*each) for each in policy.steps(params)] or [_Step(policy, params)]
        self.history, self.without = History(recording, recorded), baseline(recording, recorded)
        self.events = deque(recording.events)
        self.due = self._due()  # the message before which none of these happens
        self.call = 0
        self.sizes: list[int] = []
        self.kept: list[int] = []
        self.firings: list[Firing] = []
        self.changes: list[_Change] = []
        self.flight: _Flight | None = None
        self.reported: tuple[int, Usage] | None = None  # of the last call: its reply, and what it would have reported
        self.missed: Missed | None = None
        self.near = -1.0  # as a share of what it takes
        self.same: tuple[Any, int] = None, 0  # what was asked for last, and the answer
        self.empty: dict[str, tuple[int, int]] = {}  # by policy: generation and length of a history it left alone

    def run(self, checkpoint: Callable[[], object]) -> Replay:
        recording = self.recording
        for message, phases in recording.looks:
            if self.due <= message:
                self._happen(message)
            self.history.grow(message)
            if not self.policy.phases.isdisjoint(phases):
                self._look(message, phases)
            if self.call < len(recording.calls) and recording.calls[self.call].message == message:
                checkpoint()
                if self.due <= message:
                    self._happen(message, silent=True)
                self._send(recording.calls[self.call])
        history = self.history
        return Replay(
            recording.session,
            self.policy.name,
            self.params,
            self.recorded,
            recording.calls,
            self.sizes,
            self.without.sizes,
            self.kept,
            self.firings,
            history.gone,
            history.recorded_gone,
            [window.tokens for window in recording.windows],
            None if self.firings else self.missed,
        )

    def _due(self) -> int:
        return self.events[0].at if self.events else NEVER

    def _happen(self, message: int, *, silent: bool = False) -> None:
        """Let happen what the recording did up to *message*, also *silent* where the call is made."""
        while self.events and self.events[0].at + (self.events[0].silent and not silent) <= message:
            event, before = self.events.popleft(), self.history.more
            self.due = self._due()
            moves = self.history.moves(event, [change.plan for change in self.changes])
            happened = self.history.take(event)
            if happened and event.order is not None:
                self.flight = None
                for change in self.changes:  # no call has the context that they changed
                    change.before = change.after = self.history.more
                continue
            moved = minus(self.history.more, before)
            moves = moves if happened else [moved] * len(moves)
            for change, (earlier, later) in zip(self.changes, pairwise([*moves, moved]), strict=True):
                change.before, change.after = plus(change.before, earlier), plus(change.after, later)

    # Looking

    def _look(self, message: int, phases: frozenset[str]) -> None:
        if self.flight is not None and self.flight.lands <= self.call:
            self._land(message)
        state, generation = self._state(message), self.history.generation
        for step in self.steps:
            if step.policy.phases.isdisjoint(phases):
                continue
            if self.history.generation != generation:
                state, generation = self._rewritten(state), self.history.generation
            trigger = step.policy.trigger(state, step.params)
            if trigger.fires:
                self._fire(step, trigger, state, message)
            elif self.near < 1.0:
                self._miss(trigger, message)

    def _miss(self, trigger: Trigger, message: int) -> None:
        """Note a trigger that does not fire, if none came nearer."""
        share = trigger.value / trigger.threshold if trigger.value is not None and trigger.threshold else 0.0
        if share > self.near:
            self.missed, self.near = Missed(message if share else None, trigger.reason), share

    def _state(self, message: int) -> RuntimeState:
        """What the runtime knows just before *message*."""
        history, facts, recording = self.history, self.recording.facts, self.recording
        reply, usage = self.reported or (-1, None)
        if usage is None or reply < history.floor:
            believed, usage = history.estimate, None
        else:
            believed = usage.context + history.sums[message] - history.sums[reply]
        spoke = history.last_assistant()
        since = facts.end_time[spoke] if spoke >= 0 else -1
        idle = (facts.time[message] - since) / 1000 if 0 <= since <= facts.time[message] else None
        return RuntimeState(
            message,
            believed,
            usage,
            idle,
            at_end=False,
            has_assistant=spoke >= 0,
            window=recording.window_at(message, self.call),
            input_includes_cache=facts.input_includes_cache,
            firing_only=True,
            estimated=history.estimate,
            messages=len(history.order),
            results=history.results,
            reply=history.sums[reply + 1] - history.sums[reply] if usage is not None else 0,
            reasoning=history.reasoning(),
        )

    def _fire(self, step: _Step, trigger: Trigger, state: RuntimeState, message: int) -> None:
        """Do what *step* does where it fires."""
        if step.policy.background(state, step.params):
            if self.flight is None:
                self._start(step, trigger, state, message)
        elif self.flight is not None and self.flight.step is step:
            self._land(message)  # it waits for what is being written, and looks no more
        elif (plan := self._planned(step, state)) is not None:
            self._carry_out(step, plan, trigger, state.believed, message, message)

    def _rewritten(self, state: RuntimeState) -> RuntimeState:
        """What the runtime knows when it has changed its history."""
        history = self.history
        left, messages = history.estimate, len(history.order)
        return replace(state, believed=left, estimated=left, messages=messages, results=history.results, rewritten=True)

    def _planned(self, step: _Step, state: RuntimeState) -> Plan | None:
        """The plan of *step*, where it changes anything."""
        history, name = self.history, step.policy.name
        generation, length = self.empty.get(name, (-1, -1))
        if generation == history.generation and not self._more_to_do(step.policy, length):
            self.empty[name] = generation, len(history.order)
            return None
        plan = step.policy.plan(history.context(), step.params, state)
        self.near = 1.0
        if plan.changed:
            return plan
        self.missed = Missed(state.at, plan.reason)
        self.empty[name] = history.generation, len(history.order)
        return None

    def _more_to_do(self, policy: Policy, length: int) -> bool:
        """Whether a history that it left alone when it had *length* messages has grown by what it waits for."""
        history, facts = self.history, self.recording.facts
        if not policy.waits_for:
            return True
        return any(facts.flags[message] & policy.waits_for for message in history.order[length:])

    def _start(self, step: _Step, trigger: Trigger, state: RuntimeState, message: int) -> None:
        plan = self._planned(step, state)
        if plan is not None:
            self.flight = _Flight(step, plan, trigger, state.believed, message, self.call + self.delay)
            if not self.delay:
                self._land(message)

    def _land(self, message: int) -> None:
        """Put the summary that was written in the background in."""
        flight = self.flight
        self.flight = None
        if flight is not None:
            self._carry_out(flight.step, flight.plan, flight.trigger, flight.believed, flight.decided, message)

    def _carry_out(
        self, step: _Step, plan: Plan, trigger: Trigger, believed: int | None, decided: int, message: int
    ) -> None:
        history, before = self.history, self.history.more
        head = self.recording.content_of(plan.head_messages, plan.context.replacements) if plan.summarises else None
        first = history.carry_out(plan, self.summary_tokens, decided)
        self.changes.append(
            _Change(
                step,
                plan,
                trigger,
                decided,
                message,
                before,
                history.more,
                *history.split(first),
                head,
                believed,
            )
        )

    # Sending

    def _send(self, call: Call) -> None:
        """The next call: what the provider would have reported of it."""
        recording, history = self.recording, self.history
        weights = recording.weights_at(call.request)
        size = self._size(history.more, weights)
        for change in self.changes:
            self._tell(change, size, weights)
        self.changes.clear()
        self.kept.append(self._kept(size, weights))
        self.sizes.append(size)
        history.changed_from = None
        if recording.recorded[self.call] is not None:
            usage = recording.facts.requests[call.request]
            fresh = min(usage.fresh, size)
            told = Usage(fresh, size - fresh, output=usage.output, output_trusted=usage.output_trusted)
            self.reported = call.message, told
        self.call += 1

    def _size(self, more: Amount, weights: tuple[float, ...]) -> int:
        """Tokens of the next call, whose context holds so much more than the recorded one."""
        size, held = self.without.sizes[self.call], self.without.more[self.call]
        return max(size + tokens_of(more if held is NOTHING else minus(more, held), weights), 0)

    def _kept(self, size: int, weights: tuple[float, ...]) -> int:
        """Tokens at the beginning that are the same as in the call before."""
        if not self.sizes:
            return 0
        first = self.history.changed_from
        same = min(size, self.sizes[-1])
        return same if first is None else min(same, self._same(size, *self.history.split(first), weights))

    def _same(self, size: int, ahead: Amount, behind: Amount, weights: tuple[float, ...]) -> int:
        """Tokens of a context before the first message that changed. What is not in the file is taken to stand in front
        as far as the first call had it, and behind that as far as it came later.
        """
        asked = size, ahead, behind, weights
        if self.same[0] != asked:
            most = self.recording.not_in_file + tokens_of(ahead, weights)
            self.same = asked, max(min(size - tokens_of(behind, weights), most), 0)
        return self.same[1]

    def _tell(self, change: _Change, size: int, weights: tuple[float, ...]) -> None:
        """A firing, now that the *size* of the first call with it is known."""
        plan, last = change.plan, change.after is self.history.more
        after = size if last else self._size(change.after, weights)
        asked = read = written = 0
        if change.head is not None:
            asked, read = len(plan.head_messages), tokens_of(change.head, weights)
            written = tokens_of(one(TEXT, self.summary_tokens), weights)
        cleared, truncated = counts_of(plan.changes)
        kept = self._same(after, change.ahead, change.behind, weights)
        self.firings.append(
            Firing(
                self.call,
                change.message,
                change.decided,
                change.step.policy.name,
                plan,
                self._size(change.before, weights),
                after,
                Cut(kept, read, written),
                cleared,
                truncated,
                plan.messages_dropped - asked,
                asked,
                change.believed,
                change.trigger.reason,
            )
        )


class Baseline(NamedTuple):
    """A recording without a policy: by call, tokens of its context, and what this holds more than the recorded one."""

    sizes: list[int]
    more: list[Amount]


def baseline(recording: Recording, recorded: Recorded) -> Baseline:
    """What there is without a policy: the recording itself, or that with its compactions undone.

    What came with a compaction that is undone goes with it, also what the file does not hold: the call after it has the
    size of the one before it and what was appended, calibrated, and from there on it grows as the recorded ones do.
    """
    if recorded not in recording.memo:
        recording.memo[recorded] = _undone(recording) if recorded == "ignore" else _as_recorded(recording)
    found: Baseline = recording.memo[recorded]
    return found


def _as_recorded(recording: Recording) -> Baseline:
    return Baseline(recording.sizes, [NOTHING] * len(recording.calls))


def _undone(recording: Recording) -> Baseline:
    history, events = History(recording, "ignore"), iter(recording.events)
    found, event = Baseline([], []), next(events, None)
    beside = length = 0  # tokens that are in no message, and messages of the call before
    for call, size in zip(recording.calls, recording.sizes, strict=True):
        undone = False
        while event is not None and event.at <= call.message:
            history.take(event)
            undone |= event.compaction
            event = next(events, None)
        history.grow(call.message)
        weights = recording.weights_at(call.request)
        known = size + tokens_of(history.more, weights)
        if undone and found.sizes:
            appended = recording.content_of(history.order[length:], {})
            beside = found.sizes[-1] + tokens_of(appended, weights) - known
        found.sizes.append(max(known + beside, 0))
        found.more.append(history.more)
        length = len(history.order)
    return found
