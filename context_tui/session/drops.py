"""Find silent drops, in which the recorded context size falls between two requests, and explain them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
from threading import Lock

from context_tui.session.blocks import bytes_to_tokens
from context_tui.session.facts import Drop, Epoch, Facts, epoch_at, find_last_rewrite, order_at, recorded_spans_at
from context_tui.session.markers import PLACEHOLDERS
from context_tui.session.token_factors import (
    ContentTokens,
    Factors,
    count_blocks_before,
    estimate_content,
    find_intervals,
    fit_earlier_factors,
    is_other_conversation,
)
from context_tui.session.values import BlockFlag, Explanation, Kind, MessageFlag

MIN_DROP = 2_000
"""Minimum recorded tokens of a drop; smaller falls are due to the provider's counting."""
MIN_CLEARED = 20_000
"""Minimum tokens of a drop explained by cleared results; smaller ones were not observed, and match by chance."""
STUB_TOKENS = 9
"""Recorded tokens of the placeholder of a cleared result."""
RESULTS_TOLERANCE, THINKING_TOLERANCE = 0.03, 0.1
"""Tolerated relative errors of an explanation; the size of thinking is known less precisely."""
PROVEN_TOLERANCE = 0.15
"""Tolerated relative error if a recorded microcompaction shows which results were cleared before."""
PREFIX_SHARE = 0.98
"""Share of the tokens read from the cache that surely precede a cleared result of uncertain position."""
MIN_FIT_INTERVALS = 8
"""Minimum number of fitted intervals for an explanation."""
MAX_EXPLAINED = 200
"""Maximum number of explained drops in a session; if there are more, sizes change for other reasons."""
TIE_TOLERANCE = 100
"""Difference in tokens up to which two explanations tie; the one with fewer results is preferred."""
LATE_COMPACTION_SHARE = 4
"""Divisor of the context size: a late compaction is recognised if it removes at least a quarter."""
CACHE_LIFETIME_MS = 240_000
"""Minimum lifetime of a prompt cache in milliseconds."""
CLEARABLE_TOOLS = frozenset(
    {
        *("Read", "Bash", "Grep", "Glob", "WebSearch", "WebFetch", "Edit", "Write", "MultiEdit", "NotebookEdit"),
        *("read", "bash", "grep", "glob", "list_files", "ListFiles", "web_search", "web_fetch", "LS", "BashOutput"),
    }
)
"""Tools whose results Claude Code was observed to clear, oldest first, and their names in other agents."""

_LOCK = Lock()
"""Lock for the search, because several threads use a session while it is read."""


_Candidate = tuple[int, float]
"""Row of a result that may be cleared, and the tokens that clearing it frees."""


