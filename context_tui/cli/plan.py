"""`context-tui plan`: show what a policy would do, without doing it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from context_tui.cli.options import (
    add_policy_options,
    add_session_options,
    build_parser,
    open_named_session,
    parse_arguments,
    resolve_policy,
    resolve_policy_name,
)
from context_tui.cli.output import print_line, print_notice, print_table, write_json
from context_tui.compaction.next_request import NextRequest, SizeSource, compute_next_request
from context_tui.compaction.plan import Plan
from context_tui.errors import ExitCode
from context_tui.policies.parameter_space import build_params
from context_tui.policies.parameters import format_assignments
from context_tui.policies.planning import build_plan
from context_tui.policies.registry import find_policy
from context_tui.policies.trigger_points import find_first_firing
from context_tui.session.session import Session

MAX_EDITS_SHOWN = 40
"""Maximum number of edits in the text; JSON lists all."""

_OPTION_NAMES = {
    "at": "--at",
    "window": "--window",
    "idle": "--idle",
    "idle_seconds": "--idle",
    "force": "--ignore-trigger",
    "ignore_trigger": "--ignore-trigger",
    "firing_only": "--firing-only",
}
"""Options that may be mistaken for parameters, by parameter name."""

_TRIGGER_FIELDS = ("fires", "reason", "value", "threshold", "unit", "source")


def run(arguments: Sequence[str]) -> int:
    """Print the plan of one policy for one session."""
    options = build_parser(
        "plan", "Show what a policy would do to a session's context, and whether it would fire there."
    )
    add_session_options(options)
    add_policy_options(options)
    options.add_argument("--force", action="store_true", help=argparse.SUPPRESS)
    options.add_argument("--json", action="store_true", help="print one JSON document")
    given = parse_arguments(options, arguments)
    if given.force:  # an alias for scripts
        print_notice("plan --force is deprecated; use --ignore-trigger")
        given.ignore_trigger = True
    session = open_named_session(given.session, given.window)
    made = plan_from_options(session, given)
    if given.json:
        write_json(build_report(made))
    else:
        print_report(session, made)
    if not made.has_changes:
        print_notice(made.reason)
    return ExitCode.DONE


def plan_from_options(session: Session, given: argparse.Namespace) -> Plan:
    """Build the plan that the options ask for."""
    policy, values = resolve_policy(resolve_policy_name(given), given.param)
    return build_plan(
        session,
        policy,
        build_params(policy, values, _OPTION_NAMES),
        at=given.at,
        idle_seconds=given.idle,
        force=given.ignore_trigger,
        firing_only=given.firing_only,
    )


def build_report(made: Plan) -> dict[str, Any]:
    """Build the plan as JSON-ready data (schema ``context-tui.plan/1``)."""
    return {
        "schema": "context-tui.plan/1",
        "policy": made.policy,
        "params": made.params.model_dump(mode="json"),
        "at": made.context.at,
        "trigger": {name: getattr(made.trigger, name) for name in _TRIGGER_FIELDS},
        "changed": made.has_changes,
        "reason": made.reason or None,
        "tokens": {
            "before": made.tokens_before,
            "after": made.tokens_after,
            "summary": None,
            "estimator": "bytes/4",
        },
        "next_request": build_request_report(compute_next_request(made)),
        "report": dict(made.report) if made.report is not None else None,
        "boundary": made.boundary,
        "inserts": [
            {
                "role": each.role,
                "before": _find_message_number(made, each.position),
                "summary": each.holds_summary,
                "text": each.format_text(),
            }
            for each in made.inserts
        ],
        "edits": [asdict(edit) for edit in made.edits],
        "verdicts": [
            {
                "message": message,
                "block": block,
                "verdict": verdict.outcome,
                "code": verdict.code,
                "reason": verdict.reason,
            }
            for message, block, verdict in made.iterate_verdicts()
        ],
    }


def build_request_report(request: NextRequest) -> dict[str, Any]:
    """Build the next request as JSON-ready data, in tokens; all except ``recorded`` are estimates."""
    return {
        "recorded": request.current_size.recorded,
        "appended": request.current_size.estimated,
        "before": request.tokens_before,
        "before_source": request.source_before,
        "goes": request.removed_tokens,
        "estimator": request.estimator,
        "comes": request.inserted_tokens,
        "summary_unknown": request.summary_pending,
        "after": request.tokens_after,
        "share": round(request.saved_share, 4),
    }


def format_request(request: NextRequest) -> str:
    """Format the next request, without and with the plan, and its components."""
    now = request.current_size
    sign = "" if request.source_before is SizeSource.RECORDED else "~"
    change, more = f"{_format_percent(request.saved_share)} less", request.tokens_after - request.tokens_before
    if more > 0 and request.tokens_before:
        change = f"{_format_percent(more / request.tokens_before)} more"
    sizes = f"{sign}{request.tokens_before:,} -> ~{request.tokens_after:,} tokens, {change}"
    parts = "" if now.recorded is None else f"{now.recorded:,} recorded + "
    parts += f"~{now.estimated:,} estimated - ~{request.removed_tokens:,} by {request.estimator}"
    parts += f" + ~{request.inserted_tokens:,} inserted" if request.inserted_tokens else ""
    if request.tokens_before - request.removed_tokens + request.inserted_tokens < request.tokens_after:
        parts += f"; at least the system prompt and tools, ~{request.minimum_tokens:,}"
    return f"{sizes}{', plus a summary' if request.summary_pending else ''} ({parts})"


def _format_percent(share: float) -> str:
    """Format a share; shares just below 1 are not rounded up to 100 %."""
    return ">99%" if 0.995 <= share < 1 else f"{share:.0%}"


def _find_message_number(made: Plan, position: int) -> int:
    """Return the message number at a position; after the last message, that of the plan's point."""
    return made.context.order[position] if position < len(made.context) else made.context.at


