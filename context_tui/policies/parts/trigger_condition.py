"""Trigger conditions, which compare the size that a runtime computes for its context with a limit in constant time."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from context_tui.compaction.plan import Trigger
from context_tui.policies.base import Belief, param, token_param
from context_tui.policies.parts.part import Part
from context_tui.policies.runtime_state import ASSUMED_WINDOW_NOTE, RuntimeState, check_idle, format_comparison
from context_tui.session.blocks import BYTES_PER_TOKEN


class Size(Part):
    """Rule by which a runtime computes the size of its context (the believed size), which may be wrong.

    Attributes:
        count: ``recorded+new`` is the last recorded size plus an estimate of the messages since, or an estimate of the
            context if there is no recorded size or the context was rewritten. ``recorded`` is the last recorded size,
            else an estimate. ``uncached`` are the input tokens that the provider reports, which may exclude cached
            tokens. ``estimate`` is an estimate of the context.
        output: whether the last reply counts by its recorded tokens (estimated if these are a placeholder). Otherwise
            ``recorded+new`` estimates it, and ``recorded`` does not count it.
        reasoning: whether ``recorded+new`` adds the hidden reasoning of finished turns as the runtime counts it.
        bytes_per_token, per_message: bytes per token, and extra tokens per message, in estimates of the context and of
            its kept end.
        per_result, per_image: extra tokens per tool result (with its call), and tokens of an image in place of its
            encoded data, in estimates of the context.
        as_json: whether results in the kept end count as JSON text.
        by_character: whether results to clear or keep count as characters / 4, and images as 2,000 tokens.
    """

    count: Literal["recorded+new", "recorded", "uncached", "estimate"] = "recorded+new"
    output: bool = False
    reasoning: bool = False
    bytes_per_token: float = Field(default=4.0, ge=0.5, le=100)
    per_message: int = Field(default=0, ge=0, le=1_000)
    per_result: int = Field(default=0, ge=0, le=1_000)
    per_image: int | None = Field(default=None, ge=0, le=100_000)
    as_json: bool = False
    by_character: bool = False

    def compute_belief(self, state: RuntimeState) -> Belief:
        """Return the believed size in tokens, and a description of how the runtime arrives at it."""
        recorded = state.recorded_usage
        if self.count == "uncached":
            return Belief(state.reported_input_tokens, "recorded input tokens of the last reply")
        if self.count == "recorded":
            if recorded is None:
                return Belief(self._estimate_context(state), "estimated: nothing is recorded in this context")
            if self.output:
                reply = recorded.output if recorded.output_trusted else self._scale_tokens(state.reply_tokens)
                return Belief(recorded.context + reply, "recorded, with the last reply")
            return Belief(recorded.context, "last recorded")
        if self.count == "recorded+new" and recorded is not None and not state.context_rewritten:
            new, reply = state.believed_tokens - recorded.context, 0
            if self.output and recorded.output_trusted:
                new, reply = new - state.reply_tokens, recorded.output
            reasoning = state.reasoning_tokens if self.reasoning else 0
            source = "last recorded + reasoning of ended turns + estimate" if reasoning else "last recorded + estimate"
            return Belief(recorded.context + reply + reasoning + self._scale_tokens(new), f"{source} since then")
        if self.count == "estimate":
            return Belief(self._estimate_context(state), "estimated, as its runtime does")
        cause = "what was recorded is forgotten when something is cleared"
        reason = cause if recorded else "nothing is recorded in this context"
        return Belief(self._estimate_context(state), f"estimated: {reason}")

    def _estimate_context(self, state: RuntimeState) -> int:
        tokens, extra = state.estimated_tokens, state.message_count * self.per_message
        extra += state.result_count * self.per_result
        if self.per_image is not None:
            tokens, extra = tokens - state.images.tokens, extra + state.images.blocks * self.per_image
        return self._scale_tokens(tokens) + extra

    def _scale_tokens(self, tokens: int) -> int:
        if self.bytes_per_token == BYTES_PER_TOKEN:
            return tokens
        return int(tokens * BYTES_PER_TOKEN / self.bytes_per_token)


_ALWAYS_FIRES = Trigger(True, "it runs each time", source="the rule")


class TriggerCondition(Part):
    """Condition on which a rule fires: a single limit, or ``any`` or ``all`` of several conditions.

    Attributes:
        share, reserve: the limit as a share of the context window, and the tokens to subtract from it (or from the
            window).
        at_least, at_most: lower and upper bound for that limit, in tokens.
        above: whether the condition fails at exactly the limit.
        min_window, max_window: smallest and largest window, in tokens, to which the condition applies.
        whole_percent: whether the used share of the window is rounded down to whole percent.
        whole_window: whether the window is the model's, even if the agent uses only a part of it.
    """

    prefix: ClassVar[str] = "trigger"

    share: float | None = param(None, "share of the window at which it acts", "of window", 0.01, 1.0)
    reserve: int | None = token_param(None, "tokens of the window that are left free")
    at_least: int | None = token_param(None, "the limit is never lower than this")
    at_most: int | None = token_param(None, "the limit is never higher than this", 1)
    tokens: int | None = token_param(None, "tokens at which it acts; 0: never")
    messages: int | None = param(None, "messages in the context at which it acts", "messages", 1, 100_000)
    tool_uses: int | None = param(None, "tool results in the context at which it acts", "results", 1, 100_000)
    idle_seconds: int | None = param(None, "time since the last reply at which it acts", "seconds", 0, 604_800)
    always: bool = False
    never: bool = False
    any: tuple[TriggerCondition, ...] = ()
    all: tuple[TriggerCondition, ...] = ()
    above: bool = False
    unknown_window: int | None = Field(default=None, ge=1, le=10_000_000)
    min_window: int = Field(default=0, ge=0, le=10_000_000)
    max_window: int | None = Field(default=None, ge=1, le=10_000_000)
    whole_percent: bool = False
    whole_window: bool = False

    @model_validator(mode="after")
    def _validate_single_limit(self) -> TriggerCondition:
        uses_window = self.share is not None or self.reserve is not None
        names = ("tokens", "messages", "tool_uses", "idle_seconds", "always", "never", "any", "all")
        values = (getattr(self, name) for name in names)
        limits = [value for value in values if value is not None and value is not False and value != ()]
        if len(limits) + uses_window != 1:
            raise ValueError(f"needs one of share, reserve, {', '.join(names)}")
        if not uses_window and (self.at_least is not None or self.at_most is not None):
            raise ValueError("at_least and at_most bound a share of the window or what is reserved of it")
        return self

    def compute_window(self, state: RuntimeState) -> int:
        """Return the size in tokens of the context window that the runtime assumes."""
        if self.unknown_window is not None and not state.window.is_known:
            return self.unknown_window
        return state.window.model_tokens if self.whole_window else state.window.tokens

    def fits_window(self, state: RuntimeState) -> bool:
        """Return whether the condition applies to the context window."""
        window = self.compute_window(state)
        return self.min_window <= window <= (self.max_window or window)

    def compute_limit(self, state: RuntimeState) -> int | None:
        """Return the size limit in tokens (the lowest if conditions are combined), or None if none applies."""
        if self.any or self.all:
            limits = (condition.compute_limit(state) for condition in (*self.any, *self.all))
            return min((limit for limit in limits if limit is not None), default=None)
        if self.tokens is not None:
            return self.tokens or None
        if (self.share is None and self.reserve is None) or not self.fits_window(state):
            return None
        window = self.compute_window(state)
        limit = window if self.share is None else int(self.share * window)
        if self.whole_percent and self.share is not None:
            limit = -(-window * round(self.share * 10_000) // 10_000)
        limit -= self.reserve or 0
        limit = max(limit, self.at_least or 0)
        return limit if self.at_most is None else min(limit, self.at_most)

    def check(self, size: Size, state: RuntimeState) -> Trigger:
        """Decide whether the condition holds in this state."""
        if self.any or self.all:
            conditions = self.all or [each for each in self.any if each.fits_window(state)] or self.any
            triggers = [condition.check(size, state) for condition in conditions]
            fires = (all if self.all else any)(trigger.fires for trigger in triggers)
            decisive = [trigger for trigger in triggers if trigger.fires == fires]
            return replace(decisive[0], fires=fires, reason="; ".join(trigger.reason for trigger in decisive))
        if self.always:
            return _ALWAYS_FIRES
        if self.never or self.tokens == 0:
            return Trigger(False, "it is off until a limit is set", source="the rule")
        if self.idle_seconds is not None:
            return check_idle(state, self.idle_seconds, exclusive=self.above)
        if self.messages is not None:
            return self._compare(state.message_count, self.messages, "messages", "messages", "counted")
        if self.tool_uses is not None:
            return self._compare(state.result_count, self.tool_uses, "tool results", "results", "counted")
        limit = self.compute_limit(state)
        if limit is None:
            return Trigger(False, "the rule is for other context windows", source="the window")
        tokens, source = size.compute_belief(state)
        if tokens is None:
            return Trigger(False, "no recorded usage, which is all that it looks at", None, limit, "unknown")
        return self._compare(tokens, limit, "tokens", "tokens", source, self._explain_limit(state))

    def _compare(self, value: int, limit: int, noun: str, unit: str, source: str, explanation: str = "") -> Trigger:
        fires = value > limit if self.above else value >= limit
        compared = f"{value:,} {noun}", f"{limit:,}"
        reason = format_comparison(*compared, fires=fires, exclusive=self.above, explanation=explanation)
        return Trigger(fires, reason, value, limit, source, unit=unit)

    def _explain_limit(self, state: RuntimeState) -> str:
        """Explain a limit that depends on the window; empty if it is a fixed number."""
        if self.share is None and self.reserve is None:
            return ""
        note = "" if state.window.is_known or self.unknown_window is None else ASSUMED_WINDOW_NOTE
        tokens = self.compute_window(state)
        window = f"{tokens:,}{note}{', the whole window' if tokens > state.window.tokens else ''}"
        text = window if self.share is None else f"{self.share:.0%} of {window}"
        text += f" − {self.reserve:,} reserve" if self.reserve else ""
        minimum = f"at least {self.at_least:,}" if self.at_least else ""
        maximum = f"at most {self.at_most:,}" if self.at_most is not None and self.at_most < tokens else ""
        return ", ".join(filter(None, (text, minimum, maximum)))

    def depends_on_size(self) -> bool:
        """Return whether the condition, or any condition inside it, depends on the context's size in tokens."""
        if self.any or self.all:
            return any(condition.depends_on_size() for condition in (*self.any, *self.all))
        return self.share is not None or self.reserve is not None or self.tokens is not None
