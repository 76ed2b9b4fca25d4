"""Session text for the screen: read when it is painted, kept while it is near, and safe to draw.

Everything that leaves this module has passed ``sanitize``; it still must enter widgets only where no markup is parsed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from textual.cache import LRUCache

from context_tui.session.facts import Facts
from context_tui.session.session import Session
from context_tui.session.values import BlockFlag, Kind, MessageFlag, Role
from context_tui.text.sanitize import sanitize_line

PREVIEW = 300
"""Characters of a preview; more never fits on a line."""
LARGE = 250_000
"""Bytes from which on only the message that was read last is kept."""
UNSETTLED = 32
"""Messages at the end of a session that is still being read which may yet change."""
HUGE = 4_000_000
"""Bytes from which on a message is not read for its preview: decoding it would hold up the screen."""

# What tells most about a call, in this order; what is not here shows its first short argument.
_TELLING = (
    *("command", "cmd", "commands", "pattern", "file_path", "filePath", "path", "files", "notebook_path"),
    *("query", "url", "description", "prompt"),
)
_COMMANDS = frozenset({"command", "cmd", "commands"})
_PATHS = frozenset({"file_path", "filePath", "path", "notebook_path", "files"})
_SHELL = re.compile(r"(?:/\S*/)?(?:ba|z|k|da)?sh")
_FOLDER = re.compile(r"cd ((?:[^\s'\"&|;<>$`\\])+) *(?:&&|;) *(?=\S)")


def line(text: str, limit: int = PREVIEW) -> str:
    """The first *limit* characters of *text* as one safe line, runs of blanks as one."""
    return " ".join(sanitize_line(text[: limit * 4]).replace("⏎", " ").split())[:limit]


def plural(number: int, one: str, many: str = "") -> str:
    """``1 message``, ``2 messages``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def call_line(name: str, arguments: Any, cwd: str = "") -> str:
    """A tool call as one line: its name and the argument that tells most."""
    return line(f"{name} {_telling(arguments, cwd)}".strip())


def _telling(arguments: Any, cwd: str) -> str:
    if isinstance(arguments, str):
        return arguments[: PREVIEW * 4]
    if not isinstance(arguments, Mapping):
        return ""
    for key in _TELLING:
        value = arguments.get(key)
        if isinstance(value, list):
            several = [_telling(part, cwd) for part in value[:20] if isinstance(part, str | Mapping)]
            if len(several) > 2 and _SHELL.fullmatch(several[0]) and several[1] in ("-c", "-lc"):
                several = several[2:]
            value = " ".join(_short_path(part, cwd) if key in _PATHS else part for part in several)
        if isinstance(value, str) and value:
            if key in _COMMANDS:
                return _short_command(value[: PREVIEW * 4], cwd)
            return _short_path(value, cwd) if key in _PATHS else value[: PREVIEW * 4]
    return next((str(value)[:PREVIEW] for value in arguments.values() if isinstance(value, str | int) and value), "")


def _short_command(command: str, cwd: str) -> str:
    """A command, with only the name of a folder that it goes to first; nothing of that for the session's own."""
    if not (found := _FOLDER.match(command)):
        return command
    rest, folder = command[found.end() :], found[1].rstrip("/")
    return rest if folder == cwd.rstrip("/") else f"{folder.rpartition('/')[2] or folder}> {rest}"


def _short_path(path: str, cwd: str) -> str:
    """A path below the session's folder without that folder; of another long one its last three parts."""
    if len(path) > 4_096:
        return path
    if cwd and PurePath(path).is_relative_to(cwd):
        return str(PurePath(path).relative_to(cwd))
    parts = path.split("/")
    return "…/" + "/".join(parts[-3:]) if path.startswith("/") and len(parts) > 5 else path


