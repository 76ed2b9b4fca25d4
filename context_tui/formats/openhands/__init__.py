"""OpenHands, an open platform of coding agents.

A conversation of its SDK (V1) is a folder with ``base_state.json`` and a JSON file per event, or a list of events. V0
has trajectories and evaluation logs, whose events have another form.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from context_tui.errors import UnreadableSession
from context_tui.formats.base import Claim, Format, Scanner, SessionFile
from context_tui.formats.kit import document_scanner, documents
from context_tui.formats.kit.document_scanner import DocumentScanner, DocumentShape
from context_tui.formats.kit.files import find_home_folder, list_entries, make_unreadable_error, read_whole_file
from context_tui.formats.kit.heads import parse_first_values
from context_tui.formats.kit.message_builder import MessageBuilder, ParsedRecord
from context_tui.formats.kit.values import as_list, as_object, format_title, list_objects, parse_id
from context_tui.formats.openhands.events import EventView, parse_event, parse_usages
from context_tui.formats.openhands.legacy import LegacyEventParser
from context_tui.session.facts import Usage
from context_tui.session.jsontext import loads
from context_tui.session.session import SessionInfo
from context_tui.text.sanitize import truncate_name


class OpenHandsShape(DocumentShape):
    """Parser for events of both generations. Only events of the SDK have a ``kind``."""

    def __init__(self) -> None:
        self._usages: Mapping[str, Usage] = {}
        self._view, self._legacy = EventView(), LegacyEventParser()

    def read_metadata(self, run: documents.Run, builder: MessageBuilder) -> None:
        """Read the model, the context window and each response's usage if they are recorded beside the events."""
        builder.facts.input_includes_cache = True
        self._usages, window = parse_usages(run.get("stats"))
        builder.facts.window = window or None
        configured = as_object(run.get("metadata")).get("llm_config") or as_object(run.get("agent")).get("llm")
        if isinstance(model := as_object(configured).get("model"), str):
            builder.facts.model = truncate_name(model)

    def parse(self, value: Any, place: int) -> ParsedRecord:
        if not isinstance(value, dict):
            raise ValueError("not an event: not a JSON object")
        if isinstance(value.get("kind"), str):
            return parse_event(value, self._view, self._usages)
        return self._legacy.parse(value, place)


STATE_FILE = "base_state.json"
EVENTS_FOLDER = "events"
_raw = msgspec.json.Decoder(msgspec.Raw).decode


def find_conversation_file(path: Path) -> Path | None:
    """Return the file that opens the conversation of *path* (the state, or else the first event), or None."""
    if path.parent.name == EVENTS_FOLDER:
        state = path.parent.parent / STATE_FILE
        return state if os.path.isfile(state) else next(iter(_list_event_files(path.parent)), None)
    return path if path.name == STATE_FILE and os.path.isdir(path.parent / EVENTS_FOLDER) else None


def read_histories(path: Path, *, max_events: int | None = None) -> list[documents.Run]:
    """Return the histories in a file, or the only one of a conversation folder, up to *max_events* events."""
    if find_conversation_file(path) != path:
        return documents.read_runs(path, find_runs)
    folder, members = path.parent, dict[str, documents.Element]()
    if path.name == STATE_FILE:
        folder, members = path.parent / EVENTS_FOLDER, documents.decode_members(_read_element(path)) or {}
    elements = [_read_element(file) for file in _list_event_files(folder)[:max_events]]
    if not elements:
        raise UnreadableSession(f"{path}: holds no events; those of a conversation stand in {EVENTS_FOLDER} beside it")
    return [documents.Run(members, elements)]


def _list_event_files(folder: Path) -> list[Path]:
    try:
        files = [file for file in folder.iterdir() if file.suffix == ".json" and _parse_event_number(file) >= 0]
    except OSError as error:
        raise make_unreadable_error(folder, error) from None
    return sorted(files, key=lambda file: (_parse_event_number(file), file.name))


def _parse_event_number(file: Path) -> int:
    digits = file.stem.removeprefix("event-").partition("-")[0]
    return int(digits) if digits.isdecimal() else -1


def _read_element(file: Path) -> documents.Element:
    data = read_whole_file(file)
    with suppress(ValueError, RecursionError):
        return _raw(data)
    try:
        return loads(data)
    except ValueError as error:
        return documents.BrokenElement(f"not JSON: {error}", data.decode("utf-8", "replace"))


def _parse_history(value: documents.Element) -> documents.Run | None:
    members = documents.decode_members(value)
    history = documents.decode_items(members.get("history")) if members else None
    return documents.make_run(members, "history", _flatten_pairs(history)) if members and history is not None else None


