"""What the sweep screen shows: settings with what is known of them, in what order, and which one the cursor is on.

Knows no widget and no thread: whoever computes asks for what is ``missing`` and hands back the rows.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from context_tui.errors import PlanError
from context_tui.lab.sweep.frontier import Dominance, ParetoPoint
from context_tui.lab.sweep.measure import SessionSweep, SweepOptions
from context_tui.lab.sweep.results import Sweep, Totals
from context_tui.lab.sweep.rows import SweepRow
from context_tui.lab.sweep.settings import SweepSetting, build_setting
from context_tui.policies.parameters import format_assignments, list_parameters_in_context
from context_tui.policies.registry import POLICIES
from context_tui.session.session import Session
from context_tui.session.window import ASSUMED_WINDOW, Window
from context_tui.text.sanitize import sanitize_line
from context_tui.tui.screens.replay.comparison import Comparison
from context_tui.tui.screens.sweep.grids import Part, parts_of, proposal, settings_of

COLUMNS = 4
"""Parameters with a column of their own, at most."""


@dataclass(eq=False)
class Known:
    """What was measured of a session, by the name of the setting; and what all that shares, once it is there."""

    session: Session
    how: SweepOptions
    rows: dict[str, SweepRow] = field(default_factory=dict)
    there: SessionSweep | None = None


class Order(NamedTuple):
    """An order of the settings: its name, what it goes by, and whether the largest comes first."""

    name: str
    key: Callable[[Totals], float]
    falling: bool


def extra_cost(each: Totals) -> float:
    """What a setting costs more than no policy; less than 0: it saves."""
    return each.cost.cost - each.cost.without if each.cost else 0.0


def regret_of(each: Totals) -> int:
    """Tokens used later; where that was not looked for, all dropped ones."""
    used = each.drops.tokens_used_later
    return each.drops.tokens_dropped if used is None else used


ORDERS = (
    Order("saved", lambda each: each.saved, True),
    Order("used later", regret_of, False),
    Order("cost", extra_cost, False),
    Order("firings", lambda each: each.firings, False),
    Order("peak", lambda each: each.peak, False),
)
"""Orders besides that of the grid, which comes last."""
GRID = "as given"


@dataclass(frozen=True, eq=False)
class Findings:
    """What follows from a sweep, computed once."""

    wholes: Mapping[str, Totals]
    standing: Dominance

    @cached_property
    def best(self) -> frozenset[str]:
        """The settings that nothing beats, of equal ones the first."""
        return frozenset(self.standing.frontier)

    @cached_property
    def priced(self) -> bool:
        """Whether costs are known of all settings."""
        return bool(self.wholes) and all(each.cost is not None for each in self.wholes.values())

    @cached_property
    def used(self) -> bool:
        """Whether it was looked for what was used later, of all settings."""
        return all(each.drops.tokens_used_later is not None for each in self.wholes.values())

    @cached_property
    def digits(self) -> int:
        """Digits behind the point that tell costs of this size apart."""
        return 2 if max((abs(extra_cost(each)) for each in self.wholes.values()), default=0.0) >= 1 else 4


class Board:
    """A sweep on screen, while it is made and when it is there.

    Attributes:
        text: the grid as it was typed; empty for a sweep that was made elsewhere.
        known: rows of the session that is open; None for such a sweep.
        command: the command line of such a sweep.
        trouble: why a setting cannot be measured.
        window: the context window, for settings of agents that are tokens or shares of it: that of the session that is
            open; where several were swept, the one that was given, else an assumed one.
        cursor: the name of the setting that the cursor is on.
        order: the name of the order that settings are listed in; ``reverse`` the other way round.
        only_best: whether only those are listed that nothing beats, and the current one.
    """

    def __init__(
        self, made: Sweep, known: Known | None = None, *, text: str = "", command: str = "", window: int | None = None
    ) -> None:
        self.known, self.text, self.command, self.trouble = known, text, command, ""
        others = Window(window, "given") if window else Window(ASSUMED_WINDOW, "assumed")
        self.window = known.session.window if known else others
        self.order, self.reverse, self.only_best = ORDERS[0].name, False, False
        self.cursor = made.current
        self._made = {made.saving_unit: made}
        self.by = made.saving_unit
        self._begin(made.settings)

    def _begin(self, settings: Sequence[SweepSetting]) -> None:
        self.named: Mapping[str, SweepSetting] = {each.name: each for each in settings}
        self.columns = columns_of(settings, self.current.policy.name if self.named else "")
        self._listed: tuple[Sweep, object, list[str], dict[str, int]] | None = None
        self._of: Findings | None = None

    # What there is

    @property
    def made(self) -> Sweep:
        """The sweep as far as it is known, by tokens or by money."""
        if self.by not in self._made:
            self._made[self.by] = replace(next(iter(self._made.values())), saving_unit=self.by)
        return self._made[self.by]

    @property
    def settings(self) -> Sequence[SweepSetting]:
        """All settings."""
        return self.made.settings

    @property
    def current(self) -> SweepSetting:
        """The setting that the others are held against."""
        return self.named[next(iter(self._made.values())).current]

    @property
    def standing(self) -> Dominance:
        """How the settings that are known stand to each other."""
        return self.made.dominance

    @property
    def is_live(self) -> bool:
        """Whether it is a sweep of the session that is open, whose grid can be changed."""
        return self.known is not None

    @property
    def missing(self) -> list[SweepSetting]:
        """The settings that are not measured yet."""
        if self.known is None or self.trouble:
            return []
        return [each for each in self.settings if each.name not in self.known.rows]

    @property
    def wholes(self) -> Mapping[str, Totals]:
        """What the settings that are known come to."""
        return next(iter(self._made.values())).totals

    @property
    def done(self) -> int:
        """How many settings are known."""
        return len(self.wholes)

    @property
    def of(self) -> Findings:
        """What follows from what is known."""
        if self._of is None or self._of.standing is not self.standing:
            self._of = Findings(self.wholes, self.standing)
        return self._of

    def whole(self, name: str) -> Totals | None:
        """What a setting comes to; None until it is known."""
        return self.wholes.get(name)

    def point(self, name: str) -> ParetoPoint | None:
        """The same as a point of the plot; None also where it has no price and money is counted."""
        return self.standing.points.get(name)

    def label(self, name: str) -> str:
        """A setting in few words: those of the current one's policy without its name."""
        policy = self.current.policy.name
        found = self.named.get(name)
        if found is None or found.policy.name != policy:
            return name
        return name.removeprefix(policy).strip() or "defaults"

    # What is listed

    @property
    def listed(self) -> list[str]:
        """The names of the settings that are known, in order."""
        return self._in_order()[0]

    @property
    def at(self) -> int:
        """The place of the cursor in what is listed; 0 where it is not."""
        return self._in_order()[1].get(self.cursor, 0)

    @property
    def largest_first(self) -> bool:
        """Whether what it is sorted by is the largest first."""
        falling = next((each.falling for each in ORDERS if each.name == self.order), False)
        return falling != self.reverse

    @property
    def falls(self) -> bool:
        """The same of the column that this is told in: what is saved in money is a cost below nothing."""
        return self.largest_first != (self.order == "saved" and self.by == "money")

    def _in_order(self) -> tuple[list[str], dict[str, int]]:
        made, key = self.made, (self.order, self.reverse, self.only_best)
        if self._listed is None or self._listed[0] is not made or self._listed[1] != key:
            names = self._sorted()
            self._listed = made, key, names, {name: place for place, name in enumerate(names)}
        return self._listed[2:]

    def _sorted(self) -> list[str]:
        wholes, order = self.wholes, next((each for each in ORDERS if each.name == self.order), None)
        best = {*self.of.best, self.made.current}
        names = [each.name for each in self.settings if each.name in wholes]
        names = [name for name in names if not self.only_best or name in best]
        if order is not None and order.name == "saved" and self.by == "money":
            order = Order("saved", lambda each: -extra_cost(each), True)
        if order is not None:
            # By what is left, the better first: ties are in an order that means something.
            names.sort(key=lambda name: (regret_of(wholes[name]), -wholes[name].saved))
            names.sort(key=lambda name: order.key(wholes[name]), reverse=order.falling)
        return names[::-1] if self.reverse else names

    # Commands

    def take(self, rows: Iterable[SweepRow], made: Sweep | None = None) -> None:
        """Take what was measured; and where that was made meanwhile, the sweep of all that is known by then."""
        if self.known is None:
            return
        self.known.rows.update((row.setting, row) for row in rows)
        settings = self.settings
        made = (
            made if made is not None and made.settings is settings else known_of(settings, self.known.rows, self.made)
        )
        self._made = {made.saving_unit: made}

    def regrid(self, text: str) -> None:
        """Sweep another grid; what is known of its settings stays known.

        Raises:
            PlanError: it means nothing, or too much.
        """
        current = self.current
        settings = settings_of(parts_of(text, current.policy), current)
        self.text, self.trouble = text, ""
        self._made = {self.by: Sweep(settings, [], current=current.name, saving_unit=self.by)}
        self._begin(settings)
        self.take(())
        if self.cursor not in self.named:
            self.cursor = current.name

    def move(self, steps: int) -> None:
        """Move the cursor over what is listed."""
        self.go(self.at + steps)

    def go(self, place: int) -> None:
        """Move the cursor to a place in what is listed, or to the nearest there is."""
        if self.listed:
            self.cursor = self.listed[min(max(place, 0), len(self.listed) - 1)]

    def point_at(self, name: str) -> None:
        """Move the cursor to a setting; all are listed again where it is not."""
        if name in self.named:
            self.cursor = name
            if name not in self._in_order()[1]:
                self.only_best = False

    def sort(self, step: int) -> None:
        """List by the next order, or the one before."""
        names = [*(each.name for each in ORDERS), GRID]
        self.sort_by(names[(names.index(self.order) + step) % len(names)])

    def sort_by(self, name: str) -> None:
        """List in an order; in the one that it is listed in, the other way round."""
        self.reverse = not self.reverse if name == self.order else False
        self.order = name

    def toggle_money(self) -> bool:
        """Count what is saved in money, or in tokens again; False where there is no price."""
        if self.by == "tokens" and not self.of.priced:
            return False
        self.by = "money" if self.by == "tokens" else "tokens"
        return True

    def toggle_best(self) -> None:
        """List only what nothing beats, or everything again."""
        self.only_best = not self.only_best
        if self.cursor not in self._in_order()[1]:
            self.go(0)


