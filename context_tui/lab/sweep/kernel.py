"""defect-microcompact under thousands of settings at once: the totals of each, equal to those of its replay.

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

from context_tui.lab.replay.amounts import IMAGES, NOTHING, RESULT
from context_tui.lab.replay.history import History
from context_tui.lab.replay.recording import Recording
from context_tui.lab.replay.result import Recorded
from context_tui.lab.replay.walk import baseline
from context_tui.policies.defect import UNKNOWN_WINDOW
from context_tui.policies.defect_microcompact import CLEARED_TOKENS, DefectMicrocompactParams, is_cleared
from context_tui.session.context import Context
from context_tui.session.values import BlockFlag
from context_tui.tokens.context_index import index_context
from context_tui.tokens.estimators import bytes4

Ints = NDArray[np.int64]
MOST_CELLS = 1_000_000
"""Cells of a table of sums, by turn and minimum; settings with more different minimums are taken in parts."""
_LATER = 1 << 20
"""Pieces with calls over the window that are counted together."""


class Outcomes(NamedTuple):
    """By setting: the totals of a replay, in tokens; blocks that were cleared, and their tokens; and what is ``alike``.

    Where ``known`` is false the numbers mean nothing. Settings with the same number in ``alike`` clear the same results
    at the same calls.
    """

    known: NDArray[np.bool_]
    sent: Ints
    peak: Ints
    overflows: Ints
    firings: Ints
    dropped: Ints
    tokens_dropped: Ints
    alike: NDArray[np.uint64]


def outcomes(
    recording: Recording, settings: Sequence[DefectMicrocompactParams], recorded: Recorded = "keep"
) -> Outcomes:
    """What every setting comes to along a recording.

    Takes time linear in looks and in settings, and besides in the times that a setting clears.
    """
    track = _track(recording, recorded)
    keep = np.array([each.keep_recent_turns for each in settings], np.int64)
    minimum = np.array([each.min_clear_tokens for each in settings], np.int64)
    ratio = np.array([each.microcompact_ratio for each in settings], np.float64)
    mins = np.unique(minimum)
    wide = max(MOST_CELLS // (track.turns + 2), 1)
    found = _empty(len(settings))
    for first in range(0, len(mins), wide):
        part = mins[first : first + wide]
        chosen = np.flatnonzero((minimum >= part[0]) & (minimum <= part[-1]))
        done = _Run(track, keep[chosen], minimum[chosen], ratio[chosen]).run()
        for whole, some in zip(found, done, strict=True):
            whole[chosen] = some
    return found


def _track(recording: Recording, recorded: Recorded) -> _Track:
    key = _Track, recorded
    if key not in recording.memo:
        recording.memo[key] = _Track(recording, recorded)
    found: _Track = recording.memo[key]
    return found


def _empty(count: int) -> Outcomes:
    sent, peak, overflows, firings, dropped, tokens = (np.zeros(count, np.int64) for _ in range(6))
    alike = np.zeros(count, np.uint64)
    return Outcomes(np.ones(count, np.bool_), sent, peak, overflows, firings, dropped, tokens, alike)


class _Segment(NamedTuple):
    """Looks between two events of the recording, from ``begin`` up to ``end``, and the results of its context.

    ``turn`` is how many turns have started before or at each result, ``estimate`` what to add to the sums of
    messages. ``anew`` says that it is another context than before; ``floor`` the message before which reported sizes
    are forgotten.
    """

    begin: int
    end: int
    anew: bool
    floor: int
    estimate: int
    turns: Ints
    block: Ints
    turn: Ints
    tokens: Ints
    whole: Ints
    image: NDArray[np.bool_]


class _Track:
    """What the recording has at every look at which defect looks, whatever the setting.

    Attributes:
        known: whether its contexts are as recorded, so that sizes can be told.
        calls: by look, how many calls were made before it; ``was`` by call the tokens of its context, and ``window``.
        believed: by look, what the runtime believes as long as nothing was cleared; ``reported`` whether that goes by a
            size that was reported, and ``reply`` the message of the reply that it was reported with, -1 where none was.
        windows: by look, the window as defect sees it.
        weights: those of each class; ``by_call`` and ``by_reply`` the class of the call at a look, and of the reply.
        turns: the most turns of a context.
        blind: by look, whether a setting that clears there would in the next turn go by another size than the
            recording: by an estimate, until one is reported.
        lowest: by call, the least tokens of a call up to the next event.
        salt: by look, an odd number that looks like a random one.
    """

    def __init__(self, recording: Recording, recorded: Recorded) -> None:
        self.recording = recording
        looks = [message for message, phases in recording.looks if "before_call" in phases]
        self.looks = np.array(looks, np.int64)
        self.salt = _mixed(np.arange(len(looks), dtype=np.uint64)) | np.uint64(1)
        made = np.array([call.message for call in recording.calls], np.int64)
        self.calls = np.searchsorted(made, self.looks)
        self.was = np.array(baseline(recording, recorded).sizes, np.int64)
        self.window = np.array([each.tokens for each in recording.windows], np.int64)
        history = History(recording, recorded)
        sums = np.array(history.sums, np.int64)
        self.known, self.recorded = True, recorded
        self.segments = list(self._segments(history))
        self.turns = max((int(each.turns.max(initial=0)) for each in self.segments), default=0)
        self._believe(made, sums)
        self._weigh(made)
        at = [recording.window_at(look, call) for look, call, _ in self._at()]
        self.windows = np.array([each.tokens if each.is_known else UNKNOWN_WINDOW for each in at], np.int64)
        self.blind, self.lowest = np.zeros(len(looks), np.bool_), np.zeros(len(self.was) + 1, np.int64)
        for each in self.segments:
            self._foresee(each)
        self.has_blind = bool(self.blind.any())

    def _at(self) -> Iterator[tuple[int, int, bool]]:
        calls = self.recording.calls
        for look, call in zip(self.looks.tolist(), self.calls.tolist(), strict=True):
            yield look, call, call < len(calls) and calls[call].message == look

    def _segments(self, history: History) -> Iterator[_Segment]:
        looks, events, begin = self.looks.tolist(), iter(self.recording.events), 0
        event = next(events, None)
        while begin < len(looks):
            anew = not begin
            while event is not None and event.at <= looks[begin]:
                history.take(event)
                anew |= event.order is not None and (self.recorded == "keep" or not event.compaction)
                event = next(events, None)
            self.known &= self.recorded == "ignore" or history.more == NOTHING
            before = len(history.order)
            sums_at = history.estimate - history.sums[history.at]
            end = len(looks) if event is None else int(np.searchsorted(self.looks, event.at))
            history.grow(looks[end - 1])
            yield self._segment(history, begin, end, anew, sums_at, before)
            begin = end

    def _segment(self, history: History, begin: int, end: int, anew: bool, sums_at: int, before: int) -> _Segment:
        order, replaced = tuple(history.order), history.replaced
        context = Context(self.recording.facts, history.at, order, replacements=dict(replaced))
        sums, facts = index_context(context), self.recording.facts
        left = np.array([not is_cleared(context, row) for row in sums.results.block], np.bool_)
        columns = (sums.results.block, sums.results.tokens, sums.results.position)
        block, tokens, at = (np.array(each, np.int64)[left] for each in columns)
        starts = np.array(sums.turn_starts, np.int64)
        appended = np.array(order[before:], np.int64)
        position = before + np.searchsorted(appended, self.looks[begin:end])
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

    def _believe(self, made: Ints, sums: Ints) -> None:
        recorded = np.array([size is not None for size in self.recording.recorded], np.bool_)
        last = np.maximum.accumulate(np.where(recorded, np.arange(len(made)), -1)) if len(made) else made
        self.report = np.where(self.calls > 0, last[self.calls - 1], -1) if len(made) else self.calls
        self.reply = np.where(self.report >= 0, made[self.report], -1) if len(made) else self.report
        floor, estimate = np.zeros_like(self.looks), np.zeros_like(self.looks)
        for each in self.segments:
            floor[each.begin : each.end], estimate[each.begin : each.end] = each.floor, each.estimate
        self.reported = (self.reply >= floor) & (self.reply >= 0)
        guess = estimate + sums[self.looks]
        told = self.was[self.report] + sums[self.looks] - sums[self.reply] if len(made) else guess
        self.believed = np.where(self.reported, told, guess)

    def _foresee(self, segment: _Segment) -> None:
        """What there is to come in a segment."""
        rows = slice(segment.begin, segment.end)
        last = np.minimum(np.searchsorted(self.reply, self.looks[rows]), segment.end) - 1
        self.blind[rows] = self.reported[last] & (segment.turns[last - segment.begin] > segment.turns)
        end = int(self.calls[segment.end]) if segment.end < len(self.looks) else len(self.was)
        calls = slice(int(self.calls[segment.begin]), end)
        self.lowest[calls] = np.minimum.accumulate(self.was[calls][::-1])[::-1]

    def _weigh(self, made: Ints) -> None:
        recording, classes = self.recording, dict[Any, int]()
        by_call = np.array(
            [classes.setdefault(recording.weights_at(call.request), len(classes)) for call in recording.calls], np.int64
        )
        self.weights = [(each[RESULT], each[IMAGES]) for each in classes]
        if len(made):
            self.by_call = by_call[np.minimum(self.calls, len(made) - 1)]
            self.by_reply = np.where(self.reported, by_call[self.report], -1)
        else:
            self.by_call = self.by_reply = self.calls


class _Sums(NamedTuple):
    """Over the results of the turns up to each, larger than each minimum: flat tables, a row for each turn.

    The first row is of nothing, the one below it of what stands before the first turn.
    """

    wide: int
    results: Ints
    estimate: Ints
    whole: Ints
    mark: NDArray[np.uint64]
    images: Ints
    imaged: Ints
    has_images: bool


class _Run:
    """One walk along a track with all settings."""

    def __init__(self, track: _Track, keep: Ints, minimum: Ints, ratio: NDArray[np.float64]) -> None:
        self.track, self.keep, self.minimum, self.ratio = track, keep, minimum, ratio
        self.mins, column = np.unique(minimum, return_inverse=True)
        self.cells = len(self.mins) - 1 - column - (keep - 1) * len(self.mins)  # of the sums where no turn has begun
        count = len(keep)
        self.known = np.full(count, track.known, np.bool_)
        self.extra, self.peak, self.firings, self.dropped, self.gone = (np.zeros(count, np.int64) for _ in range(5))
        self.alike = np.zeros(count, np.uint64)
        self.since = np.zeros(count, np.int64)
        # Of the context as it stands: results that were cleared, and what it has more by it.
        self.count, self.estimate, self.whole = (np.zeros(count, np.int64) for _ in range(3))
        self.cell, self.look = (np.full(count, -1, np.int64) for _ in range(2))  # where it last cleared, and its sums
        self.upto, self.fired = (np.full(count, -1, np.int64) for _ in range(2))  # the turns, and the message of that
        self.more = [np.zeros(count, np.int64) for _ in track.weights]  # tokens of calls, by class of weights
        self.most = _Most(track.was)
        self.excess, self.room = _Most(track.was - track.window), _Most(track.window - track.was)
        self.over = _Over(track.was - track.window, count)

    def run(self) -> Outcomes:
        track = self.track
        if len(track.was) and track.known:
            before: _Segment | None = None
            for segment in track.segments:
                self._enter(segment, before)
                self._walk(segment)
                self._leave()
                before = segment
            self._count()
            self._settle_all(len(track.was))
        sent = int(track.was.sum()) + self.extra
        return Outcomes(
            self.known, sent, self.peak, self.over.counted(), self.firings, self.dropped, self.gone, self.alike
        )

    by_call = 0

    def _enter(self, segment: _Segment, before: _Segment | None) -> None:
        """What the recording did to its context between two segments."""
        if before is not None:
            track = self.track
            self._settle_all(int(track.calls[segment.begin]))
            self._forget_unknown(segment, before)
            if segment.anew:
                self._count()
                for each in (self.count, self.estimate, self.whole, *self.more):
                    each[:] = 0
                self.upto[:] = self.fired[:] = -1
            elif track.reported[segment.begin]:
                self.known &= self.fired <= track.reply[segment.begin]
            for more in self.more:  # calibration may take a size below nothing
                self.known &= track.lowest[track.calls[segment.begin]] + more >= 0
        self.sums = _sums(segment, self.mins)

    def _leave(self) -> None:
        """Take from the sums of a segment what is known by the last cell only."""
        cleared = np.flatnonzero(self.cell >= 0)
        cell = self.cell[cleared]
        self.whole[cleared], self.upto[cleared] = self.sums.whole[cell], cell // self.sums.wide - 1
        self.fired[cleared] = self.track.looks[self.look[cleared]]
        self.cell[:] = -1

    def _count(self) -> None:
        """Take what was cleared of a context that ends here into the totals."""
        self.dropped += self.count
        self.gone += self.whole

    def _forget_unknown(self, segment: _Segment, before: _Segment) -> None:
        """Settings that have cleared what the recording now keeps or clears itself."""
        same = np.isin(before.block, segment.block, kind="table")
        if not segment.anew:
            tokens = dict(zip(segment.block.tolist(), segment.tokens.tolist(), strict=True))
            left = [
                tokens.get(row) == size for row, size in zip(before.block.tolist(), before.tokens.tolist(), strict=True)
            ]
            same = ~np.array(left, np.bool_)
        for turn, size in set(zip(before.turn[same].tolist(), before.tokens[same].tolist(), strict=True)):
            self.known &= ~((self.upto >= turn) & (self.minimum < size))
        if segment.anew and self.track.reported[segment.begin]:
            self.known &= self.count == 0

    def _walk(self, segment: _Segment) -> None:
        track, rows = self.track, slice(segment.begin, segment.end)
        keys = (segment.turns, track.windows[rows], track.by_reply[rows], track.by_call[rows])
        changes = np.zeros(segment.end - segment.begin, np.bool_)
        for key in keys:
            changes[1:] |= key[1:] != key[:-1]
        ends = [0, *np.flatnonzero(changes).tolist(), segment.end - segment.begin]
        shown: tuple[int, int] | None = None
        threshold = more = need = np.empty(0, np.int64)
        for first, last in pairwise(ends):
            look = segment.begin + first
            if track.by_call[look] != self.by_call:
                self._settle_all(int(track.calls[look]))
                self.by_call = int(track.by_call[look])
            way = int(track.windows[look]), int(track.by_reply[look])
            if way != shown:
                threshold, shown = (self.ratio * way[0]).astype(np.int64), way
                more = self.estimate if way[1] < 0 else self.more[way[1]]
                need = threshold - more  # what the recording must have, by its own belief, for a setting to fire
            reached = np.maximum.accumulate(track.believed[look : segment.begin + last])
            chosen = (need <= reached[-1]).nonzero()[0]
            if len(chosen):
                chosen = self._clear(segment, chosen, need, reached, look)
                need[chosen] = threshold[chosen] - more[chosen]

    def _clear(self, segment: _Segment, chosen: Ints, need: Ints, reached: Ints, first: int) -> Ints:
        """Clear what can be cleared in a stretch; returns the settings that do."""
        track, sums = self.track, self.sums
        turns = int(segment.turns[first - segment.begin])
        cell = np.maximum(turns * sums.wide + self.cells[chosen], 0)  # in the row of nothing if it keeps all turns
        count = sums.results[cell]
        new = (count > self.count[chosen]).nonzero()[0]
        chosen, cell, count = chosen[new], cell[new], count[new]
        if not len(chosen):
            return chosen
        need = need[chosen]
        at_once = need.max() <= reached[0]
        look = np.full(len(chosen), first) if at_once else first + np.searchsorted(reached, need)
        call = track.calls[look]
        self._settle(chosen, call, int(track.by_call[first]))
        result = sums.estimate[cell]
        self.firings[chosen] += 1
        self.count[chosen], self.estimate[chosen], self.cell[chosen], self.look[chosen] = count, result, cell, look
        images: Any = 0
        if sums.has_images:
            result, images = result + sums.imaged[cell], -sums.images[cell]
        for more, (by_result, by_image) in zip(self.more, track.weights, strict=True):
            now = np.rint(by_result * result + by_image * images).astype(np.int64)
            more[chosen] = now
            if track.lowest[track.calls[first]] + now.min() < 0:
                self.known[chosen] &= track.lowest[call] + now >= 0
        if track.has_blind:
            self.known[chosen] &= ~track.blind[look]
        self.alike[chosen] += sums.mark[cell] * track.salt[look]
        return chosen

    def _settle_all(self, until: int) -> None:
        """Take the calls up to *until* into the totals of all settings."""
        self._settle(slice(None), np.full(len(self.keep), until), self.by_call)

    def _settle(self, chosen: Ints | slice, until: Ints, by_call: int) -> None:
        """Take the calls up to *until* into the totals, as the context now stands."""
        begin = self.since[chosen]
        some = (until > begin).nonzero()[0]
        if not len(some):
            return
        if len(some) < len(begin):
            chosen, begin, until = np.arange(len(self.keep))[chosen][some], begin[some], until[some]
        self._take(chosen, begin, until, by_call)
        self.since[chosen] = until

    def _take(self, chosen: Ints | slice, begin: Ints, end: Ints, by_call: int) -> None:
        """Take the calls from *begin* up to *end*, at least one for each setting."""
        more = self.more[by_call][chosen]
        self.extra[chosen] += more * (end - begin)
        if begin[0] == begin[-1] and end[0] == end[-1] and (begin == begin[0]).all() and (end == end[0]).all():
            calls = slice(int(begin[0]), int(end[0]))
            self.peak[chosen] = np.maximum(self.peak[chosen], self.track.was[calls].max() + more)
            self.over.add_alike(chosen, calls, -more)
            return
        self.peak[chosen] = np.maximum(self.peak[chosen], self.most.between(begin, end) + more)
        if self.excess.largest + more.max() <= 0:
            return
        over = self.excess.between(begin, end) + more > 0
        chosen = np.arange(len(self.keep))[chosen]
        if over.any():
            throughout = over & (self.room.between(begin, end) - more < 0)
            self.over.found[chosen[throughout]] += (end - begin)[throughout]
            over &= ~throughout
        self.over.add(chosen[over], begin[over], end[over], -more[over])


def _sums(segment: _Segment, mins: Ints) -> _Sums:
    wide, tall = len(mins), int(max(segment.turns.max(initial=0), segment.turn.max(initial=0))) + 2
    below = wide - np.searchsorted(mins, segment.tokens)  # the columns are those of the largest minimum first
    some = below < wide
    cell = (segment.turn[some] + 1) * wide + below[some]
    tokens, image = segment.tokens[some], segment.image[some]

    def table(values: Any, kind: Any = np.int64) -> Any:
        found = np.zeros(tall * wide, kind)
        np.add.at(found, cell, values)
        shaped = found.reshape(tall, wide)
        shaped.cumsum(axis=1, out=shaped).cumsum(axis=0, out=shaped)
        return found

    results, sizes, has_images = table(1), table(tokens), bool(image.any())
    return _Sums(
        wide,
        results,
        CLEARED_TOKENS * results - sizes,
        sizes if segment.whole is segment.tokens else table(segment.whole[some]),
        table(_mixed(segment.block[some].astype(np.uint64)), np.uint64),
        table(image.astype(np.int64)) if has_images else results,
        table(np.where(image, tokens, 0)) if has_images else results,
        has_images,
    )


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Numbers that look like random ones (splitmix64)."""
    with np.errstate(over="ignore"):
        found = numbers + np.uint64(0x9E3779B97F4A7C15)
        found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return found ^ (found >> np.uint64(31))


