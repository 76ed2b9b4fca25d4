"""Reader of OpenHands' histories, of both generations, and of the files and logs that hold them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from context_tui.errors import UnreadableSession
from context_tui.formats.kit.document_scanner import DocumentShape
from context_tui.formats.kit.documents import (
    BrokenElement,
    Element,
    Run,
    decode_element,
    decode_items,
    decode_members,
    get_element_text,
    read_runs,
)
from context_tui.formats.kit.files import make_unreadable_error, read_whole_file
from context_tui.formats.kit.message_builder import MessageBuilder, ParsedRecord
from context_tui.formats.openhands import events
from context_tui.formats.openhands.events import EventView
from context_tui.formats.openhands.legacy import LegacyEventParser
from context_tui.session.facts import Usage
from context_tui.session.jsontext import loads
from context_tui.text.sanitize import truncate_name


class OpenHandsShape(DocumentShape):
    """Events, each parsed by its generation: those of the SDK have a ``kind``."""

    def __init__(self) -> None:
        self._usages: Mapping[str, Usage] = {}
        self._view, self._legacy = EventView(), LegacyEventParser()

    def read_metadata(self, run: Run, builder: MessageBuilder) -> None:
        """Read the model, the window and the usage of each response, if recorded next to the events."""
        builder.facts.input_includes_cache = True
        self._usages, window = events.parse_usages(find_stats(run))
        builder.facts.window = window or None
        agent, metadata = run.get("agent"), run.get("metadata")
        configured = agent.get("llm") if isinstance(agent, dict) else None
        if isinstance(metadata, dict):
            configured = metadata.get("llm_config") or configured
        if isinstance(configured, dict) and isinstance(model := configured.get("model"), str):
            builder.facts.model = truncate_name(model)

    def parse(self, value: Any, place: int) -> ParsedRecord:
        if not isinstance(value, dict):
            raise ValueError("not an event: not a JSON object")
        if isinstance(value.get("kind"), str):
            return events.parse_event(value, self._view, self._usages)
        return self._legacy.parse(value, place)


STATE_FILE = "base_state.json"
EVENTS_FOLDER = "events"
_raw = msgspec.json.Decoder(msgspec.Raw).decode


def is_state(value: dict[str, Any]) -> bool:
    """Return whether an object is the state of a conversation, with its agent, workspace and progress."""
    return "agent" in value and "workspace" in value and ("execution_status" in value or "agent_status" in value)


def find_conversation_file(path: Path) -> Path | None:
    """Return the main file of the conversation that a file belongs to: state, or first event; None for others."""
    if path.parent.name == EVENTS_FOLDER:
        state = path.parent.parent / STATE_FILE
        return state if os.path.isfile(state) else next(iter(_list_event_files(path.parent)), None)
    return path if path.name == STATE_FILE and os.path.isdir(path.parent / EVENTS_FOLDER) else None


def read_histories(path: Path, *, max_events: int | None = None) -> list[Run]:
    """Read the histories in a file, or the only one of a conversation in a folder (optionally only its *first* events).

    Raises:
        UnreadableSession: the file cannot be read, or holds no history.
    """
    if find_conversation_file(path) != path:
        return read_runs(path, find_runs)
    folder, members = path.parent, dict[str, Element]()
    if path.name == STATE_FILE:
        folder, members = path.parent / EVENTS_FOLDER, decode_members(_read_element(path)) or {}
    elements = [_read_element(file) for file in _list_event_files(folder)[:max_events]]
    if not elements:
        raise UnreadableSession(f"{path}: holds no events; those of a conversation stand in {EVENTS_FOLDER} beside it")
    return [Run(members, elements)]


def _list_event_files(folder: Path) -> list[Path]:
    try:
        files = [file for file in folder.iterdir() if file.suffix == ".json" and _parse_event_number(file) >= 0]
    except OSError as error:
        raise make_unreadable_error(folder, error) from None
    return sorted(files, key=lambda file: (_parse_event_number(file), file.name))


def _parse_event_number(file: Path) -> int:
    """Parse the number in the name of an event's file (``event-00012-ID.json``, ``12.json``); -1 if none."""
    digits = file.stem.removeprefix("event-").partition("-")[0]
    return int(digits) if digits.isdecimal() else -1


def _read_element(file: Path) -> Element:
    data = read_whole_file(file)
    try:
        return _raw(data)
    except (ValueError, RecursionError):
        pass
    try:
        return loads(data)
    except ValueError as error:
        return BrokenElement(f"not JSON: {error}", data.decode("utf-8", "replace"))


def find_runs(values: list[Element]) -> list[Run]:
    """Find the histories in the values of a file: a list of events, or one history in each row."""
    if len(values) == 1 and (elements := decode_items(values[0])) is not None:
        if not any(
            decode_members(each) is not None and "history" in (decode_members(each) or {}) for each in elements[:10]
        ):
            return [Run({}, _flatten_pairs(elements))]
        values = elements
    runs: list[Run] = []
    strays: list[Element] = []
    for value in values:
        members = decode_members(value)
        history = decode_items(members.get("history")) if members else None
        if members and history is not None:
            runs.append(
                Run(
                    {name: each for name, each in members.items() if name != "history"},
                    _flatten_pairs(history),
                    "",
                    "history",
                )
            )
            continue
        stray = (
            value if isinstance(value, BrokenElement) else BrokenElement("holds no history", get_element_text(value))
        )
        (runs[-1].elements if runs else strays).append(stray)
    if runs:
        runs[0].elements[:0] = strays
        return runs
    if any("kind" in (decode_members(each) or {}) or "source" in (decode_members(each) or {}) for each in values):
        return [Run({}, values)]
    return []


def _flatten_pairs(elements: list[Element]) -> list[Element]:
    """Return the events of a history, with pairs of action and observation flattened."""
    pairs = [(each, decode_items(each)) for each in elements]
    return [event for each, pair in pairs for event in ([each] if pair is None else pair)]


def find_stats(run: Run) -> Any:
    """Return the part of a conversation's state that holds token counts."""
    try:
        return decode_element(run.members.get("stats"))
    except ValueError:
        return None
