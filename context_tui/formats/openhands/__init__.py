"""OpenHands, an open platform of coding agents.

Conversations of its SDK (V1) are folders with ``base_state.json`` and a JSON file per event, or lists of events.
V0 has trajectories and evaluation logs, with events of another shape.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from context_tui.errors import UnreadableSession
from context_tui.formats.base import Claim, Format, Scanner, SessionFile
from context_tui.formats.kit.document_scanner import (
    DocumentScanner,
    find_run_title,
    list_document_sessions,
    read_document_title,
)
from context_tui.formats.kit.files import find_home_folder, list_entries, parse_first_values
from context_tui.formats.kit.values import parse_id
from context_tui.formats.openhands.reader import (
    EVENTS_FOLDER,
    STATE_FILE,
    OpenHandsShape,
    find_conversation_file,
    find_runs,
    is_state,
    read_histories,
)
from context_tui.session.session import SessionInfo

__all__ = ["OpenHandsFormat"]

TITLE_EVENTS = 5
"""Number of events that are read for the title of a conversation."""


class OpenHandsFormat(Format):
    """Format of OpenHands' events, of both generations."""

    name: ClassVar[str] = "openhands"
    about: ClassVar[str] = (
        "OpenHands conversations (a folder's base_state.json), event lists, evaluation logs; V0 and V1"
    )
    suffixes: ClassVar[tuple[str, ...]] = (".json", ".jsonl")
    from_source: ClassVar[str] = "V1"

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        """Recognise events in a list, in a history, or alone in a folder of events; or the state of a conversation."""
        values = parse_first_values(head)
        first = values[0] if values else None
        if isinstance(first, list):
            events = [each for each in _flatten_pairs(first) if isinstance(each, dict)]
            if any(map(_is_sdk_event, events)):
                return Claim(91, "a list of events")
            return Claim(90, "a list of actions and observations") if any(map(_is_legacy_event, events)) else None
        for value in values:
            if not isinstance(value, dict):
                continue
            history = value.get("history")
            if isinstance(history, list) and any(
                isinstance(each, dict) and (_is_legacy_event(each) or _is_sdk_event(each))
                for each in _flatten_pairs(history[:10])
            ):
                return Claim(91, "a history of events")
        if not isinstance(first, dict) or len(values) != 1:
            return None
        if is_state(first):
            return Claim(93, "the state of a conversation")
        alone = _is_sdk_event(first) or ("id" in first and _is_legacy_event(first))
        return Claim(89, "an event of a conversation") if alone else None

    def list_sessions(self, path: Path) -> list[SessionInfo]:
        """List the histories in a file, each a session; or the conversation of a state or first event."""
        conversation = find_conversation_file(path)
        if conversation and conversation != path:
            raise UnreadableSession(f"{path}: one event of an OpenHands conversation; open {conversation}")
        runs = read_histories(path)
        infos = list_document_sessions(path, self.name, OpenHandsShape, read_runs=lambda _: runs)
        names = [parse_id(run.get("instance_id")) for run in runs]
        return [replace(info, title=name or info.title) for info, name in zip(infos, names, strict=True)]

    def make_scanner(self, path: Path, info: SessionInfo) -> Scanner:
        related_files = [*self.related_files(path)] if find_conversation_file(path) else ()
        return DocumentScanner(path, info, OpenHandsShape, read_runs=read_histories, related_files=related_files)

    def related_files(self, path: Path) -> Iterable[Path]:
        """Return the folder of a conversation's events, and its state."""
        if path.parent.name == EVENTS_FOLDER:
            return [path.parent, path.parent.parent / STATE_FILE]
        return [path.parent / EVENTS_FOLDER] if path.name == STATE_FILE else []

    def read_title(self, path: Path) -> str:
        if find_conversation_file(path) != path:
            return read_document_title(path, OpenHandsShape(), find_runs)
        try:
            return find_run_title(read_histories(path, max_events=TITLE_EVENTS)[0], OpenHandsShape())
        except UnreadableSession:
            return ""

    def is_standalone(self, path: Path) -> bool:
        """Return False for events of a conversation that its state or first event represents."""
        return path.parent.name != EVENTS_FOLDER or path.name == "0.json"

    def find_sessions(self, environ: Mapping[str, str], cwd: Path) -> Iterable[SessionFile]:
        root = Path(environ.get("OPENHANDS_PERSISTENCE_DIR") or find_home_folder(environ) / ".openhands")
        folder = Path(environ.get("OPENHANDS_CONVERSATIONS_DIR") or root / "conversations")
        for entry in list_entries(folder):
            if os.path.isfile(state := os.path.join(entry.path, STATE_FILE)):
                yield SessionFile(Path(state), "", False)
        for first in root.glob(f"sessions/*/{EVENTS_FOLDER}/0.json"):  # of V0
            yield SessionFile(first, "", False)


def _flatten_pairs(events: list[Any]) -> list[Any]:
    """Return the events of a history, with pairs flattened."""
    return [event for each in events for event in (each if isinstance(each, list) else [each])]


def _is_sdk_event(value: dict[str, Any]) -> bool:
    kind = value.get("kind")
    return (
        "source" in value and isinstance(kind, str) and kind.endswith(("Event", "Condensation", "CondensationRequest"))
    )


def _is_legacy_event(value: dict[str, Any]) -> bool:
    """Return whether a value is an action or observation of V0; in old files these have no source."""
    own = ("source", "is_confirmed", "wait_for_response", "extras", "args", "cause", "exit_code", "keep_prompt")
    return any(isinstance(value.get(name), str) for name in ("action", "observation")) and any(
        name in value for name in own
    )
