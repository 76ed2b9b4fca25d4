"""The digest made by rules: it says what happened, quotes everything, and keeps to its bounds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_tui.policies.builtin.defect import SUMMARY_SECTIONS as DEFECT_SECTIONS
from context_tui.session.markers import CLAUDE_CODE_SUMMARY, DEFECT_SUMMARY, KODA_SUMMARY, SDK_SUMMARY, SDK_SUMMARY_END
from context_tui.summarizer.extract import EXTRACT_LABEL, build_extract
from context_tui.summarizer.tool_calls import AnsweredCall, FailedCall, find_answered_calls

Message = dict[str, Any]
PROSE = "The exporter must keep every field and must not touch the database while it runs. " * 8


def used(name: str, result: str = "ok", error: bool = False, **given: Any) -> list[Message]:
    """A call and its answer."""
    call_id = json.dumps([name, given])
    return [
        {"role": "assistant", "content": [{"type": "tool_use", "id": call_id, "name": name, "input": given}]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": call_id, "content": result, "is_error": error}],
        },
    ]


SESSION: list[Message] = [
    {"role": "user", "content": "Add a retry to the exporter, at most 3 tries.\n" + PROSE},
    {"role": "assistant", "content": [{"type": "text", "text": "Looking at the code."}]},
    *used("Read", path="src/export.py", result=PROSE * 4),
    *used("read_file", file_path="src/util.py"),
    *used("Edit", file_path="src/export.py", old_string="a", new_string="b"),
    *used("write_file", path="src/never.py", error=True, result="Permission denied\nsecond line"),
    *used("Bash", command="pytest -q"),
    *used("shell", command=["bash", "-lc", "ruff check"]),
    *used("Grep", path="src", pattern="retry"),
    {"role": "user", "content": [{"type": "text", "text": "<system-reminder>be good</system-reminder>"}]},
    {"role": "user", "content": [{"type": "text", "text": "Never change the tests."}]},
    {"role": "assistant", "content": [{"type": "text", "text": "Retry is in; the tests pass."}]},
]


def section(digest: str, heading: str) -> list[str]:
    """The lines below a heading."""
    lines = digest.splitlines()
    start = lines.index(heading) + 1
    below = []
    for line in lines[start:]:
        if line.startswith("#") or not line:
            break
        below.append(line)
    return below


def test_what_it_tells() -> None:
    digest = build_extract(SESSION)
    assert digest.splitlines()[0] == EXTRACT_LABEL
    assert "not a model's summary" in EXTRACT_LABEL
    assert section(digest, "## Goal")[0].startswith("- Add a retry to the exporter, at most 3 tries. The exporter")
    assert section(digest, "### User messages") == ["- Never change the tests."]
    assert section(digest, "### Last notes of the assistant") == [
        "- Looking at the code.",
        "- Retry is in; the tests pass.",
    ]
    assert section(digest, "### Last errors") == ["- write_file: Permission denied second line"]
    assert section(digest, "### Commands run") == ["- pytest -q", "- ruff check"]
    assert section(digest, "### Changed") == ["- src/export.py"]  # the failed write changed nothing
    assert section(digest, "### Read") == ["- src/util.py"]  # what was changed too is told once
    assert "system-reminder" not in digest
    headings = [line[3:] for line in digest.splitlines() if line.startswith("## ")]
    assert headings == [name for name in DEFECT_SECTIONS if name in headings]


def test_a_file_is_told_once_where_it_was_last() -> None:
    edits = [used("Edit", path=path) for path in ("a.py", "b.py", "a.py")]
    digest = build_extract([*SESSION, *(message for edit in edits for message in edit)])
    assert section(digest, "### Changed") == ["- src/export.py", "- b.py", "- a.py"]


def test_an_earlier_summary_is_kept() -> None:
    assert "> - old goal" in build_extract(SESSION, "## Goal\n- old goal")
    recorded: Message = {"role": "assistant", "content": f"{DEFECT_SUMMARY}\n- old goal"}
    assert section(build_extract([recorded, *SESSION]), "### Earlier summary") == ["> - old goal"]
    sdk: Message = {"role": "user", "content": f"{SDK_SUMMARY}- old goal{SDK_SUMMARY_END}"}
    digest = build_extract([sdk, *SESSION])
    assert section(digest, "### Earlier summary") == ["> - old goal"]
    assert "Add a retry" in section(digest, "## Goal")[0]


@pytest.mark.parametrize(
    ("role", "recorded", "told"),
    [
        ("user", f"{KODA_SUMMARY}\n\n- old goal", "- old goal"),
        ("user", f"{SDK_SUMMARY}- old goal{SDK_SUMMARY_END}", "- old goal"),
        ("assistant", f"{DEFECT_SUMMARY}\n- old goal", "- old goal"),
        ("user", f"{CLAUDE_CODE_SUMMARY} old goal", f"{CLAUDE_CODE_SUMMARY} old goal"),
    ],
)
def test_a_summary_is_known_by_what_every_reader_knows_it_by(role: str, recorded: str, told: str) -> None:
    summary: Message = {"role": role, "content": recorded}
    assert section(build_extract([summary, *SESSION]), "### Earlier summary") == [f"> {told}"]


def test_words_that_could_be_anyones_are_a_summary_at_the_beginning_only() -> None:
    digest = build_extract([*SESSION, {"role": "user", "content": f"{CLAUDE_CODE_SUMMARY}, says the log."}])
    assert "Earlier summary" not in digest
    assert section(digest, "### User messages")[-1] == f"- {CLAUDE_CODE_SUMMARY}, says the log."
    told = build_extract([*SESSION, {"role": "user", "content": f"{DEFECT_SUMMARY} is what defect writes."}])
    assert "Earlier summary" not in told


def test_tool_names_of_many_runtimes() -> None:
    def told(name: str, **given: Any) -> AnsweredCall | FailedCall:
        (call,) = find_answered_calls(used(name, **given))
        return call

    for name in (
        "Read",
        "read",
        "read_file",
        "ReadFile",
        "view",
        "NotebookRead",
        "fs.read_text_file",
        "mcp__fs__read_file",
    ):
        assert told(name, path="a.py") == AnsweredCall(read=("a.py",)), name
    for name in (
        "Edit",
        "MultiEdit",
        "Write",
        "write_file",
        "str_replace",
        "create_file",
        "apply_patch",
        "NotebookEdit",
    ):
        assert told(name, file_path="a.py") == AnsweredCall(changed=("a.py",)), name
    for name in ("Bash", "bash", "shell", "exec_command", "run_terminal_cmd", "execute_bash"):
        assert told(name, command="ls") == AnsweredCall(command="ls"), name
    assert told("str_replace_based_edit_tool", command="view", path="a.py") == AnsweredCall(read=("a.py",))
    assert told("str_replace_based_edit_tool", command="create", path="a.py") == AnsweredCall(changed=("a.py",))
    patch = "*** Begin Patch\n*** Update File: a.py\n@@\n*** Add File: b.py\n+x\n*** End Patch"
    assert told("apply_patch", input=patch) == AnsweredCall(changed=("a.py", "b.py"))
    assert told("shell", command=["git", "status"]) == AnsweredCall(command="git status")
    assert told("WebSearch", query="x") == AnsweredCall()
    assert told("Read", path=7) == AnsweredCall()


def test_it_is_bounded() -> None:
    long: list[Message] = [
        {"role": role, "content": f"{index} 終 " + PROSE} for index in range(400) for role in ("user", "assistant")
    ]
    for bound in (200, 1_000, 4_000, 16_000):
        digest = build_extract(long, max_bytes=bound)
        assert len(digest.encode()) <= bound
        assert len(digest) > 0.4 * bound
    digest = build_extract(long)
    assert "- 399 終 " in digest  # the newest
    assert "- 0 終 " in digest  # and what it began with
    assert "earlier left out)" in digest


def test_a_small_history_gets_the_label_alone() -> None:
    assert build_extract([]) == EXTRACT_LABEL
    assert build_extract([{"role": "user", "content": "hi"}]) == EXTRACT_LABEL


words = st.text(st.sampled_from("abc /.\n\t'\"é終[]#->…(") | st.characters(exclude_categories=["Cs"]), max_size=80)
texts = st.builds(lambda text: {"type": "text", "text": text}, words)
names = st.sampled_from(["Read", "Edit", "Bash", "Grep", ""])
keys = st.sampled_from(["path", "file_path", "command", "x"])
histories = st.lists(
    st.one_of(
        st.builds(lambda role, c: [{"role": role, "content": c}], st.sampled_from(["user", "assistant"]), words),
        st.builds(lambda c: [{"role": "user", "content": c}], st.lists(texts, max_size=3)),
        st.builds(lambda n, k, v, r, e: used(n, r, e, **{k: v}), names, keys, words, words, st.booleans()),
    ),
    max_size=8,
).map(lambda groups: [message for group in groups for message in group])


def quoted(line: str) -> str:
    """What a line of the digest quotes, without white space."""
    for prefix in ("- ", "> "):
        line = line.removeprefix(prefix)
    return "".join(line.removesuffix("…").split())


@given(histories, st.none() | words, st.integers(100, 3000))
def test_it_invents_nothing_and_never_grows(history: list[Message], previous: str | None, bound: int) -> None:
    digest = build_extract(history, previous, bound)
    said: list[str] = [previous or ""]
    names_told = set()
    for message in history:
        for block in [message] if isinstance(message["content"], str) else message["content"]:
            said += [str(block.get(key, "")) for key in ("text", "content")]
            said += [value for value in block.get("input", {}).values()]
            names_told.add(block.get("name", ""))
    whole = "".join("".join(said).split())
    for line in digest.split("\n")[1:]:
        if line.startswith(("#", "(")) or not line:
            continue
        tool, _, rest = quoted(line).partition(":")
        assert quoted(line) in whole or (tool in names_told and rest in whole), line
    size = sum(len(json.dumps(message, ensure_ascii=False).encode()) for message in history) + len(
        (previous or "").encode()
    )
    assert len(digest.encode()) <= max(len(EXTRACT_LABEL), min(bound, size))
    assert digest == build_extract(history, previous, bound)
