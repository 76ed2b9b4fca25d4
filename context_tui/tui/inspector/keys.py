"""Key bindings of the inspector, and the full-screen views that some of them open."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from textual.binding import Binding
from textual.screen import Screen

from context_tui.tui.controller import Controller
from context_tui.tui.inspector.timeline import Timeline
from context_tui.tui.widgets.bindings import build_binding as bind
from context_tui.tui.widgets.bindings import build_policy_bindings
from context_tui.tui.widgets.setting_rows import SettingRows


@dataclass(frozen=True)
class FullScreen:
    """Full-screen view that a key of the inspector opens.

    ``name`` is the id of the binding in the configuration file, ``about`` its tooltip. When the view closes, the
    inspector runs the command that it returns.
    """

    name: str
    keys: str
    title: str
    about: str
    is_in_footer: bool = False

    @property
    def binding(self) -> Binding:
        """Key of the inspector that opens the view."""
        action = f"full_screen('{self.name}')"
        return Binding(self.keys, action, self.title, show=self.is_in_footer, id=self.name, tooltip=self.about)


FULL_SCREENS = [
    FullScreen("replay", "l", "replay", "Replay the session under the policy and compare policies", is_in_footer=True),
    FullScreen("compactions", "B", "Before and after", "Show what each recorded compaction kept and lost"),
    FullScreen("problems", "p", "Problems", "List the records that could not be read"),
    FullScreen("calibration", "C", "Calibration", "Show how each model counts tokens, by recorded sizes"),
    FullScreen("request", "J", "Request", "Show the last request before the point as it was sent (JSON)"),
]


def build_full_screen(name: str, controller: Controller) -> Screen[Any]:
    """Build the view of this name for the open session; its module is imported on first use.

    Raises:
        CommandRefused: the view has nothing to show.
    """
    module = f"inspector.{name}" if name in ("problems", "calibration", "request") else f"{name}.screen"
    screen: Screen[Any] = import_module(f"context_tui.tui.{module}").build_screen(controller)
    return screen


HELP_NOTES = (
    "Marks: - cleared, ~ truncated, S summarised, D dropped, = kept as recent, . cleared earlier, "
    "< before this context, > after the planned point.",
    "Turns: ▾ an open turn, ▸ a folded one; its line shows what the plan does to its results and messages, and its "
    "share of the next request.",
    "Line of recorded sizes: │ a new context begins, ▾ the recorded context shrank, ◆ the planned point.",
    "Full to: the next request as a share of the context window. Its parts add up to it; system and tools are in the "
    "file or not. Calls until it compacts: at the median growth of the last 20 calls, by the agent's own policy.",
    "Sizes are estimates unless marked as recorded. R changes the token measure: calibrated by recorded sizes (cal.), "
    "bytes / 4 (est.), or counted by a tokenizer (o200k).",
    "Drag over a message to select text, ctrl+c copies it; with shift held, the terminal selects.",
)

_JUMP_POINTS_LABEL = "peak, first fire, compaction, clear or drop"


def build_bindings() -> list[Binding]:
    """Build all bindings, in the order of the footer."""
    return [*_FIRST_BINDINGS, *build_policy_bindings("Plan with"), *_OTHER_BINDINGS]


def format_unknown_keys(names: Iterable[str]) -> str:
    """Format a warning about unknown names of keys in the configuration file; empty if all are known."""
    bindings = (*build_bindings(), *Timeline.BINDINGS, *SettingRows.BINDINGS)
    known_ids = {each.id for each in bindings if isinstance(each, Binding)}
    unknown = ", ".join(name for name in names if name not in known_ids)
    return f"[keys] in the configuration file: unknown {unknown}; docs/keys.md lists the names" if unknown else ""


_FIRST_BINDINGS = [
    # First, so that a narrow footer shows it.
    bind("?,f1", "help", "help", "help", "List all keys", "?"),
    bind("shift+tab", "pane(-1)", "Previous pane", "pane-previous", "Go to the previous pane"),
    bind("[", "run('move_to_turn', -1)", "Turn", "turn-previous", "Go to the start of this or the previous turn"),
    bind("]", "run('move_to_turn', 1)", "Next turn", "turn-next", "Go to the start of the next turn"),
    bind(
        "Z",
        "run('toggle_all_folds')",
        "turns",
        "fold-all",
        "Fold all turns to a table of contents with their tokens, or open them",
        "Z",
    ),
    bind("z", "run('toggle_fold')", "Fold turn", "fold", "Fold the turn of the selected row to its head, or open it"),
    bind("P", "policies", "policy", "policies", "Choose one of all policies from a list", "P"),
]
_OTHER_BINDINGS = [
    bind("left", "change_value(-1)", "value", "value-less", "Lower the selected parameter by a step", "←→"),
    bind("right", "change_value(1)", "Raise value", "value-more", "Raise the selected parameter by a step"),
    bind(
        "shift+left",
        "change_value(-10)",
        "Lower value by ten",
        "value-ten-less",
        "Lower the selected parameter by ten steps",
    ),
    bind(
        "shift+right",
        "change_value(10)",
        "Raise value by ten",
        "value-ten-more",
        "Raise the selected parameter by ten steps",
    ),
    bind("=", "type", "Type a value", "type", "Type a value for the selected parameter"),
    bind(".", "run('toggle_point')", "Here", "as-of", "Plan before the selected message, or at the end again"),
    bind(">", "run('move_to_changed', 1)", "Next change", "change-next", "Go to the next row that the plan changes"),
    bind(
        "<",
        "run('move_to_changed', -1)",
        "Previous change",
        "change-previous",
        "Go to the previous row that the plan changes",
    ),
    bind("}", "run('move_to_jump_point', 1)", "Jump", "jump-next", f"Go to the next {_JUMP_POINTS_LABEL}"),
    bind(
        "{", "run('move_to_jump_point', -1)", "Jump back", "jump-previous", f"Go to the previous {_JUMP_POINTS_LABEL}"
    ),
    bind(")", "run('move_to_compaction', 1)", "Compaction", "compaction-next", "Go to the next recorded compaction"),
    bind(
        "(",
        "run('move_to_compaction', -1)",
        "Compaction back",
        "compaction-previous",
        "Go to the previous recorded compaction",
    ),
    bind("a", "apply", "apply", "apply", "Apply the plan; the file stays unchanged", "a"),
    *(each.binding for each in FULL_SCREENS if each.is_in_footer),
    bind("b", "breakdown", "where", "breakdown", "Show where the tokens are: by category, tool, block and file", "b"),
    bind("e", "export", "export", "export", "Export to a new file", "e"),
    bind("/", "search", "find", "search", "Search the whole session", "/"),
    bind("tab", "pane(1)", "pane", "pane-next", "Go to the next pane", "tab"),
    bind("n", "match(1)", "Next match", "match-next", "Go to the next match"),
    bind("N", "match(-1)", "Previous match", "match-previous", "Go to the previous match"),
    bind("v", "raw", "As written", "raw", "Show the message as written, or with its markdown and code rendered"),
    bind("u", "run('undo')", "Undo", "undo", "Undo the last applied plan"),
    bind("U,ctrl+r", "run('redo')", "Redo", "redo", "Redo what was undone"),
    bind("f", "filter", "Filter", "filter", "List only some rows: by category, tool, verdict or size"),
    bind("o", "run('toggle_sort')", "Sort", "sort", "Sort by size, or in the order of the file"),
    bind("m", "run('toggle_mark')", "Mark result", "mark", "Clear the selected result by hand (policy manual)"),
    bind(
        "c",
        "run('toggle_cut')",
        "Cut here",
        "cut",
        "Summarise everything before the selected message by hand (policy manual)",
    ),
    *(each.binding for each in FULL_SCREENS if not each.is_in_footer),
    bind("r", "read_on", "Read on", "read-on", "Continue to read the session"),
    bind("F", "follow", "Follow", "follow", "Follow the session as it is written, or stop following"),
    bind(
        "S",
        "dialog('save_policy_settings')",
        "Save settings",
        "save-settings",
        "Save the settings of the policy under a name",
    ),
    bind(
        "R",
        "run('cycle_measure')",
        "Token measure",
        "ruler",
        "Change the token measure: calibrated, exact, the policies' own",
    ),
    bind("w", "dialog('set_window')", "Window", "window", "Set the size of the context window"),
    bind("t", "dialog('go_to_message')", "Go to message", "go-to", "Go to a message by its number"),
    bind("y", "copy", "Copy", "copy", "Copy the selected message; from the parameters, the command for this plan"),
    bind("Y", "copy(True)", "Copy raw", "copy-raw", "Copy the selected message with its escape sequences"),
    bind("escape", "back", "Back", "back", "Stop reading, close a pane, list all rows, or plan at the end again"),
    bind("ctrl+o", "sessions", "Sessions", "sessions", "Choose another session, a subagent or a branch"),
    bind("q", "dialog('leave')", "quit", "leave", "Quit; ask first if a result is not exported", "q"),
]
