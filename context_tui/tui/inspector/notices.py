"""Texts of the inspector's status line."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import PurePath

from context_tui.policies.registry import POLICIES
from context_tui.session.session import Session
from context_tui.session.values import RecordKind
from context_tui.text.numbers import format_count, format_percent
from context_tui.text.sanitize import make_visible
from context_tui.tokens.context_index import index_context
from context_tui.tui.jump_points import JumpPoint
from context_tui.tui.terminal.cells import choose_form
from context_tui.tui.view import View

NEWS_TIMEOUT_S = 12
MAX_WRAP_LOSS = 12
"""Cells that a wrapped line is assumed to leave blank at its end."""


def format_next_step(view: View, next_firing: int | None, width: int = 200) -> str:
    """Format the key to try next, as in ``Next: a summarises, in a copy``, or "" if nothing can be planned.

    *next_firing* is the message before which the policy would next have fired, -1 if it never would, or None if it is
    unknown.
    """
    plan = view.plan
    if plan is None or view.applied or not len(view.context):
        return ""
    effect = "summarises" if plan.needs_summary else "drops messages" if plan.messages_dropped else "clears what is old"
    if not (plan.trigger.fires or plan.trigger.by_hand):
        if next_firing is None:
            return ""
        if next_firing < 0:
            breakdown = "Next: b shows what fills it"
            forms = f"{breakdown}, a {effect} now, in a copy", breakdown
            return choose_form(forms, width // 2 if plan.has_changes else 0)
        point = f"Next: ! goes to #{next_firing:,}"
        return choose_form((f"{point}, where it would have fired", f"{point}, where it fires", point), width // 2)
    return f"Next: a {effect}, in a copy" if plan.has_changes else "Next: P chooses another policy"


def format_key_hint(*, demo: bool, settings: str = "", width: int = 200) -> str:
    """Format a hint on the first keys to press, or on restored *settings*, in the longest form that fits *width*."""
    all_keys = "Z turns with their tokens, P policy, ←→ its value, l replay, ? all keys"
    forms = [all_keys]
    if settings:
        forms = [
            f"Settings as you left them: {settings}   backspace resets one, ? all keys",
            "Settings as you left them   backspace resets, ? all keys",
        ]
    elif demo:
        forms = [f"Sample session: {all_keys}", "Sample session: Z turns, P policy, ←→ value, l replay, ? keys"]
    forms += ["Z turns, P policy, ←→ value, l replay, ? keys", "Z turns, P policy, l replay, ? keys", "Z turns, ? keys"]
    return choose_form((*forms, "? keys", ""), width)


def fit_notice(text: str, width: int) -> str:
    """Shorten a notice to *width* cells: first drop its reason, then cut its subject, but keep the keys at its end."""
    if len(text) <= width:
        return text
    notice, gap, keys = text.partition("   ")
    subject = notice.partition(": ")[0]
    room = width - len(gap + keys)
    return f"{subject if len(subject) <= room else subject[: max(room - 1, 0)] + '…'}{gap}{keys}"


def format_reading(session: Session, progress: float) -> str:
    """Format how much of a session has been read, with *progress* as a share from 0 to 1."""
    return f"Reading: {format_percent(progress)}, {format_count(len(session), 'message')}   esc stops"


def format_followed(session: Session) -> str:
    """Format which session is followed from now on, and when it started if that is known."""
    name, started_ms = make_visible(PurePath(session.info.path).name), next(iter(session.facts.time), -1)
    started = time.strftime(" (started %Y-%m-%d %H:%M)", time.localtime(started_ms / 1000)) if started_ms > 0 else ""
    return f"Now following {name}{started}; F stops, ctrl+o chooses another session"


def format_problems(session: Session) -> str:
    """Format how many records could not be read, or the number of problems if some of them are not records."""
    facts, count = session.facts, len(session.facts.problems)
    if facts.record_kind.count(RecordKind.PROBLEM) == count:
        return f"{count:,} of {format_count(len(facts.record_kind), 'record')} could not be read"
    return f"{format_count(count, 'problem')}: not all of the file could be read"


def format_branches(session: Session, width: int) -> str:
    """Format the size of the rewound branches and the command that opens the first one, or "" if there are none."""
    branches = session.facts.rewound_branches
    if not branches:
        return ""
    messages = sum(branch.messages for branch in branches)
    requests = sum(branch.requests for branch in branches)
    amount = f"{format_count(messages, 'message')}, {format_count(requests, 'request')}"
    place = "a rewound branch" if len(branches) == 1 else f"{len(branches):,} rewound branches"
    first_branch = f"{make_visible(PurePath(session.info.path).name)}#{branches[0].id}"
    hint = f"open {'it' if len(branches) == 1 else 'the first'}: context-tui {first_branch}"
    text = f"{amount} on {place}"
    return choose_form((f"{text}   {hint}", f"{text}: {first_branch}", f"{text}: #{branches[0].id}"), width)


def format_notice(
    view: View, points: Sequence[JumpPoint], width: int = 200, progress: float = 1.0, lines: int = 1
) -> str:
    """Format the most important notice about a view in *lines* lines; *progress* is the share of the file read."""
    return fit_notice(_choose_notice(view, points, width, progress), lines * width - (lines - 1) * MAX_WRAP_LOSS)


def _choose_notice(view: View, points: Sequence[JumpPoint], width: int, progress: float) -> str:
    session, context = view.session, view.context
    if not len(session):
        return "No messages in this session"
    if view.plan_error:
        return view.plan_error
    if not len(context):
        return f"Empty context before #{view.point:,}   . or esc returns to the end"
    if view.at is not None:
        reason = next((f": {point.reason}" for point in points if point.at == view.at), "")
        return f"Planned before #{view.at:,}{reason}   . or esc returns to the end"
    if view.applied:
        return f"Applied {view.applied.policy}: {view.applied.summary}   {_format_next_keys(progress)}"
    if session.origin:
        return f"A copy with {session.origin} applied   {_format_next_keys(progress)}"
    if progress < 1:
        messages = format_count(len(session), "message")
        return f"{format_percent(progress)} read: {messages} so far, and not the last one   r reads on"
    if session.facts.problems:
        return f"{format_problems(session)}   p lists {'it' if len(session.facts.problems) == 1 else 'them'}"
    if note := session.info.note:
        return make_visible(note if note.startswith(session.info.format) else f"{note[:1].upper()}{note[1:]}")
    if branches := format_branches(session, width):
        return branches
    if view.plan and not view.plan.has_changes and (hint := POLICIES[view.policy].hint(context)):
        return hint
    if view.plan and not view.plan.has_changes and not len(index_context(context).results.block):
        return f"{view.policy}: {view.plan.reason}"
    return ""


def _format_next_keys(progress: float) -> str:
    return f"u undoes it   {'e exports it' if progress >= 1 else f'of {format_percent(progress)} of the session'}"
