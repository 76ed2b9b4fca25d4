"""What other packages add by entry points: loaded when it is asked for, and what is broken is told, not raised."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from context_tui.sanitize import sanitize_line

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


@dataclass(frozen=True)
class Broken:
    """An entry point that is not used: its name, the package that declares it, and why, in one line."""

    name: str
    package: str
    why: str

    def __str__(self) -> str:
        return sanitize_line(f"{self.name} of package {self.package} is not used: {self.why}")


def load(
    group: str, taken: Collection[str] = (), check: Callable[[str, Any], str] = lambda name, value: ""
) -> tuple[dict[str, Any], list[Broken]]:
    """Everything that installed packages declare in an entry point group; a class is instantiated.

    Args:
        taken: names that no package can have, as they are built in.
        check: what is wrong with a value that was loaded under a name, in words; empty when it can be used.

    Returns:
        What was loaded by name, in the order of names, and what could not be used.
    """
    from importlib.metadata import entry_points  # 30 ms, which is for who asks

    found: dict[str, Any] = {}
    broken: list[Broken] = []
    for each in sorted(entry_points(group=group), key=lambda each: (each.name, _package(each))):
        why = ""
        if each.name in taken:
            why = "the name is that of a built-in one"
        elif each.name in found:
            why = "another package has this name too"
        else:
            try:
                with redirect_stdout(sys.stderr):  # what it prints is no data of ours
                    value = each.load()
                    value = value() if isinstance(value, type) else value
                    why = check(each.name, value)
                if not why:
                    found[each.name] = value
            except (Exception, SystemExit) as error:  # whatever a stranger's module does when it is imported
                why = f"{type(error).__name__}: {error}"
        if why:
            broken.append(Broken(each.name, _package(each), why))
    return found, broken


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else "?"
