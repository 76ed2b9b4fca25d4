"""`context-tui replay`: what policies would have done along a recording, side by side."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from context_tui.cli.inspect import calibration_report
from context_tui.cli.options import named, opened, parse, parser, policy_and_params, tokens
from context_tui.cli.output import counted, say, table, talk, write_json
from context_tui.errors import ExitCode
from context_tui.policies.base import Params, Policy
from context_tui.policies.parameters import assignments, params_for
from context_tui.policies.registry import POLICIES
from context_tui.replay.backtest import Tested, Threshold, backtest, explaining
from context_tui.replay.recording import Recording
from context_tui.replay.result import Firing, Replay
from context_tui.replay.walk import SUMMARY_DELAY, replay_with
from context_tui.session.session import Session

SHOWN = 40
"""Firings of a policy that the text lists; JSON has all."""

LIMITS = (
    "A replay shows what would have been dropped, and whether the recorded run used it later;",
    "it does not show what an agent with that context would have done.",
)

OWN = {"claude-code": {"full": "claude-code-auto", "micro": "claude-code-micro"}}
"""By format, the agent's own policies that its recorded compactions are held against."""


class Back(NamedTuple):
    """The agent's own policy held against the recorded compactions of one kind."""

    policy: str
    tested: list[Tested]
    threshold: Threshold | None
    fitted: list[Tested]  # with the threshold that explains most


def run(arguments: Sequence[str]) -> int:
    """Replay policies along one session."""
    options = parser("replay", "Show what policies would have done along a recording: firings, sizes, what was saved.")
    options.add_argument("session", type=named, metavar="SESSION", help="a file, PATH#ID, or - for standard input")
    options.add_argument("--window", type=tokens, metavar="N", help="size of the context window in tokens")
    options.add_argument(
        "-P",
        "--policy",
        dest="policies",
        action=_NextPolicy,
        metavar="POLICY",
        help="a policy, or settings saved under a name; several are shown side by side",
    )
    options.add_argument(
        "-p",
        "--param",
        dest="policies",
        action=_ItsParam,
        metavar="KEY=VALUE",
        help="set a parameter of the -P before it; may be repeated",
    )
    options.add_argument(
        "--recorded",
        choices=("keep", "ignore"),
        default="keep",
        help="whether the compactions that the recording holds happen (default: keep)",
    )
    options.add_argument(
        "--summary-tokens",
        type=tokens,
        metavar="N",
        help="size of a summary in tokens by bytes/4 (default: the median of the recorded ones, else 2,000)",
    )
    options.add_argument(
        "--delay",
        type=int,
        default=SUMMARY_DELAY,
        metavar="N",
        help=f"calls made while a summary is written in the background (default: {SUMMARY_DELAY})",
    )
    options.add_argument("--json", action="store_true", help="print one JSON document")
    given = parse(options, arguments)
    if not given.policies:
        options.error("no policy is named; give one with -P")
    chosen = [_chosen(name, texts) for name, texts in given.policies]
    session = opened(given.session, given.window)
    recording = Recording(session)
    replays = [
        replay_with(recording, *each, recorded=given.recorded, summary_tokens=given.summary_tokens, delay=given.delay)
        for each in chosen
    ]
    backs = backtests(recording)
    if given.json:
        write_json(report_of(recording, replays, backs, given.recorded))
    else:
        show(recording, replays, backs)
    if not recording.calls:
        talk("there is no call to a model in this session, so there is nothing to replay")
    return ExitCode.DONE


class _NextPolicy(argparse.Action):
    """Begin one more policy, whose parameters follow."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        setattr(namespace, self.dest, [*(getattr(namespace, self.dest) or []), (named(values), [])])


class _ItsParam(argparse.Action):
    """A parameter of the last policy."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        policies = getattr(namespace, self.dest)
        if not policies:
            parser.error(f"-p {values} comes before a policy; name the policy first: -P POLICY -p KEY=VALUE")
        policies[-1][1].append(values)


def _chosen(name: str, texts: Sequence[str]) -> tuple[Policy, Params]:
    policy, values = policy_and_params(name, texts)
    return policy, params_for(policy, values)


def backtests(recording: Recording) -> list[Back]:
    """The agent's own policies held against what the recording did."""
    found = list[Back]()
    for kind, name in OWN.get(recording.session.info.format, {}).items():
        if name in POLICIES:
            policy = POLICIES[name]
            params = policy.Params()
            tested = backtest(recording, policy, params, kind)
            best = explaining(tested)
            fitted = backtest(recording, policy, params, kind, best.most) if best else []
            if tested:
                found.append(Back(name, tested, best, fitted))
    return found


# JSON


