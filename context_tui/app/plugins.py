"""Registry of built-in objects, imported on first use, and of plug-ins from packages and files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext, redirect_stdout
from functools import cached_property, partial
from importlib import import_module
from logging import getLogger
from pathlib import Path
from threading import RLock, Thread, local
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, ParamSpec, TypeVar

from context_tui.errors import Error, shorten_message
from context_tui.text.files import read_toml
from context_tui.text.sanitize import sanitize_line, truncate_name

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")
_IMPORT_LOCK = RLock()
"""Held during imports: Python fails when one thread imports a package while another imports a submodule of it."""
LOADING_SECONDS = 10.0
"""Maximum time to load a plug-in of a package, in seconds."""
_this_thread = local()
"""Thread-local state; ``is_loading`` is set in a thread for which another thread holds the lock."""


class BrokenPlugin(NamedTuple):
    """A plug-in that cannot be used: its name, its package (empty for a file), and the reason in one line."""

    name: str
    package: str
    reason: str

    def __str__(self) -> str:
        package = f" of package {self.package}" if self.package else ""
        return sanitize_line(f"{self.name}{package} is not used: {self.reason}")


FilePlugin = tuple[str, Callable[[], T]]
"""Plug-in from a file: its origin, and a function that creates it."""


class Plugins(Mapping[str, T], Generic[T]):
    """A mapping of names to plug-ins: first built-in ones, then those of packages, and then those of files.

    A built-in plug-in is imported when it is looked up; looking up any other name loads all the others. A plug-in
    cannot replace another of the same name.
    """

    def __init__(
        self,
        noun: str,
        group: str,
        built_in: Mapping[str, str | Callable[[str], T]],
        find_error: Callable[[str, Any], str],
        wrap: Callable[[T], T] = lambda instance: instance,
        make: Callable[[Any], Any] = lambda loaded: loaded(),
        find_in_files: Callable[[], Iterable[FilePlugin[T]]] = lambda: (),
    ) -> None:
        """Create a registry, without importing anything yet.

        Args:
            noun: name for a plug-in in warnings, such as ``format``.
            group: group of the entry points by which packages provide plug-ins.
            built_in: maps each name to ``module:Class``, or to a function that creates the object from the name.
            find_error: returns the reason why a loaded object cannot be used, or an empty string if it can.
            make: creates the plug-in from the value that an entry point loads.
        """
        self.group, self.built_in = group, built_in
        self._noun, self._find_error = noun, find_error
        self._wrap, self._make, self._find_in_files = wrap, make, find_in_files
        self._instances: dict[str, T] = {}
        self._origins: dict[str, str] = {}

    def __getitem__(self, name: str) -> T:
        if name not in self.built_in:
            return self._extensions[0][name]
        if name not in self._instances:
            with nullcontext() if hasattr(_this_thread, "is_loading") else _IMPORT_LOCK:
                if name not in self._instances:  # not created by another thread meanwhile
                    maker = self.built_in[name]
                    if isinstance(maker, str):
                        module, _, kind = maker.partition(":")
                        self._instances[name] = getattr(import_module(module), kind)()
                    else:
                        self._instances[name] = maker(name)
        return self._instances[name]

    def __contains__(self, name: object) -> bool:
        return name in self.built_in or name in self._extensions[0]

    def __iter__(self) -> Iterator[str]:
        yield from self.built_in
        yield from self._extensions[0]

    def __len__(self) -> int:
        return len(self.built_in) + len(self._extensions[0])

    def get_origin(self, name: str) -> str:
        """Return the origin of a plug-in: ``built in``, ``package NAME``, the path of a file, or "" if unknown."""
        return "built in" if name in self.built_in else self._origins.get(name, "")

    def add(self, instance: T, name: str, origin: str) -> str:
        """Register a plug-in for the rest of the process; return "", or the reason why it cannot be registered."""
        if name in self.built_in:
            return f"{name} is built in; give it another name"
        self._extensions[0][name] = instance
        self._origins[name] = origin
        return ""

    @property
    def broken(self) -> list[BrokenPlugin]:
        """Plug-ins that cannot be used, each of which is also reported once on stderr."""
        return self._extensions[1]

    @cached_property
    def _extensions(self) -> tuple[dict[str, T], list[BrokenPlugin]]:
        from importlib.metadata import entry_points  # 30 ms

        instances: dict[str, T] = {}
        broken: list[BrokenPlugin] = []
        for entry in sorted(entry_points(group=self.group), key=lambda entry: (entry.name, _get_package_name(entry))):
            if entry.name in self.built_in:
                reason = "a built-in one has the same name"
            elif entry.name in instances:
                reason = "another package has the same name"
            else:
                try:
                    with _IMPORT_LOCK, redirect_stdout(sys.stderr):  # keep its output out of our data
                        instance, reason = _call_in_thread(partial(self._load, entry))
                    if not reason:
                        instances[entry.name] = self._wrap(instance)
                        self._origins[entry.name] = f"package {_get_package_name(entry)}"
                except Exception as error:
                    reason = _format_error(error)
            if reason:
                broken.append(BrokenPlugin(entry.name, _get_package_name(entry), shorten_message(reason)))
        self._add_files(instances, broken)
        for plugin in broken:
            getLogger(__name__).warning("%s %s", self._noun, plugin)  # on stderr by default
        return instances, broken

    def _load(self, entry: EntryPoint) -> tuple[Any, str]:
        instance = self._make(entry.load())
        return instance, self._find_error(entry.name, instance)

    def _add_files(self, instances: dict[str, T], broken: list[BrokenPlugin]) -> None:
        for origin, make in self._find_in_files():
            try:
                instance = make()
                name = str(getattr(instance, "name", ""))
                owner = "built in" if name in self.built_in else self._origins.get(name, "")
                reason = f"the name {name} is taken: {owner}" if owner else self._find_error(name, instance)
                if not reason:
                    instances[name], self._origins[name] = instance, origin
            except Exception as error:
                reason = _format_error(error)
            if reason:
                broken.append(BrokenPlugin(origin, "", reason.removeprefix(f"{origin}:").removeprefix(" ")))


class QuietMember(NamedTuple):
    """A method whose failures are ignored: the type of its result (of the items, for a list), and the default."""

    kind: type
    default: Any = None
    is_list: bool = False


class Guard:
    """A wrapper for an object of another package that turns the object's failures into one-line errors.

    Args:
        noun: word for the object in errors, such as ``policy``.
        quiet: methods, by name, that return a default if they fail or their result has the wrong type.
        advice: remedy that is appended to errors.
    """

    def __init__(self, wrapped: Any, noun: str, quiet: Mapping[str, QuietMember], advice: str = "") -> None:
        self._wrapped, self._noun, self._quiet, self._advice = wrapped, noun, quiet, advice

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._wrapped, name)
        return partial(self._call_member, member, self._quiet[name]) if name in self._quiet else member

    def _call_member(self, member: Callable[..., Any], quiet: QuietMember, *args: Any) -> Any:
        try:
            answer = member(*args)
            if quiet.is_list:
                return [each for each in answer if isinstance(each, quiet.kind)]
        except KeyboardInterrupt:
            raise
        except BaseException:  # foreign code can raise anything
            return [] if quiet.is_list else quiet.default
        return answer if isinstance(answer, quiet.kind) else quiet.default

    def call(self, error: type[Error], prefix: str, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call *function*, a method of the wrapped object; convert its exceptions to *error* with the place *prefix*.

        Errors of this package and OSError are not converted.
        """
        try:
            return function(*args, **kwargs)
        except (Error, OSError, KeyboardInterrupt):
            raise
        except BaseException as failed:
            place = format_place(failed, type(self._wrapped).__module__)
            raise self.fail(error, truncate_name(f"{type(failed).__name__}: {failed}") + place, prefix) from failed

    def fail(self, error: type[Error], reason: str, prefix: str = "") -> Error:
        """Return an exception of type *error* that states the place (*prefix*), the wrapped object and the reason."""
        return error(f"{prefix}{self._noun} {self._wrapped.name} failed: {reason}{self._advice}")

    def check(self, error: type[Error], answer: object, kind: type[R], reason: str, prefix: str = "") -> R:
        """Return *answer* if it is a *kind*; else raise *error* with *reason*, in which ``{}`` stands for its type."""
        if not isinstance(answer, kind):
            raise self.fail(error, reason.format(type(answer).__name__), prefix)
        return answer


