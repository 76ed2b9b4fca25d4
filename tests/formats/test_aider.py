"""Aider's chat histories."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import context_tui as ct
from context_tui.formats.aider import AiderFormat
from context_tui.formats.opening import open_session, sessions_in
from context_tui.lab.replay.recording import Recording
from context_tui.session.facts import Usage
from context_tui.session.values import BlockFlag, Role

HISTORY = """
# aider chat started at 2026-01-02 03:04:05

> Main model: gpt-x with diff edit format  

#### first  
#### second  

An answer.

#### A heading of it

> a quotation

> Tokens: 3.2k sent, 1.0k cache hit, 21 received. Cost: $0.01 message, $0.01 session.  
> Applied edit to a  

#### /add b  

#### /clear  

#### next  

Another.

# aider chat started at 2026-01-03 03:04:05

#### other  
"""


def test_sessions_of_a_history(tmp_path: Path) -> None:
    path = tmp_path / "h.md"
    path.write_text(HISTORY)
    first, second = sessions_in(path)
    assert "best effort" in first.note and (first.title, second.title) == ("first", "other")
    session = open_session(f"{path}#0")
    facts = session.facts
    assert facts.model == "gpt-x" and not facts.problems
    assert facts.requests == [Usage(2200, 1000, 0, 0, 21)]
    said = [session.content.blocks(message)[0]["text"] for message in range(len(facts))]
    assert said == ["first\nsecond", "An answer.\n\n#### A heading of it\n\n> a quotation", "next", "Another."]
    assert [*session.context_at().order] == [2, 3] and not facts.compactions
    assert [(epoch.message, epoch.cause) for epoch in facts.epochs] == [(0, "start"), (2, "clear")]
    assert facts.time[0] == 1_767_323_045_000


def test_every_reply_is_a_call_also_right_before_and_after_a_clear(tmp_path: Path) -> None:
    path = tmp_path / "h.md"
    counted = "> Tokens: {}.0k sent, 21 received. Cost: $0.01 message, $0.01 session.  \n\n"
    texts = (f"#### ask {n}  \n\nAnswer {n}.\n\n{counted.format(n)}#### /clear  \n\n" for n in range(1, 4))
    path.write_text("\n# aider chat started at 2026-01-02 03:04:05\n\n" + "".join(texts))
    for handling in ("keep", "ignore"):
        made = ct.replay.replay(open_session(path), "none", recorded=handling)
        assert [call.message for call in made.calls] == [1, 3, 5]
    recording = Recording(open_session(path))
    assert recording.sizes == [1_000, 2_000, 3_000] and not recording.undoable_messages


@pytest.mark.parametrize("before", ["#### /clear  \n\n", "", "> Retrying.  \n\n"])
def test_an_empty_reply_is_a_call_of_its_own(tmp_path: Path, before: str) -> None:
    """Aider reports the tokens of every request, but writes a reply only if it has text."""
    path = tmp_path / "h.md"
    counted = "> Tokens: {}.0k sent, 21 received. Cost: $0.01 message, $0.01 session.  \n\n"
    empty = f"{before}#### two  \n> Empty response received from LLM.  \n{counted.format(2)}"
    talk = f"#### one  \n\nAnswer.\n\n{counted.format(1)}{empty}#### three  \n\nYes.\n\n{counted.format(3)}"
    path.write_text("\n# aider chat started at 2026-01-02 03:04:05\n\n" + talk)
    session = open_session(path)
    assert Recording(session).sizes == [1_000, 2_000, 3_000]
    assert [message["role"] for message in session.to_messages()][-3:] == ["user", "user", "assistant"]


def test_a_byte_order_mark_hides_no_session(tmp_path: Path) -> None:
    path = tmp_path / "h.md"
    path.write_text("\ufeff# aider chat started at 2026-01-01 10:00:00\n\n#### Look.  \n\nYes.\n")
    assert len(open_session(path)) == 2


def elements(tmp_path: Path, text: str) -> list[tuple[str, str]]:
    """Who says what in the only session of a history, in one line each."""
    path = tmp_path / "h.md"
    path.write_text(f"\n# aider chat started at 2026-01-02 03:04:05\n\n{text}")
    return [(each["role"], each["content"][0]["text"].replace("\n", "|")) for each in open_session(path).to_messages()]


def test_lines_that_were_typed_at_once_are_one_message(tmp_path: Path) -> None:
    said = elements(tmp_path, "\n#### one  \n####   \n#### two  \n\n#### again  \n\nYes.\n\n#### no  \nStill.\n\n\n")
    assert said == [
        ("user", "one||two"),
        ("user", "again"),
        ("assistant", "Yes."),
        ("user", "no"),
        ("assistant", "Still."),
    ]


def test_a_heading_in_a_reply_stays_in_it(tmp_path: Path) -> None:
    reply = "Steps:\n#### first  \ndo it\n> **Note**  \n\n#### second\n\n> a quotation\n"
    assert elements(tmp_path, f"\n#### go  \n\n{reply}\n\n") == [
        ("user", "go"),
        ("assistant", reply.strip().replace("\n", "|")),
    ]


def test_answers_and_commands_are_not_sent(tmp_path: Path) -> None:
    """``/ask`` sends what stands behind it, which is written once more."""
    question = "Add file to the chat? (Y)es/(N)o/(A)ll/(S)kip all/(D)on't ask again [Yes]: "
    text = (
        f"\n#### /ask why  \n\n#### why  \n\nSo.\n\n> a.py  \n\n#### {question}skip  \n> {question}s  \n\n#### !ls  \n"
    )
    assert elements(tmp_path, text) == [("user", "why"), ("assistant", "So.")]


def test_an_output_of_several_lines_is_the_console_s(tmp_path: Path) -> None:
    shell = "> mkdir -p a   \ntouch a/b  \n> git add a\ngit commit  \n> Run shell commands? (Y)es/(N)o [Yes]: y  \n"
    assert elements(tmp_path, f"\n#### go  \n\nDo.\n\n> Tokens: 1k sent, 2 received.  \n{shell}") == [
        ("user", "go"),
        ("assistant", "Do."),
    ]


@pytest.mark.parametrize("mark", ["", "> "])
def test_a_failed_edit_is_told_to_the_model(mark: str, tmp_path: Path) -> None:
    """Older versions mark the first of its lines only."""
    end = "  " if mark else ""
    lines = [
        "# 1 SEARCH/REPLACE block failed to match!",
        "## This block:",
        "x",
        "Just reply with fixed versions of it.",
    ]
    lines[-1] = "Just reply with fixed versions of the block above."
    told = "".join(f"{mark if n else '> '}{line}{end if n < 3 else '  '}\n" for n, line in enumerate(lines))
    text = f"\n#### go  \n\nAn edit.\n\n> Tokens: 1k sent, 2 received.  \n{told}> Commit 1  \n\nAnother.\n\n"
    said = elements(tmp_path, text)
    assert [role for role, _ in said] == ["user", "assistant", "user", "assistant"]
    assert said[2][1] == "|".join(lines)
    session = open_session(tmp_path / "h.md")
    assert session.facts.block_flags[session.facts.first_block[2]] & BlockFlag.INJECTED


def test_the_history_of_the_project_is_found(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    inside = tmp_path / "src"
    inside.mkdir()
    own, other = tmp_path / ".aider.chat.history.md", tmp_path / "other.md"
    for path in (own, other):
        path.write_text(HISTORY)
    form = AiderFormat()
    assert [(each.path, each.project) for each in form.find_sessions({}, inside)] == [(own, tmp_path.name)]
    named = form.find_sessions({"AIDER_CHAT_HISTORY_FILE": str(other)}, inside)
    assert [each.path for each in named] == [other, own]


def test_the_recording(shared: Path) -> None:
    """What Aider's own rules of writing say, counted by themselves."""
    path = shared / "corpus" / "aider" / "afi-core__aider.chat.history.md"
    blocks = [block.splitlines() for block in re.findall(r"\n\n((?:#### .*  \n)+)", path.read_text())]
    sent = [block for block in blocks if block[0][5] not in "/!" and not re.search(r"\(Y\)es/.*: \w+  $", block[0])]
    sessions = [open_session(f"{info.path}#{info.id}") for info in sessions_in(path)]
    typed = [
        row
        for session in sessions
        for row, kind in enumerate(session.facts.role)
        if kind == Role.USER and not session.facts.block_flags[session.facts.first_block[row]] & BlockFlag.INJECTED
    ]
    assert (len(blocks), sum(map(len, blocks)), len(sent), len(typed)) == (49, 350, 28, 28)
    assert sum(len(session.facts.requests) for session in sessions) == 39
