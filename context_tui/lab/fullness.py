"""Explanation of why a context is full: its size and parts, its next compaction, and the effect of each policy."""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from math import ceil
from statistics import fmean, pvariance
from typing import NamedTuple

from context_tui.compaction.next_request import compute_next_request
from context_tui.compaction.plan import Trigger
from context_tui.errors import PlanError
from context_tui.policies.parameter_space import build_recorded_params
from context_tui.policies.registry import DEFAULT_POLICY, POLICIES
from context_tui.policies.runtime_state import build_runtime_state
from context_tui.policies.versions import find_own_policies
from context_tui.session.context import Context
from context_tui.session.facts import Compaction
from context_tui.session.session import Session
from context_tui.session.window import Window
from context_tui.text.files import read_toml
from context_tui.text.numbers import format_count, format_percent, format_tokens
from context_tui.text.sanitize import make_visible
from context_tui.tokens.breakdown import Breakdown, fit_categories, measure_breakdown, scale_tokens
from context_tui.tokens.context_size import SizeSource, measure_context
from context_tui.tokens.measures import TokenTable, build_calibrated_table

PART_NAMES: dict[str, str] = read_toml("context_tui.lab", "fullness.toml")["parts"]
"""Names of the parts of a context; ``rest`` stands for all small parts together."""
MIN_PART_SHARE, MIN_TOOL_SHARE, MAX_TOOLS, MAX_TOOL_NAME = 0.01, 0.05, 3, 24
"""Minimum shares of a part, and of a tool in it, to be named; maximum number of tools, and length of their names."""
MIN_SAVED_SHARE, MIN_PUT_BACK_SHARE = 0.02, 0.05
"""Minimum share of a context that an effect saves to be named, and of the rest that is put back to be named."""
MIN_STEPS, MAX_CALLS_LEFT, RANGE_FACTOR, MIN_VARIATION = 3, 500, 2, 0.25
"""Minimum growths for a forecast, maximum calls ahead, factor of its range, and minimum variation for a range."""


class ContextPart(NamedTuple):
    """A part of a context: a category of ``PART_NAMES``, and for results the tokens of each tool, largest first."""

    category: str
    tokens: int
    tools: tuple[tuple[str, int], ...] = ()

    def format(self, tool_count: int = MAX_TOOLS, name: str = "") -> str:
        """Format the part with its largest tools, as in ``tool results 39.2k (Bash 21.1k)``; *name* renames it."""
        large = [tool for tool in self.tools[:tool_count] if tool[1] >= MIN_TOOL_SHARE * self.tokens]
        names = ((make_visible(tool)[:MAX_TOOL_NAME] or "call missing", tokens) for tool, tokens in large)
        tools = ", ".join(f"{tool} {format_tokens(tokens)}" for tool, tokens in names)
        text = f"{name or PART_NAMES[self.category]} {format_tokens(self.tokens)}"
        return f"{text} ({tools})" if tools else text


MIN_SHARE = 0.095
"""Share of the window below which an effect is stated in tokens, too, because a rounded percentage would hide it."""


class PolicyEffect(NamedTuple):
    """Effect that a policy would have now, one of the agent if *is_own*: cleared results or removed messages.

    ``tokens_put_back`` counts the files and reminders that the agent inserts again; ``tokens_after`` includes them.
    ``due`` says when it happens, as in ``now`` or ``at 240k``, unless a forecast of calls does. If no message
    is kept, only the system prompt, the tools, instructions and what is put back remain; ``has_prompt`` tells whether
    the system prompt is known.
    """

    policy: str
    kind: str
    results: int
    messages: int
    tokens_after: int
    share_after: float
    needs_summary: bool
    tokens_put_back: int = 0
    is_own: bool = True
    due: str = ""
    messages_kept: int = 0
    has_prompt: bool = True

    def format(self, *, brief: bool = False) -> str:
        """Format the effect as in ``Clearing 10 old results leaves 61 %.``, if *brief* with fewer notes."""
        verb, noun, rest = "Dropping", format_count(self.messages, "message"), ""
        if not self.messages:
            verb, noun = "Clearing", format_count(self.results, "old result")
        elif self.needs_summary:
            verb, rest = "Summarising", " + summary"
        details = [format_tokens(self.tokens_after)] if self.share_after < MIN_SHARE else []
        if self.messages and not self.messages_kept and self.tokens_after and not brief:
            details.append(PART_NAMES["system" if self.has_prompt else "injected"])
        if self.tokens_put_back > MIN_PUT_BACK_SHARE * self.tokens_after:
            details.append(f"{format_tokens(self.tokens_put_back)} restored")
        if not self.is_own:
            details.append(self.policy if brief else f"{self.policy}: no rule of this agent is known")
        note = f" ({', '.join(details)})" if details else ""
        due = f", due {self.due}" if self.due and not brief else ""
        return f"{verb} {noun} leaves {format_percent(self.share_after)}{note}{rest}{due}."


