"""Export of a session to a new file, which is read back as a check, or in place, as the session's agent would do it."""

from __future__ import annotations

import os
import stat
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from context_tui.compaction.plan import Plan
from context_tui.errors import Error, ExitCode, ExportError, UnreadableSession
from context_tui.export.markdown import MARKDOWN, MARKDOWN_ABOUT, MARKDOWN_SUFFIX, write_page
from context_tui.export.pairing import PairCheck, build_exportable, check_pairs, refuse_unpaired
from context_tui.formats.base import Format, scan
from context_tui.formats.kit.files import find_working_folder
from context_tui.formats.opening import detect_format
from context_tui.formats.registry import FORMATS, get_format
from context_tui.session.context import restore_inferred
from context_tui.session.facts import Facts
from context_tui.session.jsontext import utf8_len
from context_tui.session.losses import Losses, list_unreadable, weigh_context
from context_tui.session.memory import build_facts, collect_usage, find_recording
from context_tui.session.session import Message, Session
from context_tui.session.values import Kind
from context_tui.text.files import is_temporary, move_new, private_folder, sync, sync_folder
from context_tui.text.numbers import format_count
from context_tui.tokens.context_index import index_context
from context_tui.tokens.context_size import measure_context
from context_tui.tokens.measures import build_calibrated_table

MAX_NAME_BYTES = 255


class OutputExists(ExportError):
    """Raised if the output file exists and replacing it was not requested."""


class OutputIsInput(ExportError):
    """Raised if the output file is the file that the session was read from."""

    exit_code = ExitCode.USAGE


class ExportResult(NamedTuple):
    """The result of an export: the written file, its format, losses, and the command that resumes the session.

    ``losses`` describe content that the format cannot hold, repairs, and differences after reading back. ``check``
    lists unpaired blocks, and ``backup`` is the copy of a file that was changed in place.
    """

    path: Path
    format: str
    losses: list[str]
    resume_command: str = ""
    check: PairCheck = PairCheck()
    backup: Path | None = None


def export(session: Session, out: Path, format_name: str, *, force: bool = False) -> ExportResult:
    """Write *session* to the file *out*, in the named format or as ``markdown``; only its owner can read the file.

    An unchanged session is copied in its own format, record by record; otherwise the context at its end is written.

    Raises:
        OutputIsInput: *out* is the file that the session was read from.
        OutputExists: *out* exists, and *force* (replace it) was not given.
        Error: the format cannot be written, the input has changed since it was read, or writing fails.
    """
    form = _find_writable_format(format_name)
    check_output_path(session, out, force)
    _check_input(session)
    try:
        with private_folder(out.parent, out.name) as folder:
            temporary = folder / out.name
            result = _write_temporary(form, session, temporary, out)
            os.chmod(temporary, 0o600)
            sync(temporary)
            _check_input(session)  # again, since the input was read while writing
            _move_into_place(temporary, out, force)  # nothing may fail after this
    except OSError as error:
        raise _build_write_error(out, error) from None
    return result


def try_export(session: Session, format_name: str) -> ExportResult:
    """Export to a temporary file, check and remove it, and return the result; raises the errors of :func:`export`."""
    form = _find_writable_format(format_name)
    _check_input(session)
    try:
        with private_folder(Path(tempfile.gettempdir()), "export") as folder:
            return _write_temporary(form, session, folder / "export", Path("export"))
    except OSError as error:
        raise _build_write_error(Path(tempfile.gettempdir()), error) from None


def _find_writable_format(format_name: str) -> Format | None:
    form = None if format_name == MARKDOWN else get_format(format_name)
    if form is not None and not form.writable:
        raise ExportError(f"format {form.name!r} cannot be written; available: {', '.join(list_export_formats())}")
    return form


def _write_temporary(form: Format | None, session: Session, temporary: Path, out: Path) -> ExportResult:
    if form is None:
        return _write_markdown(session, temporary, out)
    return _copy_records(form, session, temporary, out) or _write_context(form, session, temporary, out)


def is_copied(session: Session, format_name: str) -> bool:
    """Return whether an export copies the session's records, because the format is its own and no plan was applied."""
    if session.origin or format_name != session.info.format:
        return False
    return get_format(format_name).can_copy(session)


def _copy_records(form: Format, session: Session, temporary: Path, out: Path) -> ExportResult | None:
    """Copy a session record by record, or return None if it must be written from its messages instead."""
    notes = form.copy(session, temporary) if is_copied(session, form.name) else None
    if notes is None:
        return None
    written = _read_back(form, temporary)
    if difference := _find_difference(session, written):
        raise _build_format_error(form, f"the copy reads back with different {difference}")
    if extra := len(written) - len(session):
        notes.append(f"the copy has {extra:,} more messages, recorded after the session was opened")
    return ExportResult(out, form.name, notes, check=check_pairs(session, written.to_messages(), {}))


