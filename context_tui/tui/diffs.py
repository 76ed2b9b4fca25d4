"""What an editing tool's call would change, as lines with their marks: + added, - removed, blank unchanged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import unified_diff
from typing import Any, NamedTuple

MAX_DIFF_LINES = 2_000
"""Lines up to which two texts are compared; beyond, all old ones are removed and all new ones added."""

_OLD_TEXT_KEYS = ("old_string", "old_str", "oldText", "old_text", "search")
_NEW_TEXT_KEYS = ("new_string", "new_str", "newText", "new_text", "replace")


class DiffLine(NamedTuple):
    """A line with its mark."""

    mark: str
    text: str


def find_edits(arguments: Any) -> list[tuple[str, str]]:
    """The (old, new) texts of an edit; empty when the call edits nothing."""
    if not isinstance(arguments, Mapping):
        return []
    several = arguments.get("edits")
    if isinstance(several, list):
        return [pair for each in several for pair in find_edits(each)]
    new = _get_first_text(arguments, _NEW_TEXT_KEYS)
    return [] if new is None else [(_get_first_text(arguments, _OLD_TEXT_KEYS) or "", new)]


def find_written_text(name: str, arguments: Any) -> str | None:
    """The text that a call writes to a file as a whole; None when it does no such thing."""
    if name.lower() in ("write", "write_file", "create_file", "writefile") and isinstance(arguments, Mapping):
        return _get_first_text(arguments, ("content", "file_text", "contents"))
    return None


def find_patch(arguments: Any) -> str | None:
    """The patch in a call's arguments (``*** Begin Patch``, as apply_patch takes them); None without one."""
    if isinstance(arguments, Mapping):
        arguments = next((v for v in arguments.values() if isinstance(v, str) and "*** Begin Patch" in v[:2_000]), None)
    return arguments if isinstance(arguments, str) and "*** Begin Patch" in arguments[:2_000] else None


def _get_first_text(arguments: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    return next((arguments[name] for name in names if isinstance(arguments.get(name), str)), None)


def compute_diff(old: str, new: str) -> Iterator[DiffLine]:
    """The lines of a change, with three around it."""
    before, after = old.split("\n") if old else [], new.split("\n") if new else []
    if len(before) + len(after) > MAX_DIFF_LINES or not before or not after:
        yield from (DiffLine("-", line) for line in before)
        yield from (DiffLine("+", line) for line in after)
        return
    for number, line in enumerate(unified_diff(before, after, lineterm="", n=3)):
        if number >= 2:  # the first two name files, which there are none of
            yield DiffLine("@", "") if line.startswith("@@") else DiffLine(line[:1], line[1:])


def parse_patch(patch: str) -> Iterator[DiffLine]:
    """The lines of a patch with their own marks."""
    for line in patch.split("\n"):
        if line[:1] in ("+", "-") and not line.startswith(("+++", "---")):
            yield DiffLine(line[0], line[1:])
        else:
            yield DiffLine(" ", line)
