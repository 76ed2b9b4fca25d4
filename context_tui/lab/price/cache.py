"""Prompt cache model: the tokens of each call that are read from the cache, written to it, and sent uncached.

A call leaves an entry where its prompt ends (after the last breakpoint). A later call reads the longest entry that its
own prompt begins with, that belongs to the same model and settings, and that has not expired since it was last used.
Rules and times to live: https://platform.claude.com/docs/en/build-with-claude/prompt-caching
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

CacheReuse = Literal["breakpoints", "anywhere"]
"""Reuse of the cache by a changed prompt: ``breakpoints``, the longest entry before the change, which is the end of an
earlier call if one is near enough, else the system prompt; or ``anywhere``, everything before the change.

The available recordings show the first: of eight calls within the time to live whose messages had changed, seven read
the system prompt, even where 10,000 tokens of messages before the change were the same, and one the entry of the third
call before it. None read up to the change.
"""
LOOKBACK = 20
"""Blocks that a provider searches back from a breakpoint for an entry; the previous call's entry is always found."""
CLOCK_TOLERANCE_MS = 5_000
"""Milliseconds by which the clocks of client and cache may differ."""


class CacheRequest(NamedTuple):
    """Call as the cache sees it.

    Attributes:
        size: tokens of its prompt.
        unchanged_prefix: tokens at its beginning equal to the previous call; more than that call had: nothing changed.
        tail: tokens after the last breakpoint, which are never written.
        sent_at, ended_at: times of the request and of the end of its reply, in epoch milliseconds; -1: unknown.
        key: model and settings; entries of another key are not read.
        ttl_ms: time to live of an entry that it writes, in milliseconds; 0: it writes none.
        new_blocks: blocks appended since the previous call.
        floor: tokens at its beginning that other sessions keep cached.
        cached_reply_tokens: tokens of its reply that another request has cached after it.
        miss_reason: recorded reason why the entry of the previous call is gone; None: none known.
        recorded_read: tokens read in the recording where these rules predict another number; else None.
        anywhere: whether a changed prompt is still read up to the first change (:data:`CacheReuse`), as in caches of
            small blocks that fill themselves.
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
        """Return whether the entry of the *previous* call had expired when this one was sent."""
        has_times = min(self.sent_at, previous.ended_at) >= 0 < previous.ttl_ms
        return has_times and self.sent_at - previous.ended_at > previous.ttl_ms + CLOCK_TOLERANCE_MS


class CacheUsage(NamedTuple):
    """Tokens of one call that were read from the cache, written to it (to live ``ttl_ms`` ms), and sent uncached."""

    read: int
    written: int
    fresh: int
    ttl_ms: int

    @property
    def size(self) -> int:
        """Tokens of the prompt."""
        return self.read + self.written + self.fresh


@dataclass(slots=True)
class _CacheEntry:
    end: int
    key: Hashable
    block: int
    ttl_ms: int
    last_used: int


class PromptCache:
    """Entries left by the calls of one conversation; calls must come in order."""

    def __init__(self) -> None:
        self._entries: list[_CacheEntry] = []
        self._blocks = 0
        self._clock = self._size = 0

    def copy(self) -> PromptCache:
        """Copy the cache, to continue independently."""
        other = PromptCache()
        other._entries = [_CacheEntry(e.end, e.key, e.block, e.ttl_ms, e.last_used) for e in self._entries]
        other._blocks, other._clock, other._size = self._blocks, self._clock, self._size
        return other

    def update(self, request: CacheRequest) -> CacheUsage:
        """Take the next call, and return its usage."""
        now = request.sent_at if request.sent_at >= 0 else self._clock
        self._clock = max(self._clock, now, request.ended_at)
        self._blocks += request.new_blocks
        if request.unchanged_prefix < self._size:
            self._truncate_entries(request.unchanged_prefix, anywhere=request.anywhere)
        entry = None if request.miss_reason else self._find_entry(request.key, now)
        cacheable = max(request.size - request.tail, 0)
        read = min(max(entry.end if entry else 0, request.floor), cacheable)
        if entry:
            entry.last_used = self._clock
        if request.ttl_ms:
            self._entries.append(_CacheEntry(cacheable, request.key, self._blocks, request.ttl_ms, self._clock))
        self._size = request.size
        written = cacheable - read if request.ttl_ms else 0
        return CacheUsage(read, written, request.size - read - written, request.ttl_ms)

    def append_reply(self, tokens: int) -> None:
        """Record that another request cached the last reply, of this many tokens, after the last call."""
        if self._entries:
            self._entries[-1].end += tokens

    def _truncate_entries(self, unchanged_prefix: int, *, anywhere: bool) -> None:
        """Remove entries longer than *unchanged_prefix* tokens: they are no prefix of this prompt or later ones."""
        if anywhere:
            for entry in self._entries:
                entry.end = min(entry.end, unchanged_prefix)
        else:
            self._entries = [entry for entry in self._entries if entry.end <= unchanged_prefix]

    def _find_entry(self, key: Hashable, now: int) -> _CacheEntry | None:
        """Return the longest readable entry, and remove those that can never be read again."""
        last = self._entries[-1] if self._entries else None
        self._entries = [
            entry
            for entry in self._entries
            if now - entry.last_used <= entry.ttl_ms + CLOCK_TOLERANCE_MS
            and (entry is last or self._blocks - entry.block <= LOOKBACK)
        ][-LOOKBACK:]
        return max((entry for entry in self._entries if entry.key == key), key=lambda entry: entry.end, default=None)


def compute_cache_usage(requests: Iterable[CacheRequest]) -> list[CacheUsage]:
    """Compute the usage of each call, in order."""
    cache, usages, reply_tokens = PromptCache(), list[CacheUsage](), 0
    for call in requests:
        cache.append_reply(reply_tokens)
        usages.append(cache.update(call))
        reply_tokens = call.cached_reply_tokens
    return usages
