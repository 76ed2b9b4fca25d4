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
    """One of them: the name of its module, and of its key in the configuration file; its keys, title and content.

    ``is_in_footer`` says whether the footer has its key. What the screen closes with is carried out on the inspector.
    """

    name: str
    keys: str
    title: str
    about: str
    is_in_footer: bool = False

    @property
    def binding(self) -> Binding:
        """The inspector's key that opens it."""
        action = f"full_screen('{self.name}')"
        return Binding(self.keys, action, self.title, show=self.is_in_footer, id=self.name, tooltip=self.about)


FULL_SCREENS = [
    FullScreen("replay", "l", "along the run", "Replay the policy along the run, beside others", is_in_footer=True),
    FullScreen("compactions", "B", "Before and after", "Show what each recorded compaction left, and what was lost"),
    FullScreen("problems", "p", "Problems", "List the records that could not be read"),
    FullScreen(
        "calibration", "C", "Calibration", "Show what a token is to each model by recorded sizes, and the error"
    ),
]


_SCREEN_MODULES = {
    "replay": "replay",
    "sweep": "sweep",
    "compactions": "compactions",
    "problems": "inspector.problems",
    "calibration": "inspector.calibration",
}


class _ScreenModule(Protocol):
    def build_screen(self, controller: Controller) -> Screen[Any]: ...


def build_full_screen(name: str, controller: Controller) -> Screen[Any]:
    """The view of that name on what is on screen; its module is imported now.

    Raises:
        Refused: it has nothing to show.
    """
    module = cast("_ScreenModule", import_module(f"context_tui.tui.{_SCREEN_MODULES[name]}"))
    return module.build_screen(controller)


HELP_NOTES = (
    "Marks: - cleared, ~ truncated, S summarised, D dropped, = kept as recent, . cleared before, "
    "< before this context, > after the point that is planned for.",
    "Turns: ▾ above the messages of one, ▸ where one is folded; its mark and words tell what becomes of its results "
    "and messages, its share is of the next request.",
    "Line of recorded sizes: │ a new context begins, ▾ the recorded context fell, ◆ the point that is planned for.",
    "Parts of the context: system+tools is what the first request had that is not in the file, unknown what was "
    "recorded beyond all estimates, overestimated what these have too much.",
    "Sizes are estimates (bytes / 4) unless called recorded; R takes another ruler: by what was recorded (cal.), or by "
    "a tokenizer (o200k).",
    "Drag over a message to select text, ctrl+c copies it; with shift, the terminal selects.",
)
"""What help says above the keys."""

_JUMP_POINTS_LABEL = "peak, first fire, compaction, clear or drop"


def build_bindings(policies: Mapping[str, Policy]) -> list[Binding]:
    """All bindings, of which the digits choose the first nine of *policies*."""
    shown = build_binding(
        "P", "next_policy", "policy", "next-policy", "Plan with the next policy", format_policy_digits(len(policies))
    )
    return [*_FIRST_BINDINGS, shown, *_build_policy_bindings(policies), *_OTHER_BINDINGS]


def format_unknown_keys(names: Iterable[str]) -> str:
    """What to say about names of keys in the configuration file that there are not; empty where all are known."""
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
    build_binding("full_stop", "as_of", "Here", "as-of", "Plan before the selected message; again: at the end"),
    build_binding(
        "greater_than_sign", "changed(1)", "Next change", "change-next", "Go to the next row that the plan changes"
    ),
    build_binding("less_than_sign", "changed(-1)", "Previous change", "change-previous", "Go to the previous such row"),
    build_binding("right_curly_bracket", "jump(1)", "Jump", "jump-next", f"Go to the next {_JUMP_POINTS_LABEL}"),
    build_binding(
        "left_curly_bracket", "jump(-1)", "Jump back", "jump-previous", f"Go to the previous {_JUMP_POINTS_LABEL}"
    ),
    build_binding(
        "right_parenthesis", "compaction(1)", "Compaction", "compaction-next", "Go to the next recorded compaction"
    ),
    build_binding(
        "left_parenthesis", "compaction(-1)", "Compaction back", "compaction-previous", "Go to the previous one"
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
        "v", "raw", "As written", "raw", "Show the message as it was written, or with its markdown and code rendered"
    ),
    build_binding("u", "undo", "Undo", "undo", "Undo the last applied plan"),
    build_binding("U,ctrl+r", "redo", "Redo", "redo", "Redo what was undone"),
    build_binding("f", "filter", "Filter", "filter", "Show only some rows: by category, tool, verdict or size"),
    build_binding("o", "sort", "Sort", "sort", "Sort by size, or by place in the file"),
    build_binding("m", "mark", "Mark result", "mark", "Clear the selected result by hand (policy manual)"),
    build_binding("c", "cut", "Cut here", "cut", "Summarise all before the selected message by hand (policy manual)"),
    *(each.binding for each in FULL_SCREENS if not each.is_in_footer),
    build_binding("r", "read_on", "Read on", "read-on", "Read on where reading was stopped"),
    build_binding("F", "follow", "Follow", "follow", "Follow the session as it is written, or do so no longer"),
    build_binding(
        "S", "save_settings", "Save settings", "save-settings", "Save the settings of the policy under a name"
    ),
    build_binding("R", "ruler", "Ruler", "ruler", "Measure by the next ruler: the policies' own, calibrated, exact"),
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
        "Stop reading, close what is open, show all rows, or plan at the end again",
    ),
    build_binding("ctrl+o", "sessions", "Sessions", "sessions", "Choose another session, a sub-agent's or a branch"),
    build_binding("q", "leave", "quit", "leave", "Quit; asks first if a result is not exported", "q"),
]
