"""Registry of built-in and third-party formats, and the guard that isolates failures of the latter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from context_tui.app.plugins import Plugins, format_renames
from context_tui.errors import Error, UnreadableSession
from context_tui.formats.base import Advance, Claim, Format, Lister, Scanner, SessionFile
from context_tui.session.losses import Losses
from context_tui.session.session import Session, SessionInfo
from context_tui.session.validation import truncate_name

REQUIRED_METHODS = ("sniff", "list_sessions", "make_scanner")
RENAMED_MEMBERS = {
    **{"sessions": "list_sessions", "lister": "make_lister", "scanner": "make_scanner", "unlisted": "find_unlisted"},
    **{"called": "subagent_of", "listed": "is_standalone", "folder": "list_folder_sessions", "title": "read_title"},
    **{"reads_all_beside": "reads_all_siblings", "beside": "related_files", "kept": "find_sessions"},
    **{"refuses": "unsupported_reason", "change": "edit_in_place", "resume": "build_resume_command"},
}
"""Members of formats that were renamed, by their old names."""


def _find_defect(name: str, loaded: Any) -> str:
    """Return what keeps a loaded object from being the format of this name; empty when nothing does."""
    if Format not in type(loaded).__mro__:
        return "it does not derive from formats.base.Format"
    if renames := format_renames(loaded, RENAMED_MEMBERS):
        return f"it is written for an older context-tui: {renames}"
    missing = [each for each in ("name", "about") if not hasattr(loaded, each)]
    missing += [each for each in REQUIRED_METHODS if getattr(type(loaded), each) is getattr(Format, each)]
    if missing:
        return f"it lacks {', '.join(missing)}"
    if not all(isinstance(text, str) for text in (loaded.name, loaded.about)):
        return "its name or about is not a text"
    if not (isinstance(loaded.suffixes, tuple) and loaded.suffixes and all(map(_is_suffix, loaded.suffixes))):
        return "its suffixes are not a tuple of texts like '.jsonl'"
    return f"it calls itself {loaded.name!r}" if loaded.name != name else ""


def _is_suffix(text: object) -> bool:
    return isinstance(text, str) and text.startswith(".") and "/" not in text


FORMATS: Plugins[Format] = Plugins(
    "format",
    "context_tui.formats",
    {
        "claude-code": "context_tui.formats.claude_code:ClaudeCodeFormat",
        "koda": "context_tui.formats.koda:KodaFormat",
        "anthropic": "context_tui.formats.anthropic:AnthropicFormat",
        "openai": "context_tui.formats.openai:OpenAIFormat",
        "openai-responses": "context_tui.formats.responses:ResponsesFormat",
        "codex": "context_tui.formats.codex:CodexFormat",
        "gemini-cli": "context_tui.formats.gemini_cli:GeminiCliFormat",
        "copilot-cli": "context_tui.formats.copilot_cli:CopilotCliFormat",
        "pi": "context_tui.formats.pi:PiFormat",
        "opencode": "context_tui.formats.opencode:OpencodeFormat",
        "crush": "context_tui.formats.crush:CrushFormat",
        "goose": "context_tui.formats.goose:GooseFormat",
        "cline": "context_tui.formats.cline:ClineFormat",
        "cline-sdk": "context_tui.formats.cline.sdk:ClineSdkFormat",
        "openhands": "context_tui.formats.openhands:OpenHandsFormat",
        "swe-agent": "context_tui.formats.swe_agent:SweAgentFormat",
        "mini-swe-agent": "context_tui.formats.mini_swe_agent:MiniSweAgentFormat",
        "agent-sdk": "context_tui.formats.agent_sdk:AgentSdkFormat",
        "defect": "context_tui.formats.defect:DefectFormat",
        "aider": "context_tui.formats.aider:AiderFormat",
        "langchain": "context_tui.formats.langchain:LangChainFormat",
    },
    _find_defect,
    lambda form: cast(Format, GuardedFormat(form)),
)


def get_format(name: str) -> Format:
    """Return the format of this name.

    Raises:
        Error: there is none.
    """
    if name not in FORMATS:
        raise Error(f"unknown format {name!r}; available: {', '.join(FORMATS)}")
    return FORMATS[name]


P = ParamSpec("P")
T = TypeVar("T")


class GuardedFormat:
    """The same format. Where it looks at what may not be its own, a failure says nothing; else it is an ``Error``."""

    def __init__(self, wrapped: Format) -> None:
        self._format = wrapped

    def __getattr__(self, name: str) -> Any:
        return getattr(self._format, name)

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        """Its claim; none where that fails, which leaves the file to the others."""
        claim = self._call_or_default(None, self._format.sniff, head, path)
        return claim if isinstance(claim, Claim) and isinstance(claim.strength, int) else None

    def list_sessions(self, path: Path) -> list[SessionInfo]:
        """Its sessions."""
        return self._list_checked(self._format.list_sessions, path)

    def make_lister(self) -> Lister:
        """Its lister; a failure to make one is told of each file."""
        made: list[Lister] = []

        def list_sessions_of(path: Path) -> list[SessionInfo]:
            made[:] = made or [self._call_for_file(path, self._format.make_lister)]
            return self._list_checked(made[0], path)

        return list_sessions_of

    def make_scanner(self, path: Path, info: SessionInfo) -> Scanner:
        """Its scanner, guarded too."""
        return _GuardedScanner(self, path, self._call_for_file(path, self._format.make_scanner, path, info))

    def find_unlisted(self, main: SessionInfo, session_id: str) -> SessionInfo | None:
        """Return what it knows to be there; nothing where that fails."""
        info: object = self._call_or_default(None, self._format.find_unlisted, main, session_id)
        return info if isinstance(info, SessionInfo) else None

    def subagent_of(self, session: Session, call: int) -> SessionInfo | None:
        """Return the session that a call started."""
        path = Path(session.info.path)
        info = self._call_for_file(path, self._format.subagent_of, session, call)
        return None if info is None else self._check_type(UnreadableSession, f"{path}: ", SessionInfo, info)

    def is_standalone(self, path: Path) -> bool:
        """Return whether it stands for itself; it does where that fails."""
        return self._call_or_default(True, self._format.is_standalone, path) is not False

    def list_folder_sessions(self, path: Path) -> list[SessionInfo]:
        """Return the sessions that a folder stands for; none where that fails."""
        nothing: list[SessionInfo] = []
        found: list[object] = [*self._call_or_default(nothing, lambda: list(self._format.list_folder_sessions(path)))]
        return [each for each in found if isinstance(each, SessionInfo)]

    def related_files(self, path: Path) -> Iterable[Path]:
        """Yield what stands beside; nothing where that fails."""
        nothing: list[Path] = []
        found: list[object] = [*self._call_or_default(nothing, lambda: list(self._format.related_files(path)))]
        return [each for each in found if isinstance(each, Path)]

    def reads_all_siblings(self, path: Path) -> bool:
        """Return whether its program reads all that is beside; not where that fails."""
        return self._call_or_default(False, self._format.reads_all_siblings, path) is True

    def read_title(self, path: Path) -> str:
        """Its title; nothing where that fails."""
        return self._call_for_text(self._format.read_title, path)

    def find_sessions(self, environ: Mapping[str, str], cwd: Path) -> Iterable[SessionFile]:
        """Yield what it finds; nothing where that fails."""
        nothing: list[SessionFile] = []
        found: list[object] = [*self._call_or_default(nothing, lambda: list(self._format.find_sessions(environ, cwd)))]
        return [each for each in found if isinstance(each, SessionFile)]

    def unsupported_reason(self, role: str, block: dict[str, Any]) -> str:
        """Return what it refuses."""
        return self._check_type(
            Error, "", str, self._call_or_raise(Error, "", self._format.unsupported_reason, role, block)
        )

    def write(self, session: Session, path: Path) -> Losses:
        """Return what it loses."""
        return self._check_type(Error, "", Losses, self._call_or_raise(Error, "", self._format.write, session, path))

    def can_copy(self, session: Session) -> bool:
        """Return whether it says that it copies a session; not where that fails."""
        return self._call_or_default(False, lambda: self._format.can_copy(session) is True)

    def copy(self, session: Session, path: Path) -> list[str] | None:
        """Return what is to be known about its copy; None where it makes none."""
        notes: object = self._call_or_raise(Error, "", self._format.copy, session, path)
        return None if notes is None else [str(note) for note in self._check_type(Error, "", list, notes)]

    def build_resume_command(self, session: Session, written_session: Path, out_path: Path) -> str:
        """Its command; nothing where that fails."""
        return self._call_for_text(self._format.build_resume_command, session, written_session, out_path)

    def _list_checked(self, list_sessions: Lister, path: Path) -> list[SessionInfo]:
        found = self._call_for_file(path, lambda: list(list_sessions(path)))
        return [self._check_type(UnreadableSession, f"{path}: ", SessionInfo, each) for each in found]

    def _call_for_text(self, function: Callable[P, str], *args: P.args, **kwargs: P.kwargs) -> str:
        text: object = self._call_or_default("", function, *args, **kwargs)
        return text if isinstance(text, str) else ""

    def _call_for_file(self, path: Path, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return self._call_or_raise(UnreadableSession, f"{path}: ", function, *args, **kwargs)

    def _check_type(self, error: type[Error], where: str, expected_type: type[T], result: object) -> T:
        if not isinstance(result, expected_type):
            words = f"gave {type(result).__name__}, not {expected_type.__name__}"
            raise error(f"{where}format {self._format.name} failed: {words}; tell its author")
        return result

    def _call_or_default(self, default: T, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except Exception:
            return default

    def _call_or_raise(
        self, error: type[Error], where: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        try:
            return function(*args, **kwargs)
        except (Error, OSError):  # a file that cannot be read or written is told as that, as of any format
            raise
        except Exception as failed:
            words = truncate_name(f"{type(failed).__name__}: {failed}")
            raise error(f"{where}format {self._format.name} failed: {words}; tell its author") from failed


class _GuardedScanner:
    """A scanner of such a format."""

    def __init__(self, guarded: GuardedFormat, path: Path, scanner: Scanner) -> None:
        self._format, self._path, self._scanner = guarded, path, scanner

    @property
    def progress(self) -> float:
        """Its progress."""
        return self._format._call_for_file(self._path, lambda: float(self._scanner.progress))

    def advance(self, budget_s: float | None = None) -> Advance:
        """Its next step."""
        done = self._format._call_for_file(self._path, lambda: self._scanner.advance(budget_s))
        return self._format._check_type(UnreadableSession, f"{self._path}: ", Advance, done)

    def session(self) -> Session:
        """Return what it has read."""
        made = self._format._call_for_file(self._path, lambda: self._scanner.session())
        return self._format._check_type(UnreadableSession, f"{self._path}: ", Session, made)
