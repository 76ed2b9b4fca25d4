"""`context-tui replay`: what policies would have done along a recording, side by side."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from itertools import zip_longest
from typing import Any

from context_tui.cli.inspect import calibration_report
from context_tui.cli.options import (
    add_policy_file,
    add_replay,
    named,
    opened,
    parse,
    parser,
    policy_and_params,
    take_policy_files,
)
from context_tui.cli.output import counted, say, table, talk, write_json
from context_tui.errors import ExitCode
from context_tui.lab.price.advice import advice
from context_tui.lab.price.model import PriceModel
from context_tui.lab.price.priced import FiringPrice, Priced
from context_tui.lab.price.words import after_a_change, against_none, figure, pays_after
from context_tui.lab.regret.index import TIERS
from context_tui.lab.replay.backtest import Backtested
from context_tui.lab.replay.own import Back, backtests
from context_tui.lab.replay.recording import Recording
from context_tui.lab.replay.result import Firing
from context_tui.lab.replay.words import LIMITS, label, never_words, what
from context_tui.lab.study import Lab, Settings, Study
from context_tui.policies.base import Params, Policy
from context_tui.policies.parameters import params_for
from context_tui.session.session import Session
from context_tui.text.sanitize import make_visible

SHOWN = 40
"""Firings of a policy that the text lists; JSON has all."""


def run(arguments: Sequence[str]) -> int:
    """Replay policies along one session."""
    options = parser("replay", "Show what policies would have done along a recording: firings, sizes, what was saved.")
    options.add_argument("session", type=named, metavar="SESSION", help="a file, PATH#ID, or - for standard input")
    options.add_argument(
        "-P",
        "--policy",
        dest="policies",
        action=NextPolicy,
        type=named,
        metavar="POLICY",
        help="a policy, or settings saved under a name; several are shown side by side",
    )
    options.add_argument(
        "-p",
        "--param",
        dest="policies",
        action=ItsParam,
        metavar="KEY=VALUE",
        help="set a parameter of the -P before it; may be repeated",
    )
    add_replay(options)
    options.add_argument("--json", action="store_true", help="print one JSON document")
    add_policy_file(options)
    given = parse(options, arguments)
    policies, files = given.policies or [], take_policy_files(given.policy_file)
    policies += [(name, []) for name in files if name not in dict(policies)]
    if not policies:
        options.error("no policy is named; give one with -P")
    chosen = [_chosen(name, texts) for name, texts in policies]
    session = opened(given.session, given.window)
    lab = Lab(session)
    settings = Settings(given.recorded, given.summary_tokens, given.delay, given.shares_prefix, given.cache)
    studies = [lab.study(*each, settings) for each in chosen]
    backs = backtests(lab.recording)
    if given.json:
        write_json(report_of(lab, studies, backs))
    else:
        show(lab, studies, backs)
    if not lab.recording.calls:
        talk("there is no call to a model in this session, so there is nothing to replay")
    return ExitCode.DONE


class NextPolicy(argparse.Action):
    """Begin one more policy, whose parameters follow."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        setattr(namespace, self.dest, [*(getattr(namespace, self.dest) or []), (values, [])])


