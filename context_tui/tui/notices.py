"""The line above the timeline: what is unusual about what is on screen, in words. One thing at a time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from context_tui.policies.registry import POLICIES
from context_tui.sanitize import visible
from context_tui.session.kinds import RecordKind
from context_tui.session.session import Session
from context_tui.tokens.fit import Fit
from context_tui.tokens.measured import measured
from context_tui.tui.jumps import Jump
from context_tui.tui.sizes import fit_words
from context_tui.tui.text import plural
from context_tui.tui.view import View

FIRST_RUN = "1–7 choose a policy, ←→ its value, } goes to where it first fires, ? helps"
DEMO = "a sample session: ←→ moves the setting, 1–7 choose a policy, a applies it to a copy, ? lists all keys"


def reading(session: Session, progress: float) -> str:
    """While a session is read."""
    return f"reading: {progress:.0%}, {plural(len(session), 'message')}   esc stops here"


def unreadable(session: Session) -> str:
    """How many records could not be read; where a problem is no record of its own, how many problems there are."""
    facts, count = session.facts, len(session.facts.problems)
    if facts.record_kind.count(RecordKind.PROBLEM) == count:
        return f"{count:,} of {plural(len(facts.record_kind), 'record')} could not be read"
    return f"{plural(count, 'problem')} in the file: not all of it could be read"


def branches(session: Session, width: int) -> str:
    """What lies on branches that were left by a rewind, and how one is opened, in *width* cells; empty without any."""
    left = session.facts.branches
    if not left:
        return ""
    messages, requests = sum(each.messages for each in left), sum(each.requests for each in left)
    what = f"{plural(messages, 'message')}, {plural(requests, 'request')}"
    where = "a branch that was left" if len(left) == 1 else f"{len(left):,} branches that were left"
    short = "a rewound branch" if len(left) == 1 else f"{len(left):,} rewound branches"
    named = f"{visible(PurePath(session.info.path).name)}#{left[0].id}"
    opens = f"context-tui {named} opens {'it' if len(left) == 1 else 'the first'}"
    words = (f"{what} on {where} by a rewind   {opens}", f"{what} on {short}: {named}")
    return next((each for each in words if len(each) <= width), f"{what} on {short}: #{left[0].id}")


def notice(view: View, shown: int, points: Sequence[Jump], fit: Fit | None = None, width: int = 200) -> str:
    """What to know about a view of which *shown* rows are listed, in about *width* cells.

    Args:
        points: those worth planning as of.
        fit: of the view's context, once it is known.
    """
    session, context = view.session, view.context
    if not len(session):
        return "no messages in this session"
    if view.filter and not shown:
        return f"nothing matches: {view.filter.words()}   esc shows everything"
    if view.trouble:
        return view.trouble
    if not len(context):
        return f"the context before message {view.point} is empty   . goes back to the end"
    if session.origin:
        return f"a copy with {session.origin} applied   u takes it back   e writes it to a file"
    if view.at is not None:
        why = next((f": {point.why}" for point in points if point.at == view.at), "")
        return f"planned as of message {view.at:,}{why}   . goes back to the end"
    if session.facts.problems:
        return f"{unreadable(session)}   p lists {'it' if len(session.facts.problems) == 1 else 'them'}"
    if off := fit_words(fit, width):
        return off
    if left := branches(session, width):
        return left
    if view.plan and not view.plan.changed and (hint := POLICIES[view.policy].hint(context)):
        return hint
    if not len(measured(context).results.block):
        return "no tool results in this context: there is nothing that a microcompaction could clear"
    return ""