class _Results:
    """The results of an epoch and their positions in its requests. They serve one search, as the facts may grow."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._epoch: Epoch | None = None
        self._messages = 0  # number of messages in the epoch's order of which the results are listed
        self._rows: list[int] = []
        self._requests: dict[int, tuple[int, int, int]] = {}
        self._path_users: dict[int, list[int]] = {}

    def list_before(self, row: int) -> Sequence[int]:
        """Return at least the results before request *row*, in prompt order, without images and placeholders."""
        facts, at = self._facts, self._facts.request_message[row]
        epoch = epoch_at(facts, at)
        if epoch is not self._epoch:
            self._epoch, self._messages, self._rows = epoch, 0, []
        order = recorded_spans_at(facts, at)
        for message in order[self._messages :]:
            self._rows += [block for block in facts.blocks_of(message) if self._is_clearable(message, block)]
        self._messages = max(self._messages, len(order))
        return self._rows

    def was_cached(self, row: int, block: int) -> bool:
        """Return whether request *row* read *block* from the cache: it read more than the tokens before the block."""
        request, _, appended_tokens = self._find_request_before(self._facts.block_message[block])
        if request < 0:
            return False
        requests = self._facts.requests
        return requests[row].cache_read > requests[request].context + 2 * appended_tokens + TIE_TOLERANCE

    def find_first_behind(self, row: int, blocks: Sequence[int], tokens: float) -> int:
        """Return the index of the first of *blocks* with at least *tokens* before it in request *row*.

        The tokens before a block are estimated from the last request without the block, and ascend.
        """
        facts, end = self._facts, self._facts.request_message[row]
        drops = facts.drops[: bisect_left(facts.drops, end, key=lambda drop: drop.message)]
        messages = [drop.message for drop in drops]
        removed_before = list(accumulate((drop.removed_tokens for drop in drops), initial=0))

        def count_tokens_before(block: int) -> float:
            request, request_message, appended_tokens = self._find_request_before(facts.block_message[block])
            removed_tokens = removed_before[-1] - removed_before[bisect_right(messages, request_message)]
            return facts.requests[request].context + appended_tokens - removed_tokens if request >= 0 else 0

        return bisect_left(blocks, tokens, key=count_tokens_before)

    def is_path_used(self, path: int, messages: range) -> bool:
        """Return whether a call in *messages* reads the file *path*, which is a row of ``paths``."""
        if not self._path_users:
            for message, user_path in sorted(zip(self._facts.block_message, self._facts.path, strict=True)):
                self._path_users.setdefault(user_path, []).append(message)
        users = self._path_users[path]
        first = bisect_left(users, messages.start)
        return first < len(users) and users[first] < messages.stop

    def _find_request_before(self, message: int) -> tuple[int, int, int]:
        """Return the last request before a message (its row or -1, and its message), and the estimated tokens since."""
        if message not in self._requests:
            facts = self._facts
            row = bisect_right(facts.request_message, message) - 1
            start = facts.request_message[row] if row >= 0 else message
            self._requests[message] = row, start, sum(estimate_content(facts, range(start, message)).tokens)
        return self._requests[message]

    def _is_clearable(self, message: int, block: int) -> bool:
        facts = self._facts
        return (
            facts.kind[block] == Kind.TOOL_RESULT
            and not facts.flags[message] & MessageFlag.NOT_SENT
            and not facts.block_flags[block] & BlockFlag.HAS_IMAGE
            and facts.bracket_starts.get(block) not in PLACEHOLDERS
        )


def find_drops(facts: Facts) -> list[Drop]:
    """Return the drops between the requests so far, searching only the requests added since the last call."""
    with _LOCK:
        return _update_drops(facts)


def _update_drops(facts: Facts) -> list[Drop]:
    search, results = facts.drop_search, _Results(facts)
    if not search.is_current(facts):
        facts.drops.clear()
        search.factors.clear()
        search.intervals.clear()
        search.rows_by_model.clear()
        search.requests = search.indexed_requests = 0
        search.proven.clear()
    elif search.has_new_evidence(facts):
        _reconsider_drops(facts, results)
    messages, requests = facts.request_message, facts.requests
    for row in range(max(search.requests, 1), len(requests)):
        decrease = requests[row - 1].context - requests[row].context if requests[row].context else 0
        if is_other_conversation(facts, row - 1) and facts.drops and facts.drops[-1].message == messages[row - 1]:
            facts.drops.pop()  # only this request shows that the one before was no drop
        epoch = epoch_at(facts, messages[row]) if decrease >= MIN_DROP else None
        if epoch and messages[row - 1] >= epoch.start:
            facts.drops.append(_explain_drop(facts, results, row, decrease))
    search.update(facts)
    return facts.drops


def _reconsider_drops(facts: Facts, results: _Results) -> None:
    """Restart the search at the first drop of the epoch that later records explain differently."""
    search = facts.drop_search
    first = bisect_left(facts.drops, epoch_at(facts, search.message).start, key=lambda drop: drop.message)
    for at, drop in enumerate(facts.drops[first:], first):
        if drop.explained_by is None or drop.message in search.proven:
            row = bisect_left(facts.request_message, drop.message)
            if _explain_drop(facts, results, row, drop.tokens) != drop:
                del facts.drops[at:]
                search.requests = row
                return


def find_cleared_at(facts: Facts, at: int, until: int | None = None) -> dict[int, str]:
    """Map the row of each result cleared before message *at* to its evidence: ``recorded`` or ``inferred``.

    Microcompactions count if they are recorded at or before message *until* (default: *at*).
    """
    sources: dict[int, str] = {}
    for compaction in facts.compactions:
        if compaction.message > (at if until is None else until):
            break
        if compaction.kind == "micro":
            sources.update(dict.fromkeys(compaction.cleared_blocks, "recorded"))
    for drop in facts.drops[: bisect_left(facts.drops, at, key=lambda drop: drop.message)]:
        sources.update(dict.fromkeys(drop.cleared_blocks, "inferred"))
    return sources


def _explain_drop(facts: Facts, results: _Results, row: int, decrease: int) -> Drop:
    before, after = facts.request_message[row - 1], facts.request_message[row]
    appended = estimate_content(facts, range(before, after), count_blocks_before(facts, after))
    factors = fit_earlier_factors(facts, row)
    removed_tokens = float(decrease + sum(appended.tokens))
    if factors is not None:
        removed_tokens = decrease + factors.count_tokens(appended) + factors.request_overhead
        removed_tokens += (factors.image or 0) * appended.images
    if _is_late_compaction(facts, row, decrease):
        return Drop(after, decrease, round(removed_tokens), Explanation.COMPACTION)
    if find_last_rewrite(facts, after) > before:
        return Drop(after, decrease, round(removed_tokens), Explanation.MICROCOMPACTION)
    if facts.request_model[row] != facts.request_model[row - 1]:
        return Drop(after, decrease, round(removed_tokens), Explanation.MODEL)
    explained_count = bisect_left(facts.drops, after, key=lambda drop: drop.message)
    if factors is None or factors.intervals < MIN_FIT_INTERVALS or explained_count >= MAX_EXPLAINED:
        return Drop(after, decrease, round(removed_tokens))
    order = order_at(facts, after)[1]
    if appended.turns and _is_thinking_drop(facts, results, row, order, factors, removed_tokens):
        return Drop(after, decrease, round(removed_tokens), Explanation.THINKING)
    cleared: tuple[int, ...] = ()
    facts.drop_search.proven.discard(after)
    if removed_tokens >= MIN_CLEARED and facts.request_model[row] >= 0:  # else it may be a change of model
        candidates = _list_candidates(facts, results, row, factors)
        tools = {tool for tool, name in enumerate(facts.tools) if name in CLEARABLE_TOOLS}
        clearable = [each for each in candidates if facts.tool[each[0]] in tools]
        cleared = _find_cleared_results(facts, results, row, clearable, removed_tokens)
        if not cleared and len(clearable) < len(candidates):
            cleared = _find_cleared_results(facts, results, row, candidates, removed_tokens)
        if not cleared and (cleared := _find_proven_results(facts, results, row, clearable, removed_tokens)):
            facts.drop_search.proven.add(after)
    return Drop(after, decrease, round(removed_tokens), Explanation.CLEARED if cleared else None, cleared)


def _is_late_compaction(facts: Facts, row: int, decrease: int) -> bool:
    """Return whether the fall is due to the epoch's compaction, whose summary is recorded before the kept messages."""
    epoch = epoch_at(facts, facts.request_message[row])
    first = bisect_left(facts.request_message, epoch.start)
    is_small = decrease * LATE_COMPACTION_SHARE < facts.requests[row - 1].context
    if epoch.cause != "compaction" or not 0 < first < row or is_small:
        return False
    sizes = [usage.context for usage in facts.requests[first - 1 : row]]
    return all(earlier - later < MIN_DROP for earlier, later in pairwise(sizes))


