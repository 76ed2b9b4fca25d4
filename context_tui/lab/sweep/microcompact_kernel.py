"""Vectorized replay totals of defect-microcompact under thousands of settings.

Within one turn the results that may be cleared are the same, so a setting clears at most once in it: at the first look
at which it believes to have reached its threshold. And what it believes is what the recording has there and a number
that changes only when it clears. So a stretch of looks is two vector operations over all settings: which reach the
largest size of the stretch, and which of these have something new to clear. What these clear are sums over the results
of all turns but the last ones that are larger than the minimum.

The history that a setting leaves must be of that form. Where a recorded compaction keeps or clears itself what a
setting has cleared, that setting is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from context_tui.lab.replay.amounts import IMAGES, RESULT, ZERO_AMOUNT
from context_tui.lab.replay.history import History
from context_tui.lab.replay.recording import Recording
from context_tui.lab.replay.result import CompactionHandling
from context_tui.lab.replay.walk import get_baseline
from context_tui.policies.builtin.defect import ASSUMED_WINDOW, CLEARED_TOKENS, DefectMicrocompactParams, is_cleared
from context_tui.session.context import Context
from context_tui.session.values import BlockFlag
from context_tui.tokens.context_index import index_context
from context_tui.tokens.estimators import bytes4

Ints = NDArray[np.int64]
MAX_TABLE_CELLS = 1_000_000
"""Cells of a table of sums, by turn and minimum; settings with more different minimums are taken in parts."""
_MAX_PENDING_PIECES = 1 << 20
"""Pieces with calls over the window that are counted together."""


class SettingOutcomes(NamedTuple):
    """By setting: the totals of a replay, in tokens; blocks that were cleared, and their tokens; and what is ``fingerprint``.

    Where ``is_known`` is false the numbers mean nothing. Settings with the same number in ``fingerprint`` clear the same results
    at the same calls.
    """

    is_known: NDArray[np.bool_]
    sent: Ints
    peak: Ints
    overflows: Ints
    firings: Ints
    dropped: Ints
    tokens_dropped: Ints
    fingerprint: NDArray[np.uint64]


def compute_outcomes(
    recording: Recording, settings: Sequence[DefectMicrocompactParams], recorded: CompactionHandling = "keep"
) -> SettingOutcomes:
    """What every setting comes to along a recording.

    Takes time linear in looks and in settings, and besides in the times that a setting clears.
    """
    track = _get_track(recording, recorded)
    keep = np.array([each.keep_recent_turns for each in settings], np.int64)
    minimum = np.array([each.min_clear_tokens for each in settings], np.int64)
    ratio = np.array([each.microcompact_ratio for each in settings], np.float64)
    mins = np.unique(minimum)
    wide = max(MAX_TABLE_CELLS // (track.max_turns + 2), 1)
    found = _build_empty_outcomes(len(settings))
    for first in range(0, len(mins), wide):
        part = mins[first : first + wide]
        chosen = np.flatnonzero((minimum >= part[0]) & (minimum <= part[-1]))
        done = _KernelRun(track, keep[chosen], minimum[chosen], ratio[chosen]).run()
        for whole, some in zip(found, done, strict=True):
            whole[chosen] = some
    return found


def _get_track(recording: Recording, recorded: CompactionHandling) -> _SweepTrack:
    key = _SweepTrack, recorded
    if key not in recording.memo:
        recording.memo[key] = _SweepTrack(recording, recorded)
    found: _SweepTrack = recording.memo[key]
    return found


def _build_empty_outcomes(count: int) -> SettingOutcomes:
    sent, peak, overflows, firings, dropped, tokens = (np.zeros(count, np.int64) for _ in range(6))
    alike = np.zeros(count, np.uint64)
    return SettingOutcomes(np.ones(count, np.bool_), sent, peak, overflows, firings, dropped, tokens, alike)


class _Segment(NamedTuple):
    """Looks between two events of the recording, from ``begin`` up to ``end``, and the results of its context.

    ``turn_of_result`` is how many turns have started before or at each result, ``estimate_offset`` what to add to the sums of
    messages. ``is_reset`` says that it is another context than before; ``floor`` the message before which reported sizes
    are forgotten.
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
    has_image: NDArray[np.bool_]