def _find_difference(session: Session, written: Session) -> str:
    facts, written_facts, common = session.facts, written.facts, len(session)
    if len(written) > common:
        common -= 1  # what follows may belong to the last message
    compared = (_collect_message_facts(facts, at) == _collect_message_facts(written_facts, at) for at in range(common))
    if len(written) < common or not all(compared):
        return "messages"
    for noun, collect in (("requests", _collect_requests), ("compactions", _collect_compactions)):
        if collect(facts, common) != collect(written_facts, common):
            return noun
    is_complete = common == len(session)
    return "problems" if is_complete and len(facts.problems) != len(written_facts.problems) else ""


def _collect_message_facts(facts: Facts, message: int) -> tuple[Any, ...]:
    return facts.role[message], facts.flags[message], facts.time[message], _collect_block_sizes(facts, message)


def _collect_requests(facts: Facts, before: int) -> list[tuple[Any, ...]]:
    rows = zip(facts.request_message, facts.request_time, facts.requests, strict=True)
    return [row for row in rows if row[0] < before]


def _collect_compactions(facts: Facts, before: int) -> list[tuple[Any, ...]]:
    known = (each for each in facts.compactions if each.message < before)
    return [(each.message, each.kind, each.trigger, each.pre_tokens) for each in known]


def _write_context(form: Format, session: Session, temporary: Path, out: Path) -> ExportResult:
    unsupported_reason = form.unsupported_reason if form.is_request else None
    exportable = build_exportable(session, _read_messages(session), unsupported_reason)
    if all(first < 0 for first in exportable.session.facts.first_block):  # no messages, or none with a block
        raise _build_empty_error(exportable.losses)
    if form.name != session.info.format:
        exportable.session.facts.size_basis = None  # another agent has another system prompt
    losses_total = exportable.losses + form.write(exportable.session, temporary)
    if not weigh_context(exportable.session.context_at()) - losses_total.removed:
        raise _build_empty_error(losses_total)
    written = _read_back(form, temporary)
    losses = losses_total.lines
    losses += _compare_contexts(form, session, exportable.session, written, losses_total.removed, bool(losses))
    if (lost_count := len(collect_usage(session)) - len(written.facts.requests)) > 0:
        losses.append(f"recorded usage left out: {lost_count:,} requests")
    opens_estimated = not written.facts.size_basis and (form.is_request or form.name != session.info.format)
    table = build_calibrated_table(session.facts) if opens_estimated else None
    if opens_estimated and (unseen := measure_context(session.context_at(), table).not_in_file):
        losses.append(f"left out: ~{unseen:,} tokens that the agent adds to each request (prompt, tools)")
    losses += list_unreadable(find_recording(session).facts)
    check = check_pairs(session, written.to_messages(), exportable.renamed_ids)
    refuse_unpaired(check, form.name)
    return ExportResult(out, form.name, losses, form.build_resume_command(session, temporary, out), check)


def _write_markdown(session: Session, temporary: Path, out: Path) -> ExportResult:
    messages = _read_messages(session)
    if not any(message["content"] for message in messages):
        raise _build_empty_error(Losses())
    losses = write_page(session, messages, temporary).lines + list_unreadable(find_recording(session).facts)
    return ExportResult(out, MARKDOWN, losses, check=check_pairs(session, messages, {}))


def _build_format_error(form: Format, problem: str) -> ExportError:
    return ExportError(f"{form.name}: {problem}; nothing was written; choose another format")


def _build_empty_error(losses: Losses) -> ExportError:
    reason = f" ({'; '.join(losses.lines)})" if losses.lines else ""
    return ExportError(f"no messages to write{reason}; choose another point or policy")


def list_writable_formats() -> list[str]:
    """Return the names of the formats that can be both written and read back."""
    return [form.name for form in FORMATS.values() if form.writable]


def list_export_formats() -> list[str]:
    """Return the names of the formats to which a session can be exported: all writable ones, and ``markdown``."""
    return [*list_writable_formats(), MARKDOWN]


def describe_format(name: str) -> str:
    """Return a short description of an export format."""
    return MARKDOWN_ABOUT if name == MARKDOWN else FORMATS[name].about


