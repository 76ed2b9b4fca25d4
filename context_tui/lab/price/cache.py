"""A prompt cache: what of each call is read from it, what is written to it, and what is sent anew.

A call leaves an entry where its prompt ends (behind the last breakpoint). A later call reads the longest entry that its
own prompt begins with, that belongs to the same model and settings, and whose time has not passed since it was last
used. Rules and times to live: https://platform.claude.com/docs/en/build-with-claude/prompt-caching
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

CacheReuse = Literal["breakpoints", "anywhere"]
"""What a prompt reads that changed somewhere: ``breakpoints``, the longest entry before the change, which is the end of
an earlier call if one is near enough, else the system prompt; or ``anywhere``, all that is before the change.

By the recordings at hand it is the first: of eight calls within the cache's time whose messages had changed, seven read
the system prompt, also where 10,000 tokens of messages before the change were the same, and one what the third call
before it had left. None read up to the change.
"""
LOOKBACK = 20
"""Blocks that a provider looks back from a breakpoint for an entry; the call before always has one that is found."""
CLOCK_TOLERANCE_MS = 5_000
"""Milliseconds by which the times that a client wrote down may be off from those of the cache."""


class CacheRequest(NamedTuple):
    """One call as a cache sees it.

    Attributes:
        size: tokens of its prompt.
        kept: tokens at its beginning that are the same as in the call before it; more than that had: nothing changed.
        tail: tokens at its end behind the last breakpoint: they are never written.
        sent: when it was sent, and ``ended_at`` when its reply was there, in epoch milliseconds; -1: unknown.
        key: model and settings; entries of another key are not read.
        lives: milliseconds that an entry it writes lives without being used; 0: it writes none.
        blocks: blocks that were appended since the call before.
        floor: tokens at its beginning that are cached whatever became of the rest: those of other sessions.
        answered: tokens of its reply that another request has put in the cache behind it.
        lost: why what the call before left is not there, where something says so; None: nothing does.
        seen: tokens that were read when it was recorded, where that is not what these rules say; None: it is.
        anywhere: whether a prompt that changed is still read up to the first change (:data:`CacheReuse`), as in caches of
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
        """Whether what the call *before* left was past its time when this one was sent."""
        known = min(self.sent_at, previous.ended_at) >= 0 < previous.ttl_ms
        return known and self.sent_at - previous.ended_at > previous.ttl_ms + CLOCK_TOLERANCE_MS


class CacheUsage(NamedTuple):
    """Tokens of one call that were read from the cache, written to it (to live ``ttl_ms`` ms), and sent besides."""

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
    """The entries that the calls of one conversation leave; calls are to come in order."""

    def __init__(self) -> None:
        self._entries: list[_CacheEntry] = []
        self._blocks = 0
        self._clock = self._size = 0

    def copy(self) -> PromptCache:
        """The same entries, to go on from apart."""
        other = PromptCache()
        other._entries = [_CacheEntry(e.end, e.key, e.block, e.ttl_ms, e.last_used) for e in self._entries]
        other._blocks, other._clock, other._size = self._blocks, self._clock, self._size
        return other

    def update(self, request: CacheRequest) -> CacheUsage:
        """What becomes of the next call."""
        now = request.sent_at if request.sent_at >= 0 else self._clock
        self._clock = max(self._clock, now, request.ended_at)
        self._blocks += request.new_blocks
        if request.unchanged_prefix < self._size:
            self._truncate_entries(request.unchanged_prefix, anywhere=request.anywhere)
        entry = None if request.miss_reason else self._find_entry(request.key, now)
        covered = max(request.size - request.tail, 0)
        read = min(max(entry.end if entry else 0, request.floor), covered)
        if entry:
            entry.last_used = self._clock
        if request.ttl_ms:
            self._entries.append(_CacheEntry(covered, request.key, self._blocks, request.ttl_ms, self._clock))
        self._size = request.size
        written = covered - read if request.ttl_ms else 0
        return CacheUsage(read, written, request.size - read - written, request.ttl_ms)

    def append_reply(self, tokens: int) -> None:
        """Another request has put the last reply, of so many tokens, in the cache behind the last call."""
        if self._entries:
            self._entries[-1].end += tokens

    def _truncate_entries(self, unchanged_prefix: int, *, anywhere: bool) -> None:
        """Entries that go further than *kept* tokens are no beginning of this prompt, nor of later ones."""
        if anywhere:
            for entry in self._entries:
                entry.end = min(entry.end, unchanged_prefix)
        else:
            self._entries = [entry for entry in self._entries if entry.end <= unchanged_prefix]

    def _find_entry(self, key: Hashable, now: int) -> _CacheEntry | None:
        """The longest entry that can be read; those that never can be again are forgotten."""
        last = self._entries[-1] if self._entries else None
        self._entries = [
            entry
            for entry in self._entries
            if now - entry.last_used <= entry.ttl_ms + CLOCK_TOLERANCE_MS
            and (entry is last or self._blocks - entry.block <= LOOKBACK)
        ][-LOOKBACK:]
        return max((entry for entry in self._entries if entry.key == key), key=lambda entry: entry.end, default=None)


def compute_cache_usage(requests: Iterable[CacheRequest]) -> list[CacheUsage]:
    """What becomes of each of *calls*, in order."""
    cache, found, answered = PromptCache(), list[CacheUsage](), 0
    for call in requests:
        cache.append_reply(answered)
        found.append(cache.update(call))
        answered = call.cached_reply_tokens
    return found
