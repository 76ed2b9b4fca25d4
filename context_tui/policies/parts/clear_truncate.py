"""Planning for rules that clear or truncate the content of blocks."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

from context_tui.compaction.changes import Change, LazyChanges, UniformChanges, build_input_body, build_removal
from context_tui.compaction.plan import ACTION_PAST_TENSE, Plan, Trigger
from context_tui.policies.base import Params, build_empty_plan, explain_few_turns
from context_tui.policies.block_index import find_call_rows
from context_tui.policies.parts.protection import SizeLimits
from context_tui.policies.parts.rules import OnlyIf, Rule, Truncate
from context_tui.policies.parts.selection import (
    BODY_ACTION_LABELS,
    BODY_KIND_LABELS,
    EMPTY_INPUT_BYTES,
    LINE_COUNT_PLACEHOLDER,
    BlockSelector,
    BodyKind,
    count_marker_bytes,
    is_already_cleared,
)
from context_tui.session.blocks import body_to_text, bytes_to_tokens
from context_tui.session.context import Body, Context
from context_tui.session.jsontext import utf8_len
from context_tui.session.values import Kind
from context_tui.tokens.context_index import index_context
from context_tui.tokens.estimators import count_block_tokens

BodyChanges = tuple[LazyChanges, int]
"""The changes to the bodies of blocks, by row, and the tokens that they save."""


def plan_body_changes(
    name: str, rule: Rule, params: Params, context: Context, trigger: Trigger, limits: SizeLimits
) -> Plan:
    """Plan a rule that clears or truncates, in time linear in the size of the context and without reading text."""
    index, turns = index_context(context), rule.keep.turns
    if turns is not None and len(index.turn_starts) < turns:
        reason = f"nothing to {rule.action}: {explain_few_turns(len(index.turn_starts), turns)}"
        return build_empty_plan(name, params, context, trigger, reason)
    body_kind: BodyKind = rule.clear.of if rule.clear else "results"
    marker = rule.clear.marker if rule.clear else ""
    marker_tokens = build_clear_change(name, marker).body.tokens if rule.clear and body_kind == "results" else 0
    longer_than = count_truncated_bytes(rule.truncate) if rule.truncate else None
    choice = context, rule.select, rule.keep, body_kind, marker, limits, marker_tokens, longer_than
    selection = BlockSelector(*choice).select()
    if selection.rows and (too_little := _explain_too_little(rule.only_if, selection.sum_by_rule, body_kind)):
        return build_empty_plan(name, params, context, trigger, f"nothing to {rule.action}: {too_little}")
    tokens = sum(selection.tokens)
    if rule.truncate:
        changes, saved = _build_truncated(name, rule.truncate, selection.rows, tokens)
    else:
        changes, saved = _build_cleared(name, context, selection.rows, tokens, body_kind, marker)
    if rule.clear and rule.clear.inputs:
        changes, saved = _add_call_inputs(name, context, changes, saved)
    make_plan = partial(Plan, name, params, context, trigger, keep_reason=selection.keep_reason)
    if not changes.rows:
        label = BODY_KIND_LABELS[body_kind]
        none_older = f"no {label} before what is kept"
        explanation = f"none of the older {label} qualifies" if selection.has_older else none_older
        return make_plan(reason=f"nothing to {rule.action}: {explanation}", tokens_saved=0)
    tokens_after, count = index.total - saved, len(selection.rows)
    report = {"tokens_before": index.total, "tokens_after": tokens_after, ACTION_PAST_TENSE[rule.action]: count}
    return make_plan(changes, report=report, tokens_saved=saved)


def _explain_too_little(only_if: OnlyIf, freed_tokens: int, body_kind: BodyKind) -> str:
    minimum, exclusive_minimum = only_if.clear_at_least, only_if.clear_more_than
    if (minimum and freed_tokens < minimum) or (exclusive_minimum is not None and freed_tokens <= exclusive_minimum):
        bound = f"at least {minimum:,}" if minimum else f"more than {exclusive_minimum:,}"
        return f"{freed_tokens:,} tokens would be {BODY_ACTION_LABELS[body_kind]}, and {bound} are wanted"
    return ""


def _build_cleared(
    name: str, context: Context, rows: list[int], freed_tokens: int, body_kind: BodyKind, marker: str
) -> BodyChanges:
    if body_kind == "inputs":
        facts = context.facts
        remaining = sum(bytes_to_tokens(utf8_len(facts.tool_name(row)) + EMPTY_INPUT_BYTES) for row in rows)
        changes = LazyChanges(rows, lambda row: Change("clear", build_input_body(facts, row, {}), name))
        return changes, freed_tokens - remaining
    change = build_removal(name) if body_kind == "thinking" else build_clear_change(name, marker)
    return UniformChanges(rows, change), freed_tokens - len(rows) * change.body.tokens


@lru_cache(maxsize=64)
def build_clear_change(name: str, marker: str) -> Change:
    """Build the change that replaces content with the marker, whose line count is filled in when a plan is applied."""
    if LINE_COUNT_PLACEHOLDER not in marker:
        return Change("clear", Body.from_text(marker), name)

    def fill_in(content: Any) -> str:
        return marker.replace(LINE_COUNT_PLACEHOLDER, f"{len(body_to_text(content).splitlines())}")

    return Change("clear", Body(None, count_marker_bytes(marker)), name, fill_in)


def _add_call_inputs(name: str, context: Context, results: LazyChanges, saved: int) -> BodyChanges:
    facts, calls = context.facts, find_call_rows(context)
    answered_calls = dict.fromkeys(facts.call[row] for row in results.rows)
    call_rows = (row for call in answered_calls for row in calls.get(call, ()))
    rows = [row for row in call_rows if not is_already_cleared(context, row, "inputs", "")]
    tokens = sum(count_block_tokens(context, row) for row in rows)
    inputs, saved_inputs = _build_cleared(name, context, rows, tokens, "inputs", "")
    position = index_context(context).position_of
    all_rows = sorted((*results.rows, *rows), key=lambda row: (position[facts.block_message[row]], row))

    changes = LazyChanges(all_rows, lambda row: (inputs if facts.kind[row] == Kind.TOOL_USE else results)[row])
    return changes, saved + saved_inputs


def count_truncated_bytes(cut: Truncate) -> int:
    """Return the size in bytes that a result has after this truncation."""
    return cut.head + cut.tail + utf8_len(cut.before) + utf8_len(cut.middle) + utf8_len(cut.after)


def _build_truncated(name: str, cut: Truncate, rows: list[int], tokens: int) -> BodyChanges:
    change = _build_truncation(name, cut)
    return UniformChanges(rows, change), tokens - len(rows) * change.body.tokens


@lru_cache(maxsize=64)
def _build_truncation(name: str, cut: Truncate) -> Change:
    body = Body(None, count_truncated_bytes(cut))
    return Change("truncate", body, name, lambda content: truncate_text(cut, content))


def truncate_text(cut: Truncate, content: Any) -> str:
    """Remove the middle of a result's text, keeping the bytes at its ends that *cut* specifies.

    If a cut splits a character, each of its remaining bytes becomes a question mark.
    """
    encoded = body_to_text(content).encode("utf-8", "surrogatepass")
    head, tail = encoded[: cut.head], encoded[len(encoded) - cut.tail :]
    return f"{cut.before}{_decode_same_length(head)}{cut.middle}{_decode_same_length(tail)}{cut.after}"


def _decode_same_length(data: bytes) -> str:
    """Decode UTF-8; the bytes of an incomplete character at the start or end become question marks."""
    start, end = 0, len(data)
    while start < end and data[start] & 0xC0 == 0x80:
        start += 1
    for distance in range(1, min(4, end - start) + 1):
        lead_byte = data[-distance]
        if lead_byte & 0xC0 == 0xC0:
            character_length = 2 if lead_byte < 0xE0 else 3 if lead_byte < 0xF0 else 4
            if character_length > distance:
                end -= distance
            break
    return "?" * start + data[start:end].decode("utf-8", "surrogatepass") + "?" * (len(data) - end)
