"""Calibration of token estimates by the recorded sizes of each model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Label

from context_tui.session.session import Session
from context_tui.session.token_factors import PRIOR, Factors
from context_tui.text.sanitize import make_visible
from context_tui.tokens.calibration import Calibration, ErrorStats
from context_tui.tokens.measures import TYPICAL_IMAGE_TOKENS, TokenMeasure, TokenTable, build_calibrated_table
from context_tui.tui.controller import CommandRefused, Controller
from context_tui.tui.rendering.formatting import pluralize
from context_tui.tui.rendering.layout import TextPart
from context_tui.tui.threads import ThreadJob, WorkErrorHandler, start_work
from context_tui.tui.widgets.footer import KeyFooter
from context_tui.tui.widgets.reading_pane import ReadingPane

NAME_WIDTH = 30
"""Cells of the names of numbers."""
UNKNOWN_NOTE = "unknown: less was recorded than the file measures"
ABOUT_NOTE = (
    "Factors are recorded tokens per estimated token (bytes / 4), fitted to the growth of the recorded size from one "
    "request to the next, never across a compaction, a rewind or a change of model. The error is measured on the "
    "second half of a model's requests, with factors from the first half. R shows every size by these factors."
)


def build_calibration_parts(token_table: TokenTable) -> Iterator[TextPart]:
    """Format the factors and errors of each model."""
    for each in token_table.calibrations:
        yield TextPart(
            f"{make_visible(each.model) or 'model unknown'}: {pluralize(each.requests, 'request')} with a size",
            "heading",
        )
        if each.usable:
            yield TextPart(f"calibrated by {pluralize(each.factors.intervals, 'step')} from one request to the next")
        else:
            yield TextPart(f"not calibrated: {each.reason}; {each.fallback} are used")
        yield from _build_error_parts(each)
        yield from _build_factor_parts(each.factors)
        tokens = token_table.not_in_file.get(each.model)
        text = UNKNOWN_NOTE if tokens is None else f"{tokens:,} tokens: the median of recorded − calibrated"
        yield _build_row_part("not in the file", text)
        yield TextPart("")
    if not token_table.calibrations:
        yield TextPart("not calibrated: no request recorded a size; typical factors are used")
        yield from _build_factor_parts(PRIOR)
        yield TextPart("")
    yield TextPart(ABOUT_NOTE, "muted")


def _build_row_part(name: str, value: str) -> TextPart:
    return TextPart(f"  {name.ljust(NAME_WIDTH)}{value}")


def _build_error_parts(calibration: Calibration) -> Iterator[TextPart]:
    for name, errors in (("error", calibration.error), ("error of bytes / 4", calibration.error_bytes4)):
        if errors is not None:
            yield _build_row_part(name, _format_error_stats(errors))


def _format_error_stats(errors: ErrorStats) -> str:
    return f"{_format_error_share(errors.median)} median, {_format_error_share(errors.p95)} at the 95th percentile"


def _format_error_share(share: float) -> str:
    return f"{share:.1%}".replace("%", " %")


def _build_factor_parts(factors: Factors) -> Iterator[TextPart]:
    for name, value in (
        ("text", factors.text),
        ("shown thinking", factors.thinking),
        ("signatures of thinking", factors.signature),
        ("calls", factors.call),
        ("results", factors.result),
    ):
        yield _build_row_part(name, f"× {value:.2f}")
    yield _build_row_part("per-request overhead", f"{factors.request_overhead:,.0f} tokens")
    image = (
        f"none seen; {TYPICAL_IMAGE_TOKENS:,} tokens assumed"
        if factors.image is None
        else f"{factors.image:,.0f} tokens"
    )
    yield _build_row_part("an image", image)
    if factors.unrecorded >= 1:
        yield _build_row_part(
            "inserted without a record", f"{factors.unrecorded:,.0f} tokens for each request, on average"
        )


class CalibrationScreen(WorkErrorHandler, ModalScreen[None]):
    """Calibrations of a session, computed in a thread unless they are known."""

    CSS_PATH = "calibration.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss", "close", key_display="esc", id="calibration-close", tooltip="Back"),
    ]

    @dataclass
    class CalibrationsComputed(Message):
        """The calibrations are computed."""

        token_table: TokenTable

    def __init__(self, session: Session, token_table: TokenTable | None = None) -> None:
        super().__init__()
        self.session, self.token_table = session, token_table

    def compose(self) -> ComposeResult:
        """Yield a heading and the text."""
        name = make_visible(self.session.info.path.rpartition("/")[2] or "this session")
        yield Label(f"Calibration: tokens by recorded sizes in {name}", id="calibration-title", markup=False)
        yield ReadingPane([TextPart("measuring…", "muted")], id="calibration-text")
        yield KeyFooter()

    def on_mount(self) -> None:
        """Show the calibrations, or compute them first."""
        if self.token_table is not None:
            self.query_one(ReadingPane).show(build_calibration_parts(self.token_table))
            return

        def work(job: ThreadJob) -> None:
            self.post_message(self.CalibrationsComputed(build_calibrated_table(self.session.facts, job.checkpoint)))

        start_work(self, "calibration", "calibrate the session", work)

    def show_work_error(self, message: str, group: str) -> None:
        """Show the error in place of the calibrations."""
        self.query_one(ReadingPane).show([TextPart(message)])

    @on(CalibrationsComputed)
    def _show(self, event: CalibrationsComputed) -> None:
        self.query_one(ReadingPane).show(build_calibration_parts(event.token_table))


def build_screen(controller: Controller) -> CalibrationScreen:
    """Build the screen for the open session, as far as it is read.

    Raises:
        CommandRefused: the session has no messages.
    """
    session = controller.recorded_session
    if not len(session):
        raise CommandRefused("No messages in this session")
    sizes = controller.token_table if session.facts is controller.view.session.facts else None
    return CalibrationScreen(session, sizes if sizes and sizes.measure is TokenMeasure.CALIBRATED else None)
