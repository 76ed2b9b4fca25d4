"""Size of a context with its error: the recorded size if a request has one, else a measured size.

A request consists of content that its agent sends with every context (system prompt, tool schemas, instructions), and
of messages. The first part is the same in every context, and no policy removes it; if the file does not contain it, the
recorded size of the first request gives its size. What the agent puts into a new context after a recorded compaction,
without a record of it, is predicted until a request shows it; it goes when the summary goes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import accumulate
from statistics import median
from typing import NamedTuple

from context_tui.session.context import Context, context_at, memoize
from context_tui.session.facts import Epoch, Facts, epoch_at
from context_tui.session.token_factors import count_output_tokens, is_recorded_reply
from context_tui.session.values import BlockFlag, Kind, MessageFlag
from context_tui.tokens import accounting
from context_tui.tokens.accounting import BelievedSize
from context_tui.tokens.context_index import index_context
from context_tui.tokens.estimators import bytes4, count_block_tokens, count_message_tokens
from context_tui.tokens.measures import TokenMeasure, TokenTable
from context_tui.tokens.restored_files import RESTORED_ERROR, Restoration, use_estimate

TYPICAL_ERROR = 0.3
"""Error of content measured without a usable calibration, as a share: nine of ten models lie within it."""
MIN_ERROR = 0.02
"""Smallest error of measured content, as a share of its tokens."""
TYPICAL_SIZE_ERROR = 0.03
"""Error of the predicted size of a request without a usable calibration, as a share of the size."""
MIN_SIZE_ERROR = 0.002
"""Smallest error of the predicted size of a request, as a share of the size."""
MIN_FIXED_ERROR = 0.005
"""Smallest error of the tokens that no policy removes, as a share: the content of the first request is measured."""
MAX_PROMPT_TOKENS = 60_000
"""Tokens of the largest system prompt and tools in known recordings: the bound for an unknown prompt."""
MAX_FIRST_REQUESTS = 4
"""Number of requests that are searched for the first one that holds its content."""
MIN_PUT_BACK = 1_000
"""Minimum tokens of the first request after a compaction beyond its measured content that count as put back."""
DEFAULT_SUMMARY_TOKENS = 2_000
"""Estimated tokens (``bytes/4``) of a summary whose text is not in the file."""


class SizeSource(StrEnum):
    """Origin of a size: recorded, estimated, or the sum of a recorded and an estimated part."""

    RECORDED = "recorded"
    PARTLY = "recorded + estimate"
    ESTIMATED = "estimate"


class ContextSize(NamedTuple):
    """Size of a context in tokens, the range from ``low`` to ``high`` that the error allows, and the source.

    ``source`` is that of the least certain part: ``exact`` (from a whole request or a tokenizer), ``recorded``,
    ``calibrated`` or ``estimated``.
    """

    tokens: int
    low: int
    high: int
    source: str

    def add(self, tokens: int, spread: int = 0) -> ContextSize:
        """Return the size plus *tokens*, which are uncertain by *spread* in either direction."""
        low, high = self.low + tokens - spread, self.high + tokens + spread
        return ContextSize(self.tokens + tokens, max(low, 0), high, self.source)


class ContextAccount(NamedTuple):
    """The tokens in a context by origin, and the size of the next request that results from them.

    Attributes:
        recorded: recorded size of the last request in the context, or None if no recorded size still applies.
        appended: measured tokens in the content appended since that request.
        fixed: measured tokens in the content of every context: system prompt, tools, and inserted instructions.
        content: measured tokens in all other content.
        requests: number of replies to recorded requests in the context.
        unaccounted: tokens of a compacted context beyond ``fixed`` and ``content``.
        error: expected error in measured tokens, as a share of them.
        size_error: typical error of a predicted request, as a share of its size.
        measure: name of the measure; ``source``: whether it is ``exact``, ``calibrated`` or ``estimated``.
        is_whole: whether the recorded request is in the file as a whole.
        not_in_file: part of ``fixed`` that is not in the file, or None if no request recorded its size.
        has_prompt: whether the size of the system prompt and tools is known.
        put_back: part of the size that the last compaction inserted and the file lacks; it goes with the summary.
        put_back_error: its error, in tokens, which a recorded size does not have.
    """

    recorded: int | None
    appended: int
    fixed: int
    content: int
    requests: int
    unaccounted: int
    error: float
    size_error: float
    measure: str
    source: str
    is_whole: bool
    not_in_file: int | None
    has_prompt: bool
    put_back: int = 0
    put_back_error: int = 0

    @property
    def tokens(self) -> int:
        """Size in tokens of the next request with this context."""
        if self.recorded is not None:
            return self.recorded + self.appended
        return max(self.fixed + self.content + self.unaccounted + self.put_back, 0)

    @property
    def origin(self) -> SizeSource:
        """Origin of the next request's size."""
        if self.recorded is None:
            return SizeSource.ESTIMATED
        return SizeSource.PARTLY if self.appended else SizeSource.RECORDED

    @property
    def fixed_error(self) -> int:
        """Error in tokens of ``fixed`` if it was derived from the recorded size of a request."""
        is_derived = self.not_in_file is not None and not self.is_whole
        return round(max(self.size_error, MIN_FIXED_ERROR) * self.fixed) if is_derived else 0

    def remove_put_back(self) -> ContextAccount:
        """Return the account without what the last compaction put back."""
        recorded = None if self.recorded is None else self.recorded - self.put_back
        return self._replace(recorded=recorded, put_back=0, put_back_error=0)

    @property
    def parts(self) -> BelievedSize:
        """Size of the next request, split into a recorded and a measured part."""
        return BelievedSize(self.recorded, self.appended if self.recorded is not None else self.tokens)

    @property
    def size(self) -> ContextSize:
        """Size of the next request, with the range that the error allows."""
        if self.recorded is not None:
            spread = round(self.error * abs(self.appended) + self.size_error * self.recorded) if self.appended else 0
            source = self.source if self.appended else "exact" if self.is_whole else "recorded"
            return ContextSize(self.tokens, max(self.tokens - spread, 0), self.tokens + spread, source)
        measured = self.content + (self.fixed if self.not_in_file is None else 0)
        spread = round(self.error * measured) + self.fixed_error + self.put_back_error
        unknown = 0 if self.has_prompt else MAX_PROMPT_TOKENS
        return ContextSize(self.tokens, max(self.tokens - spread, 0), self.tokens + spread + unknown, self.source)

    def resize(self, removed: int, removed_requests: int) -> ContextSize:
        """Return the next request's size after removing *removed* measured tokens and *removed_requests* replies.

        The error shrinks in proportion to the size. The share of the unaccounted tokens that belongs to the removed
        replies, or of a lacking size that belongs to the removed content, is uncertain. What was put back goes last.
        """
        if not removed and not removed_requests:
            return self.size
        removed_share = removed_requests / self.requests if self.requests else 0.0
        old_tokens, put_back = self.tokens - self.put_back, self.put_back if removed < max(self.content, 1) else 0
        tokens = resize(old_tokens, self.fixed, self.content, -removed, removed_share) + put_back
        unaccounted, uncertain_share = old_tokens - self.fixed - self.content, removed_share
        if unaccounted < 0:
            uncertain_share = min(max(removed, 0) / self.content, 1.0) if self.content else 0.0
        _, low, high, source = self.size
        base, unknown = self.tokens - low, max(low + high - 2 * self.tokens, 0)
        spread = self.error * min(abs(removed), max(self.content - removed, 0))
        spread += abs(unaccounted) * min(uncertain_share, 1 - uncertain_share)
        spread = round(spread + base * min(tokens / self.tokens, 1) if self.tokens else spread)
        fixed_error = self.fixed_error if removed else 0
        low = max(tokens - spread - fixed_error, min(self.fixed, tokens) - fixed_error)
        return ContextSize(tokens, low, tokens + spread + fixed_error + unknown, self.source if removed else source)