class _SweepTrack:
    """What the recording has at every look at which defect looks, whatever the setting.

    Attributes:
        known: whether its contexts are as recorded, so that sizes can be told.
        calls: by look, how many calls were made before it; ``recorded_sizes`` by call the tokens of its context, and ``call_windows``.
        believed: by look, what the runtime believes as long as nothing was cleared; ``has_report`` whether that goes by a
            size that was reported, and ``reported_reply`` the message of the reply that it was reported with, -1 where none was.
        windows: by look, the window as defect sees it.
        weights: those of each class; ``weight_class`` and ``reply_weight_class`` the class of the call at a look, and of the reply.
        turns: the most turns of a context.
        blind: by look, whether a setting that clears there would in the next turn go by another size than the
            recording: by an estimate, until one is reported.
        lowest: by call, the least tokens of a call up to the next event.
        salt: by look, an odd number that looks like a random one.
    """

    def __init__(self, recording: Recording, recorded: CompactionHandling) -> None:
        self.recording = recording
        looks = [message for message, phases in recording.checkpoints if "before_call" in phases]
        self.checkpoints = np.array(looks, np.int64)
        self.hash_salts = _hash_numbers(np.arange(len(looks), dtype=np.uint64)) | np.uint64(1)
        made = np.array([call.message for call in recording.calls], np.int64)
        self.calls_before = np.searchsorted(made, self.checkpoints)
        self.recorded_sizes = np.array(get_baseline(recording, recorded).sizes, np.int64)
        self.call_windows = np.array([each.tokens for each in recording.windows], np.int64)
        history = History(recording, recorded)
        sums = np.array(history.tokens_before, np.int64)
        self.is_known, self.recorded = True, recorded
        self.segments = list(self._iter_segments(history))
        self.max_turns = max((int(each.turns_at_checkpoint.max(initial=0)) for each in self.segments), default=0)
        self._compute_believed_sizes(made, sums)
        self._assign_weight_classes(made)
        at = [recording.window_at(look, call) for look, call, _ in self._iter_checkpoints()]
        self.checkpoint_windows = np.array([each.tokens if each.is_known else ASSUMED_WINDOW for each in at], np.int64)
        self.is_unpredictable, self.lowest_sizes = (
            np.zeros(len(looks), np.bool_),
            np.zeros(len(self.recorded_sizes) + 1, np.int64),
        )
        for each in self.segments:
            self._find_unpredictable(each)
        self.has_unpredictable = bool(self.is_unpredictable.any())

    def _iter_checkpoints(self) -> Iterator[tuple[int, int, bool]]:
        calls = self.recording.calls
        for look, call in zip(self.checkpoints.tolist(), self.calls_before.tolist(), strict=True):
            yield look, call, call < len(calls) and calls[call].message == look

    def _iter_segments(self, history: History) -> Iterator[_Segment]:
        looks, events, begin = self.checkpoints.tolist(), iter(self.recording.events), 0
        event = next(events, None)
        while begin < len(looks):
            anew = not begin
            while event is not None and event.at <= looks[begin]:
                history.update(event)
                anew |= event.order is not None and (self.recorded == "keep" or not event.compaction)
                event = next(events, None)
            self.is_known &= self.recorded == "ignore" or history.excess == ZERO_AMOUNT
            before = len(history.order)
            sums_at = history.estimate - history.tokens_before[history.end_message]
            end = len(looks) if event is None else int(np.searchsorted(self.checkpoints, event.at))
            history.append_until(looks[end - 1])
            yield self._build_segment(history, begin, end, anew, sums_at, before)
            begin = end

    def _build_segment(self, history: History, begin: int, end: int, anew: bool, sums_at: int, before: int) -> _Segment:
        order, replaced = tuple(history.order), history.replaced
        context = Context(self.recording.facts, history.end_message, order, replacements=dict(replaced))
        sums, facts = index_context(context), self.recording.facts
        left = np.array([not is_cleared(context, row) for row in sums.results.block], np.bool_)
        columns = (sums.results.block, sums.results.tokens, sums.results.position)
        block, tokens, at = (np.array(each, np.int64)[left] for each in columns)
        starts = np.array(sums.turn_starts, np.int64)
        appended = np.array(order[before:], np.int64)
        position = before + np.searchsorted(appended, self.checkpoints[begin:end])
        rows, flags = block.tolist(), facts.block_flags
        images = [bool(flags[row] & BlockFlag.HAS_IMAGE) and row not in replaced for row in rows]
        return _Segment(
            begin,
            end,
            anew,
            history.floor,
            sums_at,
            np.searchsorted(starts, position),
            block,
            np.searchsorted(starts, at, side="right"),
            tokens,
            np.array([bytes4(facts, row) for row in rows], np.int64) if replaced else tokens,
            np.array(images, np.bool_),
        )

    def _compute_believed_sizes(self, made: Ints, sums: Ints) -> None:
        recorded = np.array([size is not None for size in self.recording.recorded_sizes], np.bool_)
        last = np.maximum.accumulate(np.where(recorded, np.arange(len(made)), -1)) if len(made) else made
        self.reported_call = (
            np.where(self.calls_before > 0, last[self.calls_before - 1], -1) if len(made) else self.calls_before
        )
        self.reported_reply = (
            np.where(self.reported_call >= 0, made[self.reported_call], -1) if len(made) else self.reported_call
        )
        floor, estimate = np.zeros_like(self.checkpoints), np.zeros_like(self.checkpoints)
        for each in self.segments:
            floor[each.begin : each.end], estimate[each.begin : each.end] = each.floor, each.estimate_offset
        self.has_report = (self.reported_reply >= floor) & (self.reported_reply >= 0)
        guess = estimate + sums[self.checkpoints]
        told = (
            self.recorded_sizes[self.reported_call] + sums[self.checkpoints] - sums[self.reported_reply]
            if len(made)
            else guess
        )
        self.believed_sizes = np.where(self.has_report, told, guess)

    def _find_unpredictable(self, segment: _Segment) -> None:
        """What there is to come in a segment."""
        rows = slice(segment.begin, segment.end)
        last = np.minimum(np.searchsorted(self.reported_reply, self.checkpoints[rows]), segment.end) - 1
        self.is_unpredictable[rows] = self.has_report[last] & (
            segment.turns_at_checkpoint[last - segment.begin] > segment.turns_at_checkpoint
        )
        end = int(self.calls_before[segment.end]) if segment.end < len(self.checkpoints) else len(self.recorded_sizes)
        calls = slice(int(self.calls_before[segment.begin]), end)
        self.lowest_sizes[calls] = np.minimum.accumulate(self.recorded_sizes[calls][::-1])[::-1]

    def _assign_weight_classes(self, made: Ints) -> None:
        recording, classes = self.recording, dict[Any, int]()
        by_call = np.array(
            [classes.setdefault(recording.get_weights(call.request), len(classes)) for call in recording.calls],
            np.int64,
        )
        self.weights = [(each[RESULT], each[IMAGES]) for each in classes]
        if len(made):
            self.call_weight_class = by_call[np.minimum(self.calls_before, len(made) - 1)]
            self.reply_weight_class = np.where(self.has_report, by_call[self.reported_call], -1)
        else:
            self.call_weight_class = self.reply_weight_class = self.calls_before


