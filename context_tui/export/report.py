"""Report of a session for other people: what fills the context, how it grew, and what a policy would have done.

A report is a list of sections with sentences, tables and charts, which :mod:`context_tui.export.report_page` writes as
HTML or Markdown. It holds numbers and names of tools and files; text of the session is included only on request.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import NamedTuple

from context_tui.compaction.recorded_compactions import find_recorded_compactions
from context_tui.lab.fullness import PART_NAMES, Fullness, compute_fullness
from context_tui.lab.price.report import VERDICT_TEXTS, format_break_even, format_savings
from context_tui.lab.regret.cases import RegretCase
from context_tui.lab.replay.result import (
    HANDLING_TEXTS,
    REPLAY_LIMITS_TEXT,
    format_firing,
    format_never_fired,
    format_replay_label,
)
from context_tui.lab.study import Lab, Study
from context_tui.policies.base import Params, Policy
from context_tui.policies.registry import DEFAULT_POLICY, POLICIES
from context_tui.policies.versions import build_recorded_params, find_own_policies
from context_tui.session.facts import Compaction, Facts
from context_tui.session.session import Session
from context_tui.session.values import BlockFlag
from context_tui.text.numbers import format_count, format_percent, format_saving
from context_tui.text.sanitize import sanitize_line
from context_tui.tokens.breakdown import categorize_block, measure_breakdown
from context_tui.tokens.context_index import index_context
from context_tui.tokens.measures import build_calibrated_table

MAX_PROMPT_LENGTH = 300
"""Largest number of characters of a typed prompt."""


class Table(NamedTuple):
    """A table in a report: its headings, and rows of texts and numbers, where None is an unknown number."""

    heads: Sequence[str]
    rows: Sequence[Sequence[object]]

    def has_numbers(self, column: int) -> bool:
        """Return whether a column holds nothing but whole numbers, of which some may be unknown."""
        return all(isinstance(row[column], int | None) for row in self.rows)


class Bar(NamedTuple):
    """A bar divided into named parts, in tokens, whose full length is *window*."""

    parts: Sequence[tuple[str, int]]
    window: int


class Marker(NamedTuple):
    """An event to mark in a chart: the number of the call, and a text that describes the event."""

    call: int
    text: str


class SizeChart(NamedTuple):
    """A chart: named lines with the tokens of the context at each call, the window, and the events."""

    lines: Sequence[tuple[str, Sequence[int]]]
    window: int
    markers: Sequence[Marker]


class Section(NamedTuple):
    """One section of a report: a heading of a level, then sentences, then charts and tables."""

    heading: str
    sentences: Sequence[str] = ()
    charts: Sequence[Bar | SizeChart] = ()
    tables: Sequence[Table] = ()
    level: int = 2


class Report(NamedTuple):
    """A report: a title and the sections below it."""

    title: str
    sections: list[Section]

    def mask(self, mask: Callable[[str], str]) -> Report:
        """Return a copy in which *mask* has replaced every text, for example to remove secrets."""

        def mask_cell(value: object) -> object:
            return mask(value) if isinstance(value, str) else value

        sections = []
        for section in self.sections:
            tables = [each._replace(rows=[[*map(mask_cell, row)] for row in each.rows]) for each in section.tables]
            sentences = [*map(mask, section.sentences)]
            sections.append(section._replace(heading=mask(section.heading), sentences=sentences, tables=tables))
        return Report(mask(self.title), sections)


def build_session_sections(
    lab: Lab, studies: Sequence[Study], *, with_text: bool = False
) -> tuple[Section, list[Section]]:
    """Build a section that sums up a session and what policies would have done, and the sections with the details.

    With *with_text*, they include text of the session: its title, the typed prompts, paths, and the evidence of later
    uses.
    """
    session, info = lab.session, lab.session.info
    name = f"{PurePath(info.path).name}#{info.id}" if info.id else PurePath(info.path).name
    context, table = session.context_at(), build_calibrated_table(session.facts)
    fullness = compute_fullness(session, context, measure_breakdown(context, table), table)
    parts = [(PART_NAMES[part.category], part.tokens) for part in fullness.list_parts()]
    charts: list[Bar | SizeChart] = [Bar(parts, fullness.window.tokens)]
    if lab.recording.calls:
        charts.append(_build_size_chart(lab, studies))
    studies = [study for study in studies if study.replay.calls]
    sentences = [_format_overview(lab), " ".join(fullness.sentences), *map(_format_study, studies)]
    details = [Section(f"Details of {name}"), _build_parts_section(parts, fullness)]
    if session.facts.compactions:
        details.append(_build_compactions_section(session, studies))
    details += [_build_study_section(study, with_text) for study in studies if study.replay.firings]
    if with_text:
        details.append(_build_prompt_section(session))
    title = f" “{sanitize_line(info.title)}”" if with_text and info.title else ""
    return Section(f"{name}{title}", sentences, charts), details


def list_own_policies(session: Session) -> list[tuple[Policy, Params]]:
    """Return the policies of the agent that recorded a session, as in its version, or else the default policy."""
    policies = [POLICIES[name] for name in find_own_policies(session).values() or [DEFAULT_POLICY]]
    return [(policy, build_recorded_params(policy, {}, session.facts)) for policy in policies]


def build_limits_section() -> Section:
    """Return the section on what the numbers in a report mean and what they cannot show."""
    return Section("How to read this", [" ".join(REPLAY_LIMITS_TEXT), "Sizes are in tokens; ~ marks an estimate."])


def _format_overview(lab: Lab) -> str:
    session, recording = lab.session, lab.recording
    window = recording.windows[-1] if recording.windows else session.window
    counts = [
        format_count(len(session), "message"),
        format_count(session.turns, "turn"),
        format_count(len(recording.calls), "call"),
        format_count(len(session.facts.compactions), "recorded compaction"),
    ]
    model = f" with {session.facts.model}" if session.facts.model else ""
    return f"Recorded by {session.info.format}{model}, window {window.tokens:,} tokens: {', '.join(counts)}."


def _format_study(study: Study) -> str:
    replay, regret = study.replay, study.regret
    handling = "kept" if replay.recorded == "keep" else "undone"
    where = f", with the recorded compactions {handling}," if replay.session.facts.compactions else ""
    label = f"{format_replay_label(replay)}{where}"
    if not replay.firings:
        return f"{label} {format_never_fired(replay)}."
    savings = format_savings(study.price)
    needed = f"{regret.used_later:,} of {format_count(regret.dropped, 'dropped block')} were needed later"
    table = study.price.rate_table
    unit = "" if table.unit == "USD" else f" Costs are in {table.note}."
    return (
        f"{label} fires {format_count(len(replay.firings), 'time')}. {savings[0].upper()}{savings[1:]}{unit} "
        f"{needed} ({regret.tokens_used_later:,} tokens)."
    )


def _build_parts_section(parts: Sequence[tuple[str, int]], fullness: Fullness) -> Section:
    rows = [(name, tokens, format_percent(tokens / max(fullness.tokens, 1))) for name, tokens in parts]
    tables = [Table(("part of the context", "tokens", "share"), rows)]
    if tools := next((part.tools for part in fullness.parts if part.tools), ()):
        tables.append(Table(("tool", "tokens of its results"), [tool for tool in tools if tool[1]]))
    return Section("What fills the context", (), (), tables, 3)


def _build_compactions_section(session: Session, studies: Sequence[Study]) -> Section:
    rows = list[Sequence[object]]()
    for each in find_recorded_compactions(session):
        if isinstance(event := each.event, Compaction):
            sizes, trigger = (each.believed_tokens_before, each.recorded_tokens_after), event.trigger or "unknown"
            rows.append((f"#{each.message:,}", each.kind, sanitize_line(trigger), *sizes))
    heads = "before message", "kind", "trigger", "tokens before", "after"
    sentences = [f"In the replays they are {HANDLING_TEXTS[study.replay.recorded]}." for study in studies[:1]]
    return Section("Recorded compactions", sentences, (), [Table(heads, rows)], 3)


def _build_size_chart(lab: Lab, studies: Sequence[Study]) -> SizeChart:
    """Build the chart of all policies, in which equal lines and the events at one call are one line and one mark."""
    recording, replays = lab.recording, [study.replay for study in studies]
    lines, events = defaultdict[tuple[int, ...], list[str]](list), defaultdict[int, list[str]](list)
    lines[tuple(recording.sizes)].append("recorded" if any(recording.recorded_sizes) else "estimated")
    for undone in {tuple(replay.baseline) for replay in replays} - set(lines):
        lines[undone].append("without its recorded compactions (hypothetical)")
    replies = [call.message for call in recording.calls]
    for each in lab.session.facts.compactions:
        words = "recorded", each.trigger, "microcompaction" if each.kind == "micro" else "full compaction"
        events[min(bisect_left(replies, each.message), len(replies) - 1)].append(" ".join(filter(None, words)))
    for replay in replays:
        lines[tuple(replay.sizes)].append(format_replay_label(replay))
        for firing in replay.firings:
            sizes = f"{firing.before:,} → {firing.after:,}"
            events[firing.call].append(f"{replay.policy}: {format_firing(firing)}, {sizes}")
    markers = [Marker(call, "; ".join(texts)) for call, texts in events.items()]
    named_lines = [(", the same under ".join(names), sizes) for sizes, names in lines.items()]
    return SizeChart(named_lines, recording.windows[-1].tokens, markers)


def _build_study_section(study: Study, with_text: bool) -> Section:
    replay, price, unit = study.replay, study.price, study.price.rate_table.unit
    firings = list[Sequence[object]]()
    for firing, cost in zip(replay.firings, price.firings, strict=True):
        outlook, saving = f"{format_break_even(cost)}: {VERDICT_TEXTS[cost.verdict]}", format_saving(-cost.cost, unit)
        sizes = firing.before, firing.after
        firings.append((f"#{firing.message:,}", format_firing(firing), *sizes, outlook, saving))
    firing_heads = ("before message", "change", "tokens before", "after", "breaks even", f"cost ({unit})")
    cases = list[Sequence[object]]()
    for case in sorted(study.regret.cases, key=lambda case: -case.tokens):
        block = _describe_block(replay.session.facts, case, with_text)
        evidence = [sanitize_line(case.evidence)] if with_text else []
        later = f"#{case.dropped:,}", f"#{case.later:,}", case.tier
        cases.append((f"#{case.message:,}", block, case.tokens, *later, *evidence))
    evidence = ["evidence"] if with_text else []
    case_heads = ("message", "dropped, largest first", "tokens", "dropped before", "needed at", "by", *evidence)
    tables = [Table(firing_heads, firings), *([Table(case_heads, cases)] if cases else [])]
    return Section(f"What {format_replay_label(replay)} would have done", (), (), tables, 3)


def _describe_block(facts: Facts, case: RegretCase, with_path: bool) -> str:
    """Name a dropped block by its tool and the file that it is about, with the folders of the file only on request."""
    use = facts.tool_use_of(case.row)
    path = facts.paths[facts.path[use]] if use >= 0 and facts.path[use] >= 0 else ""
    name = facts.tool_name(case.row) or PART_NAMES[categorize_block(facts, case.message, case.row)]
    return sanitize_line(f"{name} {path if with_path else PurePath(path).name}".strip())


def _build_prompt_section(session: Session) -> Section:
    context = session.context_at()
    rows = list[Sequence[object]]()
    for position in index_context(context).turn_starts:
        message = context.order[position]
        blocks = zip(session.facts.blocks_of(message), session.content.blocks(message), strict=False)
        typed = [block for row, block in blocks if not session.facts.block_flags[row] & BlockFlag.INJECTED]
        prompt = " ".join(str(block.get("text") or "") for block in typed if block.get("type") == "text")
        rows.append((f"#{message:,}", sanitize_line(prompt)[:MAX_PROMPT_LENGTH]))
    return Section("Typed prompts in the context", (), (), [Table(("message", "prompt"), rows)], 3)
