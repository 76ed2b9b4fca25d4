"""Prompt caches of three providers: how much of a prompt is read from the cache, and written to it.

Anthropic caches up to the breakpoints of a request, for five minutes or an hour, and looks twenty blocks back from each
for an older entry; OpenAI and Gemini cache by themselves, in blocks of tokens from 1,024 tokens on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from scripts.agents.prompt import Prompt

LEAST_TOKENS = 1_024
"""The shortest prompt that is cached."""
BLOCK_TOKENS = 128
"""Tokens of a block of the prompt caches that need no breakpoints."""
SECONDS = 300
"""Seconds that an entry lives after its last use."""
LOOK_BACK = 20
"""Blocks before a breakpoint at which an older entry is looked for."""


class CacheUse(NamedTuple):
    """Tokens of a prompt: ``fresh`` ones, those ``read`` from the cache, and those ``written`` to it (Anthropic)."""

    fresh: int
    read: int
    written: int = 0


@dataclass
class PromptCache:
    """Prompt cache of a provider; time is in seconds."""

    _entries: dict[bytes, float] = field(default_factory=dict)

    def use(self, prompt: Prompt, now: float) -> CacheUse:
        """Return the tokens of a prompt by their way through the cache, and cache the prompt."""
        self._entries = {key: used for key, used in self._entries.items() if now - used <= SECONDS}
        return self._use_breakpoints(prompt, now) if prompt.api == "anthropic" else self._use_blocks(prompt, now)

    def _use_breakpoints(self, prompt: Prompt, now: float) -> CacheUse:
        prefixes = list(_iterate_part_prefixes(prompt))
        points = [index for index, part in enumerate(prompt.parts) if part.breakpoint]
        if not points or prefixes[points[-1]].tokens < LEAST_TOKENS:
            return CacheUse(prompt.tokens, 0)
        candidates = sorted({index for point in points for index in range(max(0, point - LOOK_BACK), point + 1)})
        hits = [prefixes[index] for index in candidates if prefixes[index].key in self._entries]
        read = hits[-1].tokens if hits else 0
        for prefix in [*hits[-1:], *(prefixes[point] for point in points)]:
            self._entries[prefix.key] = now
        end = prefixes[points[-1]].tokens
        return CacheUse(prompt.tokens - end, read, max(end - read, 0))

    def _use_blocks(self, prompt: Prompt, now: float) -> CacheUse:
        keys = list(_iterate_block_keys(prompt))
        hits = next((number for number, key in enumerate(keys) if key not in self._entries), len(keys))
        self._entries.update(dict.fromkeys(keys, now))
        read = hits * BLOCK_TOKENS
        read = read if read >= LEAST_TOKENS else 0
        return CacheUse(prompt.tokens - read, read)


class _Prefix(NamedTuple):
    key: bytes
    tokens: int


def _iterate_part_prefixes(prompt: Prompt) -> Iterator[_Prefix]:
    digest, tokens = hashlib.sha256(prompt.model.encode()), 0
    for part in prompt.parts:
        digest.update(f"\0{part.kind}\0{part.role}\0{part.name}\0{part.id}\0{part.text}".encode("utf-8", "replace"))
        tokens += part.tokens
        yield _Prefix(digest.digest(), tokens)


def _iterate_block_keys(prompt: Prompt) -> Iterator[bytes]:
    """Yield a key for each whole block of tokens: it depends on all tokens up to the end of the block."""
    digest, ids = hashlib.sha256(prompt.model.encode()), list[int]()
    for part in prompt.parts:
        ids += part.token_ids
    for start in range(0, len(ids) - BLOCK_TOKENS + 1, BLOCK_TOKENS):
        digest.update(repr(ids[start : start + BLOCK_TOKENS]).encode())
        yield digest.digest()
