"""Rulers: what the blocks of a session measure, in tokens, by one of three rules.

- *own*: the estimator of the policies (``bytes/4``), which needs no table: see :mod:`context_tui.tokens.estimators`;
- *calibrated*: recorded tokens per kind of content, by the fit of the model in use at each message; typical factors
  where a model cannot be fitted;
- *exact*: a tokenizer that is handed in (:mod:`context_tui.tokens.exact` loads one).

A ruler other than the own one is a table, made once for a session: tokens of each block, rounded to the nearest
integer. Everything else is sums of these, so that blocks add up to messages, and messages to categories and contexts.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate
from statistics import median
from typing import Any

from context_tui.session.bodies import body_text
from context_tui.session.context import Body, Context
from context_tui.session.drops import find_drops
from context_tui.session.epochs import epoch_at
from context_tui.session.facts import BlockFlag, Explanation, Facts, Kind
from context_tui.session.fitting import PRIOR, Factors
from context_tui.session.jsontext import compact_text, utf8_len
from context_tui.session.session import Session
from context_tui.tokens.calibration import Calibration, calibrations
from context_tui.tokens.estimators import tokens_of_bytes
from context_tui.tokens.measured import measured
from context_tui.tokens.running import RunningSizes

TYPICAL_IMAGE = 1_500
"""Tokens that an image is taken to have where none was sized: at Anthropic up to 1,600, by its edges."""


class Ruler(StrEnum):
    """What sizes are measured by."""

    OWN = "own"
    CALIBRATED = "calibrated"
    EXACT = "exact"


@dataclass(frozen=True, eq=False)
class Sizes:
    """What the blocks of a session measure by a ruler.

    Attributes:
        ruler: which rule.
        name: what it is called: ``calibrated``, or the encoding of an exact tokenizer.
        note: how good it is, in words: the error of the model with the most requests, or what is used
            instead and why; of a tokenizer whether it is the model's own.
        blocks: tokens by block row; ``messages`` and ``sums`` likewise by message, and of all before each message.
        of_text: tokens of a text that is put in, as a summary is.
        system, tools: tokens of the system prompt and the tool schemas, as far as they are in the file.
        calibrations: what each model was found to make of the file's content; none for a tokenizer.
        uniform: whether a body takes the same in the place of any result.
        hidden: tokens that are not in the file, by the name of a model: the median over its requests of recorded -
            measured. A model whose requests show none is not in it.
    """

    ruler: Ruler
    name: str
    note: str
    blocks: array[int]
    messages: array[int]
    sums: array[int]
    of_body: Callable[[int, Body], int]
    of_text: Callable[[str], int]
    system: int = 0
    tools: int = 0
    calibrations: tuple[Calibration, ...] = ()
    uniform: bool = True
    hidden: Mapping[str, int] = field(default_factory=dict)

    @property
    def unit(self) -> str:
        """What stands before its tokens, as ``est.`` does before estimates by ``bytes/4``."""
        return "cal." if self.ruler is Ruler.CALIBRATED else self.name

    @property
    def words(self) -> str:
        """What it is called, with how good it is."""
        return f"{self.name} ({self.note})" if self.note else self.name

    def block(self, context: Context, row: int) -> int:
        """Tokens of a block as it stands in a context."""
        body = context.replaced.get(row)
        return self.blocks[row] if body is None else self.of_body(row, body)

    def sums_in(self, context: Context) -> list[int]:
        """Tokens of all messages of a context before each position, and of all of it at the end; computed once."""
        key = Sizes.sums_in, self
        if key not in context.memo:
            context.memo[key] = list(accumulate(self._messages_in(context), initial=0))
        found: list[int] = context.memo[key]
        return found

    def _messages_in(self, context: Context) -> list[int]:
        tokens = list(map(self.messages.__getitem__, context.order))
        if context.replaced:
            places, owner = measured(context).position_of, context.facts.block_message
            for row, body in context.replaced.items():
                place = places.get(owner[row])
                if place is not None:
                    tokens[place] += self.of_body(row, body) - self.blocks[row]
        return tokens

    def hidden_at(self, context: Context) -> int | None:
        """Tokens that are not in the file, of the model in use at the point of a context; None where that is unknown.

        In a copy nothing is recorded: it has what the recording's last request had, by ``bytes/4``.
        """
        facts = context.facts
        return max(facts.unseen, 0) if facts.unseen is not None else self.hidden.get(model_before(facts, context.at))

    def calibration_at(self, context: Context) -> Calibration | None:
        """That of the model in use at the point of a context."""
        model = model_before(context.facts, context.at)
        return next((each for each in self.calibrations if each.model == model), None)


def model_before(facts: Facts, at: int) -> str:
    """The model of the last request before message *at*, of the first where there is none; empty where unknown."""
    row = max(bisect_left(facts.request_message, at) - 1, 0)
    model = facts.request_model[row] if row < len(facts.request_model) else -1
    return facts.models[model] if model >= 0 else ""


# Calibrated


def calibrated_sizes(facts: Facts, checkpoint: Callable[[], object] = lambda: None) -> Sizes:
    """What the blocks of a session measure by recorded sizes.

    Each message counts by the model whose request first had it. The frame of a request counts in the last block of its
    reply that is no result, most often the call that it is the syntax of. Images count as the fit found them, else as
    :data:`TYPICAL_IMAGE`; a result that holds an image counts as one.

    Args:
        checkpoint: called at every message; it may raise to stop.
    """
    found = calibrations(facts, checkpoint)
    factors = {each.model: each.factors for each in found}
    by_message = _factors_by_message(facts, factors)
    replies = frozenset(facts.request_message)
    blocks = array("l", bytes(array("l").itemsize * len(facts.kind)))
    framed = bytearray(len(facts.kind))
    for message in range(len(facts)):
        checkpoint()
        mine, last = by_message[message], -1
        for row in facts.blocks_of(message):
            blocks[row] = round(_calibrated(facts, row, facts.size[row], facts.text_bytes[row], mine))
            if facts.kind[row] != Kind.TOOL_RESULT:
                last = row
        if last >= 0 and message in replies:
            framed[last] = 1
            blocks[last] = round(_calibrated(facts, last, facts.size[last], facts.text_bytes[last], mine) + mine.each)

    def of_body(row: int, body: Body) -> int:
        if body.removed:
            return 0
        mine = by_message[facts.block_message[row]]
        frame = mine.each if framed[row] else 0.0
        return round(tokens_of_bytes(body.size) * _FACTOR_OF_KIND[facts.kind[row]](mine) + frame)

    newest = by_message[-1] if by_message else PRIOR

    def of_text(text: str) -> int:
        return round(tokens_of_bytes(utf8_len(text)) * newest.text)

    return _sizes(
        facts,
        checkpoint,
        Ruler.CALIBRATED,
        "calibrated",
        calibration_words(max(found, key=lambda each: each.requests, default=None)),
        blocks,
        of_body,
        of_text,
        system=round(tokens_of_bytes(facts.system_bytes) * newest.text),
        tools=round(tokens_of_bytes(facts.tools_bytes) * newest.call),
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


def _calibrated(facts: Facts, row: int, size: int, text: int, factors: Factors) -> float:
    """Recorded tokens that a block takes."""
    kind = facts.kind[row]
    if kind == Kind.IMAGE or facts.block_flags[row] & BlockFlag.HAS_IMAGE:
        return TYPICAL_IMAGE if factors.image is None else factors.image
    if kind == Kind.THINKING:
        return tokens_of_bytes(text) * factors.thinking + tokens_of_bytes(size - text) * factors.signature
    return tokens_of_bytes(size) * _FACTOR_OF_KIND[kind](factors)


def _factors_by_message(facts: Facts, factors: Mapping[str, Factors]) -> list[Factors]:
    """By message, the factors of the model whose request first had it; behind the last request those of its model."""
    found: list[Factors] = []
    mine = PRIOR
    for reply, model in zip(facts.request_message, facts.request_model, strict=True):
        mine = factors.get(facts.models[model] if model >= 0 else "", PRIOR)
        found += [mine] * (reply + 1 - len(found))
    return found + [mine] * (len(facts) - len(found))


def calibration_words(calibration: Calibration | None) -> str:
    """How good a calibration is: its error, or what is used instead and why."""
    if calibration is None:
        return "typical factors: no request recorded a size"
    if not calibration.usable or calibration.error is None:
        return f"{calibration.instead}: {calibration.why}"
    return f"±{max(calibration.error.median, 0.001):.1%}".replace("%", " %")


# Exact


def exact_sizes(
    session: Session,
    count: Callable[[str], int],
    name: str,
    note: str = "",
    checkpoint: Callable[[], object] = lambda: None,
) -> Sizes:
    """What the texts of a session measure by a tokenizer.

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
            if text := _text_of(block):
                blocks[row] = count(text)

    def of_body(row: int, body: Body) -> int:
        if body.removed:
            return 0
        if body.text is None:
            return tokens_of_bytes(body.size)
        called = facts.tool_name(row) if facts.kind[row] == Kind.TOOL_USE else ""
        return count(called + body.text)

    tools = content.tools()
    return _sizes(
        facts,
        checkpoint,
        Ruler.EXACT,
        name,
        note,
        blocks,
        of_body,
        count,
        system=count(content.system()),
        tools=count(compact_text(tools)) if tools else 0,
    )