def known_of(settings: Sequence[SweepSetting], rows: Mapping[str, SweepRow], like: Sweep) -> Sweep:
    """The sweep of what is known of these settings, with the current one and the measure of another."""
    found = [rows[each.name] for each in settings if each.name in rows]
    return Sweep(settings, found, current=like.current, saving_unit=like.saving_unit)


def columns_of(settings: Sequence[SweepSetting], policy: str) -> dict[str, int]:
    """The parameters of *policy* with more than one value among the settings, each with the cells of its longest value.

    None where they are too many.
    """
    own = [each.params for each in settings if each.policy.name == policy]
    if not own:
        return {}
    found = {}
    for name in type(own[0]).model_fields:
        values = {str(each): each for each in (getattr(params, name) for params in own)}
        if len(values) > 1:
            found[name] = max(len(value_text(each)) for each in values.values())
    nested = any(isinstance(getattr(own[0], name), Mapping) for name in found)
    return {} if nested or len(found) > COLUMNS else found


def value_text(given: Any) -> str:
    """A parameter's value as it is read."""
    if given is None:
        return "–"
    if isinstance(given, bool):
        return str(given).lower()
    if isinstance(given, int):
        return f"{given:,}"
    if isinstance(given, float):
        return f"{given:g}"
    return sanitize_line(",".join(map(str, given)) if isinstance(given, list | tuple) else str(given))


