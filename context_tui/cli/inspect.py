"""`context-tui inspect`: the breakdown of a session and of its context at a point."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from context_tui.cli.options import (
    add_session_options,
    build_choice_type,
    build_parser,
    open_named_session,
    parse_arguments,
)
from context_tui.cli.output import format_count, print_line, print_notice, print_table, write_json
from context_tui.cli.prompt_report import build_prompt_report, print_prompt_report
from context_tui.compaction.next_request import NextRequest, SizeSource, compute_current_size
from context_tui.compaction.recorded_compactions import (
    RecordedCompaction,
    count_tokens_by_category,
    find_recorded_compactions,
)
from context_tui.errors import ExitCode
from context_tui.formats.opening import choose_session
from context_tui.lab.regret.cases import ReusedBlock, find_reused_blocks
from context_tui.lab.regret.index import UseIndex, build_use_index
from context_tui.library.follow import follow_session
from context_tui.policies.registry import find_runtimes
from context_tui.policies.runtime_state import RuntimeState
from context_tui.policies.trigger_points import iterate_runtime_states
from context_tui.session.facts import Compaction, Facts
from context_tui.session.session import Session
from context_tui.session.values import Kind, MessageFlag, RecordKind, Role
from context_tui.text.sanitize import make_visible
from context_tui.tokens.accounting import compute_believed_size, compute_not_in_file, estimate_prompt, find_last_usage
from context_tui.tokens.breakdown import compute_breakdown
from context_tui.tokens.calibration import Calibration, ErrorStats
from context_tui.tokens.context_index import index_context
from context_tui.tokens.estimate_check import EstimateCheck, check_estimate, suggest_sizes
from context_tui.tokens.estimators import bytes4, count_message_tokens
from context_tui.tokens.exact import measure_exactly
from context_tui.tokens.measures import TokenMeasure, TokenTable, build_calibrated_table


def run(arguments: Sequence[str]) -> int:
    """Print the report of one session."""
    options = build_parser(
        "inspect", "Show where a session's context went: tokens by category and tool, turns, compactions."
    )
    add_session_options(options)
    options.add_argument("--json", action="store_true", help="print one JSON document")
    options.add_argument("--messages", action="store_true", help="add a timeline of all messages")
    options.add_argument(
        "--ruler",
        type=build_choice_type("token measure", list(TokenMeasure)),
        default=TokenMeasure.OWN,
        metavar="RULER",
        help="token measure: own (bytes / 4, as the policies do), calibrated (fitted to recorded sizes) or exact (a"
        " tokenizer)",
    )
    options.add_argument(
        "--compactions",
        action="store_true",
        help="add the context before and after each recorded compaction, and the lost content that was needed later",
    )
    options.add_argument(
        "--follow",
        action="store_true",
        help="follow the session while it is being written: one line per change, or with --json one document",
    )
    given = parse_arguments(options, arguments)
    if given.follow:
        return _follow_session(given)
    session = open_named_session(given.session, given.window)
    report = build_report(
        session, given.at, timeline=given.messages, measure=TokenMeasure(given.ruler), compactions=given.compactions
    )
    if given.json:
        write_json(report)
    else:
        print_report(session, report)
    return ExitCode.DONE


def _follow_session(given: argparse.Namespace) -> int:
    """Report the session now and after each change of its file, until interrupted."""
    happened = set[tuple[str, int]]()
    for session in follow_session(choose_session(given.session), notify=print_notice):
        session = session.with_window(given.window)
        if given.json:
            report = build_report(session, given.at, timeline=given.messages, measure=TokenMeasure(given.ruler))
            write_json(report, indent=None)
        else:
            happened, before = _find_compaction_keys(session), happened
            print_line(
                format_status_line(session, given.at)
                + (_format_newest_compaction(session, before) if happened > before else "")
            )
        sys.stdout.flush()
    return ExitCode.DONE


def format_status_line(session: Session, at: int | None = None) -> str:
    """Format a followed session as one line: messages, context, window, problems."""
    size, window = compute_current_size(session.context_at(at)), session.window_at(len(session) if at is None else at)
    share = f" of {window.tokens:,} ({size.tokens / window.tokens:.0%})" if window.tokens else ""
    problems = f"   {format_count(len(session.facts.problems), 'problem')}" if session.facts.problems else ""
    how = "estimated" if size.recorded is None else "recorded and estimated"
    return f"{format_count(len(session), 'message')}   {size.tokens:,}{share} tokens, {how}{problems}"


def _find_compaction_keys(session: Session) -> set[tuple[str, int]]:
    """Return the compactions of a session by kind and place, which cheaply reveals a new one."""
    silent = (("silent", drop.message) for drop in session.drops if drop.cleared_blocks)
    return {*((each.kind, each.message) for each in session.facts.compactions), *silent}


def _format_newest_compaction(session: Session, known: set[tuple[str, int]]) -> str:
    """Format the last compaction of a followed session; empty where it is *known*."""
    found = find_recorded_compactions(session)[-1:]
    return "".join(
        f"   last compaction: {each.kind}, before message {each.message:,}, "
        f"lost {sum(map(each.count_block_tokens, each.removed_blocks)):,} tokens (est.)"
        for each in found
        if (each.kind, each.message) not in known
    )


def build_report(
    session: Session,
    at: int | None = None,
    *,
    timeline: bool = False,
    measure: TokenMeasure = TokenMeasure.OWN,
    compactions: bool = False,
) -> dict[str, Any]:
    """Build the report as JSON-ready data (schema ``context-tui.inspect/1``), with sizes by a token measure.

    Args:
        compactions: add both sides of recorded compactions and the lost content that was needed later, which reads
            all text.

    Raises:
        MeasureError: the token measure needs a tokenizer that is not installed.
    """
    facts, context = session.facts, session.context_at(at)
    calibrated = build_calibrated_table(facts)
    sizes = (
        calibrated
        if measure is TokenMeasure.CALIBRATED
        else measure_exactly(session)
        if measure is TokenMeasure.EXACT
        else None
    )
    window, kinds = session.window_at(context.at), Counter(facts.record_kind)
    hidden, usage = (
        compute_not_in_file(context) if sizes is None else sizes.not_in_file_at(context),
        find_last_usage(context),
    )
    if facts.holds_requests:
        hidden = hidden or 0
    parts, shares = compute_breakdown(context, hidden, table=sizes), suggest_sizes(session, context)
    fit, request = check_estimate(session, context), NextRequest(compute_current_size(context, sizes))
    happened = find_recorded_compactions(session)
    uses = build_use_index(session) if compactions and happened else None
    in_context = index_context(context).total + estimate_prompt(facts, context.at)
    if sizes:
        in_context = sizes.prefix_sums_in(context)[-1] + sum(sizes.prompt_at(context))
    report: dict[str, Any] = {
        "schema": "context-tui.inspect/1",
        "session": {
            "path": session.info.path,
            "format": session.info.format,
            "id": session.info.id,
            "model": facts.model,
            "context_window": window.tokens,
            "context_window_source": window.source,
            "context_window_others": list(window.alternatives),
            "note": session.info.note or None,
        },
        "records": {
            "total": len(facts.record_kind),
            "messages": kinds[RecordKind.MESSAGE],
            "side": kinds[RecordKind.METADATA],
            "problems": kinds[RecordKind.PROBLEM],
        },
        "problems": [{"where": problem.where, "what": problem.what} for problem in facts.problems],
        "messages": len(session),
        "turns": session.turns,
        "requests": len(facts.requests),
        "requests_elsewhere": sum(branch.requests for branch in facts.branches),
        "branches": [asdict(branch) for branch in facts.branches],
        "compactions": [_build_compaction_report(each, uses) for each in happened if each.kind != "silent"],
        "at": context.at,
        "epochs": [
            {"message": epoch.message, "cause": epoch.cause}
            for epoch in facts.epochs
            if not epoch.message or epoch.message < context.at
        ],
        "drops": _build_drop_reports(session, context.at, [each for each in happened if each.kind == "silent"], uses),
        "window": {
            "indices": list(context.order),
            "estimated_tokens": in_context,
            "recorded_tokens": usage.context if usage else None,
            "believed_tokens": compute_believed_size(context).tokens,
            "next_request_tokens": request.tokens_before,
            "next_request_source": request.source_before,
            "not_in_file_tokens": hidden,
            "estimator": sizes.name if sizes else "bytes/4",
        },
        "ruler": {"kind": measure, "name": sizes.name if sizes else "bytes/4", "note": (sizes and sizes.note) or None},
        "by_category": parts.by_category,
        "by_category_recorded": dict(shares.by_category) if shares.by_category else None,
        "by_category_recorded_why": shares.reason or None,
        "by_tool": [
            {"tool": share.tool, "calls": share.calls, "result_tokens": share.result_tokens} for share in parts.by_tool
        ],
        **build_prompt_report(session, context, sizes),
        "duplicate_reads": [
            {"path": read.path, "count": read.count, "tokens": read.tokens, "wasted": read.wasted}
            for read in parts.duplicate_reads
        ],
        "diagnosis": parts.diagnosis,
        "fit": _build_fit_report(fit) if fit else None,
        "calibration": [
            {
                **build_calibration_report(each),
                "not_in_file": _build_hidden_report(calibrated.not_in_file.get(each.model)),
            }
            for each in calibrated.calibrations
        ],
    }
    if timeline:
        report["timeline"] = build_timeline(session, frozenset(context.order), sizes)
    return report


def _build_fit_report(fit: EstimateCheck) -> dict[str, Any]:
    """Report the estimate and the recorded size. Positive tokens of a cause make the estimate too large."""
    return {
        "recorded": fit.recorded,
        "expected": fit.expected,
        "cause": fit.causes_text,
        "causes": [{"what": cause.label, "tokens": cause.tokens} for cause in fit.causes],
        "unexplained": fit.unexplained,
    }


def _build_hidden_report(tokens: int | None) -> dict[str, Any] | None:
    """Report the tokens of a model's requests that are not in the file, with their source; None if unknown."""
    return None if tokens is None else {"tokens": tokens, "source": "recorded - calibrated, median"}


