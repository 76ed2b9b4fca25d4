"""Codex rollouts: what the model saw, what was used, what compactions and rollbacks left."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import context_tui as ct
from context_tui.cli.inspect import build_report
from context_tui.export.files import export
from context_tui.formats.base import scan
from context_tui.formats.codex import CodexFormat
from context_tui.formats.codex.rollout import is_scaffolding
from context_tui.formats.kit.blocks import MISSING_SUMMARY
from context_tui.formats.kit.line_scanner import list_only_session
from context_tui.formats.opening import choose_session, detect_format, make_scanner
from context_tui.lab.replay.backtest import run_backtests
from context_tui.lab.replay.recording import Recording as LabRecording
from context_tui.policies.agent_settings import build_agent_settings as configured
from context_tui.policies.registry import POLICIES
from context_tui.session.facts import Usage
from context_tui.session.jsontext import compact_json
from context_tui.session.session import Session
from context_tui.session.values import Kind, MessageFlag, Role
from tests.formats.growth import check_growth
from tests.formats.histories import columns
from tests.formats.rollouts import (
    AGENTS,
    OWN,
    PARENT,
    RULES,
    SUMMARY,
    SURROUNDINGS,
    Rollout,
    answered,
    asked,
    bare,
    begun,
    said,
    sizes,
    thought,
    whole,
)

FORM = CodexFormat()


def read(tmp_path: Path, rollout: Rollout | list[Any], name: str = "rollout.jsonl") -> Session:
    path = tmp_path / name
    records = rollout.records if isinstance(rollout, Rollout) else rollout
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return ct.open_session(path)


def texts(session: Session, at: int | None = None) -> list[str]:
    return [text_of(message) for message in session.to_messages(at)]


def text_of(message: dict[str, Any]) -> str:
    return " ".join(str(b.get("text") or b.get("thinking") or b.get("name") or b["type"]) for b in message["content"])


def requests(session: Session) -> list[tuple[int, int, int, int]]:
    facts = session.facts
    rows = zip(facts.request_message, facts.requests, strict=True)
    return [(message, usage.fresh, usage.cache_read, usage.output) for message, usage in rows]


def typed(session: Session) -> list[int]:
    return [m for m in range(len(session)) if session.facts.flags[m] & MessageFlag.TURN_START]


def test_items_of_a_reply_are_one_message_and_their_results_another(tmp_path: Path) -> None:
    rollout = begun()
    rollout.typed("Look.")
    rollout.items(thought("**Plan**"), said("assistant", "I look."), asked("a"), asked("b"))
    rollout.items(answered("a"), answered("b"))
    rollout.count(500)
    rollout.items(said("assistant", "Done."))
    session = read(tmp_path, rollout)
    assert session.info.format == "codex" and session.content.system() == "You are Codex."
    assert [message["role"] for message in session.to_messages()] == ["user"] * 3 + ["assistant", "user", "assistant"]
    assert [block["type"] for block in session.content.blocks(3)] == ["thinking", "text", "tool_use", "tool_use"]
    assert [block["tool_use_id"] for block in session.content.blocks(4)] == ["a", "b"]
    assert typed(session) == [2]
    assert (session.facts.model, session.facts.window) == ("gpt-5.5", 258_400)


@pytest.mark.parametrize(
    ("told", "whole"),
    [(258_400, 272_000), (121_600, 128_000), (996_147, 1_048_576), (272_000, None), (400_000, None)],
)
def test_the_limit_is_a_share_of_the_whole_window(tmp_path: Path, told: int, whole: int | None) -> None:
    """Codex tells 95 % of a model's window, and compacts at 90 % of the whole; before 0.5x it told the whole."""
    rollout = begun()
    rollout.line("event_msg", {"type": "task_started", "model_context_window": told})
    rollout.typed("Look.")
    rollout.items(said("assistant", "Done."))
    session = read(tmp_path, rollout)
    assert (session.window.tokens, session.window.source, session.window.full_tokens) == (told, "file", whole)
    of = whole or told
    limit = of * 9 // 10
    assert session.window.model_tokens == of
    trigger = ct.plan(session, "codex").trigger
    assert trigger.threshold == limit
    assert trigger.reason.endswith(f" {limit:,} (90% of {of:,}{', the whole window' if whole else ''})")
    assert ct.plan(session, "gemini-compress").trigger.threshold == told // 2
    assert ct.plan(session, "codex", window=200_000).trigger.threshold == 180_000
    native = configured("codex", POLICIES["codex"].Params(), session.window)
    assert native is not None and native.settings[0].value == str(limit)


def test_replies_that_follow_each_other_are_told_apart_by_their_counts(tmp_path: Path) -> None:
    rollout = begun()
    rollout.typed("Look.")
    rollout.items(said("assistant", "One."))
    rollout.count(500)
    rollout.items(said("assistant", "Two."))
    rollout.count(600)
    session = read(tmp_path, rollout)
    assert texts(session)[-2:] == ["One.", "Two."] and requests(session) == [(3, 500, 0, 10), (4, 600, 0, 10)]


