"""One session under many settings: what they share is made once, and settings that do the same are replayed once."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import cast

from context_tui.lab.price.cache import Reuse
from context_tui.lab.price.priced import price
from context_tui.lab.regret.cases import regret
from context_tui.lab.regret.index import index_of
from context_tui.lab.replay.result import Recorded, Replay, Totals
from context_tui.lab.replay.walk import SUMMARY_DELAY, baseline, replay_with
from context_tui.lab.study import Lab
from context_tui.lab.sweep.rows import Cost, Lost, Row
from context_tui.lab.sweep.settings import Setting
from context_tui.lab.sweep.trails import Trails
from context_tui.policies.base import Policy
from context_tui.policies.defect_microcompact import DefectMicrocompact, DefectMicrocompactParams
from context_tui.session.session import Session
from context_tui.tokens.estimators import bytes4

MANY = 16
"""Settings of one policy from which on they are taken together, where that can be done."""


@dataclass(frozen=True)
class How:
    """How all settings of a sweep are replayed (:func:`context_tui.lab.replay.walk.replay`) and priced.

    ``shares_prefix`` says that a summarizer is sent the calls' own beginning, which it reads from the prompt cache;
    ``reuse`` what a call reads of it where the policy changed its prompt; ``quick`` leaves out what takes long: what
    was used later, and prices.
    """

    recorded: Recorded = "keep"
    summary_tokens: int | None = None
    delay: int = SUMMARY_DELAY
    window: int | None = None
    shares_prefix: bool = False
    quick: bool = False
    reuse: Reuse = "breakpoints"


class Measured:
    """A session to measure settings on, with what all of them share."""

    def __init__(self, session: Session, name: str, how: How) -> None:
        self.name, self.how = name, how
        self.project = session.info.cwd or posixpath.dirname(session.info.path)
        self.lab = Lab(session.with_window(how.window) if how.window is not None else session)
        self.recording = self.lab.recording
        self.trails = Trails[Row]()

    def prepare(self, checkpoint: Callable[[], object] = lambda: None) -> None:
        """Read what regret is found by, which takes longest of what settings share. It would be read when needed."""
        if not self.how.quick and "uses" not in vars(self.lab):
            self.lab.uses = index_of(self.recording, checkpoint)

    def replayed(
        self, setting: Setting, policy: Policy | None = None, checkpoint: Callable[[], object] = lambda: None
    ) -> Row:
        """What a setting comes to along the session; *policy* stands for its own."""
        how = self.how
        made = replay_with(
            self.recording,
            policy or setting.policy,
            setting.params,
            recorded=how.recorded,
            summary_tokens=how.summary_tokens,
            delay=how.delay,
            checkpoint=checkpoint,
        )
        return self.row(setting, len(made.firings), made.totals, sum(made.baseline), self._lost(made), self._cost(made))

    def by_trail(self, setting: Setting, checkpoint: Callable[[], object] = lambda: None) -> Row:
        """The same, or what another setting that does the same came to."""
        replay = partial(self.replayed, setting, checkpoint=checkpoint)
        return self.trails.of(setting.policy, setting.params, replay).of(setting)

    def row(
        self, setting: Setting, firings: int, totals: Totals, without: int, lost: Lost, cost: Cost | None = None
    ) -> Row:
        """A row."""
        return Row(
            self.name,
            self.project,
            setting.name,
            setting.policy.name,
            setting.values,
            len(self.recording.calls),
            firings,
            totals.sent,
            totals.saved,
            totals.peak,
            totals.overflows,
            without,
            lost,
            cost,
        )

    @cached_property
    def baseline(self) -> list[int]:
        """By call, tokens without a policy."""
        return baseline(self.recording, self.how.recorded).sizes

    def _lost(self, made: Replay) -> Lost:
        """What it dropped, and what of that was used later."""
        if not self.how.quick:
            found = regret(made, self.lab.uses)
            tiers = {str(tier): count for tier, count in found.by_tier.items()}
            return Lost(found.dropped, found.tokens_dropped, found.used_later, found.tokens_used_later, tiers)
        facts = self.lab.session.facts
        return Lost(len(made.gone), sum(bytes4(facts, row) for row in made.gone))

    def _cost(self, made: Replay) -> Cost | None:
        """What it costs at cache prices."""
        if self.how.quick:
            return None
        how = self.how
        found = price(made, recorded=self.lab.calls, shares_prefix=how.shares_prefix, reuse=how.reuse)
        return Cost(found.cost, found.baseline_cost, found.table.unit)


def measured(
    session: Session,
    settings: Sequence[Setting],
    how: How | None = None,
    *,
    name: str | None = None,
    checkpoint: Callable[[], object] = lambda: None,
) -> Iterator[Row]:
    """Every setting on one session, in any order.

    Args:
        name: what the rows call the session (default: its path and id).
        checkpoint: is called at every call of a replay, and may raise to stop.

    Raises:
        PlanError: a policy cannot be replayed.
    """
    info = session.info
    there = Measured(session, name or (f"{info.path}#{info.id}" if info.id else info.path), how or How())
    yield from rows_of(there, settings, checkpoint)


def rows_of(
    there: Measured, settings: Sequence[Setting], checkpoint: Callable[[], object] = lambda: None
) -> Iterator[Row]:
    """The same on a session of which something may have been measured before."""
    there.prepare(checkpoint)
    micro = [each for each in settings if isinstance(each.policy, DefectMicrocompact)]
    micro = micro if len(micro) >= MANY else []
    together = {each.name for each in micro}
    rest = [each for each in settings if each.name not in together]
    if micro:
        yield from _vectorised(there, micro, rest, checkpoint)
    for setting in rest:
        checkpoint()
        yield there.by_trail(setting, checkpoint)


def _vectorised(
    there: Measured, micro: Sequence[Setting], rest: list[Setting], checkpoint: Callable[[], object]
) -> Iterator[Row]:
    """The rows of settings of defect-microcompact; those that cannot be told together are added to *rest*."""
    from context_tui.lab.sweep.kernel import outcomes  # numpy takes longer to import than a few replays

    params = [cast(DefectMicrocompactParams, each.params) for each in micro]
    found, without = outcomes(there.recording, params, there.how.recorded), sum(there.baseline)
    made: dict[int, Row] = {}
    rows = zip(*(each.tolist() for each in found), strict=True)
    for setting, (known, sent, peak, overflows, firings, dropped, tokens, alike) in zip(micro, rows, strict=True):
        if not known:
            rest.append(setting)
        elif there.how.quick:
            totals = Totals(sent, without - sent, peak, overflows)
            yield there.row(setting, firings, totals, without, Lost(dropped, tokens))
        else:
            if alike not in made:
                checkpoint()
                made[alike] = there.replayed(setting, checkpoint=checkpoint)
            yield made[alike].of(setting)
