"""Recognise files of known agents that contain no conversation, and name the file to open instead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from context_tui.formats.base import Claim
from context_tui.formats.cline.task_files import CONVERSATION_FILES
from context_tui.formats.kit.heads import parse_first_values

DOCUMENT_STRENGTH = 90
ARRAY_STRENGTH = 88

TELEMETRY_MARKS = (b"claude_code.api_request", b"claude_code.managed_settings", b"claude_code.user_prompt")
TELEMETRY_REASON = (
    "telemetry of Claude Code, which cuts each request at 60 KB; record with OTEL_LOG_RAW_API_BODIES=file:DIR, open DIR"
)
"""Reason for telemetry, as the console or a collector receives it, with a better way to record."""


class SideFile(NamedTuple):
    """A kind of file stored with conversations: its description, the names of conversation files, and a test."""

    description: str
    conversation_names: tuple[str, ...]
    matches: Callable[[Any], bool]


def detect_side_file(head: bytes, path: Path) -> Claim | None:
    """Return a claim whose evidence describes a side file and names the file to open, or None for any other file."""
    if any(marker in head for marker in TELEMETRY_MARKS):
        return Claim(DOCUMENT_STRENGTH, TELEMETRY_REASON)
    values = parse_first_values(head)
    if len(values) != 1:
        return None  # every known file of JSON lines has a reader
    kinds, strength = SIDE_DOCUMENTS, DOCUMENT_STRENGTH
    if isinstance(values[0], list):
        kinds, strength, values = SIDE_ARRAYS, ARRAY_STRENGTH, values[0]
    for kind in kinds:
        if any(map(kind.matches, values)):
            return Claim(strength, f"{kind.description}; open {_format_conversation_name(kind, path)}")
    return None


def _format_conversation_name(kind: SideFile, path: Path) -> str:
    names = kind.conversation_names
    paths = (path.with_name(name.replace("<id>", path.stem)) for name in names)
    existing = next((file.name for file in paths if file.is_file()), "")
    return f"{existing} beside it" if existing else f"the {names[0]} of the same session"


def _has_keys(*names: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(name in value for name in names)


def _is_cline_description(value: Any) -> bool:
    return _has_keys("session_id", "workspace_root")(value) and isinstance(value.get("version"), int)


def _is_ui_message(value: Any) -> bool:
    return _has_keys("ts")(value) and value.get("type") in ("say", "ask")


def _is_context_history(value: Any) -> bool:
    if not (isinstance(value, list) and len(value) == 2 and isinstance(value[0], int)):
        return False
    return isinstance(value[1], list) and len(value[1]) == 2 and isinstance(value[1][1], list)


SIDE_DOCUMENTS = [
    SideFile(
        "the description of a Cline session, without its messages", ("<id>.messages.json",), _is_cline_description
    ),
    SideFile("a list of the files of a Cline or Roo task", CONVERSATION_FILES, _has_keys("files_in_context")),
]
SIDE_ARRAYS = [
    SideFile("what Cline or Roo showed of a task, not what was sent", CONVERSATION_FILES, _is_ui_message),
    SideFile("what Cline left out of the messages of a task", CONVERSATION_FILES, _is_context_history),
]
