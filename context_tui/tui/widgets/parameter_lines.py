"""Lines that show policy settings: sliders, values, lists of entries and hints, with their click targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rich.cells import cell_len

from context_tui.policies.parameters import ListEntry, Parameter
from context_tui.policies.scales import Number, Scale, format_number
from context_tui.tui.rendering.columns import ColumnFitter
from context_tui.tui.terminal.cells import choose_form, shorten
from context_tui.tui.terminal.themes import BOLD, MUTED, PRIMARY
from context_tui.tui.widgets.styled_text import Run, clip_runs, count_cells, format_safe_line, pad_runs, wrap_parts


def find_knob_cell(scale: Scale, value: Number, width: int) -> int:
    """Return the cell of the knob for a value on a slider of *width* cells, including the arrows at its ends."""
    return 1 + round(scale.compute_share(value) * max(width - 3, 0))


def find_value_at_cell(scale: Scale, cell: int, width: int) -> Number:
    """Return the value at a cell of a slider of *width* cells."""
    return scale.find_value((cell - 1) / max(width - 3, 1))


def draw_track(scale: Scale, value: Number, default: Number | None, width: int, style: str) -> list[Run]:
    """Draw a slider of *width* cells, such as ``◀━━●──┴─▶``, with a tick at *default* unless that is None."""
    if width < 3:
        return [("●".ljust(width)[:width], style)]
    knob = find_knob_cell(scale, value, width)
    tick = find_knob_cell(scale, default, width) if default is not None else -1
    line = ["┴" if cell == tick else "━" if cell < knob else "─" for cell in range(1, width - 1)]
    lower, higher = "".join(line[: knob - 1]), "".join(line[knob:])
    return [("◀", MUTED), (lower, style), ("●", f"bold {style}"), (higher, MUTED), ("▶", MUTED)]


ENTRY_GAP = 2


class ClickTarget(NamedTuple):
    """Cells that react to a click, which moves entry ``item`` by ``moves`` places or, for 0, ticks or unticks it."""

    item: int
    line: int
    start: int
    end: int
    moves: int = 0


def list_entries(parameter: Parameter, chosen: Sequence[str]) -> list[ListEntry]:
    """Return the entries of a list setting; in an ordered list, the ticked entries come first, in their order."""
    if not parameter.ordered:
        return list(parameter.entries)
    entries_by_name = {entry.name: entry for entry in parameter.entries}
    unticked_entries = (entry for entry in parameter.entries if entry.name not in chosen)
    return [*(entries_by_name.get(name, ListEntry(name)) for name in chosen), *unticked_entries]


def toggle_entry(chosen: Sequence[str], name: str) -> tuple[str, ...]:
    """Return *chosen* without *name* or, if *name* is not in it, with *name* added at the end."""
    return tuple(other for other in chosen if other != name) if name in chosen else (*chosen, name)


def move_entry(chosen: Sequence[str], name: str, places: int) -> tuple[str, ...]:
    """Return *chosen* with *name* moved by *places*, stopping at either end; unchanged if *name* is not in it."""
    if name not in chosen:
        return tuple(chosen)
    other_names = [other for other in chosen if other != name]
    index = min(max(chosen.index(name) + places, 0), len(other_names))
    return (*other_names[:index], name, *other_names[index:])


def format_list_value(parameter: Parameter, chosen: Sequence[str], width: int) -> str:
    """Format the value of a list: the ticked names if their order matters and they fit, else their number."""
    if parameter.ordered:
        text = ", ".join(f"{number} {format_safe_line(name)}" for number, name in enumerate(chosen, 1)) or "none"
        if cell_len(text) <= width:
            return text
    names = {entry.name for entry in parameter.entries}
    absent = sum(1 for name in chosen if name not in names)
    count = f"{len(chosen) - absent} of {len(parameter.entries)}"
    text = f"{count}, {absent} not here"
    return text if absent and cell_len(text) <= width else count


def format_list_keys(parameter: Parameter, width: int) -> str:
    """Format a reminder of the keys that edit a list, in *width* cells; "" if even the shortest form does not fit."""
    forms = ["space on or off", "space ticks"]
    if parameter.ordered:
        forms = ["←→ choose, space adds or removes, shift+←→ moves it", "space on/off, shift+←→ moves it"]
    return choose_form((*forms, ""), width)


def format_entries(
    parameter: Parameter, chosen: Sequence[str], width: int, item: int
) -> tuple[list[list[Run]], list[ClickTarget]]:
    """Return lines with the entries side by side, and the click targets; *item* is the index of the current entry."""
    lines: list[list[Run]] = []
    targets: list[ClickTarget] = []
    for index, entry in enumerate(list_entries(parameter, chosen)):
        entry_runs = _format_entry(parameter, entry, chosen, index == item)
        box = clip_runs(entry_runs, width)
        cells = count_cells(lines[-1]) + ENTRY_GAP if lines else 0
        if not lines or cells + count_cells(box) > width:
            lines.append([])
            cells = 0
        elif cells:
            lines[-1].append((" " * ENTRY_GAP, ""))
        line, end = len(lines) - 1, cells + count_cells(box)
        targets.append(ClickTarget(index, line, cells, end))
        if _format_move_arrows(parameter, entry, chosen) and count_cells(entry_runs) <= width:
            targets[-1:] = [
                ClickTarget(index, line, cells, end - 2),
                ClickTarget(index, line, end - 2, end - 1, -1),
                ClickTarget(index, line, end - 1, end, 1),
            ]
        lines[-1] += box
    return lines, targets


def _format_entry(parameter: Parameter, entry: ListEntry, chosen: Sequence[str], is_current: bool) -> list[Run]:
    is_ticked = entry.name in chosen
    sign = " " if not is_ticked else str(chosen.index(entry.name) + 1) if parameter.ordered else "x"
    style = (PRIMARY if is_ticked else MUTED) + (" reverse" if is_current else "")
    runs: list[Run] = [(f"[{sign}] {format_safe_line(entry.name, 24)}", style)]
    if entry.note:
        runs.append((f" {entry.note}", MUTED))
    arrows = _format_move_arrows(parameter, entry, chosen)
    return [*runs, (" ", ""), *arrows] if arrows else runs


def _format_move_arrows(parameter: Parameter, entry: ListEntry, chosen: Sequence[str]) -> list[Run]:
    """Format the arrows that move a ticked entry; empty if order does not matter, or no other entry is ticked."""
    if not parameter.ordered or entry.name not in chosen or len(chosen) < 2:
        return []
    index = chosen.index(entry.name)
    return [("◀" if index else " ", PRIMARY), ("▶" if index < len(chosen) - 1 else " ", PRIMARY)]


MARK_WIDTH, MIN_LABEL_WIDTH, MIN_TRACK_WIDTH, MAX_TRACK_WIDTH = 2, 6, 5, 34


class ParameterColumns(NamedTuple):
    """The widths in cells of a setting's columns: name, slider, value and unit; 0 for a dropped column."""

    label: int
    track: int
    value: int
    unit: int

    @property
    def track_start(self) -> int:
        """The index of the slider's first cell."""
        return MARK_WIDTH + self.label + 1