def report_of(recording: Recording, replays: Sequence[Replay], backs: Sequence[Back], recorded: str) -> dict[str, Any]:
    """The replays as JSON-ready data (schema ``context-tui.replay/1``)."""
    session = recording.session
    most = max(recording.calibrations, key=lambda each: each.requests, default=None)
    return {
        "schema": "context-tui.replay/1",
        "session": {"path": session.info.path, "format": session.info.format, "id": session.info.id},
        "recorded": recorded,
        "summary_tokens": recording.summary_tokens,
        "requests": [
            {"message": call.message, "recorded": size, "window": window.tokens}
            for call, size, window in zip(recording.calls, recording.recorded, recording.windows, strict=True)
        ],
        "calibration": calibration_report(most) if most else None,
        "calibrations": [calibration_report(each) for each in recording.calibrations],
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
                "off_by_fitted": fitted.off_by if fitted else None,
            }
            for back in backs
            for each, fitted in zip_longest(back.tested, back.fitted)
        ],
        "thresholds": [
            {"policy": back.policy, **back.threshold._asdict()} for back in backs if back.threshold is not None
        ],
        "policies": [policy_report(each) for each in replays],
    }


def policy_report(made: Replay) -> dict[str, Any]:
    """One policy along the recording."""
    totals = made.totals
    return {
        "policy": made.policy,
        "params": made.params.model_dump(mode="json"),
        "context": list(made.sizes),
        "without": list(made.baseline),
        "firings": [firing_report(each) for each in made.firings],
        "totals": {
            "sent": totals.sent,
            "saved": totals.saved,
            "peak": totals.peak,
            "overflows": totals.overflows,
        },
    }


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


def show(recording: Recording, replays: Sequence[Replay], backs: Sequence[Back]) -> None:
    """The replays as text."""
    session = recording.session
    known = sum(size is not None for size in recording.recorded)
    window = recording.windows[-1] if recording.windows else session.window
    say(f"{session.info.path}   {counted(len(recording.calls), 'call')}, {known:,} of them with a recorded size")
    say(f"window {window.tokens:,} ({window.source})   recorded compactions {_kept(session, replays)}")
    say(_ruler(recording))
    table(
        "policies along the recording (tokens)",
        ("policy", "firings", "first at message", "peak", "sent", "saved", "calls over the window"),
        [_row(recording, each) for each in replays],
    )
    for each in replays:
        _show_firings(each)
    for back in backs:
        _show_backtest(back)
    for line in LIMITS:
        say(line)


def _kept(session: Session, replays: Sequence[Replay]) -> str:
    count = len(session.facts.compactions)
    happen = not replays or replays[0].recorded == "keep"
    return f"{'happen' if happen else 'do not happen'} ({count:,} in the file)"


def _ruler(recording: Recording) -> str:
    """How sizes under a policy are known."""
    usable = [each for each in recording.calibrations if each.usable and each.error]
    if not any(recording.recorded):
        return "sizes are estimated: no size is recorded in this session"
    words = "sizes under a policy: recorded, less what it took out by calibrated size"
    if not usable:
        return f"{words} (not calibrated on this session: typical factors are used)"
    errors = ", ".join(f"{each.error.median:.1%}" for each in usable if each.error)
    return f"{words} (median error {errors})"


def label(made: Replay) -> str:
    """A policy with the parameters that are not its defaults."""
    values, defaults = made.params.model_dump(mode="json"), type(made.params)().model_dump(mode="json")
    changed = {name: value for name, value in values.items() if value != defaults.get(name)}
    return " ".join([made.policy, *assignments(changed)])


def _row(recording: Recording, made: Replay) -> tuple[object, ...]:
    totals, first = made.totals, made.firings[0].message if made.firings else ""
    without = sum(made.baseline)
    saved = f"{totals.saved:,} ({totals.saved / without:.0%})" if without else "0"
    return label(made), len(made.firings), first, totals.peak, totals.sent, saved, totals.overflows


def _show_firings(made: Replay) -> None:
    rows = [
        (each.message, each.policy, each.before, each.after, what(each), each.reason) for each in made.firings[:SHOWN]
    ]
    heads = ("message", "policy", "before", "after", "what", "why")
    table(f"firings of {label(made)}", heads, rows)
    if len(made.firings) > SHOWN:
        say(f"  {len(made.firings) - SHOWN:,} more; --json lists all")


def what(firing: Firing) -> str:
    """What a firing did, in words."""
    parts = [
        (firing.cleared, "cleared"),
        (firing.truncated, "truncated"),
        (firing.dropped, "dropped"),
        (firing.summarised, "summarised"),
    ]
    return ", ".join(f"{count:,} {done}" for count, done in parts if count)


def _show_backtest(back: Back) -> None:
    rows = [(each.message, each.kind, each.trigger or "", each.recorded, _off(each), each.why) for each in back.tested]
    heads = ("message", "kind", "trigger", "believed then", "off by calls", "why")
    table(f"back-test: {back.policy} against the recorded compactions", heads, rows)
    best = back.threshold
    if best:
        hits = sum(each.hit for each in back.fitted)
        many = counted(best.of, "compaction")
        say(
            f"  thresholds above {best.above:,} up to {best.most:,} tokens explain {best.explains:,} of {many};"
            f" at {best.most:,} it fires within one call of {hits:,}"
        )


def _off(tested: Tested) -> str:
    if not tested.testable:
        return "not testable"
    return "not there" if tested.off_by is None else f"{tested.off_by:,}"