@pytest.mark.parametrize("ahead", [True, False])
def test_a_count_is_of_the_reply_before_or_behind_it(tmp_path: Path, ahead: bool) -> None:
    """Up to 0.5x it is written before the items of its reply, later behind their results."""
    rollout = begun()
    replies = [[asked("a"), answered("a")], [thought(), asked("b"), answered("b")], [said("assistant", "Done.")]]
    for turn in range(2):
        rollout.typed(f"Turn {turn}.")
        for number, items in enumerate(replies):
            fresh = 1_000 * turn + 100 * number + 100
            if ahead:
                rollout.count(fresh)
            rollout.items(*items)
            if not ahead:
                rollout.count(fresh)
            rollout.count(fresh, again=True)
    session = read(tmp_path, rollout)
    assert [(m, fresh) for m, fresh, _, _ in requests(session)] == [
        *((3, 100), (5, 200), (7, 300)),
        *((9, 1_100), (11, 1_200), (13, 1_300)),
    ]


def test_counts_are_taken_once(tmp_path: Path) -> None:
    rollout = begun()
    rollout.line("event_msg", {"type": "token_count", "info": None, "rate_limits": {}})
    rollout.typed("Look.")
    rollout.items(said("assistant", "One."))
    rollout.count(400, 100, 20)
    rollout.count(400, 100, 20, again=True)
    rollout.typed("More.")
    rollout.items(said("assistant", "Two."))
    rollout.counted({"total_tokens": 3}, sizes(30, 5, 6))  # totals begin anew where a session is resumed
    session = read(tmp_path, rollout)
    assert requests(session) == [(3, 400, 100, 20), (5, 30, 5, 6)]


def test_a_count_that_is_told_again_ends_no_reply(tmp_path: Path) -> None:
    rollout = begun()
    rollout.typed("Look.")
    rollout.items(said("assistant", "One."))
    rollout.count(400)
    rollout.items(thought("hm"))
    rollout.count(400, again=True)
    rollout.items(said("assistant", "Two."))
    rollout.count(500)
    session = read(tmp_path, rollout)
    assert texts(session)[3:] == ["One.", "hm Two."] and requests(session) == [(3, 400, 0, 10), (4, 500, 0, 10)]


def test_a_count_without_a_reply_is_of_none(tmp_path: Path) -> None:
    """Such as that of a request for a summary."""
    rollout = begun()
    rollout.typed("Look.")
    rollout.items(said("assistant", "One."))
    rollout.count(400)
    rollout.count(410)
    rollout.items(said("assistant", "Two."))
    rollout.count(420)
    assert requests(read(tmp_path, rollout)) == [(3, 400, 0, 10), (4, 420, 0, 10)]


def test_a_count_that_is_none_is_a_problem(tmp_path: Path) -> None:
    rollout = begun()
    rollout.typed("Look.")
    rollout.items(said("assistant", "One."))
    rollout.counted({"total_tokens": 1}, {**sizes(1, 0, 1), "input_tokens": -4})
    session = read(tmp_path, rollout)
    assert not session.facts.requests and "input_tokens" in session.facts.problems[0].what


def test_what_codex_says_as_a_user_was_typed_by_nobody(tmp_path: Path) -> None:
    rollout = begun()
    rollout.typed("<b>Bold</b>")
    rollout.items(said("user", "<turn_aborted>\nStopped.\n</turn_aborted>"), said("developer", "[hook] x"))
    session = read(tmp_path, rollout)
    assert typed(session) == [2] and build_report(session)["by_category"]["injected"] > 0
    assert all(
        map(
            is_scaffolding,
            [AGENTS, SURROUNDINGS, RULES, "<user_instructions>x</user_instructions>", "<hook a='b'>\n</hook>"],
        )
    )
    assert not any(map(is_scaffolding, ["", "<div>x</div>", "# AGENTS", "<a_b>x</a_b> and more", "<my_tag>"]))


def test_calls_of_every_kind(tmp_path: Path) -> None:
    rollout = begun()
    rollout.typed("Look.")
    search = {"type": "tool_search_call", "call_id": "s", "arguments": {"query": "q"}, "execution": "client"}
    hosted = {"type": "web_search_call", "action": {"type": "search", "query": "q"}}
    patch = {"type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin", "call_id": "p"}
    local = {"type": "local_shell_call", "call_id": "l", "action": {"type": "exec", "command": ["ls"]}}
    rollout.items(hosted, search, patch, local, asked("n", "ask") | {"namespace": "mcp__wiki"}, asked("g", "g", "{"))
    rollout.items({"type": "tool_search_output", "call_id": "s", "tools": [{"name": "t"}]})
    rollout.items({"type": "custom_tool_call_output", "call_id": "p", "output": "done"})
    rollout.items(answered("l", {"content": "no", "success": False}))
    picture = {"type": "input_image", "image_url": "data:image/png;base64,eA=="}
    rollout.items(answered("n", [{"type": "input_text", "text": "x"}, picture]))
    session = read(tmp_path, rollout)
    first, *calls = session.content.blocks(3)
    assert first == hosted and session.facts.kind[next(iter(session.facts.blocks_of(3)))] == Kind.OTHER
    assert [(call["name"], call["input"]) for call in calls] == [
        ("tool_search", {"query": "q"}),
        ("apply_patch", {"_raw": "*** Begin"}),
        ("local_shell", {"type": "exec", "command": ["ls"]}),
        ("mcp__wiki__ask", {"cmd": "ls"}),
        ("g", {"_raw": "{"}),
    ]
    bodies = [(result["content"], result.get("is_error")) for result in session.content.blocks(4)]
    assert bodies[:3] == [('[{"name":"t"}]', None), ("done", None), ("no", True)]
    assert [part["type"] for part in bodies[3][0]] == ["text", "image"]
    assert all(session.facts.call_result[session.facts.find_call_row(call)] >= 0 for call in "spln")


