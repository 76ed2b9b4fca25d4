"""Export of a context to a Markdown page for people to read; the page cannot be opened as a session.

Messages are quoted, so that their headings and fences do not affect the page. Calls, results, and text with tags are in
fences longer than any inside them. Control characters are removed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from context_tui.session.losses import Losses
from context_tui.session.session import Message, Session
from context_tui.session.validation import MAX_TIME_MS
from context_tui.session.values import BlockFlag, MessageFlag, Role
from context_tui.text.sanitize import sanitize, sanitize_line
from context_tui.tokens.context_index import index_context

MARKDOWN = "markdown"
MARKDOWN_ABOUT = "a page to read, with every message, call and result; it cannot be opened again"
MARKDOWN_SUFFIX = ".md"

_TAG = re.compile(r"<[A-Za-z/!?]")
_FENCE = re.compile(r"`{3,}")

BlockData = Mapping[str, Any]


def write_page(session: Session, messages: list[Message], path: Path) -> Losses:
    """Write *messages*, the context at the end of *session*, to the new file *path*, and return what was lost."""
    losses = Losses()
    with path.open("x", encoding="utf-8", newline="\n") as file:
        for part in _format_parts(session, messages, losses):
            file.write(f"{part}\n\n")
    return losses


def _format_parts(session: Session, messages: list[Message], losses: Losses) -> Iterator[str]:
    context, facts = session.context_at(), session.facts
    yield f"# {_escape_name(session.info.title or Path(session.info.path).name or 'Session')}"
    yield "\n".join(f"- {each}" for each in _format_header(session))
    if system := session.content.system():
        yield "## System prompt"
        yield _format_fence(system)
    starts = {context.order[position] for position in index_context(context).turn_starts}
    calls: dict[str, str] = {}
    turn = 0
    for message, content_message in zip(context.order, messages, strict=True):
        if message in starts:
            turn += 1
            yield f"## Turn {turn:,}"
        role = "assistant" if facts.role[message] == Role.ASSISTANT else "user"
        summary = " (summary)" if facts.flags[message] & MessageFlag.SUMMARY else ""
        yield f"### #{message} {role}{summary}{_format_time(facts.time[message])}"
        rows = list(facts.blocks_of(message))
        injected = [bool(facts.block_flags[row] & BlockFlag.INJECTED) for row in rows]
        if len(rows) != len(content_message["content"]):  # some were removed
            injected = [False] * len(content_message["content"])
        for block, is_injected in zip(content_message["content"], injected, strict=True):
            yield from _format_block(block, is_injected, calls, losses)


def _format_header(session: Session) -> Iterator[str]:
    info, context, window = session.info, session.context_at(), session.window
    yield f"agent: {_escape_name(info.format)}, model: {_escape_name(session.facts.model or 'unknown')}"
    if info.cwd:
        yield f"folder: {_escape_name(info.cwd)}"
    sizes = index_context(context)
    yield (
        f"messages: {len(context):,}, turns: {len(sizes.turn_starts):,}, est. {sizes.total:,} tokens (bytes / 4) "
        f"of a window of {window.tokens:,} ({window.source})"
    )
    if session.origin:
        yield f"applied: {_escape_name(session.origin)}"


def _format_time(time: int) -> str:
    return f", {datetime.fromtimestamp(time / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC" if 0 <= time <= MAX_TIME_MS else ""


def _format_block(block: BlockData, injected: bool, calls: dict[str, str], losses: Losses) -> Iterator[str]:
    kind = block.get("type")
    if kind == "text":
        if injected:
            yield "*put in by the runtime:*"
        yield _quote_text(str(block.get("text") or ""))
    elif kind in ("thinking", "redacted_thinking"):
        thinking = str(block.get("thinking") or "")
        yield "*thinking:*" if thinking else "*thinking, hidden by the provider*"
        if thinking:
            yield _quote_text(thinking)
    elif kind == "tool_use":
        calls[str(block.get("id"))] = name = "`" + sanitize_line(str(block.get("name") or "?")).replace("`", "'") + "`"
        yield f"**call** {name}"
        yield _format_fence(_format_json(block.get("input")), "json")
    elif kind == "tool_result":
        error = ", an error" if block.get("is_error") else ""
        yield f"**result** of {calls.get(str(block.get('tool_use_id')), 'a call that is not here')}{error}"
        body = block.get("content")
        for part in body if isinstance(body, list) else [{"type": "text", "text": body}]:
            yield from _format_result_part(part, losses)
    elif kind == "image":
        losses.add("images named, not shown")
        yield f"*image: {_escape_name(_format_image(block))}*"
    else:
        yield f"*{_escape_name(str(kind or 'unknown'))}, of unknown size:*"
        yield _format_fence(_format_json(block), "json")


def _format_result_part(part: Any, losses: Losses) -> Iterator[str]:
    if isinstance(part, Mapping) and part.get("type") == "image":
        yield from _format_block(part, False, {}, losses)
    elif isinstance(part, Mapping) and part.get("type") == "text":
        text = part.get("text")
        yield _format_fence(text if isinstance(text, str) else "" if text is None else _format_json(text))
    else:
        yield _format_fence(_format_json(part), "json")


def _format_image(block: BlockData) -> str:
    source = block["source"] if isinstance(block.get("source"), Mapping) else {}
    return str(source.get("media_type") or source.get("url") or "of unknown type")[:200]


def _format_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def _escape_name(text: str) -> str:
    return re.sub(r"([\\`*\[\]<>|])", r"\\\1", sanitize_line(text))


def _quote_text(text: str) -> str:
    """Return recorded Markdown as a quotation, or in a fence if it has tags, which a page would hide."""
    clean = sanitize(text)
    if _TAG.search(clean):
        return _format_fence(clean)
    return "\n".join(f"> {line}".rstrip() for line in clean.split("\n")) if clean.strip() else "*empty*"


def _format_fence(text: str, language: str = "") -> str:
    clean = sanitize(text).rstrip("\n")
    fence = "`" * max(3, *(len(run) + 1 for run in _FENCE.findall(clean)), 3)
    return f"{fence}{language}\n{clean}\n{fence}"
