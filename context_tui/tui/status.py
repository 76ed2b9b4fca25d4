"""The line above the timeline: what is unusual about what is on screen, in words. One thing at a time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from context_tui.policies.registry import POLICIES
from context_tui.session.session import Session
from context_tui.session.values import RecordKind
from context_tui.text.numbers import format_percent
from context_tui.text.sanitize import make_visible
from context_tui.tokens.context_index import index_context
from context_tui.tokens.estimate_check import EstimateCheck
from context_tui.tui.context_sizes import fit_text
from context_tui.tui.jumps import Jump
from context_tui.tui.text import plural
from context_tui.tui.view import View

WRAPPED = 12
"""Cells at the end of a line that are lost, at most, where a word is too long for what is left of it."""


def hint(digits: str, *, demo: bool, kept: str = "", width: int = 200) -> str:
    """What to press first, in *width* cells; *digits* choose a policy.

    *kept* are the settings that are as they were left; telling them may take two lines.
    """
    words = [f"{digits} choose a policy, ←→ its value, > what it changes, a applies it, ? all keys"]
    if kept:
        words = [
            f"Settings as you left them: {kept}   backspace resets the selected one, ? lists all keys",
            "Settings as you left them   backspace resets, ? all keys",
        ]
        width = 2 * width - WRAPPED
    elif demo:
        words = [
            f"Sample session: {digits} choose a policy, ←→ its value, > what it changes, l along the run, ? all keys",
            f"Sample session: {digits} policy, ←→ value, > changes, l along the run, ? keys",
        ]
    shortest = f"{digits} policy, ←→ value, > changes, a apply, ? all keys"
    return next((each for each in words if len(each) <= width), shortest)


def fitted(text: str, room: int) -> str:
    """A notice in *room* cells: without its reason where that is too little, and cut before the keys if need be."""
    if len(text) <= room:
        return text
    told, gap, keys = text.partition("   ")
    what = told.partition(": ")[0]
    left = room - len(gap + keys)
    return f"{what if len(what) <= left else what[: max(left - 1, 0)] + '…'}{gap}{keys}"


def reading(session: Session, progress: float) -> str:
    """While a session is read."""
    return f"Reading: {format_percent(progress)}, {plural(len(session), 'message')}   esc stops"


def unreadable(session: Session) -> str:
    """How many records could not be read; where a problem is no record of its own, how many problems there are."""
    facts, count = session.facts, len(session.facts.problems)
    if facts.record_kind.count(RecordKind.PROBLEM) == count:
        return f"{count:,} of {plural(len(facts.record_kind), 'record')} could not be read"
    return f"{plural(count, 'problem')}: not all of the file could be read"


def branches(session: Session, width: int) -> str:
    """What lies on branches that were left by a rewind, and how one is opened, in *width* cells; empty without any."""
    left = session.facts.branches
    if not left:
        return ""
    messages, requests = sum(each.messages for each in left), sum(each.requests for each in left)
    what = f"{plural(messages, 'message')}, {plural(requests, 'request')}"
    where = "a rewound branch" if len(left) == 1 else f"{len(left):,} rewound branches"
    named = f"{make_visible(PurePath(session.info.path).name)}#{left[0].id}"
    opens = f"open {'it' if len(left) == 1 else 'the first'}: context-tui {named}"
    words = (f"{what} on {where}   {opens}", f"{what} on {where}: {named}")
    return next((each for each in words if len(each) <= width), f"{what} on {where}: #{left[0].id}")


def notice(
    view: View,
    points: Sequence[Jump],
    fit: EstimateCheck | None = None,
    width: int = 200,
    progress: float = 1.0,
    lines: int = 1,
) -> str:
    """What to know about a view, in so many *lines* of *width* cells.

    Args:
        points: those worth planning before.
        fit: of the view's context, once it is known.
        progress: the share of the file that has been read; less than 1 where reading was stopped.
    """
    return fitted(_notice(view, points, fit, width, progress), lines * width - (lines - 1) * WRAPPED)


def _notice(view: View, points: Sequence[Jump], fit: EstimateCheck | None, width: int, progress: float) -> str:
    session, context = view.session, view.context
    if not len(session):
        return "No messages in this session"
    if view.trouble:
        return view.trouble
    if not len(context):
        return f"Empty context before #{view.point:,}   . or esc returns to the end"
    if view.at is not None:
        why = next((f": {point.why}" for point in points if point.at == view.at), "")
        return f"Planned before #{view.at:,}{why}   . or esc returns to the end"
    if view.applied:
        return f"Applied {view.applied.policy}: {view.applied.text}   {_next(progress)}"
    if session.origin:
        return f"A copy with {session.origin} applied   {_next(progress)}"
    if progress < 1:
        so_far = f"{format_percent(progress)} read: {plural(len(session), 'message')} so far"
        return f"{so_far}, and not the last one   r reads on"
    if session.facts.problems:
        return f"{unreadable(session)}   p lists {'it' if len(session.facts.problems) == 1 else 'them'}"
    if note := session.info.note:
        return make_visible(note if note.startswith(session.info.format) else f"{note[:1].upper()}{note[1:]}")
    if off := fit_text(fit, width):
        return off
    if left := branches(session, width):
        return left
    if view.plan and not view.plan.changed and (hint := POLICIES[view.policy].hint(context)):
        return hint
    if not len(index_context(context).results.block):
        return "No tool results in this context: a microcompaction has nothing to clear"
    return ""


def _next(progress: float) -> str:
    """What to do with a copy: of a session that was not read to its end there is no export."""
    return (
        "u undoes it   e exports it" if progress >= 1 else f"u undoes it   of {format_percent(progress)} of the session"
    )