def result_text(content: Any) -> str:
    """The text of a tool_result's body; images are named."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [part if isinstance(part, Mapping) else {"type": "text", "text": str(part)} for part in content]
        return "\n".join(str(part.get("text") or "") if part.get("type") == "text" else _named(part) for part in parts)
    return "" if content is None else str(content)


def plain_text(block: Mapping[str, Any]) -> str:
    """A block as it is copied: its text, a call with its arguments, the name of anything else."""
    kind = block.get("type")
    if kind in ("text", "thinking"):
        return str(block.get(str(kind)) or "")
    if kind == "tool_result":
        return result_text(block.get("content"))
    if kind == "tool_use":
        return f"{block.get('name')} {json.dumps(block.get('input'), indent=2, ensure_ascii=False, default=str)}"
    return f"({words_of_unknown(block)})"


def words_of_unknown(block: Mapping[str, Any]) -> str:
    """A block that no estimator knows: its type, and why its text is not here, where that is told."""
    kind, hidden, note = line(str(block.get("type") or "unknown")), block.get("encrypted_content"), block.get("note")
    if isinstance(hidden, str) and hidden:
        return f"{kind}, encrypted: {len(hidden):,} characters"
    return f"{kind}: {line(note)}" if isinstance(note, str) and note else kind


def of_unknown_size(facts: Facts, message: int) -> bool:
    """Whether a message is made of blocks alone that no estimator knows."""
    kinds = {facts.kind[block] for block in facts.blocks_of(message)}
    return kinds == {Kind.OTHER}


def _named(part: Mapping[str, Any]) -> str:
    return f"({part.get('type') or 'part'})"


def message_bytes(facts: Facts, message: int) -> int:
    """Bytes of the records that a message is read from, or of its blocks where records have no length."""
    recorded = sum(facts.record_length[row] for row in facts.records_of(message))
    return recorded or sum(facts.size[block] for block in facts.blocks_of(message))


class Reader:
    """Previews of one session's messages, cached."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._blocks: LRUCache[int, list[dict[str, Any]]] = LRUCache(64)
        self._large: tuple[int, list[dict[str, Any]]] = (-1, [])
        self._previews: LRUCache[tuple[int, int], str] = LRUCache(4096)

    def blocks(self, message: int) -> list[dict[str, Any]]:
        """The blocks of a message with their full text; empty when they cannot be read any more."""
        found = self._large[1] if message == self._large[0] else self._blocks.get(message)
        if found is None:
            try:
                found = self.session.content.blocks(message)
            except Exception:  # a file that went away or changed: the row says so, the program goes on
                found = []
            if message_bytes(self.session.facts, message) > LARGE:
                self._large = (message, found)
            else:
                self._blocks[message] = found
        return found

    def block(self, row: int) -> dict[str, Any]:
        """The block of this row; empty when it cannot be read."""
        message = self.session.facts.block_message[row]
        for each, block in zip(self.session.facts.blocks_of(message), self.blocks(message), strict=False):
            if each == row:
                return block
        return {}

    def follow(self, session: Session) -> Reader:
        """A reader of the same session that has grown: what was read stays, but for the messages at the old end."""
        other = Reader(session)
        if session.facts is self.session.facts:
            settled = len(self.session) - UNSETTLED
            for key in list(self._previews.keys()):
                if key[0] < settled:
                    other._previews[key] = self._previews[key]
        return other

    def at_hand(self, message: int) -> bool:
        """Whether the message has been read already."""
        return message == self._large[0] or message in self._blocks

    def huge(self, message: int) -> bool:
        """Whether reading the message would be felt."""
        return message_bytes(self.session.facts, message) > HUGE

    def preview(self, message: int, block: int = -1) -> str:
        """One line about a message (its text or its calls), or about one of its tool results."""
        key = (message, block)
        found = self._previews.get(key)
        if found is None:
            found = self._of_result(block) if block >= 0 else self._of_message(message)
            self._previews[key] = found
        return found

    def _of_result(self, row: int) -> str:
        """The call that a result answers; without one, how the result begins."""
        facts = self.session.facts
        use = facts.tool_use_of(row)
        if use >= 0:
            call = facts.block_message[use]
            return facts.tool_name(row) and line(facts.tool_name(row)) if self.huge(call) else self.call(use)
        if self.huge(facts.block_message[row]):
            return "a call that is not in the file"
        return line(result_text(self.block(row).get("content")))

    def call(self, row: int) -> str:
        """A tool call as one line."""
        block = self.block(row)
        return call_line(str(block.get("name") or "?"), block.get("input"), self.session.info.cwd)

    def _of_message(self, message: int) -> str:
        facts = self.session.facts
        if self.huge(message):
            return f"({message_bytes(facts, message) / 1e6:.1f} MB)"
        texts, calls, others, put_in = [], [], [], []
        rows = list(facts.blocks_of(message))
        for row, block in zip(rows, self.blocks(message), strict=False):
            kind = facts.kind[row]
            if kind == Kind.TEXT and not facts.block_flags[row] & BlockFlag.INJECTED:
                texts.append(line(str(block.get("text") or "")))
            elif kind == Kind.TOOL_USE:
                calls.append(call_line(str(block.get("name") or "?"), block.get("input"), self.session.info.cwd))
            elif kind == Kind.TEXT:
                put_in.append(line(str(block.get("text") or "")))
            elif kind == Kind.THINKING:
                thought = line(str(block.get("thinking") or ""))
                others.append(f"(thinking) {thought}" if thought else "(hidden thinking)")
            elif kind == Kind.IMAGE:
                others.append("(image)")
            elif kind == Kind.OTHER:
                others.append(f"({words_of_unknown(block)})")
        said = " ".join(filter(None, texts))
        done = " · ".join(calls)
        if said or done:
            return line(f"{said}  → {done}" if said and done else said or f"→ {done}")
        if put_in:
            others = [f"(injected) {' '.join(put_in)}", *others] if others else put_in
        return line(" ".join(others)) if others else "(empty)" if not rows else "(cannot be read)"


def kind_word(facts: Facts, message: int, block: int = -1) -> str:
    """What a row is, in a word of at most seven letters."""
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
