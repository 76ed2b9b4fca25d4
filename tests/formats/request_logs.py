"""Small logs of whole requests, written by us: a run with a sub-agent, a title, and a compaction with a kept tail."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

Body = dict[str, Any]
SESSION = "0b6f3a52-0d1c-4c55-9a55-6d2f6a3b9c01"
SYSTEM = [
    {"type": "text", "text": "x-header: version=1"},
    {"type": "text", "text": "You are a counter.\nCount well.", "cache_control": {"type": "ephemeral"}},
]
TOOLS = [
    {"name": "Bash", "description": "Runs.", "input_schema": {"type": "object", "properties": {"command": {}}}},
    {"name": "Agent", "description": "Starts another.", "input_schema": {"type": "object", "properties": {}}},
    {"name": "mcp__github__issues", "description": "Lists.", "input_schema": {"type": "object"}},
]
RULES = "<system-reminder>\nContents of /src/CLAUDE.md (project instructions):\n\nUse tabs.\n</system-reminder>"
SKILLS = "The following skills are available:\n\n- counting: counts slowly"
SUMMARY = "The numbers up to forty were counted and none was missing. " * 4
ASKED = "Write a summary of the conversation so far."


def call(name: str, number: int, **given: Any) -> Body:
    return {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": given}


def results(number: int, text: str, *more: str) -> Body:
    blocks = [{"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": text}]
    return {"role": "user", "content": [*blocks, *({"type": "text", "text": each} for each in more)]}


def count_tokens(value: Any) -> int:
    """Tokens as our model server counts them: one for three bytes of JSON without marks."""
    text = json.dumps(value).replace(', "cache_control": {"type": "ephemeral"}', "")
    return len(text) // 3


class Run:
    """Exchanges of a run, in order: who asked, the request and its response."""

    def __init__(self) -> None:
        self.exchanges: list[tuple[str, Body, Body]] = []

    def ask(self, source: str, messages: list[Body], *blocks: Body, tools: list[Body] | None = TOOLS) -> list[Body]:
        """Log a request and its reply; returns the history with it."""
        number = len(self.exchanges)
        marked = json.loads(json.dumps(messages))
        if isinstance(marked[-1]["content"], list):
            marked[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
        user = json.dumps({"device_id": "d", "session_id": SESSION})
        request: Body = {"model": "claude-test", "messages": marked, "system": SYSTEM, "metadata": {"user_id": user}}
        request |= {"max_tokens": 4_000, **({"tools": tools} if tools else {})}
        size = count_tokens([messages, SYSTEM, tools])
        reply: Body = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "claude-test"}
        reply |= {"content": list(blocks), "stop_reason": "end_turn"}
        reply["usage"] = {"input_tokens": 3, "cache_read_input_tokens": size - 3, "output_tokens": 9}
        self.exchanges.append((source, request, reply))
        return [*messages, {"role": "assistant", "content": list(blocks)}]


def text(value: str) -> Body:
    return {"type": "text", "text": value}


def make_run() -> Run:
    """Calls, a sub-agent between them, a title, a summary, and what is done after it."""
    run = Run()
    history: list[Body] = [{"role": "user", "content": [text(RULES), text("Count to fifty.")]}]
    history.append({"role": "system", "content": SKILLS})
    run.ask("title", [{"role": "user", "content": "Count to fifty."}], text("Counting"), tools=None)
    history = run.ask("sdk", history, call("Bash", 1, command="seq 1 20"))
    history = run.ask("sdk", [*history, results(1, "1 2 3 " * 40)], call("Agent", 2, prompt="Count to three."))
    agent: list[Body] = [{"role": "user", "content": [text(RULES), text("Count to three.")]}]
    agent = run.ask("agent:counter", agent, call("Bash", 3, command="seq 3"))
    run.ask("agent:counter", [*agent, results(3, "1 2 3")], text("One, two, three: all of them were counted."))
    history = run.ask("sdk", [*history, results(2, "all of them were counted")], call("Bash", 4, command="seq 21 40"))
    run.ask("compact", [*history[:-1], {"role": "user", "content": ASKED}], text(f"<summary>{SUMMARY}</summary>"))
    fresh: list[Body] = [{"role": "user", "content": [text(RULES), text(f"Summary of what was done: {SUMMARY}")]}]
    history = [*fresh, history[-1], results(4, "21 22 23 " * 30, "<system-reminder>be brief</system-reminder>")]
    history = run.ask("sdk", history, text("Nearly done."))
    run.ask("sdk", [*history, {"role": "user", "content": "Go on."}], text("Fifty."))
    return run


def write_folder(folder: Path, run: Run, *, index: bool = True) -> Path:
    """Write the bodies of a run as Claude Code does."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for number, (source, request, response) in enumerate(run.exchanges):
        names = f"{number:04}-u.request.json", f"req_{number:04}.response.json"
        for at, (name, body) in enumerate(zip(names, (request, response), strict=True)):
            (folder / name).write_text(json.dumps(body, separators=(",", ":")))
            changed = 1_790_000_000 + 10 * number + 4 * at
            os.utime(folder / name, (changed, changed))
        row = {"timestamp": f"2026-10-01T10:00:{number:02}.000Z", "session_id": SESSION, "query_source": source}
        row |= {"message_id": response["id"], "request_file": names[0], "response_file": names[1]}
        lines.append(json.dumps(row) + "\n")
    if index:
        (folder / "index.jsonl").write_text("".join(lines))
    return folder


