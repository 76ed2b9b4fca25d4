"""Token measures: tokens of every block of a session, by calibration or by an exact tokenizer."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import accumulate
from statistics import median
from typing import Any

from context_tui.session.blocks import body_to_text, bytes_to_tokens
from context_tui.session.context import Body, Context
from context_tui.session.drops import find_drops
from context_tui.session.facts import Facts, PromptPart, epoch_at, prompt_row_at
from context_tui.session.jsontext import compact_text, utf8_len
from context_tui.session.session import Session
from context_tui.session.token_factors import PRIOR, Factors
from context_tui.session.values import BlockFlag, Explanation, Kind
from context_tui.tokens.calibration import Calibration, calibrate
from context_tui.tokens.context_index import index_context
from context_tui.tokens.growth import fit_to_growth
from context_tui.tokens.running_sizes import RunningSizes

TYPICAL_IMAGE_TOKENS = 1_500
"""Tokens that an image is taken to have where none was sized: at Anthropic up to 1,600, by its edges."""


class TokenMeasure(StrEnum):
    """Measure of sizes."""

    OWN = "own"
    CALIBRATED = "calibrated"
    EXACT = "exact"


@dataclass(frozen=True, eq=False)
class TokenTable:
    """Sizes of the blocks of a session by a measure.

    Attributes:
        ruler: which rule.
        name: what it is called: ``calibrated``, or the encoding of an exact tokenizer.
        note: how good it is, in words: the error of the model with the most requests, or what is used
            instead and why; of a tokenizer whether it is the model's own.
        blocks: tokens by block row; ``messages`` and ``sums`` likewise by message, and of all before each message.
        of_text: tokens of a text that is put in, as a summary is.
        count_part: tokens of a part of the system prompt, or of the schema of a tool.
        prompts: tokens of the system prompt and of the tool schemas, as far as they are in the file, each as they
            changed; ``system`` and ``tools`` are the newest.
        calibrations: what each model was found to make of the file's content; none for a tokenizer.
        uniform: whether a body takes the same in the place of any result.
        hidden: tokens that are not in the file, by the name of a model: the median over its requests of recorded -
            measured. A model whose requests show none is not in it.
    """

    measure: TokenMeasure
    name: str
    note: str
    blocks: array[int]
    messages: array[int]
    prefix_sums: array[int]
    count_body: Callable[[int, Body], int]
    count_text: Callable[[str], int]
    count_part: Callable[[PromptPart, bool], int]
    prompts: tuple[tuple[int, int], ...] = ()
    calibrations: tuple[Calibration, ...] = ()
    uniform: bool = True
    not_in_file: Mapping[str, int] = field(default_factory=dict)

    @property
    def system(self) -> int:
        """Tokens of the newest system prompt."""
        return self.prompts[-1][0] if self.prompts else 0

    @property
    def tools(self) -> int:
        """Tokens of the newest tool schemas."""
        return self.prompts[-1][1] if self.prompts else 0

    def prompt_at(self, context: Context) -> tuple[int, int]:
        """Return the tokens of the system prompt and of the tools at the point of a context."""
        return self.prompts[prompt_row_at(context.facts, context.at)] if self.prompts else (0, 0)

    @property
    def label(self) -> str:
        """Label before its tokens, as ``est.`` before estimates by ``bytes/4``."""
        return "cal." if self.measure is TokenMeasure.CALIBRATED else self.name

    @property
    def description(self) -> str:
        """Name of the measure, with its accuracy."""
        return f"{self.name} ({self.note})" if self.note else self.name

    def block_tokens(self, context: Context, row: int) -> int:
        """Return the tokens of a block as it stands in a context."""
        body = context.replacements.get(row)
        return self.blocks[row] if body is None else self.count_body(row, body)

    def prefix_sums_in(self, context: Context) -> list[int]:
        """Tokens of all messages of a context before each position, and of all of it at the end; computed once."""
        key = TokenTable.prefix_sums_in, self
        if key not in context.memo:
            context.memo[key] = list(accumulate(self._message_tokens_in(context), initial=0))
        found: list[int] = context.memo[key]
        return found

    def _message_tokens_in(self, context: Context) -> list[int]:
        tokens = list(map(self.messages.__getitem__, context.order))
        if context.replacements:
            places, owner = index_context(context).position_of, context.facts.block_message
            for row, body in context.replacements.items():
                place = places.get(owner[row])
                if place is not None:
                    tokens[place] += self.count_body(row, body) - self.blocks[row]
        return tokens

    def not_in_file_at(self, context: Context) -> int | None:
        """Tokens that are not in the file, of the model in use at the point of a context; None where that is unknown.

        In a copy nothing is recorded: it has what the recording's last request had, by ``bytes/4``.
        """
        facts = context.facts
        return (
            max(facts.not_in_file, 0)
            if facts.not_in_file is not None
            else self.not_in_file.get(find_model_before(facts, context.at))
        )

    def calibration_at(self, context: Context) -> Calibration | None:
        """That of the model in use at the point of a context."""
        model = find_model_before(context.facts, context.at)
        return next((each for each in self.calibrations if each.model == model), None)


def find_model_before(facts: Facts, at: int) -> str:
    """Return the model of the last request before message *at*, of the first where there is none; empty where
    unknown.
    """
    row = max(bisect_left(facts.request_message, at) - 1, 0)
    model = facts.request_model[row] if row < len(facts.request_model) else -1
    return facts.models[model] if model >= 0 else ""


# Calibrated


def build_calibrated_table(facts: Facts, checkpoint: Callable[[], object] = lambda: None) -> TokenTable:
    """Build the sizes of the blocks of a session by recorded sizes.

    Each message counts by the model whose request first had it. The frame of a request counts in the last block of its
    reply that is no result, most often the call that it is the syntax of. Images count as the fit found them, else as
    :data:`TYPICAL_IMAGE_TOKENS`; a result that holds an image counts as one.

    Args:
        checkpoint: called at every message; it may raise to stop.
    """
    found = calibrate(facts, checkpoint)
    factors = {each.model: each.factors for each in found}
    by_message = _map_factors(facts, factors)
    replies = frozenset(facts.request_message)
    blocks = array("l", bytes(array("l").itemsize * len(facts.kind)))
    has_overhead = bytearray(len(facts.kind))
    for message in range(len(facts)):
        checkpoint()
        mine, last = by_message[message], -1
        for row in facts.blocks_of(message):
            blocks[row] = round(_calibrate_block(facts, row, facts.size[row], facts.text_bytes[row], mine))
            if facts.kind[row] != Kind.TOOL_RESULT:
                last = row
        if last >= 0 and message in replies:
            has_overhead[last] = 1
            blocks[last] = round(
                _calibrate_block(facts, last, facts.size[last], facts.text_bytes[last], mine) + mine.request_overhead
            )

    def of_body(row: int, body: Body) -> int:
        if body.removed:
            return 0
        mine = by_message[facts.block_message[row]]
        overhead = mine.request_overhead if has_overhead[row] else 0.0
        return round(bytes_to_tokens(body.size) * _FACTOR_OF_KIND[facts.kind[row]](mine) + overhead)

    newest = by_message[-1] if by_message else PRIOR

    def estimate_part(part: PromptPart, is_tool: bool) -> int:
        return round(bytes_to_tokens(part.size) * (newest.call if is_tool else newest.text))

    fitted = fit_to_growth(facts, blocks, estimate_part, checkpoint) if facts.holds_requests else {}
    note = format_calibration(max(found, key=lambda each: each.requests, default=None))

    def of_text(text: str) -> int:
        return round(bytes_to_tokens(utf8_len(text)) * newest.text)

    return _build_table(
        facts,
        checkpoint,
        TokenMeasure.CALIBRATED,
        "calibrated",
        "by the growth of whole requests" if fitted else note,
        blocks,
        of_body,
        of_text,
        lambda part, is_tool: fitted[part] if part in fitted else estimate_part(part, is_tool),
        calibrations=tuple(found),
        uniform=len(set(map(id, by_message))) <= 1,
    )


_FACTOR_OF_KIND: dict[int, Callable[[Factors], float]] = {
    Kind.TEXT: lambda factors: factors.text,
    Kind.THINKING: lambda factors: factors.thinking,
    Kind.TOOL_USE: lambda factors: factors.call,
    Kind.TOOL_RESULT: lambda factors: factors.result,
    Kind.IMAGE: lambda factors: factors.text,
    Kind.OTHER: lambda factors: 0.0,
}


def _calibrate_block(facts: Facts, row: int, size: int, text: int, factors: Factors) -> float:
    """Recorded tokens that a block takes."""
    kind = facts.kind[row]
    if kind == Kind.IMAGE or facts.block_flags[row] & BlockFlag.HAS_IMAGE:
        return TYPICAL_IMAGE_TOKENS if factors.image is None else factors.image
    if kind == Kind.THINKING:
        return bytes_to_tokens(text) * factors.thinking + bytes_to_tokens(size - text) * factors.signature
    return bytes_to_tokens(size) * _FACTOR_OF_KIND[kind](factors)


def _map_factors(facts: Facts, factors: Mapping[str, Factors]) -> list[Factors]:
    """Map each message to the factors of the model whose request first had it; after the last request to those of its
    model.
    """
    found: list[Factors] = []
    mine = PRIOR
    for reply, model in zip(facts.request_message, facts.request_model, strict=True):
        mine = factors.get(facts.models[model] if model >= 0 else "", PRIOR)
        found += [mine] * (reply + 1 - len(found))
    return found + [mine] * (len(facts) - len(found))


def format_calibration(calibration: Calibration | None) -> str:
    """Format the accuracy of a calibration: its error, or what is used instead and why."""
    if calibration is None:
        return "typical factors: no request recorded a size"
    if not calibration.usable or calibration.error is None:
        return f"{calibration.fallback}: {calibration.reason}"
    return f"±{max(calibration.error.median, 0.001):.1%}".replace("%", " %")


# Exact


def build_exact_table(
    session: Session,
    count: Callable[[str], int],
    name: str,
    note: str = "",
    checkpoint: Callable[[], object] = lambda: None,
) -> TokenTable:
    """Build the sizes of the texts of a session by a tokenizer.

    Texts and shown thinking count, names and arguments (as compact JSON) of calls, and the text of results. Images,
    signatures and what a provider wraps messages in are no text: they count nothing.

    Args:
        count: tokens of a text.
        name: what the encoding is called; ``note`` says how it relates to the session's model.
        checkpoint: called at every message; it may raise to stop.
    """
    facts, content = session.facts, session.content
    blocks = array("l", bytes(array("l").itemsize * len(facts.kind)))
    for message in range(len(facts)):
        checkpoint()
        for row, block in zip(facts.blocks_of(message), content.blocks(message), strict=False):
            if text := _get_countable_text(block):
                blocks[row] = count(text)

    def of_body(row: int, body: Body) -> int:
        if body.removed:
            return 0
        if body.text is None:
            return bytes_to_tokens(body.size)
        tool_name = facts.tool_name(row) if facts.kind[row] == Kind.TOOL_USE else ""
        return count(tool_name + body.text)

    return _build_table(
        facts,
        checkpoint,
        TokenMeasure.EXACT,
        name,
        note,
        blocks,
        of_body,
        count,
        lambda part, is_tool: count(part.text),
    )


def _get_countable_text(block: Mapping[str, Any]) -> str:
    """Return the text of a block that a tokenizer would be given."""
    match block.get("type"):
        case "text":
            return str(block.get("text") or "")
        case "thinking":
            return str(block.get("thinking") or "")
        case "tool_use":
            return f"{block.get('name') or ''}{compact_text(block.get('input') or {})}"
        case "tool_result":
            return body_to_text(block.get("content"))
    return ""


# Both


def _build_table(
    facts: Facts,
    checkpoint: Callable[[], object],
    measure: TokenMeasure,
    name: str,
    note: str,
    blocks: array[int],
    count_body: Callable[[int, Body], int],
    count_text: Callable[[str], int],
    count_part: Callable[[PromptPart, bool], int],
    *,
    calibrations: tuple[Calibration, ...] = (),
    uniform: bool = True,
) -> TokenTable:
    messages = array("l")
    for message in range(len(facts)):
        checkpoint()
        messages.append(sum(map(blocks.__getitem__, facts.blocks_of(message))))
    sums = array("q", accumulate(messages, initial=0))
    prompts = tuple(
        (sum(count_part(part, False) for part in prompt.system), sum(count_part(part, True) for part in prompt.tools))
        for prompt in facts.prompts
    )
    table = TokenTable(
        measure,
        name,
        note,
        blocks,
        messages,
        sums,
        count_body,
        count_text,
        count_part,
        prompts,
        calibrations,
        uniform,
    )
    return replace(table, not_in_file=_compute_not_in_file(facts, table, checkpoint))


def _compute_not_in_file(facts: Facts, table: TokenTable, checkpoint: Callable[[], object]) -> dict[str, int]:
    """Compute by model the median over its requests of the recorded size less that of the file's content."""
    if not facts.requests:
        return {}
    drops, gone, over = iter(find_drops(facts)), 0, dict[int, list[int]]()

    def freed(row: int, body: Body) -> int:
        return table.blocks[row] - table.count_body(row, body)

    running = RunningSizes(facts, checkpoint, table.messages, freed)
    drop, begun = next(drops, None), -1
    for row, (reply, model) in enumerate(zip(facts.request_message, facts.request_model, strict=True)):
        checkpoint()
        recorded = facts.requests[row].context
        epoch = epoch_at(facts, reply)
        if epoch.message != begun:
            begun, gone = epoch.message, 0
        while drop is not None and drop.message <= reply:
            if drop.explained_by == Explanation.THINKING and drop.message > begun:
                gone += drop.removed_tokens
            drop = next(drops, None)
        running.move_to(reply)
        if recorded:
            prompt = table.prompts[prompt_row_at(facts, reply)] if table.prompts else ()
            held = running.count_context(epoch, reply) - gone + sum(prompt)
            over.setdefault(model, []).append(recorded - held)
    middles = {model: round(median(each)) for model, each in over.items()}
    return {facts.models[model] if model >= 0 else "": most for model, most in middles.items() if most > 0}
