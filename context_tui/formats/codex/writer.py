"""Write rollouts that Codex can resume: session metadata, turn contexts, and the items in the context.

A context with a summary begins with a compaction that records the complete history up to the summary. Messages that
were read from items are written as the same items. Events that Codex displays on resuming (``event_msg``) are added.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from context_tui.formats.codex.compaction import list_items
from context_tui.formats.codex.rollout import ITEM, META, RolloutLine, parse_rollout_line
from context_tui.formats.kit import line_scanner, response_items, values, writing
from context_tui.formats.kit.size_note import build_size_note
from context_tui.session.blocks import bytes_to_tokens
from context_tui.session.facts import Facts, epoch_at
from context_tui.session.losses import Losses
from context_tui.session.memory import Origin, collect_models, collect_usage, find_origin, find_recording
from context_tui.session.session import Session
from context_tui.session.values import Kind, MessageFlag, RecordKind, Role

VERSION = "0.142.4"
"""Version of Codex whose records are reproduced."""
PROVIDER = "openai"
"""Provider that the first line names. Codex does not resume a rollout without a provider."""
_SOURCE_SESSION_MEMBERS = (
    *("forked_from_id", "parent_thread_id", "history_base", "session_id", "dynamic_tools", "context_window"),
    "history_mode",  # "paginated" needs an ordinal in each record
)
"""Members of a recorded first line that are wrong in a new session."""
_USAGE_FIELDS = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens", "total_tokens")

Record = dict[str, Any]


def write(session: Session, path: Path) -> Losses:
    """Write the session's context to the new file *path*, and return the losses."""
    writer = _Writer(session)
    writing.write_lines(writer.build_records(), path)
    return writer.losses


class RolloutItems:
    """Finds the items from which a message was read. The items of the newest record are cached."""

    def __init__(self) -> None:
        self._newest: tuple[line_scanner.LineContent | None, int] = (None, -1)
        self._newest_items: list[list[response_items.Item]] = []

    def find_items(self, origin: Origin) -> list[response_items.Item] | None:
        """Return the items of a message that was read from a rollout, or None for any other message.

        A summary that is recorded as text, or not at all, has no items and must be written as a new item.
        """
        content = _find_content(origin.session)
        if content is None:
            return None
        items: list[response_items.Item] = []
        for row in content.facts.iterate_records(origin.message):
            if self._newest != (content, row):
                self._newest, self._newest_items = (content, row), _list_record_items(content.read_record(row))
            items += self._newest_items[content.facts.find_ordinal_in_record(origin.message, row)]
        return items or None


def _find_content(session: Session) -> line_scanner.LineContent | None:
    """Return the content of a rollout, or None for a session of another format."""
    content = session.content
    return content if isinstance(content, line_scanner.LineContent) and session.info.format == "codex" else None


def _list_record_items(record: Record) -> list[list[response_items.Item]]:
    line = parse_rollout_line(record)
    payload = values.as_object(line.payload)
    if line.kind == "compacted":
        return list_items(payload)
    return [[payload]] if line.kind == ITEM else [[]]