class _ResultSums(NamedTuple):
    """Over the results of the turns up to each, larger than each minimum: flat tables, a row for each turn.

    The first row is of nothing, the one below it of what stands before the first turn.
    """

    column_count: int
    results: Ints
    estimate: Ints
    original_tokens: Ints
    fingerprint: NDArray[np.uint64]
    image_count: Ints
    image_tokens: Ints
    has_images: bool


class _KernelRun:
    """One walk along a track with all settings."""

    def __init__(self, track: _SweepTrack, keep: Ints, minimum: Ints, ratio: NDArray[np.float64]) -> None:
        self.track, self.keep, self.minimum, self.ratio = track, keep, minimum, ratio
        self.mins, column = np.unique(minimum, return_inverse=True)
        self.cells = len(self.mins) - 1 - column - (keep - 1) * len(self.mins)  # of the sums where no turn has begun
        count = len(keep)
        self.is_known = np.full(count, track.is_known, np.bool_)
        self.extra, self.peak, self.firings, self.dropped, self.removed_tokens = (
            np.zeros(count, np.int64) for _ in range(5)
        )
        self.fingerprint = np.zeros(count, np.uint64)
        self.settled_until = np.zeros(count, np.int64)
        # Of the context as it stands: results that were cleared, and what it has more by it.
        self.count, self.estimate, self.whole = (np.zeros(count, np.int64) for _ in range(3))
        self.cell, self.look = (np.full(count, -1, np.int64) for _ in range(2))  # where it last cleared, and its sums
        self.cleared_turns, self.fired_at = (
            np.full(count, -1, np.int64) for _ in range(2)
        )  # the turns, and the message of that
        self.more = [np.zeros(count, np.int64) for _ in track.weights]  # tokens of calls, by class of weights
        self.range_max = _RangeMax(track.recorded_sizes)
        self.excess, self.room = (
            _RangeMax(track.recorded_sizes - track.call_windows),
            _RangeMax(track.call_windows - track.recorded_sizes),
        )
        self.overflow_counter = _OverflowCounter(track.recorded_sizes - track.call_windows, count)

    def run(self) -> SettingOutcomes:
        track = self.track
        if len(track.recorded_sizes) and track.is_known:
            before: _Segment | None = None
            for segment in track.segments:
                self._enter_segment(segment, before)
                self._walk_segment(segment)
                self._leave_segment()
                before = segment
            self._count_cleared()
            self._settle_all_calls(len(track.recorded_sizes))
        sent = int(track.recorded_sizes.sum()) + self.extra
        return SettingOutcomes(
            self.is_known,
            sent,
            self.peak,
            self.overflow_counter.count_pending(),
            self.firings,
            self.dropped,
            self.removed_tokens,
            self.fingerprint,
        )

    weight_class = 0

    def _enter_segment(self, segment: _Segment, before: _Segment | None) -> None:
        """What the recording did to its context between two segments."""
        if before is not None:
            track = self.track
            self._settle_all_calls(int(track.calls_before[segment.begin]))
            self._mark_unknown(segment, before)
            if segment.is_reset:
                self._count_cleared()
                for each in (self.count, self.estimate, self.whole, *self.more):
                    each[:] = 0
                self.cleared_turns[:] = self.fired_at[:] = -1
            elif track.has_report[segment.begin]:
                self.is_known &= self.fired_at <= track.reported_reply[segment.begin]
            for more in self.more:  # calibration may take a size below nothing
                self.is_known &= track.lowest_sizes[track.calls_before[segment.begin]] + more >= 0
        self.sums = _build_result_sums(segment, self.mins)

    def _leave_segment(self) -> None:
        """Take from the sums of a segment what is known by the last cell only."""
        cleared = np.flatnonzero(self.cell >= 0)
        cell = self.cell[cleared]
        self.whole[cleared], self.cleared_turns[cleared] = (
            self.sums.original_tokens[cell],
            cell // self.sums.column_count - 1,
        )
        self.fired_at[cleared] = self.track.checkpoints[self.look[cleared]]
        self.cell[:] = -1

    def _count_cleared(self) -> None:
        """Take what was cleared of a context that ends here into the totals."""
        self.dropped += self.count
        self.removed_tokens += self.whole

    def _mark_unknown(self, segment: _Segment, before: _Segment) -> None:
        """Settings that have cleared what the recording now keeps or clears itself."""
        same = np.isin(before.result_rows, segment.result_rows, kind="table")
        if not segment.is_reset:
            tokens = dict(zip(segment.result_rows.tolist(), segment.tokens.tolist(), strict=True))
            left = [
                tokens.get(row) == size
                for row, size in zip(before.result_rows.tolist(), before.tokens.tolist(), strict=True)
            ]
            same = ~np.array(left, np.bool_)
        for turn, size in set(zip(before.turn_of_result[same].tolist(), before.tokens[same].tolist(), strict=True)):
            self.is_known &= ~((self.cleared_turns >= turn) & (self.minimum < size))
        if segment.is_reset and self.track.has_report[segment.begin]:
            self.is_known &= self.count == 0

    def _walk_segment(self, segment: _Segment) -> None:
        track, rows = self.track, slice(segment.begin, segment.end)
        keys = (
            segment.turns_at_checkpoint,
            track.checkpoint_windows[rows],
            track.reply_weight_class[rows],
            track.call_weight_class[rows],
        )
        changes = np.zeros(segment.end - segment.begin, np.bool_)
        for key in keys:
            changes[1:] |= key[1:] != key[:-1]
        ends = [0, *np.flatnonzero(changes).tolist(), segment.end - segment.begin]
        shown: tuple[int, int] | None = None
        threshold = more = need = np.empty(0, np.int64)
        for first, last in pairwise(ends):
            look = segment.begin + first
            if track.call_weight_class[look] != self.weight_class:
                self._settle_all_calls(int(track.calls_before[look]))
                self.weight_class = int(track.call_weight_class[look])
            way = int(track.checkpoint_windows[look]), int(track.reply_weight_class[look])
            if way != shown:
                threshold, shown = (self.ratio * way[0]).astype(np.int64), way
                more = self.estimate if way[1] < 0 else self.more[way[1]]
                need = threshold - more  # what the recording must have, by its own belief, for a setting to fire
            reached = np.maximum.accumulate(track.believed_sizes[look : segment.begin + last])
            chosen = (need <= reached[-1]).nonzero()[0]
            if len(chosen):
                chosen = self._clear_results(segment, chosen, need, reached, look)
                need[chosen] = threshold[chosen] - more[chosen]

    def _clear_results(self, segment: _Segment, chosen: Ints, need: Ints, reached: Ints, first: int) -> Ints:
        """Clear what can be cleared in a stretch; returns the settings that do."""
        track, sums = self.track, self.sums
        turns = int(segment.turns_at_checkpoint[first - segment.begin])
        cell = np.maximum(
            turns * sums.column_count + self.cells[chosen], 0
        )  # in the row of nothing if it keeps all turns
        count = sums.results[cell]
        new = (count > self.count[chosen]).nonzero()[0]
        chosen, cell, count = chosen[new], cell[new], count[new]
        if not len(chosen):
            return chosen
        need = need[chosen]
        at_once = need.max() <= reached[0]
        look = np.full(len(chosen), first) if at_once else first + np.searchsorted(reached, need)
        call = track.calls_before[look]
        self._settle_calls(chosen, call, int(track.call_weight_class[first]))
        result = sums.estimate[cell]
        self.firings[chosen] += 1
        self.count[chosen], self.estimate[chosen], self.cell[chosen], self.look[chosen] = count, result, cell, look
        images: Any = 0
        if sums.has_images:
            result, images = result + sums.image_tokens[cell], -sums.image_count[cell]
        for more, (by_result, by_image) in zip(self.more, track.weights, strict=True):
            now = np.rint(by_result * result + by_image * images).astype(np.int64)
            more[chosen] = now
            if track.lowest_sizes[track.calls_before[first]] + now.min() < 0:
                self.is_known[chosen] &= track.lowest_sizes[call] + now >= 0
        if track.has_unpredictable:
            self.is_known[chosen] &= ~track.is_unpredictable[look]
        self.fingerprint[chosen] += sums.fingerprint[cell] * track.hash_salts[look]
        return chosen

    def _settle_all_calls(self, until: int) -> None:
        """Take the calls up to *until* into the totals of all settings."""
        self._settle_calls(slice(None), np.full(len(self.keep), until), self.weight_class)

    def _settle_calls(self, chosen: Ints | slice, until: Ints, by_call: int) -> None:
        """Take the calls up to *until* into the totals, as the context now stands."""
        begin = self.settled_until[chosen]
        some = (until > begin).nonzero()[0]
        if not len(some):
            return
        if len(some) < len(begin):
            chosen, begin, until = np.arange(len(self.keep))[chosen][some], begin[some], until[some]
        self._add_calls(chosen, begin, until, by_call)
        self.settled_until[chosen] = until

    def _add_calls(self, chosen: Ints | slice, begin: Ints, end: Ints, by_call: int) -> None:
        """Take the calls from *begin* up to *end*, at least one for each setting."""
        more = self.more[by_call][chosen]
        self.extra[chosen] += more * (end - begin)
        if begin[0] == begin[-1] and end[0] == end[-1] and (begin == begin[0]).all() and (end == end[0]).all():
            calls = slice(int(begin[0]), int(end[0]))
            self.peak[chosen] = np.maximum(self.peak[chosen], self.track.recorded_sizes[calls].max() + more)
            self.overflow_counter.add_shared(chosen, calls, -more)
            return
        self.peak[chosen] = np.maximum(self.peak[chosen], self.range_max.find_max(begin, end) + more)
        if self.excess.largest + more.max() <= 0:
            return
        over = self.excess.find_max(begin, end) + more > 0
        chosen = np.arange(len(self.keep))[chosen]
        if over.any():
            throughout = over & (self.room.find_max(begin, end) - more < 0)
            self.overflow_counter.counts[chosen[throughout]] += (end - begin)[throughout]
            over &= ~throughout
        self.overflow_counter.add(chosen[over], begin[over], end[over], -more[over])


