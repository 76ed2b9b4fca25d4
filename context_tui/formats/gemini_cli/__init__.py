"""Read and write sessions of Gemini CLI, Google's coding agent for the terminal.

Sessions are files ``~/.gemini/tmp/PROJECT/chats/session-TIME-ID``: one JSON document up to 0.38, JSON Lines since 0.39.
Sub-agents' files are in a folder named after the session that started them.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from context_tui.errors import UnreadableSession
from context_tui.formats.base import Claim, Format, Scanner
from context_tui.formats.gemini_cli import paths, reader, writer
from context_tui.formats.gemini_cli.paths import CHAT_SUFFIXES, build_subagent_info, find_subagent_files
from context_tui.formats.kit import blocks, branches, documents, heads
from context_tui.formats.kit.document_scanner import DocumentContent, DocumentScanner, copy_document
from context_tui.formats.kit.line_scanner import LineContent, LineScanner, copy_lines, is_whole_file, list_only_session
from context_tui.formats.kit.values import format_title, list_objects, parse_id
from context_tui.session.session import Session, SessionInfo


class GeminiCliFormat(Format):
    """The format of sessions of Gemini CLI and its sub-agents."""

    name: ClassVar[str] = "gemini-cli"
    about: ClassVar[str] = "Gemini CLI sessions (JSON, JSONL), with rewinds, compressions and sub-agents"
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl", ".json")
    checked_with: ClassVar[str] = "0.61.0"
    unrecorded: ClassVar[tuple[str, ...]] = ("system prompt", "skills", "tool schemas")
    request_recording: ClassVar[str] = "claude-tap --tap-client gemini"

    find_unlisted = staticmethod(branches.find_branch)
    find_sessions = staticmethod(paths.find_sessions)
    write = staticmethod(writer.write_session)
    build_resume_command = staticmethod(writer.build_resume_command)

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        first = next(iter(heads.parse_first_values(head)), None)
        if isinstance(first, dict) and "sessionId" in first and "projectHash" in first:
            return Claim(95, "a session of Gemini CLI with the hash of its project")
        return None

    def list_sessions(self, path: Path) -> list[SessionInfo]:
        [main] = list_only_session(path, self.name)
        head = heads.read_first_object(path)
        if head.get("kind") == "subagent":
            return [build_subagent_info(path, self.name, path.parent.name)]
        sessions = [main]
        for file in find_subagent_files(path):
            with suppress(OSError):
                sessions.append(build_subagent_info(file, self.name, str(path)))
        return sessions

    def make_scanner(self, path: Path, info: SessionInfo) -> Scanner:
        if not _is_document(path):
            return LineScanner(path, info, reader.GeminiLineShape, input_includes_cache=True)
        if info.id.startswith("branch-"):
            raise UnreadableSession(f"{path}: unknown session {info.id!r}; it has no branches")
        read_history = partial(documents.read_runs, finder=reader.find_message_lists)
        return DocumentScanner(path, info, reader.GeminiDocumentShape, read_runs=read_history)

    def subagent_of(self, session: Session, call: int) -> SessionInfo | None:
        facts = session.facts
        call_id, message = facts.call_id(call), facts.block_message[call]
        for record in _read_records(session, message):
            for tool_call in list_objects(record.get("toolCalls")):
                if tool_call.get("id") == call_id and (agent := parse_id(tool_call.get("agentId"))):
                    for file in find_subagent_files(path := Path(session.info.path)):
                        if agent == file.stem:
                            return build_subagent_info(file, self.name, str(path))
                    raise UnreadableSession(f"{path.name}#{agent}: the file of this sub-agent is not here")
        return None

    def is_standalone(self, path: Path) -> bool:
        """Return False for a sub-agent's file, which is in a subfolder of the folder ``chats``."""
        return path.suffix not in CHAT_SUFFIXES or path.parent.parent.name != "chats"

    def read_title(self, path: Path) -> str:
        """Return Gemini CLI's own summary of the session, else the first typed text, else ""."""
        typed = ""
        for record in heads.read_first_objects(path):
            messages = record.get("messages")
            for holder in (record, record.get("$set")):
                if isinstance(holder, dict) and isinstance(text := holder.get("summary"), str) and text.strip():
                    return format_title(text)
            for message in messages if isinstance(messages, list) else [record]:
                typed = typed or _find_typed_text(message)
        return typed

    def can_copy(self, session: Session) -> bool:
        """Return whether the session is the whole file, and not a branch, which is only a part of the file."""
        return is_whole_file(session) if isinstance(session.content, LineContent) else not session.info.id

    def copy(self, session: Session, path: Path) -> list[str] | None:
        if not self.can_copy(session):
            return None
        return copy_lines(session, path) if isinstance(session.content, LineContent) else copy_document(session, path)


def _find_typed_text(message: Any) -> str:
    if not isinstance(message, dict) or message.get("type") != "user":
        return ""
    text = blocks.extract_text([*reader.parse_content(message.get("content"))])
    start = text.lstrip()
    return "" if start.startswith(reader.SETUP_START) or reader.is_command(start) else format_title(text)


def _is_document(path: Path) -> bool:
    values = heads.read_first_values(path)
    return len(values) == 1 and isinstance(values[0], dict) and "messages" in values[0]


def _read_records(session: Session, message: int) -> Iterable[dict[str, Any]]:
    content, facts = session.content, session.facts
    for row in facts.iterate_records(message):
        with suppress(ValueError):
            if isinstance(content, LineContent):
                yield content.read_record(row)
            elif isinstance(content, DocumentContent):
                yield content.decode_element(row)
