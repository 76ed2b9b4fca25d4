"""Token measures, which count the tokens in every block of a session by calibration or with an exact tokenizer."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

from context_tui.errors import MeasureError
from context_tui.session.blocks import body_to_text, bytes_to_tokens
from context_tui.session.context import Body, Context
from context_tui.session.facts import (
    Facts,
    Prompt,
    PromptPart,
    epoch_at,
    find_last_rewrite,
    find_prompt_row,
    order_at,
    prompt_at,
)
from context_tui.session.jsontext import compact_text, utf8_len
from context_tui.session.session import Session
from context_tui.session.token_factors import PRIOR, Factors, is_recorded_reply
from context_tui.session.values import Checkpoint, Kind
from context_tui.tokens.accounting import find_fixed_blocks
from context_tui.tokens.calibration import Calibration, calibrate
from context_tui.tokens.context_index import index_context

TYPICAL_IMAGE_TOKENS = 1_500
"""Assumed tokens of an image of unknown size; Anthropic counts at most 1,600 for an image."""


class TokenMeasure(StrEnum):
    """The measures that a user can choose; OWN is the ``bytes/4`` estimate that agents use."""

    CALIBRATED = "calibrated"
    EXACT = "exact"
    OWN = "own"


@dataclass(frozen=True, eq=False)
class TokenTable:
    """The size of every block in a session by one measure; None in place of a table stands for ``bytes/4``.

    Attributes:
        name: ``calibrated``, or the encoding of an exact tokenizer.
        note: accuracy of a calibration (for the model with the most requests), or whether a tokenizer is the model's.
        blocks: tokens of each block; ``messages`` has those of each message.
        count_body: counts the tokens of a body that replaces a block; ``count_text`` those of an inserted text.
        count_part: counts the tokens of a part of the system prompt or, if the second argument is True, of a tool
            schema.
        prompts: tokens of the system prompt and of the tool schemas in the file, for each of ``Facts.prompts``.
        calibrations: one calibration for each model; empty for a tokenizer.
        uniform: whether the size of a body is the same for every result that it replaces.
        is_calibrated: whether the recorded sizes were usable for calibration.
        get_factor: returns the typical tokens per estimated token (``bytes/4``) of a kind of block.
    """

    measure: TokenMeasure
    name: str
    note: str
    blocks: array[int]
    count_body: Callable[[int, Body], int]
    count_text: Callable[[str], int]
    count_part: Callable[[PromptPart, bool], int]
    prompts: tuple[tuple[int, int], ...] = ()
    calibrations: tuple[Calibration, ...] = ()
    uniform: bool = True
    messages: array[int] = field(default_factory=lambda: array("l"))
    is_calibrated: bool = False
    get_factor: Callable[[int], float] = lambda kind: 1.0

    def prompt_at(self, facts: Facts, at: int) -> tuple[int, int]:
        """Return the tokens in the system prompt and tool schemas before message *at*, as far as the file has them."""
        return self.prompts[find_prompt_row(facts, at)] if self.prompts else (0, 0)

    @property
    def label(self) -> str:
        """Label shown before token counts of this measure, such as ``est.`` for ``bytes/4``."""
        if self.measure is not TokenMeasure.CALIBRATED:
            return self.name
        return "cal." if self.is_calibrated else "est."

    def describe(self, context: Context) -> str:
        """Return the name of the measure, followed by its accuracy in a context."""
        note = self.note_at(context)
        return f"{self.name} ({note})" if note else self.name

    def note_at(self, context: Context) -> str:
        """Return the note on the accuracy of the measure for the model of a context."""
        has_own_note = context.facts.holds_requests or context.facts.size_basis or not self.calibrations
        return self.note if has_own_note else format_calibration(self.calibration_at(context))

    def count_block_tokens(self, context: Context, row: int) -> int:
        """Return the tokens that a block has in a context, where its body may be replaced.

        A block that was added to the file after the measurement counts 0 until the session is measured again.
        """
        body = context.replacements.get(row)
        if body is not None:
            return self.count_body(row, body)
        return self.blocks[row] if row < len(self.blocks) else 0

    def compute_prefix_sums(self, context: Context) -> list[int]:
        """Return the number of tokens before each position in a context, with the total at the end, computed once."""
        key = TokenTable.compute_prefix_sums, self
        if key not in context.memo:
            tokens = list(map(self.messages.__getitem__, context.order))
            if context.replacements:
                positions, owner = index_context(context).position_of, context.facts.block_message
                for row, body in context.replacements.items():
                    position = positions.get(owner[row])
                    if position is not None:
                        tokens[position] += self.count_body(row, body) - self.blocks[row]
            context.memo[key] = list(accumulate(tokens, initial=0))
        sums: list[int] = context.memo[key]
        return sums

    def convert_estimate(self, tokens: int, kind: Kind = Kind.TEXT) -> int:
        """Convert the estimated tokens (``bytes/4``) of content that is not in the file to this measure."""
        return round(tokens * self.get_factor(kind))

    def calibration_at(self, context: Context) -> Calibration | None:
        """Return the calibration for the model of a context, or None if there is none, as for a tokenizer."""
        model = find_model_before(context.facts, context.at)
        return next((calibration for calibration in self.calibrations if calibration.model == model), None)


def find_model_before(facts: Facts, at: int) -> str:
    """Return the model of the last request before message *at*, else of the first request, or "" if unknown."""
    row = max(bisect_left(facts.request_message, at) - 1, 0)
    model = facts.request_model[row] if row < len(facts.request_model) else -1
    return facts.models[model] if model >= 0 else ""


# Calibrated


def build_calibrated_table(
    facts: Facts, checkpoint: Checkpoint = lambda: None, earlier: TokenTable | None = None
) -> TokenTable:
    """Measure the blocks of a session with factors fitted to its recorded sizes.

    The factors of a message are those of the model whose request first sent it. The overhead of a request is added to
    the last block of its reply that is not a result, usually the tool call. A tool result that holds an image is
    measured as an image. The result keeps the factors and sizes of *earlier*, which is the session's table before it
    grew. Blocks that another thread appends meanwhile are not measured.
    """
    calibrations = earlier.calibrations if earlier else calibrate(facts, checkpoint)
    factors = {calibration.model: calibration.factors for calibration in calibrations}
    block_count = len(facts.kind)
    by_message = _map_factors(facts, factors)
    blocks = array("l", bytes(array("l").itemsize * block_count))
    has_overhead = bytearray(block_count)
    start = 0
    if earlier:
        blocks[: len(earlier.blocks)] = earlier.blocks
        start = min(facts.block_message[len(earlier.blocks) : block_count], default=len(by_message))
    for message in range(start, len(by_message)):
        checkpoint()
        message_factors, last_row, last_tokens = by_message[message], -1, 0.0
        for row in (row for row in facts.blocks_of(message) if row < block_count):
            tokens = message_factors.count_block_tokens(facts, row)
            tokens = TYPICAL_IMAGE_TOKENS if tokens is None else tokens
            blocks[row] = round(tokens)
            if facts.kind[row] != Kind.TOOL_RESULT:
                last_row, last_tokens = row, tokens
        if last_row >= 0 and is_recorded_reply(facts, message):
            has_overhead[last_row] = 1
            blocks[last_row] = round(last_tokens + message_factors.request_overhead)

    def count_body(row: int, body: Body) -> int:
        if body.removed:
            return 0
        message_factors = by_message[facts.block_message[row]]
        overhead = message_factors.request_overhead if has_overhead[row] else 0.0
        return round(bytes_to_tokens(body.size) * message_factors.get_factor(facts.kind[row]) + overhead)

    newest, basis = by_message[-1] if by_message else PRIOR, facts.size_basis

    def estimate_part(part: PromptPart, is_tool: bool) -> int:
        return round(bytes_to_tokens(part.size) * (newest.call if is_tool else newest.text))

    count_part = earlier.count_part if earlier else estimate_part
    fitted = fit_to_growth(facts, blocks, estimate_part, checkpoint) if facts.holds_requests else {}
    scale = 1.0 if earlier or fitted else _fit_to_first_request(facts, blocks, estimate_part)

    note = format_calibration(max(calibrations, key=lambda calibration: calibration.requests, default=None))
    table = TokenTable(
        TokenMeasure.CALIBRATED,
        "calibrated",
        "by the growth of whole requests" if fitted else "as the original" if basis else note,
        blocks,
        count_body,
        lambda text: round(bytes_to_tokens(utf8_len(text)) * newest.text),
        lambda part, is_tool: fitted[part] if part in fitted else int(count_part(part, is_tool) * scale),
        calibrations=tuple(calibrations),
        is_calibrated=bool(fitted) or (basis.is_calibrated if basis else any(each.usable for each in calibrations)),
        uniform=len(set(map(id, by_message))) <= 1,
        get_factor=newest.get_factor,
    )
    return _complete_table(facts, table, checkpoint)


def _fit_to_first_request(facts: Facts, blocks: array[int], count_part: Callable[[PromptPart, bool], int]) -> float:
    """Scale the *blocks* of the first request down to its recorded size; return the scale, to apply to prompt parts."""
    if not facts.requests or not facts.requests[0].context:
        return 1.0
    at = facts.request_message[0]
    rows = [row for message in order_at(facts, at)[1] for row in facts.blocks_of(message)]
    total = sum(_count_prompt(prompt_at(facts, at), count_part)) + sum(map(blocks.__getitem__, rows))
    scale = min(facts.requests[0].context / total, 1.0) if total else 1.0
    if scale < 1:
        for row in dict.fromkeys((*rows, *find_fixed_blocks(facts))):  # the latter are inserted again later
            blocks[row] = int(blocks[row] * scale)
    return scale


def _map_factors(facts: Facts, factors: Mapping[str, Factors]) -> list[Factors]:
    """Map each message to the factors of the model whose request first sent it, or of the last request."""
    by_message: list[Factors] = []
    current = facts.size_basis.factors if facts.size_basis else PRIOR
    for reply, model in zip(facts.request_message, facts.request_model, strict=True):
        current = factors.get(facts.models[model] if model >= 0 else "", PRIOR)
        by_message += [current] * (reply + 1 - len(by_message))
    return by_message + [current] * (len(facts) - len(by_message))


def format_calibration(calibration: Calibration | None) -> str:
    """Format a calibration's median error or, if it is not usable, the factors used instead and the reason."""
    if calibration is None:
        return "typical factors: no request recorded a size"
    if not calibration.usable or calibration.error is None:
        return f"{calibration.fallback}: {calibration.reason}"
    return f"±{max(calibration.error.median, 0.001):.1%}".replace("%", " %")


