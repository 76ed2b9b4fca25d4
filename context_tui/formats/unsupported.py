"""Formats that are recognised and cannot be read yet, so that the message names them.

Each test looks at the first values of a file; the evidence is said as "Codex rollouts".
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from context_tui.errors import UnreadableSession
from context_tui.formats.base import Claim
from context_tui.formats.kit.databases import MAGIC, Database
from context_tui.formats.kit.heads import first_values

CERTAIN = 90
LIKELY = 88

Object = dict[str, Any]
Test = Callable[[Object], bool]


def unsupported_format(head: bytes, path: Path) -> Claim | None:
    """Whether a file is of a known format that has no reader, and which."""
    if head.startswith(MAGIC):
        return _database(path)
    if b"# aider chat started at" in head[:4_096]:
        return Claim(CERTAIN, "Aider chat histories")
    values = first_values(head)
    listed = values[0] if len(values) == 1 and isinstance(values[0], list) else None
    objects = [value for value in (values if listed is None else listed) if isinstance(value, dict)]
    if not objects:
        return None
    tests = ARRAYS if listed is not None else LINES if len(values) > 1 else DOCUMENTS
    # A file of lines may have only one so far.
    for name, test, some in [*tests, *(LINES if tests is DOCUMENTS else [])]:
        if any(map(test, objects)) if some else test(objects[0]):
            return Claim(CERTAIN if not some else LIKELY, name)
    return None


def _database(path: Path) -> Claim | None:
    database = Database(path)
    try:
        tables = database.tables()
        in_messages = database.columns("messages")
    except UnreadableSession:
        return None
    finally:
        database.close()
    if {"session", "message", "part"} <= tables:
        return Claim(CERTAIN, "opencode databases")
    if "content_json" in in_messages:
        return Claim(CERTAIN, "Goose databases")
    if {"sessions", "files"} <= tables and "parts" in in_messages:
        return Claim(CERTAIN, "Crush (or Go opencode) databases")
    return None


def _keys(*names: str) -> Test:
    """Objects that have all these members."""
    return lambda value: all(name in value for name in names)


def _item(value: Object) -> bool:
    """An item of OpenAI's Responses API."""
    kind, content = value.get("type"), value.get("content")
    if kind == "message" and isinstance(content, list):
        return any(isinstance(part, dict) and part.get("type") in ("input_text", "output_text") for part in content)
    return kind in ("function_call", "function_call_output", "custom_tool_call", "reasoning") and "role" not in value


def _responses(value: Object) -> bool:
    """A request or response of the Responses API."""
    given, made = value.get("input"), value.get("output")
    if value.get("object") == "response" and isinstance(made, list):
        return True
    if "messages" in value or "model" not in value:
        return False
    return isinstance(given, str) or (isinstance(given, list) and any(_item(x) for x in given if isinstance(x, dict)))


def _langchain(value: Object) -> bool:
    kind = value.get("type")
    spoken = kind in ("human", "ai", "AIMessageChunk") or (kind == "system" and "session_id" not in value)
    return (value.get("lc") == 1 and kind == "constructor") or (spoken and ("data" in value or "content" in value))


def _langgraph(value: Object) -> bool:
    values = value.get("values")
    state = values if isinstance(values, dict) else value
    messages = state.get("messages")
    first = messages[0] if isinstance(messages, list) and messages else None
    return isinstance(first, dict) and "role" not in first and _langchain(first)


def _stream(value: Object) -> bool:
    """A line of ``--output-format stream-json`` or of agent-sdk: Claude Code's types without its chain."""
    kinds = ("system", "assistant", "user", "result")
    return value.get("type") in kinds and "session_id" in value and not ("parentUuid" in value or "sessionId" in value)


def _opencode(value: Object) -> bool:
    if any(str(value.get("id")).startswith(prefix) for prefix in ("ses_", "msg_", "prt_")):
        return any(key in value for key in ("sessionID", "projectID", "messageID"))
    info = value.get("info")
    return isinstance(info, dict) and str(info.get("id")).startswith("ses_") and "messages" in value