def resize(size: int, fixed: int, content: int, change: int, removed_share: float) -> int:
    """Return the new size in tokens of a context with *size* tokens after its measured *content* changes by *change*.

    The *fixed* tokens always stay. Tokens beyond these and the content came with requests; they shrink by
    *removed_share*, the share (0 to 1) of the requests whose replies are removed. If the content measures more than the
    size, removals count in full until the rest has only half of its share in the size (if all remains) to its whole
    share (if little remains). So the more is removed, the smaller is the size, down to the fixed tokens.
    """
    fixed = min(fixed, size)
    unaccounted = max(size - fixed - content, 0)
    floor = fixed
    if change <= 0 < content:
        share = max(1 + change / content, 0.0)
        floor += int(min(size - fixed, content) * share * (1 - share / 2))
    return max(size + change - round(unaccounted * removed_share), floor)


def limit_put_back(put_back: int, size: int, fixed: int, content: int) -> int:
    """Return the tokens put back that a context with *size* tokens can still hold beside its measured *content*."""
    return min(put_back, max(size - fixed - round((1 - TYPICAL_ERROR) * content), 0))


def measure_context(context: Context, token_table: TokenTable | None = None) -> ContextAccount:
    """Return the tokens in a context, broken down by their source. The result is cached for each token measure."""
    key = measure_context, token_table
    if key not in context.memo:
        context.memo[key] = _measure_context(context, token_table)
    account: ContextAccount = context.memo[key]
    return account


