"""Rank the cache breaks of many sessions by cause, agent and project, with advice on avoiding them."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from context_tui.lab.price.breaks import BreakCause, CacheBreak, CacheHistory, format_gap
from context_tui.lab.price.rates import CostUnit
from context_tui.text.numbers import format_cost, format_count

REMEDIES = {
    BreakCause.TOOLS: "the tools changed within a context: name all of them from the start",
    BreakCause.SYSTEM: "what stands before the messages changed within a context: put what changes, such as the time, "
    "into the messages",
    BreakCause.THINKING: "thinking was switched within a context: switch it where a context begins",
    BreakCause.MODEL: "the model changed within a context: each model has a cache of its own",
}
"""Changes that would avoid the breaks with a cause, keyed by cause."""


class SessionBreaks(NamedTuple):
    """The name of a session, its agent (a format), its project (a folder, or ""), and its cache history."""

    name: str
    agent: str
    project: str
    history: CacheHistory


class BreakCase(NamedTuple):
    """A session with one of its cache breaks."""

    session: SessionBreaks
    cache_break: CacheBreak

    @property
    def unit(self) -> CostUnit:
        """Unit of the break's cost."""
        return self.session.history.rate_table.unit


class BreakGroup(NamedTuple):
    """A named group of breaks: their number, the tokens paid again, and the costs keyed by unit."""

    name: str
    breaks: int
    tokens: int
    costs: dict[CostUnit, float]


class CauseComparison(NamedTuple):
    """A recorded cause, the inferred one (None if the rules find no break), and the number of breaks with both."""

    recorded: BreakCause
    inferred: BreakCause | None
    breaks: int


def add_shared_breaks(sessions: Sequence[SessionBreaks]) -> list[SessionBreaks]:
    """Add the break of each first request that did not read a system prompt and tools cached by another session.

    Only sessions that record whole requests are compared; other files do not prove that two prompts are the same.
    """
    uses = defaultdict[str, list[tuple[SessionBreaks, Sequence[int]]]](list)
    for session in sessions:
        for use in session.history.prompt_uses:
            uses[use.key].append((session, use.ended_at))
    return [_add_shared_break(session, uses) for session in sessions]


def _add_shared_break(
    session: SessionBreaks, uses: Mapping[str, Sequence[tuple[SessionBreaks, Sequence[int]]]]
) -> SessionBreaks:
    history, first = session.history, session.history.first_request
    if first is None or first.sent_at < 0:
        return session
    others = [(ended_at, other) for other, ended_at in uses[first.key] if other is not session]
    ends = [(ended_at[at - 1], other) for ended_at, other in others if (at := bisect_right(ended_at, first.sent_at))]
    latest, other = max(ends, key=lambda each: each[0], default=(-1, session))
    if latest < 0 or first.sent_at - latest > first.cache_break.ttl_ms:
        return session
    gap = format_gap(first.sent_at - latest)
    evidence = f"{gap} after a request of {other.name} with the same system prompt and tools"
    found = first.cache_break._replace(evidence=evidence, gap_ms=first.sent_at - latest)
    breaks = (found, *history.breaks)
    return session._replace(history=history._replace(breaks=breaks, new=history.new - found.tokens))


def get_cause(case: BreakCase) -> str:
    """Return the cause of a break, as a name for :func:`group_cases`."""
    return case.cache_break.cause


def list_cases(sessions: Iterable[SessionBreaks]) -> list[BreakCase]:
    """Return the breaks of all sessions: first those with a price in USD, the most expensive first, then the others."""
    cases = [BreakCase(session, each) for session in sessions for each in session.history.breaks]
    return sorted(cases, key=lambda case: (case.unit != "USD", -case.cache_break.cost, -case.cache_break.tokens))


def group_cases(cases: Iterable[BreakCase], get_name: Callable[[BreakCase], str]) -> list[BreakGroup]:
    """Group breaks by the result of *get_name*, and return the groups by cost in USD and tokens, the largest first."""
    groups: dict[str, BreakGroup] = {}
    for case in cases:
        name, found = get_name(case), case.cache_break
        _, breaks, tokens, costs = groups.get(name, BreakGroup(name, 0, 0, {}))
        costs[case.unit] = costs.get(case.unit, 0.0) + found.cost
        groups[name] = BreakGroup(name, breaks + 1, tokens + found.tokens, costs)
    return sorted(groups.values(), key=lambda row: (-row.costs.get("USD", 0.0), -row.tokens))


