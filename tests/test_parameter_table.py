"""Every parameter of every policy and part with its default, bounds and unit, as published; and all constants and
defaults of the pure layers.

After an intended change: ``python -m tests.test_parameter_table`` writes ``data/parameters.json`` anew.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from context_tui.policies.base import get_bounds
from context_tui.policies.parts.part import Part
from context_tui.policies.parts.rules import PolicySpec
from context_tui.policies.registry import POLICIES

LIMITS = {"Ge", "Gt", "Le", "Lt", "MaxLen", "MinLen"}
FOLDERS = ("policies", "compaction", "lab/replay", "lab/price", "lab/regret", "tokens", "session")
PLAIN = (int, float, str, bytes, tuple, frozenset, set, dict, re.Pattern, type(None))
TABLE = Path(__file__).parent / "data" / "parameters.json"


def _list_parts(part: type[Part]) -> Iterator[type[Part]]:
    for child in part.__subclasses__():
        if child.__module__.startswith("context_tui."):
            yield from (child, *_list_parts(child))


def build_table() -> dict[str, dict[str, list[Any]]]:
    """The default, bounds and unit of each field, and what each policy is run at."""
    parts = [*_list_parts(Part)]
    assert PolicySpec in parts
    models: dict[str, type[BaseModel]] = {f"part {part.__name__}": part for part in parts}
    models |= {f"policy {name}": policy.Params for name, policy in POLICIES.items()}
    table = {}
    for name, model in sorted(models.items()):
        rows = {}
        for key, field in model.model_fields.items():
            extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
            limits = [repr(each) for each in field.metadata if type(each).__name__ in LIMITS]
            rows[key] = [repr(field.default), *get_bounds(field), extra.get("unit"), *sorted(map(str, extra)), *limits]
        table[name] = rows
    return table | list_values()


def _show(value: Any) -> str:
    """A constant as text, or its hash if that is long."""
    if isinstance(value, set | frozenset):
        text = f"{{{', '.join(sorted(map(_show, value)))}}}"
    elif isinstance(value, dict):
        text = f"{{{', '.join(f'{_show(key)}: {_show(each)}' for key, each in value.items())}}}"
    elif isinstance(value, tuple):
        text = f"({', '.join(map(_show, value))})"
    elif isinstance(value, re.Pattern):
        text = f"{value.pattern!r} {value.flags}"
    else:
        is_shown = isinstance(value, PLAIN) or type(value).__name__ in LIMITS
        text = repr(value) if is_shown else type(value).__name__
    return text if len(text) <= 120 else sha256(text.encode()).hexdigest()[:12]


def _list_defaults(module: str, owner: Any) -> Iterator[tuple[str, Any]]:
    """The constants of a module or class, and the defaults of its members and functions."""
    for name, value in sorted(vars(owner).items()):
        if name.startswith("__") or name == "model_fields":
            continue
        inner = getattr(value, "__func__", getattr(value, "__wrapped__", value))
        if isinstance(value, type):
            if value.__module__ == module and owner is not value:
                yield from ((f"{name}.{key}", each) for key, each in _list_defaults(module, value))
        elif inspect.isfunction(inner) and inner.__module__ == module:
            for key, parameter in inspect.signature(inner).parameters.items():
                if parameter.default is not parameter.empty:
                    yield f"{name}({key})", parameter.default
        elif isinstance(value, PLAIN) and not isinstance(value, Enum):
            yield name, value
    if isinstance(owner, type):
        yield from getattr(owner, "_field_defaults", {}).items()
        members = fields(owner) if is_dataclass(owner) else ()
        yield from ((each.name, each.default) for each in members if each.default is not MISSING)
        if issubclass(owner, BaseModel):
            yield from ((key, (field.default, *field.metadata)) for key, field in owner.model_fields.items())
        if issubclass(owner, Enum):
            yield from ((name, member.value) for name, member in owner.__members__.items())


def list_values() -> dict[str, dict[str, list[Any]]]:
    """The constants and defaults of each module of the pure layers that are written in it."""
    root, tables = Path(__file__).parents[1], dict[str, dict[str, list[Any]]]()
    for path in sorted(path for folder in FOLDERS for path in (root / "context_tui" / folder).rglob("*.py")):
        name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        text, rows = path.read_text("utf-8"), dict[str, list[Any]]()
        words = frozenset(re.findall(r"\w+", text))
        for key, value in _list_defaults(name, importlib.import_module(name)):
            if words.issuperset(re.findall(r"\w+", key)):
                rows[key] = [_show(value)]
        if rows:
            tables[f"module {name}"] = rows
    return tables


@pytest.fixture(scope="module")
def table() -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(json.dumps(build_table()))
    return answer


@pytest.mark.parametrize("name", json.loads(TABLE.read_text("utf-8")))
def test_parameters_are_as_published(name: str, table: dict[str, Any]) -> None:
    assert table[name] == json.loads(TABLE.read_text("utf-8"))[name]


def test_every_parameter_is_in_the_table(table: dict[str, Any]) -> None:
    assert {*table} == {*json.loads(TABLE.read_text("utf-8"))}


if __name__ == "__main__":
    lines = [
        f" {json.dumps(name)}: {{\n"
        + ",\n".join(f"  {json.dumps(key)}: {json.dumps(row)}" for key, row in rows.items())
        + "\n }"
        for name, rows in build_table().items()
    ]
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