def test_hidden_reasoning_has_no_size(tmp_path: Path) -> None:
    rollout = begun()
    rollout.typed("Look.")
    rollout.items(thought(encrypted="gAAAA" * 4_000), said("assistant", "Done."))
    session = read(tmp_path, rollout)
    row = next(iter(session.facts.blocks_of(3)))
    assert session.facts.size[row] == 0 and session.content.blocks(3)[0] == {"type": "thinking", "thinking": ""}


def compacted(*history: dict[str, Any], **more: Any) -> Rollout:
    rollout = begun()
    for number in range(2):
        rollout.typed("Continue." if number else "Look.")
        rollout.items(asked(f"c{number}"), answered(f"c{number}"))
        rollout.count(500)
    rollout.compacted(*history, **more)
    rollout.items(said("assistant", "Going on."))
    rollout.count(200)
    return rollout


def test_a_compaction_keeps_messages_that_are_here_already(tmp_path: Path) -> None:
    """The summary comes first among the new messages; the context is in the order of the history."""
    rules = {"content": [{"text": RULES, "type": "input_text"}], "role": "developer", "type": "message"}
    history = [
        said("user", "Look."),
        said("user", "Continue."),
        rules,
        said("user", "cut to size"),
        said("user", SUMMARY),
    ]
    session = read(tmp_path, compacted(*history))
    [done] = session.facts.compactions
    assert (done.kind, done.message, done.pre_tokens) == ("full", 8, None)
    assert texts(session) == ["Look.", "Continue.", RULES, "cut to size", SUMMARY, "Going on."]
    assert [*session.context_at().order] == [2, 5, 0, 9, 8, 10] and typed(session) == [2, 5, 9]
    assert session.facts.flags[8] & MessageFlag.SUMMARY
    assert texts(session, 8)[-2:] == ["shell", "tool_result"]
    assert [each["message"] for each in build_report(session)["epochs"]] == [0, 8]
    assert [usage.fresh for usage in session.facts.requests] == [500, 500, 200]  # not the size made up after it
    assert build_report(session)["compactions"][0]["tokens_after"] == 200


def test_of_messages_that_are_the_same_the_newest_are_kept(tmp_path: Path) -> None:
    rollout = begun()
    for _ in range(3):
        rollout.typed("Continue.")
        rollout.items(said("assistant", "Yes."))
    rollout.compacted(said("user", "Continue."), said("user", "Continue."), said("user", SUMMARY))
    session = read(tmp_path, rollout)
    assert [*session.context_at().order] == [4, 6, 8]


def test_an_encrypted_summary_is_a_block_of_unknown_size(tmp_path: Path) -> None:
    session = read(tmp_path, compacted(said("user", "Look."), {"type": "compaction", "encrypted_content": "gAAAA"}))
    assert texts(session) == ["Look.", "compaction", "Going on."]
    assert build_report(session)["by_category"]["summary"] == 0 and session.facts.flags[8] & MessageFlag.SUMMARY


HIDDEN = {"type": "compaction", "encrypted_content": "gAAAA"}


@pytest.mark.parametrize(
    ("history", "total", "known"),
    [
        ((said("user", "Look."), HIDDEN), 9_162, True),
        ((said("user", "Look."),), 9_162, True),  # the summary was left out of the file
        ((said("user", "Look."), HIDDEN), 20, False),  # less than the rest of the history
        ((said("user", "Look."), HIDDEN), "9162", False),
        ((said("user", "Look."), said("user", SUMMARY)), 9_162, False),  # it can be read
    ],
)
def test_codex_estimates_a_summary_that_cannot_be_read(
    tmp_path: Path, history: tuple[dict[str, Any], ...], total: Any, known: bool
) -> None:
    """In place of usage it records the size of the new context, which its instructions and the history are part of."""
    rollout = compacted(*history)
    counts = [each["payload"] for each in rollout.records if each["payload"].get("type") == "token_count"]
    counts[2]["info"]["last_token_usage"]["total_tokens"] = total
    session = read(tmp_path, rollout)
    rest = len("You are Codex.") // 4 + len(compact_json(said("user", "Look."))) // 4
    (compaction,) = session.facts.compactions
    assert compaction.summary_tokens == (9_162 - rest if known else None)
    if known:
        assert LabRecording(session).summary_tokens == 9_162 - rest