def write_session_file(path: Path, run: Run) -> Path:
    """Write the session file of a run's main conversation as Claude Code does."""
    path.write_text("".join(json.dumps(line) + "\n" for line in make_session_records(run)))
    return path


def make_session_records(run: Run) -> list[Body]:
    """Records of the main conversation of a run, with its requests by hash."""
    lines: list[Body] = [{"type": "api-request-shape", "shapeHash": "s1", "shape": {"system": SYSTEM, "tools": TOOLS}}]
    hashes: list[str] = []
    main = [(request, reply) for source, request, reply in run.exchanges if source == "sdk"]
    for number, (request, reply) in enumerate(main):
        messages = json.loads(json.dumps(request["messages"]).replace(', "cache_control": {"type": "ephemeral"}', ""))
        new = [sha256(json.dumps(m, sort_keys=True, separators=(",", ":")).encode()).hexdigest() for m in messages]
        keep = next((at for at, pair in enumerate(zip(hashes, new, strict=False)) if pair[0] != pair[1]), len(hashes))
        for message, digest in list(zip(messages, new, strict=True))[keep:]:
            blocks = message["content"]
            if isinstance(blocks, list) and blocks[0]["type"] == "tool_result" and len(blocks) == 1:
                lines.append({"type": "user", "message": message})
            elif message["role"] != "assistant":
                lines.append({"type": "api-request-blob", "hash": digest, "message": message})
        asked: Body = {"type": "api-request", "id": f"r{number}", "base": f"r{number - 1}", "keep": keep}
        asked |= {"tail": new[keep:], "shapeHash": "s1", "params": {"model": "claude-test"}, "querySource": "sdk"}
        lines.append({**asked, "timestamp": f"2026-10-01T10:00:{number:02}.000Z"})
        for block in reply["content"]:
            lines.append({"type": "assistant", "message": {**reply, "content": [block]}})
        hashes = new
    common = {"sessionId": SESSION, "cwd": "/src"}
    return [{**common, **line, "uuid": f"u{number}"} for number, line in enumerate(lines)]


def record(number: int, path: str, request: Body, response: Body, **headers: str) -> Body:
    """A record of claude-tap, whole."""
    return {
        "timestamp": f"2026-10-01T10:00:{number:02}.000Z",
        "request_id": f"req_{number}",
        "turn": number,
        "duration_ms": 20,
        "request": {"method": "POST", "path": path, "headers": headers, "body": request},
        "response": {"status": 200, "headers": {}, "body": response},
        "upstream_base_url": "http://127.0.0.1",
    }


def make_records(run: Run) -> list[Body]:
    return [
        record(number, "/v1/messages?beta=true", request, response)
        for number, (_, request, response) in enumerate(run.exchanges, 1)
    ]


def make_bundle(records: list[Body]) -> Body:
    """What ``claude-tap export --format compact`` writes: each message and the tools once."""
    blobs: dict[str, Any] = {}

    def store(value: Any) -> Body:
        data = json.dumps(value, separators=(",", ":"))
        digest = "sha256:" + sha256(data.encode()).hexdigest()
        blobs[digest] = value
        return {"__claude_tap_blob_ref__": {"version": 1, "kind": "json", "hash": digest, "bytes": len(data)}}

    compact = []
    for each in records:
        body = dict(each["request"]["body"])
        for name in ("messages", "input"):
            if isinstance(body.get(name), list):
                body[name] = [store(message) for message in body[name]]
        if "tools" in body:
            body["tools"] = store(body["tools"])
        own = {**each, "request": {**each["request"], "body": body}}
        compact.append({"__claude_tap_compact_record__": {"version": 1, "refs": []}, "record": own})
    return {"__claude_tap_compact_trace__": {"version": 1}, "records": compact, "blobs": blobs}


