"""What is built in and what installed packages add to it, by name, each imported when it is first asked for.

A package adds a format or a policy by an entry point: a name, and the class that makes it. What is broken is told, not
raised.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from logging import getLogger
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from context_tui.sanitize import sanitize_line

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")


@dataclass(frozen=True)
class Broken:
    """An entry point that is not used: its name, the package that declares it, and why, in one line."""

    name: str
    package: str
    why: str

    def __str__(self) -> str:
        return sanitize_line(f"{self.name} of package {self.package} is not used: {self.why}")


class Plugins(Mapping[str, T], Generic[T]):
    """By name: the built-in ones in their order, then what entry points add, in the order of their names.

    A built-in one is imported when it is asked for; entry points are loaded together, when anything else is. No package
    can take the place of a built-in one, or of another's.
    """

    def __init__(
        self,
        noun: str,
        group: str,
        built_in: Mapping[str, str],
        wrong_with: Callable[[str, Any], str],
        guard: Callable[[T], T] = lambda made: made,
    ) -> None:
        """Take the *group* of the entry points, and ``module:Class`` of what is built in.

        Args:
            noun: what they are, in words.
            wrong_with: what keeps what was loaded under a name from being used, in words; empty when nothing does.
            guard: what is put around one of another package.
        """
        self.group, self.built_in = group, built_in
        self._noun, self._wrong_with, self._guard = noun, wrong_with, guard
        self._made: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        if name not in self.built_in:
            return self._added[0][name]
        if name not in self._made:
            module, _, kind = self.built_in[name].partition(":")
            self._made[name] = getattr(import_module(module), kind)()
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self.built_in or name in self._added[0]

    def __iter__(self) -> Iterator[str]:
        yield from self.built_in
        yield from self._added[0]

    def __len__(self) -> int:
        return len(self.built_in) + len(self._added[0])

    @property
    def broken(self) -> list[Broken]:
        """What packages declare and cannot be used; told on stderr once."""
        return self._added[1]

    @cached_property
    def _added(self) -> tuple[dict[str, T], list[Broken]]:
        from importlib.metadata import entry_points  # 30 ms, which is for who asks

        found: dict[str, T] = {}
        broken: list[Broken] = []
        for each in sorted(entry_points(group=self.group), key=lambda each: (each.name, _package(each))):
            if each.name in self.built_in:
                why = "a built-in one has the same name"
            elif each.name in found:
                why = "another package has the same name"
            else:
                try:
                    with redirect_stdout(sys.stderr):  # what it prints is no data of ours
                        made = each.load()()
                        why = self._wrong_with(each.name, made)
                    if not why:
                        found[each.name] = self._guard(made)
                except (Exception, SystemExit) as error:  # whatever a stranger's module does when it is imported
                    why = f"{type(error).__name__}: {error}"
            if why:
                broken.append(Broken(each.name, _package(each), why))
        for one in broken:
            getLogger(__name__).warning("%s %s", self._noun, one)  # on stderr, where nobody has said otherwise
        return found, broken


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else "?"