def test_a_summary_that_was_left_out_of_the_file_is_one_too(tmp_path: Path) -> None:
    session = read(tmp_path, compacted(said("user", "Look.")))
    assert texts(session) == ["Look.", "compaction", "Going on."] and session.content.blocks(8) == [MISSING_SUMMARY]


def test_a_second_compaction_knows_what_the_first_put_in(tmp_path: Path) -> None:
    rollout = compacted(said("user", "Look."), said("user", "cut to size"), said("user", SUMMARY))
    rollout.compacted(said("user", "Look."), said("user", "cut to size"), said("user", f"{SUMMARY} Again."))
    session = read(tmp_path, rollout)
    assert texts(session) == ["Look.", "cut to size", f"{SUMMARY} Again."]
    assert [*session.context_at().order] == [2, 9, 11] and len(session) == 12


def test_calls_in_a_new_history_are_messages_of_their_own(tmp_path: Path) -> None:
    items = [said("user", SUMMARY), said("assistant", "x"), asked("n"), asked("m"), answered("n"), answered("m")]
    session = read(tmp_path, compacted(*items))
    assert [len(message["content"]) for message in session.to_messages()] == [1, 3, 2, 1]


def test_a_compaction_may_refer_to_earlier_items(tmp_path: Path) -> None:
    """Newer rollouts name items by their ids in place of repeating them, also those of an earlier compaction."""

    def own(name: str, item: dict[str, Any]) -> dict[str, Any]:
        return {**item, "id": name}

    def entries(*told: str | dict[str, Any]) -> dict[str, Any]:
        inline = ({"type": "inline", "item": each} for each in told if isinstance(each, dict))
        listed = [{"type": "reference", "item_id": each} if isinstance(each, str) else next(inline) for each in told]
        return {"message": "", "replacement_history_entries": listed}

    rollout = begun()
    rollout.items(own("u1", said("user", "Look.")), own("a1", said("assistant", "I look.")), own("c", asked("c")))
    rollout.items(own("r", answered("c")), own("a2", said("assistant", "Seen.")), own("u2", said("user", "Go on.")))
    cut, summary = own("u3", said("user", "cut to size")), own("s1", said("user", SUMMARY))
    rollout.line("compacted", entries("u1", cut, "a2", summary, "gone"))
    session = read(tmp_path, rollout)
    assert texts(session) == ["Look.", "cut to size", "Seen.", SUMMARY]
    assert len(session) == 9 and session.facts.flags[7] & MessageFlag.SUMMARY
    assert [problem.what for problem in session.facts.problems] == [
        "a compaction that keeps an earlier item which is not in this file"
    ]
    rollout.items(said("assistant", "On."))
    rollout.line("compacted", entries("u1", "u3", "u2", own("s2", said("user", f"{SUMMARY} Again.")), "s1"))
    session = read(tmp_path, rollout)
    assert texts(session) == ["Look.", "cut to size", "Go on.", f"{SUMMARY} Again.", SUMMARY]
    rollout.line("compacted", {"message": "", "guardian_history": []})
    assert texts(read(tmp_path, rollout)) == texts(session)
    out = tmp_path / "out.jsonl"
    export(read(tmp_path, rollout), out, "openai-responses")
    assert len(ct.open_session(out)) == 5


def test_new_messages_of_a_compaction_are_taken_back_from_the_last(tmp_path: Path) -> None:
    rollout = compacted(said("user", "one"), said("user", "two"), said("user", SUMMARY))
    rollout.line("event_msg", {"type": "thread_rolled_back", "num_turns": 1})
    rollout.typed("three")
    assert texts(read(tmp_path, rollout)) == ["one", SUMMARY, "three"]


def test_a_compaction_that_only_tells_its_summary(tmp_path: Path) -> None:
    """Up to 0.5x: what the session began with, what was typed, and the summary."""
    rollout = compacted()
    at = next(n for n, record in enumerate(rollout.records) if record["type"] == "compacted")
    rollout.records[at]["payload"] = {"message": "The summary."}
    session = read(tmp_path, rollout)
    assert texts(session) == [RULES, f"{AGENTS} {SURROUNDINGS}", "Look.", "Continue.", "The summary.", "Going on."]
    assert session.facts.flags[8] & MessageFlag.SUMMARY


def test_it_keeps_the_newest_20_000_tokens_of_what_was_typed(tmp_path: Path) -> None:
    rollout = begun()
    for size in (3, 50_000, 30_001):
        rollout.typed("x" * size)
    rollout.line("compacted", {"message": "The summary."})
    assert [len(text) for text in texts(read(tmp_path, rollout))[2:]] == [30_001, 12]


def test_a_rollback_leaves_a_branch(tmp_path: Path) -> None:
    session = read(tmp_path, whole())
    assert [(branch.messages, branch.requests) for branch in session.facts.branches] == [(2, 1)]
    assert texts(session)[-3:] == ["tool_result", "Go on.", "I do."]
    branch = ct.open_session(f"{tmp_path / 'rollout.jsonl'}#branch-1")
    assert texts(branch)[-2:] == ["A mistake.", "Oh."]


