"""Model of the prompt cache, which splits each call's prompt into tokens read, written and sent uncached.

A call leaves an entry at the end of its prompt (after the last breakpoint). A later call reads the longest entry that
is a prefix of its own prompt, belongs to the same model and settings, and has not expired since its last use.
Rules and times to live: https://platform.claude.com/docs/en/build-with-claude/prompt-caching
"""

from __future__ import annotations

from collections.abc import Hashable
from copy import copy
from dataclasses import dataclass
from typing import Literal, NamedTuple

CacheReuse = Literal["breakpoints", "anywhere"]
"""Reuse of the cache by a changed prompt: with ``breakpoints`` a call reads the longest entry before the change (the
end of an earlier call, else the system prompt), with ``anywhere`` everything before the change.

The available recordings show the former: of eight calls within the time to live whose messages had changed, seven read
only the system prompt, even if 10,000 tokens of messages before the change were the same, and one read the entry of the
third call before it. None read up to the change.
"""
LOOKBACK = 20
"""Blocks before a breakpoint in which a provider searches for an entry; the previous call's entry is always found."""
CLOCK_TOLERANCE_MS = 5_000
"""Milliseconds by which the clocks of client and cache may differ."""


class CacheRequest(NamedTuple):
    """A request to a model, with the facts that decide its use of the prompt cache.

    Attributes:
        size: tokens of the prompt.
        unchanged_prefix: tokens at the start shared with the previous call; above that call's size if nothing changed.
        tail: tokens after the last cache breakpoint, which are never written to the cache.
        sent_at, ended_at: times of the request and of the end of its reply, in epoch milliseconds; -1 if unknown.
        key: model and settings; only cache entries with the same key can be read.
        ttl_ms: time to live in milliseconds of the entry that the call writes, or 0 if it writes none.
        new_blocks: number of blocks appended since the previous call.
        floor: tokens at the start of the prompt that other sessions keep cached.
        cached_reply_tokens: tokens of the reply if a later request cached it, else 0.
        miss_reason: recorded reason why the previous call's entry was lost, or None if unknown or not lost.
        recorded_read: recorded tokens read if the cache rules mispredict them, else None.
        anywhere: whether a changed prompt is read up to the first change (:data:`CacheReuse`), as in automatic caches.
    """

    size: int
    unchanged_prefix: int
    tail: int = 0
    sent_at: int = -1
    ended_at: int = -1
    key: Hashable = None
    ttl_ms: int = 300_000
    new_blocks: int = 0
    floor: int = 0
    cached_reply_tokens: int = 0
    miss_reason: str | None = None
    recorded_read: int | None = None
    anywhere: bool = False

    def is_expired_after(self, previous: CacheRequest) -> bool:
        """Return whether the cache entry of the *previous* call had expired when this request was sent."""
        has_times = min(self.sent_at, previous.ended_at) >= 0 < previous.ttl_ms
        return has_times and self.sent_at - previous.ended_at > previous.ttl_ms + CLOCK_TOLERANCE_MS


class CacheUsage(NamedTuple):
    """Tokens of a call: read from the cache, written to it for ``ttl_ms`` milliseconds, and sent uncached."""

    read: int
    written: int
    fresh: int
    ttl_ms: int

    @property
    def size(self) -> int:
        """Size of the prompt in tokens."""
        return self.read + self.written + self.fresh


@dataclass(slots=True)
class _CacheEntry:
    end: int
    key: Hashable
    block: int
    ttl_ms: int
    last_used: int


class PromptCache:
    """The cache entries that one conversation's calls leave; the calls must be added in order."""

    def __init__(self) -> None:
        self._entries: list[_CacheEntry] = []
        self._blocks = 0
        self._clock = self._size = 0

    def copy(self) -> PromptCache:
        """Return an independent copy of the cache, which can be updated without changing this one."""
        cache = copy(self)
        cache._entries = [_CacheEntry(e.end, e.key, e.block, e.ttl_ms, e.last_used) for e in self._entries]
        return cache

    def update(self, request: CacheRequest) -> CacheUsage:
        """Add the next call to the cache, and return how many of its tokens are read, written and uncached."""
        now = request.sent_at if request.sent_at >= 0 else self._clock
        self._clock = max(self._clock, now, request.ended_at)
        self._blocks += request.new_blocks
        if request.unchanged_prefix < self._size:
            if request.anywhere:
                for entry in self._entries:
                    entry.end = min(entry.end, request.unchanged_prefix)
            else:
                self._entries = [entry for entry in self._entries if entry.end <= request.unchanged_prefix]
        self._remove_dead_entries(now)
        readable = [] if request.miss_reason else [entry for entry in self._entries if entry.key == request.key]
        longest = max(readable, key=lambda entry: entry.end, default=None)
        cacheable = max(request.size - request.tail, 0)
        read = min(max(longest.end if longest else 0, request.floor), cacheable)
        if longest:
            longest.last_used = self._clock
        if request.ttl_ms:
            self._entries.append(_CacheEntry(cacheable, request.key, self._blocks, request.ttl_ms, self._clock))
        self._size = request.size
        written = cacheable - read if request.ttl_ms else 0
        return CacheUsage(read, written, request.size - read - written, request.ttl_ms)

    def append_reply(self, tokens: int) -> None:
        """Extend the last entry by *tokens* because another request cached the last call's reply."""
        if self._entries:
            self._entries[-1].end += tokens

    def _remove_dead_entries(self, now: int) -> None:
        newest = self._entries[-1] if self._entries else None
        self._entries = [
            entry
            for entry in self._entries
            if now - entry.last_used <= entry.ttl_ms + CLOCK_TOLERANCE_MS
            and (entry is newest or self._blocks - entry.block <= LOOKBACK)
        ][-LOOKBACK:]
