"""Cline, Roo Code and Cline's SDK: what a person typed, what was sent of a conversation, and what requests took."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from context_tui import apply, from_messages, plan
from context_tui.compaction.recorded_compactions import find_recorded_compactions
from context_tui.export.files import export
from context_tui.formats.base import scan
from context_tui.formats.cline import ClineFormat
from context_tui.formats.cline.sdk import ClineSdkFormat
from context_tui.formats.opening import detect_format, sessions_in
from context_tui.lab.replay.backtest import run_backtests
from context_tui.lab.replay.recording import Recording
from context_tui.policies.versions import find_own_policies
from context_tui.session.facts import Usage
from context_tui.session.session import Session
from context_tui.session.values import BlockFlag
from tests.formats.histories import columns, opened, put

CLINE, SDK = ClineFormat(), ClineSdkFormat()
DETAILS = "<environment_details>\n# Current Mode\n<model>anthropic/claude-sonnet-4.5</model>\n</environment_details>"


def message(role: str, ts: int, *texts: str, **more: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": text} for text in texts]
    return {"role": role, "content": content, **({"ts": ts} if ts else {}), **more}


def request(ts: int, given: int, read: int = 0, written: int = 0, **more: Any) -> dict[str, Any]:
    told = {"request": "x", "tokensIn": given, "tokensOut": 7, "cacheReads": read, "cacheWrites": written}
    protocol = {"apiProtocol": more.pop("protocol")} if "protocol" in more else {}
    return {"ts": ts, "type": "say", "say": "api_req_started", "text": json.dumps({**told, **protocol}), **more}


def task(folder: Path, messages: list[Any], shown: list[Any] | None = None, rewrites: Any = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    if shown is not None:
        put(folder / "ui_messages.json", shown)
    if rewrites is not None:
        put(folder / "context_history.json", rewrites)
    return put(folder / "api_conversation_history.json", messages)


def texts(session: Session, at: int | None = None) -> list[str]:
    return ["|".join(str(block.get("text")) for block in each["content"]) for each in session.to_messages(at)]


ASKED = [
    message("user", 10, "<task>\nFix it.\n</task>", DETAILS),
    message("assistant", 20, "I look.\n<read_file>\n<path>a</path>\n</read_file>"),
    message("user", 30, "[read_file for 'a'] Result:", "1 | alpha", DETAILS),
    message("assistant", 40, "<attempt_completion>\nDone.\n</attempt_completion>"),
    message("user", 50, "[attempt_completion] Result:", "See:\n<feedback>\nNot so.\n</feedback>", DETAILS),
    message("assistant", 60, "Hm."),
    message("user", 70, "[ERROR] You did not use a tool", DETAILS),
]
SHOWN = [
    {"ts": 11, "type": "say", "say": "text", "text": "Fix it."},
    request(12, 900, 800, protocol="openai"),
    request(33, 1_000, 900, protocol="openai"),
    request(34, 1_001, 900, protocol="openai"),  # tried once more
    request(55, 1_100, 1_000, protocol="openai"),
]


def test_what_was_typed_and_what_was_taken(tmp_path: Path) -> None:
    path = task(tmp_path, ASKED, SHOWN)
    assert detect_format(path).name == "cline"
    [info] = CLINE.list_sessions(path)
    assert (info.title, "are texts" in info.note) == ("Fix it.", True)
    assert CLINE.read_title(path) == "Fix it." and not CLINE.read_title(tmp_path / "gone")
    session = opened(CLINE, path)
    facts = session.facts
    assert (len(session), session.turns, facts.model) == (7, 2, "anthropic/claude-sonnet-4.5")
    assert [(use.fresh, use.cache_read, use.output) for use in facts.requests] == [
        (100, 800, 7),
        (101, 900, 7),
        (100, 1_000, 7),
    ]
    unasked = message("assistant", 65, "No request was made for this.")  # as where a client was closed meanwhile
    session = opened(CLINE, task(tmp_path, [*ASKED, unasked], SHOWN))
    assert [*session.facts.request_message] == [1, 3, 5]
    injected = [bool(flag & BlockFlag.INJECTED) for flag in facts.block_flags]
    assert injected == [False, True, False, True, True, True, False, True, False, True, False, True, True]
    assert [found.path for found in sessions_in(tmp_path)] == [str(path)]  # the other files are no sessions


def test_input_tokens_without_cached_ones(tmp_path: Path) -> None:
    session = opened(CLINE, task(tmp_path, ASKED[:2], [request(12, 10, 800, 90)]))
    assert session.facts.requests == [Usage(10, 800, 90, 0, 7)]
    shown = [request(12, 900, 100), request(13, 5, 0)]  # of Cline they never have them in
    assert opened(CLINE, task(tmp_path, ASKED[:2], shown[:1])).facts.requests == [Usage(900, 100, 0, 0, 7)]
    shown = [request(12, 900, 100, protocol="anthropic"), request(31, 2, 900, protocol="anthropic")]
    assert opened(CLINE, task(tmp_path, ASKED[:4], shown)).facts.requests[0] == Usage(900, 100, 0, 0, 7)


def old(count: int, size: int = 0) -> list[dict[str, Any]]:
    """Cline's messages, which have no time."""
    return [
        message("assistant" if number % 2 else "user", 0, f"{number}" + " word" * size, DETAILS)
        for number in range(count)
    ]


