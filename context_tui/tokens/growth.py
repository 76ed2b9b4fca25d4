"""Block sizes from whole requests: the growth from one request to the next is the size of the appended messages."""

from __future__ import annotations

from array import array
from collections.abc import Callable

from context_tui.session.facts import Facts, PromptPart, epoch_at, find_last_rewrite, prompt_at
from context_tui.session.values import Checkpoint

MAX_SCALE = 4.0
"""Maximum ratio of a recorded growth to its estimate; above it, the estimate is kept."""
SMALL_GROWTH = 500
"""Growth in tokens up to which any ratio is accepted: the provider's framing of messages outweighs short texts."""

PartSizes = dict[PromptPart, int]
"""Tokens of the parts of system prompts and tools."""


def fit_to_growth(
    facts: Facts, blocks: array[int], count_part: Callable[[PromptPart, bool], int], checkpoint: Checkpoint
) -> PartSizes:
    """Scale the sizes of *blocks* in place to the recorded size of each request; return the sizes of prompt parts.

    For files that hold whole requests. Estimates are kept if content was cleared or the model changed meanwhile.
    """
    parts: PartSizes = {}
    last_epoch, last_row = -1, -1
    for row, reply in enumerate(facts.request_message):
        checkpoint()
        prompt, recorded, epoch = prompt_at(facts, reply), facts.requests[row].context, epoch_at(facts, reply)
        new_parts = {
            part: count_part(part, is_tool)
            for prompt_parts, is_tool in ((prompt.system, False), (prompt.tools, True))
            for part in prompt_parts
            if part not in parts
        }
        target = recorded
        if epoch.message != last_epoch or last_row < 0:
            new_prefix = [message for message in epoch.prefix if not _is_fitted(facts, message, last_row)]
            messages = [*new_prefix, *range(epoch.start, reply)]
            known_prefix = (message for message in epoch.prefix if _is_fitted(facts, message, last_row))
            target -= sum(parts.get(part, 0) for part in (*prompt.system, *prompt.tools))
            target -= sum(blocks[block] for message in known_prefix for block in facts.blocks_of(message))
        else:
            messages = [*range(facts.request_message[last_row], reply)]
            target -= facts.requests[last_row].context
            same_model = facts.request_model[row] == facts.request_model[row - 1]
            if find_last_rewrite(facts, reply) > facts.request_message[last_row] or not same_model:
                target = 0
        last_epoch, last_row = epoch.message, row
        estimated = [block for message in messages for block in facts.blocks_of(message)]
        total = sum(map(blocks.__getitem__, estimated)) + sum(new_parts.values())
        scale = target / total if total and target > 0 else 1.0
        if scale > MAX_SCALE and target > SMALL_GROWTH:
            scale = 1.0
        exact = rounded = 0.0  # the running sums keep rounding errors from adding up
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
    """Return whether a message was part of an earlier request and fitted to the size of that request."""
    return last_row >= 0 and message < facts.request_message[last_row]