def suggest_path(session: Session, format_name: str) -> Path:
    """Suggest a path for an export: ``NAME.compacted.EXT``, or ``NAME.copy.EXT`` for an unchanged session.

    The path is beside the input. It is in the current folder if the input is temporary or in a folder of the agent's
    own sessions, or if the agent would take the new file for a session.
    """
    source = Path(session.info.path or "session")
    if is_temporary(source):
        source = Path("session")  # standard input, spooled
    suffixes = (MARKDOWN_SUFFIX,) if format_name == MARKDOWN else get_format(format_name).suffixes
    own_suffix = source.suffix if format_name == session.info.format and len(source.suffix) < 10 else ""
    # A rewritten file has the first suffix of the format, even if the input has another one.
    use_own = own_suffix and (own_suffix not in suffixes or is_copied(session, format_name))
    suffix = own_suffix if use_own else suffixes[0]
    stem = source.name.removesuffix(source.suffix).removesuffix(".compacted").removesuffix(".copy")
    ending = f".{'compacted' if session.origin else 'copy'}{suffix}"
    if utf8_len(stem + ending) > MAX_NAME_BYTES:
        stem = stem.encode("utf-8", "replace")[: MAX_NAME_BYTES - utf8_len(ending)].decode("utf-8", "ignore")
    form = FORMATS.get(session.info.format)
    is_among_own = form is not None and (form.reads_all_siblings(source) or _is_in_own_folder(form, source))
    return Path(stem + ending) if is_among_own else source.with_name(stem + ending)


def _is_in_own_folder(form: Format, path: Path) -> bool:
    folder, own_files = path.absolute().parent, form.find_sessions(os.environ, find_working_folder())
    return any(own_file.path.parent == folder for own_file in own_files)


def check_output_path(session: Session, out: Path, force: bool = False) -> None:
    """Check that a file can be written to *out*, before any work is done; the errors are those of :func:`export`."""
    source = find_recording(session).info.path
    if source and _is_same_file(Path(source), out):
        raise OutputIsInput(f"{out}: is the input file, which is never overwritten; name another file")
    folder_mode, mode = _read_file_mode(out.parent), _read_file_mode(out)
    if stat.S_ISDIR(mode):
        raise ExportError(f"{out}: is a folder; name a file in it")
    if not stat.S_ISDIR(folder_mode):
        raise ExportError(f"{out.parent}: no such folder; create it, or name a file elsewhere")
    if os.path.lexists(out) and not force:
        raise _build_exists_error(out)
    if mode and not stat.S_ISREG(mode):
        raise ExportError(f"{out}: is not a regular file; name another file")


def _read_file_mode(path: Path) -> int:
    try:
        return os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except (OSError, ValueError) as error:
        raise _build_write_error(path, error) from None


def _build_write_error(path: Path, error: Exception) -> ExportError:
    reason = getattr(error, "strerror", None) or error
    return ExportError(f"{path}: cannot be written: {reason}; nothing was written; name a file elsewhere")


def _is_same_file(source: Path, out: Path) -> bool:
    try:
        return os.path.samefile(source, out)
    except OSError:
        return os.path.realpath(source) == os.path.realpath(out)
    except ValueError:  # the name contains NUL
        return False


def _read_messages(session: Session) -> list[Message]:
    """Return the messages of a session, or raise an error if their sizes have changed since it was opened."""
    changed = _build_changed_error(session)
    context = session.context_at()
    try:
        recorded = [session.message(index) for index in context.order]
        facts = build_facts(recorded)
        for number, index in enumerate(context.order):
            if _collect_block_sizes(facts, number) != _collect_block_sizes(session.facts, index):
                raise changed
        return session.messages_in(context) if context.replacements else recorded
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise changed from error


def _check_input(session: Session) -> None:
    try:
        is_unchanged = find_recording(session).content.is_unchanged()
    except UnreadableSession as error:
        raise ExportError(f"{error}; nothing was written") from None
    if not is_unchanged:
        raise _build_changed_error(session)


def _build_changed_error(session: Session) -> ExportError:
    return ExportError(f"{find_recording(session).info.path}: has changed since it was read; open it again")


def _collect_block_sizes(facts: Facts, message: int) -> list[tuple[int, int]]:
    return [(facts.kind[row], facts.text_bytes[row]) for row in facts.blocks_of(message)]


def _read_back(form: Format, path: Path) -> Session:
    try:
        detect_format(path)  # it must be recognizable without naming the format
        infos = form.list_sessions(path)
        info = next((each for each in infos if not each.parent), infos[0] if infos else None)
        if info is None:
            raise _build_format_error(form, "the written file holds no session")
        return scan(form.make_scanner(path, info))
    except ExportError:
        raise
    except Error as error:
        raise _build_format_error(form, f"the written file cannot be read back ({error})") from None


