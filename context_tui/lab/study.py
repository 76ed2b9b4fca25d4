"""A session in the lab: policies along it with their price and their regret; what they share is computed once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from context_tui.lab.price.cache import CacheReuse
from context_tui.lab.price.cache_requests import RecordedCalls as RecordedCalls
from context_tui.lab.price.cache_requests import reconstruct_recorded_calls
from context_tui.lab.price.model import PriceModel, build_price_model
from context_tui.lab.price.pricing import ReplayPrice, price_replay
from context_tui.lab.regret.bound import RegretBound, compute_regret_bound
from context_tui.lab.regret.cases import Regret, compute_regret
from context_tui.lab.regret.index import UseIndex, build_use_index
from context_tui.lab.replay.recording import Recording
from context_tui.lab.replay.result import CompactionHandling, Firing, Replay, find_changed_rows
from context_tui.lab.replay.walk import DEFAULT_SUMMARY_DELAY, replay_recording
from context_tui.policies.base import Params, Policy
from context_tui.session.session import Session


class Study(NamedTuple):
    """A replay, what it costs, what it dropped that was used later, and how much could have been dropped."""

    replay: Replay
    price: ReplayPrice
    regret: Regret
    bound: RegretBound

    def find_cases(self, firing: Firing) -> list[int]:
        """Return the numbers of the regret's cases whose content went with this firing."""
        return next(
            cases
            for each, cases in zip(self.replay.firings, self.group_cases_by_firing(), strict=True)
            if each is firing
        )

    def group_cases_by_firing(self) -> list[list[int]]:
        """Group the numbers of regret cases by the firing that removed their content; each case has one firing."""
        groups: list[list[int]] = [[] for _ in self.replay.firings]
        at_message: dict[int, list[int]] = {}
        for number, firing in enumerate(self.replay.firings):
            at_message.setdefault(firing.message, []).append(number)
        rows: dict[int, frozenset[int]] = {}
        for number, case in enumerate(self.regret.cases):
            firing_number, *later = at_message[case.dropped]
            for each in [firing_number, *later] if later else ():
                if each not in rows:
                    rows[each] = find_changed_rows(self.replay.firings[each].plan)
                if case.row in rows[each]:
                    firing_number = each
                    break
            groups[firing_number].append(number)
        return groups


@dataclass(frozen=True)
class StudySettings:
    """Settings of a study.

    Attributes:
        recorded: whether compactions that the recording holds happen (``keep``) or not (``ignore``).
        summary_tokens: estimated tokens (``bytes/4``) of a summary; None: the median of the recorded ones, else 2,000.
        delay: calls that are made while a summary is written in the background.
        shares_prefix: whether a summarizer is sent the calls' own beginning, which it reads from the prompt cache.
        reuse: what a call reads from the prompt cache where the policy changed its prompt.
    """

    recorded: CompactionHandling = "keep"
    summary_tokens: int | None = None
    delay: int = DEFAULT_SUMMARY_DELAY
    shares_prefix: bool = False
    reuse: CacheReuse = "breakpoints"


class Lab:
    """Session, and the data that all its studies share. The text is read when regret is first asked for."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.recording = Recording(session)

    @cached_property
    def recorded_calls(self) -> RecordedCalls:
        """Prompt cache reads of the recorded calls."""
        return reconstruct_recorded_calls(self.session)

    @cached_property
    def price_model(self) -> PriceModel:
        """Model of the prompt cache, beside its recorded use."""
        return build_price_model(self.session)

    @cached_property
    def uses(self) -> UseIndex:
        """Later uses of each block's content."""
        return build_use_index(self.recording)

    def replay(
        self,
        policy: Policy,
        params: Params,
        settings: StudySettings,
        checkpoint: Callable[[], object] = lambda: None,
    ) -> Replay:
        """Replay a policy along the session; *checkpoint* is called at every call, and may raise to stop.

        Raises:
            PlanError: the policy cannot be replayed, or a value is out of range.
        """
        return replay_recording(
            self.recording,
            policy,
            params,
            recorded=settings.recorded,
            summary_tokens=settings.summary_tokens,
            delay=settings.delay,
            checkpoint=checkpoint,
        )

    def price(self, replay: Replay, settings: StudySettings) -> ReplayPrice:
        """Price a replay of the session."""
        shares_prefix, reuse = settings.shares_prefix, settings.reuse
        return price_replay(replay, recorded=self.recorded_calls, shares_prefix=shares_prefix, reuse=reuse)

    def run_study(
        self,
        policy: Policy,
        params: Params,
        settings: StudySettings = StudySettings(),
        checkpoint: Callable[[], object] = lambda: None,
    ) -> Study:
        """Replay a policy along the session, with its price, its regret and the bound of that.

        Raises:
            PlanError: the policy cannot be replayed, or a value is out of range.
        """
        replay = self.replay(policy, params, settings, checkpoint)
        regret, bound = compute_regret(replay, self.uses), compute_regret_bound(replay, self.uses)
        return Study(replay, self.price(replay, settings), regret, bound)
