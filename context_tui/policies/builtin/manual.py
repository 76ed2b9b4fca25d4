"""Policy that follows marks set by hand: tool results to clear, and the message before which to summarise."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator

from context_tui.compaction.changes import Change
from context_tui.compaction.plan import KeepReason, Plan, Trigger, VerdictCode
from context_tui.errors import PlanError
from context_tui.policies.base import BasePolicy, Params, param
from context_tui.policies.block_index import find_cut_before_pairs
from context_tui.policies.builtin.defect import SUMMARY_INSERT, SUMMARY_PROMPT, find_earlier_summary_row
from context_tui.policies.runtime_state import RuntimeState
from context_tui.session.context import Body, Context
from context_tui.session.markers import DEFECT_PLACEHOLDER
from context_tui.session.values import Kind
from context_tui.tokens.context_index import index_context


def _parse_marks(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return tuple(_parse_mark(mark) for mark in value.split(",") if mark.strip())


def _parse_mark(mark: str) -> tuple[int, int]:
    message, _, block = mark.partition(":")
    try:
        return int(message), int(block or 0)
    except ValueError:
        raise ValueError("write MESSAGE:BLOCK, as in 12:0,40:1") from None


class ManualParams(Params):
    """The tool results to clear, and the message before which everything is summarised."""

    clear: Annotated[tuple[tuple[int, int], ...], BeforeValidator(_parse_marks)] = param(
        (), "results to clear, as MESSAGE:BLOCK, separated by commas", "message:block", refers_to="marks"
    )
    cut: int | None = param(
        None, "the first message to keep; everything before it is summarised", "message", 0, refers_to="message"
    )


class Manual(BasePolicy):
    """Policy that clears the marked tool results and summarises the messages before the marked message."""

    name: ClassVar[str] = "manual"
    about: ClassVar[str] = "by hand: clear single results, summarise all before a message"
    phases: ClassVar[frozenset[str]] = frozenset()
    Params: ClassVar[type[Params]] = ManualParams

    def trigger(self, state: RuntimeState, params: ManualParams) -> Trigger:
        return Trigger(False, "applied by hand only", source="you", by_hand=True)

    def plan(self, context: Context, params: ManualParams, state: RuntimeState) -> Plan:
        messages = dict.fromkeys(message for message, _ in params.clear)
        block_rows = dict[int, list[int]]()
        for message in messages:
            self._find_position(context, message)
            block_rows[message] = list(context.facts.blocks_of(message)) if message < context.at else []
        rows = [self._find_result_row(context, block_rows[at], at, ordinal) for at, ordinal in params.clear]
        cut = 0 if params.cut is None else self._find_position(context, params.cut)
        boundary = find_cut_before_pairs(context, cut)
        unmarked = KeepReason(VerdictCode.NOT_MARKED, "not marked")
        pair = KeepReason(VerdictCode.PAIR, "the call or result of a pair that the cut would split")
        return Plan(
            self.name,
            params,
            context,
            self.trigger(state, params),
            dict.fromkeys(rows, Change("clear", Body.from_text(DEFECT_PLACEHOLDER), self.name)),
            dropped_ranges=(range(boundary),),
            inserts=(SUMMARY_INSERT,) if boundary else (),
            reason="" if rows or boundary else _explain_empty_plan(params.cut, cut),
            keep_reason=lambda position, block: pair if boundary <= position < cut else unmarked,
            prompt=SUMMARY_PROMPT,
            previous_summary_row=find_earlier_summary_row(context, boundary),
        )

    def _find_position(self, context: Context, message: int) -> int:
        position = len(context) if message == context.at else index_context(context).position_of.get(message)
        if position is None:
            raise PlanError(f"manual: message {message:,} is not in the context at this point")
        return position

    def _find_result_row(self, context: Context, rows: list[int], message: int, ordinal: int) -> int:
        if not 0 <= ordinal < len(rows) or context.facts.kind[rows[ordinal]] != Kind.TOOL_RESULT:
            raise PlanError(f"manual: message {message:,} has no tool result at block {ordinal}")
        return rows[ordinal]


def _explain_empty_plan(message: int | None, cut: int) -> str:
    if message is None:
        return "nothing is marked"
    if not cut:
        return f"nothing comes before message {message:,}"
    return f"everything before message {message:,} belongs to a pair that the cut would split"
