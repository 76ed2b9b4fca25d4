"""Header of the inspector: the session, what fills its context and what can go, a gauge, and its requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import PurePath

from textual import events

from context_tui.lab.fullness import Fullness, format_level
from context_tui.session.context import Context
from context_tui.session.session import Session
from context_tui.session.window import Window
from context_tui.text.numbers import format_count, format_percent
from context_tui.text.sanitize import make_visible
from context_tui.tokens.context_size import SizeSource, measure_context
from context_tui.tokens.measures import TokenTable
from context_tui.tui.inspector.request_history import (
    RequestHistory,
    build_request_history,
    find_message_at_cell,
    format_history_line,
)
from context_tui.tui.terminal.themes import BAD, BOLD, GOOD, MUTED, PRIMARY, WARN
from context_tui.tui.timeline.turns import count_context, find_turn_starts, format_context_counts
from context_tui.tui.widgets import styled_text
from context_tui.tui.widgets.gauge import CATEGORY_STYLES, draw_gauge

MIN_HISTORY_WIDTH = 24
"""Minimum width in cells of the chart of recorded sizes; the texts beside it are shortened to make room."""
ANSWER_LINES, WIDE_ANSWER_LINES, WIDE_FROM = 3, 2, 108
"""Maximum number of lines of the answer: in a narrow header, and in one of at least ``WIDE_FROM`` cells."""
ANSWER_VARIANTS = (
    *((10, 3, False, False), (10, 2, False, False), (5, 2, False, False), (5, 2, True, False), (4, 2, True, False)),
    *((4, 2, True, True), (3, 2, True, True), (4, 1, True, True), (3, 1, True, True), (3, 0, True, True)),
    *((2, 0, True, True), (1, 0, True, True)),
)
"""Numbers of parts and of tools that the answer names, and whether parts have short names and effects no notes, the
longest variant first."""
Line = list[styled_text.Run]


def format_window_source(window: Window, width: int) -> str:
    """Format a note on how the window size was guessed, or "" if it was not guessed."""
    if window.source not in ("assumed", "inferred"):
        return ""
    if width < 72:
        return f"window {window.source}: w"
    return f"window {window.source if width < 100 else f'{window.tokens:,} {window.source}'}: w sets it"


def format_window_alternatives(window: Window) -> str:
    """Format a note on other window sizes that the model may have, or "" if there are none or the size is a guess."""
    sizes = " or ".join(f"{tokens:,}" for tokens in window.alternatives)
    return f"the window may be {sizes}: w sets it" if sizes and not format_window_source(window, 100) else ""


def format_answer_variants(
    tokens: int, window: int, origin: SizeSource, fullness: Fullness | None
) -> Iterator[list[Line]]:
    """Yield variants of a text on how full the context is, with the reasons if *fullness* is known, longest first."""
    level = _split_words(f"{format_level(tokens, window, origin)}.", f"bold {BAD}" if tokens > window else BOLD)
    if fullness is None:
        yield level
        return
    for part_count, tool_count, is_short, is_brief in ANSWER_VARIANTS:
        words, parts = list(level), fullness.list_parts(part_count)
        for part in parts:
            style = CATEGORY_STYLES.get(part.category)
            text = part.format(tool_count, style.short if style and is_short else "")
            first, *rest = _split_words(f"{text}{'.' if part is parts[-1] else ','}", "")
            words += [[(f"{style.pattern} ", style.style), *first] if style else first, *rest]
        yield words + _split_words(" ".join(fullness.format_forecast(brief=is_brief)), BOLD)


def _split_words(text: str, style: str) -> list[Line]:
    return [[(word, style)] for word in text.replace(" %", "\u00a0%").split(" ") if word]


class HeaderBar(styled_text.LinesPane):
    """A header with the session's name, what fills its context, a gauge, and a chart of the recorded sizes.

    If there are too few lines, the chart of recorded sizes is left out first, then the gauge.
    """

    DEFAULT_CSS = "HeaderBar { height: 5; }"

    def __init__(self, choose_message: Callable[[int], object], *, id: str | None = None) -> None:
        """Create a header; clicking on a request, drop or new context calls *choose_message* with its message."""
        super().__init__(self._build_lines, id=id)
        self._choose_message = choose_message
        self.session: Session | None = None
        self._request_history = RequestHistory((), ())
        self._starts: list[int] = []
        self._shown_context: Context | None = None
        self._token_table: TokenTable | None = None
        self._progress, self._is_following = 1.0, False
        self._read_messages: int | None = None
        self._fullness: Fullness | None = None
        self._columns, self._history_row = range(0), -1
        self._early_at = -1
        self._early_fullness: Fullness | None = None

    def show_early_answer(self, at: int, fullness: Fullness) -> None:
        """Show *fullness* while the session is read, and then before message *at*, until a context is measured."""
        self._early_at, self._early_fullness = at, fullness
        self.refresh()

    def show(
        self,
        session: Session,
        context: Context,
        fullness: Fullness | None = None,
        *,
        progress: float = 1.0,
        token_table: TokenTable | None = None,
        following: bool = False,
    ) -> None:
        """Show *session* with *context*, its context at the planning point.

        *fullness* is None until it is computed; if *following*, the last measured point is shown in the meantime.
        """
        shown, old = self._shown_context, self.session
        is_waiting = following and fullness is None and self._fullness is not None
        if is_waiting and old and shown and old.info.path == session.info.path and context.at >= shown.at:
            session, context, token_table, fullness = old, shown, self._token_table, self._fullness
        if session is not self.session:
            # These scan the whole session.
            self.session = session
            self._request_history, self._starts = build_request_history(session), find_turn_starts(session)
        self._shown_context, self._token_table, self._fullness = context, token_table, fullness
        self._progress, self._is_following = progress, following
        self._read_messages = 0 if progress < 1 and not len(session) else None
        if fullness is not None:  # the early answer would be wrong for a copy of the same length
            self._early_fullness = None
        self.refresh()

    def show_progress(self, progress: float, messages: int) -> None:
        """Show how much of the file has been read, as a share (*progress*) and, at first, as a number of *messages*."""
        self._progress = progress
        if self._read_messages is not None:
            self._read_messages = messages
        self.refresh()

    def _format_title_line(
        self, session: Session, context: Context, window: Window, width: int
    ) -> list[styled_text.Run]:
        info, facts = session.info, session.facts
        name = make_visible(PurePath(info.path).name) or info.title or "session"
        session_name = styled_text.format_safe_line(f"{name}#{info.id}" if info.id else name, max(12, width // 3))
        problems = format_count(len(facts.problems), "problem") if facts.problems else ""
        count, source = len(facts.rewound_branches), format_window_source(window, width)
        branches = format_count(count, "rewound branch", "rewound branches") if count else ""
        end_run: styled_text.Run = ("● following", GOOD) if self._is_following else ("at the end", "")
        end: styled_text.Run = (
            end_run if self._progress >= 1 else (f"{format_percent(self._progress)} read", f"bold {WARN}")
        )
        point: styled_text.Run = end if context.at >= len(session) else (f"before #{context.at:,}", f"bold {WARN}")
        texts = filter(None, (session_name, problems, source, point[0]))
        occupied_cells = sum(styled_text.count_cells([(text, "")]) + 2 for text in texts)
        if self._read_messages is None:
            counts = count_context(context, self._starts)
            context_text = format_context_counts(counts, len(session), len(self._starts), width - occupied_cells - 1)
        else:
            context_text = f"{format_count(self._read_messages, 'message')} so far" if self._read_messages else ""
        ranks: list[tuple[int, styled_text.Run]] = [
            (10, (session_name, BOLD)),
            (4, (f"compacted by {styled_text.format_safe_line(session.origin, 24)}" if session.origin else "", GOOD)),
            (3, (styled_text.format_safe_line(info.format, 24), MUTED)),
            (5, (styled_text.format_safe_line(facts.model or "", 32), PRIMARY)),
            (7, (" " + context_text, "")),
            (8, (problems, WARN)),
            (4, (branches, MUTED)),
            (8, (source, WARN)),
            (1, (format_window_alternatives(window), MUTED)),
        ]
        return styled_text.justify_runs([part for part in ranks if part[1][0].strip()], [point], width)

    def _build_lines(self, width: int, height: int) -> list[list[styled_text.Run]]:
        session, context = self.session, self._shown_context
        if session is None or context is None:
            return []
        account, window = measure_context(context, self._token_table), session.window_at(context.at)
        lines = [self._format_title_line(session, context, window, width)]
        self._columns = range(0)
        tokens, origin, fullness, early = account.tokens, account.origin, self._fullness, self._early_fullness
        if early and not fullness and (self._progress < 1 or (self._early_at, early.window) == (context.at, window)):
            fullness = early
        elif self._read_messages is not None:
            return lines
        if fullness:  # a followed context may have grown since
            tokens, window, origin = fullness.tokens, fullness.window, fullness.origin
        room, answer = height - 2 if height > 3 else height - 1, list[Line]()  # the gauge has a line
        for variant in format_answer_variants(tokens, window.tokens, origin, fullness):
            answer = styled_text.wrap_parts(variant, width, gap=1)
            if len(answer) <= min(room, ANSWER_LINES if width < WIDE_FROM else WIDE_ANSWER_LINES):
                break
        lines += styled_text.clip_lines(answer, max(room, 1), width)
        if len(lines) < height:
            parts = fullness.parts if fullness else ()
            lines.append(draw_gauge(tokens, window.tokens, parts, width))
        if len(lines) < height and self._read_messages is None:
            self._history_row, min_width = len(lines), max(MIN_HISTORY_WIDTH, width // 3)
            history = self._request_history
            line, self._columns = format_history_line(history, width, window.tokens, context.at, min_width)
            lines.append(line)
        return lines

    def on_click(self, event: events.Click) -> None:
        cell = event.x - self.gutter.left
        if self._shown_context and event.y - self.gutter.top == self._history_row and cell in self._columns:
            width, cell = len(self._columns), cell - self._columns.start
            message = find_message_at_cell(self._request_history, width, self._shown_context.at, cell)
            if message is not None:
                self._choose_message(message)
