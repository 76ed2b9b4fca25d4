"""Calibration of token estimates: recorded tokens per estimated token for each model, and the measured error."""

from __future__ import annotations

from operator import attrgetter
from statistics import median
from typing import NamedTuple

from context_tui.session import token_factors
from context_tui.session.drops import find_drops
from context_tui.session.facts import Facts
from context_tui.session.token_factors import Factors, Interval
from context_tui.session.values import Checkpoint
from context_tui.tokens.estimators import IMAGE_TOKENS

MIN_REQUESTS = 12
"""Minimum number of a model's requests for its predictions to be tested."""
MAX_USABLE_ERROR = 0.05
"""Maximum median error of a usable calibration."""


class ErrorStats(NamedTuple):
    """Median and 95th percentile of the errors in predicted request sizes, relative to the recorded sizes."""

    median: float
    p95: float


class Calibration(NamedTuple):
    """Factors from estimated tokens (``bytes/4``) to those that one model counts, with their error.

    Attributes:
        model: name of the model; empty if none is recorded.
        requests: number of requests to the model that have a recorded size.
        factors: fitted to all requests, each by itself or, if this predicts worse, all by one scale; if not ``usable``,
            those of another model, typical ones, or fitted to very few requests.
        error: error when factors from the first half of the requests predict the second half; None if untested.
        error_bytes4: error when ``bytes/4`` predicts the same sizes.
        usable: whether the factors are accurate enough to rely on; if not, ``reason`` says why.
        output_overheads: tokens of a request beyond the recorded output of the last reply, in the same turn and in a
            new one; None where the content of replies predicts requests better, as hidden reasoning is not sent again.
        is_borrowed: whether the factors are those of another model of the session.
    """

    model: str
    requests: int
    factors: Factors
    error: ErrorStats | None
    error_bytes4: ErrorStats | None
    usable: bool
    reason: str
    output_overheads: tuple[float | None, float | None] = (None, None)
    is_borrowed: bool = False

    @property
    def fallback(self) -> str:
        """Name for the factors in use if the calibration is not usable."""
        own = "factors of few requests" if self.factors.intervals else "typical factors"
        return "factors of another model" if self.is_borrowed else own


def calibrate(facts: Facts, checkpoint: Checkpoint = lambda: None) -> list[Calibration]:
    """Return a calibration of each model whose requests recorded a size, in order of first use."""
    find_drops(facts)
    rows: dict[int, list[int]] = {}
    for row, model in enumerate(facts.request_model):
        checkpoint()
        if facts.requests[row].context:
            rows.setdefault(model, []).append(row)
    calibrations = [_calibrate_model(facts, model, model_rows, checkpoint) for model, model_rows in rows.items()]
    usable = max((each for each in calibrations if each.usable), key=attrgetter("requests"), default=None)
    for number, each in enumerate(calibrations):
        if usable is not None and each.factors is token_factors.PRIOR:
            calibrations[number] = each._replace(factors=usable.factors, is_borrowed=True)
    return calibrations


def _calibrate_model(facts: Facts, model: int, rows: list[int], checkpoint: Checkpoint) -> Calibration:
    name = facts.models[model] if model >= 0 else ""
    mid, error, plain_error, reason = len(rows) // 2, None, None, ""
    has_enough = len(rows) >= MIN_REQUESTS
    for fit in (token_factors.fit_factors, token_factors.fit_scale) if has_enough else (token_factors.fit_factors,):
        factors = fit(facts, rows[-1] + 1)
        if has_enough and (half_factors := fit(facts, rows[mid - 1] + 1)):
            error, plain_error = _compute_errors(facts, rows[mid:], half_factors, checkpoint)
        reason = _explain_doubt(len(rows), error)
        if factors and not (reason and has_enough):
            break
    else:
        factors = token_factors.PRIOR
    intervals = token_factors.find_intervals(facts, rows[-1] + 1)
    intervals = [each for each in intervals if each.output and not each.content.images]
    in_turn, new_turn = (
        _fit_output_overhead([each for each in intervals if bool(each.content.turns) == is_new], factors)
        for is_new in (False, True)
    )
    return Calibration(name, len(rows), factors, error, plain_error, not reason, reason, (in_turn, new_turn))


def _explain_doubt(requests: int, error: ErrorStats | None) -> str:
    """Return why factors are not accurate enough to rely on, or "" if they are."""
    if requests < MIN_REQUESTS:
        return f"only {requests} of the model's requests recorded a size; {MIN_REQUESTS} are needed"
    if error is None:
        return "the recorded sizes do not grow steadily with what is in the file"
    if error.median > MAX_USABLE_ERROR:
        return f"half of the sizes it predicts are more than {error.median:.0%} off"
    return ""


def _fit_output_overhead(intervals: list[Interval], factors: Factors) -> float | None:
    """Return the tokens by which requests exceed the recorded output; None if unknown or if content predicts better."""
    if len(intervals) < token_factors.MIN_INTERVALS:
        return None
    content_errors = [each.growth - factors.count_tokens(each.content) for each in intervals]
    output_errors = [
        error + factors.count_tokens(each.reply) - each.output
        for error, each in zip(content_errors, intervals, strict=True)
    ]
    overhead = max(median(output_errors), 0.0)
    error = median(abs(error - factors.request_overhead) for error in content_errors)
    return overhead if median(abs(error - overhead) for error in output_errors) < error else None


def _compute_errors(
    facts: Facts, rows: list[int], factors: Factors, checkpoint: Checkpoint
) -> tuple[ErrorStats | None, ErrorStats | None]:
    errors, plain_errors = list[float](), list[float]()
    fitted = estimated = 0.0
    last_row = -1
    for row in rows:
        checkpoint()
        recorded = facts.requests[row].context
        interval = token_factors.interval_at(facts, row) if last_row == row - 1 else None
        last_row = row
        if interval is None:
            fitted = estimated = float(recorded)
            continue
        content = interval.content
        image_tokens = (factors.image or 0.0) * content.images
        fitted += factors.count_tokens(content) + factors.request_overhead + factors.unrecorded + image_tokens
        estimated += sum(content.tokens) + IMAGE_TOKENS * content.images
        errors.append(abs(fitted - recorded) / recorded)
        plain_errors.append(abs(estimated - recorded) / recorded)
    return _summarize_errors(errors), _summarize_errors(plain_errors)


def _summarize_errors(errors: list[float]) -> ErrorStats | None:
    return ErrorStats(median(errors), sorted(errors)[int(len(errors) * 0.95)]) if errors else None
