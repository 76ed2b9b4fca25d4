"""The command that does on the command line what is on screen."""

from __future__ import annotations

import shlex

from context_tui.policies.parameters import assignments
from context_tui.policies.registry import POLICIES
from context_tui.tui.view import View


def command_line(view: View) -> str:
    """``context-tui plan SESSION -P POLICY …`` for a view."""
    info = view.session.info
    name = f"{info.path}#{info.id}" if info.id else info.path or "SESSION"
    parts = ["context-tui", "plan", f"./{name}" if name.startswith("-") else name, "-P", view.policy]
    for assignment in assignments(view.settings(view.policy)):
        parts += ["-p", assignment]
    if view.at is not None:
        parts += ["--at", str(view.point)]
    if view.session.window_given:
        parts += ["--window", str(view.session.window_given)]
    if _waits(view):
        parts.append("--ignore-trigger")
    if view.plan and view.plan.steps and len(view.plan.steps) < len(POLICIES[view.policy].runs(view.model)):
        parts.append("--firing-only")
    return shlex.join(parts)


def _waits(view: View) -> bool:
    """Whether a policy waits for its trigger here: the screen plans all the same, the command only when told to."""
    plan, policy = view.plan, POLICIES[view.policy]
    steps = (plan.steps or (plan,)) if plan else ()
    needing = {each.name for each, _ in policy.steps(view.model) or [(policy, None)] if each.needs_trigger}
    return any(step.policy in needing and not step.trigger.fires for step in steps)
