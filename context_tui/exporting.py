"""Writing a session to a new file: checked by reading it back, and never in the place of what it was read from."""

from __future__ import annotations

import os
import stat
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from context_tui.compaction.exportable import PairCheck, check_pairs, exportable, recording_of
from context_tui.errors import Error, ExitCode, UnreadableSession
from context_tui.formats.base import Format, scan
from context_tui.formats.registry import FORMATS, format_named
from context_tui.losses import weights
from context_tui.session.context import as_recorded
from context_tui.session.derived import recorded_usage
from context_tui.session.facts import Facts, Kind
from context_tui.session.jsontext import utf8_len
from context_tui.session.memory import facts_of
from context_tui.session.session import Message, Session
from context_tui.temporary import is_temporary, private_folder
from context_tui.tokens.measured import measured

NAME_BYTES = 255
"""The longest name that file systems take."""


class ExportError(Error):
    """The session was not written; nothing was left behind."""


class OutputExists(ExportError):
    """The output is there already and may not be replaced without being told so."""


class OutputIsInput(ExportError):
    """The output is the file that the session was read from."""

    exit_code = ExitCode.USAGE


@dataclass(frozen=True)
class ExportResult:
    """What was written.

    ``losses`` is what the format cannot hold, what had to be mended, and how what reads back differs, in words;
    ``check`` what is unpaired in it.
    """

    path: Path
    format: str
    losses: list[str]
    resume_command: str = ""
    check: PairCheck = field(default_factory=PairCheck)


def export(session: Session, out: Path, format_name: str, *, force: bool = False) -> ExportResult:
    """Write *session* to *out*, readable by its owner only.

    A session to which nothing was applied is copied in its own format, record by record; else what is written is the
    context at its end.

    Args:
        force: replace *out* if it exists.

    Raises:
        OutputIsInput: *out* is the file that the session was read from.
        OutputExists: *out* exists, and *force* was not given.
        Error: the format cannot be written, the input has changed since it was read, or writing failed.
    """
    form = format_named(format_name)
    if not form.writable:
        raise ExportError(f"format {form.name!r} cannot be written; available: {', '.join(writable_formats())}")
    check_place(session, out, force)
    _check_input(session)
    try:
        with private_folder(out.parent, out.name) as folder:
            temporary = folder / out.name
            result = _copied(form, session, temporary, out) or _written(form, session, temporary, out)
            os.chmod(temporary, 0o600)
            _sync(temporary)
            _check_input(session)  # again: what was written was read meanwhile
            _move(temporary, out, force)  # behind this nothing may fail
    except OSError as error:
        raise _unwritable(out, error) from None
    return result


def is_copied(session: Session, format_name: str) -> bool:
    """Whether *session* is written as the records that it was read from: nothing was applied, the format is its own."""
    return not session.origin and format_name == session.info.format and format_named(format_name).copies


def _copied(form: Format, session: Session, temporary: Path, out: Path) -> ExportResult | None:
    """Copy a session that is to stay as it was recorded; None where it has to be written anew.

    Raises:
        ExportError: the copy does not read back the same.
    """
    notes = form.copy(session, temporary) if is_copied(session, form.name) else None
    if notes is None:
        return None
    written = _read_back(form, temporary)
    if differing := _differing(session, written):
        raise ExportError(f"{form.name}: the copy reads back with other {differing}; nothing was written; {_REMEDY}")
    if more := len(written) - len(session):
        notes.append(f"the copy has {more:,} more messages, which were not read here")
    return ExportResult(out, form.name, notes, check=check_pairs(session, written.to_messages(), {}))


def _differing(session: Session, written: Session) -> str:
    """What a copy of *session* holds otherwise, in a word; nothing where it begins with the same."""
    facts, again, same = session.facts, written.facts, len(session)
    if len(written) > same:
        same -= 1  # what follows may belong to the last message
    if len(written) < same or any(_message(facts, at) != _message(again, at) for at in range(same)):
        return "messages"
    for what, before, now in (
        ("requests", _requests(facts, same), _requests(again, same)),
        ("compactions", _compactions(facts, same), _compactions(again, same)),
    ):
        if before != now:
            return what
    whole = same == len(session)
    return "problems" if whole and len(facts.problems) != len(again.problems) else ""


