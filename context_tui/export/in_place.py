"""Carrying a plan out in the session's own file, where its program does so too: backed up first, all or nothing."""

from __future__ import annotations

import os
from pathlib import Path

from context_tui.compaction.plan import Plan
from context_tui.errors import Error, ExitCode, UnreadableSession
from context_tui.export.files import ExportError, ExportResult
from context_tui.export.prepare import check_pairs
from context_tui.formats.registry import FORMATS, get_format
from context_tui.session.session import Message, Session
from context_tui.text.private_files import is_temporary
from context_tui.tokens.context_index import index_context


class InPlaceError(Error):
    """The file of this session, or this plan, is none that can be carried out in place."""

    exit_code = ExitCode.USAGE


def check_in_place(session: Session) -> None:
    """Refuse a session whose file is not changed in place, before any work is done.

    Raises:
        NotInPlace: it is of another format, or has no lasting place.
    """
    if not get_format(session.info.format).in_place:
        able = ", ".join(form.name for form in FORMATS.values() if form.in_place)
        raise InPlaceError(
            f"{session.info.path}: format {session.info.format!r} is not changed in place (only {able}); "
            "write a new file with -o OUT"
        )
    if is_temporary(Path(session.info.path)) or not os.path.isfile(session.info.path):
        raise InPlaceError(f"{session.info.path}: is not a file that can be changed in place; name the database itself")


def apply_in_place(session: Session, plan: Plan) -> ExportResult:
    """Carry *plan* out in the file that *session* was read from, once there is a backup of it.

    Raises:
        NotInPlace: the file or the plan is none that can be; only results are cleared, as of the session's end.
        Error: the file was not changed, and why; as it is in use, or is no longer what was read.
    """
    check_in_place(session)
    if plan.dropped_ranges or plan.inserts or any(change.action != "clear" for change in plan.changes.values()):
        raise InPlaceError(
            f"{plan.policy}: does more than clear results, which is all that is done in place; use -o OUT"
        )
    if plan.context.at != len(session):
        raise InPlaceError(f"--at {plan.context.at}: only the context at the end is changed in place; use -o OUT")
    read_again: list[Message] = []

    def check(again: Session) -> None:
        context = again.context_at()
        now = index_context(context).total
        if now != plan.tokens_after or context.order != plan.context.order:
            raise ExportError(
                f"{session.info.path}: would be read as est. {now:,} tokens instead of {plan.tokens_after:,}; "
                "nothing was changed"
            )
        read_again.extend(again.to_messages())

    texts = {block: change.body.text or "" for block, change in plan.changes.items()}
    try:
        backup = get_format(session.info.format).edit_in_place(session, texts, check)
    except UnreadableSession as error:
        raise ExportError(str(error)) from None
    except OSError as error:
        why = error.strerror or error
        raise ExportError(f"{session.info.path}: cannot be changed: {why}; nothing was changed") from None
    check_of_pairs = check_pairs(session, read_again, {})  # not before: it reads the file
    return ExportResult(Path(session.info.path), session.info.format, [], check=check_of_pairs, backup=backup)