def _openhands_history(value: Object) -> bool:
    history = value.get("history")
    first = history[0] if isinstance(history, list) and history else None
    while isinstance(first, list) and first:  # older rows hold pairs of action and observation
        first = first[0]
    return isinstance(first, dict) and ("action" in first or "observation" in first or "wait_for_response" in first)


def _openhands_event(value: Object) -> bool:
    kind = value.get("kind")
    kinds = ("Event", "Condensation", "CondensationRequest")
    return "source" in value and isinstance(kind, str) and kind.endswith(kinds)


def _swe_agent(value: Object) -> bool:
    history, info = value.get("history"), value.get("info")
    first = history[0] if isinstance(history, list) and history else None
    return "trajectory" in value or (isinstance(first, dict) and "agent" in first and isinstance(info, dict))


def _mini_swe_agent(value: Object) -> bool:
    info = value.get("info")
    return "trajectory_format" in value or (isinstance(info, dict) and "mini_version" in info)


def _cline(value: Object) -> bool:
    if not isinstance(value.get("version"), int):
        return False
    return ("sessionId" in value and "agent" in value) or ("session_id" in value and "workspace_root" in value)


def _codex(value: Object) -> bool:
    return "payload" in value and value.get("type") in ("session_meta", "response_item", "event_msg", "turn_context")


def _goose(value: Object) -> bool:
    content = value.get("content")
    kinds = ("toolRequest", "toolResponse", "conversationCompacted", "systemNotification")
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    own = "metadata" in value or any(part.get("type") in kinds for part in parts)
    return "created" in value and "role" in value and bool(parts) and own


# Name, test, and whether one of the first values is enough (else it has to be the very first).
DOCUMENTS: list[tuple[str, Test, bool]] = [
    ("Gemini CLI sessions", _keys("sessionId", "projectHash"), False),
    ("mini-swe-agent trajectories", _mini_swe_agent, False),
    ("SWE-agent trajectories", _swe_agent, False),
    ("opencode sessions", _opencode, False),
    ("Cline sessions", _cline, False),
    ("OpenHands evaluation records", _openhands_history, False),
    ("OpenHands events", _openhands_event, False),
    ("OpenAI Responses requests", _responses, False),
    ("LangChain dumps", _langchain, False),
    ("LangGraph states", _langgraph, False),
    ("Cline or Roo task metadata files", _keys("files_in_context"), False),
    ("defect snapshots", lambda v: "schema_version" in v and "next_seq" in v, False),
]

ARRAYS: list[tuple[str, Test, bool]] = [
    ("OpenHands event lists", _openhands_event, True),
    ("OpenHands trajectories", lambda v: "source" in v and ("action" in v or "observation" in v), True),
    ("Cline or Roo message logs", lambda v: "ts" in v and v.get("type") in ("say", "ask"), True),
    ("Cline or Roo conversations", lambda v: "ts" in v and "role" in v, True),
    ("LangChain dumps", _langchain, False),
    ("OpenAI Responses item lists", _item, True),
]

LINES: list[tuple[str, Test, bool]] = [
    ("Codex rollouts", _codex, True),
    ("old Codex rollouts", lambda v: "record_type" in v or _keys("id", "timestamp", "instructions", "git")(v), True),
    ("pi sessions", lambda v: v.get("type") == "session" and "cwd" in v, False),
    ("Gemini CLI sessions", _keys("sessionId", "projectHash"), False),
    ("Copilot CLI sessions", lambda v: v.get("type") == "session.start" and "data" in v, False),
    ("OpenHands evaluation logs", _openhands_history, True),
    ("defect journals", lambda v: "schema_version" in v and "seq" in v and isinstance(v.get("record"), dict), False),
    ("stream-json or agent-sdk transcripts", _stream, False),
    ("Goose sessions", _goose, True),
    ("OpenAI Responses item lists", _item, True),
    ("LangChain dumps", _langchain, False),
]
