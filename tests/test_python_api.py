"""The Python API of DESIGN §5: names, defaults, errors."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import context_tui as ct
from tests.formats.recordings import Recording, call, result, text, usage


def recording() -> Recording:
    made = Recording()
    for turn in range(5):
        made.user(f"turn {turn}")
        made.assistant(call(f"t{turn}", "Bash"), use=usage(90_000 + turn))
        made.results(result(f"t{turn}", "x" * 4_000))
    return made


def test_the_example(tmp_path: Path) -> None:
    path = recording().write(tmp_path, "rollout.jsonl")
    session = ct.open_session(str(path))
    plan = ct.plan(session, "defect-microcompact", keep_recent_turns=3, min_clear_tokens=512)
    assert (plan.has_changes, plan.tokens_before - plan.tokens_after) == (True, 2 * (1_000 - 21))
    assert plan.boundary is None and plan.reason == "" and not plan.trigger.fires
    assert [(edit.message, edit.block, edit.tool) for edit in plan.edits] == [(2, 0, "Bash"), (5, 0, "Bash")]
    assert plan.report == {"tokens_before": plan.tokens_before, "tokens_after": plan.tokens_after, "cleared": 2}
    assert plan.messages_to_summarise == [] and plan.previous_summary is None
    after = ct.apply(session, plan)
    assert after is not session and after.to_messages()[2]["content"][0]["content"].startswith("[tool output cleared")
    assert ct.tokens.estimate(after, "bytes/4") == plan.tokens_after
    assert session.to_messages()[2]["content"][0]["content"] == "x" * 4_000

    full = ct.plan(session, "defect-compact", threshold=4_000)
    assert full.boundary == 12 and full.tokens_after == 1_002 and full.report is None
    assert [message["role"] for message in full.messages_to_summarise] == ["user", "assistant", "user"] * 4
    assert full.messages_to_summarise[2]["content"][0]["content"] == "x" * 2_000 + "\n…[truncated for summary]"
    assert len(ct.apply(session, full, summary="...")) == 4


def test_every_name_is_there_and_loaded_when_used() -> None:
    names = (
        "Error PlanError SeveralSessions SummarizerError UnreadableSession "
        "apply from_messages measure open_session plan replay sessions_in sweep tokens"
    )
    assert sorted(ct.__all__) == dir(ct) == names.split()
    for name in ct.__all__:
        assert inspect.getdoc(getattr(ct, name)), name
    with pytest.raises(AttributeError, match="nonsense"):
        _ = ct.nonsense
    code = (
        "import context_tui, sys; print(*[m for m in sys.modules if m.startswith(('pydantic', 'msgspec', 'textual'))])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.strip() == b""


def test_errors() -> None:
    for error in (ct.UnreadableSession, ct.SeveralSessions, ct.PlanError, ct.SummarizerError):
        assert issubclass(error, ct.Error) and issubclass(error, Exception)
    assert ct.SeveralSessions("several", ["a", "b"]).ids == ["a", "b"]


def test_several_sessions(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        recording().write(tmp_path, name)
    with pytest.raises(ct.SeveralSessions) as caught:
        ct.open_session(tmp_path)
    assert caught.value.ids == [str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")]
    assert [info.path for info in ct.sessions_in(tmp_path)] == caught.value.ids
    assert len(ct.open_session(caught.value.ids[0])) == 15


@pytest.mark.parametrize(
    ("policy", "keywords"),
    [
        ("defect-microcompact", {"keep_recent_turns": 3, "min_clear_tokens": 512, "microcompact_ratio": 0.6}),
        (
            "defect-compact",
            {"threshold": 170_000, "assistant_boundary": False, "compact_soft_ratio": 0.7, "compact_ratio": 0.85},
        ),
        (
            "koda-microcompact",
            {"gap_seconds": 300, "keep_recent": 5, "min_tokens": 50, "compactable_tools": ["Read", "Bash"]},
        ),
        ("agent-sdk-prune", {"context_budget": 160_000, "threshold_pct": 70, "max_chars": 2_000, "preserve_tail": 4}),
        ("agent-sdk-compact", {"context_budget": 160_000, "min_keep": 4}),
        ("manual", {"clear": [(2, 0)], "cut": None}),
        ("chain", {"policies": ["defect-microcompact", "defect-compact"]}),
    ],
)
def test_parameters_are_keywords_with_these_defaults(tmp_path: Path, policy: str, keywords: dict[str, Any]) -> None:
    session = recording().open(tmp_path)
    given = ct.plan(session, policy, at=len(session), window=200_000, idle_seconds=300, force=False, **keywords)
    defaults = ct.plan(session, policy).params.model_dump()
    for name, value in keywords.items():
        if name not in ("threshold", "compactable_tools", "clear"):
            assert defaults[name] == (tuple(value) if isinstance(value, list) else value), name
    assert given.params.model_dump().keys() == defaults.keys()


def test_a_plan_at_a_point(tmp_path: Path) -> None:
    session = recording().open(tmp_path)
    assert len(ct.plan(session, "manual", at=4).context) == 4
    assert len(ct.apply(session, ct.plan(session, "manual", at=4, clear="2:0"))) == 4
    assert session.to_messages(2) == session.to_messages()[:2]


def test_sessions_without_a_file() -> None:
    session = ct.from_messages([{"role": "user", "content": "hello"}, {"role": "assistant", "content": [text("hi")]}])
    plan = ct.plan(session, "agent-sdk-compact", min_keep=1)
    assert ct.apply(session, plan, summary="said hello").to_messages()[-1]["content"] == [text("hi")]
    assert ct.tokens.estimate(session) == 1
    assert ct.tokens.estimate({"type": "text", "text": "x" * 8}) == 2
    assert ct.tokens.estimate(ct.from_messages([])) is None
