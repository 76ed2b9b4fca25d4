"""Values of the pure layers: what is made once does not change."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from pathlib import Path
from typing import Any

import pytest

import context_tui

LAYERS = ("session", "tokens", "compaction", "policies", "lab")
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


def find_dataclasses() -> list[Any]:
    """Every dataclass that a module of the pure layers defines."""
    classes = []
    for layer in LAYERS:
        folder = str(Path(context_tui.__file__).with_name(layer))
        names = [f"context_tui.{layer}", *(m.name for m in pkgutil.walk_packages([folder], f"context_tui.{layer}."))]
        for module in map(importlib.import_module, names):
            values = [each for each in vars(module).values() if isinstance(each, type)]
            classes += [
                each for each in values if dataclasses.is_dataclass(each) and each.__module__ == module.__name__
            ]
    return classes


@pytest.mark.parametrize("cls", find_dataclasses(), ids=lambda cls: cls.__qualname__)
def test_values_do_not_change(cls: Any) -> None:
    params = cls.__dataclass_params__
    assert params.frozen != (cls.__name__ in MUTABLE)
    assert params.eq != (cls.__name__ in SAME_ONLY)
    assert ("__slots__" in vars(cls)) == (cls.__name__ in SLOTTED)
