"""Fit the ratio of recorded to estimated tokens, by kind of content, to the growth of the context between requests."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate, islice
from math import inf
from statistics import fmean, median
from typing import NamedTuple

from context_tui.session.blocks import BYTES_PER_TOKEN
from context_tui.session.facts import Facts, epoch_at, find_last_rewrite, is_reply, prompt_at
from context_tui.session.values import BlockFlag, Kind, MessageFlag, Role

MAX_SCALE = 2.0
"""Maximum ratio between a tokenizer's counts and the typical ones, in either direction."""
MAX_UNRECORDED = 1_000.0
"""Maximum unrecorded tokens of an interval; larger amounts are exceptional events."""
MIN_SIDE_RETURN = 0.95
"""Smallest size after a side request, as a share of the size before it: a size falls a little at the end of a turn."""
MIN_INTERVALS = 4
"""Minimum number of intervals for a fit; if there are few of them, the prior dominates."""
MAX_INTERVALS = 300
"""Maximum number of fitted intervals; the newest are used."""
MAX_CACHED_INTERVALS = 2 * MAX_INTERVALS
"""Maximum number of intervals that are kept for the next fit."""
MAX_FIT_ERROR = 0.25
"""Maximum median error of a fit, as a share of the median growth."""
MAX_ERROR_RATIO = 1.2
"""Maximum ratio of the errors of a fit with and without the limit that the first request sets to texts."""

_TEXT, _THINKING, _SIGNATURE, _CALL, _RESULT, _EACH = range(6)
_PRIOR = (1.15, 0.3, 0.8, 1.25, 1.25, 60.0)
_WEIGHT = (250_000.0, 250_000.0, 250_000.0, 250_000.0, 250_000.0, 20.0)
"""Weight of the prior, in squared estimated tokens."""


@dataclass(frozen=True)
class Factors:
    """Recorded tokens per estimated token, for each kind of content.

    Attributes:
        signature: factor for the signatures of thinking blocks.
        request_overhead, image: tokens per request, and tokens per image or None if unknown.
        intervals, error: number of fitted intervals, and their median error in tokens.
        unrecorded: average tokens per request that runtimes inject without recording them.
    """

    text: float
    thinking: float
    signature: float
    call: float
    result: float
    request_overhead: float
    image: float | None
    intervals: int
    error: float
    unrecorded: float = 0.0

    def count_tokens(self, content: ContentTokens) -> float:
        """Predict the recorded tokens of content, excluding its images."""
        values = (self.text, self.thinking, self.signature, self.call, self.result)
        return sum(value * tokens for value, tokens in zip(values, content.tokens, strict=True))

    def get_factor(self, kind: int) -> float:
        """Return the factor for a kind of block, or 0 for the activity of hosted tools and unknown blocks."""
        return 0.0 if kind == Kind.OTHER else float(getattr(self, _FACTOR_NAMES.get(kind, "text")))

    def count_block_tokens(self, facts: Facts, row: int) -> float | None:
        """Predict the recorded tokens of a block, or return None for an image if the size of images is unknown."""
        kind, size = facts.kind[row], facts.size[row]
        if kind == Kind.IMAGE or facts.block_flags[row] & BlockFlag.HAS_IMAGE:
            return self.image
        if kind == Kind.THINKING:
            text = facts.text_bytes[row]
            return text // BYTES_PER_TOKEN * self.thinking + (size - text) // BYTES_PER_TOKEN * self.signature
        return size // BYTES_PER_TOKEN * self.get_factor(kind)


@dataclass(frozen=True)
class SizeBasis:
    """The size of a compacted copy, derived from the original recording.

    Attributes:
        tokens: size of the next request with all blocks of the copy.
        fixed: the part of ``tokens`` that no policy removes, such as the system prompt and the tools.
        factors: factors for the recording's model.
        error, size_error: errors of the recording's measured tokens and of a predicted request's size, as shares.
        has_prompt: whether the size of the system prompt and the tools is known.
        is_calibrated: whether the recording calibrated the factors.
        put_back: the part of ``tokens`` that the agent puts back after a compaction, such as files.
        blocks: number of blocks in the copy; an agent that resumes it appends further ones.
        model: name of the recording's model, which the messages of a copy may not tell; empty if unknown.
    """

    tokens: int
    fixed: int
    factors: Factors
    error: float
    size_error: float
    has_prompt: bool = True
    is_calibrated: bool = True
    put_back: int = 0
    blocks: int = 0
    model: str = ""


