"""Sweep one session under many settings: shared work is done once, equal decisions are replayed once."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from context_tui.lab.price.cache import CacheReuse
from context_tui.lab.price.pricing import price_replay
from context_tui.lab.regret.cases import compute_regret
from context_tui.lab.regret.index import build_use_index
from context_tui.lab.replay.result import CompactionHandling, Replay, ReplayTotals
from context_tui.lab.replay.walk import DEFAULT_SUMMARY_DELAY, get_baseline, replay_recording
from context_tui.lab.study import Lab
from context_tui.lab.sweep.decision_trails import DecisionTrails
from context_tui.lab.sweep.rows import SettingCost, SettingDrops, SweepRow
from context_tui.lab.sweep.settings import SweepSetting
from context_tui.policies.base import Policy
from context_tui.policies.clearing_rule import ClearingRule, HasClearingRule
from context_tui.session.session import Session
from context_tui.tokens.estimators import bytes4

MIN_VECTORIZED_SETTINGS = 16
"""Settings from which on clearing rules are computed together: fewer do not repay the load of numpy."""


@dataclass(frozen=True)
class SweepOptions:
    """Options of the replay (:func:`context_tui.lab.replay.walk.replay`) and of the price of all settings of a sweep.

    Attributes:
        shares_prefix: whether a summarizer is sent the beginning of the calls, which it reads from the prompt cache.
        reuse: what a call reads from the prompt cache where the policy changed its prompt.
        quick: leave out regret and prices, which take most of the time.
    """

    recorded: CompactionHandling = "keep"
    summary_tokens: int | None = None
    delay: int = DEFAULT_SUMMARY_DELAY
    window: int | None = None
    shares_prefix: bool = False
    quick: bool = False
    reuse: CacheReuse = "breakpoints"


class SessionSweep:
    """A session to measure settings on, with the work that all of them share."""

    def __init__(self, session: Session, name: str, options: SweepOptions) -> None:
        self.name, self.options = name, options
        self.project = session.info.cwd or posixpath.dirname(session.info.path)
        self.lab = Lab(session.with_window(options.window) if options.window is not None else session)
        self.recording = self.lab.recording
        self.decision_trails = DecisionTrails[SweepRow]()

    def build_use_index(self, checkpoint: Callable[[], object] = lambda: None) -> None:
        """Build the index that regret is found by, the longest part of the shared work, before it is needed."""
        if not self.options.quick and "uses" not in vars(self.lab):
            self.lab.uses = build_use_index(self.recording, checkpoint)

    def replay_setting(
        self, setting: SweepSetting, policy: Policy | None = None, checkpoint: Callable[[], object] = lambda: None
    ) -> SweepRow:
        """Replay a setting along the session and return its row; *policy* stands in for the setting's own."""
        options = self.options
        replay = replay_recording(
            self.recording,
            policy or setting.policy,
            setting.params,
            recorded=options.recorded,
            summary_tokens=options.summary_tokens,
            delay=options.delay,
            checkpoint=checkpoint,
        )
        return self.build_row(
            setting,
            len(replay.firings),
            replay.totals,
            sum(replay.baseline),
            self._measure_drops(replay),
            self._compute_cost(replay),
        )

    def replay_or_reuse(self, setting: SweepSetting, checkpoint: Callable[[], object] = lambda: None) -> SweepRow:
        """Return the row of a setting, copied from another one that decides the same where there is one."""
        replay = partial(self.replay_setting, setting, checkpoint=checkpoint)
        return self.decision_trails.replay_or_reuse(setting.policy, setting.params, replay).copy_for(setting)

    def build_row(
        self,
        setting: SweepSetting,
        firings: int,
        totals: ReplayTotals,
        baseline_tokens: int,
        drops: SettingDrops,
        cost: SettingCost | None = None,
    ) -> SweepRow:
        """Build the row of a setting from its measurements."""
        return SweepRow(
            self.name,
            self.project,
            setting.name,
            setting.policy.name,
            setting.param_values,
            len(self.recording.calls),
            firings,
            totals.sent,
            totals.saved,
            totals.peak,
            totals.overflows,
            baseline_tokens,
            drops,
            cost,
        )

    @cached_property
    def baseline_sizes(self) -> list[int]:
        """Tokens of the context without a policy, by call."""
        return get_baseline(self.recording, self.options.recorded).sizes

    def _measure_drops(self, replay: Replay) -> SettingDrops:
        if not self.options.quick:
            regret = compute_regret(replay, self.lab.uses)
            tiers = {str(tier): count for tier, count in regret.by_tier.items()}
            return SettingDrops(
                regret.dropped, regret.tokens_dropped, regret.used_later, regret.tokens_used_later, tiers
            )
        facts = self.lab.session.facts
        return SettingDrops(len(replay.removed_by_policy), sum(bytes4(facts, row) for row in replay.removed_by_policy))

    def _compute_cost(self, replay: Replay) -> SettingCost | None:
        if self.options.quick:
            return None
        options = self.options
        price = price_replay(
            replay, recorded=self.lab.recorded_calls, shares_prefix=options.shares_prefix, reuse=options.reuse
        )
        return SettingCost(price.cost, price.baseline_cost, price.rate_table.unit)


def sweep_session(
    session: Session,
    settings: Sequence[SweepSetting],
    options: SweepOptions | None = None,
    *,
    name: str | None = None,
    checkpoint: Callable[[], object] = lambda: None,
) -> Iterator[SweepRow]:
    """Yield the row of each setting on one session.

    Args:
        name: name of the session in the rows (default: its path and id).
        checkpoint: called at every call of a replay; may raise to stop.

    Raises:
        PlanError: a policy cannot be replayed.
    """
    info = session.info
    name = name or (f"{info.path}#{info.id}" if info.id else info.path)
    yield from sweep_settings(SessionSweep(session, name, options or SweepOptions()), settings, checkpoint)


def sweep_settings(
    session_sweep: SessionSweep, settings: Sequence[SweepSetting], checkpoint: Callable[[], object] = lambda: None
) -> Iterator[SweepRow]:
    """Yield the row of each setting, on a session that may have been swept before."""
    session_sweep.build_use_index(checkpoint)
    computed = _compute_rows_by_rules(session_sweep, settings) if session_sweep.options.quick else {}
    for setting in settings:
        checkpoint()
        yield computed.get(setting.name) or session_sweep.replay_or_reuse(setting, checkpoint)


def _compute_rows_by_rules(session_sweep: SessionSweep, settings: Sequence[SweepSetting]) -> dict[str, SweepRow]:
    """Return the rows, by name, of settings that clearing rules describe; some outcomes stay unknown.

    A rule yields sizes only, no replay to price or to search for regret.
    """
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
        without = sum(session_sweep.baseline_sizes)
        for (setting, _), outcome in zip(group, zip(*columns, strict=True), strict=True):
            is_known, tokens_sent, peak, overflows, firings, dropped, tokens = outcome
            if is_known:
                totals = ReplayTotals(tokens_sent, without - tokens_sent, peak, overflows)
                rows[setting.name] = session_sweep.build_row(
                    setting, firings, totals, without, SettingDrops(dropped, tokens)
                )
    return rows