def fit_parameter_columns(parameters: Sequence[Parameter], values: dict[str, Any], width: int) -> ParameterColumns:
    """Fit the columns in *width* cells; for lack of room, the unit is dropped, then the slider, then names are cut."""
    label = max((cell_len(parameter.label) for parameter in parameters), default=0)
    numbers = [parameter for parameter in parameters if parameter.scale]
    value = max((len(format_parameter_value(number, values[number.name])) for number in numbers), default=4)
    unit = max((cell_len(_get_unit(number)) for number in numbers), default=0)
    fitter = ColumnFitter(width, MARK_WIDTH + 2 + value)
    min_label = min(label, MIN_LABEL_WIDTH)
    if not fitter.fit("label", min_label, label):
        return ParameterColumns(min_label, 0, value, 0)
    has_unit = fitter.fit("unit", unit + 1 if unit else 0, spare=2 * MIN_TRACK_WIDTH + 1)
    fitter.fit("track", MIN_TRACK_WIDTH, MAX_TRACK_WIDTH)
    return ParameterColumns(fitter["label"], fitter["track"], value, unit if has_unit else 0)


def _get_unit(parameter: Parameter) -> str:
    return "" if parameter.refers_to == "message" else parameter.unit


def format_parameter_value(parameter: Parameter, value: Any) -> str:
    """Format a numeric setting's value; for None, the implied value in parentheses, or ``none`` without one."""
    if value is None:
        return "none" if parameter.implied_value is None else f"({format_number(parameter.implied_value)})"
    if parameter.refers_to == "message":
        return f"#{format_number(value)}"
    return format_number(value)


