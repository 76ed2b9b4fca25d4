"""Read ``api_conversation_history.json``, which has Messages API messages with members that Cline and Roo Code add."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from context_tui.formats.cline.task_files import RelatedFacts
from context_tui.formats.kit.blocks import MISSING_SUMMARY, extract_text
from context_tui.formats.kit.document_scanner import DocumentShape
from context_tui.formats.kit.documents import Run, try_decode
from context_tui.formats.kit.message_builder import (
    FullCompactionRecord,
    MessageBuilder,
    MessageRecord,
    MetadataRecord,
    MicroCompactionRecord,
    ParsedRecord,
    group_records,
)
from context_tui.formats.kit.size_note import parse_size_note
from context_tui.formats.kit.values import as_object, as_text, parse_blocks, parse_role, parse_time_ms
from context_tui.formats.openai.reader import parse_thinking
from context_tui.session.facts import Usage
from context_tui.session.values import MessageFlag, Role
from context_tui.text.sanitize import truncate_name

NEVER_DELETED = 2
"""Number of messages that Cline's truncation never deletes: the task and the first reply.

Source: Cline, ContextManager.applyContextHistoryUpdates.
"""
CONDENSED_SHARE = 0.95
"""Largest context after a condense (Roo Code's compaction), as a share of the context before it."""
CALLS_UP_TO_FALL = 3
"""Maximum number of calls after condensed messages up to the smaller one, as Roo Code may keep three messages."""
_MODEL_TAG = re.compile(r"<model>([^<\n]{1,200})</model>")


def format_element_key(place: int) -> str:
    """Return the key by which records refer to the element with index *place*."""
    return f"element {place}"


class ClineShape(DocumentShape):
    """Parser for the messages in one conversation, which it completes with facts from the related files."""

    def __init__(self, related: RelatedFacts) -> None:
        self._related = related
        self._replaced_by: dict[int, int] = {}  # element to the first element whose request omits it
        self._usage_by_reply: dict[int, Usage] = {}
        # element at which a deletion takes effect, to the context that remains
        self._context_after_deletion: dict[int, tuple[str | int, ...]] = {}
        self._condenses = set[int]()  # elements at which a condense without a recorded summary takes effect
        self._clears_by_element: dict[int, tuple[tuple[str, int], ...]] = {}

    def read_metadata(self, run: Run, builder: MessageBuilder) -> None:
        """Record the model, and find the usage of replies and the messages that are replaced, deleted or rewritten."""
        builder.facts.input_includes_cache = self._related.input_includes_cache
        builder.facts.model = truncate_name(self._related.model) or None
        elements = [as_object(try_decode(element)) for element in run.elements]
        builder.facts.agent = "roo" if any({"condenseParent", "isSummary"} & each.keys() for each in elements) else ""
        self._replaced_by = _find_replacements(elements)
        self._usage_by_reply = _match_usage(elements, self._related)
        self._find_deletions(elements)
        self._find_condenses(elements)
        self._find_rewrites(elements)

    def parse(self, value: Any, place: int) -> ParsedRecord:
        message, clears = self._parse_message(value, place), self._clears_by_element.get(place)
        clearing = [MicroCompactionRecord("duplicate reads", cleared_keys=clears)] if clears else []
        if place in self._condenses and message.compaction is None:
            condense = FullCompactionRecord("condense", context=self._find_remaining(place))
            if message.role == Role.ASSISTANT:  # it replied to the summary
                summary = MessageRecord(Role.USER, [MISSING_SUMMARY], model=message.model, compaction=condense)
                return group_records(*clearing, summary, message)
            message = replace(message, compaction=replace(condense, has_summary=False))
        note = parse_size_note(value)
        return group_records(*clearing, message, *([MetadataRecord(size_basis=note)] if note else []))

    def _parse_message(self, value: Any, place: int) -> MessageRecord:
        members = as_object(value)
        time = parse_time_ms(members.get("ts"))
        if members.get("role") is None and members.get("type") == "reasoning":  # in files of some providers
            return MessageRecord(Role.ASSISTANT, [_parse_block(value)], time=time, key=format_element_key(place))
        role = parse_role(value)
        blocks = [*map(_parse_block, parse_blocks(value.get("content")))]
        record = MessageRecord(role, blocks, time=time, key=format_element_key(place))
        if value.get("isSummary"):
            tokens_before = self._related.tokens_before_summary.get(extract_text(blocks)) or None
            summary = FullCompactionRecord("condense", tokens_before, context=self._find_remaining(place))
            return replace(record, compaction=summary)
        if value.get("isTruncationMarker"):
            truncation = FullCompactionRecord("sliding window", context=self._find_remaining(place), has_summary=False)
            return replace(record, compaction=truncation, is_injected=True)
        if (context := self._context_after_deletion.get(place)) is not None:
            record = replace(record, compaction=FullCompactionRecord("truncation", context=context, has_summary=False))
        if self._replaced_by.get(place, place + 1) <= place:  # replaced by an earlier element
            record = replace(record, flags=MessageFlag.NOT_SENT)
        if role == Role.ASSISTANT:
            model = truncate_name(as_text(as_object(value.get("modelInfo")).get("modelId")))
            thought = [] if any(block.get("type") == "thinking" for block in blocks) else parse_thinking(value)
            return replace(record, blocks=[*thought, *blocks], usage=self._usage_by_reply.get(place), model=model)
        return replace(record, injected_blocks=find_injected_blocks(blocks), model=_find_model(blocks))

    def _find_remaining(self, place: int) -> tuple[str | int, ...]:
        """Return the context after a summary or marker: keys of elements still sent, then 0 for the element itself."""
        remaining = (each for each in range(place) if self._replaced_by.get(each, place + 1) > place)
        return (*map(format_element_key, remaining), 0)

    def _find_deletions(self, elements: list[dict[str, Any]]) -> None:
        """Record the context after each deletion, which takes effect with the user message that was newest then."""
        for deletion in self._related.deletions:
            start = deletion.start if 0 <= deletion.start < len(elements) else -1
            if start >= 0 and elements[start].get("role") == "assistant":
                start += 1
            if NEVER_DELETED <= start < len(elements):
                remaining = (*range(min(NEVER_DELETED, start)), *range(deletion.last + 1, start))
                self._context_after_deletion[start] = (*map(format_element_key, remaining), 0)

    def _find_condenses(self, elements: list[dict[str, Any]]) -> None:
        """Record each condense whose summary is missing: messages name it as parent, and the context shrinks."""
        summaries = {str(value.get("condenseId")) for value in elements if value.get("isSummary")}
        places: dict[str, list[int]] = {}
        for place, value in enumerate(elements):
            if isinstance(parent := value.get("condenseParent"), str) and parent not in summaries:
                places.setdefault(parent, []).append(place)
        sizes = sorted((place, usage.context) for place, usage in self._usage_by_reply.items())
        for condensed in places.values():
            start = condensed[-1] + 1
            before = [size for place, size in sizes if place < start][-1:]
            calls = [call for call in sizes if call[0] >= start][:CALLS_UP_TO_FALL]
            replies = (place for place, size in calls if before and size <= CONDENSED_SHARE * before[0])
            if (reply := next(replies, None)) is not None:  # to the newest message, if that is not condensed
                first = reply - (reply > start and elements[reply - 1].get("role") == "user")
                self._replaced_by |= dict.fromkeys(condensed, first)
                self._condenses.add(first)

    def _find_rewrites(self, elements: list[dict[str, Any]]) -> None:
        """Record a clearing for each block that is less than half as long in later requests; ignore other rewrites."""
        for rewrite in self._related.rewrites:
            if not 0 <= rewrite.element < len(elements):
                continue
            blocks = parse_blocks(elements[rewrite.element].get("content"))
            text = blocks[rewrite.block].get("text") if 0 <= rewrite.block < len(blocks) else None
            start = max(rewrite.start, rewrite.element + 1)
            if isinstance(text, str) and len(rewrite.text) * 2 < len(text) and start < len(elements):
                clear = format_element_key(rewrite.element), rewrite.block
                self._clears_by_element[start] = (*self._clears_by_element.get(start, ()), clear)


def _find_replacements(elements: list[dict[str, Any]]) -> dict[int, int]:
    """Return the index of the summary or marker that replaces an element, keyed by the element's index.

    A deleted summary or marker replaces nothing. Source: Roo Code, getEffectiveApiHistory.
    """
    names = (("condenseParent", "isSummary", "condenseId"), ("truncationParent", "isTruncationMarker", "truncationId"))
    marks = {
        (parent, value[id_key]): place
        for parent, marked, id_key in names
        for place, value in enumerate(elements)
        if value.get(marked) and isinstance(value.get(id_key), str)
    }
    replacements: dict[int, int] = {}
    for place, value in enumerate(elements):
        keys = [(parent, value[parent]) for parent, *_ in names if isinstance(value.get(parent), str)]
        if places := [marks[key] for key in keys if key in marks]:
            replacements[place] = min(places)
    return replacements


def _match_usage(elements: list[dict[str, Any]], related: RelatedFacts) -> dict[int, Usage]:
    assistants = (place for place, value in enumerate(elements) if value.get("role") == "assistant")
    replies = [place for place in assistants if not elements[place].get("isSummary")]
    times = [parse_time_ms(elements[place].get("ts")) for place in replies]
    requests = related.requests
    if requests and min(times, default=-1) >= 0 and all(request.time >= 0 for request in requests):
        return _match_usage_by_time(replies, times, related)
    if requests and all(request.after >= -1 for request in requests):
        reply_places = set(replies)
        return {request.after + 2: request.usage for request in requests if request.after + 2 in reply_places}
    pairs: Iterable[tuple[int, Any]] = zip(reversed(replies), reversed(requests), strict=False)
    return {place: request.usage for place, request in pairs}


def _match_usage_by_time(replies: list[int], times: list[int], related: RelatedFacts) -> dict[int, Usage]:
    request_times = [each.time for each in related.requests]
    usages, last_number = dict[int, Usage](), -1
    for place, time in zip(replies, times, strict=True):
        number = bisect_right(request_times, time) - 1
        if number > last_number:
            usages[place], last_number = related.requests[number].usage, number
    return usages


def _parse_block(block: dict[str, Any]) -> dict[str, Any]:
    """Parse a block. Reasoning of other providers becomes thinking, whose size is unknown if it is encrypted."""
    if block.get("type") != "reasoning":
        return block
    summaries = (each for each in parse_blocks(block.get("summary")) if each.get("type") != "unknown")
    text = block.get("text") or "\n\n".join(str(each.get("text") or "") for each in summaries)
    return {"type": "thinking", "thinking": as_text(text)}


def _find_model(blocks: list[dict[str, Any]]) -> str:
    for block in reversed(blocks):
        text = block.get("text")
        if isinstance(text, str) and text.startswith("<environment_details>") and (match := _MODEL_TAG.search(text)):
            return match[1]
    return ""


TYPED_MARKERS = ("<feedback>", "<answer>", "<user_message>", "<task>")
"""Tags around typed text; they also occur in tool results."""
NOTICE_STARTS = (
    *("[ERROR]", "[TASK RESUMPTION]", "The tool execution failed", "The user denied this operation", "Tool ["),
    *("<environment_details>", "<explicit_instructions", "<file_content ", "<folder_content "),
)
"""First words of notices that Cline or Roo Code injects into user messages."""
_TEXT_RESULT = re.compile(r"\[\w+[^\n]*\] Result:")
"""Heading of a tool result in a conversation whose calls are XML text."""
_XML_CALL = re.compile(r"<(read_file|execute_command|write_to_file|apply_diff|replace_in_file|attempt_completion)>")


def find_injected_blocks(blocks: list[dict[str, Any]]) -> frozenset[int]:
    """Return the numbers of the text blocks in a user message that no person typed, such as notices and results."""
    numbers, after_result = set[int](), False
    for number, block in enumerate(blocks):
        if block.get("type") == "tool_result":
            after_result = False
            continue
        text = block.get("text") if block.get("type") == "text" else None
        if not isinstance(text, str):
            continue
        is_result = _TEXT_RESULT.match(text) is not None
        is_notice = text.lstrip().startswith(NOTICE_STARTS)
        is_typed = any(marker in text for marker in TYPED_MARKERS) and not is_notice
        if (is_result or after_result or is_notice) and not is_typed:
            numbers.add(number)
        after_result = after_result or is_result
    return frozenset(numbers)


def has_text_call(text: str) -> bool:
    """Return whether the assistant's text contains a tool call in XML form."""
    return _XML_CALL.search(text) is not None
