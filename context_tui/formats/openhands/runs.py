"""Where the events of OpenHands stand: in a list, in the history of a log's row, or each in a file of its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from context_tui.errors import UnreadableSession
from context_tui.formats.kit.documents import Broken, Element, Run, items_of, members_of, read_runs, text_of, value_of
from context_tui.formats.kit.files import unreadable, whole_file
from context_tui.session.jsontext import loads

STATE = "base_state.json"
EVENTS = "events"
_raw = msgspec.json.Decoder(msgspec.Raw).decode


def is_state(value: dict[str, Any]) -> bool:
    """Whether an object is the state of a conversation: who the agent is, where it works, and how far it is."""
    return "agent" in value and "workspace" in value and ("execution_status" in value or "agent_status" in value)


def conversation_of(path: Path) -> Path | None:
    """What stands for the conversation that a file is of: its state, else its first event; None for other files."""
    if path.parent.name == EVENTS:
        state = path.parent.parent / STATE
        return state if os.path.isfile(state) else next(iter(_event_files(path.parent)), None)
    return path if path.name == STATE and os.path.isdir(path.parent / EVENTS) else None


def read(path: Path, *, first: int | None = None) -> list[Run]:
    """The histories in a file, or the only one of a conversation in a folder (of the *first* events, where given).

    Raises:
        UnreadableSession: it cannot be read, or there is none in it.
    """
    if conversation_of(path) != path:
        return read_runs(path, found_in)
    folder, members = path.parent, dict[str, Element]()
    if path.name == STATE:
        folder, members = path.parent / EVENTS, members_of(_element(path)) or {}
    elements = [_element(file) for file in _event_files(folder)[:first]]
    if not elements:
        raise UnreadableSession(f"{path}: holds no events; those of a conversation stand in {EVENTS} beside it")
    return [Run(members, elements)]


def _event_files(folder: Path) -> list[Path]:
    """The files of events in a folder, in their order."""
    try:
        files = [file for file in folder.iterdir() if file.suffix == ".json" and _number(file) >= 0]
    except OSError as error:
        raise unreadable(folder, error) from None
    return sorted(files, key=lambda file: (_number(file), file.name))


def _number(file: Path) -> int:
    """The number in the name of an event's file (``event-00012-ID.json``, ``12.json``); -1 where there is none."""
    digits = file.stem.removeprefix("event-").partition("-")[0]
    return int(digits) if digits.isdecimal() else -1


def _element(file: Path) -> Element:
    """The value in a file."""
    data = whole_file(file)
    try:
        return _raw(data)
    except (ValueError, RecursionError):
        pass
    try:
        return loads(data)
    except ValueError as error:
        return Broken(f"not JSON: {error}", data.decode("utf-8", "replace"))


def found_in(values: list[Element]) -> list[Run]:
    """The histories in the values of a file: a list of events, or one in each row."""
    if len(values) == 1 and (listed := items_of(values[0])) is not None:
        if not any(members_of(each) is not None and "history" in (members_of(each) or {}) for each in listed[:10]):
            return [Run({}, _flat(listed))]
        values = listed
    runs: list[Run] = []
    strays: list[Element] = []
    for value in values:
        members = members_of(value)
        history = items_of(members.get("history")) if members else None
        if members and history is not None:
            runs.append(
                Run({name: each for name, each in members.items() if name != "history"}, _flat(history), "", "history")
            )
            continue
        stray = value if isinstance(value, Broken) else Broken("holds no history", text_of(value))
        (runs[-1].elements if runs else strays).append(stray)
    if runs:
        runs[0].elements[:0] = strays
        return runs
    if any("kind" in (members_of(each) or {}) or "source" in (members_of(each) or {}) for each in values):
        return [Run({}, values)]
    return []


def _flat(listed: list[Element]) -> list[Element]:
    """Events of a history, pairs of action and observation taken apart."""
    pairs = [(each, items_of(each)) for each in listed]
    return [event for each, pair in pairs for event in ([each] if pair is None else pair)]


def stats_of(run: Run) -> Any:
    """The part of a conversation's state that counts tokens."""
    try:
        return value_of(run.members.get("stats"))
    except ValueError:
        return None
