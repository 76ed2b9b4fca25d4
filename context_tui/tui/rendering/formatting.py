"""Formatting for the screen: previews of messages, tool calls, results, images and token counts."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from textual.cache import LRUCache

from context_tui.compaction.next_request import NextRequest
from context_tui.session.facts import Facts
from context_tui.session.markers import strip_command_tags
from context_tui.session.session import Session
from context_tui.session.values import BlockFlag, Kind, MessageFlag, Role
from context_tui.text.sanitize import sanitize_line
from context_tui.tokens.context_size import SizeSource
from context_tui.tokens.measures import TokenMeasure, TokenTable

PREVIEW_CHARS = 300
"""Maximum number of characters of a preview, more than fit on a line."""
LARGE_MESSAGE_BYTES = 250_000
"""Size in bytes above which a message counts as large; only the last large message is cached."""
UNSETTLED_MESSAGES = 32
"""Number of messages at the end of a growing session that may still change."""
HUGE_MESSAGE_BYTES = 4_000_000
"""Size in bytes above which a message is not read for a preview, because decoding it would block the screen."""

# Arguments shown in the preview of a call, the most informative first; other calls show their first short argument.
_PREVIEW_KEYS = (
    *("command", "cmd", "commands", "pattern", "file_path", "filePath", "path", "files", "notebook_path"),
    *("query", "url", "description", "prompt"),
)
_COMMAND_KEYS = frozenset({"command", "cmd", "commands"})
_PATH_KEYS = frozenset({"file_path", "filePath", "path", "notebook_path", "files"})
_SHELL = re.compile(r"(?:/\S*/)?(?:ba|z|k|da)?sh")
_CD_PREFIX = re.compile(r"cd ((?:[^\s'\"&|;<>$`\\])+) *(?:&&|;) *(?=\S)")


def format_line(text: str, limit: int = PREVIEW_CHARS) -> str:
    """Return *text* as one line of at most *limit* characters, safe to draw, with runs of whitespace collapsed."""
    return " ".join(sanitize_line(text[: limit * 4]).replace("⏎", " ").split())[:limit]


def format_call(name: str, arguments: Any, cwd: str = "") -> str:
    """Format a tool call on one line: the name of the tool and the most informative argument."""
    return format_line(f"{name} {_find_preview_argument(arguments, cwd)}".strip())


def _find_preview_argument(arguments: Any, cwd: str) -> str:
    if isinstance(arguments, str):
        return arguments[: PREVIEW_CHARS * 4]
    if not isinstance(arguments, Mapping):
        return ""
    for key in _PREVIEW_KEYS:
        value = arguments.get(key)
        if isinstance(value, list):
            texts = [_find_preview_argument(part, cwd) for part in value[:20] if isinstance(part, str | Mapping)]
            if len(texts) > 2 and _SHELL.fullmatch(texts[0]) and texts[1] in ("-c", "-lc"):
                texts = texts[2:]
            value = " ".join(_shorten_path(text, cwd) if key in _PATH_KEYS else text for text in texts)
        if isinstance(value, str) and value:
            if key in _COMMAND_KEYS:
                return _shorten_command(value[: PREVIEW_CHARS * 4], cwd)
            return _shorten_path(value, cwd) if key in _PATH_KEYS else value[: PREVIEW_CHARS * 4]
    values = (value for value in arguments.values() if isinstance(value, str | int) and value)
    return str(next(values, ""))[:PREVIEW_CHARS]


def _shorten_command(command: str, cwd: str) -> str:
    """Shorten ``cd FOLDER &&`` before a command to the folder's name, or to nothing if it is the session's folder."""
    if not (match := _CD_PREFIX.match(command)):
        return command
    rest, folder = command[match.end() :], match[1].rstrip("/")
    return rest if folder == cwd.rstrip("/") else f"{folder.rpartition('/')[2] or folder}> {rest}"


def _shorten_path(path: str, cwd: str) -> str:
    if len(path) > 4_096:
        return path
    if cwd and PurePath(path).is_relative_to(cwd):
        return str(PurePath(path).relative_to(cwd))
    parts = path.split("/")
    return "…/" + "/".join(parts[-3:]) if path.startswith("/") and len(parts) > 5 else path


def format_result(content: Any) -> str:
    """Format the content of a tool result as text; a part that is not text is represented by its type."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [part if isinstance(part, Mapping) else {"type": "text", "text": str(part)} for part in content]
        return "\n".join(
            str(part.get("text") or "") if part.get("type") == "text" else f"({part.get('type') or 'part'})"
            for part in parts
        )
    return "" if content is None else str(content)


