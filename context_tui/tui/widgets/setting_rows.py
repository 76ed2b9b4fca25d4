"""The settings of a policy as rows with sliders: arrows, typing, space and the mouse set them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget

from context_tui.policies.parameters import Parameter
from context_tui.policies.scales import parse
from context_tui.tui.widgets.draw import MUTED, Run, clip, content, cut, on
from context_tui.tui.widgets.setting_paint import MARK, Columns, Spot, below, columns_for, lines_of, row
from context_tui.tui.widgets.sliders import value_at

_TYPED = frozenset("0123456789.,_kKmM%")


class SettingRows(Widget, can_focus=True):
    """One row a setting, with the values of the last ``show``.

    A value that is set is handed on before the key press ends, and comes back by ``show``: what the next key does, here
    or elsewhere, is done with that value. An entry that is being typed is taken or refused before any other key.
    """

    BINDING_GROUP_TITLE = "Parameters"
    DEFAULT_CSS = "SettingRows { height: auto; text-wrap: nowrap; text-overflow: clip; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Row", show=False, id="setting-up", tooltip="Parameter above"),
        Binding("down,j", "move(1)", "Row", show=False, id="setting-down", tooltip="Parameter below"),
        Binding("left", "step(-1)", "value", key_display="←→", id="setting-less", tooltip="One step less"),
        Binding("right", "step(1)", "More", show=False, id="setting-more", tooltip="One step more"),
        Binding("shift+left", "step(-10)", "Ten less", show=False, id="setting-ten-less", tooltip="Ten steps less"),
        Binding("shift+right", "step(10)", "Ten more", show=False, id="setting-ten-more", tooltip="Ten steps more"),
        Binding("equals_sign,enter", "type", "type", key_display="=", id="setting-type", tooltip="Type a value"),
        Binding("space", "tick", "Tick", show=False, id="setting-tick", tooltip="Switch on or off, tick an item"),
        Binding("backspace", "default", "Default", show=False, id="setting-default", tooltip="Reset to the default"),
    ]

    class Moved(Message):
        """Another row was chosen."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self, set_value: Callable[[str, Any], object], *, ascii: bool = False, id: str | None = None) -> None:
        """Rows whose values are set by *set_value*, which is given a setting's name and value and calls ``show``."""
        super().__init__(id=id)
        self._set_value = set_value
        self.ascii = ascii
        self.controls: list[Parameter] = []
        self.values: dict[str, Any] = {}
        self.row = 0
        self.item = 0
        self.typed: str | None = None
        self.error = ""
        self._top = 0
        self._dragged = False
        self._typable = False

    @property
    def control(self) -> Parameter | None:
        """The setting on the chosen row."""
        return self.controls[self.row] if self.controls else None

    def show(self, controls: list[Parameter], values: dict[str, Any]) -> None:
        """Show these settings with their values; the chosen row stays the same setting where it is still there."""
        name = self.control.name if self.control else ""
        names = [control.name for control in controls]
        height = len(self.controls)
        self.controls, self.values = controls, values
        self.row = names.index(name) if name in names else 0
        if name not in names:
            self.item, self.typed, self.error = 0, None, ""
        self._tell_keys()
        self.refresh(layout=len(controls) != height)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only numbers are typed; enter is of use elsewhere then."""
        return self._typable if action == "type" else True

    def _tell_keys(self) -> None:
        """Have the footer say whether a value can be typed on the chosen row."""
        typable = bool(self.control and self.control.scale)
        if typable != self._typable:
            self._typable = typable
            self.refresh_bindings()

    # Drawing

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """All rows, and what there is to say about the chosen one."""
        return len(lines_of(self.controls)) + max(len(self._below(width)[0]), 1)

    @property
    def columns(self) -> Columns:
        """Where things stand at this width."""
        return columns_for(self.controls, self.values, self.content_size.width)

    def _below(self, width: int) -> tuple[list[list[Run]], list[Spot]]:
        """The lines below the rows, and where the items of a list stand."""
        control = self.control
        return below(control, self.values[control.name], self.item, self.error, width) if control else ([], [])

    def _split(self) -> tuple[list[int | str], list[list[Run]], int]:
        """The rows in sight, the lines below them, and how many of these are out of sight above."""
        lines, height = lines_of(self.controls), self.content_size.height
        under, spots = self._below(self.content_size.width)
        room = min(len(under), max(height - len(lines), min(height // 3, len(under))))
        rows = max(height - room, 1)
        at = lines.index(self.row) if self.controls else 0
        self._top = max(0, min(self._top, at, len(lines) - rows), at - rows + 1)
        first = max(0, spots[min(self.item, len(spots) - 1)].line - room + 1) if spots else 0
        shown = under[first : first + room] if spots else cut(under, room, self.content_size.width - MARK)
        return lines[self._top : self._top + rows], shown, first

    def render(self) -> Content:
        """The rows, and below them what the chosen one is."""
        width = self.content_size.width
        if self.control is None or not width:
            return content([("no parameters", MUTED)])
        columns = self.columns
        rows, under, _ = self._split()
        hidden = len(lines_of(self.controls)) - self._top - len(rows)
        lines: list[list[Run]] = []
        for line in rows:
            heading: list[Run] = [("  ", ""), (str(line), f"italic {MUTED}")]
            lines.append(clip(heading, width) if isinstance(line, str) else self._row(line, columns, width))
        if hidden:
            lines[-1][0] = (lines[-1][0][0][:1] + "▾", lines[-1][0][1] or MUTED)
        if self._top:
            lines[0][0] = (lines[0][0][0][:1] + "▴", lines[0][0][1] or MUTED)
        lines += [[(" " * MARK, ""), *line] for line in under]
        return Content("\n").join(content(line, self.ascii) for line in lines)

    def _row(self, number: int, columns: Columns, width: int) -> list[Run]:
        control, here = self.controls[number], number == self.row
        runs = row(control, self.values[control.name], columns, width, here, self.typed if here else None)
        return on(runs) if here and self.has_focus else runs

    def on_focus(self) -> None:
        """The chosen row is marked while keys come here."""
        self.refresh()

    def on_blur(self) -> None:
        """What was being typed is taken where it is a value; half a number is none."""
        if not self.finish_entry():
            self.typed, self.error = None, ""
        self.refresh()

    # Setting values

    def set_value(self, value: Any) -> None:
        """Give the chosen setting a value, and say so when it is another one."""
        control = self.control
        self.typed, self.error = None, ""
        if control and value != self.values[control.name]:
            self._set_value(control.name, value)
        self.refresh()

    def action_move(self, rows: int) -> None:
        """Choose another row."""
        self.choose(self.row + rows)

    def choose(self, number: int) -> None:
        """Choose the row of a setting."""
        number = min(max(number, 0), len(self.controls) - 1)
        if number >= 0 and number != self.row:
            self.row, self.item, self.typed, self.error = number, 0, None, ""
            self.post_message(self.Moved(self.controls[number].name))
            self._tell_keys()
            self.refresh()

    def action_step(self, steps: int) -> None:
        """Change the value by steps; in a list, move among its items."""
        control = self.control
        if control is None:
            return
        value = self.values[control.name]
        if control.kind == "list":
            self.item = min(max(self.item + steps, 0), max(len(control.entries) - 1, 0))
            self.refresh()
        elif control.kind == "switch":
            self.set_value(steps > 0)
        elif control.scale:
            shown = control.shown(value)
            self.set_value(control.scale.next(control.scale.low if shown is None else shown, steps))

    def action_tick(self) -> None:
        """Switch the setting, or tick the item under the cursor."""
        control = self.control
        if control and control.kind == "switch":
            self.set_value(not self.values[control.name])
        elif control and control.kind == "list" and control.entries:
            name, chosen = control.entries[min(self.item, len(control.entries) - 1)].name, self.values[control.name]
            self.set_value(tuple(each for each in chosen if each != name) if name in chosen else (*chosen, name))

    def action_type(self) -> None:
        """Begin to type a value."""
        if self.control and self.control.scale:
            self.typed, self.error = "", ""
            self.refresh()

    def action_default(self) -> None:
        """Back to the default."""
        if self.control:
            self.set_value(self.control.default)

    def on_key(self, event: events.Key) -> None:
        """What is typed after ``=``. Another key than those takes the entry first; one that is refused stops it."""
        if self.typed is None:
            return
        character, handled = event.character or "", True
        if character and character in _TYPED:
            self.typed, self.error = (self.typed + character)[:20], ""
        elif event.key == "backspace":
            self.typed, self.error = self.typed[:-1], ""
        elif event.key == "escape":
            self.typed, self.error = None, ""
        else:
            handled = not self.finish_entry() or event.key == "enter"
        if handled:
            event.stop()
            event.prevent_default()
        self.refresh()

    def finish_entry(self) -> bool:
        """Take what is being typed; False where it is no value, which is said. An empty entry changes nothing."""
        control = self.control
        if not self.typed or control is None or control.scale is None:
            self.typed = None
            return True
        try:
            value = parse(self.typed, control.scale.low, control.scale.high, control.optional)
        except ValueError as problem:
            self.error = f"{control.label}: {problem}"
            return False
        self.set_value(value)
        return True

    # Mouse

    def _at(self, event: events.MouseEvent) -> int | None:
        """The setting under the mouse."""
        y = event.y - self.gutter.top
        lines = self._split()[0] if self.controls else []
        found = lines[y] if 0 <= y < len(lines) else None
        return found if isinstance(found, int) else None

    def _slide(self, event: events.MouseEvent) -> bool:
        """Set the chosen slider to where the mouse is; False where there is none."""
        control, columns = self.control, self.columns
        cell = event.x - self.gutter.left - columns.track_at
        if control is None or control.scale is None or not (self._dragged or 0 <= cell < columns.track):
            return False
        self.set_value(value_at(control.scale, cell, columns.track))
        return True

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Choose a row; on a slider, set it and follow the mouse."""
        number = self._at(event)
        if event.button != 1:
            return
        if number is None:
            self._tick_at(event.x - self.gutter.left - MARK, event.y - self.gutter.top)
            return
        self.choose(number)
        if self.controls[number].kind == "switch":
            self.action_tick()
        elif self._slide(event):
            self._dragged = True
            self.capture_mouse()

    def _tick_at(self, x: int, y: int) -> None:
        """Tick the item of a list that was clicked."""
        rows, _, first = self._split()
        line = y - len(rows) + first
        for index, spot in enumerate(self._below(self.content_size.width)[1]):
            if spot.line == line and spot.start <= x < spot.end:
                self.item = index
                self.action_tick()
                return

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Drag the slider."""
        if self._dragged:
            self._slide(event)

    def on_mouse_up(self) -> None:
        """Let go of the slider."""
        if self._dragged:
            self._dragged = False
            self.release_mouse()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """The row above: the wheel sets nothing."""
        self._wheel(event, -1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """The row below."""
        self._wheel(event, 1)

    def _wheel(self, event: events.MouseEvent, rows: int) -> None:
        event.stop()
        self.choose(self.row + rows)
