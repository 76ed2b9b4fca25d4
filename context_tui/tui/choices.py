"""From what was chosen last to what is chosen now, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from context_tui.app.state import InspectorState
from context_tui.errors import PlanError
from context_tui.policies.parameters import build_params, find_changed_values, format_assignments, parse_assignments
from context_tui.policies.registry import DEFAULT_POLICY, POLICIES
from context_tui.tui.view import View

PolicySettings = Mapping[str, Mapping[str, Any]]


def restore_settings(state: InspectorState) -> tuple[str, PolicySettings]:
    """The policy and the settings by policy; without what is not known or not valid any more."""
    found: dict[str, Mapping[str, Any]] = {}
    for name, texts in state.settings.items():
        if name in POLICIES:
            try:
                found |= find_changed_values(POLICIES[name], build_params(POLICIES[name], parse_assignments(texts)))
            except PlanError:
                continue
    return (state.policy if state.policy in POLICIES else DEFAULT_POLICY), found


def build_inspector_state(view: View, *, breakdown: bool) -> InspectorState:
    """What is kept of a view: what is about one session only, as marks made by hand, is not."""
    settings = {
        name: tuple(format_assignments(values))
        for name, values in view.params.items()
        if values and not POLICIES[name].is_session_bound
    }
    return InspectorState(view.policy, settings, breakdown)


def format_settings(settings: PolicySettings) -> str:
    """The settings in a line; empty where all are the defaults."""
    return ", ".join(
        format_assignments({"": settings})
    )  # as a chain has them: those of several policies, with their names
