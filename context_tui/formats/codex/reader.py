"""Read Codex rollouts, in which items form the context, and events record usage, context windows and rollbacks."""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from itertools import accumulate, takewhile
from typing import Any

from context_tui.formats.codex import compaction, rollout
from context_tui.formats.codex.rollout import RolloutLine
from context_tui.formats.kit import values
from context_tui.formats.kit.blocks import build_text, extract_text
from context_tui.formats.kit.message_builder import (
    CompactionDetailsRecord,
    MessageRecord,
    MetadataRecord,
    OmittedMessage,
    ParsedRecord,
    RewindRecord,
    UsageRecord,
    find_message,
    group_records,
    list_cases,
    list_messages,
)
from context_tui.formats.kit.response_items import ResponseGrouping
from context_tui.formats.kit.size_note import parse_size_note
from context_tui.formats.kit.usage import parse_openai_usage
from context_tui.session.blocks import bytes_to_tokens
from context_tui.session.facts import Usage
from context_tui.session.jsontext import compact_json, utf8_len
from context_tui.session.validation import MAX_TOKENS
from context_tui.session.values import MessageFlag, Role

Record = dict[str, Any]

COMPACT_TASK_NOTICE = "Compact task completed"
"""Text that marks the end of ``/compact`` in rollouts of versions up to 0.4x, which recorded no tasks."""
FORK_COPY_MS = 2_000
"""Milliseconds after the first line of a fork within which the copied history is written.

Copied lines have new timestamps or keep their old ones. No reply of a model comes that soon.
"""
USED_WINDOW_PERCENT = 95
"""Percentage of a model's window that Codex uses and reports, unless a model catalog says otherwise."""
REASONING_ENVELOPE_BYTES = 650
"""Overhead of encrypted reasoning, in bytes."""
REASONING_ESTIMATE_RATIO = 1.3
"""Ratio of Codex's estimate of reasoning tokens, made from encrypted bytes, to recorded reasoning tokens.

Measured on 112 replies in two rollouts that have both: 51,185 to 39,296 tokens.
"""
REASONING_COUNTED_SINCE = (0, 64)
"""First version that counts the reasoning of ended turns again (openai/codex#7113, November 2025)."""
KEPT_PROMPT_BYTES = 80_000
"""Bytes of the newest typed messages that a compaction without a history keeps (20,000 tokens of 4 bytes)."""


