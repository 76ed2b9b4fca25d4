"""Stack the charts of a comparison in the height available, and map clicks on them to calls and thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from context_tui.tui.comparison import Comparison, Lane
from context_tui.tui.replay.formatting import format_lane_title
from context_tui.tui.replay.sawtooth import (
    CLEARING_SIGN,
    COMPACTION_SIGN,
    GUTTER,
    MIN_CHART_LINES,
    OVERFLOW_SIGN,
    ChartScale,
    Sawtooth,
    build_scale,
    choose_sign,
    compute_line,
    compute_size_at_line,
    compute_zoom_range,
    draw_axis,
    draw_chart,
)
from context_tui.tui.widgets.styled_text import Run

OTHER_CHART_LINES = MIN_CHART_LINES + 3
"""Lines of a chart that is not the selected one: its title, its blocks and its signs."""
MIN_TOLERANT_LINES = 12
"""Lines of a chart from which on a threshold is hit on the lines beside it too."""
SELECTED_CHART_LINES = 9
"""Lines of the selected one that the others leave it."""


@dataclass(frozen=True)
class ChartPlace:
    """Place of a policy's chart: its number, its first line, and its lines including the title."""

    number: int
    top: int
    height: int


@dataclass(frozen=True)
class ThresholdLine:
    """The threshold of a policy in its chart: its number, the line, and its size in tokens."""

    number: int
    y: int
    tokens: int


@dataclass(frozen=True, eq=False)
class Charts:
    """Drawn charts: the lines, the place of each chart, and the common scale (None: nothing was drawn)."""

    lines: Sequence[Sequence[Run]]
    places: Sequence[ChartPlace] = ()
    scale: ChartScale | None = None
    signs: frozenset[str] = frozenset()
    has_trace: bool = False
    thresholds: Sequence[ThresholdLine] = ()

    def find_call(self, x: int) -> int | None:
        """Return the call of a column."""
        if self.scale is None or not GUTTER <= x < GUTTER + self.scale.width:
            return None
        return self.scale.get_calls(x - GUTTER).start

    def find_threshold(self, y: int) -> ThresholdLine | None:
        """Return the threshold on a line, or in a high chart on an adjacent one."""
        place = next((place for place in self.places if place.number == self.find_lane_number(y)), None)
        near = int(place is not None and place.height >= MIN_TOLERANT_LINES)
        found = [
            each for each in self.thresholds if abs(each.y - y) <= near and each.number == self.find_lane_number(y)
        ]
        return min(found, key=lambda each: abs(each.y - y), default=None)

    def compute_size(self, number: int, y: int) -> int | None:
        """Return the size in tokens of a line in the chart of a policy; beyond that, of its ends."""
        place = next((place for place in self.places if place.number == number), None)
        if place is None or self.scale is None:
            return None
        top, rows = _compute_block_lines(place, len(self.places) > 1)
        return compute_size_at_line(y - top, self.scale, rows)

    def find_lane_number(self, y: int) -> int | None:
        """Return the policy of a line."""
        return next((place.number for place in self.places if place.top <= y < place.top + place.height), None)


def build_sawtooth(comparison: Comparison, lane: Lane) -> Sawtooth | None:
    """Build the sawtooth of a policy; None until it is known."""
    made, recording = lane.result, comparison.recording
    if made is None or recording is None:
        return None
    undone = comparison.recorded_mode == "ignore" and bool(comparison.context_events)
    signs = {
        call: COMPACTION_SIGN if any(event.begins_context for event in events) else CLEARING_SIGN
        for call, events in comparison.context_events.items()
    }
    return Sawtooth(
        made.replay.sizes,
        made.replay.baseline,
        recording.recorded_sizes if undone else (),
        made.replay.windows,
        made.thresholds,
        frozenset(firing.call for firing in made.replay.firings),
        signs,
    )


def place_charts(shown: Sequence[int], selected: int, height: int) -> list[ChartPlace]:
    """Places for the charts of these policies, the selected one in any case, and the largest."""
    room = max(height - SELECTED_CHART_LINES, 0) // OTHER_CHART_LINES
    at = shown.index(selected)
    first = max(min(at - room // 2, len(shown) - room - 1), 0)
    chosen = shown[first : first + room + 1]
    if len(chosen) == 1:
        return [ChartPlace(selected, 0, height)]
    # What is left of the height after the least goes to all, twice as much of it to the selected one.
    spare = height - SELECTED_CHART_LINES - OTHER_CHART_LINES * (len(chosen) - 1)
    more = spare // (len(chosen) + 1)
    places, top = list[ChartPlace](), 0
    for number in chosen:
        lines = (
            OTHER_CHART_LINES + more if number != selected else height - (OTHER_CHART_LINES + more) * (len(chosen) - 1)
        )
        places.append(ChartPlace(number, top, lines))
        top += lines
    return places


def _compute_block_lines(place: ChartPlace, titled: bool) -> tuple[int, int]:
    """Return the first line of the blocks of a chart, and how many lines they have; the signs are one more."""
    return place.top + titled, place.height - titled - 1


def draw_charts(comparison: Comparison, zoom: int, width: int, height: int) -> Charts:
    """Return the charts in *height* lines, the last of them the axis."""
    sawtooths = {
        number: saw for number, lane in enumerate(comparison.lanes) if (saw := build_sawtooth(comparison, lane))
    }
    recording = comparison.recording
    if (
        comparison.selected_number not in sawtooths
        or recording is None
        or not recording.calls
        or width <= GUTTER
        or height < 3
    ):
        return Charts([])
    cursor = comparison.call
    scale = build_scale([*sawtooths.values()], width, compute_zoom_range(comparison.call_count, cursor, zoom))
    places = place_charts([*sawtooths], comparison.selected_number, height - 1)
    lines: list[Sequence[Run]] = []
    signs = set[str]()
    thresholds = list[ThresholdLine]()
    for place in places:
        saw = sawtooths[place.number]
        titled = len(places) > 1
        if titled:
            lines.append(
                format_lane_title(comparison.lanes[place.number], place.number == comparison.selected_number, width)
            )
        lines += draw_chart(saw, scale, place.height - titled, cursor)
        top, rows = _compute_block_lines(place, titled)
        sizes = (size for size in saw.thresholds if 0 < size <= scale.max_tokens)
        thresholds += (ThresholdLine(place.number, top + compute_line(size, scale, rows), size) for size in sizes)
        signs |= {choose_sign(saw, scale.get_calls(x)) for x in range(scale.width)}
        signs |= (
            {OVERFLOW_SIGN}
            if any(size > window for size, window in zip(saw.sizes, saw.windows, strict=True))
            else set()
        )
    lines.append(draw_axis([call.message for call in recording.calls], scale, cursor))
    traced = any(saw.recorded_sizes for saw in sawtooths.values())
    return Charts(lines, places, scale, frozenset(signs), traced, thresholds)
