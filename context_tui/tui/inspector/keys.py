"""Key bindings of the inspector, and the full-screen views that some of them open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from typing import Any, Protocol, cast

from textual.binding import Binding
from textual.screen import Screen

from context_tui.policies.base import Policy
from context_tui.policies.registry import LISTED_POLICIES
from context_tui.tui.controller import Controller
from context_tui.tui.inspector.timeline import Timeline
from context_tui.tui.view import MAX_POLICY_DIGIT, format_policy_digits, format_policy_tooltip
from context_tui.tui.widgets.bindings import build_binding
from context_tui.tui.widgets.setting_rows import SettingRows


@dataclass(frozen=True)
class FullScreen:
    """Full-screen view: name of its module and of its key in the configuration file, its keys, title and content.

    ``is_in_footer`` says whether the footer has its key. What the screen closes with is carried out on the inspector.
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


_SCREEN_MODULES = {
    "replay": "replay",
    "sweep": "sweep",
    "compactions": "compactions",
    "problems": "inspector.problems",
    "calibration": "inspector.calibration",
    "request": "inspector.request",
}


class _ScreenModule(Protocol):
    def build_screen(self, controller: Controller) -> Screen[Any]: ...


def build_full_screen(name: str, controller: Controller) -> Screen[Any]:
    """Build the view of that name for the current session; its module is imported on first use.

    Raises:
        CommandRefused: the view has nothing to show.
    """
    module = cast("_ScreenModule", import_module(f"context_tui.tui.{_SCREEN_MODULES[name]}"))
    return module.build_screen(controller)


HELP_NOTES = (
    "Marks: - cleared, ~ truncated, S summarised, D dropped, = kept as recent, . cleared earlier, "
    "< before this context, > after the planned point.",
    "Turns: ▾ an open turn, ▸ a folded one; its line shows what the plan does to its results and messages, and its "
    "share of the next request.",
    "Line of recorded sizes: │ a new context begins, ▾ the recorded context shrank, ◆ the planned point.",
    "Parts of the context: system+tools is the part of the first request that is not in the file, unknown is what was "
    "recorded beyond all estimates, overestimated is the excess of the estimates.",
    "Sizes are estimates (bytes / 4) unless marked as recorded. R changes the token measure: calibrated by recorded "
    "sizes (cal.), or counted by a tokenizer (o200k).",
    "Drag over a message to select text, ctrl+c copies it; with shift held, the terminal selects.",
)
"""Notes above the keys in the help."""

_JUMP_POINTS_LABEL = "peak, first fire, compaction, clear or drop"


def build_bindings(policies: Mapping[str, Policy]) -> list[Binding]:
    """Build all bindings; the digits choose the first nine of *policies*."""
    shown = build_binding(
        "P", "next_policy", "policy", "next-policy", "Plan with the next policy", format_policy_digits(len(policies))
    )
    return [*_FIRST_BINDINGS, shown, *_build_policy_bindings(policies), *_OTHER_BINDINGS]


def format_unknown_keys(names: Iterable[str]) -> str:
    """Format a warning about unknown names of keys in the configuration file; empty if all are known."""
    bindings = (*build_bindings(LISTED_POLICIES), *Timeline.BINDINGS, *SettingRows.BINDINGS)
    known = {each.id for each in bindings if isinstance(each, Binding)}
    unknown = ", ".join(name for name in names if name not in known)
    return f"[keys] in the configuration file: unknown {unknown}; docs/keys.md lists the names" if unknown else ""


def _build_policy_bindings(policies: Mapping[str, Policy]) -> list[Binding]:
    return [
        build_binding(
            str(number),
            f"policy('{name}')",
            f"Policy: {name}",
            f"policy-{number}",
            format_policy_tooltip(name, policy),
        )
        for number, (name, policy) in enumerate(islice(policies.items(), MAX_POLICY_DIGIT), 1)
    ]


