"""JSON of the last request sent before the point; available only if the file holds whole requests."""

from __future__ import annotations

from bisect import bisect_left

import msgspec

from context_tui.errors import Error
from context_tui.formats.opening import describe_request_source
from context_tui.tui.controller import CommandRefused, Controller
from context_tui.tui.rendering.layout import TextPart
from context_tui.tui.widgets.bindings import read_bindings
from context_tui.tui.widgets.text_screen import TextScreen


class RequestScreen(TextScreen[None]):
    """A screen with the complete JSON of one recorded request."""

    BINDINGS = read_bindings("request")


def build_screen(controller: Controller) -> RequestScreen:
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
