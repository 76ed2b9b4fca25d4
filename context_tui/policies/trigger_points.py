"""Points in a session at which a runtime checks a policy's trigger, and those at which the trigger fires."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, groupby, pairwise

from context_tui.policies.base import Params, Policy
from context_tui.policies.runtime_state import RuntimeState
from context_tui.session.facts import Facts, epoch_at, find_last_rewrite
from context_tui.session.session import Session
from context_tui.session.values import Checkpoint, Kind, MessageFlag, Role
from context_tui.tokens.accounting import find_request_before
from context_tui.tokens.running_sizes import PastReasoning, RunningSizes


def iterate_runtime_states(
    session: Session, phases: frozenset[str], checkpoint: Checkpoint = lambda: None
) -> Iterator[RuntimeState]:
    """Yield the runtime's state at each point where it checks its trigger in these phases; no context is built."""
    facts, length, sizes = session.facts, len(session), RunningSizes(session.facts, checkpoint)
    for start, end in pairwise(sorted({0, *_find_context_changes(session), length + 1})):
        sizes.move_to(end - 1)
        epoch = epoch_at(facts, end - 1)
        floor, last_reply = max(epoch.start, find_last_rewrite(facts, end - 1)), sizes.find_last_assistant(epoch, start)
        reasoning = PastReasoning(facts)
        reasoning.update(filter(sizes.is_sent.__getitem__, chain(epoch.prefix, range(epoch.start, start))))
        for at in range(start, end):
            checkpoint()
            if at > start and sizes.is_sent[at - 1]:
                reasoning.update((at - 1,))
                if facts.role[at - 1] == Role.ASSISTANT:
                    last_reply = at - 1
            if at < length and not phases & find_phases(facts, at):
                continue
            request = find_request_before(facts, at, floor)
            usage, reply = (facts.requests[request], facts.request_message[request]) if request >= 0 else (None, -1)
            believed = sizes.believed_size(epoch, at, request).tokens
            idle_from = facts.end_time[last_reply] if last_reply >= 0 else -1
            idle = (facts.time[at] - idle_from) / 1000 if at < length and idle_from >= 0 <= facts.time[at] else None
            yield RuntimeState(
                at,
                believed,
                usage,
                idle,
                at >= length,
                last_reply >= 0,
                session.window_at(at),
                facts.input_includes_cache,
                estimated_tokens=sizes.count_context(epoch, at),
                message_count=sizes.count_messages(epoch, at),
                result_count=sizes.count_results(epoch, at),
                images=sizes.count_images(epoch, at),
                reply_tokens=sizes.count_between(reply, reply + 1) if reply >= 0 else 0,
                reasoning_tokens=reasoning.tokens,
            )


def _find_context_changes(session: Session) -> set[int]:
    facts, length = session.facts, len(session)
    epochs = {max(epoch.message + 1, epoch.start) for epoch in facts.epochs if epoch.cause != "start"}
    cleared = {compaction.message for compaction in facts.compactions if compaction.kind == "micro"}
    dropped = {drop.message + 1 for drop in session.drops if drop.cleared_blocks}
    return {point for point in epochs | cleared | dropped if point <= length}


# A replay keeps one for each message.
_NO_PHASE, _USER_TURN, _BEFORE_CALL = frozenset[str](), frozenset({"user_turn"}), frozenset({"before_call"})
_AFTER_TOOLS = _BEFORE_CALL | {"after_tools"}


def find_phases(facts: Facts, at: int) -> frozenset[str]:
    """Return the phases that the runtime is in just before message *at*."""
    if facts.role[at] == Role.ASSISTANT:
        after_tools = at and any(facts.kind[block] == Kind.TOOL_RESULT for block in facts.blocks_of(at - 1))
        return _AFTER_TOOLS if after_tools else _BEFORE_CALL
    return _USER_TURN if facts.flags[at] & MessageFlag.TURN_START else _NO_PHASE


def find_first_firing(session: Session, policy: Policy, params: Params) -> int | None:
    """Return the first message before which the trigger fires (at the end, the session's length), or None if none."""
    return next((m.at for m in iterate_runtime_states(session, policy.phases) if policy.trigger(m, params).fires), None)


def find_firing_runs(
    session: Session, policy: Policy, params: Params, checkpoint: Checkpoint = lambda: None
) -> list[list[RuntimeState]]:
    """Return each run of consecutive states in which the trigger fires."""
    states = iterate_runtime_states(session, policy.phases, checkpoint)
    runs = groupby(states, key=lambda state: policy.trigger(state, params).fires)
    return [list(run) for fires, run in runs if fires]