_FIRST_BINDINGS = [
    # First, so that it stays in sight in a narrow footer.
    build_binding("question_mark,f1", "help", "help", "help", "List all keys", "?"),
    build_binding("tab", "pane(1)", "pane", "pane-next", "Go to the next pane", "tab"),
    build_binding("shift+tab", "pane(-1)", "Previous pane", "pane-previous", "Go to the previous pane"),
    build_binding(
        "left_square_bracket", "turn(-1)", "Turn", "turn-previous", "Go to the start of this or the previous turn"
    ),
    build_binding("right_square_bracket", "turn(1)", "Next turn", "turn-next", "Go to the start of the next turn"),
    build_binding("z", "fold", "Fold turn", "fold", "Fold the turn of the selected row to its head, or open it"),
    build_binding("Z", "fold_all", "Fold all turns", "fold-all", "Fold all turns to a table of contents, or open them"),
]
_OTHER_BINDINGS = [
    build_binding("left", "value(-1)", "value", "value-less", "Lower the selected parameter by a step", "←→"),
    build_binding("right", "value(1)", "Raise value", "value-more", "Raise the selected parameter by a step"),
    build_binding(
        "shift+left", "value(-10)", "Lower value by ten", "value-ten-less", "Lower the selected parameter by ten steps"
    ),
    build_binding(
        "shift+right", "value(10)", "Raise value by ten", "value-ten-more", "Raise the selected parameter by ten steps"
    ),
    build_binding("equals_sign", "type", "Type a value", "type", "Type a value for the selected parameter"),
    build_binding("full_stop", "as_of", "Here", "as-of", "Plan before the selected message, or at the end again"),
    build_binding(
        "greater_than_sign", "changed(1)", "Next change", "change-next", "Go to the next row that the plan changes"
    ),
    build_binding(
        "less_than_sign",
        "changed(-1)",
        "Previous change",
        "change-previous",
        "Go to the previous row that the plan changes",
    ),
    build_binding("right_curly_bracket", "jump(1)", "Jump", "jump-next", f"Go to the next {_JUMP_POINTS_LABEL}"),
    build_binding(
        "left_curly_bracket", "jump(-1)", "Jump back", "jump-previous", f"Go to the previous {_JUMP_POINTS_LABEL}"
    ),
    build_binding(
        "right_parenthesis", "compaction(1)", "Compaction", "compaction-next", "Go to the next recorded compaction"
    ),
    build_binding(
        "left_parenthesis",
        "compaction(-1)",
        "Compaction back",
        "compaction-previous",
        "Go to the previous recorded compaction",
    ),
    build_binding("a", "apply", "apply", "apply", "Apply the plan; the file stays unchanged", "a"),
    *(each.binding for each in FULL_SCREENS if each.is_in_footer),
    build_binding(
        "b", "breakdown", "where", "breakdown", "Show where the tokens are: by category, tool, block and file", "b"
    ),
    build_binding("e", "export", "export", "export", "Export to a new file", "e"),
    build_binding("slash", "search", "find", "search", "Search the whole session", "/"),
    build_binding("n", "match(1)", "Next match", "match-next", "Go to the next match"),
    build_binding("N", "match(-1)", "Previous match", "match-previous", "Go to the previous match"),
    build_binding(
        "v", "raw", "As written", "raw", "Show the message as written, or with its markdown and code rendered"
    ),
    build_binding("u", "undo", "Undo", "undo", "Undo the last applied plan"),
    build_binding("U,ctrl+r", "redo", "Redo", "redo", "Redo what was undone"),
    build_binding("f", "filter", "Filter", "filter", "List only some rows: by category, tool, verdict or size"),
    build_binding("o", "sort", "Sort", "sort", "Sort by size, or in the order of the file"),
    build_binding("m", "mark", "Mark result", "mark", "Clear the selected result by hand (policy manual)"),
    build_binding(
        "c", "cut", "Cut here", "cut", "Summarise everything before the selected message by hand (policy manual)"
    ),
    *(each.binding for each in FULL_SCREENS if not each.is_in_footer),
    build_binding("r", "read_on", "Read on", "read-on", "Continue to read the session"),
    build_binding("F", "follow", "Follow", "follow", "Follow the session as it is written, or stop following"),
    build_binding(
        "S", "save_settings", "Save settings", "save-settings", "Save the settings of the policy under a name"
    ),
    build_binding(
        "R", "ruler", "Token measure", "ruler", "Change the token measure: the policies' own, calibrated, exact"
    ),
    build_binding("w", "window", "Window", "window", "Set the size of the context window"),
    build_binding("t", "go_to", "Go to message", "go-to", "Go to a message by its number"),
    build_binding(
        "y", "copy", "Copy", "copy", "Copy the selected message; from the parameters, the command for this plan"
    ),
    build_binding(
        "escape",
        "back",
        "Back",
        "back",
        "Stop reading, close a pane, list all rows, or plan at the end again",
    ),
    build_binding("ctrl+o", "sessions", "Sessions", "sessions", "Choose another session, a subagent or a branch"),
    build_binding("q", "leave", "quit", "leave", "Quit; ask first if a result is not exported", "q"),
]
