"""Values that are made by the thousand: a type checker holds them to be frozen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value_class(*, eq: bool = True) -> Callable[[type[T]], type[T]]:
    """A dataclass that is not to be changed; without *eq* one is equal to itself only.

    ``frozen=True`` would have each field of a new one set by a call: a seventh of what a replay takes.
    """
    return dataclass(eq=eq, unsafe_hash=eq)
