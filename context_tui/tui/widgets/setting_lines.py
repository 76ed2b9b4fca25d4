"""Lines of policy settings: sliders, values, ticked lists and hints, with their click targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.cells import cell_len

from context_tui.policies.parameters import ListEntry, Parameter
from context_tui.policies.scales import Number, Scale, format_number
from context_tui.tui.widgets.styled_text import (
    BOLD,
    MUTED,
    PRIMARY,
    Run,
    clip_runs,
    count_cells,
    format_safe_line,
    pad_runs,
    shorten,
    wrap_parts,
)


def find_knob_cell(scale: Scale, value: Number, width: int) -> int:
    """Return the cell of a value on a track of *width* cells, with its two ends."""
    return 1 + round(scale.compute_share(value) * max(width - 3, 0))


def find_value_at_cell(scale: Scale, cell: int, width: int) -> Number:
    """Return the value at a cell of a track, whose ends are one cell each."""
    return scale.find_value((cell - 1) / max(width - 3, 1))


def draw_track(scale: Scale, value: Number, default: Number | None, width: int, style: str) -> list[Run]:
    """Draw the track in exactly *width* cells: ``◀━━●━━┴━▶``, with a tick at the default."""
    if width < 3:
        return [("●".ljust(width)[:width], style)]
    knob = find_knob_cell(scale, value, width)
    tick = find_knob_cell(scale, default, width) if default is not None else -1
    line = ["┴" if cell == tick else "━" if cell < knob else "─" for cell in range(1, width - 1)]
    before, after = "".join(line[: knob - 1]), "".join(line[knob:])
    return [("◀", MUTED), (before, style), ("●", f"bold {style}"), (after, MUTED), ("▶", MUTED)]


ENTRY_GAP = 2
"""Cells between two items of a line."""
MOVE_EARLIER_GLYPH, MOVE_LATER_GLYPH = "◀", "▶"


@dataclass(frozen=True)
class ClickTarget:
    """Clickable cells of an item; ``moves`` is the number of places to move it, 0 to tick it."""

    item: int
    line: int
    start: int
    end: int
    moves: int = 0


def list_entries(parameter: Parameter, chosen: Sequence[str]) -> list[ListEntry]:
    """Return the entries that can be ticked, as listed."""
    if not parameter.ordered:
        return list(parameter.entries)
    known = {entry.name: entry for entry in parameter.entries}
    rest = (entry for entry in parameter.entries if entry.name not in chosen)
    return [*(known.get(name, ListEntry(name)) for name in chosen), *rest]


def toggle_entry(chosen: Sequence[str], name: str) -> tuple[str, ...]:
    """Remove an entry from the list, or append it."""
    return tuple(each for each in chosen if each != name) if name in chosen else (*chosen, name)


def move_entry(chosen: Sequence[str], name: str, places: int) -> tuple[str, ...]:
    """Move an entry of the list by so many places, within the list."""
    if name not in chosen:
        return tuple(chosen)
    others = [each for each in chosen if each != name]
    at = min(max(chosen.index(name) + places, 0), len(others))
    return (*others[:at], name, *others[at:])


def format_list_value(parameter: Parameter, chosen: Sequence[str], width: int) -> str:
    """Format the ticked entries in *width* cells: in order if that matters and fits, else their number."""
    if parameter.ordered:
        words = ", ".join(f"{number} {format_safe_line(name)}" for number, name in enumerate(chosen, 1)) or "none"
        if cell_len(words) <= width:
            return words
    known = {entry.name for entry in parameter.entries}
    absent = sum(1 for name in chosen if name not in known)
    here = f"{len(chosen) - absent} of {len(parameter.entries)}"
    words = f"{here}, {absent} not here"
    return words if absent and cell_len(words) <= width else here


def format_list_keys(parameter: Parameter, width: int) -> str:
    """Format the keys of a list in *width* cells."""
    forms = ["space on or off", "space ticks"]
    if parameter.ordered:
        forms = ["←→ choose, space adds or removes, shift+←→ moves it", "space on/off, shift+←→ moves it"]
    return next((form for form in forms if len(form) <= width), "")


def format_entries(
    parameter: Parameter, chosen: Sequence[str], width: int, at: int
) -> tuple[list[list[Run]], list[ClickTarget]]:
    """Format entries side by side on as many lines as needed, with their click targets."""
    lines: list[list[Run]] = []
    spots: list[ClickTarget] = []
    for index, entry in enumerate(list_entries(parameter, chosen)):
        whole = _format_entry(parameter, entry, chosen, index == at)
        box = clip_runs(whole, width)
        used = count_cells(lines[-1]) + ENTRY_GAP if lines else 0
        if not lines or used + count_cells(box) > width:
            lines.append([])
            used = 0
        elif used:
            lines[-1].append((" " * ENTRY_GAP, ""))
        line, end = len(lines) - 1, used + count_cells(box)
        spots.append(ClickTarget(index, line, used, end))
        if _format_move_arrows(parameter, entry, chosen) and count_cells(whole) <= width:
            spots[-1:] = [
                ClickTarget(index, line, used, end - 2),
                ClickTarget(index, line, end - 2, end - 1, -1),
                ClickTarget(index, line, end - 1, end, 1),
            ]
        lines[-1] += box
    return lines, spots


def _format_entry(parameter: Parameter, entry: ListEntry, chosen: Sequence[str], is_current: bool) -> list[Run]:
    """Format an entry: box, name and note."""
    ticked = entry.name in chosen
    sign = " " if not ticked else str(chosen.index(entry.name) + 1) if parameter.ordered else "x"
    style = (PRIMARY if ticked else MUTED) + (" reverse" if is_current else "")
    runs: list[Run] = [(f"[{sign}] {format_safe_line(entry.name, 24)}", style)]
    if entry.note:
        runs.append((f" {entry.note}", MUTED))
    return (
        [*runs, (" ", ""), *_format_move_arrows(parameter, entry, chosen)]
        if _format_move_arrows(parameter, entry, chosen)
        else runs
    )


def _format_move_arrows(parameter: Parameter, entry: ListEntry, chosen: Sequence[str]) -> list[Run]:
    """Format the arrows that move an entry, if its order matters and there is another one."""
    if not parameter.ordered or entry.name not in chosen or len(chosen) < 2:
        return []
    at = chosen.index(entry.name)
    return [(MOVE_EARLIER_GLYPH if at else " ", PRIMARY), (MOVE_LATER_GLYPH if at < len(chosen) - 1 else " ", PRIMARY)]


MARK_WIDTH, MIN_TRACK_WIDTH, MAX_TRACK_WIDTH = 2, 5, 34


@dataclass(frozen=True)
class SettingColumns:
    """Widths of the columns of a row in cells: name, slider, value and unit."""

    label: int
    track: int
    value: int
    unit: int

    @property
    def track_start(self) -> int:
        """First cell of the slider."""
        return MARK_WIDTH + self.label + 1


def fit_setting_columns(parameters: Sequence[Parameter], values: dict[str, Any], width: int) -> SettingColumns:
    """Fit the columns to *width* cells: the unit is dropped first, then the slider; names are cut last."""
    label = max((cell_len(control.label) for control in parameters), default=0)
    value = max(
        (len(format_parameter_value(control, values[control.name])) for control in parameters if control.scale),
        default=4,
    )
    unit = max((cell_len(_get_unit(control)) for control in parameters if control.scale), default=0)
    room = width - MARK_WIDTH - 1 - label - 1 - value
    if room - unit - 1 < 2 * MIN_TRACK_WIDTH + 1:
        unit = 0
    room -= unit + 1 if unit else 0
    if room < MIN_TRACK_WIDTH:
        label, room = max(6, label + min(room, 0)), 0
    return SettingColumns(label, min(room, MAX_TRACK_WIDTH), value, unit)


def _get_unit(parameter: Parameter) -> str:
    return "" if parameter.refers_to == "message" else parameter.unit


def format_parameter_value(parameter: Parameter, value: Any) -> str:
    """Format the value of a number; a derived one in brackets."""
    if value is None:
        return "none" if parameter.implied_value is None else f"({format_number(parameter.implied_value)})"
    if parameter.refers_to == "message":
        return f"#{format_number(value)}"
    return format_number(value)


def format_setting_row(
    parameter: Parameter, value: Any, columns: SettingColumns, width: int, is_current: bool, typed_text: str | None
) -> list[Run]:
    """Format a setting in *width* cells; *typed* is the text typed for it so far."""
    name = shorten(parameter.label, columns.label).ljust(columns.label)
    runs: list[Run] = [("▸ " if is_current else "  ", f"bold {PRIMARY}"), (name, BOLD if is_current else ""), (" ", "")]
    if parameter.kind == "list":
        return pad_runs(
            [*runs, (format_list_value(parameter, value, width - count_cells(runs)), BOLD if is_current else "")], width
        )
    if parameter.kind == "switch":
        return pad_runs([*runs, ("[x] on" if value else "[ ] off", PRIMARY if value else MUTED)], width)
    if parameter.kind == "marks" or parameter.scale is None:
        return pad_runs([*runs, (format_manual_marks(value, width - count_cells(runs)), "" if value else MUTED)], width)
    shown = parameter.get_effective_value(value)
    default = parameter.implied_value if parameter.default is None else parameter.default
    style = PRIMARY if is_current else MUTED
    if not columns.track:
        runs.pop()
    elif shown is not None:
        runs += draw_track(parameter.scale, shown, default, columns.track, style)
    else:
        runs.append(("─" * columns.track, MUTED))
    if typed_text is not None:
        runs += [(" ", ""), (f"{typed_text}▏".rjust(columns.value), f"bold {PRIMARY}")]
    else:
        words = format_parameter_value(parameter, value).rjust(columns.value)
        runs += [
            (" ", ""),
            (words, MUTED if value is None else BOLD if value != parameter.default or is_current else ""),
        ]
    if columns.unit:
        runs += [(" ", ""), (_get_unit(parameter), MUTED)]
    return pad_runs(runs, width)


def format_manual_marks(marks: Sequence[tuple[int, int]], width: int) -> str:
    """Format the marks set by hand in *width* cells: their number, and as many messages as fit."""
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


def format_hint_variants(parameter: Parameter, value: Any, error: str) -> list[list[list[Run]]]:
    """Format the description and range of a setting, or the error of its typed value, longest variant first."""
    if error:
        return [[[("invalid: ", "bold $text-error"), (error, "$text-error")]]]
    about = parameter.about
    if parameter.kind == "marks":
        about = f"results that are cleared{'; backspace unmarks all' if value else ''}"
    elif parameter.refers_to == "message":
        about = f"{about}{'; backspace takes the cut back' if value is not None else ''}"
    told: list[list[Run]] = [[(about, MUTED)]]
    if parameter.scale is None:
        return [told]
    if value is None and parameter.implied_value is not None and parameter.default is None:
        told = [[(f"not set, so {format_number(parameter.implied_value)}: {about}", MUTED)]]
    ranges = [parameter.format_range()]
    if parameter.default is not None:
        ranges.append(f"default {format_number(parameter.default)}")
    shown, reach = parameter.get_effective_value(value), parameter.scale.track_end
    if shown is not None and parameter.scale.high > reach <= shown:
        ranges = [
            f"beyond {format_number(reach)} nothing changes; = types more",
            f"beyond {format_number(reach)} nothing changes",
        ]
    forms = [[*told, [(f"({words})".replace(" ", "\u00a0"), MUTED)]] for words in ranges]
    return [*forms, told, [[(about, MUTED)]]]


@dataclass(frozen=True)
class SettingDetails:
    """Lines below the rows: fixed lines, lines that scroll with the current item, and their click targets."""

    fixed_lines: list[list[Run]] = field(default_factory=list)
    scrolling_lines: list[list[Run]] = field(default_factory=list)
    click_targets: list[ClickTarget] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.fixed_lines) + len(self.scrolling_lines)

    def find_line(self, item: int) -> int:
        """Return the scrolled line of an item."""
        return next((spot.line for spot in self.click_targets if spot.item == item), 0)


def build_setting_details(
    parameter: Parameter, value: Any, item: int, error: str, width: int, room: int = 99
) -> SettingDetails:
    """Build the lines below the rows: a list's items with their keys, or the description in *room* lines."""
    width -= MARK_WIDTH
    if parameter.kind == "list" and list_entries(parameter, value):
        keys = format_list_keys(parameter, width)
        return SettingDetails([[(keys, MUTED)]] if keys else [], *format_entries(parameter, value, width, item))
    forms = format_hint_variants(parameter, value, error)
    whole = (form for form in forms if all(count_cells(part[:1]) <= width for part in form[1:]))
    flown = [wrap_parts(form, width, gap=1) for form in whole]
    return SettingDetails(next((lines for lines in flown if len(lines) <= room), flown[-1]))


def list_setting_lines(parameters: Sequence[Parameter]) -> list[int | str]:
    """Return for each line the number of a setting, or the policy as a heading of its settings."""
    lines: list[int | str] = []
    owner = ""
    for index, control in enumerate(parameters):
        if control.owner != owner:
            owner = control.owner
            lines.append(owner)
        lines.append(index)
    return lines
