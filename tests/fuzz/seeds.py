"""Whole sessions of every format that can be read, small and with everything in them, for mutations to start from."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.formats import (
    opencode_records,
    request_logs,
    rollouts,
    test_agent_sdk,
    test_aider,
    test_cline,
    test_crush,
    test_defect,
    test_goose,
    test_langchain,
    test_openhands,
    test_swe_agents,
    tree_seeds,
)
from tests.formats.recordings import Recording, call, result, text, thinking, usage

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
WHEN = "2026-03-01T10:00:00Z"


def _records(recording: Recording) -> list[Any]:
    return [json.loads(line) for line in recording.lines]


def plain_recording() -> list[Any]:
    """Turns with thinking, calls, results of every kind of body, attachments, and records beside them."""
    recording = Recording()
    recording.line({"type": "summary", "summary": "Reading", "leafUuid": "u9"})
    recording.line({"type": "file-history-snapshot", "messageId": "m", "snapshot": {"a": {"b": [1, 2]}}})
    recording.user("Read both files.")
    recording.assistant(thinking("First a.", "sig"), id="m1", use=usage(900, 20))
    recording.assistant(text("I will."), id="m1", use=usage(900, 20))
    recording.assistant(call("t1", "Read", file_path="/project/a", offset=3, limit=9), id="m1", use=usage(900, 20))
    recording.assistant(
        call("t2", "Bash", command="ls"), id="m1", use=usage(900, 20, output=60), stop_reason="tool_use"
    )
    shown = {"file": {"filePath": "/project/a", "numLines": 9, "startLine": 3, "totalLines": 90}}
    recording.results(result("t1", "line of a\n" * 40), toolUseResult=shown)
    recording.results(result("t2", [text("a b"), IMAGE]))
    recording.attachment("file", filename="/project/c", content={"type": "text", "file": {"content": "see"}})
    recording.attachment("queued_command", prompt="and this", origin={"kind": "human"})
    recording.attachment("hook_success", content="ok")
    recording.assistant(text("Both read."), use=usage(1_400, 900, 30, 40), stop_reason="end_turn")
    recording.user([text("Thanks. "), IMAGE])
    recording.add("system", subtype="turn_duration", durationMs=900)
    recording.add("progress", data={"type": "bash_progress", "output": "x"})
    recording.assistant(call("t3", "Read", file_path="/project/a"), use=usage(1_500, 900, 0, 8))
    recording.results(result("t3", {"k": ["v"]}, is_error=True), text("<system-reminder>careful</system-reminder>"))
    return _records(recording)


def compacted_recording() -> list[Any]:
    """Compactions of both kinds with a preserved segment, a clear, a rewind, and an agent inside the file."""
    recording = Recording()
    recording.user("Do it.")
    for number in range(4):
        own = f"t{number}"
        recording.assistant(call(own, "Bash", command=f"make {number}"), use=usage(4_000 + 900 * number, 70))
        recording.results(result(own, f"made {number} " * 90))
    recording.microcompact("t0", "t1", tokens=8_000)
    recording.assistant(text("Made."), use=usage(5_000, 70, 10))
    head = recording.user("More.")
    tail = recording.assistant(text("More it is."), use=usage(6_000))
    recording.boundary(6_100, preservedSegment={"headUuid": head, "tailUuid": tail, "anchorUuid": tail})
    recording.summary()
    recording.attachment("file", filename="a", content="attached again")
    recording.add(
        "user",
        isSidechain=True,
        agentId="agent",
        parent=None,
        message={"role": "user", "content": "Look."},
        isMeta=False,
    )
    recording.assistant(text("Looked."), isSidechain=True, agentId="agent")
    below = recording.user("Left behind.")
    recording.assistant(text("A branch."), use=usage(700))
    recording.user("Taken.", parent=recording.lines and f"u{int(below[1:]) - 1}")
    recording.assistant(text("Fine."), use=usage(800))
    recording.boundary(900, preservedMessages={"uuids": [tail, "gone"], "anchorUuid": tail})
    recording.summary()
    recording.clear()
    recording.user("A new context.", origin={"kind": "human"})
    recording.assistant(text("Yes."), isApiErrorMessage=True)
    return _records(recording)


ANTHROPIC = [
    {"role": "user", "content": "Compare a and b."},
    {
        "role": "assistant",
        "content": [
            thinking("Both.", "c2ln"),
            text("I read them."),
            call("a", "Read", file_path="/a"),
            call("b", "Read", file_path="/b", offset=1, limit=5),
        ],
        "usage": usage(500, 20),
        "timestamp": WHEN,
    },
    {"role": "user", "content": [result("a", "alpha " * 200), result("b", [text("beta"), IMAGE])]},
    {"role": "assistant", "content": [text("They differ."), {"type": "redacted_thinking", "data": "eA=="}]},
    {"role": "user", "content": [text("Why?"), IMAGE, {"type": "document", "source": {"type": "text", "data": "d"}}]},
]
TOOL = {"name": "Read", "description": "Reads.", "input_schema": {"type": "object", "properties": {"p": {}}}}
REQUEST = {
    "model": "claude-sonnet-4-5",
    "max_tokens": 100,
    "context_window": 200_000,
    "system": [text("Be brief.")],
    "tools": [TOOL],
    "messages": ANTHROPIC,
}
REPLY = {"role": "assistant", "model": "claude-sonnet-4-5", "content": [text("As they do.")], "usage": usage(700, 5)}


def _function(call_id: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "read", "arguments": arguments}}


OPENAI = [
    {"role": "system", "content": "Be brief."},
    {
        "role": "user",
        "content": [text("Compare."), {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}],
    },
    {
        "role": "assistant",
        "content": None,
        "reasoning_content": "hm",
        "tool_calls": [_function("1", '{"path": "a", "deep": {"x": [1]}}'), _function("2", "not json")],
    },
    {"role": "tool", "tool_call_id": "1", "content": "alpha " * 200},
    {"role": "tool", "tool_call_id": "2", "content": [text("beta")]},
    {"role": "assistant", "content": "They differ.", "usage": {"prompt_tokens": 90, "completion_tokens": 3}},
    {"role": "user", "content": "Well?", "created": 1_772_359_200},
    {"role": "assistant", "function_call": {"name": "old", "arguments": "{}"}, "content": ""},
    {"role": "function", "name": "old", "content": "done"},
]
OPENAI_TOOL = {
    "type": "function",
    "function": {"name": "read", "description": "Reads.", "parameters": {"type": "object"}},
}
OPENAI_REQUEST = {"model": "gpt-4o", "context_window": 64_000, "tools": [OPENAI_TOOL], "messages": OPENAI}
OPENAI_REPLY = {
    "model": "gpt-4o",
    "created": 1_772_359_300,
    "choices": [{"message": {"role": "assistant", "content": "Yes."}}],
    "usage": {"prompt_tokens": 400, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 100}},
}

RESPONSES = {
    "model": "gpt-5.5",
    "instructions": "Be brief.",
    "tools": [{"type": "function", "name": "read", "parameters": {"type": "object"}}, {"type": "web_search"}],
    "input": [r["payload"] for r in rollouts.whole().records if r["type"] == "response_item"],
    "previous_response_id": "resp_0",
    "response": {
        "object": "response",
        "output": [rollouts.thought(), rollouts.said("assistant", "Yes.")],
        "usage": {"input_tokens": 400, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 100}},
    },
}

KODA_SCHEMA = """
CREATE TABLE sessions (id, created_at, agent_name, project_root, last_accessed_at, title);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session_id, role, content, tool_calls, tool_call_id, prompt_tokens,
    completion_tokens, cache_read_tokens, cache_creation_tokens, thinking_content, compacted_at, completed_at,
    created_at
);
CREATE TABLE session_metadata (session_id, key, value);
"""
_DONE, _ARCHIVED = "2026-03-01 10:00:05", "2026-03-01 10:05:00"


def koda_rows() -> list[dict[str, Any]]:
    """The rows of a session with a compaction; columns have no type, so that they hold what is put in them."""
    calls = json.dumps([{"id": "a", "function_name": "Read", "arguments": json.dumps({"path": "a"})}])
    old = {"compacted_at": _ARCHIVED, "completed_at": _DONE}
    rows: list[dict[str, Any]] = [
        {"role": "system", "content": "You are koda."},
        {"role": "user", "content": "Look.", **old},
        {"role": "assistant", "content": "Sure.", "tool_calls": calls, "prompt_tokens": 500, **old},
        {"role": "tool", "content": "alpha " * 200, "tool_call_id": "a", **old},
        {"role": "system", "content": "[CONVERSATION SUMMARY]\n\nLooked."},
        {"role": "assistant", "content": "Your context was compacted. Go on.", "completed_at": _DONE},
        {"role": "user", "content": "And?"},
        {
            "role": "assistant",
            "content": "So.",
            "tool_calls": calls.replace('"a"', '"b"'),
            "prompt_tokens": 700,
            "completion_tokens": 9,
            "cache_read_tokens": 300,
            "cache_creation_tokens": 5,
            "thinking_content": "hm",
            "completed_at": _DONE,
        },
        {"role": "tool", "content": "beta " * 100, "tool_call_id": "b"},
    ]
    return [{"session_id": "s", "created_at": f"2026-03-01 10:0{number}:00", **row} for number, row in enumerate(rows)]


LINES = "lines"
DOCUMENT = "document"
TEXT = "text"
ROWS = "rows"
TABLES = "tables"
FOLDER = "folder"
SCHEMAS = {"opencode": opencode_records.SCHEMA, "crush": test_crush.SCHEMA, "goose": test_goose.SCHEMA}
"""Of the formats whose seeds are tables by name."""


def _opencode_tables() -> dict[str, Any]:
    """The rows of a session, its bodies not yet text."""
    recording = opencode_records.rich()
    revert = {"messageID": "msg_0010"}
    parts = [part for message in recording.messages for part in message["parts"]]
    return {
        "session": [{"id": recording.session, "title": "t", "revert": revert, "time_created": 5}],
        "message": [
            {"id": info["id"], "session_id": recording.session, "time_created": info["time"]["created"], "data": info}
            for info in (message["info"] for message in recording.messages)
        ],
        "part": [{"id": part["id"], "message_id": part["messageID"], "data": part} for part in parts],
    }


def _crush_tables() -> dict[str, Any]:
    rows = enumerate(test_crush.ROWS)
    made = [
        {"id": f"m{n}", "session_id": "s", "role": role, "parts": parts, "created_at": n} for n, (role, parts) in rows
    ]
    return {"sessions": [{"id": "s", "summary_message_id": "m4", "prompt_tokens": 90}], "messages": made}


def _goose_tables() -> dict[str, Any]:
    return {
        "messages": [
            {
                "session_id": "20251202_1",
                "role": each["role"],
                "content_json": each["content"],
                "created_timestamp": number,
                "metadata_json": each.get("metadata"),
            }
            for number, each in enumerate(test_goose.AFTER)
        ]
    }


def _request_bodies() -> dict[str, Any]:
    """The files of a folder of request bodies, by name; the one of lines is a list."""
    with tempfile.TemporaryDirectory() as name:
        folder = request_logs.write_folder(Path(name), request_logs.make_run())
        return {
            path.name: [json.loads(line) for line in path.read_text().splitlines()]
            if path.suffix == ".jsonl"
            else json.loads(path.read_text())
            for path in sorted(folder.iterdir())
        }


def _goose_lines() -> list[dict[str, Any]]:
    return [{"created": number, **each} for number, each in enumerate(test_goose.AFTER)]


def _opencode_export() -> dict[str, Any]:
    recording = opencode_records.rich()
    return {"info": recording.about(revert={"messageID": "msg_0010"}), "messages": recording.messages}


SEEDS: dict[str, list[tuple[str, Callable[[], Any]]]] = {
    "claude-code": [
        (LINES, plain_recording),
        (LINES, compacted_recording),
        (LINES, lambda: request_logs.make_session_records(request_logs.make_run())),
    ],
    "codex": [(LINES, lambda: rollouts.whole().records), (LINES, rollouts.bare)],
    "openai-responses": [(DOCUMENT, lambda: RESPONSES), (LINES, lambda: RESPONSES["input"])],
    "anthropic": [
        (DOCUMENT, lambda: REQUEST),
        (DOCUMENT, lambda: ANTHROPIC),
        (DOCUMENT, lambda: [REQUEST, {"messages": ANTHROPIC[:3]}]),
        (
            LINES,
            lambda: [
                {"request": REQUEST, "response": REPLY},
                {"body": json.dumps(REQUEST), "response": {"body": REPLY}},
            ],
        ),
        (LINES, lambda: ANTHROPIC),
    ],
    "openai": [
        (DOCUMENT, lambda: OPENAI_REQUEST),
        (DOCUMENT, lambda: OPENAI),
        (DOCUMENT, lambda: [OPENAI, OPENAI[:4]]),
        (
            LINES,
            lambda: [{"request": OPENAI_REQUEST, "response": OPENAI_REPLY}, {"messages": OPENAI, "traj": OPENAI[1:]}],
        ),
    ],
    "koda": [(ROWS, koda_rows)],
    "swe-agent": [(DOCUMENT, lambda: test_swe_agents.trajectory(*test_swe_agents.STEPS))],
    "mini-swe-agent": [
        (DOCUMENT, lambda: test_swe_agents.V1),
        (DOCUMENT, lambda: test_swe_agents.V2),
        (DOCUMENT, lambda: test_swe_agents.ITEMS),
    ],
    "openhands": [
        (DOCUMENT, lambda: test_openhands.EVENTS),
        (DOCUMENT, lambda: [*test_openhands.HISTORY, test_openhands.FORGET, test_openhands.END]),
        (LINES, lambda: [{"instance_id": "a", "history": test_openhands.HISTORY, "metadata": {}}] * 2),
    ],
    "cline": [(DOCUMENT, lambda: test_cline.ASKED), (DOCUMENT, lambda: test_cline.CONDENSED)],
    "cline-sdk": [(DOCUMENT, lambda: test_cline.session_of(*test_cline.SPOKEN, *test_cline.SPOKEN))],
    "opencode": [(TABLES, _opencode_tables), (DOCUMENT, _opencode_export)],
    "crush": [(TABLES, _crush_tables)],
    "goose": [
        (TABLES, _goose_tables),
        (LINES, lambda: [{"working_dir": "/src", "message_count": 9, "total_tokens": 90}, *_goose_lines()]),
    ],
    "pi": [(LINES, tree_seeds.pi), (LINES, tree_seeds.pi_first_version)],
    "gemini-cli": [(LINES, tree_seeds.gemini_lines), (DOCUMENT, tree_seeds.gemini_document)],
    "copilot-cli": [(LINES, tree_seeds.copilot)],
    "defect": [(LINES, test_defect.seed), (DOCUMENT, test_defect.seed_snapshot)],
    "agent-sdk": [(LINES, test_agent_sdk.seed), (LINES, test_agent_sdk.seed_stream)],
    "langchain": [(DOCUMENT, seed) for seed in test_langchain.SEEDS] + [(LINES, lambda: test_langchain.DUMPED)],
    "claude-tap": [
        (LINES, lambda: request_logs.make_records(request_logs.make_run())),
        (LINES, lambda: [*request_logs.make_gemini_records(), *request_logs.make_responses_records()]),
        (DOCUMENT, lambda: request_logs.make_bundle(request_logs.make_chat_records())),
    ],
    "aider": [(TEXT, test_aider.HISTORY.splitlines)],
    "claude-requests": [(FOLDER, _request_bodies)],
}
"""Per format: how its values are laid out in a file, and what makes them."""
