"""Choose what the timeline lists: by kind, verdict, size or tool, each with how many rows it would list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Label, OptionList
from textual.widgets.option_list import Option

from context_tui.session.facts import Facts
from context_tui.tui.filter_counts import FilterCounts
from context_tui.tui.filters import NO_FILTER, ROW_KINDS, SIZE_STEPS, RowFilter, get_kind_label
from context_tui.tui.marks import VERDICT_GLYPHS
from context_tui.tui.text import format_line, pluralize
from context_tui.tui.widgets.draw import MUTED, Run, content, pad, short, short_path

AT_ONCE, SLICE, PAUSE = 0.02, 0.008, 0.01
"""Seconds that are counted before the list is shown, then in one go, and between two of these: keys come first."""
WIDTH, COUNT = 48, 9
"""Cells of a choice, and of the number at its end."""
AROUND = 8
"""Lines of the dialog that are not the list, and of the screen that are left free."""

Choice = tuple[str, str | int]


class Line(NamedTuple):
    """A line of the list: a condition with its name, or without a choice the head of those below."""

    text: str
    choice: Choice | None = None
    glyph: str = ""


def lines_of(
    facts: Facts, now: RowFilter, verdicts: list[str], policy: str, *, applied: bool = False
) -> Iterator[Line]:
    """What can be chosen.

    Args:
        verdicts: those that rows can have.
        policy: whose they are.
        applied: whether that is what was done.
    """
    yield Line("everything", ("", ""))
    yield Line("kind")
    yield from (Line(get_kind_label(kind), ("category", kind)) for kind in ROW_KINDS)
    yield Line(f"verdict by {policy}{', applied' if applied else ''}")
    yield from (
        Line(get_kind_label(verdict), ("verdict", verdict), VERDICT_GLYPHS.get(verdict, " ")) for verdict in verdicts
    )
    if now.in_context or not {"before", "after"}.isdisjoint(verdicts):
        yield Line("place")
        yield Line("in this context", ("in_context", True))
    yield Line("size")
    yield from (Line(f"{size:,} tokens or more", ("min_tokens", size)) for size in SIZE_STEPS)
    if now.path:
        yield Line("file")
        yield Line(short_path(now.path, WIDTH - COUNT - 4), ("path", now.path))
    used = [tool for tool, _ in Counter(facts.tool).most_common() if tool >= 0]
    yield from [Line("tool: calls and results")] if used else []
    yield from (Line(format_line(facts.tools[tool], 60), ("tool", facts.tools[tool])) for tool in used)


def draw_line(each: Line, chosen: bool, count: int | None) -> list[Run]:
    """A line in ``WIDTH`` cells; without a *count* it is still being counted, and what lists nothing is dim."""
    if each.choice is None:
        return [(f"{each.text} {'─' * (WIDTH - len(each.text) - 6)} rows", MUTED)]
    room = WIDTH - COUNT - 2
    name = f"{each.glyph} {each.text}" if each.glyph else each.text
    number = "…" if count is None else f"{count:,}"
    style = MUTED if count == 0 else "bold" if chosen else ""
    return [("● " if chosen else "  ", "bold"), *pad([(short(name, room), style)], room), (f"{number:>{COUNT}}", style)]


class FilterScreen(ModalScreen[Choice | None]):
    """A list of conditions: (kind, value) of the chosen one, ("", "") for none at all, None when closed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f,q", "dismiss", "close", key_display="esc", id="filter-close", tooltip="Back"),
        Binding("j", "list('cursor_down')", "down", show=False, id="filter-down", tooltip="Next condition"),
        Binding("k", "list('cursor_up')", "up", show=False, id="filter-up", tooltip="Previous condition"),
    ]

    def __init__(self, lines: list[Line], counts: FilterCounts, now: RowFilter, *, ascii: bool = False) -> None:
        super().__init__()
        self._lines, self._counts, self._now, self._ascii = lines, counts, now, ascii
        self._counted = counts.advance(AT_ONCE)

    def compose(self) -> ComposeResult:
        """The list with a title, and below it how much of it is out of sight."""
        with Vertical(id="filters"):
            yield Label(self._title(), id="filters-title", markup=False)
            yield OptionList(*self._options(), id="filters-list", markup=False)
            yield Label("", id="filters-more", markup=False)
            yield Label("enter adds or takes away   esc closes", id="filters-keys", markup=False)

    def on_mount(self) -> None:
        """Count on while nothing is pressed, and follow the list."""
        self.watch(self.query_one(OptionList), "scroll_y", self._tell_more, init=False)
        self._count_on()

    def on_resize(self, event: events.Resize) -> None:
        """The list has the lines that there are."""
        self.query_one(OptionList).styles.max_height = max(event.size.height - AROUND, 3)
        self.call_after_refresh(self._tell_more)

    def _count_on(self) -> None:
        if self._counted:
            return
        self._counted = self._counts.advance(SLICE)
        if self._counted:
            listing = self.query_one(OptionList)
            for number, each in enumerate(self._lines):
                listing.replace_option_prompt_at_index(number, self._prompt(each))
            self.query_one("#filters-title", Label).update(self._title())
        else:
            self.set_timer(PAUSE, self._count_on)

    def _title(self) -> Content:
        if not self._counted:
            return Content("Show only")
        total, shown = self._counts.counted_rows, self._counts.count_matching(self._now)
        told = f"{shown:,} of {pluralize(total, 'row')} shown" if self._now else f"all {pluralize(total, 'row')} shown"
        return content([("Show only", "bold"), (f"   {told}", MUTED)], self._ascii)

    def _options(self) -> Iterator[Option]:
        for each in self._lines:
            yield Option(self._prompt(each), disabled=each.choice is None)

    def _prompt(self, each: Line) -> Content:
        return content(draw_line(each, self._is_on(each.choice), self._count(each.choice)), self._ascii)

    def _is_on(self, choice: Choice | None) -> bool:
        if choice is None:
            return False
        kind, value = choice
        return getattr(self._now, kind) == value if kind else not self._now

    def _count(self, choice: Choice | None) -> int | None:
        """How many rows are listed with a condition on; None before all are counted."""
        if not self._counted or choice is None:
            return None
        if not choice[0]:
            return self._counts.count_matching(NO_FILTER)
        return self._counts.count_matching(self._now if self._is_on(choice) else self._now.toggle_condition(*choice))

    def _tell_more(self) -> None:
        """Say how many choices are above and below what is in sight."""
        listing = self.query_one(OptionList)
        top, height = round(listing.scroll_offset.y), listing.scrollable_content_region.height
        above = sum(each.choice is not None for each in self._lines[:top])
        below = sum(each.choice is not None for each in self._lines[top + height :])
        told = [f"↑ {above} more"] if above else []
        told += [f"↓ {below} more"] if below else []
        self.query_one("#filters-more", Label).update(content([("   ".join(told), "")], self._ascii))

    def action_list(self, action: str) -> None:
        """Move in the list."""
        getattr(self.query_one(OptionList), f"action_{action}")()

    @on(OptionList.OptionSelected)
    def chosen(self, event: OptionList.OptionSelected) -> None:
        """Close with the choice; one that would list nothing is told of instead."""
        choice = self._lines[event.option_index].choice
        if choice and choice[0] and not self._is_on(choice) and self._count(choice) == 0:
            besides = " besides what is chosen" if self._now else ""
            self.query_one("#filters-more", Label).update(content([(f"no row is that{besides}", "")], self._ascii))
        else:
            self.dismiss(choice)