def test_requests_by_where_they_stood(tmp_path: Path) -> None:
    shown = [request(1, 90, conversationHistoryIndex=-1), request(2, 99, conversationHistoryIndex=3)]
    facts = opened(CLINE, task(tmp_path, old(6), shown)).facts
    assert [(facts.request_message[row], use.fresh) for row, use in enumerate(facts.requests)] == [(1, 90), (5, 99)]
    facts = opened(
        CLINE, task(tmp_path, old(6), [request(1, 90), request(2, 99)])
    ).facts  # by their order, from the end
    assert [(facts.request_message[row], use.fresh) for row, use in enumerate(facts.requests)] == [(3, 90), (5, 99)]


def deleted(at: int, last: int) -> dict[str, Any]:
    more = {"conversationHistoryIndex": at, "conversationHistoryDeletedRange": [2, last]}
    return {"ts": 100 + at, "type": "say", "say": "text", "text": "x", **more}


def test_deleted_ranges(tmp_path: Path) -> None:
    shown = [deleted(8, 5), deleted(9, 5), deleted(12, 9)]
    session = opened(CLINE, task(tmp_path, old(14), shown))
    firsts = [[text[: text.index("|")] for text in texts(session, at)] for at in (8, 9, 12, 13, 14)]
    assert firsts == [
        ["0", "1", "2", "3", "4", "5", "6", "7"],
        ["0", "1", "6", "7", "8"],
        ["0", "1", "6", "7", "8", "9", "10", "11"],
        ["0", "1", "10", "11", "12"],
        ["0", "1", "10", "11", "12", "13"],
    ]
    assert [(each.kind, each.trigger, each.message) for each in session.facts.compactions] == [
        ("full", "truncation", 8),
        ("full", "truncation", 12),
    ]
    assert session.turns == 7  # nothing is a summary


def test_rewritten_blocks(tmp_path: Path) -> None:
    notice = [[105, "text", ["read before"], [["a"]]]]
    rewrites = [[2, [2, [[0, notice]]]], [4, [2, [[0, [[105, "text", ["x" * 400]]]]]]], [99, [2, [[0, notice]]]], ["?"]]
    session = opened(CLINE, task(tmp_path, old(12, size=50), [deleted(4, 1)], rewrites))
    [found] = session.facts.compactions
    assert (found.kind, found.message, len(found.cleared_blocks)) == ("micro", 7, 1)
    assert texts(session)[2].startswith("[Old") and texts(session, 6)[2].startswith("2 word")


CONDENSED = [
    message("user", 10, "<task>\nFix.\n</task>"),
    message("assistant", 20, "One", condenseParent="c1"),
    message("user", 30, "Two", condenseParent="c1"),
    message("assistant", 39, "The summary.", isSummary=True, condenseId="c1", truncationParent="t1"),
    message("user", 40, "Kept", truncationParent="t1"),
    message("assistant", 50, "Also kept", condenseParent="gone"),
    {"role": "user", "content": "[Sliding window]", "ts": 59, "isTruncationMarker": True, "truncationId": "t1"},
    message("user", 60, "Later"),
]


