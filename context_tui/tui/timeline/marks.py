"""Marks of timeline rows: the verdict of a plan on each row, with its glyph and reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from context_tui.compaction.plan import PROTECTED_CODES, Plan, VerdictCode
from context_tui.errors import Error
from context_tui.session.context import Context
from context_tui.session.facts import epoch_at
from context_tui.session.values import Kind, MessageFlag
from context_tui.text.files import read_toml
from context_tui.tokens.context_index import index_context
from context_tui.tokens.measures import TokenTable


class RowMark(NamedTuple):
    """The effect of a plan on one row: a glyph for the timeline, a verdict such as ``cleared``, and the reason."""

    glyph: str
    verdict: str
    reason: str = ""


NO_MARK = RowMark(" ", "kept")


_LABELS: dict[str, dict[str, str]] = read_toml("context_tui.tui.timeline", "labels.toml")
VERDICT_GLYPHS, VERDICT_LABELS, VERDICT_PHRASES = _LABELS["glyphs"], _LABELS["verdicts"], _LABELS["phrases"]
OUTSIDE_REASONS = _LABELS["outside"]
BLOCK_LABELS = dict(zip(Kind, ("text", "thinking", "call", "result", "image", "block"), strict=True))
CHANGED_VERDICTS = frozenset({"cleared", "truncated", "summarised", "dropped"})


class RowMarker:
    """The marks of all rows, computed on demand, by the current plan or, without one, by the plan applied last."""

    def __init__(
        self,
        context: Context,
        plan: Plan | None,
        applied_marks: Mapping[int, str] | None = None,
        token_table: TokenTable | None = None,
    ) -> None:
        self.context, self.plan, self.applied_marks, self.token_table = context, plan, applied_marks or {}, token_table
        order = context.order
        self._order_range = order if isinstance(order, range) and order.step == 1 else None
        self._epoch = epoch_at(context.facts, context.at)

    def find_position(self, message: int) -> int:
        """Return the position of a message in the context, or -1 if it is not in the context."""
        if self._order_range is not None:
            return message - self._order_range.start if message in self._order_range else -1
        return index_context(self.context).position_of.get(message, -1)

    def find_mark(self, message: int, block: int = -1) -> RowMark:
        """Return the mark of the tool result *block* or, if that is -1, of the message without its results."""
        position = self.find_position(message)
        if position < 0:
            if message >= self.context.at:
                return RowMark(VERDICT_GLYPHS["after"], "after", OUTSIDE_REASONS["after"])
            is_unsent = self.context.facts.flags[message] & MessageFlag.NOT_SENT
            reason = OUTSIDE_REASONS["unsent" if is_unsent else self._epoch.cause]
            return RowMark(VERDICT_GLYPHS["before"], "before", reason)
        if self.plan is None:
            return self._find_applied_mark(message, block) if self.applied_marks else NO_MARK
        try:
            verdict = self.plan.find_verdict_at(position, block if block >= 0 else None)
        except (Error, OSError) as error:  # of a policy from another package
            return RowMark(VERDICT_GLYPHS["kept"], "kept", str(error))
        outcome, kind = verdict.outcome, self.context.facts.kind
        if outcome == "kept" and block < 0 and self.plan.changes:
            rows = (row for row in self.context.facts.blocks_of(message) if kind[row] != Kind.TOOL_RESULT)
            if (changed := next((row for row in rows if row in self.plan.changes), None)) is not None:
                block_verdict = self.plan.find_verdict_at(position, changed)
                label = BLOCK_LABELS[Kind(kind[changed])]
                reason = f"its {label}, {self._format_replacement(changed) or block_verdict.explanation}"
                return RowMark(VERDICT_GLYPHS.get(block_verdict.outcome, "?"), block_verdict.outcome, reason)
        if outcome == "kept":
            if block in self.context.replacements:
                outcome = "gone"
            elif verdict.code in PROTECTED_CODES:
                outcome = "protected"
        replacement = self._format_replacement(block) if verdict.code is VerdictCode.SELECTED else ""
        return RowMark(VERDICT_GLYPHS.get(outcome, "?"), outcome, replacement or verdict.explanation)

    def _format_replacement(self, row: int) -> str:
        """Format a block's size before and after its change by the token measure, or "" if either is missing."""
        change = self.plan.changes.get(row) if self.token_table and self.plan and row >= 0 else None
        if change is None or self.token_table is None:
            return ""
        size_after = "nothing" if change.body.removed else f"{self.token_table.count_body(row, change.body):,}"
        size = f"{self.token_table.count_block_tokens(self.context, row):,} tokens become {size_after}"
        return f"{size} ({self.token_table.name})"

    def _find_applied_mark(self, message: int, block: int) -> RowMark:
        facts = self.context.facts
        rows = [block] if block >= 0 else [r for r in facts.blocks_of(message) if facts.kind[r] != Kind.TOOL_RESULT]
        for row in rows:
            if verdict := self.applied_marks.get(row):
                label = "" if block >= 0 else f"its {BLOCK_LABELS[Kind(facts.kind[row])]}, "
                return RowMark(VERDICT_GLYPHS.get(verdict, "?"), verdict, f"{label}{verdict} when the plan was applied")
        return NO_MARK