# Exact


def build_exact_table(
    session: Session, count: Callable[[str], int], name: str, note: str = "", checkpoint: Checkpoint = lambda: None
) -> TokenTable:
    """Measure the texts in a session with the tokenizer *count* of encoding *name*; *note* relates it to the model.

    This counts texts, visible thinking, names and arguments (as compact JSON) of calls, and texts of results.
    Images, signatures and the provider's framing count 0.
    """
    facts, content = session.facts, session.content
    blocks = array("l", bytes(array("l").itemsize * len(facts.kind)))
    for message in range(len(facts)):
        checkpoint()
        for row, block in zip(facts.blocks_of(message), content.blocks(message), strict=False):
            if text := _get_countable_text(block):
                blocks[row] = count(text)

    def count_body(row: int, body: Body) -> int:
        if body.removed:
            return 0
        if body.text is None:
            return bytes_to_tokens(body.size)
        tool_name = facts.tool_name(row) if facts.kind[row] == Kind.TOOL_USE else ""
        return count(tool_name + body.text)

    ratio = sum(blocks) / (sum(map(bytes_to_tokens, facts.size)) or 1) or 1.0
    counters = count_body, count, lambda part, is_tool: count(part.text)
    table = TokenTable(TokenMeasure.EXACT, name, note, blocks, *counters, get_factor=lambda kind: ratio)
    return _complete_table(facts, table, checkpoint)


