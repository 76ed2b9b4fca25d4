"""Every answer that the reproduced systems gave, to the last token."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from context_tui.compaction.apply import apply
from context_tui.policies.planning import plan
from context_tui.session.memory import from_messages
from context_tui.session.session import Session
from context_tui.tokens import History, estimate
from context_tui.tokens.context_index import index_context

DATA = Path(__file__).parent / "data"
VECTORS = [
    json.loads(line)
    for name in ("vectors.jsonl", "edges.jsonl")
    for line in (DATA / name).read_text(encoding="utf-8").split("\n")
    if line
]


@pytest.fixture(params=VECTORS, ids=lambda vector: str(vector["name"]))
def vector(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = request.param
    return found


@pytest.fixture
def session(vector: dict[str, Any]) -> Session:
    return from_messages(vector["messages"])


def digest(message: dict[str, Any]) -> str:
    blocks = []
    for block in message["content"]:
        match block["type"]:
            case "text":
                blocks.append({"type": "text", "text": block["text"]})
            case "thinking":
                blocks.append({k: block.get(k) for k in ("type", "thinking", "signature")})
            case "tool_use":
                blocks.append({k: block[k] for k in ("type", "id", "name", "input")})
            case "tool_result":
                blocks.append({k: block[k] for k in ("type", "tool_use_id", "content")})
                blocks[-1]["is_error"] = bool(block.get("is_error"))
            case _:
                blocks.append(block)
    shape = {"content": blocks, "role": message["role"]}
    text = json.dumps(shape, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def test_estimates(vector: dict[str, Any], session: Session) -> None:
    expect = vector["expect"]
    assert index_context(session.context_at()).tokens == expect["estimates"]
    assert estimate(session) == expect["total"]
    history = History()
    for message in vector["messages"]:
        history.append(message)
    assert history.tokens == expect["total"]


def test_turn_starts(vector: dict[str, Any], session: Session) -> None:
    assert index_context(session.context_at()).turn_starts == vector["expect"]["turn_starts"]


def test_defect_microcompact(vector: dict[str, Any], session: Session) -> None:
    made, expect = plan(session, "defect-microcompact"), vector["expect"]["defect_micro"]
    after = apply(session, made)
    if expect is None:
        assert not made.has_changes and made.report is None and after is session
        return
    assert dict(made.report or {}) == {k: expect[k] for k in ("tokens_before", "tokens_after", "cleared")}
    assert sorted({edit.message for edit in made.edits}) == expect["changed_messages"]
    assert made.tokens_after == expect["tokens_after"] == estimate(after)
    assert not plan(after, "defect-microcompact").has_changes


def test_defect_compact(vector: dict[str, Any], session: Session) -> None:
    for expect in vector["expect"]["defect_full"]:
        made = plan(session, "defect-compact", threshold=expect["threshold"])
        if expect["plan"] is None:
            assert not made.has_changes and made.reason
            continue
        answer = expect["plan"]
        assert made.boundary == answer["drop_count"]
        assert made.previous_summary == answer["prev_summary"]
        assert made.tokens_before == answer["tokens_before"]
        assert [digest(message) for message in made.messages_to_summarise] == answer["head_sha256"]
        after = apply(session, made, vector["summary"])
        assert estimate(after) == answer["tokens_after"]
        assert after.to_messages()[1:] == session.to_messages()[answer["drop_count"] :]


def test_agent_sdk_prune(vector: dict[str, Any], session: Session) -> None:
    for expect in vector["expect"]["sdk_prune"]:
        made = plan(session, "agent-sdk-prune", **{k: expect[k] for k in ("max_chars", "preserve_tail")})
        assert made.report == {"removed_bytes": expect["removed_bytes"]}
        messages = apply(session, made).to_messages()
        assert [[edit.message, edit.block] for edit in made.edits] == [change[:2] for change in expect["changed"]]
        for message, block, sha256, size in expect["changed"]:
            data = messages[message]["content"][block]["content"].encode()
            assert [hashlib.sha256(data).hexdigest(), len(data)] == [sha256, size]
        assert made.tokens_after == (estimate(apply(session, made)) or 0)


def test_agent_sdk_split(vector: dict[str, Any], session: Session) -> None:
    for expect in vector["expect"]["sdk_split"]:
        made = plan(session, "agent-sdk-compact", min_keep=expect["min_keep"])
        assert made.messages_dropped == expect["split"]
        assert made.has_changes == bool(expect["split"])
