"""Sessions of pi, Gemini CLI and Copilot CLI with everything in them, for mutations to start from."""

from __future__ import annotations

from typing import Any

from tests.formats import test_copilot_cli, test_gemini_cli, test_pi

Records = list[dict[str, Any]]


def pi() -> Records:
    """A tree with a branch, its summary and two compactions."""
    entry, said = test_pi.entry, test_pi.said
    return [
        *test_pi.PLAIN,
        entry("compaction", "k1", "a3", summary="So far.", firstKeptEntryId="x", tokensBefore=50_000),
        said("u3", "k1", "user", "On."),
        entry("branch_summary", "s", "r2", fromId="u3", summary="Tried it."),
        said("u4", "s", "user", "Otherwise."),
        test_pi.reply("a4", "u4", test_pi.text("Yes.")),
        entry("compaction", "k2", "a4", summary="All that.", firstKeptEntryId="u4", fromHook=True),
        said("u5", "k2", "user", "More."),
    ]


def pi_first_version() -> Records:
    """Entries without ids, and a compaction that counts them."""
    bare = [{name: each for name, each in record.items() if name not in ("id", "parentId")} for record in test_pi.PLAIN]
    header = {"type": "session", "id": "x", "timestamp": test_pi.WHEN, "cwd": "/", "provider": "p", "modelId": "m"}
    compaction = {"type": "compaction", "timestamp": test_pi.WHEN, "summary": "s", "firstKeptEntryIndex": 9}
    return [header, *bare[1:], compaction, bare[2]]


def gemini_lines() -> Records:
    """Records that are written again, rewinds, a masked result and a compression."""
    user, gemini, call = test_gemini_cli.user, test_gemini_cli.gemini, test_gemini_cli.call
    plain = test_gemini_cli.PLAIN
    masked = {**plain[2], "toolCalls": [call("c1", {"output": "<tool_output_masked>"}), test_gemini_cli.TWO]}
    return [
        test_gemini_cli.HEADER,
        *plain[:3],
        {**plain[2], "content": "I have read."},
        *plain[3:],
        {"$rewindTo": "6"},
        user("8", "Other."),
        {"$set": {"messages": [*plain[:2], masked, *plain[4:5], user("8", "Other.")]}},
        gemini("9", "Yes."),
        {"$set": {"messages": [user("s", [{"text": "<state_snapshot>"}]), plain[1], gemini("9", "Yes.")]}},
        user("10", "On."),
        {"$set": {"lastUpdated": test_gemini_cli.WHEN, "summary": "Reads"}},
    ]


def gemini_document() -> dict[str, Any]:
    """A session up to 0.38."""
    return {**test_gemini_cli.HEADER, "messages": test_gemini_cli.PLAIN}


def copilot() -> Records:
    """Events of a session and a sub-agent, with a rewind and compactions."""
    event, typed = test_copilot_cli.event, test_copilot_cli.typed
    return [
        *test_copilot_cli.PLAIN[:6],
        event("subagent.started", "b1", "agent-1", toolCallId="c2", agentName="explore"),
        test_copilot_cli.reply("b4", "I explore.", "c9", agent="agent-1"),
        *test_copilot_cli.PLAIN[6:],
        event("session.snapshot_rewind", "r", upToEventId="u2", eventsRemoved=3),
        event("session.truncation", "t1", tokenLimit=128_000, tokensRemovedDuringTruncation=40),
        typed("u3", "On."),
        event("session.compaction_complete", "k", success=True, summaryContent="So far.", preCompactionTokens=9),
        event("session.context_cleared", "c"),
        typed("u4", "Anew."),
    ]
