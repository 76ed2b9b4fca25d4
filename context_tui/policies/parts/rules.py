"""A policy as data: its rules, in the order in which they run, and what is to be known about it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from context_tui.policies.parts.actions import Clear, Drop, OnlyIf, Summarise, Truncate
from context_tui.policies.parts.cutting import Cut, Head
from context_tui.policies.parts.keeping import Keep
from context_tui.policies.parts.part import Part
from context_tui.policies.parts.selecting import Select
from context_tui.policies.parts.triggers import Size, TriggerCondition

ACTIONS = ("clear", "truncate", "drop", "summarise")
_NAME_PATTERN = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")
Phase = Literal["before_call", "after_tools", "user_turn"]


class Rule(Part):
    """A trigger and one action, with what it is done to and what is left alone."""

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
        of_bodies = self.clear is not None or self.truncate is not None
        for name in ("head", "cut") if of_bodies else ("select",):
            if name in self.model_fields_set:
                raise ValueError(f"{name} means nothing to {actions[0]}")
        if of_bodies and self.keep.keeps_typed_messages():
            raise ValueError(f"keep.user_tokens and keep.user_messages mean nothing to {actions[0]}")
        if not of_bodies and (self.keep.has_results is not None or self.keep.result_tokens is not None):
            raise ValueError(f"keep.results and keep.result_tokens mean nothing to {actions[0]}")
        return self

    @cached_property
    def action(self) -> str:
        """The name of what it does."""
        return next(name for name in ACTIONS if getattr(self, name) is not None)

    @property
    def depends_on_turns_only(self) -> bool:
        """Whether what it can change grows with a new turn only: what is kept goes by turns, and it clears or truncates
        what is older.
        """
        keep, counted = self.keep.model_fields_set, {"turns", "first", "result_tokens", "every", "count"}
        counted |= {"results"} if self.keep.count == "eligible" else set()
        return not self.removes_messages and "turns" in keep and keep <= counted and self.select.older_than is None

    @property
    def removes_messages(self) -> bool:
        """Whether messages go, so that nothing runs after it."""
        return self.drop is not None or self.summarise is not None


class PolicyRule(Part):
    """A rule that is a policy there is already, with other defaults for some of its parameters."""

    policy: str
    params: dict[str, Any] = {}


def _find_rule_tag(value: Any) -> str:
    return "policy" if isinstance(value, PolicyRule) or (isinstance(value, Mapping) and "policy" in value) else "parts"


class PolicySpec(Part):
    """A policy: its name, one line about it, and its rules.

    Without rules it does nothing. ``phases`` say when its runtime looks, ``source`` and ``version`` where its rules are
    described and of what, ``limits`` what they leave out, a sentence each.
    """

    name: str
    about: str = Field(min_length=1, max_length=200)
    runtime: str = ""
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
