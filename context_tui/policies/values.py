"""Values of parameters as text, there and back: what ``-p`` takes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from context_tui.errors import PlanError


def pairs(texts: Iterable[str]) -> dict[str, str]:
    """``KEY=VALUE`` texts as a dictionary.

    Raises:
        PlanError: one has no ``=``.
    """
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise PlanError(f"parameter {text!r}: write KEY=VALUE")
        found[key.strip()] = value.strip()
    return found


def assignments(values: Mapping[str, Any]) -> list[str]:
    """The ``KEY=VALUE`` texts of values; the options of a chain are ``POLICY.KEY=VALUE``."""
    found = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            found += [f"{owner}.{each}" for owner, options in value.items() for each in assignments(options)]
        else:
            found.append(f"{key}={setting(value)}")
    return found


def setting(value: Any) -> str:
    """A value as text: a list with commas, or as JSON where :func:`names` would read these as another list."""
    if not isinstance(value, list | tuple):
        return str(value)
    items = tuple(":".join(map(str, each)) if isinstance(each, list | tuple) else str(each) for each in value)
    text = ",".join(items)
    return text if names(text) == items and text.isprintable() else json.dumps(items)


def names(value: Any) -> Any:
    """A list from text: names with commas between them, or a JSON list; what is no text is left to be validated."""
    if not isinstance(value, str):
        return value
    try:
        listed = json.loads(value) if value.startswith("[") else None
    except (ValueError, RecursionError):
        listed = None
    if isinstance(listed, list):
        return tuple(listed)
    return tuple(name.strip() for name in value.split(",") if name.strip())
