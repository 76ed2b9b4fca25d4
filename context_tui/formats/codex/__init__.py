"""Read and write sessions of Codex CLI, OpenAI's coding agent for the terminal.

Sessions are rollouts, JSON Lines files ``~/.codex/sessions/YYYY/MM/DD/rollout-TIME-ID.jsonl``, with one item of the
Responses API or one event per line.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from context_tui.formats.base import Claim, Format, Scanner
from context_tui.formats.codex import paths, writer
from context_tui.formats.codex.paths import FORMAT_NAME, find_subagent_session, find_title, read_session_info
from context_tui.formats.codex.reader import CodexShape
from context_tui.formats.codex.rollout import META, RECORD_TYPES, parse_rollout_line
from context_tui.formats.kit import branches, heads, line_scanner, lines, response_items
from context_tui.formats.kit.values import as_object, as_text, list_objects
from context_tui.session.session import SessionInfo


class CodexFormat(Format):
    """The format of Codex CLI's rollouts."""

    name: ClassVar[str] = FORMAT_NAME
    checked_with: ClassVar[str] = "0.169.0"
    about: ClassVar[str] = "OpenAI Codex CLI rollouts (JSONL), old ones too, with compactions, forks and rollbacks"
    request_recording: ClassVar[str] = "claude-tap --tap-client codex"

    find_unlisted = staticmethod(branches.find_branch)
    subagent_of = staticmethod(find_subagent_session)
    read_title = staticmethod(find_title)
    find_sessions = staticmethod(paths.find_sessions)
    unsupported_reason = staticmethod(response_items.unsupported_reason)
    write = staticmethod(writer.write)
    can_copy = staticmethod(line_scanner.is_whole_file)
    copy = staticmethod(line_scanner.copy_lines)
    build_resume_command = staticmethod(paths.build_resume_command)

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        """Return a claim based on a typed line with a payload (in old files: on a first or state line), or None."""
        values = heads.parse_first_values(head)
        for value in list_objects(values):
            if "payload" in value and as_text(value.get("type")) in RECORD_TYPES:
                return Claim(92, f"lines of type {value['type']} with a payload")
        first_value = as_object(values[0] if values else None)
        if "type" not in first_value and "git" in first_value and parse_rollout_line(first_value).kind == META:
            return Claim(92, "a first line with id, timestamp, instructions and git")
        if any(value.get("record_type") == "state" for value in list_objects(values)):
            return Claim(92, "lines with record_type")
        return None

    def list_sessions(self, path: Path) -> list[SessionInfo]:
        return [read_session_info(path)]

    def make_scanner(self, path: Path, info: SessionInfo) -> Scanner:
        base = None
        for file, size in paths.find_bases(path, paths.read_session_meta(path))[0]:
            base = lines.LineFile(file, size, base)
        return line_scanner.LineScanner(path, info, CodexShape, input_includes_cache=True, base=base)
