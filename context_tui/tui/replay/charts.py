"""Charts of a comparison, stacked in the available height, and the lookup of calls and thresholds in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import gt
from typing import NamedTuple

from context_tui.lab.price.breaks import MIN_COSTLY_TOKENS
from context_tui.tui.comparison import Lane, PolicyComparison
from context_tui.tui.replay import sawtooth
from context_tui.tui.replay.formatting import format_lane_title
from context_tui.tui.widgets.styled_text import Run

OTHER_CHART_LINES = sawtooth.MIN_CHART_LINES + 3
"""Lines of a chart that is not selected: its title, bars and signs."""
MIN_TOLERANT_LINES = 12
"""Minimum height of a chart in which a click next to a threshold hits it too."""
SELECTED_CHART_LINES = 9
"""Minimum height of the selected chart beside others."""


class ChartPlace(NamedTuple):
    """The place of a policy's chart on screen: the policy's number, first line, and height including the title."""

    number: int
    top: int
    height: int


class ThresholdLine(NamedTuple):
    """A threshold drawn in a chart: the policy's number, the line on screen, and the threshold in tokens."""

    number: int
    y: int
    tokens: int


@dataclass(frozen=True, eq=False)
class Charts:
    """The drawn charts: lines, places, common scale (None if there is no chart), signs that occur, and thresholds."""

    lines: Sequence[Sequence[Run]]
    places: Sequence[ChartPlace] = ()
    scale: sawtooth.ChartScale | None = None
    signs: frozenset[str] = frozenset()
    thresholds: Sequence[ThresholdLine] = ()

    def find_call(self, x: int) -> int | None:
        """Return the call at column *x*, or None if the column is outside the charts."""
        if self.scale is None or not sawtooth.GUTTER <= x < sawtooth.GUTTER + self.scale.width:
            return None
        return self.scale.get_calls(x - sawtooth.GUTTER).start

    def find_threshold(self, y: int) -> ThresholdLine | None:
        """Return the threshold at line *y* or, in a tall chart, one line above or below; None if there is none."""
        place = self._find_place(y)
        if place is None:
            return None
        tolerance = int(place.height >= MIN_TOLERANT_LINES)
        lines = [line for line in self.thresholds if abs(line.y - y) <= tolerance and line.number == place.number]
        return min(lines, key=lambda line: abs(line.y - y), default=None)

    def compute_size(self, number: int, y: int) -> int | None:
        """Return the size in tokens at line *y* of a policy's chart, clamped to its ends; None if it is not drawn."""
        place = next((place for place in self.places if place.number == number), None)
        if place is None or self.scale is None:
            return None
        top, rows = _compute_block_lines(place, len(self.places) > 1)
        return sawtooth.compute_size_at_line(y - top, self.scale, rows)

    def find_lane_number(self, y: int) -> int | None:
        """Return the number of the policy whose chart covers line *y*, or None if no chart does."""
        place = self._find_place(y)
        return place.number if place else None

    def _find_place(self, y: int) -> ChartPlace | None:
        return next((place for place in self.places if place.top <= y < place.top + place.height), None)


def build_sawtooth(comparison: PolicyComparison, lane: Lane) -> sawtooth.Sawtooth | None:
    """Return the chart data for a policy, or None if its replay is not finished."""
    result, recording = lane.result, comparison.recording
    if result is None or recording is None:
        return None
    replay, is_undone = result.replay, comparison.settings.recorded == "ignore" and bool(comparison.context_events)
    signs = {
        call: sawtooth.COMPACTION_SIGN if any(event.begins_context for event in events) else sawtooth.CLEARING_SIGN
        for call, events in comparison.context_events.items()
    }
    return sawtooth.Sawtooth(
        replay.sizes,
        replay.baseline,
        recording.recorded_sizes if is_undone else (),
        replay.windows,
        result.thresholds,
        frozenset(firing.call for firing in replay.firings),
        signs,
        frozenset(call for call, each in comparison.cache_breaks.items() if each.tokens >= MIN_COSTLY_TOKENS),
    )


def place_charts(numbers: Sequence[int], selected: int, height: int) -> list[ChartPlace]:
    """Return places for as many charts as fit in *height* lines; the selected policy's chart is the tallest of them."""
    other_count = max(height - SELECTED_CHART_LINES, 0) // OTHER_CHART_LINES
    index = numbers.index(selected)
    first = max(min(index - other_count // 2, len(numbers) - other_count - 1), 0)
    visible = numbers[first : first + other_count + 1]
    if len(visible) == 1:
        return [ChartPlace(selected, 0, height)]
    # The spare lines are shared; the selected chart gets two shares.
    spare = height - SELECTED_CHART_LINES - OTHER_CHART_LINES * (len(visible) - 1)
    other_lines = OTHER_CHART_LINES + spare // (len(visible) + 1)
    places, top = list[ChartPlace](), 0
    for number in visible:
        lines = other_lines if number != selected else height - other_lines * (len(visible) - 1)
        places.append(ChartPlace(number, top, lines))
        top += lines
    return places


def _compute_block_lines(place: ChartPlace, has_title: bool) -> tuple[int, int]:
    """Return the first line of a chart's bars and the number of lines, without the title and the line of signs."""
    return place.top + has_title, place.height - has_title - 1


def draw_charts(comparison: PolicyComparison, zoom: int, width: int, height: int) -> Charts:
    """Draw the charts in *height* lines, with their common axis in the last line."""
    lanes = enumerate(comparison.lanes)
    sawtooths = {number: chart for number, lane in lanes if (chart := build_sawtooth(comparison, lane))}
    recording, selected, cursor = comparison.recording, comparison.selected_number, comparison.call
    if selected not in sawtooths or recording is None or not recording.calls or width <= sawtooth.GUTTER or height < 3:
        return Charts([])
    calls = sawtooth.compute_zoom_range(comparison.call_count, cursor, zoom)
    scale = sawtooth.build_scale([*sawtooths.values()], width, calls)
    places = place_charts([*sawtooths], selected, height - 1)
    lines: list[Sequence[Run]] = []
    signs = set[str]()
    thresholds = list[ThresholdLine]()
    has_titles = len(places) > 1
    for place in places:
        chart = sawtooths[place.number]
        if has_titles:
            lines.append(format_lane_title(comparison.lanes[place.number], place.number == selected, width))
        lines += sawtooth.draw_sawtooth(chart, scale, place.height - has_titles, cursor)
        top, rows = _compute_block_lines(place, has_titles)
        for size in chart.thresholds:
            if 0 < size <= scale.max_tokens:
                line = top + sawtooth.compute_line(size, scale, rows)
                thresholds.append(ThresholdLine(place.number, line, size))
        signs |= {sawtooth.choose_sign(chart, scale.get_calls(x)) for x in range(scale.width)}
        if any(map(gt, chart.sizes, chart.windows)):
            signs.add(sawtooth.OVERFLOW_SIGN)
    lines.append(sawtooth.draw_axis([call.message for call in recording.calls], scale, cursor))
    if any(chart.recorded_sizes for chart in sawtooths.values()):
        signs.add(sawtooth.TRACE)
    return Charts(lines, places, scale, frozenset(signs), thresholds)
