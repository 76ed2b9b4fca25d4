"""Base model for the parts of a rule, whose numbers and lists can be exposed as parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from typing import Any, ClassVar, NamedTuple, get_args

from pydantic import BaseModel, ConfigDict
from pydantic.fields import FieldInfo

SettingPath = tuple[str | int, ...]
"""Path of a value in a part: keys, and numbers of elements in a list of parts."""


class Part(BaseModel):
    """Base class for the parts of a rule.

    A field declared with ``policies.base.param`` becomes a parameter, named with this prefix, if the policy's file sets
    it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    prefix: ClassVar[str] = ""


class RuleSetting(NamedTuple):
    """A value in a rule that is exposed as a parameter: the parameter's name, the path to the value, and its field."""

    name: str
    path: SettingPath
    field: FieldInfo
    value: Any


def iterate_settings(part: Part, path: SettingPath = ()) -> Iterator[RuleSetting]:
    """Yield the settings in a part and its nested parts that are exposed as parameters, in field order."""
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
    """Return the type and the field of a parameter; the default is the value in the rule, so None is not allowed."""
    field = copy(setting.field)
    field.default = setting.value
    kinds = [kind for kind in get_args(field.annotation) if kind is not type(None)]
    optional = type(None) in get_args(field.annotation)
    return (kinds[0] if optional else field.annotation), field


def replace_values(part: Part, values: Mapping[SettingPath, Any]) -> Part:
    """Return a copy of the part with the values at these paths replaced; the values are not validated."""
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