def _measure_context(context: Context, table: TokenTable | None) -> ContextAccount:
    facts, basis = context.facts, context.facts.size_basis
    content, requests = _measure_content(context, table), count_requests_before(context)[-1]
    compaction = _find_last_compaction(context)
    row = find_request_after(facts, compaction, context.at) if compaction else -1
    points = facts.request_message[row] if row >= 0 else context.at, context.at
    fixed_earlier, fixed = measure_fixed(facts, table, points)
    recorded, appended = _find_recorded_size(context, table)
    if recorded is not None:  # what was cleared since may measure more than the request recorded
        appended = max(appended, min(fixed - recorded, 0))
    has_request = accounting.find_request_before(facts, context.at, 0) >= 0  # later ones are not known yet
    unaccounted = put_back = error = 0
    if basis is not None:
        (unaccounted,), put_back = measure_unaccounted_in_copy(facts, table, (requests,)), basis.put_back
        error = round(RESTORED_ERROR * put_back)
    elif recorded is not None:
        measured = measure_put_back(facts, row, fixed_earlier, table) if row >= 0 else 0
        put_back = limit_put_back(measured, recorded + appended, fixed, content)
        error = round(RESTORED_ERROR * put_back)
    elif has_request and not facts.holds_requests and epoch_at(facts, context.at).cause == "compaction":
        unaccounted, put_back, error = _predict_put_back(context, table, fixed, content, requests)
    parts, not_in_file = measure_prompt_parts(facts, table, context.at), None
    if has_request or basis is not None:
        not_in_file = 0 if facts.holds_requests else max(fixed - sum(parts) - _measure_standing(facts, table), 0)
    prompt_is_known = basis.has_prompt if basis else has_request
    has_prompt = prompt_is_known or (sum(parts) if facts.holds_requests else min(parts)) > 0
    sizes, described = (recorded, appended, fixed, content, requests, unaccounted), _describe_measure(context, table)
    return ContextAccount(*sizes, *described, facts.holds_requests, not_in_file, has_prompt, put_back, error)


def measure_unaccounted_in_copy(facts: Facts, table: TokenTable | None, requests: Iterable[int]) -> Iterator[int]:
    """Return the tokens that came with each of these numbers of requests in a compacted copy; 0 if it is no copy."""
    if (basis := facts.size_basis) is None:
        return (0 for _ in requests)
    end = facts.block_message[basis.blocks] if basis.blocks < len(facts.block_message) else len(facts)
    copy = context_at(facts, end)
    unaccounted = basis.tokens - basis.fixed - basis.put_back - _measure_content(copy, table)
    replies = count_requests_before(copy)[-1]
    return (round(unaccounted * count / replies) if replies else unaccounted for count in requests)


def _predict_put_back(
    context: Context, table: TokenTable | None, fixed: int, content: int, requests: int
) -> tuple[int, int, int]:
    """Predict the tokens of a new context that the file lacks, from the context before the compaction.

    Return the tokens that came with requests whose replies remain, the tokens that the agent inserted (files, skills,
    a hidden summary), and the error of these. All are 0 if no earlier size of that context is recorded.
    """
    facts, epoch = context.facts, epoch_at(context.facts, context.at)
    before = context_at(facts, epoch.message, after_micro=False, content=context.content)
    if _find_recorded_size(before, table)[0] is None:
        return 0, 0, 0
    account = measure_context(before, table)
    if find_last_summary(before) not in index_context(context).position_of:
        account = account.remove_put_back()
    removed = account.content - content, max(account.requests - requests, 0)
    unaccounted = account.resize(*removed).tokens - fixed - content if requests else 0
    compaction = next(each for each in reversed(facts.compactions) if each.message == epoch.message)
    convert = table.convert_estimate if table else use_estimate
    added = set(context.order).difference(before.order)
    summary = next((message for message in added if facts.flags[message] & MessageFlag.SUMMARY), None)
    is_hidden = summary is not None and not any(count_block_tokens(context, row) for row in facts.blocks_of(summary))
    hidden = round(compaction.summary_tokens or convert(DEFAULT_SUMMARY_TOKENS, Kind.TEXT)) if is_hidden else 0
    restored = 0
    if not any(facts.block_flags[row] & BlockFlag.INJECTED for message in added for row in facts.blocks_of(message)):
        restored = Restoration().estimate(before, convert, set(context.order).intersection(before.order))
    return unaccounted, hidden + restored, hidden + round(RESTORED_ERROR * restored)


