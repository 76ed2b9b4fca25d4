"""Choose what the timeline lists: by kind, tool, verdict or size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Label, OptionList
from textual.widgets.option_list import Option

from context_tui.session.facts import Facts, Kind
from context_tui.tui.filters import LABELS, Filter
from context_tui.tui.text import line, plural

CATEGORIES = ("user", "assistant", "thinking", "tool_use", "tool_result", "injected", "summary", "image")
VERDICTS = ("cleared", "truncated", "summarised", "dropped", "protected", "kept")
SIZES = (500, 1_000, 5_000, 20_000)

Choice = tuple[str, str | int]


class FilterScreen(ModalScreen[Choice | None]):
    """A list of conditions: (kind, value) of the chosen one, ("", "") for none at all, None when closed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f,q", "dismiss", "close", key_display="esc", id="filter-close", tooltip="Back"),
        Binding("j", "list('cursor_down')", "down", show=False, id="filter-down", tooltip="Next condition"),
        Binding("k", "list('cursor_up')", "up", show=False, id="filter-up", tooltip="Previous condition"),
    ]

    def __init__(self, facts: Facts, now: Filter) -> None:
        super().__init__()
        self._now = now
        self._choices: list[Choice] = []
        self._tools = Counter(facts.tool_name(row) for row, kind in enumerate(facts.kind) if kind == Kind.TOOL_USE)

    def compose(self) -> ComposeResult:
        """The list with a title."""
        with Vertical(id="filters"):
            yield Label("Show only", id="filters-title", markup=False)
            yield OptionList(*self._options(), id="filters-list", markup=False)
            yield Label("enter add or remove   esc close", id="filters-keys", markup=False)

    def _options(self) -> Iterator[Option | None]:
        yield self._option("", "", "everything")
        yield None
        for category in CATEGORIES:
            yield self._option("category", category, LABELS.get(category, category))
        yield None
        for verdict in VERDICTS:
            yield self._option("verdict", verdict, f"verdict: {verdict}")
        yield None
        for size in SIZES:
            yield self._option("min_tokens", size, f"est. {size:,} tokens or more")
        if self._tools:
            yield None
        for tool, calls in self._tools.most_common(40):
            yield self._option("tool", tool, f"tool: {line(tool, 60)}  ({plural(calls, 'call')})")

    def _option(self, kind: str, value: str | int, label: str) -> Option:
        self._choices.append((kind, value))
        chosen = getattr(self._now, kind) == value if kind else not self._now
        return Option(Content(f"{'●' if chosen else ' '} {label}"))

    def action_list(self, action: str) -> None:
        """Move in the list."""
        getattr(self.query_one(OptionList), f"action_{action}")()

    @on(OptionList.OptionSelected)
    def chosen(self, event: OptionList.OptionSelected) -> None:
        """Close with the choice."""
        self.dismiss(self._choices[event.option_index])
