"""Screens for the records that could not be read, and for the JSON of the last request before the planning point."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

import msgspec

from context_tui.errors import Error
from context_tui.formats.opening import describe_request_source
from context_tui.session.problems import Problem
from context_tui.session.session import Session
from context_tui.text.sanitize import make_visible
from context_tui.tui.controller import CommandRefused, Controller
from context_tui.tui.rendering.layout import TextPart
from context_tui.tui.widgets.bindings import read_bindings
from context_tui.tui.widgets.text_screen import TextScreen

RAW_LENGTH = 4_000
"""Maximum number of characters of a record that are shown; a broken line can be a whole file."""

MISSING = "(the text of this record cannot be shown)"


class ProblemsScreen(TextScreen[None]):
    """A screen that lists the records that could not be read, each with its place, the reason and its text."""

    BINDINGS = read_bindings("problems")

    def __init__(self, session: Session) -> None:
        count, records = len(session.facts.problems), len(session.facts.record_kind)
        name = make_visible(session.info.path.rpartition("/")[2] or "this session")
        total = f" of {records:,} records" if records else ""
        super().__init__(f"Problems: {count:,}{total} in {name}", self._iter_parts())
        self.session = session

    def _iter_parts(self) -> Iterator[TextPart]:
        for problem in self.session.facts.problems:
            yield TextPart(f"{problem.where}: {problem.what}", "heading")
            yield TextPart(self._read_record(problem) + "\n", "text" if problem.raw >= 0 else "muted")

    def _read_record(self, problem: Problem) -> str:
        if problem.raw < 0:
            return MISSING
        try:
            text = self.session.content.raw(problem.raw)
        except Exception:  # the file was changed or removed
            return MISSING
        suffix = f"\n… {len(text) - RAW_LENGTH:,} more characters" if len(text) > RAW_LENGTH else ""
        return (text[:RAW_LENGTH] or "(empty)") + suffix


def build_problems_screen(controller: Controller) -> ProblemsScreen:
    """Build the screen for the session on screen, or raise CommandRefused if it has no problems."""
    if not controller.view.session.facts.problems:
        raise CommandRefused("No problems: every record could be read")
    return ProblemsScreen(controller.view.session)


class RequestScreen(TextScreen[None]):
    """A screen with the complete JSON of one recorded request."""

    BINDINGS = read_bindings("request")


def build_request_screen(controller: Controller) -> RequestScreen:
    """Build the screen for the last request before the planning point, or raise CommandRefused if the file has none."""
    view = controller.view
    session, facts = view.session, view.session.facts
    format_request = getattr(session.content, "format_request", None)
    if format_request is None:
        raise CommandRefused(f"No whole requests in this session; {describe_request_source(session)}".rstrip("; "))
    row = bisect_left(facts.request_message, view.point) - 1
    if row < 0:
        raise CommandRefused("No request before this point")
    reply = facts.request_message[row]
    try:
        text = msgspec.json.format(format_request(reply).encode(), indent=2).decode("utf-8", "replace")
    except (Error, ValueError) as error:
        raise CommandRefused(str(error)) from None
    title = f"Request {row + 1:,} of {len(facts.requests):,}, answered by message {reply:,}: {len(text):,} characters"
    return RequestScreen(title, [TextPart(text)])