TAP_SCHEMA = (
    "CREATE TABLE sessions (id TEXT PRIMARY KEY, started_at TEXT, updated_at TEXT, client TEXT, record_count INTEGER);"
    "CREATE TABLE records (session_id TEXT, record_index INTEGER, turn INTEGER, timestamp TEXT, payload_json TEXT,"
    " PRIMARY KEY (session_id, record_index));"
    "CREATE TABLE record_blobs (session_id TEXT, hash TEXT, kind TEXT, payload_json TEXT, size_bytes INTEGER);"
)


def write_database(path: Path, sessions: dict[str, list[Body]]) -> Path:
    """Write claude-tap's database, with blobs."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA journal_mode=wal")
        database.executescript(TAP_SCHEMA)
        for name, records in sessions.items():
            add_session(database, name, records)
    return path


def add_session(database: sqlite3.Connection, name: str, records: list[Body], begin: int = 0) -> None:
    """Add records of a session from number *begin* on."""
    bundle = make_bundle(records)
    row = (name, records[0]["timestamp"], records[-1]["timestamp"], name, len(records))
    database.execute("INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, ?)", row)
    for number, each in list(enumerate(bundle["records"], 1))[begin:]:
        stamp = each["record"]["timestamp"]
        database.execute("INSERT INTO records VALUES (?, ?, ?, ?, ?)", (name, number, number, stamp, json.dumps(each)))
    database.execute("DELETE FROM record_blobs WHERE session_id = ?", (name,))
    for digest, value in bundle["blobs"].items():
        data = json.dumps(value, separators=(",", ":"))
        database.execute("INSERT INTO record_blobs VALUES (?, ?, 'json', ?, ?)", (name, digest, data, len(data)))


def make_responses_records() -> list[Body]:
    """A run of the Responses API, whose items carry no ids when they are sent again."""
    lead = {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be exact."}]}
    history: list[Body] = [lead, {"role": "user", "content": [{"type": "input_text", "text": "List."}]}]
    tools = [{"type": "function", "name": "shell", "parameters": {"type": "object"}}, {"type": "web_search"}]
    records = []
    for number in (1, 2, 3):
        item = {"type": "function_call", "call_id": f"c{number}", "name": "shell", "arguments": '{"cmd": "ls"}'}
        message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "So."}]}
        output = [{**message, "id": f"m{number}", "status": "completed"}, {**item, "id": f"f{number}"}]
        usage = {"input_tokens": 100 * number, "input_tokens_details": {"cached_tokens": 40}, "output_tokens": 5}
        response = {"id": f"r{number}", "object": "response", "output": output, "usage": usage}
        request = {"model": "gpt-test", "instructions": "Help.", "input": [*history], "tools": tools}
        records.append(record(number, "/v1/responses", request, response))
        history += [message, item, {"type": "function_call_output", "call_id": f"c{number}", "output": "a b"}]
    return records


def make_chat_records() -> list[Body]:
    """A run of Chat Completions."""
    history: list[Body] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "List."}]
    tools = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}]
    records = []
    for number in (1, 2):
        calls = [{"id": f"c{number}", "type": "function", "function": {"name": "bash", "arguments": "{}"}}]
        reply = {"role": "assistant", "content": None, "tool_calls": calls}
        usage = {"prompt_tokens": 50 * number, "completion_tokens": 4}
        request = {"model": "m", "messages": [*history], "tools": tools, "stream": True}
        records.append(
            record(number, "/v1/chat/completions", request, {"choices": [{"message": reply}], "usage": usage})
        )
        history += [{**reply, "content": ""}, {"role": "tool", "tool_call_id": f"c{number}", "content": "a b"}]
    return records


def make_gemini_records() -> list[Body]:
    """A run of Gemini, whose replies have calls without ids."""
    history: list[Body] = [{"role": "user", "parts": [{"text": "List."}]}]
    tools = [{"functionDeclarations": [{"name": "run", "parameters": {"type": "object"}}, {"name": "read"}]}]
    records = []
    for number in (1, 2):
        made = {"functionCall": {"name": "run", "args": {"n": number}}}
        usage = {"promptTokenCount": 60 * number, "candidatesTokenCount": 3, "cachedContentTokenCount": 10}
        response = {"candidates": [{"content": {"role": "model", "parts": [made]}}], "usageMetadata": usage}
        request = {"contents": [*history], "systemInstruction": {"parts": [{"text": "Help."}]}, "tools": tools}
        path = "/v1beta/models/g:streamGenerateContent?alt=sse"
        records.append(record(number, path, request, {**response, "modelVersion": "gemini-test"}))
        named = {"functionCall": {**made["functionCall"], "id": f"run_{number}"}}
        answer = {"functionResponse": {"name": "run", "response": {"output": f"line {number}"}}}
        history += [{"role": "model", "parts": [named]}, {"role": "user", "parts": [answer]}]
    return records
