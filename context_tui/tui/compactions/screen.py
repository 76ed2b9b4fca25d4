"""Screen of recorded compactions: the messages before and after, and a message beside the summary that replaced it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Static

from context_tui.compaction.recorded_compactions import (
    RecordedCompaction,
    find_recorded_compactions,
    predict_size_after,
)
from context_tui.lab.aftermath.measure import measure_aftermaths
from context_tui.lab.regret.cases import find_reused_blocks
from context_tui.lab.regret.index import build_use_index
from context_tui.session.session import Session
from context_tui.summarizer.checks.instruction_survival import CompactionInstructions, follow_instructions
from context_tui.tokens.measures import build_calibrated_table
from context_tui.tui.compactions import comparison as texts
from context_tui.tui.compactions.comparison import CompactionComparison
from context_tui.tui.compactions.instructions import build_instructions_screen
from context_tui.tui.comparison import InspectorCommand
from context_tui.tui.controller import CommandRefused, Controller
from context_tui.tui.rendering.formatting import MessageReader, format_block
from context_tui.tui.rendering.layout import TextPart, pair_columns
from context_tui.tui.saving import notify_briefly
from context_tui.tui.terminal.cells import shorten_at_word
from context_tui.tui.terminal.themes import MUTED
from context_tui.tui.threads import ThreadJob, WorkErrorHandler, start_work
from context_tui.tui.timeline.rows import Location
from context_tui.tui.widgets.bindings import KeyFooter, read_bindings
from context_tui.tui.widgets.guarded_screens import WaitingScreen, when_ready
from context_tui.tui.widgets.reading_pane import ReadingPane
from context_tui.tui.widgets.styled_text import ClickableLines, LinesPane, Run
from context_tui.tui.widgets.text_screen import HELP_NOTES

MAX_SHOWN_CHARS = 20_000
"""Maximum number of characters of a block that are shown; the inspector shows all."""


class CompactionsScreen(WorkErrorHandler, WaitingScreen[InspectorCommand | None]):
    """A screen that shows a recording's compactions one at a time, each with the messages before and after."""

    CSS_PATH = "compactions.tcss"
    AUTO_FOCUS = "ClickableLines"
    BINDING_GROUP_TITLE = "Before and after"
    help_notes = HELP_NOTES["compactions"]
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-low"), (32, "-high")]
    BINDINGS = read_bindings("compactions")

    def __init__(self, controller: Controller, session: Session) -> None:
        super().__init__()
        self.controller, self.session = controller, session
        self.reader = MessageReader(session)
        self.comparisons: list[CompactionComparison] = []
        self.current_number = 0
        self._shown_position: tuple[int, int] | None = None

    @property
    def is_ready(self) -> bool:
        return bool(self.comparisons)

    @property
    def comparison(self) -> CompactionComparison:
        """The comparison for the shown compaction."""
        return self.comparisons[self.current_number]

    def compose(self) -> ComposeResult:
        yield LinesPane(self._format_header, id="cuts-header")
        yield LinesPane(self._format_summary, id="cuts-words")
        with Horizontal(id="cuts-top"):
            with Vertical(id="cuts-both"):
                yield LinesPane(self._format_heads, id="cuts-heads")
                yield ClickableLines(self._format_rows, self._click_row, self.action_move, id="cuts-rows")
            yield LinesPane(self._format_categories, id="cuts-categories")
        yield ReadingPane(id="cuts-text")
        yield KeyFooter()
        yield Static("context-tui needs 60 columns and 20 lines; enlarge the terminal", id="cuts-tiny", markup=False)

    def _format_header(self, width: int, _: int) -> list[list[Run]]:
        return [texts.format_header(self.comparison, width)] if self.comparisons else [[("Before and after", "bold")]]

    def _format_summary(self, width: int, _: int) -> list[list[Run]]:
        if not self.comparisons:
            return [[("reading the compactions…", MUTED)]]
        return texts.format_summary(self.comparison, width)

    def _format_heads(self, width: int, _: int) -> list[list[Run]]:
        return [texts.format_column_heads(width, self.comparison.use_width if self.comparisons else 0)]

    def _format_rows(self, width: int, height: int) -> list[list[Run]]:
        return texts.format_rows(self.comparison, self.reader.format_preview, width, height) if self.comparisons else []

    def _format_categories(self, width: int, _: int) -> list[list[Run]]:
        return texts.format_categories(self.comparison, width) if self.comparisons else []

    def on_mount(self) -> None:
        known_table = self.controller.calibrated_table

        def work(job: ThreadJob) -> None:
            compactions = find_recorded_compactions(self.session)
            self.call_later(self._show_compactions, compactions)
            table = known_table or build_calibrated_table(self.session.facts, job.checkpoint)
            self.call_later(self._show, "predicted_size", [predict_size_after(each, table) for each in compactions])
            uses = build_use_index(self.session, job.checkpoint)
            self.call_later(self._show, "reused_blocks", [find_reused_blocks(each, uses) for each in compactions])
            by_place = {(each.message, each.kind): each for each in measure_aftermaths(self.session, job.checkpoint)}
            self.call_later(self._show, "aftermath", [by_place.get((each.message, each.kind)) for each in compactions])
            by_message = {each.message: each for each in follow_instructions(self.session, job.checkpoint)}
            none_found = CompactionInstructions(-1, ())
            found = (by_message.get(each.message) if each.kind == "full" else None for each in compactions)
            self.call_later(self._show, "instructions", [each or none_found for each in found])

        start_work(self, "compactions", "read the compactions", work)

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width < 60 or event.size.height < 20, "-tiny")
        self._shown_position = None
        self.call_after_refresh(self.draw)

    def _show_compactions(self, compactions: Sequence[RecordedCompaction]) -> None:
        count = len(compactions)
        self.comparisons = [CompactionComparison(each, number, count) for number, each in enumerate(compactions)]
        selected = self.controller.view.cursor.message
        earlier = (number for number, compaction in enumerate(compactions) if compaction.message <= selected)
        self.current_number = max(earlier, default=0)
        self.run_waiting_actions()
        self.draw()

    def _show(self, name: str, values: Sequence[object]) -> None:
        for comparison, value in zip(self.comparisons, values, strict=True):
            setattr(comparison, name, value)
        self.draw()

    def draw(self) -> None:
        """Draw the shown compaction."""
        summary = self.query_one("#cuts-words")
        summary.styles.height = len(self._format_summary(summary.content_size.width or self.size.width - 2, 0))
        for each in self.query(LinesPane):
            each.refresh()
        if self.comparisons and self._shown_position != (self.current_number, self.comparison.cursor):
            self._shown_position = (self.current_number, self.comparison.cursor)
            self.query_one(ReadingPane).show(self._build_text_parts())

    def _build_text_parts(self) -> Iterator[TextPart]:
        message, summary = self.comparison.message, self.comparison.compaction.summary_message
        if message < 0:
            return iter([TextPart("The context before this compaction is not in the file.", "muted")])
        parts = self._build_message_parts(message)
        if summary is None or summary == message:
            return parts
        join = pair_columns if self.size.width >= 100 else chain
        return join(parts, self._build_message_parts(summary))

    def _build_message_parts(self, message: int) -> Iterator[TextPart]:
        facts, comparison = self.session.facts, self.comparison
        removed_blocks = set(comparison.compaction.removed_blocks)
        kind, text = texts.describe_message(facts, message, self.reader.format_preview)
        yield TextPart(shorten_at_word(f"#{message:,} {kind} {text}", 200), "heading")
        for reused in comparison.reused_by_message.get(message, ()):
            messages = ", ".join(f"#{facts.block_message[row]:,}" for row in reused.row_copies)
            copies = f", still in the context in {messages}" if messages else ""
            use = reused.use
            yield TextPart(f"used at #{use.message:,} ({use.tier}){copies}: {use.evidence}", "muted")
        if self.reader.is_huge(message):
            yield TextPart("(a large message; press enter to read it in the inspector)", "muted")
            return
        for row, block in zip(facts.blocks_of(message), self.reader.read_blocks(message), strict=False):
            if row in removed_blocks:
                yield TextPart(f"lost, {comparison.compaction.count_block_tokens(row):,} est. tokens", "muted")
            text = format_block(block)
            if len(text) > MAX_SHOWN_CHARS:
                text = f"{text[:MAX_SHOWN_CHARS]}\n… {len(text) - MAX_SHOWN_CHARS:,} more characters"
            yield TextPart(f"{text}\n")

    # Keys

    @when_ready
    def action_move(self, step: int) -> None:
        self.comparison.move_cursor(step)
        self.draw()

    @when_ready
    def action_move_to_compaction(self, step: int) -> None:
        number, direction = self.current_number + step, "after" if step > 0 else "before"
        if 0 <= number < len(self.comparisons):
            self.current_number = number
            self.draw()
        elif len(self.comparisons) == 1:
            notify_briefly(self, "The session has only one compaction")
        else:
            notify_briefly(self, f"No compaction {direction} this one")

    @when_ready
    def action_move_to_reused(self, step: int) -> None:
        if self.comparison.reused_blocks is None:
            notify_briefly(self, "Still looking for what was used later")
        elif self.comparison.move_to_reused(step):
            self.draw()
        else:
            notify_briefly(self, "Nothing that this compaction removed was used later, as far as the recording shows")

    @when_ready
    def action_instructions(self) -> None:
        if self.comparison.instructions is None:
            notify_briefly(self, "Still looking for instructions")
        elif not self.comparison.instructions.traces:
            notify_briefly(self, "No instruction was found before this compaction")
        else:
            self.app.push_screen(build_instructions_screen(self.comparison.instructions))

    def _click_row(self, line: int, _: int, is_double: bool) -> None:
        if self.comparisons:
            height, count = self.query_one(ClickableLines).content_size.height, len(self.comparison.rows)
            if 0 <= line < min(height, count):
                self.comparison.cursor = self.comparison.compute_first_row(height) + line
                self.draw()

    @when_ready
    def action_inspect(self) -> None:
        self._close_at_message(self.comparison.message, self.comparison.compaction.message)

    @when_ready
    def action_open_use(self) -> None:
        reused_blocks = self.comparison.reused_by_message.get(self.comparison.message)
        if not reused_blocks:
            notify_briefly(self, "This message was not used later, as far as the recording shows")
        else:
            self._close_at_message(reused_blocks[0].use.message, reused_blocks[0].use.message)

    def _close_at_message(self, message: int, point: int) -> None:
        def go() -> str:
            if point:
                self.controller.plan_before(point)
            return self.controller.select_location(Location(message, -1)) if message >= 0 else ""

        self.dismiss(go)


def build_screen(controller: Controller) -> CompactionsScreen:
    """Return the screen for the compactions read so far, or raise CommandRefused if there are none."""
    session = controller.recorded_session
    if not session.facts.compactions and not any(drop.cleared_blocks for drop in session.drops):
        raise CommandRefused("This recording holds no compaction")
    return CompactionsScreen(controller, session)
