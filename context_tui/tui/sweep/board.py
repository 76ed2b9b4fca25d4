"""Model of the sweep screen: settings and their measured rows, the sort order, and the cursor.

Independent of widgets and threads: the screen measures the ``missing_settings`` and updates the board with their rows.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from context_tui.errors import PlanError
from context_tui.lab.study import HANDLING_TEXTS
from context_tui.lab.sweep.grids import SweepSetting, build_setting, build_settings, parse_grid, propose_grid
from context_tui.lab.sweep.results import Sweep, Totals
from context_tui.lab.sweep.rows import SweepRow
from context_tui.lab.sweep.session_sweep import SessionSweep, SweepOptions
from context_tui.policies.agent_settings import AgentSettings, build_agent_settings
from context_tui.policies.parameter_space import build_recorded_params, list_parameters_in_context
from context_tui.policies.parameters import format_assignments
from context_tui.policies.registry import POLICIES
from context_tui.policies.versions import list_version_params
from context_tui.session.session import Session
from context_tui.session.window import ASSUMED_WINDOW, Window
from context_tui.text.numbers import format_count
from context_tui.text.sanitize import sanitize_line
from context_tui.tui.comparison import PolicyComparison

MAX_PARAMETER_COLUMNS = 4


@dataclass(eq=False)
class SweepRowCache:
    """The rows measured for a session, keyed by setting, and the sweep that measures them (None before it is used)."""

    session: Session
    options: SweepOptions
    rows: dict[str, SweepRow] = field(default_factory=dict)
    session_sweep: SessionSweep | None = None


class SortOrder(NamedTuple):
    """An order in which settings can be listed: its name, its sort key, and whether the largest comes first."""

    name: str
    key: Callable[[Totals], float]
    is_largest_first: bool


SORT_ORDERS = (
    SortOrder("saved", lambda each: each.saved, True),
    SortOrder("needed later", lambda each: each.regret_tokens, False),
    SortOrder("cost", lambda each: each.extra_cost, False),
    SortOrder("firings", lambda each: each.firings, False),
    SortOrder("peak", lambda each: each.peak, False),
    SortOrder("extra calls", lambda each: each.break_even_calls, True),
)
"""Orders by a number; the order of the grid comes after them."""
GRID_ORDER = "as given"


class SweepBoard:
    """The state of the sweep screen: settings, measured rows, sort order and cursor.

    Attributes:
        row_cache: measured rows of the open session; None for a sweep over sessions.
        grid_text: the grid as typed; empty for a sweep over sessions.
        handling: how recorded compactions are handled; empty if the open session has none.
        error: the reason why a setting cannot be measured.
        order: the name of the order of the list; ``is_reversed`` reverses it.
        shows_break_even: whether the plot's horizontal axis is the break-even in extra calls, in place of the regret.
        only_best: whether only the Pareto front and the current setting are listed.
    """

    def __init__(
        self, sweep: Sweep, row_cache: SweepRowCache | None = None, *, grid_text: str = "", handling: str = ""
    ) -> None:
        self.row_cache, self.grid_text, self.error, self.handling = row_cache, grid_text, "", handling
        self.order, self.is_reversed, self.only_best = SORT_ORDERS[0].name, False, False
        self.shows_break_even = False
        self.cursor = sweep.current
        self._sweeps = {sweep.saving_unit: sweep}
        self.saving_unit = sweep.saving_unit
        self._set_settings(sweep.settings)

    def _set_settings(self, settings: Sequence[SweepSetting]) -> None:
        self.settings_by_name: Mapping[str, SweepSetting] = {each.name: each for each in settings}
        policy = self.current_setting.policy.name if settings else ""
        self.parameter_columns = find_parameter_columns(settings, policy)
        self._listing_cache: tuple[Sweep, object, list[str]] | None = None

    # Settings and results

    @property
    def sweep(self) -> Sweep:
        """The sweep with the rows measured so far, and with savings in the chosen unit."""
        if self.saving_unit not in self._sweeps:
            self._sweeps[self.saving_unit] = replace(next(iter(self._sweeps.values())), saving_unit=self.saving_unit)
        return self._sweeps[self.saving_unit]

    @property
    def current_setting(self) -> SweepSetting:
        """The setting that all others are compared with."""
        return self.settings_by_name[next(iter(self._sweeps.values())).current]

    @property
    def is_live(self) -> bool:
        """Whether the sweep is over the open session, so that its grid can be changed."""
        return self.row_cache is not None

    @property
    def missing_settings(self) -> list[SweepSetting]:
        """The settings that are still to be measured."""
        if self.row_cache is None or self.error:
            return []
        return [each for each in self.sweep.settings if each.name not in self.row_cache.rows]

    @property
    def totals(self) -> Mapping[str, Totals]:
        """The totals of the measured settings, keyed by setting name."""
        return next(iter(self._sweeps.values())).totals

    def list_native(self, setting: SweepSetting) -> list[tuple[str, AgentSettings | None]]:
        """Return (heading, agent's settings or None) for each context window; one pair with "" if all are the same."""
        rows = self.sweep.rows_by_session.values()
        recorded = [self.row_cache.session.window] if self.row_cache else [each[0].window for each in rows]
        windows = [each or Window(ASSUMED_WINDOW, "assumed") for each in recorded]
        build = partial(build_agent_settings, setting.policy.name, setting.params)
        by_size = {(each.model_tokens, each.is_known): build(each) for each in windows}
        counts = Counter((each.model_tokens, each.is_known) for each in windows)
        (tokens, is_known), native = next(iter(by_size.items()))
        larger = Window(2 * tokens, "given")  # an assumed size matters only if another gives another configuration
        if all(each == native for each in by_size.values()) and (is_known or native == build(larger)):
            return [("", native)]
        return [(_format_window(*size, counts), by_size[size]) for size, _ in counts.most_common()]

    def format_label(self, name: str) -> str:
        """Format a setting's name, without the policy if that is the policy of the current setting."""
        policy = self.current_setting.policy.name
        setting = self.settings_by_name.get(name)
        if setting is None or setting.policy.name != policy:
            return name
        label = name.removeprefix(policy).strip() or "defaults"
        if not list_version_params(policy):
            return label
        if self.row_cache:
            default = build_recorded_params(setting.policy, {}, self.row_cache.session.facts)
            label += " (default)" if name == build_setting(setting.policy, default).name else ""
        values = self.sweep.find_param_values(setting)
        by_version = {key: value for key, value in values.items() if value != setting.param_values[key]}
        return f"{label} (by version: {' '.join(format_assignments(by_version))})" if by_version else label

    # Listing

    @property
    def listed_names(self) -> list[str]:
        """The names of the listed settings, in list order."""
        sweep, key = self.sweep, (self.order, self.is_reversed, self.only_best)
        if self._listing_cache is None or self._listing_cache[0] is not sweep or self._listing_cache[1] != key:
            self._listing_cache = sweep, key, self._sort_names()
        return self._listing_cache[2]

    @property
    def cursor_index(self) -> int:
        """The position of the cursor's setting in the list, or 0 if that setting is not listed."""
        return self.listed_names.index(self.cursor) if self.cursor in self.listed_names else 0

    @property
    def is_largest_first(self) -> bool:
        """Whether the list begins with the largest value in the current order."""
        is_descending = next((each.is_largest_first for each in SORT_ORDERS if each.name == self.order), False)
        return is_descending != self.is_reversed

    def _sort_names(self) -> list[str]:
        totals, order = self.totals, next((each for each in SORT_ORDERS if each.name == self.order), None)
        best = {*self.sweep.best, self.sweep.current}
        names = [each.name for each in self.sweep.settings if each.name in totals]
        names = [name for name in names if not self.only_best or name in best]
        if order is not None and order.name == "saved" and self.saving_unit == "money":
            order = SortOrder("saved", lambda each: -each.extra_cost, True)
        if order is not None:
            # Equal settings are sorted by savings and regret.
            names.sort(key=lambda name: (-totals[name].saved, totals[name].regret_tokens))
            names.sort(key=lambda name: order.key(totals[name]), reverse=order.is_largest_first)
        return names[::-1] if self.is_reversed else names

    # Commands

    def update(self, rows: Iterable[SweepRow], sweep: Sweep | None = None) -> None:
        """Add measured rows; *sweep*, if given, already includes these rows."""
        if self.row_cache is None:
            return
        self.row_cache.rows.update((row.setting, row) for row in rows)
        settings = self.sweep.settings
        if sweep is None or sweep.settings is not settings:
            sweep = build_partial_sweep(settings, self.row_cache.rows, self.sweep)
        self._sweeps = {sweep.saving_unit: sweep}

    def set_grid(self, grid_text: str) -> None:
        """Sweep another grid, keeping the measured rows; raises PlanError if the grid is invalid or too large."""
        if self.row_cache is None:
            return
        current, facts = self.current_setting, self.row_cache.session.facts
        settings = build_settings(parse_grid(grid_text, current.policy), current, facts)
        self.grid_text, self.error = grid_text, ""
        self._sweeps = {self.saving_unit: Sweep(settings, [], current=current.name, saving_unit=self.saving_unit)}
        self._set_settings(settings)
        self.update(())
        if self.cursor not in self.settings_by_name:
            self.cursor = current.name

    def move_cursor(self, steps: int) -> None:
        """Move the cursor by *steps* settings, stopping at either end of the list."""
        self.move_to_index(self.cursor_index + steps)

    def move_to_index(self, index: int) -> None:
        """Move the cursor to position *index* in the list, or to the nearer end if it is out of range."""
        if self.listed_names:
            self.cursor = self.listed_names[min(max(index, 0), len(self.listed_names) - 1)]

    def move_to_setting(self, name: str) -> None:
        """Move the cursor to the named setting, listing all settings if it is not listed."""
        if name in self.settings_by_name:
            self.cursor = name
            if name not in self.listed_names:
                self.only_best = False

    def cycle_order(self, step: int) -> None:
        """Sort by the next (+1) or previous (-1) order; the first one follows the last."""
        names = [*(each.name for each in SORT_ORDERS), GRID_ORDER]
        self.set_order(names[(names.index(self.order) + step) % len(names)])

    def set_order(self, name: str) -> None:
        """Sort by the named order, or reverse the list if it is already sorted by that order."""
        self.is_reversed = not self.is_reversed if name == self.order else False
        self.order = name

    def toggle_saving_unit(self) -> bool:
        """Switch savings between tokens and money; return False, changing nothing, if there are no prices."""
        if self.saving_unit == "tokens" and not self.sweep.has_prices:
            return False
        self.saving_unit = "money" if self.saving_unit == "tokens" else "tokens"
        return True

    def toggle_break_even(self) -> bool:
        """Switch the plot between regret and break-even; return False, changing nothing, if there are no prices."""
        if not self.shows_break_even and not self.sweep.has_prices:
            return False
        self.shows_break_even = not self.shows_break_even
        return True

    def toggle_only_best(self) -> None:
        """Switch between listing only the Pareto front and listing all settings."""
        self.only_best = not self.only_best
        if self.cursor not in self.listed_names:
            self.move_to_index(0)


def _format_window(tokens: int, is_known: bool, counts: Counter[tuple[int, bool]]) -> str:
    number = counts[tokens, is_known]
    sessions = f" ({number:,} of {format_count(counts.total(), 'session')})" if len(counts) > 1 else ""
    return f"with {'a' if is_known else 'an assumed'} context window of {tokens:,}{sessions}:"


def build_partial_sweep(settings: Sequence[SweepSetting], rows: Mapping[str, SweepRow], other: Sweep) -> Sweep:
    """Return a sweep of *settings* with their rows measured so far, and the current setting and unit of *other*."""
    measured_rows = [rows[each.name] for each in settings if each.name in rows]
    return Sweep(settings, measured_rows, current=other.current, saving_unit=other.saving_unit)


def find_parameter_columns(settings: Sequence[SweepSetting], policy: str) -> dict[str, int]:
    """Return the parameters of *policy* that differ among the settings, each with the length of its longest value.

    The result is empty if too many parameters differ, or if one of them holds the parameters of nested policies.
    """
    policy_params = [each.params for each in settings if each.policy.name == policy]
    if not policy_params:
        return {}
    columns = {}
    for name in type(policy_params[0]).model_fields:
        values = {str(each): each for each in (getattr(params, name) for params in policy_params)}
        if len(values) > 1:
            columns[name] = max(len(format_value(each)) for each in values.values())
    is_nested = any(isinstance(getattr(policy_params[0], name), Mapping) for name in columns)
    return {} if is_nested or len(columns) > MAX_PARAMETER_COLUMNS else columns


def format_value(value: Any) -> str:
    """Format a parameter's value for the table."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:g}"
    return sanitize_line(",".join(map(str, value)) if isinstance(value, list | tuple) else str(value))


def build_board(comparison: PolicyComparison, row_cache: SweepRowCache | None = None) -> SweepBoard:
    """Build a board with a grid for the selected policy and the other policies as they are set; may raise PlanError."""
    lane, session = comparison.selected_lane, comparison.session
    options = SweepOptions(**vars(comparison.settings))
    policy, params = POLICIES[lane.policy], lane.params
    if not policy.phases:
        raise PlanError(f"{policy.name} is applied manually: there is nothing to sweep; choose another policy")
    if row_cache is None or row_cache.session is not session or row_cache.options != options:
        row_cache = SweepRowCache(session, options)
    current = build_setting(policy, params)
    controls = list_parameters_in_context(policy, params, comparison.full_context, lane.view.runtime_state)
    proposal = propose_grid(policy, params, controls, len(session.facts.request_message))
    other_policies = dict.fromkeys(
        " ".join([each.policy, *map(shlex.quote, format_assignments(each.values))])
        for each in comparison.lanes
        if each.policy != policy.name
    )
    text = " ".join([proposal, *other_policies]).strip()
    sweep = Sweep(build_settings(parse_grid(text, policy), current, session.facts), [], current=current.name)
    handling = HANDLING_TEXTS[options.recorded] if session.facts.compactions else ""
    board = SweepBoard(sweep, row_cache, grid_text=text, handling=handling)
    board.update(())
    return board
