"""What a history's tool calls did, told from their names and arguments: files read, files changed, commands run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from context_tui.summarizer.request import Message, message_blocks

_PATH_KEYS = ("file_path", "path", "notebook_path", "filePath", "filepath", "filename", "file", "target_file")
_WRITING = frozenset("write edit multiedit multi patch create insert replace update notebookedit delete move".split())
_READING = frozenset("read view open cat notebookread".split())
_RUNNING = frozenset("bash shell exec command terminal run execute".split())
_PATCHED = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+)$", re.MULTILINE)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


@dataclass(frozen=True)
class Call:
    """A call that was answered, its result not an error. At most one of the three is filled; paths may be several."""

    read: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    command: str = ""


@dataclass(frozen=True)
class Failed:
    """A tool result that is an error: the tool's name (empty when the call is not in the history) and its text."""

    tool: str
    text: str


def answered(messages: list[Message]) -> Iterator[Call | Failed]:
    """Every answered call, in the order of the answers. What failed changed nothing, and is told as a failure."""
    open_calls: dict[str, dict[str, Any]] = {}
    for message in messages:
        for block in message_blocks(message):
            if block.get("type") == "tool_use":
                open_calls[str(block.get("id"))] = block
            elif block.get("type") == "tool_result":
                call = open_calls.pop(str(block.get("tool_use_id")), {})
                if block.get("is_error"):
                    yield Failed(str(call.get("name") or ""), result_text(block.get("content")))
                elif call:
                    yield call_of(call)


def result_text(content: Any) -> str:
    """The text of a result's body; nothing for JSON of other shapes."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def call_of(block: dict[str, Any]) -> Call:
    """What a tool_use did, if it was answered and did not fail."""
    words = {word.lower() for word in _WORD.findall(str(block.get("name") or ""))}
    name = str(block.get("name") or "").lower()
    given = block.get("input")
    arguments = given if isinstance(given, dict) else {}
    texts = [given] if isinstance(given, str) else [v for v in arguments.values() if isinstance(v, str)]
    if patched := tuple(path.strip() for text in texts for path in _PATCHED.findall(text)):
        return Call(changed=patched)
    paths = tuple(v for key in _PATH_KEYS if isinstance(v := arguments.get(key), str) and v.strip())[:1]
    # Editors of one name do several things, and say which in their command.
    if arguments.get("command") == "view" or words & _READING or name in _READING:
        return Call(read=paths)
    if words & _WRITING or name in _WRITING:
        return Call(changed=paths)
    if words & _RUNNING or name in _RUNNING:
        return Call(command=_command(arguments))
    return Call()


def _command(arguments: dict[str, Any]) -> str:
    """The command line; of a list, what its shell is given, else its words."""
    command = arguments.get("command") or arguments.get("cmd") or arguments.get("script") or ""
    if isinstance(command, list):
        words = [str(word) for word in command]
        return words[-1] if len(words) > 2 and words[1].startswith("-") and words[1].endswith("c") else " ".join(words)
    return command if isinstance(command, str) else ""
