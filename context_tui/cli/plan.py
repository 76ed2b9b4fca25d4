"""``context-tui plan``: show the changes that a policy would make, without making them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from context_tui.cli.options import CommandParser, open_named_session, resolve_policy, resolve_policy_name
from context_tui.cli.output import pick_fields, print_lines, print_notice, print_table, write_json
from context_tui.compaction.next_request import NextRequest, compute_next_request
from context_tui.compaction.plan import Plan
from context_tui.errors import ExitCode
from context_tui.policies.parameter_space import build_recorded_params
from context_tui.policies.parameters import format_assignments
from context_tui.policies.planning import build_plan
from context_tui.policies.registry import find_policy
from context_tui.policies.trigger_points import find_first_firing
from context_tui.policies.versions import find_own_policies, format_no_firing, format_recorded_params
from context_tui.session.losses import list_unreadable
from context_tui.session.session import Session
from context_tui.text.files import read_toml
from context_tui.tokens.context_size import SizeSource
from context_tui.tokens.measures import build_calibrated_table

MAX_EDITS_SHOWN = 40

_OPTION_NAMES: dict[str, str] = read_toml("context_tui.cli", "labels.toml")["options"]
"""Options that may be mistaken for parameters, by parameter name."""


def run(arguments: Sequence[str]) -> int:
    """Print the plan of one policy for one session and return the exit code."""
    parser = CommandParser("plan")
    parser.add_argument("--force", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse(arguments)
    if options.force:  # an alias for scripts
        print_notice("plan --force is deprecated; use --ignore-trigger")
        options.ignore_trigger = True
    session = open_named_session(options.session, options.window)
    plan = plan_from_options(session, options)
    request = compute_next_request(plan, token_table=build_calibrated_table(session.facts))
    if options.json:
        write_json(build_report(plan, request))
    else:
        list(plan.iterate_verdicts())  # raises the error of a policy that cannot give its reasons, as for --json
        print_report(session, plan, request)
    if not plan.has_changes:
        print_notice(plan.reason)
    return ExitCode.DONE


def plan_from_options(session: Session, options: argparse.Namespace) -> Plan:
    """Return the plan that the command-line options ask for."""
    name = resolve_policy_name(options, find_own_policies(session).values())
    policy, values = resolve_policy(name, options.param)
    return build_plan(
        session,
        policy,
        build_recorded_params(policy, values, session.facts, _OPTION_NAMES),
        at=options.at,
        idle_seconds=options.idle,
        force=options.ignore_trigger,
        firing_only=options.firing_only,
    )


def build_report(plan: Plan, request: NextRequest) -> dict[str, Any]:
    """Build the JSON report on a plan and the next request after it (schema ``context-tui.plan/1``)."""
    order = plan.context.order
    return {
        "schema": "context-tui.plan/1",
        "policy": plan.policy,
        "params": plan.params.model_dump(mode="json"),
        "at": plan.context.at,
        "trigger": pick_fields(plan.trigger, ("fires", "reason", "value", "threshold", "unit", "source")),
        "changed": plan.has_changes,
        "reason": plan.reason or None,
        "tokens": {"before": plan.tokens_before, "after": plan.tokens_after, "summary": None, "estimator": "bytes/4"},
        **build_request_report(request),
        "report": dict(plan.report) if plan.report is not None else None,
        "boundary": plan.boundary,
        "losses": list_unreadable(plan.context.facts),
        "inserts": [
            {
                "role": each.role,
                "before": order[each.position] if each.position < len(order) else plan.context.at,
                "summary": each.holds_summary,
                "text": each.format_text(),
            }
            for each in plan.inserts
        ],
        "edits": [edit._asdict() for edit in plan.edits],
        "verdicts": [
            {"message": message, "block": block, "verdict": each.outcome, "code": each.code, "reason": each.reason}
            for message, block, each in plan.iterate_verdicts()
        ],
    }


def build_request_report(request: NextRequest) -> dict[str, Any]:
    """Build the JSON report on the next request, in tokens: its size with the possible range, and its components."""
    return {
        "next_size": {"before": request.account.size._asdict(), "after": request.after._asdict()},
        "next_request": {
            "recorded": request.account.recorded,
            "appended": request.account.appended,
            "before": request.tokens_before,
            "before_source": request.account.origin,
            "goes": request.removed_tokens,
            "estimator": request.account.measure,
            "comes": request.inserted_tokens,
            "restored": request.restored_tokens,
            "summary_unknown": request.summary_pending,
            "after": request.tokens_after,
            "share": round(request.saved_share, 4),
        },
    }


def format_request(request: NextRequest) -> str:
    """Format the size of the next request without and with the plan, and the parts that the latter consists of."""
    sign = "" if request.account.origin is SizeSource.RECORDED else "~"
    change, added_tokens = f"{_format_percent(request.saved_share)} less", request.tokens_after - request.tokens_before
    if added_tokens > 0 and request.tokens_before:
        change = f"{_format_percent(added_tokens / request.tokens_before)} more"
    sizes = f"{sign}{request.tokens_before:,} -> ~{request.tokens_after:,} tokens, {change}"
    if request.account.recorded is None:
        parts = f"~{request.tokens_before:,} {request.account.measure}"
    else:
        parts = f"{request.account.recorded:,} recorded"
        parts += f" + ~{request.account.appended:,} appended since" if request.account.appended > 0 else ""
        parts += f" - ~{-request.account.appended:,} cleared since" if request.account.appended < 0 else ""
    removed = request.removed_tokens
    parts += f" - ~{removed:,} removed" if removed >= 0 else f" + ~{-removed:,} for longer replacements"
    parts += f" + ~{request.inserted_tokens:,} inserted" if request.inserted_tokens else ""
    parts += f"; {request.account.measure}: between {request.after.low:,} and {request.after.high:,}"
    parts += " with a summary" if request.summary_pending else ""
    return f"{sizes}{', plus a summary' if request.summary_pending else ''} ({parts})"


def _format_percent(share: float) -> str:
    """Format a share as a percentage; a share just below 1 becomes ``>99%`` rather than ``100%``."""
    return ">99%" if 0.995 <= share < 1 else f"{share:.0%}"


def print_report(session: Session, plan: Plan, request: NextRequest) -> None:
    """Print the plan as text: whether the policy would fire, the size of the next request, and the changes."""
    before, after = plan.tokens_before, plan.tokens_after
    point = "at the end" if plan.context.at == len(session) else f"before message {plan.context.at:,}"
    params = plan.params.model_dump(mode="json")
    settings = {name: value for name, value in params.items() if value not in (None, {}, [])}
    print_lines("   ".join([f"{plan.policy} {point}", *format_assignments(settings)]))
    if versions_text := format_recorded_params(plan.policy, plan.params, session.facts):
        print_lines(versions_text)
    trigger = plan.trigger
    is_size = trigger.source and trigger.unit == "tokens" and trigger.value is not None
    print_lines(f"{plan.verdict}: {trigger.reason}{f'; size: {trigger.source}' if is_size else ''}")
    policy = find_policy(plan.policy)
    if policy.phases and not plan.trigger.fires:
        message = find_first_firing(session, policy, plan.params)  # type: ignore[arg-type]
        never_text = f"{format_no_firing(plan.policy, session)} in this session"
        print_lines(never_text if message is None else f"first fires before message {message:,}")
    print_lines(*(f"note: {loss}" for loss in list_unreadable(session.facts)))
    if not plan.has_changes:
        return
    idle = ", ".join(each.policy for each in plan.steps or (plan,) if not (each.trigger.fires or trigger.by_hand))
    forced = f", with {idle} forced" if trigger.fires and idle else ", if forced" if idle else ""
    print_lines(f"next request{forced}: {format_request(request)}")
    if trigger.fires and idle:
        print_lines(f"here {idle} would not fire; --firing-only leaves out those policies")
    share = f", {_format_percent((before - after) / before)} less" if before else ""
    print_lines(f"content by bytes/4: {before:,} -> {after:,}{share}{', plus a summary' if plan.needs_summary else ''}")
    if plan.report:
        print_lines("report of the runtime: " + ", ".join(f"{key} {value:,}" for key, value in plan.report.items()))
    if plan.boundary is not None:
        print_lines(f"boundary: message {plan.boundary:,} is the first kept")
    rows = []
    for each in plan.edits:
        tokens_after = "in summary" if each.action == "summarise" else each.tokens_after
        block = "" if each.block is None else each.block
        rows.append((each.message, block, each.action, each.tool, each.tokens_before, tokens_after))
    heads = ("message", "block", "change", "tool", "before", "after")
    print_table("changes (tokens by bytes/4)", heads, rows, MAX_EDITS_SHOWN, optional=heads)
