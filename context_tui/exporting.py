"""Writing a session to a new file: checked by reading it back, and never in the place of what it was read from."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from mmap import mmap
from pathlib import Path

from context_tui.compaction.pairs import mend
from context_tui.errors import Error, ExitCode
from context_tui.formats.base import Export, Format, scan
from context_tui.formats.lines import LineFile
from context_tui.formats.registry import FORMATS, format_named
from context_tui.resuming import resume_command
from context_tui.session.derived import DerivedContent
from context_tui.session.facts import Facts
from context_tui.session.memory import from_messages
from context_tui.session.session import Message, Session
from context_tui.tokens import estimate
from context_tui.tokens.measured import measured


class ExportError(Error):
    """The session was not written; nothing was left behind."""


class OutputExists(ExportError):
    """The output is there already and may not be replaced without being told so."""


class OutputIsInput(ExportError):
    """The output is the file that the session was read from."""

    exit_code = ExitCode.USAGE


@dataclass(frozen=True)
class ExportResult:
    """What was written: ``losses`` is what the format cannot hold or what had to be added, in words."""

    path: Path
    format: str
    losses: list[str]
    resume_command: str = ""


def export(session: Session, out: Path, format_name: str, *, force: bool = False) -> ExportResult:
    """Write the context at the end of *session* to *out*, readable by its owner only.

    Args:
        force: replace *out* if it exists.

    Raises:
        OutputIsInput: *out* is the file that the session was read from.
        OutputExists: *out* exists, and *force* was not given.
        Error: the format cannot be written, the input has changed since it was read, or writing failed.
    """
    form = format_named(format_name)
    if not form.writable:
        raise ExportError(f"{form.name} cannot be written; choose one of {', '.join(writable_formats())}")
    check_place(session, out, force)
    messages, notes = _unchanged(session), list[str]()
    if form.for_provider:
        messages, notes = mend(messages)
    if not messages:
        raise ExportError("there are no messages to write")
    with _private_folder(out) as folder:
        temporary = folder / out.name
        try:
            losses = [*notes, *form.write(Export(session, messages), temporary)]
            os.chmod(temporary, 0o600)
            losses += _read_back(form, temporary, session, messages, bool(losses))
            _sync(temporary)
            _move(temporary, out, force)
        except OSError as error:
            raise ExportError(f"{out}: cannot be written: {error.strerror or error}") from None
    return ExportResult(out, form.name, losses, resume_command(session, out, form.name))


def writable_formats() -> list[str]:
    """The names of the formats that can be written."""
    return [form.name for form in FORMATS.values() if form.writable]


def suggested_path(session: Session, format_name: str) -> Path:
    """``NAME.compacted.EXT`` beside the input; in the current folder for one that has no lasting place."""
    source = Path(session.info.path or "session")
    if source.name.startswith("context-tui-") and source.parent == Path(tempfile.gettempdir()):
        source = Path("session")  # standard input, spooled
    own = source.suffix if format_name == session.info.format else ""
    suffix = own or {"koda": ".db", "claude-code": ".jsonl"}.get(format_name, ".json")
    stem = source.name.removesuffix(source.suffix).removesuffix(".compacted")
    return source.with_name(f"{stem}.compacted{suffix}")


def check_place(session: Session, out: Path, force: bool = False) -> None:
    """Refuse an output before any work is done: the input itself, a folder, or what exists and may not be replaced.

    Raises:
        OutputIsInput: *out* is the file that the session was read from.
        OutputExists: *out* exists, and *force* was not given.
        ExportError: nothing can be written there.
    """
    source = _root(session).info.path
    if source and _same(Path(source), out):
        raise OutputIsInput(f"{out}: is the session itself, which is never written to; name another file")
    if out.is_dir():
        raise ExportError(f"{out}: is a folder; name a file in it")
    if not out.parent.is_dir():
        raise ExportError(f"{out.parent}: no such folder")
    if os.path.lexists(out) and not force:
        raise OutputExists(f"{out}: exists already; name another file, or overwrite it with --force")
    if out.exists() and not out.is_file():
        raise ExportError(f"{out}: is no regular file")


def _same(source: Path, out: Path) -> bool:
    try:
        return os.path.samefile(source, out)
    except OSError:
        return os.path.realpath(source) == os.path.realpath(out)


def _root(session: Session) -> Session:
    """The recording behind any number of plans carried out."""
    while isinstance(session.content, DerivedContent):
        session = session.content.parent
    return session


def _unchanged(session: Session) -> list[Message]:
    """The session's messages, read now, when they still measure what they did when it was opened.

    Raises:
        ExportError: what was read has changed since. That the file has grown is fine.
    """
    root = _root(session)
    changed = ExportError(f"{root.info.path}: has changed since it was read; open it again")
    if root.info.path and root.info.format in FORMATS:
        _check_file(root, changed)
    context = session.context_at()
    try:
        recorded = [session.message(index) for index in context.order]
        measured = from_messages(recorded).facts
        for number, index in enumerate(context.order):
            if _measures(measured, number) != _measures(session.facts, index):
                raise changed
        return session.to_messages()
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise changed from error


def _measures(facts: Facts, message: int) -> list[tuple[int, int]]:
    return [(facts.kind[row], facts.text_bytes[row]) for row in facts.blocks_of(message)]


def _check_file(root: Session, changed: ExportError) -> None:
    """Compare the file as it is now with what was read of it; that it has grown is fine."""
    path, form = Path(root.info.path), FORMATS[root.info.format]
    if not path.exists():
        raise ExportError(f"{path}: is no longer there; it cannot be read again")
    now = next((info for info in form.sessions(path) if info.id == root.info.id), None)
    if now is None or now.bytes < root.info.bytes:
        raise changed
    if form.name == "koda":  # a database is written in place, page by page: only what is read of it can tell
        return
    if now.bytes == root.info.bytes and now.time != root.info.time:
        raise changed
    lines = getattr(root.content, "file", None)
    if isinstance(lines, LineFile):
        if not _begins_with(path, lines.data):  # another file has come into its place
            raise changed
    else:  # a document is kept in memory: how it was stands in the facts only
        fresh = scan(form.scanner(path, root.info)).facts
        if len(fresh) < root.length or any(_measures(fresh, m) != _measures(root.facts, m) for m in range(root.length)):
            raise changed


def _begins_with(path: Path, data: mmap | bytes, step: int = 1 << 22) -> bool:
    with path.open("rb") as file:
        return all(file.read(len(data[at : at + step])) == data[at : at + step] for at in range(0, len(data), step))


@contextmanager
def _private_folder(out: Path) -> Iterator[Path]:
    """A folder beside *out* that only its owner can enter, gone at the end whatever happens."""
    try:
        folder = Path(tempfile.mkdtemp(prefix=f".{out.name[:80]}.", suffix=".tmp", dir=out.parent))
    except OSError as error:
        raise ExportError(f"{out.parent}: cannot be written to: {error.strerror or error}") from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _read_back(form: Format, path: Path, session: Session, messages: list[Message], lossy: bool) -> list[str]:
    """Read what was written with the format's own reader, and compare.

    Returns:
        What differs, where the format has said that it cannot hold everything.

    Raises:
        ExportError: something differs that should not.
    """
    try:
        info = next((each for each in form.sessions(path) if not each.parent), None)
        if info is None:
            raise ExportError(f"{form.name}: what was written holds no session; nothing was kept")
        written = scan(form.scanner(path, info)).context_at()
    except ExportError:
        raise
    except Error as error:
        raise ExportError(f"{form.name}: what was written cannot be read back ({error}); nothing was kept") from None
    before, after = estimate(from_messages(messages)) or 0, estimate(written) or 0
    if len(written) != len(messages):
        what = f"{form.name}: reads back as {len(written)} messages instead of {len(messages)}"
        if lossy:
            return [what]
        raise ExportError(f"{what}; nothing was kept")
    turns, told = len(measured(session.context_at()).turn_starts), len(measured(written).turn_starts)
    return [
        *([f"reads back as est. {after:,} tokens instead of {before:,}"] if before != after else []),
        *([f"reads back as {told} turns instead of {turns}"] if told != turns else []),
    ]


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _move(temporary: Path, out: Path, force: bool) -> None:
    """Into place in one step; without *force* only where nothing is, even if it came there just now."""
    if force:
        os.replace(temporary, out)
    else:
        try:
            os.link(temporary, out)
        except FileExistsError:
            raise OutputExists(f"{out}: exists already; name another file, or overwrite it with --force") from None
        except OSError:  # a file system without hard links
            if os.path.lexists(out):
                raise OutputExists(f"{out}: exists already; name another file") from None
            os.rename(temporary, out)
    with suppress(OSError):  # not every system can sync a folder
        _sync(out.parent)
