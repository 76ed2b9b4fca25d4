"""``context-tui cache``: report why sessions paid again for tokens in the prompt cache, and what that cost."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import attrgetter

from context_tui.batch.workers import analyze_sessions
from context_tui.cli.options import CommandParser
from context_tui.cli.output import print_lines, print_notice, print_table, shorten_names, write_json
from context_tui.cli.sweep import report_unread
from context_tui.errors import ExitCode
from context_tui.lab.price import break_report
from context_tui.lab.price.breaks import CacheHistory, find_cache_breaks
from context_tui.lab.price.cache_requests import reconstruct_recorded_calls
from context_tui.lab.sweep.results import UnreadSession
from context_tui.session.session import Session
from context_tui.text.numbers import format_cost, format_count

MAX_ADVICE_SHOWN = 10


def run(arguments: Sequence[str]) -> int:
    """Report the cache breaks of the named sessions, and return the exit code."""
    options = CommandParser("cache").parse(arguments)
    analyses, unread = analyze_sessions(options.sessions, partial(_find_histories, is_compared=options.check))
    own_breaks = [break_report.SessionBreaks(each.name, each.format, each.folder, each.value[0]) for each in analyses]
    sessions = break_report.add_shared_breaks(own_breaks)
    pairs = [each.value for each in analyses if options.check]
    report_unread(unread)
    if options.json:
        write_json(_build_report(sessions, pairs, unread))
    else:
        _print_report(sessions, options.cases)
        if options.check:
            _print_comparison(pairs)
    return ExitCode.DONE


def _find_histories(session: Session, *, is_compared: bool) -> tuple[CacheHistory, CacheHistory]:
    """Return a session's cache history, and the same again or, with *is_compared*, without the provider's reasons."""
    recorded = reconstruct_recorded_calls(session)
    history = find_cache_breaks(session, recorded=recorded)
    return history, find_cache_breaks(session, recorded=recorded, use_reasons=False) if is_compared else history


def _build_report(
    sessions: Sequence[break_report.SessionBreaks],
    pairs: Sequence[tuple[CacheHistory, CacheHistory]],
    unread: Sequence[UnreadSession],
) -> dict[str, object]:
    cases = break_report.list_cases(sessions)
    return {
        "schema": "context-tui.cache/1",
        "sessions": [
            {
                "session": each.name,
                "agent": each.agent,
                "project": each.project,
                "cache": break_report.build_cache_report(each.history),
            }
            for each in sessions
        ],
        "causes": _build_group_reports(break_report.group_cases(cases, break_report.get_cause)),
        "agents": _build_group_reports(break_report.group_cases(cases, _get_agent)),
        "projects": _build_group_reports(break_report.group_cases(cases, _get_project)),
        "cases": [
            {"session": case.session.name, "unit": case.unit, **break_report.build_break_report(case.cache_break)}
            for case in cases
        ],
        "advice": break_report.build_advice(sessions),
        "check": [each._asdict() for each in break_report.compare_causes(pairs)],
        "unread": [each._asdict() for each in unread],
    }


def _build_group_reports(groups: Sequence[break_report.BreakGroup]) -> list[dict[str, object]]:
    return [group._asdict() for group in groups]


_get_agent, _get_project = attrgetter("session.agent"), attrgetter("session.project")


def _print_report(sessions: Sequence[break_report.SessionBreaks], case_count: int) -> None:
    recorded = [each for each in sessions if each.history.has_cache]
    if unrecorded_count := len(sessions) - len(recorded):
        subject = format_count(unrecorded_count, "session records", "sessions record")
        print_notice(f"{subject} no tokens read from a cache or written to one" if recorded else _describe(sessions))
    if not recorded:
        return
    read, new, again = (sum(getattr(each.history, name) for each in recorded) for name in ("read", "new", "again"))
    total = max(read + new + again, 1)
    requests = format_count(sum(each.history.requests for each in recorded), "request")
    print_lines(f"{format_count(len(recorded), 'session')}, {requests}, {total:,} tokens of prompts:")
    print_lines(f"  {read / total:.1%} read from the cache, {new / total:.1%} new, {again / total:.1%} paid again")
    cases = break_report.list_cases(sessions)
    if not cases:
        print_lines("  nothing that was in the cache was paid again")
        return
    extra = break_report.format_costs(break_report.group_cases(cases, lambda case: "")[0].costs)
    print_lines(f"  paid again: {again:,} tokens, {extra} more than reading them from the cache")
    _print_groups("causes", "cause", break_report.group_cases(cases, break_report.get_cause), again)
    for title, column, get_name in (("by agent", "agent", _get_agent), ("by project", "project", _get_project)):
        groups = break_report.group_cases(cases, get_name)
        if len(groups) > 1:
            _print_groups(title, column, groups, again)
    names = shorten_names(each.name for each in recorded)
    rows = [
        (
            format_cost(case.cache_break.cost, case.unit, with_unit=True),
            f"{'~' if case.cache_break.is_estimated else ''}{case.cache_break.tokens:,}",
            case.cache_break.cause,
            case.cache_break.source,
            f"{names[case.session.name]}:{case.cache_break.message}",
            case.cache_break.evidence,
        )
        for case in cases[:case_count]
    ]
    heads = ("cost", "tokens", "cause", "source", "session:message", "evidence")
    print_table("costliest breaks", heads, rows)
    if len(cases) > case_count:
        print_lines(f"  {len(cases) - case_count:,} more; --cases N shows more, --json lists all")
    if advice := break_report.build_advice(sessions):
        print_lines("", "avoidable", *(f"  {text}" for text in advice[:MAX_ADVICE_SHOWN]))


def _describe(sessions: Sequence[break_report.SessionBreaks]) -> str:
    subject = sessions[0].name if len(sessions) == 1 else "none of these sessions"
    return f"{subject}: no request records tokens read from a cache or written to one, so there is nothing to explain"


def _print_groups(title: str, column: str, groups: Sequence[break_report.BreakGroup], again: int) -> None:
    units = sorted({unit for group in groups for unit in group.costs}, key=lambda unit: unit != "USD")
    rows = [
        (
            group.name or "unknown",
            group.breaks,
            group.tokens,
            f"{group.tokens / max(again, 1):.0%}",
            *(format_cost(group.costs[unit], unit) if unit in group.costs else "" for unit in units),
        )
        for group in groups
    ]
    print_table(title, (column, "breaks", "tokens paid again", "share", *(f"cost ({unit})" for unit in units)), rows)


def _print_comparison(pairs: Sequence[tuple[CacheHistory, CacheHistory]]) -> None:
    comparisons = break_report.compare_causes(pairs)
    if not comparisons:
        print_lines("", "check: the provider recorded no cause that says what changed in the prompt")
        return
    rows = [(each.recorded, each.inferred or "no break", each.breaks) for each in comparisons]
    print_table("check: recorded causes, and those inferred without them", ("recorded", "inferred", "breaks"), rows)
    total = sum(each.breaks for each in comparisons)
    same_count = sum(each.breaks for each in comparisons if each.recorded == each.inferred)
    by_cause = {each.recorded: 0 for each in comparisons}
    for each in comparisons:
        by_cause[each.recorded] += each.breaks
    main_cause = max(by_cause, key=lambda cause: by_cause[cause])
    agreement = f"{same_count} of {total} agree ({same_count / total:.0%})"
    print_lines(f"  {agreement}; always '{main_cause}' would be {by_cause[main_cause] / total:.0%}")
