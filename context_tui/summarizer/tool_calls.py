"""Effects of the tool calls in a history: files read, files changed and commands run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from context_tui.summarizer.request import Message, list_message_blocks

_PATH_ARGUMENTS = ("file_path", "path", "notebook_path", "filePath", "filepath", "filename", "file", "target_file")
_WRITE_WORDS = frozenset(
    "write edit multiedit multi patch create insert replace update notebookedit delete move".split()
)
_READ_WORDS = frozenset("read view open cat notebookread".split())
_RUN_WORDS = frozenset("bash shell exec command terminal run execute".split())
_PATCHED_FILE = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+)$", re.MULTILINE)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


class AnsweredCall(NamedTuple):
    """A successful tool call: the paths read, the paths changed, or the command; at most one is set."""

    read: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    command: str = ""


class FailedCall(NamedTuple):
    """A failed tool call: the tool's name (empty if the call is not in the history) and the error's text."""

    tool: str
    text: str


def find_answered_calls(messages: list[Message]) -> Iterator[AnsweredCall | FailedCall]:
    """Yield the tool calls that have a result, whether successful or failed, in the order of their results."""
    open_calls: dict[str, dict[str, Any]] = {}
    for message in messages:
        for block in list_message_blocks(message):
            if block.get("type") == "tool_use":
                open_calls[str(block.get("id"))] = block
            elif block.get("type") == "tool_result":
                call = open_calls.pop(str(block.get("tool_use_id")), {})
                if block.get("is_error"):
                    yield FailedCall(str(call.get("name") or ""), extract_result_text(block.get("content")))
                elif call:
                    yield parse_call(call)


def extract_result_text(content: Any) -> str:
    """Return the text in a tool result's content, or an empty string for JSON of other shapes."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def parse_call(block: dict[str, Any]) -> AnsweredCall:
    """Return the effect of a successful tool call: files read, files changed or the command run; empty if unknown."""
    name_words = {word.lower() for word in _WORD.findall(str(block.get("name") or ""))}
    name = str(block.get("name") or "").lower()
    value = block.get("input")
    arguments = value if isinstance(value, dict) else {}
    texts = [value] if isinstance(value, str) else [v for v in arguments.values() if isinstance(v, str)]
    if patched_paths := tuple(path.strip() for text in texts for path in _PATCHED_FILE.findall(text)):
        return AnsweredCall(changed=patched_paths)
    paths = tuple(v for key in _PATH_ARGUMENTS if isinstance(v := arguments.get(key), str) and v.strip())[:1]
    # Some editors have several commands, one of which reads.
    if arguments.get("command") == "view" or name_words & _READ_WORDS or name in _READ_WORDS:
        return AnsweredCall(read=paths)
    if name_words & _WRITE_WORDS or name in _WRITE_WORDS:
        return AnsweredCall(changed=paths)
    if name_words & _RUN_WORDS or name in _RUN_WORDS:
        return AnsweredCall(command=_parse_command(arguments))
    return AnsweredCall()


def _parse_command(arguments: dict[str, Any]) -> str:
    """Return the command line of a call. For a list, it is the script passed to a shell, or else the joined words."""
    command = arguments.get("command") or arguments.get("cmd") or arguments.get("script") or ""
    if isinstance(command, list):
        argv = [str(word) for word in command]
        return argv[-1] if len(argv) > 2 and argv[1].startswith("-") and argv[1].endswith("c") else " ".join(argv)
    return command if isinstance(command, str) else ""