def format_block(block: Mapping[str, Any]) -> str:
    """Format a block for the clipboard: its text, a tool call with its arguments, or else only its type."""
    kind = block.get("type")
    if kind in ("text", "thinking"):
        return str(block.get(str(kind)) or "")
    if kind == "tool_result":
        return format_result(block.get("content"))
    if kind == "tool_use":
        return f"{block.get('name')} {json.dumps(block.get('input'), indent=2, ensure_ascii=False, default=str)}"
    return f"({format_unknown_block(block)})"


def format_unknown_block(block: Mapping[str, Any]) -> str:
    """Format a block of unknown type as its type, with the size of its encrypted text or its note if it has one."""
    kind = format_line(str(block.get("type") or "unknown"))
    encrypted, note = block.get("encrypted_content"), block.get("note")
    if isinstance(encrypted, str) and encrypted:
        return f"{kind}, encrypted: {len(encrypted):,} characters"
    return f"{kind}: {format_line(note)}" if isinstance(note, str) and note else kind


def has_unknown_size(facts: Facts, message: int) -> bool:
    """Return whether a message consists only of blocks of unknown type, whose sizes are not estimated."""
    return {facts.kind[block] for block in facts.blocks_of(message)} == {Kind.OTHER}


def count_message_bytes(facts: Facts, message: int) -> int:
    """Return the size in bytes of a message's records, or of its blocks if the records' sizes are unknown."""
    recorded = sum(facts.record_length[row] for row in facts.iterate_records(message))
    return recorded or sum(facts.size[block] for block in facts.blocks_of(message))


class MessageReader:
    """A reader of the blocks of a session's messages and of their one-line previews, with a cache for both."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._blocks: LRUCache[int, list[dict[str, Any]]] = LRUCache(64)
        self._large_message: tuple[int, list[dict[str, Any]]] = (-1, [])
        self._previews: LRUCache[tuple[int, int], str] = LRUCache(4096)

    def read_blocks(self, message: int) -> list[dict[str, Any]]:
        """Return a message's blocks with their full text, or an empty list if the file cannot be read."""
        blocks = self._large_message[1] if message == self._large_message[0] else self._blocks.get(message)
        if blocks is None:
            try:
                blocks = self.session.content.blocks(message)
            except Exception:  # the file was removed or changed; previews say so
                blocks = []
            if count_message_bytes(self.session.facts, message) > LARGE_MESSAGE_BYTES:
                self._large_message = (message, blocks)
            else:
                self._blocks[message] = blocks
        return blocks

    def read_block(self, row: int) -> dict[str, Any]:
        """Return the block numbered *row* in the session's facts, or an empty dict if it cannot be read."""
        message = self.session.facts.block_message[row]
        blocks = zip(self.session.facts.blocks_of(message), self.read_blocks(message), strict=False)
        return dict(blocks).get(row, {})

    def with_session(self, session: Session) -> MessageReader:
        """Return a reader for a session that has grown, with the cached previews that are still valid."""
        reader = MessageReader(session)
        if session.facts is self.session.facts:
            settled_count = len(self.session) - UNSETTLED_MESSAGES
            for key in list(self._previews.keys()):
                if key[0] < settled_count:
                    reader._previews[key] = self._previews[key]
        return reader

    def is_cached(self, message: int) -> bool:
        """Return whether the blocks of a message can be read without access to the file."""
        return message == self._large_message[0] or message in self._blocks

    def is_huge(self, message: int) -> bool:
        """Return whether a message is too large to be read for a mere preview."""
        return count_message_bytes(self.session.facts, message) > HUGE_MESSAGE_BYTES

    def format_preview(self, message: int, block: int = -1) -> str:
        """Return one line with a message's text and tool calls or, for a tool result *block*, with its call."""
        key = (message, block)
        preview = self._previews.get(key)
        if preview is None:
            preview = self._format_result_preview(block) if block >= 0 else self._format_message_preview(message)
            self._previews[key] = preview
        return preview

    def _format_result_preview(self, row: int) -> str:
        facts = self.session.facts
        if (use := facts.find_tool_use(row)) >= 0:
            if self.is_huge(facts.block_message[use]):
                return format_line(facts.tool_name(row))
            return self._format_call_preview(self.read_block(use))
        if self.is_huge(facts.block_message[row]):
            return "a call that is not in the file"
        return format_line(format_result(self.read_block(row).get("content")))

    def _format_call_preview(self, block: Mapping[str, Any]) -> str:
        return format_call(str(block.get("name") or "?"), block.get("input"), self.session.info.cwd)

    def _format_message_preview(self, message: int) -> str:
        facts = self.session.facts
        if self.is_huge(message):
            return f"({count_message_bytes(facts, message) / 1e6:.1f} MB)"
        texts, calls, other_parts, injected = [], [], [], []
        rows = list(facts.blocks_of(message))
        for row, block in zip(rows, self.read_blocks(message), strict=False):
            kind = facts.kind[row]
            if kind == Kind.TEXT and not facts.block_flags[row] & BlockFlag.INJECTED:
                texts.append(format_line(strip_command_tags(str(block.get("text") or ""))))
            elif kind == Kind.TOOL_USE:
                calls.append(self._format_call_preview(block))
            elif kind == Kind.TEXT:
                injected.append(format_line(str(block.get("text") or "")))
            elif kind == Kind.THINKING:
                thinking = format_line(str(block.get("thinking") or ""))
                other_parts.append(f"(thinking) {thinking}" if thinking else "(hidden thinking)")
            elif kind == Kind.IMAGE:
                other_parts.append("(image)")
            elif kind == Kind.OTHER:
                other_parts.append(f"({format_unknown_block(block)})")
        text = " ".join(filter(None, texts))
        call = " · ".join(calls)
        if text or call:
            return format_line(f"{text}  → {call}" if text and call else text or f"→ {call}")
        if injected:
            other_parts = [f"(injected) {' '.join(injected)}", *other_parts] if other_parts else injected
        return format_line(" ".join(other_parts)) if other_parts else "(empty)" if not rows else "(cannot be read)"


