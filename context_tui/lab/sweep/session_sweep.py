"""Sweep one session under many settings: shared work is done once, equal decisions are replayed once."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import cast

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
from context_tui.policies.builtin.defect import DefectMicrocompact, DefectMicrocompactParams
from context_tui.session.session import Session
from context_tui.tokens.estimators import bytes4

MIN_VECTORIZED_SETTINGS = 16
"""Settings of one policy from which on they are taken together, where that can be done."""


@dataclass(frozen=True)
class SweepOptions:
    """How all settings of a sweep are replayed (:func:`context_tui.lab.replay.walk.replay`) and priced.

    ``shares_prefix`` says that a summarizer is sent the calls' own beginning, which it reads from the prompt cache;
    ``reuse`` what a call reads of it where the policy changed its prompt; ``quick`` leaves out what takes long: what
    was used later, and prices.
    """

    recorded: CompactionHandling = "keep"
    summary_tokens: int | None = None
    delay: int = DEFAULT_SUMMARY_DELAY
    window: int | None = None
    shares_prefix: bool = False
    quick: bool = False
    reuse: CacheReuse = "breakpoints"


class SessionSweep:
    """A session to measure settings on, with what all of them share."""

    def __init__(self, session: Session, name: str, options: SweepOptions) -> None:
        self.name, self.options = name, options
        self.project = session.info.cwd or posixpath.dirname(session.info.path)
        self.lab = Lab(session.with_window(options.window) if options.window is not None else session)
        self.recording = self.lab.recording
        self.decision_trails = DecisionTrails[SweepRow]()

    def build_use_index(self, checkpoint: Callable[[], object] = lambda: None) -> None:
        """Read what regret is found by, which takes longest of what settings share. It would be read when needed."""
        if not self.options.quick and "uses" not in vars(self.lab):
            self.lab.uses = build_use_index(self.recording, checkpoint)

    def replay_setting(
        self, setting: SweepSetting, policy: Policy | None = None, checkpoint: Callable[[], object] = lambda: None
    ) -> SweepRow:
        """What a setting comes to along the session; *policy* stands for its own."""
        how = self.options
        made = replay_recording(
            self.recording,
            policy or setting.policy,
            setting.params,
            recorded=how.recorded,
            summary_tokens=how.summary_tokens,
            delay=how.delay,
            checkpoint=checkpoint,
        )
        return self.build_row(
            setting,
            len(made.firings),
            made.totals,
            sum(made.baseline),
            self._measure_drops(made),
            self._compute_cost(made),
        )

    def replay_or_reuse(self, setting: SweepSetting, checkpoint: Callable[[], object] = lambda: None) -> SweepRow:
        """The same, or what another setting that does the same came to."""
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
        """A row."""
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
        """By call, tokens without a policy."""
        return get_baseline(self.recording, self.options.recorded).sizes

    def _measure_drops(self, made: Replay) -> SettingDrops:
        """What it dropped, and what of that was used later."""
        if not self.options.quick:
            found = compute_regret(made, self.lab.uses)
            tiers = {str(tier): count for tier, count in found.by_tier.items()}
            return SettingDrops(found.dropped, found.tokens_dropped, found.used_later, found.tokens_used_later, tiers)
        facts = self.lab.session.facts
        return SettingDrops(len(made.removed_by_policy), sum(bytes4(facts, row) for row in made.removed_by_policy))

    def _compute_cost(self, made: Replay) -> SettingCost | None:
        """What it costs at cache prices."""
        if self.options.quick:
            return None
        how = self.options
        found = price_replay(made, recorded=self.lab.recorded_calls, shares_prefix=how.shares_prefix, reuse=how.reuse)
        return SettingCost(found.cost, found.baseline_cost, found.rate_table.unit)


def sweep_session(
    session: Session,
    settings: Sequence[SweepSetting],
    options: SweepOptions | None = None,
    *,
    name: str | None = None,
    checkpoint: Callable[[], object] = lambda: None,
) -> Iterator[SweepRow]:
    """Every setting on one session, in any order.

    Args:
        name: what the rows call the session (default: its path and id).
        checkpoint: is called at every call of a replay, and may raise to stop.

    Raises:
        PlanError: a policy cannot be replayed.
    """
    info = session.info
    there = SessionSweep(
        session, name or (f"{info.path}#{info.id}" if info.id else info.path), options or SweepOptions()
    )
    yield from sweep_settings(there, settings, checkpoint)


def sweep_settings(
    session_sweep: SessionSweep, settings: Sequence[SweepSetting], checkpoint: Callable[[], object] = lambda: None
) -> Iterator[SweepRow]:
    """The same on a session of which something may have been measured before."""
    session_sweep.build_use_index(checkpoint)
    micro = [each for each in settings if isinstance(each.policy, DefectMicrocompact)]
    micro = micro if len(micro) >= MIN_VECTORIZED_SETTINGS else []
    together = {each.name for each in micro}
    rest = [each for each in settings if each.name not in together]
    if micro:
        yield from _sweep_vectorized(session_sweep, micro, rest, checkpoint)
    for setting in rest:
        checkpoint()
        yield session_sweep.replay_or_reuse(setting, checkpoint)


def _sweep_vectorized(
    session_sweep: SessionSweep,
    microcompact_settings: Sequence[SweepSetting],
    remaining: list[SweepSetting],
    checkpoint: Callable[[], object],
) -> Iterator[SweepRow]:
    """The rows of settings of defect-microcompact; those that cannot be told together are added to *rest*."""
    from context_tui.lab.sweep.microcompact_kernel import compute_outcomes

    params = [cast(DefectMicrocompactParams, each.params) for each in microcompact_settings]
    found, without = (
        compute_outcomes(session_sweep.recording, params, session_sweep.options.recorded),
        sum(session_sweep.baseline_sizes),
    )
    made: dict[int, SweepRow] = {}
    rows = zip(*(each.tolist() for each in found), strict=True)
    for setting, (known, sent, peak, overflows, firings, dropped, tokens, alike) in zip(
        microcompact_settings, rows, strict=True
    ):
        if not known:
            remaining.append(setting)
        elif session_sweep.options.quick:
            totals = ReplayTotals(sent, without - sent, peak, overflows)
            yield session_sweep.build_row(setting, firings, totals, without, SettingDrops(dropped, tokens))
        else:
            if alike not in made:
                checkpoint()
                made[alike] = session_sweep.replay_setting(setting, checkpoint=checkpoint)
            yield made[alike].copy_for(setting)