def _message(facts: Facts, message: int) -> tuple[Any, ...]:
    return facts.role[message], facts.flags[message], facts.time[message], _measures(facts, message)


def _requests(facts: Facts, before: int) -> list[tuple[Any, ...]]:
    rows = zip(facts.request_message, facts.request_time, facts.requests, strict=True)
    return [row for row in rows if row[0] < before]


def _compactions(facts: Facts, before: int) -> list[tuple[Any, ...]]:
    return [
        (each.message, each.kind, each.trigger, each.pre_tokens) for each in facts.compactions if each.message < before
    ]


def _written(form: Format, session: Session, temporary: Path, out: Path) -> ExportResult:
    """Write the context at the end of a session anew.

    Raises:
        ExportError: there is nothing to write, or something of it would be missing.
    """
    made = exportable(session, _messages_as_read(session), form.refuses if form.is_request else None)
    if all(first < 0 for first in made.session.facts.first_block):  # none, or none with a block in it
        raise ExportError(f"no messages to write{_and_why(made.losses.words)}; choose another point or policy")
    lost = made.losses + form.write(made.session, temporary)
    written = _read_back(form, temporary)
    losses = lost.words
    losses += _compare(form, session, made.session, written, lost.gone, bool(losses))
    losses += _usage_lost(session, written)
    check = check_pairs(session, written.to_messages(), made.renamed)
    if check.introduced:
        raise ExportError(
            f"{form.name}: {len(check.introduced):,} calls or results would be unpaired; "
            "nothing was written; choose another boundary"
        )
    return ExportResult(out, form.name, losses, form.resume(session, temporary, out), check)


def _usage_lost(session: Session, written: Session) -> list[str]:
    """What a file does not hold of the usage that was recorded for a session to which nothing was applied."""
    lost = len(recorded_usage(session)) - len(written.facts.requests)
    return [f"recorded usage left out: {lost:,} requests"] if lost > 0 else []


def _and_why(notes: list[str]) -> str:
    return f" ({'; '.join(notes)})" if notes else ""


def writable_formats() -> list[str]:
    """The names of the formats that can be written."""
    return [form.name for form in FORMATS.values() if form.writable]


def suggested_path(session: Session, format_name: str) -> Path:
    """``NAME.compacted.EXT`` beside the input; in the current folder for one that has no lasting place.

    It is ``NAME.copy.EXT`` where nothing was applied.
    """
    source = Path(session.info.path or "session")
    if is_temporary(source):
        source = Path("session")  # standard input, spooled
    own = source.suffix if format_name == session.info.format and len(source.suffix) < 10 else ""
    suffix = own or format_named(format_name).suffixes[0]
    stem = source.name.removesuffix(source.suffix).removesuffix(".compacted").removesuffix(".copy")
    ending = f".{'compacted' if session.origin else 'copy'}{suffix}"
    if utf8_len(stem + ending) > NAME_BYTES:
        stem = stem.encode("utf-8", "replace")[: NAME_BYTES - utf8_len(ending)].decode("utf-8", "ignore")
    return source.with_name(stem + ending)


def check_place(session: Session, out: Path, force: bool = False) -> None:
    """Refuse an output before any work is done: the input itself, a folder, or what exists and may not be replaced.

    Raises:
        OutputIsInput: *out* is the file that the session was read from.
        OutputExists: *out* exists, and *force* was not given.
        ExportError: nothing can be written there.
    """
    source = recording_of(session).info.path
    if source and _same(Path(source), out):
        raise OutputIsInput(f"{out}: is the session itself, which is never written to; name another file")
    beside, there = _kind(out.parent), _kind(out)
    if stat.S_ISDIR(there):
        raise ExportError(f"{out}: is a folder; name a file in it")
    if not stat.S_ISDIR(beside):
        raise ExportError(f"{out.parent}: no such folder; create it, or name a file elsewhere")
    if os.path.lexists(out) and not force:
        raise _exists(out)
    if there and not stat.S_ISREG(there):
        raise ExportError(f"{out}: is not a regular file; name another file")


def _kind(path: Path) -> int:
    """The mode of what a path leads to; 0 where there is nothing.

    Raises:
        ExportError: that cannot be told: a folder may not be searched, or a name is too long.
    """
    try:
        return os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except (OSError, ValueError) as error:
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: Exception) -> ExportError:
    why = getattr(error, "strerror", None) or error
    return ExportError(f"{path}: cannot be written: {why}; nothing was written; name a file elsewhere")


