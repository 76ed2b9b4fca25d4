"""The inspector's keys: help, the palette and the footer are made from this list; the footer shows a few of them."""

from __future__ import annotations

from itertools import islice

from textual.binding import Binding, BindingType

from context_tui.policies.registry import POLICIES


def _key(keys: str, action: str, description: str, name: str, tooltip: str, display: str | None = None) -> Binding:
    return Binding(keys, action, description, show=display is not None, key_display=display, id=name, tooltip=tooltip)


_POINT = "peak, first fire, compaction, clear or drop"

KEYS: list[BindingType] = [
    # First, so that it stays in sight in a narrow footer.
    _key("question_mark,f1", "help", "help", "help", "List all keys", "?"),
    _key("left_square_bracket", "turn(-1)", "turn", "turn-previous", "Go to the start of this or the last turn", "[ ]"),
    _key("right_square_bracket", "turn(1)", "Next turn", "turn-next", "Go to the start of the next turn"),
    *(
        _key(
            str(number),
            f"policy({number})",
            "policy" if number == 1 else f"Policy: {name}",
            f"policy-{number}",
            f"Plan with {name}: {policy.about.partition(': ')[2]}",
            f"1–{min(len(POLICIES), 9)}" if number == 1 else None,
        )
        for number, (name, policy) in enumerate(islice(POLICIES.items(), 9), 1)  # digits choose the first nine
    ),
    _key("left", "value(-1)", "value", "value-less", "Lower the selected setting by a step", "←→"),
    _key("right", "value(1)", "Raise value", "value-more", "Raise the selected setting by a step"),
    _key("shift+left", "value(-10)", "Lower value by ten", "value-ten-less", "Lower the selected setting by ten steps"),
    _key("shift+right", "value(10)", "Raise value by ten", "value-ten-more", "Raise the selected setting by ten steps"),
    _key("full_stop", "as_of", "as of", "as-of", "Plan as of the selected message; again: as of the end", "."),
    _key("right_curly_bracket", "jump(1)", "jump", "jump-next", f"Go to the next {_POINT}", "{ }"),
    _key("left_curly_bracket", "jump(-1)", "Jump back", "jump-previous", f"Go to the previous {_POINT}"),
    _key("a", "apply", "apply", "apply", "Carry the plan out; the recording stays as it is", "a"),
    _key("slash", "find", "find", "find", "Find a text anywhere in the session", "/"),
    _key("n", "match(1)", "Next match", "match-next", "Go to the next match"),
    _key("N", "match(-1)", "Previous match", "match-previous", "Go to the previous match"),
    _key("u", "undo", "Undo", "undo", "Go back to before the last applied plan"),
    _key("U,ctrl+r", "redo", "Redo", "redo", "Do again what was undone"),
    _key("e", "export", "Export", "export", "Write the session to a file"),
    _key("f", "filter", "Filter", "filter", "List only some rows: by kind, tool, verdict or size"),
    _key("o", "sort", "Largest first", "sort", "List the largest first, or in the order of the file"),
    _key("b", "breakdown", "Breakdown", "breakdown", "Where did it go: by category, tool and file"),
    _key("m", "mark", "Mark result", "mark", "By hand: clear the selected result (policy manual)"),
    _key("c", "cut", "Cut here", "cut", "By hand: summarise everything before the selected message (policy manual)"),
    _key("p", "problems", "Problems", "problems", "Show what could not be read"),
    _key("w", "window", "Window", "window", "Set the size of the context window"),
    _key("t", "go_to", "Go to message", "go-to", "Go to a message by its number"),
    _key("y", "copy", "Copy", "copy", "Copy the selected message; on the settings, the command that does the same"),
    _key("escape", "back", "Back", "back", "Stop reading, close what is open, list everything again"),
    _key("q", "leave", "Quit", "leave", "Leave; asks once when a result was not exported"),
]
