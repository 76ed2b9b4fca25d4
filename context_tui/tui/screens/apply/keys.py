"""The apply screen's keys. Several may have the same key: the state decides which of them can be used."""

from __future__ import annotations

from textual.binding import Binding

from context_tui.summarizer.plan_summary import SUMMARIZER_KINDS


def _build_binding(key: str, action: str, description: str, name: str, tooltip: str, *, footer: bool = True) -> Binding:
    return Binding(key, action, description, show=footer, id=f"apply-{name}", tooltip=tooltip)


_AGAIN_TOOLTIP = "Send the messages once more; drafts stay"

APPLY_BINDINGS = [
    _build_binding("enter", "begin", "send", "begin", "Send the messages; the model writes the summary"),
    _build_binding("enter", "again", "send again", "again", _AGAIN_TOOLTIP),
    _build_binding("enter", "why", "why not", "why", "Say why nothing can be sent", footer=False),
    _build_binding("a", "accept", "accept", "accept", "Apply the plan with this summary"),
    _build_binding("e", "edit", "edit", "edit", "Edit the summary"),
    _build_binding("r", "retry", "write again", "retry", "Have another summary written; drafts stay"),
    _build_binding("r", "again", "send again", "again", _AGAIN_TOOLTIP, footer=False),
    _build_binding("d", "next_draft(1)", "draft", "older", "Show the draft before this one"),
    _build_binding("D", "next_draft(-1)", "newer draft", "newer", "Show the draft after this one", footer=False),
    *(
        _build_binding(str(number), f"choose('{kind}')", kind, kind, f"Summarise by {kind}", footer=False)
        for number, kind in enumerate(SUMMARIZER_KINDS, 1)
    ),
    # Not in the footer: the lines say these where they do something.
    _build_binding("s", "next_summarizer", "summarizer", "summarizer", "Choose the next summarizer", footer=False),
    _build_binding("n", "model", "model", "model", "Set the model", footer=False),
    _build_binding("u", "url", "server", "url", "Set the server (base URL)", footer=False),
    _build_binding("m", "mask", "mask", "mask", "Mask suspected secrets, or send them unmasked", footer=False),
    _build_binding("escape", "cancel", "stop", "cancel", "Stop; what was written stays as a draft"),
    _build_binding("escape", "finish", "finish editing", "finish", "Keep the edited summary"),
    _build_binding("escape", "close", "close", "close", "Close; drafts are kept until the program ends"),
    _build_binding("tab", "app.focus_next", "pane", "pane", "Go to the next pane"),
    # Textual's own, which the screen does not inherit: its footer would begin with them.
    Binding("shift+tab", "app.focus_previous", "Focus Previous", show=False),
    Binding("ctrl+c,super+c", "screen.copy_text", "Copy selected text", show=False),
]
"""In the order of the footer."""
