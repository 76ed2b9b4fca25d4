"""Values of the pure layers: what is made once does not change, and limits change on purpose only.

After an intended change of a limit, ``python -m tests.test_values`` writes ``data/limits.json`` anew.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import context_tui

LAYERS = ("session", "tokens", "compaction", "policies", "lab")
LIMITS = Path(__file__).parent / "data" / "limits.json"
MUTABLE = {
    *("ContentTokens", "DropSearch", "KeepReasons", "PeakSearch", "RemainingContext", "RuntimeState"),
    *("_CacheEntry", "_CachedBeginning", "_NeedleRows", "_PendingFiring"),
    *("Compaction", "Context", "Firing", "Plan", "Trigger"),  # caches, and what is known later
}
SAME_ONLY = {"Context", "Plan", "RecordedCompaction", "Replay", "Session", "TokenTable", "UseIndex"}
"""Classes whose values are equal only to themselves: a comparison would read everything."""
SLOTTED = {
    *("Body", "Branch", "Compaction", "Drop", "DropSearch", "Epoch", "PeakSearch", "Problem", "Prompt", "_CacheEntry"),
}
MEMOIZED = {
    *("_categorize", "_count_json_prefix", "_estimate_content", "_find_first_summary", "_find_references"),
    *("_group_sizes_by_tool", "_list_tool_entries", "_load_counter", "_load_price_table", "_measure_largest_result"),
    *("build_clear_change", "count_marker_bytes", "count_requests_before", "count_rows", "find_clearable_results"),
    *("find_open_calls", "find_prunable_results", "find_removed_blocks", "find_uncleared_results", "index_context"),
}
"""Functions that compute a result once for the same arguments; a timeline or a sweep calls them thousands of times."""


def find_modules() -> Iterator[ModuleType]:
    """Every module of the pure layers."""
    for layer in LAYERS:
        folder = str(Path(context_tui.__file__).with_name(layer))
        names = (module.name for module in pkgutil.walk_packages([folder], f"context_tui.{layer}."))
        yield from map(importlib.import_module, (f"context_tui.{layer}", *names))


def find_dataclasses() -> list[Any]:
    """Every dataclass that a module of the pure layers defines."""
    classes: list[Any] = []
    for module in find_modules():
        own = [each for each in vars(module).values() if getattr(each, "__module__", "") == module.__name__]
        classes += [each for each in own if isinstance(each, type) and dataclasses.is_dataclass(each)]
    return classes


def find_limits(module: ModuleType) -> dict[str, Any]:
    """The named numbers of a module, tuples and tables of them, and the bits of its flags."""
    assigned = re.findall(
        r"^([A-Z_0-9, ]+)(?::[^=\n]+)?= ", Path(str(module.__file__)).read_text("utf-8"), re.MULTILINE
    )
    names = {name.strip() for group in assigned for name in group.split(",")}
    values = {name: value for name, value in vars(module).items() if name in names}
    for key, value in vars(module).items():
        if key.endswith("Flag") and isinstance(value, type) and value.__module__ == module.__name__:
            values |= {f"{key}.{name}": bit for name, bit in vars(value).items() if name.isupper()}
    plain = {name: _find_numbers(value) for name, value in values.items()}
    return {name: value for name, value in plain.items() if value not in (None, [], {})}


def _find_numbers(value: Any) -> Any:
    if isinstance(value, int | float):
        return value
    if isinstance(value, tuple):
        return [each for each in map(_find_numbers, value) if each is not None]
    if isinstance(value, dict):
        numbers = {str(key): _find_numbers(each) for key, each in value.items()}
        return {key: each for key, each in numbers.items() if each not in (None, [], {})}
    return None


def build_table() -> dict[str, dict[str, Any]]:
    """The limits of every module that has some."""
    return {module.__name__: limits for module in find_modules() if (limits := find_limits(module))}


@pytest.mark.parametrize("cls", find_dataclasses(), ids=lambda cls: cls.__qualname__)
def test_values_do_not_change(cls: Any) -> None:
    params = cls.__dataclass_params__
    assert params.frozen != (cls.__name__ in MUTABLE)
    assert params.eq != (cls.__name__ in SAME_ONLY)
    assert ("__slots__" in vars(cls)) == (cls.__name__ in SLOTTED)


def test_what_is_asked_often_is_computed_once() -> None:
    values = [(module.__name__, value) for module in find_modules() for value in vars(module).values()]
    own = [value for name, value in values if getattr(value, "__module__", "") == name]
    assert {value.__name__ for value in own if hasattr(value, "__wrapped__")} == MEMOIZED


def test_limits_are_as_decided() -> None:
    assert json.loads(json.dumps(build_table())) == json.loads(LIMITS.read_text("utf-8"))


if __name__ == "__main__":
    lines = [
        f' "{module}": {{\n' + ",\n".join(f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in table.items())
        for module, table in build_table().items()
    ]
    LIMITS.write_text("{\n" + "\n },\n".join(lines) + "\n }\n}\n", "utf-8")
