"""Recorded sizes of requests, read from the raw files by the plainest code: nothing of the package's readers.

Each function returns, by session id, the prompt tokens of every request in the order of the file.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

Record = dict[str, Any]
Sizes = dict[str, list[int]]


def read_lines(path: Path) -> Iterator[Record]:
    """Yield the JSON objects of a file; a line may hold two, or none."""
    decoder = json.JSONDecoder()
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        at, line = 0, line.strip()
        while at < len(line):
            try:
                value, at = decoder.raw_decode(line, at)
            except ValueError:
                break
            if isinstance(value, dict):
                yield value


def query(path: Path, sql: str) -> list[Any]:
    """Rows of a query. Without a log the file is opened as immutable, so that SQLite makes no files beside it."""
    immutable = "" if path.with_name(path.name + "-wal").exists() else "&immutable=1"
    with closing(sqlite3.connect(f"file:{path}?mode=ro{immutable}", uri=True)) as database:
        return database.execute(sql).fetchall()


def total(usage: Record, *names: str) -> int:
    return sum(usage.get(name) or 0 for name in names)


def claude_code(path: Path) -> Sizes:
    """The lines of one message repeat its usage; a message that the client made up has none."""
    usages: dict[str, dict[str, int]] = {}
    for record in read_lines(path):
        message = record.get("message")
        if record.get("type") != "assistant" or not isinstance(message, dict) or not message.get("usage"):
            continue
        size = total(message["usage"], "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        agent = record.get("agentId", "") if record.get("isSidechain") else ""
        if message.get("model") != "<synthetic>":
            usages.setdefault(agent, {})[message.get("id") or record["uuid"]] = size
    return {agent: list(sizes.values()) for agent, sizes in usages.items()}


def codex(path: Path) -> Sizes:
    """A count that repeats the totals is no request, and one without input and output is an estimate."""
    sizes, before = list[int](), None
    for record in read_lines(path):
        payload = record.get("payload") or {}
        info = payload.get("info") if payload.get("type") == "token_count" else None
        last = (info or {}).get("last_token_usage")
        if last and (last["input_tokens"] or last["output_tokens"]) and info != before:
            sizes.append(last["input_tokens"])
        before = info or before
    return {"": sizes}


def gemini_cli(path: Path) -> Sizes:
    messages = json.loads(path.read_text())["messages"]
    counts = [message["tokens"] for message in messages if message.get("tokens")]
    return {"": [size for each in counts if (size := total(each, "input", "tool"))]}


def mini_swe_agent(path: Path) -> Sizes:
    value = json.loads(path.read_text())
    messages = value["messages"] if isinstance(value, dict) else value
    responses = [(message.get("extra") or {}).get("response") for message in messages]
    return {"": [each["usage"]["prompt_tokens"] for each in responses if each and each.get("usage")]}


def openai(path: Path) -> Sizes:
    value = json.loads(path.read_text())
    usage = (value.get("response") or {}).get("usage") if isinstance(value, dict) else None
    return {"": [usage["prompt_tokens"]] if usage else []}


def anthropic(path: Path) -> Sizes:
    usage = (json.loads(path.read_text()).get("response") or {}).get("usage") or {}
    size = total(usage, "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return {"": [size] if size else []}


def openhands(path: Path) -> Sizes:
    """Calls of one reply repeat its response."""
    sizes: Sizes = {}
    for number, record in enumerate(read_lines(path)):
        responses: dict[str, int] = {}
        for event in record["history"]:
            for each in event if isinstance(event, list) else [event]:
                response = (each.get("tool_call_metadata") or {}).get("model_response")
                if response and response.get("usage"):
                    responses[response["id"]] = response["usage"]["prompt_tokens"]
        sizes[str(number)] = list(responses.values())
    return sizes


def pi(path: Path) -> Sizes:
    """A reply that was aborted or failed has a usage too if its request was answered."""
    messages = [record["message"] for record in read_lines(path) if record.get("type") == "message"]
    usages = [message["usage"] for message in messages if message.get("role") == "assistant" and message.get("usage")]
    return {"": [size for each in usages if (size := total(each, "input", "cacheRead", "cacheWrite"))]}


def aider(path: Path) -> Sizes:
    """Token counts are rounded: ``3.2k sent``."""
    scales = {"": 1, "k": 1_000, "M": 1_000_000}
    sizes: Sizes = {}
    for line in path.read_text().split("\n"):
        if line.startswith("# aider chat started at "):
            sizes[str(len(sizes))] = []
        elif match := re.search(r"> .*Tokens: ([\d.]+)([kM]?) sent", line):
            sizes[str(len(sizes) - 1)].append(round(float(match[1]) * scales[match[2]]))
    return sizes


def cline(path: Path) -> Sizes:
    return {"": []}  # the files of the corpus are not named as their readers expect: no usage lies beside them


def cline_sdk(path: Path) -> Sizes:
    metrics = [message.get("metrics") for message in json.loads(path.read_text())["messages"]]
    return {"": [each["inputTokens"] for each in metrics if each]}


def opencode(path: Path) -> Sizes:
    """Files: a message with its steps; without steps the usage of the message."""
    storage = next(parent for parent in path.parents if parent.name == "storage")
    sizes = list[int]()
    for file in sorted((storage / "message" / path.stem).iterdir()):
        message = json.loads(file.read_text())
        parts = [json.loads(each.read_text()) for each in sorted((storage / "part" / file.stem).glob("*.json"))]
        steps = [part["tokens"] for part in parts if part["type"] == "step-finish"]
        for each in steps if len(steps) > 1 else [message["tokens"]] if message["role"] == "assistant" else []:
            if size := each["input"] + each["cache"]["read"] + each["cache"]["write"]:
                sizes.append(size)
    return {"": sizes}


def copilot_cli(path: Path) -> Sizes:
    """Only the end of a session states a size."""
    ends = [record["data"] for record in read_lines(path) if record.get("type") == "session.shutdown"]
    return {"": [each["currentTokens"] for each in ends if each.get("currentTokens")][-1:]}


def crush(path: Path) -> Sizes:
    """The row of a session holds the newest request; these ``completion_tokens`` hold nothing read from a cache."""
    return {name: [size] if size else [] for name, size in query(path, "SELECT id, prompt_tokens FROM sessions")}


def koda(path: Path) -> Sizes:
    """The prompt includes what was read from the cache, unless more was read or something was written."""
    sizes: Sizes = {}
    sql = "SELECT session_id, prompt_tokens, cache_read_tokens, cache_creation_tokens FROM messages ORDER BY id"
    for name, prompt, read, written in query(path, sql):
        if prompt:
            includes_cache = not written and (read or 0) <= prompt
            sizes.setdefault(name, []).append(prompt if includes_cache else prompt + (read or 0) + (written or 0))
    return sizes


def swe_agent(path: Path) -> Sizes:
    return {"": []}  # totals of the run only


READERS: dict[str, Callable[[Path], Sizes]] = {
    **{"claude-code": claude_code, "codex": codex, "gemini-cli": gemini_cli, "mini-swe-agent": mini_swe_agent},
    **{"openai": openai, "anthropic": anthropic, "openhands": openhands, "pi": pi, "aider": aider, "cline": cline},
    **{"cline-sdk": cline_sdk, "opencode": opencode, "copilot-cli": copilot_cli, "crush": crush, "koda": koda},
    "swe-agent": swe_agent,
}
