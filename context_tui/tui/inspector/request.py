"""The request at the point as it was sent: its JSON, where the file holds whole requests."""

from __future__ import annotations

from bisect import bisect_left
from typing import ClassVar

import msgspec
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import Label

from context_tui.errors import Error
from context_tui.formats.opening import describe_request_source
from context_tui.tui.controller import CommandRefused, Controller
from context_tui.tui.rendering.layout import TextPart
from context_tui.tui.widgets.footer import KeyFooter
from context_tui.tui.widgets.reading_pane import ReadingPane


class RequestScreen(ModalScreen[None]):
    """JSON of one request."""

    CSS = """
    RequestScreen { background: $background; }
    #request-title { width: 100%; height: 1; padding: 0 1; background: $panel; text-style: bold; }
    #request { padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,J", "dismiss", "close", key_display="esc", id="request-close", tooltip="Back"),
    ]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._title, self._text = title, text

    def compose(self) -> ComposeResult:
        """Yield the title, the JSON and the footer."""
        yield Label(self._title, id="request-title", markup=False)
        yield ReadingPane([TextPart(self._text)], id="request")
        yield KeyFooter()


def build_screen(controller: Controller) -> RequestScreen:
    """Build the screen with the last request at or before the point.

    Raises:
        CommandRefused: the file does not hold whole requests, or none up to the point.
    """
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
    return RequestScreen(title, text)
