"""The built-in and third-party formats, and the guard that isolates failures of the latter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from context_tui.app.plugins import Guard, Plugins, QuietMember, format_renames
from context_tui.errors import Error, UnreadableSession
from context_tui.formats.base import Advance, Claim, Format, Lister, Scanner, SessionFile
from context_tui.session.losses import Losses
from context_tui.session.session import Session, SessionInfo
from context_tui.text.files import read_toml

REQUIRED_METHODS = ("sniff", "list_sessions", "make_scanner")


def _find_defect(name: str, loaded: Any) -> str:
    if Format not in type(loaded).__mro__:
        return "it does not derive from formats.base.Format"
    if renames := format_renames(loaded, "format"):
        return renames
    missing = [each for each in ("name", "about") if not hasattr(loaded, each)]
    missing += [each for each in REQUIRED_METHODS if getattr(type(loaded), each) is getattr(Format, each)]
    if missing:
        return f"it lacks {', '.join(missing)}"
    if not all(isinstance(text, str) for text in (loaded.name, loaded.about)):
        return "its name or about is not a text"
    if not (isinstance(loaded.suffixes, tuple) and loaded.suffixes and all(map(_is_suffix, loaded.suffixes))):
        return "its suffixes are not a tuple of texts like '.jsonl'"
    return f"it calls itself {loaded.name!r}; rename it or its entry point {name!r}" if loaded.name != name else ""


def _is_suffix(text: object) -> bool:
    return isinstance(text, str) and text.startswith(".") and "/" not in text


FORMATS: Plugins[Format] = Plugins(
    "format",
    "context_tui.formats",
    {name: f"context_tui.formats.{place}" for name, place in read_toml("context_tui.formats", "formats.toml").items()},
    _find_defect,
    lambda form: cast(Format, GuardedFormat(form)),
)


def get_format(name: str) -> Format:
    """Return the format called *name*, or raise an Error that lists the available ones."""
    if name not in FORMATS:
        raise Error(f"unknown format {name!r}; available: {', '.join(FORMATS)}")
    return FORMATS[name]


P = ParamSpec("P")
T = TypeVar("T")


_QUIET_MEMBERS = {
    "sniff": QuietMember(Claim),
    "find_unlisted": QuietMember(SessionInfo),
    "is_standalone": QuietMember(bool, True),
    "list_folder_sessions": QuietMember(SessionInfo, is_list=True),
    "related_files": QuietMember(Path, is_list=True),
    "reads_all_siblings": QuietMember(bool, False),
    "read_title": QuietMember(str, ""),
    "find_sessions": QuietMember(SessionFile, is_list=True),
    "can_copy": QuietMember(bool, False),
    "build_resume_command": QuietMember(str, ""),
}
"""Members that inspect files, which may have another format."""


class GuardedFormat(Guard):
    """A format from another package, guarded so that its failures become an ``Error``.

    Members that only inspect a file fail silently, as the file may have another format.
    """

    def __init__(self, wrapped: Format) -> None:
        super().__init__(wrapped, "format", _QUIET_MEMBERS, "; tell its author")
        self._format = wrapped

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        """Return the format's claim, or None if it fails, so that another format can claim the file."""
        claim = self._call_member(self._format.sniff, _QUIET_MEMBERS["sniff"], head, path)
        return claim if claim is not None and isinstance(claim.strength, int) else None

    def list_sessions(self, path: Path) -> list[SessionInfo]:
        return self._list_checked(self._format.list_sessions, path)

    def make_lister(self) -> Lister:
        """Return the format's lister. If it cannot be created, calling it raises an error that names the file."""
        listers: list[Lister] = []

        def list_sessions_of(path: Path) -> list[SessionInfo]:
            listers[:] = listers or [self.call_for_file(path, self._format.make_lister)]
            return self._list_checked(listers[0], path)

        return list_sessions_of

    def make_scanner(self, path: Path, info: SessionInfo) -> Scanner:
        return _GuardedScanner(self, path, self.call_for_file(path, self._format.make_scanner, path, info))

    def subagent_of(self, session: Session, call: int) -> SessionInfo | None:
        path = Path(session.info.path)
        info = self.call_for_file(path, self._format.subagent_of, session, call)
        return None if info is None else self.check_for_file(path, info, SessionInfo)

    def unsupported_reason(self, role: str, block: dict[str, Any]) -> str:
        return self._check_given(self.call(Error, "", self._format.unsupported_reason, role, block), str)

    def write(self, session: Session, path: Path) -> Losses:
        return self._check_given(self.call(Error, "", self._format.write, session, path), Losses)

    def copy(self, session: Session, path: Path) -> list[str] | None:
        notes: object = self.call(Error, "", self._format.copy, session, path)
        return None if notes is None else [str(note) for note in self._check_given(notes, list)]

    def call_for_file(self, path: Path, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a method of the format and return its result. If it fails, raise UnreadableSession, naming the file."""
        return self.call(UnreadableSession, f"{path}: ", function, *args, **kwargs)

    def check_for_file(self, path: Path, answer: object, kind: type[T]) -> T:
        """Return *answer* if it has the type *kind*, else raise an UnreadableSession error that names the file."""
        return self._check_given(answer, kind, UnreadableSession, f"{path}: ")

    def _check_given(self, answer: object, kind: type[T], error: type[Error] = Error, location: str = "") -> T:
        return self.check(error, answer, kind, f"gave {{}}, not {kind.__name__}", location)

    def _list_checked(self, list_sessions: Lister, path: Path) -> list[SessionInfo]:
        sessions = self.call_for_file(path, lambda: list(list_sessions(path)))
        return [self.check_for_file(path, each, SessionInfo) for each in sessions]


class _GuardedScanner:
    def __init__(self, guarded: GuardedFormat, path: Path, scanner: Scanner) -> None:
        self._format, self._path, self._scanner = guarded, path, scanner

    @property
    def progress(self) -> float:
        return self._format.call_for_file(self._path, lambda: float(self._scanner.progress))

    def advance(self, budget_s: float | None = None) -> Advance:
        step = self._format.call_for_file(self._path, lambda: self._scanner.advance(budget_s))
        return self._format.check_for_file(self._path, step, Advance)

    def session(self) -> Session:
        session = self._format.call_for_file(self._path, lambda: self._scanner.session())
        return self._format.check_for_file(self._path, session, Session)