@pytest.mark.parametrize(("turns", "left"), [(1, ["0", "yes", "1", "yes"]), (2, ["0", "yes"]), (9, []), (0, None)])
def test_a_rollback_leaves_so_many_turns(tmp_path: Path, turns: int, left: list[str] | None) -> None:
    rollout = begun()
    for number in range(3):
        rollout.typed(str(number))
        rollout.items(said("assistant", "yes"))
    rollout.line("event_msg", {"type": "thread_rolled_back", "num_turns": turns})
    rollout.typed("more")
    kept = ["0", "yes", "1", "yes", "2", "yes"] if left is None else left
    assert texts(read(tmp_path, rollout))[2:] == [*kept, "more"]


def test_a_fork_repeats_the_messages_of_its_parent_but_used_nothing_for_them(tmp_path: Path) -> None:
    fork = Rollout()
    fork.meta(forked_from_id=PARENT, second=100)
    fork.meta(PARENT, second=100, base_instructions={"text": "Others."})
    fork.items(said("user", "Of the parent."), said("assistant", "Yes."), second=101)
    fork.counted({"total_tokens": 500}, sizes(490, 0, 10), second=101)
    fork.items(said("user", "Of its own."), said("assistant", "No."), second=130)
    fork.counted({"total_tokens": 1_100}, sizes(590, 0, 10), second=130)
    session = read(tmp_path, fork)
    assert texts(session) == ["Of the parent.", "Yes.", "Of its own.", "No."]
    assert requests(session) == [(3, 590, 0, 10)] and session.content.system() == "You are Codex."
    [info] = FORM.list_sessions(tmp_path / "rollout.jsonl")
    assert PARENT in info.note and (info.title, info.cwd) == ("Of the parent.", "/src")


def continued(tmp_path: Path, rollout_id: str, base_id: str, base_bytes: Any, *prompts: str, thread: str = OWN) -> Path:
    """A rollout that continues the beginning of another."""
    rollout = Rollout()
    rollout.meta(thread, history_base={"thread_id": base_id, "end_ordinal_exclusive": 1, "end_byte_offset": base_bytes})
    for prompt in prompts:
        rollout.typed(prompt)
        rollout.items(said("assistant", f"{prompt} Yes."))
        rollout.count(10 * len(prompt))
    name = thread if rollout_id == thread else f"{thread}_{rollout_id}"
    return rollout.write(tmp_path / f"rollout-2026-06-30T09-00-00-{name}.jsonl")


def line_start(data: bytes, text: bytes) -> int:
    return data.rindex(b"\n", 0, data.index(text)) + 1


REWOUND, FORKED = PARENT.replace("0001", "0002"), PARENT.replace("0001", "0003")


def test_a_thread_that_is_taken_back_or_forked_begins_in_another_file(tmp_path: Path) -> None:
    first = begun()
    for prompt in ("One.", "Two.", "Three."):
        first.typed(prompt)
        first.items(thought(), asked(prompt), answered(prompt, f"{prompt} {prompt}"), said("assistant", "Done."))
        first.count(100)
    path = first.write(tmp_path / f"rollout-2026-06-30T08-29-05-{OWN}.jsonl")
    data = path.read_bytes()
    second = continued(tmp_path, REWOUND, OWN, line_start(data, b'"Two."'), "Again.", "More.")
    cut = line_start(second.read_bytes(), b'"More."')
    third = continued(tmp_path, FORKED, REWOUND, cut, "Else.", thread=FORKED)
    session = ct.open_session(third)
    kept = [RULES, f"{AGENTS} {SURROUNDINGS}", "One.", "thinking shell", "tool_result", "Done."]
    assert texts(session) == [*kept, "Again.", "Again. Yes.", "Else.", "Else. Yes."]
    assert [row[1] for row in requests(session)] == [100, 60, 50] and session.content.system() == "You are Codex."
    assert second.name in session.info.note and not session.facts.problems and session.content.is_unchanged()
    [record] = session.facts.iterate_records(8)
    assert '"Else."' in session.content.raw(record) and '"session_meta"' in session.content.raw(0)
    export(session, tmp_path / "out.jsonl", "codex")
    assert texts(ct.open_session(tmp_path / "out.jsonl")) == texts(session)
    *records, last = map(json.loads, third.read_text().splitlines())
    check_growth(third, records[0], *records[1:], last)
    path.write_bytes(data[:400] + data[400:].replace(b"One.", b"One!"))
    assert not session.content.is_unchanged()


@pytest.mark.parametrize(
    ("base", "size", "reason"),
    [
        (PARENT, 10, "not in this file"),
        ("../x", 10, "not in this file"),
        (REWOUND, 10, "continues itself"),
        *((OWN, size, "ends at byte") for size in (-1, 0, 3, 1 << 40, 1 << 80, "9", None)),
        (FORKED, 10, "ends at byte"),
    ],
)
def test_a_beginning_that_is_not_here_or_does_not_fit_is_left_out(
    tmp_path: Path, base: str, size: Any, reason: str
) -> None:
    begun().write(tmp_path / f"rollout-2026-06-30T08-29-05-{OWN}.jsonl")
    os.mkfifo(tmp_path / f"rollout-2026-06-30T08-29-05-{FORKED}.jsonl")
    session = ct.open_session(continued(tmp_path, REWOUND, base, size, "Again."))
    assert texts(session) == ["Again.", "Again. Yes."] and reason in session.info.note


