"""Recommendation of a policy's best setting from a sweep over several sessions, with the evidence for it.

A setting is judged by its cost: all prompts and summaries, and an estimate of what it costs to fetch again what the
session needed later. It must not send more calls over the window than the current setting. The evidence is bootstrapped
over the sessions: in each resample they are drawn with replacement.

A replay does not show how many extra calls the agent needs once content was removed. Where this was measured
(:mod:`context_tui.lab.aftermath`), a setting is recommended only if it is the best one without extra calls, with the
measured number, and at the upper end of its interval.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, Literal, NamedTuple

import numpy

from context_tui.lab.sweep.grids import SweepSetting
from context_tui.lab.sweep.results import Sweep, Totals
from context_tui.lab.sweep.rows import SettingCost
from context_tui.policies.agent_settings import build_agent_settings
from context_tui.policies.base import Policy
from context_tui.policies.parameter_space import build_params, list_parameters
from context_tui.policies.parameters import Parameter, format_value
from context_tui.policies.scales import format_number
from context_tui.session.window import Window
from context_tui.text.numbers import format_cost, format_count, format_saving

MIN_SESSIONS = 3
"""Minimum number of sessions that a change affects for it to be recommended."""
RESAMPLES, SEED = 1_000, 20_261_124
NEARLY_AS_GOOD = 0.05
"""Share of the best setting's saving that a setting may lack and still count as about as good."""
GENTLER_SAVING, GENTLER_LOSS = 0.8, 0.25
"""Minimum share of the best setting's saving, and minimum reduction of its loss, of a gentler setting."""

Verdict = Literal[
    "recommended", "depends on extra calls", "no better", "too little evidence", "never fires", "no price"
]


class RankedAt(NamedTuple):
    """The best setting if the agent needs ``extra_calls`` more calls per 1,000 removed tokens.

    ``saved`` is the cost that it then saves, ``wins`` the number of resamples in which it is the best, and ``sessions``
    the number of priced sessions whose cost it changes.
    """

    extra_calls: float
    setting: str
    saved: float
    wins: int
    sessions: int

    def format(self, name: str, unit: str) -> str:
        """Format the result as a sentence, with *name* for the setting."""
        calls = f"With {self.extra_calls:+.3f} extra calls per 1,000 removed tokens"
        saving = f" and {format_saving(self.saved, unit, with_unit=True)}" if self.saved else ""
        start = f"{calls if self.extra_calls else 'Without extra calls'}, {name} is the best one{saving}"
        return f"{start}; {_format_wins(self.wins, self.sessions)}."


def _format_wins(wins: int, sessions: int) -> str:
    """Say in how many resamples a setting is the best, or that it changes too few sessions to say."""
    if sessions >= MIN_SESSIONS:
        return f"it is the best in {wins:,} of {RESAMPLES:,} resamples"
    changed = format_count(sessions, "session") if sessions else "no session"
    return f"the cost of {changed} changes, and a recommendation needs {MIN_SESSIONS}"


class GentlerSetting(NamedTuple):
    """A setting that saves nearly as much as the best one and loses less.

    ``saved_share`` is its saving as a share of the best one's; ``loss_cut`` is the share by which its loss is smaller.
    """

    setting: str
    saved_share: float
    loss_cut: float


class Recommendation(NamedTuple):
    """The best setting of a policy over several sessions, compared with the current one; costs are in ``unit``.

    Attributes:
        verdict: ``recommended``, or why the setting is not recommended.
        saved: cost that the setting saves, less the cost of fetching again what was needed later.
        gains: cost that the setting saves in each session in which it differs from the current one.
        interval: 5th and 95th percentile of ``saved`` over the resamples.
        ranges: for each parameter that differs, the lowest and highest value among settings that save about as much.
        ranking: the best setting without extra calls and, where they were measured, with the measured number of them
            and at the upper end of its interval.
        gentler: of the settings that save at least ``GENTLER_SAVING`` as much and lose ``GENTLER_LOSS`` less of what
            was needed later, the one that saves most, or None.
        coverage: a clause on the sessions that the costs leave out; empty if there are none.
        current_values: the current values of the parameters that differ, as text.
    """

    verdict: Verdict
    setting: SweepSetting
    current: SweepSetting
    totals: Totals
    current_totals: Totals
    unit: str
    saved: float
    gains: Mapping[str, float]
    interval: tuple[float, float]
    ranges: Mapping[str, tuple[Any, Any]]
    ranking: tuple[RankedAt, ...] = ()
    gentler: GentlerSetting | None = None
    coverage: str = ""
    current_values: str = ""

    @property
    def refetch(self) -> float:
        """Estimated cost of fetching again what the sessions needed later."""
        return self.totals.cost.refetch if self.totals.cost else 0.0

    @property
    def largest(self) -> tuple[str, float]:
        """The session with the largest gain and its share of all gains, or an empty name and 0 if no session gains."""
        gains = {name: gain for name, gain in self.gains.items() if gain > 0}
        name = max(gains, key=gains.__getitem__, default="")
        return name, gains[name] / sum(gains.values()) if gains else 0.0