def _build_result_sums(segment: _Segment, mins: Ints) -> _ResultSums:
    wide, tall = (
        len(mins),
        int(max(segment.turns_at_checkpoint.max(initial=0), segment.turn_of_result.max(initial=0))) + 2,
    )
    below = wide - np.searchsorted(mins, segment.tokens)  # the columns are those of the largest minimum first
    some = below < wide
    cell = (segment.turn_of_result[some] + 1) * wide + below[some]
    tokens, image = segment.tokens[some], segment.has_image[some]

    def table(values: Any, kind: Any = np.int64) -> Any:
        found = np.zeros(tall * wide, kind)
        np.add.at(found, cell, values)
        shaped = found.reshape(tall, wide)
        shaped.cumsum(axis=1, out=shaped).cumsum(axis=0, out=shaped)
        return found

    results, sizes, has_images = table(1), table(tokens), bool(image.any())
    return _ResultSums(
        wide,
        results,
        CLEARED_TOKENS * results - sizes,
        sizes if segment.original_tokens is segment.tokens else table(segment.original_tokens[some]),
        table(_hash_numbers(segment.result_rows[some].astype(np.uint64)), np.uint64),
        table(image.astype(np.int64)) if has_images else results,
        table(np.where(image, tokens, 0)) if has_images else results,
        has_images,
    )


