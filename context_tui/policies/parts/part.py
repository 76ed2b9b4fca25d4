"""Base of every part: a frozen model that refuses unknown keys, whose numbers and lists can be parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from typing import Any, ClassVar, NamedTuple, get_args

from pydantic import BaseModel, ConfigDict
from pydantic.fields import FieldInfo

SettingPath = tuple[str | int, ...]
"""Where a value stands in a part: keys, and numbers of elements of a list of parts."""


class Part(BaseModel):
    """A part of a rule. Fields made by ``policies.base.param`` become parameters where the file sets them.

    Attributes:
        prefix: what the names of its parameters begin with.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    prefix: ClassVar[str] = ""


class RuleSetting(NamedTuple):
    """A value of a rule that can be set: the parameter's name, where the value stands, and what it may be."""

    name: str
    path: SettingPath
    field: FieldInfo
    value: Any


def iterate_settings(part: Part, path: SettingPath = ()) -> Iterator[RuleSetting]:
    """Yield the values set in a part and in the parts within it, in the order of their fields."""
    for key, field in type(part).model_fields.items():
        value = getattr(part, key)
        if isinstance(value, Part):
            yield from iterate_settings(value, (*path, key))
        elif isinstance(value, tuple) and value and isinstance(value[0], Part):
            for number, each in enumerate(value):
                yield from iterate_settings(each, (*path, key, number))
        elif key in part.model_fields_set and isinstance(field.json_schema_extra, dict):
            yield RuleSetting("_".join(filter(None, (part.prefix, key))), (*path, key), field, value)


def build_parameter_field(setting: RuleSetting) -> tuple[Any, FieldInfo]:
    """Type and field of the parameter that a value becomes; a value that is set cannot be taken away."""
    field = copy(setting.field)
    field.default = setting.value
    kinds = [kind for kind in get_args(field.annotation) if kind is not type(None)]
    optional = type(None) in get_args(field.annotation)
    return (kinds[0] if optional else field.annotation), field


def replace_values(part: Part, values: Mapping[SettingPath, Any]) -> Part:
    """Return the part with other values at these places, which are valid already."""
    update: dict[str, Any] = {}
    inner: dict[str, dict[SettingPath, Any]] = {}
    for (key, *rest), value in values.items():
        if rest:
            inner.setdefault(str(key), {})[tuple(rest)] = value
        else:
            update[str(key)] = value
    for key, below in inner.items():
        now = getattr(part, key)
        update[key] = replace_values(now, below) if isinstance(now, Part) else _replace_elements(now, below)
    return part.model_copy(update=update)


def _replace_elements(parts: tuple[Part, ...], values: Mapping[SettingPath, Any]) -> tuple[Part, ...]:
    of_each: dict[int | str, dict[SettingPath, Any]] = {}
    for (number, *rest), value in values.items():
        of_each.setdefault(number, {})[tuple(rest)] = value
    return tuple(replace_values(part, of_each.get(number, {})) for number, part in enumerate(parts))
