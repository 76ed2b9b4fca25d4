"""A policy that asks a program how to change the context."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from threading import RLock
from typing import Any, NamedTuple

from pydantic import create_model

from context_tui.compaction.plan import KeepReason, Plan, Trigger, VerdictCode
from context_tui.errors import PlanError
from context_tui.policies.base import PHASES, BasePolicy, Params, Policy, param
from context_tui.policies.builtin.defect import SUMMARY_PROMPT
from context_tui.policies.command.answer import AnswerReader, ContextCopy
from context_tui.policies.command.program import Program, ProgramError
from context_tui.policies.runtime_state import RuntimeState
from context_tui.session.blocks import replace_texts
from context_tui.session.context import Context
from context_tui.session.values import Role
from context_tui.text.sanitize import sanitize_line, truncate_name

PROTOCOL = 1
DEFAULT_TIMEOUT_S = 10.0
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_KEY = re.compile(r"[a-z][a-z0-9_]*")


class PolicyCommand(NamedTuple):
    """The command line of a policy, and the maximum time for an answer in seconds."""

    command: str
    timeout: float = DEFAULT_TIMEOUT_S

    def __str__(self) -> str:
        return self.command


class CommandPolicy(BasePolicy):
    """A policy that is a program, as in docs/policy-command.md, which is asked in each phase that it describes.

    An answer may depend on earlier questions about the same context. Raises PlanError if the program fails or its
    description or answer is invalid; the next question then restarts the program or sends it the whole context.
    """

    def __init__(self, command: PolicyCommand) -> None:
        self._program, self._lock = Program(*command), RLock()
        self._copy: ContextCopy | None = None
        self._last_params: Params | None = None
        self._last_at, self._version = -1, (0, 0)
        try:
            self._describe(self._program.ask({"type": "describe", "protocol": PROTOCOL}))
        except ProgramError as error:
            self._program.end()
            raise PlanError(sanitize_line(f"{command}: describe: {error}")) from None

    def _describe(self, answer: Mapping[str, Any]) -> None:
        name, about, phases = answer.get("name"), answer.get("about", ""), answer.get("phases", ["before_call"])
        if answer.get("protocol") != PROTOCOL:
            raise ProgramError(f"it does not answer with protocol {PROTOCOL}; see docs/policy-command.md")
        if not (isinstance(name, str) and len(name) <= 60 and _NAME.fullmatch(name)):
            raise ProgramError("its name is not lower-case words with hyphens")
        if not (isinstance(phases, list) and phases and set(map(str, phases)) <= set(PHASES)):
            raise ProgramError(f"its phases are not among {', '.join(PHASES)}")
        self.name, self.phases = name, frozenset(phases)
        self.about = truncate_name(sanitize_line(str(about))) or "a program"
        specs = answer.get("params", {})
        if not isinstance(specs, dict):
            raise ProgramError("its params are no object")
        fields: dict[str, Any] = {key: _build_field(key, spec) for key, spec in specs.items()}
        try:
            self.Params = create_model("CommandParams", __base__=Params, **fields)
            self.Params(**{key: spec["default"] for key, spec in specs.items()})
        except ValueError:
            raise ProgramError("a default of its params is outside its range") from None

    def trigger(self, state: RuntimeState, params: Params) -> Trigger:
        return Trigger(True, "the program is asked", source="program")

    def plan(self, context: Context, params: Params, state: RuntimeState) -> Plan:
        with self._lock:
            copy, self._copy = self._copy, None  # invalid until the answer is known to be valid
            try:
                question, copy = self._build_question(copy, context, params, state)
                answer = self._program.ask(question)
                reader = AnswerReader(copy, self.name)
                reader.read(answer)
            except ProgramError as error:
                raise PlanError(sanitize_line(f"{self.name}: before message {state.at:,}: {error}")) from None
            self._copy, self._last_params, self._last_at = copy, params, context.at
            tables, changes = getattr(context.replacements, "version", (0, 0))
            self._version = tables, changes + bool(reader.changes)
        reason = truncate_name(sanitize_line(str(answer.get("reason") or "")))
        has_changes = bool(reader.changes or reader.dropped or reader.inserts)
        unchanged = KeepReason(VerdictCode.KEPT, reason or "not changed by the program")
        trigger = self.trigger(state, params)
        return Plan(
            self.name,
            params,
            context,
            replace(trigger, reason=reason) if reason else trigger,
            reader.changes,
            dropped_ranges=tuple(range(place, place + 1) for place in sorted(reader.dropped)),
            inserts=tuple(reader.inserts),
            reason="" if has_changes else reason or "the program changes nothing here",
            keep_reason=lambda position, block: unchanged,
            prompt=SUMMARY_PROMPT if any(insert.holds_summary for insert in reader.inserts) else None,
        )

    def _build_question(
        self, copy: ContextCopy | None, context: Context, params: Params, state: RuntimeState
    ) -> tuple[dict[str, Any], ContextCopy]:
        """Build a question with the messages that the program does not know, and the copy that includes them."""
        content, usage = context.content, state.recorded_usage
        if content is None:
            raise ProgramError("the text of this context cannot be read")
        order = list(context.order)
        question: dict[str, Any] = {"type": "plan", "message": state.at}
        if copy is None or not self._continues(copy, context, order, params):
            copy = ContextCopy(context.facts)
            question |= {"reset": True, "params": params.model_dump(mode="json")}
            question |= {"system": content.system(), "tools": content.tools()}
        question["messages"] = self._send_messages(copy, context, order[len(copy.order) :])
        question |= {"window": state.window.tokens, "believed_tokens": state.believed_tokens}
        question |= {"idle_seconds": state.idle_seconds, "usage": None}
        if usage is not None:
            written = usage.cache_write_5m + usage.cache_write_1h
            counts = {"input": usage.fresh, "cache_read": usage.cache_read, "cache_write": written}
            question["usage"] = {**counts, "output": usage.output}
        return question, copy

    def _continues(self, copy: ContextCopy, context: Context, order: list[int], params: Params) -> bool:
        return (
            context.facts.has_origin_of(copy.facts)
            and self._program.is_running
            and context.at > self._last_at
            and params == self._last_params
            and getattr(context.replacements, "version", None) == self._version
            and copy.bind_inserts(context.facts, order)
        )

    def _send_messages(self, copy: ContextCopy, context: Context, numbers: Sequence[int]) -> list[dict[str, Any]]:
        facts, content, messages = context.facts, context.content, []
        assert content is not None
        for number in numbers:
            rows, blocks = list(facts.blocks_of(number)), content.blocks(number)
            if replaced := {at: body for at, row in enumerate(rows) if (body := context.replacements.get(row))}:
                blocks = replace_texts(blocks, {at: body.text for at, body in replaced.items()})
                rows = [row for at, row in enumerate(rows) if at not in replaced or not replaced[at].removed]
            role = copy.roles[number] = "assistant" if facts.role[number] == Role.ASSISTANT else "user"
            copy.order.append(number)
            copy.rows[number], copy.blocks[number] = rows, blocks
            if facts.first_record[number] < 0 and len(blocks) == 1:  # inserted, and perhaps sent back without its id
                copy.names[role, blocks[0].get("text")] = number
            message = {"id": number, "role": role, "content": blocks}
            messages.append(message | ({"time": facts.time[number] / 1000} if facts.time[number] >= 0 else {}))
        return messages


@cache
def read_command(command: PolicyCommand) -> Policy:
    """Start a program and return its policy, one per command, raising PlanError if the program fails."""
    return CommandPolicy(command)


def _build_field(key: str, spec: Any) -> tuple[Any, Any]:
    allowed = {"default", "about", "unit", "min", "max"}
    is_valid = isinstance(spec, dict) and "default" in spec and set(spec) <= allowed
    if not is_valid or not _KEY.fullmatch(key) or hasattr(Params, key):
        raise ProgramError(f"its parameter {truncate_name(key)!r} lacks a default, or has another key or a bad name")
    default, low, high = spec["default"], spec.get("min"), spec.get("max")
    kind: Any = type(default)
    if kind is list and all(isinstance(each, str) for each in default):
        kind, default = tuple[str, ...], tuple(default)
    elif kind not in (int, float, bool) or not {type(low), type(high)} <= {int, float, type(None)}:
        raise ProgramError(f"parameter {key} is neither a number, true or false, nor a list of names")
    about, unit = (sanitize_line(str(spec.get(name, ""))) for name in ("about", "unit"))
    return kind, param(default, about, unit, low, high)