class CodexShape:
    """Parser for the records in a rollout."""

    has_side_requests = True

    def __init__(self) -> None:
        self._replies = ResponseGrouping()
        self._users: list[_UserMessage] = []
        self._key_by_item: dict[str, str] = {}  # key of an item, by the key of its id
        self._session_ids: set[str] = set()  # ids of the sessions whose history the file holds, its own first
        self._start_time = -1
        self._newest_line: tuple[Record, RolloutLine] = ({}, RolloutLine("", None))
        self._usage_order = _UsageOrder()
        self._reasoning_tokens = 0  # of the newest reply, estimated from its encrypted reasoning
        self._counts_reasoning = True
        self._reviews = False  # in a review, whose token counts belong to its own conversation
        self._has_review_counts = False
        self._is_empty_task = False  # nothing was typed, answered or called since the task began
        self._ends_with_compaction = False  # the newest record of the context is a compaction
        self._instruction_tokens = 0
        self._readable_tokens: int | None = None  # size of a new history without its summary, until the next count

    # -- a record by itself

    def parse(self, record: Record) -> ParsedRecord:
        line = self._parse_line(record)
        payload = values.as_object(line.payload)
        match line.kind:
            case "response_item":
                return rollout.parse_rollout_item(line.payload)
            case "compacted":
                summary, *other_records = list_cases(compaction.parse_compaction(payload))
                message = replace(summary, time=line.time) if isinstance(summary, MessageRecord) else summary
                return group_records(message, *other_records)
            case "session_meta":
                text = _find_instructions(payload)
                blocks = [build_text(text)] if text else []
                tools = MetadataRecord(tools=_parse_tools(payload.get("dynamic_tools")))
                return group_records(tools, MessageRecord(Role.SYSTEM, blocks)) if blocks else tools
            case "turn_context":
                return MetadataRecord(model=values.parse_id(payload.get("model"))[:200])
            case "event_msg":
                return _parse_event(payload, line.time)
        if line.kind in rollout.IGNORED_TYPES:
            return MetadataRecord()
        raise ValueError(f"unknown type of record {line.kind[:40]!r}" if line.kind else "not a record of a rollout")

    # -- a record in the order of the file

    def resolve_in_order(self, record: Record, parsed: ParsedRecord) -> ParsedRecord:
        line = self._parse_line(record)
        payload = values.as_object(line.payload)
        if self._start_time < 0:
            self._start_time = line.time
        match line.kind:
            case "session_meta":  # a repeated one, or that of the forked session, is ignored
                is_first, meta = not self._session_ids, rollout.parse_session_meta(payload)
                if is_first or not meta.continued_from:
                    self._session_ids.add(meta.id)
                if is_first:
                    self._instruction_tokens = bytes_to_tokens(utf8_len(_find_instructions(payload)))
                if is_first and (version := values.parse_version(values.parse_id(payload.get("cli_version")))):
                    self._counts_reasoning = version >= REASONING_COUNTED_SINCE
                return parsed if is_first else MetadataRecord()
            case "response_item" if isinstance(parsed, MessageRecord):
                tokens = estimate_reasoning_tokens(payload) if self._counts_reasoning else 0
                self._reasoning_tokens += tokens
                message = self._place_message(parsed, line.time)
                return self._add_item_key(payload, replace(message, reasoning=tokens) if tokens else message)
            case "response_item":
                self._replies.assign_response_id(parsed)
                if key := compaction.format_item_key(payload):
                    self._key_by_item[key] = ""
            case "compacted":
                self._replies.end_response()
                self._usage_order.note_compaction()
                self._ends_with_compaction = True
                return self._place_compaction(payload, parsed)
            case "event_msg":
                return self._place_event(payload, parsed, line.time)
        return parsed

    def _place_event(self, payload: Record, parsed: ParsedRecord, time: int) -> ParsedRecord:
        match payload.get("type"):
            case "token_count":
                self._has_review_counts = self._reviews
                return _replace_usage(parsed, None) if self._reviews else self._place_token_count(payload, parsed, time)
            case "thread_rolled_back":
                return RewindRecord(self._roll_back(payload.get("num_turns")))
            case "entered_review_mode" | "exited_review_mode" as kind:
                self._reviews, self._has_review_counts = kind == "entered_review_mode", False
            case "task_started":
                self._reviews &= not self._has_review_counts  # the review's own task begins before its first count
                self._is_empty_task, self._ends_with_compaction = True, False
            case "task_complete" if self._is_empty_task and self._ends_with_compaction:  # of the command /compact
                return CompactionDetailsRecord("manual")
            case "agent_message" if self._ends_with_compaction and payload.get("message") == COMPACT_TASK_NOTICE:
                return CompactionDetailsRecord("manual")
        return parsed

    def _parse_line(self, record: Record) -> RolloutLine:
        if record is not self._newest_line[0]:
            self._newest_line = record, rollout.parse_rollout_line(record)
        return self._newest_line[1]

    def _place_message(self, record: MessageRecord, time: int) -> MessageRecord:
        response = self._replies.assign_response_id(record)
        if not record.is_injected:
            self._is_empty_task = self._ends_with_compaction = False
        if record.role == Role.ASSISTANT:
            return replace(record, time=time, message_id=response, usage=self._usage_order.pop_reply_usage())
        if record.role == Role.USER and not record.has_results:
            self._usage_order.note_prompt()
            self._reviews &= record.is_injected  # nothing is typed in a review
            return replace(record, time=time, key=self._add_user(record))
        return replace(record, time=time)

    def _add_item_key(self, item: Record, record: MessageRecord) -> MessageRecord:
        if key := compaction.format_item_key(item):
            record = record if record.key else replace(record, key=key)
            self._key_by_item[key] = record.key
        return record

    def _add_user(self, record: MessageRecord) -> str:
        key = f"user {len(self._users)}"
        summary = bool(record.flags & MessageFlag.SUMMARY)
        self._users.append(_UserMessage(record, key, typed=not (record.is_injected or summary), summary=summary))
        return key

    def _place_compaction(self, payload: Record, parsed: ParsedRecord) -> ParsedRecord:
        """Complete a compaction: its context refers to known messages by key, and only the others are added."""
        summary = find_message(parsed)
        if summary is None or summary.compaction is None:
            return parsed
        items = compaction.find_replacement_history(payload)
        if items is None:
            return replace(summary, compaction=replace(summary.compaction, context=(*self._find_kept_users(), 0)))
        if summary.blocks[0].get("type") != "text" and all(isinstance(item, dict) for item in items):
            readable = [item for item in items if not item.get("encrypted_content")]
            self._readable_tokens = sum(bytes_to_tokens(len(compact_json(item))) for item in readable)
        recorded_context, keys = summary.compaction.context or (), compaction.list_item_keys(payload)
        messages, notes, context = list_messages(parsed), list(summary.notes), list[str | int]()
        numbers = [each for each in recorded_context if isinstance(each, int) and each]
        known_users = self._match_users({number: messages[number] for number in numbers})
        for each in recorded_context:
            if isinstance(each, str):
                if each not in self._key_by_item:
                    notes.append("a compaction that keeps an earlier item which is not in this file")
                context.append(self._key_by_item.get(each, ""))
                continue
            if each in known_users:
                key, messages[each] = known_users[each], OmittedMessage()
            else:
                message = messages[each]
                assert isinstance(message, MessageRecord)
                is_new_user = each and message.role == Role.USER and not message.has_results
                key = self._add_user(message) if is_new_user else next(iter(keys[each]), "")
                messages[each] = replace(message, key=key)
            context.append(known_users.get(each, each))
            self._key_by_item |= dict.fromkeys(keys[each], key)
        compacted = replace(summary.compaction, context=tuple(context))
        summary_record = replace(summary, key=messages[0].key, compaction=compacted, notes=tuple(notes))
        return group_records(summary_record, *messages[1:])

    def _match_users(self, messages: dict[int, MessageRecord | OmittedMessage]) -> dict[int, str]:
        keys_by_signature: dict[bytes, list[str]] = {}
        for user in self._users:
            keys_by_signature.setdefault(user.signature, []).append(user.key)
        matches: dict[int, str] = {}
        for number, record in reversed(messages.items()):
            assert isinstance(record, MessageRecord)
            is_prompt = record.role == Role.USER and not record.has_results
            if is_prompt and (same_keys := keys_by_signature.get(_compute_signature(record))):
                matches[number] = same_keys.pop()
        return matches

    def _find_kept_users(self) -> list[str]:
        """Return the keys of the user messages that a compaction without a recorded history keeps.

        Codex keeps the initial injected messages, the newest typed ones that fit, and part of one more (not recorded).
        """
        first_typed = next((n for n, user in enumerate(self._users) if user.typed), len(self._users))
        typed = [user for user in self._users[first_typed:] if user.typed]
        totals = accumulate(user.size for user in reversed(typed))
        count = sum(1 for _ in takewhile(lambda total: total <= KEPT_PROMPT_BYTES, totals))
        first = [user for user in self._users[:first_typed] if not user.summary]
        return [user.key for user in (*first, *typed[len(typed) - count :])]

    def _roll_back(self, turns: Any) -> str:
        """Remove the last *turns* turns. Return the key of the first removed typed message, or "" if there is none."""
        typed_positions = [number for number, user in enumerate(self._users) if user.typed]
        if type(turns) is not int or turns <= 0 or not typed_positions:
            return ""
        position = typed_positions[max(len(typed_positions) - turns, 0)]
        key = self._users[position].key
        del self._users[position:]
        self._replies.end_response()
        return key

    def _place_token_count(self, payload: Record, parsed: ParsedRecord, time: int) -> ParsedRecord:
        """Assign usage to its reply, but ignore a token count that is repeated, estimated, or copied into a fork."""
        info = values.as_object(payload.get("info"))
        summary_tokens = self._take_summary_tokens(info)
        if not self._usage_order.is_new(info):
            details = [CompactionDetailsRecord(summary_tokens=summary_tokens)] if summary_tokens else []
            return group_records(*list_cases(_replace_usage(parsed, None)), *details)
        self._replies.end_response()
        is_copied = len(self._session_ids) > 1 and time <= self._start_time + FORK_COPY_MS
        recorded = next((each.usage for each in list_cases(parsed) if isinstance(each, UsageRecord)), None)
        usage = self._usage_order.update(None if is_copied else recorded)
        counts, self._reasoning_tokens = self._counts_reasoning and not self._reasoning_tokens, 0
        return _replace_usage(parsed, usage, _estimate_missing_reasoning(info, usage) if usage and counts else 0)

    def _take_summary_tokens(self, info: Record) -> int | None:
        """Return the estimated tokens of an encrypted summary: those of the new context less its readable parts.

        Codex records its estimate of the context (without tools) after a compaction. Returns None if it is missing.
        """
        readable, self._readable_tokens = self._readable_tokens, None
        newest = values.as_object(info.get("last_token_usage"))
        total = newest.get("total_tokens")
        if readable is None or type(total) is not int or newest.get("input_tokens") or total > MAX_TOKENS:
            return None
        return max(total - self._instruction_tokens - readable, 0) or None


