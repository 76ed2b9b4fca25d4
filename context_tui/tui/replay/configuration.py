"""A policy's settings as the native configuration of its agent: which file, which key, which value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import Label

from context_tui.errors import PlanError
from context_tui.lab.replay.result import format_policy_label
from context_tui.policies.agent_settings import AgentSettings, build_agent_settings, format_agent_settings
from context_tui.policies.base import find_nested_field
from context_tui.policies.registry import POLICIES
from context_tui.session.window import Window
from context_tui.text.sanitize import make_visible
from context_tui.tui.comparison import Lane
from context_tui.tui.rendering.layout import TextPart
from context_tui.tui.saving import save_new_file
from context_tui.tui.widgets.footer import KeyFooter
from context_tui.tui.widgets.reading_pane import ReadingPane

SOURCES_NOTE = "As of November 2026, from documentation, source code and user reports. Showing it changes nothing."


def list_configurations(lane: Lane) -> list[tuple[str, AgentSettings | None]]:
    """List a policy, or the policies that it runs, each with its agent's settings; None where these are unknown.

    Raises:
        PlanError: its settings make no sense.
    """
    policy, params = POLICIES[lane.policy], lane.params
    window = lane.view.session.window
    own = build_agent_settings(lane.policy, params, window)
    steps = policy.steps(params) if own is None else []
    if find_nested_field(policy) and steps:
        return [(format_policy_label(each.name, of), build_agent_settings(each.name, of, window)) for each, of in steps]
    return [(lane.label, own)]


def build_configuration_parts(lane: Lane) -> Iterator[TextPart]:
    """Yield the configuration as text."""
    window = lane.view.session.window
    try:
        found = list_configurations(lane)
    except PlanError as error:
        yield TextPart(str(error), "text")
        return
    for label, own in found:
        yield TextPart(label, "heading")
        yield from _build_native_parts(own, window)
        yield TextPart("")
    yield TextPart(SOURCES_NOTE, "muted")


def _build_native_parts(own: AgentSettings | None, window: Window) -> Iterator[TextPart]:
    if own is None:
        yield TextPart(f"{_UNKNOWN_TEXT}; y on the previous screen copies a command")
        return
    yield TextPart(_format_scope(own, window), "muted" if own.settings else "text")
    file = ""
    for each in own.settings:
        if each.file != file:
            file = each.file
            yield TextPart(file)
        yield TextPart(f"{each.key} = {each.value}", "text", (), "  ", "    ")
        if each.note:
            yield TextPart(each.note, "muted", (), "    note: ", "    ")
    if own.constant_params:
        yield TextPart(f"hard-coded in the agent; not configurable: {', '.join(own.constant_params)}", "muted")


_UNKNOWN_TEXT = "no agent configuration is known for this policy"


def _format_scope(own: AgentSettings, window: Window) -> str:
    """Format the scope of the settings."""
    if not own.settings:
        return "nothing is configurable: these values are hard-coded in the agent"
    return f"for a window of {window.tokens:,} tokens ({window.source})"


def format_configuration(lane: Lane) -> str:
    """Format the configuration for copying or saving; everything except settings is a comment."""
    window, lines = lane.view.session.window, list[str]()
    try:
        for label, own in list_configurations(lane):
            told = (
                [f"# {_UNKNOWN_TEXT}"]
                if own is None
                else [f"#   {_format_scope(own, window)}", format_agent_settings(own)]
            )
            lines += [f"# {label}", *told, ""]
    except PlanError as error:
        return f"# {error}\n"
    return "\n".join([*lines, f"# {SOURCES_NOTE}"]) + "\n"


class ConfigurationScreen(ModalScreen[None]):
    """The configuration, to read, to copy and to save."""

    CSS_PATH = "firings.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,c", "dismiss", "close", key_display="esc", id="configuration-close", tooltip="Back"),
        Binding("y", "copy", "copy", id="configuration-copy", tooltip="Copy it as text"),
        Binding("s", "save", "save", id="configuration-save", tooltip="Save it as a new file in the working directory"),
    ]

    def __init__(self, lane: Lane) -> None:
        super().__init__()
        self._lane = lane

    def compose(self) -> ComposeResult:
        """Return a title and the configuration."""
        yield Label("Configuration of the agent", id="firings-title", markup=False)
        yield ReadingPane(build_configuration_parts(self._lane), id="firings-list")
        yield KeyFooter()

    def action_copy(self) -> None:
        """Copy the text."""
        self.app.copy_to_clipboard(format_configuration(self._lane))

    def action_save(self) -> None:
        """Save the text under a name that is not taken."""
        self.app.clear_notifications()
        try:
            said, warn = (
                f"Saved {save_new_file(format_configuration(self._lane), f'{self._lane.policy}-configuration', 'txt')}",
                False,
            )
        except OSError as error:
            said, warn = f"The file cannot be written: {error.strerror or error}", True
        severity = "warning" if warn else "information"
        self.notify(make_visible(said), severity=severity, markup=False, timeout=4)  # type: ignore[arg-type]