def test_a_beginning_with_broken_lines_is_read_around_them(tmp_path: Path) -> None:
    path = tmp_path / f"rollout-2026-06-30T08-29-05-{OWN}.jsonl"
    begun().write(path)
    path.write_bytes(path.read_bytes() + b'{"broken"\n[1]\n')
    second = continued(tmp_path, REWOUND, OWN, path.stat().st_size, "Again.")
    session = ct.open_session(second)
    assert texts(session)[2:] == ["Again.", "Again. Yes."]
    assert [each.where for each in session.facts.problems] == [f"{path.name}, line 5", f"{path.name}, line 6"]
    assert session.content.raw(session.facts.problems[1].raw) == "[1]"
    circle = continued(tmp_path, OWN, REWOUND, second.stat().st_size)
    circle.rename(path)
    session = ct.open_session(second)
    assert texts(session) == ["Again.", "Again. Yes."]


def test_the_same_session_told_again_is_no_fork(tmp_path: Path) -> None:
    rollout = begun()
    rollout.meta()
    rollout.typed("Look.")
    rollout.items(said("assistant", "Yes."))
    rollout.count(10)
    session = read(tmp_path, rollout)
    assert session.content.system() == "You are Codex." and requests(session) and not session.info.note


def test_the_form_of_2025(tmp_path: Path) -> None:
    session = read(tmp_path, bare())
    assert texts(session) == ["Check this.", "**Checking** shell", "tool_result", "Fine.", "Thanks."]
    assert typed(session) == [0, 4] and not session.facts.requests and not session.facts.problems
    assert session.info.title == "Check this."


def test_records_that_are_not_known_are_problems(tmp_path: Path) -> None:
    rollout = begun()
    rollout.line("something_new", {})
    rollout.items({"type": "hologram"}, {"type": "message", "role": "ghost", "content": []})
    rollout.line("response_item", None)
    rollout.line("world_state", {})
    rollout.records.append({"no": "record"})
    session = read(tmp_path, rollout)
    assert [problem.what for problem in session.facts.problems] == [
        "unknown type of record 'something_new'",
        "unknown type of item 'hologram'",
        "not a message: unknown role 'ghost'",
        "not an item: no type and no role",
        "not a record of a rollout",
    ]


def test_a_rollout_that_grows_is_read_the_same(tmp_path: Path) -> None:
    lines = [json.dumps(record) + "\n" for record in [*whole().records, *begun().records[1:]]]
    path = tmp_path / "grows.jsonl"
    path.write_text(lines[0])
    [info] = list_only_session(path, "codex")
    scanner = FORM.make_scanner(path, info)
    scan(scanner)
    for number, line in enumerate(lines[1:], 2):
        with path.open("a") as file:
            file.write(line)
        while not scanner.advance().end:
            pass
        grown, afresh = scanner.session(), scan(FORM.make_scanner(path, info))
        assert grown.drops == afresh.drops
        assert columns(grown.facts) == columns(afresh.facts), number
        assert [*grown.context_at().order] == [*afresh.context_at().order]
        assert grown.to_messages() == afresh.to_messages()


@pytest.mark.parametrize("long", [False, True])
def test_sniffing(tmp_path: Path, long: bool) -> None:
    rollout = Rollout()
    rollout.meta(base_instructions={"text": "x" * (200_000 if long else 9)})
    rollout.typed("Look.")
    assert detect_format(rollout.write(tmp_path / "any.name")).name == "codex"


def test_where_rollouts_are_kept(tmp_path: Path) -> None:
    day = tmp_path / "sessions" / "2026" / "06" / "30"
    old = tmp_path / "archived_sessions"
    for folder, name in ((day, f"rollout-2026-06-30T08-29-05-{OWN}.jsonl"), (day, "notes.jsonl"), (old, "x.jsonl")):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    (old / f"rollout-2026-01-01T00-00-00-{PARENT}.jsonl").touch()
    found = FORM.find_sessions({"CODEX_HOME": str(tmp_path)}, tmp_path)
    assert sorted(each.path.name[:18] for each in found) == ["rollout-2026-01-01", "rollout-2026-06-30"]
    assert [*FORM.find_sessions({"HOME": os.fspath(tmp_path / "none")}, tmp_path)] == []