def format_costs(costs: dict[CostUnit, float]) -> str:
    """Format costs keyed by unit, as in ``$2.67 and 8,095 input tokens``."""
    return " and ".join(format_cost(cost, unit, with_unit=True) for unit, cost in sorted(costs.items()))


def format_break(cache_break: CacheBreak, unit: CostUnit) -> str:
    """Format a break as its cause, tokens and cost, as in ``system changed: 338,864 tokens paid again ($6.44)``."""
    about = "about " if cache_break.is_estimated else ""
    cost = format_cost(cache_break.cost, unit, with_unit=True)
    return f"{cache_break.cause}: {about}{cache_break.tokens:,} tokens paid again ({cost})"


def build_advice(sessions: Sequence[SessionBreaks]) -> list[str]:
    """Return a sentence for each change that would have avoided breaks or costs, the largest saving first."""
    cases = list_cases(sessions)
    advice = [*_advise_hour_cache(sessions, cases), *_advise_causes(cases), *_advise_clearing(cases)]
    return [text for _, text in sorted(advice, key=lambda each: -each[0])]


def _advise_hour_cache(sessions: Iterable[SessionBreaks], cases: Iterable[BreakCase]) -> Iterator[tuple[float, str]]:
    for unit in ("USD", "input tokens"):
        caches = [each.history.hour_cache for each in sessions if each.history.rate_table.unit == unit]
        caches = [each for each in caches if each.saved > each.added]
        if breaks := sum(each.breaks for each in caches):
            saved, added = sum(each.saved for each in caches), sum(each.added for each in caches)
            expired = sum(case.unit == unit and case.cache_break.cause == BreakCause.EXPIRED for case in cases)
            costs = [format_cost(cost, unit, with_unit=True) for cost in (added, saved)]
            text = (
                f"{breaks:,} of {format_count(expired, 'expired entry', 'expired entries')} were read again within an "
                f"hour: a cache of one hour in {format_count(len(caches), 'session')} would have cost {costs[0]} "
                f"more to write and saved {costs[1]}"
            )
            yield saved - added, text


def _advise_causes(cases: Iterable[BreakCase]) -> Iterator[tuple[float, str]]:
    avoidable = (case for case in cases if case.cache_break.cause in REMEDIES)
    for name, breaks, _, costs in group_cases(avoidable, get_cause):
        text = f"{REMEDIES[BreakCause(name)]} ({format_count(breaks, 'break')}, {format_costs(costs)})"
        yield sum(costs.values()), text


def _advise_clearing(cases: Iterable[BreakCase]) -> Iterator[tuple[float, str]]:
    for case in cases:
        found = case.cache_break
        if found.cause == BreakCause.CLEARING and found.cost > found.saved:
            costs = [format_cost(cost, case.unit, with_unit=True) for cost in (found.cost, found.saved)]
            text = f"{found.evidence}: {costs[0]} to write again, of which later requests earned back {costs[1]}"
            yield found.cost - found.saved, f"{case.session.name}, message {found.message:,}: {text}"


def compare_causes(pairs: Iterable[tuple[CacheHistory, CacheHistory]]) -> list[CauseComparison]:
    """Count the breaks for each pair of a cause that a provider recorded and the cause inferred without its reasons.

    Each of the *pairs* holds two histories of one session, with the provider's reasons and without them.
    """
    counts: dict[tuple[BreakCause, BreakCause | None], int] = defaultdict(int)
    for recorded, inferred in pairs:
        causes = {each.message: each.cause for each in inferred.breaks}
        for each in recorded.breaks:
            if each.is_provider_reason:
                counts[each.cause, causes.get(each.message)] += 1
    return [CauseComparison(*causes, count) for causes, count in sorted(counts.items(), key=lambda item: -item[1])]


def build_cache_report(history: CacheHistory) -> dict[str, Any] | None:
    """Build the JSON report on a session's use of the prompt cache, or None if it records none."""
    if not history.has_cache:
        return None
    names = "requests", "read", "new", "again", "cost"
    return {name: getattr(history, name) for name in names} | {"unit": history.rate_table.unit}


def build_break_report(cache_break: CacheBreak) -> dict[str, Any]:
    """Build the JSON report on a cache break."""
    names = "message", "tokens", "cost", "cause", "source", "evidence", "is_estimated"
    return {name: getattr(cache_break, name) for name in names}