def format_row_kind(facts: Facts, message: int, block: int = -1) -> str:
    """Format the kind of a message, or of its tool result *block*, in at most seven letters."""
    if block >= 0:
        return "error" if facts.block_flags[block] & BlockFlag.ERROR else "result"
    if facts.flags[message] & MessageFlag.SUMMARY:
        return "summary"
    role = facts.role[message]
    if role == Role.ASSISTANT:
        return "asst"
    if role == Role.SYSTEM:
        return "system"
    return "user" if facts.flags[message] & MessageFlag.TURN_START else "inject"


def format_token_unit(token_table: TokenTable | None) -> str:
    """Return the label for token counts: ``est.`` for ``bytes/4``, or the short name of the measure."""
    return token_table.label if token_table else "est."


def format_token_column(token_table: TokenTable | None) -> str:
    """Return the heading for a column of token counts; ``~`` marks calibrated counts."""
    if token_table and token_table.measure is TokenMeasure.EXACT:
        return token_table.name
    if token_table and token_table.is_calibrated:
        return "~tokens"
    return f"{format_token_unit(token_table)} tokens"


def format_estimate_sign(request: NextRequest) -> str:
    """Return the sign before the size of a request without the plan: ``~``, or "" if the size was recorded."""
    return "" if request.account.origin is SizeSource.RECORDED else "~"


def format_difference(tokens: int) -> str:
    """Format a difference in tokens with its sign, plus or minus."""
    return f"{'+' if tokens > 0 else '−'}{abs(tokens):,}"


def describe_image(block: Mapping[str, Any]) -> str:
    """Return an image block's type, size in bytes and size in pixels as text, as far as known."""
    source = block.get("source")
    source = source if isinstance(source, Mapping) else {}
    data, url = source.get("data"), source.get("url")
    parts = [sanitize_line(str(source.get("media_type") or "image"))[:40]]
    if isinstance(data, str):
        parts.append(f"{len(data) * 3 // 4 / 1024:,.0f} KB")
        if pixels := read_image_size(data):
            parts.append(f"{pixels[0]:,} × {pixels[1]:,} pixels")
    elif isinstance(url, str):
        parts.append(sanitize_line(url[:200]))
    return ", ".join(parts)


def read_image_size(data: str) -> tuple[int, int] | None:
    """Return the width and height of a base64-encoded PNG, GIF or JPEG, or None if they cannot be read."""
    try:
        head = base64.b64decode(data[:65_536])
    except (binascii.Error, ValueError):
        return None
    if head.startswith(b"\x89PNG\r\n\x1a\n") and len(head) >= 24:
        return int.from_bytes(head[16:20]), int.from_bytes(head[20:24])
    if head.startswith((b"GIF87a", b"GIF89a")) and len(head) >= 10:
        return int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little")
    if head.startswith(b"\xff\xd8"):
        return _read_jpeg_size(head)
    return None


def _read_jpeg_size(head: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 < len(head) and head[at] == 0xFF:
        marker = head[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return int.from_bytes(head[at + 7 : at + 9]), int.from_bytes(head[at + 5 : at + 7])
        at += 2 + int.from_bytes(head[at + 2 : at + 4])
    return None
