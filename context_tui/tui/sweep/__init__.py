"""Sweep of many settings along the recording: a table, a plot with the Pareto front, and a key to adopt a setting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from context_tui.lab.sweep.results import Sweep
    from context_tui.lab.sweep.settings import SweepSetting
    from context_tui.tui.comparison import Comparison
    from context_tui.tui.controller import Controller
    from context_tui.tui.options import InspectorOptions
    from context_tui.tui.sweep.screen import AdoptSetting, SweepScreen


def build_screen(controller: Controller) -> SweepScreen:
    """Return the sweep screen for the policy on screen; the inspector adopts the chosen setting.

    Raises:
        CommandRefused: the session is still being read or is a compacted copy, or the policy cannot be replayed.
    """
    from context_tui.errors import PlanError
    from context_tui.tui.controller import CommandRefused

    comparison = controller.build_comparison()
    try:
        return build_comparison_screen(controller, comparison, partial(_adopt_in_inspector, controller))
    except PlanError as error:
        raise CommandRefused(str(error), warn=True) from None


def build_comparison_screen(
    controller: Controller, comparison: Comparison, adopt: AdoptSetting | None = None
) -> SweepScreen:
    """Return the sweep screen for the selected policy of a comparison.

    Args:
        adopt: adopts the chosen setting; by default it changes the selected policy.

    Raises:
        PlanError: the policy cannot be replayed, or its settings are invalid.
    """
    from context_tui.tui.command_line import format_sweep_command
    from context_tui.tui.sweep.board import SweepBoard, build_board
    from context_tui.tui.sweep.grids import parse_grid
    from context_tui.tui.sweep.screen import SweepScreen

    board = build_board(comparison, controller.sweep_results)
    controller.sweep_results = board.row_cache

    def format_command(board: SweepBoard) -> str:
        parts = parse_grid(board.grid_text, board.current_setting.policy)
        grids = [(part.policy.name, part.value_texts) for part in parts]
        return format_sweep_command(
            comparison.session, grids, board.current_setting, comparison.settings, board.saving_unit
        )

    adopt = adopt or partial(_adopt_in_comparison, comparison)
    return SweepScreen(board, format_command=format_command, adopt=adopt)


def build_sessions_screen(sweep: Sweep, command: str, options: InspectorOptions) -> SweepScreen:
    """Return the screen of a sweep over sessions; *command* is its command line."""
    from context_tui.tui.sweep.board import SweepBoard
    from context_tui.tui.sweep.screen import SweepScreen

    board = SweepBoard(sweep, command=command, window=options.window)
    return SweepScreen(board, format_command=lambda board: board.command)


def _adopt_in_inspector(controller: Controller, setting: SweepSetting) -> str:
    params = merge_params(controller.view.params, setting)
    controller.adopt_settings(setting.policy.name, params, None)
    return f"Applied: {setting.name}"


def _adopt_in_comparison(comparison: Comparison, setting: SweepSetting) -> str:
    from context_tui.tui.comparison import Lane

    lane, policy = comparison.selected_lane, setting.policy.name
    view = replace(lane.view, policy=policy, params=merge_params(lane.view.params, setting))
    if lane.policy == policy:
        lane.view = view
    else:
        comparison.lanes[comparison.selected_number] = Lane(view)
    return f"Applied: {setting.name}"


def merge_params(params: Mapping[str, Mapping[str, Any]], setting: SweepSetting) -> dict[str, Mapping[str, Any]]:
    """Return the changed values of all policies, by policy, with those of a swept setting replaced."""
    from context_tui.policies.base import list_nested_policies
    from context_tui.policies.parameter_space import find_changed_values

    policy = setting.policy
    policies = {policy.name, *list_nested_policies(policy, setting.params)}
    other_params = {name: values for name, values in params.items() if name not in policies}
    return {**other_params, **find_changed_values(policy, setting.params)}
