"""Base of the parts of a rule: a frozen model without unknown keys, whose numbers and lists can be parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from typing import Any, ClassVar, NamedTuple, get_args

from pydantic import BaseModel, ConfigDict
from pydantic.fields import FieldInfo

SettingPath = tuple[str | int, ...]
"""Path of a value in a part: keys, and numbers of elements in a list of parts."""


class Part(BaseModel):
    """Part of a rule. A field made by ``policies.base.param`` is a parameter, with this prefix, if the file sets it."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    prefix: ClassVar[str] = ""


class RuleSetting(NamedTuple):
    """Value of a rule that is a parameter: name of the parameter, path of the value, its field, and the value."""

    name: str
    path: SettingPath
    field: FieldInfo
    value: Any


def iterate_settings(part: Part, path: SettingPath = ()) -> Iterator[RuleSetting]:
    """Yield the parameters of a part and of its nested parts, in the order of their fields."""
    for key, field in type(part).model_fields.items():
        value = getattr(part, key)
        if isinstance(value, Part):
            yield from iterate_settings(value, (*path, key))
        elif isinstance(value, tuple) and value and isinstance(value[0], Part):
            for number, element in enumerate(value):
                yield from iterate_settings(element, (*path, key, number))
        elif key in part.model_fields_set and isinstance(field.json_schema_extra, dict):
            yield RuleSetting("_".join(filter(None, (part.prefix, key))), (*path, key), field, value)


def build_parameter_field(setting: RuleSetting) -> tuple[Any, FieldInfo]:
    """Return the type and field of a parameter, which cannot be None because the rule sets it."""
    field = copy(setting.field)
    field.default = setting.value
    kinds = [kind for kind in get_args(field.annotation) if kind is not type(None)]
    optional = type(None) in get_args(field.annotation)
    return (kinds[0] if optional else field.annotation), field


def replace_values(part: Part, values: Mapping[SettingPath, Any]) -> Part:
    """Return the part with other values at these paths, which must be valid."""
    update: dict[str, Any] = {}
    inner: dict[str, dict[SettingPath, Any]] = {}
    for (key, *rest), value in values.items():
        if rest:
            inner.setdefault(str(key), {})[tuple(rest)] = value
        else:
            update[str(key)] = value
    for key, nested_values in inner.items():
        nested = getattr(part, key)
        replace_nested = replace_values if isinstance(nested, Part) else _replace_elements
        update[key] = replace_nested(nested, nested_values)
    return part.model_copy(update=update)


def _replace_elements(parts: tuple[Part, ...], values: Mapping[SettingPath, Any]) -> tuple[Part, ...]:
    by_number: dict[int | str, dict[SettingPath, Any]] = {}
    for (number, *rest), value in values.items():
        by_number.setdefault(number, {})[tuple(rest)] = value
    return tuple(replace_values(part, by_number.get(number, {})) for number, part in enumerate(parts))
