"""A prompt cache: what of each call is read from it, what is written to it, and what is sent anew.

A call leaves an entry where its prompt ends (behind the last breakpoint). A later call reads the longest entry that its
own prompt begins with, that belongs to the same model and settings, and whose time has not passed since it was last
used. Rules and times to live: https://platform.claude.com/docs/en/build-with-claude/prompt-caching
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

Reuse = Literal["breakpoints", "anywhere"]
"""What a prompt reads that changed somewhere: ``breakpoints``, the longest entry before the change, which is the end of
an earlier call if one is near enough, else the system prompt; or ``anywhere``, all that is before the change.

By the recordings at hand it is the first: of eight calls within the cache's time whose messages had changed, seven read
the system prompt, also where 10,000 tokens of messages before the change were the same, and one what the third call
before it had left. None read up to the change.
"""
LOOKBACK = 20
"""Blocks that a provider looks back from a breakpoint for an entry; the call before always has one that is found."""
GRACE = 5_000
"""Milliseconds by which the times that a client wrote down may be off from those of the cache."""


class Sent(NamedTuple):
    """One call as a cache sees it.

    Attributes:
        size: tokens of its prompt.
        kept: tokens at its beginning that are the same as in the call before it; more than that had: nothing changed.
        tail: tokens at its end behind the last breakpoint: they are never written.
        sent: when it was sent, and ``ended`` when its reply was there, in epoch milliseconds; -1: unknown.
        key: model and settings; entries of another key are not read.
        lives: milliseconds that an entry it writes lives without being used; 0: it writes none.
        blocks: blocks that were appended since the call before.
        floor: tokens at its beginning that are cached whatever became of the rest: those of other sessions.
        answered: tokens of its reply that another request has put in the cache behind it.
        lost: why what the call before left is not there, where something says so; None: nothing does.
        seen: tokens that were read when it was recorded, where that is not what these rules say; None: it is.
        anywhere: whether a prompt that changed is still read up to the first change (:data:`Reuse`), as in caches of
            small blocks that fill themselves.
    """

    size: int
    kept: int
    tail: int = 0
    sent: int = -1
    ended: int = -1
    key: Hashable = None
    lives: int = 300_000
    blocks: int = 0
    floor: int = 0
    answered: int = 0
    lost: str | None = None
    seen: int | None = None
    anywhere: bool = False

    def late(self, before: Sent) -> bool:
        """Whether what the call *before* left was past its time when this one was sent."""
        known = min(self.sent, before.ended) >= 0 < before.lives
        return known and self.sent - before.ended > before.lives + GRACE


class Used(NamedTuple):
    """Tokens of one call that were read from the cache, written to it (to live ``lives`` ms), and sent besides."""

    read: int
    written: int
    fresh: int
    lives: int

    @property
    def size(self) -> int:
        """Tokens of the prompt."""
        return self.read + self.written + self.fresh


@dataclass(slots=True)
class _Entry:
    end: int
    key: Hashable
    block: int
    lives: int
    used: int


class PromptCache:
    """The entries that the calls of one conversation leave; calls are to come in order."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._blocks = 0
        self._clock = self._size = 0

    def copy(self) -> PromptCache:
        """The same entries, to go on from apart."""
        other = PromptCache()
        other._entries = [_Entry(e.end, e.key, e.block, e.lives, e.used) for e in self._entries]
        other._blocks, other._clock, other._size = self._blocks, self._clock, self._size
        return other

    def take(self, call: Sent) -> Used:
        """What becomes of the next call."""
        now = call.sent if call.sent >= 0 else self._clock
        self._clock = max(self._clock, now, call.ended)
        self._blocks += call.blocks
        if call.kept < self._size:
            self._cut(call.kept, anywhere=call.anywhere)
        entry = None if call.lost else self._found(call.key, now)
        covered = max(call.size - call.tail, 0)
        read = min(max(entry.end if entry else 0, call.floor), covered)
        if entry:
            entry.used = self._clock
        if call.lives:
            self._entries.append(_Entry(covered, call.key, self._blocks, call.lives, self._clock))
        self._size = call.size
        written = covered - read if call.lives else 0
        return Used(read, written, call.size - read - written, call.lives)

    def answered(self, tokens: int) -> None:
        """Another request has put the last reply, of so many tokens, in the cache behind the last call."""
        if self._entries:
            self._entries[-1].end += tokens

    def _cut(self, kept: int, *, anywhere: bool) -> None:
        """Entries that go further than *kept* tokens are no beginning of this prompt, nor of later ones."""
        if anywhere:
            for entry in self._entries:
                entry.end = min(entry.end, kept)
        else:
            self._entries = [entry for entry in self._entries if entry.end <= kept]

    def _found(self, key: Hashable, now: int) -> _Entry | None:
        """The longest entry that can be read; those that never can be again are forgotten."""
        last = self._entries[-1] if self._entries else None
        self._entries = [
            entry
            for entry in self._entries
            if now - entry.used <= entry.lives + GRACE and (entry is last or self._blocks - entry.block <= LOOKBACK)
        ][-LOOKBACK:]
        return max((entry for entry in self._entries if entry.key == key), key=lambda entry: entry.end, default=None)


def used(calls: Iterable[Sent]) -> list[Used]:
    """What becomes of each of *calls*, in order."""
    cache, found, answered = PromptCache(), list[Used](), 0
    for call in calls:
        cache.answered(answered)
        found.append(cache.take(call))
        answered = call.answered
    return found
