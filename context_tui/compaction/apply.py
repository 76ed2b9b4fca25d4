"""Apply a plan to a session, which creates a new session from copied, changed and inserted messages."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TypeVar

from context_tui.compaction.changes import build_new_texts
from context_tui.compaction.next_request import NextRequest, compute_next_request
from context_tui.compaction.plan import Insert, Plan
from context_tui.errors import PlanError
from context_tui.session.facts import Facts, is_turn_start, prompt_at
from context_tui.session.memory import DerivedContent, Origin, find_origin
from context_tui.session.session import Message, Session
from context_tui.session.token_factors import PRIOR, SizeBasis, fit_factors
from context_tui.session.values import MessageFlag, RecordKind, Role
from context_tui.session.window import model_at
from context_tui.tokens.measures import TokenTable, build_calibrated_table

T = TypeVar("T")


def apply(session: Session, plan: Plan, summary: str | None = None, token_table: TokenTable | None = None) -> Session:
    """Return a new session with the history that *plan* leaves, or the same session if the plan changes nothing.

    Raises PlanError if the plan is for another session, or if it needs a summary that is missing or blank.

    Args:
        summary: the text of the summary if the plan needs one, without prefix or suffix.
        token_table: the token measure for the session's size (default: calibrated).
    """
    return apply_with_measure(session, plan, summary, token_table or build_calibrated_table(session.facts))


def apply_with_measure(session: Session, plan: Plan, summary: str | None, token_table: TokenTable | None) -> Session:
    """Apply a plan as :func:`apply` does, but measure the session's size by ``bytes/4`` if *token_table* is None."""
    context = plan.context
    if context.facts is not session.facts:
        raise PlanError("the plan was made for another session; make a new plan")
    if not plan.has_changes:
        return session
    if plan.needs_summary and not (summary and summary.strip()):
        raise PlanError(f"{plan.policy}: the summary is missing or empty; give one with text")
    builder, has_changes = SessionBuilder(session), bool(plan.changes or context.replacements)
    for entry in iterate_result_entries(plan):
        if isinstance(entry, Insert):
            block = {"type": "text", "text": entry.format_text(summary or "")}
            flags = MessageFlag.SUMMARY if entry.holds_summary else 0
            builder.add_message({"role": entry.role, "content": [block]}, flags=flags, injected=not entry.holds_summary)
        else:
            texts = build_new_texts(session.content, context, plan.changes, entry) if has_changes else None
            builder.copy_message(entry, texts)
    copy = builder.build_session(f"{session.origin}, {plan.policy}" if session.origin else plan.policy, context.at)
    copy.facts.set_size_basis(_build_size_basis(plan, compute_next_request(plan, summary, token_table), token_table))
    return copy


def _build_size_basis(plan: Plan, request: NextRequest, table: TokenTable | None) -> SizeBasis:
    account, facts, basis = request.account, plan.context.facts, plan.context.facts.size_basis
    calibration = table.calibration_at(plan.context) if table else None
    factors = known.factors if (known := calibration or basis) else fit_factors(facts, len(facts.requests))
    is_calibrated = calibration.usable if calibration else basis.is_calibrated if basis else factors is not None
    size, fixed = request.tokens_after, min(account.fixed, request.tokens_after)
    remaining = min(request.put_back, size - fixed - request.inserted_tokens)
    sizes = size, fixed, factors or PRIOR, account.error, account.size_error, account.has_prompt
    return SizeBasis(*sizes, is_calibrated or facts.holds_requests, max(request.restored_tokens + remaining, 0))


def iterate_result_entries(plan: Plan) -> Iterator[int | Insert]:
    """Yield the entries of the new session, in order: the numbers of messages that stay, and inserts."""
    return replace_entries(plan.context.order, set(chain.from_iterable(plan.dropped_ranges)), plan.inserts)


def replace_entries(order: Sequence[T], dropped: Container[int], inserts: Iterable[Insert]) -> Iterator[T | Insert]:
    """Yield the entries of *order* except those at *dropped* positions, and each insert before its position."""
    by_position: dict[int, list[Insert]] = {}
    for insert in inserts:
        by_position.setdefault(insert.position, []).append(insert)
    for position, entry in enumerate(order):
        yield from by_position.get(position, ())
        if position not in dropped:
            yield entry
    yield from by_position.get(len(order), ())


class SessionBuilder:
    """Builds a session from copies of another session's messages and from new messages."""

    def __init__(self, session: Session) -> None:
        self._session, self._facts = session, Facts()
        self._entries: list[Origin | Message] = []

    def copy_message(self, message: int, bodies: Mapping[int, str | None] | None = None) -> None:
        """Copy a message. *bodies* maps block ordinals to new texts, or to None for a block to remove."""
        bodies = bodies or {}
        self._entries.append(find_origin(self._session, message, bodies))
        source = self._session.facts
        rows = [(row, ordinal) for ordinal, row in enumerate(source.blocks_of(message))]
        remaining = [(row, ordinal) for row, ordinal in rows if bodies.get(ordinal, "") is not None]
        flags = source.flags[message]
        if len(remaining) < len(rows) and not any(is_turn_start(source, row) for row, _ in remaining):
            flags &= ~MessageFlag.TURN_START
        index = self._facts.add_message(Role(source.role[message]), flags, source.time[message])
        for row, ordinal in remaining:
            body = bodies.get(ordinal)
            if body is not None:
                self._facts.copy_block_with_text(index, source, row, body)
            else:
                self._facts.copy_block(index, source, row)

    def add_message(
        self,
        message: Message,
        *,
        flags: int = 0,
        time: int = -1,
        rows: Sequence[int] | None = None,
        injected: bool = False,
    ) -> None:
        """Add a new message.

        Args:
            rows: for each block, its row in the source session, or -1 if it is new.
            injected: whether new texts in the message count as injected by the runtime.
        """
        self._entries.append(message)
        facts, blocks = self._facts, message["content"]
        index = facts.add_message(Role.ASSISTANT if message["role"] == "assistant" else Role.USER, flags, time)
        for block, row in zip(blocks, rows or [-1] * len(blocks), strict=True):
            if row >= 0:
                facts.copy_block(index, self._session.facts, row)
            else:
                facts.add_block(index, block, injected=injected and block.get("type") == "text")

    def build_session(self, origin: str, at: int | None = None) -> Session:
        """Return a session with the messages added so far.

        Args:
            origin: names of the policies of the applied plans.
            at: the point in the source session from which the model and the system prompt are taken (default: the end).
        """
        facts, source, session = self._facts, self._session.facts, self._session
        for index in range(len(facts)):
            facts.add_record(index, 0, RecordKind.MESSAGE, index)
        facts.model = source.model if at is None or at >= len(source) else model_at(source, at)
        facts.window, facts.model_window = source.window, source.model_window
        facts.agent_version = source.agent_version
        facts.input_includes_cache = source.input_includes_cache
        facts.system_bytes = source.system_bytes
        facts.tools_bytes = source.tools_bytes
        facts.system_records = source.system_records
        facts.set_size_basis(source.size_basis)
        point = len(source) if at is None else at
        facts.prompts = [prompt_at(source, point)._replace(message=0)] if source.prompts else []
        content = DerivedContent(session, self._entries)
        return Session(facts, content, session.info, len(facts), session.window_override, origin, session.peaks)
