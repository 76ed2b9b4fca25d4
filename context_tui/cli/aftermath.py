"""``context-tui aftermath``: report what agents did after recorded compactions, compared with other points."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from context_tui.batch.workers import analyze_sessions
from context_tui.cli.options import CommandParser
from context_tui.cli.output import pick_fields, print_lines, print_notice, print_table, shorten_names, write_json
from context_tui.cli.sweep import report_unread
from context_tui.errors import ExitCode
from context_tui.lab.aftermath.measure import NEAR_CALLS, WINDOW_CALLS, Aftermath, Course, measure_aftermaths
from context_tui.lab.aftermath.report import (
    ExtraCalls,
    SessionAftermath,
    build_aftermath_report,
    estimate_extra_calls,
    group_aftermaths,
)
from context_tui.lab.aftermath.steps import CORRECTION_FORMS
from context_tui.lab.sweep.results import UnreadSession
from context_tui.session.session import Session
from context_tui.summarizer.checks.instruction_survival import (
    CompactionInstructions,
    InstructionSource,
    Outcome,
    follow_instructions,
)
from context_tui.text.numbers import format_count

MAX_COMPACTIONS_SHOWN = 20
MAX_INSTRUCTIONS_SHOWN = 20
GROUPINGS: dict[str, Callable[[SessionAftermath], str]] = {
    "agent": lambda row: row.agent,
    "model": lambda row: f"{row.agent} {row.aftermath.model or 'unknown'}",
    "version": lambda row: f"{row.agent} {row.aftermath.version or 'unknown'}",
    "kind": lambda row: row.aftermath.kind,
    "place": lambda row: "within a turn" if row.aftermath.distance else "before a turn",
}
"""Names of the groups in which compactions are compared, and the group of each compaction."""


def run(arguments: Sequence[str]) -> int:
    """Report what followed the recorded compactions of the named sessions, and return the exit code."""
    options = CommandParser("aftermath").parse(arguments)
    analyses, unread = analyze_sessions(options.sessions, _analyze)
    rows = [SessionAftermath(each.name, each.format, found) for each in analyses for found in each.value[0]]
    instructions = [(each.name, found) for each in analyses for found in each.value[1]]
    report_unread(unread)
    if options.json:
        report = _build_report(rows, len(analyses), unread)
        write_json(report | {"instructions": [_build_instructions_report(*each) for each in instructions]})
    else:
        _print_report(rows, len(analyses))
        _print_instructions(instructions)
        if rows or instructions:
            caveat = "A recording shows what followed, not what would have followed without the compaction;"
            print_lines("", caveat, "docs/aftermath.md defines each column.")
    return ExitCode.DONE if options.max_absent is None else _check_limit(instructions, options.max_absent)


def _analyze(session: Session) -> tuple[list[Aftermath], list[CompactionInstructions]]:
    return measure_aftermaths(session), follow_instructions(session)


def _check_limit(instructions: Sequence[tuple[str, CompactionInstructions]], limit: int) -> int:
    counts = [(name, each, each.count(Outcome.ABSENT, InstructionSource.USER)) for name, each in instructions]
    for name, compaction, count in counts:
        if count > limit:
            absent_text = format_count(count, "typed instruction")
            print_notice(f"{name}:{compaction.message}: {absent_text} absent; limit {limit:,}")
    if any(count > limit for _, _, count in counts):
        return ExitCode.FAILED
    if not any(trace.placed.source is InstructionSource.USER for _, each in instructions for trace in each.traces):
        print_notice("too little evidence: no typed instruction before a full compaction")
        return ExitCode.NO_EVIDENCE
    return ExitCode.DONE


def _build_report(rows: Sequence[SessionAftermath], count: int, unread: Sequence[UnreadSession]) -> dict[str, object]:
    extra_calls = estimate_extra_calls(rows)
    groups = {
        name: [
            {
                **group._asdict(),
                **{key: course and course._asdict() for key, course in list(group._asdict().items())[2:]},
                "extra_calls": each._asdict() if (each := _estimate_group(rows, get_name, group.name)) else None,
            }
            for group in group_aftermaths(rows, get_name)
        ]
        for name, get_name in GROUPINGS.items()
    }
    return {
        "schema": "context-tui.aftermath/1",
        "sessions": count,
        "window_calls": WINDOW_CALLS,
        "near_calls": NEAR_CALLS,
        "correction_forms": list(CORRECTION_FORMS),
        "extra_calls": extra_calls._asdict() if extra_calls else None,
        "groups": groups,
        "compactions": [build_aftermath_report(row) for row in rows],
        "unread": [each._asdict() for each in unread],
    }


def _estimate_group(
    rows: Sequence[SessionAftermath], get_name: Callable[[SessionAftermath], str], name: str
) -> ExtraCalls | None:
    return estimate_extra_calls([row for row in rows if get_name(row) == name])


def _print_report(rows: Sequence[SessionAftermath], count: int) -> None:
    compactions = format_count(len(rows), "recorded compaction")
    print_lines(f"{compactions} with a call after it in {format_count(count, 'session')}")
    if not rows:
        return
    overall = estimate_extra_calls(rows)
    sentence = overall.sentence if overall else "unknown"
    print_lines(f"extra calls up to the first edit or the end of the turn: {sentence}")
    heads = ("", "compactions", "calls to edit", "tokens", "read again", "run again", "failed again", "corrections")
    for name, get_name in GROUPINGS.items():
        lines = []
        groups = group_aftermaths(rows, get_name)
        for group in groups:
            lines.append((group.name, group.compactions, *_format_course(group.after)))
            for title, course in (("before them", group.before), ("matches", group.matched)):
                if course is not None:
                    lines.append((f"  {title}", "", *_format_course(course)))
        if len(groups) > 1 or name == "agent":
            title = f"by {name}: means after the compactions, {WINDOW_CALLS} calls before, and at matches"
            print_table(title, heads, lines)
            for group in groups:
                if (estimate := _estimate_group(rows, get_name, group.name)) is not None:
                    print_lines(f"  {group.name}: {estimate.sentence}")
    names = shorten_names({row.session: None for row in rows})
    cells = [
        (
            f"{names[row.session]}:{row.aftermath.message}",
            row.aftermath.kind,
            row.aftermath.removed,
            row.aftermath.distance,
            *_format_course(row.aftermath.after),
            len(row.aftermath.matches),
            "unknown" if (extra := row.aftermath.extra_calls) is None else f"{extra:+.1f}",
        )
        for row in sorted(rows, key=lambda row: -(row.aftermath.extra_calls or -1e9))
    ]
    case_heads = ("session:message", "kind", "removed", "call of turn", *heads[2:], "matches", "extra calls")
    print_table("compactions, with the most extra calls first", case_heads, cells, MAX_COMPACTIONS_SHOWN)


def _format_course(course: Course) -> tuple[str, ...]:
    calls = "unknown" if course.calls is None else f"{course.calls:.1f}"
    tokens = "unknown" if course.tokens is None else f"{course.tokens:,.0f}"
    return calls, tokens, *(f"{value:.1f}" for value in course[2:])


# Instructions


def _build_instructions_report(name: str, compaction: CompactionInstructions) -> dict[str, object]:
    return {
        "session": name,
        "message": compaction.message,
        "instructions": [
            {
                "source": trace.placed.source,
                **pick_fields(trace.placed, ("message", "block")),
                **pick_fields(trace.placed.instruction, ("start", "end", "kind", "text")),
                **pick_fields(trace, ("outcome", "evidence", "contradicted_at")),
            }
            for trace in compaction.traces
        ],
    }


def _print_instructions(instructions: Sequence[tuple[str, CompactionInstructions]]) -> None:
    if not instructions:
        return
    names = shorten_names({name: None for name, _ in instructions})
    counts, cases = list[tuple[object, ...]](), list[tuple[object, ...]]()
    for name, compaction in instructions:
        place = f"{names[name]}:{compaction.message}"
        for source in InstructionSource:
            numbers = [compaction.count(outcome, source) for outcome in Outcome]
            if any(numbers):
                counts.append((place, source.value, sum(numbers), *numbers))
        cases += [
            (place, f"contradicted at {trace.contradicted_at}", trace.placed.message, trace.placed.instruction.text)
            for trace in compaction.contradictions
        ]
        cases += [
            (place, trace.outcome.value, trace.placed.message, trace.placed.instruction.text)
            for trace in compaction.traces
            if trace.placed.source is InstructionSource.USER
            and trace.outcome in (Outcome.ABSENT, Outcome.IN_OTHER_WORDS)
        ]
    title = "instructions after full compactions"
    print_table(title, ("session:message", "from", "instructions", *(each.value for each in Outcome)), counts)
    heads, hint = ("session:message", "", "message", "instruction"), ", each with its evidence"
    print_table("instructions to judge by reading", heads, cases, MAX_INSTRUCTIONS_SHOWN, hint)