class _Writer:
    def __init__(self, session: Session) -> None:
        self._session, self.losses = session, Losses()
        self._items = response_items.ItemWriter(session, self.losses, RolloutItems().find_items)
        self._usages, self._models = collect_usage(session), collect_models(session)
        self._totals = [0, 0, 0, 0, 0]
        self._time = -1

    def build_records(self) -> Iterator[Record]:
        facts, order = self._session.facts, self._session.context_at().order
        times = (facts.time[message] for message in order)
        self._time = next((time for time in times if time >= 0), values.parse_time_ms(datetime.now(UTC)))
        meta, turn = self._find_recorded_meta()
        yield self._build_record(META, self._build_meta(meta))
        model = next((self._models[message] for message in order if message in self._models), facts.model)
        cwd = str(meta.get("cwd") or "")
        if model:
            yield self._build_turn_context(turn, cwd, model)
        compacted_count = self._count_compacted(order)
        if compacted_count:
            yield self._build_record("compacted", self._build_compaction(order[:compacted_count]))
        if states := self._find_world_states(order):
            yield from (self._build_record("world_state", state) for state in states)
            if compacted_count:  # Codex disregards the settings before a compaction
                yield self._build_turn_context(turn, cwd, model)
        separating_count = sum(1 for message in order[compacted_count:] if facts.flags[message] & MessageFlag.SUMMARY)
        self.losses.add("summaries between a call and its result, written as plain messages", separating_count)
        for message in order[compacted_count:]:
            self._time = max(self._time, facts.time[message])
            if model != (model := self._models.get(message, model)):
                yield self._build_turn_context(turn, cwd, model)
            for written in self._items.write_message(message):
                yield self._build_record("response_item", written.item)
                yield from self._build_display_events(written)
            if usage := self._usages.get(message):
                self.losses.add("cache writes counted as new input", bool(usage.cache_write_5m + usage.cache_write_1h))
                newest_sizes = (usage.context, usage.cache_read, usage.output, 0, usage.context + usage.output)
                yield self._build_record("event_msg", self._build_token_count(newest_sizes))
        note = build_size_note(facts, self.losses)
        if not any(self._totals) and (facts.window or note):
            token_count = self._build_token_count((0, 0, 0, 0, self._estimate_context()))
            yield self._build_record("event_msg", token_count | note)

    def _count_compacted(self, order: Sequence[int]) -> int:
        """Return the number of messages to write as a compaction, up to the last summary after which no result is due.

        A compaction's summary is a user message, so the results of earlier calls must precede it.
        """
        facts, compacted_count, newest_result = self._session.facts, 0, -1
        rows = [(place, row) for place, message in enumerate(order) for row in facts.blocks_of(message)]
        result_places = {facts.call_id(row): place for place, row in rows if facts.kind[row] == Kind.TOOL_RESULT}
        for place, message in enumerate(order):
            first_row = next(iter(facts.blocks_of(message)), -1)
            begins_with_call = first_row >= 0 and facts.kind[first_row] == Kind.TOOL_USE  # and is merged with it
            if facts.flags[message] & MessageFlag.SUMMARY and not begins_with_call and newest_result <= place:
                compacted_count = place + 1
            ids = (facts.call_id(row) for row in facts.blocks_of(message) if facts.kind[row] == Kind.TOOL_USE)
            newest_result = max(newest_result, *(result_places.get(call, -1) for call in ids), -1)
        return compacted_count

    def _build_record(self, kind: str, payload: Record) -> Record:
        return {"timestamp": writing.format_iso_time(self._time), "type": kind, "payload": payload}

    def _find_recorded_meta(self) -> tuple[Record, Record]:
        """Return the session metadata and newest turn context of the recorded rollout, or two empty dictionaries."""
        recording = find_recording(self._session)
        rows = range(len(recording.facts.record_kind))
        metas = (line.payload for line in _iterate_metadata(recording, rows) if line.kind == META)
        turns = (line.payload for line in _iterate_metadata(recording, rows[::-1]) if line.kind == "turn_context")
        return next(metas, {}), next(turns, {})

    def _find_world_states(self, order: Sequence[int]) -> list[Record]:
        """Return the newest full ``world_state`` and its later changes, or [] if a text that they stand for is missing.

        Codex compares its instructions and environment with these, and repeats to the model what they lack.
        """
        recording = find_recording(self._session)
        facts = recording.facts
        origins = [each for message in order if isinstance(each := find_origin(self._session, message), Origin)]
        point = max((origin.message for origin in origins), default=-1) + 1
        if not point or _lacks_injected_text(facts, point, origins):
            return []
        start = facts.first_record[epoch_at(facts, point).message]
        states, end = list[Record](), facts.first_record[point] if point < len(recording) else len(facts.record_kind)
        for line in _iterate_metadata(recording, range(end - 1, start, -1)):
            states += [line.payload] if line.kind == "world_state" else []
            if states and states[-1].get("full"):
                return states[::-1]
            if line.kind == "event_msg" and line.payload.get("type") == "thread_rolled_back":
                return []  # it may have taken back a change
        return []

    def _build_meta(self, recorded: Record) -> Record:
        members = {name: value for name, value in recorded.items() if name not in _SOURCE_SESSION_MEMBERS}
        system, source = self._session.content.system(), members.get("source")
        return {
            "originator": "codex_cli_rs",
            "cli_version": VERSION,
            **members,
            "id": _make_id(),
            "timestamp": self._build_record("", {})["timestamp"],
            "cwd": members.get("cwd") or self._session.info.cwd,
            "source": source if isinstance(source, str) else "cli",
            "model_provider": members.get("model_provider") or PROVIDER,
            **({"base_instructions": {"text": system}} if system else {}),
        }

    def _build_turn_context(self, recorded: Record, cwd: str, model: str | None) -> Record:
        defaults = {"approval_policy": "on-request", "sandbox_policy": {"type": "read-only"}, "summary": "auto"}
        members = {name: value for name, value in recorded.items() if name != "turn_id"}
        payload = {"cwd": cwd or self._session.info.cwd, **defaults, **members, "model": model}
        return self._build_record("turn_context", payload)

    def _build_compaction(self, messages: Sequence[int]) -> Record:
        *other_messages, summary = messages
        if self._session.facts.role[summary] == Role.ASSISTANT:
            self.losses.add_note("the summary is written as a user message, as Codex does")
        history = [written.item for message in other_messages for written in self._items.write_message(message)]
        history += [written.item for written in self._items.write_message(summary, as_user=True)]
        blocks = self._session.content.blocks(summary)
        text = next((str(block.get("text") or "") for block in blocks if block.get("type") == "text"), "")
        return {"message": text, "replacement_history": history}

    def _build_display_events(self, written: response_items.WrittenItem) -> Iterator[Record]:
        """Yield an event that Codex displays on resuming, if the item is typed text or text of the assistant."""
        item = written.item
        if item.get("type") != "message" or not (written.is_typed or item.get("role") == "assistant"):
            return
        parts = [part for part in item.get("content") or () if isinstance(part, dict)]
        text = "\n\n".join(str(part["text"]) for part in parts if part.get("text"))
        kind = "user_message" if written.is_typed else "agent_message"
        if text or written.is_typed:
            yield self._build_record("event_msg", {"type": kind, "message": text})

    def _estimate_context(self) -> int:
        """Estimate the size of the context in tokens, which Codex records after a compaction in place of usage."""
        facts, context = self._session.facts, self._session.context_at()
        rows = [row for message in context.order for row in facts.blocks_of(message)]
        return bytes_to_tokens(facts.system_bytes + sum(facts.size[row] for row in rows))

    def _build_token_count(self, newest_sizes: tuple[int, ...]) -> Record:
        if any(newest_sizes[:-1]):
            self._totals = [total + size for total, size in zip(self._totals, newest_sizes, strict=True)]
        window = self._session.facts.window
        return {
            "type": "token_count",
            "info": {
                "total_token_usage": dict(zip(_USAGE_FIELDS, self._totals, strict=True)),
                "last_token_usage": dict(zip(_USAGE_FIELDS, newest_sizes, strict=True)),
                **({"model_context_window": window} if window else {}),
            },
        }


def _lacks_injected_text(facts: Facts, point: int, origins: Iterable[Origin]) -> bool:
    """Return whether *origins* lack a message with injected text, unchanged, of the context before message *point*."""
    epoch, unchanged = epoch_at(facts, point), {origin.message for origin in origins if not origin.texts}
    missing = {*epoch.prefix, *range(epoch.start, point)} - unchanged
    return any(writing.list_injected(facts, (block for message in missing for block in facts.blocks_of(message))))


def _iterate_metadata(recording: Session, rows: Iterable[int]) -> Iterator[RolloutLine]:
    """Yield the lines of a rollout in *rows* that hold no message, each with an object as its payload."""
    content = _find_content(recording)
    for row in rows:
        if content and content.facts.record_kind[row] == RecordKind.METADATA:
            line = parse_rollout_line(content.read_record(row))
            yield line._replace(payload=values.as_object(line.payload))


def _make_id() -> str:
    time = values.parse_time_ms(datetime.now(UTC))
    number = (time << 80) | (7 << 76) | (secrets.randbits(12) << 64) | (2 << 62) | secrets.randbits(62)
    return str(uuid.UUID(int=number))
