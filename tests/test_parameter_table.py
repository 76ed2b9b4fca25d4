"""Every parameter of every policy and part with its default, bounds and unit, as published.

After an intended change: ``python -m tests.test_parameter_table`` writes ``data/parameters.json`` anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from context_tui.policies.base import get_bounds
from context_tui.policies.parts.part import Part
from context_tui.policies.parts.rules import PolicySpec
from context_tui.policies.registry import POLICIES

LIMITS = {"Ge", "Gt", "Le", "Lt", "MaxLen", "MinLen"}
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
    return table


@pytest.mark.parametrize("name", json.loads(TABLE.read_text("utf-8")))
def test_parameters_are_as_published(name: str) -> None:
    assert json.loads(json.dumps(build_table()[name])) == json.loads(TABLE.read_text("utf-8"))[name]


def test_every_parameter_is_in_the_table() -> None:
    assert {*build_table()} == {*json.loads(TABLE.read_text("utf-8"))}


if __name__ == "__main__":
    lines = [
        f" {json.dumps(name)}: {{\n"
        + ",\n".join(f"  {json.dumps(key)}: {json.dumps(row)}" for key, row in rows.items())
        + "\n }"
        for name, rows in build_table().items()
    ]
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