class ItsParam(argparse.Action):
    """A parameter of the last policy."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        policies = getattr(namespace, self.dest)
        if not policies:
            parser.error(f"-p {values} comes before a policy; name the policy first: -P POLICY -p KEY=VALUE")
        policies[-1][1].append(values)


def _chosen(name: str, texts: Sequence[str]) -> tuple[Policy, Params]:
    policy, values = policy_and_params(name, texts)
    return policy, params_for(policy, values)


# JSON


def report_of(lab: Lab, studies: Sequence[Study], backs: Sequence[Back]) -> dict[str, Any]:
    """The replays as JSON-ready data (schema ``context-tui.replay/1``)."""
    session, recording = lab.session, lab.recording
    most = max(recording.calibrations, key=lambda each: each.requests, default=None)
    return {
        "schema": "context-tui.replay/1",
        "session": {"path": session.info.path, "format": session.info.format, "id": session.info.id},
        "recorded": studies[0].replay.recorded,
        "summary_tokens": recording.summary_tokens,
        "cache": studies[0].priced.reuse,
        "requests": [
            {"message": call.message, "recorded": size, "window": window.tokens}
            for call, size, window in zip(recording.calls, recording.recorded, recording.windows, strict=True)
        ],
        "calibration": calibration_report(most) if most else None,
        "calibrations": [calibration_report(each) for each in recording.calibrations],
        "scaled": {model: scale._asdict() for model, scale in recording.scaled.items()},
        "backtest": [
            {
                "message": each.message,
                "kind": each.kind,
                "trigger": each.trigger,
                "recorded": each.recorded,
                "testable": each.testable,
                "off_by": each.off_by,
                "why": each.why,
                "policy": back.policy,
                "params": case.params.model_dump(mode="json"),
                "off_by_fitted": fitted.off_by if fitted else None,
            }
            for back in backs
            for case, each, fitted in zip_longest(back.cases, back.tested, back.fitted)
        ],
        "thresholds": [
            {"policy": back.policy, **back.threshold._asdict()} for back in backs if back.threshold is not None
        ],
        "price_model": price_report(lab.price_model),
        "policies": [policy_report(each) for each in studies],
    }


def price_report(model: PriceModel) -> dict[str, Any]:
    """What the recorded calls read from the prompt cache, beside what the model of it says."""
    report = asdict(model)
    report["unexplained"] = [asdict(each) for each in model.unexplained]
    return report


def policy_report(study: Study) -> dict[str, Any]:
    """One policy along the recording. ``regrets`` of a firing are places in the policy's list of regrets."""
    made, priced = study.replay, study.priced
    return {
        "policy": made.policy,
        "params": made.params.model_dump(mode="json"),
        "context": list(made.sizes),
        "without": list(made.baseline),
        "firings": [
            {**firing_report(firing), "price": asdict(cost), "regrets": cases}
            for firing, cost, cases in zip(made.firings, priced.firings, study.by_firing(), strict=True)
        ],
        "totals": {
            **made.totals._asdict(),
            "cost": priced.cost,
            "cost_without": priced.baseline_cost,
            "cost_unit": priced.table.unit,
            "cost_of_firings": sum(each.cost for each in priced.firings),
            "cost_besides": priced.rest,
        },
        "missed": made.missed._asdict() if made.missed else None,
        "advice": [asdict(each) for each in advice(priced)],
        "regret": {
            "dropped": study.regret.dropped,
            "used_later": study.regret.used_later,
            "tokens_dropped": study.regret.tokens_dropped,
            "tokens_used_later": study.regret.tokens_used_later,
            "by_tier": dict(study.regret.by_tier),
            "tokens_by_tier": dict(study.regret.tokens_by_tier),
            "read_anew": study.regret.read_anew,
        },
        "regrets": [{name: getattr(case, name) for name in _CASE} for case in study.regret.cases],
        "bound": {
            name: {
                "could_go": sum(share.most),
                "went": sum(share.taken),
                "left": share.sent_for_nothing,
                "share": share.reached,
            }
            for name, share in (("results", study.bound.results), ("everything", study.bound.everything))
        },
    }


_CASE = ("tier", "message", "block", "dropped", "later", "later_block", "needle", "evidence", "tokens")


def firing_report(firing: Firing) -> dict[str, Any]:
    """One firing; ``request`` is a place in the list of requests."""
    return {
        "request": firing.call,
        "message": firing.message,
        "decided": firing.decided,
        "policy": firing.policy,
        "before": firing.before,
        "after": firing.after,
        "believed": firing.believed,
        "cleared": firing.cleared,
        "truncated": firing.truncated,
        "dropped": firing.dropped,
        "summarised": firing.summarised,
        "reason": firing.reason,
        "cache_kept": firing.cut.kept,
    }


# Text


def show(lab: Lab, studies: Sequence[Study], backs: Sequence[Back]) -> None:
    """The replays as text."""
    session, recording = lab.session, lab.recording
    known = sum(size is not None for size in recording.recorded)
    window = recording.windows[-1] if recording.windows else session.window
    name = f"{session.info.path}#{session.info.id}" if session.info.id else session.info.path
    say(f"{make_visible(name)}   {counted(len(recording.calls), 'call')}, {known:,} of them with a recorded size")
    say(f"window {window.tokens:,} ({window.source})   recorded compactions {_kept(session, studies)}")
    say(_ruler(recording))
    for line in _prices(lab, studies):
        say(line)
    for back in backs:
        _show_backtest(back)
    unit = studies[0].priced.table.unit
    table(
        "policies along the recording (tokens; calls over the window; cost of prompts and summaries)",
        ("policy", "firings", "first at", "peak", "sent", "saved", "over window", f"cost ({unit})", "saved"),
        [_row(each) for each in studies],
    )
    table(
        "regret: dropped blocks that the recorded run used later (tokens by bytes/4)",
        ("policy", "dropped", "used later", "of tokens", "re-fetch", "edit", "reference", "could go unused", "went"),
        [_regret_row(each) for each in studies],
    )
    say("  could go unused: tokens that all calls held of blocks after their last use; went: the share that was taken")
    for each in studies:
        _show_firings(each)
        _show_regrets(each)
    for line in LIMITS:
        say(line)


def _prices(lab: Lab, studies: Sequence[Study]) -> list[str]:
    """How costs are known: the prices, and how well the model of the prompt cache does on what was recorded."""
    model, note = lab.price_model, studies[0].priced.table.note
    assumed = after_a_change(studies[0].priced.reuse)
    if model.error is None:
        return [f"costs: {note}; no read of a prompt cache is recorded", assumed]
    read = f"{model.read_predicted:,} tokens for {model.read_recorded:,} recorded"
    off = f"{model.error:.2%} off, call by call {model.off or 0:.2%}"
    if model.unexplained:
        off += f"; {counted(len(model.unexplained), 'call')} not explained, which --json lists"
    return [f"costs: {note}", f"read from the prompt cache without a policy: predicted {read} ({off})", assumed]