def build_calibration_report(found: Calibration) -> dict[str, Any]:
    """Report recorded tokens per estimated token by kind of content.

    ``each`` and ``image`` are the tokens of one request and of one image."""
    factors = asdict(found.factors)
    factors["each"] = factors.pop("request_overhead")
    return {
        "model": found.model or None,
        "requests": found.requests,
        "factors": {name: round(factors[name], 3) if factors[name] is not None else None for name in _FACTOR_NAMES},
        "error": _build_error_report(found.error),
        "error_bytes4": _build_error_report(found.error_bytes4),
        "usable": found.usable,
        "why": found.reason or None,
        "instead": None if found.usable else found.fallback,
    }


_FACTOR_NAMES = {
    "text": "text",
    "thinking": "thinking",
    "signature": "signatures",
    "call": "calls",
    "result": "results",
    "each": "a request",
    "image": "an image",
    "unrecorded": "unrecorded",
}


def _build_error_report(errors: ErrorStats | None) -> dict[str, float] | None:
    return {"median": round(errors.median, 4), "p95": round(errors.p95, 4)} if errors else None


def _build_drop_reports(
    session: Session, at: int, silent: Sequence[RecordedCompaction], uses: UseIndex | None
) -> list[dict[str, Any]]:
    """Report drops of the recorded context, unlogged or explained by a recorded microcompaction.

    Unlogged drops that cleared results are the *silent* compactions; which results were cleared is inferred.
    """
    sides = {each.message: _build_sides_report(each, uses) for each in silent} if uses else {}
    facts, drops = session.facts, [drop for drop in session.drops if drop.message < at]
    owners = {facts.block_message[row] for drop in drops for row in drop.cleared_blocks}
    ordinals = {row: number for owner in owners for number, row in enumerate(facts.blocks_of(owner))}
    return [
        {
            "message": drop.message,
            "tokens": drop.tokens,
            "explained_by": drop.explained_by,
            "results": [{"message": facts.block_message[row], "block": ordinals[row]} for row in drop.cleared_blocks],
            **sides.get(drop.message, {}),
        }
        for drop in drops
    ]