def test_condensed_and_truncated(tmp_path: Path) -> None:
    told = {"summary": "The summary.", "prevContextTokens": 9_000, "newContextTokens": 400}
    shown = [{"ts": 45, "type": "say", "say": "condense_context", "contextCondense": told}]
    session = opened(CLINE, task(tmp_path, CONDENSED, shown))
    assert [(each.message, each.trigger, each.pre_tokens) for each in session.facts.compactions] == [
        (3, "condense", 9_000),
        (6, "sliding window", None),
    ]
    assert texts(session, 3) == ["<task>\nFix.\n</task>", "One", "Two"]
    assert texts(session, 6) == ["<task>\nFix.\n</task>", "The summary.", "Kept", "Also kept"]
    assert texts(session) == ["<task>\nFix.\n</task>", "Also kept", "[Sliding window]", "Later"]


def test_the_first_that_hides_a_message_counts(tmp_path: Path) -> None:
    both = message("user", 30, "Two", condenseParent="c1", truncationParent="t1")
    session = opened(CLINE, task(tmp_path, [*CONDENSED[:2], both, *CONDENSED[3:]]))
    assert texts(session, 6) == ["<task>\nFix.\n</task>", "The summary.", "Kept", "Also kept"]


def test_the_fall_of_a_condense_that_is_recorded_before_what_it_kept(tmp_path: Path) -> None:
    """Roo puts the summary before the messages that it keeps; their requests still had the whole context."""
    shown = [request(15, 90_000), request(41, 95_000), request(51, 20_000), request(61, 21_000)]
    messages = [
        *CONDENSED[:3],
        message("assistant", 39, "The summary.", isSummary=True, condenseId="c1"),
        message("user", 40, "Kept"),
        message("assistant", 42, "Kept too"),
        message("user", 45, "Later"),
        message("assistant", 55, "Now."),
        message("user", 58, "On."),
        message("assistant", 65, "Yes."),
    ]
    session = opened(CLINE, task(tmp_path, messages, shown))
    [drop] = session.drops
    assert (drop.message, drop.tokens, drop.explained_by) == (7, 75_000, "full compaction")
    [found] = find_recorded_compactions(session)
    assert (found.message, found.recorded_tokens_after) == (3, 20_000)


@pytest.mark.parametrize(("after", "condensed"), [(20_000, True), (75_000, True), (90_250, True), (96_000, False)])
def test_a_condense_that_only_its_parents_tell(tmp_path: Path, after: int, condensed: bool) -> None:
    """Its summary is not in the file: the messages name it, and were sent no more where the recorded size falls."""
    messages = [
        message("user", 10, "<task>\nFix.\n</task>"),
        message("assistant", 20, "One", condenseParent="gone"),
        message("user", 30, "Two", condenseParent="gone"),
        message("assistant", 40, "Three", condenseParent="gone"),
        message("user", 50, "Later"),
        message("assistant", 60, "Now."),
    ]
    shown = [request(15, 90_000), request(35, 95_000), request(55, after)]
    session = opened(CLINE, task(tmp_path, messages, shown))
    assert [(each.message, each.trigger) for each in session.facts.compactions] == [(4, "condense")] * condensed
    assert not session.drops and len(session.facts.requests) == 3
    assert texts(session)[1:3] == (["Later", "Now."] if condensed else ["One", "Two"])


def test_a_condense_of_all_messages_that_only_its_parents_tell(tmp_path: Path) -> None:
    """The next message is the reply: the summary that it answered stands before it, and is not in the file."""
    parents = {"condenseParent": "gone"}
    messages = [
        message("user", 10, "<task>\nFix.\n</task>", **parents),
        message("assistant", 20, "One", **parents),
        message("user", 30, "Two", **parents),
        message("assistant", 40, "Three"),
        message("user", 50, "Later"),
        message("assistant", 60, "Now."),
    ]
    shown = [request(15, 90_000), request(35, 20_000), request(55, 21_000)]
    session = opened(CLINE, task(tmp_path, messages, shown))
    assert [(each.message, each.trigger) for each in session.facts.compactions] == [(3, "condense")]
    assert not session.drops
    sizes = zip(session.facts.request_message, session.facts.requests, strict=True)
    assert [(at, usage.context) for at, usage in sizes] == [(1, 90_000), (4, 20_000), (6, 21_000)]
    assert [*session.context_at(4).order] == [3] and [*session.context_at().order] == [3, 4, 5, 6]
    assert session.to_messages()[0]["content"][0]["note"] == "the summary is not in this file"
    [found] = find_recorded_compactions(session)
    assert found.recorded_tokens_after == 20_000