def find_runs(values: list[documents.Element]) -> list[documents.Run]:
    """Return the histories in a file: a single list of events, or one history for each JSON value; [] if none."""
    if len(values) == 1 and (elements := documents.decode_items(values[0])) is not None:
        if not any("history" in (documents.decode_members(each) or {}) for each in elements[:10]):
            return [documents.Run({}, _flatten_pairs(elements))]
        values = elements
    if runs := documents.collect_runs(values, _parse_history, "holds no history"):
        return runs
    is_event_list = any({"kind", "source"} & (documents.decode_members(each) or {}).keys() for each in values)
    return [documents.Run({}, values)] if is_event_list else []


def _flatten_pairs(elements: list[documents.Element]) -> list[documents.Element]:
    pairs = [(each, documents.decode_items(each)) for each in elements]
    return [event for each, pair in pairs for event in ([each] if pair is None else pair)]


TITLE_EVENTS = 5


class OpenHandsFormat(Format):
    """The format of OpenHands' events, in both generations."""

    name: ClassVar[str] = "openhands"
    about: ClassVar[str] = (
        "OpenHands conversations (a folder's base_state.json), event lists, evaluation logs; V0 and V1"
    )
    suffixes: ClassVar[tuple[str, ...]] = (".json", ".jsonl")
    from_source: ClassVar[str] = "V1"

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        values = parse_first_values(head)
        first = values[0] if values else None
        if isinstance(first, list):
            events = list_objects(_flatten_pairs(first))
            if any(map(_is_sdk_event, events)):
                return Claim(91, "a list of events")
            return Claim(90, "a list of actions and observations") if any(map(_is_legacy_event, events)) else None
        for value in list_objects(values):
            events = list_objects(_flatten_pairs(as_list(value.get("history"))[:10]))
            if any(_is_legacy_event(event) or _is_sdk_event(event) for event in events):
                return Claim(91, "a history of events")
        if not isinstance(first, dict) or len(values) != 1:
            return None
        if {"agent", "workspace"} <= first.keys() and ("execution_status" in first or "agent_status" in first):
            return Claim(93, "the state of a conversation")
        is_event = _is_sdk_event(first) or ("id" in first and _is_legacy_event(first))
        return Claim(89, "an event of a conversation") if is_event else None

    def list_sessions(self, path: Path) -> list[SessionInfo]:
        """Return a session for each history in the file, or one for the conversation that the file opens."""
        conversation = find_conversation_file(path)
        if conversation and conversation != path:
            raise UnreadableSession(f"{path}: one event of an OpenHands conversation; open {conversation}")
        runs = read_histories(path)
        infos = document_scanner.list_document_sessions(path, self.name, OpenHandsShape, runs)
        names = [format_title(parse_id(run.get("instance_id"))) for run in runs]
        return [replace(info, title=name or info.title) for info, name in zip(infos, names, strict=True)]

    def make_scanner(self, path: Path, info: SessionInfo) -> Scanner:
        related_files = [*self.related_files(path)] if find_conversation_file(path) else ()
        return DocumentScanner(path, info, OpenHandsShape, read_runs=read_histories, related_files=related_files)

    def related_files(self, path: Path) -> Iterable[Path]:
        if path.parent.name == EVENTS_FOLDER:
            return [path.parent, path.parent.parent / STATE_FILE]
        return [path.parent / EVENTS_FOLDER] if path.name == STATE_FILE else []

    def read_title(self, path: Path) -> str:
        if find_conversation_file(path) != path:
            return document_scanner.read_document_title(path, OpenHandsShape(), find_runs)
        try:
            return document_scanner.find_run_title(read_histories(path, max_events=TITLE_EVENTS)[0], OpenHandsShape())
        except UnreadableSession:
            return ""

    def is_standalone(self, path: Path) -> bool:
        """Return False for any event but the first, as its conversation is opened by its state or first event."""
        return path.parent.name != EVENTS_FOLDER or path.name == "0.json"

    def find_sessions(self, environ: Mapping[str, str], cwd: Path) -> Iterable[SessionFile]:
        root = Path(environ.get("OPENHANDS_PERSISTENCE_DIR") or find_home_folder(environ) / ".openhands")
        folder = Path(environ.get("OPENHANDS_CONVERSATIONS_DIR") or root / "conversations")
        for entry in list_entries(folder):
            if os.path.isfile(state := os.path.join(entry.path, STATE_FILE)):
                yield SessionFile(Path(state), "", False)
        for first_event in root.glob(f"sessions/*/{EVENTS_FOLDER}/0.json"):  # of V0
            yield SessionFile(first_event, "", False)


def _is_sdk_event(value: dict[str, Any]) -> bool:
    kind, suffixes = value.get("kind"), ("Event", "Condensation", "CondensationRequest")
    return "source" in value and isinstance(kind, str) and kind.endswith(suffixes)


def _is_legacy_event(value: dict[str, Any]) -> bool:
    """Return whether a value is an action or observation of V0. In old files it has no ``source``."""
    names = ("source", "is_confirmed", "wait_for_response", "extras", "args", "cause", "exit_code", "keep_prompt")
    is_event = any(isinstance(value.get(name), str) for name in ("action", "observation"))
    return is_event and any(name in value for name in names)