def _find_instructions(meta: Record) -> str:
    return values.as_text(values.as_object(meta.get("base_instructions")).get("text"))


def _replace_usage(parsed: ParsedRecord, usage: Usage | None, reasoning: int = 0) -> ParsedRecord:
    def update(record: Any) -> Any:
        return replace(record, usage=usage, reasoning=reasoning) if isinstance(record, UsageRecord) else record

    return group_records(*map(update, list_cases(parsed)))


class _UserMessage:
    def __init__(self, record: MessageRecord, key: str, *, typed: bool, summary: bool) -> None:
        self.key, self.typed, self.summary = key, typed, summary
        self.signature = _compute_signature(record)
        self.size = sum(utf8_len(extract_text([block])) for block in record.blocks)


class _UsageOrder:
    """Assigns token counts to replies. Up to 0.5x, a count precedes the items of its reply; later, it follows them.

    The first count after a user message shows the order: in newer files, items of a reply are between the two.
    """

    def __init__(self) -> None:
        self._last_count: Any = None  # the totals of the newest count
        self._counts_first = False
        self._pending: Usage | None = None  # of the next reply
        self._awaiting_count = True  # no count since the newest user message
        self._has_reply_items = False  # an item of a reply since the newest user message or count

    def note_prompt(self) -> None:
        self._awaiting_count, self._has_reply_items = True, False

    def note_compaction(self) -> None:
        """Discard the pending usage, as tokens counted for a summary belong to no reply."""
        self._pending, self._has_reply_items = None, False

    def pop_reply_usage(self) -> Usage | None:
        self._has_reply_items = True
        usage, self._pending = self._pending, None
        return usage

    def is_new(self, info: Record) -> bool:
        """Return whether a count belongs to a reply: it is neither a repetition nor an estimate after a compaction."""
        totals, newest = info.get("total_token_usage"), values.as_object(info.get("last_token_usage"))
        is_count = any(newest.get(name) for name in ("input_tokens", "output_tokens"))
        if not is_count or (totals, newest) == self._last_count:
            return False
        self._last_count = (totals, newest)
        return True

    def update(self, usage: Usage | None) -> Usage | None:
        """Add the usage of a new count, and return it if it belongs to the newest reply. Otherwise return None."""
        if self._awaiting_count:
            self._counts_first, self._awaiting_count = not self._has_reply_items, False
        has_reply, self._has_reply_items = self._has_reply_items, False
        if self._counts_first:
            self._pending = usage
            return None
        return usage if has_reply else None


