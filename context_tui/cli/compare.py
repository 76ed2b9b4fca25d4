"""``context-tui compare``: compare summarizers by the facts that survive in their summaries."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from context_tui.cli.options import CommandParser, open_named_session, resolve_policy
from context_tui.cli.output import build_session_name, pick_fields, print_lines, print_notice, print_table, write_json
from context_tui.cli.plan import plan_from_options
from context_tui.errors import ExitCode, PlanError
from context_tui.policies.base import is_session_bound
from context_tui.session.blocks import bytes_to_tokens
from context_tui.session.jsontext import utf8_len
from context_tui.session.session import Session
from context_tui.summarizer.checks.facts import MAX_FACTS_PER_KIND, FactKind
from context_tui.summarizer.comparison import (
    Comparison,
    ComparisonRound,
    Contender,
    ContenderRun,
    compare_summarizers,
    parse_contender,
)
from context_tui.text.files import read_settings_file
from context_tui.text.numbers import format_count

MAX_FACTS_SHOWN = 40
"""Maximum number of lost facts in the text; JSON lists all facts."""

MAX_FACT_WIDTH = 72

MAX_PROMPT_BYTES = 256 * 1024


def run(arguments: Sequence[str]) -> int:
    """Compare summarizers on one session and return the exit code."""
    parser = CommandParser("compare", {"contender": _parse_contender_option})
    options = parser.parse(arguments)
    if len(options.summarizers or ()) < 2:
        parser.error("compare needs two summarizers; name each with --summarizer")
    if options.repeat > 1 and is_session_bound(resolve_policy(options.policy)[0]):
        parser.error(f"{options.policy} cuts once, at a given message; leave --repeat out")

    session = open_named_session(options.session, options.window)

    def plan_at(source: Session, point: int) -> Any:
        return plan_from_options(source, argparse.Namespace(**{**vars(options), "at": point}))

    comparison = compare_summarizers(
        session,
        plan_at,
        options.summarizers,
        at=options.at,
        rounds=options.repeat,
        mask_secrets=options.mask_secrets,
        read_prompt=_read_prompt,
        notify=print_notice,
    )
    if options.json:
        write_json(build_report(session, comparison))
    elif comparison.runs:
        print_report(session, comparison)
    if not comparison.runs:
        print_notice(comparison.plan.reason)
    for contender_run in comparison.runs:
        for each in contender_run.rounds:
            if each.error:
                print_notice(f"{contender_run.name}: {each.error}")
    if comparison.interrupted:
        print_notice("interrupted; the results so far are shown")
        return ExitCode.INTERRUPTED
    return ExitCode.ENDPOINT if any(each.has_failed for each in comparison.runs) else ExitCode.DONE


def _parse_contender_option(text: str) -> Contender:
    try:
        return parse_contender(text)
    except PlanError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _read_prompt(path: str) -> str:
    try:
        data = read_settings_file(Path(path))
        text = data.decode()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise PlanError(f"{path}: the prompt cannot be read ({reason}); name a text file") from None
    if not text.strip() or len(data) > MAX_PROMPT_BYTES:
        raise PlanError(f"{path}: a prompt is 1 to {MAX_PROMPT_BYTES:,} bytes of text; name another file")
    return text


# JSON


def build_report(session: Session, comparison: Comparison) -> dict[str, Any]:
    """Build the JSON report of a comparison (schema ``context-tui.compare/1``).

    ``reason`` is set only if nothing would change; there are then no facts and no summarizers. ``points`` are the
    messages before which a compaction happens; ``facts_per_kind`` is the maximum number of facts per kind. A fact is
    ``shown`` if the request to a model contains it: a policy may truncate results first. The facts of a round are in
    the order of ``facts``; ``again`` means that the fact also occurs in a message after the ``head``. ``estimated``
    and ``request_tokens`` are bytes/4; ``output`` and ``input`` are reported by the server, or null. ``cost`` is in US
    dollars at the list price of the model that answered, and null if the price or the number of tokens is unknown.
    """
    plan, head = comparison.plan, comparison.plan.summarised_message_numbers
    return {
        "schema": "context-tui.compare/1",
        "session": build_session_name(session),
        "policy": plan.policy,
        "params": plan.params.model_dump(mode="json"),
        "reason": plan.reason or None,
        "points": list(comparison.points),
        "head": {
            "messages": len(head),
            "first": head[0] if head else None,
            "last": head[-1] if head else None,
            "tokens": comparison.head_tokens,
            "estimator": "bytes/4",
        },
        "facts_per_kind": MAX_FACTS_PER_KIND,
        "interrupted": comparison.interrupted,
        "facts": [
            {
                **pick_fields(fact, ("kind", "text", "message", "block")),
                "voice": fact.source,
                **pick_fields(fact, ("messages", "quote")),
                "looked_for": list(fact.parts),
                "need": fact.required_parts,
                "shown": is_in_request,
            }
            for fact, is_in_request in zip(comparison.facts, comparison.facts_in_request, strict=True)
        ],
        "summarizers": [_build_run_report(comparison, run) for run in comparison.runs],
    }


def _build_run_report(comparison: Comparison, run: ContenderRun) -> dict[str, Any]:
    endpoint = run.summarizer.endpoints[0] if run.summarizer.endpoints else None
    return {
        "name": run.name,
        "spec": run.contender.spec,
        "kind": run.contender.kind,
        "model": endpoint.model if endpoint else None,
        "host": endpoint.host if endpoint else None,
        "rounds": [
            _build_round_report(comparison, each, in_tail)
            for each, in_tail in zip(run.rounds, comparison.facts_in_tail, strict=False)
        ],
    }


def _build_round_report(comparison: Comparison, compaction: ComparisonRound, in_tail: Sequence[bool]) -> dict[str, Any]:
    summary, cost = compaction.summary, compaction.cost
    usage = summary.usage if summary and summary.model else None
    return {
        "at": compaction.at,
        "head_messages": compaction.head_messages,
        "request_tokens": compaction.request_tokens,
        "error": compaction.error or None,
        "skipped": compaction.skipped or None,
        "model": (summary.model or None) if summary else None,
        "text": summary.text if summary else None,
        "seconds": round(summary.seconds, 3) if summary else None,
        "cost": round(cost.usd, 6) if cost else None,
        "price": pick_fields(cost, ("date", "source")) if cost and cost.date else None,
        "tokens": {
            "estimated": estimate_summary_tokens(compaction),
            "output": usage.output_tokens if usage else None,
            "input": (usage.context_tokens or None) if usage else None,
        },
        "stop_reason": (summary.stop_reason or None) if summary else None,
        "checks": [asdict(each) for each in compaction.checks],
        "kept": {kind.value: count_preserved(comparison, compaction, kind) for kind in FactKind} if summary else None,
        "facts": [
            {"kept": each.preserved, "evidence": each.evidence, "again": is_in_tail}
            for each, is_in_tail in zip(compaction.survivals, in_tail, strict=False)
        ],
    }


def estimate_summary_tokens(compaction: ComparisonRound) -> int | None:
    """Estimate the tokens (bytes/4) in the summary of a round, or return None if it has no summary."""
    return bytes_to_tokens(utf8_len(compaction.summary.text)) if compaction.summary else None


def count_preserved(comparison: Comparison, compaction: ComparisonRound, kind: FactKind) -> int:
    """Return how many facts of one kind survive in the summary of a round."""
    pairs = zip(comparison.facts, compaction.survivals, strict=False)
    return sum(each.preserved for fact, each in pairs if fact.kind is kind)


# Text


def print_report(session: Session, comparison: Comparison) -> None:
    """Print the comparison as text, with tables of the surviving facts and of the summaries."""
    plan = comparison.plan
    head = len(plan.summarised_message_numbers)
    point = "the end" if plan.context.at == len(session) else f"message {plan.context.at:,}"
    print_lines(f"{session.info.path}   {plan.policy} before {point}")
    print_lines(
        f"head: {format_count(head, 'message')}, estimated {comparison.head_tokens:,} tokens, "
        f"{format_count(len(comparison.facts), 'fact')}"
    )
    print_lines(*(f"{run.name}: {run.summarizer.label} ({run.contender.spec})" for run in comparison.runs))
    names = [run.name for run in comparison.runs]
    heads = ("kind", "facts", "sent to a model", *names)
    print_table("surviving facts of the head", heads, _build_kind_rows(comparison))
    summary_heads = ("", "est. tokens", "tokens reported", "seconds", "cost", "failed checks")
    print_table("summaries", summary_heads, [_build_summary_row(run) for run in comparison.runs if run.rounds])
    if dates := {each.cost.date for run in comparison.runs for each in run.rounds if each.cost and each.cost.date}:
        print_lines(f"  cost: list price of the model that answered, as of {min(dates)}")
    if len(comparison.points) > 1:
        facts = f"{len(comparison.facts):,} facts of the first head, after each compaction"
        described: dict[FactKind | None, str] = {None: facts}
        if constraints := sum(fact.kind is FactKind.CONSTRAINT for fact in comparison.facts):
            described[FactKind.CONSTRAINT] = f"{format_count(constraints, 'typed constraint')} of the first head"
        for kind, text in described.items():
            rows = [_build_decay_row(comparison, place, kind) for place in range(len(comparison.points))]
            print_table(f"survivors of the {text}", ("compaction", "before message", *names), rows)
    _print_lost(comparison, names)
    for run in comparison.runs:
        for place, each in enumerate(run.rounds):
            if each.skipped:
                print_lines(f"{run.name}, compaction {place + 1}: {each.skipped}")


def _build_kind_rows(comparison: Comparison) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    firsts = [run.rounds[0] if run.rounds else None for run in comparison.runs]
    facts = list(zip(comparison.facts, comparison.facts_in_request, strict=True))
    for kind in FactKind:
        in_request = [is_in_request for fact, is_in_request in facts if fact.kind is kind]
        survivors = (count_preserved(comparison, each, kind) if each and each.summary else "failed" for each in firsts)
        rows.append((kind.value, len(in_request), sum(in_request), *survivors))
    total = [each.preserved_count if each and each.summary else "failed" for each in firsts]
    return [*rows, ("all", len(comparison.facts), sum(comparison.facts_in_request), *total)]


def _build_summary_row(run: ContenderRun) -> tuple[object, ...]:
    first_round = run.rounds[0]
    summary = first_round.summary
    if summary is None:
        return run.name, "failed", "", "", "", ""
    reported = summary.usage.output_tokens if summary.model else ""
    cost = "unknown" if first_round.cost is None else f"${first_round.cost.usd:.4f}" if first_round.cost.usd else "none"
    problems = ", ".join(each.label for each in first_round.checks if not each.ok)
    return run.name, estimate_summary_tokens(first_round), reported, f"{summary.seconds:.1f}", cost, problems or "none"


def _build_decay_row(comparison: Comparison, place: int, kind: FactKind | None) -> tuple[object, ...]:
    cells: list[object] = []
    for run in comparison.runs:
        compaction = run.rounds[place] if place < len(run.rounds) else None
        if compaction is None or compaction.summary is None:
            cells.append("skipped" if compaction and compaction.skipped else "failed" if compaction else "")
            continue
        facts = zip(comparison.facts, compaction.survivals, comparison.facts_in_tail[place], strict=True)
        of_kind = (each for each in facts if kind is None or each[0].kind is kind)
        survivors = [is_in_tail for _, survival, is_in_tail in of_kind if survival.preserved]
        cells.append(f"{len(survivors):,} ({sum(survivors):,})")
    return (place + 1, comparison.points[place], *cells)


def _print_lost(comparison: Comparison, names: Sequence[str]) -> None:
    firsts = [run.rounds[0].survivals if run.rounds else () for run in comparison.runs]
    rows = []
    for place, fact in enumerate(comparison.facts):
        cells = [("kept" if each[place].preserved else "lost") if each else "" for each in firsts]
        if "lost" in cells:
            text = fact.text if len(fact.text) <= MAX_FACT_WIDTH else fact.text[: MAX_FACT_WIDTH - 1] + "…"
            rows.append((fact.kind.value, fact.message, fact.source.value, text, *cells))
    heads = ("kind", "message", "by", "fact", *names)
    print_table("lost facts", heads, rows, MAX_FACTS_SHOWN, ", each with its evidence")
