"""The commands that do on the command line what is on screen."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from context_tui.policies.parameters import assignments
from context_tui.policies.registry import POLICIES
from context_tui.session.session import Session
from context_tui.tui.view import View

if TYPE_CHECKING:
    from context_tui.lab.study import Settings
    from context_tui.lab.sweep.rows import Measure
    from context_tui.lab.sweep.settings import Setting


def command_line(view: View) -> str:
    """``context-tui plan SESSION -P POLICY …`` for a view."""
    parts = ["context-tui", "plan", _session(view), *_policy(view)]
    if view.at is not None:
        parts += ["--at", str(view.point)]
    if view.session.window_override:
        parts += ["--window", str(view.session.window_override)]
    if _waits(view):
        parts.append("--ignore-trigger")
    if view.plan and view.plan.steps and len(view.plan.steps) < len(POLICIES[view.policy].runs(view.model)):
        parts.append("--firing-only")
    return shlex.join(parts)


def replay_line(views: Sequence[View], how: Settings) -> str:
    """``context-tui replay SESSION -P POLICY …`` for the policies of several views of one session, as *how* says."""
    parts = ["context-tui", "replay", _session(views[0])]
    for view in views:
        parts += _policy(view)
    parts += _made(how)
    if views[0].session.window_override:
        parts += ["--window", str(views[0].session.window_override)]
    return shlex.join(parts)


def sweep_line(
    session: Session, grids: Sequence[tuple[str, Sequence[str]]], current: Setting, how: Settings, by: Measure
) -> str:
    """``context-tui sweep SESSION -P POLICY -p KEY=VALUES …`` for the grids of policies, held against *current*."""
    parts = ["context-tui", "sweep", _spec(session)]
    for policy, texts in grids:
        parts += ["-P", policy]
        for text in texts:
            parts += ["-p", text]
    if not current.default or current.policy.name != grids[0][0]:
        parts += ["--current", current.name]
    if by != "tokens":
        parts += ["--by", by]
    parts += _made(how)
    if session.window_override:
        parts += ["--window", str(session.window_override)]
    return shlex.join(parts)


def _made(how: Settings) -> list[str]:
    """How replays are made, as far as that is not the default."""
    default, parts = type(how)(), list[str]()
    if how.recorded != default.recorded:
        parts += ["--recorded", how.recorded]
    if how.summary_tokens is not None:
        parts += ["--summary-tokens", str(how.summary_tokens)]
    if how.delay != default.delay:
        parts += ["--delay", str(how.delay)]
    if how.shares_prefix:
        parts.append("--shares-prefix")
    if how.reuse != default.reuse:
        parts += ["--cache", how.reuse]
    return parts


def _session(view: View) -> str:
    return _spec(view.session)


def _spec(session: Session) -> str:
    info = session.info
    name = f"{info.path}#{info.id}" if info.id else info.path or "SESSION"
    return f"./{name}" if name.startswith("-") else name


def _policy(view: View) -> list[str]:
    parts = ["-P", view.policy]
    for assignment in assignments(view.settings(view.policy)):
        parts += ["-p", assignment]
    return parts


def _waits(view: View) -> bool:
    """Whether a policy waits for its trigger here: the screen plans all the same, the command only when told to."""
    plan, policy = view.plan, POLICIES[view.policy]
    steps = (plan.steps or (plan,)) if plan else ()
    needing = {each.name for each, _ in policy.steps(view.model) or [(policy, None)] if each.needs_trigger}
    return any(step.policy in needing and not step.trigger.fires for step in steps)
