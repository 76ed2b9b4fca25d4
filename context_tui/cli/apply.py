"""``context-tui apply``: write the result of a plan to a new file or, with ``--in-place``, the session's own file."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from context_tui.cli.options import CommandParser, build_choice_type, open_named_session
from context_tui.cli.output import offer_leftover_removal, pick_fields, print_lines, print_notice, write_json
from context_tui.cli.plan import build_request_report, format_request, plan_from_options
from context_tui.compaction.apply import apply
from context_tui.compaction.next_request import NextRequest, compute_next_request
from context_tui.compaction.plan import Plan
from context_tui.errors import ExitCode, SummarizerError
from context_tui.export import files
from context_tui.export.pairing import check_message_pairs
from context_tui.session.session import Session
from context_tui.summarizer import plan_summary
from context_tui.text.sanitize import make_visible
from context_tui.tokens import estimate
from context_tui.tokens.measures import build_calibrated_table


class WrittenSummary(NamedTuple):
    """The summary written for a plan; ``kind`` is ``model`` or ``extract``, and an extract has no ``model``."""

    kind: str
    model: str | None
    text: str


def run(arguments: Sequence[str]) -> int:
    """Apply one policy to one session, write the result, and return the exit code."""
    types = {
        "format": build_choice_type("format", files.list_export_formats()),
        "summarizer": build_choice_type("summarizer", plan_summary.SUMMARIZER_KINDS),
    }
    parser = CommandParser("apply", types)
    options = parser.parse(arguments)
    unused = "--to" if options.to and options.in_place else "--force" if options.force else ""
    if unused and not options.out:
        parser.error(f"{unused} applies to a new file only; leave it out, or name a file with -o OUT")

    session = open_named_session(options.session, options.window)
    if options.in_place:
        return _apply_in_place(session, options)
    is_own_writable = session.info.format in files.list_writable_formats()
    format_name = options.to or (session.info.format if is_own_writable else "anthropic")
    if not options.dry_run:
        files.check_output_path(session, options.out, options.force)
        offer_leftover_removal(options.out.parent)
    plan = plan_from_options(session, options)
    if not plan.has_changes:
        print_notice(f"{plan.reason}; nothing was written")
        if options.json:
            request = compute_next_request(plan, token_table=build_calibrated_table(session.facts))
            write_json(build_report(session, plan, request, plan.tokens_after, None, None))
        return ExitCode.DONE
    summary = _write_summary(plan, options) if plan.needs_summary else None
    text, table = summary.text if summary else None, build_calibrated_table(session.facts)
    compacted, request = apply(session, plan, text, table), compute_next_request(plan, text, table)
    tokens_after = estimate(compacted) or 0  # everything that can fail comes before OUT is created
    if options.dry_run:
        result = files.try_export(compacted, format_name)
        report = build_report(session, plan, request, tokens_after, summary, result) | {"out": None, "resume": None}
    else:
        result = files.export(compacted, options.out, format_name, force=options.force)
        report = build_report(session, plan, request, tokens_after, summary, result)
    if options.json:
        write_json(report)
    else:
        print_report(report, result, request)
    return ExitCode.DONE


def _apply_in_place(session: Session, options: argparse.Namespace) -> int:
    files.check_in_place(session)
    offer_leftover_removal(Path(os.path.realpath(session.info.path)).parent)
    plan = plan_from_options(session, options)
    result = files.apply_in_place(session, plan) if plan.has_changes else None
    if result is None:
        print_notice(f"{plan.reason}; nothing was changed")
    request = compute_next_request(plan, token_table=build_calibrated_table(session.facts))
    report = build_report(session, plan, request, plan.tokens_after, None, result)
    if options.json:
        write_json(report)
    elif result is not None:
        print_report(report, result, request)
    return ExitCode.DONE


def _write_summary(plan: Plan, options: argparse.Namespace) -> WrittenSummary:
    prepared = plan_summary.prepare_summary(plan, mask_secrets=options.mask_secrets)
    summarizer = plan_summary.choose_summarizer(plan, options.summarizer, options.model, options.base_url)
    for line in plan_summary.format_notice(summarizer, prepared):
        print_notice(line)
    for repair in prepared.repairs if summarizer.endpoints else ():
        print_notice(f"changed for the provider: {repair}")
    summary = plan_summary.write_summary_blocking(summarizer, prepared)
    checks = prepared.check_text(summary.text, summary)
    for check in checks:
        if not check.ok:
            print_notice(f"{check.severity}: {check.label}: {check.detail}")
    if failures := ", ".join(check.label for check in plan_summary.find_blocking_checks(checks)):
        draft = _save_draft(summary.text)
        raise SummarizerError(f"the summary fails a check ({failures}); OUT was not written; the draft is in {draft}")
    return WrittenSummary("model" if summary.model else "extract", summary.model or None, summary.text)


def _save_draft(text: str) -> str:
    """Save a rejected summary, which may have cost money, in a private temporary file, and return the path."""
    handle, name = tempfile.mkstemp(prefix="context-tui-summary-", suffix=".txt")
    with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
    return name


def build_report(
    session: Session,
    plan: Plan,
    request: NextRequest,
    tokens_after: int,
    summary: WrittenSummary | None,
    result: files.ExportResult | None,
) -> dict[str, Any]:
    """Build the JSON report (schema ``context-tui.apply/1``); *result* is None if the plan changes nothing."""
    check = result.check if result else check_message_pairs(session.messages_in(plan.context))
    return {
        "schema": "context-tui.apply/1",
        "policy": plan.policy,
        "params": plan.params.model_dump(mode="json"),
        "at": plan.context.at,
        "reason": plan.reason or None,
        "out": str(result.path) if result else None,
        "format": result.format if result else None,
        "tokens": {
            "before": plan.tokens_before,
            "after": tokens_after,
            "summary": tokens_after - plan.tokens_after if summary else None,
            "estimator": "bytes/4",
        },
        **build_request_report(request),
        "summary": summary._asdict() if summary else None,
        "check": {
            "inherited": [pick_fields(each, _ORPHAN_FIELDS) for each in check.inherited],
            "introduced": [pick_fields(each, _ORPHAN_FIELDS) for each in check.introduced],
        },
        "losses": result.losses if result else [],
        "resume": (result.resume_command or None) if result else None,
        "backup": str(result.backup) if result and result.backup else None,
    }


_ORPHAN_FIELDS = ("kind", "message", "block", "call_id")


def print_report(report: dict[str, Any], result: files.ExportResult, request: NextRequest) -> None:
    """Print the report as text; after ``--dry-run``, it says that nothing was written."""
    tokens, check, summary = report["tokens"], report["check"], report["summary"]
    print_lines(f"{report['policy']}: estimated tokens {tokens['before']:,} -> {tokens['after']:,}")
    print_lines(f"next request: {format_request(request)}")
    if summary:
        author = f"written by {summary['model']}" if summary["model"] else "an extract; no model was called"
        print_lines(f"summary: estimated tokens {tokens['summary']:,}, {author}")
    inherited, introduced = len(check["inherited"]), len(check["introduced"])
    print_lines(f"unpaired calls and results: {inherited:,} already in the recording, {introduced:,} introduced")
    print_lines(*(f"note: {loss}" for loss in report["losses"]))
    if report["out"] is None:
        kept_text = "everything else" if result.losses else "everything"
        print_lines(f"nothing was written; {result.format} can represent {kept_text}")
        return
    if result.backup:
        print_lines(f"backup of the original database: {make_visible(result.backup)}")
    print_lines(f"{'changed in place' if result.backup else 'written'}: {make_visible(result.path)} ({result.format})")
    if result.resume_command:
        print_lines(f"resume: {make_visible(result.resume_command)}")
    sys.stdout.flush()