@pytest.mark.parametrize("kept", [3, 4])
def test_a_condense_without_a_summary_takes_effect_behind_what_it_kept(tmp_path: Path, kept: int) -> None:
    """Roo keeps the last three messages, to one of which the model still replied with the whole context."""
    talk = [message("user", 10, "<task>\nFix.\n</task>")]
    talk += [message(("assistant", "user")[at % 2], 20 + 10 * at, f"Part {at}") for at in range(10)]
    messages = [{**each, "condenseParent": "gone"} if 0 < at < 9 - kept else each for at, each in enumerate(talk)]
    sizes = [90_000, 91_000, 92_000, 93_000, 20_000]
    shown = [request(15 + 20 * at, size) for at, size in enumerate(sizes)]
    session = opened(CLINE, task(tmp_path, messages, shown))
    assert [usage.context for usage in session.facts.requests] == sizes
    assert [(each.message, each.trigger) for each in session.facts.compactions] == [(8, "condense")]
    assert not session.drops
    assert [*session.context_at(9).order] == [0, *range(9 - kept, 9)]
    assert [*session.context_at(8).order] == [*range(8)]


@pytest.mark.parametrize(("own", "policy"), [({"condenseParent": "c1"}, "roo-condense"), ({}, "cline")])
def test_the_own_policy_of_who_wrote_a_task(tmp_path: Path, own: dict[str, Any], policy: str) -> None:
    messages = [message("user", 10, "<task>\nFix.\n</task>"), message("assistant", 20, "One", **own)]
    summary = message("user", 30, "The summary.", isSummary=True, condenseId="c1")
    session = opened(CLINE, task(tmp_path, [*messages, *([summary] if own else [])], [request(15, 90_000)]))
    assert find_own_policies(session) == {"full": policy}
    assert [each.policy for each in run_backtests(Recording(session))] == [policy] * bool(own)


def test_an_odd_id_of_a_condense_ends_nothing(tmp_path: Path) -> None:
    messages = [
        message("user", 10, "<task>\nFix.\n</task>", condenseParent="x"),
        message("assistant", 20, "One", isSummary=True, condenseId={"type": 7}),
    ]
    assert len(opened(CLINE, task(tmp_path, messages))) == 2


def test_a_history_that_starts_over(tmp_path: Path) -> None:
    messages = [message("assistant", 39, "What was done.", isSummary=True), message("user", 40, "Go on.")]
    session = opened(CLINE, task(tmp_path, messages))
    assert [(each.message, each.kind) for each in session.facts.compactions] == [(0, "full")]
    assert (texts(session), session.turns) == (["What was done.", "Go on."], 1)


def test_native_calls_and_reasoning(tmp_path: Path) -> None:
    messages = [
        message("user", 1, "<task>Fix.</task>"),
        {"type": "reasoning", "encrypted_content": "x", "summary": []},
        {
            "role": "assistant",
            "ts": 3,
            "reasoning_content": "hm",
            "content": [{"type": "tool_use", "id": "a", "name": "read_file", "input": {"path": "a"}}],
        },
        {
            "role": "user",
            "ts": 4,
            "content": [{"type": "tool_result", "tool_use_id": "a", "content": "b"}, {"type": "text", "text": DETAILS}],
        },
    ]
    session = opened(CLINE, task(tmp_path, messages))
    kinds = [[block["type"] for block in each["content"]] for each in session.to_messages()]
    assert kinds == [["text"], ["thinking"], ["thinking", "tool_use"], ["tool_result", "text"]]
    assert (session.turns, CLINE.list_sessions(tmp_path / "api_conversation_history.json")[0].note) == (1, "")
    assert session.facts.block_flags[1] & BlockFlag.UNKNOWN_SIZE


