"""Exact tokenizers, an optional extra: the encoding of a model, and a counter of its tokens."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from context_tui.errors import MeasureError
from context_tui.session.session import Session
from context_tui.session.values import Checkpoint
from context_tui.tokens.measures import TokenTable, build_exact_table

INSTALL_COMMAND = "pip install 'context-tui[exact]'"
CHUNK_CHARACTERS = 4_000_000
"""Maximum characters tokenized at once."""
_O200K = re.compile(r"(^|/)(chatgpt-4o|gpt-4o|gpt-4\.[15]|gpt-[5-9]|codex|o\d)(?![a-z0-9])", re.IGNORECASE)
_HARMONY = re.compile(r"(^|/)gpt-oss", re.IGNORECASE)
_CL100K = re.compile(r"(^|/)(gpt-4|gpt-3\.5|gpt-35|text-embedding-[3a])", re.IGNORECASE)


class Tokenizer(NamedTuple):
    """Counter of a text's tokens, name of the encoding, and a note whether the encoding is the model's own."""

    count: Callable[[str], int]
    name: str
    note: str


def find_encoding(model: str) -> tuple[str, bool]:
    """Return the encoding for a model, and whether it is the model's own (as for OpenAI's models)."""
    for pattern, encoding in ((_HARMONY, "o200k_harmony"), (_O200K, "o200k_base"), (_CL100K, "cl100k_base")):
        if pattern.search(model):
            return encoding, True
    return "o200k_base", False


def load_tokenizer(model: str) -> Tokenizer:
    """Load a counter for the texts of a model.

    Raises:
        MeasureError: the extra is not installed, or does not work here.
    """
    encoding, is_native = find_encoding(model)
    note = "the model's own tokenizer" if is_native else "not this model's tokenizer"
    return Tokenizer(_load_counter(encoding), encoding.removesuffix("_base"), note)


@lru_cache(maxsize=2)
def _load_counter(encoding: str) -> Callable[[str], int]:
    try:
        from quicktok import get_encoding
    except ImportError as error:
        raise MeasureError(f"the exact ruler needs a tokenizer that is not installed: {INSTALL_COMMAND}") from error
    try:
        count = get_encoding(encoding).count
    except Exception as error:
        raise MeasureError(
            f"the exact ruler does not work here: quicktok: {error}; reinstall it: {INSTALL_COMMAND}"
        ) from error

    def count_text(text: str) -> int:
        if len(text) > CHUNK_CHARACTERS:
            return sum(count_text(text[at : at + CHUNK_CHARACTERS]) for at in range(0, len(text), CHUNK_CHARACTERS))
        try:
            return int(count(text))
        except TypeError:  # a lone surrogate, which no tokenizer accepts
            return int(count(text.encode("utf-8", "replace").decode()))

    return count_text


def measure_exactly(session: Session, checkpoint: Checkpoint = lambda: None) -> TokenTable:
    """Measure the texts of a session by the tokenizer of its model if there is one, else by another tokenizer.

    Raises:
        MeasureError: the extra is not installed, or does not work here.
    """
    count, name, note = load_tokenizer(session.facts.model or "")
    return build_exact_table(session, count, name, note, checkpoint)
