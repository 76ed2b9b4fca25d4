"""How the rows of settings look: pure lines of runs for a width, and where on them a click meets a slider.

A row is a mark, the name, the slider and the value; names, sliders and numbers stand in columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.cells import cell_len

from context_tui.policies.parameters import Parameter
from context_tui.policies.scales import format_number
from context_tui.tui.widgets.draw import BOLD, HUE, MUTED, Run, cells, flow, pad, short
from context_tui.tui.widgets.setting_lists import Spot, items, items_of, keys_words, list_words
from context_tui.tui.widgets.sliders import track

MARK, LEAST_TRACK, MAX_TRACK = 2, 5, 34


@dataclass(frozen=True)
class Columns:
    """Where things stand on a row: cells of the name, the slider, the value and the unit."""

    label: int
    track: int
    value: int
    unit: int

    @property
    def track_at(self) -> int:
        """The first cell of the slider."""
        return MARK + self.label + 1


def columns_for(controls: Sequence[Parameter], values: dict[str, Any], width: int) -> Columns:
    """The columns for these settings in *width* cells; where it is narrow the unit goes first, then the slider, and
    names are cut last.
    """
    label = max((cell_len(control.label) for control in controls), default=0)
    value = max((len(value_words(control, values[control.name])) for control in controls if control.scale), default=4)
    unit = max((cell_len(_unit(control)) for control in controls if control.scale), default=0)
    room = width - MARK - 1 - label - 1 - value
    if room - unit - 1 < 2 * LEAST_TRACK + 1:
        unit = 0
    room -= unit + 1 if unit else 0
    if room < LEAST_TRACK:
        label, room = max(6, label + min(room, 0)), 0
    return Columns(label, min(room, MAX_TRACK), value, unit)


def _unit(control: Parameter) -> str:
    return "" if control.refers_to == "message" else control.unit


def value_words(control: Parameter, value: Any) -> str:
    """A number's value; one that is derived stands in brackets."""
    if value is None:
        return "none" if control.implied_value is None else f"({format_number(control.implied_value)})"
    if control.refers_to == "message":
        return f"#{format_number(value)}"
    return format_number(value)


def row(control: Parameter, value: Any, columns: Columns, width: int, chosen: bool, typed: str | None) -> list[Run]:
    """One setting in *width* cells; *typed* is what has been typed for it so far."""
    name = short(control.label, columns.label).ljust(columns.label)
    runs: list[Run] = [("▸ " if chosen else "  ", f"bold {HUE}"), (name, BOLD if chosen else ""), (" ", "")]
    if control.kind == "list":
        return pad([*runs, (list_words(control, value, width - cells(runs)), BOLD if chosen else "")], width)
    if control.kind == "switch":
        return pad([*runs, ("[x] on" if value else "[ ] off", HUE if value else MUTED)], width)
    if control.kind == "marks" or control.scale is None:
        return pad([*runs, (marks_words(value, width - cells(runs)), "" if value else MUTED)], width)
    shown = control.get_effective_value(value)
    default = control.implied_value if control.default is None else control.default
    style = HUE if chosen else MUTED
    if not columns.track:
        runs.pop()
    elif shown is not None:
        runs += track(control.scale, shown, default, columns.track, style)
    else:
        runs.append(("─" * columns.track, MUTED))
    if typed is not None:
        runs += [(" ", ""), (f"{typed}▏".rjust(columns.value), f"bold {HUE}")]
    else:
        words = value_words(control, value).rjust(columns.value)
        runs += [(" ", ""), (words, MUTED if value is None else BOLD if value != control.default or chosen else "")]
    if columns.unit:
        runs += [(" ", ""), (_unit(control), MUTED)]
    return pad(runs, width)


def marks_words(marks: Sequence[tuple[int, int]], width: int) -> str:
    """What is marked by hand in *width* cells: how many, and the messages of as many as fit."""
    if not marks:
        return "none marked"
    words = f"{len(marks):,} marked"
    if width < cell_len(words):
        return str(len(marks))
    for at, (message, _) in enumerate(marks):
        more = f"{words}{',' if at else ':'} #{message:,}"
        if len(more) + (2 if at < len(marks) - 1 else 0) > width:
            return f"{words}, …" if at else words
        words = more
    return words


def hint_forms(control: Parameter, value: Any, error: str) -> list[list[list[Run]]]:
    """What the chosen setting is and may be, shorter and shorter; or what is wrong with the typed value."""
    if error:
        return [[[("invalid: ", "bold $text-error"), (error, "$text-error")]]]
    about = control.about
    if control.kind == "marks":
        about = f"results that are cleared{'; backspace unmarks all' if value else ''}"
    elif control.refers_to == "message":
        about = f"{about}{'; backspace takes the cut back' if value is not None else ''}"
    told: list[list[Run]] = [[(about, MUTED)]]
    if control.scale is None:
        return [told]
    if value is None and control.implied_value is not None and control.default is None:
        told = [[(f"not set, so {format_number(control.implied_value)}: {about}", MUTED)]]
    ranges = [control.format_range()]
    if control.default is not None:
        ranges.append(f"default {format_number(control.default)}")
    shown, reach = control.get_effective_value(value), control.scale.track_end
    if shown is not None and control.scale.high > reach <= shown:
        ranges = [
            f"beyond {format_number(reach)} nothing changes; = types more",
            f"beyond {format_number(reach)} nothing changes",
        ]
    forms = [[*told, [(f"({words})".replace(" ", "\u00a0"), MUTED)]] for words in ranges]
    return [*forms, told, [[(about, MUTED)]]]


@dataclass(frozen=True)
class Below:
    """What stands below the rows: lines that stay, lines that scroll with the item under the cursor, and what of these
    can be clicked.
    """

    fixed: list[list[Run]] = field(default_factory=list)
    scrolled: list[list[Run]] = field(default_factory=list)
    spots: list[Spot] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.fixed) + len(self.scrolled)

    def line_of(self, item: int) -> int:
        """The scrolled line on which an item stands."""
        return next((spot.line for spot in self.spots if spot.item == item), 0)


def below(control: Parameter, value: Any, item: int, error: str, width: int, room: int = 99) -> Below:
    """The lines below the rows: the items of a list with the keys for them, or what the chosen setting is, as long as
    it has *room* for lines.
    """
    width -= MARK
    if control.kind == "list" and items_of(control, value):
        keys = keys_words(control, width)
        return Below([[(keys, MUTED)]] if keys else [], *items(control, value, width, item))
    forms = hint_forms(control, value, error)
    whole = (form for form in forms if all(cells(part[:1]) <= width for part in form[1:]))
    flown = [flow(form, width, gap=1) for form in whole]
    return Below(next((lines for lines in flown if len(lines) <= room), flown[-1]))


def lines_of(controls: Sequence[Parameter]) -> list[int | str]:
    """What stands on each line: the number of a setting, or the policy that the next ones belong to."""
    lines: list[int | str] = []
    owner = ""
    for index, control in enumerate(controls):
        if control.owner != owner:
            owner = control.owner
            lines.append(owner)
        lines.append(index)
    return lines
