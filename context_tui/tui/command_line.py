"""Command lines that reproduce the plan, replay or sweep on screen."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from context_tui.policies.base import list_nested_policies
from context_tui.policies.parameters import format_assignments
from context_tui.policies.registry import POLICIES
from context_tui.session.session import Session
from context_tui.tui.view import View

if TYPE_CHECKING:
    from context_tui.lab.study import StudySettings
    from context_tui.lab.sweep.grids import SweepSetting
    from context_tui.lab.sweep.rows import SavingUnit


def format_plan_command(view: View) -> str:
    """Format the ``context-tui plan`` command that prints the plan shown in *view*."""
    parts = ["context-tui", "plan", _format_session_spec(view.session), *_format_policy_options(view)]
    if view.at is not None:
        parts += ["--at", str(view.point)]
    if view.session.window_override:
        parts += ["--window", str(view.session.window_override)]
    if _waits_for_trigger(view):
        parts.append("--ignore-trigger")
    steps = view.plan.steps if view.plan else ()
    if steps and len(steps) < len(list_nested_policies(POLICIES[view.policy], view.policy_params)):
        parts.append("--firing-only")
    return shlex.join(parts)


def format_replay_command(views: Sequence[View], options: StudySettings) -> str:
    """Format the ``context-tui replay`` command that compares the policies of *views*, all of one session."""
    parts = ["context-tui", "replay", _format_session_spec(views[0].session)]
    for view in views:
        parts += _format_policy_options(view)
    parts += _format_replay_options(options)
    if views[0].session.window_override:
        parts += ["--window", str(views[0].session.window_override)]
    return shlex.join(parts)


def format_sweep_command(
    session: Session,
    grids: Sequence[tuple[str, Sequence[str]]],
    current: SweepSetting,
    options: StudySettings,
    measure: SavingUnit,
) -> str:
    """Format the ``context-tui sweep`` command that tries the settings in *grids* and compares them with *current*."""
    parts = ["context-tui", "sweep", _format_session_spec(session)]
    for policy, texts in grids:
        parts += ["-P", policy]
        for text in texts:
            parts += ["-p", text]
    if not current.is_default or current.policy.name != grids[0][0]:
        parts += ["--current", current.name]
    if measure != "tokens":
        parts += ["--by", measure]
    parts += _format_replay_options(options)
    if session.window_override:
        parts += ["--window", str(session.window_override)]
    return shlex.join(parts)


def _format_replay_options(options: StudySettings) -> list[str]:
    default, parts = type(options)(), list[str]()
    if options.recorded != default.recorded:
        parts += ["--recorded", "undo"]
    if options.summary_tokens is not None:
        parts += ["--summary-tokens", str(options.summary_tokens)]
    if options.delay != default.delay:
        parts += ["--delay", str(options.delay)]
    if options.shares_prefix:
        parts.append("--shares-prefix")
    if options.reuse != default.reuse:
        parts += ["--cache", options.reuse]
    return parts


def _format_session_spec(session: Session) -> str:
    name = session.info.spec or "SESSION"
    return f"./{name}" if name.startswith("-") else name


def _format_policy_options(view: View) -> list[str]:
    parts = ["-P", view.policy]
    for assignment in format_assignments(view.get_settings(view.policy)):
        parts += ["-p", assignment]
    return parts


def _waits_for_trigger(view: View) -> bool:
    """Return whether the command needs ``--ignore-trigger``, as the screen plans even if no trigger fires."""
    plan, policy = view.plan, POLICIES[view.policy]
    steps = (plan.steps or (plan,)) if plan else ()
    policies = [step for step, _ in policy.steps(view.policy_params) or [(policy, None)]]
    waiting_names = {policy.name for policy in policies if policy.needs_trigger}
    return any(step.policy in waiting_names and not step.trigger.fires for step in steps)
