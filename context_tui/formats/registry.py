"""The formats there are, in the order in which they are asked; equal claims go to the earlier one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from context_tui.errors import Error, UnreadableSession
from context_tui.formats.base import Advance, Claim, Format, Found, Lister, Scanner
from context_tui.losses import Losses
from context_tui.plugins import Plugins
from context_tui.session.session import Session, SessionInfo

T = TypeVar("T")


def _wrong_with(name: str, form: Any) -> str:
    """What keeps a loaded object from being the format of this name; empty when nothing does."""
    if Format not in type(form).__mro__:
        return "it does not derive from formats.base.Format"
    missing = [each for each in ("name", "about") if not hasattr(form, each)]
    if missing:
        return f"it has no {', '.join(missing)}"
    return f"it calls itself {form.name!r}" if form.name != name else ""


class Guarded(Format):
    """A format of another package: what goes wrong in it is an error of the format, in one line."""

    def __init__(self, form: Format) -> None:
        self._form = form
        self.name, self.about, self.writable = form.name, form.about, form.writable  # type: ignore[misc]
        self.suffixes, self.is_request = form.suffixes, form.is_request  # type: ignore[misc]

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        """Its claim; none where that fails, so that the file is left to the others."""
        claim: Any = self._quietly(lambda: self._form.sniff(head, path), None)
        return claim if isinstance(claim, Claim) else None

    def sessions(self, path: Path) -> list[SessionInfo]:
        """Its sessions."""
        return self._safely(lambda: list(self._form.sessions(path)))

    def lister(self) -> Lister:
        """Its lister."""
        listed = self._safely(self._form.lister)
        return lambda path: self._safely(lambda: list(listed(path)))

    def scanner(self, path: Path, info: SessionInfo) -> Scanner:
        """Its scanner."""
        return GuardedScanner(self._safely(lambda: self._form.scanner(path, info)), self._safely)

    def unlisted(self, main: SessionInfo, session_id: str) -> SessionInfo | None:
        """What it finds; nothing where that fails."""
        info: Any = self._quietly(lambda: self._form.unlisted(main, session_id), None)
        return info if isinstance(info, SessionInfo) else None

    def title(self, path: Path) -> str:
        """Its title; none where that fails."""
        return str(self._quietly(lambda: self._form.title(path), ""))

    def kept(self, environ: Mapping[str, str], cwd: Path) -> Iterable[Found]:
        """The files it finds; none where that fails."""
        return self._quietly(lambda: list(self._form.kept(environ, cwd)), [])

    def refuses(self, role: str, block: dict[str, Any]) -> str:
        """What it refuses."""
        return self._safely(lambda: self._form.refuses(role, block))

    def write(self, session: Session, path: Path) -> Losses:
        """Write by it."""
        losses: Any = self._safely(lambda: self._form.write(session, path))
        if not isinstance(losses, Losses):
            raise UnreadableSession(f"format {self.name} failed: its write gives {type(losses).__name__}, not Losses")
        return losses

    def resume(self, session: Session, written: Path, out: Path) -> str:
        """Its command; none where that fails."""
        return str(self._quietly(lambda: self._form.resume(session, written, out), ""))

    def _safely(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except (Error, OSError):
            raise
        except Exception as error:
            raise UnreadableSession(f"format {self.name} failed: {type(error).__name__}: {error}") from error

    def _quietly(self, ask: Callable[[], T], otherwise: T) -> T:
        try:
            return ask()
        except Exception:  # whatever a stranger's module does
            return otherwise


class GuardedScanner:
    """A scanner of another package's format."""

    def __init__(self, scanner: Scanner, safely: Callable[[Callable[[], Any]], Any]) -> None:
        self._scanner, self._safely = scanner, safely

    @property
    def progress(self) -> float:
        """Its progress."""
        return float(self._safely(lambda: self._scanner.progress))

    def advance(self, budget_s: float | None = None) -> Advance:
        """Read on by it."""
        found: Advance = self._safely(lambda: self._scanner.advance(budget_s))
        return found

    def session(self) -> Session:
        """What it has read."""
        found: Session = self._safely(self._scanner.session)
        return found


FORMATS: Plugins[Format] = Plugins(
    "format",
    "context_tui.formats",
    {
        "claude-code": "context_tui.formats.claude_code:ClaudeCodeFormat",
        "koda": "context_tui.formats.koda:KodaFormat",
        "anthropic": "context_tui.formats.anthropic:AnthropicFormat",
        "openai": "context_tui.formats.openai:OpenAIFormat",
    },
    _wrong_with,
    Guarded,
)


def format_named(name: str) -> Format:
    """The format of this name.

    Raises:
        Error: there is none.
    """
    if name not in FORMATS:
        raise Error(f"unknown format {name!r}; available: {', '.join(FORMATS)}")
    return FORMATS[name]
