"""Sweep of one session under many settings, which share the work that depends on the session alone."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from context_tui.lab.regret.cases import Regret, compute_regret
from context_tui.lab.regret.index import build_use_index
from context_tui.lab.replay.result import Replay, ReplayTotals
from context_tui.lab.replay.walk import get_baseline
from context_tui.lab.study import Lab, StudySettings
from context_tui.lab.sweep.grids import SweepSetting
from context_tui.lab.sweep.rows import SettingCost, SettingDrops, SweepRow
from context_tui.policies.base import ClearingRule, HasClearingRule, Params
from context_tui.policies.versions import find_recorded_params
from context_tui.session.session import Session
from context_tui.session.values import Checkpoint
from context_tui.tokens.estimators import bytes4

MIN_VECTORIZED_SETTINGS = 16
"""Minimum number of settings for which loading numpy and computing clearing rules together pays off."""


@dataclass(frozen=True)
class SweepOptions(StudySettings):
    """Options for all replays of a sweep.

    Attributes:
        window: the context window in tokens, or None for the window that each file states.
        quick: whether to omit regret and prices, which take most of the time.
    """

    window: int | None = None
    quick: bool = False


class SessionSweep:
    """A session along which settings are replayed, with the data that all of them share."""

    def __init__(self, session: Session, name: str, options: SweepOptions) -> None:
        self.name, self.options = name, options
        self.project = session.info.cwd or posixpath.dirname(session.info.path)
        self.lab = Lab(session.with_window(options.window) if options.window is not None else session)
        self.recording = self.lab.recording

    def build_use_index(self, checkpoint: Checkpoint = lambda: None) -> None:
        """Build the index for regret, the slowest part of the shared work; *checkpoint* may raise to stop it."""
        if not self.options.quick and "uses" not in vars(self.lab):
            self.lab.uses = build_use_index(self.recording, checkpoint)

    def replay_setting(self, setting: SweepSetting, checkpoint: Checkpoint = lambda: None) -> SweepRow:
        """Replay a setting along the session and return its row."""
        replay = self.options.replay(self.recording, setting.policy, self._get_params(setting), checkpoint)
        if self.options.quick:
            facts, removed = self.lab.session.facts, replay.removed_by_policy
            drops, cost = SettingDrops(len(removed), sum(bytes4(facts, row) for row in removed)), None
        else:
            regret = compute_regret(replay, self.lab.uses)
            tiers = {str(tier): count for tier, count in regret.by_tier.items()}
            counts = regret.dropped, regret.tokens_dropped, regret.used_later, regret.tokens_used_later
            drops, cost = SettingDrops(*counts, tiers), self._compute_cost(replay, regret)
        return self.build_row(setting, len(replay.firings), replay.totals, drops, cost)

    def _get_params(self, setting: SweepSetting) -> Params:
        recorded = find_recorded_params(setting.policy.name, self.recording.facts)
        open_values = {name: value for name, value in recorded.items() if name not in setting.params.model_fields_set}
        return setting.params.model_copy(update=open_values) if open_values else setting.params

    def build_row(
        self,
        setting: SweepSetting,
        firings: int,
        totals: ReplayTotals,
        drops: SettingDrops,
        cost: SettingCost | None = None,
    ) -> SweepRow:
        """Build the row of a setting from the measured firings, totals, drops and cost."""
        names = self.name, self.project, setting.name, setting.policy.name
        params = self._get_params(setting).model_dump(mode="json")
        calls, without = len(self.recording.calls), totals.sent + totals.saved
        window = replace(self.lab.session.window, alternatives=())
        return SweepRow(*names, params, calls, firings, *totals, without, drops, cost, window=window)

    def _compute_cost(self, replay: Replay, regret: Regret) -> SettingCost:
        price = self.lab.price(replay, self.options)
        rates = next(iter(price.rate_table.by_model.values()), price.rate_table.default_rates)
        call_cost = price.cost / max(len(price.costs), 1)
        refetch = regret.used_later * call_cost + regret.tokens_used_later * rates.input
        return SettingCost(price.cost, price.baseline_cost, price.rate_table.unit, refetch, price.extra_call_cost)


def sweep_session(
    session: Session,
    settings: Sequence[SweepSetting],
    options: SweepOptions | None = None,
    *,
    name: str | None = None,
    checkpoint: Checkpoint = lambda: None,
) -> Iterator[SweepRow]:
    """Yield the row of each setting on a session; raises PlanError if a policy cannot be replayed.

    In the rows, *name* replaces the path of the session.
    """
    info = session.info
    name = name or (f"{info.path}#{info.id}" if info.id else info.path)
    yield from sweep_settings(SessionSweep(session, name, options or SweepOptions()), settings, checkpoint)


def sweep_settings(
    session_sweep: SessionSweep, settings: Sequence[SweepSetting], checkpoint: Checkpoint = lambda: None
) -> Iterator[SweepRow]:
    """Yield the row of each setting on the session of a sweep."""
    session_sweep.build_use_index(checkpoint)
    computed = _compute_rows_by_rules(session_sweep, settings) if session_sweep.options.quick else {}
    for setting in settings:
        checkpoint()
        yield computed.get(setting.name) or session_sweep.replay_setting(setting, checkpoint)


def _compute_rows_by_rules(session_sweep: SessionSweep, settings: Sequence[SweepSetting]) -> dict[str, SweepRow]:
    """Return the rows, without price and regret, of settings that are clearing rules with known outcomes."""
    groups: dict[tuple[int, str], list[tuple[SweepSetting, ClearingRule]]] = {}
    for setting in settings:
        if isinstance(setting.policy, HasClearingRule):
            rule = setting.policy.clearing_rule(setting.params)
            groups.setdefault((rule.assumed_window, rule.placeholder), []).append((setting, rule))
    rows: dict[str, SweepRow] = {}
    for group in groups.values():
        if len(group) < MIN_VECTORIZED_SETTINGS:
            continue
        from context_tui.lab.sweep.clearing_kernel import SweepTrack, compute_outcomes

        rules = [rule for _, rule in group]
        track = SweepTrack(session_sweep.recording, rules[0], session_sweep.options.recorded)
        columns = (column.tolist() for column in compute_outcomes(track, rules))
        without = sum(get_baseline(session_sweep.recording, session_sweep.options.recorded).sizes)
        for (setting, _), outcome in zip(group, zip(*columns, strict=True), strict=True):
            is_known, tokens_sent, peak, overflows, firings, dropped, tokens = outcome
            if is_known:
                totals = ReplayTotals(tokens_sent, without - tokens_sent, peak, overflows)
                rows[setting.name] = session_sweep.build_row(setting, firings, totals, SettingDrops(dropped, tokens))
    return rows
