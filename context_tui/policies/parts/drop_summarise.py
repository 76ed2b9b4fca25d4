"""Planning for rules that drop messages or replace them with a summary."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from context_tui.compaction.changes import Change, build_removal
from context_tui.compaction.plan import Insert, KeepReason, Plan, SummaryPrompt, Trigger, VerdictCode, prepare_messages
from context_tui.policies.base import Params, build_empty_plan
from context_tui.policies.parts.clear_truncate import truncate_text
from context_tui.policies.parts.cut_position import find_cut, find_head_end
from context_tui.policies.parts.protection import SizeLimits
from context_tui.policies.parts.rules import Note, Rule, Summarise, Truncate
from context_tui.session.blocks import BYTES_PER_TOKEN
from context_tui.session.context import Body, Context
from context_tui.session.jsontext import utf8_len
from context_tui.session.session import Message
from context_tui.session.values import BlockFlag, Kind, MessageFlag
from context_tui.text.files import read_toml
from context_tui.tokens.context_index import index_context
from context_tui.tokens.estimators import bytes4

DEFAULT_SECTIONS = ("Task", "Constraints", "Done", "Open", "Decisions", "Files & Facts", "Next Step")
"""Headings of a summary if the rule names none."""

_TEXTS = read_toml("context_tui.policies.parts", "drop_summarise.toml")


def plan_message_removal(
    name: str, rule: Rule, params: Params, context: Context, trigger: Trigger, limits: SizeLimits
) -> Plan:
    """Plan a rule that drops or summarises, in time linear in the size of the context and without reading text."""
    length, only_if = len(context), rule.only_if
    first = find_head_end(context, rule.keep, rule.cut)

    def build_idle_plan(reason: str) -> Plan:
        return build_empty_plan(name, params, context, trigger, f"nothing to {rule.action}: {reason}")

    if only_if.messages is not None and length < only_if.messages:
        return build_idle_plan(f"{length:,} messages, and {only_if.messages:,} are wanted")
    if only_if.no_open_call and length and context.has_kind(context.order[-1], Kind.TOOL_USE):
        return build_idle_plan("the last message has a call without a result")
    cut = find_cut(context, rule.keep, rule.head, rule.cut, first, limits)
    typed = list(_find_typed_messages(context, rule, first, cut)) if rule.keep.keeps_typed_messages() else []
    typed_positions = {position for position, _ in typed}
    edges = [first - 1, *sorted(typed_positions), cut]
    removed_ranges = tuple(range(before + 1, after) for before, after in pairwise(edges) if before + 1 < after)
    count = sum(map(len, removed_ranges))
    if not count:
        return build_idle_plan("everything is kept")
    if length == 1 and context.facts.flags[context.order[0]] & MessageFlag.SUMMARY:
        return build_idle_plan("all that would go is an earlier summary")
    if only_if.progress is not None and count < only_if.progress * length:
        return build_idle_plan(f"{count:,} of {length:,} messages would go, and {only_if.progress:.0%} are wanted")
    changes = dict(_strip_kept_messages(context, typed, name))
    ends = rule.keep.find_protected_ends(context, limits)

    def find_keep_reason(position: int, block: int | None) -> KeepReason:
        if position < first:
            return KeepReason(VerdictCode.PROTECTED, f"within the first {first:,} messages")
        if position in typed_positions:
            return KeepReason(VerdictCode.PROTECTED, "typed by a person")
        for end in ends:
            if position >= end.start:
                return KeepReason(end.code, end.explanation)
        return KeepReason(VerdictCode.PAIR, "the cut is not made here")

    summarise = rule.summarise
    notes = (rule.drop.notes if rule.drop else ()) or (summarise.notes if summarise else ())
    return Plan(
        name,
        params,
        context,
        trigger,
        changes,
        dropped_ranges=removed_ranges,
        inserts=tuple(_build_inserts(summarise, notes, first, length, count)),
        summarised_ranges=(range(first, cut),) if summarise else (),
        keep_reason=find_keep_reason,
        prompt=build_prompt(summarise) if summarise else None,
        restoration=summarise.restore if summarise else None,
    )


def _build_inserts(
    summarise: Summarise | None, notes: tuple[Note, ...], first: int, end: int, count: int
) -> Iterator[Insert]:
    def build_insert(note: Note, position: int) -> Insert:
        return Insert(note.role, position, note.text.replace("{messages}", f"{count}"), holds_summary=False)

    position = end if summarise and summarise.at == "end" else first
    yield from (build_insert(note, position) for note in notes if note.at == "before")
    if summarise:
        yield Insert(summarise.role, position, summarise.before, summarise.after)
    yield from (build_insert(note, position) for note in notes if note.at == "after")
    yield from (build_insert(note, end) for note in notes if note.at == "end")


def _find_typed_messages(context: Context, rule: Rule, first: int, cut: int) -> Iterator[tuple[int, int | None]]:
    """Yield the positions of typed messages to keep, newest first, each with the tokens to keep, or None for all."""
    tokens, max_messages = rule.keep.user_tokens, rule.keep.user_messages
    count = 0
    for position in reversed(index_context(context).turn_starts):
        rows = _find_typed_rows(context, position)
        if not first <= position < cut or not rows:
            continue
        size = sum(bytes4(context.facts, row) for row in rows)
        if max_messages is not None and count >= max_messages:
            return
        if tokens is not None:
            if tokens <= 0:
                return
            if size > tokens:
                yield position, tokens
                return
            tokens -= size
        count += 1
        yield position, None


def _find_typed_rows(context: Context, position: int) -> list[int]:
    facts = context.facts
    rows = context.blocks_of(context.order[position])
    return [row for row in rows if facts.kind[row] == Kind.TEXT and not facts.block_flags[row] & BlockFlag.INJECTED]


def _strip_kept_messages(
    context: Context, typed: list[tuple[int, int | None]], name: str
) -> Iterator[tuple[int, Change]]:
    """Yield the changes in kept messages: removal of blocks that were not typed, and truncation of a long message."""
    for position, tokens in typed:
        texts = _find_typed_rows(context, position)
        others = (row for row in context.blocks_of(context.order[position]) if row not in texts)
        yield from ((row, build_removal(name)) for row in others)
        budget = (tokens or 0) * BYTES_PER_TOKEN
        for row in texts if tokens is not None else ():
            size = context.facts.text_bytes[row]
            if size > budget:
                yield row, _build_truncation(size, budget, name)
            budget = max(budget - size, 0)


def _build_truncation(size: int, budget: int, name: str) -> Change:
    middle = f"…{(size - budget) // BYTES_PER_TOKEN} tokens truncated…"
    cut = Truncate(head=budget - budget // 2, tail=budget // 2, middle=middle)
    return Change("truncate", Body(None, budget + utf8_len(middle)), name, lambda text: truncate_text(cut, text))


def build_prompt(summarise: Summarise) -> SummaryPrompt:
    """Build the summary prompt from the built-in text and the section headings of the rule."""
    sections = summarise.sections or DEFAULT_SECTIONS
    system = _TEXTS["system"].format(headings="\n".join(f"## {name}" for name in sections))
    return SummaryPrompt(system, build_summary_request, prepare_messages, sections, max_tokens=summarise.max_tokens)


def build_summary_request(head: list[Message], previous: str | None) -> list[dict[str, Any]]:
    """Append a user message to *head* that asks for a summary."""
    return [*head, {"role": "user", "content": [{"type": "text", "text": _TEXTS["task"]}]}]