def test_a_task_that_grows(tmp_path: Path) -> None:
    path = task(tmp_path, CONDENSED[:1], [])
    growing = CLINE.make_scanner(path, CLINE.list_sessions(path)[0])
    growing.advance()
    for messages, shown in [(CONDENSED[:n], [request(15, 9)] if n > 4 else []) for n in range(2, 9)]:
        task(tmp_path, messages, shown)
        growing.advance()
        assert columns(growing.session().facts) == columns(opened(CLINE, path).facts), len(messages)


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({}, ".config/Code/User/globalStorage/saoudrizwan.claude-dev/tasks/17"),
        ({}, ".config/Cursor/User/globalStorage/rooveterinaryinc.roo-cline/tasks/ab"),
        ({"XDG_CONFIG_HOME": "x"}, "x/VSCodium/User/globalStorage/rooveterinaryinc.roo-cline/tasks/ab"),
        ({}, "Library/Application Support/Code - Insiders/User/globalStorage/saoudrizwan.claude-dev/tasks/17"),
        ({"APPDATA": "r"}, "r/Windsurf/User/globalStorage/saoudrizwan.claude-dev/tasks/17"),
        ({}, ".cline/data/tasks/17"),
        ({"CLINE_DIR": "c"}, "c/data/tasks/17"),
    ],
)
def test_where_tasks_are_kept(environ: dict[str, str], folder: str, tmp_path: Path) -> None:
    path = task(tmp_path / folder, ASKED)
    given = {name: str(tmp_path / value) for name, value in environ.items()}
    assert [found.path for found in CLINE.find_sessions({"HOME": str(tmp_path), **given}, tmp_path)] == [path]


def test_what_stands_beside_a_task_is_not_of_an_export_in_its_folder(tmp_path: Path) -> None:
    """It has other messages, what was deleted from the task is no longer there, and nothing is recorded of it."""
    session = opened(CLINE, task(tmp_path, old(14), [deleted(8, 5), request(109, 900, conversationHistoryIndex=9)]))
    assert session.facts.requests and len(session.context_at()) == 10
    written = export(session, tmp_path / "api_conversation_history.copy.json", "cline").path
    again = opened(CLINE, written)
    assert texts(again) == texts(session) and not again.facts.requests and not again.facts.compactions
    assert [*CLINE.related_files(written)] == []


# -- Cline's SDK


def spoke(number: int, given: int, read: int) -> dict[str, Any]:
    return {
        "id": f"m{number}",
        "role": "assistant",
        "content": [{"type": "text", "text": "I edit."}],
        "ts": 1_783_376_868_000 + number,
        "modelInfo": {"id": "anthropic/claude-opus-4.8", "provider": "cline"},
        "metrics": {"inputTokens": given, "outputTokens": 9, "cacheReadTokens": read, "cacheWriteTokens": 0},
    }


def session_of(*messages: dict[str, Any]) -> dict[str, Any]:
    base = {"version": 1, "updated_at": "2026-07-15T05:42:04.818Z", "agent": "lead", "sessionId": "17"}
    return {**base, "messages": [*messages], "system_prompt": "You are Cline."}


def session_file(path: Path, *messages: dict[str, Any]) -> Path:
    return put(path, session_of(*messages))


SPOKEN = [
    {
        "id": "m0",
        "role": "user",
        "content": [{"type": "text", "text": "Fix a."}, {"type": "file", "path": "a", "content": "alpha " * 50}],
        "ts": 1_783_376_868_000,
    },
    spoke(1, 900, 0),
    {"id": "m2", "role": "user", "content": [{"type": "text", "text": "Well?"}], "ts": 1_783_376_869_000},
    spoke(3, 990, 890),
]


def test_a_session_of_the_sdk(tmp_path: Path) -> None:
    folder = tmp_path / "kept" / "17"
    folder.mkdir(parents=True)
    path = session_file(folder / "17.messages.json", *SPOKEN)
    put(folder / "17.json", {"version": 1, "cwd": "/src", "metadata": {"fork": {"forkedFromSessionId": "16"}}})
    assert detect_format(path).name == "cline-sdk"
    [info] = SDK.list_sessions(path)
    assert (info.title, info.cwd, info.note) == ("Fix a.", "/src", "forked from session 16")
    session = opened(SDK, path)
    assert (session.content.system(), session.turns) == ("You are Cline.", 2)
    assert SDK.read_title(path) == "Fix a."
    assert session.facts.requests == [Usage(900, 0, 0, 0, 9), Usage(100, 890, 0, 0, 9)]
    assert session.facts.model == "anthropic/claude-opus-4.8"
    assert [*session.facts.block_flags][:2] == [0, BlockFlag.INJECTED] and session.facts.size[1] == 300
    environ = {"CLINE_SESSION_DATA_DIR": str(tmp_path / "kept")}
    assert [found.path for found in SDK.find_sessions(environ, tmp_path)] == [path]