class Fullness(NamedTuple):
    """The size and parts of a context, a forecast of its next compaction, and the effects of the agent's policies.

    Attributes:
        tokens, origin: size of the next request, and the source of that size.
        parts: all parts, largest first; they add up to ``tokens``.
        calls_left: expected calls before the agent compacts; 0 if it compacts at the next call, None if unknown.
        effects: effects that the policies of the agent would have now.
        tokens_left: tokens until the agent compacts; None if that is unknown.
        calls_range: lowest and highest number of calls to be expected, or None if ``calls_left`` is None.
        compaction: the full compaction recorded at this point, which replaces the forecast; None if there is none.
        has_prompt: whether the size includes the system prompt and tools; False if the size of either is unknown.
    """

    tokens: int
    window: Window
    origin: SizeSource
    parts: tuple[ContextPart, ...]
    calls_left: int | None
    effects: tuple[PolicyEffect, ...]
    tokens_left: int | None = None
    calls_range: tuple[int, int] | None = None
    compaction: Compaction | None = None
    has_prompt: bool = True

    def list_parts(self, count: int = len(PART_NAMES)) -> list[ContextPart]:
        """Return up to *count* large parts, largest first; if two or more parts remain, they are merged into one."""
        large = [part for part in self.parts[:count] if part.tokens >= MIN_PART_SHARE * self.tokens]
        small = self.parts[len(large) :]
        return [*large, *(small if len(small) < 2 else [ContextPart("rest", sum(part.tokens for part in small))])]

    @property
    def sentences(self) -> list[str]:
        """Sentences on the level, the parts and the forecast."""
        parts = ", ".join(part.format() for part in self.list_parts())
        unknown = "tools" if any(each.category == "system" for each in self.parts) else "system prompt and the tools"
        return [
            f"{format_level(self.tokens, self.window.tokens, self.origin)}.",
            *([f"{parts[0].upper()}{parts[1:]}."] if parts else []),
            *([] if self.has_prompt else [f"The {unknown} are not in the file."]),
            *self.format_forecast(),
        ]

    def format_forecast(self, *, brief: bool = False) -> list[str]:
        """Format sentences on when the agent compacts next and how much its policies would leave."""
        sentences = [f"Compacts {self.format_due()}."] if self.calls_left is not None else []
        if self.compaction:
            tokens = self.compaction.pre_tokens
            size = f", at {tokens:,} tokens by the agent's count" if tokens else " in the recording"
            sentences = [f"Compacted here{size}."]
        return [*sentences, *(effect.format(brief=brief) for effect in self.effects)]

    def format_due(self) -> str:
        """Format when the agent compacts: ``at the next call``, ``in about 6 calls`` or ``in about 20 to 80 calls``."""
        low, high = self.calls_range or (self.calls_left, self.calls_left)
        first = f"{low:,} to " if low != high else ""
        return "at the next call" if not self.calls_left else f"in about {first}{format_count(high or 0, 'call')}"


def format_level(tokens: int, window: int, origin: SizeSource) -> str:
    """Format how full the window is, as in ``Full to 89 % (~58.6k of 65.5k)``."""
    size = f"{'' if origin is SizeSource.RECORDED else '~'}{format_tokens(tokens)} of {format_tokens(window)}"
    source = ", estimated" if origin is SizeSource.ESTIMATED else ""
    return f"Full to {format_percent(tokens / max(window, 1))} ({size}{source}{', over' if tokens > window else ''})"


