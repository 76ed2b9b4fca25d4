"""What is built in and what installed packages add to it, by name, each imported when it is first asked for.

A package adds a format or a policy by an entry point: its name, and the class that is called without arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Broken(NamedTuple):
    """An entry point that gives nothing: its name, the package it is of, and why, in words."""

    name: str
    package: str
    why: str

    def __str__(self) -> str:
        return f"{self.name!r} of the package {self.package} cannot be used: {self.why}"


class Plugins(Mapping[str, T], Generic[T]):
    """By name: the built-in ones in their order, then what entry points add, in the order of their names.

    A built-in one is imported when it is asked for; entry points are loaded together, when anything else is. One that
    cannot be loaded is left out and listed in ``broken``; none can take the place of another.
    """

    def __init__(self, group: str, built_in: Mapping[str, str], trouble: Callable[[object], str]) -> None:
        """Take the *group* of the entry points, and ``module:Class`` of what is built in.

        Args:
            trouble: what is wrong with an object that an entry point gave, in words; empty where it will do.
        """
        self.group, self.built_in, self._trouble = group, built_in, trouble
        self._made: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        if name not in self.built_in:
            return self._added[0][name]
        if name not in self._made:
            self._made[name] = EntryPoint(name, self.built_in[name], self.group).load()()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter((*self.built_in, *self._added[0]))

    def __len__(self) -> int:
        return len(self.built_in) + len(self._added[0])

    def __contains__(self, name: object) -> bool:
        return name in self.built_in or name in self._added[0]

    @property
    def broken(self) -> list[Broken]:
        """The entry points that were left out."""
        return self._added[1]

    @cached_property
    def _added(self) -> tuple[dict[str, T], list[Broken]]:
        added: dict[str, T] = {}
        broken: list[Broken] = []
        for entry in sorted(entry_points(group=self.group), key=lambda entry: entry.name):
            package = entry.dist.name if entry.dist else "?"
            if entry.name in self.built_in or entry.name in added:
                broken.append(Broken(entry.name, package, "there is one of this name already"))
                continue
            try:
                made = entry.load()()
            except Exception as error:  # whatever a stranger's module does when it is imported
                broken.append(Broken(entry.name, package, " ".join(f"{type(error).__name__}: {error}".split())[:200]))
                continue
            if why := self._trouble(made):
                broken.append(Broken(entry.name, package, why))
            else:
                added[entry.name] = made
        return added, broken