def _has_changed_base(facts: Facts, row: int) -> bool:
    previous, current = facts.requests[row - 1], facts.requests[row]
    idle = facts.request_time[row] - facts.request_time[row - 1]
    has_times = facts.request_time[row] >= 0 <= facts.request_time[row - 1]
    return has_times and idle < CACHE_LIFETIME_MS and previous.context > previous.fresh and not current.cache_read


def _is_thinking_drop(
    facts: Facts, results: _Results, row: int, order: Sequence[int], factors: Factors, removed_tokens: float
) -> bool:
    """Return whether the drop is as large as the uncached thinking of the last finished turn, or of all of them."""
    starts = [position for position, message in enumerate(order) if facts.flags[message] & MessageFlag.TURN_START]
    end_block = count_blocks_before(facts, facts.request_message[row])
    for start in dict.fromkeys((starts[-2] if len(starts) > 1 else 0, 0)) if starts else ():
        past_messages = order[start : starts[-1]]
        _, thinking, signature, *_ = estimate_content(facts, past_messages, end_block).tokens
        error = abs(factors.thinking * thinking + factors.signature * signature - removed_tokens)
        if error <= THINKING_TOLERANCE * removed_tokens:
            blocks = (block for message in past_messages for block in facts.blocks_of(message))
            first = next(block for block in blocks if facts.kind[block] == Kind.THINKING)
            return not results.was_cached(row, first)
    return False


