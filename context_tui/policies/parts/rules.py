"""Models for a policy written in TOML: its description, its rules and their actions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from context_tui.policies.base import param, token_param
from context_tui.policies.parts.cut_position import Cut, Head
from context_tui.policies.parts.part import Part
from context_tui.policies.parts.protection import Keep
from context_tui.policies.parts.selection import BodyKind, Select
from context_tui.policies.parts.trigger_condition import Size, TriggerCondition
from context_tui.tokens.restored_files import Restoration

ACTIONS = ("clear", "truncate", "drop", "summarise")
_NAME_PATTERN = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")
Phase = Literal["before_call", "after_tools", "user_turn"]
Role = Literal["user", "assistant"]


class Clear(Part):
    """Action that replaces the content of each selected block with ``marker``.

    Inputs of calls become empty: all with ``of = "inputs"``, those of cleared results with ``inputs``. Thinking is
    removed.
    """

    prefix: ClassVar[str] = "clear"

    of: BodyKind = "results"
    marker: str = "[cleared]"
    inputs: bool = param(False, "empty the inputs of the calls whose results are cleared too", "")


class Truncate(Part):
    """Action that keeps the first ``head`` and last ``tail`` bytes of each result.

    The texts ``before``, ``middle`` and ``after`` are put before, between and after them.
    """

    prefix: ClassVar[str] = "truncate"

    head: int = param(250, "bytes that are kept of the beginning", "bytes", 0, 1_000_000)
    tail: int = param(250, "bytes that are kept of the end", "bytes", 0, 1_000_000)
    before: str = ""
    middle: str = "\n...\n"
    after: str = ""


class Note(Part):
    """A message to insert before or after the summary (or in place of the removed messages), or at the end.

    ``{messages}`` in the text is replaced by the number of removed messages.
    """

    role: Role
    text: str
    at: Literal["before", "after", "end"] = "after"


class Drop(Part):
    """Action that removes messages without a summary."""

    prefix: ClassVar[str] = "drop"

    notes: tuple[Note, ...] = ()


class Summarise(Part):
    """Action that replaces messages with a summary in a message from ``role``.

    The summary stands in their place (``at`` is ``head``) or at the end of the context. ``before`` and ``after`` are
    the texts around it. With ``background`` the agent continues while the summary is written. ``restore`` is
    what the agent puts back, if the session records which files it read.
    """

    prefix: ClassVar[str] = "summary"

    role: Role = "user"
    at: Literal["head", "end"] = "head"
    before: str = ""
    after: str = ""
    notes: tuple[Note, ...] = ()
    sections: tuple[str, ...] = ()
    max_tokens: int = token_param(8_192, "most tokens that the summary may have", 1, 100_000)
    background: bool = False
    restore: Restoration | None = None


class OnlyIf(Part):
    """Conditions that must hold for a rule to change anything.

    ``clear_at_least`` and ``clear_more_than`` are lower limits for the tokens to clear, ``messages`` is the minimum
    number of messages, and ``progress`` the minimum share of messages to remove. With ``no_open_call`` the last message
    must not contain a call without a result.
    """

    clear_at_least: int | None = token_param(None, "do nothing unless at least this much would be cleared")
    clear_more_than: int | None = token_param(None, "do nothing unless more than this would be cleared")
    messages: int | None = Field(default=None, ge=0, le=100_000)
    progress: float | None = param(None, "do nothing unless this share of messages is removed", "of messages", 0.0, 1.0)
    no_open_call: bool = False


class Rule(Part):
    """One rule of a policy: a trigger, an action, and the content that it selects and protects."""

    name: str = Field(default="", max_length=40)
    trigger: TriggerCondition
    size: Size = Size()
    keep: Keep = Keep()
    select: Select = Select()
    head: Head | None = None
    cut: Cut = Cut()
    only_if: OnlyIf = OnlyIf()
    clear: Clear | None = None
    truncate: Truncate | None = None
    drop: Drop | None = None
    summarise: Summarise | None = None

    @model_validator(mode="after")
    def _validate_combination(self) -> Rule:
        actions = [name for name in ACTIONS if getattr(self, name) is not None]
        if len(actions) != 1:
            raise ValueError(f"needs one action: {', '.join(ACTIONS)}")
        for name in ("select",) if self.removes_messages else ("head", "cut"):
            if name in self.model_fields_set:
                raise ValueError(f"{name} means nothing to {actions[0]}")
        if not self.removes_messages and self.keep.keeps_typed_messages():
            raise ValueError(f"keep.user_tokens and keep.user_messages mean nothing to {actions[0]}")
        if self.removes_messages and (self.keep.results is not None or self.keep.result_tokens is not None):
            raise ValueError(f"keep.results and keep.result_tokens mean nothing to {actions[0]}")
        return self

    @cached_property
    def action(self) -> str:
        """Name of the action: clear, truncate, drop or summarise."""
        return next(name for name in ACTIONS if getattr(self, name) is not None)

    @property
    def depends_on_turns_only(self) -> bool:
        """Whether the rule protects only by turns, so that it has nothing new to change until a turn starts."""
        keep, allowed = self.keep.model_fields_set, {"turns", "first", "result_tokens", "every", "count"}
        allowed |= {"results"} if self.keep.count == "eligible" else set()
        return not self.removes_messages and "turns" in keep and keep <= allowed and self.select.older_than is None

    @property
    def removes_messages(self) -> bool:
        """Whether the rule removes messages; if so, it must be the policy's last rule."""
        return self.drop is not None or self.summarise is not None


class PolicyRule(Part):
    """A rule that runs an existing policy, optionally with other default parameters."""

    policy: str
    params: dict[str, Any] = {}


def _find_rule_tag(value: Any) -> str:
    return "policy" if isinstance(value, PolicyRule) or (isinstance(value, Mapping) and "policy" in value) else "parts"


class PolicySpec(Part):
    """A policy written in TOML: a name, a one-line description and rules.

    ``runtime`` and ``kind`` are those of ``Policy``. ``phases`` says when the runtime checks the trigger, ``source``
    and ``version`` the origin of the rules, and ``limits`` sentences about differences from that origin.
    """

    name: str
    about: str = Field(min_length=1, max_length=200)
    runtime: str = ""
    kind: Literal["full", "micro"] = "full"
    phases: tuple[Phase, ...] = ("before_call",)
    source: str = ""
    version: str = ""
    limits: tuple[str, ...] = ()
    rules: tuple[
        Annotated[Annotated[Rule, Tag("parts")] | Annotated[PolicyRule, Tag("policy")], Discriminator(_find_rule_tag)],
        ...,
    ] = Field(default=(), max_length=8)

    @field_validator("name")
    @classmethod
    def _validate_name(cls, name: str) -> str:
        if not _NAME_PATTERN.fullmatch(name):
            raise ValueError("must be 1 to 40 lower-case letters, digits, points, dashes or underscores")
        return name

    @model_validator(mode="after")
    def _validate_order(self) -> PolicySpec:
        for rule in self.rules[:-1]:
            if isinstance(rule, Rule) and rule.removes_messages:
                raise ValueError(f"nothing runs after a rule that says {rule.action}; put it last")
        return self
