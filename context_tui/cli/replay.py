"""``context-tui replay``: replay a recorded session under several policies, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import zip_longest
from operator import attrgetter
from typing import Any

from context_tui.cli.inspect import build_calibration_report
from context_tui.cli.options import CommandParser, build_study_settings, open_named_session, resolve_policies
from context_tui.cli.output import build_session_name, pick_fields, print_lines, print_notice, print_table, write_json
from context_tui.errors import ExitCode
from context_tui.lab.price import report
from context_tui.lab.price.break_report import build_break_report
from context_tui.lab.price.pricing import FiringPrice, ReplayPrice
from context_tui.lab.regret.index import TIERS
from context_tui.lab.replay.backtest import BacktestResult, PolicyBacktest, run_backtests
from context_tui.lab.replay.recording import Recording
from context_tui.lab.replay.result import (
    REPLAY_LIMITS_TEXT,
    Firing,
    format_firing,
    format_never_fired,
    format_replay_label,
)
from context_tui.lab.study import COMMAND_HANDLING_TEXTS, Lab, Study
from context_tui.policies.parameter_space import build_recorded_params
from context_tui.policies.versions import format_recorded_params
from context_tui.text.numbers import format_cost, format_count, format_saving
from context_tui.text.sanitize import make_visible

MAX_FIRINGS_SHOWN = 40


def run(arguments: Sequence[str]) -> int:
    """Replay one session under the named policies and return the exit code."""
    parser = CommandParser("replay")
    options = parser.parse(arguments)
    requests = resolve_policies(options)
    if not requests:
        parser.error("no policy is named; give one with -P")
    lab = Lab(open_named_session(options.session, options.window))
    policies = [(policy, build_recorded_params(policy, values, lab.session.facts)) for policy, values in requests]
    settings = build_study_settings(options)
    studies = [lab.run_study(*each, settings) for each in policies]
    backtests = run_backtests(lab.recording)
    if options.json:
        write_json(build_report(lab, studies, backtests))
    else:
        print_report(lab, studies, backtests)
    if not lab.recording.calls:
        print_notice("this session has no model calls, so there is nothing to replay")
    return ExitCode.DONE


# JSON


def build_report(lab: Lab, studies: Sequence[Study], backtests: Sequence[PolicyBacktest]) -> dict[str, Any]:
    """Build the JSON report on several replays of a session (schema ``context-tui.replay/1``)."""
    session, recording = lab.session, lab.recording
    main_calibration = max(recording.table.calibrations, key=lambda result: result.requests, default=None)
    return {
        "schema": "context-tui.replay/1",
        "session": build_session_name(session),
        "recorded": studies[0].replay.recorded,
        "summary_tokens": recording.summary_tokens,
        "cache": studies[0].price.reuse,
        "requests": [
            {"message": call.message, "recorded": size, "window": window.tokens}
            for call, size, window in zip(recording.calls, recording.recorded_sizes, recording.windows, strict=True)
        ],
        "calibration": build_calibration_report(main_calibration) if main_calibration else None,
        "calibrations": [build_calibration_report(result) for result in recording.table.calibrations],
        "backtest": [
            {
                **pick_fields(result, ("message", "kind", "trigger", "recorded", "testable", "off_by", "why")),
                **pick_fields(result, ("after_recorded", "after_predicted")),
                "policy": backtest.policy,
                "params": case.params.model_dump(mode="json"),
                "off_by_fitted": fitted_result.off_by if fitted_result else None,
            }
            for backtest in backtests
            for case, result, fitted_result in zip_longest(backtest.cases, backtest.results, backtest.fitted_results)
        ],
        "thresholds": [
            {"policy": backtest.policy, **backtest.threshold._asdict()}
            for backtest in backtests
            if backtest.threshold is not None
        ],
        "price_model": asdict(lab.price_model),
        "cache_breaks": [build_break_report(each) for each in lab.cache_history.breaks],
        "cache_cost_unit": lab.cache_history.rate_table.unit,
        "policies": [build_policy_report(result) for result in studies],
    }


def build_policy_report(study: Study) -> dict[str, Any]:
    """Build the JSON report on a policy's replay; a firing's ``regrets`` are indices into those of the policy."""
    replay, price = study.replay, study.price
    return {
        "policy": replay.policy,
        "params": replay.params.model_dump(mode="json"),
        "context": list(replay.sizes),
        "without": list(replay.baseline),
        "firings": [
            {**_build_firing_report(firing), "price": cost._asdict(), "regrets": cases}
            for firing, cost, cases in zip(replay.firings, price.firings, study.group_cases_by_firing(), strict=True)
        ],
        "totals": {
            **replay.totals._asdict(),
            "cost": price.cost,
            "cost_without": price.baseline_cost,
            "cost_unit": price.rate_table.unit,
            "cost_of_firings": sum(each.cost for each in price.firings),
            "cost_besides": price.unattributed_cost,
        },
        "break_even_calls_per_1000": price.break_even_calls,
        "missed": replay.nearest_miss._asdict() if replay.nearest_miss else None,
        "advice": [_build_advice_report(each) for each in report.build_advice(price)],
        "regret": {
            **pick_fields(study.regret, ("dropped", "used_later", "tokens_dropped", "tokens_used_later")),
            "by_tier": dict(study.regret.by_tier),
            "tokens_by_tier": dict(study.regret.tokens_by_tier),
            "read_anew": study.regret.refetched_after_edit,
        },
        "regrets": [pick_fields(case, _CASE_FIELDS) for case in study.regret.cases],
        "bound": {
            name: {
                "could_go": sum(share.droppable),
                "went": sum(share.dropped_unused),
                "left": share.wasted_tokens,
                "share": share.achieved_share,
            }
            for name, share in (("results", study.bound.results), ("everything", study.bound.everything))
        },
    }


def _build_advice_report(advice: report.Advice) -> dict[str, Any]:
    return {**pick_fields(advice, ("about", "value", "unit")), "words": advice.text, "saving": advice.avoidable_cost}


_CASE_FIELDS = ("tier", "message", "block", "dropped", "later", "later_block", "needle", "evidence", "tokens")
_FIRING_FIELDS = (
    *("message", "decided", "policy", "before", "after", "believed"),
    *("cleared", "truncated", "dropped", "summarised", "reason"),
)


def _build_firing_report(firing: Firing) -> dict[str, Any]:
    fields = pick_fields(firing, _FIRING_FIELDS)
    return {"request": firing.call, **fields, "cache_kept": firing.cache_cut.unchanged_prefix}


# Text


def print_report(lab: Lab, studies: Sequence[Study], backtests: Sequence[PolicyBacktest]) -> None:
    """Print the replays as text, side by side, with their savings, firings, regrets and back-tests."""
    session, recording = lab.session, lab.recording
    recorded_count = sum(size is not None for size in recording.recorded_sizes)
    window = recording.windows[-1] if recording.windows else session.window
    calls = format_count(len(recording.calls), "call")
    print_lines(f"{make_visible(session.info.spec)}   {calls}, {recorded_count:,} with a recorded size")
    count, handling = len(session.facts.compactions), COMMAND_HANDLING_TEXTS[studies[0].replay.recorded]
    compactions = f"{format_count(count, 'recorded compaction')} {handling}" if count else "no recorded compactions"
    print_lines(f"window {window.tokens:,} ({window.source})   {compactions}", _format_measure(recording))
    about = "a trigger compares the policy's own count of tokens with its limit"
    print_lines(f"{about}; this count may differ from the sizes")
    print_lines(*_format_price_lines(lab, studies))
    for backtest in backtests:
        _print_backtest(backtest)
    for study in studies:
        if text := format_recorded_params(study.replay.policy, study.replay.params, session.facts):
            print_lines(text)
    unit = studies[0].price.rate_table.unit
    token_heads = ("first before message", "peak", "tokens sent", "change in tokens", "calls over window")
    print_table(
        "totals of each policy (sizes in tokens; change: compared with no policy; cost: prompts and summaries)",
        ("policy", "firings", *token_heads, f"cost ({unit})", "change in cost"),
        [_build_policy_row(each) for each in studies],
    )
    print_table(
        "regret: dropped blocks that the recorded session needed later (tokens by bytes/4)",
        (
            *("policy", "blocks dropped", "of these needed later", "by re-fetch", "by edit", "only named again"),
            *("tokens dropped", "tokens needed later", "wasted tokens (all calls)", "of these avoided"),
        ),
        [_build_regret_row(each) for each in studies],
    )
    print_lines("  wasted tokens: tokens that were sent after the last use of their block, added up over all calls")
    for each in studies:
        _print_firings(each)
        _print_regrets(each)
    print_lines(*REPLAY_LIMITS_TEXT)


def _format_price_lines(lab: Lab, studies: Sequence[Study]) -> list[str]:
    model, note = lab.price_model, studies[0].price.rate_table.note
    assumed = report.format_price_reuse(studies[0].price)
    if model.error is None:
        return [f"costs are in {note}; no prompt cache reads are recorded", assumed]
    reads = f"predicted {model.read_predicted:,} tokens, recorded {model.read_recorded:,}"
    errors = f"{model.error:.1%} off in total, {model.off or 0:.1%} if the errors of the calls are added up"
    if model.unexplained:
        errors += f"; {format_count(len(model.unexplained), 'call')} unexplained, listed by --json"
    return [f"costs are in {note}", f"prompt cache reads without a policy: {reads}: {errors}", assumed]


def _format_measure(recording: Recording) -> str:
    usable = [each for each in recording.table.calibrations if each.usable and each.error]
    if not any(recording.recorded_sizes):
        factors = "typical factors, as this session records none"
        if recording.facts.size_basis is not None:
            factors = "the factors of the session that was compacted"
        return f"sizes: estimated with {factors}"
    text = "sizes under a policy: recorded size - calibrated size of the removed content"
    if not usable:
        fallback = max(recording.table.calibrations, key=lambda each: each.requests).fallback
        return f"{text} (not calibrated on this session: {fallback} are used)"
    errors = ", ".join(f"{each.error.median:.1%}" for each in usable if each.error)
    return f"{text} (median error {errors})"


def _build_policy_row(study: Study) -> tuple[object, ...]:
    replay, price, totals = study.replay, study.price, study.replay.totals
    first_message = replay.firings[0].message if replay.firings else ""
    tokens = format_saving(totals.saved, "tokens", total=sum(replay.baseline))
    counts = len(replay.firings), first_message, totals.peak, totals.sent, tokens, totals.overflows
    unit, baseline = price.rate_table.unit, price.baseline_cost
    costs = format_cost(price.cost, unit), format_saving(baseline - price.cost, unit, total=baseline)
    return format_replay_label(replay), *counts, *costs


def _build_regret_row(study: Study) -> tuple[object, ...]:
    regret, share = study.regret, study.bound.everything
    removed = "" if share.achieved_share is None else f"{share.achieved_share:.0%}"
    blocks = regret.dropped, regret.used_later, *(regret.by_tier[tier] for tier in TIERS)
    tokens = regret.tokens_dropped, regret.tokens_used_later, sum(share.droppable)
    return format_replay_label(study.replay), *blocks, *tokens, removed


def _print_regrets(study: Study) -> None:
    get_cells = attrgetter("tier", "message", "tokens", "dropped", "later", "evidence")
    rows = [get_cells(case) for case in study.regret.cases if case.is_needed]
    heads = ("needed by", "message", "tokens", "dropped before", "needed at", "evidence")
    title = f"dropped by {format_replay_label(study.replay)} and needed later"
    print_table(title, heads, rows, MAX_FIRINGS_SHOWN)


def _print_firings(study: Study) -> None:
    replay, price = study.replay, study.price
    several = len({each.policy for each in replay.firings}) > 1
    sizes = attrgetter("message", "before", "after")
    rows = [
        (*sizes(each), format_firing(each, several), *_build_price_cells(cost, price), each.reason)
        for each, cost in zip(replay.firings, price.firings, strict=True)
    ]
    price_heads = ("tokens cleared", "tokens rewritten", "break-even", "calls remaining", "verdict")
    cost_head = f"compared with not firing ({price.rate_table.unit})"
    heads = ("before message", "tokens before", "after", "change", *price_heads, cost_head, "reason")
    label = format_replay_label(replay)
    title = f"firings of {label} (rewritten: tokens written to the cache only because of the firing)"
    print_table(title, heads, rows, MAX_FIRINGS_SHOWN)
    if replay.firings:
        print_lines(f"  {report.format_savings(price)}")
    elif replay.calls:
        print_lines("", f"{label} {format_never_fired(replay)}")
    print_lines(*(f"  {each.text}" for each in report.build_advice(price)))


def _build_price_cells(cost: FiringPrice, price: ReplayPrice) -> tuple[object, ...]:
    calls = report.format_break_even(cost), cost.calls_left
    change = format_saving(-cost.cost, price.rate_table.unit)
    return cost.cleared, cost.rewritten, *calls, report.VERDICT_TEXTS[cost.verdict], change


def _print_backtest(backtest: PolicyBacktest) -> None:
    rows = []
    for each in backtest.results:
        case = each.message, each.kind, each.trigger or "", each.recorded
        rows.append((*case, _format_calls_off(each), each.why, each.after_recorded, each.after_predicted))
    heads = ("message", "kind", "trigger", "size at the trigger", "off by calls", "why", "next request", "predicted")
    print_table(f"back-test: {backtest.policy} against the recorded compactions", heads, rows)
    if former_settings := backtest.former_settings:
        print_lines(f"  settings of the agent version named in the file: {', '.join(former_settings)}")
    if threshold := backtest.threshold:
        hit_count = sum(each.is_hit for each in backtest.fitted_results)
        count = format_count(threshold.of, "compaction")
        print_lines(
            f"  thresholds above {threshold.above:,} up to {threshold.most:,} tokens explain {threshold.explains:,}"
            f" of {count}; at {threshold.most:,} it fires within one call of {hit_count:,}"
        )


def _format_calls_off(result: BacktestResult) -> str:
    if not result.testable:
        return "not testable"
    return "does not fire" if result.off_by is None else f"{result.off_by:,}"