def is_recorded_reply(facts: Facts, message: int) -> bool:
    """Return whether *message* is the reply to a request with recorded usage, or any reply in a compacted copy."""
    if facts.size_basis is None:
        return is_reply(facts, message)
    return facts.role[message] == Role.ASSISTANT and facts.first_block[message] < facts.size_basis.blocks


_FACTOR_NAMES: dict[int, str] = {Kind.THINKING: "thinking", Kind.TOOL_USE: "call", Kind.TOOL_RESULT: "result"}


@dataclass(slots=True)
class ContentTokens:
    """Estimated tokens of messages (text, thinking, signatures, calls, results), and numbers of images and turn starts.

    A result that contains an image counts only as an image, as estimators would treat its base64 data as text.
    """

    tokens: list[int]
    images: int = 0
    turns: int = 0


PRIOR = Factors(*_PRIOR, image=None, intervals=0, error=0.0)
"""Typical factors, for sessions with too little data."""


def count_blocks_before(facts: Facts, message: int) -> int:
    """Return the number of blocks recorded before the first block of *message*."""
    first = facts.first_block[message]
    return first if first >= 0 else len(facts.kind)


def estimate_content(facts: Facts, messages: Iterable[int], end_block: int | None = None) -> ContentTokens:
    """Estimate the tokens in messages as recorded, up to but not including block row *end_block* if given."""
    content = ContentTokens([0] * 5)
    tokens, size, kinds, flags = content.tokens, facts.size, facts.kind, facts.block_flags
    for message in messages:
        if facts.flags[message] & MessageFlag.NOT_SENT:
            continue
        content.turns += bool(facts.flags[message] & MessageFlag.TURN_START)
        for block in facts.blocks_of(message):
            kind = kinds[block]
            if end_block is not None and block >= end_block:
                continue
            if kind == Kind.IMAGE or flags[block] & BlockFlag.HAS_IMAGE:
                content.images += 1
            elif kind == Kind.THINKING:
                tokens[_THINKING] += facts.text_bytes[block] // BYTES_PER_TOKEN
                tokens[_SIGNATURE] += (size[block] - facts.text_bytes[block]) // BYTES_PER_TOKEN
            elif kind in _PLACES:
                tokens[_PLACES[kind]] += size[block] // BYTES_PER_TOKEN
    return content


_PLACES: dict[int, int] = {Kind.TOOL_RESULT: _RESULT, Kind.TOOL_USE: _CALL, Kind.TEXT: _TEXT}


class Interval(NamedTuple):
    """The content appended between request ``row`` and the one before, and the recorded growth in tokens.

    ``reply`` is the part of the content that replied to the previous request; ``output`` are its recorded tokens, or 0.
    """

    row: int
    content: ContentTokens
    growth: int
    reply: ContentTokens
    output: int


def find_intervals(facts: Facts, end: int) -> list[Interval]:
    """Return the newest intervals before request *end* in which content was only appended.

    All have the model of the request before *end*. The drops up to *end* must have been searched.
    """
    model = facts.request_model[end - 1] if end else -1
    facts.drop_search.index_requests(facts)
    rows = facts.drop_search.rows_by_model.get(model, array("i"))
    before_end = (rows[index] for index in reversed(range(bisect_left(rows, end))))
    intervals = (interval for row in before_end if (interval := interval_at(facts, row)) is not None)
    return list(islice(intervals, MAX_INTERVALS))