def _build_compaction_report(found: RecordedCompaction, uses: UseIndex | None) -> dict[str, Any]:
    """Report a logged compaction: the size in the runtime before it, and the recorded size after it."""
    what = found.event
    assert isinstance(what, Compaction)
    return {
        "message": what.message,
        "kind": what.kind,
        "trigger": what.trigger,
        "tokens_before": found.believed_tokens_before,
        "tokens_before_source": "recorded + estimated delta" if found.believed_is_recorded else "estimated",
        "tokens_before_in_file": what.pre_tokens,
        "tokens_saved_in_file": what.saved_tokens,
        "tokens_after": found.recorded_tokens_after,
        "preserved_missing": what.missing_messages,
        **(_build_sides_report(found, uses) if uses else {}),
    }


def _build_sides_report(found: RecordedCompaction, uses: UseIndex) -> dict[str, Any]:
    """Report both sides of a compaction, what was lost, and what of that was needed later; tokens by ``bytes/4``."""
    facts, summary = found.session.facts, found.summary_message
    sides = {
        name: count_tokens_by_category(context)
        for name, context in (("before", found.context_before), ("after", found.context_after))
    }
    contexts = {"before": found.context_before, "after": found.context_after}
    return {
        **{
            name: {
                "messages": len(contexts[name]),
                "estimated_tokens": sum(parts.values()),
                "by_category": parts,
            }
            for name, parts in sides.items()
        },
        "kept": len(found.remaining_messages),
        "put_in": len(found.added_messages),
        "summary": summary,
        "summary_tokens": None if summary is None else count_message_tokens(facts, summary),
        "lost": {
            "messages": len({facts.block_message[row] for row in found.removed_blocks}),
            "blocks": len(found.removed_blocks),
            "tokens": sum(map(found.count_block_tokens, found.removed_blocks)),
        },
        "came_back": [_build_return_report(found, each) for each in find_reused_blocks(found, uses)],
    }


