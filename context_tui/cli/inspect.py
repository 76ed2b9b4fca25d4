"""``context-tui inspect``: report what a session and its context consist of."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from operator import itemgetter
from typing import Any

from context_tui.cli.options import CommandParser, build_choice_type, open_named_session
from context_tui.cli.output import build_session_name, pick_fields, print_lines, print_notice, print_table, write_json
from context_tui.compaction.recorded_compactions import (
    COMPACTION_SIZE_HEADS,
    RecordedCompaction,
    count_tokens_by_category,
    find_recorded_compactions,
)
from context_tui.errors import ExitCode
from context_tui.formats.opening import choose_session, describe_request_source, list_unrecorded
from context_tui.lab.fullness import PART_NAMES, compute_fullness
from context_tui.lab.price.break_report import build_break_report
from context_tui.lab.price.breaks import find_cache_breaks
from context_tui.lab.regret.cases import ReusedBlock, find_reused_blocks
from context_tui.lab.regret.index import UseIndex, build_use_index
from context_tui.library.follow import follow_session
from context_tui.policies.registry import find_runtimes
from context_tui.policies.runtime_state import RuntimeState
from context_tui.policies.trigger_points import iterate_runtime_states
from context_tui.session.calls import iterate_calls
from context_tui.session.context import Context
from context_tui.session.facts import Compaction, Facts
from context_tui.session.session import Session
from context_tui.session.values import Kind, MessageFlag, RecordKind, Role
from context_tui.text.files import read_toml
from context_tui.text.numbers import format_count
from context_tui.text.sanitize import make_visible
from context_tui.tokens.accounting import compute_believed_size, estimate_prompt, find_last_usage
from context_tui.tokens.breakdown import ToolSchema, measure_breakdown, measure_prompt, measure_servers
from context_tui.tokens.calibration import Calibration, ErrorStats
from context_tui.tokens.context_index import index_context
from context_tui.tokens.context_size import SizeSource, measure_context
from context_tui.tokens.estimate_check import check_estimate
from context_tui.tokens.estimators import bytes4, count_message_tokens
from context_tui.tokens.measures import TokenMeasure, TokenTable, build_calibrated_table, measure_exactly


def run(arguments: Sequence[str]) -> int:
    """Print the report on one session and return the exit code."""
    measure_type = build_choice_type("token measure", list(TokenMeasure))
    options = CommandParser("inspect", {"measure": measure_type}).parse(arguments)
    if options.follow:
        return _follow_session(options)
    session = open_named_session(options.session, options.window)
    report = build_report(
        session,
        options.at,
        timeline=options.messages,
        measure=TokenMeasure(options.ruler),
        compactions=options.compactions,
    )
    if options.json:
        write_json(report)
    else:
        print_report(session, report)
    return ExitCode.DONE


def _follow_session(options: argparse.Namespace) -> int:
    keys = set[tuple[str, int]]()
    for session in follow_session(choose_session(options.session), notify=print_notice):
        session = session.with_window(options.window)
        if options.json:
            report = build_report(session, options.at, timeline=options.messages, measure=TokenMeasure(options.ruler))
            write_json(report, indent=None)
        else:
            keys, known_keys = _find_compaction_keys(session), keys
            news = _format_newest_compaction(session, known_keys) if keys > known_keys else ""
            print_lines(format_status_line(session, options.at) + news)
        sys.stdout.flush()
    return ExitCode.DONE


def format_status_line(session: Session, at: int | None = None) -> str:
    """Format the state of a followed session on one line: messages, context, window and problems."""
    size = measure_context(session.context_at(at), build_calibrated_table(session.facts)).parts
    window = session.window_at(len(session) if at is None else at)
    share = f" of {window.tokens:,} ({size.tokens / window.tokens:.0%})" if window.tokens else ""
    problems = f"   {format_count(len(session.facts.problems), 'problem')}" if session.facts.problems else ""
    source = "estimated" if size.recorded is None else "recorded and estimated"
    return f"{format_count(len(session), 'message')}   {size.tokens:,}{share} tokens, {source}{problems}"


def _find_compaction_keys(session: Session) -> set[tuple[str, int]]:
    silent_drops = (("silent", drop.message) for drop in session.drops if drop.cleared_blocks)
    return {*((each.kind, each.message) for each in session.facts.compactions), *silent_drops}


def _format_newest_compaction(session: Session, known_keys: set[tuple[str, int]]) -> str:
    compactions = find_recorded_compactions(session)[-1:]
    return "".join(
        f"   last compaction: {each.kind}, before message {each.message:,}, "
        f"lost {sum(map(each.count_block_tokens, each.removed_blocks)):,} tokens (est.)"
        for each in compactions
        if (each.kind, each.message) not in known_keys
    )


def build_report(
    session: Session,
    at: int | None = None,
    *,
    timeline: bool = False,
    measure: TokenMeasure = TokenMeasure.CALIBRATED,
    compactions: bool = False,
) -> dict[str, Any]:
    """Build the JSON report on a session (schema ``context-tui.inspect/1``), with sizes by a token measure.

    Args:
        compactions: whether to add the contexts before and after each recorded compaction, and the lost content that
            was needed later; this reads all text.

    Raises:
        MeasureError: the token measure needs a tokenizer, which is not installed.
    """
    facts, context = session.facts, session.context_at(at)
    calibrated, sizes = build_calibrated_table(facts), None
    if measure is not TokenMeasure.OWN:
        sizes = calibrated if measure is TokenMeasure.CALIBRATED else measure_exactly(session)
    name = sizes.name if sizes else "bytes/4"
    window, kinds = session.window_at(context.at), Counter(facts.record_kind)
    account = measure_context(context, sizes)
    hidden = account.not_in_file
    usage = find_last_usage(context)
    parts = measure_breakdown(context, sizes)
    fit = check_estimate(session, context)
    recorded_compactions = find_recorded_compactions(session)
    uses = build_use_index(session) if compactions and recorded_compactions else None
    fullness = compute_fullness(session, context, parts, sizes)
    in_context = index_context(context).total + estimate_prompt(facts, context.at)
    if sizes:
        in_context = sizes.compute_prefix_sums(context)[-1] + sum(sizes.prompt_at(facts, context.at))
    cache_history = find_cache_breaks(session)
    report: dict[str, Any] = {
        "schema": "context-tui.inspect/1",
        "session": {
            **build_session_name(session),
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
        "problems": [pick_fields(problem, ("where", "what")) for problem in facts.problems],
        "messages": len(session),
        "turns": session.turns,
        "requests": sum(1 for _ in iterate_calls(facts, len(session))),
        "requests_elsewhere": sum(branch.requests for branch in facts.branches),
        "branches": [branch._asdict() for branch in facts.branches],
        "compactions": [_build_compaction_report(each, uses) for each in recorded_compactions if each.kind != "silent"],
        "at": context.at,
        "epochs": [
            pick_fields(each, ("message", "cause"))
            for each in facts.epochs
            if not each.message or each.message < context.at
        ],
        "drops": _build_drop_reports(session, context.at, recorded_compactions, uses),
        "cache_breaks": [build_break_report(each) for each in cache_history.breaks if each.message < context.at],
        "cache_cost_unit": cache_history.rate_table.unit,
        "window": {
            "indices": list(context.order),
            "estimated_tokens": in_context,
            "recorded_tokens": usage.context if usage else None,
            "believed_tokens": compute_believed_size(context).tokens,
            "next_request_tokens": account.tokens,
            "next_request_source": account.origin,
            "not_in_file_tokens": hidden,
            "not_in_file_kinds": list_unrecorded(session, context.at),
            "estimator": name,
        },
        "answer": {
            "sentences": fullness.sentences,
            "tokens": account.tokens,
            "share": round(account.tokens / max(window.tokens, 1), 4),
            "parts": [
                {
                    "name": PART_NAMES[part.category],
                    "tokens": part.tokens,
                    "tools": [{"tool": tool, "tokens": tokens} for tool, tokens in part.tools],
                }
                for part in fullness.parts
            ],
            "calls_left": fullness.calls_left,
            "calls_range": fullness.calls_range,
            "effects": [effect._asdict() for effect in fullness.effects],
        },
        "ruler": {"kind": measure, "name": name, "note": (sizes and sizes.note_at(context)) or None},
        "by_category": parts.by_category,
        "by_tool": [share._asdict() for share in parts.by_tool],
        "exact_requests": facts.holds_requests,
        **asdict(measure_prompt(session, context, sizes)),
        "duplicate_reads": [asdict(read) for read in parts.duplicate_reads],
        "diagnosis": parts.diagnosis,
        "fit": fit
        and {
            **pick_fields(fit, ("recorded", "expected")),
            "cause": fit.causes_text,
            "causes": [{"what": cause.label, "tokens": cause.tokens} for cause in fit.causes],
            "unexplained": fit.unexplained,
        },
        "calibration": [build_calibration_report(each) for each in calibrated.calibrations],
    }
    if timeline:
        report["timeline"] = build_timeline(session, frozenset(context.order), sizes)
    return report


def build_calibration_report(calibration: Calibration) -> dict[str, Any]:
    """Build the JSON report on a calibration, whose factors are recorded tokens per estimated token of each kind.

    The factors ``each`` and ``image`` are tokens per request and per image.
    """
    factors = asdict(calibration.factors)
    factors["each"] = factors.pop("request_overhead")
    return {
        "model": calibration.model or None,
        "requests": calibration.requests,
        "factors": {name: round(factors[name], 3) if factors[name] is not None else None for name in _FACTOR_NAMES},
        "error": _build_error_report(calibration.error),
        "error_bytes4": _build_error_report(calibration.error_bytes4),
        "usable": calibration.usable,
        "why": calibration.reason or None,
        "instead": None if calibration.usable else calibration.fallback,
    }


_LABELS = read_toml("context_tui.cli", "labels.toml")
CATEGORY_NAMES: dict[str, str] = _LABELS["categories"]
"""Names of categories for display, if they differ from those in JSON."""
_FACTOR_NAMES: dict[str, str] = _LABELS["factors"]


def _build_error_report(errors: ErrorStats | None) -> dict[str, float] | None:
    return {"median": round(errors.median, 4), "p95": round(errors.p95, 4)} if errors else None


def _build_drop_reports(
    session: Session, at: int, compactions: Sequence[RecordedCompaction], uses: UseIndex | None
) -> list[dict[str, Any]]:
    """Build reports on the drops of the recorded size; drops that cleared results are also in *compactions*."""
    silent_drops = [each for each in compactions if each.kind == "silent"]
    sides = {each.message: _build_sides_report(each, uses) for each in silent_drops} if uses else {}
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


def _build_compaction_report(compaction: RecordedCompaction, uses: UseIndex | None) -> dict[str, Any]:
    """Build the report on a logged compaction: the size computed before it, and the recorded size after it."""
    record = compaction.event
    assert isinstance(record, Compaction)
    return {
        **pick_fields(record, ("message", "kind", "trigger")),
        "tokens_before": compaction.believed_tokens_before,
        "tokens_before_source": "recorded + estimated delta" if compaction.believed_is_recorded else "estimated",
        "tokens_before_in_file": record.pre_tokens,
        "tokens_saved_in_file": record.saved_tokens,
        "tokens_after": compaction.recorded_tokens_after,
        "preserved_missing": record.missing_messages,
        **(_build_sides_report(compaction, uses) if uses else {}),
    }


def _build_sides_report(compaction: RecordedCompaction, uses: UseIndex) -> dict[str, Any]:
    facts, summary = compaction.session.facts, compaction.summary_message
    return {
        "before": _build_side_report(compaction.context_before),
        "after": _build_side_report(compaction.context_after),
        "kept": len(compaction.remaining_messages),
        "put_in": len(compaction.added_messages),
        "summary": summary,
        "summary_tokens": None if summary is None else count_message_tokens(facts, summary),
        "lost": {
            "messages": len({facts.block_message[row] for row in compaction.removed_blocks}),
            "blocks": len(compaction.removed_blocks),
            "tokens": sum(map(compaction.count_block_tokens, compaction.removed_blocks)),
        },
        "came_back": [_build_return_report(compaction, each) for each in find_reused_blocks(compaction, uses)],
    }


def _build_side_report(context: Context) -> dict[str, Any]:
    tokens = count_tokens_by_category(context)
    return {"messages": len(context), "estimated_tokens": sum(tokens.values()), "by_category": tokens}


def _build_return_report(compaction: RecordedCompaction, reused: ReusedBlock) -> dict[str, Any]:
    facts, use = compaction.session.facts, reused.use
    return {
        "tier": use.tier,
        "message": facts.block_message[reused.row],
        "block": facts.ordinal(reused.row),
        "tokens": compaction.count_block_tokens(reused.row),
        "later": use.message,
        "evidence": use.evidence,
        "still_in_context": sorted({facts.block_message[row] for row in reused.row_copies}),
    }


def build_timeline(
    session: Session, in_context: frozenset[int], sizes: TokenTable | None = None
) -> list[dict[str, Any]]:
    """Build the JSON timeline: each message with its blocks and turn number (from 1; 0 before the first turn).

    Token counts are from *sizes*, by default ``bytes/4``. Each model call has its recorded size, and the sizes that
    the runtimes would have computed, for agent-sdk the input tokens of the last reply.
    """
    facts, turn, entries = session.facts, 0, []
    recorded = {message: usage.context for message, usage in zip(facts.request_message, facts.requests, strict=True)}
    drops = {drop.message: drop.tokens for drop in session.drops}
    states = {state.at: state for state in iterate_runtime_states(session, frozenset({"before_call"}))}
    for message in range(len(session)):
        turn += bool(facts.flags[message] & MessageFlag.TURN_START)
        entries.append(
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
    return entries


def _build_believed_sizes(state: RuntimeState) -> dict[str, int | None]:
    beliefs = {runtime: policy.believed_size(state) for runtime, policy in find_runtimes().items()}
    return {runtime: belief.tokens for runtime, belief in beliefs.items() if belief is not None}


def _build_block_report(facts: Facts, block: int, sizes: TokenTable | None) -> dict[str, Any]:
    kind = Kind(facts.kind[block]).name.lower()
    tokens = sizes.blocks[block] if sizes else bytes4(facts, block)
    return {"kind": kind, "tokens": tokens, "tool": facts.tool_name(block) or None}


def print_report(session: Session, report: dict[str, Any]) -> None:
    """Print a report on a session, built by ``build_report``, as text with tables."""
    about, records, window = report["session"], report["records"], report["window"]
    print_lines(f"{make_visible(session.info.spec)}   {about['format']}   {about['model'] or 'model unknown'}")
    print_lines(" ".join(report["answer"]["sentences"]))
    if about["note"]:
        print_lines(f"note: {about['note']}")
    messages, turns, requests = (format_count(report[f"{noun}s"], noun) for noun in ("message", "turn", "request"))
    print_lines(f"{messages}   {turns}   {requests}{'' if session.facts.requests else ' without a recorded size'}")
    labels = {False: "branches abandoned by a rewind", True: "branches at requests for a summary"}
    for is_at_summary, label in labels.items():
        if branches := [each for each in report["branches"] if each["is_at_summary"] == is_at_summary]:
            messages = format_count(sum(branch["messages"] for branch in branches), "message")
            requests = format_count(sum(branch["requests"] for branch in branches), "request")
            ids = ", ".join(f"#{branch['id']}" for branch in branches)
            print_lines(f"{label}: {messages}, {requests} ({ids})")
    print_lines(
        f"{format_count(records['total'], 'record')}: {format_count(records['messages'], 'message record')}, "
        f"{format_count(records['side'], 'metadata record')}, {format_count(records['problems'], 'problem')}"
    )
    point = "at the end" if report["at"] == report["messages"] else f"before message {report['at']:,}"
    print_lines(f"context {point}: {format_count(len(window['indices']), 'message')}")
    measure = report["ruler"]
    label, unit = ("estimated", "est.") if measure["kind"] == TokenMeasure.OWN else (measure["name"],) * 2
    if measure["kind"] != TokenMeasure.OWN:
        print_lines(f"token measure: {measure['name']}" + (f" ({measure['note']})" if measure["note"] else ""))
    print_table("size", ("tokens", "size", "source"), _build_size_rows(session, report, label))
    if window["not_in_file_tokens"] and window["not_in_file_kinds"]:
        print_lines(f"  not in the file: {', '.join(window['not_in_file_kinds'])}")
    total = max(1, sum(report["by_category"].values()))
    shares = ((CATEGORY_NAMES.get(name, name), tokens) for name, tokens in report["by_category"].items() if tokens)
    categories = [(name, tokens, f"{tokens / total:.0%}") for name, tokens in shares]
    fitted = ", fitted to the next request" if measure["kind"] == TokenMeasure.CALIBRATED else ""
    print_table(f"by category ({label}{fitted}: {total:,} tokens in all)", ("category", "tokens", "share"), categories)
    if window["recorded_tokens"] is not None and window["next_request_tokens"] != total:
        print_lines("  the sum differs from the next request, which starts from a recorded size")
    _print_calibration(report["calibration"])
    tools = [(share["tool"] or "(call missing)", share["calls"], share["result_tokens"]) for share in report["by_tool"]]
    print_table(f"by tool ({label}{fitted})", ("tool", "calls", "result tokens"), tools)
    _print_prompt(session, report, label)
    read_cells = itemgetter("path", "count", "tokens", "wasted")
    reads = [read_cells(read) for read in report["duplicate_reads"] if read["wasted"]]
    print_table(f"lines read more than once ({label})", ("path", "reads", "tokens", "tokens read again"), reads, 20)
    size_cells = itemgetter("tokens_before", "tokens_before_in_file", "tokens_after")
    compactions = [(c["message"], c["kind"], c["trigger"] or "", *size_cells(c)) for c in report["compactions"]]
    heads = ("message", "kind", "trigger", *COMPACTION_SIZE_HEADS)
    print_table("recorded compactions (sizes in tokens)", heads, compactions)
    _print_sides([*report["compactions"], *report["drops"]])
    for c in report["compactions"]:
        if c["preserved_missing"]:
            missing_count = format_count(c["preserved_missing"], "record")
            print_lines(f"  not in the file: {missing_count} kept by the compaction at message {c['message']:,}")
    if len(report["epochs"]) > 1:
        starts = ", ".join(f"{e['message']:,} ({e['cause']})" for e in report["epochs"])
        print_lines("", f"contexts start at messages {starts}")
    drops = [
        (drop["message"], drop["tokens"], drop["explained_by"] or "unexplained", len(drop["results"]) or "")
        for drop in report["drops"]
    ]
    print_table("drops of the recorded context", ("message", "tokens", "explained by", "results (inferred)"), drops)
    problems = [(problem["where"], problem["what"]) for problem in report["problems"][:20]]
    print_table("problems", ("where", "what"), problems)
    if "timeline" in report:
        runtimes = [*find_runtimes()]
        rows = [
            (
                *itemgetter("index", "turn", "role", "tokens")(entry),
                _format_recorded_cell(entry),
                *((entry["believed_tokens"] or {}).get(name, "") for name in runtimes),
                "yes" if entry["in_context"] else "no",
                ", ".join(block["kind"] + (f" {block['tool']}" if block["tool"] else "") for block in entry["blocks"]),
            )
            for entry in report["timeline"]
        ]
        timeline_heads = ("message", "turn", "role", f"{unit} tokens", "recorded")
        believed_heads = (f"as {name} counts" for name in runtimes)
        print_table("timeline", (*timeline_heads, *believed_heads, "in context", "blocks"), rows)


def _format_name(name: str, part: dict[str, Any]) -> str:
    return f"{make_visible(name)} (cache breakpoint)" if part["cache_breakpoint"] else make_visible(name)


def _print_prompt(session: Session, report: dict[str, Any], measure: str) -> None:
    """Print the system prompt, tools and injected texts, and how to record exact requests if the file has none."""
    system, tools, injected = report["system"], report["tools"], report["injected"]
    parts = [(_format_name(each["part"], each), each["tokens"]) for each in system]
    print_table(f"system prompt ({measure})", ("part", "tokens"), parts)
    rows = [
        (
            _format_name(each["name"], each),
            each["tokens"],
            each["calls"],
            "" if each["last_use"] is None else each["last_use"],
        )
        for each in tools
    ]
    print_table(f"tools in each request ({measure})", ("tool", "tokens", "calls", "last use"), rows)
    if unused := [each for each in tools if not each["calls"]]:
        tokens = sum(each["tokens"] for each in unused)
        print_lines(f"  {format_count(len(unused), 'tool')}, {tokens:,} tokens, never called")
    servers = measure_servers(ToolSchema(**each) for each in tools)
    totals = [(make_visible(each.name), each.tools, each.tokens, each.calls) for each in servers]
    print_table(f"MCP servers ({measure})", ("server", "tools", "tokens", "calls"), totals)
    texts = [(make_visible(each["part"]), each["count"], each["tokens"]) for each in injected]
    print_table(f"injected texts in the context ({measure})", ("part", "times", "tokens"), texts)
    if not report["exact_requests"] and (advice := describe_request_source(session)):
        print_lines("", advice)


def _print_sides(compactions: list[dict[str, Any]]) -> None:
    compactions = sorted((each for each in compactions if "lost" in each), key=itemgetter("message"))
    rows = [(each["message"], each.get("kind", "silent"), *_format_side_cells(each)) for each in compactions]
    heads = ("message", "kind", "before", "after", "kept", "inserted", "summary", "lost blocks", "lost tokens")
    print_table("context before and after each compaction (messages; tokens est.)", heads, rows)
    cells = itemgetter("message", "tokens", "later", "tier")
    reused_rows = []
    for compaction, reused in ((each, reused) for each in compactions for reused in each["came_back"]):
        held_text = ", ".join(f"#{at:,}" for at in reused["still_in_context"]) or "nothing"
        reused_rows.append((compaction["message"], *cells(reused), held_text, reused["evidence"]))
    reused_heads = ("compaction", "lost", "tokens", "needed at", "as", "still in context", "evidence")
    print_table("lost by a compaction and needed later", reused_heads, reused_rows)


def _format_side_cells(compaction: dict[str, Any]) -> tuple[object, ...]:
    sides = (compaction["before"], compaction["after"])
    sizes = (f"{each['estimated_tokens']:,} in {each['messages']:,}" for each in sides)
    kept_count, inserted_count, summary, losses = itemgetter("kept", "put_in", "summary_tokens", "lost")(compaction)
    return *sizes, kept_count, inserted_count, summary or "", losses["blocks"], losses["tokens"]


def _print_calibration(calibration: list[dict[str, Any]]) -> None:
    usable = [each for each in calibration if each["usable"]]
    rows: list[tuple[object, ...]] = [
        (name, *(_format_factor(each["factors"][key], key) for each in usable)) for key, name in _FACTOR_NAMES.items()
    ]
    for name, key in (("error", "error"), ("error of bytes / 4", "error_bytes4")):
        errors = (itemgetter("median", "p95")(each[key]) for each in usable)
        rows.append((name, *(f"{median:.1%} (95th percentile: {p95:.1%})" for median, p95 in errors)))
    heads = ("", *(make_visible(each["model"] or "model unknown") for each in usable))
    title = "calibration: recorded tokens per estimated token; median errors on requests that were not used to fit it"
    print_table(title, heads, rows if usable else [])
    for each in calibration:
        if not each["usable"]:
            model = make_visible(each["model"] or "model unknown")
            print_lines(f"  not calibrated: {model}: {each['why']}; {each['instead']} are used")


def _format_factor(value: float | None, name: str) -> str:
    if value is None:
        return "not observed"
    return f"{value:.0f} tokens" if name in ("each", "image", "unrecorded") else f"{value:.2f}"


def _format_recorded_cell(entry: dict[str, Any]) -> object:
    recorded, dropped = entry["recorded_tokens"], entry["dropped_tokens"]
    if recorded is None:
        return ""
    return f"{recorded:,} (-{dropped:,})" if dropped else recorded


def _build_size_rows(session: Session, report: dict[str, Any], label: str) -> list[tuple[object, ...]]:
    window, about, fit = report["window"], report["session"], report["fit"]
    is_own = report["ruler"]["kind"] == TokenMeasure.OWN
    content = "bytes / 4 of the content in the file" if is_own else "content in the file"
    basis = "bytes / 4" if window["recorded_tokens"] is None else "last recorded + bytes / 4 of everything after it"
    hidden_source = "as noted by the export" if session.facts.size_basis else f"recorded − {label} at the first request"
    next_source = _format_next_request_source(window, "bytes / 4" if is_own else label)
    rows: list[tuple[object, ...]] = [
        (window["recorded_tokens"], "recorded", "fresh + cached input of the last request"),
        (window["estimated_tokens"], label, content),
        (window["not_in_file_tokens"], "not in the file", hidden_source),
        (window["believed_tokens"], "as most agents count", f"{basis}; each policy has its own rule"),
        (window["next_request_tokens"], "next request", next_source),
        (about["context_window"], "window", _format_window_source(about)),
    ]
    if fit and fit["cause"]:
        error = (fit["expected"] - fit["recorded"]) / fit["recorded"]
        direction = "more" if error > 0 else "less"
        cause = f"{abs(error):.0%} {direction} than recorded; corrections: {fit['cause']}"
        rows.append((fit["expected"], "expected", cause))
    return rows


def _format_next_request_source(window: dict[str, Any], label: str) -> str:
    if window["next_request_source"] == SizeSource.PARTLY:
        return f"last recorded + everything after it, {label}"
    if window["next_request_source"] == SizeSource.RECORDED:
        return str(window["next_request_source"])
    return "estimate, including content not in the file" if window["not_in_file_tokens"] else "estimate"


def _format_window_source(about: dict[str, Any]) -> str:
    source, alternatives = about["context_window_source"], about["context_window_others"]
    others = " or ".join(f"{tokens:,}" for tokens in alternatives)
    return f"{source}; may also be {others}" if others else str(source)
