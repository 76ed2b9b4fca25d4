"""Plans of rules that clear or truncate block bodies."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from context_tui.compaction.changes import Change, LazyChanges, UniformChanges, build_input_body, build_removal
from context_tui.compaction.plan import ACTION_PAST_TENSE, Plan, Trigger
from context_tui.policies.base import Params, build_empty_plan
from context_tui.policies.block_index import find_call_rows
from context_tui.policies.parts.protection import SizeLimits
from context_tui.policies.parts.rules import OnlyIf, Rule, Truncate
from context_tui.policies.parts.selection import (
    BODY_ACTION_LABELS,
    BODY_KIND_LABELS,
    EMPTY_INPUT_BYTES,
    LINE_COUNT_PLACEHOLDER,
    BodyKind,
    count_marker_bytes,
    is_already_cleared,
    select_blocks,
)
from context_tui.session.blocks import body_to_text, bytes_to_tokens
from context_tui.session.context import Body, Context
from context_tui.session.jsontext import utf8_len
from context_tui.session.values import Kind
from context_tui.tokens.context_index import index_context
from context_tui.tokens.estimators import bytes4


class BodyChanges(NamedTuple):
    """Rows of changed blocks in prompt order, the tokens that they save, and the change of all of them, or of each."""

    rows: list[int]
    saved_tokens: int
    change: Change | Callable[[int], Change]

    def get_change(self, row: int) -> Change:
        """Return the change of a block."""
        return self.change if isinstance(self.change, Change) else self.change(row)

    @property
    def changes(self) -> LazyChanges:
        """The changes by block row."""
        if isinstance(self.change, Change):
            return UniformChanges(self.rows, self.change)
        return LazyChanges(self.rows, self.change)


def plan_body_changes(
    name: str, rule: Rule, params: Params, context: Context, trigger: Trigger, limits: SizeLimits
) -> Plan:
    """Plan a rule that clears or truncates; linear in the context, from facts only."""
    sums, turns = index_context(context), rule.keep.turns
    if turns is not None and len(sums.turn_starts) < turns:
        few = {0: "no turn starts in this context", 1: "only one turn"}
        have = few.get(len(sums.turn_starts), f"only {len(sums.turn_starts):,} turns")
        reason = f"nothing to {rule.action}: {have}, and the last {turns:,} are kept"
        return build_empty_plan(name, params, context, trigger, reason)
    of: BodyKind = rule.clear.of if rule.clear else "results"
    marker = rule.clear.marker if rule.clear else ""
    gain = build_clear_change(name, marker).body.tokens if rule.clear and of == "results" else 0
    left_of_each = count_truncated_bytes(rule.truncate) if rule.truncate else None
    chosen = select_blocks(context, rule.select, rule.keep, of, marker, limits, gain, left_of_each)
    before = sum(chosen.tokens)
    if rule.truncate:
        found = _build_truncated(name, rule.truncate, chosen.rows, before)
    else:
        found = _build_cleared(name, context, chosen.rows, before, of, marker)
    if less := _explain_too_little(rule.only_if, before, of) if chosen.rows else "":
        return build_empty_plan(name, params, context, trigger, f"nothing to {rule.action}: {less}")
    if rule.clear and rule.clear.inputs:
        found = _add_call_inputs(name, context, found)

    if not found.rows:
        why = (
            f"none of the older {BODY_KIND_LABELS[of]} qualifies"
            if chosen.has_older
            else f"no {BODY_KIND_LABELS[of]} before what is kept"
        )
        reason = f"nothing to {rule.action}: {why}"
        return Plan(name, params, context, trigger, reason=reason, keep_reason=chosen.keep_reason, tokens_saved=0)
    left, count = sums.total - found.saved_tokens, len(chosen.rows)
    report = {"tokens_before": sums.total, "tokens_after": left, ACTION_PAST_TENSE[rule.action]: count}
    return Plan(
        name,
        params,
        context,
        trigger,
        found.changes,
        report=report,
        keep_reason=chosen.keep_reason,
        tokens_saved=found.saved_tokens,
    )


def _explain_too_little(only_if: OnlyIf, freed: int, of: BodyKind) -> str:
    """Why what would be changed, so many tokens, is not enough, in words; empty where it is."""
    wanted, more = only_if.clear_at_least, only_if.clear_more_than
    if (wanted and freed < wanted) or (more is not None and freed <= more):
        least = f"at least {wanted:,}" if wanted else f"more than {more:,}"
        return f"{freed:,} tokens would be {BODY_ACTION_LABELS[of]}, and {least} are wanted"
    return ""


def _build_cleared(name: str, context: Context, rows: list[int], freed: int, of: BodyKind, marker: str) -> BodyChanges:
    """Bodies with the marker, or nothing, in their place."""
    if of == "inputs":
        facts = context.facts
        left = sum(bytes_to_tokens(utf8_len(facts.tool_name(row)) + EMPTY_INPUT_BYTES) for row in rows)
        return BodyChanges(rows, freed - left, lambda row: Change("clear", build_input_body(facts, row, {}), name))
    change = build_removal(name) if of == "thinking" else build_clear_change(name, marker)
    return BodyChanges(rows, freed - len(rows) * change.body.tokens, change)


@lru_cache(maxsize=64)
def build_clear_change(name: str, marker: str) -> Change:
    """Return the marker in place of a body; the lines that went are counted when it is carried out."""
    if LINE_COUNT_PLACEHOLDER not in marker:
        return Change("clear", Body.from_text(marker), name)
    return Change(
        "clear", Body(None, count_marker_bytes(marker)), name, lambda body: format_marker(marker, body_to_text(body))
    )


def format_marker(marker: str, text: str) -> str:
    """Return the marker with how many lines the text had."""
    return marker.replace(LINE_COUNT_PLACEHOLDER, f"{len(text.splitlines())}")


def _add_call_inputs(name: str, context: Context, results: BodyChanges) -> BodyChanges:
    """Return the results, and the calls that they answer without their inputs."""
    facts, calls = context.facts, find_call_rows(context)
    answered = dict.fromkeys(facts.call[row] for row in results.rows)
    rows = [
        row for call in answered for row in calls.get(call, ()) if not is_already_cleared(context, row, "inputs", "")
    ]
    empty = _build_cleared(name, context, rows, sum(_count_block_tokens(context, row) for row in rows), "inputs", "")
    use, position = Kind.TOOL_USE, index_context(context).position_of
    both = sorted((*results.rows, *rows), key=lambda row: (position[facts.block_message[row]], row))
    return BodyChanges(
        both,
        results.saved_tokens + empty.saved_tokens,
        lambda row: empty.get_change(row) if facts.kind[row] == use else results.get_change(row),
    )


def _count_block_tokens(context: Context, row: int) -> int:
    """Count the tokens of a block as it stands in the context."""
    body = context.replacements.get(row)
    return body.tokens if body else bytes4(context.facts, row)


def count_truncated_bytes(cut: Truncate) -> int:
    """Bytes that are left of a result that is truncated."""
    return cut.head + cut.tail + utf8_len(cut.before) + utf8_len(cut.middle) + utf8_len(cut.after)


def _build_truncated(name: str, cut: Truncate, rows: list[int], before: int) -> BodyChanges:
    """Results with their middle cut out, which have so many tokens before."""
    body = Body(None, count_truncated_bytes(cut))
    change = Change("truncate", body, name, lambda content: truncate_text(cut, content))
    return BodyChanges(rows, before - len(rows) * body.tokens, change)


def truncate_text(cut: Truncate, content: Any) -> str:
    """Cut the middle out of a result; each byte of a character that a cut splits becomes a question mark."""
    encoded = body_to_text(content).encode("utf-8", "surrogatepass")
    first, last = encoded[: cut.head], encoded[len(encoded) - cut.tail :]
    return f"{cut.before}{_decode_same_length(first)}{cut.middle}{_decode_same_length(last)}{cut.after}"


def _decode_same_length(part: bytes) -> str:
    """Bytes as text of the same length."""
    begin, end = 0, len(part)
    while begin < end and part[begin] & 0xC0 == 0x80:
        begin += 1
    whole = part[begin:]
    for back in range(1, min(4, len(whole)) + 1):
        lead = whole[-back]
        if lead & 0xC0 == 0xC0:
            need = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
            if need > back:
                end -= back
            break
        if lead < 0x80:
            break
    middle = part[begin:end].decode("utf-8", "surrogatepass")
    return "?" * begin + middle + "?" * (len(part) - end)
