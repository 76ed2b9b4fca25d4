"""Compare the aftermaths of many compactions: means by group, and λ with its bootstrap interval over sessions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict
from math import ceil
from random import Random
from typing import Any, Literal, NamedTuple

from context_tui.lab.aftermath.measure import Aftermath, Course, average_courses
from context_tui.text.numbers import format_count

RESAMPLES, SEED = 2_000, 24
INTERVAL = 0.95
MIN_SESSIONS, ENOUGH_SESSIONS = 5, 20
"""Fewest sessions with measured compactions for an interval, since a bootstrap over fewer says too little, and a number
of sessions that is usually enough."""
TARGET_WIDTH = 0.5
"""Width of the interval of λ that settles most decisions: policies that lose content break even at 0.25 to 0.78."""


class SessionAftermath(NamedTuple):
    """The name of a session, its agent (a format), and an aftermath in the session."""

    session: str
    agent: str
    aftermath: Aftermath


class ExtraCalls(NamedTuple):
    """Extra calls per 1,000 removed tokens (λ), with its interval.

    Attributes:
        value: 1,000 times the extra calls of all measured compactions, divided by their removed tokens.
        low, high: bootstrap interval of 95 % over sessions, or None with fewer than ``MIN_SESSIONS``.
        compactions, sessions: number of measured compactions, and of sessions that they are from.
        needed: estimated number of compactions for an interval of ``TARGET_WIDTH``, or None if no more are needed.
        left_out: number of recorded compactions that are not measured: no call of their own or no edit or end of turn
            follows, no point without a compaction is similar, or they removed no tokens.
        verdict: ``more calls`` or ``fewer calls`` if the interval excludes 0, ``no difference found`` if it is narrow,
            else ``not enough``.
    """

    value: float
    low: float | None
    high: float | None
    compactions: int
    sessions: int
    needed: int | None
    verdict: Literal["more calls", "fewer calls", "no difference found", "not enough"]
    left_out: int = 0

    @property
    def rates(self) -> tuple[float, ...]:
        """The rates at which settings are compared: the value and the upper end of its interval, or ()."""
        return () if self.high is None else (self.value, self.high)

    @property
    def sentence(self) -> str:
        """Text with the verdict, the interval and the number of compactions."""
        count = format_count(self.compactions, "compaction")
        source = f"{count} in {format_count(self.sessions, 'session')}"
        if self.left_out:
            left_out = f"{self.left_out:,} of {self.compactions + self.left_out:,} left out"
            source += f", {left_out}: no call or edit follows, or no point is similar"
        advice_text = f"; about {self.needed:,} would do" if self.needed else ""
        if self.low is None or self.high is None:
            return f"not enough: {source}{advice_text}"
        interval = (
            f"{self.value:+.3f} extra calls per 1,000 removed tokens, 95% from {self.low:+.3f} to {self.high:+.3f}"
        )
        return f"{self.verdict}: {interval} ({source}{advice_text})"


class GroupMeans(NamedTuple):
    """Mean courses of the compactions in a group: after them, before them, and at their matches, where known."""

    name: str
    compactions: int
    after: Course
    before: Course | None
    matched: Course | None


def estimate_extra_calls(rows: Sequence[SessionAftermath], recorded: int = 0) -> ExtraCalls | None:
    """Estimate the extra calls per 1,000 removed tokens (λ), or return None if no compaction has known extra calls.

    *recorded* counts all recorded compactions, if more than *rows*.
    """
    by_session: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for row in rows:
        extra, removed = row.aftermath.extra_calls, row.aftermath.removed
        if extra is not None and removed > 0:
            by_session[row.session].append((extra, removed))
    groups = [by_session[name] for name in sorted(by_session)]
    if not groups:
        return None
    count = sum(map(len, groups))
    left_out = max(recorded, len(rows)) - count
    value = _compute_ratio(groups)
    if len(groups) < MIN_SESSIONS:
        needed = ceil(count / len(groups) * ENOUGH_SESSIONS)
        return ExtraCalls(value, None, None, count, len(groups), needed, "not enough", left_out)
    random = Random(SEED)
    values = sorted(_compute_ratio(random.choices(groups, k=len(groups))) for _ in range(RESAMPLES))
    margin = round((1 - INTERVAL) / 2 * RESAMPLES)
    low, high = values[margin], values[-margin - 1]
    width = high - low
    needed_count = ceil(count * (width / TARGET_WIDTH) ** 2) if width > TARGET_WIDTH else None
    verdict: Literal["more calls", "fewer calls", "no difference found", "not enough"] = "not enough"
    if low > 0 or high < 0:
        verdict, needed_count = "more calls" if low > 0 else "fewer calls", None
    elif needed_count is None:
        verdict = "no difference found"
    return ExtraCalls(value, low, high, count, len(groups), needed_count, verdict, left_out)


def _compute_ratio(groups: Sequence[Sequence[tuple[float, int]]]) -> float:
    extra = sum(pair[0] for group in groups for pair in group)
    return extra / sum(pair[1] for group in groups for pair in group) * 1_000


def group_aftermaths(rows: Sequence[SessionAftermath], get_name: Callable[[SessionAftermath], str]) -> list[GroupMeans]:
    """Group aftermaths by name, and return the mean courses of each group, the largest group first."""
    groups: dict[str, list[Aftermath]] = defaultdict(list)
    for row in rows:
        groups[get_name(row)].append(row.aftermath)
    means = []
    for name, group in groups.items():
        before = [each.before for each in group if each.before is not None]
        matched = [each.matched for each in group if each.matched is not None]
        if (after := average_courses([each.after for each in group])) is not None:
            means.append(GroupMeans(name, len(group), after, average_courses(before), average_courses(matched)))
    return sorted(means, key=lambda each: (-each.compactions, each.name))


def format_aftermath(aftermath: Aftermath) -> str:
    """Format the course after a compaction, with the means of its matches in brackets."""
    after, matched = aftermath.after, aftermath.matched
    means = matched or (None,) * len(after)
    calls = "no edit before the next compaction or the end"
    if after.calls is not None:
        calls = f"{format_count(round(after.calls), 'call')} until the next edit or end of turn{_format_mean(means[0])}"
    labels = ("read again", "run again", "failed again", "corrected by the user")
    courses = zip(labels, after[2:], means[2:], strict=True)
    repeats = [
        f"{value:.0f} {label}{_format_mean(mean)}" for label, value, mean in courses if value or round(mean or 0)
    ]
    matches = format_count(len(aftermath.matches), "similar point")
    note = f"; in brackets: the mean of {matches} without a compaction" if matched else ""
    return f"{calls}; {', '.join(repeats) or 'nothing unchanged read or run again'}{note}"


def _format_mean(value: float | None) -> str:
    return "" if value is None else f" ({value:.1f})"


def build_aftermath_report(row: SessionAftermath) -> dict[str, Any]:
    """Build the JSON report on an aftermath."""
    aftermath = row.aftermath
    courses = {
        name: course._asdict() if (course := getattr(aftermath, name)) is not None else None
        for name in ("after", "before", "matched")
    }
    return {
        "session": row.session,
        "agent": row.agent,
        **asdict(aftermath),
        **courses,
        "matches": list(aftermath.matches),
        "extra_calls": aftermath.extra_calls,
    }