def compute_fullness(
    session: Session, context: Context, breakdown: Breakdown, token_table: TokenTable | None = None
) -> Fullness:
    """Compute the fullness of a context; *breakdown* must use the same token measure as *token_table*."""
    account, window = measure_context(context, token_table), session.window_at(context.at)
    tokens_left, effects, forecast = None, list[PolicyEffect](), None
    parts = split_context(breakdown, account.tokens, has_prompt=account.has_prompt)
    has_prompt = account.has_prompt or any(part.category == "system" for part in parts)
    compaction = find_full_compaction(context)
    own_policies = find_own_policies(session)
    for kind, name in (own_policies or {"micro": DEFAULT_POLICY}).items():
        policy = POLICIES[name]
        try:
            state = build_runtime_state(context, window, len(session), forced=True, firing_only=True)
            plan = policy.plan(context, build_recorded_params(policy, {}, session.facts), state)
        except PlanError:
            continue
        trigger = plan.trigger
        if kind == "full" and not compaction and window.source != "assumed" and trigger.unit == "tokens":
            if trigger.value is not None and trigger.threshold is not None:
                tokens_left = max(round(trigger.threshold - trigger.value), 0)
            forecast = CallForecast(0, 0, 0) if trigger.fires else forecast_calls(context, tokens_left)
        if plan.has_changes:
            request, dropped = compute_next_request(plan, token_table=token_table), plan.messages_dropped
            has_forecast = kind == "full" and (forecast or compaction)
            if (account.tokens - request.tokens_after) >= MIN_SAVED_SHARE * account.tokens:
                counts = 0 if dropped else len(plan.changes), dropped, request.tokens_after
                share, due = request.tokens_after / max(window.tokens, 1), "" if has_forecast else _format_due(trigger)
                effect = PolicyEffect(name, kind, *counts, share, request.summary_pending, request.inserted_tokens)
                effect = effect._replace(messages_kept=len(context) - dropped, has_prompt=has_prompt)
                effects.append(effect._replace(is_own=bool(own_policies), due=due))
    return Fullness(
        account.tokens,
        window,
        account.origin,
        tuple(parts),
        calls_left=forecast.calls if forecast else None,
        effects=tuple(effects),
        tokens_left=tokens_left,
        calls_range=(forecast.low, forecast.high) if forecast else None,
        compaction=compaction,
        has_prompt=account.has_prompt,
    )


def _format_due(trigger: Trigger) -> str:
    if trigger.fires:
        return "now"
    return f"at {format_tokens(trigger.threshold)}" if trigger.threshold and trigger.unit == "tokens" else ""


def compute_calibrated_fullness(session: Session, context: Context) -> Fullness:
    """Compute the fullness of a context by the calibrated token measure."""
    token_table = build_calibrated_table(session.facts)
    return compute_fullness(session, context, measure_breakdown(context, token_table), token_table)


def find_full_compaction(context: Context) -> Compaction | None:
    """Return the full compaction that was recorded at the end of a context, or None."""
    return next((each for each in context.facts.compactions if (each.kind, each.message) == ("full", context.at)), None)


class CallForecast(NamedTuple):
    """The expected number of calls until a context is full, with the lowest and highest that are likely."""

    calls: int
    low: int
    high: int


def forecast_calls(context: Context, tokens: int | None) -> CallForecast | None:
    """Forecast the calls until a context has grown by *tokens*, or return None if that is unknown or too far away.

    A tool result can be many times the mean growth, so half the squared variation is added to tokens / mean. Of 56
    forecasts 5 to 80 calls before 13 recorded compactions, 44 were between half and double the actual number.
    """
    facts = context.facts
    first, end = (bisect_left(facts.request_message, message) for message in (context.epoch_start, context.at))
    sizes = (usage.context for usage in facts.requests[first:end])
    growths = [after - before for before, after in pairwise(sizes) if after >= before]  # falls are cleared results
    if tokens is None or len(growths) < MIN_STEPS or not any(growths):
        return None
    mean = fmean(growths)
    variation = pvariance(growths, mean) / mean**2
    calls = max(ceil(tokens / mean + variation / 2), 1)
    factor = RANGE_FACTOR if variation >= MIN_VARIATION else 1
    return CallForecast(calls, ceil(calls / factor), calls * factor) if calls <= MAX_CALLS_LEFT else None


def split_context(breakdown: Breakdown, size: int, *, has_prompt: bool = True) -> list[ContextPart]:
    """Split a context of *size* tokens into its nonempty parts, largest first; they add up to *size*.

    Content that is not in the file counts as system prompt and tools or, if *has_prompt* is false, as injected text.
    """
    fitted = fit_categories(breakdown.by_category, size)
    tokens = {name: fitted.get(name, 0) for name in PART_NAMES}
    tokens["system"] += fitted.get("tools", 0)
    tokens["system" if has_prompt else "injected"] += fitted.get("not_in_file", 0)
    shares = {share.tool: share.result_tokens for share in breakdown.by_tool}
    tools_by_part = {"tool_result": tuple(scale_tokens(shares, tokens["tool_result"]).items())}
    parts = [ContextPart(name, count, tools_by_part.get(name, ())) for name, count in tokens.items() if count]
    return sorted(parts, key=lambda part: -part.tokens)
