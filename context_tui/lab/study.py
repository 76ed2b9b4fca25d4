"""Studies of policies along a session, with price and regret; the work that they share is done once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

from context_tui.lab.price.breaks import CacheHistory, find_cache_breaks
from context_tui.lab.price.cache import CacheReuse
from context_tui.lab.price.cache_requests import PriceModel, build_price_model, reconstruct_recorded_calls
from context_tui.lab.price.cache_requests import RecordedCalls as RecordedCalls
from context_tui.lab.price.pricing import ReplayPrice, price_replay
from context_tui.lab.regret.bound import RegretBound, compute_regret_bound
from context_tui.lab.regret.cases import Regret, compute_regret
from context_tui.lab.regret.index import UseIndex, build_use_index
from context_tui.lab.replay.backtest import PolicyBacktest, run_backtests
from context_tui.lab.replay.recording import Recording
from context_tui.lab.replay.result import CompactionHandling, Firing, Replay, find_changed_rows
from context_tui.lab.replay.walk import DEFAULT_SUMMARY_DELAY, replay_recording
from context_tui.policies.base import Params, Policy
from context_tui.session.session import Session
from context_tui.session.values import Checkpoint

HANDLING_TEXTS: dict[CompactionHandling, str] = {
    "keep": "kept: a setting is judged only by the firings between them",
    "ignore": "undone: a setting is judged as if there were none",
}
"""Effects of keeping and of undoing recorded compactions."""
COMMAND_HANDLING_TEXTS = HANDLING_TEXTS | {
    "keep": f"{HANDLING_TEXTS['keep']}; --recorded undo judges it as if there were none"
}
"""The same for the text of a command, with the option that undoes them."""


class Study(NamedTuple):
    """A policy's replay along a session, with its price, its regret, and the bound for dropping without regret."""

    replay: Replay
    price: ReplayPrice
    regret: Regret
    bound: RegretBound

    def find_cases(self, firing: Firing) -> list[int]:
        """Return the numbers of the regret cases in which this firing removed the content."""
        return self.group_cases_by_firing()[self.replay.firings.index(firing)]

    def group_cases_by_firing(self) -> list[list[int]]:
        """Return, for each firing of the policy, the numbers of the regret cases whose content that firing removed."""
        groups: list[list[int]] = [[] for _ in self.replay.firings]
        firings_by_message: dict[int, list[int]] = {}
        for number, firing in enumerate(self.replay.firings):
            firings_by_message.setdefault(firing.message, []).append(number)
        find_rows = cache(lambda number: find_changed_rows(self.replay.firings[number].plan))
        for number, case in enumerate(self.regret.cases):
            candidates = firings_by_message[case.dropped]
            if len(candidates) > 1:
                candidates = [candidate for candidate in candidates if case.row in find_rows(candidate)] or candidates
            groups[candidates[0]].append(number)
        return groups


@dataclass(frozen=True)
class StudySettings:
    """The settings of a study; :func:`.walk.replay` describes ``recorded``, ``summary_tokens`` and ``delay``.

    Attributes:
        shares_prefix: whether the summarizer's prompt begins as the calls do, and is therefore read from the cache.
        reuse: how much of the prompt cache a changed prompt is assumed to reuse.
    """

    recorded: CompactionHandling = "keep"
    summary_tokens: int | None = None
    delay: int = DEFAULT_SUMMARY_DELAY
    shares_prefix: bool = False
    reuse: CacheReuse = "breakpoints"

    def replay(
        self, recording: Recording, policy: Policy, params: Params, checkpoint: Checkpoint = lambda: None
    ) -> Replay:
        """Replay a policy along a recording with these settings, raising PlanError if it cannot be replayed."""
        return replay_recording(
            recording,
            policy,
            params,
            recorded=self.recorded,
            summary_tokens=self.summary_tokens,
            delay=self.delay,
            checkpoint=checkpoint,
        )


class Lab:
    """A session with the data that studies of it share; its text is read only when regret is needed."""

    def __init__(
        self, session: Session, recording: Recording | None = None, checkpoint: Checkpoint = lambda: None
    ) -> None:
        """Use *recording*, by default a new one; *checkpoint* may raise to stop the reading of all text."""
        self.session, self.recording = session, recording or Recording(session)
        self._checkpoint = checkpoint

    @cached_property
    def recorded_calls(self) -> RecordedCalls:
        """The recorded calls, as requests to the prompt cache."""
        return reconstruct_recorded_calls(self.session)

    @cached_property
    def cache_history(self) -> CacheHistory:
        """The session's use of the prompt cache, with its cache breaks."""
        return find_cache_breaks(self.session, recorded=self.recorded_calls)

    @cached_property
    def price_model(self) -> PriceModel:
        """Comparison of the session's recorded use of the prompt cache with the use that the cache model predicts."""
        return build_price_model(self.session)

    @cached_property
    def uses(self) -> UseIndex:
        """Index of the later uses of each block's content."""
        return build_use_index(self.recording, self._checkpoint)

    @cached_property
    def backtests(self) -> list[PolicyBacktest]:
        """Back-tests of the agent's own policies along the recording."""
        return run_backtests(self.recording, self._checkpoint)

    def price(self, replay: Replay, settings: StudySettings) -> ReplayPrice:
        """Return the price of a replay of the session, given the settings' assumptions about the cache."""
        shares_prefix, reuse = settings.shares_prefix, settings.reuse
        return price_replay(replay, recorded=self.recorded_calls, shares_prefix=shares_prefix, reuse=reuse)

    def run_study(
        self,
        policy: Policy,
        params: Params,
        settings: StudySettings = StudySettings(),
        checkpoint: Checkpoint = lambda: None,
    ) -> Study:
        """Replay a policy and compute its price, regret and bound, raising PlanError if it cannot be replayed."""
        return self.study_replay(settings.replay(self.recording, policy, params, checkpoint), settings)

    def study_replay(self, replay: Replay, settings: StudySettings) -> Study:
        """Compute the price, regret and bound of a replay of the recording."""
        regret, bound = compute_regret(replay, self.uses), compute_regret_bound(replay, self.uses)
        return Study(replay, self.price(replay, settings), regret, bound)
