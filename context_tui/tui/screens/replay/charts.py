"""The charts of a comparison, one below the other in the room there is, and which call a click on them means. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from context_tui.tui.screens.replay.comparison import Comparison, Lane
from context_tui.tui.screens.replay.plot import (
    BEGINS,
    FALLS,
    GUTTER,
    LEAST,
    OVER,
    Sawtooth,
    Scale,
    axis,
    chart,
    line_of,
    scale_of,
    signs_at,
    size_at,
    zoomed,
)
from context_tui.tui.screens.replay.telling import lane_title
from context_tui.tui.widgets.draw import Run

OTHERS = LEAST + 3
"""Lines of a chart that is not the selected one: its title, its blocks and its signs."""
HIGH = 12
"""Lines of a chart from which on a threshold is hit on the lines beside it too."""
MAIN = 9
"""Lines of the selected one that the others leave it."""


@dataclass(frozen=True)
class Place:
    """Where the chart of a policy is: its number, its first line, and how many lines; the title is one of them."""

    number: int
    top: int
    height: int


@dataclass(frozen=True)
class Line:
    """The threshold of a policy in its chart: its number, the line, and its size in tokens."""

    number: int
    y: int
    tokens: int


@dataclass(frozen=True, eq=False)
class Charts:
    """What was drawn: the lines, where each chart is, and the scale of all (None: nothing was drawn)."""

    lines: Sequence[Sequence[Run]]
    places: Sequence[Place] = ()
    scale: Scale | None = None
    signs: frozenset[str] = frozenset()
    traced: bool = False
    thresholds: Sequence[Line] = ()

    def call_at(self, x: int) -> int | None:
        """The call of a column."""
        if self.scale is None or not GUTTER <= x < GUTTER + self.scale.width:
            return None
        return self.scale.calls_at(x - GUTTER).start

    def threshold_at(self, y: int) -> Line | None:
        """The threshold on a line, or in a high chart on one beside it."""
        place = next((place for place in self.places if place.number == self.number_at(y)), None)
        near = int(place is not None and place.height >= HIGH)
        found = [each for each in self.thresholds if abs(each.y - y) <= near and each.number == self.number_at(y)]
        return min(found, key=lambda each: abs(each.y - y), default=None)

    def size_at(self, number: int, y: int) -> int | None:
        """The size in tokens of a line in the chart of a policy; beyond that, of its ends."""
        place = next((place for place in self.places if place.number == number), None)
        if place is None or self.scale is None:
            return None
        top, rows = _blocks(place, len(self.places) > 1)
        return size_at(y - top, self.scale, rows)

    def number_at(self, y: int) -> int | None:
        """The policy of a line."""
        return next((place.number for place in self.places if place.top <= y < place.top + place.height), None)


def sawtooth(comparison: Comparison, lane: Lane) -> Sawtooth | None:
    """What is drawn of a policy; None until it is known."""
    made, recording = lane.made, comparison.recording
    if made is None or recording is None:
        return None
    undone = comparison.recorded == "ignore" and bool(comparison.events)
    signs = {
        call: BEGINS if any(event.begins_context for event in events) else FALLS
        for call, events in comparison.events.items()
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


def placed(shown: Sequence[int], selected: int, height: int) -> list[Place]:
    """Places for the charts of these policies, the selected one in any case, and the largest."""
    room = max(height - MAIN, 0) // OTHERS
    at = shown.index(selected)
    first = max(min(at - room // 2, len(shown) - room - 1), 0)
    chosen = shown[first : first + room + 1]
    if len(chosen) == 1:
        return [Place(selected, 0, height)]
    # What is left of the height after the least goes to all, twice as much of it to the selected one.
    spare = height - MAIN - OTHERS * (len(chosen) - 1)
    more = spare // (len(chosen) + 1)
    places, top = list[Place](), 0
    for number in chosen:
        lines = OTHERS + more if number != selected else height - (OTHERS + more) * (len(chosen) - 1)
        places.append(Place(number, top, lines))
        top += lines
    return places


def _blocks(place: Place, titled: bool) -> tuple[int, int]:
    """The first line of the blocks of a chart, and how many lines they have; the signs are one more."""
    return place.top + titled, place.height - titled - 1


def charts_of(comparison: Comparison, zoom: int, width: int, height: int) -> Charts:
    """The charts in *height* lines, the last of them the axis."""
    drawn = {number: saw for number, lane in enumerate(comparison.lanes) if (saw := sawtooth(comparison, lane))}
    recording = comparison.recording
    if comparison.selected not in drawn or recording is None or not recording.calls or width <= GUTTER or height < 3:
        return Charts([])
    cursor = comparison.call
    scale = scale_of([*drawn.values()], width, zoomed(comparison.calls, cursor, zoom))
    places = placed([*drawn], comparison.selected, height - 1)
    lines: list[Sequence[Run]] = []
    signs = set[str]()
    thresholds = list[Line]()
    for place in places:
        saw = drawn[place.number]
        titled = len(places) > 1
        if titled:
            lines.append(lane_title(comparison.lanes[place.number], place.number == comparison.selected, width))
        lines += chart(saw, scale, place.height - titled, cursor)
        top, rows = _blocks(place, titled)
        sizes = (size for size in saw.thresholds if 0 < size <= scale.most)
        thresholds += (Line(place.number, top + line_of(size, scale, rows), size) for size in sizes)
        signs |= {signs_at(saw, scale.calls_at(x)) for x in range(scale.width)}
        signs |= {OVER} if any(size > window for size, window in zip(saw.sizes, saw.windows, strict=True)) else set()
    lines.append(axis([call.message for call in recording.calls], scale, cursor))
    traced = any(saw.recorded for saw in drawn.values())
    return Charts(lines, places, scale, frozenset(signs), traced, thresholds)
