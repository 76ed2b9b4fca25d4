"""A format of another package: what goes wrong in it is an error of the format, in one line, and of no other file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from context_tui.errors import Error, UnreadableSession
from context_tui.formats.base import Advance, Claim, Format, Found, Lister, Scanner
from context_tui.session.losses import Losses
from context_tui.session.session import Session, SessionInfo
from context_tui.session.validation import truncate_name

P = ParamSpec("P")
T = TypeVar("T")


class GuardedFormat:
    """The same format. Where it looks at what may not be its own, a failure says nothing; else it is an ``Error``."""

    def __init__(self, form: Format) -> None:
        self._form = form

    def __getattr__(self, name: str) -> Any:
        return getattr(self._form, name)

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        """Its claim; none where that fails, which leaves the file to the others."""
        claim = self._quietly(None, self._form.sniff, head, path)
        return claim if isinstance(claim, Claim) and isinstance(claim.strength, int) else None

    def sessions(self, path: Path) -> list[SessionInfo]:
        """Its sessions."""
        return self._listed(self._form.sessions, path)

    def lister(self) -> Lister:
        """Its lister; a failure to make one is told of each file."""
        made: list[Lister] = []

        def listed(path: Path) -> list[SessionInfo]:
            made[:] = made or [self._read(path, self._form.lister)]
            return self._listed(made[0], path)

        return listed

    def scanner(self, path: Path, info: SessionInfo) -> Scanner:
        """Its scanner, guarded too."""
        return _GuardedScanner(self, path, self._read(path, self._form.scanner, path, info))

    def unlisted(self, main: SessionInfo, session_id: str) -> SessionInfo | None:
        """What it knows to be there; nothing where that fails."""
        info: object = self._quietly(None, self._form.unlisted, main, session_id)
        return info if isinstance(info, SessionInfo) else None

    def called(self, session: Session, call: int) -> SessionInfo | None:
        """The session that a call started."""
        path = Path(session.info.path)
        info = self._read(path, self._form.called, session, call)
        return None if info is None else self._of(UnreadableSession, f"{path}: ", SessionInfo, info)

    def listed(self, path: Path) -> bool:
        """Whether it stands for itself; it does where that fails."""
        return self._quietly(True, self._form.listed, path) is not False

    def folder(self, path: Path) -> list[SessionInfo]:
        """The sessions that a folder stands for; none where that fails."""
        nothing: list[SessionInfo] = []
        found: list[object] = [*self._quietly(nothing, lambda: list(self._form.folder(path)))]
        return [each for each in found if isinstance(each, SessionInfo)]

    def beside(self, path: Path) -> Iterable[Path]:
        """What stands beside; nothing where that fails."""
        nothing: list[Path] = []
        found: list[object] = [*self._quietly(nothing, lambda: list(self._form.beside(path)))]
        return [each for each in found if isinstance(each, Path)]

    def reads_all_beside(self, path: Path) -> bool:
        """Whether its program reads all that is beside; not where that fails."""
        return self._quietly(False, self._form.reads_all_beside, path) is True

    def title(self, path: Path) -> str:
        """Its title; nothing where that fails."""
        return self._text(self._form.title, path)

    def kept(self, environ: Mapping[str, str], cwd: Path) -> Iterable[Found]:
        """What it finds; nothing where that fails."""
        nothing: list[Found] = []
        found: list[object] = [*self._quietly(nothing, lambda: list(self._form.kept(environ, cwd)))]
        return [each for each in found if isinstance(each, Found)]

    def refuses(self, role: str, block: dict[str, Any]) -> str:
        """What it refuses."""
        return self._of(Error, "", str, self._safely(Error, "", self._form.refuses, role, block))

    def write(self, session: Session, path: Path) -> Losses:
        """What it loses."""
        return self._of(Error, "", Losses, self._safely(Error, "", self._form.write, session, path))

    def can_copy(self, session: Session) -> bool:
        """Whether it says that it copies a session; not where that fails."""
        return self._quietly(False, lambda: self._form.can_copy(session) is True)

    def copy(self, session: Session, path: Path) -> list[str] | None:
        """What is to be known about its copy; None where it makes none."""
        notes: object = self._safely(Error, "", self._form.copy, session, path)
        return None if notes is None else [str(note) for note in self._of(Error, "", list, notes)]

    def resume(self, session: Session, written: Path, out: Path) -> str:
        """Its command; nothing where that fails."""
        return self._text(self._form.resume, session, written, out)

    def _listed(self, ask: Lister, path: Path) -> list[SessionInfo]:
        found = self._read(path, lambda: list(ask(path)))
        return [self._of(UnreadableSession, f"{path}: ", SessionInfo, each) for each in found]

    def _text(self, ask: Callable[P, str], *args: P.args, **kwargs: P.kwargs) -> str:
        text: object = self._quietly("", ask, *args, **kwargs)
        return text if isinstance(text, str) else ""

    def _read(self, path: Path, ask: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return self._safely(UnreadableSession, f"{path}: ", ask, *args, **kwargs)

    def _of(self, error: type[Error], where: str, kind: type[T], answer: object) -> T:
        if not isinstance(answer, kind):
            words = f"gave {type(answer).__name__}, not {kind.__name__}"
            raise error(f"{where}format {self._form.name} failed: {words}; tell its author")
        return answer

    def _quietly(self, otherwise: T, ask: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return ask(*args, **kwargs)
        except Exception:
            return otherwise

    def _safely(self, error: type[Error], where: str, ask: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return ask(*args, **kwargs)
        except (Error, OSError):  # a file that cannot be read or written is told as that, as of any format
            raise
        except Exception as failed:
            words = truncate_name(f"{type(failed).__name__}: {failed}")
            raise error(f"{where}format {self._form.name} failed: {words}; tell its author") from failed


class _GuardedScanner:
    """A scanner of such a format."""

    def __init__(self, form: GuardedFormat, path: Path, scanner: Scanner) -> None:
        self._form, self._path, self._scanner = form, path, scanner

    @property
    def progress(self) -> float:
        """Its progress."""
        return self._form._read(self._path, lambda: float(self._scanner.progress))

    def advance(self, budget_s: float | None = None) -> Advance:
        """Its next step."""
        done = self._form._read(self._path, lambda: self._scanner.advance(budget_s))
        return self._form._of(UnreadableSession, f"{self._path}: ", Advance, done)

    def session(self) -> Session:
        """What it has read."""
        made = self._form._read(self._path, lambda: self._scanner.session())
        return self._form._of(UnreadableSession, f"{self._path}: ", Session, made)
