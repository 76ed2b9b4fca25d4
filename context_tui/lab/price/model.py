"""Check of the cache model against the recording: predicted and recorded reads of the unchanged calls.

In the available recordings a cache is lost for six reasons that the file shows: it expired, the context was compacted
or cleared, thinking was dropped, thinking was switched on or off, the model changed, or the provider reports that the
prompt had changed. The rest is listed call by call.
"""

from __future__ import annotations

from dataclasses import dataclass

from context_tui.lab.price.cache import LOOKBACK
from context_tui.lab.price.cache_requests import MISPREDICTION_TOLERANCE, CacheRead, reconstruct_recorded_calls
from context_tui.lab.price.rates import CostUnit, build_rate_table
from context_tui.session.session import Session

SAME_SIZE_TOLERANCE = 16
"""Tokens within which two sizes count as equal."""


@dataclass(frozen=True)
class CacheMisprediction:
    """Call whose read differs from the prediction, in tokens.

    ``message`` is its reply; ``guess`` a possible reason in words, or the one that the file gives.
    """

    message: int
    predicted: int
    recorded: int
    guess: str


@dataclass(frozen=True)
class PriceModel:
    """Reads of the prompt cache by the recorded calls, recorded and predicted: tokens, and shares of the tokens read.

    Attributes:
        read_recorded: tokens read; ``read_predicted`` by the model.
        written_recorded: tokens written; ``written_predicted`` by the model; 0 where no writes are recorded.
        error: relative error of the sum of the predictions; None where nothing was read.
        off: the same with errors of single calls added up in absolute terms.
        broken: number of cache losses, by reason.
        unexplained: calls with an error above ``MISPREDICTION_TOLERANCE`` tokens.
        cost_recorded: cost of all prompts as recorded; ``cost_predicted`` by the model, in ``unit``.
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
    """Compare the cache model with what a session recorded."""
    recorded = reconstruct_recorded_calls(session)
    reads = recorded.reads
    facts = session.facts
    usages = facts.requests[: len(reads)]
    total = sum(each.recorded for each in reads)
    predicted = sum(each.predicted.read for each in reads)
    absolute_error = sum(abs(each.predicted.read - each.recorded) for each in reads)
    written = sum(usage.cache_write_5m + usage.cache_write_1h for usage in usages)
    models = [facts.models[row] if row >= 0 else None for row in facts.request_model[: len(reads)]]
    table = build_rate_table(models, has_write_fee=written > 0)
    rates = [
        table.get_rates(model).select_for_prompt(usage.context) for model, usage in zip(models, usages, strict=True)
    ]
    broken: dict[str, int] = {}
    for each in reads:
        if each.miss_reason is not None:
            broken[each.miss_reason] = broken.get(each.miss_reason, 0) + 1
    return PriceModel(
        total,
        predicted,
        written,
        sum(each.predicted.written for each in reads) if written else 0,
        abs(predicted - total) / total if total else None,
        absolute_error / total if total else None,
        broken,
        tuple(
            CacheMisprediction(
                each.message, each.predicted.read, each.recorded, _guess_misprediction_reason(reads, row)
            )
            for row, each in enumerate(reads)
            if abs(each.predicted.read - each.recorded) > MISPREDICTION_TOLERANCE
        ),
        sum(each.compute_recorded_cost(usage) for each, usage in zip(rates, usages, strict=True)),
        sum(each.compute_usage_cost(read.predicted) for each, read in zip(rates, reads, strict=True)),
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
    if read.recorded and any(
        abs(each.cached_before - read.recorded) <= SAME_SIZE_TOLERANCE for each in reads[max(row - LOOKBACK, 0) : row]
    ):
        return "an earlier entry was read: the newest was not ready yet, or the end of the prompt had changed"
    if read.miss_reason is not None:
        return f"{read.miss_reason}, and less of the beginning was cached than at other calls"
    if read.provider_reason is not None:
        return f"the provider gives no reason ({read.provider_reason})"
    return "lost before it expired: something outside the file changed the prompt, or the entry was evicted early"
