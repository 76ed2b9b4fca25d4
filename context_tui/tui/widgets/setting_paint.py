"""How the rows of settings look: pure lines of runs for a width, and where on them a click meets a slider.

A row is a mark, the name, the slider and the value; names, sliders and numbers stand in columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len

from context_tui.policies.parameters import Entry, Parameter
from context_tui.policies.scales import number
from context_tui.tui.widgets.draw import BOLD, HUE, MUTED, Run, cells, clip, flow, pad, safe, short
from context_tui.tui.widgets.sliders import track

MARK, MIN_TRACK, MAX_TRACK = 2, 7, 34


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
    """The columns for these settings in *width* cells; the unit goes first when it is narrow, then names are cut."""
    label = max((cell_len(control.label) for control in controls), default=0)
    value = max((len(value_words(control, values[control.name])) for control in controls if control.scale), default=4)
    unit = max((cell_len(control.unit) for control in controls if control.scale), default=0)
    room = width - MARK - 1 - label - 1 - value
    if room - unit - 1 < MIN_TRACK + 4:
        unit = 0
    room -= unit + 1 if unit else 0
    if room < MIN_TRACK:
        label = max(6, label - (MIN_TRACK - room))
        room = MIN_TRACK
    return Columns(label, min(room, MAX_TRACK), value, unit)


def value_words(control: Parameter, value: Any) -> str:
    """A number's value; one that is derived stands in brackets."""
    if value is None:
        return "none" if control.derived is None else f"({number(control.derived)})"
    return number(value)


def row(control: Parameter, value: Any, columns: Columns, width: int, chosen: bool, typed: str | None) -> list[Run]:
    """One setting in *width* cells; *typed* is what has been typed for it so far."""
    name = short(control.label, columns.label).ljust(columns.label)
    runs: list[Run] = [("▸ " if chosen else "  ", f"bold {HUE}"), (name, BOLD if chosen else ""), (" ", "")]
    if control.kind == "list":
        return pad([*runs, (list_words(control.entries, value), BOLD if chosen else "")], width)
    if control.kind == "switch":
        return pad([*runs, ("[x] on" if value else "[ ] off", HUE if value else MUTED)], width)
    if control.kind == "marks" or control.scale is None:
        return pad([*runs, (marks_words(value), "" if value else MUTED)], width)
    shown = control.shown(value)
    default = control.derived if control.default is None else control.default
    style = HUE if chosen else MUTED
    if shown is not None:
        runs += track(control.scale, shown, default, columns.track, style)
    else:
        runs.append(("─" * columns.track, MUTED))
    if typed is not None:
        runs += [(" ", ""), (f"{typed}▏".rjust(columns.value), f"bold {HUE}")]
    else:
        words = value_words(control, value).rjust(columns.value)
        runs += [(" ", ""), (words, MUTED if value is None else BOLD if value != control.default or chosen else "")]
    if columns.unit:
        runs += [(" ", ""), (control.unit, MUTED)]
    return pad(runs, width)


def list_words(entries: Sequence[Entry], chosen: Sequence[str]) -> str:
    """How much of a list is ticked."""
    known = {entry.name for entry in entries}
    absent = sum(1 for name in chosen if name not in known)
    here = f"{len(chosen) - absent} of {len(entries)}"
    return f"{here}, {absent} not here" if absent else here


@dataclass(frozen=True)
class Spot:
    """Where an item of a list stands: its line and its cells."""

    line: int
    start: int
    end: int


def items(entries: Sequence[Entry], chosen: Sequence[str], width: int, at: int) -> tuple[list[list[Run]], list[Spot]]:
    """Things to tick, side by side on as many lines as they take; and where each of them stands."""
    lines: list[list[Run]] = []
    spots: list[Spot] = []
    for index, entry in enumerate(entries):
        box = clip(_box(entry, entry.name in chosen, index == at), width)
        used = cells(lines[-1]) + 2 if lines else 0
        if not lines or used + cells(box) > width:
            lines.append([])
            used = 0
        elif used:
            lines[-1].append(("  ", ""))
        spots.append(Spot(len(lines) - 1, used, used + cells(box)))
        lines[-1] += box
    return lines, spots


def _box(entry: Entry, ticked: bool, here: bool) -> list[Run]:
    style = (HUE if ticked else MUTED) + (" reverse" if here else "")
    name: list[Run] = [(f"[{'x' if ticked else ' '}] {safe(entry.name, 24)}", style)]
    return [*name, (f" {entry.note}", MUTED)] if entry.note else name


def marks_words(value: Any) -> str:
    """What is marked by hand: how many, and which."""
    if not value:
        return "none marked"
    return f"{len(value)}: " + ", ".join(":".join(map(str, mark)) for mark in value)


def hint(control: Parameter, value: Any, error: str) -> list[Run]:
    """What the chosen setting is and may be, or what is wrong with the typed value."""
    if error:
        return [("invalid: ", "bold $text-error"), (error, "$text-error")]
    about = control.about
    if control.kind == "marks":
        about = "press m in the timeline to mark a result; backspace removes all marks"
    elif value is None and control.derived is not None and control.default is None:
        about = f"not set, so {number(control.derived)}: {about}"
    words = control.range_words()
    return [(about, MUTED), *([(f" ({words})", MUTED)] if words else [])]


def below(control: Parameter, value: Any, item: int, error: str, width: int) -> tuple[list[list[Run]], list[Spot]]:
    """The lines below the rows: the items of a list and where they stand, or what the chosen setting is."""
    if control.kind == "list" and control.entries:
        return items(control.entries, value, width - MARK, item)
    return flow([hint(control, value, error)], width - MARK), []


def lines_of(controls: Sequence[Parameter]) -> list[int | str]:
    """What stands on each line: the number of a setting, or the policy of a chain that the next ones belong to."""
    lines: list[int | str] = []
    owner = ""
    for index, control in enumerate(controls):
        if control.owner != owner:
            owner = control.owner
            lines.append(owner)
        lines.append(index)
    return lines
