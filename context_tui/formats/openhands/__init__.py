"""OpenHands: conversations of the SDK (V1) as folders or lists of events, and V0's trajectories and evaluations."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from context_tui.errors import UnreadableSession
from context_tui.formats.base import Claim, Format, Found, Scanner
from context_tui.formats.kit.document_scanner import DocumentScanner, documents_in, title_in_head, title_of_run
from context_tui.formats.kit.heads import first_values
from context_tui.formats.kit.places import entries, home_folder
from context_tui.formats.kit.values import as_id
from context_tui.formats.openhands.runs import EVENTS, STATE, conversation_of, found_in, is_state, read
from context_tui.formats.openhands.shape import OpenHandsShape
from context_tui.session.session import SessionInfo

__all__ = ["OpenHandsFormat"]

TITLED = 5
"""Events that are read to tell what a conversation is about."""


class OpenHandsFormat(Format):
    """OpenHands' events, of both generations."""

    name: ClassVar[str] = "openhands"
    about: ClassVar[str] = (
        "OpenHands conversations (a folder's base_state.json), event lists, evaluation logs; V0 and V1"
    )
    suffixes: ClassVar[tuple[str, ...]] = (".json", ".jsonl")
    from_source: ClassVar[str] = "V1"

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        """By events in a list, in a history, or alone in a folder of events; or by the state of a conversation."""
        values = first_values(head)
        first = values[0] if values else None
        if isinstance(first, list):
            events = [each for each in _flat(first) if isinstance(each, dict)]
            if any(map(_is_event, events)):
                return Claim(91, "a list of events")
            return Claim(90, "a list of actions and observations") if any(map(_is_legacy, events)) else None
        for value in values:
            if not isinstance(value, dict):
                continue
            history = value.get("history")
            if isinstance(history, list) and any(
                isinstance(each, dict) and (_is_legacy(each) or _is_event(each)) for each in _flat(history[:10])
            ):
                return Claim(91, "a history of events")
        if not isinstance(first, dict) or len(values) != 1:
            return None
        if is_state(first):
            return Claim(93, "the state of a conversation")
        alone = _is_event(first) or ("id" in first and _is_legacy(first))
        return Claim(89, "an event of a conversation") if alone else None

    def sessions(self, path: Path) -> list[SessionInfo]:
        """The histories in a file, each a session; or the conversation whose state or first event it is."""
        conversation = conversation_of(path)
        if conversation and conversation != path:
            raise UnreadableSession(f"{path}: one event of an OpenHands conversation; open {conversation}")
        runs = read(path)
        infos = documents_in(path, self.name, OpenHandsShape, runs=lambda _: runs)
        named = [as_id(run.get("instance_id")) for run in runs]
        return [replace(info, title=name or info.title) for info, name in zip(infos, named, strict=True)]

    def scanner(self, path: Path, info: SessionInfo) -> Scanner:
        """A scanner for one of them."""
        others = [*self.beside(path)] if conversation_of(path) else ()
        return DocumentScanner(path, info, OpenHandsShape, runs=read, others=others)

    def beside(self, path: Path) -> Iterable[Path]:
        """Of a conversation the folder of its events, and its state."""
        if path.parent.name == EVENTS:
            return [path.parent, path.parent.parent / STATE]
        return [path.parent / EVENTS] if path.name == STATE else []

    def title(self, path: Path) -> str:
        """The first line of what was asked."""
        if conversation_of(path) != path:
            return title_in_head(path, OpenHandsShape(), found_in)
        try:
            return title_of_run(read(path, first=TITLED)[0], OpenHandsShape())
        except UnreadableSession:
            return ""

    def listed(self, path: Path) -> bool:
        """Not the events of a conversation, whose state or first event stands for it."""
        return path.parent.name != EVENTS or path.name == "0.json"

    def kept(self, environ: Mapping[str, str], cwd: Path) -> Iterable[Found]:
        """The conversations of the command line and of a local server."""
        kept = Path(environ.get("OPENHANDS_PERSISTENCE_DIR") or home_folder(environ) / ".openhands")
        folder = Path(environ.get("OPENHANDS_CONVERSATIONS_DIR") or kept / "conversations")
        for entry in entries(folder):
            if os.path.isfile(state := os.path.join(entry.path, STATE)):
                yield Found(Path(state), "", False)
        for first in kept.glob(f"sessions/*/{EVENTS}/0.json"):  # of V0
            yield Found(first, "", False)


def _flat(listed: list[Any]) -> list[Any]:
    """Events of a history, pairs of them taken apart."""
    return [event for each in listed for event in (each if isinstance(each, list) else [each])]


def _is_event(value: dict[str, Any]) -> bool:
    """An event of the SDK."""
    kind = value.get("kind")
    return (
        "source" in value and isinstance(kind, str) and kind.endswith(("Event", "Condensation", "CondensationRequest"))
    )


def _is_legacy(value: dict[str, Any]) -> bool:
    """An action or observation of V0; in old files they have no source."""
    own = ("source", "is_confirmed", "wait_for_response", "extras", "args", "cause", "exit_code", "keep_prompt")
    return any(isinstance(value.get(name), str) for name in ("action", "observation")) and any(
        name in value for name in own
    )