def _same(source: Path, out: Path) -> bool:
    try:
        return os.path.samefile(source, out)
    except OSError:
        return os.path.realpath(source) == os.path.realpath(out)
    except ValueError:  # a NUL in it: no file has such a name
        return False


def _messages_as_read(session: Session) -> list[Message]:
    """The session's messages, read now, when they still measure what they did when it was opened.

    Raises:
        ExportError: what was read has changed since. That the file has grown is fine.
    """
    changed = _changed_error(session)
    context = session.context_at()
    try:
        recorded = [session.message(index) for index in context.order]
        read = facts_of(recorded)
        for number, index in enumerate(context.order):
            if _measures(read, number) != _measures(session.facts, index):
                raise changed
        return session.messages_of(context) if context.replaced else recorded
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise changed from error


def _check_input(session: Session) -> None:
    """Make sure that the file still holds what was read of it.

    Raises:
        ExportError: it does not, or cannot be read.
    """
    try:
        same = recording_of(session).content.unchanged()
    except UnreadableSession as error:
        raise ExportError(f"{error}; nothing was written") from None
    if not same:
        raise _changed_error(session)


def _changed_error(session: Session) -> ExportError:
    return ExportError(f"{recording_of(session).info.path}: has changed since it was read; open it again")


def _measures(facts: Facts, message: int) -> list[tuple[int, int]]:
    return [(facts.kind[row], facts.text_bytes[row]) for row in facts.blocks_of(message)]


def _read_back(form: Format, path: Path) -> Session:
    """What was written, by the format's own reader.

    Raises:
        ExportError: it cannot be read.
    """
    try:
        listed = form.sessions(path)
        info = next((each for each in listed if not each.parent), listed[0] if listed else None)
        if info is None:
            raise ExportError(f"{form.name}: the written file holds no session; nothing was written; {_REMEDY}")
        return scan(form.scanner(path, info))
    except ExportError:
        raise
    except Error as error:
        raise ExportError(
            f"{form.name}: the written file cannot be read back ({error}); nothing was written; {_REMEDY}"
        ) from None


_REMEDY = "choose another format"


def _compare(
    form: Format, session: Session, made: Session, written: Session, declared: Counter[int], told: bool
) -> list[str]:
    """Every difference in size, messages and turns between *session* and what was *written* of it.

    Args:
        made: what was handed to the writer.
        declared: what it declared to be gone.
        told: whether there is any loss or note that another size can be due to.

    Raises:
        ExportError: something is gone that was not declared, or the size differs and nothing says why.
    """
    context, again = session.context_at(), as_recorded(written.context_at())
    gone = weights(made.context_at()) - declared - weights(again)
    if gone:
        what = ", ".join(f"{number:,} {_UNITS[Kind(kind)]}" for kind, number in gone.items())
        raise ExportError(f"{form.name}: the written file lacks {what}; nothing was written; {_REMEDY}")
    pairs = [
        ("est. {:,} tokens instead of {:,}", measured(again).total, measured(context).total),
        ("{:,} messages instead of {:,}", len(again), len(context)),
        ("{:,} turns instead of {:,}", len(measured(again).turn_starts), len(measured(context).turn_starts)),
    ]
    differences = [f"the written file has {words.format(now, before)}" for words, now, before in pairs if now != before]
    if differences and not told and measured(again).total != measured(context).total:
        raise ExportError(f"{form.name}: {differences[0]}; nothing was written; {_REMEDY}")
    return differences


_UNITS = {
    Kind.TEXT: "bytes of text",
    Kind.THINKING: "bytes of thinking",
    Kind.TOOL_USE: "bytes of calls",
    Kind.TOOL_RESULT: "bytes of results",
    Kind.IMAGE: "images",
    Kind.OTHER: "blocks of other kinds",
}


def _exists(out: Path) -> OutputExists:
    return OutputExists(f"{out}: already exists; name another file, or overwrite it with --force")


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
            raise _exists(out) from None
        except OSError:  # a file system without hard links
            if os.path.lexists(out):
                raise _exists(out) from None
            os.rename(temporary, out)
    with suppress(OSError):  # not every system can sync a folder
        _sync(out.parent)