def estimate_reasoning_tokens(item: Record) -> int:
    """Return Codex's estimate of the tokens in encrypted reasoning: one for four decoded bytes; 0 for other items.

    Source: codex-rs/core, estimate_reasoning_length.
    """
    text = item.get("encrypted_content") if item.get("type") == "reasoning" else None
    return -(-max(len(text) * 3 // 4 - REASONING_ENVELOPE_BYTES, 0) // 4) if isinstance(text, str) else 0


def _estimate_missing_reasoning(info: Record, usage: Usage) -> int:
    """Estimate reasoning tokens from recorded usage, for published rollouts that lack the encrypted reasoning."""
    tokens = values.as_object(info.get("last_token_usage")).get("reasoning_output_tokens")
    return round(tokens * REASONING_ESTIMATE_RATIO) if type(tokens) is int and 0 < tokens <= usage.output else 0


def _compute_signature(record: MessageRecord) -> bytes:
    return blake2b(compact_json(record.blocks), digest_size=16).digest()


def _parse_event(payload: Record, time: int) -> ParsedRecord:
    if payload.get("type") == "task_started":
        return _parse_window(payload.get("model_context_window"))
    if payload.get("type") != "token_count":
        return MetadataRecord()
    info = values.as_object(payload.get("info"))
    window = replace(_parse_window(info.get("model_context_window")), size_basis=parse_size_note(payload))
    usage, notes = values.parse_usage_or_note(parse_openai_usage, info.get("last_token_usage"))
    return group_records(window, UsageRecord(usage, time, notes=notes))


def _parse_window(value: Any) -> MetadataRecord:
    """Parse the context window that Codex uses, and derive the model's: since 0.5x, Codex uses 95 % of that.

    The number shows whether this applies, as model windows are multiples of 1,000 or 1,024 tokens (openai/codex#8763).
    """
    try:
        window = values.parse_tokens(value, "model_context_window")
        full_window = -(-window * 100 // USED_WINDOW_PERCENT)
        is_exact = full_window * USED_WINDOW_PERCENT // 100 == window
        is_round = 0 in (full_window % 1_000, full_window % 1_024)
        return MetadataRecord(window=window, model_window=full_window or None if is_exact and is_round else None)
    except ValueError as error:
        return MetadataRecord(notes=(str(error),))


def _parse_tools(value: Any) -> list[dict[str, Any]] | None:
    """Return the tools that a client added, in Anthropic's form, or None. Codex's own tools are never recorded."""
    schemas = []
    for tool in values.list_objects(value):
        schema = values.as_object(tool.get("inputSchema") or tool.get("input_schema"))
        names = {name: values.parse_id(tool.get(name)) for name in ("name", "description")}
        schemas.append({**names, "input_schema": schema})
    return schemas or None