def _build_return_report(found: RecordedCompaction, back: ReusedBlock) -> dict[str, Any]:
    facts, use = found.session.facts, back.use
    return {
        "tier": use.tier,
        "message": facts.block_message[back.row],
        "block": facts.ordinal(back.row),
        "tokens": found.count_block_tokens(back.row),
        "later": use.message,
        "evidence": use.evidence,
        "still_in_context": sorted({facts.block_message[row] for row in back.row_copies}),
    }


def build_timeline(
    session: Session, in_context: frozenset[int], sizes: TokenTable | None = None
) -> list[dict[str, Any]]:
    """Build the timeline: every message with its turn (1-based; 0 before the first) and its blocks; tokens by
    ``bytes/4`` or *sizes*.

    Each call to the model has its recorded size and the size that each runtime would have computed: defect by
    baseline and delta, agent-sdk by the input tokens of the last reply.
    """
    facts, turn, found = session.facts, 0, []
    recorded = {message: usage.context for message, usage in zip(facts.request_message, facts.requests, strict=True)}
    drops = {drop.message: drop.tokens for drop in session.drops}
    states = {state.at: state for state in iterate_runtime_states(session, frozenset({"before_call"}))}
    for message in range(len(session)):
        turn += bool(facts.flags[message] & MessageFlag.TURN_START)
        found.append(
            {
                "index": message,
                "role": Role(facts.role[message]).name.lower(),
                "turn": turn,
                "tokens": sizes.messages[message] if sizes else count_message_tokens(facts, message),
                "in_context": message in in_context,
                "recorded_tokens": recorded.get(message),
                "dropped_tokens": drops.get(message),
                "believed_tokens": _build_believed_sizes(states[message]) if message in states else None,
                "blocks": [_build_block_report(facts, block, sizes) for block in facts.blocks_of(message)],
            }
        )
    return found


def _build_believed_sizes(state: RuntimeState) -> dict[str, int | None]:
    """Return the size that each runtime would believe at a moment, in tokens."""
    beliefs = {runtime: policy.believed_size(state) for runtime, policy in find_runtimes().items()}
    return {runtime: belief.tokens for runtime, belief in beliefs.items() if belief is not None}


def _build_block_report(facts: Facts, block: int, sizes: TokenTable | None) -> dict[str, Any]:
    kind = Kind(facts.kind[block]).name.lower()
    tokens = sizes.blocks[block] if sizes else bytes4(facts, block)
    return {"kind": kind, "tokens": tokens, "tool": facts.tool_name(block) or None}