def _compare_contexts(
    form: Format, session: Session, exported: Session, written: Session, declared: Counter[int], has_losses: bool
) -> list[str]:
    """Return every difference in size, messages and turns between *session* and the *written* session.

    *declared* are the sizes of the losses that the writer declared, keyed by kind. With *has_losses*, a different size
    is not an error, as a loss or note may explain it.
    """
    context, written_context = session.context_at(), restore_inferred(written.context_at())
    if missing := weigh_context(exported.context_at()) - declared - weigh_context(written_context):
        missing_text = ", ".join(f"{number:,} {_UNITS[Kind(kind)]}" for kind, number in missing.items())
        raise _build_format_error(form, f"the written file lacks {missing_text}")
    index, written_index = index_context(context), index_context(written_context)
    sizes = [
        (f"est. {format_count(written_index.total, 'token')}", written_index.total, index.total),
        (format_count(len(written_context), "message"), len(written_context), len(context)),
        (format_count(turns := len(written_index.turn_starts), "turn"), turns, len(index.turn_starts)),
    ]
    changed = ((text, before) for text, now, before in sizes if now != before)
    differences = [f"the written file has {text} instead of {before:,}" for text, before in changed]
    if not has_losses and written_index.total != index.total:
        raise _build_format_error(form, differences[0])
    return differences


_UNITS = {
    Kind.TEXT: "bytes of text",
    Kind.THINKING: "bytes of thinking",
    Kind.TOOL_USE: "bytes of calls",
    Kind.TOOL_RESULT: "bytes of results",
    Kind.IMAGE: "images",
    Kind.OTHER: "blocks of other kinds",
}


def _build_exists_error(out: Path) -> OutputExists:
    return OutputExists(f"{out}: already exists; name another file, or overwrite it with --force")


def _move_into_place(temporary: Path, out: Path, force: bool) -> None:
    """Move a file into place in one step. Without *force*, never replace a file, even one created a moment ago."""
    if force:
        os.replace(temporary, out)
        sync_folder(out.parent)
    else:
        try:
            move_new(temporary, out)
        except FileExistsError:
            raise _build_exists_error(out) from None


class InPlaceError(Error):
    """Raised if a session cannot be changed in place, or if a plan cannot be applied there."""

    exit_code = ExitCode.USAGE


def check_in_place(session: Session) -> None:
    """Check that a session can be changed in place, before any work is done, or raise InPlaceError."""
    if not get_format(session.info.format).in_place:
        names = ", ".join(form.name for form in FORMATS.values() if form.in_place)
        reason = f"format {session.info.format!r} is not changed in place (only {names})"
        raise InPlaceError(f"{session.info.path}: {reason}; write a new file with -o OUT")
    if is_temporary(Path(session.info.path)) or not os.path.isfile(session.info.path):
        raise InPlaceError(f"{session.info.path}: is not a file that can be changed in place; name the database itself")


def apply_in_place(session: Session, plan: Plan) -> ExportResult:
    """Apply *plan* to the file that *session* was read from, after making a backup of it.

    Raises InPlaceError if the plan does more than clear results at the end, or the file is not supported, and another
    Error if the file is in use or has changed since it was read. The file is then left as it was.
    """
    check_in_place(session)
    if plan.dropped_ranges or plan.inserts or any(change.action != "clear" for change in plan.changes.values()):
        raise InPlaceError(
            f"{plan.policy}: does more than clear results, which is all that can be done in place; use -o OUT"
        )
    if plan.context.at != len(session):
        raise InPlaceError(f"--at {plan.context.at}: only the context at the end can be changed in place; use -o OUT")
    messages: list[Message] = []

    def check(written: Session) -> None:
        context = written.context_at()
        tokens = index_context(context).total
        if tokens != plan.tokens_after or context.order != plan.context.order:
            reason = f"would be read as est. {tokens:,} tokens instead of {plan.tokens_after:,}"
            raise ExportError(f"{session.info.path}: {reason}; nothing was changed")
        messages.extend(written.to_messages())

    texts = {block: change.body.text or "" for block, change in plan.changes.items()}
    try:
        backup = get_format(session.info.format).edit_in_place(session, texts, check)
    except UnreadableSession as error:
        raise ExportError(str(error)) from None
    except OSError as error:
        reason = error.strerror or error
        raise ExportError(f"{session.info.path}: cannot be changed: {reason}; nothing was changed") from None
    pair_check = check_pairs(session, messages, {})  # after the change, since it reads the file
    return ExportResult(Path(session.info.path), session.info.format, [], check=pair_check, backup=backup)
