"""What is built in and what packages and files add to it, by name, each imported when it is first asked for.

A package adds a format or a policy by an entry point: a name, and the class that makes it. What is broken is told, not
raised.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from logging import getLogger
from threading import RLock
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from context_tui.errors import Error
from context_tui.text.sanitize import sanitize_line

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")
_importing = RLock()
"""Held by who imports: where one thread imports a package and another a part of it, Python has one of them fail."""


@dataclass(frozen=True)
class Broken:
    """An entry point or file that is not used: its name, the package that declares it (none for a file), and why, in
    one line.
    """

    name: str
    package: str
    why: str

    def __str__(self) -> str:
        package = f" of package {self.package}" if self.package else ""
        return sanitize_line(f"{self.name}{package} is not used: {self.why}")


Found = tuple[str, Callable[[], T]]
"""Something that a file adds: where it is from, and what makes it."""


class Plugins(Mapping[str, T], Generic[T]):
    """By name: the built-in ones in their order, then what entry points add, in the order of their names, then files.

    A built-in one is imported when it is asked for; the others are loaded together, when anything else is. None can
    take the place of a built-in one, or of another's.
    """

    def __init__(
        self,
        noun: str,
        group: str,
        built_in: Mapping[str, str | Callable[[str], T]],
        wrong_with: Callable[[str, Any], str],
        guard: Callable[[T], T] = lambda made: made,
        make: Callable[[Any], Any] = lambda loaded: loaded(),
        in_files: Callable[[], Iterable[Found[T]]] = lambda: (),
    ) -> None:
        """Take the *group* of the entry points, and of what is built in ``module:Class``, or what makes it by its name.

        Args:
            noun: what they are, in words.
            wrong_with: what keeps what was loaded under a name from being used, in words; empty when nothing does.
            guard: what is put around one of another package.
            make: what makes one of what an entry point loads.
            in_files: what files add.
        """
        self.group, self.built_in = group, built_in
        self._noun, self._wrong_with, self._guard, self._make, self._in_files = noun, wrong_with, guard, make, in_files
        self._made: dict[str, T] = {}
        self._origins: dict[str, str] = {}

    def __getitem__(self, name: str) -> T:
        if name not in self.built_in:
            return self._added[0][name]
        if name not in self._made:
            with _importing:
                if name not in self._made:  # by another thread meanwhile
                    maker = self.built_in[name]
                    self._made[name] = _imported(maker) if isinstance(maker, str) else maker(name)
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self.built_in or name in self._added[0]

    def __iter__(self) -> Iterator[str]:
        yield from self.built_in
        yield from self._added[0]

    def __len__(self) -> int:
        return len(self.built_in) + len(self._added[0])

    def origin(self, name: str) -> str:
        """Where one is from: ``built in``, ``package NAME``, or the path of a file."""
        return "built in" if name in self.built_in else self._origins.get(name, "")

    def add(self, made: T, name: str, origin: str) -> str:
        """Take one more for as long as the process lives.

        Returns:
            What keeps it from being used, in words; empty when nothing does.
        """
        if name in self.built_in:
            return f"{name} is built in; give it another name"
        self._added[0][name] = made
        self._origins[name] = origin
        return ""

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
                    with _importing, redirect_stdout(sys.stderr):  # what it prints is no data of ours
                        made = self._make(each.load())
                        why = self._wrong_with(each.name, made)
                    if not why:
                        found[each.name] = self._guard(made)
                        self._origins[each.name] = f"package {_package(each)}"
                except (Exception, SystemExit) as error:  # whatever a stranger's module does when it is imported
                    why = _reason(error)
            if why:
                broken.append(Broken(each.name, _package(each), why))
        self._take_files(found, broken)
        for one in broken:
            getLogger(__name__).warning("%s %s", self._noun, one)  # on stderr, where nobody has said otherwise
        return found, broken

    def _take_files(self, found: dict[str, T], broken: list[Broken]) -> None:
        """Take what files add, but for names that are taken."""
        for origin, make in self._in_files():
            try:
                made = make()
                name = str(getattr(made, "name", ""))
                taken = "built in" if name in self.built_in else self._origins.get(name, "")
                why = f"the name {name} is taken: {taken}" if taken else self._wrong_with(name, made)
                if not why:
                    found[name], self._origins[name] = made, origin
            except Exception as error:
                why = _reason(error)
            if why:
                broken.append(Broken(origin, "", why.removeprefix(f"{origin}:").removeprefix(" ")))


def _imported(named: str) -> Any:
    module, _, kind = named.partition(":")
    return getattr(import_module(module), kind)()


def _reason(error: BaseException) -> str:
    """Why something is not used, in words."""
    return str(error) if isinstance(error, Error) else f"{type(error).__name__}: {error}"


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else "?"
