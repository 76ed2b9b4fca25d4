"""Base model for the parts of a rule, whose numbers and lists can be exposed as parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from typing import Any, ClassVar, NamedTuple, TypeVar, get_args

from pydantic import BaseModel, ConfigDict
from pydantic.fields import FieldInfo

SettingPath = tuple[str | int, ...]
"""Path of a value in a part: keys, and numbers of elements in a list of parts."""


class Part(BaseModel):
    """Base class for the parts of a rule.

    A field declared with ``policies.base.param`` becomes a parameter, with ``prefix`` in its name, if the policy's file
    sets it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    prefix: ClassVar[str] = ""


P = TypeVar("P", bound=Part)


class RuleSetting(NamedTuple):
    """A value in a rule that is exposed as a parameter: the parameter's name, the path to the value, and its field.

    The default of the field is the value in the rule.
    """

    name: str
    path: SettingPath
    field: FieldInfo


def iterate_settings(part: Part, path: SettingPath = ()) -> Iterator[RuleSetting]:
    """Yield the settings in a part and its nested parts that are exposed as parameters, in field order."""
    for key, field in type(part).model_fields.items():
        if isinstance(value := getattr(part, key), Part):
            yield from iterate_settings(value, (*path, key))
        elif isinstance(value, tuple) and value and isinstance(value[0], Part):
            for number, element in enumerate(value):
                yield from iterate_settings(element, (*path, key, number))
        elif key in part.model_fields_set and isinstance(field.json_schema_extra, dict):
            field, kinds = copy_field(field, value), get_args(field.annotation)
            if type(None) in kinds:  # not allowed, as the rule sets a value
                field.annotation = next(kind for kind in kinds if kind is not type(None))
            yield RuleSetting("_".join(filter(None, (part.prefix, key))), (*path, key), field)


def copy_field(field: FieldInfo, default: Any) -> FieldInfo:
    """Return a copy of a field with another default."""
    field = copy(field)
    field.default = default
    return field


def replace_values(part: P, values: Mapping[SettingPath, Any]) -> P:
    """Return a copy of the part with the values at these paths replaced."""
    fields: Any = part.model_dump(exclude_unset=True)
    for (*keys, last), value in values.items():
        inner = fields
        for key in keys:
            inner = inner[key]
        inner[last] = value
    return part.model_validate(fields)