def _text_of(block: Mapping[str, Any]) -> str:
    """The text of a block that a tokenizer would be given."""
    match block.get("type"):
        case "text":
            return str(block.get("text") or "")
        case "thinking":
            return str(block.get("thinking") or "")
        case "tool_use":
            return f"{block.get('name') or ''}{compact_text(block.get('input') or {})}"
        case "tool_result":
            return body_text(block.get("content"))
    return ""


# Both


def _sizes(
    facts: Facts,
    checkpoint: Callable[[], object],
    ruler: Ruler,
    name: str,
    note: str,
    blocks: array[int],
    of_body: Callable[[int, Body], int],
    of_text: Callable[[str], int],
    *,
    system: int,
    tools: int,
    calibrations: tuple[Calibration, ...] = (),
    uniform: bool = True,
) -> Sizes:
    messages = array("l")
    for message in range(len(facts)):
        checkpoint()
        messages.append(sum(map(blocks.__getitem__, facts.blocks_of(message))))
    sums = array("q", accumulate(messages, initial=0))
    made = Sizes(ruler, name, note, blocks, messages, sums, of_body, of_text, system, tools, calibrations, uniform)
    object.__setattr__(made, "hidden", _hidden(facts, made, checkpoint))
    return made


def _hidden(facts: Facts, sizes: Sizes, checkpoint: Callable[[], object]) -> dict[str, int]:
    """By model, the median over its requests of what was recorded beyond what the file's content measures."""
    if not facts.requests:
        return {}
    drops, gone, over = iter(find_drops(facts)), 0, dict[int, list[int]]()

    def freed(row: int, body: Body) -> int:
        return sizes.blocks[row] - sizes.of_body(row, body)

    running = RunningSizes(facts, checkpoint, sizes.messages, freed)
    drop, begun = next(drops, None), -1
    for row, (reply, model) in enumerate(zip(facts.request_message, facts.request_model, strict=True)):
        checkpoint()
        recorded = facts.requests[row].context
        epoch = epoch_at(facts, reply)
        if epoch.message != begun:
            begun, gone = epoch.message, 0
        while drop is not None and drop.message <= reply:
            if drop.explained_by == Explanation.THINKING and drop.message > begun:
                gone += drop.gone
            drop = next(drops, None)
        running.move_to(reply)
        if recorded:
            held = running.of_context(epoch, reply) - gone + sizes.system + sizes.tools
            over.setdefault(model, []).append(recorded - held)
    middles = {model: round(median(each)) for model, each in over.items()}
    return {facts.models[model] if model >= 0 else "": most for model, most in middles.items() if most > 0}