def interval_at(facts: Facts, row: int) -> Interval | None:
    """Return the interval between request *row* and the one before, or None unless it only appends content.

    The drops up to this request must have been searched.
    """
    intervals: dict[int, Interval | None] = facts.drop_search.intervals
    with suppress(KeyError):  # another thread may empty the cache
        return intervals[row]
    interval, before, after = None, facts.request_message[row - 1], facts.request_message[row]
    index = bisect_left(facts.drops, after, key=lambda drop: drop.message)
    is_drop = index < len(facts.drops) and facts.drops[index].message == after
    excluded = is_drop or is_other_conversation(facts, row) or is_other_conversation(facts, row - 1)
    if not excluded and before >= epoch_at(facts, after).start and find_last_rewrite(facts, after) <= before:
        growth = facts.requests[row].context - facts.requests[row - 1].context
        ends, end_block = (after, before + 1), count_blocks_before(facts, after)
        content, reply = (estimate_content(facts, range(before, end), end_block) for end in ends)
        interval = Interval(row, content, growth, reply, count_output_tokens(facts, row - 1))
    if len(intervals) >= MAX_CACHED_INTERVALS:
        intervals.clear()
    intervals[row] = interval
    return interval


def count_output_tokens(facts: Facts, row: int) -> int:
    """Return the recorded tokens of the reply to request *row*, or 0 if the file has none or a placeholder."""
    usage = facts.requests[row]
    return usage.output if usage.output_trusted else 0


def is_other_conversation(facts: Facts, row: int) -> bool:
    """Return whether request *row* is a side request: less than half as large as its neighbours, which are alike."""
    if not facts.has_side_requests or not 0 < row < len(facts.requests) - 1:
        return False
    before, size, after = (facts.requests[neighbour].context for neighbour in range(row - 1, row + 2))
    start = epoch_at(facts, facts.request_message[row + 1]).start
    return size * 2 < before and after >= MIN_SIDE_RETURN * before and facts.request_message[row - 1] >= start


def fit_factors(facts: Facts, end: int) -> Factors | None:
    """Return factors fitted to the requests before *end*, or None if these are too few or too inconsistent."""
    factors_by_request: dict[int, Factors | None] = facts.drop_search.factors
    if end not in factors_by_request:
        factors_by_request[end] = _compute_factors(facts, end)
    return factors_by_request[end]


def fit_earlier_factors(facts: Facts, row: int) -> Factors | None:
    """Return factors fitted to the requests before *row* or, in a long session, before a slightly earlier request.

    This keeps the number of fits in a session small.
    """
    step = 1 if row < 64 else 32 if row < 512 else 128
    end = row - row % step
    if facts.request_model[end - 1] != facts.request_model[row - 1]:
        end = row
    return fit_factors(facts, end)


def fit_scale(facts: Facts, end: int) -> Factors | None:
    """Return the typical factors times one number, fitted to the requests before *end*, or None if these are too few.

    Recorded sizes that do not tell the kinds of content apart, such as those with hidden reasoning, still give this.
    """
    if (growths := _collect_growths(facts, end)) is None:
        return None
    text, thinking, signature, call, result, overhead = _scale_prior(*growths)
    return Factors(text, thinking, signature, call, result, overhead, None, len(growths[0]), 0.0)


def _collect_growths(facts: Facts, end: int) -> tuple[list[list[float]], list[float]] | None:
    """Return the estimated tokens and the growth of each interval within a turn, or None if there are too few."""
    intervals = (interval for interval in find_intervals(facts, end) if not interval.content.turns)
    clean = [interval for interval in intervals if not interval.content.images]
    if len(clean) < MIN_INTERVALS:
        return None
    return [[*map(float, each.content.tokens), 1.0] for each in clean], [float(each.growth) for each in clean]