def find_last_summary(context: Context) -> int:
    """Return the summary of the last compaction in a context, or -1; what the compaction put back goes with it."""
    if (epoch := _find_last_compaction(context)) is not None:
        return find_summary(context.facts, epoch)
    flags = context.facts.flags
    return next((message for message in reversed(context.order) if flags[message] & MessageFlag.SUMMARY), -1)


def _find_last_compaction(context: Context) -> Epoch | None:
    facts, positions = context.facts, index_context(context).position_of
    epochs = (epoch for epoch in reversed(facts.epochs) if epoch.message < context.at)
    compactions = (epoch for epoch in epochs if epoch.cause == "compaction")
    return next((epoch for epoch in compactions if find_summary(facts, epoch) in positions), None)


def find_summary(facts: Facts, epoch: Epoch) -> int:
    """Return the summary with which the compaction that began *epoch* replaced earlier messages, or -1."""
    messages = range(epoch.message, min(max(epoch.start, epoch.message + 1), len(facts)))
    return next((message for message in messages if facts.flags[message] & MessageFlag.SUMMARY), -1)


def find_request_after(facts: Facts, epoch: Epoch, end: int) -> int:
    """Return the row of the first request before message *end* that shows what a compaction put back, or -1.

    *epoch* is what the compaction began. An earlier request must show the system prompt and tools, and the file must
    neither hold whole requests nor be a copy.
    """
    if epoch.cause != "compaction" or facts.holds_requests or facts.size_basis is not None:
        return -1
    requests = range(bisect_left(facts.request_message, epoch.start), bisect_left(facts.request_message, end))
    row = next((row for row in requests if accounting.has_valid_size(facts, row)), -1)
    if row < 0 or epoch_at(facts, facts.request_message[row]) is not epoch:
        return -1
    return row if accounting.find_request_before(facts, epoch.start, 0) >= 0 else -1


def measure_put_back(facts: Facts, row: int, fixed: int, table: TokenTable | None) -> int:
    """Return the tokens that a compaction put back without a record, by the first request after it.

    These are the tokens of request *row* beyond its measured content and the *fixed* tokens before it, or 0 if they are
    fewer than :data:`MIN_PUT_BACK` or the measure's error.
    """
    first = context_at(facts, facts.request_message[row])
    content, error = _measure_content(first, table), _describe_measure(first, table)[0]
    tokens = facts.requests[row].context - fixed - content
    return tokens if tokens >= max(MIN_PUT_BACK, error * content) else 0


@memoize
def estimate_summary(context: Context) -> int:
    """Return the usual size of a summary in tokens (``bytes/4``): the median of those recorded earlier, else 2,000."""
    facts = context.facts
    summaries = (message for message in range(context.at) if facts.flags[message] & MessageFlag.SUMMARY)
    sizes = [count_message_tokens(facts, each) for each in summaries if not facts.flags[each] & MessageFlag.NOT_SENT]
    sizes += [each.summary_tokens or 0 for each in facts.compactions if each.message < context.at]
    sizes = [size for size in sizes if size]  # an encrypted summary has no size
    return round(median(sizes)) if sizes else DEFAULT_SUMMARY_TOKENS


def measure_fixed(facts: Facts, table: TokenTable | None, points: Iterable[int]) -> Iterator[int]:
    """Yield the tokens that no policy removes from the contexts before the messages *points*, which must ascend.

    By the first recorded request that holds its content, these are all tokens beyond the content, but no more than the
    model's smallest such request or, if the model has changed, their share of its smallest request. Before the first
    request, and in files with whole requests, they are measured.
    """
    standing, row, start, first, least = _measure_standing(facts, table), 0, -1, 0, dict[int, int]()
    tries = 0 if facts.holds_requests else MAX_FIRST_REQUESTS
    for at in points:
        while row < len(facts.requests) and facts.request_message[row] < at:
            model, size = facts.request_model[row], facts.requests[row].context
            if (tries or size < least.get(model, first)) and accounting.has_valid_size(facts, row):
                content = _measure_content(context_at(facts, facts.request_message[row]), table)
                holds_content = size >= (1 - TYPICAL_ERROR) * content
                if tries:
                    start, first = (row, max(size - content, 0)) if start < 0 or holds_content else (start, first)
                    tries = 0 if holds_content else tries - 1
                elif model != facts.request_model[start]:
                    least[model] = round(size * first / (first + content))
                elif holds_content:
                    least[model] = size
            row += 1
        if facts.size_basis is not None:
            yield facts.size_basis.fixed
        elif start >= 0:
            yield least.get(facts.request_model[row - 1], first)
        else:
            yield standing + sum(measure_prompt_parts(facts, table, at))