def _get_countable_text(block: Mapping[str, Any]) -> str:
    match block.get("type"):
        case "text" | "thinking" as kind:
            return str(block.get(kind) or "")
        case "tool_use":
            return f"{block.get('name') or ''}{compact_text(block.get('input') or {})}"
        case "tool_result":
            return body_to_text(block.get("content"))
    return ""


# Both


def _complete_table(facts: Facts, table: TokenTable, checkpoint: Checkpoint) -> TokenTable:
    messages, blocks = array("l"), table.blocks
    for message in range(len(facts)):
        checkpoint()
        messages.append(sum(blocks[row] for row in facts.blocks_of(message) if row < len(blocks)))
    prompts = tuple(_count_prompt(prompt, table.count_part) for prompt in facts.prompts)
    return replace(table, messages=messages, prompts=prompts)


def _count_prompt(prompt: Prompt, count: Callable[[PromptPart, bool], int]) -> tuple[int, int]:
    return sum(count(part, False) for part in prompt.system), sum(count(part, True) for part in prompt.tools)


MAX_SCALE = 4.0
"""Maximum ratio of a recorded growth to its estimate; above it, the estimate is kept."""
SMALL_GROWTH = 500
"""Growth in tokens up to which any ratio is accepted: the provider's framing of messages outweighs short texts."""