def _hash_numbers(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Numbers that look like random ones (splitmix64)."""
    with np.errstate(over="ignore"):
        found = numbers + np.uint64(0x9E3779B97F4A7C15)
        found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return found ^ (found >> np.uint64(31))


class _RangeMax:
    """The largest of numbers between two places, for many pairs of places at once (a sparse table)."""

    def __init__(self, numbers: Ints) -> None:
        count = len(numbers)
        levels = [numbers]  # the largest of 1, 2, 4, … numbers from each place on
        while (half := 1 << (len(levels) - 1)) * 2 <= count:
            last = levels[-1].copy()
            np.maximum(levels[-1][:-half], levels[-1][half:], out=last[:-half])
            levels.append(last)
        self._table, self._numbers = np.concatenate(levels), numbers
        self._decreases = np.cumsum(np.diff(numbers, prepend=numbers[:1]) < 0)
        self.largest = int(numbers.max(initial=0))
        # By length, where in the table the first and the last numbers of a stretch are: past its begin, and its end.
        self._first, self._last = np.zeros(count + 1, np.int64), np.full(count + 1, -1)
        for level in range(1, len(levels)):
            self._first[1 << level :] = level * count
            self._last[1 << level :] = level * count - (1 << level)

    def find_max(self, begin: Ints, end: Ints) -> Ints:
        """The largest from *begin* up to *end*, which are at least one apart."""
        # Contexts mostly grow, and then the last number is the largest.
        if len(begin) and self._decreases[begin.min()] == self._decreases[end.max() - 1]:
            last: Ints = self._numbers[end - 1]
            return last
        length = end - begin
        found: Ints = np.maximum(self._table[self._first[length] + begin], self._table[self._last[length] + end])
        return found


class _OverflowCounter:
    """By setting, how many numbers in stretches of a list are larger than a limit (a merge sort tree)."""

    def __init__(self, numbers: Ints, count: int) -> None:
        self.counts = np.zeros(count, np.int64)
        self._numbers, self._pending, self._pending_size = numbers, list[tuple[Ints, Ints, Ints, Ints]](), 0

    def add(self, chosen: Ints, begin: Ints, end: Ints, limit: Ints) -> None:
        """Count the numbers from *begin* up to *end* that are larger than *limit*, for each of these settings."""
        if len(chosen):
            self._pending.append((chosen, begin, end, limit))
            self._pending_size += len(chosen)
            if self._pending_size > _MAX_PENDING_PIECES:
                self.count_pending()

    def add_shared(self, chosen: Ints | slice, places: slice, limit: Ints) -> None:
        """The same for one stretch."""
        numbers = np.sort(self._numbers[places])
        if numbers[-1] > limit.min():
            self.counts[chosen] += len(numbers) - np.searchsorted(numbers, limit, side="right")

    def count_pending(self) -> Ints:
        """What was counted so far."""
        if self._pending:
            chosen, begin, end, limit = (np.concatenate(each) for each in zip(*self._pending, strict=True))
            self._pending, self._pending_size = [], 0
            np.add.at(self.counts, chosen, self._count_larger(begin, end, limit))
        return self.counts

    def _count_larger(self, begin: Ints, end: Ints, limit: Ints) -> Ints:
        found = np.zeros(len(begin), np.int64)
        length = 1 << max(len(self._numbers) - 1, 0).bit_length()
        low = int(self._numbers.min())
        span = int(self._numbers.max()) - low + 2
        filled = np.zeros(length, np.int64)
        filled[: len(self._numbers)] = self._numbers - low + 1
        limit = np.clip(limit - low + 1, 0, span)
        wide = 1
        while len(begin) and wide <= length:
            blocks = np.sort(filled.reshape(-1, wide), axis=1) + np.arange(length // wide)[:, None] * (span + 1)
            keys = blocks.ravel()

            def larger(block: Ints, limits: Ints, keys: Ints = keys, wide: int = wide) -> Ints:
                return (block + 1) * wide - np.searchsorted(keys, block * (span + 1) + limits, side="right")

            for odd, at in ((begin & 1 == 1, begin), (end & 1 == 1, end - 1)):
                use = odd & (begin < end)
                found[use] += larger(at[use], limit[use])
            begin, end = (begin + 1) >> 1, end >> 1
            wide *= 2
        return found
