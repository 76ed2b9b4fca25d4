"""Lists among the settings: what is ticked and in which order, how it is drawn, and what a click on it means.

Pure, without Textual. Where the order means something, what is ticked stands first, in its order, with its number in
the box and an arrow on each side on which there is another one to change places with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from context_tui.policies.parameters import ListEntry, Parameter
from context_tui.tui.widgets.draw import MUTED, PRIMARY, Run, clip_runs, count_cells, format_safe_line

ENTRY_GAP = 2
"""Cells between two items of a line."""
MOVE_EARLIER_GLYPH, MOVE_LATER_GLYPH = "◀", "▶"


@dataclass(frozen=True)
class ClickTarget:
    """Where something of an item can be clicked: its line and cells; ``moves`` is by how many places that moves it,
    0 to tick it.
    """

    item: int
    line: int
    start: int
    end: int
    moves: int = 0


def list_entries(parameter: Parameter, chosen: Sequence[str]) -> list[ListEntry]:
    """What can be ticked, as it is listed."""
    if not parameter.ordered:
        return list(parameter.entries)
    known = {entry.name: entry for entry in parameter.entries}
    rest = (entry for entry in parameter.entries if entry.name not in chosen)
    return [*(known.get(name, ListEntry(name)) for name in chosen), *rest]


def toggle_entry(chosen: Sequence[str], name: str) -> tuple[str, ...]:
    """The list without this item, or with it at the end."""
    return tuple(each for each in chosen if each != name) if name in chosen else (*chosen, name)


def move_entry(chosen: Sequence[str], name: str, places: int) -> tuple[str, ...]:
    """The list with one of its items so many places further back; it stays within the list."""
    if name not in chosen:
        return tuple(chosen)
    others = [each for each in chosen if each != name]
    at = min(max(chosen.index(name) + places, 0), len(others))
    return (*others[:at], name, *others[at:])


def format_list_value(parameter: Parameter, chosen: Sequence[str], width: int) -> str:
    """What is ticked in *width* cells: in its order where that means something and fits, else how much it is."""
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
    """The keys of the list in *width* cells."""
    forms = ["space on or off", "space ticks"]
    if parameter.ordered:
        forms = ["←→ choose, space adds or removes, shift+←→ moves it", "space on/off, shift+←→ moves it"]
    return next((form for form in forms if len(form) <= width), "")


def format_entries(parameter: Parameter, chosen: Sequence[str], width: int, at: int) -> tuple[list[list[Run]], list[ClickTarget]]:
    """Things to tick, side by side on as many lines as they take; and what of them can be clicked."""
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
    """An item: its box, its name, and what stands beside it."""
    ticked = entry.name in chosen
    sign = " " if not ticked else str(chosen.index(entry.name) + 1) if parameter.ordered else "x"
    style = (PRIMARY if ticked else MUTED) + (" reverse" if is_current else "")
    runs: list[Run] = [(f"[{sign}] {format_safe_line(entry.name, 24)}", style)]
    if entry.note:
        runs.append((f" {entry.note}", MUTED))
    return [*runs, (" ", ""), *_format_move_arrows(parameter, entry, chosen)] if _format_move_arrows(parameter, entry, chosen) else runs


def _format_move_arrows(parameter: Parameter, entry: ListEntry, chosen: Sequence[str]) -> list[Run]:
    """What a click moves an item by, where its order means something and there is another one."""
    if not parameter.ordered or entry.name not in chosen or len(chosen) < 2:
        return []
    at = chosen.index(entry.name)
    return [(MOVE_EARLIER_GLYPH if at else " ", PRIMARY), (MOVE_LATER_GLYPH if at < len(chosen) - 1 else " ", PRIMARY)]
