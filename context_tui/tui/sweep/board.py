"""Model of the sweep screen: settings and their measured rows, the sort order, and the cursor.

Knows no widget and no thread: whoever computes asks for what is ``missing_settings`` and hands back the rows.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from context_tui.errors import PlanError
from context_tui.lab.sweep.frontier import Dominance
from context_tui.lab.sweep.results import Sweep, Totals
from context_tui.lab.sweep.rows import SweepRow
from context_tui.lab.sweep.session_sweep import SessionSweep, SweepOptions
from context_tui.lab.sweep.settings import SweepSetting, build_setting
from context_tui.policies.parameter_space import list_parameters_in_context
from context_tui.policies.parameters import format_assignments
from context_tui.policies.registry import POLICIES
from context_tui.session.session import Session
from context_tui.session.window import ASSUMED_WINDOW, Window
from context_tui.text.sanitize import sanitize_line
from context_tui.tui.comparison import Comparison
from context_tui.tui.sweep.grids import GridPart, build_settings, parse_grid, propose_grid

MAX_PARAMETER_COLUMNS = 4
"""Parameters with a column of their own, at most."""


@dataclass(eq=False)
class SweepRowCache:
    """Cached rows of a session, by the name of the setting, and the data that they share, once computed."""

    session: Session
    options: SweepOptions
    rows: dict[str, SweepRow] = field(default_factory=dict)
    session_sweep: SessionSweep | None = None


class SortOrder(NamedTuple):
    """An order of the settings: its name, what it goes by, and whether the largest comes first."""

    name: str
    key: Callable[[Totals], float]
    is_largest_first: bool


def compute_extra_cost(each: Totals) -> float:
    """Return what a setting costs more than no policy; less than 0: it saves."""
    return each.cost.cost - each.cost.without if each.cost else 0.0


def get_regret_tokens(each: Totals) -> int:
    """Tokens used later; where that was not looked for, all dropped ones."""
    used = each.drops.tokens_used_later
    return each.drops.tokens_dropped if used is None else used


SORT_ORDERS = (
    SortOrder("saved", lambda each: each.saved, True),
    SortOrder("used later", get_regret_tokens, False),
    SortOrder("cost", compute_extra_cost, False),
    SortOrder("firings", lambda each: each.firings, False),
    SortOrder("peak", lambda each: each.peak, False),
)
"""Orders besides that of the grid, which comes last."""
GRID_ORDER = "as given"


@dataclass(frozen=True, eq=False)
class SweepFindings:
    """Findings of a sweep, computed once."""

    totals: Mapping[str, Totals]
    dominance: Dominance

    @cached_property
    def best(self) -> frozenset[str]:
        """Settings on the Pareto front, of equal ones the first."""
        return frozenset(self.dominance.frontier)

    @cached_property
    def has_prices(self) -> bool:
        """Whether the costs of all settings are known."""
        return bool(self.totals) and all(each.cost is not None for each in self.totals.values())

    @cached_property
    def has_regrets(self) -> bool:
        """Whether the regrets of all settings are known."""
        return all(each.drops.tokens_used_later is not None for each in self.totals.values())

    @cached_property
    def cost_digits(self) -> int:
        """Digits behind the point that tell costs of this size apart."""
        return 2 if max((abs(compute_extra_cost(each)) for each in self.totals.values()), default=0.0) >= 1 else 4


class SweepBoard:
    """A sweep on screen, while it is made and when it is there.

    Attributes:
        text: the grid as it was typed; empty for a sweep that was made elsewhere.
        known: rows of the session that is open; None for such a sweep.
        command: the command line of such a sweep.
        trouble: why a setting cannot be measured.
        window: the context window, for settings of agents that are tokens or shares of it: that of the session that is
            open; where several were swept, the one that was given, else an assumed one.
        cursor: the name of the setting that the cursor is on.
        order: the name of the order that settings are listed in; ``is_reversed`` the other way round.
        only_best: whether only those are listed that nothing beats, and the current one.
    """

    def __init__(
        self,
        sweep: Sweep,
        row_cache: SweepRowCache | None = None,
        *,
        grid_text: str = "",
        command: str = "",
        window: int | None = None,
    ) -> None:
        self.row_cache, self.grid_text, self.command, self.error = row_cache, grid_text, command, ""
        others = Window(window, "given") if window else Window(ASSUMED_WINDOW, "assumed")
        self.window = row_cache.session.window if row_cache else others
        self.order, self.is_reversed, self.only_best = SORT_ORDERS[0].name, False, False
        self.cursor = sweep.current
        self._sweeps = {sweep.saving_unit: sweep}
        self.saving_unit = sweep.saving_unit
        self._set_settings(sweep.settings)

    def _set_settings(self, settings: Sequence[SweepSetting]) -> None:
        self.settings_by_name: Mapping[str, SweepSetting] = {each.name: each for each in settings}
        self.parameter_columns = find_parameter_columns(
            settings, self.current_setting.policy.name if self.settings_by_name else ""
        )
        self._listing_cache: tuple[Sweep, object, list[str], dict[str, int]] | None = None
        self._findings: SweepFindings | None = None

    # What there is

    @property
    def sweep(self) -> Sweep:
        """Sweep as far as it is known, by tokens or by money."""
        if self.saving_unit not in self._sweeps:
            self._sweeps[self.saving_unit] = replace(next(iter(self._sweeps.values())), saving_unit=self.saving_unit)
        return self._sweeps[self.saving_unit]

    @property
    def settings(self) -> Sequence[SweepSetting]:
        """All settings."""
        return self.sweep.settings

    @property
    def current_setting(self) -> SweepSetting:
        """Setting that the others are compared with."""
        return self.settings_by_name[next(iter(self._sweeps.values())).current]

    @property
    def dominance(self) -> Dominance:
        """Dominance among the known settings."""
        return self.sweep.dominance

    @property
    def is_live(self) -> bool:
        """Whether this is a sweep of the open session, whose grid can be changed."""
        return self.row_cache is not None

    @property
    def missing_settings(self) -> list[SweepSetting]:
        """Settings without a result yet."""
        if self.row_cache is None or self.error:
            return []
        return [each for each in self.settings if each.name not in self.row_cache.rows]

    @property
    def totals(self) -> Mapping[str, Totals]:
        """Totals of the known settings."""
        return next(iter(self._sweeps.values())).totals

    @property
    def done_count(self) -> int:
        """Number of known settings."""
        return len(self.totals)

    @property
    def findings(self) -> SweepFindings:
        """Findings from the known settings."""
        if self._findings is None or self._findings.dominance is not self.dominance:
            self._findings = SweepFindings(self.totals, self.dominance)
        return self._findings

    def get_totals(self, name: str) -> Totals | None:
        """Return the totals of a setting; None until known."""
        return self.totals.get(name)

    def format_label(self, name: str) -> str:
        """Format a setting briefly; one of the current policy without its name."""
        policy = self.current_setting.policy.name
        found = self.settings_by_name.get(name)
        if found is None or found.policy.name != policy:
            return name
        return name.removeprefix(policy).strip() or "defaults"

    # What is listed

    @property
    def listed_names(self) -> list[str]:
        """Names of the known settings, in order."""
        return self._get_listing()[0]

    @property
    def cursor_index(self) -> int:
        """The place of the cursor in what is listed; 0 where it is not."""
        return self._get_listing()[1].get(self.cursor, 0)

    @property
    def is_largest_first(self) -> bool:
        """Whether the list starts with the largest value."""
        falling = next((each.is_largest_first for each in SORT_ORDERS if each.name == self.order), False)
        return falling != self.is_reversed

    @property
    def is_column_descending(self) -> bool:
        """Whether the sorted column starts with its largest value; savings in money are sorted by cost."""
        return self.is_largest_first != (self.order == "saved" and self.saving_unit == "money")

    def _get_listing(self) -> tuple[list[str], dict[str, int]]:
        made, key = self.sweep, (self.order, self.is_reversed, self.only_best)
        if self._listing_cache is None or self._listing_cache[0] is not made or self._listing_cache[1] != key:
            names = self._sort_names()
            self._listing_cache = made, key, names, {name: place for place, name in enumerate(names)}
        return self._listing_cache[2:]

    def _sort_names(self) -> list[str]:
        wholes, order = self.totals, next((each for each in SORT_ORDERS if each.name == self.order), None)
        best = {*self.findings.best, self.sweep.current}
        names = [each.name for each in self.settings if each.name in wholes]
        names = [name for name in names if not self.only_best or name in best]
        if order is not None and order.name == "saved" and self.saving_unit == "money":
            order = SortOrder("saved", lambda each: -compute_extra_cost(each), True)
        if order is not None:
            # By what is left, the better first: ties are in an order that means something.
            names.sort(key=lambda name: (get_regret_tokens(wholes[name]), -wholes[name].saved))
            names.sort(key=lambda name: order.key(wholes[name]), reverse=order.is_largest_first)
        return names[::-1] if self.is_reversed else names

    # Commands

    def update(self, rows: Iterable[SweepRow], sweep: Sweep | None = None) -> None:
        """Take what was measured; and where that was made meanwhile, the sweep of all that is known by then."""
        if self.row_cache is None:
            return
        self.row_cache.rows.update((row.setting, row) for row in rows)
        settings = self.settings
        sweep = (
            sweep
            if sweep is not None and sweep.settings is settings
            else build_partial_sweep(settings, self.row_cache.rows, self.sweep)
        )
        self._sweeps = {sweep.saving_unit: sweep}

    def set_grid(self, grid_text: str) -> None:
        """Sweep another grid; what is known of its settings stays known.

        Raises:
            PlanError: it means nothing, or too much.
        """
        current = self.current_setting
        settings = build_settings(parse_grid(grid_text, current.policy), current)
        self.grid_text, self.error = grid_text, ""
        self._sweeps = {self.saving_unit: Sweep(settings, [], current=current.name, saving_unit=self.saving_unit)}
        self._set_settings(settings)
        self.update(())
        if self.cursor not in self.settings_by_name:
            self.cursor = current.name

    def move_cursor(self, steps: int) -> None:
        """Move the cursor over what is listed."""
        self.move_to_index(self.cursor_index + steps)

    def move_to_index(self, index: int) -> None:
        """Move the cursor to a place in what is listed, or to the nearest there is."""
        if self.listed_names:
            self.cursor = self.listed_names[min(max(index, 0), len(self.listed_names) - 1)]

    def move_to_setting(self, name: str) -> None:
        """Move the cursor to a setting; all are listed again where it is not."""
        if name in self.settings_by_name:
            self.cursor = name
            if name not in self._get_listing()[1]:
                self.only_best = False

    def cycle_order(self, step: int) -> None:
        """List by the next order, or the one before."""
        names = [*(each.name for each in SORT_ORDERS), GRID_ORDER]
        self.set_order(names[(names.index(self.order) + step) % len(names)])

    def set_order(self, name: str) -> None:
        """List in an order; in the one that it is listed in, the other way round."""
        self.is_reversed = not self.is_reversed if name == self.order else False
        self.order = name

    def toggle_saving_unit(self) -> bool:
        """Count what is saved in money, or in tokens again; False where there is no price."""
        if self.saving_unit == "tokens" and not self.findings.has_prices:
            return False
        self.saving_unit = "money" if self.saving_unit == "tokens" else "tokens"
        return True

    def toggle_only_best(self) -> None:
        """List only what nothing beats, or everything again."""
        self.only_best = not self.only_best
        if self.cursor not in self._get_listing()[1]:
            self.move_to_index(0)


def build_partial_sweep(settings: Sequence[SweepSetting], rows: Mapping[str, SweepRow], like: Sweep) -> Sweep:
    """Return the sweep of what is known of these settings, with the current one and the measure of another."""
    found = [rows[each.name] for each in settings if each.name in rows]
    return Sweep(settings, found, current=like.current, saving_unit=like.saving_unit)


def find_parameter_columns(settings: Sequence[SweepSetting], policy: str) -> dict[str, int]:
    """Return the parameters of *policy* with more than one value among the settings, each with the cells of its longest
    value.

    None where they are too many.
    """
    own = [each.params for each in settings if each.policy.name == policy]
    if not own:
        return {}
    found = {}
    for name in type(own[0]).model_fields:
        values = {str(each): each for each in (getattr(params, name) for params in own)}
        if len(values) > 1:
            found[name] = max(len(format_value(each)) for each in values.values())
    nested = any(isinstance(getattr(own[0], name), Mapping) for name in found)
    return {} if nested or len(found) > MAX_PARAMETER_COLUMNS else found


def format_value(value: Any) -> str:
    """Format the value of a parameter."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:g}"
    return sanitize_line(",".join(map(str, value)) if isinstance(value, list | tuple) else str(value))


