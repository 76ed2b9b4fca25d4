"""State of a runtime at the moment it checks its trigger, and comparisons that several triggers share."""

from __future__ import annotations

from dataclasses import field

from context_tui.compaction.plan import Trigger
from context_tui.session.context import Context
from context_tui.session.facts import Facts, Usage
from context_tui.session.values import Role, value_class
from context_tui.session.window import Window
from context_tui.tokens.accounting import compute_believed_size, find_last_request
from context_tui.tokens.context_index import index_context
from context_tui.tokens.estimators import Images, count_images
from context_tui.tokens.running_sizes import count_past_reasoning


@value_class()
class RuntimeState:
    """The state of a runtime just before message ``at``, on which triggers base their decision.

    Attributes:
        believed_tokens: last recorded size plus an estimate of later messages; all estimated if ``context_rewritten``.
        recorded_usage: usage of the last request since the context began or was compacted, or None.
        idle_seconds: time since the last assistant message; None if unknown.
        at_end: whether the recording ends here, which counts as idle.
        forced: whether to plan even if the trigger does not fire.
        firing_only: whether a chain runs only the policies that fire, if any of them do.
        context_rewritten: whether an earlier policy has changed the context.
        estimated_tokens, message_count, result_count: tokens (``bytes/4``), messages and results of the context.
        images: blocks with images in the context, whose tokens ``estimated_tokens`` includes.
        reply_tokens: estimated tokens of the reply to the last request.
        reasoning_tokens: hidden reasoning of finished turns as the runtime counts it.
    """

    at: int
    believed_tokens: int
    recorded_usage: Usage | None
    idle_seconds: float | None
    at_end: bool
    has_assistant: bool
    window: Window
    input_includes_cache: bool = False
    forced: bool = False
    firing_only: bool = False
    context_rewritten: bool = False
    estimated_tokens: int = field(kw_only=True)
    message_count: int = field(kw_only=True)
    result_count: int = field(kw_only=True)
    images: Images = field(kw_only=True)
    reply_tokens: int = field(kw_only=True)
    reasoning_tokens: int = field(kw_only=True)

    @property
    def reported_input_tokens(self) -> int | None:
        """Input tokens of the last request as the provider reports them, or None; Anthropic's exclude cached tokens."""
        if self.recorded_usage is None:
            return None
        return self.recorded_usage.context if self.input_includes_cache else self.recorded_usage.fresh


ASSUMED_WINDOW_NOTE = ", which this agent assumes if it knows no window"
"""Text after the size of a window that a runtime assumes in place of an unknown one."""


def format_comparison(value: str, limit: str, *, fires: bool, exclusive: bool = False, explanation: str = "") -> str:
    """Format a value and its limit, as in ``192,760 tokens ≥ limit 167,000 (200,000 − 33,000 reserve)``.

    With *exclusive*, the trigger fires only above the limit. The *explanation* states how the limit is computed.
    """
    sign = (">" if fires else "≤") if exclusive else ("≥" if fires else "<")
    return f"{value} {sign} limit {limit}{f' ({explanation})' if explanation else ''}"


def check_idle(state: RuntimeState, gap: int, *, exclusive: bool = False, hint: str = "") -> Trigger:
    """Decide whether the session has been idle for *gap* seconds; the end of a recording always counts as idle.

    With *exclusive*, an idle time of exactly *gap* does not fire. The *hint* is for idle times that are not recorded.
    """
    fires, value, source = False, None, "recorded times"
    if not state.has_assistant:
        reason = "no assistant message yet"
    elif state.at_end:
        fires, reason, source = True, "the end of the recording counts as idle", "end of the recording"
    elif state.idle_seconds is None:
        reason, source = f"the idle time is not recorded{hint}", "unknown"
    else:
        value = int(state.idle_seconds)
        fires = value > gap if exclusive else value >= gap
        reason = format_comparison(f"idle {value:,} s", f"{gap:,} s", fires=fires, exclusive=exclusive)
    return Trigger(fires, reason, value, gap, source, unit="seconds")


def compute_idle_seconds(facts: Facts, context: Context, length: int) -> tuple[float | None, bool]:
    """Return the seconds since the last assistant message, or None if unknown, and whether the recording ends there."""
    if context.at >= length:
        return None, True
    for message in reversed(context.order):
        if facts.role[message] == Role.ASSISTANT:
            last_end, next_time = facts.end_time[message], facts.time[context.at]
            return ((next_time - last_end) / 1000 if last_end >= 0 and next_time >= 0 else None), False
    return None, False


def count_context_images(context: Context) -> Images:
    """Count the images of a context, without those in blocks whose body is replaced."""
    facts = context.facts
    if not facts.image_rows:
        return Images()
    owner, positions = facts.block_message, index_context(context).position_of
    rows = (row for row in facts.image_rows if owner[row] in positions and row not in context.replacements)
    return count_images(facts, rows)


def build_runtime_state(
    context: Context,
    window: Window,
    length: int,
    idle_seconds: float | None = None,
    forced: bool = False,
    firing_only: bool = False,
) -> RuntimeState:
    """Build the runtime's state at the end of this context, for a session with *length* messages."""
    facts, index = context.facts, index_context(context)
    request = find_last_request(context)
    reply_position = index.position_of.get(facts.request_message[request]) if request >= 0 else None
    idle, at_end = compute_idle_seconds(facts, context, length)
    if idle_seconds is not None:
        idle, at_end = idle_seconds, False
    return RuntimeState(
        at=context.at,
        believed_tokens=compute_believed_size(context).tokens,
        recorded_usage=facts.requests[request] if request >= 0 else None,
        idle_seconds=idle,
        at_end=at_end,
        has_assistant=any(facts.role[message] == Role.ASSISTANT for message in context.order),
        window=window,
        input_includes_cache=facts.input_includes_cache,
        forced=forced,
        firing_only=firing_only,
        estimated_tokens=index.total,
        message_count=len(context),
        result_count=len(index.results.block),
        images=count_context_images(context),
        reply_tokens=0 if reply_position is None else index.tokens[reply_position],
        reasoning_tokens=count_past_reasoning(facts, context.order),
    )