PartSizes = dict[PromptPart, int]
"""Tokens of the parts of system prompts and tools."""


def fit_to_growth(
    facts: Facts, blocks: array[int], count_part: Callable[[PromptPart, bool], int], checkpoint: Checkpoint
) -> PartSizes:
    """Scale the sizes of *blocks* in place to the recorded size of each request, and return the sizes of prompt parts.

    This is for files with whole requests. Estimates stay where content was cleared or the model changed in between.
    """
    parts: PartSizes = {}
    last_epoch, last_row = -1, -1
    for row, reply in enumerate(facts.request_message):
        checkpoint()
        prompt, recorded, epoch = prompt_at(facts, reply), facts.requests[row].context, epoch_at(facts, reply)
        prompt_parts = [*((part, False) for part in prompt.system), *((part, True) for part in prompt.tools)]
        new_parts = {part: count_part(part, is_tool) for part, is_tool in prompt_parts if part not in parts}
        target = recorded
        if epoch.message != last_epoch or last_row < 0:
            new_prefix = [message for message in epoch.prefix if not _is_fitted(facts, message, last_row)]
            messages = [*new_prefix, *range(epoch.start, reply)]
            known_prefix = (message for message in epoch.prefix if _is_fitted(facts, message, last_row))
            target -= sum(parts.get(part, 0) for part, _ in prompt_parts)
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
    return last_row >= 0 and message < facts.request_message[last_row]


INSTALL_COMMAND = "pip install 'context-tui[exact]'"
CHUNK_CHARACTERS = 4_000_000
"""Maximum characters tokenized at once."""
_O200K = re.compile(r"(^|/)(chatgpt-4o|gpt-4o|gpt-4\.[15]|gpt-[5-9]|codex|o\d)(?![a-z0-9])", re.IGNORECASE)
_HARMONY = re.compile(r"(^|/)gpt-oss", re.IGNORECASE)
_CL100K = re.compile(r"(^|/)(gpt-4|gpt-3\.5|gpt-35|text-embedding-[3a])", re.IGNORECASE)


class Tokenizer(NamedTuple):
    """A function that counts a text's tokens, the encoding's name, and a note on whether it is the model's own."""

    count: Callable[[str], int]
    name: str
    note: str


def find_encoding(model: str) -> tuple[str, bool]:
    """Return the name of the encoding for a model, and whether it is the model's own (as for OpenAI's models)."""
    for pattern, encoding in ((_HARMONY, "o200k_harmony"), (_O200K, "o200k_base"), (_CL100K, "cl100k_base")):
        if pattern.search(model):
            return encoding, True
    return "o200k_base", False


def load_tokenizer(model: str) -> Tokenizer:
    """Load the tokenizer for a model, raising MeasureError if the optional dependency is missing or does not work."""
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
        reason = f"the exact ruler does not work here: quicktok: {error}"
        raise MeasureError(f"{reason}; reinstall it: {INSTALL_COMMAND}") from error

    def count_text(text: str) -> int:
        if len(text) > CHUNK_CHARACTERS:
            return sum(count_text(text[at : at + CHUNK_CHARACTERS]) for at in range(0, len(text), CHUNK_CHARACTERS))
        try:
            return int(count(text))
        except TypeError:  # a lone surrogate, which no tokenizer accepts
            return int(count(text.encode("utf-8", "replace").decode()))

    return count_text


def measure_exactly(session: Session, checkpoint: Checkpoint = lambda: None) -> TokenTable:
    """Measure a session with its model's tokenizer or, if there is none, with a similar one; see ``load_tokenizer``."""
    count, name, note = load_tokenizer(session.facts.model or "")
    return build_exact_table(session, count, name, note, checkpoint)
