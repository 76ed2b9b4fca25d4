"""From what was chosen last to what is chosen now, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from context_tui.app.state import InspectorState
from context_tui.errors import PlanError
from context_tui.policies.parameters import assignments, differences, pairs, params_for
from context_tui.policies.registry import DEFAULT, POLICIES
from context_tui.tui.view import View

Settings = Mapping[str, Mapping[str, Any]]


def chosen_last(last: InspectorState) -> tuple[str, Settings]:
    """The policy and the settings by policy; without what is not known or not valid any more."""
    found: dict[str, Mapping[str, Any]] = {}
    for name, texts in last.settings.items():
        if name in POLICIES:
            try:
                found |= differences(POLICIES[name], params_for(POLICIES[name], pairs(texts)))
            except PlanError:
                continue
    return (last.policy if last.policy in POLICIES else DEFAULT), found


def to_keep(view: View, *, breakdown: bool) -> InspectorState:
    """What is kept of a view: what is about one session only, as marks made by hand, is not."""
    settings = {
        name: tuple(assignments(values)) for name, values in view.params.items() if values and not POLICIES[name].marked
    }
    return InspectorState(view.policy, settings, breakdown)


def told(settings: Settings) -> str:
    """The settings in a line; empty where all are the defaults."""
    return ", ".join(assignments({"": settings}))  # as a chain has them: those of several policies, with their names
