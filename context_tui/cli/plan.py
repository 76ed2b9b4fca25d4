"""`context-tui plan`: what a policy would do, without doing it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from context_tui.cli.options import add_policy, add_session, opened, parse, parser, policy_and_params, policy_given
from context_tui.cli.output import say, table, talk, write_json
from context_tui.compaction.next_request import Known, NextRequest, next_request
from context_tui.compaction.plan import Plan
from context_tui.errors import ExitCode
from context_tui.policies.parameters import assignments, params_for
from context_tui.policies.planning import plan_with
from context_tui.policies.registry import policy_named
from context_tui.policies.triggers import first_firing
from context_tui.session.session import Session

SHOWN = 40
"""Edits that the text lists; JSON has all."""

_OPTIONS = {
    "at": "--at",
    "window": "--window",
    "idle": "--idle",
    "idle_seconds": "--idle",
    "force": "--ignore-trigger",
    "ignore_trigger": "--ignore-trigger",
    "firing_only": "--firing-only",
}
"""What may be taken for a parameter, and is an option."""

_TRIGGER = ("fires", "reason", "value", "threshold", "unit", "source")


def run(arguments: Sequence[str]) -> int:
    """Print the plan of one policy for one session."""
    options = parser("plan", "Show what a policy would do to a session's context, and whether it would fire there.")
    add_session(options)
    add_policy(options)
    options.add_argument("--force", action="store_true", help=argparse.SUPPRESS)
    options.add_argument("--json", action="store_true", help="print one JSON document")
    given = parse(options, arguments)
    if given.force:  # an alias for scripts
        talk("plan --force is deprecated; use --ignore-trigger")
        given.ignore_trigger = True
    session = opened(given.session, given.window)
    made = plan_of(session, given)
    if given.json:
        write_json(report_of(made))
    else:
        show(session, made)
    if not made.changed:
        talk(made.reason)
    return ExitCode.DONE


def plan_of(session: Session, given: argparse.Namespace) -> Plan:
    """The plan that the options ask for."""
    policy, values = policy_and_params(policy_given(given), given.param)
    return plan_with(
        session,
        policy,
        params_for(policy, values, _OPTIONS),
        at=given.at,
        idle_seconds=given.idle,
        force=given.ignore_trigger,
        firing_only=given.firing_only,
    )


def report_of(made: Plan) -> dict[str, Any]:
    """The plan as JSON-ready data (schema ``context-tui.plan/1``)."""
    return {
        "schema": "context-tui.plan/1",
        "policy": made.policy,
        "params": made.params.model_dump(mode="json"),
        "at": made.context.at,
        "trigger": {name: getattr(made.trigger, name) for name in _TRIGGER},
        "changed": made.changed,
        "reason": made.reason or None,
        "tokens": {
            "before": made.tokens_before,
            "after": made.tokens_after,
            "summary": None,
            "estimator": "bytes/4",
        },
        "next_request": request_report(next_request(made)),
        "report": dict(made.report) if made.report is not None else None,
        "boundary": made.boundary,
        "inserts": [
            {"role": each.role, "before": _number(made, each.position), "summary": each.summary, "text": each.text()}
            for each in made.inserts
        ],
        "edits": [asdict(edit) for edit in made.edits],
        "verdicts": [
            {
                "message": message,
                "block": block,
                "verdict": verdict.verdict,
                "code": verdict.code,
                "reason": verdict.reason,
            }
            for message, block, verdict in made.verdicts()
        ],
    }


def request_report(request: NextRequest) -> dict[str, Any]:
    """The next request as JSON-ready data, in tokens: all but ``recorded`` are estimates."""
    return {
        "recorded": request.now.recorded,
        "appended": request.now.estimated,
        "before": request.before,
        "before_source": request.before_known,
        "goes": request.goes,
        "estimator": request.estimator,
        "comes": request.comes,
        "summary_unknown": request.waits,
        "after": request.after,
        "share": round(request.share, 4),
    }


def request_line(request: NextRequest) -> str:
    """The next request in words: without the plan and with it, and what that is made of."""
    now = request.now
    sign = "" if request.before_known is Known.RECORDED else "~"
    change, more = f"{_percent(request.share)} less", request.after - request.before
    if more > 0 and request.before:
        change = f"{_percent(more / request.before)} more"
    sizes = f"{sign}{request.before:,} -> ~{request.after:,} tokens, {change}"
    parts = "" if now.recorded is None else f"{now.recorded:,} recorded + "
    parts += f"~{now.estimated:,} estimated - ~{request.goes:,} by {request.estimator}"
    parts += f" + ~{request.comes:,} put in" if request.comes else ""
    if request.before - request.goes + request.comes < request.after:
        parts += f"; at least the system prompt and tools, ~{request.least:,}"
    return f"{sizes}{', plus a summary' if request.waits else ''} ({parts})"


def _percent(share: float) -> str:
    """A share as it is read: what is not quite all is no 100 %."""
    return ">99%" if 0.995 <= share < 1 else f"{share:.0%}"


def _number(made: Plan, position: int) -> int:
    """The number of the message at a position; that of the point behind the last one."""
    return made.context.order[position] if position < len(made.context) else made.context.at


def show(session: Session, made: Plan) -> None:
    """The plan as text."""
    before, after = made.tokens_before, made.tokens_after
    point = "at the end" if made.context.at == len(session) else f"before message {made.context.at:,}"
    settings = {
        name: value for name, value in made.params.model_dump(mode="json").items() if value not in (None, {}, [])
    }
    say("   ".join([f"{made.policy} {point}", *assignments(settings)]))
    say(f"trigger {'would fire' if made.trigger.fires else 'would not fire'}: {made.trigger.reason}")
    policy = policy_named(made.policy)
    if policy.phases and not made.trigger.fires:
        first = first_firing(session, policy, made.params)  # type: ignore[arg-type]
        say(
            "trigger fires nowhere in this session"
            if first is None
            else f"trigger first fires before message {first:,}"
        )
    if not made.changed:
        return
    waiting = [step.policy for step in made.steps or (made,) if not step.trigger.fires]
    forced = ", if forced" if waiting and not made.trigger.by_hand else ""
    say(f"next request{forced}: {request_line(next_request(made))}")
    if made.trigger.fires and waiting:
        say(f"here {', '.join(waiting)} would not run; --firing-only leaves that out")
    share = f", {_percent((before - after) / before)} less" if before else ""
    say(f"estimated tokens: {before:,} -> {after:,}{share}{', plus a summary' if made.summarises else ''}")
    if made.report:
        say("report of the runtime: " + ", ".join(f"{key} {value:,}" for key, value in made.report.items()))
    if made.boundary is not None:
        say(f"boundary: message {made.boundary:,} is the first one kept")
    edits = made.edits
    rows = [
        (
            edit.message,
            "" if edit.block is None else edit.block,
            edit.action,
            edit.tool,
            edit.tokens_before,
            edit.tokens_after,
        )
        for edit in edits[:SHOWN]
    ]
    table("edits (estimated)", ("message", "block", "action", "tool", "before", "after"), rows)
    if len(edits) > SHOWN:
        say(f"  {len(edits) - SHOWN:,} more; --json lists all")
