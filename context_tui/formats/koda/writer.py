"""Writer of new koda databases: the tables of sessions, with the rows of one session."""

from __future__ import annotations

import re
import sqlite3
import uuid
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from context_tui.formats.kit.values import format_arguments
from context_tui.formats.kit.writing import convert_body_to_text, count_injected_losses
from context_tui.formats.koda.tables import format_schema
from context_tui.session import markers
from context_tui.session.facts import Usage
from context_tui.session.jsontext import compact_text
from context_tui.session.losses import Losses
from context_tui.session.memory import collect_usage
from context_tui.session.session import Message, Session

Block = dict[str, Any]
RowValues = dict[str, Any]

THINKING_TYPES = ("thinking", "redacted_thinking")
ASSISTANT_TYPES = ("text", "tool_use", *THINKING_TYPES)
USER_TYPES = ("text", "tool_result")
"""Types of blocks that a row can hold; an image is replaced by a word."""
JOINED_TEXTS = "messages whose texts were merged into one"
SUMMARY_MARKED = "summaries written as koda's system row, with koda's marker"

_LONE_SURROGATES = re.compile("[\ud800-\udfff]")

_INSERT = """
INSERT INTO messages (session_id, role, content, tool_calls, tool_call_id, thinking_content, prompt_tokens,
completion_tokens, cache_read_tokens, cache_creation_tokens, completed_at, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


def write_database(session: Session, path: Path) -> Losses:
    """Write the tables and the rows.

    Returns:
        The losses.

    Raises:
        OSError: the database cannot be written.
    """
    losses = Losses()
    system = session.content.system()
    rows: list[RowValues] = [{"role": "system", "content": system}] if system and session.facts.system_records else []
    usages, facts = collect_usage(session), session.facts
    for index, message in zip(session.context_at().order, session.to_messages(), strict=True):
        made = _build_rows(message, losses)
        rows += [{**row, "time": facts.time[index]} for row in made]
        if index in usages and made[0]["role"] == "assistant":
            rows[-1] |= _format_usage(usages[index])
    count_injected_losses(session, losses)
    if system and not session.facts.system_records:
        losses.add_note("the system prompt is left out; koda adds its own")
    if session.content.tools():
        losses.add_note("the tool schemas are left out; koda adds its own")
    times = [time for time in session.facts.time if time >= 0]
    when = datetime.fromtimestamp(times[-1] / 1000, UTC) if times else datetime.now(UTC)
    now, new_id = _format_time(when), str(uuid.uuid4())
    try:
        with closing(sqlite3.connect(path)) as database, database:
            database.executescript(format_schema())
            database.execute(
                "INSERT INTO sessions (id, created_at, agent_name, project_root, last_accessed_at, title)"
                " VALUES (?, ?, 'koda', ?, ?, ?)",
                (
                    new_id,
                    now,
                    _replace_surrogates(session.info.cwd) or None,
                    now,
                    _replace_surrogates(session.info.title) or None,
                ),
            )
            database.executemany(_INSERT, [_build_values(row, new_id, now, losses) for row in rows])
    except sqlite3.Error as error:
        raise OSError(str(error)) from None  # as for any file, reported with the named path
    return losses


def _build_values(row: RowValues, session_id: str, now: str, losses: Losses) -> tuple[Any, ...]:
    given = [row.get(name) for name in ("content", "tool_calls", "tool_call_id", "thinking_content")]
    texts = [_replace_surrogates(text) for text in given]
    losses.add(
        "texts with lone surrogates, which were replaced", sum(a != b for a, b in zip(given, texts, strict=True))
    )
    time = row.get("time", -1)
    created = _format_time(datetime.fromtimestamp(time / 1000, UTC)) if time >= 0 else now
    return (
        session_id,
        row["role"],
        *texts,
        *map(row.get, ("prompt_tokens", "completion_tokens", "cache_read_tokens", "cache_creation_tokens")),
        created if row["role"] == "assistant" else None,
        created,
    )


def _format_time(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M:%S}"


def _format_usage(usage: Usage) -> RowValues:
    """Format usage for koda's columns: without cache writes, prompt tokens include cached ones."""
    written = usage.cache_write_5m + usage.cache_write_1h
    return {
        "prompt_tokens": usage.fresh if written else usage.fresh + usage.cache_read,
        "completion_tokens": usage.output,
        "cache_read_tokens": usage.cache_read,
        "cache_creation_tokens": written,
    }