def format_renames(instance: object, kind: str) -> str:
    """Return what to rename in a package's ``format``, ``policy`` or ``shape`` with members of old names, or ""."""
    classes = [each for each in type(instance).__mro__ if not each.__module__.startswith(("context_tui.", "builtins"))]
    if not classes:  # reading the names would delay the first paint
        return ""
    renames = read_toml("context_tui.app", "renamed_members.toml")[kind]
    defined = {name for each in classes for name in vars(each)}
    old_names = [name for name in renames if name in defined and renames[name] not in defined]
    advice = ", ".join(f"rename {name} to {renames[name]}" for name in old_names)
    return f"it is written for an older context-tui: {advice}" if advice else ""


def format_place(error: BaseException, module: str) -> str:
    """Return `` (FILE:LINE)`` for the last line of another package, that of *module*, through which *error* came."""
    package, place = module.partition(".")[0], ""
    for frame, line in walk_tb(error.__traceback__):
        if str(frame.f_globals.get("__name__")).partition(".")[0] == package != "context_tui":
            place = f" ({Path(frame.f_code.co_filename).name}:{line})"
    return place


def _call_in_thread(function: Callable[[], R]) -> R:
    """Return the result of another package's code; raises Error if it fails or exceeds ``LOADING_SECONDS``."""
    results, failures = list[R](), list[BaseException]()

    def run() -> None:
        _this_thread.is_loading = True
        try:
            results.append(function())
        except BaseException as error:
            failures.append(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(LOADING_SECONDS)
    if not results:
        late = f"it is not loaded after {LOADING_SECONDS:g} seconds"
        raise Error(_format_error(failures[0]) if failures else late)
    return results[0]


def _format_error(error: BaseException) -> str:
    return str(error) if isinstance(error, Error) else f"{type(error).__name__}: {error}"


def _get_package_name(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else "?"
