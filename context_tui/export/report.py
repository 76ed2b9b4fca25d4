"""Report of a session for other people: what fills the context, how it grew, and what a policy would have done.

A report is a list of sections with sentences, tables and charts, which :mod:`context_tui.export.report_page` writes as
HTML or Markdown. It holds numbers and names of tools and files; text of the session is included only on request.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import PurePath, PureWindowsPath
from typing import Any, NamedTuple

from context_tui.compaction.recorded_compactions import COMPACTION_SIZE_HEADS, find_recorded_compactions
from context_tui.lab.fullness import PART_NAMES, compute_calibrated_fullness
from context_tui.lab.price.report import VERDICT_TEXTS, format_break_even, format_savings
from context_tui.lab.regret.cases import RegretCase
from context_tui.lab.replay.result import REPLAY_LIMITS_TEXT, format_firing, format_never_fired, format_replay_label
from context_tui.lab.study import HANDLING_TEXTS, Lab, Study
from context_tui.policies.base import Params, Policy
from context_tui.policies.parameter_space import build_recorded_params
from context_tui.policies.registry import DEFAULT_POLICY, POLICIES
from context_tui.policies.versions import find_own_policies
from context_tui.session.facts import Compaction, Facts
from context_tui.session.session import Session
from context_tui.session.values import BlockFlag
from context_tui.text.numbers import format_count, format_percent, format_saving
from context_tui.text.sanitize import sanitize_line
from context_tui.tokens.breakdown import categorize_block
from context_tui.tokens.context_index import index_context

MAX_PROMPT_LENGTH = 300
"""Maximum length of a typed prompt, in characters."""


class Table(NamedTuple):
    """A table in a report: its title, headings, and rows of texts and numbers, where None is an unknown number."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[object]]

    def has_numbers(self, column: int) -> bool:
        """Return whether a column contains only whole numbers and unknown ones (None)."""
        return all(isinstance(row[column], int | None) for row in self.rows)


class Bar(NamedTuple):
    """A bar divided into named parts, in tokens, whose full length is ``window``."""

    parts: Sequence[tuple[str, int]]
    window: int


class SizeChart(NamedTuple):
    """A chart: named lines with the context size at each call, the window (both in tokens), and events at calls."""

    lines: Sequence[tuple[str, Sequence[int]]]
    window: int
    events: Sequence[tuple[int, str]]


class Section(NamedTuple):
    """One section of a report: a heading, then sentences, then charts and tables."""

    heading: str
    sentences: Sequence[str] = ()
    charts: Sequence[Bar | SizeChart] = ()
    tables: Sequence[Table] = ()


LIMITS = Section("How to read this", [" ".join(REPLAY_LIMITS_TEXT), "Sizes are in tokens; ~ marks an estimate."])


class Report(NamedTuple):
    """A report: a title and the sections below it."""

    title: str
    sections: list[Section]

    def mask(self, mask: Callable[[str], str]) -> Report:
        """Return a copy in which *mask* was applied to every text, for example to remove secrets."""

        def mask_part(part: Any) -> Any:
            if not isinstance(part, tuple | list):
                return mask(part) if isinstance(part, str) else part
            parts = [*map(mask_part, part)]
            return type(part)(*parts) if hasattr(part, "_fields") else parts

        return Report(mask(self.title), mask_part(self.sections))


def build_session_sections(lab: Lab, studies: Sequence[Study], *, with_text: bool = False) -> tuple[Section, Section]:
    """Return a section that sums up a session and the effects of policies, and a section with the details.

    With *with_text*, the sections include text of the session: its title, the typed prompts, paths, and the evidence
    of later uses.
    """
    session, info = lab.session, lab.session.info
    name = f"{PurePath(info.path).name}#{info.id}" if info.id else PurePath(info.path).name
    fullness = compute_calibrated_fullness(session, session.context_at())
    parts = [(PART_NAMES[part.category], part.tokens) for part in fullness.list_parts()]
    charts: list[Bar | SizeChart] = [Bar(parts, fullness.window.tokens)]
    if lab.recording.calls:
        charts.append(_build_size_chart(lab, studies))
    sentences = [_format_overview(lab), " ".join(fullness.sentences)]
    sentences += [_format_study(study) for study in studies if study.replay.calls]
    shares = [(name, tokens, format_percent(tokens / max(fullness.tokens, 1))) for name, tokens in parts]
    tools = [tool for part in fullness.parts for tool in part.tools if tool[1]]
    tables = [
        Table("What fills the context", ("part of the context", "tokens", "share"), shares),
        Table("Results of tools in it", ("tool", "tokens of its results"), tools),
        _build_compaction_table(session),
        *(table for study in studies for table in _build_study_tables(study, with_text)),
    ]
    if with_text:
        tables.append(_build_prompt_table(session))
    title = f" “{sanitize_line(info.title)}”" if with_text and info.title else ""
    texts = [HANDLING_TEXTS[study.replay.recorded] for study in studies[:1] if session.facts.compactions]
    handling = [f"In the replays, recorded compactions are {text}." for text in texts]
    details = Section(f"Details of {name}", handling, (), [each for each in tables if each.rows])
    return Section(f"{name}{title}", sentences, charts), details


def list_own_policies(session: Session) -> list[tuple[Policy, Params]]:
    """Return the policies of a session's agent, with the settings of its version, or else the default policy."""
    policies = [POLICIES[name] for name in find_own_policies(session).values() or [DEFAULT_POLICY]]
    return [(policy, build_recorded_params(policy, {}, session.facts)) for policy in policies]