def format_parameter_row(
    parameter: Parameter, value: Any, columns: ParameterColumns, width: int, is_current: bool, typed_text: str | None
) -> list[Run]:
    """Format the row of a setting in *width* cells; *typed_text* replaces the value while the user types one."""
    name = shorten(parameter.label, columns.label).ljust(columns.label)
    runs: list[Run] = [("▸ " if is_current else "  ", f"bold {PRIMARY}"), (name, BOLD if is_current else ""), (" ", "")]
    if parameter.kind == "list":
        text = format_list_value(parameter, value, width - count_cells(runs))
        return pad_runs([*runs, (text, BOLD if is_current else "")], width)
    if parameter.kind == "switch":
        return pad_runs([*runs, ("[x] on" if value else "[ ] off", PRIMARY if value else MUTED)], width)
    if parameter.kind == "marks" or parameter.scale is None:
        return pad_runs([*runs, (format_manual_marks(value, width - count_cells(runs)), "" if value else MUTED)], width)
    effective = parameter.get_effective_value(value)
    default = parameter.implied_value if parameter.default is None else parameter.default
    style = PRIMARY if is_current else MUTED
    if not columns.track:
        runs.pop()
    elif effective is not None:
        runs += draw_track(parameter.scale, effective, default, columns.track, style)
    else:
        runs.append(("─" * columns.track, MUTED))
    if typed_text is not None:
        runs += [(" ", ""), (f"{typed_text}▏".rjust(columns.value), f"bold {PRIMARY}")]
    else:
        value_text = format_parameter_value(parameter, value).rjust(columns.value)
        is_plain = value == parameter.default and not is_current
        runs += [(" ", ""), (value_text, MUTED if value is None else "" if is_plain else BOLD)]
    if columns.unit:
        runs += [(" ", ""), (_get_unit(parameter), MUTED)]
    return pad_runs(runs, width)


def format_manual_marks(marks: Sequence[tuple[int, int]], width: int) -> str:
    """Format the number of manual marks, followed by as many of the marked messages as fit in *width* cells."""
    if not marks:
        return "none marked"
    text = f"{len(marks):,} marked"
    if width < cell_len(text):
        return str(len(marks))
    for number, (message, _) in enumerate(marks):
        longer = f"{text}{',' if number else ':'} #{message:,}"
        if len(longer) + (2 if number < len(marks) - 1 else 0) > width:
            return f"{text}, …" if number else text
        text = longer
    return text


def format_hint_variants(parameter: Parameter, value: Any, error: str) -> list[list[list[Run]]]:
    """Return forms of a setting's hint, longest first: its meaning and range, or *error* alone if there is one."""
    if error:
        return [[[("invalid: ", "bold $text-error"), (error, "$text-error")]]]
    about = parameter.about
    if parameter.kind == "marks":
        about = f"results that are cleared{'; backspace unmarks all' if value else ''}"
    elif parameter.refers_to == "message":
        about = f"{about}{'; backspace removes the cut' if value is not None else ''}"
    meaning: list[list[Run]] = [[(about, MUTED)]]
    if parameter.scale is None:
        return [meaning]
    if value is None and parameter.implied_value is not None and parameter.default is None:
        meaning = [[(f"not set, so {format_number(parameter.implied_value)}: {about}", MUTED)]]
    ranges = [parameter.format_range()]
    if parameter.default is not None:
        ranges.append(f"default {format_number(parameter.default)}")
    effective, track_end = parameter.get_effective_value(value), parameter.scale.track_end
    if effective is not None and parameter.scale.high > track_end <= effective:
        limit = f"beyond {format_number(track_end)} nothing changes"
        ranges = [f"{limit}; = types more", limit]
    forms = [[*meaning, [(f"({range_text})".replace(" ", "\u00a0"), MUTED)]] for range_text in ranges]
    return [*forms, meaning, [[(about, MUTED)]]]


@dataclass(frozen=True)
class ParameterDetails:
    """Lines below the settings: fixed lines, lines that scroll with the current entry, and their click targets."""

    fixed_lines: list[list[Run]] = field(default_factory=list)
    scrolling_lines: list[list[Run]] = field(default_factory=list)
    click_targets: list[ClickTarget] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.fixed_lines) + len(self.scrolling_lines)

    def find_line(self, item: int) -> int:
        """Return the index of the scrolling line that holds entry *item*, or 0 if no line does."""
        return next((target.line for target in self.click_targets if target.item == item), 0)


def build_parameter_details(
    parameter: Parameter, value: Any, item: int, error: str, width: int, room: int = 99
) -> ParameterDetails:
    """Build the lines below the settings: keys and entries of a list, or the longest hint of at most *room* lines."""
    width -= MARK_WIDTH
    if parameter.kind == "list" and list_entries(parameter, value):
        keys = format_list_keys(parameter, width)
        return ParameterDetails([[(keys, MUTED)]] if keys else [], *format_entries(parameter, value, width, item))
    forms = format_hint_variants(parameter, value, error)
    unbroken = (form for form in forms if all(count_cells(part[:1]) <= width for part in form[1:]))
    wrapped = [wrap_parts(form, width, gap=1) for form in unbroken]
    return ParameterDetails(next((lines for lines in wrapped if len(lines) <= room), wrapped[-1]))


def list_parameter_lines(parameters: Sequence[Parameter]) -> list[int | str]:
    """Return the lines to show: the index of each setting and, in a chain, a policy's name before its settings."""
    lines: list[int | str] = []
    owner = ""
    for index, parameter in enumerate(parameters):
        if parameter.owner != owner:
            owner = parameter.owner
            lines.append(owner)
        lines.append(index)
    return lines