def test_a_sub_agent_is_found_by_what_its_call_was_answered(tmp_path: Path) -> None:
    agent = "019f17aa-0000-7000-8000-00000000000a"
    day, next_day = tmp_path / "2026" / "06" / "30", tmp_path / "2026" / "07" / "01"
    rollout = begun()
    rollout.typed("Look.")
    rollout.items(asked("a", "spawn_agent"), asked("b", "spawn_agent"), asked("c"))
    gone = OWN.replace("9", "8")
    rollout.items(answered("a", json.dumps({"agent_id": agent})), answered("b", json.dumps({"agent_id": gone})))
    for folder in (day, next_day):
        folder.mkdir(parents=True)
    session = ct.open_session(rollout.write(day / f"rollout-2026-06-30T23-00-00-{OWN}.jsonl"))
    child = Rollout()
    child.meta(agent, source={"subagent": {"thread_spawn": {"parent_thread_id": OWN, "depth": 1}}})
    child.typed("Help.")
    path = child.write(next_day / f"rollout-2026-07-01T00-00-00-{agent}.jsonl")
    first, second, third = list(session.facts.blocks_of(3))
    found = FORM.subagent_of(session, first)
    assert found and (found.path, found.title, found.parent) == (str(path), "Help.", session.info.path)
    assert FORM.list_sessions(path)[0].parent == session.info.path and FORM.subagent_of(session, third) is None
    (tmp_path / "other").mkdir()
    elsewhere = child.write(tmp_path / "other" / f"rollout-2026-07-01T00-00-00-{agent}.jsonl")
    assert FORM.list_sessions(elsewhere)[0].parent == OWN, "its file is not here"
    with pytest.raises(ct.UnreadableSession, match="not here"):
        FORM.subagent_of(session, second)


def test_roles_and_usage_are_plain(tmp_path: Path) -> None:
    facts = read(tmp_path, whole()).facts
    assert facts.requests[0] == Usage(900, 100, 0, 0, 10) and facts.input_includes_cache
    assert {*facts.role} == {Role.USER, Role.ASSISTANT}


def test_what_codex_takes_hidden_reasoning_to_be(tmp_path: Path) -> None:
    """Of what stands encrypted (four base64 digits for three bytes) 650 bytes are no reasoning; four are a token."""
    rollout = begun()
    rollout.typed("Think.")
    rollout.items(thought(encrypted="x" * 2_000), asked("a"), answered("a"), thought(encrypted="x" * 1_004))
    rollout.items(said("assistant", "Thought."))
    rollout.count(500, output=90)
    rollout.typed("Again.")
    rollout.items(thought("**Plan**", encrypted="x" * 800), said("assistant", "Done."))
    rollout.count(600, output=90)
    rollout.count(600, output=90, again=True)
    session = read(tmp_path, rollout)
    first, second, third = (m for m, role in enumerate(session.facts.role) if role == Role.ASSISTANT)
    # The third is an envelope with nothing in it, as in files that were published: what was recorded stands for it.
    assert session.facts.reasoning == {first: 213, second: 26, third: 58}


