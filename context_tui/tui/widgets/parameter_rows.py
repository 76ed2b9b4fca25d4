"""Rows that show a policy's parameters as sliders, and the keys and mouse actions that change their values."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.geometry import Size
from textual.message import Message
from textual.widgets import Input

from context_tui.policies.parameters import Parameter
from context_tui.policies.scales import parse_number
from context_tui.tui.terminal.themes import MUTED
from context_tui.tui.widgets.bindings import read_bindings
from context_tui.tui.widgets.parameter_lines import (
    MARK_WIDTH,
    ClickTarget,
    ParameterColumns,
    ParameterDetails,
    build_parameter_details,
    find_value_at_cell,
    fit_parameter_columns,
    format_parameter_row,
    list_entries,
    list_parameter_lines,
    move_entry,
    toggle_entry,
)
from context_tui.tui.widgets.styled_text import LinesPane, Run, clip_lines, clip_runs, set_background

MIN_VISIBLE_ROWS = 2
"""Minimum number of rows that stay visible above the entries of a list."""
_NUMBER_PATTERN = re.compile(r"[0-9.,_kKmM%]*")


class NumberEntry(Input, inherit_bindings=False):
    """An invisible input for a number; the rows handle keys that cannot be part of a number."""

    DEFAULT_CSS = "NumberEntry { width: 0; height: 0; padding: 0; border: none !important; }"
    BINDINGS = [*read_bindings("number-entry"), Binding("backspace", "delete_left", show=False)]

    def __init__(self) -> None:
        super().__init__(restrict=_NUMBER_PATTERN.pattern, max_length=20, select_on_focus=False)
        self.cursor_blink = self.can_focus = False

    @property
    def _rows(self) -> ParameterRows:
        assert isinstance(self.parent, ParameterRows)
        return self.parent

    def action_accept(self) -> None:
        self._rows.finish_entry()

    def action_cancel(self) -> None:
        self._rows.close_entry()

    def _on_key(self, event: events.Key) -> None:  # type: ignore[override]
        if event.is_printable and not _NUMBER_PATTERN.fullmatch(event.character or ""):
            event.prevent_default()


class ParameterRows(LinesPane, can_focus=True):
    """A list of a policy's settings, one row each, whose values can be changed by keys and mouse.

    Each change is reported at once, and the owner must then call ``show``, so that the next key starts from the new
    value. A typed value is accepted or refused before another key is handled.
    """

    BINDING_GROUP_TITLE = "Parameters"
    DEFAULT_CSS = "ParameterRows { height: auto; padding: 0; }"
    BINDINGS = read_bindings("parameter-rows")

    class Moved(Message):
        """Posted when a different setting is selected."""

    def __init__(self, set_value: Callable[[str, Any], object], *, id: str | None = None) -> None:
        """Create the rows; *set_value* is called with the name and new value of a setting, and must call ``show``."""
        super().__init__(self._draw_rows, id=id)
        self._set_value = set_value
        self.parameters: list[Parameter] = []
        self.values: dict[str, Any] = {}
        self.row = 0
        self.item = 0
        self.error = ""
        self._entry = NumberEntry()
        self._top = 0
        self._is_dragging = False
        self._is_typable = False

    def compose(self) -> ComposeResult:
        yield self._entry

    @property
    def typed_text(self) -> str | None:
        """The text typed so far, which may be empty, or None if the user is not typing a value."""
        return self._entry.value if self._entry.can_focus else None

    @property
    def current_parameter(self) -> Parameter | None:
        """The selected setting, or None if the policy has no settings."""
        return self.parameters[self.row] if self.parameters else None

    def show(self, parameters: list[Parameter], values: dict[str, Any]) -> None:
        """Show *parameters* with their *values*; the selected setting stays selected if it is still shown."""
        name = self.current_parameter.name if self.current_parameter else ""
        names = [parameter.name for parameter in parameters]
        height = len(self.parameters)
        self.parameters, self.values = parameters, values
        self.row = names.index(name) if name in names else 0
        if name not in names:
            self.item = 0
            self.close_entry()
        self._update_footer_keys()
        self.refresh(layout=len(parameters) != height)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the action ``type`` for settings that are not numbers, so that enter is left to the screen."""
        return self._is_typable if action == "type" else True

    def _update_footer_keys(self) -> None:
        is_typable = bool(self.current_parameter and self.current_parameter.scale)
        if is_typable != self._is_typable:
            self._is_typable = is_typable
            self.refresh_bindings()

    # Drawing

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(list_parameter_lines(self.parameters)) + max(len(self._build_details(width)), 1)

    @property
    def columns(self) -> ParameterColumns:
        """The widths of the columns, fitted to the current width of the pane."""
        return fit_parameter_columns(self.parameters, self.values, self.content_size.width)

    def _build_details(self, width: int, room: int = 99) -> ParameterDetails:
        parameter = self.current_parameter
        if parameter is None:
            return ParameterDetails()
        value = self.values[parameter.name]
        return build_parameter_details(parameter, value, self._current_item, self.error, width, room)

    def _arrange_lines(self) -> tuple[list[int | str], list[list[Run]], list[ClickTarget]]:
        lines, height = list_parameter_lines(self.parameters), self.content_size.height
        details = self._build_details(self.content_size.width)
        max_details = max(height - MIN_VISIBLE_ROWS, 1) if details.click_targets else height // 3
        room = min(len(details), max(height - len(lines), min(max_details, len(details))))
        rows = max(height - room, 1)
        line = lines.index(self.row) if self.parameters else 0
        self._top = max(0, min(self._top, line, len(lines) - rows), line - rows + 1)
        visible_rows = lines[self._top : self._top + rows]
        if not details.click_targets:
            details = self._build_details(self.content_size.width, room)
            return visible_rows, clip_lines(details.fixed_lines, room, self.content_size.width - MARK_WIDTH), []
        fixed = details.fixed_lines if room > len(details.fixed_lines) else []
        room -= len(fixed)
        first = max(0, details.find_line(self._current_item) - room + 1)
        offset = len(visible_rows) + len(fixed) - first
        visible_targets = (target for target in details.click_targets if first <= target.line < first + room)
        targets = [target._replace(line=target.line + offset) for target in visible_targets]
        return visible_rows, [*fixed, *details.scrolling_lines[first : first + room]], targets

    def _draw_rows(self, width: int, _: int) -> list[list[Run]]:
        if self.current_parameter is None:
            return [[("no parameters", MUTED)]]
        columns = self.columns
        policy_order = next((self.values[each.name] for each in self.parameters if each.ordered), ())
        rows, detail_lines = self._arrange_lines()[:2]
        hidden_count = len(list_parameter_lines(self.parameters)) - self._top - len(rows)
        lines: list[list[Run]] = []
        for line in rows:
            if isinstance(line, str):
                number = f"{policy_order.index(line) + 1} " if line in policy_order else ""
                lines.append(clip_runs([("  ", ""), (f"{number}{line}", f"italic {MUTED}")], width))
            else:
                lines.append(self._format_row(line, columns, width))
        if hidden_count:
            lines[-1][0] = (lines[-1][0][0][:1] + "▾", lines[-1][0][1] or MUTED)
        if self._top:
            lines[0][0] = (lines[0][0][0][:1] + "▴", lines[0][0][1] or MUTED)
        lines += [[(" " * MARK_WIDTH, ""), *line] for line in detail_lines]
        return lines

    def _format_row(self, number: int, columns: ParameterColumns, width: int) -> list[Run]:
        parameter, is_current = self.parameters[number], number == self.row
        text = self.typed_text if is_current else None
        runs = format_parameter_row(parameter, self.values[parameter.name], columns, width, is_current, text)
        return set_background(runs) if is_current and self.has_focus_within else runs

    def on_descendant_blur(self) -> None:
        """Accept the typed value when its input loses the focus, or discard it if it is invalid."""
        if self.screen.focused is not self._entry and not self.finish_entry():
            self.close_entry()

    # Setting values

    def set_value(self, value: Any) -> None:
        """Set the value of the selected setting and report it to the owner if it differs from the old one."""
        parameter = self.current_parameter
        self.close_entry()
        if parameter and value != self.values[parameter.name]:
            self._set_value(parameter.name, value)
        self.refresh()

    def action_move(self, rows: int) -> None:
        self.choose_row(self.row + rows)

    def choose_row(self, number: int) -> None:
        """Select the setting in row *number*, or in the nearest row, and post ``Moved`` if it is another setting."""
        number = min(max(number, 0), len(self.parameters) - 1)
        if number >= 0 and number != self.row:
            self.row, self.item = number, 0
            self.close_entry()
            self.post_message(self.Moved())
            self._update_footer_keys()
            self.refresh()

    def action_change_value(self, steps: int) -> None:
        """Change the value by *steps*; in a list, go to another entry or, with more than one step, move the entry."""
        parameter = self.current_parameter
        if parameter is None:
            return
        value, scale = self.values[parameter.name], parameter.scale
        if parameter.kind == "list" and parameter.ordered and abs(steps) > 1:
            self._change_item(1 if steps > 0 else -1)
        elif parameter.kind == "list":
            self.item = min(max(self._current_item + steps, 0), max(len(list_entries(parameter, value)) - 1, 0))
            self.refresh()
        elif parameter.kind == "switch":
            self.set_value(steps > 0)
        elif scale:
            effective = parameter.get_effective_value(value)
            self.set_value(scale.step_value(scale.low if effective is None else effective, steps))

    def action_tick(self) -> None:
        parameter = self.current_parameter
        if parameter and parameter.kind == "switch":
            self.set_value(not self.values[parameter.name])
        elif parameter and parameter.kind == "list":
            self._change_item(0)

    @property
    def _current_item(self) -> int:
        return max(min(self.item, len(self._list_entry_names()) - 1), 0)

    def _list_entry_names(self) -> list[str]:
        parameter = self.current_parameter
        return [entry.name for entry in list_entries(parameter, self.values[parameter.name])] if parameter else []

    def _change_item(self, places: int) -> None:
        """Move the current entry by *places* or, if that is 0, tick or untick the entry, which stays current."""
        parameter, names = self.current_parameter, self._list_entry_names()
        if parameter is None or not names:
            return
        name, chosen = names[self._current_item], self.values[parameter.name]
        self.set_value(move_entry(chosen, name, places) if places else toggle_entry(chosen, name))
        names = self._list_entry_names()
        self.item = names.index(name) if name in names else self._current_item

    def action_type(self) -> None:
        if self.current_parameter and self.current_parameter.scale:
            self._entry.can_focus = True
            self._entry.clear()
            self.screen.set_focus(self._entry)
            self.error = ""
            self.refresh()
        else:
            self.focus()
            self.notify("This setting has no value to type; ←→ and space change it", markup=False, timeout=4)

    def action_default(self) -> None:
        if self.current_parameter:
            self.set_value(self.current_parameter.default)

    def on_key(self, event: events.Key) -> None:
        """Accept the typed value before another key acts; ignore that key if the value is invalid."""
        if self.typed_text is None or event.key in ("backspace", "enter", "escape"):  # the input handles these
            return
        if not self.finish_entry():
            event.stop()

    @on(Input.Changed)
    def _handle_entry_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.error = ""
        self.refresh()

    def close_entry(self) -> None:
        """Stop typing and discard the typed text."""
        if self.screen.focused is self._entry:
            self.screen.set_focus(self)
        self._entry.can_focus, self.error = False, ""
        self.refresh()

    def finish_entry(self) -> bool:
        """Accept the typed value, if any, and return True; if it is invalid, show an error and return False."""
        parameter = self.current_parameter
        if not self.typed_text or parameter is None or parameter.scale is None:
            self.close_entry()
            return True
        try:
            value = parse_number(self.typed_text, parameter.scale.low, parameter.scale.high, parameter.optional)
        except ValueError as error:
            self.error = f"{parameter.label}: {error}"
            self.refresh()
            return False
        self.set_value(value)
        return True

    # Mouse

    def _find_row_at(self, event: events.MouseEvent) -> int | None:
        y = event.y - self.gutter.top
        lines = self._arrange_lines()[0] if self.parameters else []
        line = lines[y] if 0 <= y < len(lines) else None
        return line if isinstance(line, int) else None

    def _drag_slider(self, event: events.MouseEvent) -> bool:
        """Move the slider of the selected setting to the mouse; return False if the mouse is not on that slider."""
        parameter, columns = self.current_parameter, self.columns
        cell = event.x - self.gutter.left - columns.track_start
        if parameter is None or parameter.scale is None or not (self._is_dragging or 0 <= cell < columns.track):
            return False
        self.set_value(find_value_at_cell(parameter.scale, cell, columns.track))
        return True

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Select the clicked row; on a slider, also set its value and start dragging it."""
        number = self._find_row_at(event)
        if event.button != 1:
            return
        if number is None:
            self._click_item(event.x - self.gutter.left - MARK_WIDTH, event.y - self.gutter.top)
            return
        self.choose_row(number)
        if self.parameters[number].kind == "switch":
            self.action_tick()
        elif self._drag_slider(event):
            self._is_dragging = True
            self.capture_mouse()

    def _click_item(self, x: int, y: int) -> None:
        for target in self._arrange_lines()[2]:
            if target.line == y and target.start <= x < target.end:
                self.item = target.item
                self._change_item(target.moves)
                return

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._is_dragging:
            self._drag_slider(event)

    def on_mouse_up(self) -> None:
        if self._is_dragging:
            self._is_dragging = False
            self.release_mouse()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Select the row above; the mouse wheel never changes a value."""
        event.stop()
        self.choose_row(self.row - 1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.choose_row(self.row + 1)