def _kept(session: Session, studies: Sequence[Study]) -> str:
    count = len(session.facts.compactions)
    happen = studies[0].replay.recorded == "keep"
    return f"{'happen' if happen else 'do not happen'} ({count:,} in the file)"


def _ruler(recording: Recording) -> str:
    """How sizes under a policy are known."""
    usable = [each for each in recording.calibrations if each.usable and each.error]
    if not any(recording.recorded):
        return "sizes are estimated, by typical factors: no size is recorded in this session"
    words = "sizes under a policy: recorded, less what it took out by calibrated size"
    by = ", ".join(map(str, recording.scaled.values()))
    scaled = f"; taken at {by}, as recorded prompts are smaller than what they hold by it" if by else ""
    if not usable:
        instead = max(recording.calibrations, key=lambda each: each.requests).fallback
        return f"{words} (not calibrated on this session: {instead} are used{scaled})"
    errors = ", ".join(f"{each.error.median:.1%}" for each in usable if each.error)
    return f"{words} (median error {errors}{scaled})"


def _row(study: Study) -> tuple[object, ...]:
    made, priced = study.replay, study.priced
    totals, first = made.totals, made.firings[0].message if made.firings else ""
    without = sum(made.baseline)
    saved = f"{totals.saved:,} ({totals.saved / without:.0%})" if without else "0"
    cheaper = priced.baseline_cost - priced.cost
    saves = f"{figure(cheaper, priced)} ({cheaper / priced.baseline_cost:.0%})" if priced.baseline_cost else "0"
    counts = len(made.firings), first, totals.peak, totals.sent
    return label(made), *counts, saved, totals.overflows, figure(priced.cost, priced), saves


def _regret_row(study: Study) -> tuple[object, ...]:
    found, share = study.regret, study.bound.everything
    of = f"{found.tokens_used_later:,} of {found.tokens_dropped:,}"
    went = "" if share.reached is None else f"{share.reached:.0%}"
    by_tier = (found.by_tier[tier] for tier in TIERS)
    return label(study.replay), found.dropped, found.used_later, of, *by_tier, sum(share.most), went


def _show_regrets(study: Study) -> None:
    cases = study.regret.cases
    rows = [(each.tier, each.message, each.tokens, each.dropped, each.later, each.evidence) for each in cases[:SHOWN]]
    heads = ("tier", "message", "tokens", "dropped at", "used at", "evidence")
    table(f"dropped by {label(study.replay)} and used later", heads, rows)
    if len(cases) > SHOWN:
        say(f"  {len(cases) - SHOWN:,} more; --json lists all")


def _show_firings(study: Study) -> None:
    made, priced = study.replay, study.priced
    several = len({each.policy for each in made.firings}) > 1
    rows = [
        (each.message, each.before, each.after, what(each, several), *_worth(cost, priced), each.reason)
        for each, cost in zip(made.firings[:SHOWN], priced.firings, strict=False)
    ]
    worth = "tokens cleared", "rewritten", "pays after", "calls left", "verdict", f"costs ({priced.table.unit})"
    title = f"firings of {label(made)} (each against the run before it; rewritten: tokens its first call wrote for it)"
    table(title, ("message", "before", "after", "what", *worth, "why"), rows)
    if len(made.firings) > SHOWN:
        say(f"  {len(made.firings) - SHOWN:,} more; --json lists all")
    if made.firings:
        say(f"  {against_none(priced)}")
    elif made.calls:
        say()
        say(f"{label(made)} {never_words(made.missed)}")
    for each in advice(priced):
        say(f"  {each.words}")


def _worth(cost: FiringPrice, priced: Priced) -> tuple[object, ...]:
    """Tokens cleared and rewritten, calls until it pays and that were left, the verdict, and what it cost."""
    return cost.cleared, cost.rewritten, pays_after(cost), cost.calls_left, cost.verdict, figure(cost.cost, priced)


def _show_backtest(back: Back) -> None:
    rows = [(each.message, each.kind, each.trigger or "", each.recorded, _off(each), each.why) for each in back.tested]
    heads = ("message", "kind", "trigger", "believed then", "off by calls", "why")
    table(f"back-test: {back.policy} against the recorded compactions", heads, rows)
    if once := back.once:
        say(f"  as it was in the version that the file names: {', '.join(once)}")
    best = back.threshold
    if best:
        hits = sum(each.hit for each in back.fitted)
        many = counted(best.of, "compaction")
        say(
            f"  thresholds above {best.above:,} up to {best.most:,} tokens explain {best.explains:,} of {many};"
            f" at {best.most:,} it fires within one call of {hits:,}"
        )


def _off(tested: Backtested) -> str:
    if not tested.testable:
        return "not testable"
    return "not there" if tested.off_by is None else f"{tested.off_by:,}"