class _Most:
    """The largest of numbers between two places, for many pairs of places at once (a sparse table)."""

    def __init__(self, numbers: Ints) -> None:
        count = len(numbers)
        levels = [numbers]  # the largest of 1, 2, 4, … numbers from each place on
        while (half := 1 << (len(levels) - 1)) * 2 <= count:
            last = levels[-1].copy()
            np.maximum(levels[-1][:-half], levels[-1][half:], out=last[:-half])
            levels.append(last)
        self._table, self._numbers = np.concatenate(levels), numbers
        self._falls = np.cumsum(np.diff(numbers, prepend=numbers[:1]) < 0)
        self.largest = int(numbers.max(initial=0))
        # By length, where in the table the first and the last numbers of a stretch are: past its begin, and its end.
        self._first, self._last = np.zeros(count + 1, np.int64), np.full(count + 1, -1)
        for level in range(1, len(levels)):
            self._first[1 << level :] = level * count
            self._last[1 << level :] = level * count - (1 << level)

    def between(self, begin: Ints, end: Ints) -> Ints:
        """The largest from *begin* up to *end*, which are at least one apart."""
        # Contexts mostly grow, and then the last number is the largest.
        if len(begin) and self._falls[begin.min()] == self._falls[end.max() - 1]:
            last: Ints = self._numbers[end - 1]
            return last
        length = end - begin
        found: Ints = np.maximum(self._table[self._first[length] + begin], self._table[self._last[length] + end])
        return found


