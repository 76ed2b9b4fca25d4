"""Read and write tasks of Cline, Roo Code and their forks in VS Code, and read those of Cline's SDK and command line.

A task is a folder in the storage of the editor. Its ``api_conversation_history.json`` holds the conversation in the
form of the Messages API; other files hold usage, deletions and rewrites. The SDK's sessions are ``ID.messages.json``.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from context_tui.formats.base import Claim, Format, Scanner
from context_tui.formats.cline.paths import find_tasks
from context_tui.formats.cline.reader import ClineShape, has_text_call
from context_tui.formats.cline.task_files import UI_MESSAGES_FILE, RelatedFacts, list_related_files, read_related_files
from context_tui.formats.cline.writer import find_unsupported_block_reason, write_conversation
from context_tui.formats.kit.blocks import extract_text
from context_tui.formats.kit.document_scanner import DocumentScanner, copy_document, list_document_sessions
from context_tui.formats.kit.documents import Run, read_runs, try_decode
from context_tui.formats.kit.heads import parse_first_values, read_first_values
from context_tui.formats.kit.values import format_title, list_objects, parse_blocks
from context_tui.session.session import Session, SessionInfo

_TASK_MARK = re.compile(r"</?(task|feedback|user_message)>\s*")


class ClineFormat(Format):
    """The format of the file ``api_conversation_history.json``, which Cline and Roo Code write."""

    name: ClassVar[str] = "cline"
    about: ClassVar[str] = "Cline and Roo Code tasks (api_conversation_history.json, with the files beside it)"
    suffixes: ClassVar[tuple[str, ...]] = (".json",)
    from_source: ClassVar[str] = "deleted ranges, condensed tasks"

    related_files = staticmethod(list_related_files)
    find_sessions = staticmethod(find_tasks)
    unsupported_reason = staticmethod(find_unsupported_block_reason)
    write = staticmethod(write_conversation)

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        """Return a claim if messages have times or environment details, or a task's other file exists, else None."""
        values = parse_first_values(head)
        if len(values) != 1 or not isinstance(values[0], list):
            return None
        messages = [each for each in values[0] if isinstance(each, dict) and each.get("role") in ("user", "assistant")]
        if not messages:
            return None
        if any("ts" in message for message in messages):
            return Claim(90, "messages with a ts of their own")
        if any("<environment_details>" in text for message in messages for text in _list_texts(message)):
            return Claim(88, "details of the environment in its messages")
        is_task = any(map(os.path.isfile, list_related_files(path)[:1]))
        return Claim(86, f"a list of messages beside {UI_MESSAGES_FILE}") if is_task else None

    def list_sessions(self, path: Path) -> list[SessionInfo]:
        runs = read_runs(path)[:1]
        infos = list_document_sessions(path, self.name, lambda: ClineShape(RelatedFacts()), runs)
        pairs = zip(infos, runs, strict=True)
        return [replace(info, title=_find_title(run) or info.title, note=_find_note(run)) for info, run in pairs]

    def make_scanner(self, path: Path, info: SessionInfo) -> Scanner:
        """Return a scanner that also starts again when a related file changes."""
        related = list_related_files(path)
        return DocumentScanner(path, info, lambda: ClineShape(read_related_files(path)), related_files=related)

    def read_title(self, path: Path) -> str:
        values = read_first_values(path)
        return _find_title(Run({}, values[0])) if values and isinstance(values[0], list) else ""

    def can_copy(self, session: Session) -> bool:
        """Return False if related files exist, because a copy of the conversation alone would lack their facts."""
        return not any(os.path.isfile(other) for other in list_related_files(Path(session.info.path)))

    def copy(self, session: Session, path: Path) -> list[str] | None:
        return copy_document(session, path) if self.can_copy(session) else None


def _list_texts(message: dict[str, Any]) -> list[str]:
    return [block.get("text", "") for block in parse_blocks(message.get("content")) if block.get("type") == "text"]


def _list_messages(run: Run) -> list[dict[str, Any]]:
    return list_objects([*map(try_decode, run.elements[:6])])


def _find_title(run: Run) -> str:
    for message in _list_messages(run):
        if message.get("role") == "user":
            return format_title(_TASK_MARK.sub("", extract_text(parse_blocks(message.get("content"))[:1]), count=2))
    return ""


def _find_note(run: Run) -> str:
    replies = [message for message in _list_messages(run) if message.get("role") == "assistant"]
    native = any(block.get("type") == "tool_use" for each in replies for block in parse_blocks(each.get("content")))
    if native or not any(has_text_call(text) for message in replies for text in _list_texts(message)):
        return ""
    return "its tool calls and their results are texts, and are shown as such"
