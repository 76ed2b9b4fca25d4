"""Screen of the calibration: factors and errors of the token estimates for each model."""

from __future__ import annotations

from collections.abc import Iterator

from context_tui.session.session import Session
from context_tui.session.token_factors import PRIOR, Factors
from context_tui.text.numbers import format_count
from context_tui.text.sanitize import make_visible
from context_tui.tokens.measures import TYPICAL_IMAGE_TOKENS, TokenTable, build_calibrated_table
from context_tui.tui.controller import CommandRefused, Controller
from context_tui.tui.rendering.layout import TextPart
from context_tui.tui.threads import ThreadJob, WorkErrorHandler, start_work
from context_tui.tui.widgets.bindings import read_bindings
from context_tui.tui.widgets.reading_pane import ReadingPane
from context_tui.tui.widgets.text_screen import TextScreen

NAME_WIDTH = 30
ABOUT_NOTE = (
    "Factors are recorded tokens per estimated token (bytes / 4), fitted to the growth of the recorded size from one "
    "request to the next, never across a compaction, a rewind or a change of model. The error is measured on the "
    "second half of a model's requests, with factors from the first half. R shows every size by these factors."
)


def build_calibration_parts(token_table: TokenTable) -> Iterator[TextPart]:
    """Yield, for each model, lines with the fitted factors and the errors of the estimate, then an explanation."""
    for calibration in token_table.calibrations:
        requests, factors = format_count(calibration.requests, "request"), calibration.factors
        yield TextPart(f"{make_visible(calibration.model) or 'model unknown'}: {requests} with a size", "heading")
        if calibration.usable:
            yield TextPart(f"calibrated by {format_count(factors.intervals, 'step')} from one request to the next")
        else:
            yield TextPart(f"not calibrated: {calibration.reason}; {calibration.fallback} are used")
        for name, errors in (("error", calibration.error), ("error of bytes / 4", calibration.error_bytes4)):
            if errors is not None:
                shares = f"{_format_error(errors.median)} median, {_format_error(errors.p95)} at the 95th percentile"
                yield _build_row_part(name, shares)
        yield from _build_factor_parts(factors)
        yield TextPart("")
    if not token_table.calibrations:
        yield TextPart("not calibrated: no request recorded a size; typical factors are used")
        yield from _build_factor_parts(PRIOR)
        yield TextPart("")
    yield TextPart(ABOUT_NOTE, "muted")


def _build_row_part(name: str, value: str) -> TextPart:
    return TextPart(f"  {name.ljust(NAME_WIDTH)}{value}")


def _format_error(share: float) -> str:
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
    is_seen, image = factors.image is not None, factors.image or TYPICAL_IMAGE_TOKENS
    yield _build_row_part("an image", f"{image:,.0f} tokens" if is_seen else f"none seen; {image:,} tokens assumed")
    if factors.unrecorded >= 1:
        average = f"{factors.unrecorded:,.0f} tokens on average, not in the file"
        yield _build_row_part("inserted per request", average)


class CalibrationScreen(WorkErrorHandler, TextScreen[None]):
    """A screen that shows a session's calibrations, which a thread computes unless a token table is given."""

    BINDINGS = read_bindings("calibration")

    def __init__(self, session: Session, token_table: TokenTable | None = None) -> None:
        name = make_visible(session.info.path.rpartition("/")[2] or "this session")
        parts = build_calibration_parts(token_table) if token_table else [TextPart("measuring…", "muted")]
        super().__init__(f"Calibration: tokens by recorded sizes in {name}", parts)
        self.session, self.token_table = session, token_table

    def on_mount(self) -> None:
        if self.token_table is None:
            start_work(self, "calibration", "calibrate the session", self._calibrate, self._show)

    def _calibrate(self, job: ThreadJob) -> TokenTable:
        return build_calibrated_table(self.session.facts, job.checkpoint)

    def show_work_error(self, message: str, group: str) -> None:
        self.query_one(ReadingPane).show([TextPart(message)])

    def _show(self, token_table: TokenTable) -> None:
        self.query_one(ReadingPane).show(build_calibration_parts(token_table))


def build_screen(controller: Controller) -> CalibrationScreen:
    """Build the screen for the session read so far, or raise CommandRefused if it has no messages."""
    session = controller.recorded_session
    if not len(session):
        raise CommandRefused("No messages in this session")
    return CalibrationScreen(session, controller.calibrated_table)