def _replace_surrogates(value: str | None) -> str | None:
    """Replace lone surrogates in a text, which UTF-8 cannot encode."""
    return value and _LONE_SURROGATES.sub("\ufffd", value)


def _build_rows(message: Message, losses: Losses) -> list[RowValues]:
    blocks: list[Block] = message["content"]
    if summary := _format_summary(blocks):
        if len(blocks) > 1:
            losses.add(JOINED_TEXTS)
        if not str(blocks[0].get("text") or "").startswith(markers.KODA_SUMMARY):
            losses.replace(_join_blocks(blocks), {"type": "text", "text": summary}, SUMMARY_MARKED)
        return [{"role": "system", "content": summary}]
    spoken = message["role"] == "assistant"
    for block in blocks:
        if block.get("type") not in (ASSISTANT_TYPES if spoken else USER_TYPES):
            losses.omit(
                "images left out" if block.get("type") == "image" else "blocks left out that koda cannot hold",
                block,
            )
    content = _join_texts(blocks, losses)
    if spoken:
        return [{"role": "assistant", "content": content, **_format_calls(blocks), **_format_thinking(blocks, losses)}]
    results: list[RowValues] = [
        {
            "role": "tool",
            "tool_call_id": str(block.get("tool_use_id") or ""),
            "content": convert_body_to_text(block, losses),
        }
        for block in blocks
        if block.get("type") == "tool_result"
    ]
    losses.add("results no longer marked as errors", sum(bool(block.get("is_error")) for block in blocks))
    if results and content is not None:
        losses.add("messages with results and text split into two")
    return results if results and content is None else [*results, {"role": "user", "content": content}]


def _join_blocks(blocks: list[Block]) -> Block:
    return {"type": "text", "text": "".join(str(block.get("text") or "") for block in blocks)}


def _format_summary(blocks: list[Block]) -> str:
    """Format a summary for koda's system row; empty if the blocks are not a summary."""
    texts = [str(block.get("text") or "") for block in blocks if block.get("type") == "text"]
    if len(texts) != len(blocks) or not texts:
        return ""
    body = "\n\n".join(texts)
    if body.startswith(markers.KODA_SUMMARY):
        return body
    starts = (markers.DEFECT_SUMMARY, markers.SDK_SUMMARY, markers.CLAUDE_CODE_SUMMARY)
    if not body.startswith(starts):
        return ""
    return f"{markers.KODA_SUMMARY}\n\n{markers.strip_summary_marker(body)}"


def _join_texts(blocks: list[Block], losses: Losses) -> str | None:
    texts = [
        "[image]" if block.get("type") == "image" else str(block.get("text") or "")
        for block in blocks
        if block.get("type") in ("text", "image")
    ]
    if len(texts) > 1:
        losses.add(JOINED_TEXTS)
    return "\n\n".join(texts) if texts else None


def _format_calls(blocks: list[Block]) -> RowValues:
    calls = [
        {
            "id": str(block.get("id") or ""),
            "function_name": str(block.get("name") or ""),
            "arguments": format_arguments(block.get("input")),
        }
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    return {"tool_calls": compact_text(calls)} if calls else {}


def _format_thinking(blocks: list[Block], losses: Losses) -> RowValues:
    thoughts = [block for block in blocks if block.get("type") in THINKING_TYPES]
    texts = [text for block in thoughts if (text := str(block.get("thinking") or ""))]
    if any("signature" in block or block.get("type") == "redacted_thinking" for block in thoughts) or len(texts) > 1:
        losses.add("replies whose thinking lost its signature or its parts")
        for block in thoughts:
            losses.replace(block, {"type": "thinking", "thinking": block.get("thinking")})
    return {"thinking_content": "\n\n".join(texts)} if texts else {}