def print_report(session: Session, made: Plan) -> None:
    """Print the plan as text."""
    before, after = made.tokens_before, made.tokens_after
    point = "at the end" if made.context.at == len(session) else f"before message {made.context.at:,}"
    settings = {
        name: value for name, value in made.params.model_dump(mode="json").items() if value not in (None, {}, [])
    }
    print_line("   ".join([f"{made.policy} {point}", *format_assignments(settings)]))
    print_line(f"trigger {'would fire' if made.trigger.fires else 'would not fire'}: {made.trigger.reason}")
    policy = find_policy(made.policy)
    if policy.phases and not made.trigger.fires:
        first = find_first_firing(session, policy, made.params)  # type: ignore[arg-type]
        print_line(
            "trigger fires nowhere in this session"
            if first is None
            else f"trigger first fires before message {first:,}"
        )
    if not made.has_changes:
        return
    waiting = [step.policy for step in made.steps or (made,) if not step.trigger.fires]
    forced = ", if forced" if waiting and not made.trigger.by_hand else ""
    print_line(f"next request{forced}: {format_request(compute_next_request(made))}")
    if made.trigger.fires and waiting:
        print_line(f"here {', '.join(waiting)} would not fire; --firing-only leaves out those policies")
    share = f", {_format_percent((before - after) / before)} less" if before else ""
    print_line(f"estimated tokens: {before:,} -> {after:,}{share}{', plus a summary' if made.needs_summary else ''}")
    if made.report:
        print_line("report of the runtime: " + ", ".join(f"{key} {value:,}" for key, value in made.report.items()))
    if made.boundary is not None:
        print_line(f"boundary: message {made.boundary:,} is the first kept")
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
        for edit in edits[:MAX_EDITS_SHOWN]
    ]
    print_table("edits (estimated)", ("message", "block", "action", "tool", "before", "after"), rows)
    if len(edits) > MAX_EDITS_SHOWN:
        print_line(f"  {len(edits) - MAX_EDITS_SHOWN:,} more; --json lists all")
