"""Measure what an agent did after each recorded compaction, and at matched points of the same session.

A *match* of a compaction is a call at the same distance, in calls, from the start of its turn (or about the same, if
no call has exactly that distance), with no compaction within ``NEAR_CALLS`` calls. The cost of a compaction in calls
is the number of calls up to the first edit, or else to the end of the turn, minus the mean of that number over its
matches. This cost per 1,000 removed tokens is λ; ``context_tui.lab.price.pricing`` computes the λ at which a policy
saves nothing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean
from typing import NamedTuple

from context_tui.compaction.recorded_compactions import CompactionKind, RecordedCompaction, find_recorded_compactions
from context_tui.lab.aftermath.steps import RepeatKind, Step, build_steps
from context_tui.session.facts import Compaction, order_at
from context_tui.session.session import Session
from context_tui.session.values import Checkpoint
from context_tui.session.window import model_at

WINDOW_CALLS = 20
"""Calls after a point in which repeats, failures and corrections are counted."""
NEAR_CALLS = 10
"""Calls before and after a match in which no compaction may be."""
MAX_MATCHES = 50
"""Maximum number of matches of a compaction, those with the most similar distance."""


class Course(NamedTuple):
    """Counts of an agent's actions after a point of a session.

    Attributes:
        calls, tokens: calls to the model up to the first edit or the end of the turn, and the tokens of these calls;
            None if a compaction or the end of the session comes first.
        reads, commands, failures: repeats, within ``WINDOW_CALLS`` calls, of content in the context at the point.
        corrections: corrections that a person typed within ``WINDOW_CALLS`` calls.
    """

    calls: float | None
    tokens: float | None
    reads: float
    commands: float
    failures: float
    corrections: float


@dataclass(frozen=True)
class Aftermath:
    """A recorded compaction, with the course of the agent after it and the mean course after its matches.

    Attributes:
        message, kind, trigger: as in :class:`RecordedCompaction`.
        distance: calls since the turn began; 0 if the compaction stands before the first call of a turn.
        removed: tokens that it removed, as recorded or as estimated.
        after, before: course after it, and after the call ``WINDOW_CALLS`` calls earlier (None if there is none).
        matched: mean course after the ``matches``, or None if there are none.
    """

    message: int
    kind: CompactionKind
    trigger: str
    model: str
    version: str
    distance: int
    removed: int
    after: Course
    before: Course | None
    matched: Course | None
    matches: tuple[int, ...]

    @property
    def extra_calls(self) -> float | None:
        """Calls up to the first edit, minus their mean at the matches, or None if either number is unknown."""
        if self.matched is None or self.after.calls is None or self.matched.calls is None:
            return None
        return self.after.calls - self.matched.calls


def measure_aftermaths(session: Session, checkpoint: Checkpoint = lambda: None) -> list[Aftermath]:
    """Return the aftermath of each recorded compaction before a call, reading all text if there is a compaction.

    Of several compactions before the same call, only the last full one, or else the first, has an aftermath.
    """
    compactions = [each for each in find_recorded_compactions(session) if len(each.context_before.order)]
    if not compactions:
        return []
    return _Measurement(session, compactions, build_steps(session, checkpoint)).measure()


class _Measurement:
    def __init__(self, session: Session, compactions: Sequence[RecordedCompaction], steps: Sequence[Step]) -> None:
        self.session, self.compactions, self.steps = session, compactions, steps
        self.messages = [step.message for step in steps]
        self.numbers = [bisect_left(self.messages, each.message) for each in compactions]
        near_calls = {each + offset for each in self.numbers for offset in range(-NEAR_CALLS, NEAR_CALLS + 1)}
        self._by_distance: dict[int, list[int]] = defaultdict(list)  # calls that can be matches
        for number, step in enumerate(steps):
            if number not in near_calls:
                self._by_distance[step.distance].append(number)
        # The messages of the context before a message, without a compaction that begins with it.
        self._get_order = cache(lambda message: frozenset(order_at(session.facts, message)[1]))

    def measure(self) -> list[Aftermath]:
        by_number: dict[int, RecordedCompaction] = {}
        for compaction, number in zip(self.compactions, self.numbers, strict=True):
            if number < len(self.steps) and (number not in by_number or compaction.kind == "full"):
                by_number[number] = compaction  # of several before one call, the full one explains what follows
        return [self._measure_one(each, number) for number, each in by_number.items()]

    def _measure_one(self, compaction: RecordedCompaction, number: int) -> Aftermath:
        facts, event = self.session.facts, compaction.event
        matches = self._find_matches(self.steps[number].distance)
        earlier = number - WINDOW_CALLS
        return Aftermath(
            compaction.message,
            compaction.kind,
            (event.trigger or "") if isinstance(event, Compaction) else "",
            model_at(facts, compaction.message) or "",
            ".".join(map(str, (event.version if isinstance(event, Compaction) else ()) or facts.agent_version)),
            self.steps[number].distance,
            _count_removed(compaction),
            self._follow(number, compaction.message),
            self._follow(earlier, self.messages[earlier]) if earlier >= 0 else None,
            average_courses([self._follow(each, self.messages[each]) for each in matches]),
            tuple(self.messages[each] for each in matches),
        )

    def _find_matches(self, distance: int) -> list[int]:
        exact = self._by_distance.get(distance, [])
        if exact or not distance:
            return exact[:MAX_MATCHES]
        tolerance = max(2, distance // 4)
        others = sorted(range(max(distance - tolerance, 1), distance + tolerance + 1), key=lambda d: abs(d - distance))
        return sorted([number for each in others for number in self._by_distance.get(each, [])][:MAX_MATCHES])

    def _follow(self, number: int, message: int) -> Course:
        """Return the course from call *number* on, counting repeats of content in the context before *message*."""
        following = bisect_right(self.numbers, number)
        next_compaction = self.numbers[following] if following < len(self.numbers) else len(self.steps)
        window = self.steps[number : min(number + WINDOW_CALLS, next_compaction)]
        known = self._get_order(message)
        repeats = (each for step in window for each in step.repeats if each.earlier < self.messages[number])
        counts: Mapping[RepeatKind, int] = Counter(each.kind for each in repeats if each.earlier in known)
        calls, tokens = self._count_to_edit(number, next_compaction)
        corrections = sum(step.is_corrected for step in window)
        return Course(calls, tokens, counts["read"], counts["command"], counts["failure"], corrections)

    def _count_to_edit(self, number: int, end: int) -> tuple[int | None, int | None]:
        tokens = 0
        for count, step in enumerate(self.steps[number:end], 1):
            tokens += step.tokens
            following = number + count
            if step.has_edit or (following < len(self.steps) and not self.steps[following].distance):
                return count, tokens
        return None, None


def _count_removed(compaction: RecordedCompaction) -> int:
    event, after = compaction.event, compaction.recorded_tokens_after
    if not isinstance(event, Compaction):
        return max(event.removed_tokens, 0)
    if compaction.kind == "full" and compaction.believed_tokens_before is not None and after is not None:
        return max(compaction.believed_tokens_before - after, 0)
    return max(event.saved_tokens or sum(map(compaction.count_block_tokens, compaction.removed_blocks)), 0)


def average_courses(courses: Sequence[Course]) -> Course | None:
    """Return the mean of each number over the courses for which it is known, or None if there are no courses."""
    if not courses:
        return None
    columns = zip(*courses, strict=True)
    known = [[value for value in column if value is not None] for column in columns]
    means = [fmean(values) if values else None for values in known]
    return Course(means[0], means[1], *(mean or 0.0 for mean in means[2:]))