def _find_cleared_results(
    facts: Facts, results: _Results, row: int, candidates: Sequence[_Candidate], removed_tokens: float
) -> tuple[int, ...]:
    """Return the rows of the oldest results whose total size matches the removed tokens, or () if none match."""
    if _has_changed_base(facts, row):
        return ()
    rows, sizes = _sum_candidates(candidates)
    if rows and not results.was_cached(row, rows[0]):
        errors = [abs(size - removed_tokens) for size in sizes]
        least = min(errors)
        if least <= RESULTS_TOLERANCE * removed_tokens:
            limit = least + TIE_TOLERANCE
            return tuple(rows[: next(count for count, error in enumerate(errors, 1) if error <= limit)])
    return ()


def _find_proven_results(
    facts: Facts, results: _Results, row: int, candidates: Sequence[_Candidate], removed_tokens: float
) -> tuple[int, ...]:
    """Return the results after the cached prefix whose clearing is proven by later records of the context, or ().

    Their size must match the removed tokens. In addition, they must be the results before the first one that a later
    microcompaction clears or, if there is no such result, most of their files must be read again.
    """
    cached = facts.requests[row].cache_read
    if not cached:
        return ()
    rows, sizes = _sum_candidates(candidates)
    first = results.find_first_behind(row, rows, PREFIX_SHARE * cached)
    if first == len(rows):
        return ()
    rows, sizes = rows[first:], [size - (sizes[first - 1] if first else 0) for size in sizes[first:]]
    at = facts.request_message[row]
    next_epoch = bisect_right(facts.epochs, at, key=lambda epoch: epoch.message)
    end = facts.epochs[next_epoch].message if next_epoch < len(facts.epochs) else len(facts)
    later = facts.compactions[bisect_right(facts.compactions, at, key=lambda compaction: compaction.message) :]
    cleared = (each.cleared_blocks for each in later if each.message <= end and each.cleared_blocks)
    later_rows = next(cleared, frozenset())
    count = next((number for number, block in enumerate(rows) if block in later_rows), 0)
    if count:
        fits = abs(sizes[count - 1] - removed_tokens) <= PROVEN_TOLERANCE * removed_tokens
        return tuple(rows[:count]) if fits else ()
    count = min(range(1, len(rows) + 1), key=lambda number: abs(sizes[number - 1] - removed_tokens))
    if abs(sizes[count - 1] - removed_tokens) > RESULTS_TOLERANCE * removed_tokens:
        return ()
    paths = {facts.path[facts.find_tool_use(block)] for block in rows[:count] if facts.find_tool_use(block) >= 0} - {-1}
    reread_count = sum(results.is_path_used(path, range(at, end)) for path in paths)
    return tuple(rows[:count]) if paths and 2 * reread_count > len(paths) else ()


def _list_candidates(facts: Facts, results: _Results, row: int, factors: Factors) -> list[_Candidate]:
    end, end_block = facts.request_message[row - 1], count_blocks_before(facts, facts.request_message[row])
    cleared = find_cleared_at(facts, facts.request_message[row])
    share, owner = _compute_growth_shares(facts, row, factors), facts.block_message
    return [
        (block, bytes_to_tokens(facts.size[block]) * share.get(owner[block], factors.result) - STUB_TOKENS)
        for block in results.list_before(row)
        if owner[block] < end and block < end_block and block not in cleared
    ]


def _sum_candidates(candidates: Sequence[_Candidate]) -> tuple[list[int], list[float]]:
    """Return the rows of the results, and for each row the tokens freed by clearing the results up to there."""
    return [block for block, _ in candidates], list(accumulate(tokens for _, tokens in candidates))


def _compute_growth_shares(facts: Facts, row: int, factors: Factors) -> dict[int, float]:
    """Map messages to the recorded tokens per estimated token of their results, given by the growth of the context."""
    shares: dict[int, float] = {}
    for interval in find_intervals(facts, row):
        tokens = interval.content.tokens
        results = tokens[-1]
        if not results or interval.content.images or interval.content.turns:
            continue
        other_tokens = factors.count_tokens(ContentTokens([*tokens[:-1], 0])) + factors.request_overhead
        share = (interval.growth - other_tokens) / results
        if 0.5 * factors.result <= share <= 2 * factors.result or abs(share - factors.result) * results <= 200:
            start, end = facts.request_message[interval.row - 1], facts.request_message[interval.row]
            shares.update(dict.fromkeys(range(start, end), max(share, 0.0)))
    return shares