def board_of(comparison: Comparison, before: Known | None = None) -> Board:
    """The board for the selected policy of a comparison, beside the others as they are set.

    Args:
        before: what is known by now, of this session or of another.

    Raises:
        PlanError: the policy cannot be replayed, or its settings mean nothing.
    """
    lane, how = comparison.lane, how_of(comparison)
    policy, params = POLICIES[lane.policy], lane.params
    if not policy.phases:
        raise PlanError(f"{policy.name} is applied by hand: there is nothing to sweep; choose another policy")
    known = before if before and before.session is comparison.session and before.how == how else None
    current = build_setting(policy, params)
    controls = list_parameters_in_context(policy, params, comparison.whole, lane.view.runtime_state)
    text = proposal(policy, params, controls, len(comparison.session.facts.request_message))
    others = dict.fromkeys(
        " ".join([each.policy, *_quoted(each.values)]) for each in comparison.lanes if each.policy != policy.name
    )
    text = " ".join([text, *others]).strip()
    parts: list[Part] = parts_of(text, policy)
    settings = settings_of(parts, current)
    made = Sweep(settings, [], current=current.name)
    board = Board(made, known or Known(comparison.session, how), text=text)
    board.take(())
    return board


def how_of(comparison: Comparison) -> SweepOptions:
    """How the replays of a comparison are made."""
    how = comparison.how
    return SweepOptions(how.recorded, how.summary_tokens, how.delay, None, how.shares_prefix, reuse=how.reuse)


def _quoted(values: Mapping[str, Any]) -> list[str]:
    return [shlex.quote(each) for each in format_assignments(values)]
