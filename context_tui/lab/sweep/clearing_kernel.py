"""Computation of a replay's totals for thousands of clearing rules at once.

Within one turn the results that may be cleared stay the same. A rule therefore clears at most once per turn, at the
first checkpoint at which the believed size reaches its threshold. The believed size is the recorded one plus a number
that changes only when the rule clears. A run of checkpoints takes two vector operations over all rules: select the
rules whose threshold the largest size of the run reaches, then those of them with new results to clear. The cleared
tokens are sums over the results that are larger than the minimum, in all turns but the last ones.

The outcome of a rule is unknown if a recorded compaction keeps or clears a result that the rule cleared before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from context_tui.lab.replay.amounts import ZERO_AMOUNT, add_amounts
from context_tui.lab.replay.history import ReplayHistory
from context_tui.lab.replay.recording import Recording
from context_tui.lab.replay.result import CompactionHandling
from context_tui.lab.replay.walk import get_baseline
from context_tui.policies.base import ClearingRule
from context_tui.session.context import Body, Context
from context_tui.tokens.accounting import has_valid_size
from context_tui.tokens.context_index import index_context
from context_tui.tokens.context_size import limit_put_back
from context_tui.tokens.estimators import bytes4

Ints = NDArray[np.int64]
MAX_TABLE_CELLS = 1_000_000
"""Maximum cells of a table of sums by turn and minimum; rules with more distinct minimums are computed in parts."""


class RuleOutcomes(NamedTuple):
    """Totals of a replay for each rule, which are valid only for rules with ``is_known``."""

    is_known: NDArray[np.bool_]
    sent: Ints
    peak: Ints
    overflows: Ints
    firings: Ints
    dropped: Ints
    tokens_dropped: Ints


def compute_outcomes(track: SweepTrack, rules: Sequence[ClearingRule]) -> RuleOutcomes:
    """Compute the outcome of each rule along a track; all rules must have the track's placeholder and window.

    Takes time linear in the number of checkpoints, rules and clearings.
    """
    keep = np.array([rule.keep_recent_turns for rule in rules], np.int64)
    minimum = np.array([rule.min_clear_tokens for rule in rules], np.int64)
    share = np.array([rule.window_share for rule in rules], np.float64)
    distinct = np.unique(minimum)
    columns = max(MAX_TABLE_CELLS // (track.max_turns + 2), 1)
    numbers = (np.zeros(len(rules), np.int64) for _ in range(6))
    outcomes = RuleOutcomes(np.ones(len(rules), np.bool_), *numbers)
    for first in range(0, len(distinct), columns):
        minimums = distinct[first : first + columns]
        chosen = np.flatnonzero((minimum >= minimums[0]) & (minimum <= minimums[-1]))
        computed = _KernelRun(track, keep[chosen], minimum[chosen], share[chosen]).run()
        for column, values in zip(outcomes, computed, strict=True):
            column[chosen] = values
    return outcomes


class _Segment(NamedTuple):
    """Checkpoints between two recorded events, from ``begin`` up to ``end``, and the results of their context.

    Attributes:
        is_reset: whether a new context begins.
        floor: the message before which reported sizes are forgotten.
        estimate_offset: tokens to add to the running sum of messages.
        turns_at_checkpoint: for each checkpoint, the number of turns started so far.
        turn_of_result: for each result, the number of turns started up to and including its message.
        original_tokens: for each result, the tokens of its content as first recorded.
        added_tokens: for each result, the calibrated tokens that clearing it adds (negative).
    """

    begin: int
    end: int
    is_reset: bool
    floor: int
    estimate_offset: int
    turns_at_checkpoint: Ints
    result_rows: Ints
    turn_of_result: Ints
    tokens: Ints
    original_tokens: Ints
    added_tokens: Ints


class SweepTrack:
    """Data about a recording that all rules with the same placeholder and assumed window share.

    Attributes:
        is_known: whether all contexts equal those of the conversation as recorded, so that their sizes are known.
        checkpoints, calls_before: messages before which the policy may act, and the numbers of calls before them.
        recorded_sizes, call_windows: size of the context and of the window at each call, in tokens.
        believed_sizes: the believed size at each checkpoint if nothing was cleared.
        has_report, reported_reply: for each checkpoint, whether the believed size contains a reported size, and the
            reply that reported it (or -1).
        checkpoint_windows: the window that the runtime assumes at each checkpoint, in tokens.
        max_turns: largest number of turns in any context.
        is_unpredictable: for each checkpoint, whether a rule that clears there begins the next turn without a report.
        removable: for each call, tokens whose removal makes the context smaller by as many.
        lowest_sizes: for each call, the fewest removable tokens from that call up to the next event.
    """

    def __init__(self, recording: Recording, rule: ClearingRule, recorded: CompactionHandling = "keep") -> None:
        self.recording, self.placeholder = recording, Body.from_text(rule.placeholder)
        checkpoints = [message for message, phases in recording.checkpoints if "before_call" in phases]
        self.checkpoints = np.array(checkpoints, np.int64)
        call_messages = np.array([call.message for call in recording.calls], np.int64)
        self.calls_before = np.searchsorted(call_messages, self.checkpoints)
        baseline = get_baseline(recording, recorded)
        self.recorded_sizes = np.array(baseline.sizes, np.int64)
        amounts = [*map(add_amounts, recording.recorded_amounts, baseline.excess)]
        content = np.array([amount.tokens for amount in amounts], np.int64)
        fixed = np.array(recording.fixed_sizes, np.int64)
        columns = zip(amounts, baseline.sizes, recording.fixed_sizes, strict=True)
        put_back = [limit_put_back(each.put_back, size, fixed_size, each.tokens) for each, size, fixed_size in columns]
        sizes = self.recorded_sizes - np.array(put_back, np.int64)
        self.removable = _count_removable_tokens(sizes, fixed, content)
        self.call_windows = np.array([window.tokens for window in recording.windows], np.int64)
        history = ReplayHistory(recording, recorded)
        sums = np.array(history.tokens_before, np.int64)
        self.is_known, self.recorded = not recording.side_calls, recorded
        self.segments = list(self._iter_segments(history))
        self.max_turns = max((int(segment.turns_at_checkpoint.max(initial=0)) for segment in self.segments), default=0)
        self._compute_believed_sizes(call_messages, sums)
        windows = map(recording.session.window_at, checkpoints)
        self.checkpoint_windows = np.array(
            [window.tokens if window.is_known else rule.assumed_window for window in windows], np.int64
        )
        self.is_unpredictable = np.zeros(len(checkpoints), np.bool_)
        self.lowest_sizes = np.zeros(len(self.recorded_sizes) + 1, np.int64)
        for segment in self.segments:
            self._find_unpredictable(segment)
        self.has_unpredictable = bool(self.is_unpredictable.any())

    def _iter_segments(self, history: ReplayHistory) -> Iterator[_Segment]:
        checkpoints, events, begin = self.checkpoints.tolist(), iter(self.recording.events), 0
        event = next(events, None)
        while begin < len(checkpoints):
            is_reset = not begin
            while event is not None and event.at <= checkpoints[begin]:
                history.update(event)
                is_reset |= event.order is not None and (self.recorded == "keep" or not event.compaction)
                event = next(events, None)
            self.is_known &= self.recorded == "ignore" or history.excess == ZERO_AMOUNT
            length_before = len(history.order)
            offset = history.estimate - history.tokens_before[history.end_message]
            end = len(checkpoints) if event is None else int(np.searchsorted(self.checkpoints, event.at))
            history.append_until(checkpoints[end - 1])
            yield self._build_segment(history, begin, end, is_reset, offset, length_before)
            begin = end

    def _build_segment(
        self, history: ReplayHistory, begin: int, end: int, is_reset: bool, offset: int, length_before: int
    ) -> _Segment:
        order, replaced = tuple(history.order), history.replaced
        context = Context(self.recording.facts, history.end_message, order, replacements=dict(replaced))
        index, facts = index_context(context), self.recording.facts
        placeholder = self.placeholder.text or ""
        is_uncleared = np.array(
            [not context.has_exact_text(row, placeholder, in_blocks=False) for row in index.results.block], np.bool_
        )
        columns = (index.results.block, index.results.tokens, index.results.position)
        block, tokens, position = (np.array(column, np.int64)[is_uncleared] for column in columns)
        starts = np.array(index.turn_starts, np.int64)
        appended = np.array(order[length_before:], np.int64)
        checkpoint_position = length_before + np.searchsorted(appended, self.checkpoints[begin:end])
        rows, table = block.tolist(), self.recording.table
        counts = ((table.count_body(row, self.placeholder), table.count_block_tokens(context, row)) for row in rows)
        added_tokens = [cleared - whole for cleared, whole in counts]
        return _Segment(
            begin,
            end,
            is_reset,
            history.floor,
            offset,
            np.searchsorted(starts, checkpoint_position),
            block,
            np.searchsorted(starts, position, side="right"),
            tokens,
            np.array([bytes4(facts, row) for row in rows], np.int64) if replaced else tokens,
            np.array(added_tokens, np.int64),
        )

    def _compute_believed_sizes(self, call_messages: Ints, sums: Ints) -> None:
        recording = self.recording
        pairs = zip(recording.calls, recording.recorded_sizes, strict=True)
        recorded = np.array(
            [size is not None and has_valid_size(recording.facts, call.request) for call, size in pairs], np.bool_
        )
        last_recorded = np.maximum.accumulate(np.where(recorded, np.arange(len(call_messages)), -1))
        reported_call = np.where(self.calls_before > 0, last_recorded[self.calls_before - 1], -1)
        self.reported_reply = np.where(reported_call >= 0, call_messages[reported_call], -1)
        floor, estimate = np.zeros_like(self.checkpoints), np.zeros_like(self.checkpoints)
        for segment in self.segments:
            rows = slice(segment.begin, segment.end)
            floor[rows], estimate[rows] = segment.floor, segment.estimate_offset
        self.has_report = (self.reported_reply >= floor) & (self.reported_reply >= 0)
        reported = self.recorded_sizes[reported_call] + sums[self.checkpoints] - sums[self.reported_reply]
        self.believed_sizes = np.where(self.has_report, reported, estimate + sums[self.checkpoints])

    def _find_unpredictable(self, segment: _Segment) -> None:
        rows = slice(segment.begin, segment.end)
        last_checkpoint = np.minimum(np.searchsorted(self.reported_reply, self.checkpoints[rows]), segment.end) - 1
        self.is_unpredictable[rows] = self.has_report[last_checkpoint] & (
            segment.turns_at_checkpoint[last_checkpoint - segment.begin] > segment.turns_at_checkpoint
        )
        end = int(self.calls_before[segment.end]) if segment.end < len(self.checkpoints) else len(self.recorded_sizes)
        calls = slice(int(self.calls_before[segment.begin]), end)
        self.lowest_sizes[calls] = np.minimum.accumulate(self.removable[calls][::-1])[::-1]


def _count_removable_tokens(sizes: Ints, fixed: Ints, content: Ints) -> Ints:
    """Return the tokens whose removal :func:`resize` counts in full."""
    in_file = np.maximum(sizes - fixed, 0)
    ratio = content / np.maximum(in_file, 1)
    removable = (content * (ratio - np.sqrt(np.maximum(ratio * ratio - 1, 0)))).astype(np.int64)
    return np.where(content <= in_file, in_file, np.where(in_file > 0, removable, 0))


class _ResultSums(NamedTuple):
    """Sums over the results larger than a minimum up to a turn, in flat tables: a row per turn, a column per minimum.

    The first row is empty; the second row covers the results before the first turn.
    """

    column_count: int
    results: Ints
    estimate: Ints
    original_tokens: Ints
    added_tokens: Ints


class _KernelRun:
    """Simulation of all rules along a track."""

    def __init__(self, track: SweepTrack, keep: Ints, minimum: Ints, share: NDArray[np.float64]) -> None:
        self.track, self.keep, self.minimum, self.share = track, keep, minimum, share
        self.mins, column = np.unique(minimum, return_inverse=True)
        self.cells = len(self.mins) - 1 - column - (keep - 1) * len(self.mins)  # before the first turn
        count = len(keep)
        self.is_known = np.full(count, track.is_known, np.bool_)
        self.added_tokens, self.peak, self.overflows, self.firings, self.dropped, self.removed_tokens = (
            np.zeros(count, np.int64) for _ in range(6)
        )
        self.settled_until = np.zeros(count, np.int64)
        # In the current context, the number of cleared results and the tokens that clearing adds (negative).
        self.count, self.estimate, self.added, self.original_tokens = (np.zeros(count, np.int64) for _ in range(4))
        self.last_cell, self.last_checkpoint = (np.full(count, -1, np.int64) for _ in range(2))  # of its last clearing
        # Number of turns covered by the last clearing, and its message.
        self.cleared_turns, self.fired_at = (np.full(count, -1, np.int64) for _ in range(2))
        self.excess = track.recorded_sizes - track.call_windows
        self.decreases = np.cumsum(np.diff(track.recorded_sizes, prepend=0) < 0)

    def run(self) -> RuleOutcomes:
        track = self.track
        if len(track.recorded_sizes) and track.is_known:
            previous: _Segment | None = None
            for segment in track.segments:
                self._enter_segment(segment, previous)
                self._walk_segment(segment)
                self._leave_segment()
                previous = segment
            self._add_cleared_to_totals()
            self._settle_all_calls(len(track.recorded_sizes))
        tokens_sent = int(track.recorded_sizes.sum()) + self.added_tokens
        return RuleOutcomes(
            self.is_known, tokens_sent, self.peak, self.overflows, self.firings, self.dropped, self.removed_tokens
        )

    def _enter_segment(self, segment: _Segment, previous: _Segment | None) -> None:
        if previous is not None:
            track = self.track
            self._settle_all_calls(int(track.calls_before[segment.begin]))
            self._mark_unknown(segment, previous)
            if segment.is_reset:
                self._add_cleared_to_totals()
                for column in (self.count, self.estimate, self.added, self.original_tokens):
                    column[:] = 0
                self.cleared_turns[:] = self.fired_at[:] = -1
            elif track.has_report[segment.begin]:
                self.is_known &= self.fired_at <= track.reported_reply[segment.begin]
            # Unknown if more would be removed than the file accounts for.
            self.is_known &= track.lowest_sizes[track.calls_before[segment.begin]] + self.added >= 0
        self.sums = _build_result_sums(segment, self.mins, self.track.placeholder.tokens)

    def _leave_segment(self) -> None:
        cleared = np.flatnonzero(self.last_cell >= 0)
        cell = self.last_cell[cleared]
        self.original_tokens[cleared] = self.sums.original_tokens[cell]
        self.cleared_turns[cleared] = cell // self.sums.column_count - 1
        self.fired_at[cleared] = self.track.checkpoints[self.last_checkpoint[cleared]]
        self.last_cell[:] = -1

    def _add_cleared_to_totals(self) -> None:
        self.dropped += self.count
        self.removed_tokens += self.original_tokens

    def _mark_unknown(self, segment: _Segment, previous: _Segment) -> None:
        """Mark the outcome of rules as unknown if they cleared a result that a recorded event now keeps or clears."""
        is_affected = np.isin(previous.result_rows, segment.result_rows, kind="table")
        if not segment.is_reset:
            tokens = dict(zip(segment.result_rows.tolist(), segment.tokens.tolist(), strict=True))
            previous_results = zip(previous.result_rows.tolist(), previous.tokens.tolist(), strict=True)
            is_affected = np.array([tokens.get(row) != size for row, size in previous_results], np.bool_)
        turns, sizes = previous.turn_of_result[is_affected].tolist(), previous.tokens[is_affected].tolist()
        for turn, size in set(zip(turns, sizes, strict=True)):
            self.is_known &= ~((self.cleared_turns >= turn) & (self.minimum < size))
        if segment.is_reset and self.track.has_report[segment.begin]:
            self.is_known &= self.count == 0

    def _walk_segment(self, segment: _Segment) -> None:
        track, rows = self.track, slice(segment.begin, segment.end)
        keys = segment.turns_at_checkpoint, track.checkpoint_windows[rows], track.has_report[rows]
        changes = np.zeros(segment.end - segment.begin, np.bool_)
        for key in keys:
            changes[1:] |= key[1:] != key[:-1]
        ends = [0, *np.flatnonzero(changes).tolist(), segment.end - segment.begin]
        last_key: tuple[int, bool] | None = None
        threshold = added_tokens = needed_tokens = np.empty(0, np.int64)
        for first, end in pairwise(ends):
            checkpoint = segment.begin + first
            window, has_report = int(track.checkpoint_windows[checkpoint]), bool(track.has_report[checkpoint])
            if (window, has_report) != last_key:
                threshold, last_key = (self.share * window).astype(np.int64), (window, has_report)
                added_tokens = self.added if has_report else self.estimate
                needed_tokens = threshold - added_tokens  # the believed size of the recording at which each rule fires
            maxima = np.maximum.accumulate(track.believed_sizes[checkpoint : segment.begin + end])
            chosen = (needed_tokens <= maxima[-1]).nonzero()[0]
            if len(chosen):
                chosen = self._clear_results(segment, chosen, needed_tokens, maxima, checkpoint)
                needed_tokens[chosen] = threshold[chosen] - added_tokens[chosen]

    def _clear_results(self, segment: _Segment, chosen: Ints, needed_tokens: Ints, maxima: Ints, first: int) -> Ints:
        track, sums = self.track, self.sums
        turns = int(segment.turns_at_checkpoint[first - segment.begin])
        cell = np.maximum(turns * sums.column_count + self.cells[chosen], 0)  # the empty row if all turns are kept
        count = sums.results[cell]
        new = (count > self.count[chosen]).nonzero()[0]
        chosen, cell, count = chosen[new], cell[new], count[new]
        if not len(chosen):
            return chosen
        needed_tokens = needed_tokens[chosen]
        at_once = needed_tokens.max() <= maxima[0]
        checkpoints = np.full(len(chosen), first) if at_once else first + np.searchsorted(maxima, needed_tokens)
        call = track.calls_before[checkpoints]
        self._settle_calls(chosen, call)
        tokens = sums.added_tokens[cell]
        self.firings[chosen] += 1
        self.count[chosen] = count
        self.estimate[chosen] = sums.estimate[cell]
        self.added[chosen] = tokens
        self.last_cell[chosen] = cell
        self.last_checkpoint[chosen] = checkpoints
        if track.lowest_sizes[track.calls_before[first]] + tokens.min() < 0:
            self.is_known[chosen] &= track.lowest_sizes[call] + tokens >= 0
        if track.has_unpredictable:
            self.is_known[chosen] &= ~track.is_unpredictable[checkpoints]
        return chosen

    def _settle_all_calls(self, until: int) -> None:
        self._settle_calls(slice(None), np.full(len(self.keep), until))

    def _settle_calls(self, chosen: Ints | slice, until: Ints) -> None:
        begin = self.settled_until[chosen]
        unsettled = (until > begin).nonzero()[0]
        if not len(unsettled):
            return
        if len(unsettled) < len(begin):
            chosen, begin, until = np.arange(len(self.keep))[chosen][unsettled], begin[unsettled], until[unsettled]
        self._add_calls(chosen, begin, until)
        self.settled_until[chosen] = until

    def _add_calls(self, chosen: Ints | slice, begin: Ints, end: Ints) -> None:
        """Add the calls from *begin* up to *end* to the totals of the rules; no range may be empty."""
        added_tokens = self.added[chosen]
        self.added_tokens[chosen] += added_tokens * (end - begin)
        sizes, start, last = self.track.recorded_sizes, begin.min(), end.max() - 1
        if self.decreases[start] == self.decreases[last]:  # contexts mostly grow: the last call is the largest
            maxima = sizes[end - 1]
        else:
            bounds = np.column_stack((begin, end)).ravel() - start
            maxima = np.maximum.reduceat(np.append(sizes[start : last + 1], 0), bounds)[::2]
        self.peak[chosen] = np.maximum(self.peak[chosen], maxima + added_tokens)
        if self.excess.max() + added_tokens.max() <= 0:
            return
        rules, ranges = np.arange(len(self.keep))[chosen], begin * (len(self.excess) + 1) + end
        order = np.argsort(ranges, kind="stable")
        for same in np.split(order, np.flatnonzero(np.diff(ranges[order])) + 1):  # the rules with the same calls
            excess = np.sort(self.excess[begin[same[0]] : end[same[0]]])
            within = np.searchsorted(excess, -added_tokens[same], side="right")
            self.overflows[rules[same]] += len(excess) - within


def _build_result_sums(segment: _Segment, mins: Ints, placeholder_tokens: int) -> _ResultSums:
    width = len(mins)
    height = int(max(segment.turns_at_checkpoint.max(initial=0), segment.turn_of_result.max(initial=0))) + 2
    column = width - np.searchsorted(mins, segment.tokens)  # columns in order of falling minimum
    large = column < width
    cell = (segment.turn_of_result[large] + 1) * width + column[large]
    tokens = segment.tokens[large]

    def build_table(values: Any) -> Any:
        sums = np.zeros(height * width, np.int64)
        np.add.at(sums, cell, values)
        shaped = sums.reshape(height, width)
        shaped.cumsum(axis=1, out=shaped).cumsum(axis=0, out=shaped)
        return sums

    results, sizes = build_table(1), build_table(tokens)
    return _ResultSums(
        width,
        results,
        placeholder_tokens * results - sizes,
        sizes if segment.original_tokens is segment.tokens else build_table(segment.original_tokens[large]),
        build_table(segment.added_tokens[large]),
    )
