"""What the elements of ``api_conversation_history.json`` say: Anthropic's messages, and what Cline and Roo add."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from context_tui.formats.cline.beside import Beside
from context_tui.formats.cline.typed import injected_in
from context_tui.formats.kit.document_scanner import DocumentShape
from context_tui.formats.kit.documents import Element, Run, value_of
from context_tui.formats.kit.message_builder import Compacted, MessageBuilder, Part
from context_tui.formats.kit.values import as_blocks, epoch_ms, text_in
from context_tui.formats.openai.shape import thinking_of
from context_tui.session.facts import Usage
from context_tui.session.validation import truncate_name
from context_tui.session.values import MessageFlag, Role

KEPT = 2
"""Messages that Cline's truncation never deletes: the task, and the first reply.

Source: Cline, ContextManager.applyContextHistoryUpdates.
"""
_MODEL = re.compile(r"<model>([^<\n]{1,200})</model>")
_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT}


def key_of(place: int) -> str:
    """What an element is known by to the builder."""
    return f"element {place}"


class ClineShape(DocumentShape):
    """Elements of one conversation, with what stands beside it."""

    def __init__(self, told: Beside) -> None:
        self._told = told
        self._gone: dict[int, int] = {}  # element to the one from which on it is not sent
        self._usage: dict[int, Usage] = {}
        self._cut: dict[int, tuple[str | int, ...]] = {}  # element at which messages are deleted to what is left
        self._cleared: dict[int, tuple[tuple[str, int], ...]] = {}

    def begin(self, run: Run, builder: MessageBuilder) -> None:
        """Take the model, and find what each element is answered by, replaced by, or left out from."""
        builder.facts.input_includes_cache = self._told.inclusive
        builder.facts.model = truncate_name(self._told.model) or None
        elements = [*map(_value, run.elements)]
        self._gone = _gone(elements)
        self._usage = _answered(elements, self._told)
        self._find_deletions(elements)
        self._find_rewrites(elements)

    def part(self, value: Any, place: int) -> Part:
        """A message; its blocks stay as they are, but for reasoning."""
        if not isinstance(value, dict):
            raise ValueError("not a message: not a JSON object")
        given, time = value.get("role"), epoch_ms(value.get("ts"))
        if given is None and value.get("type") == "reasoning":  # a message of its own in files of some providers
            return Part(Role.ASSISTANT, [_block(value)], time=time, key=key_of(place))
        role = _ROLES.get(given) if isinstance(given, str) else None
        if role is None:
            raise ValueError(f"not a message: unknown role {str(given)[:40]!r}")
        blocks = [*map(_block, as_blocks(value.get("content")))]
        part = Part(role, blocks, time=time, key=key_of(place), cleared=self._clearing(place))
        if value.get("isSummary"):
            before = self._told.condensed.get(text_in(blocks)) or None
            return replace(part, compacted=Compacted("condense", before, context=self._left(place)))
        if value.get("isTruncationMarker"):
            cut = Compacted("sliding window", context=self._left(place), summarises=False)
            return replace(part, compacted=cut, injected=True)
        if place in self._cut:
            part = replace(part, compacted=Compacted("truncation", context=self._cut[place], summarises=False))
        if self._gone.get(place, place + 1) <= place:  # replaced by what stands before it
            part = replace(part, flags=MessageFlag.NOT_SENT)
        if role == Role.ASSISTANT:
            info = value.get("modelInfo")
            model = info.get("modelId") if isinstance(info, dict) else None
            thought = [] if any(block.get("type") == "thinking" for block in blocks) else thinking_of(value)
            model = truncate_name(model) if isinstance(model, str) else ""
            return replace(part, blocks=[*thought, *blocks], usage=self._usage.get(place), model=model)
        return replace(part, injects=injected_in(blocks), model=_model_in(blocks))

    def _left(self, place: int) -> tuple[str | int, ...]:
        """The context that a summary or marker at *place* leaves: what nothing up to there replaced, and itself."""
        return (*(key_of(each) for each in range(place) if self._gone.get(each, place + 1) > place), 0)

    def _clearing(self, place: int) -> Compacted | None:
        clears = self._cleared.get(place)
        return Compacted("duplicate reads", clears=clears) if clears else None

    def _find_deletions(self, elements: list[dict[str, Any]]) -> None:
        """Each deletion holds from the request on that the newest user message is sent with."""
        for deleted in self._told.deleted:
            at = deleted.at if 0 <= deleted.at < len(elements) else -1
            if at >= 0 and elements[at].get("role") == "assistant":
                at += 1
            if KEPT <= at < len(elements):
                kept = (*range(min(KEPT, at)), *range(deleted.last + 1, at))
                self._cut[at] = (*map(key_of, kept), 0)

    def _find_rewrites(self, elements: list[dict[str, Any]]) -> None:
        """Blocks that were sent with much less in their place; others stay as they are recorded."""
        for each in self._told.rewritten:
            if not 0 <= each.element < len(elements):
                continue
            blocks = as_blocks(elements[each.element].get("content"))
            text = blocks[each.block].get("text") if 0 <= each.block < len(blocks) else None
            at = max(each.at, each.element + 1)
            if isinstance(text, str) and len(each.text) * 2 < len(text) and at < len(elements):
                self._cleared[at] = (*self._cleared.get(at, ()), (key_of(each.element), each.block))


def _value(element: Element) -> dict[str, Any]:
    """An element as an object; an empty one for what is none."""
    try:
        value = value_of(element)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _gone(elements: list[dict[str, Any]]) -> dict[int, int]:
    """By element, the summary or marker that stands for it; those whose summary is gone too are sent again.

    Source: Roo Code, getEffectiveApiHistory.
    """
    names = (("condenseParent", "isSummary", "condenseId"), ("truncationParent", "isTruncationMarker", "truncationId"))
    marks = {
        (parent, value[own]): place
        for parent, marked, own in names
        for place, value in enumerate(elements)
        if value.get(marked) and isinstance(value.get(own), str)
    }
    found: dict[int, int] = {}
    for place, value in enumerate(elements):
        by = [marks.get((parent, value[parent]), -1) for parent, *_ in names if isinstance(value.get(parent), str)]
        if known := [each for each in by if each >= 0]:
            found[place] = min(known)
    return found


def _answered(elements: list[dict[str, Any]], told: Beside) -> dict[int, Usage]:
    """What the request took that each reply answers: by its time, by where it stood, or else by their order."""
    replies = [
        place for place, value in enumerate(elements) if value.get("role") == "assistant" and not value.get("isSummary")
    ]
    times = [epoch_ms(elements[place].get("ts")) for place in replies]
    asked = told.asked
    if asked and min(times, default=-1) >= 0 and all(each.time >= 0 for each in asked):
        return _by_time(replies, times, told)
    if asked and all(each.after >= -1 for each in asked):
        known = set(replies)
        return {each.after + 2: each.usage for each in asked if each.after + 2 in known}
    pairs: Iterable[tuple[int, Any]] = zip(reversed(replies), reversed(asked), strict=False)
    return {place: each.usage for place, each in pairs}


def _by_time(replies: list[int], times: list[int], told: Beside) -> dict[int, Usage]:
    """Each reply answers the newest request before it that no earlier reply did."""
    begun = [each.time for each in told.asked]
    found: dict[int, Usage] = {}
    before = -1
    for place, time in zip(replies, times, strict=True):
        number = bisect_right(begun, time) - 1
        if number > before:
            found[place] = told.asked[number].usage
            before = number
    return found


def _block(block: dict[str, Any]) -> dict[str, Any]:
    """A block; reasoning of other providers is thinking, of unknown size where it is encrypted."""
    if block.get("type") != "reasoning":
        return block
    told = block.get("text") or "\n\n".join(
        str(each.get("text") or "") for each in as_blocks(block.get("summary")) if each.get("type") != "unknown"
    )
    return {"type": "thinking", "thinking": told if isinstance(told, str) else ""}


def _model_in(blocks: list[dict[str, Any]]) -> str:
    """The model that the details of the environment name."""
    for block in reversed(blocks):
        text = block.get("text")
        if isinstance(text, str) and text.startswith("<environment_details>") and (found := _MODEL.search(text)):
            return found[1]
    return ""