def _compute_factors(facts: Facts, end: int) -> Factors | None:
    if (collected := _collect_growths(facts, end)) is None:
        return None
    rows, growths = collected
    prior = _scale_prior(rows, growths)
    values, residuals = _regress(rows, growths, prior)
    error = median(map(abs, residuals))
    max_text = find_max_text_factor(facts, facts.request_model[end - 1])
    if values[_TEXT] > max_text:
        limited_values, limited_residuals = _regress(rows, growths, prior, max_text)
        limited_error = median(map(abs, limited_residuals))
        if limited_error <= MAX_ERROR_RATIO * error:  # otherwise, texts are results with more tokens per byte
            values, residuals, error = limited_values, limited_residuals, limited_error
    if error > MAX_FIT_ERROR * max(median(map(abs, growths)), 100):
        return None
    unrecorded = max(fmean(max(-MAX_UNRECORDED, min(tokens, MAX_UNRECORDED)) for tokens in residuals), 0.0)
    text, thinking, signature, call, result, overhead = values
    factors = Factors(text, thinking, signature, call, result, overhead, None, len(rows), error, unrecorded)
    with_images = [interval for interval in find_intervals(facts, end) if interval.content.images]
    with_images = [interval for interval in with_images if not interval.content.turns] or with_images
    image_sizes = [
        (i.growth - factors.count_tokens(i.content) - factors.request_overhead) / i.content.images for i in with_images
    ]
    return replace(factors, image=max(median(image_sizes), 0.0) if image_sizes else None)


def find_max_text_factor(facts: Facts, model: int) -> float:
    """Return the largest factor of texts that the size of the model's first request allows, or infinity if unknown."""
    if facts.request_model[0] != model or facts.holds_requests or not facts.requests[0].context:
        return inf
    content = estimate_content(facts, range(facts.request_message[0]))
    prompt = prompt_at(facts, facts.request_message[0])
    size = sum(part.size for part in (*prompt.system, *prompt.tools)) / BYTES_PER_TOKEN
    tokens = sum(content.tokens) + size
    return facts.requests[0].context / tokens if tokens else inf


def _scale_prior(rows: Sequence[Sequence[float]], growths: Sequence[float]) -> list[float]:
    """Return the typical factors scaled to the tokenizer of these intervals, with the request overhead unchanged."""
    expected = [sum(value * x for value, x in zip(_PRIOR, row, strict=True)) for row in rows]
    ratios = sorted((growth / tokens, tokens) for growth, tokens in zip(growths, expected, strict=True))
    sums = list(accumulate(tokens for _, tokens in ratios))
    scale = ratios[bisect_left(sums, sums[-1] / 2)][0]  # median weighted by tokens
    scale = min(max(scale, 1 / MAX_SCALE), MAX_SCALE)
    return [value * scale for value in _PRIOR[:-1]] + [_PRIOR[-1]]


def _regress(
    rows: Sequence[Sequence[float]], growths: Sequence[float], prior: Sequence[float], max_text: float = inf
) -> tuple[list[float], list[float]]:
    """Fit non-negative factors by iteratively reweighted least squares; return them and the residuals."""
    weights = [1.0] * len(rows)
    values, residuals = list(prior), list(growths)
    for _ in range(5):
        size = range(len(_PRIOR))
        matrix = [[_WEIGHT[i] if i == j else 0.0 for j in size] for i in size]
        constants = [weight * value for weight, value in zip(_WEIGHT, prior, strict=True)]
        for row, growth, weight in zip(rows, growths, weights, strict=True):
            if weight:
                for i in size:
                    if row[i]:
                        scaled = weight * row[i]
                        constants[i] += scaled * growth
                        line = matrix[i]
                        for j in size:
                            line[j] += scaled * row[j]
        values = _solve_within_limits(matrix, constants, values, max_text)
        expected = (sum(value * x for value, x in zip(values, row, strict=True)) for row in rows)
        residuals = [growth - tokens for growth, tokens in zip(growths, expected, strict=True)]
        scale = max(40.0, 1.5 * median(map(abs, residuals)))
        weights = [0.0 if abs(r) > 10 * scale else min(1.0, scale / abs(r)) if r else 1.0 for r in residuals]
    return values, residuals


def _solve_within_limits(
    matrix: list[list[float]], constants: list[float], start: list[float], max_text: float
) -> list[float]:
    """Solve non-negative least squares by coordinate descent, with at most *max_text* as the factor of texts."""
    values = list(start)
    for _ in range(500):
        largest_change = 0.0
        for i, line in enumerate(matrix):
            remainder = constants[i] - sum(line[j] * values[j] for j in range(len(values)) if j != i)
            new = min(max(0.0, remainder / line[i]), max_text if i == _TEXT else inf)
            largest_change = max(largest_change, abs(new - values[i]))
            values[i] = new
        if largest_change < 1e-6:
            break
    return values