def list_configurable_parameters(policy: Policy, window: Window) -> list[Parameter]:
    """List the numeric parameters that the agent's own configuration can set.

    A parameter is configurable if another value changes the agent's settings
    (:func:`context_tui.policies.agent_settings.build_agent_settings`).
    """
    defaults = build_params(policy, {})
    agent_settings = build_agent_settings(policy.name, defaults, window)
    parameters = []
    for parameter in list_parameters(policy):
        default = getattr(defaults, parameter.name, None)
        if agent_settings is None or parameter.kind != "number" or default is None:
            continue
        other_values = [default / 2 if parameter.ratio else default // 2, default * 2, default + 1]
        low = -math.inf if parameter.low is None else parameter.low
        high = math.inf if parameter.high is None else parameter.high
        in_range = [value for value in other_values if low <= value <= high and value != default]
        changed = (defaults.model_copy(update={parameter.name: value}) for value in in_range)
        others = (build_agent_settings(policy.name, params, window) for params in changed)
        if any(other is None or other.settings != agent_settings.settings for other in others):
            parameters.append(parameter)
    return parameters


def rank_settings(sweep: Sweep, extra_calls: Sequence[float] = ()) -> tuple[RankedAt, ...]:
    """Return the best setting without extra calls and with each number of *extra_calls*; empty without prices."""
    table = _tabulate_savings(sweep)
    return tuple(table.rank(rate) for rate in (0.0, *extra_calls)) if table else ()


def recommend_setting(sweep: Sweep, extra_calls: Sequence[float] = ()) -> Recommendation:
    """Return the setting that saves the most money in a priced sweep, with the evidence for it.

    It is recommended only if it is also the best with each number of *extra_calls* per 1,000 removed tokens.
    """
    settings = {setting.name: setting for setting in sweep.settings if setting.name in sweep.totals}
    current, table, unit = sweep.current, _tabulate_savings(sweep), sweep.cost_unit
    today = sweep.totals[current]
    if table is None:
        same = settings[current], settings[current], today, today
        return Recommendation("no price", *same, unit, 0, {}, (0.0, 0.0), {})
    ranking = rank_settings(sweep, extra_calls)
    names, savings = table.names, table.savings
    best = names.index(ranking[0].setting)
    gains = {name: saving for name, saving in zip(table.sessions, savings[:, best].tolist(), strict=True) if saving}
    low, high = (float(bound) for bound in numpy.percentile((table.draws @ savings)[:, best], (5, 95)))
    verdict: Verdict = "recommended"
    if not any(totals.firings for totals in sweep.totals.values()):
        verdict = "never fires"
    elif savings[:, best].sum() <= 0:
        verdict = "no better"
    elif len(gains) < MIN_SESSIONS or low <= 0:
        verdict = "too little evidence"
    elif any(each.setting != names[best] for each in ranking):
        verdict = "depends on extra calls"
    totals = dict(zip(names, savings.sum(axis=0), strict=True))
    ranges = _find_ranges(sweep, names[best], totals)
    gentler = _find_gentler(sweep, names[best], totals) if totals[names[best]] > 0 else None
    compared = settings[names[best]], settings[current], sweep.totals[names[best]], today
    texts = (
        sweep.format_coverage(),
        " ".join(_format_current_value(sweep, name) for name in ranges) or "the current setting",
    )
    saved = sum(gains.values())
    return Recommendation(verdict, *compared, unit, saved, gains, (low, high), ranges, ranking, gentler, *texts)


def _format_current_value(sweep: Sweep, name: str) -> str:
    """Format a parameter of the current setting, which the version that recorded each session may decide."""
    values = [row.params[name] for row in sweep.rows_by_setting[sweep.current] if name in row.params]
    if all(value == values[0] for value in values):
        return f"{name}={format_value(values[0])}" if values else name
    counts = Counter(values)  # values of versions, which differ in numbers only
    parts = " and ".join(f"{format_number(value)} in {count:,}" for value, count in counts.most_common())
    return f"each version's own {name} ({parts} of {format_count(counts.total(), 'session')})"


def _find_gentler(sweep: Sweep, best: str, saved: Mapping[str, float]) -> GentlerSetting | None:
    losses = {name: sweep.totals[name].drops.tokens_used_later or 0 for name in saved}
    least_saved, most_lost = GENTLER_SAVING * saved[best], (1 - GENTLER_LOSS) * losses[best]
    gentler = [name for name in saved if saved[name] >= least_saved and losses[name] <= most_lost]
    if not losses[best] or not gentler:
        return None
    name = max(gentler, key=saved.__getitem__)
    return GentlerSetting(name, saved[name] / saved[best], 1 - losses[name] / losses[best])


class _SavingsTable(NamedTuple):
    """Costs that each setting saves in each session, compared with the current one.

    ``call_savings`` holds what a setting saves for each extra call per 1,000 removed tokens, ``draws`` how often each
    resample draws each session.
    """

    names: list[str]
    sessions: list[str]
    savings: numpy.ndarray[Any, Any]
    call_savings: numpy.ndarray[Any, Any]
    is_allowed: numpy.ndarray[Any, Any]
    draws: numpy.ndarray[Any, Any]

    def rank(self, rate: float) -> RankedAt:
        """Return the best setting if the agent needs *rate* extra calls per 1,000 removed tokens."""
        rated = self.savings + rate * self.call_savings
        winner = int(numpy.argmax(numpy.where(self.is_allowed, rated.sum(axis=0), -numpy.inf)))
        winners = numpy.where(self.is_allowed, self.draws @ rated, -numpy.inf).argmax(axis=1)
        saved, wins = float(rated[:, winner].sum()), int((winners == winner).sum())
        # If the current setting wins, the sessions that any other setting changes.
        changes = rated[:, winner] if rated[:, winner].any() else rated.any(axis=1)
        return RankedAt(rate, self.names[winner], saved, wins, int(numpy.count_nonzero(changes)))


def _tabulate_savings(sweep: Sweep) -> _SavingsTable | None:
    names = [setting.name for setting in sweep.settings if setting.name in sweep.totals]
    costs = dict[str, dict[str, SettingCost]]()
    for session, rows in sorted(sweep.rows_by_session.items()):
        priced = {row.setting: row.cost for row in rows if row.cost and row.cost.unit == sweep.cost_unit}
        if len(priced) == len(rows):
            costs[session] = priced
    if not costs:
        return None
    totals = numpy.array([[priced[name].total for name in names] for priced in costs.values()])
    calls = numpy.array([[priced[name].extra_calls for name in names] for priced in costs.values()])
    current, count = names.index(sweep.current), len(costs)
    is_allowed = [sweep.totals[name].overflows <= sweep.totals[sweep.current].overflows for name in names]
    draws = numpy.random.default_rng(SEED).multinomial(count, [1 / count] * count, RESAMPLES)
    savings = (totals[:, [current]] - totals, calls[:, [current]] - calls)
    return _SavingsTable(names, list(costs), *savings, numpy.array(is_allowed), draws)


def _find_ranges(sweep: Sweep, best: str, savings: Mapping[str, float]) -> dict[str, tuple[Any, Any]]:
    """Return, for each changed parameter, the range in which the best setting would save about as much."""
    settings = {setting.name: setting for setting in sweep.settings if setting.name in savings}
    values, ranges = settings[best].param_values, dict[str, tuple[Any, Any]]()
    tested_values, current_tested_values = (sweep.find_param_values(settings[name]) for name in (best, sweep.current))
    for key, value in values.items():
        if tested_values[key] == current_tested_values.get(key):
            continue
        similar = [
            setting.param_values[key]
            for name, setting in settings.items()
            if savings[name] >= (1 - NEARLY_AS_GOOD) * savings[best] and {**setting.param_values, key: value} == values
        ]
        is_ordered = all(isinstance(each, int | float) for each in similar)
        ranges[key] = (min(similar), max(similar)) if is_ordered else (value, value)
    return ranges


def format_recommendation(recommendation: Recommendation, scope: str = "") -> list[str]:
    """Format a recommendation as sentences, the answer first; *scope* follows the number of the sessions replayed."""
    result, totals, unit = recommendation, recommendation.totals, recommendation.unit
    sessions = f"{format_count(totals.sessions, 'session')}{scope}"
    if result.verdict == "never fires":
        return [f"No session reaches the threshold ({sessions}): there is nothing to learn from."]
    if result.verdict == "no price":
        return [f"No price is known for any of {sessions}."]
    if result.verdict == "no better":
        fired = f"it fires in {result.current_totals.fired_in:,} of {sessions}"
        return [f"Keep {result.current_values}: no other setting costs less ({fired})."]
    today_cost = result.current_totals.cost.cost if result.current_totals.cost else 0.0
    saving = format_saving(result.saved, unit, total=today_cost, with_unit=True)
    values = (f"{name}={format_value(result.setting.param_values[name])}" for name in result.ranges)
    best = f"{' '.join(values)} in place of {result.current_values}"
    answers = {"recommended": "Recommended", "depends on extra calls": "It depends on the agent"}
    answer = f"{answers[result.verdict]}:" if result.verdict in answers else "Too little evidence for"
    sentences = [f"{answer} {best}."]
    cost = format_cost(result.refetch, unit, with_unit=True)
    sentences.append(f"It {saving}, with {cost} counted for fetching again what was needed later.")
    if result.coverage:
        sentences.append(f"{result.coverage[0].upper()}{result.coverage[1:]}.")
    needed, needed_now = totals.drops.tokens_used_later or 0, result.current_totals.drops.tokens_used_later or 0
    sentences.append(f"Dropped although needed later: {needed:,} tokens (today {needed_now:,}).")
    if result.gentler:
        name = result.gentler.setting.partition(" ")[2] or "The default"
        loss = f"loses {result.gentler.loss_cut:.0%} less of what was needed later"
        sentences.append(f"{name} saves {result.gentler.saved_share:.0%} as much and {loss}.")
    for name, (low, high) in result.ranges.items():
        if low != high:
            bounds = f"{format_value(low)} to {format_value(high)}"
            sentences.append(f"{name} from {bounds} saves about as much (at least 95 % of it).")
    today = f"today {format_count(result.current_totals.firings, 'time')} in {result.current_totals.fired_in:,}"
    sentences.append(f"It fires {format_count(totals.firings, 'time')} in {totals.fired_in:,} of {sessions} ({today}).")
    session, share = result.largest
    if session and totals.sessions > 1:
        sentences.append(f"{share:.0%} of the saving is from one session, {PurePath(session).name}.")
    losses = [gain for gain in result.gains.values() if gain < 0]
    if losses:
        largest_loss = format_cost(-min(losses), unit, with_unit=True)
        sentences.append(f"It costs more in {format_count(len(losses), 'session')}, by at most {largest_loss}.")
    wins = _format_wins(result.ranking[0].wins, len(result.gains))
    if len(result.gains) >= MIN_SESSIONS:
        low, high = (format_saving(bound, unit, with_unit=True) for bound in result.interval)
        span = (
            f"{low} to {high.removeprefix('saves ')}" if result.interval[0] > 0 else f"{low} at worst, {high} at best"
        )
        wins = f"In nine of ten resamples of the sessions it {span}; {wins}"
    sentences.append(f"{wins[0].upper()}{wins[1:]}.")
    return sentences + _format_ranking(result)


def _format_ranking(result: Recommendation) -> list[str]:
    best = result.setting.name
    names = ((each, "the same setting" if each.setting == best else each.setting) for each in result.ranking[1:])
    sentences = [each.format(name, result.unit) for each, name in names]
    if not sentences and result.totals.cost and (calls := result.totals.cost.break_even_calls) is not None:
        sentences.append(f"It pays unless the agent needs more than {calls:.2f} extra calls per 1,000 removed tokens.")
    return sentences


def build_recommendation_report(recommendation: Recommendation, native: Sequence[str]) -> dict[str, Any]:
    """Build the JSON form of a recommendation; ``recommendation`` is None unless the verdict recommends the setting."""
    best, is_recommended = recommendation.setting, recommendation.verdict == "recommended"
    session, share = recommendation.largest
    recommendation_text, policy = " ".join(format_recommendation(recommendation)), best.policy.name
    setting = {"policy": policy, "params": best.param_values, "native": list(native), "why": recommendation_text}
    return {
        "policy": policy,
        "verdict": recommendation.verdict,
        "recommendation": setting if is_recommended else None,
        "best": best.name,
        "current": recommendation.current.name,
        "why": recommendation_text,
        "saved": recommendation.saved,
        "refetch": recommendation.refetch,
        "unit": recommendation.unit,
        "ranges": {key: list(bounds) for key, bounds in recommendation.ranges.items()},
        "evidence": {
            **{name: getattr(recommendation.totals, name) for name in ("sessions", "fired_in", "firings")},
            "share_of_largest": share if session else None,
            "largest_session": session or None,
            "interval": list(recommendation.interval),
            "wins": recommendation.ranking[0].wins if recommendation.ranking else 0,
            "resamples": RESAMPLES,
            "ranking": [each._asdict() for each in recommendation.ranking],
            "gentler": recommendation.gentler._asdict() if recommendation.gentler else None,
        },
    }
