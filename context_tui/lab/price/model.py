"""Check of the cache model against the recording: predicted and recorded reads of the recorded calls.

In the available recordings, a file shows six reasons for the loss of a cache: it expired, the context was compacted or
cleared, thinking was dropped, thinking was switched on or off, the model changed, or the provider reports a changed
prompt. Calls with other mispredictions are listed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from context_tui.lab.price.cache import LOOKBACK
from context_tui.lab.price.cache_requests import MISPREDICTION_TOLERANCE, CacheRead, reconstruct_recorded_calls
from context_tui.lab.price.rates import CostUnit, build_rate_table
from context_tui.session.session import Session

SAME_SIZE_TOLERANCE = 16
"""Tokens within which two sizes count as equal."""


@dataclass(frozen=True)
class CacheMisprediction:
    """Call (by its reply) with predicted and recorded tokens read, and a recorded or possible reason (``guess``)."""

    message: int
    predicted: int
    recorded: int
    guess: str


@dataclass(frozen=True)
class PriceModel:
    """Use of the prompt cache by the recorded calls, recorded and predicted.

    Attributes:
        written_recorded, written_predicted: tokens written by all calls; 0 if no writes are recorded.
        error: relative error of the predicted sum of tokens read; None if nothing was read.
        off: sum of the absolute errors of the calls, relative to the tokens read; None if nothing was read.
        broken: number of cache losses, by reason.
        unexplained: calls with an error above ``MISPREDICTION_TOLERANCE`` tokens.
        cost_recorded, cost_predicted: cost of all prompts in ``unit``.
    """

    read_recorded: int
    read_predicted: int
    written_recorded: int
    written_predicted: int
    error: float | None
    off: float | None
    broken: dict[str, int]
    unexplained: tuple[CacheMisprediction, ...]
    cost_recorded: float
    cost_predicted: float
    unit: CostUnit


def build_price_model(session: Session) -> PriceModel:
    """Compare the cache model with the recorded usage of a session."""
    facts, reads = session.facts, reconstruct_recorded_calls(session).reads
    usages = facts.requests[: len(reads)]
    total = sum(read.recorded for read in reads)
    predicted = sum(read.predicted.read for read in reads)
    absolute_error = sum(abs(read.predicted.read - read.recorded) for read in reads)
    written = sum(usage.cache_write_5m + usage.cache_write_1h for usage in usages)
    models = [facts.models[row] if row >= 0 else None for row in facts.request_model[: len(reads)]]
    table = build_rate_table(models, has_write_fee=written > 0)
    rates = [
        table.get_rates(model).select_for_prompt(usage.context) for model, usage in zip(models, usages, strict=True)
    ]
    mispredictions = (
        CacheMisprediction(read.message, read.predicted.read, read.recorded, _guess_misprediction_reason(reads, row))
        for row, read in enumerate(reads)
        if abs(read.predicted.read - read.recorded) > MISPREDICTION_TOLERANCE
    )
    return PriceModel(
        total,
        predicted,
        written,
        sum(read.predicted.written for read in reads) if written else 0,
        abs(predicted - total) / total if total else None,
        absolute_error / total if total else None,
        dict(Counter(read.miss_reason for read in reads if read.miss_reason is not None)),
        tuple(mispredictions),
        sum(price.compute_recorded_cost(usage) for price, usage in zip(rates, usages, strict=True)),
        sum(price.compute_usage_cost(read.predicted) for price, read in zip(rates, reads, strict=True)),
        table.unit,
    )


def _guess_misprediction_reason(reads: list[CacheRead], row: int) -> str:
    read = reads[row]
    if not row:
        return "cached by another session: the cache before the first call is not in the file"
    if read.recorded > read.predicted.read:
        if read.miss_reason is not None:
            return f"{read.miss_reason}, but more than the beginning was still read"
        return "another request had cached the newer messages, such as the reply"
    if abs(read.cached_before - read.recorded) <= SAME_SIZE_TOLERANCE:
        return "the previous reply was not cached, unlike at other calls"
    earlier_sizes = (earlier.cached_before for earlier in reads[max(row - LOOKBACK, 0) : row])
    if read.recorded and any(abs(size - read.recorded) <= SAME_SIZE_TOLERANCE for size in earlier_sizes):
        return "an earlier entry was read: the newest was not ready yet, or the end of the prompt had changed"
    if read.miss_reason is not None:
        return f"{read.miss_reason}, and less of the beginning was cached than at other calls"
    if read.provider_reason is not None:
        return f"the provider gives no reason ({read.provider_reason})"
    return "lost before it expired: something outside the file changed the prompt, or the entry was evicted early"