def test_compactions_of_the_sdk(tmp_path: Path) -> None:
    notice = "<SYSTEM_NOTICE>\nEarlier context was compacted.\n</SYSTEM_NOTICE>"
    first = {
        "role": "user",
        "content": [{"type": "text", "text": "Fix a."}, {"type": "text", "text": notice}],
        "metadata": {"kind": "compaction", "reason": "manual_compaction", "messagesRemoved": 22},
    }
    session = opened(SDK, session_file(tmp_path / "a.json", first, *SPOKEN[1:]))
    [found] = session.facts.compactions
    assert (found.message, found.trigger, found.pre_tokens, session.turns) == (0, "manual_compaction", None, 2)
    assert [*session.facts.block_flags][:2] == [0, BlockFlag.INJECTED]
    summary = {
        "role": "user",
        "content": [{"type": "text", "text": "Context summary:\n\nAll."}],
        "metadata": {"kind": "compaction_summary", "tokensBefore": 21_919},
    }
    session = opened(SDK, session_file(tmp_path / "b.json", *SPOKEN, summary, *SPOKEN[2:]))
    [found] = session.facts.compactions
    assert (found.message, found.trigger, found.pre_tokens) == (4, None, 21_919)
    assert texts(session)[0] == "Context summary:\n\nAll."
    assert len(session.context_at()) == 3


def test_the_newest_compaction_of_the_sdk_is_in_a_file_beside_it(tmp_path: Path) -> None:
    path = session_file(tmp_path / "a.messages.json", *SPOKEN)
    compaction = tmp_path / "a.compaction.json"
    summary = {
        "role": "user",
        "content": [{"type": "text", "text": "Context summary:\n\nAll."}],
        "metadata": {"kind": "compaction_summary", "tokensBefore": 900},
    }
    state = {"version": 1, "source_message_count": 3, "messages": [summary, *SPOKEN[1:3]]}
    for count, left in ((3, 4), (len(SPOKEN) + 1, len(SPOKEN)), (1, len(SPOKEN))):  # the second and third are wrong
        compaction.write_text(json.dumps({**state, "source_message_count": count}))
        session = opened(SDK, path)
        assert len(session.context_at()) == left and not session.facts.problems
    compaction.write_text(json.dumps(state))
    session = opened(SDK, path)
    [found] = session.facts.compactions
    assert (found.message, found.pre_tokens, len(session)) == (3, 900, len(SPOKEN) + 1)
    assert texts(session)[:2] == ["Context summary:\n\nAll.", texts(session, 3)[1]]
    compaction.write_text("[")
    assert not opened(SDK, path).facts.compactions
    scanner = SDK.make_scanner(path, SDK.list_sessions(path)[0])
    while not scanner.advance().end:
        pass
    compaction.write_text(json.dumps(state))
    session_file(path, *SPOKEN, {"role": "user", "content": [{"type": "text", "text": "Go on."}]})
    assert scanner.advance().end and len(scanner.session().context_at()) == 5


@pytest.mark.parametrize(
    ("source", "version", "shortens"),
    [("cli", "3.0.65", True), ("cli", "3.0.9", False), ("vscode", "4.0.0", False), ("cli", "nightly", False)],
)
def test_long_results_are_shown_as_the_command_line_sends_them(
    tmp_path: Path, source: str, version: str, shortens: bool
) -> None:
    number = "".join(f"{line}\n" for line in range(1, 40_001))[:48_113]
    picture = {"type": "image", "mediaType": "image/png", "data": "A" * 9_000}
    content = [{"query": "seq", "result": number, "exit": 0}, {"type": "text", "text": "\U0001f600" * 4_001}, picture]
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "run_commands", "input": {}}]}
    result = {"type": "tool_result", "tool_use_id": "c", "content": content}
    session = session_of(SPOKEN[0], call, {"role": "user", "content": [result]})
    path = put(tmp_path / "a.messages.json", {**session, "origin": {"source": source, "version": version}})
    opened_session = opened(SDK, path)
    [block] = opened_session.content.blocks(2)
    assert number[:9_000].replace("\n", "\\n") in opened_session.content.raw(2), "the file has it whole"
    if not shortens:
        assert block["content"] == content
        return
    command, faces, image = block["content"]
    assert command["result"] == f"{number[:3_983]}\n\n...[truncated 40147 chars]...\n\n{number[-3_983:]}"
    omitted = "\n\n...[truncated 32 chars]...\n\n"  # half a face is left at each side
    assert faces["text"] == f"{chr(0x1F600) * 1_992}\ufffd{omitted}\ufffd{chr(0x1F600) * 1_992}"
    assert (command["query"], command["exit"], image) == ("seq", 0, picture)