def print_report(session: Session, report: dict[str, Any]) -> None:
    """Print the report as text."""
    about, records, window = report["session"], report["records"], report["window"]
    name = f"{about['path']}#{about['id']}" if about["id"] else about["path"]
    print_line(f"{make_visible(name)}   {about['format']}   {about['model'] or 'model unknown'}")
    if about["note"]:
        print_line(f"note: {about['note']}")
    print_line("   ".join(format_count(report[f"{what}s"], what) for what in ("message", "turn", "request")))
    if report["branches"]:
        left = format_count(sum(branch["messages"] for branch in report["branches"]), "message")
        ids = ", ".join(f"#{branch['id']}" for branch in report["branches"])
        print_line(
            f"branches abandoned by a rewind: {left}, {format_count(report['requests_elsewhere'], 'request')} ({ids})"
        )
    print_line(
        f"{format_count(records['total'], 'record')}: {format_count(records['messages'], 'message record')}, "
        f"{format_count(records['side'], 'metadata record')}, {format_count(records['problems'], 'problem')}"
    )
    where = "at the end" if report["at"] == report["messages"] else f"before message {report['at']:,}"
    print_line(f"context {where}: {format_count(len(window['indices']), 'message')}")
    measure = report["ruler"]
    how, unit = ("estimated", "est.") if measure["kind"] == TokenMeasure.OWN else (measure["name"],) * 2
    if measure["kind"] != TokenMeasure.OWN:
        print_line(f"sizes by {measure['name']}" + (f": {measure['note']}" if measure["note"] else ""))
    print_table("size", ("tokens", "", ""), _build_size_rows(report, how))
    total = max(1, sum(report["by_category"].values()))
    real = report["by_category_recorded"]
    categories = [
        (name, tokens, f"{tokens / total:.0%}", *([real[name]] if real else []))
        for name, tokens in report["by_category"].items()
        if tokens or (real and real[name])
    ]
    columns = ("category", "tokens", "share", *(["fitted to recorded sizes"] if real else []))
    print_table(f"by category ({how}; not_in_file is recorded - {how})", columns, categories)
    if not real:
        print_line(f"  no fit to recorded sizes: {report['by_category_recorded_why']}")
    _print_calibration(report["calibration"])
    tools = [(share["tool"] or "(call missing)", share["calls"], share["result_tokens"]) for share in report["by_tool"]]
    print_table(f"by tool ({how})", ("tool", "calls", "result tokens"), tools)
    print_prompt_report(session, report, how)
    reads = [
        (read["path"], read["count"], read["tokens"], read["wasted"])
        for read in report["duplicate_reads"]
        if read["wasted"]
    ]
    print_table(f"lines read more than once ({how})", ("path", "reads", "tokens", "wasted"), reads[:20])
    if len(reads) > 20:
        print_line(f"  {len(reads) - 20:,} more; --json lists all")
    compactions = [
        (c["message"], c["kind"], c["trigger"] or "", c["tokens_before"], c["tokens_before_in_file"], c["tokens_after"])
        for c in report["compactions"]
    ]
    print_table(
        "recorded compactions",
        ("message", "kind", "trigger", "believed before", "before in the file", "recorded after"),
        compactions,
    )
    sides = [
        (each["message"], each.get("kind", "silent"), *_format_side_cells(each))
        for each in sorted([*report["compactions"], *report["drops"]], key=lambda each: each["message"])
        if "lost" in each
    ]
    heads = ("message", "kind", "before", "after", "kept", "inserted", "summary", "lost blocks", "lost tokens")
    print_table("context before and after each compaction (messages; tokens est.)", heads, sides)
    _print_returns(report)
    for c in report["compactions"]:
        if c["preserved_missing"]:
            missing = format_count(c["preserved_missing"], "record")
            print_line(f"  not in the file: {missing} kept by the compaction at message {c['message']:,}")
    if len(report["epochs"]) > 1:
        begun = ", ".join(f"{e['message']:,} ({e['cause']})" for e in report["epochs"])
        print_line()
        print_line(f"contexts start at messages {begun}")
    drops = [
        (drop["message"], drop["tokens"], drop["explained_by"] or "unexplained", len(drop["results"]) or "")
        for drop in report["drops"]
    ]
    print_table("drops of the recorded context", ("message", "tokens", "explained by", "results (inferred)"), drops)
    print_table(
        "problems", ("where", "what"), [(problem["where"], problem["what"]) for problem in report["problems"][:20]]
    )
    if report["diagnosis"]:
        print_line()
        print_line(f"diagnosis (estimated, bytes / 3.5): {report['diagnosis']}")
    if "timeline" in report:
        believed = [*find_runtimes()]
        rows = [
            (
                entry["index"],
                entry["turn"],
                entry["role"],
                entry["tokens"],
                _format_recorded_cell(entry),
                *((entry["believed_tokens"] or {}).get(name, "") for name in believed),
                "yes" if entry["in_context"] else "no",
                ", ".join(block["kind"] + (f" {block['tool']}" if block["tool"] else "") for block in entry["blocks"]),
            )
            for entry in report["timeline"]
        ]
        columns = (
            "message",
            "turn",
            "role",
            f"{unit} tokens",
            "recorded",
            *(f"believed by {name}" for name in believed),
        )
        print_table("timeline", (*columns, "in context", "blocks"), rows)