def test_codex_counts_the_reasoning_of_ended_turns_once_more(tmp_path: Path) -> None:
    def firing(tokens: int) -> bool:
        rollout = begun()
        rollout.line("event_msg", {"type": "task_started", "model_context_window": 258_400})
        rollout.typed("Think.")
        rollout.items(thought(encrypted="x" * ((tokens * 4 + 650) * 4 // 3)), said("assistant", "Thought."))
        rollout.count(244_000, output=90)
        rollout.typed("On.")
        rollout.items(thought(encrypted="x" * 9_999), said("assistant", "Done."))
        rollout.count(244_500, output=90)
        return ct.plan(read(tmp_path, rollout), "codex").trigger.fires

    # 244,500 and a reply of 90 are 210 under nine tenths of 272,000; the reasoning of the newest turn does not count.
    assert [firing(tokens) for tokens in (209, 210)] == [False, True]


def test_reasoning_is_counted_again_from_the_version_that_does(tmp_path: Path) -> None:
    def reasoning(version: str | None = None) -> dict[int, int]:
        rollout = Rollout()
        rollout.meta(cli_version=version)
        rollout.typed("Think.")
        rollout.items(thought(encrypted="x" * 2_000), said("assistant", "Thought."))
        rollout.count(500, output=90)
        rollout.typed("Again.")
        rollout.items(thought(), said("assistant", "Thought."))
        rollout.count(600, output=90)
        return read(tmp_path, rollout).facts.reasoning

    assert reasoning("0.63.0") == {}
    assert reasoning("0.64.0") == reasoning() == {1: 213, 3: 58}


@pytest.mark.parametrize("ahead", [False, True])
def test_counts_of_a_review_are_of_its_own_conversation(tmp_path: Path, ahead: bool) -> None:
    """The reply that a review leaves in the conversation is no call, and no later count moves to another reply."""
    rollout = begun()

    def answer(text: str, size: int) -> None:
        if ahead:
            rollout.count(size)
        rollout.items(said("assistant", text))
        if not ahead:
            rollout.count(size)

    rollout.typed("Look.")
    answer("I look.", 50_000)
    rollout.line("event_msg", {"type": "entered_review_mode", "target": {"type": "uncommittedChanges"}})
    rollout.count(9_000)
    rollout.count(11_000)
    rollout.items(said("user", "<user_action>\n  <context>User initiated a review task.</context>\n</user_action>"))
    rollout.line("event_msg", {"type": "exited_review_mode", "review_output": None})
    rollout.items(said("assistant", "The review found nothing."))
    rollout.typed("On.")
    answer("Done.", 51_000)
    answer("Really.", 52_000)
    session = read(tmp_path, rollout)
    replies = {text_of(session.message(message)): size for message, size, *_ in requests(session)}
    assert replies == {"I look.": 50_000, "Done.": 51_000, "Really.": 52_000}
    assert list(ct.replay.replay(session, "none").sizes) == [50_000, 51_000, 52_000]


@pytest.mark.parametrize("ended_by", ["task", "prompt", None])
def test_a_review_that_was_killed_ends_with_the_next_task_or_prompt(tmp_path: Path, ended_by: str | None) -> None:
    """The review's own task begins before its first count; its prompt is only an event. Neither ends it."""
    rollout = begun()
    task = {"type": "task_started", "model_context_window": 258_400}
    rollout.typed("Look.")
    rollout.items(said("assistant", "I look."))
    rollout.count(50_000)
    rollout.line("event_msg", {"type": "entered_review_mode", "target": {"type": "uncommittedChanges"}})
    rollout.line("event_msg", task)
    rollout.line("event_msg", {"type": "user_message", "message": "Review the changes."})
    rollout.count(9_000)
    rollout.count(11_000)
    if ended_by == "task":
        rollout.line("event_msg", task)
    rollout.items(said("user", SURROUNDINGS))
    if ended_by == "prompt":
        rollout.typed("On.")
    rollout.items(said("assistant", "Done."))
    rollout.count(51_000)
    sizes = [size for _, size, *_ in requests(read(tmp_path, rollout))]
    assert sizes == [50_000, 51_000][: 2 if ended_by else 1]


@pytest.mark.parametrize(
    ("form", "trigger"), [("task", "manual"), ("notice", "manual"), ("before the prompt", None), ("in a turn", None)]
)
def test_compactions_that_were_typed(tmp_path: Path, form: str, trigger: str | None) -> None:
    """``/compact`` is a task without a message, or (up to 0.4x) ends with a notice; others are automatic."""
    rollout = begun()
    rollout.line("event_msg", {"type": "task_started", "model_context_window": 258_400})
    rollout.typed("Look.")
    rollout.items(said("assistant", "I look."))
    rollout.count(50_000)
    if form != "in a turn":
        rollout.line("event_msg", {"type": "task_complete"})
    if form in ("task", "before the prompt"):
        rollout.line("event_msg", {"type": "task_started", "model_context_window": 258_400})
    if form == "notice":
        rollout.turn()
    rollout.compacted(said("user", "Look."), said("user", SUMMARY))
    if form == "before the prompt":
        rollout.typed("And now?")
        rollout.items(said("assistant", "Now."))
    if form == "notice":
        rollout.line("event_msg", {"type": "agent_message", "message": "Compact task completed"})
    else:
        rollout.line("event_msg", {"type": "task_complete"})
    rollout.typed("On.")
    session = read(tmp_path, rollout)
    assert [each.trigger for each in session.facts.compactions] == [trigger]
    [backtest] = run_backtests(LabRecording(session))
    assert [each.testable for each in backtest.results] == [trigger is None]


def test_a_trigger_that_is_recorded_after_a_rollback_reaches_the_session(tmp_path: Path) -> None:
    rollout = begun()
    for text in ("Look.", "A mistake."):
        rollout.typed(text)
        rollout.items(said("assistant", "Yes."))
        rollout.count(50_000)
    rollout.line("event_msg", {"type": "thread_rolled_back", "num_turns": 1})
    rollout.line("event_msg", {"type": "task_started", "model_context_window": 258_400})
    rollout.compacted(said("user", "Look."), said("user", SUMMARY))
    path = rollout.write(tmp_path / "rollout.jsonl")
    growing = make_scanner(choose_session(path))
    growing.advance()
    assert [each.trigger for each in growing.session().facts.compactions] == [None]
    rollout.line("event_msg", {"type": "task_complete"})
    rollout.write(path)
    growing.advance()
    assert [each.trigger for each in growing.session().facts.compactions] == ["manual"]


@pytest.mark.parametrize("after", [53_043, 50_000, 47_582])
def test_one_call_of_another_conversation_is_no_drop(tmp_path: Path, after: int) -> None:
    rollout = begun()
    rollout.typed("Look.")
    for size in (48_000, 50_086, 12_546, after, 54_000, 20_000):
        rollout.items(asked(f"c{size}"), answered(f"c{size}", "x" * 4_000))
        rollout.count(size)
    path = rollout.write(tmp_path / "rollout.jsonl")
    growing = make_scanner(choose_session(path))
    growing.advance()
    session = growing.session()
    assert [drop.tokens for drop in session.drops] == [34_000]
    for size in (21_000, 55_000):
        rollout.items(asked(f"d{size}"), answered(f"d{size}", "x" * 4_000))
        rollout.count(size)
    rollout.write(path)
    growing.advance()
    assert growing.session().drops == ct.open_session(path).drops
    assert [drop.tokens for drop in growing.session().drops] == [34_000]
    after_side_request = growing.session().facts.request_message[3]
    assert build_report(growing.session(), after_side_request)["window"]["recorded_tokens"] == 50_086
