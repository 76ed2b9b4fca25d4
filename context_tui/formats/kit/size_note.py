"""A note in an exported session about the size of its context.

The messages of a compacted session do not tell how large the next request is: the system prompt, the tools and the
factors of the tokenizer are known from the original recording only, and the model too if no reply remains. An export to
the format of the same agent notes them after its last message, in a record or member that the agent ignores. The note
applies until a request records a size.
"""

from __future__ import annotations

from dataclasses import astuple, replace
from typing import Any

import msgspec

from context_tui.formats.kit.values import as_object
from context_tui.session.blocks import bytes_to_tokens
from context_tui.session.facts import Facts
from context_tui.session.losses import Losses
from context_tui.session.token_factors import SizeBasis
from context_tui.session.validation import MAX_TOKENS
from context_tui.session.values import Kind
from context_tui.text.sanitize import truncate_name

SIZE_NOTE = "context_tui"
"""Name of the member with the note."""
MAX_RATIO = 100_000.0
"""Upper limit of a note's factors and errors."""


def build_size_note(facts: Facts, losses: Losses) -> dict[str, Any]:
    """Return the member that notes the size of a session less the content in *losses*, or {} if it is unknown."""
    basis = facts.size_basis
    if basis is None:
        return {}
    weights = {kind: weight for kind, weight in losses.removed.items() if kind != Kind.IMAGE}
    removed = sum(bytes_to_tokens(weight) * basis.factors.get_factor(kind) for kind, weight in weights.items())
    removed += losses.removed[Kind.IMAGE] * (basis.factors.image or 0)
    tokens = max(basis.tokens - round(removed), basis.fixed + basis.put_back)
    return {SIZE_NOTE: msgspec.to_builtins(replace(basis, tokens=tokens, model=facts.model or ""))}


def parse_size_note(record: object) -> SizeBasis | None:
    """Return the size in the note of a record, or None if it has no valid note."""
    try:
        basis = msgspec.convert(as_object(record).get(SIZE_NOTE), SizeBasis)
    except msgspec.ValidationError:
        return None
    factors = [factor or 0.0 for factor in astuple(basis.factors)]
    ratios = basis.error, basis.size_error, *factors
    has_valid_sizes = min(basis.fixed, basis.put_back) >= 0 and basis.fixed + basis.put_back <= basis.tokens
    is_valid = has_valid_sizes and basis.tokens <= MAX_TOKENS // 2 and all(0 <= ratio <= MAX_RATIO for ratio in ratios)
    return replace(basis, model=truncate_name(basis.model)) if is_valid else None
