"""Sizes from whole requests: what a request has more than the one before it is what was appended."""

from __future__ import annotations

from array import array
from collections.abc import Callable

from context_tui.session.facts import Facts, PromptPart, epoch_at, find_last_rewrite, prompt_at

MAX_SCALE = 4.0
"""Largest ratio between a recorded growth and its estimate that is taken for the size of the content."""
SMALL_GROWTH = 500
"""Tokens up to which any ratio is: in few words, what a provider wraps around messages prevails."""

PartSizes = dict[PromptPart, int]
"""Tokens of the parts of system prompts and tools."""


def fit_to_growth(
    facts: Facts, blocks: array[int], count_part: Callable[[PromptPart, bool], int], checkpoint: Callable[[], object]
) -> PartSizes:
    """Scale the sizes of *blocks* so that each request has its recorded size, and return those of the prompt's parts.

    Only for files that hold whole requests. What was cleared or counted by another model meanwhile is left estimated.
    """
    parts: PartSizes = {}
    last_epoch, last_row, begin = -1, -1, 0
    for row, reply in enumerate(facts.request_message):
        checkpoint()
        prompt, recorded, epoch = prompt_at(facts, reply), facts.requests[row].context, epoch_at(facts, reply)
        new_parts = {
            part: count_part(part, is_tool)
            for each, is_tool in ((prompt.system, False), (prompt.tools, True))
            for part in each
            if part not in parts
        }
        target = recorded
        if epoch.message != last_epoch or last_row < 0:
            begin = epoch.start
            new_prefix = [message for message in epoch.prefix if not _is_fitted(facts, message, last_row)]
            messages = [*new_prefix, *range(begin, reply)]
            known_prefix = (message for message in epoch.prefix if _is_fitted(facts, message, last_row))
            target -= sum(parts.get(part, 0) for part in (*prompt.system, *prompt.tools))
            target -= sum(blocks[block] for message in known_prefix for block in facts.blocks_of(message))
        else:
            messages = [*range(facts.request_message[last_row], reply)]
            target -= facts.requests[last_row].context
            if find_last_rewrite(facts, reply) > facts.request_message[last_row] or not _is_same_model(facts, row):
                target = 0
        last_epoch, last_row = epoch.message, row
        estimated = [block for message in messages for block in facts.blocks_of(message)]
        total = sum(map(blocks.__getitem__, estimated)) + sum(new_parts.values())
        scale = target / total if total and target > 0 else 1.0
        if scale > MAX_SCALE and target > SMALL_GROWTH:
            scale = 1.0
        exact = rounded = 0.0  # so that rounding does not add up
        for block in estimated:
            exact += blocks[block] * scale
            blocks[block] = round(exact - rounded)
            rounded += blocks[block]
        for part, tokens in new_parts.items():
            exact += tokens * scale
            parts[part] = round(exact - rounded)
            rounded += parts[part]
    return parts


def _is_fitted(facts: Facts, message: int, last_row: int) -> bool:
    """Return whether a message was part of an earlier request, whose size it was fitted to."""
    return last_row >= 0 and message < facts.request_message[last_row]


def _is_same_model(facts: Facts, row: int) -> bool:
    return facts.request_model[row] == facts.request_model[row - 1]
