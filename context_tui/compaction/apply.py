"""Carry out a plan: build the new session from copied, changed and inserted messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from context_tui.compaction.changes import build_new_texts
from context_tui.compaction.next_request import compute_next_request
from context_tui.compaction.plan import Insert, Plan
from context_tui.errors import PlanError
from context_tui.session.facts import Facts, is_turn_start, prompt_at
from context_tui.session.memory import DerivedContent, Origin, find_origin
from context_tui.session.session import Message, Session
from context_tui.session.values import MessageFlag, RecordKind, Role
from context_tui.session.window import model_at
from context_tui.tokens.accounting import compute_not_in_file, compute_prompt_not_in_file, estimate_prompt
from context_tui.tokens.context_index import index_context


def apply(session: Session, plan: Plan, summary: str | None = None) -> Session:
    """Return a new session holding the history that *plan* leaves; an unchanged plan gives the same session back.

    Args:
        summary: the text for a plan that summarises, without prefix or suffix.

    Raises:
        PlanError: the plan is of another session, or it summarises and there is no (or only a blank) summary.
    """
    context = plan.context
    if context.facts is not session.facts:
        raise PlanError("the plan was made for another session; make a new plan")
    if not plan.has_changes:
        return session
    if plan.needs_summary and not (summary and summary.strip()):
        raise PlanError(f"{plan.policy}: the summary is missing or empty; give one with text")
    made, touched = SessionBuilder(session), bool(plan.changes or context.replacements)
    for each in iterate_result_entries(plan):
        if isinstance(each, Insert):
            block = {"type": "text", "text": each.format_text(summary or "")}
            flags = MessageFlag.SUMMARY if each.holds_summary else 0
            made.add_message({"role": each.role, "content": [block]}, flags=flags, injected=not each.holds_summary)
        else:
            made.copy_message(each, build_new_texts(session.content, context, plan.changes, each) if touched else None)
    copy = made.build_session(f"{session.origin}, {plan.policy}" if session.origin else plan.policy, context.at)
    request = compute_next_request(plan, summary)
    if request.current_size.recorded is not None or compute_not_in_file(context) is not None:
        left = request.tokens_after - index_context(copy.context_at()).total - estimate_prompt(copy.facts)
        copy.facts.not_in_file = left
        prompt = compute_prompt_not_in_file(context)
        copy.facts.prompt_not_in_file = None if prompt is None else max(min(left, prompt), 0)
    return copy


def iterate_result_entries(plan: Plan) -> Iterator[int | Insert]:
    """Yield the entries of the result in order: messages that stay (by index), and inserts."""
    inserts: dict[int, list[Insert]] = {}
    for insert in plan.inserts:
        inserts.setdefault(insert.position, []).append(insert)
    gone = {position for each in plan.dropped_ranges for position in each}
    for position in range(len(plan.context) + 1):
        yield from inserts.get(position, ())
        if position < len(plan.context) and position not in gone:
            yield plan.context.order[position]


class SessionBuilder:
    """The messages of a session to be, one after the other. The session that it is made from stays as it was."""

    def __init__(self, session: Session) -> None:
        self._session, self._facts = session, Facts()
        self._entries: list[Origin | Message] = []

    def copy_message(self, message: int, bodies: Mapping[int, str | None] | None = None) -> None:
        """Take a message over, with other texts (by block ordinal) for some of its blocks; None removes one."""
        bodies = bodies or {}
        self._entries.append(find_origin(self._session, message, bodies))
        source = self._session.facts
        rows = [(row, ordinal) for ordinal, row in enumerate(source.blocks_of(message))]
        left = [(row, ordinal) for row, ordinal in rows if bodies.get(ordinal, "") is not None]
        flags = source.flags[message]
        if len(left) < len(rows) and not any(is_turn_start(source, row) for row, _ in left):
            flags &= ~MessageFlag.TURN_START
        index = self._facts.add_message(Role(source.role[message]), flags, source.time[message])
        for row, ordinal in left:
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
        """Put in a message of its own.

        Args:
            rows: for each block, the row of the block of the other session that it is, or -1 for a new one.
            injected: whether its new texts count as put in by the runtime.
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
        """Build the session from what was added.

        Args:
            origin: what it was derived by.
            at: the message before which it was left off, of which the model is then; default: the end.
        """
        facts, old, of = self._facts, self._session.facts, self._session
        for index in range(len(facts)):
            facts.add_record(index, 0, RecordKind.MESSAGE, index)
        facts.model = old.model if at is None or at >= len(old) else model_at(old, at)
        facts.window, facts.model_window = old.window, old.model_window
        facts.input_includes_cache = old.input_includes_cache
        facts.system_bytes, facts.tools_bytes, facts.system_rows = old.system_bytes, old.tools_bytes, old.system_rows
        facts.prompts = [replace(prompt_at(old, len(old) if at is None else at), message=0)] if old.prompts else []
        content = DerivedContent(of, self._entries)
        return Session(facts, content, of.info, len(facts), of.window_override, origin, of.peaks)