def _format_overview(lab: Lab) -> str:
    session, recording = lab.session, lab.recording
    window = recording.windows[-1] if recording.windows else session.window
    counts = {"message": len(session), "turn": session.turns, "call": len(recording.calls)}
    counts["recorded compaction"] = len(session.facts.compactions)
    text = ", ".join(format_count(count, noun) for noun, count in counts.items())
    model = f" with {session.facts.model}" if session.facts.model else ""
    return f"Recorded by {session.info.format}{model}, window {window.tokens:,} tokens: {text}."


def _is_as_recorded(study: Study) -> bool:
    """Return whether a policy is what the recording did: its agent's own, which compacted there with these settings."""
    replay, facts = study.replay, study.replay.session.facts
    kinds = {each.kind for each in facts.compactions if each.trigger != "manual"}
    own_policies = find_own_policies(replay.session)
    is_own = any(own_policies.get(kind) == replay.policy for kind in kinds)
    return is_own and replay.params == build_recorded_params(POLICIES[replay.policy], {}, facts)


def _format_study(study: Study) -> str:
    replay, regret = study.replay, study.regret
    label = format_replay_label(replay)
    if replay.session.facts.compactions:
        label += f", with the recorded compactions {'kept' if replay.recorded == 'keep' else 'undone'},"
    if not replay.firings:
        return f"{label} {format_never_fired(replay)}."
    needed_text = f"{regret.used_later:,} of {format_count(regret.dropped, 'dropped block')} were needed later"
    sentences = f"{needed_text} ({regret.tokens_used_later:,} tokens).", "Its cost is not judged: the recording ran it."
    if not _is_as_recorded(study):
        savings, table = format_savings(study.price), study.price.rate_table
        unit = () if table.unit == "USD" else (f"Costs are in {table.note}.",)
        sentences = f"{savings[0].upper()}{savings[1:]}", sentences[0], *unit
    return " ".join((f"{label} fires {format_count(len(replay.firings), 'time')}.", *sentences))


def _build_compaction_table(session: Session) -> Table:
    rows = list[Sequence[object]]()
    for each in find_recorded_compactions(session):
        if isinstance(event := each.event, Compaction):
            sizes = each.believed_tokens_before, event.pre_tokens, each.recorded_tokens_after
            rows.append((f"#{each.message:,}", each.kind, sanitize_line(event.trigger or "unknown"), *sizes))
    heads = "before message", "kind", "trigger", *COMPACTION_SIZE_HEADS
    return Table("Recorded compactions", heads, rows)


def _build_size_chart(lab: Lab, studies: Sequence[Study]) -> SizeChart:
    """Build the chart of all policies, in which identical lines are merged, and so are events at the same call."""
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
            change = f"{format_firing(firing)}, {firing.before:,} → {firing.after:,}"
            events[firing.call].append(f"{replay.policy}: {change}")
    named_lines = [(", the same under ".join(names), sizes) for sizes, names in lines.items()]
    joined_events = [(call, "; ".join(texts)) for call, texts in events.items()]
    return SizeChart(named_lines, recording.windows[-1].tokens, joined_events)


def _build_study_tables(study: Study, with_text: bool) -> list[Table]:
    replay, unit, label = study.replay, study.price.rate_table.unit, format_replay_label(study.replay)
    columns, firing_columns = 7 if with_text else 6, 4 if _is_as_recorded(study) else 6
    firings, cases = list[Sequence[object]](), list[Sequence[object]]()
    for firing, cost in zip(replay.firings, study.price.firings, strict=True):
        outlook, saving = f"{format_break_even(cost)}: {VERDICT_TEXTS[cost.verdict]}", format_saving(-cost.cost, unit)
        sizes = firing.before, firing.after
        firings.append((f"#{firing.message:,}", format_firing(firing), *sizes, outlook, saving)[:firing_columns])
    firing_heads = "before message", "change", "tokens before", "after", "breaks even", f"cost ({unit})"
    needed = (case for case in study.regret.cases if case.is_needed)
    for case in sorted(needed, key=lambda case: -case.tokens):
        block = _describe_block(replay.session.facts, case, with_text)
        use = f"#{case.dropped:,}", f"#{case.later:,}", case.tier, sanitize_line(case.evidence)
        cases.append((f"#{case.message:,}", block, case.tokens, *use)[:columns])
    case_heads = "message", "content", "tokens", "dropped before", "needed at", "by", "evidence"
    later = f"What {label} would have dropped although needed later, largest first"
    firing_table = Table(f"What {label} would have done", firing_heads[:firing_columns], firings)
    return [firing_table, Table(later, case_heads[:columns], cases)]


def _describe_block(facts: Facts, case: RegretCase, with_path: bool) -> str:
    """Return a name for a dropped block: its tool and its file, with the folders of the file only if *with_path*."""
    use = facts.find_tool_use(case.row)
    path = facts.paths[facts.path[use]] if use >= 0 and facts.path[use] >= 0 else ""
    name = facts.tool_name(case.row) or PART_NAMES[categorize_block(facts, case.message, case.row)]
    return sanitize_line(f"{name} {path if with_path else PureWindowsPath(path).name}".strip())


def _build_prompt_table(session: Session) -> Table:
    context = session.context_at()
    rows = list[Sequence[object]]()
    for position in index_context(context).turn_starts:
        message = context.order[position]
        blocks = zip(session.facts.blocks_of(message), session.content.blocks(message), strict=False)
        typed = [block for row, block in blocks if not session.facts.block_flags[row] & BlockFlag.INJECTED]
        prompt = " ".join(str(block.get("text") or "") for block in typed if block.get("type") == "text")
        rows.append((f"#{message:,}", sanitize_line(prompt)[:MAX_PROMPT_LENGTH]))
    return Table("Typed prompts in the context", ("message", "prompt"), rows)