def measure_prompt_parts(facts: Facts, table: TokenTable | None, at: int) -> tuple[int, int]:
    """Return the tokens in the system prompt and in the tools before message *at*, as far as the file has them."""
    return table.prompt_at(facts, at) if table else accounting.estimate_prompt_parts(facts, at)


def _measure_standing(facts: Facts, table: TokenTable | None) -> int:
    return sum(table.blocks[row] if table else bytes4(facts, row) for row in accounting.find_standing_blocks(facts))


def _measure_content(context: Context, table: TokenTable | None) -> int:
    positions = index_context(context).position_of
    standing = find_standing_tokens(context, table)
    return _sum_tokens(context, table)[-1] - sum(standing[message] for message in standing if message in positions)


def _sum_tokens(context: Context, table: TokenTable | None) -> Sequence[int]:
    return table.compute_prefix_sums(context) if table else index_context(context).prefix


def _find_recorded_size(context: Context, table: TokenTable | None) -> tuple[int | None, int]:
    """Return the recorded size of the last request in a context, or None, and the measured tokens appended since.

    Tokens freed by clearing results after the request are subtracted.
    """
    facts, sums = context.facts, _sum_tokens(context, table)
    request = accounting.find_request_before(facts, context.at, context.epoch_start)
    if request < 0:
        return None, 0
    reply = facts.request_message[request]
    position = index_context(context).position_of.get(reply)
    if position is None:
        return None, 0
    is_current = reply >= context.last_rewrite
    before = sums[position] if is_current else _sum_tokens(context_at(facts, reply), table)[-1]
    appended = sums[-1] - before + _count_unmeasured_output(context, table, request)
    return facts.requests[request].context, appended


def _count_unmeasured_output(context: Context, table: TokenTable | None, request: int) -> int:
    """Return by how much a reply's recorded output exceeds its measured content; 0 if content predicts better."""
    facts, output = context.facts, count_output_tokens(context.facts, request)
    calibration = table.calibration_at(context) if table and output and not facts.holds_requests else None
    reply = facts.request_message[request]
    rows = [*facts.blocks_of(reply)]
    if table is None or calibration is None or any(row in context.replacements for row in rows):
        return 0
    later_flags = facts.flags[reply + 1 : context.at]
    if later_flags:
        is_new_turn = any(flags & MessageFlag.TURN_START for flags in later_flags)
    else:
        is_new_turn = all(facts.kind[row] != Kind.TOOL_USE for row in rows)
    overhead = calibration.output_overheads[is_new_turn]
    return 0 if overhead is None else round(output + overhead) - table.messages[reply]


def find_standing_tokens(context: Context, table: TokenTable | None) -> dict[int, int]:
    """Map messages to their tokens in content that the agent inserts again into every context."""
    count, tokens = table.count_block_tokens if table else count_block_tokens, Counter[int]()
    for row in accounting.find_fixed_blocks(context.facts):
        tokens[context.facts.block_message[row]] += count(context, row)
    return tokens


@memoize
def count_requests_before(context: Context) -> list[int]:
    """Return the number of replies to recorded requests before each position in a context, and the total at the end."""
    return [*accumulate((is_recorded_reply(context.facts, message) for message in context.order), initial=0)]


def _describe_measure(context: Context, table: TokenTable | None) -> tuple[float, float, str, str]:
    calibration, basis = table.calibration_at(context) if table else None, context.facts.size_basis
    if basis is not None:
        errors = basis.error, basis.size_error
    elif calibration is None or not calibration.usable or calibration.error is None:
        errors = TYPICAL_ERROR, TYPICAL_SIZE_ERROR
    else:
        errors = max(calibration.error.p95, MIN_ERROR), max(calibration.error.median, MIN_SIZE_ERROR)
    if table is None:
        return *errors, "bytes/4", "estimated"
    if table.measure is TokenMeasure.EXACT:
        return *errors, table.name, "exact"
    if basis.is_calibrated if basis else (context.facts.holds_requests or (calibration and calibration.usable)):
        return *errors, "calibrated", "calibrated"
    return *errors, calibration.fallback if calibration else "typical factors", "estimated"
