"""Apply a plan to the session's own file, as its agent would: completely or not at all, and after a backup."""

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
    """Session or plan that cannot be applied in place."""

    exit_code = ExitCode.USAGE


def check_in_place(session: Session) -> None:
    """Check that a session can be changed in place, before any work is done.

    Raises:
        InPlaceError: the format does not support this, or the file is temporary.
    """
    if not get_format(session.info.format).in_place:
        names = ", ".join(form.name for form in FORMATS.values() if form.in_place)
        raise InPlaceError(
            f"{session.info.path}: format {session.info.format!r} is not changed in place (only {names}); "
            "write a new file with -o OUT"
        )
    if is_temporary(Path(session.info.path)) or not os.path.isfile(session.info.path):
        raise InPlaceError(f"{session.info.path}: is not a file that can be changed in place; name the database itself")


def apply_in_place(session: Session, plan: Plan) -> ExportResult:
    """Apply *plan* to the file that *session* was read from, after backing it up.

    Raises:
        InPlaceError: the file or the plan is unsupported; a plan may only clear results, at the end of the session.
        Error: the file is in use or has changed since it was read; it was left unchanged.
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
            raise ExportError(
                f"{session.info.path}: would be read as est. {tokens:,} tokens instead of {plan.tokens_after:,}; "
                "nothing was changed"
            )
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
