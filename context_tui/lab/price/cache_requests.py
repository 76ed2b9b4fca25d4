"""Reconstruct the recorded calls as prompt-cache requests: unchanged prefix, expiry and cache misses.

Everything comes from the file. About a call only what was recorded before its answer is used, with three exceptions:
the thinking of its reply, the uncached tail of its prompt, and the reason that the provider gives for a miss. The
tokens that a call read never enter its own prediction, only later ones.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from context_tui.lab.price.cache import CLOCK_TOLERANCE_MS, CacheRequest, CacheUsage, PromptCache
from context_tui.lab.price.rates import FIVE_MINUTES, ONE_HOUR
from context_tui.session.drops import find_drops
from context_tui.session.facts import Drop, epoch_at
from context_tui.session.session import Session
from context_tui.session.values import Kind, MessageFlag

NOTHING_CHANGED = 1 << 60
"""Unchanged prefix of a call that kept everything sent before."""
SYSTEM_CHANGED = "the system prompt changed"
PROVIDER_MISS_REASONS = {
    "system_changed": SYSTEM_CHANGED,
    "tools_changed": "the tools changed",
    "model_changed": "the model changed",
    "messages_changed": "messages changed",
}
"""Reasons of a provider for a cache miss."""
MISPREDICTION_TOLERANCE = 1_000
"""Tokens by which a prediction must be off for the recording to be used instead and the call to be listed."""
MIN_TAIL_CHANGE = 3
"""Least change of the tail of a prompt, in tokens, where thinking is switched on or off."""


@dataclass(frozen=True)
class CacheRead:
    """Tokens that one recorded call read, ``predicted`` and ``recorded``.

    ``cached_before`` are the tokens that the previous call left in the cache, ``miss_reason`` why they were lost, and
    ``provider_reason`` the unmodified reason of the provider; None: unknown.
    """

    message: int
    predicted: CacheUsage
    recorded: int
    cached_before: int
    miss_reason: str | None
    provider_reason: str | None


@dataclass(frozen=True)
class RecordedCalls:
    """Recorded requests of a session as the cache saw them, and what they read.

    ``cached_beginnings`` are, by request, the tokens at its beginning (system prompt and tools) that stay cached
    whatever changed after them, as the session had shown by then or, where it had not yet, showed later.
    """

    requests: list[CacheRequest]
    reads: list[CacheRead]
    cached_beginnings: list[int]


def reconstruct_recorded_calls(session: Session) -> RecordedCalls:
    """Reconstruct the recorded requests of a session in order; empty without recorded usage."""
    return _CacheReconstruction(session).reconstruct()


@dataclass
class _CachedBeginning:
    """Cached tokens at the beginning that were found although everything after them was not.

    ``cold`` is what other sessions keep alive; ``warm`` includes the system prompt and tools of this one.
    """

    cold: int = 0
    warm: int = 0


class _CacheReconstruction:
    """One pass over the requests of a session."""

    def __init__(self, session: Session) -> None:
        self.facts = facts = session.facts
        self.request_count = bisect_left(facts.request_message, session.length)
        self.drops: dict[int, Drop] = {drop.message: drop for drop in find_drops(facts)}
        usages = facts.requests[: self.request_count]
        self.automatic = not any(usage.cache_write_5m or usage.cache_write_1h for usage in usages)
        self.ttl_ms = FIVE_MINUTES
        self.has_thinking: bool | None = None
        self.caches_replies = False
        self.cached_beginnings: dict[int, _CachedBeginning] = {}

    def reconstruct(self) -> RecordedCalls:
        cache, calls, reads, beginnings = PromptCache(), list[CacheRequest](), list[CacheRead](), list[int]()
        for row in range(self.request_count):
            usage = self.facts.requests[row]
            call, reason = self._build_request(row, calls)
            if calls and calls[-1].cached_reply_tokens:
                cache.append_reply(calls[-1].cached_reply_tokens)
            predicted = cache.update(call)
            before = self.facts.requests[row - 1] if row else None
            cached_before = before.context - calls[-1].tail if before else 0
            idle = call.sent_at - calls[-1].ended_at if calls else 0
            if reason is None and calls and call.is_expired_after(calls[-1]):
                reason = "its time had passed"
            provider_reason = self.facts.cache_misses.get(self.facts.request_message[row])
            reads.append(
                CacheRead(
                    self.facts.request_message[row], predicted, usage.cache_read, cached_before, reason, provider_reason
                )
            )
            if abs(predicted.read - usage.cache_read) > MISPREDICTION_TOLERANCE:
                call = call._replace(recorded_read=usage.cache_read)
            calls.append(call)
            self._update_cached_beginning(
                row,
                call,
                predicted,
                usage.cache_read,
                cached_before,
                cold=not row or idle > FIVE_MINUTES + CLOCK_TOLERANCE_MS,
            )
            beginnings.append(self.cached_beginnings[self.facts.request_model[row]].warm)
        return RecordedCalls(calls, reads, self._backfill_beginnings(beginnings))

    def _backfill_beginnings(self, beginnings: list[int]) -> list[int]:
        """Fill in what was learned later about a model's beginning for the requests before that."""
        later: dict[int, int] = {}
        for row in reversed(range(len(beginnings))):
            model = self.facts.request_model[row]
            later[model] = beginnings[row] = beginnings[row] or later.get(model, 0)
        return beginnings

    def _build_request(self, row: int, calls: list[CacheRequest]) -> tuple[CacheRequest, str | None]:
        """Build the request of a row, with the reason for a cache miss before it. May change the end of *calls*."""
        facts, usage, message = self.facts, self.facts.requests[row], self.facts.request_message[row]
        before = facts.request_message[row - 1] if row else -1
        since = range(before + 1, message)
        if usage.cache_write_1h or usage.cache_write_5m:
            self.ttl_ms = ONE_HOUR if usage.cache_write_1h else FIVE_MINUTES
        model = facts.request_model[row]
        floor = self.cached_beginnings.setdefault(model, _CachedBeginning())
        sent_at = self._find_sent_time(row, since)
        ended_at = max(facts.end_time[message], facts.request_time[row])
        has_user_content = any(facts.kind[b] != Kind.TOOL_RESULT for m in since for b in facts.blocks_of(m))
        unchanged_prefix, reason = self._find_unchanged_prefix(row)
        if calls and self.caches_replies and self._starts_turn(row) and facts.requests[row - 1].output_trusted:
            calls[-1] = calls[-1]._replace(cached_reply_tokens=facts.requests[row - 1].output)
        if calls and model != facts.request_model[row - 1]:
            reason = "the model changed"
        if self._update_thinking_switch(row, has_user_content):
            reason = reason or f"thinking was switched {'on' if self.has_thinking else 'off'}"
        miss_reason = PROVIDER_MISS_REASONS.get(facts.cache_misses.get(message, ""))
        is_cold = (
            not calls
            or miss_reason == SYSTEM_CHANGED
            or sent_at - calls[-1].ended_at > FIVE_MINUTES + CLOCK_TOLERANCE_MS
        )
        call = CacheRequest(
            usage.context,
            unchanged_prefix,
            0 if self.automatic else min(usage.fresh, usage.context),
            sent_at,
            ended_at,
            (model, self.has_thinking),
            self.ttl_ms if self.automatic or usage.context > usage.fresh else 0,
            sum(1 for m in range(max(before, 0), message) for _ in facts.blocks_of(m)),
            floor.cold if is_cold else floor.warm,
            miss_reason=miss_reason,
            anywhere=self.automatic,
        )
        return call, miss_reason or reason

    def _find_sent_time(self, row: int, since: range) -> int:
        """Return when a request was sent: the time of the newest message *since* the previous reply, or later.

        Of consecutive results only the first one has a known time; then the time of the reply counts.
        """
        facts = self.facts
        if not since or any(facts.first_record[message] != facts.last_record[message] for message in since):
            return facts.request_time[row]
        return max(max(facts.time[message], facts.end_time[message]) for message in since)

    def _find_unchanged_prefix(self, row: int) -> tuple[int, str | None]:
        """Return the tokens that request *row* shares with earlier ones, and the reason if it is not all of them."""
        facts, message = self.facts, self.facts.request_message[row]
        before = facts.request_message[row - 1] if row else -1
        if before < epoch_at(facts, message).start:
            return 0, "the context began anew" if row else None
        first, reason = self._find_first_change(before, message)
        if (
            first is None
            and row
            and self._starts_turn(row)
            and facts.requests[row].context < facts.requests[row - 1].context
        ):
            first, reason = self._find_first_thinking(before), "thinking of the turn before was dropped"
        if first is None:
            return NOTHING_CHANGED, None
        request = bisect_right(facts.request_message, first, hi=row) - 1
        return (facts.requests[request].context if request >= 0 else 0), reason

    def _find_first_change(self, before: int, message: int) -> tuple[int | None, str | None]:
        """Return the first message changed since the reply *before*, and the reason; None: none was."""
        facts, drop = self.facts, self.drops.get(message)
        since = bisect_right(facts.compactions, before, key=lambda compaction: compaction.message)
        until = bisect_right(facts.compactions, message, key=lambda compaction: compaction.message)
        firsts = [
            facts.block_message[min(each.cleared_blocks)]
            for each in facts.compactions[since:until]
            if each.cleared_blocks
        ]
        if firsts:
            return min(firsts), "microcompaction"
        if drop is None:
            return None, None
        if drop.cleared_blocks:
            return facts.block_message[min(drop.cleared_blocks)], "old results were cleared"
        return 0, str(drop.explained_by or "part of the context went")

    def _starts_turn(self, row: int) -> bool:
        """Return whether a turn began between request *row* and the previous one."""
        messages = self.facts.request_message
        return any(self.facts.flags[m] & MessageFlag.TURN_START for m in range(messages[row - 1] + 1, messages[row]))

    def _find_first_thinking(self, last: int) -> int:
        """Return the first message with thinking in the turn that ended with message *last*."""
        facts, first = self.facts, last
        for message in range(last, -1, -1):
            if any(facts.kind[block] == Kind.THINKING for block in facts.blocks_of(message)):
                first = message
            if facts.flags[message] & MessageFlag.TURN_START:
                break
        return first

    def _update_thinking_switch(self, row: int, has_user_content: bool) -> bool:
        """Return whether thinking was switched on or off, judged by the replies and the tail of the prompt."""
        facts = self.facts
        now = any(facts.kind[block] == Kind.THINKING for block in facts.blocks_of(facts.request_message[row]))
        if self.has_thinking is None:
            self.has_thinking = now
            return False
        tail = abs(facts.requests[row].fresh - facts.requests[row - 1].fresh)
        if not has_user_content or now == self.has_thinking or tail < MIN_TAIL_CHANGE:
            return False
        self.has_thinking = now
        return True

    def _update_cached_beginning(
        self, row: int, call: CacheRequest, predicted: CacheUsage, read: int, cached_before: int, *, cold: bool
    ) -> None:
        """Learn from this request about the floor, and about other requests that cache replies."""
        floor = self.cached_beginnings[self.facts.request_model[row]]
        if not row:
            floor.cold = floor.warm = read
        elif 2 * read < cached_before:
            if cold:
                floor.cold = read
            else:
                floor.warm = read
        elif cached_before < read:
            self.caches_replies = True
        elif read == cached_before and self._starts_turn(row):
            self.caches_replies = False