def test_recordings(shared: Path, tmp_path: Path) -> None:
    """Against counts that another program made of the same files."""
    corpus = shared / "corpus"
    for path in sorted((corpus / "roo").glob("*__api_conversation_history_*")):
        for each in (corpus / "roo").glob(f"{path.name.split('__api_')[0]}__*"):
            shutil.copy(each, tmp_path / f"{each.stem.rsplit('__', 1)[1].rsplit('_', 1)[0]}.json")
        names = ("api_conversation_history", "ui_messages")
        messages, shown = (json.loads((tmp_path / f"{name}.json").read_bytes()) for name in names)
        uses = [json.loads(each["text"]) for each in shown if each.get("say") == "api_req_started"]
        facts = scan(CLINE.make_scanner(tmp_path / "api_conversation_history.json", CLINE.list_sessions(path)[0])).facts
        assert [use.context for use in facts.requests] == [use["tokensIn"] for use in uses]
        assert [use.cache_read for use in facts.requests] == [use["cacheReads"] for use in uses]
        assert len(facts) == len(messages) and not facts.problems
        typed = 1 + sum(each.get("say") == "user_feedback" for each in shown)
        assert opened(CLINE, path).turns == typed
    path = corpus / "cline-sdk" / "cline__session.messages.json"
    messages = json.loads(path.read_bytes())["messages"]
    facts = opened(SDK, path).facts
    told = [each["metrics"] for each in messages if "metrics" in each]
    assert [use.context for use in facts.requests] == [each["inputTokens"] for each in told]
    used = [block for each in messages for block in each["content"] if block["type"] == "tool_use"]
    assert len(facts.calls) == len(used) == sum(row >= 0 for row in facts.call_result)


def test_writing_a_conversation(tmp_path: Path) -> None:
    session = opened(CLINE, task(tmp_path / "a", ASKED, SHOWN))
    done = apply(session, plan(session, "manual", cut=4), "What happened.")
    result = export(done, tmp_path / "out.json", "cline")
    written = json.loads((tmp_path / "out.json").read_bytes())
    assert all({"role", "content", "ts"} <= set(each) for each in written)
    assert [each["role"] for each in written if each.get("isSummary")] == ["assistant"]
    again = opened(CLINE, tmp_path / "out.json")
    assert texts(again)[-3:] == texts(done)[-3:] and "What happened." in "".join(texts(again))
    assert [each.kind for each in again.facts.compactions] == ["full"]
    assert any("api_conversation_history.json" in words for words in result.losses)


def test_thinking_is_kept_as_reasoning(tmp_path: Path) -> None:
    said = {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Yes."}]}
    export(from_messages([{"role": "user", "content": "Well?"}, said]), tmp_path / "out.json", "cline")
    again = opened(CLINE, tmp_path / "out.json")
    assert [block["type"] for block in again.to_messages()[1]["content"]] == ["thinking", "text"]


def test_a_task_with_files_beside_it_is_written_anew(tmp_path: Path) -> None:
    session = opened(CLINE, task(tmp_path / "a", CONDENSED, SHOWN))
    result = export(session, tmp_path / "out.json", "cline")
    again = opened(CLINE, tmp_path / "out.json")
    assert texts(again) == texts(session) and len(again) == 4 and result.losses
    alone = opened(CLINE, task(tmp_path / "b", CONDENSED))
    export(alone, tmp_path / "copy.json", "cline")
    assert len(json.loads((tmp_path / "copy.json").read_bytes())) == len(CONDENSED)