class _Over:
    """By setting, how many numbers in stretches of a list are larger than a limit (a merge sort tree)."""

    def __init__(self, numbers: Ints, count: int) -> None:
        self.found = np.zeros(count, np.int64)
        self._numbers, self._asked, self._size = numbers, list[tuple[Ints, Ints, Ints, Ints]](), 0

    def add(self, chosen: Ints, begin: Ints, end: Ints, limit: Ints) -> None:
        """Count the numbers from *begin* up to *end* that are larger than *limit*, for each of these settings."""
        if len(chosen):
            self._asked.append((chosen, begin, end, limit))
            self._size += len(chosen)
            if self._size > _LATER:
                self.counted()

    def add_alike(self, chosen: Ints | slice, places: slice, limit: Ints) -> None:
        """The same for one stretch."""
        numbers = np.sort(self._numbers[places])
        if numbers[-1] > limit.min():
            self.found[chosen] += len(numbers) - np.searchsorted(numbers, limit, side="right")

    def counted(self) -> Ints:
        """What was counted so far."""
        if self._asked:
            chosen, begin, end, limit = (np.concatenate(each) for each in zip(*self._asked, strict=True))
            self._asked, self._size = [], 0
            np.add.at(self.found, chosen, self._count(begin, end, limit))
        return self.found

    def _count(self, begin: Ints, end: Ints, limit: Ints) -> Ints:
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
