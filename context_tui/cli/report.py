"""``context-tui report``: write a page about sessions for other people, as HTML or Markdown."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace

from context_tui.batch.workers import analyze_sources, find_sources
from context_tui.cli.options import CommandParser, build_study_settings, resolve_policies
from context_tui.cli.output import print_notice
from context_tui.cli.tune import Tuning, collect_tunings, format_agent_configuration, format_windows
from context_tui.errors import Error, ExitCode, PlanError, UnreadableSession
from context_tui.export.report import LIMITS, Report, Section, build_session_sections, list_own_policies
from context_tui.export.report_page import write_report
from context_tui.formats.opening import open_session
from context_tui.lab.study import Lab
from context_tui.lab.sweep.recommendation import format_recommendation
from context_tui.lab.sweep.session_sweep import SweepOptions
from context_tui.policies.parameter_space import build_recorded_params
from context_tui.session.session import Session
from context_tui.summarizer.secrets import mask_text


def run(arguments: Sequence[str]) -> int:
    """Write the report on one or more sessions to a file, and return the exit code."""
    options = CommandParser("report").parse(arguments)
    if options.output.suffix not in (".html", ".htm", ".md"):
        raise PlanError(f"{options.output}: give a name that ends in .html or .md")
    if options.output.exists() and not options.force:
        raise Error(f"{options.output} exists; give another name, or --force to replace it")
    requests = resolve_policies(options)
    settings, pairs = build_study_settings(options), list[tuple[Section, Section]]()
    for session in _open_sessions(options.sessions, options.window):
        lab = Lab(session)
        policies = [(policy, build_recorded_params(policy, values, session.facts)) for policy, values in requests]
        studies = [lab.run_study(*each, settings) for each in policies or list_own_policies(session)]
        pairs.append(build_session_sections(lab, studies, with_text=options.with_text))
    if not pairs:
        raise UnreadableSession("there is no session to report on; `context-tui formats` lists the readable formats")
    sweep_options = SweepOptions(**vars(replace(settings, recorded="ignore")), window=options.window)
    recommendations = map(_build_recommendation_section, collect_tunings(options.sessions, sweep_options)[0])
    answers, details = zip(*pairs, strict=True)
    title = answers[0].heading if len(pairs) == 1 else f"{len(pairs):,} sessions"
    report = Report(f"The context of {title}", [*answers, *recommendations, *details, LIMITS])
    write_report(report.mask(lambda text: mask_text(text)[0]), options.output)
    print_notice(f"{options.output} written")
    return ExitCode.DONE


def _open_sessions(specs: Sequence[str], window: int | None) -> Iterator[Session]:
    """Yield the named sessions, and the readable ones in named folders; ``collect_tunings`` reports the others."""
    for spec in specs:
        if not os.path.isdir(spec):
            yield open_session(spec, window=window)
            continue
        for source in find_sources([spec]).sources:
            results, _ = analyze_sources([source], lambda session: session.with_window(window))
            yield from (each.value for each in results)


def _build_recommendation_section(tuning: Tuning) -> Section:
    recommendation = tuning.recommendation
    answer, *evidence = format_recommendation(recommendation, ", sub-agents included, recorded compactions undone")
    if evidence and recommendation.unit != "USD":
        evidence.append("Costs are in input tokens, because no price of a model is known.")
    sentences = [answer, " ".join([*evidence, format_windows(tuning)])]
    if recommendation.verdict == "recommended":
        sentences += [f"To set it: {line}" for line in format_agent_configuration(tuning)]
    return Section(f"Which setting of {recommendation.setting.policy.name}", sentences)
