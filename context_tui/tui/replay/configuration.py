"""A policy's settings as the native configuration of its agent: file, key and value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from textual.binding import Binding, BindingType

from context_tui.errors import PlanError
from context_tui.lab.replay.result import format_policy_label
from context_tui.policies.agent_settings import (
    UNKNOWN_SETTINGS_TEXT,
    AgentSettings,
    build_agent_settings,
    format_agent_settings,
)
from context_tui.policies.base import find_nested_field
from context_tui.policies.registry import POLICIES
from context_tui.tui.comparison import Lane
from context_tui.tui.rendering.layout import TextPart
from context_tui.tui.saving import save_and_report
from context_tui.tui.widgets.text_screen import TextScreen

SOURCES_NOTE = "As of November 2026, from documentation, source code and user reports. Showing it changes nothing."


def list_configurations(lane: Lane) -> list[tuple[str, AgentSettings | None]]:
    """List a policy, or those that it runs, with its agent's settings or None; raises PlanError if invalid."""
    policy, params, window = POLICIES[lane.policy], lane.params, lane.view.session.window
    settings = build_agent_settings(lane.policy, params, window)
    if settings is None and find_nested_field(policy) and (steps := policy.steps(params)):
        return [
            (format_policy_label(step.name, values), build_agent_settings(step.name, values, window))
            for step, values in steps
        ]
    return [(lane.label, settings)]


def format_configuration(lane: Lane) -> str:
    """Format the configuration to be shown, copied or saved; everything except settings is a comment."""
    window, lines = lane.view.session.window, list[str]()
    try:
        configurations = list_configurations(lane)
    except PlanError as error:
        return f"# {error}\n"
    for label, settings in configurations:
        lines.append(f"# {label}")
        if settings and settings.settings:
            lines.append(f"#   for a window of {window.tokens:,} tokens ({window.source})")
        elif settings:
            lines.append("#   nothing is configurable: these values are hard-coded in the agent")
        lines += [format_agent_settings(settings), ""]
    return "\n".join([*lines, f"# {SOURCES_NOTE}"]) + "\n"


def build_configuration_parts(lane: Lane) -> Iterator[TextPart]:
    """Yield the lines of the configuration; comments are muted."""
    for line in format_configuration(lane).splitlines():
        remedy = "; y on the previous screen copies a command" if line.endswith(UNKNOWN_SETTINGS_TEXT) else ""
        yield TextPart(line + remedy, "muted" if line.startswith("#") else "text")


class ConfigurationScreen(TextScreen[None]):
    """Screen that shows the configuration, and copies or saves it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,c", "dismiss", "close", key_display="esc", id="configuration-close", tooltip="Back"),
        Binding("y", "copy", "copy", id="configuration-copy", tooltip="Copy it as text"),
        Binding("s", "save", "save", id="configuration-save", tooltip="Save it as a new file in the working directory"),
    ]

    def __init__(self, lane: Lane) -> None:
        super().__init__("Configuration of the agent", build_configuration_parts(lane))
        self._lane = lane

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(format_configuration(self._lane))

    def action_save(self) -> None:
        save_and_report(self, format_configuration(self._lane), f"{self._lane.policy}-configuration", "txt")