def _format_side_cells(found: dict[str, Any]) -> tuple[object, ...]:
    before, after = found["before"], found["after"]
    sizes = (f"{each['estimated_tokens']:,} in {each['messages']:,}" for each in (before, after))
    lost = found["lost"]
    return *sizes, found["kept"], found["put_in"], found["summary_tokens"] or "", lost["blocks"], lost["tokens"]


def _print_returns(report: dict[str, Any]) -> None:
    """Print what compactions lost and later messages needed."""
    found = sorted([*report["compactions"], *report["drops"]], key=lambda each: each["message"])
    rows = [
        (
            each["message"],
            back["message"],
            back["tokens"],
            back["later"],
            back["tier"],
            _format_remaining_places(back),
            back["evidence"],
        )
        for each in found
        for back in each.get("came_back", ())
    ]
    heads = ("compaction", "lost", "tokens", "needed at", "as", "still in context", "evidence")
    print_table("lost by a compaction and needed later", heads, rows)


def _format_remaining_places(back: dict[str, Any]) -> str:
    return ", ".join(f"#{message:,}" for message in back["still_in_context"]) or "nothing"


def _print_calibration(calibration: list[dict[str, Any]]) -> None:
    """Print the tokens that each model needs per estimated token, and the error on requests not fitted on."""
    usable = [each for each in calibration if each["usable"]]
    rows: list[tuple[object, ...]] = [
        (name, *(_format_factor(each["factors"][key], key) for each in usable)) for key, name in _FACTOR_NAMES.items()
    ]
    for name, key in (("error", "error"), ("error of bytes / 4", "error_bytes4")):
        rows.append((name, *(f"{each[key]['median']:.1%} (95 %: {each[key]['p95']:.1%})" for each in usable)))
    hidden = [each["not_in_file"] for each in usable]
    rows.append(("not in the file", *(f"{each['tokens']:,} tokens" if each else "unknown" for each in hidden)))
    heads = ("", *(make_visible(each["model"] or "model unknown") for each in usable))
    title = "calibration: recorded tokens per estimated token, and the median error on requests not fitted on"
    print_table(title, heads, rows if usable else [])
    if any(hidden):
        print_line("  not in the file: the median over the model's requests of recorded - calibrated")
    for each in calibration:
        if not each["usable"]:
            model = make_visible(each["model"] or "model unknown")
            print_line(f"  not calibrated: {model}: {each['why']}; {each['instead']} are used")


def _format_factor(value: float | None, name: str) -> str:
    if value is None:
        return "not observed"
    return f"{value:.0f} tokens" if name in ("each", "image", "unrecorded") else f"{value:.2f}"


def _format_recorded_cell(entry: dict[str, Any]) -> object:
    """Format the recorded size at a message, with the drop where it fell."""
    recorded, dropped = entry["recorded_tokens"], entry["dropped_tokens"]
    if recorded is None:
        return ""
    return f"{recorded:,} (-{dropped:,})" if dropped else recorded


def _build_size_rows(report: dict[str, Any], how: str) -> list[tuple[object, ...]]:
    window, about, fit = report["window"], report["session"], report["fit"]
    own = report["ruler"]["kind"] == TokenMeasure.OWN
    by, hidden = ("bytes / 4", "at the first request") if own else (how, "over all requests of the model, median")
    rows: list[tuple[object, ...]] = [
        (window["recorded_tokens"], "recorded", "fresh + cached input of the last request"),
        (window["estimated_tokens"], how, f"{by} of the content in the file" if own else "content in the file"),
        (window["not_in_file_tokens"], "not in the file", f"recorded - {how} {hidden}"),
        (window["believed_tokens"], "believed", "last recorded + estimate of everything after it"),
        (window["next_request_tokens"], "next request", _format_next_request_source(window)),
        (about["context_window"], "window", _format_window_source(about)),
    ]
    if fit and fit["cause"]:
        off = (fit["expected"] - fit["recorded"]) / fit["recorded"]
        rows.append((fit["expected"], f"expected, {off:+.0%} off", fit["cause"]))
    return rows


def _format_next_request_source(window: dict[str, Any]) -> str:
    """Format the components of the next request."""
    if window["next_request_source"] != SizeSource.ESTIMATED:
        return str(window["next_request_source"])
    return "estimate, including content not in the file" if window["not_in_file_tokens"] else "estimate"


def _format_window_source(about: dict[str, Any]) -> str:
    """Format the source of the window, and the alternatives that this model may have had."""
    others = " or ".join(f"{tokens:,}" for tokens in about["context_window_others"])
    return f"{about['context_window_source']}; may also be {others}" if others else about["context_window_source"]
