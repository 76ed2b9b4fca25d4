"""Every policy at several points of a session, written in every format: what must hold of each file that is written."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import context_tui as ct
from context_tui.compaction.tool_pairing import NOTE_CALLS_RENAMED, compare_orphans, find_unpaired
from context_tui.export.files import export, is_copied, list_writable_formats
from context_tui.session.session import Session
from context_tui.session.values import Kind
from context_tui.tokens.context_index import index_context
from tests.vendors import refused

Plan = Any
POLICIES: list[tuple[str, dict[str, Any]]] = [
    ("defect-microcompact", {"keep_recent_turns": 1, "min_clear_tokens": 1}),
    ("defect-compact", {"threshold": 1}),
    ("defect-compact", {"threshold": 8_000, "assistant_boundary": True}),
    ("koda-microcompact", {"force": True}),
    ("agent-sdk-prune", {}),
    ("agent-sdk-compact", {"min_keep": 4}),
    ("agent-sdk-compact", {"min_keep": 7}),
    ("chain", {"options": {"defect-microcompact": {"keep_recent_turns": 1}, "defect-compact": {"threshold": 1}}}),
]


def sessions(path: Path) -> Iterator[Session]:
    """Every session in a file."""
    for info in ct.sessions_in(path):
        yield ct.open_session(f"{info.path}#{info.id}" if info.id else info.path)


def points(session: Session, number: int) -> list[int]:
    """About *number* points of a session, evenly apart, the end included."""
    length = len(session)
    return sorted({length - length * step // number for step in range(number)} - {0})


def carried_out(session: Session, at: int) -> Iterator[tuple[str, Session]]:
    """What each policy leaves of the context before message *at*, where it leaves anything but what was there."""
    if at == len(session):
        yield "as it is", session
    context, facts = session.context_at(at), session.facts
    plans = [(f"{name} {params}", ct.plan(session, name, at=at, **params)) for name, params in POLICIES]
    results = [
        (message, ordinal)
        for message in context.order
        for ordinal, block in enumerate(facts.blocks_of(message))
        if facts.kind[block] == Kind.TOOL_RESULT
    ]
    marked: dict[str, Any] = {
        **({"clear": (results[len(results) // 2],)} if results else {}),
        **({"cut": context.order[len(context) // 2]} if len(context) > 3 else {}),
    }
    plans.append((f"manual {marked}", ct.plan(session, "manual", at=at, **marked)))
    seen = set[tuple[int, int, int]]()
    for what, plan in plans:
        if plan.has_changes:
            after = ct.apply(session, plan, "What happened.")
            found = (plan.messages_dropped, len(plan.changes), ct.tokens.estimate(after) or 0)
            if found not in seen:  # what another policy leaves too is the same file
                seen.add(found)
                yield what, after


def defects(path: Path, number: int, folder: Path) -> list[str]:
    """What is wrong with the files that are written of the sessions in *path*, at about *number* points of each."""
    return [
        f"at {at}, {what}, {name}: {wrong}"
        for session in sessions(path)
        for at in points(session, number)
        for what, after in carried_out(session, at)
        if len(after.context_at())
        for name in list_writable_formats()
        for wrong in wrong_with(session, at, after, name, folder / "out")
    ]


def wrong_with(session: Session, at: int, after: Session, name: str, out: Path) -> Iterator[str]:
    """What is wrong with the file that is written of *after*, which a policy made of *session* at a point."""
    try:
        done = export(after, out, name, force=True)
    except ct.Error as error:
        yield f"fails: {error}"
        return
    written = ct.open_session(out)
    if is_copied(after, name):
        was, now = recorded(after), recorded(written)
        if changed := [what for what in was if was[what] != now[what]]:
            yield f"copies {changed} otherwise"
        return
    told = [loss for loss in done.losses if loss.startswith("the written file has ")]
    if told != differences(after, written):
        yield f"tells {told}, but {differences(after, written)}"
    causes = [re.sub(r": [\d,]+$", "", loss) for loss in done.losses]
    if len(causes) > 30 or len(set(causes)) < len(causes):
        yield f"notes are not compact: {done.losses}"
    messages = written.to_messages()
    before = session.to_messages(at)
    renamed = any(loss.startswith(NOTE_CALLS_RENAMED) for loss in done.losses)
    if done.check.introduced or (not renamed and compare_orphans(before, messages)[1]):
        yield f"splits pairs: {compare_orphans(before, messages)[1][:3]}"
    spoken = [block for message in messages if message["role"] == "assistant" for block in message["content"]]
    ids = Counter(block.get("id") for block in spoken if block.get("type") == "tool_use")
    if repeated := [call for call, count in ids.items() if count > 1]:
        yield f"repeats ids: {repeated[:3]}"
    if name == "claude-code":
        yield from backwards(out)
    elif name in ("anthropic", "openai"):
        yield from refused(name, json.loads(out.read_bytes()))
        if find_unpaired(messages):
            yield f"leaves pairs broken: {find_unpaired(messages)}"
        if messages[0]["role"] != "user":
            yield "the assistant begins"
        if (messages[-1]["role"] == "assistant") != any(loss.startswith("it ends with") for loss in done.losses):
            yield "does not say that it ends with the assistant"


def recorded(session: Session) -> dict[str, Any]:
    """What a session holds, however its file is laid out."""
    facts = session.facts
    blocks = [
        [(facts.kind[row], facts.text_bytes[row], facts.tool_name(row)) for row in facts.blocks_of(message)]
        for message in range(len(session))
    ]
    return {
        "messages": [*zip(facts.role, facts.flags, facts.time, facts.end_time, blocks, strict=True)],
        "requests": [*zip(facts.request_message, facts.request_time, facts.requests, strict=True)],
        "models": [facts.models[row] if row >= 0 else "" for row in facts.request_model],
        "compactions": [(each.message, each.kind, each.trigger, each.pre_tokens) for each in facts.compactions],
        "epochs": [(each.message, each.cause) for each in facts.epochs],
        "problems": [each.what for each in facts.problems],
        "text": session.to_messages(),
        "around": (session.content.system(), session.content.tools(), facts.window),
    }


def differences(before: Session, after: Session) -> list[str]:
    """The differences in size, messages and turns as they are to be told."""
    found = []
    for what, now, was in (
        ("tokens", ct.tokens.estimate(after.context_at()) or 0, ct.tokens.estimate(before.context_at()) or 0),
        ("messages", len(after.context_at()), len(before.context_at())),
        (
            "turns",
            len(index_context(after.context_at()).turn_starts),
            len(index_context(before.context_at()).turn_starts),
        ),
    ):
        if now != was:
            has = f"{'est. ' if what == 'tokens' else ''}{now:,} {what.removesuffix('s') if now == 1 else what}"
            found.append(f"the written file has {has} instead of {was:,}")
    return found


def backwards(path: Path) -> Iterator[str]:
    """Where time runs backwards in a Claude Code file."""
    last = ""
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        time = json.loads(line).get("timestamp") or last
        if time < last:
            yield f"line {number}: {time} comes after {last}"
            return
        last = time
