"""A slider: the track of a parameter's scale, and where on it a value or a click stands. Pure, without Textual."""

from __future__ import annotations

from context_tui.policies.scales import Number, Scale
from context_tui.tui.widgets.draw import MUTED, Run


def find_knob_cell(scale: Scale, value: Number, width: int) -> int:
    """Cell of a track of *width* cells (with its two ends) at which a value stands."""
    return 1 + round(scale.compute_share(value) * max(width - 3, 0))


def find_value_at_cell(scale: Scale, cell: int, width: int) -> Number:
    """The value at a cell of a track; its ends are one cell each."""
    return scale.find_value((cell - 1) / max(width - 3, 1))


def draw_track(scale: Scale, value: Number, default: Number | None, width: int, style: str) -> list[Run]:
    """The track in exactly *width* cells: ``◀━━●━━┴━▶``, with a tick at the default."""
    if width < 3:
        return [("●".ljust(width)[:width], style)]
    knob = find_knob_cell(scale, value, width)
    tick = find_knob_cell(scale, default, width) if default is not None else -1
    line = ["┴" if cell == tick else "━" if cell < knob else "─" for cell in range(1, width - 1)]
    before, after = "".join(line[: knob - 1]), "".join(line[knob:])
    return [("◀", MUTED), (before, style), ("●", f"bold {style}"), (after, MUTED), ("▶", MUTED)]