def build_board(comparison: Comparison, row_cache: SweepRowCache | None = None) -> SweepBoard:
    """Build the board for the selected policy of a comparison, beside the others as they are set.

    Args:
        before: what is known by now, of this session or of another.

    Raises:
        PlanError: the policy cannot be replayed, or its settings mean nothing.
    """
    lane, how = comparison.selected_lane, build_sweep_options(comparison)
    policy, params = POLICIES[lane.policy], lane.params
    if not policy.phases:
        raise PlanError(f"{policy.name} is applied manually: there is nothing to sweep; choose another policy")
    known = row_cache if row_cache and row_cache.session is comparison.session and row_cache.options == how else None
    current = build_setting(policy, params)
    controls = list_parameters_in_context(policy, params, comparison.full_context, lane.view.runtime_state)
    text = propose_grid(policy, params, controls, len(comparison.session.facts.request_message))
    others = dict.fromkeys(
        " ".join([each.policy, *_quote_assignments(each.values)])
        for each in comparison.lanes
        if each.policy != policy.name
    )
    text = " ".join([text, *others]).strip()
    parts: list[GridPart] = parse_grid(text, policy)
    settings = build_settings(parts, current)
    made = Sweep(settings, [], current=current.name)
    board = SweepBoard(made, known or SweepRowCache(comparison.session, how), grid_text=text)
    board.update(())
    return board


def build_sweep_options(comparison: Comparison) -> SweepOptions:
    """Build the sweep options from those of a comparison."""
    how = comparison.settings
    return SweepOptions(**vars(how))


def _quote_assignments(values: Mapping[str, Any]) -> list[str]:
    return [shlex.quote(each) for each in format_assignments(values)]
